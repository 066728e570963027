"""PyTorch's arguments, checked: what is Tureen's way of the same, what is not needed, and what cannot be
done."""
from __future__ import annotations

import warnings
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import torch

from .. import recipes, vocabulary
from ..vocabulary import INSTEAD, Pipeline, listed
from .tensors import channel_numbers

#  The values that ask for nothing.
_IDLE: Dict[str, Sequence[Any]] = {
    "num_workers": (0, None), "persistent_workers": (False, None), "prefetch_factor": (None,),
    "pin_memory": (False, None), "pin_memory_device": ("", None), "multiprocessing_context": (None,)}

_DTYPES = {torch.uint8: "uint8", torch.float16: "float16", torch.bfloat16: "bfloat16",
           torch.float32: "float32"}


def check_dataset(dataset: Any) -> str:
    if not isinstance(dataset, str):
        raise TypeError("dataset is the name of a data set that the server serves, not a "
                        f"{type(dataset).__name__}: start one with `tureen serve --dataset train=FOLDER`, "
                        "and give \"train\"")
    return dataset


def refuse_impossible(given: Mapping[str, Any]) -> None:
    """TypeError for the arguments that cannot be honoured, with what there is instead."""
    for name, value in given.items():
        if value is not None:
            raise TypeError(f"{name}= cannot be given: {INSTEAD[name]}")


def explain_unneeded(given: Mapping[str, Any], stacklevel: int) -> None:
    """One warning for all arguments that are accepted and change nothing."""
    asked = [name for name, value in given.items() if value not in _IDLE[name]]
    if not asked:
        return
    why = ["samples are prepared by the server, ahead of the loop, so there are no worker processes here"]
    if "prefetch_factor" in asked:
        why.append("slots= says how many batches may be on their way")
    if "pin_memory" in asked or "pin_memory_device" in asked:
        why.append("device=\"cuda\" copies batches straight from pinned shared memory")
    warnings.warn(f"tureen.torch.DataLoader does not need {_listed(asked)}: {'; '.join(why)}", UserWarning,
                  stacklevel=stacklevel + 1)


def _listed(names: List[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def order_of(shuffle: Optional[bool], sampler: Any, order: Optional[str], seed: Optional[int]) -> str:
    """The order that the server is asked for.  ValueError where two of the arguments contradict each
    other."""
    if sampler is not None:
        if isinstance(sampler, (str, bytes)) or not hasattr(sampler, "__iter__"):
            raise TypeError(f"sampler must give the samples' ids when it is iterated over, and {sampler!r} "
                            "cannot be")
        if shuffle:
            raise ValueError("sampler= already says the order: leave shuffle out")
        if order not in (None, "list"):
            raise ValueError(f"sampler= already says the order: leave order={order!r} out")
        return "list"
    if shuffle is None:
        return order or ("list" if seed is None else "seeded")
    return vocabulary.order_of(shuffle, order, seed)


def pipeline_of(transform: Any, dtype: Any, normalize: Any) -> Pipeline:
    """What the server is asked to do: `transform`, and behind it what `dtype` and `normalize` add."""
    pipeline = listed(transform)
    if dtype is None and normalize is None:
        return pipeline
    if isinstance(pipeline, str):
        if pipeline not in _RECIPES:
            raise ValueError("dtype and normalize are written behind the transform's operations, and those "
                             f"of recipe {pipeline!r} are the server's alone: give the transform as a list, "
                             "or tureen.transforms")
        pipeline = _RECIPES[pipeline]().to_json()
    for name, step in (("normalize", _normalize(normalize)), ("dtype", _cast(dtype))):
        if step is not None:
            if any(other.get("op") == step["op"] for other in pipeline):
                raise ValueError(f"the transform has a {step['op']!r} of its own: leave {name} out")
            pipeline.append(step)
    return pipeline


#  The server's own, so that something can be written behind them.
_RECIPES = {"train": recipes.imagenet_train, "eval": recipes.imagenet_eval}


def _normalize(value: Any) -> Optional[Dict[str, Any]]:
    if value is None:
        return None
    try:
        mean, std = value
    except (TypeError, ValueError):
        raise TypeError("normalize is a pair (mean, std), each a number or one for each channel, not "
                        f"{value!r}") from None
    return {"op": "normalize", "mean": _plain_numbers("mean", mean), "std": _plain_numbers("std", std)}


def _plain_numbers(name: str, value: Any) -> Union[float, List[float]]:
    numbers = channel_numbers(name, value)
    return numbers[0] if len(numbers) == 1 else list(numbers)


def _cast(dtype: Any) -> Optional[Dict[str, Any]]:
    if dtype is None:
        return None
    if dtype not in _DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(str(known) for known in _DTYPES)}, not {dtype!r}")
    return {"op": "cast", "dtype": _DTYPES[dtype]}

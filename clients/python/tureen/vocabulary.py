"""The arguments that tureen.Loader and tureen.torch.DataLoader have in common under PyTorch's names, and
words for those that only one of the two has."""
from __future__ import annotations

import difflib
import inspect
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

Pipeline = Union[str, List[Dict[str, Any]]]

#  Instead of PyTorch's arguments that neither can honour.
INSTEAD = {
    "batch_sampler": "give sampler=, batch_size= and drop_last=: the batches are cut from the sampler's ids "
    "in their order",
    "collate_fn": "batches come whole from the server; work on them in the loop, or by map_batch=; "
    "fields=True gives a dict of all fields",
    "worker_init_fn": "what is random is the server's, and seed= settles it; for functions (map=) there is "
    "tureen.sample_seed()",
    "generator": "the server draws; give seed= for an order that comes again, or a sampler= that has the "
    "generator"}

_NOT_NEEDED = ("the server prepares samples ahead of the loop, so there are no worker processes here: leave "
               "it out (slots= says how many batches may be on their way, map_workers= how many processes "
               "call map=)")
_ON_THE_DEVICE = "batches are NumPy arrays: tureen.torch.DataLoader copies tensors to a device"
#  Instead of DataLoader's, in a Loader.
IN_A_LOADER = {
    **INSTEAD,
    "batch_sampler": "give order=\"list\", ids= and batch_size=: the batches are cut from the ids in their "
    "order",
    "collate_fn": "batches come whole from the server, as arrays by name; work on them in the loop, or by "
    "map_batch=",
    "generator": "the server draws; give seed= for an order that comes again, or the ids of an epoch by "
    "order=\"list\" and ids=",
    "sampler": "give order=\"list\" and ids=, its ids for one epoch; tureen.torch.DataLoader asks a sampler "
    "in each epoch",
    "fields": "a batch has all fields by name already, and the samples' ids in batch.ids",
    "dtype": "end the transform with tureen.transforms.Cast",
    "normalize": "end the transform with tureen.transforms.Normalize",
    "device": _ON_THE_DEVICE, "pin_memory": _ON_THE_DEVICE, "pin_memory_device": _ON_THE_DEVICE,
    "num_workers": _NOT_NEEDED, "persistent_workers": _NOT_NEEDED, "prefetch_factor": _NOT_NEEDED}


def refuse_unknown(kind: Callable[..., Any], given: Mapping[str, Any], instead: Mapping[str, str]) -> None:
    """TypeError for an argument that `kind` does not have, with what it has instead."""
    for name in given:
        if name in instead:
            raise TypeError(f"{name}= cannot be given: {instead[name]}")
        known = inspect.signature(kind).parameters
        near = difflib.get_close_matches(name, known, 1)
        raise TypeError(f"{kind.__name__}() got an unexpected keyword argument {name!r}"
                        + (f": did you mean {near[0]}?" if near else ""))


def order_of(shuffle: Any, order: Optional[str], seed: Optional[int]) -> str:
    """The order that `shuffle` asks for.  ValueError where `order` contradicts it."""
    if shuffle not in (False, True):
        raise TypeError(f"shuffle must be True, False or None, not {shuffle!r}")
    if order is None:
        return "list" if not shuffle else "shared" if seed is None else "seeded"
    if shuffle == (order == "list"):
        raise ValueError(f"shuffle={shuffle} and order={order!r} contradict each other: leave shuffle out")
    return order


def one_of(transform: Any, pipeline: Any) -> Any:
    """The two are names of one argument."""
    if transform is not None and pipeline is not None:
        raise ValueError("transform= and pipeline= are names of one argument: leave one of them out")
    return pipeline if transform is None else transform


def listed(transform: Any) -> Pipeline:
    """As operations, or a recipe's name."""
    if isinstance(transform, str):
        return transform
    if callable(getattr(transform, "to_json", None)) and not isinstance(transform, type):
        return list(transform.to_json())
    if isinstance(transform, Sequence) and all(isinstance(step, Mapping) for step in transform):
        return [dict(step) for step in transform]
    from . import transforms
    return transforms.translate(transform).to_json()

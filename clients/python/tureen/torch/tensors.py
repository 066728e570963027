"""From a batch's NumPy arrays to what a training loop gets: tensors over the same memory, shaped as PyTorch
expects."""
from __future__ import annotations

import functools
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
import torch

from ..batch import Array, Batch
from ..mixing import Drawn, Mixer
from ..outputs import are_stacked, has_channels_first, outputs
from ..ragged import Ragged as Rows
from ..wire import Field
from .ragged import Ragged

Tensor = torch.Tensor
#  One field of a batch: a tensor, or the strings of a text.
Value = Union[Tensor, List[str]]

#  PyTorch computes with few unsigned types; these hold the same numbers.  There is none for uint64.
_WIDER = {"uint16": np.int32, "uint32": np.int64}

#  How a field becomes a Value.
PLAIN, IMAGE, TEXT, RAGGED = "plain", "image", "text", "ragged"


class Column(NamedTuple):
    """One field, and what is made of it.

    kind        PLAIN: a tensor of the field's own shape.  IMAGE: stored as height, width, channels; the
                tensor has the channels first, over the same memory.  TEXT: strings.  RAGGED: a Ragged, in
                memory of its own, unless functions (map=) get the field as it lies in the batch
    label       one of the data set's labels; else the pipeline makes it
    """
    field: Field
    kind: str
    label: bool


class Layout:
    """What becomes of one job's batches; the same for all of them.  TypeError for a field that PyTorch has no
    type for.

    fields      each batch is a dict by name; else (inputs, labels), each of them a dict only where it has
                several fields; of the labels only the one that is called `label`, where there is one
    ids         the samples' ids come along: as the tuple's last, or by the name "ids"
    mixer       mixes the samples of each batch: labels before they are copied to a device, images there
    """

    def __init__(self, fields: Sequence[Field], pipeline: Sequence[Mapping[str, Any]], by_name: bool,
                 ids: bool, mixer: Optional[Mixer] = None) -> None:
        self._mixer = mixer
        self.columns = columns(fields, pipeline)
        self._by_name = by_name
        self._ids = ids
        if ids and any(column.field.name == "ids" for column in self.columns):
            raise ValueError("ids=True: the data set has a label named \"ids\" already; the samples' ids "
                             "would hide it")

    def host(self, batch: Batch) -> Dict[str, Value]:
        """The fields as they lie in the batch's memory, images not yet turned: what can be copied in one
        piece.  Of ragged ones the values, and by the name of their lengths the offsets."""
        values: Dict[str, Value] = {}
        for column in self.columns:
            name = column.field.name
            if name not in batch:                           # lengths, which a ragged field has
                continue
            array = batch[name]
            if self._mixer is not None and name == self._mixer.label:
                array = self._mixer.labels(array, batch.ids, self._draw(batch))
                values[name] = torch.from_numpy(array)
            elif isinstance(array, Rows):
                values[name] = _host(column, array.values)
                values[column.field.lengths] = torch.from_numpy(array.offsets)
            else:
                values[name] = _host(column, array)
        return values

    def _draw(self, batch: Batch) -> Drawn:
        assert self._mixer is not None
        return self._mixer.draw(batch.ids, batch.epoch, batch.index)

    def present(self, values: Mapping[str, Value], batch: Batch) -> Any:
        """`values` (from `host`, or their copies on a device) as the loop gets them."""
        turned: Dict[str, Any] = {}
        for column in self.columns:
            name = column.field.name
            if name not in batch:
                continue
            value: Any = values[name]
            if self._mixer is not None and name in self._mixer.images:
                value = _mixed(value, self._mixer, self._draw(batch))
            if column.kind == IMAGE and isinstance(value, Tensor):
                value = value.movedim(-1, -3)
            if column.kind == RAGGED and isinstance(batch[name], Rows):
                value = Ragged(value, values[column.field.lengths])
            turned[name] = value
        if self._by_name:
            if self._ids:
                turned["ids"] = torch.from_numpy(batch.ids)
            return turned
        parts: List[Any] = [_part(turned, self.columns, label) for label in (False, True)]
        parts = [part for part in parts if part is not None]
        if self._ids:
            parts.append(torch.from_numpy(batch.ids))
        return tuple(parts) if len(parts) > 1 else parts[0]


def columns(fields: Sequence[Field], pipeline: Sequence[Mapping[str, Any]]) -> List[Column]:
    """`pipeline` is as JOINED wrote it out, `decode` first."""
    made, images = outputs(pipeline)
    made += [field.lengths for field in fields]
    channels_first, dimensions = has_channels_first(pipeline), 4 if are_stacked(pipeline) else 3
    found = []
    for field in fields:
        label = field.name not in made
        if field.dtype == np.uint64:
            raise TypeError(f"field {field.name!r} is uint64, for which PyTorch has no type: "
                            "tureen.Loader gives it as a NumPy array")
        kind = PLAIN
        if label and field.dtype == np.uint8 and len(field.shape) == 1:
            kind = TEXT
        elif field.lengths:
            kind = RAGGED
        elif field.name in images and len(field.shape) == dimensions and not channels_first:
            kind = IMAGE
        found.append(Column(field, kind, label))
    return found


def _host(column: Column, array: Array) -> Value:
    if column.kind == TEXT:
        return [bytes(row).rstrip(b"\0").decode("utf-8", "replace") for row in array]
    told = column.field.told
    if told == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    if told in _WIDER:
        return torch.from_numpy(array.astype(_WIDER[told]))
    return torch.from_numpy(array)


def _mixed(images: Tensor, mixer: Mixer, drawn: Drawn) -> Tensor:
    """torchvision's, of images as they lie in the batch; of uint8 rounded."""
    if drawn.box is not None:
        made, box = images.clone(), mixer.box(drawn)
        made[box] = images.roll(1, 0)[box]
        return made
    if images.dtype == torch.uint8:
        return _mixed(images.float(), mixer, drawn).round_().to(torch.uint8)
    return images.roll(1, 0).mul_(1 - drawn.share).add_(images.mul(drawn.share))


def _part(values: Mapping[str, Any], all_columns: Sequence[Column], label: bool) -> Optional[Any]:
    """The inputs, or the labels.  Beside a label `label`, which a loss takes, others come by name only."""
    if label and any(column.label and column.field.name == "label" for column in all_columns):
        return values.get("label")
    part = {column.field.name: values[column.field.name] for column in all_columns
            if column.label == label and column.field.name in values}
    if len(part) > 1:
        return part
    return next(iter(part.values()), None)


Numbers = Union[float, Sequence[float]]


def normalize(x: Tensor, mean: Numbers, std: Numbers, dtype: torch.dtype = torch.float32) -> Tensor:
    """(x / 255 - mean) / std, for a batch of images as the loader gives it, on whichever device it is.

        images = normalize(images.to("cuda", non_blocking=True), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))

    x           values from 0 to 255 of any type, [..., channels, height, width]; it is not changed
    mean, std   of values from 0 to 1, as torchvision's: a number, or one for each channel
    dtype       of the result; the arithmetic is that of float32 (float64 with float64), rounded once at the
                end

    The result keeps x's memory format (channels_last stays so).  On a CPU it has the bits of torchvision's
    ToTensor and Normalize, and of the pipeline's own `normalize`.
    """
    if not dtype.is_floating_point:
        raise TypeError(f"dtype must be a floating type such as torch.float16, not {dtype}")
    working = dtype if dtype == torch.float64 else torch.float32
    means, deviations = channel_numbers("mean", mean), channel_numbers("std", std)
    if not all(deviations):
        raise ValueError(f"std must not be 0: {std!r}")
    for name, numbers in (("mean", means), ("std", deviations)):
        if len(numbers) > 1 and (x.dim() < 3 or x.shape[-3] != len(numbers)):
            raise ValueError(f"{name} has {len(numbers)} numbers, and x of shape {list(x.shape)} "
                             f"has {x.shape[-3] if x.dim() >= 3 else 'no'} channels (its third dimension "
                             "from the end)")
    result = x.to(working, copy=True).div_(255)
    result.sub_(_constant(means, x.device, working)).div_(_constant(deviations, x.device, working))
    return result.to(dtype)


def channel_numbers(name: str, value: Any) -> Tuple[float, ...]:
    """A number, a sequence of them, or a tensor."""
    try:
        listed = value.tolist() if hasattr(value, "tolist") else value
        numbers = tuple(float(number) for number in (listed if isinstance(listed, (list, tuple))
                                                     else [listed]))
    except (TypeError, ValueError):
        numbers = ()
    if not numbers:
        raise TypeError(f"{name} must be a number, or one for each channel, not {value!r}")
    return numbers


@functools.lru_cache(maxsize=64)
def _constant(numbers: Tuple[float, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    """Along the channels.  Kept, for making one on a device is a copy of its own."""
    with torch.inference_mode(False):           # the first caller may be in it, and the next one not
        constant = torch.tensor(numbers, dtype=dtype, device=device)
        return constant.reshape(-1, 1, 1) if len(numbers) > 1 else constant.reshape(())

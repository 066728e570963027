"""A ragged field of a batch as tensors: all samples' rows, and where each sample's begin."""
from __future__ import annotations

from typing import Any, Iterator, List, Optional, Union

import torch

from ..ragged import padded_length

Tensor = torch.Tensor
Number = Union[int, float, bool]


class Ragged:
    """Rows of samples that have different numbers of them: tokens, boxes, bytes of a text.

        tokens.values, tokens.offsets       # as embedding_bag and attention of varying lengths take them
        tokens.padded(value=0)              # [samples, longest]
        tokens[3]                           # one sample's; list(tokens): all samples'
        tokens.to("cuda")

    values      [rows of all samples, ...]
    offsets     int64 [samples + 1]: sample i has `values[offsets[i]:offsets[i + 1]]`
    """
    __slots__ = ("values", "offsets", "__weakref__")

    def __init__(self, values: Tensor, offsets: Tensor) -> None:
        self.values = values
        self.offsets = offsets

    @staticmethod
    def of(room: Tensor, lengths: Tensor) -> Ragged:
        """Of [samples, most, ...] with rows behind each sample's that do not count: what functions
        (map_batch) get."""
        lengths = lengths.clamp(0, room.shape[1])
        counts = torch.arange(room.shape[1], device=room.device) < lengths[:, None]
        return Ragged(room[counts], torch.nn.functional.pad(lengths.cumsum(0), (1, 0)))

    @property
    def lengths(self) -> Tensor:
        """int64 [samples]: how many rows each has."""
        return self.offsets.diff()

    @property
    def longest(self) -> int:
        """The rows of the sample that has the most.  Of a tensor on a device it waits for that."""
        return int(self.lengths.max()) if len(self) else 0

    def padded(self, value: Number = 0, length: Optional[int] = None) -> Tensor:
        """[samples, length, ...]: `value` behind each sample's rows; on the values' device.

        length      None: of the longest sample of the batch.  ValueError if that one has more rows
        """
        length = padded_length(self.longest, length)
        padded = self.values.new_full((len(self), length, *self.values.shape[1:]), value)
        padded[self.mask(length)] = self.values
        return padded

    def mask(self, length: Optional[int] = None) -> Tensor:
        """bool [samples, length]: true where `padded` has a sample's own row."""
        length = self.longest if length is None else length
        return torch.arange(length, device=self.values.device) < self.lengths[:, None]

    def texts(self) -> List[str]:
        """Of bytes: each sample's, as UTF-8; what is none comes as U+FFFD."""
        if self.values.dtype != torch.uint8 or self.values.dim() != 1:
            raise TypeError(f"texts are made of bytes, and these are {self.values.dtype}"
                            f"{list(self.values.shape[1:])}")
        return [bytes(rows.tolist()).decode("utf-8", "replace") for rows in self]

    def to(self, *arguments: Any, **options: Any) -> Ragged:
        """As torch.Tensor.to, but that offsets keep their type: `tokens.to("cuda", non_blocking=True)`."""
        values = self.values.to(*arguments, **options)
        return Ragged(values, self.offsets.to(values.device, non_blocking=options.get("non_blocking", False)))

    def pin_memory(self) -> Ragged:
        return Ragged(self.values.pin_memory(), self.offsets.pin_memory())

    def __getitem__(self, sample: int) -> Tensor:
        if not -len(self) <= sample < len(self):
            raise IndexError(f"there are {len(self)} samples")
        sample %= len(self)
        return self.values[int(self.offsets[sample]):int(self.offsets[sample + 1])]

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.values.split(self.lengths.tolist()))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return (f"<tureen.torch.Ragged of {len(self)} samples: values {self.values.dtype}"
                f"{list(self.values.shape)} on {self.values.device}>")

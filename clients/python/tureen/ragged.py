"""A ragged field of a batch: of each sample as many rows as it has, one sample's behind the other's."""
from __future__ import annotations

from typing import Any, Iterator, List, Optional, Union

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Number = Union[int, float, bool]


def padded_length(longest: int, length: Optional[int]) -> int:
    """To how many rows samples are padded of which one has so many."""
    if length is None:
        return longest
    if length < longest:
        raise ValueError(f"a sample of the batch has {longest} rows, more than length={length}: give a "
                         "greater length, or leave longer samples' rest out in the pipeline (a smaller "
                         "shape, with \"truncate\": true)")
    return length


class Ragged:
    """Rows of samples that have different numbers of them: tokens, boxes, bytes of a text.

        tokens = batch["tokens"]
        tokens.values, tokens.offsets       # all tokens of the batch; where each sample's begin, and the end
        tokens[3]                           # those of one sample
        tokens.padded()                     # [samples, longest], zeros behind each sample's

    `len` is the number of samples; iterating gives each one's rows.

    room        [samples, most, ...]: what the server wrote, zeros behind each sample's rows
    lengths     int64 [samples]: how many rows each has
    """
    __slots__ = ("room", "lengths", "_values", "_offsets", "__weakref__")

    def __init__(self, room: Array, lengths: npt.NDArray[np.int64]) -> None:
        self.room = room
        self.lengths = lengths.clip(0, room.shape[1])       # its own, and a server is not believed
        self._values: Optional[Array] = None
        self._offsets: Optional[npt.NDArray[np.int64]] = None

    @property
    def values(self) -> Array:
        """[rows of all samples, ...], in memory of their own: `values[:] = ...` writes to it."""
        if self._values is None:
            self._values = np.concatenate([self.room[:0].reshape(0, *self.room.shape[2:]), *self])
        return self._values

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """int64 [samples + 1]: sample i has `values[offsets[i]:offsets[i + 1]]`."""
        if self._offsets is None:
            self._offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.lengths, dtype=np.int64)])
        return self._offsets

    @property
    def longest(self) -> int:
        """The rows of the sample that has the most."""
        return int(self.lengths.max()) if len(self.lengths) else 0

    def padded(self, value: Number = 0, length: Optional[int] = None) -> Array:
        """[samples, length, ...]: `value` behind each sample's rows.

        length      None: of the longest sample of the batch.  ValueError if that one has more rows

        With zeros it is a part of the memory that the server wrote, without a copy, if there is that much.
        """
        length = padded_length(self.longest, length)
        if value == 0 and length <= self.room.shape[1]:
            return self.room[:, :length]
        padded: Array = np.full((len(self), length, *self.room.shape[2:]), value, self.room.dtype)
        for row, rows in zip(padded, self):
            row[:len(rows)] = rows
        return padded

    def texts(self) -> List[str]:
        """Of bytes: each sample's, as UTF-8; what is none comes as U+FFFD."""
        if self.room.dtype != np.uint8 or self.room.ndim != 2:
            raise TypeError(f"texts are made of bytes, and these are {self.room.dtype}"
                            f"{list(self.room.shape[2:])}")
        return [rows.tobytes().decode("utf-8", "replace") for rows in self]

    def __getitem__(self, sample: int) -> Array:
        rows: Array = self.room[sample, :self.lengths[sample]]
        return rows

    def __iter__(self) -> Iterator[Array]:
        for rows, length in zip(self.room, self.lengths.tolist()):
            yield rows[:length]

    def __len__(self) -> int:
        return len(self.lengths)

    def __repr__(self) -> str:
        return (f"<tureen.Ragged of {len(self)} samples: {int(self.lengths.sum())} x "
                f"{self.room.dtype}{list(self.room.shape[2:])}>")

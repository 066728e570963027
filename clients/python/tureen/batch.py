"""A batch as the user sees it, and how its arrays are laid over a slot."""
from __future__ import annotations

from typing import Any, Dict, ItemsView, Iterator, KeysView, Optional, Sequence, ValuesView

import numpy as np
import numpy.typing as npt

from .ragged import Ragged
from .waker import Bytes
from .wire import Field

Array = npt.NDArray[Any]


class Batch:
    """Named NumPy arrays of `len(batch)` samples, with the samples' ids.

    `batch["image"]` is a view into memory shared with the server, yours to read and write until the last view
    of it is gone; nothing needs to be released by hand.  `len` is the number of samples; iterating gives the
    names, so that `dict(batch)` and `**batch` work: what the pipeline makes, then the data set's labels.

    A ragged field is a `tureen.Ragged` over such views.

    NumPy has no bfloat16: such an array comes as uint16 (`Loader.fields` tells).  In PyTorch it is
    `torch.from_numpy (batch["image"].view (numpy.int16)).view (torch.bfloat16)`, without a copy.
    """
    __slots__ = ("_arrays", "ids", "epoch", "index", "padding", "step_ids", "mapped", "__weakref__")

    def __init__(self, arrays: Dict[str, Any], ids: npt.NDArray[np.int64], epoch: int, index: int,
                 padding: bool = False, step_ids: Optional[npt.NDArray[np.int64]] = None,
                 mapped: Any = None) -> None:
        self._arrays = arrays
        #  The samples' ids, in memory of their own.
        self.ids = ids
        #  Both count from 0; index begins anew in each epoch.
        self.epoch = epoch
        self.index = index
        #  Of a job with ranks: none of the step's samples was left for this one, and it has got another
        #  rank's once more, so that all make equally many steps.  It counts nowhere: neither should its loss,
        #  nor what is measured of it.
        self.padding = padding
        #  What all ranks got in this step, rank by rank; without ranks the same as ids.
        self.step_ids = ids if step_ids is None else step_ids
        #  What functions of the user's made of it (tureen.mapping); None: they made nothing.
        self.mapped = mapped

    def __getitem__(self, name: str) -> Any:
        try:
            return self._arrays[name]
        except KeyError:
            raise KeyError(f"{name!r}: the batch's fields are {', '.join(map(repr, self._arrays))}") from None

    def __setitem__(self, name: str, array: Any) -> None:
        """So that `batch["image"] -= 128` works.  Another array in its place is not written to the ring."""
        self._arrays[name] = array

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self.ids)

    def keys(self) -> KeysView[str]:
        return self._arrays.keys()

    def values(self) -> ValuesView[Any]:
        return self._arrays.values()

    def items(self) -> ItemsView[str, Any]:
        return self._arrays.items()

    def __repr__(self) -> str:
        fields = ", ".join(f"{name} {array.dtype}{list(array.shape)}" if isinstance(array, np.ndarray)
                           else f"{name} {'ragged' if isinstance(array, Ragged) else 'text'}"
                           for name, array in self._arrays.items())
        padding = " of padding" if self.padding else ""
        return f"<tureen.Batch {self.index} of epoch {self.epoch}: {len(self)} samples{padding}, {fields}>"


def views(fields: Sequence[Field], slot: Bytes, count: int) -> Dict[str, Array]:
    """The fields' arrays over `slot`, which is the base of each: it lives until the last of them is gone."""
    return {field.name: np.ndarray((count, *field.shape), field.dtype, slot, field.offset)
            for field in fields}


def copies(fields: Sequence[Field], slot: Bytes, count: int) -> Dict[str, Array]:
    """The same in memory of their own."""
    return {name: array.copy() for name, array in views(fields, slot, count).items()}


def ragged(fields: Sequence[Field], arrays: Dict[str, Array]) -> Dict[str, Any]:
    """The arrays as the user gets them: ragged ones hold their lengths, which have no name any more."""
    lengths = {field.lengths for field in fields}
    return {field.name: Ragged(arrays[field.name], arrays[field.lengths]) if field.lengths
            else arrays[field.name] for field in fields if field.name not in lengths}

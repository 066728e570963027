"""A loop as what leaves out batches wants it.  Accelerate's skip_first_batches, and by it Hugging Face's
Trainer, makes a torch.utils.data.DataLoader of a loader's `dataset`, its `collate_fn` and the rest of its
`batch_sampler`.  So a loader's batch sampler gives a Step for each batch, its data set gives that batch for
the Step, and a Step that is left out is never prepared.
"""
from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Iterator, List, Optional

from ..errors import StateError
from ..trained import TrainedPosition, given
from .epochs import State

if TYPE_CHECKING:
    from .loader import DataLoader


class Step:
    """Stands for one batch of an epoch."""

    def __init__(self, loop: _Loop, number: int) -> None:
        self._loop = loop
        self._number = number

    def __repr__(self) -> str:
        return f"<batch {self._number} of the loop>"

    def batch(self) -> Any:
        """Once, and in the order of the steps."""
        return self._loop.batch(self._number)


class Steps:
    """In the place of a batch sampler: each iteration is a loop, of which the first steps, or all, may be
    left out."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader

    def set_epoch(self, epoch: int) -> None:
        self._loader.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[List[Step]]:
        loop = _Loop(self._loader)
        for number in itertools.count():
            if not loop.has(number):
                loop.end()
                return
            yield [Step(loop, number)]


class _Loop:
    """Begins with the first batch that is asked for: until then its steps may be left out."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader
        self._batches: Optional[Iterator[Any]] = None
        self._next: Optional[Any] = None

    def has(self, number: int) -> bool:
        if self._batches is None:
            return number < len(self._loader)
        if self._next is None:
            self._next = next(self._batches, None)
        return self._next is not None

    def end(self) -> None:
        """Where all steps were left out, their epoch is behind.  A loaded state that stands at an epoch's
        beginning has it behind already."""
        loader = self._loader
        if self._batches is None and not (loader._loaded and _stands_at_beginning(loader.state_dict())):
            loader.set_epoch(loader._next_epoch() + 1)

    def batch(self, number: int) -> Any:
        if self._batches is None:
            batches = iter(self._loader)
            _leave_out(self._loader, batches, number)
            self._batches = batches
        batch, self._next = self._next, None
        return next(self._batches) if batch is None else batch


def _stands_at_beginning(state: State) -> bool:
    """Of its epoch.  With a sampler an epoch that has begun has a job's state within."""
    return state["loader"] is None if "loader" in state else state["batches"] == "0"


def _leave_out(loader: DataLoader, batches: Iterator[Any], count: int) -> None:
    """Brings the loop behind the first batches of its epoch.  A loaded state stands there already.  Without
    one only an order that is the same in each run says which batches these were."""
    assert loader._iterator is not None
    position = loader._iterator._given
    behind = given(position).batches
    if not count or behind == count:
        return
    if behind or not loader._source.repeats:
        raise StateError(f"{count} batches of epoch {loader.epoch} are to be left out, and the loader's "
                         f"state is behind {behind}: which samples the others had is not known. Save "
                         "loader.state_dict() with each checkpoint, and load that of the checkpoint from "
                         "which the training goes on; or give seed=, for an order that comes again")
    for _ in range(count):
        next(batches)
        if isinstance(position, TrainedPosition):
            loader.trained()

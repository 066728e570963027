"""The state of a loop that takes batches ahead of its step: what the loop has reported as trained
(`state_of="trained"`), not what it was given."""
from __future__ import annotations

import collections
import weakref
from typing import Any, Deque, Iterator, List, Mapping, NamedTuple, NoReturn, Union

from .batch import Batch
from .position import JobPosition
from .request import Ids, Request
from .state import State
from .wire import BatchHead, Joined

STATES_OF = ("given", "trained")
NOTHING_WAITS = ("every batch that the loop was given is reported already: call trained() once for each "
                 "batch, behind its step")


class _Given(NamedTuple):
    """A batch that the loop has, and has not reported."""
    joined: Joined
    head: BatchHead
    ids: Ids
    #  What the loop was given of it; a reference here must not keep the batch's slot.
    parts: List[weakref.ref[Any]]

    def holds(self, batch: Any) -> bool:
        known = [ref() for ref in self.parts]
        return any(part is one for part in _parts(batch) if part is not None for one in known)


class TrainedPosition(JobPosition):
    """The position of what was reported; `given` is that of what the loop was given.

    Batches are given and reported in one order.  An epoch's end is behind once all batches before it are
    reported.
    """

    def __init__(self, request: Request, begin: State, epoch_samples: int) -> None:
        super().__init__(request, begin, epoch_samples)
        self.given = JobPosition(request, begin, epoch_samples)
        #  Batches, and epochs that have ended.
        self._waiting: Deque[Union[_Given, int]] = collections.deque()
        self._any_reported = False

    @property
    def epoch(self) -> int:
        """Of the next batch that the loop will be given."""
        return self.given.epoch

    @property
    def waits(self) -> bool:
        """Whether the loop has an unreported batch."""
        return bool(self._waiting)

    @property
    def none_reported(self) -> bool:
        return self.waits and not self._any_reported

    def note(self, joined: Joined, head: BatchHead, ids: Ids) -> None:
        """The loop is given a batch.  Noting the last one again changes nothing."""
        with self._lock:
            self.given.note(joined, head, ids)
            self._run = joined.run
            last = self._waiting[-1] if self._waiting else None
            if not isinstance(last, _Given) or last.head != head:
                self._waiting.append(_Given(joined, head, ids, []))

    def show(self, batch: Any) -> None:
        """What the loop gets of the batch that was noted last: `report` knows it by that."""
        with self._lock:
            last = self._waiting[-1] if self._waiting else None
            if not isinstance(last, _Given):
                return
            for part in _parts(batch):
                try:
                    last.parts.append(weakref.ref(part))
                except TypeError:               # a number, a text
                    pass

    def end(self, epoch: int) -> None:
        with self._lock:
            self.given.end(epoch)
            self._waiting.append(epoch)
            self._pass_ends()

    def report(self, batch: Any) -> None:
        """The loop has trained its oldest unreported batch.  `batch`: an object of that batch, ValueError if
        it is of another; None: the loop does not say."""
        with self._lock:
            oldest = self._waiting[0] if self._waiting else None
            if oldest is None:
                raise RuntimeError(NOTHING_WAITS)
            assert isinstance(oldest, _Given)
            if batch is not None and not oldest.holds(batch):
                raise ValueError(self._unknown(batch, oldest))
            self._pass(oldest)
            self._any_reported = True

    def report_all(self) -> None:
        """The loop has abandoned its unreported batches: the state counts them as trained, as it counts the
        rest of an epoch that a loop abandons."""
        with self._lock:
            while self._waiting:
                oldest = self._waiting[0]
                assert isinstance(oldest, _Given)
                self._pass(oldest)

    def _pass(self, oldest: _Given) -> None:
        run = self._run                         # the newest one: the loop is in that
        super().note(oldest.joined, oldest.head, oldest.ids)
        self._run = run
        self._waiting.popleft()
        self._pass_ends()

    def _pass_ends(self) -> None:
        while self._waiting and isinstance(self._waiting[0], int):
            super().end(self._waiting[0])
            self._waiting.popleft()

    def _unknown(self, batch: Any, oldest: _Given) -> str:
        due = f"batch {oldest.head.place} of its epoch"
        for later in self._waiting:
            if isinstance(later, _Given) and later.holds(batch):
                return (f"batch {later.head.place} of its epoch is reported as trained before {due}, which "
                        "the loop was given earlier: report batches in the order in which the loop was given "
                        "them, also those that it leaves out")
        return (f"this is no batch that waits to be reported (the oldest of these is {due}): it is another "
                "object than the loop was given, as .to(device) makes, or it was reported before. Call "
                "trained() without a batch, which reports the oldest")


def position_kind(state_of: str) -> type[JobPosition]:
    """The class for the argument state_of of a loader.  ValueError for a value that it does not have."""
    if state_of not in STATES_OF:
        raise ValueError(f"state_of is {state_of!r}: give \"given\" (a state has the batches that the loop "
                         "was given) or \"trained\" (those that it has reported by trained())")
    return TrainedPosition if state_of == "trained" else JobPosition


def refuse_report() -> NoReturn:
    raise RuntimeError("trained() is for a loader that was made with state_of=\"trained\": the state of this "
                       "one has all batches that the loop was given")


def given(position: JobPosition) -> JobPosition:
    """The position of what the loop was given."""
    return position.given if isinstance(position, TrainedPosition) else position


def _parts(batch: Any) -> Iterator[Any]:
    """The objects of which a batch consists."""
    if isinstance(batch, (tuple, list)):
        for part in batch:
            yield from _parts(part)
    elif isinstance(batch, Mapping):
        yield from _parts(list(batch.values()))
    else:
        yield batch
        if isinstance(batch, Batch):
            yield from _parts(list(batch.values()))

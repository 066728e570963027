"""One iteration over a loader: batches out of the queue that the connection's thread fills."""
from __future__ import annotations

import collections
import os
import queue
import sys
import threading
import time
import warnings
import weakref
from typing import Any, Callable, Deque, Dict, NamedTuple, Optional, Set, Tuple

import numpy as np

from . import batch as batches
from . import state as states
from . import wire
from .batch import Batch
from .connection import Connection
from .errors import (ForkedProcess, LoaderClosed, MapFailed, TureenError, TureenWarning,
                     UnreadableWarning, bare)
from .job import Arrival, EpochOver, Item, Told
from .loader_stats import LoaderStats
from .mapping.mapper import Failed
from .mapping.results import Result, Work, named, own
from .mixing import Mixer, Recipe
from .owned import forked
from .position import JobPosition
from .question_queue import Question
from .trained import TrainedPosition
from .waker import Bytes

_NAME_S = 2.0               # to hear a sample's file from the server, for an error's text
_NONE_REPORTED = ("the loop was given all batches of an epoch and reported none of them as trained: a loader "
                  "with state_of=\"trained\" needs trained() behind each step, and its state is still where "
                  "the job began")
_LEFT = "this iterator's job was left: its loader was closed or is being iterated again"


class Warned:
    """What has been warned of: everything once for each loader."""

    def __init__(self) -> None:
        self._kinds: Set[str] = set()
        self._unreadable = 0                # the greatest number that was told

    def warn(self, kind: str, text: str, category: type[Warning]) -> None:
        if kind not in self._kinds:
            self._kinds.add(kind)
            self.warn_again(text, category)

    def notice(self, notice: wire.Notice) -> None:
        if notice.unreadable is None:
            self.warn(notice.kind, notice.text, TureenWarning)
        elif notice.unreadable["count"] > self._unreadable:
            self._unreadable = notice.unreadable["count"]
            self.warn_again(notice.text, UnreadableWarning)

    @staticmethod
    def warn_again(text: str, category: type[Warning], each: bool = False) -> None:
        """Of the line that called into this package, through whichever of its loaders.  `each`: also where
        that line has had the same warning, which Python's default filter would leave out."""
        frame = sys._getframe()
        while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == __package__:
            frame = frame.f_back
        had = {} if each else frame.f_globals.setdefault("__warningregistry__", {})
        warnings.warn_explicit(text, category, frame.f_code.co_filename, frame.f_lineno,
                               frame.f_globals.get("__name__"), had)


class _Made(NamedTuple):
    """A batch, and the array of the slot that it looks at; None: it looks at memory of its own."""
    batch: Batch
    slot: Optional[Bytes]


class BatchIterator:
    """One job: `next` gives its batches in the server's order, through all of its epochs.

    When the job is over (the iterator is dropped, exhausted, or its loader closed or iterated again), the
    server is told as soon as the last view of a batch is gone.  Dropping it waits for nothing.
    """

    def __init__(self, connection: Connection, given: JobPosition, stats: LoaderStats, warned: Warned,
                 kept: str, mixing: Optional[Recipe] = None) -> None:
        """`given`: noted here, and read by the loader too; `kept`: the warning that batches are being kept;
        `mixing`: how the samples of each batch are mixed."""
        self._connection = connection
        self._given = given
        self._stats = stats
        self._warned = warned
        self._kept = kept
        self._mixing = mixing
        self._mixer: Optional[Tuple[wire.Joined, Mixer]] = None      # of that job
        self._exhausted = False
        #  Taken off the queue and not yet given: the user interrupted.
        self._pending: Deque[Item] = collections.deque()
        self._made: Optional[_Made] = None
        #  Batches are numbered in the order in which they are handed out, whichever thread asks.
        self._turn = threading.Lock()
        finalizer = weakref.finalize(self, Connection.leave, connection)
        finalizer.atexit = False            # the connections see to that themselves

    def __iter__(self) -> BatchIterator:
        return self

    def __next__(self) -> Batch:
        self._check_process()
        with self._turn:
            self._begin_next()
            while True:
                batch: Optional[Batch] = self._next()
                if batch is not None:
                    return batch

    def next_in_epoch(self, present: Optional[Callable[[Batch], Any]] = None) -> Any:
        """The next batch, or once None when the epoch has ended; the next call goes on with the next epoch.
        StopIteration after the last epoch's None.  `present` makes of the batch what is given; where it
        raises, the next call gives the same batch."""
        self._check_process()
        with self._turn:
            self._begin_next()
            return self._next(present)

    @property
    def epoch(self) -> int:
        """The epoch of the next batch."""
        return self._given.epoch

    def state_dict(self) -> Dict[str, Any]:
        """As `Loader.state_dict`: what has been given by this iterator, and before it by those it goes on
        with."""
        return states.pack(self._given.state())

    def leave(self) -> None:
        """Leaves the job, as closing the loader does: from then on `next` raises LoaderClosed (or
        StopIteration, if it had come to its end)."""
        self._forget()
        self._connection.finish()

    def _forget(self) -> None:
        """What was taken off the queue is given, or not wanted any more."""
        self._made = None
        self._pending.clear()

    def _check_process(self) -> None:
        """Before any lock: a fork has its threads' locks as they were."""
        if self._connection.pid != os.getpid():
            raise ForkedProcess(forked("loader"))

    def _begin_next(self) -> None:
        """What a `next` does before it takes anything."""
        if self._exhausted:
            raise StopIteration
        if self._connection.leaving:
            raise LoaderClosed(_LEFT)
        self._tell()

    def _tell(self) -> None:
        notices = self._connection.notices
        while notices:
            self._warned.notice(notices.popleft())

    def _next(self, present: Optional[Callable[[Batch], Any]] = None) -> Any:
        """A batch, or None at an epoch's end.  Where this is broken off (Ctrl-C, a warning that is an error)
        the batch is not behind, and the next call gives it: so each step may be taken twice."""
        arrival = self._first()
        while isinstance(arrival, Told):
            self._pending.clear()
            self._warned.warn_again(arrival.text, TureenWarning, each=True)
            arrival = self._first()
        if isinstance(arrival, EpochOver):
            self._given.end(arrival.epoch)
            if isinstance(self._given, TrainedPosition) and self._given.none_reported:
                self._warned.warn("trained", _NONE_REPORTED, TureenWarning)
            self._stats.epoch_samples = arrival.samples
            self._pending.clear()
            return None
        if arrival is None:
            self._end()
            raise StopIteration
        self._refuse_emptied(arrival)
        #  Held here too: `leave` drops it, from another thread.
        made = self._made = self._made or self._batch(arrival)
        batch = made.batch
        self._tell()                        # what came while functions made it
        given = batch if present is None else present(batch)
        self._refuse_emptied(arrival)       # while it was made
        self._settle(arrival, made.slot)
        self._given.note(arrival.job.joined, arrival.head, np.frombuffer(arrival.step, "<u8"))
        if isinstance(self._given, TrainedPosition):
            self._given.show(batch)
        samples = 0 if batch.padding else len(batch)
        #  No call is between these: an interrupt comes before all of them, or takes the batch with it.
        self._stats.batches += 1
        self._stats.samples += samples
        self._made = None
        self._pending.clear()
        return given

    @staticmethod
    def _refuse_emptied(arrival: Arrival) -> None:
        """Of a ring that the server may have emptied no batch is given, nor the end that lies behind it."""
        if arrival.frame is None and arrival.job.emptied is not None:
            raise bare(arrival.job.emptied)

    def _first(self) -> Item:
        """What comes next; it stays pending.  First the notices that came meanwhile are told."""
        if not self._pending:
            self._take()
            self._tell()
        try:
            return self._pending[0]
        except IndexError:                  # meanwhile, from another thread
            raise LoaderClosed(_LEFT) from None

    def _take(self) -> None:
        try:
            self._connection.take(self._pending)
        except queue.Empty:
            begin = time.monotonic()
            try:
                self._connection.wait(self._pending)
            finally:
                self._stats.waited_s += time.monotonic() - begin

    def _end(self) -> None:
        """None came: the end, or the user has left."""
        connection = self._connection
        connection.arrivals.put(None)       # for other threads that wait
        self._pending.clear()
        if connection.leaving:
            raise LoaderClosed(_LEFT)
        connection.raise_outcome()
        self._exhausted = True
        connection.finish()

    def _batch(self, arrival: Arrival) -> _Made:
        job, head, memory, lent = arrival.job, arrival.head, arrival.job.memory, None
        ids = np.frombuffer(arrival.ids, np.int64).copy()
        step_ids = None if arrival.step is arrival.ids else np.frombuffer(arrival.step, np.int64).copy()
        padding = bool(head.flags & wire.BATCH_PADDING)
        if arrival.work is not None:
            mapped = self._mapped(arrival, arrival.work)
            return _Made(Batch(named(mapped), ids, head.epoch, head.place, padding, step_ids, mapped),
                         mapped.source if arrival.frame is None else None)
        if arrival.frame is not None:
            #  Inline: the memory is ours alone.
            arrays = batches.views(job.joined.fields, own(arrival.frame), head.samples)
        elif memory is None:
            raise LoaderClosed(_LEFT)
        else:
            slot = np.frombuffer(memory, np.uint8, job.joined.slot_bytes, head.slot * job.joined.slot_bytes)
            if job.slots.scarce:
                self._warned.warn("kept", self._kept, RuntimeWarning)
                arrays = batches.copies(job.joined.fields, slot, head.samples)
            else:
                arrays = batches.views(job.joined.fields, slot, head.samples)
                lent = slot
        arrays = batches.ragged(job.joined.fields, arrays)
        if self._mixing is not None:
            if self._mixer is None or self._mixer[0] is not job.joined:
                self._mixer = job.joined, Mixer(self._mixing, job.joined)
            self._mixer[1].mix(arrays, ids, head.epoch, head.place)
        return _Made(Batch(arrays, ids, head.epoch, head.place, padding, step_ids), lent)

    def _mapped(self, arrival: Arrival, work: Work) -> Result:
        """The batch as the functions make it, in memory that is not the server's."""
        mapper, connection = self._connection.mapper, self._connection
        assert mapper is not None
        begin = time.monotonic()
        try:
            mapped, scarce = mapper.result(work, arrival.job.slots.scarce, lambda: connection.leaving)
        except Failed as failed:
            self._refuse_emptied(arrival)
            row, why, error = failed.args
            sample = int(work.ids[row])
            name = self._named(arrival, sample)
            what = (f"map failed with {name}" if why.row is not None else
                    f"map_batch failed with a batch of {len(work.ids)} samples, the first {name}")
            trace = f"\n\n{why.trace}" if why.trace else ""
            raise MapFailed(f"{what}: {why.summary}{trace}", sample) from error
        finally:
            self._stats.waited_s += time.monotonic() - begin
        if scarce:
            self._warned.warn("kept", self._kept, RuntimeWarning)
        return mapped

    def _named(self, arrival: Arrival, sample: int) -> str:
        """A sample for people: by its file too, if the server tells it in time."""
        question = Question(lambda job, tag: wire.explain(job, sample, arrival.head.epoch, tag),
                            wire.EXPLAIN_REPLY)
        self._connection.questions.ask(question)
        self._connection.wake()
        try:
            body = question.wait(_NAME_S)
            name = "" if body is None else str(wire.parse_json(body, "EXPLAIN_REPLY").get("name", ""))
        except TureenError:
            name = ""
        return f"sample {sample} ({name})" if name else f"sample {sample}"

    def _settle(self, arrival: Arrival, slot: Optional[Bytes]) -> None:
        """What the connection's thread will tell the server of a batch that is given."""
        connection, job, sequence = self._connection, arrival.job, arrival.head.sequence
        job.consumed = sequence + 1
        if slot is None:
            job.slots.give_back(sequence)   # the server may send the next at once
            connection.wake()
            return
        if not job.slots.is_lent(sequence):
            job.slots.lend(sequence, slot)
        #  Meanwhile, from another thread: the ring may be emptied any moment
        if connection.leaving:
            self._forget()
            raise LoaderClosed(_LEFT)
        #  No wake: the batch before is about to be dropped, and that wakes; if not, the thread looks by
        #  itself within 100 ms, or is woken by a `next` that has to wait.  (Two wakes a batch cost 80 us
        #  instead of 30: each hands the interpreter's lock over.)

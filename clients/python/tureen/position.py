"""Where a job stands: which samples of the epoch at hand are behind it.

    Position     the position itself: of a list how many of its places, of all other orders a boolean for each
                 sample.
    JobPosition  a position and the job it is of, which together are a state.  Two are kept: of what was
                 received, and of what the user's loop has been given.
"""
from __future__ import annotations

import threading
from typing import Optional, Tuple

import numpy as np

from . import state as states
from .errors import ProtocolError, StateError
from .request import Ids, Request
from .state import Mask, Part, State
from .wire import BatchHead, Joined


class Position:
    """Batches are noted in the order in which they were sent.  One thread at a time."""

    def __init__(self, samples: int, listed: Optional[Ids], begin: State, nodes: int = 1,
                 node: int = 0) -> None:
        """Of a data set of so many samples; `listed`: the list that the job gave.  Of several nodes it is the
        position of one: of a list it has every nodes-th place, and `count` is as if all of them had been
        given as many."""
        self.epoch = begin.epoch
        self.batches = begin.batches
        #  Samples, or the list's places, of this epoch that are behind.
        self.count = begin.count
        #  Where the epoch's parts were made, of several nodes
        self.cut_batches, self.cut_count, self.cut_words = 0, 0, b""
        if begin.part is not None:
            part = begin.part
            self.cut_batches, self.cut_count, self.cut_words = part.batches, part.count, part.words
        self._samples = samples
        self._listed = listed
        self._nodes, self._node = nodes, node
        self._mask: Optional[Mask] = begin.mask() if begin.words else None

    def check_next(self, head: BatchHead, ids: Ids) -> None:
        """ProtocolError for a batch that cannot be the next."""
        if head.epoch != self.epoch or head.place != self.batches:
            raise ProtocolError(f"the server sent batch {head.place} of epoch {head.epoch} "
                                f"where batch {self.batches} of epoch {self.epoch} was due")
        if len(ids) and int(ids.max()) >= self._samples:
            raise ProtocolError(f"the server sent sample {ids.max()} of a data set that has {self._samples}")

    def note(self, head: BatchHead, ids: Ids) -> None:
        """A batch is behind.  Noting the last one again changes nothing."""
        if head.epoch == self.epoch and head.place < self.batches:
            return
        while self.epoch < head.epoch:
            self.end(self.epoch)
        if self._listed is not None:
            self.count = self._place_after(self._listed, ids)
        else:
            if self._mask is None:
                self._mask = np.zeros(self._samples, np.bool_)
            self._mask[ids.view(np.int64)] = True
            self.count += len(ids)
        self.batches = head.place + 1

    def end(self, epoch: int) -> None:
        """That epoch is behind, whatever of it was left out."""
        self.epoch = epoch + 1
        self.batches = self.count = 0
        self.cut_batches, self.cut_count, self.cut_words = 0, 0, b""
        self._mask = None

    def taken(self) -> Tuple[int, bytes]:
        """`count` and `words` of a state."""
        if self._mask is None:
            return self.count, b""
        return int(np.count_nonzero(self._mask)), states.pack_words(self._mask)

    def _place_after(self, listed: Ids, ids: Ids) -> int:
        """The list's place behind these samples, which come in its order; those between that cannot be read
        are left out."""
        if self._nodes > 1:
            return self._node_place_after(listed, ids)
        return self._behind(listed, self.count, ids)

    def _node_place_after(self, listed: Ids, ids: Ids) -> int:
        """As above, in the places of this node."""
        cut = self.cut_count
        own = listed[cut + (self._node - cut) % self._nodes::self._nodes]
        #  At the list's end no sample of it follows, so that it need not be told how many of them were given
        behind = -(-(self.count - cut) // self._nodes)
        behind = self._behind(own, behind, ids)
        return self.count if not len(ids) else min(cut + self._nodes * behind, len(listed))

    def _behind(self, places: Ids, place: int, ids: Ids) -> int:
        """The place of these places, from `place` on, behind the ids."""
        if np.array_equal(places[place:place + len(ids)], ids):
            return place + len(ids)
        for sample in ids.tolist():
            while place < len(places) and places[place] != sample:
                place += 1
            if place == len(places):
                what = "the list" if self._nodes == 1 else "this node's part of the list"
                raise ProtocolError(f"the server sent sample {sample}, which {what} does not hold behind its "
                                    f"place {self.count}")
            place += 1
        return place


class JobPosition:
    """What is behind of a loader's job, and of those that went on with it.  Any thread."""

    def __init__(self, request: Request, begin: State, epoch_samples: int) -> None:
        """`begin`: where the job began, of which an epoch has so many samples (or places of a list; with
        several nodes those counted that cannot be read)."""
        self._request = request
        self._begin = begin                 # what of it does not change
        self._run = begin.run
        self._epoch_samples = epoch_samples
        self._position = Position(begin.samples, request.ids, begin, request.nodes, request.node)
        #  A garbage collection may come while it is held, and in it a loop's end, which asks where it stood.
        self._lock = threading.RLock()

    @classmethod
    def of_job(cls, request: Request, joined: Joined, begin: Optional[State]) -> JobPosition:
        """`begin`: the state that the job was joined with.  StateError where that is of other data after
        all."""
        if begin is not None and begin.samples != joined.dataset_samples:
            raise StateError(f"the state is of a data set with {begin.samples} samples, the server's has "
                             f"{joined.dataset_samples}: give the data set that it was made with")
        state = State(
            dataset=str(request.dataset), fingerprint=joined.fingerprint, data=joined.data,
            samples=joined.dataset_samples, order=begin.order if begin else request.order, seed=joined.seed,
            pool=begin.pool if begin else request.pool, run=joined.run, epoch=0, batches=0, count=0,
            words=b"", places=None if request.ids is None else 0)
        if begin is not None:
            state = state._replace(epoch=begin.epoch, batches=begin.batches, count=begin.count,
                                   words=begin.words, places=begin.places, part=begin.part)
        readable = request.ids is None and request.nodes == 1
        whole = joined.samples if readable else request.data_samples(joined.dataset_samples)
        self = cls(request, state, whole)
        steps = self._steps()
        if request.nodes > 1 and joined.steps not in (None, steps):
            raise ProtocolError(f"the server says that epoch {state.epoch} has {joined.steps} batches on "
                                f"each node, and it has {steps}: its parts are not those of docs/protocol.md")
        return self

    @classmethod
    def at_end(cls, request: Request, state: State) -> JobPosition:
        """Of a state after which nothing comes."""
        return cls(request, state, 1 << 62)

    @property
    def epoch(self) -> int:
        """Of the next batch."""
        with self._lock:
            return self._position.epoch + self._whole()

    @property
    def batches(self) -> int:
        """How many batches of the running epoch have come."""
        return self._position.batches

    def receive(self, head: BatchHead, ids: Ids) -> None:
        """As note, of the job at hand.  ProtocolError for a batch that cannot be the next."""
        self._position.check_next(head, ids)
        with self._lock:
            self._position.note(head, ids)

    def receive_end(self, epoch: int) -> None:
        """As end.  ProtocolError for an epoch that is not going on."""
        if epoch != self._position.epoch:
            raise ProtocolError(f"the server ended epoch {epoch} where epoch {self._position.epoch} was "
                                "going on")
        self.end(epoch)

    def note(self, joined: Joined, head: BatchHead, ids: Ids) -> None:
        """A batch of that job is behind: with ranks a step, with all its ids.  A few microseconds."""
        with self._lock:
            self._position.note(head, ids)
            self._run = joined.run
            if self._request.ids is None and self._request.nodes == 1:
                self._epoch_samples = joined.samples        # which the next server may know better

    def end(self, epoch: int) -> None:
        """That epoch is behind."""
        with self._lock:
            self._position.end(epoch)

    def state(self) -> State:
        """Of an epoch that is behind, though its end was not told yet, the beginning of the next."""
        with self._lock:
            state = self._state(self._run)
            return state.at_epoch(state.epoch + 1) if self._whole() else state

    def state_to_join(self, run: str) -> State:
        """As above.  But if an epoch's end was not told this epoch, the state asks for it to be told.  `run`:
        the job's."""
        with self._lock:
            return self._state(run)

    def _whole(self) -> bool:
        """Nothing of this epoch is left that could fill a batch.  With several nodes: it has all its batches,
        which are the same on all nodes."""
        if self._request.nodes > 1:
            return self._position.batches >= self._steps()
        left = self._epoch_samples - self._position.count
        return left <= 0 or self._request.drop_last and left < self._request.step_size

    def _steps(self) -> int:
        """Batches of this epoch in all, with several nodes."""
        position = self._position
        return position.cut_batches + self._request.steps(self._epoch_samples - position.cut_count)

    def _state(self, run: str) -> State:
        position, listed = self._position, self._request.ids is not None
        count, words = position.taken()
        part = None
        if self._request.nodes > 1 and (position.batches or position.cut_count):
            part = Part(self._request.nodes, self._request.node, self._request.parts, position.cut_batches,
                        position.cut_count, position.cut_words, position.cut_count if listed else None)
        return self._begin._replace(
            run=run, epoch=position.epoch, batches=position.batches, count=count, words=words,
            places=count if listed else None, part=part)

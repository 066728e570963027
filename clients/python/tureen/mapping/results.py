"""Batches as the functions make them: how they are laid out (the first sample decides), and where they lie.

One thread at a time, but for what `Work` says.
"""
from __future__ import annotations

import threading
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from ..batch import Array
from ..errors import LoaderClosed
from ..job import Job
from ..slots import lent_max
from ..waker import Bytes, Waker
from ..wire import BatchHead
from .memory import Memory
from .pytree import Laid, Layout, Tree, view_of
from .run import Ids, Key
from .worker import Failure


class Work:
    """One batch, and what becomes of it.  It is the mapping thread's from `submit` until `done` is set, then
    the loop's.  Dropped before, it is not begun, or its results are dropped too."""
    __slots__ = ("job", "head", "ids", "frame", "key", "laid", "memory", "offset", "slot", "texts", "kept",
                 "apart", "failure", "left", "done", "pool", "__weakref__")

    def __init__(self, job: Job, head: BatchHead, ids: bytes, frame: Any) -> None:
        self.job, self.head, self.frame = job, head, frame
        self.ids: Ids = np.frombuffer(ids, np.int64).copy()
        self.key = Key(job.joined.seed, head.epoch)
        #  Where the results go; it stays where a batch is done again
        self.laid: Optional[Laid] = None
        self.memory: Optional[Memory] = None
        self.offset = 0
        self.slot: Optional[Bytes] = None
        self.texts: Dict[int, Any] = {}
        #  By the leaf, which of its samples are where the server wrote them: (first, end)
        self.kept: Dict[int, List[Tuple[int, int]]] = {}
        self.apart: Optional[Tuple[Layout, List[Any]]] = None
        self.failure: Optional[Tuple[int, Failure]] = None      # of the first sample that failed
        self.left = 0                               # tasks that are not done
        self.done = threading.Event()
        self.pool: Any = None                       # the one that does it

    def fail(self, first: int, failure: Failure) -> None:
        """Of several tasks that fail, the first one in the batch counts."""
        if self.failure is None or first < self.failure[0]:
            self.failure = (first, failure)

    def begin_again(self) -> None:
        self.texts, self.kept, self.apart, self.failure, self.left = {}, {}, None, None, 0
        self.done.clear()

    def keep_texts(self, first: int, texts: Dict[int, List[Any]]) -> None:
        for number, told in texts.items():
            self.texts.setdefault(number, [""] * len(self.ids))[first:first + len(told)] = told

    def take_done(self, first: int, count: int, texts: Dict[int, Any], kept: Tuple[int, ...],
                  by_sample: bool) -> None:
        """These samples are done, by a function of samples or of the batch."""
        if by_sample:
            self.keep_texts(first, texts)
        else:
            self.texts = texts
        for number in kept:
            self.kept.setdefault(number, []).append((first, first + count))

    def bytes(self) -> Optional[Bytes]:
        """The batch as the server wrote it; None: its job was left."""
        if self.frame is not None:
            return own(self.frame)
        size, memory = self.job.joined.slot_bytes, self.job.memory
        return None if memory is None else np.frombuffer(memory, np.uint8, size, self.head.slot * size)

    def complete(self) -> None:
        """All is done.  Of a leaf of which only some samples were kept where they were, these are copied."""
        if self.laid is None or self.slot is None or not self.kept:
            return
        count, source = len(self.ids), self.bytes()
        for number, parts in list(self.kept.items()):
            if sum(end - first for first, end in parts) == count:
                continue
            del self.kept[number]
            place = self.laid.view(number, self.slot)
            if source is not None and place is not None:
                view = self.source_view(number, source)
                for first, end in parts:
                    place[first:end] = view[first:end]

    def source_view(self, number: int, source: Bytes) -> Array:
        """A leaf that is one of the server's fields."""
        assert self.laid is not None
        leaf = self.laid.leaves[number]
        for field in self.job.joined.fields:
            if field.name == leaf.field:
                return view_of(leaf, source, len(self.ids), field.offset)
        raise KeyError(leaf.field)


class Result(NamedTuple):
    """A batch: values are arrays, or lists of texts, for each leaf of the tree.  source: the server's memory,
    where the arrays of some leaves lie."""
    tree: Tree
    values: List[Any]
    told: List[str]
    source: Optional[Bytes] = None


def named(result: Result) -> Dict[str, Any]:
    """The values by name, where they have names, else by number."""
    if not isinstance(result.tree, int) and result.tree[0] == "dict":
        if all(isinstance(part, int) for _, part in result.tree[1:]):
            return {name: result.values[part] for name, part in result.tree[1:]}
    return {str(number): value for number, value in enumerate(result.values)}


class Results:
    """slots        batches that may be in memory at once; when all but two are kept, further ones are copied
    by_sample    a batch is made of samples that are laid out alike.  Else the function of batches may return
                 anything; a batch of samples like the first batch's goes into the same memory
    """

    def __init__(self, slots: int, by_sample: bool, waker: Optional[Waker]) -> None:
        self.laid: Optional[Laid] = None
        self.decided = False
        self._slots = slots
        self._by_sample = by_sample
        self._waker = waker
        self._memory: Optional[Memory] = None

    def forget(self) -> None:
        """The next job's arrays are others."""
        self.laid, self.decided, self._memory = None, False, None

    def place(self, work: Work) -> bool:
        """Gives it a slot, if it has none; False where none is free."""
        if work.laid is self.laid:
            return True
        if self.laid is None:           # a slot of this work was of processes that are gone
            work.laid = work.memory = work.slot = None
            return True
        assert self._memory is not None
        taken = self._memory.take()
        if taken is None:
            return False
        work.laid, work.memory = self.laid, self._memory
        work.offset, work.slot = taken
        return True

    def take_apart(self, work: Work, whole: Layout, rows: Optional[Layout], values: List[Any]) -> None:
        """A result in no batch's memory: of the batch, or of the first sample of all."""
        if not self.decided:
            self._decide(rows, work.job.joined.batch_size)
        if not self._by_sample:
            work.apart = (whole, values)
            return
        self.place(work)
        assert work.laid is not None and work.slot is not None
        for number, place in enumerate(work.laid.views(work.slot)):
            if place is None:
                work.keep_texts(0, {number: [values[number]]})
            else:
                place[0, ...] = values[number]

    def _decide(self, rows: Optional[Layout], batch_size: int) -> None:
        self.decided = True
        if rows is not None:
            self.laid = Laid(rows, batch_size)
            self._memory = Memory(self._slots, self.laid.bytes, self._waker)

    def finish(self, work: Work, ring_scarce: bool) -> Tuple[Result, bool]:
        """What the loop gets of a batch that is done, and whether it had to be copied, because too many are
        kept.  The loop's thread.  `ring_scarce`: too many of the server's slots are."""
        if work.apart is not None:
            layout, values = work.apart
            return Result(layout.tree, values, [leaf.told for leaf in layout.leaves]), False
        laid, slot, memory = work.laid, work.slot, work.memory
        assert laid is not None and slot is not None and memory is not None
        source = work.bytes() if work.kept else None
        if work.kept and source is None:
            raise LoaderClosed("the loader was closed, or is iterated again")
        own_count = sum(not leaf.text for leaf in laid.leaves) - len(work.kept)
        scarce = own_count > 0 and memory.lent >= lent_max(memory.count) or ring_scarce and source is not None
        made: List[Any] = []
        for number, leaf in enumerate(laid.leaves):
            if leaf.text:
                made.append(work.texts[number])
            elif number in work.kept and source is not None:
                made.append(work.source_view(number, source))
            else:
                view = laid.view(number, slot)
                assert view is not None
                made.append(view[:len(work.ids)])
        if scarce:
            made = [value.copy("K") if isinstance(value, np.ndarray) else value for value in made]
        elif own_count:
            memory.lend(work.offset)
        told = [leaf.told for leaf in laid.leaves]
        return Result(laid.tree, made, told, None if scarce else source), scarce


def own(frame: Any) -> Bytes:
    """A frame's bytes, without a copy where they lie as arrays should."""
    array: Bytes = np.frombuffer(frame, np.uint8)
    if not array.flags.writeable or array.ctypes.data % 8:
        array = array.copy()
    return array

"""The loader: what a training loop iterates over."""
from __future__ import annotations

import os
import threading
import warnings
import weakref
from typing import Any, Dict, List, Optional, Tuple, Type
from types import TracebackType

import numpy as np

from . import batch as batches
from .batch import Batch
from .connection import Arrival, Connection, wait_for_leavers
from .errors import ForkedProcess, LoaderClosed
from .request import Pipeline, Request, Subset, resolve_endpoint, seconds
from .slots import Bytes, lent_max
from .wire import Field, Joined


class _Once:
    """A warning that is given once."""

    def __init__(self, text: str) -> None:
        self._text: Optional[str] = text

    def warn(self, stacklevel: int) -> None:
        text, self._text = self._text, None
        if text is not None:
            warnings.warn(text, RuntimeWarning, stacklevel=stacklevel + 1)


class BatchIterator:
    """One job: `next` gives its batches in the server's order, through all of its epochs.

    When the job is over (the iterator is dropped, exhausted, or its loader closed or iterated again), the server is
    told as soon as the last view of a batch is gone.  Dropping it waits for nothing.
    """

    def __init__(self, connection: Connection, kept: _Once) -> None:
        self._connection = connection
        self._kept = kept
        self._exhausted = False
        #  Batches are numbered in the order in which they are handed out, whichever thread asks.
        self._turn = threading.Lock()
        finalizer = weakref.finalize(self, Connection.leave, connection)
        finalizer.atexit = False            # the connections see to that themselves

    def __iter__(self) -> BatchIterator:
        return self

    def __next__(self) -> Batch:
        connection = self._connection
        if connection.pid != os.getpid():
            raise ForkedProcess(_FORKED)
        with self._turn:
            if self._exhausted:
                raise StopIteration
            if connection.leaving:
                raise LoaderClosed(_LEFT)
            arrival = connection.arrival()
            if arrival is not None:
                try:
                    return self._batch(arrival)
                except BaseException:       # Ctrl-C in a notebook: the batch is lost, but not its slot
                    connection.slots.give_back(arrival.head.sequence)
                    raise
            connection.arrivals.put(None)   # for whoever else waits
            if connection.leaving:
                raise LoaderClosed(_LEFT)
            connection.raise_outcome()
            self._exhausted = True
        connection.finish()
        raise StopIteration

    def _batch(self, arrival: Arrival) -> Batch:
        connection, head = self._connection, arrival.head
        joined, memory = connection.joined, connection.memory
        if joined is None or connection.leaving and memory is None and arrival.frame is None:
            raise LoaderClosed(_LEFT)
        ids = np.frombuffer(arrival.ids, np.int64).copy()
        connection.consumed = head.sequence + 1
        if arrival.frame is not None or memory is None:
            #  Inline: the memory is ours alone, so the server may send the next at once.
            arrays = batches.views(joined, _own(arrival.frame), head.samples)
            connection.slots.give_back(head.sequence)
        else:
            slot = np.frombuffer(memory, np.uint8, joined.slot_bytes, head.slot * joined.slot_bytes)
            if connection.slots.scarce:
                self._kept.warn(stacklevel=3)
                arrays = batches.copies(joined, slot, head.samples)
                connection.slots.give_back(head.sequence)
            else:
                arrays = batches.views(joined, slot, head.samples)
                connection.slots.lend(head.sequence, slot)
                if connection.leaving:      # meanwhile, from another thread: the ring may be emptied any moment
                    raise LoaderClosed(_LEFT)
                #  No wake: the batch before is about to be dropped, and that wakes; if not, the thread looks by itself
                #  within 100 ms, or is woken by a `next` that has to wait.  (Two wakes a batch cost 80 us instead of 30:
                #  each hands the interpreter's lock over.)
                return Batch(arrays, ids, head.epoch, head.place)
        connection.wake()
        return Batch(arrays, ids, head.epoch, head.place)


def _own(frame: Any) -> Bytes:
    """The frame's bytes, without a copy where they lie as arrays should."""
    array: Bytes = np.frombuffer(frame, np.uint8)
    if not array.flags.writeable or array.ctypes.data % 8:
        array = array.copy()
    return array


_FORKED = "this process was forked from the one that used the loader: make a Loader in the process that uses it"
_LEFT = "this iterator's job was left: its loader was closed or is being iterated again"
_PICKLED = ("a Loader that has been used cannot be pickled or copied, for its job belongs to one process: "
            "make a Loader in the process that uses it, or hand it over before its first use")
_KEPT = ("batches are being kept, and fill {kept} of the ring's {slots} slots: further batches are copied. "
         "Drop batches that are done with, or ask for more slots (at most 64)")


class Loader:
    """Batches from a Tureen server.

        for batch in tureen.Loader(dataset="train", batch_size=64, epochs=2):
            step(batch["image"], batch["label"])

    endpoint    where the server listens; None or "": $TUREEN_ENDPOINT, or the server's own default
    dataset     a name that the server serves
    batch_size  samples in a batch
    epochs      one iteration goes through so many; None: without end
    pipeline    the name of a recipe of the server's ("train", "eval"), or a list of operations
    order       "shared" (with other jobs), "private" (draws alone), "list" (`ids` as given; without them, ascending),
                "seeded" (the same seed gives the same batches again, bit for bit); None: "seeded" with a seed, else
                "shared"
    ids         the samples of order "list", repeats allowed
    subset      of the data set: a range, the pair (lo, hi) for lo to hi-1, ids in any order, or a mask: booleans, the
                first for sample 0.  A mask may end before the data set does: what it does not reach is left out
    drop_last   leave out what does not fill a batch
    slots       batches that may be on their way or in use at once, 3 to 64
    transport   "auto": shared memory where that is possible; "inline": always through the socket
    seed        of order "seeded" and all its random operations; in other orders of the private ones only.  None: the
                server draws one, which `joined.seed` tells
    pool        of order "seeded" over a pack: pieces of it are read whole and mixed in a pool of so many samples, 8 to
                2**24, so that each is read once an epoch; another pool is another order.  None: an order without one
    name        for people, in `tureen status`
    timeout     seconds to wait for the server's answer to a join; math.inf: as long as it takes

    Nothing is sent before the first `iter`, `len`, `samples`, `fields` or `joined`.  Each `iter` is a job of its own; it
    first leaves the one before, whose iterator then raises LoaderClosed (one that was exhausted stays so).  It begins
    at epoch 0, so with a seed each `iter` gives the same again: have the epochs in one, by `epochs` and `batch.epoch`.
    Breaking off, an exception in the loop, dropping the iterator, `close` and the interpreter's exit leave the job.

    Batches may be kept: when all but two slots are (of three, all but one), further ones are copied, with one warning.
    A job is left, and its shared memory given back, only when the last view of its batches is gone.

    Until it is used a loader is mere configuration, which may be pickled, and used in a forked or a spawned process.
    From then on it belongs to the process that used it.
    """

    def __init__(self, endpoint: Optional[str] = None, dataset: str = "train", batch_size: int = 64,
                 epochs: Optional[int] = None, *, pipeline: Pipeline = "train", order: Optional[str] = None,
                 ids: Optional[Any] = None, subset: Optional[Subset] = None, drop_last: bool = False, slots: int = 4,
                 transport: str = "auto", seed: Optional[int] = None, pool: Optional[int] = None, name: str = "",
                 timeout: float = 10.0) -> None:
        self.endpoint = resolve_endpoint(endpoint)
        self._request = Request(dataset=dataset, batch_size=batch_size, epochs=epochs, drop_last=drop_last,
                                pipeline=pipeline, order=order, slots=slots, transport=transport, seed=seed, name=name,
                                ids=ids, subset=subset, pool=pool)
        self._timeout = seconds("timeout", timeout)
        self._pid: Optional[int] = None                     # of the process that uses it
        self._kept = _Once(_KEPT.format(kept=lent_max(slots), slots=slots))
        self._joined: Optional[Joined] = None
        self._waiting: Optional[BatchIterator] = None       # joined for a question's sake, not yet iterated
        self._active: Optional[weakref.ref[BatchIterator]] = None
        self._closed = False

    def __iter__(self) -> BatchIterator:
        self._check()
        iterator, self._waiting = self._waiting, None
        if iterator is None or not iterator._connection.usable:
            self._leave()
            iterator = self._join()
        self._active = weakref.ref(iterator)
        return iterator

    def __len__(self) -> int:
        """Batches of one iteration, all epochs together; joins if that has not been done.  TypeError without an end."""
        if self._request.epochs is None:
            raise TypeError("a loader without an end (epochs=None) has no len()")
        samples, size = self.samples, self._request.batch_size
        return self._request.epochs * (samples // size if self._request.drop_last else -(-samples // size))

    def __bool__(self) -> bool:
        return True

    @property
    def joined(self) -> Joined:
        """What the server said of the last job; joins if there was none."""
        if self._joined is None:
            self._check()
            self._waiting = self._join()
        assert self._joined is not None
        return self._joined

    @property
    def samples(self) -> int:
        """Samples in one epoch."""
        return self.joined.samples

    @property
    def fields(self) -> Dict[str, Field]:
        """The arrays of a batch, by name: `.dtype`, `.shape` of one sample, and `.told`, the dtype in the server's words."""
        return {field.name: field for field in self.joined.fields}

    @property
    def classes(self) -> Optional[Tuple[str, ...]]:
        """The names behind the labels, where the server sent them."""
        return self.joined.classes

    def close(self) -> None:
        """Leaves the job; the loader cannot be used again.  Batches that are held stay readable."""
        self._closed = True
        if self._pid == os.getpid():
            self._leave()

    def __getstate__(self) -> Dict[str, Any]:
        if self._pid is not None:
            raise TypeError(_PICKLED)
        return dict(self.__dict__)

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        self.close()

    def _check(self) -> None:
        if self._pid not in (None, os.getpid()):
            raise ForkedProcess(_FORKED)
        if self._closed:
            raise LoaderClosed("this loader was closed")

    def _join(self) -> BatchIterator:
        wait_for_leavers(self.endpoint)
        connection = Connection(self.endpoint, self._request, self._timeout)
        self._joined = connection.start()
        self._pid = os.getpid()
        return BatchIterator(connection, self._kept)

    def _leave(self) -> None:
        iterators: List[Optional[BatchIterator]] = [self._waiting, self._active() if self._active else None]
        self._waiting = self._active = None
        for iterator in iterators:
            if iterator is not None:
                iterator._connection.finish()

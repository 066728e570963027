"""The functions that a loader was given, and where they run: in the loop, or in processes."""
from __future__ import annotations

import collections
import pickle
import threading
import weakref
from typing import Any, Callable, Deque, List, Optional, Tuple

from .. import batch as batches
from ..errors import LoaderClosed, MapFailed
from ..job import Job
from ..request import within
from ..wire import BatchHead, Joined
from .memory import Private
from .pool import Pool
from .processes import REMEDIES, context_of
from .pytree import ArrayAdapter
from .results import Result, Results, Work, own
from .run import Function, Functions, RowFailed, Runner, Source
from .worker import failure

PROCESSES_MAX = 1024
_LOOK_S = 0.1                   # while a batch is waited for, whether anything but its end has come


def numpy_adapter(joined: Joined) -> ArrayAdapter:
    return ArrayAdapter(joined.fields)


class Mapper:
    """Configuration until `start`, which may be pickled.  One job at a time.

    Threads: `submit` is the connection's thread's, all else the loop's.  When it is dropped, and at the
    interpreter's exit, the processes end.
    """

    def __init__(self, sample: Optional[Function], batch: Optional[Function], workers: int, context: Any,
                 slots: int, adapter: Callable[[Joined], ArrayAdapter] = numpy_adapter) -> None:
        for name, function in (("map", sample), ("map_batch", batch)):
            if function is not None and not callable(function):
                raise TypeError(f"{name} must be a function, not a {type(function).__name__}")
        self._functions = Functions(sample, batch)
        self._workers = within("map_workers", workers, 0, PROCESSES_MAX)
        self._context = context
        self._slots = slots
        self._make_adapter = adapter
        self._clear()

    def _clear(self) -> None:
        self._pool: Optional[Pool] = None
        self._adapter: Optional[ArrayAdapter] = None
        self._told: Any = None                  # what the adapter was made of
        self._told_broken = False               # the loop has heard why no process runs
        #  Where the loop itself runs them
        self._runner: Optional[Runner] = None
        self._private: Optional[Tuple[int, Private]] = None
        self._results: Optional[Results] = None
        self._early: Deque[weakref.ref[Work]] = collections.deque()
        self._lock = threading.Lock()

    def __getstate__(self) -> Any:
        state = dict(self.__dict__)
        kept = ("_functions", "_workers", "_context", "_slots", "_make_adapter")
        return {name: state[name] for name in kept}

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)
        self._clear()

    @property
    def _by_sample(self) -> bool:
        return self._functions.batch is None

    def start(self) -> None:
        """Starts the processes, if there are to be any and they are not there.  TypeError where the functions
        cannot be handed to them."""
        if not self._workers or self._pool is not None and self._pool.alive:
            return
        context = context_of(self._context)
        pool = Pool(self._packed(context.get_start_method()), self._by_sample, self._workers, context,
                    self._slots)
        pool.start()
        self._finalizer = weakref.finalize(self, pool.close, wait=False)
        self._finalizer.atexit = False          # the pools see to that themselves
        with self._lock:
            self._pool = pool
            pool.adapter = self._adapter
            for early in self._early:
                work = early()
                if work is not None:
                    pool.submit(work)
            self._early.clear()

    def _packed(self, method: str) -> Any:
        if method == "fork":
            return tuple(self._functions)
        try:
            return pickle.dumps(tuple(self._functions))
        except Exception as error:
            raise TypeError(f"map and map_batch go to processes of their own, and this one cannot ({error}): "
                            f"{REMEDIES}") from error

    def begin(self, joined: Joined) -> None:
        """A job's batches follow.  TypeError where the loader cannot give such fields."""
        told = (joined.fields, joined.pipeline)
        if told == self._told:
            return
        self._adapter, self._told = self._make_adapter(joined), told
        self._runner = None
        if self._pool is not None:
            self._pool.tell(self._adapter)

    def submit(self, job: Job, head: BatchHead, ids: bytes, frame: Any) -> Work:
        """A batch has come; it is begun when there is room."""
        work = Work(job, head, ids, frame)
        with self._lock:
            if self._pool is not None:
                self._pool.submit(work)
            elif self._workers:
                self._early.append(weakref.ref(work))
        return work

    def result(self, work: Work, ring_scarce: bool, leaving: Callable[[], bool]) -> Tuple[Result, bool]:
        """The batch as the functions make it, and whether it had to be copied, because too many are kept.
        Waits for it.  Failed where a function raised, MapFailed where no process can run it; asked again, the
        batch is done again."""
        if not self._workers:
            return self._run_here(work, ring_scarce)
        pool = self._ready_pool()
        if work.pool is not pool:
            pool.again(work)
        while not work.done.wait(_LOOK_S):
            if leaving():
                raise LoaderClosed("the loader was closed, or is iterated again")
            if pool.broken is not None or not pool.alive:
                self._told_broken = True
                raise MapFailed(f"map cannot go on: {pool.broken}")
        if work.failure is not None:
            work.pool = None                    # it is done again when it is asked for
            first, why = work.failure
            raise Failed(first, why, None if why.cause is None else why.cause.raised())
        return pool.results.finish(work, ring_scarce)

    def _ready_pool(self) -> Pool:
        """Where none can run a function any more, others are tried."""
        pool = self._pool
        if pool is None or not pool.alive:
            self._pool, self._told_broken = None, False
            self.start()
            pool = self._pool
            assert pool is not None
        elif pool.broken is not None:
            if self._told_broken:
                pool.broken = None
                pool.mend()
            self._told_broken = False
        return pool

    def close(self) -> None:
        """The processes end.  What was given stays as it is."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
            self._finalizer.detach()
        self._runner = self._results = self._private = None

    def pids(self) -> List[int]:
        """Of the processes."""
        return [] if self._pool is None else self._pool.pids()

    def ready(self) -> bool:
        """All processes have begun."""
        return not self._workers or self._pool is not None and self._pool.ready()

    def _run_here(self, work: Work, ring_scarce: bool) -> Tuple[Result, bool]:
        adapter = self._adapter
        assert adapter is not None
        if self._runner is None:
            self._runner = Runner(self._functions, adapter)
            self._results = Results(self._slots, self._by_sample, None)
        results, source, first = self._results, self._source(work, adapter), 0
        assert results is not None
        work.begin_again()
        try:
            if not results.decided:
                end = 1 if self._by_sample else len(work.ids)
                self._run_part(work, source, 0, end, self._runner, results)
                self._runner.laid, first = results.laid, end
            if first < len(work.ids):
                results.place(work)
                self._run_part(work, source, first, len(work.ids), self._runner, results)
        except RowFailed as failed:
            row, error = failed.args
            raise Failed(first + (row or 0), failure(failed)._replace(trace=""), error) from None
        work.complete()
        return results.finish(work, ring_scarce)

    def _run_part(self, work: Work, source: Source, first: int, end: int, runner: Runner,
                  results: Results) -> None:
        texts, kept, apart = runner.run(source.part(first, end), work.ids[first:end], work.key, first,
                                        work.slot)
        if apart is None:
            work.take_done(first, end - first, texts, kept, self._by_sample)
        else:
            results.take_apart(work, apart.whole, apart.rows, apart.values)

    def _source(self, work: Work, adapter: ArrayAdapter) -> Source:
        """The batch as the server wrote it, such that the functions may write to it."""
        size, shared = work.job.joined.slot_bytes, work.job.shared
        if work.frame is not None:
            return Source(batches.views(adapter.fields, own(work.frame).copy(), len(work.ids)), None)
        if shared is None:
            raise LoaderClosed("the loader was closed, or is iterated again")
        if self._private is None or self._private[0] != shared.number:
            self._private = (shared.number, Private(shared.descriptor, shared.size))
        memory = self._private[1]
        slot = memory.bytes(work.head.slot * size, size)
        return Source(batches.views(adapter.fields, slot, len(work.ids)), memory)


class Failed(Exception):
    """A function raised.  The place of the sample in the batch, what is to be said, and the exception, where
    there is one."""


def mapper_of(sample: Any, batch: Any, workers: int, context: Any, slots: int,
              adapter: Callable[[Joined], ArrayAdapter] = numpy_adapter) -> Tuple[Optional[Mapper], bool]:
    """What a loader's arguments ask for, and whether it belongs to others too."""
    if isinstance(sample, Mapper):
        return sample, True
    if sample is None and batch is None:
        if workers or context is not None:
            raise ValueError("map_workers and multiprocessing_context are for map or map_batch: give one, or "
                             "leave them out")
        return None, False
    return Mapper(sample, batch, workers, context, slots, adapter), False

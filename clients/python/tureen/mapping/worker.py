"""What a process of the client does that runs the user's functions.

    happy path:     the functions come through a pipe, unless the process was forked with them.  "ready" is
                    the answer.  Then tasks come, a few bytes each, and each is answered.  Their arrays lie in
                    memory that is mapped by its descriptor, once.
    failure modes:  a function that raises is an answer.  Functions that cannot be unpickled are the answer
                    "unusable", and the end.
    on close:       the client's end of `life` closes, by itself where the client was killed: a thread that
                    waits for it ends the process at once, whatever a function is doing.
"""
from __future__ import annotations

import mmap
import os
import pickle
import random
import signal
import threading
import time
import traceback
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from .. import batch as batches
from ..waker import Bytes
from .causes import Cause, text_of
from .memory import Private, mapped, new_shared
from .pytree import ArrayAdapter, Laid, Layout
from .run import Apart, Functions, Ids, Key, RowFailed, Runner, Source

#  Client to process: a word and what belongs to it.
FUNCTIONS, MEMORY, FORGET = "functions", "memory", "forget"
ADAPTER, LAYOUT, TASK = "adapter", "layout", "task"
#  Process to client.
READY, UNUSABLE, DONE, APART, FAILED = "ready", "unusable", "done", "apart", "failed"
_TEXT_MAX = 20000


class Task(NamedTuple):
    """Samples `first` to `first + len(ids) - 1` of a batch of so many.  Source and target are the number of a
    memory, where in it, and bytes.  Plain tuples are what travels."""
    source: Tuple[int, int, int]
    samples: int
    first: int
    ids: Ids
    key: Tuple[int, int]
    target: Optional[Tuple[int, int, int]]


class Failure(NamedTuple):
    """row: of the task's samples, None: of the batch.  cause: None where no function raised."""
    row: Optional[int]
    summary: str
    trace: str
    cause: Optional[Cause]


def serve(pipe: Any, life: Any, functions: Any) -> None:
    """The process's whole life.  `functions`: of a process that was forked; None: they come first."""
    _detach(pipe, life)
    try:
        pickled = pipe.recv()[1] if functions is None else b""
        try:
            sample, batch = functions or pickle.loads(pickled)
        except BaseException as error:
            pipe.send((UNUSABLE, f"{_summary(error)}\n{traceback.format_exc()}"[:_TEXT_MAX]))
            return
        pipe.send((READY,))
        _Worker(pipe, Functions(sample, batch)).run()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass                                    # the client has closed it, or is gone


def _detach(pipe: Any, life: Any) -> None:
    """From the terminal's Ctrl-C, which is the client's, and from what a fork has left.  Programs that the
    functions start do not keep the pipe open when this process has died."""
    for end in (pipe, life):
        os.set_inheritable(end.fileno(), False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    random.seed()
    _free_random_numbers()
    np.random.seed()
    threading.Thread(target=_end_with, args=(life,), name="tureen-life", daemon=True).start()


def _free_random_numbers() -> None:
    """A thread of the client that draws random numbers of NumPy when this process is forked holds their lock,
    and is not there to release it."""
    try:
        lock = np.random.mtrand._rand._bit_generator.lock       # type: ignore[attr-defined]
        lock.acquire(blocking=False)
        lock.release()
    except (AttributeError, RuntimeError):
        pass                                    # another NumPy has no such lock


def _end_with(life: Any) -> None:
    try:
        life.recv_bytes()
    except (EOFError, OSError):
        pass
    os._exit(0)


class _Worker:
    def __init__(self, pipe: Any, functions: Functions) -> None:
        self._pipe: Connection = pipe
        self._functions = functions
        self._runner: Optional[Runner] = None
        self._targets: Dict[int, mmap.mmap] = {}
        self._sources: Dict[int, Private] = {}

    def run(self) -> None:
        while True:
            word, *what = self._pipe.recv()
            if word == TASK:
                self._answer(Task(*what))
            elif word == MEMORY:
                number, size, written = what
                self._map(number, size, written, reduction.recv_handle(self._pipe))
            elif word == FORGET:
                self._targets.pop(what[0], None)
                self._sources.pop(what[0], None)
            elif word == ADAPTER:
                adapter: ArrayAdapter = what[0]
                adapter.prepare()
                self._runner = Runner(self._functions, adapter)
            elif word == LAYOUT:
                assert self._runner is not None
                self._runner.laid = None if what[0] is None else Laid(*what)

    def _map(self, number: int, size: int, written: bool, descriptor: int) -> None:
        if written:
            self._targets[number] = mapped(descriptor, size)
        else:
            try:
                self._sources[number] = Private(descriptor, size)
            finally:
                os.close(descriptor)

    def _answer(self, task: Task) -> None:
        runner, source, target = self._runner, task.source, None
        assert runner is not None
        memory = self._sources[source[0]]
        fields = batches.views(runner.adapter.fields, memory.bytes(*source[1:]), task.samples)
        samples = Source(fields, memory).part(task.first, task.first + len(task.ids))
        if task.target is not None:
            number, offset, size = task.target
            target = np.frombuffer(self._targets[number], np.uint8, size, offset)
        begin = time.monotonic()
        try:
            texts, kept, apart = runner.run(samples, task.ids, Key(*task.key), task.first, target)
        except RowFailed as failed:
            self._pipe.send((FAILED, failure(failed)))
            return
        if apart is None:
            self._pipe.send((DONE, texts, kept, time.monotonic() - begin))
        else:
            self._send_apart(apart)

    def _send_apart(self, apart: Apart) -> None:
        """In new memory; its descriptor follows the answer."""
        laid, texts = Laid(apart.whole, 1), {}
        shared = new_shared(max(1, laid.bytes))
        memory = mmap.mmap(shared.descriptor, shared.size)
        places = laid.views(np.frombuffer(memory, np.uint8))
        for at, (place, value) in enumerate(zip(places, apart.values)):
            if place is None:
                texts[at] = value
            else:
                place[0, ...] = value
        self._pipe.send((APART, apart.whole, apart.rows, texts, shared.size))
        reduction.send_handle(self._pipe, shared.descriptor, os.getppid())


def failure(failed: RowFailed) -> Failure:
    """What can be sent of it."""
    row, error = failed.args
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return Failure(row, _summary(error), trace[-_TEXT_MAX:], Cause(error))


def _summary(error: BaseException) -> str:
    text = text_of(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def has_descriptor(answer: Any) -> bool:
    """A descriptor follows it."""
    return bool(answer[0] == APART)


def received_apart(layout: Layout, texts: Dict[int, Any], size: int,
                   descriptor: int) -> Tuple[List[Any], Bytes]:
    """The client's side: the values, over memory of their own."""
    memory = mapped(descriptor, size)
    buffer: Bytes = np.frombuffer(memory, np.uint8)
    values: List[Any] = [texts[at] if place is None else place[0, ...]
                         for at, place in enumerate(Laid(layout, 1).views(buffer))]
    return values, buffer

"""Waking the connection's thread from any other: through a socket pair, and without a lock, so that it may
happen inside a garbage collection too.

Where an array's death wakes, no Python code runs: Python prints an exception of a weak reference's callback
and goes on, so a Ctrl-C that came there would be lost.
"""
from __future__ import annotations

import functools
import operator
import os
import select
import socket
import weakref
from typing import Any, Callable, List, Optional

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
_DRAINED_BYTES = 4096       # more than there are wakes at once: one, and one for each batch that is lent


class _End(socket.SocketType):
    """Closed with the last reference to it, and with it the other end, if it has that."""
    other: Optional[_End] = None
    __del__ = socket.SocketType.close       # without Python code either


class Waker:
    def __init__(self) -> None:
        self._pid = os.getpid()
        writer, reader = (_End(fileno=end.detach()) for end in socket.socketpair())
        writer.setblocking(False)
        reader.setblocking(False)
        #  A send holds both ends, so none meets a closed one
        writer.other = reader
        self._reader: Optional[_End] = reader
        self.send: Callable[[bytes], int] = writer.send
        self._woken = False

    def wake(self) -> None:
        """Lets the thread look around.  One byte is enough however often it is called."""
        if self._woken or self._pid != os.getpid():
            return
        self._woken = True
        try:
            self.send(b"w")
        except BlockingIOError:         # full: it will wake
            pass

    def wake_at_end(self, array: Bytes) -> _Bell:
        """Wakes when the array dies, if what is given here is still there then.  In a forked child that wakes
        the parent's thread, in vain."""
        bell = _Bell(array, _RING)
        bell.ring = functools.partial(_SEND, self)
        return bell

    def fileno(self) -> int:
        return -1 if self._reader is None else self._reader.fileno()

    def awake(self, readable: bool) -> None:
        """The thread is about to look at everything: what comes later wakes it again."""
        if readable and self._reader is not None:
            try:
                self._reader.recv(_DRAINED_BYTES)
            except BlockingIOError:
                pass
        self._woken = False

    def sleep(self, seconds: float) -> None:
        """The thread waits for nothing but a wake."""
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        self.awake(bool(poll.poll(max(0.0, seconds) * 1000)))

    def close(self) -> None:
        """A wake that comes later does nothing."""
        self.send = len
        self._reader = None


_RING: Callable[[Any], Any] = operator.methodcaller("ring")
_SEND: Callable[[Any], Any] = operator.methodcaller("send", b"w")


class _Bell(weakref.ref):  # type: ignore[type-arg]  # weakref.ref[...] cannot be subscripted as a base
    """Its callback calls `ring`, and that what is the waker's `send` then, all of it in C."""
    __slots__ = ("ring",)
    ring: Callable[[], Any]


class Loan:
    """Whether an array that was lent is still there.  When it has died, `over` is not empty any more, from
    before the thread is woken on.

    Nothing here refers to the array, not even for a moment: one that the user has dropped would live on in
    the thread that looks."""
    __slots__ = ("over", "_bell", "_mark")

    def __init__(self, array: Bytes, waker: Optional[Waker]) -> None:
        self.over: List[Any] = []
        #  Callbacks run from the newest to the oldest: the mark is set before the bell rings
        self._bell = None if waker is None else waker.wake_at_end(array)
        self._mark = weakref.ref(array, self.over.append)

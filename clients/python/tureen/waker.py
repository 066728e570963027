"""Waking the connection's thread from any other: through a socket pair, and without a lock, so that it may
happen inside a garbage collection too."""
from __future__ import annotations

import os
import select
import socket


class Waker:
    def __init__(self) -> None:
        self._pid = os.getpid()
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._woken = False

    def wake(self) -> None:
        """Lets the thread look around.  One byte is enough however often it is called."""
        if self._woken or self._pid != os.getpid():
            return
        self._woken = True
        try:
            self._writer.send(b"w")
        except OSError:                 # full: it will wake; closed: it is gone
            pass

    def fileno(self) -> int:
        return self._reader.fileno()

    def awake(self, readable: bool) -> None:
        """The thread is about to look at everything: what comes later wakes it again."""
        if readable:
            try:
                self._reader.recv(64)
            except BlockingIOError:
                pass
        self._woken = False

    def sleep(self, seconds: float) -> None:
        """The thread waits for nothing but a wake."""
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        self.awake(bool(poll.poll(max(0.0, seconds) * 1000)))

    def close(self) -> None:
        self._reader.close()
        self._writer.close()

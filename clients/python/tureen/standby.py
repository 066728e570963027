"""Servers that are started again when they have died: those that `tureen.serve` started for this process, or
found.

    happy path:     `serve` leaves here how to start the server of its endpoint.  While a connection looks for
                    a lost server, a thread starts it, once no process holds the endpoint.
    failure modes:  several processes start it at once: their servers elect one, as in `serve`.  It cannot be
                    started: the next try comes after a pause, as long as a connection looks for it.
    on close:       the thread waits for the next loss.  A server that it started ends by itself when it has
                    had no job for a while.

A server that was told to end (Server.stop, `tureen drain`, SIGTERM) has not died: its jobs wait for the next
one.
"""
from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from typing import Callable, Dict, Iterator, List, Optional

from .errors import TureenError
from .finding import is_vacant, starting

log = logging.getLogger("tureen")

_LOOK_S = 0.1
_PAUSE_MIN_S = 1.0                  # after a start that failed
_PAUSE_MAX_S = 30.0

Start = Callable[[float], None]     # gets the seconds that it may take
Left = Callable[[], float]          # seconds that a connection still looks for the server


class Standby:
    """One for each endpoint.  `failure`: why the last start failed, empty if it did not."""

    def __init__(self, endpoint: str, start: Start) -> None:
        self.failure = ""
        self.start = start
        self._endpoint = endpoint
        self.reset()

    def reset(self) -> None:
        """Also in a forked child, where no other thread is."""
        self._change = threading.Condition()
        self._looking: List[Left] = []
        self._thread: Optional[threading.Thread] = None

    def prepare(self) -> None:
        """Has a thread ready.  It hands its blocked signals on to the server, so no thread that blocks them
        may make it."""
        with self._change:
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="tureen-standby", daemon=True)
                self._thread.start()

    @contextlib.contextmanager
    def kept_up(self, left_s: Left) -> Iterator[None]:
        with self._change:
            self._looking.append(left_s)
            self._change.notify()
        try:
            yield
        finally:
            with self._change:
                self._looking.remove(left_s)

    def _watch(self) -> None:
        pause_s = _PAUSE_MIN_S
        while True:
            with self._change:
                while not self._looking:
                    self._change.wait()
                left_s = max(left() for left in self._looking)
            if self._start_if_gone(left_s):
                time.sleep(_LOOK_S)
                pause_s = _PAUSE_MIN_S
            else:
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    def _start_if_gone(self, left_s: float) -> bool:
        """False: it failed."""
        if _known.get(self._endpoint) is not self or not self._is_gone():
            return True
        log.warning("the server at %s is gone: it is started again, as tureen.serve knows it", self._endpoint)
        try:
            self.start(left_s)
            self.failure = ""
        except (TureenError, OSError) as error:
            self.failure = str(error)
            log.warning("the server at %s could not be started again: %s", self._endpoint, error)
        return not self.failure

    def _is_gone(self) -> bool:
        return is_vacant(self._endpoint) and starting(self._endpoint) is None


#  By endpoint
_known: Dict[str, Standby] = {}


def remember(endpoint: str, start: Start) -> None:
    _known.setdefault(endpoint, Standby(endpoint, start)).start = start


def knows(endpoint: str) -> bool:
    return endpoint in _known


def forget(endpoint: str) -> None:
    """Its server is to end."""
    _known.pop(endpoint, None)


def prepare(endpoint: str) -> None:
    standby = _known.get(endpoint)
    if standby is not None:
        standby.prepare()


def trouble(endpoint: str) -> str:
    """Why the server could not be started again; empty where that was not tried, or did not fail."""
    standby = _known.get(endpoint)
    return standby.failure if standby else ""


def kept_up(endpoint: str, left_s: Left) -> contextlib.AbstractContextManager[None]:
    """Inside, the endpoint's server is started whenever it is gone, if `serve` knows it."""
    standby = _known.get(endpoint)
    return contextlib.nullcontext() if standby is None else standby.kept_up(left_s)


def _after_fork() -> None:
    for standby in _known.values():
        standby.reset()


os.register_at_fork(after_in_child=_after_fork)

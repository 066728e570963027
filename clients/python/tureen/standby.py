"""Servers that are started again when they have died: those that `tureen.serve` started for this process, or
found.

    happy path:     `serve` leaves here how to start the server of its endpoint.  While a connection looks for
                    a lost server, a thread starts it, once no process holds the endpoint.
    failure modes:  several processes start it at once: their servers elect one, as in `serve`.  It cannot be
                    started: the next try comes after a pause, as long as a connection looks for it.
                    Another process has started it, and it lacks what this process had added, or has other
                    data of that name: `start` is called too, which adds it.
    on close:       the thread waits for the next loss, or ends where others start the server.  A server that
                    it started ends by itself when it has had no job for a while.

A server that was told to end (Server.stop, `tureen drain`, SIGTERM) has not died: its jobs wait for the next
one.
"""
from __future__ import annotations

import contextlib
import logging
import os
import threading
from typing import Callable, Dict, Iterator, List, Optional, Tuple

from .finding import is_vacant, server_process, starting

log = logging.getLogger("tureen")

_LOOK_S = 0.1
_PAUSE_MIN_S = 1.0                  # after a start that failed
_PAUSE_MAX_S = 30.0

Start = Callable[[float], Optional[int]]    # gets the seconds that it may take; gives the server's process
Left = Callable[[], float]          # seconds that a connection still looks for the server


class Standby:
    """One for each endpoint.  `failure`: why the last start failed, empty if it did not, or no connection
    looks for the server any more."""

    def __init__(self, endpoint: str, start: Start, starts: bool = True) -> None:
        """`starts`: False: others start it, and it only gets what it lacks."""
        self.failure = ""
        self.start = start
        self.starts = starts
        #  Of the server that has what this process asked for; None: not known.
        self.process: Optional[int] = None
        self._endpoint = endpoint
        self.reset()

    def reset(self) -> None:
        """Also in a forked child, where no other thread is."""
        self._change = threading.Condition()
        self._looking: List[Tuple[Left, bool]] = []     # and whether it may be started
        self._pause_s = _PAUSE_MIN_S
        self._lacks = False             # a server that is there has not all that was asked for
        self._thread: Optional[threading.Thread] = None

    def prepare(self) -> None:
        """Has a thread ready.  It hands its blocked signals on to the server, so no thread that blocks them
        may make it.  One that starts no server is made when it is needed."""
        with self._change:
            if self.starts:
                self._begin()

    def _begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="tureen-standby", daemon=True)
            self._thread.start()

    @contextlib.contextmanager
    def kept_up(self, left_s: Left, starts: bool = True) -> Iterator[None]:
        with self._change:
            self._looking.append((left_s, starts))
            self._begin()
            self._change.notify()
        try:
            yield
        finally:
            with self._change:
                self._looking.remove((left_s, starts))
                self._change.notify()

    def complete(self) -> None:
        self._lacks = True

    def _watch(self) -> None:
        while True:
            with self._change:
                while not self._looking:
                    self.failure, self._pause_s = "", _PAUSE_MIN_S      # the next loss is another one
                    if not self.starts:
                        self._thread = None
                        return
                    self._change.wait()
                left_s = max(left() for left, _ in self._looking)
                starts = any(starts for _, starts in self._looking)
            self._wait(self._start_if_gone(left_s, starts))

    def _wait(self, pause_s: float) -> None:
        """Or until no connection looks for the server."""
        with self._change:
            self._change.wait_for(lambda: not self._looking, pause_s)

    def _start_if_gone(self, left_s: float, starts: bool) -> float:
        """Gives the pause before the next look."""
        is_gone = starts and self.starts and self._is_gone()
        if _known.get(self._endpoint) is not self or not (is_gone or self._lacks):
            self._pause_s = _PAUSE_MIN_S
            return _LOOK_S
        log.warning("the server at %s is gone: it is started again, as tureen.serve knows it" if is_gone else
                    "the server at %s is another one: it gets what it lacks of this process's data sets",
                    self._endpoint)
        try:
            self._lacks = False
            self.process = self.start(left_s)
            self.failure, self._pause_s = "", _PAUSE_MIN_S
            return _LOOK_S
        except Exception as error:      # also one that should not be: the thread goes on
            self.failure = str(error)
            log.warning("the server at %s could not be %s: %s", self._endpoint,
                        "started again" if self._is_gone() else "given what it lacks", error)
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, _PAUSE_MAX_S)
        return pause_s

    def _is_gone(self) -> bool:
        return is_vacant(self._endpoint) and starting(self._endpoint) is None


#  By endpoint
_known: Dict[str, Standby] = {}


def remember(endpoint: str, start: Start, starts: bool = True) -> None:
    standby = _known.setdefault(endpoint, Standby(endpoint, start))
    standby.start, standby.starts = start, starts


def process(endpoint: str) -> Optional[int]:
    """Of the server that had what this process asked for last; None: not known."""
    standby = _known.get(endpoint)
    return None if standby is None else standby.process


def settled(endpoint: str, process: Optional[int]) -> None:
    """That server has what this process asked for."""
    standby = _known.get(endpoint)
    if standby is not None:
        standby.process = process


def is_another(endpoint: str, before: Optional[int]) -> bool:
    """The server there is not that process: it may have other data under their names."""
    return before is not None and server_process(endpoint) not in (None, before)


def knows(endpoint: str) -> bool:
    """Its server gets what it lacks."""
    return endpoint in _known


def starts(endpoint: str) -> bool:
    """Its server is started again too."""
    standby = _known.get(endpoint)
    return standby is not None and standby.starts


def forget(endpoint: str) -> None:
    """Its server is to end."""
    _known.pop(endpoint, None)


def complete(endpoint: str) -> None:
    """The server that was found again lacks what this process had added."""
    standby = _known.get(endpoint)
    if standby is not None:
        standby.complete()


def prepare(endpoint: str) -> None:
    standby = _known.get(endpoint)
    if standby is not None:
        standby.prepare()


def trouble(endpoint: str) -> str:
    """Why the server could not be started again, or be given what it lacks; empty where that was not tried,
    or did not fail."""
    standby = _known.get(endpoint)
    return standby.failure if standby else ""


def kept_up(endpoint: str, left_s: Left, starts: bool) -> contextlib.AbstractContextManager[None]:
    """Inside, the endpoint's server gets what it lacks (`complete`), if `serve` knows it.  `starts`: it is
    also started whenever it is gone."""
    standby = _known.get(endpoint)
    return contextlib.nullcontext() if standby is None else standby.kept_up(left_s, starts)


def _after_fork() -> None:
    for standby in _known.values():
        standby.reset()


os.register_at_fork(after_in_child=_after_fork)

"""A control connection to a server: requests that belong to no job, and what the server says of itself."""
from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List, Optional, Union

import zmq

from . import wire
from .connection_monitor import ConnectionMonitor
from .errors import NoServer, ProtocolError, RequestRefused
from .finding import is_vacant, no_server
from .keys import KeyPaths, Keys
from .request import poll_ms, resolve_endpoint, seconds
from .spare_threads import check_threads

Path = Union[str, "os.PathLike[str]"]

_BUSY_AGAIN_S = 0.25


class ControlConnection:
    """Asks one after another; a `with` block's end closes it.  `timeout`: seconds for each answer."""

    def __init__(self, endpoint: str, keys: Optional[Keys], timeout: float) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        self._tag = 0
        check_threads()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._dealer = self._context.socket(zmq.DEALER)
        self._monitor: Optional[ConnectionMonitor] = None
        try:
            self._dealer.linger = 0
            if keys is not None:
                keys.give(self._dealer)
            self._monitor = ConnectionMonitor(self._context, self._dealer, endpoint, keys)
            try:
                self._dealer.connect(endpoint)
            except (zmq.ZMQError, UnicodeEncodeError) as error:
                raise NoServer(f"{endpoint} is no endpoint that can be reached: {error}") from None
            self._poller = zmq.Poller()
            self._poller.register(self._dealer, zmq.POLLIN)
            self._poller.register(self._monitor.socket, zmq.POLLIN)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> ControlConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._dealer.close()
        if self._monitor is not None:
            self._monitor.socket.close()
        self._context.term()

    def ask(self, message: Callable[[int], List[bytes]], kind: int,
            timeout: Optional[float] = None) -> List[Any]:
        """The frames of the answer of that kind, without its head; `message` makes the question with its tag.
        RequestRefused, or NoServer where no answer comes in time, and at once where nothing listens.  A
        server that is busy, or opens the data set again, is asked again for as long.
        `timeout`: of this answer."""
        until = time.monotonic() + (self._timeout if timeout is None else timeout)
        while True:
            try:
                return self._once(message, kind, until)
            except RequestRefused as refused:
                if refused.code not in ("busy", "opening") or time.monotonic() + _BUSY_AGAIN_S >= until:
                    raise
            time.sleep(_BUSY_AGAIN_S)

    def _once(self, message: Callable[[int], List[bytes]], kind: int, until: float) -> List[Any]:
        assert self._monitor is not None
        self._tag += 1
        begin = time.monotonic()
        self._monitor.ask(message(self._tag))
        while time.monotonic() < until:
            answer = None
            if self._dealer in dict(self._poller.poll(poll_ms(until - time.monotonic()))):
                frames = self._dealer.recv_multipart()
                self._monitor.look()
                answer = None if self._monitor.strange else self._answer(frames, kind)
            if answer is not None:
                return answer
            self._monitor.look()
            if self._monitor.unreached and is_vacant(self._endpoint):
                raise no_server(self._endpoint, round(time.monotonic() - begin, 2))
            self._monitor.unreached = False
        raise no_server(self._endpoint, self._timeout)

    def _answer(self, frames: List[Any], kind: int) -> Optional[List[Any]]:
        head = wire.parse_head(frames[0])
        if head is None or head.tag not in (0, self._tag) or head.kind not in (kind, wire.ERROR):
            return None
        if len(frames) < 2:
            raise ProtocolError("the server's answer has 1 frame instead of 2")
        if head.kind == wire.ERROR:
            raise RequestRefused(*wire.parse_reason(frames[1], "error", "ERROR"))
        return frames[1:]


def status(endpoint: Optional[str] = None, timeout: float = 5.0, *, key: Optional[Path] = None,
           server_key: Optional[Path] = None) -> Dict[str, Any]:
    """The object that `tureen status --json` prints.  `timeout` in seconds; math.inf: as long as it takes.
    NoServer comes at once where nothing listens at the endpoint.  `key` and `server_key` as of Loader."""
    endpoint = resolve_endpoint(endpoint)
    keys = KeyPaths(key, server_key).read(endpoint)
    with ControlConnection(endpoint, keys, seconds("timeout", timeout)) as control:
        frames = control.ask(wire.status, wire.STATUS_REPLY)
    if len(frames) != 1:
        raise ProtocolError(f"the server's answer has {len(frames) + 1} frames instead of 2")
    return wire.parse_json(frames[0], "STATUS_REPLY")

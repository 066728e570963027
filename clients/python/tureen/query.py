"""What the server says of itself."""
from __future__ import annotations

import os
import time
from typing import Any, Dict, Optional, Union

import zmq

from . import wire
from .errors import NoServer, ProtocolError, RequestRefused
from .finding import is_vacant, no_server
from .keys import KeyPaths
from .request import poll_ms, resolve_endpoint, seconds
from .spare import check_threads
from .welcome import Welcome


Path = Union[str, "os.PathLike[str]"]


def status(endpoint: Optional[str] = None, timeout: float = 5.0, *, key: Optional[Path] = None,
           server_key: Optional[Path] = None) -> Dict[str, Any]:
    """The object that `tureen status --json` prints.  `timeout` in seconds; math.inf: as long as it takes.  NoServer comes at
    once where nothing listens at the endpoint.  `key` and `server_key` as of Loader."""
    endpoint = resolve_endpoint(endpoint)
    keys = KeyPaths(key, server_key).read(endpoint)
    timeout = seconds("timeout", timeout)
    check_threads()
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    dealer = context.socket(zmq.DEALER)
    welcome: Optional[Welcome] = None
    try:
        dealer.linger = 0
        if keys is not None:
            keys.give(dealer)
        welcome = Welcome(context, dealer, endpoint, keys)
        try:
            dealer.connect(endpoint)
        except (zmq.ZMQError, UnicodeEncodeError) as error:
            raise NoServer(f"{endpoint} is no endpoint that can be reached: {error}") from None
        dealer.send_multipart(wire.status(1))
        poller = zmq.Poller()
        poller.register(dealer, zmq.POLLIN)
        poller.register(welcome.monitor, zmq.POLLIN)
        begin = time.monotonic()
        until = begin + timeout
        while time.monotonic() < until:
            answer = None
            if dealer in dict(poller.poll(poll_ms(until - time.monotonic()))):
                answer = _answer(dealer.recv_multipart())
            if answer is not None:
                return answer
            welcome.look()
            if welcome.unreached and is_vacant(endpoint):
                timeout = round(time.monotonic() - begin, 2)
                break
            welcome.unreached = False
    finally:
        dealer.close()
        if welcome is not None:
            welcome.monitor.close()
        context.term()
    raise no_server(endpoint, timeout)


def _answer(frames: Any) -> Optional[Dict[str, Any]]:
    head = wire.parse_head(frames[0])
    if head is None or head.tag not in (0, 1) or head.kind not in (wire.STATUS_REPLY, wire.ERROR):
        return None
    if len(frames) != 2:
        raise ProtocolError(f"the server's answer has {len(frames)} frames instead of 2")
    if head.kind == wire.ERROR:
        raise RequestRefused(*wire.parse_reason(frames[1], "error", "ERROR"))
    return wire.parse_json(frames[1], "STATUS_REPLY")

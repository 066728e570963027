"""What the server says of itself."""
from __future__ import annotations

import time
from typing import Any, Dict, Optional

import zmq

from . import wire
from .errors import NoServer, ProtocolError, RequestRefused
from .finding import no_server
from .request import poll_ms, resolve_endpoint, seconds


def status(endpoint: Optional[str] = None, timeout: float = 5.0) -> Dict[str, Any]:
    """The object that `tureen status --json` prints.  `timeout` in seconds; math.inf: as long as it takes."""
    endpoint = resolve_endpoint(endpoint)
    timeout = seconds("timeout", timeout)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    dealer = context.socket(zmq.DEALER)
    try:
        dealer.linger = 0
        try:
            dealer.connect(endpoint)
        except (zmq.ZMQError, UnicodeEncodeError) as error:
            raise NoServer(f"{endpoint} is no endpoint that can be reached: {error}") from None
        dealer.send_multipart(wire.status(1))
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            answer = None
            if dealer.poll(poll_ms(until - time.monotonic())):
                answer = _answer(dealer.recv_multipart())
            if answer is not None:
                return answer
    finally:
        dealer.close()
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

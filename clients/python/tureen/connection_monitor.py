"""A connection's monitor: whether the connection was made, whether it broke, and why a server does not let
this client in.

A server that does not let one in says so in ZeroMQ's handshake, before any message: without its monitor that
would be silence.
"""
from __future__ import annotations

import os
import struct
from typing import Any, Iterator, List, Optional, Tuple

import zmq

from .errors import KeyRefused, NoServer, NotLetIn, NotTrusted
from .keys import Keys
from .trust import check_listener, check_path, peer_of

_EVENT = struct.Struct("=HI")
_HANDSHAKES = (zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_HANDSHAKE_FAILED_AUTH
               | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
#  ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH, which not every pyzmq names
_MECHANISM_MISMATCH = 0x11000002
#  A server that has no use for our handshake may hang up before we have read why, and one that is killed
#  meanwhile looks the same: so often it is not chance.
_SILENT_FAILURES_MAX = 3


class ConnectionMonitor:
    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], watched: Any, endpoint: str,
                 keys: Optional[Keys]) -> None:
        """`watched` is not connected yet, and has its keys.  The caller closes `socket`.  NotTrusted where
        what listens there may be another user's."""
        self._endpoint = endpoint
        self._watched = watched
        self._path = endpoint[len("ipc://"):] if endpoint.startswith("ipc://") else ""
        self._is_closed = bool(self._path) and check_path(self._path)
        self._public = keys.public if keys is not None else ""
        self._made = False
        self._silent_failures = 0
        #  A try to connect has failed.
        self.unreached = False
        #  A connection that was made has broken.
        self.broken = False
        #  Of a server on this machine, the user that runs it; None: unknown.
        self.peer: Optional[int] = None
        #  One that is not trusted was connected, or was gone before it could be looked at: no message that
        #  comes may be believed.
        self.strange = False
        #  What there is to be said of a server that does not let us in, or that we do not trust.
        self.error: Optional[NotLetIn] = None
        address = f"inproc://monitor-{id(self)}"
        watched.monitor(address, zmq.EVENT_CONNECTED | zmq.EVENT_CONNECT_RETRIED
                        | zmq.EVENT_DISCONNECTED | _HANDSHAKES)
        #  Readable when `read` has something to do.
        self.socket: Any = context.socket(zmq.PAIR)
        self.socket.linger = 0
        self.socket.connect(address)

    def read(self) -> Iterator[Tuple[int, int]]:
        """Takes what has happened, and gives each event with its value: of connections their descriptor."""
        while True:
            try:
                frames = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            event, value = _EVENT.unpack(frames[0])
            self._take(event, value)
            yield event, value

    def look(self) -> None:
        """As read, for those that need no descriptors.  Raises what there is to be said."""
        for _ in self.read():
            pass
        if self.error is not None:
            raise self.error

    def ask(self, message: List[bytes]) -> None:
        """Sends a request on the watched socket, and never waits.  ZeroMQ gives a connection up when the
        server does not let us in, and a send would then wait for ever: raises what there is to be said."""
        try:
            self._watched.send_multipart(message, zmq.NOBLOCK)
        except zmq.Again:
            self.look()
            raise NoServer(f"the server at {self._endpoint} takes no request") from None

    def has_news(self) -> bool:
        """Whether `read` should be called before the message that was just received is believed: ZeroMQ
        reports a connection before the first message from it."""
        return bool(self._path and self.socket.get(zmq.EVENTS) & zmq.POLLIN)

    def _look_at_peer(self, descriptor: int) -> None:
        self.peer = peer_of(descriptor)
        try:
            if self.peer is not None:
                check_listener(self._path, self.peer)
        except NotTrusted as error:
            self.error = error
            self.strange = self.broken = True

    def _take(self, event: int, value: int) -> None:
        if event == zmq.EVENT_CONNECTED and self._path:
            self._look_at_peer(value)
        elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self._made, self._silent_failures = True, 0
            if self._path and self.peer is None and not self._is_closed:
                self.strange = self.broken = True   # another server is looked for
        elif event == zmq.EVENT_CONNECT_RETRIED:
            self.unreached = True
        elif event == zmq.EVENT_DISCONNECTED:
            self.broken = self.broken or self._made
        elif event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            self.error = self._refused()
        elif event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL and value == _MECHANISM_MISMATCH:
            self.error = self._mismatched()
        elif event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
            self._silent_failures += 1
            if self._silent_failures >= _SILENT_FAILURES_MAX:
                self.error = self._broken_off()

    def _refused(self) -> KeyRefused:
        if self._endpoint.startswith("ipc://"):
            return KeyRefused(f"the server at {self._endpoint} does not serve user {os.geteuid()} of this "
                              "machine")
        return KeyRefused(f"this client's key is unknown or revoked at {self._endpoint}: have its operator "
                          f"allow it (tureen key allow); the public key is {self._public or 'none'}")

    def _broken_off(self) -> NotLetIn:
        if self._public:
            return NotLetIn(f"the key is another at {self._endpoint} than the given server_key "
                            "(TUREEN_SERVER_KEY): give the one that the server's log names; or it is open, "
                            "then give no keys")
        if self._endpoint.startswith("ipc://"):
            return NotLetIn(f"each connection is broken off at once at {self._endpoint}: either this user "
                            "has too many of them, or it is no Tureen server")
        return NotLetIn(f"each connection is broken off at once at {self._endpoint}: either it lets in only "
                        "clients with a key (give key and server_key, TUREEN_KEY and TUREEN_SERVER_KEY), or "
                        "it is no Tureen server")

    def _mismatched(self) -> NotLetIn:
        if self._public:
            return NotLetIn(f"no keys are used at {self._endpoint}, which is open, and this client has one: "
                            "is it the right server? Then leave key and server_key out (TUREEN_KEY, "
                            "TUREEN_SERVER_KEY)")
        return NotLetIn(f"only clients with a key are let in at {self._endpoint}: give key and server_key "
                        "(TUREEN_KEY, TUREEN_SERVER_KEY); `tureen key new FILE` makes a key")

"""The client's end of the pipe to one of its processes.

No call waits.  A process may be killed at any moment: while it is started, after half an answer, or while a
process of its own has the pipe open too.  It may also be busy while its pipe is full.  A thread that waited
for one process would then wait forever, and the batches of all processes with it.

The process has a multiprocessing.connection.Connection, so messages are laid out as that class lays them out.
A descriptor comes with one byte behind the message that it belongs to.
"""
from __future__ import annotations

import array
import collections
import errno
import os
import pickle
import socket
import struct
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any, Deque, List, Optional, Tuple

from .memory import Shared
from .worker import has_descriptor

_READ_BYTES = 1 << 16
_LENGTH, _LONG_LENGTH = struct.Struct("!i"), struct.Struct("!Q")
_LENGTH_MAX = 0x7fffffff
_DESCRIPTOR_BYTES = array.array("i").itemsize


def channel_and_end() -> Tuple[Channel, Any]:
    """The client's end, and the process's."""
    ours, theirs = socket.socketpair()
    return Channel(ours), Connection(theirs.detach())


class Channel:
    """ended: the other end is closed, and all messages that came before were received."""

    def __init__(self, ours: socket.socket) -> None:
        ours.setblocking(False)
        self.ended = False
        self._socket = ours
        self._out: Deque[Tuple[memoryview, Optional[Shared]]] = collections.deque()
        self._in = bytearray()
        self._descriptors: Deque[int] = collections.deque()     # that came, and belong to no message yet
        self._message: Any = None               # that came, and waits for its descriptor

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def is_full(self) -> bool:
        """Something is left to be sent, by `flush`, when the pipe takes more."""
        return bool(self._out)

    def send(self, message: Any, shared: Optional[Shared] = None) -> None:
        """Queues it, and the descriptor of `shared` behind it, and sends what the pipe takes.  OSError where
        the system refuses the descriptor."""
        data = ForkingPickler.dumps(message)
        self._out.append((memoryview(_length(len(data)) + bytes(data)), None))
        if shared is not None:
            self._out.append((memoryview(b"\1"), shared))
        self.flush()

    def flush(self) -> None:
        while self._out and not self.ended:
            data, shared = self._out[0]
            rights = [] if shared is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                                 array.array("i", [shared.descriptor]))]
            try:
                sent = self._socket.sendmsg([data], rights, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            except (BrokenPipeError, ConnectionResetError):
                return                          # `receive` finds the end, behind the last messages
            if sent == len(data):
                self._out.popleft()
            else:
                self._out[0] = (data[sent:], None)

    def receive(self) -> List[Tuple[Any, int]]:
        """The messages that have come whole, each with its descriptor, which is the caller's then, or -1.
        OSError where there is no room for a descriptor."""
        found: List[Tuple[Any, int]] = []
        while not self.ended and self._read():
            self._take_messages(found)
        return found

    def _read(self) -> bool:
        """Whether something came."""
        try:
            data, rights, flags, _ = self._socket.recvmsg(
                _READ_BYTES, socket.CMSG_SPACE(_DESCRIPTOR_BYTES), socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return False
        except ConnectionResetError:
            data, rights, flags = b"", [], 0
        for _, _, packed in rights:
            self._descriptors.extend(array.array("i", packed[:_DESCRIPTOR_BYTES]))
        if flags & socket.MSG_CTRUNC:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        self.ended = not data
        self._in += data
        return bool(data)

    def _take_messages(self, found: List[Tuple[Any, int]]) -> None:
        while True:
            if self._message is not None:
                if not (self._in and self._descriptors):
                    return
                del self._in[:1]
                found.append((self._message, self._descriptors.popleft()))
                self._message = None
            begin, size = _body(self._in)
            if size < 0 or len(self._in) < begin + size:
                return
            message = pickle.loads(self._in[begin:begin + size])
            del self._in[:begin + size]
            if has_descriptor(message):
                self._message = message
            else:
                found.append((message, -1))

    def close(self) -> None:
        self._socket.close()
        while self._descriptors:
            os.close(self._descriptors.popleft())
        self._out.clear()


def _length(size: int) -> bytes:
    return _LENGTH.pack(size) if size <= _LENGTH_MAX else _LENGTH.pack(-1) + _LONG_LENGTH.pack(size)


def _body(data: bytearray) -> Tuple[int, int]:
    """Where the first message begins behind its length, and its length; (0, -1) where that has not come."""
    if len(data) < _LENGTH.size:
        return 0, -1
    size, = _LENGTH.unpack_from(data)
    if size >= 0:
        return _LENGTH.size, size
    if len(data) < _LENGTH.size + _LONG_LENGTH.size:
        return 0, -1
    size, = _LONG_LENGTH.unpack_from(data, _LENGTH.size)
    return _LENGTH.size + _LONG_LENGTH.size, size

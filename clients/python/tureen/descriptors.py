"""The descriptors behind a ZeroMQ socket, so that a forked child can close its copies of them.

The server sees a connection end when its last descriptor is closed.  A child that was forked has one too, and
would hide its parent's death from the server.  Only the socket's monitor tells which descriptors these are;
closing a copy in the child touches nothing of the parent's, and nothing of libzmq's state.
"""
from __future__ import annotations

import os
import stat
from typing import Dict, Optional, Set

import zmq

from .connection_monitor import ConnectionMonitor


class Descriptors:
    def __init__(self, monitor: ConnectionMonitor) -> None:
        self._monitor = monitor
        #  Readable when `update` has something to do.
        self.monitor = monitor.socket
        self._inodes: Dict[int, int] = {}

    def update(self) -> bool:
        """True if a connection has broken."""
        opened: Set[int] = set()
        for event, descriptor in self._monitor.read():
            if event not in (zmq.EVENT_CONNECTED, zmq.EVENT_DISCONNECTED):
                continue
            self._inodes.pop(descriptor, None)
            opened.discard(descriptor)
            if event == zmq.EVENT_CONNECTED:
                opened.add(descriptor)
        for descriptor in opened:
            inode = _socket_inode(descriptor)
            if inode is not None:
                self._inodes[descriptor] = inode
        return self._monitor.broken

    def close_copies(self) -> None:
        """In a forked child.  The number may have become another file's a moment before the fork: the inode
        tells."""
        for descriptor, inode in list(self._inodes.items()):
            if _socket_inode(descriptor) == inode:
                os.close(descriptor)
        self._inodes.clear()

    def close(self) -> None:
        self.monitor.close()
        self._inodes.clear()


def _socket_inode(descriptor: int) -> Optional[int]:
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_ino if stat.S_ISSOCK(found.st_mode) else None

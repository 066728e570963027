"""Taking the ring: a memfd that comes over a Unix socket, mapped shared.

The socket must stay open for as long as the job lasts: its end tells the server of our death, and us of the
server's.
"""
from __future__ import annotations

import mmap
import os
import socket
import weakref
from typing import NamedTuple, Optional

from .errors import ProtocolError, TureenError
from .trust import is_ours, peer_of
from .wire import TOKEN_BYTES, RingOffer

PATIENCE_S = 5.0
ANSWER_S = 10.0             # so long a token is good


class RingLate(TureenError):
    """The server has the token and does not answer.  It may hand the ring over yet, and would take the end of
    our socket for our death, whatever we had said meanwhile."""


class RingUnavailable(TureenError):
    """This process cannot have the ring (a container's wall, another user): batches must come inline."""


class RingStrange(RingUnavailable):
    """Another user than the server's listens there, and did not get the token."""


class Ring(NamedTuple):
    socket: socket.socket
    #  Never closed by hand: arrays point into it, and the last of them unmaps it.
    memory: mmap.mmap
    #  Of the memory, where it is kept; else -1.
    descriptor: int


def take(offer: RingOffer, patience_s: float = PATIENCE_S, answer_s: float = ANSWER_S,
         keep: bool = False, server: Optional[int] = None) -> Ring:
    """Trades the token for the mapped ring.  `keep`: its descriptor stays open, and is the caller's.
    `server`: the user that runs it; None: it is not known to be one of this machine.

    RingUnavailable, with nothing left open, if the ring server gives none.  RingLate, likewise, if it says
    nothing in `answer_s`.  ProtocolError if it gave one that cannot be mapped: then the token is used, and
    closing the socket ends the job, so there is no way back to inline.  """
    token = offer.token.encode("utf-8")
    if len(token) != TOKEN_BYTES:
        raise RingUnavailable(f"the token has {len(token)} bytes instead of {TOKEN_BYTES}")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        connection.settimeout(patience_s)
        connection.connect(offer.path)
        #  The path is the server's word, also of one on another machine: any user may have made it here.
        peer = peer_of(connection.fileno())
        if peer is None or not is_ours(peer) and peer != server:
            raise RingStrange(f"another user than the server's listens at {offer.path}")
        connection.sendall(token)
        connection.settimeout(answer_s)
        descriptor = _answered(connection)
    except OSError as error:
        connection.close()
        raise RingUnavailable(f"{offer.path}: {error}") from None
    except BaseException:
        connection.close()
        raise
    try:
        memory = _mapped(descriptor, offer.bytes)
    except BaseException:
        os.close(descriptor)
        connection.close()
        raise
    connection.setblocking(False)
    if not keep:
        os.close(descriptor)
        descriptor = -1
    return Ring(connection, memory, descriptor)


def hold_open(connection: socket.socket, memory: mmap.mmap) -> None:
    """The job is over, and its batches may be looked at still: a server that lives empties the memory when
    the socket closes, so it closes when the last of them has gone."""
    weakref.finalize(memory, connection.close).atexit = False


def _answered(connection: socket.socket) -> int:
    try:
        return _descriptor(connection)
    except TimeoutError:
        raise RingLate("the server did not hand over the ring") from None


def _descriptor(connection: socket.socket) -> int:
    answer, descriptors, _, _ = socket.recv_fds(connection, 1, 1, socket.MSG_CMSG_CLOEXEC)
    if answer == b"R" and len(descriptors) == 1:
        return descriptors[0]
    for descriptor in descriptors:
        os.close(descriptor)
    raise RingUnavailable("the server gave no ring for the token")


def _mapped(descriptor: int, size: int) -> mmap.mmap:
    """Maps `size` bytes, having seen that they are there."""
    try:
        present = os.fstat(descriptor).st_size
        if present < size:      # a touch beyond the end would be SIGBUS
            raise ProtocolError(f"the ring has {present} bytes instead of {size}")
        return mmap.mmap(descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    except (OSError, ValueError) as error:
        raise ProtocolError(f"the ring of {size} bytes cannot be mapped: {error}") from None

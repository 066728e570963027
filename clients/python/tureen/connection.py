"""One job at the server, and the background thread that owns its socket.

    happy path:     connect, JOIN .. JOINED, take the ring or say INLINE, then batches into `arrivals` and PROGRESS
                    back, until the user is done: LEAVE .. ENDED, close.
    failure modes:  whatever goes wrong is kept as the outcome and follows the delivered batches through `arrivals`.
                    The server's death shows as the end of the ring's socket, or inline as ten silent heartbeats.
    on close:       LEAVE empties the ring, so it waits for the last view of a batch; the thread waits with it.  At the
                    interpreter's exit it does not.

Only the thread touches the DEALER, the ring's socket and the poller.  Other threads write plain attributes, append
to deques and wake it through a socket pair.  `leave` may run inside a garbage collection, so it takes no lock and waits
for nothing; `finish` waits for the thread.

Nothing that the connection holds leads back to it, so that reference counting alone frees it and the batches that
nobody asked for.
"""
from __future__ import annotations

import atexit
import mmap
import os
import queue
import signal
import socket
import threading
import time
from typing import Any, Dict, List, NamedTuple, Optional, Set, Union

import zmq

from . import ring, wire
from .descriptors import Descriptors
from .errors import (JobEnded, LoaderClosed, NoServer, ProtocolError, RequestRefused, ServerGone, ServerStopped, TureenError)
from .request import Request, poll_ms
from .slots import Slots
from .waker import Waker

LEAVE_PATIENCE_S = 2.0      # for the server's ENDED after LEAVE
FAREWELL_S = 0.5            # the ring's socket has closed: an ENDED that says why may still be on its way
SILENT_HEARTBEATS_MAX = 10
CONSUMED_PATIENCE_MS = 100  # a batch that was taken, while none was given back, is told this late at most

#  The user's thread waits for nothing that could take longer than the connection's own limits.
_JOIN_THREAD_S = LEAVE_PATIENCE_S + FAREWELL_S + 1.0


class Arrival(NamedTuple):
    """A batch as it came: where it is in the ring, or its bytes."""
    head: wire.BatchHead
    ids: bytes
    frame: Optional[zmq.Frame]


class _Left(Exception):
    """The user left before the job had begun."""


class Connection:
    def __init__(self, endpoint: str, request: Request, timeout: float) -> None:
        #  Set at birth
        self.endpoint = endpoint
        self.pid = os.getpid()
        self._request = request
        self._timeout = timeout
        self._thread = threading.Thread(target=self._run, name="tureen", daemon=True)
        self._waker = Waker()
        #  Set by the thread before `start` returns
        self.joined: Optional[wire.Joined] = None
        self.slots: Slots = Slots(0, self._waker.wake)
        self.memory: Optional[mmap.mmap] = None
        #  From the user's threads to the connection's
        self.consumed = 0
        self.leaving = False
        self._abandoned = False
        #  From the connection's thread to the user's.  None marks the end and stays in the queue.
        self.arrivals: queue.SimpleQueue[Optional[Arrival]] = queue.SimpleQueue()
        self._outcome: Optional[TureenError] = None
        self._settled = threading.Event()
        #  The connection's thread only
        self._context: Optional[zmq.Context[zmq.Socket[bytes]]] = None
        self._dealer: Any = None
        self._descriptors: Optional[Descriptors] = None
        self._poller = zmq.Poller()
        self._ring_socket: Optional[socket.socket] = None
        self._tag = 0
        self._finished = False          # nothing more will be put into arrivals
        self._over = False              # nothing is left to do
        self._inline = False
        self._stuck = False             # the socket took no more: try again soon
        self._reported = (0, 0, 0)
        self._leave_tag = 0
        self._leave_until = 0.0
        self._farewell_until = 0.0
        self._tick_at = 0.0
        self._beat_at = 0.0
        self._heard = False
        self._silence_s = 0.0

    #  The user's side

    def start(self) -> wire.Joined:
        """Joins; raises what the job was refused with.  Ctrl-C breaks it off."""
        _live.add(self)
        try:
            self._thread.start()
            self._settled.wait()
        except BaseException:
            self.finish()
            raise
        if self.joined is None:
            self.raise_outcome()
            raise LoaderClosed("the job was left before it had begun")
        return self.joined

    @property
    def usable(self) -> bool:
        return self._thread.is_alive() and not self.leaving and not self._finished

    def raise_outcome(self) -> None:
        """Raises what ended the job, if it did not end well.  A new exception each time: no old tracebacks."""
        if self._outcome is not None:
            raise _bare(self._outcome)

    def arrival(self) -> Optional[Arrival]:
        """The next batch, waiting for it; None at the end, which is to be put back for whoever else waits."""
        try:
            return self.arrivals.get_nowait()
        except queue.Empty:
            #  The server may fill the last slot only once it knows what was consumed, and that alone wakes nobody.
            if self._reported[0] != self.consumed:
                self.wake()
        return self.arrivals.get()

    def leave(self) -> None:
        """The user is done; the thread does the rest, once the last view is gone.  Waits for nothing: a finalizer's."""
        if self.pid != os.getpid():
            return
        self.leaving = True
        self.arrivals.put(None)         # whoever waits for a batch
        self.wake()

    def finish(self) -> None:
        """As leave, and waits for the thread's end, unless views are still held."""
        self.leave()
        if self.pid == os.getpid() and not self.slots.lent:
            self.join_thread()

    def abandon(self) -> None:
        """As leave, whatever is held: the process ends."""
        self._abandoned = True
        self.leaving = True
        self.wake()

    def join_thread(self) -> None:
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(_JOIN_THREAD_S)
        if not self._thread.is_alive():
            self._forget()

    def wake(self) -> None:
        self._waker.wake()

    def forked(self) -> None:
        """In a forked child: neither socket may stay open here, or our parent's death would go unnoticed."""
        if self._ring_socket is not None:
            self._ring_socket.close()
        if self._descriptors is not None:
            self._descriptors.close_copies()

    def _forget(self) -> None:
        """The user has left: nobody will ask for what lies ready."""
        self.memory = None
        while True:
            try:
                self.arrivals.get_nowait()
            except queue.Empty:
                break
        self.arrivals.put(None)

    #  The thread

    def _run(self) -> None:
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            self._connect()
            self._join()
            self._attach()
            self._settled.set()
            self._serve()
        except _Left:
            pass
        except TureenError as error:
            self._finish(error)
        except Exception as error:
            self._finish(ProtocolError(f"the client's own thread failed: {error!r}"))
        finally:
            if not self._settled.is_set():
                self.joined = None
            self._close()

    def _connect(self) -> None:
        self._context = zmq.Context()
        self._dealer = self._context.socket(zmq.DEALER)
        self._dealer.linger = 0
        self._descriptors = Descriptors(self._context, self._dealer)
        try:
            self._dealer.connect(self.endpoint)
        except (zmq.ZMQError, UnicodeEncodeError) as error:
            raise NoServer(f"{self.endpoint} is no endpoint that can be reached: {error}; "
                           "it should be like ipc:///PATH or tcp://HOST:PORT") from None
        self._poller.register(self._dealer, zmq.POLLIN)
        self._poller.register(self._descriptors.monitor, zmq.POLLIN)
        self._poller.register(self._waker.fileno(), zmq.POLLIN)

    def _join(self) -> None:
        until = time.monotonic() + self._timeout
        tag = self._next_tag()
        answer = self._ask(self._request.message(tag), tag, wire.JOINED, until)
        joined = wire.parse_joined(_body(answer, "JOINED"))
        self.slots = Slots(joined.slots, self._waker.wake)
        self.joined = joined

    def _ask(self, message: List[bytes], tag: int, kind: int, until: float) -> List[Any]:
        """Sends, and waits for the answer of that kind; an ERROR raises RequestRefused, silence NoServer."""
        self._dealer.send_multipart(message)
        while True:
            left_s = until - time.monotonic()
            if left_s <= 0:
                raise NoServer(f"no server answers at {self.endpoint} (waited {self._timeout:g} s); "
                               "start one with: tureen serve --dataset NAME=PATH")
            self._look(poll_ms(left_s))
            if self.leaving:
                raise _Left
            while True:
                frames = self._received()
                if frames is None:
                    break
                head = _known_head(frames)
                if head is None:
                    continue
                if head.kind == wire.ERROR and head.tag in (tag, 0):
                    raise RequestRefused(*wire.parse_reason(_body(frames, "ERROR"), "error", "ERROR"))
                if head.kind == kind and head.tag == tag:
                    return frames

    def _attach(self) -> None:
        """Takes the ring, or asks for batches as frames."""
        assert self.joined is not None and self._descriptors is not None
        self._descriptors.update()      # known before `start` returns, and the user may fork
        if self.joined.ring is not None:
            try:
                self._ring_socket, self.memory = ring.take(self.joined.ring)
                self._poller.register(self._ring_socket.fileno(), zmq.POLLIN)
                return
            except ring.RingUnavailable:
                pass
        self._inline = True
        self._dealer.send_multipart(wire.inline(self.joined.job))

    def _serve(self) -> None:
        self._tick_at = time.monotonic()
        while not self._over:
            ready = self._look(self._wait_ms())
            if self._dealer in ready:
                self._receive()
            if self._ring_socket is not None and self._ring_socket.fileno() in ready:
                self._ring_closed()
            self._keep_time()
            if self.leaving:
                self._leave()
            else:
                self._report()

    def _look(self, wait_ms: Optional[int]) -> Dict[Any, int]:
        ready = dict(self._poller.poll(wait_ms))
        self._waker.awake(self._waker.fileno() in ready)
        if self._descriptors is not None and self._descriptors.monitor in ready:
            self._descriptors.update()
        return ready

    def _wait_ms(self) -> Optional[int]:
        """Until the next thing that no message announces; None for ever."""
        if self._leave_tag or self._farewell_until:
            return 20
        if self._inline and self.joined is not None:
            return max(1, self.joined.heartbeat_ms // 2)
        if self.leaving:
            return 20 if self._stuck else None
        return 20 if self._stuck else CONSUMED_PATIENCE_MS

    def _received(self) -> Optional[List[Any]]:
        """A message, its last frame uncopied when it is an inline batch's; None when there is none."""
        try:
            if not self._inline:
                whole: List[Any] = self._dealer.recv_multipart(zmq.NOBLOCK)
                return whole
            frames: List[Any] = self._dealer.recv_multipart(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return None
        return [frame.bytes for frame in frames[:3]] + frames[3:]

    def _receive(self) -> None:
        while not self._over:
            frames = self._received()
            if frames is None:
                return
            try:
                self._take(frames)
            except ProtocolError as error:
                self._finish(error)

    def _take(self, frames: List[Any]) -> None:
        assert self.joined is not None
        head = _known_head(frames)
        if head is None:
            return
        self._heard = True
        if head.kind == wire.ERROR:
            self._take_error(head, frames)
        elif head.job != self.joined.job:
            return
        elif head.kind == wire.ENDED:
            self._take_ended(*wire.parse_reason(_body(frames, "ENDED"), "reason", "ENDED"))
        elif head.kind == wire.BATCH and not self._finished:
            self._take_batch(frames)
        elif head.kind == wire.EPOCH_END and not self._finished:
            if wire.parse_epoch_end(_body(frames, "EPOCH_END")).flags & wire.EPOCH_LAST:
                self._finish(None)

    def _take_batch(self, frames: List[Any]) -> None:
        assert self.joined is not None
        inline = self._inline
        if len(frames) != (4 if inline else 3):
            raise ProtocolError(f"the server's BATCH has {len(frames)} frames")
        batch = wire.parse_batch_head(frames[1])
        if not 1 <= batch.samples <= self.joined.batch_size or len(frames[2]) != 8 * batch.samples:
            raise ProtocolError(f"the server's batch {batch.sequence} has {batch.samples} samples of "
                                f"{self.joined.batch_size}, and {len(frames[2])} bytes of ids")
        if bool(batch.flags & wire.BATCH_INLINE) != inline:
            raise ProtocolError(f"the server's batch {batch.sequence} is {'not ' if inline else ''}inline")
        if inline and len(frames[3]) != self.joined.slot_bytes:
            raise ProtocolError(f"the server's batch {batch.sequence} has {len(frames[3])} bytes "
                                f"instead of {self.joined.slot_bytes}")
        self.slots.arrived(batch.sequence, batch.slot)
        self.arrivals.put(Arrival(batch, frames[2], frames[3] if inline else None))

    def _take_error(self, head: wire.Head, frames: List[Any]) -> None:
        code, message = wire.parse_reason(_body(frames, "ERROR"), "error", "ERROR")
        if self._leave_tag:
            self._over = head.tag == self._leave_tag
        elif code == "unknown_job":
            self._gone(f"it does not know this job any more: {message}")
        else:
            self._finish(RequestRefused(code, message))

    def _take_ended(self, reason: str, message: str) -> None:
        self._over = True
        if reason == "stopping":
            self._finish(ServerStopped(reason, f"the server at {self.endpoint} was stopped: {message}"))
        elif reason != "left" or not self._leave_tag:
            self._finish(JobEnded(reason, f"the server at {self.endpoint} ended the job: {message}"))

    def _ring_closed(self) -> None:
        assert self._ring_socket is not None
        try:
            if self._ring_socket.recv(64):
                return                  # it carries nothing; nothing is what we make of it
        except BlockingIOError:
            return
        except OSError:
            pass
        self._poller.unregister(self._ring_socket.fileno())
        self._ring_socket.close()
        self._ring_socket = None
        self._farewell_until = time.monotonic() + FAREWELL_S

    def _gone(self, why: str) -> None:
        self._finish(ServerGone(f"the server at {self.endpoint} is gone: {why}"))
        self._over = True

    def _finish(self, outcome: Optional[TureenError]) -> None:
        """Nothing more will be delivered.  The first outcome counts: a job that is complete stays so."""
        if not self._finished:
            self._finished = True
            self._outcome = None if outcome is None else _bare(outcome)
            self.arrivals.put(None)

    def _keep_time(self) -> None:
        now = time.monotonic()
        if self._farewell_until and now >= self._farewell_until:
            self._gone("its connection closed")
        if self._inline and self.joined is not None:
            self._heartbeat(now, self.joined.heartbeat_ms / 1000)
        self._tick_at = now

    def _heartbeat(self, now: float, period_s: float) -> None:
        if now >= self._beat_at:
            self._send(wire.heartbeat(self.joined.job))  # type: ignore[union-attr]
            self._beat_at = now + period_s / 2
        #  A long pause of this whole process is not the server's silence: it counts for one heartbeat.
        self._silence_s = 0.0 if self._heard else self._silence_s + min(now - self._tick_at, period_s)
        self._heard = False
        if self._silence_s > SILENT_HEARTBEATS_MAX * period_s:
            self._gone(f"it has not been heard for {self._silence_s:.1f} s")

    def _report(self) -> None:
        """Tells what has changed.  Once the user leaves, slots are not given back one by one any more."""
        assert self.joined is not None
        released, kept = self._reported[1:] if self.leaving else self.slots.progress()
        #  Read after `released`, so that it is never less.
        progress = (self.consumed, released, kept)
        if progress != self._reported and self._send(wire.progress(self.joined.job, *progress)):
            self._reported = progress

    def _leave(self) -> None:
        assert self.joined is not None
        now = time.monotonic()
        if self._leave_tag:
            self._over = self._over or now >= self._leave_until
            return
        self._report()                  # what was consumed up to the moment of leaving
        if self._abandoned or not self.slots.lent:
            if self._farewell_until:
                self._over = True       # nobody is there to be told
                return
            tag = self._next_tag()
            if self._send(wire.leave(self.joined.job, tag)):
                self._leave_tag = tag
                self._leave_until = now + LEAVE_PATIENCE_S

    def _send(self, message: List[bytes]) -> bool:
        """False where the server takes no more at the moment; never blocks."""
        try:
            self._dealer.send_multipart(message, zmq.NOBLOCK)
        except zmq.Again:
            self._stuck = True
            return False
        self._stuck = False
        return True

    def _next_tag(self) -> int:
        self._tag += 1
        return self._tag

    def _close(self) -> None:
        if self._dealer is not None:
            self._dealer.close()
        if self._descriptors is not None:
            self._descriptors.close()
        if self._context is not None:
            self._context.term()
        if self._ring_socket is not None:
            self._ring_socket.close()
            self._ring_socket = None
        self._waker.close()
        if self.leaving:
            self._forget()
        _live.discard(self)
        self._settled.set()


def _known_head(frames: List[Any]) -> Optional[wire.Head]:
    head = wire.parse_head(frames[0])
    if head is not None and head.version != wire.VERSION:
        raise ProtocolError(f"the server speaks version {head.version} of the protocol; this client, {wire.VERSION}")
    return head


def _bare(error: TureenError) -> TureenError:
    """The same without its traceback and what it came from, both of which hold on to frames."""
    return type(error)(*error.args)


def _body(frames: List[Any], what: str) -> bytes:
    if len(frames) != 2:
        raise ProtocolError(f"the server's {what} has {len(frames)} frames instead of 2")
    body: Union[bytes, bytearray] = frames[1]
    return bytes(body)


#  Every connection whose thread runs, so that the interpreter's exit and a fork find them.
_live: Set[Connection] = set()


def wait_for_leavers(endpoint: str) -> None:
    """Until the jobs that were left there are over, so that a new one does not find their memory still taken."""
    for connection in list(_live):
        if connection.leaving and connection.endpoint == endpoint and not connection.slots.lent:
            connection.join_thread()


def _at_exit() -> None:
    connections = [connection for connection in list(_live) if connection.pid == os.getpid()]
    for connection in connections:
        connection.abandon()
    for connection in connections:
        connection.join_thread()


def _after_fork() -> None:
    for connection in list(_live):
        connection.forked()
    _live.clear()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)

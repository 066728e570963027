"""One job's session with the server: its sockets, and what is said on them.

    happy path:     connect, JOIN .. JOINED, take the ring or say INLINE, then batches in and PROGRESS back,
                    until the user is done: LEAVE .. ENDED, close.
    failure modes:  what ends the job for good becomes the connection's outcome.  Where the server is gone, or
                    has forgotten the job, `serve` gives the error that says so: the connection may look for
                    it.
    on close:       LEAVE empties the ring, so it waits for the last view of a batch.  At the interpreter's
                    exit it does not.

All of it is the connection's thread's.
"""
from __future__ import annotations

import logging
import socket
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple, Union

import numpy as np
import zmq

from . import names, ring, wire
from .connection_monitor import ConnectionMonitor
from .descriptors import Descriptors
from .errors import (JobEnded, NoServer, ProtocolError, RequestRefused, ServerGone, ServerStopped, StateError,
                     TureenError)
from .finding import no_server
from .job import Arrival, EpochOver, Job, Told
from .mapping.memory import Shared
from .request import poll_ms
from .spare_threads import check_threads
from .state import State

if TYPE_CHECKING:
    from .connection import Connection

log = logging.getLogger("tureen")

LEAVE_PATIENCE_S = 2.0      # for the server's ENDED after LEAVE
FAREWELL_S = 5.0            # the ring's socket was closed: an ENDED that says why may still be on its way
SILENT_HEARTBEATS_MAX = 10
_RENOUNCE_LINGER_MS = 500   # for a LEAVE when no thread waits for its answer
GATHERING_PATIENCE_S = 10.0 # a rank that waits for others hears about once a second that the server lives
CONSUMED_PATIENCE_MS = 100  # a batch that was taken, while none was given back, is told this late at most


RANK_LOST = "rank_lost"
_STANDS_STILL = (RANK_LOST, "storage")      # notices of a job that gets nothing until what they name is over
#  Why a job ends although nothing is wrong with this client: its ring stays
_OTHER_RANKS = (RANK_LOST, "rank_left")


class Left(Exception):
    """The user left before the job had begun."""


class BrokenOff(NoServer):
    """The connection broke before the answer came, or the ring after it: another connection may bring both.
    What the server may have made of this one ends with it."""


class Session:
    """A local variable of the thread: nothing that outlives it may hold one, for it holds the connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._endpoint = connection.endpoint
        self._waker = connection.waker
        self.job: Job                   # from JOINED on
        self._context: Optional[zmq.Context[zmq.Socket[bytes]]] = None
        self._dealer: Any = None
        self._monitor: Optional[ConnectionMonitor] = None
        self._descriptors: Optional[Descriptors] = None
        self._poller = zmq.Poller()
        self._ring_socket: Optional[socket.socket] = None
        self._tag = 0
        self._loss: Optional[TureenError] = None
        self._over = False              # nothing is left to do
        self._broken = False            # what was sent last may have been lost
        self._inline = False
        self._stuck = False             # the socket took no more: try again soon
        self._status_tag = 0
        self._leave_tag = 0
        self._leave_until = 0.0
        self._farewell_until = 0.0
        self._tick_at = 0.0
        self._beat_at = 0.0
        self._heard = False
        self._silence_s = 0.0
        self._frames = 3 if connection.request.world_size == 1 else 4      # of a BATCH, without its bytes

    def join(self, state: Optional[State], patience_s: float, gather_s: Optional[float] = None) -> Job:
        """Joins, from that state on, and takes the ring.  Raises Left, NoServer if no server answers in time,
        NotLetIn, BrokenOff, and what the job was refused with.  `gather_s`: how long to wait for other ranks;
        None: as the user said."""
        self._connect()
        connection, tag = self._connection, self._next_tag()
        message = connection.request.message(tag, connection.instance, state, recent=connection.recent,
                                             gather_s=gather_s)
        answer = self._ask(message, tag, wire.JOINED, patience_s)
        answer_s = min(patience_s, ring.ANSWER_S)
        joined = wire.parse_joined(_body(answer, "JOINED"))
        self.job = Job(joined, self._waker)
        request = connection.request
        if (joined.rank, joined.world_size) != (request.rank, request.world_size):
            raise ProtocolError(f"the server's JOINED is that of rank {joined.rank} of {joined.world_size}, "
                                f"and it was rank {request.rank} of {request.world_size} that joined")
        if (joined.node, joined.nodes) != (request.node, request.nodes):
            raise ProtocolError(f"the server's JOINED is that of node {joined.node} of {joined.nodes}, and "
                                f"it was node {request.node} of {request.nodes} that joined")
        if request.chosen is not None:
            request.chosen.check(request.dataset, joined.dataset_samples)
        before = connection.job.joined if connection.job else None
        if before is not None and _arrays(before) != _arrays(joined):
            raise StateError(f"the server at {self._endpoint} makes other arrays of the job's pipeline than "
                             f"before: {_arrays(joined)} instead of {_arrays(before)}; begin anew, or serve "
                             "it as before")
        self._attach(answer_s)
        return self.job

    def serve(self) -> Optional[TureenError]:
        """Until the job is over; gives what is to be said of a server that is gone."""
        self._tick_at = time.monotonic()
        while not self._over:
            ready = self._look(self._wait_ms())
            if self._dealer in ready or self._broken:
                self._receive()
            if self._ring_socket is not None and self._ring_socket.fileno() in ready:
                self._ring_closed()
            self._keep_time()
            if not self._broken and not self._leave_tag:
                self._put_questions()
            if self._connection.leaving:
                self._leave()
            elif not self._broken:
                self._report()
        return self._loss

    def forked(self) -> None:
        """In a forked child: neither socket may stay open here, or our parent's death would go unnoticed."""
        if self._ring_socket is not None:
            self._ring_socket.close()
        if self._descriptors is not None:
            self._descriptors.close_copies()

    def renounce(self) -> None:
        """What was joined is not wanted after all, and the server should not have to find out by itself."""
        if hasattr(self, "job"):
            self._dealer.linger = _RENOUNCE_LINGER_MS
            self._send(wire.leave(self.job.joined.job, self._next_tag()))

    def close(self) -> None:
        if self._dealer is not None:
            self._dealer.close()
        if self._descriptors is not None:
            self._descriptors.close()
        if self._context is not None:
            self._context.term()
        if self._ring_socket is not None:
            if self._over and self.job.memory is not None:
                ring.hold_open(self._ring_socket, self.job.memory)
            else:
                self._ring_socket.close()
            self._ring_socket = None

    #  Joining

    def _connect(self) -> None:
        check_threads()
        self._context = zmq.Context()
        self._dealer = self._context.socket(zmq.DEALER)
        self._dealer.linger = 0
        keys = self._connection.keys
        if keys is not None:
            keys.give(self._dealer)
        self._monitor = ConnectionMonitor(self._context, self._dealer, self._endpoint, keys)
        self._descriptors = Descriptors(self._monitor)
        try:
            self._dealer.connect(self._endpoint)
        except (zmq.ZMQError, UnicodeEncodeError) as error:
            raise NoServer(f"{self._endpoint} is no endpoint that can be reached: {error}; "
                           "it should be like ipc:///PATH or tcp://HOST:PORT") from None
        self._poller.register(self._dealer, zmq.POLLIN)
        self._poller.register(self._descriptors.monitor, zmq.POLLIN)
        self._poller.register(self._waker.fileno(), zmq.POLLIN)

    def _ask(self, message: List[bytes], tag: int, kind: int, patience_s: float) -> List[Any]:
        """Sends, and waits for the answer of that kind; an ERROR raises RequestRefused, silence NoServer."""
        until = time.monotonic() + patience_s
        assert self._monitor is not None
        self._monitor.ask(message)
        while True:
            left_s = until - time.monotonic()
            if left_s <= 0:
                raise no_server(self._endpoint, patience_s, self._connection.request.dataset)
            self._look(poll_ms(left_s))
            if self._connection.leaving:
                raise Left
            while True:
                frames = self._received()
                if frames is None:
                    break
                head = _known_head(frames)
                if head is None:
                    continue
                if head.kind == wire.ERROR and head.tag in (tag, 0):
                    raise RequestRefused(*self._words(_body(frames, "ERROR"), "error", "ERROR"))
                if head.kind == kind and head.tag == tag:
                    return frames
                if head.kind == wire.NOTICE and head.tag == tag and head.job == 0:
                    self._connection.wait_for_ranks(self._words(_body(frames, "NOTICE"), "notice",
                                                                "NOTICE")[1])
                    until = time.monotonic() + max(patience_s, GATHERING_PATIENCE_S)
            if self._monitor.error is not None:
                raise self._monitor.error
            if self._broken:
                #  ZeroMQ will connect again, and may send the message again, or not: it is not known whether
                #  it was sent.
                raise BrokenOff(f"the server at {self._endpoint} went away before it answered")

    def _attach(self, answer_s: float) -> None:
        """Takes the ring, or asks for batches as frames."""
        joined = self.job.joined
        assert self._descriptors is not None
        self._descriptors.update()      # known before the join is told, and the user may fork
        if joined.ring is not None:
            try:
                mapper = self._connection.mapper
                peer = None if self._monitor is None else self._monitor.peer
                self._ring_socket, self.job.memory, descriptor = ring.take(
                    joined.ring, answer_s=answer_s, keep=mapper is not None, server=peer)
                if descriptor >= 0:
                    self.job.shared = Shared(descriptor, joined.ring.bytes)
                self._poller.register(self._ring_socket.fileno(), zmq.POLLIN)
                return
            except ring.RingStrange as strange:
                log.warning("%s: batches come through the server's main socket, which is slower", strange)
            except ring.RingUnavailable:
                pass
            except ring.RingLate as late:
                raise BrokenOff(f"{late} (server at {self._endpoint})") from None
        self._inline = True
        if not self._send(wire.inline(joined.job)):
            raise BrokenOff(f"the server at {self._endpoint} takes no request for batches as frames")

    #  Looking around

    def _look(self, wait_ms: Optional[int]) -> Dict[Any, int]:
        ready = dict(self._poller.poll(wait_ms))
        self._waker.awake(self._waker.fileno() in ready)
        if (self._descriptors is not None and self._descriptors.monitor in ready
                and self._descriptors.update()):
            self._broken = True
        return ready

    def _wait_ms(self) -> Optional[int]:
        """Until the next thing that no message announces; None for ever."""
        if self._leave_tag or self._farewell_until:
            return 20
        if self._inline:
            return max(1, self.job.joined.heartbeat_ms // 2)
        if self._connection.leaving:
            return 20 if self._stuck else None
        return 20 if self._stuck else CONSUMED_PATIENCE_MS

    def _keep_time(self) -> None:
        now = time.monotonic()
        if self._broken and not self._farewell_until:
            #  For the server a connection that comes back is another one, and the job was the old one's.
            self._farewell_until = now + FAREWELL_S
        #  Where the DEALER's own connection has broken, all that came on it has been read.
        if self._farewell_until and (now >= self._farewell_until or self._monitor is not None
                                     and self._monitor.broken):
            self._lose(ServerGone(f"the server at {self._endpoint} is gone: its connection closed"))
        if self._inline:
            self._heartbeat(now, self.job.joined.heartbeat_ms / 1000)
        self._tick_at = now

    def _heartbeat(self, now: float, period_s: float) -> None:
        if now >= self._beat_at and not self._broken:
            self._send(wire.heartbeat(self.job.joined.job))
            self._beat_at = now + period_s / 2
        #  A long pause of this whole process is not the server's silence: it counts for one heartbeat.
        self._silence_s = 0.0 if self._heard else self._silence_s + min(now - self._tick_at, period_s)
        self._heard = False
        if self._silence_s > SILENT_HEARTBEATS_MAX * period_s:
            self._lose(ServerGone(f"the server at {self._endpoint} is gone: "
                                  f"it has not been heard for {self._silence_s:.1f} s"))

    def _lose(self, error: TureenError) -> None:
        """The server is gone, or does not know the job any more."""
        self._over = True
        self._loss = self._loss or error

    #  What comes

    def _received(self) -> Optional[List[Any]]:
        """A message of a trusted server; None when there is none.  The last frame of an inline job's batch is
        not copied."""
        assert self._monitor is not None and self._descriptors is not None
        try:
            frames: List[Any] = self._dealer.recv_multipart(zmq.NOBLOCK, copy=not self._inline)
        except zmq.Again:
            return None
        if self._monitor.has_news() and self._descriptors.update():
            self._broken = True
        if self._monitor.strange or not self._inline:
            return None if self._monitor.strange else frames
        return [frame.bytes for frame in frames[:self._frames]] + frames[self._frames:]

    def _receive(self) -> None:
        while not self._over:
            frames = self._received()
            if frames is None:
                return
            try:
                self._take(frames)
            except ProtocolError as error:
                self._connection.conclude(error)

    def _take(self, frames: List[Any]) -> None:
        connection = self._connection
        head = _known_head(frames)
        if head is None:
            return
        self._heard = True
        if head.kind == wire.ERROR:
            self._take_error(head, frames)
        elif head.kind in (wire.STATUS_REPLY, wire.EXPLAIN_REPLY):
            self._take_answer(head, frames)
        elif head.job != self.job.joined.job:
            return
        elif head.kind == wire.ENDED:
            self._take_ended(*self._words(_body(frames, "ENDED"), "reason", "ENDED"))
        elif head.kind == wire.NOTICE:
            notice = wire.parse_notice(_body(frames, "NOTICE"))
            self._take_notice(notice._replace(text=self._told(notice.kind, notice.text)))
        elif head.kind == wire.BATCH and not connection.concluded:
            self._take_batch(frames)
        elif head.kind == wire.EPOCH_END and not connection.concluded:
            self._take_epoch_end(wire.parse_epoch_end(_body(frames, "EPOCH_END")))

    def _words(self, frame: bytes, key: str, what: str) -> Tuple[str, str]:
        """As wire.parse_reason, with the user's name of the data set."""
        code, text = wire.parse_reason(frame, key, what)
        return code, self._told(code, text)

    def _told(self, code: str, text: str) -> str:
        return names.told(self._connection.request.dataset, code, text)

    def _take_notice(self, notice: wire.Notice) -> None:
        if notice.unreadable is not None:
            self.job.samples, self.job.unreadable = notice.samples, notice.unreadable
        if notice.kind in _STANDS_STILL:    # when what was delivered is given, the loop stands still
            self._connection.arrivals.put(Told(notice.kind, notice.text))
        else:
            self._connection.notices.append(notice)

    def _take_epoch_end(self, end: wire.EpochEnd) -> None:
        connection = self._connection
        connection.received.receive_end(end.epoch)
        if connection.recent is not None:
            connection.recent.end(end)
        connection.arrivals.put(EpochOver(end.epoch, self.job.samples))
        if end.flags & wire.EPOCH_LAST:
            connection.conclude(None)

    def _take_batch(self, frames: List[Any]) -> None:
        joined, recent = self.job.joined, self._connection.recent
        if len(frames) < self._frames:
            raise ProtocolError(f"the server's BATCH has {len(frames)} frames")
        batch = wire.parse_batch_head(frames[1])
        #  What a rank lacked of the time before its job is in no slot, and has bytes of its own.
        nowhere = recent is not None and batch.slot == wire.SLOT_NONE
        inline = self._inline or nowhere
        if len(frames) != self._frames + inline:
            raise ProtocolError(f"the server's BATCH has {len(frames)} frames")
        if not 1 <= batch.samples <= joined.batch_size or len(frames[2]) != 8 * batch.samples:
            raise ProtocolError(f"the server's batch {batch.sequence} has {batch.samples} samples of "
                                f"{joined.batch_size}, and {len(frames[2])} bytes of ids")
        if bool(batch.flags & wire.BATCH_INLINE) != inline:
            raise ProtocolError(f"the server's batch {batch.sequence} is {'not ' if inline else ''}inline")
        if inline and len(frames[-1]) != joined.slot_bytes:
            raise ProtocolError(f"the server's batch {batch.sequence} has {len(frames[-1])} bytes "
                                f"instead of {joined.slot_bytes}")
        step = None if recent is None else _step(joined, batch, frames[2], frames[3])
        behind = frames[2] if step is None else step.ids
        if step is None and batch.flags & wire.BATCH_PADDING:
            behind = _padding(joined, batch)
        self.job.slots.arrived(batch.sequence, None if nowhere else batch.slot)
        self._connection.received.receive(batch, np.frombuffer(behind, "<u8"))
        if recent is not None and step is not None:
            recent.step(batch, step, frames[3])
        frame, mapper = frames[-1] if inline else None, self._connection.mapper
        work = None if mapper is None else mapper.submit(self.job, batch, frames[2], frame)
        self._connection.arrivals.put(Arrival(self.job, batch, frames[2], frame, behind, work))

    def _take_error(self, head: wire.Head, frames: List[Any]) -> None:
        code, message = self._words(_body(frames, "ERROR"), "error", "ERROR")
        if self._leave_tag:
            self._over = self._over or head.tag == self._leave_tag
        elif code == "unknown_job":
            self._lose(ServerGone(f"the server at {self._endpoint} is gone: it does not know this job any "
                                  f"more: {message}"))
        else:
            question = self._connection.questions.answered(head.tag)
            if question is not None:
                question.fail(RequestRefused(code, message))
            #  To what was sent while it was ending; its ENDED comes later, or not any more
            elif code == "stopping":
                self._lose(ServerStopped(code, f"the server at {self._endpoint} was stopped: {message}"))
            else:
                self._connection.conclude(RequestRefused(code, message))

    def _take_answer(self, head: wire.Head, frames: List[Any]) -> None:
        if head.kind == wire.STATUS_REPLY and head.tag and head.tag == self._status_tag:
            self._connection.last_status = _body(frames, "STATUS_REPLY")
            return
        question = self._connection.questions.answered(head.tag)
        if question is not None and question.kind == head.kind:
            question.answer(_body(frames, "answer"))

    def _take_ended(self, reason: str, message: str) -> None:
        self._over = True
        text = f"the server at {self._endpoint} ended the job: {message}"
        if reason == "stopping":
            self._lose(ServerStopped(reason, f"the server at {self._endpoint} was stopped: {message}"))
        elif reason == "silent":
            self._lose(JobEnded(reason, text))
        elif reason != "left" or not self._leave_tag:
            ended = JobEnded(reason, text)
            if reason not in _OTHER_RANKS:
                self.job.emptied = ended
            self._connection.conclude(ended)

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
        self._broken = True

    #  What goes

    def _report(self) -> None:
        """Tells what has changed.  Once the user leaves, slots are not given back one by one any more."""
        job = self.job
        released, kept = job.reported[1:] if self._connection.leaving else job.slots.progress()
        #  Read after `released`, so that it is never less.
        progress = (job.consumed, released, kept)
        if progress != job.reported and self._send(wire.progress(job.joined.job, *progress)):
            job.reported = progress

    def _put_questions(self) -> None:
        questions = self._connection.questions
        while True:
            question = questions.take()
            if question is None:
                return
            tag = self._next_tag()
            questions.sent(tag, question)
            if not self._send(question.message(self.job.joined.job, tag)):
                questions.answered(tag)
                questions.unsent(question)
                return

    def _leave(self) -> None:
        connection, now = self._connection, time.monotonic()
        if self._leave_tag:
            self._over = self._over or now >= self._leave_until
            return
        self._report()                  # what was consumed up to the moment of leaving
        if connection.abandoned or not self.job.slots.lent:
            if self._farewell_until:
                self._over = True       # there is no server to tell
                return
            if not connection.abandoned and not self._status_tag:
                self._status_tag = self._next_tag()     # the job's figures, as long as the server has them
                self._send(wire.status(self._status_tag))
            tag = self._next_tag()
            if self._send(wire.leave(self.job.joined.job, tag)):
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


def _known_head(frames: List[Any]) -> Optional[wire.Head]:
    head = wire.parse_head(frames[0])
    if head is not None and head.version != wire.VERSION:
        raise ProtocolError(f"the server speaks version {head.version} of the protocol; this client, "
                            f"{wire.VERSION}")
    return head


def _step(joined: wire.Joined, batch: wire.BatchHead, ids: bytes, frame: bytes) -> wire.Step:
    """The step of which this is a rank's batch; ProtocolError where it is not.

    Of a batch in no slot, of a step that was sent to the others before, some samples may be unreadable by
    now, or all."""
    step = wire.parse_step(frame, joined.world_size, joined.batch_size)
    if not step.ids and (joined.nodes == 1 or not batch.flags & wire.BATCH_PADDING):
        raise ProtocolError(f"the server's batch {batch.sequence} is of a step without samples")
    own, before = step.counts[joined.rank], 8 * sum(step.counts[:joined.rank])
    part, loose = step.ids[before:before + 8 * own], batch.slot == wire.SLOT_NONE
    if batch.flags & wire.BATCH_PADDING:
        #  Of a step that pads a node's part, nothing is a rank's
        fits = (own == 0 or loose) and batch.samples == 1 and (joined.nodes > 1 and not step.ids
            or np.frombuffer(ids, "<u8")[0] in np.frombuffer(step.ids, "<u8"))
    else:
        fits = part == ids or loose and _is_within(np.frombuffer(ids, "<u8"), np.frombuffer(part, "<u8"))
    if not fits:
        raise ProtocolError(f"the server's batch {batch.sequence} is not what its step says that rank "
                            f"{joined.rank} gets")
    return step


def _padding(joined: wire.Joined, batch: wire.BatchHead) -> bytes:
    """What is behind with a batch that pads the part of a node without ranks: nothing."""
    if joined.nodes == 1 or batch.samples != 1:
        raise ProtocolError(f"the server's batch {batch.sequence} is padding, which this job cannot need")
    return b""


def _is_within(ids: Any, part: Any) -> bool:
    """Whether these ids are in that part in the same order, with or without others between them."""
    rest = iter(part.tolist())
    return all(number in rest for number in ids.tolist())


def _body(frames: List[Any], what: str) -> bytes:
    if len(frames) != 2:
        raise ProtocolError(f"the server's {what} has {len(frames)} frames instead of 2")
    body: Union[bytes, bytearray, zmq.Frame] = frames[1]
    return bytes(body)


def _arrays(joined: wire.Joined) -> List[str]:
    """What the user's loop sees of the fields."""
    return [f"{field.name} {field.told}{list(field.shape)}" for field in joined.fields]

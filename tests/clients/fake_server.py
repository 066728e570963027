"""A server for the client's tests: docs/protocol.md from the other side, in one thread, without any data.

Sample `id` of job j has the label `id` and an image of one value, `pattern (id, epoch)`; so a test can tell
for each array whether it still holds what was delivered.  Before a slot is written the server looks at what
it may overwrite: a batch that is neither released nor free of `kept` makes it note a fault and write all the
same what it had to write.  Everything that a client does wrong goes to `faults`; `check` raises if there are
any.

As the real one it fills the last free slot only when it knows that the batches in all others were consumed.

Faults to be played are asked for from the test's thread with `do`: they run on the server's.  Or `hook` plays
them: it is called, on the server's thread, at each step of a job ("join" with None, "joined", "token",
"ring", "batch", "progress", "epoch_end", "leave", with the job), and may call `crash` (everything closes, and
a server that knows nothing begins in its place), `crash (stay=True)` (none does), `restart` (the same, but in
good order: every job is told) and `refuse`.

What a JOIN says of where to go on is played too: `resume`, and what is "taken".

Ranks (`world_size` in a JOIN; fake_ranks.py) are gathered and get their steps together, each as a Job of its
own, which all have one number.  What a rank lacks of the furthest one's steps it gets from the `recent`
frames of that one alone.
"""
from __future__ import annotations

import json
import mmap
import os
import queue
import random
import shutil
import socket
import struct
import tempfile
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

import numpy as np
import zmq
from zmq.utils import z85

from fake_ranks import SLOT_NONE, Record, Waiting, begin_of, dealt, lacking, recent_of, same

HEAD = struct.Struct("<4sBBHQQ")
IMAGE = (4, 5, 3)
IMAGE_BYTES = 60
JOIN, INLINE, PROGRESS, LEAVE, STATUS, HEARTBEAT, EXPLAIN = 1, 2, 3, 4, 5, 6, 7
JOINED, BATCH, EPOCH_END, ENDED, STATUS_REPLY, ERROR, NOTICE, EXPLAIN_REPLY = (129, 130, 131, 132, 133, 134,
    135, 136)
FINGERPRINT, DATA = "6d0c", "9e1f00aa12bc34de"


def pattern(sample: int, epoch: int) -> int:
    return (sample * 7 + epoch * 31 + 1) % 251


def pack_head(kind: int, job: int = 0, tag: int = 0) -> bytes:
    return HEAD.pack(b"TURN", 1, kind, 0, job, tag)


class Crash(Exception):
    """The server closes all it has.  `args[0]`: for good."""


class Refuse(Exception):
    """The JOIN is answered by this code and message."""


class Job:
    def __init__(self, number: int, peer: bytes, request: Dict[str, Any], id_frames: List[bytes],
                 dataset_samples: int) -> None:
        self.number = number
        self.peer = peer
        self.request = request
        self.size: int = request["batch_size"]
        self.world: int = request.get("world_size", 1)
        self.rank: int = request.get("rank", 0)
        self.lacks: List[Record] = []                   # of what other ranks got before, sent first
        self.slots: int = request.get("slots", 4)
        self.epochs: Optional[int] = request.get("epochs")
        kinds = request.get("frames", [])
        given = [frame for kind, frame in zip(kinds, id_frames) if kind not in ("taken", "recent")]
        self.ids = chosen([kind for kind in kinds if kind not in ("taken", "recent")], given, dataset_samples)
        self.resume: Optional[Dict[str, str]] = request.get("resume")
        self.taken = taken([frame for kind, frame in zip(kinds, id_frames) if kind == "taken"])
        self.label_offset = -(-self.size * IMAGE_BYTES // 64) * 64
        self.slot_bytes = -(-(self.label_offset + 8 * self.size) // 4096) * 4096
        self.token = os.urandom(16).hex()
        self.run: str = request.get("run") or os.urandom(16).hex()
        self.descriptor = -1
        self.memory: Optional[mmap.mmap] = None
        self.attached: Optional[socket.socket] = None
        self.inline = False
        self.begun = False
        self.ended = False
        self.left = False
        self.sent = 0
        self.consumed = 0
        self.released = 0
        self.kept = 0
        self.holds: Dict[int, int] = {}                 # slot -> the batch it holds
        self.complete = False
        self.epoch = int(self.resume["epoch"]) if self.resume else 0
        self.index = int(self.resume.get("batches", 0)) if self.resume else 0
        self.places = int(self.resume.get("places", 0)) if self.resume else 0
        #  What is left of this epoch, and how much of it was delivered, to whichever job.
        self.rest = [sample for sample in self.ids[self.places:] if sample not in self.taken]
        self.at = 0                                     # so many of these were sent
        self.delivered = len(self.ids) - len(self.rest)
        self.progress_messages = 0
        self.heartbeats = 0

    def free_slots(self) -> List[int]:
        return [slot for slot in range(self.slots) if self.may_write(slot)]

    def may_write(self, slot: int) -> bool:
        held = self.holds.get(slot)
        return held is None or held < self.released and not self.kept >> slot & 1

    def in_hand(self) -> int:
        return sum(sequence < self.consumed and not self.may_write(slot) for slot,
                   sequence in self.holds.items())

    def may_send(self) -> bool:
        """A batch of this epoch is left."""
        return len(self.rest) - self.at >= (self.size * self.world if self.request.get("drop_last") else 1)

    def goes_on_as(self, other: Job) -> None:
        """Another rank of the same job, which is further, or draws for all."""
        self.run, self.epoch, self.index, self.places = other.run, other.epoch, other.index, other.places
        self.rest, self.at, self.delivered = list(other.rest), other.at, other.delivered

    def close(self) -> None:
        if self.attached is not None:
            self.attached.close()
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.memory = None
        self.attached, self.descriptor = None, -1


def taken(id_frames: List[bytes]) -> Set[int]:
    assert all(frame[0] == 2 for frame in id_frames), "taken frames"
    words = b"".join(frame[8:] for frame in id_frames)
    return {int(sample) for sample in np.flatnonzero(np.unpackbits(np.frombuffer(words, np.uint8),
        bitorder="little"))}


def chosen(form: List[str], id_frames: List[bytes], dataset_samples: int) -> List[int]:
    if not form:
        return list(range(dataset_samples))
    numbers = [int(number) for frame in id_frames for number in np.frombuffer(frame[8:], "<u8")]
    kinds = {frame[0] for frame in id_frames}
    if form[0] == "list":
        assert kinds == {3} and len(form) == len(id_frames), "list frames"
        return numbers
    assert form == ["subset"] and len(id_frames) == 1, "subset frames"
    if kinds == {2}:
        bits = np.unpackbits(np.frombuffer(id_frames[0][8:], np.uint8), bitorder="little")
        assert bits.size <= -(-dataset_samples // 64) * 64 and not bits[dataset_samples:].any(), "words"
        return [int(sample) for sample in np.flatnonzero(bits)]
    return [sample for lo, hi in zip(numbers[::2], numbers[1::2]) for sample in range(lo, hi)]


class FakeServer:
    """`with FakeServer() as server:` then `server.endpoint`."""

    def __init__(self, samples: int = 100, *, offer_ring: bool = True, heartbeat_ms: int = 1000,
                 silent: bool = False, tcp: bool = False, secret: str = "", allowed: str = "") -> None:
        """`tcp`: it listens on a port of 127.0.0.1, the same in all its lives.  `secret`: its CURVE key; "":
        it is open. `allowed`: the public key of the one client that it admits (clients over ipc have none, so
        none is admitted); "": all.  Both may be changed between two lives."""
        self.directory = tempfile.mkdtemp(prefix="tureen-fake-")
        self.endpoint = "tcp://127.0.0.1:*" if tcp else f"ipc://{self.directory}/server.sock"
        self.secret, self.allowed = secret, allowed
        self.ring_path = f"{self.directory}/server.sock.ring"
        self.samples = samples
        self.offer_ring = offer_ring
        self.heartbeat_ms = heartbeat_ms
        self.silent = silent                            # neither batches nor heartbeats: hung
        self.paused = False                             # no batches
        self.refuses_rings = False                          # a client that asks for a ring is sent away
        self.mute_tokens = 0                            # so many that do so get no answer
        self.refusal: Optional[Tuple[str, str]] = None
        self.hook: Callable[[str, Optional[Job]], None] = lambda step, job: None
        self.unreadable: Set[int] = set()               # left out where they come up
        self.shuffled = False                           # each job has an order of its own
        self.status: Dict[str, Any] = {}                # of the one job in STATUS
        self.told_status: Dict[str, Any] = {}           # beside the jobs, or instead of them
        self.lives = 0
        self.former: List[Job] = []                     # jobs of servers that crashed
        self.told_ring_path = self.ring_path
        self.joined_changes: Dict[str, Any] = {}
        self.gatherings: Dict[str, Dict[int, Waiting]] = {}     # of ranks, by the job's name
        self.gathering_s = 0.1                          # between two notices
        self.jobs: Dict[int, Job] = {}
        self.faults: List[str] = []
        self.messages: List[List[bytes]] = []
        self._orders: queue.SimpleQueue[Tuple[Callable[[], Any], threading.Event]] = queue.SimpleQueue()
        self._stop = False
        self._crash_wanted = False
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._next_job = 5
        self._tell_at = 0.0
        self.chance = random.Random(7)

    #  The test's side

    def __enter__(self) -> FakeServer:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: Any) -> None:
        self.die()
        shutil.rmtree(self.directory, ignore_errors=True)

    def die(self) -> None:
        """Everything closes, and no client is told."""
        self._stop = True
        self._thread.join()

    def do(self, order: Callable[[], Any]) -> None:
        """Runs `order` on the server's thread."""
        done = threading.Event()
        self._orders.put((order, done))
        assert done.wait(60)

    def stop(self) -> None:
        """As SIGTERM does: every job is told, its memory stays, the sockets close."""
        def order() -> None:
            for job in self.alive():
                self.end(job, "stopping", "the server ends")
            self._stop = True
        self.do(order)
        self._thread.join()

    def do_crash(self) -> None:
        """From the test's thread: everything closes, and a server that knows nothing begins in its place."""
        lives, self._crash_wanted = self.lives, True
        end = time.monotonic() + 60
        while self.lives == lives:
            assert time.monotonic() < end
            time.sleep(0.002)

    def alive(self) -> List[Job]:
        return [job for job in list(self.jobs.values()) if not job.ended]       # of any thread

    def job(self, rank: int = 0) -> Job:
        """The newest, of that rank."""
        jobs = self.jobs.copy()                         # they may change meanwhile
        return jobs[max(number for number, job in jobs.items() if job.rank == rank)]

    def check(self) -> None:
        if self.faults:
            raise AssertionError("; ".join(self.faults))

    #  A hook's side

    @staticmethod
    def crash(stay: bool = False) -> None:
        raise Crash(stay)

    def restart(self) -> None:
        for job in self.alive():
            self.end(job, "stopping", "the server ends")
        raise Crash(False)

    @staticmethod
    def refuse(code: str, message: str) -> None:
        raise Refuse(code, message)

    #  The server's thread

    def _run(self) -> None:
        while not self._stop:
            try:
                self._live()
            except Crash as crash:
                self._stop = self._stop or crash.args[0]
                self.former += self.jobs.values()
                self.jobs = {}
                self.gatherings = {}
                self._next_job = 5                      # as a server that knows nothing

    def _live(self) -> None:
        self.lives += 1
        self.context = zmq.Context()
        self.router = self.context.socket(zmq.ROUTER)
        self.router.linger = 10_000                     # what was said before the end arrives
        self.router.router_mandatory = True             # what cannot be sent: that client is gone
        self._use_keys()
        self._bind()
        self.ring_listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if os.path.exists(self.ring_path):
            os.unlink(self.ring_path)
        self.ring_listener.bind(self.ring_path)
        self.ring_listener.listen(16)
        self.ring_listener.setblocking(False)
        self._ready.set()
        try:
            while not self._stop:
                self._turn()
        finally:
            for job in self.jobs.values():
                job.close()
            self.ring_listener.close()
            if self.zap is not None:
                self.zap.close()
            self.router.close()
            self.context.term()

    def _use_keys(self) -> None:
        """Answers the question which client is admitted (ZAP, RFC 27)."""
        self.zap: Optional[Any] = None
        if not self.secret and not self.allowed:
            return
        self.zap = self.context.socket(zmq.REP)
        self.zap.bind("inproc://zeromq.zap.01")
        self.router.zap_domain = b"fake"
        if self.secret:
            self.router.curve_server = True
            self.router.curve_secretkey = self.secret.encode()

    def _bind(self) -> None:
        """Of the life before a connection may still be closing."""
        until = time.monotonic() + 10
        while True:
            try:
                self.router.bind(self.endpoint)
                break
            except zmq.ZMQError as error:
                if error.errno != zmq.EADDRINUSE or time.monotonic() > until:
                    raise
                time.sleep(0.005)
        self.endpoint = self.router.last_endpoint.rstrip(b"\0").decode()

    def _answer_zap(self) -> None:
        if self.zap is None or not self.zap.poll(0):
            return
        version, request, *_, credentials = self.zap.recv_multipart()
        fine = not self.allowed or credentials == z85.decode(self.allowed.encode())
        self.zap.send_multipart([version, request, b"200" if fine else b"400", b"", b"", b""])

    def _turn(self) -> None:
        poller = zmq.Poller()
        poller.register(self.router, zmq.POLLIN)
        poller.register(self.ring_listener.fileno(), zmq.POLLIN)
        for job in self.alive():
            if job.attached is not None:
                poller.register(job.attached.fileno(), zmq.POLLIN)
        ready = dict(poller.poll(5))
        if self._crash_wanted:
            self._crash_wanted = False
            self.crash()
        self._answer_zap()
        while not self._orders.empty():
            order, done = self._orders.get()
            order()
            done.set()
        if self.ring_listener.fileno() in ready:
            self._accept_ring()
        while self.router.poll(0):
            peer, *frames = self.router.recv_multipart()
            self._take(peer, frames)
        for job in self.alive():
            if job.attached is not None and job.attached.fileno() in ready and not job.attached.recv(64):
                self.forget(job)
        if not self.silent and not self.paused:
            for job in self.alive():
                if job.world == 1:
                    self._feed(job)
                elif job.rank == 0:
                    self._feed_ranks([rank for rank in self.jobs.values() if rank.number == job.number])
        self._beat()

    def _accept_ring(self) -> None:
        try:
            connection, _ = self.ring_listener.accept()
        except BlockingIOError:
            return
        if self.refuses_rings:
            connection.close()
            return
        connection.settimeout(60)
        token = connection.recv(64).decode()
        for job in self.alive():
            if job.token == token and job.descriptor >= 0 and not job.begun:
                job.attached = connection               # closed with the job, whatever happens
                self.hook("token", job)
                if self.mute_tokens:
                    self.mute_tokens -= 1
                    return
                socket.send_fds(connection, [b"R"], [job.descriptor])
                connection.setblocking(False)
                job.begun = True
                self.hook("ring", job)
                return
        if self.lives == 1:                             # else it may be the former server's
            self.faults.append("a token that is none, or was used")
        connection.close()

    def forget(self, job: Job) -> None:
        """The job is over: its memory is punched empty, its connection closed."""
        job.ended = True
        if job.memory is not None:
            job.memory[:] = bytes(len(job.memory))
        job.close()

    def end(self, job: Job, reason: str, message: str, tag: int = 0) -> None:
        self.send(job, [pack_head(ENDED, job.number, tag), dump({"reason": reason, "message": message})])
        if reason in ("stopping", "rank_lost", "rank_left"):
            job.ended = True
            job.close()
        else:
            self.forget(job)

    def send(self, job: Job, frames: List[bytes]) -> None:
        if not self._sent(job.peer, frames):
            self.forget(job)

    def _sent(self, peer: bytes, frames: List[bytes]) -> bool:
        try:
            self.router.send_multipart([peer, *frames])
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            return False
        return True

    def _refuse(self, peer: bytes, tag: int, code: str, message: str) -> None:
        self._sent(peer, [pack_head(ERROR, 0, tag), dump({"error": code, "message": message})])

    def _take(self, peer: bytes, frames: List[bytes]) -> None:
        self.messages.append(frames)
        magic, version, kind, zero, number, tag = HEAD.unpack(frames[0])
        if (magic, version, zero) != (b"TURN", 1, 0):
            self.faults.append(f"a strange head: {frames[0]!r}")
            return
        if self.silent:
            return
        if kind == JOIN:
            self._take_join(peer, tag, json.loads(frames[1]), frames[2:])
            return
        if kind == STATUS:
            jobs = [{"job": job.number, **self.status} for job in self.alive()]
            self._sent(peer, [pack_head(STATUS_REPLY, 0, tag), dump({"jobs": jobs, **self.told_status})])
            return
        job = next((job for job in self.jobs.values() if job.number == number and job.peer == peer),
                   self.jobs.get(number))
        if job is None or job.ended or job.peer != peer:
            #  A message that crosses the end of a job on its way is no fault; one that comes after LEAVE is
            #  the client's.
            if self.lives == 1 and (job is None or job.peer != peer or job.left and kind != HEARTBEAT):
                self.faults.append(f"kind {kind} for job {number}, which is not this connection's")
            self._refuse(peer, tag, "unknown_job", f"no job {number} on this connection")
        elif kind == INLINE:
            job.inline = job.begun = True
        elif kind == PROGRESS:
            self._take_progress(job, *struct.unpack("<QQQ", frames[1]))
            self.hook("progress", job)
        elif kind == EXPLAIN:
            self._take_explain(job, tag, json.loads(frames[1]))
        elif kind == LEAVE:
            job.left = True
            self.hook("leave", job)
            self.end(job, "left", "the client left", tag)
        elif kind == HEARTBEAT:
            job.heartbeats += 1
            if not job.inline:
                self.faults.append("a heartbeat from a job with a ring")
        else:
            self.faults.append(f"kind {kind}")

    def _take_join(self, peer: bytes, tag: int, request: Dict[str, Any], id_frames: List[bytes]) -> None:
        try:
            self.hook("join", None)
        except Refuse as refuse:
            self._refuse(peer, tag, *refuse.args)
            return
        if self.refusal is not None:
            self._refuse(peer, tag, *self.refusal)
            return
        resume = request.get("resume")
        if resume and (resume["fingerprint"], resume["data"]) != (FINGERPRINT, DATA):
            self._refuse(peer, tag, "bad_state", "the data set's files have changed")
            return
        if any(job.peer == peer for job in self.alive()):
            self.faults.append("a second job on one connection")
        if request.get("world_size", 1) > 1:
            self._gather(Waiting(peer, tag, request, id_frames, time.monotonic()))
            return
        job = Job(self._next_job, peer, request, id_frames, self.samples)
        if self.shuffled:
            self.chance.shuffle(job.rest)
        self._next_job += 1
        self.jobs[job.number] = job
        self._answer(job, tag)

    def _answer(self, job: Job, tag: int) -> None:
        request, ring = job.request, None
        if self.offer_ring and request.get("transport", "auto") == "auto":
            total = job.slots * job.slot_bytes
            job.descriptor = os.memfd_create("ring")
            os.ftruncate(job.descriptor, total)
            job.memory = mmap.mmap(job.descriptor, total)
            ring = {"path": self.told_ring_path, "token": job.token, "bytes": str(total)}
        answer = {
            "job": str(job.number), "samples": str(len(job.ids)), "dataset_samples": str(self.samples),
            "classes": ["cat", "dog"], "batch_size": job.size, "slots": job.slots,
            "slot_bytes": str(job.slot_bytes), "fields": [{"name": "image", "dtype": "uint8",
                                                           "shape": list(IMAGE), "offset": "0",
                        "sample_bytes": str(IMAGE_BYTES)},
                       {"name": "label", "dtype": "int64", "shape": [], "offset": str(job.label_offset),
                        "sample_bytes": "8"}],
            "ring": ring, "seed": request.get("seed", "1"), "fingerprint": FINGERPRINT, "data": DATA,
            "run": job.run, "forked": False, "rank": job.rank, "world_size": job.world, "pipeline": [],
            "heartbeat_ms": self.heartbeat_ms, "lease_ms": 90000, "something_new": [1, 2]}
        answer.update(self.joined_changes)
        self.send(job, [pack_head(JOINED, job.number, tag), dump(answer)])
        self.hook("joined", job)

    def _gather(self, waiting: Waiting) -> None:
        gathering = self.gatherings.setdefault(waiting.request["job"], {})
        gathering[waiting.rank] = waiting
        if not all(same(waiting.request, other.request) for other in gathering.values()):
            self.faults.append("ranks that ask for different things")
        if len(gathering) < waiting.world_size:
            self._tell_of_gatherings()
            return
        del self.gatherings[waiting.request["job"]]
        self._begin_ranks([gathering[rank] for rank in range(waiting.world_size)])

    def _begin_ranks(self, ranks: List[Waiting]) -> None:
        furthest = max(ranks, key=lambda waiting: begin_of(waiting.request))
        begin, epochs = begin_of(furthest.request), furthest.request.get("epochs")
        recent = recent_of(furthest.request, furthest.id_frames)
        lacks = [lacking(recent, begin_of(waiting.request), begin) for waiting in ranks]
        if epochs is not None and all(begin_of(waiting.request)[0] == epochs
                                      for waiting in ranks) or None in lacks:
            code = "ranks_differ" if None in lacks else "bad_state"
            for waiting in ranks:
                self._refuse(waiting.peer, waiting.tag, code, "they begin at "
                             f"{[begin_of(rank.request) for rank in ranks]}")
            return
        leader = Job(self._next_job, furthest.peer, furthest.request, furthest.id_frames, self.samples)
        if self.shuffled:
            self.chance.shuffle(leader.rest)
        for waiting, records in zip(ranks, lacks):
            job = Job(self._next_job, waiting.peer, waiting.request, waiting.id_frames, self.samples)
            job.goes_on_as(leader)
            job.lacks = records or []
            job.complete = epochs is not None and job.epoch == epochs
            self.jobs[self._next_job + waiting.rank] = job
        number, self._next_job = self._next_job, self._next_job + len(ranks)
        for waiting in ranks:
            self._answer(self.jobs[number + waiting.rank], waiting.tag)

    def _tell_of_gatherings(self) -> None:
        """Those that wait hear of it, or that it was in vain; those that are gone are forgotten."""
        for name, gathering in self.gatherings.items():
            over = any(time.monotonic() > waiting.since + waiting.request["gather"]
                       for waiting in gathering.values())
            for rank, waiting in list(gathering.items()):
                text = f"{len(gathering)} of {waiting.world_size} ranks of job {name!r} are here"
                if over:
                    self._refuse(waiting.peer, waiting.tag, "ranks_missing", text)
                    del gathering[rank]
                elif not self._sent(waiting.peer, [pack_head(NOTICE, 0, waiting.tag),
                                                 dump({"notice": "gathering", "message": text})]):
                    del gathering[rank]

    def _take_explain(self, job: Job, tag: int, asked: Dict[str, str]) -> None:
        if int(asked["id"]) not in job.ids:
            self.send(job, [pack_head(ERROR, job.number, tag),
                            dump({"error": "unknown_sample",
                                  "message": f"no batch holds sample {asked['id']}"})])
        else:
            self.send(job, [pack_head(EXPLAIN_REPLY, job.number, tag), dump({**asked, "operations": []})])

    def notice(self, job: Job, kind: str, message: str, **more: Any) -> None:
        self.send(job, [pack_head(NOTICE, job.number), dump({"notice": kind, "message": message, **more})])

    def _take_progress(self, job: Job, consumed: int, released: int, kept: int) -> None:
        job.progress_messages += 1
        if not job.consumed <= consumed <= job.sent or not job.released <= released <= job.sent:
            self.faults.append(f"progress {consumed}, {released} after {job.consumed}, {job.released} "
                               f"of {job.sent} sent")
        if released > consumed:
            self.faults.append(f"released {released} of {consumed} consumed")
        job.consumed, job.released, job.kept = consumed, released, kept

    def _slot(self, job: Job) -> Optional[int]:
        """The next to be filled; None while there is none."""
        free = job.free_slots()
        return None if not free or len(free) == 1 and job.in_hand() + 1 < job.slots else free[0]

    def _feed(self, job: Job) -> None:
        while job.begun and not job.complete and not job.ended:
            slot = self._slot(job)
            if slot is None:
                return
            if job.may_send():
                self.send_batch(job, slot)
            if not job.may_send() and not job.ended:
                self._end_epoch(job)

    def _feed_ranks(self, ranks: List[Job]) -> None:
        """A step goes to all of them or to none."""
        while all(job.begun and not job.ended for job in ranks):
            for job in ranks:
                self._send_what_it_lacks(job)
            slots = [self._slot(job) for job in ranks]
            if ranks[0].complete or None in slots:
                return
            if ranks[0].may_send():
                for job, slot in zip(ranks, slots):
                    assert slot is not None
                    self.send_batch(job, slot)
            if not any(job.may_send() or job.ended for job in ranks):
                for job in ranks:
                    self._end_epoch(job)
                for job in ranks:
                    job.rest = list(ranks[0].rest)

    def _send_what_it_lacks(self, job: Job) -> None:
        for record in job.lacks:
            if record.step is None:
                last = job.epochs is not None and record.epoch + 1 == job.epochs
                self.send(job, [pack_head(EPOCH_END, job.number),
                                struct.pack("<QQQII", record.epoch, record.samples, record.place, int(last),
                                            0)])
            else:
                self._send_part(job, record.epoch, record.place, record.step, SLOT_NONE)
        job.lacks = []

    def send_batch(self, job: Job, slot: int) -> None:
        places = job.rest[job.at:job.at + job.size * job.world]
        step = [[sample for sample in part if sample not in self.unreadable]
                for part in dealt(places, job.world)]
        job.at += len(places)
        if not any(step):
            return                                      # all of them were unreadable
        if not job.may_write(slot):
            self.faults.append(f"slot {slot} written over batch {job.holds[slot]}, which is held")
        job.holds[slot] = job.sent
        index, job.index = job.index, job.index + 1
        job.delivered += sum(map(len, step))
        self._send_part(job, job.epoch, index, step, slot)
        self.hook("batch", job)

    def _send_part(self, job: Job, epoch: int, index: int, step: List[List[int]], slot: int) -> None:
        """The rank's part of a step; of a job without ranks it is the step."""
        inline, padding = job.inline or slot == SLOT_NONE, not step[job.rank]
        ids = step[job.rank] or [next(sample for part in step for sample in part)]
        filled = self._filled(job, epoch, ids)
        frames = [pack_head(BATCH, job.number),
                  struct.pack("<QQQIIII", job.sent, epoch, index, slot, len(ids), inline | 2 * padding, 0),
                  struct.pack(f"<{len(ids)}Q", *ids)]
        if job.world > 1:
            whole = [*map(len, step), *(sample for part in step for sample in part)]
            frames.append(struct.pack(f"<{len(whole)}Q", *whole))
        if inline:
            frames.append(filled)
        else:
            assert job.memory is not None
            job.memory[slot * job.slot_bytes:(slot + 1) * job.slot_bytes] = filled
        job.sent += 1
        self.send(job, frames)

    def _filled(self, job: Job, epoch: int, ids: List[int]) -> bytes:
        images = b"".join(bytes([pattern(sample, epoch)]) * IMAGE_BYTES for sample in ids)
        labels = struct.pack(f"<{len(ids)}q", *ids)
        return (images.ljust(job.label_offset, b"\xee") + labels).ljust(job.slot_bytes, b"\xee")

    def _end_epoch(self, job: Job) -> None:
        last = job.epochs is not None and job.epoch + 1 == job.epochs
        self.send(job, [pack_head(EPOCH_END, job.number),
                        struct.pack("<QQQII", job.epoch, job.delivered, job.index, int(last), 0)])
        job.complete = last
        job.epoch += 1
        job.index = job.delivered = 0
        job.rest, job.at = list(job.ids), 0
        if self.shuffled:
            self.chance.shuffle(job.rest)
        self.hook("epoch_end", job)

    def _beat(self) -> None:
        now = time.monotonic()
        if self.gatherings and not self.silent and now >= self._tell_at:
            self._tell_of_gatherings()
            self._tell_at = now + self.gathering_s
        for job in self.alive():
            if job.inline and not self.silent and now >= getattr(job, "beat_at", 0.0):
                self.send(job, [pack_head(HEARTBEAT, job.number)])
                job.beat_at = now + self.heartbeat_ms / 2000  # type: ignore[attr-defined]


def dump(value: Any) -> bytes:
    return json.dumps(value).encode()

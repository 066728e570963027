#!/usr/bin/env python3
"""What a hostile tenant does to a server, each attack by its name, until it is ended; hostile.py starts it.

Messages are written from docs/protocol.md, connections that speak ZeroMQ wrongly from the ZMTP 3.0
specification.  Whatever the server answers or refuses, the attack goes on.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import struct
import sys
import time
from typing import Callable, Dict, List, Optional, Tuple

import zmq

HEAD = struct.Struct("<4sBBHQQ")
PROGRESS = struct.Struct("<QQQ")
JOIN, INLINE, PROGRESS_KIND, LEAVE, STATUS, HEARTBEAT, EXPLAIN = range(1, 8)
JOINED, BATCH, ENDED = 129, 130, 132
SPECIAL = [0, 1, 63, 64, 2 ** 32 - 1, 2 ** 53, 2 ** 63, 2 ** 64 - 1]
HIGH_WATER = 1000
BEAT_S = 0.5
PAUSE_S = 0.0005


def head(kind: int, job: int = 0, tag: int = 0, magic: bytes = b"TURN", version: int = 1) -> bytes:
    return HEAD.pack(magic, version, kind, 0, job, tag)


class Peer:
    """A DEALER that never waits."""

    def __init__(self, context: zmq.Context, endpoint: str) -> None:
        self.socket = context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.SNDHWM, HIGH_WATER)
        self.socket.connect(endpoint)
        self.endpoint = endpoint

    def send(self, *frames: bytes) -> bool:
        try:
            self.socket.send_multipart(frames, zmq.DONTWAIT)
            return True
        except zmq.Again:
            return False

    def drain(self) -> List[List[bytes]]:
        """What has come."""
        messages = []
        while True:
            try:
                messages.append(self.socket.recv_multipart(zmq.DONTWAIT))
            except zmq.Again:
                return messages


class Beats:
    """Heartbeats of jobs without a ring, when they are due."""

    def __init__(self) -> None:
        self.sent_at = 0.0

    def send(self, jobs: Dict[Peer, int]) -> None:
        if time.monotonic() - self.sent_at > BEAT_S:
            self.sent_at = time.monotonic()
            for peer, job in jobs.items():
                peer.send(head(HEARTBEAT, job))


def join_text(batch: int, slots: int, **keys: object) -> bytes:
    return json.dumps(dict({"dataset": "train", "batch_size": batch, "slots": slots, "transport": "inline"},
                           **keys)).encode()


def joined(message: List[bytes]) -> Optional[int]:
    """The job's number, of a JOINED."""
    if len(message) < 2 or len(message[0]) != HEAD.size:
        return None
    _, _, kind, _, job, _ = HEAD.unpack(message[0])
    return job if kind == JOINED else None


#   ---- attacks

def malformed(endpoint: str, chance: random.Random) -> None:
    """Messages of every wrongness, as fast as they go."""
    context = zmq.Context()
    peers = [Peer(context, endpoint) for _ in range(16)]
    junk = [[chance.getrandbits(8 * size).to_bytes(size, "little")] * frames
            for size in (1, 23, 24, 25, 200, 60000) for frames in (1, 2, 5, 129, 131)]
    junk += [[head(kind, chance.choice(SPECIAL), 1, version=version), text] for kind in range(10)
             for version in (1, 2)
             for text in (b"{", b"{}", b"[" * 1000, b"{\"dataset\":1}", b"\xff" * 60000)]
    while True:
        for peer in peers:
            for frames in chance.sample(junk, 8):
                peer.send(*frames)
            if chance.random() < 0.01:
                peer.drain()


def joins(endpoint: str, chance: random.Random) -> None:
    """Joins and leaves in a loop."""
    context = zmq.Context()
    peers = [Peer(context, endpoint) for _ in range(32)]
    while True:
        for peer in peers:
            peer.send(head(JOIN, 0, 1), join_text(64, 4))
            for message in peer.drain():
                job = joined(message)
                if job is not None:
                    peer.send(head(LEAVE, job, 2))
        time.sleep(PAUSE_S)


def lists(endpoint: str, chance: random.Random) -> None:
    """Joins with lists as long as they may be."""
    context = zmq.Context()
    frame = b"\x03" + bytes(7) + struct.pack("<Q", 5) * 130000
    peers = [Peer(context, endpoint) for _ in range(4)]
    text = join_text(64, 4, order="list", frames=["list"] * 100)
    while True:
        for peer in peers:
            if not peer.send(head(JOIN, 0, 1), text, *[frame] * 100):
                time.sleep(0.01)
            for message in peer.drain():
                job = joined(message)
                if job is not None:
                    peer.send(head(LEAVE, job, 2))


def _jobs(endpoint: str, count: int, text: Callable[[int], bytes], releases: bool) -> None:
    """So many jobs, each of which takes its batches at once, or never lets go of any."""
    context = zmq.Context()
    peers = [Peer(context, endpoint) for _ in range(count)]
    poller = zmq.Poller()
    by_socket = {peer.socket: peer for peer in peers}
    had: Dict[Peer, Tuple[int, int]] = {}
    for number, peer in enumerate(peers):
        poller.register(peer.socket, zmq.POLLIN)
        peer.send(head(JOIN, 0, 1), text(number))
    beats = Beats()
    while True:
        for ready, _ in poller.poll(200):
            peer = by_socket[ready]
            for message in peer.drain():
                job = joined(message)
                if job is not None:
                    had[peer] = job, 0
                elif peer in had and len(message) > 1 and message[0][5] == BATCH:
                    job, batches = had[peer]
                    had[peer] = job, batches + 1
                    if releases:
                        peer.send(head(PROGRESS_KIND, job), PROGRESS.pack(batches + 1, batches + 1, 0))
                elif len(message[0]) > 5 and message[0][5] == ENDED:
                    had.pop(peer, None)
                    peer.send(head(JOIN, 0, 1), text(0))
        beats.send({peer: job for peer, (job, _) in had.items()})


def holding(endpoint: str, chance: random.Random) -> None:
    """As many jobs as it gets, none of which ever releases a batch."""
    _jobs(endpoint, 200, lambda number: join_text(64, 8, seed=str(number)), False)


def tiny(endpoint: str, chance: random.Random) -> None:
    """A thousand jobs of single samples, each with an order and pixels of its own."""
    _jobs(endpoint, 1000, lambda number: join_text(1, 3, seed=str(number)), True)


def huge(endpoint: str, chance: random.Random) -> None:
    """Windows as large as they may be, of large images that no other job shares."""
    operations = [{"op": "random_resized_crop", "size": 1024}, {"share": True}, {"op": "flip"}]
    _jobs(endpoint, 64, lambda number: join_text(256, 64, seed=str(number), pipeline=operations), True)


#   What the server foresees of it is just below what it allows (--job-cost, 1000 ms).
COSTLY = [{"op": "resize", "size": [64, 64]}, {"share": True}, {"op": "resize", "size": [1900, 1900]},
          {"op": "elastic_transform"}, {"op": "elastic_transform"}, {"op": "resize", "size": [8, 8]}]


def costly(endpoint: str, chance: random.Random) -> None:
    """As many jobs as it gets of a pipeline that takes nearly as long for a sample as a job may."""
    _jobs(endpoint, 64, lambda number: join_text(1, 8, seed=str(number), pipeline=COSTLY), True)


def refused(endpoint: str, chance: random.Random) -> None:
    """Joins with pipelines of minutes for a sample, which the server refuses."""
    context = zmq.Context()
    peers = [Peer(context, endpoint) for _ in range(16)]
    operations = COSTLY[:2] + [{"op": "views", "count": 10}, {"op": "resize", "size": [4096, 4096]}] \
        + 12 * [{"op": "elastic_transform"}] + COSTLY[-1:]
    while True:
        for peer in peers:
            peer.send(head(JOIN, 0, 1), join_text(1, 3, seed="1", pipeline=operations))
            peer.drain()
        time.sleep(PAUSE_S)


def statuses(endpoint: str, chance: random.Random) -> None:
    """Asks for the status, as fast as it goes, and hardly reads any."""
    context = zmq.Context()
    peers = [Peer(context, endpoint) for _ in range(16)]
    while True:
        sent = [peer.send(head(STATUS, 0, 1), b"{}") for peer in peers]
        if not any(sent):
            for peer in peers[:8]:
                peer.drain()


def explains(endpoint: str, chance: random.Random) -> None:
    """Lets the workers explain samples."""
    context = zmq.Context()
    peers = [Peer(context, endpoint) for _ in range(16)]
    jobs: Dict[Peer, int] = {}
    for peer in peers:
        peer.send(head(JOIN, 0, 1), join_text(64, 4, seed="1"))
    beats = Beats()
    while True:
        for peer in peers:
            for message in peer.drain():
                jobs[peer] = joined(message) or jobs.get(peer, 0)
            for _ in range(4):
                peer.send(head(EXPLAIN, jobs.get(peer, 0), 3),
                          json.dumps({"id": str(chance.randrange(1000)), "epoch": "9"}).encode())
        beats.send(jobs)
        time.sleep(PAUSE_S)


def _path(endpoint: str) -> str:
    return endpoint[len("ipc://"):]


def _unix(path: str) -> Optional[socket.socket]:
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.setblocking(False)
    try:
        stream.connect(path)
        return stream
    except OSError:
        stream.close()
        return None


GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" + bytes(31)


def _ready(identity: bytes) -> bytes:
    """The READY command of a DEALER that calls itself so."""
    body = b"\x05READY"
    for name, value in ((b"Socket-Type", b"DEALER"), (b"Identity", identity)):
        body += bytes([len(name)]) + name + struct.pack(">I", len(value)) + value
    return bytes([4, len(body)]) + body


def _strangers(path: str, say: Callable[[], bytes], most: int, pause: float, chance: random.Random) -> None:
    """Connects again and again, says something (perhaps nothing) each time, and keeps so many connections."""
    held: List[socket.socket] = []
    while True:
        stream = _unix(path)
        if stream is None:
            time.sleep(PAUSE_S)
            continue
        held.append(stream)
        try:
            stream.send(say())
        except OSError:
            pass
        if len(held) > most:
            held.pop(chance.randrange(most)).close()
        time.sleep(pause)


def doors(endpoint: str, chance: random.Random) -> None:
    """Strangers at the socket that hands out rings, with tokens that are none."""
    def say() -> bytes:
        size = chance.choice((0, 0, 0, 0, 1, 31, 32, 33))
        return bytes(chance.choice(b"0123456789abcdef") for _ in range(size))
    _strangers(_path(endpoint) + ".ring", say, 100, 0.0, chance)


def squatting(endpoint: str, chance: random.Random) -> None:
    """Takes names of connections that the server will give out."""
    _strangers(_path(endpoint), lambda: GREETING + _ready(b"\0" + struct.pack(">I", chance.getrandbits(32))),
               2000, PAUSE_S, chance)


def halves(endpoint: str, chance: random.Random) -> None:
    """Connections that stop in the middle: of the greeting, of a command, of a message of a megabyte."""
    whole = GREETING + _ready(b"") + b"\x02" + struct.pack(">Q", 1 << 20) + bytes(5000)
    _strangers(_path(endpoint), lambda: whole[:chance.randrange(1, len(whole))], 2000, PAUSE_S, chance)


def endless(endpoint: str, chance: random.Random) -> None:
    """Endless messages of one megabyte after another, on several connections; a connection that is cut off
    begins again."""
    frame = b"\x03" + struct.pack(">Q", 1 << 20) + bytes(1 << 20)
    streams: List[socket.socket] = []
    while True:
        begins = len(streams) < 8
        stream = _unix(_path(endpoint)) if begins else chance.choice(streams)
        if stream is None:
            time.sleep(PAUSE_S)
            continue
        if begins:
            stream.settimeout(1.0)
            streams.append(stream)
        try:
            stream.sendall(GREETING + _ready(b"") if begins else frame)
        except OSError:
            stream.close()
            streams.remove(stream)


def spinning(endpoint: str, chance: random.Random) -> None:
    """Nothing: what an attacker's process costs by itself."""
    while True:
        pass


ATTACKS: Dict[str, Callable[[str, random.Random], None]] = {
    "malformed": malformed, "joins": joins, "lists": lists, "holding": holding, "tiny": tiny, "huge": huge,
    "costly": costly, "refused": refused, "statuses": statuses, "explains": explains, "doors": doors,
    "squatting": squatting, "halves": halves, "endless": endless, "spinning": spinning,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("attack", choices=sorted(ATTACKS))
    parser.add_argument("--connect", required=True)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    ATTACKS[options.attack](options.connect, random.Random(options.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())

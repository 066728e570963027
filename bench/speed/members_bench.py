#!/usr/bin/env python3
"""Servers that keep blocks of a store for each other: what the store sends, and what giving costs.

    python3 bench/speed/members_bench.py --data DIR [--binary build/release/bin/tureen] [--folder DIR]
                                         [--caches 0.4,0.2] [--epochs 3] [--seconds 6] [--pairs 5]
                                         [--only giving|sent]

DIR is an ImageFolder of JPEGs.  Its pack, and the caches on local disks, lie in a new folder below --folder
(/dev/shm).  The store is the one of the tests on this machine.

Sent: three servers, each with a cache of so much of the data, start at once.  First one job over all three
(each server reads its part), then three jobs at the same time of which each reads everything; the table has
what the store sent in each epoch, as parts of the data.  `alone`: three jobs without members.

Giving: a server and its job have one processor, and a member that asks for as many blocks as it can get, of
4 MiB, has another.  Spans without and with these questions take turns; the figure is the job's rate with
them, to that without.  Plain, and with the members' keys.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Dict, List, Optional, Tuple

import zmq

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "system"))

from harness import free_port                                           # noqa: E402
from object_store import ObjectStore                                    # noqa: E402
from serve_bench import await_server                                    # noqa: E402

SERVERS, BLOCK, AHEAD = 3, 4 << 20, 8
QUESTION = struct.Struct("<IHHQ2Q3Q")


class Servers:
    """Servers with caches of their own, until the end of `with`."""

    def __init__(self, options: argparse.Namespace, store: ObjectStore, room: Path, count: int, part: float,
                 size: int, are_members: bool, guard: str = "keys", processor: Optional[int] = None):
        self.options, self.processes, self.endpoints = options, [], []
        self.environment = dict(os.environ, **store.environment())
        self.names = [f"127.0.0.1:{free_port()}" for _ in range(count)]
        folder = Path(tempfile.mkdtemp(dir=room))
        self.keys = folder / "keys"
        pin = ["taskset", "-c", str(processor)] if processor is not None else []
        for number, name in enumerate(self.names):
            endpoint = f"ipc://{folder}/{number}.sock"
            arguments = ["--disk", f"{folder}/{number}={int(part * size)}"] if part else []
            if are_members:
                arguments += ["--members", ",".join(self.names), "--member", name]
                arguments += ["--open"] if guard == "open" else ["--member-keys", str(self.keys)]
            self.endpoints.append(endpoint)
            self.processes.append(subprocess.Popen(
                [*pin, options.binary, "serve", "--dataset", "train=s3://bucket/train", "--listen", endpoint,
                 "--cache", "64M", "--raw", "64M", "--workers", "1", *arguments], env=self.environment,
                stdout=subprocess.DEVNULL))
            await_server(self.processes[-1], endpoint, Path(options.binary))

    def __enter__(self) -> "Servers":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()

    def read(self, number: int, *arguments: str, pin: Tuple[str, ...] = ()) -> subprocess.Popen:
        return subprocess.Popen([*pin, self.options.binary, "read", "--connect", self.endpoints[number],
                                 "--dataset", "train", "--batch", "32", *arguments],
                                stdout=subprocess.DEVNULL)

    def status(self, number: int) -> Dict:
        said = subprocess.run([self.options.binary, "status", "--connect", self.endpoints[number], "--json"],
                              stdout=subprocess.PIPE, check=True).stdout
        return json.loads(said)


def sent_in_epochs(servers: Servers, store: ObjectStore, size: int, epochs: int, nodes: bool) -> List[float]:
    sent = []
    for epoch in range(epochs):
        before = store.sent("volume")
        jobs = [servers.read(number, "--seed", str(100 * epoch + (0 if nodes else number)), *(
            ["--nodes", str(SERVERS), "--node", str(number)] if nodes else ["--order", "seeded"]))
            for number in range(SERVERS)]
        if any(job.wait() for job in jobs):
            raise SystemExit("members_bench: a job failed")
        sent.append((store.sent("volume") - before) / size)
    return sent


def measure_sent(options: argparse.Namespace, store: ObjectStore, room: Path, size: int) -> None:
    print("| caches | jobs | sent in epochs 1, 2, .. of the data | alone |")
    print("| --- | --- | --- | --- |")
    for part in options.caches:
        for nodes in (True, False):
            row = []
            for are_members in (True,) if nodes else (True, False):
                with Servers(options, store, room, SERVERS, part, size, are_members) as servers:
                    sent = sent_in_epochs(servers, store, size, options.epochs, nodes)
                row.append(", ".join(f"{one:.3f}" for one in sent))
            jobs = "one over all" if nodes else "three"
            print(f"| {part} each | {jobs} | {' | '.join(row)}{' | ' * nodes} |", flush=True)


class Asker(threading.Thread):
    """Asks for random blocks, AHEAD at once, while it is on; counts bytes."""

    def __init__(self, name: str, key: Tuple[int, int], size: int, certificate: Optional[Path]):
        super().__init__(daemon=True)
        self.bytes, self.is_on, self._ending = 0, threading.Event(), threading.Event()
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.linger = 0
        if certificate:
            text = certificate.read_text()
            public, secret = (re.search(kind + '-key *= *"(.{40})"', text).group(1).encode()
                              for kind in ("public", "secret"))
            self._socket.curve_serverkey, self._socket.curve_publickey = public, public
            self._socket.curve_secretkey = secret
        self._socket.connect(f"tcp://{name}")
        self._key, self._blocks = key, size // BLOCK

    def run(self) -> None:
        out = 0
        while not self._ending.is_set():
            while self.is_on.is_set() and out < AHEAD:
                self._socket.send(QUESTION.pack(0x72505554, 1, 1, 1, *self._key, 0,
                                                random.randrange(self._blocks) * BLOCK, BLOCK))
                out += 1
            if not self._socket.poll(100):
                continue
            frames = self._socket.recv_multipart(copy=False)
            self.bytes += len(frames[-1]) if len(frames) == 3 else 0
            out -= 1

    def end(self) -> None:
        self._ending.set()
        self.join()
        self._context.destroy(0)


def consumed(servers: Servers) -> int:
    return servers.status(0)["jobs"][0]["consumed_samples"]


def measure_giving(options: argparse.Namespace, store: ObjectStore, room: Path, size: int) -> None:
    for guard in ("open", "keys"):
        with Servers(options, store, room, 1, 1.2, size, True, guard, 0) as servers:
            if servers.read(0).wait():
                raise SystemExit("members_bench: a job failed")
            folder = max((path for path in servers.keys.parent.joinpath("0").iterdir() if path.is_dir()),
                         key=lambda path: (path / "data").stat().st_size)
            key = int(folder.name[16:], 16), int(folder.name[:16], 16)
            os.sched_setaffinity(0, {1})
            asker = Asker(servers.names[0], key, size,
                          servers.keys / "server_secret" if guard == "keys" else None)
            asker.start()
            job = servers.read(0, "--epochs", "100000", pin=("taskset", "-c", "0"))
            time.sleep(3)
            ratios, given = [], []
            for _ in range(options.pairs):
                rates = []
                for is_on in (False, True):
                    (asker.is_on.set if is_on else asker.is_on.clear)()
                    time.sleep(.5)
                    before, bytes_before, began = consumed(servers), asker.bytes, time.monotonic()
                    time.sleep(options.seconds)
                    seconds = time.monotonic() - began
                    rates.append((consumed(servers) - before) / seconds)
                    if is_on:
                        given.append((asker.bytes - bytes_before) / seconds / 1e6)
                ratios.append(rates[1] / rates[0])
            job.kill()
            job.wait()
            asker.end()
        pairs = ", ".join("%.2f" % one for one in ratios)
        print(f"giving, {guard}: {statistics.median(given):.0f} MB/s to a member; the job's rate is "
              f"{statistics.median(ratios):.3f} of that without ({pairs})", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--binary", default=str(ROOT / "build" / "release" / "bin" / "tureen"))
    parser.add_argument("--folder", default="/dev/shm")
    parser.add_argument("--caches", type=lambda text: [float(one) for one in text.split(",")],
                        default=[.4, .2])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", choices=("giving", "sent"))
    options = parser.parse_args()
    room = Path(tempfile.mkdtemp(prefix="tureen-members-", dir=options.folder))
    try:
        pack = room / "bucket" / "train"
        pack.parent.mkdir()
        subprocess.run([options.binary, "pack", "--quiet", options.data, str(pack)], check=True)
        size = sum(path.stat().st_size for path in pack.glob("volume-*"))
        print(f"{size / 1e6:.0f} MB, {size / BLOCK:.0f} blocks", flush=True)
        with ObjectStore(str(room)) as store:
            if options.only != "sent":
                measure_giving(options, store, room, size)
            if options.only != "giving":
                measure_sent(options, store, room, size)
    finally:
        shutil.rmtree(room, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

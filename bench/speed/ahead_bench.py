#!/usr/bin/env python3
"""What bounds the first epoch over single objects in a far store, by jobs of several windows and speeds.

    python3 bench/speed/ahead_bench.py [--binary build/release/bin/tureen] [--samples 1500] [--bytes 20000]
                                       [--latency 55] [--rate 0] [--near DIR] [--lines NAME,..] [--rounds 1]

The store is that of the tests on this machine, with a delay of LATENCY milliseconds before each answer and
RATE megabytes a second for all answers together; 0: no limit.  Each line is a server with an empty cache on
the local disk (--disk, in a new folder below --near), and its jobs' first epoch of samples of random
bytes.

    samples     delivered a second, of each job, from its begin to its end; the slowest job's
    GETs        that the store answered a second, while any job ran
    in flight   of these, by the delay: GETs a second x LATENCY
    bound       samples a second that the window and the delay allow: batch x slots / LATENCY
    reads       how many reads the device's cost model has at once, at the end
    ahead       of the epoch's objects, those that were fetched before a job had drawn them
    processor   milliseconds of the server for each of the epoch's samples
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "system"))

from harness import processor_seconds                                   # noqa: E402
from object_store import ObjectStore                                    # noqa: E402

MEGA, SECONDS = 1e6, 60.0


class Line(NamedTuple):
    jobs: int
    batch: int
    slots: int = 4
    rate: float = 0             # samples a second that a job takes; 0: as fast as they come
    work: float = 0             # seconds that a job works before each pause,
    pause: float = 0            # and seconds that it pauses, as for validation


LINES = {
    "batch 8": Line(1, 8),
    "batch 32": Line(1, 32),
    "batch 256": Line(1, 256),
    "batch 8, 4 jobs": Line(4, 8),
    "batch 256, 4 jobs": Line(4, 256),
    "batch 8, 60/s": Line(1, 8, rate=60),
    "batch 8, 200/s": Line(1, 8, rate=200),
    "batch 8, pauses": Line(1, 8, work=1.0, pause=1.0),
    "batch 256, pauses": Line(1, 256, work=1.0, pause=1.0),
}


class Figures(NamedTuple):
    samples: float
    gets: float
    reads: float
    ahead: float
    processor_ms: float


def make_data(folder: Path, samples: int, size: int) -> None:
    chance = random.Random(7)
    for number in range(samples):
        path = folder / f"class-{number % 10}" / f"{number:07}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chance.randbytes(size))


def status(binary: Path, endpoint: str) -> Dict[str, Any]:
    said = subprocess.run([binary, "status", "--connect", endpoint, "--json"], check=True,
                          stdout=subprocess.PIPE).stdout
    return json.loads(said)


@contextlib.contextmanager
def served(options: argparse.Namespace, place: Path, store: ObjectStore):
    endpoint, log = f"ipc://{place}/s.sock", place / "log"
    with log.open("w") as stream:
        server = subprocess.Popen(
            [options.binary, "serve", "--dataset", "train=s3://bucket/train", "--extensions", "train=.bin",
             "--listen", endpoint, "--cache", "64M", "--disk", f"{place / 'blocks'}={options.cache}",
             *options.serve], stdout=stream,
            stderr=subprocess.STDOUT,
            env=dict(os.environ, XDG_RUNTIME_DIR=str(place), **store.environment()))
    try:
        end = time.monotonic() + SECONDS
        while "listening on" not in log.read_text():
            if server.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"ahead_bench: the server does not start:\n{log.read_text()}")
            time.sleep(0.05)
        yield endpoint, server.pid
    finally:
        server.terminate()
        server.wait()


def drive(jobs: List[subprocess.Popen], line: Line) -> None:
    """Lets the jobs run to their ends, with the line's pauses."""
    paused = False
    while any(job.poll() is None for job in jobs):
        if not line.pause:
            jobs[0].wait()
            for job in jobs:
                job.wait()
            return
        end = time.monotonic() + (line.pause if paused else line.work)
        while time.monotonic() < end and any(job.poll() is None for job in jobs):
            time.sleep(0.01)
        paused = not paused
        for job in jobs:
            if job.poll() is None:
                job.send_signal(signal.SIGSTOP if paused else signal.SIGCONT)


def run(options: argparse.Namespace, bucket: Path, line: Line) -> Figures:
    pipeline = json.dumps([{"op": "decode", "as": "bytes", "length": options.bytes}])
    with tempfile.TemporaryDirectory(prefix="tureen-ahead-", dir=options.near) as near, \
            ObjectStore(str(bucket), latency=options.latency / 1000,
                        rate=options.rate * MEGA if options.rate else None) as store, \
            served(options, Path(near), store) as (endpoint, server):
        used = processor_seconds(server)
        before, began = len(store.requests), time.monotonic()
        command = [options.binary, "read", "--connect", endpoint, "--dataset", "train", "--batch",
                   str(line.batch), "--slots", str(line.slots), "--epochs", "1", "--pipeline", pipeline,
                   *(["--rate", str(line.rate)] if line.rate else [])]
        jobs = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(line.jobs)]
        drive(jobs, line)
        seconds, gets = time.monotonic() - began, len(store.requests) - before
        if any(job.returncode for job in jobs):
            raise SystemExit("ahead_bench: a job failed")
        used = processor_seconds(server) - used
        page = status(options.binary, endpoint)
        objects = page["datasets"][0]["objects"]
        return Figures(options.samples / seconds, gets / seconds, page["devices"][0]["reads_max"],
                       objects.get("ahead_samples", 0) / options.samples, used / options.samples * 1000)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=ROOT / "build/release/bin/tureen")
    parser.add_argument("--samples", type=int, default=1500)
    parser.add_argument("--bytes", type=int, default=20000)
    parser.add_argument("--latency", type=float, default=55)
    parser.add_argument("--rate", type=float, default=0)
    parser.add_argument("--near", default=None)
    parser.add_argument("--cache", default="10G")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--lines", type=lambda text: text.split(";"), default=list(LINES))
    parser.add_argument("--serve", type=str.split, default=[], help="further options of the server")
    return parser.parse_args()


def main() -> int:
    options = parse()
    folder = Path(tempfile.mkdtemp(prefix="tureen-ahead-", dir="/dev/shm"))
    try:
        make_data(folder / "bucket" / "train", options.samples, options.bytes)
        print("| job | samples/s | GETs/s | in flight | bound by the window | reads | ahead | processor |\n"
              + "| --- " * 8 + "|")
        for name in options.lines:
            line = LINES[name]
            rounds = [run(options, folder, line) for _ in range(options.rounds)]
            found = Figures(*map(statistics.median, zip(*rounds)))
            window = line.batch * line.slots
            seconds = options.latency / 1000
            print(f"| {name} | {found.samples:.0f} | {found.gets:.0f} | {found.gets * seconds:.0f} of "
                  f"{window} | {window / seconds:.0f} | {found.reads:.0f} | {found.ahead:.2f} "
                  f"| {found.processor_ms:.2f} ms |", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

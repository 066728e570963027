#!/usr/bin/env python3
"""A pack in an object store: how much of the link a server holds, and how soon the first batch comes.

    python3 bench/speed/store_bench.py --data DIR [--binary build/release/bin/tureen] [--latency 1,10,55]
                                       [--rate 50,200] [--seconds 8] [--raw 64M]

DIR is an ImageFolder of JPEGs; it is packed into /dev/shm.  The store is the one of the tests (S3's GET, with
signatures) on this machine, with a delay of LATENCY milliseconds before each answer and RATE megabytes a
second for all answers together; 0: no limit.  One job of `tureen read` takes random crops.

    link        bytes of samples that came a second, to what the link gives
    first       milliseconds from the job's start to its first batch, the server running
    GETs        for each delivered sample
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import List, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "system"))

from object_store import ObjectStore                                    # noqa: E402
from serve_bench import BenchError, await_server                        # noqa: E402

MEGA = 1e6


class Figures(NamedTuple):
    link: float                 # megabytes a second
    first_ms: float
    gets: float


def first_batch_ms(job: subprocess.Popen, ids: Path) -> float:
    """Until the file of its samples' ids has some."""
    began = time.monotonic()
    while not ids.exists() or ids.stat().st_size == 0:
        if job.poll() is not None:
            raise BenchError("the job ended")
        time.sleep(0.001)
    return (time.monotonic() - began) * 1000


def run(options: argparse.Namespace, folder: Path, latency: float, rate: float) -> Figures:
    with ObjectStore(str(folder), keys={"key": "secret"}, latency=latency / 1000,
                     rate=rate * MEGA if rate else None) as store:
        endpoint = f"ipc://{folder}/socket"
        server = subprocess.Popen(
            [options.binary, "serve", "--dataset", "train=s3://bucket/pack", "--listen", endpoint, "--cache",
             "64M", "--raw", options.raw], env=dict(os.environ, **store.environment("key")),
            stdout=subprocess.DEVNULL)
        try:
            await_server(server, endpoint, options.binary)
            ids = folder / "ids"
            ids.unlink(missing_ok=True)
            command = [options.binary, "read", "--connect", endpoint, "--dataset", "train", "--batch", "32",
                       "--epochs", "0", "--ids", ids]
            job = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            first_ms = first_batch_ms(job, ids)
            #  The server learns what the store is like; then the time counts.
            time.sleep(options.seconds / 2)
            before, delivered = store.sent("volume"), samples(options.binary, endpoint)
            gets = len(store.requests)
            time.sleep(options.seconds)
            came, taken = store.sent("volume") - before, samples(options.binary, endpoint) - delivered
            gets = len(store.requests) - gets
            job.terminate()
            job.wait()
        finally:
            server.terminate()
            server.wait()
    return Figures(came / options.seconds / MEGA, first_ms, gets / max(taken, 1))


def samples(binary: Path, endpoint: str) -> int:
    status = subprocess.run([binary, "status", "--connect", endpoint, "--json"], capture_output=True,
                            text=True)
    return int(json.loads(status.stdout)["delivered"])


def numbers(text: str) -> List[float]:
    return [float(part) for part in text.split(",")]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--binary", type=Path, default=ROOT / "build/release/bin/tureen")
    parser.add_argument("--latency", type=numbers, default=[1, 10, 55])
    parser.add_argument("--rate", type=numbers, default=[50, 200])
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--raw", default="64M")
    return parser.parse_args()


def main() -> int:
    options = parse()
    folder = Path(tempfile.mkdtemp(prefix="store-bench-", dir="/dev/shm"))
    try:
        (folder / "bucket").mkdir()
        subprocess.run([options.binary, "pack", "--quiet", options.data, folder / "bucket/pack"], check=True,
                       stdout=subprocess.DEVNULL)
        print("| latency | link | held | of it | first batch | GETs a sample |\n" + "| --- " * 6 + "|")
        for latency in options.latency:
            for rate in options.rate:
                found = run(options, folder, latency, rate)
                share = f"{found.link / rate:.2f}" if rate else ""
                link = f"{rate:g} MB/s" if rate else "no limit"
                cells = [f"{latency:g} ms", link, f"{found.link:.0f} MB/s", share, f"{found.first_ms:.0f} ms",
                         f"{found.gets:.2f}"]
                print(f"| {' | '.join(cells)} |", flush=True)
    except BenchError as error:
        print(f"store_bench: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

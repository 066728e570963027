#!/usr/bin/env python3
"""A folder that is kept on a disk with a latency (late_disk.py), beside a pack on that disk: files a second.

    python3 bench/speed/late_bench.py [--milliseconds 1] [--samples 4000] [--rounds 3] [--jobs 1]
                                      [--binary build/release/bin/tureen] [--other build/before/bin/tureen]

The folder, of files of 110,000 bytes, is in memory (/dev/shm); the cache of the local disk (--disk)
and the pack are on the disk with the latency.  Samples are delivered as their bytes, undecoded.  Before each
epoch what is on the disk leaves the page cache, as if it were larger than memory.  There are

    kept            a server of the folder, after the epoch that fills the cache: all comes from the late disk
    pack, singly    a server of the pack, sample by sample (--tier train=direct)
    pack            the same in pieces

Printed are medians over rounds of samples a second, and of the server's processor time for a sample.
--other: the same with another build's server, in turn.  Needs root.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict, List, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

from kept_bench import forget                                           # noqa: E402
from late_disk import LateDisk                                          # noqa: E402
from memory_bench import ROOT, Server                                   # noqa: E402

FILE_BYTES, EPOCHS, BATCH = 110000, 2, 64
PIPELINE = f'[{{"op": "decode", "as": "bytes", "length": {FILE_BYTES}}}]'


class Epoch(NamedTuple):
    rate: float                         # samples a second
    cpu: float                          # seconds of the server's, for a sample


def make_folder(folder: Path, samples: int) -> None:
    chance = random.Random(7)
    picture = chance.randbytes(FILE_BYTES - 16)
    for number in range(samples):
        path = folder / f"class-{number % 10}" / f"{number:07}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture + chance.randbytes(16))        # no two are equal


def read(options: argparse.Namespace, server: Server) -> Epoch:
    """An epoch of one job, or of some in step."""
    used, began = server.processor_seconds(), time.monotonic()
    command = [options.binary, "read", "--connect", server.endpoint, "--dataset", "train", "--batch",
               str(BATCH), "--epochs", "1", "--pipeline", PIPELINE]
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(options.jobs)]
    if any([job.wait() for job in running]):
        raise SystemExit("late_bench: a job failed")
    seconds = time.monotonic() - began
    return Epoch(options.samples / seconds, (server.processor_seconds() - used) / options.samples)


def measure(options: argparse.Namespace, data: Path, near: Path, arguments: List[str]) -> List[Epoch]:
    epochs = []
    with Server(options, str(data), ["--cache", "32M", *arguments]) as server:
        read(options, server)           # fills the cache, and shows the server what reads cost
        for _ in range(EPOCHS):
            os.sync()                   # what is not on the disk yet cannot leave the page cache
            forget(near)
            epochs.append(read(options, server))
    return epochs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--binary", default=str(ROOT / "build" / "release" / "bin" / "tureen"))
    parser.add_argument("--other")
    parser.add_argument("--milliseconds", type=float, default=1.0)
    parser.add_argument("--samples", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    binaries = {"": os.path.abspath(options.binary)}
    if options.other:
        binaries["other: "] = os.path.abspath(options.other)
    measured: Dict[str, List[Epoch]] = {}
    with tempfile.TemporaryDirectory(prefix="tureen-far-", dir="/dev/shm") as far, \
            tempfile.TemporaryDirectory(prefix="tureen-near-") as folder, \
            LateDisk(Path(folder), (options.samples * FILE_BYTES * 3 >> 20 << 20) + (1 << 28),
                     options.milliseconds / 1000):
        near = Path(folder)
        make_folder(Path(far), options.samples)
        subprocess.run([binaries[""], "pack", "--quiet", far, str(near / "pack")], check=True)
        for _ in range(options.rounds):
            for build, binary in binaries.items():
                options.binary = binary
                cache = near / "cache"
                kept = ["--disk", f"{cache}=100G", "--keep", "train=yes", "--tier", "train=direct"]
                for name, data, arguments in (("kept", Path(far), kept),
                                              ("pack, singly", near / "pack", ["--tier", "train=direct"]),
                                              ("pack", near / "pack", [])):
                    measured.setdefault(build + name, []).extend(measure(options, data, near, arguments))
                shutil.rmtree(cache)
    print(f"{options.samples} samples, {options.milliseconds:g} ms, {options.jobs} jobs; medians of "
          f"{options.rounds} rounds\n\n{'':22}{'samples/s':>10}{'processor':>14}")
    for name, epochs in measured.items():
        rate, cpu = (statistics.median(values) for values in zip(*epochs))
        print(f"{name:22}{rate:10.0f}{cpu * 1e6:11.0f} us")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

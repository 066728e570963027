#!/usr/bin/env python3
"""A folder on a slow disk, kept on the local disk (--disk): live servers, one after the other.

    python3 bench/speed/kept_bench.py --far DIR --near DIR [--reads 200] [--slow near]
                                      [--binary build/release/bin/tureen] [--samples 3000] [--rounds 3]

The benchmark makes its data, photographs by their size and their cost to decode, in --far; --near should
lie on another disk.  --reads: a control group lets the servers read so many times a second of --far's device
(cgroup v1, root); before each round the files leave the page cache.  In each round there are

    far         a server of the folder, without a cache: its first epoch, from the disk
    kept        a server of the folder, with a cache in --near: its first epoch, and those after it
    again       a second server with that cache, which reads it in pieces
    singles     the same, sample by sample (--tier train=direct)
    pack        a server of a pack of the data in --near

--slow near: the device of --near is limited instead, and its files leave the page cache before each epoch, as
if the data were larger than the memory.  --raw: bytes for mixing, by default an eighth of the data.
--piece: samples of a piece, where a limit makes the device look better than it is (docs/disk.md).

Printed are medians over rounds of samples a second, of processor time for a sample relative to far's, and of
bytes read of the folder, of those of the data.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

from memory_bench import BATCH, ROOT, SECONDS
from PIL import Image, ImageFilter

GROUP = Path("/sys/fs/cgroup/blkio")
EPOCHS = 3                              # after the first


class Epochs(NamedTuple):
    rate: float                         # samples a second
    cpu: float                          # of the server, for a sample
    read: float                         # of the folder, an epoch


def make_folder(folder: Path, samples: int) -> None:
    """About 110,000 bytes each, 500 x 375, the same in each run."""
    chance, pictures = random.Random(7), []
    for _ in range(16):
        picture = Image.frombytes("RGB", (500, 375), chance.randbytes(500 * 375 * 3))
        memory = io.BytesIO()
        picture.filter(ImageFilter.GaussianBlur(0.9)).save(memory, "JPEG", quality=92)
        pictures.append(memory.getvalue())
    for number in range(samples):
        path = folder / f"class-{number % 10}" / f"{number:07}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pictures[number % 16] + chance.randbytes(64))      # no two are equal
    os.sync()


def forget(folder: Path) -> None:
    """The files leave the page cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def status(options: argparse.Namespace, endpoint: str) -> Dict[str, Any]:
    said = subprocess.run([options.binary, "status", "--json", "--connect", endpoint], check=True,
                          stdout=subprocess.PIPE).stdout
    return json.loads(said)["datasets"][0]


def processor_seconds(process: int) -> float:
    """Of all its threads, also of those that have ended."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run_jobs(options: argparse.Namespace, endpoint: str, jobs: int, epochs: int) -> float:
    """Their seconds."""
    began = time.monotonic()
    command = [options.binary, "read", "--connect", endpoint, "--dataset", "train", "--batch", str(BATCH),
               "--epochs", str(epochs)]
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(jobs)]
    if any([job.wait() for job in running]):
        raise SystemExit("kept_bench: a job failed")
    return time.monotonic() - began


class Limit:
    """Reads a second of the folder's device, for processes that enter."""

    def __init__(self, folder: Path, reads: Optional[int]) -> None:
        self.group = GROUP / f"tureen-kept-{os.getpid()}" if reads else None
        if self.group:
            device = os.stat(folder).st_dev
            #  Of a partition the whole device is limited.
            block = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
            number = (block.parent if (block / "partition").exists() else block) / "dev"
            self.group.mkdir()
            limit = self.group / "blkio.throttle.read_iops_device"
            limit.write_text(f"{number.read_text().strip()} {reads}")

    def enter(self) -> None:
        if self.group:
            (self.group / "cgroup.procs").write_text(str(os.getpid()))

    def end(self) -> None:
        if self.group:
            self.group.rmdir()


class Served:
    """A server, and its epochs."""

    def __init__(self, options: argparse.Namespace, data: Path, arguments: List[str], limit: Limit) -> None:
        self.options, self.place = options, Path(tempfile.mkdtemp(prefix="tureen-kept-"))
        self.endpoint, log = f"ipc://{self.place}/s.sock", self.place / "log"
        with log.open("w") as stream:
            self.process = subprocess.Popen([
                options.binary, "serve", "--dataset", f"train={data}", "--listen", self.endpoint, "--cache",
                "32M", "--raw", str(options.raw), *arguments], stdout=stream, stderr=subprocess.STDOUT,
                preexec_fn=limit.enter,
                env=dict(os.environ, XDG_RUNTIME_DIR=str(self.place)))
        end = time.monotonic() + SECONDS
        while "listening on" not in log.read_text():
            if self.process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"kept_bench: the server does not start:\n{log.read_text()}")
            time.sleep(0.05)

    def read(self, epochs: int) -> Epochs:
        objects = status(self.options, self.endpoint)["objects"] or {"source_bytes": 0}
        used = processor_seconds(self.process.pid)
        seconds = run_jobs(self.options, self.endpoint, 1, epochs)
        samples = epochs * self.options.samples
        after = status(self.options, self.endpoint)["objects"] or {"source_bytes": 0}
        return Epochs(samples / seconds, (processor_seconds(self.process.pid) - used) / samples,
                      (after["source_bytes"] - objects["source_bytes"]) / epochs)

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.place)


def one_round(options: argparse.Namespace, far: Path, near: Path, limit: Limit) -> Iterator[tuple]:
    cache = near / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    kept = ["--disk", f"{cache}=100G", "--keep", "train=yes"]
    singles = [*kept, "--tier", "train=direct"]
    piece = ["--piece", f"train={options.piece}"] if options.piece else []
    kept = [*kept, *piece]
    for name, data, arguments, first in (("far", far, [], "first"), ("kept", far, kept, "first"),
                                         ("again", far, kept, ""), ("singles", far, singles, ""),
                                         ("pack", near / "pack", piece, "")):
        forget(far)
        served = Served(options, data, arguments, limit)
        if first:
            yield f"{name}, the first epoch", served.read(1)
        else:
            served.read(1)              # what a server learns in its first epoch
        for _ in range(EPOCHS if options.slow == "near" and name != "far" else 0):
            forget(near)
            yield f"{name}, later epochs" if first else name, served.read(1)
        if options.slow == "far" and name != "far":
            yield f"{name}, later epochs" if first else name, served.read(EPOCHS)
        served.end()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--binary", default=str(ROOT / "build" / "release" / "bin" / "tureen"))
    parser.add_argument("--far", required=True)
    parser.add_argument("--near", required=True)
    parser.add_argument("--reads", type=int)
    parser.add_argument("--slow", choices=("far", "near"), default="far")
    parser.add_argument("--raw", type=int)
    parser.add_argument("--piece", type=int)
    parser.add_argument("--samples", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    options.binary = os.path.abspath(options.binary)
    with tempfile.TemporaryDirectory(prefix="tureen-far-", dir=options.far) as far_name, \
            tempfile.TemporaryDirectory(prefix="tureen-near-", dir=options.near) as near_name:
        far, near = Path(far_name), Path(near_name)
        make_folder(far, options.samples)
        size = sum(path.stat().st_size for path in far.rglob("*.jpg"))
        subprocess.run([options.binary, "pack", "--quiet", str(far), str(near / "pack")], check=True)
        options.raw = options.raw or max(size // 8, 8 << 20)
        limit = Limit(far if options.slow == "far" else near, options.reads)
        rounds: Dict[str, List[Epochs]] = {}
        try:
            for _ in range(options.rounds):
                for name, epochs in one_round(options, far, near, limit):
                    rounds.setdefault(name, []).append(epochs)
        finally:
            limit.end()
    print(f"{options.samples} samples, {size / 1e6:.0f} MB; medians of {options.rounds} rounds\n")
    print(f"{'':26}{'samples/s':>10}{'processor':>11}{'read of the folder':>20}")
    base = statistics.median(epochs.cpu for epochs in rounds["far, the first epoch"])
    for name, measured in rounds.items():
        cpu = statistics.median(epochs.cpu / base for epochs in measured)
        read = statistics.median(epochs.read for epochs in measured) / size
        print(f"{name:26}{statistics.median(epochs.rate for epochs in measured):10.0f}{cpu:11.3f}"
              f"{'all' if name.startswith('far') else '' if name == 'pack' else f'{read:.3f}':>20}")
    rate = {name: [epochs.rate for epochs in measured] for name, measured in rounds.items()}
    for name in ("kept, later epochs", "again", "singles"):
        of_pack = statistics.median(kept / pack for kept, pack in zip(rate[name], rate["pack"]))
        print(f"{name}: {of_pack:.3f} of the speed of the pack")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

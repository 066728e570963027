#!/usr/bin/env python3
"""What an epoch reads with --memory for a part of the data: live servers, a pack and a folder, one job and
four in step.

    python3 bench/speed/memory_bench.py [--binary build/release/bin/tureen] [--samples 9000] [--bytes 110000]
                                        [--parts .25,.5,.75,.9] [--epochs 3] [--folder DIR]

The benchmark makes its data: small pictures, which cost little to decode, with bytes behind them that make
each file as large as a photograph.  DIR has them, and should lie on a disk, not in memory.  For each part c
a server has --memory of c times the data.  The first epoch fills; of the others there is

    p       what `status` says is pinned, of the data S
    read    bytes from the disk an epoch, of S
    ideal   1 - p
    hit     bytes from pins an epoch, of S
    cpu     the server's processor time for a sample, of that of a server without --memory (c = 0) with the
            same mixing pool
    speed   the same of samples a second

c = 0 is that server; what it reads beyond S are blocks at the ends of pieces, and single reads.  Of a folder
without pins there is no count of bytes read: each file is read once an epoch.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Tuple

from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
CLASSES, BATCH, PICTURE = 10, 64, (96, 96)
JOBS = (1, 4)
SECONDS = 60.0                          # until a server listens


class Round(NamedTuple):
    pinned: float
    read: float
    hit: float
    cpu: float
    rate: float


def make_folder(folder: Path, samples: int, size: int) -> None:
    """Makes files of pictures, each of about this number of bytes, the same in each run."""
    chance, pictures = random.Random(7), []
    for _ in range(16):
        memory = io.BytesIO()
        Image.frombytes("RGB", PICTURE, chance.randbytes(PICTURE[0] * PICTURE[1] * 3)).save(memory, "JPEG")
        pictures.append(memory.getvalue())
    for number in range(samples):
        path = folder / f"class-{number % CLASSES}" / f"{number:07}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        bytes_of = pictures[number % len(pictures)]
        wanted = int(size * chance.uniform(0.6, 1.4)) - len(bytes_of)
        path.write_bytes(bytes_of + chance.randbytes(max(wanted, 0)))


def status(options: argparse.Namespace, endpoint: str) -> Dict[str, Any]:
    said = subprocess.run([options.binary, "status", "--json", "--connect", endpoint], check=True,
                          stdout=subprocess.PIPE).stdout
    return json.loads(said)["datasets"][0]


def counts(dataset: Dict[str, Any]) -> Tuple[int, int]:
    """Bytes from the disk and from pins so far."""
    pins = dataset["pins"] or {"hit_bytes": 0, "miss_bytes": 0}
    return dataset["pack"]["source_bytes"] if dataset["pack"] else pins["miss_bytes"], pins["hit_bytes"]


def processor_seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def run_jobs(options: argparse.Namespace, endpoint: str, jobs: int, epochs: int) -> float:
    """Their seconds."""
    began = time.monotonic()
    command = [options.binary, "read", "--connect", endpoint, "--dataset", "train", "--batch", str(BATCH),
               "--epochs", str(epochs)]
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(jobs)]
    failed = [job.wait() for job in running]
    if any(failed):
        raise SystemExit("memory_bench: a job failed")
    return time.monotonic() - began


def measure(options: argparse.Namespace, data: Path, size: int, arguments: List[str], jobs: int) -> Round:
    with tempfile.TemporaryDirectory(prefix="tureen-memory-") as folder:
        endpoint, log = f"ipc://{folder}/s.sock", Path(folder) / "log"
        with log.open("w") as stream:
            server = subprocess.Popen([options.binary, "serve", "--dataset", f"train={data}", "--listen",
                                       endpoint, *arguments], stdout=stream, stderr=subprocess.STDOUT,
                                      env=dict(os.environ, XDG_RUNTIME_DIR=folder))
        try:
            end = time.monotonic() + SECONDS
            while "listening on" not in log.read_text():
                if server.poll() is not None or time.monotonic() > end:
                    raise SystemExit(f"memory_bench: the server does not start:\n{log.read_text()}")
                time.sleep(0.05)
            run_jobs(options, endpoint, jobs, 1)
            before, used = counts(status(options, endpoint)), processor_seconds(server.pid)
            seconds = run_jobs(options, endpoint, jobs, options.epochs)
            used = processor_seconds(server.pid) - used
            dataset = status(options, endpoint)
        finally:
            server.terminate()
            server.wait()
    read, hit = ((after - first) / options.epochs / size for after, first in zip(counts(dataset), before))
    pinned = dataset["pins"]["bytes"] / size if dataset["pins"] else 0.0
    samples = jobs * options.epochs * options.samples
    return Round(pinned, read, hit, used / samples, samples / seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--binary", default=str(ROOT / "build" / "release" / "bin" / "tureen"))
    parser.add_argument("--samples", type=int, default=9000)
    parser.add_argument("--bytes", type=int, default=110000)
    parser.add_argument("--parts", default=".25,.5,.75,.9")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--folder", help="where the data are made, and stay")
    options = parser.parse_args()
    options.binary = os.path.abspath(options.binary)
    with tempfile.TemporaryDirectory(prefix="tureen-memory-", dir=options.folder and "/tmp") as made:
        root = Path(options.folder or made)
        folder, pack = root / "folder", root / "pack"
        if not folder.exists():
            make_folder(folder, options.samples, options.bytes)
        if not pack.exists():
            subprocess.run([options.binary, "pack", "--quiet", str(folder), str(pack)], check=True)
        for name, data in (("pack", pack), ("folder", folder)):
            size = sum(path.stat().st_size for path in data.rglob("*") if path.name != "index.tureen"
                       and path.is_file())
            print(f"{name} of {size / 1e6:.0f} MB, {options.samples} samples")
            print("jobs     c      p   read  ideal    hit    cpu  speed")
            for jobs in JOBS:
                raw = max(size // 50, 16 << 20)
                without = measure(options, data, size, ["--raw", str(raw), "--cache", str(max(size // 40,
                                                                                          16 << 20))], jobs)
                print(f"{jobs:4}  0.00      -  {without.read:5.3f}      -      -  1.000  1.000")
                for part in map(float, options.parts.split(",")):
                    now = measure(options, data, size, ["--memory", str(int(part * size))], jobs)
                    figures = (now.pinned, now.read, 1 - now.pinned, now.hit, now.cpu / without.cpu,
                               now.rate / without.rate)
                    print(f"{jobs:4} {part:5.2f}" + "".join(f"  {figure:5.3f}" for figure in figures),
                          flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

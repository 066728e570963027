#!/usr/bin/env python3
"""`tureen pack` with an object store: how much of the link it holds, as its target and as its source.

    python3 bench/speed/pack_store_bench.py --data DIR [--binary build/release/bin/tureen] [--latency 1,55]
                                            [--rate 0,50,100] [--copies 10] [--volume 128M]

DIR is an ImageFolder of JPEGs; so many copies of it are packed, in /dev/shm.  The store is the one of the
tests, on this machine, with signatures and checksums, a delay of LATENCY milliseconds before each answer and
RATE megabytes a second for all requests together; 0: no limit.

    to          megabytes of samples a second, from a folder to the store
    from        the same, from four tar files in the store to a folder
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Dict

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "system"))

from object_store import ObjectStore                                    # noqa: E402

MEGA = 1e6
SHARDS = 4


def make_data(options: argparse.Namespace, folder: Path) -> int:
    """The copies as class folders and as tar files; their bytes."""
    size = 0
    pictures = [path for path in sorted(Path(options.data).rglob("*")) if path.suffix.lower() in (".jpg",
                                                                                               ".jpeg")]
    shards = [tarfile.open(folder / "bucket" / f"{number}.tar", "w") for number in range(SHARDS)]
    for copy in range(options.copies):
        target = folder / "data" / f"class_{copy}"
        target.mkdir(parents=True)
        for number, path in enumerate(pictures):
            name = f"{copy:03}-{number:06}.jpg"
            shutil.copyfile(path, target / name)
            shards[number % SHARDS].add(path, arcname=name)
            size += path.stat().st_size
    for shard in shards:
        shard.close()
    if not size:
        raise SystemExit(f"pack_store_bench: there is no JPEG below {options.data}")
    return size


def seconds(options: argparse.Namespace, environment: Dict[str, str], *arguments: str) -> float:
    began = time.monotonic()
    subprocess.run([options.binary, "pack", "--quiet", "--volume", options.volume, *arguments],
                   env=environment, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - began


def measure(options: argparse.Namespace, folder: Path, latency: float, rate: float, size: int) -> None:
    with ObjectStore(str(folder), keys={"key": "secret"}, latency=latency / 1000,
                     rate=rate * MEGA if rate else None) as store:
        environment = dict(os.environ, **store.environment("key"))
        to_store = seconds(options, environment, "--work", str(folder / "work"), str(folder / "data"),
                           "s3://bucket/pack")
        shutil.rmtree(folder / "bucket" / "pack")
        from_store = seconds(options, environment, "s3://bucket/{0..%d}.tar" % (SHARDS - 1),
                             str(folder / "pack"))
        shutil.rmtree(folder / "pack")
    print(f"{latency:7g} {rate:6g} {size / MEGA / to_store:8.0f} {size / MEGA / from_store:8.0f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--binary", default=str(ROOT / "build" / "release" / "bin" / "tureen"))
    parser.add_argument("--latency", default="1,55")
    parser.add_argument("--rate", default="0,50,100")
    parser.add_argument("--copies", type=int, default=10)
    parser.add_argument("--volume", default="128M")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tureen-", dir="/dev/shm"))
    try:
        (folder / "bucket").mkdir()
        size = make_data(options, folder)
        alone = seconds(options, dict(os.environ), str(folder / "data"), str(folder / "pack"))
        shutil.rmtree(folder / "pack")
        print(f"{size / MEGA:.0f} MB; from folder to folder {size / MEGA / alone:.0f} MB/s\n"
              "latency   rate       to     from")
        for latency in map(float, options.latency.split(",")):
            for rate in map(float, options.rate.split(",")):
                measure(options, folder, latency, rate, size)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A pack in an object store: how much of the link a server holds, and how soon the first batch comes.

    python3 bench/speed/store_bench.py --data DIR [--binary build/release/bin/tureen] [--latency 1,10,55]
                                       [--rate 50,200,0] [--seconds 8] [--raw 64M] [--batch 256]
                                       [--cached 0,0.5,1.1] [--cache-folder DIR] [--rounds 1]
                                       [--svg FILE]

DIR is an ImageFolder of JPEGs; it is packed into /dev/shm.  The store is the one of the tests (S3's GET, with
signatures) on this machine, with a delay of LATENCY milliseconds before each answer and RATE megabytes a
second for all answers together; 0: no limit.  One job of `tureen read` takes random crops.  With --cached
the server has a cache on the local disk, in a new folder below --cache-folder, of such a part of the pack;
the time counts when an epoch has filled it.  Each figure is the median of the rounds.  --svg draws the held
part of each limited link into FILE.

    link        bytes of samples that came a second, to what the link gives
    first       milliseconds from the job's start to its first batch, the server running
    GETs        for each delivered sample
    samples     delivered a second
    local disk  megabytes that came from there a second

At the end: the processor time of `tureen verify` for each gigabyte of the pack, from the store without delay
or limit and from the folder, which takes the checksums alone.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Tuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "system"))

import bar_drawing                                                      # noqa: E402
from object_store import ObjectStore                                    # noqa: E402
from serve_bench import BenchError, await_server                        # noqa: E402

MEGA = 1e6


class Figures(NamedTuple):
    link: float                 # megabytes a second
    first_ms: float
    gets: float
    samples: float
    local: float                # megabytes a second


def first_batch_ms(job: subprocess.Popen, ids: Path) -> float:
    """Until the file of its samples' ids has some."""
    began = time.monotonic()
    while not ids.exists() or ids.stat().st_size == 0:
        if job.poll() is not None:
            raise BenchError("the job ended")
        time.sleep(0.001)
    return (time.monotonic() - began) * 1000


def cache_arguments(cache: Path, pack: Path, part: float) -> List[str]:
    size = sum(path.stat().st_size for path in pack.glob("volume-*"))
    return ["--disk", f"{cache}={int(part * size)}"] if part else []


def await_epoch(binary: Path, endpoint: str) -> None:
    page = status(binary, endpoint)
    while page["delivered"] < page["datasets"][0]["samples"]:
        time.sleep(0.1)
        page = status(binary, endpoint)


def run(options: argparse.Namespace, folder: Path, latency: float, rate: float, part: float) -> Figures:
    with tempfile.TemporaryDirectory(dir=options.cache_folder) as cache, \
            ObjectStore(str(folder), keys={"key": "secret"}, latency=latency / 1000,
                        rate=rate * MEGA if rate else None) as store:
        arguments = cache_arguments(Path(cache) / "blocks", folder / "bucket/pack", part)
        endpoint = f"ipc://{folder}/socket"
        server = subprocess.Popen(
            [options.binary, "serve", "--dataset", "train=s3://bucket/pack", "--listen", endpoint, "--cache",
             "64M", "--raw", options.raw, *arguments], env=dict(os.environ, **store.environment("key")),
            stdout=subprocess.DEVNULL)
        try:
            await_server(server, endpoint, options.binary)
            ids = folder / "ids"
            ids.unlink(missing_ok=True)
            command = [options.binary, "read", "--connect", endpoint, "--dataset", "train",
                       "--batch", str(options.batch), "--epochs", "0", "--ids", ids]
            job = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            first_ms = first_batch_ms(job, ids)
            #  The server learns what the store is like; then the time counts.
            time.sleep(options.seconds / 2)
            if part:
                await_epoch(options.binary, endpoint)
            before, gets = store.sent("volume"), len(store.requests)
            first = status(options.binary, endpoint)
            time.sleep(options.seconds)
            came, gets = store.sent("volume") - before, len(store.requests) - gets
            last = status(options.binary, endpoint)
            taken = last["delivered"] - first["delivered"]
            local = sum(sign * page["datasets"][0]["pack"]["block_cache_bytes"]
                        for sign, page in ((1, last), (-1, first)))
            job.terminate()
            job.wait()
        finally:
            server.terminate()
            server.wait()
    return Figures(came / options.seconds / MEGA, first_ms, gets / max(taken, 1), taken / options.seconds,
                   local / options.seconds / MEGA)


#  Latency, link and cached part of a run, and what was found.
Rows = List[Tuple[float, float, float, Figures]]


def measure(options: argparse.Namespace, folder: Path) -> Rows:
    """Prints each row of the table when it is there."""
    rows = []
    for latency, rate, part in itertools.product(options.latency, options.rate, options.cached):
        rounds = [run(options, folder, latency, rate, part) for _ in range(options.rounds)]
        found = Figures(*map(statistics.median, zip(*rounds)))
        share = f"{found.link / rate:.2f}" if rate else ""
        link = f"{rate:g} MB/s" if rate else "no limit"
        cells = [f"{latency:g} ms", link, f"{part:g}", f"{found.link:.0f} MB/s", share,
                 f"{found.first_ms:.0f} ms", f"{found.gets:.2f}", f"{found.samples:.0f}",
                 f"{found.local:.0f} MB/s"]
        print(f"| {' | '.join(cells)} |", flush=True)
        rows.append((latency, rate, part, found))
    return rows


def picture(rows: Rows, raw: str) -> str:
    """An SVG: the held part of the link, a group for each limited link."""
    groups: Dict[float, bar_drawing.Group] = {}
    for latency, rate, part, found in rows:
        if rate:
            heading = f"A link of {rate:g} MB/s: the part that is held"
            group = groups.setdefault(rate, bar_drawing.Group(heading, []))
            share = found.link / rate
            title = f"{latency:g} ms" + (f", {part:g} cached" if part else "")
            group.bars.append(bar_drawing.Bar(title, share, f"{share:.2f}", True))
    return bar_drawing.draw(list(groups.values()), f"bench/speed/store_bench.py --raw {raw}, "
                            f"{datetime.date.today().isoformat()}; by the delay before each answer", full=1.0)


def verify_seconds(options: argparse.Namespace, folder: Path, address: str) -> float:
    """Of the processor, for a gigabyte."""
    size = sum(path.stat().st_size for path in (folder / "bucket/pack").iterdir())
    with ObjectStore(str(folder), keys={"key": "secret"}) as store:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([options.binary, "verify", address], check=True, stdout=subprocess.DEVNULL,
                       env=dict(os.environ, **store.environment("key")))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / size * 1e9


def status(binary: Path, endpoint: str) -> Dict[str, Any]:
    page = subprocess.run([binary, "status", "--connect", endpoint, "--json"], capture_output=True,
                          text=True)
    return json.loads(page.stdout)


def numbers(text: str) -> List[float]:
    return [float(part) for part in text.split(",")]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--binary", type=Path, default=ROOT / "build/release/bin/tureen")
    parser.add_argument("--latency", type=numbers, default=[1, 10, 55])
    parser.add_argument("--rate", type=numbers, default=[50, 200, 0])
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--raw", default="64M")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--cached", type=numbers, default=[0])
    parser.add_argument("--cache-folder", default=None)
    parser.add_argument("--svg", type=Path)
    options = parser.parse_args()
    if options.svg and not any(options.rate):
        parser.error("--svg draws parts of limited links: give --rate a limit")
    return options


def main() -> int:
    options = parse()
    folder = Path(tempfile.mkdtemp(prefix="store-bench-", dir="/dev/shm"))
    try:
        (folder / "bucket").mkdir()
        subprocess.run([options.binary, "pack", "--quiet", options.data, folder / "bucket/pack"], check=True,
                       stdout=subprocess.DEVNULL)
        print("| latency | link | cached | held | of it | first batch | GETs a sample | samples/s | "
              "local disk |\n" + "| --- " * 9 + "|")
        rows = measure(options, folder)
        if options.svg:
            options.svg.write_text(picture(rows, options.raw))
        takes = [statistics.median(verify_seconds(options, folder, address) for _ in range(5))
                 for address in ("s3://bucket/pack", str(folder / "bucket/pack"))]
        print(f"\nverify: {takes[0]:.2f} s of the processor for a GB from the store, {takes[1]:.2f} s from "
              "the folder")
    except BenchError as error:
        print(f"store_bench: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

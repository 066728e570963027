"""Beside other loaders on a bucket: samples a second of 1 and 4 training jobs, and what the store sent.

    build/peers/bin/python bench/peers/bucket.py --data DIR [--jobs 1,4] [--rounds 3] [--seconds 6]
                                                 [--latency 10] [--rate 0]

The object store is the one of the tests (S3's GET with signatures) on this machine: it waits LATENCY
milliseconds before each answer, and sends RATE megabytes a second in all (0: no limit).  DIR is an
ImageFolder of JPEGs; it is copied to /dev/shm, which is the bucket.  How a figure is found is as in peers.py;
in brackets is how many times as many as PyTorch's with boto3.  `MB sent` is what the store sent in a run, the
jobs' first epoch included.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, NamedTuple

from peer import Settings, photographs
from peer_run import PeerError, prepare, rate

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "system"))

from object_store import ObjectStore                                    # noqa: E402

#  By module: the title, and whether the jobs share a server.
PEERS = {
    "boto3": ("PyTorch DataLoader, boto3, objects", False),
    "mosaicml_bucket": ("MosaicML Streaming, all kept on the local disk", False),
    "tureen_objects": ("Tureen, objects", True),
    "tureen_bucket": ("Tureen, pack", True),
}


class Figure(NamedTuple):
    samples: float              # a second
    sent: float                 # megabytes that the store sent, the jobs' first epoch included


#  By peer, then by number of jobs, round by round.
Figures = Dict[str, Dict[int, List[Figure]]]


def measure(options: argparse.Namespace, directory: Path, store: ObjectStore) -> Figures:
    found: Figures = {name: {jobs: [] for jobs in options.jobs} for name in PEERS}
    processors = len(os.sched_getaffinity(0))

    def settings(name: str, jobs: int) -> Settings:
        return Settings(str(directory / "bucket/photographs"), str(directory / "bucket" / name),
                        str(options.binary), jobs, max(1, -(-processors // jobs)), processors, 0)
    for name in PEERS:
        prepare(name, settings(name, 1))
    for turn in range(options.rounds):
        for jobs in options.jobs:
            for name, (title, has_server) in PEERS.items():
                before = store.sent()
                samples = rate(name, settings(name, jobs), has_server, options.seconds)
                figure = Figure(samples, (store.sent() - before) / 1e6)
                found[name][jobs].append(figure)
                print(f"round {turn + 1}, {jobs} jobs, {title}: {samples:.0f}/s, {figure.sent:.0f} MB sent",
                      file=sys.stderr, flush=True)
    return found


def table(found: Figures, jobs: List[int]) -> List[str]:
    lines = ["| | " + " | ".join(f"{count} job{'s' * (count > 1)} | MB sent" for count in jobs) + " |",
             "| --- |" + " --- | --- |" * len(jobs)]
    for name, (title, _) in PEERS.items():
        cells = []
        for count in jobs:
            pairs = list(zip(found[name][count], found["boto3"][count]))
            factor = statistics.median(own.samples / other.samples for own, other in pairs)
            cells.append(f"{statistics.median(own.samples for own, _ in pairs):,.0f} ({factor:.1f} x)")
            cells.append(f"{statistics.median(own.sent for own, _ in pairs):,.0f}")
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return lines


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--binary", type=Path, default=ROOT / "build/release/bin/tureen")
    parser.add_argument("--jobs", type=lambda text: [int(part) for part in text.split(",")], default=[1, 4])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--latency", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=0.0)
    options = parser.parse_args()
    if not options.data.is_dir():
        parser.error(f"no folder '{options.data}'")
    return options


def main() -> int:
    options = parse()
    directory = Path(tempfile.mkdtemp(prefix="bucket-", dir="/dev/shm"))
    try:
        shutil.copytree(options.data, directory / "bucket/photographs")
        count = len(photographs(Settings(str(directory / "bucket/photographs"), "", "", 0, 0, 0, 0)))
        with ObjectStore(str(directory), keys={"key": "secret"}, latency=options.latency / 1000,
                         rate=options.rate * 1e6 or None) as store:
            os.environ.update(store.environment("key"), S3_ENDPOINT_URL=store.url, AWS_REGION="us-east-1",
                              AWS_DEFAULT_REGION="us-east-1")
            found = measure(options, directory, store)
    except PeerError as error:
        print(f"bucket: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(f"samples a second of all jobs on {count} photographs, {len(os.sched_getaffinity(0))} processors, "
          f"{options.latency:g} ms:\n")
    print("\n".join(table(found, options.jobs)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

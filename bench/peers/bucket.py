"""Beside other loaders on a bucket: samples a second of 1 and 4 training jobs, and what the store sent.

    build/peers/bin/python bench/peers/bucket.py --data DIR [--jobs 1,4] [--rounds 3] [--seconds 6]
                                                 [--latency 10] [--rate 0]

The object store is the one of the tests (S3's GET with signatures) on this machine: it waits LATENCY
milliseconds before each answer, and sends RATE megabytes a second in all (0: no limit).  DIR is an
ImageFolder of JPEGs; it is copied to /dev/shm, which is the bucket.  How a figure is found is as in peers.py;
in brackets is how many times as many as PyTorch's with boto3.  `MB sent` is what the store sent in a run, the
jobs' first epoch included.  A peer that mounts the bucket is left out, with the reason, where its program,
/dev/fuse or fusermount is missing; one that fails is named with its error.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional

import peer_mount
from peer import Settings, photographs
from peer_run import PeerError, prepare, rate

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "system"))

from object_store import ObjectStore                                    # noqa: E402

class Peer(NamedTuple):
    title: str
    has_server: bool            # which the jobs share
    mounts_with: Optional[str] = None       # the program that mounts the bucket


#  By module, after peer_.
PEERS = {
    "boto3": Peer("PyTorch DataLoader, boto3, objects", False),
    "s3fs": Peer("PyTorch DataLoader, s3fs mount, objects", True, "s3fs"),
    "rclone": Peer("PyTorch DataLoader, rclone mount, objects", True, "rclone"),
    "mosaicml_bucket": Peer("MosaicML Streaming, all kept on the local disk", False),
    "tureen_objects": Peer("Tureen, objects", True),
    "tureen_bucket": Peer("Tureen, pack", True),
}


class Figure(NamedTuple):
    samples: float              # a second
    sent: float                 # megabytes that the store sent, the jobs' first epoch included


#  By peer, then by number of jobs, round by round.
Figures = Dict[str, Dict[int, List[Figure]]]


class Found(NamedTuple):
    figures: Figures
    errors: Dict[str, str]      # by peer and number of jobs, as they are shown


def measure(options: argparse.Namespace, directory: Path, store: ObjectStore) -> Found:
    found = Found({name: {jobs: [] for jobs in options.jobs} for name in PEERS}, {})
    processors = len(os.sched_getaffinity(0))

    def settings(name: str, jobs: int) -> Settings:
        #  A mount is no part of the bucket that it shows.
        own = directory / ("mounts" if PEERS[name].mounts_with else "bucket") / name
        return Settings(str(directory / "bucket/photographs"), str(own), str(options.binary), jobs,
                        max(1, -(-processors // jobs)), processors, 0)
    able = []
    for name, peer in PEERS.items():
        try:
            reason = peer_mount.missing(peer.mounts_with) if peer.mounts_with else None
            if reason:
                raise PeerError(f"left out, {reason}")
            prepare(name, settings(name, 1))
            able.append(name)
        except PeerError as error:
            found.errors[peer.title] = str(error)
    for turn in range(options.rounds):
        for jobs in options.jobs:
            for name in able:
                peer, before = PEERS[name], store.sent()
                key = f"{peer.title}, {jobs} jobs"
                if key in found.errors:
                    continue
                try:
                    samples = rate(name, settings(name, jobs), peer.has_server, options.seconds)
                    figure = Figure(samples, (store.sent() - before) / 1e6)
                    found.figures[name][jobs].append(figure)
                    said = f"{samples:.0f}/s, {figure.sent:.0f} MB sent"
                except PeerError as error:
                    found.figures[name][jobs].clear()
                    found.errors[key] = said = str(error)
                print(f"round {turn + 1}, {jobs} jobs, {peer.title}: {said}", file=sys.stderr, flush=True)
    return found


def table(figures: Figures, jobs: List[int]) -> List[str]:
    lines = ["| | " + " | ".join(f"{count} job{'s' * (count > 1)} | MB sent" for count in jobs) + " |",
             "| --- |" + " --- | --- |" * len(jobs)]
    for name, peer in PEERS.items():
        cells = []
        for count in jobs:
            own, others = figures[name][count], figures["boto3"][count]
            factors = [one.samples / other.samples for one, other in zip(own, others)]
            cells += [f"{statistics.median(one.samples for one in own):,.0f}"
                      + (f" ({statistics.median(factors):.1f} x)" if factors and name != "boto3" else ""),
                      f"{statistics.median(one.sent for one in own):,.0f}"] if own else ["no figure", ""]
        lines.append(f"| {peer.title} | " + " | ".join(cells) + " |")
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
    #  A bench that is ended still unmounts, ends its peers and removes its folder.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    directory = Path(tempfile.mkdtemp(prefix="bucket-", dir="/dev/shm"))
    try:
        shutil.copytree(options.data, directory / "bucket/photographs")
        count = len(photographs(Settings(str(directory / "bucket/photographs"), "", "", 0, 0, 0, 0)))
        with ObjectStore(str(directory), keys={"key": "secret"}, latency=options.latency / 1000,
                         rate=options.rate * 1e6 or None) as store:
            os.environ.update(store.environment("key"), S3_ENDPOINT_URL=store.url, AWS_REGION="us-east-1",
                              AWS_DEFAULT_REGION="us-east-1")
            found = measure(options, directory, store)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(f"samples a second of all jobs on {count} photographs, {len(os.sched_getaffinity(0))} processors, "
          f"{options.latency:g} ms:\n")
    print("\n".join(table(found.figures, options.jobs)))
    for what, error in found.errors.items():
        print(f"{what}: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

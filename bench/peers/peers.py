"""Beside other loaders: samples a second of 1, 4 and 8 training jobs, each peer on the same photographs.

    sh bench/peers/run.sh --data DIR [--jobs 1,4,8] [--rounds 3] [--seconds 6] [--only NAME,...]
                          [--recipe crop|randaugment] [--json FILE] [--svg FILE]

DIR is an ImageFolder of JPEGs.  It is copied to /dev/shm, so that no disk is measured, and each peer writes
it there in its own format from the same bytes.  The peers take turns; a figure is the median of the rounds, a
ratio the median of the ratios within a round.  The jobs read no pixels.  `randaugment` has torchvision's
RandAugment behind crop and flip; peers without one are left out.  A peer that cannot be installed or
fails is named with its error.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional

from peer import Settings
from peer_drawing import draw
from peer_run import PeerError, prepare, rate

ROOT = Path(__file__).resolve().parents[2]


class Peer(NamedTuple):
    name: str                   # of the module, after peer_
    title: str
    package: str                # the Python package that it cannot do without
    has_server: bool = False
    has_randaugment: bool = True


PEERS = [
    Peer("tureen", "Tureen, folder", "torchvision", True),
    Peer("tureen_pack", "Tureen, pack", "torchvision", True),
    Peer("pytorch", "PyTorch DataLoader", "torchvision"),
    Peer("webdataset", "WebDataset", "webdataset"),
    Peer("mosaicml", "MosaicML Streaming", "streaming"),
    Peer("ffcv", "FFCV, same bytes", "ffcv", has_randaugment=False),
    Peer("tfdata", "tf.data service", "tensorflow", True, has_randaugment=False),
    Peer("tensorsocket", "TensorSocket", "tensorsocket", True),
]

#  By peer's name, then by number of jobs: samples a second, round by round.
Rates = Dict[str, Dict[int, List[float]]]


class Found(NamedTuple):
    rates: Rates
    errors: Dict[str, str]      # by peer and number of jobs, as they are shown


def measure(options: argparse.Namespace, peers: List[Peer], directory: Path) -> Found:
    found = Found({peer.name: {jobs: [] for jobs in options.jobs} for peer in peers}, {})
    processors = len(os.sched_getaffinity(0))

    def settings(peer: Peer, jobs: int) -> Settings:
        return Settings(str(directory / "photographs"), str(directory / peer.name), str(options.binary), jobs,
                        max(1, -(-processors // jobs)), processors, 0, recipe=options.recipe)
    able = []
    for peer in peers:
        try:
            if options.recipe == "randaugment" and not peer.has_randaugment:
                raise PeerError("it has no RandAugment")
            if importlib.util.find_spec(peer.package) is None:
                raise PeerError(f"the package {peer.package} could not be installed")
            prepare(peer.name, settings(peer, 1))
            able.append(peer)
        except PeerError as error:
            found.errors[peer.title] = str(error)
    for turn in range(options.rounds):
        for jobs in options.jobs:
            for peer in able:
                key = f"{peer.title}, {jobs} jobs"
                if key in found.errors:
                    continue
                try:
                    value = rate(peer.name, settings(peer, jobs), peer.has_server, options.seconds)
                    found.rates[peer.name][jobs].append(value)
                    said = f"{value:.0f}/s"
                except PeerError as error:
                    found.rates[peer.name][jobs].clear()
                    found.errors[key] = said = str(error)
                print(f"round {turn + 1}, {jobs} jobs, {peer.title}: {said}", file=sys.stderr, flush=True)
    return found


def ratio(rates: Rates, over: str, under: str, jobs: int) -> Optional[float]:
    pairs = list(zip(rates.get(over, {}).get(jobs, []), rates.get(under, {}).get(jobs, [])))
    return statistics.median(a / b for a, b in pairs) if pairs else None


def table(found: Found, peers: List[Peer], jobs: List[int]) -> List[str]:
    """Markdown: samples a second, and in brackets how many times as many Tureen on a folder gives."""
    lines = ["| | " + " | ".join(f"{count} job{'s' * (count > 1)}" for count in jobs) + " |",
             "| --- |" + " --- |" * len(jobs)]
    for peer in peers:
        cells = []
        for count in jobs:
            rates = found.rates[peer.name][count]
            factor = ratio(found.rates, "tureen", peer.name, count)
            text = f"{statistics.median(rates):,.0f}" if rates else "failed"
            cells.append(text + (f" ({factor:.1f} x)" if factor and peer.name != "tureen" else ""))
        lines.append(f"| {peer.title} | " + " | ".join(cells) + " |")
    return lines


#   ---- the program

def numbers(text: str) -> List[int]:
    values = [int(part) for part in text.split(",")]
    if any(value < 1 for value in values):
        raise argparse.ArgumentTypeError("numbers of jobs are at least 1")
    return values


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--binary", type=Path, default=ROOT / "build/release/bin/tureen")
    parser.add_argument("--jobs", type=numbers, default=[1, 4, 8])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--recipe", choices=("crop", "randaugment"), default="crop")
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--svg", type=Path)
    options = parser.parse_args()
    if not options.data.is_dir():
        parser.error(f"no folder '{options.data}'")
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("--rounds is at least 1, --seconds more than 0")
    options.only = options.only.split(",") if options.only else [peer.name for peer in PEERS]
    unknown = set(options.only) - {peer.name for peer in PEERS}
    if unknown:
        parser.error(f"no peer {', '.join(unknown)}; there are {', '.join(peer.name for peer in PEERS)}")
    return options


def main() -> int:
    options = parse()
    #  What clears away does so then as well; a shell's background job begins with SIGINT ignored.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    peers = [peer for peer in PEERS if peer.name in options.only]
    directory = Path(tempfile.mkdtemp(prefix="peers-", dir="/dev/shm"))
    try:
        shutil.copytree(options.data, directory / "photographs")
        found = measure(options, peers, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    date = datetime.date.today().isoformat()
    processors = len(os.sched_getaffinity(0))
    print(f"samples a second of all jobs, recipe {options.recipe}, {processors} processors, {date}:\n")
    print("\n".join(table(found, peers, options.jobs)))
    for what, error in found.errors.items():
        print(f"{what}: {error}")
    if options.json:
        options.json.write_text(json.dumps({"date": date, **found._asdict()}, indent=1) + "\n")
    if options.svg:
        rows = [(peer.title, [found.rates[peer.name][jobs] for jobs in options.jobs]) for peer in peers]
        options.svg.write_text(draw(rows, options.jobs, date))
    return 0


if __name__ == "__main__":
    sys.exit(main())

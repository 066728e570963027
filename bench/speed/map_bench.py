#!/usr/bin/env python3
"""What map= costs by itself: processor time of an identity at a fixed rate, of the client and its processes
together, beside the same loop without it.

    python3 bench/speed/map_bench.py [--bin build/release/bin] [--rounds 5] [--seconds 8] [--rate 1000]

Samples are 224 x 224 pixels of three bytes.  The loop takes a batch of 64 at its time and looks at nothing.
Rounds take turns; the cost is the difference within a round, as a part of one core.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import math
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "clients" / "python"))

import tureen                           # noqa: E402
from client_bench import make_images, stop      # noqa: E402

BATCH = 64
WARM_S = 1.5
GOAL = 0.03
PIPELINE: List[Dict[str, Any]] = [{"op": "resize", "size": [224, 224]}, {"share": True}]


def identity(sample: Any) -> Any:
    return sample


CASES: Dict[str, Dict[str, Any]] = {
    "without": {},
    "map, in the loop": {"map": identity},
    "map, 1 process": {"map": identity, "map_workers": 1},
    "map, 2 processes": {"map": identity, "map_workers": 2},
    "map, 4 processes": {"map": identity, "map_workers": 4},
    "map_batch, 2 processes": {"map_batch": identity, "map_workers": 2},
}


def numpy_batches(endpoint: str, options: Dict[str, Any]) -> Iterator[Any]:
    loader = tureen.Loader(endpoint, "bench", BATCH, pipeline=PIPELINE, order="list", **options)
    with contextlib.closing(loader):
        for batch in loader:
            yield loader, batch["image"]


def torch_batches(endpoint: str, options: Dict[str, Any]) -> Iterator[Any]:
    import tureen.torch
    loader = tureen.torch.DataLoader("bench", BATCH, endpoint=endpoint, transform=PIPELINE, **options)
    with contextlib.closing(loader):
        for images, _ in loader.infinite():
            yield loader, images


LOADERS = {"tureen.Loader": numpy_batches}
if importlib.util.find_spec("torch"):
    LOADERS["tureen.torch.DataLoader"] = torch_batches


def spent_s(loader: Any) -> float:
    """Processor time of this process and of those that the loader has started."""
    total = time.process_time()
    for pid in [] if loader._mapper is None else loader._mapper.pids():
        total += int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) * 1e-9
    return total


def measure(source: Iterator[Any], rate: float, seconds: float) -> Tuple[float, float]:
    """(part of a core, samples a second)."""
    due = time.monotonic()
    begin = math.inf
    began, cpu, samples = 0.0, 0.0, 0
    for loader, images in source:
        now = time.monotonic()
        if begin == math.inf and (loader._mapper is None or loader._mapper.ready()):
            begin = now + WARM_S        # to start a process is work too
        if not began and now >= begin:
            began, cpu, samples = now, spent_s(loader), 0
        elif began and now >= began + seconds:
            return (spent_s(loader) - cpu) / (now - began), samples / (now - began)
        samples += len(images)
        due = max(due + len(images) / rate, now - 0.2)      # after a delay it catches up, but for little
        del images
        time.sleep(max(0.0, due - time.monotonic()))
    raise AssertionError("the loader has no end")


def main() -> int:
    parser = argparse.ArgumentParser(description="processor time that map= costs by itself")
    parser.add_argument("--bin", type=Path, default=ROOT / "build" / "release" / "bin",
                        help="where `tureen` is")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--loader", choices=LOADERS, help="this one only")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement")
    parser.add_argument("--rate", type=float, default=1000.0, help="samples a second")
    parser.add_argument("--json", type=Path, metavar="FILE", help="writes all rounds there")
    options = parser.parse_args()
    if shutil.which("tureen", path=str(options.bin)) is None:
        parser.error(f"no executable 'tureen' in {options.bin}: build it (sh scripts/build.sh release) or "
                     "say --bin")
    folder = Path(tempfile.mkdtemp(prefix="tureen-bench-", dir="/tmp"))
    loaders = {name: batches for name, batches in LOADERS.items() if options.loader in (None, name)}
    found: Dict[str, Dict[str, List[float]]] = {name: {case: [] for case in CASES} for name in loaders}
    try:
        make_images(folder / "data", 192)
        os.environ["TUREEN_SERVER"] = str(options.bin / "tureen")
        server = tureen.serve({"bench": folder / "data"}, endpoint=f"ipc://{folder}/s.sock", cache="256M",
                              workers=2)
        try:
            for number in range(options.rounds):
                for name, batches in loaders.items():
                    for case, arguments in CASES.items():
                        source = batches(server.endpoint, arguments)
                        cores, rate = measure(source, options.rate, options.seconds)
                        source.close()          # type: ignore[attr-defined]
                        found[name][case].append(cores)
                        if rate < 0.97 * options.rate:
                            print(f"{name}, {case}: only {rate:.0f} samples a second", file=sys.stderr)
                print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
        finally:
            stop(server)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report(found, options.rate)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


def report(found: Dict[str, Dict[str, List[float]]], rate: float) -> None:
    print(f"of one core, at {rate:.0f} samples a second; medians of rounds")
    for name, cases in found.items():
        for case, rounds in cases.items():
            more = sorted(with_it - without for with_it, without in zip(rounds, cases["without"]))
            line = f"{name:<25}{case:<25}{100 * statistics.median(rounds):6.2f} %"
            if case != "without":
                kept = "kept" if statistics.median(more) <= GOAL else "MISSED"
                line += (f"   more: {100 * statistics.median(more):5.2f} % ({100 * more[0]:.2f} to "
                         f"{100 * more[-1]:.2f})   goal: at most {100 * GOAL:.0f} %: {kept}")
            print(line)


if __name__ == "__main__":
    sys.exit(main())

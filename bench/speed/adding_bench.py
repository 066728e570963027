#!/usr/bin/env python3
"""What data sets that are added to a running server, and removed, cost its jobs: how long their batches take.

    python3 bench/speed/adding_bench.py --data DIR [--binary build/release/bin/tureen] [--jobs 8]
                                        [--files 20000] [--seconds 10] [--rounds 5]

All jobs take samples at a steady rate that leaves the workers time; the quantiles are how long the batches of
one of them took.  Rounds of three spans:
- nothing is added;
- a folder of --files pictures and a pack of --data are added to another server, which has no jobs, each in
  turn, and removed as soon as it is there: what the jobs lose to the processors that this takes;
- the same at the server of the jobs: what they lose in the server beside it.
"""
from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict, List, Sequence, Tuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "clients" / "python"))

import tureen                           # noqa: E402

WARM_SECONDS, STEP_SECONDS, BATCH = 5.0, 0.02, 16
CLASSES = 20                            # of the folder
PARTS = (("half", 0.5), ("95 %", 0.95), ("99 %", 0.99))


def link_folder(data: Path, folder: Path, files: int) -> None:
    """Makes so many symbolic links to the pictures, in folders of classes."""
    pictures = sorted(path for path in data.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    for number, picture in zip(range(files), itertools.cycle(pictures)):
        name = folder / f"class-{number % CLASSES:02}" / f"{number:08}.jpg"
        name.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(picture.resolve(), name)


def change(binary: str, endpoint: str, paths: Sequence[str], seconds: float) -> None:
    """Adds and removes for so long; prints the seconds that each adding took.  In a process of its own: a
    process that starts others holds up its threads, and so the job that is measured."""
    end = time.monotonic() + seconds
    for path in itertools.cycle(paths):
        began = time.monotonic()
        if began > end:
            return
        subprocess.run([binary, "add", f"extra={path}", "--connect", endpoint], check=True,
                       stdout=subprocess.DEVNULL)
        print(time.monotonic() - began, flush=True)
        subprocess.run([binary, "remove", "extra", "--connect", endpoint], check=True,
                       stdout=subprocess.DEVNULL)


def span(batches: "tureen.loader.BatchIterator", seconds: float) -> List[float]:
    """How long each batch took."""
    took, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        at = time.monotonic()
        next(batches)
        took.append(time.monotonic() - at)
        time.sleep(STEP_SECONDS)
    return took


def span_beside_changes(batches: "tureen.loader.BatchIterator", options: argparse.Namespace, endpoint: str,
                        paths: Sequence[str]) -> Tuple[List[float], List[float]]:
    """How long each batch took, and each adding."""
    with subprocess.Popen(
            [sys.executable, __file__, "--seconds", str(options.seconds), "--binary", options.binary,
             "--change", endpoint, *paths], stdout=subprocess.PIPE, universal_newlines=True) as changer:
        took = span(batches, options.seconds)
        return took, [float(line) for line in changer.communicate()[0].split()]


def quantile(times: Sequence[float], part: float) -> float:
    return sorted(times)[int(part * len(times))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data")
    parser.add_argument("--change", nargs="+", help=argparse.SUPPRESS)      # endpoint, paths
    parser.add_argument("--binary", default=str(ROOT / "build" / "release" / "bin" / "tureen"))
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--rate", type=float, default=50, help="samples a second of each other job")
    parser.add_argument("--files", type=int, default=20000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if options.change:
        change(options.binary, options.change[0], options.change[1:], options.seconds)
        return 0
    if not options.data:
        parser.error("--data DIR is missing: a folder of pictures in class folders")
    took: Dict[str, List[float]] = {"nothing is added": [], "added elsewhere": [], "added here": []}
    added: List[float] = []
    with tempfile.TemporaryDirectory(prefix="tureen-adding-") as folder:
        endpoint, elsewhere, processes = f"ipc://{folder}/s.sock", f"ipc://{folder}/e.sock", []
        environment = dict(os.environ, XDG_RUNTIME_DIR=folder)
        paths = [f"{folder}/linked", f"{folder}/pack"]
        link_folder(Path(options.data), Path(paths[0]), options.files)
        subprocess.run([options.binary, "pack", options.data, paths[1]], check=True,
                       stdout=subprocess.DEVNULL)
        try:
            for listen in (endpoint, elsewhere):
                processes.append(subprocess.Popen(
                    [options.binary, "serve", "--dataset", f"train={options.data}", "--listen", listen,
                     "--cache", "256M"], env=environment, stdout=subprocess.DEVNULL))
            for _ in range(options.jobs - 1):
                processes.append(subprocess.Popen(
                    [options.binary, "read", "--connect", endpoint, "--dataset", "train", "--epochs", "0",
                     "--batch", str(BATCH), "--rate", str(options.rate)], env=environment,
                    stdout=subprocess.DEVNULL))
            with tureen.Loader(endpoint, "train", BATCH, epochs=None, timeout=60) as loader:
                batches = iter(loader)
                span(batches, WARM_SECONDS)
                for _ in range(options.rounds):
                    took["nothing is added"] += span(batches, options.seconds)
                    for name, listens in (("added elsewhere", elsewhere), ("added here", endpoint)):
                        batch_times, add_times = span_beside_changes(batches, options, listens, paths)
                        took[name] += batch_times
                        added += add_times if listens == endpoint else []
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait()
    print(f"{len(added)} times a data set was added to the server of {options.jobs} jobs, in "
          f"{statistics.median(added):.2f} s (median), and removed")
    for name, times in took.items():
        print(f"{name}: {len(times)} batches, in ms " +
              ", ".join(f"{label} {1000 * quantile(times, part):.2f}" for label, part in PARTS))
    for label, part in PARTS:
        here, there = quantile(took["added here"], part), quantile(took["added elsewhere"], part)
        print(f"{label}: {here / there:.2f} times what adding elsewhere costs")
    return 0


if __name__ == "__main__":
    sys.exit(main())

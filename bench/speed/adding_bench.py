#!/usr/bin/env python3
"""What data sets that are added to a running server, and removed, cost its jobs: how long their batches take.

    python3 bench/speed/adding_bench.py --data DIR [--binary build/release/bin/tureen] [--jobs 8]
                                        [--files 20000] [--seconds 10] [--pairs 5]

All jobs take samples at a steady rate that leaves the workers time; the quantiles are how long the batches of
one of them took.  Pairs of spans, one after the other: in the second span of a pair a folder of --files
pictures and a pack of --data are added, each in turn, and removed as soon as it is there.
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
from typing import List, Sequence

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "clients" / "python"))

import tureen                           # noqa: E402

WARM_SECONDS, STEP_SECONDS, BATCH = 5.0, 0.02, 16
CLASSES = 20                            # of the folder


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
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    if options.change:
        change(options.binary, options.change[0], options.change[1:], options.seconds)
        return 0
    if not options.data:
        parser.error("--data DIR is missing: a folder of pictures in class folders")
    quiet: List[float] = []
    changed: List[float] = []
    added: List[float] = []
    with tempfile.TemporaryDirectory(prefix="tureen-adding-") as folder:
        endpoint, processes = f"ipc://{folder}/s.sock", []
        environment = dict(os.environ, XDG_RUNTIME_DIR=folder)
        link_folder(Path(options.data), Path(folder, "linked"), options.files)
        subprocess.run([options.binary, "pack", options.data, f"{folder}/pack"], check=True,
                       stdout=subprocess.DEVNULL)
        try:
            processes.append(subprocess.Popen(
                [options.binary, "serve", "--dataset", f"train={options.data}", "--listen", endpoint,
                 "--cache", "256M"], env=environment, stdout=subprocess.DEVNULL))
            for _ in range(options.jobs - 1):
                processes.append(subprocess.Popen(
                    [options.binary, "read", "--connect", endpoint, "--dataset", "train", "--epochs", "0",
                     "--batch", str(BATCH), "--rate", str(options.rate)], env=environment,
                    stdout=subprocess.DEVNULL))
            with tureen.Loader(endpoint, "train", BATCH, epochs=None, timeout=60) as loader:
                batches = iter(loader)
                span(batches, WARM_SECONDS)
                for _ in range(options.pairs):
                    quiet += span(batches, options.seconds)
                    with subprocess.Popen(
                            [sys.executable, __file__, "--seconds", str(options.seconds), "--binary",
                             options.binary, "--change", endpoint, f"{folder}/linked", f"{folder}/pack"],
                            stdout=subprocess.PIPE, universal_newlines=True) as changer:
                        changed += span(batches, options.seconds)
                        lines = changer.communicate()[0].split()
                    added += [float(line) for line in lines]
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait()
    print(f"{len(added)} times a data set was added, in {statistics.median(added):.2f} s (median), and "
          f"removed, while {options.jobs} jobs ran")
    for name, part in (("half", 0.5), ("95 %", 0.95), ("99 %", 0.99)):
        before, during = quantile(quiet, part), quantile(changed, part)
        print(f"{name} of {len(quiet)} and {len(changed)} batches came within {1000 * before:.2f} ms without "
              f"and {1000 * during:.2f} ms with: {during / before:.2f} times")
    return 0


if __name__ == "__main__":
    sys.exit(main())

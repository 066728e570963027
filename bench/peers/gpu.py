"""Batches to a GPU: from Tureen's pinned ring, through PyTorch's pinned copy, and from PyTorch's own loader.

    build/peers/bin/python bench/peers/gpu.py --data DIR [--jobs 1,4] [--rounds 3] [--steps 300]
                                              [--compute-ms 4] [--device cuda] [--json FILE]

(`sh bench/peers/run.sh` makes build/peers.)  DIR is an ImageFolder of JPEGs, copied to /dev/shm.  All pictures
are resized alike each epoch and stay in the server's cache, so that what is measured is their way to the
device.  Four ways take turns, each with 1 and with 4 jobs on one device:

    ring        tureen.torch.DataLoader (device="cuda"): copied straight from the pinned ring
    pinned      Tureen's batches through tensor.pin_memory ().to ("cuda", non_blocking=True)
    pageable    Tureen's batches through tensor.to ("cuda")
    pytorch     PyTorch's DataLoader (pin_memory=True) on pictures that are prepared already

Without compute, a figure is gigabytes a second of all jobs together.  With --compute-ms of work on the device
in each step, it is the time of a step to that of a step on a batch that is on the device already: 1.00 means
that loading hides behind compute.  Every picture of an epoch is compared with its copy on the host first.
`--device cpu` tries the program out where there is no GPU; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, Tuple

import torch

from gpu_job import BATCH, MATRIX, SIDE, WAYS, Compute, Way, seconds_of
from peer import READY, Settings, photographs
from peer_run import PeerError, Process, cleared
from peers import numbers

ROOT = Path(__file__).resolve().parents[2]
JOB_S = 300.0
BATCH_GB = BATCH * SIDE * SIDE * 3 / 1e9

#  By way, number of jobs, and whether there is compute: the figures of the rounds.
Figures = Dict[Tuple[str, int, bool], List[float]]


def copy_whole_batches(source: Path, target: Path) -> None:
    """As many pictures as fill batches."""
    files = sorted(path for path in source.glob("*/*") if path.is_file())
    if len(files) < BATCH:
        raise PeerError(f"'{source}' has {len(files)} pictures, a batch {BATCH}")
    for path in files[:len(files) // BATCH * BATCH]:
        folder = target / path.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder)


def products_for(milliseconds: float, device: str) -> int:
    """Of matrices: about so much work for the device."""
    tried = 50
    compute = Compute(Way("", device, 1, tried))
    images = torch.zeros(BATCH, 3, SIDE, SIDE, dtype=torch.uint8, device=device)

    def batches():
        while True:
            yield images, images
    seconds_of(3, batches(), compute)
    return max(1, round(tried * milliseconds / 1000 / (seconds_of(5, batches(), compute) / 5)))


def measure(settings: Settings, way: Way) -> float:
    """Gigabytes a second, or with compute the ratio of the steps' times."""
    processes: List[Process] = []
    logs = Path(settings.directory)
    with cleared():
        try:
            processes.append(Process("tureen", "serve", settings, logs / "serve.log"))
            processes[0].await_line(READY, JOB_S)
            jobs = [Process("tureen", str(job), settings, logs / f"{job}.log", "gpu_job.py",
                            json.dumps(way._asdict())) for job in range(settings.jobs)]
            processes += jobs
            for job in jobs:
                job.await_line(READY, JOB_S)
            for job in jobs:
                job.tell()
            found = [json.loads(job.await_line("{", JOB_S)) for job in jobs]
        finally:
            for process in processes:
                process.kill()
    wrong = sum(job["different"] for job in found)
    if wrong:
        raise PeerError(f"{way.name}: {wrong} pictures on the device are not what the host has")
    if way.products:
        return statistics.mean(job["loaded_s"] for job in found) / \
            statistics.mean(job["resident_s"] for job in found)
    return sum(way.steps * BATCH_GB / job["loaded_s"] for job in found)


def table(figures: Figures, jobs: List[int]) -> List[str]:
    heads = [f"{count} job{'s' * (count > 1)}, {what}" for what in ("GB/s", "step to step on the device")
             for count in jobs]
    lines = ["| | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(heads)]
    for name in WAYS:
        cells = [f"{statistics.median(figures[name, count, computes]):.2f}"
                 for computes in (False, True) for count in jobs]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--binary", type=Path, default=ROOT / "build/release/bin/tureen")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--jobs", type=numbers, default=[1, 4])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--compute-ms", type=float, default=4.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if not options.data.is_dir():
        parser.error(f"no folder '{options.data}'")
    if options.rounds < 1 or options.steps < 1 or options.compute_ms <= 0:
        parser.error("--rounds and --steps are at least 1, --compute-ms more than 0")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch finds no CUDA device here (--device cpu tries the program out)")
    return options


def main() -> int:
    options = parse()
    directory = Path(tempfile.mkdtemp(prefix="peers-", dir="/dev/shm"))
    figures: Figures = {}
    try:
        copy_whole_batches(options.data, directory / "photographs")
        processors = len(os.sched_getaffinity(0))
        settings = Settings(str(directory / "photographs"), str(directory / "work"), str(options.binary),
                            1, processors, processors, 0)
        count = len(photographs(settings))
        os.makedirs(settings.directory)
        products = products_for(options.compute_ms, options.device)
        print(f"{count} pictures; a step's compute: {products} products of {MATRIX} x {MATRIX}",
              file=sys.stderr, flush=True)
        for turn in range(options.rounds):
            for jobs in options.jobs:
                for computes in (False, True):
                    for name in WAYS:
                        way = Way(name, options.device, options.steps, products if computes else 0)
                        value = measure(settings._replace(jobs=jobs), way)
                        figures.setdefault((name, jobs, computes), []).append(value)
                        print(f"round {turn + 1}, {jobs} jobs, {name}, "
                              f"{'compute' if computes else 'no compute'}: {value:.2f}", file=sys.stderr,
                              flush=True)
    except PeerError as error:
        print(f"gpu: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    where = torch.cuda.get_device_name() if options.device == "cuda" else "no GPU"
    print(f"{where}, {processors} processors:\n")
    print("\n".join(table(figures, options.jobs)))
    if options.json:
        options.json.write_text(json.dumps([{"way": name, "jobs": jobs, "computes": computes, "rounds": values}
                                            for (name, jobs, computes), values in figures.items()],
                                           indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

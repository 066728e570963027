#!/usr/bin/env python3
"""What the whole server takes for a delivered sample: with libjpeg's own entropy decoder and with Tureen's,
from a folder and from a pack of it, for one job and for several equal ones.

    python3 bench/speed/serve_bench.py [--binary build/release/bin/tureen] [--data DIR] [--rounds 5]
                                       [--epochs 6] [--jobs 4] [--workers N]

DIR is an ImageFolder of JPEGs (without it: build/demo-data, which bench/demo.sh makes); it is copied to
/dev/shm, so that no disk is measured.  Each case is a server of its own with jobs of `tureen read`, which
look at nothing of the pixels.  The cases take turns; a ratio is the median over the rounds of that within a
round.  All runs on the same processors: the jobs' part of them is not the server's.

    rate        samples a second of all jobs together, by the wall's clock
    processor   milliseconds of the server, all its threads, for a delivered sample; of these the kernel's
    switches    of the server's threads, for a delivered sample

A delivered sample costs a part of a prepared one, and a delivery; both follow from the runs with one job and
with several.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple, Optional

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
BATCH = 32
SAMPLE_BYTES = 224 * 224 * 3
TICKS = os.sysconf("SC_CLK_TCK")


class Case(NamedTuple):
    name: str
    is_packed: bool
    is_plain: bool              # libjpeg's own entropy decoder
    jobs: int


class Figures(NamedTuple):
    rate: float
    processor_ms: float
    kernel_ms: float
    switches: float
    prepared: float             # a delivered sample


class BenchError(Exception):
    pass


#   ---- one run

def processor_s(process: int) -> tuple[float, float]:
    """Of user and kernel, since its start."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / TICKS, int(fields[12]) / TICKS


def switches(process: int) -> int:
    total = 0
    for status in Path(f"/proc/{process}/task").glob("*/status"):
        total += sum(int(line.split()[1]) for line in status.read_text().splitlines()
                     if "ctxt_switches" in line)
    return total


def await_server(server: subprocess.Popen, endpoint: str, binary: Path) -> None:
    for _ in range(200):
        if server.poll() is not None:
            raise BenchError(f"the server ended with {server.returncode}")
        if subprocess.run([binary, "status", "--connect", endpoint], capture_output=True).returncode == 0:
            return
        time.sleep(0.05)
    raise BenchError("the server does not answer")


def run_jobs(binary: Path, endpoint: str, jobs: int, epochs: int) -> float:
    """Seconds until the last one ends."""
    began = time.monotonic()
    running = [subprocess.Popen([binary, "read", "--connect", endpoint, "--dataset", "bench", "--batch",
                                 str(BATCH), "--epochs", str(epochs)], stdout=subprocess.DEVNULL)
               for _ in range(jobs)]
    if any([job.wait() for job in running]):
        raise BenchError("a job failed")
    return time.monotonic() - began


def measure(case: Case, options: argparse.Namespace, folders: Dict[bool, Path]) -> Figures:
    environment = dict(os.environ, TUREEN_JPEG="libjpeg" if case.is_plain else "")
    with tempfile.TemporaryDirectory(prefix="tureen-bench-") as directory:
        endpoint = f"ipc://{directory}/socket"
        with open(os.path.join(directory, "log"), "wb") as log:
            server = subprocess.Popen(
                [options.binary, "serve", "--dataset", f"bench={folders[case.is_packed]}", "--listen",
                 endpoint, "--cache", "64M", "--workers", str(options.workers)], env=environment, stdout=log)
        try:
            await_server(server, endpoint, options.binary)
            before, switched = processor_s(server.pid), switches(server.pid)
            seconds = run_jobs(options.binary, endpoint, case.jobs, options.epochs)
            after = processor_s(server.pid)
            switched = switches(server.pid) - switched
            status = json.loads(subprocess.run([options.binary, "status", "--connect", endpoint, "--json"],
                                               stdout=subprocess.PIPE, check=True).stdout)
        finally:
            server.terminate()
            server.wait()
    count = status["delivered"]
    user, kernel = (1e3 * (late - early) / count for early, late in zip(before, after))
    return Figures(count / seconds, user + kernel, kernel, switched / count, status["prepared"] / count)


def memcpy_ms() -> float:
    """A sample's pixels, from memory that is in no cache."""
    count = 512
    source = np.ones((count, SAMPLE_BYTES), np.uint8)
    target = np.zeros((count, SAMPLE_BYTES), np.uint8)
    took = []
    for _ in range(5):
        began = time.thread_time()
        for index in range(count):
            np.copyto(target[index], source[index])
        took.append(1e3 * (time.thread_time() - began) / count)
    return min(took)


#   ---- what comes of it

def delivery_ms(one: Figures, several: Figures) -> float:
    """The part of a delivered sample that does not depend on how many are prepared for it."""
    preparing = (one.processor_ms - several.processor_ms) / (one.prepared - several.prepared)
    return one.processor_ms - one.prepared * preparing


def median_of(rounds: List[Dict[str, Figures]], figure: Callable[[Dict[str, Figures]], float]) -> float:
    return statistics.median(figure(found) for found in rounds)


def report(cases: List[Case], rounds: List[Dict[str, Figures]], memcpy: List[float]) -> List[str]:
    lines = [f"{'':<34}{'rate':>8}{'processor':>12}{'kernel':>9}{'switches':>10}{'prepared':>10}"]
    for case in cases:
        found = [each[case.name] for each in rounds]
        rate, processor, kernel, switched, prepared = (statistics.median(column) for column in zip(*found))
        lines.append(f"{case.name:<34}{rate:>6.0f}/s{processor:>9.3f} ms{kernel / processor:>8.1%}"
                     f"{switched:>10.2f}{prepared:>10.2f}")
    several = cases[-1].jobs
    ratios = {
        "one job, folder, to libjpeg": lambda found:
            found["folder, one job"].rate / found["folder, libjpeg, one job"].rate,
        "one job, pack, to libjpeg": lambda found:
            found["pack, one job"].rate / found["pack, libjpeg, one job"].rate,
        f"{several} jobs to one, folder": lambda found:
            found[f"folder, {several} jobs"].rate / found["folder, one job"].rate,
        f"{several} jobs to one, folder, processor": lambda found:
            found["folder, one job"].processor_ms / found[f"folder, {several} jobs"].processor_ms,
        f"{several} jobs to one, pack, processor": lambda found:
            found["pack, one job"].processor_ms / found[f"pack, {several} jobs"].processor_ms,
    }
    lines.append("")
    lines += [f"{name:<44}{median_of(rounds, ratio):>6.2f}" for name, ratio in ratios.items()]
    for kind in ("folder", "pack"):
        costs = [delivery_ms(found[f"{kind}, one job"], found[f"{kind}, {several} jobs"]) for found in rounds]
        parts = statistics.median(cost / copy for cost, copy in zip(costs, memcpy))
        lines.append(f"a delivery, {kind}: {1e3 * statistics.median(costs):.0f} us, to memcpy of its "
                     f"{SAMPLE_BYTES} bytes{parts:>7.2f}")
    return lines


def make_cases(jobs: int) -> List[Case]:
    return [Case("folder, libjpeg, one job", False, True, 1), Case("folder, one job", False, False, 1),
            Case("pack, libjpeg, one job", True, True, 1), Case("pack, one job", True, False, 1),
            Case(f"folder, {jobs} jobs", False, False, jobs), Case(f"pack, {jobs} jobs", True, False, jobs)]


#   ---- the program

def parse(arguments: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=ROOT / "build/release/bin/tureen")
    parser.add_argument("--data", type=Path, default=ROOT / "build/demo-data")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    options = parser.parse_args(arguments)
    if not options.data.is_dir():
        parser.error(f"no folder '{options.data}': give --data, or run sh bench/demo.sh once")
    if options.rounds < 1 or options.epochs < 1 or options.jobs < 2:
        parser.error("rounds and epochs are at least 1, jobs at least 2")
    return options


def main() -> int:
    options = parse()
    directory = Path(tempfile.mkdtemp(prefix="tureen-bench-", dir="/dev/shm"))
    try:
        folders = {False: directory / "folder", True: directory / "pack"}
        shutil.copytree(options.data, folders[False])
        subprocess.run([options.binary, "pack", "--quiet", folders[False], folders[True]], check=True)
        cases, rounds, memcpy = make_cases(options.jobs), [], []
        for _ in range(options.rounds):
            memcpy.append(memcpy_ms())
            rounds.append({case.name: measure(case, options, folders) for case in cases})
        print("\n".join(report(cases, rounds, memcpy)))
    except (BenchError, subprocess.CalledProcessError, OSError) as error:
        print(f"serve_bench: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

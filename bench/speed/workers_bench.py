#!/usr/bin/env python3
"""What workers on other machines add: samples a second of a server with one core, and with w remote cores more.

    python3 bench/speed/workers_bench.py --data DIR [--binary build/release/bin/tureen] [--part 0.4]
                                         [--workers 0,1,2,3] [--seconds 8] [--rounds 3] [--nice 0]

DIR is an ImageFolder of photographs (bench/demo/make_photographs.py).  Each machine is a group of processes
that may use PART of a processor (a cgroup with a quota, so it takes root): one for the server with one
worker thread, one for each `tureen work --threads 1`.  The job that takes the batches is in none.  All talk
over tcp on this machine.  With --part 1 and --pin each is bound to a processor of its own instead, which
takes as many processors as machines.

The pipeline is `train`: nothing is prepared twice, and nothing is shared.  Each round measures all w, in
order; the ratio is that to w = 0 of the same round, over 1 + w: 1 is perfect.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable, Dict, List, Optional

ROOT = Path(__file__).resolve().parents[2]
PERIOD_US = 20000
WARM_SECONDS = 2.0


class Quota:
    """A cgroup of version 1 or 2 whose processes may together use a part of one processor."""

    def __init__(self, name: str, part: float) -> None:
        old, new = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
        self.folder = (old if old.is_dir() else new) / f"tureen-bench-{os.getpid()}-{name}"
        self.folder.mkdir()
        quota = int(part * PERIOD_US)
        if old.is_dir():
            (self.folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self.folder / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (self.folder / "cpu.max").write_text(f"{quota} {PERIOD_US}")

    def enter(self) -> None:
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self) -> None:
        for _ in range(100):
            try:
                self.folder.rmdir()
                return
            except OSError:
                time.sleep(0.05)


class Bench:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.folder = tempfile.mkdtemp(prefix="tureen-workers-")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.endpoint = "tcp://127.0.0.1:%d" % probe.getsockname()[1]
        self.processes: List[subprocess.Popen] = []
        self.quotas: List[Quota] = []
        self.machines = 0

    def start(self, *arguments: str, machine: bool = True) -> subprocess.Popen:
        number = self.machines
        quota: Optional[Quota] = None
        if machine and not self.options.pin:
            quota = Quota(str(number), self.options.part)
            self.quotas.append(quota)
        self.machines += machine

        def prepare() -> None:
            if self.options.nice:
                os.nice(self.options.nice)
            if quota:
                quota.enter()
            elif machine:
                os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[number]})

        log = open(os.path.join(self.folder, "log-%d" % len(self.processes)), "w")
        process = subprocess.Popen([self.options.binary, *arguments], stdout=log, stderr=subprocess.STDOUT,
                                   preexec_fn=prepare, env=dict(os.environ, XDG_RUNTIME_DIR=self.folder))
        self.processes.append(process)
        return process

    def status(self) -> Dict:
        result = subprocess.run([self.options.binary, "status", "--connect", self.endpoint, "--json"],
                                capture_output=True, text=True)
        return json.loads(result.stdout) if result.returncode == 0 else {}

    def wait(self, what: str, question: Callable[[], object]) -> None:
        for _ in range(600):
            if question():
                return
            time.sleep(0.1)
        raise SystemExit(f"workers_bench: not within a minute: {what}")

    def rate(self) -> float:
        time.sleep(WARM_SECONDS)
        before, began = self.status()["delivered"], time.monotonic()
        time.sleep(self.options.seconds)
        after, ended = self.status()["delivered"], time.monotonic()
        return (after - before) / (ended - began)

    def stop(self, processes: List[subprocess.Popen]) -> None:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            process.wait(20)

    def round(self, counts: List[int]) -> Dict[int, float]:
        """A server and its job; then workers come, one after the other."""
        self.machines = 0
        server = self.start("serve", "--dataset", f"train={self.options.data}", "--listen", self.endpoint,
                            "--open", "--workers", "1", "--cache", "256M")
        self.wait("the server answers", self.status)
        job = self.start("read", "--connect", self.endpoint, "--dataset", "train", "--batch", "64", "--epochs", "0",
                         "--slots", "8", machine=False)
        rates: Dict[int, float] = {}
        workers: List[subprocess.Popen] = []
        for count in counts:
            while len(workers) < count:
                workers.append(self.start("work", "--connect", self.endpoint, "--threads", "1"))
            self.wait("the workers work", lambda: sum(
                one["state"] == "working" for one in self.status()["remote_workers"]) == count)
            rates[count] = self.rate()
        self.stop([job])
        self.stop(workers)
        self.stop([server])
        self.processes.clear()
        for quota in self.quotas:
            quota.remove()
        self.quotas.clear()
        return rates

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        for quota in self.quotas:
            quota.remove()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--binary", default=str(ROOT / "build" / "release" / "bin" / "tureen"))
    parser.add_argument("--part", type=float, default=0.4)
    parser.add_argument("--pin", action="store_true")
    parser.add_argument("--workers", default="0,1,2,3")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nice", type=int, default=0)
    options = parser.parse_args()
    counts = sorted({0} | {int(text) for text in options.workers.split(",")})
    bench = Bench(options)
    rounds: List[Dict[int, float]] = []
    try:
        for _ in range(options.rounds):
            rounds.append(bench.round(counts))
            print("  ".join(f"w={count}: {rate:.0f}/s" for count, rate in rounds[-1].items()), flush=True)
    finally:
        bench.end()
    print("\n w   samples/s   ratio to w = 0   over 1 + w   (medians)")
    for count in counts:
        ratios = [one[count] / one[0] for one in rounds]
        ratio = statistics.median(ratios)
        print(f"{count:2}   {statistics.median(one[count] for one in rounds):9.0f}   {ratio:14.2f}   "
              f"{ratio / (1 + count):10.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""What workers on other machines add to a server with one core: samples a second with w remote cores.

    python3 bench/speed/workers_bench.py --data DIR [--binary build/release/bin/tureen] [--pin] [--read]
                                         [--job "--recipe train"] [--seconds 8] [--rounds 3]

DIR is an ImageFolder of photographs (bench/demo/make_photographs.py).  There are four machines, of half a
processor each: cgroups of equal weight, two on each of two processors, so it takes root.  One has the server,
with one worker thread; the others a `tureen work --threads 1`, or, while they lend nothing, a loop that
spins.  So all four always get the same.  (Quotas would stop a machine for tens of milliseconds at a time,
which no machine does.)  The job that takes the batches is in none of them.  All talk over tcp on this
machine.

With --read workers have the data, and are not sent the bytes.  With --pin there are two machines, of a whole
processor each, and w is 0 or 1.

Nothing is prepared twice, and nothing is shared.  Each round measures all w, in order; the ratio is that to
w = 0 of the same round, over 1 + w: 1 is perfect.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable, Dict, List

ROOT = Path(__file__).resolve().parents[2]
SHARES = 20480          # twenty times a usual process group's
SPIN = "while True:\n    pass\n"
WARM_SECONDS = 2.0


class Machine:
    """Half of a processor: a cgroup bound to a processor, which it shares with one other machine's."""

    def __init__(self, name: str, processor: int) -> None:
        old, new = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
        self.processor = processor
        self.folder = (old if old.is_dir() else new) / f"tureen-bench-{os.getpid()}-{name}"
        self.folder.mkdir()
        if old.is_dir():
            (self.folder / "cpu.shares").write_text(str(SHARES))
        else:
            (self.folder / "cpu.weight").write_text("10000")

    def enter(self) -> None:
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))
        os.sched_setaffinity(0, {self.processor})

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
        self.data = ["--dataset", f"train={options.data}"] if options.read else []
        self.processes: List[subprocess.Popen] = []
        self.machines: List[Machine] = []

    def run(self, command: List[str], number: int = -1) -> subprocess.Popen:
        """Starts a process, on the machine of that number unless it is negative."""
        machine = self.machines[number] if number >= 0 else None
        log = open(os.path.join(self.folder, "log-%d" % len(self.processes)), "w")
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT,
                                   preexec_fn=machine.enter if machine else None,
                                   env=dict(os.environ, XDG_RUNTIME_DIR=self.folder))
        self.processes.append(process)
        return process

    def spin(self, number: int) -> subprocess.Popen:
        return self.run([sys.executable, "-c", SPIN], number)

    def start(self, *arguments: str, number: int = -1) -> subprocess.Popen:
        return self.run([self.options.binary, *arguments], number)

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
        processors = sorted(os.sched_getaffinity(0))
        self.machines = [Machine(str(number), processors[number % 2]) for number in range(max(counts) + 1)]
        server = self.start("serve", "--dataset", f"train={self.options.data}", "--listen", self.endpoint,
                            "--open", "--workers", "1", "--cache", "256M", number=0)
        spinning = {number: self.spin(number) for number in range(1, max(counts) + 1)}
        self.wait("the server answers", self.status)
        job = self.start("read", "--connect", self.endpoint, "--dataset", "train", "--batch", "64",
                         "--epochs", "0", "--slots", "8", *self.options.job.split())
        rates: Dict[int, float] = {}
        workers: List[subprocess.Popen] = []
        for count in counts:
            while len(workers) < count:
                number = len(workers) + 1
                self.stop([spinning.pop(number)])
                workers.append(self.start("work", "--connect", self.endpoint, "--threads", "1",
                                          *self.data, number=number))
            self.wait("the workers work", lambda: sum(
                one["state"] == "working" for one in self.status()["remote_workers"]) == count)
            rates[count] = self.rate()
        self.stop([job, *workers, server])
        self.end()
        return rates

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        for machine in self.machines:
            machine.remove()
        self.processes, self.machines = [], []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--binary", default=str(ROOT / "build" / "release" / "bin" / "tureen"))
    parser.add_argument("--read", action="store_true", help="workers read the data by themselves")
    parser.add_argument("--pin", action="store_true")
    parser.add_argument("--job", default="--recipe train", help="what the job asks for, as of `tureen read`")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    counts = [0, 1] if options.pin else [0, 1, 2, 3]
    bench = Bench(options)
    rounds: List[Dict[int, float]] = []
    try:
        for _ in range(options.rounds):
            rounds.append(bench.round(counts))
            print("  ".join(f"w={count}: {rate:.0f}/s" for count, rate in rounds[-1].items()), flush=True)
    finally:
        bench.end()
        shutil.rmtree(bench.folder, ignore_errors=True)
    print("\n w   samples/s   ratio to w = 0   over 1 + w   (medians)")
    for count in counts:
        ratios = [one[count] / one[0] for one in rounds]
        ratio = statistics.median(ratios)
        print(f"{count:2}   {statistics.median(one[count] for one in rounds):9.0f}   {ratio:14.2f}   "
              f"{ratio / (1 + count):10.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""What a worker on a slow network does to a job: samples a second without it, and with it behind a link.

    python3 bench/speed/slow_worker_bench.py --data DIR [--binary build/release/bin/tureen] [--seconds 6]
                                             [--links 0.5 2 10 50]

DIR is an ImageFolder of photographs (bench/demo/make_photographs.py).  The server and the worker are on two
machines, as network namespaces (tests/system/network.py), so it takes root; links are in megabytes a second.
The server has one processor and one worker thread; the worker and the job that takes the batches have the
other one.  The ratio is that to the rate without a worker: a worker must not make it less.
"""
from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "system"))

from network import Network             # noqa: E402

SERVER, WORKER, PORT, CANNOT = "server", "worker", 5555, 77
WARM_SECONDS = 2.0


class Bench:
    def __init__(self, options: argparse.Namespace, network: Network, folder: Path) -> None:
        self._options, self._network, self._folder = options, network, folder
        self._endpoint = f"tcp://{network.address(SERVER)}:{PORT}"
        self._processes: List[subprocess.Popen[bytes]] = []
        for name, role in (("job", ["--tenant", "operator", "--operator"]), ("lender", ["--worker"])):
            for arguments in (["new", str(folder / name)], ["allow", str(folder / "keys"),
                                                            str(folder / name), *role]):
                subprocess.run([options.binary, "key", *arguments], check=True, stdout=subprocess.DEVNULL)
        self._certificate = str(folder / "keys" / "server")
        self._environment = dict(os.environ, XDG_RUNTIME_DIR=str(folder), TUREEN_KEY=str(folder / "job"),
                                 TUREEN_SERVER_KEY=self._certificate)
        self.start(SERVER, 0, "serve", "--dataset", f"train={options.data}", "--listen", self._endpoint,
                   "--keys", str(folder / "keys"), "--workers", "1", "--cache", "96M")
        while b"listening on" not in (folder / "log").read_bytes():
            if self._processes[0].poll() is not None:
                raise SystemExit((folder / "log").read_text())
            time.sleep(0.05)

    def start(self, machine: str, processor: int, *arguments: str) -> "subprocess.Popen[bytes]":
        with open(self._folder / "log", "ab") as log:
            process = subprocess.Popen(
                [*self._network.on(machine), "taskset", "-c", str(processor), self._options.binary,
                 *arguments], stdout=log, stderr=subprocess.STDOUT, env=self._environment)
        self._processes.append(process)
        return process

    def lend(self) -> None:
        self.start(WORKER, 1, "work", "--connect", self._endpoint, "--threads", "1", "--key",
                   str(self._folder / "lender"), "--server-key", self._certificate)
        while not any(worker["state"] == "working" for worker in self.status()["remote_workers"]):
            time.sleep(0.05)

    def status(self) -> Dict[str, Any]:
        done = subprocess.run([*self._network.on(SERVER), self._options.binary, "status", "--connect",
                               self._endpoint, "--json"], stdout=subprocess.PIPE, check=True,
                              env=self._environment)
        return dict(json.loads(done.stdout))

    def rate(self) -> float:
        job = self.start(SERVER, 1, "read", "--connect", self._endpoint, "--dataset", "train", "--batch",
                         "64", "--epochs", "0")
        time.sleep(WARM_SECONDS)
        before, began = self.status()["delivered"], time.monotonic()
        time.sleep(self._options.seconds)
        rate = (self.status()["delivered"] - before) / (time.monotonic() - began)
        job.terminate()
        job.wait()
        return float(rate)

    def end(self) -> None:
        for process in reversed(self._processes):
            if process.poll() is None:
                process.terminate()
            process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--binary", default=str(ROOT / "build" / "release" / "bin" / "tureen"))
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--links", type=float, nargs="+", default=[0.5, 2, 10, 50])
    options = parser.parse_args()
    refusal = Network.refusal()
    if refusal:
        print(f"slow_worker_bench: no network of machines here: {refusal}", file=sys.stderr)
        return CANNOT
    folder = Path(tempfile.mkdtemp(prefix="tureen-slow-"))
    with Network([SERVER, WORKER]) as network:
        bench = Bench(options, network, folder)
        try:
            alone = bench.rate()
            print(f"without a worker      {alone:6.0f}/s")
            bench.lend()
            for link in options.links:
                network.limit(WORKER, megabytes=link)
                rate, worker = bench.rate(), bench.status()["remote_workers"][0]
                print(f"link of {link:5g} MB/s     {rate:6.0f}/s   {rate / alone:.2f}   of its tasks so far "
                      f"{worker['done']} in time, {worker['taken_back']} taken back", flush=True)
        finally:
            bench.end()
            shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""What scrapes of /metrics cost a server with many jobs: its processor time, and how long batches take.

    python3 bench/speed/http_bench.py --data DIR [--binary build/release/bin/tureen] [--jobs 128]
                                      [--scrapes 100] [--seconds 10] [--plain]

The jobs take a sample a second each, and one more takes a batch of 16 twenty times a second: the quantiles
are how long its batches took.  Pairs of spans, without and with scrapes, one after the other.
"""
from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Dict, List, Tuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "clients" / "python"))

import tureen                           # noqa: E402

PAIRS, WARM_SECONDS = 3, 3.0


def scrape(port: int, every_s: float, encoding: str, until: threading.Event, sizes: List[int]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    due = time.monotonic()
    while not until.is_set():
        connection.request("GET", "/metrics", headers={"Accept-Encoding": encoding})
        sizes.append(len(connection.getresponse().read()))
        due += every_s
        time.sleep(max(0.0, due - time.monotonic()))
    connection.close()


def processor_s(pid: int) -> Dict[str, float]:
    """Processor time of the server's threads: the broker's, which answers, the HTTP server's, and all."""
    seconds = {"broker": 0.0, "http": 0.0, "all": 0.0}
    for task in Path(f"/proc/{pid}/task").iterdir():
        own = int((task / "schedstat").read_text().split()[0]) / 1e9
        name = "broker" if int(task.name) == pid else (task / "comm").read_text().strip()
        seconds["all"] += own
        if name in seconds:
            seconds[name] += own
    return seconds


def span(pid: int, batches: "tureen.loader.BatchIterator",
         seconds: float) -> Tuple[Dict[str, float], List[float]]:
    """Processor seconds a second, and how long each batch took."""
    began, before, took = time.monotonic(), processor_s(pid), []
    while time.monotonic() < began + seconds:
        at = time.monotonic()
        next(batches)
        took.append(time.monotonic() - at)
        time.sleep(0.05)
    spent = time.monotonic() - began
    return {name: (own - before[name]) / spent for name, own in processor_s(pid).items()}, sorted(took)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--binary", default=str(ROOT / "build" / "release" / "bin" / "tureen"))
    parser.add_argument("--jobs", type=int, default=128)
    parser.add_argument("--scrapes", type=float, default=100, help="a second")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--plain", action="store_true", help="not compressed; Prometheus asks for gzip")
    options = parser.parse_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="tureen-http-") as folder:
        endpoint, processes = f"ipc://{folder}/s.sock", []
        environment = dict(os.environ, XDG_RUNTIME_DIR=folder)
        try:
            server = subprocess.Popen(
                [options.binary, "serve", "--dataset", f"train={options.data}", "--listen", endpoint,
                 "--cache", "256M", "--http", str(port)], env=environment, stdout=subprocess.DEVNULL)
            processes.append(server)
            for _ in range(options.jobs):
                processes.append(subprocess.Popen(
                    [options.binary, "read", "--connect", endpoint, "--dataset", "train", "--epochs", "0",
                     "--batch", "1", "--rate", "1", "--slots", "3"], env=environment,
                    stdout=subprocess.DEVNULL))
            with tureen.Loader(endpoint, "train", 16, timeout=60) as loader:
                batches = iter(loader)
                while json.loads(subprocess.run([options.binary, "status", "--connect", endpoint, "--json"],
                                                stdout=subprocess.PIPE, check=True).stdout)["jobs_total"] \
                        <= options.jobs:
                    next(batches)
                span(server.pid, batches, WARM_SECONDS)
                sizes, quiet, scraped = [], [], []
                shares: Dict[str, List[float]] = {}
                for _ in range(PAIRS):
                    alone, took = span(server.pid, batches, options.seconds)
                    quiet += took
                    ended = threading.Event()
                    encoding = "identity" if options.plain else "gzip"
                    thread = threading.Thread(target=scrape,
                                              args=(port, 1 / options.scrapes, encoding, ended, sizes))
                    thread.start()
                    loaded, took = span(server.pid, batches, options.seconds)
                    scraped += took
                    ended.set()
                    thread.join()
                    for name, own in alone.items():
                        shares.setdefault(name, []).append(loaded[name] - own)
                    print(", ".join(f"{name} {own:.3f} and {loaded[name]:.3f}" for name, own in alone.items())
                          + " processors without and with scrapes", flush=True)
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait()
    rate = len(sizes) / PAIRS / options.seconds
    print(f"{rate:.0f} scrapes a second of {statistics.median(sizes) / 1024:.0f} KiB cost "
          + ", ".join(f"{100 * statistics.median(own):.1f} % of a processor ({name})"
                      for name, own in shares.items()))
    for name, part in (("half", 0.5), ("95 %", 0.95), ("99 %", 0.99)):
        print(f"{name} of the batches came within "
              + " and ".join(f"{1000 * sorted(times)[int(part * len(times))]:.2f} ms {how}"
                             for times, how in ((quiet, "without"), (scraped, "with"))))
    return 0


if __name__ == "__main__":
    sys.exit(main())

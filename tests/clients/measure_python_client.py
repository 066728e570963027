"""What next() costs in the Python client, against the fake server in a process of its own.

    python3 tests/clients/measure_python_client.py [ring|inline]

`waiting` is the time of a next() for which a batch lay ready (the loop pauses before each), `flat out` the time for each
batch of a loop that does nothing else: then mostly the fake server, which is Python too, is measured.
"""
from __future__ import annotations

import multiprocessing
import statistics
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "clients" / "python")]

import tureen
from fake_server import FakeServer


def serve(told: Any, ring: bool) -> None:
    with FakeServer(100000, offer_ring=ring) as server:
        told.send(server.endpoint)
        told.recv()


def main() -> None:
    transport = sys.argv[1] if len(sys.argv) > 1 else "ring"
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, transport == "ring"))
    process.start()
    loader = tureen.Loader(ours.recv(), batch_size=64, slots=8)
    iterator = iter(loader)
    times = []
    for _ in range(1000):
        time.sleep(0.003)
        begin = time.perf_counter()
        batch = next(iterator)
        times.append((time.perf_counter() - begin) * 1e6)
    begin = time.perf_counter()
    for _ in range(3000):
        batch = next(iterator)
    each = (time.perf_counter() - begin) / 3000 * 1e6
    times.sort()
    print(f"{transport}: next() with a batch waiting: median {statistics.median(times):.1f} us, "
          f"90 % {times[900]:.1f} us; flat out {each:.1f} us a batch")
    del batch, iterator
    loader.close()
    ours.send(None)
    process.join()


if __name__ == "__main__":
    main()

"""What next() costs in the Python client, against the fake server in a process of its own.

    python3 tests/clients/measure_python_client.py [ring|inline|state]

`waiting` is the time of a next() for which a batch lay ready (the loop pauses before each), `flat out` the
time for each batch of a loop that does nothing else: then mostly the fake server, which is Python too, is
measured.

`state`: what noting a batch costs, and what a state of half of 1.28 million samples costs and how large it
is; no server.
"""
from __future__ import annotations

import json
import multiprocessing
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Callable

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "clients" / "python")]

import numpy as np

import tureen
from fake_server import FakeServer
from tureen import state as states
from tureen import wire
from tureen.position import JobPosition
from tureen.request import Request
from tureen.state import State

SAMPLES = 1_281_167


def serve(told: Any, ring: bool) -> None:
    with FakeServer(100000, offer_ring=ring) as server:
        told.send(server.endpoint)
        told.recv()


def spent_us(times: int, step: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    for _ in range(times):
        step()
    return (time.perf_counter() - begin) / times * 1e6


def measure_state() -> None:
    request = Request(dataset="train", batch_size=64, epochs=None, drop_last=False, pipeline="train",
                      order=None, slots=4, transport="auto", seed=None, name="", ids=None, subset=None)
    joined = wire.Joined(1, SAMPLES, SAMPLES, None, 64, 4, 1, (), None, 7, "6d0c4f1e2a3b5c7d",
                         "9e1f00aa12bc34de", "4b" * 16, False, [], 1000, 90000)
    begin = State("train", joined.fingerprint, joined.data, SAMPLES, "shared", 7, 0, joined.run, 0, 0, 0, b"",
                  None)
    position = JobPosition(request, begin, SAMPLES)
    order = np.random.default_rng(7).permutation(SAMPLES).astype(np.uint64)
    batches = [order[step * 64:step * 64 + 64] for step in range(SAMPLES // 128)]
    head = (wire.BatchHead(step, 0, step, 0, 64, 0) for step in range(len(batches)))
    taken = iter(batches)
    noting_us = spent_us(len(batches), lambda: position.note(joined, next(head), next(taken)))
    state = states.pack(position.state())
    text = json.dumps(state)
    making_us = spent_us(50, lambda: states.pack(position.state()))
    reading_us = spent_us(50, lambda: states.parse(state))
    request_us = spent_us(50, lambda: request.message(1, "", states.parse(state)))
    print(f"state of {state['taken']['count']} of {SAMPLES} samples: {len(text) / 1024:.0f} KiB as JSON; "
          f"state_dict {making_us / 1000:.2f} ms, load_state_dict {reading_us / 1000:.2f} ms, with the JOIN "
          f"{request_us / 1000:.2f} ms; noting a batch of 64 {noting_us:.1f} us")


def main() -> None:
    transport = sys.argv[1] if len(sys.argv) > 1 else "ring"
    if transport == "state":
        measure_state()
        return
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

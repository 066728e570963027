#!/usr/bin/env python3
"""What a batch costs the process that trains: processor time of the Python client, all its threads, beside
the least there can be, a bare pyzmq DEALER that receives as many messages of the same size and looks at them
with np.frombuffer.

    python3 bench/speed/client_bench.py [--bin build/release/bin] [--rounds 5] [--batches 400]

Two cases, of each `tureen.Loader` and `tureen.torch.DataLoader`:

    waiting     the batch is there when the loop asks for it; the loop pauses behind each (as one that
                computes on a GPU)
    sleeping    the loop is faster than the server: it sleeps until the batch comes

The bare receiver gets its messages at the rate that the loader had in the same round, and pauses as it does.
Everything is in one process but the server and the sender; rounds take turns, and ratios are made within a
round.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "clients" / "python"))

import numpy as np                      # noqa: E402
import zmq                              # noqa: E402
from PIL import Image                   # noqa: E402

import tureen                           # noqa: E402

BATCH = 64
#  Behind a batch that was waiting: the server makes the next one meanwhile
PAUSE_S = 0.008
SLEPT_S = 0.001                         # a loop with its batch after this long did not wait for the server
WARM = 20                               # batches before the clock starts
GOALS = {"waiting": 5.0, "sleeping": 15.0}
HEAD_BYTES, RECORD_BYTES = 24, 40       # of a BATCH message (docs/protocol.md); its ids follow
PIPELINES: Dict[str, Any] = {
    #  Prepared once: from then on a batch is a copy.  And one that is work for each batch.
    "waiting": [{"op": "resize", "size": [32, 32]}, {"share": True}],
    "sleeping": [{"op": "random_resized_crop", "size": 224}, {"share": True}, {"op": "flip"}],
}
ORDERS = {"waiting": "list", "sleeping": "private"}

Step = Callable[[], Any]


def make_images(folder: Path, count: int) -> None:
    """Noise in large patches: a JPEG of a few kilobytes that takes a millisecond to decode."""
    generator = np.random.default_rng(1)
    (folder / "class").mkdir(parents=True)
    for number in range(count):
        patches = generator.integers(0, 256, (24, 32, 3), np.uint8)
        Image.fromarray(patches).resize((320, 240), Image.BICUBIC).save(folder / "class"
            / f"{number:04d}.jpg", quality=85)


#   ---- the loaders

def numpy_batches(endpoint: str, case: str) -> Iterator[Any]:
    loader = tureen.Loader(endpoint, "bench", BATCH, pipeline=PIPELINES[case], order=ORDERS[case],
                           name=f"numpy, {case}")
    with contextlib.closing(loader):
        for batch in loader:
            yield batch["image"], batch["label"]


def torch_batches(endpoint: str, case: str) -> Iterator[Any]:
    import tureen.torch
    loader = tureen.torch.DataLoader("bench", BATCH, endpoint=endpoint, transform=PIPELINES[case],
                                     order=ORDERS[case], name=f"torch, {case}")
    with contextlib.closing(loader):
        yield from loader.infinite()


LOADERS: Dict[str, Callable[[str, str], Iterator[Any]]] = {"tureen.Loader": numpy_batches}
if importlib.util.find_spec("torch"):
    LOADERS["tureen.torch.DataLoader"] = torch_batches


#   ---- the bare receiver

SENDER = f"""
import sys, time, zmq
context = zmq.Context()
router = context.socket(zmq.ROUTER)
router.setsockopt(zmq.LINGER, 0)
router.bind(sys.argv[1])
while True:
    peer, count, period = router.recv_multipart()
    if not int(count):
        break
    due = time.monotonic()
    for _ in range(int(count)):
        router.send_multipart([peer, bytes({HEAD_BYTES}), bytes({RECORD_BYTES}), bytes({8 * BATCH})])
        due += float(period)
        time.sleep(max(0.0, due - time.monotonic()))
router.close()
context.term()
"""


class Bare:
    """A sender in a process of its own, and a DEALER here."""

    def __init__(self, endpoint: str) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", SENDER, endpoint])
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 1000)
        self._socket.connect(endpoint)

    def begin(self, count: int, period_s: float) -> None:
        self._socket.send_multipart([b"%d" % count, b"%.9f" % period_s])

    def step(self) -> Any:
        _, record, ids = self._socket.recv_multipart()
        return np.frombuffer(record, np.uint32), np.frombuffer(ids, np.uint64)

    def close(self) -> None:
        self.begin(0, 0)
        self._process.wait()
        self._socket.close()
        self._context.term()


#   ---- measuring

class Cost:
    """Of one run: processor time and time a batch, in seconds."""

    def __init__(self, step: Step, batches: int, pause_s: float) -> None:
        for _ in range(WARM):
            step()
            time.sleep(pause_s)
        slept = 0
        began, cpu = time.perf_counter(), time.process_time()
        for _ in range(batches):
            asked = time.perf_counter()
            step()
            slept += time.perf_counter() - asked > SLEPT_S
            if pause_s:
                time.sleep(pause_s)
        self.cpu_s = (time.process_time() - cpu) / batches
        self.period_s = (time.perf_counter() - began) / batches
        self.slept = slept / batches


def measure(endpoint: str, bare: Bare, case: str, name: str, batches: int) -> Dict[str, float]:
    pause_s = PAUSE_S if case == "waiting" else 0.0
    source = LOADERS[name](endpoint, case)
    try:
        if case == "waiting":           # all of them prepared, before the first is to be waiting
            for _ in range(WARM):
                next(source)
        ours = Cost(lambda: next(source), batches, pause_s)
    finally:
        source.close()                  # type: ignore[attr-defined]
    bare.begin(WARM + batches, ours.period_s if case == "sleeping" else PAUSE_S)
    if case == "waiting":
        time.sleep(2 * PAUSE_S)
    theirs = Cost(bare.step, batches, pause_s)
    return {"loader_us": 1e6 * ours.cpu_s, "bare_us": 1e6 * theirs.cpu_s, "ratio": ours.cpu_s / theirs.cpu_s,
            "period_ms": 1e3 * ours.period_s, "slept": ours.slept}


def run(folder: Path, options: argparse.Namespace) -> Dict[str, Dict[str, List[Dict[str, float]]]]:
    data = folder / "data"
    make_images(data, options.images)
    os.environ["TUREEN_SERVER"] = str(options.bin / "tureen")
    server = tureen.serve({"bench": data}, endpoint=f"ipc://{folder}/s.sock", cache="256M", workers=2)
    try:
        bare = Bare(f"ipc://{folder}/bare.sock")
        try:
            found: Dict[str, Dict[str, List[Dict[str, float]]]] = {name: {case: [] for case in GOALS}
                for name in LOADERS}
            for number in range(options.rounds):
                for name in LOADERS:
                    for case in GOALS:
                        found[name][case].append(measure(server.endpoint, bare, case, name, options.batches))
                print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
            return found
        finally:
            bare.close()
    finally:
        stop(server)


def stop(server: tureen.Server) -> None:
    """Ends it and waits for that: its files are in a folder that is about to go."""
    process, log = server.process, server.log
    server.stop()
    if process is not None:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process, 0)
    if log is not None:
        with contextlib.suppress(FileNotFoundError):
            os.remove(log)


def median(rounds: List[Dict[str, float]], key: str) -> float:
    return statistics.median(each[key] for each in rounds)


def report(found: Dict[str, Dict[str, List[Dict[str, float]]]]) -> None:
    print("processor time a batch of the training process, all threads; medians of rounds")
    print(f"{'':<26}{'case':<11}{'client':>10}{'bare':>10}{'ratio':>8}   "
          f"{'of rounds':<16}{'a batch every':>14}{'slept for':>11}   goal")
    for name, cases in found.items():
        for case, rounds in cases.items():
            ratios = sorted(each["ratio"] for each in rounds)
            kept = "kept" if median(rounds, "ratio") <= GOALS[case] else "MISSED"
            print(f"{name:<26}{case:<11}{median(rounds, 'loader_us'):7.0f} "
                  f"us{median(rounds, 'bare_us'):7.0f} us{median(rounds, 'ratio'):8.2f}   {ratios[0]:5.2f} "
                  f"to {ratios[-1]:5.2f}  {median(rounds, 'period_ms'):11.1f} "
                  f"ms{100 * median(rounds, 'slept'):9.0f} %   at most {GOALS[case]:.0f}: {kept}")


def main() -> int:
    parser = argparse.ArgumentParser(description="processor time that the Python client costs a training "
                                     "process")
    parser.add_argument("--bin", type=Path, default=ROOT / "build" / "release" / "bin",
                        help="where `tureen` is")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=400, help="of each measurement")
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--json", type=Path, metavar="FILE", help="writes all rounds there")
    options = parser.parse_args()
    if shutil.which("tureen", path=str(options.bin)) is None:
        parser.error(f"no executable 'tureen' in {options.bin}: build it (sh scripts/build.sh release) or "
                     "say --bin")
    folder = Path(tempfile.mkdtemp(prefix="tureen-bench-", dir="/tmp"))
    try:
        found = run(folder, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if "tureen.torch.DataLoader" not in LOADERS:
        print("tureen.torch.DataLoader was not measured: PyTorch is not installed")
    report(found)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

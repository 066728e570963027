#!/usr/bin/env python3
"""How fast batches travel to clients on other machines: `tureen read` over tcp://, beside bare ZeroMQ, a
ROUTER that sends one and the same memory again and again to a DEALER in another process, in messages of the
same size.

    python3 bench/speed/tcp_bench.py [--bin build/release/bin] [--rounds 5] [--seconds 3]

All samples are prepared before the clock starts, so the server only gathers them into batches and sends
these.  Both sides of both use the loopback interface; rounds take turns, and ratios are made within a round.
The bare sender keeps as many messages on their way as the job has slots.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

from client_bench import make_images, stop

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "clients" / "python"))

import tureen                           # noqa: E402

SLOTS = 4
IMAGES = 256
GOAL = 0.8
#  Side of the square pictures, and samples in a batch: 196 KB, 9.6 MB and 38.5 MB.
CASES = ((32, 64), (224, 64), (224, 256))
CHANNELS = 3

#  Sends `bytes` again for every empty message that comes, until one that is not empty.
SENDER = """
import sys, zmq
context = zmq.Context()
router = context.socket(zmq.ROUTER)
router.setsockopt(zmq.LINGER, 0)
router.bind(sys.argv[1])
sent = bytearray(int(sys.argv[2]))
while True:
    peer, said = router.recv_multipart()
    if said:
        break
    router.send(peer, zmq.SNDMORE)
    router.send(sent, copy=False)
context.destroy(0)
"""

#  Receives for so many seconds, and prints bytes a second.
RECEIVER = """
import sys, time, zmq
slots, seconds = int(sys.argv[2]), float(sys.argv[3])
context = zmq.Context()
dealer = context.socket(zmq.DEALER)
dealer.connect(sys.argv[1])
for _ in range(slots):
    dealer.send(b"")
for _ in range(slots):
    dealer.recv(copy=False)
    dealer.send(b"")
began, received = time.perf_counter(), 0
while time.perf_counter() - began < seconds:
    received += len(dealer.recv(copy=False))
    dealer.send(b"")
print(received / (time.perf_counter() - began))
dealer.send(b"end")
dealer.close(1000)
context.term()
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def bare(size: int, seconds: float) -> float:
    """Bytes a second of ZeroMQ alone."""
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    sender = subprocess.Popen([sys.executable, "-c", SENDER, endpoint, str(size)])
    try:
        done = subprocess.run([sys.executable, "-c", RECEIVER, endpoint, str(SLOTS), str(seconds)],
                              stdout=subprocess.PIPE, check=True)
        sender.wait(10)
        return float(done.stdout)
    finally:
        sender.kill()
        sender.wait()


class Reader:
    """`tureen read` over tcp, all epochs of which are of prepared samples."""

    def __init__(self, options: argparse.Namespace, endpoint: str, side: int, batch: int) -> None:
        pipeline = [{"op": "resize", "size": [side, side]}, {"share": True}]
        self._batch_bytes, self._batch = side * side * CHANNELS * batch, batch
        self._command = [str(options.bin / "tureen"), "read", "--connect", endpoint, "--dataset", "bench",
                         "--batch", str(batch), "--slots", str(SLOTS), "--pipeline", json.dumps(pipeline),
                         "--inline", "--json"]
        self._epochs = 1
        self._rate(self._epochs)                        # all are prepared now

    def _rate(self, epochs: int) -> Tuple[float, float]:
        """Bytes a second, and seconds."""
        done = subprocess.run(self._command + ["--epochs", str(epochs)], stdout=subprocess.PIPE, check=True)
        said = json.loads(done.stdout)
        return said["samples_per_second"] / self._batch * self._batch_bytes, said["seconds"]

    def measure(self, seconds: float) -> float:
        """Bytes of pictures a second, over about so long."""
        while True:
            rate, took = self._rate(self._epochs)
            if took > seconds / 2:
                return rate
            self._epochs = int(self._epochs * min(10.0, seconds / max(took, 0.001))) + 1


@contextlib.contextmanager
def serving(folder: Path, options: argparse.Namespace) -> Iterator[str]:
    make_images(folder / "data", IMAGES)
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    os.environ["TUREEN_SERVER"] = str(options.bin / "tureen")
    server = tureen.serve({"bench": folder / "data"}, endpoint=endpoint, cache="512M", workers=1,
                          arguments=["--open"])
    try:
        yield endpoint
    finally:
        stop(server)


def main() -> int:
    parser = argparse.ArgumentParser(description="batches over tcp beside bare ZeroMQ")
    parser.add_argument("--bin", type=Path, default=ROOT / "build" / "release" / "bin",
                        help="where `tureen` is")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    options = parser.parse_args()
    if shutil.which("tureen", path=str(options.bin)) is None:
        parser.error(f"no executable 'tureen' in {options.bin}: build it (sh scripts/build.sh release) or "
                     "say --bin")
    folder = Path(tempfile.mkdtemp(prefix="tureen-bench-", dir="/tmp"))
    found: Dict[Tuple[int, int], List[Tuple[float, float]]] = {case: [] for case in CASES}
    try:
        with serving(folder, options) as endpoint:
            readers = {case: Reader(options, endpoint, *case) for case in CASES}
            for number in range(options.rounds):
                for case, reader in readers.items():
                    ours = reader.measure(options.seconds)
                    found[case].append((ours, bare(case[0] ** 2 * CHANNELS * case[1], options.seconds)))
                print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{'batch':<22}{'message':>10}{'tureen read':>14}{'bare ZeroMQ':>14}{'ratio':>8}   of rounds")
    for (side, batch), rounds in found.items():
        ratios = sorted(ours / theirs for ours, theirs in rounds)
        ours, theirs = (statistics.median(each[side_] for each in rounds) for side_ in (0, 1))
        median = statistics.median(ratios)
        print(f"{f'{batch} x {side} x {side} x {CHANNELS}':<22}{side ** 2 * CHANNELS * batch / 1e6:7.1f} MB"
              f"{ours / 1e6:9.0f} MB/s{theirs / 1e6:9.0f} MB/s{median:8.2f}   {ratios[0]:.2f} to "
              f"{ratios[-1]:.2f}   at least {GOAL}: {'kept' if median >= GOAL else 'MISSED'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

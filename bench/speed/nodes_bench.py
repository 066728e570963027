#!/usr/bin/env python3
"""A job over three nodes beside the same job on one, on a pack that does not fit into memory: how often the
pack is read, how well samples are mixed, and how fresh each epoch's order is.

    python3 bench/speed/nodes_bench.py [--bin build/release/bin] [--samples 24000] [--epochs 8]

    read        bytes read of the pack over all nodes in an epoch, by the pack's bytes; the first epoch and
                the last (which reads ahead for none) left out
    mates       pairs of samples in a batch of all nodes that lie in one piece of the pack, by what chance
                gives
    phi2        as tureen audit measures it (docs/operations.md): the worst of lags 1 to 6, of the order of
                all nodes and of each node's own

Everything is on one machine; the pictures lie in memory (/dev/shm).
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Dict, Iterator, List, Sequence

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "clients" / "python"))

import numpy as np                      # noqa: E402
from PIL import Image                   # noqa: E402

import tureen                           # noqa: E402

NODES, BATCH, PIECE = 3, 64, 16
SHARES = (0.02, 0.08, 0.25)             # of the pack in memory
PIPELINE = [{"op": "random_resized_crop", "size": 8}, {"share": True}]
Steps = List[List[int]]                 # of an epoch: the ids of each


def make_pack(options: argparse.Namespace, folder: Path) -> Path:
    """Pictures of some kilobytes, in a pack in which positions are ids."""
    generator = np.random.default_rng(1)
    kinds = []
    for _ in range(50):
        memory = io.BytesIO()
        Image.fromarray(generator.integers(0, 256, (12, 12, 3), np.uint8)).save(memory, "JPEG", quality=80)
        #  What lies behind a JPEG's end costs no decoding, and makes a piece longer than a block of a disk.
        kinds.append(memory.getvalue() + generator.bytes(4000))
    (folder / "data" / "class").mkdir(parents=True)
    for number in range(options.samples):
        (folder / "data" / "class" / f"{number:06d}.jpg").write_bytes(kinds[number % len(kinds)])
    tureen_bin = options.bin / "tureen"
    subprocess.run([tureen_bin, "pack", folder / "data", folder / "shuffled"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (folder / "pack").mkdir()
    subprocess.run([options.bin / "sort_pack", folder / "shuffled", folder / "pack"], check=True)
    return folder / "pack"


@contextlib.contextmanager
def serving(options: argparse.Namespace, folder: Path, pack: Path, name: str, raw: int) -> Iterator[str]:
    endpoint = f"ipc://{folder}/{name}.sock"
    server = subprocess.Popen([options.bin / "tureen", "serve", "--dataset", f"train={pack}", "--listen",
                               endpoint, "--cache", "4M", "--raw", str(raw), "--piece", f"train={PIECE}",
                               "--workers", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield endpoint
    finally:
        server.terminate()
        server.wait()


def bytes_read(endpoint: str) -> int:
    data: Dict[str, Any] = tureen.status(endpoint)["datasets"][0]
    return int(data["pack"]["bytes_read"])


class Job(threading.Thread):
    """One node's loop."""

    def __init__(self, endpoint: str, epochs: int, nodes: int, node: int) -> None:
        super().__init__(daemon=True)
        more = {} if nodes == 1 else {"nodes": nodes, "node": node}
        self.loader = tureen.Loader(endpoint, "train", BATCH * NODES // nodes, epochs, pipeline=PIPELINE,
                                    **more)
        self.endpoint = endpoint
        self.steps: List[Steps] = [[] for _ in range(epochs)]
        self.read: List[int] = []       # at each epoch's end

    def run(self) -> None:
        for batch in self.loader:
            if batch.epoch > len(self.read):
                self.read.append(bytes_read(self.endpoint))
            self.steps[batch.epoch].append([] if batch.padding else batch.ids.tolist())
        self.read.append(bytes_read(self.endpoint))
        self.loader.close()


def run(options: argparse.Namespace, folder: Path, pack: Path, share: float, nodes: int) -> List[Job]:
    size = sum(path.stat().st_size for path in pack.iterdir() if "index" not in path.name)
    with contextlib.ExitStack() as stack:
        #  A node has a third of the memory that one machine for all would have
        raw = max(int(share * size * NODES / nodes * 8 / 7), 1 << 16)
        endpoints = [stack.enter_context(serving(options, folder, pack, f"{nodes}-{node}", raw))
                     for node in range(nodes)]
        for endpoint in endpoints:
            _wait(endpoint)
        jobs = [Job(endpoint, options.epochs, nodes, node) for node, endpoint in enumerate(endpoints)]
        for job in jobs:
            job.start()
        for job in jobs:
            job.join()
    return jobs


def _wait(endpoint: str) -> None:
    for _ in range(200):
        with contextlib.suppress(tureen.TureenError):
            tureen.status(endpoint, timeout=0.2)
            return
    raise SystemExit(f"no server at {endpoint}")


def together(jobs: Sequence[Job], epoch: int) -> Steps:
    return [list(itertools.chain(*parts)) for parts in zip(*(job.steps[epoch] for job in jobs))]


def mates(steps: Steps, samples: int) -> float:
    pairs = chance = 0.0
    for ids in steps:
        counts = collections.Counter(number // PIECE for number in ids)
        pairs += sum(count * (count - 1) / 2 for count in counts.values())
        chance += len(ids) * (len(ids) - 1) / 2 * (PIECE - 1) / (samples - 1)
    return pairs / chance


def audit(options: argparse.Namespace, folder: Path, jobs: Sequence[Job]) -> Dict[str, Any]:
    """What the audit says of the job; ends the run if some epoch does not have each sample once."""
    files = []
    for number, job in enumerate(jobs):
        files.append(folder / f"node{number}.ids")
        with open(files[-1], "w") as output:
            for epoch, steps in enumerate(job.steps):
                print(f"{epoch}:", *itertools.chain(*steps), file=output)
    done = subprocess.run([options.bin / "tureen", "audit", "--json", "--samples", str(options.samples),
                           *(["--ranks"] if len(files) > 1 else []), *files], stdout=subprocess.PIPE)
    found: Dict[str, Any] = json.loads(done.stdout)["files"][0]
    if found["exactly_once"] != "yes":
        raise SystemExit("some epoch does not have each sample once")
    if len({tuple(map(len, job.steps)) for job in jobs}) != 1:
        raise SystemExit("an epoch has different steps on the nodes")
    return found


def worst(figures: Dict[str, Any], name: str) -> float:
    """Of all lags that were measured."""
    found = [figures[key] for key in figures if key == name or key.startswith(f"{name}_lag")]
    return max(figure["value"] for figure in found if figure is not None)


def amplification(jobs: Sequence[Job], size: int) -> float:
    """Of the epochs between the first and the last two: at an epoch's end the next one's pieces come."""
    first, last = 1, len(jobs[0].read) - 2
    return sum(job.read[last] - job.read[first] for job in jobs) / (last - first) / size


def main() -> int:
    parser = argparse.ArgumentParser(description="a job over three nodes beside one")
    parser.add_argument("--bin", type=Path, default=ROOT / "build" / "release" / "bin")
    parser.add_argument("--samples", type=int, default=24000)
    parser.add_argument("--epochs", type=int, default=8)
    options = parser.parse_args()
    for name in ("tureen", "sort_pack"):
        if shutil.which(name, path=str(options.bin)) is None:
            parser.error(f"no executable '{name}' in {options.bin}: sh scripts/build.sh release")
    folder = Path(tempfile.mkdtemp(prefix="tureen-nodes-", dir="/dev/shm"))
    try:
        pack = make_pack(options, folder)
        size = sum(path.stat().st_size for path in pack.iterdir() if "index" not in path.name)
        print(f"{options.samples} samples, {options.epochs} epochs, batches of {NODES} x {BATCH}, pieces of "
              f"{PIECE}\n{'memory':<8}{'nodes':<7}{'read':>6}{'mates':>8}{'phi2, all':>11}"
              f"{'phi2, a node':>14}")
        for share in SHARES:
            for nodes in (1, NODES):
                jobs = run(options, folder, pack, share, nodes)
                found = audit(options, folder, jobs)
                mixed = float(np.mean([mates(together(jobs, epoch), options.samples)
                                       for epoch in range(options.epochs)]))
                own = ""
                if nodes > 1:
                    own = f"{max(worst(rank, 'own_phi2') for rank in found['ranks']['files']):14.4f}"
                print(f"{share:<8.0%}{nodes:<7}{amplification(jobs, size):6.3f}{mixed:8.2f}"
                      f"{worst(found, 'phi2'):11.4f}{own}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

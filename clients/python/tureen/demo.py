"""Three training jobs on one server, in a minute: `python -m tureen.demo [FOLDER]`.

FOLDER is an ImageFolder of yours, with one folder a class; without it the demo makes small pictures.  It
starts a server, trains a tiny model three times at once with three learning rates (in PyTorch if that is
installed, else in NumPy), and prints what the jobs shared.  It leaves nothing behind.
"""
from __future__ import annotations

import argparse
import multiprocessing
import os
import struct
import sys
import tempfile
import time
import zlib
from multiprocessing.connection import Connection, wait
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np
import numpy.typing as npt

from .errors import TureenError
from .loader import Loader
from .serving import serve

SIDE = 48                           # of an image as the model gets it
PIPELINE: List[Dict[str, Any]] = [
    {"op": "random_resized_crop", "size": [SIDE, SIDE], "scale": [0.5, 1.0]}, {"share": True}, {"op": "flip"}]
BATCH = 32
RATES = (0.02, 0.05, 0.1)
#  The colour that the pictures of a class have on an average.
CLASSES = {"forest": (70, 120, 60), "meadow": (130, 150, 70), "night": (50, 60, 95), "sea": (60, 115, 150)}
_PICTURE = 96
_GRID = 6                           # the NumPy model sees averages over so many squares a side

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[Any]


class Epoch(NamedTuple):
    """What a job says when an epoch is behind it."""

    job: int
    number: int
    loss: float
    samples: int
    whole: bool                     # each sample of the data came exactly once
    first_shape: Tuple[int, ...]    # of the first batch


#   ---- the pictures

def make_pictures(folder: str, samples: int, seed: int = 1) -> None:
    """As many PNGs, in one folder a class."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[-1:1:_PICTURE * 1j, -1:1:_PICTURE * 1j]
    for number in range(samples):
        name = list(CLASSES)[number % len(CLASSES)]
        slope = random.normal(0, 35, 2)
        light = slope[0] * x + slope[1] * y + random.normal(0, 12)
        picture = np.array(CLASSES[name]) + random.normal(0, 22, 3) + light[:, :, None] \
            + random.normal(0, 6, (_PICTURE, _PICTURE, 3))
        os.makedirs(os.path.join(folder, name), exist_ok=True)
        with open(os.path.join(folder, name, f"{number:05d}.png"), "wb") as file:
            file.write(_png(np.clip(picture, 0, 255).astype(np.uint8)))


def _png(picture: Images) -> bytes:
    """RGB, eight bits; each row begins with the number of its filter, which is none."""
    def chunk(kind: bytes, content: bytes) -> bytes:
        content = kind + content
        return struct.pack(">I", len(content) - 4) + content + struct.pack(">I", zlib.crc32(content))

    height, width, _ = picture.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)
    rows[:, 1:] = picture.reshape(height, -1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) \
        + chunk(b"IDAT", zlib.compress(rows.tobytes(), 1)) + chunk(b"IEND", b"")


#   ---- the models: stand-ins for yours

class NumpyModel:
    """Multinomial logistic regression on the colours of a coarse grid."""

    def __init__(self, classes: int, rate: float) -> None:
        self.weights = np.zeros((3 * _GRID * _GRID + 1, classes))
        self.rate = rate

    def step(self, images: Images, labels: Labels) -> float:
        """One step of gradient descent; the loss before it."""
        step = SIDE // _GRID
        coarse = images.reshape(len(images), _GRID, step, _GRID, step, 3).mean((2, 4)) / 64 - 1.5
        features = np.concatenate([coarse.reshape(len(images), -1), np.ones((len(images), 1))], 1)
        scores = features @ self.weights
        found = np.exp(scores - scores.max(1, keepdims=True))
        found /= found.sum(1, keepdims=True)
        rows = np.arange(len(labels))
        loss = float(-np.log(found[rows, labels] + 1e-12).mean())
        found[rows, labels] -= 1
        self.weights -= self.rate * features.T @ found / len(labels)
        return loss


class TorchModel:
    """Two convolutions."""

    def __init__(self, torch: Any, classes: int, rate: float) -> None:
        self.torch = torch
        torch.manual_seed(1)
        torch.set_num_threads(1)
        self.model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 5, stride=3), torch.nn.ReLU(), torch.nn.Conv2d(8, 16, 3, stride=2),
            torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(64, classes))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=rate, momentum=0.5)

    def step(self, images: Images, labels: Labels) -> float:
        torch = self.torch
        batch = torch.from_numpy(images).permute(0, 3, 1, 2).float().div_(64).sub_(1.5)
        loss = torch.nn.functional.cross_entropy(self.model(batch), torch.from_numpy(labels.astype(np.int64)))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())


def _torch() -> Optional[Any]:
    try:
        import torch
    except ImportError:
        return None
    return torch


#   ---- a job

def train(job: int, endpoint: str, epochs: int, use_torch: bool, start: Any, demo: Connection) -> None:
    """In a process of its own, which knows the server's endpoint and no other job.  Sends an Epoch for each,
    or the text of what went wrong."""
    try:
        torch = _torch() if use_torch else None
        loader = Loader(endpoint, "train", BATCH, epochs, pipeline=PIPELINE, name=f"demo-{job}")
        if loader.dataset.classes is None:
            raise ValueError("the data has no classes to train on: give a folder with one folder a class")
        classes = len(loader.dataset.classes)
        model = TorchModel(torch, classes, RATES[job]) if torch else NumpyModel(classes, RATES[job])
        start.wait()                                        # for imports, which take unequally long
        batches = iter(loader)
        for epoch in range(epochs):
            losses, ids = [], []
            shape: Tuple[int, ...] = ()
            while (batch := batches.next_in_epoch()) is not None:
                losses.append(model.step(batch["image"], batch["label"]))
                ids += batch.ids.tolist()
                shape = shape or batch["image"].shape
            demo.send(Epoch(job, epoch, float(np.mean(losses)), len(ids),
                            len(set(ids)) == len(ids) == loader.samples, shape))
    except Exception as error:                              # for the demo's process to say
        start.abort()
        demo.send(f"{type(error).__name__}: {error}")


def run_jobs(endpoint: str, epochs: int, use_torch: bool) -> List[Epoch]:
    """All that the jobs report.  SystemExit, with the reason, if one of them fails."""
    spawn = multiprocessing.get_context("spawn")
    start = spawn.Barrier(len(RATES))
    pipes: List[Any] = []
    processes: List[Any] = []
    told: List[Epoch] = []
    for job in range(len(RATES)):
        ours, theirs = spawn.Pipe(duplex=False)
        processes.append(spawn.Process(target=train, daemon=True,
                                       args=(job, endpoint, epochs, use_torch, start, theirs)))
        processes[-1].start()
        theirs.close()
        pipes.append(ours)
    failed = ""
    try:
        while pipes and not failed:
            for pipe in wait(pipes):
                assert isinstance(pipe, Connection)
                try:
                    said = pipe.recv()
                except EOFError:
                    pipes.remove(pipe)
                    continue
                if isinstance(said, Epoch):
                    told.append(said)
                    print(f"  rate {RATES[said.job]:<4g} epoch {said.number}: {said.samples} samples, "
                          f"loss {said.loss:.3f}", flush=True)
                elif "BrokenBarrierError" not in said:      # the others, which wait for the one that failed
                    failed = said
    finally:
        for process in processes:
            if failed:
                process.terminate()
            process.join()
    if failed or len(told) < epochs * len(RATES):
        sys.exit(f"demo: a job failed: {failed or 'its process died'}")
    return told


#   ---- the demo

def report(told: List[Epoch], status: Dict[str, Any]) -> None:
    prepared, delivered = status["prepared"], status["delivered"]
    print(f"Each of the {len(RATES)} jobs had a random order and random flips of its own, and each sample "
          "exactly once an epoch.")
    print(f"The server delivered {delivered} samples and prepared {prepared} (read, decoded, cropped): "
          f"{prepared / delivered:.2f} for each delivered.")
    print(f"{len(RATES)} loaders of their own would have prepared all {delivered}.")


def run(options: argparse.Namespace, scratch: str) -> None:
    begun = time.monotonic()
    folder = options.folder
    if folder is None:
        folder = os.path.join(scratch, "train")
        make_pictures(folder, options.samples)
        print(f"made {options.samples} pictures of {len(CLASSES)} classes ({time.monotonic() - begun:.1f} s)")
    use_torch = not options.numpy and _torch() is not None
    server = serve(train=folder, endpoint=f"ipc://{scratch}/s.sock", cache="256M")
    try:
        status = server.status()
        print(f"tureen {status['version']} serves {folder} ({time.monotonic() - begun:.1f} s)")
        print(f"{len(RATES)} jobs train a tiny model in {'PyTorch' if use_torch else 'NumPy'}, "
              f"batches of {BATCH}:", flush=True)
        told = run_jobs(server.endpoint, options.epochs, use_torch)
        status = server.status()
    finally:
        server.stop()
        if server.log:
            os.unlink(server.log)
    print(f"  the first batch was uint8 {list(told[0].first_shape)}; "
          f"all took {time.monotonic() - begun:.1f} s")
    if not all(epoch.whole for epoch in told):
        sys.exit("demo: an epoch did not have each sample exactly once, which is a fault of Tureen's")
    report(told, status)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tureen.demo",
                                     description="three training jobs on one server, which this starts")
    parser.add_argument("folder", nargs="?", help="your images, with one folder a class; default: made here")
    parser.add_argument("--epochs", type=int, default=3, metavar="N", help="default: 3")
    parser.add_argument("--samples", type=int, default=800, metavar="N",
                        help="how many pictures to make, default: 800")
    parser.add_argument("--numpy", action="store_true", help="no PyTorch, even if it is installed")
    options = parser.parse_args()
    if options.epochs < 1 or options.samples < len(CLASSES):
        parser.error(f"at least one epoch and {len(CLASSES)} samples")
    with tempfile.TemporaryDirectory(prefix="tureen-demo-") as scratch:
        try:
            run(options, scratch)
        except TureenError as error:
            sys.exit(f"demo: {error}")


if __name__ == "__main__":
    main()

"""A job of gpu.py: takes batches to the device, does a step of compute on each, writes what it took as JSON.

    python gpu_job.py tureen JOB SETTINGS OPTIONS

SETTINGS and OPTIONS are JSON: peer.Settings and gpu.Way.  Every way delivers the same pictures, which do not
change from epoch to epoch; each batch of the first epoch is compared with a copy that came to the host.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from typing import Any, Iterator, NamedTuple, Tuple

import torch

from peer import BATCH, READY, SIDE, Settings, photographs
from peer_tureen import DataLoader, endpoint

RESIZED = 256
MATRIX = 1024
WARM_STEPS = 20


class Way(NamedTuple):
    name: str                   # ring, pinned, pageable or pytorch
    device: str                 # cuda or cpu
    steps: int                  # with and without loader
    products: int               # of matrices, in a step


def tureen(settings: Settings, device: Any = None, **options: Any) -> Any:
    steps = [{"op": "decode"}, {"op": "resize", "size": RESIZED}, {"op": "center_crop", "size": [SIDE, SIDE]},
             {"share": True}]
    return DataLoader("train", batch_size=BATCH, transform=steps, ids=True, device=device,
                      endpoint=endpoint(settings), **options)


def pictures(settings: Settings) -> torch.Tensor:
    """All of them on the host, in the order of their ids."""
    loader = tureen(settings, shuffle=False, epochs=1)
    found = torch.cat([images.contiguous().clone() for images, _, _ in loader])
    loader.close()
    return found


#   ---- the ways

Batches = Iterator[Tuple[torch.Tensor, torch.Tensor]]


def ring(settings: Settings, way: Way) -> Batches:
    """Copied straight from the ring, which the loader has pinned."""
    loader = tureen(settings, way.device, shuffle=True)
    for _ in itertools.count():
        for images, _, ids in loader:
            yield images, ids


def pinned(settings: Settings, way: Way) -> Batches:
    """Copied to pinned memory by PyTorch, then to the device."""
    loader = tureen(settings, shuffle=True)
    for _ in itertools.count():
        for images, _, ids in loader:
            locked = images.pin_memory() if way.device == "cuda" else images.clone()
            yield locked.to(way.device, non_blocking=True), ids


def pageable(settings: Settings, way: Way) -> Batches:
    """Copied to the device from memory that is not pinned."""
    loader = tureen(settings, shuffle=True)
    for _ in itertools.count():
        for images, _, ids in loader:
            yield images.to(way.device), ids


class Prepared(torch.utils.data.Dataset):
    """Pictures that need no preparing: what a loader of PyTorch costs beside it."""

    def __init__(self, all_pictures: torch.Tensor) -> None:
        self._pictures = all_pictures.share_memory_()

    def __len__(self) -> int:
        return len(self._pictures)

    def __getitem__(self, index: int) -> Tuple[torch.Tensor, int]:
        return self._pictures[index], index


def pytorch(settings: Settings, way: Way) -> Batches:
    """PyTorch's DataLoader: worker processes collate, a thread pins, the loop copies to the device."""
    loader: Any = torch.utils.data.DataLoader(
        Prepared(pictures(settings)), batch_size=BATCH, shuffle=True, num_workers=settings.workers,
        persistent_workers=True, pin_memory=way.device == "cuda")
    for _ in itertools.count():
        for images, ids in loader:
            yield images.to(way.device, non_blocking=True), ids


WAYS = {"ring": ring, "pinned": pinned, "pageable": pageable, "pytorch": pytorch}


#   ---- the job

class Compute:
    """A step: products of matrices after a read of the whole batch."""

    def __init__(self, way: Way) -> None:
        self._matrix = torch.full((MATRIX, MATRIX), 1 / MATRIX, device=way.device)
        self._products = way.products
        self._is_cuda = way.device == "cuda"

    def step(self, images: torch.Tensor) -> None:
        found = images.float().mean() + self._matrix
        for _ in range(self._products):
            found = found @ self._matrix

    def wait(self) -> None:
        if self._is_cuda:
            torch.cuda.synchronize()


def count_different(batches: Batches, expected: torch.Tensor) -> int:
    """Pictures of one epoch that are not what came to the host; each id must come once."""
    seen = torch.zeros(len(expected), dtype=torch.int64)
    different = 0
    while int(seen.sum()) < len(expected):
        images, ids = next(batches)
        seen[ids] += 1
        different += int((images.cpu() != expected[ids]).flatten(1).any(1).sum())
    return different + int((seen != 1).sum())


def seconds_of(steps: int, batches: Batches, compute: Compute) -> float:
    compute.wait()
    began = time.monotonic()
    for images, _ in itertools.islice(batches, steps):
        compute.step(images)
    compute.wait()
    return time.monotonic() - began


def main() -> None:
    settings, way = Settings(**json.loads(sys.argv[3])), Way(**json.loads(sys.argv[4]))
    torch.set_num_threads(1)
    assert len(photographs(settings)) % BATCH == 0, "gpu.py gives whole batches only"
    expected = pictures(settings)
    batches, compute = WAYS[way.name](settings, way), Compute(way)
    different = count_different(batches, expected)
    one = (expected[:BATCH].to(way.device), torch.arange(BATCH))
    seconds_of(WARM_STEPS, batches, compute)
    print(READY, flush=True)
    os.read(0, 1)
    loaded = seconds_of(way.steps, batches, compute)
    #  The other jobs of this run still compute, or do so too.
    resident = seconds_of(way.steps, itertools.repeat(one), compute)
    print(json.dumps({"different": different, "loaded_s": loaded, "resident_s": resident}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()

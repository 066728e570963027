#!/usr/bin/env python3
"""A training job in Python: reads batches through tureen.Loader at a given rate, and writes what it got.

Takes the flags of `tureen read` that the demo uses, and writes the same ids and the same JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Optional, Tuple

import tureen


class IdFile:
    """One line an epoch: its number, a colon, the ids in order of delivery; ` ...` ends an unfinished one."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "w", encoding="ascii")
        self._epoch: Optional[int] = None

    def add(self, epoch: int, ids: list[int]) -> None:
        if epoch != self._epoch:
            self._file.write(f"{epoch}:" if self._epoch is None else f"\n{epoch}:")
            self._epoch = epoch
        self._file.write("".join(f" {identity}" for identity in ids))
        self._file.flush()

    def close(self, finished: bool) -> None:
        if self._epoch is not None:
            self._file.write("\n" if finished else " ...\n")
        self._file.close()


def parse_subset(text: Optional[str]) -> Optional[Tuple[int, int]]:
    if text is None:
        return None
    low, _, high = text.partition(":")
    return int(low), int(high)


def main() -> int:
    parser = argparse.ArgumentParser(description="a training job that takes batches at a given rate")
    parser.add_argument("--connect", required=True)
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--name", default="")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--rate", type=float, required=True, help="samples a second")
    parser.add_argument("--subset", metavar="LO:HI")
    parser.add_argument("--ids", required=True, metavar="FILE")
    options = parser.parse_args()

    loader = tureen.Loader(options.connect, dataset=options.dataset, batch_size=options.batch,
                           epochs=options.epochs, subset=parse_subset(options.subset),
                           name=options.name)
    ids = IdFile(options.ids)
    samples, waited, brightness, finished = 0, 0.0, 0, False
    batches = iter(loader)                  # joins
    joined = asked = time.monotonic()
    first = got = 0.0
    try:
        for batch in batches:
            got = time.monotonic()
            first = first or got            # the schedule begins with the first batch
            waited += got - asked
            ids.add(batch.epoch, batch.ids.tolist())
            samples += len(batch.ids)
            #  Stands for the training step: looks at a few of the pixels, then lets the time go by.
            brightness += int(batch["image"][:, ::32, ::32].sum(dtype="int64"))
            time.sleep(max(0.0, first + samples / options.rate - time.monotonic()))
            asked = time.monotonic()
        finished = True
    finally:
        ids.close(finished)
    seconds = got - joined
    print(json.dumps({"name": options.name, "epochs": options.epochs, "samples": samples, "seconds": seconds,
                      "samples_per_second": samples / seconds if seconds > 0 else 0.0, "wait_seconds": waited,
                      "brightness": brightness}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

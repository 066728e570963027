#!/usr/bin/env python3
"""Cross-validation: five jobs at the same time, each on its own four fifths of the data, tested on the fifth
that it left out.

Any two of them have three fifths of the data in common, each sample is in the data of four: so the server
prepares a sample once where five loaders of their own would prepare it four times.

    PYTHONPATH=clients/python python3 examples/k_fold.py
"""
from __future__ import annotations

import argparse
import multiprocessing
import tempfile
from typing import Tuple

import numpy as np
import tureen
from images import CLASSES, make_folder
from model import EVALUATE, TRAIN, Model, shared


def fold(number: int, folds: int, samples: int, epochs: int, endpoint: str) -> Tuple[int, int]:
    """In its own process: (named rightly, tested)."""
    part = np.random.default_rng(0).permutation(samples) % folds        # the same in every process
    model = Model(len(CLASSES), rate=0.05)
    train = tureen.Loader(endpoint, "all", 32, epochs, pipeline=TRAIN, subset=part != number,
                          name=f"fold {number}")
    for batch in train:
        model.step(batch["image"], batch["label"])
    left_out = tureen.Loader(endpoint, "all", 100, 1, pipeline=EVALUATE, order="list",
                             ids=np.flatnonzero(part == number))
    right = sum(model.right(batch["image"], batch["label"]) for batch in left_out)
    return right, left_out.samples


def main() -> None:
    parser = argparse.ArgumentParser(description="cross-validation on one server")
    parser.add_argument("--samples", type=int, default=1200)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--folds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tureen-example-") as folder:
        server = tureen.serve(all=make_folder(f"{folder}/all", options.samples),
                              endpoint=f"ipc://{folder}/s.sock", cache="64M", workers=2)
        try:
            with multiprocessing.get_context("spawn").Pool(options.folds) as pool:
                found = pool.starmap(fold, [(number, options.folds, options.samples, options.epochs,
                                             server.endpoint)
                                            for number in range(options.folds)], chunksize=1)
            for number, (right, tested) in enumerate(found):
                print(f"fold {number}: accuracy {right / tested:.3f} on {tested}")
            print(f"all: {sum(right for right, _ in found) / options.samples:.3f}")
            print(shared(server.status()))
        finally:
            server.stop()


if __name__ == "__main__":
    main()

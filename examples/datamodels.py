#!/usr/bin/env python3
"""Datamodels: sixty models, each trained on a random half of the data, tell which samples help.

Each job knows only its own half.  No two halves are alike, so no order suits all jobs; they draw along
common random orders of all samples instead (docs/randomness.md, "Common passes"), and a sample is prepared
a few times an epoch where sixty loaders of their own would prepare it thirty times.

    PYTHONPATH=clients/python python3 examples/datamodels.py
"""
from __future__ import annotations

import argparse
import tempfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tureen
from images import CLASSES, make_folder
from model import EVALUATE, TRAIN, Model, shared


def half(job: int, samples: int) -> np.ndarray:
    """The job's samples: a random half, True where it has one."""
    return np.random.default_rng(job).permutation(samples) < samples // 2


def train(job: int, samples: int, epochs: int, endpoint: str) -> float:
    """The accuracy on all held-out samples of a model trained on the job's half."""
    model = Model(len(CLASSES), rate=0.05)
    for batch in tureen.Loader(endpoint, "train", 16, epochs, pipeline=TRAIN, subset=half(job, samples),
                               name=f"half {job}"):
        model.step(batch["image"], batch["label"])
    held_out = tureen.Loader(endpoint, "test", 100, 1, pipeline=EVALUATE, order="list")
    right = sum(model.right(batch["image"], batch["label"]) for batch in held_out)
    return right / held_out.samples


def main() -> None:
    parser = argparse.ArgumentParser(description="many models on random halves, on one server")
    parser.add_argument("--samples", type=int, default=1200)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=60)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tureen-example-") as folder:
        server = tureen.serve(train=make_folder(f"{folder}/train", options.samples),
                              test=make_folder(f"{folder}/test", 100),
                              endpoint=f"ipc://{folder}/s.sock", cache="4M", workers=2)
        try:
            with ThreadPoolExecutor(options.jobs) as pool:
                found = np.array(list(pool.map(lambda job: train(job, options.samples, options.epochs,
                                                                 server.endpoint), range(options.jobs))))
            #  How much better the models with a sample are than those without it.
            had = np.array([half(job, options.samples) for job in range(options.jobs)])
            with_it = (had * found[:, None]).sum(0) / np.maximum(had.sum(0), 1)
            without = (~had * found[:, None]).sum(0) / np.maximum((~had).sum(0), 1)
            effect = with_it - without
            print(f"{options.jobs} models: accuracy {found.mean():.3f} on average; the sample that helps "
                  f"most, {effect.argmax()}, adds {effect.max():.3f}, the worst, {effect.argmin()}, "
                  f"{effect.min():.3f}")
            print(shared(server.status()))
        finally:
            server.stop()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A training loop with nothing but NumPy: a server, a loader for each of two data sets, and what there is to
ask them.

    PYTHONPATH=clients/python python3 examples/numpy_only.py
"""
from __future__ import annotations

import argparse
import tempfile

import tureen
from images import CLASSES, make_folder
from model import EVALUATE, TRAIN, Model, shared


def accuracy(model: Model, validation: tureen.Loader) -> float:
    right = sum(model.right(batch["image"], batch["label"]) for batch in validation)
    return right / validation.samples


def main() -> None:
    parser = argparse.ArgumentParser(description="a training loop in NumPy")
    parser.add_argument("--samples", type=int, default=1200)
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tureen-example-") as folder:
        server = tureen.serve(train=make_folder(f"{folder}/train", options.samples),
                              val=make_folder(f"{folder}/val", options.samples // 4, seed=2),
                              endpoint=f"ipc://{folder}/s.sock", cache="64M", workers=2)
        try:
            train = tureen.Loader(server.endpoint, "train", 32, options.epochs, pipeline=TRAIN,
                                  name="numpy_only")
            #  Each loop over it is one epoch, in the order of the ids; the server prepares these samples
            #  once.
            validation = tureen.Loader(server.endpoint, "val", 100, 1, pipeline=EVALUATE, order="list")
            model = Model(len(CLASSES), rate=0.05)
            losses, epoch = [], 0
            for batch in train:                     # all epochs in one loop
                if batch.epoch != epoch:
                    print(f"epoch {epoch}: loss {sum(losses) / len(losses):.3f}, accuracy "
                          f"{accuracy(model, validation):.3f}")
                    losses, epoch = [], batch.epoch
                #  Views of the memory that the server wrote
                losses.append(model.step(batch["image"], batch["label"]))
            print(f"epoch {epoch}: loss {sum(losses) / len(losses):.3f}, accuracy "
                  f"{accuracy(model, validation):.3f}")
            stats = train.stats()
            print(f"{stats['samples']} samples in {stats['batches']} batches; the loop waited for "
                  f"{stats['waited_s']:.2f} s")
            print(shared(server.status()))
        finally:
            server.stop()


if __name__ == "__main__":
    main()

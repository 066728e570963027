#!/usr/bin/env python3
"""A sweep over the learning rate: eight trials at the same time, on one server; half-way the worse four are
killed.

Each trial is a process of its own and knows only the server's endpoint.  They begin, end and die as they
like: a sample is prepared once for all that still need it, and each trial gets every sample once an epoch, in
a random order.

    PYTHONPATH=clients/python python3 examples/sweep.py
"""
from __future__ import annotations

import argparse
import multiprocessing
import tempfile
from multiprocessing.connection import Connection, wait
from typing import Any, Dict, List

import numpy as np
import tureen
from images import CLASSES, make_folder
from model import EVALUATE, TRAIN, Model, shared


def trial(number: int, rate: float, endpoint: str, epochs: int, sweep: Connection) -> None:
    """In its own process.  Tells its accuracy after each epoch, and asks whether to go on."""
    model = Model(len(CLASSES), rate)
    validation = tureen.Loader(endpoint, "val", 100, 1, pipeline=EVALUATE, order="list")
    train = tureen.Loader(endpoint, "train", 32, epochs, pipeline=TRAIN, name=f"trial {number}")

    def report(epoch: int) -> None:
        right = sum(model.right(batch["image"], batch["label"]) for batch in validation)
        sweep.send((epoch, right / validation.samples))
        sweep.recv()

    epoch = 0
    for batch in train:
        if batch.epoch != epoch:
            report(epoch)
            epoch = batch.epoch
        model.step(batch["image"], batch["label"])
    report(epoch)


def run(endpoint: str, rates: List[float], epochs: int) -> Dict[int, float]:
    """All trials; the last accuracy of each that was not killed."""
    spawn = multiprocessing.get_context("spawn")
    processes: List[Any] = []
    pipes: Dict[Any, int] = {}              # of those that run; to the number of the trial
    for number, rate in enumerate(rates):
        ours, theirs = spawn.Pipe()
        processes.append(spawn.Process(target=trial, args=(number, rate, endpoint, epochs, theirs),
                                       daemon=True))
        pipes[ours] = number
        processes[-1].start()
        theirs.close()
    accuracies: Dict[int, float] = {}
    waiting: List[Any] = []                 # half-way, for what becomes of them
    try:
        while pipes:
            for pipe in wait(list(pipes)):
                number = pipes[pipe]
                epoch, accuracies[number] = pipe.recv()         # EOFError: the trial has failed, and said why
                if epoch == epochs - 1:
                    del pipes[pipe]
                if epoch != epochs // 2 - 1:
                    pipe.send("go on")
                    continue
                waiting.append(pipe)
                if len(waiting) == len(rates):
                    waiting.sort(key=lambda pipe: accuracies[pipes[pipe]])
                    #  Early stopping, as rude as it can be: the others do not notice
                    for worse in waiting[:len(rates) // 2]:
                        number = pipes.pop(worse)
                        processes[number].kill()
                        print(f"trial {number} (rate {rates[number]:.4f}) killed: accuracy "
                              f"{accuracies.pop(number):.3f} half-way")
                    for better in waiting[len(rates) // 2:]:
                        better.send("go on")
    finally:
        for process in processes:
            if pipes:
                process.kill()
            process.join()
    return accuracies


def main() -> None:
    parser = argparse.ArgumentParser(description="eight trials on one server, with early stopping")
    parser.add_argument("--samples", type=int, default=1200)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--trials", type=int, default=8)
    options = parser.parse_args()
    rates = [float(rate) for rate in 10 ** np.random.default_rng().uniform(-4, 0, options.trials)]
    with tempfile.TemporaryDirectory(prefix="tureen-example-") as folder:
        server = tureen.serve(train=make_folder(f"{folder}/train", options.samples),
                              val=make_folder(f"{folder}/val", options.samples // 4, seed=2),
                              endpoint=f"ipc://{folder}/s.sock", cache="64M", workers=2)
        try:
            for number, accuracy in sorted(run(server.endpoint, rates, options.epochs).items()):
                print(f"trial {number} (rate {rates[number]:.4f}): accuracy {accuracy:.3f}")
            print(shared(server.status()))
        finally:
            server.stop()


if __name__ == "__main__":
    main()

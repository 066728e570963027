#!/usr/bin/env python3
"""A training process that is killed with SIGKILL, again and again, and goes on each time where its checkpoint
was made.

The checkpoint holds the model, and `loader.state_dict ()`: what the model has been given.  Here it also holds
the ids of all samples that the model has learned from, to show that in the end each was there exactly once an
epoch.

    PYTHONPATH=clients/python python3 examples/resume.py
"""
from __future__ import annotations

import argparse
import multiprocessing
import os
import pickle
import random
import tempfile
import time
from typing import Any, Dict

import tureen
from images import CLASSES, make_folder
from model import TRAIN, Model, shared

EVERY = 3                   # batches between two checkpoints


def save(path: str, checkpoint: Dict[str, Any]) -> None:
    """All of it or nothing, whenever the process dies."""
    with open(path + ".new", "wb") as file:
        pickle.dump(checkpoint, file)
    os.replace(path + ".new", path)


def load(path: str) -> Dict[str, Any]:
    if not os.path.exists(path):
        return {"model": Model(len(CLASSES), rate=0.05), "loader": None, "seen": {}, "batches": 0}
    with open(path, "rb") as file:
        return dict(pickle.load(file))


def train(endpoint: str, path: str, epochs: int, step_s: float) -> None:
    """In its own process; begins anew, or where the checkpoint was made."""
    checkpoint = load(path)
    #  A `job` is a run by name: what is left of the killed process at the server makes way for this one.
    loader = tureen.Loader(endpoint, "train", 32, epochs, pipeline=TRAIN, job="resume")
    if checkpoint["loader"]:
        loader.load_state_dict(checkpoint["loader"])
    for batch in loader:
        checkpoint["model"].step(batch["image"], batch["label"])
        time.sleep(step_s)                          # as a larger model would
        checkpoint["seen"].setdefault(batch.epoch, []).extend(batch.ids.tolist())
        checkpoint["batches"] += 1
        if checkpoint["batches"] % EVERY == 0:
            checkpoint["loader"] = loader.state_dict()
            save(path, checkpoint)
    checkpoint["loader"] = loader.state_dict()
    save(path, checkpoint)


def kill_in_the_middle(process: Any, path: str, batches: int) -> bool:
    """Once its checkpoint has so many batches; False: it came to its end before."""
    while process.is_alive():
        if load(path)["batches"] >= batches:
            process.kill()
            process.join()
            return True
        time.sleep(0.01)
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description="killed and resumed")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--step", type=float, default=0.03, help="seconds that a batch takes the model")
    options = parser.parse_args()
    batches = options.epochs * -(-options.samples // 32)
    moments = sorted(random.sample(range(EVERY, batches - 2 * EVERY), options.kills))
    with tempfile.TemporaryDirectory(prefix="tureen-example-") as folder:
        server = tureen.serve(train=make_folder(f"{folder}/train", options.samples),
                              endpoint=f"ipc://{folder}/s.sock", cache="64M", workers=2)
        path, spawn, killed = f"{folder}/checkpoint", multiprocessing.get_context("spawn"), 0
        try:
            for moment in [*moments, batches]:
                process = spawn.Process(target=train, args=(server.endpoint, path, options.epochs,
                                                            options.step), daemon=True)
                process.start()
                if moment < batches and kill_in_the_middle(process, path, moment):
                    killed += 1
                    print(f"killed; the checkpoint has {load(path)['batches']} of {batches} batches")
                process.join()
            seen = load(path)["seen"]
            for epoch in range(options.epochs):
                if sorted(seen.get(epoch, [])) != list(range(options.samples)):
                    raise SystemExit(f"epoch {epoch}: a sample was lost or repeated")
                print(f"epoch {epoch}: {options.samples} samples, each exactly once")
            print(f"killed {killed} times; {shared(server.status())}")
        finally:
            server.stop()


if __name__ == "__main__":
    main()

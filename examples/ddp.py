#!/usr/bin/env python3
"""Data-parallel training (PyTorch's DDP): several processes take one job together, are killed in mid-epoch,
and others, more of them, go on from the checkpoint.

Each step is dealt out to all ranks, every sample once an epoch over all of them, and all get equally many
batches.  A rank for which nothing is left of the last step gets padding, which counts nowhere.
`loader.state_dict ()` is the whole job's, whichever rank's it is.

    PYTHONPATH=clients/python python3 examples/ddp.py
    PYTHONPATH=clients/python torchrun --standalone --nproc_per_node 2 examples/ddp.py      # trains, without
    the killing
"""
from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from typing import Any, Dict, List, Tuple

import torch
import torch.distributed as distributed
import tureen
from images import CLASSES, make_folder
from model import EVALUATE, FREQUENCIES, TRAIN, Model, shared
from torch.nn.parallel import DistributedDataParallel
from tureen.torch import DataLoader

EVERY = 3                   # steps between two checkpoints


#  What each rank does

def features(images: torch.Tensor) -> torch.Tensor:
    """Stands for the lower layers of your network."""
    return torch.from_numpy(Model.features(images.permute(0, 2, 3, 1).numpy())).float()


def evaluate(model: torch.nn.Module, loader: DataLoader) -> float:
    """The ranks share the work; padding is one of the samples once more, so it is left out."""
    right = torch.zeros(2)
    with torch.no_grad():
        for images, labels in loader:
            if not loader.padding:
                right += torch.tensor([(model(features(images)).argmax(1) == labels).sum(), len(labels)])
    distributed.all_reduce(right)
    return float(right[0] / right[1])


def save(path: str, checkpoint: Dict[str, Any]) -> None:
    """All of it or nothing, whenever the process dies."""
    torch.save(checkpoint, path + ".new")
    os.replace(path + ".new", path)


def train(options: argparse.Namespace, endpoint: str, folder: str) -> None:
    """In every process; begins anew, or where the checkpoint was made."""
    rank, path = distributed.get_rank(), f"{folder}/checkpoint"
    torch.manual_seed(1)
    linear = torch.nn.Linear(2 * FREQUENCIES * FREQUENCIES + 1, len(CLASSES))
    model, steps = DistributedDataParallel(linear), 0
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    loss_function = torch.nn.CrossEntropyLoss()
    #  As in a process alone: rank and world size are torch.distributed's.
    loader = DataLoader("train", 32, shuffle=True, transform=TRAIN, endpoint=endpoint, epochs=options.epochs,
                        ids=True)
    validation = DataLoader("val", 50, transform=EVALUATE, endpoint=endpoint)
    if os.path.exists(path):
        checkpoint = torch.load(path)
        linear.load_state_dict(checkpoint["model"])
        loader.load_state_dict(checkpoint["loader"])
        steps = checkpoint["steps"]
    with open(f"{folder}/{options.attempt}-{rank}.seen", "a", encoding="ascii") as seen:
        for epoch in range(loader.epoch, options.epochs):
            for images, labels, ids in loader:
                loss = loss_function(model(features(images)), labels)
                if loader.padding:
                    #  Its gradients count nothing, and the other ranks need not wait for them
                    loss = loss * 0
                steps += 1
                #  Before the ranks exchange gradients: what rank 0 saves, all have written down
                learned = "padding" if loader.padding else ",".join(map(str, ids.tolist()))
                print(steps, epoch, learned, file=seen, flush=True)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                time.sleep(options.step)        # as a larger model would
                if rank == 0 and steps % EVERY == 0:
                    save(path, {"model": linear.state_dict(), "loader": loader.state_dict(), "steps": steps})
            accuracy = evaluate(model, validation)
            if rank == 0:
                print(f"epoch {epoch}: accuracy {accuracy:.3f}, {loader.world_size} ranks", flush=True)
    loader.close()
    validation.close()


def be_a_rank(options: argparse.Namespace) -> None:
    distributed.init_process_group("gloo")
    try:
        if options.endpoint:
            train(options, options.endpoint, options.folder)
            distributed.barrier()               # a process that leaves early breaks the others' connections
            return
        with tempfile.TemporaryDirectory(prefix="tureen-example-") as folder:
            of_rank_0: List[Any] = [None]
            if distributed.get_rank() == 0:
                server = start_server(options, folder)
                of_rank_0 = [(server.endpoint, folder)]
            distributed.broadcast_object_list(of_rank_0)
            train(options, *of_rank_0[0])
            distributed.barrier()
            if distributed.get_rank() == 0:
                print(shared(server.status()))
                server.stop()
    finally:
        distributed.destroy_process_group()


#  What starts and kills them

def start_server(options: argparse.Namespace, folder: str) -> tureen.Server:
    return tureen.serve(train=make_folder(f"{folder}/train", options.samples), cache="64M", workers=2,
                        val=make_folder(f"{folder}/val", options.samples // 4, seed=2),
                        endpoint=f"ipc://{folder}/s.sock")


def start(options: argparse.Namespace, attempt: int, world_size: int, endpoint: str,
          folder: str) -> List[Any]:
    """As many processes, with the environment that torchrun would give them."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = dict(os.environ, WORLD_SIZE=str(world_size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                       TORCHELASTIC_RUN_ID="ddp-example", OMP_NUM_THREADS="1")
    command = [sys.executable, __file__, "--endpoint", endpoint, "--folder", folder, "--attempt",
               str(attempt), "--epochs", str(options.epochs), "--step", str(options.step)]
    return [subprocess.Popen(command, env={**environment, "RANK": str(rank)}) for rank in range(world_size)]


def steps_saved(folder: str) -> int:
    return int(torch.load(f"{folder}/checkpoint")["steps"]) if os.path.exists(f"{folder}/checkpoint") else 0


def kill_behind(processes: List[Any], folder: str, steps: int) -> None:
    """All ranks, once the checkpoint has so many steps; on a machine that is busy they may come to their end
    before."""
    while steps_saved(folder) < steps and all(process.poll() is None for process in processes):
        time.sleep(0.01)
    for process in processes:
        process.kill()
    if any([process.wait() not in (0, -signal.SIGKILL) for process in processes]):
        raise SystemExit("a rank failed")


def learned(folder: str, attempt: int, world_size: int, first: int,
            last: int) -> Tuple[Dict[int, Counter[int]], int]:
    """Of the steps behind `first` up to `last`, what all ranks of an attempt have learned from: in each epoch
    how often each sample; and how many batches were padding.  Checks that all ranks made the same steps."""
    samples: Dict[int, Counter[int]] = {}
    steps, padding = set(), 0
    for rank in range(world_size):
        with open(f"{folder}/{attempt}-{rank}.seen", encoding="ascii") as file:
            lines = [line.split() for line in file if line.endswith("\n")
                     and first < int(line.split()[0]) <= last]
        steps.add(tuple((step, epoch) for step, epoch, _ in lines))
        for _, epoch, ids in lines:
            if ids == "padding":
                padding += 1
            else:
                samples.setdefault(int(epoch), Counter()).update(map(int, ids.split(",")))
    if len(steps) != 1:
        raise SystemExit(f"attempt {attempt}: the ranks made different steps")
    print(f"attempt {attempt}: {world_size} ranks, {len(steps.pop())} steps each that count")
    return samples, padding


def main() -> None:
    parser = argparse.ArgumentParser(description="data-parallel training, killed and gone on with by more "
                                     "ranks")
    parser.add_argument("--samples", type=int, default=1153, help="one more than whole steps: so there is "
                        "padding")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=2, help="at first")
    parser.add_argument("--then", type=int, default=3, help="ranks that go on")
    parser.add_argument("--step", type=float, default=0.02, help="seconds that a step takes the model")
    #  Of the ranks that this script starts
    parser.add_argument("--endpoint", default="", help=argparse.SUPPRESS)
    parser.add_argument("--folder", default="", help=argparse.SUPPRESS)
    parser.add_argument("--attempt", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if "RANK" in os.environ:
        be_a_rank(options)
        return
    with tempfile.TemporaryDirectory(prefix="tureen-example-") as folder:
        server = start_server(options, folder)
        processes: List[Any] = []
        try:
            processes = start(options, 0, options.ranks, server.endpoint, folder)
            steps_of_epoch = -(-options.samples // (32 * options.ranks))
            kill_behind(processes, folder, steps_of_epoch + steps_of_epoch // 2)
            saved = steps_saved(folder)
            print(f"killed all {options.ranks} ranks; the checkpoint has {saved} steps, {steps_of_epoch} are "
                  "an epoch")
            processes = start(options, 1, options.then, server.endpoint, folder)
            if any([process.wait() for process in processes]):
                raise SystemExit("a rank failed")
            before, padding_before = learned(folder, 0, options.ranks, 0, saved)
            after, padding = learned(folder, 1, options.then, saved, sys.maxsize)
            for epoch in range(options.epochs):
                if before.get(epoch, Counter()) + after.get(epoch,
                                                            Counter()) != Counter(range(options.samples)):
                    raise SystemExit(f"epoch {epoch}: a sample was lost or repeated")
                print(f"epoch {epoch}: {options.samples} samples over all ranks, each exactly once")
            print(f"{padding_before + padding} batches of padding, which count nowhere; "
                  f"{shared(server.status())}")
        finally:
            for process in processes:
                process.kill()
                process.wait()
            server.stop()


if __name__ == "__main__":
    main()

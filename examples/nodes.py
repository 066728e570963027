#!/usr/bin/env python3
"""Training on several nodes, each with a server of its own, that is stopped, and goes on with another number
of nodes (docs/cluster.md).

torchrun starts it on each node.  Nothing in it names a node or a server: the loader finds its node in
torchrun's environment, and its server at the default endpoint (or at $TUREEN_ENDPOINT).  The checkpoint has
the state of the whole job, so any number of nodes goes on from it.  It also counts what the model has learned
from, and the last checkpoint proves that this was each sample once an epoch.

    tureen serve --dataset train=FOLDER &           # on each node
    torchrun --nnodes 2 --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint HOST:29500 examples/nodes.py
"""
from __future__ import annotations

import argparse
import os
import time

import torch
import torch.distributed as distributed
from ddp import features, save
from images import CLASSES
from model import FREQUENCIES, TRAIN
from torch.nn.parallel import DistributedDataParallel
from tureen.torch import DataLoader


def is_asked_to_stop(path: str) -> bool:
    """The same on all ranks, behind the same step."""
    asked = torch.tensor(int(os.path.exists(path)))
    distributed.all_reduce(asked, distributed.ReduceOp.MAX)
    return bool(asked)


def train(options: argparse.Namespace) -> bool:
    """In every process; begins anew, or where the checkpoint was made.  Whether all epochs are over."""
    rank = distributed.get_rank()
    torch.manual_seed(1)
    linear = torch.nn.Linear(2 * FREQUENCIES * FREQUENCIES + 1, len(CLASSES))
    model, steps = DistributedDataParallel(linear), 0
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    loss_function = torch.nn.CrossEntropyLoss()
    #  A server at tcp:// may be one for all nodes, unless the loader is told which node this is.
    place = ({"nodes": int(os.environ["GROUP_WORLD_SIZE"]), "node": int(os.environ["GROUP_RANK"])}
             if options.own_server else {})
    loader = DataLoader(options.dataset, options.batch, shuffle=True, transform=TRAIN, epochs=options.epochs,
                        ids=True, **place)
    #  How often the model has learned from each sample: by this rank, and on rank 0 also before the
    #  checkpoint that was loaded.
    learned = torch.zeros(options.epochs, len(loader.dataset), dtype=torch.int64)
    if os.path.exists(options.checkpoint):
        checkpoint = torch.load(options.checkpoint)
        linear.load_state_dict(checkpoint["model"])
        loader.load_state_dict(checkpoint["loader"])
        steps = checkpoint["steps"]
        if rank == 0:
            learned += checkpoint["learned"]
            print(f"goes on behind step {steps}", flush=True)

    def checkpoint_now() -> None:
        """All ranks of all nodes call it behind the same step."""
        state, everywhere = loader.state_dict(gather=True), learned.clone()
        distributed.reduce(everywhere, 0)
        if rank == 0:
            save(options.checkpoint, {"model": linear.state_dict(), "loader": state, "steps": steps,
                                      "learned": everywhere})

    for epoch in range(loader.epoch, options.epochs):
        for images, labels, ids in loader:
            loss = loss_function(model(features(images)), labels)
            if loader.padding:
                loss = loss * 0             # its gradients count nothing, and no other rank waits for them
            else:
                learned[epoch, ids] += 1
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            time.sleep(options.step)        # as a larger model would
            steps += 1
            stops = is_asked_to_stop(options.stop)
            if stops or steps % options.every == 0:
                checkpoint_now()
            if stops:
                return False
        if rank == 0:
            print(f"epoch {epoch} is over behind step {steps}: {loader.nodes} nodes of {loader.world_size} "
                  f"ranks", flush=True)
    checkpoint_now()
    loader.close()
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description="training on several nodes, as torchrun starts it")
    parser.add_argument("--dataset", default="train")
    parser.add_argument("--batch", type=int, default=32, help="of each rank")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--step", type=float, default=0.0, help="seconds that a step takes the model")
    parser.add_argument("--checkpoint", default="checkpoint", help="a file that all nodes see")
    parser.add_argument("--every", type=int, default=10, help="steps between two checkpoints")
    parser.add_argument("--stop", default=os.environ.get("STOP_FILE", "stop"), help="when this file is "
                        "there, all ranks make a checkpoint and end; all nodes see it, too")
    parser.add_argument("--own-server", action="store_true", help="$TUREEN_ENDPOINT is at tcp://, and all "
                        "the same this node's own server")
    options = parser.parse_args()
    distributed.init_process_group("gloo")
    is_over = train(options)
    if distributed.get_rank() == 0:
        if not is_over:
            print("stopped: the checkpoint has the state", flush=True)
        elif (torch.load(options.checkpoint)["learned"] != 1).any():
            raise SystemExit("a sample was lost or repeated")
        else:
            print(f"{options.epochs} epochs: the model has learned from each sample once an epoch",
                  flush=True)
    distributed.barrier()                   # a process that leaves early breaks the others' connections
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()

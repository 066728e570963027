#!/usr/bin/env python3
"""Training on a Ray cluster: each node has a server, and several actors that train on the node's part of the
job.  A node is lost in mid-epoch, and the others go on from the last checkpoint.

The driver asks all trainers for a few steps at a time.  It merges their states to that of the whole job, and
counts what they have learned from.  When a node is lost, it throws away the round, and starts trainers on the
nodes that are left: each sample comes exactly once an epoch all the same.

    python3 examples/ray_cluster.py                                 # a cluster of three nodes on this machine
    python3 examples/ray_cluster.py --address auto --data /data/train        # yours; no node is removed
"""
from __future__ import annotations

import argparse
import os
import tempfile
from collections import Counter
from typing import Any, Dict, List, Optional, Sequence, Tuple

import ray
import tureen
from images import make_folder
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

BATCH, ROUND = 8, 3         # samples of a step on each trainer; steps between two checkpoints
LOSS_ROUND = 3              # behind which a node is removed from the cluster that is made here
ATTEMPTS_MAX = 5
#  Of one trainer in one round: epoch, and the step's samples, or None for padding.
Steps = List[Tuple[int, Optional[List[int]]]]


class Server:
    """An actor on each node: the node's server, for as long as jobs use it."""

    def __init__(self, folder: str, data: str) -> None:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._server = tureen.serve(train=data, endpoint=f"ipc://{folder}/server.sock", cache="64M",
                                    workers=1, idle=10)

    def endpoint(self) -> str:
        return self._server.endpoint

    def status(self) -> Dict[str, Any]:
        return self._server.status()

    def stop(self) -> None:
        self._server.stop()


class Trainer:
    """An actor for each process that trains."""

    def __init__(self, state: Optional[Dict[str, Any]], **options: Any) -> None:
        self._loader = tureen.Loader(batch_size=BATCH, **options)
        if state is not None:
            self._loader.load_state_dict(state)
        self._batches = iter(self._loader)

    def steps(self) -> Tuple[Steps, Dict[str, Any]]:
        """A round: what it learned from, and where it is; no steps behind the last epoch."""
        learned: Steps = []
        for batch in self._batches:
            #  Your model learns here from batch["image"] and batch["label"], and not from padding.
            learned.append((batch.epoch, None if batch.padding else batch.ids.tolist()))
            if len(learned) == ROUND:
                break
        return learned, self._loader.state_dict()


def on(node: str) -> Dict[str, Any]:
    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False), "num_cpus": 1}


class Training:
    """The driver's side."""

    def __init__(self, options: argparse.Namespace, nodes: Sequence[str], folder: str, data: str) -> None:
        self._options, self._nodes, self._attempt = options, list(nodes), 0
        start = ray.remote(Server)
        self._servers = {node: start.options(**on(node)).remote(f"{folder}/{node[:12]}", data)
                         for node in nodes}
        self._endpoints = {node: ray.get(server.endpoint.remote()) for node, server in self._servers.items()}
        self.state: Optional[Dict[str, Any]] = None
        self.learned: Dict[int, Counter[int]] = {}
        self.padding = 0

    def begin(self) -> None:
        """Trainers on all nodes, from the last checkpoint.  Their job has a name that no earlier one had."""
        self._attempt += 1
        start = ray.remote(Trainer)
        self._trainers = [
            start.options(**on(node)).remote(
                self.state, endpoint=self._endpoints[node], epochs=self._options.epochs,
                job=f"ray-{self._attempt}", nodes=len(self._nodes), node=number, rank=rank,
                world_size=self._options.ranks)
            for number, node in enumerate(self._nodes) for rank in range(self._options.ranks)]
        print(f"attempt {self._attempt}: {len(self._nodes)} nodes of {self._options.ranks} trainers",
              flush=True)

    def round(self) -> bool:
        """A few steps of all trainers; False where nothing was left.  RayActorError where one is lost."""
        found = ray.get([trainer.steps.remote() for trainer in self._trainers])
        if len({len(steps) for steps, _ in found}) != 1:
            raise SystemExit("the trainers made different numbers of steps")
        for steps, _ in found:
            for epoch, ids in steps:
                self.padding += ids is None
                self.learned.setdefault(epoch, Counter()).update(ids or [])
        self.state = tureen.merge_states(state for _, state in found)
        return bool(found[0][0])

    def mend(self) -> None:
        """Begins again on the nodes that are there.  The server of a lost one ends by itself."""
        for trainer in self._trainers:
            ray.kill(trainer)
        there = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        self._nodes = [node for node in self._nodes if node in there]
        if self._attempt == ATTEMPTS_MAX:
            raise SystemExit(f"{ATTEMPTS_MAX} attempts failed")
        self.begin()

    def finish(self) -> Tuple[int, int]:
        """Samples that the servers prepared and delivered."""
        servers = [self._servers[node] for node in self._nodes]
        told = ray.get([server.status.remote() for server in servers])
        ray.get([server.stop.remote() for server in servers])
        return sum(status["prepared"] for status in told), sum(status["delivered"] for status in told)


def train(options: argparse.Namespace, folder: str, data: str, cluster: Any) -> None:
    training = Training(options, [node["NodeID"] for node in ray.nodes() if node["Alive"]], folder, data)
    training.begin()
    rounds, is_going = 0, True
    while is_going:
        try:
            is_going = training.round()
            rounds += 1
        except ray.exceptions.RayActorError:
            print("trainers are lost: the round is thrown away", flush=True)
            training.mend()
            continue
        if cluster is not None and rounds == LOSS_ROUND:
            cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
    samples = int(training.state["samples"]) if training.state else 0
    for epoch in range(options.epochs):
        if training.learned.get(epoch) != Counter(range(samples)):
            raise SystemExit(f"epoch {epoch}: a sample was lost or repeated")
        print(f"epoch {epoch}: {samples} samples over all nodes, each exactly once")
    prepared, delivered = training.finish()
    print(f"{training.padding} batches of padding; the servers that are left prepared {prepared} samples and "
          f"delivered {delivered}")


def main() -> None:
    parser = argparse.ArgumentParser(description="training on a Ray cluster that loses a node")
    parser.add_argument("--address", help="of a cluster; otherwise one is made on this machine")
    parser.add_argument("--data", help="a folder that every node sees; otherwise one is made")
    parser.add_argument("--samples", type=int, default=301, help="of the folder that is made")
    parser.add_argument("--nodes", type=int, default=3, help="of the cluster that is made")
    parser.add_argument("--ranks", type=int, default=2, help="trainers on each node")
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tureen-ray-") as folder:
        data = options.data or make_folder(f"{folder}/train", options.samples)
        cluster = None
        if options.address is None:
            from ray.cluster_utils import Cluster
            cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1 + options.ranks})
            for _ in range(options.nodes - 1):
                cluster.add_node(num_cpus=1 + options.ranks)
            cluster.wait_for_nodes()
        ray.init(address=options.address or cluster.address, log_to_driver=False)
        try:
            train(options, folder, data, cluster)
        finally:
            ray.shutdown()
            if cluster is not None:
                cluster.shutdown()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""One job over three nodes with two ranks each, and a machine that lends its processors; see cluster.sh.

Every machine is a network namespace (tests/system/network.py).  Each node has a server of its own on the
same pack, and no server knows of another; with --peers the pack is in an object store on a fifth machine, and
the servers keep its blocks for each other.  The fourth machine runs `tureen work` for all three; it is killed
in the first epoch, and started again.
"""
from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "system"))

from network import Network             # noqa: E402
from object_store import ObjectStore    # noqa: E402

NODES, RANKS, EPOCHS, BATCH, PORT = 3, 2, 8, 16, 5555
CANNOT = 77
LENT, STORE = "lent", "store"
MEMBER_PORT, CACHED = 7600, 0.5
PATIENCE_S = 60.0


class Node:
    """A machine with a server, and its ranks."""

    def __init__(self, network: Network, options: argparse.Namespace, number: int, pack: str,
                 arguments: List[str], environment: Dict[str, str]) -> None:
        self.number, self.name = number, f"node{number}"
        self._on, self._tureen = network.on(self.name), options.binary
        self.endpoint = f"tcp://{network.address(self.name)}:{PORT}"
        self._folder: Path = options.directory / self.name
        (self._folder / "run").mkdir(parents=True, mode=0o700)
        self._options = options
        for key, role in (("client", ["--tenant", "operator", "--operator"]), ("worker", ["--worker"])):
            call(options, "key", "allow", str(self._folder / "keys"), str(options.directory / key), *role)
        self._environment = dict(os.environ, **environment, XDG_RUNTIME_DIR=str(self._folder / "run"),
                                 TUREEN_KEY=str(options.directory / "client"))
        self._server = self._start("server", "serve", "--dataset", f"train={pack}", "--listen", self.endpoint,
                                   "--keys", str(self._folder / "keys"), "--cache", "64M", "--raw", "16M",
                                   "--workers", "1", *arguments)
        self.certificate = self._folder / "keys" / "server"
        self._ranks: List[subprocess.Popen[bytes]] = []
        self.ids: List[Path] = []       # a file of each rank

    def _start(self, log: str, *arguments: str) -> "subprocess.Popen[bytes]":
        with open(self._folder / log, "wb") as output:
            return subprocess.Popen([*self._on, str(self._tureen), *arguments], stdout=output,
                                    stderr=subprocess.STDOUT, env=self._environment)

    def wait(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while b"listening on" not in (self._folder / "server").read_bytes():
            if self._server.poll() is not None or time.monotonic() > deadline:
                raise SystemExit((self._folder / "server").read_text())
            time.sleep(0.02)
        self._environment["TUREEN_SERVER_KEY"] = str(self.certificate)

    def train(self) -> None:
        for rank in range(RANKS):
            self.ids.append(self._folder / f"rank{rank}.ids")
            self._ranks.append(self._start(
                f"rank{rank}", "read", "--connect", self.endpoint, "--dataset", "train", "--batch",
                str(BATCH), "--epochs", str(EPOCHS), "--nodes", str(NODES), "--node", str(self.number),
                "--world-size", str(RANKS), "--rank", str(rank), "--job", "training", "--ids",
                str(self.ids[-1]), "--json"))

    def is_training(self) -> bool:
        return any(rank.poll() is None for rank in self._ranks)

    def results(self) -> List[Dict[str, Any]]:
        found = []
        for rank, process in enumerate(self._ranks):
            text = (self._folder / f"rank{rank}").read_text()
            if process.wait():
                raise SystemExit(f"rank {rank} of {self.name} failed:\n{text}")
            found.append(json.loads(text.splitlines()[-1]))
        return found

    def status(self) -> Dict[str, Any]:
        done = subprocess.run([*self._on, str(self._tureen), "status", "--connect", self.endpoint,
                               "--json"], stdout=subprocess.PIPE, check=True, env=self._environment)
        return dict(json.loads(done.stdout))

    def end(self) -> None:
        for process in [*self._ranks, self._server]:
            if process.poll() is None:
                process.terminate()
        for process in [*self._ranks, self._server]:
            process.wait()


def call(options: argparse.Namespace, *arguments: str) -> str:
    done = subprocess.run([str(options.binary), *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise SystemExit(done.stdout.decode(errors="replace"))
    return done.stdout.decode()


@contextlib.contextmanager
def lending(network: Network, options: argparse.Namespace, nodes: List[Node]) -> Iterator[Any]:
    """`tureen work` for all nodes."""
    arguments: List[str] = []
    for node in nodes:
        arguments += ["--connect", node.endpoint, "--server-key", str(node.certificate)]
    with open(options.directory / "worker.log", "ab") as output:
        worker = subprocess.Popen([*network.on(LENT), str(options.binary), "work", "--key",
                                   str(options.directory / "worker"), *arguments], stdout=output,
                                  stderr=subprocess.STDOUT)
    try:
        yield worker
    finally:
        if worker.poll() is None:
            worker.terminate()
        worker.wait()


class Sent(threading.Thread):
    """What the store sent while the slowest node was in each epoch."""

    def __init__(self, store: ObjectStore, nodes: List[Node]) -> None:
        super().__init__(daemon=True)
        self._store, self._nodes, self._ending = store, nodes, threading.Event()
        self.bytes = [0] * EPOCHS

    def run(self) -> None:
        before = self._store.sent("volume")
        while not self._ending.wait(0.05):
            jobs = [job for node in self._nodes for job in node.status()["jobs"]]
            epoch = min((job["consumed_epoch"] or 0 for job in jobs), default=None)
            now = self._store.sent("volume")
            if epoch is not None:
                self.bytes[epoch] += now - before
                before = now

    def end(self) -> None:
        self._ending.set()
        self.join()


@contextlib.contextmanager
def storing(network: Network, options: argparse.Namespace) -> Iterator[Any]:
    """The store, on its machine; None: there is none."""
    if not options.peers:
        yield None
        return
    with network.inside(STORE):
        store = ObjectStore(str(options.directory), host=network.address(STORE))
    with store:
        yield store


def member_arguments(network: Network, options: argparse.Namespace, number: int) -> List[str]:
    if not options.peers:
        return []
    pack = options.directory / "bucket" / "pack"
    size = int(CACHED * sum(path.stat().st_size for path in pack.glob("volume-*")))
    names = [f"{network.address(f'node{other}')}:{MEMBER_PORT}" for other in range(NODES)]
    return ["--disk", f"{options.directory}/cache{number}={size}", "--members", ",".join(names),
            "--member", names[number], "--member-keys", str(options.directory / "members")]


def train(network: Network, options: argparse.Namespace, nodes: List[Node], store: Any) -> None:
    """The job, while the fourth machine comes, dies and comes again."""
    sent = Sent(store, nodes) if store else None
    if sent:
        sent.start()
    with lending(network, options, nodes) as worker:
        time.sleep(1)
        for node in nodes:
            node.train()
        time.sleep(2)
        worker.send_signal(signal.SIGKILL)
    print("the lending machine was killed in the middle of the job", flush=True)
    time.sleep(1)
    with lending(network, options, nodes):
        print("and is back", flush=True)
        while any(node.is_training() for node in nodes):
            time.sleep(0.05)
        if sent:
            sent.end()
        time.sleep(0.5)
        report(options, nodes)
    if sent:
        print("the store sent, in each epoch of the slowest node: "
              + ", ".join(f"{one / 1e6:.1f}" for one in sent.bytes) + " MB")


def report(options: argparse.Namespace, nodes: List[Node]) -> None:
    results = {node.name: node.results() for node in nodes}
    steps = {result["batches"] for ranks in results.values() for result in ranks}
    samples = nodes[0].status()["datasets"][0]["samples"]
    print(call(options, "audit", "--ranks", "--samples", str(samples),
               *(str(path) for node in nodes for path in node.ids)))
    if len(steps) != 1:
        raise SystemExit(f"the ranks have different numbers of steps: {sorted(steps)}")
    print(f"steps: {steps.pop()} on every rank, of which padding: "
          f"{', '.join(str(ranks[0]['padding']) for ranks in results.values())} on the nodes")
    for node in nodes:
        status = node.status()
        pack = status["datasets"][0]["pack"]
        lent = status["remote_workers"]
        done = sum(worker["done"] for worker in lent)
        print(f"{node.name}: {pack['bytes_read'] / 1e6:.1f} MB read; {status['prepared']} samples prepared, "
              f"{done} of them by the lending machine since it is back")
        if options.peers:
            print(f"    of these MB {pack['source_bytes'] / 1e6:.1f} from the store, "
                  f"{pack['peer_bytes'] / 1e6:.1f} from other nodes, "
                  f"{pack['block_cache_bytes'] / 1e6:.1f} from its own disk; given to others: "
                  f"{status['cluster']['given']['bytes'] / 1e6:.1f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--peers", action="store_true")
    options = parser.parse_args()
    options.binary = options.binary.resolve()
    refusal = Network.refusal()
    if refusal is not None:
        print(f"this cannot be shown here: {refusal}", file=sys.stderr)
        return CANNOT
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
    pack = options.directory / "bucket" / "pack"
    pack.parent.mkdir()
    call(options, "pack", str(options.data), str(pack))
    (options.directory / "members").mkdir(mode=0o700)
    for name in ("client", "worker", "members/server"):
        call(options, "key", "new", str(options.directory / name))
    address = "s3://bucket/pack" if options.peers else str(pack)
    with Network([f"node{number}" for number in range(NODES)] + [LENT, STORE]) as network, \
            storing(network, options) as store:
        nodes: List[Node] = []
        try:
            for number in range(NODES):
                nodes.append(Node(network, options, number, address,
                                  member_arguments(network, options, number),
                                  store.environment() if store else {}))
            for node in nodes:
                node.wait()
            train(network, options, nodes, store)
        finally:
            for node in nodes:
                node.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""examples/nodes.py under a real torchrun: two nodes on one machine, a live server for each, gloo.

Run by ctest (torch_torchrun), or by hand: TUREEN_BIN=build/release/bin python3
tests/clients/test_torch_torchrun.py [-v] [NAME]
"""
from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, Dict, List

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent / "system")]

import torch_or_skip                    # noqa: F401  # ends this program where there is no PyTorch
import harness
import torch

SAMPLES, BATCH, EPOCHS, RANKS = 301, 8, 3, 2
STEPS = 10                              # of an epoch, for two nodes of two ranks
#  Without them, PyTorch 1.13 on Python 3.11 fails before it starts a process: it cannot read its own default.
STREAMS = ["--redirects", "1", "--tee", "1"]


class Torchrun(unittest.TestCase):
    def setUp(self) -> None:
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="tu-", dir="/tmp")))
        data = str(self.folder / "train")
        harness.make_folder(data, SAMPLES, classes=4, seed=harness.SEED)
        self.servers = [self.stack.enter_context(harness.Server({"train": data})) for _ in range(2)]
        self.logs: List[Path] = []

    def start(self, node: int, *arguments: str, step: float = 0.0) -> "subprocess.Popen[bytes]":
        """A node's torchrun, in a process group of its own."""
        self.logs.append(self.folder / f"log-{len(self.logs)}")
        script = [str(ROOT / "examples" / "nodes.py"), "--epochs", str(EPOCHS), "--batch", str(BATCH),
                  "--checkpoint", str(self.folder / "checkpoint"), "--stop", str(self.folder / "stop"),
                  "--every", "1", "--step", str(step)]
        environment = dict(os.environ, TUREEN_ENDPOINT=self.servers[node].endpoint, OMP_NUM_THREADS="1",
                           PYTHONDONTWRITEBYTECODE="1", TMPDIR=str(self.folder),
                           PYTHONPATH=str(ROOT / "clients" / "python"))
        with open(self.logs[-1], "wb") as log:
            process = subprocess.Popen([sys.executable, "-m", "torch.distributed.run", *STREAMS, *arguments,
                                        *script], stdout=log, stderr=subprocess.STDOUT, env=environment,
                                       start_new_session=True)
        self.addCleanup(self.kill, process)
        return process

    def kill(self, process: "subprocess.Popen[bytes]") -> None:
        """The node with all of its ranks."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def texts(self) -> str:
        return "".join(f"---- {path.name}\n{path.read_text(errors='replace')}" for path in self.logs)

    def checkpoint(self) -> Dict[str, Any]:
        path = self.folder / "checkpoint"
        return dict(torch.load(path)) if path.exists() else {"steps": 0}

    def wait_for_step(self, steps: int, processes: "List[subprocess.Popen[bytes]]") -> None:
        def is_there() -> bool:
            self.assertEqual([process.poll() for process in processes], [None] * len(processes), self.texts())
            return int(self.checkpoint()["steps"]) >= steps
        harness.wait_until(f"step {steps}", is_there, 2 * harness.PATIENCE)

    def finish(self, processes: "List[subprocess.Popen[bytes]]") -> None:
        for process in processes:
            self.assertEqual(process.wait(2 * harness.PATIENCE), 0, self.texts())

    def assert_each_once(self) -> None:
        learned = self.checkpoint()["learned"]
        self.assertEqual(tuple(learned.shape), (EPOCHS, SAMPLES))
        self.assertTrue(bool((learned == 1).all()), self.texts())
        self.assertIn(f"{EPOCHS} epochs: the model has learned from each sample once", self.texts())

    def test_two_nodes_then_one(self) -> None:
        """A server dies in the first epoch; all stop in the third one; one node goes on from the state."""
        port = str(harness.free_port())
        first = [self.start(node, "--nnodes", "2", "--node_rank", str(node), "--nproc_per_node", str(RANKS),
                            "--master_addr", "127.0.0.1", "--master_port", port, step=0.05)
                 for node in range(2)]
        self.wait_for_step(3, first)
        self.servers[1].kill()
        self.servers[1].start()
        self.wait_for_step(2 * STEPS + 2, first)
        (self.folder / "stop").touch()
        self.finish(first)
        self.assertIn("epoch 1 is over behind step 20: 2 nodes of 2 ranks", self.texts())
        found = self.checkpoint()
        self.assertTrue(bool((found["learned"][:2] == 1).all()))
        taken = int(found["learned"][2].sum())
        self.assertEqual(int(found["learned"][2].max()), 1)
        self.assertEqual(taken, BATCH * 2 * RANKS * (found["steps"] - 2 * STEPS))
        self.assertEqual(taken, int(found["loader"]["taken"]["count"]))
        (self.folder / "stop").unlink()
        self.finish([self.start(0, "--nnodes", "1", "--nproc_per_node", "3", "--master_port",
                                str(harness.free_port()))])
        self.assertRegex(self.texts(), r"epoch 2 is over behind step \d+: 1 nodes of 3 ranks")
        self.assert_each_once()

    def test_a_node_is_lost(self) -> None:
        """torchrun goes on by itself with the nodes that are left, from the last checkpoint."""
        elastic = ["--nnodes", "1:2", "--nproc_per_node", str(RANKS), "--max_restarts", "2", "--rdzv_backend",
                   "c10d", "--rdzv_endpoint", f"127.0.0.1:{harness.free_port()}", "--rdzv_id", "run",
                   "--monitor_interval", "1"]
        #  The run ends with the node that has torchrun's meeting point: that is not the one to be lost.
        node_0, node_1 = (self.start(node, *elastic, "--rdzv_conf", f"last_call_timeout=2,is_host={is_host}",
                                     step=0.05) for node, is_host in ((0, "true"), (1, "false")))
        self.wait_for_step(STEPS + 3, [node_0, node_1])
        self.kill(node_1)
        self.finish([node_0])
        text = self.texts()
        found = re.search(r"goes on behind step (\d+)", text)
        self.assertIsNotNone(found, text)
        self.assertIn("epoch 0 is over behind step 10: 2 nodes of 2 ranks", text)
        self.assertRegex(text, r"epoch 2 is over behind step \d+: 1 nodes of 2 ranks")
        self.assert_each_once()


if __name__ == "__main__":
    unittest.main()

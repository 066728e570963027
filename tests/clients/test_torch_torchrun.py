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
sys.path[:0] = [str(HERE), str(HERE.parent / "system"), str(ROOT / "clients" / "python")]

import torch_or_skip                    # noqa: F401  # ends this program where there is no PyTorch
import harness
import torch
from forked_processes import Forked, forked_here
from forking_torchrun import be

SAMPLES, BATCH, EPOCHS, RANKS = 301, 8, 4, 2
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

    def script(self, step: float) -> List[str]:
        return [str(ROOT / "examples" / "nodes.py"), "--epochs", str(EPOCHS), "--batch", str(BATCH),
                "--checkpoint", str(self.folder / "checkpoint"), "--stop", str(self.folder / "stop"),
                "--every", "1", "--step", str(step)]

    def start(self, node: int, *arguments: str) -> "subprocess.Popen[bytes]":
        """A node's torchrun, in a process group of its own."""
        self.logs.append(self.folder / f"log-{len(self.logs)}")
        environment = dict(os.environ, TUREEN_ENDPOINT=self.servers[node].endpoint, OMP_NUM_THREADS="1",
                           PYTHONDONTWRITEBYTECODE="1", TMPDIR=str(self.folder),
                           PYTHONPATH=str(ROOT / "clients" / "python"))
        with open(self.logs[-1], "wb") as log:
            #  torchrun passes on what the ranks print.  Without -u it buffers that until it ends.
            process = subprocess.Popen([sys.executable, "-u", "-m", "torch.distributed.run", *STREAMS,
                                        *arguments, *self.script(0.1)], stdout=log, stderr=subprocess.STDOUT,
                                       env=environment, start_new_session=True)
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

    def finish_alone(self) -> None:
        """One process, without torchrun: it goes on from the state of all ranks, and has the rest once."""
        process = Forked(forked_here(), {
            **os.environ, "TUREEN_ENDPOINT": self.servers[0].endpoint, "RANK": "0", "WORLD_SIZE": "1",
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(harness.free_port())}, be, {}, *self.script(0.0))
        self.addCleanup(process.kill)
        status = process.wait(2 * harness.PATIENCE)
        output, errors = process.output()
        self.assertEqual(status, 0, errors)
        self.assertRegex(output, r"goes on behind step \d+\nepoch \d is over behind step \d+: 1 nodes of 1 r")
        self.assertIn(f"{EPOCHS} epochs: the model has learned from each sample once", output)
        learned = self.checkpoint()["learned"]
        self.assertEqual(tuple(learned.shape), (EPOCHS, SAMPLES))
        self.assertTrue(bool((learned == 1).all()), output)

    def lose_a_server(self, nodes: "List[subprocess.Popen[bytes]]") -> None:
        """In the first epoch.  The ranks find the next one by themselves: torchrun starts none again."""
        self.wait_for_step(3, nodes)
        self.servers[1].kill()
        self.servers[1].start()
        self.wait_for_step(STEPS + 3, nodes)
        #  torchrun passes the line on a while after the rank has printed it.
        line = f"epoch 0 is over behind step {STEPS}: 2 nodes of {RANKS} ranks"
        harness.wait_until(line, lambda: line in self.texts())
        self.assertNotIn("goes on behind step", self.texts())

    def stop_behind_the_loss_of_a_node(self, node: "subprocess.Popen[bytes]") -> None:
        """torchrun goes on by itself with the node that is left, from the last checkpoint.  The one that it
        is asked for has what was trained with, neither more nor less."""
        found = harness.wait_until("one node goes on", lambda: re.search(r"goes on behind step (\d+)",
                                                                         self.texts()), 2 * harness.PATIENCE)
        self.wait_for_step(int(found.group(1)) + 2, [node])
        (self.folder / "stop").touch()
        self.finish([node])
        self.assertIn("stopped: the checkpoint has the state", self.texts())
        checkpoint = self.checkpoint()
        learned, epoch = checkpoint["learned"], int(checkpoint["loader"]["epoch"])
        self.assertTrue(bool((learned[:epoch] == 1).all()))
        self.assertLessEqual(int(learned[epoch].max()), 1)
        self.assertEqual(int(learned[epoch:].sum()), int(checkpoint["loader"]["taken"].get("count") or 0))
        (self.folder / "stop").unlink()

    def test_a_server_is_lost_then_a_node_then_all_stop_and_one_goes_on(self) -> None:
        """One run with all of it: each start of a process imports PyTorch."""
        elastic = ["--nnodes", "1:2", "--nproc_per_node", str(RANKS), "--max_restarts", "2", "--rdzv_backend",
                   "c10d", "--rdzv_endpoint", f"127.0.0.1:{harness.free_port()}", "--rdzv_id", "run",
                   "--monitor_interval", "1"]
        #  The run ends with the node that has torchrun's meeting point: that is not the one to be lost.
        node_0, node_1 = (self.start(node, *elastic, "--rdzv_conf", f"last_call_timeout=2,is_host={is_host}")
                          for node, is_host in ((0, "true"), (1, "false")))
        self.lose_a_server([node_0, node_1])
        self.kill(node_1)
        self.stop_behind_the_loss_of_a_node(node_0)
        self.finish_alone()


if __name__ == "__main__":
    unittest.main()

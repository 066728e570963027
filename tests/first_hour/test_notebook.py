"""A notebook, run by Jupyter's own kernel.  Its loop is interrupted in mid-epoch, a cell saves the state, and
the kernel ends; another kernel finds the server that the first one has started, and takes the rest.

Run by tests/first_hour.sh, or by hand with a Python that has nbclient, ipykernel and PyTorch:
TUREEN_BIN=build/release/bin PYTHON tests/first_hour/test_notebook.py [-v]
"""
from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, Optional
from unittest import mock

TESTS = Path(__file__).resolve().parent.parent
PACKAGE = TESTS.parent / "clients" / "python"
sys.path[:0] = [str(TESTS / "clients"), str(TESTS / "system"), str(PACKAGE)]

import nbclient
import nbformat.v4

import harness
from exactly_once import assert_exactly_once

SAMPLES = 101

BEGIN = """
import json, os, time
import tureen
from tureen.torch import DataLoader

server = tureen.serve(train="train", endpoint=f"ipc://{os.getcwd()}/s.sock", cache="16M", workers=1)
loader = DataLoader("train", batch_size=8, shuffle=True, ids=True, endpoint=server.endpoint,
                    transform=[{"op": "random_resized_crop", "size": [16, 16], "share": True}])
taken = []
"""
INTERRUPTED = """
for images, labels, ids in loader:
    taken += ids.tolist()
    if len(taken) == 24:
        open("waiting", "w").close()
        time.sleep(600)
"""
SAVE = """
assert len(taken) == 24
with open("saved", "w") as file:
    json.dump([taken, loader.state_dict()], file)
"""
REST = """
assert server.process is None, "the server that the first kernel has started is there"
with open("saved") as file:
    taken, state = json.load(file)
loader.load_state_dict(state)
epochs = [taken, []]
for epoch in range(loader.epoch, 2):
    for images, labels, ids in loader:
        epochs[epoch] += ids.tolist()
with open("epochs", "w") as file:
    json.dump(epochs, file)
"""


class Notebook(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="tu-notebook-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        harness.make_folder(f"{self.folder}/train", SAMPLES)
        patch = mock.patch.dict(os.environ, PYTHONPATH=str(PACKAGE), TMPDIR=self.folder,
                                TUREEN_SERVER=os.path.abspath(harness.TUREEN), IPYTHONDIR=self.folder,
                                JUPYTER_RUNTIME_DIR=self.folder)
        patch.start()
        self.addCleanup(patch.stop)
        self.addCleanup(subprocess.run, [harness.TUREEN, "stop", "--connect", f"ipc://{self.folder}/s.sock"])

    def run_cells(self, *cells: str, interrupted: Optional[int] = None) -> None:
        """In a kernel of its own.  All cells succeed but one, which is interrupted when it waits."""
        asyncio.run(self._run(nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(cell) for cell in cells]), interrupted))

    async def _run(self, notebook: Any, interrupted: Optional[int]) -> None:
        client = nbclient.NotebookClient(notebook, timeout=int(harness.PATIENCE), kernel_name="python3",
                                         allow_errors=True, resources={"metadata": {"path": self.folder}})
        async with client.async_setup_kernel():
            for number, cell in enumerate(notebook.cells):
                running = asyncio.ensure_future(client.async_execute_cell(cell, number))
                if number == interrupted:
                    while not running.done() and not os.path.exists(f"{self.folder}/waiting"):
                        await asyncio.sleep(0.02)
                    await client.km.interrupt_kernel()
                await running
                errors = [output for output in cell.outputs if output.output_type == "error"]
                expected = ["KeyboardInterrupt"] if number == interrupted else []
                self.assertEqual([error.ename for error in errors], expected, errors)

    def test_interrupted_and_restarted(self) -> None:
        self.run_cells(BEGIN, INTERRUPTED, SAVE, interrupted=1)
        self.run_cells(BEGIN, REST)
        for ids in json.loads(Path(self.folder, "epochs").read_text()):
            assert_exactly_once(self, ids, SAMPLES)


if __name__ == "__main__":
    unittest.main()

"""The Python of docs/clients.md and of README.md, run against a real server, top to bottom in one session.

Run by ctest (clients_docs), or by hand: TUREEN_BIN=build/release/bin python3 tests/clients/test_clients_docs.py.  A block behind a
comment "not run: ..." is only compiled.  Ends with 77 (a skip) where PyTorch or torchvision is missing.
"""
from __future__ import annotations

import gc
import os
import re
import shutil
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, Dict, Iterator, Tuple
from unittest import mock

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
sys.path[:0] = [str(SOURCE / "clients" / "python")]
TUREEN = os.path.join(os.environ.get("TUREEN_BIN", str(SOURCE / "build" / "release" / "bin")), "tureen")
SAMPLES = 24                        # as the page has it

try:
    import torch
    import torchvision
except ImportError as missing:
    print(f"SKIPPED, nothing was tested: {missing} (apt install python3-torchvision)", flush=True)
    sys.exit(77)
import tureen

BLOCK = re.compile(r"(<!-- not run: [^>]*-->\n)?```python\n(.*?)```", re.DOTALL)


def blocks(text: str) -> Iterator[Tuple[int, bool, str]]:
    """(line in the page, whether it is to be run, the code)"""
    for found in BLOCK.finditer(text):
        yield text.count("\n", 0, found.start(2)) + 1, found.group(1) is None, found.group(2)


def folder_of_images(root: str, name: str) -> str:
    for index in range(SAMPLES):
        folder = Path(root, name, f"class_{index % 2}")
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(SOURCE / "tests" / "decode" / "golden" / "colour_420.jpg", folder / f"{index:03}.jpg")
    return os.path.join(root, name)


class Docs(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="tu-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        os.makedirs(f"{self.folder}/run", mode=0o700)
        patch = mock.patch.dict(os.environ, TUREEN_SERVER=TUREEN, TMPDIR=self.folder, XDG_RUNTIME_DIR=f"{self.folder}/run")
        patch.start()
        self.addCleanup(patch.stop)
        os.environ.pop("TUREEN_ENDPOINT", None)
        self.addCleanup(setattr, tempfile, "tempdir", tempfile.tempdir)
        tempfile.tempdir = None
        self.train, self.val = folder_of_images(self.folder, "train"), folder_of_images(self.folder, "val")
        server = tureen.serve(train=self.train, val=self.val, cache="64M", workers=2)
        self.addCleanup(server.stop)

    def names(self) -> Dict[str, Any]:
        """What a page may take for granted."""
        model = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(3, 2))
        return {"torch": torch, "device": "cpu", "model": model, "loss_function": torch.nn.CrossEntropyLoss(),
                "optimizer": torch.optim.SGD(model.parameters(), 0.1), "step": lambda images, labels: None,
                "checkpoint": f"{self.folder}/checkpoint.pt", "train_folder": self.train, "val_folder": self.val,
                "print": lambda *_: None}

    def run_page(self, path: Path, least: int) -> None:
        ran, names = 0, self.names()
        text = path.read_text(encoding="utf-8")
        self.assertEqual(text.count("```python"), len(list(blocks(text))), "a block that the test does not find")
        for line, is_run, code in blocks(text):
            compiled = compile("\n" * (line - 1) + code, str(path), "exec")
            if is_run:
                exec(compiled, names)
                ran += 1
        self.assertGreaterEqual(ran, least)
        names.clear()               # jobs leave before their server is stopped
        gc.collect()

    def test_clients(self) -> None:
        self.run_page(SOURCE / "docs" / "clients.md", 10)

    def test_readme(self) -> None:
        self.run_page(SOURCE / "README.md", 1)


if __name__ == "__main__":
    unittest.main()

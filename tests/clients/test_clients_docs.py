"""The Python of docs/clients.md and of README.md, run against a real server, top to bottom in one session.

Run by ctest (clients_docs), or by hand: TUREEN_BIN=build/release/bin python3
tests/clients/test_clients_docs.py.  A block behind a comment "not run: ..." is only compiled; one behind "run
by 2 ranks" is run by processes of its own, with the environment that torchrun would give them; one behind
"run as a script" by an interpreter of its own.  Ends with 77 (a skip) where PyTorch is missing.  Where
torchvision is missing, the blocks that import it are only compiled, and others that call a transform on
tensors get a stand-in, which sees to it that it is called with single images.
"""
from __future__ import annotations

import gc
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import types
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
except ImportError as missing:
    print(f"SKIPPED, nothing was tested: {missing} (apt install python3-torch)", flush=True)
    sys.exit(77)
try:
    import torchvision
except ImportError as missing:
    print(f"NOT RUN, blocks that import torchvision: {missing} (apt install python3-torchvision)", flush=True)
    torchvision = None
import tureen

BLOCK = re.compile(r"(?:<!-- (not run: |run by |run as )([^>]*)-->\n)?```python\n(.*?)```", re.DOTALL)


def blocks(text: str) -> Iterator[Tuple[int, int, str]]:
    """(line in the page; by how many ranks it is to be run, 1: here, 0: not at all, -1: as a script; the
    code)"""
    for found in BLOCK.finditer(text):
        how = found.group(1)
        ranks = (int(found.group(2).split()[0]) if how == "run by "
                 else 1 if how is None else 0 if how == "not run: " else -1)
        yield text.count("\n", 0, found.start(3)) + 1, ranks, found.group(3)


class StandIn:
    """A transform of torchvision's that draws once a call, so that it is to be called with an image."""
    calls = 0

    def __call__(self, image: Any) -> Any:
        assert image.shape[0] == 3 and image.dim() == 3 and image.dtype == torch.uint8, image.shape
        StandIn.calls += 1
        return torch.roll(image, StandIn.calls, -1)


def names(folder: str) -> Dict[str, Any]:
    """What a page may take for granted."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(3, 2))
    return {"torch": torch, "device": "cpu", "model": model, "loss_function": torch.nn.CrossEntropyLoss(),
            "optimizer": torch.optim.SGD(model.parameters(), 0.1), "step": lambda images, labels: None,
            "checkpoint": f"{folder}/checkpoint.pt", "train_folder": f"{folder}/train",
            "val_folder": f"{folder}/val", "print": lambda *_: None,
            "torchvision": torchvision
            or types.SimpleNamespace(transforms=types.SimpleNamespace(RandomPerspective=StandIn))}


def be_a_rank(path: str, line: str, folder: str) -> None:
    """One of the processes that run one block."""
    torch.set_num_threads(1)
    code = next(code for at, _, code in blocks(Path(path).read_text(encoding="utf-8")) if at == int(line))
    exec(compile("\n" * (int(line) - 1) + code, path, "exec"), names(folder))


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
        patch = mock.patch.dict(os.environ, TUREEN_SERVER=TUREEN, TMPDIR=self.folder,
                                XDG_RUNTIME_DIR=f"{self.folder}/run")
        patch.start()
        self.addCleanup(patch.stop)
        os.environ.pop("TUREEN_ENDPOINT", None)
        self.addCleanup(setattr, tempfile, "tempdir", tempfile.tempdir)
        tempfile.tempdir = None
        train, val = (folder_of_images(self.folder, name) for name in ("train", "val"))
        server = tureen.serve(train=train, val=val, cache="64M", workers=2)
        self.addCleanup(server.stop)

    def run_by_ranks(self, ranks: int, path: Path, line: int) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        processes = [subprocess.Popen(
            [sys.executable, "-B", __file__, "rank", str(path), str(line), self.folder],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={
                **os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port)})
            for rank in range(ranks)]
        try:
            for process in processes:
                output, _ = process.communicate(timeout=120)
                self.assertEqual(process.returncode, 0, f"{path}, line {line}: {output}")
        finally:
            for process in processes:
                process.kill()
                process.wait()

    def run_as_script(self, path: Path, line: int, code: str) -> None:
        """What starts processes, which import the script."""
        script = Path(self.folder, f"{path.stem}_{line}.py")
        script.write_text(code, encoding="utf-8")
        done = subprocess.run([sys.executable, "-B", str(script)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=240,
                              env={**os.environ, "PYTHONPATH": str(SOURCE / "clients" / "python")})
        self.assertEqual(done.returncode, 0, f"{path}, line {line}: {done.stdout}")

    def run_page(self, path: Path, least: int) -> None:
        ran, known = 0, names(self.folder)
        text = path.read_text(encoding="utf-8")
        self.assertEqual(text.count("```python"), len(list(blocks(text))),
                         "a block that the test does not find")
        for line, ranks, code in blocks(text):
            compiled = compile("\n" * (line - 1) + code, str(path), "exec")
            if ranks > 1:
                self.run_by_ranks(ranks, path, line)
            elif ranks < 0:
                self.run_as_script(path, line, code)
                ran += 1
            elif ranks and (torchvision or "import torchvision" not in code):
                exec(compiled, known)
                ran += 1
            ran += ranks > 1
        self.assertGreaterEqual(ran, least)
        known.clear()               # jobs leave before their server is stopped
        gc.collect()

    def test_clients(self) -> None:
        self.run_page(SOURCE / "docs" / "clients.md", 16)
        self.assertTrue(torchvision or StandIn.calls == SAMPLES)

    def test_readme(self) -> None:
        self.run_page(SOURCE / "README.md", 1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        be_a_rank(*sys.argv[2:])
    else:
        unittest.main()

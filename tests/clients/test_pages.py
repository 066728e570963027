"""The code of README.md and of every page of docs/, run: Python, shell, C and pipelines; a page from
top to bottom in one session.

Run by ctest (pages), or by hand: TUREEN_BIN=build/release/bin python3 tests/clients/test_pages.py [-v]
[NAME].  A block behind a comment "not run: ..." is only parsed; NOT_RUN says why.  One behind "run by 2
ranks" is run by processes of its own, with the environment that torchrun would give them; one behind "run as
a script" by one, as its main module.  These are forked from one that has imported PyTorch, and torchrun is a
stand-in that does so too (forking_torchrun.py).  One behind "saved as FILE" is that file, which commands of
later blocks run.  Where PyTorch is missing, the pages of which the code needs
it are skipped.  Where torchvision is missing, the blocks that use it are only compiled, and others that call
a transform on tensors get a stand-in, which sees to it that it is called with single images.
"""
from __future__ import annotations

import gc
import gzip
import os
import random
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tempfile
import types
import unittest
from pathlib import Path
from typing import Any, Callable, Dict, List
from unittest import mock

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent / "system"), str(SOURCE / "clients" / "python")]

import numpy
from PIL import Image

from forked_processes import Forked, forked_after
from harness import PATIENCE, free_port
from mds_shards import write_mds
from megatron_files import write_tokens
from object_store import ObjectStore
from page_blocks import TUREEN, Block, World, blocks

PAGES = (SOURCE / "README.md", *(SOURCE / "docs").glob("*.md"))
SAMPLES = 24                        # as clients.md has it
#  What pages say of the reader's own, and what that is here.
WORDS = {
    "monitoring": {"curl ": "curl --fail --no-progress-meter --retry 99 --retry-delay 1 --retry-all-errors ",
                   "$TOKEN": "$(cut -d ' ' -f 2 /etc/tureen/http-tokens)"},
    "cluster": {"--until-idle": "--until-idle 1"},
    "operations": {"50000": str(SAMPLES)},
    "randomness": {"50000": str(SAMPLES)},
    "security": {"keys key --tenant": "keys ~/.config/tureen/key --tenant",
                 "...": "--dataset train=/data/train"},
    "deployment": {"...": "--dataset train=/data/train --cache 64M"},
}
NOT_RUN = {
    "an operation": "of a server's: `tureen prepare`, which runs pipelines here, has none; system_operation",
    "a filled cache": "the servers of other data than this page's have filled it; system_cache",
    "a disk": "gigabytes and minutes; its parts are tested in tests/bench",
    "containers": "Docker; tests/packaging/image.sh",
    "etcd": "three hosts; system_members_etcd",
    "NFS": "another machine's disk; system_kept_folders has one of its own",
    "Hugging Face": "no packages of Debian; torch_frameworks, where they are installed",
    "Keras": "it is no package of Debian; python_keras, where it is installed",
    "Kubernetes": "a cluster; system_kubernetes",
    "packages": "installs what it builds; tests/packaging",
    "OpenCV": "it is large; system_operation has operations without it",
    "Optuna": "it is no package of Debian; torch_tune, where it is installed",
    "Parquet": "pyarrow is no package of Debian; python_pack and python_splits, where it is installed",
    "Ray": "it is no package of Debian; torch_tune and examples, where it is installed",
    "root": "users, groups, namespaces; system_deployment",
    "several nodes": "torch_torchrun, torch_nodes",
    "Slurm": "system_slurm",
    "systemd": "system_deployment",
    "tables": "of your files; python_labels",
    "the whole tree": "builds it, tests it, measures it",
}

try:
    import torch
except ImportError as missing:
    print(f"NOT RUN, pages for PyTorch: {missing} (apt install python3-torch)", flush=True)
    torch = None
try:
    import torchvision
except ImportError as missing:
    print(f"NOT RUN, blocks that use torchvision: {missing} (apt install python3-torchvision)", flush=True)
    torchvision = None
import tureen


def setUpModule() -> None:
    global FORKED
    FORKED = forked_after("torchvision", "tureen.torch", "page_blocks")


class StandIn:
    """A transform of torchvision's that draws once a call, so that it is to be called with an image."""
    calls = 0

    def __call__(self, image: Any) -> Any:
        assert image.shape[0] == 3 and image.dim() == 3 and image.dtype == torch.uint8, image.shape
        StandIn.calls += 1
        return torch.roll(image, StandIn.calls, -1)


def names(folder: str) -> Dict[str, Any]:
    """What a page may take for granted."""
    jpeg = (SOURCE / "tests" / "decode" / "golden" / "colour_420.jpg").read_bytes()
    known = {"os": os, "print": lambda *_: None, "read_somehow": lambda: [(jpeg, 0), (jpeg, 1)]}
    if torch:
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(3, 2))
        known.update(
            torch=torch, device="cpu", model=model, loss_function=torch.nn.CrossEntropyLoss(),
            optimizer=torch.optim.SGD(model.parameters(), 0.1), step=lambda images, labels: None,
            checkpoint=f"{folder}/checkpoint.pt", train_folder=f"{folder}/data/train",
            val_folder=f"{folder}/data/val", torchvision=torchvision
            or types.SimpleNamespace(transforms=types.SimpleNamespace(ElasticTransform=StandIn)))
    return known


def be_a_rank(path: str, line: str, folder: str) -> None:
    """One of the processes that run one block."""
    torch.set_num_threads(1)
    code = next(block.code for block in blocks(Path(path)) if block.line == int(line))
    exec(compile("\n" * (int(line) - 1) + code, path, "exec"), names(folder))


def be_a_script(path: str) -> None:
    os.chdir(os.path.dirname(path))
    runpy.run_path(path, run_name="__main__")


def folder_of_images(root: str, golden: str = "colour_420.jpg") -> None:
    for index in range(SAMPLES):
        folder = Path(root, f"class_{index % 2}")
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(SOURCE / "tests" / "decode" / "golden" / golden,
                    folder / f"{index:03}{os.path.splitext(golden)[1]}")


class Pages(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="tu-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.world = World(self.folder)
        patch = mock.patch.dict(os.environ, self.world.environment, clear=True)
        patch.start()
        self.addCleanup(patch.stop)
        self.addCleanup(setattr, tempfile, "tempdir", tempfile.tempdir)
        tempfile.tempdir = None
        folder_of_images(f"{self.folder}/data/train")
        os.symlink("train", f"{self.folder}/data/val")
        os.mkdir(f"{self.folder}/data/imagenet")
        for name in ("train", "val"):
            os.symlink("../train", f"{self.folder}/data/imagenet/{name}")
        self.world.shell("tureen pack /data/train /packs/train", "a pack")
        for name in ("data", "scratch"):
            shutil.copytree(f"{self.folder}/packs/train", f"{self.folder}/{name}/imagenet.pack")

    def run_forked(self, where: str, environments: List[Dict[str, str]], function: Callable[..., None],
                   *arguments: str) -> None:
        """By a process for each environment."""
        processes = [Forked(FORKED, {**os.environ, **environment}, function, *arguments)
                     for environment in environments]
        try:
            for process in processes:
                status = process.wait(PATIENCE)
                self.assertEqual(status, 0, f"{where}: {process.output()}")
        finally:
            for process in processes:
                process.kill()

    def run_by_ranks(self, ranks: int, path: Path, line: int) -> None:
        port = str(free_port())
        self.run_forked(f"{path}, line {line}", [
            {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            for rank in range(ranks)], be_a_rank, str(path), str(line), self.folder)

    def run_as_a_script(self, code: str, where: str) -> None:
        """Python that starts processes, which import the script."""
        script = self.world.work / "script.py"
        script.write_text(code, encoding="utf-8")
        self.run_forked(where, [self.world.environment], be_a_script, str(script))

    def run_block(self, path: Path, block: Block, known: Dict[str, Any]) -> None:
        where = f"{path}, line {block.line}"
        if block.how == "not run: ":
            self.assertIn(block.what, NOT_RUN, where)
            self.world.parse(block, where)
        elif block.how == "saved as ":
            (self.world.work / block.what).write_text(block.code, encoding="utf-8")
        elif block.language == "sh":
            self.world.shell(block.code, where)
        elif block.language == "json":
            self.world.prepare(block.code, where)
        elif block.language == "c":
            self.world.compile_and_run(block.code, where)
        elif block.how == "run by ":
            self.run_by_ranks(int(block.what.split()[0]), path, block.line)
        elif block.how == "run as ":
            self.run_as_a_script(block.code, where)
        elif torchvision or not re.search(r"\btorchvision\b", block.code):
            exec(compile("\n" * (block.line - 1) + self.world.place(block.code), str(path), "exec"), known)

    def run_page(self, name: str) -> None:
        path = SOURCE / name
        self.world.words.update(WORDS.get(path.stem, {}))
        known = names(self.folder)
        found = list(blocks(path))
        if torch is None and any("torch" in block.code for block in found if not block.how == "not run: "):
            self.skipTest("PyTorch is not installed")
        try:
            for block in found:
                self.run_block(path, block, known)
        finally:
            servers = [value for value in known.values() if isinstance(value, tureen.Server)]
            known.clear()               # jobs leave before their server is stopped
            gc.collect()
            for server in servers:
                server.stop()

    #   ---- pages that take more for granted

    def begin_server_with_keys(self) -> None:
        """Its keys are in /etc/tureen/keys."""
        keys = f"{self.folder}/etc/tureen/keys"
        server = subprocess.Popen(
            [TUREEN, "serve", "--dataset", f"train={self.folder}/data/train", "--cache", "64M", "--keys",
             keys, "--listen", self.world.place("tcp://server:5555"), "--tenant", "vision=-",
             "--tenant-datasets", "vision=train"], stdout=subprocess.PIPE)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        self.addCleanup(server.stdout.close)
        while not server.stdout.readline().startswith(b"listening"):
            self.assertIsNone(server.poll())
        self.world.words["server-key 'KEY'"] = "server-key /etc/tureen/keys/server"

    def test_clients(self) -> None:
        server = tureen.serve(train=f"{self.folder}/data/train", val=f"{self.folder}/data/val", cache="64M",
                              workers=2)
        self.addCleanup(server.stop)
        self.begin_server_with_keys()
        key = "~/.config/tureen/key"            # which the server's operator then allows
        self.world.words["data-node"] = "127.0.0.1"
        self.world.words[f"key new {key}"] = (f"key new {key} && tureen key allow /etc/tureen/keys {key} "
                                              "--tenant vision")
        shutil.copy(f"{self.folder}/etc/tureen/keys/server", f"{self.folder}/home/me/.config/tureen/server")
        self.run_page("docs/clients.md")
        self.assertTrue(torch is None or torchvision or StandIn.calls == SAMPLES)

    def test_cluster(self) -> None:
        torchrun = Path(self.world.path("bin", "torchrun"))
        torchrun.write_text(f'#!/bin/sh\nexec {sys.executable} -B {HERE}/forking_torchrun.py "$@"\n')
        torchrun.chmod(0o700)
        self.run_page("docs/cluster.md")
        #  The page does not ask how what it starts in the background has ended.
        checkpoint = torch and torch.load(self.world.path("tmp", "checkpoint"))
        self.assertTrue(torch is None or bool((checkpoint["learned"] == 1).all()))

    def test_data(self) -> None:
        folder_of_images(f"{self.folder}/data/masks", "palette.png")
        folder_of_images(f"{self.folder}/data/depth")
        for index in range(SAMPLES):
            for field, name in (("tokens", f"{index:03}.npy"), ("captions", f"{index:03}.txt")):
                folder = Path(self.folder, "data", field, f"class_{index % 2}")
                folder.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(b"it is not read, only found")
        self.write_shards(self.world.work / "shards")
        for number in range(3):
            for name in (f"leftImg8bit/train/ulm/{number}_leftImg8bit.png", f"JPEGImages/{number}.jpg",
                         f"gtFine/train/ulm/{number}_gtFine_labelIds.png", f"SegmentationClass/{number}.png"):
                (self.world.work / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(SOURCE / "tests" / "decode" / "golden" / "rgb.png", self.world.work / name)
        os.makedirs(self.world.work / "ImageSets" / "Segmentation")
        (self.world.work / "ImageSets" / "Segmentation" / "train.txt").write_text("0\n2\n")
        image = (SOURCE / "tests" / "decode" / "golden" / "rgb.png").read_bytes()
        os.mkdir(self.world.work / "hf")
        write_mds(str(self.world.work / "hf" / "imagenet" / "train"),
                  [{"image": image, "label": number, "caption": "x"} for number in range(3)])
        os.mkdir(self.world.work / "corpus")
        write_tokens(str(self.world.work / "corpus" / "web_text_document"),
                     [[range(number, number + 3000)] for number in range(9)], "uint16")
        self.run_page("docs/data.md")

    def write_shards(self, folder: Path, count: int = 2) -> None:
        folder.mkdir(parents=True)
        golden = SOURCE / "tests" / "decode" / "golden"
        for shard in range(count):
            with tarfile.open(folder / f"train-{shard:03}.tar", "w") as file:
                for number in range(4):
                    file.add(golden / "colour_420.jpg", f"{shard}{number}.jpg")
                    file.add(golden / "palette.png", f"{shard}{number}.seg.png")

    def begin_stores(self) -> ObjectStore:
        """A store with keys, and one that anyone may read, of the same objects."""
        kept, public = (ObjectStore(self.world.buckets, keys=keys) for keys in ({"KEY": "secret"}, None))
        for store in (kept, public):
            store.__enter__()
            self.addCleanup(store.__exit__)
        Path(self.folder, "home", "me", ".aws").mkdir()
        Path(self.folder, "home", "me", ".aws", "credentials").write_text(
            "[team]\naws_access_key_id = KEY\naws_secret_access_key = secret\n")
        self.world.environment.update(AWS_ENDPOINT_URL_S3=kept.url, AWS_ACCESS_KEY_ID="KEY",
                                      AWS_SECRET_ACCESS_KEY="secret", AWS_EC2_METADATA_DISABLED="true")
        self.world.words.update({
            "export AWS_PROFILE": "unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY; export AWS_PROFILE",
            "AWS_ACCESS_KEY_ID=...": "AWS_ACCESS_KEY_ID=KEY", "http://ceph.example:7480": kept.url,
            "AWS_SECRET_ACCESS_KEY=...": "AWS_SECRET_ACCESS_KEY=secret", "https://data.example": public.url,
            "AWS_NO_SIGN_REQUEST": f"AWS_ENDPOINT_URL_S3={public.url} AWS_NO_SIGN_REQUEST"})
        return kept

    def test_cluster_cache(self) -> None:
        self.begin_stores()
        self.world.shell("tureen pack --work /scratch/train /data/train s3://bucket/train", "the pack")
        self.run_page("docs/cluster_cache.md")

    def test_stores(self) -> None:
        """The store has as many shards as the page counts to, the web server a pack and others."""
        store = self.begin_stores()
        shards = Path(self.world.buckets, "bucket", "shards")
        self.write_shards(shards, 100)
        for number in range(42):
            Path(self.world.buckets, f"train-{number:02}.tar.gz").write_bytes(
                gzip.compress((shards / f"train-{number:03}.tar").read_bytes()))
        shutil.copytree(f"{self.folder}/packs", f"{self.world.buckets}/packs")
        self.run_page("docs/stores.md")
        self.assertTrue(any("bucket/packs/train" in request.name for request in store.requests))

    def test_workers(self) -> None:
        self.begin_server_with_keys()
        self.run_page("docs/workers.md")

    def write_records(self, *files: str) -> None:
        """What the ranks of one job recorded."""
        dice = random.Random(1)
        texts = ["" for _ in files]
        for epoch in range(12):
            ids = dice.sample(range(SAMPLES), SAMPLES)
            for rank in range(len(files)):
                texts[rank] += f"{epoch}: {' '.join(map(str, ids[rank::len(files)]))}\n"
        for file, text in zip(files, texts):
            (self.world.work / file).write_text(text)

    def write_halves(self, *files: str) -> None:
        """What jobs on random halves recorded."""
        dice = random.Random(2)
        for file in files:
            half = dice.sample(range(SAMPLES), SAMPLES // 2)
            text = ""
            for epoch in range(12):
                text += f"{epoch}: {' '.join(map(str, dice.sample(half, len(half))))}\n"
            (self.world.work / file).write_text(text)

    def test_pipeline(self) -> None:
        for name in ("masks", "tokens", "captions"):
            os.mkdir(f"{self.folder}/data/{name}")
        with Image.open(f"{self.folder}/data/train/class_0/000.jpg") as image:
            Image.new("L", image.size, 7).save(f"{self.folder}/data/masks/000.png")
        numpy.save(f"{self.folder}/data/tokens/000.npy", numpy.arange(9, dtype=numpy.int32))
        Path(f"{self.folder}/data/captions/000.txt").write_text("a cat on a mat")
        self.run_page("docs/pipeline.md")

    def test_operation(self) -> None:
        Path(self.folder, "etc", "tureen", "contrast.py").write_text(
            "import tureen.operation\ntureen.operation.run(lambda image, *_: image)\n")
        self.run_page("docs/operation.md")

    def test_randomness(self) -> None:
        self.write_records("rank0.txt", "rank1.txt")
        self.run_page("docs/randomness.md")

    def test_operations(self) -> None:
        self.write_records("node0.ids", "node1.ids", "node2.ids")
        self.write_halves("job-1.ids", "job-2.ids", "job-3.ids")
        shutil.copytree(f"{self.folder}/data/train/class_0", self.world.work / "photos")
        shutil.copy(f"{self.folder}/data/train/class_0/000.jpg", self.world.work / "photo.jpg")
        self.run_page("docs/operations.md")

    def test_what_is_not_run(self) -> None:
        self.assertEqual({block.what for path in PAGES for block in blocks(path) if block.how == "not run: "},
                         set(NOT_RUN))


def add_the_others() -> None:
    """A test for each page that takes nothing more for granted."""
    for path in PAGES:
        name = f"test_{path.stem.lower()}"
        if any(blocks(path)) and not hasattr(Pages, name):
            setattr(Pages, name, lambda self, page=str(path.relative_to(SOURCE)): self.run_page(page))


add_the_others()

if __name__ == "__main__":
    unittest.main()

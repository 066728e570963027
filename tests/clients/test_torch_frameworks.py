"""The loader in frameworks that bring their own loops and processes, against the real server: two processes
on the CPU each.

None of them is among the packages that the tests install: each is skipped, by name, where it is missing.  To
run them by hand with a Python that has them (pip install torch lightning accelerate "ray[train]"):
    TUREEN_BIN=build/release/bin PYTHON tests/clients/test_torch_frameworks.py [-v] [NAME]
"""
from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path
from typing import Any, Dict, List

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent.parent / "clients" / "python"
sys.path[:0] = [str(HERE), str(HERE.parent / "system"), str(PACKAGE)]

SKIP = 77
if not any(importlib.util.find_spec(name) for name in ("lightning", "accelerate", "ray")):
    print("SKIPPED, nothing was tested: none of lightning, accelerate, ray is installed", flush=True)
    sys.exit(SKIP)                      # PyTorch's import takes two seconds

import torch_or_skip                    # noqa: F401  # ends this program where there is no PyTorch
import torch

from tureen.torch import DataLoader

SAMPLES, HELD_OUT, BATCH, EPOCHS = 101, 33, 8, 3        # 6 whole steps of two ranks and one of 5 samples
SIDE = 8
TRAIN = [{"op": "random_resized_crop", "size": [SIDE, SIDE], "share": True}]
EVALUATE = [{"op": "resize", "size": [SIDE, SIDE]}]


#  What each process does

def loaders(endpoint: str) -> List[DataLoader]:
    return [DataLoader("train", BATCH, shuffle=True, transform=TRAIN, endpoint=endpoint, ids=True),
            DataLoader("val", BATCH, transform=EVALUATE, endpoint=endpoint, ids=True)]


def loss_of(model: torch.nn.Module, batch: Any, loader: DataLoader) -> torch.Tensor:
    images, labels, _ = batch
    loss = torch.nn.functional.cross_entropy(model(images.float().flatten(1) / 255), labels)
    return loss * 0 if loader.padding else loss


def note(folder: str, rank: int, epoch: int, loader: DataLoader, ids: torch.Tensor) -> None:
    """A line a batch; what is padding names no sample."""
    with open(f"{folder}/{rank}.seen", "a", encoding="ascii") as seen:
        print(json.dumps([epoch, [] if loader.padding else ids.tolist()]), file=seen)


def with_lightning(endpoint: str, folder: str) -> None:
    import lightning

    train, held_out = loaders(endpoint)

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = torch.nn.Linear(3 * SIDE * SIDE, 5)

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            note(folder, self.global_rank, self.current_epoch, train, batch[-1])
            return loss_of(self.model, batch, train)

        def validation_step(self, batch: Any, index: int) -> None:
            self.log("loss", loss_of(self.model, batch, held_out), sync_dist=True)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 0.01)
    trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", use_distributed_sampler=False,
                                max_epochs=EPOCHS, logger=False, enable_checkpointing=False,
                                enable_progress_bar=False)
    trainer.fit(Module(), train, held_out)


def with_accelerate(endpoint: str, folder: str) -> None:
    import accelerate

    accelerator = accelerate.Accelerator(cpu=True)
    train, held_out = loaders(endpoint)
    model = torch.nn.Linear(3 * SIDE * SIDE, 5)
    prepared, optimizer, same, same_held_out = accelerator.prepare(model,
        torch.optim.SGD(model.parameters(), 0.01), train, held_out)
    assert same is train and same_held_out is held_out
    for epoch in range(EPOCHS):
        for batch in train:
            note(folder, accelerator.process_index, epoch, train, batch[-1])
            optimizer.zero_grad()
            accelerator.backward(loss_of(prepared, batch, train))
            optimizer.step()
        counted = torch.tensor([sum(0 if held_out.padding else len(batch[-1]) for batch in held_out)])
        assert int(accelerator.reduce(counted)) == HELD_OUT
    accelerator.wait_for_everyone()
    accelerator.end_training()


def ray_worker(config: Dict[str, str]) -> None:
    import ray.train
    import ray.train.torch

    train, held_out = loaders(config["endpoint"])
    model = ray.train.torch.prepare_model(torch.nn.Linear(3 * SIDE * SIDE, 5))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for epoch in range(EPOCHS):
        for batch in train:
            note(config["folder"], ray.train.get_context().get_world_rank(), epoch, train, batch[-1])
            optimizer.zero_grad()
            loss_of(model, batch, train).backward()
            optimizer.step()
        for batch in held_out:
            loss_of(model, batch, held_out)
    torch.distributed.barrier()


def with_ray(endpoint: str, folder: str) -> None:
    import ray
    import ray.train.torch

    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=True,
             runtime_env={"env_vars": {"PYTHONPATH": str(PACKAGE)}})
    ray.train.torch.TorchTrainer(
        ray_worker, train_loop_config={"endpoint": endpoint, "folder": folder},
        scaling_config=ray.train.ScalingConfig(num_workers=2, use_gpu=False),
        run_config=ray.train.RunConfig(storage_path=folder)).fit()
    ray.shutdown()


#  What starts them, and looks at what they saw

class Frameworks(unittest.TestCase):
    def setUp(self) -> None:
        import harness
        self.folder = tempfile.mkdtemp(prefix="tu-frameworks-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        data = {"train": SAMPLES, "val": HELD_OUT}
        for name, samples in data.items():
            harness.make_folder(f"{self.folder}/{name}", samples)
        self.server = harness.Server({name: f"{self.folder}/{name}" for name in data}, cache="16M")
        self.server.__enter__()
        self.addCleanup(self.server.__exit__, None, None, None)

    def run_ranks(self, how: str, environments: List[Dict[str, str]]) -> None:
        """A process in each environment; then: every sample once an epoch over the two ranks, and equally
        many batches."""
        command = [sys.executable, "-B", __file__, how, self.server.endpoint, self.folder]
        clean = {name: value for name, value in os.environ.items()
                 if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
        #  A Python of its own packages finds this one's beside them.
        clean.update(PYTHONPATH=str(PACKAGE), OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore")
        processes = [subprocess.Popen(command, env={**clean, **environment}, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True)
                     for environment in environments]
        try:
            said = [process.communicate(timeout=240)[0] for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
        self.assertEqual([process.returncode for process in processes], [0] * len(processes), "\n".join(said))
        seen = [[json.loads(line)
                 for line in Path(f"{self.folder}/{rank}.seen").read_text(encoding="ascii").splitlines()]
                for rank in range(2)]
        self.assertEqual([[epoch for epoch, _ in batches] for batches in seen],
                         [sorted(7 * list(range(EPOCHS)))] * 2)
        for epoch in range(EPOCHS):
            counts = Counter(number for batches in seen for at,
                             ids in batches if at == epoch for number in ids)
            self.assertEqual(counts, Counter(range(SAMPLES)))

    def of_torchrun(self) -> List[Dict[str, str]]:
        import socket
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        return [{"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)} for rank in range(2)]

    @unittest.skipUnless(importlib.util.find_spec("lightning"), "lightning is not installed")
    def test_lightning(self) -> None:
        """It starts its second process itself, and looks at two batches of the validation before it
        trains."""
        self.run_ranks("lightning", [{}])

    @unittest.skipUnless(importlib.util.find_spec("accelerate"), "accelerate is not installed")
    def test_accelerate(self) -> None:
        self.run_ranks("accelerate", self.of_torchrun())

    @unittest.skipUnless(importlib.util.find_spec("ray"), "ray is not installed")
    def test_ray_train(self) -> None:
        self.run_ranks("ray", [{}])


WORKERS = {"lightning": with_lightning, "accelerate": with_accelerate, "ray": with_ray}

if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in WORKERS:
        WORKERS[sys.argv[1]](*sys.argv[2:])
    else:
        unittest.main()

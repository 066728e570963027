"""The loader in frameworks that bring their own loops and processes, against the real server: two processes
on the CPU each.

None of them is among the packages that the tests install: each is skipped, by name, where it is missing.  To
run them by hand with a Python that has them (pip install torch lightning transformers[torch] "ray[train]"):
    TUREEN_BIN=build/release/bin PYTHON tests/clients/test_torch_frameworks.py [-v] [NAME]
"""
from __future__ import annotations

import importlib.util
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, Dict, List

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent.parent / "clients" / "python"
sys.path[:0] = [str(HERE), str(HERE.parent / "system"), str(PACKAGE)]

SKIP = 77
if not any(importlib.util.find_spec(name) for name in ("lightning", "accelerate", "transformers", "ray")):
    print("SKIPPED, nothing was tested: none of lightning, accelerate, transformers, ray is installed",
          flush=True)
    sys.exit(SKIP)                      # PyTorch's import takes two seconds

import torch_or_skip                    # noqa: F401  # ends this program where there is no PyTorch
import torch

from exactly_once import assert_exactly_once
from tureen.torch import DataLoader

SAMPLES, HELD_OUT, BATCH, EPOCHS = 101, 33, 8, 3        # 6 whole steps of two ranks and one of 5 samples
STOP = 10                               # steps: three of epoch 1
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


def with_lightning(endpoint: str, folder: str, way: str = "") -> None:
    """All epochs; or to a checkpoint in the midst of epoch 1 (way "stopped"), or from there ("resumed")."""
    import lightning
    from lightning.pytorch.callbacks import ModelCheckpoint

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
    stopped = way == "stopped"
    saving = [ModelCheckpoint(folder, "stopped", every_n_train_steps=STOP)] if stopped else []
    trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", use_distributed_sampler=False,
                                max_epochs=EPOCHS, max_steps=STOP if stopped else -1, logger=False,
                                callbacks=saving, enable_checkpointing=stopped, enable_progress_bar=False)
    trainer.fit(Module(), train, held_out, ckpt_path=f"{folder}/stopped.ckpt" if way == "resumed" else None)


def with_accelerate(endpoint: str, folder: str) -> None:
    """Epoch 1 is stopped behind three steps, and taken up by another loader from Accelerate's checkpoint."""
    import accelerate

    accelerator = accelerate.Accelerator(cpu=True)
    train, held_out = loaders(endpoint)
    model = torch.nn.Linear(3 * SIDE * SIDE, 5)
    prepared, optimizer, same, same_held_out = accelerator.prepare(model,
        torch.optim.SGD(model.parameters(), 0.01), train, held_out)
    assert same is train and same_held_out is held_out
    accelerator.register_for_checkpointing(train)

    def step(epoch: int, batch: Any) -> None:
        note(folder, accelerator.process_index, epoch, train, batch[-1])
        optimizer.zero_grad()
        accelerator.backward(loss_of(prepared, batch, train))
        optimizer.step()
    for epoch in range(EPOCHS):
        batches = train
        if epoch == 1:
            for batch in itertools.islice(train, 3):
                step(epoch, batch)
            accelerator.save_state(f"{folder}/saved")
            accelerator.wait_for_everyone()
            train.close()
            train, accelerator = loaders(endpoint)[0], accelerate.Accelerator(cpu=True)
            accelerator.register_for_checkpointing(train)
            accelerator.load_state(f"{folder}/saved")
            batches = accelerator.skip_first_batches(train, 3)
        for batch in batches:
            step(epoch, batch)
        counted = torch.tensor([sum(0 if held_out.padding else len(batch[-1]) for batch in held_out)])
        assert int(accelerator.reduce(counted)) == HELD_OUT
    accelerator.wait_for_everyone()
    accelerator.end_training()


class Classifier(torch.nn.Module):
    """As Hugging Face's: called with a batch's fields by name, and notes what it trains with."""

    def __init__(self, seen: List[List[int]]) -> None:
        super().__init__()
        self.model, self._seen = torch.nn.Linear(3 * SIDE * SIDE, 5), seen

    def forward(self, pixel_values: torch.Tensor, labels: torch.Tensor, ids: torch.Tensor) -> Any:
        self._seen.append(ids.tolist())
        logits = self.model(pixel_values.float().flatten(1) / 255)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


def with_trainer(endpoint: str, folder: str, seed: str, stop: int, accumulate: int) -> List[List[int]]:
    """Two runs, the second from the first one's checkpoint.  Without a seed the loader's state is in it."""
    import transformers

    seen: List[List[int]] = []
    for checkpoint in (None, f"{folder}/checkpoint-{stop}"):
        loader = DataLoader("train", BATCH, shuffle=True, seed=int(seed) if seed else None, transform=TRAIN,
                            endpoint=endpoint, fields=True, ids=True, map_batch=lambda batch: {
                                "pixel_values": batch["image"], "labels": batch["label"],
                                "ids": batch["ids"]})

        class Trainer(transformers.Trainer):        # type: ignore[misc]
            def get_train_dataloader(self) -> DataLoader:
                return loader

        class SaveLoader(transformers.TrainerCallback):     # type: ignore[misc]
            def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> None:
                if not seed:
                    torch.save(loader.state_dict(), f"{folder}/checkpoint-{stop}/loader.pt")
                control.should_training_stop = True
        if checkpoint and not seed:
            loader.load_state_dict(torch.load(f"{checkpoint}/loader.pt"))
        arguments = transformers.TrainingArguments(
            folder, num_train_epochs=EPOCHS, per_device_train_batch_size=BATCH, report_to=[], use_cpu=True,
            save_strategy="no" if checkpoint else "steps", save_steps=stop, disable_tqdm=True,
            gradient_accumulation_steps=accumulate, logging_strategy="no")
        Trainer(Classifier(seen), arguments, callbacks=[SaveLoader()]).train(
            resume_from_checkpoint=checkpoint)
        loader.close()
    return seen


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

    def run_ranks(self, environments: List[Dict[str, str]], how: str, *more: str) -> None:
        """A process in each environment."""
        command = [sys.executable, "-B", __file__, how, self.server.endpoint, self.folder, *more]
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

    def assert_epochs(self) -> None:
        """What the two ranks noted is every sample once an epoch, in equally many batches."""
        seen = [[json.loads(line)
                 for line in Path(f"{self.folder}/{rank}.seen").read_text(encoding="ascii").splitlines()]
                for rank in range(2)]
        self.assertEqual([[epoch for epoch, _ in batches] for batches in seen],
                         [sorted(7 * list(range(EPOCHS)))] * 2)
        for epoch in range(EPOCHS):
            assert_exactly_once(self, (number for batches in seen for at, ids in batches if at == epoch
                                       for number in ids), SAMPLES)

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
        self.run_ranks([{}], "lightning")
        self.assert_epochs()

    @unittest.skipUnless(importlib.util.find_spec("lightning"), "lightning is not installed")
    def test_lightning_resumed(self) -> None:
        for way in ("stopped", "resumed"):
            self.run_ranks([{}], "lightning", way)
        self.assert_epochs()

    @unittest.skipUnless(importlib.util.find_spec("accelerate"), "accelerate is not installed")
    def test_accelerate(self) -> None:
        self.run_ranks(self.of_torchrun(), "accelerate")
        self.assert_epochs()

    @unittest.skipUnless(importlib.util.find_spec("transformers"), "transformers is not installed")
    def test_trainer(self) -> None:
        """Resumed in the middle of epoch 1, in its last accumulated step, and where epoch 2 begins: the
        batches of both runs together are each epoch once, and those of a seed are in its order."""
        batches = -(-SAMPLES // BATCH)
        with DataLoader("train", BATCH, seed=7, transform=TRAIN, endpoint=self.server.endpoint,
                        ids=True) as uncut:
            wanted = [batch[-1].tolist() for _ in range(EPOCHS) for batch in uncut]
        for seed, stop, accumulate in (("", 18, 1), ("7", 18, 1), ("", 10, 2), ("", 26, 1), ("7", 26, 1)):
            with self.subTest(seed=seed, stop=stop, accumulate=accumulate):
                shutil.rmtree(f"{self.folder}/trainer", ignore_errors=True)
                seen = with_trainer(self.server.endpoint, f"{self.folder}/trainer", seed, stop, accumulate)
                if seed:
                    self.assertEqual(seen, wanted)
                for epoch in range(EPOCHS):
                    assert_exactly_once(self, itertools.chain(*seen[batches * epoch:batches * (epoch + 1)]),
                                        SAMPLES)

    @unittest.skipUnless(importlib.util.find_spec("ray"), "ray is not installed")
    def test_ray_train(self) -> None:
        self.run_ranks([{}], "ray")
        self.assert_epochs()


WORKERS = {"lightning": with_lightning, "accelerate": with_accelerate, "ray": with_ray}

if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in WORKERS:
        WORKERS[sys.argv[1]](*sys.argv[2:])
    else:
        unittest.main()

"""The three diffs of docs/clients.md ("Training scripts that you have"), run against the real server: the
lines that a script has with its diff, with what they find in it.

The scripts are not here.  What stands around the lines is what each has at that place: torchvision's real
transforms, as its presets list them; of Lightning the module's hooks, in its Trainer where it is installed;
of timm its prefetcher and its create_transform where it is installed, and else stand-ins of the same shape.

Run by ctest (torch_scripts), or by hand: TUREEN_BIN=build/release/bin python3
tests/clients/test_torch_scripts.py [-v] [NAME]
"""
from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import shutil
import sys
import tempfile
import types
import unittest
from pathlib import Path
from typing import Any, Dict, Iterator, List
from unittest import mock

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent / "system"), str(SOURCE / "clients" / "python")]

import torch_or_skip
import torch

try:
    import torchvision
    from torchvision import transforms as V
except ImportError as missing:
    print(f"SKIPPED, nothing was tested: {missing} (apt install python3-torchvision)", flush=True)
    sys.exit(torch_or_skip.SKIP)

import harness
from tureen import recipes
from tureen import transforms as T

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SAMPLES, BATCH, SIDE = 21, 8, 32
HAS_TIMM = importlib.util.find_spec("timm") is not None


def diffs() -> List[List[List[str]]]:
    """Of each diff its parts; of each part its lines."""
    page = (SOURCE / "docs" / "clients.md").read_text(encoding="utf-8")
    found = re.findall(r"^```diff\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    return [[part.splitlines()[index > 0:] for index, part in enumerate(re.split(r"(?m)^@@", text))]
            for text in found]


def added(lines: List[str]) -> str:
    return "".join(line[1:] + "\n" for line in lines if line.startswith("+"))


def afterwards(lines: List[str]) -> str:
    """The script's text with the diff, as far as the diff shows it."""
    return "".join(line[1:] + "\n" for line in lines if not line.startswith("-"))


def in_function(code: str) -> str:
    """Of a function's body, as code of a module."""
    return "if True:\n" + code


def of_timm(name: str, module: str = "transforms", **values: Any) -> Any:
    """As timm's class has it after its construction."""
    one = type(name, (), {"__module__": f"timm.data.{module}", "__call__": lambda self, image: image})()
    one.__dict__.update(values)
    return one


def timm_transforms(is_training: bool, interpolation: str = "random", prefetcher: bool = True,
                    reprob: float = 0.0, remode: str = "const") -> Any:
    """create_transform (), as train.py calls it."""
    if HAS_TIMM:
        from timm.data import create_transform
        return create_transform(SIDE, is_training=is_training, re_prob=reprob,
                                re_mode=remode, use_prefetcher=prefetcher,
                                interpolation=interpolation if is_training else "bicubic")
    modes = V.InterpolationMode
    if not is_training:
        steps = [V.Resize(math.floor(SIDE / 0.875), modes.BICUBIC), V.CenterCrop(SIDE)]
    else:
        steps = [of_timm("RandomResizedCropAndInterpolation", size=(SIDE, SIDE), scale=(0.08, 1.0),
                         ratio=(3 / 4, 4 / 3), interpolation=(modes.BILINEAR, modes.BICUBIC)
                         if interpolation == "random" else modes(interpolation)),
                 V.RandomHorizontalFlip(0.5), V.ColorJitter(0.4, 0.4, 0.4)]
    if prefetcher:
        return V.Compose([*steps, of_timm("MaybePILToTensor")])
    steps += [of_timm("MaybeToTensor"), V.Normalize(torch.tensor(MEAN), torch.tensor(STD))]
    if reprob:
        steps.append(of_timm("RandomErasing", "random_erasing", probability=reprob, min_area=0.02,
                             max_area=1 / 3, min_count=1, max_count=1, rand_color=remode == "rand",
                             per_pixel=remode == "pixel", log_aspect_ratio=(math.log(0.3), -math.log(0.3))))
    return V.Compose(steps)


class Prefetcher:
    """timm's PrefetchLoader, as far as train.py looks at it."""

    def __init__(self) -> None:
        self.loader: Any = None

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        mean, std = (torch.tensor(value).view(1, 3, 1, 1) * 255 for value in (MEAN, STD))
        for images, labels in self.loader:
            yield images.to(torch.float32).sub_(mean).div_(std), labels


def prefetcher() -> Any:
    if HAS_TIMM:
        from timm.data.loader import PrefetchLoader
        return PrefetchLoader(None, device=torch.device("cpu"))
    return Prefetcher()


class Scripts(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="tu-scripts-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        for name in ("train", "val"):
            harness.make_folder(f"{self.folder}/{name}", SAMPLES)
        server = harness.Server({name: f"{self.folder}/{name}" for name in ("train", "val")}, cache="16M")
        server.__enter__()
        self.addCleanup(server.__exit__, None, None, None)
        patch = mock.patch.dict(os.environ, TUREEN_ENDPOINT=server.endpoint)
        patch.start()
        self.addCleanup(patch.stop)
        self.args = types.SimpleNamespace(batch_size=BATCH)

    def dataset(self, name: str, transform: Any) -> Any:
        return torchvision.datasets.ImageFolder(f"{self.folder}/{name}", transform)

    def take(self, loader: Any, drop_last: bool = False) -> torch.Tensor:
        """One epoch; each sample once."""
        images, labels = zip(*((batch.clone(), labels.clone()) for batch, labels in loader))
        self.assertEqual(len(images), len(loader))
        samples = SAMPLES - (SAMPLES % BATCH if drop_last else 0)
        self.assertEqual(sum(map(len, labels)), samples)
        for batch in images:
            self.assertEqual((batch.dtype, batch.shape[1:]), (torch.float32, (3, SIDE, SIDE)))
        return torch.cat(images)

    def assert_evaluates(self, images: torch.Tensor, dataset: Any) -> None:
        """What the script's own loader would have given."""
        for index in range(SAMPLES):
            torch.testing.assert_close(images[index], dataset[index][0], rtol=0, atol=1e-5)

    def test_three_lines_each(self) -> None:
        found = diffs()
        self.assertEqual(len(found), 3)
        for parts in found:
            self.assertEqual(sum(line.startswith("+") for part in parts for line in part), 3, parts)

    def test_torchvision(self) -> None:
        imports, main = diffs()[0]
        presets = [types.SimpleNamespace(transforms=V.Compose([*steps, V.PILToTensor(), V.ConvertImageDtype(
            torch.float), V.Normalize(MEAN, STD), *erasing])) for steps, erasing in (
                ([V.RandomResizedCrop(SIDE), V.RandomHorizontalFlip(0.5), V.TrivialAugmentWide()],
                 [V.RandomErasing(p=0.1)]),
                ([V.Resize(40), V.CenterCrop(SIDE)], []))]
        known: Dict[str, Any] = {"args": self.args, "dataset": self.dataset("train", presets[0]),
                                 "dataset_test": self.dataset("val", presets[1])}
        exec(added(imports) + in_function(added(main)), known)
        self.take(known["data_loader"])
        images = self.take(known["data_loader_test"])
        self.assertEqual(len(known["data_loader_test"].dataset), SAMPLES)       # evaluate () compares it
        known["dataset_test"].transform = presets[1].transforms
        self.assert_evaluates(images, known["dataset_test"])

    def test_lightning(self) -> None:
        imports, hooks = diffs()[1]
        end = [V.ToTensor(), V.Normalize(mean=MEAN, std=STD)]
        train = self.dataset("train", V.Compose([V.RandomResizedCrop(SIDE), V.RandomHorizontalFlip(), *end]))
        held_out = self.dataset("val", V.Compose([V.Resize(40), V.CenterCrop(SIDE), *end]))
        if importlib.util.find_spec("lightning"):
            self.train_with_lightning(added(imports), afterwards(hooks), train, held_out)
        known: Dict[str, Any] = {}
        exec(added(imports) + "class Module:\n" + afterwards(hooks), known)
        module = known["Module"]()
        module.train_dataset, module.eval_dataset, module.batch_size = train, held_out, BATCH
        self.take(module.train_dataloader())
        self.assert_evaluates(self.take(module.val_dataloader()), held_out)

    def train_with_lightning(self, imports: str, hooks: str, train: Any, held_out: Any) -> None:
        import lightning

        class Base(lightning.LightningModule):
            seen = {"train": 0, "val": 0}

            def __init__(self) -> None:
                super().__init__()
                self.train_dataset, self.eval_dataset, self.batch_size = train, held_out, BATCH
                self.model = torch.nn.Linear(3 * SIDE * SIDE, 5)

            def training_step(self, batch: Any, index: int) -> torch.Tensor:
                self.seen["train"] += len(batch[1])
                return torch.nn.functional.cross_entropy(self.model(batch[0].flatten(1)), batch[1])

            def validation_step(self, batch: Any, index: int) -> None:
                self.seen["val"] += len(batch[1])

            def configure_optimizers(self) -> torch.optim.Optimizer:
                return torch.optim.SGD(self.parameters(), 0.01)
        known: Dict[str, Any] = {"Base": Base}
        exec(imports + "class Module(Base):\n" + hooks, known)
        trainer = lightning.Trainer(accelerator="cpu", devices=1, max_epochs=2, logger=False,
                                    num_sanity_val_steps=0, enable_checkpointing=False,
                                    enable_progress_bar=False)
        trainer.fit(known["Module"]())
        self.assertEqual(Base.seen, {"train": 2 * SAMPLES, "val": 2 * SAMPLES})

    def test_timm(self) -> None:
        imports, main = diffs()[2]
        known: Dict[str, Any] = {
            "args": self.args, "loader_train": prefetcher(), "loader_eval": prefetcher(),
            "dataset_train": self.dataset("train", timm_transforms(True)),
            "dataset_eval": self.dataset("val", timm_transforms(False))}
        exec(added(imports) + in_function(added(main)), known)
        for loader in (known["loader_train"].loader, known["loader_eval"].loader):
            #  _set_loader_epoch () looks at these before each epoch.
            self.assertFalse(hasattr(loader.dataset, "set_epoch"))
            loader.batch_sampler.set_epoch(0)
            loader.sampler.set_epoch(0)
        self.take(known["loader_train"], drop_last=True)
        images = self.take(known["loader_eval"])
        self.assert_evaluates(images, self.dataset("val", V.Compose(
            [V.Resize(math.floor(SIDE / 0.875), V.InterpolationMode.BICUBIC), V.CenterCrop(SIDE),
             V.ToTensor(), V.Normalize(MEAN, STD)])))

    def test_timm_without_its_prefetcher(self) -> None:
        imports, main = diffs()[2]
        known: Dict[str, Any] = {
            "args": self.args, "dataset_train": self.dataset("train", timm_transforms(
                True, prefetcher=False, reprob=0.25)),
            "dataset_eval": self.dataset("val", timm_transforms(False, prefetcher=False))}
        exec(added(imports) + in_function(added(main).replace(".loader =", " =")), known)
        self.take(known["loader_train"], drop_last=True)
        self.take(known["loader_eval"])

    def test_timms_transforms_are_the_recipe(self) -> None:
        def rounded(pipeline: T.Compose) -> Any:
            """timm has means and deviations as floats of 32 bits."""
            return json.loads(json.dumps(pipeline.to_json()), parse_float=lambda text: round(float(text), 6))
        for erase in (0.0, 0.25):
            theirs = T.translate(timm_transforms(True, prefetcher=False, reprob=erase))
            self.assertEqual(rounded(theirs.share(1)),
                             rounded(recipes.timm_train(SIDE, random_erase=erase, tensor=True)))
        self.assertEqual(rounded(T.translate(timm_transforms(False, prefetcher=False)).share(2)),
                         rounded(recipes.timm_eval(SIDE, tensor=True)))

    def test_what_timm_does_and_the_server_does_not(self) -> None:
        with self.assertRaisesRegex(T.UnsupportedTransform, "--remode const"):
            T.translate(timm_transforms(True, prefetcher=False, reprob=0.1, remode="pixel"))


if __name__ == "__main__":
    unittest.main()

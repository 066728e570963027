"""map= and map_batch= of tureen.torch against the real server: tensors in, tensors out, beside what a plain
loader gives.

Run by ctest (torch_map), or by hand: TUREEN_BIN=build/release/bin python3 tests/clients/test_torch_map.py
[-v] [NAME]
"""
from __future__ import annotations

import gc
import json
import os
import pickle
import shutil
import sys
import tempfile
import time
import unittest
import warnings
from pathlib import Path
from typing import Any, Dict, List

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "system"), str(HERE.parent.parent / "clients" / "python")]

import torch_or_skip                    # noqa: F401  # ends this program where there is no PyTorch
import harness
import torch

import tureen
from late_device import LateDevice
from tureen.torch import DataLoader

SAMPLES = 22
CROP = [{"op": "resize", "size": [16, 16]}]
FLIPPED = [{"op": "resize", "size": [16, 16]}, {"share": True}, {"op": "flip"}]


def setUpModule() -> None:
    global SERVER
    folder = tempfile.mkdtemp(prefix="tu-torch-", dir="/tmp")
    unittest.addModuleCleanup(shutil.rmtree, folder, ignore_errors=True)
    data = os.path.join(folder, "train")
    harness.make_folder(data, SAMPLES, classes=3, seed=harness.SEED, sizes=((20, 30), (20, 30)))
    captioned = os.path.join(folder, "captioned")
    shutil.copytree(data, captioned)
    lines = [f"{path.relative_to(data)}\t{number}\tpicture {number} ü"
             for number, path in enumerate(sorted(Path(data).glob("*/*.jpg")))]
    text = "\n".join(["path\tnumber\tcaption", *lines]) + "\n"
    Path(captioned, "labels.tsv").write_text(text, encoding="utf-8")
    SERVER = harness.Server({"train": data, "captioned": captioned})
    SERVER.__enter__()
    unittest.addModuleCleanup(SERVER.__exit__, None, None, None)


#   ---- functions

def identity(sample: Any) -> Any:
    return sample


def in_place(sample: Any) -> Any:
    image, label = sample
    image.mul_(2)
    return image, label


def floats(sample: Any) -> Any:
    image, label = sample
    return image.float() / 255, torch.nn.functional.one_hot(label, 3).to(torch.float16)


def nested(sample: Any) -> Any:
    image, label = sample
    views = (image.to(torch.bfloat16), image.flip(-1))
    return {"views": views, "label": label, "name": f"n{int(label)}", "half": 0.5}


def means(batch: Any) -> Any:
    images, labels = batch
    return images.float().mean((2, 3)), labels


def mixed(batch: Any) -> Any:
    images, labels = batch
    return (images.float() + images.flip(0).float()) / 2, labels


def captions(sample: Any) -> Any:
    image, labels = sample
    return image, labels["number"] * 2, labels["caption"].upper()


def with_ids(sample: Any) -> Any:
    image, label, number = sample
    return image[:, :1, :1], number * 10


def random_number(sample: Any) -> Any:
    time.sleep(0.02)                            # so that both processes get some
    return torch.rand((), dtype=torch.float64), os.getpid()


FUNCTIONS: Dict[str, Dict[str, Any]] = {
    "identity": {"map": identity}, "in_place": {"map": in_place}, "floats": {"map": floats},
    "nested": {"map": nested}, "means": {"map_batch": means}, "mixed": {"map_batch": mixed},
    "both": {"map": floats, "map_batch": mixed}}


def loader(**options: Any) -> DataLoader:
    """Its processes are forked: new ones import PyTorch, for two seconds each."""
    options.setdefault("transform", CROP)
    if options.get("map_workers"):
        options.setdefault("multiprocessing_context", "fork")
    return DataLoader(options.pop("dataset", "train"), **{"batch_size": 5, "endpoint": SERVER.endpoint,
                                                          "timeout": harness.PATIENCE, **options})


def model(batch: Any, options: Dict[str, Any]) -> Any:
    images, labels = batch
    made: Any = (images.clone(), labels.clone())
    if options.get("map"):
        made = collated([options["map"]((image.clone(), label.clone())) for image, label in zip(*made)])
    return options["map_batch"](made) if options.get("map_batch") else made


def collated(parts: List[Any]) -> Any:
    first = parts[0]
    if isinstance(first, torch.Tensor):
        return torch.stack(parts)
    if isinstance(first, dict):
        return {name: collated([part[name] for part in parts]) for name in first}
    if isinstance(first, tuple):
        return tuple(collated(list(column)) for column in zip(*parts))
    return parts if isinstance(first, str) else torch.tensor(parts, dtype=torch.float64)


class Maps(unittest.TestCase):
    def setUp(self) -> None:
        warnings.simplefilter("ignore", RuntimeWarning)         # lists of batches are kept here

    def tearDown(self) -> None:
        gc.collect()
        harness.wait_until("no job is left", lambda: not SERVER.status()["jobs"])

    def assert_same(self, got: Any, wanted: Any) -> None:
        self.assertEqual(type(got), type(wanted))
        if isinstance(wanted, torch.Tensor):
            self.assertEqual(got.dtype, wanted.dtype)
            self.assertTrue(torch.equal(got, wanted))
        elif isinstance(wanted, dict):
            self.assertEqual(list(got), list(wanted))
            self.assert_same(tuple(got.values()), tuple(wanted.values()))
        elif isinstance(wanted, tuple):
            self.assertEqual(len(got), len(wanted))
            for ours, theirs in zip(got, wanted):
                self.assert_same(ours, theirs)
        else:
            self.assertEqual(got, wanted)

    def test_as_the_model(self) -> None:
        with loader(seed=3, transform=FLIPPED) as plain:
            before = [[(images.clone(), labels) for images, labels in plain] for _ in range(2)]
        for name, options in FUNCTIONS.items():
            #  One set is of new processes, which get their functions and PyTorch by import.
            for workers, begun in ((0, None), (2, "fork"), *([(1, "spawn")] if name == "both" else [])):
                with self.subTest(name, workers=workers, begun=begun), \
                        loader(seed=3, transform=FLIPPED, map_workers=workers, **options,
                               multiprocessing_context=begun) as mapped:
                    for epoch in range(2):
                        count = 0
                        for got, batch in zip(mapped, before[epoch]):
                            self.assert_same(got, model(batch, options))
                            count += 1
                        self.assertEqual((count, len(mapped)), (5, 5))

    def test_images_stay_channels_last(self) -> None:
        for function in (identity, in_place, floats):
            with self.subTest(function), loader(map=function, map_workers=1) as mapped:
                images, _ = next(iter(mapped))
                self.assertTrue(images.is_contiguous(memory_format=torch.channels_last))
                images.add_(1)                              # and are the loop's own
                del images

    def test_labels_texts_and_ids(self) -> None:
        with loader(dataset="captioned", map=captions, map_workers=1) as mapped:
            numbers, texts = [], []
            for _, doubled, captioned in mapped:
                numbers += doubled.tolist()
                texts += captioned
            self.assertEqual(numbers, [2 * number for number in range(SAMPLES)])
            self.assertEqual(texts, [f"PICTURE {number} Ü" for number in range(SAMPLES)])
        with loader(ids=True, map=with_ids, map_workers=1) as mapped:
            self.assertEqual([id for _, ids in mapped for id in ids.tolist()],
                             [10 * number for number in range(SAMPLES)])
        with loader(fields=True, ids=True, map=identity) as mapped:
            self.assertEqual(list(next(iter(mapped))), ["image", "label", "ids"])

    def test_a_device(self) -> None:
        for function in (identity, nested):
            with self.subTest(function), loader(seed=5) as plain:
                device = LateDevice()
                mapped = loader(seed=5, map=function, map_workers=2, device=device)
                copies = list(mapped)
                mapped.close()                              # all are copied now
                self.assertEqual((device.left, device.pinned, device.unpinned_early), (0, {}, 0))
                for got, batch in zip(copies, plain):
                    self.assert_same(got, model(batch, {"map": function}))
                del got, batch

    def test_states_and_samplers(self) -> None:
        """A state in the middle, and with a sampler one set of processes for the jobs of all epochs."""
        for name, order in (("shared", {"shuffle": True}), ("seeded", {"seed": 7}),
                            ("sampler", {"sampler": range(12)})):
            with self.subTest(name):
                whole = 12 if name == "sampler" else SAMPLES
                options: Dict[str, Any] = dict(map=with_ids, map_workers=2, ids=True, **order)
                first, ids = loader(**options), []
                for number, (_, tens) in enumerate(first):
                    ids += tens.tolist()
                    if number == 1:
                        break
                state = json.loads(json.dumps(first.state_dict()))
                pids = first._mapper.pids()
                for _ in range(2):
                    self.assertEqual(sum(len(tens) for _, tens in first), whole)
                self.assertEqual(first._mapper.pids(), pids)
                first.close()
                with loader(**options) as second:
                    second.load_state_dict(state)
                    ids += [id for _, tens in second for id in tens.tolist()]
                self.assertEqual(sorted(ids), [10 * id for id in range(whole)])

    def test_arguments(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with loader(map=identity, num_workers=2, multiprocessing_context="fork") as mapped:
                next(iter(mapped))
                self.assertEqual(len(mapped._mapper.pids()), 2)
        with self.assertRaisesRegex(ValueError, "map_workers"):
            loader(map_workers=2)
        restored = pickle.loads(pickle.dumps(loader(map=identity, map_workers=1)))
        self.assertEqual(sum(len(labels) for _, labels in restored), SAMPLES)
        restored.close()

    def test_random_numbers_of_each_process(self) -> None:
        """What is forked would begin with its parent's."""
        drawn, pids = [], set()
        with loader(map=random_number, map_workers=2, batch_size=11) as mapped:
            for _ in range(2):
                for numbers, of in mapped:
                    drawn += numbers.tolist()
                    pids.update(of.tolist())
                harness.wait_until("both have begun", mapped._mapper.ready)
        self.assertEqual((len(set(drawn)), len(pids)), (2 * SAMPLES, 2))

    def test_an_error(self) -> None:
        """Also of a class that is not made again of its .args, and that is the main program's."""
        for workers, begun in ((0, None), (1, "fork"), (1, "spawn")):
            with self.subTest(workers=workers, begun=begun), \
                    loader(map=fails, map_workers=workers, multiprocessing_context=begun) as mapped:
                message = r"sample 0 \(class_0/00000.jpg\): OfTwo: no such colour"
                with self.assertRaisesRegex(tureen.MapFailed, message) as failed:
                    next(iter(mapped))
                cause = failed.exception.__cause__
                assert isinstance(cause, OfTwo)
                self.assertEqual((type(cause), cause.args, str(cause), cause.second),
                                 (OfTwo, ("no such colour",), "no such colour", "colour"))
                del failed, cause


class OfTwo(RuntimeError):
    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")
        self.second = second


def fails(sample: Any) -> Any:
    raise OfTwo("no such", "colour")


if __name__ == "__main__":
    unittest.main()

"""tureen.keras against the real server: with a stand-in that takes a data set as Keras 3 does, and with Keras
itself where it is installed.

Run by ctest (python_keras), or by hand, with a Python that has Keras and a backend of it:
TUREEN_BIN=build/release/bin KERAS_BACKEND=jax PYTHON tests/clients/test_python_keras.py [-v] [NAME]
"""
from __future__ import annotations

import importlib.util
import itertools
import os
import random
import shutil
import sys
import tempfile
import types
import unittest
from pathlib import Path
from typing import Any, Iterator, List, Optional
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "system"), str(HERE.parent.parent / "clients" / "python")]

import harness
from exactly_once import assert_exactly_once

import tureen

IS_THERE = importlib.util.find_spec("keras") is not None
if not IS_THERE:
    class PyDataset:
        """What of Keras's the stand-in needs."""
    sys.modules["keras"] = types.ModuleType("keras")
    sys.modules["keras"].utils = types.SimpleNamespace(PyDataset=PyDataset)    # type: ignore[attr-defined]

import tureen.keras

SAMPLES, HELD_OUT, BATCH = 22, 9, 4
CROP = [{"op": "resize", "size": [8, 8]}]


def setUpModule() -> None:
    global SERVER
    folder = tempfile.mkdtemp(prefix="tu-keras-", dir="/tmp")
    unittest.addModuleCleanup(shutil.rmtree, folder, ignore_errors=True)
    data = {"train": SAMPLES, "val": HELD_OUT}
    for name, samples in data.items():
        harness.make_folder(f"{folder}/{name}", samples, classes=3, sizes=((20, 30), (20, 30)))
    SERVER = harness.Server({name: f"{folder}/{name}" for name in data})
    SERVER.__enter__()
    unittest.addModuleCleanup(SERVER.__exit__, None, None, None)


def dataset(name: str = "train", **options: Any) -> tureen.keras.Dataset:
    """The model gets the samples' ids."""
    loader = tureen.Loader(SERVER.endpoint, name, BATCH, transform=CROP, timeout=harness.PATIENCE, **options)
    return tureen.keras.Dataset(loader, inputs="ids")


def chosen(batch: tureen.Batch, names: Any) -> Any:
    return batch.ids[:, None].astype("float32") if names == "ids" else batch[names]


def passed(data: Any, shuffle: bool = False) -> Iterator[List[int]]:
    """As Keras's adapter passes through a PyDataset."""
    indices = list(range(data.num_batches))
    if shuffle:
        random.Random(1).shuffle(indices)
    for index in indices:
        yield data[index][0].reshape(-1).astype(int).tolist()


def flat(batches: Any) -> List[int]:
    return [int(number) for ids in batches for number in ids]


@mock.patch.object(tureen.keras, "_chosen", chosen)
class Passes(unittest.TestCase):
    def assert_epochs(self, ids: List[int], samples: int, epochs: int) -> None:
        self.assertEqual(len(ids), samples * epochs)
        for epoch in range(epochs):
            assert_exactly_once(self, ids[samples * epoch:samples * (epoch + 1)], samples)

    def test_a_pass_is_an_epoch(self) -> None:
        for order in ({"shuffle": True}, {"shuffle": False}, {"seed": 3},
                      {"shuffle": True, "drop_last": True}):
            with self.subTest(order):
                data = dataset(**order)
                self.assertEqual(len(data), 5 if order.get("drop_last") else 6)
                passes = [flat(passed(data)) for _ in range(3)]
                if order.get("drop_last"):
                    self.assertEqual([len(set(ids)) for ids in passes], [20] * 3)
                else:
                    self.assert_epochs(flat(passes), SAMPLES, 3)
                self.assertEqual(data._loader.state_dict()["epoch"], "3")

    def test_what_was_only_looked_at_comes_again(self) -> None:
        """fit looks at one batch, or at three, of its data's first epoch; a later one may be broken off."""
        for taken in (1, 3):
            data = dataset(shuffle=True)
            for _ in range(2):
                looking = passed(data)
                for _ in range(taken):
                    next(looking)
                self.assertEqual(data._loader.state_dict()["batches"], str(taken))
            self.assert_epochs(flat(passed(data)), SAMPLES, 1)
            next(passed(data))
            self.assert_epochs(flat(flat(passed(data)) for _ in range(2)), SAMPLES, 2)
            self.assertEqual(data._loader.state_dict()["epoch"], "3")

    def test_it_goes_on_from_a_state(self) -> None:
        data = dataset(seed=5)
        ids = [flat(passed(data)) for _ in range(3)]
        again = dataset(seed=5)
        first = dataset(seed=5)
        flat(passed(first))
        again._loader.load_state_dict(first._loader.state_dict())
        next(passed(again))
        self.assertEqual([flat(passed(again)) for _ in range(2)], ids[1:])

    def test_a_state_or_an_epoch_in_between(self) -> None:
        """Behind whole passes, a look, and a pass that was broken off, the loader begins where it was told
        to."""
        data = dataset(seed=5)
        states, epochs = [], []
        for _ in range(3):
            states.append(data._loader.state_dict())
            epochs.append(flat(passed(data)))
        for taken in (0, 1, 3, 6):
            for epoch in (0, 2):
                for told in (lambda loader: loader.load_state_dict(states[epoch]),
                             lambda loader: loader.set_epoch(epoch)):
                    with self.subTest(taken=taken, epoch=epoch):
                        data = dataset(seed=5)
                        flat(passed(data))
                        flat(itertools.islice(passed(data), taken))
                        told(data._loader)
                        self.assertEqual(data._loader.state_dict()["epoch"], str(epoch))
                        flat(itertools.islice(passed(data), 1))
                        self.assertEqual(flat(passed(data)), epochs[epoch])
                        self.assertEqual(data._loader.state_dict()["epoch"], str(epoch + 1))

    def test_a_state_in_the_midst_of_an_epoch(self) -> None:
        """It is refused until its rest is left out."""
        data = dataset(seed=5)
        flat(passed(data))
        flat(itertools.islice(passed(data), 2))
        state = data._loader.state_dict()
        flat(passed(data))
        third = flat(passed(data))
        for data in (dataset(seed=5), data):
            data._loader.load_state_dict(state)
            for _ in range(2):
                with self.assertRaisesRegex(tureen.StateError, "behind 2 batches of epoch 1, and each of "
                                            r"Keras's epochs is a whole one: .* set_epoch\(2\)$"):
                    next(passed(data))
                self.assertEqual(data._loader.state_dict()["taken"], state["taken"])
            data._loader.set_epoch(2)
            self.assertEqual(flat(passed(data)), third)

    def test_a_loop_of_its_own_in_between(self) -> None:
        """The loader's next iteration begins anew then, as each of its iterations does."""
        data = dataset(seed=5)
        first = flat(passed(data))
        for _ in range(2):
            for batch in data._loader:
                break
            self.assertEqual(flat(passed(data)), first)

    def test_what_cannot_be_is_said(self) -> None:
        with self.assertRaisesRegex(ValueError, r"give fit\(\) shuffle=False"):
            list(passed(dataset(shuffle=True), shuffle=True))
        with self.assertRaisesRegex(ValueError, "ends after 3 epochs"):
            dataset(epochs=3)
        with self.assertRaisesRegex(TypeError, "must be a tureen.Loader, .* not 'train'"):
            tureen.keras.Dataset("train")                   # type: ignore[arg-type]

    @unittest.skipUnless(IS_THERE, "keras is not installed")
    def test_keras(self) -> None:
        """Epochs of training and of validation, also where steps_per_epoch cuts them."""
        import keras

        seen: List[List[int]] = []
        validated: List[List[int]] = []

        class Note(keras.layers.Layer):         # type: ignore[misc]
            def call(self, ids: Any, training: Optional[bool] = False) -> Any:
                try:
                    numbers = keras.ops.convert_to_numpy(ids).reshape(-1).tolist()
                except Exception:               # of the look at the shapes
                    return ids
                (seen if training else validated).append(numbers)
                return ids

        for steps, epochs, whole in ((None, 3, 3), (2, 6, 2)):
            model = keras.Sequential([keras.layers.Input((1,)), Note(), keras.layers.Dense(3)])
            model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                          run_eagerly=True)
            seen.clear()
            validated.clear()
            model.fit(dataset(shuffle=True), epochs=epochs, steps_per_epoch=steps, shuffle=False, verbose=0,
                      validation_data=dataset("val", shuffle=False))
            self.assert_epochs(flat(seen), SAMPLES, whole)
            self.assert_epochs(flat(validated), HELD_OUT, epochs)
        with self.assertRaisesRegex(ValueError, "shuffle=False"):
            model.fit(dataset(shuffle=True), verbose=0)


class Fields(unittest.TestCase):
    def test_fields(self) -> None:
        loader = tureen.Loader(SERVER.endpoint, batch_size=BATCH, transform=CROP, shuffle=True)
        image, label = tureen.keras.Dataset(loader)[0]
        self.assertEqual((image.shape, label.shape), ((BATCH, 8, 8, 3), (BATCH,)))
        inputs, = tureen.keras.Dataset(loader, inputs=["image", "label"], targets=None)[0]
        self.assertEqual(list(inputs), ["image", "label"])
        with self.assertRaisesRegex(KeyError, "'picture': the batch's fields are 'image', 'label'"):
            tureen.keras.Dataset(loader, inputs="picture")[0]


if __name__ == "__main__":
    unittest.main()

"""A loop in JAX over a tureen.Loader: two epochs, of which another loader takes the second one's rest.

Run by tests/first_hour.sh, or by hand with a Python that has JAX:
TUREEN_BIN=build/release/bin PYTHON tests/first_hour/test_jax.py [-v]
"""
from __future__ import annotations

import json
import shutil
import sys
import tempfile
import unittest
import warnings
from pathlib import Path
from typing import Any, List, Tuple

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "clients"), str(TESTS / "system"), str(TESTS.parent / "clients" / "python")]

import jax
import jax.numpy as jnp
import numpy

import harness
import tureen
from exactly_once import assert_exactly_once

SAMPLES, CLASSES, BATCH, SIDE = 101, 5, 8, 16


@jax.jit
def step(weights: Any, images: Any, labels: Any) -> Any:
    def loss(weights: Any) -> Any:
        logits = images.reshape(len(images), -1) / 255 @ weights
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()
    return weights - 0.1 * jax.grad(loss)(weights)


class Jax(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.mkdtemp(prefix="tu-jax-", dir="/tmp")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        harness.make_folder(f"{folder}/train", SAMPLES, CLASSES)
        server = harness.Server({"train": f"{folder}/train"}, cache="16M")
        server.__enter__()
        self.addCleanup(server.__exit__, None, None, None)
        self.endpoint = server.endpoint

    def loader(self, **options: Any) -> tureen.Loader:
        return tureen.Loader(
            self.endpoint, "train", BATCH, shuffle=True, timeout=harness.PATIENCE,
            transform=[{"op": "random_resized_crop", "size": [SIDE, SIDE], "share": True}], **options)

    def test_epochs_and_a_resumed_one(self) -> None:
        weights = jnp.zeros((SIDE * SIDE * 3, CLASSES))
        ids: List[List[int]] = [[], []]
        kept: List[Tuple[Any, Any]] = []
        first = self.loader(epochs=2)
        for batch in first:
            images = jax.device_put(batch["image"])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", tureen.TureenWarning)       # so many batches are kept
                kept.append((images, numpy.array(batch["image"])))
            weights = step(weights, images, jax.device_put(batch["label"]))
            ids[batch.epoch] += batch.ids.tolist()
            if len(ids[1]) == 3 * BATCH:
                break
        state = json.dumps(first.state_dict())
        rest = self.loader(epochs=2)
        rest.load_state_dict(json.loads(state))
        for batch in rest:
            self.assertEqual(batch.epoch, 1)
            weights = step(weights, jnp.asarray(batch["image"]), jnp.asarray(batch["label"]))
            ids[1] += batch.ids.tolist()
        self.assertTrue(bool(jnp.isfinite(weights).all()) and bool(weights.any()))
        for epoch in ids:
            assert_exactly_once(self, epoch, SAMPLES)
        for images, copy in kept:
            numpy.testing.assert_array_equal(images, copy)


if __name__ == "__main__":
    unittest.main()

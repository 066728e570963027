"""Ragged fields as NumPy arrays and as tensors, beside lists of lists.  Run by ctest (torch_ragged), or by
hand."""
from __future__ import annotations

import os
import sys
import unittest
from pathlib import Path
from typing import Any, Callable, List, Tuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "clients" / "python")]
SEED = int(os.environ.get("TEST_SEED", "20261127"))

import torch_or_skip                    # noqa: F401  # ends this program where there is no PyTorch
import numpy as np
import torch

import tureen
from late_device import LateDevice
from tureen.batch import Batch, ragged, views
from tureen.torch import Ragged
from tureen.torch.device import Copier
from tureen.torch.tensors import Layout
from tureen.transforms import (Compose, Decode, DecodeArray, DecodeBoxes, DecodeBytes, RandomHorizontalFlip,
                               RandomResizedCrop, UnsupportedTransform)
from tureen.wire import Field

Rows = List[List[Any]]


def room_of(rows: Rows, most: int, dtype: Any, inner: Tuple[int, ...]) -> Any:
    """As a server writes it."""
    room = np.zeros((len(rows), most, *inner), dtype)
    for place, row in zip(room, rows):
        place[:len(row)] = np.array(row, dtype).reshape(-1, *inner)
    return room, np.array([len(row) for row in rows], np.int64)


def both(room: Any, lengths: Any) -> Tuple[Callable[[Any], Any], ...]:
    """NumPy's and PyTorch's, and PyTorch's by `of`."""
    numpy = tureen.Ragged(room, lengths)
    values: Any = numpy.values
    return (numpy, Ragged(torch.from_numpy(values), torch.from_numpy(numpy.offsets)),
            Ragged.of(torch.from_numpy(room), torch.from_numpy(lengths)))


class BesideLists(unittest.TestCase):
    def test_everything_is_what_the_lists_are(self) -> None:
        chance = np.random.default_rng(SEED)
        for dtype, inner in ((np.int32, ()), (np.float32, (4,)), (np.uint8, ()), (np.int64, (2, 3)),
                             (np.bool_, ())):
            for count in range(1, 9):
                most = int(chance.integers(1, 7))
                counts = chance.integers(0, most + 1, count).tolist()
                rows = [chance.integers(0, 2, (rows, *inner)).astype(dtype).tolist() for rows in counts]
                offsets = [0, *np.cumsum([len(row) for row in rows]).tolist()]
                longest, room = max(map(len, rows)), room_of(rows, most, dtype, inner)
                for found in both(*room):
                    told = f"seed {SEED}, {found!r}, {rows}"
                    self.assertEqual(found.values.tolist(), [row for part in rows for row in part], told)
                    self.assertEqual(found.offsets.tolist(), offsets, told)
                    self.assertEqual(found.lengths.tolist(), [len(row) for row in rows], told)
                    self.assertEqual((len(found), found.longest), (count, longest), told)
                    self.assertEqual([part.tolist() for part in found], rows, told)
                    self.assertEqual([found[at].tolist() for at in range(count)], rows, told)
                    self.assertEqual(found[-1].tolist(), rows[-1], told)
                    for length in (None, longest, longest + 1, most + 3):
                        for value in (0, 1):
                            padded = found.padded(value, length)
                            self.assertEqual(tuple(padded.shape),
                                             (count, longest if length is None else length, *inner), told)
                            filler = np.full(inner, value, dtype).tolist()
                            self.assertEqual(padded.tolist(), [
                                row + [filler] * (padded.shape[1] - len(row)) for row in rows], told)
                            self.assertEqual(str(padded.dtype).split(".")[-1], str(np.dtype(dtype)))
                    if longest:
                        with self.assertRaisesRegex(ValueError, f"{longest} rows, more than length="):
                            found.padded(0, longest - 1)

    def test_texts(self) -> None:
        texts = ["häß", "", "日本"]
        room = room_of([list(text.encode()) for text in texts], 9, np.uint8, ())
        for found in both(*room):
            self.assertEqual(found.texts(), texts)
        broken = room_of([list("é".encode()[:1])], 2, np.uint8, ())
        for found in both(*broken):
            self.assertEqual(found.texts(), ["\ufffd"])
        for shape in (), (3, 5):
            for found in both(*room_of([np.ones((1, *shape)).tolist()], 2, np.int32, shape)):
                with self.assertRaisesRegex(TypeError, rf"are (torch\.)?int32\[{str(shape)[1:-1]}\]$"):
                    found.texts()

    def test_padding_with_zeros_copies_nothing(self) -> None:
        room, lengths = room_of([[1, 2], [3]], 4, np.int32, ())
        padded = tureen.Ragged(room, lengths).padded()
        self.assertTrue(np.shares_memory(padded, room))
        self.assertEqual(padded.tolist(), [[1, 2], [3, 0]])

    def test_moved(self) -> None:
        found = both(*room_of([[1, 2], [3]], 4, np.int32, ()))[1]
        moved = found.to(torch.float64)
        self.assertEqual((moved.values.dtype, moved.offsets.dtype), (torch.float64, torch.int64))
        self.assertEqual(moved.padded(-1).tolist(), [[1, 2], [3, -1]])
        self.assertEqual(found.mask().tolist(), [[True, True], [True, False]])
        self.assertEqual(found.mask(3).tolist(), [[True, True, False], [True, False, False]])
        with self.assertRaises(IndexError):
            found[2]


FIELDS = [Field("image", np.dtype(np.uint8), (2, 2, 3), 0, 12, "uint8"),
          Field("tokens", np.dtype(np.uint16), (4,), 64, 8, "uint16", "tokens_length"),
          Field("tokens_length", np.dtype(np.int64), (), 128, 8, "int64"),
          Field("boxes", np.dtype(np.float32), (2, 4), 192, 32, "float32", "boxes_length"),
          Field("boxes_length", np.dtype(np.int64), (), 256, 8, "int64"),
          Field("cube", np.dtype(np.uint8), (2, 2, 3), 320, 12, "uint8"),
          Field("label", np.dtype(np.int64), (), 384, 8, "int64")]
PIPELINE = [{"op": "decode", "as": "image", "fields": [
    "image", {"field": "tokens", "as": "array", "dtype": "uint16", "shape": [4], "ragged": True},
    {"field": "boxes", "as": "array", "dtype": "float32", "shape": [2, 4], "ragged": True},
    {"field": "cube", "as": "array", "dtype": "uint8", "shape": [2, 2, 3]}]}]


class InTheLoop(unittest.TestCase):
    """From a slot to what the loop gets."""

    def setUp(self) -> None:
        self.slot = np.zeros(512, np.uint8)
        self.arrays = views(FIELDS, self.slot, 2)
        self.arrays["tokens"][:] = [[5, 65535, 0, 0], [7, 8, 9, 10]]
        self.arrays["tokens_length"][:] = [2, 4]
        self.arrays["boxes"][1, 0] = [1, 2, 3, 4]
        self.arrays["boxes_length"][:] = [0, 1]
        self.batch = Batch(ragged(FIELDS, self.arrays), np.arange(2), 0, 0)

    def assert_inputs(self, inputs: Any) -> None:
        self.assertEqual(list(inputs), ["image", "tokens", "boxes", "cube"])
        self.assertEqual(inputs["tokens"].values.tolist(), [5, 65535, 7, 8, 9, 10])
        self.assertEqual(inputs["tokens"].values.dtype, torch.int32)
        self.assertEqual(inputs["tokens"].offsets.tolist(), [0, 2, 6])
        self.assertEqual(inputs["boxes"].values.tolist(), [[1, 2, 3, 4]])
        self.assertEqual(inputs["boxes"].offsets.tolist(), [0, 0, 1])
        self.assertEqual(inputs["image"].shape, (2, 3, 2, 2), "an image is turned")
        self.assertEqual(inputs["cube"].shape, (2, 2, 2, 3), "an array beside it is none")

    def test_on_the_host(self) -> None:
        layout = Layout(FIELDS, PIPELINE, False, False)
        inputs, labels = layout.present(layout.host(self.batch), self.batch)
        self.assert_inputs(inputs)
        self.assertEqual(labels.tolist(), [0, 0])
        self.slot[:] = 0                # which the server writes anew, once the batch is gone
        self.assert_inputs({**inputs})
        self.assertIn("tokens ragged", repr(self.batch))

    def test_boxes_of_views(self) -> None:
        fields = [Field("image", np.dtype(np.uint8), (2, 2, 3), 0, 12, "uint8"),
                  Field("image_2", np.dtype(np.uint8), (2, 2, 3), 64, 12, "uint8")]
        for name, at in (("boxes", 128), ("boxes_2", 256)):
            fields += [Field(name, np.dtype(np.float32), (2, 4), at, 32, "float32", name + "_length"),
                       Field(name + "_length", np.dtype(np.int64), (), at + 64, 8, "int64")]
        batch = Batch(ragged(fields, views(fields, self.slot, 2)), np.arange(2), 0, 0)
        layout = Layout(fields, [{"op": "decode", "as": "image", "fields": [
            "image", {"field": "boxes", "as": "boxes", "shape": [2, 4]}]}, {"op": "views", "count": 2}],
            False, False)
        self.assertEqual(list(layout.present(layout.host(batch), batch)),
                         ["image", "image_2", "boxes", "boxes_2"], "all of them are inputs")

    def test_on_a_device(self) -> None:
        device = LateDevice()
        copier = Copier(device, room=1)
        layout = Layout(FIELDS, PIPELINE, True, True)
        values = copier.copy(layout.host(self.batch), self.batch)
        given = layout.present(values, self.batch)
        device.run(device.left)
        self.assertEqual(given.pop("ids").tolist(), [0, 1])
        self.assertEqual(given.pop("label").tolist(), [0, 0])
        self.assert_inputs(given)
        copier.close()

    def test_functions_get_the_arrays(self) -> None:
        plain = Batch(self.arrays, np.arange(2), 0, 0)
        layout = Layout(FIELDS, PIPELINE, True, False)
        given = layout.present(layout.host(plain), plain)
        self.assertEqual(list(given), [field.name for field in FIELDS])
        again = Ragged.of(given["tokens"], given["tokens_length"])
        self.assertEqual([part.tolist() for part in again], [[5, 65535], [7, 8, 9, 10]])


class Transforms(unittest.TestCase):
    def test_lists(self) -> None:
        decode = Decode(["image", DecodeArray("int32", [9], ragged=True, field="tokens"),
                         DecodeBytes(5, ragged=True, truncate=True, field="text"),
                         DecodeArray(np.uint8, (3, 2), field="points")], max_pixels=1000)
        self.assertEqual(Compose([decode, RandomResizedCrop(8), RandomHorizontalFlip()]).to_json()[0], {
            "op": "decode", "max_pixels": 1000, "fields": [
                "image", {"field": "tokens", "as": "array", "dtype": "int32", "shape": [9], "ragged": True},
                {"field": "text", "as": "bytes", "length": 5, "ragged": True, "truncate": True},
                {"field": "points", "as": "array", "dtype": "uint8", "shape": [3, 2]}]})
        self.assertEqual(Compose([DecodeArray("int32", [9], ragged=True)]).to_json(), [
            {"op": "decode", "as": "array", "dtype": "int32", "shape": [9], "ragged": True}])
        self.assertEqual(Compose([DecodeBytes(9, field="text")]).to_json(), [
            {"op": "decode", "fields": [{"field": "text", "as": "bytes", "length": 9}]}])
        boxes = DecodeBoxes([100, 5], "boxes", min_size=2)
        self.assertEqual(Compose([Decode(["image", boxes]), RandomResizedCrop(8)]).to_json()[0]["fields"][1],
                         {"field": "boxes", "as": "boxes", "shape": [100, 5], "min_size": 2})
        with self.assertRaisesRegex(UnsupportedTransform, "boxes stand beside an image"):
            Compose([boxes])
        for wrong, error, why in ((lambda: Decode(["image", DecodeBytes(9)]), TypeError, "field=NAME"),
                                  (lambda: Decode(["image", 3]), TypeError, "not 3"),
                                  (lambda: Compose([DecodeBytes(9, truncate=True)]).to_json(), ValueError,
                                   "ragged=True too")):
            with self.assertRaisesRegex(error, why):
                wrong()


if __name__ == "__main__":
    unittest.main()

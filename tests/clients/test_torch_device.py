"""Batches on a device, without one: the copies of a device of our own making are late, and nothing may be
given back before they are done.  Run by ctest (torch_device), or by hand."""
from __future__ import annotations

import gc
import mmap
import sys
import unittest
import warnings
import weakref
from pathlib import Path
from typing import Any, Tuple
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "clients" / "python")]

import torch_or_skip                    # noqa: F401  # ends this program where there is no PyTorch
import numpy as np
import torch

from late_device import LateDevice
from tureen.batch import Batch
from tureen.torch.device import Copier, check_device

SLOT_BYTES = 2 * mmap.PAGESIZE


def batch_in(ring: mmap.mmap, slot: int, value: int) -> Tuple[Batch, "weakref.ref[Any]"]:
    """A batch as the loader lays it over a slot, and what dies when the slot may be given back."""
    memory = np.frombuffer(ring, np.uint8, SLOT_BYTES, slot * SLOT_BYTES)
    images = np.ndarray((4, 8, 8, 3), np.uint8, memory, 0)
    labels = np.ndarray((4,), np.int64, memory, mmap.PAGESIZE)
    images[:], labels[:] = value, value
    return Batch({"image": images, "label": labels}, np.arange(4), 0, slot), weakref.ref(memory)


class CopierTest(unittest.TestCase):
    def setUp(self) -> None:
        self.device = LateDevice()
        self.copier = Copier(self.device, room=1)
        self.ring = mmap.mmap(-1, 4 * SLOT_BYTES)

    def copy(self, slot: int, value: int) -> Tuple[Any, "weakref.ref[Any]"]:
        batch, held = batch_in(self.ring, slot, value)
        values = {name: torch.from_numpy(array) for name, array in batch.items()}
        values["text"] = ["a", "b", "c", "d"]
        return self.copier.copy(values, batch), held

    def test_memory_is_held_until_the_copies_are_done_and_no_longer(self) -> None:
        """The loop has dropped the batch, and even its copies: the ring's slot must stay, for the device
        still reads it."""
        copies, held = self.copy(0, 7)
        self.assertEqual(copies["text"], ["a", "b", "c", "d"])
        self.assertEqual(self.device.adopted, [2], "what the loop does there comes behind both copies")
        self.copier.settle()
        self.assertIsNotNone(held(), "the copies have not begun")
        self.device.run(1)                      # the images; the labels are still to come
        self.copier.settle()
        self.assertIsNotNone(held(), "one of two copies is done")
        self.device.run(1)
        self.assertIsNotNone(held())
        self.copier.settle()
        self.assertIsNone(held(), "nothing needs it any more")
        self.assertTrue((copies["image"] == 7).all() and (copies["label"] == 7).all())

    def test_the_oldest_is_waited_for_only_where_there_is_no_room(self) -> None:
        first, first_held = self.copy(0, 1)
        self.copier.make_room()
        self.assertEqual((self.device.waits, self.copier.pending), (0, 1))
        second, second_held = self.copy(1, 2)
        self.copier.make_room()
        self.assertEqual((self.device.waits, self.copier.pending), (1, 1))
        self.assertIsNone(first_held())
        self.assertIsNotNone(second_held())
        self.assertTrue((first["image"] == 1).all())
        self.assertFalse((second["image"] == 2).any(), "the newer one was not waited for")

    def test_close_waits_then_unpins_then_gives_back(self) -> None:
        copies = [self.copy(slot, slot + 1) for slot in (0, 1, 0)]
        self.assertEqual(len(self.device.pinned), 2, "each slot is pinned once")
        base = np.frombuffer(self.ring, np.uint8).ctypes.data
        self.assertEqual(self.device.pinned, {base: SLOT_BYTES, base + SLOT_BYTES: SLOT_BYTES})
        self.copier.close()
        self.assertEqual(self.device.left, 0)
        self.assertEqual(self.device.unpinned_early, 0, "unpinned while copies were to come")
        self.assertEqual((self.device.pinned, self.copier.pending), ({}, 0))
        self.assertEqual([held() for _, held in copies], [None] * 3)
        self.assertTrue((copies[1][0]["label"] == 2).all())
        self.copier.close()                     # again: nothing is left to do
        self.assertTrue((self.copy(3, 9)[0]["image"] != 9).all())

    def test_dropping_it_waits_too(self) -> None:
        copies, held = self.copy(0, 5)
        del self.copier
        gc.collect()
        self.assertTrue((copies["image"] == 5).all())
        self.assertEqual((held(), self.device.pinned), (None, {}))

    def test_another_ring_ends_the_pins_of_the_one_before(self) -> None:
        copies, held = self.copy(0, 1)
        self.ring = mmap.mmap(-1, 4 * SLOT_BYTES)
        self.copy(0, 2)
        self.assertTrue((copies["image"] == 1).all(), "the copies out of the old ring came first")
        self.assertIsNone(held())
        self.assertEqual(len(self.device.pinned), 1)
        self.assertEqual(self.device.unpinned_early, 0)

    def test_other_memory_is_copied_unpinned(self) -> None:
        """Batches that came inline, or that were copied because too many were kept."""
        array = np.full((4, 8, 8, 3), 3, np.uint8)
        whole = np.frombuffer(bytearray(array.nbytes), np.uint8)
        inline = np.ndarray(array.shape, np.uint8, whole, 0)
        for images in (array, inline):
            batch = Batch({"image": images}, np.arange(4), 0, 0)
            self.copier.copy({"image": torch.from_numpy(images)}, batch)
        self.assertEqual(self.device.pinned, {})

    def test_memory_that_cannot_be_pinned_is_said_once_and_copied(self) -> None:
        self.device.pins = False
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            copies = [self.copy(slot, 4)[0] for slot in (0, 1, 2)]
        self.assertEqual(len(caught), 1)
        self.assertIn("cannot be pinned", str(caught[0].message))
        self.copier.close()
        self.assertTrue(all((copy["image"] == 4).all() for copy in copies))

    def test_a_copy_that_fails_leaves_those_before_it_running(self) -> None:
        """Images go, labels do not fit any more: the images' memory is still being read."""
        self.device.fail_at = 2
        batch, held = batch_in(self.ring, 0, 1)
        with self.assertRaisesRegex(RuntimeError, "out of memory"):
            self.copier.copy({name: torch.from_numpy(array) for name, array in batch.items()}, batch)
        del batch
        self.assertIsNotNone(held())
        self.device.run(1)
        self.copier.settle()
        self.assertIsNone(held())


class Named(unittest.TestCase):
    def test_which_devices_there_are(self) -> None:
        for asked in (None, "cpu", torch.device("cpu")):
            self.assertIsNone(check_device(asked))
        device = LateDevice()
        self.assertIs(check_device(device), device)
        with self.assertRaisesRegex(ValueError, r"\"cuda\", \"cuda:N\" or \"cpu\", not 'meta'.*\.to\("):
            check_device("meta")

    @unittest.skipIf(torch.cuda.is_available(), "there is a CUDA device here")
    def test_cuda_is_asked_for_and_absent(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "device='cuda:1' was asked for.*finds no CUDA "
                                    "device.*leave device out"):
            check_device("cuda:1")

    def test_devices_are_counted_from_0(self) -> None:
        with mock.patch("torch.cuda.is_available", lambda: True), \
                mock.patch("torch.cuda.device_count", lambda: 2):
            self.assertEqual(check_device("cuda:1"), torch.device("cuda:1"))
            with self.assertRaisesRegex(RuntimeError, "device='cuda:2' was asked for, and there are 2 CUDA "
                                        "devices, counted from 0"):
                check_device("cuda:2")


if __name__ == "__main__":
    unittest.main()

"""Masks of 16 bits, in the real server: in every pipeline they are what two masks of 8 bits are, of the
lower and of the upper bytes.  What would be narrowed is refused."""
import json
import os
import sys
import tarfile
import tempfile
import unittest

import numpy as np
from PIL import Image

import harness
from harness import SystemTest
from test_system_workers import Worker, wait_for, workers

sys.path.insert(0, os.path.join(harness.SOURCE, "clients", "python"))
import tureen  # noqa: E402

SAMPLES, BATCH = 8, 4
SHARE = {"share": True}
DEPTH = {"field": "depth", "as": "mask", "dtype": "uint16"}
LISTS = [
    [{"op": "center_crop", "size": [50, 70]}, SHARE, {"op": "flip"}, {"op": "vertical_flip"}],
    [{"op": "center_crop", "size": [150, 160]}, {"op": "flip", "p": 1}, SHARE,
     {"op": "random_crop", "size": 60}],
    [{"op": "random_crop", "size": [40, 30], "padding": [3, 9, 0, 20], "mode": "reflect"}, SHARE],
    [{"op": "pad", "padding": 5, "mode": "edge"}, {"op": "resize", "size": [33, 41]}, SHARE],
    [{"op": "random_resized_crop", "size": [37, 53]}, SHARE, {"op": "color_jitter", "brightness": 0.5},
     {"op": "flip"}, {"op": "resize", "size": 40}, {"op": "center_crop", "size": 31}, {"op": "normalize"},
     {"op": "layout", "layout": "NCHW"}],
    [{"op": "random_rotation", "degrees": 180, "expand": True, "interpolation": "bilinear",
      "fill": [9, 8, 7]}, {"op": "resize", "size": [60, 50]}, SHARE,
     {"op": "random_affine", "degrees": 20, "translate": [0.1, 0.2]}],
    [{"op": "random_perspective", "p": 1}, {"op": "elastic_transform"}, {"op": "center_crop", "size": 64},
     SHARE, {"op": "random_affine", "degrees": 0, "translate": [0.3, 0.2], "fill": 200},
     {"op": "gaussian_blur", "kernel_size": 3}],
    [{"op": "rand_augment", "num_ops": 4, "magnitude": 20}, {"op": "resize", "size": [48, 48]}, SHARE,
     {"op": "trivial_augment_wide"}, {"op": "random_erasing", "p": 1}],
]


class Depth(SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        random = np.random.default_rng(3)
        for number in range(SAMPLES):
            height, width = random.integers(60, 100, 2)
            values = random.integers(0, 65536, (height, width)).astype(np.uint16)
            made = {"image.png": random.integers(0, 256, (height, width, 3)).astype(np.uint8),
                    "low.png": (values & 255).astype(np.uint8), "high.png": (values >> 8).astype(np.uint8),
                    "depth." + ("tif" if number % 2 else "png"): values}
            for name, array in made.items():
                field, ending = name.split(".")
                path = os.path.join(cls.folder.name, field, "a", "%d.%s" % (number, ending))
                os.makedirs(os.path.dirname(path), exist_ok=True)
                Image.fromarray(array).save(path)

    def serve(self, kind="image"):
        fields = [argument for field, kind in (("low", "mask"), ("high", "mask"), ("depth", kind))
                  for argument in ("--field", "train.%s=%s:%s" % (field, kind, self.path(field)))]
        return harness.Server({"train": self.path("image")}, cache="16M", arguments=fields)

    def path(self, field):
        return os.path.join(self.folder.name, field)

    def loader(self, server, fields, rest):
        return tureen.Loader(server.endpoint, batch_size=BATCH, epochs=1, timeout=harness.PATIENCE,
                             pipeline=[{"op": "decode", "fields": fields}, *rest])

    def test_as_two_masks(self):
        with self.serve() as server:
            for rest in LISTS:
                seen = 0
                for batch in self.loader(server, ["image", "low", "high", DEPTH], rest):
                    depth = batch["depth"]
                    self.assertEqual(depth.dtype, np.uint16)
                    wanted = batch["low"] | batch["high"].astype(np.uint16) << 8
                    np.testing.assert_array_equal(depth, wanted, str(rest))
                    seen += int(depth.max()) > 255
                self.assertEqual(seen, SAMPLES // BATCH, rest)

    def test_files_of_8_bits_and_fills(self):
        """A fill is a value, and so is a byte."""
        rest = [{"op": "pad", "padding": 3, "mask_fill": 7, "fill": [1, 2, 3]},
                {"op": "center_crop", "size": 110}]
        with self.serve() as server:
            fields = ["image", "low", {"field": "high", "as": "mask", "dtype": "uint16"}, DEPTH]
            for batch in self.loader(server, fields, rest):
                self.assertEqual(batch["high"].dtype, np.uint16)
                self.assertLess(int(batch["high"].max()), 256)
                np.testing.assert_array_equal(batch["depth"] >> 8, np.where(
                    batch["depth"] == 7, 0, batch["high"]))

    def test_nothing_is_narrowed(self):
        crop = [{"op": "center_crop", "size": 50}]
        for kind, words in (("image", "values above 255 would become 255"), ("mask", "has at most 8 bits")):
            with self.serve(kind) as server:
                with self.assertRaisesRegex(tureen.TureenError, words + ".*uint16.* reads them"):
                    list(self.loader(server, ["image", "depth"], crop))
                transforms = tureen.transforms
                pipeline = transforms.Compose([
                    transforms.Decode(["image", transforms.DecodeMask("depth", "uint16")]),
                    transforms.CenterCrop(50)])
                batches = tureen.Loader(server.endpoint, batch_size=SAMPLES, epochs=1, pipeline=pipeline)
                self.assertEqual([batch["depth"].shape for batch in batches], [(SAMPLES, 50, 50)])


class Clipped(SystemTest):
    """Grey of 16 bits as the sample's own image: read as by Pillow's convert ("RGB"), and told."""
    DEEP = 3

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        os.makedirs(cls.path("data", "a"))
        values = np.arange(100, 400).reshape(15, 20).astype(np.uint16)
        for name, array in (("0.png", np.stack([values >> 1] * 3, 2).astype(np.uint8)), ("1.png", values),
                            ("2.tif", values), ("4.png", (values >> 1).astype(np.uint8))):
            Image.fromarray(array).save(cls.path("data", "a", name))
        with open(cls.path("data", "a", "3.pgm"), "wb") as file:
            file.write(b"P5 20 15 65535\n" + values.astype(">u2").tobytes())
        cls.clipped = np.minimum(values, 255)

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.folder.name, *names)

    def take(self, server):
        """All samples, for two epochs: each is counted once."""
        pixels = {}
        for batch in tureen.Loader(server.endpoint, batch_size=1, epochs=2, timeout=harness.PATIENCE,
                                   pipeline=[{"op": "decode"}, {"op": "center_crop", "size": [15, 20]}]):
            pixels[int(batch.ids[0])] = batch["image"][0, :, :, 0]
        for number in (1, 2, 3):
            np.testing.assert_array_equal(pixels[number], self.clipped)

    def assert_told(self, server):
        told = [line for line in server.log().splitlines() if " clipped " in line]
        self.assertEqual(len(told), 1, told)
        self.assertRegex(told[0], r"warning clipped dataset=train: data set 'train': 'a/[123]\.(png|tif|"
                                  r"pgm)' .*16 bits of grey, and values above 255 became 255, .*: scale them")
        found = server.status()["datasets"][0]
        self.assertEqual(found["clipped_samples"], self.DEEP)
        self.assertRegex(found["warnings"][-1], "' and 2 more so far have 16 bits of grey, and values above")
        self.assertRegex(server.status_text(), "\n  warning: 'a/.*' and 2 more so far have 16 bits of grey")

    def test_told_by_server_pack_and_verify(self):
        with harness.Server({"train": self.path("data")}, cache="16M") as server:
            self.assertEqual(server.status()["datasets"][0]["clipped_samples"], 0)
            self.assertEqual(server.status()["datasets"][0]["warnings"], [])
            self.take(server)
            self.assert_told(server)
        words = "warning: 3 samples have 16 bits of grey, of which values above 255 become 255 "
        packed = harness.run("pack", "--quiet", "--json", self.path("data"), self.path("pack"))
        self.assertIn("tureen pack: " + words, packed.stderr)
        self.assertIn("the first is 'a/1.png'", packed.stderr)
        self.assertEqual(json.loads(packed.stdout)["clipped_samples"], self.DEEP)
        verified = harness.run("verify", "--quiet", self.path("pack"))
        self.assertEqual(verified.returncode, 0)
        self.assertRegex(verified.stdout, "\n" + words + ".*; the first is 'a/[123]")
        verified = harness.run("verify", "--quiet", "--json", self.path("pack"))
        self.assertEqual(json.loads(verified.stdout)["clipped_samples"], self.DEEP)
        with harness.Server({"train": self.path("pack")}, cache="16M") as server:
            self.take(server)
            self.assert_told(server)

    def test_names_of_tar_files_come_last(self):
        with tarfile.open(self.path("data.tar"), "w") as tar:
            tar.add(self.path("data", "a"), "a")
        packed = harness.run("pack", "--quiet", self.path("data.tar"), self.path("of_tar"))
        self.assertRegex(packed.stderr, "warning: 3 samples have 16 bits .*; the first is 'a/[123]")

    def test_told_by_a_worker_elsewhere(self):
        count = 100
        os.makedirs(self.path("many", "a"))
        for number in range(count):
            os.symlink(self.path("data", "a", "1.png"), self.path("many", "a", "%d.png" % number))
        with harness.Server({"train": self.path("many")}, cache="16M", workers=1) as server:
            with Worker("--connect", server.endpoint, threads=2):
                wait_for(server)
                #  The server's own thread may have prepared all before the worker's first task.
                size = 9
                while workers(server)[0]["done"] == 0:
                    size += 1
                    list(tureen.Loader(server.endpoint, batch_size=50, epochs=1, timeout=harness.PATIENCE,
                                       pipeline=[{"op": "decode"}, {"op": "center_crop", "size": size}]))
                self.assertEqual(server.status()["datasets"][0]["clipped_samples"], count)


if __name__ == "__main__":
    unittest.main()

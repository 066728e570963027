"""Masks of 16 bits, in the real server: in every pipeline they are what two masks of 8 bits are, of the
lower and of the upper bytes.  What would be narrowed is refused."""
import os
import sys
import tempfile
import unittest

import numpy as np
from PIL import Image

import harness
from harness import SystemTest

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


if __name__ == "__main__":
    unittest.main()

"""Boxes that follow the image, in the real server: beside a mask of each box, pixel by pixel, and beside
torchvision's v2 rules, done here in 32-bit floats with the numbers that EXPLAIN tells."""
import os
import sys
import unittest

import numpy as np
from PIL import Image

import harness
from harness import SystemTest

sys.path.insert(0, os.path.join(harness.SOURCE, "clients", "python"))
import tureen  # noqa: E402

MOST, COLUMNS, BATCH = 6, 5, 6
OWN = 7                         # the class of the box that the mask shows
BOXES = {"field": "boxes", "as": "boxes", "shape": [MOST, COLUMNS]}
SHARE = {"share": True}
#   What moves whole pixels only, with the share point in several places.
WHOLE = [
    [{"op": "center_crop", "size": [50, 70]}, SHARE, {"op": "flip"}, {"op": "vertical_flip"}],
    [{"op": "random_crop", "size": [40, 30], "padding": [3, 9, 0, 20]}, SHARE, {"op": "flip"}],
    [{"op": "pad", "padding": [7, 1]}, {"op": "flip", "p": 1}, {"op": "random_crop", "size": 64}, SHARE],
    [{"op": "center_crop", "size": [150, 160]}, SHARE, {"op": "random_crop", "size": 60}, {"op": "flip"}],
    [{"op": "center_crop", "size": 60}, SHARE, {"op": "random_apply", "count": 2, "p": 0.5},
     {"op": "flip", "p": 1}, {"op": "vertical_flip"}, {"op": "pad", "padding": 5}],
    [{"op": "center_crop", "size": 64}, {"op": "random_choice", "counts": [1, 1], "share": True},
     {"op": "flip", "p": 1}, {"op": "vertical_flip", "p": 1}, SHARE, {"op": "random_order", "counts": [1, 2]},
     {"op": "flip"}, {"op": "vertical_flip"}, {"op": "flip", "p": 0.3}],
    [{"op": "random_crop", "size": 200, "pad_if_needed": True}, SHARE, {"op": "center_crop", "size": 70}],
]
VIEWS = [[{"op": "views", "count": 3}, {"op": "random_crop", "size": 45}, SHARE, {"op": "flip"}],
         [{"op": "center_crop", "size": 60}, {"op": "flip", "share": True}, SHARE,
          {"op": "views", "count": 3}, {"op": "random_crop", "size": 45}, {"op": "flip"}]]
SCALED = [
    [{"op": "random_resized_crop", "size": [37, 53]}, SHARE, {"op": "flip"}],
    [{"op": "resize", "size": 48, "max_size": 70}, {"op": "pad", "padding": [1, 2, 3, 4]}, SHARE,
     {"op": "random_resized_crop", "size": 29}, {"op": "vertical_flip"}],
    [{"op": "resize", "size": [100, 90]}, {"op": "flip"}, SHARE, {"op": "color_jitter", "brightness": 0.5},
     {"op": "center_crop", "size": 70}, {"op": "resize", "size": 33}, {"op": "normalize"}],
]


class Boxes(SystemTest):
    SAMPLES = 90

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        chance = np.random.default_rng(harness.SEED)
        cls.boxes = []
        for number, label in enumerate(cls.labels):
            below = os.path.join("class_%d" % label, "%05d" % number)
            with Image.open(os.path.join(cls.data, below + ".jpg")) as image:
                width, height = image.size
            sides = [np.sort(chance.choice(side + 1, 2, replace=False)) for side in (width, height)]
            own = [sides[0][0], sides[1][0], sides[0][1], sides[1][1], OWN]
            #  The others are anywhere, some of them beside the image or turned over.
            others = chance.uniform(-40, 160, (number % MOST, 4)).astype(np.float32)
            others = np.c_[others, np.arange(len(others))]
            rows = np.array([own, *others], np.float32)[chance.permutation(1 + len(others))]
            cls.boxes.append(rows)
            mask = np.zeros((height, width), np.uint8)
            mask[own[1]:own[3], own[0]:own[2]] = 1
            for folder, extension, write in (
                    ("boxes", ".npy", lambda path: np.save(path, rows)),
                    ("mask", ".png", lambda path: Image.fromarray(mask).save(path))):
                path = os.path.join(cls.root, folder, below + extension)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                write(path)

    def serve(self, **options):
        return harness.Server({"train": self.data}, cache="8M", arguments=(
            "--field", "train.boxes=file:" + os.path.join(self.root, "boxes"),
            "--field", "train.mask=mask:" + os.path.join(self.root, "mask")), **options)

    def loader(self, server, fields, rest, **options):
        return tureen.Loader(server.endpoint, batch_size=BATCH, epochs=1, timeout=harness.PATIENCE,
                             pipeline=[{"op": "decode", "fields": fields}, *rest], **options)

    def assert_own(self, mask, rows, told):
        """The box of the mask's pixels is the one of its class, which is left out where there are none."""
        own = rows[rows[:, 4] == OWN]
        down, across = np.nonzero(mask)
        if not len(down):
            self.assertEqual(len(own), 0, told)
            return
        self.assertEqual(own.tolist(), [[across.min(), down.min(), across.max() + 1, down.max() + 1, OWN]],
                         told)

    def test_beside_masks(self):
        with self.serve() as server:
            for rest in (*WHOLE, *VIEWS):
                views = 3 if rest in VIEWS else 1
                seen = 0
                for batch in self.loader(server, ["image", "mask", BOXES], rest):
                    for name in [""] + ["_%d" % view for view in range(2, views + 1)]:
                        for at, number in enumerate(batch.ids.tolist()):
                            rows = batch["boxes" + name][at]
                            self.assert_own(batch["mask" + name][at], rows,
                                            "sample %d, boxes%s, %s" % (number, name, rest))
                            seen += len(rows)
                self.assertGreater(seen, 0)

    def moved(self, rows, told, size):
        """By the rules, with what EXPLAIN tells of the operations on the boxes; and the image's size then."""
        height, width = size
        box = rows[:, :4].copy()
        for step in told:
            op, found = step["op"], step["parameters"]
            if op in ("flip", "vertical_flip") and found["flipped"]:
                axis, side = (0, width) if op == "flip" else (1, height)
                box[:, [axis, axis + 2]] = -(box[:, [axis + 2, axis]] - np.float32(side))
            if op in ("center_crop", "random_crop", "pad", "random_resized_crop"):
                box -= np.array([found["left"], found["top"]] * 2, np.float32)
                height, width = found["height"], found["width"]
                box = np.clip(box, 0, np.array([width, height] * 2, np.float32))
            if op in ("resize", "random_resized_crop"):
                new = (found["height"], found["width"]) if op == "resize" else self.size
                if new != (height, width):
                    box *= np.array([new[1] / width, new[0] / height] * 2, np.float32)
                height, width = new
        box = np.clip(box, 0, np.array([width, height] * 2, np.float32))
        return np.c_[box, rows[:, 4:]]

    def test_beside_the_rules(self):
        with self.serve() as server:
            for rest in (*SCALED, WHOLE[0], WHOLE[5]):
                resized = [step["size"] for step in rest if step.get("op") == "random_resized_crop"]
                self.size = (tuple(np.broadcast_to(resized[0], 2).tolist()) if resized else None)
                for least in (1, 0, 12.5):
                    loader = self.loader(server, ["image", {**BOXES, "min_size": least}], rest, seed=3,
                                         subset=range(0, self.SAMPLES, 4))
                    for batch in loader:
                        for at, number in enumerate(batch.ids.tolist()):
                            told = loader.explain(number)["operations"]
                            decoded = told[0]["parameters"]
                            wanted = self.moved(self.boxes[number],
                                                [step for step in told if step["field"] == "boxes"],
                                                (decoded["height"], decoded["width"]))
                            large = ((wanted[:, 2] - wanted[:, 0] >= np.float32(least))
                                     & (wanted[:, 3] - wanted[:, 1] >= np.float32(least)))
                            self.assertEqual(batch["boxes"][at].tolist(), wanted[large].tolist(),
                                             "sample %d, min_size %g, %s" % (number, least, rest))
                    loader.close()

    def test_wherever_the_share_point_is(self):
        """Of a seeded job boxes are the same, bit for bit."""
        rest = [{"op": "random_resized_crop", "size": 50}, {"op": "flip"}, {"op": "random_crop", "size": 40}]
        with self.serve() as server:
            found = []
            for place in range(4):
                marked = [*rest[:place], SHARE, *rest[place:]]
                decode = {"op": "decode", "fields": ["image", BOXES], "max_pixels": 20000}
                found.append([(batch.ids.tolist(), batch["boxes"].values.tolist(),
                               batch["boxes"].offsets.tolist())
                              for batch in tureen.Loader(server.endpoint, batch_size=BATCH, epochs=1, seed=11,
                                                         pipeline=[decode, *marked])])
            for other in found[1:]:
                self.assertEqual(found[0], other)


if __name__ == "__main__":
    unittest.main()

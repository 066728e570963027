"""Boxes that follow the image, in the real server: beside a mask of each box, pixel by pixel; beside
torchvision's v2 rules, done here with the numbers that EXPLAIN tells, in 32-bit floats, and where the image
is turned in 64-bit ones; and beside torchvision's functions, where the Python that runs this has its v2."""
import importlib.util
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
TORCHVISION = importlib.util.find_spec("torchvision")
HAS_V2 = TORCHVISION and os.path.exists(os.path.join(os.path.dirname(TORCHVISION.origin), "tv_tensors"))
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
#   What turns or distorts the image.  Operations of one name in a list have one centre.
TURNED = [
    [{"op": "random_rotation", "degrees": 180}, {"op": "center_crop", "size": [90, 80]}, SHARE,
     {"op": "flip"}, {"op": "random_rotation", "degrees": 20, "interpolation": "bilinear"}],
    [{"op": "random_rotation", "degrees": [30, 130], "expand": True}, {"op": "resize", "size": [80, 90]},
     SHARE, {"op": "random_affine", "degrees": 20, "translate": [0.2, 0.1]}],
    [{"op": "random_choice", "counts": [1, 1, 1]},
     *[{"op": "random_rotation", "degrees": [angle, angle]} for angle in (0, 180, 90)],
     {"op": "random_rotation", "degrees": [90, 90], "expand": True}, {"op": "center_crop", "size": 80},
     SHARE],
    [{"op": "random_rotation", "degrees": 40, "center": [30, 50.5]}, {"op": "center_crop", "size": 70},
     SHARE],
    [{"op": "center_crop", "size": 90}, SHARE,
     {"op": "random_affine", "degrees": 30, "scale": [0.6, 1.7], "shear": [-20, 20, -10, 15],
      "center": [9, 50]},
     {"op": "vertical_flip"}, {"op": "random_affine", "degrees": 0, "shear": 9, "center": [9, 50]}],
    [{"op": "random_perspective", "p": 0.8}, {"op": "center_crop", "size": 90}, SHARE,
     {"op": "random_perspective", "distortion_scale": 0.3, "p": 1}],
    [{"op": "center_crop", "size": [90, 80]}, {"op": "rand_augment", "num_ops": 4, "magnitude": 20}, SHARE,
     {"op": "trivial_augment_wide"}],
    [{"op": "center_crop", "size": 90}, SHARE, {"op": "auto_augment", "policy": "cifar10"},
     {"op": "auto_augment", "policy": "svhn"}],
]


def about(center, matrix, moved=(0, 0)):
    """The 2 x 2 matrix about a centre, then moved, of points (x, y, 1)."""
    whole = np.eye(3)
    whole[:2, :2] = matrix
    whole[:2, 2] = np.add(center, moved) - matrix @ np.asarray(center, float)
    return whole


def clockwise(angle):
    turn = np.radians(angle)
    return np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])


def by_corners(size, corners):
    """The perspective that moves the image's corner pixels there, from eight equations."""
    height, width = size
    rows, right = [], []
    for (x, y), to in zip(((0, 0), (width - 1, 0), (width - 1, height - 1), (0, height - 1)), corners):
        for axis in range(2):
            rows.append([*(0,) * 3 * axis, x, y, 1, *(0,) * 3 * (1 - axis), -to[axis] * x, -to[axis] * y])
            right.append(to[axis])
    return np.append(np.linalg.solve(rows, right), 1).reshape(3, 3)


def maps(step, center, size):
    """The matrices that points go through, one after the other, by what EXPLAIN tells of an operation."""
    op, found = step["op"], step["parameters"]
    middle = (size[1] / 2, size[0] / 2)
    center = center or middle
    if op == "random_rotation":
        return [about(center, clockwise(-found["angle"]))]
    if op == "random_affine":
        across, down = np.tan(np.radians(found["shear"]))
        matrix = clockwise(found["angle"]) @ [[1, 0], [-down, 1]] @ [[1, -across], [0, 1]] * found["scale"]
        return [about(center, matrix, found["translate"])]
    if op == "random_perspective":
        return [by_corners(size, found["endpoints"])] if found["done"] else []
    made = {"Rotate": lambda by: about(middle, clockwise(-by)),
            "ShearX": lambda by: about((0, 0), np.array([[1, -by], [0, 1]])),
            "ShearY": lambda by: about((0, 0), np.array([[1, 0], [-by, 1]])),
            "TranslateX": lambda by: about((0, 0), np.eye(2), (int(by), 0)),
            "TranslateY": lambda by: about((0, 0), np.eye(2), (0, int(by)))}
    return [made[each["step"]](each["magnitude"]) for each in found.get("steps", ()) if each["step"] in made]


def hulls(box, matrix):
    """The upright boxes around where the corners go."""
    corners = np.stack([box[:, [0, 2, 2, 0]], box[:, [1, 1, 3, 3]], np.ones((len(box), 4))], 1)
    went = matrix @ corners
    went = went[:, :2] / went[:, 2:]
    return np.concatenate([went.min(2), went.max(2)], 1)


class ByV2:
    """torchvision's own functions, with what EXPLAIN tells."""

    def __init__(self):
        import torch
        from torchvision import tv_tensors
        from torchvision.transforms import v2
        self.torch, self.tv_tensors, self.F = torch, tv_tensors, v2.functional
        self.policy = v2.RandAugment()
        self.expanded = self.resized = 0

    def rotated(self, boxes, found, operation):
        """Clipped to the image, as Pillow has it: v2 may think that one that expands has another size."""
        wrap, size = self.tv_tensors.wrap, (found["height"], found["width"])
        expand = size != boxes.canvas_size
        boxes = self.F.rotate(wrap(boxes, like=boxes, clamping_mode=None), found["angle"], expand=expand,
                              center=operation.get("center"))
        self.expanded += expand
        self.resized += boxes.canvas_size != size
        return self.F.clamp_bounding_boxes(wrap(boxes, like=boxes, canvas_size=size, clamping_mode="soft"))

    def step(self, boxes, op, found, operation):
        F = self.F
        height, width = boxes.canvas_size
        if op in ("flip", "vertical_flip"):
            flip = F.horizontal_flip if op == "flip" else F.vertical_flip
            return flip(boxes) if found["flipped"] else boxes
        if op == "pad":
            right = found["width"] - width + found["left"]
            below = found["height"] - height + found["top"]
            return F.pad(boxes, [-found["left"], -found["top"], right, below])
        if op in ("center_crop", "random_resized_crop"):
            boxes = F.crop(boxes, found["top"], found["left"], found["height"], found["width"])
        if op == "resize":
            return F.resize(boxes, [found["height"], found["width"]])
        if op == "random_resized_crop":
            return F.resize(boxes, np.broadcast_to(operation["size"], 2).tolist())
        if op == "random_rotation":
            return self.rotated(boxes, found, operation)
        if op == "random_affine":
            return F.affine(boxes, found["angle"], found["translate"], found["scale"], found["shear"],
                            center=operation.get("center"))
        if op == "random_perspective" and found["done"]:
            corners = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
            return F.perspective(boxes, corners, found["endpoints"])
        for each in found.get("steps", ()):
            if each["step"] in ("Rotate", "ShearX", "ShearY", "TranslateX", "TranslateY"):
                boxes = self.policy._apply_image_or_video_transform(
                    boxes, each["step"], each["magnitude"], self.policy.interpolation, self.policy._fill)
        return boxes

    def moved(self, rows, rest, told):
        decoded = told[0]["parameters"]
        boxes = self.tv_tensors.BoundingBoxes(self.torch.tensor(rows[:, :4]), format="XYXY",
                                              canvas_size=(decoded["height"], decoded["width"]))
        for each in told:
            if each["field"] == "boxes" and each["op"] != "decode":
                named = [one for one in rest if one.get("op") == each["op"]]
                boxes = self.step(boxes, each["op"], each["parameters"], named[-1])
        boxes = self.F.clamp_bounding_boxes(boxes).numpy()
        kept = (boxes[:, 2] >= boxes[:, 0]) & (boxes[:, 3] >= boxes[:, 1])
        return np.c_[boxes, rows[:, 4:]][kept]


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

    def test_around_masks(self):
        """Where pixels are turned, the box is around the mask's, but for what nearest neighbours move."""
        with self.serve() as server:
            for rest in TURNED:
                seen = 0
                for batch in self.loader(server, ["image", "mask", {**BOXES, "min_size": 0}], rest):
                    for at, number in enumerate(batch.ids.tolist()):
                        rows = batch["boxes"][at]
                        own = rows[rows[:, 4] == OWN][0]
                        down, across = np.nonzero(batch["mask"][at])
                        if len(down):
                            found = [across.min(), down.min(), -across.max() - 1, -down.max() - 1]
                            outside = np.subtract([*own[:2], *-own[2:4]], found).max()
                            self.assertLess(outside, 2.5, "sample %d, %s, %s" % (number, own, rest))
                            seen += 1
                self.assertGreater(seen, self.SAMPLES // 2)

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
            center = [each["center"] for each in self.rest if each.get("op") == op and "center" in each]
            for matrix in maps(step, center[0] if center else None, (height, width)):
                frame = hulls(np.array([[0, 0, width, height]]), matrix)[0]
                box = hulls(box, matrix)
                if (found.get("height", height), found.get("width", width)) != (height, width):
                    box -= np.tile(frame[:2], 2)
                    height, width = found["height"], found["width"]
                box = np.clip(box, 0, [width, height] * 2)
        box = np.clip(box, 0, np.array([width, height] * 2, np.float32))
        return np.c_[box, rows[:, 4:]]

    def explained(self, server, rest, least):
        """Of each sample what to say of it, the boxes that came, and those by the rules."""
        self.rest = rest
        loader = self.loader(server, ["image", {**BOXES, "min_size": least}], rest, seed=3,
                             subset=range(0, self.SAMPLES, 4))
        for batch in loader:
            for at, number in enumerate(batch.ids.tolist()):
                told = loader.explain(number)["operations"]
                decoded = told[0]["parameters"]
                wanted = self.moved(self.boxes[number], [step for step in told if step["field"] == "boxes"],
                                    (decoded["height"], decoded["width"]))
                large = ((wanted[:, 2] - wanted[:, 0] >= np.float32(least))
                         & (wanted[:, 3] - wanted[:, 1] >= np.float32(least)))
                yield ("sample %d, min_size %g, %s" % (number, least, rest), batch["boxes"][at],
                       wanted[large])
        loader.close()

    def test_turned_beside_the_rules(self):
        with self.serve() as server:
            for rest in TURNED:
                for told, came, wanted in self.explained(server, rest, 0):
                    self.assertEqual(came.shape, wanted.shape, told)
                    self.assertLess(np.abs(came - wanted).max(initial=0), 1e-3, told)

    @unittest.skipUnless(HAS_V2, "no torchvision with transforms.v2.BoundingBoxes here")
    def test_beside_torchvision(self):
        """By hand, with PyPI's torchvision: in CI there is none that has v2."""
        by_v2 = ByV2()
        with self.serve() as server:
            for rest in (*TURNED, *SCALED):
                self.rest, worst, same, count = rest, 0.0, 0, 0
                for seed in range(4):
                    loader = self.loader(server, ["image", {**BOXES, "min_size": 0}], rest, seed=seed)
                    for batch in loader:
                        for at, number in enumerate(batch.ids.tolist()):
                            told = loader.explain(number)["operations"]
                            wanted = by_v2.moved(self.boxes[number], rest, told)
                            came = batch["boxes"][at]
                            self.assertEqual(came.shape, wanted.shape, (number, rest))
                            far = np.abs(came - wanted).max(1, initial=0)
                            worst, same, count = max(worst, *far), same + np.sum(far == 0), count + len(far)
                            self.assertLess(far.max(initial=0), 1e-3, (number, told))
                    loader.close()
                print("%d boxes, %d bit for bit, worst %.3g: %s" % (count, same, worst, rest))
        print("%d of %d expanded images are of another size" % (by_v2.resized, by_v2.expanded))

    def test_beside_the_rules(self):
        with self.serve() as server:
            for rest in (*SCALED, WHOLE[0], WHOLE[5]):
                resized = [step["size"] for step in rest if step.get("op") == "random_resized_crop"]
                self.size = (tuple(np.broadcast_to(resized[0], 2).tolist()) if resized else None)
                for least in (1, 0, 12.5):
                    for told, came, wanted in self.explained(server, rest, least):
                        self.assertEqual(came.tolist(), wanted.tolist(), told)

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

"""The pipeline's meaning, written a second time: torchvision's arithmetic on Pillow images.

Keyed numbers come from hashlib.  Independent of decode/ on purpose: nothing here is shared with the C code.
"""
import hashlib
import math
import struct

from PIL import Image, ImageOps


class Keyed:
    """The stream of one operation, as decode/keyed_random.h describes it."""

    def __init__(self, seed, round_, id_, place):
        self.head = b"tureen-1" + struct.pack("<QQQIII", seed, round_, id_, 0, 0, place)
        self.block = 0
        self.numbers = []

    def next(self):
        if not self.numbers:
            digest = hashlib.blake2b(self.head + struct.pack("<I", self.block)).digest()
            self.numbers = list(struct.unpack("<8Q", digest))
            self.block += 1
        return self.numbers.pop(0)

    def uniform(self):
        return (self.next() >> 11) / 2.0 ** 53

    def below(self, bound):
        return self.next() * bound >> 64


def pair(size):
    return (size, size) if isinstance(size, int) else tuple(size)


def resize(image, size):
    width, height = image.size
    if isinstance(size, int):
        short, long = min(width, height), max(width, height)
        other = int(size * long / short)
        new = (size, other) if width <= height else (other, size)
    else:
        new = (size[1], size[0])
    return image.resize(new, Image.BILINEAR)


def center_crop(image, size):
    crop_height, crop_width = pair(size)
    width, height = image.size
    if crop_width > width or crop_height > height:
        border = (
            max(crop_width - width, 0) // 2, max(crop_height - height, 0) // 2,
            (max(crop_width - width, 0) + 1) // 2, (max(crop_height - height, 0) + 1) // 2)
        image = ImageOps.expand(image, border, fill=0)
        width, height = image.size
    top = int(round((height - crop_height) / 2.0))
    left = int(round((width - crop_width) / 2.0))
    return image.crop((left, top, left + crop_width, top + crop_height))


def random_box(image, scale, ratio, random):
    width, height = image.size
    log_ratio = [math.log(ratio[0]), math.log(ratio[1])]
    for _ in range(10):
        area = width * height * (scale[0] + (scale[1] - scale[0]) * random.uniform())
        aspect = math.exp(log_ratio[0] + (log_ratio[1] - log_ratio[0]) * random.uniform())
        w = int(round(math.sqrt(area * aspect)))
        h = int(round(math.sqrt(area / aspect)))
        if 0 < w <= width and 0 < h <= height:
            top = random.below(height - h + 1)
            left = random.below(width - w + 1)
            return top, left, h, w
    in_ratio = width / height
    w, h = width, height
    if in_ratio < min(ratio):
        h = max(1, int(round(w / min(ratio))))
    elif in_ratio > max(ratio):
        w = max(1, int(round(h * max(ratio))))
    return (height - h) // 2, (width - w) // 2, h, w


def random_resized_crop(image, operation, random):
    scale = operation.get("scale", [0.08, 1.0])
    ratio = operation.get("ratio", [3 / 4, 4 / 3])
    top, left, h, w = random_box(image, scale, ratio, random)
    height, width = pair(operation["size"])
    return image.crop((left, top, left + w, top + h)).resize((width, height), Image.BILINEAR)


RECIPES = {
    "train": [{"op": "random_resized_crop", "size": 224}, {"share": True}, {"op": "flip"}],
    "eval": [{"op": "resize", "size": 256}, {"op": "center_crop", "size": 224}, {"share": True}],
}


def run(path, pipeline, key=(0, 0, 0)):
    """The images at the share point and at the end; raises what Pillow raises."""
    with Image.open(path) as file:
        image = file.convert("RGB")
    shared = None
    operations = RECIPES[pipeline] if isinstance(pipeline, str) else pipeline
    for place, operation in enumerate(operations):
        if "share" in operation:
            shared = image
            continue
        random = Keyed(*key, place)
        if operation["op"] == "resize":
            image = resize(image, operation["size"])
        elif operation["op"] == "center_crop":
            image = center_crop(image, operation["size"])
        elif operation["op"] == "random_resized_crop":
            image = random_resized_crop(image, operation, random)
        elif operation["op"] == "flip":
            p = operation.get("p", 0.5)
            if p == 1 or (p > 0 and random.uniform() < p):
                image = image.transpose(Image.FLIP_LEFT_RIGHT)
    return shared, image

"""The pipeline's meaning, written a second time: torchvision's arithmetic on Pillow images, with Pillow and
NumPy alone.

    run(files, pipeline, key, source) -> (planes at the share point, outputs)

Keyed numbers come from hashlib.  Independent of decode/ on purpose: nothing here is shared with the C code.
"""
import fractions
import hashlib
import math
import struct
import wave

import numpy
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

import reference_augment

FILTERS = {"nearest": Image.NEAREST, "bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC}
JITTERS = ["brightness", "contrast", "saturation", "hue"]


class Keyed:
    """The stream of one operation, as decode/language/keyed_random.h describes it."""

    def __init__(self, key, view, place):
        seed, round_, id_, occurrence = (*key, 0)[:4]
        self.head = b"tureen-1" + struct.pack("<QQQIII", seed, round_, id_, occurrence, view, place)
        self.view = view
        self.block = 0
        self.numbers = []

    def next(self):
        if not self.numbers:
            digest = hashlib.blake2b(self.head + struct.pack("<I", self.block)).digest()
            self.numbers = list(struct.unpack("<8Q", digest))
            self.block += 1
        return self.numbers.pop(0)

    def uniform(self, least=0.0, most=1.0):
        return least + (most - least) * ((self.next() >> 11) / 2.0 ** 53)

    def below(self, bound):
        return self.next() * bound >> 64

    def happens(self, p):
        return p >= 1 or (p > 0 and self.uniform() < p)


class Field:
    """An image (RGB) or a mask (L) of one view; operations replace its pixels."""

    def __init__(self, image, is_mask):
        self.image, self.is_mask = image, is_mask

    def copy(self):
        return Field(self.image, self.is_mask)

    def resize(self, box, size, interpolation, pillow13=False):
        """box is (left, top, right, bottom), cut out first; size is (height, width)."""
        image = self.image.crop(box)
        resample = Image.NEAREST if self.is_mask else FILTERS[interpolation]
        rows, columns = image.height - size[0], image.width - size[1]
        if pillow13 and rows > 0 and rows > 2 * columns and not self.is_mask:
            image = image.resize((image.width, size[0]), resample)
        self.image = image.resize((size[1], size[0]), resample)

    def pad(self, left, top, right, bottom, fill=0, mask_fill=0, mode="constant"):
        pixels = numpy.asarray(self.image)
        sides = ((top, bottom), (left, right), (0, 0))[:pixels.ndim]
        if mode != "constant":
            self.image = Image.fromarray(numpy.pad(pixels, sides, mode))
            return
        fill = mask_fill if self.is_mask else tuple(fill) if isinstance(fill, (list, tuple)) else (fill,) * 3
        self.image = ImageOps.expand(self.image, (left, top, right, bottom), fill)

    def crop(self, top, left, height, width):
        self.image = self.image.crop((left, top, left + width, top + height))

    def plane(self):
        return numpy.array(self.image)


def pair(size):
    return (size, size) if isinstance(size, (int, float)) else tuple(size)


def resized(height, width, size, max_size):
    if not isinstance(size, (int, float)):
        return tuple(size)
    short, long = min(width, height), max(width, height)
    new_short, new_long = size, int(size * long / short)
    if max_size and new_long > max_size:
        new_short, new_long = max(1, int(max_size * new_short / new_long)), max_size
    return (new_long, new_short) if width <= height else (new_short, new_long)


def resize(fields, operation, random):
    width, height = fields[0].image.size
    size = resized(height, width, operation["size"], operation.get("max_size"))
    for field in fields:
        field.resize((0, 0, width, height), size, operation.get("interpolation", "bilinear"),
                     operation.get("pillow13"))


def center_crop(fields, operation, random):
    crop_height, crop_width = pair(operation["size"])
    width, height = fields[0].image.size
    missing = max(crop_width - width, 0), max(crop_height - height, 0)
    for field in fields:
        if any(missing):
            field.pad(missing[0] // 2, missing[1] // 2, (missing[0] + 1) // 2, (missing[1] + 1) // 2)
        new_width, new_height = field.image.size
        top = int(round((new_height - crop_height) / 2.0))
        left = int(round((new_width - crop_width) / 2.0))
        field.crop(top, left, crop_height, crop_width)


def corner_crop(fields, operation, random):
    """The view's of torchvision's ten_crop."""
    crop_height, crop_width = pair(operation["size"])
    mirror = ImageOps.flip if operation.get("mirror") == "down" else ImageOps.mirror
    for field in fields:
        if random.view >= 5:
            field.image = mirror(field.image)
        width, height = field.image.size
        down, across = height - crop_height, width - crop_width
        if min(down, across) < 0:
            raise ValueError(f"a crop of {crop_height} x {crop_width} from {height} x {width}")
        top, left = ((0, 0), (0, across), (down, 0), (down, across),
                     (round(down / 2), round(across / 2)))[random.view % 5]
        field.crop(top, left, crop_height, crop_width)


def random_box(height, width, scale, ratio, random):
    log_ratio = [math.log(ratio[0]), math.log(ratio[1])]
    for _ in range(10):
        area = width * height * random.uniform(*scale)
        aspect = math.exp(random.uniform(*log_ratio))
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


def random_resized_crop(fields, operation, random):
    width, height = fields[0].image.size
    scale = operation.get("scale", [0.08, 1.0])
    ratio = operation.get("ratio", [3 / 4, 4 / 3])
    top, left, h, w = random_box(height, width, scale, ratio, random)
    interpolation = operation.get("interpolation", "bilinear")
    if interpolation == "random":
        interpolation = ("bilinear", "bicubic")[random.below(2)]
    for field in fields:
        field.resize((left, top, left + w, top + h), pair(operation["size"]), interpolation,
                     operation.get("pillow13"))


def border(operation):
    padding = operation.get("padding", 0)
    if isinstance(padding, (int, float)):
        return (padding,) * 4
    return tuple(padding) * (4 // len(padding))


def filling(operation):
    return {key: operation[key] for key in ("fill", "mask_fill", "mode") if key in operation}


def pad(fields, operation, random):
    for field in fields:
        field.pad(*border(operation), **filling(operation))


def random_crop(fields, operation, random):
    crop_height, crop_width = pair(operation["size"])
    pad(fields, operation, random)
    width, height = fields[0].image.size
    if operation.get("pad_if_needed"):
        across, down = max(crop_width - width, 0), max(crop_height - height, 0)
        for field in fields:
            field.pad(across, 0, across, 0, **filling(operation))
            field.pad(0, down, 0, down, **filling(operation))
    width, height = fields[0].image.size
    if crop_height > height or crop_width > width:
        raise ValueError(f"a crop of {crop_height} x {crop_width} from {height} x {width}")
    top = left = 0
    if (crop_height, crop_width) != (height, width):
        top = random.below(height - crop_height + 1)
        left = random.below(width - crop_width + 1)
    for field in fields:
        field.crop(top, left, crop_height, crop_width)


def flip(fields, operation, random, way=Image.FLIP_LEFT_RIGHT):
    if random.happens(operation.get("p", 0.5)):
        for field in fields:
            field.image = field.image.transpose(way)


def vertical_flip(fields, operation, random):
    flip(fields, operation, random, Image.FLIP_TOP_BOTTOM)


def factors(operation, name):
    """The range of a factor, or None where it is off."""
    value, center = operation.get(name, 0), 0.0 if name == "hue" else 1.0
    if isinstance(value, (int, float)):
        value = [center - value, center + value]
        if name != "hue":
            value[0] = max(value[0], 0.0)
    return None if value[0] == value[1] == center else value


def adjust(image, name, factor):
    if name == "brightness":
        return ImageEnhance.Brightness(image).enhance(factor)
    if name == "contrast":
        return ImageEnhance.Contrast(image).enhance(factor)
    if name == "saturation":
        return ImageEnhance.Color(image).enhance(factor)
    h, s, v = image.convert("HSV").split()
    h = (numpy.asarray(h).astype(int) + int(factor * 255)) % 256
    return Image.merge("HSV", (Image.fromarray(h.astype(numpy.uint8), "L"), s, v)).convert("RGB")


def color_jitter(fields, operation, random):
    left = list(JITTERS)
    order = [left.pop(random.below(len(left))) for _ in range(4)]
    ranges = {name: factors(operation, name) for name in JITTERS}
    drawn = {name: random.uniform(*ranges[name]) for name in JITTERS if ranges[name]}
    for name in order:
        for field in fields:
            if name in drawn and not field.is_mask:
                field.image = adjust(field.image, name, drawn[name])


def grayscale(fields, operation, random):
    if random.happens(operation.get("p", 1)):
        for field in fields:
            if not field.is_mask:
                grey = field.image.convert("L")
                field.image = Image.merge("RGB", (grey, grey, grey))


def on_images(change):
    """An operation that changes images, not masks, and has a probability."""
    def operate(fields, operation, random):
        if random.happens(operation.get("p", 0.5)):
            for field in fields:
                if not field.is_mask:
                    field.image = change(field.image, operation)
    return operate


POINTS = {
    "invert": on_images(lambda image, _: ImageOps.invert(image)),
    "posterize": on_images(lambda image, operation: ImageOps.posterize(image, operation["bits"])),
    "solarize": on_images(lambda image, operation: ImageOps.solarize(image, operation["threshold"])),
    "autocontrast": on_images(lambda image, _: ImageOps.autocontrast(image)),
    "equalize": on_images(lambda image, _: ImageOps.equalize(image)),
    "adjust_sharpness": on_images(
        lambda image, operation: ImageEnhance.Sharpness(image).enhance(operation["factor"])),
}


def kernel(size, sigma):
    """Half of it, from the middle outwards, without the taps that show in no value."""
    half = [math.exp(-0.5 * (index / sigma) ** 2) for index in range(size // 2 + 1)]
    total = half[0] + 2 * sum(half[1:])
    while len(half) > 1 and half[-1] / total < 1e-10:
        half.pop()
    return [numpy.float32(weight / total) for weight in half]


def convolve(pixels, weights, axis):
    """In 32-bit floats, each step rounded, from the outermost taps to the middle; mirrored at the edges."""
    half = len(weights) - 1
    border = [(0, 0)] * 3
    border[axis] = (half, half)
    padded = numpy.pad(pixels, border, "reflect" if pixels.shape[axis] > 1 else "edge")
    shifted = [numpy.take(padded, range(at, at + pixels.shape[axis]), axis) for at in range(2 * half + 1)]
    sums = numpy.zeros(pixels.shape, numpy.float32)
    for tap in range(half, 0, -1):
        sums += weights[tap] * (shifted[half - tap] + shifted[half + tap])
    return sums + weights[0] * shifted[half]


def gaussian_blur(fields, operation, random):
    size, sigma = operation["kernel_size"], operation.get("sigma", [0.1, 2.0])
    across, down = (size, size) if isinstance(size, int) else size
    sigma = random.uniform(*(sigma if isinstance(sigma, list) else [sigma, sigma]))
    for field in fields:
        if not field.is_mask:
            values = numpy.asarray(field.image).astype(numpy.float32)
            values = convolve(convolve(values, kernel(down, sigma), 0), kernel(across, sigma), 1)
            field.image = Image.fromarray(numpy.rint(values).astype(numpy.uint8))


def pillow_gaussian_blur(fields, operation, random):
    radius = operation.get("radius", [0.1, 2.0])
    radius = random.uniform(*(radius if isinstance(radius, list) else [radius, radius]))
    for field in fields:
        if not field.is_mask:
            field.image = field.image.filter(ImageFilter.GaussianBlur(radius))


def mapped(field, operation, change):
    """change (image, resample, fill) of a field: masks to the nearest pixel, and with a fill of their own."""
    fill = operation.get("fill", 0)
    fill = tuple(fill) if isinstance(fill, (list, tuple)) else (fill,) * 3
    if field.is_mask:
        field.image = change(field.image, Image.NEAREST, operation.get("mask_fill", 0))
    else:
        field.image = change(field.image, FILTERS[operation.get("interpolation", "nearest")], fill)


def ends(value, count=2):
    """The range of a number that was given as one, or with its ends."""
    if isinstance(value, (int, float)):
        value = [-value, value]
    return list(value) + [0.0] * (count - len(value))


def random_rotation(fields, operation, random):
    angle = random.uniform(*ends(operation["degrees"]))
    center = operation.get("center")
    for field in fields:
        mapped(field, operation, lambda image, resample, fill: image.rotate(
            angle, resample, operation.get("expand", False), center, fillcolor=fill))


def draw_affine(operation, size, random):
    """angle, translation, scale and shear, as torchvision's get_params returns them."""
    across, down = operation.get("translate", [0, 0])
    shear = ends(operation.get("shear", 0), 4)
    angle = random.uniform(*ends(operation["degrees"]))
    moved = [round(random.uniform(-most, most)) for most in (across * size[0], down * size[1])]
    scale = random.uniform(*operation.get("scale", [1, 1]))
    return angle, moved, scale, [random.uniform(*shear[:2]), random.uniform(*shear[2:])]


def inverse_affine(center, angle, translate, scale, shear):
    """What Image.transform takes."""
    turn, shear_x, shear_y = (math.radians(number) for number in (angle, *shear))
    a = math.cos(turn - shear_y) / math.cos(shear_y)
    b = -math.cos(turn - shear_y) * math.tan(shear_x) / math.cos(shear_y) - math.sin(turn)
    c = math.sin(turn - shear_y) / math.cos(shear_y)
    d = -math.sin(turn - shear_y) * math.tan(shear_x) / math.cos(shear_y) + math.cos(turn)
    matrix = [number / scale for number in (d, -b, 0.0, -c, a, 0.0)]
    from_x, from_y = -center[0] - translate[0], -center[1] - translate[1]
    matrix[2] += matrix[0] * from_x + matrix[1] * from_y
    matrix[5] += matrix[3] * from_x + matrix[4] * from_y
    matrix[2] += center[0]
    matrix[5] += center[1]
    return matrix


def affine(field, operation, drawn, center=None):
    width, height = field.image.size
    matrix = inverse_affine(center or (width * 0.5, height * 0.5), *drawn)
    mapped(field, operation, lambda image, resample, fill: image.transform(
        image.size, Image.AFFINE, matrix, resample, fillcolor=fill))


def random_affine(fields, operation, random):
    drawn = draw_affine(operation, fields[0].image.size, random)
    for field in fields:
        affine(field, operation, drawn, operation.get("center"))


def draw_corners(operation, size, random):
    """Where the corners go, as torchvision's get_params returns them."""
    scale, corners = operation.get("distortion_scale", 0.5), []
    for far in ((False, False), (True, False), (True, True), (False, True)):
        corner = []
        for side, is_far in zip(size, far, strict=True):
            reach = int(scale * (side // 2))
            corner.append((side - reach - 1 if is_far else 0) + random.below(reach + 1))
        corners.append(corner)
    return corners


def perspective_coefficients(size, to):
    """The exact solution, each of 32 bits; None: there is none."""
    width, height = size
    start = ((0, 0), (width - 1, 0), (width - 1, height - 1), (0, height - 1))
    rows = []
    for (x, y), (u, v) in zip(to, start, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y, u], [0, 0, 0, x, y, 1, -v * x, -v * y, v]]
    rows = [[fractions.Fraction(number) for number in row] for row in rows]
    for at in range(8):
        pivot = next((row for row in rows[at:] if row[at]), None)
        if pivot is None:
            return None
        rows.remove(pivot)
        pivot = [number / pivot[at] for number in pivot]
        rows = [[number - row[at] * other for number, other in zip(row, pivot, strict=True)] for row in rows]
        rows.insert(at, pivot)
    return [float(numpy.float32(row[8])) for row in rows]


def random_perspective(fields, operation, random):
    if not random.happens(operation.get("p", 0.5)):
        return
    size = fields[0].image.size
    coefficients = perspective_coefficients(size, draw_corners(operation, size, random))
    for field in fields if coefficients else []:
        mapped(field, {"interpolation": "bilinear", **operation},
               lambda image, resample, fill: image.transform(size, Image.PERSPECTIVE, coefficients, resample,
                                                             fillcolor=fill))


def draw_displacement(operation, size, random):
    """[height, width, 2]: across in half widths, down in half heights."""
    width, height = size
    alpha, sigma = (pair(operation.get(key, default)) for key, default in (("alpha", 50), ("sigma", 5)))
    digests = b"".join(struct.pack("<Q", random.next()) for _ in range(height * width))
    noise = (numpy.frombuffer(digests, "<u4") >> 8).astype(numpy.float32) * numpy.float32(2.0 ** -23) - 1
    field = []
    for axis, values in enumerate(noise.reshape(2, height, width, 1)):
        if sigma[axis]:
            taps = int(8 * sigma[axis] + 1) | 1
            values = convolve(convolve(values, kernel(taps, sigma[1]), 0), kernel(taps, sigma[0]), 1)
        field.append(values * numpy.float32(alpha[axis]) / numpy.float32(size[axis]))
    return numpy.concatenate(field, axis=2)


def multiply_add(a, b, c):
    """Rounded once: the product of two 32-bit floats is a double."""
    return (numpy.asarray(a, float) * numpy.asarray(b, float) + numpy.asarray(c, float)).astype(numpy.float32)


def middles(side):
    """torch.linspace ((1 - side) / side, (side - 1) / side, side)."""
    first, last = numpy.float32((1 - side) / side), numpy.float32((side - 1) / side)
    step, at = (last - first) / numpy.float32(max(side - 1, 1)), numpy.arange(side, dtype=numpy.float32)
    ends = multiply_add(at, step, first), multiply_add(side - 1 - at, -step, last)
    return numpy.where(at < side // 2, *ends) if side > 1 else ends[0]


def displaced(image, field, resample, fill):
    """torch's grid_sample of a Pillow image, as the newest computes it on processors with AVX2."""
    values = numpy.asarray(image)
    values = values.reshape(*values.shape[:2], -1).astype(numpy.float32)
    height, width, channels = values.shape
    fill = numpy.float32(fill if isinstance(fill, tuple) else (fill,))
    x = multiply_add(middles(width)[None, :] + field[:, :, 0] + 1, width / 2, -0.5)
    y = multiply_add(middles(height)[:, None] + field[:, :, 1] + 1, height / 2, -0.5)
    around = numpy.zeros((height + 2, width + 2, channels + 1), numpy.float32)
    around[1:-1, 1:-1] = numpy.concatenate([values, numpy.ones((height, width, 1), numpy.float32)], 2)

    def at(row, column):
        return around[tuple(numpy.clip(place, -1, side).astype(int) + 1
                            for place, side in ((row, height), (column, width)))]

    if resample == Image.NEAREST:
        met = at(numpy.rint(y), numpy.rint(x))
        made = numpy.where(met[:, :, -1:] > 0, met[:, :, :-1], fill)
    else:
        left, top = numpy.floor(x), numpy.floor(y)
        w, n = x - left, y - top
        sums = numpy.float32(0)
        for down, across, weight in ((0, 0, (1 - n) * (1 - w)), (0, 1, (1 - n) * w), (1, 0, n * (1 - w)),
                                     (1, 1, n * w)):
            sums = multiply_add(at(top + down, left + across), weight[:, :, None], sums)
        there = sums[:, :, -1:]
        made = numpy.rint(sums[:, :, :-1] * there + (1 - there) * fill)
    return Image.fromarray(made.astype(numpy.uint8).reshape(numpy.asarray(image).shape))


def elastic_transform(fields, operation, random):
    displacement = draw_displacement(operation, fields[0].image.size, random)
    for field in fields:
        mapped(field, {"interpolation": "bilinear", **operation},
               lambda image, resample, fill: displaced(image, displacement, resample, fill))


def augment(fields, operation, random):
    size = fields[0].image.size
    for kind, magnitude in reference_augment.DRAW[operation["op"]](operation, size, random):
        for field in fields:
            reference_augment.apply(field, operation, kind, magnitude, mapped)


def aug_mix(fields, operation, random):
    operation = {"interpolation": "bilinear", **operation}
    original, chains = reference_augment.draw_mix(operation, fields[0].image.size, random)
    for field in fields:
        if field.is_mask:
            continue
        sums = original * numpy.asarray(field.image).astype(numpy.float32)
        for weight, steps in chains:
            copy = field.copy()
            for kind, magnitude in steps:
                reference_augment.apply(copy, operation, kind, magnitude, mapped)
            sums += weight * numpy.asarray(copy.image).astype(numpy.float32)
        field.image = Image.fromarray(sums.astype(numpy.uint8))


GEOMETRY_AND_COLOURS = {
    "resize": resize, "center_crop": center_crop, "corner_crop": corner_crop,
    "random_resized_crop": random_resized_crop,
    "random_crop": random_crop, "pad": pad, "flip": flip, "vertical_flip": vertical_flip,
    "color_jitter": color_jitter, "grayscale": grayscale, "gaussian_blur": gaussian_blur,
    "pillow_gaussian_blur": pillow_gaussian_blur, "random_rotation": random_rotation,
    "random_affine": random_affine, "random_perspective": random_perspective,
    "elastic_transform": elastic_transform, "rand_augment": augment, "trivial_augment_wide": augment,
    "auto_augment": augment, "aug_mix": aug_mix, **POINTS,
}


def bfloat16(values):
    """NumPy has none: the upper half of a float32's bits, rounded to nearest, ties to even."""
    bits = values.astype(numpy.float32).view(numpy.uint32)
    return ((bits + (0x7fff + ((bits >> 16) & 1))) >> 16).astype(numpy.uint16)


def erased_box(operation, height, width, random):
    """What random_erasing erases, as (top, left, height, width); None: nothing."""
    if not random.happens(operation.get("p", 0.5)):
        return None
    log_ratio = [math.log(end) for end in operation.get("ratio", [0.3, 3.3])]
    for _ in range(10):
        area = height * width * random.uniform(*operation.get("scale", [0.02, 0.33]))
        aspect = math.exp(random.uniform(*log_ratio))
        h, w = int(round(math.sqrt(area * aspect))), int(round(math.sqrt(area / aspect)))
        if h < height and w < width:
            top = random.below(height - h + 1)
            return top, random.below(width - w + 1), h, w
    return None


class Ending:
    """What the operations say of the outputs."""

    def __init__(self, operations):
        self.channels, self.planar, self.dtype, self.normalize = 3, False, None, None
        self.erasing = self.place = None
        for place, operation in enumerate(one for one in operations if "op" in one):
            name = operation.get("op")
            if name == "grayscale" and operation.get("p", 1) == 1:
                self.channels = operation.get("channels", 1)
            elif name == "normalize":
                self.normalize = [numpy.array(operation.get(key, default), numpy.float32)
                                  for key, default in (("mean", 0), ("std", 1))]
                self.reciprocal = operation.get("reciprocal", False)
            elif name == "random_erasing":
                self.erasing, self.place = operation, place
            elif name == "cast":
                self.dtype = operation["dtype"]
            elif name == "layout":
                self.planar = operation["layout"] == "NCHW"
        self.dtype = self.dtype or ("float32" if self.normalize else "uint8")

    def output(self, field, key, view):
        values = field.plane()
        if field.is_mask:
            return values
        values = values[:, :, :self.channels]
        if self.normalize:
            mean, std = self.normalize
            values = values.astype(numpy.float32)
            values = values * numpy.float32(1 / 255) if self.reciprocal else values / numpy.float32(255)
            values = (values - mean) / std
        box = self.erasing and erased_box(self.erasing, *values.shape[:2], Keyed(key, view, self.place))
        if box:
            top, left, height, width = box
            values = values.astype(numpy.float32)
            values[top:top + height, left:left + width] = self.erasing.get("value", 0)
        with numpy.errstate(over="ignore"):
            values = bfloat16(values) if self.dtype == "bfloat16" else values.astype(self.dtype)
        return numpy.ascontiguousarray(values.transpose(2, 0, 1) if self.planar else values)


def load(path, is_mask, decode):
    with Image.open(path) as file:
        image = ImageOps.exif_transpose(file) if decode.get("orientation") else file
        if image.size[0] * image.size[1] > decode.get("max_pixels", math.inf):
            raise ValueError("more than max_pixels")
        if not is_mask:
            return Field(image.convert("RGB"), False)
        if image.mode not in ("L", "P", "1"):
            raise ValueError(f"a mask of mode {image.mode}")
        return Field(Image.fromarray(numpy.array(image).astype(numpy.uint8), "L"), True)


def read_array(path, decode):
    array = numpy.load(path, allow_pickle=False)
    if array.dtype.newbyteorder("=") != numpy.dtype(decode["dtype"]) or list(array.shape) != decode["shape"]:
        raise ValueError(f"{array.dtype} {array.shape}")
    return numpy.ascontiguousarray(array.astype(decode["dtype"]))


def read_audio(path, decode, excerpt, random):
    """WAV of 16 bits; an excerpt, [channels, length]."""
    with wave.open(path, "rb") as file:
        if file.getsampwidth() != 2 or file.getnchannels() != decode.get("channels", 1):
            raise ValueError("the samples' width, or the channels")
        if file.getframerate() != decode.get("rate", file.getframerate()):
            raise ValueError("the rate")
        samples = numpy.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1,
            file.getnchannels()).T
    frames, length = samples.shape[1], excerpt["length"]
    begin, room = 0, frames - length
    if room > 0:
        begin = room // 2 if excerpt.get("place", "random") == "center" else int(random.uniform()
            * (room + 1))
    samples = samples[:, begin:begin + length]
    samples = numpy.pad(samples, ((0, 0), (0, length - samples.shape[1])))
    if decode.get("dtype", "float32") == "int16":
        return numpy.ascontiguousarray(samples.astype(numpy.int16))
    return numpy.ascontiguousarray(samples.astype(numpy.float32) / numpy.float32(32768))


def read_other(path, operations, key):
    """The one array of a sample that is no image."""
    decode = operations[0]
    if decode["as"] == "array":
        return read_array(path, decode)
    if decode["as"] == "audio":
        return read_audio(path, decode, next(o for o in operations if o.get("op") == "excerpt"),
                          Keyed(key, 0, 1))
    with open(path, "rb") as file:
        data = numpy.frombuffer(file.read(), numpy.uint8)
    if len(data) != decode["length"]:
        raise ValueError(f"{len(data)} bytes")
    return data


RECIPES = {
    "train": [{"op": "random_resized_crop", "size": 224}, {"share": True}, {"op": "flip"}],
    "eval": [{"op": "resize", "size": 256}, {"op": "center_crop", "size": 224}, {"share": True}],
}


def counts_of(operation):
    """Of each part of a group."""
    return operation.get("counts", [operation["count"]] if operation["op"] == "random_apply" else [])


def chosen_parts(operation, random):
    """Those that are done, in their order."""
    parts = list(range(len(counts_of(operation))))
    if operation["op"] == "random_apply":
        return parts if random.happens(operation.get("p", 0.5)) else []
    if operation["op"] == "random_order":
        return [parts.pop(random.below(len(parts)) if len(parts) > 1 else 0) for _ in list(parts)]
    weights = operation.get("p", [1] * len(parts))
    at = random.uniform() * sum(weights)
    return [next(part for part in parts if at < sum(weights[:part + 1]))]


def do(listed, place, view, key, number):
    """An operation on a view, with those that it is about; returns how many these are."""
    operation, random = listed[place], Keyed(key, number, place)
    counts = counts_of(operation)
    for part in chosen_parts(operation, random) if counts else []:
        inner = place + 1 + sum(counts[:part])
        end = inner + counts[part]
        while inner < end:
            inner += 1 + do(listed, inner, view, key, number)
    if operation["op"] in GEOMETRY_AND_COLOURS:
        GEOMETRY_AND_COLOURS[operation["op"]](view, operation, random)
    return sum(counts)


def run_image(files, operations, key, source):
    masks = dict(source)
    names = operations[0].get("fields", [source[0][0]])
    views = [[load(path, masks[name], operations[0]) for path, name in zip(files, names, strict=True)]]
    if len({field.image.size for field in views[0]}) > 1:
        raise ValueError("the fields' images differ in size")
    ending, shared, place, until = Ending(operations), None, 0, 0
    listed = [operation for operation in operations if "op" in operation]
    for operation in operations:
        if "op" not in operation:
            shared = [field.plane() for view in views for field in view]
            continue
        if operation["op"] == "views":
            views = [[field.copy() for field in views[0]] for _ in range(operation["count"])]
        if place >= until:
            spans = [do(listed, place, view, key, number) for number, view in enumerate(views)]
            until = place + 1 + spans[0]
        place += 1
    made = [[ending.output(field, key, number) for field in view] for number, view in enumerate(views)]
    if any(operation.get("stack") for operation in operations):
        return shared, [numpy.stack(field) for field in zip(*made, strict=True)]
    return shared, [field for view in made for field in view]


def run(files, pipeline, key=(0, 0, 0), source=(("image", False),)):
    """(planes at the share point, outputs) as lists of arrays, view by view and in each the fields.

    files: a path, or one for each of decode's fields.  key: (seed, round, id) or (seed, round, id,
    occurrence), of both stages.  source: (name, is mask) of the data's fields.  Planes: uint8, [height,
    width, 3] or, of masks, [height, width]; None where the list has no mark.  bfloat16 comes as the bits, in
    uint16.  Raises what Pillow raises.
    """
    files = [files] if isinstance(files, str) else files
    operations = RECIPES[pipeline] if isinstance(pipeline, str) else pipeline
    if not operations or operations[0].get("op") != "decode":
        operations = [{"op": "decode"}] + operations
    if operations[0].get("as", "image") == "image":
        return run_image(files, operations, key, source)
    array = read_other(files[0], operations, key)
    return [array], [array]

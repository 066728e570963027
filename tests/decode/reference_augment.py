"""The augmentation policies of reference.py: what is drawn, and what torchvision's steps do to an image.

Pillow and NumPy alone; nothing here is shared with the C code.
"""
import math

import numpy
from PIL import Image, ImageEnhance, ImageOps

KINDS = ["Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color",
         "Contrast", "Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize"]
SIGNED = KINDS[1:10]
WITHOUT = ["Identity", "AutoContrast", "Equalize", "Invert"]
ENDS = {"ShearX": (0.3, 0.99), "ShearY": (0.3, 0.99), "Rotate": (30, 135), "Brightness": (0.9, 0.99),
        "Color": (0.9, 0.99), "Contrast": (0.9, 0.99), "Sharpness": (0.9, 0.99)}
#  Sub-policies, each of two steps: kind, probability, number of the magnitude.
POLICIES = {
    "imagenet": (
        "Posterize 0.4 8 + Rotate 0.6 9; Solarize 0.6 5 + AutoContrast 0.6 0; "
        "Equalize 0.8 0 + Equalize 0.6 0; Posterize 0.6 7 + Posterize 0.6 6; "
        "Equalize 0.4 0 + Solarize 0.2 4; Equalize 0.4 0 + Rotate 0.8 8; Solarize 0.6 3 + Equalize 0.6 0; "
        "Posterize 0.8 5 + Equalize 1 0; Rotate 0.2 3 + Solarize 0.6 8; Equalize 0.6 0 + Posterize 0.4 6; "
        "Rotate 0.8 8 + Color 0.4 0; Rotate 0.4 9 + Equalize 0.6 0; Equalize 0 0 + Equalize 0.8 0; "
        "Invert 0.6 0 + Equalize 1 0; Color 0.6 4 + Contrast 1 8; Rotate 0.8 8 + Color 1 2; "
        "Color 0.8 8 + Solarize 0.8 7; Sharpness 0.4 7 + Invert 0.6 0; ShearX 0.6 5 + Equalize 1 0; "
        "Color 0.4 0 + Equalize 0.6 0; Equalize 0.4 0 + Solarize 0.2 4; "
        "Solarize 0.6 5 + AutoContrast 0.6 0; Invert 0.6 0 + Equalize 1 0; Color 0.6 4 + Contrast 1 8; "
        "Equalize 0.8 0 + Equalize 0.6 0"),
    "cifar10": (
        "Invert 0.1 0 + Contrast 0.2 6; Rotate 0.7 2 + TranslateX 0.3 9; "
        "Sharpness 0.8 1 + Sharpness 0.9 3; ShearY 0.5 8 + TranslateY 0.7 9; "
        "AutoContrast 0.5 0 + Equalize 0.9 0; ShearY 0.2 7 + Posterize 0.3 7; "
        "Color 0.4 3 + Brightness 0.6 7; Sharpness 0.3 9 + Brightness 0.7 9; "
        "Equalize 0.6 0 + Equalize 0.5 0; Contrast 0.6 7 + Sharpness 0.6 5; "
        "Color 0.7 7 + TranslateX 0.5 8; Equalize 0.3 0 + AutoContrast 0.4 0; "
        "TranslateY 0.4 3 + Sharpness 0.2 6; Brightness 0.9 6 + Color 0.2 8; Solarize 0.5 2 + Invert 0 0; "
        "Equalize 0.2 0 + AutoContrast 0.6 0; Equalize 0.2 0 + Equalize 0.6 0; "
        "Color 0.9 9 + Equalize 0.6 0; AutoContrast 0.8 0 + Solarize 0.2 8; "
        "Brightness 0.1 3 + Color 0.7 0; Solarize 0.4 5 + AutoContrast 0.9 0; "
        "TranslateY 0.9 9 + TranslateY 0.7 9; AutoContrast 0.9 0 + Solarize 0.8 3; "
        "Equalize 0.8 0 + Invert 0.1 0; TranslateY 0.7 9 + AutoContrast 0.9 0"),
    "svhn": (
        "ShearX 0.9 4 + Invert 0.2 0; ShearY 0.9 8 + Invert 0.7 0; Equalize 0.6 0 + Solarize 0.6 6; "
        "Invert 0.9 0 + Equalize 0.6 0; Equalize 0.6 0 + Rotate 0.9 3; ShearX 0.9 4 + AutoContrast 0.8 0; "
        "ShearY 0.9 8 + Invert 0.4 0; ShearY 0.9 5 + Solarize 0.2 6; Invert 0.9 0 + AutoContrast 0.8 0; "
        "Equalize 0.6 0 + Rotate 0.9 3; ShearX 0.9 4 + Solarize 0.3 3; ShearY 0.8 8 + Invert 0.7 0; "
        "Equalize 0.9 0 + TranslateY 0.6 6; Invert 0.9 0 + Equalize 0.6 0; Contrast 0.3 3 + Rotate 0.8 4; "
        "Invert 0.8 0 + TranslateY 0 2; ShearY 0.7 6 + Solarize 0.4 8; Invert 0.6 0 + Rotate 0.8 4; "
        "ShearY 0.3 7 + TranslateX 0.9 3; ShearX 0.1 6 + Invert 0.6 0; Solarize 0.7 2 + TranslateY 0.6 7; "
        "ShearY 0.8 4 + Invert 0.8 0; ShearX 0.7 9 + TranslateY 0.8 3; ShearY 0.8 5 + AutoContrast 0.7 0; "
        "ShearX 0.7 2 + Invert 0.1 0"),
}


def linspace(first, last, bins, level):
    """torch.linspace: 32-bit floats, each rounded once."""
    single = numpy.float32
    first, last = single(first), single(last)
    step = numpy.float64(single(single(last - first) / single(bins - 1)))
    if level < bins // 2:
        return float(single(numpy.float64(first) + step * level))
    return float(single(numpy.float64(last) - step * (bins - 1 - level)))


def magnitude_of(kind, operation, bins, level, size):
    """size: (width, height)."""
    wide = operation["op"] == "trivial_augment_wide"
    if kind in WITHOUT:
        return 0.0
    if kind == "Posterize":
        single = numpy.float32
        return 8 - int(numpy.rint(single(level) / single((bins - 1) / (6 if wide else 4))))
    if kind == "Solarize":
        if operation.get("unit_threshold"):
            return 255 * linspace(1, 0, bins, level)
        return linspace(255, 0, bins, level)
    if kind.startswith("Translate"):
        last = 32 if wide else 150.0 / 331.0 * size[kind == "TranslateY"]
    else:
        last = ENDS[kind][wide]
    return linspace(0, last, bins, level)


def draw_random(operation, size, random):
    steps = []
    for _ in range(operation.get("num_ops", 2)):
        kind = KINDS[random.below(len(KINDS))]
        magnitude = magnitude_of(kind, operation, operation.get("num_magnitude_bins", 31),
                                 operation.get("magnitude", 9), size)
        steps.append((kind, -magnitude if kind in SIGNED and random.below(2) else magnitude))
    return steps


def draw_trivial(operation, size, random):
    bins, kind = operation.get("num_magnitude_bins", 31), KINDS[random.below(len(KINDS))]
    level = 0 if kind in WITHOUT else random.below(bins)
    magnitude = magnitude_of(kind, operation, bins, level, size)
    return [(kind, -magnitude if kind in SIGNED and random.below(2) else magnitude)]


def draw_auto(operation, size, random):
    subs = POLICIES[operation.get("policy", "imagenet")].split("; ")
    chosen = subs[random.below(len(subs))].split(" + ")
    chances, signs = [random.uniform() for _ in chosen], [random.below(2) for _ in chosen]
    steps = []
    for step, chance, sign in zip(chosen, chances, signs, strict=True):
        kind, probability, level = step.split()
        if chance <= float(probability):
            magnitude = magnitude_of(kind, operation, 10, int(level), size)
            steps.append((kind, -magnitude if kind in SIGNED and not sign else magnitude))
    return steps


MIXED = [*KINDS[1:6], "Posterize", "Solarize", "AutoContrast", "Equalize", "Brightness", "Color", "Contrast",
         "Sharpness"]


def normal(random):
    length = math.sqrt(-2 * math.log(1 - random.uniform()))
    return length * math.cos(2 * math.pi * random.uniform())


def gamma(alpha, random):
    """A variate by Marsaglia and Tsang."""
    d = (alpha + 1 if alpha < 1 else alpha) - 1.0 / 3
    while True:
        x = normal(random)
        cube = (1 + x / math.sqrt(9 * d)) ** 3
        if cube <= 0:
            continue
        if math.log(1 - random.uniform()) < 0.5 * x * x + d - d * cube + d * math.log(cube):
            return d * cube * ((1 - random.uniform()) ** (1 / alpha) if alpha < 1 else 1)


def dirichlet(alpha, count, random):
    variates = [gamma(alpha, random) for _ in range(count)]
    return [numpy.float32(variate / sum(variates)) for variate in variates]


def mixed_magnitude(kind, level, size):
    if kind == "Posterize":
        return 4 - int(numpy.rint(numpy.float32(level) / numpy.float32(9 / 4)))
    if kind.startswith("Translate"):
        return linspace(0, size[kind == "TranslateY"] / 3.0, 10, level)
    return magnitude_of(kind, {"op": "rand_augment"}, 10, level, size)


def draw_mix(operation, size, random):
    """The image's weight; and the chains, each with its weight and its steps."""
    width, depth = operation.get("mixture_width", 3), operation.get("chain_depth", -1)
    both = dirichlet(operation.get("alpha", 1), 2, random)
    weights = [weight * both[1] for weight in dirichlet(operation.get("alpha", 1), width, random)]
    kinds = MIXED if operation.get("all_ops", True) else MIXED[:-4]
    chains = []
    for weight in weights:
        steps = []
        for _ in range(depth if depth > 0 else 1 + random.below(3)):
            kind = kinds[random.below(len(kinds))]
            level = 0 if kind in WITHOUT else random.below(operation.get("severity", 3))
            magnitude = mixed_magnitude(kind, level, size)
            steps.append((kind, -magnitude if kind in SIGNED and random.below(2) else magnitude))
        chains.append((weight, steps))
    return both[0], chains


DRAW = {"rand_augment": draw_random, "trivial_augment_wide": draw_trivial, "auto_augment": draw_auto}

CHANGES = {
    "Brightness": lambda image, magnitude: ImageEnhance.Brightness(image).enhance(1.0 + magnitude),
    "Color": lambda image, magnitude: ImageEnhance.Color(image).enhance(1.0 + magnitude),
    "Contrast": lambda image, magnitude: ImageEnhance.Contrast(image).enhance(1.0 + magnitude),
    "Sharpness": lambda image, magnitude: ImageEnhance.Sharpness(image).enhance(1.0 + magnitude),
    #  Of 0 bits Pillow makes black until 13, which refuses them; torchvision's AugMix has them of a tensor.
    "Posterize": lambda image, bits: (ImageOps.posterize(image, bits) if bits
                                      else Image.new("RGB", image.size)),
    "Solarize": lambda image, threshold: ImageOps.solarize(image, threshold),
    "AutoContrast": lambda image, _: ImageOps.autocontrast(image),
    "Equalize": lambda image, _: ImageOps.equalize(image),
    "Invert": lambda image, _: ImageOps.invert(image),
}


def matrix_of(kind, magnitude):
    """Of a shear, or of a translation: the inverse, from the upper left corner."""
    if kind.startswith("Translate"):
        moved = -float(int(magnitude))
        return (1, 0, moved, 0, 1, 0) if kind == "TranslateX" else (1, 0, 0, 0, 1, moved)
    slope = math.tan(math.radians(math.degrees(math.atan(magnitude))))
    if kind == "ShearX":
        return 1, slope, 0, 0, 1, 0
    angle = math.atan(magnitude)
    angle = math.radians(math.degrees(angle))
    a = math.cos(-angle) / math.cos(angle)
    return 1, 0, 0, -math.sin(-angle) / math.cos(angle), a, 0


def apply(field, operation, kind, magnitude, mapped):
    """One step on a field; mapped (field, operation, change) is reference.py's."""
    if kind == "Rotate":
        mapped(field, operation, lambda image, resample, fill: image.rotate(magnitude, resample,
                                                                            fillcolor=fill))
    elif kind.startswith(("Shear", "Translate")):
        mapped(field, operation, lambda image, resample, fill: image.transform(
            image.size, Image.AFFINE, matrix_of(kind, magnitude), resample, fillcolor=fill))
    elif kind in CHANGES and not field.is_mask:
        field.image = CHANGES[kind](field.image, magnitude)

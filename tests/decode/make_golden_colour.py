"""Makes golden/colour.inc with Pillow and torchvision (run in this folder): colour steps on made pictures,
and the hashes of what comes out, for test_colour.c.

The last lines are all hues: each mix of a full channel, an empty one and one between, at every saturation.
"""
import random

import numpy
import torchvision.transforms.functional_pil as functional
from PIL import Image

MASK = 2 ** 64 - 1
KINDS = {"BRIGHTNESS": functional.adjust_brightness, "CONTRAST": functional.adjust_contrast,
         "SATURATION": functional.adjust_saturation, "HUE": functional.adjust_hue,
         "GREY": lambda image, _: functional.to_grayscale(image, 3),
         "INVERT": lambda image, _: functional.invert(image),
         "POSTERIZE": lambda image, bits: functional.posterize(image, int(bits)),
         "SOLARIZE": functional.solarize,
         "AUTOCONTRAST": lambda image, _: functional.autocontrast(image),
         "EQUALIZE": lambda image, _: functional.equalize(image)}
CASES = 240
TABLES_MAX = 2                  # COLOUR_TABLES_MAX of colour.h


def splitmix(state):
    state = (state + 0x9e3779b97f4a7c15) & MASK
    mixed = state
    mixed = ((mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9) & MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94d049bb133111eb) & MASK
    return state, mixed ^ (mixed >> 31)


def picture(height, width, seed):
    """s_picture of test_colour.c, byte for byte."""
    kind, state = seed % 4, seed
    values = bytearray()
    for _ in range(height * width):
        state, number = splitmix(state)
        for channel in range(3):
            byte = number >> 8 * channel & 255
            if kind == 1:
                byte = 255 if byte & 1 else 0
            elif kind == 2:
                byte = min(255, (number >> 24 & 255) + byte % 12)
            elif kind == 3:
                byte = byte // 17 * 17
            values.append(byte)
    return numpy.frombuffer(bytes(values), numpy.uint8).reshape(height, width, 3)


def all_hues():
    """s_all_hues of test_colour.c."""
    rows = []
    for order in ((0, 1, 2), (1, 0, 2), (1, 2, 0), (2, 1, 0), (2, 0, 1), (0, 2, 1)):
        for span in range(256):
            pixels = numpy.full((256, 3), 255, numpy.uint8)
            pixels[:, order[2]] = 255 - span
            pixels[:, order[1]] = 255 - numpy.minimum(numpy.arange(256), span)
            rows.append(pixels)
    return numpy.stack(rows)


def fnv(data):
    value = 0xcbf29ce484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001b3) & MASK
    return value


def draw_factor(kind, draw):
    if kind in ("GREY", "INVERT", "AUTOCONTRAST", "EQUALIZE"):
        return 0.0
    if kind == "POSTERIZE":
        return float(draw.randint(0, 8))
    if kind == "SOLARIZE":
        return draw.choice([0.0, 255.0, 256.0, float(draw.randint(1, 254)), draw.uniform(0, 256)])
    if kind == "HUE":
        return draw.choice([draw.uniform(-0.5, 0.5), draw.uniform(-0.1, 0.1), 0.5, -0.5, 0.001, 51 / 255])
    return draw.choice([0.0, 1.0, 0.5, draw.random(), draw.uniform(0, 2), draw.uniform(1, 10), 1e9])


def line(height, width, seed, steps, pixels):
    image = Image.fromarray(pixels)
    for kind, factor in steps:
        image = KINDS[kind](image, factor)
    text = ", ".join(f"{{ COLOUR_{kind}, {factor!r}, 0 }}" for kind, factor in steps)
    return (f"    {{ {height}, {width}, {seed}, {len(steps)}, {{ {text} }}, 0x{fnv(image.tobytes()):016x}u "
            f"}},\n")


def main():
    draw = random.Random(4)
    with open("golden/colour.inc", "w") as file:
        for seed in range(1, CASES + 1):
            height, width = draw.randint(1, 20), draw.randint(1, 40)
            kinds = ["AUTOCONTRAST"] * 3
            while sum(kind in ("AUTOCONTRAST", "EQUALIZE") for kind in kinds) > TABLES_MAX:
                kinds = draw.choices(list(KINDS), [3, 3, 3, 3, 1, 1, 1, 1, 2, 3], k=1 + seed % 5)
            steps = [(kind, draw_factor(kind, draw)) for kind in kinds]
            file.write(line(height, width, seed, steps, picture(height, width, seed)))
        for factor in (0.001, -0.37, 0.5):
            file.write(line(1536, 256, 0, [("HUE", factor)], all_hues()))


if __name__ == "__main__":
    main()

"""Makes the golden files of tests/decode/golden with Pillow: make_golden.py (run in this folder)

  resize.inc   results of resizing made noise, as hashes, for test_resize.c
  NAME.jpg     tiny JPEGs
  NAME.rgb     what each of PIPELINES makes of them at the share point and at its end, for test_decoder.c
"""
import numpy
from PIL import Image

import reference
from test_parity import patched_ycck, picture

MASK = 2 ** 64 - 1
KEY = (1, 2, 3)
PIPELINES = [
    [{"op": "resize", "size": 18}, {"op": "center_crop", "size": [16, 17]}, {"share": True}],
    [{"op": "resize", "size": [23, 29]}, {"op": "flip", "p": 1}, {"op": "resize", "size": [15, 21]},
     {"op": "center_crop", "size": [19, 24]}, {"op": "flip", "p": 1}, {"op": "resize", "size": 17},
     {"op": "center_crop", "size": [22, 16]}, {"share": True}, {"op": "flip", "p": 0.75}],
    [{"op": "center_crop", "size": [52, 27]}, {"op": "random_resized_crop", "size": [13, 14]}, {"share": True},
     {"op": "flip"}, {"op": "flip", "p": 0.25}],
]
RESIZES = [
    # height, width, (top, left, height, width), new height, new width
    (1, 1, (0, 0, 1, 1), 5, 3), (3, 2, (0, 0, 3, 2), 1, 1), (20, 30, (0, 0, 20, 30), 10, 15),
    (61, 47, (0, 0, 61, 47), 224, 224), (211, 307, (0, 0, 211, 307), 64, 64),
    (211, 307, (5, 9, 171, 102), 96, 128),
    (300, 40, (1, 1, 298, 38), 17, 61), (40, 300, (0, 0, 40, 300), 40, 224),
    (50, 60, (10, 10, 7, 50), 50, 60),
    (97, 89, (0, 0, 97, 89), 97, 89), (256, 256, (16, 16, 224, 224), 223, 225),
    (2, 999, (0, 0, 2, 999), 3, 10),
]


def splitmix(state):
    state = (state + 0x9e3779b97f4a7c15) & MASK
    mixed = state
    mixed = ((mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9) & MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94d049bb133111eb) & MASK
    return state, mixed ^ (mixed >> 31)


def noise(height, width, seed):
    """s_noise of test_resize.c, byte for byte."""
    values = bytearray()
    for _ in range(height * width * 3):
        seed, number = splitmix(seed)
        value = number % 256
        values.append(value if seed % 3 else 255 if value & 1 else 0)
    return Image.fromarray(numpy.frombuffer(bytes(values), numpy.uint8).reshape(height, width, 3))


def fnv(data):
    value = 0xcbf29ce484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001b3) & MASK
    return value


def make_resizes():
    with open("golden/resize.inc", "w") as file:
        for seed, (height, width, box, new_height, new_width) in enumerate(RESIZES):
            top, left, box_height, box_width = box
            image = noise(height, width, seed).crop((left, top, left + box_width, top + box_height))
            data = image.resize((new_width, new_height), Image.BILINEAR).tobytes()
            file.write(f"    {{ {height}, {width}, {{ {top}, {left}, {box_height}, {box_width} }}, "
                       f"{new_height}, {new_width}, 0x{fnv(data):016x}u }},\n")


def make_jpegs():
    kinds = {
        "colour_444": ("RGB", dict(quality=90, subsampling=0)),
        "colour_420": ("RGB", dict(quality=80, subsampling=2)),
        "colour_422_progressive": ("RGB", dict(quality=70, subsampling=1, progressive=True)),
        "grey": ("L", dict(quality=80)), "cmyk": ("CMYK", dict(quality=80)),
        "ycck": ("CMYK", dict(quality=80)),
    }
    for number, (name, (mode, options)) in enumerate(kinds.items()):
        path = f"golden/{name}.jpg"
        picture(41 + number, 30 - number, number).convert(mode).save(path, "JPEG", **options)
        if name == "ycck":
            patched_ycck(path)
        with open(f"golden/{name}.rgb", "wb") as file:
            for pipeline in PIPELINES:
                for image in reference.run(path, pipeline, KEY):
                    file.write(image.tobytes())


if __name__ == "__main__":
    make_resizes()
    make_jpegs()

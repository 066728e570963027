"""Makes golden/resize.inc for test_resize.c with Pillow 9.4: make_golden_resize.py (run in this folder)

Each line says what Image.resize makes of noise, as a golden_t of that test.
"""
import numpy
from PIL import Image

MASK = 2 ** 64 - 1
FILTERS = {"NEAREST": Image.NEAREST, "BILINEAR": Image.BILINEAR, "BICUBIC": Image.BICUBIC}
SIZES = [
    # height, width, new height, new width
    (1, 1, 5, 3), (3, 2, 1, 1), (20, 30, 10, 15), (61, 47, 224, 224), (171, 102, 64, 64), (211, 307, 96, 128),
    (298, 38, 17, 61), (40, 300, 40, 224), (7, 50, 50, 50), (97, 89, 97, 89), (224, 224, 223, 225),
    (2, 999, 3, 10),
    (100, 75, 256, 192), (250, 250, 224, 224), (9, 600, 600, 9),
]
BOXES = [
    # height, width, (top, rows, left, columns), new height, new width; eighths, which Pillow's floats hold
    (60, 80, (0.5, 59.5, 0.25, 79), 30, 41), (60, 80, (7, 40, 11.375, 60.125), 40, 60),
    (33, 21, (0, 33, 1.5, 4.125), 64, 64), (33, 21, (12.625, 0.25, 3, 18), 9, 9),
    (33, 21, (3, 20, 4, 17), 20, 34),
    (90, 45, (1.125, 88.875, 0, 45), 10, 7),
]


def splitmix(state):
    state = (state + 0x9e3779b97f4a7c15) & MASK
    mixed = state
    mixed = ((mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9) & MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94d049bb133111eb) & MASK
    return state, mixed ^ (mixed >> 31)


def noise(height, width, channels, seed):
    """s_noise of test_resize.c, byte for byte."""
    values = bytearray()
    for _ in range(height * width * channels):
        seed, number = splitmix(seed)
        value = number % 256
        values.append(value if seed % 3 else 255 if value & 1 else 0)
    pixels = numpy.frombuffer(bytes(values), numpy.uint8).reshape(height, width, channels)
    return Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)


def fnv(data):
    value = 0xcbf29ce484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001b3) & MASK
    return value


def main():
    cases = [(height, width, (0, height, 0, width), new_height, new_width)
             for height, width, new_height, new_width in SIZES] + BOXES
    with open("golden/resize.inc", "w") as file:
        seed = 0
        for height, width, box, new_height, new_width in cases:
            top, rows, left, columns = box
            for name, number in FILTERS.items():
                for channels in 1, 3:
                    image = noise(height, width, channels, seed).resize(
                        (new_width, new_height), number, box=(left, top, left + columns, top + rows))
                    file.write(f"    {{ RESIZE_{name}, {channels}, {height}, {width}, "
                               f"{{ {top}, {rows}, {left}, {columns} }}, {new_height}, {new_width}, "
                               f"0x{fnv(image.tobytes()):016x}u }},\n")
                    seed += 1


if __name__ == "__main__":
    main()

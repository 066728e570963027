"""Makes golden/png.inc with Pillow: make_golden_png.py (run in this folder)

For every kind of PNG: what Pillow makes of noise, as hashes, for test_png_reader.c, which makes the same
images with libpng.  The files here are written without a PNG library, so that three programs must agree.
"""
import io
import struct
import warnings
import zlib

import numpy
from PIL import Image

MASK = 2 ** 64 - 1
GREY, COLOUR, PALETTE, GREY_ALPHA, COLOUR_ALPHA = 0, 2, 3, 4, 6
CHANNELS = {GREY: 1, COLOUR: 3, PALETTE: 1, GREY_ALPHA: 2, COLOUR_ALPHA: 4}
KINDS = [
    # colour type, depth, height, width, colours in the palette, entries of transparency
    (GREY, 1, 13, 21, 0, 0), (GREY, 2, 13, 21, 0, 1), (GREY, 4, 12, 23, 0, 0), (GREY, 8, 17, 19, 0, 0),
    (GREY, 8, 9, 5, 0, 1),
    (GREY, 16, 17, 19, 0, 0), (GREY, 16, 8, 8, 0, 1), (COLOUR, 8, 17, 19, 0, 0), (COLOUR, 8, 7, 9, 0, 1),
    (COLOUR, 16, 11, 10, 0, 0), (PALETTE, 1, 13, 21, 2, 0), (PALETTE, 2, 13, 21, 4, 3),
    (PALETTE, 4, 12, 23, 16, 0), (PALETTE, 4, 12, 23, 11, 11), (PALETTE, 8, 17, 19, 256, 0),
    (PALETTE, 8, 17, 19, 256, 200), (PALETTE, 8, 17, 19, 100, 0), (GREY_ALPHA, 8, 17, 19, 0, 0),
    (GREY_ALPHA, 16, 11, 10, 0, 0), (COLOUR_ALPHA, 8, 17, 19, 0, 0), (COLOUR_ALPHA, 16, 11, 10, 0, 0),
    (GREY, 1, 1, 1, 0, 0), (PALETTE, 2, 1, 3, 3, 0), (COLOUR, 8, 1, 1, 0, 0), (COLOUR_ALPHA, 16, 2, 1, 0, 0),
]


def splitmix(state):
    """test_below of tests/seed.h, without its bound."""
    state = (state + 0x9e3779b97f4a7c15) & MASK
    mixed = state
    mixed = ((mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9) & MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94d049bb133111eb) & MASK
    return state, mixed ^ (mixed >> 31)


def fnv(data):
    value = 0xcbf29ce484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001b3) & MASK
    return value


def noise(count, depth, seed):
    """s_noise of test_png_reader.c: samples of 16 bits, many of them near 255, where clipping shows."""
    samples = []
    for _ in range(count):
        seed, number = splitmix(seed)
        value = number % 65536
        samples.append(value >> (16 - depth) if depth < 16 or seed % 3 else value % 300)
    return samples, seed


def packed(samples, depth):
    if depth == 16:
        return struct.pack(f">{len(samples)}H", *samples)
    bits = "".join(f"{sample:0{depth}b}" for sample in samples)
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[at:at + 8], 2) for at in range(0, len(bits), 8))


def chunk(name, content):
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def encoded(kind, seed, filled=False):
    """filled: black stands where the palette has no colour, which is what Pillow shows there from 10.1 on."""
    colour_type, depth, height, width, colours, transparent = kind
    count = width * CHANNELS[colour_type]
    samples, seed = noise(height * count, depth, seed)
    palette, _ = noise(3 * colours, 8, seed)
    rows = b"".join(b"\0" + packed(samples[row * count:(row + 1) * count], depth) for row in range(height))
    file = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour_type, 0,
                                                             0, 0))
    if colours:
        file += chunk(b"PLTE", bytes(palette) + bytes(3 * (2 ** depth - colours) if filled else 0))
    if transparent:
        file += chunk(b"tRNS", bytes(range(transparent)) if colours else bytes(2 * CHANNELS[colour_type]))
    return file + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


if __name__ == "__main__":
    warnings.simplefilter("ignore")         # of transparent palettes
    with open("golden/png.inc", "w") as inc:
        for seed, kind in enumerate(KINDS):
            image = Image.open(io.BytesIO(encoded(kind, seed, filled=True)))
            colours = fnv(image.convert("RGB").tobytes())
            mask = fnv(numpy.array(image).astype(numpy.uint8).tobytes()) if image.mode in ("1", "L",
                "P") else 0
            inc.write("    {{ {{ {}, {}, {}, {}, {}, {} }}, 0x{:016x}u, 0x{:016x}u }},\n".format(*kind,
                colours, mask))

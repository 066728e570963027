"""Makes tests/decode/golden/orientation_*.inc with Pillow: make_golden_orientation.py (run in this folder)

  orientation_blocks.inc   EXIF blocks, sound and damaged, and the number that Pillow finds in each (1: none)
  orientation_turned.inc   what ImageOps.exif_transpose makes of a made image for each number, for
  test_orientation.c orientation.png, .rgb    a small PNG with the number 6, and its pixels, turned, for
  test_image_reader.c
"""
import random
import struct
import warnings

from PIL import Image, ImageOps

TAG = 0x0112
SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}
#  Types with values that are whole numbers, or no numbers at all: Pillow takes others for numbers too (6.0),
#  and we do not.
TYPES = [3, 3, 3, 3, 4, 6, 8, 9, 13, 1, 2, 7]
HEIGHT, WIDTH = 2, 3


def number_of(block):
    image = Image.new("L", (1, 1))
    image.info["exif"] = block
    try:
        number = image.getexif().get(TAG)
    except Exception:                   # whatever Pillow raises: it cannot read the block
        return 1
    return number if number in range(2, 9) else 1


def entry(generator, order, tag, at):
    """The entry, and the bytes of its value that do not fit into it, which will lie at at."""
    kind = generator.choice(TYPES) if generator.random() < 0.95 else generator.choice([0, 14, 99])
    size = SIZES.get(kind, 1)
    count = generator.choice([1, 1, 1, 1, 0, 2, 3, 9])
    first = generator.choice([1, 2, 3, 4, 5, 6, 7, 8, 9, 0])
    value = b"".join(first.to_bytes(size, "big" if order == ">" else "little") for _ in range(count))
    header = struct.pack(order + "HHI", tag, kind, count)
    if len(value) <= 4:
        return header + value.ljust(4, b"\0"), b""
    return header + struct.pack(order + "I", at), value


def block(generator):
    order = generator.choice("<>")
    count = generator.randint(0, 4)
    first = generator.choice([8, 8, 8, 10])
    data = (b"MM" if order == ">" else b"II") + struct.pack(order + "HI", 42, first)
    data = data.ljust(first, b"\0") + struct.pack(order + "H", count)
    behind, values = first + 2 + 12 * count + 4, b""
    for _ in range(count):
        tag = TAG if generator.random() < 0.6 else generator.choice([0x010f, 0x0131, 0x8769])
        head, value = entry(generator, order, tag, behind + len(values))
        data += head
        values += value
    data += bytes(4) + values
    if generator.random() < 0.3:
        data = bytearray(data)
        for _ in range(generator.randint(1, 3)):
            data[generator.randrange(len(data))] = generator.choice([0, 1, 2, 3, 6, 8, 42, 255])
    if generator.random() < 0.2:
        data = data[:generator.randrange(len(data))]
    return (b"Exif\0\0" if generator.random() < 0.7 else b"") + bytes(data)


def make_blocks():
    generator = random.Random(7)
    with open("golden/orientation_blocks.inc", "w") as file:
        for _ in range(300):
            data = block(generator)
            #  A type that we do not take for a number may come up by damage.
            file.write(f'    {{ {number_of(data)}, {len(data)}, '
                       f'"{"".join(f"{chr(92)}x{byte:02x}" for byte in data)}" }},\n')


def make_turned():
    image = Image.new("L", (WIDTH, HEIGHT))
    image.putdata(range(HEIGHT * WIDTH))
    with open("golden/orientation_turned.inc", "w") as file:
        for number in range(10):
            exif = Image.Exif()
            exif[TAG] = number
            image.info["exif"] = exif.tobytes()
            image._exif = None
            turned = ImageOps.exif_transpose(image)
            file.write(f"    {{ {number}, {turned.height}, {turned.width}, "
                       f"{{ {', '.join(map(str, turned.getdata()))} }} }},\n")


def make_png():
    image = Image.new("RGB", (7, 5))
    image.putdata([(x * 30, y * 50, (x * y * 17) % 256) for y in range(5) for x in range(7)])
    exif = Image.Exif()
    exif[TAG] = 6
    image.save("golden/orientation.png", exif=exif.tobytes())
    with open("golden/orientation.rgb", "wb") as file:
        file.write(ImageOps.exif_transpose(Image.open("golden/orientation.png")).tobytes())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    make_blocks()
    make_turned()
    make_png()

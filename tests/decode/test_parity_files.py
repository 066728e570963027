"""Parity of kinds of files with Pillow: test_parity_files.py PATH-OF-tureen

What a file says about its image, and how odd files are read: each made file runs through `tureen prepare`,
and the pixels must be Pillow's.  Where this Pillow is older than the rule that the server follows, the made
file says which result is right.  Ends with 77 (a skip) where Pillow or NumPy is missing.
"""
import os
import struct
import subprocess
import sys
import tempfile
import warnings
import zlib

import parity_cases

try:
    import numpy
    from PIL import Image, ImageOps, TiffImagePlugin
except ImportError as missing:
    print(f"SKIP: parity with Pillow not tested: {missing}")
    sys.exit(77)

warnings.simplefilter("ignore")
SIDE = 40
PILLOW = tuple(map(int, Image.__version__.split(".")[:2]))
XMP_OF_EVERY_FORMAT = (11, 1)           # the Pillow that looks for the orientation in every format's XMP
failures = []


def expect(condition, text):
    if not condition:
        failures.append(text)
        print("FAIL:", text)


def picture(mode="RGB"):
    y, x = numpy.mgrid[0:SIDE - 10, 0:SIDE]
    pixels = numpy.stack([x * 6, y * 8, (x * 5 + y * 7) % 256], axis=2)
    return Image.fromarray(pixels.astype(numpy.uint8)).convert(mode)


def padded(pixels):
    """As center_crop to SIDE x SIDE."""
    height, width = pixels.shape[:2]
    top, left = (SIDE - height) // 2, (SIDE - width) // 2
    whole = numpy.zeros((SIDE, SIDE, 3), numpy.uint8)
    whole[top:top + height, left:left + width] = pixels
    return whole


def read_all(program, folder, orientation):
    """{name: pixels, or None of a file that is refused}, and what was said of these"""
    files = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    pipeline = [{"op": "decode", "orientation": orientation}, {"op": "center_crop", "size": SIDE},
                {"share": True}]
    with tempfile.TemporaryDirectory() as out:
        said = parity_cases.prepare(program, pipeline, files, out)
        paths = [parity_cases.outputs(out, folder, file, pipeline)[0] for file in files]
        return {os.path.basename(file): numpy.load(path) if os.path.exists(path) else None
                for file, path in zip(files, paths, strict=True)}, said


def write(folder, name, data):
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)


def saved(folder, name, image, *arguments, **options):
    path = os.path.join(folder, name)
    image.save(path, *arguments, **options)
    with open(path, "rb") as file:
        return file.read()


# -- the orientation in XMP

def xmp(number, element=False):
    said = f"<tiff:Orientation>{number}</tiff:Orientation>" if element else ""
    attribute = "" if element else f' tiff:Orientation="{number}"'
    return ('<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-'
            f'ns#"><rdf:Description xmlns:tiff="http://ns.adobe.com/tiff/1.0/"{attribute}>{said}'
            "</rdf:Description></rdf:RDF></x:xmpmeta>").encode()


def exif(number, tag=0x0112):
    block = Image.Exif()
    block[tag] = number
    return block.tobytes()


def chunk(name, content, damage=0):
    return struct.pack(">I", len(content)) + name + content \
        + struct.pack(">I", zlib.crc32(name + content) ^ damage)


def make_jpegs(folder):
    """{name: the right number}"""
    numbers = {}

    def make(name, number, blocks):
        data = saved(folder, name, picture(), "JPEG", quality=95)
        for block in reversed(blocks):
            data = data[:2] + b"\xff\xe1" + struct.pack(">H", len(block) + 2) + block + data[2:]
        write(folder, name, data)
        numbers[name] = number
    prefix = b"http://ns.adobe.com/xap/1.0/\0"
    for number in range(10):
        make(f"attribute{number}.jpg", number, [prefix + xmp(number)])
    make("element.jpg", 6, [prefix + xmp(6, True)])
    make("exif_first.jpg", 3, [prefix + xmp(6), exif(3)])
    make("exif_upright.jpg", 1, [prefix + xmp(6), exif(1)])
    make("exif_of_other_tags.jpg", 6, [exif("a", 0x010F), prefix + xmp(6)])
    make("last_packet.jpg", 8, [prefix + xmp(6), prefix + xmp(8)])
    make("other_prefix.jpg", 1, [b"http://ns.adobe.com/xap/1.1/\0" + xmp(6)])
    make("second_pattern.jpg", 5, [prefix + b"tiff:Orientation='6' tiff:Orientation=\"x tiff:Orientation>5"])
    make("cut_pattern.jpg", 1, [prefix + b'tiff:Orientation="'])
    make("no_packet.jpg", 1, [prefix])
    return numbers


def make_pngs(folder):
    numbers = {}

    def make(name, number, before, behind=b""):
        data = saved(folder, name, picture(), "PNG")
        write(folder, name, data[:33] + before + data[33:-12] + behind + data[-12:])
        numbers[name] = number
    key, deflated = b"XML:com.adobe.xmp\0", zlib.compress(xmp(7))
    make("plain.png", 6, chunk(b"iTXt", key + b"\0\0\0\0" + xmp(6)))
    make("languages.png", 6, chunk(b"iTXt", key + b"\0\0en\0packet\0" + xmp(6, True)))
    make("deflated.png", 7, chunk(b"iTXt", key + b"\1\0\0\0" + deflated))
    make("deflated_cut.png", 7, chunk(b"iTXt", key + b"\1\0\0\0" + deflated[:-4]))
    make("unknown_method.png", 1, chunk(b"iTXt", key + b"\1\1\0\0" + deflated))
    make("damaged.png", 1, chunk(b"iTXt", key + b"\1\0\0\0" + b"\xff" + deflated))
    make("text.png", 5, chunk(b"tEXt", key + xmp(5)))
    make("deflated_text.png", 7, chunk(b"zTXt", key + b"\0" + deflated))
    make("behind.png", 6, b"", chunk(b"iTXt", key + b"\0\0\0\0" + xmp(6)))
    make("last_text.png", 2, chunk(b"tEXt", key + xmp(5)), chunk(b"tEXt", key + xmp(2)))
    make("other_key.png", 1, chunk(b"iTXt", b"XML:com.adobe.xm\0\0\0\0\0" + xmp(6)))
    make("no_text.png", 1, chunk(b"iTXt", key + b"\0"))
    make("exif_first.png", 3, chunk(b"iTXt", key + b"\0\0\0\0" + xmp(6)), chunk(b"eXIf", exif(3)[6:]))
    digits = exif(8).hex()
    profile = f"\nexif\n{len(exif(8)):8}\n{digits[:72]}\n{digits[72:]}\n".encode()
    key = b"Raw profile type exif\0"
    make("profile.png", 8, chunk(b"tEXt", key + profile))
    make("deflated_profile.png", 8, chunk(b"zTXt", key + b"\0" + zlib.compress(profile)))
    make("exif_before_profile.png", 3, chunk(b"tEXt", key + profile), chunk(b"eXIf", exif(3)[6:]))
    make("profile_before_packet.png", 8, chunk(b"tEXt", key + profile)
         + chunk(b"tEXt", b"XML:com.adobe.xmp\0" + xmp(6)))
    return numbers


def make_others(folder, told):
    numbers = {}
    if "WebP" in told:
        for name, number, options in (("packet.webp", 6, dict(xmp=xmp(6))),
                                      ("exif_first.webp", 3, dict(xmp=xmp(6), exif=exif(3)))):
            picture().save(os.path.join(folder, name), "WEBP", lossless=True, **options)
            numbers[name] = number
    if "TIFF" in told:
        for name, number, tags in (("packet.tif", 6, {700: xmp(6)}),
                                   ("tag_first.tif", 3, {700: xmp(6), 274: 3})):
            info = TiffImagePlugin.ImageFileDirectory_v2()
            for tag, value in tags.items():
                info[tag] = value
                info.tagtype[tag] = 1 if tag == 700 else 3
            picture().save(os.path.join(folder, name), "TIFF", tiffinfo=info)
            numbers[name] = number
    return numbers


def turned(path, number):
    """By number, from the stored pixels."""
    with Image.open(path) as image:
        method = {2: Image.FLIP_LEFT_RIGHT, 3: Image.ROTATE_180, 4: Image.FLIP_TOP_BOTTOM, 5: Image.TRANSPOSE,
                  6: Image.ROTATE_270, 7: Image.TRANSVERSE, 8: Image.ROTATE_90}.get(number)
        if image.format == "TIFF" and ("tag_first" in path or PILLOW >= XMP_OF_EVERY_FORMAT):
            method = None                       # Pillow has turned it
        image = image.convert("RGB")
        return numpy.array(image.transpose(method) if method is not None else image)


def test_orientation(program, folder, told):
    numbers = make_jpegs(folder) | make_pngs(folder) | make_others(folder, told)
    ours, said = read_all(program, folder, True)
    for name, number in numbers.items():
        path = os.path.join(folder, name)
        expect(ours[name] is not None and (ours[name] == padded(turned(path, number))).all(),
               f"orientation of {name}: not {number} {said}")
        if name.endswith(".png") or PILLOW >= XMP_OF_EVERY_FORMAT:
            with Image.open(path) as image:
                theirs = numpy.array(ImageOps.exif_transpose(image).convert("RGB"))
            expect((turned(path, number) == theirs).all(), f"Pillow's orientation of {name}: not {number}")
    untouched, _ = read_all(program, folder, False)
    for name in ("attribute6.jpg", "plain.png", "profile.png", "packet.webp", "packet.tif"):
        expect(name not in numbers or PILLOW >= XMP_OF_EVERY_FORMAT
               or (untouched[name] == padded(turned(os.path.join(folder, name), 1))).all(),
               f"{name} is turned where nobody asked for it")


# -- damage in PNG

def damaged_pngs():
    """By name: a PNG's bytes; None where it must be read here, else what the refusal says; and whether Pillow
    reads it.  And the pixels of all of them."""
    begin = b"\x89PNG\r\n\x1a\n"
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    row = 1 + 3 * SIDE
    data = b"".join(b"\0" + bytes((number * 5 + place) % 256 for place in range(3 * SIDE))
                    for number in range(SIDE))
    packed, start, end = zlib.compress(data), begin + chunk(b"IHDR", header), chunk(b"IEND", b"")
    image, half = chunk(b"IDAT", packed), len(packed) // 2
    flipped = packed[:half] + bytes([packed[half] ^ 1]) + packed[half + 1:]
    unknown, text = chunk(b"QuUX", b"x" * 5000), chunk(b"tEXt", b"a\0b")
    wrong_text, few, cut = chunk(b"tEXt", b"a\0b", 1), "Not enough image data", "ends before the image does"
    read = {"good": start + image + end, "critical": start + unknown * 3 + image + end,
            "critical_text": start + unknown + text + unknown + image + end,
            "critical_behind": start + image + unknown + end,
            "text_sum_behind": start + image + wrong_text + end,
            "sum": start + chunk(b"IDAT", packed, 1) + end,
            "sum_of_first": start + chunk(b"IDAT", packed[:half], 1) + chunk(b"IDAT", packed[half:]) + end,
            "sum_of_last": start + chunk(b"IDAT", packed[:half]) + chunk(b"IDAT", packed[half:], 1),
            "end_sum": start + image + chunk(b"IEND", b"", 1), "no_end": start + image,
            "end_cut": start + image + end[:-6], "behind_end": start + image + end + b"x"}
    refused = {"critical_sum": start + chunk(b"QuUX", b"x", 1) + image + end,
               "header_sum": begin + chunk(b"IHDR", header, 1) + image + end,
               "palette_sum": start + chunk(b"PLTE", b"abc", 1) + image + end,
               "text_sum": start + wrong_text + image + end,
               "flipped": start + chunk(b"IDAT", flipped, 1) + end,
               "zlib_sum": start + chunk(b"IDAT", packed[:-1] + bytes([packed[-1] ^ 1])) + end,
               "cut": start + image[:-half]}
    files = {name: (data, None, True) for name, data in read.items()}
    files.update({name: (data, "PNG", False) for name, data in refused.items()})
    files["text_cut_behind"] = (start + image + text[:-6], None, False)
    files["cut_in_sum"] = (start + image[:-2], cut, True)
    files["cut_behind_rows"] = (start + image[:-7], cut, True)
    files["zlib_cut"] = (start + chunk(b"IDAT", packed[:-4]) + end, few, True)
    files["rows"] = (start + chunk(b"IDAT", zlib.compress(data[:-2 * row])) + end, few, True)
    return files, numpy.frombuffer(data, numpy.uint8).reshape(SIDE, row)[:, 1:].reshape(SIDE, SIDE, 3)


def test_damaged_png(program, folder):
    """The table of docs/decoding.md: what it says of here and of Pillow, whichever Pillow is installed."""
    files, pixels = damaged_pngs()
    for name, (data, _, _) in files.items():
        write(folder, name + ".png", data)
    ours, said = read_all(program, folder, False)
    for name, (_, reason, pillow_reads) in files.items():
        file = name + ".png"
        if reason is None:
            expect(ours[file] is not None and (ours[file] == pixels).all(),
                   f"{file}: other pixels, or {said}")
        else:
            expect(ours[file] is None and any(file in line and reason in line for line in said.splitlines()),
                   f"{file}: not refused because of '{reason}': {said}")
        try:
            with Image.open(os.path.join(folder, file)) as image:
                theirs = numpy.array(image.convert("RGB"))
        except (OSError, SyntaxError):
            theirs = None
        expect((theirs is not None) == pillow_reads,
               f"Pillow {'refuses' if theirs is None else 'reads'} {file}")
        expect(theirs is None or name == "rows" or (theirs == pixels).all(), f"Pillow's pixels of {file}")


# -- kinds that are read without a library

def bmp(bits, pixels, width, height, header=40, compression=0, palette=(), masks=b"", colours=None, gap=0,
        declared=True):
    """By hand what Pillow does not write; pixels: the coded bytes."""
    table = b"".join(bytes(colour)[::-1] + (b"" if header == 12 else b"\0") for colour in palette)
    if header == 12:
        head = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        count = len(palette) if colours is None else colours
        head = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, compression, 0, 0, 0, count, 0)
        inside = masks if header > 40 else b""
        head = struct.pack("<I", header) + head[4:] + inside + bytes(header - 40 - len(inside))
        masks = b"" if header > 40 else masks
    offset = 14 + len(head) + len(masks) + len(table) + gap
    start = b"BM" + struct.pack("<IHHI", 0, 0, 0, offset if declared else 0)
    return start + head + masks + table + bytes(gap) + pixels


def rows_of(bits, width, height, seed):
    generator = numpy.random.default_rng(seed)
    stride = (width * bits + 31) // 32 * 4
    return generator.integers(0, 256, stride * height, numpy.uint8).tobytes()


def bmp_files():
    """{name: bytes}"""
    files, colours = {}, [(number * 37 % 256, number * 91 % 256, number * 13 % 256) for number in range(256)]
    for bits in (1, 4, 8):
        for header in (12, 40, 64, 108, 124):
            files[f"palette{bits}_{header}"] = bmp(bits, rows_of(bits, 37, 21, bits), 37, 21, header,
                                                   palette=colours[:1 << bits])
    files["one_grey"] = bmp(1, rows_of(1, 37, 21, 1), 37, 21, palette=[(0, 0, 0), (255, 255, 255)])
    files["grey"] = bmp(8, rows_of(8, 37, 21, 1), 37, 21, palette=[(number,) * 3 for number in range(256)])
    files["no_count"] = bmp(4, rows_of(4, 37, 21, 1), 37, 21, palette=colours[:16], colours=0)
    files["gap"] = bmp(8, rows_of(8, 37, 21, 1), 37, 21, palette=colours, gap=10)
    files["no_offset"] = bmp(24, rows_of(24, 37, 21, 1), 37, 21, declared=False)
    for bits in (16, 24, 32):
        for header in (12, 40, 108):
            files[f"colour{bits}_{header}"] = bmp(bits, rows_of(bits, 37, 21, bits), 37, 21, header)
        files[f"top_down{bits}"] = bmp(bits, rows_of(bits, 37, 21, bits), 37, -21)
    layouts = {32: [(0xFF0000, 0xFF00, 0xFF, 0), (0xFF000000, 0xFF0000, 0xFF00, 0),
                    (0xFF000000, 0xFF0000, 0xFF00, 0xFF), (0xFF, 0xFF00, 0xFF0000, 0xFF000000),
                    (0xFF0000, 0xFF00, 0xFF, 0xFF000000), (0, 0, 0, 0), (1, 2, 4, 8)],
               24: [(0xFF0000, 0xFF00, 0xFF, 0), (0xFF, 0xFF00, 0xFF0000, 0)],
               16: [(0xF800, 0x7E0, 0x1F, 0), (0x7C00, 0x3E0, 0x1F, 0), (0xF00, 0xF0, 0xF, 0)]}
    for bits, masks in layouts.items():
        for number, mask in enumerate(masks):
            for header in (40, 108):
                packed = struct.pack("<4I", *mask)[:12 if header == 40 else 16]
                files[f"masks{bits}_{number}_{header}"] = bmp(bits, rows_of(bits, 37, 21, number), 37, 21,
                                                              header, 3, masks=packed)
    run8 = b"\5\7\0\3\1\2\3\0\2\x0b\0\0" + b"\x0a\5\0\0" + b"\3\1\7\2\0\0" + b"\0\1"
    files["rle8"] = bmp(8, run8, 10, 3, compression=1, palette=colours)
    files["rle8_grey"] = bmp(8, run8, 10, 3, compression=1, palette=[(number,) * 3 for number in range(256)])
    files["rle8_overlong"] = bmp(8, b"\x0f\7\0\0\x0a\5\0\0\x0a\6", 10, 3, compression=1, palette=colours)
    files["rle8_short"] = bmp(8, b"\5\7\0\0\0\1", 10, 3, compression=1, palette=colours)
    files["rle8_cut"] = bmp(8, b"\5\7\0\x09\1", 10, 3, compression=1, palette=colours)
    run4 = b"\5\x12\0\4\x34\x56\1\x70\0\0" + b"\x0a\x45\0\0" + b"\x0a\x98"
    files["rle4"] = bmp(4, run4, 10, 3, compression=2, palette=colours[:16])
    jump8 = b"\0\2\3\1" + b"\4\7\0\0" + b"\0\2\0\0" + b"\x0a\5"
    files["rle8_jump"] = bmp(8, jump8, 10, 3, compression=1, palette=colours)
    odd4 = b"\0\5\x12\x34\x50\0\5\x12\0\0" + b"\x0a\x45\0\0" + b"\x0a\x98"
    files["rle4_odd"] = bmp(4, odd4, 10, 3, compression=2, palette=colours[:16])
    for header in (52, 56):
        files[f"header{header}"] = bmp(16, rows_of(16, 37, 21, 3), 37, 21, header, 3,
                                       masks=struct.pack("<4I", 0xF800, 0x7E0, 0x1F, 0)[:header - 40])
    files["jpeg_inside"] = bmp(24, b"", 10, 3, compression=4)
    files["cut"] = files["colour24_40"][:-5]
    files["cut_palette"] = files["palette8_40"][:200]
    files["bits2"] = bmp(2, rows_of(2, 9, 9, 1), 9, 9, palette=colours[:4])
    files["last_padding"] = files["colour24_40"][:-1]
    return {name + ".bmp": data for name, data in files.items()}


def pnm_files():
    generator = numpy.random.default_rng(4)
    data = generator.integers(0, 256, 4000, numpy.uint8).tobytes()
    few = bytes(byte % 101 for byte in data)
    wide = b"".join(struct.pack(">H", byte * 13 % 1001) for byte in data)
    text = " ".join(str(byte) for byte in few).encode()
    files = {
        "p4": b"P4\n13 9\n" + data[:18], "p4_cut": b"P4 13 9\n" + data[:17],
        "p5": b"P5\n13 9\n255\n" + data[:117], "p5_few": b"P5 13 9 100\n" + few[:117],
        "p5_most": b"P5 13 9 3\n" + data[:117], "p5_wide": b"P5 13 9 1000\n" + wide[:234],
        "p5_widest": b"P5 13 9 65535\n" + data[:234], "p5_cut": b"P5 13 9 255\n" + data[:116],
        "p5_wide_cut": b"P5 13 9 1000\n" + wide[:233],
        "p6": b"P6\n# made\n13 9\n255\n" + data[:351], "p6_few": b"P6 13 9 100\n" + few[:351],
        "p6_wide": b"P6 13 9 1000\n" + wide[:702], "p6_widest": b"P6 13 9 65535\n" + data[:702],
        "p6_behind": b"P6 13 9 255\n" + data, "p6_cut": b"P6 13 9 255\n" + data[:350],
        "p1": b"P1\n# made\n4 3\n1 0 1 1\n0101#c\n1 0 0 1\n", "p1_cut": b"P1 4 3 1 0 1 1",
        "p1_two": b"P1 4 1 1 0 2 1", "p2": b"P2\n4 3\n100\n" + text, "p2_wide": b"P2 3 1 1000 7 500 1000",
        "p2_more": b"P2 3 1 10 7 5 11", "p2_comment": b"P2 3 1 100 7 #x\n5 1#y\n1\n",
        "p2_cut": b"P2 3 1 9 7 5",
        "p3": b"P3 4 3 100 " + text, "p3_wide": b"P3 1 1 1000 7 500 1000", "zero": b"P5 3 1 0 123",
        "largest": b"P5 3 1 65536 123123", "letters": b"P5 3x 1 255 123", "nothing": b"P6 ",
    }
    return {name + ".ppm": data for name, data in files.items()}


def with_blocks(data, size):
    return b"".join(bytes([len(data[at:at + size])]) + data[at:at + size]
                    for at in range(0, len(data), size)) + b"\0"


def gif(codes, width=10, height=8, screen=None, at=(0, 0), flags=0, palette=None, local=None, bits=2,
        transparent=None, behind=b";"):
    """codes: (code, its bits)"""
    held, held_bits = 0, 0
    for code, count in codes:
        held, held_bits = held | code << held_bits, held_bits + count
    packed = held.to_bytes((held_bits + 7) // 8, "little")
    control = b"" if transparent is None else b"!\xf9\4\1\0\0" + bytes([transparent]) + b"\0"
    colours = [bytes(sum(colours, ())) if colours else b"" for colours in (palette, local)]
    size = [0x80 | (len(table) // 3).bit_length() - 2 if table else 0 for table in colours]
    return (b"GIF89a" + struct.pack("<HHBBB", *(screen or (width, height)), size[0], 1, 0) + colours[0]
            + b"!\xfe\4made\0" + control + b"," + struct.pack("<HHHHB", *at, width, height, flags | size[1])
            + colours[1] + bytes([bits]) + with_blocks(packed, 7) + behind)


def plain_codes(width, height, bits, end=True):
    """Values with a clear behind each two, so that codes keep their length."""
    codes = []
    for number in range(width * height):
        if number % 2 == 0:
            codes.append((1 << bits, bits + 1))
        codes.append((number * 7 % 5 % (1 << bits), bits + 1))
    return codes + ([((1 << bits) + 1, bits + 1)] if end else [])


def gif_files(folder):
    colours = [(number * 37 % 256, number * 91 % 256, number * 13 % 256) for number in range(256)]
    grey = [(number,) * 3 for number in range(4)]
    codes = plain_codes(10, 8, 2)
    files = {
        "global": gif(codes, palette=colours[:4]), "local": gif(codes, local=colours[4:8]),
        "both": gif(codes, palette=colours[:4], local=colours[4:8]), "neither": gif(codes),
        "grey": gif(codes, palette=grey), "grey_local": gif(codes, palette=colours[:4], local=grey),
        "interlaced": gif(codes, palette=colours[:4], flags=64),
        "screen": gif(codes, palette=colours[:4], screen=(20, 17), at=(3, 5)),
        "transparent": gif(codes, palette=colours[:4], screen=(20, 17), at=(3, 5), transparent=2),
        "outside": gif(codes, palette=colours[:4], screen=(5, 17), at=(3, 11)),
        "no_end": gif(plain_codes(10, 8, 2, False), palette=colours[:4], behind=b""),
        "early_end": gif(plain_codes(10, 7, 2), palette=colours[:4]),
        "bad_code": gif([(4, 3), (7, 3)] + codes, palette=colours[:4]),
        "no_picture": gif(codes)[:27] + b";", "cut": gif(codes, palette=colours[:4])[:-20],
    }
    image = picture()
    for name, options in (("written", {}), ("written_interlaced", dict(interlace=1)),
                          ("animated", dict(save_all=True, append_images=[image.rotate(180)]))):
        files[name] = saved(folder, "made.gif", image, "GIF", **options)
    noise = numpy.random.default_rng(9).integers(0, 256, (30, 40), numpy.uint8)
    files["noise"] = saved(folder, "made.gif", Image.fromarray(noise).convert("P"), "GIF")
    files["flat"] = saved(folder, "made.gif", Image.new("P", (40, 40), 7), "GIF")
    os.remove(os.path.join(folder, "made.gif"))
    return {name + ".gif": data for name, data in files.items()}


#  What Pillow 9.4 refuses or reads otherwise, and 13 as the server.
OLD_FAULTS = {"rle8_jump.bmp", "rle4_odd.bmp", "header52.bmp", "header56.bmp", "p2_cut.ppm"}


def compare_files(program, folder, files):
    for name, data in files.items():
        write(folder, name, data)
    ours, said = read_all(program, folder, False)
    for name in files:
        try:
            with Image.open(os.path.join(folder, name)) as image:
                theirs = padded(numpy.array(image.convert("RGB")))
            reason = ""
        except Exception as refused:        # whatever Pillow raises: it refuses the file
            theirs = None
            reason = refused
        if PILLOW < (10, 1) and name in OLD_FAULTS:
            continue
        if ours[name] is None or theirs is None:
            expect((ours[name] is None) == (theirs is None),
                   f"{name}: refused by {'us' if ours[name] is None else f'Pillow: {reason}'} {said}")
        else:
            expect((ours[name] == theirs).all(), f"{name}: other pixels")


def test_bmp(program, folder):
    compare_files(program, folder, bmp_files())


def test_pnm(program, folder):
    compare_files(program, folder, pnm_files())


def test_gif(program, folder):
    compare_files(program, folder, gif_files(folder))


def main():
    program = sys.argv[1]
    told = subprocess.run([program, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    tests = [(test_orientation, (told,)), (test_damaged_png, ()), (test_bmp, ()), (test_pnm, ()),
             (test_gif, ())]
    for test, arguments in tests:
        with tempfile.TemporaryDirectory() as folder:
            test(program, folder, *arguments)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

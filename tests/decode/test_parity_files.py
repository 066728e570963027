"""Parity of kinds of files with Pillow: test_parity_files.py PATH-OF-tureen

What a file says about its image, and how odd files are read: each made file runs through `tureen prepare`,
and the pixels must be Pillow's.  Where this Pillow is older than the rule that the server follows, the made file
says which result is right.  Ends with 77 (a skip) where Pillow or NumPy is missing.
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
    from PIL import Image, ImageOps
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
            info = Image.core and __import__("PIL.TiffImagePlugin").TiffImagePlugin.ImageFileDirectory_v2()
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


def main():
    program = sys.argv[1]
    told = subprocess.run([program, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    tests = [(test_orientation, (told,))]
    for test, arguments in tests:
        with tempfile.TemporaryDirectory() as folder:
            test(program, folder, *arguments)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""Parity of decode/ with Pillow and torchvision: test_parity.py PATH-OF-tureen [all|short]

Every kind of image runs through many pipelines, by `tureen prepare` and by reference.py.  Results must be
equal where pixels are not resampled, and may differ by 1 of 255 where they are (measured: 0).  Damaged files:
both must refuse what is cut short, and what both accept must look the same.  Then torchvision itself, where
it is installed.  `short`, as ctest runs it: each kind of JPEG runs through each pipeline in one size, and the
sizes take turns; each kind of PNG and WebP, which are read whole whatever follows, through every third
pipeline; fewer photographs and damaged files.  Ends with 77 (a skip) where Pillow or NumPy is missing.  With
another Python's Pillow: tests/parity.sh.
"""
import glob
import io
import json
import os
import random
import struct
import sys
import subprocess
import tempfile
import warnings
import zlib

import parity_cases

try:
    import numpy
    from PIL import Image, features
    import horizontal_first  # noqa: F401
    import reference
except ImportError as missing:
    print(f"SKIP: parity with Pillow not tested: {missing}")
    sys.exit(77)

warnings.simplefilter("ignore")         # of transparent palettes
SHORT = sys.argv[2:] == ["short"]
PHOTOS_MAX = 12 if SHORT else 40
PILLOW = tuple(map(int, Image.__version__.split(".")[:2]))
failures = []
worst = {"max": 0.0, "compared": 0, "refused": 0}


def expect(condition, text):
    if not condition:
        failures.append(text)
        print("FAIL:", text)


def picture(width, height, seed):
    """Smooth colours, hard edges and noise: what shows a wrong filter, a shifted box or swapped channels."""
    generator = numpy.random.default_rng(seed)
    y, x = numpy.mgrid[0:height, 0:width]
    waves = [127 + 120 * numpy.sin(x / (3.0 + 9 * c) + y / (17.0 - 4 * c) + c) for c in range(3)]
    pixels = numpy.stack(waves, axis=2)
    pixels[(x // 13 + y // 7) % 5 == 0] = (250, 10, 120)
    pixels += generator.normal(0, 12, pixels.shape)
    return Image.fromarray(numpy.clip(pixels, 0, 255).astype(numpy.uint8))


def patched_ycck(path):
    """Pillow writes plain CMYK; with its Adobe marker's transform set to 2 the same data means YCCK."""
    data = bytearray(open(path, "rb").read())
    at = data.index(b"Adobe") + 11
    assert data[at] == 0
    data[at] = 2
    open(path, "wb").write(data)


JPEGS = {
    "444": dict(quality=90, subsampling=0), "422": dict(quality=85, subsampling=1),
    "420": dict(quality=75, subsampling=2), "progressive": dict(quality=80, progressive=True),
    "worst": dict(quality=5), "optimized": dict(quality=95, optimize=True),
    "grey": dict(mode="L"), "grey_progressive": dict(mode="L", progressive=True),
    "cmyk": dict(mode="CMYK"), "ycck": dict(mode="CMYK", quality=60), "turned": dict(orientation=6),
    "mirrored": dict(orientation=5, subsampling=2),
}
PNGS = {
    "rgb": {}, "rgba": dict(mode="RGBA"), "l": dict(mode="L"), "la": dict(mode="LA"), "one": dict(mode="1"),
    "palette": dict(mode="P"), "transparent": dict(mode="P", transparency=3),
    "palette4": dict(mode="P", colors=13, bits=4), "sixteen": dict(mode="I;16"),
    "keyed": dict(transparency=(250, 10, 120)), "grey_keyed": dict(mode="L", transparency=9),
}


WEBPS = {
    "lossy": dict(quality=80), "worst": dict(quality=1), "lossless": dict(lossless=True),
    "alpha": dict(mode="RGBA", quality=70), "alpha_lossless": dict(mode="RGBA", lossless=True),
    "turned": dict(orientation=6, quality=90), "animated": dict(frames=3), "grey": dict(mode="L"),
}


#  photometric, bits, samples and more of what save_tiff takes; or what Pillow itself writes
TIFFS = {
    "white1": dict(photometric=0, bits=1), "black1": dict(bits=1, tile=16), "black2": dict(bits=2),
    "white4": dict(photometric=0, bits=4), "black4": dict(bits=4, tile=16), "grey": dict(),
    "white": dict(photometric=0, order=">"), "grey16": dict(bits=16), "grey16_big": dict(bits=16, order=">"),
    "grey16_tiles": dict(bits=16, tile=32, compression=8, predictor=2),
    "rgb": dict(photometric=2, samples=3), "rgb_tiles": dict(photometric=2, samples=3, tile=48),
    "rgb_deflate": dict(photometric=2, samples=3, compression=8, predictor=2, order=">"),
    "rgb16": dict(photometric=2, samples=3, bits=16),
    "rgb16_big": dict(photometric=2, samples=3, bits=16, order=">"),
    "rgba16_tiles": dict(photometric=2, samples=4, bits=16, extra=2, tile=16, compression=8, order=">"),
    "planes": dict(photometric=2, samples=3, planes=2, order=">"),
    "planes_tiles": dict(photometric=2, samples=3, planes=2, tile=32, compression=8, predictor=2),
    "alpha": dict(photometric=2, samples=4, extra=2), "no_alpha": dict(photometric=2, samples=4, extra=0),
    "unsaid_alpha": dict(photometric=2, samples=4),
    "associated": dict(photometric=2, samples=4, extra=1, compression=8),
    "palette1": dict(photometric=3, bits=1), "palette2": dict(photometric=3, bits=2, order=">"),
    "palette4": dict(photometric=3, bits=4, tile=32), "palette8": dict(photometric=3, compression=8),
    "jpeg_tiles": dict(photometric=6, samples=3, tile=32, compression=7),
    "jpeg_strips": dict(photometric=6, samples=3, compression=7),
    "jpeg_grey_tiles": dict(tile=16, compression=7),
    "lzw": dict(pillow="RGB", compression="tiff_lzw"), "packbits": dict(pillow="L", compression="packbits"),
    "lzw_palette": dict(pillow="P", compression="tiff_lzw"), "grey_alpha": dict(pillow="LA"),
    "lzw_grey_alpha": dict(pillow="LA", compression="tiff_lzw"),
    "fax": dict(pillow="1", compression="group4"),
    "jpeg": dict(pillow="RGB", compression="jpeg"), "jpeg_grey": dict(pillow="L", compression="jpeg"),
    "jpeg_ycc": dict(pillow="YCbCr", compression="jpeg"),
}


def save_jpeg(image, path, options):
    options = dict(options)
    image = image.convert(options.pop("mode", "RGB"))
    orientation = options.pop("orientation", 0)
    if orientation:
        exif = Image.Exif()
        exif[0x0112] = orientation
        options["exif"] = exif
    image.save(path, "JPEG", **options)


def save_png(image, path, options):
    options = dict(options)
    mode, colors = options.pop("mode", "RGB"), options.pop("colors", 256)
    if mode == "P":
        image = image.quantize(colors)
    elif mode == "I;16":
        image = Image.fromarray(numpy.asarray(image.convert("L")).astype(numpy.uint16) * 3)
    else:
        image = image.convert(mode)
        if mode in ("RGBA", "LA"):
            image.putalpha(image.convert("L"))
    image.save(path, "PNG", compress_level=1, **options)


def save_webp(image, path, options):
    options = dict(options)
    image = image.convert(options.pop("mode", "RGB"))
    if image.mode == "RGBA":
        image.putalpha(image.convert("L"))
    orientation, frames = options.pop("orientation", 0), options.pop("frames", 1)
    if orientation:
        exif = Image.Exif()
        exif[0x0112] = orientation
        options["exif"] = exif
    if frames > 1:
        options.update(save_all=True, append_images=[image.rotate(90 * turn) for turn in range(1, frames)])
    image.save(path, "WEBP", **options)


def tiff_block(block, options):
    """The bytes of a strip or tile."""
    bits, compression = options.get("bits", 8), options.get("compression", 1)
    if compression == 7:
        stream = io.BytesIO()
        Image.fromarray(block[..., 0] if block.shape[2] == 1 else block).save(stream, "JPEG")
        return stream.getvalue()
    if options.get("predictor"):
        block = numpy.concatenate([block[:, :1], block[:, 1:] - block[:, :-1]], axis=1)
    if bits < 8:
        units = numpy.unpackbits((block[..., 0] >> (8 - bits)).astype(numpy.uint8)[..., None], axis=2)
        data = numpy.packbits(units[:, :, 8 - bits:].reshape(len(block), -1), axis=1).tobytes()
    else:
        data = block.astype(f"{options.get('order', '<')}u{bits // 8}").tobytes()
    return zlib.compress(data) if compression == 8 else data


def tiff_blocks(pixels, options):
    tile, (height, width), blocks = options.get("tile", 0), pixels.shape[:2], []
    block_height, block_width = (tile, tile) if tile else (8, width)
    for plane in numpy.split(pixels, pixels.shape[2], axis=2) if options.get("planes") == 2 else [pixels]:
        for top in range(0, height, block_height):
            for left in range(0, width, block_width):
                block = plane[top:top + block_height, left:left + block_width]
                if tile:
                    block = numpy.pad(block, ((0, tile - block.shape[0]), (0, tile - block.shape[1]), (0, 0)))
                blocks.append(tiff_block(block, options))
    return blocks, {322: [tile], 323: [tile]} if tile else {278: [block_height]}


def save_tiff(image, path, options):
    """By hand what Pillow does not write: any values will do."""
    options = dict(options)
    if "pillow" in options:
        image.convert(options.pop("pillow")).save(path, "TIFF", **options)
        return
    bits, samples, order = options.get("bits", 8), options.get("samples", 1), options.get("order", "<")
    photometric, tile = options.get("photometric", 1), options.get("tile", 0)
    grey = numpy.asarray(image.convert("L")).astype(numpy.uint16)
    pixels = numpy.asarray(image.convert("RGBA" if samples == 4 else "RGB")).astype(numpy.uint16)
    pixels = pixels[..., :samples]
    if options.get("compression") != 7:
        pixels[..., -1] = numpy.where(grey % 3, grey, 0)
    pixels = pixels.astype(numpy.uint8) if bits <= 8 else pixels * (3 if samples == 1 else 250)
    blocks, tags = tiff_blocks(pixels, options)
    offsets = [8 + sum(map(len, blocks[:number])) for number in range(len(blocks))]
    tags.update({256: [image.size[0]], 257: [image.size[1]], 258: [bits] * samples,
                 259: [options.get("compression", 1)], 262: [photometric],
                 274: [options.get("orientation", 1)], 277: [samples], 284: [options.get("planes", 1)],
                 324 if tile else 273: offsets, 325 if tile else 279: list(map(len, blocks))})
    if options.get("predictor"):
        tags[317] = [2]
    if photometric == 3:
        tags[320] = [number * 7919 % 65536 for number in range(3 << bits)]
    if "extra" in options:
        tags[338] = [options["extra"]]
    body = b"".join(blocks)
    body += b"\0" * (len(body) % 2)
    directory, behind = struct.pack(order + "H", len(tags)), b""
    behind_at = 8 + len(body) + 2 + 12 * len(tags) + 4
    for tag, values in sorted(tags.items()):
        letter = "I" if tag in (273, 279, 324, 325) else "H"
        data = struct.pack(f"{order}{len(values)}{letter}", *values)
        if len(data) > 4:
            behind, data = behind + data, struct.pack(order + "I", behind_at + len(behind))
        directory += struct.pack(order + "HHI", tag, 4 if letter == "I" else 3, len(values))
        directory += data.ljust(4, b"\0")
    with open(path, "wb") as file:
        file.write((b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", 8 + len(body)) + body
                   + directory + bytes(4) + behind)


def reads(program, name, feature):
    """Whether this build and this Pillow both read it."""
    told = subprocess.run([program, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    return name in told and features.check(feature)


def make_files(folder, sizes, webps=()):
    """{size: paths}"""
    made = {}
    for number, (width, height) in enumerate(sizes):
        image = picture(width, height, number)
        for kind, options in JPEGS.items():
            path = f"{folder}/{kind}_{width}x{height}.jpg"
            save_jpeg(image, path, options)
            if kind == "ycck":
                patched_ycck(path)
            made.setdefault((width, height), []).append(path)
        for kind, options in PNGS.items():
            path = f"{folder}/{kind}_{width}x{height}.png"
            save_png(image, path, options)
            made[(width, height)].append(path)
        for kind in webps if number % 2 else ():            # every other size is enough
            path = f"{folder}/{kind}_{width}x{height}.webp"
            save_webp(image, path, WEBPS[kind])
            made[(width, height)].append(path)
    return made


def compare(name, ours, theirs, resampled):
    expect(ours.shape == theirs.shape and ours.dtype == theirs.dtype,
           f"{name}: {ours.dtype} {ours.shape} for {theirs.dtype} {theirs.shape}")
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return
    worst["compared"] += 1
    if ours.tobytes() == theirs.tobytes():
        return
    difference = numpy.abs(ours.astype(float) - theirs.astype(float)).max()
    worst["max"] = max(worst["max"], difference)
    expect(resampled and ours.dtype == numpy.uint8 and difference <= 1, f"{name}: differs by {difference}")


def check(program, pipeline, resampled, files, key=(0, 0, 0), masks=None):
    """One run of `tureen prepare` on all files.  Returns how often (we, Pillow) accepted, and how often
    not."""
    counts = {}
    root = os.path.dirname(files[0]) if len(files) == 1 else os.path.commonpath(files)
    with tempfile.TemporaryDirectory() as out:
        more = ("--field", f"mask=mask:{masks}") if masks else ()
        parity_cases.prepare(program, pipeline, files, out, key, more)
        for number, file in enumerate(files):
            paths = parity_cases.outputs(out, root, file, pipeline)
            sample, source = [file], [("image", False)]
            if masks:
                sample.append(os.path.join(masks, os.path.splitext(os.path.relpath(file, root))[0] + ".png"))
                source.append(("mask", True))
            try:
                theirs = reference.run(sample, pipeline, (key[0], key[1], key[2] + number), source)[1]
            except Exception:               # whatever Pillow raises: it refuses the file
                theirs = None
            accepted = os.path.exists(paths[0]), theirs is not None
            counts[accepted] = counts.get(accepted, 0) + 1
            if accepted == (True, True):
                for path, array in zip(paths, theirs, strict=True):
                    compare(f"{os.path.basename(path)} {json.dumps(pipeline)} key {key}", numpy.load(path),
                            array, resampled)
            else:
                worst["refused"] += 1
    return counts


def taking_turns(made, number):
    """Of each kind of image that has its turn the one of a size: with the pipeline's number the sizes take
    turns, and each kind begins with another one."""
    kinds = {}
    for files in made.values():
        for file in files:
            kinds.setdefault(os.path.basename(file).rpartition("_")[0] + file[-4:], []).append(file)
    return [files[(number // (1 if kind.endswith(".jpg") else 3) + at) % len(files)]
            for at, (kind, files) in enumerate(kinds.items())
            if kind.endswith(".jpg") or (number + at) % 3 == 0]


def test_kinds(program, made):
    for number, (pipeline, resampled) in enumerate(parity_cases.PIPELINES):
        files = taking_turns(made, number) if SHORT else [file for files in made.values() for file in files]
        counts = check(program, pipeline, resampled, files, (number, 2 ** 63 + number, 3))
        expect(set(counts) <= {(True, True), (False, False)}, f"{pipeline}: accepted by (us, Pillow): "
               f"{counts}")


def test_masks(program, folder, masks_by):
    generator = numpy.random.default_rng(5)
    files = []
    os.makedirs(folder + "/images"), os.makedirs(folder + "/masks")
    for number, (width, height) in enumerate([(40, 50), (97, 61), (200, 133)]):
        values = generator.integers(0, 256, (height // 5 + 1, width // 5 + 1), numpy.uint8).repeat(5,
            0).repeat(5, 1)
        for kind, file_format in [("L", "PNG"), ("P", "PNG")] + masks_by:
            files.append(f"{folder}/images/{kind}{number}{file_format}.jpg")
            save_jpeg(picture(width, height, number), files[-1], JPEGS["420"])
            mask = Image.fromarray(values[:height, :width].copy(), "L")
            if kind == "P":
                mask.putpalette(bytes(generator.integers(0, 256, 768, numpy.uint8)))
            if kind == "1":
                mask = mask.convert("1")
            #  The content tells the kind, not the name.
            mask.save(f"{folder}/masks/{kind}{number}{file_format}.png", file_format)
    for number, pipeline in enumerate(parity_cases.MASK_PIPELINES):
        counts = check(program, pipeline, True, files, (number, 1, 7), folder + "/masks")
        expect(counts == {(True, True): len(files)}, f"masks: {pipeline}: accepted by (us, Pillow): {counts}")


def test_tiffs(program, folder):
    """Pillow turns TIFFs in any case; some of its releases do so twice if asked to as well."""
    files = []
    for number, (kind, options) in enumerate(TIFFS.items()):
        for width, height in ((13, 9), (67, 45)):
            files.append(f"{folder}/{kind}_{width}.tiff")
            save_tiff(picture(width, height, number), files[-1], dict(orientation=1 + number % 8, **options))
    for number, (pipeline, resampled) in enumerate([
            ([{"op": "center_crop", "size": 70}, parity_cases.SHARE], False), ("eval", True),
            ([{"op": "random_crop", "size": 5}, parity_cases.SHARE], False)]):
        counts = check(program, pipeline, resampled, files, (number, 1, 2))
        expect(counts == {(True, True): len(files)}, f"TIFFs: {pipeline}: accepted by (us, Pillow): {counts}")
    cut, chooser = [], random.Random(3)
    os.mkdir(folder + "/cut")
    for file in files:
        data = open(file, "rb").read()
        cut += [write_damaged(folder + "/cut", file, length, data[:length])
                for length in sorted({4, len(data) - 1, chooser.randrange(4, len(data))})]
    counts = check(program, [{"op": "random_crop", "size": 1}, parity_cases.SHARE], False, cut)
    expect(set(counts) <= {(False, False), (False, True)}, f"TIFFs cut short: accepted {counts}")


def test_photos(program):
    root = os.environ.get("TUREEN_SOURCE", ".") + "/../shared/data/photos"
    photos = sorted(glob.glob(root + "/*/*"))
    if not photos:
        print(f"SKIP: no photos in {root}: parity tested on made images only")
        return
    photos = photos[::max(1, len(photos) // PHOTOS_MAX)][:PHOTOS_MAX]
    for pipeline, seeds in (("eval", 1), ("train", 3)):
        for seed in range(seeds):
            counts = check(program, pipeline, True, photos, (seed, 1, 2))
            expect(counts == {(True, True): len(photos)}, f"photos: accepted by (us, Pillow): {counts}")
    print(f"{len(photos)} photos")


def write_damaged(folder, file, number, data):
    path = f"{folder}/{number}_{os.path.basename(file)}"
    with open(path, "wb") as damaged:
        damaged.write(data)
    return path


def test_truncated(program, files, folder):
    """What is cut short is refused, at any length and whatever of it is looked at, as Pillow refuses it.
    Where only the end marker of a JPEG is cut, what stands before it decides, and both must agree; of a PNG
    neither misses the last bytes of its compressed data, nor what stands behind them."""
    chooser = random.Random(1)
    damaged, ends = [], []
    for file in files:
        data, is_jpeg = open(file, "rb").read(), file.endswith("jpg")
        lengths = {chooser.randrange(len(data) - (2 if is_jpeg else 64)) for _ in range(12)}
        damaged += [write_damaged(folder, file, length, data[:length]) for length in sorted(lengths)]
        ends += [write_damaged(folder, file, len(data) - short, data[:-short]) for short in (1, 2) if is_jpeg]
    for pipeline in ("eval", [{"op": "random_crop", "size": 5}, parity_cases.SHARE]):
        counts = check(program, pipeline, True, damaged)
        expect(counts == {(False, False): len(damaged)}, f"cut short: {pipeline}: accepted {counts}")
        counts = check(program, pipeline, True, ends)
        expect(set(counts) <= {(True, True), (False, False)},
               f"without an end: {pipeline}: accepted {counts}")


def test_flipped_bytes(program, files, folder):
    """What both accept looks the same.  Pillow reads some markers itself: the two may disagree at times."""
    chooser = random.Random(2)
    damaged = []
    for file in files:
        for number in range(4 if SHORT else 12):
            data = bytearray(open(file, "rb").read())
            for _ in range(chooser.randrange(1, 4)):
                data[chooser.randrange(len(data))] = chooser.randrange(256)
            damaged.append(write_damaged(folder, file, number, data))
    counts = check(program, "eval", True, damaged)
    print("bytes changed, (we, Pillow) accept:", counts)
    disagreed = counts.get((True, False), 0) + counts.get((False, True), 0)
    expect(disagreed <= 0.02 * len(damaged), f"damaged files: disagreed on {disagreed}: {counts}")


def short_palette(path, depth, colours, transparency, seed):
    """Writes a PNG with indices beyond its palette; gives what Pillow shows of it from 10.1 on: black
    there."""
    generator = numpy.random.default_rng(seed)
    indices = generator.integers(0, 2 ** depth, (16, 16), numpy.uint8)
    palette = generator.integers(1, 256, (colours, 3), numpy.uint8)
    bits = numpy.unpackbits(indices[:, :, None], axis=2)[:, :, 8 - depth:].reshape(16, -1)
    rows = b"".join(b"\0" + row.tobytes() for row in numpy.packbits(bits, axis=1))
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", 16, 16, depth, 3, 0, 0, 0)), (b"PLTE", palette.tobytes()),
              (b"tRNS", transparency),
              (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        for name, content in chunks:
            if content or name == b"IEND":
                file.write(struct.pack(">I", len(content)) + name + content
                           + struct.pack(">I", zlib.crc32(name + content)))
    whole = numpy.zeros((256, 3), numpy.uint8)
    whole[:colours] = palette
    return whole[indices]


def test_short_palettes(program, folder):
    """Indices beyond PLTE, with transparency of colours that are there, of such indices, and of more than
    there may be."""
    wanted, pipeline = {}, [{"op": "decode"}, {"op": "center_crop", "size": 16}, parity_cases.SHARE]
    by_pillow = PILLOW >= (10, 1)
    for depth, colours in ((1, 1), (2, 3), (4, 5), (4, 15), (8, 1), (8, 100), (8, 255)):
        for number, transparency in enumerate((b"", b"\0", b"\xff" * colours + b"\0",
                                               bytes(range(256))[:2 ** depth], bytes(300))):
            path = f"{folder}/{depth}_{colours}_{number}.png"
            wanted[path] = short_palette(path, depth, colours, transparency, colours)
    with tempfile.TemporaryDirectory() as out:
        parity_cases.prepare(program, pipeline, list(wanted), out)
        for path, pixels in wanted.items():
            compare(f"short palette {path}", numpy.load(f"{out}/{os.path.basename(path)}.npy"), pixels, False)
            if by_pillow:
                with Image.open(path) as image:
                    compare(f"Pillow's short palette {path}", numpy.asarray(image.convert("RGB")), pixels,
                            False)
    print(f"{len(wanted)} short palettes"
          f"{'' if by_pillow else '; this Pillow, older than 10.1, is not asked'}")


def test_torchvision(program, files):
    """The library itself, where nothing is left to chance."""
    try:
        from torchvision import transforms
        from torchvision.transforms import functional, InterpolationMode
    except Exception as missing:            # a torch built for other libraries may fail in any way
        print(f"SKIP: torchvision itself not compared: {missing}")
        return
    bicubic = InterpolationMode.BICUBIC
    cases = [
        ([{"op": "resize", "size": 40}, {"op": "center_crop", "size": [33, 47]}],
         [transforms.Resize(40), transforms.CenterCrop((33, 47))]),
        ([{"op": "resize", "size": 50, "max_size": 61, "interpolation": "bicubic"},
          {"op": "center_crop", "size": 45}],
         [transforms.Resize(50, bicubic, max_size=61), transforms.CenterCrop(45)]),
        ([{"op": "center_crop", "size": 60}, {"op": "pad", "padding": [1, 2, 3, 4], "fill": [5, 6, 7]}],
         [transforms.CenterCrop(60), transforms.Pad((1, 2, 3, 4), (5, 6, 7))]),
        ([{"op": "center_crop", "size": 60}, {"op": "pad", "padding": [11, 5], "mode": "reflect"}],
         [transforms.CenterCrop(60), transforms.Pad((11, 5), padding_mode="reflect")]),
        ([{"op": "center_crop", "size": 60}, {"op": "flip", "p": 1}, {"op": "vertical_flip", "p": 1}],
         [transforms.CenterCrop(60), functional.hflip, functional.vflip]),
    ]
    for name, values in (("brightness", (0, 0.3, 1.7)), ("contrast", (0, 0.6, 2.2)),
                         ("saturation", (0, 0.5, 3)),
                         ("hue", (-0.5, -0.11, 0.37))):
        adjust = getattr(functional, "adjust_" + name)
        cases += [([{"op": "center_crop", "size": 50}, {"op": "color_jitter", name: [value, value]}],
                   [transforms.CenterCrop(50), lambda image, adjust=adjust,
                    value=value: adjust(image, value)])
                  for value in values]
    for number, (operations, theirs) in enumerate(cases):
        some = files[number % 4::4] if SHORT else files
        tensor = transforms.Compose(theirs + [transforms.ToTensor(),
                                              transforms.Normalize(parity_cases.MEAN, parity_cases.STD)])
        pipeline = operations + [{"op": "normalize", "mean": parity_cases.MEAN, "std": parity_cases.STD},
                                 {"op": "layout", "layout": "NCHW"}]
        #  A jitter of one fixed factor is drawn all the same, so the mark must stand behind it or before it:
        #  before.
        with tempfile.TemporaryDirectory() as out:
            parity_cases.prepare(program, pipeline, some, out)
            for file in some:
                ours = numpy.load(parity_cases.outputs(out, os.path.commonpath(some), file, pipeline)[0])
                with Image.open(file) as image:
                    compare(f"torchvision {os.path.basename(file)} {operations}", ours,
                            tensor(image.convert("RGB")).numpy(), False)


def main():
    program = sys.argv[1]
    sizes = [(1, 1), (2, 3), (17, 9), (64, 64), (223, 225), (301, 199), (500, 11), (7, 600),
             (448, 323) if SHORT else (640, 427)]
    with tempfile.TemporaryDirectory() as folder:
        webps = WEBPS if reads(program, "WebP", "webp_anim" if PILLOW < (11, 0) else "webp") else ()
        if not webps:
            print("SKIP: parity of WebP not tested: this build or this Pillow does not read it")
        tiffs = TIFFS if reads(program, "TIFF", "libtiff") else ()
        if not tiffs:
            print("SKIP: parity of TIFF not tested: this build or this Pillow does not read it")
        made = make_files(folder, sizes, webps)
        test_kinds(program, made)
        os.mkdir(folder + "/fields")
        test_masks(program, folder + "/fields", [(kind, "TIFF") for kind in ("L", "P", "1") if tiffs])
        os.mkdir(folder + "/short")
        test_short_palettes(program, folder + "/short")
        if tiffs:
            os.mkdir(folder + "/tiffs")
            test_tiffs(program, folder + "/tiffs")
        test_photos(program)
        print("whole files:", worst)
        some = made[(64, 64)] + made[(301, 199)]
        for name, test in (("cut", test_truncated), ("flipped", test_flipped_bytes)):
            os.mkdir(f"{folder}/{name}")
            test(program, some, f"{folder}/{name}")
        test_torchvision(program, some)
    print("all:", worst, f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""Parity of decode/ with Pillow and torchvision's arithmetic: test_parity.py PATH-OF-prepare_file

Every image kind runs through many pipelines, by prepare_file and by reference.py; each result may differ by
at most 2 of 255 anywhere and by 0.5 on average (measured: 0).  Damaged files: both must refuse what is cut
short, and what both accept must look the same.  Ends with 77 (a skip) where Pillow or NumPy is missing.
"""
import glob
import json
import os
import random
import subprocess
import sys
import tempfile

try:
    import numpy
    from PIL import Image
    import reference
except ImportError as missing:
    print(f"SKIP: parity with Pillow not tested: {missing}")
    sys.exit(77)

DIFFERENCE_MAX, DIFFERENCE_MEAN_MAX = 2, 0.5
PHOTOS_MAX = 60
SHARE = {"share": True}
PIPELINES = [
    "eval",
    "train",
    [{"op": "resize", "size": [97, 41]}, SHARE],
    [{"op": "resize", "size": [40, 300]}, {"op": "flip", "p": 1}, SHARE, {"op": "flip", "p": 0.5}],
    [{"op": "resize", "size": 33}, {"op": "center_crop", "size": [32, 31]}, SHARE],
    [{"op": "resize", "size": 20}, {"op": "center_crop", "size": [51, 38]}, SHARE],
    [{"op": "center_crop", "size": [101, 64]}, {"op": "resize", "size": 50}, SHARE],
    [{"op": "center_crop", "size": 333}, {"op": "flip"}, SHARE],
    [{"op": "flip"}, {"op": "resize", "size": 31}, {"op": "flip"}, {"op": "center_crop", "size": 29}, SHARE],
    [{"op": "random_resized_crop", "size": [60, 45], "scale": [0.9, 1], "ratio": [2, 3]}, SHARE,
     {"op": "flip", "p": 0}],
    [{"op": "random_resized_crop", "size": 300, "scale": [0.01, 0.05]},
     {"op": "center_crop", "size": 299}, SHARE],
]

failures = []
worst = {"max": 0, "mean": 0.0, "compared": 0, "refused": 0}


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


def make_files(folder):
    sizes = [(1, 1), (2, 3), (17, 9), (64, 64), (223, 225), (301, 199), (640, 427), (2000, 11), (7, 1500)]
    kinds = {
        "444": dict(quality=90, subsampling=0), "422": dict(quality=85, subsampling=1),
        "420": dict(quality=75, subsampling=2), "progressive": dict(quality=80, progressive=True),
        "worst": dict(quality=5), "optimized": dict(quality=95, optimize=True),
        "grey": dict(mode="L"), "grey_progressive": dict(mode="L", progressive=True),
        "cmyk": dict(mode="CMYK"), "ycck": dict(mode="CMYK", quality=60),
    }
    for number, (width, height) in enumerate(sizes):
        for kind, options in kinds.items():
            options = dict(options)
            path = f"{folder}/{kind}_{width}x{height}.jpg"
            image = picture(width, height, number).convert(options.pop("mode", "RGB"))
            image.save(path, "JPEG", **options)
            if kind == "ycck":
                patched_ycck(path)
            yield path


def prepare(program, pipeline, path, key):
    text = pipeline if isinstance(pipeline, str) else json.dumps(pipeline)
    done = subprocess.run([program, text, path, *map(str, key)], capture_output=True)
    if done.returncode == 0:
        return done.stdout
    if done.returncode != 1:
        raise SystemExit(f"prepare_file ended with {done.returncode} on {path}: {done.stderr.decode()}")
    return None


def expect(condition, text):
    if not condition:
        failures.append(text)
        print("FAIL:", text)


def compare(program, pipeline, path, key):
    """True when both accepted."""
    ours = prepare(program, pipeline, path, key)
    try:
        images = reference.run(path, pipeline, key)
    except Exception:                   # whatever Pillow raises: it refuses the file
        images = None
    if ours is None or images is None:
        worst["refused"] += 1
        return ours is not None, images is not None
    theirs = b"".join(image.tobytes() for image in images)
    name = f"{os.path.basename(path)} {json.dumps(pipeline)} key {key}"
    expect(len(ours) == len(theirs), f"{name}: {len(ours)} bytes for {len(theirs)}")
    if len(ours) == len(theirs):
        ours, theirs = (numpy.frombuffer(data, numpy.uint8).astype(int) for data in (ours, theirs))
        difference = numpy.abs(ours - theirs)
        expect(difference.max() <= DIFFERENCE_MAX and difference.mean() <= DIFFERENCE_MEAN_MAX,
               f"{name}: differs by {difference.max()}, {difference.mean():.3f} on average")
        worst["max"] = max(worst["max"], int(difference.max()))
        worst["mean"] = max(worst["mean"], float(difference.mean()))
        worst["compared"] += 1
    return True, True


def test_kinds(program, files):
    for number, path in enumerate(files):
        for pipeline in PIPELINES:
            accepted = compare(program, pipeline, path, (number, 2 ** 63 + number, 3))
            expect(accepted == (True, True), f"{path} {pipeline}: accepted by (us, Pillow): {accepted}")


def test_photos(program):
    root = os.environ.get("TUREEN_SOURCE", ".") + "/../shared/data/photos"
    photos = sorted(glob.glob(root + "/*/*"))
    if not photos:
        print(f"SKIP: no photos in {root}: parity tested on made images only")
    for path in photos[::max(1, len(photos) // PHOTOS_MAX)][:PHOTOS_MAX]:
        for pipeline, keys in (("eval", 1), ("train", 3)):
            for seed in range(keys):
                accepted = compare(program, pipeline, path, (seed, 1, 2))
                expect(accepted == (True, True), f"{path}: accepted by (us, Pillow): {accepted}")
    print(f"{min(len(photos), PHOTOS_MAX)} photos")


def test_truncated(program, files, folder):
    """What is cut short is refused, at any length, as Pillow refuses it."""
    chooser = random.Random(1)
    path = folder + "/damaged.jpg"
    for file in files:
        data = open(file, "rb").read()
        lengths = [len(data) - short for short in (1, 2, 3)]
        lengths += [chooser.randrange(len(data)) for _ in range(12)]
        for length in lengths:
            open(path, "wb").write(data[:length])
            accepted = compare(program, "eval", path, (0, 0, 0))
            expect(accepted == (False, False), f"{file} cut to {length} of {len(data)}: accepted {accepted}")


def test_flipped_bytes(program, files, folder):
    """What both accept looks the same.  Pillow reads some markers itself: the two may disagree at times."""
    chooser = random.Random(2)
    path = folder + "/damaged.jpg"
    counts = {}
    for file in files:
        for _ in range(15):
            data = bytearray(open(file, "rb").read())
            for _ in range(chooser.randrange(1, 4)):
                data[chooser.randrange(len(data))] = chooser.randrange(256)
            open(path, "wb").write(data)
            accepted = compare(program, "eval", path, (0, 0, 0))
            counts[accepted] = counts.get(accepted, 0) + 1
    print("bytes changed, (we, Pillow) accept:", counts)
    disagreed = counts.get((True, False), 0) + counts.get((False, True), 0)
    expect(disagreed <= 0.02 * sum(counts.values()), f"damaged files: disagreed on {disagreed}: {counts}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        files = list(make_files(folder))
        test_kinds(sys.argv[1], files)
        test_photos(sys.argv[1])
        print("whole files:", worst)
        some = [file for file in files if "64x64" in file or "301x199" in file]
        test_truncated(sys.argv[1], some, folder)
        test_flipped_bytes(sys.argv[1], some, folder)
    print("all:", worst, f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

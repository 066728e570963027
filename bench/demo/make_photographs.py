#!/usr/bin/env python3
"""Makes an ImageFolder of procedural JPEGs that cost what photographs cost to read and to decode.

Around 500 x 375 pixels in both orientations, 90 to 130 KB each, three in four of them 4:4:4 and the
others 4:2:0.  An image is a gradient, overlapping shapes with soft edges, and noise with a spectrum that
falls as that of photographs does (an amplitude of 1/f); the quality is chosen for each so that the
file has the size that was drawn for it.  The same seed and count give the same files.

    python3 bench/demo/make_photographs.py --out DIR [--count 3000] [--seed 1]

DIR appears only when it is complete; if it is there already with the same count and seed, nothing is done.
"""

from __future__ import annotations

import argparse
import ctypes
import io
import json
import multiprocessing
import os
import shutil
import signal
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import List, NoReturn, Optional, Tuple

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

VERSION = 1
MANIFEST = "photographs.json"
BYTES_MIN, BYTES_MAX, BYTES_MEAN, BYTES_DEVIATION = 90_000, 130_000, 110_000, 9_000
QUALITY_MIN, QUALITY_MAX, QUALITY_FIRST = 60, 99, 95
TRIES_MAX = 7
FIELD_SIDE = 1024
FIELD_EXPONENTS = (0.8, 0.9, 1.0, 1.1, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2)
FIELDS_FINE = 5                 # the first so many are texture; the others are shading
SUBSAMPLED_PART = 0.25
PR_SET_PDEATHSIG = 1

# Name, share of the samples, hue of the ground in degrees, how strong the texture is.
CLASSES: Tuple[Tuple[str, int, float, float], ...] = (
    ("bark", 14, 28.0, 1.15), ("clouds", 6, 210.0, 0.85), ("coral", 9, 350.0, 1.05),
    ("dunes", 13, 42.0, 0.95), ("fern", 11, 110.0, 1.2), ("gravel", 5, 60.0, 1.25),
    ("harbour", 17, 200.0, 1.0), ("lichen", 8, 85.0, 1.1), ("moss", 7, 130.0, 1.15),
    ("slate", 10, 240.0, 0.9),
)


@dataclass(frozen=True)
class Order:
    """What one worker needs to make one file."""

    path: str
    seed: int
    index: int
    label: int


@dataclass(frozen=True)
class Manifest:
    version: int
    count: int
    seed: int
    bytes: int


_fields: List[np.ndarray] = []  # made before the workers are forked, so they all share it


def make_fields(seed: int) -> List[np.ndarray]:
    """Noise fields of unit deviation; each one's amplitude falls as frequency to minus its exponent."""
    rows = np.fft.fftfreq(FIELD_SIDE)[:, None]
    columns = np.fft.rfftfreq(FIELD_SIDE)[None, :]
    frequency = np.hypot(rows, columns)
    frequency[0, 0] = np.inf
    fields = []
    for number, exponent in enumerate(FIELD_EXPONENTS):
        random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, 1, number])))
        spectrum = np.fft.rfft2(random.standard_normal((FIELD_SIDE, FIELD_SIDE)))
        field = np.fft.irfft2(spectrum * frequency ** -exponent, s=(FIELD_SIDE, FIELD_SIDE))
        fields.append(np.ascontiguousarray(field / field.std(), dtype=np.float32))
    return fields


def cut(random: np.random.Generator, fine: bool, height: int, width: int) -> np.ndarray:
    """A random window, turned and mirrored, of a random field: a view."""
    first, last = (0, FIELDS_FINE) if fine else (FIELDS_FINE, len(_fields))
    field = _fields[int(random.integers(first, last))]
    if random.random() < 0.5:
        field = field.T
    top = int(random.integers(0, FIELD_SIDE - height + 1))
    left = int(random.integers(0, FIELD_SIDE - width + 1))
    window = field[top:top + height, left:left + width]
    return window[::int(random.choice((-1, 1))), ::int(random.choice((-1, 1)))]


def colour(random: np.random.Generator, hue: float, spread: float) -> Tuple[int, int, int]:
    """A muted colour near a hue in degrees, as photographs have them."""
    angle = np.deg2rad(hue + spread * float(random.standard_normal()))
    light = float(random.uniform(55, 195))
    chroma = float(random.uniform(8, 55))
    red = light + chroma * np.cos(angle)
    green = light + chroma * np.cos(angle - 2.0944)
    blue = light + chroma * np.cos(angle + 2.0944)
    return (int(np.clip(red, 0, 255)), int(np.clip(green, 0, 255)), int(np.clip(blue, 0, 255)))


def outline(random: np.random.Generator, width: int, height: int) -> List[Tuple[float, float]]:
    """A closed, star-shaped line of 3 to 9 corners somewhere in the picture."""
    corners = int(random.integers(3, 10))
    angles = np.sort(random.uniform(0, 2 * np.pi, corners))
    radii = random.uniform(0.3, 1.0, corners) * float(random.uniform(0.08, 0.45)) * min(width, height)
    x = float(random.uniform(0, width)) + radii * np.cos(angles) * float(random.uniform(0.6, 1.8))
    y = float(random.uniform(0, height)) + radii * np.sin(angles)
    return list(zip(x.tolist(), y.tolist()))


def draw_shapes(random: np.random.Generator, label: int, width: int,
                height: int) -> Tuple[np.ndarray, np.ndarray]:
    """Ground and overlapping shapes: colours (float32, h x w x 3) and roughness (h x w, about 1)."""
    _, _, hue, roughness = CLASSES[label]
    picture = Image.new("RGB", (width, height), colour(random, hue, 25.0))
    gain = Image.new("L", (width, height), int(60 * roughness))
    paint, rub = ImageDraw.Draw(picture), ImageDraw.Draw(gain)
    for _ in range(int(random.integers(5, 14))):
        tint, rough = colour(random, hue, 60.0), int(random.uniform(20, 110) * roughness)
        if random.random() < 0.6:
            corners = outline(random, width, height)
            paint.polygon(corners, fill=tint)
            rub.polygon(corners, fill=rough)
        else:
            x, y = float(random.uniform(0, width)), float(random.uniform(0, height))
            a, b = random.uniform(0.03, 0.28, 2) * min(width, height)
            box = [x - a, y - b, x + a, y + b]
            paint.ellipse(box, fill=tint)
            rub.ellipse(box, fill=rough)
    soft = float(random.uniform(0.5, 1.1))
    colours = np.asarray(picture.filter(ImageFilter.GaussianBlur(soft)), dtype=np.float32)
    return colours, np.asarray(gain, dtype=np.float32) / np.float32(60)


def paint_picture(random: np.random.Generator, label: int) -> Image.Image:
    long = int(np.clip(random.normal(500, 12), 460, 560))
    short = int(np.clip(random.normal(375, 14), 330, 430))
    width, height = (long, short) if random.random() < 0.72 else (short, long)
    pixels, rough = draw_shapes(random, label, width, height)

    x = np.linspace(-1, 1, width, dtype=np.float32)[None, :]
    y = np.linspace(-1, 1, height, dtype=np.float32)[:, None]
    slope = random.uniform(-28, 28, 2).astype(np.float32)
    light = slope[0] * x + slope[1] * y - np.float32(random.uniform(0, 22)) * (x * x + y * y)
    light = light + np.float32(random.uniform(6, 18)) * cut(random, False, height, width)
    texture = cut(random, True, height, width) + np.float32(0.6) * cut(random, True, height, width)
    light += np.float32(random.uniform(13, 17)) * rough * texture
    #  Colour varies slowly over a photograph and a little from pixel to pixel.
    warm = np.float32(random.uniform(3, 8)) * cut(random, False, height, width)
    warm += np.float32(random.uniform(1.5, 3.0)) * cut(random, True, height, width)
    pixels = pixels + light[:, :, None]
    pixels[:, :, 0] += warm
    pixels[:, :, 2] -= np.float32(0.8) * warm
    np.clip(pixels, 0, 255, out=pixels)
    return Image.fromarray(pixels.astype(np.uint8), "RGB")


def encode(picture: Image.Image, quality: int, subsampled: bool) -> bytes:
    target = io.BytesIO()
    picture.save(target, "JPEG", quality=quality, subsampling=2 if subsampled else 0)
    return target.getvalue()


def encode_to_size(picture: Image.Image, wanted: int, subsampled: bool) -> Optional[bytes]:
    """The file nearest to the wanted size that was found by bisection; None if none is inside the band."""
    low, high, quality = QUALITY_MIN, QUALITY_MAX, QUALITY_FIRST
    best: Optional[bytes] = None
    for _ in range(TRIES_MAX):
        data = encode(picture, quality, subsampled)
        if best is None or abs(len(data) - wanted) < abs(len(best) - wanted):
            best = data
        if abs(len(data) - wanted) < 0.05 * wanted:
            break
        if len(data) > wanted:
            high = quality - 1
        else:
            low = quality + 1
        if low > high:
            break
        #  A point of quality changes the size by about 8 % up here: aim, and stay inside the bracket.
        step = int(round(np.log(wanted / len(data)) / 0.08)) or (1 if len(data) < wanted else -1)
        quality = min(max(quality + step, low), high)
    if best is None or not BYTES_MIN <= len(best) <= BYTES_MAX:
        return None
    return best


def make_file(order: Order) -> int:
    """Writes one file; returns its size."""
    for attempt in range(20):
        sequence = np.random.SeedSequence([order.seed, 2, order.index, attempt])
        random = np.random.Generator(np.random.PCG64(sequence))
        wanted = int(np.clip(random.normal(BYTES_MEAN, BYTES_DEVIATION), BYTES_MIN + 3000, BYTES_MAX - 3000))
        subsampled = bool(random.random() < SUBSAMPLED_PART)
        data = encode_to_size(paint_picture(random, order.label), wanted, subsampled)
        if data is not None:
            with open(order.path, "wb") as file:
                file.write(data)
            return len(data)
    raise RuntimeError(f"image {order.index} cannot be made between {BYTES_MIN} and {BYTES_MAX} bytes")


def plan(target: Path, count: int, seed: int) -> List[Order]:
    """The images to make: the classes' shares are exact, and no two of them need be equal."""
    shares = np.array([share for _, share, _, _ in CLASSES], dtype=np.int64)
    bounds = np.cumsum(shares) * count // int(shares.sum())
    labels = np.searchsorted(bounds, np.arange(count), side="right")
    orders = []
    for index in range(count):
        label = int(labels[index])
        folder = target / CLASSES[label][0]
        orders.append(Order(str(folder / f"{index:06d}.jpg"), seed, index, label))
    for label, (name, _, _, _) in enumerate(CLASSES):
        if label in labels:
            (target / name).mkdir(parents=True)
    return orders


def is_complete(target: Path, count: int, seed: int) -> bool:
    try:
        with open(target / MANIFEST, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return False
    return all(found.get(key) == value
               for key, value in (("version", VERSION), ("count", count), ("seed", seed)))


def show(done: int, count: int, began: float, last: bool) -> None:
    if sys.stdout.isatty():
        print(f"\r  {done} of {count} images, {time.monotonic() - began:.0f} s", end="\n" if last else "",
              flush=True)
    elif last or done % max(1, count // 5) == 0:
        print(f"  {done} of {count} images, {time.monotonic() - began:.0f} s", flush=True)


def start_worker() -> None:
    """The parent ends its workers, and the kernel does if the parent is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def make_files(orders: List[Order]) -> int:
    """Makes all files on all processors; returns the sum of their sizes."""
    total, began, count = 0, time.monotonic(), len(orders)
    workers = len(os.sched_getaffinity(0))
    with multiprocessing.get_context("fork").Pool(workers, start_worker) as pool:
        for done, size in enumerate(pool.imap_unordered(make_file, orders, chunksize=8), 1):
            total += size
            if done % 50 == 0 or done == count:
                show(done, count, began, done == count)
    return total


def make(target: Path, count: int, seed: int) -> Manifest:
    """Makes the folder beside its place, then renames it there."""
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        _fields[:] = make_fields(seed)
        manifest = Manifest(VERSION, count, seed, make_files(plan(partial, count, seed)))
        with open(partial / MANIFEST, "w", encoding="utf-8") as file:
            json.dump(asdict(manifest), file)
            file.write("\n")
        if target.exists():
            shutil.rmtree(target)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return manifest


def stop(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def main() -> int:
    parser = argparse.ArgumentParser(
        description="make an ImageFolder of JPEGs that cost what photographs cost")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR",
                        help="where to; one made with other settings is replaced")
    parser.add_argument("--count", type=int, default=3000, help="how many images (3000)")
    parser.add_argument("--seed", type=int, default=1, help="what all of them follow from (1)")
    options = parser.parse_args()
    if options.count < len(CLASSES) or options.seed < 0:
        parser.error(f"--count is at least {len(CLASSES)} and --seed at least 0")
    if is_complete(options.out, options.count, options.seed):
        print(f"{options.out}: {options.count} images are there")
        return 0
    if options.out.exists() and not (options.out / MANIFEST).exists() and any(options.out.iterdir()):
        print(f"make_photographs.py: {options.out} holds something else; name another folder",
              file=sys.stderr)
        return 1
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    print(f"{options.out}: making {options.count} images", flush=True)
    began = time.monotonic()
    manifest = make(options.out, options.count, options.seed)
    print(f"{options.out}: {manifest.count} images, {manifest.bytes / 1e6:.0f} MB, on average "
          f"{manifest.bytes / manifest.count / 1000:.1f} KB, in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

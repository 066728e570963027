"""Small images for the examples: a folder with one folder a class, as `tureen serve` and torchvision take
it."""
from __future__ import annotations

import os

import numpy as np
from PIL import Image

CLASSES = ("blobs", "columns", "rows", "squares")
SIDE = 96


def make_folder(folder: str, samples: int, seed: int = 1) -> str:
    """As many JPEGs, a quarter of each class; the same for the same seed."""
    generator = np.random.default_rng(seed)
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    for number in range(samples):
        name = CLASSES[number % len(CLASSES)]
        length, phase = generator.uniform(20, 28), generator.uniform(0, 2 * np.pi, 2)
        columns, rows = np.sin(2 * np.pi * x / length + phase[0]), np.sin(2 * np.pi * y / length + phase[1])
        pattern = {"columns": columns, "rows": rows, "blobs": columns * rows,
                   "squares": np.sign(columns * rows)}[name]
        image = generator.uniform(90, 160, 3) + 35 * pattern[:, :, None] + generator.normal(0, 30,
            (SIDE, SIDE, 3))
        os.makedirs(os.path.join(folder, name), exist_ok=True)
        Image.fromarray(np.clip(image, 0, 255).astype(np.uint8)).save(os.path.join(folder, name,
            f"{number:05d}.jpg"))
    return folder

"""Augmentations beside torchvision's, on the same photographs and one processor:

    python3 bench/speed/augment_bench.py FOLDER [--rounds N] [--images N]

Images of 224 x 224 pixels are in memory on both sides, as Pillow images and as versions.  The server's time
is that of its whole private stage, the copy into the batch included; torchvision's that of the transform
alone.  Both draw anew for each image and round.  A ratio is the median over the rounds of what the two took
in one round, in processor time, so that a slow moment of the machine weighs on both.
"""
import argparse
import glob
import json
import os
import random
import statistics
import subprocess
import sys
import time

import torch
import torchvision
from PIL import Image, ImageFilter
from torchvision import transforms as V

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(os.environ.get("TUREEN_BIN", HERE + "/../../build/release/bin"), "augment_bench")
BASE = [{"op": "resize", "size": 256}, {"op": "center_crop", "size": 224}, {"share": True}]
BILINEAR = V.InterpolationMode.BILINEAR
PILLOW_BLUR = V.Lambda(lambda image: image.filter(ImageFilter.GaussianBlur(random.uniform(0.1, 2))))
CASES = [
    ("RandAugment", V.RandAugment(), {"op": "rand_augment"}),
    ("RandAugment, bilinear", V.RandAugment(interpolation=BILINEAR),
     {"op": "rand_augment", "interpolation": "bilinear"}),
    ("TrivialAugmentWide", V.TrivialAugmentWide(), {"op": "trivial_augment_wide"}),
    ("AutoAugment", V.AutoAugment(), {"op": "auto_augment"}),
    ("AugMix", V.AugMix(), {"op": "aug_mix"}),
    ("RandomRotation", V.RandomRotation(30), {"op": "random_rotation", "degrees": 30}),
    ("RandomAffine, bilinear", V.RandomAffine(30, (0.1, 0.1), (0.8, 1.2), 10, interpolation=BILINEAR),
     {"op": "random_affine", "degrees": 30, "translate": [0.1, 0.1], "scale": [0.8, 1.2], "shear": 10,
      "interpolation": "bilinear"}),
    ("RandomPerspective", V.RandomPerspective(p=1), {"op": "random_perspective", "p": 1}),
    ("ElasticTransform", V.ElasticTransform(), {"op": "elastic_transform"}),
    ("RandomEqualize", V.RandomEqualize(1), {"op": "equalize", "p": 1}),
    ("RandomAutocontrast", V.RandomAutocontrast(1), {"op": "autocontrast", "p": 1}),
    ("RandomAdjustSharpness", V.RandomAdjustSharpness(2, 1), {"op": "adjust_sharpness", "factor": 2, "p": 1}),
    ("RandomSolarize", V.RandomSolarize(128, 1), {"op": "solarize", "threshold": 128, "p": 1}),
    ("GaussianBlur(23)", V.GaussianBlur(23), {"op": "gaussian_blur", "kernel_size": 23}),
    ("GaussianBlur(5)", V.GaussianBlur(5), {"op": "gaussian_blur", "kernel_size": 5}),
    ("Pillow's GaussianBlur", PILLOW_BLUR, {"op": "pillow_gaussian_blur"}),
]


class Server:
    """The decoder, in a process of its own."""

    def __init__(self, files):
        self.process = subprocess.Popen([PROGRAM, *files], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def run(self, operations):
        self.process.stdin.write(json.dumps([*BASE, *operations]) + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def load(path):
    with Image.open(path) as file:
        return V.CenterCrop(224)(V.Resize(256)(file.convert("RGB")))


def theirs(transform, images):
    begin = time.process_time()
    for image in images:
        transform(image)
    return time.process_time() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--images", type=int, default=100)
    options = parser.parse_args()
    found = sorted(glob.glob(options.folder + "/**/*.[jJ][pP]*[gG]", recursive=True))
    files = found[::max(1, len(found) // options.images)][:options.images]
    if not files:
        raise SystemExit(f"no JPEG in {options.folder}")
    torch.set_num_threads(1)
    images, server = [load(path) for path in files], Server(files)
    print(f"{len(images)} images of 224 x 224, {options.rounds} rounds; "
          f"torchvision {torchvision.__version__}, torch {torch.__version__}, Pillow {Image.__version__}")
    print(f"{'':24}{'torchvision':>14}{'server':>10}   of torchvision's time")
    for name, transform, operation in CASES:
        rounds = []
        for _ in range(options.rounds + 1):
            rounds.append((theirs(transform, images), server.run([operation])))
        rounds = rounds[1:]                             # the first warms up
        one, other = (statistics.median(times) / len(images) * 1e6 for times in zip(*rounds))
        ratio = statistics.median(ours / their for their, ours in rounds)
        print(f"{name:24}{one:11.0f} us{other:7.0f} us   {ratio:.2f}")
    print(f"{'(the copy alone)':24}{'':14}{server.run([]) / len(images) * 1e6:7.0f} us")


if __name__ == "__main__":
    sys.exit(main())

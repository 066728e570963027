"""tureen.transforms and tureen.recipes: what they stand for, what they refuse, and that the server makes of
them what torchvision makes of its own.

Run by ctest (python_transforms), or by hand: TUREEN_BIN=build/release/bin python3
tests/clients/test_python_transforms.py [-v] The server's parser and decoder are those of `tureen prepare`.
Without torchvision or Pillow what compares with them is skipped, and said to be.
"""
from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, Dict, List
from unittest import mock

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
sys.path[:0] = [str(SOURCE / "clients" / "python")]
TUREEN = os.path.join(os.environ.get("TUREEN_BIN", str(SOURCE / "build" / "release" / "bin")), "tureen")

import numpy as np

from tureen import recipes
from tureen import transforms as T
from tureen.mixing import split

AT_IMPORT = set(sys.modules)
try:
    import torch
    import PIL
    import torchvision.transforms as V
    from PIL import Image
    PILLOW13 = int(PIL.__version__.split(".")[0]) >= 13
except ImportError as missing:
    print(f"SKIP: not compared with torchvision: {missing} (apt install python3-torchvision)", flush=True)
    V = None
V2 = None
try:
    from torchvision.transforms import v2 as V2
    from torchvision import tv_tensors
except ImportError:
    print("SKIP: this torchvision has no v2 with tv_tensors", flush=True)

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
SHARE = {"share": True}
GOLDEN = [(0.037825242137, None), (0.999425671067, None), (1e-12, None), (0.583333333333, (0, 25, 25, 50))]
PHOTO = str(SOURCE / "tests" / "decode" / "golden" / "colour_420.jpg")
NORMALIZE, PLANAR = {"op": "normalize"}, {"op": "layout", "layout": "NCHW"}


def _convert_image_to_rgb(image: Any) -> Any:
    """As CLIP has it."""
    return image.convert("RGB")


def prepare(pipeline: List[Dict[str, Any]], files: List[str], out: str) -> None:
    """The server's own parser and decoder, by way of `tureen prepare`."""
    command = [TUREEN, "prepare", "--pipeline", json.dumps(pipeline), "--out", out, *files]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise AssertionError(f"{json.dumps(pipeline)}: tureen prepare ended with {done.returncode}: "
                             f"{done.stderr}")


class Json(unittest.TestCase):
    """What each transform stands for."""

    def check(self, transform: Any, *operations: Dict[str, Any]) -> None:
        self.assertEqual(transform.to_json(), list(operations))

    def test_torchvision_is_not_imported(self) -> None:
        self.assertFalse({"torch", "torchvision", "PIL"} & AT_IMPORT)

    def test_every_parameter(self) -> None:
        self.check(T.Resize(256), {"op": "resize", "size": 256})
        self.check(T.Resize([256], "bicubic", max_size=300), {"op": "resize", "size": 256, "max_size": 300,
                                                              "interpolation": "bicubic"})
        self.check(T.Resize((20, 30), T.InterpolationMode.NEAREST), {"op": "resize", "size": [20, 30],
                                                                     "interpolation": "nearest"})
        self.check(T.CenterCrop(np.int64(7)), {"op": "center_crop", "size": 7})
        self.check(T.CenterCrop((7, 9)), {"op": "center_crop", "size": [7, 9]})
        #  Alone, of images of any size, its versions must be shared.
        self.check(T.RandomResizedCrop(224), {"op": "random_resized_crop", "size": 224, "share": True})
        self.check(T.RandomResizedCrop(224, pillow13=True), {"op": "random_resized_crop", "size": 224,
                                                             "pillow13": True, "share": True})
        self.check(T.Resize((8, 9), pillow13=True), {"op": "resize", "size": [8, 9], "pillow13": True})
        self.check(T.RandomResizedCrop((8, 9), (0.2, 1), (1, 2), 3), {
            "op": "random_resized_crop", "size": [8, 9], "scale": [0.2, 1], "ratio": [1, 2],
            "interpolation": "bicubic", "share": True})
        self.check(T.Compose([T.Resize((9, 9)), T.RandomCrop(8, padding=(1, 2), fill=(1, 2, 3),
                                                             mask_fill=9)]),
                   {"op": "resize", "size": [9, 9]}, {"op": "random_crop", "size": 8, "padding": [1, 2, 1, 2],
                                                      "fill": [1, 2, 3], "mask_fill": 9})
        self.check(T.RandomCrop(8, None, True, 5, "edge", share=True), {
            "op": "random_crop", "size": 8, "pad_if_needed": True, "mode": "edge", "share": True})
        self.check(T.Pad([1, 2, 3, 4], 7.0), {"op": "pad", "padding": [1, 2, 3, 4], "fill": 7})
        self.check(T.Pad(3, padding_mode="reflect"), {"op": "pad", "padding": 3, "mode": "reflect"})
        self.check(T.RandomHorizontalFlip(), {"op": "flip"})
        self.check(T.RandomVerticalFlip(0.25), {"op": "vertical_flip", "p": 0.25})
        self.check(T.ColorJitter(0.4, (0.5, 2), [1, 1], 0.1), {
            "op": "color_jitter", "brightness": [0.6, 1.4], "contrast": [0.5, 2.0], "hue": [-0.1, 0.1]})
        self.check(T.ColorJitter(2), {"op": "color_jitter", "brightness": [0.0, 3.0]})
        self.check(T.Grayscale(), {"op": "grayscale", "channels": 1})
        self.check(T.RandomGrayscale(), {"op": "grayscale", "p": 0.1, "channels": 3})
        self.check(T.RandomInvert(), {"op": "invert"})
        self.check(T.RandomPosterize(np.int64(3), 1), {"op": "posterize", "bits": 3, "p": 1.0})
        self.check(T.RandomSolarize(128), {"op": "solarize", "threshold": 128.0})
        self.check(T.RandomAutocontrast(0.25), {"op": "autocontrast", "p": 0.25})
        self.check(T.RandomEqualize(share=True), {"op": "equalize", "share": True})
        self.check(T.RandomAdjustSharpness(2), {"op": "adjust_sharpness", "factor": 2.0})
        self.check(T.GaussianBlur(5), {"op": "gaussian_blur", "kernel_size": 5})
        self.check(T.GaussianBlur((3, 9), 0.5, share=True), {
            "op": "gaussian_blur", "kernel_size": [3, 9], "sigma": [0.5, 0.5], "share": True})
        self.check(T.PillowGaussianBlur(), {"op": "pillow_gaussian_blur"})
        self.check(T.PillowGaussianBlur((0, 3)), {"op": "pillow_gaussian_blur", "radius": [0.0, 3.0]})
        self.check(T.Compose([T.RandomRotation(30), T.CenterCrop(8)]),
                   {"op": "random_rotation", "degrees": [-30.0, 30.0], "share": True},
                   {"op": "center_crop", "size": 8})
        self.check(T.RandomRotation((-10, 20), 2, True, (3, 4.5), (1, 2, 3), 9), {
            "op": "random_rotation", "degrees": [-10.0, 20.0], "interpolation": "bilinear", "expand": True,
            "center": [3.0, 4.5], "fill": [1, 2, 3], "mask_fill": 9})
        self.check(T.RandomAffine(0), {"op": "random_affine", "degrees": [0.0, 0.0]})
        self.check(T.RandomAffine([5, 6], (0.1, 0.2), (0.5, 2), 7, fill=9.7, center=[0, 0]), {
            "op": "random_affine", "degrees": [5.0, 6.0], "translate": [0.1, 0.2], "scale": [0.5, 2.0],
            "shear": [-7.0, 7.0], "center": [0.0, 0.0], "fill": 9})
        self.check(T.RandomAffine(1, shear=(1, 2, 3, 4), share=True), {
            "op": "random_affine", "degrees": [-1.0, 1.0], "shear": [1.0, 2.0, 3.0, 4.0], "share": True})
        self.check(T.RandomPerspective(), {"op": "random_perspective"})
        self.check(T.RandomPerspective(0.3, 1, 0, (1, 2, 3), 9), {
            "op": "random_perspective", "distortion_scale": 0.3, "p": 1.0, "interpolation": "nearest",
            "fill": [1, 2, 3], "mask_fill": 9})
        self.check(T.FiveCrop(8), {"op": "views", "count": 5, "stack": True},
                   {"op": "corner_crop", "size": 8})
        self.check(T.TenCrop((8, 9), True), {"op": "views", "count": 10, "stack": True},
                   {"op": "corner_crop", "size": [8, 9], "mirror": "down"})
        self.check(T.ElasticTransform(), {"op": "elastic_transform"})
        self.check(T.ElasticTransform([9, 3], 2, 0, (1, 2, 3), 9, share=True), {
            "op": "elastic_transform", "alpha": [9.0, 3.0], "sigma": [2.0, 2.0], "interpolation": "nearest",
            "fill": [1, 2, 3], "mask_fill": 9, "share": True})
        self.check(T.Compose([T.CenterCrop(8), T.MixUp(0.2, np.int64(5))]), {"op": "center_crop", "size": 8},
                   {"op": "mix_up", "alpha": 0.2, "num_classes": 5})
        self.check(T.Compose([T.RandomChoice([T.CutMix(num_classes=5), T.MixUp(num_classes=5)], (1, 2))]),
                   {"op": "random_choice", "counts": [1, 1], "p": [1.0, 2.0]},
                   {"op": "cut_mix", "alpha": 1.0, "num_classes": 5},
                   {"op": "mix_up", "alpha": 1.0, "num_classes": 5})
        self.check(T.AugMix(), {"op": "aug_mix"})
        self.check(T.AugMix(9, 2, 4, 0.5, False, 0, [1, 2, 3], share=True), {
            "op": "aug_mix", "severity": 9, "mixture_width": 2, "chain_depth": 4, "alpha": 0.5,
            "all_ops": False, "interpolation": "nearest", "fill": [1, 2, 3], "share": True})
        self.check(T.RandAugment(), {"op": "rand_augment"})
        self.check(T.RandAugment(3, 4, 10, "bilinear", [1, 2, 3], unit_threshold=True, share=True), {
            "op": "rand_augment", "num_ops": 3, "magnitude": 4, "num_magnitude_bins": 10,
            "unit_threshold": True, "interpolation": "bilinear", "fill": [1, 2, 3], "share": True})
        self.check(T.TrivialAugmentWide(), {"op": "trivial_augment_wide"})
        self.check(T.TrivialAugmentWide(7, mask_fill=255),
                   {"op": "trivial_augment_wide", "num_magnitude_bins": 7, "mask_fill": 255})
        self.check(T.AutoAugment(), {"op": "auto_augment"})
        self.check(T.AutoAugment(T.AutoAugmentPolicy.SVHN, fill=7.0), {
            "op": "auto_augment", "policy": "svhn", "fill": 7})
        self.check(T.Compose([T.ToTensor(), T.Normalize(0.5, 0.25), T.RandomErasing(0.1, value=(1, 2.5, 3)),
                              T.ConvertImageDtype("float16")]),
                   {"op": "normalize", "mean": 0.5, "std": 0.25},
                   {"op": "random_erasing", "p": 0.1, "value": [1.0, 2.5, 3.0]},
                   {"op": "cast", "dtype": "float16"}, PLANAR)
        self.check(T.Compose([T.PILToTensor(), T.RandomErasing(scale=(0.1, 0.2), ratio=(1, 2))]),
                   {"op": "random_erasing", "scale": [0.1, 0.2], "ratio": [1.0, 2.0]}, PLANAR)
        self.check(T.Compose([T.Resize((9, 9)), T.RandomApply([T.ColorJitter(0.4), T.RandomInvert()], 0.8)]),
                   {"op": "resize", "size": [9, 9]}, {"op": "random_apply", "count": 2, "p": 0.8},
                   {"op": "color_jitter", "brightness": [0.6, 1.4]}, {"op": "invert"})
        self.check(T.RandomApply([]))
        small = T.Resize((9, 9))
        self.check(T.Compose([small, T.RandomChoice([T.RandomInvert(1), T.Compose([]), T.Compose([
            T.RandomEqualize(1), T.RandomHorizontalFlip()])], [3, 0, 0.5])]),
            {"op": "resize", "size": [9, 9]},
            {"op": "random_choice", "counts": [1, 0, 2], "p": [3.0, 0.0, 0.5]}, {"op": "invert", "p": 1.0},
            {"op": "equalize", "p": 1.0}, {"op": "flip"})
        self.check(T.Compose([small, T.RandomOrder([T.RandomInvert(), T.RandomApply([T.ColorJitter(1)])])]),
                   {"op": "resize", "size": [9, 9]}, {"op": "random_order", "counts": [1, 2]},
                   {"op": "invert"}, {"op": "random_apply", "count": 1},
                   {"op": "color_jitter", "brightness": [0.0, 2.0]})
        self.check(T.RandomChoice([T.Compose([])]))
        nested = T.RandomOrder([T.RandomChoice([T.RandomInvert(), T.RandomEqualize()], share=True)])
        self.check(nested, {"op": "random_order", "counts": [3]},
                   {"op": "random_choice", "counts": [1, 1], "share": True}, {"op": "invert"},
                   {"op": "equalize"})
        self.check(T.ToTensor(), NORMALIZE, PLANAR)
        self.check(T.PILToTensor(), PLANAR)
        self.check(T.Compose([T.ToTensor(), T.Normalize(0.5, [0.25], inplace=True),
                              T.ConvertImageDtype("float16")]),
                   {"op": "normalize", "mean": 0.5, "std": 0.25}, {"op": "cast", "dtype": "float16"}, PLANAR)
        self.check(T.Compose([T.PILToTensor(), T.ConvertImageDtype(np.float16)]), NORMALIZE,
                   {"op": "cast", "dtype": "float16"}, PLANAR)
        self.check(T.Compose([T.PILToTensor(), T.ConvertImageDtype("uint8")]), PLANAR)
        self.check(T.Compose([T.PILToTensor(), T.ConvertImageDtype("float32"),
                              T.ConvertImageDtype("float32")]),
                   NORMALIZE, PLANAR)
        self.check(T.Normalize(MEAN, np.array(STD)), {"op": "normalize", "mean": MEAN, "std": STD})
        self.check(T.Cast("bfloat16"), {"op": "cast", "dtype": "bfloat16"})
        self.check(T.Layout("NHWC"))
        self.check(T.Decode(["image", "mask"], exact=False, orientation=True, max_pixels=99), {
            "op": "decode", "fields": ["image", "mask"], "exact": False, "orientation": True,
            "max_pixels": 99})
        self.check(T.Decode(["image", T.DecodeBoxes((9, 5), "boxes", 2.5, truncate=True),
                             T.DecodeArray("int32", [512], True, True, "tokens")]), {
            "op": "decode", "fields": [
                "image", {"field": "boxes", "as": "boxes", "shape": [9, 5], "min_size": 2.5,
                          "truncate": True},
                {"field": "tokens", "as": "array", "dtype": "int32", "shape": [512], "ragged": True,
                 "truncate": True}]})
        self.check(T.DecodeBytes(5), {"op": "decode", "as": "bytes", "length": 5})
        self.check(T.DecodeArray(np.float64, (2, 3)), {"op": "decode", "as": "array", "dtype": "float64",
                                                       "shape": [2, 3]})
        self.check(T.Compose([T.DecodeAudio("int16", 2, 44100), T.Excerpt(100, "center")]),
                   {"op": "decode", "as": "audio", "dtype": "int16", "channels": 2, "rate": 44100},
                   {"op": "excerpt", "length": 100, "place": "center"})

    def test_order_of_torchvision_and_of_the_server(self) -> None:
        """Flips and crops behind ToTensor are done before it; what jobs share is found."""
        crop = {"op": "random_resized_crop", "size": 32, "share": True}
        listed = T.Compose([T.RandomResizedCrop(32), T.ToTensor(), T.Normalize(MEAN, STD), T.CenterCrop(30),
                            T.RandomHorizontalFlip()])
        self.assertEqual(listed.to_json(), [crop, {"op": "center_crop", "size": 30}, {"op": "flip"},
                                            {"op": "normalize", "mean": MEAN, "std": STD}, PLANAR])
        #  All that comes before images have one size is shared, nothing behind it.
        self.assertEqual([operation.get("share") for operation in T.Compose(
            [T.RandomHorizontalFlip(), T.Resize(40), T.RandomCrop(32), T.RandomVerticalFlip()]).to_json()],
            [True, None, True, None])
        #  With a limit the crop may stay each job's own; a mark is the user's word.
        self.assertEqual(T.Compose([T.Decode(max_pixels=500000), T.RandomResizedCrop(32)]).to_json()[1],
                         {"op": "random_resized_crop", "size": 32})
        marked = listed.share(1)
        self.assertEqual(marked.to_json()[:2], [{"op": "random_resized_crop", "size": 32}, SHARE])
        self.assertEqual(marked, T.Compose([T.RandomResizedCrop(32), T.Share(), *listed.transforms[1:]]))
        self.assertEqual(marked.share(1), marked)
        with self.assertRaisesRegex(ValueError, "from 0 to 5"):
            listed.share(6)

    def test_values(self) -> None:
        self.assertEqual(T.Pad(2), T.Pad((2, 2)))
        self.assertEqual(T.RandomCrop(8, 0), T.RandomCrop([8]))
        self.assertNotEqual(T.RandomCrop(8), T.CenterCrop(8))
        self.assertEqual(T.Compose([T.Compose([T.Resize(9)]), T.CenterCrop(8)]),
                         T.Compose([T.Resize(9), T.CenterCrop(8)]))
        self.assertEqual(repr(T.CenterCrop(8)), "CenterCrop(size=(8, 8))")
        for value in (T.ColorJitter(0.4, hue=(-0.1, 0.2)), recipes.imagenet_train(tensor=True)):
            self.assertEqual(pickle.loads(pickle.dumps(value)), value)
            self.assertEqual(len({value, pickle.loads(pickle.dumps(value))}), 1)
        with self.assertRaises(AttributeError):
            T.CenterCrop(8).size = 9            # type: ignore[misc]

    def test_what_cannot_be_exact_is_refused(self) -> None:
        for make, reason in (
                (lambda: T.Resize(9, "lanczos"), "lanczos.*nearest, bilinear, bicubic"),
                (lambda: T.Resize(9, 1), "none of the server's"),
                (lambda: T.Resize(9, antialias=False), "always with anti-aliasing"),
                (lambda: T.RandomResizedCrop(9, antialias=False), "always with anti-aliasing"),
                (lambda: T.Resize((9, 9), max_size=20), "one number only"),
                (lambda: T.Resize(9, max_size=9), "from 10 to 4096"),
                (lambda: T.Resize(5000), "from 1 to 4096"),
                (lambda: T.RandomResizedCrop(9, scale=(0, 1)), "above 0"),
                (lambda: T.RandomResizedCrop(9, scale=(0.5, 1.5)), "from 0 to 1"),
                (lambda: T.RandomResizedCrop(9, ratio=(2, 1)), "least, most"),
                (lambda: T.Pad(-1), "from 0 to 4096"),
                (lambda: T.Pad(1, fill=300), "from 0 to 255"),
                (lambda: T.Pad(1, fill=(1, 2)), "red, green, blue"),
                (lambda: T.Pad(1, padding_mode="wrap"), "constant, edge, reflect, symmetric"),
                (lambda: T.RandomCrop(9, 1, True, padding_mode="reflect"), "put a Pad before the crop"),
                (lambda: T.ColorJitter(-1), "from 0 to"),
                (lambda: T.ColorJitter(hue=0.6), "from 0 to 0.5"),
                (lambda: T.RandomHorizontalFlip(float("nan")), "from 0 to 1"),
                (lambda: T.RandomRotation(-1), "from 0 to 3600"),
                (lambda: T.RandomRotation(float("nan")), "from 0 to 3600"),
                (lambda: T.RandomRotation((2, 1)), "least, most"),
                (lambda: T.RandomRotation(9, "bicubic"), "nearest, bilinear"),
                (lambda: T.RandomRotation(9, center=3), "x, y"),
                (lambda: T.RandomRotation(9, center=(3, float("inf"))), "center must be from"),
                (lambda: T.RandomRotation(9, fill=(1, 2)), "red, green, blue"),
                (lambda: T.RandomAffine(9, translate=(0.1, 1.5)), "from 0 to 1"),
                (lambda: T.RandomAffine(9, translate=0.1), "across, down"),
                (lambda: T.RandomAffine(9, scale=(0, 1)), "0.001"),
                (lambda: T.RandomAffine(9, shear=(1, 2, 3)), "least, most"),
                (lambda: T.RandomAffine(9, shear=(1, 2, 3, 1e9)), "3600"),
                (lambda: T.Compose([T.ToTensor(), T.RandomRotation(9)]), "put it before ToTensor"),
                (lambda: T.RandomErasing(value="random"), "a number, or one for each channel"),
                (lambda: T.RandomErasing(value=float("inf")), "value must be from"),
                (lambda: T.RandomErasing(scale=(0.5, 1.5)), "from 0 to 1"),
                (lambda: T.Compose([T.RandomErasing()]), "put ToTensor before it"),
                (lambda: T.Compose([T.PILToTensor(), T.RandomErasing(value=0.5)]), "whole number"),
                (lambda: T.Compose([T.ToTensor(), T.RandomErasing(), T.Normalize(0, 1)]), "erases last"),
                (lambda: T.Compose([T.ToTensor(), T.RandomErasing(), T.RandomHorizontalFlip()]),
                 "erases last"),
                (lambda: T.Compose([T.PILToTensor(), T.RandomErasing(), T.ConvertImageDtype("float32")]),
                 "erases last"),
                (lambda: T.Compose([T.ToTensor(), T.RandomErasing(), T.RandomErasing()]), "once"),
                (lambda: T.RandomApply(T.RandomInvert()), "a list"),            # type: ignore[arg-type]
                (lambda: T.RandomApply([3]), "translate"),                      # type: ignore[list-item]
                (lambda: T.Compose([T.RandomApply([T.CenterCrop(3)])]), "keeps the size"),
                (lambda: T.Compose([T.RandomApply([T.Grayscale()])]), "keeps the size"),
                (lambda: T.Compose([T.RandomApply([T.ToTensor()])]), "keeps the size"),
                (lambda: T.RandomChoice([]), "1 to 16 transforms"),
                (lambda: T.RandomOrder([T.RandomInvert()] * 17), "1 to 16 transforms"),
                (lambda: T.RandomChoice([T.RandomInvert()], [1, 2]), "a weight for each"),
                (lambda: T.RandomChoice([T.RandomInvert()], 0.5),               # type: ignore[arg-type]
                 "a weight for each"),
                (lambda: T.RandomChoice([T.RandomInvert()], [0]), "not be 0 throughout"),
                (lambda: T.RandomChoice([T.RandomInvert()], [-1]), "from 0 to"),
                (lambda: T.RandomChoice([T.RandomInvert(), 3]), "translate"),   # type: ignore[list-item]
                (lambda: T.Compose([T.RandomChoice([T.RandomInvert(), T.Resize(3)])]), "keeps the size"),
                (lambda: T.Compose([T.ToTensor(), T.RandomOrder([T.RandomInvert()])]), "before ToTensor"),
                (lambda: T.GaussianBlur(4), "odd"),
                (lambda: T.GaussianBlur(257), "from 1 to 255"),
                (lambda: T.GaussianBlur((3, 3, 3)), "across, down"),
                (lambda: T.GaussianBlur(3, 0), "sigma must be from 0.001"),
                (lambda: T.GaussianBlur(3, (2, 1)), "least, most"),
                (lambda: T.PillowGaussianBlur(201), "radius must be from 0 to 200"),
                (lambda: T.Compose([T.ToTensor(), T.GaussianBlur(3)]), "put it before ToTensor"),
                (lambda: T.RandomPerspective(1.5), "distortion_scale must be from 0 to 1"),
                (lambda: T.RandomPerspective(p=2), "p must be from 0 to 1"),
                (lambda: T.ElasticTransform(-1), "alpha must be from 0 to 10000"),
                (lambda: T.ElasticTransform(sigma=32), "sigma must be from 0 to 31"),
                (lambda: T.ElasticTransform(sigma=(0, 3)),
                 r"^sigma must be 0 for both sides, or from 0.001 to 31 for both, not \(0.0, 3.0\)$"),
                (lambda: T.ElasticTransform((1, 2, 3)), r"alpha must be a number, or two \(across, down\)"),
                (lambda: T.MixUp(0, 3), "alpha must be from 0.01 to 1000"),
                (lambda: T.CutMix(), "num_classes must be given"),
                (lambda: T.Compose([T.MixUp(num_classes=2), T.CenterCrop(8)]), "put it before MixUp"),
                (lambda: T.Compose([T.MixUp(num_classes=2), T.MixUp(num_classes=2)]), "put it before MixUp"),
                (lambda: T.RandomApply([T.MixUp(num_classes=2)]).to_json(), "keeps the size"),
                (lambda: T.RandomChoice([T.MixUp(num_classes=2), T.RandomInvert()]).to_json(), "keeps the"),
                (lambda: T.RandomChoice([T.MixUp(num_classes=2), T.CutMix(num_classes=3)]).to_json(),
                 "the same num_classes"),
                (lambda: split([{"op": "mix_up"}]), "mix_up: num_classes must be given"),
                (lambda: split([{"op": "mix_up", "alpha": float("nan"), "num_classes": 2}]), "alpha must be"),
                (lambda: split([{"op": "cut_mix", "alpha": 1e9, "num_classes": 2}]), "alpha must be from"),
                (lambda: split([{"op": "cut_mix", "num_classes": 2.5}]), "must be a whole number"),
                (lambda: split([{"op": "cut_mix", "num_classes": 2, "alhpa": 1}]), "cut_mix has no 'alhpa'"),
                (lambda: split([{"op": "random_choice", "counts": [1, 1], "p": [1]},
                                *[{"op": "mix_up", "num_classes": 2}] * 2]), "a weight for each of the 2"),
                (lambda: split([{"op": "random_choice", "counts": [1], "p": [0]},
                                {"op": "mix_up", "num_classes": 2}]), "p must not be 0 throughout"),
                (lambda: T.AugMix(0), "severity must be from 1 to 10"),
                (lambda: T.AugMix(mixture_width=9), "mixture_width must be from 1 to 8"),
                (lambda: T.AugMix(chain_depth=0), "chain_depth must be from 1 to 8"),
                (lambda: T.AugMix(alpha=0), "alpha must be from 0.1 to 100"),
                (lambda: T.RandAugment(17), "from 0 to 16"),
                (lambda: T.RandAugment(magnitude=31), "magnitude must be from 0 to 30"),
                (lambda: T.RandAugment(magnitude=9.5), "whole number"),         # type: ignore[arg-type]
                (lambda: T.RandAugment(num_magnitude_bins=1), "from 2 to 1000"),
                (lambda: T.TrivialAugmentWide(10**9), "from 2 to 1000"),
                (lambda: T.AutoAugment("mnist"), "imagenet, cifar10, svhn"),
                (lambda: T.AutoAugment(interpolation="bicubic"), "nearest, bilinear"),
                (lambda: T.Compose([T.ToTensor(), T.RandAugment()]), "put it before ToTensor"),
                (lambda: T.RandomPosterize(9), "from 0 to 8"),
                (lambda: T.RandomPosterize(2.5), "whole number"),
                (lambda: T.RandomSolarize(float("nan")), "from 0 to 256"),
                (lambda: T.RandomAdjustSharpness(1e9), "from 0 to 100"),
                (lambda: T.RandomEqualize(-0.1), "from 0 to 1"),
                (lambda: T.Compose([T.ToTensor(), T.RandomInvert()]), "put it before ToTensor"),
                (lambda: T.Normalize(MEAN, 0), "1e-06"),
                (lambda: T.Normalize([0, 0], 1), "1 or 3 channels"),
                (lambda: T.Cast("float64"), "none of the server's"),
                (lambda: T.Layout("CHW"), "NHWC"),
                (lambda: T.Compose([T.ToTensor(), T.Resize(9)]), "put it before ToTensor"),
                (lambda: T.Compose([T.PILToTensor(), T.Grayscale()]), "put it before ToTensor"),
                (lambda: T.Compose([T.PILToTensor(), T.Normalize(0, 1)]), "takes floats"),
                (lambda: T.Compose([T.ToTensor(), T.ToTensor()]), "a tensor already"),
                (lambda: T.Compose([T.ToTensor(), T.Pad(1, fill=1)]), "a colour"),
                (lambda: T.Compose([T.ToTensor(), T.Normalize(MEAN, STD), T.RandomCrop(9, 1)]),
                 "before Normalize"),
                (lambda: T.Compose([T.ToTensor(), T.Normalize(MEAN, STD), T.CenterCrop(9)]),
                 "before Normalize"),
                (lambda: T.Compose([T.Normalize(0, 1), T.Normalize(0, 1)]), "once"),
                (lambda: T.Compose([T.ToTensor(), T.ConvertImageDtype("float16"), T.Normalize(0, 1)]),
                 "behind this"),
                (lambda: T.Compose([T.ToTensor(), T.ConvertImageDtype("uint8")]), "no whole numbers"),
                (lambda: T.ConvertImageDtype("float32").to_json(), "PILToTensor before"),
                (lambda: T.Compose([T.Cast("float16"), T.Cast("float32")]), "already"),
                (lambda: T.Compose([T.ToTensor(), T.Share()]), "each job by itself"),
                (lambda: T.Compose([T.Share(), T.Share()]), "one already"),
                (lambda: T.Compose([T.CenterCrop(3), T.Decode()]), "first"),
                (lambda: T.Compose([{"op": "flip"}]), "translate"),  # type: ignore[list-item]
                (lambda: T.Compose(T.CenterCrop(3)), "brackets")):  # type: ignore[arg-type]
            with self.subTest(reason), self.assertRaisesRegex((ValueError, TypeError), reason):
                make()

    def test_all_that_is_unsupported_is_listed(self) -> None:
        with self.assertRaises(T.UnsupportedTransform) as caught:
            T.Compose([T.ToTensor(), T.Resize(9), T.RandomHorizontalFlip(), T.ColorJitter(1)])
        self.assertNotIn("to the batch", str(caught.exception), "the order is all that is wrong")
        self.assertEqual(caught.exception.unsupported, (T.Resize(9), T.ColorJitter(1)))
        text = str(caught.exception)
        for part in ("2 of 4 transforms", "2. Resize(size=9", "4. ColorJitter(",
                     "Supported: AutoAugment, CenterCrop, "):
            self.assertIn(part, text)


class Version2(unittest.TestCase):
    """torchvision.transforms.v2, of which Debian's torchvision has nothing: by classes that are named as its
    are."""

    @staticmethod
    def theirs(name: str, **attributes: Any) -> Any:
        return type(name, (), {"__module__": "torchvision.transforms.v2._any", "__call__": lambda self,
                               image: image,
                               **attributes})()

    def test_translated(self) -> None:
        crop = self.theirs("RandomResizedCrop", size=(32, 32), scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3),
                           antialias=True, interpolation=T.InterpolationMode.BILINEAR)
        normalize = self.theirs("Normalize", mean=MEAN, std=STD, inplace=False)
        image, floats = self.theirs("ToImage"), self.theirs("ToDtype", dtype="torch.float32", scale=True)
        given = self.theirs("Compose", transforms=[crop, image, floats, normalize,
                                                   self.theirs("ToPureTensor")])
        self.assertEqual(T.translate(given), T.Compose([
            T.RandomResizedCrop(32), T.PILToTensor(), T.ConvertImageDtype("float32", reciprocal=True),
            T.Normalize(MEAN, STD)]))
        self.assertEqual(T.translate(given).to_json()[1:], [
            {**NORMALIZE, "mean": MEAN, "std": STD, "reciprocal": True}, PLANAR])
        augment = self.theirs("RandAugment", num_ops=2, magnitude=9, num_magnitude_bins=31, fill=None,
                              interpolation=T.InterpolationMode.NEAREST)
        turn = self.theirs("RandomRotation", degrees=[-10, 10], expand=False, center=None, fill=3,
                           interpolation=T.InterpolationMode.BILINEAR)
        self.assertEqual(T.translate([augment, turn, self.theirs("RandomInvert", p=0.5)]), T.Compose([
            T.RandAugment(unit_threshold=True), T.RandomRotation(10, "bilinear", fill=3), T.RandomInvert()]))
        with self.assertRaises(T.UnsupportedTransform):
            T.translate(self.theirs("RandomAffine", degrees=[0, 0], translate=None, scale=None, shear=None,
                                    center=None, fill={}, interpolation=T.InterpolationMode.NEAREST))
        blur = self.theirs("GaussianBlur", kernel_size=[5, 7], sigma=[0.2, 3.0])
        self.assertEqual(T.translate(blur), T.Compose([T.GaussianBlur((5, 7), (0.2, 3))]))
        invert, tilt = self.theirs("RandomInvert", p=0.5), self.theirs(
            "RandomPerspective", p=0.5, distortion_scale=0.2, fill=0,
            interpolation=T.InterpolationMode.BILINEAR)
        several = [self.theirs("RandomChoice", transforms=[invert, tilt], p=[0.25, 0.75]),
                   self.theirs("RandomOrder", transforms=[tilt, invert])]
        self.assertEqual(T.translate(several), T.Compose([
            T.RandomChoice([T.RandomInvert(), T.RandomPerspective(0.2)], [0.25, 0.75]),
            T.RandomOrder([T.RandomPerspective(0.2), T.RandomInvert()])]))
        mixes = [self.theirs("MixUp", alpha=0.2, num_classes=3),
                 self.theirs("CutMix", alpha=1.0, num_classes=3)]
        self.assertEqual(T.translate([image, self.theirs("RandomChoice", transforms=mixes, p=[0.5, 0.5])]),
                         T.Compose([T.PILToTensor(), T.RandomChoice(
                             [T.MixUp(0.2, 3), T.CutMix(num_classes=3)], [0.5, 0.5])]))
        with self.assertRaisesRegex(T.UnsupportedTransform, "num_classes must be given"):
            T.translate(self.theirs("MixUp", alpha=0.2, num_classes=None))
        plain = self.theirs("ToDtype", dtype="torch.float16", scale=False)
        self.assertEqual(T.translate([image, plain]).to_json(), [{"op": "cast", "dtype": "float16"}, PLANAR])
        with self.assertRaises(T.UnsupportedTransform) as caught:
            T.translate([image, plain, normalize, self.theirs("JPEG"),
                         self.theirs("ToDtype", dtype={}, scale=True)])
        self.assertEqual([place for place, _, _ in caught.exception.problems], [3, 4, 5])


def turned(image: Any) -> Any:
    return image.transpose(2)


class Splitting(unittest.TestCase):
    """The longest head, and the rest as a function."""
    CROP = T.RandomResizedCrop(4)

    def test_where_it_is_cut(self) -> None:
        blur, image = Version2.theirs("JPEG"), Version2.theirs("ToImage")
        flip = Version2.theirs("RandomHorizontalFlip", p=0.5)
        crop = Version2.theirs("CenterCrop", size=(4, 4))
        for given, head, left in (
                ([self.CROP, blur, flip], [self.CROP], 2),
                (Version2.theirs("Compose", transforms=[[self.CROP, flip], crop, image, flip, blur]),
                 [self.CROP, T.RandomHorizontalFlip(), T.CenterCrop(4), T.PILToTensor(),
                  T.RandomHorizontalFlip()], 1),
                ([T.Resize(8), self.CROP, image, self.CROP], [T.Resize(8), self.CROP, T.PILToTensor()], 1),
                ([self.CROP, T.Views(2), turned], [self.CROP], 2),
                ([self.CROP, T.FiveCrop(2), turned], [self.CROP], 2),
                ([self.CROP, turned, T.MixUp(num_classes=3)], [self.CROP], 2)):
            cut = T.split(given)
            assert cut.map is not None
            self.assertEqual((cut.transform, len(cut.map.transforms)), (T.Compose(head), left))
        self.assertRegex(str(T.split([self.CROP, turned, blur])),
                         "^by the server: RandomResizedCrop; by map=: turned, JPEG [(]Python code, .*[)]$")
        whole = T.split([self.CROP, flip])
        self.assertEqual(whole, (T.Compose([self.CROP, T.RandomHorizontalFlip()]), None))
        self.assertTrue(str(whole).endswith("; by map=: nothing"))
        self.assertTrue(T.split([T.Resize((8, 8)), turned], pillow13=True).transform.transforms[0].pillow13)

    def test_what_cannot_be_cut(self) -> None:
        for given, place in (([turned], 1), ([T.Resize(8), turned], 2),
                             ([Version2.theirs("ToImage"), self.CROP], 2)):
            with self.assertRaisesRegex(T.UnsupportedTransform, "images still differ in size") as caught:
                T.split(given)
            self.assertEqual(caught.exception.problems[0][0], place)
        with self.assertRaisesRegex(ValueError, "no transform to be split"):
            T.split([])

    def test_masks_do_not_follow_the_rest(self) -> None:
        flip = Version2.theirs("RandomHorizontalFlip", p=0.5)
        for beside in ("mask", T.DecodeMask("depth"), T.DecodeBoxes((9, 5), "boxes")):
            decode = T.Decode(["image", beside])
            with self.assertRaisesRegex(T.UnsupportedTransform, "done to the image alone") as caught:
                T.split([decode, self.CROP, turned, flip])
            self.assertEqual(caught.exception.unsupported, (turned,))
            self.assertIsNone(T.split([decode, self.CROP, flip]).map)
        tokens = T.DecodeArray("int32", [512], ragged=True, field="tokens")
        for decode in (T.Decode(), T.Decode(["image", tokens])):
            self.assertIsNotNone(T.split([decode, T.Share(), self.CROP, turned, flip]).map)

    @unittest.skipUnless(V, "torchvision or Pillow is not installed")
    def test_the_rest(self) -> None:
        """Of samples of both loaders, behind an image and behind a tensor; it can be pickled."""
        pixels = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)
        tensor = torch.from_numpy(pixels).movedim(-1, 0)
        picture = np.asarray(turned(Image.fromarray(pixels)))
        self.assertEqual(picture.shape, (5, 4, 3))
        rest = pickle.loads(pickle.dumps(T.split([self.CROP, turned]).map))
        image, label = rest((tensor, 3))
        self.assertEqual((label, image.is_contiguous()), (3, True))
        self.assertTrue(np.array_equal(image.movedim(0, -1).numpy(), picture))
        self.assertTrue(np.array_equal(rest(tensor).movedim(0, -1).numpy(), picture))
        named = rest({"image": pixels, "label": 3})
        self.assertEqual(named["label"], 3)
        self.assertTrue(np.array_equal(named["image"], picture))
        grey = rest({"image": pixels[..., :1]})["image"]
        self.assertTrue(np.array_equal(grey, picture[..., 0]))
        behind = T.split([self.CROP, T.ToTensor(), abs, V.Normalize(0.5, 0.5)]).map
        assert behind is not None
        floats = tensor.float() / 255
        self.assertTrue(torch.equal(behind((floats, 3))[0], V.Normalize(0.5, 0.5)(floats)))
        self.assertTrue(np.array_equal(behind({"image": floats.numpy()})["image"],
                                       V.Normalize(0.5, 0.5)(floats).numpy()))
        whole = T.split([self.CROP, turned, V.ToTensor()]).map
        assert whole is not None
        self.assertTrue(torch.equal(whole(tensor), V.ToTensor()(turned(Image.fromarray(pixels)))))

    def test_albumentations_get_arrays(self) -> None:
        theirs = type("Compose", (), {"__module__": "albumentations.core.composition",
                                      "__call__": lambda self, image: {"image": image[::2]}})()
        cut = T.split([self.CROP, theirs])
        assert cut.map is not None
        pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
        self.assertTrue(np.array_equal(cut.map({"image": pixels})["image"], pixels[::2]))


class Mixes(unittest.TestCase):
    """What is drawn for a batch."""

    def test_draws_stay_what_they_are(self) -> None:
        recipe = split([{"op": "random_choice", "counts": [1, 1]}, T.MixUp(0.2, 3).operation(),
                        T.CutMix(1.0, 3).operation()])[1]
        assert recipe is not None
        drawn = [recipe.draw((7, epoch, 3, 41), 30, 50) for epoch in range(4)]
        self.assertEqual([(round(one.share, 12), one.box) for one in drawn], GOLDEN)

    def test_shares_and_boxes_are_as_torchvision_draws_them(self) -> None:
        """Mean and variance of Beta (alpha, alpha); boxes around uniform middles, and as large as is said."""
        rounds = 4000
        for alpha in (0.1, 1.0, 8.0):
            recipe = split([T.MixUp(alpha, 3).operation()])[1]
            assert recipe is not None
            shares = np.array([recipe.draw((1, 0, place, 5), 8, 8).share for place in range(rounds)])
            variance = 1 / (4 * (2 * alpha + 1))
            self.assertLess(abs(shares.mean() - 0.5), 6 * (variance / rounds) ** 0.5)
            self.assertLess(abs(shares.var() / variance - 1), 0.25)
        recipe = split([T.CutMix(1.0, 3).operation()])[1]
        assert recipe is not None
        for place in range(rounds):
            share, box = recipe.draw((1, 0, place, 5), 20, 30)
            assert box is not None
            top, left, bottom, right = box
            self.assertTrue(0 <= top <= bottom <= 20 and 0 <= left <= right <= 30)
            self.assertAlmostEqual(share, 1 - (bottom - top) * (right - left) / 600)


@unittest.skipUnless(os.path.exists(TUREEN), f"no server's parser: {TUREEN} is not built")
class Parser(unittest.TestCase):
    """The server takes all of it."""

    def test_lists(self) -> None:
        small = [T.Resize((40, 44)), T.Share()]
        lists: List[Any] = [recipes.imagenet_train(auto_augment=name)
                            for name in (None, "ra", "ta_wide", "imagenet", "svhn")]
        lists += [recipes.imagenet_train(96, color_jitter=0.4, tensor=True), recipes.imagenet_eval(),
                  recipes.imagenet_eval(299, resize=342, interpolation="bicubic", tensor=True),
                  recipes.imagenet_train(random_erase=0.1, tensor=True), recipes.timm_train(),
                  recipes.timm_train(random_erase=0.25, tensor=True), recipes.timm_eval(288, crop_pct=0.95),
                  recipes.cifar_train(), recipes.cifar_train(padding_mode="reflect", tensor=True),
                  recipes.cifar_eval(tensor=True), recipes.mnist(tensor=True), recipes.moco_v2(),
                  recipes.moco_v2(64, views=4, tensor=True)]
        lists += [T.Compose(steps) for steps in (
            [T.RandomHorizontalFlip(1), T.Resize(50), T.RandomCrop(48), T.RandomVerticalFlip(), T.ToTensor()],
            [T.Views(2), T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.ColorJitter(0.4, 0.4, 0.4, 0.1),
             T.PILToTensor()],
            [T.Decode(max_pixels=10**6), T.RandomResizedCrop(32, (0.2, 1), (1, 2), "nearest"),
             T.RandomGrayscale()],
            [T.Decode(["image"], exact=False, orientation=True), T.Resize(40, "bicubic", 60),
             T.CenterCrop((32, 30))],
            [*small, T.RandomCrop((32, 30), (1, 2, 3, 4), True, (9, 8, 7), "constant", 3),
             T.Cast("bfloat16")],
            [*small, T.Pad((1, 2), padding_mode="symmetric"), T.Normalize(0.5, [0.2])],
            [*small, T.RandomGrayscale(1), T.ToTensor(), T.Layout("NHWC")],
            [T.RandomResizedCrop(32, share=True), T.RandomHorizontalFlip(0, share=True)],
            [*small, T.RandomInvert(), T.RandomPosterize(3), T.RandomSolarize(99.5, 0.2),
             T.RandomAutocontrast(), T.RandomEqualize(), T.RandomAdjustSharpness(2)],
            [T.RandomRotation(30, "bilinear", True, fill=(1, 2, 3)), T.CenterCrop(40),
             T.RandomRotation((10, 20), center=(3, 4), mask_fill=9), T.RandomAffine(0),
             T.RandomAffine(9, (0.1, 0.2), (0.5, 2), (1, 2, 3, 4), "bilinear", 7, (0, 0))],
            [*small, T.RandAugment(16, 999, 1000, "bilinear", (1, 2, 3), 4, True), T.TrivialAugmentWide(2),
             T.AutoAugment("cifar10", "bilinear", 9)],
            [*small, T.GaussianBlur(23), T.GaussianBlur((255, 1), (5, 9)), T.PillowGaussianBlur(),
             T.PillowGaussianBlur(200), T.RandomApply([T.PillowGaussianBlur()])],
            [*small, T.RandomChoice([T.RandomGrayscale(1), T.RandomSolarize(128, 1),
                                     T.PillowGaussianBlur()]),
             T.RandomOrder([T.Compose([T.RandomInvert(), T.RandomEqualize()]), T.ColorJitter(1),
                            T.RandomChoice([T.Compose([]), T.RandAugment()], (1, 0.25))])],
            [*small, T.AugMix(), T.AugMix(10, 8, 8, 0.1, False, "nearest", (1, 2, 3))],
            [T.Resize(40), T.FiveCrop(32), T.RandomHorizontalFlip(), T.ToTensor()],
            [*small, T.TenCrop(9, True)],
            [*small, T.ElasticTransform(), T.ElasticTransform(9, (0.001, 31), "nearest", (1, 2, 3), 4)],
            [*small, T.RandomPerspective(), T.RandomPerspective(1, 1, "nearest", (1, 2, 3), 4)],
            [*small, T.ToTensor(), T.Normalize(MEAN, STD), T.RandomErasing(0.3, value=MEAN)],
            [*small, T.Grayscale(), T.PILToTensor(), T.RandomErasing(value=7)],
            [T.RandomApply([T.ColorJitter(0.4), T.RandomGrayscale()], 0.8), T.RandomResizedCrop(32)])]
        with tempfile.TemporaryDirectory() as folder:
            for number, pipeline in enumerate(lists):
                with self.subTest(pipeline):
                    prepare(pipeline.to_json(), [PHOTO], f"{folder}/out{number}")


class Pixels:
    """Exactly what torchvision makes of an image, whatever it leaves no choice in."""
    V: Any
    folder: Any
    files: List[str]

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        generator = np.random.default_rng(5)
        cls.files = []
        for number, (width, height) in enumerate(((61, 47), (40, 83))):
            waves = 128 + 110 * np.sin(np.arange(width * height * 3).reshape(height, width, 3) / (7 + number))
            pixels = np.clip(waves + generator.normal(0, 20, waves.shape), 0, 255).astype(np.uint8)
            cls.files.append(f"{cls.folder.name}/{number}.png")
            Image.fromarray(pixels).save(cls.files[-1])

    def same(self, given: Any) -> None:
        """given: torchvision's, on each file, beside the server with what translate makes of it."""
        pipeline = T.translate(given, pillow13=PILLOW13)
        with tempfile.TemporaryDirectory() as out:
            prepare(pipeline.to_json(), self.files, out)
            for file in self.files:
                theirs = given(Image.open(file).convert("RGB"))
                theirs = theirs.numpy() if isinstance(theirs, torch.Tensor) else np.asarray(theirs)
                theirs = theirs[:, :, None] if theirs.ndim == 2 else theirs
                ours = np.load(f"{out}/{os.path.basename(file)}.npy")
                self.assertEqual((ours.dtype, ours.shape), (theirs.dtype, theirs.shape), given)
                np.testing.assert_array_equal(ours, theirs, str(given))

    def test_pixels(self) -> None:
        V = self.V
        nearest, bicubic = V.InterpolationMode.NEAREST, V.InterpolationMode.BICUBIC
        one = V.Resize((36, 44))
        for given in (
                [V.Resize((31, 77))], [V.Resize(33, bicubic), V.CenterCrop((30, 50))],
                [V.Resize(33, bicubic), V.CenterCrop((30, 50)), _convert_image_to_rgb, V.ToTensor()],
                [V.Resize([20], max_size=30), V.CenterCrop(90), V.PILToTensor()],
                [V.Resize((90, 20), nearest)],
                [one, V.Pad((1, 2), (9, 200, 77))], [one, V.Pad([1, 2, 3, 4], padding_mode="edge"),
                                                     V.ToTensor()],
                [one, V.Pad(7, padding_mode="reflect")], [one, V.PILToTensor(), V.Pad([7], 9, "symmetric")],
                [one, V.RandomCrop((40, 48), 2, fill=77)], [one, V.RandomCrop((36, 44), pad_if_needed=True)],
                [one, V.RandomHorizontalFlip(1), V.RandomVerticalFlip(1), V.RandomHorizontalFlip(0)],
                [one, V.ToTensor(), V.Normalize(MEAN, STD), V.RandomHorizontalFlip(1),
                 V.RandomCrop((36, 44))],
                [one, V.ColorJitter((1.7, 1.7))], [one, V.ColorJitter(contrast=(0.3, 0.3))],
                [one, V.ColorJitter(saturation=(2.5, 2.5))], [one, V.ColorJitter(hue=(-0.3, -0.3))],
                [one, V.RandomRotation((33.3, 33.3))], [one, V.RandomRotation((180, 180))],
                [one, V.RandomRotation((-47, -47), V.InterpolationMode.BILINEAR, fill=(9, 200, 77))],
                [V.RandomRotation((20, 20), expand=True, fill=5), V.CenterCrop(70)],
                [V.RandomRotation((90, 90), expand=True), V.CenterCrop(50)],
                [one, V.RandomRotation((5, 5), center=(0, 7))],
                [one, V.RandomAffine((12, 12), scale=(0.8, 0.8), shear=(5, 5))],
                [one, V.RandomAffine((12, 12), scale=(1.3, 1.3), shear=(5, 5, -9, -9), fill=7.9,
                                     interpolation=V.InterpolationMode.BILINEAR, center=(2, 3))],
                [one, V.RandomAffine((0, 0), scale=(0.5, 0.5))],
                [one, V.Grayscale(), V.RandomRotation((15, 15)), V.RandomAffine((9, 9), fill=200)],
                [one, V.RandomInvert(1)], [one, V.RandomPosterize(3, 1)], [one, V.RandomSolarize(99.5, 1)],
                [one, V.RandomAutocontrast(1)], [one, V.RandomEqualize(1)],
                [one, V.RandomAdjustSharpness(0, 1)], [one, V.RandomAdjustSharpness(2.7, 1)],
                [one, V.Grayscale(), V.RandomEqualize(1), V.RandomAdjustSharpness(3, 1)],
                [one, V.Grayscale(), V.RandomAutocontrast(1), V.RandomPosterize(2, 1), V.RandomInvert(1)],
                [one, V.Grayscale(), V.ColorJitter(contrast=(1.6, 1.6))], [one, V.Grayscale(3)],
                [one, V.RandomGrayscale(1)], [one, V.Grayscale(), V.RandomGrayscale(1)],
                [one, V.Grayscale(), V.ToTensor(), V.Normalize((0.1307,), (0.3081,))],
                [one, V.ToTensor(), V.ConvertImageDtype(torch.float16)],
                [one, V.PILToTensor(), V.ConvertImageDtype(torch.float32), V.Normalize([0.5], [0.25])],
                [V.CenterCrop(61), V.ToTensor(), V.RandomApply([V.RandomVerticalFlip(1)], 1)],
                [V.CenterCrop(33), V.RandomResizedCrop((50, 60), (1, 1), (1, 1), bicubic)]):
            with self.subTest(given):
                self.same(V.Compose(given))

    def test_every_value_of_a_byte(self) -> None:
        """Floats from bytes: each of the 256, as torchvision rounds."""
        V = self.V
        ramp = np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(3, 2)
        file = f"{self.folder.name}/ramp.png"
        Image.fromarray(ramp).save(file)
        files, type(self).files = self.files, [file]
        try:
            for given in ([V.ToTensor()], [V.ToTensor(), V.Normalize(MEAN, STD)],
                          [V.ToTensor(), V.Normalize(MEAN, STD), V.ConvertImageDtype(torch.float16)]):
                self.same(V.Compose([V.Resize((16, 16)), *given]))
        finally:
            type(self).files = files


@unittest.skipIf(V is None or not os.path.exists(TUREEN), "torchvision or the server's decoder is missing")
class Torchvision(Pixels, unittest.TestCase):
    V = V

    def test_parameters(self) -> None:
        """What is random: by its parameters, as they are kept there."""
        whole = [V.RandomResizedCrop([96], (0.2, 0.9), (0.5, 2), V.InterpolationMode.BICUBIC),
                 V.RandomHorizontalFlip(0.3), V.RandomVerticalFlip(),
                 V.ColorJitter(0.4, (0.2, 1.5), 0.3, 0.1), V.RandomGrayscale(0.2),
                 V.RandomCrop((90, 80), [3], True, (1, 2, 3)), V.ToTensor(), V.Normalize(MEAN, STD)]
        expected = T.Compose([
            T.RandomResizedCrop(96, (0.2, 0.9), (0.5, 2), "bicubic"), T.RandomHorizontalFlip(0.3),
            T.RandomVerticalFlip(), T.ColorJitter(0.4, (0.2, 1.5), 0.3, 0.1), T.RandomGrayscale(0.2),
            T.RandomCrop((90, 80), 3, True, (1, 2, 3)), T.ToTensor(), T.Normalize(MEAN, STD)])
        self.assertEqual(T.translate(V.Compose(whole)), expected)
        self.assertEqual(T.translate(whole), expected)
        self.assertEqual(T.translate(expected), expected)
        points = [V.RandomInvert(0.1), V.RandomPosterize(3, 0.2), V.RandomSolarize(77, 0.3),
                  V.RandomAutocontrast(0.4), V.RandomEqualize(0.6), V.RandomAdjustSharpness(1.5, 0.7),
                  V.GaussianBlur(3), V.GaussianBlur((5, 7), (1, 2.5)), V.GaussianBlur(9, 2)]
        self.assertEqual(T.translate(points), T.Compose([
            T.RandomInvert(0.1), T.RandomPosterize(3, 0.2), T.RandomSolarize(77, 0.3),
            T.RandomAutocontrast(0.4), T.RandomEqualize(0.6), T.RandomAdjustSharpness(1.5, 0.7),
            T.GaussianBlur(3), T.GaussianBlur((5, 7), (1, 2.5)), T.GaussianBlur(9, 2)]))
        self.assertEqual(T.translate([V.ToTensor(), V.RandomErasing(0.25, (0.1, 0.2), (1, 2), (1, 2, 3))]),
                         T.Compose([T.ToTensor(), T.RandomErasing(0.25, (0.1, 0.2), (1, 2), (1, 2, 3))]))
        self.assertEqual(T.translate([V.RandomApply([V.ColorJitter(0.4), V.RandomInvert()], 0.8)]),
                         T.Compose([T.RandomApply([T.ColorJitter(0.4), T.RandomInvert()], 0.8)]))
        several = [V.RandomChoice([V.RandomInvert(), torch.nn.Identity(),
                                   V.Compose([V.RandomEqualize(), V.RandomHorizontalFlip()])], [1, 2, 3]),
                   V.RandomOrder([V.ColorJitter(0.4), V.RandomApply([V.RandomInvert()])])]
        self.assertEqual(T.translate(several), T.Compose([
            T.RandomChoice([T.RandomInvert(), T.Compose([]),
                            T.Compose([T.RandomEqualize(), T.RandomHorizontalFlip()])], [1, 2, 3]),
            T.RandomOrder([T.ColorJitter(0.4), T.RandomApply([T.RandomInvert()])])]))
        bilinear = V.InterpolationMode.BILINEAR
        policies = [V.RandAugment(), V.RandAugment(3, 4, 10, bilinear, [1, 2, 3]), V.TrivialAugmentWide(7),
                    V.AutoAugment(), V.AutoAugment(V.AutoAugmentPolicy.CIFAR10, bilinear, 5.0)]
        self.assertEqual(T.translate(policies), T.Compose([
            T.RandAugment(), T.RandAugment(3, 4, 10, "bilinear", (1, 2, 3)), T.TrivialAugmentWide(7),
            T.AutoAugment(), T.AutoAugment("cifar10", "bilinear", 5)]))
        maps = [V.RandomRotation(10), V.RandomRotation((3, 5), V.InterpolationMode.BILINEAR, True, (1, 2), 9),
                V.CenterCrop(9), V.RandomPerspective(), V.RandomPerspective(
                    0.2, 0.9, V.InterpolationMode.NEAREST, (1, 2, 3)), V.RandomAffine(20),
                V.RandomAffine((1, 2), (0.1, 0.3), (0.5, 1), 9, fill=None),
                V.RandomAffine(1, shear=(1, 2, 3, 4), interpolation=V.InterpolationMode.BILINEAR,
                               fill=[1, 2, 3], center=[5, 6])]
        self.assertEqual(T.translate(maps), T.Compose([
            T.RandomRotation(10), T.RandomRotation((3, 5), "bilinear", True, (1, 2), 9),
            T.CenterCrop(9), T.RandomPerspective(), T.RandomPerspective(0.2, 0.9, "nearest", (1, 2, 3)),
            T.RandomAffine(20),
            T.RandomAffine((1, 2), (0.1, 0.3), (0.5, 1), 9),
            T.RandomAffine(1, None, None, (1, 2, 3, 4), "bilinear", (1, 2, 3), (5, 6))]))
        elastic = [V.ElasticTransform(), V.ElasticTransform([9., 3.], 2., V.InterpolationMode.NEAREST, 7)]
        with mock.patch.object(sys.modules["torchvision"], "__version__", "0.26.0+cpu"):
            self.assertEqual(T.translate(elastic), T.Compose([
                T.ElasticTransform(), T.ElasticTransform((9, 3), 2, "nearest", 7)]))
        with mock.patch.object(sys.modules["torchvision"], "__version__", "0.25.1"), \
                self.assertRaisesRegex(T.UnsupportedTransform, "before torchvision 0.26"):
            T.translate(elastic)
        crops = [V.RandomInvert(), V.TenCrop((8, 9), True), V.Grayscale()]
        self.assertEqual(T.translate(crops), T.Compose([T.RandomInvert(), T.TenCrop((8, 9), True),
                                                        T.Grayscale()]))
        self.assertEqual(T.translate(V.FiveCrop(8)), T.Compose([T.FiveCrop(8)]))
        for more, reason in ((V.RandomInvert(), "the same to all crops"), (V.FiveCrop(4), "leave one of"),
                             (T.MixUp(num_classes=2), "a stack of crops")):
            with self.assertRaisesRegex(T.UnsupportedTransform, reason):
                T.translate([V.FiveCrop(8), more])
        modules = torch.nn.Sequential(V.CenterCrop(8), torch.nn.Identity(),
                                      torch.nn.Sequential(V.RandomHorizontalFlip()))
        self.assertEqual(T.translate(modules), T.Compose([T.CenterCrop(8), T.RandomHorizontalFlip()]))
        resizes = [V.Resize(8), V.RandomResizedCrop(8), V.RandomHorizontalFlip()]
        self.assertEqual(T.translate(resizes, pillow13=True), T.Compose([
            T.Resize(8, pillow13=True), T.RandomResizedCrop(8, pillow13=True), T.RandomHorizontalFlip()]))
        for name in ("RandomResizedCrop", "RandomCrop", "CenterCrop", "Resize"):
            self.assertEqual(T.translate(getattr(V, name)(8)), T.Compose([getattr(T, name)(8)]), "defaults")
        for name in ("RandomInvert", "RandomAutocontrast", "RandomEqualize", "ColorJitter",
                     "RandomGrayscale", "RandomHorizontalFlip", "RandomVerticalFlip",
                     "Grayscale"):
            self.assertEqual(T.translate(getattr(V, name)()), T.Compose([getattr(T, name)()]), "defaults")

    def test_presets(self) -> None:
        from torchvision.transforms._presets import ImageClassification
        self.assertEqual(T.translate(ImageClassification(crop_size=224)), T.Compose(
            [T.Resize(256), T.CenterCrop(224), T.ToTensor(), T.Normalize(MEAN, STD)]))
        self.assertEqual(T.translate(ImageClassification(crop_size=224)).share(2),
                         recipes.imagenet_eval(tensor=True))

    def test_refused(self) -> None:
        class Mine(V.CenterCrop):
            pass
        given = [V.RandomResizedCrop(8, interpolation=V.InterpolationMode.LANCZOS), V.CenterCrop(8),
                 V.LinearTransformation(torch.eye(3), torch.zeros(3)), V.RandomApply([V.Lambda(len)], 0.8),
                 V.Lambda(lambda image: image),
                 Mine(8), V.Normalize(0.5, 0.5), V.ToTensor(), V.Resize(9),
                 V.RandomErasing(value="random"), len, 5, V.RandomChoice([V.Lambda(len)]),
                 V.RandomOrder([V.CenterCrop(3)]), V.AugMix()]
        with self.assertRaises(T.UnsupportedTransform) as caught:
            T.translate(V.Compose(given))
        problems = {place: reason for place, _, reason in caught.exception.problems}
        self.assertEqual(list(problems), [1, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15])
        for place, part in ((1, "lanczos"), (3, "no such operation"), (4, "Python code"), (5, "Python code"),
                            (6, "own"),
                            (7, "put ToTensor before"), (9, "put it before ToTensor"), (10, "'random'"),
                            (12, "not a transform"), (13, "Python code"), (14, "put it before ToTensor"),
                            (15, "tureen.transforms.AugMix")):
            self.assertIn(part, problems[place])
        self.assertEqual(caught.exception.unsupported, tuple(given[place - 1] for place in problems))
        self.assertIn("What is left", str(caught.exception))


@unittest.skipIf(V2 is None or not os.path.exists(TUREEN), "torchvision's v2 or the server is missing")
class TorchvisionV2(Pixels, unittest.TestCase):
    """Not of Debian's torchvision, which has no v2: see docs/pipeline.md for how to run it."""
    V = V2

    def test_floats(self) -> None:
        """As v2's own documents end a list, and its reference training: each value of a byte."""
        ramp = np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(3, 2)
        type(self).files, files = [f"{self.folder.name}/floats.png"], self.files
        Image.fromarray(ramp).save(self.files[0])
        try:
            for tensor in (V2.ToImage(), V2.PILToTensor()):
                for dtype in (torch.float32, torch.float16):
                    self.same(V2.Compose([V2.Resize((16, 16)), tensor, V2.ToDtype(dtype, scale=True)]))
                self.same(V2.Compose([V2.Resize((16, 16)), tensor, V2.ToDtype(torch.float32, scale=True),
                                      V2.Normalize(MEAN, STD), V2.ToPureTensor()]))
                self.same(V2.Compose([V2.Resize((16, 16)), tensor, V2.ToDtype(torch.float32)]))
        finally:
            type(self).files = files

    def test_reference_presets(self) -> None:
        """The lists of the reference training with --use-v2 and --backend pil."""
        mode = V.InterpolationMode.BILINEAR
        policies = {
            V2.RandAugment(interpolation=mode, magnitude=5):
                T.RandAugment(magnitude=5, interpolation="bilinear", unit_threshold=True),
            V2.TrivialAugmentWide(interpolation=mode):
                T.TrivialAugmentWide(interpolation="bilinear", unit_threshold=True),
            V2.AutoAugment(policy=V2.AutoAugmentPolicy("imagenet"), interpolation=mode):
                T.AutoAugment(interpolation="bilinear", unit_threshold=True)}
        for policy, ours in policies.items():
            given = [V2.RandomResizedCrop(176, interpolation=mode, antialias=True),
                     V2.RandomHorizontalFlip(0.5), policy, V2.PILToTensor(),
                     V2.ToDtype(torch.float, scale=True), V2.Normalize(mean=MEAN, std=STD),
                     V2.RandomErasing(p=0.1), V2.ToPureTensor()]
            self.assertEqual(T.translate(V2.Compose(given)), T.Compose([
                T.RandomResizedCrop(176), T.RandomHorizontalFlip(), ours, T.PILToTensor(),
                T.ConvertImageDtype("float32", reciprocal=True), T.Normalize(MEAN, STD),
                T.RandomErasing(0.1)]))
        self.same(V2.Compose([V2.Resize(40, interpolation=mode, antialias=True),
                              V2.CenterCrop(33), V2.PILToTensor(), V2.ToDtype(torch.float, scale=True),
                              V2.Normalize(mean=MEAN, std=STD), V2.ToPureTensor()]))

    def test_tensors_are_refused(self) -> None:
        """What torchvision does to a tensor otherwise than to an image, as with --backend tensor."""
        with self.assertRaises(T.UnsupportedTransform) as caught:
            T.translate(V2.Compose([V2.ToImage(), V2.RandomResizedCrop(8, antialias=True)]))
        self.assertIn("put it before ToTensor", str(caught.exception))

    def test_what_v2_alone_has(self) -> None:
        self.assertEqual(T.translate([V2.CenterCrop(8), V2.MixUp(num_classes=3)]),
                         T.Compose([T.CenterCrop(8), T.MixUp(num_classes=3)]))
        for given, reason in ((V2.MixUp(num_classes=3, labels_getter=len), "labels_getter"),
                              (V2.ToDtype(torch.float32), "put ToTensor before")):
            with self.assertRaisesRegex(T.UnsupportedTransform, reason):
                T.translate([V2.CenterCrop(8), given])

    def test_weights(self) -> None:
        import torchvision
        told = torchvision.models.ResNet50_Weights.IMAGENET1K_V2.transforms()
        self.assertEqual(T.translate(told), T.Compose([T.Resize(232), T.CenterCrop(224), T.ToTensor(),
                                                       T.Normalize(MEAN, STD)]))
        self.same(told)


if __name__ == "__main__":
    unittest.main()

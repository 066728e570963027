"""Which steps of a transform only turn an image to RGB: tureen.transforms.translate leaves them out.

Run by ctest (python_conversion), or by hand; skipped without torchvision and Pillow.
"""
from __future__ import annotations

import functools
import operator
import sys
import unittest
from pathlib import Path
from typing import Any, List

sys.path[:0] = [str(Path(__file__).resolve().parent.parent.parent / "clients" / "python")]

from tureen import transforms as T

try:
    import torch
    import torchvision.transforms as V
    from PIL import Image
except ImportError as missing:
    print(f"SKIPPED: {missing} (apt install python3-torchvision)", flush=True)
    sys.exit(77)
V2 = None
try:
    from torchvision.transforms import v2 as V2
except ImportError:
    pass                                # torchvision before 0.15

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def _convert_image_to_rgb(image: Any) -> Any:
    return image.convert("RGB")


def convert(image: Any) -> Any:
    return image.convert("RGB")


class ToRgb:
    def __call__(self, image: Any) -> Any:
        return image.convert("RGB")

    def turned(self, image: Any) -> Any:
        return image.convert("RGB")

    @staticmethod
    def static(image: Any) -> Any:
        return image.convert("RGB")

    @classmethod
    def of_class(cls, image: Any) -> Any:
        return image.convert("RGB")


class ToMode:
    def __init__(self, mode: str) -> None:
        self.mode = mode

    def __call__(self, image: Any) -> Any:
        return image.convert(self.mode)

    def unless_it_is(self, image: Any) -> Any:
        return image if image.mode == self.mode else image.convert(self.mode)


class Forward(torch.nn.Module):
    def forward(self, image: Any) -> Any:
        return image.convert("RGB")


class Conversion(unittest.TestCase):
    def test_every_way_to_turn_an_image_to_rgb_is_nothing(self) -> None:
        """As CLIP, open_clip and others write it; the server's images are RGB."""
        def local(image: Any) -> Any:
            if image.mode != "RGB":
                image = image.convert("RGB")
            return image

        def of_pillow(image: Any) -> Any:
            return image.convert("RGB") if isinstance(image, Image.Image) else image
        ways = [_convert_image_to_rgb, local, of_pillow, lambda image: image.convert("RGB"), ToRgb(),
                ToRgb().turned, ToRgb.static, ToRgb.of_class, ToRgb().of_class, ToMode("RGB"),
                ToMode("RGB").unless_it_is, torch.nn.Sequential(Forward()), Forward(),
                V.Lambda(lambda image: image.convert(mode="RGB")),
                V.Lambda(_convert_image_to_rgb), functools.partial(Image.Image.convert, mode="RGB"),
                operator.methodcaller("convert", "RGB"), operator.methodcaller("convert", mode="RGB"),
                lambda image: image if image.mode == "RGB" else image.copy().convert("RGB")]
        if V2 is not None:
            ways += [V2.RGB(), V2.Lambda(_convert_image_to_rgb)]
        crops = [V.Resize(224, interpolation=V.InterpolationMode.BICUBIC), V.CenterCrop(224)]
        expected = T.translate([*crops, V.ToTensor(), V.Normalize(MEAN, STD)])
        for way in ways:
            with self.subTest(way):
                ours = T.translate(V.Compose([*crops, way, V.ToTensor(), V.Normalize(MEAN, STD)]))
                self.assertEqual(ours, expected)
                self.assertEqual(T.translate([way, V.RandomApply([way], 1), *crops, V.ToTensor(),
                                              V.Normalize(MEAN, STD)]), expected)

    def test_what_may_do_more_than_turn_an_image_to_rgb_is_refused(self) -> None:
        def drawn(image: Any) -> Any:
            return image.convert("RGB" if torch.rand(1) < 2 else "L")
        tried: List[Any] = []
        mode = "RGB"
        for other in (drawn, lambda image: image.convert("L"), lambda image: image,
                      lambda image: convert(image),
                      lambda image: image.convert("RGB").transpose(0), lambda image: image.convert(mode),
                      lambda image: tried.append(image) or image.convert("RGB"), Image.Image.convert,
                      operator.methodcaller("copy"), functools.partial(Image.Image.convert, mode="L"), 7,
                      ToMode("L"), ToMode("RGBA").unless_it_is, functools.partial(drawn), V.Lambda(drawn)):
            with self.subTest(other), self.assertRaises(T.UnsupportedTransform):
                T.translate([V.CenterCrop(8), other])
        self.assertEqual(tried, [])
        for steps, why in (([V.Grayscale(), _convert_image_to_rgb], "give Grayscale"),
                           ([V.ToTensor(), _convert_image_to_rgb], "put it before ToTensor"),
                           ([V.RandomApply([_convert_image_to_rgb], 0.5)], "leave that part out"),
                           ([V.RandomChoice([_convert_image_to_rgb, V.RandomInvert()])], "leave that part "
                                                                                         "out")):
            with self.assertRaisesRegex(T.UnsupportedTransform, why):
                T.translate(steps)
        self.assertEqual(T.translate([V.Grayscale(3), _convert_image_to_rgb]), T.translate([V.Grayscale(3)]))


if __name__ == "__main__":
    unittest.main()

"""torchvision's augmentations as values of tureen.transforms, which has their names.

As all transforms they do nothing by themselves: to_json says which operations of docs/pipeline.md they are.
"""
from __future__ import annotations

from dataclasses import dataclass

from . import parameters
from .compose import Building, Transform

SHARPNESS_MAX = 100.0           # what the server takes at most


class _Chance(Transform):
    """What is done to an image, or not, with probability p."""
    p: float
    share: bool
    _operation: str

    def __post_init__(self) -> None:
        self._set(p=parameters.number("p", self.p, 0, 1))

    def _build(self, building: Building) -> None:
        building.expect_image()
        building.add_random(self._operation, self.share, **self._keys(), **parameters.said(p=(self.p, 0.5)))

    def _keys(self) -> "dict[str, float]":
        return {}


@dataclass(frozen=True)
class RandomInvert(_Chance):
    p: float = 0.5
    share: bool = False
    _operation = "invert"


@dataclass(frozen=True)
class RandomPosterize(_Chance):
    """`bits`: the upper bits of each value that stay."""
    bits: int
    p: float = 0.5
    share: bool = False
    _operation = "posterize"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(bits=parameters.whole("bits", self.bits, 0, 8))

    def _keys(self) -> "dict[str, float]":
        return {"bits": self.bits}


@dataclass(frozen=True)
class RandomSolarize(_Chance):
    """Values from `threshold` on are inverted."""
    threshold: float
    p: float = 0.5
    share: bool = False
    _operation = "solarize"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(threshold=parameters.number("threshold", self.threshold, 0, 256))

    def _keys(self) -> "dict[str, float]":
        return {"threshold": self.threshold}


@dataclass(frozen=True)
class RandomAutocontrast(_Chance):
    p: float = 0.5
    share: bool = False
    _operation = "autocontrast"


@dataclass(frozen=True)
class RandomEqualize(_Chance):
    p: float = 0.5
    share: bool = False
    _operation = "equalize"


@dataclass(frozen=True)
class RandomAdjustSharpness(_Chance):
    """0: smooth, 1: as it is, 2: sharp."""
    sharpness_factor: float
    p: float = 0.5
    share: bool = False
    _operation = "adjust_sharpness"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(sharpness_factor=parameters.number("sharpness_factor", self.sharpness_factor, 0,
                                                     SHARPNESS_MAX))

    def _keys(self) -> "dict[str, float]":
        return {"factor": self.sharpness_factor}

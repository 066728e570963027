"""Transforms of which chance leaves some out, or changes the order: torchvision's RandomApply, RandomChoice
and RandomOrder, as values of tureen.transforms, which has their names.

They take what keeps an image's size and channels, one of them in another, too.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, Optional, Sequence, Tuple

from . import parameters
from .compose import Building, Compose, Operation, Refused, Stage, Transform, Unable
from .mixing import Mixing, choice

#  What the server takes at most.
PARTS_MAX = 16

_KEEPS_SIZE = ("flip", "vertical_flip", "color_jitter", "grayscale", "invert", "posterize", "solarize",
               "autocontrast", "equalize", "adjust_sharpness", "gaussian_blur", "pillow_gaussian_blur",
               "random_rotation", "random_affine", "random_perspective", "elastic_transform", "random_apply",
               "random_choice", "random_order", "rand_augment", "trivial_augment_wide", "auto_augment",
               "aug_mix")


def _keeps_size(operation: Operation) -> bool:
    return (operation.get("op") in _KEEPS_SIZE and operation.get("channels", 3) == 3
            and not operation.get("expand", False))


class _Group(Transform):
    """Parts, each of one transform or a Compose of several."""
    transforms: Sequence[Transform]
    share: bool

    def _set_transforms(self) -> None:
        name = type(self).__name__
        if isinstance(self.transforms, Transform):
            raise TypeError(f"{name} takes a list of transforms, not {self.transforms!r} alone")
        listed = tuple(self.transforms)
        foreign = [transform for transform in listed if not isinstance(transform, Transform)]
        if foreign:
            raise TypeError(f"{foreign[0]!r} is not of tureen.transforms: give the list to translate()")
        self._set(transforms=listed)

    def _set_parts(self) -> None:
        self._set_transforms()
        if not 1 <= len(self.transforms) <= PARTS_MAX:
            raise ValueError(f"{type(self).__name__} takes 1 to {PARTS_MAX} transforms, "
                             f"not {len(self.transforms)}: put some of them into a Compose")

    def _add(self, building: Building, op: str, parts: Sequence[Sequence[Transform]],
             **keys: Any) -> Tuple[Operation, List[int]]:
        """The operation, and how many each part of it has."""
        building.expect_image()
        before, counts = len(building.operations), []
        building.add_random(op, self.share, **keys)
        for part in parts:
            begin = len(building.operations)
            for transform in part:
                transform._build(building)
            counts.append(len(building.operations) - begin)
        group, inner = building.operations[before], building.operations[before + 1:]
        if building.stage is not Stage.IMAGE or building.mixing or not all(map(_keeps_size, inner)):
            raise Refused(Unable("the server does that only with what keeps the size and the channels of an "
                                 "image"))
        if not inner:
            building.operations.remove(group)
        return group, counts


def _flat(transform: Transform) -> Sequence[Transform]:
    return transform.transforms if isinstance(transform, Compose) else (transform,)


@dataclass(frozen=True)
class RandomApply(_Group):
    """All of the transforms with probability p, or none."""
    transforms: Sequence[Transform]
    p: float = 0.5
    share: bool = False

    def __post_init__(self) -> None:
        self._set_transforms()
        self._set(p=parameters.number("p", self.p, 0, 1))

    def _build(self, building: Building) -> None:
        inner = [one for transform in self.transforms for one in _flat(transform)]
        group, counts = self._add(building, "random_apply", [inner], count=0,
                                  **parameters.said(p=(self.p, 0.5)))
        group["count"] = counts[0]


@dataclass(frozen=True)
class RandomChoice(_Group):
    """One of the transforms.  `p`: a weight for each.  Of MixUp and CutMix: one for each batch."""
    transforms: Sequence[Transform]
    p: Optional[Sequence[float]] = None
    share: bool = False

    def __post_init__(self) -> None:
        self._set_parts()
        if self.p is not None:
            self._set(p=parameters.weights(self.p, len(self.transforms)))

    def _build(self, building: Building) -> None:
        mixing = [one for one in self.transforms if isinstance(one, Mixing)]
        if len(mixing) == len(self.transforms):
            if len({one.num_classes for one in mixing}) > 1:
                raise Refused("the labels of all batches have one shape: give all parts the same num_classes")
            building.mixing += choice(mixing, self.p)
            return
        group, counts = self._add(building, "random_choice", [_flat(one) for one in self.transforms],
                                  counts=[], **parameters.said(p=(self.p, None)))
        group["counts"] = counts


@dataclass(frozen=True)
class RandomOrder(_Group):
    """All of the transforms, in random order."""
    transforms: Sequence[Transform]
    share: bool = False

    def __post_init__(self) -> None:
        self._set_parts()

    def _build(self, building: Building) -> None:
        parts = [_flat(one) for one in self.transforms]
        group, counts = self._add(building, "random_order", parts, counts=[])
        group["counts"] = counts

"""The recipes of the comparison, as torchvision's transforms."""

from __future__ import annotations

from torchvision.transforms import Compose, RandAugment, RandomHorizontalFlip, RandomResizedCrop

from peer import AREA, RATIO, SIDE, Settings


def transforms(settings: Settings) -> Compose:
    steps = [RandomResizedCrop(SIDE, AREA, RATIO), RandomHorizontalFlip()]
    return Compose(steps + [RandAugment()] * (settings.recipe == "randaugment"))

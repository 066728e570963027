"""A pipeline as a value: transforms in a list, and how the list becomes the server's operations.

torchvision's transforms go from images to tensors, and what a transform does depends on which it gets.  The
server works on images, and converts at the end.  So `Building` follows what an image would be at each point
of the list, and refuses what would come out otherwise than in torchvision.
"""
from __future__ import annotations

import enum
import operator
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from .errors import TureenError

Operation = Dict[str, Any]

#  Those that a list of torchvision's may hold.
SUPPORTED = ("AutoAugment", "CenterCrop", "ColorJitter", "Compose", "ConvertImageDtype", "CutMix",
             "ElasticTransform", "FiveCrop", "GaussianBlur", "Grayscale", "MixUp", "Normalize",
             "PILToTensor", "Pad", "RandAugment", "RandomAdjustSharpness", "RandomAffine", "RandomApply",
             "RandomAutocontrast", "RandomChoice", "RandomCrop", "RandomEqualize", "RandomErasing",
             "RandomGrayscale", "RandomHorizontalFlip", "RandomInvert", "RandomOrder", "RandomPerspective",
             "RandomPosterize", "RandomResizedCrop", "RandomRotation", "RandomSolarize",
             "RandomVerticalFlip", "Resize", "TenCrop", "ToTensor", "TrivialAugmentWide")


class Unable(str):
    """Why the server does not do a transform, wherever in the list it stands."""


class UnsupportedTransform(TureenError, ValueError):
    """Some transforms cannot be done by the server.  `problems`: for each its place in the list (from 1), the
    transform itself, and why."""

    def __init__(self, problems: Sequence[Tuple[int, Any, str]], count: int) -> None:
        super().__init__(problems, count)
        self.problems = tuple(problems)
        self.count = count

    @property
    def unsupported(self) -> Tuple[Any, ...]:
        """The transforms themselves: to be applied to the batch, where they can be."""
        return tuple(transform for _, transform, _ in self.problems)

    def __str__(self) -> str:
        lines = [f"{len(self.problems)} of {self.count} transforms cannot be done by the server:"]
        lines += [f"  {place}. {_shown(transform)}: {reason}" for place, transform, reason in self.problems]
        lines.append("Supported: " + ", ".join(SUPPORTED) + ".")
        if any(isinstance(reason, Unable) for _, _, reason in self.problems):
            lines.append("What no change to the list mends, leave out and apply to the batch, on the device "
                         "(docs/clients.md, \"What is left for the batch\"), or to each sample, by "
                         "tureen.transforms.split.")
        return "\n".join(lines)


def uncalled(transform: Any) -> str:
    """Of a class, what to write instead; "" of all else."""
    return f"a class: write {transform.__name__}(...)" if isinstance(transform, type) else ""


def _shown(transform: Any) -> str:
    text = " ".join(repr(transform).split())
    return text if len(text) <= 100 else text[:97] + "..."


class Refused(Exception):
    """Why a transform cannot stand where it stands."""


class Stage(enum.Enum):
    """What an image is at some point of the list."""
    IMAGE = "an image"
    BYTES = "a uint8 tensor"
    FLOATS = "a float tensor from 0 to 1"
    NORMALIZED = "a normalised tensor"


PIXELS = ("torchvision does this to a tensor otherwise than to an image, and the server does it as to an "
          "image: "
           "put it before ToTensor or PILToTensor")
CAST_LAST = "the server converts to the dtype of the output last: put Cast or ConvertImageDtype behind this"


class Building:
    """The list of operations in the making."""

    def __init__(self) -> None:
        self.operations: List[Operation] = []
        self.stage = Stage.IMAGE
        self.size: Optional[Tuple[int, int]] = None     # of all images, where it is known and one
        self.bounded = False                            # sizes differ, but have a limit
        self.shared_by_user = False
        self.unbounded_random: List[Operation] = []     # random, before images have one size or a limit
        self.normalize: Optional[Operation] = None
        self.dtype: Optional[str] = None
        self.planar = False
        self.is_grey = False                            # of one channel
        self.erasing: Optional[Operation] = None
        self.mixing: List[Operation] = []               # of whole batches (mixing.py)

    def add(self, op: str, **keys: Any) -> None:
        self.expect_whole()
        self.operations.append({"op": op, **keys})

    def add_random(self, op: str, share: bool, **keys: Any) -> None:
        self.add(op, **keys)
        operation = self.operations[-1]
        if share:
            self.shared_by_user = operation["share"] = True
        if self.size is None and not self.bounded:
            self.unbounded_random.append(operation)

    def expect_image(self) -> None:
        if self.stage is not Stage.IMAGE:
            raise Refused(PIXELS)

    def expect_whole(self) -> None:
        if self.erasing is not None:
            raise Refused("the server erases last: put it before RandomErasing")

    def erase(self, operation: Operation) -> None:
        if self.erasing is not None:
            raise Refused("the server erases once: leave one of the two out")
        self.erasing = operation

    def to_tensor(self, stage: Stage) -> None:
        if self.stage is not Stage.IMAGE or self.normalize is not None:
            raise Refused("it takes an image, and this is a tensor already")
        if self.dtype is not None:
            raise Refused(CAST_LAST)
        self.stage, self.planar = stage, True
        if stage is Stage.FLOATS:
            self.normalize = {"op": "normalize"}

    def cast(self, dtype: str) -> None:
        if self.dtype is not None:
            raise Refused(f"there is a cast to {self.dtype} already")
        if dtype == "uint8" and self.normalize is not None:
            raise Refused("values behind ToTensor or Normalize are no whole numbers: leave it, or them, out")
        self.dtype = dtype

    def finish(self) -> List[Operation]:
        #  Images of any size cannot be kept: what gives them one size is shared, as the recipe "train" does
        #  it.  The server would refuse the list otherwise.
        if not self.shared_by_user and self.size is not None:
            for operation in self.unbounded_random:
                operation["share"] = True
        if self.normalize is not None:
            self.operations.append(self.normalize)
        if self.erasing is not None:
            self.operations.append(self.erasing)
        if self.dtype is not None:
            self.operations.append({"op": "cast", "dtype": self.dtype})
        if self.planar:
            self.operations.append({"op": "layout", "layout": "NCHW"})
        return self.operations + self.mixing


class Transform:
    """The base of all transforms, and of Compose."""

    def to_json(self) -> List[Operation]:
        """The operations that it stands for, as `pipeline` of docs/pipeline.md."""
        return Compose([self]).to_json()

    def _build(self, building: Building) -> None:
        """Adds its operations; raises Refused where it cannot stand."""
        raise NotImplementedError

    def _set(self, **values: Any) -> None:
        """What a frozen value does while it is being made."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Compose(Transform):
    """Transforms, one after the other: a pipeline.

    What jobs share is prepared once for all of them: what stands before a `Share()`.  Without one the server
    shares as much as it may: all before the first random transform that does not say `share=True`.  (If
    images of differing sizes come to a random transform, those up to the one that gives them one size are
    shared, as in the recipe "train".)
    """
    transforms: Tuple[Transform, ...]

    def __init__(self, transforms: Iterable[Transform]) -> None:
        if isinstance(transforms, Transform):
            raise TypeError(f"Compose takes a list of transforms, not {transforms!r} alone: put it into "
                            "brackets")
        flat: List[Transform] = []
        for transform in transforms:
            flat += transform.transforms if isinstance(transform, Compose) else [transform]
        foreign = [(place, transform, uncalled(transform) or "not of tureen.transforms: give the list to "
                    "translate()")
                   for place, transform in enumerate(flat, 1) if not isinstance(transform, Transform)]
        if foreign:
            raise UnsupportedTransform(foreign, len(flat))
        self._set(transforms=tuple(flat))
        self.to_json()

    def share(self, count: int) -> Compose:
        """The same with the first `count` transforms shared, and no others."""
        kept = [transform for transform in self.transforms if not isinstance(transform, Share)]
        if not 0 <= operator.index(count) <= len(kept):
            raise ValueError(f"count must be from 0 to {len(kept)}, the number of transforms, not {count}")
        return Compose([*kept[:count], Share(), *kept[count:]])

    def to_json(self) -> List[Operation]:
        building, problems = Building(), []
        for place, transform in enumerate(self.transforms, 1):
            try:
                if building.mixing:
                    raise Refused("whole batches are mixed, behind all else: put it before MixUp and CutMix")
                transform._build(building)
            except Refused as refused:
                problems.append((place, transform, refused.args[0]))
        if problems:
            raise UnsupportedTransform(problems, len(self.transforms))
        return building.finish()


@dataclass(frozen=True)
class Share(Transform):
    """What stands before it is prepared once for all jobs that have the same there."""

    def _build(self, building: Building) -> None:
        if {"share": True} in building.operations:
            raise Refused("there is one already")
        erases = building.erasing is not None
        if building.normalize is not None or building.dtype is not None or building.planar or erases:
            raise Refused("ToTensor, Normalize, Cast and Layout are done for each job by itself: put it "
                          "before them")
        building.operations.append({"share": True})
        building.shared_by_user = True

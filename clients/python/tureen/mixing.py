"""torchvision's MixUp and CutMix: the samples of a batch are mixed in this client, as the last thing of a
pipeline.

A batch's samples are mixed with those before them, the first one with the last one, and so are their labels.
What chance chooses follows from the job's seed, the epoch, the batch's number in it and its first sample
alone: so a batch that comes again, from another server too, is mixed in the same way.
"""
from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from . import parameters
from .batch import Array
from .compose import Building, Operation, Refused, Transform, uncalled
from .outputs import are_stacked, has_channels_first, outputs
from .wire import Field, Joined

ALPHA_MIN, ALPHA_MAX, CLASSES_MAX = 0.01, 1000.0, 1_000_000
OPERATIONS = ("mix_up", "cut_mix")

Steps = List[Dict[str, Any]]


class Mixing(Transform):
    """What mixes a batch."""
    alpha: float
    num_classes: int
    _operation: str

    def __post_init__(self) -> None:
        if self.num_classes is None:
            raise ValueError("num_classes must be given: the labels of a data set are numbers of classes")
        self._set(alpha=parameters.number("alpha", self.alpha, ALPHA_MIN, ALPHA_MAX),
                  num_classes=parameters.whole("num_classes", self.num_classes, 1, CLASSES_MAX))

    def operation(self) -> Operation:
        return {"op": self._operation, "alpha": self.alpha, "num_classes": self.num_classes}

    def _build(self, building: Building) -> None:
        if are_stacked(building.operations):
            raise Refused("it mixes images, and behind FiveCrop and TenCrop each sample is a stack of crops")
        building.mixing.append(self.operation())


@dataclass(frozen=True)
class MixUp(Mixing):
    """The sum of two images, weighted by a number from Beta (alpha, alpha); labels become float32 [batch,
    num_classes], mixed by the same weights."""
    alpha: float = 1.0
    num_classes: Any = None
    _operation = "mix_up"


@dataclass(frozen=True)
class CutMix(Mixing):
    """A box of another image in each; labels become float32 [batch, num_classes], mixed by the areas."""
    alpha: float = 1.0
    num_classes: Any = None
    _operation = "cut_mix"


def choice(parts: Sequence[Mixing], weights: Optional[Sequence[float]]) -> Steps:
    """One of them, for each batch."""
    head: Operation = {"op": "random_choice", "counts": [1] * len(parts)}
    if weights is not None:
        head["p"] = list(weights)
    return [head, *(part.operation() for part in parts)]


class Drawn(NamedTuple):
    """What chance chose for a batch.  box: top, left, bottom, right; None: all of the images is mixed."""
    share: float                    # of the image itself; the rest is its partner's
    box: Optional[Tuple[int, int, int, int]]


class _Random:
    def __init__(self, *key: int) -> None:
        self._key, self._count = " ".join(map(str, ("tureen mix", *key))), 0

    def uniform(self) -> float:
        digest = hashlib.blake2b(f"{self._key} {self._count}".encode(), digest_size=8).digest()
        self._count += 1
        return (int.from_bytes(digest, "little") >> 11) / 2.0 ** 53

    def _normal(self) -> float:
        return math.sqrt(-2 * math.log(1 - self.uniform())) * math.cos(2 * math.pi * self.uniform())

    def _log_gamma(self, alpha: float) -> float:
        """The logarithm of a gamma variate: Marsaglia and Tsang, 2000."""
        shape = alpha + 1 if alpha < 1 else alpha
        boost = math.log(1 - self.uniform()) / alpha if alpha < 1 else 0.0
        d = shape - 1 / 3
        while True:
            normal = self._normal()
            v = (1 + normal / math.sqrt(9 * d)) ** 3
            if v > 0 and math.log(1 - self.uniform()) < normal ** 2 / 2 + d - d * v + d * math.log(v):
                return math.log(d * v) + boost

    def beta(self, alpha: float) -> float:
        """Of Beta (alpha, alpha)."""
        apart = self._log_gamma(alpha) - self._log_gamma(alpha)
        return 1 / (1 + math.exp(-apart)) if apart >= 0 else 1 - 1 / (1 + math.exp(apart))


class Recipe(NamedTuple):
    """One of `parts`, by weight."""
    parts: Tuple[Operation, ...]
    weights: Tuple[float, ...]

    @property
    def classes(self) -> int:
        return int(self.parts[0]["num_classes"])

    def draw(self, key: Tuple[int, ...], height: int, width: int) -> Drawn:
        random = _Random(*key)
        part, left = 0, random.uniform() * sum(self.weights) if len(self.parts) > 1 else 0.0
        while part + 1 < len(self.parts) and left >= self.weights[part]:
            left -= self.weights[part]
            part += 1
        share = random.beta(self.parts[part]["alpha"])
        if self.parts[part]["op"] == "mix_up":
            return Drawn(share, None)
        across, down = int(random.uniform() * width), int(random.uniform() * height)
        half = 0.5 * math.sqrt(1 - share)
        half_width, half_height = int(half * width), int(half * height)
        left_, right = max(across - half_width, 0), min(across + half_width, width)
        top, bottom = max(down - half_height, 0), min(down + half_height, height)
        return Drawn(1 - (right - left_) * (bottom - top) / (width * height), (top, left_, bottom, right))


def _checked(part: Mapping[str, Any]) -> Operation:
    name, keys = part["op"], {key: value for key, value in part.items() if key != "op"}
    unknown = [key for key in keys if key not in ("alpha", "num_classes")]
    if unknown:
        raise ValueError(f"{name} has no '{unknown[0]}': it has alpha and num_classes")
    try:
        return (MixUp if name == "mix_up" else CutMix)(**keys).operation()
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None


def split(pipeline: Any) -> Tuple[Any, Optional[Recipe]]:
    """What the server is to do, and how batches are mixed behind that; None: they are not."""
    if uncalled(pipeline):
        raise TypeError(f"pipeline is {uncalled(pipeline)}")
    if callable(getattr(pipeline, "to_json", None)):
        pipeline = pipeline.to_json()
    if isinstance(pipeline, str) or not isinstance(pipeline, Sequence):
        return pipeline, None
    steps = list(pipeline)
    names = [step.get("op") if isinstance(step, Mapping) else None for step in steps]
    first = next((place for place, name in enumerate(names) if name in OPERATIONS), len(steps))
    parts = steps[first:]
    if not parts:
        return pipeline, None
    weights, head = (1.0,) * len(parts), first
    if first and names[first - 1] == "random_choice":
        head = first - 1
        if steps[head].get("p") is not None:
            weights = parameters.weights(steps[head]["p"], len(parts))
    is_choice = head < first and steps[head].get("counts") == [1] * len(parts)
    if any(name not in OPERATIONS for name in names[first:]) or is_choice != (len(parts) > 1 or head < first):
        raise ValueError("mix_up and cut_mix mix whole batches, so one of them comes last, or a "
                         "random_choice of them")
    parts = [_checked(part) for part in parts]
    classes = {part["num_classes"] for part in parts}
    if len(classes) > 1:
        raise ValueError(f"the parts of a choice have different num_classes, {sorted(classes)}: give all the "
                         "same")
    return steps[:head], Recipe(tuple(parts), weights)


def refuse_functions(recipe: Optional[Recipe], *functions: Any) -> None:
    if recipe is not None and any(function is not None for function in functions):
        raise ValueError("MixUp and CutMix would come before map= and map_batch=, which run where batches "
                         "come in: leave them out of the transforms, and mix in map_batch")


class Mixer:
    """Mixes the batches of one job.  TypeError for fields that it does not mix."""

    def __init__(self, recipe: Recipe, joined: Joined) -> None:
        self._recipe, self._seed = recipe, joined.seed
        made, images = outputs(joined.pipeline)
        lengths = {field.lengths for field in joined.fields}
        self.images = [field.name for field in joined.fields
                       if field.name in images and len(field.shape) == 3 and not are_stacked(joined.pipeline)]
        others = [field.name for field in joined.fields
                  if field.name in made and field.name not in self.images and field.name not in lengths]
        if not self.images or others:
            raise TypeError(f"MixUp and CutMix mix images, and these batches have "
                            f"{', '.join(others) if others else 'none'}: leave them out")
        labels = [field for field in joined.fields if field.name not in made and field.name not in lengths]
        numbers = [field.name for field in labels if field.dtype.kind in "iu" and field.shape == ()]
        if len(numbers) != 1:
            raise TypeError("MixUp and CutMix mix the one label that is a whole number, and of this data "
                            f"set's labels {', '.join(numbers) or 'none'} are: mix in map_batch=")
        self.label = numbers[0]
        #  Where the height is among a batch's dimensions.
        self.rows = 2 if has_channels_first(joined.pipeline) else 1
        self._sides = self._sides_of(joined.fields)

    def _sides_of(self, fields: Sequence[Field]) -> Tuple[int, int]:
        shape = next(field.shape for field in fields if field.name == self.images[0])
        return int(shape[self.rows - 1]), int(shape[self.rows])

    def draw(self, ids: Array, epoch: int, index: int) -> Drawn:
        return self._recipe.draw((self._seed, epoch, index, int(ids[0])), *self._sides)

    def box(self, drawn: Drawn) -> Tuple[slice, ...]:
        """Where in a batch of images its box is."""
        assert drawn.box is not None
        top, left, bottom, right = drawn.box
        return (*(slice(None),) * self.rows, slice(top, bottom), slice(left, right))

    def labels(self, labels: Array, ids: Array, drawn: Drawn) -> Array:
        """float32 [batch, num_classes]."""
        classes = self._recipe.classes
        beyond = np.flatnonzero((labels < 0) | (labels >= classes))
        if beyond.size:
            raise ValueError(f"sample {int(ids[beyond[0]])} has label {int(labels[beyond[0]])}, and "
                             f"num_classes={classes}: give as many as the data set has")
        hot = np.zeros((len(labels), classes), np.float32)
        hot[np.arange(len(labels)), labels.astype(np.int64)] = 1
        return _sum(hot, drawn.share)

    def mix(self, arrays: Dict[str, Any], ids: Array, epoch: int, index: int) -> None:
        """Puts mixed arrays in the place of images and labels."""
        drawn = self.draw(ids, epoch, index)
        arrays[self.label] = self.labels(arrays[self.label], ids, drawn)
        for name in self.images:
            arrays[name] = self._image(arrays[name], drawn)

    def _image(self, images: Array, drawn: Drawn) -> Array:
        if drawn.box is not None:
            made: Array = images.copy()
            box = self.box(drawn)
            made[box] = np.roll(images, 1, 0)[box]
            return made
        if images.dtype == np.uint16:
            raise TypeError("NumPy has no bfloat16, so MixUp cannot add such images up: cast to float32")
        if images.dtype == np.uint8:
            rounded: Array = np.rint(_sum(images.astype(np.float32), drawn.share)).astype(np.uint8)
            return rounded
        return _sum(images, drawn.share)


def _sum(values: Array, share: float) -> Array:
    """As torch adds them up: each product is rounded to the dtype, then the sum."""
    def times(array: Array, factor: float) -> Array:
        return (array.astype(np.float32) * np.float32(factor)).astype(values.dtype)

    made: Array = times(np.roll(values, 1, 0), 1 - share)
    made += times(values, share)
    return made

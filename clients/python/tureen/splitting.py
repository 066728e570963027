"""A list of transforms cut in two: what the server does exactly, and what is left for `map=`."""
from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence

import numpy as np

from .compose import Building, Compose, Stage, UnsupportedTransform
from .translation import _name, translate

_NO_SIZE = ("{reason}. Nor can the list be cut there: images still differ in size. Put what gives them one "
            "size before it (tureen.transforms has RandomResizedCrop and Resize, which make Pillow's pixels; "
            "ToImage stands behind that)")

_BESIDE = ("{reason}. Nor can the list be cut there: what is left for map= is done to the image alone, and "
           "the Decode's masks and boxes would not follow it. Leave this transform out, or give a map= of "
           "your own, of the whole sample")


class Split(NamedTuple):
    """As arguments of a loader: DataLoader("train", 64, shuffle=True, **split(given)._asdict()).  `map`: None
    where the server does all."""
    transform: Compose
    map: Optional[Rest]

    def __str__(self) -> str:
        rest = "nothing" if self.map is None else f"{_names(self.map.transforms)} ({self.map.why})"
        return f"by the server: {_names(self.transform.transforms)}; by map=: {rest}"


class Rest:
    """What is left, as a function of a sample: it is done to `image`, or to what a sample has in its
    place."""

    def __init__(self, transforms: Sequence[Any], stage: Stage, why: str) -> None:
        """`stage`: what the first of them would get in the list; `why` the server does not do it."""
        self.transforms = tuple(transforms)
        self.why = why
        self._is_image = stage is Stage.IMAGE

    def __call__(self, sample: Any) -> Any:
        if isinstance(sample, dict):
            return {**sample, "image": self._done(sample["image"])}
        if isinstance(sample, (tuple, list)):
            return (self._done(sample[0]), *sample[1:])
        return self._done(sample)

    def __repr__(self) -> str:
        return f"<what is left for map=: {_names(self.transforms)}>"

    def _done(self, image: Any) -> Any:
        """As the loader has it: of an image a tensor has the channels first, and an array last."""
        was_array = isinstance(image, np.ndarray)
        value = image
        if not _takes_arrays(self.transforms[0]):
            value = _picture(image) if self._is_image else _tensor(image)
        for transform in self.transforms:
            if _takes_arrays(transform):
                value = transform(image=_pixels(value))["image"]
            else:
                value = transform(value)
        if was_array:
            return np.asarray(value)
        if not hasattr(value, "getbands"):
            return value
        pixels = np.array(value)
        return _tensor(pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1)))


def split(given: Any, pillow13: bool) -> Split:
    """See transforms.split."""
    steps = _flat(given)
    why = UnsupportedTransform((), len(steps))
    for count in range(len(steps), 0, -1):
        try:
            head = translate(steps[:count], pillow13)
        except UnsupportedTransform as error:
            why = error
            continue
        if count == len(steps):
            return Split(head, None)
        building = Building()
        for transform in head.transforms:
            transform._build(building)
        if building.size is not None and not building.mixing and not _has_views(building):
            _refuse_beside_image(building, why)
            return Split(head, Rest(steps[count:], building.stage, why.problems[0][2]))
    if not why.problems:
        raise ValueError("there is no transform to be split")
    place, transform, reason = why.problems[0]
    raise UnsupportedTransform([(place, transform, _NO_SIZE.format(reason=reason))], len(steps))


def _refuse_beside_image(building: Building, why: UnsupportedTransform) -> None:
    """The rest gets images alone: what it did to their pixels would leave masks and boxes where they were."""
    fields = [field for operation in building.operations if operation.get("op") == "decode"
              for field in operation.get("fields", ("image",))]
    if any(field != "image" if isinstance(field, str) else field["as"] in ("mask", "boxes")
           for field in fields):
        place, transform, reason = why.problems[0]
        raise UnsupportedTransform([(place, transform, _BESIDE.format(reason=reason))], why.count)


def _flat(given: Any) -> List[Any]:
    if isinstance(given, Compose) or _name(given) in ("Compose", "Sequential", "ModuleList"):
        given = list(getattr(given, "transforms", given))
    if not isinstance(given, (list, tuple)):
        return [given]
    return [step for each in given for step in _flat(each)]


def _has_views(building: Building) -> bool:
    return any(operation.get("op") == "views" for operation in building.operations)


def _names(transforms: Sequence[Any]) -> str:
    return ", ".join(getattr(each, "__name__", type(each).__name__) for each in transforms)


def _takes_arrays(transform: Any) -> bool:
    """It is called as albumentations', image=PIXELS, and gives a dict."""
    return type(transform).__module__.split(".")[0] == "albumentations"


def _pixels(value: Any) -> Any:
    """[height, width, channels], NumPy."""
    if hasattr(value, "movedim"):
        value = value.movedim(0, -1).contiguous().numpy()
    return np.asarray(value)


def _picture(image: Any) -> Any:
    from PIL import Image
    pixels = _pixels(image)
    return Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)


def _tensor(image: Any) -> Any:
    if not isinstance(image, np.ndarray):
        return image
    import torch
    return torch.from_numpy(image)

"""torchvision's transforms as Tureen's, and those of timm's that behave like torchvision's.

Neither is imported: what is given says by its class which transform it is.  Only their own classes are known,
not those that are derived from them.  Where torchvision behaves differently for a tensor
and for a Pillow image, the list begins with an image.
"""
from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import Any, Callable, Dict, List, Tuple

from . import transforms as ours
from .compose import Compose, Transform, Unable, UnsupportedTransform, uncalled
from .conversion import turns_to_rgb

Entry = Tuple[Any, Any]         # what was given; and ours, or why there is none


def translate(given: Any, pillow13: bool) -> Compose:
    """See transforms.translate."""
    entries = [(theirs, _of_pillow13(our) if pillow13 else our)
               for theirs, our in _draw_once(_normalize_tensors(_without_conversions(_entries(given))))]
    problems = [(place, theirs, our) for place, (theirs, our) in enumerate(entries, 1)
                if isinstance(our, str)]
    good = [(place, theirs, our) for place, (theirs, our) in enumerate(entries, 1)
            if isinstance(our, Transform)]
    try:
        composed = Compose([our for _, _, our in good])
    except UnsupportedTransform as error:       # in terms of what was given
        problems += [(good[index - 1][0], good[index - 1][1], reason) for index, _, reason in error.problems]
    if problems:
        raise UnsupportedTransform(sorted(problems, key=lambda problem: problem[0]), len(entries))
    return composed


def _of_pillow13(our: Any) -> Any:
    """What keeps an image's size, as all in groups does, resizes nothing."""
    return replace(our, pillow13=True) if isinstance(our, (ours.Resize, ours.RandomResizedCrop)) else our


def _entries(given: Any) -> List[Entry]:
    """The list, flat.  A transform of torchvision's may be several of ours: it is there several times
    then."""
    if isinstance(given, Compose):
        return [(our, our) for our in given.transforms]
    if isinstance(given, Transform):
        return [(given, given)]
    if isinstance(given, (list, tuple)):
        return [entry for each in given for entry in _entries(each)]
    if uncalled(given):
        return [(given, uncalled(given))]
    name = _name(given)
    if name in ("Compose", "Sequential", "ModuleList"):
        return _entries(list(getattr(given, "transforms", given)))
    if name == "RandomApply":
        return _apply(given)
    if name in ("RandomChoice", "RandomOrder"):
        return [(given, _group(name, given))]
    if name in ("Identity", "ToPureTensor"):
        return []
    make = _MADE.get(name)
    if name == "RGB" or make is None and turns_to_rgb(given.lambd if name == "Lambda" else given):
        return [(given, _TO_RGB)]
    if make is None:
        return [(given, REASONS.get(name, NO_OPERATION))]
    try:
        made = make(given)
    except (TypeError, ValueError) as error:
        return [(given, Unable(error))]
    return [(given, our) for our in (made if isinstance(made, list) else [made])]


def _apply(given: Any) -> List[Entry]:
    """One of ours; all of its list, where that is always done; or why some of it cannot be done."""
    inner = _entries(list(given.transforms))
    if given.p < 1 and any(our is _TO_RGB for _, our in inner):
        return [(given, _NOTHING_TO_DRAW)]
    reasons = [our for _, our in inner if isinstance(our, str)]
    if given.p >= 1:
        return inner
    if reasons:
        return [(given, reasons[0])]
    return [(given, ours.RandomApply([our for _, our in inner], given.p))]


def _group(name: str, given: Any) -> Any:
    """One of ours, each part of which may be several transforms; or why some of it cannot be done."""
    parts: List[Transform] = []
    for theirs in given.transforms:
        inner = [our for _, our in _entries(theirs)]
        if any(our is _TO_RGB for our in inner):
            return _NOTHING_TO_DRAW
        reasons = [our for our in inner if isinstance(our, str)]
        if reasons:
            return reasons[0]
        try:
            parts.append(inner[0] if len(inner) == 1 else Compose(inner))
        except UnsupportedTransform as error:
            return error.problems[0][2]
    try:
        return ours.RandomChoice(parts, given.p) if name == "RandomChoice" else ours.RandomOrder(parts)
    except (TypeError, ValueError) as error:
        return str(error)


def _without_conversions(entries: List[Entry]) -> List[Entry]:
    """Images are RGB from the beginning; what makes three channels of one again is not nothing."""
    checked: List[Entry] = []
    for theirs, our in entries:
        if our is not _TO_RGB:
            checked.append((theirs, our))
        elif any(isinstance(done, ours.Grayscale) and done.num_output_channels == 1 for _, done in checked):
            checked.append((theirs, "it makes three channels of Grayscale's one: give Grayscale (3)"))
        elif _name(theirs) != "RGB" and any(isinstance(done, (ours.ToTensor, ours.PILToTensor))
                                            for _, done in checked):
            checked.append((theirs, "it takes an image: put it before ToTensor"))
    return checked


def _normalize_tensors(entries: List[Entry]) -> List[Entry]:
    """Ours take images as well; torchvision's raises TypeError, and its ToDtype leaves them as they are."""
    checked, is_tensor = [], False
    for theirs, our in entries:
        is_tensor = is_tensor or isinstance(our, (ours.ToTensor, ours.PILToTensor))
        if isinstance(our, (ours.Normalize, ours.Cast)) and our is not theirs and not is_tensor:
            our = "it takes a tensor: put ToTensor before it"
        checked.append((theirs, our))
    return checked


def _draw_once(entries: List[Entry]) -> List[Entry]:
    """Behind several crops torchvision's v2 draws once for all of them, and ours for each."""
    checked, are_crops = [], False
    for theirs, our in entries:
        draws = isinstance(getattr(our, "share", None), bool) or isinstance(our, ours.RandomErasing)
        if are_crops and draws and our is not theirs:
            our = "torchvision does the same to all crops, and the server draws for each: put it before them"
        are_crops = are_crops or isinstance(our, (ours.FiveCrop, ours.TenCrop))
        checked.append((theirs, our))
    return checked


def _name(given: Any) -> str:
    """The class's name, if it is torchvision's or torch's own; timm's begin with "timm."."""
    kind = type(given)
    if kind.__module__.startswith(("torchvision.transforms", "torch.nn.modules")):
        return kind.__name__
    if kind.__module__.startswith("timm.data."):
        return "timm." + kind.__name__
    return "a class of another package" if hasattr(given, "__call__") else "nothing that is called"


_TO_RGB = object()              # in an entry: what turns images to RGB
_NOTHING_TO_DRAW = Unable("a part of it turns images to RGB, which they are already: leave that part out")
NO_OPERATION = Unable("the server has no such operation")
REASONS = {
    "a class of another package": "Python code, or a class that is not torchvision's own, and the server "
    "runs neither: give the loader map=, which is called with each sample",
    "nothing that is called": "not a transform",
    "Lambda": "Python code, which the server does not run: give the loader map=, which is called with each "
    "sample (crops are stacked without one)",
    "AugMix": "torchvision does its steps to a tensor, also of an image, and the server as to an image: give "
    "tureen.transforms.AugMix instead",
    "ToPILImage": "samples are images from the beginning: leave it out, and put what stands behind it before "
    "ToTensor",
}


def _same(name: str, *parameters: str) -> Callable[[Any], Transform]:
    """Ours of the same name; those parameters that its version of torchvision has."""
    def make(theirs: Any) -> Transform:
        made: Transform = getattr(ours, name)(**{key: getattr(theirs, key) for key in parameters
                                                 if hasattr(theirs, key)})
        return made
    return make


def _mapped(name: str, *parameters: str) -> Callable[[Any], Transform]:
    """What has an interpolation and a fill, which in v2 may be one for each kind of field."""
    same = _same(name, "interpolation", *parameters)

    def make(theirs: Any) -> Transform:
        fill = theirs.fill
        if isinstance(fill, dict):
            raise ValueError("a fill for each kind of field: give one, and mask_fill")
        return replace(same(theirs), fill=fill)
    return make


def _elastic(theirs: Any) -> Transform:
    version = getattr(sys.modules.get("torchvision"), "__version__", "0.0").split(".")
    if (int(version[0]), int(version[1])) < (0, 26):
        raise ValueError("before torchvision 0.26 it divides displacements across by the height, and those "
                         "down by the width; the server does as 0.26: for square images, where both are the "
                         "same, give tureen.transforms.ElasticTransform")
    return _mapped("ElasticTransform", "alpha", "sigma")(theirs)


def _mixing(name: str) -> Callable[[Any], Transform]:
    same = _same(name, "alpha", "num_classes")

    def make(theirs: Any) -> Transform:
        getter = getattr(theirs, "_labels_getter", None)
        if getter is not None and "default" not in getattr(getter, "__name__", ""):
            raise ValueError("labels_getter: it mixes the data set's label")
        return same(theirs)
    return make


def _policy(name: str, *parameters: str) -> Callable[[Any], Transform]:
    mapped = _mapped(name, *parameters)

    def make(theirs: Any) -> Transform:
        return replace(mapped(theirs), unit_threshold=_is_v2(theirs))
    return make


def _is_v2(theirs: Any) -> bool:
    return type(theirs).__module__.startswith("torchvision.transforms.v2")


def _convert(theirs: Any) -> Transform:
    """v2's ToDtype, where `scale` says whether 255 becomes 1, and ConvertImageDtype of both."""
    if isinstance(theirs.dtype, dict):
        raise ValueError("a dtype for each kind of field: give one")
    if not getattr(theirs, "scale", True):
        return ours.Cast(theirs.dtype)
    return ours.ConvertImageDtype(theirs.dtype, reciprocal=_is_v2(theirs))


def _weights(theirs: Any) -> List[Transform]:
    """What `weights.transforms()` of a torchvision model gives."""
    return [ours.Resize(theirs.resize_size, theirs.interpolation,
                        antialias=getattr(theirs, "antialias", True)),
            ours.CenterCrop(theirs.crop_size), ours.ToTensor(), ours.Normalize(theirs.mean, theirs.std)]


def _timm_crop(theirs: Any) -> Transform:
    interpolation = theirs.interpolation
    if isinstance(interpolation, (tuple, list)):            # one of them is drawn for each image
        if [getattr(mode, "value", mode) for mode in interpolation] != ["bilinear", "bicubic"]:
            raise ValueError(f"it draws one of {interpolation}; the server draws bilinear or bicubic")
        interpolation = "random"
    return ours.RandomResizedCrop(theirs.size, theirs.scale, theirs.ratio, interpolation)


def _timm_erasing(theirs: Any) -> Transform:
    if theirs.rand_color or theirs.per_pixel or theirs.min_count != 1 or theirs.max_count != 1:
        raise ValueError("several boxes, or random pixels in them: the server erases one, by zeros "
                         "(of timm's train.py: --remode const --recount 1)")
    least, most = theirs.log_aspect_ratio
    return ours.RandomErasing(theirs.probability, (theirs.min_area, theirs.max_area),
                              (math.exp(least), math.exp(most)))


_MADE: Dict[str, Callable[[Any], Any]] = {
    "AutoAugment": _policy("AutoAugment", "policy"),
    "CenterCrop": _same("CenterCrop", "size"),
    "ColorJitter": _same("ColorJitter", "brightness", "contrast", "saturation", "hue"),
    "ConvertImageDtype": _convert,
    "CutMix": _mixing("CutMix"),
    "ElasticTransform": _elastic,
    "FiveCrop": _same("FiveCrop", "size"),
    "GaussianBlur": _same("GaussianBlur", "kernel_size", "sigma"),
    "Grayscale": _same("Grayscale", "num_output_channels"),
    "ImageClassification": _weights,
    "MixUp": _mixing("MixUp"),
    "Normalize": _same("Normalize", "mean", "std"),
    "PILToTensor": _same("PILToTensor"),
    "Pad": _same("Pad", "padding", "fill", "padding_mode"),
    "RandAugment": _policy("RandAugment", "num_ops", "magnitude", "num_magnitude_bins"),
    "RandomAdjustSharpness": _same("RandomAdjustSharpness", "sharpness_factor", "p"),
    "RandomAffine": _mapped("RandomAffine", "degrees", "translate", "scale", "shear", "center"),
    "RandomAutocontrast": _same("RandomAutocontrast", "p"),
    "RandomCrop": _same("RandomCrop", "size", "padding", "pad_if_needed", "fill", "padding_mode"),
    "RandomEqualize": _same("RandomEqualize", "p"),
    "RandomErasing": _same("RandomErasing", "p", "scale", "ratio", "value"),
    "RandomGrayscale": _same("RandomGrayscale", "p"),
    "RandomHorizontalFlip": _same("RandomHorizontalFlip", "p"),
    "RandomInvert": _same("RandomInvert", "p"),
    "RandomPerspective": _mapped("RandomPerspective", "distortion_scale", "p"),
    "RandomPosterize": _same("RandomPosterize", "bits", "p"),
    "RandomResizedCrop": _same("RandomResizedCrop", "size", "scale", "ratio", "interpolation", "antialias"),
    "RandomRotation": _mapped("RandomRotation", "degrees", "expand", "center"),
    "RandomSolarize": _same("RandomSolarize", "threshold", "p"),
    "RandomVerticalFlip": _same("RandomVerticalFlip", "p"),
    "Resize": _same("Resize", "size", "interpolation", "max_size", "antialias"),
    "TenCrop": _same("TenCrop", "size", "vertical_flip"),
    "ToDtype": _convert,
    "ToImage": _same("PILToTensor"),
    "ToTensor": _same("ToTensor"),
    "TrivialAugmentWide": _policy("TrivialAugmentWide", "num_magnitude_bins"),
    "timm.MaybePILToTensor": _same("PILToTensor"),
    "timm.MaybeToTensor": _same("ToTensor"),
    "timm.RandomErasing": _timm_erasing,
    "timm.RandomResizedCropAndInterpolation": _timm_crop,
}

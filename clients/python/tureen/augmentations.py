"""torchvision's augmentations as values of tureen.transforms, which has their names.

As all transforms they do nothing by themselves: to_json says which operations of docs/pipeline.md they are.
"""
from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, Dict, Optional, Sequence, Tuple, Union

from . import parameters
from .compose import Building, Operation, Refused, Stage, Transform
from .parameters import Pair

#  What the server takes at most.
SHARPNESS_MAX = 100.0
DEGREES_MAX = 3600.0
CENTER_MAX = 100_000.0
SCALE_MIN, SCALE_MAX = 0.001, 1000.0
STEPS_MAX, BINS_MAX = 16, 1000
SEVERITY_MAX, CHAINS_MAX, DEPTH_MAX, ALPHA_MIN, ALPHA_MAX = 10, 8, 8, 0.1, 100.0
KERNEL_MAX, RADIUS_MAX = 255, 200.0
SIGMA_MIN, SIGMA_MAX = 0.001, 1000.0
ELASTIC_ALPHA_MAX, ELASTIC_SIGMA_MAX = 10_000.0, 31.0

Fill = Union[None, float, Sequence[float]]
Angles = Union[float, Sequence[float]]


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

    def _keys(self) -> Dict[str, float]:
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

    def _keys(self) -> Dict[str, float]:
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

    def _keys(self) -> Dict[str, float]:
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

    def _keys(self) -> Dict[str, float]:
        return {"factor": self.sharpness_factor}


#   ---- blurs

def _span(name: str, value: Any, least: float, most: float) -> Pair:
    """Its ends; of a number, always it."""
    if parameters.listed(value) is None:
        found = parameters.number(name, value, least, most)
        return found, found
    return parameters.pair(name, value, least, most)


def _kernel(value: Any) -> Tuple[int, int]:
    listed = parameters.listed(value)
    sizes = [value] if listed is None else listed
    if len(sizes) not in (1, 2):
        raise ValueError(f"kernel_size must be a number or (across, down), not {value!r}")
    across, down = (parameters.whole("kernel_size", size, 1, KERNEL_MAX) for size in (sizes[0], sizes[-1]))
    if across % 2 == 0 or down % 2 == 0:
        raise ValueError(f"kernel_size must be odd, not {value!r}")
    return across, down


@dataclass(frozen=True)
class GaussianBlur(Transform):
    """torchvision's: a convolution.  `sigma`: drawn anew for each image.  The blur of MoCo, SimCLR and DINO
    is PillowGaussianBlur."""
    kernel_size: Union[int, Sequence[int]]
    sigma: Union[float, Sequence[float]] = (0.1, 2.0)
    share: bool = False

    def __post_init__(self) -> None:
        self._set(kernel_size=_kernel(self.kernel_size),
                  sigma=_span("sigma", self.sigma, SIGMA_MIN, SIGMA_MAX))

    def _build(self, building: Building) -> None:
        building.expect_image()
        across, down = _kernel(self.kernel_size)
        building.add_random("gaussian_blur", self.share, kernel_size=across if across == down else
                            [across, down], **parameters.said(sigma=(self.sigma, (0.1, 2.0))))


@dataclass(frozen=True)
class PillowGaussianBlur(Transform):
    """Pillow's `image.filter (ImageFilter.GaussianBlur (radius))`, with a radius drawn anew for each image,
    as MoCo, SimCLR, DINO and timm have it.  RandomApply does it with a probability."""
    radius: Union[float, Sequence[float]] = (0.1, 2.0)
    share: bool = False

    def __post_init__(self) -> None:
        self._set(radius=_span("radius", self.radius, 0, RADIUS_MAX))

    def _build(self, building: Building) -> None:
        building.expect_image()
        building.add_random("pillow_gaussian_blur", self.share,
                            **parameters.said(radius=(self.radius, (0.1, 2.0))))


#   ---- affine maps

def _angles(name: str, value: Any) -> Pair:
    """Its ends; of a number, as far to both sides."""
    if parameters.listed(value) is None:
        most = parameters.number(name, value, 0, DEGREES_MAX)
        return -most, most
    return parameters.pair(name, value, -DEGREES_MAX, DEGREES_MAX)


def _center(value: Any) -> Optional[Pair]:
    if value is None:
        return None
    place = parameters.listed(value)
    if place is None or len(place) != 2:
        raise TypeError(f"center must be two numbers (x, y), not {value!r}")
    x, y = (parameters.number("center", number, -CENTER_MAX, CENTER_MAX) for number in place)
    return x, y


def _filter(value: Any) -> str:
    found = parameters.interpolation(value)
    if found == "bicubic":
        raise ValueError("interpolation 'bicubic' is none of the server's here: nearest, bilinear")
    return found


def _fill(value: Any) -> Union[int, Tuple[int, ...]]:
    """torchvision takes floats, and cuts what is behind the point; None is black."""
    listed = parameters.listed(value)
    if listed is None:
        return parameters.fill(_cut(0 if value is None else value))
    return parameters.fill([_cut(channel) for channel in listed])


def _cut(value: Any) -> Any:
    return int(value) if isinstance(value, float) and 0 <= value < 256 else value


class _Mapped(Transform):
    """What lies beside the image is `fill`, in masks `mask_fill`; masks are mapped to the nearest pixel."""
    interpolation: str
    fill: Fill
    mask_fill: int

    def _set_edge(self) -> None:
        self._set(interpolation=_filter(self.interpolation), fill=_fill(self.fill),
                  mask_fill=parameters.whole("mask_fill", self.mask_fill, 0, 255))

    def _edge(self, interpolation: str = "nearest") -> Operation:
        """interpolation: the operation's default."""
        return parameters.said(interpolation=(self.interpolation, interpolation), fill=(self.fill, 0),
                               mask_fill=(self.mask_fill, 0))


@dataclass(frozen=True)
class RandomRotation(_Mapped):
    """By an angle from `degrees`, counter-clockwise.  expand: the image grows until it holds all of it."""
    degrees: Angles
    interpolation: str = "nearest"
    expand: bool = False
    center: Optional[Sequence[float]] = None
    fill: Fill = 0
    mask_fill: int = 0
    share: bool = False

    def __post_init__(self) -> None:
        self._set_edge()
        self._set(degrees=_angles("degrees", self.degrees), expand=bool(self.expand),
                  center=_center(self.center))

    def _build(self, building: Building) -> None:
        building.expect_image()
        building.add_random("random_rotation", self.share, degrees=list(_angles("degrees", self.degrees)),
                            **parameters.said(expand=(self.expand, False), center=(self.center, None)),
                            **self._edge())
        if self.expand:
            building.size = None


@dataclass(frozen=True)
class RandomAffine(_Mapped):
    """Turned clockwise, moved by up to a share of its sides, scaled and sheared."""
    degrees: Angles
    translate: Optional[Sequence[float]] = None
    scale: Optional[Sequence[float]] = None
    shear: Optional[Angles] = None
    interpolation: str = "nearest"
    fill: Fill = 0
    center: Optional[Sequence[float]] = None
    mask_fill: int = 0
    share: bool = False

    def __post_init__(self) -> None:
        self._set_edge()
        self._set(degrees=_angles("degrees", self.degrees), center=_center(self.center),
                  translate=_translation(self.translate), shear=_shear(self.shear))
        if self.scale is not None:
            self._set(scale=parameters.pair("scale", self.scale, SCALE_MIN, SCALE_MAX))

    def _build(self, building: Building) -> None:
        building.expect_image()
        building.add_random("random_affine", self.share, degrees=list(_angles("degrees", self.degrees)),
                            **parameters.said(translate=(self.translate, None), scale=(self.scale, None),
                                              shear=(self.shear, None), center=(self.center, None)),
                            **self._edge())


@dataclass(frozen=True)
class RandomPerspective(_Mapped):
    """Each corner goes inwards, by up to half of the side times `distortion_scale`."""
    distortion_scale: float = 0.5
    p: float = 0.5
    interpolation: str = "bilinear"
    fill: Fill = 0
    mask_fill: int = 0
    share: bool = False

    def __post_init__(self) -> None:
        self._set_edge()
        self._set(distortion_scale=parameters.number("distortion_scale", self.distortion_scale, 0, 1),
                  p=parameters.number("p", self.p, 0, 1))

    def _build(self, building: Building) -> None:
        building.expect_image()
        building.add_random("random_perspective", self.share, **parameters.said(
            distortion_scale=(self.distortion_scale, 0.5), p=(self.p, 0.5)), **self._edge("bilinear"))


@dataclass(frozen=True)
class ElasticTransform(_Mapped):
    """Each pixel is displaced by noise, blurred by `sigma` and times `alpha`; a number, or (across, down)."""
    alpha: Union[float, Sequence[float]] = 50.0
    sigma: Union[float, Sequence[float]] = 5.0
    interpolation: str = "bilinear"
    fill: Fill = 0
    mask_fill: int = 0
    share: bool = False

    def __post_init__(self) -> None:
        self._set_edge()
        self._set(alpha=_across_down("alpha", self.alpha, ELASTIC_ALPHA_MAX),
                  sigma=_across_down("sigma", self.sigma, ELASTIC_SIGMA_MAX))
        across, down = _across_down("sigma", self.sigma, ELASTIC_SIGMA_MAX)
        if max(across, down) > 0 and min(across, down) < SIGMA_MIN:
            raise ValueError(f"sigma must be 0 for both sides, or from {SIGMA_MIN:g} to "
                             f"{ELASTIC_SIGMA_MAX:g} for both, not {self.sigma!r}")

    def _build(self, building: Building) -> None:
        building.expect_image()
        building.add_random("elastic_transform", self.share, **parameters.said(
            alpha=(self.alpha, (50, 50)), sigma=(self.sigma, (5, 5))), **self._edge("bilinear"))


def _across_down(name: str, value: Any, most: float) -> Pair:
    found = parameters.listed(value)
    found = [value] * 2 if found is None else found
    if len(found) != 2:
        raise ValueError(f"{name} must be a number, or two (across, down), not {value!r}")
    across, down = (parameters.number(name, number, 0, most) for number in found)
    return across, down


def _translation(value: Any) -> Optional[Pair]:
    if value is None:
        return None
    shares = parameters.listed(value)
    if shares is None or len(shares) != 2:
        raise TypeError(f"translate must be two shares (across, down), not {value!r}")
    across, down = (parameters.number("translate", share, 0, 1) for share in shares)
    return across, down


def _shear(value: Any) -> Optional[Tuple[float, ...]]:
    """Across; or across and down."""
    ends = parameters.listed(value)
    if value is None or ends is None or len(ends) != 4:
        return None if value is None else _angles("shear", value)
    return (*parameters.pair("shear", ends[:2], -DEGREES_MAX, DEGREES_MAX),
            *parameters.pair("shear", ends[2:], -DEGREES_MAX, DEGREES_MAX))


#   ---- policies

class AutoAugmentPolicy(str, enum.Enum):
    """As torchvision's."""
    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


class _Policy(_Mapped):
    """Steps that are drawn for each sample; masks take those that move pixels.

    `unit_threshold`: the thresholds of Solarize are counted from 1 to 0, as by torchvision's v2, which rounds
    some of them otherwise than from 255 to 0."""
    unit_threshold: bool
    share: bool

    def _add(self, building: Building, operation: str, **keys: Any) -> None:
        building.expect_image()
        said = parameters.said(unit_threshold=(bool(self.unit_threshold), False))
        building.add_random(operation, self.share, **keys, **said, **self._edge())


def _bins(value: Any) -> int:
    return parameters.whole("num_magnitude_bins", value, 2, BINS_MAX)


@dataclass(frozen=True)
class RandAugment(_Policy):
    num_ops: int = 2
    magnitude: int = 9
    num_magnitude_bins: int = 31
    interpolation: str = "nearest"
    fill: Fill = None
    mask_fill: int = 0
    unit_threshold: bool = False
    share: bool = False

    def __post_init__(self) -> None:
        self._set_edge()
        bins = _bins(self.num_magnitude_bins)
        self._set(num_ops=parameters.whole("num_ops", self.num_ops, 0, STEPS_MAX), num_magnitude_bins=bins,
                  magnitude=parameters.whole("magnitude", self.magnitude, 0, bins - 1))

    def _build(self, building: Building) -> None:
        self._add(building, "rand_augment", **parameters.said(
            num_ops=(self.num_ops, 2), magnitude=(self.magnitude, 9),
            num_magnitude_bins=(self.num_magnitude_bins, 31)))


@dataclass(frozen=True)
class TrivialAugmentWide(_Policy):
    num_magnitude_bins: int = 31
    interpolation: str = "nearest"
    fill: Fill = None
    mask_fill: int = 0
    unit_threshold: bool = False
    share: bool = False

    def __post_init__(self) -> None:
        self._set_edge()
        self._set(num_magnitude_bins=_bins(self.num_magnitude_bins))

    def _build(self, building: Building) -> None:
        self._add(building, "trivial_augment_wide",
                  **parameters.said(num_magnitude_bins=(self.num_magnitude_bins, 31)))


@dataclass(frozen=True)
class AutoAugment(_Policy):
    policy: str = "imagenet"
    interpolation: str = "nearest"
    fill: Fill = None
    mask_fill: int = 0
    unit_threshold: bool = False
    share: bool = False

    def __post_init__(self) -> None:
        self._set_edge()
        word = getattr(self.policy, "value", self.policy)
        if word not in [policy.value for policy in AutoAugmentPolicy]:
            raise ValueError(f"policy must be one of imagenet, cifar10, svhn, not {self.policy!r}")
        self._set(policy=str(word))

    def _build(self, building: Building) -> None:
        self._add(building, "auto_augment", **parameters.said(policy=(self.policy, "imagenet")))


@dataclass(frozen=True)
class AugMix(Transform):
    """As torchvision's, but for the steps of its chains: they are those of a Pillow image, as everywhere
    here, where torchvision does those of a tensor.  Masks stay as they are."""
    severity: int = 3
    mixture_width: int = 3
    chain_depth: int = -1
    alpha: float = 1.0
    all_ops: bool = True
    interpolation: str = "bilinear"
    fill: Fill = None
    share: bool = False

    def __post_init__(self) -> None:
        if self.chain_depth != -1:
            parameters.whole("chain_depth", self.chain_depth, 1, DEPTH_MAX)
        self._set(severity=parameters.whole("severity", self.severity, 1, SEVERITY_MAX),
                  mixture_width=parameters.whole("mixture_width", self.mixture_width, 1, CHAINS_MAX),
                  alpha=parameters.number("alpha", self.alpha, ALPHA_MIN, ALPHA_MAX),
                  all_ops=bool(self.all_ops), interpolation=_filter(self.interpolation),
                  fill=_fill(self.fill))

    def _build(self, building: Building) -> None:
        building.expect_image()
        building.add_random("aug_mix", self.share, **parameters.said(
            severity=(self.severity, 3), mixture_width=(self.mixture_width, 3),
            chain_depth=(self.chain_depth, -1), alpha=(self.alpha, 1.0), all_ops=(self.all_ops, True),
            interpolation=(self.interpolation, "bilinear"), fill=(self.fill, 0)))


#   ---- erasing

@dataclass(frozen=True)
class RandomErasing(Transform):
    """A box of a tensor becomes `value`: one number, or one for each channel.  Behind Normalize as before it,
    the last of a list."""
    p: float = 0.5
    scale: Pair = (0.02, 0.33)
    ratio: Pair = (0.3, 3.3)
    value: Union[float, Sequence[float]] = 0
    inplace: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.value is None or isinstance(self.value, str):
            raise ValueError(f"value {self.value!r} is none of the server's: a number, or one for each "
                             "channel")
        self._set(p=parameters.number("p", self.p, 0, 1), scale=parameters.pair("scale", self.scale, 0, 1),
                  ratio=parameters.pair("ratio", self.ratio, 0.01, 100),
                  value=parameters.channels("value", self.value, -1e6, 1e6))

    def _build(self, building: Building) -> None:
        if building.stage is Stage.IMAGE:
            raise Refused("it takes a tensor: put ToTensor before it")
        numbers: Any = self.value
        whole = all(0 <= number <= 255 and float(number).is_integer() for number in numbers)
        if building.stage is Stage.BYTES and not whole:
            raise Refused("of a uint8 tensor its value must be a whole number from 0 to 255")
        building.erase({"op": "random_erasing", **parameters.said(
            p=(self.p, 0.5), scale=(self.scale, (0.02, 0.33)), ratio=(self.ratio, (0.3, 3.3)),
            value=(self.value, (0.0,)))})

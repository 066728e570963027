"""What becomes of a sample, as values: torchvision's transforms under their own names, with their parameters
and defaults, and what Tureen has beside them.

    from tureen import transforms as T          # instead of: from torchvision import transforms as T

    pipeline = T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(mean,
    std)]) loader = tureen.Loader(dataset="train", pipeline=pipeline)

A value does nothing by itself: the server does it.  It can be compared, printed, hashed and pickled, and
`to_json` gives the operations of docs/pipeline.md that it stands for.  What the server could not do exactly
as torchvision does it (on a Pillow image) is refused where the value is made, with the reason.

As in torchvision an image is a Pillow image until ToTensor or PILToTensor: uint8, [height, width, channels].
Behind them only what moves pixels is left, flips and crops; the server does these first, which gives the same
values.
"""
from __future__ import annotations

import difflib
import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple, Union

from . import parameters
from .augmentations import (AugMix, AutoAugment, AutoAugmentPolicy, ElasticTransform, GaussianBlur,
                            PillowGaussianBlur, RandAugment, RandomAdjustSharpness, RandomAffine,
                            RandomAutocontrast, RandomEqualize, RandomErasing, RandomInvert,
                            RandomPerspective, RandomPosterize, RandomRotation, RandomSolarize,
                            TrivialAugmentWide)
from .composition import RandomApply, RandomChoice, RandomOrder
from .compose import (CAST_LAST, SUPPORTED, Building, Compose, Operation, Refused, Share, Stage, Transform,
                      UnsupportedTransform)
from .mixing import CutMix, MixUp
from .parameters import Pair, Size

if TYPE_CHECKING:
    from .splitting import Split

Channels = Union[float, Sequence[float]]
Padding = Union[int, Sequence[int]]
JITTER_MAX = 100.0              # what the server takes at most
LENGTH_MAX = 2**30


class InterpolationMode(str, enum.Enum):
    """As torchvision's, as far as the server has them."""
    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"



@dataclass(frozen=True)
class Resize(Transform):
    """One number: the shorter side becomes that long.  Always with anti-aliasing, as Pillow.

    `pillow13`: an image that loses more than twice as many rows as columns is resized vertically first, as by
    Pillow from 13 on; that rounds other values between the two passes."""
    size: Size
    interpolation: str = "bilinear"
    max_size: Optional[int] = None
    antialias: Optional[bool] = True
    pillow13: bool = False

    def __post_init__(self) -> None:
        size = parameters.sides("size", self.size)
        if self.max_size is not None:
            if len(size) == 2:
                raise ValueError("max_size goes with a size of one number only")
            parameters.whole("max_size", self.max_size, size[0] + 1, parameters.SIDE_MAX)
        self._set(size=size if len(size) == 2 else size[0],
                  interpolation=parameters.interpolation(self.interpolation),
                  antialias=parameters.antialias(self.antialias))

    def _build(self, building: Building) -> None:
        building.expect_image()
        size: Any = list(self.size) if isinstance(self.size, tuple) else self.size
        building.add("resize", size=size, **parameters.said(
            max_size=(self.max_size, None), interpolation=(self.interpolation, "bilinear"),
            pillow13=(bool(self.pillow13), False)))
        building.bounded = building.bounded or self.max_size is not None
        building.size = tuple(size) if isinstance(size, list) else self._shorter(size, building.size)

    def _shorter(self, side: int, size: Optional[Tuple[int, int]]) -> Optional[Tuple[int, int]]:
        if size is None:
            return None
        short, long = side, int(side * max(size) / min(size))
        if self.max_size is not None and long > self.max_size:
            short, long = int(self.max_size * short / long), self.max_size
        return (short, long) if size[0] <= size[1] else (long, short)


@dataclass(frozen=True)
class CenterCrop(Transform):
    """The middle; a smaller image is padded with black."""
    size: Size

    def __post_init__(self) -> None:
        self._set(size=parameters.box("size", self.size))

    def _build(self, building: Building) -> None:
        box, known = parameters.box("size", self.size), building.size
        if building.stage is Stage.NORMALIZED and (known is None or known[0] < box[0] or known[1] < box[1]):
            raise Refused("of a smaller image torchvision makes a border of normalised zeros, the server one "
                          "of black: "
                           "put it before Normalize")
        building.add("center_crop", size=parameters.box_json(box))
        building.size = box


@dataclass(frozen=True)
class RandomResizedCrop(Transform):
    """`pillow13`: see Resize."""
    size: Size
    scale: Pair = (0.08, 1.0)
    ratio: Pair = (3.0 / 4.0, 4.0 / 3.0)
    interpolation: str = "bilinear"
    antialias: Optional[bool] = True
    share: bool = False
    pillow13: bool = False

    def __post_init__(self) -> None:
        scale = parameters.pair("scale", self.scale, 0, 1)
        if scale[0] <= 0:
            raise ValueError(f"scale must be above 0, not {self.scale!r}")
        self._set(size=parameters.box("size", self.size), scale=scale,
                  ratio=parameters.pair("ratio", self.ratio, 0.01, 100),
                  interpolation="random" if self.interpolation == "random"     # bilinear or bicubic, as timm
                  else parameters.interpolation(self.interpolation),
                  antialias=parameters.antialias(self.antialias))

    def _build(self, building: Building) -> None:
        building.expect_image()
        box = parameters.box("size", self.size)
        building.add_random("random_resized_crop", self.share, size=parameters.box_json(box),
                            **parameters.said(
            scale=(self.scale, (0.08, 1.0)), ratio=(self.ratio, (3.0 / 4.0, 4.0 / 3.0)),
            interpolation=(self.interpolation, "bilinear"), pillow13=(bool(self.pillow13), False)))
        building.size = box


def _check_border(building: Building, fill: Any, mode: str) -> None:
    """A border of one value, behind ToTensor."""
    if mode == "constant":
        if building.stage is Stage.NORMALIZED:
            raise Refused("torchvision fills with normalised values, the server with colours: put it before "
                          "Normalize")
        if building.stage is Stage.FLOATS and fill != 0:
            raise Refused("behind ToTensor torchvision's fill is a value from 0 to 1, the server's is a "
                          "colour: "
                           "put it before ToTensor")


def _border_json(fill: Any, mask_fill: int, mode: str) -> Operation:
    #  The values are looked at in this mode only, by torchvision too.
    return parameters.said(fill=(fill, 0), mask_fill=(mask_fill, 0)) if mode == "constant" else {"mode": mode}


@dataclass(frozen=True)
class RandomCrop(Transform):
    """`mask_fill`: what masks are padded with."""
    size: Size
    padding: Optional[Padding] = None
    pad_if_needed: bool = False
    fill: Union[int, Sequence[int]] = 0
    padding_mode: str = "constant"
    mask_fill: int = 0
    share: bool = False

    def __post_init__(self) -> None:
        padding = None if self.padding is None else parameters.padding(self.padding)
        mode = parameters.padding_mode(self.padding_mode)
        if padding and any(padding) and self.pad_if_needed and mode in ("reflect", "symmetric"):
            raise ValueError(f"padding and pad_if_needed with padding_mode {mode!r}: torchvision mirrors the "
                             "border that it has just mirrored: put a Pad before the crop instead of the "
                             "padding")
        self._set(size=parameters.box("size", self.size),
                  padding=padding if padding and any(padding) else None,
                  pad_if_needed=bool(self.pad_if_needed), fill=parameters.fill(self.fill), padding_mode=mode,
                  mask_fill=parameters.whole("mask_fill", self.mask_fill, 0, 255))

    def _build(self, building: Building) -> None:
        padding, box = self.padding, parameters.box("size", self.size)
        border: Operation = {}
        if padding is not None or self.pad_if_needed:
            _check_border(building, self.fill, self.padding_mode)
            border = _border_json(self.fill, self.mask_fill, self.padding_mode)
        if padding is not None:
            border["padding"] = parameters.padding_json(parameters.padding(padding))
        if self.pad_if_needed:
            border["pad_if_needed"] = True
        building.add_random("random_crop", self.share, size=parameters.box_json(box), **border)
        building.size = box


@dataclass(frozen=True)
class Pad(Transform):
    """`mask_fill`: what masks are padded with."""
    padding: Padding
    fill: Union[int, Sequence[int]] = 0
    padding_mode: str = "constant"
    mask_fill: int = 0

    def __post_init__(self) -> None:
        self._set(padding=parameters.padding(self.padding), fill=parameters.fill(self.fill),
                  padding_mode=parameters.padding_mode(self.padding_mode),
                  mask_fill=parameters.whole("mask_fill", self.mask_fill, 0, 255))

    def _build(self, building: Building) -> None:
        left, top, right, bottom = borders = parameters.padding(self.padding)
        _check_border(building, self.fill, self.padding_mode)
        building.add("pad", padding=parameters.padding_json(borders),
                     **_border_json(self.fill, self.mask_fill, self.padding_mode))
        if building.size is not None:
            building.size = building.size[0] + top + bottom, building.size[1] + left + right


#   ---- flips and colours

@dataclass(frozen=True)
class RandomHorizontalFlip(Transform):
    p: float = 0.5
    share: bool = False

    def __post_init__(self) -> None:
        self._set(p=parameters.number("p", self.p, 0, 1))

    def _build(self, building: Building) -> None:
        building.add_random("flip", self.share, **parameters.said(p=(self.p, 0.5)))


@dataclass(frozen=True)
class RandomVerticalFlip(Transform):
    p: float = 0.5
    share: bool = False

    def __post_init__(self) -> None:
        self._set(p=parameters.number("p", self.p, 0, 1))

    def _build(self, building: Building) -> None:
        building.add_random("vertical_flip", self.share, **parameters.said(p=(self.p, 0.5)))


Factor = Union[None, float, Sequence[float]]


def _factor(name: str, value: Any, centre: float, least: float, most: float) -> Optional[Pair]:
    """As torchvision keeps it: the ends, or None where there is nothing to do."""
    if value is None:
        return None
    if parameters.listed(value) is None:
        spread = parameters.number(name, value, 0, most - centre)
        low = centre - spread
        ends = (max(low, 0.0) if centre else low, centre + spread)
    else:
        ends = parameters.pair(name, value, least, most)
    return None if ends == (centre, centre) else ends


@dataclass(frozen=True)
class ColorJitter(Transform):
    brightness: Factor = 0
    contrast: Factor = 0
    saturation: Factor = 0
    hue: Factor = 0
    share: bool = False

    def __post_init__(self) -> None:
        for name in ("brightness", "contrast", "saturation"):
            self._set(**{name: _factor(name, getattr(self, name), 1.0, 0.0, JITTER_MAX)})
        self._set(hue=_factor("hue", self.hue, 0.0, -0.5, 0.5))

    def _build(self, building: Building) -> None:
        building.expect_image()
        building.add_random("color_jitter", self.share, **parameters.said(
            brightness=(self.brightness, None), contrast=(self.contrast, None),
            saturation=(self.saturation, None), hue=(self.hue, None)))


@dataclass(frozen=True)
class Grayscale(Transform):
    num_output_channels: int = 1

    def __post_init__(self) -> None:
        if self.num_output_channels not in (1, 3):
            raise ValueError(f"num_output_channels must be 1 or 3, not {self.num_output_channels!r}")

    def _build(self, building: Building) -> None:
        building.expect_image()
        building.add("grayscale", channels=int(self.num_output_channels))
        building.is_grey = self.num_output_channels == 1


@dataclass(frozen=True)
class RandomGrayscale(Transform):
    p: float = 0.1
    share: bool = False

    def __post_init__(self) -> None:
        self._set(p=parameters.number("p", self.p, 0, 1))

    def _build(self, building: Building) -> None:
        building.expect_image()
        if not building.is_grey:
            building.add_random("grayscale", self.share, p=self.p, channels=3)


#   ---- from an image to what the network gets

@dataclass(frozen=True)
class ToTensor(Transform):
    """float32 from 0 to 1, [channels, height, width]."""

    def _build(self, building: Building) -> None:
        building.to_tensor(Stage.FLOATS)


@dataclass(frozen=True)
class PILToTensor(Transform):
    """uint8, [channels, height, width]."""

    def _build(self, building: Building) -> None:
        building.to_tensor(Stage.BYTES)


@dataclass(frozen=True)
class ConvertImageDtype(Transform):
    """Of a tensor: from uint8 to floats from 0 to 1, or from float32 to a shorter float.

    `reciprocal`: bytes are multiplied by 1 / 255 in 32 bits, as by torchvision's v2, and not divided by 255:
    the last bit of 126 of the 256 is another one."""
    dtype: Any
    reciprocal: bool = False

    def __post_init__(self) -> None:
        self._set(dtype=parameters.dtype_name(self.dtype, _DTYPES))

    def _build(self, building: Building) -> None:
        if building.stage is Stage.IMAGE:
            raise Refused("it takes a tensor: put PILToTensor before it")
        if building.stage is Stage.BYTES and self.dtype != "uint8" and building.dtype is None:
            building.expect_whole()
            building.normalize = {"op": "normalize",
                                  **parameters.said(reciprocal=(bool(self.reciprocal), False))}
            building.stage = Stage.FLOATS
            if self.dtype != "float32":
                building.cast(self.dtype)
        elif self.dtype != (building.dtype or ("uint8" if building.stage is Stage.BYTES else "float32")):
            building.cast(self.dtype)


@dataclass(frozen=True)
class Normalize(Transform):
    """(value - mean) / std of values from 0 to 1.  Of an image, without a ToTensor, it leaves the channels
    last.

    `inplace` changes nothing here."""
    mean: Channels
    std: Channels
    inplace: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        self._set(mean=parameters.channels("mean", self.mean, -1e6, 1e6),
                  std=parameters.channels("std", self.std, 1e-6, 1e6))

    def _build(self, building: Building) -> None:
        if building.stage is Stage.BYTES:
            raise Refused("it takes floats: put ConvertImageDtype(\"float32\") before it, or ToTensor "
                          "instead of PILToTensor")
        if building.stage is Stage.NORMALIZED:
            raise Refused("the server normalises once: make one Normalize of the two")
        if building.dtype is not None:
            raise Refused(CAST_LAST)
        building.expect_whole()
        building.normalize = {"op": "normalize", **(building.normalize or {}), "mean": self._json(self.mean),
                              "std": self._json(self.std)}
        building.stage = Stage.NORMALIZED

    @staticmethod
    def _json(numbers: Any) -> Union[float, List[float]]:
        return float(numbers[0]) if len(numbers) == 1 else list(numbers)


#   ---- Tureen's own

_DTYPES = ("uint8", "float16", "bfloat16", "float32")


@dataclass(frozen=True)
class Cast(Transform):
    """The dtype of the output.  Values are not scaled: without ToTensor or Normalize they stay 0 to 255."""
    dtype: Any

    def __post_init__(self) -> None:
        self._set(dtype=parameters.dtype_name(self.dtype, _DTYPES))

    def _build(self, building: Building) -> None:
        building.cast(self.dtype)


@dataclass(frozen=True)
class Layout(Transform):
    """"NHWC", or "NCHW" for [channels, height, width]."""
    layout: str

    def __post_init__(self) -> None:
        if self.layout not in ("NHWC", "NCHW"):
            raise ValueError(f"layout must be \"NHWC\" or \"NCHW\", not {self.layout!r}")

    def _build(self, building: Building) -> None:
        building.planar = self.layout == "NCHW"


@dataclass(frozen=True)
class Views(Transform):
    """What stands behind it is done for each of `count` views by itself: `image`, `image_2` ..."""
    count: int

    def __post_init__(self) -> None:
        self._set(count=parameters.whole("count", self.count, 2, 10))

    def _build(self, building: Building) -> None:
        building.add("views", count=self.count)


class _Crops(Transform):
    """Of each image several crops, in one array."""
    size: Size

    def _crop(self, building: Building, count: int, **keys: Any) -> None:
        building.expect_image()
        if any(operation.get("op") == "views" for operation in building.operations):
            raise Refused("the server takes several crops, or views, of an image once: leave one of the two "
                          "out")
        size = parameters.box("size", self.size)
        building.add("views", count=count, stack=True)
        building.add("corner_crop", size=parameters.box_json(size), **keys)
        building.size = size


@dataclass(frozen=True)
class FiveCrop(_Crops):
    """The four corners and the middle, stacked: a batch is [batch, 5, channels, height, width].  What stands
    behind it is done to each crop."""
    size: Size

    def __post_init__(self) -> None:
        self._set(size=parameters.box("size", self.size))

    def _build(self, building: Building) -> None:
        self._crop(building, 5)


@dataclass(frozen=True)
class TenCrop(_Crops):
    """Those five, and those of the image flipped."""
    size: Size
    vertical_flip: bool = False

    def __post_init__(self) -> None:
        self._set(size=parameters.box("size", self.size), vertical_flip=bool(self.vertical_flip))

    def _build(self, building: Building) -> None:
        self._crop(building, 10, **({"mirror": "down"} if self.vertical_flip else {}))


@dataclass(frozen=True)
class Decode(Transform):
    """Which images and masks of a sample, and how; and behind them other files, as DecodeArray and
    DecodeBytes that name their field.  Where it is left out: the sample's own image.

        Decode(["image", "mask", DecodeArray("int32", [512], ragged=True, field="tokens")])
    """
    fields: Tuple[Union[str, DecodeArray, DecodeBytes, DecodeBoxes, DecodeMask], ...] = ("image",)
    exact: bool = True
    orientation: bool = False
    max_pixels: Optional[int] = None

    def __post_init__(self) -> None:
        if isinstance(self.fields, str):
            raise TypeError(f"fields must be a list of names, not {self.fields!r}")
        self._set(fields=tuple(self.fields))
        for field in self.fields:
            if not isinstance(field, str) and getattr(field, "field", None) is None:
                raise TypeError("fields must be names of images and masks, DecodeMask, and DecodeArray, "
                                f"DecodeBytes or DecodeBoxes with field=NAME for other files, not {field!r}")
        if self.max_pixels is not None:
            parameters.whole("max_pixels", self.max_pixels, 1, 100_000_000)

    def _build(self, building: Building) -> None:
        _expect_first(building)
        fields = tuple(field if isinstance(field, str) else field._told() for field in self.fields)
        building.add("decode", **parameters.said(
            fields=(fields, ("image",)), exact=(self.exact, True), orientation=(self.orientation, False),
            max_pixels=(self.max_pixels, None)))
        building.bounded = self.max_pixels is not None


@dataclass(frozen=True)
class DecodeBytes(Transform):
    """The sample's file as it is, of `length` bytes; ragged: of at most so many.

    truncate    ragged: of more the first are taken; otherwise a longer file ends the job
    field       the file of this field of the data set, in place of the sample's own
    """
    length: int
    ragged: bool = False
    truncate: bool = False
    field: Optional[str] = None

    def _told(self) -> Dict[str, Any]:
        return {**_field(self.field), "as": "bytes",
                "length": parameters.whole("length", self.length, 1, LENGTH_MAX),
                **_ragged(self.ragged, self.truncate)}

    def _build(self, building: Building) -> None:
        _build_alone(building, self.field, self._told())


@dataclass(frozen=True)
class DecodeArray(Transform):
    """A NumPy `.npy` of this dtype and shape; ragged: `shape[0]` is the most rows that there may be.

    truncate    ragged: of more rows the first are taken; otherwise a longer array ends the job
    field       the file of this field of the data set, in place of the sample's own
    """
    dtype: Any
    shape: Tuple[int, ...]
    ragged: bool = False
    truncate: bool = False
    field: Optional[str] = None

    def __post_init__(self) -> None:
        self._set(dtype=parameters.dtype_name(self.dtype, _ARRAY_DTYPES), shape=tuple(self.shape))

    def _told(self) -> Dict[str, Any]:
        return {**_field(self.field), "as": "array", "dtype": self.dtype, "shape": list(self.shape),
                **_ragged(self.ragged, self.truncate)}

    def _build(self, building: Building) -> None:
        _build_alone(building, self.field, self._told())


@dataclass(frozen=True)
class DecodeBoxes(Transform):
    """Beside an image, a float32 `.npy` of up to `shape[0]` boxes: left, top, right, bottom in pixels of the
    image, and columns that come along (the class).  They follow whatever moves the image's pixels as
    torchvision's v2 moves `BoundingBoxes`; at the end they are clipped, and boxes smaller than `min_size` are
    left out.

    truncate    of more boxes the first are taken; otherwise a longer array ends the job
    field       the field of the data set
    """
    shape: Tuple[int, int]
    field: str
    min_size: float = 1.0
    truncate: bool = False

    def __post_init__(self) -> None:
        self._set(shape=tuple(self.shape), min_size=parameters.number("min_size", self.min_size, 0, 1e6))

    def _told(self) -> Dict[str, Any]:
        return {"field": self.field, "as": "boxes", "shape": list(self.shape),
                **parameters.said(min_size=(self.min_size, 1.0), truncate=(self.truncate, False))}

    def _build(self, building: Building) -> None:
        raise Refused("boxes stand beside an image: put it into the fields of a Decode")


@dataclass(frozen=True)
class DecodeMask(Transform):
    """Beside an image, the file of this field as a mask, which keeps its values: `uint8`, or `uint16` for
    depths and for ids of instances in PNGs and TIFFs of 16 bits.

        Decode(["image", DecodeMask("depth", "uint16")])
    """
    field: str
    dtype: Any = "uint8"

    def __post_init__(self) -> None:
        self._set(dtype=parameters.dtype_name(self.dtype, ("uint8", "uint16")))

    def _told(self) -> Dict[str, Any]:
        return {"field": self.field, "as": "mask", **parameters.said(dtype=(self.dtype, "uint8"))}

    def _build(self, building: Building) -> None:
        raise Refused("a mask stands beside an image: put it into the fields of a Decode")


def _field(name: Optional[str]) -> Dict[str, Any]:
    return {} if name is None else {"field": name}


def _ragged(ragged: bool, truncate: bool) -> Dict[str, Any]:
    if truncate and not ragged:
        raise ValueError("truncate=True is for ragged ones: give ragged=True too")
    return parameters.said(ragged=(ragged, False), truncate=(truncate, False))


def _build_alone(building: Building, field: Optional[str], told: Dict[str, Any]) -> None:
    """A list that is about one file, and no image."""
    _expect_first(building)
    building.add("decode", **(told if field is None else {"fields": [told]}))


_ARRAY_DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
                 "float32", "float64")


@dataclass(frozen=True)
class DecodeAudio(Transform):
    """A sound; an Excerpt must follow.

    rate        the sounds' rate; None: any
    resample    a sound of another rate is resampled to that one; otherwise it ends the job
    """
    dtype: str = "float32"
    channels: int = 1
    rate: Optional[int] = None
    resample: bool = False

    def _build(self, building: Building) -> None:
        _expect_first(building)
        building.add("decode", **{"as": "audio"}, **parameters.said(
            dtype=(self.dtype, "float32"), channels=(self.channels, 1), rate=(self.rate, None),
            resample=(self.resample, False)))


@dataclass(frozen=True)
class Excerpt(Transform):
    """`length` frames of audio, from a random place or from the middle."""
    length: int
    place: str = "random"

    def __post_init__(self) -> None:
        if self.place not in ("random", "center"):
            raise ValueError(f"place must be \"random\" or \"center\", not {self.place!r}")

    def _build(self, building: Building) -> None:
        building.add("excerpt", length=parameters.whole("length", self.length, 1, LENGTH_MAX),
                     **parameters.said(place=(self.place, "random")))


def _expect_first(building: Building) -> None:
    if building.operations:
        raise Refused("decoding comes first: put it at the beginning of the list")


def translate(transforms: Any, pillow13: bool = False) -> Compose:
    """Ours for torchvision's: a Compose, a torch.nn.Sequential, one transform, or a list of them.

    The pixels are the same, for the same random numbers, as torchvision's of a Pillow image; `pillow13`: of
    Pillow from 13 on, which resizes some images in another order.  Raises UnsupportedTransform, which lists
    everything that the server could not do exactly.
    """
    from . import translation
    return translation.translate(transforms, pillow13)


def split(transforms: Any, pillow13: bool = False) -> Split:
    """As `translate`, but what the server could not do is left for the loader's map=: the longest head of
    the list that the server does exactly, and a function for the rest.  That may be any callables that get a
    Pillow image or a tensor, and albumentations.

        cut = split(compose)
        print(cut)                              # by the server: ...; by map=: ... (why)
        loader = DataLoader("train", 64, shuffle=True, map_workers=4, **cut._asdict())

    UnsupportedTransform where images still differ in size at the cut.
    """
    from . import splitting
    return splitting.split(transforms, pillow13)


_WRITTEN = {"ToImage": "it is PILToTensor here", "ToDtype": "it is ConvertImageDtype here, or Cast, which "
            "does not scale"}


def __getattr__(name: str) -> Any:
    """A name of torchvision's that is not here, or one that is written otherwise."""
    from . import translation
    why = translation.REASONS.get(name, _WRITTEN.get(name))
    near = difflib.get_close_matches(name, __all__, 1, 0.8)
    if why is None and near:
        why = f"did you mean {near[0]}?"
    raise AttributeError(f"tureen.transforms has no {name}" + (f": {why}" if why else ""))


__all__ = ["AugMix", "AutoAugment", "AutoAugmentPolicy", "Cast", "CenterCrop", "ColorJitter", "Compose",
           "ConvertImageDtype", "CutMix", "Decode", "DecodeArray", "DecodeAudio", "DecodeBoxes",
           "DecodeBytes", "DecodeMask", "ElasticTransform", "Excerpt", "FiveCrop", "GaussianBlur",
           "Grayscale",
           "InterpolationMode", "Layout", "MixUp", "Normalize", "PILToTensor", "Pad", "PillowGaussianBlur",
           "RandAugment", "RandomAdjustSharpness", "RandomAffine", "RandomApply", "RandomAutocontrast",
           "RandomChoice", "RandomCrop", "RandomEqualize", "RandomErasing", "RandomGrayscale",
           "RandomHorizontalFlip", "RandomInvert", "RandomOrder", "RandomPerspective", "RandomPosterize",
           "RandomResizedCrop", "RandomRotation", "RandomSolarize", "RandomVerticalFlip", "Resize", "Share",
           "TenCrop", "ToTensor", "Transform", "TrivialAugmentWide", "UnsupportedTransform", "Views",
           "split", "translate"]

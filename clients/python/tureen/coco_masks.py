"""Masks of COCO's segmentations: of each image one picture of class numbers (tureen.labels --masks).

0 is what no object covers, 1 the first class in the order of the categories' ids, 255 a pixel of several
objects or of a crowd: so does torchvision's reference for segmentation mark what no loss counts.

A pixel is a polygon's if its centre is inside, by the even-odd rule.  COCO's own tools go by outlines on a
finer grid, and may differ in pixels on an outline.
"""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, List, Mapping, NamedTuple, Sequence, Union

from .errors import SourceError

if TYPE_CHECKING:
    import numpy as np

IGNORED = 255
CLASSES_MAX = 254


class Part(NamedTuple):
    """An object's area: as COCO's `segmentation` has it, a list of polygons or run lengths."""
    value: int                          # of its pixels
    segmentation: Any
    what: str                           # for errors: file and annotation


class Areas(NamedTuple):
    """The objects of an image."""
    width: int
    height: int
    parts: List[Part]


def picture(areas: Areas) -> "np.ndarray":
    """The mask of an image: uint8 [height, width].  SourceError: a segmentation is malformed."""
    import numpy as np
    result = np.zeros((areas.height, areas.width), np.uint8)
    for part in areas.parts:
        inside = _inside(areas, part)
        result[inside & (result > 0)] = IGNORED
        result[inside & (result == 0)] = part.value
    return result


def _inside(areas: Areas, part: Part) -> "np.ndarray":
    if isinstance(part.segmentation, dict):
        return _of_runs(areas, part)
    if not isinstance(part.segmentation, list) or not all(map(_is_polygon, part.segmentation)):
        raise SourceError(f"{part.what}: its `segmentation` is neither a list of polygons, [x, y, x, y, ..], "
                          "nor run lengths, {\"counts\": .., \"size\": [height, width]}: correct it")
    import numpy as np
    inside = np.zeros((areas.height, areas.width), bool)
    for polygon in part.segmentation:
        inside |= _of_polygon(areas, polygon)
    return inside


def _is_polygon(polygon: Any) -> bool:
    return (isinstance(polygon, list) and len(polygon) >= 6 and len(polygon) % 2 == 0
            and all(isinstance(number, (int, float)) and math.isfinite(number) for number in polygon))


def _of_polygon(areas: Areas, polygon: Sequence[float]) -> "np.ndarray":
    import numpy as np
    inside = np.zeros((areas.height, areas.width), bool)
    columns, rows = np.arange(areas.width) + 0.5, np.arange(areas.height) + 0.5
    corners = np.array(polygon, np.float64).reshape(-1, 2)
    for (x, y), (to_x, to_y) in zip(corners, np.roll(corners, -1, 0)):
        crossed = (y <= rows) != (to_y <= rows)         # by a side: all that is to its right changes
        at = x + (rows[crossed] - y) * ((to_x - x) / (to_y - y if to_y != y else 1.0))
        inside[crossed] ^= columns > at[:, None]
    return inside


def _of_runs(areas: Areas, part: Part) -> "np.ndarray":
    """Runs of 0 and 1 by turns, column by column."""
    import numpy as np
    told: Mapping[str, Any] = part.segmentation
    if list(told.get("size") or []) != [areas.height, areas.width]:
        raise SourceError(f"{part.what}: its run lengths are of a picture of {told.get('size')}, and the "
                          f"image is [{areas.height}, {areas.width}]: correct `size`")
    try:
        runs = np.array(_runs(told["counts"]), np.int64)
        if runs.sum() != areas.height * areas.width or (runs < 0).any():
            raise ValueError
    except (KeyError, IndexError, TypeError, ValueError, OverflowError):
        raise SourceError(f"{part.what}: its run lengths do not make up the picture: correct `counts`"
                          ) from None
    flat = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
    return flat.reshape(areas.width, areas.height).T


def _runs(counts: Union[str, Sequence[int]]) -> List[int]:
    """Of a text: numbers in groups of five bits, the lowest first, each a character from '0' on; from the
    fourth number on the difference to the last but one."""
    if not isinstance(counts, str):
        return list(counts)
    runs: List[int] = []
    at = 0
    while at < len(counts):
        number, shift, more = 0, 0, True
        while more:
            bits = ord(counts[at]) - 48
            if not 0 <= bits < 64:
                raise ValueError
            number |= (bits & 31) << shift
            more = bool(bits & 32)
            at += 1
            shift += 5
            if not more and bits & 16:
                number -= 1 << shift
        runs.append(number + (runs[-2] if len(runs) > 2 else 0))
    return runs

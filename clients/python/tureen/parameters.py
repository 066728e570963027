"""The parameters of transforms, checked, and brought into the one form in which they are kept and compared.

A function here raises ValueError or TypeError with the reason for what the server cannot honour exactly.
"""
from __future__ import annotations

import operator
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

Pair = Tuple[float, float]
Size = Union[int, Sequence[int]]

SIDE_MAX, WEIGHT_MAX = 4096, 1e6            # what the server takes at most


def whole(name: str, value: Any, least: int, most: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, not {value!r}") from None
    if isinstance(value, bool) or not least <= number <= most:
        raise ValueError(f"{name} must be from {least} to {most}, not {value!r}")
    return number


def float_of(value: Any) -> float:
    """As float, which makes numbers of texts too."""
    if isinstance(value, (str, bytes)):
        raise TypeError
    return float(value)


def number(name: str, value: Any, least: float, most: float) -> float:
    try:
        found = float_of(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, not {value!r}") from None
    if not least <= found <= most:
        raise ValueError(f"{name} must be from {least:g} to {most:g}, not {value!r}")
    return found


def listed(value: Any) -> Optional[List[Any]]:
    """Of a sequence, an array or a tensor; None: it is none of these."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return list(value) if isinstance(value, (list, tuple)) else None


def weights(value: Any, count: int) -> Tuple[float, ...]:
    """`p` of a choice among so many."""
    found = listed(value)
    if found is None or len(found) != count:
        raise ValueError(f"p must be a weight for each of the {count} transforms, not {value!r}")
    checked = tuple(number("p", weight, 0, WEIGHT_MAX) for weight in found)
    if sum(checked) <= 0:
        raise ValueError(f"p must not be 0 throughout: {value!r}")
    return checked


def sides(name: str, value: Any) -> Tuple[int, ...]:
    """One side or two."""
    found = listed(value)
    found = [value] if found is None else found
    if len(found) not in (1, 2):
        raise ValueError(f"{name} must be a number or (height, width), not {value!r}")
    return tuple(whole(name, side, 1, SIDE_MAX) for side in found)


def box(name: str, value: Any) -> Tuple[int, int]:
    """Height and width; of one number, a square."""
    found = sides(name, value)
    return found[0], found[-1]


def box_json(size: Tuple[int, int]) -> Union[int, List[int]]:
    return size[0] if size[0] == size[1] else list(size)


def pair(name: str, value: Any, least: float, most: float) -> Pair:
    ends = listed(value)
    if ends is None or len(ends) != 2:
        raise TypeError(f"{name} must be two numbers (least, most), not {value!r}")
    low, high = (number(name, end, least, most) for end in ends)
    if low > high:
        raise ValueError(f"{name} must be (least, most), not {value!r}")
    return low, high


def interpolation(value: Any) -> str:
    """A word, torchvision's InterpolationMode, or one of Pillow's numbers."""
    word = getattr(value, "value", value)
    if isinstance(value, int):
        word = {0: "nearest", 2: "bilinear", 3: "bicubic"}.get(value)
    #  On a Pillow image torchvision's "nearest-exact" is "nearest".
    word = "nearest" if word == "nearest-exact" else word
    if word not in ("nearest", "bilinear", "bicubic"):
        raise ValueError(f"interpolation {getattr(value, 'value', value)!r} is none of the server's: "
                         "nearest, bilinear, bicubic")
    return str(word)


def antialias(value: Any) -> bool:
    #  "warn" was torchvision's default in between.
    if value is None or value is True or value == "warn":
        return True
    raise ValueError(f"antialias={value!r}: the server resizes as Pillow does, always with anti-aliasing")


Borders = Tuple[int, int, int, int]


def padding(value: Any) -> Borders:
    """left, top, right, bottom: of one border, of (left and right, top and bottom), or of all four."""
    found = listed(value)
    found = [value] if found is None else found
    if len(found) not in (1, 2, 4):
        raise ValueError(f"padding must be one, two or four numbers, not {value!r}")
    borders = [whole("padding", border, 0, SIDE_MAX) for border in found]
    left, top, right, bottom = borders if len(borders) == 4 else (borders[0], borders[-1], borders[0],
        borders[-1])
    return left, top, right, bottom


def padding_json(borders: Borders) -> Union[int, List[int]]:
    return borders[0] if len(set(borders)) == 1 else list(borders)


def fill(value: Any) -> Union[int, Tuple[int, ...]]:
    colour = listed(value)
    if colour is None:
        return whole("fill", int(value) if isinstance(value, float) and value.is_integer() else value, 0, 255)
    if len(colour) == 1:
        return fill(colour[0])
    if len(colour) != 3:
        raise ValueError(f"fill must be a number, or (red, green, blue), not {value!r}")
    red, green, blue = (whole("fill", channel, 0, 255) for channel in colour)
    return red if red == green == blue else (red, green, blue)


_MODES = ("constant", "edge", "reflect", "symmetric")


def padding_mode(value: Any) -> str:
    if value not in _MODES:
        raise ValueError(f"padding_mode must be one of {', '.join(_MODES)}, not {value!r}")
    return str(value)


def channels(name: str, value: Any, least: float, most: float) -> Tuple[float, ...]:
    """One number for all channels, or three."""
    numbers = listed(value)
    numbers = [value] if numbers is None else numbers
    if len(numbers) not in (1, 3):
        raise ValueError(f"{name} must be a number, or one for each of the 1 or 3 channels, not {value!r}")
    return tuple(number(name, entry, least, most) for entry in numbers)


def dtype_name(value: Any, among: Sequence[str]) -> str:
    """A word, torch's dtype ("torch.float32"), or NumPy's."""
    name = value if isinstance(value, str) else getattr(value, "__name__", None) or str(value)
    name = name.rpartition(".")[2]
    if name not in among:
        raise ValueError(f"dtype {value!r} is none of the server's: {', '.join(among)}")
    return name


def said(**keys: Any) -> Dict[str, Any]:
    """Those keys that differ from the server's defaults, which are torchvision's."""
    return {key: list(value) if isinstance(value, tuple) else value for key, (value, default) in keys.items()
            if value != default}

"""Whether a step of a transform only turns a Pillow image to RGB, which the server's images are already."""
from __future__ import annotations

import dis
import functools
import operator
import types
from typing import Any, Optional

#  What such a function names.  A function that names anything else (random, another function) is not tried:
#  it may do what a try does not show.
_NAMES = {"convert", "mode", "Image", "PIL", "isinstance", "copy"}
_MODES = ("RGB", "L", "P", "RGBA")


def turns_to_rgb(step: Any) -> bool:
    """Judged by trying it with small images; a step that could do anything else is not called."""
    try:
        from PIL import Image
    except ImportError:
        return False
    return _is_plain(step, Image.Image.convert) and all(_is_turned(step, Image, mode) for mode in _MODES)


def _is_plain(step: Any, convert: Any) -> bool:
    if step is convert:
        return True
    if isinstance(step, functools.partial):
        return _is_plain(step.func, convert)
    if isinstance(step, operator.methodcaller):
        make, given = step.__reduce__()[:2]     # with keywords `make` is a partial
        return bool((*getattr(make, "args", ()), *given)[0] == "convert")
    function = _function(step)
    if function is None:
        return False
    code = function.__code__
    inner = code.co_freevars or any(isinstance(value, types.CodeType) for value in code.co_consts)
    of_module = {step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"}
    known = all(name == "isinstance" or _is_of_pillow(function.__globals__.get(name)) for name in of_module)
    return not inner and known and set(code.co_names) <= _NAMES


def _is_of_pillow(value: Any) -> bool:
    """A module or a class of its."""
    name = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", "")
    return isinstance(value, (types.ModuleType, type)) and str(name).partition(".")[0] == "PIL"


def _function(step: Any) -> Optional[types.FunctionType]:
    """Itself, that of a method, or that of an object that is called."""
    function = getattr(step, "__func__", step)
    if not isinstance(function, types.FunctionType):
        function = getattr(type(step), "forward", None) or getattr(type(step), "__call__", None)
    return function if isinstance(function, types.FunctionType) else None


def _is_turned(step: Any, library: Any, mode: str) -> bool:
    image = library.new("RGB", (5, 3))
    image.putdata([(17 * at % 256, 40 * at % 256, 255 - 9 * at) for at in range(15)])
    image = image.convert(mode)
    if mode == "RGBA":
        image.putalpha(100)
    wanted = image.convert("RGB")
    try:
        made = step(image)
        return bool(made.mode == "RGB" and made.size == wanted.size and made.tobytes() == wanted.tobytes())
    except Exception:                           # it takes no image
        return False

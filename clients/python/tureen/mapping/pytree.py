"""What a function gets and returns, as a pytree (a tree of leaves); and how the leaves of a batch lie in
memory.

    flatten         takes tuples, lists and dicts apart, until leaves are left: arrays, numbers, texts
    Layout          the tree and its leaves: dtype, shape, and the order in which the dimensions lie in memory
    ArrayAdapter    what is particular to NumPy; tureen.torch has another one

A leaf keeps its order in memory, so that images that are channels_last stay so, and are copied in one piece.
"""
from __future__ import annotations

import math
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..batch import Array, Batch
from ..waker import Bytes
from ..wire import Field

#  A leaf's number, or a kind and its parts: ("tuple", 0, 1), ("dict", ("image", 0), ("label", 1)).
Tree = Any
_ALIGNED_BYTES = 64
_NUMBERS = "biufc"


def is_text(value: Any) -> bool:
    """A text, or a batch of them: no array, and carried beside them."""
    return isinstance(value, str) or (isinstance(value, list) and bool(value)
                                      and all(isinstance(part, str) for part in value))


def flatten(value: Any, leaves: List[Any]) -> Tree:
    """The tree of `value`; its leaves are appended."""
    if isinstance(value, tuple):
        return ("tuple", *[flatten(part, leaves) for part in value])
    if isinstance(value, dict):
        return ("dict", *[(name, flatten(part, leaves)) for name, part in value.items()])
    if isinstance(value, list) and not is_text(value):
        return ("list", *[flatten(part, leaves) for part in value])
    leaves.append(value)
    return len(leaves) - 1


def rebuild(tree: Tree, leaves: Sequence[Any]) -> Any:
    """The value again."""
    if isinstance(tree, int):
        return leaves[tree]
    kind, *parts = tree
    if kind == "dict":
        return {name: rebuild(part, leaves) for name, part in parts}
    values = [rebuild(part, leaves) for part in parts]
    return tuple(values) if kind == "tuple" else values


class Leaf(NamedTuple):
    """One array of a sample.

    axes        its dimensions, the one with the greatest steps in memory first
    told        the type, where NumPy has none of that name ("bfloat16")
    given       the number of the leaf that the function was given and returned as it is; -1: another
    field       the server's field that this one is; a copy of it is then made in the result's place
    text        no array but strings
    """
    dtype: str
    shape: Tuple[int, ...]
    axes: Tuple[int, ...]
    told: str = ""
    given: int = -1
    field: str = ""
    text: bool = False

    @property
    def row_bytes(self) -> int:
        return 0 if self.text else np.dtype(self.dtype).itemsize * math.prod(self.shape)

    def told_as(self) -> str:
        """For people."""
        return "text" if self.text else f"{self.told or self.dtype}{list(self.shape)}"


class Layout(NamedTuple):
    tree: Tree
    leaves: Tuple[Leaf, ...]


class Laid:
    """A layout in memory, for so many samples.  bytes: that it takes."""

    def __init__(self, layout: Layout, rows: int) -> None:
        self.tree, self.leaves, self.rows = layout.tree, layout.leaves, rows
        self.layout = layout
        self.row_bytes = [leaf.row_bytes for leaf in layout.leaves]
        self.offsets: List[int] = []
        self.bytes = 0
        for size in self.row_bytes:
            self.offsets.append(self.bytes)
            self.bytes += -(-size * rows // _ALIGNED_BYTES) * _ALIGNED_BYTES

    def view(self, number: int, buffer: Bytes) -> Optional[Array]:
        """A leaf over `buffer`, which is its base; None for a text."""
        leaf = self.leaves[number]
        return None if leaf.text else view_of(leaf, buffer, self.rows, self.offsets[number])

    def views(self, buffer: Bytes) -> List[Optional[Array]]:
        return [self.view(number, buffer) for number in range(len(self.leaves))]


def view_of(leaf: Leaf, buffer: Bytes, rows: int, offset: int) -> Array:
    """A leaf of so many samples, which lie at `offset`."""
    lying = [leaf.shape[axis] for axis in leaf.axes]
    array: Array = np.ndarray((rows, *lying), np.dtype(leaf.dtype), buffer, offset)
    return array.transpose(0, *[1 + leaf.axes.index(axis) for axis in range(len(leaf.shape))])


def _leaf(array: Array, told: str, skip: int) -> Leaf:
    """Of an array without its first `skip` dimensions."""
    steps = array.strides[skip:]
    axes = sorted(range(len(steps)), key=lambda axis: -abs(steps[axis]))
    return Leaf(array.dtype.str, array.shape[skip:], tuple(axes), told)


def lies_whole(array: Array, leaf: Leaf, skip: int) -> bool:
    """Its bytes follow one another in the order of the leaf's axes."""
    order = [*range(skip), *[skip + axis for axis in leaf.axes]]
    return bool(array.transpose(order).flags.c_contiguous)


class ArrayAdapter:
    """What a function of NumPy arrays gets, a dict by name, and returns: such a dict."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = tuple(fields)

    def prepare(self) -> None:
        """Once in each process, before the first sample."""

    def present(self, batch: Batch) -> Any:
        """As the function gets it, of all the batch's samples."""
        return dict(batch.items())

    def rows(self, leaf: Any) -> Sequence[Any]:
        """A leaf's samples."""
        if isinstance(leaf, list) or leaf.ndim > 1:
            return list(leaf)
        return [leaf[row, ...] for row in range(len(leaf))]

    def array(self, value: Any) -> Tuple[Array, str]:
        """A leaf as a NumPy array, and its `told`.  TypeError for what is none."""
        array = np.asarray(value)
        if array.dtype.kind not in _NUMBERS:
            raise TypeError(f"it returned a {type(value).__name__}, which is no array of numbers, no number "
                            "and no text")
        return array, ""

    def value(self, array: Array, told: str) -> Any:
        """The leaf that `array` gave `array` and `told` for."""
        return array

    def check(self, tree: Tree) -> None:
        """TypeError where the loader cannot give this."""
        if (isinstance(tree, int) or tree[0] != "dict"
                or not all(isinstance(part, int) for _, part in tree[1:])):
            raise TypeError("it must return a dict of arrays by name, as the one that it gets")

    def leaf(self, value: Any, skip: int) -> Leaf:
        """Of a value that was returned; `skip` dimensions are not the sample's."""
        if is_text(value):
            return Leaf("", (), (), text=True)
        array, told = self.array(value)
        return _leaf(array, told, skip)


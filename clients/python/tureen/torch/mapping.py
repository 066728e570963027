"""Functions of the user's on tensors: what they get, and what the loop gets of what they return."""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Tuple

import numpy as np
import torch

from ..batch import Array, Batch
from ..mapping.pytree import ArrayAdapter, Tree, is_text, rebuild
from ..mapping.results import Result
from ..wire import Joined
from .tensors import Layout, Tensor, Value

_BFLOAT16 = "bfloat16"


class TensorAdapter(ArrayAdapter):
    """What a function gets is what the loop would get without it."""

    def __init__(self, joined: Joined, by_name: bool, ids: bool) -> None:
        super().__init__(joined.fields)
        self._layout = Layout(joined.fields, joined.pipeline, by_name, ids)

    def prepare(self) -> None:
        """As PyTorch's own worker processes: one thread, and random numbers of its own."""
        torch.set_num_threads(1)
        torch.seed()

    def present(self, batch: Batch) -> Any:
        return self._layout.present(self._layout.host(batch), batch)

    def rows(self, leaf: Any) -> Sequence[Any]:
        return leaf if isinstance(leaf, list) else leaf.unbind(0)

    def array(self, value: Any) -> Tuple[Array, str]:
        if not isinstance(value, Tensor):
            array, _ = super().array(value)
            value = torch.from_numpy(np.asarray(array))         # TypeError where PyTorch has no such type
        tensor = value.detach()
        if tensor.dtype == torch.bfloat16:
            return tensor.view(torch.int16).numpy(), _BFLOAT16
        return tensor.numpy(), ""

    def value(self, array: Array, told: str) -> Tensor:
        tensor = torch.from_numpy(array)
        return tensor.view(torch.bfloat16) if told == _BFLOAT16 else tensor

    def check(self, tree: Tree) -> None:
        """The loop may get anything."""


class Mapped:
    """A batch that functions have made.

    values      its leaves by their numbers, over the batch's memory, their dimensions in the order in which
                they lie there: what can be copied in one piece
    """

    def __init__(self, result: Result) -> None:
        self._tree = result.tree
        self._axes: Dict[str, Tuple[int, ...]] = {}
        self.values: Dict[str, Value] = {}
        for number, (value, told) in enumerate(zip(result.values, result.told)):
            name = str(number)
            if is_text(value):
                self.values[name] = value
                continue
            tensor = torch.from_numpy(np.asarray(value))
            if not tensor.is_contiguous():
                steps = tensor.stride()
                self._axes[name] = tuple(sorted(range(len(steps)), key=lambda axis: -steps[axis]))
                tensor = tensor.permute(self._axes[name])
            self.values[name] = tensor.view(torch.bfloat16) if told == _BFLOAT16 else tensor

    def present(self, values: Mapping[str, Value]) -> Any:
        """`values`, or copies of them on a device, as the function returned them."""
        leaves: List[Any] = []
        for number in range(len(values)):
            value, axes = values[str(number)], self._axes.get(str(number))
            if axes is not None and isinstance(value, Tensor):
                value = value.permute([axes.index(axis) for axis in range(len(axes))])
            leaves.append(value)
        return rebuild(self._tree, leaves)

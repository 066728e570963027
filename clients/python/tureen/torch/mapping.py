"""Functions of the user's on tensors: what they get, and what the loop gets of what they return."""
from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

import numpy as np
import torch

from ..batch import Array, Batch
from ..mapping.form import Form, Tree, is_text, rebuild
from ..mapping.results import Result
from ..wire import Joined
from .tensors import Layout, Tensor, Value

_BFLOAT16 = "bfloat16"


class TensorForm(Form):
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


def values(result: Result) -> Dict[str, Value]:
    """The leaves by their numbers, as tensors over the batch's memory."""
    found: Dict[str, Value] = {}
    for number, (value, told) in enumerate(zip(result.values, result.told)):
        if is_text(value):
            found[str(number)] = value
        else:
            tensor = torch.from_numpy(np.asarray(value))
            found[str(number)] = tensor.view(torch.bfloat16) if told == _BFLOAT16 else tensor
    return found


def present(result: Result, found: Dict[str, Value]) -> Any:
    """What the function returned, of a batch."""
    leaves: List[Any] = [found[str(number)] for number in range(len(found))]
    return rebuild(result.tree, leaves)

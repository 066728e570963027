"""Batches from a Tureen server for PyTorch, with the loop, the arguments and the state that PyTorch's users
know.

    from tureen.torch import DataLoader, normalize

    loader = DataLoader("train", batch_size=64, shuffle=True)
    for epoch in range(90):
        for images, labels in loader:
            images = normalize(images.to("cuda"), mean, std)
            ...

`DataLoader` stands where `torch.utils.data.DataLoader` stood; its `state_dict` and `load_state_dict` are
those of torchdata's `StatefulDataLoader`.  There are no worker processes: the server prepares the samples,
once for every job that needs them.
"""
from __future__ import annotations

try:
    import torch as _torch              # noqa: F401  # first, so that a missing one is named here
except ImportError as _missing:
    raise ImportError(f"tureen.torch needs PyTorch ({_missing}): install it (pip install torch, or Debian's "
                      "python3-torch), or use tureen.Loader, which gives NumPy arrays") from _missing

from .device import Device, Event
from .loader import DataLoader, DataSet, EpochIterator
from .ragged import Ragged
from .tensors import normalize

__all__ = ["DataLoader", "DataSet", "Device", "EpochIterator", "Event", "Ragged", "normalize"]

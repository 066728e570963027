"""Batches from a Tureen server as NumPy arrays.

    for batch in tureen.Loader(dataset="train", batch_size=64, epochs=2):
        step(batch["image"], batch["label"])
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from . import ranks, recipes, transforms
from .batch import Batch
from .control import status
from .dataset import DataSet
from .errors import (ForkedProcess, JobEnded, KeyRefused, KeyUnusable, LoaderClosed, MapFailed, NoServer,
                     NotLetIn, NotTrusted, ProtocolError, RequestRefused, ServerGone, ServerStopped,
                     StateError, TureenError, TureenWarning, UnreadableWarning)
from .loader import BatchIterator, Loader
from .mapping.run import sample_seed
from .merging import merge_states
from .ragged import Ragged
from .serving import ServeFailed, Server, serve
from .wire import Field

__all__ = ["Batch", "BatchIterator", "DataSet", "Field", "ForkedProcess", "JobEnded", "KeyRefused",
           "KeyUnusable", "Loader", "LoaderClosed", "MapFailed", "NoServer", "NotLetIn", "NotTrusted",
           "ProtocolError", "Ragged", "RequestRefused", "ServeFailed", "Server", "ServerGone",
           "ServerStopped", "StateError", "TureenError", "TureenWarning", "UnreadableWarning", "merge_states",
           "ranks", "recipes", "sample_seed", "serve", "status", "transforms"]

__version__: str

if not TYPE_CHECKING:               # else mypy would take any name for one of the package
    def __getattr__(name: str) -> str:
        """`__version__`, when it is asked for: in a source tree a script finds it out."""
        if name == "__version__":
            from .version import find_version
            return find_version()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Batches from a Tureen server as NumPy arrays.

    for batch in tureen.Loader(dataset="train", batch_size=64, epochs=2):
        step(batch["image"], batch["label"])
"""
from __future__ import annotations

from . import ranks, recipes, transforms
from .batch import Batch
from .dataset import DataSet
from .errors import (ForkedProcess, JobEnded, KeyRefused, KeyUnusable, LoaderClosed, NoServer, NotLetIn,
                     ProtocolError, RequestRefused, ServerGone, ServerStopped, StateError, TureenError,
                     TureenWarning, UnreadableWarning)
from .loader import BatchIterator, Loader
from .merging import merge_states
from .query import status
from .serving import ServeFailed, Server, serve
from .wire import Field

__version__ = "0.1.0"
__all__ = ["Batch", "BatchIterator", "DataSet", "Field", "ForkedProcess", "JobEnded", "KeyRefused",
           "KeyUnusable", "Loader", "LoaderClosed", "NoServer", "NotLetIn",
           "ProtocolError", "RequestRefused", "ServeFailed", "Server", "ServerGone", "ServerStopped",
           "StateError", "TureenError", "TureenWarning", "UnreadableWarning", "merge_states", "ranks",
           "recipes", "serve", "status", "transforms"]

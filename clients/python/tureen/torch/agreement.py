"""Whether all nodes begin a job at the same place of the same data.

The nodes' servers do not know of each other: parts are disjoint because each server makes them from the same
data, the same order of a pack, and the same state.  Where one of these differs, samples would come twice and
others not at all, and no server can notice.  Processes that train together have a store in common, through
which torch.distributed itself finds its processes; there the first one of them writes where it begins, and
the others compare.  Nothing waits.
"""
from __future__ import annotations

import collections
import json
from typing import Any, Counter, Optional

import torch

from ..errors import RequestRefused
from ..state import State
from ..wire import Joined

_begun: Counter[str] = collections.Counter()        # jobs over several nodes, by the name of their data


def check_agreement(dataset: str, joined: Joined, begin: State) -> None:
    """Of a job that was joined, before its first batch; `begin`: where it stands.  Does nothing for a job of
    one node, or without a process group.

    RequestRefused `nodes_differ`, which names the nodes, what differs and the remedy.
    """
    store = _store() if joined.nodes > 1 else None
    if store is None:
        return
    #  All processes make the same loops in the same order, as they must for their ranks to meet.
    _begun[dataset] += 1
    mine = {"node": joined.node, "nodes": joined.nodes, "fingerprint": joined.fingerprint,
            "data": joined.data, "epoch": begin.epoch, "batches": begin.batches, "steps": joined.steps,
            "partition": joined.partition}
    try:
        first = json.loads(store.compare_set(f"tureen/{dataset}#{_begun[dataset]}", "", json.dumps(mine)))
    except (RuntimeError, NotImplementedError):     # a store that cannot compare
        return
    different = [key for key in mine if key != "node" and mine[key] != first[key]]
    if different:
        raise RequestRefused("nodes_differ", _message(dataset, mine, first, different[0]))


def _message(dataset: str, mine: Any, first: Any, key: str) -> str:
    here, there = f"node {mine['node']}", f"node {first['node']}"
    if key == "fingerprint":
        return (f"the servers of {here} and {there} have different files as data set {dataset!r} "
                f"({mine[key]} and {first[key]}): serve copies of the same files")
    if key == "data":
        return (f"{here} and {there} take different samples of {dataset!r}: give the same subset or sampler "
                "on all nodes")
    if key == "nodes":
        return f"{here} is one of {mine[key]} nodes, {there} one of {first[key]}: give the same nodes on all"
    if key in ("epoch", "batches"):
        return (f"{here} begins at batch {mine['batches']} of epoch {mine['epoch']}, {there} at batch "
                f"{first['batches']} of epoch {first['epoch']}: load states of the same moment on all nodes "
                "(state_dict(gather=True) gives one for all)")
    if key == "steps":
        return (f"an epoch has {mine[key]} batches on {here}, {first[key]} on {there}: give the same "
                "batch_size, number of processes, drop_last and state on all nodes")
    return (f"the parts of {here} and {there} are not of one whole: their servers have {dataset!r} in "
            "different orders (serve the same pack on all nodes, or the same folder), or parts= or the "
            "states are different")


def _store() -> Optional[Any]:
    """Of the process group, if it tells its store: by a name that PyTorch does not document, and that its own
    parts use."""
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized():
        return None
    find = getattr(distributed.distributed_c10d, "_get_default_store", None)
    return None if find is None else find()

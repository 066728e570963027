"""Which of several processes this is, and under which name they find each other.

Jobs of one name are numbered by each rank: NAME, NAME#2, NAME#3 ...  A job with ranks begins on all of them
or on none, so they count alike; and one that begins before another rank has left the job before it does not
meet that one's name.
"""
from __future__ import annotations

import collections
import os
from typing import Any, Counter, Dict, NamedTuple, Optional, Tuple

import torch

from ..ranks import by_node, run_name, short_name, torchrun
from ..request import resolve_endpoint


class Place(NamedTuple):
    """This process among those that take a loader's jobs together: on its node, if there are several."""
    rank: int
    world_size: int
    name: Optional[str]             # of the first of these jobs; of one process alone, its `job`
    node: int = 0
    nodes: int = 1


_begun: Counter[Place] = collections.Counter()      # jobs with ranks, in this process


class Membership:
    """A loader's place.  What was not said is found out when the loader is first used: by then the process
    group is there, also where a framework makes it after the loader."""

    def __init__(self, dataset: str, rank: Optional[int], world_size: Optional[int], job: Optional[str],
                 sampler: Any, *, nodes: Optional[int] = None, node: Optional[int] = None,
                 parts: str = "fresh", endpoint: Optional[str] = None) -> None:
        """ValueError where the arguments contradict each other."""
        self._dataset = dataset
        self._job = job
        self._nodes = _explicit_nodes(nodes, node)
        self._parts = parts
        #  Of a server on another machine, all nodes' processes are ranks of one job
        self._own_server = resolve_endpoint(endpoint).startswith("ipc://")
        self._place: Optional[Place] = None
        #  No caller had said that there are other ranks when this was settled
        self._alone = True
        if rank is not None or world_size is not None:
            self._place = self._of(*_explicit(rank, world_size, sampler), *self._nodes or (0, 1))
            self._alone = False
        elif sampler is not None and self._nodes is not None:
            raise ValueError("nodes= with sampler= needs rank= and world_size= of this node's processes too: "
                             "the server deals out one list, which must be the same in all of them")
        elif sampler is not None:                   # which has split the data, where they are to be split
            self._place = Place(0, 1, job)
            self._alone = False
        if job is not None and sampler is not None and self.together is False:
            raise ValueError("job= cannot be given with sampler=: a sampler's epochs are jobs of their own, "
                             "and the name is one job's at a time; leave it out, or give shuffle= or order=")

    @property
    def settled(self) -> bool:
        """Nothing is left to be found out."""
        return self._place is not None

    @property
    def together(self) -> Optional[bool]:
        """There are others; None where that is not settled."""
        return None if self._place is None else self._place.world_size > 1

    @property
    def place(self) -> Place:
        """As far as it is known now.  ValueError where the surroundings make no sense."""
        return self._found() if self._place is None else self._place

    def settle(self) -> Place:
        """From here on it is this one."""
        if self._place is None:
            self._place = self._found()
            self._alone = self._place.world_size * self._place.nodes == 1
        return self._place

    def check(self) -> None:
        """Before a job begins.  RuntimeError where this process would take it alone, and meanwhile there are
        others."""
        found = self._found() if self._place is not None and self._alone else None
        if found is not None and found.world_size * found.nodes > 1:
            raise RuntimeError(
                "this loader was first used before torch.distributed was initialised, as that of one process "
                f"alone, and now there are {found.world_size * found.nodes}: make it after "
                "init_process_group, or give world_size=1 if each process is to get all the data")

    def options(self) -> Dict[str, Any]:
        """Of the Loader of the next job."""
        place = self.settle()
        nodes = ({} if place.nodes == 1 else
                 {"nodes": place.nodes, "node": place.node, "parts": self._parts})
        if place.world_size == 1:
            return nodes if place.name is None else {"job": place.name, **nodes}
        assert place.name is not None
        number = _begun[place] + 1
        name = place.name if number == 1 else short_name(f"{place.name}#{number}")
        return {"job": name, "rank": place.rank, "world_size": place.world_size, **nodes}

    def begun(self, options: Dict[str, Any]) -> None:
        """The job of these options was joined: the next one has another name.  To say it twice changes
        nothing."""
        place = self.settle()
        if place.world_size > 1 and options == self.options():
            _begun[place] += 1

    def _found(self) -> Place:
        group = _process_group()
        if group is None:
            #  The name that was given stands for the one that is looked for.
            given = {} if self._job is None else {"TORCHELASTIC_RUN_ID": self._job}
            started = torchrun({**os.environ, **given})
            group = (0, 1) if started is None else (started.rank, started.world_size)
        rank, world_size = group
        #  Of several nodes each has a server, or one server is told to serve them all.
        there = by_node(rank, world_size) if self._nodes is not None or self._own_server else None
        if self._nodes is None:
            return self._of(rank, world_size) if there is None else self._of(there.rank, there.world_size,
                there.node, there.nodes)
        if self._nodes[1] == 1 or world_size == 1:
            return self._of(rank, world_size, *self._nodes)
        if there is None and world_size == self._nodes[1]:      # one on each
            return self._of(0, 1, *self._nodes)
        if there is None or (there.node, there.nodes) != self._nodes:
            raise ValueError(f"nodes={self._nodes[1]} and node={self._nodes[0]} were given, and nothing says "
                             f"which of the {world_size} processes are on this node: give rank= and "
                             "world_size= of this node's processes too")
        return self._of(there.rank, there.world_size, *self._nodes)

    def _of(self, rank: int, world_size: int, node: int = 0, nodes: int = 1) -> Place:
        #  Where the nodes' servers are one, their jobs have names of their own.
        behind = f" node {node}" if nodes > 1 else ""
        if self._job is not None:
            return Place(rank, world_size, short_name(self._job + behind) if behind else self._job, node,
                         nodes)
        if world_size == 1:
            return Place(rank, world_size, None, node, nodes)
        run = run_name(os.environ)
        if run is None:
            raise ValueError(f"there are {world_size} ranks, and nothing in the environment names their run, "
                             "by which they find each other (TORCHELASTIC_RUN_ID, or MASTER_ADDR and "
                             "MASTER_PORT): give job=, the same on all ranks and in no other run")
        return Place(rank, world_size, short_name(f"{run}/{self._dataset}{behind}"), node, nodes)


def _explicit_nodes(nodes: Optional[int], node: Optional[int]) -> Optional[Tuple[int, int]]:
    """node and nodes; None: not given."""
    if nodes is None and node is None:
        return None
    if nodes == 1 and node is None:
        return 0, 1
    if nodes is None or node is None:
        raise ValueError("nodes and node go together: give both, or nodes=1 where all processes take from "
                         "one server, or neither, and they are those of torchrun's or Slurm's environment")
    if not 0 <= node < nodes:
        raise ValueError(f"node must be from 0 to {nodes - 1}, for nodes is {nodes}; it is {node}")
    return node, nodes


def _explicit(rank: Optional[int], world_size: Optional[int], sampler: Any) -> Tuple[int, int]:
    if rank is None and world_size == 1:
        return 0, 1
    if rank is None or world_size is None:
        raise ValueError("rank and world_size go together: give both, or world_size=1 for a process that "
                         "gets all the data, or neither, and they are those of torch.distributed or of "
                         "torchrun's environment")
    if not 0 <= rank < world_size:
        raise ValueError(f"rank must be from 0 to {world_size - 1}, for world_size is {world_size}; it is "
                         f"{rank}")
    replicas = getattr(sampler, "num_replicas", 1)
    if world_size > 1 and isinstance(replicas, int) and replicas > 1:
        raise ValueError(f"the sampler gives each of {replicas} processes ids of its own "
                         f"(num_replicas={replicas}), and with ranks it is the server that deals out one "
                         "list, which must be the same in all of them: leave rank and world_size out, or "
                         "give shuffle= or another sampler instead")
    return rank, world_size


def _process_group() -> Optional[Tuple[int, int]]:
    """Rank and world size, where torch.distributed is initialised."""
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()

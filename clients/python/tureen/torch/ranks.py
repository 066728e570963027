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

from ..ranks import Node, run_name, short_name, this_node, torchrun
from ..request import resolve_endpoint, within
from ..wire import NODES_MAX


class Place(NamedTuple):
    """This process among those that take a loader's jobs together."""
    rank: int                       # of its node's
    world_size: int
    name: Optional[str]             # of the first of these jobs; of one process alone, its `job`
    nodes: int = 1
    node: int = 0


_begun: Counter[Place] = collections.Counter()      # jobs with ranks, in this process


class Membership:
    """A loader's place.  What was not said is found out when the loader is first used: by then the process
    group is there, also where a framework makes it after the loader."""

    def __init__(self, dataset: str, rank: Optional[int], world_size: Optional[int], job: Optional[str],
                 sampler: Any, endpoint: Optional[str] = None, nodes: Optional[int] = None,
                 node: Optional[int] = None, parts: Optional[str] = None) -> None:
        """ValueError where the arguments contradict each other."""
        self._dataset = dataset
        self._job = job
        self._endpoint = endpoint
        self._parts = parts
        self._nodes = _explicit_nodes(nodes, node, sampler)
        self._place: Optional[Place] = None
        #  No caller had said that there are other ranks when this was settled
        self._alone = True
        if rank is not None or world_size is not None:
            self._place = self._of(*_explicit(rank, world_size, sampler), *(self._nodes or (1, 0)))
            self._alone = False
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
            self._alone = self._place.world_size == 1 and self._place.nodes == 1
        return self._place

    def check(self) -> None:
        """Before a job begins.  RuntimeError where this process would take it alone, and meanwhile there are
        others."""
        if self._place is None or not self._alone:
            return
        found = self._found()
        if found.world_size * found.nodes > 1:
            raise RuntimeError(
                "this loader was first used before torch.distributed was initialised, as that of one process "
                f"alone, and now there are {found.world_size * found.nodes}: make it after "
                "init_process_group, or give world_size=1 if each process is to get all the data")

    def options(self) -> Dict[str, Any]:
        """Of the Loader of the next job."""
        place = self.settle()
        options: Dict[str, Any] = {}
        name = place.name
        if place.nodes > 1:
            options.update(nodes=place.nodes, node=place.node, parts=self._parts)
            #  Nodes may be at one server, too, and each is a job there.
            name = None if name is None else short_name(f"{name}/node {place.node}")
        if place.world_size == 1:
            return options if name is None else {**options, "job": name}
        assert name is not None
        number = _begun[place] + 1
        name = name if number == 1 else short_name(f"{name}#{number}")
        return {**options, "job": name, "rank": place.rank, "world_size": place.world_size}

    def begun(self, options: Dict[str, Any]) -> None:
        """The job of these options was joined: the next one has another name.  To say it twice changes
        nothing."""
        place = self.settle()
        if place.world_size > 1 and options == self.options():
            _begun[place] += 1

    def _found(self) -> Place:
        group = _process_group()
        many = group[1] > 1 if group is not None else os.environ.get("WORLD_SIZE", "1") != "1"
        here = this_node() if many and (self._nodes is not None or self._is_local()) else None
        if self._nodes is not None:
            return self._on_node(group, many, here)
        if here is not None:
            if group is not None:
                _check_group(here, group[1])
            return self._of(*here[2:], *here[:2])
        if group is not None:
            return self._of(*group)
        #  The name that was given stands for the one that is looked for.
        given = {} if self._job is None else {"TORCHELASTIC_RUN_ID": self._job}
        started = torchrun({**os.environ, **given})
        return Place(0, 1, self._job) if started is None else self._of(started.rank, started.world_size)

    def _on_node(self, group: Optional[Tuple[int, int]], many: bool, here: Optional[Node]) -> Place:
        """Of the node that was said, with the ranks that the surroundings tell."""
        assert self._nodes is not None
        if here is not None:
            return self._of(*here[2:], *self._nodes)
        if not many or group is not None and group[1] == self._nodes[0]:
            return self._of(0, 1, *self._nodes)
        raise ValueError(f"nodes is {self._nodes[0]}, there are several processes, and nothing says which of "
                         "them are this node's: give rank and world_size, of this node alone")

    def _is_local(self) -> bool:
        """The server is this machine's own; else it may be one for all."""
        return resolve_endpoint(self._endpoint).startswith("ipc://")

    def _of(self, rank: int, world_size: int, nodes: int = 1, node: int = 0) -> Place:
        if world_size == 1 or self._job is not None:
            return Place(rank, world_size, self._job, nodes, node)
        run = run_name(os.environ)
        if run is None:
            raise ValueError(f"there are {world_size} ranks, and nothing in the environment names their run, "
                             "by which they find each other (TORCHELASTIC_RUN_ID, or MASTER_ADDR and "
                             "MASTER_PORT): give job=, the same on all ranks and in no other run")
        return Place(rank, world_size, short_name(f"{run}/{self._dataset}"), nodes, node)


def _check_group(here: Node, world_size: int) -> None:
    if here.nodes * here.world_size != world_size:
        raise ValueError(f"torch.distributed has {world_size} processes, and {here.nodes} machines of "
                         f"{here.world_size} as this one have {here.nodes * here.world_size}: give nodes, "
                         "node, rank and world_size (of this node)")


def _explicit_nodes(nodes: Optional[int], node: Optional[int], sampler: Any) -> Optional[Tuple[int, int]]:
    if nodes is None and node is None:
        return None
    if nodes is None or node is None:
        raise ValueError("nodes and node go together: give both, or nodes=1, node=0 for a machine that gets "
                         "all the data, or neither, and they are torchrun's or Slurm's")
    count = within("nodes", nodes, 1, NODES_MAX)
    if count > 1 and sampler is not None:
        raise ValueError("sampler= and nodes= cannot be given together: give shuffle= or order= instead of "
                         "the sampler, or leave nodes out and have the sampler split the data")
    return count, within("node", node, 0, count - 1)


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

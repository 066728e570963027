"""Which of the processes that train together this one is.

The server deals the steps of one job to all of them (`rank` and `world_size` of a loader); they find each
other by the job's name.  The program that starts the processes tells each of them what it needs to know.
"""
from __future__ import annotations

import hashlib
import os
import socket
from typing import Mapping, NamedTuple, Optional

from . import wire

_JOB_BYTES_MAX = 64
_HASH_DIGITS = 16


class Ranks(NamedTuple):
    rank: int
    world_size: int
    #  The same in all of them, and in no other run: loaders make the names of their jobs from it.
    job: str


def torchrun(environment: Mapping[str, str] = os.environ) -> Optional[Ranks]:
    """What torchrun, and others that do as it does, have set for this process: RANK, WORLD_SIZE, and for the
    name TORCHELASTIC_RUN_ID, or where that says nothing MASTER_ADDR and MASTER_PORT.  None: it is a process
    alone.

    ValueError, which names the variable, where one is missing or makes no sense.
    """
    if environment.get("WORLD_SIZE", "1") == "1":
        return None
    world_size = _number(environment, "WORLD_SIZE", 1, wire.RANKS_MAX)
    if world_size == 1:
        return None
    rank, name = _number(environment, "RANK", 0, world_size - 1), run_name(environment)
    if name is None:
        raise ValueError(f"WORLD_SIZE is {world_size}, and there is nothing that names this run: set "
                         "TORCHELASTIC_RUN_ID (torchrun --rdzv_id), or MASTER_ADDR and MASTER_PORT")
    return Ranks(rank, world_size, short_name(name))


class Node(NamedTuple):
    """A machine among those that train together, and this process among its own."""
    nodes: int
    node: int
    rank: int                   # of the processes of this machine, from 0
    world_size: int             # so many are there; as many on all machines


def this_node(environment: Mapping[str, str] = os.environ) -> Optional[Node]:
    """What torchrun (GROUP_RANK, GROUP_WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE) or Slurm's srun
    (SLURM_NODEID, SLURM_NNODES, SLURM_LOCALID, SLURM_TASKS_PER_NODE) have set for this process.  None: it is
    on one machine alone, or nothing says.

    ValueError, which names the variable, where one is missing or makes no sense, and where machines have
    different numbers of processes, which a job over several nodes cannot have.
    """
    if environment.get("GROUP_WORLD_SIZE", "1") != "1":
        nodes = _number(environment, "GROUP_WORLD_SIZE", 1, wire.NODES_MAX)
        world_size = _number(environment, "LOCAL_WORLD_SIZE", 1, wire.RANKS_MAX)
        whole = environment.get("WORLD_SIZE")
        if whole is not None and whole != str(nodes * world_size):
            raise ValueError(f"WORLD_SIZE is {whole}, and {nodes} machines (GROUP_WORLD_SIZE) of "
                             f"{world_size} processes as this one (LOCAL_WORLD_SIZE) are "
                             f"{nodes * world_size}: {_UNEQUAL}")
        return Node(nodes, _number(environment, "GROUP_RANK", 0, nodes - 1),
                    _number(environment, "LOCAL_RANK", 0, world_size - 1), world_size)
    if "SLURM_PROCID" in environment and environment.get("SLURM_NNODES", "1") != "1":
        nodes = _number(environment, "SLURM_NNODES", 1, wire.NODES_MAX)
        world_size = _slurm_tasks(environment.get("SLURM_TASKS_PER_NODE", ""), nodes)
        return Node(nodes, _number(environment, "SLURM_NODEID", 0, nodes - 1),
                    _number(environment, "SLURM_LOCALID", 0, world_size - 1), world_size)
    return None


_UNEQUAL = ("the nodes of a job must have equally many processes. Start as many on each, or let all of them "
            "use one server (TUREEN_ENDPOINT=tcp://HOST:PORT)")


def _slurm_tasks(text: str, nodes: int) -> int:
    """Of "4(x2)"; of "4(x2),3" ValueError."""
    count, _, times = text.partition("(x")
    if not (count.isascii() and count.isdigit() and 1 <= int(count) <= wire.RANKS_MAX
            and times in ("", f"{nodes})")):
        raise ValueError(f"SLURM_TASKS_PER_NODE is {text!r} for {nodes} nodes: {_UNEQUAL}")
    return int(count)


def run_name(environment: Mapping[str, str] = os.environ) -> Optional[str]:
    """What tells this run from others, the same in all of its processes; None where nothing says."""
    run = environment.get("TORCHELASTIC_RUN_ID", "")
    if run not in ("", "none"):             # the latter from torchrun that was given none
        return run
    address, port = environment.get("MASTER_ADDR", ""), environment.get("MASTER_PORT", "")
    if not address or not port:
        return None
    if address == "localhost" or address.startswith("127.") or address == "::1":
        #  The server may serve other hosts too, each of which has such an address
        address = socket.gethostname()
    return f"{address}:{port}"


def short_name(name: str) -> str:
    """The name, or of one that is longer than a job's may be a beginning that people know again, and a hash
    of it all."""
    whole = name.encode("utf-8", "surrogateescape")
    if len(whole) <= _JOB_BYTES_MAX:
        return whole.decode("utf-8", "replace")
    digits = hashlib.sha256(whole).hexdigest()[:_HASH_DIGITS]
    return whole[:_JOB_BYTES_MAX - _HASH_DIGITS - 1].decode("utf-8", "ignore") + "~" + digits


def _number(environment: Mapping[str, str], name: str, least: int, most: int) -> int:
    text = environment.get(name)
    if text is None:
        raise ValueError(f"{_said(environment)}, and {name} is not set: the program that starts the "
                         "processes must set both (torchrun does)")
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and least <= int(text) <= most):
        raise ValueError(f"{name} is {text!r}, not a number from {least} to {most}"
                         + (f" ({_said(environment)})" if name != "WORLD_SIZE" else ""))
    return int(text)


def _said(environment: Mapping[str, str]) -> str:
    """The number of processes, or where nothing says it of machines."""
    for name in ("WORLD_SIZE", "GROUP_WORLD_SIZE", "SLURM_NNODES"):
        if name in environment:
            return f"{name} is {environment[name]}"
    return "there are several processes"

"""Which of the processes that train together this one is.

The server deals the steps of one job to all of them (`rank` and `world_size` of a loader); they find each
other by the job's name.  The program that starts the processes tells each of them what it needs to know.
"""
from __future__ import annotations

import hashlib
import os
import re
import socket
from typing import Mapping, NamedTuple, Optional, Tuple

from . import wire

_JOB_BYTES_MAX = 64
_HASH_DIGITS = 16


class Ranks(NamedTuple):
    rank: int
    world_size: int
    #  The same in all of them, and in no other run: loaders make the names of their jobs from it.
    job: str


class Node(NamedTuple):
    """Which of several machines this is, and which of the processes on it."""
    nodes: int
    node: int
    rank: int
    world_size: int


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


def by_node(rank: int, world_size: int, environment: Mapping[str, str] = os.environ) -> Optional[Node]:
    """Where process `rank` of `world_size` is, that train together, where they are on several machines: as
    torchrun (GROUP_RANK, GROUP_WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE) or Slurm's srun (SLURM_NODEID,
    SLURM_NNODES, SLURM_LOCALID, SLURM_NTASKS_PER_NODE) has set it for just these processes.  None: on one
    machine, or nothing says.

    ValueError, which names the variable, where the machines have different numbers of processes, or one makes
    no sense.
    """
    if _are(environment, ("RANK", rank), ("WORLD_SIZE", world_size)) and "GROUP_WORLD_SIZE" in environment:
        return _node(environment, world_size, "GROUP_WORLD_SIZE", "GROUP_RANK", "LOCAL_RANK",
                     "LOCAL_WORLD_SIZE")
    tasks = "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in environment else "SLURM_NTASKS"
    if not _are(environment, ("SLURM_PROCID", rank), (tasks, world_size)):
        return None
    names = [name for name in ("SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES")
             if name in environment]
    if not names or environment[names[0]] == "1":
        return None
    each = "SLURM_NTASKS_PER_NODE"
    for name in ("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"):
        if name in environment:                     # these say what there is, the other what was asked for
            environment, each = {**environment, name: _tasks(environment, name)}, name
            break
    return _node(environment, world_size, names[0], "SLURM_NODEID", "SLURM_LOCALID", each)


def _tasks(environment: Mapping[str, str], name: str) -> str:
    """Of "2(x4)": 2."""
    found = re.fullmatch(r"([0-9]+)(\(x[0-9]+\))?", environment[name])
    if found is None:
        raise ValueError(f"{name} is {environment[name]!r}: the nodes have different numbers of processes, "
                         "and a job over several nodes needs equally many on each. Start equally many, or "
                         "let all take from one server (TUREEN_ENDPOINT=tcp://...)")
    return found.group(1)


def _node(environment: Mapping[str, str], world_size: int, of_nodes: str, of_node: str, of_rank: str,
          of_each: str) -> Optional[Node]:
    nodes = _number(environment, of_nodes, 1, wire.NODES_MAX)
    if nodes == 1:
        return None
    each = _number(environment, of_each, 1, wire.RANKS_MAX)
    if nodes * each != world_size:
        raise ValueError(f"there are {world_size} processes on {nodes} nodes ({of_nodes}), and {each} on "
                         f"this one ({of_each}): a job over several nodes needs equally many on each. Start "
                         "equally many, or let all take from one server (TUREEN_ENDPOINT=tcp://...)")
    node, rank = _number(environment, of_node, 0, nodes - 1), _number(environment, of_rank, 0, each - 1)
    return Node(nodes, node, rank, each)


def _are(environment: Mapping[str, str], *expected: Tuple[str, int]) -> bool:
    return all(environment.get(name) == str(value) for name, value in expected)


def run_name(environment: Mapping[str, str] = os.environ) -> Optional[str]:
    """What tells this run from others, the same in all of its processes; None where nothing says."""
    run = environment.get("TORCHELASTIC_RUN_ID", "")
    if run not in ("", "none"):             # the latter from torchrun that was given none
        return run
    address, port = environment.get("MASTER_ADDR", ""), environment.get("MASTER_PORT", "")
    if not address or not port:
        job, step = environment.get("SLURM_JOB_ID"), environment.get("SLURM_STEP_ID")
        return None if job is None or step is None else f"slurm-{job}.{step}"
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
        raise ValueError(f"WORLD_SIZE is {environment.get('WORLD_SIZE')}, and {name} is not set: the program "
                         "that starts the processes must set both (torchrun does)")
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and least <= int(text) <= most):
        others = environment.get("WORLD_SIZE") if name != "WORLD_SIZE" else None
        raise ValueError(f"{name} is {text!r}, not a number from {least} to {most}"
                         + (f" (WORLD_SIZE is {others})" if others is not None else ""))
    return int(text)

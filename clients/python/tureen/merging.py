"""From the states of all nodes of a job, one state of the whole job (docs/state.md, Nodes)."""
from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping

import numpy as np

from . import state as states
from .errors import StateError
from .state import Part, State

_ALIKE = ("fingerprint", "data", "samples", "order", "pool")


def merge_states(given: Iterable[Mapping[str, Any]]) -> Dict[str, Any]:
    """The job's state, of one state of each of its nodes: any number of nodes, or none, goes on from it.

        merged = tureen.merge_states(json.loads(path.read_text()) for path in paths)

    Several ranks of a node may give their states, where these are equal.  Between two epochs the state of any
    node is the job's, and those of all nodes make the same.  StateError where one is damaged, where they are
    not of one job, or not of one epoch, or where a node's is missing; it names the node, and how many samples
    would come twice.
    """
    parsed = [states.parse(state) for state in given]
    if not parsed:
        raise StateError("there is no state to merge: give one of each node")
    _check_alike(parsed)
    _check_epochs(parsed)
    parts = [state for state in parsed if state.part is not None]
    if not parts:
        _check_whole(parsed)
        return states.pack(parsed[0])
    if len(parts) < len(parsed):
        raise StateError(f"{len(parsed) - len(parts)} of the {len(parsed)} states are of the whole job, and "
                         f"the others of nodes in the midst of epoch {parts[0].epoch}: give either one "
                         "state of the whole job, or the states of all nodes after the same step")
    return states.pack(_merged(_by_node(parts)))


def _check_alike(parsed: List[State]) -> None:
    first = parsed[0]
    alike = _ALIKE + (("seed",) if first.order == "seeded" else ())
    for state in parsed[1:]:
        for key in alike:
            if getattr(state, key) != getattr(first, key):
                raise StateError(f"the states are of different jobs: {key} is {getattr(first, key)} in "
                                 f"{_name(first)}, {getattr(state, key)} in {_name(state)}; give states of "
                                 "one job")
        if (state.places is None) != (first.places is None):
            raise StateError(f"the states are of different jobs: of {_name(first)} and {_name(state)} only "
                             "one has a list of ids; give states of one job")


def _check_epochs(parsed: List[State]) -> None:
    if len({state.epoch for state in parsed}) > 1:
        where = sorted({(state.epoch, _name(state)) for state in parsed})
        raise StateError("the states are of different epochs: "
                         + ", ".join(f"{name} is in epoch {epoch}" for epoch, name in where)
                         + "; give states that were taken after the same step")


def _check_whole(parsed: List[State]) -> None:
    """Each node has a run of its own, and of some orders a seed."""
    first = parsed[0]
    for state in parsed[1:]:
        if state._replace(run=first.run, seed=first.seed, dataset=first.dataset) != first:
            raise StateError(f"the states are of the whole job and differ: batches {first.batches} and "
                             f"{state.batches}, samples {first.count} and {state.count} of epoch "
                             f"{first.epoch}; give one of them")


def _by_node(parsed: List[State]) -> List[State]:
    """One state of each node, in their order."""
    found: Dict[int, State] = {}
    first = _part(parsed[0])
    for state in parsed:
        part = _part(state)
        if part._replace(node=first.node) != first:
            raise StateError(f"the states are of different parts: {_name(parsed[0])} was cut behind batch "
                             f"{first.batches} with {first.count} samples ({first.parts}), {_name(state)} "
                             f"behind batch {part.batches} with {part.count} ({part.parts}); give states of "
                             "one job")
        known = found.setdefault(part.node, state)
        if known != state:
            raise StateError(f"there are two states of node {part.node}, of batches {known.batches} and "
                             f"{state.batches} with {known.count} and {state.count} samples: give states "
                             "that all ranks of a node took after the same step")
    missing = [node for node in range(first.nodes) if node not in found]
    if missing:
        most = max(_given(state) for state in parsed)
        names = ", ".join(map(str, missing))
        raise StateError(f"the state of node{'s' if len(missing) > 1 else ''} {names} of {first.nodes} is "
                         f"missing: about {len(missing) * most} samples that were given there would come "
                         "twice; give one state of each node")
    return [found[node] for node in range(first.nodes)]


def _merged(nodes: List[State]) -> State:
    first, cut = nodes[0], _part(nodes[0])
    batches = max(state.batches for state in nodes)
    if first.places is not None:
        places = _merged_places(nodes)
        return first._replace(batches=batches, count=places, places=places, part=None)
    mask = np.logical_or.reduce([state.mask() for state in nodes])
    count = int(np.count_nonzero(mask))
    apart = cut.count + sum(state.count - cut.count for state in nodes)
    if count != apart:
        raise StateError(f"the states of the nodes have {apart - count} samples in common, which no two "
                         "nodes of a job are given: they are of different jobs; give states of one job")
    return first._replace(batches=batches, count=count, words=states.pack_words(mask), part=None)


def _merged_places(nodes: List[State]) -> int:
    """Of a list all nodes have been given equally many places, but at its end, where some have no more."""
    cut = _part(nodes[0])
    counts, places = [state.count for state in nodes], max(state.count for state in nodes)
    if len({state.batches for state in nodes}) == 1:
        expected = [places] * cut.nodes
        if (places - cut.count) % cut.nodes:            # only the list's end is so
            expected = [_at_end(cut.count, cut.nodes, node, places) for node in range(cut.nodes)]
        if counts == expected:
            return places
    behind = ", ".join(f"node {node} behind batch {state.batches} and place {state.count}"
                       for node, state in enumerate(nodes))
    twice = sum((count - min(counts)) // cut.nodes for count in counts)
    raise StateError(f"the nodes have come to different places of their list: {behind}; about {twice} "
                     "samples would come twice. Give states that were taken after the same step (where "
                     "samples cannot be read, at an epoch's end)")


def _at_end(cut: int, nodes: int, node: int, end: int) -> int:
    """What the state of a node says that was given all its places."""
    first = cut + (node - cut) % nodes
    own = max(0, -(-(end - first) // nodes))
    return min(cut + nodes * own, end)


def _part(state: State) -> Part:
    assert state.part is not None
    return state.part


def _given(state: State) -> int:
    """Samples, since the parts were made."""
    part = _part(state)
    given = state.count - part.count
    return given if state.places is None else -(-given // part.nodes)


def _name(state: State) -> str:
    if state.part is None:
        return "a state of the whole job"
    return f"node {state.part.node} of {state.part.nodes}"

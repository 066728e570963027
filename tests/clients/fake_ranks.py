"""Ranks at the fake server: how a step is dealt, and what a rank lacks of the steps of another.  No sockets
here."""
from __future__ import annotations

import struct
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

SLOT_NONE = 0xFFFFFFFF
#  What each rank says for itself.
OWN = ("rank", "name", "transport", "instance", "resume", "frames", "gather", "rank_wait", "run")


class Waiting(NamedTuple):
    """A rank that waits: its JOIN came, and other ranks' have not."""
    peer: bytes
    tag: int
    request: Dict[str, Any]
    id_frames: List[bytes]
    since: float

    @property
    def rank(self) -> int:
        return int(self.request["rank"])

    @property
    def world_size(self) -> int:
        return int(self.request["world_size"])


class Record(NamedTuple):
    """A step that a rank received, or an epoch's end: then `step` is None, and `place` says how many steps it
    had."""
    epoch: int
    place: int                  # of the step in its epoch
    samples: int
    step: Optional[List[List[int]]]


Position = Tuple[int, int]


def same(one: Dict[str, Any], other: Dict[str, Any]) -> bool:
    """They ask for one job.  What goes on may say an order and a seed that the user left to the server."""
    return all(one.get(key) == other.get(key) for key in {*one, *other} - {*OWN, "order", "seed"})


def begin_of(request: Dict[str, Any]) -> Position:
    resume = request.get("resume") or {}
    return int(resume.get("epoch", 0)), int(resume.get("batches", 0))


def dealt(places: List[int], world_size: int) -> List[List[int]]:
    """Evenly, in their order: the first ranks get what does not go up."""
    parts, begin = [], 0
    for rank in range(world_size):
        count = len(places) // world_size + (rank < len(places) % world_size)
        parts.append(places[begin:begin + count])
        begin += count
    return parts


def recent_of(request: Dict[str, Any], id_frames: List[bytes]) -> List[Record]:
    """What `recent` says, each record the next one after the one before, and the last one where `resume`
    is."""
    numbers: List[int] = []
    for kind, frame in zip(request.get("frames", []), id_frames):
        if kind == "recent":
            assert frame[:8] == b"\4" + bytes(7) and len(frame) <= 1 << 20, "a recent frame"
            numbers += struct.unpack(f"<{len(frame) // 8 - 1}Q", frame[8:])
    records: List[Record] = []
    while numbers:
        kind, epoch, index, samples = numbers[:4]
        del numbers[:4]
        step = None
        if kind == 0:
            counts = numbers[:request["world_size"]]
            del numbers[:request["world_size"]]
            assert sum(counts) == samples, "counts of a recent step"
            step = [[numbers.pop(0) for _ in range(count)] for count in counts]
        assert kind < 2 and (not records or after(records[-1]) == (epoch, index)), "what follows in recent"
        records.append(Record(epoch, index, samples, step))
    assert not records or after(records[-1]) == begin_of(request), "the end of recent"
    assert len(records) <= 256 and sum(record.samples for record in records if record.step) <= 1 << 20
    return records


def after(record: Record) -> Position:
    return (record.epoch, record.place + 1) if record.step is not None else (record.epoch + 1, 0)


def lacking(recent: List[Record], begin: Position, end: Position) -> Optional[List[Record]]:
    """What lies between; None where `recent` does not reach back so far."""
    if begin == end:
        return []
    for place, record in enumerate(recent):
        if (record.epoch, record.place) == begin:
            return recent[place:]
    return None

"""The last steps that a rank received.  When a server dies, its ranks may have received different numbers of
steps.  The rank that was furthest tells the next server what the others lack."""
from __future__ import annotations

import collections
import struct
from typing import Deque, List

from . import wire

_STEP, _END = 0, 1                      # with which a record begins
_BEGINNING = struct.Struct("<4Q")


class RecentSteps:
    """Records of docs/protocol.md ("Ranks"), as they go into the frames.  The connection's thread."""

    def __init__(self, slots: int) -> None:
        """A rank may be behind by as many steps as it has slots: one more is kept."""
        self._steps_max = slots + 1
        self._records: Deque[bytes] = collections.deque()
        self._steps = 0
        self._ids = 0

    def step(self, head: wire.BatchHead, step: wire.Step, frame: bytes) -> None:
        """`frame`: the step as it came."""
        ids = len(step.ids) // 8
        self._records.append(_BEGINNING.pack(_STEP, head.epoch, head.place, ids) + frame)
        self._steps += 1
        self._ids += ids
        self._trim()

    def end(self, end: wire.EpochEnd) -> None:
        self._records.append(_BEGINNING.pack(_END, end.epoch, end.batches, end.samples))
        self._trim()

    def frames(self, room: int) -> List[bytes]:
        """At most so many; what was longest ago is left out where they would be more."""
        most = max(0, room) * wire.ID_FRAME_NUMBERS_MAX * 8
        while sum(map(len, self._records)) > most:
            self._forget()
        numbers, size = b"".join(self._records), wire.ID_FRAME_NUMBERS_MAX * 8
        return [wire.pack_id_bytes(wire.IDS_RECENT, numbers[begin:begin + size])
                for begin in range(0, len(numbers), size)]

    def _trim(self) -> None:
        while (self._steps > self._steps_max or self._ids > wire.RECENT_IDS_MAX
               or len(self._records) > wire.RECENT_RECORDS_MAX):
            self._forget()

    def _forget(self) -> None:
        kind, _, _, ids = _BEGINNING.unpack_from(self._records.popleft())
        if kind == _STEP:
            self._steps -= 1
            self._ids -= ids

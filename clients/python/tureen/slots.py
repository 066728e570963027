"""Which slots the user holds, and so what PROGRESS may say.

A batch arrives and takes its slot.  It is lent to the user (or copied), and comes back when its last view is
gone.  Batches come back in any order.  PROGRESS names the newest batch that came back, and the earlier ones
that did not by their slots' bits (kept).

Threads: `arrived` and `progress` belong to the connection's thread.  `lend` and `give_back` run anywhere, and
views die anywhere, inside a garbage collection even; so nothing here takes a lock: deque.append and the dict
operations are single steps of the interpreter.  What has died is found by looking, and what looks from the
user's thread changes nothing: a Ctrl-C may come between any two steps.
"""
from __future__ import annotations

import collections
from typing import Deque, Dict, Optional, Tuple

from .errors import ProtocolError
from .waker import Bytes, Loan, Waker

_NOWHERE = -1               # instead of a slot


def lent_max(slots: int) -> int:
    """Batches that may be held before further ones are copied: all slots but two.  Of three slots all but
    one, for the loop itself may hold two batches: the one it looks at and the one it is about to forget."""
    return max(2, slots - 2)


class Slots:
    def __init__(self, count: int, waker: Waker) -> None:
        self.count = count
        self._waker = waker
        self._taken: Dict[int, int] = {}            # sequence -> slot, of every batch that has not come back
        self._lent: Dict[int, Loan] = {}            # sequence -> of those that the user was lent
        self._back: Deque[int] = collections.deque()
        self._arrived = 0
        self._released = 0

    def arrived(self, sequence: int, slot: Optional[int]) -> None:
        """A batch came; None: in no slot.  ProtocolError if it is out of order, or in a slot that was not the
        server's to write."""
        if sequence != self._arrived:
            raise ProtocolError(f"the server sent batch {sequence} where batch {self._arrived} was due")
        if slot is None:
            slot = _NOWHERE
        elif slot >= self.count or slot in self._taken.values():
            raise ProtocolError(f"the server sent batch {sequence} in slot {slot}, which is not free")
        self._taken[sequence] = slot
        self._arrived += 1

    def lend(self, sequence: int, array: Bytes) -> None:
        """`array` is what every view of the batch has as its base: when it dies, the batch has come back."""
        self._lent[sequence] = Loan(array, self._waker)

    def give_back(self, sequence: int) -> None:
        self._back.append(sequence)

    def is_lent(self, sequence: int) -> bool:
        return sequence in self._lent

    @property
    def lent(self) -> int:
        """Batches in the ring that the user can still see."""
        return len([loan for loan in list(self._lent.values()) if not loan.over])

    @property
    def scarce(self) -> bool:
        """As many are kept as may be: the next batch should be copied."""
        return self.lent >= lent_max(self.count)

    def progress(self) -> Tuple[int, int]:
        """(released, kept) of the protocol, now."""
        for sequence in list(self._lent):
            if self._lent[sequence].over:
                self._back.append(sequence)
                del self._lent[sequence]
        while self._back:
            sequence = self._back.popleft()
            if self._taken.pop(sequence, None) is not None:
                self._released = max(self._released, sequence + 1)
        kept = 0
        for sequence, slot in self._taken.items():
            if sequence < self._released and slot != _NOWHERE:
                kept |= 1 << slot
        return self._released, kept

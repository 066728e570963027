"""Which slots the user holds, and so what PROGRESS may say.

A batch arrives and takes its slot.  It is lent to the user (or copied), and comes back when its last view is
gone.  Batches come back in any order.  PROGRESS names the newest batch that came back, and the earlier ones
that did not by their slots' bits (kept).

Threads: `arrived` and `progress` belong to the connection's thread.  `lend`, `give_back` and the weak
references' callback run anywhere, the callback inside a garbage collection even; so nothing here takes a
lock: deque.append and the dict operations are single steps of the interpreter.
"""
from __future__ import annotations

import collections
import weakref
from typing import Any, Callable, Deque, Dict, Optional, Tuple

import numpy as np
import numpy.typing as npt

from .errors import ProtocolError

Bytes = npt.NDArray[np.uint8]
_NOWHERE = -1               # instead of a slot


class _Loan(weakref.ref):  # type: ignore[type-arg]  # weakref.ref[...] cannot be subscripted as a base
    """A weak reference to a lent slot's array that knows which batch it is."""
    __slots__ = ("sequence",)
    sequence: int

    def __new__(cls, array: Bytes, callback: Callable[[Any], None], sequence: int) -> _Loan:
        self = super().__new__(cls, array, callback)
        self.sequence = sequence
        return self

    def __init__(self, array: Bytes, callback: Callable[[Any], None], sequence: int) -> None:
        super().__init__(array, callback)  # type: ignore[call-arg]


def lent_max(slots: int) -> int:
    """Batches that may be held before further ones are copied: all slots but two.  Of three slots all but
    one, for the loop itself may hold two batches: the one it looks at and the one it is about to forget."""
    return max(2, slots - 2)


class Slots:
    def __init__(self, count: int, wake: Callable[[], None]) -> None:
        self.count = count
        self._wake = wake
        self._taken: Dict[int, int] = {}            # sequence -> slot, of every batch that has not come back
        self._lent: Dict[int, _Loan] = {}           # sequence -> of those that the user holds
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
        self._lent[sequence] = _Loan(array, self._died, sequence)

    def give_back(self, sequence: int) -> None:
        self._back.append(sequence)

    def _died(self, loan: _Loan) -> None:
        self._back.append(loan.sequence)
        self._lent.pop(loan.sequence, None)
        self._wake()

    def is_lent(self, sequence: int) -> bool:
        return sequence in self._lent

    @property
    def lent(self) -> int:
        """Batches in the ring that the user can still see."""
        return len(self._lent)

    @property
    def scarce(self) -> bool:
        """As many are kept as may be: the next batch should be copied."""
        return len(self._lent) >= lent_max(self.count)

    def progress(self) -> Tuple[int, int]:
        """(released, kept) of the protocol, now."""
        while self._back:
            sequence = self._back.popleft()
            if self._taken.pop(sequence, None) is not None:
                self._released = max(self._released, sequence + 1)
        kept = 0
        for sequence, slot in self._taken.items():
            if sequence < self._released and slot != _NOWHERE:
                kept |= 1 << slot
        return self._released, kept

"""Memory that the client shares with its own processes: memfds, which have no name in any file system and are
gone with the last process that has them."""
from __future__ import annotations

import itertools
import mmap
import os
import resource
import weakref
from typing import Dict, Optional, Tuple

import numpy as np
import numpy.typing as npt

from ..waker import Bytes, Loan, Waker

_PAGE_BYTES = 4096
_numbers = itertools.count(1)


class Shared:
    """A descriptor that can be handed to a process, and is closed with the last reference to this."""
    __slots__ = ("number", "descriptor", "size", "__weakref__")

    def __init__(self, descriptor: int, size: int) -> None:
        self.number = next(_numbers)
        self.descriptor = descriptor
        self.size = size
        weakref.finalize(self, os.close, descriptor).atexit = False


class Memory:
    """So many slots; each is lent as an array, and is free again when the last view of that is gone, which
    wakes `waker`.

    Threads: `take` is one's, `lend` and `lent` are one's.
    """

    def __init__(self, count: int, slot_bytes: int, waker: Optional[Waker]) -> None:
        self.count = count
        self.slot_bytes = -(-max(slot_bytes, 1) // _PAGE_BYTES) * _PAGE_BYTES
        self.shared = new_shared(count * self.slot_bytes)
        self._memory = mmap.mmap(self.shared.descriptor, self.shared.size)
        self._waker = waker
        self._taken: Dict[int, Loan] = {}       # by its slot, the newest
        self._lent: Dict[int, Loan] = {}        # of those, what the user was given

    def take(self) -> Optional[Tuple[int, Bytes]]:
        """A free slot, and where it begins; None where there is none."""
        for index in range(self.count):
            loan = self._taken.get(index)
            if loan is None or loan.over:
                offset = index * self.slot_bytes
                array: Bytes = np.frombuffer(self._memory, np.uint8, self.slot_bytes, offset)
                self._taken[index] = Loan(array, self._waker)
                return offset, array
        return None

    def lend(self, offset: int) -> None:
        """The user has that slot now."""
        index = offset // self.slot_bytes
        self._lent[index] = self._taken[index]

    @property
    def lent(self) -> int:
        return len([loan for loan in self._lent.values() if not loan.over])


def new_shared(size: int) -> Shared:
    descriptor = os.memfd_create("tureen-map", os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, size)
    except BaseException:
        os.close(descriptor)
        raise
    return Shared(descriptor, size)


def mapped(descriptor: int, size: int) -> mmap.mmap:
    """Maps it and closes the descriptor."""
    try:
        return mmap.mmap(descriptor, size)
    finally:
        os.close(descriptor)


class Private:
    """Shared memory, mapped so that what is written here stays here: the pages that are written to are copied
    by the kernel.  What others write is seen, but in these pages."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._memory = mmap.mmap(descriptor, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
        self._whole = np.frombuffer(self._memory, np.uint8)
        self._address = self._whole.ctypes.data
        self._faults = -1               # of this process, when it was last known that nothing was written

    def bytes(self, offset: int, size: int) -> Bytes:
        return self._whole[offset:offset + size]

    def unchanged(self) -> bool:
        """Nothing was written here for sure: the first write to a page is a page fault, and there was none
        since `restored`."""
        return _faults() == self._faults

    def restored(self) -> None:
        self._faults = _faults()

    def changed(self, array: npt.NDArray[np.generic]) -> bool:
        """Whether something was written here to the pages of a part of it that lies in one piece; True where
        that cannot be known."""
        first, end = self._pages(array)
        count = end - first
        try:
            with open("/proc/self/pagemap", "rb", buffering=0) as file:
                told = os.pread(file.fileno(), 8 * count, (self._address // _PAGE_BYTES + first) * 8)
        except OSError:
            return True
        if len(told) != 8 * count:
            return True
        #  Bit 63: in memory, 62: swapped out, 61: a page of the file
        flags = np.frombuffer(told, np.uint64) >> np.uint64(61)
        return bool(((flags & _HERE != 0) & (flags & _OF_FILE == 0)).any())

    def restore(self, array: npt.NDArray[np.generic]) -> None:
        """What was written here to its pages is forgotten."""
        first, end = self._pages(array)
        self._memory.madvise(mmap.MADV_DONTNEED, first * _PAGE_BYTES,
                             min(end * _PAGE_BYTES, len(self._memory)) - first * _PAGE_BYTES)

    def _pages(self, array: npt.NDArray[np.generic]) -> Tuple[int, int]:
        begin = array.ctypes.data - self._address
        return begin // _PAGE_BYTES, -(-(begin + array.nbytes) // _PAGE_BYTES)


def _faults() -> int:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_minflt + used.ru_majflt


_HERE, _OF_FILE = np.uint64(6), np.uint64(1)

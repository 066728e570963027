"""Batches on a device: copied straight from the ring, which is handed back only when the copy is done.

    happy path:     a batch comes; its slot is pinned (once), its fields' copies begin on a stream of their
                    own, an event is recorded behind them.  The loop gets the copies at once: its own work on
                    the device comes after them.  The batch's memory is held until the event has passed.
    failure modes:  memory that cannot be pinned is copied all the same, with one warning.  A copy that fails
                    raises in the loop; what had begun before it is waited for like any other.
    on close:       copies that still run are waited for, then the slots are unpinned and given back.

`Device` is all that is known of a device; `CudaDevice` is the one there is.
"""
from __future__ import annotations

import abc
import collections
import mmap
import warnings
import weakref
from typing import Any, Deque, Dict, List, Mapping, NamedTuple, Optional, Tuple, Union

import numpy as np
import torch

from ..batch import Batch
from ..ragged import Ragged
from .tensors import Tensor, Value


class Event(abc.ABC):
    """A moment in a device's work."""

    @abc.abstractmethod
    def done(self) -> bool:
        """Whether all that was begun before it is done.  Waits for nothing."""

    @abc.abstractmethod
    def wait(self) -> None:
        """Returns when it is."""


class Device(abc.ABC):
    """What a loader needs of a device.  Used by one thread at a time."""

    @abc.abstractmethod
    def pin(self, address: int, length: int) -> bool:
        """Locks host memory, so that copies from it run beside the caller's work; False where that cannot
        be."""

    @abc.abstractmethod
    def unpin(self, address: int) -> None:
        """Undoes a `pin` that gave True; no copy from there runs any more."""

    @abc.abstractmethod
    def copy(self, tensor: Tensor) -> Tensor:
        """Begins a copy and gives it, of the same shape; `tensor` must stay as it is until an event behind it
        is done."""

    @abc.abstractmethod
    def mark(self) -> Event:
        """An event behind all copies that were begun so far."""

    @abc.abstractmethod
    def adopt(self, copies: List[Tensor]) -> None:
        """What the caller does on the device from here on comes after those copies, and their memory is
        theirs as long as the caller's work needs it."""


def check_device(asked: Union[None, str, torch.device, Device]) -> Union[None, torch.device, Device]:
    """The device that batches are copied to; None where they stay in the host's memory.  Nothing is begun on
    it yet. RuntimeError where it is not there."""
    if asked is None or isinstance(asked, Device):
        return asked
    device = torch.device(asked)
    if device.type == "cpu":
        return None
    if device.type != "cuda":
        raise ValueError(f"device must be \"cuda\", \"cuda:N\" or \"cpu\", not {str(asked)!r}: leave it out, "
                         "and move the batches in the loop, by .to(...)")
    if not torch.cuda.is_available():
        raise RuntimeError(f"device={str(device)!r} was asked for, and this PyTorch ({torch.__version__}) "
                           "finds no CUDA device: leave device out to get batches in the host's memory")
    if device.index is not None and device.index >= torch.cuda.device_count():
        raise RuntimeError(f"device={str(device)!r} was asked for, and there are {torch.cuda.device_count()} "
                           "CUDA devices, counted from 0")
    return device


class _CudaEvent(Event):
    def __init__(self, event: Any) -> None:
        self._event = event

    def done(self) -> bool:
        return bool(self._event.query())

    def wait(self) -> None:
        self._event.synchronize()


class CudaDevice(Device):
    """UNTESTED on a machine of this project's own: none has a CUDA device.  The tests run the code around it
    on a device of their own, which copies late."""

    def __init__(self, device: torch.device) -> None:
        self._device = torch.device("cuda", torch.cuda.current_device() if device.index is None
                                    else device.index)
        self._stream = torch.cuda.Stream(self._device)

    def pin(self, address: int, length: int) -> bool:
        with torch.cuda.device(self._device):
            if int(torch.cuda.cudart().cudaHostRegister(address, length, 0)) == 0:
                return True
            #  CUDA keeps the error, and PyTorch would raise it at whatever comes next
            try:
                torch.zeros(1, device=self._device).add_(1)
            except RuntimeError:
                pass
            return False

    def unpin(self, address: int) -> None:
        with torch.cuda.device(self._device):
            torch.cuda.cudart().cudaHostUnregister(address)

    def copy(self, tensor: Tensor) -> Tensor:
        with torch.cuda.stream(self._stream):
            return tensor.to(self._device, non_blocking=True)

    def mark(self) -> Event:
        event = torch.cuda.Event()
        event.record(self._stream)
        return _CudaEvent(event)

    def adopt(self, copies: List[Tensor]) -> None:
        current = torch.cuda.current_stream(self._device)
        current.wait_stream(self._stream)
        for copy in copies:
            copy.record_stream(current)


class _Pending(NamedTuple):
    """Copies under way, and the memory that they are made from."""
    event: Event
    values: List[Value]


class Copier:
    """Copies batches to a device, and holds each one's memory until its copies are done.

    room        batches that may be under way when another one comes: `make_room` waits for the oldest ones

    Dropped in the middle it waits for the copies as `close` does: the server would write into memory that
    they read.
    """

    def __init__(self, device: Device, room: int) -> None:
        self._device = device
        self._room = room
        self._pending: Deque[_Pending] = collections.deque()
        #  Slots by their addresses, and what holds the mapping, so that it outlives the pin.
        self._pinned: Dict[int, Any] = {}
        self._unpinnable = False
        self._finalizer = weakref.finalize(self, _drain, device, self._pending, self._pinned)

    @property
    def pending(self) -> int:
        """Batches that still hold their memory."""
        return len(self._pending)

    def settle(self) -> None:
        """Gives back the memory of those that are done.  Waits for nothing."""
        while self._pending and self._pending[0].event.done():
            self._pending.popleft()

    def make_room(self) -> None:
        """Before the next batch is asked for: else the ring would run out of slots, and batches be copied
        twice."""
        self.settle()
        while len(self._pending) > self._room:
            self._pending[0].event.wait()
            self.settle()

    def copy(self, values: Mapping[str, Value], batch: Batch) -> Dict[str, Value]:
        """`values` on the device.  They, and with them `batch`'s memory, are held until the copies are
        done."""
        copies: Dict[str, Value] = {}
        begun: List[Value] = []
        self._pin(batch)
        try:
            for name, value in values.items():
                if isinstance(value, Tensor):
                    begun.append(value)
                    copies[name] = self._device.copy(value)
                else:
                    copies[name] = value
        finally:
            self._pending.append(_Pending(self._device.mark(), begun))
        self._device.adopt([copy for copy in copies.values() if isinstance(copy, Tensor)])
        return copies

    def close(self) -> None:
        """Waits for what is under way, and gives everything back.  May be used again."""
        _drain(self._device, self._pending, self._pinned)

    def _pin(self, batch: Batch) -> None:
        found = _slot(batch)
        if found is None or self._unpinnable:
            return
        address, length, mapping = found
        if self._pinned.get(address) is mapping:
            return
        if len({id(other) for other in self._pinned.values()} | {id(mapping)}) > (2 if batch.mapped else 1):
            #  Of a ring that is gone: another job's, or a server's that was restarted.  What functions make
            #  (map=) lies in memory of its own, or in the ring.
            self.close()
        if self._device.pin(address, length):
            self._pinned[address] = mapping
        else:
            self._unpinnable = True
            warnings.warn("the ring's memory cannot be pinned (the limit of locked memory, ulimit -l?): "
                          "copies to the device are slower", RuntimeWarning, stacklevel=2)


def _drain(device: Device, pending: Deque[_Pending], pinned: Dict[int, Any]) -> None:
    while pending:
        pending[0].event.wait()
        pending.popleft()
    while pinned:
        address, _ = pinned.popitem()
        device.unpin(address)


def _slot(batch: Batch) -> Optional[Tuple[int, int, Any]]:
    """The ring's slot in which a batch lies: address, bytes, and what holds the mapping.  None where it lies
    elsewhere: it came inline, or was copied because too many were kept."""
    for array in batch.values():
        room = array.room if isinstance(array, Ragged) else array
        slot = getattr(room, "base", None)              # a text has none
        if isinstance(slot, np.ndarray):
            mapping = slot.base.obj if isinstance(slot.base, memoryview) else slot.base
            if isinstance(mapping, mmap.mmap):
                return slot.ctypes.data, slot.nbytes, mapping
    return None

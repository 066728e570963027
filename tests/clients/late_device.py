"""A device that copies only when the test says so, or when a caller waits for the copies."""
from __future__ import annotations

import ctypes
from typing import Dict, List, Optional, Tuple

import torch

from tureen.torch import Device, Event


class LateEvent(Event):
    def __init__(self, device: LateDevice, copies: int) -> None:
        self._device = device
        self._copies = copies               # that come before it, counted from the beginning

    def done(self) -> bool:
        return self._device.done >= self._copies

    def wait(self) -> None:
        self._device.waits += 1
        self._device.run(max(0, self._copies - self._device.done))


class LateDevice(Device):
    def __init__(self) -> None:
        self.pins = True                    # False: no memory can be pinned
        self.fail_at: Optional[int] = None  # that copy, counted from 1, finds no memory
        self.done = 0
        self.begun = 0
        self.waits = 0
        self.pinned: Dict[int, int] = {}    # address, bytes
        self.unpinned_early = 0
        self.adopted: List[int] = []        # how many copies each time
        self._queue: List[Tuple[torch.Tensor, int, List[int]]] = []
        self._copies: Dict[int, torch.Tensor] = {}

    @property
    def left(self) -> int:
        return len(self._queue)

    def run(self, count: int) -> None:
        """Makes the oldest `count` copies.  It reads its source by address, as a device does."""
        for _ in range(count):
            target, address, shape = self._queue.pop(0)
            source = _memory(address, target.nelement() * target.element_size())
            target.view(-1).view(torch.uint8).copy_(source)
            self.done += 1

    def pin(self, address: int, length: int) -> bool:
        if self.pins:
            assert address not in self.pinned, "pinned twice"
            self.pinned[address] = length
        return self.pins

    def unpin(self, address: int) -> None:
        del self.pinned[address]
        self.unpinned_early += bool(self._queue)

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        assert tensor.is_contiguous(), "copied in one piece"
        if self.begun + 1 == self.fail_at:
            raise RuntimeError("out of memory")
        self.begun += 1
        target = torch.full_like(tensor, 99)
        self._queue.append((target, tensor.data_ptr(), list(tensor.shape)))
        return target

    def mark(self) -> LateEvent:
        return LateEvent(self, self.begun)

    def adopt(self, copies: List[torch.Tensor]) -> None:
        self.adopted.append(len(copies))


def _memory(address: int, length: int) -> torch.Tensor:

    return torch.frombuffer((ctypes.c_uint8 * length).from_address(address), dtype=torch.uint8)

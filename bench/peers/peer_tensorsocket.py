"""TensorSocket: one producer with PyTorch's DataLoader sends its batches to all jobs, which keep in step."""

from __future__ import annotations

import sys
import time
from typing import Any, Dict, Iterator

from tensorsocket.consumer import TensorConsumer
from tensorsocket.producer import TensorProducer

from peer import BATCH, READY, Settings, endless
from peer_pytorch import make_loader


def ports(settings: Settings) -> Dict[str, Any]:
    return {"port": settings.port, "ack_port": settings.port + 1,
            "heart_ports": (settings.port + 2, settings.port + 3)}


def prepare(settings: Settings) -> None:
    """Files are read as they are."""


def serve(settings: Settings) -> None:
    #  The producer joins this many batches, all of one size, into one; with 1 it never starts.
    loader = make_loader(settings, settings.processors, drop_last=True)
    producer = TensorProducer(loader, producer_batch_size=2, **ports(settings))
    print(READY, flush=True)
    while True:
        for _ in producer:
            pass
        sys.stdout.flush()


def batches(settings: Settings, job: int) -> Iterator[int]:
    time.sleep(0.2 * job)
    consumer = TensorConsumer(batch_size=BATCH, **ports(settings))
    return endless(consumer)

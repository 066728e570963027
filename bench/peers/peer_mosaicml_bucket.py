"""MosaicML Streaming on a bucket: it fetches its shards in the first epoch and keeps all of them on the local
disk, one copy for each job."""

from __future__ import annotations

import fcntl
import tempfile
from typing import Iterator

import torch

import peer_mosaicml
from peer import BATCH, Settings, key_of
from peer_mosaicml import Photographs

prepare = peer_mosaicml.prepare


def batches(settings: Settings, job: int) -> Iterator[int]:
    torch.set_num_threads(1)
    local = tempfile.mkdtemp(prefix="local-", dir=settings.directory)
    with open(f"{settings.directory}/lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        remote = "s3://bucket/" + key_of(settings, f"{settings.directory}/shards")
        data = Photographs(remote=remote, local=local, shuffle=True, batch_size=BATCH)
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH, num_workers=settings.workers,
                                         persistent_workers=True)

    def endless() -> Iterator[int]:
        while True:
            for images, _ in loader:
                yield len(images)
    return endless()

"""MosaicML Streaming: its MDS shards with the photographs' bytes, each job with worker processes and Pillow.

Jobs of one machine number the shared memory that they make by what they find there, so jobs that open a data
set at the same moment take the same number and fail.  Here they open it one after another.
"""

from __future__ import annotations

import fcntl
import io
from typing import Any, Iterator

import torch
from streaming import MDSWriter, StreamingDataset

from peer import BATCH, Settings, endless, photographs
from peer_pytorch import make_transform


def prepare(settings: Settings) -> None:
    with MDSWriter(out=f"{settings.directory}/shards", columns={"image": "bytes", "label": "int"}) as writer:
        for path, label in photographs(settings):
            writer.write({"image": path.read_bytes(), "label": label})


class Photographs(StreamingDataset):
    def __init__(self, settings: Settings, **options: Any) -> None:
        super().__init__(**options)
        self._transform = make_transform(settings)

    def __getitem__(self, index: Any) -> Any:
        sample = super().__getitem__(index)
        return self._transform(io.BytesIO(sample["image"])), sample["label"]


def batches(settings: Settings, job: int) -> Iterator[int]:
    return batches_of(settings, local=f"{settings.directory}/shards")


def batches_of(settings: Settings, **where: str) -> Iterator[int]:
    """where: StreamingDataset's `local`, and `remote` of a bucket."""
    torch.set_num_threads(1)
    with open(f"{settings.directory}/lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        data = Photographs(settings, shuffle=True, batch_size=BATCH, **where)
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH, num_workers=settings.workers,
                                         persistent_workers=True)
    return endless(loader)

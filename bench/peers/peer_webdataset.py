"""WebDataset: tar shards with the photographs' bytes, each job with worker processes and Pillow."""

from __future__ import annotations

import io
from typing import Any, Iterator, List

import torch
import webdataset

from peer import BATCH, Settings, endless, photographs
from peer_pytorch import make_transform

SHARDS = 8                      # so that every worker has some
SHUFFLE_BUFFER = 400


def prepare(settings: Settings) -> None:
    files = photographs(settings)
    for shard in range(SHARDS):
        with webdataset.TarWriter(f"{settings.directory}/{shard}.tar") as writer:
            for number in range(shard, len(files), SHARDS):
                path, label = files[number]
                writer.write({"__key__": str(number), "jpg": path.read_bytes(), "cls": label})


class Decode:
    def __init__(self, settings: Settings) -> None:
        self._transform = make_transform(settings)

    def __call__(self, sample: Any) -> Any:
        return self._transform(io.BytesIO(sample["jpg"])), int(sample["cls"])


def batches(settings: Settings, job: int) -> Iterator[int]:
    torch.set_num_threads(1)
    shards: List[str] = [f"{settings.directory}/{shard}.tar" for shard in range(SHARDS)]
    data = webdataset.WebDataset(shards, shardshuffle=SHARDS).shuffle(SHUFFLE_BUFFER).map(Decode(settings))
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH, num_workers=settings.workers,
                                         persistent_workers=True)
    return endless(loader)

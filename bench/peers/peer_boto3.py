"""PyTorch's DataLoader on a bucket: each job asks for each sample's object by boto3, in worker processes."""

from __future__ import annotations

import io
from typing import Any, Iterator, Tuple

import boto3
import torch

from peer import BATCH, Settings, endless, key_of, photographs
from peer_pytorch import make_transform


class Objects(torch.utils.data.Dataset):
    def __init__(self, settings: Settings) -> None:
        self._keys = [(key_of(settings, path), label) for path, label in photographs(settings)]
        self._transform = make_transform(settings)
        self._client: Any = None

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, index: int) -> Tuple[torch.Tensor, int]:
        if self._client is None:            # one for each worker process
            self._client = boto3.client("s3")
        key, label = self._keys[index]
        body = self._client.get_object(Bucket="bucket", Key=key)["Body"].read()
        return self._transform(io.BytesIO(body)), label


def prepare(settings: Settings) -> None:
    """Objects are read as they are."""


def batches(settings: Settings, job: int) -> Iterator[int]:
    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(Objects(settings), batch_size=BATCH, shuffle=True,
                                         num_workers=settings.workers, persistent_workers=True)
    return endless(loader)

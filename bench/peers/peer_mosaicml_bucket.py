"""MosaicML Streaming on a bucket: it fetches its shards in the first epoch and keeps all of them on the local
disk, one copy for each job."""

from __future__ import annotations

import tempfile
from typing import Iterator

import peer_mosaicml
from peer import Settings, key_of

prepare = peer_mosaicml.prepare


def batches(settings: Settings, job: int) -> Iterator[int]:
    return peer_mosaicml.batches_of(settings, local=tempfile.mkdtemp(prefix="local-", dir=settings.directory),
                                    remote="s3://bucket/" + key_of(settings, f"{settings.directory}/shards"))

"""Tureen on a pack in a bucket; nothing is kept on the local disk."""

from __future__ import annotations

import peer_tureen
import peer_tureen_pack
from peer import Settings, key_of

batches = peer_tureen.batches
prepare = peer_tureen_pack.prepare


def serve(settings: Settings) -> None:
    peer_tureen.serve_data(settings, "s3://bucket/" + key_of(settings, f"{settings.directory}/pack"))

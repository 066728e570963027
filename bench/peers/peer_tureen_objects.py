"""Tureen on a bucket with one object for each photograph."""

from __future__ import annotations

import peer_tureen
from peer import Settings, key_of

batches = peer_tureen.batches
prepare = peer_tureen.prepare


def serve(settings: Settings) -> None:
    peer_tureen.serve_data(settings, "s3://bucket/" + key_of(settings, settings.photographs))

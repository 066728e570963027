"""Tureen on a pack of the photographs: their bytes, and where the rows of each begin."""

from __future__ import annotations

import subprocess

import peer_tureen
from peer import Settings

batches = peer_tureen.batches


def prepare(settings: Settings) -> None:
    subprocess.run([settings.binary, "pack", "--quiet", settings.photographs, f"{settings.directory}/pack"],
                   check=True)


def serve(settings: Settings) -> None:
    peer_tureen.serve_data(settings, f"{settings.directory}/pack")

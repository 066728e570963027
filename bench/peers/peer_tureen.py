"""Tureen: one server on the folder, each job a tureen.torch.DataLoader."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Iterator, Optional

from peer import BATCH, READY, Settings, endless
from peer_recipes import transforms

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "clients" / "python"))

from tureen.torch import DataLoader                                     # noqa: E402

ONE_HOUR_S = 3600


def endpoint(settings: Settings) -> str:
    return f"ipc://{settings.directory}/socket"


def prepare(settings: Settings) -> None:
    """Files are read as they are."""


def serve(settings: Settings) -> None:
    serve_data(settings, settings.photographs)


def serve_data(settings: Settings, data: str) -> None:
    server = subprocess.Popen([settings.binary, "serve", "--dataset", f"train={data}", "--listen",
                               endpoint(settings), "--cache", "64M", "--workers", str(settings.processors),
                               "--policy", settings.policy],
                              stdout=subprocess.DEVNULL)
    ask = [settings.binary, "status", "--connect", endpoint(settings)]
    while subprocess.run(ask, capture_output=True).returncode != 0:
        if server.poll() is not None:
            sys.exit(f"the server ended with {server.returncode}")
        time.sleep(0.05)
    print(READY, flush=True)
    server.wait(ONE_HOUR_S)


def batches(settings: Settings, job: int, samples: Optional[range] = None) -> Iterator[int]:
    loader = DataLoader("train", batch_size=BATCH, shuffle=True, endpoint=endpoint(settings),
                        subset=samples, transform=transforms(settings))
    return endless(loader)

"""One process of a peer: `prepare`, `serve`, or a job that counts its samples until it is told to stop.

    python peer_process.py NAME prepare|serve|JOB SETTINGS

SETTINGS is JSON.  A job writes READY when its loader is made, waits for a line, then takes batches.  It
writes WARM after its first epoch.  At the next line it writes the times (seconds of the monotonic clock,
which all processes share) and sizes of its batches as JSON, and ends without clearing up: the parent kills
what is left of a peer.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import time

from peer import READY, Settings, photographs

WARM = "warm"


def run_job(module: object, settings: Settings, job: int) -> None:
    epoch = len(photographs(settings))
    iterator = module.batches(settings, job)        # type: ignore[attr-defined]
    print(READY, flush=True)
    #  Not sys.stdin: a loader's worker, forked while a thread waits in it, hangs when it closes its own.
    os.read(0, 1)
    stopping = threading.Event()
    threading.Thread(target=lambda: (os.read(0, 1), stopping.set()), daemon=True).start()
    times, sizes, taken = [], [], 0
    is_warm = False
    for size in iterator:
        times.append(time.monotonic())
        sizes.append(int(size))
        taken += int(size)
        #  Loaders that drop an incomplete last batch end an epoch up to one batch early.
        if not is_warm and taken >= epoch:
            is_warm = True
            print(WARM, flush=True)
        if stopping.is_set():
            break
    print(json.dumps({"times": times, "sizes": sizes}), flush=True)
    os._exit(0)


def main() -> None:
    name, role, given = sys.argv[1:]
    settings = Settings(**json.loads(given))
    module = importlib.import_module(f"peer_{name}")
    if role in ("prepare", "serve"):
        getattr(module, role)(settings)
    else:
        run_job(module, settings, int(role))


if __name__ == "__main__":
    main()

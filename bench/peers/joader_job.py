"""A job of joader.py: takes its epochs, sleeps after each batch as it is told, writes its seconds as JSON."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time

from peer import READY, Settings


def main() -> None:
    name, role, given, job = sys.argv[1:]
    settings = Settings(**json.loads(given))
    (first, last), epochs, start_s, step_s = json.loads(job)
    module = importlib.import_module(f"peer_{name}")
    is_late = start_s > 0
    #  A loader begins to work when it is made or asked; one that starts late is made late.
    iterator = None if is_late else module.batches(settings, int(role), range(first, last))
    print(READY, flush=True)
    os.read(0, 1)
    time.sleep(start_s)
    began = time.monotonic()
    if iterator is None:
        iterator = module.batches(settings, int(role), range(first, last))
    left = epochs * (last - first)
    for size in iterator:
        left -= int(size)
        if left <= 0:
            break
        time.sleep(step_s)
    print(json.dumps({"seconds": time.monotonic() - began}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()

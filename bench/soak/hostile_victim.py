#!/usr/bin/env python3
"""A job that takes batches as fast as they come and writes when each came, how long it waited, and for how
much of that its own threads were ready to run and had no processor; hostile.py starts it."""

from __future__ import annotations

import argparse
import os
import sys
import time

import tureen


def without_processor() -> float:
    """Seconds that the threads of this process were ready to run and did not run, so far.  A batch passes
    them one after the other, so what they have waited adds up."""
    waited = 0
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/schedstat", encoding="ascii") as file:
                waited += int(file.read().split()[1])
        except OSError:         # it has ended
            continue
    return waited / 1e9


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connect", required=True)
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    with open(options.out, "w", encoding="ascii") as out, \
            tureen.Loader(options.connect, dataset=options.dataset, batch_size=options.batch,
                          seed=options.seed, epochs=None, name="victim") as loader:
        asked, queued = time.monotonic(), without_processor()
        for batch in loader:
            came, now_queued = time.monotonic(), without_processor()
            out.write(f"{came:.6f} {came - asked:.6f} {len(batch.ids)} {now_queued - queued:.6f}\n")
            out.flush()
            del batch
            asked, queued = time.monotonic(), without_processor()
    return 0


if __name__ == "__main__":
    sys.exit(main())

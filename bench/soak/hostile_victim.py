#!/usr/bin/env python3
"""A job that takes batches as fast as they come and writes when each came and how long it waited; hostile.py
starts it."""

from __future__ import annotations

import argparse
import sys
import time

import tureen


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
        asked = time.monotonic()
        for batch in loader:
            came = time.monotonic()
            out.write(f"{came:.6f} {came - asked:.6f} {len(batch.ids)}\n")
            out.flush()
            del batch
            asked = time.monotonic()
    return 0


if __name__ == "__main__":
    sys.exit(main())

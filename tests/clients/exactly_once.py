"""What every job promises: each sample once an epoch."""
from __future__ import annotations

import unittest
from collections import Counter
from typing import Iterable


def assert_exactly_once(test: unittest.TestCase, ids: Iterable[int], samples: int) -> None:
    """Every id from 0 to samples - 1 came once.  tests/first_hour adds up what this prints."""
    counts = Counter(ids)
    print(f"ids: {sum(counts.values())} of {samples}", flush=True)
    test.assertEqual(counts, Counter(range(samples)))

"""Draws the rates of the peers as bars, a group for each number of jobs."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import List, Tuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "speed"))

import bar_drawing                                                      # noqa: E402


def draw(rows: List[Tuple[str, List[List[float]]]], jobs: List[int], date: str) -> str:
    """rows: title, and for each number of jobs the rates of the rounds (none: it failed).  Gives an SVG."""
    groups = []
    for column, count in enumerate(jobs):
        bars = []
        for title, columns in rows:
            value = statistics.median(columns[column]) if columns[column] else 0.0
            bars.append(bar_drawing.Bar(title, value, f"{value:,.0f}" if value else "failed",
                                        title.startswith("Tureen")))
        heading = f"{count} job{'s' * (count > 1)}: samples a second of all jobs together"
        groups.append(bar_drawing.Group(heading, bars))
    return bar_drawing.draw(groups, f"bench/peers/run.sh, {date}; "
                            "random crops of the same JPEGs to 224 x 224")

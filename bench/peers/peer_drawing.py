"""Draws the rates of the peers as bars, a group for each number of jobs."""

from __future__ import annotations

import html
import statistics
from typing import List, Tuple

WIDTH, LEFT, RIGHT = 720, 170, 70
BAR, GAP, HEAD = 15, 5, 26
OURS, OTHERS = "#1f6f5c", "#b9b4a8"
STYLE = "font-family:sans-serif;font-size:12px;fill:#333"


def draw(rows: List[Tuple[str, List[List[float]]]], jobs: List[int], date: str) -> str:
    """rows: title, and for each number of jobs the rates of the rounds (none: it failed).  Gives an SVG."""
    medians = [[statistics.median(rates) if rates else 0.0 for rates in columns] for _, columns in rows]
    largest = max([1.0] + [value for values in medians for value in values])
    group = HEAD + len(rows) * (BAR + GAP) + GAP
    height = group * len(jobs) + HEAD
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
             f'width="{WIDTH}" height="{height}">', f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>']
    for column, count in enumerate(jobs):
        top = column * group + HEAD
        lines.append(f'<text x="10" y="{top - 8}" style="{STYLE};font-weight:bold">{count} '
                     f'job{"s" * (count > 1)}: samples a second of all jobs together</text>')
        for row, (title, _) in enumerate(rows):
            value, y = medians[row][column], top + row * (BAR + GAP)
            length = (WIDTH - LEFT - RIGHT) * value / largest
            lines.append(f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end" style="{STYLE}">'
                         f'{html.escape(title)}</text>')
            lines.append(f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" '
                         f'fill="{OURS if title.startswith("Tureen") else OTHERS}"/>')
            lines.append(f'<text x="{LEFT + length + 6:.1f}" y="{y + 12}" style="{STYLE}">'
                         f'{f"{value:,.0f}" if value else "failed"}</text>')
    lines.append(f'<text x="10" y="{height - 10}" style="{STYLE}">'
                 f'bench/peers/run.sh, {date}; random crops of the same JPEGs to 224 x 224</text>')
    return "\n".join(lines + ["</svg>", ""])

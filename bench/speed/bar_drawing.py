"""Draws groups of bars as an SVG that follows the reader's light or dark colours."""

from __future__ import annotations

import html
from typing import List, NamedTuple, Optional

WIDTH, LEFT, RIGHT = 720, 170, 70
BAR, GAP, HEAD = 15, 5, 26
STYLE = ("text{font-family:sans-serif;font-size:12px;fill:#333}.title{text-anchor:end}"
         ".heading{font-weight:bold}.paper{fill:#fff}.ours{fill:#1f6f5c}.others{fill:#b9b4a8}"
         "@media (prefers-color-scheme:dark){text{fill:#e6edf5}.paper{fill:#161b22}.ours{fill:#4cb79b}"
         ".others{fill:#77736a}}")


class Bar(NamedTuple):
    title: str                  # before the bar
    value: float
    label: str                  # behind the bar
    is_ours: bool               # Tureen's


class Group(NamedTuple):
    heading: str
    bars: List[Bar]


def draw(groups: List[Group], note: str, full: Optional[float] = None) -> str:
    """An SVG.  `full` is the value of a bar of full length (None: the largest value)."""
    scale = (WIDTH - LEFT - RIGHT) / (full or max([1.0] + [bar.value for group in groups
                                                           for bar in group.bars]))
    height = sum(HEAD + len(group.bars) * (BAR + GAP) + GAP for group in groups) + HEAD
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
             f'width="{WIDTH}" height="{height}">', f"<style>{STYLE}</style>",
             f'<rect width="{WIDTH}" height="{height}" class="paper"/>']
    y = 0
    for group in groups:
        y += HEAD
        lines.append(f'<text x="10" y="{y - 8}" class="heading">{html.escape(group.heading)}</text>')
        for bar in group.bars:
            length = bar.value * scale
            lines += [f'<text x="{LEFT - 8}" y="{y + 12}" class="title">{html.escape(bar.title)}</text>',
                      f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" '
                      f'class="{"ours" if bar.is_ours else "others"}"/>',
                      f'<text x="{LEFT + length + 6:.1f}" y="{y + 12}">{html.escape(bar.label)}</text>']
            y += BAR + GAP
        y += GAP
    lines.append(f'<text x="10" y="{height - 10}">{html.escape(note)}</text>')
    return "\n".join(lines + ["</svg>", ""])

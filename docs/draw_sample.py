#!/usr/bin/python3
"""Draws the way of a sample from the text below: `python3 docs/draw_sample.py > docs/sample.svg`.

Each line of BOXES is `column | title | text | text`; each line of ARROWS is `from -> to: words`.  The picture
follows the reader's light or dark colours.
"""

from __future__ import annotations

from html import escape
from typing import Dict, List, Tuple

BOXES = """
disk    | disk            | folder, or a pack           | read in whole pieces
raw     | raw tier        | compressed samples          | in memory
worker1 | workers         | shared stage, once:         | decode, resize, crop
cache   | prepared cache  | versions that several       | jobs may still use
worker2 | workers         | private stage, per job:     | flip, cast, layout
ring1   | job 1           | batches in its own          | shared memory
ring2   | job 2           | its own order,              | its own speed
"""
ARROWS = """
disk -> raw: read
raw -> worker1:
worker1 -> cache: version
cache -> worker2:
worker2 -> ring1:
worker2 -> ring2:
"""
NOTE = (
    "The sampler draws for each job a sample that it still needs in this epoch, "
    "and prefers one that is already here."
)

WIDTH, HEIGHT, BOX_WIDTH, BOX_HEIGHT, GAP = 1180, 250, 146, 74, 54
PLACES: Dict[str, Tuple[int, int]] = {
    name: (12 + column * (BOX_WIDTH + GAP), 84)
    for column, name in enumerate(("disk", "raw", "worker1", "cache", "worker2"))
}
PLACES["ring1"] = (12 + 5 * (BOX_WIDTH + GAP), 34)
PLACES["ring2"] = (12 + 5 * (BOX_WIDTH + GAP), 134)


def box(line: str) -> List[str]:
    name, title, *texts = [part.strip() for part in line.split("|")]
    x, y = PLACES[name]
    drawn = [
        f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" class="box"/>',
        f'<text x="{x + BOX_WIDTH // 2}" y="{y + 22}" class="title">{escape(title)}</text>',
    ]
    for number, text in enumerate(texts):
        drawn.append(
            f'<text x="{x + BOX_WIDTH // 2}" y="{y + 43 + 17 * number}" class="text">{escape(text)}</text>'
        )
    return drawn


def arrow(line: str) -> List[str]:
    ends, words = line.split(":")
    start, end = [name.strip() for name in ends.split("->")]
    x1, y1 = PLACES[start][0] + BOX_WIDTH, PLACES[start][1] + BOX_HEIGHT // 2
    x2, y2 = PLACES[end][0], PLACES[end][1] + BOX_HEIGHT // 2
    drawn = [f'<line x1="{x1 + 3}" y1="{y1}" x2="{x2 - 5}" y2="{y2}" class="arrow" marker-end="url(#head)"/>']
    if words.strip():
        drawn.append(
            f'<text x="{(x1 + x2) // 2}" y="{(y1 + y2) // 2 - 8}" class="words">'
            f"{escape(words.strip())}</text>"
        )
    return drawn


def main() -> None:
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        "<style>.box{fill:#e8f0fa;stroke:#3b6ea5;stroke-width:1.5}"
        ".title{font-size:15px;font-weight:bold;text-anchor:middle;"
        "fill:#1b2a3a}.text{font-size:11.5px;text-anchor:middle;fill:#1b2a3a}"
        ".words,.note{font-size:11.5px;text-anchor:middle;"
        "fill:#3b6ea5}.note{font-size:13px}.arrow{stroke:#3b6ea5;stroke-width:1.5}.head{fill:#3b6ea5}"
        "@media (prefers-color-scheme:dark){.box{fill:#1d2b3a;stroke:#7fb0e6}.title,.text{fill:#e6edf5}"
        ".words,.note{fill:#9cc4f0}.arrow{stroke:#7fb0e6}.head{fill:#7fb0e6}}</style>",
        '<defs><marker id="head" markerWidth="8" markerHeight="8" refX="6" refY="3" orient="auto">'
        '<path d="M0,0 L7,3 L0,6 z" class="head"/></marker></defs>',
    ]
    for line in BOXES.strip().split("\n"):
        lines += box(line)
    for line in ARROWS.strip().split("\n"):
        lines += arrow(line)
    lines.append(f'<text x="{WIDTH // 2}" y="{HEIGHT - 14}" class="note">{escape(NOTE)}</text>')
    print("\n".join(lines + ["</svg>"]))


main()

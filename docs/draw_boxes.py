#!/usr/bin/python3
"""Draws docs/sample.svg, the way of a sample, and docs/tiers.svg, where its bytes stay, from the texts below:

    for name in sample tiers; do python3 docs/draw_boxes.py $name > docs/$name.svg; done

The pictures follow the reader's light or dark colours.
"""

from __future__ import annotations

import sys
from html import escape
from typing import List, NamedTuple, Tuple


class Picture(NamedTuple):
    boxes: str                          # a line each: column, row | title | text ...; rows in pixels
    arrows: str                         # a line each: from -> to: words.  By the boxes' numbers, from 0
    note: str
    height: int                         # of a box


PICTURES = {
    "sample": Picture("""
0, 84  | disk            | folder, or a pack           | read in whole pieces
1, 84  | raw tier        | compressed samples          | in memory
2, 84  | workers         | shared stage, once:         | decode, resize, crop
3, 84  | prepared cache  | versions that several       | jobs may still use
4, 84  | workers         | private stage, per job:     | flip, cast, layout
5, 34  | job 1           | batches in its own          | shared memory
5, 134 | job 2           | its own order,              | its own speed
""", """
0 -> 1: read
1 -> 2:
2 -> 3: version
3 -> 4:
4 -> 5:
4 -> 6:
""", "The sampler draws for each job a sample that it still needs in this epoch, "
        "and prefers one that is already here.", 74),
    "tiers": Picture("""
0, 14 | the data | folders, packs, | buckets
1, 14 | local disk | --disk DIR=BYTES | what was read once, | for later epochs | and later servers
2, 14 | pins | --memory | encoded bytes: the | first that come fill | memory, and stay
3, 14 | mixing | --raw | pieces of neighbours: | from them each job | draws what it needs
4, 14 | prepared | --cache | versions that several | jobs use, until the | last of them has
5, 14 | jobs | rings | batches in | shared memory
""", """
0 -> 1: once
1 -> 2:
2 -> 3:
3 -> 4: decode
4 -> 5: batch
""", "A sample comes from the rightmost place before the rings that has it. The local disk and pins need "
        "their options; --memory sets --raw and --cache too.", 108),
}

BOX_WIDTH, GAP = 146, 54
WIDTH = 12 + 6 * BOX_WIDTH + 5 * GAP + 22
STYLE = (
    "<style>.box{fill:#e8f0fa;stroke:#3b6ea5;stroke-width:1.5}"
    ".title{font-size:15px;font-weight:bold;text-anchor:middle;"
    "fill:#1b2a3a}.text{font-size:11.5px;text-anchor:middle;fill:#1b2a3a}"
    ".words,.note{font-size:11.5px;text-anchor:middle;"
    "fill:#3b6ea5}.note{font-size:13px}.arrow{stroke:#3b6ea5;stroke-width:1.5}.head{fill:#3b6ea5}"
    "@media (prefers-color-scheme:dark){.box{fill:#1d2b3a;stroke:#7fb0e6}.title,.text{fill:#e6edf5}"
    ".words,.note{fill:#9cc4f0}.arrow{stroke:#7fb0e6}.head{fill:#7fb0e6}}</style>"
)

Place = Tuple[int, int]                 # the upper left corner of a box


def place(line: str) -> Place:
    column, y = line.split("|")[0].split(",")
    return 12 + int(column) * (BOX_WIDTH + GAP), int(y)


def box(line: str, height: int) -> List[str]:
    _, title, *texts = [part.strip() for part in line.split("|")]
    x, y = place(line)
    drawn = [
        f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{height}" rx="6" class="box"/>',
        f'<text x="{x + BOX_WIDTH // 2}" y="{y + 22}" class="title">{escape(title)}</text>',
    ]
    for number, text in enumerate(texts):
        drawn.append(
            f'<text x="{x + BOX_WIDTH // 2}" y="{y + 43 + 17 * number}" class="text">{escape(text)}</text>'
        )
    return drawn


def arrow(line: str, places: List[Place], height: int) -> List[str]:
    ends, words = line.split(":")
    start, end = [places[int(number)] for number in ends.split("->")]
    x1, y1 = start[0] + BOX_WIDTH, start[1] + height // 2
    x2, y2 = end[0], end[1] + height // 2
    drawn = [f'<line x1="{x1 + 3}" y1="{y1}" x2="{x2 - 5}" y2="{y2}" class="arrow" marker-end="url(#head)"/>']
    if words.strip():
        drawn.append(
            f'<text x="{(x1 + x2) // 2}" y="{(y1 + y2) // 2 - 8}" class="words">'
            f"{escape(words.strip())}</text>"
        )
    return drawn


def main(picture: Picture) -> None:
    boxes = picture.boxes.strip().split("\n")
    places = [place(line) for line in boxes]
    height = max(y for _, y in places) + picture.height + 42
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
        STYLE,
        '<defs><marker id="head" markerWidth="8" markerHeight="8" refX="6" refY="3" orient="auto">'
        '<path d="M0,0 L7,3 L0,6 z" class="head"/></marker></defs>',
    ]
    for line in boxes:
        lines += box(line, picture.height)
    for line in picture.arrows.strip().split("\n"):
        lines += arrow(line, places, picture.height)
    lines.append(f'<text x="{WIDTH // 2}" y="{height - 14}" class="note">{escape(picture.note)}</text>')
    print("\n".join(lines + ["</svg>"]))


if len(sys.argv) != 2 or sys.argv[1] not in PICTURES:
    sys.exit(f"usage: draw_boxes.py {'|'.join(PICTURES)}")
main(PICTURES[sys.argv[1]])

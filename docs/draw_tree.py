#!/usr/bin/python3
"""Draws the dependent sampling tree of three jobs: `python3 docs/draw_tree.py > docs/tree.svg`.

JOBS says what each still has to draw, as ranges of ids; all sizes are counted from that.  The picture follows
the reader's light or dark colours.
"""

from __future__ import annotations

from typing import Dict, FrozenSet, List, Tuple

SAMPLES = 1000
JOBS: Dict[str, List[Tuple[int, int]]] = {
    "alpha": [(0, 600)],
    "beta": [(200, 900)],
    "gamma": [(0, 1000)],
}

NOTE = (
    "A job draws from the circles on the way to it, and from its leaf (orange). "
    "A circle holds what all jobs below it have to draw and no circle above it holds."
)

WIDTH, HEIGHT, TOP, ROW, STEP = 1000, 400, 78, 92, 74
LEAF_X, LEAF_WIDTH, BAR_X, BAR_WIDTH, BAR_HEIGHT = 300, 200, 540, 440, 22
STYLE = (
    ".line{stroke:#3b6ea5;stroke-width:1.5;fill:none}.title{font-size:15px;font-weight:bold;fill:#1b2a3a}"
    ".text{font-size:12.5px;fill:#1b2a3a}.middle{text-anchor:middle}.note{font-size:13px;fill:#3b6ea5}"
    ".on{font-size:12.5px;fill:#fff;text-anchor:middle}"
    ".v0{fill:#0b7a75}.v1{fill:#2f6fae}.v2{fill:#7b4fb5}.leaf{fill:#c2571a}"
    ".box{fill:#e8f0fa;stroke:#3b6ea5;stroke-width:1.5}"
    "@media (prefers-color-scheme:dark){.line{stroke:#7fb0e6}.title,.text{fill:#e6edf5}.note{fill:#9cc4f0}"
    ".box{fill:#1d2b3a;stroke:#7fb0e6}.v0{fill:#1a8f88}.v1{fill:#3d7fc0}.v2{fill:#8a5fc6}.leaf{fill:#c9642a}}"
)

Ids = FrozenSet[int]


def tree() -> List[Tuple[str, Ids, Ids]]:
    """Of each job, by how much it has to draw: its name, its vertex and its leaf."""
    sets = {name: frozenset(i for a, b in ranges for i in range(a, b)) for name, ranges in JOBS.items()}
    names = sorted(sets, key=lambda name: len(sets[name]))
    places, above = [], frozenset()
    for place, name in enumerate(names):
        common = frozenset.intersection(*(sets[behind] for behind in names[place:]))
        places.append((name, common - above, sets[name] - common))
        above = common
    return places


def runs(ids: Ids) -> List[Tuple[int, int]]:
    found: List[Tuple[int, int]] = []
    for i in sorted(ids):
        if found and found[-1][1] == i:
            found[-1] = (found[-1][0], i + 1)
        else:
            found.append((i, i + 1))
    return found


def segments(ids: Ids, y: int, kind: str) -> List[str]:
    drawn = []
    for start, end in runs(ids):
        x, width = BAR_X + start * BAR_WIDTH / SAMPLES, (end - start) * BAR_WIDTH / SAMPLES
        drawn.append(f'<rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="{BAR_HEIGHT}" class="{kind}"/>')
        drawn.append(f'<text x="{x + width / 2:.0f}" y="{y + 16}" class="on">{end - start}</text>')
    return drawn


def main() -> None:
    places = tree()
    count = len(places)
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f"<title>The dependent sampling tree of {count} jobs</title><style>{STYLE}</style>",
        '<text x="14" y="26" class="title">the tree</text>',
        f'<text x="{LEAF_X}" y="26" class="title">jobs at its leaves</text>',
        f'<text x="{BAR_X}" y="26" class="title">what each still has to draw, of {SAMPLES} samples</text>',
    ]
    for place, (name, vertex, leaf) in enumerate(places):
        x, y = 46 + place * STEP, TOP + place * ROW
        leaf_y = y + ROW // 2
        if place + 1 < count:
            drawn.append(f'<path d="M{x} {y} V{y + ROW} H{x + STEP}" class="line"/>')
        drawn.append(f'<path d="M{x} {y} V{leaf_y} H{LEAF_X}" class="line"/>')
        drawn.append(f'<circle cx="{x}" cy="{y}" r="{12 + len(vertex) ** 0.5 * 0.6:.0f}" class="v{place}"/>')
        drawn.append(f'<text x="{x}" y="{y + 5}" class="on">{len(vertex)}</text>')
        last = f"the last {count - place}" if place + 1 < count else "the last"
        who = f"all {count}" if place == 0 else last
        drawn.append(f'<text x="{x + 32}" y="{y - 6}" class="note">{who}</text>')
        drawn.append(
            f'<rect x="{LEAF_X}" y="{leaf_y - 22}" width="{LEAF_WIDTH}" height="44" rx="6" class="box"/>'
        )
        has = sum(len(before[1]) for before in places[: place + 1]) + len(leaf)
        drawn.append(f'<text x="{LEAF_X + 12}" y="{leaf_y - 4}" class="title">{name}: {has}</text>')
        drawn.append(
            f'<text x="{LEAF_X + 12}" y="{leaf_y + 14}" class="text">in its leaf: {len(leaf)}</text>'
        )
        for above in range(place + 1):
            drawn += segments(places[above][1], leaf_y - BAR_HEIGHT // 2, f"v{above}")
        drawn += segments(leaf, leaf_y - BAR_HEIGHT // 2, "leaf")
    drawn.append(f'<text x="14" y="{HEIGHT - 16}" class="note">{NOTE}</text>')
    print("\n".join(drawn + ["</svg>"]))


if __name__ == "__main__":
    main()

#!/usr/bin/python3
"""Writes the lists of files in docs/TOUR.md: `python3 docs/draw_tour.py`; `--check` only says whether they
are true.

A line `<!-- files FOLDER: stem stem -->` begins a list, `<!-- end -->` ends it.  The stems come first, in
this order; the folder's others follow.  A file's sentence is the first one of its header, or of its source
where it has no header.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Dict, List

ROOT = Path(__file__).resolve().parent.parent
TOUR = ROOT / "docs" / "TOUR.md"
MARKED = re.compile(r"(<!-- files ([\w/]+):([^>]*)-->\n)(.*?)(<!-- end -->)", re.S)


def sentence(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        found = re.search(r'"""(.*?)(?:"""|\n\n)', text, re.S)
        words = found.group(1) if found else ""
    else:
        block = re.match(r"/\*\s+(.*?)(?:\*/|\n \*\s*\n)", text, re.S)
        lines = re.match(r"(?:#include[^\n]*\n)*((?://[^\n]*\n)+)", text)
        words = (
            re.sub(r"\n \*\s*", " ", block.group(1))
            if block
            else re.sub(r"^//\s?", "", lines.group(1), flags=re.M) if lines else ""
        )
    words = re.sub(r"\s+", " ", words).strip()
    words = re.split(r"(?<=[a-z0-9)`\]])\.(?:\s|$)", words)[0]
    words = re.sub(r"^[\w.]+ -- ", "", words).rstrip(".:")
    if not words:
        sys.exit(
            f"{path.relative_to(ROOT)}: the file does not say what it is; "
            "begin it with `/*  name -- ...` or `//  ...`"
        )
    return (
        words[0].upper() + words[1:]
        if words[0].isalpha() and " " in words and not words.startswith("libjpeg")
        else words
    )


def stems(folder: Path) -> Dict[str, Path]:
    found: Dict[str, Path] = {}
    for suffix in (".c", ".py", ".h"):  # a header wins
        for path in sorted(folder.glob("*" + suffix)):
            if path.stem != "__init__":
                found[path.stem] = path
    return found


def listed(folder: str, first: List[str]) -> str:
    found = stems(ROOT / folder)
    for stem in first:
        if stem not in found:
            sys.exit(f"docs/TOUR.md: there is no '{folder}/{stem}'")
    order = first + sorted(stem for stem in found if stem not in first)
    return "".join(f"- `{stem}`: {sentence(found[stem])}.\n" for stem in order)


def main() -> int:
    old = TOUR.read_text(encoding="utf-8")
    new = MARKED.sub(
        lambda match: match.group(1) + listed(match.group(2), match.group(3).split()) + match.group(5), old
    )
    if sys.argv[1:] == ["--check"]:
        if new != old:
            print("docs/TOUR.md: the lists of files are not those of the tree: python3 docs/draw_tour.py")
        return new != old
    TOUR.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

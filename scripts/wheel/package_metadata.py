"""What pip is told of the package: pyproject.toml's words, and the version."""
from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any, Dict, List

try:
    import tomllib
except ImportError:                 # before Python 3.11
    import tomli as tomllib         # type: ignore[import-not-found, no-redef]

ROOT = Path(__file__).resolve().parents[2]


def tell(*what: str) -> str:
    """What scripts/version.sh says."""
    done = subprocess.run(["sh", str(ROOT / "scripts" / "version.sh"), *what], stdout=subprocess.PIPE,
                          check=True, text=True)
    return done.stdout.strip()


def find_version() -> str:
    return tell("--exact", "python")


def find_time() -> int:
    """Seconds since 1970 that files are said to be of."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or tell("time"))


def describe() -> str:
    """The file METADATA, and PKG-INFO (Core metadata 2.1)."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        project: Dict[str, Any] = tomllib.load(file)["project"]
    lines: List[str] = [
        "Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {find_version()}",
        f"Summary: {project['description']}", f"License: {project['license']['text']}",
        f"Keywords: {','.join(project['keywords'])}",
        *(f"Classifier: {classifier}" for classifier in project["classifiers"]),
        f"Requires-Python: {project['requires-python']}",
        *(f"Requires-Dist: {needed}" for needed in project["dependencies"])]
    for extra, needs in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {needed} ; extra == "{extra}"' for needed in needs]
    lines += ["Description-Content-Type: text/markdown", ""]
    readme = ROOT / str(project["readme"])
    return "\n".join(lines) + "\n" + readme.read_text(encoding="utf-8")

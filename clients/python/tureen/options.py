"""The words of a `tureen serve`: which of them are of a data set, and in what two servers' words differ."""
from __future__ import annotations

import re
from typing import Dict, List, NamedTuple, Sequence, Tuple

_OF_DATASET = ("extensions", "on-bad", "jpeg-warnings", "tier", "piece", "listing", "keep",
               "allow-empty", "classes-from")
_FIELD = re.compile(r"(.+)\.([^.=]+)=(image|mask|file):(.+)")
#  Of the file of --config, of the tenants' data sets, and of where it listens nothing is compared.
_NOT_COMPARED = ("config", "listen", "tenant-datasets")
#  What an option was called before.
_OLDER = {"block-cache": "disk"}
_BYTES = re.compile(r"(\d+)([KMGT])?", re.IGNORECASE)


class Setting(NamedTuple):
    """One of a data set: `before`, the data set's name and `behind` are the option's value.  `refers`: the
    name of another data set, which follows; `folder`: of a field."""
    option: str
    behind: str = ""
    before: str = ""
    refers: str = ""
    field: str = ""
    folder: str = ""


class Words(NamedTuple):
    datasets: Dict[str, str]                # the path by name
    settings: Dict[str, List[Setting]]      # by the data set's name
    others: List[Tuple[str, str]]           # options of the server, and their values


def parse(words: Sequence[str]) -> Words:
    found = Words({}, {}, [])
    for option, value in _pairs(words):
        name, _, rest = value.partition("=")
        field = _FIELD.fullmatch(value) if option == "field" else None
        if option == "dataset":
            found.datasets[name] = rest
        elif field:
            found.settings.setdefault(field[1], []).append(
                Setting(option, f".{field[2]}={field[3]}:", field=field[2], folder=field[4]))
        elif option == "classes-from":
            found.settings.setdefault(name, []).append(Setting(option, "=", refers=rest))
        elif option in _OF_DATASET:
            found.settings.setdefault(name, []).append(Setting(option, "=" + rest))
        elif option == "tenant-datasets":
            for dataset in rest.split(","):
                found.settings.setdefault(dataset, []).append(Setting(option, before=name + "="))
        else:
            found.others.append((_OLDER.get(option, option), value))
    return found


def without(words: Sequence[str], dataset: str) -> List[str]:
    """The same command, which does not serve that data set.  It still does where another one has its
    classes."""
    found = parse(words)
    if any(setting.refers == dataset for settings in found.settings.values() for setting in settings):
        return list(words)
    kept: List[str] = []
    for option, value in _pairs(words):
        name = _FIELD.sub(r"\1", value) if option == "field" else value.partition("=")[0]
        if option in ("dataset", "field", *_OF_DATASET) and name == dataset:
            continue
        kept.append(f"--{option}={value}" if value else f"--{option}")
    return [*words[:1], *kept]


def differences(asked: Sequence[Tuple[str, str]], running: Sequence[str]) -> List[str]:
    """What is asked of a server and was not when it was started, each in a few words."""
    given = parse(running).others
    has_file = any(option == "config" for option, _ in given)       # which may say the rest
    different = []
    for option, value in asked:
        values = [other for name, other in given if name == option]
        if option in _NOT_COMPARED or any(_size(other) == _size(value) for other in values):
            continue
        wanted = f" ({value} was asked for)" if value else ""
        if values:
            different.append(f"its --{option} is {values[-1]}{wanted}")
        elif not has_file:
            different.append(f"it has no --{option}{wanted}")
    return different


def _pairs(words: Sequence[str]) -> List[Tuple[str, str]]:
    """Each option and its value, written in one word or two."""
    found = []
    for word, after in zip(words, [*words[1:], ""]):
        if word.startswith("--"):
            option, is_one, value = word[2:].partition("=")
            found.append((option, value if is_one or after.startswith("--") else after))
    return found


def _size(value: str) -> str:
    """8G and 8192M are the same, and DIR=8G and DIR=8192M."""
    before, equals, size = value.rpartition("=")
    match = _BYTES.fullmatch(size)
    if match is None or not match[2]:
        return value
    return before + equals + str(int(match[1]) << 10 * (1 + "KMGT".index(match[2].upper())))

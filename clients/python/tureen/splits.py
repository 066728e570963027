"""Which splits and configurations of a data set are in a folder, or among files: so that tureen.pack packs
one of them, and never two as one.

Layouts that are known: files of a Hub's repository (`data/train-00000-of-00004.parquet`; `configs:` of its
README.md), of its branch refs/convert/parquet (`CONFIG/train/0000.parquet`), of its caches
(`NAME/CONFIG/VERSION/HASH/NAME-train.arrow`, `datasets--ORG--NAME/snapshots/...`), of save_to_disk and
to_parquet, and folders or files named by splits, of any of the kinds that sources.py reads.

Rows of several splits may be in one table as well, with a column that says of which each is: sources.py looks
at its values (COLUMNS), and by_rows makes parts of them.

Names tell a split by the keywords and separators of the library `datasets`.  Where it puts two names into one
split (`val` and `dev`, two folders `train_1` and `train_2`), they stay two here: the user says that they are
one.
"""
from __future__ import annotations

import os
import re
from typing import (Any, Dict, FrozenSet, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set,
                    Tuple)

from .errors import SourceError

_CANONICAL = {"train": "train", "training": "train", "validation": "validation", "valid": "validation",
              "dev": "validation", "val": "validation", "test": "test", "testing": "test", "eval": "test",
              "evaluation": "test"}
_KEYWORD = re.compile(rf"(?<![^-._ 0-9=])({'|'.join(_CANONICAL)})(?![^-._ 0-9])", re.IGNORECASE)
_SHARD = re.compile(r"[-_]\d{5}[-_]of[-_]\d{5}([-_][0-9a-f]+)?$")
_TABLES = (".parquet", ".arrow")
_ALONE = (".lmdb", ".mdb")
#  What is a data set of one split by itself
_LEAVES = ("state.json", "index.json", "data.mdb")
_SHOWN = 8
#  Names of columns that may say of which split a row is, in small letters
COLUMNS = ("split", "data_split", "dataset_split", "subset", "partition")
#  Of more values such a column is a text like any other
VALUES_MAX = 16


class Rows(NamedTuple):
    """The rows of a file with one of these values in the column, their number, and how many of the source's
    rows are before the first of them."""
    column: str
    values: FrozenSet[Optional[str]]
    number: int
    before: int


class Part(NamedTuple):
    """One split of one configuration.  paths: files of tables, or one folder or file of another kind.  note:
    what people should know of it.  rows: which rows of a path, if not all."""
    name: str
    paths: Sequence[str]
    note: str = ""
    rows: Mapping[str, Rows] = {}


class _Found(NamedTuple):
    path: str
    folders: Tuple[str, ...]                # above it, below the one that was given
    is_leaf: bool                           # a data set by itself, named by its folder


def parts_of_folder(folder: str) -> List[Part]:
    """All that is in the folder and below; none: nothing that is known."""
    note: List[str] = []
    found = list(_walk(folder, (), set(), note))
    configs = _told_by_readme(folder, found)
    if configs is None:
        configs = _named(found, by_folder=True)
    return _ordered(configs, "; ".join(note))


def parts_of_files(paths: Sequence[str]) -> List[Part]:
    """Of files that were given one by one: these were asked for, whichever folders they are in, but not that
    several splits be one."""
    found = [_Found(path, tuple(os.path.abspath(path).split(os.sep)[1:-1]), False) for path in paths]
    return _ordered(_named(found, by_folder=False))


def _ordered(named: Mapping[str, Sequence[_Found]], note: str = "") -> List[Part]:
    """Splits for training first, for their names are examples in what is said."""
    parts = [Part(name, [one.path for one in files], note) for name, files in named.items()]
    return sorted(parts, key=_is_not_for_training)


def by_rows(part: Part, column: str, counts: Mapping[str, Mapping[Optional[str], Tuple[int, int]]],
            is_alone: bool) -> List[Part]:
    """What the part is by its column: itself, unless its rows are of several splits.

    counts      by path: how many rows have each value, and how many rows are before the first of them
    is_alone    there is no other part: names need not tell it from one
    """
    values = list(dict.fromkeys(value for each in counts.values() for value in each))
    kinds = {tuple(_CANONICAL[word] for word in _words(value or "")) for value in values}
    if len(values) > VALUES_MAX or not any(kinds):
        return [part]
    if len(values) == 1:
        return [part._replace(name=part.name or str(values[0]))]
    if len(kinds) == 1:                         # as train-clean-100 and train-clean-360
        return [part]
    parts = []
    for value in values:
        rows = {path: Rows(column, frozenset([value]), *each[value]) for path, each in counts.items()
                if value in each}
        name = str(value) if is_alone or not part.name else f"{part.name}/{value}"
        parts.append(Part(name, list(rows), part.note, rows))
    return sorted(parts, key=_is_not_for_training)


def _is_not_for_training(part: Part) -> bool:
    return "train" not in map(_CANONICAL.get, part.name.split("/"))


def chosen(what: str, parts: Sequence[Part], split: Optional[str]) -> Part:
    """The part that is meant; of several, joined by "+", one that has all their paths.  SourceError, with the
    names, where that is not clear."""
    if split is None:
        if len(parts) > 1:
            names = [part.name for part in parts]
            raise SourceError(f"{what} has several splits or configurations: {_listed(parts)}: say which "
                              f"with --split, as in --split {_shown_name(names[0])} "
                              f"({_shown_name('+'.join(names[:2]))} packs the two as one)")
        return parts[0]
    wanted = [_one(what, parts, name) for name in split.split("+")]
    return Part(split, list(dict.fromkeys(path for part in wanted for path in part.paths)), wanted[0].note,
                _joined(wanted))


def _joined(parts: Sequence[Part]) -> Dict[str, Rows]:
    """Of a path that is in several parts, the rows of all."""
    joined: Dict[str, Rows] = {}
    for part in parts:
        for path, rows in part.rows.items():
            other = joined.get(path, rows)
            joined[path] = rows if other is rows else Rows(
                rows.column, rows.values | other.values, rows.number + other.number,
                min(rows.before, other.before))
    return joined


def _one(what: str, parts: Sequence[Part], name: str) -> Part:
    """By its name, or by another word for the same split (val, validation)."""
    exact = [part for part in parts if part.name == name]
    alike = [part for part in parts if name in _CANONICAL and _CANONICAL[name] in
             map(_CANONICAL.get, part.name.lower().split("/"))]
    for found in (exact, alike):
        if len(found) == 1:
            return found[0]
    if not any(part.name for part in parts):
        raise SourceError(f"{what}: no name of a file, folder or row in it tells of a split {name!r}: leave "
                          f"--split out, or give the split's files themselves")
    raise SourceError(f"{what} has {'several splits' if alike else 'no split'} {name!r}: there is "
                      f"{_listed(parts)}")


def _listed(parts: Sequence[Part]) -> str:
    shown = [f"{_shown_name(part.name)} ({_counted(part)})" for part in parts[:_SHOWN]]
    return ", ".join(shown) + (f" and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else "")


def _shown_name(name: str) -> str:
    return name if re.fullmatch(r"[\w./+-]+", name) else repr(name)


def _counted(part: Part) -> str:
    if part.rows:
        rows = list(part.rows.values())
        return f"{sum(one.number for one in rows)} rows by the column {rows[0].column!r}"
    return os.path.basename(part.paths[0]) if len(part.paths) == 1 else f"{len(part.paths)} files"


#   ---- what is there

def _walk(folder: str, folders: Tuple[str, ...], seen: Set[str], note: List[str]) -> Iterator[_Found]:
    """Names that begin with a dot are no data (`.cache`, `.git`), as the library datasets has it."""
    real = os.path.realpath(folder)
    if real in seen:
        return
    seen.add(real)
    names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    if any(name in _LEAVES for name in names):
        yield _Found(folder, folders, True)
        return
    files = [name for name in names if os.path.isfile(os.path.join(folder, name))]
    tables = [name for name in files if name.endswith(_TABLES)]
    caches = [name for name in tables if name.startswith("cache-")]
    if caches:
        where = os.path.join(*folders) if folders else folder
        if len(caches) == len(tables):
            raise SourceError(f"{where} has only {caches[0]} and the like, which map () has left and which "
                              f"do not say of which split they are: save what it gave by save_to_disk, or "
                              f"give these files themselves")
        note.append(f"of {where} {caches[0]}{' and the like' * (len(caches) > 1)}, which map () has left, is "
                    f"not packed")
    for name in files:
        if name.endswith(_TABLES + _ALONE) and name not in caches:
            yield _Found(os.path.join(folder, name), folders, name.endswith(_ALONE))
    for name in names:
        if name not in files and os.path.isdir(os.path.join(folder, name)):
            yield from _walk(os.path.join(folder, name), (*folders, name), seen, note)


#   ---- names

def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _words(name: str) -> List[str]:
    """The splits that a name tells of."""
    return [found.lower() for found in _KEYWORD.findall(name)]


def _of_file(path: str) -> Tuple[Tuple[str, ...], bool]:
    """What a file's name tells: a prefix, if there is one, and the split; and whether it tells one."""
    stem = _stem(path)
    shard = _SHARD.search(stem)
    if shard is not None:                       # the split is a name of letters, digits, _ and dots
        before, _, split = stem[:shard.start()].rpartition("-")
        return ((before, split) if before else (split,)), True
    words = _words(stem)
    if words:
        return ("-".join(dict.fromkeys(words)),), True
    return (), False


def _key(one: _Found, by_folder: bool, telling: Set[Tuple[str, ...]]) -> Tuple[str, ...]:
    key = one.folders if by_folder else tuple(name for name in one.folders if _words(name))
    if one.is_leaf:
        return key if os.path.isdir(one.path) else (*key, _stem(one.path))
    told, is_told = _of_file(one.path)
    if not is_told and one.folders in telling:
        told = (re.sub(r"[-._ ]?\d+$", "", _stem(one.path)),)
    return (*key, *told)


def _named(found: Sequence[_Found], by_folder: bool) -> Dict[str, List[_Found]]:
    """By folder, and by what the names tell; the names without what all begin and end with.  Where some
    names of a folder tell a split, the others are no split's files too."""
    telling = {one.folders for one in found if not one.is_leaf and _of_file(one.path)[1]}
    groups: Dict[Tuple[str, ...], List[_Found]] = {}
    for one in found:
        groups.setdefault(_key(one, by_folder, telling), []).append(one)
    if len(groups) == 1:
        key, files = next(iter(groups.items()))
        return {key[-1] if key and (_words(key[-1]) or by_folder and telling) else "": files}
    keys = list(groups)
    begin = len(os.path.commonprefix(keys))
    end = len(os.path.commonprefix([key[:begin - 1 if begin else None:-1] for key in keys]))
    return {"/".join(key[begin:len(key) - end]) or ".": files for key, files in groups.items()}


#   ---- README.md

def _told_by_readme(folder: str, found: Sequence[_Found]) -> Optional[Dict[str, List[_Found]]]:
    """What `configs:` at the head of a Hub repository's README.md says; None: nothing."""
    try:
        with open(os.path.join(folder, "README.md"), encoding="utf-8") as file:
            head = re.match(r"\s*---\s*\n(.*?)\n---", file.read(), re.DOTALL)
    except (OSError, UnicodeDecodeError):
        return None
    if head is None or not re.search(r"^configs\s*:", head.group(1), re.MULTILINE):
        return None
    try:
        import yaml
    except ImportError:
        raise SourceError(f"{folder}: its README.md says in YAML which files are which split, which the "
                          f"package PyYAML reads: pip install pyyaml, or give the split's files "
                          f"themselves") from None
    try:
        configs = yaml.safe_load(head.group(1))["configs"]
        groups: Dict[str, List[_Found]] = {}
        for config in configs:
            for split, files in _of_config(config, found):
                name = split if len(configs) == 1 else "/".join(filter(None, (_config_name(config), split)))
                groups.setdefault(name, []).extend(files)
    except (yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        raise SourceError(f"{folder}: the `configs` of its README.md cannot be read ({error!r}): give the "
                          f"split's files themselves") from None
    return {name: files for name, files in groups.items() if files} or None


def _config_name(config: Any) -> str:
    return str(config.get("config_name", "default"))


def _of_config(config: Any, found: Sequence[_Found]) -> Iterator[Tuple[str, List[_Found]]]:
    """Its splits, and their files."""
    folder = str(config.get("data_dir") or ".")
    if "data_files" not in config:
        below = [one for one in found if _matches(one, f"{folder}/**")]
        yield from _named(below, by_folder=True).items() if below else ()
        return
    told = config["data_files"]
    if isinstance(told, dict):
        told = [{"split": split, "path": path} for split, path in told.items()]
    for one in told if isinstance(told, list) else [told]:
        split, patterns = (one["split"], one["path"]) if isinstance(one, dict) else ("train", one)
        for pattern in patterns if isinstance(patterns, list) else [patterns]:
            yield str(split), [each for each in found if _matches(each, f"{folder}/{pattern}")]


def _matches(one: _Found, pattern: str) -> bool:
    """A pattern as of pathlib: * stays within a folder, ** does not."""
    signs = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    regular = re.sub(r"\*\*/|\*\*|\*|\?|\[[^]/]+\]|[^*?[]+|\[", lambda part: signs.get(
        part[0], part[0] if part[0][0] == "[" and len(part[0]) > 1 else re.escape(part[0])),
        os.path.normpath(pattern))
    return re.fullmatch(regular, "/".join((*one.folders, os.path.basename(one.path)))) is not None

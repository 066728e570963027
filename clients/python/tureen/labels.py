"""Makes a labels file of the tables that people have: a CSV with a row for each image, or COCO's JSON.

    python3 -m tureen.labels /data/kaggle/train.csv             # writes /data/kaggle/labels.jsonl
    tureen serve --dataset train=/data/kaggle
    python3 -m tureen.labels --images /data/coco/train2017 --boxes /data/coco/boxes instances_train2017.json
    tureen serve --dataset train=/data/coco/train2017 --field train.boxes=file:/data/coco/boxes
    (or --masks /data/coco/masks, and --field train.mask=mask:/data/coco/masks)

    happy path:     the images stay where they are; labels.jsonl, which the server reads (docs/data.md), names
                    them and has the columns as labels.
    failure modes:  what cannot be told is refused, with the rows and an option that says it: which column
                    names the images, rows without an image, two images of one name, several rows for one
                    image.  Nothing is written then.
"""
from __future__ import annotations

import argparse
import codecs
import csv
import io
import json
import math
import os
import re
import shutil
import sys
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, TextIO, Tuple

from .coco_masks import CLASSES_MAX, IGNORED, Areas, Part, picture
from .errors import SourceError
from .sources import read_classes

__all__ = ["SourceError", "read_coco", "read_csv", "write"]

_IMAGES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
_SOUNDS = (".wav", ".flac", ".ogg", ".opus", ".mp3", ".aiff", ".aif")
_LABEL_NAMES = ("label", "labels", "class", "target", "category", "y")      # of which the first is the label
_DELIMITERS = ",;\t|"
_LABELS_MAX = 8                 # of a labels file
_TEXT_BYTES = 65536
_TRIED_ROWS = 100               # in which a column must name files, to be the path
_WHOLE = re.compile(r"[+-]?\d+\Z", re.ASCII)
_REAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?\Z|[+-]?(?:nan|inf|infinity)\Z", re.ASCII | re.I)
_EXACT = 2 ** 53                # up to here a float64 has every whole number
_NAME = re.compile(r"[A-Za-z0-9_]{1,63}\Z")
_COCO = ("images", "annotations", "categories")
_SIDE_MAX = 65535


class Table(NamedTuple):
    """What a labels file is written of.

    root        the data set's folder: paths are relative to it
    paths       of the samples, in their order
    columns     the labels: of each name a value for each sample, all int, all float or all str
    notes       sentences for the user
    boxes       of each sample
    areas       of each sample what masks are made of
    """
    root: str
    paths: List[str]
    columns: Dict[str, List[Any]]
    notes: List[str]
    boxes: List[List[List[float]]] = []
    areas: List[Areas] = []


#   ---- files

class _Files:
    """The images and sounds below a folder, to be found by what a table says of them."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._of_stem: Dict[str, List[str]] = {}        # paths, by their names without extension
        self._above = os.path.abspath(root).split(os.sep)
        if not os.path.isdir(root):
            raise SourceError(f"there is no folder {root!r}: give the one with the images, --images FOLDER")
        for folder, folders, names in os.walk(root, followlinks=True):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                if name.lower().endswith(_IMAGES + _SOUNDS):
                    path = os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")
                    self._of_stem.setdefault(os.path.splitext(name)[0], []).append(path)
        if not self._of_stem:
            raise SourceError(f"there are no images or sounds below {root!r}: give the folder with them, "
                              f"--images FOLDER")

    def find(self, told: str) -> Optional[str]:
        """The path of the file that is told by its name, with or without extension and folders.  The last
        folder that is told is the one that the file lies in; those in front may be any.  None: there is no
        such file."""
        found = self.matches(told)
        if len(found) > 1:
            raise SourceError(f"{told!r} may be {found[0]!r} or {found[1]!r} below {self.root!r}: give the "
                              f"folder of one of them, --images FOLDER")
        return found[0] if found else None

    def matches(self, told: str) -> List[str]:
        """All that it may be; one that is told by its whole path is alone."""
        parts = [part for part in told.strip().replace("\\", "/").split("/") if part != "."]
        folders, name = parts[:-1], "".join(parts[-1:])
        called = self._called(name)
        if "/".join(parts) in called:
            return ["/".join(parts)]
        best: List[str] = []
        most = 1 if folders else 0
        for path in called:
            shared = _common_tail(folders, self._above + path.split("/")[:-1])
            if shared > most:
                best = []
            if shared >= most:
                best.append(path)
                most = shared
        return best

    def _called(self, name: str) -> List[str]:
        """An extension may be in other letters, small or large."""
        stem, extension = os.path.splitext(name)
        same = [path for path in self._of_stem.get(stem, ())
                if os.path.splitext(path)[1].lower() == extension.lower()]
        whole = [path for path in same if path.endswith(extension)]
        return whole or same or self._of_stem.get(name, [])


def _common_tail(ones: Sequence[str], others: Sequence[str]) -> int:
    count = 0
    for one, other in zip(reversed(ones), reversed(others)):
        if one != other:
            break
        count += 1
    return count


def _paths_of(values: Sequence[str], files: _Files, what: str, skips: bool,
              notes: List[str]) -> List[Optional[str]]:
    """The file of each value; None: it has none, and skips."""
    found = [files.find(value) for value in values]
    missing = [value for value, path in zip(values, found) if path is None]
    if missing and not skips:
        raise SourceError(f"{len(missing)} of {len(values)} {what} have no file below {files.root!r}, the "
                          f"first is {missing[0]!r}: add the files, or leave these out with --skip-missing")
    if len(missing) == len(values):
        raise SourceError(f"none of the {what} has a file below {files.root!r}: give the folder with the "
                          f"images, --images FOLDER")
    if missing:
        notes.append(f"{len(missing)} of {len(values)} {what} have no file and are left out, the first is "
                     f"{missing[0]!r}")
    first: Dict[str, int] = {}
    for place, path in enumerate(found):
        if path is not None and first.setdefault(path, place) != place:
            raise SourceError(f"{path!r} is told twice, by {what} {first[path] + 1} and {place + 1}: a "
                              f"sample has one row, so make one of them (of boxes, COCO's .json has several)")
    return found


#   ---- CSV

def _open_text(path: str) -> TextIO:
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from None
    try:
        is_wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        return io.StringIO(content.decode("utf-16" if is_wide else "utf-8-sig"), newline="")
    except UnicodeDecodeError as error:
        raise SourceError(f"{path} is no UTF-8 (byte {error.start}): save it anew, such as by "
                          f"`iconv -f latin1 -t utf-8`") from None


def _read_rows(path: str) -> Tuple[List[str], List[List[str]]]:
    """Names of the columns, and the rows."""
    file = _open_text(path)
    header = file.readline()
    if header[:4] == "sep=" and header.strip()[4:]:     # a line of Excel's
        delimiter = header[4]
    else:
        delimiter = max(_DELIMITERS, key=header.count)  # the first of those that come equally often
        file.seek(0)
    csv.field_size_limit(1 << 27)
    reader = csv.reader(file, delimiter=delimiter, strict=True, skipinitialspace=True)
    try:
        lines = [(reader.line_num, row) for row in reader if len(row) > 1 or "".join(row).strip()]
    except csv.Error as error:
        raise SourceError(f"{path}:{reader.line_num}: {error}: correct the quotes of this line") from None
    if len(lines) < 2:
        raise SourceError(f"{path} has no rows: its first line names the columns, and each further one is a "
                          f"sample")
    names = [name.strip() for name in lines[0][1]]
    for line, row in lines[1:]:
        if len(row) != len(names):
            raise SourceError(f"{path}:{line}: {len(row)} cells, where the first line names {len(names)} "
                              f"columns: correct the line; a cell with a {delimiter!r} stands in quotes")
    for name in names:
        if names.count(name) > 1:
            raise SourceError(f"{path}: two columns are called {name!r}: give them names of their own")
    return names, [row for _, row in lines[1:]]


def _path_column(names: Sequence[str], rows: Sequence[Sequence[str]], files: _Files,
                 chosen: Optional[str], label: Optional[str]) -> int:
    if chosen is not None:
        if chosen not in names:
            raise SourceError(f"--path {chosen}: there is no such column; they are {', '.join(names)}")
        return list(names).index(chosen)
    tried = rows[:_TRIED_ROWS]
    named = [sum(bool(files.matches(row[place])) for row in tried) for place in range(len(names))]
    likely = [place for place in range(len(names)) if named[place] * 2 > len(tried)]
    likely = likely or [place for place in range(len(names)) if named[place]]
    likely = [place for place in likely if names[place] != label] or likely
    likely = [place for place in likely if rows[0][place].lower().endswith(_IMAGES + _SOUNDS)] or likely
    if not likely:
        raise SourceError(f"no column names files below {files.root!r}: the columns are {', '.join(names)}, "
                          f"and the first row has {', '.join(map(repr, rows[0]))}; give the folder with the "
                          f"images, --images FOLDER")
    if len(likely) > 1:
        raise SourceError(f"the columns {' and '.join(names[place] for place in likely)} name files: say "
                          f"which has the samples' own, --path COLUMN; --without COLUMN leaves one out")
    return likely[0]


def _typed(name: str, values: Sequence[str]) -> Optional[List[Any]]:
    """Of texts that all are numbers or empty, or all true or false; None: they are texts."""
    told = [value.strip() for value in values]
    if all(value.lower() in ("true", "false") for value in told):
        return [int(value.lower() == "true") for value in told]
    if not all(_REAL.match(value) or not value for value in told):
        return None
    largest = max((value for value in told if _WHOLE.match(value)), key=len, default="0")
    is_whole = all(_WHOLE.match(value) for value in told)
    least, most = (-2 ** 63, 2 ** 63 - 1) if is_whole else (-_EXACT, _EXACT)
    if len(largest) > 30 or not all(least <= int(value) <= most for value in told if _WHOLE.match(value)):
        why = "for int64" if is_whole else "beside empty cells and fractions, for which all become float64"
        raise SourceError(f"the column {name!r} has whole numbers that are too large {why}, such as "
                          f"{largest[:40]}: leave it out, --without COLUMN")
    return [int(value) for value in told] if is_whole else [float(value or "nan") for value in told]


def _numbered(name: str, values: Sequence[str], known: Optional[Sequence[str]],
              notes: List[str]) -> List[int]:
    """Classes that are told by name."""
    values = [value.strip() for value in values]
    odd = next((value for value in values if not value or _REAL.match(value)), None)
    if odd is not None:
        raise SourceError(f"the column {name!r} has names of classes, and {odd!r}: correct these cells, or "
                          f"say which column is the label, --label COLUMN")
    classes = sorted(set(values)) if known is None else list(known)
    lacked = sorted(set(values) - set(classes))
    if lacked:
        raise SourceError(f"the class {lacked[0]!r} of {name!r} is not in the file of --classes")
    number = {value: place for place, value in enumerate(classes)}
    shown = ", ".join(f"{place} {value!r}" for place, value in enumerate(classes[:10]))
    notes.append(f"the label 'label' numbers the {len(classes)} classes of {name!r}: {shown}"
                 + (", .." if len(classes) > 10 else "") + ("" if known is not None else
                    "; for other splits give their names, one a line in this order, with --classes FILE"))
    return [number[value] for value in values]


def _label_name(name: str, taken: Iterable[str]) -> str:
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)[:63]
    if not _NAME.match(plain) or plain in ("image", "path") or plain in taken:
        raise SourceError(f"the column {name!r} cannot be a label of that name: give it another one "
                          f"(letters, digits and _, not 'image' or 'path', each once), or leave it out with "
                          f"--without")
    return plain


def read_csv(path: str, images: Optional[str] = None, path_column: Optional[str] = None,
             label: Optional[str] = None, without: Sequence[str] = (), skip_missing: bool = False,
             classes: Optional[Sequence[str]] = None) -> Table:
    """A table with a row for each sample.  Commas, semicolons, tabs or bars; quotes; UTF-8.

    images          the data set's folder (default: that of the file)
    path_column     the column that names the files (default: the one that does)
    label           the column that becomes the label `label`; texts are numbered in the order of their names,
                    or in that of `classes`
    without         columns that are left out
    skip_missing    leave out rows without a file

    SourceError.
    """
    files = _Files(images or os.path.dirname(path) or ".")
    names, rows = _read_rows(path)
    for name in without:
        if name not in names:
            raise SourceError(f"--without {name}: there is no such column; they are {', '.join(names)}")
    kept = [place for place, name in enumerate(names) if name and name not in without]
    notes = ["the column without a name is left out"] if "" in names else []
    names, rows = [names[place] for place in kept], [[row[place] for place in kept] for row in rows]
    lower = [name.lower() for name in names]
    if label is not None and label not in names:
        raise SourceError(f"--label {label}: there is no such column; they are {', '.join(names)}")
    if label is None:
        label = next((names[lower.index(name)] for name in _LABEL_NAMES if name in lower), None)
    own = _path_column(names, rows, files, path_column, label)
    if files.matches(names[own]):
        raise SourceError(f"{path}: the first line has {names[own]!r}, which is a file: put a line with the "
                          f"names of the columns in front")
    found = _paths_of([row[own] for row in rows], files, "rows", skip_missing, notes)
    rows = [row for row, file in zip(rows, found) if file is not None]
    columns: Dict[str, List[Any]] = {}
    for place, name in enumerate(names):
        if place == own:
            continue
        texts = [row[place] for row in rows]
        if not any(text.strip() for text in texts):
            notes.append(f"the column {name!r} is empty and left out")
            continue
        values = _typed(name, texts)
        if name == label and values is None:
            columns[_label_name("label", columns)] = _numbered(name, texts, classes, notes)
            name = "label_name" if name == "label" else name
        elif name == label:
            name = "label"
        columns[_label_name(name, columns)] = texts if values is None else values
    return Table(files.root, [file for file in found if file is not None], columns, notes)


#   ---- COCO

def _boxes_of(annotation: Mapping[str, Any], number_of: Mapping[int, int], path: str) -> List[float]:
    try:
        left, top, width, height = map(float, list(annotation["bbox"]))
        box = [left, top, left + width, top + height, float(number_of[annotation["category_id"]])]
        if isinstance(annotation["bbox"], str) or not all(map(math.isfinite, box)):
            raise ValueError
        return box
    except (KeyError, TypeError, ValueError):
        raise SourceError(f"{path}: the annotation {annotation.get('id')!r} has no `bbox` of four numbers, "
                          f"or no `category_id` of a category: correct it") from None


def _load_coco(path: str) -> Mapping[str, Any]:
    try:
        told = json.loads(_open_text(path).read())
    except ValueError as error:
        raise SourceError(f"{path} is no JSON: {error}") from None
    if not isinstance(told, dict) or not all(isinstance(told.get(name), list) for name in _COCO):
        raise SourceError(f"{path} is no COCO file: it lacks one of the lists {', '.join(_COCO)}")
    for name, needed in (("images", ("id", "file_name")), ("categories", ("id",)), ("annotations", ())):
        seen = set()
        for entry in told[name]:
            if not isinstance(entry, dict) or not all(isinstance(entry.get(key), (int, str))
                                                      for key in needed):
                raise SourceError(f"{path}: an entry of `{name}` has no {' or no '.join(needed) or 'keys'}: "
                                  f"{str(entry)[:80]}")
            if needed and entry["id"] in seen:
                raise SourceError(f"{path}: two entries of `{name}` have the id {entry['id']!r}: give each "
                                  f"its own")
            seen.add(entry.get("id"))
    return told


def _areas_of(image: Mapping[str, Any], annotations: Sequence[Mapping[str, Any]],
              number_of: Mapping[int, int], path: str) -> Areas:
    sides = [image.get("width"), image.get("height")]
    if not all(isinstance(side, int) and 0 < side <= _SIDE_MAX for side in sides):
        raise SourceError(f"{path}: the image {image['id']!r} has no `width` and `height`, which its mask "
                          f"needs, of at most {_SIDE_MAX}: add them")
    if len(number_of) > CLASSES_MAX:
        raise SourceError(f"{path}: {len(number_of)} categories, and a mask tells at most {CLASSES_MAX} "
                          "apart: take some out")
    parts = [Part(IGNORED if annotation.get("iscrowd") else 1 + number_of[annotation["category_id"]],
                  annotation.get("segmentation"), f"{path}: the annotation {annotation.get('id')!r}")
             for annotation in annotations]
    return Areas(image["width"], image["height"], parts)


def read_coco(path: str, images: Optional[str] = None, skip_missing: bool = False,
              masks: bool = False) -> Table:
    """COCO's instances_*.json: a sample for each of its images, in their order, with the labels `image_id`
    and `objects`, how many boxes it has.  A box has five numbers: left, top, right, bottom in pixels, and the
    class's number, from 0 on in the order of the categories' ids.  Crowds (`iscrowd`) have none.

    masks   its segmentations are read too (coco_masks.py)

    SourceError.
    """
    files = _Files(images or os.path.dirname(path) or ".")
    told = _load_coco(path)
    categories = sorted(told["categories"], key=lambda category: (str(type(category["id"])), category["id"]))
    number_of = {category["id"]: place for place, category in enumerate(categories)}
    of_image: Dict[Any, List[List[float]]] = {image["id"]: [] for image in told["images"]}
    annotations: Dict[Any, List[Mapping[str, Any]]] = {image["id"]: [] for image in told["images"]}
    crowds = 0
    for annotation in told["annotations"]:
        if annotation.get("iscrowd"):
            crowds += 1
        elif annotation.get("image_id") in of_image:
            of_image[annotation["image_id"]].append(_boxes_of(annotation, number_of, path))
        else:
            raise SourceError(f"{path}: the annotation {annotation.get('id')!r} is of no image of the file: "
                              f"correct its `image_id`")
        if annotation.get("image_id") in annotations:
            annotations[annotation["image_id"]].append(annotation)
    notes: List[str] = []
    found = _paths_of([str(image["file_name"]) for image in told["images"]], files, "images", skip_missing,
                      notes)
    pairs = [(file, image["id"]) for file, image in zip(found, told["images"]) if file is not None]
    image_of = {image["id"]: image for image in told["images"]}
    if crowds:
        notes.append(f"{crowds} annotations of crowds are left out")
    names = [category.get("name") for category in categories]
    ids = [image for _, image in pairs]
    notes.append(f"{len(names)} classes: " + ", ".join(f"{place} {name!r}" for place, name in
                                                      enumerate(names[:10])) + (", .." if names[10:] else ""))
    return Table(files.root, [file for file, _ in pairs],
                 {"image_id": ids if all(isinstance(image, int) for image in ids) else list(map(str, ids)),
                  "objects": [len(of_image[image]) for _, image in pairs]}, notes,
                 [of_image[image] for _, image in pairs],
                 [_areas_of(image_of[image], annotations[image], number_of, path) for _, image in pairs]
                 if masks else [])


#   ---- the labels file

def _check(table: Table) -> None:
    if len(table.columns) > _LABELS_MAX:
        raise SourceError(f"{len(table.columns)} columns beside the path, where a labels file has at most "
                          f"{_LABELS_MAX}: leave some out, --without COLUMN ({', '.join(table.columns)})")
    for name, values in table.columns.items():
        longest = max((len(value.encode()) for value in values if isinstance(value, str)), default=0)
        if longest > _TEXT_BYTES:
            raise SourceError(f"a text of {name!r} has {longest} bytes, and a label has at most "
                              f"{_TEXT_BYTES}: leave the column out, --without COLUMN")
        if any(isinstance(value, str) and "\0" in value for value in values):
            raise SourceError(f"a text of {name!r} has a zero byte: leave the column out, --without COLUMN")


def _lines(table: Table) -> Iterator[str]:
    for place, path in enumerate(table.paths):
        yield json.dumps({"path": path, **{name: values[place] for name, values in table.columns.items()}},
                         ensure_ascii=False, allow_nan=False) + "\n"


def _tsv_lines(table: Table) -> Iterator[str]:
    """JSON has no NaN; and these lines have no tabs, no line ends, and no texts that look like numbers."""
    for name, values in table.columns.items():
        if isinstance(values[0], str) and (any(re.search(r"[\t\r\n]", value) for value in values)
                                           or all(map(_is_vector, values))):
            empty = next(other for other, told in table.columns.items() if _is_not_finite(told))
            raise SourceError(f"the texts of {name!r} have tabs or line ends, or are lists of numbers, and "
                              f"{empty!r} has empty cells among its numbers; one labels file cannot have "
                              f"both: leave one out, --without COLUMN")
    yield "\t".join(["path", *table.columns]) + "\n"
    for place, path in enumerate(table.paths):
        yield "\t".join([path, *(str(values[place]) for values in table.columns.values())]) + "\n"


def _is_vector(text: str) -> bool:
    return all(_REAL.match(part.strip()) for part in text.split(","))


def _is_not_finite(values: Sequence[Any]) -> bool:
    return any(isinstance(value, float) and not math.isfinite(value) for value in values)


def write(table: Table, boxes: Optional[str] = None, masks: Optional[str] = None) -> str:
    """Writes the labels file into the data set's folder, whole or not at all.  Returns its path.

    labels.jsonl; or labels.tsv where numbers are missing, which are NaN.

    boxes   a folder, which must not be there yet: of each sample its boxes, as .npy, float32 [boxes, 5]
    masks   another such folder: of each sample its mask, as .png (coco_masks.py)

    SourceError: one is there already, or it cannot be written.
    """
    _check(table)
    for name in ("labels.jsonl", "labels.tsv"):
        if os.path.exists(os.path.join(table.root, name)):
            raise SourceError(f"{os.path.join(table.root, name)} is there already: remove it first")
    folders = {what: folder.rstrip("/") for what, folder in (("boxes", boxes), ("masks", masks)) if folder}
    for what, folder in folders.items():
        if os.path.exists(folder):
            raise SourceError(f"{folder} is there already: remove it, or name another folder with --{what}")
    if len(set(folders.values())) < len(folders):
        raise SourceError(f"--boxes and --masks are one folder, {folders['masks']}: name two")
    if folders and len({os.path.splitext(file)[0] for file in table.paths}) < len(table.paths):
        raise SourceError(f"two images differ in their extensions alone, and would have one file of "
                          f"{' and of '.join(folders)}: rename one")
    is_tsv = any(_is_not_finite(values) for values in table.columns.values())
    path = os.path.join(table.root, "labels.tsv" if is_tsv else "labels.jsonl")
    made = [path + ".new", *(folder + ".new" for folder in folders.values())]
    writers = {"boxes": _write_boxes, "masks": _write_masks}
    try:
        with open(made[0], "w", encoding="utf-8", newline="\n") as file:
            file.writelines(_tsv_lines(table) if is_tsv else _lines(table))
        for what, folder in folders.items():
            writers[what](folder + ".new", table)
        for folder in folders.values():
            os.rename(folder + ".new", folder)
        os.rename(made[0], path)
    except OSError as error:
        raise SourceError(f"{error.filename} cannot be written: {error.strerror}") from None
    finally:
        for name in made:
            if os.path.isdir(name):
                shutil.rmtree(name)
            elif os.path.exists(name):
                os.unlink(name)
    return path


def _write_boxes(folder: str, table: Table) -> None:
    import numpy as np
    for path, rows in zip(table.paths, table.boxes):
        file = os.path.join(folder, os.path.splitext(path)[0] + ".npy")
        os.makedirs(os.path.dirname(file), exist_ok=True)
        np.save(file, np.array(rows, np.float32).reshape(len(rows), 5))


def _write_masks(folder: str, table: Table) -> None:
    try:
        from PIL import Image
    except ImportError:
        raise SourceError("--masks needs Pillow: pip install pillow") from None
    for path, areas in zip(table.paths, table.areas):
        file = os.path.join(folder, os.path.splitext(path)[0] + ".png")
        os.makedirs(os.path.dirname(file), exist_ok=True)
        Image.fromarray(picture(areas)).save(file)


#   ---- the command

def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m tureen.labels",
        description="Makes the labels file that `tureen serve` and `tureen pack` read, of a CSV with a row "
                    "for each image or sound, or of COCO's JSON. It goes into the folder of the images.")
    parser.add_argument("table", help="a .csv (commas, semicolons, tabs or bars; its first line names the "
                                      "columns), or a .json of COCO")
    parser.add_argument("--images", metavar="FOLDER",
                        help="the data set's folder, with the files at any depth (default: the table's)")
    parser.add_argument("--path", metavar="COLUMN", help="the column that names the files")
    parser.add_argument("--label", metavar="COLUMN",
                        help="the column that becomes the label `label`; texts are numbered in the order of "
                             "their names")
    parser.add_argument("--classes", metavar="FILE",
                        help="the names of the classes, one a line in the order of their numbers, from 0")
    parser.add_argument("--without", metavar="COLUMN", action="append", default=[],
                        help="a column that is left out; repeatable")
    parser.add_argument("--boxes", metavar="FOLDER",
                        help="of COCO: where the boxes of each image are written, as .npy")
    parser.add_argument("--masks", metavar="FOLDER",
                        help="of COCO: where the mask of each image is written, as .png: 0 is no object, "
                             "from 1 on the classes in the order of their ids, 255 several objects or a "
                             "crowd")
    parser.add_argument("--skip-missing", action="store_true", help="leave out rows without a file")
    return parser


def _read(options: argparse.Namespace) -> Table:
    is_coco = options.table.lower().endswith(".json")
    if is_coco and (options.path or options.label or options.without or options.classes):
        raise SourceError("--path, --label, --classes and --without are of tables with columns: leave them "
                          "out")
    if is_coco:
        return read_coco(options.table, options.images, options.skip_missing, bool(options.masks))
    if options.boxes or options.masks:
        raise SourceError("--boxes and --masks are of COCO's .json: leave them out")
    return read_csv(options.table, options.images, options.path, options.label, options.without,
                    options.skip_missing, read_classes(options.classes))


def main(words: Optional[Sequence[str]] = None) -> int:
    options = _parser().parse_args(words)
    try:
        table = _read(options)
        path = write(table, options.boxes, options.masks)
    except SourceError as error:
        print(f"tureen.labels: {error}", file=sys.stderr)
        return 1
    for note in table.notes:
        print(note, file=sys.stderr)
    field = f" --field train.boxes=file:{options.boxes}" if options.boxes else ""
    field += f" --field train.mask=mask:{options.masks}" if options.masks else ""
    print(f"{path}: {len(table.paths)} samples, with {', '.join(table.columns) or 'no labels'}; serve them "
          f"with\ntureen serve --dataset train={table.root}{field}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

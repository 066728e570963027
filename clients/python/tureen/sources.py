"""Data sets as other libraries keep them, sample by sample, for tureen.pack.

    Hugging Face datasets   a folder of save_to_disk, or Arrow and Parquet files (needs pyarrow)
    MosaicML Streaming      a folder with index.json (MDS), its shards plain or compressed (zstd needs
                            zstandard)
    LMDB                    images under any keys, as LSUN has them; or image-%09d and label-%09d with
                            num-samples, as sets of text recognition have them (needs lmdb)

Each is read once from its begin to its end, with a few rows in memory.

What becomes of a row's columns:
    the image   (or sound) is the sample's own file, its bytes as they are: a column of type Image or Audio,
                or bytes that begin as a file of a known format does
    label       a number, or true or false: the label `label`; a text by the names of classes that are given
    text        on demand: the label `txt`
    masks and further images: fields by their columns' names
    arrays      on demand, lists of numbers: fields by their columns' names, as `.npy`; without a column of
                images or sounds the first of them is the sample's own file
    all others  one label `json`, an object
"""
from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import os
import re
import shlex
import struct
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from . import splits
from .errors import SourceError

Row = Dict[str, Any]
Looked = Callable[[str, int, Optional[int]], None]


class Sample(NamedTuple):
    """What a tar file of samples has of one: its name, without a dot and once in the set, and its files by
    key: {"jpg": bytes, "cls": b"3"} (docs/data.md)."""
    name: str
    files: Mapping[str, bytes]


class ArrayOf(NamedTuple):
    """A column of lists of numbers: what its arrays are.  inner: the shape of one of their rows."""
    column: str
    dtype: str
    inner: Tuple[int, ...] = ()


class Columns(NamedTuple):
    """Which column is what, where that is not to be found out.  A name that no row has is an error."""
    image: Optional[str] = None
    label: Optional[str] = None
    text: Optional[str] = None
    masks: Sequence[str] = ()
    without: Sequence[str] = ()
    arrays: Sequence[ArrayOf] = ()
    classes: Optional[Sequence[str]] = None     # the names behind the label's numbers, from 0


class Source(NamedTuple):
    """rows: from the begin, each time it is called.  files: what they are read from; their names, sizes and
    times tell whether the source has changed.  names: of a row; None: its number."""
    what: str
    rows: Callable[[], Iterator[Row]]
    files: Sequence[str]
    count: Optional[int] = None
    label: Optional[str] = None             # the column, if the source says so,
    classes: Optional[Sequence[str]] = None     # and the names behind its numbers
    names: Optional[str] = None             # the column that has the samples' names
    note: str = ""                          # what people should know of it
    columns: Sequence[str] = ()             # that hold texts,
    #                                         and the values of one of them, by file
    values: Optional[Callable[[str], Iterator[Tuple[str, Any]]]] = None


#   ---- samples

_SIGNS = ((b"\xff\xd8\xff", "jpg"), (b"\x89PNG\r\n\x1a\n", "png"), (b"BM", "bmp"), (b"II*\0", "tif"),
          (b"MM\0*", "tif"), (b"P5", "pgm"), (b"P6", "ppm"), (b"fLaC", "flac"), (b"\x93NUMPY", "npy"))
_RIFFS = {b"WEBP": "webp", b"WAVE": "wav"}
_LABELS = ("label", "labels", "cls", "class", "target", "y", "fine_label")


def extension(content: bytes) -> Optional[str]:
    """Of a file of this content; None: of no format that is known here."""
    if content[:4] == b"RIFF":
        return _RIFFS.get(content[8:12])
    return next((found for sign, found in _SIGNS if content.startswith(sign)), None)


class _Choice:
    """What each column of a source is, found by its first row."""

    def __init__(self, source: Source, columns: Columns, first: Row) -> None:
        self.arrays = {array.column: array for array in columns.arrays}
        for name in (columns.image, columns.label, columns.text, *columns.masks, *columns.without,
                     *self.arrays):
            if name is not None and name not in first:
                raise SourceError(f"there is no column {name!r}: it has {', '.join(sorted(first))}")
        kept = {name: value for name, value in first.items()
                if name not in columns.without and name != source.names}
        media = [name for name, value in kept.items() if name not in self.arrays
                 and _content(value) is not None]
        own = [columns.image] if columns.image else [name for name in media if name not in columns.masks]
        own = own or list(self.arrays)[:1]
        if not own:
            raise SourceError(f"no column has files of images or sounds: of {', '.join(sorted(first))}, name "
                              f"one with --image, or lists of numbers with --array")
        if columns.image is None and len(own) > 1:
            raise SourceError(f"the columns {', '.join(own)} all have files: say which is the sample's own "
                              f"with --image; the others become fields of their names")
        self.image, self.text, self.names = own[0], columns.text, source.names
        self.media = [name for name in media if name != self.image]
        self.beside = [name for name in self.arrays if name != self.image]
        taken = {self.image, self.text, *self.media, *self.beside}
        given = [columns.label] if columns.label else [
            name for name in (source.label, *_LABELS) if name in kept and name not in taken]
        self.label, self.is_label, self.classes = self._labelled(kept, given, columns, source)
        used = {self.image, self.label, self.text, *self.media, *self.beside}
        self.rest = [name for name in kept if name not in used]
        for name in [*self.media, *self.beside]:
            if not name.replace("_", "").isalnum() or not name.isascii():
                raise SourceError(f"the column {name!r} would be a field of that name, which may have "
                                  f"letters, digits and _: leave it out with --without")

    @staticmethod
    def _labelled(kept: Row, given: Sequence[Any], columns: Columns, source: Source
                  ) -> Tuple[Optional[str], Callable[[Any], bool], Optional[Sequence[str]]]:
        """The column of the label, what its values are, and the names of its numbers.  SourceError for one
        that can be no label as it is, and would be found as a text of JSON."""
        classes = columns.classes
        for fits in (_is_whole, _is_bool, _is_real, *([_is_text] if classes else [])):
            for name in given:
                if fits(kept[name]):
                    return name, fits, source.classes if classes is None and name == source.label else classes
        for name in given:
            if columns.label or not _stays_json(kept[name]):
                raise SourceError(f"the column {name!r} holds {_shown(kept[name])}, and a label is a number: "
                                  + _label_remedy(kept[name], name))
        return None, _is_whole, None

    def _number(self, row: Row, where: str) -> bytes:
        value = row.get(self.label or "")
        if not self.is_label(value):
            raise SourceError(f"{where}: {self.label!r} is {_shown(value)}, no {_WORDS[self.is_label]}: name "
                              f"another column with --label, or leave it out with --without")
        if isinstance(value, str):
            if value not in (self.classes or ()):
                raise SourceError(f"{where}: {self.label!r} is {value!r}, none of the "
                                  f"{len(self.classes or ())} classes: add it to the file of --classes")
            value = (self.classes or ()).index(value)
        return repr(float(value) if self.is_label is _is_real else int(value)).encode()

    def sample(self, number: int, row: Row) -> Sample:
        where = f"row {number}"
        own = self._own(row, where)
        kind = extension(own) if own else None
        if own is None or kind is None:
            raise SourceError(f"{where}: {self.image!r} is {_shown(row.get(self.image))}, no file of a known "
                              f"format")
        files: Dict[str, bytes] = {kind: own}

        def add(key: str, column: str, content: bytes) -> None:
            if key in files:
                raise SourceError(f"{where}: the column {column!r} would be the sample's file .{key}, which "
                                  f"another column is: leave one of them out with --without")
            files[key] = content

        if self.label is not None:
            add("cls", self.label, self._number(row, where))
        if self.text is not None:
            add("txt", self.text, str(row.get(self.text) if row.get(self.text) is not None else "").encode())
        for name in self.media:
            content = _content(row.get(name))
            if content is None:
                raise SourceError(f"{where}: {name!r} is {_shown(row.get(name))}, and the first row has a "
                                  f"file there: leave the column out with --without")
            add(name.lower(), name, content)
        for name in self.beside:
            add(name.lower(), name, _npy(row.get(name), self.arrays[name], where))
        if self.rest:
            add("json", self.rest[0], json.dumps({name: _plain(row.get(name), name) for name in self.rest},
                                                 ensure_ascii=False).encode())
        return Sample(f"{number:09d}" if self.names is None else row[self.names], files)

    def _own(self, row: Row, where: str) -> Optional[bytes]:
        array = self.arrays.get(self.image)
        return _content(row.get(self.image)) if array is None else _npy(row.get(self.image), array, where)


def samples(source: Source, columns: Columns = Columns()) -> Iterator[Sample]:
    """All samples of the source, in its order.  SourceError names the row that cannot be packed."""
    choice = None
    for number, row in enumerate(source.rows()):
        choice = choice or _Choice(source, columns, row)
        yield choice.sample(number, row)
    if choice is None:
        raise SourceError("it has no row")


def own_extension(source: Source, columns: Columns = Columns()) -> str:
    """Of the samples' own files, by the first row: "jpg", "npy"."""
    for row in source.rows():
        own = _Choice(source, columns, row)._own(row, "row 0")
        return (extension(own) if own else None) or ""
    return ""


def class_names(source: Source, columns: Columns = Columns()) -> Optional[Sequence[str]]:
    """Of the label's numbers; None: there are none."""
    for row in source.rows():
        return _Choice(source, columns, row).classes
    return None


def read_classes(path: Optional[str]) -> Optional[Tuple[str, ...]]:
    """The file of --classes: the names of the classes, one a line; None: there is no such option."""
    if path is None:
        return None
    try:
        with open(path, encoding="utf-8-sig") as file:
            return tuple(file.read().splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"--classes {path} cannot be read ({error}): give a file with a name a "
                          f"line") from None


def signature(source: Source, columns: Columns = Columns()) -> str:
    """Another one when a file of the source or a choice of columns is another."""
    digest = hashlib.sha256(repr((source.what, *columns, source.classes)).encode())
    for path in source.files:
        found = os.stat(path)
        digest.update(repr((os.path.abspath(path), found.st_size, found.st_mtime_ns)).encode())
    return digest.hexdigest()[:32]


def _content(value: Any) -> Optional[bytes]:
    """The bytes of a file, or None."""
    if isinstance(value, Mapping) and "bytes" in value and "path" in value:
        if value["bytes"] is not None:
            return bytes(value["bytes"])
        if not value["path"]:
            return None
        try:
            with open(value["path"], "rb") as file:
                return file.read()
        except OSError as error:
            raise SourceError(f"a row has the path {value['path']} and not the bytes, and it cannot be read "
                              f"({error.strerror})") from None
    if isinstance(value, (bytes, bytearray, memoryview)):
        content = bytes(value)
        return content if extension(content) else None
    return None


def _npy(value: Any, told: ArrayOf, where: str) -> bytes:
    """A list of numbers as a file.  Only fractions are rounded, to the type's nearest."""
    wanted = f"{told.dtype} [..{''.join(f', {side}' for side in told.inner)}]"
    try:
        found = np.asarray([] if value is None else value)
        with np.errstate(over="ignore", invalid="ignore"):
            array = found.astype(told.dtype) if found.size else np.zeros((0, *told.inner), told.dtype)
    except (TypeError, ValueError, OverflowError):      # of lists of several lengths
        raise SourceError(f"{where}: {told.column!r} is {_shown(value)}, no {wanted}") from None
    fits = not found.size
    if found.ndim and found.shape[1:] == told.inner and found.dtype.kind in "biuf":
        if array.dtype.kind == found.dtype.kind == "f":
            fits = np.array_equal(np.isfinite(array), np.isfinite(found))
        else:
            fits = np.array_equal(array, found)
    if not fits:
        raise SourceError(f"{where}: {told.column!r} is {_shown(value)}, no {wanted}: give another type or "
                          f"shape (--array {told.column}:TYPE, --array {told.column}:TYPE:SIDE for lists of "
                          f"lists)")
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_real(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_WORDS: Dict[Callable[[Any], bool], str] = {_is_whole: "whole number", _is_bool: "true or false",
                                            _is_real: "number", _is_text: "text"}


def _stays_json(value: Any) -> bool:
    """What is taken for no label that a loss can use."""
    return isinstance(value, Mapping) or isinstance(value, list) and not all(
        isinstance(one, (bool, int, float)) for one in value)


def _label_remedy(value: Any, name: str) -> str:
    without = f"leave it out with --without {name}"
    if isinstance(value, str):
        return (f"give the names of the classes, one a line in the order of their numbers, with --classes "
                f"FILE (the same FILE for all splits), keep the texts with --text {name}, or {without}")
    if isinstance(value, list):
        return f"make it a field of numbers with --array {name}:float32 (or another type), or {without}"
    return f"name another column with --label, or {without}"


def _plain(value: Any, name: str) -> Any:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        if not hasattr(value, "isoformat"):
            raise SourceError(f"the column {name!r} holds {_shown(value)}, for which there is no label: "
                              f"leave it out with --without {name}") from None
        return value.isoformat()
    return value


def _shown(value: Any) -> str:
    if isinstance(value, (bytes, bytearray)):
        return f"{len(value)} bytes that begin with {bytes(value[:8])!r}"
    return f"{type(value).__name__} {repr(value)[:60]}"


#   ---- finding out what a path is

def open_source(paths: Sequence[str], split: Optional[str] = None, without: Sequence[str] = (),
                looked: Optional[Looked] = None) -> Source:
    """SourceError if it is none of these, if it has several splits and none was chosen, or if the package
    that reads it is not installed.

    split       of a folder, of files or of rows that have several: its name; several names with + between
                are one source
    without     columns that tell no split of a row
    looked      called for each row of a column that may tell splits: its name, how many rows were before, and
                how many there are, if that is known.  MDS keeps a row together: all shards are read for it
    """
    for one in paths:
        if not os.path.exists(one):
            raise SourceError(f"there is no {one}: check the path")
    path, endings = paths[0], {os.path.splitext(one)[1] for one in paths}
    if len(paths) == 1 and os.path.isdir(path):
        parts = splits.parts_of_folder(path)
        tars = {os.path.splitext(name)[0] for name in os.listdir(path) if name.endswith(".tar")}
        tables = [os.path.splitext(file) for part in parts for file in part.paths]
        if tars and {os.path.basename(stem) for stem, _ in tables} <= tars:
            others = "".join(sorted({f" {shlex.quote(os.path.dirname(stem))}/*{ending}"
                                     for stem, ending in tables}))
            raise SourceError(f"{path} has tar files, and tables beside them, if any, as img2dataset writes, "
                              f"have no images: pack the tar files, `tureen pack {path}/*.tar PACK`" + (
                                  others and f"; if the tables have the images, give them by their names, "
                                  f"`python3 -m tureen.pack{others} PACK`"))
        if not parts:
            raise SourceError(f"{path} has no state.json, index.json, data.mdb, *.parquet or *.arrow in it "
                              f"or below: is it a data set?  Class folders are packed by `tureen pack` "
                              f"itself")
    elif not endings <= {".parquet"} and not endings <= {".arrow"} and len(paths) > 1:
        raise SourceError("several paths are Parquet files, or Arrow files: give a folder of anything else "
                          "alone")
    else:
        parts = splits.parts_of_files(paths)
    parts = [each for part in parts for each in _by_rows(path, part, without, looked, len(parts) == 1)]
    part = splits.chosen(path if len(paths) == 1 else f"what was given ({path}, ...)", parts, split)
    source = _open_part(path, part.paths, part.rows)
    return source._replace(note="; ".join(filter(None, (source.note, part.note))))


def _by_rows(what: str, part: splits.Part, without: Sequence[str],
             looked: Optional[Looked], is_alone: bool) -> Sequence[splits.Part]:
    """The parts that a column makes of it.  What cannot be read is told when the part is chosen."""
    try:
        source = _open_part(what, part.paths)
        for column in source.columns:
            if column.lower() not in splits.COLUMNS or column in without or source.values is None:
                continue
            counts: Dict[str, Dict[Optional[str], Tuple[int, int]]] = {}
            for number, (path, value) in enumerate(source.values(column)):
                if looked:
                    looked(column, number, source.count)
                of_path = counts.setdefault(path, {})
                count, before = of_path.get(value, (0, number))
                of_path[value] = count + 1, before
                if len(of_path) > splits.VALUES_MAX:
                    break
            parts = splits.by_rows(part, column, counts, is_alone)
            if parts != [part]:
                return parts
    except SourceError:
        pass
    return [part]


def _open_part(what: str, paths: Sequence[str], kept: Mapping[str, splits.Rows] = {}) -> Source:
    """Tables of one format, or one of another kind.  kept: by path, which rows; else all."""
    files = list(dict.fromkeys(file for path in paths for file in _files_of(path)))
    endings = {os.path.splitext(file)[1] for file in files}
    if not files:
        raise SourceError(f"{what}: it has no row")
    if endings == {".parquet"} or endings == {".arrow"}:
        return _tables(files, kept)
    if len(files) > 1:
        raise SourceError(f"{what} has {', '.join(sorted(map(os.path.basename, files))[:4])}, which are not "
                          f"of one format whose files can be joined: give them one by one")
    if os.path.isdir(files[0]) and os.path.exists(os.path.join(files[0], "index.json")):
        return _mds(files[0], kept)
    if os.path.isdir(files[0]) or endings <= {".mdb", ".lmdb"}:
        return _lmdb(files[0])
    raise SourceError(f"{files[0]} is no Parquet, Arrow, LMDB or .idx file: class folders, lists and tar "
                      f"files are packed by `tureen pack` itself")


def _files_of(path: str) -> List[str]:
    """The tables that a folder of save_to_disk lists; of others the path."""
    if not os.path.exists(os.path.join(path, "state.json")):
        return [path]
    state = _json(os.path.join(path, "state.json"))
    if state.get("_indices_data_files"):
        raise SourceError(f"{path} is a selection of rows, as datasets before 1.6 saved it: save it again "
                          f"with a newer one")
    return [os.path.join(path, one["filename"]) for one in state.get("_data_files") or []]


def _json(path: str) -> Dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError) as error:
        raise SourceError(f"{path} cannot be read ({error}): is it whole?") from None
    if not isinstance(found, dict):
        raise SourceError(f"{path} is no JSON object: is it of a data set?")
    return found


def _module(name: str, what: str) -> Any:
    try:
        return __import__(name, fromlist=["_"])
    except ImportError:
        package = name.partition(".")[0]
        raise SourceError(f"{what} are read by the package {package}: pip install {package}") from None


#   ---- Hugging Face: Arrow and Parquet

_ROWS = 32                      # read at once: images of some hundred kilobytes


def _tables(paths: Sequence[str], kept: Mapping[str, splits.Rows]) -> Source:
    is_parquet = paths[0].endswith(".parquet")
    arrow = _module("pyarrow", "Arrow and Parquet files")
    parquet = _module("pyarrow.parquet", "Parquet files") if is_parquet else None

    def batches(path: str, column: Optional[str]) -> Iterator[Any]:
        """column: that one alone."""
        if parquet:
            with parquet.ParquetFile(path) as file:
                yield from file.iter_batches(batch_size=_ROWS, columns=column and [column])
            return
        with arrow.memory_map(path) as file, _arrow_reader(arrow, file) as reader:
            for batch in reader:
                batch = batch.select([column]) if column else batch
                for begin in range(0, batch.num_rows, _ROWS):
                    yield batch.slice(begin, _ROWS)

    def read(column: Optional[str] = None) -> Iterator[Tuple[str, Row]]:
        for path in paths:
            try:
                for batch in batches(path, column):
                    for row in batch.to_pylist():
                        yield path, row
            except (arrow.ArrowInvalid, KeyError, OSError) as error:
                raise SourceError(f"{path} cannot be read ({error}): is it whole?") from None

    try:
        if parquet:
            schema = parquet.read_schema(paths[0])
            count = sum(parquet.read_metadata(path).num_rows for path in paths)
        else:
            count = None
            with arrow.memory_map(paths[0]) as file, _arrow_reader(arrow, file) as reader:
                schema = reader.schema
    except (arrow.ArrowInvalid, OSError) as error:
        raise SourceError(f"{paths[0]} cannot be read ({error}): is it whole?") from None
    return _with_rows(Source("Parquet" if parquet else "Arrow", lambda: iter(()), paths, count,
                             *_class_label(schema), columns=_texts(schema)), read, kept)


def _texts(schema: Any) -> List[str]:
    return [field.name for field in schema
            if re.match(r"(dictionary<values=)?(large_)?string", str(field.type))]


def _with_rows(source: Source, read: Callable[..., Iterator[Tuple[str, Row]]],
               kept: Mapping[str, splits.Rows]) -> Source:
    """The source with what `read` reads: each row with the path that it is of; of a column, where that is
    asked for.  kept: by path, which rows."""
    def rows() -> Iterator[Row]:
        for path, row in read():
            if path not in kept or row.get(kept[path].column) in kept[path].values:
                yield row

    def values(column: str) -> Iterator[Tuple[str, Any]]:
        return ((path, row.get(column)) for path, row in read(column))

    what = ", ".join(dict.fromkeys([source.what, *(
        f"{part.column} {'+'.join(sorted(map(str, part.values)))}" for part in kept.values())]))
    count = source.count
    if kept:
        count = sum(part.number for part in kept.values()) if set(source.files) <= set(kept) else None
    return source._replace(what=what, rows=rows, values=values, count=count)


def _arrow_reader(arrow: Any, file: Any) -> Any:
    """Of a stream, as save_to_disk writes it, or of an Arrow file."""
    try:
        return arrow.ipc.open_stream(file)
    except arrow.ArrowInvalid:
        file.seek(0)
        whole = arrow.ipc.open_file(file)
        return arrow.RecordBatchReader.from_batches(whole.schema, (
            whole.get_batch(index) for index in range(whole.num_record_batches)))


def _class_label(schema: Any) -> Tuple[Optional[str], Optional[Sequence[str]]]:
    """The column that Hugging Face's description of the columns calls a class, if it is one alone, and the
    names of its classes."""
    about = (schema.metadata or {}).get(b"huggingface")
    try:
        features = json.loads(about)["info"]["features"] if about else {}
        found = [(name, kind.get("names")) for name, kind in features.items()
                 if isinstance(kind, Mapping) and kind.get("_type") == "ClassLabel"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None, None
    if len(found) != 1:
        return None, None
    name, names = found[0]
    return name, tuple(map(str, names)) if names else None


#   ---- MosaicML Streaming: MDS

_NUMBERS = {f"{kind}{bits}": f"<{code}" for kind, codes in
            (("int", "bhiq"), ("uint", "BHIQ")) for bits, code in zip((8, 16, 32, 64), codes)}
_NUMBERS.update({"int": "<q", "float16": "<e", "float32": "<f", "float64": "<d"})
_BYTES = ("bytes", "jpeg", "jpeg_array", "png")


def _mds_value(encoding: str, content: bytes) -> Any:
    if encoding in _BYTES:
        return content
    if encoding in ("str", "str_int", "str_float", "str_decimal"):
        text = content.decode()
        return int(text) if encoding == "str_int" else float(text) if encoding == "str_float" else text
    if encoding == "json":
        return json.loads(content)
    return struct.unpack(_NUMBERS[encoding], content)[0]


def _mds_file(path: str, shard: Mapping[str, Any]) -> str:
    """The unpacked one, where both are there."""
    raw, packed = os.path.join(path, shard["raw_data"]["basename"]), shard.get("zip_data")
    return raw if packed is None or os.path.exists(raw) else os.path.join(path, packed["basename"])


def _mds_shard(path: str, shard: Mapping[str, Any]) -> Tuple[str, bytes]:
    """The file that it is in, and its unpacked bytes."""
    raw, name = shard["raw_data"], _mds_file(path, shard)
    with open(name, "rb") as file:
        content = file.read()
    if os.path.basename(name) == os.path.basename(raw["basename"]):
        return name, content
    how = str(shard.get("compression")).partition(":")[0]
    if how == "zstd":
        zstandard = _module("zstandard", "shards packed by zstd")
        return name, zstandard.decompress(content, max_output_size=raw["bytes"])
    if how not in ("gz", "bz2"):
        raise SourceError(f"{name} is packed by {how}, which is not read here: unpack the shards beside it, "
                          f"to {raw['basename']}")
    return name, gzip.decompress(content) if how == "gz" else bz2.decompress(content)


def _mds_rows(name: str, content: bytes, shard: Mapping[str, Any]) -> Iterator[Row]:
    """A shard: how many samples, where each begins and the last ends, and the samples: of each column without
    a fixed size the size, then the columns."""
    columns = list(zip(shard["column_names"], shard["column_encodings"], shard["column_sizes"]))
    count, = struct.unpack_from("<I", content)
    places = struct.unpack_from(f"<{count + 1}I", content, 4)
    if count != shard["samples"] or places[-1] > len(content):
        raise SourceError(f"{name} is not what index.json says: is it whole?")
    for begin in places[:-1]:
        sizes: List[int] = []
        for _, _, size in columns:
            if size is None:
                size, = struct.unpack_from("<I", content, begin)
                begin += 4
            sizes.append(size)
        row = {}
        for (column, encoding, _), size in zip(columns, sizes):
            row[column] = _mds_value(encoding, content[begin:begin + size])
            begin += size
        yield row


def _one_split(path: str, shards: Sequence[Mapping[str, Any]]) -> None:
    """The index of merge_index may list the shards of several folders."""
    parts = splits.parts_of_files([shard["raw_data"]["basename"] for shard in shards]) if shards else []
    if len(parts) > 1:
        raise SourceError(f"{path}: its index.json lists the shards of several splits "
                          f"({', '.join(part.name for part in parts)}): give the folder of one, with an "
                          f"index.json of its own")


def _mds(path: str, kept: Mapping[str, splits.Rows]) -> Source:
    shards = _json(os.path.join(path, "index.json")).get("shards", [])
    _one_split(path, shards)
    for shard in shards:
        if shard.get("format") != "mds":
            raise SourceError(f"{path}: a shard has the format {shard.get('format')}: only MDS is read")
        for name, encoding in zip(shard["column_names"], shard["column_encodings"]):
            if encoding not in (*_BYTES, *_NUMBERS, "str", "str_int", "str_float", "str_decimal", "json"):
                raise SourceError(f"{path}: the column {name!r} is kept as {encoding}, which is not read "
                                  f"here: write the data anew with jpeg, png, bytes, str, json or numbers")

    def read(column: Optional[str] = None) -> Iterator[Tuple[str, Row]]:
        end = 0
        for shard in shards:
            end += shard["samples"]
            if column is None and path in kept and end <= kept[path].before:
                continue                # another split's: it was read to find that out
            name = shard["raw_data"]["basename"]
            try:
                name, content = _mds_shard(path, shard)
                for row in _mds_rows(name, content, shard):
                    yield path, row
            except (OSError, EOFError, struct.error, ValueError) as error:
                raise SourceError(f"{name} cannot be read ({error}): is it whole?") from None
    files = [os.path.join(path, "index.json"), *(_mds_file(path, shard) for shard in shards)]
    texts = [name for shard in shards[:1] for name, encoding in zip(shard["column_names"],
                                                                    shard["column_encodings"])
             if encoding == "str"]
    return _with_rows(Source("MDS", lambda: iter(()), [name for name in files if os.path.exists(name)],
                             sum(shard["samples"] for shard in shards), columns=texts), read, kept)


#   ---- LMDB

def _lmdb(path: str) -> Source:
    lmdb = _module("lmdb", "LMDB files")

    def rows() -> Iterator[Row]:
        try:
            with lmdb.open(path, readonly=True, lock=False, subdir=os.path.isdir(path)) as base, \
                    base.begin(buffers=False) as view:
                count = view.get(b"num-samples")
                yield from _numbered(view, int(count)) if count is not None else _keyed(view)
        except lmdb.Error as error:
            raise SourceError(f"{path} cannot be read ({error}): is it whole?") from None
    return Source("LMDB", rows, [os.path.join(path, "data.mdb") if os.path.isdir(path) else path],
                  names="name")


def _numbered(view: Any, count: int) -> Iterator[Row]:
    for number in range(1, count + 1):
        image, text = (view.get(b"%s-%09d" % (what, number)) for what in (b"image", b"label"))
        if image is None:
            raise SourceError(f"num-samples says {count}, and there is no image-{number:09d}: is it whole?")
        yield {"name": f"{number:09d}", "image": image, "text": (text or b"").decode("utf-8", "replace")}


def _keyed(view: Any) -> Iterator[Row]:
    for key, value in view.cursor():
        if extension(value) is None:
            raise SourceError(f"the key {key!r} has {_shown(value)}, no file of a known format: read such a "
                              f"base in Python, and give tureen.pack.pack its samples")
        name = key.decode("ascii", "replace")
        if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
            name = key.hex()
        yield {"name": name, "image": value}

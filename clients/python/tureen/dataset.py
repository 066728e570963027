"""What a data set holds: classes, names, labels, and single samples.

    data = tureen.Loader(dataset="train").dataset
    counts = numpy.bincount(data.targets, minlength=len(data.classes))

Tables are asked for over a connection of their own, a part at a time, when they are first used; they are
kept.  No job is joined for them.
"""
from __future__ import annotations

import difflib
import functools
import operator
import os
from typing import (Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, NoReturn, Optional, Sequence,
                    Tuple, Union, overload)

import numpy as np
import numpy.typing as npt

from . import adding, wire
from .control import ControlConnection
from .errors import ProtocolError, RequestRefused
from .keys import KeyPaths
from .mixing import split
from .names import Name, said, told
from .request import Pipeline, Subset, given_subset, ids_of, resolve_endpoint, seconds

Path = Union[str, "os.PathLike[str]"]
Ids = npt.NDArray[np.int64]
Targets = Union[None, npt.NDArray[Any], List[str], Dict[str, Union[npt.NDArray[Any], List[str]]]]

_BATCH = 32                     # samples that are asked for together


class Column(NamedTuple):
    """A label of every sample."""
    name: str
    dtype: np.dtype[Any]
    shape: Tuple[int, ...]

    @property
    def is_text(self) -> bool:
        return self.dtype == np.uint8 and len(self.shape) == 1


class Facts(NamedTuple):
    """What the server says of the data set.  `columns`: None where it is too old to tell."""
    fingerprint: str
    samples: int
    classes: int
    columns: Optional[Tuple[Column, ...]]


class Names(Sequence[str]):
    """Texts, kept as the bytes that they came in: a million take little more than their files' names."""

    def __init__(self, content: bytes, ends: npt.NDArray[np.int64], rows: Optional[Ids] = None) -> None:
        """`ends`: of each text in `content`; `rows`: which of them, in this order.  None: all."""
        self._content = content
        self._ends = ends
        self._rows = rows

    def __len__(self) -> int:
        return len(self._ends if self._rows is None else self._rows)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> List[str]: ...

    def __getitem__(self, index: Union[int, slice]) -> Union[str, List[str]]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = _place(index, len(self))
        row = place if self._rows is None else int(self._rows[place])
        begin = int(self._ends[row - 1]) if row else 0
        return os.fsdecode(self._content[begin:int(self._ends[row])])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and not isinstance(other, str) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} names: {', '.join(self[:3])}{', ...' if len(self) > 3 else ''}>"

    def of(self, rows: Ids) -> Names:
        return Names(self._content, self._ends, rows)


class Samples(Sequence[Tuple[str, Any]]):
    """(name, target) of each sample, as torchvision's ImageFolder has them."""

    def __init__(self, names: Names, targets: Targets) -> None:
        self._names = names
        self._targets = targets

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, index: int) -> Tuple[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> List[Tuple[str, Any]]: ...

    def __getitem__(self, index: Union[int, slice]) -> Union[Tuple[str, Any], List[Tuple[str, Any]]]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = _place(index, len(self))
        return self._names[place], _target(self._targets, place)


class DataSet:
    """A data set at a server, or the part of it that a loader has.

        data = tureen.DataSet("train")
        data.classes, data.class_to_idx         # ("cat", "dog"), {"cat": 0, "dog": 1}
        data.targets                            # the label of each sample: int64 [len(data)]
        data.samples[5]                         # ("cat/0005.jpg", 0)
        data[5]                                 # that sample, prepared: {"image": ..., "label": 0}

    Places count from 0 within the subset, as in torch.utils.data.Subset; `ids` has the sample's id at each
    place, which is what `subset`, `sampler` and a batch's ids mean.  Without a subset both are the same.
    Samples that cannot be read are counted and named here: the tables are what the folder listed, and a
    loader's `stats` says what is missing.

    name        of the data set; `pipeline`: how single samples are prepared (and not mixed); the rest is as
                of tureen.Loader
    """

    def __init__(self, name: str, endpoint: Optional[str] = None, *, pipeline: Pipeline = "eval",
                 subset: Optional[Subset] = None, timeout: float = 10.0, key: Optional[Path] = None,
                 server_key: Optional[Path] = None) -> None:
        self.endpoint = resolve_endpoint(endpoint)
        self._name = Name.of(name, self.endpoint)
        self.name = str(name)
        self._keys = KeyPaths(key, server_key)
        self._options: Dict[str, Any] = dict(pipeline=split(pipeline)[0], timeout=timeout, key=key,
                                             server_key=server_key)
        self._timeout = seconds("timeout", timeout)
        self.chosen = given_subset(subset)
        self._facts: Optional[Facts] = None
        self._tables: Dict[Tuple[str, str], Any] = {}

    def __len__(self) -> int:
        """Samples, those that cannot be read counted."""
        return self._told.samples if self.chosen is None else len(self.ids)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<tureen.DataSet {self.name!r}>"

    @functools.cached_property
    def ids(self) -> Ids:
        """The id of each sample."""
        if self.chosen is None:
            return np.arange(self._told.samples, dtype=np.int64)
        self.chosen.check(self.name, self._told.samples)
        return ids_of(self.chosen.ranges(self))

    @functools.cached_property
    def classes(self) -> Optional[Tuple[str, ...]]:
        """The names behind the labels, of the whole data set; None where a labels file says what the labels
        are."""
        facts = self._told
        if not facts.classes:
            return None
        return tuple(self._table("classes", "", facts.classes, self._names))

    @functools.cached_property
    def class_to_idx(self) -> Optional[Dict[str, int]]:
        classes = self.classes
        return None if classes is None else {name: number for number, name in enumerate(classes)}

    @functools.cached_property
    def names(self) -> Names:
        """The file of each sample, below the data set's folder: a sequence of texts."""
        names: Names = self._table("names", "", self._told.samples, self._names)
        return names if self.chosen is None else names.of(self.ids)

    @functools.cached_property
    def targets(self) -> Targets:
        """The label of each sample: an array, or of texts a list; a dict of them by name where there are
        several; None: none."""
        columns = self._columns()
        values = {column.name: self._values(column) for column in columns}
        return values if len(columns) > 1 else next(iter(values.values()), None)

    @functools.cached_property
    def samples(self) -> Samples:
        """(name, target) of each sample: a sequence."""
        return Samples(self.names, self.targets)

    def ids_of_classes(self, names: Sequence[str]) -> Ids:
        """The ids of all samples of these classes, of the whole data set.  ValueError where it has no such
        class."""
        numbers = self.class_to_idx
        if numbers is None:
            raise ValueError(f"data set {self.name!r} has no classes: choose its samples by ids (its labels "
                             "are in `targets`)")
        unknown = [name for name in names if name not in numbers]
        if unknown:
            near = difflib.get_close_matches(unknown[0], numbers, 3, 0.4) or list(numbers)[:3]
            raise ValueError(f"data set {self.name!r} has no class {unknown[0]!r} (there is "
                             f"{', '.join(map(repr, near))}, ...)")
        column = next(column for column in self._columns() if column.name == "label")
        return np.flatnonzero(np.isin(self._whole(column), [numbers[name] for name in names]))

    def __getitem__(self, index: int) -> Any:
        """The sample at that place, prepared by the server for this question alone: some milliseconds, so not
        for training. Random operations are drawn anew each time.  Where it cannot be read: RequestRefused or
        JobEnded, `bad_sample`."""
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Iterable[int]) -> List[Any]:
        """Several of them together, which is faster."""
        return list(self._each([int(self.ids[_place(index, len(self))]) for index in indices]))

    def __iter__(self) -> Iterator[Any]:
        return self._each(self.ids)

    #  What a loader's own differs in

    def _present(self, batch: Any, joined: wire.Joined) -> List[Any]:
        return [{name: array[row].copy() for name, array in batch.items()} for row in range(len(batch))]

    #  Tables

    @property
    def _told(self) -> Facts:
        if self._facts is None:
            try:
                with self._control() as control:
                    self._facts = _facts(self._ask(control, {})[0])
            except RequestRefused as refused:
                if refused.code != "unknown_kind":
                    raise
                self._facts = self._told_by_a_job()
        return self._facts

    def _told_by_a_job(self) -> Facts:
        """What a server tells that has no tables yet."""
        with self._loader(ids=[0], batch_size=1) as loader:
            joined = loader.joined
        classes = joined.classes or ()
        self._tables["classes", ""] = classes
        return Facts(joined.fingerprint, joined.dataset_samples, len(classes), None)

    def _columns(self) -> Tuple[Column, ...]:
        columns = self._told.columns
        if columns is None:
            raise RequestRefused("unknown_kind", f"the server at {self.endpoint} is too old to tell names "
                                 "and labels of a data set")
        return columns

    def _values(self, column: Column) -> Union[npt.NDArray[Any], List[str]]:
        rows = self._whole(column)
        rows = rows.copy() if self.chosen is None else rows[self.ids]       # the caller's to write to
        if column.is_text:
            return [bytes(row).rstrip(b"\0").decode("utf-8", "replace") for row in rows]
        return rows

    def _whole(self, column: Column) -> npt.NDArray[Any]:
        """The column of the whole data set."""
        def collect(parts: List[Tuple[int, bytes]]) -> npt.NDArray[Any]:
            whole = b"".join(content for _, content in parts)
            try:
                return np.frombuffer(whole, column.dtype).reshape(-1, *column.shape)
            except ValueError:
                _wrong(f"label {column.name!r} has {len(whole)} bytes")

        rows: npt.NDArray[Any] = self._table("label", column.name, self._told.samples, collect)
        return rows

    def _table(self, table: str, label: str, rows: int, collect: Callable[[List[Tuple[int, bytes]]],
            Any]) -> Any:
        """A whole table, asked for once."""
        found = self._tables.get((table, label))
        if found is None:
            self._columns()
            found = collect(self._parts(table, label, rows))
            if len(found) != rows:
                _wrong(f"table {table!r} has {len(found)} rows instead of {rows}")
            self._tables[table, label] = found
        return found

    def _parts(self, table: str, label: str, rows: int) -> List[Tuple[int, bytes]]:
        wanted = {"table": table, **({"label": label} if label else {})}
        parts: List[Tuple[int, bytes]] = []
        first = 0
        with self._control() as control:
            while first < rows:
                value, content = self._ask(control, {**wanted, "first": str(first)})
                count = wire.integer(value, "count", 1, "DATASET_REPLY")
                if value.get("fingerprint") != self._told.fingerprint:
                    raise RequestRefused("unknown_dataset", f"the server at {self.endpoint} has other data "
                                         f"by now under the name {self.name!r}: make the loader, or the "
                                         "DataSet, anew")
                parts.append((count, content))
                first += count
        return parts

    @staticmethod
    def _names(parts: List[Tuple[int, bytes]]) -> Names:
        lengths, texts = [], []
        for count, content in parts:
            if len(content) < 4 * count:
                _wrong(f"{count} texts have {len(content)} bytes")
            lengths.append(np.frombuffer(content, "<u4", count).astype(np.int64))
            texts.append(content[4 * count:])
            if int(lengths[-1].sum()) != len(texts[-1]):
                _wrong(f"texts of {int(lengths[-1].sum())} bytes have {len(texts[-1])}")
        return Names(b"".join(texts), np.cumsum(np.concatenate(lengths)) if lengths
                     else np.zeros(0, np.int64))

    def _control(self) -> ControlConnection:
        return ControlConnection(self.endpoint, self._keys.read(self.endpoint), self._timeout)

    def _ask(self, control: ControlConnection, wanted: Dict[str, str]) -> Tuple[Dict[str, Any], bytes]:
        def message(tag: int) -> List[bytes]:
            return wire.dataset({**said(self._name), **wanted}, tag)
        try:
            try:
                frames = control.ask(message, wire.DATASET_REPLY)
            except RequestRefused as refused:
                if refused.code != "unknown_dataset" or not adding.found_again(
                        self.endpoint, self._name, self._timeout, adds=True):
                    raise
                frames = control.ask(message, wire.DATASET_REPLY)
        except RequestRefused as refused:
            raise RequestRefused(refused.code, told(self._name, refused.code, refused.message)) from None
        if len(frames) != (2 if wanted else 1):
            _wrong(f"it has {len(frames) + 1} frames")
        return wire.parse_json(frames[0], "DATASET_REPLY"), bytes(frames[1]) if wanted else b""

    #  Samples

    def _each(self, ids: Sequence[int]) -> Iterator[Any]:
        if not len(ids):
            return
        with self._loader(ids=np.asarray(ids), batch_size=min(len(ids), _BATCH), on_bad="fail") as loader:
            for batch in loader:
                yield from self._present(batch, loader.joined)

    def _loader(self, **options: Any) -> Any:
        from .loader import Loader      # which has one of these
        return Loader(self.endpoint, self._name, epochs=1, order="list", slots=wire.SLOTS_MIN,
                      transport="inline", name="DataSet", rejoin=0.0, **options, **self._options)


def _place(index: Any, count: int) -> int:
    place = operator.index(index)
    if not -count <= place < count:
        raise IndexError(f"sample {place} of {count}")
    return place % count


def _target(targets: Targets, place: int) -> Any:
    if targets is None:
        return None
    if isinstance(targets, dict):
        return {name: values[place] for name, values in targets.items()}
    value = targets[place]
    return value.item() if isinstance(value, np.generic) else value


def _facts(value: Dict[str, Any]) -> Facts:
    columns = []
    labels = value.get("labels")
    for label in labels if isinstance(labels, list) else ():
        try:
            columns.append(Column(str(label["name"]), np.dtype(label["dtype"]).newbyteorder("<"),
                                  tuple(operator.index(side) for side in label["shape"])))
        except (KeyError, TypeError, ValueError, SyntaxError):
            _wrong("it does not describe its labels")
    return Facts(str(value.get("fingerprint")), wire.integer(value, "samples", 1, "DATASET_REPLY"),
                 wire.integer(value, "classes", 0, "DATASET_REPLY"), tuple(columns))


def _wrong(how: str) -> NoReturn:
    raise ProtocolError(f"the server's DATASET_REPLY cannot be understood: {how}")

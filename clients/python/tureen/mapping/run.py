"""Runs the user's functions on samples that lie in memory, and writes what they return into the batch.

The server's bytes are never written to, so that a sample can be done again when a process was killed or a
function raised.  The functions see the bytes in a private mapping (memory.Private), which they may write to.

    kept        a field that the function returns as it got it, and did not write to, is not copied: the batch
                has it where the server wrote it
    eager       once a function wrote to a field and returned it, the field is copied into the batch before
                the function is called, and it works there: the kernel's copies, page by page, cost more
"""
from __future__ import annotations

import hashlib
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np
import numpy.typing as npt

from ..batch import Array, Batch
from ..waker import Bytes
from .memory import Private
from .pytree import ArrayAdapter, Laid, Layout, Tree, flatten, is_text, lies_whole, rebuild

Ids = npt.NDArray[np.int64]
Function = Callable[[Any], Any]


class Functions(NamedTuple):
    """`sample` is called with each sample, `batch` with each batch, or with what was made of its samples."""
    sample: Optional[Function]
    batch: Optional[Function]


class Key(NamedTuple):
    """What a sample's random numbers may follow from, beside its id."""
    seed: int
    epoch: int


class RowFailed(Exception):
    """A function raised `args[1]`; with sample `args[0]` of those that were run, None: with the batch."""


class Apart(NamedTuple):
    """A result that is in no batch's memory: the first one, or a batch of another shape than the first.

    whole       how `values` are laid out
    rows        how one sample is; None: the result is not made of samples
    """
    whole: Layout
    rows: Optional[Layout]
    values: List[Any]


class Outcome(NamedTuple):
    """texts    of each sample, by the number of the leaf
    kept        the leaves that the batch has where the server wrote them
    """
    texts: Dict[int, List[Any]]
    kept: Tuple[int, ...] = ()
    apart: Optional[Apart] = None


class Source(NamedTuple):
    """The server's samples.  memory: the private mapping that they lie in; None: they are a copy, for this
    once."""
    fields: Dict[str, Array]
    memory: Optional[Private]

    def part(self, first: int, end: int) -> Source:
        return Source({name: array[first:end] for name, array in self.fields.items()}, self.memory)

    def changed(self) -> Set[str]:
        """The fields that were written to, as far as is known."""
        if self.memory is None:
            return set(self.fields)
        if self.memory.unchanged():
            return set()
        return {name for name, array in self.fields.items() if self.memory.changed(array)}

    def restore(self, changed: Set[str]) -> None:
        """These are as the server wrote them again."""
        if self.memory is not None:
            for name in changed:
                self.memory.restore(self.fields[name])
            self.memory.restored()


_now: List[Optional[Tuple[Key, int]]] = [None]


def sample_seed() -> int:
    """A number for the sample that the function of `map` is working on (of `map_batch`: for the batch's first
    one), 64 bits.  It follows from the job's seed, the epoch and the sample's id alone, so a function that
    makes its random numbers from it gives the same again: with other processes, in another run with the same
    seed, and where a process was killed."""
    if _now[0] is None:
        raise RuntimeError("tureen.sample_seed() is for the functions of map= and map_batch=, while they run")
    (seed, epoch), sample = _now[0]
    return int.from_bytes(hashlib.blake2b(f"{seed} {epoch} {sample}".encode(), digest_size=8).digest(),
                          "little")


class Runner:
    """In one process.  laid: how a batch's memory is laid out; set by the caller once the first result has
    shown it."""

    def __init__(self, functions: Functions, adapter: ArrayAdapter) -> None:
        self.adapter = adapter
        self.laid: Optional[Laid] = None
        self._functions = functions
        self._eager: Set[str] = set()

    def run(self, source: Source, ids: Ids, key: Key, at: int = 0, target: Optional[Bytes] = None) -> Outcome:
        """Of the samples in `source`, which are the batch's from its sample `at` on; into `target`, or
        `apart`.  Without a target one sample is done, or with a function of batches all of them.  RowFailed
        where a function raises."""
        changed: Optional[Set[str]] = None
        try:
            run = self._run_samples if self._functions.batch is None else self._run_batch
            outcome, changed = run(source, ids, key, at, target)
            return outcome
        finally:
            _now[0] = None
            source.restore(source.changed() if changed is None else changed)

    #  Samples

    def _run_samples(self, source: Source, ids: Ids, key: Key, at: int,
                     target: Optional[Bytes]) -> Tuple[Outcome, Optional[Set[str]]]:
        assert self._functions.sample is not None
        adapter, function, laid = self.adapter, self._functions.sample, self.laid
        given = self._given(source, target, at)
        many: List[Any] = []
        tree = flatten(adapter.present(Batch(given, ids, key.epoch, 0)), many)
        columns = [adapter.rows(leaf) for leaf in many]
        texts: Dict[int, List[Any]] = {}
        same = _Same(laid)
        flat = tree == ("tuple", *range(len(many)))
        for row, (id, *leaves) in enumerate(zip(ids.tolist(), *columns)):
            _now[0] = (key, id)
            values: List[Any] = []
            try:
                sample = tuple(leaves) if flat else rebuild(tree, leaves)
                result = function(sample)
                if flat and result is sample:       # which cannot have got other leaves
                    made, values = tree, leaves
                else:
                    made = flatten(result, values)
                if laid is None or target is None:
                    return Outcome({}, (), self._apart_sample(made, values, leaves, given)), None
                if same.all(made, values, leaves, row):
                    continue
                self._check_sample(laid, made, values, leaves)
                places = [None if view is None else view[at + row, ...] for view in laid.views(target)]
                self._write(laid, values, leaves, places, target, same, row)
            except Exception as error:
                raise RowFailed(row, error) from error
            for number, leaf in enumerate(laid.leaves):
                if leaf.text:
                    texts.setdefault(number, []).append(values[number])
        assert laid is not None and target is not None
        changed = source.changed()
        return Outcome(texts, self._keep(laid, changed, source, columns, target, at, same)), changed

    def _keep(self, laid: Laid, changed: Set[str], source: Source, columns: List[Sequence[Any]],
              target: Bytes, at: int, same: _Same) -> Tuple[int, ...]:
        """The leaves that were returned as they were given: those that nothing was written to stay where they
        are, the others are copied."""
        kept = []
        for number, rows in same.rows().items():
            leaf, count = laid.leaves[number], len(columns[laid.leaves[number].given])
            if leaf.field in self._eager:
                continue
            if len(rows) == count and leaf.field not in changed:
                kept.append(number)
                continue
            if leaf.field in changed and source.memory is not None:
                self._eager.add(leaf.field)
            view = laid.view(number, target)
            assert view is not None
            for row in rows:
                array, _ = self.adapter.array(columns[leaf.given][row])
                place = view[at + row, ...] if self._functions.batch is None else view[:len(array)]
                place[...] = array
        return tuple(kept)

    def _apart_sample(self, tree: Tree, values: List[Any], leaves: List[Any],
                      given: Dict[str, Array]) -> Apart:
        self.adapter.check(tree)
        whole = Layout(tree, tuple(self.adapter.leaf(value, 0) for value in values))
        return Apart(whole, self._with_given(whole, 0, values, leaves, given), self._plain(values, given))

    def _check_sample(self, laid: Laid, tree: Tree, values: List[Any], leaves: List[Any]) -> None:
        """TypeError where a sample differs from the first one.  What it returns as it is has been seen."""
        if tree == laid.tree:
            for leaf, value in zip(laid.leaves, values):
                if leaf.given < 0 or value is not leaves[leaf.given]:
                    found = self.adapter.leaf(value, 0)
                    if (found.text, found.dtype, found.shape, found.told) != (leaf.text, leaf.dtype,
                                                                              leaf.shape, leaf.told):
                        break
            else:
                return
        told = rebuild(tree, [self.adapter.leaf(value, 0).told_as() for value in values])
        first = rebuild(laid.tree, [leaf.told_as() for leaf in laid.leaves])
        raise TypeError(f"it returned {told}, and for the first sample {first}: the samples of a batch need "
                        "one shape and one type (map_batch can make batches of samples that differ)")

    #  Batches

    def _run_batch(self, source: Source, ids: Ids, key: Key, at: int,
                   target: Optional[Bytes]) -> Tuple[Outcome, Optional[Set[str]]]:
        adapter, function, laid, count = self.adapter, self._functions.batch, self.laid, len(ids)
        assert function is not None
        many: List[Any] = []
        given: Dict[str, Array] = {}
        if self._functions.sample is not None:
            tree = self._stacked(source, ids, key, many)
        else:
            given = self._given(source, target, at)
            tree = flatten(adapter.present(Batch(given, ids, key.epoch, 0)), many)
        _now[0] = (key, int(ids[0]))
        values: List[Any] = []
        same = _Same(laid)
        try:
            made = flatten(function(rebuild(tree, many)), values)
            adapter.check(made)
            if laid is None or target is None or not self._fits(laid, made, values, count):
                return Outcome({}, (), self._apart_batch(made, values, many, given, count)), None
            places = [None if view is None else view[:count] for view in laid.views(target)]
            self._write(laid, values, many, places, target, same, 0)
        except Exception as error:
            raise RowFailed(None, error) from error
        changed = source.changed()
        kept = self._keep(laid, changed, source, [[leaf] for leaf in many], target, at, same)
        texts = {number: value for number, value in enumerate(values) if is_text(value)}
        return Outcome(texts, kept), changed

    def _stacked(self, source: Source, ids: Ids, key: Key, many: List[Any]) -> Tree:
        """The batch that the function of samples makes: its leaves are added to `many`."""
        one = Runner(Functions(self._functions.sample, None), self.adapter)
        apart = one.run(source.part(0, 1), ids[:1], key).apart
        assert apart is not None and apart.rows is not None
        laid = one.laid = Laid(Layout(apart.rows.tree, tuple(leaf._replace(given=-1, field="")
                                                             for leaf in apart.rows.leaves)), len(ids))
        buffer = np.empty(laid.bytes, np.uint8)
        views = laid.views(buffer)
        for place, value in zip(views, apart.values):
            if place is not None:
                place[0, ...] = value
        texts: Dict[int, List[Any]] = {}
        if len(ids) > 1:
            try:
                texts = one.run(source.part(1, len(ids)), ids[1:], key, 1, buffer).texts
            except RowFailed as failed:
                raise RowFailed(failed.args[0] + 1, failed.args[1]) from failed.args[1]
        for number, (leaf, place) in enumerate(zip(laid.leaves, views)):
            many.append([apart.values[number], *texts.get(number, [])] if place is None
                        else self.adapter.value(place, leaf.told))
        return laid.tree

    def _fits(self, laid: Laid, tree: Tree, values: List[Any], count: int) -> bool:
        """The batch is one of such samples as the first batch's were."""
        if tree != laid.tree:
            return False
        for leaf, value in zip(laid.leaves, values):
            if is_text(value) or leaf.text:
                if not (leaf.text and isinstance(value, list) and len(value) == count):
                    return False
                continue
            array, told = self.adapter.array(value)
            if (array.dtype.str, array.shape, told) != (leaf.dtype, (count, *leaf.shape), leaf.told):
                return False
        return True

    def _apart_batch(self, tree: Tree, values: List[Any], many: List[Any], given: Dict[str, Array],
                     count: int) -> Apart:
        whole = Layout(tree, tuple(self.adapter.leaf(value, 0) for value in values))
        rows = None
        if all(isinstance(value, list) and len(value) == count if leaf.text else leaf.shape[:1] == (count,)
               for leaf, value in zip(whole.leaves, values)):
            rows = Layout(tree, tuple(self.adapter.leaf(value, 1) for value in values))
            rows = self._with_given(rows, 1, values, many, given)
        return Apart(whole, rows, self._plain(values, given))

    #  Both

    def _plain(self, values: List[Any], given: Dict[str, Array]) -> List[Any]:
        """As NumPy arrays, which outlast what was given."""
        plain: List[Any] = []
        for value in values:
            array = value if is_text(value) else self.adapter.array(value)[0]
            if isinstance(array, np.ndarray) and any(np.may_share_memory(array, field)
                                                     for field in given.values()):
                array = array.copy("K")
            plain.append(array)
        return plain

    def _given(self, source: Source, target: Optional[Bytes], at: int) -> Dict[str, Array]:
        """The fields as the functions get them: where they are, or copied to where they are to be."""
        given = dict(source.fields)
        laid = self.laid
        if target is not None and laid is not None and self._eager:
            for leaf, offset, row_bytes in zip(laid.leaves, laid.offsets, laid.row_bytes):
                if leaf.field in self._eager:
                    field = source.fields[leaf.field]
                    place: Array = np.ndarray(field.shape, field.dtype, target, offset + at * row_bytes)
                    np.copyto(place, field)
                    given[leaf.field] = place
        return given

    def _with_given(self, layout: Layout, skip: int, values: List[Any], leaves: List[Any],
                    given: Dict[str, Array]) -> Layout:
        """The layout, its leaves marked that were returned as they were given."""
        found, taken = [], set()
        for leaf, value in zip(layout.leaves, values):
            number = next((number for number, other in enumerate(leaves) if other is value), -1)
            if number >= 0 and not leaf.text:
                array, _ = self.adapter.array(value)
                for name, field in given.items():
                    if (name not in taken and array.ctypes.data == field.ctypes.data
                            and leaf.row_bytes == field[0].nbytes and lies_whole(array, leaf, skip)):
                        taken.add(name)
                        leaf = leaf._replace(given=number, field=name)
                        break
            found.append(leaf)
        return Layout(layout.tree, tuple(found))

    def _write(self, laid: Laid, values: List[Any], leaves: List[Any], places: List[Optional[Array]],
               target: Bytes, same: _Same, row: int) -> None:
        """All but what was returned as it was given, of which the row is noted in `same`."""
        made = []
        for number, (leaf, value, place) in enumerate(zip(laid.leaves, values, places)):
            if place is None:
                continue
            if leaf.given >= 0 and value is leaves[leaf.given]:
                same.add(number, row)
                continue
            array, _ = self.adapter.array(value)
            #  It may be a part of another leaf's place, which is written to as well.
            made.append((place, array.copy() if np.may_share_memory(array, target) else array))
        for place, array in made:
            place[...] = array


class _Same:
    """Which samples' leaves were returned as they were given."""

    def __init__(self, laid: Optional[Laid]) -> None:
        self._tree = None if laid is None else laid.tree
        self._given = [] if laid is None else [leaf.given for leaf in laid.leaves]
        self._any = bool(self._given) and min(self._given) >= 0
        self._whole: List[int] = []             # samples of which all were
        self._rows: Dict[int, List[int]] = {}

    def all(self, tree: Tree, values: List[Any], leaves: Sequence[Any], row: int) -> bool:
        """The whole sample was, which is noted."""
        if not self._any or tree != self._tree:
            return False
        for value, given in zip(values, self._given):
            if value is not leaves[given]:
                return False
        self._whole.append(row)
        return True

    def add(self, number: int, row: int) -> None:
        self._rows.setdefault(number, []).append(row)

    def rows(self) -> Dict[int, List[int]]:
        """By the leaf."""
        if self._whole:
            for number in range(len(self._given)):
                self._rows.setdefault(number, []).extend(self._whole)
            self._whole = []
        return self._rows

"""Where the epochs come from: one job that goes through all of them, or, with a sampler, a job for each.

Both give an iterator that stands in the epoch that is wanted, and tell the state.  They know nothing of
loops.
"""
from __future__ import annotations

import base64
import copy
import hashlib
import operator
import zlib
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NoReturn, Optional, Tuple, TypeVar

import numpy as np
import numpy.typing as npt

from .. import state as states
from ..errors import RequestRefused, StateError
from ..merging import merge_states
from ..loader import BatchIterator, Loader
from ..position import JobPosition
from ..trained import TrainedPosition
from ..wire import SLOTS_MIN, Joined
from .agreement import check_agreement
from .ranks import Membership

State = Dict[str, Any]
Ids = npt.NDArray[np.int64]
Answer = TypeVar("Answer")

STATE_VERSION = 1
_STATE_KEYS = {"tureen_torch_state", "epoch", "list", "loader"}


class OneJob:
    """All epochs of one tureen.Loader."""

    def __init__(self, make: Callable[..., Loader], membership: Membership) -> None:
        """`make` makes a Loader; it takes what Loader takes."""
        self._make = make
        self._membership = membership
        self._options = membership.options() if membership.settled else {}
        self.loader = make(**self._options)
        #  What was told to a question that no other rank need have asked
        self._alone: Optional[Joined] = None

    def begin(self, epoch: int) -> BatchIterator:
        """A job where the loader's own state stands, which is in that epoch."""
        iterator = self._joining(lambda: iter(self.loader))
        _agree(self.loader, iterator)
        return iterator

    def _joining(self, use: Callable[[], Answer]) -> Answer:
        """What may join: under the name that is next now, which is used up only where there was a join.  What
        other loaders began in the meantime has names too, and a question that is answered here must not shift
        this rank's."""
        options, before = self._name(), self.loader._stats
        answer = use()
        if self.loader._stats is not before:
            self._membership.begun(options)
        return answer

    def _name(self) -> Dict[str, Any]:
        """Under ranks each job has a name of its own (ranks.py)."""
        options = self._membership.options()
        if options != self._options:
            self.loader._request, self._options = self._make(**options)._request, options
        return options

    def at_end(self, iterator: BatchIterator) -> Optional[BatchIterator]:
        """An epoch is over: what the next one comes from, if that is there already."""
        return iterator

    def move(self, epoch: int) -> None:
        """The next `begin` is for the beginning of that epoch."""
        self.loader.set_epoch(epoch)

    def tell(self, epoch: int) -> None:
        """set_epoch was called: there is no sampler to be told."""

    def whole(self, iterator: BatchIterator, epoch: int) -> bool:
        """All of that epoch's batches were given."""
        return iterator.epoch > epoch

    @property
    def repeats(self) -> bool:
        """Another run gets the same batches in the same order."""
        request = self.loader._request
        return request.order == "list" or request.order == "seeded" and request.seed is not None

    def state(self, position: Optional[JobPosition], epoch: int) -> State:
        """The loader's state in the position's job.  None: no job has begun, and the state is the
        place where the next job begins."""
        if position is None:
            return self._joining(self.loader.state_dict)
        if isinstance(position, TrainedPosition):
            return states.pack(position.state())
        #  Not the position's own: that calls an epoch of which all was given behind.  Here it is the loop's
        #  until the loop ends, or a script that counts its loops would run one too many when it goes on from
        #  its last batch.  (Reports say nothing of loops: a prefetcher comes to their ends sooner or later,
        #  and on each rank at another moment.)
        return states.pack(position.state_to_join(position.state().run))

    def later_state(self, position: JobPosition, epoch: int) -> Callable[[], State]:
        """Gives the state in the job that began last, also when it is called in a later job."""
        return lambda: self.state(position, epoch)

    def load(self, state: Mapping[str, Any]) -> int:
        """Gives the epoch in which the state stands."""
        if isinstance(state, Mapping) and "tureen_torch_state" in state:
            raise StateError("the state is of a loader with a sampler, and this one has none: give it one")
        #  Which node this is may show only when the process group is there.
        if self._membership.settled:
            self._name()
        self.loader._load(state, self._membership.settled)
        return int(state["epoch"])

    def merged(self, given: List[State]) -> State:
        """The job's state, of those of all its processes."""
        return merge_states(given)

    def joined(self) -> Joined:
        """What the server says of the job.  Before ranks have begun one, of a job of this process alone,
        which is left at once: a question that one of them asks is not to wait for the others."""
        self._membership.settle()
        if self.loader._stats is not None:
            return self.loader.joined
        if not self._membership.together:
            return self._joining(lambda: self.loader.joined)
        if self._alone is None:
            with self._make(order="list", seed=None, pool=None, epochs=1, slots=SLOTS_MIN) as asking:
                self._alone = asking.joined
        return self._alone

    def stats(self) -> Dict[str, Any]:
        return self.loader.stats()

    def explain(self, id: int, epoch: Optional[int]) -> Dict[str, Any]:
        return self.loader.explain(id, epoch)

    def count(self) -> int:
        """Samples in one epoch, as far as is known which can be read."""
        joined = self.joined()
        return joined.samples if self.loader._stats is None else self.loader.samples

    def count_whole(self) -> int:
        """Samples in one epoch, those counted that cannot be read."""
        return self.loader._request.data_samples(self.joined().dataset_samples)

    @property
    def used(self) -> bool:
        """It belongs to this process."""
        return self.loader._pid is not None

    def close(self) -> None:
        self.loader.close()


class JobPerEpoch:
    """Each epoch is a list of the sampler's ids, and a job of its own.

    A list that was asked for is kept until a job has begun with it, so that a join that fails costs the
    sampler nothing.
    """

    def __init__(self, sampler: Iterable[int], make: Callable[..., Loader], seed: Optional[int],
                 membership: Membership) -> None:
        """`make` makes the Loader of one epoch; it takes `ids`, `epochs` and `seed`, and what a membership's
        options are."""
        self._sampler = sampler
        self._make = make
        self._seed = seed
        self._membership = membership
        self._drawn: Optional[Ids] = None           # asked for, and no job yet
        self._begun: Optional[Ids] = None           # the list of the job that there is, or was last
        self._loaded: Optional[State] = None        # a core state, of the list in _drawn
        self._packed: Optional[Tuple[Ids, State]] = None
        self._current: Optional[Loader] = None
        self._epoch = 0                             # of it
        self._probe: Optional[Loader] = None

    def begin(self, epoch: int) -> BatchIterator:
        if self._drawn is None:
            self._drawn = _asked(self._sampler)
        options = self._membership.options()
        loader = self._make(ids=self._drawn, epochs=1, seed=self._seed_of(epoch), **options)
        if self._current is not None:
            loader._warned = self._current._warned          # once for all epochs
        if self._loaded is not None:
            loader.load_state_dict(self._loaded)
        if self._probe is not None:
            self._probe.close()
            self._probe = None
        iterator = iter(loader)
        self._membership.begun(options)
        _agree(loader, iterator)
        self._current, self._begun, self._epoch = loader, self._drawn, epoch
        self._drawn = self._loaded = None
        return iterator

    def at_end(self, iterator: BatchIterator) -> Optional[BatchIterator]:
        iterator.leave()
        return None

    def move(self, epoch: int) -> None:
        self._drawn = self._loaded = None

    def tell(self, epoch: int) -> None:
        if self._loaded is None:
            self._drawn = None                      # of the epoch that the sampler stood in before
        tell = getattr(self._sampler, "set_epoch", None)
        if callable(tell):
            tell(epoch)

    def whole(self, iterator: BatchIterator, epoch: int) -> bool:
        return iterator.epoch > 0                   # of its job

    @property
    def repeats(self) -> bool:
        return False                                # only the sampler knows

    def state(self, position: Optional[JobPosition], epoch: int) -> State:
        """Between loops there is no list: the sampler says what it is when the loop begins."""
        if position is None:
            return self._state(self._loaded, self._drawn, epoch)
        return self._state_in_job(position, self._begun, epoch)

    def later_state(self, position: JobPosition, epoch: int) -> Callable[[], State]:
        """Gives the state in the job that began last, also when it is called in a later job."""
        ids = self._begun
        return lambda: self._state_in_job(position, ids, epoch)

    def _state_in_job(self, position: JobPosition, ids: Optional[Ids], epoch: int) -> State:
        inner = position.state()
        if isinstance(position, TrainedPosition) and inner.epoch > 0:      # as in OneJob
            return self._state(None, None, epoch + 1)
        return self._state(states.pack(inner), ids, epoch)

    def _state(self, inner: Optional[State], ids: Optional[Ids], epoch: int) -> State:
        if inner is None or ids is None:
            return {"tureen_torch_state": STATE_VERSION, "epoch": str(epoch), "list": None, "loader": None}
        if self._packed is None or self._packed[0] is not ids:
            self._packed = (ids, pack_ids(ids))     # of a million it takes a tenth of a second: once an epoch
        return {"tureen_torch_state": STATE_VERSION, "epoch": str(epoch), "list": dict(self._packed[1]),
                "loader": copy.deepcopy(inner)}

    def load(self, state: Mapping[str, Any]) -> int:
        """Gives the epoch in which the state stands."""
        _check(state)
        loaded, drawn = None, None
        if state["loader"] is not None:
            states.parse(state["loader"])
            loaded, drawn = copy.deepcopy(state["loader"]), unpack_ids(state["list"])
        self._loaded, self._drawn = loaded, drawn
        return int(state["epoch"])

    def joined(self) -> Joined:
        return self._question().joined

    def stats(self) -> Dict[str, Any]:
        return self._question().stats()

    def _question(self) -> Loader:
        """A loader that can be asked.  Before the first epoch one that has no list, so that the sampler need
        not be asked for one, and no ranks, for others need not ask."""
        if self._current is not None:
            return self._current
        if self._probe is None:
            self._probe = self._make(ids=None, epochs=1, seed=None)
        return self._probe

    def explain(self, id: int, epoch: Optional[int]) -> Dict[str, Any]:
        """To its job each epoch is epoch 0."""
        if epoch not in (None, self._epoch):
            raise RequestRefused("unknown_sample", f"with a sampler only the present epoch, {self._epoch}, "
                                 "can be explained")
        return {**self._question().explain(id), "epoch": str(self._epoch)}

    def count(self) -> int:
        count = len(self._sampler)      # type: ignore[arg-type]  # TypeError where it has none, as in PyTorch
        if self._current is None or self._begun is None or len(self._begun) != count:
            return count
        return self._current.samples    # what of its last list can be read

    def count_whole(self) -> int:
        return len(self._sampler)       # type: ignore[arg-type]  # as above

    def merged(self, given: List[State]) -> State:
        """The job's state, of those of all its processes."""
        first = given[0]
        for state in given[1:]:
            if state["epoch"] != first["epoch"] or state["list"] != first["list"]:
                raise StateError("the processes' samplers gave different lists, or are in different epochs: "
                                 "with ranks and nodes all of them must give the same")
        if first["loader"] is None:
            return first
        return {**first, "loader": merge_states(state["loader"] for state in given)}

    @property
    def used(self) -> bool:
        return any(loader is not None and loader._pid is not None for loader in (self._current, self._probe))

    def close(self) -> None:
        for loader in (self._current, self._probe):
            if loader is not None:
                loader.close()
        self._current = self._probe = None

    def _seed_of(self, epoch: int) -> Optional[int]:
        """Each job would begin with the random numbers of its epoch 0."""
        if self._seed is None:
            return None
        return int.from_bytes(hashlib.blake2b(f"{self._seed} {epoch}".encode(), digest_size=8).digest(),
                              "little")


def _agree(loader: Loader, iterator: BatchIterator) -> None:
    check_agreement(loader._request.dataset, loader.joined, iterator._given.state())


def _numbers(sampler: Iterable[int]) -> Iterator[int]:
    for id in sampler:
        try:
            number = operator.index(id)
        except TypeError:
            raise TypeError("sampler must give the samples' ids, which are whole numbers, not "
                            f"{id!r}") from None
        yield number


def _asked(sampler: Iterable[int]) -> Ids:
    ids = np.fromiter(_numbers(sampler), np.int64)
    if not len(ids):
        raise ValueError("the sampler gave no ids: an epoch has at least one sample (an iterator can be "
                         "asked only once; give what makes one, such as a list)")
    return ids


def pack_ids(ids: Ids) -> State:
    """As text: what torch.save and JSON both hold."""
    width = 4 if int(ids.max()) < 1 << 32 else 8
    packed = zlib.compress(ids.astype(f"<u{width}").tobytes(), 1)
    return {"count": str(len(ids)), "bytes_each": width, "ids": base64.b64encode(packed).decode("ascii")}


def unpack_ids(value: Any) -> Ids:
    try:
        width, count = value["bytes_each"], int(value["count"])
        whole = zlib.decompress(base64.b64decode(value["ids"], validate=True))
        if width not in (4, 8) or len(whole) != width * count or not count:
            raise ValueError
        return np.frombuffer(whole, f"<u{width}").astype(np.int64)
    except (TypeError, ValueError, KeyError, zlib.error):
        _wrong("its list of ids cannot be read")


def _check(state: Any) -> None:
    if isinstance(state, Mapping) and "tureen_state" in state:
        raise StateError("the state is of a loader without a sampler, and this one has one: leave it out")
    if not isinstance(state, Mapping) or state.get("tureen_torch_state") != STATE_VERSION:
        raise StateError("this is no state of a loader with a sampler: give what DataLoader.state_dict() "
                         "gave")
    if set(state) != _STATE_KEYS:
        _wrong(f"it should have {', '.join(sorted(_STATE_KEYS))}, and has "
               f"{', '.join(sorted(map(str, state)))}")
    epoch = state["epoch"]
    if not (isinstance(epoch, str) and epoch.isascii() and epoch.isdigit() and len(epoch) <= 20):
        _wrong(f"epoch is {epoch!r}, no number in decimal digits")
    if (state["list"] is None) != (state["loader"] is None):
        _wrong("it has one of list and loader without the other")


def _wrong(how: str) -> NoReturn:
    raise StateError(f"the state cannot be used: {how}; it was cut off, damaged or changed by hand: load "
                     "another one")

"""What a JOIN says: the user's arguments, checked, as JSON and id frames.  And where, and how long, the
server is looked for."""
from __future__ import annotations

import math
import operator
import os
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Protocol, Sequence, Tuple, Union

import numpy as np
import numpy.typing as npt

from . import names, wire
from .errors import RequestRefused, StateError
from .parameters import float_of
from .recent_steps import RecentSteps
from .runtime_folder import default_folder
from .state import Part, State

if TYPE_CHECKING:
    from .dataset import DataSet


class Operations(Protocol):
    """A pipeline that was built in Python (tureen.transforms)."""
    def to_json(self) -> List[Dict[str, Any]]: ...


Pipeline = Union[str, Sequence[Mapping[str, Any]], Operations]
Subset = Union[range, Tuple[int, int], Sequence[int], Sequence[bool], Sequence[str], npt.NDArray[Any],
               "Chosen"]
Ids = npt.NDArray[np.uint64]

_TRANSPORTS = ("auto", "inline")
_LIST_MAX = (wire.FRAMES_MAX - 2) * wire.ID_FRAME_NUMBERS_MAX
_RANGES_MAX = wire.ID_FRAME_NUMBERS_MAX // 2


def resolve_endpoint(endpoint: Optional[str]) -> str:
    """None and "" mean the default."""
    if endpoint is None or endpoint == "":
        return default_endpoint()
    if "://" not in _text("endpoint", endpoint):
        raise ValueError(f"endpoint must be like ipc:///PATH or tcp://HOST:PORT, not {endpoint!r}; a data "
                         f"set's name is given as dataset={endpoint!r}")
    return _one_text(endpoint)


def _one_text(endpoint: str) -> str:
    """The same for two ways to write a path: what is known of a server is noted by its endpoint."""
    if not endpoint.startswith("ipc:///"):
        return endpoint
    return "ipc://" + os.path.normpath("/" + endpoint[len("ipc://"):].lstrip("/"))


def default_endpoint() -> str:
    """$TUREEN_ENDPOINT, else the socket in the user's runtime directory, else one in /tmp: as the server
    does."""
    named = os.environ.get("TUREEN_ENDPOINT", "")
    if named:
        return _one_text(named)
    return f"ipc://{default_folder()}/server.sock"


def seconds(name: str, value: Any) -> float:
    """A span of time, math.inf included."""
    try:
        number = float_of(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} must be a number of seconds, not {value!r}") from None
    if not number >= 0:
        raise ValueError(f"{name} must be a number of seconds from 0 (math.inf: as long as it takes), not "
                         f"{value!r}")
    return number


def whole_seconds(name: str, value: Any, least: int) -> int:
    """As the protocol has the waits of ranks: what is between is rounded up, math.inf is the longest there
    is."""
    span_s = seconds(name, value)
    if span_s < least or wire.RANK_SECONDS_MAX < span_s < math.inf:
        raise ValueError(f"{name} must be a number of seconds from {least} to {wire.RANK_SECONDS_MAX}, or "
                         f"math.inf, not {value!r}")
    return wire.RANK_SECONDS_MAX if span_s == math.inf else math.ceil(span_s)


def poll_ms(left_s: float) -> int:
    """What to give a poll of which so much is left: it takes neither infinity nor what 32 bits cannot
    hold."""
    return max(1, int(min(left_s, 3600.0) * 1000))


class Chosen:
    """A subset that was given, in ids; or in names of classes, of which the server knows the ids.  ValueError
    or TypeError for what can be none."""

    def __init__(self, subset: Any) -> None:
        subset, self._of_samples = _of_torch(subset)
        self._classes = _class_names(subset)
        self._ranges: Optional[Ids] = None
        if self._classes is None:
            mask = _mask(subset)
            if mask is not None:
                subset, self._of_samples = np.flatnonzero(mask), len(mask)
            self._ranges = _ranges(subset)

    @property
    def is_settled(self) -> bool:
        return self._ranges is not None

    def ranges(self, data: DataSet) -> Ids:
        """Rows of (lo, hi), ascending, apart.  Of classes they are asked for once, of that data set."""
        if self._ranges is None:
            assert self._classes is not None
            self._ranges = _ranges(data.ids_of_classes(self._classes))
        return self._ranges

    def check(self, dataset: str, samples: int) -> None:
        """RequestRefused where it was made for a data set of another size."""
        if self._of_samples not in (None, samples):
            raise RequestRefused("bad_request", f"subset is of {self._of_samples} samples, and data set "
                                 f"{dataset!r} has {samples}: it was made for other data")


def given_subset(subset: Optional[Any]) -> Optional[Chosen]:
    return subset if subset is None or isinstance(subset, Chosen) else Chosen(subset)


def ids_of(ranges: Ids) -> npt.NDArray[np.int64]:
    """All ids of such rows."""
    lows, lengths = ranges[:, 0].astype(np.int64), (ranges[:, 1] - ranges[:, 0]).astype(np.int64)
    ends = np.cumsum(lengths)
    return np.repeat(lows - (ends - lengths), lengths) + np.arange(ends[-1], dtype=np.int64)


def recipe_of(order: Optional[str]) -> str:
    """The recipe of a job that names none: ascending order, or a list of ids, is for evaluation; all others
    are for training."""
    return "eval" if order == "list" else "train"


class Request:
    """A JOIN in the making.  Raises ValueError or TypeError for what no server could accept."""

    def __init__(self, *, dataset: str, batch_size: int, epochs: Optional[int], drop_last: bool,
                 pipeline: Optional[Pipeline], order: Optional[str], slots: int, transport: str,
                 seed: Optional[int], name: str, ids: Optional[Any], subset: Optional[Any],
                 pool: Optional[int] = None, job: Optional[str] = None, rank: Optional[int] = None,
                 world_size: Optional[int] = None, gather: float = 300.0, rank_wait: float = 10.0,
                 on_bad: Optional[str] = None, nodes: Optional[int] = None, node: Optional[int] = None,
                 parts: str = "fresh") -> None:
        self.epochs = None if epochs is None else within("epochs", epochs, 1, wire.EPOCHS_MAX)
        self.batch_size = within("batch_size", batch_size, 1, wire.BATCH_SIZE_MAX)
        self.drop_last = bool(drop_last)
        self.dataset = _text("dataset", dataset)
        self.seed = None if seed is None else within("seed", seed, 0, 2**64 - 1)
        self.order_said = None if order is None else _among("order", order, wire.ORDERS)
        if pool is not None and self.order != "seeded":
            raise ValueError("pool is of order \"seeded\" only: give order=\"seeded\" with it")
        self.pool = 0 if pool is None else within("pool", pool, wire.POOL_MIN, wire.POOL_MAX)
        self._on_bad = None if on_bad is None else _among("on_bad", on_bad, wire.ON_BAD)
        self.pipeline = None if pipeline is None else _pipeline(pipeline)       # None: by the order
        self._slots = within("slots", slots, wire.SLOTS_MIN, wire.SLOTS_MAX)
        self._transport = _among("transport", transport, _TRANSPORTS)
        self._name = _short("name", name)
        self.job = None if job is None else _short("job", job)
        if job == "":
            raise ValueError("job is empty: give the name of the run, or None")
        if (rank is None) != (world_size is None):
            given, missing = ("world_size", "rank") if rank is None else ("rank", "world_size")
            raise ValueError(f"{given} is given without {missing}: of processes that take one job together "
                             "each says how many they are, and which of them it is")
        self.world_size = 1 if world_size is None else within("world_size", world_size, 1, wire.RANKS_MAX)
        self.rank = 0 if rank is None else within("rank", rank, 0, self.world_size - 1)
        if self.world_size > 1 and self.job is None:
            raise ValueError("job is missing: the ranks of a job find each other by its name. Give the same "
                             "name to all of them, and to no other loader (tureen.ranks.torchrun() tells "
                             "what the run is called)")
        if (node is None) != (nodes is None):
            given, missing = ("nodes", "node") if node is None else ("node", "nodes")
            raise ValueError(f"{given} is given without {missing}: of machines that take one job together "
                             "each says how many they are, and which of them it is")
        self.nodes = 1 if nodes is None else within("nodes", nodes, 1, wire.NODES_MAX)
        self.node = 0 if node is None else within("node", node, 0, self.nodes - 1)
        self.parts = _among("parts", parts, wire.PARTS)
        self.gather_s = whole_seconds("gather", gather, 1)
        self._rank_wait_s = whole_seconds("rank_wait", rank_wait, 0)
        self.ids: Optional[Ids] = None      # the list that was given
        self.chosen = given_subset(subset)
        self._subset: List[bytes] = []
        if ids is not None:
            if order != "list":
                raise ValueError("ids are an order of their own: give order=\"list\" with them")
            if subset is not None:
                raise ValueError("ids already say which samples: give no subset with them")
            self.ids = _ids("ids", ids)
            if len(self.ids) > _LIST_MAX:
                raise ValueError(f"ids are {len(self.ids)}, more than the {_LIST_MAX} that fit in one "
                                 "request")
        if self.chosen is not None and self.chosen.is_settled:
            self.settle(None)

    def settle(self, data: Optional[DataSet]) -> None:
        """Before `message`: a subset in names of classes becomes one of ids, which `data` knows."""
        if self.chosen is not None and not self._subset:
            #  A settled choice does not look at the data.
            self._subset = [_subset_frame(self.chosen.ranges(data))]    # type: ignore[arg-type]

    @property
    def step_size(self) -> int:
        """Samples of one batch of each rank, of one node."""
        return self.world_size * self.batch_size

    def data_samples(self, dataset_samples: int) -> int:
        """Of the job's data, those that cannot be read counted.  A subset in names of classes is settled."""
        if self.ids is not None:
            return len(self.ids)
        if self.chosen is None:
            return dataset_samples
        ranges = self.chosen.ranges(None)       # type: ignore[arg-type]  # a settled choice looks at no data
        return int((ranges[:, 1] - ranges[:, 0]).sum())

    def steps(self, remaining: int) -> int:
        """Batches that each rank gets of an epoch of which so many samples are left, over all nodes."""
        if self.drop_last:
            return remaining // self.nodes // self.step_size
        longest = -(-remaining // self.nodes)
        return -(-longest // self.step_size)

    @property
    def order(self) -> str:
        """As the server will understand it."""
        return self.order_said or ("shared" if self.seed is None else "seeded")

    def fitted(self, state: State, nodes_known: bool = True) -> State:
        """The state as a job with these arguments goes on from it.  StateError where it cannot.
        `nodes_known`: False where the nodes are found out later."""
        if (self.order_said or self.seed is not None) and self.order != state.order:
            raise StateError(f"the state is of order {state.order!r}, the loader of order {self.order!r}: "
                             "give the loader the state's order, or none")
        if self.pool and self.pool != state.pool:
            raise StateError(f"the state is of pool {state.pool or None}, the loader of pool {self.pool}: "
                             "give the loader the state's pool, or none")
        if self.seed not in (None, state.seed):
            raise StateError(f"the state is of seed {state.seed}, the loader of seed {self.seed}: "
                             "give the loader the state's seed, or none")
        if (self.ids is None) != (state.places is None):
            raise StateError("the state is of a list of ids, and the loader has none: give it the same ids"
                             if self.ids is None else
                             "the loader has a list of ids, and the state is of a loader without: give it no "
                             "ids")
        if self.ids is not None and state.count > len(self.ids):
            raise StateError(f"the state has {state.count} places of a list of ids behind it, the loader's "
                             f"has only {len(self.ids)}: give it the same ids")
        if self.epochs is not None and state.epoch > self.epochs:
            raise StateError(f"the state is at epoch {state.epoch}, and the loader ends after "
                             f"epochs={self.epochs}: give it more, or None")
        return self._fitted_part(state) if nodes_known else state

    def _fitted_part(self, state: State) -> State:
        """A node goes on in its own part; what is the whole job's is cut here into parts."""
        part = state.part
        if part is None:
            if self.nodes == 1 or not (state.batches or state.count):
                return state
            return state._replace(part=Part(self.nodes, self.node, self.parts, state.batches, state.count,
                                            state.words, state.places))
        if (part.nodes, part.node, part.parts) == (self.nodes, self.node, self.parts):
            return state
        given = state.count - part.count
        others = (part.nodes - 1) * (given if state.places is None else given // part.nodes)
        mine = (f"node {self.node} of {self.nodes} with parts {self.parts!r}" if self.nodes > 1 else
                "a job of one node")
        raise StateError(
            f"the state is that of node {part.node} of {part.nodes} with parts {part.parts!r}, the loader "
            f"{mine}: about {others} samples that the other nodes were given would come twice. Load what "
            f"tureen.merge_states makes of the states of all {part.nodes} nodes (or "
            "state_dict(gather=True) of tureen.torch.DataLoader), or give the loader the state's nodes, "
            "node and parts")

    def message(self, tag: int, instance: str = "", state: Optional[State] = None, *,
                recent: Optional[RecentSteps] = None, gather_s: Optional[float] = None) -> List[bytes]:
        """The frames of JOIN, which begins where `state` says.  Of a rank that joins anew: what it received
        last, and how long the others are waited for."""
        order, seed, pool = self.order_said, self.seed, self.pool
        if state is not None:
            order, seed, pool = state.order, state.seed, state.pool
        where = names.said(self.dataset)
        said: Dict[str, Any] = {
            "dataset": where["dataset"], "batch_size": self.batch_size, "epochs": self.epochs,
            "drop_last": self.drop_last,
            "pipeline": recipe_of(order) if self.pipeline is None else self.pipeline}
        if order is not None:               # else the server decides by whether there is a seed
            said["order"] = order
        said["slots"], said["transport"] = self._slots, self._transport
        if seed is not None:
            said["seed"] = str(seed)
        if "path" in where:
            said["path"] = where["path"]
        if pool:
            said["pool"] = pool
        said["name"] = self._name
        for key, value in (("job", self.job), ("instance", instance), ("run", state.run if state else "")):
            if value:
                said[key] = value
        if self._on_bad is not None:        # a server that is older than this refuses it
            said["on_bad"] = self._on_bad
        frames = self._subset if self.ids is None else _id_frames(wire.IDS_LIST, self.ids)
        kinds = ["subset" if self.ids is None else "list"] * len(frames)
        if state is not None:
            said["resume"] = _resume(state)
            taken = _id_frames(wire.IDS_WORDS, np.frombuffer(state.words, "<u8"))
            frames, kinds = frames + taken, kinds + ["taken"] * len(taken)
            if state.part is not None:
                said["resume"]["cut"] = {"batches": str(state.part.batches),
                                         "places": str(state.part.places or 0)}
                cut = _id_frames(wire.IDS_WORDS, np.frombuffer(state.part.words, "<u8"))
                frames, kinds = frames + cut, kinds + ["cut"] * len(cut)
        if self.world_size > 1:
            said.update(world_size=self.world_size, rank=self.rank, gather=self.gather_s,
                        rank_wait=self._rank_wait_s)
            if gather_s is not None:
                said["gather"] = math.ceil(min(max(gather_s, 1.0), wire.RANK_SECONDS_MAX))
            steps = [] if recent is None else recent.frames(wire.FRAMES_MAX - 2 - len(frames))
            frames, kinds = frames + steps, kinds + ["recent"] * len(steps)
        if self.nodes > 1:
            said.update(nodes=self.nodes, node=self.node, parts=self.parts)
        if kinds:
            said["frames"] = kinds
        return wire.join(wire.pack_json(said), frames, tag)


def _resume(state: State) -> Dict[str, Any]:
    return {"fingerprint": state.fingerprint, "data": state.data, "epoch": str(state.epoch),
            "batches": str(state.batches), "places": str(state.places or 0)}


def _id_frames(form: int, numbers: Ids) -> List[bytes]:
    step = wire.ID_FRAME_NUMBERS_MAX
    return [wire.pack_ids(form, numbers[begin:begin + step]) for begin in range(0, len(numbers), step)]


def within(name: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, not {value}")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, not {value!r}") from None
    if not least <= number <= most:
        raise ValueError(f"{name} must be from {least} to {most}, not {number}")
    return number


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, not {value!r}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"{name} {value!r} holds a lone surrogate, which is no character") from None
    return value


def _short(name: str, value: Any) -> str:
    text = _text(name, value)
    if len(text.encode("utf-8")) > 64:
        raise ValueError(f"{name} is longer than 64 bytes")
    return text


def _pipeline(value: Any) -> Union[str, List[Dict[str, Any]]]:
    if isinstance(value, str):
        return _text("pipeline", value)
    if callable(getattr(value, "to_json", None)):
        value = value.to_json()
    wanted = ("pipeline must be the name of a recipe, or a list of operations such as {\"op\": "
              "\"center_crop\", ...}")
    try:
        steps = list(value)
    except TypeError:
        raise TypeError(f"{wanted}, not {value!r}") from None
    for step in steps:
        if not isinstance(step, Mapping):
            raise TypeError(f"{wanted}: {step!r} is no operation")
    operations = [dict(step) for step in steps]
    try:
        wire.pack_json(operations)
    except (TypeError, ValueError, RecursionError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"pipeline cannot be written as JSON: {error}") from None
    return operations


def _among(name: str, value: Any, words: Sequence[str]) -> str:
    if value not in words:
        raise ValueError(f"{name} must be one of {', '.join(words)}, not {value!r}")
    return str(value)


def _ids(name: str, value: Any) -> Ids:
    array = np.asarray(value)
    if array.ndim != 1 or not array.size:
        raise ValueError(f"{name} must be a sequence of at least one sample id")
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be whole numbers, not {array.dtype}")
    if array.dtype.kind == "i" and int(array.min()) < 0:
        raise ValueError(f"{name} holds a negative sample id")
    if int(array.max()) >= 2**63:
        raise ValueError(f"{name} holds a sample id that no data set has: {array.max()}")
    return array.astype("<u8")


def _class_names(subset: Any) -> Optional[Tuple[str, ...]]:
    """None: it is no list of names."""
    if isinstance(subset, str):
        raise TypeError(f"subset {subset!r} is a string: give a list of names of classes, such as "
                        f"[{subset!r}]")
    if isinstance(subset, np.ndarray) and subset.dtype.kind == "U":
        subset = subset.ravel().tolist()
    if not isinstance(subset, (list, tuple, set, frozenset)) or not any(isinstance(name, str)
            for name in subset):
        return None
    return tuple(_text("subset's class", name) for name in subset)


def _of_torch(subset: Any) -> Tuple[Any, Optional[int]]:
    """Of a torch.utils.data.Subset its ids in the data set that it was cut from, through all Subsets between,
    and that data set's samples.  All else as it is."""
    if not hasattr(subset, "indices") or not hasattr(subset, "dataset"):
        return subset, None
    ids, source = np.asarray(subset.indices), subset.dataset
    whole, samples = _of_torch(source)
    if whole is not source:
        ids = whole[ids.astype(np.int64)]
    elif hasattr(source, "__len__"):
        samples = len(source)
    return ids, samples


def _mask(subset: Any) -> Optional[npt.NDArray[np.bool_]]:
    """None: it is none."""
    if isinstance(subset, range) or isinstance(subset, tuple) and len(subset) == 2:
        return None
    mask = np.asarray(subset)
    if mask.dtype != np.bool_:
        return None
    if mask.ndim != 1 or not mask.any():
        raise ValueError("subset is a mask, and must have one dimension and choose at least one sample")
    return mask


def _ranges(subset: Any) -> Ids:
    """The subset as rows of (lo, hi), ascending, apart."""
    if isinstance(subset, range) and subset.step == 1 or isinstance(subset, tuple) and len(subset) == 2:
        lo, hi = (subset.start, subset.stop) if isinstance(subset, range) else subset
        lo, hi = within("subset's begin", lo, 0, 2**63 - 1), within("subset's end", hi, 0, 2**63 - 1)
        if lo >= hi:
            raise ValueError(f"subset from {lo} to {hi} is empty")
        return np.array([[lo, hi]], dtype="<u8")
    ids = np.unique(_ids("subset", subset))
    gaps = np.flatnonzero(np.diff(ids) != 1)
    lows = ids[np.append(0, gaps + 1)]
    highs = ids[np.append(gaps, len(ids) - 1)] + np.uint64(1)
    return np.stack((lows, highs), axis=1)


def _subset_frame(ranges: Ids) -> bytes:
    #  Too scattered for ranges: as a bit for each sample it may fit.
    return _words(ranges) if len(ranges) > _RANGES_MAX else wire.pack_ids(wire.IDS_RANGES, ranges)


def _words(ranges: Ids) -> bytes:
    word_count = (int(ranges[-1, 1]) + 63) // 64
    if word_count > wire.ID_FRAME_NUMBERS_MAX:
        raise ValueError(f"subset is too scattered to be sent: it has more than {_RANGES_MAX} pieces and "
                         f"reaches beyond sample {wire.ID_FRAME_NUMBERS_MAX * 64 - 1}")
    edges = np.zeros(word_count * 64 + 1, dtype=np.int8)
    edges[ranges[:, 0].astype(np.int64)] += 1
    edges[ranges[:, 1].astype(np.int64)] -= 1
    chosen = np.cumsum(edges[:-1], dtype=np.int8).astype(np.bool_)
    return wire.pack_ids(wire.IDS_WORDS, np.packbits(chosen, bitorder="little").view("<u8"))

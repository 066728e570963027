"""The loader: what a training loop iterates over."""
from __future__ import annotations

import os
import secrets
import threading
import weakref
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from . import state as states
from . import wire
from .connection import Connection, still_there
from .dataset import DataSet
from .errors import LoaderClosed, NoServer, RequestRefused, TureenWarning
from .iterator import BatchIterator, Warned
from .keys import KeyPaths
from .loader_stats import LoaderStats
from .mapping.mapper import Mapper, mapper_of
from .mapping.run import Function
from .mixing import refuse_functions, split
from .names import Name
from .owned import Owned
from .position import JobPosition
from .question_queue import NOTHING_TO_ASK, Question
from .request import Pipeline, Request, Subset, given_subset, recipe_of, resolve_endpoint, seconds, within
from .slots import lent_max
from .state import State
from .trained import NOTHING_WAITS, TrainedPosition, position_kind, refuse_report
from .vocabulary import IN_A_LOADER, listed, one_of, order_of, refuse_unknown
from .wire import Field, Joined


Path = Union[str, "os.PathLike[str]"]

_KEPT = ("batches are being kept, and fill {kept} of the ring's {slots} slots: further batches are copied. "
         "Drop batches that are done with, or ask for more slots (at most 64)")


_AGAIN = ("this loader went through its epochs={epochs} already, and goes through them again: one iteration "
          "has all of them (batch.epoch tells which). In a loop over epochs make the loader with epochs=1, "
          "or leave that loop out")

_recipe_told: List[str] = []


def tell_recipe(how: str, argument: str) -> None:
    """Once a process: it was another recipe before version 0.1."""
    if not _recipe_told:
        _recipe_told.append(how)
        Warned.warn_again(f"{how} without {argument}= gets the recipe 'eval', without augmentation; before "
                          f"version 0.1 it was 'train'. Give {argument}='eval', or {argument}='train' to "
                          f"augment", TureenWarning)


class Loader(Owned):
    """Batches from a Tureen server.

        for batch in tureen.Loader(dataset="train", batch_size=64, epochs=2):
            step(batch["image"], batch["label"])

    endpoint    where the server listens; None or "": $TUREEN_ENDPOINT, or the server's own default
    dataset     a name that the server serves
    batch_size  samples in a batch
    epochs      one iteration goes through so many; None: without end
    pipeline    the name of a recipe of the server's ("train", "eval"), or a list of operations; MixUp and
                CutMix at its end are done here, and labels are float32 [batch, num_classes] then.  None: of
                order "list" the recipe "eval", else "train"
    transform   another name for it, which also takes torchvision's transforms (translated, or refused)
    order       "shared" (with other jobs), "private" (draws alone), "list" (`ids` as given; without them,
                ascending), "seeded" (the same seed gives the same batches again, bit for bit); None: "seeded"
                with a seed, else "shared"
    shuffle     PyTorch's name: True: "shared", or with a seed "seeded"; False: "list"
    ids         the samples of order "list", repeats allowed
    subset      of the data set: a range, the pair (lo, hi) for lo to hi-1, ids in any order, or a mask: a
                boolean for each sample.  Or a list of names of classes: all of their samples.  Or a Subset of
                torch.utils.data's of the same data: its indices
    drop_last   leave out what does not fill a batch
    slots       batches that may be on their way or in use at once, 3 to 64
    transport   "auto": shared memory where that is possible; "inline": always through the socket
    seed        of order "seeded" and all its random operations; in other orders of the private ones only.
                None: the server draws one, which `joined.seed` tells
    pool        of order "seeded" over a pack: pieces of it are read whole and mixed in a pool of so many
                samples, 8 to 2**24, so that each is read once an epoch; another pool is another order.  None:
                an order without one
    name        for people, in `tureen status`
    timeout     seconds to wait for the server's answer to a join; math.inf: as long as it takes

    job         the name of a run that no other job may use at the same time; None: none.  Started again with
                its state, the run takes the place of what is left of it at the server
    rejoin      seconds to look for a server that is gone, and continue there; 0: not at all, math.inf: until
                it is back.  So too if a server ends during the first join, or is still starting (ipc)
    rank, world_size    so many processes take one job together, each a loader with the same arguments and the
                same `job`, and this is one of them, from 0 (tureen.ranks.torchrun() tells).  None: it is a
                process alone
    key         for a server on tcp:// that admits only clients with a key that it knows: the path of this
                client's certificate, made with `tureen key new`; PATH_secret is beside it.  None or "":
                $TUREEN_KEY, else the server is open.  At ipc:// the user counts, and no key is read
    server_key  with it, the server's public key, which its log names, or the path of its public certificate.
                None or "": $TUREEN_SERVER_KEY
    on_bad      what a sample of this job's data does that cannot be read.  "drop": it is left out, with an
                UnreadableWarning that counts and names; "fail": the job ends (JobEnded).  None: as the data
                set is served (--on-bad)
    gather      with ranks: seconds to wait for the others, 1 to 86400
    rank_wait   with ranks: seconds to wait for one that was lost before the job ends for all, 0 to 86400; the
                greatest counts
    nodes, node so many machines take one job together, each from a server of its own, and this is one of
                them, from 0.  None: it is one machine alone
    parts       with nodes: "fresh": each node has other samples in each epoch; "fixed": always the same

    map         a function that is called with each sample, behind the pipeline: it gets a dict of arrays by
                name and returns one, of the same or other names, shapes and types.  The first sample decides
                how batches are laid out; a sample that differs is an error (MapFailed) that names it
    map_batch   the same of each batch; with `map` too, of the batch that `map` made.  Its arrays may have
                other shapes in each batch
    map_workers so many processes of this client call them, ahead of the loop; 0: the loop calls them
    multiprocessing_context     how these processes are started: "spawn", "forkserver", "fork" or a context of
                multiprocessing.  None: "spawn"
    state_of    which batches a state has: "given", all that `next` has returned, or "trained", those that the
                loop has reported by `trained`: for a loop that takes batches ahead of its step

    The functions may write to the arrays that they get: until they return, these are theirs alone.  What a
    function keeps longer it must copy.  Functions are pickled for the processes (not with "fork"); the
    processes have random numbers of their own (see tureen.sample_seed).  A process that dies is replaced, and
    its samples are done again.  What a function raises comes as a MapFailed that names the sample; so does a
    sample with which three processes died.  Order, ids and states are as without a map.

    Nothing is sent before the first `iter`, `len`, `samples`, `fields` or `joined`.  Each `iter` is a job of
    its own.  It first leaves the job before; that job's iterator then raises LoaderClosed, unless it was
    exhausted.  It begins at epoch 0, so with a seed each `iter` gives the same again: have the epochs in one,
    by `epochs` and `batch.epoch`. Breaking off, an exception in the loop, dropping the iterator, `close` and
    the interpreter's exit leave the job.

    `state_dict` says what `next` has given, or what was reported (`state_of`); the first `iter` after
    `load_state_dict` begins with what it has not, whichever process made the state, and whichever server has
    the data.

    With ranks each gets `batch_size` samples of a step, and all get equally many batches: what is left at an
    epoch's end is spread evenly, and where nothing is left for one it gets `batch.padding`.  What joins
    (`iter`, `len`, ...) waits for all. A state is that of the whole job: every rank's is the same after the
    same step, and any number of ranks goes on from it. Where one leaves in the middle or is lost, the others
    get JobEnded (`rank_left`, `rank_lost`), behind what was delivered.

    With nodes each machine has a server of the same data, and no server knows of another.  In each epoch a
    node gets its part: no sample is in two of them, and all nodes get equally many batches; where a part is
    shorter, or samples cannot be read, `batch.padding` at the epoch's end.  All nodes must give equal
    `batch_size` and `world_size`, and what else decides what comes: nothing checks it.  A state in the midst
    of an epoch is its node's, and goes on there; what `merge_states` makes of the states of all nodes goes on
    with any number of them.

    Batches may be kept: when all but two slots are (of three, all but one), further ones are copied, with one
    warning. A job is left, and its shared memory given back, only when the last view of its batches is gone.

    Until it is used a loader is mere configuration, which may be pickled, and used in a forked or a spawned
    process. From then on it belongs to the process that used it.
    """

    def __init__(self, endpoint: Optional[str] = None, dataset: str = "train", batch_size: int = 64,
                 epochs: Optional[int] = None, *, pipeline: Optional[Pipeline] = None,
                 order: Optional[str] = None, ids: Optional[Any] = None, subset: Optional[Subset] = None,
                 drop_last: bool = False, slots: int = 4, transport: str = "auto", seed: Optional[int] = None,
                 pool: Optional[int] = None, name: str = "", timeout: float = 10.0, job: Optional[str] = None,
                 rejoin: float = 300.0, rank: Optional[int] = None, world_size: Optional[int] = None,
                 gather: float = 300.0, rank_wait: float = 10.0, key: Optional[Path] = None,
                 server_key: Optional[Path] = None, on_bad: Optional[str] = None,
                 nodes: Optional[int] = None, node: Optional[int] = None, parts: str = "fresh",
                 map: Union[None, Function, Mapper] = None, map_batch: Optional[Function] = None,
                 map_workers: int = 0, multiprocessing_context: Any = None,
                 state_of: str = "given", transform: Any = None, shuffle: Optional[bool] = None,
                 **unknown: Any) -> None:
        super().__init__()
        refuse_unknown(Loader, unknown, IN_A_LOADER)
        pipeline = one_of(None if transform is None else listed(transform), pipeline)
        if shuffle is not None:
            order = order_of(shuffle, order, seed)
        if pipeline is None and order == "list":
            tell_recipe("order=\"list\"", "pipeline")
        pipeline, self._mixing = split(pipeline)
        refuse_functions(self._mixing, map, map_batch)
        self._mapper, self._shares_mapper = mapper_of(map, map_batch, map_workers, multiprocessing_context,
                                                      slots)
        self.endpoint = resolve_endpoint(endpoint)
        self._keys = KeyPaths(key, server_key)
        dataset = Name.of(dataset, self.endpoint)
        self._data = DataSet(dataset, self.endpoint, subset=given_subset(subset),
                             pipeline=recipe_of(order) if pipeline is None else pipeline,
                             timeout=timeout, key=key, server_key=server_key)
        self._request = Request(dataset=dataset, batch_size=batch_size, epochs=epochs, drop_last=drop_last,
                                pipeline=pipeline, order=order, slots=slots, transport=transport, seed=seed,
                                name=name, ids=ids, subset=self._data.chosen, pool=pool, job=job, rank=rank,
                                world_size=world_size, gather=gather, rank_wait=rank_wait, on_bad=on_bad,
                                nodes=nodes, node=node, parts=parts)
        self._position_kind = position_kind(state_of)
        self._timeout = seconds("timeout", timeout)
        self._rejoin = seconds("rejoin", rejoin)
        self._instance = ("", 0)                            # with the process that drew it
        self._joining = threading.RLock()                   # one thread joins; others wait for its job
        self._warned = Warned()
        self._kept = _KEPT.format(kept=lent_max(slots), slots=slots)
        #  Where the next iter begins: there, at that epoch, or at the beginning.
        self._loaded: Optional[State] = None
        self._epoch: Optional[int] = None
        #  Of the last job: what its loop was given, and what was counted.
        self._given: Optional[JobPosition] = None
        self._stats: Optional[LoaderStats] = None
        self._waiting: Optional[BatchIterator] = None       # joined for a question's sake, not yet iterated
        self._active: Optional[weakref.ref[BatchIterator]] = None

    def __iter__(self) -> BatchIterator:
        self._check()
        with self._joining:
            if self._mapper is not None:
                self._mapper.start()
            begin = self._beginning()
            if begin is None and self._went_through():
                self._warned.warn("again", _AGAIN.format(epochs=self._request.epochs), TureenWarning)
            if begin is not None and self._at_end(begin):
                self._drop_waiting()
            iterator, self._waiting = self._waiting, None
            if iterator is None or not iterator._connection.usable:
                self._leave()
                iterator = self._join(begin)
            self._given = iterator._given           # first, for state_dict looks in the other order
            self._loaded = self._epoch = None
            self._active = weakref.ref(iterator)
            return iterator

    def state_dict(self) -> Dict[str, Any]:
        """What is behind: all that `next` has returned, or all that was reported (`state_of`).  Text and
        whole numbers, so that JSON can hold it (docs/state.md).

        Local, and quick; it joins only where nothing was ever joined or loaded.  Any thread may ask, at any
        time, and of a closed loader too.
        """
        self._check_process()
        if self._epoch is not None or self._loaded is None and self._given is None:
            with self._joining:
                if self._beginning() is None and self._given is None:
                    self._question()
        loaded = self._loaded
        if loaded is not None:
            return states.pack(loaded)
        assert self._given is not None
        return states.pack(self._given.state())

    def trained(self, batch: Any = None) -> None:
        """Reports a batch as trained: the state has it from here on.  For a loader with state_of="trained".
        The loop calls it once for each batch, behind the batch's step, in the order in which `next` returned
        the batches.  Any thread may call it.

        `batch`: the oldest unreported batch, or an array of it; ValueError for any other.  None: the loop
        means the oldest one.  The state lacks unreported batches, over an epoch's end too; another `iter`
        abandons them.  RuntimeError if every batch is reported.
        """
        self._check_process()
        if self._position_kind is not TrainedPosition:
            refuse_report()
        given = self._given
        if given is None:
            raise RuntimeError(NOTHING_WAITS)
        assert isinstance(given, TrainedPosition)
        given.report(batch)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next `iter` begins where the state was taken; `state_dict` gives it back until then.

        Local.  StateError where the state is damaged, or not of such a loader: its order, pool and seed must
        be the loader's, where the loader was given any; else they are the state's.  What else may differ,
        only the server knows: then `iter` raises RequestRefused with code bad_state, and may be tried again.
        """
        self._load(state)

    def _load(self, state: Mapping[str, Any], nodes_known: bool = True) -> None:
        """As load_state_dict.  `nodes_known`: False where which node this is becomes known before the next
        `iter`, which then raises the StateError."""
        self._check()
        loaded = states.parse(state)
        self._request.fitted(loaded, nodes_known)
        self._drop_waiting()
        self._loaded, self._epoch = loaded, None

    def set_epoch(self, epoch: int) -> None:
        """The next `iter` begins with that epoch, counted from 0.  A loaded state that is in the midst of it
        stays."""
        self._check()
        most = wire.EPOCHS_MAX if self._request.epochs is None else self._request.epochs
        epoch = within("epoch", epoch, 0, most)
        if self._loaded is not None:
            if self._loaded.epoch != epoch:
                self._drop_waiting()
                self._loaded = self._loaded.at_epoch(epoch)
            return
        self._drop_waiting()
        self._epoch = epoch

    def stats(self) -> Dict[str, Any]:
        """What the last job's time went to, and what it got.  Any thread may ask, while another one iterates
        too.

        waits       seconds that the job spent waiting, as the server sees it, for: draw (jobs that may begin
                    with it), read (bytes that are being read), memory (of the server's prepared cache),
                    decode (samples that are being prepared), copy (the private part, written into the batch),
                    client (this process)
        waited_s    seconds that `next` was blocked
        batches, samples    that `next` gave
        unreadable  of this job's data, what cannot be read and is left out: {"count": 2, "samples": [{"id":
                    17, "reason": "cat/17.jpg: ..."}, ...]}, the first ten of them
        sharing     how much of what it got was prepared for others too (docs/operations.md)
        rejoined    how often a server was lost and found again

        `waits` and `sharing` are of the present server; where it does not answer in time, or refuses to, as
        they were told last.
        """
        self._check_process()
        stats = self._stats
        if stats is None:
            return LoaderStats.nothing()
        connection = stats.connection
        try:
            stats.told(self._answer(connection, Question(lambda job, tag: wire.status(tag),
                                                         wire.STATUS_REPLY)))
        except LoaderClosed:
            stats.told(connection.last_status)
        except (NoServer, RequestRefused):
            pass                                # as it was told last
        return stats.as_dict()

    def explain(self, id: int, epoch: Optional[int] = None) -> Dict[str, Any]:
        """What was done to a sample that is in one of the batches at hand (docs/protocol.md, EXPLAIN_REPLY);
        of order "seeded" to any sample in any epoch.  None: the newest such batch.  "sharing" says how
        much of what the job still has to draw other jobs need, too.  Any thread may ask, while iterating.

        RequestRefused with code unknown_sample where no batch at hand holds it; LoaderClosed where no job is
        running.
        """
        self._check()
        sample = within("id", id, 0, 2**63 - 1)
        of_epoch = None if epoch is None else within("epoch", epoch, 0, wire.EPOCHS_MAX)
        if self._stats is None:
            raise LoaderClosed(NOTHING_TO_ASK)
        question = Question(lambda job, tag: wire.explain(job, sample, of_epoch, tag), wire.EXPLAIN_REPLY)
        return wire.parse_json(self._answer(self._stats.connection, question), "EXPLAIN_REPLY")

    def __len__(self) -> int:
        """Batches of one iteration, all epochs together (with ranks of each rank, which is the same for all);
        joins if that has not been done.  TypeError without an end.  Samples that are known to be unreadable
        are not counted (`samples`), but with nodes: each server knows of others."""
        if self._request.epochs is None:
            raise TypeError("a loader without an end (epochs=None) has no len()")
        return self._request.epochs * self.steps_per_epoch

    @property
    def steps_per_epoch(self) -> int:
        """Batches of a whole epoch, with ranks of each rank; as `len` otherwise."""
        request = self._request
        if request.nodes > 1:
            return request.steps(request.data_samples(self.joined.dataset_samples))
        return request.steps(self.samples)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        request = self._request
        count = request.epochs
        epochs = "without end" if count is None else f"{count} epoch{'' if count == 1 else 's'}"
        return (f"<tureen.Loader {request.dataset!r} at {self.endpoint}: batches of {request.batch_size}, "
                f"{request.order}, {epochs}>")

    @property
    def epochs(self) -> Optional[int]:
        return self._request.epochs

    @property
    def rank(self) -> int:
        return self._request.rank

    @property
    def world_size(self) -> int:
        return self._request.world_size

    @property
    def node(self) -> int:
        return self._request.node

    @property
    def nodes(self) -> int:
        return self._request.nodes

    @property
    def joined(self) -> Joined:
        """What the server said of the last job; joins if there was none."""
        if self._stats is None:
            with self._joining:
                if self._stats is None:
                    self._question()
        assert self._stats is not None and self._stats.connection.job is not None
        return self._stats.connection.job.joined

    @property
    def samples(self) -> int:
        """Samples in one epoch, of all ranks and nodes together, without those that are known to be
        unreadable.  It changes at an epoch's end only, and there in the same way on all ranks: what was
        missing in that epoch is not counted any more."""
        if self._stats is not None and self._stats.epoch_samples is not None:
            return self._stats.epoch_samples
        return self.joined.samples

    @property
    def fields(self) -> Dict[str, Field]:
        """The arrays of a batch as the server sends them, by name: `.dtype`, `.shape` of one sample, and
        `.told`, the dtype in the server's words.  Of a ragged one `.lengths` names the array that says how
        many rows each sample has; a batch has the two as one `Ragged`.  Labels that are mixed come as float32
        [num_classes]."""
        return {field.name: field for field in self.joined.fields}

    @property
    def dataset(self) -> DataSet:
        """What the data set holds, of this loader's subset: classes, targets, names, single samples by this
        loader's pipeline. Joins nothing."""
        return self._data

    @property
    def classes(self) -> Optional[Tuple[str, ...]]:
        """The names behind the labels, where the server sent them."""
        return self.joined.classes

    def __getstate__(self) -> Dict[str, Any]:
        state = {**super().__getstate__(), "_instance": ("", 0)}
        del state["_joining"]
        return state

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._joining = threading.RLock()

    def _beginning(self) -> Optional[State]:
        """Where the next iter begins, if not at the beginning.  May join: an epoch is the data's, which only
        a job knows."""
        if self._epoch is not None and (self._epoch or self._given is not None):
            if self._given is None:
                self._join_for_question(None)
            assert self._given is not None
            self._loaded, self._epoch = self._given.state().at_epoch(self._epoch), None
            self._drop_waiting()
        return None if self._loaded is None else self._request.fitted(self._loaded)

    def _runs(self, iterator: Any) -> bool:
        """That iteration is the last one, and nothing was loaded or set since."""
        active = None if self._active is None else self._active()
        return active is not None and active is iterator and self._loaded is None and self._epoch is None

    def _question(self) -> None:
        """Joins, so that something can be asked; the next iter takes the job over."""
        self._check()
        begin = self._beginning()
        if self._waiting is None:
            self._join_for_question(None if begin is not None and self._at_end(begin) else begin)

    def _join_for_question(self, begin: Optional[State]) -> None:
        self._waiting = self._join(begin)
        self._given = self._given or self._waiting._given

    def _went_through(self) -> bool:
        """All of several epochs, in the iteration before."""
        epochs, before = self._request.epochs or 1, self._given
        return epochs > 1 and before is not None and before.epoch >= epochs

    def _at_end(self, begin: State) -> bool:
        return self._request.epochs is not None and begin.epoch >= self._request.epochs

    def _join(self, begin: Optional[State]) -> BatchIterator:
        #  A rank that joins again by itself comes back to the job that was; one that is iterated again begins
        #  another.
        if self._instance[1] != os.getpid() or self._request.world_size > 1:
            self._instance = (secrets.token_hex(16), os.getpid())
        self._request.settle(self._data)
        connection = Connection(self.endpoint, self._request, self._timeout, rejoin=self._rejoin,
                                instance=self._instance[0], begin=self._without_ghosts(begin),
                                again=self._stats is not None, keys=self._keys.read(self.endpoint),
                                mapper=self._mapper)
        try:
            if begin is not None and self._at_end(begin):
                connection.close_unused()
                given = self._position_kind.at_end(self._request, begin)
            else:
                joined = connection.start(lambda kind, text: self._warned.warn(kind, text, TureenWarning))
                given = self._position_kind.of_job(self._request, joined, begin)
                self._stats = LoaderStats(connection)
                if self._mapper is not None:
                    self._mapper.begin(joined)
            self._own()
            return BatchIterator(connection, given, self._stats or LoaderStats(connection), self._warned,
                                 self._kept, self._mixing)
        except BaseException:
            connection.finish()             # which nothing else would
            raise

    def _without_ghosts(self, begin: Optional[State]) -> Optional[State]:
        """The server would end what is left of the run here, and empty the memory of batches that are still
        looked at: so the new job gets a run of its own."""
        there = still_there(self.endpoint)
        for other in there:
            if (self._request.job is not None and other.request.job == self._request.job
                    and (other.request.rank, other.request.world_size) == (self._request.rank,
                        self._request.world_size)):
                raise RequestRefused("job_taken", f"job {self._request.job!r} is still used in this process"
                                     + (
                    f", for {other.lent} of its batches are: drop them (del batch) first" if other.leaving
                    else ": close its loader first"))
        if begin is not None and any(other.instance == self._instance[0] and other.job is not None
                                     and other.job.joined.run == begin.run for other in there):
            begin = begin._replace(run="")
        return begin

    def _answer(self, connection: Connection, question: Question) -> bytes:
        connection.questions.ask(question)
        connection.wake()
        body = question.wait(self._timeout)
        if body is None:
            raise NoServer(f"the server at {self.endpoint} does not answer (waited {self._timeout:g} s)")
        return body

    def close(self) -> None:
        super().close()
        if self._mapper is not None and not self._shares_mapper and self._pid in (None, os.getpid()):
            self._mapper.close()

    def _leave(self) -> None:
        self._drop_waiting()
        active, self._active = self._active() if self._active else None, None
        if active is not None:
            active.leave()

    def _drop_waiting(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.leave()

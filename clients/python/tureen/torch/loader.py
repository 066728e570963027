"""The loader for PyTorch: one epoch a loop."""
from __future__ import annotations

import functools
import operator
import os
import threading
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple, Union

import torch

from ..batch import Batch
from ..dataset import DataSet as _DataSet
from ..errors import LoaderClosed, StateError, TureenError
from ..loader import BatchIterator, Loader, Path, tell_recipe
from ..owned import Owned
from ..request import Subset, given_subset, recipe_of, resolve_endpoint
from ..slots import lent_max
from ..trained import TrainedPosition, given, position_kind, refuse_report
from ..vocabulary import listed, one_of, refuse_unknown
from ..wire import Field, Joined
from ..mapping.mapper import mapper_of
from ..mapping.run import Function
from ..mixing import Mixer, refuse_functions, split
from ..names import Name
from . import arguments, mapping
from .device import Copier, CudaDevice, Device, check_device
from .epochs import JobPerEpoch, OneJob, State
from .ranks import Membership, _process_group
from .steps import Step, Steps
from .tensors import Layout
from .trained import Reports

_TIMEOUT_S = 10.0


class EpochIterator:
    """One loop: the batches of one epoch, or of what is left of it.  Dropped before its end it breaks the
    loop off: the job is left, and the loader's next loop begins the next epoch.  Threads may share it: each
    batch is given to one of them, and the end to all."""

    def __init__(self, loader: DataLoader, number: int) -> None:
        self._loader: Optional[DataLoader] = loader
        self._number = number

    def __iter__(self) -> EpochIterator:
        return self

    def __next__(self) -> Any:
        loader = self._loader
        if loader is None:
            raise StopIteration
        loader._check_process()                 # a fork has its threads' locks as they were
        with loader._turn:
            if self._loader is None:            # another thread has got the end meanwhile
                raise StopIteration
            try:
                return loader._next(self._number)
            except StopIteration:
                self._loader = None
                raise

    def __del__(self) -> None:
        if self._loader is not None:
            self._loader._break_off(self._number)


class Epochs:
    """In the place of a sampler: the server draws."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader

    def set_epoch(self, epoch: int) -> None:
        self._loader.set_epoch(epoch)

    def __len__(self) -> int:
        loader = self._loader
        return -(-len(loader.dataset) // (loader.world_size * loader.nodes))


class Ascending(Epochs, torch.utils.data.SequentialSampler):
    """Of a loader that does not shuffle, which is what Lightning's overfit_batches wants to see."""

    def __init__(self, loader: DataLoader) -> None:
        Epochs.__init__(self, loader)
        self.data_source = loader.dataset


class DataSet(_DataSet):
    """What a loader draws from: see tureen.DataSet.  A sample, `loader.dataset[5]`, is as the loader's
    batches have it, without the batch's dimension: (image, label), the label a number."""

    def __init__(self, name: str, by_name: bool, ids: bool, **options: Any) -> None:
        super().__init__(name, **options)
        self._by_name = by_name
        self._with_ids = ids

    def __repr__(self) -> str:
        return f"<tureen.torch.DataSet {self.name!r}>"

    def __getitems__(self, indices: Iterable[Any]) -> List[Any]:
        """Of a loader's steps the batches; else samples, as tureen.DataSet."""
        wanted = list(indices)
        if any(isinstance(index, Step) for index in wanted):
            return [step.batch() for step in wanted]
        return super().__getitems__(wanted)

    def _present(self, batch: Batch, joined: Joined) -> List[Any]:
        layout = Layout(joined.fields, joined.pipeline, self._by_name, self._with_ids)
        values = layout.present(layout.host(batch), batch)
        return [_row(values, row) for row in range(len(batch))]


def _row(value: Any, row: int) -> Any:
    if isinstance(value, dict):
        return {name: _row(part, row) for name, part in value.items()}
    if isinstance(value, tuple):
        return tuple(_row(part, row) for part in value)
    part = value[row]
    if not isinstance(part, torch.Tensor):
        return part
    return part.clone() if part.dim() else part.item()


class DataLoader(Owned):
    """Batches from a Tureen server, with the loop, the arguments and the state of PyTorch's own loaders.

        loader = DataLoader("train", batch_size=64, shuffle=True)
        for epoch in range(loader.epoch, 90):
            for images, labels in loader:
                ...
                if want_checkpoint:
                    torch.save({"model": model.state_dict(), "loader": loader.state_dict()}, path)

    **The loop.**  Each loop is one epoch.  The job stays at the server between loops, so the next epoch's
    first batches are prepared while you validate.  A loop that is broken off (by `break`, by an error)
    abandons the rest of its epoch: the next loop begins the next epoch, and `next(iter(loader))` counts as
    one.  One loop at a time: a second `iter` ends the first one's, which raises LoaderClosed when it is asked
    for more.  `infinite()` has no epochs.

    **What comes.**  (images, labels).  Images are a uint8 tensor [batch, channels, height, width] in
    channels_last memory format, over the memory that the server wrote, without a copy; `normalize` makes
    floats of them, on the device.  Labels are an int64 tensor, or what the data set's labels file has: with
    several columns the one that is called `label`, and else a dict of tensors, texts as lists of strings;
    `fields=True` gives all of them.  A pipeline with several outputs (masks,
    views) gives a dict in place of images.  A ragged field (tokens, boxes) is a `Ragged`, in memory of its
    own.  Data without labels give the images alone.  Tensors may be
    written to and kept: a batch's slot is used again when its last view is gone; when all but two are kept
    (of three, all but one), further batches are copied, with one warning.

    dataset     a name that the server serves
    batch_size  samples in a batch
    shuffle     False, the default as in PyTorch: all samples in the order of their ids, each epoch.  True: a
                fresh order each epoch, drawn so that jobs on the same data share the work (order "shared");
                with a seed, "seeded"
    transform   what is done to the samples, at the server: the name of a recipe ("train", "eval"), a list of
                operations, a value from tureen.transforms or tureen.recipes, or torchvision's transforms
                (translated; UnsupportedTransform names what Tureen cannot do).  None: the recipe "train";
                without shuffling, seed and sampler "eval".
                MixUp and CutMix at its end are done here, on the device; labels are float32 [batch,
                num_classes] then.  `pipeline` is another name for it
    sampler     gives the ids of the samples in the order wanted: any of torch.utils.data's samplers, or an
                iterable of whole numbers.  It is asked once an epoch, when the loop begins; each epoch is a
                job of its own
    order       "shared", "private" (draws alone), "list" (ascending) or "seeded": instead of shuffle
    seed        with shuffle None or True: order "seeded", the same batches again bit for bit; else of the
                private random operations.  None: the server draws one
    drop_last   leave out what does not fill a batch
    epochs      so many loops, and no more: then the server prepares nothing behind the last.  None: without
                end
    fields      True: each batch is a dict of all fields by name, with the labels beside `label`
    ids         True: the samples' ids come along, as an int64 tensor: the tuple's last, or "ids" in the dict
    dtype       of the images: torch.float16, bfloat16 or float32, cast by the server in the private stage.
                None: as `transform` says, in general uint8
    normalize   (mean, std): the server normalises, in the private stage, to float32 or `dtype`.  Up to four
                times the memory; the function `normalize` does the same on the device
    endpoint    where the server listens; None: as tureen.Loader finds it
    subset      of the data set: a range, the pair (lo, hi), ids, a mask of booleans, a list of names of
                classes, or a Subset of torch.utils.data's (random_split)
    slots       batches that may be on their way or in use at once, 3 to 64
    device      "cuda" or "cuda:N": batches come as tensors there, copied on a stream of their own straight
                from the ring, which is pinned.  None: they stay in the host's memory
    pool        of order "seeded" over a pack: see tureen.Loader
    timeout     seconds to wait for the server's answer to a join.  0, PyTorch's default, is 10
    name        for people, in `tureen status`
    job         the name of a run that no other job may use at the same time: see tureen.Loader.  Not with a
                sampler.  If a loop is broken off and batches are kept, the next one first waits for the rest
                of the epoch to pass by. With ranks: the name by which they find each other; None: made of the
                run's (torchrun's, or MASTER_ADDR and MASTER_PORT) and the data set's; further jobs get "#2",
                "#3" ... behind it
    rank, world_size    which of how many processes this is, that take one job together; see below.  None: as
                torch.distributed or torchrun's environment says; with a sampler, and where there is none of
                these, it is a process alone.  world_size=1: this process alone gets all the data
    nodes, node so many machines take one job together, each from a server of its own, and which of them this
                is; see below.  None: as torchrun's or Slurm's environment says, where the endpoint is this
                machine's own (ipc://).  nodes=1: all processes take from one server
    parts       with nodes: "fresh": a node has other samples in each epoch; "fixed": always the same
    gather      with ranks: seconds to wait for the others to join; None: 300
    rank_wait   with ranks: seconds for which the job waits when one was lost, before it ends; None: 10
    rejoin      seconds to look for a server that is gone, and go on there; None: as tureen.Loader
    transport   "auto" or "inline": see tureen.Loader
    on_bad      "drop" or "fail", of samples that cannot be read: see tureen.Loader
    map         a function that is called with each sample, behind `transform`.  It gets what the loop would
                get of one sample, in general (image, label), each a tensor.  The loop gets batches of what it
                returns: any tuple, list or dict of tensors, arrays, numbers and texts.  It may write to what
                it gets, until it returns.  The first sample decides shapes and types; a sample that differs
                is an error (MapFailed) that names it
    map_batch   the same of each batch; with `map` too, of the batches that `map` made.  Shapes may differ
                from batch to batch
    map_workers so many processes of this client call them, ahead of the loop; 0: the loop calls them.  None:
                as num_workers says.  multiprocessing_context is how they are started: see tureen.Loader
    key, server_key     for a server that admits only clients with a key that it knows: see tureen.Loader
    state_of    which batches a state has: "given", all that the loop was given, or "trained", those that it
                has reported by `trained`: for a loop that takes batches ahead of its step

    num_workers, persistent_workers, prefetch_factor, pin_memory, pin_memory_device and
    multiprocessing_context are accepted and not needed, which one warning says; batch_sampler, collate_fn,
    worker_init_fn and generator raise TypeError, with what there is instead.

    **Ranks.**  In data-parallel training (DDP) each process makes the same loader, and they take one job
    together: each step is world_size x batch_size samples, dealt out to them, every sample once an epoch over
    all of them.  They get equally many batches, always.  The last step is spread evenly; a rank for which
    nothing is left gets `padding`.  All of them make the same loops, and break off behind the same batch:
    when one leaves, the others get JobEnded (`rank_left`) behind what was sent to them.  States are the whole
    job's: each rank's is the same, and may be loaded with another world size.  A state that is asked for
    before the first loop waits for the other ranks; other questions do not.

    **Nodes.**  Where torchrun or srun starts the processes on several machines, and each machine has a server
    of its own (at the default endpoint, or any ipc://), the processes of a machine are the ranks of one job,
    which is dealt a part of each epoch: every sample comes once over all machines, and all processes get
    equally many batches.  `rank` and `world_size` are then those of the machine's processes, `node` and
    `nodes` the machine's.  A state in the midst of an epoch is the machine's: save
    `state_dict(gather=True)`, or all of them.  With one server for all, at tcp://, it is one job of all
    processes.

    **State.**  `state_dict()` is plain (torch.save and json both write it) and needs no round trip.  In a
    loop it counts what the loop has been given; behind the loop it is the beginning of the next epoch; behind
    a loop that was broken off it is the place where that one stopped, until the next loop begins.  A loader
    that is given it (`load_state_dict`) goes on there: its first loop is the rest of that epoch, and the next
    one the next epoch.  Behind an epoch's last batch the rest is empty, and that loop ends at once.  With
    state_of="trained" it counts what was reported by `trained` instead.

    Nothing is sent before the first loop, or the first question that only the server can answer (`len`,
    `fields`, `dataset`, a state where there is none yet).  Until then a loader may be pickled; from then on
    it belongs to its process.  `close`, leaving a `with` block, dropping the loader and the interpreter's
    exit leave the job.
    """

    #  What Accelerate reads of PyTorch's loaders, to leave out batches (steps.py)
    collate_fn = operator.itemgetter(0)
    prefetch_factor = None

    def __init__(self, dataset: str, batch_size: int = 64, shuffle: Optional[bool] = None, *,
                 transform: Any = None, sampler: Optional[Iterable[int]] = None, order: Optional[str] = None,
                 seed: Optional[int] = None, drop_last: bool = False, epochs: Optional[int] = None,
                 fields: bool = False, ids: bool = False, dtype: Optional[torch.dtype] = None,
                 normalize: Any = None, endpoint: Optional[str] = None, subset: Optional[Subset] = None,
                 slots: int = 4, device: Union[None, str, torch.device, Device] = None,
                 pool: Optional[int] = None, timeout: float = 10.0, name: str = "", job: Optional[str] = None,
                 rejoin: Optional[float] = None, transport: str = "auto", rank: Optional[int] = None,
                 world_size: Optional[int] = None, gather: Optional[float] = None,
                 rank_wait: Optional[float] = None, key: Optional[Path] = None,
                 server_key: Optional[Path] = None, on_bad: Optional[str] = None,
                 nodes: Optional[int] = None, node: Optional[int] = None, parts: str = "fresh",
                 map: Optional[Function] = None, map_batch: Optional[Function] = None,
                 map_workers: Optional[int] = None, state_of: str = "given", num_workers: Any = 0,
                 persistent_workers: Any = False, prefetch_factor: Any = None, pin_memory: Any = False,
                 pin_memory_device: Any = "", multiprocessing_context: Any = None, batch_sampler: Any = None,
                 collate_fn: Any = None, worker_init_fn: Any = None, generator: Any = None,
                 pipeline: Any = None, **unknown: Any) -> None:
        super().__init__()
        refuse_unknown(DataLoader, unknown, {})
        transform = one_of(transform, pipeline)
        arguments.check_dataset(dataset)
        arguments.refuse_impossible(dict(batch_sampler=batch_sampler, collate_fn=collate_fn,
                                         worker_init_fn=worker_init_fn, generator=generator))
        order_asked = arguments.order_of(shuffle, sampler, order, seed)
        self._order = order_asked
        self._batch_size, self._drop_last, self._epochs = batch_size, bool(drop_last), epochs
        if not isinstance(ids, bool):
            raise TypeError("ids is True where the samples' ids are to come along: give those of the samples "
                            "that are wanted as sampler=, or as subset= with shuffle=True")
        self._by_name, self._with_ids = bool(fields), bool(ids)
        self._job, self._slots = job, slots
        self._sampler = sampler
        self._device = check_device(device)
        self._membership = Membership(dataset, rank, world_size, job, sampler, nodes=nodes, node=node,
                                      parts=parts, endpoint=endpoint)
        context = None
        if map is not None or map_batch is not None:        # then these arguments say something
            map_workers = num_workers or 0 if map_workers is None else map_workers
            context, num_workers, multiprocessing_context = multiprocessing_context, 0, None
        self._mapper, _ = mapper_of(map, map_batch, map_workers or 0, context, slots, functools.partial(
            mapping.TensorAdapter, by_name=self._by_name, ids=self._with_ids))
        if transform is None:
            transform = "train" if sampler is not None else recipe_of(order_asked)
            if transform == "eval":
                tell_recipe("shuffle=False (also if it is left out)", "transform")
        transform, self._mixing = split(listed(transform))
        refuse_functions(self._mixing, map, map_batch)
        dataset = Name.of(dataset, resolve_endpoint(endpoint))      # for the loaders of all epochs
        server: Dict[str, Any] = dict(
            endpoint=endpoint, pipeline=arguments.pipeline_of(transform, dtype, normalize),
            timeout=timeout if timeout != 0 else _TIMEOUT_S, key=key, server_key=server_key)
        common: Dict[str, Any] = dict(
            dataset=dataset, batch_size=batch_size, order=order_asked, drop_last=drop_last, slots=slots,
            transport=transport, name=name, on_bad=on_bad, map=self._mapper, state_of=state_of, **server)
        self._data = DataSet(dataset, self._by_name, self._with_ids, subset=given_subset(subset), **server)
        waits = (("rejoin", rejoin), ("gather", gather), ("rank_wait", rank_wait))
        common.update({key: value for key, value in waits if value is not None})
        self._source: Union[OneJob, JobPerEpoch]
        if sampler is None:
            self._source = OneJob(functools.partial(Loader, epochs=epochs, subset=self._data.chosen,
                                                    seed=seed, pool=pool, **common),
                                  self._membership)
        else:
            if subset is not None or pool is not None:
                raise ValueError("sampler= already says which samples, and in which order: leave subset and "
                                 "pool out")
            self._source = JobPerEpoch(sampler, functools.partial(Loader, **common), seed, self._membership)
        arguments.explain_unneeded(dict(
            num_workers=num_workers, persistent_workers=persistent_workers, prefetch_factor=prefetch_factor,
            pin_memory=pin_memory, pin_memory_device=pin_memory_device,
            multiprocessing_context=multiprocessing_context), stacklevel=2)
        #  One thread takes a batch, or the epoch's end; breaking off and closing do not wait for it.
        self._turn = threading.RLock()
        #  The job, if there is one, and where the loops are.
        self._iterator: Optional[BatchIterator] = None
        #  Of the loop that was begun and has not ended, else of the next one
        self._epoch = 0
        self._begun = False                     # a loop was, and has not come to the epoch's end
        self._given = 0                         # batches, in that loop
        #  The loop's number; one that is broken off or over has another
        self._running = 0
        self._loops = 0
        self._failed = False                    # the job ended by an error
        self._loaded = False                    # a state, where the next loop begins
        self._target: Optional[int] = None      # set_epoch asked for it, and it is not the next one by itself
        self._padding = False                   # what was given last
        self._layout: Optional[Layout] = None
        self._copier: Optional[Copier] = None
        self._position_kind, self._reports = position_kind(state_of), Reports()

    def __getstate__(self) -> Dict[str, Any]:
        state = super().__getstate__()
        del state["_turn"]
        return state

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._turn = threading.RLock()

    #  The loop

    def __iter__(self) -> EpochIterator:
        """The next epoch, or the rest of the one in which a loaded state stands.  Joins, unless the job is
        there already."""
        self._check()
        self._settle()
        if self._epochs is not None and self._epoch >= self._epochs:
            raise RuntimeError(f"all {self._epochs} epochs of this loader are over: it was made with "
                               f"epochs={self._epochs}")
        if self._iterator is None:
            self._begin()
        self._begun, self._given = True, 0
        self._loops += 1
        self._running = self._loops
        return EpochIterator(self, self._running)

    def infinite(self) -> Iterator[Any]:
        """Batches without end, from one epoch straight into the next; with `epochs`, to the end of the last
        one.

            for step, (images, labels) in zip(range(10_000), loader.infinite()):

        Goes on from a loaded state as a loop does.  `epoch` and `state_dict` tell where it is.
        """
        while self._epochs is None or self._next_epoch() < self._epochs:
            yield from self

    def _begin(self) -> None:
        self._membership.check()
        self._iterator = self._source.begin(self._epoch)
        self._own()
        position = self._iterator._given
        if isinstance(position, TrainedPosition):
            self._reports.begin(position, self._source.later_state(position, self._epoch))
        self._failed, self._loaded, self._layout = False, False, None
        if self._copier is None and self._device is not None:
            device = self._device if isinstance(self._device, Device) else CudaDevice(self._device)
            self._copier = Copier(device, lent_max(self._slots) - 1)

    def _next(self, number: int) -> Any:
        """What loop `number` gets next."""
        self._check()
        if number != self._running:
            raise LoaderClosed("this loop is over: another one was begun over its loader, or a state was "
                               "loaded")
        assert self._iterator is not None
        if self._copier is not None:
            self._copier.make_room()
        try:
            presented = self._iterator.next_in_epoch(self._present)
        except StopIteration:                   # resumed where a sampler's list had been given whole
            presented = None
        except TureenError:
            self._failed = True
            raise
        if presented is None:
            self._end_epoch()
            raise StopIteration
        self._given += 1
        if self._position_kind is TrainedPosition:
            self._reports.show(presented)
        return presented

    def _present(self, batch: Batch) -> Any:
        """The batch as the loop gets it."""
        if batch.mapped is not None:
            mapped = mapping.Mapped(batch.mapped)
            presented = mapped.present(mapped.values if self._copier is None
                                       else self._copier.copy(mapped.values, batch))
        else:
            if self._layout is None:
                joined = self._source.joined()
                self._layout = Layout(joined.fields, joined.pipeline, self._by_name, self._with_ids,
                                      None if self._mixing is None else Mixer(self._mixing, joined))
            values = self._layout.host(batch)
            if self._copier is not None:
                values = self._copier.copy(values, batch)
            presented = self._layout.present(values, batch)
        self._padding = batch.padding
        return presented

    def _end_epoch(self) -> None:
        assert self._iterator is not None
        self._begun, self._given, self._running, self._padding = False, 0, 0, False
        self._epoch += 1
        self._iterator = self._source.at_end(self._iterator)

    def _break_off(self, number: int) -> None:
        """That loop was dropped.  Waits for nothing: it may be a garbage collection."""
        if number != self._running or self._pid != os.getpid():
            return
        self._running = 0
        #  Of an epoch of which nothing or everything was given there is no rest to abandon.  A job with a
        #  name is kept until it is known whether another one could have the name (_held); with ranks the next
        #  one has another.
        if self._given and not self._keeps_name() and not self._whole() and self._iterator is not None:
            self._iterator._connection.leave()
        if self._copier is not None:
            self._copier.settle()

    def _settle(self) -> None:
        """Before the next loop: what was broken off is abandoned, and an epoch that was asked for is gone
        to."""
        self._running = 0
        if self._target is not None and (self._begun or self._target != self._epoch):
            self._go_to(self._target)
            self._reports.report_all()
        elif self._begun and self._given:
            whole = self._whole()
            if self._failed or not (whole or self._held()) or not self._takes_rest():
                self._go_to(self._epoch + 1)
            if not whole:
                self._reports.report_all()
        elif self._begun and self._failed:
            self._reload()
        self._target = None

    def _keeps_name(self) -> bool:
        """The next job has the same name as this one."""
        return self._job is not None and not self._membership.together

    def _held(self) -> bool:
        """The job cannot be left, for its batches are still looked at, and while it is there its name is
        taken."""
        if not self._keeps_name() or self._iterator is None:
            return False
        if self._copier is not None:
            self._copier.close()
        return self._iterator._connection.lent > 0

    def _takes_rest(self) -> bool:
        """What is left of the epoch (its end alone, if everything was given) is taken and thrown away."""
        assert self._iterator is not None
        try:
            while self._iterator.next_in_epoch() is not None:
                pass
        except TureenError:                     # the next join will say what is wrong
            return False
        self._end_epoch()
        return True

    def _whole(self) -> bool:
        """Nothing of the epoch is left."""
        return self._iterator is not None and self._source.whole(self._iterator, self._epoch)

    def _go_to(self, epoch: int) -> None:
        self._drop_job()
        self._source.move(epoch)
        self._epoch, self._loaded = epoch, False

    def _reload(self) -> None:
        """The job ended before anything was given: the next one begins in the same place."""
        assert self._iterator is not None
        state = self._source.state(given(self._iterator._given), self._epoch)
        self._drop_job()
        self._source.load(state)

    def _drop_job(self) -> None:
        if self._copier is not None:
            self._copier.close()
        iterator, self._iterator = self._iterator, None
        self._begun, self._given, self._failed, self._running = False, 0, False, 0
        if iterator is not None:
            iterator.leave()

    #  Where it is

    @property
    def epoch(self) -> int:
        """Of the loop that runs, else of the next one; from 0.  `for epoch in range(loader.epoch, 90)` goes
        on rightly after load_state_dict."""
        return self._epoch if self._running else self._next_epoch()

    def _next_epoch(self) -> int:
        if self._target is not None:
            return self._target
        return self._epoch + 1 if self._begun and self._given else self._epoch

    def set_epoch(self, epoch: int) -> None:
        """The next loop is that epoch.  Changes nothing where it is anyway, in the middle of an epoch that
        was resumed too: so scripts that call it before each loop lose nothing.  A sampler that has a
        `set_epoch` is told."""
        self._check()
        wanted = operator.index(epoch)
        if wanted < 0 or self._epochs is not None and wanted > self._epochs:
            most = ("" if self._epochs is None else f" to {self._epochs}, for the loader was made with "
                    f"epochs={self._epochs}")
            raise ValueError(f"epoch must be a whole number from 0{most}; it is {epoch}")
        self._target = None
        if wanted != self._next_epoch():
            self._target = wanted
        self._source.tell(wanted)

    def state_dict(self, gather: bool = False) -> State:
        """Where the loader is; see the class.  Right after load_state_dict, what was loaded.  Of a closed
        loader too.

        gather=True: all processes of torch.distributed call it behind the same step, and each gets the state
        of the whole job, over all nodes, which any number of nodes and ranks goes on from.  Blocks for them.
        StateError on all, where they are not behind the same step."""
        if gather:
            return self._gathered()
        self._check_process()
        if self._target is not None and not self._running:
            self._settle()
        state = self._state()
        self._own_if_used()
        return state

    def _gathered(self) -> State:
        place = self._membership.place
        if place.world_size * place.nodes == 1:
            return self.state_dict()
        if _process_group() is None:
            raise RuntimeError("state_dict(gather=True) asks all processes for their states by "
                               "torch.distributed, which is not initialised: call init_process_group first, "
                               "or save the state of each node and give them to tureen.merge_states")
        mine: Tuple[Optional[State], str]
        try:
            mine = self.state_dict(), ""
        except Exception as error:              # the others wait for something from here
            mine = None, f"{type(error).__name__}: {error}"
        found: List[Any] = [None] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(found, mine)
        for rank, (state, error) in enumerate(found):
            if state is None:
                raise StateError(f"process {rank} of torch.distributed has no state: {error}")
        return self._source.merged([state for state, _ in found])

    def _state(self) -> State:
        unreported = self._reports.state()
        if unreported is not None:
            return unreported
        return self._source.state(None if self._iterator is None else self._iterator._given, self._epoch)

    def trained(self, batch: Any = None) -> None:
        """Reports a batch as trained: the state has it from here on.  For a loader with state_of="trained".
        The loop calls it once for each batch, behind the batch's step, in the order in which the loader gave
        the batches.  Any thread may call it.

        `batch`: the oldest unreported batch as the loader gave it, or a tensor of it; ValueError for a later
        batch and for a copy (`.to(device)` makes one).  None: the loop means the oldest one.  The state lacks
        unreported batches, in later loops too.  The next loop abandons the unreported batches of a loop that
        was broken off, with the rest of that epoch; `load_state_dict` abandons all.  RuntimeError if every
        batch is reported."""
        self._check_process()
        if self._position_kind is not TrainedPosition:
            refuse_report()
        self._reports.report(batch)

    def load_state_dict(self, state: State) -> None:
        """The next loop goes on there; a loop that runs is over.  StateError for what is damaged or no state;
        what does not fit the server's data is refused when the next loop joins.  Loading again begins there
        again."""
        self._check()
        epoch = self._source.load(state)
        self._reports.report_all()
        self._drop_job()
        self._epoch, self._target, self._loaded = epoch, None, True

    def __repr__(self) -> str:
        count = self._epochs
        epochs = "" if count is None else f", {count} epoch{'' if count == 1 else 's'}"
        return (f"<tureen.torch.DataLoader {self._data.name!r} at {self._data.endpoint}: batches of "
                f"{self._batch_size}, {'sampler' if self._sampler is not None else self._order}{epochs}>")

    #  Questions

    def __len__(self) -> int:
        """Batches of one epoch, a whole one: also where a loaded state begins in the middle.  The same on all
        ranks.  With a sampler that has no len, TypeError, as in PyTorch.

        Samples that cannot be read are not counted: those that are known when the job begins, and from an
        epoch's end on those that were missing in it.  So the epoch that finds some (in general the first one
        at the server) may have as many batches as this said, or fewer, and the next ones have what it says
        then.  With a sampler it is what came of its last list, or before that the whole list.  With nodes
        they are counted: each server knows of others."""
        self._check()
        place = self._membership.settle()
        size = self._batch_size * place.world_size
        samples = self._source.count() if place.nodes == 1 else self._source.count_whole()
        self._own_if_used()
        if self._drop_last:
            return samples // place.nodes // size
        longest = -(-samples // place.nodes)
        return -(-longest // size)

    def __bool__(self) -> bool:
        return True                 # and not by len, which asks the server

    @property
    def dataset(self) -> DataSet:
        """What the loader draws from: `len`, `classes`, `class_to_idx`, `targets`, `samples`, and single
        samples (`dataset[5]`), of the loader's subset, where it has one.  No job is joined for it, and no
        other rank need ask."""
        return self._data

    @property
    def sampler(self) -> Any:
        """What was given; else what scripts for PyTorch look for in one: `set_epoch`, which is the loader's,
        and `len`, the samples of each rank."""
        if self._sampler is not None:
            return self._sampler
        return Ascending(self) if self._order == "list" else Epochs(self)

    @property
    def batch_sampler(self) -> Steps:
        """With `dataset` and `collate_fn` it makes a torch.utils.data.DataLoader of the same batches, of
        which the first may be left out: as Accelerate's skip_first_batches does."""
        return Steps(self)

    @property
    def rank(self) -> int:
        """Which of the processes this one is that take the job together; from 0."""
        return self._membership.place.rank

    @property
    def world_size(self) -> int:
        """How many they are; of several nodes, on this one."""
        return self._membership.place.world_size

    @property
    def node(self) -> int:
        """Which of the machines this is that take the job together; from 0."""
        return self._membership.place.node

    @property
    def nodes(self) -> int:
        """How many they are."""
        return self._membership.place.nodes

    @property
    def padding(self) -> bool:
        """The batch that the loop was given last is padding: of an epoch's last samples none was left for
        this rank, so it got one of another's once more, outside of all counts.  Multiply its loss by 0."""
        return self._padding

    @property
    def batch_size(self) -> int:
        """Of each rank."""
        return self._batch_size

    @property
    def drop_last(self) -> bool:
        return self._drop_last

    @property
    def fields(self) -> Dict[str, Field]:
        """The arrays that the server sends, by name; joins if that has not been done, and asks the sampler
        for nothing."""
        return {field.name: field for field in self._question().fields}

    def stats(self) -> Dict[str, Any]:
        """What the job's time went to, and what it got; with a sampler, the present epoch's: see
        tureen.Loader.stats."""
        self._check_process()
        return self._source.stats()

    def explain(self, id: int, epoch: Optional[int] = None) -> Dict[str, Any]:
        """What was done to a sample: see tureen.Loader.explain."""
        self._check()
        return self._source.explain(id, epoch)

    def _question(self) -> Joined:
        """What the server said of the job, or says of one that is joined for the question's sake."""
        self._check()
        joined = self._source.joined()
        self._own()
        return joined

    def _own_if_used(self) -> None:
        if self._source.used:
            self._own()

    def _leave(self) -> None:
        self._running = 0
        if self._copier is not None:
            self._copier.close()
        self._source.close()
        if self._mapper is not None:
            self._mapper.close()

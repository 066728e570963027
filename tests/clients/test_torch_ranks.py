"""tureen.torch with ranks: how a process learns its rank, and, against the real server, several processes on
one job.

Run by ctest (torch_ranks), or by hand: TUREEN_BIN=build/release/bin python3 tests/clients/test_torch_ranks.py
[-v] [NAME]
"""
from __future__ import annotations

import contextlib
import copy
import gc
import itertools
import json
import os
import pickle
import shutil
import signal
import socket
import sys
import tempfile
import threading
import unittest
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "system"), str(HERE.parent.parent / "clients" / "python")]

import torch_or_skip                    # noqa: F401  # ends this program where there is no PyTorch
import harness
import torch

import tureen
from late_device import LateDevice
from tureen.torch import DataLoader
from tureen.torch import ranks as torch_ranks

NAMED = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
STARTED = {"RANK": "1", "WORLD_SIZE": "3", "TORCHELASTIC_RUN_ID": "run-7"}


@contextlib.contextmanager
def surroundings(environment: Dict[str, str], group: Optional[Tuple[int, int]] = None) -> Iterator[None]:
    """What torchrun has set, and the process group."""
    kept = {name: value for name, value in os.environ.items()
            if name not in ("RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT")}
    with mock.patch.dict(os.environ, {**kept, **environment}, clear=True), \
            mock.patch.object(torch_ranks, "_process_group", lambda: group):
        yield


def made(**options: Any) -> DataLoader:
    return DataLoader("train", 8, endpoint="ipc:///nowhere", **options)


def request_of(loader: DataLoader) -> Any:
    """Of its next job, as it would be sent now."""
    loader._source._name()
    return loader._source.loader._request


class WhoIsWho(unittest.TestCase):
    """Without a server."""

    def setUp(self) -> None:
        """As in a new process."""
        patch = mock.patch.object(torch_ranks, "_begun", type(torch_ranks._begun)())
        patch.start()
        self.addCleanup(patch.stop)

    def test_where_rank_and_world_size_come_from(self) -> None:
        """Arguments before the process group before the environment; a sampler, and nothing at all, are one
        process."""
        here = socket.gethostname()
        for environment, group, options, expected in (
                ({}, None, {}, (0, 1, None)),
                ({}, None, {"job": "mine"}, (0, 1, "mine")),
                (STARTED, None, {}, (1, 3, "run-7/train")),
                (STARTED, None, {"job": "mine"}, (1, 3, "mine")),
                ({**STARTED, "TORCHELASTIC_RUN_ID": "none", **NAMED}, None, {},
                 (1, 3, f"{here}:29500/train")),
                ({"RANK": "1", "WORLD_SIZE": "3"}, None, {"job": "mine"}, (1, 3, "mine")),
                ({**STARTED, "WORLD_SIZE": "1", "RANK": "0"}, None, {}, (0, 1, None)),
                (STARTED, (0, 2), {}, (0, 2, "run-7/train")),
                (NAMED, (1, 2), {}, (1, 2, f"{here}:29500/train")),
                ({}, (1, 2), {"job": "mine"}, (1, 2, "mine")),
                (STARTED, (0, 1), {}, (0, 1, None)),
                (STARTED, (1, 3), {"world_size": 1}, (0, 1, None)),
                (STARTED, (1, 3), {"world_size": 1, "rank": 0, "job": "own"}, (0, 1, "own")),
                (STARTED, (1, 3), {"sampler": [3, 1]}, (0, 1, None)),
                ({}, None, {"rank": 2, "world_size": 4, "job": "mine"}, (2, 4, "mine")),
                ({"TORCHELASTIC_RUN_ID": "run-7"}, None, {"rank": 2, "world_size": 4}, (2, 4, "run-7/train")),
                (STARTED, None, {"rank": 0, "world_size": 2, "sampler": [3, 1]}, (0, 2, "run-7/train"))):
            with self.subTest(environment=environment, group=group,
                              options=options), surroundings(environment, group):
                loader = made(**options)
                self.assertEqual(tuple(loader._membership.place)[:3], expected)
                self.assertEqual((loader.rank, loader.world_size), expected[:2])

    def test_what_contradicts_itself_is_refused_with_a_remedy(self) -> None:
        distributed = torch.utils.data.distributed.DistributedSampler(range(8), 2, 0)
        for environment, options, why in (
                ({}, {"rank": 1}, "rank and world_size go together: give both, or world_size=1"),
                ({}, {"world_size": 2}, "rank and world_size go together"),
                ({}, {"rank": 1, "world_size": 1}, "rank"),
                ({}, {"rank": 2, "world_size": 2, "job": "mine"}, "rank"),
                ({}, {"rank": 0, "world_size": 65, "job": "mine"}, "world_size"),
                ({}, {"rank": 0, "world_size": 2}, "nothing in the environment names their run.*give job="),
                (NAMED, {"rank": 0, "world_size": 2, "sampler": distributed},
                 "2 processes ids of its own.*leave rank and"),
                (NAMED, {"rank": 0, "world_size": 2, "gather": 0}, "gather"),
                (NAMED, {"rank": 0, "world_size": 2, "rank_wait": -1}, "rank_wait"),
                ({"WORLD_SIZE": "6", "RANK": "5", **NAMED}, {"nodes": 4, "node": 1},
                 "^nodes=4 and node=1 were given, and nothing says which of the 6 processes are on this"),
                ({}, {"sampler": [1], "job": "mine"}, "job= cannot be given with sampler=")):
            with self.subTest(options=options), surroundings(environment), self.assertRaisesRegex(ValueError,
                    why):
                made(**options)._membership.settle()
        with surroundings(NAMED):
            self.assertEqual(made(sampler=distributed).world_size, 1)

    def test_surroundings_that_make_no_sense_are_told_at_the_first_use(self) -> None:
        for environment, group, why in (({"RANK": "3", "WORLD_SIZE": "3", **NAMED}, None, "RANK is '3'"),
                                        ({"WORLD_SIZE": "2", **NAMED}, None, "RANK is not set"),
                                        ({}, (0, 2),
                                         "2 ranks, and nothing in the environment names their run")):
            with self.subTest(environment), surroundings(environment, group):
                loader = made()
                for use in (iter, len, DataLoader.state_dict, lambda loader: loader.world_size):
                    with self.assertRaisesRegex(ValueError, why):
                        use(loader)

    def test_it_is_settled_at_the_first_use(self) -> None:
        """A framework may make the process group after the loader; but not after its first use."""
        loader = made()
        with surroundings(NAMED, (1, 2)):
            self.assertEqual((loader.rank, request_of(loader).job),
                             (1, f"{socket.gethostname()}:29500/train"))
        with surroundings({}):
            self.assertEqual(loader.world_size, 2, "settled")
            alone = made()
            alone._membership.settle()
        with surroundings(NAMED, (1, 2)), self.assertRaisesRegex(RuntimeError,
                "before torch.distributed was init.* 2: "):
            iter(alone)
        with surroundings({}):
            said = made(world_size=1)
        with surroundings(NAMED, (1, 2)), self.assertRaises(tureen.NoServer):
            DataLoader("train", 8, endpoint="ipc:///nowhere", world_size=1, timeout=0.01).__iter__()
        self.assertEqual(said.world_size, 1)

    def test_jobs_of_one_name_are_numbered(self) -> None:
        with surroundings(STARTED):
            first, second = made(gather=7, rank_wait=0), made()
            request = request_of(first)
            self.assertEqual((request.job, request.rank, request.world_size), ("run-7/train", 1, 3))
            self.assertEqual((request.gather_s, request._rank_wait_s), (7, 0))
            self.assertIs(request_of(first), request, "a join that failed is tried again under the same name")
            begun = first._membership.options()
            for _ in range(2):
                first._membership.begun(begun)      # twice: as of another thread that has asked for the state
            named = made(job="run-7/train")
            self.assertEqual([request_of(second).job, request_of(named).job], ["run-7/train#2"] * 2)
            long = made(job="x" * 64)
            long._membership.begun(long._membership.options())
            self.assertEqual(len(long._membership.options()["job"]), 64)
            self.assertNotEqual(long._membership.options()["job"], "x" * 64)
            alone = made(world_size=1, job="own")
            alone._membership.begun(alone._membership.options())
            self.assertEqual(request_of(alone).job, "own", "which is one process's")

    def test_it_may_be_handed_over_before_its_first_use(self) -> None:
        with surroundings(STARTED):
            loader = made(shuffle=True)
            for twin in (pickle.loads(pickle.dumps(loader)), copy.deepcopy(loader)):
                self.assertEqual((twin.rank, twin.world_size, twin.padding), (1, 3, False))


SAMPLES = 22
CROP = [{"op": "resize", "size": [16, 16]}]


def setUpModule() -> None:
    """One server and one small folder for all tests."""
    global LABELS, SERVER
    folder = tempfile.mkdtemp(prefix="tu-torch-", dir="/tmp")
    unittest.addModuleCleanup(shutil.rmtree, folder, ignore_errors=True)
    data = os.path.join(folder, "train")
    LABELS = harness.make_folder(data, SAMPLES, classes=3, seed=harness.SEED, sizes=((20, 30), (20, 30)))
    SERVER = harness.Server({"train": data})
    SERVER.__enter__()
    unittest.addModuleCleanup(SERVER.__exit__, None, None, None)


def together(world_size: int, body: Callable[[int], Any]) -> List[Any]:
    """`body` (rank) on a thread for each rank; what they returned.  Raises what the first of them raised."""
    found: Dict[int, Any] = {}

    def run(rank: int) -> None:
        try:
            found[rank] = body(rank)
        except BaseException as error:
            found[rank] = error

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(world_size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * harness.PATIENCE)
    for rank in range(world_size):
        if isinstance(found.get(rank, RuntimeError(f"rank {rank} hangs")), BaseException):
            raise found.get(rank, RuntimeError(f"rank {rank} hangs; {found}"))
    return [found[rank] for rank in range(world_size)]


def loader(rank: int, world_size: int, **options: Any) -> DataLoader:
    place = {"rank": rank, "world_size": world_size, "job": "together", "gather": harness.PATIENCE}
    options = {"endpoint": SERVER.endpoint, "transform": CROP, "batch_size": 3, "ids": True,
               "timeout": harness.PATIENCE,
               **(place if world_size > 1 else {}), **options}
    return DataLoader("train", **options)


def taken(train: DataLoader, batches: Any = None) -> List[Tuple[List[int], bool]]:
    """(ids, padding) of each batch."""
    found = []
    for _, labels, ids in train if batches is None else batches:
        assert labels.tolist() == [LABELS[id] for id in ids]
        found.append((ids.tolist(), train.padding))
    return found


def steps_of(of_ranks: List[List[Tuple[List[int], bool]]]) -> List[List[int]]:
    """What all ranks got in each step, padding left out."""
    assert len({len(batches) for batches in of_ranks}) == 1, "equally many batches: %s" % of_ranks
    return [list(itertools.chain.from_iterable(ids for ids, padding in step if not padding))
            for step in zip(*of_ranks)]


def flat(lists: List[List[int]]) -> List[int]:
    return list(itertools.chain.from_iterable(lists))


ORDERS: Dict[str, Dict[str, Any]] = {
    "in order": {}, "shared": {"shuffle": True}, "seeded": {"seed": 7},
    "dropped": {"shuffle": True, "drop_last": True}, "sampler": {"sampler": [3, 21, 3, 0, 7, 8, 9, 12, 11, 20,
        1, 1, 1, 5]}}


class Together(unittest.TestCase):
    """The ranks are threads of this process: to the server they are clients like others."""

    setUp = WhoIsWho.setUp

    def tearDown(self) -> None:
        gc.collect()
        harness.wait_until("no job is left", lambda: not SERVER.status()["jobs"])

    def test_equally_many_batches_and_every_sample_once(self) -> None:
        for (name, order), world_size in itertools.product(ORDERS.items(), (2, 3)):
            def body(rank: int) -> Any:
                with loader(rank, world_size, **order) as train:
                    told = (len(train), train.rank, train.world_size)
                    return told, [taken(train), taken(train)], train.padding

            with self.subTest(name, world_size=world_size):
                found = together(world_size, body)
                samples = len(order.get("sampler", range(SAMPLES)))
                size = 3 * world_size
                steps = samples // size if order.get("drop_last") else -(-samples // size)
                self.assertEqual([told for told, _, _ in found],
                                 [(steps, rank, world_size) for rank in range(world_size)])
                self.assertEqual([padding for _, _, padding in found], [False] * world_size)
                for epoch in range(2):
                    ids = steps_of([epochs[epoch] for _, epochs, _ in found])
                    self.assertEqual([len(step) for step in ids[:-1]], [size] * (steps - 1))
                    if name in ("in order", "sampler"):
                        self.assertEqual(flat(ids), order.get("sampler", list(range(SAMPLES))))
                    elif name == "dropped":
                        self.assertEqual((len(flat(ids)), len(set(flat(ids)))), (steps * size,) * 2)
                    else:
                        self.assertEqual(sorted(flat(ids)), list(range(SAMPLES)))

    def test_padding_is_told_and_counts_nowhere(self) -> None:
        """19 samples: two steps of 9, and one sample, for rank 0."""
        def body(rank: int) -> Any:
            with loader(rank, 3, subset=range(19), fields=True) as val:
                found = [(batch["ids"].tolist(), val.padding, list(batch)) for batch in val]
                return found, val.padding, val.state_dict(), val.stats()["samples"]

        found = together(3, body)
        self.assertEqual([batches[-1] for batches, _, _, _ in found],
                         [([18], rank > 0, ["image", "label", "ids"]) for rank in range(3)])
        self.assertEqual([padding for _, padding, _, _ in found], [False] * 3, "the loop is over")
        self.assertEqual({json.dumps(state) for _, _, state, _ in found}, {json.dumps(found[0][2])})

    def test_states_at_every_step_for_any_number_of_ranks(self) -> None:
        """Each rank's is the same, and the rest comes exactly once, in the order where one is known."""
        for name in ("shared", "seeded", "sampler"):
            def first(rank: int) -> Any:
                with loader(rank, 2, **ORDERS[name]) as train:
                    return [(batch[-1].tolist(), train.padding, json.dumps(train.state_dict()))
                            for batch in train]

            of_ranks = together(2, first)
            states = [[state for _, _, state in batches] for batches in of_ranks]
            self.assertEqual(states[0], states[1])
            steps = steps_of([[(ids, padding) for ids, padding, _ in batches] for batches in of_ranks])
            for index, state in enumerate(states[0]):
                world_size = 1 + index % 3

                def rest(rank: int) -> Any:
                    with loader(rank, world_size, **ORDERS[name]) as train:
                        train.load_state_dict(json.loads(state))
                        self.assertEqual(json.dumps(train.state_dict()), state)
                        return taken(train), train.epoch

                with self.subTest(name, step=index, world_size=world_size):
                    found = together(world_size, rest)
                    self.assertEqual([epoch for _, epoch in found], [1] * world_size)
                    whole = flat(steps[:index + 1]) + flat(steps_of([batches for batches, _ in found]))
                    self.assertEqual(*((sorted(whole), list(range(SAMPLES))) if name == "shared"
                                       else (whole, flat(steps))))

    def test_breaking_off_and_rewinding_on_all_ranks(self) -> None:
        """Behind the same batch: the next loop is the next epoch, whether batches are still held or not, and
        the rest of the one before is waited for in no case."""
        for held in ((), (0,), (0, 1)):
            def body(rank: int) -> Any:
                with loader(rank, 2, shuffle=True) as train:
                    kept = []
                    for batch in train:
                        if rank in held:
                            kept.append(batch)
                        break
                    del batch
                    state = train.state_dict()
                    second = taken(train)
                    self.assertEqual(train.stats()["batches"], len(second), "of its own job")
                    epoch = train.epoch
                    train.load_state_dict(state)
                    third = taken(train)
                    return state, second, epoch, third, train.epoch, len(kept)

            with self.subTest(held=held):
                found = together(2, body)
                self.assertEqual([(int(state["epoch"]), int(state["batches"])) for state, *_ in found],
                                 [(0, 1)] * 2)
                self.assertEqual([(epoch, last) for _, _, epoch, _, last, _ in found], [(2, 1)] * 2)
                self.assertEqual(sorted(flat(steps_of([second for _, second, *_ in found]))),
                                 list(range(SAMPLES)))
                self.assertEqual(len(flat(steps_of([third for _, _, _, third, _, _ in found]))), SAMPLES - 6)

    def test_an_epoch_that_is_asked_for(self) -> None:
        """Before the first loop too, when only a job knows the data; and further scripts' set_epoch changes
        nothing."""
        def body(rank: int) -> Any:
            with loader(rank, 2, seed=7) as train:
                train.set_epoch(2)
                found = [train.epoch, taken(train)]
                train.set_epoch(3)
                taken(train)
                train.set_epoch(0)
                return found + [taken(train)]

        with loader(0, 1, seed=7) as alone:
            expected = [flat([ids for ids, _ in taken(alone)]) for _ in range(3)]
        found = together(2, body)
        self.assertEqual([epoch for epoch, _, _ in found], [2, 2])
        self.assertEqual(flat(steps_of([batches for _, batches, _ in found])), expected[2])
        self.assertEqual(flat(steps_of([batches for _, _, batches in found])), expected[0])

    def test_questions_need_no_other_rank(self) -> None:
        for order in ({}, {"shuffle": True}, {"seed": 3, "drop_last": True}, {"sampler": [4, 4, 4]}):
            with loader(1, 2, **order) as train:
                self.assertEqual((len(train.dataset), train.dataset.classes),
                                 (SAMPLES, ("class_0", "class_1", "class_2")))
                self.assertEqual(len(train), {0: 4, 1: 4,
                                              2: 3}.get(len(order) if "sampler" not in order else 9, 1))
                self.assertEqual(train.fields["image"].shape, (16, 16, 3))

    def test_a_rank_that_leaves_ends_the_job_for_the_others(self) -> None:
        """Behind what was delivered; and what is left of it can be gone on with."""
        left = threading.Event()

        def body(rank: int) -> Any:
            #  So not all can be sent
            with loader(rank, 2, shuffle=True, batch_size=1, slots=3) as train:
                batches = iter(train)
                given = [next(batches)[-1].tolist()]
                if rank == 1:
                    train.close()
                    left.set()
                    return given, None, None
                assert left.wait(harness.PATIENCE)
                harness.wait_until("the server has ended the job", lambda: not SERVER.status()["jobs"])
                try:
                    for batch in batches:
                        given.append(batch[-1].tolist())
                except tureen.JobEnded as ended:
                    return given, (ended.reason, ended.message), train.state_dict()

        (given, (reason, message), state), (others, _, _) = together(2, body)
        self.assertEqual(reason, "rank_left")
        self.assertRegex(message, "rank 1 of job 'together' has left .*let all ranks take the same number of "
                         "batches")
        self.assertGreaterEqual(len(given), 1)
        self.assertEqual(int(state["batches"]), len(given))
        self.assertEqual(len(others), 1)

    def test_a_rank_that_dies_ends_the_job_for_the_others(self) -> None:
        """In a process of its own, killed in the loop.  What was delivered is given first, and can be gone on
        with alone."""
        #  Not all is sent
        options: Dict[str, Any] = {"shuffle": True, "rank_wait": 0, "batch_size": 1, "slots": 3}
        child = os.fork()
        if child == 0:
            try:
                for number, _ in enumerate(loader(1, 2, **options)):
                    if number == 1:
                        os.kill(os.getpid(), signal.SIGKILL)
            finally:
                os._exit(1)
        given: List[int] = []
        with loader(0, 2, **options) as train:
            with self.assertRaisesRegex(tureen.JobEnded,
                                        "rank 1 of job 'together.* has been gone .*all ranks") as caught:
                for batch in train:
                    given += batch[-1].tolist()
            state = train.state_dict()
        self.assertEqual(os.waitpid(child, 0)[1], signal.SIGKILL)
        self.assertEqual(caught.exception.reason, "rank_lost")
        self.assertEqual(len(given), int(state["batches"]))
        with loader(0, 1, shuffle=True) as alone:
            alone.load_state_dict(state)
            rest = flat([ids for ids, _ in taken(alone)])
        self.assertEqual((len(rest), set(rest) & set(given)), (SAMPLES - 2 * len(given), set()))

    def test_two_loaders_on_the_same_data(self) -> None:
        """Beside each other, under the name that both would have."""
        def body(rank: int) -> Any:
            with loader(rank, 2, shuffle=True) as train, loader(rank, 2) as val:
                found = []
                for batch in train:
                    found.append(batch[-1].tolist())
                    if len(found) == 2:
                        validated = taken(val)
                return found, validated

        found = together(2, body)
        self.assertEqual(sorted(flat([flat(batches) for batches, _ in found])), list(range(SAMPLES)))
        self.assertEqual(flat(steps_of([validated for _, validated in found])), list(range(SAMPLES)))

    def test_names_stay_apart_whatever_is_asked_in_between(self) -> None:
        """A question of one rank alone takes no name, and what was joined for a question has taken one."""
        def body(rank: int) -> Any:
            with loader(rank, 2, shuffle=True) as train, loader(rank, 2) as val:
                beginning = train.state_dict()              # all ranks: there is none yet
                found = [taken(val)]
                for _ in range(2):
                    next(iter(train))                       # breaks off
                    found.append(taken(val))
                train.load_state_dict(beginning)
                train.set_epoch(3)
                if rank == 0:
                    train.state_dict()
                    self.assertEqual(len(train), 4)
                return found + [taken(val)], taken(train)

        found = together(2, body)
        for validated in zip(*(each for each, _ in found)):
            self.assertEqual(flat(steps_of(list(validated))), list(range(SAMPLES)))
        self.assertEqual(sorted(flat(steps_of([trained for _, trained in found]))), list(range(SAMPLES)))

    def test_copies_and_kept_batches(self) -> None:
        def body(rank: int) -> Any:
            device = LateDevice()
            with loader(rank, 2, shuffle=True, device=device) as train, loader(rank, 2, shuffle=True,
                    slots=4) as keeping:
                copies = sum(len(labels) for _, labels, _ in train)
                kept = [(images, images.clone()) for images, _, _ in keeping]
                return copies, all(torch.equal(images, before) for images,
                                   before in kept), device.unpinned_early

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = together(2, body)
        self.assertEqual(sum(copies for copies, _, _ in found), SAMPLES)
        self.assertEqual([rest for _, *rest in found], [[True, 0]] * 2)
        self.assertEqual([str(each) for each in caught if "batches are being kept" not in str(each.message)],
                         [])

    def test_a_distributed_sampler_splits_by_itself(self) -> None:
        def body(rank: int) -> Any:
            sampler = torch.utils.data.distributed.DistributedSampler(range(SAMPLES), 2, rank)
            with surroundings({}), loader(0, 1, sampler=sampler) as train:
                return [(train.set_epoch(epoch), taken(train))[1] for epoch in range(2)], len(train)

        #  One after the other, as the surroundings are the process's.
        found = [body(rank) for rank in range(2)]
        for epoch in range(2):
            ids = flat([ids for epochs, _ in found for ids, _ in epochs[epoch]])
            self.assertEqual(sorted(ids), list(range(SAMPLES)))
        self.assertEqual([length for _, length in found], [4, 4])

    def test_ranks_that_ask_for_different_things_are_told_so(self) -> None:
        def body(rank: int) -> Any:
            try:
                with loader(rank, 2, batch_size=3 + rank) as train:
                    iter(train)
            except tureen.RequestRefused as refused:
                return refused.code, refused.message

        for code, message in together(2, body):
            self.assertEqual(code, "ranks_differ")
            self.assertRegex(message, "rank 0 has batch_size 3, rank 1 batch_size 4|rank 1 has batch_size 4, "
                             "rank 0 ")


if __name__ == "__main__":
    unittest.main()

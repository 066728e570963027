"""tureen.torch against the real server, in loops that take batches ahead of their step and report what they
have trained: states of every order, over epochs, ranks, nodes and loops that are broken off.

Run by ctest (torch_trained), or by hand: TUREEN_BIN=build/release/bin python3
tests/clients/test_torch_trained.py [-v] [NAME]
"""
from __future__ import annotations

import gc
import json
import os
import pickle
import queue
import shutil
import sys
import tempfile
import threading
import unittest
import warnings
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "system"), str(HERE.parent.parent / "clients" / "python")]

import torch_or_skip                    # noqa: F401  # ends this program where there is no PyTorch
import harness

import tureen
from late_device import LateDevice
from prefetching_job import ahead
from tureen.torch import DataLoader

SAMPLES = 22
SAMPLER_IDS = [3, 21, 3, 0, 7, 8, 9, 12, 11, 20, 1, 2]
ORDERS: Dict[str, Dict[str, Any]] = {
    "in order": {}, "shared": {"shuffle": True}, "seeded": {"seed": 7},
    "dropped": {"shuffle": True, "drop_last": True}, "sampler": {"sampler": SAMPLER_IDS}}


def setUpModule() -> None:
    global SERVER
    folder = tempfile.mkdtemp(prefix="tu-trained-", dir="/tmp")
    unittest.addModuleCleanup(shutil.rmtree, folder, ignore_errors=True)
    data = os.path.join(folder, "train")
    harness.make_folder(data, SAMPLES, classes=3, seed=harness.SEED, sizes=((20, 30), (20, 30)))
    SERVER = harness.Server({"train": data})
    SERVER.__enter__()
    unittest.addModuleCleanup(SERVER.__exit__, None, None, None)


def loader(**options: Any) -> DataLoader:
    return DataLoader("train", **{"batch_size": 5, "ids": True, "slots": 8, "endpoint": SERVER.endpoint,
                                  "transform": [{"op": "resize", "size": [16, 16]}], "state_of": "trained",
                                  "timeout": harness.PATIENCE, **options})


def loops(train: DataLoader, count: int) -> Iterator[Any]:
    for _ in range(count):
        yield from train


def place(state: Any) -> Tuple[int, int]:
    """Its epoch, and batches of that."""
    inner = state.get("loader", state)
    return int(state["epoch"]), 0 if inner is None else int(inner["batches"])


class Trained(unittest.TestCase):
    def tearDown(self) -> None:
        gc.collect()
        harness.wait_until("no job is left", lambda: not SERVER.status()["jobs"])

    def rest(self, state: Any, order: Dict[str, Any]) -> List[int]:
        """What a new loader's first loop gives from there."""
        if "sampler" in order:
            order = {"sampler": [*range(SAMPLES)]}      # of another epoch than that of a list in the state
        with loader(state_of="given", **order) as train:
            train.load_state_dict(json.loads(json.dumps(state)))
            return [id for batch in train for id in batch[-1].tolist()]

    def test_every_step_in_every_order(self) -> None:
        """A prefetcher that runs over the ends of the epochs and hands on other objects.  At each step the
        samples that were trained and those that the state leaves are the epoch."""
        for name, order in ORDERS.items():
            whole = sorted(SAMPLER_IDS) if name == "sampler" else [*range(SAMPLES)]
            with loader(**order) as train:
                self.assertEqual(place(train.state_dict()), (0, 0))
                steps = len(train)
                moved = ((*batch[:-1], batch[-1].tolist()) for batch in loops(train, 3))
                trained: List[int] = []
                for step, (_, labels, ids) in enumerate(ahead(moved, 4), 1):
                    trained = ids if step % steps == 1 else trained + ids
                    train.trained(*([labels],) * (step % 2))
                    state = train.state_dict()
                    self.assertEqual(place(state), divmod(step, steps))
                    if step % steps in (0, 2):
                        with self.subTest(name, step=step):
                            rest = self.rest(state, order)
                            if step % steps == 0:
                                size = 20 if name == "dropped" else SAMPLES
                                listed = name == "sampler" and state["list"] is not None
                                self.assertEqual(len(rest), len(SAMPLER_IDS) if listed else size)
                            elif name == "dropped":
                                self.assertEqual((len({*trained, *rest}), len(trained + rest)), (20, 20))
                            else:
                                self.assertEqual(sorted(trained + rest), whole)
                self.assertEqual(place(train.state_dict()), (3, 0))
                with self.assertRaisesRegex(RuntimeError, "reported already"):
                    train.trained()

    def test_a_thread_that_prefetches(self) -> None:
        """The kind of most scripts.  The state that is saved in the middle goes on with what was not
        trained; without reports it lacks what the thread had taken."""
        for state_of, missing in (("trained", 0), ("given", 15)):
            with loader(shuffle=True, state_of=state_of) as train:
                filled: queue.Queue[Any] = queue.Queue(2)

                def fill() -> None:
                    for batch in train:
                        filled.put(batch)
                    filled.put(None)
                thread = threading.Thread(target=fill)
                thread.start()
                trained = filled.get()[-1].tolist()
                #  Two batches lie in the queue, and the thread holds a third one that does not fit
                harness.wait_until("the thread waits", lambda: train.stats()["batches"] == 4)
                if state_of == "trained":
                    train.trained()
                ids = trained + self.rest(train.state_dict(), {"shuffle": True})
                self.assertEqual((len(ids), len(set(ids))), (SAMPLES - missing,) * 2)
                while filled.get() is not None:
                    pass
                thread.join()

    def test_what_is_no_report(self) -> None:
        with loader(shuffle=True) as train, loader(shuffle=True, state_of="given") as other:
            with self.assertRaisesRegex(RuntimeError, "reported already"):
                train.trained()
            batches = iter(train)
            first, second = next(batches), next(batches)
            for batch, why in ((second, "batch 1 of its epoch is reported as trained before batch 0"),
                               (tuple(tensor.clone() for tensor in first), "as .to.device. makes"),
                               (next(iter(other)), "no batch that waits to be reported")):
                with self.assertRaisesRegex(ValueError, why):
                    train.trained(batch)
            self.assertEqual(place(train.state_dict()), (0, 0))
            train.trained(first)
            with self.assertRaisesRegex(ValueError, "reported before"):
                train.trained(first)
            train.trained(second[0])                            # a tensor of it
            self.assertEqual(place(train.state_dict()), (0, 2))
            with self.assertRaisesRegex(RuntimeError, "state_of=\"trained\""):
                other.trained()
        with self.assertRaisesRegex(ValueError, "state_of is 'trained so far'"):
            loader(state_of="trained so far")

    def test_copies_on_a_device(self) -> None:
        with loader(shuffle=True, device=LateDevice(), fields=True) as train:
            for step, batch in enumerate(ahead(train, 1), 1):
                train.trained(batch)
                self.assertEqual(place(train.state_dict())[1], step % len(train))

    def test_a_loop_that_is_broken_off(self) -> None:
        """Until the next loop its state is where it was trained; that loop begins the next epoch, and what
        was not reported is given up: also of a job that keeps its name, and takes the rest itself."""
        for name, options in (("shared", {"job": "broken"}), *ORDERS.items()):
            with self.subTest(name), loader(**{**ORDERS[name], **options}) as train:
                for batch in ahead(train, 1):
                    train.trained(batch)
                    break
                self.assertEqual(place(train.state_dict()), (0, 1))
                batches = iter(train)
                old, batch = batch, next(batches)
                self.assertEqual(place(train.state_dict()), (1, 0))
                with self.assertRaisesRegex(ValueError, "no batch that waits"):
                    train.trained(old)
                train.trained(batch)
                self.assertEqual(place(train.state_dict()), (1, 1))
                state = train.state_dict()
                next(batches)
                train.load_state_dict(state)
                self.assertEqual(train.state_dict(), state)
                with self.assertRaisesRegex(RuntimeError, "reported already"):
                    train.trained()
                train.set_epoch(4)
                self.assertEqual(place(train.state_dict()), (4, 0))
                del batches, old, batch

    def test_taken_to_the_last_batch_and_not_to_the_end(self) -> None:
        """The report of the last batch is the epoch's end.  A loop that counts its batches breaks nothing
        off: what waits stays, and is reported in the next epoch's loop."""
        for name in ("shared", "sampler"):
            with self.subTest(name), loader(**ORDERS[name]) as train:
                for batch in train:
                    train.trained(batch)
                    state = train.state_dict()
                self.assertEqual((place(state), train.state_dict()), ((1, 0), state))
            with self.subTest(name), loader(**ORDERS[name]) as train:
                first = [batch for _, batch in zip(range(len(train)), train)]
                for batch in first[:-1]:
                    train.trained(batch)
                following = iter(train)
                batch = next(following)
                self.assertEqual(place(train.state_dict()), (0, len(first) - 1))
                train.trained(first[-1])
                self.assertEqual(place(train.state_dict()), (1, 0))
                train.trained(batch)
                self.assertEqual(place(train.state_dict()), (1, 1))

    def test_a_job_that_ends_before_its_first_batch(self) -> None:
        """The next one begins where nothing was given; what was given before is still to be reported."""
        for name in ("shared", "sampler"):
            with self.subTest(name), loader(**ORDERS[name]) as train:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", tureen.TureenWarning)       # none is reported yet
                    first = list(train)
                batches = iter(train)
                gone = mock.Mock(side_effect=tureen.ServerGone("gone"))
                with mock.patch.object(train._iterator, "next_in_epoch", gone), \
                        self.assertRaises(tureen.ServerGone):
                    next(batches)
                del batches
                for batch in first[:-1]:
                    train.trained(batch)
                second = list(train)
                self.assertEqual((place(train.state_dict()), len(second)), ((0, len(first) - 1), len(first)))
                train.trained(first[-1])
                self.assertEqual(place(train.state_dict()), (1, 0))
                for batch in second:
                    train.trained(batch)
                self.assertEqual(place(train.state_dict()), (2, 0))

    def test_ranks(self) -> None:
        """Behind the same step both say the same, however far each has taken.  One process goes on."""
        states: Dict[int, List[Any]] = {}
        trained: Dict[int, List[int]] = {0: [], 1: []}
        failed: List[BaseException] = []

        def run(rank: int) -> None:
            try:
                with loader(batch_size=3, shuffle=True, rank=rank, world_size=2, job="ahead") as train:
                    states[rank] = []
                    for batch in ahead(train, 2 * rank):
                        if len(states[rank]) < 2:
                            trained[rank] += batch[-1].tolist()
                        train.trained(batch)
                        states[rank].append(train.state_dict())
            except BaseException as error:
                failed.append(error)
        threads = [threading.Thread(target=run, args=(rank,)) for rank in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])
        self.assertEqual(states[0], states[1])
        self.assertEqual([place(state) for state in states[0]], [(0, 1), (0, 2), (0, 3), (1, 0)])
        ids = trained[0] + trained[1] + self.rest(states[0][1], {"shuffle": True})
        self.assertEqual(sorted(ids), [*range(SAMPLES)])

    def test_nodes(self) -> None:
        """The states of the nodes behind the same step merge."""
        states, trained = [], []
        for node in (0, 1):
            with loader(batch_size=3, shuffle=True, nodes=2, node=node, rank=0, world_size=1) as train:
                for step, batch in enumerate(ahead(train, 1 + node), 1):
                    trained += batch[-1].tolist()
                    train.trained(batch)
                    if step == 2:
                        break
                states.append(train.state_dict())
        ids = trained + self.rest(tureen.merge_states(states), {"shuffle": True})
        self.assertEqual(sorted(ids), [*range(SAMPLES)])

    def test_copied_before_use(self) -> None:
        with pickle.loads(pickle.dumps(loader(shuffle=True))) as train:
            for batch in train:
                train.trained(batch)
            self.assertEqual(place(train.state_dict()), (1, 0))


if __name__ == "__main__":
    unittest.main()

"""The Python client's state: what it says, what is refused, and that what is gone on with is just what was
not given.

Run by ctest (python_state), or by hand from anywhere: python3 tests/clients/test_python_state.py [-v] [NAME]
"""
from __future__ import annotations

import base64
import copy
import itertools
import json
import math
import os
import pickle
import random
import threading
import unittest
import warnings
from typing import Any, Callable, Dict, List, Optional, Tuple
from unittest import mock

from client_checks import GOLDEN, SEED, Tidy, request, until

import numpy as np

import tureen
from fake_server import JOIN, FakeServer
from prefetching_job import ahead
from tureen import state as states
from tureen import wire
from tureen.position import Position
from tureen.state import State

RUN = "4b7c0123456789abcdef0123456789ab"


def plain(**changed: Any) -> State:
    mask = np.zeros(changed.get("samples", 300), np.bool_)
    mask[changed.pop("ids", [])] = True
    values: Dict[str, Any] = dict(
        dataset="train", fingerprint="6d0c", data="9e1f00aa12bc34de", samples=300, order="shared", seed=7,
        pool=0, run=RUN, epoch=0, batches=0, count=int(mask.sum()), words=states.pack_words(mask),
        places=None)
    values.update(changed)
    return State(**values)


def head(epoch: int, place: int, samples: int) -> wire.BatchHead:
    return wire.BatchHead(0, epoch, place, 0, samples, 0)


def signed(value: Dict[str, Any]) -> Dict[str, Any]:
    """With the checksum of what it now holds."""
    return {**value, "checksum": states._checksum(value)}


class Begin(unittest.TestCase):
    def test_where_an_epoch_begins(self) -> None:
        """Nothing is taken of it, whatever was taken of another epoch, and it is the whole job's state."""
        part = states.Part(3, 1, "fresh", 2, 1, states.pack_words(np.ones(1, np.bool_)), None)
        listed = states.Part(3, 1, "fresh", 2, 4, b"", 4)
        for state in (plain(ids=[3, 70]), plain(ids=[0, 3], epoch=4, batches=5, part=part),
                      plain(order="list", count=9, places=9), plain(order="seeded", pool=64, ids=[1]),
                      plain(order="list", count=9, places=9, batches=5, part=listed)):
            for epoch in (0, 1, 9):
                begin = state.at_epoch(epoch)
                self.assertEqual((begin.epoch, begin.batches, begin.count, begin.words, begin.part),
                                 (epoch, 0, 0, b"", None))
                self.assertEqual(begin.places, None if state.places is None else 0)
                self.assertEqual(states.parse(states.pack(begin)), begin)
                self.assertEqual(begin[:8], state[:8])


class Object(unittest.TestCase):
    def test_golden(self) -> None:
        """The files that both clients read and write: docs/state.md says what is in them."""
        shared = json.loads((GOLDEN / "state_shared.json").read_text(encoding="utf-8"))
        state = states.parse(shared)
        self.assertEqual(np.flatnonzero(state.mask()).tolist(), [0, 1, 63, 64, 130, 299])
        self.assertEqual((state.dataset, state.samples, state.seed, state.epoch, state.batches, state.places),
                         ("träin", 300, 2**64 - 1, 3, 2, None))
        self.assertEqual(states.pack(state), shared)
        listed = json.loads((GOLDEN / "state_list.json").read_text(encoding="utf-8"))
        self.assertEqual((states.parse(listed).places, states.parse(listed).order), (1088, "list"))
        self.assertEqual(states.pack(states.parse(listed)), listed)
        self.assertEqual(list(states.pack(states.parse(listed))), list(listed))

    def test_round_trip(self) -> None:
        chance = random.Random(SEED)
        for _ in range(300):
            samples = chance.choice((1, 63, 64, 65, 300, 1000))
            ids = chance.sample(range(samples), chance.randint(0, samples))
            state = plain(samples=samples, ids=ids, epoch=chance.randrange(2**53),
                          batches=chance.randrange(2**40), seed=chance.randrange(2**64))
            written = json.loads(json.dumps(states.pack(state)))
            self.assertEqual(states.parse(written), state)
            self.assertEqual(np.flatnonzero(states.parse(written).mask()).tolist(), sorted(ids))

    def test_every_byte_damaged(self) -> None:
        """Another byte anywhere in the file is noticed: it is no JSON, or StateError.  Nothing else is
        raised."""
        chance = random.Random(SEED)
        value = states.pack(plain(ids=[0, 1, 63, 64, 130, 299], epoch=3, batches=2))
        text = json.dumps(value).encode()
        for place in range(len(text)):
            for byte in {text[place] ^ 1 << chance.randrange(8),
                         ord(chance.choice('0a"{}[], A'))} - {text[place]}:
                damaged = text[:place] + bytes([byte]) + text[place + 1:]
                try:
                    read = json.loads(damaged)
                except ValueError:
                    continue
                if read != value:
                    with self.assertRaises(tureen.StateError, msg=damaged):
                        states.parse(read)
            with self.assertRaises(ValueError):
                json.loads(text[:place])

    def test_every_field_wrong(self) -> None:
        """With a checksum that is right: what no state holds is named."""
        good = states.pack(plain(ids=[3, 70], epoch=3, batches=2))
        listed = states.pack(plain(order="list", places=5, count=5))
        anything: List[Any] = [None, 1.5, True, -1, "", "x", "-1", "01", "1 ", "\u0663", [], {}, "1" * 21,
                               str(2**64), "\ud800"]
        strings = {"dataset": [None, 7, [], "\ud800"], "order": [None, "sorted", "list ", 7],
                   "fingerprint": anything[:6] + ["XYZ", "6D0C"],
                   "data": anything[:6] + ["ab", "9e1f00aa12bc34dE"],
                   "run": anything[:6] + [RUN[:-1], RUN + "0", RUN.upper()]}
        wrong: List[Tuple[str, Any]] = [(key, value) for key, values in strings.items() for value in values]
        wrong += [(key, value) for key in ("samples", "seed", "epoch", "batches") for value in anything]
        wrong += [("samples", "0"), ("samples", "70"), ("pool", "0"), ("pool", 4096), ("pool", True),
                  ("tureen_state", 2),
                  ("tureen_state", "1"), ("tureen_state", True)]
        words = base64.b64encode(bytes([8])).decode()
        beyond = base64.b64encode(bytes(37) + bytes([0x80, 0, 0])).decode()
        for taken in ({}, {"count": "2"}, {"words": ""}, {"places": "5"}, {"count": "1", "words": words},
                      None, 5,
                      {"count": "3", "words": good["taken"]["words"]},
                      {"count": 2, "words": good["taken"]["words"]},
                      {"count": "0", "words": "AAAAAAAAAAA="}, {"count": "0", "words": 5},
                      {"count": "1", "words": beyond},
                      {"count": "0", "words": "*"}, {"count": "2", "words": good["taken"]["words"] + "\n"},
                      {"count": "2", "words": good["taken"]["words"], "places": "5"}):
            wrong.append(("taken", taken))
        for key, value in wrong:
            changed = {**good, key: value}
            try:
                changed = signed(changed)
            except (KeyError, TypeError, UnicodeEncodeError):
                pass
            with self.subTest(key=key, value=value), self.assertRaises(tureen.StateError):
                states.parse(changed)
        for value in (None, 5, "state", [], {}, {**good, "more": 1},
                      *({k: v for k, v in good.items() if k != key}
                                                                        for key in good)):
            with self.subTest(value=value), self.assertRaises(tureen.StateError):
                states.parse(value)
        with self.assertRaisesRegex(tureen.StateError, "checksum is '00000000'"):
            states.parse({**good, "checksum": "00000000"})
        for places in ("-1", 5, None, "01"):
            with self.assertRaises(tureen.StateError):
                states.parse(signed({**listed, "taken": {"places": places}}))


class Positions(unittest.TestCase):
    """Positions beside a simple model."""

    def test_samples_of_any_order(self) -> None:
        for seed in range(SEED, SEED + 30):
            chance = random.Random(seed)
            samples = chance.choice((1, 2, 63, 64, 65, 200))
            position = Position(samples, None, plain(samples=samples))
            for epoch in range(3):
                left = chance.sample(range(samples), samples)
                place = 0
                while left:
                    ids = [left.pop() for _ in range(min(len(left), chance.randint(1, 9)))]
                    batch = head(epoch, place, len(ids))
                    position.check_next(batch, np.array(ids, np.uint64))
                    for _ in range(chance.randint(1, 2)):       # noted again: nothing changes
                        position.note(batch, np.array(ids, np.uint64))
                    place += 1
                    count, words = position.taken()
                    gone = sorted(set(range(samples)) - set(left))
                    self.assertEqual((position.epoch, position.batches, position.count, count),
                                     (epoch, place, len(gone), len(gone)), f"seed {seed}")
                    self.assertEqual(np.flatnonzero(states.unpack_words(words, samples)).tolist(), gone,
                                     f"seed {seed}")
                    if chance.randrange(3) == 0:                # another process goes on
                        begin = plain(samples=samples, ids=gone, epoch=epoch, batches=place)
                        position = Position(samples, None, states.parse(states.pack(begin)))
                position.end(epoch)
                self.assertEqual((position.epoch, position.batches, position.taken()),
                                 (epoch + 1, 0, (0, b"")))

    def test_places_of_a_list(self) -> None:
        """Repeats, and samples that cannot be read: behind the last sample of a batch is its place, whatever
        was left out."""
        for seed in range(SEED, SEED + 300):
            chance = random.Random(seed)
            listed = [chance.randrange(6) for _ in range(chance.randint(1, 40))]
            unreadable = {sample for sample in range(6) if chance.randrange(5) == 0}
            position = Position(6, np.array(listed, np.uint64), plain(samples=6, order="list", places=0))
            readable = [place for place, sample in enumerate(listed) if sample not in unreadable]
            for number, begin in enumerate(range(0, len(readable), 4)):
                places = readable[begin:begin + 4]
                ids = np.array([listed[place] for place in places], np.uint64)
                position.note(head(0, number, len(ids)), ids)
                self.assertEqual(position.count, places[-1] + 1, f"seed {seed}")
                state = plain(samples=6, order="list", batches=number + 1, count=position.count,
                              places=position.count)
                position = Position(6, np.array(listed, np.uint64), states.parse(states.pack(state)))

    def test_what_no_server_may_send(self) -> None:
        position = Position(10, None, plain(samples=10))
        for batch, ids in ((head(1, 0, 1), [0]), (head(0, 1, 1), [0]), (head(0, 0, 1), [10]),
                           (head(0, 0, 1), [2**64 - 1])):
            with self.assertRaises(tureen.ProtocolError):
                position.check_next(batch, np.array(ids, np.uint64))
        listed = Position(10, np.array([1, 2, 1], np.uint64), plain(samples=10, order="list", places=0))
        listed.note(head(0, 0, 2), np.array([1, 2], np.uint64))
        for ids in ([2], [1, 1], [3]):
            with self.assertRaises(tureen.ProtocolError):
                listed.note(head(0, 1, len(ids)), np.array(ids, np.uint64))


class Request(unittest.TestCase):
    def test_resume_in_the_join(self) -> None:
        state = plain(ids=[3, 70], epoch=3, batches=2, order="seeded", pool=64, seed=2**64 - 1)
        frames = request(order=None, seed=None, subset=range(0, 80), job="trial").message(1, "ab" * 16, state)
        said = json.loads(frames[1])
        self.assertEqual({key: said[key] for key in ("order", "seed", "pool", "job", "instance", "run",
                                                     "resume", "frames")}, {
            "order": "seeded", "seed": str(2**64 - 1), "pool": 64, "job": "trial", "instance": "ab" * 16,
            "run": RUN, "resume": {"fingerprint": "6d0c", "data": "9e1f00aa12bc34de", "epoch": "3",
                                   "batches": "2", "places": "0"},
            "frames": ["subset", "taken"]})
        self.assertEqual(frames[3], wire.pack_ids(wire.IDS_WORDS, [8, 64]))
        listed = request(order="list", ids=[1, 2, 1]).message(1, "", plain(order="list", count=2, places=2))
        self.assertEqual(json.loads(listed[1])["resume"]["places"], "2")
        self.assertEqual(json.loads(listed[1])["frames"], ["list"])

    def test_golden(self) -> None:
        """Frame by frame; an order that was not said comes from the state."""
        lines = (GOLDEN / "join_resume_list.hex").read_text(encoding="utf-8").splitlines()
        golden = [bytes.fromhex(line) for line in lines if not line.startswith("#")]
        said = json.loads(golden[1])
        state = plain(order="list", places=4, count=4, epoch=1, batches=2, run=said["run"],
                      fingerprint=said["resume"]["fingerprint"], data=said["resume"]["data"])
        listed = request(order="list", ids=[5, 3, 3, 2999, 0, 5], batch_size=2, epochs=None, seed=None)
        self.assertEqual(listed.message(11, said["instance"], state), golden)
        lines = (GOLDEN / "join_resume.hex").read_text(encoding="utf-8").splitlines()
        golden = [bytes.fromhex(line) for line in lines if not line.startswith("#")]
        said = json.loads(golden[1])
        state = plain(samples=3000, order="private", epoch=3, batches=17, run=said["run"],
                      ids=[*range(10), *range(20, 30), *range(1000, 2068)],
                      fingerprint=said["resume"]["fingerprint"], data=said["resume"]["data"])
        scattered = request(order="private", epochs=4, subset=range(0, 3000), job=said["job"], seed=None)
        frames = scattered.message(10, said["instance"], state)
        self.assertEqual(frames[0], golden[0])
        #  Words are one frame here
        self.assertEqual(frames[1], golden[1].replace(b'"taken","taken"', b'"taken"'))

    def test_many_words_go_in_several_frames(self) -> None:
        samples = 64 * wire.ID_FRAME_NUMBERS_MAX + 100
        state = plain(samples=samples, ids=[5, samples - 1])
        frames = request().message(1, "", state)
        self.assertEqual(json.loads(frames[1])["frames"], ["taken", "taken"])
        self.assertEqual([len(frame) for frame in frames[2:]], [wire.FRAME_BYTES_MAX, 8 + 16])


class Going(Tidy):
    """Loaders that go on where others stopped."""
    ORDERS: Dict[str, Dict[str, Any]] = {
        "shared": {}, "private": {"order": "private"}, "seeded": {"order": "seeded", "seed": 5},
        "subset": {"subset": range(3, 15)}, "ascending": {"order": "list"}, "drop_last": {"drop_last": True},
        "list": {"order": "list", "ids": [7, 7, 3, 9, 7, 0, 1, 2, 9, 9, 4, 19]}}

    def joins(self, server: FakeServer) -> List[Dict[str, Any]]:
        return [json.loads(frames[1]) for frames in server.messages if frames[0][5] == JOIN]

    def test_every_step(self) -> None:
        """Stopped after each batch, the state through JSON into another loader: what comes is what had not
        been given, the batches are counted on, and the state of both together is the state of one that went
        all the way."""
        for name, how in self.ORDERS.items():
            server = self.server(20)
            server.shuffled = name in ("shared", "private", "drop_last")
            server.unreadable = {9} if name == "list" else set()
            whole = [(batch.epoch, batch.index, batch.ids.tolist())
                     for batch in tureen.Loader(server.endpoint, batch_size=3, epochs=2, **how)]
            for step in range(len(whole) + 1):
                with self.subTest(name, step=step):
                    self._stop_after(server, how, whole, step)

    def _stop_after(self, server: FakeServer, how: Dict[str, Any], whole: List[Any], step: int) -> None:
        with tureen.Loader(server.endpoint, batch_size=3, epochs=2, **how) as first:
            seen = [(batch.epoch, batch.index, batch.ids.tolist()) for _, batch in zip(range(step), first)]
            state = json.loads(json.dumps(first.state_dict()))
            self.assertEqual(first.state_dict(), state)
        self.assertEqual(first.state_dict(), state)     # closed, and still it tells
        second = tureen.Loader(server.endpoint, batch_size=3, epochs=2, **how)
        second.load_state_dict(state)
        self.assertEqual(second.state_dict(), state)
        seen += [(batch.epoch, batch.index, batch.ids.tolist()) for batch in second]
        second.close()
        self.assertEqual((second.state_dict()["epoch"], second.state_dict()["batches"]), ("2", "0"))
        for epoch in (0, 1):
            ids, wanted = ([id for place in run if place[0] == epoch for id in place[2]]
                           for run in (seen, whole))
            if server.shuffled:
                #  All, or all but the dropped
                self.assertEqual((len(set(ids)), len(ids)), (len(wanted), len(wanted)))
            else:
                self.assertEqual(ids, wanted)
            #  (A batch in which one cannot be read is shorter; which one that is depends on where it begins.)
            places = [place[1] for place in seen if place[0] == epoch]
            self.assertEqual(places, list(range(len(places))))
            self.assertTrue(server.unreadable or len(places)
                            == len([place for place in whole if place[0] == epoch]))

    def test_where_a_loaded_state_is_used(self) -> None:
        """By the first iter after it, once; until then it is what the loader tells, however often it is
        loaded."""
        server = self.server(20)
        first = tureen.Loader(server.endpoint, batch_size=8, epochs=3)
        next(iter(first))
        state = first.state_dict()
        first.close()
        loader = tureen.Loader(server.endpoint, batch_size=8, epochs=3)
        loader.load_state_dict(state)
        loader.load_state_dict(copy.deepcopy(state))
        self.assertEqual(loader.state_dict(), state)
        self.assertEqual(len(self.joins(server)), 1)    # local
        self.assertEqual(loader.samples, 20)            # a question: joined where it will begin
        self.assertEqual(self.joins(server)[1]["resume"]["batches"], "1")
        self.assertEqual(loader.state_dict(), state)
        iterator = iter(loader)
        self.assertEqual(len(self.joins(server)), 2)
        self.assertEqual(iterator.state_dict(), {**state, "run": iterator.state_dict()["run"],
                                                 "checksum": iterator.state_dict()["checksum"]})
        self.assertEqual(next(iterator).ids.tolist(), list(range(8, 16)))
        self.assertEqual(next(iter(loader)).ids.tolist(), list(range(8)))
        self.assertNotIn("resume", self.joins(server)[2])

    def test_failed_join_keeps_the_state(self) -> None:
        server = self.server(20)
        first = tureen.Loader(server.endpoint, batch_size=8)
        next(iter(first))
        state = first.state_dict()
        first.close()
        loader = tureen.Loader(server.endpoint, batch_size=8)
        loader.load_state_dict(state)
        server.refusal = ("bad_state", "the data set's files have changed")
        for _ in range(2):
            with self.assertRaisesRegex(tureen.RequestRefused, "files have changed") as caught:
                iter(loader)
            self.assertEqual(caught.exception.code, "bad_state")
        server.refusal = None
        self.assertEqual(loader.state_dict(), state)
        self.assertEqual(next(iter(loader)).index, 1)

    def test_states_of_other_loaders(self) -> None:
        def state(**changed: Any) -> Dict[str, Any]:
            return states.pack(plain(**changed))
        cases: List[Tuple[Dict[str, Any], Dict[str, Any], Optional[str]]] = [
            ({"order": "private"}, state(), "'shared'.*'private'"),
            ({"order": "shared"}, state(order="private"), "'private'"),
            ({"seed": 7}, state(), "'shared'.*'seeded'"), ({}, state(order="seeded", pool=64), None),
            ({"order": "seeded", "pool": 32}, state(order="seeded", pool=64), "pool 64.*pool 32"),
            ({"order": "seeded", "pool": 32}, state(order="seeded"), "pool None.*pool 32"),
            ({"order": "seeded"}, state(order="seeded", pool=64), None),
            ({"seed": 7}, state(order="seeded"), None),
            ({"seed": 9}, state(order="seeded"), "seed 7.*seed 9"),
            ({"order": "shared", "seed": 9}, state(), "seed 7.*seed 9"),
            ({"dataset": "other"}, state(), None), ({"order": "list"}, state(order="list", places=2, count=2),
                                                    "same ids"),
            ({"order": "list", "ids": [1, 2]}, state(order="list"), "no ids"),
            ({"order": "list", "ids": [1, 2]}, state(order="list", places=3, count=3), "3 places.*only 2"),
            ({"epochs": 2}, state(epoch=3), "epoch 3.*epochs=2"), ({"epochs": 2}, state(epoch=2), None)]
        for how, value, error in cases:
            with self.subTest(how):
                loader = tureen.Loader("ipc:///nonexistent", **how)
                if error is None:
                    loader.load_state_dict(value)
                    self.assertEqual(loader.state_dict(), value)
                else:
                    with self.assertRaisesRegex(tureen.StateError, error):
                        loader.load_state_dict(value)

    def test_order_pool_and_seed_come_from_the_state(self) -> None:
        server = self.server(20)
        for how in ({}, {"seed": 7}):
            loader = tureen.Loader(server.endpoint, batch_size=8, **how)
            loader.load_state_dict(states.pack(plain(samples=20, order="seeded", pool=64, epoch=2)))
            self.assertEqual(next(iter(loader)).epoch, 2)
            said = self.joins(server)[-1]
            self.assertEqual((said["order"], said["pool"], said["seed"], said["run"]),
                             ("seeded", 64, "7", RUN))
            state = loader.state_dict()
            self.assertEqual((state["order"], state["pool"], state["seed"]), ("seeded", 64, "7"))

    def test_asked_while_another_thread_joins(self) -> None:
        """A caller that asks then is told of the job that is being joined, and joins none."""
        server = self.server(20)
        loader = tureen.Loader(server.endpoint, batch_size=8)
        runs: List[str] = []
        samples: List[int] = []
        asking = [threading.Thread(target=lambda: runs.append(loader.state_dict()["run"])),
                  threading.Thread(target=lambda: samples.append(loader.samples))]
        join = tureen.Loader._join

        def slowly(self: tureen.Loader, begin: Any) -> Any:
            for thread in asking:
                if not thread.is_alive():
                    thread.start()
            asking[0].join(0.2)                         # long enough for what should not be done
            return join(self, begin)
        with mock.patch.object(tureen.Loader, "_join", slowly):
            iterator = iter(loader)
        for thread in asking:
            thread.join(50)
        self.assertEqual(len(self.joins(server)), 1)
        self.assertEqual((runs, samples), ([iterator.state_dict()["run"]], [20]))

    def test_other_data_after_all(self) -> None:
        """What a server lets pass that has another number of samples."""
        server = self.server(20)
        loader = tureen.Loader(server.endpoint, batch_size=8)
        loader.load_state_dict(states.pack(plain(samples=21)))
        with self.assertRaisesRegex(tureen.StateError, "21 samples.*20"):
            iter(loader)

    def test_state_at_its_end(self) -> None:
        server = self.server(20)
        loader = tureen.Loader(server.endpoint, batch_size=8, epochs=2, drop_last=True)
        state = states.pack(plain(samples=20, epoch=2))
        loader.load_state_dict(state)
        iterator = iter(loader)
        self.assertEqual(list(iterator), [])
        self.assertEqual(iterator.epoch, 2)
        self.assertEqual(iterator.state_dict(), state)
        self.assertEqual(loader.state_dict(), state)
        self.assertEqual(server.jobs, {})
        self.assertEqual(loader.samples, 20)
        self.assertEqual(loader.state_dict(), state)
        self.assertEqual(sum(1 for _ in loader), 4)     # and then it is a loader as any other

    def test_set_epoch(self) -> None:
        server = self.server(20)
        loader = tureen.Loader(server.endpoint, batch_size=8, epochs=3)
        for epoch, wanted in ((0, 9), (1, 6), (2, 3), (3, 0), (0, 9)):
            loader.set_epoch(epoch)
            self.assertEqual((loader.state_dict()["epoch"], loader.state_dict()["batches"]),
                             (str(epoch), "0"))
            places = [(batch.epoch, batch.index) for batch in loader]
            self.assertEqual(places, [(epoch + step // 3, step % 3) for step in range(wanted)])
        self.assertEqual(len({said.get("seed") for said in self.joins(server)[1:]}), 1)
        for epoch in (-1, 4, 1.5):
            with self.assertRaises((ValueError, TypeError)):
                loader.set_epoch(epoch)  # type: ignore[arg-type]
        state = states.pack(plain(samples=20, ids=range(8), epoch=1, batches=1))
        loader.load_state_dict(state)
        #  As loops do that set each epoch: it is in the midst of it
        loader.set_epoch(1)
        self.assertEqual(loader.state_dict(), state)
        self.assertEqual(next(iter(loader)).index, 1)
        loader.load_state_dict(state)
        loader.set_epoch(2)
        batch = next(iter(loader))
        self.assertEqual((batch.epoch, batch.index), (2, 0))

    def test_epochs_one_by_one(self) -> None:
        server = self.server(20)
        loader = tureen.Loader(server.endpoint, batch_size=8, epochs=2)
        loader.load_state_dict(states.pack(plain(samples=20, ids=range(8), batches=1)))
        iterator = iter(loader)
        seen: List[Any] = []
        for _ in range(7):
            epoch = iterator.epoch
            batch = iterator.next_in_epoch()
            seen.append(None if batch is None else (batch.epoch, batch.index))
            self.assertTrue(batch is None or batch.epoch == epoch)
            self.assertEqual(iterator.state_dict()["epoch"], str(iterator.epoch))
        self.assertEqual(seen, [(0, 1), (0, 2), None, (1, 0), (1, 1), (1, 2), None])
        for _ in range(2):
            with self.assertRaises(StopIteration):
                iterator.next_in_epoch()
        self.assertEqual(iterator.epoch, 2)

    def test_state_of_a_loader_that_is_not_iterated(self) -> None:
        """It joins, for the question; and no more than that."""
        server = self.server(20)
        loader = tureen.Loader(server.endpoint, batch_size=8)
        state = loader.state_dict()
        self.assertEqual((state["samples"], state["order"], state["epoch"], state["taken"]),
                         ("20", "shared", "0", {"count": "0", "words": ""}))
        next(iter(loader))
        self.assertEqual(len(server.jobs), 1)
        loader.close()
        with self.assertRaises(tureen.LoaderClosed):
            loader.load_state_dict(state)

    def test_leaving(self) -> None:
        server = self.server(20)
        iterator = iter(tureen.Loader(server.endpoint, batch_size=8))
        next(iterator)
        iterator.leave()
        until(lambda: server.job().ended, "the job's end")
        with self.assertRaises(tureen.LoaderClosed):
            next(iterator)
        self.assertEqual(iterator.state_dict()["batches"], "1")

    def test_pickled_before_use(self) -> None:
        """With the state that was loaded; and the copy is a client of its own."""
        server = self.server(20)
        loader = tureen.Loader(server.endpoint, batch_size=8)
        state = states.pack(plain(samples=20, ids=range(8), batches=1))
        loader.load_state_dict(state)
        server.refusal = ("busy", "too many jobs")
        with self.assertRaises(tureen.RequestRefused):
            iter(loader)                                # has drawn its instance
        server.refusal = None
        copies = [loader, pickle.loads(pickle.dumps(loader)), copy.copy(loader)]
        for each in copies:
            self.assertEqual(each.state_dict(), state)
            self.assertEqual(next(iter(each)).index, 1)
        instances = [said["instance"] for said in self.joins(server)[1:]]
        self.assertEqual(len(set(instances)), 3)
        self.assertTrue(all(len(instance) == 32 for instance in instances))
        next(iter(loader))
        self.assertEqual(self.joins(server)[-1]["instance"], instances[0])

    def test_forked_after_use(self) -> None:
        server = self.server(20)
        loader = tureen.Loader(server.endpoint, batch_size=8)
        next(iter(loader))
        state = loader.state_dict()
        child = os.fork()
        if child == 0:
            refused = 0
            uses: List[Callable[[], Any]] = [
                loader.state_dict, lambda: loader.load_state_dict(state), lambda: loader.set_epoch(1),
                loader.stats, lambda: loader.explain(1)]
            for use in uses:
                try:
                    use()
                except tureen.ForkedProcess:
                    refused += 1
            os._exit(10 + refused)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 15)

    def test_batches_that_are_held_outlive_going_on(self) -> None:
        """With the run the server would end what is left of the job, and empty what is looked at."""
        server = self.server(20)
        loader = tureen.Loader(server.endpoint, batch_size=8)
        held = next(iter(loader))
        loader.load_state_dict(loader.state_dict())
        iterator = iter(loader)
        self.assertNotIn("run", self.joins(server)[1])
        self.assertEqual(next(iterator).ids.tolist(), list(range(8, 16)))
        self.assert_intact(held)
        del held, iterator
        loader.load_state_dict(loader.state_dict())
        iter(loader)
        self.assertIn("run", self.joins(server)[2])

    def test_fork_in_one_process(self) -> None:
        """Another loader goes on from the state while the run does: the server is told of the run, and says
        that it forked."""
        server = self.server(20)
        iterator = iter(tureen.Loader(server.endpoint, batch_size=8))
        next(iterator)
        other = tureen.Loader(server.endpoint, batch_size=8)
        other.load_state_dict(iterator.state_dict())
        self.assertEqual(next(iter(other)).ids.tolist(), list(range(8, 16)))
        self.assertEqual(self.joins(server)[1]["run"], iterator.state_dict()["run"])

    def test_a_named_job_that_is_held(self) -> None:
        server = self.server(20)
        loader = tureen.Loader(server.endpoint, batch_size=8, job="trial")
        held = next(iter(loader))
        with self.assertRaisesRegex(tureen.RequestRefused, "1 of its batches are: drop them") as caught:
            iter(loader)
        self.assertEqual(caught.exception.code, "job_taken")
        self.assert_intact(held)
        del held
        iterator = iter(loader)
        self.assertEqual([said["job"] for said in self.joins(server)], ["trial"] * 2)
        other = tureen.Loader(server.endpoint, batch_size=8, job="trial")
        with self.assertRaisesRegex(tureen.RequestRefused, "close its loader first"):
            iter(other)
        del iterator
        for job in ("", "x" * 65, 5):
            with self.assertRaises((ValueError, TypeError)):
                tureen.Loader(server.endpoint, job=job)  # type: ignore[arg-type]


class Trained(Tidy):
    """Loops that take batches ahead of their step, and report what they have trained."""

    def loader(self, server: FakeServer, **how: Any) -> tureen.Loader:
        return tureen.Loader(server.endpoint, **{"batch_size": 3, "epochs": 2, "slots": 8,
                                                 "state_of": "trained", **how})

    def test_every_step(self) -> None:
        """Behind each step the state of a loop that takes three batches ahead, also over an epoch's end, is
        that of a loop that takes none; and what comes behind it is what was not trained."""
        for name, how in Going.ORDERS.items():
            server = self.server(20)
            server.unreadable = {9} if name == "list" else set()
            plain_states: List[Dict[str, Any]] = [{}]
            with self.loader(server, state_of="given", **how) as loader:
                whole = []
                for batch in loader:
                    whole.append(batch.ids.tolist())
                    plain_states.append(loader.state_dict())
            with self.loader(server, **how) as loader:
                for step, batch in enumerate(ahead(loader, 3)):
                    if step:                            # the batch at hand is not trained yet
                        self.assertEqual(place(loader.state_dict()), place(plain_states[step]), (name, step))
                    loader.trained(*((batch,), (), (batch["image"],), (dict(batch),))[step % 4])
                self.assertEqual(place(loader.state_dict()), place(plain_states[-1]))
                self.assertEqual(loader.state_dict()["epoch"], "2")
            with self.subTest(name), self.loader(server, **how) as loader:
                server.shuffled = name in ("shared", "private", "drop_last")
                trained = []
                for step, batch in enumerate(ahead(loader, 2)):
                    trained.append(batch.ids.tolist())
                    loader.trained(batch)
                    if step == 2:
                        break
                rest = self.loader(server, state_of="given", **how)
                rest.load_state_dict(json.loads(json.dumps(loader.state_dict())))
                ids = sum(trained, []) + [id for batch in rest if batch.epoch == 0
                                          for id in batch.ids.tolist()]
                wanted = sum(whole[:len(whole) // 2], [])
                if server.shuffled:
                    self.assertEqual(len(set(ids)), len(ids))
                    self.assertEqual(len(ids), len(wanted))
                else:
                    self.assertEqual(ids, wanted)

    def test_without_reports_the_state_has_what_was_taken(self) -> None:
        server = self.server(20)
        loader = self.loader(server, state_of="given")
        for _ in ahead(loader, 2):
            break
        self.assertEqual(loader.state_dict()["batches"], "3")
        with self.assertRaisesRegex(RuntimeError, "state_of=\"trained\""):
            loader.trained()
        with self.assertRaisesRegex(ValueError, "state_of is 'taken': give \"given\""):
            self.loader(server, state_of="taken")

    def test_what_is_no_report(self) -> None:
        """Each error leaves the state as it was."""
        server = self.server(20)
        loader = self.loader(server)
        with self.assertRaisesRegex(RuntimeError, "reported already"):
            loader.trained()
        first, second, third = itertools.islice(loader, 3)
        before = loader.state_dict()
        self.assertEqual(before["batches"], "0")
        for batch, why in ((second, "batch 1 of its epoch is reported as trained before batch 0"),
                           (third["label"], "batch 2 of its epoch is reported"),
                           (copy.deepcopy(first), "no batch that waits.*the oldest of these is batch 0"),
                           (first["image"].copy(), "another object"), (0, "another object"),
                           ((), "another object"), ((None, "text"), "another object")):
            with self.assertRaisesRegex(ValueError, why):
                loader.trained(batch)
        self.assertEqual(loader.state_dict(), before)
        loader.trained(first)
        with self.assertRaisesRegex(ValueError, "reported before.*"):
            loader.trained(first)
        loader.trained((second["image"].copy(), second["label"]))       # one part is known
        loader.close()
        loader.trained()                                # a loop's last steps, behind the loader's end
        self.assertEqual(loader.state_dict()["batches"], "3")
        with self.assertRaisesRegex(RuntimeError, "once for each batch"):
            loader.trained()

    def test_what_is_not_reported_holds_no_slot(self) -> None:
        server = self.server(20)
        loader = self.loader(server, slots=3, epochs=1)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)              # that batches are kept
            batches = [batch.ids.tolist() for batch in ahead(loader, 0)]
        for _ in batches:
            self.assertEqual(loader.state_dict()["epoch"], "0")
            loader.trained()
        self.assertEqual(loader.state_dict()["epoch"], "1")

    def test_a_loop_that_reports_nothing_is_told(self) -> None:
        server = self.server(20)
        loader = self.loader(server, epochs=3)
        with self.assertWarnsRegex(tureen.TureenWarning, "reported none of them as trained") as caught:
            next_batches = [batch.index for batch in loader]
        self.assertEqual(len(caught.warnings), 1)
        self.assertEqual((len(next_batches), loader.state_dict()["epoch"]), (21, "0"))

    def test_another_iteration_gives_up_what_was_not_reported(self) -> None:
        server = self.server(20)
        loader = self.loader(server)
        for batch in ahead(loader, 2):
            loader.trained()
            break
        self.assertEqual(loader.state_dict()["batches"], "1")
        old = batch
        loader.set_epoch(1)
        again = next(iter(loader))
        self.assertEqual((loader.state_dict()["epoch"], loader.state_dict()["batches"]), ("1", "0"))
        with self.assertRaisesRegex(ValueError, "no batch that waits"):
            loader.trained(old)
        loader.trained(again)
        self.assertEqual((loader.state_dict()["epoch"], loader.state_dict()["batches"]), ("1", "1"))
        del batch, old, again

    def test_over_a_server_that_is_lost(self) -> None:
        """The batches that wait are of the job before; the state's run is that of the present one."""
        server = self.server(20)
        sent: List[int] = []

        def crash_once(step: str, job: Any) -> None:
            sent.extend([1] if step == "batch" else [])
            if len(sent) == 6:
                sent.append(0)
                server.joined_changes["run"] = RUN
                server.crash()
        server.hook = crash_once
        loader = self.loader(server, rejoin=math.inf)
        trained: List[int] = []
        for step, batch in enumerate(ahead(loader, 3), 1):
            trained += batch.ids.tolist()
            loader.trained(batch)
            #  The loop has the eighth batch, which came behind the sixth that was sent before the crash
            self.assertLessEqual(step >= 5, loader.state_dict()["run"] == RUN)
            self.assertEqual(int(loader.state_dict()["taken"]["count"]), len(trained) % 20)
        self.assertEqual(sorted(trained), sorted([*range(20)] * 2))
        self.assertEqual(loader.stats()["rejoined"], 1)


def place(state: Dict[str, Any]) -> Dict[str, Any]:
    """Without what differs from job to job."""
    return {key: value for key, value in state.items() if key not in ("run", "checksum", "seed")}


if __name__ == "__main__":
    unittest.main()

"""The Python client as one of several ranks: how they find each other, what each gets, and that their states
are the same.

The ranks are threads of this process, each with a loader of its own, at one fake server, which tells each
what it lacks from nothing but what another one says in `recent`.

Run by ctest (python_ranks), or by hand from anywhere: python3 tests/clients/test_python_ranks.py [-v] [NAME]
"""
from __future__ import annotations

import json
import math
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest
import warnings
from typing import Any, Callable, Dict, List, NamedTuple, Optional
from unittest import mock

from client_checks import PACKAGE, PATIENCE_S, SEED, golden, request, until
from test_python_rejoin import Gone, Hook, nth
from test_python_state import plain

import numpy as np

import tureen
from fake_ranks import SLOT_NONE, Record, dealt, recent_of
from fake_server import BATCH, FakeServer, Job, pack_head
from tureen import session
from tureen import state as states
from tureen import wire
from tureen.ranks import Ranks, by_node, run_name, short_name, torchrun
from tureen.recent_steps import RecentSteps


def head(epoch: int, place: int, samples: int = 1) -> wire.BatchHead:
    return wire.BatchHead(0, epoch, place, 0, samples, 0)


def step_frame(step: List[List[int]]) -> bytes:
    numbers = [*map(len, step), *(sample for part in step for sample in part)]
    return struct.pack(f"<{len(numbers)}Q", *numbers)


class Machines(unittest.TestCase):
    def test_where_each_process_is(self) -> None:
        """As torchrun and srun tell it; machines with other numbers of processes than this one are named."""
        for nodes, each in ((2, 1), (2, 3), (3, 2), (4, 4)):
            for node, rank in ((node, rank) for node in range(nodes) for rank in range(each)):
                here, world = node * each + rank, nodes * each
                torch = {"RANK": f"{here}", "WORLD_SIZE": f"{world}", "GROUP_WORLD_SIZE": f"{nodes}",
                         "GROUP_RANK": f"{node}", "LOCAL_RANK": f"{rank}", "LOCAL_WORLD_SIZE": f"{each}"}
                slurm = {"SLURM_PROCID": f"{here}", "SLURM_NTASKS": f"{world}", "SLURM_NNODES": f"{nodes}",
                         "SLURM_NODEID": f"{node}", "SLURM_LOCALID": f"{rank}",
                         "SLURM_TASKS_PER_NODE": f"{each}(x{nodes})"}
                for environment, own in ((torch, "LOCAL_WORLD_SIZE"), (slurm, "SLURM_TASKS_PER_NODE")):
                    with self.subTest(nodes=nodes, each=each, here=here, own=own):
                        self.assertEqual(by_node(here, world, environment), (nodes, node, rank, each))
                        self.assertIsNone(by_node(here + 1, world, environment))
                        self.assertIsNone(by_node(here, world + 1, environment))
                        for other in (each - 1, each + 1):
                            if other > rank:
                                with self.assertRaisesRegex(ValueError, f"{world} processes on {nodes} nodes"
                                                            f".*{other} on this one \\({own}\\)"):
                                    by_node(here, world, {**environment, own: f"{other}"})


class Environment(unittest.TestCase):
    def test_torchrun(self) -> None:
        here = socket.gethostname()
        two: Dict[str, str] = {"WORLD_SIZE": "2", "RANK": "1"}
        at: Dict[str, str] = {"MASTER_ADDR": "node-0", "MASTER_PORT": "29500"}
        for environment, wanted in (
                ({}, None), ({"WORLD_SIZE": "1"}, None), ({"WORLD_SIZE": "1", "RANK": "0", **at}, None),
                ({"RANK": "1"}, None),
                ({"WORLD_SIZE": "01"}, None),
                ({**two, **at}, Ranks(1, 2, "node-0:29500")),
                ({**two, **at, "TORCHELASTIC_RUN_ID": "none"}, Ranks(1, 2, "node-0:29500")),
                ({**two, **at, "TORCHELASTIC_RUN_ID": ""}, Ranks(1, 2, "node-0:29500")),
                ({**two, **at, "TORCHELASTIC_RUN_ID": "b1946ac9"}, Ranks(1, 2, "b1946ac9")),
                ({**two, "TORCHELASTIC_RUN_ID": "b1946ac9"}, Ranks(1, 2, "b1946ac9")),
                ({**two, **at, "MASTER_ADDR": "127.0.0.1"}, Ranks(1, 2, f"{here}:29500")),
                ({**two, **at, "MASTER_ADDR": "localhost"}, Ranks(1, 2, f"{here}:29500")),
                ({**at, "WORLD_SIZE": "64", "RANK": "63"}, Ranks(63, 64, "node-0:29500"))):
            with self.subTest(environment):
                self.assertEqual(torchrun(environment), wanted)
        for environment, named in (
                ({"WORLD_SIZE": "2", **at}, "RANK is not set"), ({**two, **at, "RANK": "2"}, "^RANK is "
                    "'2'.*from 0 to 1"),
                ({**two, **at, "RANK": "-1"}, "^RANK "), ({**two, **at, "RANK": "one"}, "^RANK "),
                ({**two, **at, "RANK": ""}, "^RANK "), ({**two, **at, "WORLD_SIZE": "two"},
                                                        "^WORLD_SIZE is 'two'"),
                ({**two, **at, "WORLD_SIZE": "0"}, "^WORLD_SIZE "),
                ({**two, **at, "WORLD_SIZE": "65"}, "^WORLD_SIZE "),
                ({**two, **at, "WORLD_SIZE": ""}, "^WORLD_SIZE "), (two, "MASTER_ADDR and MASTER_PORT"),
                ({**two, "MASTER_ADDR": "node-0"}, "TORCHELASTIC_RUN_ID")):
            with self.subTest(environment), self.assertRaisesRegex(ValueError, named):
                torchrun(environment)
        self.assertIsNone(run_name({"TORCHELASTIC_RUN_ID": "none"}))

    def test_names_fit(self) -> None:
        """What fits stays; of what does not the hash tells the end, and no character is cut in two."""
        self.assertEqual(short_name("x" * 64), "x" * 64)
        long = {short_name("run-" + "é" * length) for length in range(28, 60)}
        self.assertEqual(len(long), 32)
        for name in (*long, short_name("\udcff" * 70), short_name("\udcff")):
            self.assertLessEqual(len(name.encode("utf-8")), 64)
        self.assertTrue(all(name.startswith("run-éé") for name in long))
        self.assertEqual(short_name("a" * 65), short_name("a" * 65))


class Messages(unittest.TestCase):
    def test_join(self) -> None:
        """Byte for byte, but for what was taken, which this client says in words."""
        frames = golden("join_ranks")
        said = json.loads(frames[1])
        recent = RecentSteps(4)
        for epoch, index, step in ((2, 4, [[2999, 0], [5]]), (3, 0, [[7, 8], [9, 10]])):
            whole = step_frame(step)
            recent.step(head(epoch, index), wire.parse_step(whole, 2, 2), whole)
            if epoch == 2:
                recent.end(wire.EpochEnd(2, 19, 5, 0))
        state = plain(samples=3000, epoch=3, batches=1, ids=[7, 8, 9, 10], run=said["run"],
                      fingerprint=said["resume"]["fingerprint"], data=said["resume"]["data"])
        ranked = request(batch_size=2, epochs=4, job="trial-3", rank=1, world_size=2, gather=120,
                         rank_wait=29.5)
        built = ranked.message(13, said["instance"], state, recent=recent)
        self.assertEqual(built[:2], frames[:2])
        self.assertEqual(built[2], wire.pack_ids(wire.IDS_WORDS, [0b11110000000]))
        self.assertEqual(built[3:], frames[3:])

    def test_join_says_nothing_of_ranks_that_are_none(self) -> None:
        for how in ({}, {"rank": 0, "world_size": 1}, {"gather": 5}, {"rank_wait": 5}):
            self.assertEqual(request(**how).message(1), request().message(1))

    def test_waits(self) -> None:
        for given, said in ((300.0, 300), (1, 1), (1.5, 2), (math.inf, 86400), (86400, 86400)):
            ranked = request(job="x", rank=0, world_size=2, gather=given, rank_wait=given)
            message = json.loads(ranked.message(1)[1])
            self.assertEqual((message["gather"], message["rank_wait"]), (said, said))
        ranked = request(job="x", rank=0, world_size=2, gather=7, rank_wait=0)
        for left_s, said in ((0.0, 1), (-3.0, 1), (12.2, 13), (1e9, 86400), (math.inf, 86400)):
            message = json.loads(ranked.message(1, gather_s=left_s)[1])
            self.assertEqual((message["gather"], message["rank_wait"]), (said, 0))

    def test_arguments(self) -> None:
        good: Dict[str, Any] = dict(job="x", rank=0, world_size=2)
        for changed, text in (
                ({"rank": None}, "^world_size is given without rank"),
                ({"world_size": None}, "^rank is given without world_size"),
                ({"rank": 2}, "^rank must be from 0 to 1"), ({"rank": -1}, "^rank "),
                ({"rank": True}, "^rank "),
                ({"world_size": 65}, "^world_size must be from 1 to 64"), ({"world_size": 0}, "^world_size "),
                ({"job": None}, "^job is missing"), ({"gather": 0}, "^gather .* from 1 to 86400"),
                ({"gather": 86401}, "^gather "), ({"gather": math.nan}, "^gather "),
                ({"rank_wait": -1}, "^rank_wait "),
                ({"rank_wait": "long"}, "^rank_wait ")):
            with self.subTest(changed), self.assertRaisesRegex((ValueError, TypeError), text):
                tureen.Loader("ipc:///none", **{**good, **changed})
        loader = tureen.Loader("ipc:///none", **good)
        self.assertEqual((loader.rank, loader.world_size), (0, 2))
        alone = tureen.Loader("ipc:///none")
        self.assertEqual((alone.rank, alone.world_size), (0, 1))

    def test_batches(self) -> None:
        for name, world, wanted in (("batch_ranks", 2, ((3, 2), [2999, 0, 1234567890123, 17, 4])),
                                    ("batch_padding", 2, ((1, 0), [2999])),
                                    ("batch_recalled", 2, ((2, 2), [0, 1, 3, 2999]))):
            step = wire.parse_step(golden(name)[3], world, 64)
            self.assertEqual((step.counts, np.frombuffer(step.ids, "<u8").tolist()), wanted)
        self.assertEqual(wire.parse_batch_head(golden("batch_padding")[1]).flags, wire.BATCH_PADDING)
        self.assertEqual(wire.parse_batch_head(golden("batch_recalled")[1]).slot, wire.SLOT_NONE)
        self.assertEqual(wire.parse_reason(golden("notice_gathering")[1], "notice", "NOTICE")[0], "gathering")
        joined = wire.parse_joined(golden("joined")[1])
        self.assertEqual((joined.rank, joined.world_size), (0, 1))
        said = json.loads(golden("joined_ranks")[1])
        joined = wire.parse_joined(golden("joined_ranks")[1])
        self.assertEqual((joined.rank, joined.world_size), (said["rank"], said["world_size"]))
        self.assertGreater(joined.world_size, 1)

    def test_what_could_still_be_read(self) -> None:
        """A batch in no slot may lack samples of its part of the step, or be padding in their place; one in a
        slot may not."""
        joined = wire.parse_joined(golden("joined_ranks")[1])
        parts = [[0, 1, 2], [3, 4, 5]] + [[6]] * (joined.world_size - 2)
        own = parts[joined.rank]

        def fits(ids: List[int], flags: int, slot: int) -> bool:
            batch = wire.BatchHead(0, 0, 0, slot, len(ids), flags)
            try:
                session._step(joined._replace(batch_size=3), batch, struct.pack(f"<{len(ids)}Q", *ids),
                              step_frame(parts))
            except tureen.ProtocolError:
                return False
            return True
        for ids, flags, loose, held in ((own, 0, True, True), (own[1:], 0, True, False),
                                        (own[::2], 0, True, False),
                                        (own[::-1], 0, False, False), ([own[0], 7], 0, False, False),
                                        ([parts[joined.rank - 1][0]], wire.BATCH_PADDING, True, False)):
            with self.subTest((ids, flags)):
                self.assertEqual((fits(ids, flags, wire.SLOT_NONE), fits(ids, flags, 0)), (loose, held))

    def test_damaged_steps(self) -> None:
        """Read, or refused; what is read is a step."""
        chance = random.Random(SEED)
        whole = golden("batch_ranks")[3]
        damaged = [whole[:length] for length in range(len(whole))]
        for _ in range(1000):
            copy = bytearray(whole)
            for _ in range(chance.randint(1, 3)):
                copy[chance.randrange(16 if chance.randrange(2) else len(copy))] = chance.choice((0, 1, 2, 3,
                    4, 5, 255))
            damaged.append(bytes(copy))
        for frame in damaged:
            try:
                step = wire.parse_step(frame, 2, 3)
            except tureen.ProtocolError:
                continue
            self.assertEqual((sum(step.counts), len(step.counts)), (len(step.ids) // 8, 2), f"seed {SEED}")
            self.assertLessEqual(max(step.counts), 3)

    def test_recent_is_the_end_of_what_came(self) -> None:
        """Beside a list of all that came: read back, it is its end, not longer than it may be, and as long as
        promised."""
        for seed in range(SEED, SEED + 100):
            chance = random.Random(seed)
            world, slots = chance.randint(2, 4), chance.randint(3, 6)
            ids_max, numbers_max = chance.choice((1 << 20, 40)), chance.choice((131071, 7, 50))
            said = {"world_size": world, "frames": ["recent"] * 1000}
            with mock.patch("tureen.wire.RECENT_IDS_MAX", ids_max), \
                    mock.patch("tureen.wire.ID_FRAME_NUMBERS_MAX", numbers_max):
                recent, came = RecentSteps(slots), []
                epoch, index = chance.randrange(3), chance.randrange(3)
                for _ in range(chance.randint(0, 30)):
                    if chance.randrange(4) == 0:
                        recent.end(wire.EpochEnd(epoch, 50, index, 0))
                        came.append(Record(epoch, index, 50, None))
                        epoch, index = epoch + 1, 0
                    else:
                        step = dealt([chance.randrange(99) for _ in range(chance.randint(1, 3 * world))],
                                     world)
                        whole = step_frame(step)
                        recent.step(head(epoch, index), wire.parse_step(whole, world, 3), whole)
                        came.append(Record(epoch, index, sum(map(len, step)), step))
                        index += 1
                said["resume"] = {"epoch": epoch, "batches": index}
                frames = recent.frames(chance.choice((3, 100, 100)))
            room = None if len(frames) > 3 else 3
            told = recent_of(said, frames)
            self.assertEqual(told, came[len(came) - len(told):], f"seed {seed}")
            steps = [record.samples for record in told if record.step is not None]
            self.assertTrue(len(steps) <= slots + 1 and sum(steps) <= ids_max, f"seed {seed}")
            if ids_max > 40 and numbers_max > 100 and room == 3:
                self.assertEqual(len(steps), min(slots + 1, sum(record.step is not None for record in came)),
                                 f"seed {seed}")
        with mock.patch("tureen.wire.RECENT_RECORDS_MAX", 5):
            ends = RecentSteps(3)
            for epoch in range(9):
                ends.end(wire.EpochEnd(epoch, 0, 0, 0))
            said = {"world_size": 2, "frames": ["recent"], "resume": {"epoch": 9}}
            self.assertEqual(len(recent_of(said, ends.frames(1))), 5)
            self.assertEqual(ends.frames(0), [])


class Clock:
    """Instead of a module's `time`: it is ahead, and may go on with each look at it."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self.step_s = 0.0

    def monotonic(self) -> float:
        self.ahead_s += self.step_s
        return time.monotonic() + self.ahead_s


class Given(NamedTuple):
    """What one `next` of a rank gave, and the state behind it."""
    epoch: int
    place: int
    ids: List[int]
    step: List[int]
    padding: bool
    state: Dict[str, Any]


class Ranked(Gone):
    """Several loaders at once."""

    def setUp(self) -> None:
        super().setUp()
        quiet = warnings.catch_warnings()
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)
        warnings.simplefilter("ignore")

    def ranks(self, server: FakeServer, world: int = 2, **how: Any) -> List[tureen.Loader]:
        return [self.loader(server, **{"job": "run", "rank": rank, "world_size": world, **how})
                for rank in range(world)]

    def together(self, loaders: List[tureen.Loader], act: Callable[[tureen.Loader], Any]) -> List[Any]:
        """What `act` gives of each; raises what the first of them raised."""
        results: List[Any] = [None] * len(loaders)

        def run(place: int) -> None:
            try:
                results[place] = act(loaders[place])
            except BaseException as error:
                results[place] = error
        threads = [threading.Thread(target=run, args=(place,)) for place in range(len(loaders))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return results

    def through(self, loader: tureen.Loader, steps: Optional[int] = None) -> List[Given]:
        """All that it gives, or so many steps of it; some batches are held meanwhile."""
        given: List[Given] = []
        held: List[tureen.Batch] = []
        for batch in loader:
            self.assert_intact(batch)
            given.append(Given(batch.epoch, batch.index, batch.ids.tolist(), batch.step_ids.tolist(),
                               batch.padding, loader.state_dict()))
            held = [*held[-1:], batch]
            for kept in held:
                self.assert_intact(kept)
            if len(given) == steps:
                break
        return given

    def assert_one_job(self, given: List[List[Given]], size: int = 3) -> List[List[int]]:
        """All ranks made the same steps, and each got its part of them.  Gives each epoch's samples in their
        order."""
        epochs: Dict[int, List[int]] = {}
        for parts in zip(*given):
            first = parts[0]
            for part in parts:
                self.assertEqual((part.epoch, part.place, part.step, part.state),
                                 (first.epoch, first.place, first.step, first.state))
            own = [[] if part.padding else part.ids for part in parts]
            self.assertEqual([sample for ids in own for sample in ids], first.step)
            for part in parts:
                if part.padding:
                    self.assertEqual(len(part.ids), 1)
                    self.assertIn(part.ids[0], first.step)
            self.assertTrue(all(len(ids) <= size for ids in own))
            epochs.setdefault(first.epoch, []).extend(first.step)
        self.assertEqual(len({len(rank) for rank in given}), 1)
        return [epochs[epoch] for epoch in sorted(epochs)]


class Stepping(Ranked):
    def test_every_step_of_every_world(self) -> None:
        """Equal steps, each sample once, what is left spread evenly; the state counts what all got, and no
        padding."""
        for samples, size, world, drop_last in ((20, 3, 2, False), (22, 3, 2, True), (21, 5, 4, False),
                                                (21, 5, 4, True),
                                                (9, 2, 3, False), (7, 7, 2, False), (1, 1, 3, False),
                                                (12, 3, 2, False)):
            with self.subTest(samples=samples, size=size, world=world, drop_last=drop_last):
                server = self.fake(samples)
                server.shuffled = True
                loaders = self.ranks(server, world, batch_size=size, drop_last=drop_last)
                given = self.together(loaders, self.through)
                step, whole = size * world, samples // (size * world) * size * world if drop_last else samples
                for order in self.assert_one_job(given, size):
                    self.assertEqual((len(order), len(set(order))), (whole, whole))
                steps = -(-whole // step)
                self.assertEqual([len(loader) for loader in loaders], [2 * steps] * world)
                self.assertEqual([len(rank) for rank in given], [2 * steps] * world)
                for rank in range(world):
                    for batch in given[rank]:
                        wanted = dealt(batch.step, world)[rank]
                        self.assertEqual((batch.padding, [] if batch.padding else batch.ids),
                                         (not wanted, wanted))
                        behind = batch.place * step + len(batch.step)
                        if behind < whole:
                            self.assertEqual(batch.state["taken"]["count"], str(behind))
                        else:
                            self.assertEqual((batch.state["epoch"], batch.state["batches"],
                                              batch.state["taken"]),
                                             (str(batch.epoch + 1), "0", {"count": "0", "words": ""}))
                real = [sum(len(batch.ids) for batch in rank if not batch.padding) for rank in given]
                self.assertEqual([loader.stats()["samples"] for loader in loaders], real)
                self.assertEqual(loaders[1].joined.rank, 1)

    def test_lists_keep_their_order(self) -> None:
        """Also where samples cannot be read: a rank that has none of a step then gets padding in the midst of
        an epoch."""
        listed = [7, 7, 3, 9, 9, 0, 1, 2, 9, 9, 4, 19, 9]
        for unreadable in (set(), {9}):
            server = self.fake()
            server.unreadable = unreadable
            given = self.together(self.ranks(server, batch_size=2, order="list", ids=listed), self.through)
            readable = [sample for sample in listed if sample not in unreadable]
            self.assertEqual(self.assert_one_job(given), [readable, readable])
            self.assertEqual(any(batch.padding for rank in given for batch in rank if batch.place < 3),
                             bool(unreadable))
            self.assertEqual(given[0][0].state["taken"], {"places": "3" if unreadable else "4"})

    def test_going_on_with_another_number(self) -> None:
        """From every step, the state of any rank, to one process or three."""
        for steps in range(1, 8):
            server = self.fake()
            server.shuffled = True
            first = self.together(self.ranks(server), lambda loader: self.through(loader, steps))
            self.assert_one_job(first)
            state = json.loads(json.dumps(first[steps % 2][-1].state))
            self.assertEqual(state["checksum"], states.pack(states.parse(state))["checksum"])
            for world in (1, 3):
                other = self.fake()
                loaders = ([self.loader(other)] if world == 1 else self.ranks(other, world))
                for loader in loaders:
                    loader.load_state_dict(state)
                rest = self.together(loaders, self.through)
                seen: Dict[int, List[int]] = {0: [], 1: []}
                for batch in (*first[0], *rest[0]):
                    seen[batch.epoch] += batch.step
                self.assert_one_job(rest)
                self.assertEqual([sorted(ids) for ids in seen.values()], [list(range(20))] * 2)

    def test_recalled_batches_are_the_user_s_alone(self) -> None:
        """A rank that lacks steps gets them beside its ring: they may all be kept, and keep nothing of it."""
        server = self.fake(40)
        server.hook = nth(server, "batch", 9, server.crash)     # rank 0 has its fifth, rank 1 its fourth
        server.shuffled = True
        lagging: List[Job] = []

        def hook(at: str, job: Optional[Job], before: Hook = server.hook) -> None:
            before(at, job)
            if at == "joined" and server.lives == 2 and job is not None and job.lacks:
                lagging.append(job)
        server.hook = hook
        given = self.together(self.ranks(server, slots=5), lambda loader: list(loader))
        for batches in given:
            for batch in batches:
                self.assert_intact(batch)
        self.assertEqual([(job.rank, len(job.lacks)) for job in lagging], [(1, 0)])
        whole = [list(map(int, batch.step_ids)) for batch in given[0]]
        self.assertEqual(whole, [list(map(int, batch.step_ids)) for batch in given[1]])
        self.assertEqual(sorted(sum(whole[:7], [])), list(range(40)))

    def test_instances(self) -> None:
        """A rank that looks for its server keeps its instance; one that is iterated again gets another."""
        server = self.fake()
        server.hook = nth(server, "batch", 3, server.crash)
        loaders = self.ranks(server)
        for _ in range(2):
            self.together(loaders, self.through)
        joins = [join for join in self.joins(server) if join["rank"] == 0]
        self.assertEqual(len(joins), 3)
        self.assertEqual(joins[0]["instance"], joins[1]["instance"])
        self.assertNotEqual(joins[1]["instance"], joins[2]["instance"])
        self.assertEqual(["run" in join for join in joins], [False, True, False])
        self.assertEqual(["recent" in join.get("frames", []) for join in joins], [False, True, False])

    def test_the_name_is_not_free_yet(self) -> None:
        """Another rank has not left the loop before: it is waited for, and not where the name is a
        stranger's."""
        server = self.fake()
        loaders = self.ranks(server)
        self.together(loaders, self.through)
        refusals = 3

        def hook(at: str, job: Optional[Job]) -> None:
            nonlocal refusals
            if at == "join" and refusals:
                refusals -= 1
                server.refuse("job_taken", "job 'run' is another run's")
        server.hook = hook
        with mock.patch("tureen.connection._REFUSED_AGAIN_S", 0.01):
            self.assert_one_job(self.together(loaders, self.through))
        self.assertEqual(refusals, 0)
        refusals = 1000
        with mock.patch("tureen.connection._GHOST_S",
                        0.0), self.assertRaises(tureen.RequestRefused) as caught:
            iter(self.ranks(server)[0])
        self.assertEqual((caught.exception.code, caught.exception.message),
                         ("job_taken", "job 'run' is another run's"))
        self.assertEqual(refusals, 999)

    def test_one_process_has_a_rank_once(self) -> None:
        server = self.fake()
        loaders = self.ranks(server)
        iterators = self.together(loaders, iter)
        with self.assertRaisesRegex(tureen.RequestRefused, "still used in this process"):
            iter(self.ranks(server)[1])
        del iterators

    def test_a_job_that_another_rank_ends(self) -> None:
        """What was delivered is given first, and stays what it is; then it is said, each time; closing says
        nothing."""
        for reason, closes in (("rank_lost", False), ("rank_left", False), ("rank_left", True)):
            server = self.fake()
            loaders = self.ranks(server)
            iterators = self.together(loaders, iter)
            until(lambda: iterators[1]._connection.arrivals.qsize() >= 3, "three batches")
            server.do(lambda: server.end(server.job(1), reason, "rank 0 was not heard of for 10 s"))
            until(lambda: iterators[1]._connection.concluded, "its end")
            if closes:
                loaders[1].close()
            else:
                given = []
                with self.assertRaisesRegex(tureen.JobEnded, f"rank 0 was not heard.*{reason}") as caught:
                    for batch in iterators[1]:
                        self.assert_intact(batch)
                        given.append(batch)
                self.assertGreaterEqual(len(given), 3)
                self.assertEqual(caught.exception.reason, reason)
                with self.assertRaises(tureen.JobEnded):
                    next(iterators[1])
                self.assertEqual(loaders[1].state_dict()["batches"], str(len(given)))
                loaders[1].close()
                del given, batch
            del iterators

    def test_a_lost_rank_is_told_of_each_time(self) -> None:
        server = self.fake()
        server.paused = True
        loaders = self.ranks(server)
        iterators = self.together(loaders, iter)
        for rank, text in ((0, "little is shared"), (0, "again")):
            server.do(lambda text=text: server.notice(server.job(), "little_shared", text))
        for _ in range(2):
            server.do(lambda: server.notice(server.job(), "rank_lost", "rank 1 was lost"))
        server.do(lambda: setattr(server, "paused", False))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")        # which has one warning of a line and a text
            until(lambda: iterators[0]._connection.notices and iterators[0]._connection.arrivals.qsize() > 2,
                  "the notices")
            next(iterators[0])
        self.assertEqual([str(warning.message) for warning in caught],
                         ["little is shared", "rank 1 was lost", "rank 1 was lost"])
        self.assertEqual({warning.filename for warning in caught}, {__file__})
        with warnings.catch_warnings():
            warnings.simplefilter("error")          # as an exception it costs no batch
            server.do(lambda: server.notice(server.job(), "rank_lost", "once more"))
            seen = [0]
            with self.assertRaisesRegex(tureen.TureenWarning, "once more"):
                while True:
                    seen.append(next(iterators[0]).index)
        steps = self.together(loaders, lambda loader: [next(iterators[loader.rank]).index for _ in range(2)])
        self.assertEqual([*seen, *steps[0]], [step % 4 for step in range(len(seen) + 2)])
        del iterators

    def test_wrong_batches_are_refused(self) -> None:
        """A step that is none, or of which the batch is not this rank's part; and what has no slot where it
        must."""
        whole = [[0, 1, 2], [3, 4, 5]]

        def frames(step: Any = whole, ids: Any = (3, 4, 5), flags: int = 0, slot: int = 0,
                   parts: Any = None) -> List[bytes]:
            data = struct.pack("<QQQIIII", 0, 0, 0, slot, len(ids), flags, 0)
            made = [data, struct.pack(f"<{len(ids)}Q", *ids),
                    step if isinstance(step, bytes) else step_frame(step)]
            return made if parts is None else made[:parts]
        bytes_of_slot = bytes(4096)
        inline = 0 if self.ring else 1
        cases = [frames(parts=1), frames(parts=2), frames(ids=(3, 4)), frames(ids=(0, 1, 2)),
                 frames(ids=(3, 5, 4)), frames(step=b""), frames(step=bytes(8)),
                 frames(step=step_frame(whole)[:-8]), frames(step=step_frame(whole)[:-1]),
                 frames(step=[[], []], ids=(3,), flags=2), frames(step=[[0], []], ids=(0,)),
                 frames(step=[[0], []], ids=(1,), flags=2), frames(flags=2), frames(ids=(3,), flags=2),
                 frames(step=[[0, 1, 2, 6], [3, 4, 5]]), frames(step=[[0, 1, 2], [3, 4, 20]], ids=(3, 4, 20))]
        if self.ring:
            cases += [frames(slot=SLOT_NONE), frames(flags=1) + [bytes_of_slot],
                      frames(flags=1, slot=SLOT_NONE), frames(flags=1, slot=SLOT_NONE) + [bytes(64)],
                      frames(slot=SLOT_NONE) + [bytes_of_slot]]
        for number, case in enumerate(cases):
            with self.subTest(number):
                server = self.fake()
                server.paused = True
                iterators = self.together(self.ranks(server, rejoin=0), iter)
                case = [case[0][:32] + struct.pack("<I", case[0][32] | inline) + case[0][36:], *case[1:]]
                case += [bytes_of_slot] if inline and len(case) == 3 else []
                server.do(lambda: server.send(server.job(1), [pack_head(BATCH, server.job(1).number), *case]))
                with self.assertRaises(tureen.ProtocolError):
                    next(iterators[1])
                del iterators

    def test_joined_as_another(self) -> None:
        for changes in ({"rank": 1}, {"world_size": 3}, {"rank": 0, "world_size": 1}):
            server = self.fake()
            server.joined_changes = {"rank": 0, "world_size": 2, **changes}
            with self.assertRaisesRegex(tureen.ProtocolError, "JOINED is that of rank"):
                self.together(self.ranks(server), iter)

    def test_an_inline_rank_s_bytes_are_its_own(self) -> None:
        server = self.fake()
        given = self.together([self.loader(server, job="run", rank=rank, world_size=2, transport=transport)
                               for rank, transport in enumerate(("inline", "auto"))], self.through)
        self.assert_one_job(given)


class SteppingInline(Stepping):
    ring = False


class Gathering(Ranked):
    def test_patience(self) -> None:
        """While it is told that others are to come, a rank waits: also longer than a server may take to
        answer."""
        server = self.fake()
        server.gathering_s = 0.01
        clock, told, coming = Clock(), threading.Semaphore(0), threading.Event()
        original = tureen.connection.Connection.wait_for_ranks

        def pass_by(connection: Any, text: str) -> None:
            original(connection, text)
            if not coming.is_set():             # the other one's own patience is not to pass
                clock.ahead_s += PATIENCE_S / 4
            told.release()

        def come(loader: tureen.Loader) -> Any:
            for _ in range(5 * loader.rank):
                self.assertTrue(told.acquire(timeout=PATIENCE_S))
            if loader.rank:
                coming.set()
            return self.through(loader)
        with mock.patch("tureen.connection.Connection.wait_for_ranks",
                        pass_by), mock.patch("tureen.session.time", clock):
            self.assert_one_job(self.together(self.ranks(server, timeout=PATIENCE_S), come))

    def test_a_server_that_falls_silent(self) -> None:
        server = self.fake()
        clock = Clock()
        original = tureen.connection.Connection.wait_for_ranks

        def fall(connection: Any, text: str) -> None:
            original(connection, text)
            server.silent = True
            clock.step_s = 2 * PATIENCE_S
        with mock.patch("tureen.connection.Connection.wait_for_ranks",
                        fall), mock.patch("tureen.session.time", clock), \
                self.assertRaises(tureen.NoServer):
            iter(self.ranks(server, timeout=PATIENCE_S, rejoin=0)[0])
        self.assertTrue(server.silent)

    def test_waiting_is_told(self) -> None:
        """Once for a loader, in the server's words."""
        server = self.fake()
        with mock.patch("tureen.connection.GATHERING_QUIET_S",
                        0.01), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            loaders = self.ranks(server)

            def come() -> None:
                until(lambda: caught, "the warning")
                self.through(loaders[1], 2)
            other = threading.Thread(target=come)
            other.start()
            self.through(loaders[0], 2)
            other.join()
        own = [warning for warning in caught if warning.category is tureen.TureenWarning]
        self.assertIn("1 of 2 ranks of job 'run' are here", [str(warning.message) for warning in own])
        self.assertLessEqual(len(own), 2)           # of each loader
        self.assertEqual({warning.filename for warning in own}, {__file__})

    def test_a_warning_that_is_an_error(self) -> None:
        server = self.fake()
        with mock.patch("tureen.connection.GATHERING_QUIET_S", 0.01), warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaisesRegex(tureen.TureenWarning, "1 of 2 ranks"):
                iter(self.ranks(server)[0])
        until(lambda: not server.gatherings.get("run"), "its going")

    def test_refused(self) -> None:
        """In the server's words, with the code; the loader may try again."""
        for code in ("ranks_missing", "ranks_differ", "bad_state"):
            server = self.fake()
            server.refusal = (code, "rank 0 of job 'run' asks for batch_size 3, rank 1 for 4")
            loaders = self.ranks(server)
            with self.assertRaisesRegex(tureen.RequestRefused, "rank 0 of job 'run' asks.*" + code) as caught:
                iter(loaders[0])
            self.assertEqual(caught.exception.code, code)
            server.refusal = None
            self.assert_one_job(self.together(loaders, self.through))

    def test_what_is_left_of_the_job_before(self) -> None:
        """`busy` passes."""
        server = self.fake()
        refusals = ["busy", "busy", "job_taken"]

        def hook(at: str, job: Optional[Job]) -> None:
            if at == "join" and refusals:
                server.refuse(refusals.pop(), "rank 0 was there just now")
        server.hook = hook
        with mock.patch("tureen.connection._REFUSED_AGAIN_S", 0.01):
            self.assert_one_job(self.together(self.ranks(server), self.through))

    def test_a_server_that_goes_while_it_gathers(self) -> None:
        """The next one is asked, however it went."""
        for how in ("crash", "stopping"):
            server = self.fake()
            count = 0

            def hook(at: str, job: Optional[Job]) -> None:
                nonlocal count
                count += at == "join"
                if at == "join" and count == 2:
                    for waiting in server.gatherings["run"].values() if how == "stopping" else ():
                        server._refuse(waiting.peer, waiting.tag, "stopping", "the server is ending")
                    server.crash()
            server.hook = hook
            with mock.patch("tureen.connection._REFUSED_AGAIN_S", 0.01):
                self.assert_one_job(self.together(self.ranks(server, timeout=PATIENCE_S), self.through))
            self.assertEqual(server.lives, 2)
        server = self.fake()
        server.refusal = ("stopping", "the server is ending")
        clock = Clock()
        clock.step_s = 5
        with mock.patch("tureen.connection._REFUSED_AGAIN_S", 0.01), mock.patch("tureen.connection.time",
                clock), \
                self.assertRaisesRegex(tureen.RequestRefused, "is ending"):
            iter(self.ranks(server, timeout=PATIENCE_S, rejoin=0)[0])

    def test_a_long_wait_for_the_name_is_no_silence(self) -> None:
        """A server that answers may be asked for longer than one that is silent."""
        server = self.fake()
        loaders = self.ranks(server, timeout=PATIENCE_S)
        self.together(loaders, self.through)
        refusals = [30, 30, 30]
        clock = Clock()

        def hook(at: str, job: Optional[Job]) -> None:
            if at == "join" and refusals:
                clock.ahead_s += refusals.pop()
                server.refuse("job_taken", "not yet")
        server.hook = hook
        with mock.patch("tureen.connection._REFUSED_AGAIN_S", 0.01), mock.patch("tureen.connection.time",
                clock):
            self.assert_one_job(self.together(loaders, self.through))
        self.assertEqual(refusals, [])

    def test_closed_meanwhile(self) -> None:
        server = self.fake()
        loader = self.ranks(server)[0]
        waiting = threading.Thread(target=lambda: self.assertRaises(tureen.LoaderClosed, iter, loader))
        waiting.start()
        until(lambda: server.gatherings.get("run"), "the JOIN")
        until(lambda: any(connection.job is None for connection in list(tureen.connection._live)),
              "the connection")
        for connection in list(tureen.connection._live):
            connection.leave()
        waiting.join()
        until(lambda: not server.gatherings.get("run"), "its going")

    def test_interrupt(self) -> None:
        """Ctrl-C in a process that waits for other ranks in vain."""
        server = self.fake()
        text = (f"import sys; sys.path.insert(0, {str(PACKAGE)!r}); import tureen\n"
                f"iter(tureen.Loader({server.endpoint!r}, batch_size=3, job='run', rank=0, world_size=2))\n")
        process = subprocess.Popen([sys.executable, "-u", "-c", text], stderr=subprocess.PIPE)
        until(lambda: server.gatherings.get("run"), "the JOIN")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, -signal.SIGINT, err)
        self.assertTrue(err.rstrip().endswith(b"KeyboardInterrupt"), err)
        until(lambda: not server.gatherings.get("run"), "its going")


if __name__ == "__main__":
    unittest.main()

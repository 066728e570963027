"""Parts in the Python client: what a node says in JOIN and in its state, what may go on from which state, and
what the states of all nodes merge to.

Run by ctest (python_merging), or by hand: python3 tests/clients/test_python_merging.py [-v] [NAME]
"""
from __future__ import annotations

import json
import random
import unittest
from typing import Any, Dict, List

from client_checks import GOLDEN, SEED, golden, request

import numpy as np

import tureen
from tureen import state as states
from tureen import wire
from tureen.position import JobPosition, Position
from tureen.state import Part, State

RUN = "4b7c1d2e3f405162738495a6b7c8d9ea"
SAMPLES = 300


def words(ids: List[int]) -> bytes:
    mask = np.zeros(SAMPLES, np.bool_)
    mask[ids] = True
    return states.pack_words(mask)


def node_state(node: int, nodes: int, cut: List[int], own: List[int], batches: int = 5, cut_batches: int = 2,
               **changed: Any) -> State:
    """Of a node that was given `own` since the cut."""
    part = Part(nodes, node, "fresh", cut_batches, len(cut), words(cut), None)
    values: Dict[str, Any] = dict(
        dataset="train", fingerprint="6d0c", data="9e1f00aa12bc34de", samples=SAMPLES, order="shared", seed=7,
        pool=0, run=f"{node:032x}", epoch=1, batches=batches, count=len(cut) + len(own),
        words=words(cut + own), places=None, part=part)
    values.update(changed)
    return State(**values)


def list_state(node: int, nodes: int, cut: int, places: int, batches: int = 5) -> State:
    return node_state(node, nodes, [], [], batches, order="list", count=places, places=places, words=b"",
                      part=Part(nodes, node, "fresh", 2, cut, b"", cut))


def merged(*given: State) -> State:
    return states.parse(json.loads(json.dumps(tureen.merge_states(map(states.pack, given)))))


class Positions(unittest.TestCase):
    def test_a_batch_of_the_next_job(self) -> None:
        """A state is of the run that its newest batch is of, and each node counts what its part has."""
        begin = node_state(0, 1, [], [], batches=0, epoch=0, part=None, words=b"", run="a" * 32)
        joined = wire.Joined(1, SAMPLES, SAMPLES, None, 64, 4, 1, (), None, 7, begin.fingerprint, begin.data,
                             "b" * 32, False, [], 1000, 90000)
        position = JobPosition(request(), begin, SAMPLES)
        self.assertEqual(position.state().run, "a" * 32)
        position.note(joined, wire.BatchHead(0, 0, 0, 0, 64, 0), np.arange(64, dtype=np.uint64))
        self.assertEqual((position.state().run, position.state().count), ("b" * 32, 64))

    def test_what_an_epoch_has_where_a_sample_cannot_be_read(self) -> None:
        """One job knows which; nodes count it, so that all have as many batches."""
        begin = node_state(0, 1, [], [], batches=0, epoch=0, part=None, words=b"")
        for nodes, samples in ((1, 290), (2, SAMPLES)):
            with self.subTest(nodes=nodes):
                joined = wire.Joined(1, 290, SAMPLES, None, 64, 4, 1, (), None, 7, begin.fingerprint,
                                     begin.data, begin.run, False, [], 1000, 90000)
                how = {} if nodes == 1 else {"nodes": nodes, "node": 0, "parts": "fresh"}
                self.assertEqual(JobPosition.of_job(request(**how), joined, None)._epoch_samples, samples)


class Merging(unittest.TestCase):
    def refused(self, given: List[State], why: str) -> None:
        with self.assertRaisesRegex(tureen.StateError, why):
            tureen.merge_states(map(states.pack, given))

    def test_the_job_has_what_its_nodes_have(self) -> None:
        """Property, beside sets: in any order, with some ranks' states twice."""
        chance = random.Random(SEED)
        for _ in range(200):
            nodes = chance.randint(2, 9)
            ids = chance.sample(range(SAMPLES), chance.randint(0, SAMPLES))
            ends = sorted(chance.randint(0, len(ids)) for _ in range(nodes + 1))
            cut, own = ids[:ends[0]], [ids[begin:end] for begin, end in zip(ends, ends[1:])]
            batches = [chance.randint(2, 30) for _ in range(nodes)]
            given = [node_state(node, nodes, cut, own[node], batches[node]) for node in range(nodes)]
            given += chance.sample(given, chance.randint(0, nodes))
            first = given[0]
            chance.shuffle(given)
            state = merged(*given)
            self.assertEqual(np.flatnonzero(state.mask()).tolist(), sorted(ids[:ends[-1]]))
            self.assertEqual((state.part, state.batches, state.run), (None, max(batches), first.run))

    def test_places_of_a_list(self) -> None:
        """Property, beside lists: after as many steps of all nodes, to the list's end."""
        chance = random.Random(SEED)
        for _ in range(300):
            nodes, length = chance.randint(2, 6), chance.randint(1, 60)
            cut, given = chance.randint(0, length), chance.randint(0, 20)
            listed = np.array([chance.randrange(SAMPLES) for _ in range(length)], "<u8")
            found, taken = [], list(range(cut))
            for node in range(nodes):
                begin = list_state(node, nodes, cut, cut, 2)
                position = Position(SAMPLES, listed, begin, nodes, node)
                own = [place for place in range(cut, length) if place % nodes == node][:given]
                for place in own:
                    position.note(wire.BatchHead(0, 1, position.batches, 0, 1, 0), listed[place:place + 1])
                    taken.append(place)
                found.append(list_state(node, nodes, cut, position.count))
            state = merged(*found)
            self.assertEqual(sorted(taken), list(range(state.count)), (nodes, length, cut, given))
            self.assertEqual((state.places, state.part), (state.count, None))

    def test_between_two_epochs_any_is_the_jobs(self) -> None:
        whole = [node_state(node, 3, [], [], 0, part=None) for node in range(3)]
        self.assertEqual(merged(*whole), whole[0])
        self.assertEqual(merged(whole[2]), whole[2])
        self.refused([whole[0], whole[1]._replace(batches=3)], "of the whole job and differ: batches 0 and 3")

    def test_what_cannot_be_merged_is_named(self) -> None:
        three = [node_state(node, 3, [1, 2], list(range(10 * node + 10, 10 * node + 16)))
                 for node in range(3)]
        self.assertEqual(merged(*three).count, 20)
        part = three[1].part
        assert part is not None
        for given, why in (
                ([], "there is no state to merge: give one of each node"),
                (three[:1], "the state of nodes 1, 2 of 3 is missing: about 12 samples that were given there "
                            "would come twice; give one state of each node"),
                (three[::2], "the state of node 1 of 3 is missing: about 6 samples"),
                ([three[0], three[1]._replace(epoch=2), three[2]],
                 "different epochs: node 0 of 3 is in epoch 1, node 2 of 3 is in epoch 1, node 1 of 3 is in "
                 "epoch 2; give states that were taken after the same step"),
                ([*three, three[1]._replace(batches=6)],
                 "two states of node 1, of batches 5 and 6.*after the same step"),
                ([three[0], three[1]._replace(data="9e1f00aa12bc34df"), three[2]],
                 "different jobs: data is 9e1f00aa12bc34de in node 0 of 3, 9e1f00aa12bc34df in node 1 of 3"),
                ([three[0], three[1]._replace(part=part._replace(parts="fixed")), three[2]],
                 "different parts: node 0 of 3 was cut behind batch 2 with 2 samples"),
                ([three[0], three[1]._replace(part=part._replace(batches=3)), three[2]], "different parts"),
                ([three[0], node_state(1, 4, [1, 2], [9])], "different parts"),
                ([three[0], three[1]._replace(part=None), three[2]],
                 "1 of the 3 states are of the whole job.*in the midst of epoch 1"),
                ([three[0], node_state(1, 3, [1, 2], [10, 11]), three[2]], "2 samples in common"),
                ([list_state(0, 3, 6, 12), list_state(1, 3, 6, 15), list_state(2, 3, 6, 12)],
                 "node 1 behind batch 5 and place 15.*about 1 samples would come twice"),
                ([list_state(0, 2, 6, 12, 4), list_state(1, 2, 6, 12)], "different places of their list")):
            with self.subTest(why):
                self.refused(given, why)
        seeded = [state._replace(order="seeded", seed=node) for node, state in enumerate(three)]
        self.refused(seeded, "different jobs: seed is 0 in node 0 of 3, 1 in node 1 of 3")
        with self.assertRaisesRegex(tureen.StateError, "checksum"):
            tureen.merge_states([{**states.pack(three[0]), "batches": "6"}])


class Going(unittest.TestCase):
    """On from a state."""

    def test_golden(self) -> None:
        """The files that both clients read and write."""
        for name in ("state_part", "state_part_list"):
            value = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
            self.assertEqual(states.pack(states.parse(value)), value)
            self.assertEqual(list(states.pack(states.parse(value))), list(value))
        part = states.parse(json.loads((GOLDEN / "state_part.json").read_text(encoding="utf-8"))).part
        assert part is not None
        self.assertEqual(part[:5] + (np.flatnonzero(states.unpack_words(part.words, 300)).tolist(),),
                         (4, 1, "fixed", 2, 2, [3, 64]))

    def test_join(self) -> None:
        """Byte for byte."""
        frames = golden("join_nodes")
        said = json.loads(frames[1])
        state = node_state(1, 3, [7, 8], [9, 10], 5, 4, samples=3000, epoch=3, run=said["run"],
                           fingerprint=said["resume"]["fingerprint"], data=said["resume"]["data"])
        state = state._replace(words=(0x780).to_bytes(8, "little"), part=Part(
            3, 1, "fixed", 4, 2, (0x180).to_bytes(8, "little"), None))
        asked = request(batch_size=2, epochs=4, job="trial-3", nodes=3, node=1, parts="fixed")
        self.assertEqual(asked.message(16, said["instance"], state), frames)
        self.assertEqual(request(nodes=1, node=0, parts="fixed").message(1), request().message(1))

    def test_who_may_go_on(self) -> None:
        """The same node; any number of nodes from the whole job's, which is cut there."""
        mine = node_state(1, 3, [1, 2], [10, 11, 12])
        self.assertEqual(request(nodes=3, node=1).fitted(mine), mine)
        for options in ({}, {"nodes": 3, "node": 0}, {"nodes": 2, "node": 1},
                        {"nodes": 3, "node": 1, "parts": "fixed"}):
            with self.subTest(options), self.assertRaisesRegex(
                    tureen.StateError, "node 1 of 3 with parts 'fresh'.*about 6 samples that the other nodes "
                    r"were given would come twice.*tureen.merge_states.*state_dict\(gather=True\)"):
                request(**options).fitted(mine)
        with self.assertRaisesRegex(tureen.StateError, "about 8 samples"):      # 4 on each of the others
            request(order="list", ids=range(60)).fitted(list_state(1, 3, 6, 18))
        whole = mine._replace(part=None)
        self.assertEqual(request().fitted(whole), whole)
        cut = request(nodes=7, node=6, parts="fixed").fitted(whole)
        self.assertEqual(cut.part, Part(7, 6, "fixed", whole.batches, whole.count, whole.words, None))
        fresh = whole.at_epoch(2)
        self.assertEqual(request(nodes=7, node=6).fitted(fresh), fresh)

    def test_arguments(self) -> None:
        for options, why in (({"nodes": 2}, "nodes is given without node"),
                             ({"node": 1}, "node is given without nodes"),
                             ({"nodes": 2, "node": 2}, "node"), ({"nodes": 1025, "node": 0}, "nodes"),
                             ({"parts": "new"}, "parts must be one of fresh, fixed")):
            with self.subTest(options), self.assertRaisesRegex(ValueError, why):
                request(**options)

    def test_steps_beside_the_deal(self) -> None:
        """Property: as many as the longest part needs; with drop_last as many as the shortest fills."""
        chance = random.Random(SEED)
        for _ in range(500):
            nodes, size, samples = chance.randint(1, 9), chance.randint(1, 9), chance.randint(0, 200)
            parts = [len(range(node, samples, nodes)) for node in range(nodes)]
            for drop_last in (False, True):
                asked = request(nodes=nodes, node=0, batch_size=size, drop_last=drop_last)
                expected = min(parts) // size if drop_last else len(range(0, max(parts), size))
                self.assertEqual(asked.steps(samples), expected, (nodes, size, samples))

    def test_a_part_that_is_wrong_is_refused(self) -> None:
        good = states.pack(node_state(1, 3, [1, 2], [10, 11]))
        part: Dict[str, Any] = good["part"]
        other = states.pack(node_state(1, 3, [1, 3], [10, 11]))["part"]["cut"]
        for changed in ({"nodes": 1}, {"nodes": "3"}, {"nodes": True}, {"nodes": 1025}, {"node": 3},
                        {"node": -1}, {"node": None}, {"parts": "old"}, {"batches": 2}, {"batches": "6"},
                        {"cut": None}, {"cut": {"places": "2"}}, {"cut": {}},
                        {"cut": {**part["cut"], "count": "3"}},
                        {"cut": {**part["cut"], "words": "*"}}, {"cut": other}, {"more": 1}):
            value = {**good, "part": {**part, **changed}}
            try:
                value["checksum"] = states._checksum(value)
            except (KeyError, TypeError):
                pass
            with self.subTest(changed), self.assertRaises(tureen.StateError):
                states.parse(value)
        for value in (None, 5, {}, {key: part[key] for key in ("nodes", "node")}):
            with self.subTest(value), self.assertRaises(tureen.StateError):
                states.parse({**good, "part": value})


if __name__ == "__main__":
    unittest.main()

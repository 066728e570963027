"""A job over several nodes on real servers that know of no other: every sample once an epoch over all nodes,
equally many batches on all, while servers are killed, and when another number of nodes goes on."""
import collections
import json
import os
import sys
import threading
import time
import unittest

import harness
from harness import Server, SystemTest

sys.path.insert(0, os.path.join(harness.SOURCE, "clients", "python"))
import tureen  # noqa: E402

PIPELINE = [{"op": "decode"}, {"op": "resize", "size": [16, 16]}, {"share": True}]
BATCH, EPOCHS = 6, 2


class Rank(threading.Thread):
    """One process of a node, as a thread: takes batches, so many at most, and keeps what it saw."""

    def __init__(self, loader, limit, pause_s):
        super().__init__(daemon=True)
        self.loader, self.limit, self.pause_s = loader, limit, pause_s
        self.batches = []               # (epoch, place, ids; of padding none)
        self.state = self.error = None
        self.length = None

    def run(self):
        try:
            for batch in self.loader:
                self.batches.append((batch.epoch, batch.index, [] if batch.padding else batch.ids.tolist()))
                if len(self.batches) == self.limit:
                    break
                time.sleep(self.pause_s)
            self.state = json.loads(json.dumps(self.loader.state_dict()))
        except Exception as error:      # told by the test
            self.error = error
        finally:
            self.loader.close()


class Nodes(SystemTest):
    SAMPLES = 203
    NODES, RANKS = 3, 2

    def setUp(self):
        self.servers = [self.serve().__enter__() for _ in range(self.NODES)]
        for server in self.servers:
            self.addCleanup(server.__exit__, None, None, None)

    def start(self, nodes, ranks, limit=0, states=None, pause_s=0.0, **options):
        """states: of each node, or one for all."""
        crew = []
        for node in range(nodes):
            for rank in range(ranks):
                own = dict(rank=rank, world_size=ranks, job="run, node %d" % node) if ranks > 1 else {}
                loader = tureen.Loader(self.servers[node % self.NODES].endpoint, "train", BATCH, EPOCHS,
                                       pipeline=PIPELINE, nodes=nodes, node=node, **own, **options)
                if states:
                    loader.load_state_dict(states[node] if isinstance(states, list) else states)
                crew.append(Rank(loader, limit, pause_s))
        for rank in crew:
            rank.start()
        return crew

    def finish(self, crew):
        for rank in crew:
            rank.join(4 * harness.PATIENCE)
            self.assertFalse(rank.is_alive(), "a rank hangs")
            if rank.error is not None:
                raise rank.error
        self.assertEqual(len({tuple((epoch, place) for epoch, place, _ in rank.batches) for rank in crew}), 1,
                         "the ranks have different steps")

    def assert_once(self, *crews, ids=None, missing=()):
        seen = collections.Counter((epoch, number) for crew in crews for rank in crew
                                   for epoch, _, numbers in rank.batches for number in numbers)
        wanted = range(self.SAMPLES) if ids is None else ids
        self.assertEqual(sorted(seen), sorted((epoch, number) for epoch in range(EPOCHS) for number in wanted
                                              if number not in missing))
        self.assertEqual(set(seen.values()), {1})

    def run_whole(self, nodes, ranks, **options):
        crew = self.start(nodes, ranks, **options)
        self.finish(crew)
        return crew

    def test_every_order(self):
        for options in ({}, {"order": "private"}, {"order": "seeded", "seed": 3}, {"order": "list"},
                        {"order": "list", "ids": list(range(self.SAMPLES))[::-1]}, {"parts": "fixed"},
                        {"subset": (10, 130)}):
            with self.subTest(**{key: str(value)[:20] for key, value in options.items()}):
                self.assert_once(self.run_whole(3, 1, **options),
                                 ids=range(10, 130) if "subset" in options else None)
        #  More nodes than there are servers, of which some have no sample in an epoch
        self.assert_once(self.run_whole(7, 1, subset=(20, 25)), ids=range(20, 25))

    def test_ranks(self):
        crew = self.run_whole(self.NODES, self.RANKS)
        self.assert_once(crew)
        steps = -(-(-(-self.SAMPLES // self.NODES)) // (self.RANKS * BATCH))
        self.assertEqual(len(crew[0].batches), EPOCHS * steps)
        parts = [{number for rank in crew[2 * node:2 * node + 2] for epoch, _, ids in rank.batches
                  if epoch == 0 for number in ids} for node in range(self.NODES)]
        again = [{number for rank in crew[2 * node:2 * node + 2] for epoch, _, ids in rank.batches
                  if epoch == 1 for number in ids} for node in range(self.NODES)]
        self.assertNotEqual(parts, again)

    def test_drop_last(self):
        crew = self.run_whole(self.NODES, self.RANKS, drop_last=True)
        step = self.RANKS * BATCH
        self.assertEqual({len(rank.batches) for rank in crew},
                         {EPOCHS * (self.SAMPLES // self.NODES // step)})
        self.assertTrue(all(len(ids) == BATCH for rank in crew for _, _, ids in rank.batches))

    def test_another_number_goes_on(self):
        """From the merged states, at several steps; from each node's own; and what is refused."""
        for limit, nodes, ranks in ((1, 2, 1), (4, 1, 2), (7, 3, 2), (9, 5, 1)):
            with self.subTest(limit=limit, nodes=nodes, ranks=ranks):
                first = self.start(self.NODES, 1, limit)
                self.finish(first)
                merged = tureen.merge_states([rank.state for rank in first])
                second = self.start(nodes, ranks, states=merged)
                self.finish(second)
                self.assert_once(first, second)
        first = self.start(self.NODES, self.RANKS, 4)
        self.finish(first)
        own = [first[self.RANKS * node].state for node in range(self.NODES)]
        second = self.start(self.NODES, self.RANKS, states=own)
        self.finish(second)
        self.assert_once(first, second)
        with self.assertRaisesRegex(tureen.StateError, "node 2 of 3 .* would come twice"):
            tureen.Loader("ipc:///nowhere", nodes=3, node=1).load_state_dict(own[2])
        #  A client that does not check it is refused by the server.
        forged = tureen.state.parse(own[2])
        forged = tureen.state.pack(forged._replace(part=forged.part._replace(node=1)))
        loader = tureen.Loader(self.servers[1].endpoint, "train", BATCH, EPOCHS, pipeline=PIPELINE, nodes=3,
                               node=1)
        loader.load_state_dict(forged)
        with self.assertRaisesRegex(tureen.RequestRefused, "not in the part of node 1 of 3"):
            iter(loader)

    def test_a_server_is_killed(self):
        """Its clients look for it, and go on in their part; the others notice nothing."""
        crew = self.start(self.NODES, self.RANKS, pause_s=0.02)
        for _ in range(3):
            time.sleep(0.15)
            self.servers[1].kill()
            self.servers[1].start()
        self.finish(crew)
        self.assert_once(crew)

    def test_status(self):
        crew = self.start(self.NODES, 1, limit=2, pause_s=1)
        found = harness.wait_until("the job is there", lambda: self.servers[2].status()["jobs"])[0]
        self.assertEqual([found[key] for key in ("nodes", "node", "parts")], [3, 2, "fresh"])
        self.finish(crew)


class Unreadable(SystemTest):
    """Each server finds by itself what it cannot read."""
    SAMPLES = 60
    NODES, RANKS = 3, 1
    start, finish, assert_once, setUp = Nodes.start, Nodes.finish, Nodes.assert_once, Nodes.setUp

    def test_padding_stands_for_it(self):
        paths = sorted(os.path.join(folder, name) for folder, _, names in os.walk(self.data)
                       for name in names)
        bad = set(range(0, self.SAMPLES, 4))
        for number in bad:
            with open(paths[number], "wb") as file:
                file.write(b"no picture")
        with self.assertWarns(tureen.UnreadableWarning):
            crew = self.start(self.NODES, 2)
            self.finish(crew)
        self.assert_once(crew, missing=bad)


if __name__ == "__main__":
    unittest.main()

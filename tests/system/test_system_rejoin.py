"""The Python client and real servers that are killed under it, stopped, and started again: each sample once
an epoch, what was received before is still given, and what is kept stays as it is."""
import json
import logging
import os
import sys
import unittest

import numpy as np

import harness
from harness import SystemTest, seeded, wait_until

sys.path.insert(0, os.path.join(harness.SOURCE, "clients", "python"))
import tureen  # noqa: E402

PIPELINE = [{"op": "decode"}, {"op": "resize", "size": [16, 16]}]
LIST = [(number * 7) % 31 for number in range(160)]
BATCH, EPOCHS = 8, 2
KINDS = {"shared": {}, "private": {"order": "private"}, "ascending": {"order": "list"},
         "list": {"order": "list", "ids": LIST}, "seeded": {"seed": 7}}


class Rejoin(SystemTest):
    SAMPLES = 160

    def setUp(self):
        logging.getLogger("tureen").disabled = True
        self.addCleanup(setattr, logging.getLogger("tureen"), "disabled", False)

    def loader(self, server, **how):
        return tureen.Loader(server.endpoint, batch_size=BATCH, epochs=EPOCHS, pipeline=PIPELINE,
                             timeout=harness.PATIENCE, rejoin=4 * harness.PATIENCE, **how)

    def assert_whole(self, seen, how):
        wanted = how.get("ids", list(range(self.SAMPLES)))
        for epoch in range(EPOCHS):
            ids = [id for batch in seen if batch[0] == epoch for id in batch[2]]
            if how.get("order") == "list":
                self.assertEqual(ids, wanted)
            else:
                self.assertEqual(sorted(ids), wanted)
        steps = len(wanted) // BATCH
        self.assertEqual([batch[:2] for batch in seen], [divmod(step, steps)
                                                         for step in range(EPOCHS * steps)])

    def run_through(self, server, loader, losses, lose):
        """Loses the server so often, at random steps; a batch is kept over each loss."""
        chance = seeded("losses")
        at = set(chance.sample(range(1, 2 * self.SAMPLES // BATCH - 8), losses))
        seen, kept = [], []
        for step, batch in enumerate(loader):
            seen.append((batch.epoch, batch.index, batch.ids.tolist()))
            if step in at:
                kept.append((batch, batch["image"].copy()))
                lose()
                server.start()
        for batch, pixels in kept[-2:]:
            self.assertTrue((batch["image"] == pixels).all())
        return seen

    def test_killed_again_and_again(self):
        orders = {}
        for name, transport in (("shared", "auto"), ("private", "inline"), ("ascending", "auto"),
                                ("list", "auto"),
                                ("seeded", "auto"), ("seeded", "inline")):
            with self.subTest(name, transport=transport), self.serve() as server:
                loader = self.loader(server, transport=transport, **KINDS[name])
                seen = self.run_through(server, loader, 2, server.kill)
                self.assert_whole(seen, KINDS[name])
                self.assertGreaterEqual(loader.stats()["rejoined"], 1)
                orders[name, transport] = [id for batch in seen for id in batch[2]]
                loader.close()
        self.assertEqual(orders["seeded", "auto"], orders["seeded", "inline"])

    def test_stopped_over_tcp(self):
        with self.serve(tcp=True) as server:
            loader = self.loader(server, transport="inline", job="trial")
            self.assert_whole(self.run_through(server, loader, 2, server.stop), {})
            loader.close()

    def test_state_after_a_server_that_never_comes_back(self):
        with self.serve() as server:
            loader = self.loader(server, order="private")
            loader._rejoin = 0.1                # not as long as the others
            seen, batches = [], iter(loader)
            with self.assertRaisesRegex(tureen.ServerGone, r"looked for during 0.1 s"):
                for step, batch in enumerate(batches):
                    seen.append((batch.epoch, batch.index, batch.ids.tolist()))
                    if step == 23:
                        server.kill()
            state = json.loads(json.dumps(loader.state_dict()))
            server.start()
            other = self.loader(server)
            other.load_state_dict(state)
            seen += [(batch.epoch, batch.index, batch.ids.tolist()) for batch in other]
            self.assert_whole(seen, {})
            self.assertEqual(other.state_dict()["epoch"], str(EPOCHS))
            loader.close()
            other.close()

    def test_questions(self):
        """What the real server answers: where the time went, what was done to a sample; and that it does not
        fit."""
        with self.serve() as server:
            with self.loader(server, name="asking") as loader:
                batches = iter(loader)
                batch = next(batches)
                explained = loader.explain(int(batch.ids[3]))
                self.assertEqual((explained["id"], explained["row"]), (str(batch.ids[3]), "3"))
                with self.assertRaises(tureen.RequestRefused) as refused:
                    loader.explain(10**9)
                self.assertEqual(refused.exception.code, "unknown_sample")
                for batch in batches:
                    pass
                stats = loader.stats()
                self.assertEqual((stats["batches"], stats["samples"]), (40, 320))
                self.assertGreater(sum(stats["waits"].values()), 0)
                self.assertTrue(stats["sharing"])
                state = loader.state_dict()
                del batch
            wait_until("the job is gone", lambda: "asking" not in server.job_names())
            self.assertEqual(loader.stats()["sharing"], stats["sharing"])
            other = tureen.Loader(server.endpoint, batch_size=BATCH, subset=range(0, 80))
            other.load_state_dict(state)
            with self.assertRaises(tureen.RequestRefused) as refused:
                iter(other)
            self.assertEqual(refused.exception.code, "bad_state")

    def test_two_clients_and_one_name(self):
        """The second is refused for as long as the first is there; with its state it takes its place."""
        with self.serve() as server:
            first = self.loader(server, job="trial")
            iterator = iter(first)
            held = next(iterator)
            ids, pixels = held.ids.tolist(), held["image"].copy()
            state = first.state_dict()
            program = ("import sys, json; sys.path.insert(0, sys.argv[1]); import tureen\n"
                       "pipeline = json.loads(sys.argv[3])\n"
                       "loader = tureen.Loader(sys.argv[2], batch_size=8, epochs=1, pipeline=pipeline, "
                       "job='trial')\nif sys.argv[4]: loader.load_state_dict(json.loads(sys.argv[4]))\n"
                       "try: print(json.dumps([id for batch in loader for id in batch.ids.tolist()]))\n"
                       "except tureen.RequestRefused as refused: print(json.dumps(refused.code))\n")

            def second(state):
                return json.loads(harness.subprocess.run(
                    [sys.executable, "-B", "-c", program, os.path.join(harness.SOURCE, "clients", "python"),
                     server.endpoint, json.dumps(PIPELINE), state], stdout=harness.subprocess.PIPE,
                         check=True).stdout)
            self.assertEqual(second(""), "job_taken")
            self.assertEqual(sorted(ids + second(json.dumps(state))), list(range(self.SAMPLES)))
            with self.assertRaises(tureen.JobEnded) as ended:
                for _ in iterator:
                    pass
            self.assertEqual(ended.exception.reason, "fenced")
            wait_until("its thread has ended", lambda: not iterator._connection._thread.is_alive())
            for _ in range(2):                  # by the second answer the server has heard of what was closed
                server.status()
            self.assertTrue(np.array_equal(held["image"], pixels), "what the user holds of an ended job")
            del held, iterator
            first.close()
            wait_until("the memory is the server's again", lambda: server.status()["outgoing_bytes"] == 0)


if __name__ == "__main__":
    unittest.main()

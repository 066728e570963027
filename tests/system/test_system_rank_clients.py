"""Ranks of the clients that users have, while their server and they themselves are killed; and of clients
that mean harm."""
import json
import logging
import os
import subprocess
import sys
import threading
import unittest

import zmq

import harness
from harness import wait_until
from plain_client import Refused, ids_recent, recent_numbers
from rank_courses import SMALL, LossTest

sys.path.insert(0, os.path.join(harness.SOURCE, "clients", "python"))
import tureen  # noqa: E402


class Clients(LossTest):
    """The clients that users have: they join again by themselves."""

    def setUp(self):
        logging.getLogger("tureen").disabled = True
        self.addCleanup(setattr, logging.getLogger("tureen"), "disabled", False)

    def train(self, loader, seen, stops):
        """A rank's loop, in a thread: (epoch, step): its ids, and the state behind it.  stops: after so many
        steps it waits."""
        try:
            for batch in loader:
                ids = [] if batch.padding else batch.ids.tolist()
                seen[batch.epoch, batch.index] = ids, loader.state_dict()
                if len(seen) in stops:
                    stops[len(seen)].wait(harness.PATIENCE)
        except BaseException as error:
            seen["error"] = error

    def test_python_and_the_servers_death(self):
        for kind in ("shared", "seeded"):
            with self.subTest(kind=kind), self.serve() as server:
                known, seen = self.known(server, kind, epochs=4)[0], [{} for _ in range(3)]
                request = self.request(kind, epochs=4)
                if "seed" in request:
                    request["seed"] = int(request["seed"])
                loaders = [tureen.Loader(server.endpoint, rank=rank, world_size=3, rejoin=harness.PATIENCE,
                                         transport=("auto", "inline", "auto")[rank], **request)
                                             for rank in range(3)]
                deaths = {steps: threading.Event() for steps in (4, 11)}        # of 24
                #   No rank is through before the server has died; how far each gets then, is chance.
                threads = [threading.Thread(target=self.train, daemon=True, args=(
                    loaders[rank], seen[rank], {steps + rank: death for steps, death in deaths.items()}))
                        for rank in range(3)]
                for thread in threads:
                    thread.start()
                for steps, death in deaths.items():
                    wait_until("all have come so far", lambda: any("error" in rank for rank in seen)
                               or min(map(len, seen)) >= steps)
                    server.kill()
                    server.start()
                    death.set()
                for thread in threads:
                    thread.join(harness.PATIENCE)
                for loader in loaders:
                    loader.close()
                self.assertEqual([rank.get("error") for rank in seen], [None] * 3)
                self.assertEqual(loaders[0].stats()["rejoined"], 2)
                for epoch in range(4):
                    steps = [[rank[epoch, index] for rank in seen] for index in range(6)]
                    ids = [number for step in steps for part, _ in step for number in part]
                    self.assertEqual(ids if known else sorted(ids),
                                     known[epoch] if known else list(range(self.SAMPLES)))
                    for step in steps:
                        self.assertEqual(step[0][1], step[1][1])
                        self.assertEqual(step[0][1], step[2][1])
                self.assertEqual({len(rank) for rank in seen}, {24})

    def keep(self, loader, own, seen):
        """A rank's loop, in a thread, which keeps the images of its own steps for ever."""
        try:
            for batch in loader:
                images = batch["image"]
                seen[batch.index] = batch.ids.tolist(), images.copy(), images if batch.index in own else None
                del batch, images
        except BaseException as error:
            seen["error"] = error

    def test_ranks_that_keep_batches_of_different_steps(self):
        """Together they keep as many steps as a ring has; none holds up the others, and nothing that is kept
        is written again."""
        with self.serve() as server:
            for owns, slots in (((0, 1), (2, 3)), 4), (((0,), (1,), (2,), (3,)), 4), (((0,), (1,), (2,)), 3):
                with self.subTest(owns=owns, slots=slots):
                    loaders = [tureen.Loader(server.endpoint, "files", 1, 1, rank=rank, slots=slots,
                                             pipeline=self.request("shared")["pipeline"], job=f"keeps {owns}",
                                             world_size=len(owns)) for rank in range(len(owns))]
                    seen = [{} for _ in owns]
                    threads = [threading.Thread(target=self.keep, daemon=True, args=(loader, own, found))
                               for loader, own, found in zip(loaders, owns, seen)]
                    for thread in threads:
                        thread.start()
                    for thread in threads:
                        thread.join(harness.PATIENCE)
                    self.assertEqual([found.get("error") for found in seen], [None] * len(owns))
                    steps = -(-self.SAMPLES // len(owns))
                    self.assertEqual([len(found) for found in seen], [steps] * len(owns))
                    for ids, then, kept in (one for found in seen for one in found.values()):
                        self.assertTrue(kept is None or (kept == then).all(), ids)
                    for loader in loaders:
                        loader.close()

    def test_read_is_killed_and_started_again(self):
        """`tureen read`: one of the ranks, then the server, is killed; the files of all together have each
        epoch once."""
        with self.serve() as server:
            def start(rank):
                files = [os.path.join(server.folder, "%s-%d" % (name, rank)) for name in ("ids", "state")]
                command = [harness.TUREEN, "read", "--connect", server.endpoint, "--dataset", "files",
                           "--batch", "2", "--epochs", "3", "--pipeline", json.dumps(SMALL), "--ids",
                           files[0], "--state", files[1], "--state-every", "1", "--job", "trial",
                           "--world-size", "2", "--rank", str(rank), "--rank-wait", "600", "--rate", "100"]
                process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                           universal_newlines=True, env=server.environment)
                self.addCleanup(lambda: process.stderr.closed or (process.kill(), process.communicate()))
                return process

            def parts():
                paths = [os.path.join(server.folder, "ids-%d" % rank) for rank in range(2)]
                return [harness.parse_ids(path) if os.path.exists(path) else ({}, None) for path in paths]

            def delivered():
                return min(sum(map(len, finished.values())) + len(rest or []) for finished, rest in parts())
            ranks = [start(rank) for rank in range(2)]
            wait_until("ids come", lambda: delivered() >= 12)
            ranks[1].kill()
            ranks[1].communicate()
            ranks[1] = start(1)
            wait_until("it goes on", lambda: delivered() >= 24)
            server.kill()
            server.start()
            for rank in ranks:
                _, errors = rank.communicate(timeout=4 * harness.PATIENCE)
                self.assertEqual(rank.returncode, 0, errors)
            (first, _), (second, _) = parts()
            for epoch in range(3):
                self.assertEqual(sorted(first[epoch] + second[epoch]), list(range(self.SAMPLES)))
            self.assert_nothing_left(server)


class Hostile(LossTest):
    def numbers(self, generator, records):
        """What `recent` might say: sound records with something changed, or nonsense."""
        numbers = recent_numbers(records)
        strange = [0, 1, 2, 3, 60, 61, 255, 256, 2**20, 2**20 + 1, 2**32, 2**53, 2**63, 2**64 - 1]
        way = generator.randrange(12)
        if way > 7:
            return numbers
        if way == 0:
            return [generator.choice(strange) for _ in range(generator.randrange(40))]
        if way == 1:
            return numbers[:generator.randrange(len(numbers))]
        if way == 2:
            return numbers * generator.choice([2, 3, 300])
        if way == 3:
            return [1, 0, 0, 0] * generator.choice([1, 256, 257, 10000])
        for _ in range(generator.randrange(1, 4)):
            numbers[generator.randrange(len(numbers))] = generator.choice(strange)
        return numbers

    def test_recent_and_ranks_made_up(self):
        """Whatever clients say or leave unsaid: the server lives, others get their job, and nothing is left
        of it all."""
        generator = harness.seeded("made up")
        with self.serve() as server:
            courses = self.courses(server, 2, generator).begin(**self.request("seeded", rank_wait=3600))
            courses.walk(5)
            state, records = dict(courses.ranks[0].state), list(courses.ranks[0].recent)
            late = self.courses(server, 2, generator)           # one of them never takes its ring
            late.ask(each=[{"transport": "auto"}] * 2, **self.request(job="late"))
            for course in late.ranks:
                course.joined_answer()
            late.ranks[0].take_ring()
            answers, came = {}, []
            for number in range(200):
                connection = self.course(server)
                connection.socket.setsockopt(zmq.LINGER, 200)
                frame = ids_recent(self.numbers(generator, records))
                if generator.random() < 0.1:
                    frame = frame[:generator.randrange(len(frame) + 1)]
                keys = dict(self.request("seeded"), rank=generator.choice([0, 0, 0, 1, 1, 1, 2, 63]),
                            gather=2, world_size=generator.choice([2] * 8 + [3, 64]),
                            job="made-up-%d" % generator.randrange(3))
                if generator.random() < 0.2:
                    keys["job"] = "trial"
                there = dict(state, batches=generator.choice([5] * 8 + [4, 3, 0, 2**63]),
                             epoch=generator.choice([0] * 8 + [1, 2, 3]))
                connection.set_out(there, recent_frames=[frame] if generator.random() < 0.7 else None, **keys)
                came.append(connection)
                if generator.random() < 0.6:
                    connection = came.pop(generator.randrange(len(came)))
                    try:
                        if connection.joined_answer(generator.choice([0, 0.02])):
                            answers["joined"] = answers.get("joined", 0) + 1
                    except Refused as refused:
                        answers[refused.code] = answers.get(refused.code, 0) + 1
                    connection.close()
                self.assertIsNone(server.process.poll(), "the server has ended")
            print(answers, flush=True)
            for connection in came:
                connection.close()
            self.assertLessEqual(set(answers), {"joined", "ranks_differ", "ranks_missing", "bad_request",
                                                "bad_state", "job_taken", "busy", "malformed"})
            message = self.ended(late.ranks[0], "transport")
            self.assertRegex(message, r"\brank 1\b")
            late.close()
            courses.close()
            self.assert_nothing_left(server)
            again = self.courses(server, 3, generator).begin(**self.request("seeded"))
            again.walk().leave()
            self.assert_rest(again, None)
            self.assert_nothing_left(server)


if __name__ == "__main__":
    unittest.main(verbosity=2)

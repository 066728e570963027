"""Ranks that are lost, come back or leave, and servers that die under them: on the real server.  The client
is plain_client.py, so that the protocol's document is what is tested."""
import json
import os
import signal
import unittest

import harness
from harness import wait_until
from plain_client import Batch, Ended, Refused, ids_recent, recent_numbers
from rank_courses import KINDS, ONE, OTHER, SMALL, LossTest


class ServerDeath(LossTest):
    def test_at_different_steps(self):
        """Each client joins again from where it stood; over both servers each sample comes once, and to the
        same rank."""
        generator = harness.seeded("the server's death")
        #   Steps that all have taken, and how far each is ahead of that; the first has six in an epoch.
        cases = [("seeded", 3, 4, 4, (2, 0, 1)), ("shared", 3, 4, 5, (0, 2, 1)), ("list", 3, 4, 3, (1, 0, 0)),
                 ("pool", 2, 5, 6, (0, 2)), ("private", 4, 4, 3, (2, 2, 0, 1)),
                 ("ascending", 2, 5, 12, (2, 0)),
                 ("shared", 3, 4, 10, (0, 2, 2)), ("seeded", 2, 4, 0, (0, 2))]
        with self.serve() as server:
            running = []
            for number, (kind, world_size, batch_size, level, ahead) in enumerate(cases):
                courses = self.courses(server, world_size, generator)
                known, pixels = self.known(server, kind)
                courses.begin(**self.request(kind, batch_size=batch_size, job="trial-%d" % number))
                courses.walk(level, seen=self.look(pixels))
                for rank, count in enumerate(ahead):
                    while count:
                        count -= isinstance(courses.take(rank), Batch)
                    if courses.position(rank) == (1, -(-self.SAMPLES // (world_size * batch_size))):
                        self.assertTrue(courses.take(rank).last)        # this one has got everything
                running.append((courses, known, pixels))
            server.kill()
            server.start()
            for (kind, *_), (courses, known, pixels) in zip(cases, running):
                with self.subTest(kind=kind, stood=[courses.position(rank)
                                                    for rank in range(courses.world_size)]):
                    for rank in generator.sample(range(courses.world_size), courses.world_size):
                        run = courses.ranks[rank].state["run"]
                        courses.ask_again(rank)
                    courses.arrive()
                    self.assertEqual({course.joined["run"] for course in courses.ranks}, {run})
                    courses.walk(seen=self.look(pixels)).leave()
                    self.assert_rest(courses, known)
            self.assert_nothing_left(server)

    def test_again_and_again(self):
        generator = harness.seeded("again and again")
        with self.serve() as server:
            courses, known = self.courses(server, 3, generator), self.known(server, "seeded", epochs=4)[0]
            courses.begin(**self.request("seeded", epochs=4, slots=6))
            for _ in range(3):
                courses.walk(generator.randrange(1, 5))
                for rank in range(3):
                    for _ in range(generator.randrange(3)):
                        if courses.position(rank) <= min(map(courses.position, range(3))):
                            courses.take(rank)
                server.kill()
                server.start()
                for rank in generator.sample(range(3), 3):
                    courses.ask_again(rank)
                courses.arrive()
            courses.walk().leave()
            self.assert_rest(courses, known, epochs=4)

    def test_what_was_between_is_not_known(self):
        """Without `recent`, or with too little of it, it cannot be known what a rank lacks."""
        generator = harness.seeded("not known")
        with self.serve() as server:
            courses = self.courses(server, 2, generator).begin(**self.request("shared"))
            courses.walk(3)
            courses.take(0)
            courses.take(0)
            states = [dict(course.state) for course in courses.ranks]
            recent = list(courses.ranks[0].recent)
            courses.close()
            self.assert_nothing_left(server)
            for recents, gather in ((None, 300), ([recent[-1:], None], 300), ([recent[:-1], recent], 1)):
                again = self.courses(server, 2, generator)
                refused = again.ask(states, recents, **self.request("shared", gather=gather)).refusals()
                #   The last of them says that it received less than where it stands: that is no `recent`.
                codes = {code for code, _ in refused}
                self.assertTrue(codes <= {"ranks_differ", "bad_request", "bad_state", "ranks_missing"},
                                refused)
                if recents is None or recents[1] is None:
                    self.assertEqual(codes, {"ranks_differ"})
                    for _, message in refused:
                        self.assertRegex(message, r"rank 0 .*\b5\b.*rank 1 .*\b3\b|rank 1 .*\b3\b.*rank 0 "
                                         r".*\b5\b")
            #   The same state on both needs none.
            again = self.courses(server, 2, generator).begin(states[0], **self.request("shared"))
            again.walk().leave()
            self.assert_rest(again, None, states[0])

    def test_recent_in_many_frames(self):
        generator = harness.seeded("many frames")
        with self.serve() as server:
            courses = self.courses(server, 2, generator).begin(**self.request("seeded", batch_size=15))
            known = self.known(server, "seeded")[0]
            courses.walk(3)
            while courses.position(0) < (1, 2):
                courses.take(0)
            states = [dict(course.state) for course in courses.ranks]
            numbers = recent_numbers(courses.ranks[0].recent)
            server.kill()
            server.start()
            for rank, course in enumerate(courses.ranks):
                course.close()
                course = courses.ranks[rank] = self.course(server)
                frames = [ids_recent(numbers[begin:begin + 7])
                          for begin in range(0, len(numbers), 7)] if rank == 0 else None
                course.set_out(states[rank], recent_frames=frames, rank=rank, world_size=2,
                               **self.request("seeded", batch_size=15))
            courses.arrive()
            courses.walk().leave()
            self.assert_rest(courses, known)


class RankDeath(LossTest):
    def test_without_patience(self):
        """rank_wait 0: the ranks that are left are told at once which rank is gone and what became of the
        job."""
        generator = harness.seeded("without patience")
        with self.serve() as server:
            for how in ("process", "ring", "connection"):
                with self.subTest(how=how):
                    request = self.request("seeded", epochs=10**6, rank_wait=0)
                    survivor = self.course(server)
                    survivor.set_out({}, rank=0, world_size=2, **request)
                    if how == "process":
                        path = os.path.join(server.folder, "state")
                        victim = server.plain(course=dict(request, rank=1, world_size=2), state=path,
                                              pause=0.01)
                        survivor.arrive()
                        survivor.walk(3)
                        wait_until("it is at work", lambda: os.path.exists(path))
                        victim.signal(signal.SIGKILL)
                        victim.wait()
                    else:
                        victim = self.course(server)
                        victim.begin({}, rank=1, world_size=2,
                                     transport="auto" if how == "ring" else "inline", **request)
                        survivor.arrive()
                        victim.walk(generator.randrange(1, 3))
                        if how == "ring":
                            victim.drop_ring()
                        else:
                            victim.close()
                    message = self.ended(survivor, "rank_lost")
                    self.assertRegex(message, r"\brank 1\b")
                    self.assertIn("'trial'", message)
                    survivor.close()
                    self.assert_nothing_left(server)

    def test_it_comes_back(self):
        """The others are told and sent nothing; then it gets what it lacks, and all go on."""
        generator = harness.seeded("it comes back")
        with self.serve() as server:
            for kind in KINDS:
                with self.subTest(kind=kind):
                    known, pixels = self.known(server, kind, epochs=4)
                    courses = self.courses(server, 3, generator)
                    courses.begin(**self.request(kind, epochs=4, rank_wait=3600, job=kind))
                    for loss in range(3):
                        courses.walk(generator.randrange(1, 5), seen=self.look(pixels))
                        victim = generator.randrange(3)
                        courses.lose(victim)
                        others = [rank for rank in range(3) if rank != victim]
                        for rank in others:
                            self.assertRegex(self.told(courses, rank), r"\brank %d\b" % victim)
                        job, = [job for job in server.status()["jobs"] if job["job_name"] == kind]
                        self.assertEqual([rank["state"] for rank in job["ranks"]],
                                         ["lost" if rank == victim else "here" for rank in range(3)])
                        self.assertEqual(job["waiting_on"], "rank")
                        if not loss:
                            self.assertIsNone(courses.ranks[others[0]].event(0.3),
                                              "the job goes on without it")
                        courses.come_again(victim)
                        self.assertEqual(courses.ranks[victim].number, courses.ranks[others[0]].number)
                    courses.walk(seen=self.look(pixels)).leave()
                    self.assert_rest(courses, known, epochs=4)
            self.assert_nothing_left(server)

    def test_it_is_started_anew_at_once(self):
        """As another client, from the state it had saved, before the server has noticed that it died."""
        with self.serve() as server:
            for transport in ("auto", "inline"):
                with self.subTest(transport=transport):
                    request = self.request("seeded", epochs=10**6, rank_wait=3600)
                    survivor, back = self.course(server), self.course(server)
                    survivor.set_out({}, rank=0, world_size=2, **request)
                    path = os.path.join(server.folder, transport)
                    victim = server.plain(course=dict(request, rank=1, world_size=2, transport=transport),
                                          state=path, pause=0.01)
                    survivor.arrive()
                    survivor.walk(3)
                    wait_until("it is at work", lambda: os.path.exists(path))
                    victim.signal(signal.SIGKILL)
                    victim.wait()
                    with open(path) as file:
                        state = json.load(file)
                    back.begin(state, rank=1, world_size=2, transport=transport, **request)
                    self.assertEqual(back.number, survivor.number)
                    survivor.close()
                    back.close()
                    self.assert_nothing_left(server)        # the next job has this one's name

    def test_it_is_started_anew_while_it_still_looks_alive(self):
        """Its client is only stopped: so the new one gathers, and is back as soon as the old one is lost."""
        with self.serve() as server:
            for transport in ("auto", "inline"):
                with self.subTest(transport=transport):
                    request = self.request("seeded", epochs=10**6, rank_wait=3600, gather=3600)
                    survivor, back = self.course(server), self.course(server)
                    survivor.set_out({}, rank=0, world_size=2, **request)
                    path = os.path.join(server.folder, transport)
                    victim = server.plain(course=dict(request, rank=1, world_size=2, transport=transport),
                                          state=path, pause=0.01)
                    survivor.arrive()
                    survivor.walk(3)
                    wait_until("it is at work", lambda: os.path.exists(path))
                    victim.signal(signal.SIGSTOP)
                    with open(path) as file:
                        back.set_out(json.load(file), rank=1, world_size=2, transport=transport, **request)
                    wait_until("it gathers", lambda: back.joined_answer(0.05) or back.gathering)
                    self.assertIsNone(back.joined_answer(1.2), "the old one is taken for dead")
                    victim.signal(signal.SIGKILL)
                    victim.wait()
                    back.arrive()
                    self.assertEqual(back.number, survivor.number)
                    for course in (back, survivor):
                        self.assertIsInstance(course.take(), Batch)
                    self.assertEqual(server.status()["gathering"], [])
                    survivor.close()
                    back.close()
                    self.assert_nothing_left(server)

    def test_several_at_once(self):
        """Two of four are gone, one of them again before it got what it lacks; and all at once end the
        job."""
        generator = harness.seeded("several")
        with self.serve() as server:
            known = self.known(server, "seeded", epochs=3)[0]
            courses = self.courses(server, 4, generator).begin(**self.request("seeded", epochs=3,
                rank_wait=3600))
            courses.walk(2)
            while courses.position(0) < (0, 4):         # the others lack something, once they come again
                courses.take(0)
            for victim in (1, 3):
                courses.lose(victim)
            self.told(courses, 0)
            self.told(courses, 0)
            courses.come_again(3)
            courses.lose(3)
            self.told(courses, 0)
            for victim in (3, 1):
                courses.come_again(victim)
            courses.walk(2)
            for victim in range(3):
                courses.lose(victim)
            for _ in range(3):
                self.told(courses, 3)
            for victim in (2, 0, 1):
                courses.come_again(victim)
            courses.walk().leave()
            self.assert_rest(courses, known, epochs=3)
            courses = self.courses(server, 2, generator).begin(**self.request("seeded", rank_wait=3600))
            courses.close()
            self.assert_nothing_left(server)

    def test_it_does_not_come_back(self):
        generator = harness.seeded("it does not come back")
        with self.serve() as server:
            courses = self.courses(server, 2, generator)
            courses.begin(each=[{"rank_wait": 1}, {"rank_wait": 0}], **self.request())
            courses.walk(1)
            courses.lose(0)
            self.assertRegex(self.told(courses, 1), r"\b1 second")
            message = self.ended(courses.ranks[1], "rank_lost")
            self.assertRegex(message, r"\brank 0\b")
            self.assertIn("'trial'", message)
            courses.close()
            self.assert_nothing_left(server)

    def test_clients_that_may_come_back(self):
        """A client is not that rank if it asks for something else, is another, or is there already; it is if
        it never got its JOINED."""
        generator = harness.seeded("which may come back")
        with self.serve() as server:
            courses = self.courses(server, 2, generator)
            courses.begin(each=[{"instance": ONE}, {"instance": OTHER}],
                          **self.request("shared", rank_wait=3600))
            courses.walk(2)
            courses.lose(1)
            self.told(courses, 0)
            state = courses.ranks[1].state
            for code, given, keys in (("ranks_differ", state, {"batch_size": 5}),
                                      ("ranks_differ", state, {"order": "private"}), ("job_taken", {}, {}),
                                      ("job_taken", {}, {"instance": "0" * 32}),
                                      ("job_taken", {}, {"rank": 0}), ("job_taken", {}, {"world_size": 3}),
                                      ("bad_state", dict(state, fingerprint="0" * 32), {})):
                with self.subTest(code=code, keys=keys):
                    with self.assertRaises(Refused) as refused:
                        self.course(server).begin(given, **dict(self.request("shared"), **dict(
                            {"rank": 1, "world_size": 2}, **keys)))
                    self.assertEqual(refused.exception.code, code, refused.exception.message)
            courses.come_again(1, instance=OTHER)
            courses.walk(1)
            #   Its first connection is still there, and the server has not noticed anything.
            ghost, old = courses.ranks[1], dict(courses.ranks[1].state)
            courses.ranks[1] = self.course(server)

            def comes():
                courses.ranks[1].set_out(dict(old), rank=1, world_size=2, instance=OTHER,
                                         **self.request("shared"))
                try:
                    return courses.ranks[1].arrive()
                except Refused as refused:
                    self.assertEqual(refused.code, "busy")
            wait_until("it is taken", comes)
            ghost.close()
            courses.walk().leave()
            self.assert_rest(courses, None)
            self.assert_nothing_left(server)

    def test_never_got_its_answer(self):
        """It died before it read JOINED, so it has no state: it is known by its instance."""
        generator = harness.seeded("no answer")
        with self.serve() as server:
            courses = self.courses(server, 2, generator)
            courses.begin(each=[{"instance": ONE}, {"instance": OTHER}],
                          **self.request("shared", rank_wait=3600))
            courses.lose(1)
            self.told(courses, 0)
            courses.come_again(1, {}, instance=OTHER)
            courses.walk().leave()
            self.assert_rest(courses, None)

    def test_all_are_restarted(self):
        """From a state that is older than what the server knows, while a part of the old job is still there:
        it is fenced."""
        generator = harness.seeded("all are restarted")
        with self.serve() as server:
            for kind in ("shared", "seeded", "list"):
                with self.subTest(kind=kind):
                    known = self.known(server, kind, epochs=3)[0]
                    request = self.request(kind, epochs=3, rank_wait=3600, job=kind)
                    courses = self.courses(server, 3, generator).begin(**request)
                    courses.walk(1)
                    state = dict(courses.ranks[0].state)
                    courses.walk(10)
                    courses.lose(1)
                    for rank in (0, 2):
                        self.told(courses, rank)
                    again = self.courses(server, 3, generator)
                    again.ranks[1].set_out(dict(state), rank=1, world_size=3, **request)
                    wait_until("it gathers", lambda: again.ranks[1].joined_answer(0.05)
                               or again.ranks[1].gathering)
                    self.assertIsNone(again.ranks[1].joined)
                    for rank in (2, 0):
                        again.ranks[rank].set_out(dict(state), rank=rank, world_size=3, **request)
                    again.keys = courses.keys
                    again.arrive()
                    for rank in (0, 2):
                        self.ended(courses.ranks[rank], "fenced")
                    courses.close()
                    self.assertEqual(again.ranks[0].joined["run"], state["run"])
                    again.walk().leave()
                    self.assert_rest(again, known, state, epochs=3)
            self.assert_nothing_left(server)

    def test_leaving(self):
        """In mid-epoch it ends the job for the others, but their batches stay theirs; after the last epoch it
        does no harm."""
        generator = harness.seeded("leaving")
        with self.serve() as server:
            courses = self.courses(server, 3, generator)
            courses.begin(each=[{"transport": "auto"}] * 3, **self.request("shared", rank_wait=3600))
            courses.walk(2)
            held = courses.ranks[0].event()
            pixels = bytes(held.fields["image"])
            self.assertEqual(courses.ranks[1].leave().reason, "left")
            for rank in (0, 2):
                message = self.ended(courses.ranks[rank], "rank_left")
                self.assertRegex(message, r"\brank 1\b")
            self.assertEqual(bytes(held.fields["image"]), pixels)
            held.fields.clear()
            courses.close()
            self.assert_nothing_left(server)
            #   A ring's closing may overtake the last PROGRESS: then the server waits for the rank, and no
            #   other rank does.
            for end in ("leave", "drop_ring", "close"):
                courses = self.courses(server, 3, generator)
                courses.begin(each=[{"transport": "auto"}, {"transport": "auto"}, {"transport": "inline"}],
                              **self.request("shared", rank_wait=1))
                courses.walk(10)
                while courses.ranks[1].state["epoch"] < 2:
                    courses.take(1)
                getattr(courses.ranks[1], end)()
                for rank in (0, 2):
                    while courses.ranks[rank].state["epoch"] < 2:
                        self.assertNotIsInstance(courses.take(rank), Ended)
                self.assert_rest(courses, None)
                for rank in (0, 2):
                    self.assertEqual(courses.ranks[rank].leave().reason, "left")
                courses.close()
                self.assert_nothing_left(server)

    def test_lost_before_it_took_anything(self):
        """Again and again, while the others take all that they get: what it lacks is not forgotten."""
        generator = harness.seeded("took nothing")
        with self.serve() as server:
            known = self.known(server, "seeded", epochs=4)[0]
            courses = self.courses(server, 2, generator)
            courses.begin(each=[{"transport": "auto"}] * 2,
                          **self.request("seeded", epochs=4, slots=3, rank_wait=3600))
            courses.walk(2)
            for _ in range(4):
                courses.lose(1)
                self.told(courses, 0)
                courses.come_again(1, transport="auto")
                while courses.take(0, seconds=0.2):     # what it gets as long as the other takes nothing
                    pass
            courses.walk().leave()
            self.assert_rest(courses, known, epochs=4)

    def test_lost_when_all_was_sent(self):
        """It had not received all of it: it gets the rest when it comes again, though the others are done, or
        have left."""
        generator = harness.seeded("all was sent")
        with self.serve() as server:
            for transport, others in (("auto", "stay"), ("inline", "stay"), ("auto", "leave"),
                                      ("inline", "leave")):
                known = self.known(server, "seeded")[0]
                courses = self.courses(server, 2, generator)
                courses.begin(each=[{"transport": transport}] * 2, **self.request(
                    "seeded", batch_size=15, job=transport + others, rank_wait=3600))
                courses.walk(4)                         # of three an epoch; all is sent
                while courses.ranks[0].state["epoch"] < 2:
                    courses.take(0)
                if others == "leave":
                    courses.ranks[0].leave()
                courses.lose(1)
                wait_until("its death was noticed",
                           lambda: server.job_status("")["ranks"][1]["state"] != "here")
                courses.come_again(1)
                courses.walk()
                for rank in (0, 1) if others == "stay" else (1,):
                    courses.ranks[rank].leave()
                self.assert_rest(courses, known)
            self.assert_nothing_left(server)

    def test_others_notice_nothing(self):
        """A plain job on the same data goes on, for as long as a job with ranks stands still; and nothing
        piles up."""
        generator = harness.seeded("others")
        with self.serve() as server:
            courses = self.courses(server, 2, generator).begin(**self.request("shared", rank_wait=3600))
            plain = self.course(server)
            plain.begin({}, dataset="files", batch_size=7, epochs=12, pipeline=SMALL, order="shared")
            plain.walk(4)
            courses.walk(3)
            courses.lose(1)
            self.told(courses, 0)
            bytes_before = server.status()["jobs_bytes"]
            epochs = plain.walk()
            for epoch in range(1, 12):
                self.assertEqual(sorted(epochs[epoch]), list(range(self.SAMPLES)))
            plain.leave()
            wait_until("it has left", lambda: len(server.status()["jobs"]) == 1)
            self.assertLess(server.status()["jobs_bytes"], bytes_before)
            courses.come_again(1)
            courses.walk().leave()
            self.assert_rest(courses, None)
            self.assert_nothing_left(server)


class Whatever(LossTest):
    def lose_some(self, server, courses, generator):
        """Some are gone and come again, in any order; before it is told or after, and perhaps lost again at
        once."""
        victims = generator.sample(range(courses.world_size), generator.randrange(1, courses.world_size))
        others = [rank for rank in range(courses.world_size) if rank not in victims]
        for victim in victims:
            courses.lose(victim)
        for rank in others:
            for _ in victims:
                self.told(courses, rank)
        for victim in victims:
            if generator.random() < 0.3:
                courses.come_again(victim)
                courses.lose(victim)
                for rank in others:
                    self.told(courses, rank)
        for victim in generator.sample(victims, len(victims)):
            courses.come_again(victim)

    def lose_server(self, server, courses, generator):
        server.kill()
        server.start()
        for rank in generator.sample(range(courses.world_size), courses.world_size):
            courses.ask_again(rank)
        courses.arrive()

    def test_whatever_happens(self):
        """Losses of ranks and of the server, and stops that others go on from, at random: each epoch is whole
        nonetheless."""
        generator = harness.seeded("whatever happens")
        with self.serve() as server:
            for kind in ("shared", "seeded", "list", "pool"):
                epochs, state, before = 16, None, {}
                known, pixels = self.known(server, kind, epochs=epochs)
                count = 0
                for _ in range(4):
                    world_size, batch_size = generator.randrange(2, 5), generator.choice([2, 3, 4])
                    courses = self.courses(server, world_size, generator)
                    request = self.request(kind, epochs=epochs, batch_size=batch_size, job=kind,
                                           rank_wait=3600, slots=generator.choice([3, 4, 6]))
                    courses.begin(state, **request)
                    for _ in range(3):
                        courses.walk(generator.randrange(1, 3), seen=self.look(pixels))
                        for rank in generator.sample(range(world_size), generator.randrange(world_size)):
                            if courses.taken[rank] == min(courses.taken):
                                courses.take(rank, self.look(pixels))
                        generator.choice([self.lose_some, self.lose_some, self.lose_server])(server, courses,
                            generator)
                        count += 1
                    courses.walk(1, seen=self.look(pixels))
                    state = dict(courses.ranks[0].state)
                    for epoch in range(epochs):
                        before.setdefault(epoch, []).extend(courses.order(epoch))
                    courses.stop()
                for epoch in range(state["epoch"]):
                    if known:
                        self.assertEqual(before[epoch], known[epoch])
                    else:
                        self.assertEqual(sorted(before[epoch]), list(range(self.SAMPLES)))
                self.assertEqual(sorted(before[state["epoch"]]), sorted(state["taken"]))
                print("%s: %d losses, to epoch %d" % (kind, count, state["epoch"]), flush=True)
            self.assert_nothing_left(server)


if __name__ == "__main__":
    unittest.main(verbosity=2)

"""Ranks: clients that take one job together, on the real server.  How they come together, what each gets, and
states that any number of them may go on from.  The client is plain_client.py, so that the protocol's document
is what is tested."""
import json
import os
import shutil
import unittest

import harness
from harness import wait_until
from plain_client import Batch, EpochEnd, Refused, ids_list, ids_ranges
from rank_courses import KINDS, LIST, ONE, OTHER, RankTest, spread


class Epochs(RankTest):
    def test_every_order(self):
        """Each epoch once over the ranks, in the steps in which a plain job with batches of a step's size
        gets it, and with the same pixels, those of padding too."""
        generator = harness.seeded("every order")
        #  Of most kinds the last step has one sample
        shapes = [(3, 7), (2, 5), (4, 4), (2, 16), (3, 4), (4, 3)]
        with self.serve() as server:
            for number, kind in enumerate(KINDS):
                world_size, batch_size = shapes[number]
                size = world_size * batch_size
                total = len(LIST) if kind == "list" else self.SAMPLES
                known, pixels = self.known(server, kind, batch_size=size)
                for drop_last in (False, True):
                    with self.subTest(kind=kind, world_size=world_size, batch_size=batch_size,
                                      drop_last=drop_last):
                        courses = self.courses(server, world_size, generator)
                        courses.begin(**self.request(kind, batch_size=batch_size, drop_last=drop_last))
                        courses.walk(seen=self.look(pixels)).leave()
                        samples, last = (total // size * size, 0) if drop_last else (total, total % size)
                        self.assertEqual(courses.padded, 2 * max(0, world_size - last) if last else 0)
                        for epoch in range(2):
                            ids = courses.order(epoch)
                            if known:
                                self.assertEqual(ids, known[epoch][:samples])
                            else:
                                self.assertEqual((len(ids), len(set(ids))), (samples, samples))
                            steps = -(-samples // size)
                            self.assertEqual(courses.ends[epoch], EpochEnd(epoch, samples, steps, epoch == 1))
                            for index in range(steps):      # each full but the last, which is spread
                                step = courses.steps[epoch, index]
                                self.assertEqual([len(part) for part in step],
                                                 spread(min(size, samples - size * index), world_size))
            wait_until("all have left", lambda: not server.status()["jobs"])
            self.assertEqual([server.status()[key] for key in ("jobs_bytes", "outgoing_bytes")], [0, 0])

    def test_a_seed_that_was_not_given(self):
        """It is one for all; and no rank has what another one has."""
        generator = harness.seeded("no seed")
        with self.serve() as server:
            seeds = set()
            for _ in range(2):
                courses = self.courses(server, 2, generator)
                courses.begin(**self.request(order="seeded")).walk().leave()
                self.assert_rest(courses, None)
                seeds.add(courses.ranks[0].joined["seed"])
            self.assertEqual(len(seeds), 2)

    def test_as_many_as_there_may_be(self):
        """64 ranks: more than there are samples."""
        generator = harness.seeded("as many as there may be")
        with self.serve() as server:
            known, pixels = self.known(server, "ascending")
            courses = self.courses(server, 64, generator)
            courses.begin(**self.request("ascending", batch_size=1,
                                         slots=3)).walk(seen=self.look(pixels)).leave()
            self.assert_rest(courses, known)
            self.assertEqual(courses.padded, 2 * (64 - self.SAMPLES))

    def test_processes(self):
        """Ranks in processes of their own, over TCP and with frames, and over a socket with rings."""
        for tcp in (False, True):
            with self.subTest(tcp=tcp), self.serve(tcp=tcp) as server:
                request = self.request(world_size=3, transport="inline" if tcp else "auto")
                ranks = [server.plain(join=dict(request, rank=rank)) for rank in (2, 0, 1)]
                results = [rank.finish() for rank in ranks]
                for epoch in range(2):
                    parts = [result["epochs"][epoch] for result in results]
                    self.assertEqual(sorted(sum(parts, [])), list(range(self.SAMPLES)))
                    self.assertEqual(sorted(map(len, parts)), [20, 20, 21])
                self.assertEqual([(result["ring"], result["samples"]) for result in results],
                                 [(not tcp, self.SAMPLES)] * 3)

    def test_all_clients(self):
        """The Python package, `tureen read` and the plain client are ranks of one job."""
        with self.serve() as server:
            asked = {"dataset": "files", "epochs": 2, "seed": 7, "job": "trial", "world_size": 3,
                     "gather": 60}
            ranks = [server.loader(rank=0, batch_size=4, pipeline="eval", **asked),
                     server.plain(join=dict(self.request("seeded", pipeline="eval"), rank=1, world_size=3)),
                     server.read(rank=2, batch=4, recipe="eval", **asked)]
            results = [rank.finish() for rank in ranks]
            known = self.known(server, "seeded", pipeline="eval")[0]
            for epoch in range(2):
                parts = [result["epochs"][epoch] for result in results]
                steps = [sum((part[begin:begin + 4] for part in parts), []) for begin in range(0, 21, 4)]
                self.assertEqual(sum(steps, []), known[epoch])

    def test_unreadable(self):
        """A rank that has nothing left of a step gets padding, and a step of which nothing is left comes to
        no rank."""
        generator = harness.seeded("unreadable")
        copy = os.path.join(self.root, "spoilt")
        shutil.copytree(self.files, copy)
        paths = sorted(os.path.join(folder, name) for folder, _, names in os.walk(copy) for name in names)
        bad = {0, 1, 2, 3, 8, 9, 10, 11, 18, 30, 31, self.SAMPLES - 1}
        for number in bad:
            with open(paths[number], "wb") as file:
                file.write(b"no picture")
        good = [number for number in range(self.SAMPLES) if number not in bad]
        for kind in ("ascending", "seeded", "shared"):
            with self.subTest(kind=kind), harness.Server({"files": copy}) as server:
                courses = self.courses(server, 2, generator)
                courses.is_ragged = True
                courses.begin(**self.request(kind, batch_size=2, epochs=3)).walk()
                for epoch in range(3):
                    self.assertEqual(sorted(courses.order(epoch)), good)
                #  Of steps of four, 0 .. 3 and 8 .. 11 are gone, of 28 .. 31 one rank's part
                if kind == "ascending":
                    steps = [courses.steps[key] for key in sorted(courses.steps) if key[0] == 0]
                    self.assertEqual(steps[0], ((4, 5), (6, 7)))
                    self.assertEqual(steps[1], ((12, 13), (14, 15)))
                    self.assertIn(((28, 29), ()), steps)
                    self.assertEqual(courses.padded, 2 * sum(() in step
                                                             for step in courses.steps.values()) // 2)
                    self.assertGreater(courses.padded, 0)
                self.assertEqual({sample["id"] for sample in server.status()["datasets"][0]["bad"]}, bad)
                courses.leave()
                self.assertEqual(self.course(server).join(**self.request("shared"))["samples"],
                                 str(len(good)))

    def test_status(self):
        generator = harness.seeded("status")
        with self.serve() as server:
            courses = self.courses(server, 2, generator)
            courses.begin(each=[{"transport": "auto", "name": "left"}, {"transport": "inline"}],
                          **self.request("seeded"))
            courses.walk(3)
            job, = server.status()["jobs"]
            self.assertEqual((job["job_name"], job["world_size"], len(job["ranks"])), ("trial", 2, 2))
            for number, transport in enumerate(("ring", "inline")):
                rank = job["ranks"][number]
                self.assertEqual([rank[key] for key in ("rank", "state", "transport", "lacks_steps")],
                                 [number, "here", transport, 0])
                wait_until("its progress has come",
                           lambda: server.status()["jobs"][0]["ranks"][number]["consumed_batches"] == 3)
            self.assertIn("2 ranks: all here", server.status_text())

            def waits_for_the_other():
                rank = server.status()["jobs"][0]["ranks"][0]
                if rank["sent_batches"] > courses.taken[0]:
                    courses.take(0)
                return rank["waits"]["other_rank"] > 0.3 * sum(rank["waits"].values())

            wait_until("rank 0 has taken all and waits", waits_for_the_other)
            job, = server.status()["jobs"]
            for rank in job["ranks"]:
                self.assertAlmostEqual(sum(rank["waits"].values()), sum(job["waits"].values()), 3)
            self.assertLess(job["ranks"][1]["waits"]["other_rank"], job["ranks"][0]["waits"]["other_rank"])
            self.assertRegex(server.status_text(), r"rank 1 is behind: the others waited up to \d+ %")
            courses.walk().leave()


class States(RankTest):
    def test_at_every_step(self):
        """The state after each step of an epoch, of 1 to 4 ranks, is gone on with by 1 to 4; half on another
        server."""
        generator = harness.seeded("states")
        kinds = ["shared", "seeded", "list", "private", "pool", "ascending"]
        with self.serve() as server, self.serve() as other:
            number = 0
            for before in (1, 2, 3, 4):
                kind = kinds[before - 1]
                known = self.known(server, kind)[0]
                courses = self.courses(server, before, generator)
                courses.begin(**self.request(kind, batch_size=3))
                states = []
                while not courses.ends:
                    if len(courses.order(0)) < (len(LIST) if kind == "list" else self.SAMPLES):
                        courses.walk(1)
                    else:                                   # the same place, once its end was looked at
                        for rank in range(before):
                            self.assertIsInstance(courses.take(rank), EpochEnd)
                    every = [json.dumps(course.state) for course in courses.ranks]
                    self.assertEqual(len(set(every)), 1, "the state is each rank's")
                    states.append(json.loads(every[0]))
                courses.stop()
                for state in states[::1 if before > 1 else 2]:
                    number += 1
                    after, batch_size = 1 + number % 4, generator.choice([3, 5, 8])
                    with self.subTest(kind=kind, before=before, after=after,
                                      stood=(state["epoch"], state["batches"])):
                        rest = self.courses((server, other)[number // 4 % 2], after, generator)
                        rest.begin(state, **self.request(kind, batch_size=batch_size,
                                                         job="trial-%d" % number))
                        self.assertEqual({rank.joined["run"] for rank in rest.ranks}, {state["run"]})
                        rest.walk().leave()
                        self.assert_rest(rest, known, state)
                if before > 1:
                    state = dict(states[-1], epoch=2)
                    done = self.courses(server, before, generator)
                    done.ask(state, **self.request(kind))
                    self.assertEqual({code for code, _ in done.refusals()}, {"bad_state"})


class Gathering(RankTest):
    def test_one_is_missing(self):
        """The others are told, and refused when their patience ends; the least patient one's counts."""
        with self.serve() as server:
            ranks = {}

            def comes(rank, gather):
                ranks[rank] = self.course(server)
                ranks[rank].set_out({}, rank=rank, world_size=3,
                                    **self.request(gather=gather, instance=(ONE, "", OTHER)[rank]))
            comes(0, 300)
            comes(2, 300)
            wait_until("the first is told of the second",
                       lambda: ranks[0].joined_answer(0.05) or ranks[0].gathering
                       and "2 of 3" in ranks[0].gathering[-1])
            gathering, = server.status()["gathering"]
            self.assertEqual([gathering[key] for key in ("job", "world_size", "missing")], ["trial", 3, [1]])
            comes(2, 1)                                 # the same client, with less patience
            for rank, course in ranks.items():
                with self.assertRaises(Refused) as refused:
                    course.arrive()
                self.assertEqual(refused.exception.code, "ranks_missing")
                for message in (refused.exception.message, course.gathering[-1]):
                    self.assertIn("'trial'", message)
                    self.assertRegex(message, r"\brank 1\b")
                    self.assertNotRegex(message, r"\brank [02]\b")
            self.assertRegex(ranks[0].gathering[-1], r"\b2 of 3 ranks\b")
            self.assertEqual([server.status()[key] for key in ("jobs", "jobs_bytes", "gathering")],
                             [[], 0, []])

    def test_they_differ(self):
        """All of them are told what differs, and which rank said what."""
        generator = harness.seeded("they differ")
        with self.serve() as server:
            state = self.courses(server, 2, generator).begin(**self.request()).walk(2)
            states = [dict(state.ranks[0].state, run=run) for run in (ONE, OTHER)]
            state.stop()
            taken = states[0]["taken"]                  # at the same step, and not the same
            twice = dict(states[0], taken=taken[1:] + [min(set(range(self.SAMPLES)) - set(taken))])
            subset = {"subset": ids_ranges((0, 40))}
            for word, first, second in (
                    ("dataset", {}, {"dataset": "pack"}), ("batch_size", {}, {"batch_size": 5}),
                    ("epochs", {}, {"epochs": 3}), ("epochs", {}, {"epochs": None}),
                    ("drop_last", {}, {"drop_last": True}),
                    ("pipeline", {}, {"pipeline": "eval"}), ("order", {}, {"order": "private"}),
                    ("slots", {}, {"slots": 5}),
                    ("pool", {"dataset": "pack", "seed": "1", "order": "seeded"},
                     {"dataset": "pack", "seed": "1", "order": "seeded", "pool": 16}),
                    ("seed", {"seed": "1", "order": "seeded"}, {"seed": "2", "order": "seeded"}),
                    ("world_size", {}, {"world_size": 3}), ("data", {}, subset),
                    ("data", {"order": "list", "list": ids_list(LIST)},
                     {"order": "list", "list": ids_list(LIST[1:])}),
                    ("run", {"state": states[0]}, {"state": states[1]}),
                    ("state", {"state": states[0]}, {"state": twice})):
                ranks, answers = [self.course(server) for _ in range(2)], []
                for number in generator.sample(range(2), 2):
                    keys = dict(self.request(), **dict((first, second)[number], rank=number))
                    keys.setdefault("world_size", 2)
                    frames = [(name, keys.pop(name)) for name in ("subset", "list") if name in keys]
                    if "state" in keys:
                        ranks[number].set_out(keys.pop("state"), **keys)
                    else:
                        ranks[number].ask_join([frame for _, frame in frames],
                                               frames=[name for name, _ in frames], **keys)
                for rank in ranks:
                    with self.assertRaises(Refused) as refused:
                        rank.joined_answer()
                    answers.append((refused.exception.code, refused.exception.message))
                with self.subTest(word, answer=answers[0]):
                    self.assertEqual([code for code, _ in answers], ["ranks_differ"] * 2)
                    self.assertEqual(answers[0][1], answers[1][1])
                    for part in (r"\b%s\b" % word, r"\brank 0\b", r"\brank 1\b"):
                        self.assertRegex(answers[0][1], part)
            #   What is each rank's own may differ, and what only one of them says counts for all.
            courses = self.courses(server, 2, generator)
            courses.begin(each=[{"transport": "auto", "name": "one", "instance": ONE, "gather": 299},
                                {"transport": "inline", "name": "two", "instance": OTHER, "seed": "7",
                                 "rank_wait": 3}],
                          **self.request(order="seeded"))
            self.assertEqual(courses.ranks[0].joined["seed"], "7")
            courses.walk().leave()
            self.assertEqual([server.status()[key] for key in ("jobs_bytes", "outgoing_bytes")], [0, 0])

    def assert_refused(self, code, pattern, course, *arguments, **keys):
        with self.assertRaises(Refused) as refused:
            course.join(*arguments, **keys)
        self.assertEqual(refused.exception.code, code, refused.exception.message)
        self.assertRegex(refused.exception.message, pattern)

    def test_one_name(self):
        """It is one job's at a time, whether that is there or gathers."""
        generator = harness.seeded("one name")
        with self.serve() as server:
            plain = self.course(server).begin({}, **self.request())
            courses = self.courses(server, 2, generator).ask(**self.request())
            self.assertEqual([code for code, _ in courses.refusals()], ["job_taken"] * 2)
            plain.leave()
            first, second = self.course(server), self.course(server)
            first.set_out({}, rank=0, world_size=2, instance=ONE, **self.request())
            wait_until("it waits", lambda: first.joined_answer(0.05) or first.gathering)
            self.assert_refused("job_taken", "'trial'", self.course(server), **self.request())
            self.assert_refused("job_taken", r"rank 0 .*'trial'.*wait", self.course(server), rank=0,
                                world_size=2, instance=OTHER, **self.request())
            self.assert_refused("already_joined", "job", first, rank=0, world_size=2, instance=ONE,
                                **self.request())
            #  The same client, connected anew
            second.set_out({}, rank=0, world_size=2, instance=ONE, **self.request())
            wait_until("it waits", lambda: second.joined_answer(0.05) or second.gathering)
            third = self.course(server)
            third.begin({}, rank=1, world_size=2, **self.request())
            second.arrive()
            self.assertIsNone(first.joined)
            for keys in ({"rank": 0, "world_size": 2, "instance": OTHER}, {"rank": 1, "world_size": 2}, {}):
                self.assert_refused("job_taken", "'trial'", self.course(server),
                                    **dict(self.request(), **keys))
            for course in (second, third):
                self.assertIsInstance(course.take(), Batch)
            second.leave()

    def test_giving_up(self):
        """One that waits and goes away is forgotten, and another may be that rank."""
        generator = harness.seeded("giving up")
        with self.serve() as server:
            for _ in range(2):
                first = self.course(server)
                first.set_out({}, rank=0, world_size=2, **self.request())
                wait_until("it waits", lambda: first.joined_answer(0.05) or first.gathering)
                first.close()

                def comes_again():
                    course = self.course(server)
                    course.set_out({}, rank=0, world_size=2, **self.request())
                    try:
                        course.joined_answer(0.2)
                    except Refused as refused:
                        self.assertEqual(refused.code, "job_taken")
                        return None
                    return course
                again = wait_until("its death was noticed", comes_again)
                other = self.course(server).begin({}, rank=1, world_size=2, **self.request())
                again.arrive()
                self.assertEqual(again.number, other.number)
                for course in (again, other):
                    course.close()
                wait_until("they are gone", lambda: not server.status()["jobs"])

    def test_stopped_while_they_gather(self):
        with self.serve() as server:
            course = self.course(server)
            course.set_out({}, rank=0, world_size=2, **self.request())
            wait_until("it waits", lambda: course.joined_answer(0.05) or course.gathering)
            server.stop()
            with self.assertRaisesRegex(Refused, "stopping"):
                course.arrive()

    def test_what_cannot_be(self):
        with self.serve() as server:
            for pattern, keys in (
                    ("rank", {"rank": 2, "world_size": 2}), ("rank", {"rank": -1, "world_size": 2}),
                    ("rank", {"rank": 1}),
                    ("world_size", {"rank": 0, "world_size": 65}),
                    ("world_size", {"rank": 0, "world_size": 0}),
                    ("world_size", {"rank": 0, "world_size": "2"}), ("rank", {"rank": 1, "world_size": 1}),
                    ("job", {"rank": 0, "world_size": 2, "job": None}),
                    ("gather", {"rank": 0, "world_size": 2, "gather": 0}),
                    ("gather", {"rank": 0, "world_size": 2, "gather": 86401}),
                    ("rank_wait", {"rank": 0, "world_size": 2, "rank_wait": -1}),
                    ("rank_wait", {"rank": 0, "world_size": 2, "rank_wait": 86401}),
                    ("batch_size", {"rank": 0, "world_size": 64, "batch_size": 65536, "slots": 3})):
                with self.subTest(keys=keys):
                    request = {key: value for key, value in dict(self.request(), **keys).items()
                               if value is not None}
                    self.assert_refused("bad_request", r"\b%s\b" % pattern, self.course(server), **request)
            self.assert_refused("unknown_dataset", "'x'", self.course(server),
                                **dict(self.request(), rank=0, world_size=2, dataset="x"))


if __name__ == "__main__":
    unittest.main(verbosity=2)

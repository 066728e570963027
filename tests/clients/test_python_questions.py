"""What the Python client asks and is told beside its batches: stats, explanations, notices.

Run by ctest (python_questions), or by hand from anywhere: python3 tests/clients/test_python_questions.py [-v]
[NAME]
"""
from __future__ import annotations

import json
import logging
import threading
import time
import unittest
import unittest.mock
import warnings
from typing import Any, Dict, List

from client_checks import PATIENCE_S, Tidy, golden, until

import tureen
from fake_server import EXPLAIN, HEAD, LEAVE, STATUS, FakeServer
from tureen import question_queue

STATUS_OF_JOB = {"waits": {"draw": 0.25, "read": 0.5, "memory": 0, "decode": 1.25, "copy": 0,
                           "client": 7.0},
                 "sharing": {"places": 12, "alone": 3}, "name": "trial"}
NOTHING = {"waits": dict.fromkeys(("draw", "read", "memory", "decode", "copy", "client"), 0.0),
           "waited_s": 0.0, "batches": 0, "samples": 0, "unreadable": {"count": 0, "samples": []},
           "sharing": {}, "rejoined": 0}


class Queue(unittest.TestCase):
    """Questions without a connection."""

    def test_broken_twice_and_closed(self) -> None:
        queue, asked = question_queue.QuestionQueue(), question_queue.Question(lambda job, tag: [], EXPLAIN)
        queue.ask(asked)
        for tag in (1, 2):
            self.assertIs(queue.take(), asked)
            self.assertIsNone(queue.take())
            queue.sent(tag, asked)
            queue.again()
        self.assertIsNone(queue.answered(2), "a tag of the connection before")
        self.assertIs(queue.take(), asked)
        queue.sent(3, asked)
        self.assertIsNone(asked.wait(0))
        queue.close()
        late = question_queue.Question(lambda job, tag: [], EXPLAIN)
        queue.ask(late)
        for question in (asked, late):
            with self.assertRaisesRegex(tureen.LoaderClosed, "no job is running"):
                question.wait(0)


class Questions(Tidy):
    ring = True

    def setUp(self) -> None:
        super().setUp()
        silent = unittest.mock.patch.object(logging.getLogger("tureen"), "disabled", True)
        silent.start()
        self.addCleanup(silent.stop)

    def fake(self, samples: int = 20, **how: Any) -> FakeServer:
        server = self.server(samples, offer_ring=self.ring, **how)
        server.status = dict(STATUS_OF_JOB)
        return server

    def kinds(self, server: FakeServer) -> List[int]:
        return [frames[0][5] for frames in server.messages]

    def test_stats(self) -> None:
        server = self.fake()
        with tureen.Loader(server.endpoint, batch_size=8, epochs=1) as loader:
            self.assertEqual(loader.stats(), NOTHING)
            iterator = iter(loader)
            next(iterator)
            stats = loader.stats()
            self.assertEqual((stats["waits"], stats["sharing"]),
                             (STATUS_OF_JOB["waits"], STATUS_OF_JOB["sharing"]))
            self.assertEqual((stats["batches"], stats["samples"], stats["rejoined"]), (1, 8, 0))
            server.status["waits"] = {"read": 2.0}
            self.assertEqual(loader.stats()["waits"]["read"], 2.0)
            server.status["waits"] = {"read": 3.0, "decode": "much", "unknown": 5.0}
            for batch in iterator:
                pass
            #  As long as a batch is looked at the job is there
            self.assertEqual(loader.stats()["waits"]["read"], 3.0)
            if self.ring:
                self.assertNotIn(LEAVE, self.kinds(server))
            del batch
        asked = self.kinds(server).count(STATUS)
        self.assertEqual(asked, 4 if self.ring else 3)      # the last: when it was left
        stats = loader.stats()                      # of a closed loader too
        self.assertEqual(stats["waits"], {"draw": 0.25, "read": 3.0, "memory": 0.0, "decode": 1.25,
                                          "copy": 0.0, "client": 7.0})
        self.assertEqual((stats["batches"], stats["samples"]), (3, 20))
        self.assertEqual(self.kinds(server)[-2:], [STATUS, LEAVE])

    def test_unreadable_samples_of_a_notice_and_of_status(self) -> None:
        server = self.fake()
        frame = golden("notice_unreadable")[1]
        told = tureen.wire.parse_notice(frame)
        said = json.loads(frame)
        said["kind"] = said.pop("notice")
        self.assertEqual((told.kind, told.samples), ("unreadable", 2018))
        self.assertEqual(told.unreadable, {"count": 2, "samples": [
            {"id": 17, "reason": "cat/0017.jpg: empty"}, {"id": 1500, "reason": "dog/0001.png: ends before "
                                                          "its image does"}]})
        with tureen.Loader(server.endpoint, batch_size=8,
                           epochs=2) as loader, warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            iterator = iter(loader)
            next(iterator)
            for _ in range(2):                          # it may come again unchanged
                server.do(lambda: server.notice(server.job(), **said))
            until(lambda: len(iterator._connection.notices) == 2, "the notices")
            next(iterator)
            self.assertEqual([type(warning.message) for warning in warned], [tureen.UnreadableWarning])
            self.assertEqual(str(warned[0].message), told.text)
            self.assertEqual((loader.samples, len(loader), loader.stats()["unreadable"]),
                             (20, 6, told.unreadable))
            server.status["unreadable"] = {"count": 3, "samples": []}
            self.assertEqual(loader.stats()["unreadable"]["count"], 3)
            server.status["unreadable"] = {"count": "many", "samples": []}
            with self.assertRaises(tureen.ProtocolError):
                loader.stats()
            server.status["unreadable"] = {"count": 3, "samples": []}
            for _ in iterator:
                #  It changes at an epoch's end, of which the first was sent before
                self.assertEqual(len(loader), 6)
            self.assertEqual((loader.samples, len(loader)), (2018, 506))

    def test_what_was_missing_is_told_at_the_epochs_end(self) -> None:
        """Though the notice comes while the loop waits for that end, behind which it asks for nothing
        more."""
        server = self.fake()
        told = tureen.wire.parse_notice(golden("notice_unreadable")[1])
        with tureen.Loader(server.endpoint, batch_size=20,
                           epochs=1) as loader, warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            iterator = iter(loader)
            next(iterator)
            connection, take = iterator._connection, iterator._connection.take
            until(lambda: connection.concluded, "the last epoch's end")

            def take_late(into: Any) -> None:
                take(into)
                if not warned:
                    connection.notices.append(told)

            with unittest.mock.patch.object(connection, "take", take_late):
                self.assertEqual(list(iterator), [])
            self.assertEqual([str(warning.message) for warning in warned], [told.text])

    def test_time_that_next_was_blocked(self) -> None:
        server = self.fake()
        server.paused = True
        loader = tureen.Loader(server.endpoint, batch_size=8, epochs=1)
        iterator = iter(loader)
        wait, blocked = tureen.connection.Connection.wait, threading.Event()

        def noted(*how: Any) -> None:
            blocked.set()
            wait(*how)

        def release() -> None:
            blocked.wait(PATIENCE_S)
            time.sleep(0.2)
            server.paused = False
        released = threading.Thread(target=release)
        released.start()
        with unittest.mock.patch.object(tureen.connection.Connection, "wait", noted):
            next(iterator)
        released.join()
        self.assertGreater(loader.stats()["waited_s"], 0.1)

    def test_stats_of_a_server_that_is_gone(self) -> None:
        """What was told last, after the time that an answer may take."""
        server = self.fake()
        loader = tureen.Loader(server.endpoint, batch_size=8, rejoin=1000, timeout=PATIENCE_S)
        iterator = iter(loader)
        next(iterator)
        until(lambda: loader.stats()["waits"]["read"] == 0.5, "an answer")
        server.die()
        loader._timeout = 0.5
        stats = loader.stats()
        self.assertEqual((stats["waits"], stats["batches"]), (STATUS_OF_JOB["waits"], 1))
        with self.assertRaises(tureen.NoServer):
            loader.explain(1)
        del iterator

    def test_stats_that_the_server_refuses(self) -> None:
        """It is busy, or ends: what was told last."""
        server = self.fake()
        loader = tureen.Loader(server.endpoint, batch_size=8)
        iterator = iter(loader)
        next(iterator)
        self.assertEqual(loader.stats()["waits"]["read"], 0.5)
        take = server._take

        def refuse(peer: bytes, frames: List[bytes]) -> None:
            if frames[0][5] == STATUS:
                server._refuse(peer, HEAD.unpack(frames[0])[5], "busy", "too many questions")
            else:
                take(peer, frames)
        with unittest.mock.patch.object(server, "_take", refuse):
            stats = loader.stats()
        self.assertEqual((stats["waits"], stats["batches"]), (STATUS_OF_JOB["waits"], 1))
        self.assertEqual(next(iterator).index, 1)

    def test_explain(self) -> None:
        server = self.fake()
        loader = tureen.Loader(server.endpoint, batch_size=8, epochs=2)
        with self.assertRaisesRegex(tureen.LoaderClosed, "while iterating"):
            loader.explain(1)
        iterator = iter(loader)
        self.assertEqual(loader.explain(3), {"id": "3", "operations": []})
        self.assertEqual(loader.explain(3, 1)["epoch"], "1")
        with self.assertRaisesRegex(tureen.RequestRefused, "no batch holds sample 99") as caught:
            loader.explain(99)
        self.assertEqual(caught.exception.code, "unknown_sample")
        for wrong in ((-1,), ("1",), (1, -1), (1, 0.5)):
            with self.assertRaises((ValueError, TypeError)):
                loader.explain(*wrong)
        self.assertEqual(sum(1 for _ in iterator), 6)       # the refusal was the question's, not the job's
        iterator.leave()                                    # waits for the end
        with self.assertRaisesRegex(tureen.LoaderClosed, "while iterating"):
            loader.explain(3)

    def test_from_other_threads(self) -> None:
        """Questions of several threads, each answered by its own answer, while another one iterates."""
        server = self.fake(200)
        loader = tureen.Loader(server.endpoint, batch_size=8)
        iterator = iter(loader)
        next(iterator)
        wrong: List[Any] = []

        def ask(number: int) -> None:
            for sample in range(number, 200, 9):
                try:
                    answer = loader.explain(sample)
                    if answer["id"] != str(sample) or loader.stats()["waits"] != STATUS_OF_JOB["waits"]:
                        wrong.append((sample, answer))
                except BaseException as error:
                    wrong.append((sample, error))
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        batches = 0
        while any(thread.is_alive() for thread in threads):
            self.assert_intact(next(iterator))
            batches += 1
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertGreater(batches, 0)
        del iterator

    def test_asked_again_of_the_next_server(self) -> None:
        """A question that was not answered when the connection broke."""
        server = self.fake()
        taken = threading.Event()

        def crash_once(*asked: Any) -> None:
            if server.lives == 1:
                taken.set()
                server.crash()
            explain(*asked)
        explain, server._take_explain = server._take_explain, crash_once  # type: ignore[method-assign]
        loader = tureen.Loader(server.endpoint, batch_size=8, timeout=PATIENCE_S)
        iterator = iter(loader)
        next(iterator)
        self.assertEqual(loader.explain(3)["id"], "3")
        self.assertTrue(taken.is_set())
        self.assertEqual(self.kinds(server).count(EXPLAIN), 2)
        self.assertEqual(loader.stats()["rejoined"], 1)
        del iterator

    def test_notices(self) -> None:
        """Once each kind, from next, in the user's line; and where warnings are errors no batch is lost."""
        server = self.fake()
        loader = tureen.Loader(server.endpoint, batch_size=8, epochs=1)
        iterator = iter(loader)
        job = server.job()
        server.do(lambda: [server.notice(job, kind, f"{kind}: little is shared") for kind in
                           ("little_shared", "little_shared", "something_new")])
        until(lambda: len(iterator._connection.notices) == 3, "the notices")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            first = next(iterator)
        self.assertEqual([(str(warning.message), warning.category, warning.filename) for warning in caught],
                         [(f"{kind}: little is shared", tureen.TureenWarning, __file__)
                          for kind in ("little_shared", "something_new")])
        server.do(lambda: [server.notice(job, kind, "again") for kind in ("little_shared", "third")])
        until(lambda: len(iterator._connection.notices) == 2, "the notices")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaisesRegex(tureen.TureenWarning, "again"):
                next(iterator)
        self.assertEqual([batch.index for batch in iterator], [1, 2])
        self.assertEqual(first.index, 0)

    def test_a_notice_that_comes_while_next_works(self) -> None:
        """It waits for a batch, or a function makes one: the notice is told with that batch, for the loop may
        ask for no other."""
        server = self.fake()

        def comes(given: Any) -> Any:
            server.do(lambda: server.notice(server.job(), "slow", "reads are slow"))
            until(lambda: iterator._connection.notices, "the notice")
            server.paused = False
            return given
        for waits in (True, False):
            server.paused = waits
            with tureen.Loader(server.endpoint, batch_size=8, map=None if waits else comes) as loader:
                iterator = iter(loader)
                wait = iterator._connection.wait
                with unittest.mock.patch.object(iterator._connection, "wait",
                                                lambda into: wait(comes(into) if waits else into)):
                    with warnings.catch_warnings(record=True) as caught:
                        warnings.simplefilter("always")
                        next(iterator)
                self.assertEqual([str(warning.message) for warning in caught], ["reads are slow"])

    def test_a_notice_before_the_end_is_told(self) -> None:
        """Also where `next` waited already when both came."""
        server = self.fake()
        server.paused = True
        iterator = iter(tureen.Loader(server.endpoint, batch_size=8))
        job, connection = server.job(), iterator._connection
        wait = connection.wait

        def both_come(into: Any) -> None:
            server.do(lambda: server.notice(job, "slow", "reads are slow"))
            server.do(lambda: server.end(job, "bad", "a disk"))
            wait(into)
        with unittest.mock.patch.object(connection, "wait", both_come):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with self.assertRaisesRegex(tureen.TureenWarning, "^reads are slow$"):
                    next(iterator)
                with self.assertRaisesRegex(tureen.JobEnded, "a disk"):
                    next(iterator)

    def test_strange_answers(self) -> None:
        """Of a server that answers what was not asked, or not as it should."""
        server = self.fake()
        loader = tureen.Loader(server.endpoint, batch_size=8)
        iterator = iter(loader)
        for answer in ({"jobs": 5}, {"jobs": [None, {"job": server.job().number, "waits": 3, "sharing": []}]},
                       {}):
            server.status = {}
            whole: Dict[str, Any] = answer
            with unittest.mock.patch.object(loader, "_answer", lambda *_: json.dumps(whole).encode()):
                self.assertEqual(loader.stats()["waits"], NOTHING["waits"])
        del iterator


class QuestionsInline(Questions):
    ring = False


if __name__ == "__main__":
    unittest.main()

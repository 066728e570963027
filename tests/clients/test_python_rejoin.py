"""The Python client and servers that go away: it looks for them, and goes on there; nothing twice, nothing
lost.

The fake server's hook ends it at a step of the protocol, so that nothing depends on time.

Run by ctest (python_rejoin), or by hand from anywhere: python3 tests/clients/test_python_rejoin.py [-v]
[NAME]
"""
from __future__ import annotations

import contextlib
import itertools
import json
import logging
import math
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import unittest
import warnings
from typing import Any, Callable, Dict, List, Optional, Tuple
from unittest import mock

from client_checks import PACKAGE, PATIENCE_S, SEED, Tidy, until

import tureen
import tureen.connection
from tureen.rejoining import Search
from tureen.session import SILENT_HEARTBEATS_MAX, Session
from fake_server import JOIN, FakeServer, Job

Hook = Callable[[str, Optional[Job]], None]


def nth(server: FakeServer, step: str, number: int, act: Callable[[], None]) -> Hook:
    """Acts once: at the job's step of that name, the number-th since now, whichever server lives."""
    count = 0

    def hook(at: str, job: Optional[Job]) -> None:
        nonlocal count
        count += at == step
        if at == step and count == number:
            act()
    return hook


class Gone(Tidy):
    """Servers that are gone; the client's pauses are short."""
    ring = True

    def setUp(self) -> None:
        super().setUp()
        silent = mock.patch.object(logging.getLogger("tureen"), "disabled", True)
        silent.start()
        self.addCleanup(silent.stop)
        for limit, seconds in (("tureen.rejoining._PAUSE_MIN_S", 0.01),
                               ("tureen.rejoining._PAUSE_MAX_S", 0.02)):
            patch = mock.patch(limit, seconds)
            patch.start()
            self.addCleanup(patch.stop)

    def fake(self, samples: int = 20, **how: Any) -> FakeServer:
        return self.server(samples, offer_ring=self.ring, **how)

    def loader(self, server: FakeServer, **how: Any) -> tureen.Loader:
        arguments: Dict[str, Any] = dict(batch_size=3, epochs=2, rejoin=math.inf)
        arguments.update(how)
        return tureen.Loader(server.endpoint, **arguments)

    def joins(self, server: FakeServer) -> List[Dict[str, Any]]:
        return [json.loads(frames[1]) for frames in server.messages if frames[0][5] == JOIN]

    def assert_whole(self, batches: List[Tuple[int, int, List[int]]], samples: int = 20) -> None:
        """Both epochs, each sample once, batches counted on."""
        for epoch in (0, 1):
            self.assertEqual(sorted(id for batch in batches if batch[0] == epoch for id in batch[2]),
                             list(range(samples)))
        wanted = [divmod(step, len(batches) // 2) for step in range(len(batches))]
        self.assertEqual([batch[:2] for batch in batches], wanted)

    def run_through(self, loader: tureen.Loader) -> List[Tuple[int, int, List[int]]]:
        seen = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")         # some batches are kept
            held: List[tureen.Batch] = []
            for batch in loader:
                self.assert_intact(batch)
                seen.append((batch.epoch, batch.index, batch.ids.tolist()))
                held = [*held[-1:], batch]
                for kept in held:
                    self.assert_intact(kept)
        return seen


class Rejoining(Gone):
    def test_gone_at_each_step(self) -> None:
        """The first job is made; then the server crashes, or is restarted, at the n-th event of each kind."""
        steps = [("ring", 1)] if self.ring else []
        steps += [("batch", number) for number in (1, 2, 6, 7, 8, 13)] + [("epoch_end", 1), ("progress", 1),
            ("progress", 4)]
        for step, number in steps:
            for how in ("crash", "restart"):
                with self.subTest(step=step, number=number, how=how):
                    server = self.fake()
                    server.shuffled = True
                    server.hook = nth(server, step, number, getattr(server, how))
                    loader = self.loader(server)
                    self.assert_whole(self.run_through(loader))
                    self.assertEqual((server.lives, loader.stats()["rejoined"]), (2, 1))
                    first, second = self.joins(server)
                    self.assertEqual(second["run"], server.former[0].run)
                    self.assertEqual(second["instance"], first["instance"])
                    self.assertEqual((second["order"], second["seed"]), ("shared", "1"))

    def test_gone_while_joining(self) -> None:
        """The server that the job was to be joined with anew goes too, at each step of that."""
        for step in ("join", "joined", *(("token", "ring") if self.ring else ())):
            with self.subTest(step):
                server = self.fake()
                calls: List[str] = []

                def hook(at: str, job: Optional[Job]) -> None:
                    if at == "batch" and server.lives == 1 and job is not None and job.sent == 3:
                        server.crash()
                    if at == step and server.lives in (2, 3):
                        calls.append(at)
                        server.crash()
                server.hook = hook
                self.assert_whole(self.run_through(self.loader(server)))
                self.assertEqual(calls, [step, step])

    def test_gone_while_joining_first(self) -> None:
        """Without rejoin the next server is asked within the time that a join may take."""
        server = self.fake()
        server.hook = nth(server, "join", 1, server.crash)
        self.assert_whole(self.run_through(self.loader(server, timeout=PATIENCE_S, rejoin=0)))
        server = self.fake()
        server.hook = nth(server, "join", 1, lambda: server.crash(stay=True))
        with self.assertRaises(tureen.NoServer):
            iter(self.loader(server, timeout=0.3, rejoin=0))

    def test_many_times(self) -> None:
        """At random; lists with repeats and samples that cannot be read, and seeded orders, keep their
        order."""
        for seed in range(SEED, SEED + 2):
            for how in ({}, {"order": "list", "ids": [7, 7, 3, 9, 7, 0, 1, 2, 9, 9, 4, 19]}, {"seed": 3}):
                server = self.fake()
                server.shuffled = not how
                server.unreadable = {9} if "ids" in how else set()
                chance = random.Random(seed)

                def hook(at: str, job: Optional[Job]) -> None:
                    if (server.lives < 6 and job is not None and job.begun and not job.complete
                            and not chance.randrange(6)):
                        chance.choice((server.crash, server.restart))()
                server.hook = hook
                seen = self.run_through(self.loader(server, **how))
                if "ids" in how:
                    listed = [id for id in how["ids"] if id != 9]
                    self.assertEqual([id for batch in seen for id in batch[2]], 2 * listed, f"seed {seed}")
                else:
                    self.assert_whole(seen)
                    if how:
                        self.assertEqual([id for batch in seen for id in batch[2]], 2 * list(range(20)),
                                         f"seed {seed}")

    def test_what_was_received_is_still_given(self) -> None:
        """And is part of what is gone on with, but not of the state until it is given."""
        server = self.fake()
        iterator = iter(self.loader(server, slots=8))
        until(lambda: iterator._connection.arrivals.qsize() >= 6, "six batches")
        server.do(lambda: setattr(server, "hook", nth(server, "progress", 1, server.crash)))
        seen = [next(iterator)]                     # the server hears of it, and crashes
        state = iterator.state_dict()
        self.assertEqual((state["batches"], state["taken"]["count"]), ("1", "3"))
        until(lambda: len(self.joins(server)) == 2, "the rejoin")
        resume = self.joins(server)[1]["resume"]
        self.assertGreaterEqual(int(resume["epoch"]) * 7 + int(resume["batches"]), 6)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seen += list(iterator)
        for batch in seen:                          # those of the first server are still what they were
            self.assert_intact(batch)
        self.assert_whole([(batch.epoch, batch.index, batch.ids.tolist()) for batch in seen])

    def test_epochs_one_by_one(self) -> None:
        """Each epoch's end is told once, also where the server goes right before or after it."""
        for step, number in (("batch", 7), ("epoch_end", 1)):
            server = self.fake()
            server.hook = nth(server, step, number, server.crash)
            iterator = iter(self.loader(server))
            ends = []
            with contextlib.suppress(StopIteration):
                while True:
                    batch = iterator.next_in_epoch()
                    ends.append(None if batch is None else batch.index)
            self.assertEqual(ends, [*range(7), None] * 2)

    def test_state_over_a_rejoin(self) -> None:
        """The state after it is one that a third server goes on from."""
        server = self.fake()
        server.hook = nth(server, "batch", 5, server.crash)
        loader = self.loader(server)
        seen = []
        for batch in loader:
            seen.append((batch.epoch, batch.index, batch.ids.tolist()))
            if len(seen) == 9:
                break
        state = json.loads(json.dumps(loader.state_dict()))
        del batch
        other = self.loader(self.fake())
        other.load_state_dict(state)
        self.assert_whole(seen + self.run_through(other))

    def test_the_next_server_can_read_more(self) -> None:
        """A sample that the first one could not read is part of the epoch: the state does not call it over
        too early."""
        server = self.fake()
        server.joined_changes = {"samples": "19"}

        def hook(at: str, job: Optional[Job]) -> None:
            if at == "batch" and server.lives == 1 and job is not None and job.sent == 3:
                server.joined_changes = {}
                server.crash()
        server.hook = hook
        loader = self.loader(server, batch_size=1)
        iterator = iter(loader)
        for _ in range(19):
            next(iterator)
        state = loader.state_dict()
        self.assertEqual((state["epoch"], state["batches"]), ("0", "19"))
        next(iterator)
        self.assertEqual(loader.state_dict()["epoch"], "1")
        del iterator

    def test_complete_jobs_need_no_server(self) -> None:
        server = self.fake()

        def hook(at: str, job: Optional[Job]) -> None:
            if at == "epoch_end" and job is not None and job.complete:
                server.crash(stay=True)
        server.hook = hook
        self.assert_whole(self.run_through(self.loader(server)))
        self.assertEqual(server.lives, 1)

    def test_refused(self) -> None:
        """What another try won't mend is raised, behind what was received; and each time."""
        for code in ("bad_state", "job_taken", "unknown_dataset", "bad_request"):
            server = self.fake()
            server.hook = nth(server, "batch", 2, server.crash)

            def refuse(at: str, job: Optional[Job], before: Hook = server.hook) -> None:
                before(at, job)
                if at == "join" and server.lives == 2:
                    server.refuse(code, "the data set's files have changed")
            server.hook = refuse
            iterator = iter(self.loader(server))
            with self.assertRaisesRegex(tureen.RequestRefused, "files have changed") as caught:
                for batch in iterator:
                    self.assert_intact(batch)
            self.assertEqual(caught.exception.code, code)
            with self.assertRaises(tureen.RequestRefused):
                next(iterator)

    def test_other_data_behind_the_same_name(self) -> None:
        """The user gave no state: the sentence begins with what has happened."""
        server = self.fake()

        def hook(at: str, job: Optional[Job]) -> None:
            if at == "batch" and server.lives == 1:
                server.crash()
            elif at == "join" and server.lives == 2:
                server.refuse("bad_state", "the state is of other data: its fingerprint is a, data set "
                              "'train' has b: begin anew without the state")
        server.hook = hook
        with self.assertRaisesRegex(tureen.RequestRefused, "^the server that is back at ipc://.* serves "
                                    "other data, .*fingerprint is a,") as caught:
            list(self.loader(server))
        self.assertEqual(caught.exception.code, "bad_state")

    def test_refusals_that_pass(self) -> None:
        """A server that is still ending, or full of jobs that come back."""
        server = self.fake()
        refusals = ["stopping", "stopping", "busy", "budget"]

        def hook(at: str, job: Optional[Job]) -> None:
            if at == "batch" and server.lives == 1 and job is not None and job.sent == 2:
                server.restart()
            if at == "join" and server.lives == 2 and refusals:
                server.refuse(refusals.pop(0), "not now")
        server.hook = hook
        self.assert_whole(self.run_through(self.loader(server)))
        self.assertEqual(refusals, [])

    def test_other_arrays(self) -> None:
        """The recipe was changed meanwhile: the loop is not given arrays of another form."""
        server = self.fake()

        def hook(at: str, job: Optional[Job]) -> None:
            if at == "batch" and server.lives == 1:
                server.joined_changes = {"fields": [{"name": "label", "dtype": "int64", "shape": [],
                                                     "offset": "0", "sample_bytes": "8"}]}
                server.crash()
        server.hook = hook
        with self.assertRaisesRegex(tureen.StateError, "other arrays"):
            for _ in self.loader(server):
                pass

    def test_jobs_that_the_server_ended(self) -> None:
        """`silent`, a server that does not know the job, and one that hears a word of it while it ends, are
        of inline jobs, and joined anew; what was `fenced`, and what is wrong with the data, is not."""
        for reason in ("fenced", "bad_sample", *(() if self.ring else ("silent", "forgotten", "ending"))):
            with self.subTest(reason):
                server = self.fake()

                def hook(at: str, job: Optional[Job]) -> None:
                    if at != "batch" or job is None or job.sent != 2 or len(server.jobs) > 1:
                        return
                    if reason in ("forgotten", "ending"):
                        server._refuse(job.peer, 0, "unknown_job" if reason == "forgotten" else "stopping",
                                       "no such job")
                        server.forget(job)
                    else:
                        server.end(job, reason, "because")
                server.hook = hook
                if reason in ("silent", "forgotten", "ending"):
                    self.assert_whole(self.run_through(self.loader(server)))
                    continue
                with self.assertRaises(tureen.JobEnded) as caught:
                    for _ in self.loader(server):
                        pass
                self.assertEqual(caught.exception.reason, reason)

    def test_ended_with_batches_in_the_ring(self) -> None:
        """The server may empty the ring of a job that it ends: batches that were not taken from it are not
        given, and not in the state."""
        server = self.fake()
        iterator = iter(self.loader(server))
        first = next(iterator).ids.tolist()
        until(lambda: iterator._connection.arrivals.qsize() >= 2, "two batches")
        self.end(server, iterator)
        given = [first]
        with self.assertRaises(tureen.JobEnded):
            while True:
                batch = next(iterator)
                self.assert_intact(batch)
                given.append(batch.ids.tolist())
        self.assertEqual(len(given) > 1, not self.ring)
        self.assertEqual(iterator.state_dict()["batches"], str(len(given)))

    def test_ended_with_an_epochs_end_behind_them(self) -> None:
        """Nor is that end given: the epoch would look whole, and its job, if it was the last one, complete.
        So too where the next batch was taken off the queue already, and where functions make the batches."""
        for epochs, function, taken in itertools.product((1, 2), (None, lambda each: each), (False, True)):
            with self.subTest(epochs=epochs, map=function, taken=taken):
                server = self.fake(9)
                iterator = iter(self.loader(server, epochs=epochs, map=function, slots=5))
                connection, given = iterator._connection, [next(iterator).index]
                until(lambda: connection.arrivals.qsize() >= 4, "two batches and the end")
                if taken:
                    with mock.patch("tureen.iterator.Batch", side_effect=KeyboardInterrupt), \
                            self.assertRaises(KeyboardInterrupt):
                        next(iterator)
                self.end(server, iterator)
                for _ in range(2):
                    with self.assertRaises(tureen.JobEnded if self.ring or epochs == 2 else StopIteration):
                        while True:
                            given.append(next(iterator).index)
                self.assertEqual(given[:3], [0] if self.ring else [0, 1, 2])
                self.assertEqual(iterator.state_dict()["epoch"], "0" if self.ring else "1")

    def end(self, server: FakeServer, iterator: Any) -> None:
        """As the server ends a job for good; until the client knows."""
        server.do(lambda: server.end(server.job(), "fenced", "because"))
        until(lambda: not iterator._connection._thread.is_alive(), "its end")

    def test_in_vain(self) -> None:
        """What was received is given; then it is said how long was waited, and what to do.  The state is
        there to go on."""
        for how, kind in (("crash", tureen.ServerGone), ("restart", tureen.ServerStopped)):
            server = self.fake()

            def hook(at: str, job: Optional[Job]) -> None:
                if at == "progress" and server.lives == 1:
                    server._stop = True
                    server.restart() if how == "restart" else server.crash()
            server.hook = hook
            loader = self.loader(server, rejoin=0.3, timeout=PATIENCE_S)
            iterator = iter(loader)
            iterator._connection._timeout = 0.1         # it was joined, in its own time
            seen = []
            with self.assertRaisesRegex(kind, r"looked for during 0.3 s \(rejoin\).*state_dict\(\)"):
                for batch in iterator:
                    seen.append((batch.epoch, batch.index, batch.ids.tolist()))
            with self.assertRaises(kind):
                next(iterator)
            del batch
            other = self.loader(self.fake())
            other.load_state_dict(loader.state_dict())
            self.assert_whole(seen + self.run_through(other))

    def test_nothing_is_left_of_a_search(self) -> None:
        """Dropped, closed, broken off, left from another thread: promptly, with a view held or not."""
        def drop(loader: tureen.Loader, iterator: Any) -> None:
            pass

        def close(loader: tureen.Loader, iterator: Any) -> None:
            loader.close()

        def again(loader: tureen.Loader, iterator: Any) -> None:
            with self.assertRaises(tureen.NoServer):
                iter(loader)

        def waiting(loader: tureen.Loader, iterator: Any) -> None:
            with contextlib.suppress(tureen.LoaderClosed):
                leaver = threading.Thread(target=iterator.leave)
                leaver.start()
                while True:
                    next(iterator)
            leaver.join()
        for act in (drop, close, again, waiting):
            for hold in (False, True):
                with self.subTest(act.__name__, hold=hold):
                    server = self.fake()
                    server.hook = nth(server, "batch", 2, lambda: server.crash(stay=True))
                    loader = self.loader(server, timeout=PATIENCE_S)
                    iterator = iter(loader)
                    loader._timeout = iterator._connection._timeout = 0.2
                    held = next(iterator) if hold else None
                    until(lambda: server._stop, "the server's end")
                    act(loader, iterator)
                    del iterator, loader
                    until(lambda: not any(thread.name == "tureen" for thread in threading.enumerate()),
                          "the thread's end")
                    if held is not None:
                        self.assert_intact(held)

    def test_left_while_it_pauses(self) -> None:
        """Between two tries, of which the next is not for a long time."""
        server = self.fake()

        def hook(at: str, job: Optional[Job]) -> None:
            if at == "batch" and server.lives == 1:
                server.crash()
            if at == "join" and server.lives == 2:
                server.refuse("busy", "too many jobs")
        server.hook = hook
        failed = Search.failed

        def long_if_refused(search: Search, error: tureen.TureenError) -> float:
            #  Behind what else may fail, as where the first server still listens, the pause is short.
            pause_s = failed(search, error)
            return 1000.0 if isinstance(error, tureen.RequestRefused) else pause_s
        with mock.patch.object(Search, "failed", long_if_refused):
            loader = self.loader(server)
            iterator = iter(loader)
            until(lambda: len(self.joins(server)) == 2, "the refusal")
            loader.close()
        until(lambda: not any(thread.name == "tureen" for thread in threading.enumerate()),
              "the thread's end")
        with self.assertRaises(tureen.LoaderClosed):
            next(iterator)

    def test_what_is_told(self) -> None:
        server = self.fake()
        server.hook = nth(server, "batch", 2, server.crash)
        with mock.patch.object(logging.getLogger("tureen"), "disabled", False), self.assertLogs("tureen",
                "INFO") as logs:
            self.run_through(self.loader(server))
        self.assertRegex(logs.output[0], "WARNING.*is gone.*looked for until it is back")
        self.assertRegex(logs.output[-1], "WARNING.*is back after")

    def test_forked_child_while_searching(self) -> None:
        """A child that is forked meanwhile holds no connection; its parent goes on."""
        server = self.fake()
        gone = threading.Event()

        def hook(at: str, job: Optional[Job]) -> None:
            if at == "batch" and server.lives == 1 and job is not None and job.sent == 2:
                gone.set()
                server.crash()
            if at == "join" and server.lives == 2 and not go_on.is_set():
                server.refuse("stopping", "still")
        go_on = threading.Event()
        server.hook = hook
        loader = self.loader(server)
        iterator = iter(loader)
        seen = [next(iterator)]
        gone.wait()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                next(iterator)
            except tureen.ForkedProcess:
                code = 0
            os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        go_on.set()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seen += list(iterator)
        self.assert_whole([(batch.epoch, batch.index, batch.ids.tolist()) for batch in seen])

    def test_arguments(self) -> None:
        for rejoin in (-1, math.nan, "soon", None):
            with self.assertRaisesRegex((ValueError, TypeError), "^rejoin "):
                tureen.Loader("ipc:///none", rejoin=rejoin)  # type: ignore[arg-type]


class LeavingAtTheEnd(unittest.TestCase):
    def test_left_just_after_the_thread_has_looked(self) -> None:
        """The thread ends and finds that the user has not left; then the user leaves, and lets go what is
        there."""
        class Connection(tureen.connection.Connection):
            left = False

            @property
            def leaving(self) -> bool:
                """The thread's look: the user leaves right behind it."""
                was, Connection.left = Connection.left, True
                if not was:
                    self.leave()
                return was

            @leaving.setter
            def leaving(self, value: bool) -> None:
                Connection.left = value

        connection = Connection.__new__(Connection)
        connection.pid, connection.job, connection._ended = os.getpid(), mock.Mock(memory=b"ring"), False
        connection.questions, connection.waker = mock.Mock(), mock.Mock()
        connection._settled = threading.Event()
        connection.arrivals = queue.SimpleQueue()
        connection.arrivals.put("a batch")
        connection._settled.set()
        connection._close()
        self.assertTrue(Connection.left)
        self.assertIsNone(connection.job.memory)
        self.assertIsNone(connection.arrivals.get_nowait())
        self.assertTrue(connection.arrivals.empty())


class Silence(unittest.TestCase):
    def test_a_pause_of_this_process_counts_for_one_heartbeat(self) -> None:
        """A process that was stopped for long has not heard its server, and cannot know that it is gone."""
        session = Session.__new__(Session)
        vars(session).update(_endpoint="ipc:///x", _dealer=mock.Mock(), job=mock.Mock(), _broken=False,
                             _heard=False, _beat_at=math.inf, _tick_at=0.0, _silence_s=0.0, _over=False,
                             _loss=None)
        now = 1000.0
        session._heartbeat(now, 1.0)
        for _ in range(SILENT_HEARTBEATS_MAX):
            self.assertFalse(session._over)
            session._tick_at, now = now, now + 1
            session._heartbeat(now, 1.0)
        self.assertTrue(session._over)


class Reasons(Gone):
    def test_a_refusal_ends_with_the_server_that_gave_it(self) -> None:
        """A server that refused the job and died too: the next one is looked for as soon as at first, and
        what the dead one said is not told of the time that is over."""
        search = Search("ipc:///none", tureen.ServerGone("it is gone"), 60)
        busy = tureen.RequestRefused("busy", "full of jobs")
        pauses = [search.failed(busy) for _ in range(2)]
        self.assertEqual(pauses, [0.01, 0.02])
        self.assertEqual(search.failed(tureen.NoServer("no answer")), 0.01)
        self.assertEqual([search.failed(busy) for _ in range(2)], pauses)
        search.failed(tureen.NoServer("no answer"))
        with mock.patch.object(search, "left_s", lambda: 0.0):
            with self.assertRaisesRegex(tureen.ServerGone, "did not come back"):
                search.failed(tureen.NoServer("no answer"))
            with self.assertRaisesRegex(tureen.ServerGone, "takes no job: .*full of jobs"):
                search.failed(busy)


class Forgotten(Gone):
    def test_only_the_ring_is_closed(self) -> None:
        """The server has given the job up and says nothing, over a connection that holds: no more than a
        moment is waited for its reason, and the job is joined again."""
        server = self.fake()

        def give_up() -> None:
            job = server.job()
            job.ended = True
            job.close()
        server.hook = nth(server, "progress", 2, give_up)
        with mock.patch("tureen.session.FAREWELL_S", 0.02):
            self.assert_whole(self.run_through(self.loader(server)))
        self.assertEqual(len(self.joins(server)), 2)


class Interrupted(Gone):
    """In a process of its own."""

    def test_interrupt_while_searching(self) -> None:
        """Ctrl-C in a process that waits for a server in next(): it ends at once, and writes nothing more."""
        server = self.fake()
        server.hook = nth(server, "batch", 2, lambda: server.crash(stay=True))
        text = (f"import sys; sys.path.insert(0, {str(PACKAGE)!r}); import tureen, logging\n"
                "logging.basicConfig(stream=sys.stdout, format='%(name)s %(levelname)s %(message)s', "
                f"level='INFO')\nfor batch in tureen.Loader({server.endpoint!r}, batch_size=3, rejoin=1000): "
                "pass\n")
        process = subprocess.Popen([sys.executable, "-u", "-c", text], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        assert process.stdout is not None
        said = process.stdout.readline()            # it is looking
        self.assertRegex(said.decode(), r"^tureen WARNING the server at .* is gone.*looked for during 1000 s")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, -signal.SIGINT, err)
        self.assertTrue(err.rstrip().endswith(b"KeyboardInterrupt"), err)


class RejoiningInline(Rejoining):
    ring = False

    def test_hung_server(self) -> None:
        """Nothing is heard: the connection is given up, and a server that lives again finds the ghost's
        successor."""
        server = self.fake(heartbeat_ms=20)

        def hook(at: str, job: Optional[Job]) -> None:
            if at == "batch" and job is not None and job.sent == 2 and len(server.jobs) == 1:
                server.silent = True
        server.hook = hook
        loader = self.loader(server, timeout=PATIENCE_S)
        iterator = iter(loader)
        iterator._connection._timeout = 0.2
        seen = [next(iterator), next(iterator)]
        until(lambda: len(self.joins(server)) >= 2, "the second JOIN")
        server.do(lambda: setattr(server, "silent", False))
        seen += list(iterator)
        self.assert_whole([(batch.epoch, batch.index, batch.ids.tolist()) for batch in seen])
        for job in server.alive():
            server.do(lambda job=job: server.forget(job))


if __name__ == "__main__":
    unittest.main()

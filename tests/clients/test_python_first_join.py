"""The Python client's first join, and servers that die before they have answered it, that are ending, or that
are just starting: they are looked for as those of running jobs are.  What a server refuses is refused, before
and after.

Run by ctest (python_first_join), or by hand from anywhere: python3 tests/clients/test_python_first_join.py
[-v] [NAME]
"""
from __future__ import annotations

import logging
import os
import shutil
import threading
import unittest
from typing import Any, List, Optional
from unittest import mock

from client_checks import PATIENCE_S, Tidy, in_time, until
from test_python_ranks import Ranked
from test_python_rejoin import Gone

import tureen
from fake_server import INLINE, FakeServer, Job
from tureen import connection


def dies_at(server: FakeServer, step: str, times: int) -> None:
    """At that step of so many joins, one after the other."""
    def hook(at: str, job: Optional[Job]) -> None:
        if at == step and server.lives <= times:
            server.crash()
    server.hook = hook


class FirstJoin(Gone):
    def test_gone_at_each_step(self) -> None:
        for step in ("join", "joined", *(("token", "ring") if self.ring else ())):
            for times in (1, 3):
                with self.subTest(step=step, times=times):
                    server = self.fake()
                    dies_at(server, step, times)
                    loader = self.loader(server)
                    self.assert_whole(self.run_through(loader))
                    joins = self.joins(server)
                    self.assertEqual(len(joins), times + 1)
                    self.assertEqual(len({join["instance"] for join in joins}), 1)
                    #  What had been joined already is a job that goes on.
                    self.assertEqual(loader.stats()["rejoined"], 0 if step == "join" else times)

    def test_from_a_state(self) -> None:
        server = self.fake()
        loader = self.loader(server)
        seen = []
        for batch in loader:
            seen.append((batch.epoch, batch.index, batch.ids.tolist()))
            if len(seen) == 9:
                break
        del batch
        server = self.fake()
        dies_at(server, "join", 2)
        other = self.loader(server)
        other.load_state_dict(loader.state_dict())
        self.assert_whole(seen + self.run_through(other))

    def test_in_vain(self) -> None:
        server = self.fake()
        server.hook = lambda at, job: server.crash(stay=True)
        with self.assertRaisesRegex(tureen.NoServer, r"went away before it answered; it was looked for "
                                    r"during 0.3 s \(rejoin\), "
                                    "and it did not come back. Start it, or give"):
            iter(self.loader(server, rejoin=0.3))

    def test_refused(self) -> None:
        """An answer with a reason is the end, whatever was before it, unless the server is ending or has no
        room yet."""
        with mock.patch.object(connection, "_BUSY_S", (0.01, 0.01, 0.02, 0.02)):
            for code, passes in (("unknown_dataset", False), ("bad_request", False), ("budget", False),
                                 ("ranks_missing", False),
                                 ("version", False), ("job_taken", False), ("forbidden", False),
                                 ("revoked", False),
                                 ("stopping", True), ("busy", True)):
                for deaths in (0, 1):
                    with self.subTest(code=code, deaths=deaths):
                        self.refuse(code, passes, deaths)
        server = self.fake()
        server.refusal = ("stopping", "it ends")
        with self.assertRaisesRegex(tureen.RequestRefused, "it ends"):
            iter(self.loader(server, rejoin=0))
        with self.assertRaisesRegex(tureen.NoServer, "it ends.*looked for during 0.3 s"):
            iter(self.loader(server, rejoin=0.3))

    def refuse(self, code: str, passes: bool, deaths: int) -> None:
        server = self.fake()
        refusals = 2 * [code] if passes else [code]

        def hook(at: str, job: Optional[Job]) -> None:
            if at == "join" and server.lives <= deaths:
                server.crash()
            if at == "join" and refusals:
                server.refuse(refusals.pop(), "not so")
        server.hook = hook
        if passes:
            self.assert_whole(self.run_through(self.loader(server)))
        else:
            with self.assertRaises(tureen.RequestRefused) as refused:
                iter(self.loader(server))
            self.assertEqual(refused.exception.code, code)
        self.assertEqual(len(self.joins(server)), deaths + (3 if passes else 1))

    def test_what_is_told(self) -> None:
        server = self.fake()
        dies_at(server, "join", 1)
        with mock.patch.object(logging.getLogger("tureen"), "disabled", False), self.assertLogs("tureen",
                "INFO") as logs:
            self.run_through(self.loader(server, rejoin=77))
        self.assertRegex(logs.output[0],
                         "WARNING.*went away before it answered; it is looked for during 77 s")
        self.assertRegex(logs.output[-1], "WARNING.*is back after .*: the job begins")

    def test_left_meanwhile(self) -> None:
        """Closed from another thread while the server is looked for."""
        server = self.fake()
        server.hook = lambda at, job: server.crash(stay=True)
        joining = threading.Thread(target=lambda: self.assertRaises(tureen.LoaderClosed, iter,
            self.loader(server)))
        joining.start()
        until(lambda: any(one._search for one in list(connection._live)), "the search")
        for one in list(connection._live):
            one.leave()
        joining.join()


class FirstJoinInline(FirstJoin):
    ring = False


class Late(Gone):
    """The ring is not handed over, as where a server is very slow."""

    def test_not_handed_over(self) -> None:
        """The server may do so yet, and takes the socket's end for the client's: INLINE would be wrong
        now."""
        server = self.fake()
        server.mute_tokens = 2
        with mock.patch("tureen.ring.ANSWER_S", 0.5):
            self.assert_whole(self.run_through(self.loader(server, timeout=PATIENCE_S)))
        self.assertGreaterEqual(len(self.joins(server)), 3)     # more where a third hand-over was late too
        self.assertNotIn(INLINE, [frames[0][5] for frames in server.messages])

    def test_no_rejoin(self) -> None:
        server = self.fake()
        server.mute_tokens = 99

        def in_vain(timeout: float) -> None:
            with self.assertRaisesRegex(tureen.NoServer, "did not hand over the ring"):
                iter(self.loader(server, timeout=timeout, rejoin=0))
        in_time(in_vain)
        self.assertNotIn(INLINE, [frames[0][5] for frames in server.messages])


class Ranks(Ranked):
    def test_gone_while_they_come_together(self) -> None:
        """Before the second has come, and when both were answered."""
        for step, number in (("join", 2), ("joined", 1), ("joined", 2)):
            with self.subTest(step=step, number=number):
                server = self.fake()
                count: List[str] = []

                def hook(at: str, job: Optional[Job]) -> None:
                    count.extend([at] if at == step else [])
                    if at == step and len(count) == number:
                        server.crash()
                server.hook = hook
                self.assert_one_job(self.together(self.ranks(server), self.through))
                self.assertEqual(server.lives, 2)


class Starting(Tidy):
    """The lock of the endpoint is there, and its process lives, and it does not listen yet."""

    def setUp(self) -> None:
        super().setUp()
        silent = mock.patch.object(logging.getLogger("tureen"), "disabled", True)
        silent.start()
        self.addCleanup(silent.stop)
        with open("/proc/self/comm", encoding="ascii") as file:
            self.addCleanup(self.call, file.read())
        self.unborn = FakeServer(20)
        self.addCleanup(shutil.rmtree, self.unborn.directory, True)
        self.lock(f"{os.getpid()} 1")

    def lock(self, text: str) -> None:
        with open(self.unborn.endpoint[len("ipc://"):] + ".lock", "w", encoding="ascii") as file:
            file.write(text + "\n")

    @staticmethod
    def call(name: str) -> None:
        with open("/proc/self/comm", "w", encoding="ascii") as file:
            file.write(name)

    def loader(self, **how: Any) -> tureen.Loader:
        return tureen.Loader(self.unborn.endpoint, batch_size=4, epochs=1, **{"timeout": 0.2, **how})

    def test_it_is_waited_for(self) -> None:
        self.call("tureen")
        batches: List[int] = []
        joining = threading.Thread(target=lambda: batches.extend(len(batch) for batch in self.loader()))
        joining.start()
        until(lambda: any(one._search for one in list(connection._live)), "the end of the first patience")
        self.servers.append(self.unborn.__enter__())
        self.addCleanup(self.unborn.__exit__)
        joining.join()
        self.assertEqual(batches, [4] * 5)

    def test_in_vain(self) -> None:
        self.call("tureen")
        with self.assertRaisesRegex(tureen.NoServer, f"starting: process {os.getpid()} .*looked for during "
                                    "0.3 s"):
            iter(self.loader(rejoin=0.3))
        with self.assertRaisesRegex(tureen.NoServer, "no server answers.*has locked it and does not listen "
                                    "yet"):
            iter(self.loader(rejoin=0))

    def test_its_supervisor_lives(self) -> None:
        self.call("tureen")
        for text, says in ((f"99999999 {os.getpid()}",
                            f"has died, and process {os.getpid()} starts it again"),
                           (f"99999999 {os.getppid()}", "there is no such socket"),
                           ("99999999", "there is no such socket")):
            self.lock(text)
            with self.assertRaisesRegex(tureen.NoServer, says):
                iter(self.loader(rejoin=0.3))

    def test_another_process_is_none(self) -> None:
        self.call("another")
        with self.assertRaisesRegex(tureen.NoServer, "there is no such socket"):
            iter(self.loader())


if __name__ == "__main__":
    unittest.main()

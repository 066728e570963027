"""Ranks that lose their server: they find each other at the next one, and none of them misses a step or gets
one twice.

Run by ctest (python_ranks_rejoin), or by hand from anywhere: python3
tests/clients/test_python_ranks_rejoin.py [-v] [NAME]
"""
from __future__ import annotations

import random
import threading
import unittest
from typing import Any, Dict, List, Optional
from unittest import mock

from client_checks import SEED, until
from test_python_rejoin import Hook, nth
from test_python_ranks import Ranked

import tureen
from fake_server import Job


class Rejoining(Ranked):
    def test_gone_at_each_step(self) -> None:
        """One rank may have got a step, or an epoch's end, that the other has not."""
        steps = [("batch", number) for number in (1, 2, 3, 7, 8, 9, 12, 15, 16)]
        steps += [("epoch_end", number) for number in (1, 2)] + [("progress", 1)]
        for step, number in steps:
            for how in ("crash", "restart"):
                with self.subTest(step=step, number=number, how=how):
                    server = self.fake()
                    server.shuffled = True
                    server.hook = nth(server, step, number, getattr(server, how))
                    loaders = self.ranks(server)
                    orders = self.assert_one_job(self.together(loaders, self.through))
                    self.assertEqual([sorted(order) for order in orders], [list(range(20))] * 2)
                    self.assertEqual([join["run"] for join in self.joins(server)[2:]],
                                     [server.former[0].run] * 2)

    def test_the_last_that_one_has_got(self) -> None:
        """One has everything, and nothing to go on with; it joins for the other's sake."""
        orders: List[Dict[str, Any]] = [{}, {"order": "list", "ids": list(range(20))}]
        for order in orders:
            server = self.fake()
            server.shuffled = not order
            ends = 0

            def hook(at: str, job: Optional[Job]) -> None:
                nonlocal ends
                ends += at == "epoch_end"
                if at == "epoch_end" and ends == 3:         # rank 0's second, before rank 1's
                    server.crash()
            server.hook = hook
            loaders = self.ranks(server, **order)
            iterators = self.together(loaders, iter)

            def later(loader: tureen.Loader) -> List[tureen.Batch]:
                if loader.rank == 0:                        # it has not left while the other needs it
                    until(lambda: iterators[1]._connection.concluded, "the other's end")
                return list(iterators[loader.rank])
            feeder = threading.Thread(target=lambda: until(lambda: ends >= 3, "the crash"))
            feeder.start()
            taken = self.together(loaders, lambda loader: [next(iterators[loader.rank]) for _ in range(7)])
            feeder.join()
            rest = self.together(loaders, later)
            for rank in range(2):
                batches = taken[rank] + rest[rank]
                self.assertEqual([(batch.epoch, batch.index) for batch in batches],
                                 [(epoch, index) for epoch in range(2) for index in range(4)])
            self.assertEqual(server.lives, 2)
            self.assertEqual(sorted(join["resume"]["epoch"] for join in self.joins(server)[2:]), ["1", "2"])
            del iterators, taken, rest

    def test_all_have_everything(self) -> None:
        """Then nothing is missing where the server goes: it is not told, and what was delivered is given."""
        server = self.fake(12)

        def hook(at: str, job: Optional[Job]) -> None:
            if at == "epoch_end" and job is not None and job.rank == 1 and job.complete:
                server.crash()
        server.hook = hook
        loaders = self.ranks(server, slots=8)
        iterators = self.together(loaders, iter)
        until(lambda: all(iterator._connection.concluded for iterator in iterators), "all")
        until(lambda: len(self.joins(server)) >= 4, "what is in vain")
        given = self.together(loaders, lambda loader: [batch.index for batch in iterators[loader.rank]])
        self.assertEqual(given, [[0, 1, 0, 1]] * 2)
        del iterators

    def test_many_times(self) -> None:
        """At random, with lists that contain unreadable samples, and any number of ranks."""
        for seed in range(SEED, SEED + 3):
            for how in ({}, {"order": "list", "ids": [7, 7, 3, 9, 7, 0, 1, 2, 9, 9, 4, 19]}):
                chance = random.Random(seed)
                server = self.fake()
                server.shuffled = not how
                server.unreadable = {9} if how else set()

                def hook(at: str, job: Optional[Job]) -> None:
                    if (server.lives < 6 and job is not None and job.begun and not job.complete
                            and not chance.randrange(9)):
                        chance.choice((server.crash, server.restart))()
                server.hook = hook
                loaders = self.ranks(server, chance.randint(2, 4), batch_size=chance.randint(1, 3),
                                     slots=chance.randint(3, 6), **how)
                orders = self.assert_one_job(self.together(loaders, self.through))
                if how:
                    self.assertEqual(orders, [[sample for sample in how["ids"] if sample != 9]] * 2,
                                     f"seed {seed}")
                else:
                    self.assertEqual([sorted(order) for order in orders], [list(range(20))] * 2,
                                     f"seed {seed}")

    def test_others_that_are_not_back(self) -> None:
        """Refused, the rank tries again; at last it says which rank is missing."""
        server = self.fake()
        server.hook = nth(server, "batch", 4, server.crash)
        refusals = ["ranks_missing", "busy", "ranks_missing"]

        def hook(at: str, job: Optional[Job], before: Hook = server.hook) -> None:
            before(at, job)
            if at == "join" and server.lives == 2 and refusals:
                server.refuse(refusals.pop(), "rank 1 of job 'run' is missing")
        server.hook = hook
        self.assert_one_job(self.together(self.ranks(server), self.through))
        self.assertEqual(refusals, [])
        server = self.fake()
        server.gathering_s = 0.01
        server.hook = nth(server, "batch", 4, server.crash)
        loaders = self.ranks(server)
        loaders[0]._rejoin, loaders[1]._rejoin = 2.0, 0.0
        iterators = self.together(loaders, iter)
        for iterator, text in ((iterators[1], "is gone"), (iterators[0], "looked for.*1 of 2 ranks of job "
                                                           "'run' are here")):
            with self.assertRaisesRegex(tureen.ServerGone, text):
                for batch in iterator:
                    self.assert_intact(batch)
        del iterators, batch

    def test_gather_is_what_is_left(self) -> None:
        server = self.fake()
        server.hook = nth(server, "batch", 4, server.crash)
        self.together(self.ranks(server, rejoin=40, gather=7), self.through)
        gathers = [join["gather"] for join in self.joins(server)]
        self.assertEqual(gathers[:2], [7, 7])
        self.assertTrue(len(gathers) == 4 and all(7 < gather <= 40 for gather in gathers[2:]), gathers)


class RejoiningInline(Rejoining):
    ring = False


if __name__ == "__main__":
    unittest.main()

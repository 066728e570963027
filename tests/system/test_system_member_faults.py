"""Members that die, stop, disagree or are damaged, and a store that is away or wrong: each epoch of each
server holds each sample once all the same, with the right pixels."""
import glob
import os
import random
import signal
import time
import unittest

import harness
from harness import free_port, wait_until
from object_store import Fault
from test_system_members import Members


class Faults(Members):
    LENGTH = 60000

    def test_a_member_dies_and_returns(self):
        servers = self.serve()
        right = self.right(2)
        jobs = self.begin(servers, 2)
        for victim in (2, 1, 2):
            time.sleep(.4)
            servers[victim].kill()
            servers[victim].start()
        self.assertEqual(self.finish(jobs, 2)[0], right[0])
        wait_until("all see each other", lambda: all(
            self.member(server, name)["state"] != "away" or self.epochs([server]) is None
            for server in servers for name in self.names))
        self.epochs(servers)
        self.assert_settled(servers)

    def test_a_member_stops(self):
        servers = self.serve()
        right = self.right()
        os.kill(servers[2].pid, signal.SIGSTOP)
        try:
            self.assertEqual(self.finish(self.begin(servers[:2])), right[:2])
        finally:
            os.kill(servers[2].pid, signal.SIGCONT)
        self.assertEqual(self.finish(self.begin(servers)), right)

    def test_the_store_sent_a_home_wrong_bytes(self):
        """Which the home cannot see, but every reader: it tells the home, which fetches them anew."""
        servers = self.serve()
        right = self.right()
        self.store.faults.append(Fault("wrong", name="volume", times=3))
        self.assertEqual(self.finish(self.begin(servers)), right)
        self.epochs(servers)
        self.epochs(servers)
        self.assert_settled(servers)
        self.assertEqual(self.finish(self.begin(servers)), right)

    def test_the_store_is_away(self):
        """What members hold goes on."""
        servers = self.serve()
        #  On a loaded machine the store may be quicker than a member, and then no home keeps what it sent.
        #  The store becomes slower until the members hold all.
        self.store.latency = .1

        def hold_all():
            self.store.latency = min(2 * self.store.latency, 1)
            before = self.exceptions(servers)
            settled = self.epochs(servers) == 0 or self.exceptions(servers) > before
            held = sum(server.status()["block_cache"]["bytes"] for server in servers)
            return settled and held >= self.bytes
        wait_until("the members hold all", hold_all)
        self.store.latency = 0
        self.store.faults.append(Fault("status", name="volume"))
        self.assertEqual(self.epochs(servers, 2), 0)


class Homes(Members):
    """With so many blocks that each member is the home of some."""

    def test_a_member_is_gone_for_good(self):
        """Its blocks have other homes after ten seconds, and the store is left alone again."""
        servers = self.serve()
        right = self.right(count=2)
        self.epochs(servers)
        servers[2].expect_clean = False
        servers[2].kill()
        self.assertEqual(self.finish(self.begin(servers[:2])), right)

        def states():
            return [self.member(server, self.names[2])["state"] for server in servers[:2]]
        #  A server that never needed a block of it does not know that it is gone.
        wait_until("it is away", lambda: "here" not in states() and "away" in states(), seen=states)
        time.sleep(11)
        self.epochs(servers[:2])
        self.assert_settled(servers[:2])

    def test_members_never_agree(self):
        """Each has another list, one of them with a member that is not there."""
        self.names = ["127.0.0.1:%d" % free_port() for _ in range(4)]
        lists = [(0, 1), (0, 1, 2), (2, 0, 3)]
        for number, known in enumerate(lists):
            self.servers.append(self.server(number, members=",".join(self.names [name] for name in known)))
        right = self.right(2)
        self.assertEqual(self.finish(self.begin(self.servers, 2), 2), right)
        refused = [member["refused"]["not_home"] for server in self.servers
                   for member in self.cluster(server)["members"]]
        self.assertGreater(sum(refused), 0)


class Chance(Members):
    """All faults in any order: servers killed, stopped and damaged, and a store that fails."""
    LENGTH = 60000

    def damage(self, number, dice):
        for path in glob.glob(os.path.join(self.caches, str(number), "*", "data")):
            size = os.path.getsize(path)
            with open(path, "r+b") as file:
                for _ in range(20):
                    file.seek(dice.randrange(size))
                    file.write(bytes([dice.randrange(256)]))

    def harm(self, number, dice):
        what = dice.choice(["kill", "stop", "store", "damage", "nothing"])
        if what == "kill":
            self.store.faults.clear()           # a server that opens its data is less patient
            self.servers[number].kill()
            self.servers[number].start()
        elif what == "stop":
            os.kill(self.servers[number].pid, signal.SIGSTOP)
            time.sleep(dice.uniform(.1, 3))
            os.kill(self.servers[number].pid, signal.SIGCONT)
        elif what == "store":
            kind, times = dice.choice(["status", "reset", "short", "wrong", "hang"]), dice.randrange(1, 8)
            #  A sample that the store sends wrong twice in a row is bad by right.
            if kind != "wrong" or not self.was_wrong:
                self.store.faults.append(Fault(kind, name="volume", times=1 if kind == "wrong" else times))
            self.was_wrong = self.was_wrong or kind == "wrong"
        elif what == "damage":
            self.damage(number, dice)

    def test_faults_in_any_order(self):
        dice = random.Random(harness.SEED)
        right = self.right(2)
        self.serve(part=dice.choice([.15, .4, 1.2]))
        for _ in range(2):
            jobs, self.was_wrong = self.begin(self.servers, 2), False
            while any(job.process.poll() is None for job in jobs):
                time.sleep(dice.uniform(.05, .6))
                self.harm(dice.randrange(3), dice)
            self.assertEqual(self.finish(jobs, 2), right, "TUREEN_SEED=%d" % harness.SEED)


if __name__ == "__main__":
    unittest.main()

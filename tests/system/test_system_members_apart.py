"""Servers that keep blocks for each other, each on a machine of its own: a link that is cut, and
a slow one."""
import os
import time
import unittest

from harness import Server, wait_until
from network import Network
from object_store import ObjectStore
from test_system_members import Members

REFUSAL = Network.refusal()


@unittest.skipIf(REFUSAL, "no network of machines here: %s" % REFUSAL)
class Machines(Members):
    """Each server on a machine of its own, the store on a fourth one."""
    MACHINES = ("one", "two", "three")
    CUT_S = 14

    def setUp(self):
        super().setUp()
        self.network = Network([*self.MACHINES, "store"])
        self.network.__enter__()
        self.addCleanup(self.network.__exit__)
        with self.network.inside("store"):
            self.store = ObjectStore(self.root, host=self.network.address("store"))
        self.store.__enter__()
        self.addCleanup(self.store.__exit__)
        self.names = ["%s:7600" % self.network.address(machine) for machine in self.MACHINES]
        for number, machine in enumerate(self.MACHINES):
            self.servers.append(self.server(number, wrapper=self.network.on(machine)))

    def right(self, epochs=1, count=3):
        with Server({"train": os.path.join(self.root, "bucket", "train")}, cache="16M") as server:
            return self.finish(self.begin([server] * count, epochs), epochs)

    def test_a_link_is_cut(self):
        """The machine behind it waits for the store, the others go on without it; then all is as before."""
        right = self.right(3)
        jobs = self.begin(self.servers, 3, rate=60)
        time.sleep(2)
        self.network.cut("three")
        time.sleep(self.CUT_S)
        self.assertEqual([self.member(server, self.names[2])["state"] for server in self.servers],
                         ["away", "away", "this"])
        self.network.mend("three")
        self.assertEqual(self.finish(jobs, 3), right)
        wait_until("all see each other", lambda: "away" not in {
            self.member(server, name)["state"] for server in self.servers for name in self.names})
        self.assert_settled(self.servers)

    def test_a_slow_link(self):
        """A member behind 2 MB/s is not waited for."""
        right = self.right(2, 2)
        self.network.limit("three", megabytes=2)
        self.assertEqual(self.finish(self.begin(self.servers[:2], 2), 2), right)
        self.assertGreater(sum(self.member(server, self.names[2])[key] for server in self.servers[:2]
                               for key in ("store_quicker", "late")), 0)


if __name__ == "__main__":
    unittest.main()

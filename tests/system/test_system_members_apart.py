"""Servers that keep blocks for each other, each on a machine of its own: links that are cut, a slow one, and
three etcds that die together."""
import os
import shutil
import time
import unittest

from harness import Server, wait_until
from network import Network
from object_store import ObjectStore
from test_system_members import Members
from test_system_members_etcd import Etcd

REFUSAL = Network.refusal()


@unittest.skipIf(REFUSAL, "no network of machines here: %s" % REFUSAL)
class OnMachines(Members):
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
        members = self.members()
        for number, machine in enumerate(self.MACHINES):
            self.servers.append(self.server(number, wrapper=self.network.on(machine), members=members))

    def members(self):
        return ",".join(self.names)

    def right(self, epochs=1, count=3):
        with Server({"train": os.path.join(self.root, "bucket", "train")}, cache="16M") as server:
            return self.finish(self.begin([server] * count, epochs), epochs)

    def states(self, member):
        """What each server says of a member."""
        return [self.member(server, member)["state"] for server in self.servers]


class Given(OnMachines):
    def test_a_link_is_cut(self):
        """The machine behind it waits for the store, the others go on without it; then all is as before."""
        right = self.right(3)
        jobs = self.begin(self.servers, 3, rate=30)
        time.sleep(2)
        self.network.cut("three")
        time.sleep(self.CUT_S)
        self.assertEqual(self.states(self.names[2]), ["away", "away", "this"])
        self.network.mend("three")
        self.assertEqual(self.finish(jobs, 3), right)
        wait_until("all see each other", lambda: not any("away" in self.states(name) for name in self.names))
        self.assert_settled(self.servers)

    def test_a_slow_link(self):
        """A member behind 2 MB/s is not waited for."""
        right = self.right(2, 2)
        self.network.limit("three", megabytes=2)
        self.assertEqual(self.finish(self.begin(self.servers[:2], 2), 2), right)
        self.assertGreater(sum(self.member(server, self.names[2])[key] for server in self.servers[:2]
                               for key in ("store_quicker", "late")), 0)


@unittest.skipUnless(shutil.which("etcd"), "there is no etcd (apt install etcd-server)")
class InEtcd(OnMachines):
    """An etcd on each machine."""

    def members(self):
        hosts = [self.network.address(machine) for machine in self.MACHINES]
        self.etcds = [Etcd(self.caches, [(2379, 2380)] * 3, number, hosts, self.network.on(machine))
                      for number, machine in enumerate(self.MACHINES)]
        for etcd in self.etcds:
            etcd.start()
            self.addCleanup(etcd.kill)
        with self.network.inside("store"):
            wait_until("etcd answers", lambda: all(etcd.is_well() for etcd in self.etcds))
        return "etcd://%s/tureen/test" % ",".join("%s:2379" % host for host in hosts)

    def wait_for(self, counts):
        """Until each server knows so many members."""
        wait_until("the servers know %s members" % counts, lambda: [
            len(self.cluster(server)["members"]) for server in self.servers] == counts)

    def test_a_link_is_cut(self):
        """The machine behind it leaves the list of the two that have etcd's majority.  It keeps its own list,
        and says that this may be old."""
        right = self.right(3)
        self.wait_for([3, 3, 3])
        jobs = self.begin(self.servers, 3, rate=30)
        self.network.cut("three")
        self.wait_for([2, 2, 3])
        wait_until("the trouble is said", lambda: self.cluster(self.servers[2])["trouble"])
        self.network.mend("three")
        self.assertEqual(self.finish(jobs, 3), right)
        self.wait_for([3, 3, 3])
        self.assert_settled(self.servers)

    def test_all_etcds_die(self):
        """Jobs go on with the last list while there is none, and when a server dies meanwhile."""
        right = self.right(3)
        self.wait_for([3, 3, 3])
        jobs = self.begin(self.servers, 3, rate=30)
        for etcd in self.etcds:
            etcd.kill()
        time.sleep(3)
        self.servers[1].kill()
        self.servers[1].start()
        for etcd in self.etcds:
            etcd.start()
        self.assertEqual(self.finish(jobs, 3), right)
        self.wait_for([3, 3, 3])
        wait_until("the trouble is over", lambda: not any(
            self.cluster(server)["trouble"] for server in self.servers))
        self.assert_settled(self.servers)


if __name__ == "__main__":
    unittest.main()

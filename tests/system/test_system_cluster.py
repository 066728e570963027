"""Several machines, as network namespaces: a worker on a slow network, and behind a link that is cut."""
import contextlib
import json
import os
import subprocess
import unittest

from harness import TUREEN, wait_until
from network import Network
from test_system_keys import KeyTest
from test_system_workers import Worker

SERVER, WORKER = "server", "worker"
PORT = 5555
BATCH = 16
REFUSAL = Network.refusal()


@unittest.skipIf(REFUSAL, "no network of machines here: %s" % REFUSAL)
class Machines(KeyTest):
    """One server and its client on one machine, a worker on another."""
    SAMPLES = 240

    def setUp(self):
        super().setUp()
        self.network = Network([SERVER, WORKER])
        self.network.__enter__()
        self.addCleanup(self.network.__exit__)
        self.allow("alice", "operator", "--operator")
        self.make("lender")
        self.key("allow", self.keys, self.path("lender"), "--worker", "--name", "lender")

    @contextlib.contextmanager
    def cluster(self):
        endpoint = "tcp://%s:%d" % (self.network.address(SERVER), PORT)
        environment = {"TUREEN_KEY": self.path("alice"),
                       "TUREEN_SERVER_KEY": os.path.join(self.keys, "server")}
        with self.server(listen=endpoint, workers=1, wrapper=self.network.on(SERVER),
                         environment=environment) as server:
            #  Questions come from the server's machine.
            self.on_server = self.network.on(SERVER)
            worker = Worker("--connect", endpoint, "--key", self.path("lender"), "--server-key",
                            os.path.join(self.keys, "server"), wrapper=self.network.on(WORKER))
            with worker:
                yield server

    def status(self, server):
        return self.ask(server, "status", "--connect", server.endpoint, "--json")

    def ask(self, server, *arguments):
        done = subprocess.run([*self.on_server, TUREEN, *arguments], stdout=subprocess.PIPE,
                              env=server.environment, timeout=120, check=True)
        return json.loads(done.stdout)

    def read(self, server, seed, epochs=1):
        """Of a seeded job: no worker may change its pixels."""
        return self.ask(server, "read", "--connect", server.endpoint, "--dataset", "train", "--batch",
                        str(BATCH), "--epochs", str(epochs), "--seed", str(seed), "--json")["checksum"]

    def lent(self, server):
        return self.status(server)["remote_workers"]

    def wait_for_worker(self, server):
        wait_until("the worker is there", lambda: any(worker["state"] == "working"
                   for worker in self.lent(server)))

    def test_a_link_that_is_cut(self):
        """The worker's tasks are done by others, it is dropped, and comes back when the link is mended."""
        with self.cluster() as server:
            self.wait_for_worker(server)
            expected = self.read(server, 3)
            self.network.cut(WORKER)
            self.assertEqual(self.read(server, 3), expected)
            wait_until("it is gone", lambda: not self.lent(server))
            self.assertEqual(self.read(server, 3), expected)
            self.network.mend(WORKER)
            self.wait_for_worker(server)
            self.assertEqual(self.read(server, 3), expected)

    def test_a_slow_network(self):
        """What would take the link longer than this machine is taken back, and prepared here."""
        with self.cluster() as server:
            self.wait_for_worker(server)
            self.network.limit(WORKER, megabytes=0.5)
            first = self.read(server, 5, epochs=2)
            self.assertEqual(self.read(server, 5, epochs=2), first)
            worker, = self.lent(server)
            self.assertGreater(worker["taken_back"], 0)
            self.assertLessEqual(worker["credit"], 2, worker)


if __name__ == "__main__":
    unittest.main()

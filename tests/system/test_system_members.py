"""Servers that keep blocks of a store for each other: the store sends each block once however many servers
read, nothing once their caches hold all, and whatever becomes of a member, of its link or of its bytes, each
epoch of each server holds each sample once, with the right pixels."""
import os
import shutil
import signal
import tempfile
import threading
import time
import unittest

import harness
from harness import Server, free_port, make_folder, run, wait_until
from object_store import Fault, ObjectStore

MIB = 1 << 20


class Members(unittest.TestCase):
    SAMPLES = 400
    assert_epochs = harness.SystemTest.assert_epochs

    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="tu-members-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.data = os.path.join(cls.root, "train")
        make_folder(cls.data, cls.SAMPLES, sizes=((700, 900), (700, 900)), seed=harness.SEED)
        pack = os.path.join(cls.root, "bucket", "train")
        os.makedirs(os.path.dirname(pack))
        packed = run("pack", "--quiet", "--json", cls.data, pack)
        assert packed.returncode == 0, packed.stderr
        cls.bytes = os.path.getsize(os.path.join(pack, "volume-00000.tureen"))

    def setUp(self):
        self.store = ObjectStore(self.root)
        self.store.__enter__()
        self.addCleanup(self.store.__exit__)
        self.caches = tempfile.mkdtemp(prefix="tu-caches-", dir=self.root)
        self.names, self.servers = [], []

    def serve(self, count=3, part=1.0, arguments=(), members=None):
        """Servers of which each has a cache of so much of the data, and the same keys."""
        self.names = ["127.0.0.1:%d" % free_port() for _ in range(count)]
        for number in range(count):
            self.servers.append(self.server(number, part, arguments, members))
        return self.servers

    def server(self, number, part=1.0, arguments=(), members=None):
        server = Server({"train": "s3://bucket/train"}, cache="16M", arguments=[
            "--raw", "16M", "--block-cache", "%s/%d=%d" % (self.caches, number, int(part * self.bytes)),
            "--members", members or ",".join(self.names), "--member", self.names[number],
            "--member-keys", os.path.join(self.caches, "keys"), *arguments],
            environment=self.store.environment())
        server.__enter__()
        self.addCleanup(server.__exit__, None, None, None)
        return server

    def epochs(self, servers, epochs=1):
        """All servers' epochs at the same time; gives how much of the volume the store sent meanwhile."""
        before = self.store.sent("volume")
        for job in [server.read(batch=16, epochs=epochs) for server in servers]:
            self.assert_epochs(job.finish(), epochs)
        return self.store.sent("volume") - before

    def cluster(self, server):
        return server.status()["cluster"]


class Epochs(Members):
    def test_the_store_sends_each_block_once(self):
        servers = self.serve()
        first = self.epochs(servers)
        import json
        for s in servers: print(json.dumps(self.cluster(s)))
        print(servers[0].log())
        self.assertLess(abs(first - self.bytes), .05 * self.bytes)
        self.assertEqual(self.epochs(servers, 2), 0)


if __name__ == "__main__":
    unittest.main()

"""Servers that keep blocks of a store for each other: the store sends each block once however many servers
read, and nothing once their caches hold all."""
import json
import os
import random
import re
import shutil
import subprocess
import tempfile
import unittest

import harness
from harness import Server, free_port, run, wait_until
from object_store import ObjectStore
from test_system_http import page_in_browser

MIB = 1 << 20


class Members(unittest.TestCase):
    SAMPLES, LENGTH = 200, 200000
    assert_epochs = harness.SystemTest.assert_epochs

    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="tu-members-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.data = os.path.join(cls.root, "train")
        dice = random.Random(harness.SEED)
        for number in range(cls.SAMPLES):
            folder = os.path.join(cls.data, "class_%d" % (number % 5))
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, "%05d.ppm" % number), "wb") as file:
                file.write(dice.randbytes(cls.LENGTH))
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
        os.mkdir(os.path.join(self.caches, "keys"), mode=0o700)
        made = run("key", "new", os.path.join(self.caches, "keys", "server"))
        self.assertEqual(made.returncode, 0, made.stderr)
        self.names, self.servers, self.path = [], [], "s3://bucket/train"

    def serve(self, count=3, part=1.2, arguments=(), members=None):
        """Servers of which each has a cache of so much of the data, and the same keys."""
        self.names = ["127.0.0.1:%d" % free_port() for _ in range(count)]
        for number in range(count):
            self.servers.append(self.server(number, part, arguments, members))
        return self.servers

    def server(self, number, part=1.2, arguments=(), members=None, keys=True, wrapper=()):
        guard = ["--member-keys", os.path.join(self.caches, "keys")] if keys else ["--open"]
        server = Server({"train": self.path}, cache="16M", arguments=[
            "--raw", "16M", "--disk", "%s/%d=%d" % (self.caches, number, int(part * self.bytes)),
            "--members", members or ",".join(self.names), "--member", self.names[number],
            *guard, *arguments],
            environment=self.store.environment(), wrapper=wrapper)
        server.__enter__()
        self.addCleanup(server.__exit__, None, None, None)
        return server

    def begin(self, servers, epochs=1, first_seed=100, **options):
        """Jobs that depend on their seed alone: what they get has a checksum.  They get the bytes as they
        are: what decoding makes of them is not these tests' matter, and takes far longer."""
        pipeline = json.dumps([{"op": "decode", "as": "bytes", "length": self.LENGTH}])
        return [server.read(batch=16, epochs=epochs, order="seeded", seed=first_seed + number,
                            pipeline=pipeline, **options)
                for number, server in enumerate(servers)]

    def finish(self, jobs, epochs=1):
        """Each epoch has each sample once; gives the checksums."""
        try:
            results = [job.finish() for job in jobs]
            for result in results:
                self.assert_epochs(result, epochs)
        except (AssertionError, subprocess.TimeoutExpired):
            for server in self.servers:
                server.print_log()
                print(server.status_text(), flush=True)
            raise
        return [result["checksum"] for result in results]

    def epochs(self, servers, epochs=1):
        """All servers' epochs at the same time; gives how much of the volume the store sent meanwhile."""
        before = self.store.sent("volume")
        self.finish(self.begin(servers, epochs), epochs)
        return self.store.sent("volume") - before

    def assert_sent(self, servers, most, epochs=1):
        """The store sends no more than that.  A machine that has no time for its peers may ask it for what
        they have; then that is to be seen."""
        before = self.exceptions(servers)
        sent = self.epochs(servers, epochs)
        if self.exceptions(servers) == before and not self.away(servers):
            self.assertLessEqual(sent, most)
        return sent

    def assert_settled(self, servers, epochs=1):
        """The store sends nothing, at the latest when some epochs have passed."""
        for _ in range(6):
            if self.epochs(servers, epochs) == 0:
                return
        self.assert_sent(servers, 0, epochs)

    def exceptions(self, servers):
        """Questions that were not asked, not answered in time, or refused."""
        return sum(member["store_quicker"] + member["late"] + sum(member["refused"].values())
                   for server in servers for member in self.cluster(server)["members"])

    def away(self, servers):
        return any(member["is_away"] for server in servers for member in self.cluster(server)["members"])

    def right(self, epochs=1, count=3):
        """The checksums of the same jobs from a server that keeps nothing and is alone."""
        with Server({"train": self.path}, cache="16M", environment=self.store.environment()) as server:
            return self.finish(self.begin([server] * count, epochs), epochs)

    def cluster(self, server):
        return server.status()["cluster"]

    def member(self, server, name):
        """What the server says of another."""
        return next(member for member in self.cluster(server)["members"] if member["member"] == name)


class Pinned(Members):
    """Of so many blocks each member is the home of some."""
    SAMPLES = 400

    def test_a_home_gives_what_it_has_pinned(self):
        """Its disk has room for a tenth, and everything is in memory."""
        self.names = ["127.0.0.1:%d" % free_port() for _ in range(2)]
        memory = ("--memory", str(2 * self.bytes))
        self.store.latency = 0.05               # the member is quicker
        for single in (False, True):
            self.path = "s3://bucket/" + ("single" if single else "train")
            if single:
                shutil.copytree(self.data, os.path.join(self.root, "bucket", "single"))
            home, other = self.servers = [self.server(number, 0.1, arguments)
                                          for number, arguments in enumerate((memory, ()))]
            for turn in range(40):      # what stays in the pool is not read again
                self.finish(self.begin(self.servers, first_seed=1000 + 2 * turn))
                pins = home.status()["datasets"][0]["pins"]
                missing = pins["data_bytes"] - pins["bytes"]
                if missing <= 4096:     # a volume's header, which is never read
                    break
            self.assertLessEqual(missing, 4096)
            sums = self.finish(self.begin(self.servers))
            before, first = self.store.sent(), self.member(other, self.names[0])
            strange = self.exceptions([other])
            self.assertEqual(self.finish(self.begin([home, other])), sums)
            sent, seen = self.store.sent() - before, self.member(other, self.names[0])
            given = seen["bytes"] - first["bytes"]
            self.assertGreater(given, 0)
            self.assertEqual(seen["refused"]["full"], first["refused"]["full"])
            if self.exceptions([other]) == strange:
                self.assertLess(sent + given, 1.05 * self.bytes)
            #  A home serves its blocks also when its own jobs may not read them any more.
            self.assertEqual(run("remove", "train", "--connect", home.endpoint).returncode, 0)
            wait_until("it has gone", lambda: not home.status()["datasets"])
            self.assertEqual(self.finish(self.begin([other])), sums[1:])
            self.assertEqual(home.status()["datasets"], [])
            for server in self.servers:
                server.stop()


class Epochs(Members):
    def test_the_store_sends_each_block_once(self):
        """And nothing once all is kept; a cold start of three asks for S, not for 3 S."""
        servers = self.serve()
        right = self.right()
        self.assert_sent(servers, 1.03 * self.bytes)
        self.assert_settled(servers, 2)
        self.assertEqual(self.finish(self.begin(servers)), right)
        given = sum(self.cluster(server)["given"]["bytes"] for server in servers)
        self.assertGreater(given, 0)
        if self.exceptions(servers) == 0 and not self.away(servers):
            self.assertGreater(given, 5 * self.bytes)
        pack = servers[0].status()["datasets"][0]["pack"]
        self.assertGreater(pack["peer_bytes"], 0)
        self.assertAlmostEqual(pack["bytes_read"], pack["source_bytes"] + pack["block_cache_bytes"]
                               + pack["peer_bytes"])

    def test_small_caches(self):
        """.2 S each: .4 S an epoch for each of three jobs, less for those that want a block together.  Alone
        each would read .8 S.  A block is a tenth of these data, so the parts are not exact."""
        servers = self.serve(part=.2)
        self.epochs(servers)
        for _ in range(2):
            sent = self.epochs(servers)
            self.assertGreater(sent, .35 * self.bytes)
            self.assertLess(sent, 3 * .8 * self.bytes)

    def test_a_restart_reads_nothing_again(self):
        servers = self.serve()
        self.assert_settled(servers)
        for server in servers:
            server.kill()
            server.start()
        #  Each asks for the volume's version, by its first block.
        self.assert_sent(servers, 3 * 8192)

    def test_single_objects(self):
        """Six epochs would ask the store for each object six times."""
        shutil.copytree(self.data, os.path.join(self.root, "bucket", "objects"), dirs_exist_ok=True)
        self.path = "s3://bucket/objects"
        servers = self.serve()
        right = self.right(2)
        before = self.store.sent("class_")
        self.assertEqual(self.finish(self.begin(servers, 2), 2), right)
        size = sum(os.path.getsize(os.path.join(path, name)) for path, _, names in os.walk(self.data)
                   for name in names)
        self.assertGreater(servers[0].status()["datasets"][0]["objects"]["peer_bytes"], 0)
        if self.exceptions(servers) == 0 and not self.away(servers):
            self.assertLess(self.store.sent("class_") - before, 4 * size)

    def test_a_newcomer_asks_the_homes_before(self):
        """Two members hold all; with a third one the store sends nothing, although a third of the blocks have
        another home now."""
        self.serve(2, part=1.2)
        self.assert_settled(self.servers)
        self.names.append("127.0.0.1:%d" % free_port())
        for server in self.servers:
            server.stop()
            server.arguments[server.arguments.index("--members") + 1] = ",".join(self.names)
            server.start()
        self.servers.append(self.server(2, 1.2))
        self.assert_sent(self.servers, .02 * self.bytes, 2)


class Watched(Members):
    """Of so many blocks each member is the home of some."""
    SAMPLES = 400

    def test_top_and_the_page_show_the_members(self):
        port = free_port()
        self.names = ["127.0.0.1:%d" % free_port() for _ in range(2)]
        for number in range(2):
            self.servers.append(self.server(number, arguments=("--http", str(port)) if number == 0 else ()))
        self.store.latency = 0.05               # the member is quicker
        self.epochs(self.servers)
        given = self.member(self.servers[0], self.names[1])
        self.assertGreater(given["bytes"], 0, given)
        self.assertTrue(self.cluster(self.servers[0])["registered"])
        with subprocess.Popen([harness.TUREEN, "top", "--connect", self.servers[0].endpoint],
                              stdout=subprocess.PIPE, universal_newlines=True) as top:
            lines = [top.stdout.readline() for _ in range(4)]
            top.terminate()
        self.assertEqual(sum(line.startswith("  member 127.0.0.1:") for line in lines), 2, lines)
        found = next(line for line in lines if "STATE here" in line)
        self.assertRegex(found, r"  member %s: STATE here, HOMES %% [0-9]+, CACHE [0-9.]+ MiB, GIVES/S -, "
                         r"GAVE [0-9.]+ (?:[KM]iB|B), REFUSED [0-9]+\n" % re.escape(self.names[1]))
        page, console = page_in_browser(self.servers[0].folder, "http://localhost:%d/" % port)
        self.assertEqual(console, [])
        for cells in ("<td>%s</td><td>this</td>" % self.names[0], "<td>%s</td><td>here</td>" % self.names[1]):
            self.assertIn(cells, page)


if __name__ == "__main__":
    unittest.main()

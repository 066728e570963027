"""Servers that keep blocks of a store for each other: the store sends each block once however many servers
read, nothing once their caches hold all, and whatever becomes of a member, of its link or of its bytes, each
epoch of each server holds each sample once, with the right pixels."""
import base64
import glob
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

import xxhash
import zmq

import harness
from harness import Server, free_port, make_folder, run, wait_until
from network import Network
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
            "--raw", "16M", "--block-cache", "%s/%d=%d" % (self.caches, number, int(part * self.bytes)),
            "--members", members or ",".join(self.names), "--member", self.names[number],
            *guard, *arguments],
            environment=self.store.environment(), wrapper=wrapper)
        server.__enter__()
        self.addCleanup(server.__exit__, None, None, None)
        return server

    def begin(self, servers, epochs=1, **options):
        """Jobs that depend on their seed alone: what they get has a checksum."""
        return [server.read(batch=16, epochs=epochs, order="seeded", seed=100 + number, **options)
                for number, server in enumerate(servers)]

    def finish(self, jobs, epochs=1):
        """Each epoch has each sample once; gives the checksums."""
        results = [job.finish() for job in jobs]
        for result in results:
            self.assert_epochs(result, epochs)
        return [result["checksum"] for result in results]

    def epochs(self, servers, epochs=1):
        """All servers' epochs at the same time; gives how much of the volume the store sent meanwhile."""
        before = self.store.sent("volume")
        self.finish(self.begin(servers, epochs), epochs)
        return self.store.sent("volume") - before

    def assert_settled(self, servers, epochs=1):
        """The store sends nothing.  A machine that has no time for its peers may ask it before for what they
        have, which then is to be said."""
        for _ in range(5):
            before = self.exceptions(servers)
            sent = self.epochs(servers, epochs)
            if sent == 0 or self.exceptions(servers) == before:
                break
        self.assertEqual(sent, 0)

    def exceptions(self, servers):
        """Questions that were not asked, or not answered in time."""
        return sum(member["store_quicker"] + member["late"] for server in servers
                   for member in self.cluster(server)["members"])

    def right(self, epochs=1, count=3):
        """The checksums of the same jobs from a server that keeps nothing and is alone."""
        with Server({"train": self.path}, cache="16M", environment=self.store.environment()) as server:
            return self.finish(self.begin([server] * count, epochs), epochs)

    def cluster(self, server):
        return server.status()["cluster"]

    def member(self, server, name):
        """What the server says of another."""
        return next(member for member in self.cluster(server)["members"] if member["member"] == name)


class Epochs(Members):
    def test_the_store_sends_each_block_once(self):
        """And nothing once all is kept; a cold start of three asks for S, not for 3 S."""
        servers = self.serve()
        right = self.right()
        sent = self.epochs(servers)
        if self.exceptions(servers) == 0:
            self.assertLess(sent, 1.03 * self.bytes)
        self.assert_settled(servers, 2)
        self.assertEqual(self.finish(self.begin(servers)), right)
        given = [self.cluster(server)["given"] for server in servers]
        self.assertGreater(sum(gift["bytes"] for gift in given), 5 * self.bytes)
        pack = servers[0].status()["datasets"][0]["pack"]
        self.assertGreater(pack["peer_bytes"], 0)
        self.assertAlmostEqual(pack["bytes_read"], pack["source_bytes"] + pack["block_cache_bytes"]
                               + pack["peer_bytes"])

    def test_small_caches(self):
        """.2 S each: .4 S an epoch, for each of three jobs of which none reads what another does.  Alone each
        would read .8 S.  A block is a twentieth of these data, so the parts are not exact."""
        servers = self.serve(part=.2)
        self.epochs(servers)
        for _ in range(2):
            sent = self.epochs(servers)
            self.assertLess(abs(sent - 3 * .4 * self.bytes), .15 * self.bytes)

    def test_a_restart_reads_nothing_again(self):
        servers = self.serve()
        self.epochs(servers)
        for server in servers:
            server.kill()
            server.start()
        #  Each asks for the volume's version, by its first block.
        self.assertLess(self.epochs(servers), 3 * 8192)

    def test_single_objects(self):
        """Six epochs ask the store for each object about once; the exceptions are those of which it was much
        quicker."""
        shutil.copytree(self.data, os.path.join(self.root, "bucket", "objects"), dirs_exist_ok=True)
        self.path = "s3://bucket/objects"
        servers = self.serve()
        right = self.right(2)
        before = self.store.sent("class_")
        self.assertEqual(self.finish(self.begin(servers, 2), 2), right)
        size = sum(os.path.getsize(os.path.join(path, name)) for path, _, names in os.walk(self.data)
                   for name in names)
        self.assertLess(self.store.sent("class_") - before, 2 * size)
        objects = servers[0].status()["datasets"][0]["objects"]
        self.assertGreater(objects["peer_bytes"], .5 * size)

    def test_a_newcomer_asks_the_homes_before(self):
        """Two members hold all; with a third one the store sends nothing, although a third of the blocks have
        another home now."""
        self.serve(2, part=1.2)
        self.epochs(self.servers)
        self.names.append("127.0.0.1:%d" % free_port())
        for server in self.servers:
            server.stop()
            server.arguments[server.arguments.index("--members") + 1] = ",".join(self.names)
            server.start()
        self.servers.append(self.server(2, 1.2))
        self.assertLess(self.epochs(self.servers, 2), .02 * self.bytes)


class Faults(Members):
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
            for server in servers for name in self.names), 60)
        self.epochs(servers)
        self.assert_settled(servers)

    def test_a_member_is_gone_for_good(self):
        """Its blocks have other homes after ten seconds, and the store is left alone again."""
        servers = self.serve()
        right = self.right(count=2)
        self.epochs(servers)
        servers[2].expect_clean = False
        servers[2].kill()
        self.assertEqual(self.finish(self.begin(servers[:2])), right)
        self.assertEqual(self.member(servers[0], self.names[2])["state"], "away")
        time.sleep(11)
        self.epochs(servers[:2])
        self.assert_settled(servers[:2])

    def test_a_member_stops(self):
        servers = self.serve()
        right = self.right()
        os.kill(servers[2].pid, signal.SIGSTOP)
        try:
            self.assertEqual(self.finish(self.begin(servers[:2])), right[:2])
        finally:
            os.kill(servers[2].pid, signal.SIGCONT)
        self.assertEqual(self.finish(self.begin(servers)), right)

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

    def test_the_store_sent_a_home_wrong_bytes(self):
        """Which the home cannot see, but every reader: it tells the home, which fetches them anew."""
        servers = self.serve()
        right = self.right()
        self.store.faults.append(Fault("wrong", name="volume", times=6))
        self.assertEqual(self.finish(self.begin(servers)), right)
        self.epochs(servers)
        self.epochs(servers)
        self.assert_settled(servers)
        self.assertEqual(self.finish(self.begin(servers)), right)

    def test_the_store_is_away(self):
        """What members hold goes on."""
        servers = self.serve()
        self.epochs(servers)
        self.store.faults.append(Fault("status", name="volume"))
        self.assertEqual(self.epochs(servers, 2), 0)


class Chance(Members):
    """All faults in any order: servers killed, stopped and damaged, and a store that fails."""

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
            self.store.faults.append(Fault(dice.choice(["status", "reset", "short", "wrong", "hang"]),
                                           name="volume", times=dice.randrange(1, 8)))
        elif what == "damage":
            self.damage(number, dice)

    def test_faults_in_any_order(self):
        dice = random.Random(harness.SEED)
        right = self.right(2)
        self.serve(part=dice.choice([.15, .4, 1.2]))
        for _ in range(2):
            jobs = self.begin(self.servers, 2)
            while any(job.process.poll() is None for job in jobs):
                time.sleep(dice.uniform(.05, .6))
                self.harm(dice.randrange(3), dice)
            self.assertEqual(self.finish(jobs, 2), right, "TUREEN_SEED=%d" % harness.SEED)


class FakePeer(threading.Thread):
    """A member that answers as a test wants: a program that has the protocol's description alone."""

    QUESTION, ANSWER = struct.Struct("<IHHQ2Q3Q"), struct.Struct("<IHHQII")
    MAGIC = 0x72505554

    def __init__(self, port, answer):
        super().__init__(daemon=True)
        self.answer, self.asked, self._ending = answer, [], threading.Event()
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.bind("tcp://127.0.0.1:%d" % port)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._ending.set()
        self.join()
        self._socket.close(0)
        self._context.term()

    def run(self):
        while not self._ending.is_set():
            if not self._socket.poll(20):
                continue
            sender, frame = self._socket.recv_multipart()
            fields = self.QUESTION.unpack(frame)
            self.asked.append(fields)
            for parts in self.answer(*fields[2:4], *fields[7:9]):
                self._socket.send_multipart([sender, *parts])

    @classmethod
    def head(cls, kind, number, reason=0, version=1):
        return cls.ANSWER.pack(cls.MAGIC, version, kind, number, reason, 0)

    @classmethod
    def sums(cls, place, data):
        """Of each unit of 4 KiB, by its number in the data set."""
        values = []
        for at in range(0, len(data), 4096):
            value = xxhash.xxh3_64_intdigest(data[at:at + 4096], seed=(place + at) // 4096)
            values.append((value ^ value >> 32) & 0xffffffff or 1)
        return struct.pack("<%dI" % len(values), *values)


class Peers(Members):
    """One server, and a member that is none of ours."""

    GET, BYTES, NO, PONG = 1, 1, 2, 3

    def epochs_with(self, answer, epochs=2):
        self.names = ["127.0.0.1:%d" % free_port() for _ in range(2)]
        with FakePeer(int(self.names[1].split(":")[1]), answer) as peer:
            server = self.server(0, 1.2, keys=False)
            right = self.right(epochs, 1)
            self.assertEqual(self.finish(self.begin([server], epochs), epochs), right)
            self.assertTrue(peer.asked)
            return server, self.member(server, self.names[1])

    def test_bytes_that_do_not_match(self):
        _, seen = self.epochs_with(lambda kind, number, offset, size: [
            [FakePeer.head(self.BYTES, number), bytes(-(-size // 4096) * 4), bytes(size)]])
        self.assertGreater(seen["damaged"], 0)
        self.assertEqual(seen["blocks"], 0)

    def test_wrong_bytes_that_match(self):
        """The pack's own checksums tell, and the store is asked."""
        server, seen = self.epochs_with(lambda kind, number, offset, size: [] if kind != self.GET else [
            [FakePeer.head(self.BYTES, number), FakePeer.sums(offset, bytes(size)), bytes(size)]])
        self.assertGreater(seen["blocks"], 0)
        self.assertEqual(server.status()["datasets"][0]["bad_samples"], 0)

    def test_silence(self):
        _, seen = self.epochs_with(lambda kind, number, offset, size: [])
        self.assertEqual(seen["state"], "away")
        self.assertGreater(seen["late"], 0)

    def test_refusals(self):
        for reason, name in ((1, "busy"), (2, "full"), (3, "not_home"), (5, "failed"), (6, "invalid")):
            with self.subTest(name):
                _, seen = self.epochs_with(lambda kind, number, offset, size, reason=reason: [
                    [FakePeer.head(self.NO, number, reason)]], 1)
                self.assertGreater(seen["refused"][name], 0)

    def test_other_data(self):
        """Its blocks have another home from then on: the second epoch does not ask the store."""
        server, seen = self.epochs_with(lambda kind, number, offset, size: [
            [FakePeer.head(self.NO, number, 4)]], 1)
        self.assertGreater(seen["refused"]["unknown_data"], 0)
        self.epochs([server])
        self.assert_settled([server])

    def test_nonsense(self):
        """Frames too few, too many, too long; of another version, kind or number; and then silence."""
        def answer(kind, number, offset, size):
            head = FakePeer.head(self.BYTES, number)
            return [[b""], [b"x" * 31], [head], [head, b""], [head, b"", bytes(size)], [head] * 5,
                    [head, FakePeer.sums(offset, bytes(size)), bytes(size + 1)],
                    [FakePeer.head(9, number)], [FakePeer.head(self.NO, number, 99)],
                    [FakePeer.head(self.NO, number, 1, version=2)], [FakePeer.head(self.BYTES, number + 7),
                                                                    bytes(size)]]
        self.epochs_with(answer, 1)

    def test_a_question_is_put_only_with_the_key(self):
        """A client's key, or none, gets no byte."""
        self.serve(1)
        port = int(self.names[0].split(":")[1])
        pairs = [None, zmq.curve_keypair()]
        with open(os.path.join(self.caches, "keys", "server")) as file:
            public = re.search('public-key = "(.{40})"', file.read()).group(1).encode()
        for pair in pairs:
            with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
                socket.linger = 0
                if pair:
                    socket.curve_serverkey, (socket.curve_publickey, socket.curve_secretkey) = public, pair
                socket.connect("tcp://127.0.0.1:%d" % port)
                socket.send(FakePeer.QUESTION.pack(FakePeer.MAGIC, 1, 2, 1, 0, 0, 0, 0, 0))
                self.assertEqual(socket.poll(700), 0, "it was answered")
        self.assertGreater(self.cluster(self.servers[0])["given"]["rejected"], 0)

    def test_questions_that_make_no_sense(self):
        """A member that has the key, and asks for what cannot be."""
        self.names = ["127.0.0.1:%d" % free_port() for _ in range(2)]
        server = self.server(0, keys=False)
        port = int(self.names[0].split(":")[1])
        key = self.key()
        whole = self.bytes

        def ask(socket, object_, offset, size, kind=1, data=key):
            socket.send(FakePeer.QUESTION.pack(FakePeer.MAGIC, 1, kind, 5, *data, object_, offset, size))
            self.assertTrue(socket.poll(5000), "no answer")
            return FakePeer.ANSWER.unpack(socket.recv_multipart()[0])[2:5:2]

        with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
            socket.linger = 0
            socket.connect("tcp://127.0.0.1:%d" % port)
            self.assertEqual(ask(socket, 0, 0, 4096, data=(1, 2)), (self.NO, 4))
            for object_, offset, size in ((1, 0, 4096), (0, 1, 4096), (0, 0, 4097), (0, whole, 4096),
                                          (0, 4 * MIB - 4096, 8192), (0, (1 << 64) - 8 * MIB, 4096),
                                          (1 << 63, 0, 4096)):
                self.assertEqual(ask(socket, object_, offset, size), (self.NO, 6), (object_, offset, size))
            for frame in (b"", b"x" * 56, bytes(57), bytes(4000)):
                socket.send(frame)
            self.assertEqual(ask(socket, 0, 0, 0, kind=2), (self.PONG, 0))
            #  What it is the home of it gives; the rest it leaves to its home.
            answers = {ask(socket, 0, begin, 4096) for begin in range(0, whole - 4096, 4 * MIB)}
            self.assertEqual(answers, {(self.BYTES, 0), (self.NO, 3)})
        self.epochs([server])

    def key(self):
        """Of the pack's blocks: the name of their folder, as the cache has it."""
        folder = os.path.join(self.caches, "0")
        name = max((name for name in os.listdir(folder) if len(name) == 32),
                   key=lambda name: os.path.getsize(os.path.join(folder, name, "data")))
        return int(name[16:], 16), int(name[:16], 16)


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


class Etcd:
    """One of a cluster of real etcds, each with its folder and two ports."""

    def __init__(self, folder, ports, number):
        self.folder, self.number = os.path.join(folder, "etcd-%d" % number), number
        self.ports = ports[number]
        peers = ["e%d=http://127.0.0.1:%d" % (at, pair[1]) for at, pair in enumerate(ports)]
        own = ["http://127.0.0.1:%d" % port for port in self.ports]
        self.command = ["etcd", "--name", "e%d" % number, "--data-dir", self.folder,
                        "--listen-client-urls", own[0], "--advertise-client-urls", own[0],
                        "--listen-peer-urls", own[1], "--initial-advertise-peer-urls", own[1],
                        "--initial-cluster", ",".join(peers), "--unsafe-no-fsync"]
        self.process = None

    def start(self):
        with open(self.folder + ".log", "a") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=subprocess.STDOUT)
        return self

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def put(self, key, value):
        self.call("kv/put", {"key": base64.b64encode(key.encode()).decode(),
                             "value": base64.b64encode(value.encode()).decode()})

    def call(self, path, body):
        request = urllib.request.Request("http://127.0.0.1:%d/v3/%s" % (self.ports[0], path),
                                         json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.read()

    def is_well(self):
        try:
            return self.call("kv/range", {"key": "Zm9v"})
        except OSError:
            return None


@unittest.skipUnless(shutil.which("etcd"), "there is no etcd (apt install etcd-server)")
class InEtcd(Members):
    def begin_etcd(self, count):
        ports = [(free_port(), free_port()) for _ in range(count)]
        self.etcds = [Etcd(self.caches, ports, number) for number in range(count)]
        for etcd in self.etcds:
            etcd.start()
            self.addCleanup(etcd.kill)
        wait_until("etcd answers", lambda: all(etcd.is_well() for etcd in self.etcds), 60)
        return "etcd://%s/tureen/test" % ",".join("127.0.0.1:%d" % etcd.ports[0] for etcd in self.etcds)

    def known(self, server):
        return sorted(member["member"] for member in self.cluster(server)["members"])

    def wait_for(self, servers, names, seconds=60):
        wait_until("all know %s" % names, lambda: all(self.known(server) == sorted(names)
                                                     for server in servers), seconds)

    def test_members_come_and_go(self):
        """The store sends each block once, though the third server comes later and the second is killed."""
        address = self.begin_etcd(1)
        servers = self.serve(2, 1.2, members=address)
        right = self.right(2, 2)
        self.wait_for(servers, self.names, 10)
        self.assertLess(self.epochs(servers), 1.05 * self.bytes)
        self.names.append("127.0.0.1:%d" % free_port())
        servers.append(self.server(2, 1.2, members=address))
        self.wait_for(servers, self.names, 10)
        self.assertLess(self.epochs(servers, 2), .05 * self.bytes)
        jobs = self.begin([servers[0], servers[2]], 2)
        servers[1].kill()
        self.wait_for([servers[0], servers[2]], [self.names[0], self.names[2]])
        servers[1].start()
        self.wait_for(servers, self.names)
        self.assertEqual(self.finish(jobs, 2), right)
        servers[2].stop()
        self.wait_for(servers[:2], self.names[:2], 5)
        servers[2].start()
        for server in servers:
            self.assertEqual(self.cluster(server)["trouble"], "")

    def test_etcd_dies(self):
        """One of three: nothing is noticed.  All three: the list stays, and the trouble is said; when they
        are back, with their data or with none, so are the members."""
        address = self.begin_etcd(3)
        servers = self.serve(2, 1.2, members=address)
        self.wait_for(servers, self.names, 10)
        self.etcds[0].kill()
        self.epochs(servers)
        self.wait_for(servers, self.names)
        for etcd in self.etcds[1:]:
            etcd.kill()
        wait_until("the trouble is said", lambda: all(self.cluster(server)["trouble"] for server in servers))
        self.assert_settled(servers)
        self.wait_for(servers, self.names)
        self.assertIn("the list of members is an old one", servers[0].log())
        for loses in (False, True):
            for etcd in self.etcds:
                etcd.kill()
                if loses:
                    shutil.rmtree(etcd.folder)
                etcd.start()
            wait_until("the trouble is over", lambda: not any(self.cluster(server)["trouble"]
                                                              for server in servers), 60)
            self.wait_for(servers, self.names)
        self.assertIn("up to date again", servers[0].log())

    def test_entries_that_are_none(self):
        address = self.begin_etcd(1)
        for key, value in (("no-port", '{"bytes":"5"}'), ("a:1", "{"), ("b:1", '{"bytes":5}'), ("", "x"),
                           ("c:1", '{"bytes":"99999999999999999999"}'), ("d:1/e:1", '{"bytes":"5"}')):
            self.etcds[0].put("tureen/test/" + key, value)
        self.etcds[0].put("tureen/test2/f:1", '{"bytes":"5"}')
        servers = self.serve(2, 1.2, members=address)
        self.wait_for(servers, self.names, 10)
        self.assertIn("6 entries at etcd are no members", self.cluster(servers[0])["trouble"])
        self.epochs(servers)

    def test_a_server_starts_without_etcd(self):
        port = free_port()
        servers = self.serve(1, 1.2, members="etcd://127.0.0.1:%d/t" % port)
        self.assertIn("etcd at http://127.0.0.1:%d does not" % port, self.cluster(servers[0])["trouble"])
        self.epochs(servers)
        self.assert_settled(servers)


class Starts(Members):
    def refused(self, *arguments):
        done = subprocess.run([harness.TUREEN, "serve", "--dataset", "train=s3://bucket/train", "--listen",
                               "ipc://%s/s.sock" % self.caches, *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True, timeout=60,
                              env=dict(os.environ, **self.store.environment()))
        self.assertNotEqual(done.returncode, 0)
        return done.stderr

    def test_what_is_missing_is_said(self):
        port = free_port()
        cache = ["--block-cache", self.caches + "/c=10M"]
        keys = [*cache, "--member-keys", self.caches + "/k"]
        for arguments, words in (
                (["--member", "a:1"], "--member without --members"),
                (["--member-keys", "x"], "--member-keys without --members"),
                (["--members", "a:1"], "--members without --member"),
                (["--members", "a:1", "--member", "a:1"], "--members without --block-cache"),
                (["--members", "a:1", "--member", "a:1", *cache], "--member-keys DIR"),
                (["--members", "127.0.0.1:1", "--member", "127.0.0.1:1", *cache], "--open"),
                (["--members", "a:1", "--member", "b:1", "--open", *keys],
                 "'b:1', is not among the members"),
                (["--members", "127.0.0.1:0", "--member", "127.0.0.1:%d" % port, "--open", *cache],
                 "'127.0.0.1:0' is no member"),
                (["--members", "a:1,a:1", "--member", "a:1", *keys],
                 "given twice"),
                (["--members", "etcd://a:2379", "--member", "a:1", *keys],
                 "has no prefix"),
                (["--members", "etcd://a/t", "--member", "a:1", *keys],
                 "'a' is no address of etcd"),
                (["--members", "a:1=x", "--member", "a:1", *keys],
                 "'x' is no size")):
            with self.subTest(words):
                self.assertIn(words, self.refused(*arguments))

    def test_a_port_that_is_taken(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            name = "127.0.0.1:%d" % taken.getsockname()[1]
            self.assertIn("give this server another port", self.refused(
                "--members", name, "--member", name, "--open", "--block-cache", self.caches + "/c=10M"))


if __name__ == "__main__":
    unittest.main()

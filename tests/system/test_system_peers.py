"""What a server makes of a member that lies, is silent or talks nonsense, and of questions that make none;
and what it says of settings that cannot be."""
import os
import re
import shutil
import socket
import struct
import subprocess
import threading
import unittest

import xxhash
import zmq

import harness
from harness import free_port, wait_until
from plain_client import send_if_let
from test_system_members import MIB, Members


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

    GET, PING, BYTES, NO, PONG = 1, 2, 1, 2, 3

    def epochs_with(self, answer, epochs=2):
        self.names = ["127.0.0.1:%d" % free_port() for _ in range(2)]
        shutil.rmtree(os.path.join(self.caches, "0"), ignore_errors=True)
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

    def test_pings_alone(self):
        """A pong does not bring back a member that left questions without an answer; an answer does."""
        answers = threading.Event()

        def answer(kind, number, offset, size):
            if kind == self.PING:
                return [[FakePeer.head(self.PONG, number)]]
            return [[FakePeer.head(self.NO, number, 5)]] if answers.is_set() else []

        self.names = ["127.0.0.1:%d" % free_port() for _ in range(2)]
        with FakePeer(int(self.names[1].split(":")[1]), answer) as peer:
            server = self.server(0, 1.2, keys=False)
            self.assertEqual(self.finish(self.begin([server], 2), 2), self.right(2, 1))
            self.assertGreater(self.member(server, self.names[1])["late"], 0)
            for _ in range(3):
                asked = len(peer.asked)
                wait_until("a ping", lambda: len(peer.asked) > asked)
                self.assertEqual(self.member(server, self.names[1])["state"], "away")
            answers.set()
            wait_until("it is back", lambda: self.member(server, self.names[1])["state"] == "here")

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
        with open(os.path.join(self.caches, "keys", "server")) as file:
            public = re.search('public-key = "(.{40})"', file.read()).group(1).encode()
        with zmq.Context() as context, context.socket(zmq.DEALER) as without, \
                context.socket(zmq.DEALER) as client:
            client.curve_serverkey, (client.curve_publickey, client.curve_secretkey) = (
                public, zmq.curve_keypair())
            for socket in (without, client):
                socket.linger = 0
                socket.connect("tcp://127.0.0.1:%d" % port)
                send_if_let(socket, FakePeer.QUESTION.pack(FakePeer.MAGIC, 1, 2, 1, 0, 0, 0, 0, 0))
            #  Then the connection that was made before it has been looked at, too.
            wait_until("the server has counted the client",
                       lambda: self.cluster(self.servers[0])["given"]["rejected"] > 0)
            for socket in (without, client):
                self.assertEqual(socket.poll(300), 0, "it was answered")

    def test_a_member_that_gets_its_keys_later(self):
        """Where a server without keys answered, ZeroMQ gives the connection up: another one is made."""
        self.names = ["127.0.0.1:%d" % free_port() for _ in range(2)]
        with FakePeer(int(self.names[1].split(":")[1]), lambda *question: []) as peer:
            server = self.server(0)
            wait_until("it is away", lambda: self.epochs([server]) is None
                       or self.member(server, self.names[1])["state"] == "away")
            self.assertEqual(peer.asked, [])
        self.server(1)
        wait_until("it is here", lambda: self.member(server, self.names[1])["state"] == "here")

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
        cache = ["--disk", self.caches + "/c=10M"]
        keys = [*cache, "--member-keys", self.caches + "/k"]
        for arguments, words in (
                (["--member", "a:1"], "--member without --members"),
                (["--member-keys", "x"], "--member-keys without --members"),
                (["--members", "a:1"], "--members without --member"),
                (["--members", "a:1", "--member", "a:1"], "--members without --disk"),
                (["--members", "a:1", "--member", "a:1", *cache], "--member-keys DIR"),
                (["--members", "127.0.0.1:1", "--member", "127.0.0.1:1", *cache], "--open"),
                (["--members", "a:1", "--member", "b:1", "--open", *keys],
                 "'b:1', is not among the members"),
                (["--members", "a:1", "--member", "a:1", *keys], "no key pair '%s/k/" % self.caches),
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
                "--members", name, "--member", name, "--open", "--disk", self.caches + "/c=10M"))


if __name__ == "__main__":
    unittest.main()

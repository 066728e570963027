"""What ZeroMQ holds for the server is bounded, and sending much has no cost for others: clients that send
long joins one after the other, in the clear and encrypted, are never cut off; a client that sends a message
without an end is, and other clients do not notice."""
import json
import os
import shutil
import socket
import struct
import tempfile
import unittest

import harness
import plain_client
from harness import SystemTest, wait_until
from plain_client import Connection, Refused

IDS = 130000                            # of one frame, a little below its largest
JOINS, FRAMES = 14, 24                  # 350 MB in all: more than one connection may hold
MIB = 1 << 20
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" + bytes(31)


def ready():
    body = b"\x05READY" + b"\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER"
    return bytes([4, len(body)]) + body


class Floods(SystemTest):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tu-floods-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def long_joins(self, server, curve=None):
        """Joins with a very last id that is none; each answer is waited for."""
        connection = Connection(server.endpoint, timeout=harness.PATIENCE, curve=curve)
        self.addCleanup(connection.close)
        frame = b"\x03" + bytes(7) + struct.pack("<Q", 5) * IDS
        last = frame[:-8] + struct.pack("<Q", 2 ** 40)
        text = json.dumps({"dataset": "train", "batch_size": 64, "transport": "inline", "order": "list",
                           "frames": ["list"] * FRAMES}).encode()
        for _ in range(JOINS):
            with self.assertRaises(Refused) as refused:
                connection.ask(plain_client.JOIN, 0, text, *[frame] * (FRAMES - 1), last)
            self.assertIn("number %d is sample %d" % (IDS - 1, 2 ** 40), str(refused.exception))
        self.assertNotIn(" flood ", server.log())

    def test_much_in_the_clear(self):
        with self.serve() as server:
            self.long_joins(server)
            self.assert_epochs(server.read(batch=64, epochs=1).finish(), 1)

    def test_much_encrypted(self):
        keys, client = os.path.join(self.folder, "keys"), os.path.join(self.folder, "client")
        for arguments in (("new", client), ("allow", keys, client, "--tenant", "vision")):
            said = harness.run("key", *arguments)
            self.assertEqual(said.returncode, 0, said.stderr)
        listen = "tcp://127.0.0.1:%d" % harness.free_port()
        with self.serve(listen=listen, arguments=["--keys", keys, "--tenant", "vision=-", "--tenant-datasets",
                                                  "vision=*"]) as server:
            def word(path, name):
                with open(path) as file:
                    return [line.split('"')[1].encode() for line in file if line.strip().startswith(name)][0]
            self.long_joins(server, (word(client, "public-key"), word(client + "_secret", "secret-key"),
                                     word(os.path.join(keys, "server"), "public-key")))

    def flood(self, server, piece, most):
        """Until it is cut off: how many bytes that took."""
        stream = socket.socket(socket.AF_UNIX)
        self.addCleanup(stream.close)
        stream.settimeout(harness.PATIENCE)
        stream.connect(server.endpoint[len("ipc://"):])
        sent = 0
        try:
            stream.sendall(GREETING + ready())
            said = b""                  # libzmq closes a connection that says more before it has said this
            while len(said) < 66 or len(said) < 66 + said[65]:
                said += stream.recv(1000)
            while sent < most:
                stream.sendall(piece)
                sent += len(piece)
        except OSError:
            pass
        return sent

    def test_messages_without_an_end(self):
        with self.serve() as server:
            self.assert_epochs(server.read(batch=64, epochs=1).finish(), 1)
            reader = server.read(batch=16, epochs=20)
            large = b"\x03" + struct.pack(">Q", MIB) + bytes(MIB)
            for turn in range(3):
                self.assertLess(self.flood(server, large, 1000 * MIB), 170 * MIB)
                self.assertLess(self.flood(server, b"\x01\x00" * 4096, 1000 * MIB), 2 * MIB)
                wait_until("the log says so", lambda: " warning flood " in server.log())
            if not harness.is_sanitized(server.pid):        # else there is more than is used
                wait_until("what was held is free",
                           lambda: harness.process_number(server.pid, "RssAnon") * 1024 < 200 * MIB)
                self.assertLess(harness.process_number(server.pid, "VmHWM") * 1024, 400 * MIB)
            self.assert_epochs(reader.finish(), 20)
            self.assertEqual(server.status()["jobs"], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)

"""The Python client, servers with keys and servers without: which clients are admitted, that the others learn
why at once, and that no secret is ever shown.  And `tureen status`, as a tenant and as an operator sees it.

Run by ctest (python_keys), or by hand from anywhere: python3 tests/clients/test_python_keys.py [-v] [NAME]
"""
from __future__ import annotations

import contextlib
import json
import os
import pickle
import random
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple
from unittest import mock

import zmq
from zmq.utils import z85

from client_checks import HERE, PATIENCE_S, SEED, descriptors, until
from test_python_rejoin import Gone, nth

import tureen
from fake_server import FakeServer
from tureen import connection, keys, session, wire
from tureen.keys import KeyPaths, Keys

TUREEN = os.path.join(os.environ.get("TUREEN_BIN", str(HERE.parent.parent / "build" / "release" / "bin")),
                      "tureen")


class Pair:
    """A key, and its certificate as `tureen key new` writes it."""

    def __init__(self) -> None:
        self.public, self.secret = (text.decode() for text in zmq.curve_keypair())

    def text(self, secret: bool = True) -> str:
        lines = ["#   A certificate", "", "metadata", "    name = \"a \"quoted\" = name\"", "curve",
                 f"    public-key = \"{self.public}\""]
        return "\n".join([*lines, f"    secret-key = \"{self.secret}\"", ""] if secret else [*lines, ""])

    def write(self, path: str) -> str:
        Path(path).write_text(self.text(False), encoding="latin-1")
        secret = Path(f"{path}_secret")
        secret.write_text(self.text(), encoding="latin-1")
        secret.chmod(0o600)
        return path


class Greeter:
    """Says that it lets in only keys, and does not hang up.  A real server does as soon as it has seen that a
    client has none: on a busy machine nearly always before that client has read why, which then says what
    else it may be."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = "tcp://127.0.0.1:%d" % self._listener.getsockname()[1]
        self._streams: List[socket.socket] = []
        self._closing = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            stream, _ = self._listener.accept()
            self._streams.append(stream)
            if self._closing:
                return
            stream.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"CURVE".ljust(20, b"\0") + b"\1"
                           + bytes(31))

    def close(self) -> None:
        self._closing = True
        with socket.create_connection(self._listener.getsockname()):
            self._thread.join()
        for stream in [self._listener, *self._streams]:
            stream.close()


class Case(Gone):
    def setUp(self) -> None:
        super().setUp()
        self.own, self.of_server, self.other = Pair(), Pair(), Pair()
        self.path = self.own.write(f"{self.folder()}/own")
        patch = mock.patch.dict(os.environ)
        patch.start()
        self.addCleanup(patch.stop)
        for variable in ("TUREEN_KEY", "TUREEN_SERVER_KEY"):
            os.environ.pop(variable, None)

    def folder(self) -> str:
        path = tempfile.mkdtemp(prefix="tureen-keys-")
        self.addCleanup(shutil.rmtree, path, ignore_errors=True)
        return path

    def guarded(self, **how: Any) -> FakeServer:
        """A server that lets our client in."""
        arguments: Dict[str, Any] = dict(tcp=True, secret=self.of_server.secret, allowed=self.own.public)
        arguments.update(how)
        return self.fake(**arguments)

    def loader(self, server: FakeServer, **how: Any) -> tureen.Loader:
        return super().loader(server, **{"key": self.path, "server_key": self.of_server.public,
                                         "timeout": 50.0, **how})


class Welcome(Case):
    def test_the_right_keys(self) -> None:
        certificate = self.of_server.write(f"{self.folder()}/server")
        for server_key in (self.of_server.public, certificate, Path(certificate)):
            server = self.guarded()
            self.assert_whole(self.run_through(self.loader(server, server_key=server_key)))
            self.assertIn("jobs", tureen.status(server.endpoint, 50.0, key=Path(self.path),
                                                server_key=server_key))
        os.environ.update(TUREEN_KEY=self.path, TUREEN_SERVER_KEY=certificate)
        server = self.guarded()
        self.assert_whole(self.run_through(self.loader(server, key=None, server_key="")))
        self.assertIn("jobs", tureen.status(server.endpoint, 50.0))
        #  Where the user counts they are not looked at.
        os.environ["TUREEN_KEY"] = "/nowhere"
        self.assert_whole(self.run_through(super().loader(self.fake())))

    def test_clients_that_are_not_admitted(self) -> None:
        """Long before the time for an answer is over."""
        good = (self.path, self.of_server.public)
        for how, (key, server_key), error, says in (
                ({}, (None, None), tureen.NotLetIn,
                 "(only clients with a key are let in|each connection is broken off at once) at "
                 "tcp://127.0.0.1:"),
                ({}, (self.path, self.other.public), tureen.NotLetIn, "than the given server_key"),
                ({"allowed": self.other.public}, good, tureen.KeyRefused,
                 f"unknown or revoked at .*{self.own_pattern()}"),
                ({"secret": "", "allowed": ""}, good, tureen.NotLetIn,
                 "no keys are used at tcp://127.0.0.1:|or it is open"),
                ({"tcp": False, "secret": ""}, (None, None), tureen.KeyRefused,
                 f"does not serve user {os.geteuid()}")):
            with self.subTest(says):
                server = self.guarded(**how)
                with self.assertRaisesRegex(error, says) as raised:
                    iter(self.loader(server, key=key, server_key=server_key))
                self.assertIsInstance(raised.exception, tureen.NoServer)
                self.assertNotIn(self.own.secret, str(raised.exception))
                with self.assertRaisesRegex(error, says):
                    tureen.status(server.endpoint, 50.0, key=key, server_key=server_key)
                self.assertEqual(server.messages, [])

    def test_requests_after_the_refusal(self) -> None:
        """A thread that is late sends its request when ZeroMQ has given the connection up: that send would
        wait for ever."""
        ask = tureen.connection_monitor.ConnectionMonitor.ask

        def late(monitor: tureen.connection_monitor.ConnectionMonitor, message: List[bytes]) -> None:
            until(lambda: not monitor._watched.get(zmq.EVENTS) & zmq.POLLOUT, "the refusal")
            ask(monitor, message)
        patch = mock.patch.object(tureen.connection_monitor.ConnectionMonitor, "ask", late)
        for how, key, says in (({"allowed": self.other.public}, self.path, "unknown or revoked"),
                               ({"tcp": False, "secret": "", "allowed": self.other.public}, None,
                                "does not serve user")):
            with self.subTest(says), patch:
                server = self.guarded(**how)
                server_key = self.of_server.public if key else None
                with self.assertRaisesRegex(tureen.KeyRefused, says):
                    iter(self.loader(server, key=key, server_key=server_key))
                with self.assertRaisesRegex(tureen.KeyRefused, says):
                    tureen.status(server.endpoint, 50.0, key=key, server_key=server_key)

    def own_pattern(self) -> str:
        return re.escape(self.own.public)

    def test_silence_may_be_a_refusal(self) -> None:
        server = self.fake(silent=True)
        with self.assertRaisesRegex(tureen.NoServer, f"very busy, or it does not serve user {os.geteuid()}"):
            tureen.status(server.endpoint, 0.05)

    def test_nothing_is_left_open(self) -> None:
        server = self.guarded(allowed=self.other.public)
        before = len(descriptors())
        for _ in range(3):
            with self.assertRaises(tureen.KeyRefused):
                iter(self.loader(server))
            with self.assertRaises(tureen.KeyRefused):
                tureen.status(server.endpoint, 50.0, key=self.path, server_key=self.of_server.public)
        until(lambda: len(descriptors()) <= before, "the sockets' end")


class Again(Case):
    def test_a_request_for_frames_that_is_lost(self) -> None:
        """On a connection that takes nothing more: the job is joined again on another one."""
        send, lost = session.Session._send, []

        def lose(one: session.Session, message: List[bytes]) -> bool:
            if not lost and message[:1] == wire.inline(one.job.joined.job)[:1]:
                lost.append(one.job.joined.job)
                return False
            return send(one, message)
        server = self.guarded()
        server.offer_ring = False
        with mock.patch.object(session.Session, "_send", lose):
            self.assert_whole(self.run_through(self.loader(server)))
        self.assertEqual(len(lost), 1)
        server.jobs[lost[0]].ended = True       # which a server knows by its silence

    def test_with_the_same_keys(self) -> None:
        for ring in (True, False):
            server = self.guarded()
            server.offer_ring, server.shuffled = ring, True
            server.hook = nth(server, "batch", 3, server.crash)
            loader = self.loader(server)
            self.assert_whole(self.run_through(loader))
            self.assertEqual((server.lives, loader.stats()["rejoined"]), (2, 1))

    def test_revoked_meanwhile(self) -> None:
        """For good, whatever `rejoin` says."""
        server = self.guarded()

        def revoke() -> None:
            server.allowed = self.other.public
            server.crash()
        server.hook = nth(server, "batch", 3, revoke)
        with self.assertRaisesRegex(tureen.KeyRefused, "unknown or revoked"):
            self.run_through(self.loader(server))

    def test_another_server_in_between(self) -> None:
        """Open, or with another key: the right one may come yet."""
        for secret, allowed, says in (("", "", "no keys are used|or it is open"),
                                      (self.other.secret, "", "the key is another")):
            server = self.guarded()

            def change() -> None:
                server.secret, server.allowed = secret, allowed
                server.crash()
            server.hook = nth(server, "batch", 3, change)
            loader = self.loader(server, slots=20)
            iterator = iter(loader)
            until(lambda: loader._stats.connection._search is not None  # type: ignore[union-attr]
                  and loader._stats.connection._search._refusal is not None, "the wrong server's welcome")
            search = loader._stats.connection._search  # type: ignore[union-attr]
            self.assertRegex(str(search._refusal), says)  # type: ignore[union-attr]
            self.assertRegex(str(search._in_vain()),  # type: ignore[union-attr]
                             f"it was looked for .* and it takes no job: .*({says})")
            server.secret, server.allowed = self.of_server.secret, self.own.public
            server.do_crash()
            self.assert_whole([(batch.epoch, batch.index, batch.ids.tolist()) for batch in iterator])

    def test_ended_and_error_revoked(self) -> None:
        for how in ("ended", "error"):
            with self.subTest(how):
                server = self.guarded()
                iterator = iter(self.loader(server, slots=8))
                batches = [next(iterator) for _ in range(3)]
                job = server.job()
                if how == "ended":
                    server.do(lambda: server.end(job, "revoked", "this key was revoked"))
                    error: Any = tureen.JobEnded
                else:
                    server.do(lambda: server._refuse(job.peer, 0, "revoked", "this key was revoked"))
                    error = tureen.RequestRefused
                with self.assertRaisesRegex(error, r"\(revoked\)"):
                    for _ in iterator:
                        pass
                self.assertEqual(len(self.joins(server)), 1)
                del batches


class NotNow(Case):
    def test_drained_behind_an_epoch(self) -> None:
        """The whole epoch was delivered, and the user has taken none, some or all of it, when the job ends;
        the server refuses it for a while; the next one has it from there."""
        for taken in (0, 3, 7):
            for refusals in (0, 2):
                with self.subTest(taken=taken, refusals=refusals):
                    server = self.fake()
                    server.shuffled = True
                    left = [refusals]

                    def hook(at: str, job: Any) -> None:
                        if at == "epoch_end" and job.number == 5 and job.epoch == 1:
                            server.end(job, "stopping", "the server is ending")
                        if at == "join" and len(self.joins(server)) > 1 and left[0]:
                            left[0] -= 1
                            server.refuse("stopping", "the server is ending")
                    server.hook = hook
                    iterator = iter(super().loader(server, slots=12))
                    seen = [next(iterator) for _ in range(taken)]
                    until(lambda: len(self.joins(server)) >= 2 + refusals, "joining again")
                    second = self.joins(server)[-1]
                    self.assertEqual((second["resume"]["epoch"], second["resume"]["batches"]), ("1", "0"))
                    rest = [*seen, *iterator]
                    for batch in rest:
                        self.assert_intact(batch)
                    self.assert_whole([(batch.epoch, batch.index, batch.ids.tolist()) for batch in rest])

    def test_a_busy_server(self) -> None:
        """Asked again four times at most; other refusals are not."""
        with mock.patch.object(connection, "_BUSY_S", (0.01, 0.01, 0.02, 0.02)):
            for code, times, joins in (("busy", 2, 3), ("busy", 99, 5), ("budget", 1, 1), ("forbidden", 1, 1),
                                       ("revoked", 1, 1)):
                with self.subTest(code=code, times=times):
                    server = self.fake()
                    left = [times]

                    def hook(at: str, job: Any) -> None:
                        if at == "join" and left[0]:
                            left[0] -= 1
                            server.refuse(code, "not now")
                    server.hook = hook
                    loader = super().loader(server)
                    if joins == times + 1 and times > 1:
                        self.assert_whole(self.run_through(loader))
                    else:
                        with self.assertRaises(tureen.RequestRefused) as raised:
                            iter(loader)
                        self.assertEqual(raised.exception.code, code)
                    self.assertEqual(len(self.joins(server)), joins)

    def test_a_busy_server_and_no_patience(self) -> None:
        server = self.fake()
        server.refusal = ("busy", "not now")
        with self.assertRaises((tureen.RequestRefused, tureen.NoServer)):
            iter(super().loader(server, timeout=0.2))
        self.assertLessEqual(len(self.joins(server)), 1)


class Certificates(Case):
    def refused(self, says: str, key: Optional[Any], server_key: Optional[Any]) -> None:
        with self.assertRaisesRegex(tureen.KeyUnusable, says) as raised:
            KeyPaths(key, server_key).read("tcp://127.0.0.1:9")
        for pair in (self.own, self.of_server):
            self.assertNotIn(pair.secret, str(raised.exception))

    def test_files_that_are_no_use(self) -> None:
        folder, public = os.path.dirname(self.path), self.of_server.public
        self.refused("server_key is given without key", None, public)
        self.refused("key is given without server_key", self.path, None)
        self.refused("key /nowhere_secret: No such file", "/nowhere", public)
        self.refused(r"server_key no such key: it is neither a public key \(40 characters of Z85\) nor a "
                     r"file: No such file", self.path, "no such key")
        self.refused("No such file|embedded null", self.path, "\0")
        self.refused("server_key .*: (it is no file|Is a directory)", self.path, folder)
        self.refused("without \"_secret\"", f"{self.path}_secret", public)
        for mode in (0o640, 0o604, 0o620, 0o602):
            os.chmod(f"{self.path}_secret", mode)
            self.refused("chmod 600", self.path, public)
        os.chmod(f"{self.path}_secret", 0o400)
        found = KeyPaths(self.path, public).read("tcp://127.0.0.1:9")
        self.assertTrue(found is not None and found.public == self.own.public)
        os.mkfifo(f"{folder}/pipe_secret", 0o600)
        self.refused("it is no file", f"{folder}/pipe", public)
        os.unlink(f"{self.path}_secret")
        os.rename(self.path, f"{self.path}_secret")
        os.chmod(f"{self.path}_secret", 0o600)
        self.refused(f"^key {self.path}_secret: it has no secret key$", self.path, public)

    def test_texts(self) -> None:
        own, secret = self.own.public, self.own.secret
        by_hand = (f"\r\nmetadata\r\n  curve = \"no\"\r\ncurve\r\n\tpublic-key='{own}'\r\n  secret-key = "
                   f"\"{secret}\" ")
        for good in (self.own.text(), by_hand):
            self.assertEqual(keys.parse(good.encode()), {"public-key": own, "secret-key": secret})
        public = f"    public-key = \"{own}\"\n"
        for text, says in (("", "no public key"), ("curve\n", "no public key"),
                           (f"metadata\n{public}", "no public key"),
                           (f"curve\n{public}{public}", "a key twice"),
                           (f"curve\n{public}curve\n{public}", "a key twice"),
                           (f"curve\n    public-key = \"{own[:39]}\"\n", "not 40 characters"),
                           (f"curve\n    public-key = {own}\n", "not 40 characters"),
                           (f"curve\n    public-key = \"{own[:39]},\"\n", "a key that is none"),
                           (f"curve\n    public-key = \"{'#' * 20}{own[:20]}\"\n", "a key that is none"),
                           ("curve\n    public-key\n", "not NAME"),
                           (f"curve\n    private-key = \"{own}\"\n", "something"),
                           (f"curve\n{public}    secret-key = \"{own}\"\n", "not that of its public key"),
                           (f"curve\n{public}\1\n", "no text"), ("#" * 5000, "too long")):
            with self.subTest(text), self.assertRaisesRegex(ValueError, says):
                keys.parse(text.encode())

    def test_a_damaged_certificate(self) -> None:
        """Whatever byte of it is another: refused, or the same keys.  Replay: TEST_SEED, with the keys.

        Curve25519 ignores three bits of a secret key's first byte and sets the two highest of its last, so
        the key's last character may be another one.
        """
        def same(text: str) -> bytes:
            key = bytearray(z85.decode(text))
            key[0] &= 0xf8
            key[31] = key[31] & 0x3f | 0x40
            return bytes(key)

        chance, whole = random.Random(SEED), self.own.text().encode()
        wanted = {"public-key": self.own.public, "secret-key": same(self.own.secret)}
        for _ in range(500):
            damaged = bytearray(whole)
            damaged[chance.randrange(len(whole))] = chance.randrange(256)
            try:
                found = keys.parse(bytes(damaged))
            except ValueError as error:
                self.assertNotIn(self.own.secret[5:35], str(error))
                continue
            if "secret-key" in found:
                found["secret-key"] = same(found["secret-key"])
            self.assertEqual(found, {name: wanted[name] for name in found}, whole)

    def test_nothing_shows_a_secret(self) -> None:
        found = KeyPaths(self.path, self.of_server.public).read("tcp://127.0.0.1:9")
        assert found is not None
        self.assertNotIn(self.own.secret, repr(found) + str(found) + repr(vars(KeyPaths(self.path, None))))
        with self.assertRaises(TypeError):
            pickle.dumps(found)
        loader = pickle.loads(pickle.dumps(super().loader(self.fake(), key=self.path,
                                                          server_key=self.of_server.public)))
        self.assertEqual(vars(loader._keys), vars(KeyPaths(self.path, self.of_server.public)))
        with self.assertRaises(TypeError):
            KeyPaths(b"bytes")
        self.assertIsInstance(found, Keys)


TENANT = {"name": "vision", "weight": 2, "jobs": 1, "jobs_max": 8, "batches_bytes": 12e6,
          "batches_bytes_max": 2e9, "cache_bytes_max": 4e9, "evictions": 12, "prepared_again": 3,
          "worker_seconds": 3.25, "refusals": {"budget": 2, "busy": 1}}
JOB = {"job": (1 << 32) + 7, "name": "resnet", "dataset": "train", "order": "shared", "transport": "ring",
       "epoch": 3, "epoch_delivered": 64, "epoch_samples": 1000, "delivered_samples": 3064, "rate": 512.5,
       "waits": {}, "sharing": {}, "waiting_on": "client"}


@unittest.skipUnless(os.path.exists(TUREEN), f"{TUREEN} is not built")
class Table(Case):
    def run_status(self, server: Any, *arguments: str) -> Tuple[int, str, str]:
        """Of anything that has an endpoint."""
        done = subprocess.run([TUREEN, "status", "--connect", server.endpoint, *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S)
        return done.returncode, done.stdout, done.stderr

    def test_a_tenant(self) -> None:
        server = self.guarded()
        server.told_status = {"version": "0.1.0", "uptime_seconds": 5.0, "tenant": TENANT, "jobs": [JOB],
                              "datasets": [{"name": "train", "samples": 1000, "bytes": 1e6}]}
        keys_said = ("--key", self.path, "--server-key", self.of_server.public)
        status, output, errors = self.run_status(server, *keys_said)
        self.assertEqual((status, errors), (0, ""))
        lines = output.splitlines()
        self.assertEqual(lines[0], "tureen 0.1.0, up 5 s")
        self.assertEqual(lines[1], "data set train        1000 samples, 1.0 MB, 0 unreadable")
        self.assertEqual(lines[2], "tenant vision       weight 2, 1 of 8 jobs, batches 12.0 of 2000.0 MB, "
                                   "cache at most 4000.0 MB, evicted 12, prepared again 3, 3.2 s of workers; "
                                   "refused: budget 2, busy 1")
        self.assertEqual(lines[3].split()[:2], ["job", "name"])
        self.assertEqual(lines[4].split()[:3], ["4294967303", "resnet", "train"])
        self.assertEqual(lines[3].index("name"), lines[4].index("resnet"))
        self.assertIn("waited for, since its start: draw = ", lines[5])
        self.assertEqual(len(lines), 7, "no totals: they are of all tenants")
        self.assertEqual(json.loads(self.run_status(server, *keys_said, "--json")[1])["tenant"], TENANT)

    def test_an_operator(self) -> None:
        server = self.fake()
        server.told_status = {
            "version": "0.1.0", "uptime_seconds": 5.0, "cpu_seconds": 1.0, "restarts": 2, "draining": True,
            "datasets": [], "tenants": [
                {"name": "operator", "weight": 1, "jobs": 0, "cache_bytes": 55.1e6, "cache_bytes_max": 35e6,
                 "cache_is_limited": False}, {**TENANT, "cache_bytes": 1e9, "cache_is_limited": True}],
            "jobs": [{**JOB, "tenant": "vision"}, {**JOB, "job": 5, "tenant": "operator"}],
            "prepared": 10, "delivered": 20, "prepared_per_delivered": 0.5, "reading": "io_uring",
            "cache_bytes": 1e6, "cache_bytes_max": 2e6, "evictions": 12, "prepared_again": 0,
            "dropped_unused": 2}
        status, output, errors = self.run_status(server)
        self.assertEqual((status, errors), (0, ""))
        lines = output.splitlines()
        self.assertEqual(lines[0], "tureen 0.1.0, up 5 s, 1.0 s of CPU, restarted 2 times")
        self.assertEqual(lines[1], "tenant operator     weight 1, 0 jobs, cache 55.1 MB (its part 35.0)")
        self.assertIn(", cache 1000.0 of 4000.0 MB, ", lines[2])
        self.assertEqual(lines[3].split()[:3], ["job", "tenant", "name"])
        self.assertEqual(lines[4].split()[:3], ["4294967303", "vision", "resnet"])
        self.assertEqual(lines[5].split()[:3], ["5", "operator", "resnet"])
        self.assertEqual([lines[4].index("resnet"), lines[5].index("resnet")], [lines[3].index("name")] * 2)
        self.assertIn("prepared 10, delivered 20, prepared per delivered 0.500", lines[8])
        self.assertIn("cache 1.0 of 2.0 MB, evicted 12, dropped unused 2; rings", lines[9])
        self.assertIn("takes no new jobs (tureen drain)", lines[-1])

    def test_figures_of_packs_and_members(self) -> None:
        server = self.fake()
        server.told_status = {
            "version": "0.1.0", "uptime_seconds": 5.0, "cpu_seconds": 1.0, "jobs": [], "tenants": [],
            "prepared": 10, "datasets": [{"name": "train", "samples": 1000, "bytes": 5e6, "pack": {
                "policy": "stream", "reads": 1, "gets": 1, "source_bytes": 1.5e6, "source_seconds": 2.5,
                "memory_bytes": 3.5e6, "peer_bytes": 4.5e6}}],
            "cluster": {"member": "a:1", "members_from": "2 members given", "registered": True,
                        "given": {"bytes": 6.5e6}, "members": [
                            {"member": "a:1", "state": "this"},
                            {"member": "b:1", "state": "here", "homes": 0.25, "bytes": 7.5e6, "blocks": 8}]}}
        status, output, errors = self.run_status(server)
        self.assertEqual((status, errors), (0, ""))
        self.assertIn("  3.5 MB were in memory; from the store 1.5 MB by 1 GET of 2.5 s in all; from other "
                      "servers 4.5 MB\n", output)
        self.assertIn("member a:1 of a cluster (2 members given); gave 6.5 MB to others\n", output)
        self.assertIn("  b:1: here, home of 25 %, gave 7.5 MB in 8 answers, 0 late, 0 damaged\n", output)

    def test_keys(self) -> None:
        with contextlib.closing(Greeter()) as greeter:
            status, _, errors = self.run_status(greeter)
        self.assertEqual(status, 1)
        self.assertIn("tureen status: only clients with a key are let in at tcp://127.0.0.1:", errors)
        server = self.guarded()
        status, _, errors = self.run_status(server, "--key", self.path)
        self.assertEqual(status, 2)
        self.assertIn("tureen status: --server-key: required", errors)
        for command in (("read", "--dataset", "train", "--timeout", "50"),):
            done = subprocess.run([TUREEN, *command, "--connect", server.endpoint, "--key", "/nowhere",
                                   "--server-key", self.of_server.public], stderr=subprocess.PIPE, text=True,
                                       timeout=PATIENCE_S)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"tureen {command[0]}: --key: /nowhere_secret: No such file", done.stderr)
        done = subprocess.run([TUREEN, "read", "--dataset", "train", "--batch", "3", "--epochs", "2",
                               "--json", "--connect", server.endpoint, "--key", self.path, "--server-key",
                               self.of_server.public],
                              stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(json.loads(done.stdout)["samples"], 40)


@unittest.skipUnless(os.path.exists(TUREEN), f"{TUREEN} is not built")
class Real(Case):
    """The server itself, and `tureen key`: a key is made, let in, used by all clients, and revoked."""

    def tureen(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([TUREEN, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=PATIENCE_S)

    def serve(self, folder: str) -> Tuple[str, str]:
        """Where it listens, and its public key, as its log has them."""
        photo = HERE.parent / "decode" / "golden" / "colour_420.jpg"
        os.makedirs(f"{folder}/data/class")
        for index in range(20):
            shutil.copy(photo, f"{folder}/data/class/{index:02}.jpg")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            endpoint = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
        with open(f"{folder}/log", "wb") as log:
            process = subprocess.Popen([TUREEN, "serve", "--dataset", f"train={folder}/data", "--tenant",
                                        "vision=-", "--tenant-datasets", "vision=train", "--keys",
                                        f"{folder}/keys", "--listen", endpoint, "--cache", "64M", "--workers",
                                        "1"], stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        log_path = Path(f"{folder}/log")
        until(lambda: "listening on " in log_path.read_text(encoding="utf-8") or process.poll() is not None,
              "the server")
        self.assertIsNone(process.poll(), Path(f"{folder}/log").read_text(encoding="utf-8"))
        said = self.tureen("key", "list", f"{folder}/keys", "--json")
        return endpoint, json.loads(said.stdout)["server"]

    def test_a_keys_life(self) -> None:
        folder = self.folder()
        for name in ("mine", "stranger"):
            made = self.tureen("key", "new", f"{folder}/{name}")
            self.assertEqual(made.returncode, 0, made.stderr)
        allowed = self.tureen("key", "allow", f"{folder}/keys", f"{folder}/mine", "--tenant", "vision",
                              "--name", "mine")
        self.assertEqual(allowed.returncode, 0, allowed.stderr)
        endpoint, server_key = self.serve(folder)
        mine = {"key": f"{folder}/mine", "server_key": server_key}
        batches = list(tureen.Loader(endpoint, batch_size=3, epochs=2, timeout=PATIENCE_S, slots=20, **mine))
        self.assertEqual(sorted(id for batch in batches for id in batch.ids.tolist()),
                         sorted([*range(20)] * 2))
        del batches
        self.assertEqual(tureen.status(endpoint, 50.0, **mine)["tenant"]["name"], "vision")
        said = ("--connect", endpoint, "--key", f"{folder}/mine", "--server-key", f"{folder}/keys/server")
        done = self.tureen("read", "--dataset", "train", "--batch", "3", "--json", *said)
        self.assertEqual((done.returncode, json.loads(done.stdout)["samples"]), (0, 20), done.stderr)
        self.assertIn("tenant vision", self.tureen("status", *said).stdout)
        refused = self.tureen("drain", *said)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("(forbidden)", refused.stderr)
        with self.assertRaises(tureen.KeyRefused):
            tureen.status(endpoint, 50.0, key=f"{folder}/stranger", server_key=server_key)

        iterator = iter(tureen.Loader(endpoint, batch_size=3, timeout=PATIENCE_S, **mine))
        next(iterator)
        self.assertEqual(self.tureen("key", "revoke", f"{folder}/keys", "mine").returncode, 0)
        with self.assertRaises(tureen.JobEnded) as ended:
            for _ in iterator:
                pass
        self.assertEqual(ended.exception.reason, "revoked")
        with self.assertRaises(tureen.KeyRefused):
            iter(tureen.Loader(endpoint, batch_size=3, timeout=PATIENCE_S, **mine))
        log = Path(f"{folder}/log").read_text(encoding="utf-8")
        for name in ("mine_secret", "stranger_secret", "keys/server_secret"):
            secret = keys.parse(Path(folder, name).read_bytes())["secret-key"]
            self.assertNotIn(secret, log + str(ended.exception) + done.stdout + refused.stderr)


if __name__ == "__main__":
    unittest.main()

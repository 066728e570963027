"""The list of members by itself, as members_print shows it: in a real etcd that dies, loses its data, has
users or speaks TLS; and at a gateway of the test's own, which does what a real one does rarely."""
import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import harness
from harness import free_port, wait_until
from test_system_members_etcd import Etcd

PRINT = os.path.join(os.path.dirname(harness.TUREEN), "members_print")
#  Of members.c.
LEASE_S, WATCH_S, CLOSE_MS = 10, 1, 2000


def coded(text):
    return base64.b64encode(text.encode()).decode()


def decoded(text):
    return base64.b64decode(text).decode()


class Member:
    """members_print, and what it has printed: each line's first word, and the rest."""

    def __init__(self, test, text, name, size=5, environment=None):
        self.name, self.lines, self.begun = name, [], time.monotonic()
        self.process = subprocess.Popen(
            [PRINT, text, name, str(size)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, universal_newlines=True, env=dict(os.environ, **environment or {}))
        self.reader = threading.Thread(target=self._read)
        self.reader.start()
        test.addCleanup(self.end)
        wait_until("members_print has begun", lambda: self.all("registered") or self.process.poll())

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.strip().partition(" ")[::2])

    def all(self, word):
        return [rest for first, rest in list(self.lines) if first == word]

    def now(self, word):
        return self.all(word)[-1]

    def knows(self, *names):
        """Just these now; NAME=BYTES each, or NAME for one with 5."""
        listed = [name if "=" in name else name + "=5" for name in names]
        return self.now("members").replace("*", "") == " ".join(sorted(listed))

    def wait_for(self, *names):
        wait_until("%s knows %s" % (self.name, names), lambda: self.knows(*names))

    def wait_for_trouble(self, pattern):
        wait_until("trouble like '%s'" % pattern, lambda: re.search(pattern, self.now("trouble")))

    def wait_for_rest(self):
        wait_until("no trouble", lambda: self.now("trouble") == "" and self.now("registered") == "1")

    def leave(self):
        """As a server that ends; milliseconds that it took."""
        self.process.stdin.close()
        assert self.process.wait(harness.PATIENCE) == 0, self.process.stderr.read()
        self.reader.join()
        return int(self.now("closed"))

    def end(self):
        """What a sanitizer found is told by the status of an end that is not forced."""
        try:
            if self.process.poll() is None:
                self.leave()
        finally:
            self.kill()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()


class ListTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tu-members-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def member(self, text, name, size=5, **environment):
        return Member(self, text, name, size, environment)


@unittest.skipUnless(shutil.which("etcd"), "there is no etcd (apt install etcd-server)")
class Real(ListTest):
    def begin(self, count=1, prefix="t"):
        ports = [(free_port(), free_port()) for _ in range(count)]
        self.etcds = [Etcd(self.folder, ports, number) for number in range(count)]
        for etcd in self.etcds:
            etcd.start()
            self.addCleanup(etcd.kill)
        wait_until("etcd answers", lambda: all(etcd.is_well() for etcd in self.etcds))
        return self.address(prefix)

    def address(self, prefix, scheme="etcd"):
        hosts = ",".join("127.0.0.1:%d" % etcd.ports[0] for etcd in self.etcds)
        return "%s://%s/%s" % (scheme, hosts, prefix)

    def entries(self, prefix="t/"):
        """As etcd has them: the value of each."""
        answer = json.loads(self.etcds[0].call("kv/range", {"key": coded(prefix), "range_end": coded(
            prefix[:-1] + "0")}))
        return {decoded(entry["key"])[len(prefix):]: decoded(entry["value"]) for entry in
                answer.get("kvs", [])}

    def test_members_see_each_other(self):
        address = self.begin()
        first, second = self.member(address, "a:1"), self.member(address, "[::1]:2", 1 << 40)
        self.assertEqual(second.all("members")[0], "*[::1]:2=%d a:1=5" % (1 << 40))
        first.wait_for("[::1]:2=%d" % (1 << 40), "a:1")
        self.assertEqual(self.entries(), {"a:1": '{"bytes":"5"}', "[::1]:2": '{"bytes":"%d"}' % (1 << 40)})
        for member in (first, second):
            self.assertEqual((member.all("trouble"), member.all("registered")), ([""], ["1"]))
            self.assertEqual(member.all("source"), ["etcd at http://127.0.0.1:%d" % self.etcds[0].ports[0]])

    def test_an_end_withdraws_at_once(self):
        """The entry is gone when members_close returns: no lease has to end."""
        address = self.begin()
        first, second = self.member(address, "a:1"), self.member(address, "b:1")
        first.wait_for("a:1", "b:1")
        second.leave()
        self.assertEqual(list(self.entries()), ["a:1"])
        first.wait_for("a:1")

    def test_a_death_is_known_when_the_lease_ends(self):
        address = self.begin()
        first, second = self.member(address, "a:1"), self.member(address, "b:1")
        first.wait_for("a:1", "b:1")
        second.kill()
        self.assertEqual(sorted(self.entries()), ["a:1", "b:1"])
        first.wait_for("a:1")
        self.assertEqual(list(self.entries()), ["a:1"])

    def test_a_lease_is_kept(self):
        """Longer than it lasts, and without a word to others."""
        address = self.begin()
        first, second = self.member(address, "a:1"), self.member(address, "b:1")
        first.wait_for("a:1", "b:1")
        time.sleep(1.5 * LEASE_S)
        for member in (first, second):
            self.assertTrue(member.knows("a:1", "b:1"))
            self.assertEqual(member.all("trouble"), [""])
        self.assertEqual(len(second.all("members")), 1)

    def test_etcd_dies_and_returns_with_its_data(self):
        address = self.begin()
        members = [self.member(address, name) for name in ("a:1", "b:1")]
        for member in members:
            member.wait_for("a:1", "b:1")
        lists = [len(member.all("members")) for member in members]
        self.etcds[0].kill()
        for member in members:
            member.wait_for_trouble(r"^etcd at http://127.0.0.1:\d+ does not .*, "
                                    r"since [-0-9]{10} [0-9:]{8} UTC$")
        time.sleep(1)
        self.etcds[0].start()
        for member in members:
            member.wait_for_rest()
        third = self.member(address, "c:1")
        for member in (third, *members):
            member.wait_for("a:1", "b:1", "c:1")
        #  Neither lost the other meanwhile: there is one list more, with the third.
        self.assertEqual([len(member.all("members")) for member in members], [count + 1 for count in lists])

    def test_etcd_returns_empty(self):
        address = self.begin()
        members = [self.member(address, name) for name in ("a:1", "b:1")]
        self.etcds[0].kill()
        shutil.rmtree(self.etcds[0].folder)
        for member in members:
            member.wait_for_trouble("does not")
        self.etcds[0].start()
        for member in members:
            member.wait_for_rest()
            member.wait_for("a:1", "b:1")
        self.assertEqual(sorted(self.entries()), ["a:1", "b:1"])

    def test_one_of_three_dies(self):
        """Whichever it is, and also before a member begins."""
        address = self.begin(3)
        members = [self.member(address, "a:1")]
        for number, etcd in enumerate(self.etcds):
            etcd.kill()
            members.append(self.member(address, "b%d:1" % number))
            #  It began with all, not alone: the endpoint that is dead was not the last word.
            self.assertEqual(len(members[-1].all("members")[0].split()), len(members))
            for member in members:
                member.wait_for(*(member.name for member in members))
                member.wait_for_rest()
            etcd.start()
            wait_until("etcd answers", etcd.is_well)

    def test_an_entry_that_is_deleted_comes_back(self):
        address = self.begin()
        first, second = self.member(address, "a:1"), self.member(address, "b:1")
        self.etcds[0].call("kv/deleterange", {"key": coded("t/a:1")})
        wait_until("it is put again", lambda: "a:1" in self.entries())
        second.wait_for("a:1", "b:1")
        first.wait_for_rest()
        self.assertTrue(first.all("members")[0].startswith("*a:1"))

    def test_a_lease_that_is_revoked(self):
        address = self.begin()
        first, second = self.member(address, "a:1"), self.member(address, "b:1")
        for lease in json.loads(self.etcds[0].call("lease/leases", {}))["leases"]:
            self.etcds[0].call("lease/revoke", {"ID": lease["ID"]})
        wait_until("both are back", lambda: sorted(self.entries()) == ["a:1", "b:1"])
        for member in (first, second):
            member.wait_for("a:1", "b:1")
            member.wait_for_rest()

    def test_entries_that_are_none(self):
        address = self.begin()
        self.etcds[0].put("t/no member", "x")
        first = self.member(address, "a:1")
        self.assertEqual(first.all("trouble"), ["1 entries at etcd are no members, and are left out, "
                                                "'t/no member' first: remove them"])
        self.assertEqual(first.all("registered"), ["1"])
        self.etcds[0].put("t/b:1", '{"bytes":"7"}')
        first.wait_for("a:1", "b:1=7")
        self.etcds[0].call("kv/deleterange", {"key": coded("t/no member")})
        first.wait_for_rest()

    def test_clusters_of_other_prefixes(self):
        self.begin()
        members = {prefix: [self.member(self.address(prefix), "%s%d:1" % (prefix[:1], number))
                            for number in range(2)] for prefix in ("s", "t", "t2", "u/v")}
        for pair in members.values():
            for member in pair:
                member.wait_for(*(member.name for member in pair))
                self.assertEqual(member.all("trouble"), [""])

    def test_users(self):
        address = self.begin()
        for path, body in (("user/add", {"name": "root", "password": 'a "word"'}),
                           ("role/add", {"name": "root"}),
                           ("user/grant", {"user": "root", "role": "root"}), ("enable", {})):
            self.etcds[0].call("auth/" + path, body)
        right = {"ETCD_USERNAME": "root", "ETCD_PASSWORD": 'a "word"'}
        members = [self.member(address, name, **right) for name in ("a:1", "b:1")]
        for member in members:
            member.wait_for("a:1", "b:1")
            self.assertEqual(member.all("trouble"), [""])
        stranger = self.member(address, "c:1")
        stranger.wait_for_trouble("etcdserver: user name is empty")
        wrong = self.member(address, "d:1", ETCD_USERNAME="root", ETCD_PASSWORD="no")
        wrong.wait_for_trouble(r"does not know ETCD_USERNAME with ETCD_PASSWORD \(etcdserver: authentication")
        #  Tokens do not outlive etcd.
        self.etcds[0].kill()
        members[0].wait_for_trouble("does not")
        self.etcds[0].start()
        for member in members:
            member.wait_for_rest()
        members[1].leave()
        members[0].wait_for("a:1")

    @unittest.skipUnless(shutil.which("openssl"), "there is no openssl")
    def test_tls(self):
        key, certificate = self.folder + "/key.pem", self.folder + "/certificate.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                        "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out",
                        certificate], check=True, stderr=subprocess.DEVNULL)
        ports = [(free_port(), free_port())]
        self.etcds = [Etcd(self.folder, ports, 0)]
        self.etcds[0].command = [word.replace("http://127.0.0.1:%d" % ports[0][0],
                                              "https://127.0.0.1:%d" % ports[0][0])
                                 for word in self.etcds[0].command]
        self.etcds[0].command += ["--cert-file", certificate, "--key-file", key]
        self.addCleanup(self.etcds[0].kill)
        self.etcds[0].start()
        address = self.address("t", "etcds")
        members = [self.member(address, name, ETCDCTL_CACERT=certificate) for name in ("a:1", "b:1")]
        for member in members:
            member.wait_for("a:1", "b:1")
            member.wait_for_rest()
        self.member(address, "c:1").wait_for_trouble("(?i)certificate")


class Gateway:
    """A gateway of etcd's with one lease, which does what its rules say in place of what it should: for a
    path a status, a structure, bytes, "silent", or "cancelled" of a watch; None: as it should."""

    def __init__(self, test, **rules):
        self.rules, self.asked, self.store, self.revision = rules, [], {}, 4
        self.changed, self.lease_ends = threading.Condition(), False
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *words):
                pass

            def do_POST(self):
                path = self.path.split("/")[-1]
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                gateway.asked.append((path, body, self.headers))
                try:
                    gateway.answer(self, path, body)
                except OSError:
                    pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = "etcd://127.0.0.1:%d/t" % self.server.server_port
        self.is_over = threading.Event()
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        test.addCleanup(self.server.server_close)
        test.addCleanup(self.server.shutdown)
        test.addCleanup(self.is_over.set)

    def answer(self, handler, path, body):
        rule = self.rules.get(path)
        if rule == "silent":
            self.is_over.wait()
            return
        status = rule if isinstance(rule, int) else 200
        handler.send_response(status)
        handler.end_headers()
        if path == "watch" and rule is None:
            self.watch(handler)
        elif rule == "cancelled":       # as by a compaction: the connection stays
            handler.wfile.write(b'{"result":{"header":{"revision":"9"},"created":true}}\n'
                                b'{"result":{"header":{},"canceled":true,"compact_revision":"5"}}\n')
            self.is_over.wait()
        elif isinstance(rule, bytes):
            handler.wfile.write(rule)
        elif status == 200:
            handler.wfile.write(json.dumps(getattr(self, path)(body) if rule is None else rule).encode())

    def grant(self, body):
        return {"ID": "77", "TTL": body["TTL"]}

    def keepalive(self, body):
        return {"result": {"ID": body["ID"], "TTL": "10"}}

    def revoke(self, body):
        self.store.clear()
        return {}

    def put(self, body):
        self.set(body["key"], body["value"])
        return {}

    def set(self, key, value):
        with self.changed:
            self.store[key] = value
            self.revision += 1
            self.changed.notify_all()

    def range(self, _):
        return {"header": {"revision": str(self.revision)},
                "kvs": [{"key": key, "value": value} for key, value in sorted(self.store.items())]}

    def watch(self, handler):
        seen = self.revision
        handler.wfile.write(b'{"result":{"created":true}}\n')
        while not self.is_over.is_set():
            with self.changed:
                self.changed.wait_for(lambda: self.revision > seen, .1)
                is_news, seen = self.revision > seen, self.revision
            if is_news:
                handler.wfile.write(b'{"result":{"events":[{}]}}\n')

    def count(self, path):
        return sum(asked == path for asked, _, _ in self.asked)

    def first(self, path):
        return next((body, headers) for asked, body, headers in self.asked if asked == path)


class MadeUp(ListTest):
    def test_what_is_asked(self):
        gateway = Gateway(self)
        member = self.member(gateway.address, "a:1")
        wait_until("there is a watch", lambda: gateway.count("watch") and gateway.count("keepalive"))
        self.assertEqual(gateway.first("grant")[0], {"TTL": LEASE_S})
        self.assertEqual(gateway.first("put")[0], {"key": coded("t/a:1"), "value": coded('{"bytes":"5"}'),
                                                   "lease": "77"})
        body, headers = gateway.first("watch")
        self.assertEqual(body, {"create_request": {"key": coded("t/"), "range_end": coded("t0"),
                                                   "start_revision": "6"}})
        self.assertEqual(headers["Grpc-Metadata-hasleader"], "true")
        self.assertIsNone(headers["Authorization"])
        self.assertEqual(gateway.first("keepalive")[0], {"ID": "77"})
        gateway.set(coded("t/b:1"), coded('{"bytes":"9"}'))
        member.wait_for("a:1", "b:1=9")
        member.leave()
        self.assertEqual(gateway.first("revoke")[0], {"ID": "77"})

    def test_watches_that_end(self):
        """Changes come all the same, and the gateway is not flooded."""
        for rule in (404, {"result": {"created": True}}, "cancelled"):
            with self.subTest(rule):
                gateway = Gateway(self, watch=rule)
                member = self.member(gateway.address, "a:1")
                for number in range(3):
                    gateway.set(coded("t/b:1"), coded('{"bytes":"%d"}' % (number + 6)))
                    member.wait_for("a:1", "b:1=%d" % (number + 6))
                self.assertEqual(member.all("trouble"), [""])
                wait_until("a second watch", lambda: gateway.count("watch") > 1)
                seconds = time.monotonic() - member.begun
                self.assertLessEqual(gateway.count("watch"), seconds / WATCH_S + 1)
                #  A watch's first word, and its end.
                self.assertLessEqual(gateway.count("range"), 2 * (seconds / WATCH_S + 1) + 1)

    def test_a_change_without_end(self):
        """Is read ten times a second at most."""
        gateway = Gateway(self)
        member = self.member(gateway.address, "a:1")
        for number in range(300):
            gateway.set(coded("t/b:1"), coded('{"bytes":"%d"}' % (number + 6)))
            time.sleep(.01)
        member.wait_for("a:1", "b:1=305")
        self.assertLessEqual(gateway.count("range"), (time.monotonic() - member.begun) / .1 + 1)

    def test_a_lease_that_is_lost(self):
        gateway = Gateway(self)
        member = self.member(gateway.address, "a:1")
        gateway.rules["keepalive"] = {"result": {"ID": "77"}}
        member.wait_for_trouble("etcd had given up this server's lease")
        self.assertEqual(member.now("registered"), "0")
        del gateway.rules["keepalive"]
        member.wait_for_rest()
        self.assertGreater(gateway.count("grant"), 1)
        self.assertEqual(len(member.all("members")), 1)

    def test_answers_that_are_none(self):
        """The list stays, and what is wrong is said."""
        gateway = Gateway(self)
        member = self.member(gateway.address, "a:1")
        gateway.set(coded("t/b:1"), coded('{"bytes":"6"}'))
        member.wait_for("a:1", "b:1=6")
        for path in ("range", "grant"):
            for rule, words in ((b"", "no etcd"), (b"<html>", "no etcd"), (b"[]", "no etcd"),
                                (b'{"header":7,"ID":7}', "no etcd"), (b"[" * 100000, "no etcd"),
                                (503, "HTTP status 503"), (b"x" * (5 << 20), "does not")):
                with self.subTest((path, rule if isinstance(rule, int) else rule[:20])):
                    gateway.rules = {"range": 500, path: rule}
                    gateway.set(coded("t/b:1"), coded('{"bytes":"6"}'))
                    member.wait_for_trouble(words + ".*since")
                    self.assertTrue(member.knows("a:1", "b:1=6"))
                    gateway.rules = {}
                    member.wait_for_rest()
        self.assertTrue(member.knows("a:1", "b:1=6"))

    def test_entries_twice_and_too_many(self):
        entry = {"key": coded("t/b:1"), "value": coded('{"bytes":"6"}')}
        gateway = Gateway(self, range={"header": {}, "kvs": [entry, entry]})
        self.assertEqual(self.member(gateway.address, "a:1").all("members"), ["*a:1=5 b:1=6"])
        gateway.rules["range"]["kvs"] = [dict(entry, key=coded("t/b:%d" % port)) for port in range(1, 1501)]
        member = self.member(gateway.address, "a:1")
        self.assertEqual(len(member.now("members").split()), 1024)
        self.assertTrue(member.now("members").startswith("*a:1=5 "))
        self.assertEqual(member.now("trouble"), "477 entries at etcd are left out, 't/b:1024' first: there "
                         "may be at most 1024 members")

    def test_the_first_list_is_waited_for(self):
        """While one etcd refuses and one is silent; and not for ever."""
        gateway = Gateway(self)
        gateway.set(coded("t/b:1"), coded('{"bytes":"6"}'))
        silent = Gateway(self, grant="silent")
        refusing = "127.0.0.1:%d" % free_port()
        silent_address = silent.address[len("etcd://"):-len("/t")]
        for first in (refusing, silent_address):
            member = self.member(gateway.address.replace("://", "://%s," % first), "a:1")
            self.assertEqual(member.all("members")[0], "*a:1=5 b:1=6")
            self.assertEqual(member.all("registered"), ["1"])
        member = self.member("etcd://%s/t" % refusing, "a:1")
        self.assertEqual(member.all("members"), ["*a:1=5"])
        self.assertIn("does not grant a lease", member.now("trouble"))

    def test_an_end_while_etcd_is_silent(self):
        for path in ("grant", "range", "keepalive"):
            with self.subTest(path):
                gateway = Gateway(self)
                member = self.member(gateway.address, "a:1")
                gateway.rules.update({"keepalive": 500, path: "silent", "revoke": "silent"})
                asked = gateway.count(path)
                wait_until("it is asked", lambda: gateway.count(path) > asked)
                time.sleep(.2)          # libcurl by itself looks up once a second
                self.assertLess(member.leave(), CLOSE_MS)

    def test_an_end_while_one_etcd_fails(self):
        """Another one is told."""
        gateway, other = Gateway(self), Gateway(self)
        member = self.member(gateway.address.replace("/t", ",%s/t" % other.address[len("etcd://"):-2]), "a:1")
        gateway.rules["revoke"] = "silent"
        self.assertLess(member.leave(), CLOSE_MS)
        self.assertEqual((gateway.count("revoke"), other.count("revoke")), (1, 1))


class Given(ListTest):
    def test_a_list_that_is_given(self):
        member = self.member("b:1,a:1=2G", "b:1")
        self.assertEqual(member.lines[1:], [("source", "2 members given"),
                                            ("members", "a:1=%d *b:1=5" % (2 << 30)),
                                            ("trouble", ""), ("registered", "1")])
        self.assertLess(member.leave(), CLOSE_MS)

    def test_a_list_without_this_member(self):
        done = subprocess.run([PRINT, "a:1,b:1", "c:1", "5"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
                              timeout=harness.PATIENCE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("this server, 'c:1', is not among the members: add it to the list", done.stderr)


if __name__ == "__main__":
    unittest.main()

"""Keys: `tureen key`, and servers on tcp that admit clients with a key.

A client that is admitted gets what its tenant gets.  Another one (without a key, or with one that is unknown,
another server's or revoked) gets no answer at all, and other clients do not notice.  The clients here use
pyzmq alone."""
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import zmq
import zmq.utils.monitor

import harness
import plain_client
from harness import SystemTest, run, wait_until
from plain_client import Batch, Connection, ERROR, HEAD, Job, PROGRESS, PROGRESS_KIND, send_if_let

AUTH = zmq.EVENT_HANDSHAKE_FAILED_AUTH
OTHERS = 54321                          # a user and a group
SILENCE = 1.5                           # seconds, of which the server needs none


def words(path):
    """A certificate's keys by name."""
    with open(path) as file:
        lines = [line.strip().split(" = ") for line in file if " = " in line]
    return {name: value.strip('"') for name, value in lines}


def key_with_a_dash():
    """A public key as one in 85 is: it looks like an option."""
    while True:
        public = zmq.curve_keypair()[0].decode()
        if public[0] == "-" and public[1] != "-":
            return public


def key_with_two_dashes():
    """One of a few thousand, made of another key: a secret is not needed."""
    while True:
        public = "--" + zmq.curve_keypair()[0].decode()[2:]
        if "=" not in public:
            return public


class KeyTest(SystemTest):
    SAMPLES = 300

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tu-keys-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.keys = os.path.join(self.folder, "keys")
        self.said = []                  # all that `tureen key` and servers have said

    def key(self, *arguments, status=0):
        result = run("key", *arguments)
        self.said += [result.stdout, result.stderr]
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        self.assertNotIn("Sanitizer", result.stderr)
        return result.stdout if status == 0 else result.stderr

    def path(self, name):
        return os.path.join(self.folder, name)

    def make(self, name):
        """A pair of keys; the public one."""
        self.key("new", self.path(name))
        return words(self.path(name))["public-key"]

    def allow(self, name, tenant, *options, make=True):
        public = self.make(name) if make else None
        self.key("allow", self.keys, self.path(name), "--tenant", tenant, *options)
        return public

    def server(self, *tenants, **options):
        arguments = ["--keys", self.keys]
        for name in tenants:
            arguments += ["--tenant", "%s=-" % name, "--tenant-datasets", "%s=*" % name]
        options.setdefault("listen", "tcp://127.0.0.1:%d" % harness.free_port())
        return self.serve(arguments=arguments + list(options.pop("arguments", [])), **options)

    def refuse(self, what, status=1, **options):
        with self.assertRaises(AssertionError) as caught:
            with self.server(expect_clean=False, **options):
                pass
        self.assertIn(what, str(caught.exception))
        self.assertIn("(status %d)" % status, str(caught.exception))

    def server_key(self):
        return words(os.path.join(self.keys, "server"))["public-key"]

    def curve(self, name):
        pair = words(self.path(name + "_secret"))
        return tuple(text.encode() for text in (pair["public-key"], pair["secret-key"], self.server_key()))

    def job(self, server, owner, **keys):
        job = Job(server.endpoint, curve=self.curve(owner))
        self.addCleanup(job.close)
        job.join(dataset="train", batch_size=16, **keys)
        job.start()
        if job.ring_socket:
            self.addCleanup(job.ring_socket.close)
        return job

    def close_and_check(self):
        """No process has written a secret."""
        secrets = [words(os.path.join(root, name)).get("secret-key") for root, _,
                   names in os.walk(self.folder)
                   for name in names if name.endswith("_secret")]
        self.assertTrue(secrets and all(secrets))
        for text in self.said:
            for secret in secrets:
                self.assertNotIn(secret, text)


def take(job, most=None):
    """Batches of a job until an epoch's end or so many: their ids."""
    ids = []
    while most is None or most > 0:
        event = job.event()
        if not isinstance(event, Batch):
            break
        ids += event.ids
        job.consumed = job.released = event.sequence + 1
        job.send(PROGRESS_KIND, job.number, 0, PROGRESS.pack(job.consumed, job.released, 0))
        most = most and most - 1
    return ids


#   ---- the command

class Command(KeyTest):
    def test_new(self):
        public = self.make("alice")
        self.assertEqual(len(public), 40)
        for name in ("alice", "alice_secret"):
            self.assertEqual(stat.S_IMODE(os.stat(self.path(name)).st_mode), 0o600)
        pair = words(self.path("alice_secret"))
        self.assertEqual(pair["public-key"], public)
        self.assertNotIn("secret-key", words(self.path("alice")))
        with open(self.path("alice_secret")) as file:
            before = file.read()
        self.assertIn("is there already", self.key("new", self.path("alice"), status=1))
        os.unlink(self.path("alice"))
        self.assertIn("alice_secret' is there already", self.key("new", self.path("alice"), status=1))
        self.assertFalse(os.path.exists(self.path("alice")))
        with open(self.path("alice_secret")) as file:
            self.assertEqual(file.read(), before)
        self.assertIn("No such file", self.key("new", self.path("nowhere/key"), status=1))
        self.assertIn("cannot write '/proc/key_secret': No such file", self.key("new", "/proc/key", status=1))
        self.key("new", self.path(""), status=1)
        self.assertEqual(sorted(os.listdir(self.folder)), ["alice_secret"])
        self.close_and_check()

    def test_allow_list_revoke(self):
        alice = self.allow("alice", "vision")
        bob = self.allow("bob", "operator", "--operator", "--name", "bob.laptop")
        listed = json.loads(self.key("list", self.keys, "--json"))
        self.assertEqual([(key["label"], key["tenant"], key["operator"], key["key"])
                          for key in listed["keys"]],
                         [("alice", "vision", False, alice), ("bob.laptop", "operator", True, bob)])
        self.assertEqual((listed["server"], listed["bad"]), (None, []))
        self.assertRegex(listed["keys"][0]["since"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        text = self.key("list", self.keys)
        for word in ("alice", "bob.laptop", "vision", alice, "no key yet"):
            self.assertIn(word, text)
        self.assertEqual(stat.S_IMODE(os.stat(self.keys).st_mode), 0o700)

        self.assertIn("already", self.key("allow", self.keys, self.path("alice"), "--tenant", "x", status=1))
        self.assertIn("let in already, as 'alice'", self.key("allow", self.keys, self.path("alice"),
                                                             "--tenant", "x", "--name", "again", status=1))
        self.assertIn("secret key", self.key("allow", self.keys, self.path("alice_secret"), "--tenant", "x",
                                             status=1))
        carol = key_with_a_dash()
        self.assertIn("--name", self.key("allow", self.keys, carol, "--tenant", "x", status=2))
        self.key("allow", self.keys, carol, "--tenant", "x", "--name", "carol")
        dan = key_with_two_dashes()
        self.key("allow", self.keys, dan, "--tenant", "x", "--name", "dan")
        self.key("revoke", self.keys, dan)

        self.assertIn("no key 'dave'", self.key("revoke", self.keys, "dave", status=1))
        self.assertIn("no key", self.key("revoke", self.keys, "../server", status=1))
        self.key("revoke", self.keys, "alice")
        self.key("revoke", self.keys, bob)
        self.assertEqual([key["label"] for key in json.loads(self.key("list", self.keys, "--json"))["keys"]],
                         ["carol"])
        with open(os.path.join(self.keys, "allowed", "odd"), "w") as file:
            file.write("curve\n    public-key = \"x\"\n")
        os.chmod(file.name, 0o600)
        self.assertIn("odd admits no client", self.key("list", self.keys))
        self.assertEqual(json.loads(self.key("list", self.keys, "--json"))["bad"][0]["file"], "odd")
        #  Two files that say different things of a key: neither holds, and revoking it takes both.
        self.key("allow", self.keys, bob, "--tenant", "y", "--name", "bob")
        with open(os.path.join(self.keys, "allowed", "bob")) as file, open(file.name + "2", "w") as other:
            other.write(file.read().replace('"y"', '"z"'))
        os.chmod(other.name, 0o600)
        listed = json.loads(self.key("list", self.keys, "--json"))
        self.assertEqual([key["label"] for key in listed["keys"]], ["carol"])
        self.assertEqual([bad["file"] for bad in listed["bad"]], ["bob", "bob2", "odd"])
        self.assertIn("another file says something else", listed["bad"][0]["reason"])
        self.key("revoke", self.keys, bob)
        os.mkdir(os.path.join(self.keys, "allowed", "made"))
        self.assertIn("/allowed/made': Is a directory", self.key("revoke", self.keys, "made", status=1))
        os.rmdir(os.path.join(self.keys, "allowed", "made"))
        self.assertEqual(sorted(os.listdir(os.path.join(self.keys, "allowed"))), ["carol", "odd"])
        self.close_and_check()

    def test_what_is_wrong_is_said(self):
        for arguments in ([], ["make"], ["new"], ["new", "a", "b"], ["allow", "a"], ["allow", "a", "b"],
                          ["list"], ["revoke", "a"],
                          ["allow", "a", "b", "--tenant"], ["allow", "a", "b", "--tenant", "a b"],
                          ["new", "x", "--operator"],
                          ["revoke", "a", "b", "--json"], ["--what"], ["new", "a", "b", "c"]):
            self.assertIn("tureen key: ", self.key(*arguments, status=2))
        self.assertIn("Usage", self.key("--help"))
        self.key("new", self.path("alice"))
        os.mkdir(self.keys, 0o777)
        os.chmod(self.keys, 0o777)
        self.assertIn("chmod 700", self.key("allow", self.keys, self.path("alice"), "--tenant", "x",
                                            status=1))
        os.chmod(self.keys, 0o700)
        self.assertIn("no folder 'allowed'", self.key("list", self.keys, status=1))
        self.assertIn("no folder", self.key("list", self.path("nowhere"), status=1))
        self.assertIn("No such file", self.key("allow", self.keys, self.path("none"), "--tenant", "x",
                                                status=1))
        with open(self.path("text"), "w") as file:
            file.write("hello\n")
        self.assertIn("give the public file", self.key("allow", self.keys, self.path("text"), "--tenant", "x",
                                                       status=1))
        self.assertEqual(os.listdir(self.keys), [])

    @unittest.skipIf(os.geteuid(), "only root works on others' folders")
    def test_root_works_on_the_folder_of_the_servers_user(self):
        os.mkdir(self.keys, 0o700)
        os.chown(self.keys, 65534, 65534)
        self.allow("alice", "vision")
        for path in ("allowed", "allowed/alice"):
            self.assertEqual(os.stat(os.path.join(self.keys, path)).st_uid, 65534)


#   ---- starting

class Starts(KeyTest):
    def test_what_is_refused(self):
        self.refuse("keys", listen="ipc://%s/s.sock" % self.folder)
        with self.server() as server:
            self.said.append(server.log())
        os.chmod(os.path.join(self.keys, "server_secret"), 0o644)
        self.refuse("chmod 600")
        os.chmod(os.path.join(self.keys, "server_secret"), 0o600)
        os.chmod(self.keys, 0o770)
        self.refuse("chmod 700")
        os.chmod(self.keys, 0o700)
        os.unlink(os.path.join(self.keys, "server_secret"))
        self.refuse("put it back")

    def test_the_log_says_how_to_come_in(self):
        self.allow("alice", "speech")
        with self.server("vision") as server:
            for text in (self.server_key(), "TUREEN_SERVER_KEY", "TUREEN_KEY", "tureen key allow",
                         "no tenant 'speech'"):
                self.assertIn(text, server.log())
            self.assertEqual(self.key("list", self.keys).count(self.server_key()), 1)
            self.said.append(server.log())
        self.close_and_check()


#   ---- the clients that are admitted

class Identity(KeyTest):
    def monitored(self, server, curve=None):
        """A DEALER that asks for status; its monitor."""
        dealer = zmq.Context.instance().socket(zmq.DEALER)
        dealer.setsockopt(zmq.LINGER, 0)
        dealer.setsockopt(zmq.RECONNECT_IVL, -1)        # once
        if curve:
            dealer.curve_publickey, dealer.curve_secretkey, dealer.curve_serverkey = curve
        monitor = dealer.get_monitor_socket()
        for close in (dealer.close, monitor.close, dealer.disable_monitor):
            self.addCleanup(close)
        dealer.connect(server.endpoint)
        send_if_let(dealer, HEAD.pack(b"TURN", 1, plain_client.STATUS, 0, 0, 1), b"{}")
        return dealer, monitor

    def assert_refused(self, server, curve, events):
        """It gets no word; what it sees is one of the events."""
        dealer, monitor = self.monitored(server, curve)
        seen = set()
        def look():
            while monitor.poll(0):
                seen.add(zmq.utils.monitor.recv_monitor_message(monitor)["event"])
            return seen & events
        wait_until("the handshake fails", look)
        self.assertFalse(dealer.poll(int(SILENCE * 200)))
        self.assertNotIn(zmq.EVENT_HANDSHAKE_SUCCEEDED, seen)

    def test_admitted_and_refused_clients(self):
        self.allow("alice", "vision")
        self.allow("carol", "speech")
        self.make("mallory")
        with self.server("vision") as server:
            job = self.job(server, "alice", epochs=2)
            first = take(job)
            self.assertEqual(sorted(first), list(range(self.SAMPLES)))
            #  Not let in; let in as of a tenant that there is not; the right key for another server; none at
            #  all.
            self.assert_refused(server, self.curve("mallory"), {AUTH})
            wait_until("the log says which key was refused", lambda: words(self.path("mallory"))["public-key"]
                       in server.log())
            self.assert_refused(server, self.curve("carol"), {AUTH})
            stranger = zmq.curve_keypair()[0]
            disconnected = {zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL, zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL,
                            zmq.EVENT_DISCONNECTED}
            self.assert_refused(server, self.curve("alice")[:2] + (stranger,), disconnected)
            self.assert_refused(server, None, disconnected)
            #  And the client that was admitted goes on.
            self.assertEqual(sorted(take(job)), list(range(self.SAMPLES)))
            self.said.append(server.log())
        self.close_and_check()

    def test_a_key_is_good_for_its_server_alone(self):
        self.allow("alice", "vision")
        with self.server("vision") as server:
            self.keys, mine = self.path("other"), self.keys
            with self.server("vision") as stranger:
                self.assert_refused(stranger, self.curve("alice"), {AUTH})
            self.keys = mine
            connection = Connection(server.endpoint, curve=self.curve("alice"))
            self.assertEqual(connection.status()["jobs"], [])
            connection.close()

    def test_an_operator_sees_all_and_others_their_own(self):
        self.allow("alice", "vision")
        self.allow("bob", "speech")
        self.allow("root", "operator", "--operator")
        with self.server("vision", "speech") as server:
            self.job(server, "alice", name="hers")
            self.job(server, "bob", name="his")
            for name, jobs in (("alice", ["hers"]), ("bob", ["his"]), ("root", ["hers", "his"])):
                connection = Connection(server.endpoint, curve=self.curve(name))
                text = json.dumps(connection.status())
                self.assertEqual(sorted(job["name"] for job in json.loads(text)["jobs"]), jobs)
                #  Only a user that sees all sees how many came.
                self.assertEqual("handshakes" in json.loads(text), name == "root")
                if name == "root":
                    self.assertGreaterEqual(json.loads(text)["handshakes"]["let_in"], 5)
                self.said.append(text)
                connection.close()
        self.close_and_check()

    def test_the_server_keeps_its_key(self):
        self.allow("alice", "vision")
        with self.server("vision") as server:
            key = self.server_key()
            connection = Connection(server.endpoint, curve=self.curve("alice"))
            self.addCleanup(connection.close)
            connection.status()
            server.stop()
            server.start()
            self.assertEqual(self.server_key(), key)
            #  The same socket comes back by itself.
            self.assertEqual(connection.status()["jobs"], [])


#   ---- users of this machine beside keys

class UsersToo(KeyTest):
    """A server that listens on ipc for users and on tcp for keys."""
    def endpoints(self):
        return "ipc://%s/s.sock" % self.folder, "tcp://127.0.0.1:%d" % harness.free_port()

    def test_users_and_keys_share_a_server(self):
        alice = self.allow("alice", "vision")
        self.make("mallory")
        ipc, tcp = self.endpoints()
        with self.server("vision", listen="%s,%s" % (ipc, tcp)) as server:
            self.assertIn("listening on %s\nlistening on %s\n" % (ipc, tcp), server.log())
            local = Job(ipc)
            self.addCleanup(local.close)
            local.join(dataset="train", batch_size=16, epochs=3, name="mine")
            local.start()
            self.addCleanup(local.ring_socket.close)
            server.endpoint = tcp
            remote = self.job(server, "alice", epochs=3, name="hers")
            self.assertIsNotNone(remote.ring_socket)        # both through shared memory
            for job in (local, remote, local):
                self.assertEqual(sorted(take(job)), list(range(self.SAMPLES)))
            #  Each sees its own; this user, as the operator, all.
            for connection, names in ((Connection(ipc), ["hers", "mine"]),
                                      (Connection(tcp, curve=self.curve("alice")), ["hers"])):
                self.assertEqual(sorted(job["name"] for job in connection.status()["jobs"]), names)
                connection.close()
            for curve in (self.curve("mallory"), None):
                stranger = Connection(tcp, timeout=SILENCE, curve=curve)
                with self.assertRaises(plain_client.NoAnswer):
                    stranger.status()
                stranger.close()
            self.assertNotIn(alice, server.log())
            self.key("revoke", self.keys, "alice")
            wait_until("her job ends", lambda: self.ended(remote))
            self.assertEqual(sorted(take(local)), list(range(self.SAMPLES)))
            self.said.append(server.log())
        self.close_and_check()

    def ended(self, job):
        event = job.event(0.05)
        return isinstance(event, plain_client.Ended) and event.reason == "revoked"

    @unittest.skipUnless(os.geteuid() == 0, "takes root, to be another user")
    def test_a_user_with_no_tenant_is_none_with_a_key(self):
        """Of a tenant's users one on ipc is served, and another not, which has no key there to show."""
        programs = self.copy_for_other_users()
        ipc, tcp = self.endpoints()
        os.chown(self.folder, 0, OTHERS)
        os.chmod(self.folder, 0o750)
        with self.serve(listen="%s,%s" % (ipc, tcp), arguments=[
                "--keys", self.keys, "--group", str(OTHERS), "--tenant", "vision=%d" % OTHERS,
                "--tenant-datasets", "vision=train"]):
            script = ("import sys; sys.path.insert(0, sys.argv[2]); from plain_client import Connection; "
                      "print(len(Connection(sys.argv[1], timeout=5).status()['datasets']))")
            for user, status in ((OTHERS, 0), (OTHERS + 1, 1)):
                ran = subprocess.run([sys.executable, "-B", "-c", script, ipc, programs], user=user,
                                     group=OTHERS, extra_groups=[], capture_output=True, text=True, cwd="/")
                self.assertEqual(ran.returncode, status, ran.stderr)

    def test_what_is_refused(self):
        ipc, tcp = self.endpoints()
        for listen in ("%s,%s" % (ipc, ipc), "%s,%s,%s" % (tcp, ipc, tcp)):
            self.refuse("one ipc and one tcp endpoint at most", listen=listen)
        with self.server(listen="%s,%s" % (tcp, ipc)):
            #  Either endpoint is this server's alone.
            other_ipc, other_tcp = "ipc://%s/t.sock" % self.folder, "tcp://127.0.0.1:%d" % harness.free_port()
            self.refuse("listens at '%s'" % ipc, listen="%s,%s" % (other_tcp, ipc), status=3)
            self.refuse("cannot listen on %s" % tcp, listen="%s,%s" % (other_ipc, tcp), status=3)
            self.assertFalse(os.path.exists(other_ipc[len("ipc://"):]))
            connection = Connection(ipc)
            self.assertEqual(connection.status()["jobs"], [])
            connection.close()


#   ---- revoking

class Revoking(KeyTest):
    def silent(self, connection, seconds=SILENCE):
        """What comes until nothing does for so long: kinds, and codes of errors."""
        seen = []
        while True:
            message = connection.receive(seconds)
            if message is None:
                return seen
            seen.append(json.loads(message.frames[0].decode())["error"] if message.kind == ERROR
                        else message.kind)

    def test_jobs_end_at_once_and_others_do_not_notice(self):
        self.allow("alice", "vision")
        self.allow("bob", "vision")
        self.allow("carol", "speech")
        with self.server("vision", "speech") as server:
            hers, his, third = (self.job(server, name, epochs=3) for name in ("alice", "bob", "carol"))
            hers_too = self.job(server, "alice", epochs=3)
            taken = [take(job, 3) for job in (his, third)]
            take(hers, 3)
            began = time.monotonic()
            self.key("revoke", self.keys, "alice")
            for job in (hers, hers_too):
                event = wait_until("the job ends", lambda: self.last(job))
                self.assertEqual(event.reason, "revoked")
            print("the jobs ended %.2f s after the key was revoked" % (time.monotonic() - began), flush=True)
            self.assertIn("the key 'alice' of tenant 'vision' is revoked", server.log())
            #  On the open connection she hears of it, and nothing else.
            self.silent(hers)
            for kind in (plain_client.STATUS, plain_client.JOIN):
                hers.send(kind, 0, 7, json.dumps({"dataset": "train", "batch_size": 4}).encode()
                          if kind == plain_client.JOIN
                          else b"{}")
                message = hers.receive(harness.PATIENCE)
                self.assertEqual(json.loads(message.frames[0].decode())["error"], "revoked")
                self.assertEqual(self.silent(hers), [])
            hers.send(plain_client.LEAVE, hers.number)
            hers.send(PROGRESS_KIND, hers.number, 0, PROGRESS.pack(1, 1, 0))
            self.assertLessEqual(set(self.silent(hers)), {"revoked"})
            #  The others' epochs are whole: each has three.
            for job, ids in zip((his, third), taken):
                self.assertEqual(sorted(ids + take(job)), list(range(self.SAMPLES)))
                for _ in range(2):
                    self.assertEqual(sorted(take(job)), list(range(self.SAMPLES)))
            #  Let in again, she is; also on the connection that was open.
            self.allow("alice", "vision", make=False)
            wait_until("the key is let in", lambda: server.log().count("the key 'alice' is let in") == 2)
            hers.join(dataset="train", batch_size=16, epochs=1)
            hers.start()
            self.assertEqual(sorted(take(hers)), list(range(self.SAMPLES)))
            self.said.append(server.log())
        self.close_and_check()

    def last(self, job):
        """ENDED, if it has come."""
        event = job.event(0.05)
        return event if isinstance(event, plain_client.Ended) else None

    def test_moved_to_another_tenant(self):
        self.allow("alice", "vision")
        with self.server("vision", "speech") as server:
            job = self.job(server, "alice", epochs=3)
            take(job, 2)
            path = os.path.join(self.keys, "allowed", "alice")
            with open(path) as file:
                text = file.read()
            with open(path + ".new", "w") as file:
                file.write(text.replace("vision", "speech"))
            os.chmod(path + ".new", 0o600)
            os.rename(path + ".new", path)
            self.assertEqual(wait_until("the job ends", lambda: self.last(job)).reason, "revoked")
            job.join(dataset="train", batch_size=16, epochs=1)
            job.start()
            self.assertEqual(sorted(take(job)), list(range(self.SAMPLES)))

    def test_ranks_that_gather(self):
        """A job that is not there yet is forgotten, and its name is free."""
        self.allow("alice", "vision")
        self.allow("bob", "vision")
        with self.server("vision") as server:
            ranks = [Job(server.endpoint, curve=self.curve("alice")) for _ in range(2)]
            for number, rank in enumerate(ranks):
                self.addCleanup(rank.close)
                rank.ask_join(dataset="train", batch_size=16, job="both", world_size=3, gather=60, epochs=1,
                              rank=number)
            wait_until("both wait", lambda: "2 of 3 are here" in server.log())
            self.key("revoke", self.keys, "alice")
            for rank in ranks:
                wait_until("it is told", lambda: "revoked" in self.silent(rank, 0.1))
            other = self.job(server, "bob", job="both", epochs=1)
            self.assertEqual(sorted(take(other)), list(range(self.SAMPLES)))


#   ---- peers that shake no hands

class WrongHandshakes(KeyTest):
    def test_a_flood_of_wrong_handshakes(self):
        self.allow("alice", "vision")
        self.make("mallory")
        with self.server("vision") as server:
            job = self.job(server, "alice", epochs=2)
            mallory, over = self.curve("mallory"), threading.Event()
            counts = {"garbage": 0, "handshakes": 0}

            def garbage():
                host, port = server.endpoint[len("tcp://"):].split(":")
                held = []
                while not over.is_set():
                    try:
                        peer = socket.create_connection((host, int(port)), 5)
                        #  A ZMTP 3.0 greeting by CURVE and then nothing, half of one, or noise.
                        greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00CURVE" + bytes(47)
                        peer.sendall([greeting, greeting[:20], os.urandom(200)][counts["garbage"] % 3])
                        held.append(peer)
                        if len(held) > 50:
                            held.pop(0).close()
                    except OSError:
                        pass
                    counts["garbage"] += 1
                    time.sleep(0.002)
                for peer in held:
                    peer.close()

            def handshakes():
                context = zmq.Context()
                while not over.is_set():
                    dealer = context.socket(zmq.DEALER)
                    dealer.setsockopt(zmq.LINGER, 0)
                    dealer.curve_publickey, dealer.curve_secretkey, dealer.curve_serverkey = mallory
                    dealer.connect(server.endpoint)
                    send_if_let(dealer, b"x")
                    time.sleep(0.005)
                    dealer.close()
                    counts["handshakes"] += 1
                context.term()

            threads = [threading.Thread(target=target) for target in (garbage, handshakes)]
            for thread in threads:
                thread.start()
            try:
                for _ in range(2):
                    self.assertEqual(sorted(take(job)), list(range(self.SAMPLES)))
                wait_until("some were there", lambda: counts["garbage"] > 100 and counts["handshakes"] > 50)
            finally:
                over.set()
                for thread in threads:
                    thread.join()
            lines = [line for line in server.log().splitlines() if "key_refused" in line
                     or "not let in" in line]
            self.assertTrue(lines)
            self.assertLess(len(lines), counts["handshakes"])
            other = self.job(server, "alice", epochs=1)
            self.assertEqual(sorted(take(other)), list(range(self.SAMPLES)))


if __name__ == "__main__":
    unittest.main(verbosity=2)

"""Several users of one machine at one server: each gets its own data and nothing of others', a stranger
nothing at all.

The server runs without privileges, as a user of its own; clients are processes of other users in the group
that may reach the socket.  That takes root (setpriv): without it these tests are skipped, which is said.
"""
import json
import os
import shutil
import socket
import stat
import subprocess
import unittest

import harness
import plain_client
from harness import PATIENCE, Server, SystemTest, wait_until

PYTHON = "/usr/bin/python3"
#  Users and a group that no other process has, not even a test beside this one
BASE = 61000 + 20 * (os.getpid() % 200)
SERVER, ALICE, ANNE, BOB, MALLORY, OUTSIDER = range(BASE, BASE + 6)
GROUP = BASE + 10

if os.geteuid() != 0:
    print("=" * 78 + "\nSKIPPED, nothing was tested: several users need root\n" + "=" * 78, flush=True)
    raise SystemExit(harness.SKIP)

#  What a user does, by plain_client; the answer is one line of JSON a step.
PREFIX = """
import json, os, sys, time
sys.path.insert(0, {here!r})
import plain_client
from plain_client import *
endpoint = {endpoint!r}
def say(**values):
    print(json.dumps(values), flush=True)
def hear():
    return sys.stdin.readline().strip()
"""


class User:
    """Commands of another user."""

    def __init__(self, case, uid, in_group=True):
        self.case, self.uid = case, uid
        self.prefix = ["setpriv", "--reuid=%d" % uid, "--regid=%d" % uid]
        self.prefix += ["--groups=%d" % GROUP] if in_group else ["--clear-groups"]

    def tureen(self, *arguments, seconds=PATIENCE):
        return subprocess.run([*self.prefix, self.case.tureen, *map(str, arguments)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True, timeout=seconds)

    def status(self):
        result = self.tureen("status", "--json", "--connect", self.case.endpoint)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    def read(self, dataset, **options):
        """One job to its end: {epoch: ids}."""
        path = os.path.join(self.case.out, "ids-%d-%d" % (self.uid, len(os.listdir(self.case.out))))
        command = ["read", "--connect", self.case.endpoint, "--dataset", dataset, "--ids", path]
        for key, value in options.items():
            command += ["--" + key, value]
        result = self.tureen(*command)
        assert result.returncode == 0, result.stderr
        finished, unfinished = harness.parse_ids(path)
        assert not unfinished
        return finished

    def script(self, text):
        """A process that runs it; its lines come by hear ()."""
        process = subprocess.Popen([*self.prefix, PYTHON, "-B", "-u", "-c", PREFIX.format(
            here=self.case.programs, endpoint=self.case.endpoint) + text], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            universal_newlines=True)
        self.case.processes.append(process)
        return process


def hear(process):
    line = process.stdout.readline()
    assert line, "a client ended with status %s" % process.wait()
    return json.loads(line)


def tell(process, text=""):
    process.stdin.write(text + "\n")
    process.stdin.flush()


class Tenants(SystemTest):
    SAMPLES = 60

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.secret = os.path.join(cls.root, "secret")
        harness.make_folder(cls.secret, 40, seed=3)
        cls.programs = cls.copy_for_other_users()
        cls.tureen = os.path.join(cls.programs, "tureen")
        cls.out = os.path.join(cls.root, "out")
        os.mkdir(cls.out)
        os.chmod(cls.out, 0o1777)

    def setUp(self):
        self.processes = []
        self.sockets = os.path.join(self.root, "sockets")
        os.mkdir(self.sockets, 0o750)
        os.chown(self.sockets, SERVER, GROUP)
        os.chmod(self.sockets, 0o750)
        self.endpoint = "ipc://%s/s.sock" % self.sockets
        self.operator, self.alice, self.anne, self.bob, self.mallory = (
            User(self, uid) for uid in (SERVER, ALICE, ANNE, BOB, MALLORY))
        self.outsider = User(self, OUTSIDER, in_group=False)

    def tearDown(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
        left = os.listdir(self.sockets)
        shutil.rmtree(self.sockets)
        self.assertEqual(left, [])

    TENANTS = ("--tenant", "vision=%d,%d" % (ALICE, ANNE), "--tenant", "text=%d" % BOB, "--tenant-datasets",
               "vision=train", "--tenant-datasets", "text=secret")

    def serve(self, *arguments, wrapper=(), **options):
        """The server, as a user without privileges."""
        server = Server({"train": self.data, "secret": self.secret}, listen=self.endpoint,
                        arguments=["--group", str(GROUP), *(arguments or self.TENANTS)],
                        wrapper=[*wrapper, "setpriv", "--reuid=%d" % SERVER, "--regid=%d" % SERVER,
                                 "--groups=%d" % GROUP, "env", "TUREEN=%s" % self.tureen, "sh", "-c",
                                 'shift; exec "$TUREEN" "$@"', "sh"], **options)
        os.chmod(server.folder, 0o755)
        os.chown(server.runtime, SERVER, SERVER)
        return server

    def refused(self, user, dataset):
        result = user.tureen("read", "--connect", self.endpoint, "--dataset", dataset, "--epochs", 1)
        self.assertEqual(result.returncode, 1)
        return result.stderr

    def is_answered(self, user, seconds=1.5):
        client = user.script("""
connection = Connection(endpoint)
connection.send(STATUS, 0, 1, b"{}")
say(answered=connection.receive(%s) is not None)
""" % seconds)
        return hear(client)["answered"]

    def test_sockets_are_the_groups_alone(self):
        with self.serve():
            for name, mode in (("", 0o750), ("s.sock", 0o660), ("s.sock.ring", 0o660)):
                found = os.stat(os.path.join(self.sockets, name))
                self.assertEqual((found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)),
                                 (SERVER, GROUP, mode), name)
            self.assertEqual(stat.S_IMODE(os.stat(self.sockets + "/s.sock.lock").st_mode), 0o600)

    def test_each_gets_its_own_data(self):
        with self.serve():
            for user, dataset, samples in ((self.alice, "train", 60), (self.anne, "train", 60),
                                           (self.bob, "secret", 40),
                                           (self.operator, "train", 60), (self.operator, "secret", 40)):
                with self.subTest(user=user.uid, dataset=dataset):
                    epochs = user.read(dataset, batch=8, epochs=2)
                    self.assertEqual([sorted(epochs[number]) for number in sorted(epochs)],
                                     [list(range(samples))] * 2)
            #  What is another's is as if it were not there: in the same words.
            for user, others, own in ((self.alice, "secret", "train"), (self.bob, "train", "secret")):
                text = self.refused(user, others)
                self.assertEqual(text, self.refused(user, "zzz").replace("zzz", others))
                self.assertIn("this server has: %s " % own, text)
            self.assertIn("secret, train", self.refused(self.operator, "zzz").replace("train, secret",
                "secret, train"))

    def test_strangers_get_nothing(self):
        with self.serve() as server:
            #  In the group, and of no tenant: the socket takes what it says, and no answer comes.
            client = self.mallory.script("""
connection = Connection(endpoint, 2)
for kind in (STATUS, JOIN, HEARTBEAT, EXPLAIN, LEAVE, 8, 9, 77):
    connection.send(kind, 1, kind, b'{"dataset": "train", "batch_size": 8}')
connection.send_raw([b"nonsense"])
say(answer=connection.receive(2) is not None)
""")
            self.assertEqual(hear(client), {"answer": False})
            #  Not in the group: not even a connection.
            client = self.outsider.script("""
import socket
outcomes = []
for name in (endpoint[len("ipc://"):], endpoint[len("ipc://"):] + ".ring"):
    probe = socket.socket(socket.AF_UNIX)
    try:
        probe.connect(name)
        outcomes.append("connected")
    except PermissionError:
        outcomes.append("closed")
say(outcomes=outcomes)
""")
            self.assertEqual(hear(client), {"outcomes": ["closed", "closed"]})
            self.assertEqual(server.process.poll(), None)
            self.assertEqual(self.operator.status()["jobs_total"], 0)

    JOB = """
job = Job(endpoint)
joined = job.join(dataset={dataset!r}, batch_size=8, name={name!r}, job={name!r})
job.start()
say(job=str(joined["job"]), ring=joined["ring"])
say(batch=job.event().count)
hear()
say(left=job.leave().reason)
"""

    def join(self, user, dataset, name):
        process = user.script(self.JOB.format(dataset=dataset, name=name))
        answer = hear(process)
        hear(process)
        return process, answer

    def test_status_shows_each_its_own(self):
        with self.serve():
            vision, first = self.join(self.alice, "train", "the vision job")
            text, second = self.join(self.bob, "secret", "the text job")
            self.assertNotEqual(int(first["job"]) >> 32, int(second["job"]) >> 32)
            seen = {user.uid: user.status() for user in (self.alice, self.anne, self.bob, self.operator)}
            for uid, dataset, job in ((ALICE, "train", "the vision job"), (ANNE, "train", "the vision job"),
                                      (BOB, "secret", "the text job")):
                self.assertEqual([item["name"] for item in seen[uid]["datasets"]], [dataset])
                self.assertEqual([item["name"] for item in seen[uid]["jobs"]], [job])
            for uid, foreign in ((ALICE, ("secret", "text")), (ANNE, ("secret", "text")),
                                 (BOB, ("train", "vision"))):
                page = json.dumps(seen[uid])
                for word in foreign:
                    self.assertNotIn(word, page.replace("context", ""))
            self.assertEqual(sorted(item["name"] for item in seen[SERVER]["datasets"]), ["secret", "train"])
            self.assertEqual(sorted(item["name"] for item in seen[SERVER]["jobs"]),
                             ["the text job", "the vision job"])
            self.assertEqual(sorted(item["name"] for item in seen[SERVER]["tenants"]),
                             ["operator", "text", "vision"])
            for process in (vision, text):
                tell(process)
                self.assertEqual(hear(process), {"left": "left"})

    def test_a_stolen_token_opens_nothing(self):
        #  Bob has the token before Alice uses it, and is expected by the ring server with one of his own.
        with self.serve():
            alice = self.alice.script("""
job = Job(endpoint)
ring = job.join(dataset="train", batch_size=8, epochs=1)["ring"]
say(ring=ring)
hear()
job.start()
epochs = job.run()
say(epochs=epochs)
job.leave()
""")
            ring = hear(alice)["ring"]
            bob = self.bob.script("""
job = Job(endpoint)
job.join(dataset="secret", batch_size=8, epochs=1)
ring_socket, descriptor = job.open_ring({token!r})
say(stolen=descriptor is not None)
job.start()
say(samples=len(job.run()[0]))
job.leave()
""".format(token=ring["token"]))
            self.assertEqual(hear(bob), {"stolen": False})
            self.assertEqual(hear(bob), {"samples": 40})
            tell(alice)
            epochs = hear(alice)["epochs"]
            self.assertEqual(sorted(epochs["0"]), list(range(60)))

    #  As many connections as the server and the system let it have, again and again; and one that goes on
    #  asking.
    CROWD = """
import resource, socket
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
path, held, made = endpoint[len("ipc://"):], [], 0
end = time.monotonic() + {seconds}
say(begun=True)
while time.monotonic() < end:
    try:
        one = socket.socket(socket.AF_UNIX)
        one.setblocking(False)
        one.connect(path)
        held.append(one)
        made += 1
    except OSError:
        one.close()
        time.sleep(0.001)
    if len(held) > min(3000, most - 100):
        for old in held[:1000]:
            old.close()
        del held[:1000]
say(made=made)
"""

    def test_many_connections_harm_no_other_user(self):
        #  Few descriptors, so that connections fill the table before the server looks: libzmq would abort.
        with self.serve(wrapper=["prlimit", "--nofile=512:512"]) as server:
            quiet = len(os.listdir("/proc/%d/fd" % server.pid))
            theirs, _ = self.join(self.bob, "secret", "of the same user")
            crowds = [user.script(self.CROWD.format(seconds=3)) for user in (self.bob, self.mallory)]
            for crowd in crowds:
                hear(crowd)
            epochs = self.alice.read("train", batch=8, epochs=20)
            self.assertEqual([sorted(ids) for ids in epochs.values()], [list(range(60))] * 20)
            self.assertGreater(sum(hear(crowd)["made"] for crowd in crowds), 512)
            for crowd in crowds:
                crowd.wait()
            #  His job was there before: its connection is none of the youngest.
            tell(theirs)
            self.assertEqual(hear(theirs), {"left": "left"})
            self.assertIsNone(server.process.poll())
            wait_until("descriptors come back", lambda: len(os.listdir("/proc/%d/fd" % server.pid)) <= quiet
                       + 2)
            self.assertIn(" crowd ", server.log())
            self.assertEqual(sorted(self.alice.read("train", batch=8, epochs=1)[0]), list(range(60)))

    def test_open_to_the_group(self):
        with self.serve("--open"):
            self.assertEqual(sorted(self.mallory.read("secret", batch=8, epochs=1)[0]), list(range(40)))
            self.assertTrue(self.is_answered(self.mallory, harness.PATIENCE))
            self.assertFalse(self.is_answered(self.outsider))

    def test_alone_no_other_user_is_served(self):
        #  Even where they can reach the socket: it was opened by hand.
        server = Server({"train": self.data}, listen=self.endpoint)
        os.chown(self.sockets, 0, 0)
        with server:
            for name in ("s.sock", "s.sock.ring"):
                os.chmod(os.path.join(self.sockets, name), 0o666)
            os.chmod(self.sockets, 0o755)
            self.assertFalse(self.is_answered(self.mallory))
            self.assertEqual(server.status()["jobs_total"], 0)

    def test_settings_that_are_odd_are_said(self):
        with self.serve("--tenant", "vision=%d" % ALICE, "--tenant", "keyed=-") as server:
            self.assertIn("tenant 'vision' may use no data set", server.log())
            self.assertIn("tenant-datasets vision=NAME", server.log())
            self.assertIn("tenant 'keyed' has no users", server.log())
            self.assertIn("no data set", self.refused(self.alice, "train"))


if __name__ == "__main__":
    unittest.main()

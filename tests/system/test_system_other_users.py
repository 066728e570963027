"""What another user of the machine puts where this user's server, state or output is looked for: a server in
the default folder, a link, a socket in /tmp, a ring's socket, a lock file; an output folder, a state, a file
of rows.

The other user's server is a real one, and serves all users.  Clients are processes of the
victim.  Of both they are refused: nothing is believed, sent or written.  That takes root, to be two users:
without it these tests are skipped, which is said."""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

import harness
from harness import PATIENCE, SystemTest, wait_until

PYTHON = "/usr/bin/python3"
#  Users that no other process has, not even a test beside this one
VICTIM = 45000 + 2 * (os.getpid() % 5000)
OTHER = VICTIM + 1
REFUSAL = "belongs to user %d, and every user that may write to '/tmp' could have made it" % OTHER

if os.geteuid() != 0:
    print("=" * 78 + "\nSKIPPED, nothing was tested: two users need root\n" + "=" * 78, flush=True)
    raise SystemExit(harness.SKIP)

#  What a Python client does at an endpoint (none: the default one); a line of JSON.
CLIENT = """
import json, sys, tureen
endpoint, what, *rest = sys.argv[1:]
endpoint = endpoint or None
try:
    if what == "loader":
        with tureen.Loader(endpoint, dataset="train", batch_size=16, epochs=1, pipeline="eval",
                           timeout=float(rest[0])) as loader:
            for batch in loader:
                pass
        said = {"samples": loader.stats()["samples"], "ring": loader.joined.ring is not None}
    elif what == "status":
        said = {"samples": tureen.status(endpoint)["datasets"][0]["samples"]}
    elif what == "dataset":
        said = {"samples": len(tureen.DataSet("train", endpoint=endpoint))}
    else:
        said = {"server": tureen.serve(train=rest[0], endpoint=endpoint, timeout=20).endpoint}
except Exception as error:
    said = {"error": type(error).__name__, "message": str(error)}
print(json.dumps(said))
"""
#  A user that listens at a socket that was bound for it, and says what came.
LISTENER = """
import os, socket, sys
listener = socket.socket(fileno=int(sys.argv[1]))
os.setuid(int(sys.argv[2]))
listener.listen()
print("listens", flush=True)
kept = []
while True:
    kept.append(listener.accept()[0])
    print(len(kept[-1].recv(64)), flush=True)
"""


def as_user(user):
    return ["setpriv", "--reuid=%d" % user, "--regid=%d" % user, "--clear-groups"]


class OtherUsers(SystemTest):
    SAMPLES = 48

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.programs = cls.copy_for_other_users()
        cls.tureen = os.path.join(cls.programs, "tureen")
        binaries = os.path.dirname(harness.TUREEN)
        for name in ("tureen_example", "libtureen.so.0"):
            found = next((path for folder in (binaries, os.path.dirname(binaries))
                          for path in sorted(pathlib.Path(folder).rglob(name))), None)
            if found:
                os.chmod(shutil.copy(found, cls.programs), 0o755)
        shutil.copytree(os.path.join(harness.SOURCE, "clients", "python", "tureen"),
                        os.path.join(cls.programs, "tureen_python", "tureen"),
                        ignore=shutil.ignore_patterns("__pycache__"))
        subprocess.run(["chmod", "-R", "a+rX", cls.root], check=True)

    def setUp(self):
        self.default = "/tmp/tureen-%d" % VICTIM
        self.processes = []
        self.place = tempfile.mkdtemp(prefix="tu-", dir="/tmp")      # as /tmp: all may write
        os.chmod(self.place, 0o1777)

    def tearDown(self):
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:   # the others and the folders must not stay
                process.kill()
                process.wait()
        for path in (self.default, self.place):
            if os.path.islink(path):
                os.unlink(path)
            shutil.rmtree(path, ignore_errors=True)

    #   ---- users

    def environment(self):
        kept = {key: value for key, value in os.environ.items()
                if key not in ("XDG_RUNTIME_DIR", "TUREEN_ENDPOINT")}
        return dict(kept, PYTHONPATH=os.path.join(self.programs, "tureen_python"), TUREEN_SERVER=self.tureen,
                    PYTHONDONTWRITEBYTECODE="1", LD_LIBRARY_PATH=self.programs, TMPDIR=self.place)

    def run_as(self, user, *command):
        return subprocess.run([*as_user(user), *map(str, command)], env=self.environment(), cwd="/",
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=4 * PATIENCE)

    def start_as(self, user, *command, **options):
        process = subprocess.Popen([*as_user(user), *map(str, command)], env=self.environment(), cwd="/",
                                   text=True, **options)
        self.processes.append(process)
        return process

    def client(self, what, *rest, endpoint=""):
        done = self.run_as(VICTIM, PYTHON, "-c", CLIENT, endpoint, what, *rest)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def serve_as(self, user, path, *arguments):
        self.log = os.path.join(self.place, "log-%d" % len(self.processes))
        with open(self.log, "w") as log:
            server = self.start_as(user, self.tureen, "serve", "--dataset", "train=" + self.data, "--cache",
                                   "16M", "--workers", 1, "--listen", "ipc://" + path, *arguments, stdout=log,
                                   stderr=log)
        wait_until("the server listens", lambda: server.poll() is not None
                   or "listening on" in pathlib.Path(self.log).read_text())
        self.assertIsNone(server.poll(), pathlib.Path(self.log).read_text())
        return server

    def others_server(self, path):
        """It serves all users."""
        server = self.serve_as(OTHER, path, "--open")
        for name in (path, path + ".ring"):
            os.chmod(name, 0o666)
        return server

    def folder_of(self, user, path, mode=0o755):
        os.mkdir(path)
        os.chmod(path, mode)
        os.chown(path, user, user)
        return path

    def assert_nobody_joined(self):
        self.assertNotIn("joined", pathlib.Path(self.log).read_text())

    def assert_all_refuse(self, words, endpoint=""):
        """Each client, with these words."""
        connect = ["--connect", endpoint] if endpoint else []

        def refuse(*command):
            with self.subTest(command=command[0]):
                done = self.run_as(VICTIM, self.tureen, *command, *connect)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(words, done.stderr)
        for command in (["read", "--dataset", "train", "--epochs", 1, "--recipe", "eval"], ["status"],
                        ["top", "--seconds", 1]):
            refuse(*command)
        if not endpoint and os.path.exists(os.path.join(self.programs, "tureen_example")):
            with self.subTest(command="libtureen"):
                done = self.run_as(VICTIM, os.path.join(self.programs, "tureen_example"), "train",
                                   os.path.join(self.place, "example-state"))
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(words, done.stderr)
        with self.subTest(command="work"):
            work = self.start_as(VICTIM, self.tureen, "work", "--connect", endpoint or "ipc://%s/server.sock"
                                 % self.default, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertIn(words, work.stdout.readline())
            work.terminate()
            work.communicate(timeout=PATIENCE)
        for what, *rest in (["loader", 20], ["status"], ["dataset"], ["serve", self.data]):
            with self.subTest(python=what):
                said = self.client(what, *rest, endpoint=endpoint)
                self.assertEqual(said.get("error"), "NotTrusted", said)
                self.assertIn(words, said["message"])
        refuse("drain")
        self.assert_nobody_joined()

    #   ---- servers

    def test_the_default_folder_is_another_users(self):
        self.folder_of(OTHER, self.default)
        self.others_server(self.default + "/server.sock")
        self.assert_all_refuse("'%s' %s" % (self.default, REFUSAL))

    def test_the_default_folder_is_another_users_link(self):
        self.folder_of(OTHER, self.place + "/own")
        os.symlink(self.place + "/own", self.default)
        os.lchown(self.default, OTHER, OTHER)
        self.others_server(self.place + "/own/server.sock")
        self.assert_all_refuse("'%s' %s" % (self.default, REFUSAL))

    def test_a_folder_in_tmp_that_was_given(self):
        """The name is given, and any user can have made it."""
        folder = self.folder_of(OTHER, self.place + "/run")
        self.others_server(folder + "/s.sock")
        self.assert_all_refuse("'%s' belongs to user %d" % (folder, OTHER), "ipc://%s/s.sock" % folder)

    def test_a_socket_in_tmp_that_was_given(self):
        path = self.place + "/s.sock"
        self.others_server(path)
        self.assert_all_refuse("'%s' belongs to user %d" % (path, OTHER), "ipc://" + path)

    def test_the_own_folder_lets_others_write(self):
        """The socket there is another user's, or could become so."""
        self.folder_of(VICTIM, self.default, 0o777)
        done = self.run_as(VICTIM, self.tureen, "status")
        self.assertEqual(done.returncode, 1)
        self.assertIn("users other than its owner, user %d, may write to the folder '%s'"
                      % (VICTIM, self.default), done.stderr)
        said = self.client("status")
        self.assertIn("may write to the folder '%s'" % self.default, said["message"])

    def test_another_users_folder_that_was_named(self):
        """A server for several users, at a place that only its own user or root can have made, is believed.
        So is a user's default folder, which has its owner's number in its name."""
        os.chmod(self.place, 0o755)
        for folder in (self.place + "/run", "/tmp/tureen-%d" % OTHER):
            self.folder_of(OTHER, folder)
            self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
            endpoint = "ipc://%s/s.sock" % folder
            os.chmod(self.place, 0o1777)
            server = self.others_server(folder + "/s.sock")
            os.chmod(self.place, 0o755)
            self.assertEqual(self.client("loader", 20, endpoint=endpoint),
                             {"samples": self.SAMPLES, "ring": True})
            done = self.run_as(VICTIM, self.tureen, "read", "--dataset", "train", "--recipe", "eval",
                               "--connect", endpoint)
            self.assertEqual(done.returncode, 0, done.stderr)
            server.terminate()
            self.assertEqual(server.wait(PATIENCE), 0)

    def test_clients_that_wait_make_the_default_folder(self):
        """So no other user can make it meanwhile, and hear what they ask: their own server comes to it."""
        for command in ([self.tureen, "status", "--wait", 60], [PYTHON, "-c", CLIENT, "", "loader", 60]):
            with self.subTest(command=command[0]):
                waiting = self.start_as(VICTIM, *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                wait_until("the folder is made", lambda: os.path.exists(self.default))
                self.assertEqual(self.run_as(OTHER, "mkdir", self.default).returncode, 1)
                self.assertEqual(os.stat(self.default).st_mode & 0o7777, 0o700)
                server = self.serve_as(VICTIM, self.default + "/server.sock")
                said, errors = waiting.communicate(timeout=2 * PATIENCE)
                self.assertEqual(waiting.returncode, 0, errors)
                server.terminate()
                server.wait(PATIENCE)
                os.rmdir(self.default)

    def test_a_folder_that_is_made_while_clients_wait(self):
        """There was nothing to look at when they began, so the other user hears what they ask; and is not
        believed."""
        folder = self.place + "/run"
        endpoint = "ipc://%s/s.sock" % folder
        for command in ([self.tureen, "status", "--wait", 60, "--connect", endpoint],
                        [PYTHON, "-c", CLIENT, endpoint, "loader", 60]):
            with self.subTest(command=command[0]):
                waiting = self.start_as(VICTIM, *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                if command[0] == PYTHON:
                    self.assertIn("no server answers", waiting.stderr.readline())
                self.folder_of(OTHER, folder)
                server = self.others_server(folder + "/s.sock")
                said, errors = waiting.communicate(timeout=2 * PATIENCE)
                self.assertIn("belongs to user %d" % OTHER, said + errors)
                self.assertNotIn('"samples"', said)
                server.terminate()
                server.wait(PATIENCE)
                shutil.rmtree(folder)

    def test_the_ring_is_anothers(self):
        """The path of the ring's socket is the server's word, of one on tcp too.  Another user there gets no
        token, and the batches come through the main socket."""
        for tcp in (True, False):
            with self.serve(tcp=tcp, expect_clean=False) as server:
                ring = next(pathlib.Path(server.folder).rglob("*.ring"))
                self.take_ring_away(ring, lambda: server.read("--recipe", "eval"),
                                    lambda: server.loader(pipeline="eval", batch_size=16, epochs=1))

    def listen_at(self, path):
        """A process of the other user, at a socket that another user made."""
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))
            os.chmod(path, 0o666)
            listener = subprocess.Popen([PYTHON, "-c", LISTENER, str(bound.fileno()), str(OTHER)],
                                        pass_fds=[bound.fileno()], stdout=subprocess.PIPE, text=True)
        self.processes.append(listener)
        self.assertEqual(listener.stdout.readline(), "listens\n")
        return listener

    def test_another_users_process_at_an_own_socket(self):
        """Whatever the path says, the process that listens is looked at."""
        self.folder_of(VICTIM, self.default, 0o700)
        path, words = self.default + "/server.sock", "user %d runs it, and is neither user" % OTHER
        for refusal in (lambda: self.run_as(VICTIM, self.tureen, "read", "--dataset", "train").stderr,
                        lambda: self.run_as(VICTIM, self.tureen, "status").stderr,
                        lambda: self.client("loader", 20)["message"],
                        lambda: self.client("status")["message"]):
            listener = self.listen_at(path)
            os.chown(path, VICTIM, VICTIM)
            self.assertIn(words, refusal())
            listener.kill()
            listener.stdout.close()
            os.unlink(path)

    def take_ring_away(self, ring, *clients):
        for client in clients:
            ring.unlink()
            listener = self.listen_at(ring)
            job = client()
            texts = job.texts()
            result = job.finish()
            self.assertIn("another user than the server's listens at", "".join(texts) + str(result)
                          + "".join(job.texts()))
            self.assertEqual(listener.stdout.readline(), "0\n")
            listener.stdout.close()

    def test_another_users_lock_file(self):
        """It names a process, and no server is started as that was; a fifo stops no client."""
        sys.path.insert(0, os.path.join(self.programs, "tureen_python"))
        from tureen import finding, serving
        folder = self.folder_of(OTHER, self.place + "/own")
        server = self.others_server(folder + "/s.sock")
        lock = self.place + "/x.sock.lock"
        pathlib.Path(lock).write_text("%d 1\n" % server.pid)
        endpoint = "ipc://%s/x.sock" % self.place
        self.assertEqual(finding.lock_holder(self.place + "/x.sock"), server.pid)    # root's own file
        self.assertIsNone(serving._running(endpoint))
        os.chown(lock, OTHER, OTHER)
        self.assertIsNone(finding.lock_holder(self.place + "/x.sock"))
        done = self.run_as(VICTIM, self.tureen, "status", "--connect", endpoint)
        self.assertNotIn("process %d" % server.pid, done.stderr)
        os.unlink(lock)
        os.mkfifo(lock)
        self.assertIsNone(finding.lock_holder(self.place + "/x.sock"))
        done = self.run_as(VICTIM, self.tureen, "status", "--connect", endpoint)
        self.assertIn("there is no such socket", done.stderr)

    #   ---- files

    def assert_refused(self, *command):
        done = self.run_as(VICTIM, self.tureen, *command)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn("belongs to another user, and all users may write to the folder that", done.stderr)

    def test_output_folders_of_another_user(self):
        out = self.folder_of(OTHER, self.place + "/out", 0o777)
        photo = next(pathlib.Path(self.data).rglob("*.jpg"))
        self.assert_refused("pack", self.data, out)
        self.assert_refused("prepare", "--recipe", "eval", "--out", out, photo)
        pack = self.place + "/pack"
        self.assertEqual(self.run_as(VICTIM, self.tureen, "pack", self.data, pack).returncode, 0)
        self.assert_refused("unpack", pack, out)
        self.assertEqual(os.listdir(out), [])

    def test_another_users_unfinished_pack(self):
        """Its buckets are the other user's samples."""
        out = self.folder_of(VICTIM, self.place + "/out", 0o1777)
        self.folder_of(OTHER, out + "/packing")
        self.assert_refused("pack", "--resume", self.data, out)

    def test_links_of_another_user(self):
        """What they lead to keeps its content."""
        precious = pathlib.Path(self.place, "precious")
        precious.write_text("precious")
        os.chown(precious, VICTIM, VICTIM)

        def link(name):
            path = os.path.join(self.place, name)
            os.symlink(precious, path)
            os.lchown(path, OTHER, OTHER)
            return path
        photo = next(pathlib.Path(self.data).rglob("*.jpg"))
        link(photo.with_suffix("").name + photo.suffix + ".npy")
        link(photo.with_suffix("").name + ".npy")
        self.assert_refused("prepare", "--recipe", "eval", "--out", self.place, photo)
        self.assert_refused("read", "--dataset", "train", "--ids", link("ids"))
        self.assertEqual(precious.read_text(), "precious")

    def test_another_users_state(self):
        self.serve_as(VICTIM, self.default + "/server.sock")
        read = ["read", "--dataset", "train", "--recipe", "eval", "--state"]
        state = self.place + "/state"
        #  A state is written to a new file first, which another user may have made already.
        ready = pathlib.Path(state + ".new")
        ready.touch()
        os.chown(ready, OTHER, OTHER)
        os.chmod(ready, 0o666)
        done = self.run_as(VICTIM, self.tureen, *read, state)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertFalse(os.path.exists(state))
        self.assertEqual(ready.read_text(), "")
        ready.unlink()
        done = self.run_as(VICTIM, self.tureen, *read, state)
        self.assertEqual(done.returncode, 0, done.stderr)
        os.chown(state, OTHER, OTHER)
        self.assert_refused(*read, state)

    def test_another_users_rows(self):
        folder = self.folder_of(OTHER, self.place + "/rows", 0o777)
        self.assert_refused("serve", "--dataset", "train=" + self.data, "--jpeg-rows-dir", folder, "--listen",
                            "ipc://%s/s.sock" % self.place)
        #  In a folder where all users may write, a file of rows counts only if it is the user's own.
        with self.serve(arguments=["--jpeg-rows-dir", self.place]) as server:
            server.read("--recipe", "eval").finish()
        rows = next(pathlib.Path(self.place).glob("*.rows"))
        os.chown(rows, OTHER, OTHER)
        with self.serve(arguments=["--jpeg-rows-dir", self.place]) as server:
            self.assertIn("it belongs to another user", server.log())


if __name__ == "__main__":
    unittest.main()

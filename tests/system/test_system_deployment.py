"""The server and its clients as containers and clusters have them: other users, other file systems, fewer
system calls.

docs/deployment.md says what is to be expected.  Namespaces and other users need root: without it these tests
are skipped, which is said.  What a container is to Tureen is here made of its parts, by unshare, mount and
setpriv.
"""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

from harness import PATIENCE, SOURCE, SystemTest, wait_until

NOBODY = 60000 + os.getpid() % 5000  # a user that no other process runs as, not even a test beside this one
PYTHON = "/usr/bin/python3"
SYS_IO_URING_SETUP = 425            # on all machines

#  One epoch; says how it came.
CLIENT = """
import json, sys, tureen
endpoint = sys.argv[1] or None
try:
    loader = tureen.Loader(endpoint, "train", 8, 1, name="client", timeout=float(sys.argv[2]))
    samples, transport = 0, None
    for batch in loader:
        samples += len(batch.ids)
        jobs = [job for job in tureen.status(loader.endpoint, 60)["jobs"] if job["name"] == "client"]
        transport = transport or jobs[0]["transport"]
    print(json.dumps({"samples": samples, "transport": transport, "endpoint": loader.endpoint}))
except tureen.TureenError as error:
    print(json.dumps({"error": type(error).__name__, "message": str(error)}))
"""

#  Runs a command without one system call: seccomp, as container engines use it.
WITHOUT = """
import ctypes, os, struct, sys
number, command = int(sys.argv[1]), sys.argv[2:]
EPERM = 1
load, equal, back = 0x20, 0x15, 0x06
program = [(load, 0, 0, 0), (equal, 0, 1, number), (back, 0, 0, 0x00050000 | EPERM), (back, 0, 0, 0x7fff0000)]
text = b"".join(struct.pack("HBBI", *line) for line in program)
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("lines", ctypes.c_char_p)]
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(Filter(len(program), text)), 0, 0):
    sys.exit("no seccomp here")
os.execv(command[0], command)
"""


def read(path):
    with open(path) as file:
        return file.read()


def can_unshare():
    return os.geteuid() == 0 and subprocess.run(["unshare", "-m", "-p", "-f", "-i", "-n", "true"],
                                                stderr=subprocess.DEVNULL).returncode == 0


def can_filter():
    done = subprocess.run([PYTHON, "-c", WITHOUT, str(SYS_IO_URING_SETUP), "/bin/true"],
                          stderr=subprocess.DEVNULL)
    return done.returncode == 0


NEEDS_ROOT = unittest.skipUnless(os.geteuid() == 0, "SKIPPED: another user needs root")
NEEDS_NAMESPACES = unittest.skipUnless(can_unshare(), "SKIPPED: namespaces need root (unshare)")
NEEDS_SECCOMP = unittest.skipUnless(can_filter(), "SKIPPED: no seccomp filters here")


class Deployment(SystemTest):
    SAMPLES = 24

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.package = os.path.join(cls.root, "package")
        shutil.copytree(os.path.join(SOURCE, "clients", "python", "tureen"),
                        os.path.join(cls.package, "tureen"), ignore=shutil.ignore_patterns("__pycache__"))
        cls.program = os.path.join(cls.copy_for_other_users(), "tureen")
        subprocess.run(["chmod", "-R", "a+rX", cls.root], check=True)

    def client(self, endpoint, before=(), timeout=PATIENCE, environment=None):
        """What a client says; before: a command that executes it."""
        environment = dict(os.environ, PYTHONPATH=self.package, PYTHONDONTWRITEBYTECODE="1",
                           **(environment or {}))
        done = subprocess.run([*before, PYTHON, "-c", CLIENT, endpoint, str(timeout)], env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=4 * PATIENCE,
                              cwd="/")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def assert_served(self, said, transport):
        self.assertEqual((said.get("samples"), said.get("transport")), (self.SAMPLES, transport), said)

    #   ---- other users

    @NEEDS_ROOT
    def test_a_server_is_its_users_alone(self):
        """Another user is told which user has the server, and whether the folder or the socket kept it
        out."""
        as_other = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
        with self.serve() as server:
            said = self.client(server.endpoint, as_other, timeout=0.2)
            self.assertEqual(said.get("error"), "NoServer")
            self.assertIn("%s belongs to user 0, and a server is its user's alone" % server.folder,
                          said["message"])
            #  The folder may be open: the socket is not.
            os.chmod(server.folder, 0o755)
            said = self.client(server.endpoint, as_other, timeout=0.2)
            self.assertIn("the socket belongs to user 0, and user %d may not use it" % NOBODY,
                          said["message"])
            self.assert_served(self.client(server.endpoint), "ring")

    @NEEDS_ROOT
    def test_the_server_of_a_plain_user(self):
        """No runtime folder, no locked memory: the default endpoint is in /tmp, and that user's clients find
        it, and root."""
        as_other = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
        folder = tempfile.mkdtemp(prefix="tu-", dir="/tmp")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        log, default = os.path.join(folder, "log"), "/tmp/tureen-%d" % NOBODY
        self.addCleanup(shutil.rmtree, default, ignore_errors=True)
        environment = {key: value for key, value in os.environ.items()
                       if key not in ("XDG_RUNTIME_DIR", "TUREEN_ENDPOINT")}
        with open(log, "w") as output:
            server = subprocess.Popen(["prlimit", "--memlock=0:0", *as_other, self.program, "serve",
                                       "--dataset", "train=" + self.data, "--cache", "16M", "--workers", "1"],
                                      stdout=output, stderr=output, env=environment, cwd="/")
        self.addCleanup(server.kill)
        try:
            wait_until("the server listens", lambda: "listening on" in read(log) or server.poll() is not None)
            endpoint = "ipc://%s/server.sock" % default
            self.assertIn("listening on " + endpoint, read(log))
            said = self.client("", as_other, environment={"XDG_RUNTIME_DIR": "", "TUREEN_ENDPOINT": ""})
            self.assert_served(said, "ring")
            self.assertEqual(said["endpoint"], endpoint)
            self.assert_served(self.client(endpoint), "ring")
        finally:
            server.terminate()
            self.assertEqual(server.wait(PATIENCE), 0, read(log))
        os.rmdir(default)

    #   ---- other file systems

    def test_the_ring_socket_is_not_there(self):
        """What a container that mounts the socket alone sees: frames, without being told to."""
        with self.serve() as server:
            ring = server.folder + "/s.sock.ring"
            os.rename(ring, ring + ".away")
            self.assert_served(self.client(server.endpoint), "inline")
            os.rename(ring + ".away", ring)
            self.assert_served(self.client(server.endpoint), "ring")

    @NEEDS_NAMESPACES
    def test_a_client_in_a_container(self):
        """All namespaces are its own, and there is no /dev/shm: with the socket's folder at the same path it
        takes the ring; at another path frames; without it, it is told so."""
        spaces = ["unshare", "--mount", "--pid", "--fork", "--ipc", "--uts", "--net", "sh", "-e", "-c"]
        bare = "mount -t tmpfs -o ro none /dev/shm; "
        with self.serve() as server:
            self.assert_served(self.client(server.endpoint, [*spaces, bare + 'exec "$@"', "sh"]), "ring")
            other = os.path.join(self.root, "sockets")
            os.makedirs(other)
            moved = "mount --bind %s %s; mount -t tmpfs none %s; " % (server.folder, other, server.folder)
            self.assert_served(self.client("ipc://%s/s.sock" % other,
                                           [*spaces, bare + moved + 'exec "$@"', "sh"]), "inline")
            hidden = "mount -t tmpfs none %s; " % server.folder
            said = self.client(server.endpoint, [*spaces, hidden + 'exec "$@"', "sh"], timeout=0.2)
            self.assertEqual(said.get("error"), "NoServer")
            self.assertIn("there is no such socket", said["message"])

    @NEEDS_NAMESPACES
    def test_a_server_in_a_container(self):
        """Its processes have other numbers than here."""
        with self.serve(wrapper=["unshare", "--mount", "--pid", "--fork", "--kill-child", "--ipc", "--net",
                                 "--mount-proc"],
                        expect_clean=False) as server:
            self.assert_served(self.client(server.endpoint), "ring")

    #   ---- another libjpeg

    def test_without_the_entropy_decoder(self):
        """libjpeg alone gives the same batches, and the log says why they take longer."""
        said = "JPEGs are decoded by libjpeg alone"
        with self.serve() as server:
            self.assertNotIn(said, server.log())
        with self.serve(wrapper=["env", "TUREEN_JPEG=libjpeg"]) as server:
            self.assertIn(said, server.log())
            self.assert_served(self.client(server.endpoint), "ring")

    #   ---- fewer system calls

    @NEEDS_SECCOMP
    def test_without_io_uring(self):
        """As Docker's own filter has it: files are read by preadv, and the log says why."""
        with self.serve(wrapper=[PYTHON, "-c", WITHOUT, str(SYS_IO_URING_SETUP)]) as server:
            self.assertIn("files are read by preadv (io_uring: Operation not permitted)", server.log())
            self.assert_served(self.client(server.endpoint), "ring")


if __name__ == "__main__":
    unittest.main()

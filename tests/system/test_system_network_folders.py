"""A folder on a file system that another process serves, as a network's is: kept on the local disk unasked,
read from there while the file system's server stands still or is gone, and read anew where files changed.
The file system is bindfs (FUSE): kernels without NFS have it too."""
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

from harness import wait_until
from test_system_kept_folders import KeptTest, SAMPLES
from test_system_pins import take


def missing():
    """Why nothing can be mounted here; None: it can."""
    if not shutil.which("bindfs"):
        return "NOT RUN: there is no bindfs (Debian package bindfs)"
    if os.geteuid() != 0:
        return "NOT RUN: to mount needs root"
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return "NOT RUN: /dev/fuse cannot be opened: %s" % error.strerror
    return None


class Mounted:
    """A folder shown below another path, by a process that can be stopped, and killed."""

    def __init__(self, below, folder):
        self.below, self.folder, self.process = below, folder, None
        os.makedirs(folder, exist_ok=True)

    def start(self):
        self.process = subprocess.Popen(["bindfs", "-f", self.below, self.folder], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until("mounted", lambda: os.path.ismount(self.folder) or self.process.poll() is not None)
        if self.process.poll() is not None:
            raise unittest.SkipTest("NOT RUN: bindfs cannot mount here (status %s)" % self.process.returncode)
        return self

    @contextlib.contextmanager
    def standing_still(self):
        """A server that waits for it could not end if it never went on."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def die(self):
        """What is open there fails from now on."""
        self.process.kill()
        self.process.wait()
        subprocess.run(["umount", "-l", self.folder], check=True)

    def end(self):
        """However a test has left it."""
        if self.process:
            self.process.kill()
            self.process.wait()
        subprocess.run(["umount", "-l", self.folder], stderr=subprocess.DEVNULL)


@unittest.skipIf(missing(), missing())
class NetworkFolders(KeptTest):
    def setUp(self):
        super().setUp()
        self.below = self.data
        self.mounted = Mounted(self.below, tempfile.mkdtemp(prefix="mounted-", dir=self.root))
        self.addCleanup(self.mounted.end)
        self.mounted.start()
        self.data = self.mounted.folder

    def serve(self, *arguments, **options):
        """Without --keep: the file system alone says that it is kept."""
        return super().serve(*arguments, **dict({"more": ()}, **options))

    def test_it_is_kept_unasked(self):
        expected = self.plain(self.below)
        with self.serve() as server:
            self.assertIn("kept in " + self.folder, server.log())
            self.assertEqual(take(server, 1, seed="3"), expected)
            self.assertEqual(self.so_far(server)[0], self.bytes)
            self.assertEqual(take(server, 1, seed="3"), expected)
            self.assertEqual(self.so_far(server)[0], self.bytes)

    def test_its_server_stands_still(self):
        """Whole epochs come while nothing can be read of it."""
        expected = self.plain(self.below)
        with self.serve() as server:
            take(server, 1)
            with self.mounted.standing_still():
                self.assertEqual(take(server, 1, seed="3"), expected)
            self.assertEqual(self.so_far(server)[0], self.bytes)

    def test_its_server_stands_still_before_the_first_epoch(self):
        """The epoch waits, and comes when the server is back."""
        with self.serve() as server:
            with self.mounted.standing_still():
                reader = server.read(batch=8, epochs=1)
                wait_until("a job waits", lambda: server.status()["jobs"])
                self.assertEqual(server.status()["delivered"], 0)
            self.assertEqual(sorted(reader.finish()["epochs"][0]), list(range(SAMPLES)))
            self.assertEqual(server.status()["bad_samples"], 0)
            self.assertEqual(self.so_far(server)[0], self.bytes)

    def test_its_server_goes_and_comes_back(self):
        """Reads fail, the data set stands still, and the epoch goes on when the folder is mounted again."""
        with self.serve() as server:
            self.mounted.die()
            reader = server.read(batch=8, epochs=1)
            trouble = wait_until("it stands still", lambda: server.status()["datasets"][0]["trouble"])
            self.assertIn("cannot be read", trouble["reason"])
            self.mounted.start()
            ids = reader.finish()["epochs"][0]
            self.assertEqual(sorted(ids), list(range(SAMPLES)))
            self.assertEqual(server.status()["bad_samples"], 0)

    def test_its_server_is_gone(self):
        """An epoch of what is kept needs it no more; and the next server finds what is there then."""
        expected = self.plain(self.below)
        with self.serve() as server:
            take(server, 1)
            self.mounted.die()
            self.assertEqual(take(server, 1, seed="3"), expected)
            self.assertEqual(server.status()["bad_samples"], 0)
        self.mounted.start()
        with self.serve() as server:
            self.assertEqual(take(server, 1, seed="3"), expected)
            self.assertEqual(self.so_far(server)[0], 0)

    def test_files_that_change(self):
        with self.serve() as server:
            take(server, 1)
        files = sorted(os.path.join(folder, name) for folder, _, names in os.walk(self.below)
                       for name in names)
        changed = files[3:60:7]
        for path, other in zip(changed, files[100:]):
            shutil.copyfile(other, path)
            os.utime(path, (5000, 5000))
        expected = self.plain(self.below)
        self.mounted.die()                      # what the kernel knows of the old ones goes with it
        self.mounted.start()
        with self.serve() as server:
            self.assertEqual(take(server, 1, seed="3"), expected)
            self.assertEqual(self.so_far(server)[0], sum(os.path.getsize(path) for path in changed))
            self.assertEqual(server.status()["block_cache"]["damaged"], 0)


if __name__ == "__main__":
    unittest.main()

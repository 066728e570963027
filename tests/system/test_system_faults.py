"""Every call of the server that the system may refuse fails once, and for ever: start-up, joins, serving,
leaving.

A first run records where the program calls the system and its library (failing_calls.c); then one site at a
time fails.  Whatever fails: the server does not crash or hang, clients end and say why, nothing is left
behind; after a fault that was there once, a server that lives serves the next job whole.  What may abort are
bookkeeping allocations, with a line that says so.

FAULTS=N: so many of the cases, drawn from a seed that is printed (TEST_SEED replays it); FAULTS=all: each.
FAULT="SITE TIMES FROM": that one."""
import os
import random
import shutil
import signal
import subprocess
import tempfile
import unittest

import harness
from harness import SEED, TUREEN, make_folder, wait_until

SAMPLES = 16
LIBRARY = os.path.join(os.path.dirname(TUREEN), "failing_calls.so")
DEFAULT_FAULTS = 24
SECONDS = 40         # a worker that has no memory gives each sample up after two
WAITS_SECONDS = 10          # where a job may wait for ever, as long as it is given
#  Bookkeeping that cannot fail (server/broker/broker.h) says so and aborts.
SAID_ABORT = "tureen: no memory for "


class Run:
    """One server and a few clients, in a folder of their own."""

    def __init__(self, data, pack, environment):
        self.folder = tempfile.mkdtemp(prefix="tu-", dir="/tmp")
        self.endpoint = "ipc://%s/s.sock" % self.folder
        self.environment = dict(os.environ, XDG_RUNTIME_DIR=self.folder)
        self.log_path = os.path.join(self.folder, "log")
        with open(self.log_path, "w") as log:
            self.process = subprocess.Popen(
                [TUREEN, "serve", "--dataset", "train=" + data, "--dataset", "packed=" + pack, "--listen",
                 self.endpoint, "--cache", "16M", "--raw", "16M", "--workers", "2", "--patience", "2"],
                stdout=log, stderr=subprocess.STDOUT, env=dict(self.environment, **environment))

    def log(self):
        with open(self.log_path, errors="replace") as file:
            return file.read()

    def started(self):
        """Whether it serves; else it has ended."""
        wait_until("the server listens or ends", lambda: "listening on" in self.log()
                   or self.process.poll() is not None, SECONDS)
        return self.process.poll() is None

    def client(self, *arguments):
        return subprocess.Popen([TUREEN, *arguments, "--connect", self.endpoint], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, universal_newlines=True, env=self.environment)

    def jobs(self, may_wait=False):
        """A ring, frames, a pack read in order, a pool; and a question.  Their exit statuses and words.
        may_wait: jobs may get nothing for as long as what fails goes on; the question is answered all the
        same."""
        read = ("read", "--timeout", "5", "--batch", "8", "--rejoin", "0", "--epochs", "1", "--dataset")
        clients = [self.client(*read, "train"), self.client(*read, "train", "--inline", "--order", "private"),
                   self.client(*read, "packed", "--order", "list"),
                   self.client(*read, "packed", "--seed", "1", "--pool", "16"), self.client(*read, "packed"),
                   self.client("status")]
        ended = []
        for client in clients:
            try:
                waits = may_wait and client is not clients[-1]
                out, errors = client.communicate(timeout=WAITS_SECONDS if waits else SECONDS)
            except subprocess.TimeoutExpired:
                client.kill()
                client.communicate()
                if not waits:
                    raise AssertionError("a client hangs: %s" % client.args)
                client.returncode, errors = 1, "waited"
            ended.append((client.args, client.returncode, errors))
        return ended

    def end(self):
        """SIGTERM; its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError("the server hangs at its end")

    def clean_up(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def left(self):
        return [name for name in os.listdir(self.folder) if name.startswith("s.sock")]


class Faults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not os.path.exists(LIBRARY):
            raise unittest.SkipTest("no %s: a build with a sanitizer has its own allocator" % LIBRARY)
        cls.folder = tempfile.mkdtemp(prefix="tu-", dir="/tmp")
        cls.data, cls.pack = cls.folder + "/data", cls.folder + "/data.pack"
        make_folder(cls.data, SAMPLES)
        packed = harness.run("pack", cls.data, cls.pack)
        assert packed.returncode == 0, packed.stderr
        cls.sites = cls.record()

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    @classmethod
    def record(cls):
        """All sites of a run in which nothing fails."""
        path = cls.folder + "/sites"
        run = Run(cls.data, cls.pack, {"LD_PRELOAD": LIBRARY, "TUREEN_FAULT_RECORD": path})
        try:
            assert run.started(), run.log()
            for arguments, status, errors in run.jobs():
                assert status == 0, (arguments, errors)
            assert run.end() == 0, run.log()
        finally:
            run.clean_up()
        with open(path) as file:
            return sorted(line.strip() for line in file)

    def cases(self):
        """(site, how often it fails (0: for ever), from which call on)."""
        if os.environ.get("FAULT"):
            function, offset, times, first = os.environ["FAULT"].split()
            return [("%s %s" % (function, offset), int(times), int(first))]
        #  A call that is made for each job or sample fails at the first, or when things run.
        cases = [(site, times, first) for site in self.sites for times in (1, 0) for first in (1, 7)]
        wanted = os.environ.get("FAULTS", str(DEFAULT_FAULTS))
        if wanted == "all":
            return cases
        return random.Random(SEED).sample(cases, min(int(wanted), len(cases)))

    def test_one_site_at_a_time(self):
        cases = self.cases()
        print("%d sites, %d cases, TEST_SEED=%d" % (len(self.sites), len(cases), SEED), flush=True)
        self.assertGreater(len(self.sites), 100)
        for site, times, first in cases:
            with self.subTest(FAULT="%s %d %d" % (site, times, first)):
                self.one(site, times, first)

    def one(self, site, times, first):
        run = Run(self.data, self.pack, {"LD_PRELOAD": LIBRARY, "TUREEN_FAULT_SITE": site,
                                         "TUREEN_FAULT_TIMES": str(times), "TUREEN_FAULT_FROM": str(first)})
        try:
            if run.started():
                for arguments, status, errors in run.jobs(may_wait=times == 0):
                    self.assertIn(status, (0, 1), "a client died: %s %s" % (arguments, errors))
                    self.assertTrue(status == 0 or errors.strip(),
                                    "a client that failed says nothing: %s" % arguments)
                if times == 1 and run.process.poll() is None:
                    self.serves(run)
            status = run.end()
            log = run.log()
            if status == -signal.SIGABRT:
                self.assertIn(SAID_ABORT, log)
                return
            self.assertIn(status, (0, 1), "the server ended with %d:\n%s" % (status, log))
            self.assertTrue(status == 0 or "tureen serve: " in log, "it ended without a word:\n" + log)
            if not site.startswith("lstat"):        # a server that cannot see a file's owner leaves the file
                self.assertEqual(run.left(), [], log)
        finally:
            run.clean_up()

    def serves(self, run):
        """What failed once is over: a client that comes now gets everything.  It may have failed just now,
        for one of the clients that came; or ended the server, which one () judges."""
        ended = run.jobs()
        if any(status for _, status, _ in ended):
            if run.process.poll() == -signal.SIGABRT:
                return
            ended = run.jobs()
        for arguments, status, errors in ended:
            self.assertEqual(status, 0, "the fault was over: %s %s\n%s" % (arguments, errors, run.log()))


if __name__ == "__main__":
    unittest.main(verbosity=2)

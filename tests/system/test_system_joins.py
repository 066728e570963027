"""First joins at a real server that is killed or stopped around them and comes back, or that is only
starting: all jobs are joined in the end, each sample comes once an epoch, and no job is left of what the dead
server had taken."""
import json
import logging
import os
import signal
import sys
import tempfile
import threading
import time
import unittest

import harness
from harness import SystemTest, seeded, wait_until

sys.path.insert(0, os.path.join(harness.SOURCE, "clients", "python"))
import tureen  # noqa: E402
import tureen.finding  # noqa: E402

PIPELINE = [{"op": "decode"}, {"op": "resize", "size": [8, 8]}]
BATCH, EPOCHS = 8, 2
ANSWER_S = 1.5              # so long a server that listens may take for an answer, on a busy machine too


class Loading(threading.Thread):
    """A loader of this process: its ids, epoch by epoch, or what it raised."""

    def __init__(self, server, **how):
        super().__init__(daemon=True)       # a job that failed must not keep this process waiting for it
        self.loader = tureen.Loader(server.endpoint, batch_size=BATCH, epochs=EPOCHS, pipeline=PIPELINE,
                                    rejoin=4 * harness.PATIENCE, **how)
        self.epochs, self.error = {number: [] for number in range(EPOCHS)}, None
        self.start()

    def run(self):
        try:
            for batch in self.loader:
                self.epochs[batch.epoch] += batch.ids.tolist()
        except tureen.TureenError as error:
            self.error = error

    def finish(self):
        self.join()
        if self.error is not None:
            raise self.error
        return {"epochs": self.epochs}


class Joins(SystemTest):
    SAMPLES = 120

    def setUp(self):
        logging.getLogger("tureen").disabled = True
        self.addCleanup(setattr, logging.getLogger("tureen"), "disabled", False)

    def readers(self, server, **how):
        options = dict(batch=BATCH, epochs=EPOCHS, pipeline=json.dumps(PIPELINE), rejoin=4 * harness.PATIENCE,
                       **how)
        return [server.read(**options), server.read("--inline", **options),
                server.read(job="named", **options)]

    def loaders(self, server, **how):
        return [Loading(server, **how), Loading(server, transport="inline", job="another", **how)]

    def assert_all_come(self, server, jobs):
        for job in jobs:
            self.assert_epochs(job.finish(), EPOCHS)
        wait_until("no job is left", lambda: not server.job_names())

    def test_the_server_dies_around_them(self):
        """Killed, or stopped in order, sooner or later after their start; back at once, as under a
        supervisor, or in a while."""
        chance = seeded("joins")
        with self.serve() as server:
            for number, moment_s in enumerate((0, .004, .008, .012, .02, .03, .05, .1)):
                with self.subTest(moment_s=moment_s):
                    jobs = self.readers(server)
                    time.sleep(moment_s / 2)
                    jobs += self.loaders(server)
                    time.sleep(moment_s / 2)
                    server.stop() if number % 3 == 2 else server.kill()
                    time.sleep(chance.choice((0, .3)))
                    server.start()
                    self.assert_all_come(server, jobs)

    def test_the_server_is_starting(self):
        """It has locked the endpoint and lists its data, for longer than an answer may take."""
        root = tempfile.TemporaryDirectory(prefix="tu-data-", dir="/tmp")
        self.addCleanup(root.cleanup)
        folder, first = os.path.join(root.name, "class_0"), os.path.join(self.data, "class_0")
        os.mkdir(folder)
        first = os.path.join(first, os.listdir(first)[0])
        for number in range(20000):
            os.link(first, os.path.join(folder, "%05d.jpg" % number))
        with harness.Server({"train": self.data, "large": root.name}) as server:
            starting = wait_until("it is caught while it lists", lambda: self.stopped_while_it_starts(server))
            try:
                jobs = self.readers(server, timeout=ANSWER_S) + self.loaders(server, timeout=ANSWER_S)
                refused = harness.run("read", "--connect", server.endpoint, "--dataset", "train", "--timeout",
                                      ANSWER_S, "--rejoin", 0)
                self.assertEqual(refused.returncode, 1)
                time.sleep(2 * ANSWER_S)
                for job in jobs:
                    self.assertTrue(job.process.poll() is None if isinstance(job, harness.Job)
                                    else job.is_alive())
            finally:
                os.kill(server.pid, signal.SIGCONT)
                starting.join()
            self.assert_all_come(server, jobs)

    def test_the_server_is_to_be_started_again(self):
        """By its supervisor, after a pause that is longer than an answer may take."""
        with self.serve(arguments=["--supervise"]) as server:
            for _ in range(5):                  # the last pause is 3.2 seconds
                child = wait_until("it serves", lambda: self.child_that_listens(server))
                os.kill(child, signal.SIGKILL)
                wait_until("it is dead", lambda: not self.children(server))
            jobs = self.readers(server, timeout=ANSWER_S) + self.loaders(server, timeout=ANSWER_S)
            self.assert_all_come(server, jobs)

    @staticmethod
    def children(server):
        with open("/proc/%d/task/%d/children" % (server.pid, server.pid)) as file:
            return [int(word) for word in file.read().split() if harness.is_alive(int(word))]

    def child_that_listens(self, server):
        """None: there is none."""
        children = self.children(server)
        return children[0] if children and tureen.finding.listens(server.endpoint) else None

    @staticmethod
    def stopped_while_it_starts(server):
        """The thread that starts it anew; None: it was too quick."""
        server.stop()
        before = server.process
        starting = threading.Thread(target=server.start)
        starting.start()
        socket = server.endpoint[len("ipc://"):]
        lock = socket + ".lock"
        wait_until("its lock is there", lambda: server.process is not before and os.path.exists(lock)
                   and os.path.getsize(lock), step=0)
        os.kill(server.pid, signal.SIGSTOP)
        if not os.path.exists(socket):
            return starting
        os.kill(server.pid, signal.SIGCONT)
        starting.join()
        return None


if __name__ == "__main__":
    unittest.main()

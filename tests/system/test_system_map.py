"""Functions of the user's behind the private stage (map=, map_batch=), real servers, and what dies: the
functions' processes, the client, the server, all of them.  Each sample comes once an epoch, wholly done, and
nothing is left."""
import json
import os
import signal
import sys
import time
import unittest

import harness
from harness import SystemTest, is_alive, seeded, wait_until

sys.path.insert(0, os.path.join(harness.SOURCE, "clients", "python"))
import tureen  # noqa: E402

PIPELINE = [{"op": "decode"}, {"op": "resize", "size": [16, 16]}, {"share": True}]
BATCH, EPOCHS, WORKERS = 8, 2, 2


class Job(harness.ScriptJob):
    """Of one state file; what it printed last are its processes."""

    def __init__(self, server, script, request):
        self.request = request
        super().__init__(server, script, request)

    def pids(self):
        lines = self.texts()[0].splitlines()
        return json.loads(lines[-1]) if lines else []


class Killed(SystemTest):
    SAMPLES = 240

    def setUp(self):
        self.left = set()               # processes that a killed client had
        self.shared = harness.shared_memory()

    def tearDown(self):
        wait_until("the functions' processes have ended", lambda: not any(map(is_alive, self.left)))
        self.assertEqual(harness.shared_memory() - self.shared, set())

    def sums(self, server):
        """Of the pixels as they are without a function."""
        found = {}
        for batch in tureen.Loader(server.endpoint, batch_size=BATCH, epochs=1, pipeline=PIPELINE,
                                   order="list"):
            for number, image in zip(batch.ids.tolist(), batch["image"]):
                found[number] = int(image.sum(dtype="int64"))
        return [found[number] for number in range(self.SAMPLES)]

    def begin(self, server, name, **request):
        request = dict({"dataset": "train", "batch_size": BATCH, "epochs": EPOCHS, "pipeline": PIPELINE,
                        "map_workers": WORKERS, "timeout": harness.PATIENCE, "rejoin": 4 * harness.PATIENCE,
                        "file": os.path.join(server.folder, name), "pause": 0.02}, **request)
        return server._add(Job(server, "map_job.py", request))

    def had(self, job):
        with open(job.request["file"], encoding="ascii") as file:
            return json.load(file)

    def delivered(self, job):
        path = job.request["file"]
        return sum(map(len, self.had(job)["epochs"].values())) if os.path.exists(path) else 0

    def assert_whole(self, job):
        had = self.had(job)
        self.assertEqual(had["wrong"], 0)
        self.assert_epochs({"epochs": {int(epoch): ids for epoch, ids in had["epochs"].items()}}, EPOCHS)

    def finish(self, job):
        self.assertEqual(job.wait(), 0, job.texts()[1])
        self.left.update(job.pids())
        self.assert_whole(job)

    def kill_process(self, job, chance):
        pids = [pid for pid in job.pids() if is_alive(pid)]
        if pids:
            os.kill(chance.choice(pids), signal.SIGKILL)

    def test_processes_again_and_again(self):
        for order, by, transport in (("shared", "sample", "auto"), ("private", "batch", "auto"),
                                     ("list", "sample", "inline")):
            chance = seeded("processes, " + order)
            with self.subTest(order, by=by, transport=transport), self.serve() as server:
                job = self.begin(server, order, sums=self.sums(server), order=order, by=by,
                                 transport=transport)
                wait_until("it has begun", lambda: self.delivered(job))
                killed = 0
                while job.process.poll() is None and killed < 6:
                    self.left.update(job.pids())
                    self.kill_process(job, chance)
                    killed += 1
                    time.sleep(chance.uniform(0.1, 0.6))
                self.finish(job)

    def test_the_client_again_and_again(self):
        for by in ("sample", "batch"):
            chance = seeded("the client, " + by)
            with self.subTest(by), self.serve() as server:
                sums, killed = self.sums(server), 0
                while True:
                    job = self.begin(server, by, sums=sums, by=by)
                    most = self.delivered(job) + chance.randrange(1, 12) * BATCH
                    wait_until("it has had some more",
                               lambda: self.delivered(job) >= most or job.process.poll() is not None)
                    self.left.update(job.pids())
                    if job.process.poll() is not None:
                        break
                    job.signal(signal.SIGKILL)
                    job.wait()
                    killed += 1
                self.finish(job)
                self.assertGreater(killed, 2)

    def test_the_server_again_and_again(self):
        chance = seeded("the server")
        with self.serve() as server:
            job = self.begin(server, "state", sums=self.sums(server))
            for _ in range(3):
                most = self.delivered(job) + chance.randrange(1, 12) * BATCH
                wait_until("it has had some more", lambda: self.delivered(job) >= most)
                server.kill()
                server.start()
            self.finish(job)

    def test_all_of_them(self):
        chance = seeded("all")
        with self.serve() as server:
            sums, order = self.sums(server), {"order": "seeded", "seed": 7}
            plain = [batch.ids.tolist() for batch in tureen.Loader(
                server.endpoint, batch_size=BATCH, epochs=EPOCHS, pipeline=PIPELINE, **order)]
            job = self.begin(server, "state", sums=sums, **order)
            for _ in range(8):
                most = self.delivered(job) + chance.randrange(1, 6) * BATCH
                wait_until("it has had some more",
                           lambda: self.delivered(job) >= most or job.process.poll() is not None)
                self.left.update(job.pids())
                if job.process.poll() is not None:
                    break
                victim = chance.choice(("process", "client", "server"))
                if victim == "process":
                    self.kill_process(job, chance)
                elif victim == "server":
                    server.kill()
                    server.start()
                else:
                    job.signal(signal.SIGKILL)
                    job.wait()
                    job = self.begin(server, "state", sums=sums, **order)
            self.finish(job)
            had = self.had(job)["epochs"]
            self.assertEqual(had["0"] + had["1"], sum(plain, []), "the order is the seed's, whatever died")


class Errors(SystemTest):
    SAMPLES = 40

    def test_a_file_is_named(self):
        with self.serve() as server, tureen.Loader(
                server.endpoint, batch_size=BATCH, epochs=1, pipeline=PIPELINE, order="list", map=fails_at_21,
                map_workers=WORKERS) as loader:
            message = r"sample 21 \(class_\d/00021.jpg\): ZeroDivisionError"
            with self.assertRaisesRegex(tureen.MapFailed, message):
                for batch in loader:
                    last = batch.ids.tolist()
            self.assertEqual(last, list(range(8, 16)))
            del batch


def fails_at_21(sample):
    """Sample 21 is known by its seed, which the functions are told."""
    from tureen.mapping import run
    assert run._now[0] is not None
    return sample if run._now[0][1] != 21 else 1 // 0


if __name__ == "__main__":
    unittest.main()

"""`tureen work`: processors that other machines lend.

With workers jobs get the same samples, each once, and a seeded job the same pixels, whatever becomes of the
workers: killed, stopped for seconds, of another build, with a key that is none of a worker's."""
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import harness
import plain_client
from harness import SystemTest, TUREEN, processor_seconds, wait_until
from test_system_keys import KeyTest

BATCH = 32


class Worker:
    """A `tureen work` process; leaving ends it, and asserts its exit status unless it was killed."""

    def __init__(self, *arguments, threads=1, environment=None, wrapper=()):
        """wrapper: a command that executes the one that it is given."""
        self.output = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([*wrapper, TUREEN, "work", "--threads", str(threads), *arguments],
                                        stdout=self.output, stderr=subprocess.STDOUT,
                                        env=dict(os.environ, **(environment or {})))
        self.expected = 0

    def said(self):
        self.output.seek(0)
        return self.output.read()

    def kill(self):
        self.expected = -signal.SIGKILL
        self.process.kill()

    def refused(self):
        """Waits until it has given up; what it said."""
        self.expected = 1
        wait_until("the worker gives up", lambda: self.process.poll() is not None)
        return self.said()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
        status = self.process.wait(harness.PATIENCE)
        said = self.said()
        self.output.close()
        if kind:
            print("what the worker said:\n" + said, flush=True)
            return
        assert status == self.expected, "status %d: %s" % (status, said)
        assert "Sanitizer" not in said, said


def workers(server, state="working"):
    return [one for one in server.status()["remote_workers"] if one["state"] == state]


def wait_for(server, count=1, state="working"):
    return wait_until("%d workers are %s" % (count, state), lambda: len(workers(server, state)) == count)


def done(server):
    """Samples that workers have prepared."""
    return sum(worker["done"] for worker in workers(server))


def repeat(run, until):
    """Runs jobs until workers have prepared enough.  A worker gets what the server's own thread leaves, and
    how much that is depends on the machine."""
    def is_enough():
        run()
        return until()
    wait_until("workers have prepared enough", is_enough)


class Lent(SystemTest):
    SAMPLES = 600

    def seeded(self, server):
        """A seeded job over three epochs: its result, with a checksum of all pixels in their order."""
        return server.read("--inline", batch=BATCH, epochs=3, seed=self.seed, order="seeded")

    def setUp(self):
        self.seed = str(harness.SEED * 31 + 5)

    def test_the_same_pixels_with_and_without(self):
        with self.serve(workers=1) as server:
            alone = self.seeded(server).finish()
        with self.serve(workers=1) as server:
            with Worker("--connect", server.endpoint) as one, Worker("--connect", server.endpoint, threads=2):
                wait_for(server, 2)

                def run():
                    result = self.seeded(server).finish()
                    self.assert_epochs(result, 3)
                    self.assertEqual(result["checksum"], alone["checksum"])
                    self.assertEqual(result["epochs"], alone["epochs"])
                repeat(run, lambda: done(server) > 200 and all(each["done"] for each in workers(server)))
                self.assertIn("lends 1 processor\n", one.said())
                self.assertRegex(server.status_text(), r"worker \S+ +working, 2 processors, .* done, .* sent")
            wait_until("both have said goodbye", lambda: server.status()["remote_workers"] == [])

    def test_data_that_the_worker_has_are_not_sent(self):
        copy = os.path.join(self.root, "copy")
        shutil.copytree(self.data, copy)
        with self.serve(workers=1) as server:
            alone = self.seeded(server).finish()

            def run():
                self.assertEqual(self.seeded(server).finish()["checksum"], alone["checksum"])
            with Worker("--connect", server.endpoint, "--dataset", "train=" + copy):
                wait_for(server)
                repeat(run, lambda: workers(server)[0]["read"] > 100)
                status = workers(server)[0]
                self.assertEqual(status["read"], status["done"])
                self.assertLess(status["bytes_sent"], 1000 * status["done"])
            #  Files of the same sizes and names, and other bytes: all but the header of each.
            for name, content in harness.files_below(copy).items():
                with open(os.path.join(copy, name), "r+b") as file:
                    file.seek(len(content) // 2)
                    file.write(bytes(255 - byte for byte in content[len(content) // 2:-2]))
            with Worker("--connect", server.endpoint, "--dataset", "train=" + copy):
                wait_for(server)
                repeat(run, lambda: done(server) > 100)
                self.assertEqual(workers(server)[0]["read"], 0)
                self.assertIn("has other files there", server.log())

    def test_packs_and_images_of_differing_sizes(self):
        pack = os.path.join(self.root, "pack")
        self.assertEqual(harness.run("pack", self.data, pack).returncode, 0)
        lists = ('[{"op":"decode","max_pixels":20000},{"share":true},{"op":"center_crop","size":32}]',
                 '[{"op":"random_resized_crop","size":48},{"share":true},{"op":"flip"}]')
        with harness.Server({"train": pack}, workers=1) as server:
            def checksums():
                return [server.read("--inline", batch=BATCH, epochs=2, seed=self.seed, order="seeded",
                                    pipeline=operations).finish()["checksum"] for operations in lists]
            alone = checksums()
            with Worker("--connect", server.endpoint, threads=2):
                wait_for(server)
                repeat(lambda: self.assertEqual(checksums(), alone), lambda: done(server) > 200)

    def test_killed_in_the_middle(self):
        with self.serve(workers=1) as server:
            alone = self.seeded(server).finish()
            for _ in range(3):
                with Worker("--connect", server.endpoint, threads=2) as worker:
                    wait_for(server)
                    job = self.seeded(server)
                    wait_until("it has prepared some", lambda: any(one["done"] > 100
                                                                   for one in workers(server)))
                    worker.kill()
                    result = job.finish()
                self.assert_epochs(result, 3)
                self.assertEqual(result["checksum"], alone["checksum"])
                wait_until("it is given up", lambda: server.status()["remote_workers"] == [])

    def test_stopped_for_a_while(self):
        with self.serve(workers=1) as server:
            with Worker("--connect", server.endpoint, threads=2) as worker:
                wait_for(server)
                first = server.read(batch=BATCH, epochs=4, rate=600)
                wait_until("it has prepared some", lambda: workers(server)[0]["done"] > 50)
                for seconds in (1.5, 5):
                    worker.process.send_signal(signal.SIGSTOP)
                    time.sleep(seconds)
                    second = server.read(batch=BATCH, epochs=1).finish()
                    self.assert_epochs(second, 1)
                    worker.process.send_signal(signal.SIGCONT)
                    wait_for(server)
                self.assert_epochs(first.finish(), 4)
                before = done(server)
                repeat(lambda: self.assert_epochs(
                    server.read(batch=BATCH, epochs=2, order="private").finish(), 2),
                    lambda: done(server) > before)
                self.assertIn("silent", server.log())       # 5 s: it had to say hello again

    def test_bad_samples_are_told_as_by_the_servers_own_threads(self):
        data = os.path.join(self.root, "bad")
        harness.make_folder(data, 200, seed=3)
        spoiled = sorted(harness.files_below(data))[::9]
        for name in spoiled:
            with open(os.path.join(data, name), "r+b") as file:
                file.truncate(100)
        said = []
        for has_worker in (False, True):
            with harness.Server({"train": data}, workers=1) as server:
                with Worker("--connect", server.endpoint, threads=2) as worker:
                    if has_worker:
                        wait_for(server)
                    else:
                        worker.kill()
                        wait_until("it is gone", lambda: server.status()["remote_workers"] == [])
                    result = server.read(batch=BATCH, epochs=2).finish()
                    self.assertEqual(result["unreadable"]["count"], len(spoiled))
                    said.append(sorted((one["id"], one["reason"])
                                       for one in result["unreadable"]["samples"]))
        self.assertEqual(len(said[0]), len(said[1]))
        known = dict(said[0])
        for number, reason in said[1]:
            self.assertEqual(known.get(number, reason), reason)

    @unittest.skipUnless(os.path.exists(os.path.join(os.path.dirname(TUREEN), "broken_memory.so")),
                         "sanitizers are loaded first")
    def test_a_worker_that_calls_good_samples_bad_is_dismissed(self):
        """A preloaded libjpeg that finds all images damaged from some time on stands for broken memory."""
        sign = os.path.join(self.root, "broken")
        broken = {"LD_PRELOAD": os.path.join(os.path.dirname(TUREEN), "broken_memory.so"),
                  "BROKEN_MEMORY": sign}
        with self.serve(workers=1) as server:
            alone = self.seeded(server).finish()
            with Worker("--connect", server.endpoint, threads=2, environment=broken) as worker:
                wait_for(server)
                with open(sign, "w", encoding="ascii"):
                    pass

                def run():
                    result = self.seeded(server).finish()
                    self.assert_epochs(result, 3)
                    self.assertEqual(result["checksum"], alone["checksum"])
                    self.assertEqual(server.status()["bad_samples"], 0)
                repeat(run, lambda: workers(server) == [])
                self.assertIn("dismissed, because 3 of its results were wrong", worker.refused())
            one, = workers(server, "dismissed")
            self.assertEqual(one["wrong"], 3)
            self.assertIn("it called a sample bad", one["reason"])
            self.assertRegex(server.status_text(), r"worker \S+ +dismissed, 2 processors, .*3 wrong.*memory")
            self.assertEqual(server.log().count("was wrong: it called a sample bad"), 3)

    def test_two_servers_share_a_worker(self):
        with self.serve(workers=1) as one, self.serve(workers=1) as two:
            with Worker("--connect", one.endpoint + "=3", "--connect", two.endpoint):
                wait_for(one)
                wait_for(two)

                def run():
                    for job in [server.read(batch=BATCH, epochs=3) for server in (one, two)]:
                        self.assert_epochs(job.finish(), 3)
                repeat(run, lambda: done(one) > 0 and done(two) > 0)

    def test_the_server_goes_and_comes(self):
        server = self.serve(workers=1)
        with server:
            with Worker("--connect", server.endpoint) as worker:
                wait_for(server)
                server.stop()
                wait_until("the worker says so", lambda: "is gone" in worker.said())
                #  Longer than its heartbeats are apart.
                time.sleep(1)
                before = processor_seconds(worker.process.pid)
                time.sleep(2)
                self.assertLess(processor_seconds(worker.process.pid) - before, .2,
                                "it waits, and does not look")
                server.start()
                wait_for(server)
                self.assert_epochs(server.read(batch=BATCH, epochs=1).finish(), 1)
                self.assertEqual(worker.said().count("lends 1 processor"), 2)

    @unittest.skipUnless(os.path.exists(os.path.join(os.path.dirname(TUREEN), "other_pixels.so")),
                         "sanitizers are loaded first")
    def test_another_build_is_refused(self):
        """A preloaded libjpeg that changes a pixel stands for another build."""
        other = {"LD_PRELOAD": os.path.join(os.path.dirname(TUREEN), "other_pixels.so")}
        with self.serve(workers=1) as server:
            with Worker("--connect", server.endpoint, environment=other) as worker:
                said = worker.refused()
                self.assertRegex(said, r"refused: it decodes other pixels than this server "
                                 r"\([^)]*JPEG, colours")       # a crop may hold the pixel or not
                self.assertNotIn("PNG", said.split("(")[1].split(")")[0])
                self.assertIn("libjpeg-turbo", said)
                self.assertEqual(len(workers(server, "refused")), 1)
            self.assert_epochs(server.read(batch=BATCH, epochs=1).finish(), 1)


class Roles(KeyTest):
    SAMPLES = 200

    def worker(self, server, name, **options):
        return Worker("--connect", server.endpoint, "--key", self.path(name), "--server-key",
                      self.server_key(), **options)

    def test_a_key_that_is_allowed_later(self):
        """Until then the worker rests."""
        self.make("box")
        with self.server() as server:
            with self.worker(server, "box") as worker:
                wait_until("it says so", lambda: "unknown or revoked" in worker.said())
                time.sleep(1)
                before = processor_seconds(worker.process.pid)
                time.sleep(1)
                self.assertLess(processor_seconds(worker.process.pid) - before, .2)
                self.key("allow", self.keys, self.path("box"), "--worker")
                wait_until("it is taken", lambda: "lends 1 processor" in worker.said())
                self.assertEqual(worker.said().count("unknown or revoked"), 1)
                hint = next(line for line in worker.said().splitlines() if "unknown or revoked" in line)
                self.assertIn("--worker", hint)
                self.assertEqual(hint.count(server.endpoint), 1)
        self.close_and_check()

    def test_keys_of_each_kind(self):
        self.allow("alice", "operator")
        self.allow("root", "operator", "--operator")
        self.make("box")
        self.key("allow", self.keys, self.path("box"), "--worker")
        self.assertIn("worker", self.key("list", self.keys))
        with self.server() as server:
            for name in ("alice", "root"):
                with self.worker(server, name) as worker:
                    self.assertIn("no worker's key", worker.refused())
            with self.assertRaises(plain_client.Refused) as refused:
                self.job(server, "box")
            self.assertIn("forbidden", str(refused.exception))
            with self.worker(server, "box", threads=2) as worker:
                status = self.statuses(server)
                wait_until("it works", lambda: [one["state"] for one in status()] == ["working"])
                self.assertEqual(status()[0]["name"], "box")
                job = self.job(server, "alice", epochs=1)
                ids = []
                while True:
                    event = job.event()
                    if not isinstance(event, plain_client.Batch):
                        break
                    ids += event.ids
                    job.consumed = job.released = event.sequence + 1
                    job.send(plain_client.PROGRESS_KIND, job.number, 0,
                             plain_client.PROGRESS.pack(job.consumed, job.released, 0))
                self.assertEqual(sorted(ids), list(range(self.SAMPLES)))
                self.assertGreater(status()[0]["done"], 0)
                self.key("revoke", self.keys, "box")
                wait_until("it is refused", lambda: [one["state"] for one in status()] != ["working"])
                self.assertIn("its key was revoked", worker.refused())
        self.close_and_check()

    def statuses(self, server):
        """A function that asks the server, as its operator."""
        environment = {"TUREEN_KEY": self.path("root"), "TUREEN_SERVER_KEY": self.server_key()}
        server.environment.update(environment)
        return lambda: server.status()["remote_workers"]


if __name__ == "__main__":
    unittest.main()

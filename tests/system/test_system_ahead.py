"""Single objects of a store that are read ahead to the local disk: each is asked for once, a pause of a job
is used, no order changes, and no sample is lost whatever the store does.  All by counts, none by time."""
import os
import shutil
import tempfile
import unittest

import harness
import plain_client
from harness import Server, make_folder, wait_until
from object_store import Fault
from test_system_packs import take
from test_system_stores import StoreTest

BATCH, SLOTS = 4, 3


class AheadTest(StoreTest):
    ADDRESS = "s3://bucket/ahead"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.objects = os.path.join(cls.root, "bucket", "ahead")
        make_folder(cls.objects, cls.SAMPLES, sizes=((200, 320), (200, 320)), seed=harness.SEED)

    def setUp(self):
        super().setUp()
        self.store.latency = .02
        self.folder = os.path.join(tempfile.mkdtemp(dir=self.root), "blocks")

    def serve(self, size="64M", arguments=(), **options):
        kept = ["--block-cache", "%s=%s" % (self.folder, size)] if size else []
        return super().serve({"train": self.ADDRESS}, arguments=[*kept, *arguments], **options)

    def names(self):
        """The objects that were asked for, each time."""
        return [request.name for request in self.store.requests if request.name.endswith(".jpg")]

    def assert_asked_once(self):
        """A GET that is far slower than others is made again: at most one in twenty."""
        self.assertEqual(len(set(self.names())), self.SAMPLES)
        self.assertLess(len(self.names()), self.SAMPLES + 20)

    @staticmethod
    def status(server):
        return server.status()["datasets"][0]["objects"]

    def gets(self, server):
        """Without those that were far slower than others and were made again."""
        status = self.status(server)
        return status["gets"] - status["slow_gets"]

    def begin(self, server, **keys):
        """A job that has its first batch, and takes no more."""
        job = plain_client.Job(server.endpoint, harness.PATIENCE)
        job.join((), **dict({"dataset": "train", "batch_size": BATCH, "slots": SLOTS, "epochs": 1}, **keys))
        job.start()
        return job, job.event()

    def go_on(self, job, event):
        """To the end of its only epoch: its ids, those of the first batch too."""
        ids = []
        while not isinstance(event, plain_client.EpochEnd):
            ids += event.ids
            event.fields.clear()
            job.done_with(event)
            event = job.event()
        job.leave()
        job.close()
        return ids


class Pauses(AheadTest):
    def test_what_a_pause_saves(self):
        """While a job stands, its epoch comes; without the local disk no more than its batches hold does."""
        with self.serve() as server:
            job, event = self.begin(server)
            wait_until("all is kept", lambda: len(set(self.names())) == self.SAMPLES
                       and self.status(server)["ahead_samples"] > self.SAMPLES / 2)
            wait_until("all was read", lambda: self.gets(server) >= self.SAMPLES)
            asked = len(self.names())
            self.assertEqual(sorted(self.go_on(job, event)), list(range(self.SAMPLES)))
            self.assertEqual(len(self.names()), asked)
            self.assert_asked_once()
            status = self.status(server)
            self.assertLessEqual(status["ahead_bytes"], status["source_bytes"])
            self.assertIn("fetched ahead", server.status_text())
        self.store.requests.clear()
        with self.serve(size=None) as server:
            job, event = self.begin(server)
            wait_until("more than its first batch", lambda: len(self.names()) > BATCH)
            asked = len(self.names())
            self.assertLess(asked, SLOTS * BATCH + 20)
            self.assertEqual(sorted(self.go_on(job, event)), list(range(self.SAMPLES)))
            self.assertGreaterEqual(len(self.names()), self.SAMPLES)

    def test_of_a_part_no_more_is_read(self):
        """A job on a part of the data: of the others none is read."""
        with self.serve() as server:
            result = self.read(server, epochs=1, batch=4, subset="0:50,200:210").finish()
            self.assert_epochs(result, 1, [*range(50), *range(200, 210)])
            self.assertEqual(len(set(self.names())), 60)

    def test_a_job_that_leaves_ends_it(self):
        """What was under way comes to its end; then nothing is asked for.  Under way are at most twice as
        many GETs as --reads says, and looks on the local disk that turn into GETs."""
        reads, looks = 4, 32
        with self.serve(arguments=["--reads", str(reads)]) as server:
            self.store.latency = .2
            job, _ = self.begin(server)
            job.leave()
            job.close()
            wait_until("no job", lambda: not server.status()["jobs"])
            asked = len(self.names())
            with self.serve_other() as other:
                take(other, "train", epochs=1)
            most = asked + 2 * reads + looks
            self.assertLess(most, self.SAMPLES)         # else no object more could be asked for anyway
            self.assertLessEqual(len(self.names()), most)

    def serve_other(self):
        """What takes a while, elsewhere."""
        return Server({"train": self.data}, cache="4M")


class Orders(AheadTest):
    def test_the_same_with_and_without(self):
        job = dict(seed=5, epochs=2)
        with self.serve(size=None) as server:
            expected = take(server, "train", **job)
        with self.serve() as server:
            self.assertEqual(take(server, "train", **job), expected)
            self.assertGreater(self.status(server)["ahead_samples"], 0)
        self.store.requests.clear()
        with self.serve() as server:
            self.assertEqual(take(server, "train", **job), expected)
            self.assertEqual(self.status(server)["ahead_samples"], 0)
        self.assertEqual(self.names(), [])

    def test_jobs_beside_each_other(self):
        with self.serve() as server:
            readers = [self.read(server, epochs=2, batch=batch) for batch in (2, 7, 16, 32)]
            for reader in readers:
                self.assert_epochs(reader.finish(), 2)
            self.assertEqual(len(set(self.names())), self.SAMPLES)
            #  Versions of their own of one sample may be read at the same time, as without.
            self.assertLess(len(self.names()), 1.2 * self.SAMPLES)
            self.assertEqual(server.status()["bad_samples"], 0)


class Bounds(AheadTest):
    def test_what_is_on_its_way_is_not_asked_for_again(self):
        """Much is being fetched ahead at any time, and a job draws some of it."""
        self.store.latency = .3
        with self.serve(arguments=["--reads", "100"]) as server:
            self.assert_epochs(self.read(server, epochs=1, batch=32).finish(), 1)
            self.assertEqual(self.gets(server), self.SAMPLES)

    def test_no_more_than_there_is_room_for(self):
        """The cache takes a part: in later epochs just the others are asked for."""
        self.store.latency = .2
        room = 3 << 20
        with self.serve(size=str(room), arguments=["--reads", "100"]) as server:
            job, event = self.begin(server)
            wait_until("it has come", lambda: self.status(server)["ahead_samples"] > 10)
            self.go_on(job, event)
            first = len(self.names())
            #  None was read for nothing.
            self.assertLess(first, self.SAMPLES + 20)
            self.assert_epochs(self.read(server, epochs=1).finish(), 1)
            self.assertLess(len(self.names()) - first, self.SAMPLES + 20)
            self.assertLessEqual(server.status()["block_cache"]["bytes"], room)

    def test_a_store_that_fails(self):
        """Reading ahead pauses with it, goes on after it, and no sample is bad."""
        for fault in (Fault("status", 503, "SlowDown", "ahead/", 20), Fault("reset", name="ahead/", times=20),
                      Fault("status", 403, "ExpiredToken", "ahead/", 8)):
            with self.subTest(kind=fault.kind, status=fault.status):
                shutil.rmtree(self.folder, ignore_errors=True)
                self.store.requests.clear()
                with self.serve() as server:
                    self.store.faults.append(fault)
                    self.assert_epochs(self.read(server, epochs=2).finish(), 2)
                    self.assertGreater(fault.met, 0)
                    self.assertEqual(server.status()["bad_samples"], 0)

    def test_servers_that_are_killed(self):
        self.store.latency = .2
        for _ in range(3):
            with self.serve(arguments=["--reads", "8"], expect_clean=False) as server:
                job, _ = self.begin(server)
                wait_until("something was read ahead", lambda: self.status(server)["ahead_samples"] > 8)
                server.kill()
                job.close()
        self.store.latency = 0
        with self.serve() as server:
            self.assert_epochs(self.read(server, epochs=2).finish(), 2)
            self.assertEqual(server.status()["bad_samples"], 0)
        self.assertLess(len(self.names()), 1.5 * self.SAMPLES)

    def test_stopped_in_the_middle(self):
        """The server ends with reads ahead under way, and leaves nothing."""
        self.store.latency = 1
        with self.serve() as server:
            self.read(server, epochs=9)
            wait_until("it reads", lambda: len(self.names()) > 8)


if __name__ == "__main__":
    unittest.main()

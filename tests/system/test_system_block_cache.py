"""The cache on the local disk below an object store: what is there is not asked for again, by later servers
and by others beside this one; the bound holds at every moment; and whatever becomes of the disk's files, of
the server or of the store's bytes, every epoch holds each sample once, with the right pixels."""
import errno
import glob
import json
import os
import shutil
import struct
import tempfile
import threading
import time
import unittest

import harness
from harness import Server, make_folder, run, wait_until
from object_store import Fault, ObjectStore
from test_system_packs import take

DISK = os.path.join(os.path.dirname(harness.TUREEN), "faulty_disk.so")
MIB = 1 << 20


def disk_bytes(folder):
    """As du counts: all blocks, those of the folders too.  Files may come and go meanwhile."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in [".", *names]:
            try:
                total += os.lstat(os.path.join(path, name)).st_blocks * 512
            except FileNotFoundError:
                pass
    return total


class Watch(threading.Thread):
    """Looks at a folder all the time: the most that it took."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.folder, self.most, self.looks, self._ending = folder, 0, 0, threading.Event()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._ending.set()
        self.join()

    def run(self):
        while not self._ending.wait(.002):
            self.most = max(self.most, disk_bytes(self.folder))
            self.looks += 1


class CacheTest(unittest.TestCase):
    SAMPLES = 300
    assert_epochs = harness.SystemTest.assert_epochs

    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="tu-blocks-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.data, cls.bytes = os.path.join(cls.root, "train"), {}
        #  Large files: what the cache has beside the data is small then.
        make_folder(cls.data, cls.SAMPLES, sizes=((300, 420), (300, 420)), seed=harness.SEED)
        #  As it is read from a pack, in whole units, with what the pack keeps beside it.
        cls.largest = 16384 + max(os.path.getsize(path) for path in
                                  glob.glob(os.path.join(cls.data, "*", "*.jpg")))
        for name in ("train", "other"):
            pack = os.path.join(cls.root, "bucket", name)
            os.makedirs(os.path.dirname(pack), exist_ok=True)
            packed = run("pack", "--quiet", "--json", cls.data, pack)
            assert packed.returncode == 0, packed.stderr
            cls.bytes[name] = os.path.getsize(os.path.join(pack, "volume-00000.tureen"))

    def setUp(self):
        self.store = ObjectStore(self.root)
        self.store.__enter__()
        self.addCleanup(self.store.__exit__)
        #  Through other tests the packs' times may have changed: each test has a cache of its own.
        self.folder = os.path.join(tempfile.mkdtemp(prefix="tu-cache-", dir=self.root), "cache")

    def serve(self, part=2.0, name="train", arguments=(), **options):
        """With a cache of so much of the data."""
        most = int(part * self.bytes[name])
        return Server({"train": "s3://bucket/" + name}, cache="16M", arguments=[
            "--raw", "4M", "--disk", "%s=%d" % (self.folder, most), *arguments],
            environment=dict(self.store.environment(), **options.pop("environment", {})), **options)

    def epochs(self, server, epochs=1):
        """Reads them, and gives how much of the volume the store sent meanwhile."""
        before = self.store.sent("volume")
        self.assert_epochs(server.read(batch=16, epochs=epochs).finish(), epochs)
        return self.store.sent("volume") - before

    def kept_units(self):
        """Those of the data set, of which the volume lies first."""
        units = set()
        for path in self.kept("sums"):
            with open(path, "rb") as file:
                file.seek(4096)
                units |= {at for at, (check,) in enumerate(struct.iter_unpack("<I", file.read())) if check}
        return units

    def asked(self, server):
        """Reads an epoch, and gives how many bytes of the volume the store was asked for that were not kept.
        Chance has no part in that.  What is asked for twice is counted once: a loaded machine has no time to
        take what it has read ahead before memory is full.  A range is asked for from its first missing byte
        to its last, with what is kept between, and load decides how many samples a range has.  Load has no
        distribution, so both have bounds that only a fault reaches."""
        units, before, size = self.kept_units(), len(self.store.requests), self.bytes["train"]
        sent, distinct, through, end = self.epochs(server), 0, 0, 0
        for first, last in sorted((request.first, request.first + request.sent)
                                  for request in self.store.requests[before:]
                                  if "volume" in request.name and request.sent):
            distinct += max(0, last - max(first, end))
            through += sum(4096 for at in range(max(first, end), last, 4096) if at // 4096 in units)
            end = max(end, last)
        self.assertLess(sent - distinct, .25 * size)
        self.assertLess(through, .1 * size)
        return distinct - through

    def pack_status(self, server):
        return server.status()["datasets"][0]["pack"]

    def kept(self, name):
        return glob.glob(os.path.join(self.folder, "*", name))

    def damage(self, places=40, name="data", begin=0):
        """Changes bytes from there on."""
        size = {path: os.path.getsize(path) for path in self.kept(name)}
        changed = 0
        for path, length in size.items():
            with open(path, "r+b") as file:
                for place in range(places):
                    file.seek(begin + (length - begin) * place // places)
                    byte = file.read(1)
                    file.seek(-1, os.SEEK_CUR)
                    file.write(bytes([byte[0] ^ 0x21]))
                    changed += 1
        return changed


class Epochs(CacheTest):
    def test_a_second_epoch_reads_what_is_not_there(self):
        """S (1 - c) within 1 % of S: no cache can do better with fresh shuffles.  What a loaded machine has
        no time to keep is kept in one of the next epochs."""
        for part in (.25, .5, .75):
            with self.subTest(part=part):
                shutil.rmtree(self.folder, ignore_errors=True)
                size = self.bytes["train"]
                with self.serve(part) as server, Watch(self.folder) as watch:
                    self.assertLess(abs(self.asked(server) - size), .01 * size)
                    for _ in range(8):
                        rest = self.asked(server) - (1 - part) * size
                        self.assertGreater(rest, -.01 * size)
                        if rest < .01 * size:
                            break
                    else:
                        self.fail("8 epochs do not fill the cache: %d bytes are missing" % rest)
                    self.assertLess(abs(self.asked(server) - (1 - part) * size), .01 * size)
                self.assertLessEqual(watch.most, part * size)
                self.assertGreater(watch.looks, 20)

    def test_a_restart_reads_nothing_again(self):
        """But for the versions: the first block of the volume, and the begin of the index."""
        with self.serve() as server:
            self.epochs(server)
            self.assertEqual(self.epochs(server), 0)
        before = {name: self.store.sent(name) for name in ("volume", "index")}
        with self.serve() as server:
            self.assertIn("kept in " + self.folder, server.log())
            self.assertEqual(self.epochs(server, 2), 0)
            pack = self.pack_status(server)
        self.assertEqual(self.store.sent("volume") - before["volume"], 4096)
        self.assertLessEqual(self.store.sent("index") - before["index"], 64 * 1024)
        self.assertEqual((pack["gets"], pack["source_bytes"]), (0, 0))
        self.assertGreater(pack["block_cache_bytes"], 2 * .95 * self.bytes["train"])

    def test_two_servers_share_what_each_reads(self):
        size = self.bytes["train"]
        with self.serve() as one, self.serve() as other:
            before = self.store.sent("volume")
            jobs = [server.read(batch=16, epochs=2) for server in (one, other)]
            for job in jobs:
                self.assert_epochs(job.finish(), 2)
            #  Both begin at the same time; without a cache they would read it four times.
            self.assertLess(self.store.sent("volume") - before, 3 * size)
            #  While the other one has the lock for long, a server does not keep what it reads.
            wait_until("nothing is asked for any more", lambda: self.epochs(one) + self.epochs(other) == 0)
            self.assertLess(one.status()["block_cache"]["bytes"], 1.1 * size)

    def test_the_same_pixels_as_from_a_folder(self):
        """A seeded job reads sample by sample: first from the store, then from the local disk."""
        job = dict(seed=5, epochs=2)
        with Server({"train": os.path.join(self.root, "bucket", "train")}, cache="16M",
                    arguments=["--raw", "4M"]) as server:
            expected = take(server, "train", **job)
        for _ in range(2):
            with self.serve() as server:
                self.assertEqual(take(server, "train", **job), expected)
                pack = self.pack_status(server)
        self.assertEqual(pack["source_bytes"], 0)

    def test_orders_stay_fresh(self):
        """Half of the data comes at once, half from a store with a delay: that is not seen in the orders."""
        self.store.latency = .01
        with self.serve(.5) as server:
            job = server.read(batch=16, epochs=12)
            self.assert_epochs(job.finish(), 12)
            audit = run("audit", "--json", "--samples", self.SAMPLES,
                        "--groups", os.path.join(self.root, "bucket", "train"), job.ids)
        self.assertEqual(harness.sure_faults(json.loads(audit.stdout)), [])


class Index(CacheTest):
    """Of a pack with so many samples that the first read does not bring all of it."""
    SAMPLES, FIRST = 2000, 64 * 1024

    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="tu-blocks-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        data, pack = os.path.join(cls.root, "train"), os.path.join(cls.root, "bucket", "train")
        make_folder(data, cls.SAMPLES, sizes=((20, 40), (20, 40)))
        os.mkdir(os.path.dirname(pack))
        packed = run("pack", "--quiet", "--json", data, pack)
        assert packed.returncode == 0, packed.stderr
        cls.bytes = {"train": os.path.getsize(os.path.join(pack, "volume-00000.tureen"))}
        cls.index = os.path.getsize(os.path.join(pack, "index.tureen"))

    def start(self):
        """What the store sends of the index when a server starts."""
        before = self.store.sent("index")
        with self.serve(4) as server:
            self.epochs(server)
        return self.store.sent("index") - before

    def test_it_is_not_fetched_again(self):
        self.assertGreater(self.index, 1.5 * self.FIRST)
        self.assertEqual(self.start(), self.index)
        self.assertEqual(self.start(), self.FIRST)
        self.assertEqual(self.damage(places=20), 40)
        self.assertGreater(self.start(), self.FIRST)
        self.assertEqual(self.start(), self.FIRST)

    def test_a_wrong_one_does_not_stay(self):
        """It is checked before it is kept."""
        self.store.faults.append(Fault("wrong", name="index"))
        with self.assertRaises(AssertionError):
            self.start()
        self.store.faults.clear()
        self.start()
        self.assertEqual(self.start(), self.FIRST)


class Status(CacheTest):
    def test_what_came_from_where(self):
        size = self.bytes["train"]
        with self.serve(.5) as server:
            sent = self.epochs(server) + self.epochs(server)
            status, text = server.status(), server.status_text()
        pack, cache = status["datasets"][0]["pack"], status["block_cache"]
        self.assertEqual(pack["source_bytes"], sent)
        #  A loaded machine reads some pieces twice (`asked`).
        self.assertTrue(.49 * size < pack["block_cache_bytes"] < .75 * size, pack)
        self.assertEqual(pack["bytes_read"], pack["source_bytes"] + pack["block_cache_bytes"])
        self.assertAlmostEqual(pack["memory_bytes"], 2 * size, delta=.1 * size)
        asked = [request for request in self.store.requests if "volume" in request.name]
        self.assertTrue(0 < pack["gets"] < len(asked))      # without those of the start
        self.assertTrue(pack["source_seconds"] > 0 and pack["block_cache_seconds"] > 0)
        self.assertEqual((cache["folder"], cache["failure"]), (self.folder, None))
        self.assertEqual(cache["bytes_max"], int(.5 * size))
        self.assertTrue(.95 * cache["bytes_max"] < cache["bytes"] <= cache["bytes_max"])
        self.assertGreater(pack["block_cache_held"], .45 * size)
        self.assertIn("from the store %.1f MB by %d GETs" % (pack["source_bytes"] / 1e6, pack["gets"]), text)
        self.assertIn("cache on the local disk", text)

    def test_the_cost_model_learns_from_the_store_alone(self):
        self.store.latency = .03
        with self.serve() as server:
            self.epochs(server)
            device = server.status()["devices"][0]
            self.assertEqual(self.epochs(server), 0)
            self.assertEqual(server.status()["devices"][0], device)
        self.assertGreater(device["latency_microseconds"], 15000)

    def test_none(self):
        with Server({"train": "s3://bucket/train"}, cache="16M", arguments=["--raw", "4M"],
                    environment=self.store.environment()) as server:
            self.epochs(server)
            self.assertIsNone(server.status()["block_cache"])
            self.assertEqual(self.pack_status(server)["block_cache_bytes"], 0)


class Trouble(CacheTest):
    def test_killed_in_the_middle(self):
        for delay in (0, .1, .3):
            with self.serve(.8, expect_clean=False) as server, Watch(self.folder) as watch:
                reader = server.read(batch=16, epochs=3)
                wait_until("batches", lambda: reader.delivered() > 0)
                time.sleep(delay)
                server.kill()
            self.assertLessEqual(watch.most, .8 * self.bytes["train"])
        with self.serve(.8) as server, Watch(self.folder) as watch:
            first = self.asked(server)
            self.assertLess(self.asked(server), .25 * self.bytes["train"])
            self.assertLessEqual(first, 1.02 * self.bytes["train"])
            self.assertEqual(server.status()["bad_samples"], 0)
        self.assertLessEqual(watch.most, .8 * self.bytes["train"])

    def test_damaged_files(self):
        """What is damaged is asked for again, and nothing else."""
        job = dict(seed=5, epochs=1)
        with self.serve() as server:
            expected = take(server, "train", **job)
            self.epochs(server)
        for name, most in (("data", 2.5), ("sums", 2.5), ("lock", 0), ("usage", 0), ("no usage", 0)):
            with self.subTest(name=name):
                usage = os.path.join(self.folder, "usage")
                if name == "lock":
                    for path in self.kept("lock"):
                        os.unlink(path)
                elif name == "usage":
                    with open(usage, "r+b") as file:
                        file.write(bytes(16))
                elif name == "no usage":
                    os.unlink(usage)
                else:
                    self.damage(name=name, begin=0 if name == "data" else 4096)
                with self.serve() as server:
                    before = self.store.sent("volume")
                    self.assertEqual(take(server, "train", **job), expected)
                    sent = self.store.sent("volume") - before
                    self.assertLessEqual(sent, most * MIB * 2)
                    self.assertTrue(sent > 0 or most == 0)
                    self.assertEqual(self.epochs(server), 0)
                    status = server.status()
                    self.assertEqual(status["bad_samples"], 0)
                    damaged = status["block_cache"]["damaged"]
                    self.assertEqual(damaged > 0, name in ("data", "sums", "usage"))
                    if damaged:
                        wait_until("it is said", lambda: "warning block_cache_damage times=" in server.log())

    @unittest.skipUnless(os.path.exists(DISK), "a sanitizer has calls of its own: nothing can be preloaded")
    def test_a_disk_that_is_full_or_fails(self):
        """Nothing is written any more, which is said once; no sample is lost."""
        for number in (errno.ENOSPC, errno.EIO):
            shutil.rmtree(self.folder, ignore_errors=True)
            rules = os.path.join(self.root, "rules")
            open(rules, "w").close()
            environment = {"LD_PRELOAD": DISK, "TUREEN_DISK": rules}
            with self.subTest(number=number), self.serve(environment=environment) as server:
                reader = server.read(batch=16, epochs=3)
                wait_until("batches", lambda: reader.delivered() > 30)
                with open(rules, "w") as file:
                    file.write("write %d /data\n" % number)
                self.assert_epochs(reader.finish(), 3)
                wait_until("a line", lambda: "cannot be written" in server.log())
                self.assertEqual(server.log().count("cannot be written"), 1)
                status = server.status()
                self.assertEqual(status["block_cache"]["failure"], os.strerror(number))
                self.assertEqual(status["bad_samples"], 0)
                self.assertIn("not written any more", server.status_text())

    @unittest.skipUnless(os.path.exists(DISK), "a sanitizer has calls of its own: nothing can be preloaded")
    def test_a_disk_that_hangs(self):
        """The cache is left alone, which is said; the job and all else goes on."""
        rules = os.path.join(self.root, "rules")
        open(rules, "w").close()
        environment = {"LD_PRELOAD": DISK, "TUREEN_DISK": rules}
        self.addCleanup(os.unlink, rules)
        with self.serve(environment=environment) as server:
            with open(rules, "w") as file:
                file.write("stall 1 %s\n" % self.folder)
            self.assert_epochs(server.read(batch=16, epochs=3).finish(), 3)
            wait_until("a line", lambda: "warning block_cache_aside times=1" in server.log())
            status = server.status()
            self.assertTrue(status["block_cache"]["aside"])
            self.assertEqual((status["block_cache"]["failure"], status["bad_samples"]), (None, 0))
            self.assertIn("not used now", server.status_text())
            open(rules, "w").close()

    @unittest.skipUnless(os.path.exists(DISK), "a sanitizer has calls of its own: nothing can be preloaded")
    def test_a_disk_that_hangs_at_the_start(self):
        """The server starts without the cache, says so, and uses it when the disk answers."""
        rules = os.path.join(self.root, "rules")
        self.addCleanup(os.unlink, rules)
        with self.serve() as server:
            self.epochs(server)
        with open(rules, "w") as file:
            file.write("stall 1 %s\n" % self.folder)
        with self.serve(environment={"LD_PRELOAD": DISK, "TUREEN_DISK": rules}) as server:
            self.assertIn("does not answer: samples are read from the store", server.log())
            self.assertTrue(server.status()["block_cache"]["aside"])
            self.assert_epochs(server.read(batch=16).finish(), 1)
            open(rules, "w").close()

    @unittest.skipUnless(os.path.exists(DISK), "a sanitizer has calls of its own: nothing can be preloaded")
    def test_data_that_cannot_be_kept_when_the_disk_answers_are_told(self):
        rules = os.path.join(self.root, "rules")
        self.addCleanup(os.unlink, rules)
        with self.serve() as server:
            self.epochs(server)
        with open(rules, "w") as file:
            file.write("stall 1 %s\n" % self.folder)
        with self.serve(environment={"LD_PRELOAD": DISK, "TUREEN_DISK": rules}) as server:
            for place in glob.glob(os.path.join(self.folder, "?" * 32)):
                shutil.rmtree(place)
                open(place, "w").close()
            open(rules, "w").close()
            message = "data set 'train' is not kept in %s: Not a directory" % self.folder
            wait_until("the warning", lambda: self.epochs(server) and message in server.log())
            self.epochs(server)
            self.assertEqual(server.log().count(message), 1)

    def test_wrong_bytes_of_the_store_do_not_stay(self):
        """They are kept as they came; the samples' checksums see it, and what comes afresh replaces them.
        Only samples that were asked for are looked at: a wrong copy of another one in the same range is seen
        when it is read from the cache."""
        with self.serve() as server:
            self.store.faults.append(Fault("wrong", name="volume", times=5))
            self.epochs(server)
            self.assertEqual(server.status()["bad_samples"], 0)
        self.assertEqual(self.store.faults[0].met, 5)
        with self.serve() as server:
            self.assertLessEqual(self.epochs(server), 5 * self.largest)
            self.assertEqual(self.epochs(server), 0)
            self.assertEqual(server.status()["bad_samples"], 0)

    def test_a_store_that_goes_away(self):
        """What is there is served without it."""
        with self.serve() as server:
            self.epochs(server)
            self.store.faults.append(Fault("status", 503, name="volume"))
            self.assertEqual(self.epochs(server, 2), 0)
            self.assertEqual(self.store.faults[0].met, 0)

    def test_a_store_without_versions(self):
        """Nothing is kept of it, because it might be another version."""
        self.store.gives_versions = False
        with self.serve() as server:
            self.assertIn("tells no versions (ETag)", server.log())
            for _ in range(2):
                self.assertGreater(self.epochs(server), .95 * self.bytes["train"])
        self.assertEqual(self.kept("data"), [])

    def test_another_version_is_another_data_set(self):
        volume = os.path.join(self.root, "bucket", "train", "volume-00000.tureen")
        with self.serve() as server:
            self.epochs(server)
        os.utime(volume)
        with self.serve() as server:
            self.assertGreater(self.epochs(server), .95 * self.bytes["train"])

    def test_connections_that_break(self):
        with self.serve(.5) as server:
            self.store.faults.append(Fault("reset", name="volume", times=12, after=100))
            self.epochs(server)
            self.assertLess(self.asked(server), .52 * self.bytes["train"])
            self.assertEqual(server.status()["bad_samples"], 0)


class Bound(CacheTest):
    def test_for_new_data_those_that_were_not_used_go(self):
        with self.serve(1.2) as server:
            self.epochs(server)
        with self.serve(1.2, name="other") as server, Watch(self.folder) as watch:
            self.epochs(server)
            self.assertEqual(self.epochs(server), 0)
            self.assertLess(disk_bytes(self.folder), 1.1 * self.bytes["other"])
        self.assertLessEqual(watch.most, 1.2 * self.bytes["train"])

    def test_data_in_use_stay(self):
        with self.serve(1.2) as server:
            self.epochs(server)
            with self.serve(1.2, name="other") as other, Watch(self.folder) as watch:
                self.epochs(other)
                self.assertEqual(self.epochs(server), 0)
                self.assertGreater(self.epochs(other), .75 * self.bytes["other"])
        self.assertLessEqual(watch.most, 1.2 * self.bytes["train"])

    def test_a_smaller_bound_at_the_next_start(self):
        with self.serve(1.2) as server:
            self.epochs(server)
        with self.serve(.3) as server:
            self.assertLessEqual(disk_bytes(self.folder), .3 * self.bytes["train"])
            self.epochs(server)
            self.assertLess(abs(self.asked(server) - .7 * self.bytes["train"]), .01 * self.bytes["train"])

    def test_files_that_may_not_be_so_large(self):
        """A sparse file is as long as the data: the limit of files is told, and nothing is kept."""
        with self.serve(wrapper=["prlimit", "--fsize=%d" % (8 * MIB)]) as server:
            self.assertIn("is not kept in", server.log())
            self.assertIn("LimitFSIZE", server.log())
            self.epochs(server)


class Refused(CacheTest):
    def assert_refused(self, value, *words, status=1):
        done = run("serve", "--dataset", "train=s3://bucket/train", "--listen", "ipc://%s/socket" % self.root,
                   "--disk", value, environment=self.store.environment())
        self.assertEqual(done.returncode, status, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_what_cannot_be_a_cache(self):
        parent = os.path.dirname(self.folder)
        with open(os.path.join(parent, "file"), "w") as file:
            file.write("x")
        self.assert_refused(self.folder, "DIR=BYTES", status=2)
        self.assert_refused(self.folder + "=10K", "1M or more", status=2)
        self.assert_refused("=10G", "DIR=BYTES", status=2)
        self.assert_refused(parent + "=10M", parent, "something else is in it")
        self.assert_refused(os.path.join(parent, "file") + "=10M", "Not a directory")
        self.assert_refused(os.path.join(parent, "no", "cache") + "=10M", "No such file", "or make it")
        os.mkdir(self.folder, 0o777)
        os.chmod(self.folder, 0o777)
        self.assert_refused(self.folder + "=10M", "chmod go-w")
        os.chmod(self.folder, 0o700)
        self.assertEqual(os.listdir(self.folder), [])

    @unittest.skipIf(os.geteuid() != 0, "only root can give a folder to another user")
    def test_a_folder_of_another_user(self):
        os.mkdir(self.folder, 0o700)
        os.chown(self.folder, 12345, 12345)
        self.assert_refused(self.folder + "=10M", "it belongs to another user", "a folder of its own")

    def test_from_a_file(self):
        path = os.path.join(self.root, "config")
        with open(path, "w") as file:
            file.write("disk = \"%s=64M\"\n" % self.folder)
        with Server({"train": "s3://bucket/train"}, cache="16M", arguments=["--raw", "4M", "--config", path],
                    environment=self.store.environment()) as server:
            self.epochs(server)
            self.assertEqual(server.status()["block_cache"]["bytes_max"], 64 * MIB)
        self.assertEqual(os.stat(self.folder).st_mode & 0o777, 0o700)


if __name__ == "__main__":
    unittest.main()

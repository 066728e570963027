"""Encoded bytes that stay in memory (--memory): an epoch reads S (1 - p), the orders and the bytes are those
without, and memory that is taken away is given back."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request
import zlib

import harness
import plain_client
from harness import Server, np, wait_until
from object_store import Fault, ObjectStore

sys.path.insert(0, os.path.join(harness.SOURCE, "clients", "python"))
import tureen

BATCH, EPOCHS = 16, 3
#  A sample is its file's bytes.  Decoding takes most of an epoch's time otherwise, and a JPEG's pixels do not
#  show each of its bytes.
BYTES = [{"op": "decode", "as": "bytes", "length": 300000, "ragged": True}]
FIXED_SEED = os.path.join(os.path.dirname(harness.TUREEN), "fixed_seed.so")


def take(server, epochs=EPOCHS, **keys):
    """All that a job gets: [(epoch, ids, checksums of fields)]."""
    job, taken = plain_client.Job(server.endpoint, harness.PATIENCE), []
    job.join((), **dict({"dataset": "train", "batch_size": BATCH, "epochs": epochs}, **keys))
    job.start()
    while True:
        event = job.event()
        if isinstance(event, plain_client.EpochEnd):
            if event.last:
                break
            continue
        assert isinstance(event, plain_client.Batch), event
        taken.append((event.epoch, list(event.ids), [zlib.crc32(part) for part in event.fields.values()]))
        event.fields.clear()
        job.done_with(event)
    job.leave()
    job.close()
    return taken


def take_bytes(server, epochs=EPOCHS, **keys):
    return take(server, epochs, **dict({"pipeline": BYTES}, **keys))


def one_epoch(server, name, **keys):
    """A job that has consumed its first epoch of two, and stands."""
    job = plain_client.Job(server.endpoint, harness.PATIENCE)
    job.join((), dataset="train", batch_size=BATCH, epochs=2, name=name, **keys)
    job.start()
    while not isinstance(event := job.event(), plain_client.EpochEnd):
        event.fields.clear()
        job.done_with(event)
    return job


class PinsTest(unittest.TestCase):
    SAMPLES = 900

    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="tu-pins-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.data, cls.packed = os.path.join(cls.root, "data"), os.path.join(cls.root, "pack")
        harness.make_folder(cls.data, cls.SAMPLES, seed=harness.SEED, sizes=((420, 520), (420, 520)))
        done = harness.run("pack", "--quiet", cls.data, cls.packed)
        assert done.returncode == 0, done.stderr

    def serve(self, memory, folder=None, raw="12M", cache="3M", more=(), **options):
        arguments = ("--memory", str(memory)) if memory else ()
        return Server({"train": folder or self.packed}, cache=cache,
                      arguments=("--raw", raw, *arguments, *more), **options)

    @staticmethod
    def dataset(server):
        return server.status()["datasets"][0]

    def so_far(self, server):
        """Bytes from the disk, from pins, and both."""
        dataset = self.dataset(server)
        return np.array([dataset["pack"]["source_bytes"], dataset["pins"]["hit_bytes"],
                         dataset["pack"]["bytes_read"]])

    def test_an_epoch_reads_what_is_not_pinned(self):
        size = os.path.getsize(os.path.join(self.packed, "volume-00000.tureen"))
        for part in (0.25, 0.5, 0.9, 1.5):
            #  Pieces so large that whole blocks of 4,096 bytes at their ends hardly count.
            with self.serve(int(size * part) + (15 << 20), more=("--piece", "train=8")) as server:
                take_bytes(server, 1)           # fills
                before = self.so_far(server)
                take_bytes(server, 3)
                pins = self.dataset(server)["pins"]
                read, hit, both = self.so_far(server) - before
                self.assertEqual(read + hit, both)
                #  Of so little data single reads at an epoch's end, and blocks at pieces' ends, are some
                #  hundredths beside S, with pins or without.
                self.assertAlmostEqual(both / 3 / size, 1, delta=0.04)
                self.assertAlmostEqual(read / both, 1 - pins["part"], delta=0.01)
                #  Whole blocks of 4 MiB, and a volume's last one.
                self.assertGreater(pins["bytes"] + (4 << 20) + 4096, min(size, size * part))
                self.assertLessEqual(pins["memory_bytes"], pins["limit_bytes"])
                self.assertEqual(pins["data_bytes"], size)

    def test_pins_change_no_order_and_no_byte(self):
        kinds = (take, {"seed": "7"}), (take_bytes, {"seed": "7", "pool": 32})
        with self.serve(None) as server:
            self.assertIsNone(self.dataset(server)["pins"])
            plain = [what(server, **keys) for what, keys in kinds]
        for memory in ("32M", "96M"):
            with self.serve(memory) as server:
                for (what, keys), wanted in zip(kinds, plain):
                    self.assertEqual(what(server, **keys), wanted)
                self.assertGreater(self.dataset(server)["pins"]["hit_bytes"], 0)

    @unittest.skipUnless(os.path.exists(FIXED_SEED), "nothing can be preloaded to fix a server's seed")
    def test_shared_orders_are_the_same_with_pins(self):
        """Draw for draw and byte for byte, of a server that draws as the one without pins did: from a pool,
        with pieces of a given size, and without one."""
        for folder, piece, what in ((self.packed, 1, take_bytes), (self.packed, 8, take),
                                    (self.data, None, take_bytes)):
            more = ("--piece", "train=%d" % piece) if piece else ()
            for order in ("shared", "private"):
                for memory in (None, "40M"):
                    with self.serve(memory, folder, more=more,
                                    environment={"LD_PRELOAD": FIXED_SEED}) as server:
                        taken = what(server, order=order)
                        plain = taken if not memory else plain
                        self.assertEqual(taken, plain)
                        if memory:
                            self.assertGreater(self.dataset(server)["pins"]["hit_bytes"], 0)

    def test_orders_are_shuffles(self):
        """What one job, and four in step or not, are given while half of the pack is pinned: `tureen audit`
        finds nothing that chance does not give in one of a million audits."""
        size = os.path.getsize(os.path.join(self.packed, "volume-00000.tureen"))
        with self.serve(size // 2 + (15 << 20)) as server:
            for count in (1, 4):
                jobs = [server.read("--pipeline", json.dumps(BYTES), batch=BATCH, epochs=6)
                        for _ in range(count)]
                results = [job.finish() for job in jobs]
                self.assertEqual([len(result["epochs"]) for result in results], [6] * count)
                done = harness.run("audit", "--json", "--samples", self.SAMPLES, "--groups", self.packed,
                                   *(job.ids for job in jobs))
                found = json.loads(done.stdout)
                self.assertEqual((harness.sure_faults(found), done.stderr), ([], ""))
                self.assertEqual([file["exactly_once"] for file in found["files"]], ["yes"] * count)
            figures = self.dataset(server)["pins"]
            self.assertGreater(figures["part"], 0.4)
            self.assertGreater(figures["hit_bytes"], 5 * 0.4 * size)

    def test_a_folder_is_opened_once(self):
        with self.serve("96M", folder=self.data) as server:
            first = take(server, 1, seed="3")
            pins = self.dataset(server)["pins"]
            self.assertEqual(pins["part"], 1)
            #  What is pinned is there though the files have gone.
            moved = self.data + ".moved"
            os.rename(self.data, moved)
            try:
                self.assertEqual(take(server, 1, seed="3"), first)
            finally:
                os.rename(moved, self.data)

    def test_a_file_is_never_a_part_of_two(self):
        """Files of three blocks, of which two have room, are replaced by others of the same size."""
        folder, size = os.path.join(self.root, "large"), 9 << 20
        os.makedirs(os.path.join(folder, "a"))

        def write(letter):
            for number in range(4):
                with open(folder + ".new", "wb") as file:
                    file.write(letter * size)
                os.rename(folder + ".new", os.path.join(folder, "a", "%d.ppm" % number))

        write(b"A")
        wanted = {zlib.crc32(letter * size) for letter in (b"A", b"B")}
        with self.serve("40M", folder=folder, raw="1M", cache="20M", more=("--workers", "1")) as server:
            for turn in range(4):
                taken = take(server, 1, batch_size=1,
                             pipeline=[{"op": "decode", "as": "bytes", "length": size}])
                self.assertEqual([len(wanted & set(sums)) for _, _, sums in taken], [1] * 4)
                self.assertEqual(self.dataset(server)["pins"]["bytes"], 2 * size)
                if turn == 0:
                    write(b"B")

    def test_memory_for_the_largest_sample(self):
        """What mixing needs for it is more than 2 % of the packs."""
        folder = os.path.join(self.root, "few")
        os.makedirs(os.path.join(folder, "a"))
        for number in range(2):
            with open(os.path.join(folder, "a", "%d.ppm" % number), "wb") as file:
                file.write(b"A" * (3 << 20))
        done = harness.run("pack", "--quiet", folder, folder + ".pack")
        self.assertEqual(done.returncode, 0, done.stderr)
        with Server({"train": folder + ".pack"}, cache="16M", arguments=("--memory", "64M")) as server:
            self.assertIn("34.3 MiB for mixing, 16.0 MiB for prepared samples, 6.0 MiB for pins, enough for "
                          "all of the data; 7.7 MiB for decoded pictures", server.log())
            take(server, 1, batch_size=1, pipeline=[{"op": "decode", "as": "bytes", "length": 3 << 20}])

    def test_figures(self):
        """Status, as JSON and as text, and metrics."""
        port = harness.free_port()
        with self.serve("40M", more=("--http", "127.0.0.1:%d" % port)) as server:
            take_bytes(server, 2)
            job = one_epoch(server, "stands")
            #  All slots are filled, but for that of the batch which it was given last.
            wait_until("no more is read for it", lambda: server.job_status("stands")["window"][
                "sent_batches"] == 3)
            status, port_url = server.status(), "http://127.0.0.1:%d/metrics" % port
            memory, pins, reads = status["memory"], status["datasets"][0]["pins"], status["jobs"][0]["reads"]
            self.assertEqual(memory["bytes"], 40 << 20)
            self.assertEqual((memory["mixing_bytes"], memory["prepared_bytes"]), (12 << 20, 3 << 20))
            self.assertEqual(memory["pins_bytes"], 25 << 20)
            self.assertEqual(memory["pinned_bytes"], pins["memory_bytes"])
            self.assertGreater(pins["saved_seconds"], 0)
            #  All of its epoch's samples were read, but for those that lay prepared, while pins were full.
            self.assertEqual(reads["epoch"], 0)
            self.assertAlmostEqual(reads["epoch_bytes"] / status["datasets"][0]["bytes"], 1, delta=0.06)
            self.assertAlmostEqual(reads["epoch_pinned_bytes"] / reads["epoch_bytes"], pins["part"],
                                   delta=0.05)
            self.assertGreater(reads["epoch_saved_seconds"], 0)
            self.assertLess(reads["saved_seconds"], pins["saved_seconds"])
            text = server.status_text()
            self.assertRegex(text, r"(?m)^memory 42 MB: [0-9]+ MB of 26 MB pinned \([0-9]+ % of train\), "
                             r"13 MB for mixing, 3\.1 MB for prepared samples; [0-9]+ % of the bytes read so "
                             r"far came from pins, (about|less than) [0-9.]+ s of reading saved$")
            self.assertRegex(text, r"(?m)^  pinned [0-9]+ MB, [0-9]+ % of it; [0-9]+ % of the bytes read so "
                             r"far came from there \([0-9]+ MB\), ")
            self.assertRegex(text, r"(?m)^      in epoch [0-9], [0-9]+ % of the bytes read for it came from "
                             "pins, ")
            counted = 'tureen_job_read_bytes_total{number="%d",name="stands",dataset="train"} %d' % (
                status["jobs"][0]["job"], reads["bytes"])
            wait_until("metrics are as new", lambda: counted in self.rows(port_url))
            rows = self.rows(port_url)
            for name, labels, value in (
                    ("dataset_pinned_bytes", 'dataset="train"', pins["bytes"]),
                    ("dataset_read_bytes_total", ',source="pins"', pins["hit_bytes"]),
                    ("dataset_pinned_saved_seconds_total", 'dataset="train"', pins["saved_seconds"]),
                    ("pinned_memory_bytes", "", memory["pinned_bytes"]),
                    ("memory_limit_bytes", 'part="mixing"', 12 << 20),
                    ("memory_limit_bytes", 'part="prepared"', 3 << 20),
                    ("memory_limit_bytes", 'part="pins"', 25 << 20),
                    ("job_read_bytes_total", 'name="stands"', reads["bytes"]),
                    ("job_pinned_read_bytes_total", 'name="stands"', reads["pinned_bytes"]),
                    ("job_pinned_saved_seconds_total", 'name="stands"', reads["saved_seconds"])):
                row, = (row for row in rows if row.startswith("tureen_" + name) and labels in row)
                self.assertEqual(float(row.split()[-1]), value, row)
            job.leave()
            job.close()
        with self.serve(None) as server:
            self.assertIsNone(server.status()["memory"])
            self.assertNotIn("pinned", server.status_text())

    @staticmethod
    def rows(address):
        with urllib.request.urlopen(address) as answer:
            return answer.read().decode().splitlines()

    def test_a_folder_counts_what_pins_gave(self):
        with self.serve("96M", folder=self.data, raw="1M") as server:
            first = one_epoch(server, "first")
            self.assertEqual(server.job_status("first")["reads"]["epoch_pinned_bytes"], 0)
            second = one_epoch(server, "second", order="private")
            reads = server.job_status("second")["reads"]
            self.assertEqual(reads["epoch_pinned_bytes"], reads["epoch_bytes"])
            self.assertLessEqual(reads["epoch_bytes"], self.dataset(server)["bytes"])
            self.assertGreater(reads["epoch_bytes"], 0)
            for job in first, second:
                job.leave()
                job.close()

    def test_data_sets_share(self):
        with self.serve("50M") as server:
            take_bytes(server, 1)
            alone = self.dataset(server)["pins"]
            for verb, words in (("add", ("more=" + self.data,)), ("remove", ("more",))):
                done = harness.run(verb, *words, "--connect", server.endpoint)
                self.assertEqual(done.returncode, 0, done.stderr)
                if verb == "add":
                    first, second = (dataset["pins"] for dataset in server.status()["datasets"])
                    self.assertAlmostEqual(first["limit_bytes"] / alone["limit_bytes"], 0.5, delta=0.02)
                    self.assertLessEqual(first["memory_bytes"], first["limit_bytes"])
                    self.assertLess(first["bytes"], alone["bytes"])
                    take_bytes(server, 1, dataset="more")
                    second = server.status()["datasets"][1]["pins"]
                    self.assertGreater(second["bytes"], second["limit_bytes"] * 9 // 10)
            wait_until("it has gone", lambda: len(server.status()["datasets"]) == 1
                       and self.dataset(server)["pins"]["limit_bytes"] == alone["limit_bytes"])
            take_bytes(server, 1)
            self.assertGreater(self.dataset(server)["pins"]["bytes"] + (4 << 20), alone["bytes"])

    def change(self, server, verb, word):
        done = harness.run(verb, word, "--connect", server.endpoint)
        self.assertEqual(done.returncode, 0, done.stderr)

    @staticmethod
    def pins(server):
        """Of each data set but the first."""
        return [dataset["pins"] for dataset in server.status()["datasets"][1:]]

    def test_data_that_are_added_and_removed(self):
        """A server starts with hardly any data: those that are added get all of the memory for pins, and give
        it back, however often."""
        size = os.path.getsize(os.path.join(self.packed, "volume-00000.tureen"))
        few = os.path.join(self.root, "one")
        os.makedirs(os.path.join(few, "a"))
        shutil.copy(os.path.join(self.data, "class_0", "00000.jpg"), os.path.join(few, "a"))
        memory = size * 3 // 4
        with Server({"few": few}, cache=None, arguments=("--memory", str(memory))) as server:
            #  The parts of mixing and prepared samples stay as they are.
            beside = server.status()["cache_bytes_max"] + memory // 8
            self.assertAlmostEqual(beside / memory, 3 / 8, delta=0.01)
            pins = memory - beside
            for _ in range(2):
                self.change(server, "add", "train=" + self.packed)
                self.assertAlmostEqual(self.pins(server)[0]["limit_bytes"] / pins, 1, delta=0.02)
                take_bytes(server, 1)
                before, _ = self.read(server)
                take_bytes(server, 2)
                after, part = self.read(server)
                read, hit = after - before
                self.assertAlmostEqual(read / (read + hit), 1 - part, delta=0.03)
                self.assertGreater(part * size + (4 << 20) + 4096, pins * 0.98)
                self.change(server, "add", "more=" + self.data)
                limits = [each["limit_bytes"] for each in self.pins(server)]
                self.assertAlmostEqual(sum(limits) / pins, 1, delta=0.02)
                self.assertAlmostEqual(limits[0] / limits[1], 1, delta=0.02)
                take_bytes(server, 1, dataset="more")
                self.change(server, "remove", "train")
                wait_until("it has gone", lambda: len(self.pins(server)) == 1)
                self.assertAlmostEqual(self.pins(server)[0]["limit_bytes"] / pins, 1, delta=0.02)
                take_bytes(server, 1, dataset="more")
                self.assertGreater(self.pins(server)[0]["bytes"] * 1.05, pins)
                self.change(server, "remove", "more")
                wait_until("all have gone", lambda: not self.pins(server))

    @staticmethod
    def read(server):
        """Of the second data set: bytes from the disk and from pins so far, and the part that is pinned."""
        dataset = server.status()["datasets"][1]
        pins = dataset["pins"]
        return np.array([dataset["pack"]["source_bytes"], pins["hit_bytes"]]), pins["part"]

    def test_memory_that_is_taken_away_is_given_back(self):
        with open(harness.TUREEN, "rb") as program:
            if b"__tsan_init" in program.read():
                self.skipTest("the thread sanitizer needs more addresses than the limit")
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if machine < 5200000000:
            self.skipTest("a machine of less than 5.2 GB")
        limit = ("prlimit", "--as=5000000000", "--")
        with Server({"train": self.packed}, cache="4200000000", wrapper=limit, arguments=(
                "--raw", "12M", "--memory", "5G", "--workers", "1")) as server:
            self.assertIn("warning: --memory 5.0 GiB, and this process may use 4.7 GiB", server.log())
            take_bytes(server, 1)
            size = self.dataset(server)["pins"]["data_bytes"]
            #  Its header is never read.
            self.assertEqual(self.dataset(server)["pins"]["bytes"], size - 4096)
            for soft, wanted in ((4700000000, 0), (5000000000, size - 4096)):
                subprocess.run(["prlimit", "--pid", str(server.pid), "--as=%d:5000000000" % soft], check=True)
                #  The server looks every ten seconds.
                wait_until("it is seen", lambda: "this process may use %d bytes of memory now" % soft
                           in server.log(), step=0.1)
                wait_until("pins follow the limit", lambda: take(server, 1) and self.dataset(server)[
                    "pins"]["bytes"] == wanted)
            self.assertEqual(server.log().count("this process may use 4700000000 bytes of memory now"), 1)

    def test_the_parts_of_memory(self):
        with self.serve("64M", raw="5M", cache="7M") as server:
            self.assertIn("5.0 MiB for mixing, 7.0 MiB for prepared samples", server.log())
            self.assertEqual(server.status()["cache_bytes_max"], 7 << 20)
        with Server({"train": self.packed}, cache=None, arguments=("--memory", "256M")) as server:
            status = server.status()
            pins = self.dataset(server)["pins"]
            #  All data are pinned, and 5 / 8 of the memory is there for data sets that are added.
            self.assertEqual(status["cache_bytes_max"], 64 << 20)
            self.assertIn("32.0 MiB for mixing, 64.0 MiB for prepared samples, 59.9 MiB for pins, enough for "
                          "all of the data; 100.1 MiB for decoded pictures", server.log())
            self.assertGreater(pins["limit_bytes"], pins["data_bytes"])
            self.assertLess(pins["limit_bytes"], pins["data_bytes"] * 1.01)
            take_bytes(server, 1, seed="1", pool=64)
            #  A data set that is added is pinned beside them.
            done = harness.run("add", "more=" + self.packed, "--connect", server.endpoint)
            self.assertEqual(done.returncode, 0, done.stderr)
            for pins in (dataset["pins"] for dataset in server.status()["datasets"]):
                self.assertGreater(pins["limit_bytes"], pins["data_bytes"])
        with self.serve("20M", raw="64M", cache="64M") as server:
            self.assertIn("take 128.0 MiB, more than --memory 20.0 MiB", server.log())
            self.assertIn("--cache 64.0 MiB and --raw 64.0 MiB take", server.log())
        with self.serve("1G", cache="900G") as server:
            self.assertIn("warning: the cache and compressed samples may take 900.0 GiB", server.log())
        with self.serve("14M") as server:
            self.assertIn("--memory leaves nothing for pins", server.log())
            self.assertIn("give more, or leave out --cache and --raw", server.log())
            take_bytes(server, 1)
            self.assertEqual(self.dataset(server)["pins"]["bytes"], 0)


    def test_too_little_is_refused(self):
        """It says what is the least, and why; and so much is enough."""
        def run(*arguments):
            return harness.run("serve", "--listen", "ipc://%s/least.sock" % self.root, "--workers", "2",
                               *arguments)

        pack, folder = "train=" + self.packed, "train=" + self.data
        for arguments, words in (
                (("--dataset", pack, "--memory", "1M"),
                 r"--memory 1\.0 MiB is too little: mixing needs [0-9.]+ MiB \(for the largest samples of "
                 r"the packs\), and prepared samples need [0-9.]+ KiB \(for 2 workers\); give --memory "
                 "[0-9]+M or more\n$"),
                (("--dataset", folder, "--memory", "100K"),
                 r"--memory 100\.0 KiB is too little: prepared samples need [0-9.]+ KiB \(for 2 workers\); "
                 "give --memory 1M or more\n$"),
                (("--dataset", pack, "--memory", "40M", "--cache", "64M"),
                 r"and --cache has 64\.0 MiB; give --memory 6[0-9]M or more, or leave out --cache\n$"),
                (("--dataset", pack, "--memory", "40M", "--raw", "64M"),
                 r"is too little: --raw has 64\.0 MiB, and prepared samples need .* or leave out --raw\n$")):
            done = run(*arguments)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertRegex(done.stderr, words)
        least = re.search(r"give --memory ([0-9]+M)", run("--dataset", pack, "--memory", "1M").stderr)[1]
        with Server({"train": self.packed}, cache=None, arguments=("--memory", least)) as server:
            self.assertRegex(server.log(), "(?m)^memory: .* for pins")
            self.assertEqual(len(take(server, 1)), -(-self.SAMPLES // BATCH))
        with Server({"train": self.packed}, cache=None, arguments=("--memory", "900G")) as server:
            self.assertRegex(server.log(), "(?m)^memory: .* for pins, enough for all of the data; "
                             "[0-9.]+ GiB for decoded pictures$")
            self.assertIn("and this process may use", server.log())


class StoreTest(unittest.TestCase):
    SAMPLES = 400

    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="tu-pins-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.bucket = os.path.join(cls.root, "bucket")
        cls.data, cls.packed = os.path.join(cls.bucket, "data"), os.path.join(cls.bucket, "pack")
        harness.make_folder(cls.data, cls.SAMPLES, seed=harness.SEED, sizes=((420, 520), (420, 520)))
        done = harness.run("pack", "--quiet", cls.data, cls.packed)
        assert done.returncode == 0, done.stderr
        cls.size = os.path.getsize(os.path.join(cls.packed, "volume-00000.tureen"))

    def setUp(self):
        self.store = ObjectStore(self.root)
        self.store.__enter__()
        self.addCleanup(self.store.__exit__)

    def serve(self, pins, name="pack", arguments=()):
        memory = ("--memory", str(int(pins * self.size) + (11 << 20))) if pins else ()
        return Server({"train": "s3://bucket/" + name}, cache="3M", environment=self.store.environment(),
                      arguments=("--raw", "8M", *memory, *arguments))

    def epoch(self, server):
        """What it gets, and how much of the data the store sent."""
        before = self.store.sent()
        taken = take_bytes(server, 1, seed="5")
        return taken, (self.store.sent() - before) / self.size

    def assert_sent(self, sent, part, delta=0.02):
        """About the part of the data that is not kept; and one in twenty requests for it may be made again
        where they are slow (pace.h)."""
        self.assertGreater(sent, part - delta)
        self.assertLess(sent, 1.05 * part + delta)

    def test_packs(self):
        with self.serve(None) as server:
            wanted, sent = self.epoch(server)
            self.assert_sent(sent, 1, delta=0.01)
        for part in (0.5, 1.2):
            with self.serve(part) as server:
                for turn in range(3):
                    taken, sent = self.epoch(server)
                    self.assertEqual(taken, wanted)
                    pins = server.status()["datasets"][0]["pins"]
                    self.assert_sent(sent, 1 - pins["part"] if turn else 1)
                self.assertGreater(pins["bytes"] + (4 << 20) + 4096, min(part, 1) * self.size)

    def test_single_objects(self):
        with self.serve(None, "data") as server:
            wanted, _ = self.epoch(server)
        with self.serve(1.2, "data") as server:
            for turn in range(2):
                taken, sent = self.epoch(server)
                self.assertEqual(taken, wanted)
                self.assertEqual(sent > 0, turn == 0)

    def test_what_is_saved(self):
        """About what an epoch takes less by, of a store of few bytes a second and one that answers late.  No
        time is judged, but that it is of that order."""
        for name, keys in (("pack", {"rate": 15e6}), ("data", {"rate": 15e6}), ("data", {"latency": 0.05})):
            with ObjectStore(self.root, **keys) as store, Server(
                    {"train": "s3://bucket/" + name}, cache="3M", environment=store.environment(),
                    arguments=("--raw", "8M", "--memory", str(self.size + (20 << 20)))) as server:
                times, saved = [], []
                for _ in range(2):
                    begun = time.monotonic()
                    take_bytes(server, 1, seed="5")
                    times.append(time.monotonic() - begun)
                    saved.append(server.status()["datasets"][0]["pins"]["saved_seconds"])
                print("%s of a store with %s: epochs of %.2f and %.2f s, saved %.2f s"
                      % (name, keys, *times, saved[1] - saved[0]))
                self.assertLess(saved[0], 0.5 * saved[1])
                #  At 15 MB/s, or 50 ms for each of some reads at once: not the sum of all their times.
                self.assertGreater(saved[1], 0.2)
                self.assertLess(saved[1], 400 * 0.05 + times[0])

    def test_connections_that_break(self):
        with self.serve(None) as server:
            wanted, _ = self.epoch(server)
        with self.serve(0.5) as server:
            for turn in range(2):
                self.store.faults += [Fault("reset", name="volume", times=5, after=20000)]
                self.assertEqual(self.epoch(server)[0], wanted)

    def test_before_the_local_disk(self):
        cache = os.path.join(tempfile.mkdtemp(prefix="tu-cache-", dir=self.root), "cache")
        kept = ("--disk", "%s=%d" % (cache, 2 * self.size))
        with self.serve(None, arguments=kept) as server:
            wanted, _ = self.epoch(server)
        with self.serve(0.6, arguments=kept) as server:
            for turn in range(3):
                before = server.status()["datasets"][0]["pack"]["block_cache_bytes"]
                self.assertEqual(self.epoch(server), (wanted, 0))
                dataset = server.status()["datasets"][0]
                self.assertAlmostEqual((dataset["pack"]["block_cache_bytes"] - before) / self.size,
                                       1 - dataset["pins"]["part"] if turn else 1, delta=0.02)
            self.assertGreater(dataset["pins"]["part"], 0.4)

    def test_beside_a_local_disk_without_room(self):
        """Pins and the disk keep different blocks, and so do they after a restart."""
        for name in ("pack", "data"):
            cache = os.path.join(tempfile.mkdtemp(prefix="tu-cache-", dir=self.root), "cache")
            kept = ("--disk", "%s=%d" % (cache, self.size // 2))
            for start in range(2):
                with self.serve(0.35, name, arguments=kept) as server:
                    for turn in range(3):
                        _, sent = self.epoch(server)
                        dataset = server.status()["datasets"][0]
                        held = (dataset["pack"] or dataset["objects"])["block_cache_held"] / self.size
                        if turn:
                            #  Beside the blocks of both there are the checksums and holes of the disk's.
                            self.assert_sent(sent, 1 - dataset["pins"]["part"] - held, delta=0.04)
                        elif start:
                            self.assert_sent(sent, 1 - held, delta=0.04)
                    self.assertGreater(dataset["pins"]["part"], 0.25)
                    self.assertGreater(held, 0.4)

    def test_a_local_disk_that_has_all(self):
        """What is there is pinned as well once nothing else can be."""
        cache = os.path.join(tempfile.mkdtemp(prefix="tu-cache-", dir=self.root), "cache")
        with self.serve(None, arguments=("--disk", "%s=%d" % (cache, self.size * 9 // 10))) as server:
            self.epoch(server)
        with self.serve(0.5, arguments=("--disk", "%s=%d" % (cache, self.size * 9 // 10))) as server:
            self.epoch(server)
            first = server.status()["datasets"][0]["pins"]["part"]
            self.epoch(server)
            self.assertLess(first, 0.25)
            self.assertGreater(server.status()["datasets"][0]["pins"]["part"], 0.35)
            self.assertLess(self.epoch(server)[1], 0.1)


if __name__ == "__main__":
    unittest.main(verbosity=2)

"""Serving what `tureen pack` made: memory for compressed samples that is a fraction of the data, and jobs of
all kinds."""
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import zlib

import harness
import plain_client
from harness import Server, contents, np, Image, wait_until

sys.path.insert(0, os.path.join(harness.SOURCE, "clients", "python"))
import tureen

INDEX, VOLUME = "index.tureen", "volume-00000.tureen"
BATCH = 16


def pack(*arguments):
    """Bytes of all samples in it."""
    done = harness.run("pack", "--quiet", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["bytes"]


def take(server, dataset, id_frames=(), **keys):
    """All that a job gets: [(epoch, ids, {field: checksum})]."""
    job, taken = plain_client.Job(server.endpoint, harness.PATIENCE), []
    job.join(id_frames, **dict({"dataset": dataset, "batch_size": BATCH, "epochs": 2}, **keys))
    fields = [(field["name"], field["dtype"], field["shape"]) for field in job.joined["fields"]]
    job.start()
    while True:
        event = job.event()
        if isinstance(event, plain_client.EpochEnd):
            if event.last:
                break
            continue
        assert isinstance(event, plain_client.Batch), event
        taken.append((event.epoch, event.ids, {name: zlib.crc32(part) for name,
                                               part in event.fields.items()}))
        event.fields.clear()
        job.done_with(event)
    job.leave()
    job.close()
    return fields, taken


def pack_status(server, dataset=0):
    return server.status()["datasets"][dataset]["pack"]


class PackTest(unittest.TestCase):
    SAMPLES = 400

    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="tu-packs-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.data, cls.packed = os.path.join(cls.root, "data"), os.path.join(cls.root, "pack")
        cls.labels = harness.make_folder(cls.data, cls.SAMPLES, seed=harness.SEED,
                                         sizes=((180, 260), (180, 240)))
        cls.names = sorted(os.path.join(folder, name) for folder in os.listdir(cls.data)
                           for name in os.listdir(os.path.join(cls.data, folder)))
        cls.bytes = pack(cls.data, cls.packed)
        cls.largest = max(os.path.getsize(os.path.join(cls.data, name)) for name in cls.names)
        #  A fifth of the data, whatever the seed.
        cls.raw = cls.bytes // 5

    def serve(self, *arguments, folder=None, raw=None, **options):
        return Server({"train": folder or self.packed}, **dict({"cache": "16M"}, **options),
                      arguments=("--raw", str(raw or self.raw), *arguments))

    def copy_of_pack(self):
        """One that may be damaged."""
        folder = tempfile.mkdtemp(dir=self.root)
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        shutil.copytree(self.packed, folder, dirs_exist_ok=True)
        return folder

    def places(self):
        """Where the file of each id lies in the volume."""
        with open(os.path.join(self.packed, VOLUME), "rb") as file:
            volume = file.read()
        result = []
        for name in self.names:
            with open(os.path.join(self.data, name), "rb") as file:
                sample = file.read()
            at = volume.find(sample)
            assert at >= 0 and volume.find(sample, at + 1) < 0
            result.append((at, len(sample)))
        return result

    def assert_epochs(self, result, epochs, ids=None):
        ids = range(self.SAMPLES) if ids is None else ids
        self.assertEqual(sorted(result["epochs"]), list(range(epochs)))
        for number, got in result["epochs"].items():
            self.assertEqual(sorted(got), sorted(ids), "epoch %d" % number)

    def audit(self, *files):
        done = harness.run("audit", "--json", "--samples", self.SAMPLES, *files)
        self.assertEqual((harness.sure_faults(json.loads(done.stdout)), done.stderr), ([], ""))


class Jobs(PackTest):
    def all_kinds(self, tier, raw):
        """Jobs of different order, pace and data share what is read."""
        given = [7, 7, 399, 0, 7, 123, 250]
        with self.serve("--tier", "train=" + tier, raw=raw) as server:
            random = harness.seeded(self.id())
            whole = [server.read(batch=16, epochs=3), server.read(batch=16, epochs=3),
                     server.read(batch=16, epochs=3, order="private"),
                     server.read(batch=20, epochs=3, rate=900), server.read(batch=16, epochs=3, seed=11),
                     server.read(batch=16, epochs=3, recipe="eval")]
            part = server.read(batch=16, epochs=4, subset="100:250,300:310")
            dropping = server.read("--drop-last", batch=48, epochs=3)
            listed = server.plain(join={"dataset": "train", "batch_size": 4, "epochs": 3, "order": "list"},
                                  list=given, labels=self.labels)
            killed = [server.read(batch=16, epochs=0), server.read(batch=16, epochs=0, order="private")]
            wait_until("the killed run", lambda: min(job.delivered() for job in killed) > random.randrange(50,
                500))
            whole.append(server.read(batch=16, epochs=2))               # joins in mid-epoch
            for job in killed:
                job.signal(signal.SIGKILL)
            for job in whole:
                self.assert_epochs(job.finish(), 2 if job is whole[-1] else 3)
            self.assert_epochs(part.finish(), 4, [*range(100, 250), *range(300, 310)])
            self.assertEqual(list(listed.finish()["epochs"].values()), [given] * 3)
            for ids in dropping.finish()["epochs"].values():
                self.assertEqual((len(ids), len(set(ids))), (384, 384))
            self.audit(*[job.ids for job in whole if job is not whole[4]])
            wait_until("no job is left", lambda: not server.status()["jobs"])
            status = server.status()
            #  No job holds anything
            self.assertEqual((status["raw_bytes"], status["bad_samples"]), (0, 0))

    def test_all_kinds_over_stream(self):
        self.all_kinds("stream", self.raw)

    def test_no_chunk_of_a_redox_pack_comes_late(self):
        """The last of seven chunks has 16 samples in place of 64: in slots they had a mean place of .72."""
        data, packed = os.path.join(self.root, "even", "data"), os.path.join(self.root, "even", "pack")
        os.makedirs(os.path.join(data, "class"))
        for number in range(self.SAMPLES):
            with open(os.path.join(data, "class", "%03d.bin" % number), "wb") as file:
                file.write(bytes([number % 251]) * 20000)
        pack("--extensions", ".bin", data, packed)
        with self.serve("--tier", "train=redox", "--policy", "dsa", folder=packed, raw=5000000,
                        cache="1M") as server:
            job = server.read("--pipeline", '[{"op": "decode", "as": "bytes", "length": 20000}]', batch=16,
                              epochs=40)
            self.assert_epochs(job.finish(), 40)
            self.assertIn("data set 'train': tier redox is for comparison with the paper; train with tier "
                          "stream. With only 7 chunks", server.log())
            audits = [json.loads(harness.run("audit", "--json", *groups, job.ids).stdout)
                         for groups in ((), ("--groups", packed))]
        self.assertEqual([fault for fault in harness.sure_faults(audits[1]) if fault["kind"] == "group"], [])
        self.assertEqual(audits[1]["tests"] - audits[0]["tests"], 7)

    def test_all_kinds_over_redox(self):
        self.all_kinds("redox", 4 * 2 * 136 * self.largest)

    def test_all_kinds_over_direct(self):
        self.all_kinds("direct", self.raw)

    def test_dsa(self):
        with self.serve("--policy", "dsa") as server:
            jobs = [server.read(batch=16, epochs=3), server.read(batch=16, epochs=3),
                    server.read(batch=16, epochs=3, subset="0:300")]
            for job, ids in zip(jobs, (400, 400, 300)):
                self.assert_epochs(job.finish(), 3, range(ids))

    def test_labels_come_with_their_samples(self):
        with self.serve() as server:
            result = server.loader(dataset="train", batch_size=32, epochs=2, labels=self.labels).finish()
            self.assert_epochs(result, 2)
            self.assertEqual(result["wrong_labels"], 0)

    def test_metadata_in_a_tar_is_no_sample(self):
        """As WebDataset leaves out what is below __meta__."""
        shard, packed = os.path.join(self.root, "meta.tar"), os.path.join(self.root, "meta")
        with open(os.path.join(self.data, self.names[0]), "rb") as file:
            image = file.read()
        with tarfile.open(shard, "w") as tar:
            for name, data in (("__meta__/info.json", b"{}"), ("1.jpg", image), ("1.cls", b"0"),
                               ("2.jpg", image), ("2.cls", b"1")):
                about = tarfile.TarInfo(name)
                about.size = len(data)
                tar.addfile(about, io.BytesIO(data))
        pack(shard, packed)
        with self.serve(folder=packed) as server:
            data = tureen.DataSet("train", endpoint=server.endpoint)
            self.assertEqual((list(data.names), data.targets.tolist()), (["1.jpg", "2.jpg"], [0, 1]))
            self.assert_epochs(server.read(batch=2, epochs=1).finish(), 1, range(2))

    def test_batches_are_those_of_the_folder(self):
        """Byte for byte, with masks: from a pack, and from the folder that it was made of, served side by
        side."""
        masks = os.path.join(self.root, "masks")
        generator = np.random.default_rng(harness.SEED)
        for name in self.names:
            path = os.path.join(masks, os.path.splitext(name)[0] + ".png")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with Image.open(os.path.join(self.data, name)) as image:
                width, height = image.size
            Image.fromarray(generator.integers(0, 9, (height // 9 + 1, width // 9 + 1), np.uint8)).resize(
                (width, height), Image.NEAREST).save(path)
        packed = os.path.join(self.root, "pack-with-masks")
        pack("--field", "mask=mask:" + masks, self.data, packed)
        crop = [{"op": "random_resized_crop", "size": [32, 32], "scale": [0.3, 1], "ratio": [0.75, 1.3333]}]
        #  A list's shared stage is drawn from the server's seed, so there is no chance in it.
        fixed = [{"op": "decode", "fields": ["image", "mask"]}, {"op": "resize", "size": 40},
                 {"op": "center_crop", "size": 32}, {"share": True}, {"op": "flip", "p": 0.5},
                 {"op": "cast", "dtype": "float32"}]
        both = [{"op": "decode", "fields": ["image", "mask"]}, *crop, {"share": True},
                {"op": "flip", "p": 0.5}]
        given = plain_client.ids_list([5, 5, 399, 1, 0, 77, 5] + list(range(380, 400)))
        kinds = [({"order": "seeded", "seed": "77", "pipeline": both}, ()),
                 ({"order": "seeded", "seed": "78", "frames": ["subset"], "drop_last": True},
                  [plain_client.ids_ranges((3, 90), (200, 250))]),
                 ({"order": "list", "seed": "79", "frames": ["list"], "pipeline": fixed},
                  [given])]
        with Server({"pack": packed, "folder": self.data}, cache="16M", arguments=(
                "--raw", str(self.raw), "--field", "folder.mask=mask:" + masks)) as server:
            described = {dataset["name"]: dataset for dataset in server.status()["datasets"]}
            for key in ("samples", "fields", "labels", "classes", "bytes"):
                self.assertEqual(described["pack"][key], described["folder"][key], key)
            self.assertIsNone(described["folder"]["pack"])
            for keys, frames in kinds:
                self.assertEqual(take(server, "pack", frames, **keys), take(server, "folder", frames, **keys))


class Figures(PackTest):
    def finish(self, server, *arguments, **options):
        self.assert_epochs(server.read(*arguments, **options).finish(), options["epochs"])
        return pack_status(server)

    def test_one_job_reads_what_it_needs_once(self):
        with self.serve("--piece", "train=8", raw=self.bytes // 2) as server:
            pack = self.finish(server, batch=16, epochs=3)
            self.assertEqual((pack["policy"], pack["piece_samples"], pack["volumes"]), ("stream", 8, 1))
            self.assertEqual(pack["bytes_handed"], 3 * self.bytes)
            #  Whole blocks at both ends of a piece, and a few samples between others that are in memory
            #  still.
            self.assertLess(pack["bytes_read"], 1.06 * pack["bytes_handed"])
            #  What an epoch ends with in the pool, the next one may begin with.
            self.assertGreaterEqual(pack["bytes_read"], pack["bytes_handed"] - 2 * (self.bytes // 2))
            self.assertAlmostEqual(pack["read_amplification"], pack["bytes_read"] / pack["bytes_handed"], 6)
            self.assertLess(pack["misses"], 20)
            text = server.status_text()
            self.assertIn("  a pack, stream in pieces of 8\n", text)
            self.assertIn("%.1f MB handed to workers (%.3f)\n" % (
                pack["bytes_handed"] / 1e6, pack["read_amplification"]), text)
            self.assertRegex(text, r"device \d+:\d+ \(train\) read by (io_uring|preadv).*, \d+ at once; "
                             r"measured: \d+ us, \d+ MB/s ")

    def test_single_reads_are_counted(self):
        with self.serve() as server:
            read = server.read(batch=16, epochs=0, order="seeded", seed=5)
            wait_until("an epoch", lambda: read.delivered() > self.SAMPLES)
            job = server.status()["jobs"][0]
            self.assertGreaterEqual(job["single_reads"], self.SAMPLES)
            self.assertAlmostEqual(job["single_bytes"] / job["single_reads"], self.bytes / self.SAMPLES,
                                   delta=0.2 * self.bytes / self.SAMPLES)

    def test_what_fits_is_read_once(self):
        with self.serve(raw=3 * self.bytes) as server:
            job = server.read(batch=16, epochs=0)
            wait_until("an epoch", lambda: job.delivered() > self.SAMPLES)
            read = pack_status(server)["bytes_read"]
            self.assertLess(read, 1.1 * self.bytes)
            wait_until("more of them", lambda: job.delivered() > 4 * self.SAMPLES)
            pack = pack_status(server)
            self.assertEqual(pack["bytes_read"], read)
            self.assertEqual((pack["resident_samples"], pack["resident_bytes"]), (self.SAMPLES, self.bytes))

    def test_reads_and_piece_are_as_set(self):
        with self.serve("--reads", "3", "--piece", "train=2") as server:
            self.finish(server, batch=16, epochs=1)
            status = server.status()
            self.assertEqual((status["reads_max"], status["datasets"][0]["pack"]["piece_samples"]), (3, 2))


    def test_pieces_follow_when_memory_is_divided_anew(self):
        """A pack's pool shrinks as private jobs come, and grows as they go: pieces are at most a 32nd of it
        all the while."""
        def check(tier):
            pool = tier["resident_bytes_max"] * self.SAMPLES / self.bytes
            self.assertLessEqual(tier["piece_samples"], max(1, pool / 32), tier)
            return tier["resident_bytes_max"]

        with self.serve(raw=self.bytes) as server:
            shared = server.read(batch=16, epochs=0)
            wait_until("the shared job", lambda: shared.delivered() > 50)
            alone = check(pack_status(server))
            self.assertIsNone(server.status()["jobs"][0]["tier"])
            private = [server.read(batch=16, epochs=0, order="private") for _ in range(3)]
            wait_until("the private jobs", lambda: min(job.delivered() for job in private) > 50)
            status = server.status()
            beside = check(status["datasets"][0]["pack"])
            self.assertAlmostEqual(beside, alone / 4, delta=10)
            tiers = [job["tier"] for job in status["jobs"] if job["order"] == "private"]
            self.assertEqual([check(tier) for tier in tiers], [beside] * 3)
            self.assertEqual(server.status_text().count("      a pool of its own: "), 3)
            for job in private:
                job.signal(signal.SIGTERM)
            wait_until("their end", lambda: pack_status(server)["resident_bytes_max"] == alone)
            check(pack_status(server))

    def test_a_small_pack_takes_no_more_than_its_bytes(self):
        few = os.path.join(self.root, "few")
        data = os.path.join(few, "data", "class")
        os.makedirs(data)
        for name in self.names[:20]:
            shutil.copy(os.path.join(self.data, name), data)
        size = pack(os.path.join(few, "data"), os.path.join(few, "pack"))
        with Server({"train": self.packed, "few": os.path.join(few, "pack")}, cache="16M",
                    arguments=("--raw", str(self.bytes))) as server:
            jobs = [server.read(batch=16, epochs=0, dataset=name) for name in ("train", "few")]
            wait_until("both", lambda: min(job.delivered() for job in jobs) > 100)
            large, small = (pack_status(server, index)["resident_bytes_max"] for index in range(2))
            self.assertEqual(small, size)
            self.assertAlmostEqual(large, server.status()["raw_bytes_max"] * 3 / 4 - size, delta=10)


class Tiny(PackTest):
    """Pieces that are smaller than what lies between chunks."""
    SAMPLES = 1000

    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="tu-packs-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        generator = np.random.default_rng(harness.SEED)
        os.makedirs(os.path.join(cls.root, "data", "class"))
        for number in range(cls.SAMPLES):
            Image.fromarray(generator.integers(0, 256, (4, 4), np.uint8)).save(
                os.path.join(cls.root, "data", "class", "%04d.png" % number))
        cls.packed = os.path.join(cls.root, "pack")
        pack(os.path.join(cls.root, "data"), cls.packed)

    def test_tiny_samples_in_little_memory(self):
        for raw in ("2K", "64K", "8M"):
            with self.serve("--piece", "train=64", raw=raw) as server:
                jobs = [server.read(batch=64, epochs=2, pipeline='[{"op":"center_crop","size":2}]',
                                    order=order)
                        for order in ("shared", "private")]
                for job in jobs:
                    self.assert_epochs(job.finish(), 2)


class Memory(PackTest):
    COPIES = 10
    CACHE, RAW = 8 << 20, 4 << 20

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        many = os.path.join(cls.root, "many")
        for copy in range(cls.COPIES):
            shutil.copytree(cls.data, os.path.join(many, "copy_%02d" % copy), copy_function=os.link)
        for copy in range(cls.COPIES):          # a class folder holds files
            folder = os.path.join(many, "copy_%02d" % copy)
            for name in os.listdir(folder):
                for file in os.listdir(os.path.join(folder, name)):
                    os.rename(os.path.join(folder, name, file), os.path.join(folder, file))
                os.rmdir(os.path.join(folder, name))
        cls.many = os.path.join(cls.root, "many-packed")
        pack(many, cls.many)
        shutil.rmtree(many)
        cls.SAMPLES *= cls.COPIES
        cls.bytes *= cls.COPIES

    @classmethod
    def tearDownClass(cls):
        cls.SAMPLES = PackTest.SAMPLES

    def serve_many(self, **options):
        return self.serve(folder=self.many, raw=self.RAW, cache=str(self.CACHE), **options)

    SMALL = '[{"op":"random_resized_crop","size":[32,32]},{"share":true}]'

    def read_file(self, path):
        with open(path) as file:
            return file.read()

    def run_jobs(self, server):
        jobs = [server.read(batch=32, epochs=1, pipeline=self.SMALL),
                server.read(batch=32, epochs=1, pipeline=self.SMALL),
                server.read(batch=32, epochs=1, pipeline=self.SMALL, order="private")]
        for job in jobs:
            self.assert_epochs(job.finish(), 1)

    def test_memory_is_what_the_options_say(self):
        self.assertGreater(self.bytes, 6 * self.RAW)
        with self.serve_many() as server:
            if harness.is_sanitized(server.pid):
                self.skipTest("a sanitizer's memory is no measure")
            before = harness.process_number(server.pid, "VmRSS") << 10
            #  The peak from now on: what the start takes for a moment is no job's.
            with open("/proc/%d/clear_refs" % server.pid, "w") as file:
                file.write("5")
            self.run_jobs(server)
            peak = harness.process_number(server.pid, "VmHWM") << 10
            rings = 3 * 4 * 32 * 32 * 32 * 3
            slack = 8 << 20                     # decoders, threads' stacks, messages
            print("memory: %.1f MB at start, %.1f at most; %.1f of data"
                  % (before / 1e6, peak / 1e6, self.bytes / 1e6))
            self.assertLess(peak - before, self.CACHE + self.RAW + rings + slack)

    def test_under_a_limit_of_the_system(self):
        group = "/sys/fs/cgroup/memory/tureen-test-%d" % os.getpid()
        limit, name = 64 << 20, "memory.limit_in_bytes"
        if not os.path.exists("/sys/fs/cgroup/memory"):
            group, name = "/sys/fs/cgroup/tureen-test-%d" % os.getpid(), "memory.max"
        try:
            os.mkdir(group)
            self.addCleanup(os.rmdir, group)
            with open(os.path.join(group, name), "w") as file:
                file.write(str(limit))
        except OSError as error:
            print("SKIPPED: no control group of memory can be made: %s" % error, flush=True)
            self.skipTest("no control group")
        enter = ("sh", "-c", 'echo $$ > %s/cgroup.procs; exec "$@"' % group, "sh")
        with self.serve_many(wrapper=enter) as server:
            if harness.is_sanitized(server.pid):
                self.skipTest("a sanitizer's memory is no measure")
            self.assertIn(str(server.pid), self.read_file(os.path.join(group, "cgroup.procs")).split())
            self.run_jobs(server)
        wait_until("the group is empty", lambda: not self.read_file(os.path.join(group, "cgroup.procs")))


class Damage(PackTest):
    def flip(self, folder, *offsets):
        with open(os.path.join(folder, VOLUME), "r+b") as file:
            for at in offsets:
                file.seek(at)
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes([byte ^ 0x10]))

    def chunk_of(self, number):
        """From its place among all."""
        return sorted(self.places()).index(self.places()[number]) // 64

    def assert_bad(self, server, ids):
        status = server.status()["datasets"][0]
        self.assertEqual(status["bad_samples"], len(ids))
        for entry in status["bad"]:
            self.assertIn(entry["id"], ids)
            self.assertIn(self.names[entry["id"]], entry["reason"])
        return {entry["id"]: entry["reason"] for entry in status["bad"]}

    def test_bytes_that_change_cost_their_samples(self):
        folder, places = self.copy_of_pack(), self.places()
        bad = [3, 200, 399]
        rest = [number for number in range(self.SAMPLES) if number not in bad]
        with self.serve(folder=folder) as server:
            self.flip(folder, places[3][0], places[200][0] + places[200][1] // 2,
                      places[399][0] + places[399][1] - 1)
            jobs = [server.read(batch=16, epochs=3), server.read(batch=16, epochs=3, order="private"),
                    server.plain(join={"dataset": "train", "batch_size": 16, "epochs": 3},
                                 labels=self.labels),
                    server.read(batch=16, epochs=3, seed=3)]
            for job in jobs:
                self.assert_epochs(job.finish(), 3, rest)
            for number, reason in self.assert_bad(server, bad).items():
                self.assertIn("its bytes in the pack are damaged (volume 0, chunk %d)"
                              % self.chunk_of(number), reason)
            self.assertRegex(server.status_text(), r"unreadable: id 200, .*00200\.jpg: its bytes in the pack "
                             r"are damaged")

    def test_rows_that_change_cost_nothing(self):
        """The points in a JPEG's rows lie behind it; it is decoded without them, to the same pixels."""
        folder = self.copy_of_pack()
        job = {"seed": 3, "order": "seeded", "epochs": 1}
        with self.serve(folder=folder) as server:
            expected = take(server, "train", **job)
        with self.serve(folder=folder) as server:
            self.flip(folder, *[at + length for at, length in self.places()[:300]])
            self.assertEqual(take(server, "train", **job), expected)
            self.assertEqual(server.status()["bad_samples"], 0)
        verified = harness.run("verify", folder)
        self.assertEqual(verified.returncode, 1)
        self.assertEqual(verified.stdout.count("where its rows begin does not match its checksum"), 300)

    def test_bytes_that_change_end_jobs_where_that_is_asked(self):
        folder, places = self.copy_of_pack(), self.places()
        with self.serve("--on-bad", "train=fail", folder=folder) as server:
            self.flip(folder, places[200][0] + 5)
            job = server.read(batch=16, epochs=3)
            self.assertEqual(job.wait(), 1)
            self.assertIn("00200.jpg: its bytes in the pack are damaged (volume 0, chunk %d)"
                          % self.chunk_of(200), job.texts()[1])
            wait_until("the job is gone", lambda: not server.status()["jobs"])
            self.assert_epochs(server.read(batch=16, epochs=1, subset="201:400").finish(), 1, range(201, 400))

    def test_a_volume_that_is_cut_costs_what_is_behind(self):
        folder, places = self.copy_of_pack(), self.places()
        cut = sorted(places)[len(places) * 2 // 3][0] + 100
        rest = [number for number, (at, size) in enumerate(places) if at + size <= cut]
        crop = '[{"op":"resize","size":40},{"op":"center_crop","size":32}]'
        keys = {"batch_size": 1, "epochs": 1, "pipeline": json.loads(crop)}
        with Server({"train": folder, "folder": self.data}, cache="16M",
                    arguments=("--raw", str(self.raw))) as server:
            os.truncate(os.path.join(folder, VOLUME), cut)
            jobs = [server.read(batch=16, epochs=2), server.read(batch=16, epochs=2, order="private")]
            pixels = {ids[0]: fields for _, ids, fields in take(server, "train", **keys)[1]}
            expected = {ids[0]: fields for _, ids, fields in take(server, "folder", **keys)[1]}
            self.assertEqual(pixels, {number: expected[number] for number in rest})
            for job in jobs:
                self.assert_epochs(job.finish(), 2, rest)
            bad = [number for number in range(self.SAMPLES) if number not in rest]
            for reason in self.assert_bad(server, bad).values():
                self.assertRegex(reason, r"\(volume 0, chunk \d\)")
                self.assertIn("shrank", reason)

    def test_a_volume_that_is_removed_is_read_on(self):
        folder = self.copy_of_pack()
        with self.serve(folder=folder) as server:
            shutil.rmtree(folder)
            self.assert_epochs(server.read(batch=16, epochs=2).finish(), 2)

    def test_damage_that_was_there_before(self):
        folder, places = self.copy_of_pack(), self.places()
        self.flip(folder, places[17][0] + 1)
        with self.serve("--tier", "train=direct", folder=folder) as server:
            self.assert_epochs(server.read(batch=16, epochs=1).finish(), 1,
                               [number for number in range(self.SAMPLES) if number != 17])
            self.assert_bad(server, [17])


class Refusals(PackTest):
    def refused(self, *arguments, folder=None):
        """What `serve` says and ends with."""
        done = harness.run("serve", "--dataset", "train=%s" % (folder or self.packed), "--listen",
                           "ipc://%s/never.sock" % self.root, "--cache", "16M", *arguments)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.root, "never.sock")))
        return done.stderr

    def test_too_little_memory_is_refused_with_a_figure_that_does(self):
        for tier in ("stream", "redox", "direct"):
            said = self.refused("--raw", "1000", "--tier", "train=" + tier)
            found = re.search(r"start with --raw (\d+)", said)
            self.assertTrue(found, said)
            with self.serve("--tier", "train=" + tier, raw=found.group(1)) as server:
                jobs = [server.read(batch=16, epochs=2), server.read(batch=16, epochs=2)]
                for job in jobs:
                    self.assert_epochs(job.finish(), 2)
            self.assertIn("too few", self.refused("--raw", str(int(found.group(1)) - 16), "--tier",
                                                  "train=" + tier))

    def test_reads_over_ends_of_chunks_have_room_with_little_memory(self):
        """Chunks of 64 samples of 65 bytes take two blocks, nearly half of them padding."""
        data, packed = os.path.join(self.root, "short", "data"), os.path.join(self.root, "short", "pack")
        os.makedirs(os.path.join(data, "class"))
        for number in range(self.SAMPLES):
            with open(os.path.join(data, "class", "%03d.bin" % number), "wb") as file:
                file.write(bytes([number % 251]) * 65)
        pack("--extensions", ".bin", data, packed)
        with self.serve("--piece", "train=16", folder=packed, raw=20000) as server:
            operations = ("--pipeline", '[{"op": "decode", "as": "bytes", "length": 65}]')
            for arguments in ((), ("--order", "seeded", "--pool", "64")):
                self.assert_epochs(server.read(*operations, *arguments, batch=16, epochs=2).finish(), 2)

    def test_empty_files_are_bad_samples_and_no_more(self):
        """In a pack of which most files are empty, so that whole pieces are; and in one that has nothing
        else."""
        for name, full in (("some", 40), ("none", 0)):
            data, packed = os.path.join(self.root, name, "data"), os.path.join(self.root, name, "pack")
            os.makedirs(os.path.join(data, "class"))
            for number in range(self.SAMPLES):
                with open(os.path.join(data, "class", "%03d.bin" % number), "wb") as file:
                    file.write(b"12345" if number < full else b"")
            pack("--extensions", ".bin", data, packed)
            with self.serve(folder=packed) as server:
                job = server.read("--pipeline", '[{"op": "decode", "as": "bytes", "length": 5}]', batch=16,
                                  epochs=1)
                if full:
                    self.assert_epochs(job.finish(), 1, range(full))
                else:
                    self.assertEqual(job.wait(harness.PATIENCE), 1)
                self.assertEqual(len(server.status()["datasets"]), 1)

    def test_settings_of_packs_are_refused_for_folders(self):
        for arguments in (("--tier", "train=stream"), ("--piece", "train=4")):
            said = self.refused(*arguments, folder=self.data)
            self.assertIn("tureen pack", said)
            self.assertIn("'train'", said)

    def test_fields_of_a_pack_are_its_own(self):
        said = self.refused("--field", "train.mask=mask:" + self.data)
        self.assertIn("pack", said)

    def test_what_is_no_whole_pack_is_refused(self):
        folder = self.copy_of_pack()
        os.remove(os.path.join(folder, VOLUME))
        said = self.refused(folder=folder)
        self.assertIn(VOLUME, said)
        shutil.copy(os.path.join(self.packed, VOLUME), folder)
        for at in (0, 8, 100, os.path.getsize(os.path.join(folder, INDEX)) - 1):
            shutil.copy(os.path.join(self.packed, INDEX), folder)
            with open(os.path.join(folder, INDEX), "r+b") as file:
                file.seek(at)
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes([byte ^ 1]))
            self.assertIn(INDEX, self.refused(folder=folder))
        os.truncate(os.path.join(folder, INDEX), 1000)
        self.assertIn(INDEX, self.refused(folder=folder))
        os.truncate(os.path.join(folder, VOLUME), 100000)
        shutil.copy(os.path.join(self.packed, INDEX), folder)
        self.assertIn(VOLUME, self.refused(folder=folder))

    def test_an_unfinished_pack_is_refused(self):
        random = harness.seeded(self.id())
        for _ in range(50):
            folder = os.path.join(self.root, "unfinished")
            shutil.rmtree(folder, ignore_errors=True)
            process = subprocess.Popen([harness.TUREEN, "pack", "--quiet", "--memory", "1M", self.data,
                                        folder],
                                       stderr=subprocess.DEVNULL)
            time.sleep(random.uniform(0, 0.1))
            process.kill()
            process.wait()
            if os.path.isdir(folder) and os.listdir(folder) and not os.path.exists(os.path.join(folder,
                    INDEX)):
                break
        else:
            self.skipTest("it was never caught in the middle")
        said = self.refused(folder=folder)
        self.assertIn("not finished", said)
        self.assertIn("--resume", said)

    def test_private_jobs_beyond_the_memory_are_refused(self):
        #  A group needs a whole piece: what the cost model chooses for the first ones would decide how many
        #  there can be.
        raw = 12 * self.largest
        with self.serve("--piece", "train=1", raw=raw) as server:
            jobs, said = [server.read(batch=8, epochs=0)], None
            while not said:
                self.assertLess(len(jobs), 50)
                job = server.read(batch=8, epochs=0, order="private")
                wait_until("it runs or is refused", lambda: job.delivered() > 0
                           or job.process.poll() is not None)
                if job.process.poll() is None:
                    jobs.append(job)
                else:
                    said = job.texts()[1]
            found = re.search(r"there are (\d+): start the server with --raw (\d+)", said)
            self.assertTrue(found, said)
            self.assertEqual(int(found.group(1)), raw)
            self.assertGreater(int(found.group(2)), raw)
            self.assertGreater(len(jobs), 2)
            before = [job.delivered() for job in jobs]
            wait_until("the others go on", lambda: all(job.delivered() > had + 100 for job,
                                                       had in zip(jobs, before)))
        with self.serve("--piece", "train=1", raw=found.group(2)) as server:
            more = [server.read(batch=8, epochs=1, order="private" if index else "shared")
                    for index in range(len(jobs) + 1)]
            for job in more:
                self.assert_epochs(job.finish(), 1)


#   ---- a kernel that refuses io_uring

NO_RING = """
import ctypes, os, struct, sys
#  io_uring_setup (425 everywhere) is EPERM, all else goes.
code = b"".join(struct.pack("HBBI", *line) for line in (
    (0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)))
memory = ctypes.create_string_buffer(code, len(code))
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
program = Program(4, ctypes.addressof(memory))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(program), 0, 0):
    sys.exit("no seccomp: %s" % os.strerror(ctypes.get_errno()))
os.execv(sys.argv[1], sys.argv[1:])
"""


class WithoutRing(PackTest):
    def test_preadv_does_as_well(self):
        wrapper = ("/usr/bin/python3", "-c", NO_RING)
        if subprocess.run([*wrapper, "/bin/true"], stderr=subprocess.DEVNULL).returncode:
            print("SKIPPED: this system has no seccomp filters", flush=True)
            self.skipTest("no seccomp")
        folder = self.copy_of_pack()
        with self.serve(folder=folder, wrapper=wrapper) as server:
            mode = "preadv (io_uring: Operation not permitted)"
            self.assertIn("packs are read by " + mode, server.log())
            self.assertEqual(server.status()["reading"], mode)
            jobs = [server.read(batch=16, epochs=2), server.read(batch=16, epochs=2, order="private"),
                    server.read(batch=16, epochs=2, seed=8)]
            for job in jobs:
                self.assert_epochs(job.finish(), 2)
            with open(os.path.join(folder, VOLUME), "r+b") as file:
                file.seek(self.places()[9][0])
                file.write(b"\0")
            self.assert_epochs(server.read(batch=16, epochs=1).finish(), 1,
                               [number for number in range(self.SAMPLES) if number != 9])
        #  Files of a folder, too
        with Server({"train": self.data}, cache="16M", wrapper=wrapper) as server:
            self.assertIn("files are read by " + mode, server.log())
            self.assert_epochs(server.read(batch=16, epochs=1).finish(), 1)


class Untouched(PackTest):
    def test_serving_leaves_a_pack_as_it_was(self):
        folder = self.copy_of_pack()
        before = contents(folder)
        with self.serve(folder=folder) as server:
            self.assert_epochs(server.read(batch=16, epochs=1).finish(), 1)
            job = server.read(batch=16, epochs=0)
            wait_until("it runs", lambda: job.delivered() > 100)        # and the server ends under it
        self.assertEqual(contents(folder), before)


if __name__ == "__main__":
    unittest.main()

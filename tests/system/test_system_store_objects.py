"""Buckets with one object for each sample: what a job gets from them is what it gets from the same files in a
folder, whatever the network and the store's lists do."""
import bisect
import fcntl
import json
import os
import shutil
import tempfile
import unittest

from PIL import Image

from harness import Server, files_below, run
from object_store import Fault
from test_system_packs import take
from test_system_stores import KEY, SECRET, StoreTest

PLACE = "my photos/train"
ADDRESS = "s3://bucket/" + PLACE


class ObjectsTest(StoreTest):
    ADDRESS = ADDRESS

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.objects = os.path.join(cls.root, "bucket", PLACE)
        shutil.copytree(cls.data, cls.objects)
        classes = sorted(os.listdir(cls.objects))
        #  Names that an address and a list have to write in another way, and that sort by their parts alone.
        os.rename(os.path.join(cls.objects, classes[0]), os.path.join(cls.objects, "a+b %2F&<ü>"))
        below = os.path.join(cls.objects, classes[1], "and below")
        os.mkdir(below)
        for name in sorted(os.listdir(os.path.dirname(below)))[1:20]:
            os.rename(os.path.join(os.path.dirname(below), name), os.path.join(below, name))
        os.rename(os.path.join(cls.objects, classes[2]), os.path.join(cls.objects, classes[1] + " b"))
        with open(os.path.join(cls.objects, "README"), "w") as file:
            file.write("no sample\n")

    def setUp(self):
        super().setUp()
        self.store.page = 7

    def objects_asked_for(self):
        return [request.name for request in self.store.requests
                if request.name.startswith("bucket/" + PLACE) and request.status == 206]


class Epochs(ObjectsTest):
    def test_the_same_samples_as_from_a_folder(self):
        job = dict(seed=5, epochs=2)
        with self.serve({"train": self.objects}) as server:
            expected = take(server, "train", **job)
        with self.serve({"train": ADDRESS}) as server:
            self.assertEqual(take(server, "train", **job), expected)
            self.assertIn("libcurl/", server.status()["devices"][0]["reading"])

    def test_one_get_for_each_sample(self):
        with self.serve({"train": ADDRESS}) as server:
            self.assert_epochs(self.read(server, epochs=3).finish(), 3)
            self.assert_epochs(self.read(server, epochs=1, seed=4).finish(), 1)
        self.assertLess(len(self.objects_asked_for()), 4.2 * self.SAMPLES + 20)      # one in twenty again

    def test_labels_and_masks(self):
        """Lists that name objects, and a field with objects below another address."""
        listed, masks = (os.path.join(self.root, "bucket", name) for name in ("listed", "masks"))
        paths = [os.path.relpath(os.path.join(folder, name), self.objects)
                 for folder, _, names in os.walk(self.objects) for name in names if name != "README"][:60]
        for path in paths:
            mask = os.path.join(masks, os.path.splitext(path)[0] + ".png")
            for made in (os.path.join(listed, path), mask):
                os.makedirs(os.path.dirname(made), exist_ok=True)
            shutil.copy(os.path.join(self.objects, path), os.path.join(listed, path))
            with Image.open(os.path.join(self.objects, path)) as image:
                image.convert("L").save(mask)
        self.addCleanup(shutil.rmtree, listed)
        self.addCleanup(shutil.rmtree, masks)
        job = dict(seed=5, epochs=1, batch_size=10)
        for name, lines in (("labels.tsv", ["path\tnumber"] + ["%s\t%d" % (path, index) for index, path in
                                                               enumerate(paths)]),
                            ("labels.jsonl", [json.dumps({"path": path, "text": "t%d" % index})
                                              for index, path in enumerate(paths)])):
            with self.subTest(name=name):
                file_name = os.path.join(listed, name)
                with open(file_name, "w") as file:
                    file.write("\n".join(lines) + "\n")
                got = []
                for top, beside in ((listed, masks), ("s3://bucket/listed", "s3://bucket/masks")):
                    arguments = ["--field", "train.other=mask:" + beside]
                    with self.serve({"train": top}, arguments=arguments) as server:
                        got.append(take(server, "train", **job))
                        self.assertEqual(len(server.status()["datasets"]), 1)
                self.assertEqual(got[0], got[1])
                os.remove(file_name)

    def test_pages_of_a_list_that_fail(self):
        for fault in (Fault("status", 503, "SlowDown", "?list", 5),
                      Fault("reset", name="?list", times=5, after=9),
                      Fault("short", name="?list", times=5, after=9)):
            with self.subTest(kind=fault.kind):
                self.store.faults.append(fault)
                with self.serve({"train": ADDRESS}) as server:
                    self.assert_epochs(self.read(server, epochs=1).finish(), 1)
                self.assertEqual(fault.met, fault.times)


class Passing(ObjectsTest):
    def serve(self, datasets=None, **options):
        return super().serve(datasets or {"train": ADDRESS}, **options)

    def test_what_passes(self):
        for fault in (Fault("status", 503, "SlowDown", PLACE, 15), Fault("status", 500, "Internal", PLACE, 6),
                      Fault("reset", name=PLACE, times=12, after=100),
                      Fault("short", name=PLACE, times=12, after=0),
                      Fault("status", 403, "ExpiredToken", PLACE, 8),
                      Fault("slow", name=PLACE, times=2, after=9)):
            with self.subTest(kind=fault.kind, status=fault.status):
                self.assert_outlived(fault)

    def test_an_object_that_changes(self):
        """The job ends with its name; no byte of the new one is used."""
        name = sorted(os.listdir(os.path.join(self.objects, "a+b %2F&<ü>")))[0]
        path = os.path.join(self.objects, "a+b %2F&<ü>", name)
        before = os.stat(path)
        with self.serve(arguments=["--patience", "2"]) as server:
            os.utime(path)
            reader = self.read(server)
            reader.wait()
            output, errors = reader.texts()
            self.assertIn("storage", errors + output)
            self.assertIn(name, server.log())
            self.assertIn("is not the one that the server found at its start", errors + output)
            self.assertEqual(server.status()["bad_samples"], 0)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def test_versions_that_are_written_otherwise(self):
        """A weak version is no condition and is compared; quotes and weakness may differ between a list and
        an answer.  A file that changes is seen by each."""
        name = sorted(os.listdir(os.path.join(self.objects, "a+b %2F&<ü>")))[0]
        path = os.path.join(self.objects, "a+b %2F&<ü>", name)
        before = os.stat(path)
        for listed, is_weak, is_weakened in (('W/"%s"', True, False), ('W/"%s"', False, False),
                                             ("W/%s", False, False), ("%s", False, False),
                                             ('"%s"', False, True), ("%s", False, True)):
            self.store.listed_version = listed
            self.store.has_weak_versions, self.store.are_weakened_on_the_way = is_weak, is_weakened
            with self.subTest(listed=listed, is_weak=is_weak, is_weakened=is_weakened), \
                    self.serve(arguments=["--patience", "2"]) as server:
                self.assert_epochs(self.read(server, epochs=1).finish(), 1)
                os.utime(path)
                reader = self.read(server)
                reader.wait()
                self.assertIn("is not the one that the server found at its start", "".join(reader.texts()))
                self.assertEqual(server.status()["bad_samples"], 0)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def test_an_object_that_changes_where_conditions_do_not_count(self):
        """A store that does not know If-Match, and one without versions: a larger object is another one."""
        path = os.path.join(self.objects, "a+b %2F&<ü>", "00000.jpg")
        before, kept = os.stat(path), open(path, "rb").read()
        self.store.heeds_versions = False
        for has_versions in (True, False):
            self.store.gives_versions = has_versions
            with self.subTest(has_versions=has_versions), self.serve() as server:
                with open(path, "wb") as file:
                    file.write(kept + b"more")
                reader = self.read(server)
                reader.wait()
                said = "".join(reader.texts())
                self.assertIn("is not the one that the server found at its start", said)
                self.assertEqual(server.status()["bad_samples"], 0)
            with open(path, "wb") as file:
                file.write(kept)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def test_an_object_without_bytes(self):
        path = os.path.join(self.objects, "a+b %2F&<ü>", "empty.jpg")
        with open(path, "w"):
            pass
        self.addCleanup(os.remove, path)
        with self.serve() as server:
            result = self.read(server, epochs=1).finish()
            bad = [entry["id"] for entry in server.status()["datasets"][0]["bad"]]
            self.assertEqual(len(bad), 1)
            self.assert_epochs(result, 1, [id for id in range(self.SAMPLES + 1) if id not in bad])

    def test_many_at_once(self):
        """As many GETs are under way as the latency asks for."""
        self.store.latency = .1
        with self.serve() as server:
            self.assert_epochs(self.read(server, epochs=3).finish(), 3)
        begun = sorted(request.began for request in self.store.requests)
        #  Each takes the latency at least, so these were under way together.
        together = max(bisect.bisect_left(begun, moment + self.store.latency) - place
                       for place, moment in enumerate(begun))
        self.assertGreaterEqual(together, 4)


class Kept(ObjectsTest):
    """In the cache on the local disk."""

    def setUp(self):
        super().setUp()
        self.folder = os.path.join(tempfile.mkdtemp(dir=self.root), "blocks")

    def serve(self, size="16M", arguments=(), **options):
        return super().serve({"train": ADDRESS}, arguments=["--disk", "%s=%s" % (self.folder, size),
                                                            *arguments], **options)

    def counts(self):
        names = [request.name for request in self.store.requests]
        self.store.requests.clear()
        return sum("?list" in name for name in names), sum(name.endswith(".jpg") for name in names)

    def test_objects_and_list_are_fetched_once(self):
        job = dict(seed=5, epochs=1)
        with Server({"train": self.objects}, cache="4M") as server:
            expected = take(server, "train", **job)
        with self.serve(expect_clean=False) as server:
            self.assertEqual(take(server, "train", **job), expected)
            first = server.status()["datasets"][0]["objects"]
            lists, gets = self.counts()
            self.assertTrue(lists > 5 and self.SAMPLES <= gets < self.SAMPLES + 20, (lists, gets))
            self.assertEqual(first["gets"], gets)
            self.assert_epochs(self.read(server, epochs=2).finish(), 2)
            status = server.status()["datasets"][0]
            self.assertLess(status["objects"]["gets"], gets + 20)
            self.assertGreater(status["objects"]["block_cache_bytes"],
                               first["block_cache_bytes"] + first["source_bytes"])
            self.assertGreater(status["objects"]["block_cache_held"], first["source_bytes"])
            self.assertIn("from the local disk", server.status_text())
            server.kill()
        self.counts()
        with self.serve() as server:
            self.assertIn("its objects were listed at 20", server.log())
            self.assertEqual(take(server, "train", **job), expected)
        self.assertEqual(self.counts(), (0, 0))

    def test_damage_is_fetched_again(self):
        job = dict(seed=5, epochs=1)
        with self.serve() as server:
            expected = take(server, "train", **job)
        for folder, _, names in os.walk(self.folder):
            if "data" in names:
                path = os.path.join(folder, "data")
                with open(path, "r+b") as file:
                    for place in range(100, min(os.stat(path).st_size, 1 << 21), 40960):
                        file.seek(place)
                        file.write(b"damage")
        self.counts()
        with self.serve() as server:
            self.assertEqual(take(server, "train", **job), expected)
            self.assertEqual(server.status()["bad_samples"], 0)
        lists, gets = self.counts()
        self.assertTrue(lists > 5 and 10 < gets < self.SAMPLES, (lists, gets))

    def test_what_is_new_is_seen_when_listed_anew(self):
        with self.serve():
            pass
        source = os.path.join(self.objects, "a+b %2F&<ü>")
        path = os.path.join(source, "new.jpg")
        shutil.copy(os.path.join(source, sorted(os.listdir(source))[0]), path)
        self.addCleanup(os.remove, path)
        with self.serve() as server:
            self.assertEqual(server.status()["datasets"][0]["samples"], self.SAMPLES)
        with self.serve(arguments=["--listing", "train=anew"]) as server:
            self.assertEqual(server.status()["datasets"][0]["samples"], self.SAMPLES + 1)
        with self.serve() as server:
            self.assertEqual(server.status()["datasets"][0]["samples"], self.SAMPLES + 1)

    def refusal(self):
        done = run("serve", "--dataset", "train=s3://bucket/later", "--listen", "ipc://%s/socket" % self.root,
                   "--disk", self.folder + "=16M", environment=self.store.environment(KEY))
        self.assertEqual(done.returncode, 1, done.stderr)
        return done.stderr

    def test_a_list_that_was_of_no_use_is_not_kept(self):
        """What is there is seen when it is there, and what was wrong when it is mended."""
        later = os.path.join(self.root, "bucket", "later")
        self.addCleanup(shutil.rmtree, later, ignore_errors=True)
        self.assertIn("there is nothing", self.refusal())
        shutil.copytree(self.data, later)
        os.mkdir(os.path.join(later, "zzz"))
        with open(os.path.join(later, "zzz", "notes"), "w") as file:
            file.write("x")
        self.assertIn("remove the folder", self.refusal())
        shutil.rmtree(os.path.join(later, "zzz"))
        arguments = ["--disk", self.folder + "=16M"]
        with StoreTest.serve(self, {"train": "s3://bucket/later"}, arguments=arguments):
            pass
        #  A list that was of use, and is old: what it names has gone.
        labels = os.path.join(later, "labels.tsv")
        for line in ("class_0/none.jpg", sorted(files_below(later))[0]):
            with open(labels, "w") as file:
                file.write("path\tlabel\n%s\t1\n" % line)
            if "none" not in line:
                with StoreTest.serve(self, {"train": "s3://bucket/later"},
                                     arguments=[*arguments, "--listing", "train=anew"]) as server:
                    self.assertEqual(server.status()["datasets"][0]["samples"], 1)
        with open(labels, "w") as file:
            file.write("path\tlabel\n%s\t2\n%s\t2\n" % tuple(sorted(files_below(self.data))[:2]))
        with StoreTest.serve(self, {"train": "s3://bucket/later"}, arguments=arguments) as server:
            self.assertEqual(server.status()["datasets"][0]["samples"], 2)

    def test_an_object_that_is_replaced(self):
        """The job is told how the server finds the new one, and so it is."""
        path = os.path.join(self.objects, "a+b %2F&<ü>", "00000.jpg")
        before = os.stat(path)
        self.addCleanup(os.utime, path, ns=(before.st_atime_ns, before.st_mtime_ns))
        with self.serve():
            os.utime(path)
        with self.serve() as server:
            reader = self.read(server)
            reader.wait()
            self.assertIn("--listing train=anew", "".join(reader.texts()))
        with self.serve(arguments=["--listing", "train=anew"]) as server:
            self.assert_epochs(self.read(server).finish(), 2)

    def test_another_process_that_has_the_lock(self):
        """What cannot be kept is not kept; reads go on."""
        with self.serve() as server:
            usage = os.open(os.path.join(self.folder, "usage"), os.O_RDWR)
            fcntl.flock(usage, fcntl.LOCK_EX)
            self.assert_epochs(self.read(server, epochs=1).finish(), 1)
            os.close(usage)
            self.assert_epochs(self.read(server, epochs=1).finish(), 1)
            self.assertGreater(server.status()["datasets"][0]["objects"]["block_cache_held"], 500000)

    def test_sizes_beyond_any_bound(self):
        """A store that tells nonsense makes bad samples, no more."""
        self.store.listed_sizes = {"00001.jpg": 1 << 63, "00002.jpg": (1 << 64) - 1}
        with self.serve() as server:
            result = self.read(server, epochs=2).finish()
            bad = [entry["id"] for entry in server.status()["datasets"][0]["bad"]]
            self.assertGreaterEqual(len(bad), 2)
            self.assert_epochs(result, 2, [id for id in range(self.SAMPLES) if id not in bad])

    def test_a_part_of_the_data(self):
        """A full cache keeps what it has; the rest comes from the store in each epoch."""
        with self.serve(size="1M") as server:
            self.assert_epochs(self.read(server, epochs=1).finish(), 1)
            _, all_gets = self.counts()
            self.assert_epochs(self.read(server, epochs=1).finish(), 1)
            held = server.status()["datasets"][0]["objects"]["block_cache_held"]
            self.assertLessEqual(held, 1 << 20)
        _, gets = self.counts()
        self.assertTrue(20 < gets < .9 * all_gets, (gets, all_gets, held))


class Packing(ObjectsTest):
    def test_a_pack_of_objects_is_the_pack_of_the_files(self):
        """Though the store is busy now and then and connections break."""
        folder = tempfile.mkdtemp(dir=self.root)
        packed, back = os.path.join(folder, "pack"), os.path.join(folder, "back")
        expected = run("pack", "--quiet", "--json", self.objects, os.path.join(folder, "other"))
        self.assertEqual(expected.returncode, 0, expected.stderr)
        self.store.faults += [Fault("status", 503, "SlowDown", ".jpg", 40),
                              Fault("reset", name=".jpg", times=20, after=100)]
        done = run("pack", "--quiet", "--json", ADDRESS, packed, environment=self.store.environment(KEY))
        self.assertEqual(done.returncode, 0, done.stderr)
        made, wanted = json.loads(done.stdout), json.loads(expected.stdout)
        self.assertEqual([made[key] for key in ("samples", "bytes")],
                         [wanted[key] for key in ("samples", "bytes")])
        self.assertEqual(run("unpack", packed, back).returncode, 0)
        files = files_below(self.objects)
        del files["README"]
        self.assertEqual(files_below(back), files)

    def test_weak_versions(self):
        """They are no condition of a read, whether the answers have them as well or only the list has."""
        self.store.listed_version = 'W/"%s"'
        for is_weak in (True, False):
            self.store.has_weak_versions = is_weak
            with self.subTest(is_weak=is_weak):
                target = os.path.join(tempfile.mkdtemp(dir=self.root), "pack")
                done = run("pack", "--quiet", "--json", ADDRESS, target,
                           environment=self.store.environment(KEY))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(json.loads(done.stdout)["samples"], self.SAMPLES)
                self.assertEqual(run("verify", "--quiet", target).returncode, 0)

    def test_a_store_that_stays_away(self):
        target = os.path.join(tempfile.mkdtemp(dir=self.root), "pack")
        self.store.faults.append(Fault("status", 503, "SlowDown", "00123.jpg"))
        done = run("pack", "--quiet", "--patience", "1", ADDRESS, target,
                   environment=self.store.environment(KEY))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("the store is busy", done.stderr)

    def test_an_object_that_changes_ends_it(self):
        target = os.path.join(tempfile.mkdtemp(dir=self.root), "pack")
        self.store.faults.append(Fault("status", 412, "PreconditionFailed", "00123.jpg"))
        done = run("pack", "--quiet", ADDRESS, target, environment=self.store.environment(KEY))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("00123.jpg", done.stderr)
        self.assertIn("the object is not the one that was there before", done.stderr)
        self.store.faults.clear()
        done = run("pack", "--quiet", "--resume", ADDRESS, target, environment=self.store.environment(KEY))
        self.assertEqual(done.returncode, 0, done.stderr)


class Refused(ObjectsTest):
    def assert_refused(self, address, *words, environment=None):
        done = run("serve", "--dataset", "train=" + address, "--listen", "ipc://%s/socket" % self.root,
                   environment=environment or self.store.environment(KEY))
        self.assertEqual(done.returncode, 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertNotIn(SECRET, done.stderr + done.stdout)

    def test_keys_that_are_no_paths(self):
        """They are named before an object is read, to serve and to pack."""
        path = os.path.join(self.objects, "README")
        for key in ("a/../1.jpg", "a/./1.jpg", "../x/1.jpg", "./1.jpg", "a/b/.."):
            self.store.listed_also = {PLACE + "/" + key: path}
            self.store.requests.clear()
            with self.subTest(key=key):
                words = "the object '%s' below '%s' has '.' or '..' as a part of its key" % (key, ADDRESS)
                self.assert_refused(ADDRESS, words)
                done = run("pack", "--quiet", ADDRESS, os.path.join(self.root, "refused"),
                           environment=self.store.environment(KEY))
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(words, done.stderr)
                self.assertEqual(self.objects_asked_for(), [])
        #  An empty part is a folder's name to serve, and to pack it is none.
        self.store.listed_also = {PLACE + "/a//1.jpg": path}
        done = run("pack", "--quiet", ADDRESS, os.path.join(self.root, "refused"),
                   environment=self.store.environment(KEY))
        self.assertIn("the object 'a//1.jpg' below '%s' has an empty part ('//') of its key" % ADDRESS,
                      done.stderr)
        self.assertEqual(self.objects_asked_for(), [])

    def test_what_is_no_data(self):
        self.assert_refused("s3://bucket/nothing", "there is nothing at 's3://bucket/nothing'")
        self.assert_refused("s3://no-bucket/x", "NoSuchBucket")
        self.store.keys = None
        self.assert_refused(self.store.url + "/bucket/nothing", "does not list its files",
                            environment={"AWS_EC2_METADATA_DISABLED": "true"})
        self.store.keys = {KEY: SECRET}
        self.store.faults.append(Fault("status", 403, "AccessDenied", "?list"))
        self.assert_refused(ADDRESS, "403 AccessDenied", "s3:ListBucket")
        self.store.faults[:] = [Fault("wrong", name="?list")]
        self.assert_refused(ADDRESS, "the answer is no list of objects")
        self.store.faults.clear()
        for fault in ("circle", "itself"):
            self.store.list_fault = fault
            self.assert_refused(ADDRESS, "the answer is no list of objects", "lists its objects")
        self.store.list_fault = None
        flat = tempfile.mkdtemp(dir=os.path.join(self.root, "bucket"))
        self.addCleanup(shutil.rmtree, flat)
        with open(os.path.join(flat, "labels.tsv"), "w") as file:
            file.write("path\tlabel\nnot there.jpg\t1\n")
        self.assert_refused("s3://bucket/" + os.path.basename(flat),
                            "labels.tsv:2: there is no file 'not there.jpg'")
        os.remove(os.path.join(flat, "labels.tsv"))
        with open(os.path.join(flat, "a.jpg"), "w") as file:
            file.write("x")
        self.assert_refused("s3://bucket/" + os.path.basename(flat), "no class folders")
        os.mkdir(os.path.join(flat, "class"))
        with open(os.path.join(flat, "class", "notes.txt"), "w") as file:
            file.write("x")
        self.assert_refused("s3://bucket/" + os.path.basename(flat), "no image in 1 of the 1 class folders")
        #  A class of one image is not empty, in front of an empty one and behind it.
        for name in ("a", "z"):
            os.mkdir(os.path.join(flat, name))
            os.link(os.path.join(flat, "a.jpg"), os.path.join(flat, name, "1.jpg"))
        self.assert_refused("s3://bucket/" + os.path.basename(flat), "no image in 1 of the 3 class folders",
                            "'class'")


if __name__ == "__main__":
    unittest.main()

"""Splits of one data set on one server: a class has one label in all of them, or a warning says that it has
not."""
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zlib

import harness
import plain_client
from harness import Server, run
from object_store import ObjectStore
from test_system_packs import take

sys.path.insert(0, os.path.join(harness.SOURCE, "clients", "python"))
import tureen

LABEL_BYTES = 8


def label(number):
    return zlib.crc32(number.to_bytes(LABEL_BYTES, "little"))


class ClassesTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="tu-classes-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        made = os.path.join(self.root, "made")
        harness.make_folder(made, 1, seed=harness.SEED)
        self.image = next(os.path.join(folder, name) for folder, _, names in os.walk(made) for name in names)
        self.make("train", ("0", "180", "270", "90"))
        self.make("val", ("0", "270", "90"))
        os.mkdir(self.path("val", "180"))

    def path(self, *parts):
        return os.path.join(self.root, *parts)

    def make(self, name, classes):
        for number, folder in enumerate(classes):
            os.makedirs(self.path(name, folder))
            shutil.copy(self.image, self.path(name, folder, "%d.jpg" % number))

    def serve(self, *arguments, train="train", val="val", **options):
        return Server({"train": self.path(train), "val": val if "://" in val else self.path(val)}, cache="8M",
                      arguments=arguments, **options)

    def labels(self, server, name):
        """Of all samples, in the order of their ids."""
        _, taken = take(server, name, epochs=1, batch_size=1)
        return [fields["label"] for _, _, fields in sorted(taken, key=lambda batch: list(batch[1]))]

    def fingerprint(self, server):
        job = plain_client.Job(server.endpoint, harness.PATIENCE)
        job.join(dataset="val", batch_size=1, epochs=1)
        found = job.joined["fingerprint"]
        job.leave()
        job.close()
        return found

    def refused(self, *arguments):
        done = run("serve", "--dataset", "train=" + self.path("train"),
                   "--dataset", "val=" + self.path("val"), "--listen",
                   "ipc://" + self.path("socket"), *arguments)
        self.assertNotEqual(done.returncode, 0)
        return done.stderr


class Splits(ClassesTest):
    def test_an_empty_class_stays(self):
        words = self.refused()
        self.assertIn("'180': remove the folder or add images", words)
        self.assertIn("keep it as a class (--allow-empty)", words)
        with self.serve("--allow-empty", "val=yes") as server:
            self.assertEqual(self.labels(server, "val"), [label(number) for number in (0, 2, 3)])
            self.assertNotIn("warning", server.log())
            self.assertEqual([found["classes"] for found in server.status()["datasets"]], [4, 4])
            for name in ("train", "val"):
                self.assertEqual(tureen.DataSet(name, endpoint=server.endpoint).class_to_idx,
                                 {"0": 0, "180": 1, "270": 2, "90": 3})

    def test_in_a_configuration(self):
        settings = self.path("server.zpl")
        with open(settings, "w") as file:
            file.write("allow-empty\n    val = yes\n")
        with self.serve("--config", settings) as server:
            self.assertEqual(self.labels(server, "val"), [label(number) for number in (0, 2, 3)])

    def test_labels_by_names(self):
        os.rmdir(self.path("val", "180"))
        #  val comes first: that of the names is opened before it.
        with Server({"val": self.path("val"), "train": self.path("train")}, cache="8M",
                    arguments=["--classes-from", "val=train"]) as server:
            self.assertEqual(self.labels(server, "val"), [label(number) for number in (0, 2, 3)])
            self.assertEqual(self.labels(server, "train"), [label(number) for number in range(4)])
            self.assertNotIn("warning", server.log())
            self.assertEqual([found["classes"] for found in server.status()["datasets"]], [4, 4])

    def test_what_labels_by_names_refuse(self):
        os.rename(self.path("val", "180"), self.path("val", "360"))
        self.assertIn("data set 'val': '360' is no class of '%s'" % self.path("train"),
                      self.refused("--classes-from", "val=train"))
        self.assertIn("there is no data set 'test'; there is: train, val",
                      self.refused("--classes-from", "val=test"))
        self.assertIn("it names itself", self.refused("--classes-from", "val=val"))
        self.assertIn("goes by the classes of", self.refused(
            "--classes-from", "val=train", "--classes-from", "train=val"))
        with open(self.path("train", "labels.tsv"), "w") as file:
            file.write("path\tlabel\n0/0.jpg\t1\n")
        self.assertIn("has no class folders and no names of classes, by which labels could be numbered",
                      self.refused("--classes-from", "val=train"))

    def test_a_warning_where_classes_differ(self):
        os.rmdir(self.path("val", "180"))
        with self.serve() as server:
            words = [line for line in server.log().splitlines() if "warning" in line]
            self.assertEqual(len(words), 1, words)
            for word in ("data sets 'train' and 'val' do not have the same classes", "'val' has no '180'",
                         "the label of '270' is 2 in 'train' and 1 in 'val'", "--allow-empty val=yes",
                         "--classes-from val=train"):
                self.assertIn(word, words[0])
            warning = words[0].partition("warning: ")[2]
            self.assertEqual([found["warnings"] for found in server.status()["datasets"]], [[warning]] * 2)
            self.assertEqual(server.status_text().count("\n  warning: " + warning + "\n"), 2)
        self.make("more", ("0", "270", "90", "a", "b", "c", "d", "e"))
        with self.serve(val="more") as server:
            self.assertIn("; 'train' has no 'a', 'b', 'c' and 2 more; 'val' has no '180'; the label of '270' "
                          "is 2 in 'train' and 1 in 'val': make an empty folder of each class that is "
                          "missing (--allow-empty train=yes)\n", server.log())
        self.make("other", ("cat", "dog", "fox"))
        with self.serve(val="other") as server:
            self.assertNotIn("warning", server.log())

    def test_packs(self):
        done = run("pack", "--quiet", self.path("val"), self.path("pack"))
        self.assertIn("--allow-empty", done.stderr)
        done = run("pack", "--quiet", "--allow-empty", self.path("val"), self.path("pack"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(run("verify", self.path("pack")).returncode, 0)
        with self.serve("--allow-empty", "val=yes") as server:
            folder = self.fingerprint(server)
        with self.serve(val="pack") as server:
            self.assertEqual(self.labels(server, "val"), [label(number) for number in (0, 2, 3)])
            self.assertEqual(self.fingerprint(server), folder)
        os.rmdir(self.path("val", "180"))
        self.assertEqual(run("pack", "--quiet", self.path("val"), self.path("less")).returncode, 0)
        with self.serve(val="less") as server:
            #  Other labels, other data: a state of one does not go on with the other.
            self.assertNotEqual(self.fingerprint(server), folder)
        with self.serve("--classes-from", "val=train", val="less") as server:
            self.assertEqual(self.labels(server, "val"), [label(number) for number in (0, 2, 3)])

    def pack_numbers(self, name, numbers, classes):
        """A pack of samples of these classes, by a tar file of theirs and their names."""
        with open(self.path(name + ".names"), "w") as file:
            file.write("".join(one + "\n" for one in classes))
        with tarfile.open(self.path(name + ".tar"), "w") as tar:
            for index, number in enumerate(numbers):
                tar.add(self.image, "%d.jpg" % index)
                about = tarfile.TarInfo("%d.cls" % index)
                about.size = len(str(number))
                tar.addfile(about, io.BytesIO(str(number).encode()))
        return run("pack", "--quiet", "--classes", self.path(name + ".names"), self.path(name + ".tar"),
                   self.path(name))

    def test_names_of_numbers(self):
        for name in ("train", "val"):
            shutil.rmtree(self.path(name))
        self.assertEqual(self.pack_numbers("train", (0, 1, 2), ("ape", "cat", "dog")).returncode, 0)
        self.assertEqual(self.pack_numbers("val", (0, 1, -1), ("dog", "cat")).returncode, 0)
        self.assertEqual(self.pack_numbers("other", (0, 1, -1), ("cat", "dog")).returncode, 0)
        twice = self.pack_numbers("twice", (0, 1), ("dog", "cat", "dog"))
        self.assertEqual(twice.returncode, 1)
        self.assertIn("the classes 0 and 2 are both called 'dog'", twice.stderr)
        for names, why in (("/dev/null", "(it is empty)"), (self.path("no"), "(No such file or directory)")):
            self.assertIn(why, run("pack", "--classes", names, self.path("val"), self.path("no")).stderr)
        self.assertFalse(os.path.exists(self.path("twice")))
        minus = zlib.crc32(b"\xff" * LABEL_BYTES)
        with self.serve() as server:
            self.assertIn("'val' has no 'ape'; the label of 'dog' is 2 in 'train' and 0 in 'val'",
                          server.log())
            self.assertEqual(self.labels(server, "val"), [label(0), label(1), minus])
            own = self.fingerprint(server)
        with self.serve("--classes-from", "val=train") as server:
            self.assertEqual(self.labels(server, "val"), [label(2), label(1), minus])
            self.assertEqual(self.labels(server, "train"), [label(0), label(1), label(2)])
        #  Other names of the same numbers are other data.
        with self.serve(val="other") as server:
            self.assertNotEqual(self.fingerprint(server), own)
        self.assert_comes_back("val", own)

    def assert_comes_back(self, name, fingerprint):
        done = run("unpack", "--quiet", self.path(name), self.path("again"))
        self.assertIn("the pack has names of 2 classes, which no file tells: --classes FILE", done.stdout)
        names, back = self.path("again.names"), self.path("back")
        done = run("unpack", "--quiet", "--classes", names, self.path(name), back)
        self.assertEqual((done.returncode, done.stdout.count("--classes")), (0, 0), done.stderr)
        with open(names) as file:
            self.assertEqual(file.read(), "dog\ncat\n")
        self.assertIn("a new file", run("unpack", "--quiet", "--classes", names, self.path(name),
                                        self.path("no")).stderr)
        full = subprocess.run(["prlimit", "--fsize=1", harness.TUREEN, "unpack", "--quiet", "--classes",
                               names + ".full", self.path(name), self.path("no")],
                              capture_output=True, text=True, timeout=harness.PATIENCE)
        self.assertIn("(File too large)", full.stderr)
        self.assertFalse(os.path.exists(names + ".full"))
        with tarfile.open(self.path("again.tar"), "w") as tar:
            for member in sorted(os.listdir(back)):
                tar.add(os.path.join(back, member), member)
        self.assertEqual(run("pack", "--quiet", "--classes", names, self.path("again.tar"),
                             self.path("twin")).returncode, 0)
        for pack in (name, "twin"):
            verified = run("verify", "--quiet", "--json", self.path(pack))
            self.assertEqual(json.loads(verified.stdout)["fingerprint"], fingerprint)

    def test_a_folder_of_splits(self):
        """ROOT in place of ROOT/train: `train` and `val` are no classes."""
        words = ("'train' and 'val' in '%s' are splits" % self.root, "give '%s'" % self.path("train"),
                 "'%s' as another data set" % self.path("val"))
        shutil.rmtree(self.path("made"))
        for refused in (run("serve", "--dataset", "all=" + self.root, "--listen",
                            "ipc://" + self.path("socket")),
                        run("pack", "--quiet", self.root, self.path("pack"))):
            self.assertEqual(refused.returncode, 1)
            for word in words:
                self.assertIn(word, refused.stderr)
        #  A list is obeyed, with a warning.
        with open(self.path("all.txt"), "w") as file:
            file.write("train/0/0.jpg\nval/0/0.jpg\n")
        done = run("pack", "--quiet", self.path("all.txt"), self.path("pack"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("tureen pack: warning: 'train' and 'val' are splits by their names", done.stderr)
        with self.serve(val="pack") as server:
            self.assertIn("warning: data set 'val': 'train' and 'val' are splits by", server.log())

    def test_objects_of_a_store(self):
        os.makedirs(self.path("bucket"))
        shutil.copytree(self.path("val"), self.path("bucket", "val"))
        with open(self.path("bucket", "val", "180", "README"), "w") as file:
            file.write("none yet\n")
        with ObjectStore(self.root) as store:
            for setting in ("--allow-empty=val=yes", "--classes-from=val=train"):
                with self.subTest(setting=setting), \
                        self.serve(setting, val="s3://bucket/val", environment=store.environment()) as server:
                    self.assertEqual(self.labels(server, "val"), [label(number) for number in (0, 2, 3)])
            shutil.copytree(self.path("train"), self.path("bucket", "train"))
            done = run("pack", "--quiet", "s3://bucket", self.path("pack"), environment=store.environment())
            self.assertIn("'train' and 'val' in 's3://bucket' are splits", done.stderr)
            os.makedirs(self.path("bucket", "shards"))
            for name in ("00000.parquet", "00000.tar", "00000_stats.json"):
                shutil.copy(self.image, self.path("bucket", "shards", name))
            done = run("pack", "--quiet", "s3://bucket/shards", self.path("pack"),
                       environment=store.environment())
            self.assertIn("but tar files, as '00000.tar': make a pack of all, `tureen pack "
                          "s3://bucket/shards/{00000..00099}.tar PACK`", done.stderr)


if __name__ == "__main__":
    unittest.main()

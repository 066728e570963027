"""Files that are no good: dropped from the data, counted, named; every epoch is exactly the rest."""
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import warnings

from PIL import Image, features

import harness
import plain_client
from harness import SystemTest, np, wait_until

sys.path.insert(0, os.path.join(harness.SOURCE, "clients", "python"))
import tureen


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


class BadSamples(SystemTest):
    SAMPLES = 400

    def setUp(self):
        """A copy of the data in which some files are spoilt; self.bad: {id: a word of the reason}."""
        self.copy = tempfile.mkdtemp(prefix="tu-bad-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.copy, ignore_errors=True)
        self.spoilt = os.path.join(self.copy, "train")
        shutil.copytree(self.data, self.spoilt)
        self.bad = {}

    def path(self, number):
        return os.path.join(self.spoilt, "class_%d" % self.labels[number], "%05d.jpg" % number)

    def read_file(self, number):
        with open(self.path(number), "rb") as file:
            return file.read()

    def spoil_some(self):
        """Ids spread over the classes, the first and the last among them."""
        data = self.read_file(10)
        icon = os.path.join(self.copy, "x.ico")
        Image.open(self.path(11)).save(icon)
        with open(icon, "rb") as file:
            icon_bytes = file.read()
        for number, content in ((0, b""), (11, data[:len(data) // 2]), (12, data[:20]), (97, icon_bytes),
                                (98, b"This is text, not a picture.\n" * 20), (160, b"\xff\xd8\xff"),
                                (161, bytes(3000)), (250, data[:2]), (399, b"\xff")):
            write(self.path(number), content)
            self.bad[number] = os.path.basename(self.path(number))

    def rest(self):
        return [number for number in range(self.SAMPLES) if number not in self.bad]

    def assert_named(self, server, bad=None):
        """status has exactly the bad ones, each once, with its file's name; for people too."""
        bad = self.bad if bad is None else bad
        status, text = server.status(), server.status_text()
        dataset = status["datasets"][0]
        self.assertEqual(sorted(entry["id"] for entry in dataset["bad"]), sorted(bad))
        self.assertEqual((dataset["bad_samples"], status["bad_samples"]), (len(bad), len(bad)))
        for entry in dataset["bad"]:
            name = self.bad[entry["id"]]
            self.assertIn(name, entry["reason"])
            self.assertRegex(entry["reason"], r": .{4,}", "it says no reason")
            self.assertRegex(text, r"unreadable: id %d, .*%s" % (entry["id"], name))
        self.assertIn("%d unreadable" % len(bad), text)

    def serve_spoilt(self, **options):
        return harness.Server({"train": self.spoilt}, **options)

    def test_every_epoch_is_the_rest(self):
        self.spoil_some()
        with self.serve_spoilt(cache="4M") as server:
            jobs = [server.read(batch=32, epochs=3), server.loader(dataset="train", batch_size=32, epochs=3,
                                                                   labels=self.labels),
                    server.plain(join={"dataset": "train", "batch_size": 17, "epochs": 3},
                                 labels=self.labels),
                    server.plain(join={"dataset": "train", "batch_size": 32, "epochs": 2,
                                       "transport": "inline", "pipeline": "eval"}, labels=self.labels),
                    server.read(batch=32, epochs=2, order="private", recipe="eval")]
            for job, epochs in zip(jobs, (3, 3, 3, 2, 2)):
                self.assert_epochs(job.finish(), epochs, self.rest())
            self.assert_named(server)
            #  A job that comes later is told of fewer samples, and never meets the bad ones.
            job = server.plain(join={"dataset": "train", "batch_size": 32, "epochs": 1}, labels=self.labels)
            result = job.finish()
            self.assertEqual(result["samples"], len(self.rest()))
            self.assert_epochs(result, 1, self.rest())
            self.assert_named(server)
            for entry in server.status()["datasets"][0]["bad"]:
                self.assertIn(" bad_sample dataset=train sample={id}: sample {id} of data set 'train' cannot "
                              "be read: {reason}\n".format(**entry), server.log())

    def test_parts_lists_and_drop_last(self):
        self.spoil_some()
        order = [5, 97, 6, 98, 7, 7, 0, 399, 250, 200, 97]
        with self.serve_spoilt() as server:
            parts = server.read(batch=16, epochs=2, subset="90:170")
            listed = server.plain(join={"dataset": "train", "batch_size": 4, "epochs": 2, "order": "list"},
                                  list=order, labels=self.labels)
            ascending = server.loader(dataset="train", batch_size=32, epochs=2, order="list",
                                      labels=self.labels)
            self.assert_epochs(parts.finish(), 2, [number for number in range(90, 170)
                                                   if number not in self.bad])
            self.assertEqual(list(listed.finish()["epochs"].values()), [[5, 6, 7, 7, 200]] * 2)
            self.assertEqual(list(ascending.finish()["epochs"].values()), [self.rest()] * 2)
        with self.serve_spoilt() as server:
            result = server.read("--drop-last", batch=32, epochs=3).finish()
            for ids in result["epochs"].values():
                self.assertEqual(len(ids), len(set(ids)))
                self.assertEqual(len(ids) % 32, 0)
                self.assertFalse(set(ids) & set(self.bad))
            self.assertEqual(len(result["epochs"][2]), len(self.rest()) // 32 * 32)

    def test_nothing_can_be_read(self):
        self.bad = {number: "%05d.jpg" % number for number in range(20)}
        for number in self.bad:
            write(self.path(number), b"")
        with self.serve_spoilt() as server:
            result = harness.run("read", "--connect", server.endpoint, "--dataset", "train", "--subset",
                                 "0:20")
            self.assertEqual(result.returncode, 1)
            self.assertRegex(result.stderr, "read|status")
            job = plain_client.Job(server.endpoint)
            with self.assertRaises(plain_client.Refused) as caught:
                job.join([plain_client.ids_ranges((0, 20))], dataset="train", batch_size=4, frames=["subset"])
            self.assertEqual(caught.exception.code, "bad_request")
            job.close()
            self.assert_epochs(server.read(batch=32, epochs=2).finish(), 2, range(20, 400))
            self.assert_named(server)

    def read(self, server, *arguments):
        """Its exit status, its JSON, what it said on standard error."""
        result = harness.run("read", "--connect", server.endpoint, "--dataset", "train", "--batch", "32",
                             "--json", *arguments)
        return result.returncode, json.loads(result.stdout) if result.stdout else None, result.stderr

    def test_read_tells(self):
        self.spoil_some()
        with self.serve_spoilt() as server:
            for epochs in (2, 1):           # found by this job, and known when it comes
                status, result, errors = self.read(server, "--epochs", epochs)
                self.assertEqual(status, 3)
                self.assertEqual(errors.count("9 samples of this job's data cannot be read, and are left "
                                              "out: "), 1, errors)
                self.assertEqual(result["samples"], epochs * len(self.rest()))
                told = result["unreadable"]
                self.assertEqual(told["count"], len(self.bad))
                self.assertEqual(sorted(sample["id"] for sample in told["samples"]), sorted(self.bad))
                for sample in told["samples"]:
                    self.assertIn(self.bad[sample["id"]], sample["reason"])
            text = harness.run("read", "--connect", server.endpoint, "--dataset", "train", "--batch", "32")
            self.assertEqual(text.returncode, 3)
            self.assertIn("9 samples were left out, because they cannot be read:\n", text.stdout)
            self.assertRegex(text.stdout, r"\n  id 97, class_\d/00097.jpg: ")
            #  A job that allows samples to be missing has no error; one that does not has an error that names
            #  the first.
            self.assertEqual(self.read(server, "--on-bad", "drop")[0], 0)
            status, _, errors = self.read(server, "--on-bad", "fail")
            self.assertEqual(status, 1)
            self.assertRegex(errors, r"00000.jpg: .*sample 0 of data set 'train'; the job has on_bad "
                             r"fail.*bad_sample")
            #  Of data that have none, nothing is said.
            status, result, errors = self.read(server, "--subset", "20:90")
            self.assertEqual((status, result["unreadable"], errors), (0, {"count": 0, "samples": []}, ""))

    def test_a_job_may_say_itself_that_it_fails(self):
        self.spoil_some()
        with self.serve_spoilt() as server:
            status, _, errors = self.read(server, "--on-bad", "fail", "--order", "list")
            self.assertEqual(status, 1)
            self.assertRegex(errors, r"00000.jpg: .*\(bad_sample\)")
            self.assertEqual(self.read(server, "--on-bad", "fail", "--subset", "20:90")[0], 0)
        with self.serve_spoilt(arguments=["--on-bad", "train=fail"]) as server:
            self.assertEqual(self.read(server, "--on-bad", "drop", "--epochs", "2")[0], 0)
            self.assertEqual(self.read(server)[0], 1)

    def loader(self, server, **options):
        return tureen.Loader(server.endpoint, "train", 32, pipeline="train", **options)

    def test_python_tells(self):
        self.spoil_some()
        with self.serve_spoilt() as server, warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            loader = self.loader(server, epochs=3)
            self.assertEqual(len(loader), 3 * 13)
            epochs = {}
            for batch in loader:
                epochs.setdefault(batch.epoch, []).extend(batch.ids.tolist())
                if batch.epoch == 1:
                    self.assertEqual((loader.samples, len(loader)), (len(self.rest()), 3 * 13))
            for ids in epochs.values():
                self.assertEqual(sorted(ids), self.rest())
            #  Those that are found a second after the first warning, as on a loaded machine, get one more.
            self.assertEqual({warning.category for warning in told}, {tureen.UnreadableWarning},
                             list(map(str, told)))
            self.assertIn("9 samples of this job's data cannot be read", str(told[-1].message))
            self.assertEqual(told[0].filename, __file__)
            del told[:-1]
            unreadable = loader.stats()["unreadable"]
            self.assertEqual(unreadable["count"], 9)
            self.assertEqual(sorted(sample["id"] for sample in unreadable["samples"]), sorted(self.bad))
            #  Known when it joins: told again by another loader, and not by the same one, which tells that it
            #  goes through its epochs again.
            self.assertEqual(sum(1 for _ in loader), 3 * 13)
            self.assertEqual([warning.category for warning in told[1:]], [tureen.TureenWarning])
            del told[1:]
            other = self.loader(server, epochs=1, subset=range(90, 170))
            batches = sum(1 for _ in other)
            self.assertEqual((batches, len(other), other.samples), (3, 3, 76))
            self.assertIn("4 samples of this job's data", str(told[1].message))
            self.assertEqual(sum(1 for _ in self.loader(server, epochs=1, subset=range(20, 90))), 3)
            self.assertEqual(len(told), 2)
            with self.assertRaises(tureen.RequestRefused) as caught:
                next(iter(self.loader(server, on_bad="fail")))
            self.assertEqual(caught.exception.code, "bad_sample")
            loader.close()
            other.close()

    def test_python_of_batches_that_become_fewer(self):
        """`len` is what comes, from the epoch on that begins behind the one in which they were found."""
        for number in range(0, 40):
            write(self.path(number), b"")
        with self.serve_spoilt() as server, warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", tureen.UnreadableWarning)
            for options in ({}, {"order": "list"}, {"seed": 3}, {"drop_last": True}):
                loader = self.loader(server, epochs=3, **options)
                of_epoch = {}
                for batch in loader:
                    of_epoch[batch.epoch] = of_epoch.get(batch.epoch, 0) + 1
                    if batch.epoch == 1 and batch.index == 0:
                        said = len(loader)
                self.assertEqual(said, 3 * (11 if "drop_last" in options else 12))
                self.assertEqual((of_epoch[1], of_epoch[2]), (said // 3, said // 3))
                loader.close()

    def test_ended_unreadable(self):
        for number in range(8):
            write(self.path(number), b"")
        with self.serve_spoilt() as server:
            job = plain_client.Job(server.endpoint)
            job.join([plain_client.ids_ranges((0, 8))], dataset="train", batch_size=4, frames=["subset"])
            job.start()
            self.assertEqual(job.event().reason, "unreadable")
            job.close()
            wait_until("the job is gone", lambda: not server.status()["jobs"])

    def test_files_that_go_or_change_while_it_serves(self):
        with self.serve_spoilt(cache="4M") as server:
            self.assert_epochs(server.read(batch=32, epochs=1).finish(), 1)
            self.assertEqual(server.status()["bad_samples"], 0)
            os.remove(self.path(33))
            os.remove(self.path(399))
            write(self.path(34), self.read_file(35) + b"longer now")
            os.remove(self.path(200))
            os.mkdir(self.path(200))
            self.bad = {number: "%05d.jpg" % number for number in (33, 34, 200, 399)}
            self.assert_epochs(server.read(batch=32, epochs=2).finish(), 2, self.rest())
            self.assert_named(server)
            reasons = {entry["id"]: entry["reason"] for entry in server.status()["datasets"][0]["bad"]}
            self.assertIn("changed since", reasons[34])
            self.assertIn("No such file", reasons[33])

    def test_other_extensions(self):
        #  torchvision takes these files, so they have ids; no server reads an icon.
        first = os.path.join(self.spoilt, "class_0")
        Image.new("RGB", (80, 80)).save(os.path.join(first, "zz.bmp"), "ICO")
        shutil.copy(self.path(1), os.path.join(first, "zzz.JPEG"))      # JPEG whatever the case
        write(os.path.join(first, "notes.txt"), b"not a sample")
        number = self.labels.count(0)
        self.bad = {number: "zz.bmp"}
        with self.serve_spoilt() as server:
            result = server.read(batch=32, epochs=2).finish()
            self.assert_epochs(result, 2, [other for other in range(402) if other != number])
            self.assert_named(server)

    def test_names_that_would_move_a_terminal(self):
        name = "a\nb\x1b[2J.jpg"
        write(os.path.join(self.spoilt, "class_0", name), b"not a picture")
        self.bad = {self.labels.count(0): name}
        with self.serve_spoilt() as server:
            server.read(batch=32, epochs=1).finish()
            text = server.status_text()
            self.assertIn("unreadable: id %d, class_0/a\\x0ab\\x1b[2J.jpg: " % self.labels.count(0), text)
            self.assertNotIn("\x1b", text)

    def test_many_bad_are_counted_though_not_all_are_named(self):
        for number in range(300):
            write(self.path(number), b"")
        with self.serve_spoilt() as server:
            self.assert_epochs(server.read(batch=32, epochs=2).finish(), 2, range(300, 400))
            dataset = server.status()["datasets"][0]
            print("%d named of 300" % len(dataset["bad"]), flush=True)
            self.assertEqual(dataset["bad_samples"], 300)
            self.assertGreater(len(dataset["bad"]), 10)
            self.assertIn("300 unreadable", server.status_text())


def written(kind, image, **options):
    """The file that Pillow makes of it."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def pixels(data):
    """What Pillow reads."""
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


class Names(SystemTest):
    """Kinds that this build does not read are told at the start, before any job asks for one; the others are
    read whatever their names are."""
    SIZE = (40, 30)
    MAY_LACK = {"PNG": (".png",), "WebP": (".webp",), "TIFF": (".tif", ".tiff")}

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tu-names-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        told = subprocess.run([harness.TUREEN, "serve", "--help"], capture_output=True, text=True,
                              check=True).stdout
        self.lacking = [name for kind, names in self.MAY_LACK.items() if kind not in told for name in names]

    def fill(self, files):
        root = os.path.join(self.folder, "data")
        os.makedirs(os.path.join(root, "a"))
        for name, data in files.items():
            write(os.path.join(root, "a", name), data)
        return root

    def served(self, root):
        """{name: pixels} of the samples that come, {name: reason} of those that do not."""
        with harness.Server({"named": root}) as server, warnings.catch_warnings():
            warnings.simplefilter("ignore", tureen.UnreadableWarning)
            names = tureen.DataSet("named", endpoint=server.endpoint).names
            images, ids = {}, []
            for batch in tureen.Loader(server.endpoint, "named", 4, 1, order="list", pipeline=[
                    {"op": "center_crop", "size": self.SIZE[::-1]}]):
                ids += batch.ids.tolist()
                images.update((os.path.basename(names[number]), np.array(image))
                              for number, image in zip(batch.ids, batch["image"]))
            self.assertEqual(ids, sorted(ids))
            return images, {os.path.basename(names[entry["id"]]): entry["reason"]
                            for entry in server.status()["datasets"][0]["bad"]}

    def told(self, root):
        """What `tureen pack` and the server say"""
        done = subprocess.run([harness.TUREEN, "pack", "--quiet", root, root + "_pack"], capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = [done.stderr]
        for path in (root, root + "_pack"):
            with harness.Server({"named": path}) as server:
                said.append("".join(line for line in server.log().splitlines(True) if "as images" in line))
        return said

    def test_of_a_list(self):
        names = ["0.jpg", "1.bmp", "2.ppm", "3.gif", "4.avif", "5.HEIC", "6.avif", "7.webp", "8.tiff",
                 "9.png"]
        root = self.fill(dict.fromkeys(names, b"not looked at"))
        write(os.path.join(root, "labels.tsv"), "".join(
            line + "\n" for line in ["path\tlabel"] + ["a/%s\t1" % name for name in names]).encode())
        lacking = sum(os.path.splitext(name)[1] in self.lacking for name in names)
        for said in self.told(root):
            self.assertEqual(said.count("\n"), 1, said)
            self.assertIn("warning: ", said)
            self.assertIn("this build cannot read %d files as images: " % (3 + lacking), said)
            self.assertIn("2 '.avif', 1 '.heic'", said)
            self.assertIn("convert them, for example to PNG, or leave them out", said)

    def test_of_the_default_list(self):
        """Whatever of it is not told is read."""
        image = harness.make_image(np.random.default_rng(harness.SEED), *self.SIZE)
        grey = image.convert("L")
        files = {name: written(kind, source) for name, kind, source in (
            ("0.jpg", "JPEG", image), ("1.jpeg", "JPEG", grey), ("2.png", "PNG", grey),
            ("3.ppm", "PPM", image), ("4.bmp", "BMP", image), ("5.pgm", "PPM", grey),
            ("6.tif", "TIFF", image), ("7.tiff", "TIFF", grey), ("8.webp", "WEBP", image))}
        root = self.fill(files)
        for said in self.told(root):
            for name in self.lacking:
                self.assertIn("1 '%s' (that needs lib" % name, said)
            self.assertEqual("as images" in said, bool(self.lacking), said)
        for path in (root, root + "_pack"):
            images, _ = self.served(path)
            self.assertEqual(sorted(images), sorted(name for name in files
                                                    if os.path.splitext(name)[1] not in self.lacking))
            for name, got in images.items():
                np.testing.assert_array_equal(got, pixels(files[name]), name)

    def test_of_another_kind(self):
        """Pictures as they lie in sets from the web, all called .jpg: read, or named for what they are."""
        image, other = (Image.new("RGB", self.SIZE, colour) for colour in ((200, 10, 10), (0, 90, 200)))
        files = {kind: written(kind, image) for kind in ("BMP", "PPM", "PNG", "WEBP", "ICO", "TGA")}
        files["GIF"] = written("GIF", image, save_all=True, append_images=[other])
        files["AVIF"] = b"\0\0\0\x1cftypavif\0\0\0\0avifmif1miaf"
        named = {"ICO": "an icon (ICO)", "TGA": "a TGA image", "AVIF": "an AVIF image"}
        if features.check("jpg_2000"):
            files["JPEG2000"], named["JPEG2000"] = written("JPEG2000", image), "a JPEG 2000 image"
        named.update((kind.upper(), "a %s image" % kind) for kind, names in self.MAY_LACK.items()
                     if kind.upper() in files and names[0] in self.lacking)
        images, reasons = self.served(self.fill({kind + ".jpg": data for kind, data in files.items()}))
        self.assertEqual(sorted(images), sorted(kind + ".jpg" for kind in files if kind not in named))
        for name, got in images.items():
            np.testing.assert_array_equal(got, pixels(files[name[:-4]]), name)
        self.assertEqual(sorted(reasons), sorted(kind + ".jpg" for kind in named))
        for name, reason in reasons.items():
            self.assertIn("the file is %s (" % named[name[:-4]], reason)


if __name__ == "__main__":
    unittest.main(verbosity=2)

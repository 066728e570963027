"""`tureen verify` and `tureen unpack`, on packs of folders, lists and tar files, whole and damaged.

What is unpacked is compared with what was packed byte for byte; every kind of damage is made by hand and must
be named, with the samples that it costs and no others.  Orders are drawn from fixed seeds, so that nothing
here fails by chance.
"""
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import unittest

from PIL import Image

import harness
from harness import SORT_PACK, files_below


def make_tar(path, members, mode="w"):
    with tarfile.open(path, mode) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


class PackTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="tu-verify-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        self.random = harness.seeded(self.id())

    def path(self, name):
        return os.path.join(self.root, name)

    def write(self, name, data):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())

    def noise(self, most=3000):
        return self.random.getrandbits(8 * most).to_bytes(most, "little")[:self.random.randrange(most)]

    def folder(self, name, samples=200, classes=4, extension=".jpg"):
        """Class folders, one of them deeper; sorted by class as folders are."""
        for number in range(samples):
            deep = "deep/" if number % 7 == 0 else ""
            self.write("%s/c%d/%s%04d%s" % (name, number * classes // samples, deep, number, extension),
                       self.noise())

    def run_fine(self, *arguments):
        done = harness.run(*arguments)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def pack(self, target, *arguments):
        self.run_fine("pack", "--seed", harness.SEED, "--quiet", *arguments, self.path(target))
        return self.path(target)

    def verify(self, pack):
        done = harness.run("verify", "--json", pack)
        self.assertEqual(done.stderr, "")
        return done.returncode, json.loads(done.stdout)

    def unpack(self, pack, target):
        return self.run_fine("unpack", pack, self.path(target))


class RoundTrips(PackTest):
    def assert_repacks(self, pack, *arguments):
        """What was unpacked is packed again: the same data by the fingerprint."""
        again = self.pack("again", *arguments)
        (status, first), (_, second) = self.verify(pack), self.verify(again)
        self.assertEqual((status, first["damaged"], first["order"]["shuffled"]), (0, 0, True))
        self.assertEqual(second["fingerprint"], first["fingerprint"])

    def test_class_folders(self):
        self.folder("data")
        pack = self.pack("pack", self.path("data"))
        self.unpack(pack, "out")
        self.assertEqual(files_below(self.path("out")), files_below(self.path("data")))
        self.assert_repacks(pack, self.path("out"))

    def test_fields(self):
        self.folder("data", 100)
        for name in files_below(self.path("data")):
            self.write("masks/" + name[:-4] + ".png", self.noise())
        pack = self.pack("pack", "--field", "mask=mask:" + self.path("masks"), self.path("data"))
        self.unpack(pack, "out")
        self.assertEqual(files_below(self.path("out/image")), files_below(self.path("data")))
        self.assertEqual(files_below(self.path("out/mask")), files_below(self.path("masks")))
        self.assert_repacks(pack, "--field", "mask=mask:" + self.path("out/mask"), self.path("out/image"))

    def assert_labels_come_back(self, name, text):
        for number in range(60):
            self.write("data/d%d/%d.jpg" % (number % 3, number), self.noise(200))
        self.write("data/" + name, text)
        pack = self.pack("pack", self.path("data"))
        self.unpack(pack, "out")
        back = files_below(self.path("out"))
        wanted = files_below(self.path("data"))
        labels = [path for path in back if path.startswith("labels.")]
        self.assertEqual(len(labels), 1)
        del back[labels[0]], wanted[name]
        self.assertEqual(back, wanted)
        self.assert_repacks(pack, self.path("out"))
        return labels[0]

    def paths(self):
        return ["d%d/%d.jpg" % (number % 3, number) for number in self.random.sample(range(60), 60)]

    def test_tsv(self):
        lines = ["path\tlabel\tx\tbox\ttext"]
        for number, path in enumerate(self.paths()):
            x = ["nan", "-inf", "0.1", "1e300", "-0.0", "3", "4.9e-324"][number % 7]
            lines.append("%s\t%d\t%s\t%r,2.5\t%s" % (path, -2 ** 63 + number, x, self.random.random(),
                                                     ["", "12", "\u00e9 b", "1.5"][number % 4]))
        self.assertEqual(self.assert_labels_come_back("labels.tsv", "\n".join(lines) + "\n"), "labels.tsv")

    def test_jsonl(self):
        lines = [json.dumps({"path": path, "v": [number], "text": ["12", "7"][number % 2],
                             "more": "a\tb\n\"\u20ac", "real": [1.0, number, 1e-9]}) for number,
                                 path in enumerate(self.paths())]
        self.assertEqual(self.assert_labels_come_back("labels.jsonl", "\n".join(lines)), "labels.jsonl")

    def test_paths_alone(self):
        self.assert_labels_come_back("labels.tsv", "path\n" + "\n".join(self.paths()) + "\n")

    def test_list(self):
        self.folder("data", 90)
        names = sorted(files_below(self.path("data")), key=lambda name: name[::-1])
        self.write("data/list.txt", "\n".join(names) + "\n")
        pack = self.pack("pack", self.path("data/list.txt"))
        self.unpack(pack, "out")
        back = files_below(self.path("out"))
        self.assertEqual(back.pop("labels.tsv").decode().split(), ["path"] + names)
        os.remove(self.path("data/list.txt"))
        self.assertEqual(back, files_below(self.path("data")))
        self.assert_repacks(pack, self.path("out"))

    def shard(self, first, samples):
        members = []
        for number in range(first, first + samples):
            stem = "./k/%06d" % number
            parts = [(stem + ".jpg", self.noise()), (stem + ".seg.png", self.noise()),
                     (stem + ".cls", b"%d" % (number // 50)),
                     (stem + ".txt", ("text \u00fc %d" % number).encode())]
            self.random.shuffle(parts)
            members += parts
        return members

    def test_shards_in_every_compression(self):
        paths, wanted = [], {}
        for number, (ending, mode) in enumerate((("tar", "w"), ("tar.gz", "w:gz"), ("tar.xz", "w:xz"),
                                                 ("tar.bz2", "w:bz2"))):
            members = self.shard(number * 60, 60)
            paths.append(self.path("s%d.%s" % (number, ending)))
            make_tar(paths[-1], members, mode)
            wanted.update((os.path.normpath(name), data) for name, data in members)
        pack = self.pack("pack", "--mask", "seg.png", *paths)
        status, found = self.verify(pack)
        self.assertEqual((status, found["samples"], found["bytes"]), (0, 240, sum(map(len, wanted.values()))))
        self.assertIn("labels", found["order"]["figures"])
        self.unpack(pack, "out")
        self.assertEqual(files_below(self.path("out")), wanted)

    @unittest.skipUnless(shutil.which("zstd"), "no zstd")
    def test_zstd(self):
        make_tar(self.path("a.tar"), self.shard(0, 40))
        subprocess.run(["zstd", "-q", self.path("a.tar")], check=True)
        pack = self.pack("pack", self.path("a.tar.zst"))
        self.assertEqual(self.verify(pack)[1]["samples"], 40)

    def test_names_that_are_no_ascii(self):
        for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
            names = ["%s/%s%d.jpg" % (folder, "\u00fc" * 60, number)
                     for folder in ("a\u20ac", os.fsdecode(b"b\xff"))
                     for number in range(3)]
            with tarfile.open(self.path("a.tar"), "w", format=form, encoding="utf-8",
                              errors="surrogateescape") as tar:
                for name in names:
                    info = tarfile.TarInfo(name)
                    info.size = 5
                    tar.addfile(info, io.BytesIO(b"bytes"))
            pack = self.pack("pack", self.path("a.tar"))
            self.unpack(pack, "out")
            self.assertEqual(files_below(self.path("out")), dict.fromkeys(names, b"bytes"))
            for name in ("pack", "out"):
                shutil.rmtree(self.path(name))

    def test_class_sorted_tar(self):
        members = [("t/c%02d/%05d.jpg" % (number // 50, number), self.noise(100)) for number in range(1500)]
        make_tar(self.path("a.tar"), members)
        pack = self.pack("pack", self.path("a.tar"))
        status, found = self.verify(pack)
        self.assertEqual((status, found["order"]["shuffled"], len(found["order"]["figures"])), (0, True, 7))
        self.unpack(pack, "out")
        self.assertEqual(files_below(self.path("out")), dict(members))


class Damage(PackTest):
    SAMPLES = 300

    def setUp(self):
        super().setUp()
        self.folder("data", self.SAMPLES)
        self.good = self.pack("good", self.path("data"))
        self.volume = os.path.join(self.good, "volume-00000.tureen")
        self.status, self.found = self.verify(self.good)
        self.assertEqual(self.status, 0)

    def flip(self, name, at, bit=0):
        with open(os.path.join(self.good, name), "r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 1 << bit]))

    def volume_bytes(self):
        with open(self.volume, "rb") as file:
            return file.read()

    def places(self):
        """name: (offset, bytes) of every sample that is not empty and occurs once in the volume."""
        volume, places = self.volume_bytes(), {}
        for name, data in files_below(self.path("data")).items():
            if len(data) > 16 and volume.count(data) == 1:
                places[name] = volume.find(data), data
        return places

    def assert_unpack_leaves_out(self, names):
        done = harness.run("unpack", self.good, self.path("out"))
        self.assertEqual(done.returncode, 1)
        wanted = {name: data for name, data in files_below(self.path("data")).items() if name not in names}
        self.assertEqual(files_below(self.path("out")), wanted)
        for name in names:
            self.assertIn("'%s'" % name, done.stderr)
        self.assertIn("%d of %d samples are not back" % (len(names), self.SAMPLES), done.stderr)

    def test_bits_in_samples(self):
        places = self.places()
        hit = self.random.sample(sorted(places), 3)
        for name, where in zip(hit, (0, 0.5, 1)):
            offset, data = places[name]
            self.flip("volume-00000.tureen", offset + int(where * (len(data) - 1)), self.random.randrange(8))
        status, found = self.verify(self.good)
        self.assertEqual((status, found["damaged"], found["good"]), (1, 3, False))
        self.assertEqual(sorted(line["name"] for line in found["damage"]), sorted(hit))
        for line in found["damage"]:
            self.assertEqual((line["volume"], line["chunk"], line["field"]),
                             (0, line["place"] // 64, "image"))
        done = harness.run("verify", self.good)
        self.assertEqual(done.returncode, 1)
        for line in found["damage"]:
            self.assertIn("volume-00000.tureen: chunk %d: sample %d '%s': image: its bytes do not match "
                          "their checksum\n"
                          % (line["chunk"], line["id"], line["name"]), done.stdout)
        self.assertIn("BAD: ", done.stdout)
        self.assert_unpack_leaves_out(hit)

    def test_bits_in_rows(self):
        """Where the rows of a JPEG begin is damaged: verify says so, and the JPEG comes back."""
        image = io.BytesIO()
        pixels = self.random.getrandbits(8 * 3 * 200 * 150).to_bytes(3 * 200 * 150, "little")
        Image.frombytes("RGB", (200, 150), pixels).save(image, "JPEG")
        self.write("data/c0/photo.jpg", image.getvalue())
        self.good = self.pack("rows", self.path("data"))
        self.volume = os.path.join(self.good, "volume-00000.tureen")
        offset = self.volume_bytes().find(image.getvalue())
        self.flip("volume-00000.tureen", offset + len(image.getvalue()) + 3)
        status, found = self.verify(self.good)
        self.assertEqual((status, found["damaged"]), (1, 1))
        self.assertEqual((found["damage"][0]["name"], found["damage"][0]["field"]), ("c0/photo.jpg", "image"))
        self.assertIn("where its rows begin", found["damage"][0]["reason"])
        done = self.unpack(self.good, "out")
        self.assertIn("'c0/photo.jpg': image: where its rows begin", done.stderr)
        self.assertEqual(files_below(self.path("out")), files_below(self.path("data")))

    def test_labels_of_what_is_left_out(self):
        """A sample that does not come back has no line in the labels either."""
        names = sorted(files_below(self.path("data")))
        lines = [json.dumps({"path": name, "text": "a\tb"}) for name in names]
        self.write("data/labels.jsonl", "\n".join(lines).encode())
        self.good = self.pack("labelled", self.path("data"))
        self.volume = os.path.join(self.good, "volume-00000.tureen")
        hit, (offset, _) = sorted(self.places().items())[0]
        self.flip("volume-00000.tureen", offset)
        self.assertEqual(harness.run("unpack", self.good, self.path("out")).returncode, 1)
        with open(self.path("out/labels.jsonl"), encoding="utf-8") as file:
            told = sorted(json.loads(line)["path"] for line in file)
        self.assertEqual(told, [name for name in names if name != hit])

    def test_padding_is_harmless(self):
        self.flip("volume-00000.tureen", os.path.getsize(self.volume) - 1)
        status, found = self.verify(self.good)
        self.assertEqual((status, found["damaged"]), (0, 0))
        self.assertEqual(found["padding"], [{"volume": 0, "chunk": (self.SAMPLES - 1) // 64}])
        self.assertIn("no sample is harmed", self.run_fine("verify", self.good).stdout)

    def test_volume_headers(self):
        for at in (0, 20, 33, 100):
            self.flip("volume-00000.tureen", at)
            status, found = self.verify(self.good)
            self.assertEqual((status, found["damaged"], len(found["volumes"])), (1, 0, 1))
            self.assertIn("header", found["volumes"][0]["reason"])
            self.flip("volume-00000.tureen", at)
        other = self.pack("other", "--chunk", 128, self.path("data"))
        shutil.copy(os.path.join(other, "volume-00000.tureen"), self.volume)
        self.assertIn("another pack", self.verify(self.good)[1]["volumes"][0]["reason"])

    def test_short_and_long_volumes(self):
        places = self.places()
        size = os.path.getsize(self.volume)
        cut = places[self.random.choice(sorted(places))][0] + 3
        with open(self.volume, "ab") as file:
            file.write(b"more")
        status, found = self.verify(self.good)
        self.assertEqual((status, found["damaged"]), (1, 0))
        self.assertIn("%d bytes, not %d" % (size + 4, size), found["volumes"][0]["reason"])
        os.truncate(self.volume, cut)
        status, found = self.verify(self.good)
        lost = {name for name, (offset, data) in places.items() if offset + len(data) > cut}
        self.assertEqual(status, 1)
        self.assertIn("%d bytes, not %d" % (cut, size), found["volumes"][0]["reason"])
        named = {line["name"] for line in found["damage"]}
        self.assertEqual(named & set(places), lost)
        self.assertEqual({line["reason"] for line in found["damage"]}, {"its volume ends before it"})
        self.assert_unpack_leaves_out(named)

    def test_a_missing_volume(self):
        os.remove(self.volume)
        status, found = self.verify(self.good)
        self.assertEqual((status, found["damaged"], found["volumes"][0]["lost"]),
                         (1, self.SAMPLES, self.SAMPLES))
        done = harness.run("verify", self.good)
        self.assertIn("volume-00000.tureen: is missing (No such file or directory): all its 300 samples are "
                      "lost, chunks 0 to 4\n", done.stdout)
        os.mkdir(self.volume)
        self.assertIn("is not a file", self.verify(self.good)[1]["volumes"][0]["reason"])
        self.folder("even", 128)
        even = self.pack("whole-chunks", self.path("even"))
        os.remove(os.path.join(even, "volume-00000.tureen"))
        self.assertIn("all its 128 samples are lost, chunks 0 to 1\n", harness.run("verify", even).stdout)

    def test_the_index(self):
        size = os.path.getsize(os.path.join(self.good, "index.tureen"))
        for at in [0, 9, 40, 300, 1000] + [self.random.randrange(size) for _ in range(30)]:
            self.flip("index.tureen", at)
            status, found = self.verify(self.good)
            self.assertEqual((status, found["good"]), (1, False), at)
            self.assertIn("index.tureen", found["error"])
            done = harness.run("unpack", self.good, self.path("out"))
            self.assertEqual((done.returncode, os.path.exists(self.path("out"))), (1, False))
            self.flip("index.tureen", at)
        os.remove(os.path.join(self.good, "index.tureen"))
        status, found = self.verify(self.good)
        self.assertEqual(status, 1)
        self.assertIn("not its index.tureen", found["error"])

    @unittest.skipUnless(os.path.exists(SORT_PACK), "sort_pack has not been built")
    def test_an_order_that_is_no_shuffle(self):
        os.mkdir(self.path("sorted"))
        subprocess.run([SORT_PACK, self.good, self.path("sorted")], check=True)
        status, found = self.verify(self.path("sorted"))
        self.assertEqual((status, found["damaged"], found["order"]["shuffled"]), (1, 0, False))
        self.assertEqual(found["fingerprint"], self.found["fingerprint"])
        done = harness.run("verify", self.path("sorted"))
        for word in ("order: NO SHUFFLE", "correlation  1, ", "order not shuffled"):
            self.assertIn(word, done.stdout)
        self.unpack(self.path("sorted"), "out")         #  the samples are all there
        self.assertEqual(files_below(self.path("out")), files_below(self.path("data")))


class Commands(PackTest):
    def assert_unusable(self, says, *arguments):
        done = harness.run(*arguments)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"\Atureen %s: [^\n]*%s[^\n]*\n\Z" % (arguments[0], says))

    def test_help(self):
        for command in ("verify", "unpack"):
            done = self.run_fine(command, "--help")
            self.assertIn("tureen %s /packs/train" % command, done.stdout)
            self.assertIn("Exit status: 0", done.stdout)

    def test_unusable(self):
        self.folder("data", 10)
        pack = self.pack("pack", self.path("data"))
        self.assert_unusable("no pack; give the folder", "verify")
        self.assert_unusable("more than one pack", "verify", pack, pack)
        self.assert_unusable("unknown option '--wrong'", "verify", "--wrong", pack)
        self.assert_unusable("there is no folder", "verify", self.path("missing"))
        self.assert_unusable("is no pack", "verify", self.path("data"))
        self.assert_unusable("give a pack and a folder", "unpack", pack)
        self.assert_unusable("is not empty", "unpack", pack, self.path("data"))
        self.assert_unusable("is not empty", "unpack", pack, pack)
        self.assert_unusable("cannot open the folder", "unpack", pack, self.path("data/c0/0001.jpg"))
        self.assert_unusable("cannot make the folder", "unpack", pack, self.path("missing/out"))
        self.assert_unusable(r"/x' \(Not a directory\): check", "verify", self.path("data/c0/0001.jpg/x"))

    def test_few_samples_are_not_judged(self):
        self.folder("data", 10)
        status, found = self.verify(self.pack("pack", self.path("data")))
        self.assertEqual((status, found["order"]["shuffled"]), (0, None))

    def test_what_cannot_be_written_is_no_answer(self):
        self.folder("data", 10)
        pack = self.pack("pack", self.path("data"))
        with open("/dev/full", "w") as full:
            done = subprocess.run([harness.TUREEN, "verify", pack], stdout=full, stderr=subprocess.PIPE,
                                  timeout=harness.PATIENCE)
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    unittest.main()

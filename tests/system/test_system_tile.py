"""`tureen pack --tile`: the pixels and metadata of every file, the same pack however it was made, and what is
said of it."""
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
import unittest

import harness
from harness import SORT_PACK, contents, files_below, np, Image
from test_system_packs import take

#  Of the folder that make_plain makes, packed by the tureen before there was --tile: index.tureen,
#  volume-00000.tureen.
BEFORE = {"index.tureen": "19e0e282cce8b7e44e3eb634c9a52649c691ba369d8ac441177e5efa15dac85f",
          "volume-00000.tureen": "77ef3057c13f9ea691e73b27fdb9a143fa10cf96c112ffd69c422e139fc130c2"}


def make_plain(root):
    """Bytes that no library has a hand in."""
    for number in range(90):
        folder = os.path.join(root, "c%d" % (number % 3))
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "%02d.jpg" % number), "wb") as file:
            file.write(hashlib.sha512(b"%d" % number).digest() * (number % 40))


def segments(data):
    """Metadata of a JPEG: its application markers and comments, up to the first scan."""
    found, at = [], 2
    while data[at + 1] != 0xda:
        length = int.from_bytes(data[at + 2:at + 4], "big")
        if 0xe0 <= data[at + 1] <= 0xef or data[at + 1] == 0xfe:
            found.append(data[at:at + 2 + length])
        at += 2 + length
    return found


class TileTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="tu-tile-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        self.data = self.path("data")

    def path(self, name):
        return os.path.join(self.root, name)

    def write(self, name, data):
        path = os.path.join(self.data, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)

    def run_fine(self, *arguments):
        done = harness.run(*arguments)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def pack(self, name, *arguments, data=None):
        self.run_fine("pack", "--quiet", "--seed", 5, *arguments, data or self.data, self.path(name))
        return self.path(name)

    def assert_refused(self, says, *arguments, status=1):
        done = harness.run("pack", "--quiet", *arguments)
        self.assertEqual(done.returncode, status)
        self.assertIn(says, done.stderr)


class Plain(TileTest):
    def test_off_is_what_it_was_before(self):
        make_plain(self.data)
        self.assertEqual(contents(self.pack("default")), BEFORE)
        self.assertEqual(contents(self.pack("off", "--tile", "off")), BEFORE)

    def test_arguments(self):
        make_plain(self.data)
        for text in ("", "on", "0", "7", "65536", "24px"):
            self.assert_refused("--tile '%s': expected off, auto, or" % text, "--tile", text, self.data,
                                self.path("p"), status=2)
        for text in ("0", "257", "two"):
            self.assert_refused("--workers '%s': expected a number" % text, "--workers", text, self.data,
                                self.path("p"), status=2)
        for arguments in ((), ("--tile", "off")):
            self.assert_refused("--keep-original-bytes says what files that become others keep: give --tile "
                                "auto beside it", "--keep-original-bytes", *arguments, self.data,
                                self.path("p"), status=2)
        self.assertFalse(os.path.exists(self.path("p")))


class Tiled(TileTest):
    """Baseline and progressive files, metadata, and everything that has to stay as it is."""

    def setUp(self):
        super().setUp()
        generator = np.random.default_rng(3)
        exif = Image.Exif()
        exif[0x0112], exif[0x010e] = 6, "a cat on a hot roof"
        profile = bytes(range(256)) * 300           # several segments
        for number in range(60):
            picture = harness.make_image(generator, int(generator.integers(20, 300)),
                                         int(generator.integers(20, 200)))
            if number % 10 == 9:
                picture = picture.convert("L")
            file = io.BytesIO()
            picture.save(file, "JPEG", quality=int(generator.integers(40, 96)), progressive=number % 5 == 1,
                         **({} if number % 10 == 9 else {"subsampling": number % 3}),
                         **({"exif": exif.tobytes(), "icc_profile": profile} if number % 4 == 0 else {}))
            self.write("c%d/%02d.jpg" % (number % 3, number), file.getvalue())
        self.pictures = 60
        whole = self.files()["c0/00.jpg"]
        file = io.BytesIO()
        harness.make_image(generator, 50, 40).save(file, "PNG")
        self.odd = {"c0/a.png": file.getvalue(), "c1/b.jpg": file.getvalue(), "c1/c.jpg": b"",
                    "c1/d.jpg": b"\xff\xd8\xff", "c2/cut.jpg": whole[:len(whole) * 2 // 3],
                    "c2/several.jpg": whole[:2] + b"\xff\xe2\0\x08MPF\0II" + whole[2:]}
        for name, data in self.odd.items():
            self.write(name, data)

    def files(self):
        return files_below(self.data)

    def assert_lossless(self, before, after):
        with Image.open(io.BytesIO(before)) as one, Image.open(io.BytesIO(after)) as other:
            self.assertEqual((one.mode, one.size), (other.mode, other.size))
            self.assertTrue(np.array_equal(np.asarray(one), np.asarray(other)))
            for key in ("exif", "icc_profile", "adobe", "jfif"):
                self.assertEqual(one.info.get(key), other.info.get(key))
            self.assertNotIn("progressive", other.info)
        self.assertEqual(segments(before), segments(after))

    def test_every_file_is_the_same_but_for_its_bytes(self):
        for tile in ("auto", "8", "65535"):
            pack = self.pack("pack-" + tile, "--tile", tile)
            said = self.run_fine("unpack", pack, self.path("out-" + tile))
            self.assertIn("packed with --tile %s: 60 of 66 files are tiled JPEGs, the same as the originals "
                          "in pixels and metadata, not in bytes" % tile, said)
            before, after = self.files(), files_below(self.path("out-" + tile))
            self.assertEqual(sorted(before), sorted(after))
            restarts = 0
            for name, data in before.items():
                if name in self.odd:
                    self.assertEqual(after[name], data, name)
                else:
                    self.assert_lossless(data, after[name])
                    restarts += b"\xff\xd0" in after[name]
            if tile != "65535":
                self.assertGreater(restarts, 55)

    def test_originals_come_back_byte_for_byte(self):
        for tile in ("auto", "8", "65535"):
            pack = self.pack("pack-" + tile, "--tile", tile, "--keep-original-bytes")
            said = self.run_fine("unpack", pack, self.path("out-" + tile))
            self.assertIn("packed with --tile %s --keep-original-bytes: 60 of 66 files were others in the "
                          "pack and are the originals again, byte for byte" % tile, said)
            self.assertEqual(files_below(self.path("out-" + tile)), self.files())
        # The same data set once more: job after job may go on over either.
        fingerprints = [json.loads(self.run_fine("verify", "--json", pack))["fingerprint"] for pack in (
            self.path("pack-auto"), self.pack("again", data=self.path("out-auto")), self.pack("plain"))]
        self.assertEqual(len(set(fingerprints)), 1)
        # A file that keeps an original would be unpacked as that: it is tiled again, or there is no pack.
        bare = self.path("bare")
        self.run_fine("unpack", "--as-packed", self.path("pack-auto"), bare)
        self.run_fine("unpack", self.pack("again-kept", "--tile", "8", "--keep-original-bytes", data=bare),
                      self.path("bare-again"))
        self.assertEqual(files_below(self.path("bare-again")), files_below(bare))
        with open(os.path.join(bare, "c1/07.jpg"), "r+b") as file:
            file.truncate(os.path.getsize(file.name) * 2 // 3)
        self.assert_refused("'c1/07.jpg' keeps an original already, and cannot be tiled again: take it out, "
                            "or pack without --keep-original-bytes", "--tile", "auto",
                            "--keep-original-bytes", bare, self.path("refused"))
        # What is in the pack is tiled, and costs little more than without the originals.
        sizes = [json.loads(self.run_fine("pack", "--json", "--quiet", "--tile", "auto", *keep, self.data,
                                          self.path("sized%d" % len(keep))))["tiling"] for keep in ((), (
                                              "--keep-original-bytes",))]
        self.assertEqual([tiling["originals"] for tiling in sizes], [False, True])
        self.assertEqual([tiling["tiled"] for tiling in sizes], [60, 60])
        self.assertLess((sizes[1]["bytes"] - sizes[0]["bytes"]) / 60, 300)
        self.assertIn("the originals' bytes: `tureen unpack` gives those", self.run_fine(
            "pack", "--quiet", "--tile", "24", "--keep-original-bytes", self.data, self.path("said")))

    @unittest.skipUnless(os.path.exists(SORT_PACK), "sort_pack has not been built")
    def test_originals_that_do_not_come_back(self):
        """A pack that says so of files that are not: each is named, none is written, the others are."""
        pack = self.pack("pack", "--tile", "auto", "--keep-original-bytes")
        raw = self.path("raw")
        self.run_fine("unpack", self.pack("note", data=pack), raw)
        self.assertEqual(files_below(raw), self.files())            # the note came along
        tiled = self.path("tiled")
        subprocess.run([SORT_PACK, pack, self.made("unsaid"), ""], check=True)
        self.run_fine("unpack", self.path("unsaid"), tiled)
        name = "c1/04.jpg"
        data = files_below(tiled)[name]
        at = data.index(b"Tureen\0") + 14
        with open(os.path.join(tiled, name), "wb") as file:
            file.write(data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])
        self.pack("changed", data=tiled)
        subprocess.run([SORT_PACK, self.path("changed"), self.made("said"),
                        '{"tile":"auto","files":66,"tiled":60,"originals":60}'], check=True)
        done = harness.run("unpack", self.path("said"), self.path("out"))
        self.assertEqual(done.returncode, 1)
        reason = "its original does not come back: damaged, or of another version of libjpeg"
        self.assertIn("cannot write '%s' of the field 'image': %s; with --as-packed there is the tiled file"
                      % (name, reason), done.stderr)
        self.assertIn("1 of 66 samples are not back", done.stderr)
        expected = self.files()
        del expected[name]
        self.assertEqual(files_below(self.path("out")), expected)
        # verify tells it beforehand, if it is asked.
        self.assertEqual(self.verify(self.path("said"))[1]["damaged"], 0)
        status, found = self.verify(self.path("said"), "--originals")
        self.assertEqual((status, found["good"], found["damaged"], found["tiles"]["restored"]),
                         (1, False, 1, 59))
        self.assertEqual([(damage["name"], damage["reason"]) for damage in found["damage"]],
                         [(name, reason)])
        self.assertEqual(self.verify(pack, "--originals")[1]["tiles"]["restored"], 60)
        self.assertIn("originals: 60 came back, byte for byte\n",
                      self.run_fine("verify", "--originals", pack))
        self.run_fine("unpack", "--as-packed", self.path("said"), self.path("packed"))
        self.assertEqual(files_below(self.path("packed")), files_below(tiled))
        # One of the files without its original: fewer than the index says.
        with open(os.path.join(tiled, name), "wb") as file:
            file.write(expected["c0/03.jpg"])
        self.pack("fewer", data=tiled)
        subprocess.run([SORT_PACK, self.path("fewer"), self.made("fewer-said"),
                        '{"tile":"auto","files":66,"tiled":60,"originals":60}'], check=True)
        self.assertIn("originals: 59 are kept, 60 by the index\n",
                      harness.run("verify", self.path("fewer-said")).stdout)
        self.assertIn("tiles are not what the index says",
                      harness.run("verify", self.path("fewer-said")).stdout)
        self.assertIn("originals: it keeps none", self.run_fine("verify", "--originals",
                                                                self.pack("without")))

    def made(self, name):
        os.mkdir(self.path(name))
        return self.path(name)

    def test_jobs_get_the_batches_of_the_folder(self):
        for name in self.odd:
            os.remove(os.path.join(self.data, name))
        tiled, plain = self.pack("tiled", "--tile", "auto"), self.pack("plain")
        crop = [{"op": "random_resized_crop", "size": [32, 32], "scale": [0.08, 1], "ratio": [0.75, 1.3333]},
                {"share": True}, {"op": "flip", "p": 0.5}]
        centre = [{"op": "resize", "size": 40}, {"op": "center_crop", "size": 32}]
        with harness.Server({"tiled": tiled, "plain": plain, "folder": self.data}, cache="16M") as server:
            for pipeline in (crop, centre):
                keys = {"order": "seeded", "seed": "7", "pipeline": pipeline}
                expected = take(server, "folder", **keys)
                self.assertEqual(take(server, "tiled", **keys), expected)
            described = {dataset["name"]: dataset["pack"] for dataset in server.status()["datasets"]}
            self.assertEqual((described["tiled"]["tile"], described["plain"]["tile"]), ("auto", "off"))
            self.assertIn("  a pack of tiled JPEGs, stream in pieces of ", server.status_text())

    def test_prepare_makes_the_same(self):
        self.run_fine("unpack", self.pack("pack", "--tile", "auto"), self.path("out"))
        for name in self.odd:
            os.remove(os.path.join(self.data, name))
            os.remove(os.path.join(self.path("out"), name))
        for recipe in ("train", "eval"):
            for root in (self.data, self.path("out")):
                names = [os.path.join(root, name) for name in sorted(files_below(root))
                         if name.endswith(".jpg")]
                self.run_fine("prepare", "--recipe", recipe, "--seed", 3, "--out", self.path("seen-%s-%s" % (
                    recipe, os.path.basename(root))), *names)
            one, other = (files_below(self.path("seen-%s-%s" % (recipe, root))) for root in ("data", "out"))
            self.assertEqual(len(one), self.pictures)
            self.assertEqual(one, other)

    def test_tar_files_become_the_same(self):
        """In two fields: the JPEGs of both are tiled."""
        shard = self.path("shard.tar")
        with tarfile.open(shard, "w") as tar:
            for name, data in sorted(self.files().items()):
                if name in self.odd:
                    continue
                for end in (".jpg", ".thumb.jpg"):
                    member = tarfile.TarInfo(name[:-4] + end)
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
        self.run_fine("unpack", self.pack("pack", "--tile", "auto"), self.path("out"))
        said = self.run_fine("unpack", self.pack("tarred", "--tile", "auto", "--workers", 3, data=shard),
                             self.path("tar-out"))
        self.assertIn("120 of 120 files are tiled JPEGs", said)
        one, other = files_below(self.path("out")), files_below(self.path("tar-out"))
        for name in one:
            if name not in self.odd:
                self.assertEqual(other[name], one[name])
                self.assertEqual(other[name[:-4] + ".thumb.jpg"], one[name])

    def test_what_is_said(self):
        said = json.loads(self.run_fine("pack", "--json", "--quiet", "--tile", "auto", self.data,
                                        self.path("pack")))
        tiling = said["tiling"]
        self.assertEqual(said["tile"], "auto")
        self.assertEqual(tiling["kept"], {"no JPEG": 3, "damaged JPEG": 2, "several pictures in one file": 1})
        self.assertEqual((tiling["files"], tiling["tiled"], tiling["progressive"]), (66, 60, 12))
        before = {name: len(data) for name, data in self.files().items()}
        self.run_fine("unpack", self.path("pack"), self.path("out"))
        after = {name: len(data) for name, data in files_below(self.path("out")).items()}
        pictures = [name for name in before if name not in self.odd]
        progressive = [name for name in pictures if int(name[3:5]) % 5 == 1]
        for key, names, sizes in (("source_bytes", pictures, before), ("bytes", pictures, after),
                                  ("progressive_source_bytes", progressive, before),
                                  ("progressive_bytes", progressive, after)):
            self.assertEqual(tiling[key], sum(sizes[name] for name in names), key)
        self.assertEqual(said["bytes"], sum(after.values()))
        lines = self.run_fine("pack", "--quiet", "--tile", "24", self.data, self.path("lines"))
        self.assertIn("--tile 24: 60 of 66 files became tiled JPEGs: ", lines)
        self.assertIn("12 of them were progressive and are baseline now: ", lines)
        self.assertIn("6 stayed as they are: 3 no JPEG, 2 damaged JPEG, 1 several pictures in one file",
                      lines)

    def test_any_number_of_workers_makes_the_same_pack(self):
        one = contents(self.pack("one", "--tile", "auto", "--workers", 1))
        self.assertEqual(contents(self.pack("seven", "--tile", "auto", "--workers", 7)), one)
        self.assertEqual(contents(self.pack("little", "--tile", "auto", "--workers", 3, "--memory", "1M")),
                         one)
        for other in ("24", "off"):
            self.assertNotEqual(contents(self.pack("other-" + other, "--tile", other)), one)

    def test_killed_and_resumed(self):
        random = harness.seeded(self.id())
        began = time.monotonic()
        whole = contents(self.pack("whole", "--tile", "auto"))
        longest, broken, number = time.monotonic() - began, 0, 0
        while (broken < 4 or number < 4) and number < 100:
            number += 1
            target = self.path("killed-%d" % number)
            command = ["pack", "--quiet", "--seed", "5", "--resume", "--workers", "2", "--memory", "1M"]
            for _ in range(8):
                process = subprocess.Popen([harness.TUREEN, *command, "--tile", "auto", self.data, target],
                                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                time.sleep(random.uniform(0, longest))
                process.send_signal(random.choice((signal.SIGKILL, signal.SIGTERM)))
                _, said = process.communicate()
                if process.returncode == 0:
                    longest *= 0.8              # a machine that is faster now
                    break
                self.assertIn(process.returncode, (-signal.SIGKILL, -signal.SIGTERM, 143), said)
                broken += 1
            if os.path.exists(os.path.join(target, "packing", "journal")):
                self.assert_refused("was begun with --tile auto: give that or none", *command[2:], "--tile",
                                    "off", self.data, target)
                done = json.loads(self.run_fine(*command, "--json", self.data, target))
                self.assertEqual((done["tile"], done["tiling"]["tiled"]), ("auto", 60))
            else:
                self.run_fine(*command, "--tile", "auto", self.data, target)
            self.assertEqual(contents(target), whole)
        self.assertGreater(broken, 0)

    def test_a_finished_pack_is_as_it_was_asked_for(self):
        pack = self.pack("pack", "--tile", "auto")
        again = ("--resume", self.data, pack)
        self.assert_refused("was made with --tile auto: give that or none", "--tile", "off", *again)
        self.assert_refused("was made with --tile auto: give that or none", "--tile", "auto",
                            "--keep-original-bytes", *again)
        self.run_fine("pack", "--tile", "auto", *again)
        self.run_fine("pack", *again)
        kept = self.pack("kept", "--tile", "auto", "--keep-original-bytes")
        self.assert_refused("was made with --tile auto --keep-original-bytes: give that or none", "--tile",
                            "auto", "--resume", self.data, kept)
        self.run_fine("pack", "--tile", "auto", "--keep-original-bytes", "--resume", self.data, kept)
        plain = self.pack("plain")
        self.assert_refused("was made with --tile off: give that or none", "--tile", "24", "--resume",
                            self.data, plain)
        self.run_fine("pack", "--tile", "off", "--resume", self.data, plain)

    def test_a_pack_of_a_pack(self):
        """The note comes along with the bytes; tiled from a plain pack is as tiled from the files."""
        tiled, plain = self.pack("tiled", "--tile", "auto"), self.pack("plain")
        self.pack("again", data=tiled)
        said = self.run_fine("unpack", self.path("again"), self.path("out"))
        self.assertIn("packed with --tile auto: 60 of 66 files are tiled JPEGs", said)
        # Of one that keeps its originals no other is tiled: they would be taken for what they are not.
        kept = self.pack("kept", "--tile", "auto", "--keep-original-bytes")
        for arguments in (("--tile", "auto"), ("--tile", "24", "--keep-original-bytes")):
            self.assert_refused("'%s' is a pack of tiled files that keep their originals: unpack it and pack "
                                "those, or leave out --tile" % kept, *arguments, kept, self.path("twice"))
        self.pack("twice", data=kept)
        self.run_fine("unpack", self.path("twice"), self.path("twice-out"))
        self.assertEqual(files_below(self.path("twice-out")), self.files())
        later = self.pack("later", "--tile", "auto", data=plain)
        self.assertEqual(contents(later)["volume-00000.tureen"], contents(tiled)["volume-00000.tureen"])

    #   ---- verify

    def verify(self, pack, *arguments):
        done = harness.run("verify", "--json", *arguments, pack)
        self.assertEqual(done.stderr, "")
        return done.returncode, json.loads(done.stdout)

    def test_verify_counts(self):
        status, found = self.verify(self.pack("pack", "--tile", "24"))
        self.assertEqual((status, found["good"]), (0, True))
        self.assertEqual(found["tiles"], {"tile": "24", "files": 66, "tiled": 60, "found": 60,
                                          "originals": None})
        self.assertIn("tiles: made with --tile 24; 60 of 66 files are tiled, 60 by the index\n",
                      self.run_fine("verify", self.path("pack")))
        status, found = self.verify(self.pack("plain"))
        self.assertEqual((status, found["tiles"]), (0, None))
        with open(os.path.join(self.path("pack"), "volume-00000.tureen"), "r+b") as file:
            file.seek(5000)
            byte = file.read(1)
            file.seek(5000)
            file.write(bytes([byte[0] ^ 1]))
        status, found = self.verify(self.path("pack"))
        self.assertEqual((status, found["good"], found["damaged"]), (1, False, 1))
        #  No fault beside the damage
        self.assertIn("60 by the index\n", harness.run("verify", self.path("pack")).stdout)

    @unittest.skipUnless(os.path.exists(SORT_PACK), "sort_pack has not been built")
    def test_verify_finds_what_is_not_so(self):
        for index, name in enumerate(sorted(self.files())):     # so few that no order is judged
            if index % 3:
                os.remove(os.path.join(self.data, name))
        pack = self.pack("pack", "--tile", "auto")
        status, found = self.verify(pack)
        self.assertEqual(status, 0)
        tiled = found["tiles"]["tiled"]
        for number, expected in ((tiled, 0), (tiled - 1, 1)):
            target = self.path("noted-%d" % number)
            os.mkdir(target)
            subprocess.run([SORT_PACK, pack, target, '{"tile":"auto","files":22,"tiled":%d}' % number],
                           check=True)
            status, found = self.verify(target)
            self.assertEqual((status, found["good"], found["tiles"]["found"]),
                             (expected, not expected, tiled))
        done = harness.run("verify", target)
        self.assertIn("%d by the index: FAULT" % (tiled - 1), done.stdout)
        self.assertIn("BAD", done.stdout)


if __name__ == "__main__":
    unittest.main()

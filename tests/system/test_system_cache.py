"""`tureen cache` and `tureen pack --from-disk` beside servers that use the folder, that end, and that are
killed: what they say is so, damage is found and thrown away, what a server has open stays, and a pack of what
is kept is that of the source, which is not read."""
import contextlib
import ctypes
import filecmp
import glob
import json
import os
import shutil
import struct
import subprocess
import tempfile
import threading
import unittest

import xxhash

import harness
from harness import Server, make_folder, run, seeded, wait_until
from object_store import ObjectStore
from test_system_pins import take

SAMPLES, UNIT = 160, 4096


class OpenFiles:
    """The names of files that are opened in these folders meanwhile."""
    OPENED, FOLDER = 0x20, 0x40000000

    def __init__(self, folders):
        self.folders, self.names = folders, []

    def __enter__(self):
        libc = ctypes.CDLL(None, use_errno=True)
        self.queue = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for folder in self.folders:
            assert libc.inotify_add_watch(self.queue, os.fsencode(folder), self.OPENED) >= 0
        return self

    def __exit__(self, *_):
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.queue, 1 << 16):
                while data:
                    _, kinds, _, size = struct.unpack_from("iIII", data)
                    name = data[16:16 + size].rstrip(b"\0")
                    if name and not kinds & self.FOLDER:
                        self.names.append(os.fsdecode(name))
                    data = data[16 + size:]
        os.close(self.queue)


class CacheTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="tu-cached-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.data = os.path.join(cls.root, "bucket", "train")
        os.makedirs(os.path.dirname(cls.data))
        make_folder(cls.data, SAMPLES, sizes=((160, 240), (160, 240)), seed=harness.SEED)
        cls.files = sorted(glob.glob(os.path.join(cls.data, "*", "*.jpg")))
        cls.bytes = sum(map(os.path.getsize, cls.files))
        cls.units = sum(-(-os.path.getsize(path) // UNIT) for path in cls.files)
        cls.real = os.path.realpath(cls.data)

    def setUp(self):
        self.folder = os.path.join(tempfile.mkdtemp(prefix="cache-", dir=self.root), "cache")

    def serve(self, part=3.0, data=None, arguments=(), **options):
        disk = "%s=%d" % (self.folder, part * self.bytes)
        return Server({"train": data or self.data}, cache="3M",
                      arguments=["--disk", disk, "--keep", "train=yes", *arguments], **options)

    def fill(self, **options):
        with self.serve(**options) as server:
            take(server, 1)

    def cache(self, verb, *words, status=0, folder=None):
        """What it prints as JSON."""
        done = run("cache", verb, folder or self.folder, *words, "--json")
        self.assertEqual(done.returncode, status, done.stderr)
        return json.loads(done.stdout)

    def refused(self, verb, *words, status=1, folder=None):
        done = run("cache", verb, folder or self.folder, *words)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        return done.stderr

    def entry(self, kind):
        [entry] = [entry for entry in self.cache("list")["datasets"] if entry["kind"] == kind]
        return entry

    def damage(self, key, choice, times=12):
        """Of the data set, in as many units that are kept."""
        with open(os.path.join(self.folder, key, "sums"), "rb") as file:
            file.seek(UNIT)
            units = [at for at, (check,) in enumerate(struct.iter_unpack("<I", file.read())) if check]
        units = choice.sample(units, times)
        with open(os.path.join(self.folder, key, "data"), "r+b") as file:
            for unit in units:
                file.seek(unit * UNIT)
                byte = file.read(1)
                file.seek(unit * UNIT)
                file.write(bytes([byte[0] ^ 1]))
        return times


class Listed(CacheTest):
    def test_a_folder_while_it_is_served_and_after_a_kill(self):
        with self.serve(expect_clean=False) as server:
            self.assertEqual(self.entry("files")["held_bytes"], 0)
            take(server, 1)
            #  What was handed over to the local disk last may be on its way.
            wait_until("all is kept", lambda: self.entry("files")["held_bytes"] == self.units * UNIT)
            entry = self.entry("files")
            self.assertEqual((entry["name"], entry["count"], entry["open"], entry["newer"]),
                             (self.real, SAMPLES, True, False))
            self.assertEqual((entry["held_bytes"], entry["bytes"]), (self.units * UNIT, self.units * UNIT))
            self.assertEqual(self.entry("file_list")["name"], self.real)
            self.assertTrue(self.entry("file_list")["open"])
            server.kill()
        listed = self.cache("list")
        self.assertEqual([entry["open"] for entry in listed["datasets"]], [False, False])
        self.assertGreaterEqual(listed["disk_bytes"], self.units * UNIT)
        entry = self.entry("files")
        self.assertEqual(entry["held_bytes"], self.units * UNIT)
        first, last = entry["first_used"], entry["last_used"]
        self.assertRegex(first, r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        #  Looking and checking is no use of it.
        os.utime(os.path.join(self.folder, entry["key"], "lock"), (7, 7))
        self.assertEqual(self.cache("verify")["damaged_bytes"], 0)
        self.assertEqual(self.entry("files")["last_used"], "1970-01-01T00:00:07Z")
        self.fill()
        entry = self.entry("files")
        self.assertEqual(entry["first_used"], first)
        self.assertGreaterEqual(entry["last_used"], last)
        text = run("cache", "list", self.folder).stdout
        self.assertIn(self.real, text)
        self.assertIn("%d files" % SAMPLES, text)
        self.assertIn("2 data sets", text)

    def test_what_an_earlier_tureen_has_kept(self):
        """Without notes: unknown, and as good as before."""
        self.fill()
        keys = [entry["key"] for entry in self.cache("list")["datasets"]]
        for key in keys:
            with open(os.path.join(self.folder, key, "sums"), "r+b") as file:
                file.seek(64)
                file.write(bytes(UNIT - 64))
        self.assertEqual({(entry["name"], entry["kind"], entry["first_used"])
                          for entry in self.cache("list")["datasets"]}, {(None, "unknown", None)})
        self.assertIn("(unknown)", run("cache", "list", self.folder).stdout)
        verified = self.cache("verify", status=1)
        self.assertEqual((verified["damaged_bytes"], verified["unchecked"]), (0, 1))
        self.assertIn("an earlier Tureen has made it", run("cache", "verify", self.folder).stdout)
        with self.serve() as server:
            take(server, 1)
            self.assertEqual(server.status()["datasets"][0]["objects"]["source_bytes"], 0)
        self.assertEqual(self.entry("files")["name"], self.real)
        self.assertEqual(self.cache("verify")["unchecked"], 0)
        self.cache("drop", keys[0][:8])
        self.assertEqual([entry["key"] for entry in self.cache("list")["datasets"]], keys[1:])

    def test_what_is_no_cache(self):
        self.assertIn("there is no cache on the local disk in", self.refused("list"))
        os.mkdir(self.folder, 0o700)
        for verb, words in (("list", ()), ("verify", ()), ("drop", ("--all",))):
            self.assertIn("--disk DIR=BYTES", self.refused(verb, *words))
        self.assertEqual(os.listdir(self.folder), [])
        self.assertIn("expected list, verify or drop", self.refused("look", status=2))
        self.assertIn("give what is to be dropped", self.refused("drop", status=2))
        self.assertIn("leave out", self.refused("list", "x", status=2))
        if os.geteuid() == 0:
            os.chown(self.folder, 12345, 12345)
            self.assertIn("run this as that user", self.refused("list"))

    def test_a_later_format(self):
        """As a later Tureen would write it: another format, and the right sum."""
        self.fill()
        path = os.path.join(self.folder, "usage")
        with open(path, "rb") as file:
            record = file.read(24)
        with open(path, "r+b") as file:
            file.write(record[:7] + b"3")
        with self.serve():                      # damage, since the sum is wrong: counted again
            pass
        later = b"tureenU3" + record[8:16]
        later += struct.pack("<Q", xxhash.xxh3_64_intdigest(later))
        with open(path, "wb") as file:
            file.write(later)
        for command in (("serve", "--dataset", "a=" + self.data, "--disk", self.folder + "=9M", "--listen",
                         "ipc://%s/s.sock" % self.root), ("cache", "list", self.folder)):
            done = run(*command)
            self.assertEqual(done.returncode, 1)
            self.assertIn("a later Tureen has written it, in a newer format", done.stderr)
        with open(path, "rb") as file:
            self.assertEqual(file.read(), later)


class Checked(CacheTest):
    def test_damage_is_thrown_away_and_read_again(self):
        choice = seeded("damage")
        self.fill()
        expected = self.epoch()
        entry = self.entry("files")
        times = self.damage(entry["key"], choice)
        verified = self.cache("verify", status=1)
        self.assertEqual((verified["damaged_bytes"], verified["unowned_bytes"], verified["unchecked"]),
                         (times * UNIT, 0, 0))
        self.assertEqual(self.cache("verify")["damaged_bytes"], 0)
        self.assertEqual(self.entry("files")["held_bytes"], entry["held_bytes"] - times * UNIT)
        with self.serve() as server:
            self.assertEqual(take(server, 1, seed="3"), expected)
            status = server.status()
            self.assertEqual(status["block_cache"]["damaged"], 0)
            self.assertGreater(status["datasets"][0]["objects"]["source_bytes"], 0)
            #  While it runs, too.
            times = self.damage(entry["key"], choice)
            done = run("cache", "verify", self.folder)
            self.assertEqual(done.returncode, 1)
            self.assertIn("%.3f MB were damaged, and are dropped" % (times * UNIT / 1e6), done.stdout)
            self.assertEqual(take(server, 1, seed="3"), expected)

    def epoch(self):
        with self.serve() as server:
            return take(server, 1, seed="3")

    def test_a_list_that_is_damaged(self):
        self.fill()
        expected = self.epoch()
        self.damage(self.entry("file_list")["key"], seeded("list"), 1)
        verified = self.cache("verify", status=1)
        self.assertEqual((verified["damaged_bytes"], verified["unchecked"]), (UNIT, 1))
        self.assertEqual(self.epoch(), expected)
        self.cache("verify")

    def test_what_is_of_no_file(self):
        """Its share is told, and thrown away."""
        data = os.path.join(self.root, "changed")
        shutil.copytree(self.data, data)
        self.addCleanup(shutil.rmtree, data)
        self.fill(data=data)
        first = sorted(glob.glob(os.path.join(data, "*", "*.jpg")))[0]
        os.truncate(first, UNIT + os.path.getsize(first))
        with self.serve(data=data):             # the file has another place from here on
            pass
        with open(os.path.join(self.folder, self.entry("files")["key"], "sums"), "r+b") as file:
            file.seek(UNIT)
            checks = [check for check, in struct.iter_unpack("<I", file.read())]
            file.seek(UNIT + 4 * checks.index(0))
            file.write(struct.pack("<I", 7))
        said = run("cache", "verify", self.folder).stdout
        verified = self.cache("verify")
        self.assertIn("%.3f MB were of files that are not there any more" % (UNIT / 1e6), said)
        self.assertIn("\n%.1f MB read: " % ((verified["checked_bytes"] + UNIT) / 1e6), said)
        self.assertEqual(verified["unowned_bytes"], 0)

    def test_a_space_that_was_left(self):
        """Most of what had a place has gone, so the files get others, while a server reads the old ones."""
        data = os.path.join(self.root, "left")
        shutil.copytree(self.data, data)
        self.addCleanup(shutil.rmtree, data)
        last = sorted(glob.glob(os.path.join(data, "*", "*.jpg")))[-1]
        large = os.path.join(os.path.dirname(last), "zz.jpg")
        with open(large, "wb") as file:
            file.truncate(90 << 20)
        with self.serve(data=data, part=9) as server:
            server.read(batch=16, epochs=1, subset="0:%d" % SAMPLES).finish()
            os.remove(large)
            with self.serve(data=data, part=9):
                left, kept = sorted((entry["held_bytes"], entry["key"]) for entry in
                                    self.cache("list")["datasets"] if entry["kind"] == "files")[::-1]
                self.assertEqual((left[0], kept[0]), (self.units * UNIT, 0))
                verified = self.cache("verify")
                self.assertEqual((verified["unowned_bytes"], verified["unchecked"]), (0, 0))
                self.assertEqual({entry["key"] for entry in verified["datasets"] if not entry["checked"]},
                                 {left[1]})
                self.assertIn("later servers keep them elsewhere", run("cache", "verify", self.folder).stdout)
                self.assertIn(left, [(entry["held_bytes"], entry["key"])
                                     for entry in self.cache("list")["datasets"]])

    def test_kills_beside_a_server(self):
        """Of the commands, while jobs read and the cache is damaged."""
        choice = seeded("kills")
        expected = self.epoch()
        with self.serve() as server:
            ending = threading.Event()

            def damage():
                while not ending.wait(.05):
                    self.damage(key, harm, 2)

            key, harm = self.entry("files")["key"], seeded("harm")
            thread = threading.Thread(target=damage)
            thread.start()
            try:
                for _ in range(12):
                    command = subprocess.Popen([harness.TUREEN, "cache", choice.choice(("verify", "list")),
                                                self.folder], stdout=subprocess.DEVNULL)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        command.wait(choice.random() * .05)
                    command.kill()
                    command.wait()
                    self.assertEqual(take(server, 1, seed="3"), expected)
            finally:
                ending.set()
                thread.join()
            self.assertEqual(server.status()["bad_samples"], 0)
        run("cache", "verify", self.folder)
        self.assertEqual(self.cache("verify")["damaged_bytes"], 0)
        self.assertEqual(self.epoch(), expected)


class Dropped(CacheTest):
    def test_what_no_server_has_open(self):
        other = os.path.join(self.root, "other")
        shutil.copytree(self.data, other)
        self.addCleanup(shutil.rmtree, other)
        self.fill(part=6)
        with self.serve(part=6, data=other) as server:
            take(server, 1)
            said = self.refused("drop", other)
            self.assertIn("a server, `tureen cache verify` or `tureen pack --from-disk` has '%s' open"
                          % os.path.realpath(other), said)
            self.assertIn("tureen remove NAME", said)
            before = self.disk_bytes()
            dropped = self.cache("drop", self.data)
            self.assertEqual(len(dropped["dropped"]), 2)
            self.assertGreaterEqual(dropped["freed_bytes"], self.units * UNIT)
            self.assertLess(self.disk_bytes(), before - self.units * UNIT)
            dropped = self.cache("drop", "--all", status=1)
            self.assertEqual((dropped["dropped"], dropped["open"]), ([], 2))
            take(server, 1)
            self.assertEqual(server.status()["datasets"][0]["objects"]["source_bytes"], self.bytes)
        self.assertIn("there is nothing of '%s'" % self.data, self.refused("drop", self.data))
        self.assertEqual(len(self.cache("drop", "--all")["dropped"]), 2)
        self.assertEqual(self.cache("list")["datasets"], [])
        self.assertEqual(os.listdir(self.folder), ["usage"])

    def disk_bytes(self):
        return sum(os.lstat(path).st_blocks * 512
                   for path in glob.glob(os.path.join(self.folder, "**"), recursive=True))

    def test_after_kills(self):
        for _ in range(3):
            with self.serve(expect_clean=False) as server:
                server.read(batch=16, epochs=9)
                wait_until("something is kept", lambda: self.entry("files")["held_bytes"] > 0)
                server.kill()
            self.cache("verify")
            self.assertEqual(len(self.cache("drop", "--all")["dropped"]), 2)


class Packed(CacheTest):
    def pack(self, *words, data=None, status=0, environment=None):
        folder = tempfile.mkdtemp(dir=self.root)
        os.rmdir(folder)
        done = run("pack", "--quiet", "--json", "--seed", "5", *words, data or self.data, folder,
                   environment=environment)
        self.assertEqual(done.returncode, status, done.stderr)
        return folder, json.loads(done.stdout) if status == 0 else done.stderr

    def assert_same(self, one, other):
        names = sorted(os.listdir(one))
        self.assertEqual(names, sorted(os.listdir(other)))
        self.assertEqual(filecmp.cmpfiles(one, other, names, shallow=False), (names, [], []))

    def test_a_folder_that_is_kept(self):
        made, _ = self.pack()
        self.fill()
        folders = glob.glob(os.path.join(self.data, "*"))
        with OpenFiles(folders) as opened:
            folder, said = self.pack("--from-disk", self.folder, "--only-kept")
        self.assertEqual(opened.names, [])
        self.assertEqual(said["from_disk_bytes"], self.bytes)
        self.assert_same(folder, made)
        with OpenFiles(folders) as opened:      # else the watch would see nothing
            self.pack()
        self.assertEqual(len(set(opened.names)), SAMPLES)

    def test_a_part_of_it(self):
        made, _ = self.pack()
        self.fill(part=.6)
        kept = self.entry("files")["held_bytes"]
        missing = self.pack("--from-disk", self.folder, "--only-kept", status=1)[1]
        self.assertRegex(missing, r"lacks \d+ of the %d files of '%s', \d\.\d of %.1f MB: "
                         % (SAMPLES, self.data, self.bytes / 1e6))
        folder, said = self.pack("--from-disk", self.folder)
        self.assertTrue(.3 * kept < said["from_disk_bytes"] < kept, said)
        self.assert_same(folder, made)
        self.assertEqual(self.entry("files")["held_bytes"], kept)

    def test_damage_changes_and_new_files(self):
        data = os.path.join(self.root, "changing")
        shutil.copytree(self.data, data)
        self.addCleanup(shutil.rmtree, data)
        self.fill(data=data)
        files = sorted(glob.glob(os.path.join(data, "*", "*.jpg")))
        shutil.copyfile(files[3], files[30])
        shutil.copyfile(files[4], os.path.join(os.path.dirname(files[0]), "zz.jpg"))
        os.remove(files[40])
        self.damage(self.entry("files")["key"], seeded("changes"))
        listed = self.cache("list")["datasets"]
        made, _ = self.pack(data=data)
        folder, said = self.pack("--from-disk", self.folder, data=data)
        self.assertLess(said["from_disk_bytes"], self.bytes)
        self.assertGreater(said["from_disk_bytes"], .5 * self.bytes)
        self.assert_same(folder, made)
        #  Nothing of what is kept was changed but what was damaged.
        for before, after in zip(listed, self.cache("list")["datasets"]):
            self.assertEqual(before["last_used"], after["last_used"])
            self.assertLessEqual(after["held_bytes"], before["held_bytes"])

    def test_beside_a_server_and_killed(self):
        made, _ = self.pack()
        choice = seeded("pack")
        folder = tempfile.mkdtemp(dir=self.root)
        with self.serve() as server:
            take(server, 1)
            command = [harness.TUREEN, "pack", "--quiet", "--seed", "5", "--resume", "--from-disk",
                       self.folder, self.data, folder]
            for _ in range(6):
                process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(choice.random() * .1)
                process.kill()
                process.wait()
            self.assertEqual(subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode, 0)
            self.assert_same(folder, made)
            take(server, 1)
            self.assertEqual(server.status()["datasets"][0]["objects"]["source_bytes"], self.bytes)

    def test_single_objects(self):
        with ObjectStore(self.root) as store:
            environment = store.environment()
            made, said = self.pack(data="s3://bucket/train", environment=environment)
            self.assertNotIn("from_disk_bytes", said)
            self.fill(data="s3://bucket/train", environment=environment)
            entry = self.entry("objects")
            self.assertEqual((entry["name"], entry["count"], entry["held_bytes"]),
                             ("s3://bucket/train", SAMPLES, self.units * UNIT))
            self.assertEqual(self.entry("object_list")["name"], "s3://bucket/train")
            self.assertEqual(self.cache("verify")["damaged_bytes"], 0)
            store.requests.clear()
            folder, said = self.pack("--from-disk", self.folder, "--only-kept", data="s3://bucket/train",
                                     environment=environment)
            self.assertEqual([request.name for request in store.requests
                              if request.name.endswith(".jpg") or "?list" in request.name], [])
            self.assertEqual(said["from_disk_bytes"], self.bytes)
            self.assert_same(folder, made)
            #  What is damaged is asked for, and no more.
            self.damage(entry["key"], seeded("objects"))
            self.assertEqual(self.cache("verify", status=1)["damaged_bytes"], 12 * UNIT)
            folder, said = self.pack("--from-disk", self.folder, "--listing", "anew",
                                     data="s3://bucket/train", environment=environment)
            #  One that is far slower than others is asked for again.
            asked = {request.name for request in store.requests if request.name.endswith(".jpg")}
            self.assertTrue(6 < len(asked) <= 12, asked)
            self.assert_same(folder, made)
            self.assertEqual(len(self.cache("drop", "s3://bucket/train")["dropped"]), 2)

    def test_what_is_refused(self):
        for words, said in ((("--only-kept",), "are for --from-disk DIR"),
                            (("--listing", "anew"), "are for --from-disk DIR"),
                            (("--from-disk", ""), "--from-disk is empty")):
            self.assertIn(said, self.pack(*words, status=2)[1])
        disk = ("--from-disk", self.folder)
        self.assertIn("there is no cache on the local disk", self.pack(*disk, status=1)[1])
        made, _ = self.pack()
        self.fill()
        self.assertIn("is a pack already", self.pack(*disk, data=made, status=1)[1])
        tar = os.path.join(self.root, "a.tar")
        subprocess.run(["tar", "-cf", tar, "-C", self.data, "."], check=True)
        self.assertIn("--from-disk is for folders", self.pack(*disk, data=tar, status=1)[1])


if __name__ == "__main__":
    unittest.main()

"""Folders and packs that the cache on the local disk keeps: what was read once comes from
there, for later servers too; a file that has changed is read anew; and whatever becomes of the server, every
epoch holds each sample once, with the right pixels."""
import glob
import json
import os
import shutil
import tempfile
import unittest

import harness
from harness import Server, make_folder, run, wait_until
from test_system_pins import take

SAMPLES = 240
PIPELINE = [{"op": "resize", "size": [160, 160]}]      # most versions leave a cache of 3 MiB
DISK = os.path.join(os.path.dirname(harness.TUREEN), "faulty_disk.so")


class KeptTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="tu-kept-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.made = os.path.join(cls.root, "made")
        make_folder(cls.made, SAMPLES, sizes=((200, 320), (200, 320)), seed=harness.SEED)

    def setUp(self):
        self.data = tempfile.mkdtemp(prefix="data-", dir=self.root)
        shutil.copytree(self.made, self.data, dirs_exist_ok=True)
        for number, path in enumerate(self.files()):
            os.utime(path, (1000 + number, 1000 + number))
        self.bytes = sum(os.path.getsize(path) for path in self.files())
        self.folder = os.path.join(tempfile.mkdtemp(prefix="cache-", dir=self.root), "cache")

    def files(self):
        return sorted(glob.glob(os.path.join(self.data, "*", "*.jpg")))

    def serve(self, part=2.0, data=None, more=("--keep", "train=yes"), **options):
        """With a cache of so much of the data; the memory has hardly any of it."""
        value = "%s=%d" % (self.folder, part * self.bytes)
        return Server({"train": data or self.data}, cache="3M", arguments=("--disk", value, *more),
                      **options)

    def plain(self, data=None):
        """What a server without a cache delivers of the data as they are now."""
        with Server({"train": data or self.data}, cache="3M") as server:
            return take(server, 1, seed="3")

    @staticmethod
    def so_far(server, kind="objects"):
        """Bytes from the source, and from the local disk."""
        read = server.status()["datasets"][0][kind]
        return read["source_bytes"], read["block_cache_bytes"]


class Folders(KeptTest):
    def test_a_second_epoch_opens_no_file(self):
        expected = self.plain()
        with self.serve() as server:
            self.assertIn("kept in " + self.folder, server.log())
            self.assertEqual(take(server, 1, seed="3"), expected)
            self.assertEqual(self.so_far(server)[0], self.bytes)
            before = self.so_far(server)[1]         # what was read ahead, and drawn then
            os.rename(self.data, self.data + ".away")
            for path in glob.glob(os.path.join(self.data + ".away", "*", "*.jpg")):
                os.rename(path, path + ".away")
            self.assertEqual(take(server, 1, seed="3"), expected)
            source, kept = self.so_far(server)
            self.assertEqual(source, self.bytes)
            #  It may have gone over to pieces, which are whole units.
            self.assertGreaterEqual(kept, before + self.bytes)
            self.assertLess(kept, before + self.bytes + 4096 * SAMPLES)

    def test_a_later_server_reads_what_has_changed(self):
        with self.serve() as server:
            take(server, 1)
        files = self.files()
        changed = files[5:50:9]
        for path, other in zip(changed, files[100:]):
            shutil.copyfile(other, path)
            os.utime(path, (5000, 5000))
        os.remove(files[-1])
        added = os.path.join(os.path.dirname(files[0]), "zz.jpg")
        shutil.copyfile(files[77], added)
        expected = self.plain()
        with self.serve() as server:
            self.assertEqual(take(server, 1, seed="3"), expected)
            self.assertEqual(self.so_far(server)[0],
                             sum(os.path.getsize(path) for path in [*changed, added]))
            self.assertEqual(server.status()["block_cache"]["damaged"], 0)

    def test_a_file_that_changes_under_the_server_is_not_kept(self):
        """Under its old description another file's bytes would be kept."""
        path = self.files()[7]
        with self.serve() as server:
            with open(path, "r+b") as file:         # the same size, another time
                head = file.read(3000)
                file.seek(2990)
                file.write(bytes(10))
            take(server, 2)
            source, _ = self.so_far(server)
            #  In each epoch; and perhaps ahead of the first one.
            self.assertIn((source - self.bytes) / os.path.getsize(path), (1, 2))
        with open(path, "r+b") as file:
            file.write(head)
        os.utime(path, (1007, 1007))
        expected = self.plain()
        with self.serve() as server:
            self.assertEqual(take(server, 1, seed="3"), expected)
            self.assertEqual(self.so_far(server)[0], os.path.getsize(path))

    def test_a_part_of_the_data(self):
        """S (1 - c): nothing of what is kept gives way."""
        with self.serve(.5) as server:
            take(server, 1)
            before, _ = self.so_far(server)
            take(server, 2)
            read = (self.so_far(server)[0] - before) / 2 / self.bytes
            held = server.status()["datasets"][0]["objects"]["block_cache_held"] / self.bytes
            self.assertLessEqual(server.status()["block_cache"]["bytes"], .5 * self.bytes)
        self.assertGreater(held, .4)
        #  Whole units of 4,096 bytes, and checksums, take a part of the bound.
        self.assertGreater(read, .5)
        self.assertLess(read, .62)

    def test_two_servers_that_begin_at_once(self):
        expected = self.plain()
        with self.serve() as one, self.serve() as other:
            self.assertEqual(take(one, 1, seed="3"), expected)
            #  What the first one has handed over to the disk may be on its way.
            wait_until("all is kept", lambda: one.status()["datasets"][0]["objects"]["block_cache_held"]
                       >= self.bytes)
            self.assertEqual(take(other, 1, seed="3"), expected)
            self.assertEqual(self.so_far(other), (0, self.bytes))

    def test_servers_that_are_killed(self):
        expected = self.plain()
        for _ in range(4):
            with self.serve(expect_clean=False) as server:
                server.read(batch=16, epochs=9)
                wait_until("some samples are kept", lambda: sum(self.so_far(server)) > self.bytes // 4)
                server.kill()
        with self.serve() as server:
            self.assertEqual(take(server, 1, seed="3"), expected)
            self.assertLess(self.so_far(server)[0], .9 * self.bytes)
            self.assertEqual(take(server, 1, seed="3"), expected)
            self.assertEqual(server.status()["bad_samples"], 0)


class Pieces(KeptTest):
    """A folder of which the local disk has all is read in pieces, like a pack."""

    def serve(self, *arguments, **options):
        options.setdefault("more", ("--keep", "train=yes", "--raw", "2M", "--piece", "train=8"))
        return super().serve(*arguments, **options)

    @staticmethod
    def pixels(server, epochs=1):
        """Of each epoch what each sample looked like; each comes once."""
        seen = [{} for _ in range(epochs)]
        for epoch, (number,), fields in take(server, epochs, batch_size=1, pipeline=PIPELINE):
            assert number not in seen[epoch], number
            seen[epoch][number] = fields
        return seen

    def fill(self):
        """The pixels, as one server found them and kept all files."""
        def is_kept():
            before, _ = self.so_far(server)
            self.assertEqual(self.pixels(server), [found])
            return self.so_far(server)[0] == before
        with self.serve() as server:
            found, = self.pixels(server)
            wait_until("an epoch reads nothing of the folder", is_kept)
        return found

    def hide(self):
        os.rename(self.data, self.data + ".away")
        for path in glob.glob(os.path.join(self.data + ".away", "*", "*.jpg")):
            os.rename(path, path + ".away")

    def space(self):
        """The file that has the folder's space: the one with most bytes on the disk."""
        files = glob.glob(os.path.join(self.folder, "*", "data"))
        return max(files, key=lambda path: os.stat(path).st_blocks)

    def damage(self, places):
        with open(self.space(), "r+b") as file:
            for place in places:
                file.seek(place)
                byte = file.read(1)
                file.seek(place)
                file.write(bytes([byte[0] ^ 32]))

    @staticmethod
    def figures(server):
        return server.status()["datasets"][0]["pieces"]

    def test_a_later_server_reads_pieces_and_no_file(self):
        expected = self.fill()
        self.assertEqual(len(expected), SAMPLES)
        with self.serve() as server:
            self.assertIn("data set 'train': all of it is kept in %s, and read from there in pieces"
                          % self.folder, server.log())
            self.hide()
            for seen in self.pixels(server, 3):
                self.assertEqual(seen, expected)
            source, kept = self.so_far(server)
            self.assertEqual(source, 0)
            self.assertGreater(kept, 1.5 * self.bytes)
            pieces = self.figures(server)
            self.assertGreater(pieces["piece_samples"], 1)
            self.assertEqual((pieces["missing_samples"], pieces["aside"]), (0, False))
            self.assertLess(pieces["reads"], 3 * SAMPLES / 2)
            self.assertIsNone(server.status()["datasets"][0]["pack"])
            self.assertIn("kept on the local disk, and read from there in pieces",
                          run("status", "--connect", server.endpoint).stdout)

    def test_a_running_server_begins_to_read_pieces(self):
        """In the middle of an epoch of the jobs that are there."""
        def are_read():
            if all(job.process.poll() is not None for job in jobs):
                self.pixels(server)             # the jobs left some files that were not kept
            return self.figures(server)
        with self.serve() as server:
            jobs = [server.read(batch=7, epochs=30), server.read("--order", "private", batch=5, epochs=12)]
            wait_until("the folder is read in pieces", are_read)
            self.assertIn("and read from there in pieces", server.log())
            for job, epochs in zip(jobs, (30, 12)):
                seen = job.finish()["epochs"]
                self.assertEqual(len(seen), epochs)
                for ids in seen.values():
                    self.assertEqual(sorted(ids), list(range(SAMPLES)))
            #  What is being read when pieces begin may be read twice.
            self.assertLess(self.so_far(server)[0], 1.2 * self.bytes)
            #  The jobs may have ended just when pieces began.
            self.assertEqual(self.pixels(server), [self.plain_pixels()])
            self.assertGreater(self.figures(server)["pieces"], 0)

    def plain_pixels(self):
        with Server({"train": self.data}, cache="3M") as server:
            return self.pixels(server)[0]

    def test_orders_are_fresh(self):
        self.fill()
        with self.serve() as server:
            self.hide()
            jobs = [server.read(batch=8, epochs=6) for _ in range(2)]
            for job in jobs:
                job.finish()
            done = run("audit", "--json", "--samples", str(SAMPLES), *(job.ids for job in jobs))
            self.assertEqual(self.so_far(server)[0], 0)
        result = json.loads(done.stdout)
        self.assertEqual(harness.sure_faults(result), [])
        self.assertEqual([file["exactly_once"] for file in result["files"]], ["yes"] * 2)

    def test_damage_costs_what_it_hits(self):
        """In each of ten units a byte: their samples are read of the folder, and kept again."""
        expected, epochs = self.fill(), 0

        def is_kept_again():
            nonlocal epochs
            epochs += 2
            self.assertEqual(self.pixels(server, 2), [expected] * 2)
            return self.figures(server)["missing_samples"] == 0
        with self.serve() as server:
            #  Before any epoch: a sample that lies prepared is not read, and its damage stays.
            self.damage(range(50, self.bytes // 2, self.bytes // 20))
            wait_until("what was damaged is kept again", is_kept_again)
            source, _ = self.so_far(server)
            self.assertGreater(source, 0)
            self.assertLess(source, epochs * self.bytes / 16)
            self.hide()
            self.assertEqual(self.pixels(server, 2), [expected] * 2)
            self.assertEqual(self.so_far(server)[0], source)
            self.assertEqual(server.status()["bad_samples"], 0)

    def test_what_cannot_be_kept_again_is_missing(self):
        """The files have other times now, under which this server does not keep them."""
        expected = self.fill()
        with self.serve() as server:
            self.damage([50])
            for path in self.files():
                os.utime(path, (5000, 5000))
            for _ in range(2):
                self.assertEqual(self.pixels(server), [expected])
                self.assertEqual(self.figures(server)["missing_samples"], 1)

    def test_a_file_that_has_gone_and_is_damaged_is_bad(self):
        expected = self.fill()
        with self.serve() as server:
            self.hide()
            self.damage([50])
            seen, = self.pixels(server)
            self.assertEqual(len(expected) - len(seen), 1)
            bad, = server.status()["datasets"][0]["bad"]
            self.assertIn("No such file", bad["reason"])

    def test_kills(self):
        expected = self.fill()
        for _ in range(3):
            with self.serve(expect_clean=False) as server:
                job = server.read(batch=16, epochs=99)
                wait_until("an epoch has begun", lambda: job.delivered() > 3)
                server.kill()
        with self.serve() as server:
            self.assertEqual(self.pixels(server, 2), [expected] * 2)
            self.assertEqual(self.so_far(server)[0], 0)

    def test_another_server_fills_the_cache(self):
        """With other data, which find no room beside those in use; and with the same, one file of which has
        changed: its place is given up under the first server."""
        expected = self.fill()
        other = tempfile.mkdtemp(prefix="other-", dir=self.root)
        make_folder(other, SAMPLES, sizes=((200, 320), (200, 320)), seed=harness.SEED + 1)
        with self.serve(1.2) as server:
            self.assertEqual(self.pixels(server), [expected])
            with self.serve(1.2, data=other) as second:
                take(second, 2)
            self.assertEqual(self.pixels(server), [expected])
            self.assertEqual(self.so_far(server)[0], 0)
            changed = self.files()[11]
            with open(changed, "ab") as file:
                file.write(b"\0")
            with self.serve(1.2) as second:
                take(second, 1)
            with open(changed, "r+b") as file:
                file.truncate(os.path.getsize(changed) - 1)
            self.assertEqual(self.pixels(server, 2), [expected] * 2)

    @unittest.skipUnless(os.path.exists(DISK), "a sanitizer has calls of its own: nothing can be preloaded")
    def test_a_disk_that_fails_or_hangs(self):
        """The folder's own files are read meanwhile."""
        expected = self.fill()
        rules = os.path.join(self.root, "rules-" + os.path.basename(self.data))
        other = "device 1793 %s\n" % self.folder            # than the folder's
        for rule in ("read 5 %s", "stall 1 %s"):
            with open(rules, "w") as file:
                file.write(other)
            environment = {"LD_PRELOAD": DISK, "TUREEN_DISK": rules}
            with self.subTest(rule=rule), self.serve(environment=environment) as server:
                self.assertEqual(self.pixels(server), [expected])
                with open(rules, "w") as file:
                    file.write(other + rule % self.folder + "\n")
                self.assertEqual(self.pixels(server), [expected])
                self.assertGreater(sum(self.so_far(server)), 1.5 * self.bytes)
                if rule.startswith("stall"):
                    self.assertGreater(self.so_far(server)[0], .5 * self.bytes)
                with open(rules, "w") as file:
                    file.write(other)
                wait_until("the disk answers", lambda: not self.figures(server)["aside"])
                self.assertEqual(self.pixels(server), [expected])
                self.assertEqual(server.status()["bad_samples"], 0)

    @unittest.skipUnless(os.path.exists(DISK), "a sanitizer has calls of its own: nothing can be preloaded")
    def test_a_server_starts_while_the_disk_hangs(self):
        """What was asked for of pieces has no effect then."""
        self.fill()
        rules = os.path.join(self.root, "rules-" + os.path.basename(self.data))
        with open(rules, "w") as file:
            file.write("device 1793 %s\nstall 1 %s\n" % (self.folder, self.folder))
        environment = {"LD_PRELOAD": DISK, "TUREEN_DISK": rules}
        for more in (("--tier", "train=direct"), ("--piece", "train=8")):
            with self.subTest(more=more), \
                    self.serve(more=("--keep", "train=yes", *more), environment=environment) as server:
                self.assertIn("does not answer", server.log())
                self.assertEqual(len(self.pixels(server)[0]), SAMPLES)

    def test_pins_are_of_pieces(self):
        expected = self.fill()
        with self.serve(more=("--keep", "train=yes", "--piece", "train=8", "--memory", "64M")) as server:
            self.assertEqual(self.pixels(server, 3), [expected] * 3)
            self.assertGreater(server.status()["datasets"][0]["pins"]["bytes"], 0)
            self.assertEqual(self.so_far(server)[0], 0)

    def test_too_little_memory_for_mixing_is_told_once(self):
        more = ("--keep", "train=yes", "--raw", "65536")
        for _ in ("is filled", "is full"):
            with self.serve(more=more) as server:
                wait_until("a warning", lambda: take(server, 2) and "would be read in pieces" in server.log())
                take(server, 4)
                self.assertEqual(server.log().count("would be read in pieces"), 1)
                self.assertNotIn("from there in pieces", server.log())

    def test_no_hole_is_pinned(self):
        """A file that is missing is read of the folder once, not again in place of its pinned hole."""
        self.fill()
        os.utime(self.files()[50], (5000, 5000))
        size = os.path.getsize(self.files()[50])
        more = ("--keep", "train=yes", "--piece", "train=8", "--raw", "2M", "--memory", "64M")
        with self.serve(more=more) as server:
            for _ in range(3):
                self.assertEqual(len(self.pixels(server)[0]), SAMPLES)
                self.assertEqual(self.so_far(server)[0], size)

    def test_one_large_file_asks_for_no_more_memory(self):
        """Mixing such would take 200 MB; so they are read file by file."""
        with open(os.path.join(os.path.dirname(self.files()[0]), "zz.jpg"), "wb") as file:
            file.truncate(20 << 20)
        with self.serve(20, more=("--keep", "train=yes", "--memory", "64M")) as server:
            self.assertEqual(server.status()["datasets"][0]["samples"], SAMPLES + 1)

    def test_what_is_not_read_in_pieces(self):
        self.fill()
        with self.serve(more=("--keep", "train=yes", "--tier", "train=direct")) as server:
            self.assertIsNone(self.figures(server))
            take(server, 1)
            self.assertEqual(self.so_far(server)[0], 0)
        with self.serve(.5) as server:
            self.assertIsNone(self.figures(server))
        done = run("serve", "--dataset", "train=" + self.data, "--tier", "train=redox", "--keep", "train=yes",
                   "--block-cache", self.folder + "=1G", "--listen", "ipc://" + self.folder + "/socket")
        self.assertIn("tier redox is for packs", done.stderr)


class Packs(KeptTest):
    def test_the_volume_is_read_once(self):
        pack = os.path.join(self.root, "pack-" + os.path.basename(self.data))
        self.assertEqual(run("pack", "--quiet", self.data, pack).returncode, 0)
        expected = self.plain(pack)
        with self.serve(data=pack) as server:
            take(server, 1)
            source, _ = self.so_far(server, "pack")
            self.assertEqual(take(server, 1, seed="3"), expected)
            self.assertLessEqual(source, 1.05 * self.bytes + 65536)
        with self.serve(data=pack) as server:
            self.assertEqual(take(server, 1, seed="3"), expected)
            self.assertEqual(self.so_far(server, "pack")[0], 0)


class Told(KeptTest):
    def test_files_of_no_network_are_not_kept_unasked(self):
        with self.serve(more=()) as server:
            self.assertIn("data set 'train' is not kept in %s, since it is on no network file system; with "
                          "--keep train=yes it is" % self.folder, server.log())
            self.assertIsNone(server.status()["datasets"][0]["objects"])
        with self.serve(more=("--keep", "train=no")) as server:
            self.assertNotIn("not kept", server.log())


if __name__ == "__main__":
    unittest.main()

"""Folders and packs that the cache on the local disk keeps: what was read once comes from
there, for later servers too; a file that has changed is read anew; and whatever becomes of the server, every
epoch holds each sample once, with the right pixels."""
import glob
import os
import shutil
import tempfile
import unittest

import harness
from harness import Server, make_folder, run, wait_until
from test_system_pins import take

SAMPLES = 240


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
            self.assertEqual(self.so_far(server), (self.bytes, 0))
            os.rename(self.data, self.data + ".away")
            for path in glob.glob(os.path.join(self.data + ".away", "*", "*.jpg")):
                os.rename(path, path + ".away")
            self.assertEqual(take(server, 1, seed="3"), expected)
            self.assertEqual(self.so_far(server), (self.bytes, self.bytes))

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
            self.assertEqual(source, self.bytes + os.path.getsize(path))
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

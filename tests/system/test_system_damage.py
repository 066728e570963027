"""What a server keeps on the disk for the next one, harmed while no server runs: each file, in each way.  The
next server starts, its jobs get what they got before, and it says what is damaged.  What is only missing is
read from the store again, and is no damage."""
import os
import shutil
import subprocess
import unittest

import harness
from harness import wait_until
from test_system_block_cache import CacheTest


class Sweep(CacheTest):
    SAMPLES = 60
    HARMS = ("a bit", "cut", "empty", "zeros", "another version", "longer", "removed")
    #  By the file's name: what the next server calls damage.
    DAMAGE = {"data": ("a bit", "cut", "empty", "zeros", "another version", "removed"),
              "sums": ("a bit", "empty", "zeros", "another version", "removed"),
              "usage": ("a bit", "cut", "zeros", "another version"),
              "lock": (),
              "rows": ("a bit", "cut", "empty", "zeros", "another version", "longer")}

    def harm(self, path, kind, how, dice):
        """Whether that changes the file."""
        if how == "removed":
            os.unlink(path)
            return True
        size = os.path.getsize(path)
        #  Behind the head of `sums`; in the units of `data` that every epoch reads to their ends
        first, last = {"sums": (4100, size), "data": (4096, size - 4096)}.get(kind, (0, size))
        with open(path, "r+b") as file:
            before = file.read()
            if how == "a bit" and size > 0:
                at = dice.randrange(first, last)
                file.seek(at)
                file.write(bytes([before[at] ^ 1 << dice.randrange(8)]))
            elif how in ("cut", "empty"):
                file.truncate(size // 2 if how == "cut" else 0)
            elif how == "zeros":
                file.seek(0)
                file.write(bytes(size))
            elif how == "another version":
                file.seek(first if kind == "data" else 0)
                file.write(dice.randbytes(min(8, size)))
            elif how == "longer":
                file.write(dice.randbytes(1 + dice.randrange(5000)))
            file.seek(0)
            return file.read() != before

    def checksums(self, server):
        return [server.read(dataset=name, batch=16, epochs=1, seed=5, order="seeded").finish()["checksum"]
                for name in ("train", "folder")]

    def test_each_file_in_each_way(self):
        dice = harness.seeded("damage")
        rows = os.path.join(self.root, "rows")
        os.mkdir(rows)
        options = dict(arguments=["--dataset", "folder=" + self.data, "--jpeg-rows-dir", rows])
        with self.serve(**options) as server:
            expected = self.checksums(server)
        kept = sorted(os.path.join(path, name) for top in (self.folder, rows)
                      for path, _, names in os.walk(top) for name in names)
        self.assertTrue([path for path in kept if path.endswith(".rows")])
        self.assertGreater(len(kept), 4, kept)
        whole = os.path.join(self.root, "whole")
        os.mkdir(whole)
        subprocess.run(["cp", "-a", self.folder, rows, whole + "/"], check=True)
        for path in kept:
            kind = os.path.basename(path).rpartition(".")[2]
            for how in self.HARMS:
                with self.subTest(path=os.path.relpath(path, self.root), how=how):
                    for folder in (self.folder, rows):
                        shutil.rmtree(folder)
                        subprocess.run(["cp", "-a", os.path.join(whole, os.path.basename(folder)), folder],
                                       check=True)
                    is_changed = self.harm(path, kind, how, dice)
                    self.assertTrue(is_changed or kind == "lock")           # which is empty
                    if not is_changed:
                        continue
                    with self.serve(**options) as server:
                        self.assertEqual(self.checksums(server), expected)
                        self.assertEqual(server.status()["bad_samples"], 0)
                        self.assert_said(server, kind, how)
                    self.assertTrue(os.path.exists(path))

    def assert_said(self, server, kind, how):
        is_damage, counted = how in self.DAMAGE[kind], server.status()["block_cache"]["damaged"]
        self.assertEqual(counted > 0, is_damage and kind != "rows")
        self.assertEqual("is not used (it is damaged" in server.log(), is_damage and kind == "rows")
        if counted and how == "zeros":                  # once a kind: the log is half a second late
            wait_until("it is said", lambda: "warning block_cache_damage times=" in server.log())


if __name__ == "__main__":
    unittest.main()

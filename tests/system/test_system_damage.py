"""What a server keeps on the disk for the next one, harmed while no server runs: each file, in each way.  The
next server starts, and its jobs get what they got before."""
import os
import unittest

import harness
from test_system_block_cache import CacheTest


class Sweep(CacheTest):
    SAMPLES = 60
    HARMS = ("a bit", "cut", "empty", "zeros", "another version", "longer", "removed")

    def harm(self, path, how, dice):
        size = os.path.getsize(path)
        if how == "removed":
            os.unlink(path)
            return
        with open(path, "r+b") as file:
            if how == "a bit" and size > 0:
                file.seek(dice.randrange(size))
                byte = file.read(1)[0]
                file.seek(-1, os.SEEK_CUR)
                file.write(bytes([byte ^ 1 << dice.randrange(8)]))
            elif how == "cut":
                file.truncate(dice.randrange(size + 1))
            elif how == "empty":
                file.truncate(0)
            elif how == "zeros":
                file.write(bytes(size))
            elif how == "another version":
                file.write(dice.randbytes(min(8, size)))
            else:
                file.seek(size)
                file.write(dice.randbytes(1 + dice.randrange(5000)))

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
        for path in kept:
            for how in self.HARMS:
                with self.subTest(path=os.path.relpath(path, self.root), how=how):
                    self.harm(path, how, dice)
                    with self.serve(**options) as server:
                        self.assertEqual(self.checksums(server), expected)
                        self.assertEqual(server.status()["bad_samples"], 0)
                    self.assertTrue(os.path.exists(path))


if __name__ == "__main__":
    unittest.main()

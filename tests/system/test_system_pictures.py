"""Decoded pictures that stay in memory (--memory): what jobs get is bit for bit what they get without,
samples are decoded twice at most, and memory is given back to pins."""
import os
import shutil
import tempfile
import unittest

import harness
from harness import Server, wait_until
from test_system_pins import FIXED_SEED, take

BYTES_ALL = 120 << 20           # more than all pictures take


class PicturesTest(unittest.TestCase):
    SAMPLES = 128

    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="tu-pictures-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.data, cls.packed = os.path.join(cls.root, "data"), os.path.join(cls.root, "pack")
        harness.make_folder(cls.data, cls.SAMPLES, seed=harness.SEED, sizes=((420, 520), (420, 520)))
        done = harness.run("pack", "--quiet", cls.data, cls.packed)
        assert done.returncode == 0, done.stderr

    def serve(self, memory, folder=None, **options):
        arguments = ("--memory", str(memory)) if memory else ()
        return Server({"train": folder or self.data}, cache="3M", arguments=("--raw", "12M", *arguments),
                      **options)

    @staticmethod
    def pictures(server, number=0):
        return server.status()["datasets"][number]["pictures"]

    def test_pictures_change_no_order_and_no_byte(self):
        for folder in self.data, self.packed:
            with self.serve(None, folder) as server:
                self.assertIsNone(self.pictures(server))
                plain = take(server, 4, seed="7")
            with self.serve(BYTES_ALL, folder) as server:
                self.assertEqual(take(server, 4, seed="7"), plain)
                pictures = self.pictures(server)
                self.assertEqual(pictures["count"], self.SAMPLES)
                self.assertEqual(pictures["hits"] + pictures["misses"], 4 * self.SAMPLES)
                #  A sample may be asked for a third time, in the window of 64, before its picture is
                #  complete.
                self.assertIn(pictures["misses"], range(2 * self.SAMPLES, 2 * self.SAMPLES + 65))
                self.assertEqual(server.status()["memory"]["decoded_bytes"], pictures["bytes"])
                self.assertGreater(pictures["saved_seconds"], 0)
            #  There is room for some.
            with self.serve(60 << 20, folder) as server:
                self.assertEqual(take(server, 4, seed="7"), plain)
                memory, pictures = server.status()["memory"], self.pictures(server)
                self.assertTrue(0 < pictures["count"] < self.SAMPLES)
                self.assertIn(2 * pictures["count"] - pictures["hits"], range(65))
                self.assertLessEqual(pictures["bytes"], memory["pictures_bytes"])

    @unittest.skipUnless(os.path.exists(FIXED_SEED), "nothing can be preloaded to fix a server's seed")
    def test_shared_and_private_orders_are_the_same(self):
        for folder in self.data, self.packed:
            for order in "shared", "private":
                for memory in None, BYTES_ALL:
                    with self.serve(memory, folder, environment={"LD_PRELOAD": FIXED_SEED}) as server:
                        taken = take(server, 3, order=order)
                        plain = taken if not memory else plain
                        self.assertEqual(taken, plain)
                        if memory:
                            self.assertGreater(self.pictures(server)["hits"], 0)

    def test_what_is_decoded_at_a_smaller_scale_is_not_kept(self):
        pipeline = [{"op": "decode", "exact": False}, {"op": "random_resized_crop", "size": 32},
                    {"share": True}, {"op": "flip"}]
        with self.serve(BYTES_ALL) as server:
            take(server, 3, pipeline=pipeline)
            self.assertEqual(self.pictures(server), {"count": 0, "bytes": 0, "hits": 0, "misses": 0,
                                                     "saved_seconds": 0})

    def test_added_data_are_pinned_in_place_of_pictures(self):
        with self.serve(BYTES_ALL) as server:
            take(server, 3)
            before = server.status()["memory"]
            self.assertEqual(self.pictures(server)["count"], self.SAMPLES)
            copies = []
            for number in range(4):
                copies.append(os.path.join(self.root, "copy%d" % number))
                os.symlink(self.packed, copies[-1])
                done = harness.run("add", "--connect", server.endpoint, "more%d=%s" % (number, copies[-1]))
                self.assertEqual(done.returncode, 0, done.stderr)
            now = server.status()["memory"]
            size = sum(os.path.getsize(os.path.join(self.packed, name)) for name in os.listdir(self.packed)
                       if name.startswith("volume"))
            self.assertAlmostEqual((before["pictures_bytes"] - now["pictures_bytes"]) / size, 4, delta=0.1)
            self.assertEqual(before["pictures_bytes"] + before["pins_bytes"],
                             now["pictures_bytes"] + now["pins_bytes"])
            self.assertLessEqual(now["decoded_bytes"], now["pictures_bytes"])
            self.assertEqual(len(take(server, 1)), self.SAMPLES // 16)
            for number in range(4):
                done = harness.run("remove", "--connect", server.endpoint, "more%d" % number)
                self.assertEqual(done.returncode, 0, done.stderr)
                os.unlink(copies[number])
            wait_until("the room is back", lambda: server.status()["memory"]["pictures_bytes"]
                       == before["pictures_bytes"])
            take(server, 2)
            self.assertEqual(self.pictures(server)["count"], self.SAMPLES)


if __name__ == "__main__":
    unittest.main()

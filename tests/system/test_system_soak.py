"""bench/soak/soak.py for half a minute: that it works, and that what it judges holds; long runs are for `sh
bench/soak.sh`."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import harness
from harness import SEED, SOURCE, TUREEN, make_folder


class Soak(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tu-", dir="/tmp")
        os.chmod(self.folder, 0o755)
        self.data = os.path.join(self.folder, "data")
        make_folder(self.data, 300)

    def tearDown(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def soak(self, *options):
        directory = tempfile.mkdtemp(dir=self.folder)
        done = subprocess.run([sys.executable, "-B", os.path.join(SOURCE, "bench", "soak", "soak.py"),
                               "--data", self.data, "--binary", TUREEN, "--directory", directory, "--minutes",
                               "0.4", "--clients", "14", "--seed", str(SEED), *options],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True,
                              timeout=10 * harness.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_all_kinds_of_clients(self):
        self.assertRegex(self.soak(), "each sample once an epoch +yes\ngood\n$")


if __name__ == "__main__":
    unittest.main(verbosity=2)

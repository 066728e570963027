"""bench/soak/freshness.py on a few mixes: orders that live servers give are fresh at every lag.  All mixes:
`sh bench/freshness.sh`."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import harness
from harness import SOURCE, TUREEN


class Freshness(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tu-fresh-", dir="/tmp")

    def tearDown(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def assert_fresh(self, mix, samples):
        directory = tempfile.mkdtemp(dir=self.folder)
        done = subprocess.run([sys.executable, "-B", os.path.join(SOURCE, "bench", "soak", "freshness.py"),
                               "--binary", TUREEN, "--directory", directory, "--samples", str(samples),
                               "--epoch", "0.25", "--only", mix],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True,
                              timeout=4 * harness.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("1 mixes, 1 fresh", done.stdout)

    def test_a_job_alone_with_everything_cached(self):
        #  It took what it had prepared last first, again and again: phi2 0.4 at lag 3.
        self.assert_fresh("1 alone, deterministic, folder, cache 300 %", 1000)

    def test_a_job_alone_with_a_part_cached(self):
        #  What the cache had kept came first: t5h5 2.5.
        self.assert_fresh("1 alone, deterministic, folder, cache 10 %", 600)

    def test_jobs_in_step(self):
        #  They came back to their orders of two and three epochs before: phi2 0.05.
        self.assert_fresh("8 together, deterministic, folder, cache 27 %", 600)


if __name__ == "__main__":
    unittest.main(verbosity=2)

"""The examples, and what measures the clients, at their smallest: that they run, and print what they
promise."""
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import harness
from harness import wait_until


FRAMEWORKS = os.environ.get("TUREEN_FRAMEWORKS_PYTHON")      # a Python that has Ray


class Scripts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tu-examples-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def servers(self):
        """Process ids of those that were started for what is in the folder."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/cmdline" % pid, "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if words[:2] == [os.fsencode(harness.TUREEN),
                             b"serve"] and any(os.fsencode(self.folder) in word for word in words):
                found.append(int(pid))
        return found

    def environment(self, **more):
        return dict(os.environ, TMPDIR=self.folder, TUREEN_SERVER=harness.TUREEN, PYTHONDONTWRITEBYTECODE="1",
                    PYTHONPATH=os.path.join(harness.SOURCE, "clients", "python"), **more)

    def run_script(self, *command, python=sys.executable):
        return self.run_scripts([self.environment()], *command, python=python)[0]

    def run_scripts(self, environments, *command, python=sys.executable):
        """The same once in each environment, at the same time; what each printed."""
        processes = [subprocess.Popen([python, *map(str, command)], env=environment,
                                      cwd=harness.SOURCE, text=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE) for environment in environments]
        try:
            printed = [process.communicate(timeout=8 * harness.PATIENCE) for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
        for process, (output, errors) in zip(processes, printed):
            self.assertEqual(process.returncode, 0, output + errors)
        wait_until("its server has ended", lambda: not self.servers())
        print(*[output for output, _ in printed], flush=True)
        return [output for output, _ in printed]

    def shared(self, output):
        """Prepared and delivered samples, as it prints them at the end."""
        found = re.search(r"prepared (\d+) samples and delivered (\d+): (\d\.\d\d) prepared for each "
                          r"delivered\n$", output)
        self.assertTrue(found, output)
        prepared, delivered = int(found.group(1)), int(found.group(2))
        self.assertAlmostEqual(prepared / delivered, float(found.group(3)), delta=0.0051)
        return prepared, delivered


class Examples(Scripts):
    def test_numpy_only(self):
        output = self.run_script("examples/numpy_only.py", "--samples", 200, "--epochs", 2)
        self.assertEqual(len(re.findall(r"^epoch \d: loss \d\.\d+, accuracy [01]\.\d+$", output, re.M)), 2)
        #  Of validation each sample once.
        self.assertEqual(self.shared(output), (2 * 200 + 50, 2 * 200 + 2 * 50))

    def test_sweep(self):
        output = self.run_script("examples/sweep.py", "--samples", 160, "--epochs", 4, "--trials", 4)
        self.assertEqual(len(re.findall(r"^trial \d \(rate \S+\) killed: ", output, re.M)), 2)
        self.assertEqual(len(re.findall(r"^trial \d \(rate \S+\): accuracy ", output, re.M)), 2)
        prepared, delivered = self.shared(output)
        self.assertLess(prepared, delivered)        # validation alone sees to that

    def test_k_fold(self):
        output = self.run_script("examples/k_fold.py", "--samples", 150, "--epochs", 2, "--folds", 3)
        self.assertEqual(len(re.findall(r"^fold \d: accuracy [01]\.\d+ on 50$", output, re.M)), 3)
        prepared, delivered = self.shared(output)
        self.assertEqual(delivered, 3 * (2 * 100 + 50))
        self.assertLessEqual(prepared, delivered)

    def test_datamodels(self):
        output = self.run_script("examples/datamodels.py", "--samples", 400, "--epochs", 4, "--jobs", 16)
        self.assertRegex(output, r"(?m)^16 models: accuracy [01]\.\d+ on average; ")
        prepared, delivered = self.shared(output)
        self.assertEqual(delivered, 16 * (4 * 200 + 100))
        self.assertLess(prepared, delivered * 0.7)      # apart they would prepare nearly all

    def test_resume(self):
        output = self.run_script("examples/resume.py", "--samples", 128, "--epochs", 3, "--kills", 1,
                                 "--step", 0.5)
        self.assertEqual(len(re.findall(r"^epoch \d: 128 samples, each exactly once$", output, re.M)), 3)
        self.assertIn("killed 1 times", output)
        self.shared(output)

    @unittest.skipIf(importlib.util.find_spec("torch") is None, "no PyTorch here")
    def test_ddp(self):
        """By itself, where it is killed and gone on with; and as torchrun starts it."""
        output = self.run_script("examples/ddp.py", "--samples", 193, "--epochs", 3, "--step", 0.2)
        self.assertIn("killed all 2 ranks", output)
        self.assertRegex(output, r"(?m)^attempt 1: 3 ranks, \d+ steps each that count$")
        self.assertEqual(len(re.findall(r"^epoch \d: 193 samples over all ranks, each exactly once$", output,
                                        re.M)), 3)
        self.assertRegex(output, r"(?m)^[1-9]\d* batches of padding")
        self.shared(output)
        started = dict(OMP_NUM_THREADS="1", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                       MASTER_PORT=str(harness.free_port()))
        outputs = self.run_scripts([self.environment(RANK=str(rank), **started) for rank in range(2)],
                                   "examples/ddp.py", "--samples", 65, "--epochs", 1)
        self.assertRegex(outputs[0], r"^epoch 0: accuracy [01]\.\d+, 2 ranks\n")
        self.assertEqual(outputs[1], "")
        prepared, _ = self.shared(outputs[0])
        self.assertGreaterEqual(prepared, 65 + 16)


    @unittest.skipUnless(FRAMEWORKS or importlib.util.find_spec("ray"), "NOT RUN: Ray is not installed; sh "
                         "scripts/frameworks.sh FOLDER installs it, and "
                         "TUREEN_FRAMEWORKS_PYTHON=FOLDER/bin/python names it")
    def test_ray_cluster(self):
        output = self.run_script("examples/ray_cluster.py", "--samples", 301, "--epochs", 3,
                                 python=FRAMEWORKS or sys.executable)
        self.assertIn("attempt 1: 3 nodes of 2 trainers", output)
        self.assertIn("trainers are lost: the round is thrown away", output)
        self.assertRegex(output, r"(?m)^attempt \d: 2 nodes of 2 trainers$")
        self.assertEqual(len(re.findall(r"(?m)^epoch \d: 301 samples over all nodes, each exactly once$",
                                        output)), 3)


class Benches(Scripts):
    def test_client_bench(self):
        path = os.path.join(self.folder, "found.json")
        output = self.run_script("bench/speed/client_bench.py", "--bin", os.path.dirname(harness.TUREEN),
                                 "--rounds", 1, "--batches", 5, "--images", 64, "--json", path)
        self.assertRegex(output, r"(?m)^tureen\.Loader +waiting .* at most 5: ")
        with open(path) as file:
            found = json.load(file)
        self.assertIn("tureen.Loader", found)
        for name, cases in found.items():
            self.assertEqual(sorted(cases), ["sleeping", "waiting"], name)
            for rounds in cases.values():
                self.assertEqual(len(rounds), 1)
                for figures in rounds:
                    self.assertGreater(figures["bare_us"], 0)
                    self.assertGreater(figures["loader_us"], 0)
                    self.assertAlmostEqual(figures["ratio"], figures["loader_us"] / figures["bare_us"], 6)
                    self.assertTrue(0 <= figures["slept"] <= 1)

    def test_map_bench(self):
        path = os.path.join(self.folder, "found.json")
        output = self.run_script("bench/speed/map_bench.py", "--bin", os.path.dirname(harness.TUREEN),
                                 "--rounds", 1, "--seconds", 0.2, "--loader", "tureen.Loader", "--json", path)
        self.assertRegex(output, r"(?m)^tureen\.Loader +map, 2 processes .* at most 3 %: ")
        with open(path) as file:
            found = json.load(file)
        self.assertEqual(list(found), ["tureen.Loader"])
        for case, rounds in found["tureen.Loader"].items():
            self.assertEqual(len(rounds), 1, case)
            self.assertTrue(0 < rounds[0] < 2, case)

    def test_train_parity_compares(self):
        sys.path.insert(0, os.path.join(harness.SOURCE, "bench", "peers"))
        sys.path.insert(0, os.path.join(harness.SOURCE, "clients", "python"))
        import train_parity
        #  Tables of Student's t, and a textbook case of Welch's test.
        for tail, degrees, expected in ((0.025, 10, 2.228139), (0.1, 19, 1.327728), (0.025, 38, 2.024394),
                                        (0.05, 3, 2.353363)):
            self.assertAlmostEqual(train_parity.student_quantile(tail, degrees), expected, 4)
        found = train_parity.compare([3.0, 4, 1, 2.1], [490.2, 340, 433.9], 0.9)
        self.assertAlmostEqual(found.p, 0.0107516, 5)
        self.assertIsNone(train_parity.compare([1.0], [1.0, 2.0], 0.9))


if __name__ == "__main__":
    unittest.main(verbosity=2)

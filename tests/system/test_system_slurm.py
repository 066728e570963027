"""share/slurm/tureen.sbatch: its options exist, and it runs, with an srun that starts the tasks of all nodes
on this machine."""
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import harness
from harness import SOURCE, TUREEN, wait_until

SCRIPT = os.path.join(SOURCE, "share", "slurm", "tureen.sbatch")
SAMPLES, EPOCHS = 301, 2
#  As Slurm: a signal reaches every task, and with --kill-on-bad-exit a task that fails ends the others.
SRUN = """#!/usr/bin/python3
import os, signal, subprocess, sys
words = sys.argv[1:]
first = next(place for place, word in enumerate(words) if not word.startswith("--"))
nodes = int(next(word for word in words if word.startswith("--nodes=")).split("=")[1])
tasks = [subprocess.Popen(words[first:], env=dict(os.environ, SLURM_NODEID=str(node)))
         for node in range(nodes)]
def end(*_):
    for task in tasks:
        task.terminate()
signal.signal(signal.SIGTERM, end)
worst = 0
while tasks:
    pid, status = os.wait()
    tasks = [task for task in tasks if task.pid != pid]
    worst = max(worst, abs(os.waitstatus_to_exitcode(status)))
    if worst and "--kill-on-bad-exit=1" in words[:first]:
        end()
sys.exit(worst)
"""
SCONTROL = """#!/bin/sh
case $1 in
show) echo localhost ;;
requeue) echo "requeued $2" ;;
esac
"""


class Sbatch(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tu-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
            with open(self.path(name), "w") as file:
                file.write(text)
            os.chmod(self.path(name), 0o755)
        harness.make_folder(self.path("train"), SAMPLES, classes=4, seed=harness.SEED)

    def path(self, name):
        return os.path.join(self.folder, name)

    def submit(self, nodes, data="train", step="0"):
        environment = dict(
            os.environ, PATH=":".join([self.folder, os.path.dirname(TUREEN), os.environ["PATH"]]),
            OMP_NUM_THREADS="1", PYTHONPATH=os.path.join(SOURCE, "clients", "python"),
            PYTHONDONTWRITEBYTECODE="1", PROCESSES="2",
            TUREEN_SERVE="--dataset train=%s --cache 64M --workers 1" % self.path(data), TMPDIR=self.folder,
            TORCHRUN="/usr/bin/python3 -m torch.distributed.run --redirects 1 --tee 1",
            SLURM_JOB_ID=str(os.getpid()), SLURM_JOB_NODELIST="node[0-1]", SLURM_JOB_NUM_NODES=str(nodes),
            SLURM_SUBMIT_DIR=self.folder)
        with open(self.path("log"), "w") as log:
            job = subprocess.Popen(
                ["bash", SCRIPT, os.path.join(SOURCE, "examples", "nodes.py"), "--epochs", str(EPOCHS),
                 "--batch", "8", "--every", "2", "--checkpoint", self.path("checkpoint"), "--step", step],
                stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True)
        self.addCleanup(self.kill, job)
        return job

    def kill(self, job):
        try:
            os.killpg(job.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        job.wait()

    def log(self):
        with open(self.path("log"), errors="replace") as file:
            return file.read()

    def assert_nothing_is_left(self):
        for node in range(2):
            self.assertFalse(os.path.exists("/tmp/tureen-%d-%d" % (os.getpid(), node)))

    def test_options_exist(self):
        with open(SCRIPT) as file:
            text = re.sub(r"(?m)^ *#.*$", "", file.read())
        found = re.findall(r"\btureen (serve|status|drain)\b([^\n;|&]*)", text)
        found.append(("serve", re.search(r"TUREEN_SERVE:-(.*)}", text).group(1)))
        self.assertEqual({command for command, _ in found}, {"serve", "status", "drain"})
        for command, rest in found:
            known = re.findall(r"--[a-z-]+", harness.run(command, "--help").stdout)
            for option in re.findall(r"(?<!\S)--[a-z-]+", rest):
                self.assertIn(option, known)

    def test_a_server_that_cannot_start(self):
        self.assertEqual(self.submit(2, data="none").wait(harness.PATIENCE), 1, self.log())
        self.assertIn("not every server listens", self.log())
        self.assertIn("tureen serve: ", self.log())
        self.assert_nothing_is_left()

    @unittest.skipIf(importlib.util.find_spec("torch") is None, "no PyTorch here")
    def test_stopped_before_the_time_limit(self):
        """Slurm's signal ends the training behind a step, and the job is requeued; on one node it goes on."""
        job = self.submit(2, step="0.1")
        wait_until("a checkpoint", lambda: os.path.exists(self.path("checkpoint")) or job.poll() is not None)
        os.kill(job.pid, signal.SIGUSR1)
        self.assertEqual(job.wait(harness.PATIENCE), 0, self.log())
        self.assertIn("stopped: the checkpoint has the state", self.log())
        self.assertIn("requeued %d" % os.getpid(), self.log())
        self.assertEqual(self.log().count("node 1 of 2, 2 ranks"), 1)
        self.assert_nothing_is_left()
        self.assertEqual(self.submit(1).wait(harness.PATIENCE), 0, self.log())
        self.assertRegex(self.log(), r"goes on behind step \d+")
        self.assertIn("%d epochs: the model has learned from each sample once" % EPOCHS, self.log())
        self.assertNotIn("requeued", self.log())
        self.assert_nothing_is_left()


if __name__ == "__main__":
    unittest.main()

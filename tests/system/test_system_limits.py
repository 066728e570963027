"""The limits that a system sets to a process (ulimit): reaching one is a sentence, and no death by a
signal."""
import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import harness
from harness import SystemTest, run, wait_until

PIPELINE = json.dumps([{"op": "decode"}, {"op": "resize", "size": [64, 64]}])
NOBODY = 65534


def limited(*limits):
    """A command that runs another one with these limits, as prlimit (1) has them."""
    return ["prlimit", *limits, "--"]


def run_limited(limits, *arguments, environment=None, timeout=harness.PATIENCE, user=None,
                program=harness.TUREEN):
    become = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups"] if user else []
    return subprocess.run([*become, *limited(*limits), program, *map(str, arguments)],
                          capture_output=True, text=True, timeout=timeout, env=environment)


class FileSize(SystemTest):
    """SIGXFSZ: a ring, a lock, and what commands write are files."""
    SAMPLES = 60

    def test_a_ring_that_is_too_large_costs_a_copy_and_no_server(self):
        with self.serve(wrapper=limited("--fsize=1000000")) as server:
            self.assertIn("warning: a file may have at most 976.6 KiB here (ulimit -f, LimitFSIZE=)",
                          server.log())
            small = server.read(batch=4, epochs=2, pipeline=PIPELINE, name="small", rate=60)
            large = server.read(batch=30, epochs=3, pipeline=PIPELINE, name="large")
            self.assertFalse(self.assert_finished(large, 3)["ring"])
            self.assertTrue(self.assert_finished(small, 2)["ring"])
            self.assertRegex(server.log(), r"warning no_ring dataset=train: a job on 'train' cannot have a "
                             r"ring of 14\d{5} bytes, .* the "
                             r"server's limit of file sizes is 1000000 bytes: raise it \(ulimit -f, "
                             r"LimitFSIZE=\)")

    def test_clients_take_a_ring(self):
        """They write no files: a limit costs them nothing, and they change no signal of the process."""
        script = ("import signal, sys, tureen\nbefore = [signal.getsignal(number) for number in "
                  "signal.valid_signals()]\nloader = tureen.Loader(sys.argv[1], 'train', batch_size=20, "
                  "epochs=1, pipeline=%r)\nids = sorted(id for batch in loader for id in "
                  "batch.ids.tolist())\nassert before == [signal.getsignal(number) for number in "
                  "signal.valid_signals()]\nassert ids == list(range(%d)), ids\n"
                  % (json.loads(PIPELINE), self.SAMPLES))
        with self.serve() as server:
            read = run_limited(["--fsize=0"], "read", "--connect", server.endpoint, "--dataset", "train",
                               "--batch", 20, "--pipeline", PIPELINE)
            self.assertEqual(read.returncode, 0, read.stderr)
            self.assertIn("(shared memory, ", read.stdout)
            python = subprocess.run([*limited("--fsize=0"), "/usr/bin/python3", "-B", "-c", script,
                                     server.endpoint], capture_output=True,
                                    text=True, timeout=harness.PATIENCE,
                                    env=dict(os.environ,
                                             PYTHONPATH=os.path.join(harness.SOURCE, "clients", "python")))
            self.assertEqual(python.returncode, 0, python.stderr)
            self.assertEqual(server.log().count(", ring"), 2)

    def assert_finished(self, job, epochs):
        result = job.finish()
        self.assert_epochs(result, epochs)
        return result

    def test_what_is_written(self):
        remedy = "File too large: raise the limit of file sizes (ulimit -f"
        folder = os.path.join(self.root, "fsize")
        os.mkdir(folder)
        image = next(os.path.join(at, name) for at, _, names in os.walk(self.data) for name in names)
        packed = run("pack", self.data, folder + "/good")
        self.assertEqual(packed.returncode, 0, packed.stderr)
        for said, arguments in ((remedy, ("unpack", folder + "/good", folder + "/unpacked")),
                                (remedy, ("prepare", "--recipe", "eval", "--out", folder + "/prepared",
                                          image)),
                                ("(File too large): raise the limit of file sizes",
                                 ("pack", self.data, folder + "/pack")),
                                ("cannot write to the lock file '%s/s.sock.lock': raise the limit of file "
                                 "sizes" % folder,
                                 ("serve", "--dataset", "train=" + self.data, "--listen",
                                  "ipc://%s/s.sock" % folder))):
            done = run_limited(["--fsize=0"] if arguments[0] == "serve" else ["--fsize=1024"], *arguments)
            self.assertEqual(done.returncode, 1, (arguments, done.stderr))
            self.assertIn(said, done.stderr)
        #  No part of a file stays.
        self.assertEqual([names for _, _, names in os.walk(folder + "/unpacked") if names], [])


class ProcessorTime(SystemTest):
    """SIGXCPU, the soft limit's signal."""
    SAMPLES = 200

    def test_the_server_ends_in_order(self):
        with self.serve(expect_clean=False) as server:
            reader = server.read("--rejoin", "0", batch=8, epochs=9, pipeline=PIPELINE, rate=200)
            wait_until("batches", lambda: reader.delivered() > 0)
            os.kill(server.pid, signal.SIGXCPU)
            self.assertEqual(server.process.wait(harness.PATIENCE), 1)
            self.assertEqual(server.left_behind(), [])
            self.assertIn("error ending reason=cpu_limit: the limit of processor time is reached (ulimit -t, "
                          "LimitCPU=)", server.log())
            self.assertEqual(reader.wait(), 1)

    def test_a_limit_that_is_reached(self):
        with self.serve(wrapper=limited("--cpu=1:60"), expect_clean=False) as server:
            readers = [server.read("--rejoin", "0", batch=50, epochs=0, recipe="train", order="private")
                       for _ in range(2)]
            self.assertEqual(server.process.wait(4 * harness.PATIENCE), 1)
            self.assertIn("reason=cpu_limit", server.log())
            for reader in readers:
                self.assertEqual(reader.wait(), 1)

    def test_a_supervised_one_is_started_again(self):
        with self.serve(arguments=["--supervise"]) as server:
            reader = server.read(batch=8, epochs=3, pipeline=PIPELINE, rate=200)
            wait_until("batches", lambda: reader.delivered() > 0)
            with open(server.folder + "/s.sock.lock") as file:
                child = int(file.read().split()[0])
            self.assertNotEqual(child, server.pid)
            os.kill(child, signal.SIGXCPU)
            self.assert_epochs(reader.finish(), 3)
            self.assertIn("reason=cpu_limit", server.log())
            self.assertRegex(server.log(), r"the server died of signal %d \(CPU time limit exceeded\)"
                             % signal.SIGXCPU)
            self.assertEqual(server.status()["restarts"], 1)

    def test_a_reader_leaves_in_order(self):
        with self.serve() as server:
            reader = server.read("--state", server.folder + "/state", batch=8, epochs=9, pipeline=PIPELINE,
                                 rate=200)
            wait_until("batches", lambda: reader.delivered() > 0)
            reader.signal(signal.SIGXCPU)
            self.assertEqual(reader.wait(), 128 + signal.SIGXCPU)
            self.assertIn("tureen read: the limit of processor time is reached (ulimit -t, LimitCPU=)",
                          reader.texts()[1])
            wait_until("it has left", lambda: " left " in server.log())
            self.assertTrue(os.path.exists(server.folder + "/state"))

    def test_a_pack_goes_on(self):
        packing = subprocess.Popen([harness.TUREEN, "pack", "--json", self.data, self.root + "/p"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(0.01)
        packing.send_signal(signal.SIGXCPU)
        said = packing.communicate(timeout=harness.PATIENCE)[1]
        #  It may have been too early for it, or too late.
        self.assertIn(packing.returncode, (0, 128 + signal.SIGXCPU, -signal.SIGXCPU))
        if packing.returncode > 0:
            self.assertIn("the limit of processor time is reached (ulimit -t, LimitCPU=): raise it, then go "
                          "on with --resume", said)
        done = run("pack", "--resume", self.data, self.root + "/p")
        self.assertEqual(done.returncode, 0, done.stderr)


class Others(SystemTest):
    SAMPLES = 20

    def serves(self, *limits):
        with self.serve(wrapper=limited(*limits)) as server:
            self.assert_epochs(server.read(batch=8, epochs=2, recipe="train").finish(), 2)

    def test_stack(self):
        """A soft limit is raised; a hard one has a sentence."""
        self.serves("--stack=65536:")
        refused = run_limited(["--stack=131072:131072"], "status")
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertIn("tureen: the limit of the stack is 128 KiB, and 1024 are needed: raise it (ulimit -s, "
                      "LimitSTACK=)", refused.stderr)

    def test_locked_memory(self):
        self.serves("--memlock=0:0")

    def test_open_files(self):
        refused = run_limited(["--nofile=20:20"], "serve", "--dataset", "train=" + self.data, "--listen",
                              "ipc://%s/s.sock" % self.root)
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertIn("raise the limit of open files (ulimit -n, LimitNOFILE=)", refused.stderr)

    LARGE = dict(batch=20, slots=64, epochs=1, pipeline=json.dumps([{"op": "decode"},
        {"op": "resize", "size": [512, 512]}]))

    def squeeze(self, server, limit, name, extra=4 << 20):
        """The server may have this many more bytes than it has."""
        self.assert_epochs(server.read(batch=8, epochs=1, pipeline=PIPELINE).finish(), 1)
        if harness.is_sanitized(server.pid):
            self.skipTest("a sanitizer's own memory counts")
        soft, hard = resource.prlimit(server.pid, limit)
        resource.prlimit(server.pid, limit, (harness.process_number(server.pid, name) * 1024 + extra,
                                             hard))
        return lambda: resource.prlimit(server.pid, limit, (soft, hard))

    def test_address_space(self):
        """A job with a ring that does not fit is refused; others go on."""
        with self.serve() as server:
            self.squeeze(server, resource.RLIMIT_AS, "VmSize")
            large = server.read(**self.LARGE)
            self.assertEqual(large.wait(), 1)
            self.assertIn("the system has no memory for the job's batches (64 slots of ",
                          large.texts()[1])
            self.assert_epochs(server.read(batch=4, epochs=2, pipeline=PIPELINE).finish(), 2)

    def test_data(self):
        """What a sample needs is waited for, a job without memory is refused, and what ZeroMQ cannot refuse
        finds memory: large buffers leave some."""
        for extra in (8 << 20, 4 << 20, 3 << 20):
            with self.subTest(extra=extra), self.serve() as server:
                relax = self.squeeze(server, resource.RLIMIT_DATA, "VmData", extra)
                larges = []
                for _ in range(3):
                    larges.append(server.read(**self.LARGE))
                    for _ in range(3):
                        other = server.read(batch=4, epochs=2, pipeline=PIPELINE)
                        if other.wait() != 0:
                            self.assertIn("the system has no memory for ", other.texts()[1])
                        else:
                            self.assert_epochs(other.finish(), 2)
                relax()
                for large in larges:
                    if large.wait() != 0:
                        self.assertIn("the system has no memory for ", large.texts()[1])
                    else:
                        self.assert_epochs(large.finish(), 1)
                self.assert_epochs(server.read(batch=4, epochs=2, pipeline=PIPELINE).finish(), 2)

    @unittest.skipIf(os.geteuid() != 0, "the limit of processes does not count for root, and other users "
                     "have other processes: needs root")
    def test_threads(self):
        """Where a thread cannot be started ZeroMQ would abort the process."""
        folder = tempfile.mkdtemp(prefix="tu-nproc-", dir="/tmp")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        program = os.path.join(self.copy_for_other_users(), "tureen")
        os.chmod(self.data, 0o755)
        os.chown(folder, NOBODY, NOBODY)
        environment = dict(os.environ, XDG_RUNTIME_DIR=folder)
        endpoint = "ipc://%s/s.sock" % folder
        commands = (["serve", "--dataset", "train=" + self.data, "--workers", "2", "--cache", "64M",
                     "--until-idle", "1", "--listen", endpoint],
                    ["status", "--connect", endpoint], ["drain", "--connect", endpoint],
                    ["read", "--dataset", "train", "--timeout", "0.1", "--connect", endpoint])
        for number in range(1, 6):
            for command in commands:
                done = run_limited(["--nproc=%d:%d" % (number, number)], *command, environment=environment,
                                   user=NOBODY, program=program)
                self.assertEqual(done.returncode, 1, (number, command, done.stderr))
                if command[0] == "serve" or number == 1:
                    self.assertIn("raise the limit of processes and threads (ulimit -u", done.stderr)


if __name__ == "__main__":
    unittest.main()

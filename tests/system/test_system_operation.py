"""Operations of the operator's own (`tureen serve --operation`): what they make of images, and that one that
crashes, hangs or answers nonsense hurts the jobs that use it and no others."""
from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import signal
import struct
import subprocess
import time
import unittest

import numpy as np
from PIL import Image

import harness
import operation_play
from harness import wait_until
from test_system_pipelines import PipelineTest
from test_system_workers import Worker, wait_for

CLIENTS = os.path.join(harness.SOURCE, "clients", "python")
PLAY = os.path.join(harness.HERE, "operation_play.py")
SIZE = [40, 56]


def step(name, at=None, **keys):
    arguments = dict(keys.pop("arguments", {}), **({"at": list(at)} if at else {}))
    return {"op": "custom", "name": name, "size": SIZE, "arguments": arguments, **keys}


def runs(pid, program):
    """Whether the process has executed the program by now."""
    try:
        return os.path.basename(os.readlink("/proc/%d/exe" % pid)).startswith(program)
    except OSError:
        return False


def children(pid):
    """Of a process: those that are alive."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % name) as file:
                state, parent = file.read().rsplit(")", 1)[1].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(parent) == pid and state not in "ZX":
            found.append(int(name))
    return found


class OperationTest(PipelineTest):
    SAMPLES = 60

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.images = []
        for number, label in enumerate(cls.labels):
            with Image.open(os.path.join(cls.data, "class_%d" % label, "%05d.jpg" % number)) as image:
                cls.images.append(np.asarray(image.convert("RGB")))
        sizes = [image.shape[:2] for image in cls.images]
        #  A sample with a size of its own, by which operations know it.
        cls.odd = next(number for number, size in enumerate(sizes) if sizes.count(size) == 1)

    def serve(self, *kinds, script=PLAY, seconds=20, arguments=(), environment=None, **options):
        """kinds: of operation_play.py, each an operation of that name."""
        for kind in kinds:
            arguments = (*arguments, "--operation", "%s=/usr/bin/python3 -B '%s' %s" % (kind, script, kind))
        return super().serve(arguments=(*arguments, "--operation-seconds", str(seconds)),
                             environment={"PYTHONPATH": CLIENTS, **(environment or {})}, **options)

    @contextlib.contextmanager
    def starting(self, command):
        """A server, while its operation has not greeted."""
        with subprocess.Popen([harness.TUREEN, "serve", "--dataset", "train=" + self.data,
                               "--listen", "ipc://%s/s.sock" % os.path.dirname(self.path("run", "x")),
                               "--operation", "op=" + command],
                              stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as server:
            try:
                wait_until("it is there", lambda: any(runs(pid, "python3") for pid in children(server.pid)))
                yield server
            finally:
                server.kill()

    def operation(self, server, name):
        return next(one for one in server.status()["operations"] if one["name"] == name)

    def read(self, server, *steps, epochs=2, **options):
        return server.read(batch=8, epochs=epochs, pipeline=json.dumps(list(steps)), **options)

    def assert_ended(self, job, name, reason):
        """The server ended it because of the operation, and said why."""
        self.assertEqual(job.wait(), 1, job.texts())
        said = job.texts()[1]
        self.assertIn("operation '%s' failed 2 times: " % name, said)
        self.assertRegex(said, reason)
        self.assertIn("(unsuitable)", said)


class Working(OperationTest):
    def test_pixels_sharing_and_figures(self):
        with self.serve("works") as server:
            for add in (0, 7):
                pipeline = [step("works", arguments={"add": add}), {"share": True}, {"op": "flip", "p": 1}]
                got = self.take(server, dataset="train", batch_size=7, epochs=2, pipeline=pipeline)
                for epoch in range(2):
                    self.assertEqual(sorted(got["ids_%d" % epoch]), list(range(self.SAMPLES)))
                    for number, image in zip(got["ids_%d" % epoch], got["image_%d" % epoch]):
                        wanted = operation_play.transformed(self.images[number], *SIZE, 0, {"add": add})
                        np.testing.assert_array_equal(image, wanted[:, ::-1])
            #  One version a sample serves both epochs and every job with the same arguments.
            figures = self.operation(server, "works")
            self.assertEqual((figures["calls"], figures["failures"]), (2 * self.SAMPLES, 0))
            self.assertGreater(figures["seconds"], 0)
            self.assertGreater(figures["cpu_seconds"], 0)
            self.assertRegex(server.status_text(),
                             r"operation works +\d+ process.*, 120 calls of .* ms, 0 failed")
            pids = children(server.pid)
            self.assertEqual(len(pids), figures["processes"])
            self.assertLessEqual(len(pids), 2)
        self.assertFalse([pid for pid in pids if harness.is_alive(pid)])

    def test_behind_other_operations_and_in_views(self):
        pipeline = [{"op": "center_crop", "size": 50}, {"op": "views", "count": 2},
                    step("random", share=True), {"share": True}]
        with self.serve("random") as server:
            got = self.take(server, dataset="train", batch_size=10, epochs=2, order="seeded", seed=77,
                            pipeline=pipeline)
        for epoch in range(2):
            for view, name in enumerate(("image", "image_2")):
                for number, image in zip(got["ids_%d" % epoch], got["%s_%d" % (name, epoch)]):
                    key = b"tureen-1" + struct.pack("<QQQIIII", 77, epoch, number, 0, view, 3, 0)
                    seed = struct.unpack("<Q", hashlib.blake2b(key).digest()[:8])[0] >> 11
                    height, width = self.images[number].shape[:2]
                    top, left = round((height - 50) / 2), round((width - 50) / 2)
                    crop = self.images[number][top:top + 50, left:left + 50]
                    wanted = operation_play.transformed(crop, *SIZE, seed, {})
                    np.testing.assert_array_equal(image, wanted, "sample %d" % number)

    def test_what_is_refused_at_the_join(self):
        with self.serve("works", "random") as server:
            def said(*steps):
                return self.refused(server, "bad_request", dataset="train", batch_size=8, pipeline=steps)
            self.assertIn('no operation "other" here; expected one of "works", "random"', said(step("other")))
            self.assertIn("expected it before the mark",
                          said({"op": "center_crop", "size": 9}, {"share": True}, step("works")))
            self.assertIn("a second one", said(step("works"), step("random", share=True)))
            self.assertIn('"arguments" is not valid', said(dict(step("works"), arguments=[1])))
            self.assertIn("at most 400 bytes", said(step("works", arguments={"a": "b" * 400})))
            self.assertIn('"size" is missing', said({"op": "custom", "name": "works"}))
            self.assertIn("expected it before the mark", said(step("random")))      # random, so not shared
            identity = self.operation(server, "works")["identity"]
            self.assertIn('expected "%s"' % identity, said(step("works", identity="0" * 32)))
            self.assert_epochs(self.read(server, step("works", identity=identity)).finish(), 2)

    def test_workers_on_other_machines_get_none_of_it(self):
        with self.serve("works", workers=1) as server, Worker("--connect", server.endpoint):
            wait_for(server)
            job = self.read(server, step("works"), epochs=1)
            self.assert_epochs(job.finish(), 1)
            self.assertEqual(server.status()["remote_workers"][0]["done"], 0)
            self.assertEqual(self.operation(server, "works")["calls"], self.SAMPLES)

    def test_a_pack(self):
        pack = self.path("pack")
        harness.run("pack", self.data, pack)
        with harness.Server({"train": pack}, arguments=(
                "--operation", "works=/usr/bin/python3 -B %s works" % PLAY),
                environment={"PYTHONPATH": CLIENTS}) as server:
            self.assert_epochs(self.read(server, step("works")).finish(), 2)


class Failing(OperationTest):
    REASONS = {
        "crash": r"signal 6 \(SIGABRT\); it wrote: about to fall over", "leaves": "ended with status 7",
        "wrong-shape": r"returned uint8 of shape \[2, 2, 3\]; expected uint8 of \[40, 56, 3\]",
        "raises": "ValueError: no such.*colour", "memory": "Memory",
        "garbage": "its answer is no JSON object",
        "lies": "its answer (is to no question|has not the size that was asked for)"
    }

    def test_each_hurts_its_own_job_alone(self):
        with self.serve(*self.REASONS, "works") as server:
            name = os.path.basename("%05d.jpg" % self.odd)
            others = [self.read(server, {"op": "center_crop", "size": 32}, epochs=4),
                      self.read(server, step("works"), epochs=4)]
            bad = {kind: self.read(server, step(kind, self.images[self.odd].shape[:2]))
                   for kind in self.REASONS}
            for kind, reason in self.REASONS.items():
                self.assert_ended(bad[kind], kind, reason)
                self.assertIn(name, bad[kind].texts()[1])
                wait_until("the log has the failure", lambda: "operation=%s " % kind in server.log())
            for job in others:
                self.assert_epochs(job.finish(), 4)
            status = server.status()
            self.assertEqual(status["bad_samples"], 0)
            for one in status["operations"]:
                self.assertEqual(one["failures"], 0 if one["name"] == "works" else 2, one)
                self.assertEqual(one["restarts"], 0 if one["name"] == "works" else 2, one)
            #  A job that leaves the sample out has all the others, by processes that were started again.
            rest = [number for number in range(self.SAMPLES) if number != self.odd]
            if self.odd > 0:
                job = self.read(server, step("crash", self.images[self.odd].shape[:2]),
                                subset="0:%d" % self.odd, epochs=1)
                self.assert_epochs(job.finish(), 1, rest[:self.odd])

    def test_one_that_falls_over_now_and_then_is_started_again(self):
        with self.serve("lasts") as server:
            result = self.read(server, step("lasts"), epochs=1).finish()
            self.assert_epochs(result, 1)
            self.assertGreaterEqual(self.operation(server, "lasts")["restarts"], self.SAMPLES // 11 - 1)

    def test_others_go_on_while_one_hangs(self):
        """For an hour if it must: nothing of what it holds is what others need."""
        with self.serve("hang", "works", seconds=3600, cache="1660000") as server:
            stuck = self.read(server, step("hang"))
            wait_until("both threads hang", lambda: self.operation(server, "hang")["processes"] == 2)
            others = [self.read(server, {"op": "center_crop", "size": 100}, epochs=5),
                      self.read(server, step("works"), epochs=5)]
            for job in others:
                self.assert_epochs(job.finish(), 5)
            self.assertEqual(stuck.delivered(), 0)
            self.assertIsNone(stuck.process.poll())
            pids = children(server.pid)
        self.assertFalse([pid for pid in pids if harness.is_alive(pid)])

    def test_the_time_limit(self):
        with self.serve("hang", "floods", seconds=1) as server:
            jobs = {kind: self.read(server, step(kind, self.images[self.odd].shape[:2]))
                    for kind in ("hang", "floods")}
            for kind, job in jobs.items():
                self.assert_ended(job, kind, "no answer within 1 seconds")
            #  What hangs is gone.
            self.assertLessEqual(len(children(server.pid)), 4)
            self.assertGreaterEqual(self.operation(server, "hang")["restarts"], 2)

    def test_what_is_not_the_samples_fault(self):
        """What a process has left of earlier samples; what others take beside it; and the kernel."""
        there = self.path("there")
        open(there, "w").close()
        with self.serve("leaks", "crowded", "killed") as server:
            jobs = [self.read(server, step("leaks")), self.read(server, step("crowded"))]
            sample = step("killed", self.images[self.odd].shape[:2], arguments={"while": there})
            jobs.append(self.read(server, sample))
            wait_until("it is killed again", lambda: self.operation(server, "killed")["failures"] >= 2)
            os.unlink(there)
            for job in jobs:
                self.assert_epochs(job.finish(), 2)
            self.assertGreaterEqual(self.operation(server, "leaks")["failures"], self.SAMPLES // 7 - 2)
            self.assertGreaterEqual(self.operation(server, "crowded")["failures"], 1)
            self.assertIn("SIGKILL), as the kernel ends processes when memory is short",
                          self.operation(server, "killed")["last_failure"])

    def test_one_that_closes_its_socket(self):
        """It is ended for that, and not taken for one that the kernel has killed for want of memory."""
        reasons = {"closes": "it has closed its socket, and goes on", "empties": "it sent an empty message",
                   "finalises": "its process ended with status 3"}
        with self.serve(*reasons) as server:
            jobs = {kind: self.read(server, step(kind, self.images[self.odd].shape[:2])) for kind in reasons}
            for kind, job in jobs.items():
                self.assert_ended(job, kind, reasons[kind])

    def test_processor_time_of_those_that_end_is_charged(self):
        with self.serve("burns", workers=1) as server:
            began = time.monotonic()
            self.assert_ended(self.read(server, step("burns")), "burns", "SIGABRT")
            self.assertGreater(self.operation(server, "burns")["cpu_seconds"], 0.4)
            self.assertLess(self.operation(server, "burns")["cpu_seconds"], time.monotonic() - began)

    def test_what_no_job_wants_any_more_is_ended(self):
        """Long before its time is over: another job needs the threads that hang."""
        with self.serve("hang", seconds=3600) as server:
            stuck = self.read(server, step("hang"))
            wait_until("both threads hang", lambda: self.operation(server, "hang")["processes"] == 2)
            first = children(server.pid)
            stuck.process.kill()
            self.assert_epochs(self.read(server, step("hang", at=[1, 1])).finish(), 2)
            figures = self.operation(server, "hang")
            self.assertEqual((figures["failures"], figures["restarts"]), (0, 2))
            self.assertFalse([pid for pid in first if harness.is_alive(pid)])

    def test_memory_for_a_large_image_is_given_back(self):
        with self.serve("works", workers=1) as server:
            (pid,) = children(server.pid)
            large = self.read(server, {"op": "resize", "size": [2400, 2400]}, step("works"), subset="0:3")
            self.assert_epochs(large.finish(), 2, range(3))
            memory = os.stat("/proc/%d/fd/4" % pid)
            self.assertGreater(memory.st_size, 2400 * 2400 * 3)
            self.assertLessEqual(memory.st_blocks * 512, 16 << 20)
            got = self.take(server, dataset="train", batch_size=4, epochs=1,
                            pipeline=[{"op": "resize", "size": [2400, 2400]}, step("works"), {"share": True}],
                            subset=list(range(3)))
            for number, image in zip(got["ids_0"], got["image_0"]):
                self.assertGreater(image.std(), 0)
            self.assertEqual(children(server.pid), [pid])

    def script(self):
        """Of its own, to be changed."""
        script = self.path("changed.py")
        with open(script, "w") as file:
            file.write("import sys\nsys.path.insert(0, %r)\nimport operation_play\noperation_play.main()\n"
                       % harness.HERE)
        return script

    def test_processes_that_run_serve_on_when_the_script_has_changed(self):
        script = self.script()
        with self.serve("raises", script=script) as server:
            (pid,) = children(server.pid)
            with open(script, "a") as file:
                file.write("#  changed\n")
            #  One process, for two threads; a failure does not end it.
            good = self.read(server, step("raises", at=[1, 1]))
            self.assert_ended(self.read(server, step("raises", self.images[self.odd].shape[:2])), "raises",
                              "no such.*colour")
            self.assert_epochs(good.finish(), 2)
            self.assert_epochs(self.read(server, step("raises", at=[1, 1])).finish(), 2)
            self.assertEqual(children(server.pid), [pid])
            self.assertEqual(self.operation(server, "raises")["failures"], 2)
            said = "'%s' is not what it was when the server started: start the server again" % script
            wait_until("the log has it", lambda: "operation_changed operation=raises" in server.log())
            self.assertIn(said, server.log())
            self.assertIn(said, server.status_text())

    def test_a_script_that_changes_while_it_starts(self):
        script, go = self.script(), self.path("go")
        with self.starting("/usr/bin/python3 -B %s slow %s" % (script, go)) as server:
            with open(script, "a") as file:
                file.write("#  changed\n")
            open(go, "w").close()
            self.assertIn("'%s' is not what it was" % script, server.communicate(timeout=harness.PATIENCE)[1])
            self.assertEqual(server.returncode, 1)

    def test_a_changed_script_is_not_used(self):
        script = self.script()
        with self.serve("crash", script=script) as server:
            first = self.operation(server, "crash")["identity"]
            with open(script, "a") as file:
                file.write("#  changed\n")
            self.assert_ended(self.read(server, step("crash", self.images[self.odd].shape[:2])), "crash",
                              "it cannot be started: '%s' is not what it was when the server started: start "
                              "the server again" % script)
        with self.serve("crash", script=script) as server:
            self.assertNotEqual(self.operation(server, "crash")["identity"], first)

    def test_nothing_is_left_of_a_server_that_was_killed(self):
        with self.serve("hang", seconds=3600, expect_clean=False) as server:
            self.read(server, step("hang"))
            wait_until("both threads hang", lambda: self.operation(server, "hang")["processes"] == 2)
            pids = children(server.pid)
            self.assertEqual(len(pids), 2)
            os.kill(server.pid, signal.SIGKILL)
            wait_until("they end", lambda: not any(harness.is_alive(pid) for pid in pids))


class Sandbox(OperationTest):
    MAY = {"null", "thread", "stream", "waiting", "nonblock"}

    def test_what_it_may_do(self):
        home = self.path("home", "keep")
        for name in ("keep", "other"):
            with open(os.path.join(os.path.dirname(home), name), "w") as file:
                file.write("kept")
        with self.serve("sandbox", environment={"HOME": os.path.dirname(home),
                                                "TUREEN_TEST_SECRET": "x"}) as server:
            job = self.read(server, step("sandbox"))
            self.assertEqual(job.wait(), 1)
            told = re.search(r"(\d+) open, secret: (\w+), may: (.*?) \(sample",
                             job.texts()[1]).groups()
            pid = wait_until("one runs", lambda: next(
                (pid for pid in children(server.pid) if runs(pid, "python3")), None))
            with open("/proc/%d/status" % pid) as file:
                status = file.read()
            files_are_closed = "no Landlock" not in server.log()
            calls_are_closed = "no seccomp" not in server.log()
        self.assertRegex(status, r"NoNewPrivs:\s+1")
        self.assertEqual(re.findall(r"Cap(?:Inh|Prm|Eff|Amb):\s+(\w+)", status), ["0" * 16] * 4)
        #  Six are open: the protocol's, and the folder of them that it looks at.
        self.assertEqual(told[:2], ("6", "False"))
        may = set(told[2].split())
        self.assertLessEqual(self.MAY, may)
        self.assertFalse(may & {"shrink", "host"})
        if files_are_closed:
            self.assertFalse(may & {"make", "remove", "append", "look"})
        if calls_are_closed:
            self.assertLessEqual(may, self.MAY | {"make", "remove", "append", "look"})
        if files_are_closed and calls_are_closed:
            with open(home) as file:
                self.assertEqual(file.read(), "kept")


class Starting(OperationTest):
    def refused_start(self, command, status=1, name="op", wrapper=()):
        result = harness.run("serve", "--dataset", "train=" + self.data, "--listen",
                             "ipc://%s/s.sock" % os.path.dirname(self.path("run", "x")),
                             "--operation", "%s=%s" % (name, command),
                             environment={"PATH": "/usr/bin:/bin", "PYTHONPATH": CLIENTS}, wrapper=wrapper)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result.stderr

    def test_commands_that_are_none(self):
        python = "/usr/bin/python3 -B '%s' " % PLAY
        plain = self.path("plain.txt")
        with open(plain, "w") as file:
            file.write("no program\n")
        for command, reason in (
                ("/nowhere/at/all", "there is no program '/nowhere/at/all'"),
                ("no-such-program -x", "there is no program 'no-such-program'"),
                (plain, "'%s' may not be executed: make it so" % plain),
                ("python3 'unclosed", "a quotation mark is not closed"),
                ("/bin/true", "its process ended with status 0"),
                ("/usr/bin/python3 -B /nowhere.py", "ended with status 2; it wrote: .*No such file"),
                (python + "greets-wrongly", "its greeting is no JSON object: hello"),
                (python + "other-protocol", r'its greeting has "tureen_operation": 2; this server speaks 1')):
            self.assertRegex(self.refused_start(command), "operation 'op' cannot be started: .*" + reason)

    def test_a_signal_while_one_does_not_greet(self):
        with self.starting("/usr/bin/python3 -B '%s' silent" % PLAY) as server:
            server.send_signal(signal.SIGTERM)
            #  It may take a minute to greet
            self.assertEqual(server.communicate(timeout=harness.PATIENCE)[1], "")
            self.assertEqual(server.returncode, 0)

    def test_a_limit_of_file_sizes(self):
        """Its memory is a file: the samples would be called unsuitable."""
        self.assertIn("an operation may need a file of 4.0 GiB (--operation-memory), and the limit of "
                      "file sizes is 1.0 GiB: raise it (ulimit -f, LimitFSIZE=), or lower "
                      "--operation-memory",
                      self.refused_start("true", wrapper=["prlimit", "--fsize=%d" % (1 << 30), "--"]))

    def test_settings(self):
        self.assertIn("expected NAME=COMMAND", self.refused_start("x", status=2, name="a b"))
        self.assertIn("operation: expected NAME=COMMAND", self.refused_start("", status=2))


if __name__ == "__main__":
    unittest.main()

"""What the commands say: figures of `tureen status`, and what they answer to what cannot be."""
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time
import unittest

import harness
from harness import SystemTest, run, wait_until

PIPELINE = json.dumps([{"op": "decode"}, {"op": "resize", "size": [16, 16]}])


class Status(SystemTest):
    SAMPLES = 20

    def test_what_lies_ready_is_not_consumed(self):
        """A ring that holds batches of epochs that the loop has not begun."""
        with self.serve() as server:
            reader = server.read("--slots", "8", batch=10, epochs=6, pipeline=PIPELINE, name="slow", rate=5)
            job = wait_until("the ring is full", lambda: (lambda job: job if job
                                                          and job["delivered_samples"] >= 70 else None)(
                server.job_status("slow")))
            self.assertGreater(job["epoch"], job["consumed_epoch"])
            self.assertLess(job["consumed_samples"], job["delivered_samples"])
            self.assertEqual(job["consumed_samples"], 20 * job["consumed_epoch"] + job["epoch_consumed"])
            page = server.status_text()
            line = next(line for line in page.splitlines() if " slow " in line).split()
            head = next(line for line in page.splitlines() if "of this epoch" in line)
            self.assertEqual(head.replace("of this epoch", "of").replace("data set", "data").split()[5:8],
                             ["epoch", "of", "consumed"])
            #  It may have taken a batch in the meantime.
            given = (20 * int(line[5]) + int(line[6].split("/")[0]), int(line[7]))
            self.assertEqual(given[0], given[1])
            self.assertLess(given[1], 70)
            self.assertIn("waited for, since its start: draw = ", page)
            reader.signal(signal.SIGTERM)
            self.assertEqual(reader.wait(), 128 + signal.SIGTERM)

    def test_epochs_that_are_consumed_whole(self):
        with self.serve() as server:
            reader = server.read(batch=8, epochs=3, pipeline=PIPELINE, name="all", rate=20)
            #  The last batch of an epoch has four samples.
            seen = set()
            while reader.process.poll() is None:
                job = server.job_status("all")
                if job:
                    seen.add((job["consumed_epoch"], job["epoch_consumed"]))
                    self.assertEqual(job["consumed_samples"],
                                     20 * job["consumed_epoch"] + job["epoch_consumed"])
            self.assertLessEqual(seen, {(epoch, count) for epoch in range(3) for count in (0, 8, 16, 20)})
            self.assertGreaterEqual(max(seen), (1, 0))
            self.assert_epochs(reader.finish(), 3)


class Shown(SystemTest):
    """Names may hold what moves a terminal, ends a line, or turns the writing's direction."""
    SAMPLES = 20
    NAME, UNSAFE = "a\x1b]0;x\x07\u202eb\u2028c", "\x1b\x07\u202e\u2028"

    def assert_safe(self, text):
        self.assertRegex(text, r"a(\?|\\x1b)]0;x(\?|\\x07)(\?|\\xe2\\x80\\xae)b(\?|\\xe2\\x80\\xa8)c")
        for character in self.UNSAFE:
            self.assertNotIn(character, text)

    def test_names_in_answers(self):
        folder = os.path.join(self.root, self.NAME)
        shutil.copytree(self.data, folder)
        with harness.Server({"train": folder}) as server:
            self.assert_safe(server.status_text())
            refused = server.read(batch=10, epochs=1, pipeline=PIPELINE, name="a\u202eb")
            self.assertEqual(refused.wait(), 1)
            self.assertIn('name: expected a printable text of at most 64 bytes, got "a\\xe2\\x80\\xaeb"',
                          refused.texts()[1])

    def test_names_in_errors(self):
        folder = os.path.join(self.root, "other", self.NAME)
        self.assert_safe(run("prepare", "--recipe", "eval", "--out", self.root + "/out", folder).stderr)
        self.assert_safe(run("pack", folder, os.path.join(self.root, "pack")).stderr)
        self.assert_safe(run("serve", "--dataset", "train=" + folder).stderr)
        os.makedirs(folder)
        with open(os.path.join(folder, self.NAME + ".jpg"), "w") as file:
            file.write("no picture")
        self.assert_safe(run("prepare", "--recipe", "eval", "--out", self.root + "/out", folder).stderr)


class Watch(SystemTest):
    SAMPLES = 10

    def watch(self, server, *arguments, **options):
        return subprocess.Popen([harness.TUREEN, "status", "--connect", server.endpoint, *arguments],
                                env=server.environment, stdin=subprocess.DEVNULL, **options)

    def test_json_a_line_each(self):
        """Also while there is no server, and when there is one again."""
        with self.serve() as server:
            watching = self.watch(server, "--json", "--watch=0.1", stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, universal_newlines=True)
            try:
                for _ in range(3):
                    self.assertEqual(json.loads(watching.stdout.readline())["jobs"], [])
                server.stop()
                while "no server is at" not in watching.stderr.readline():
                    pass
                server.start()
                wait_until("the server that is back",
                           lambda: json.loads(watching.stdout.readline())["jobs_total"] == 0)
                self.assertIsNone(watching.poll())
            finally:
                watching.send_signal(signal.SIGINT)
                watching.communicate(timeout=harness.PATIENCE)
            self.assertEqual(watching.returncode, -signal.SIGINT)

    def test_plain_and_on_a_terminal(self):
        clear = "\x1b[H\x1b[2J"
        with self.serve() as server:
            with self.watch(server, "--watch", "0.1", stdout=subprocess.PIPE,
                            universal_newlines=True) as plain:
                lines = [plain.stdout.readline() for _ in range(20)]
                plain.terminate()
            self.assertGreaterEqual(sum(line.startswith("tureen ") for line in lines), 2)
            self.assertNotIn("\x1b", "".join(lines))
            ours, theirs = pty.openpty()
            with self.watch(server, "--watch", "0.1", stdout=theirs) as drawn:
                os.close(theirs)
                said = ""
                while said.count(clear) < 3:
                    self.assertTrue(select.select([ours], [], [], harness.PATIENCE)[0],
                                    "nothing was drawn again")
                    said += os.read(ours, 1 << 16).decode()
                drawn.terminate()
            os.close(ours)
            self.assertTrue(said.startswith(clear + "tureen "))

    def test_what_is_no_interval(self):
        for interval in ("0", "0.05", "1e9", "2s"):
            refused = run("status", "--watch", interval)
            self.assertEqual(refused.returncode, 2)
            self.assertIn("tureen status: --watch '%s': expected 0.1 to 86400 seconds" % interval,
                          refused.stderr)


class Wait(SystemTest):
    SAMPLES = 10

    def status(self, endpoint, *arguments):
        return subprocess.Popen([harness.TUREEN, "status", "--connect", endpoint, "--json", *arguments],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)

    def test_until_a_server_listens(self):
        server = self.serve()
        with self.status(server.endpoint, "--wait") as waiting:
            with self.assertRaises(subprocess.TimeoutExpired):
                waiting.wait(1)
            with server:
                output, errors = waiting.communicate(timeout=harness.PATIENCE)
                self.assertEqual((waiting.returncode, errors), (0, ""))
                self.assertEqual(json.loads(output)["datasets"][0]["samples"], self.SAMPLES)

    def test_in_vain(self):
        for arguments, seconds in (((), 0), (("--wait", "1.5"), 1.5)):
            started = time.monotonic()
            with self.status("ipc://%s/none.sock" % self.root, *arguments) as asked:
                _, errors = asked.communicate(timeout=harness.PATIENCE)
            self.assertEqual(asked.returncode, 1)
            self.assertEqual(errors.count("no server is at"), 1)
            self.assertGreaterEqual(time.monotonic() - started, seconds)


class Paths(SystemTest):
    SAMPLES = 10

    def refusal(self, *arguments, status=(1, 2)):
        refused = run(*arguments)
        self.assertIn(refused.returncode, status)
        #  Of files prepare counts how many
        self.assertLessEqual(refused.stderr.count("\n"), 2, refused.stderr)
        return refused.stderr

    def commands(self, source):
        for command in (["serve", "--dataset", "train=" + source], ["pack", source, self.root + "/out"],
                        ["prepare", "--recipe", "eval", "--out", self.root + "/out", source],
                        ["verify", source], ["audit", source],
                        ["unpack", source, self.root + "/out"]):
            yield command

    def test_addresses_are_no_folders(self):
        for source in ("hf://datasets/train", "gs://b"):
            for command in self.commands(source):
                said = self.refusal(*command)
                self.assertIn("'%s'" % source, said)
                self.assertIn("only s3://, http:// and https:// are known", said)
        for command in self.commands("s3://bucket/train"):
            said = self.refusal(*command)
            reads = command[0] in ("serve", "pack", "verify", "unpack")
            self.assertIn("no keys for the object store" if reads else
                          "is read only where data are served", said)
        self.assertIn("give the path alone, without file://",
                      self.refusal("serve", "--dataset", "train=file://" + self.data))
        #  A folder may have such a name all the same; with "./" it is one.
        os.makedirs(self.root + "/s3:/bucket")
        os.symlink(self.data, self.root + "/s3:/bucket/train")
        packed = subprocess.run([harness.TUREEN, "pack", "./s3://bucket/train", "linked"], cwd=self.root,
                                capture_output=True, text=True)
        self.assertEqual(packed.returncode, 0, packed.stderr)

    def test_nothing_is_there(self):
        missing = self.root + "/missing"
        for command in self.commands(missing):
            said = self.refusal(*command)
            self.assertIn("'%s'" % missing, said)
            self.assertIn("check the path", said)

    def test_files_and_folders_in_place_of_each_other(self):
        for name, remedy in (("a.tar", "make a pack of the tar file with `tureen pack`, and give the pack's "
                              "folder"),
                             ("labels.tsv", "give the folder that this list lies in, or make a pack"),
                             ("a.parquet", "make a pack of it with `python3 -m tureen.pack`, and give"),
                             ("a.zip", "files of this kind are not read: extract the samples"),
                             ("a.jpg", "give the folder that holds the class folders")):
            path = os.path.join(self.root, name)
            with open(path, "w"):
                pass
            self.assertIn("'%s' is not a folder: %s" % (path, remedy),
                          self.refusal("serve", "--dataset", "train=" + path))
            self.assertIn("'%s' is no pack: give the folder that `tureen pack` made" % path,
                          self.refusal("verify", path))
        self.assertIn("a folder, not a file of ids", self.refusal("audit", self.data))


class One(SystemTest):
    """Where there is one of something, its word has no plural's end."""
    SAMPLES = 1
    MANY = re.compile(r"(?<![\d.])1 (epochs|samples|batches|classes|workers|jobs|users|files|reads|chunks|"
                      r"volumes|seconds|times|threads|faults|tests)\b")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.pack = os.path.join(cls.root, "pack")

    def said(self, *arguments, status=0):
        done = run(*arguments)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertNotRegex(done.stdout + done.stderr, self.MANY)
        return done.stdout + done.stderr

    def test_reports(self):
        self.assertIn("1 sample, 0.0 MB, in 1 chunk and 1 volume", self.said("pack", self.data, self.pack))
        self.assertIn("good: 1 sample, ", self.said("verify", self.pack))
        self.assertIn("1 of 1 sample, ", self.said("unpack", self.pack, self.root + "/unpacked"))
        with harness.Server({"train": self.data, "pack": self.pack}, workers=1,
                            arguments=["--tenant", "one=%d" % os.getuid(), "--tenant-datasets",
                                       "one=*"]) as server:
            ids = os.path.join(self.root, "ids")
            self.assertIn(": 1 epoch, 1 sample in 1 batch, ",
                          self.said("read", "--connect", server.endpoint, "--dataset", "pack",
                                                                        "--pipeline", PIPELINE, "--ids", ids))
            self.said("audit", ids)
            page = server.status_text()
            self.assertIn("1 sample, 1 class, ", page)
            self.assertNotRegex(page, self.MANY)
            log = server.log()
            self.assertIn("tenant 'one': 1 user, weight 1\n", log)
            self.assertIn("\n1 worker, a cache", log)
            self.assertIn("data set 'train': 1 sample in 1 class, ", log)
            self.assertNotRegex(log, self.MANY)


class Typing(unittest.TestCase):
    """What was probably meant."""

    def assert_said(self, said, *arguments):
        refused = run(*arguments)
        self.assertEqual((refused.returncode, refused.stdout), (2, ""))
        self.assertEqual(refused.stderr.strip(), said)

    def test_options_of_every_command(self):
        for command, given, meant in (("serve", "--worker", "--workers"), ("read", "--batch-size", "--batch"),
                                      ("status", "--jsno", "--json"),
                                      ("drain", "--wiat", "--wait"), ("key", "--tenat", "--tenant"),
                                      ("pack", "--chnk", "--chunk"),
                                      ("verify", "--jsno", "--json"),
                                      ("prepare", "--recpie", "--recipe"),
                                      ("audit", "--sampels", "--samples")):
            self.assert_said("tureen %s: unknown option '%s'; did you mean '%s'?" % (command, given, meant),
                             command, given)
            if command != "serve":
                self.assert_said("tureen %s: unknown option '--frobnicate'; see `tureen %s --help`"
                                 % (command, command), command, "--frobnicate")

    def test_values_that_lack_or_are_too_many(self):
        self.assert_said("tureen status: option '--connect' needs a value: ENDPOINT; see `tureen status "
                         "--help`", "status", "--connect")
        self.assert_said("tureen drain: option '--wait' takes no value", "drain", "--wait=yes")
        self.assert_said("tureen key: option '--name' needs a value: LABEL; see `tureen key --help`", "key",
                         "allow", "--name")

    def test_commands(self):
        self.assert_said("tureen: there is no command 'stauts'; did you mean 'status'?", "stauts")
        self.assertIn("loader.explain ()", run("explain").stderr)
        self.assert_said("tureen key: 'alow' is none of new, allow, list and revoke; did you mean 'allow'?",
                         "key", "alow")
        unknown = run("frobnicate")
        self.assertEqual(unknown.returncode, 2)
        self.assertIn("tureen: there is no command 'frobnicate'\n\nusage: tureen COMMAND", unknown.stderr)


if __name__ == "__main__":
    unittest.main()

"""`tureen audit`: on what real jobs recorded, on the same with a fault planted, and on files that are none.

The server draws the jobs' orders, new ones each time: of 100,000 runs of this program at most one fails by
chance (harness.sure_faults).
"""
import json
import os
import shutil
import tempfile
import unittest

import harness
from harness import SystemTest, sure_faults
from rank_courses import SMALL


def audit(*arguments):
    """Exit status, the JSON object (None if there is none), standard error."""
    done = harness.run("audit", "--json", *arguments)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


class Jobs(SystemTest):
    SAMPLES = 500

    def record(self):
        """Files of three jobs that share a server: two of equal data, the second late; one with
        --drop-last."""
        folder = tempfile.mkdtemp(prefix="tu-audit-", dir="/tmp")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        with self.serve(cache="8M") as server:
            jobs = [server.read(batch=16, epochs=6)]
            harness.wait_until("the first runs", lambda: jobs[0].delivered() > 200)
            jobs += [server.read(batch=16, epochs=6), server.read("--drop-last", batch=64, epochs=6)]
            files = []
            for number, job in enumerate(jobs):
                self.assertEqual(job.wait(), 0)
                files.append(os.path.join(folder, "job%d.ids" % number))
                shutil.copy(job.ids, files[-1])
        return files

    def test_real_jobs_are_clean_and_a_planted_fault_is_named(self):
        files = self.record()
        status, result, errors = audit("--samples", self.SAMPLES, *files[:2])
        self.assertEqual((sure_faults(result), errors), ([], ""))
        self.assertEqual((status, result["clean"]), (1, False) if result["faults"] else (0, True))
        self.assertGreater(result["tests"], 80)
        self.assertEqual([file["exactly_once"] for file in result["files"]], ["yes"] * 2)
        self.assertEqual([file["epochs"] for file in result["files"]], [6] * 2)
        for file in result["files"]:
            self.assertEqual(file["phi2"]["count"], 5)
            self.assertGreater(file["phi2"]["spread"], 0)
            #  Six standard deviations: by chance once in 10^8 runs.
            pairs = file["pair_repeat"]
            self.assertLess(abs(pairs["value"] - pairs["expected"]), 6 * pairs["spread"])
        status, result, errors = audit(files[2])
        self.assertEqual(sure_faults(result), [])
        self.assertEqual(result["files"][0]["exactly_once"], "at_most")
        self.assertEqual([note["kind"] for note in result["notes"]], ["drop_last"])
        self.plant(files[0])

    def plant(self, path):
        """One id of epoch 3 is gone, another comes in its place."""
        with open(path) as file:
            lines = file.read().split("\n")
        ids = lines[3].split()
        gone, twice = ids[20], ids[400]
        ids[20] = twice
        lines[3] = " ".join(ids)
        with open(path, "w") as file:
            file.write("\n".join(lines))
        status, result, _ = audit(path)
        self.assertEqual(status, 1)
        self.assertEqual([(fault["file"], fault["epoch"], fault["epochs"], fault["kind"], fault["p"])
                          for fault in result["faults"]],
                         [(path, 3, [3], "missing", None), (path, 3, [3], "doubled", None)])
        self.assertIn("lacks 1 of 500 samples: " + gone, result["faults"][0]["message"])
        self.assertIn("more than once: " + twice, result["faults"][1]["message"])
        #  For people: the table, and a sentence for each.
        done = harness.run("audit", path)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"file +epochs +samples +exactly once +phi2")
        self.assertIn("%s: fault: epoch 3 lacks 1 of 500 samples: %s.\n" % (path, gone), done.stdout)
        self.assertIn("\n2 faults. ", done.stdout)


class Ranks(unittest.TestCase):
    """One job over three nodes, each with a server of its own."""
    SAMPLES, NODES, EPOCHS = 2400, 3, 7

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tu-audit-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        #  A few pictures, each under many names.
        few, many = (os.path.join(self.folder, name) for name in ("few", "many"))
        harness.make_folder(few, 40, classes=1, seed=harness.SEED)
        os.makedirs(os.path.join(many, "class"))
        for number in range(self.SAMPLES):
            os.link(os.path.join(few, "class_0", "%05d.jpg" % (number % 40)),
                    os.path.join(many, "class", "%05d.jpg" % number))
        self.servers = []
        for _ in range(self.NODES):
            server = harness.Server({"train": many}, cache="16M", workers=1)
            server.__enter__()
            self.addCleanup(server.__exit__, None, None, None)
            self.servers.append(server)

    def record(self, ranks, epochs, *arguments):
        """The files of all ranks of all nodes."""
        options = {"batch": 16, "epochs": epochs, "nodes": self.NODES, "pipeline": json.dumps(SMALL)}
        if ranks > 1:
            options.update(world_size=ranks, job="audited")
        jobs = [server.read(*arguments, node=node, **options, **({"rank": rank} if ranks > 1 else {}))
                for node, server in enumerate(self.servers) for rank in range(ranks)]
        for job in jobs:
            job.finish()
        return [job.ids for job in jobs]

    def test_fresh_parts_are_clean_and_planted_faults_are_named(self):
        for ranks in (1, 2):
            files = self.record(ranks, self.EPOCHS)
            status, result, errors = audit("--ranks", "--samples", self.SAMPLES, *files)
            self.assertEqual((sure_faults(result), errors), ([], ""))
            job = result["files"][0]
            self.assertEqual((job["file"], job["exactly_once"], job["epochs"]),
                             ("%s and %d more" % (files[0], 3 * ranks - 1), "yes", self.EPOCHS))
            found = job["ranks"]
            self.assertEqual([rank["file"] for rank in found["files"]], files)
            for rank in found["files"]:
                self.assertEqual((rank["samples_least"], rank["samples_most"]), (800 // ranks, 800 // ranks))
                if ranks == 1:
                    self.assertGreater(rank["own_phi2"]["count"], 0)
            self.assertEqual(found["groups"], 1)
            self.assertEqual(found["stay"]["count"], self.EPOCHS - 1)
            self.assertLess(abs(found["stay"]["value"] - 1), 6 * found["stay"]["spread"])
            self.assertEqual(found["uneven"]["count"], self.EPOCHS)
        self.plant(files)

    def plant(self, files):
        """A sample of the first rank comes in the second's place; the third's file lacks an epoch."""
        lines = []
        for path in files[:3]:
            with open(path) as file:
                lines.append([line.split() for line in file])
        gone, twice = lines[1][3][20], lines[0][3][7]
        lines[1][3][20] = twice
        del lines[2][5]
        for path, rows in zip(files, lines):
            with open(path, "w") as file:
                file.writelines(" ".join(row) + "\n" for row in rows)
        status, result, _ = audit("--ranks", "--samples", self.SAMPLES, *files)
        self.assertEqual(status, 1)
        self.assertEqual([(fault["kind"], fault["epochs"]) for fault in result["faults"]],
                         [("missing", [3]), ("doubled", [3]), ("absent", [5])])
        self.assertRegex(result["faults"][0]["message"], r"samples: %s \(in epoch 2 in .*\)$" % gone)
        self.assertIn("more than once: %s (in %s and %s)" % (twice, files[0], files[1]),
                      result["faults"][1]["message"])
        self.assertIn("epoch 5 is not in %s, and others finished it" % files[2],
                      result["faults"][2]["message"])

    def test_fixed_parts_are_a_note(self):
        files = self.record(1, 2, "--parts", "fixed")
        status, result, _ = audit("--ranks", *files)
        self.assertEqual((status, result["faults"]), (0, []))
        self.assertEqual(result["files"][0]["ranks"]["groups"], self.NODES)
        self.assertIn("no sample changes its rank in 2 epochs",
                      [note["message"] for note in result["notes"] if note["kind"] == "fixed"][0])
        #  For people: a second table.
        done = harness.run("audit", "--ranks", *files)
        self.assertRegex(done.stdout, r"\nrank +samples an epoch +own phi2 +lags 2 to 6\n")
        self.assertRegex(done.stdout, r"\nall ranks +-?0\.\d+ \[0 \+- .*\nstay -, ")


class Command(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tu-audit-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def file(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(content)
        return path

    def assert_unusable(self, says, *arguments):
        done = harness.run("audit", *arguments)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"\Atureen audit: [^\n]*%s[^\n]*\n\Z" % says)

    def test_help_has_an_example(self):
        done = harness.run("audit", "--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("tureen audit --samples 50000 job.ids", done.stdout)

    def test_unusable_arguments(self):
        good = self.file("good", b"0: 1 2 3\n")
        self.assert_unusable("no file; record one with `tureen read --ids FILE`")
        for number in ("0", "-1", "4294967296", "99999999999999999999", "5x", ""):
            self.assert_unusable("--samples '%s': expected a number from 1 to 4294967295" % number,
                                 "--samples", number, good)
        self.assert_unusable("option '--samples' needs a value", good, "--samples")
        self.assert_unusable("unknown option '--wrong'", "--wrong", good)
        self.assert_unusable("option '--json' takes no value", "--json=1", good)
        self.assert_unusable("--ranks: one file; give that of each rank of the job", "--ranks", good)

    def test_unusable_files(self):
        good = self.file("good", b"0: 1 2 3\n")
        self.assert_unusable("missing': check the path", good, os.path.join(self.folder, "missing"))
        self.assert_unusable("a folder, not a file of ids", self.folder)
        self.assert_unusable("empty: no epoch in it; record a job", self.file("empty", b""))
        self.assert_unusable("nul:2: unexpected byte 0x00", self.file("nul", b"0: 1\n1: \0\n"))
        self.assert_unusable("/dev/zero: is no regular file", "/dev/zero")
        self.assert_unusable(r"name\\x1b\[2J:1: unexpected 'x'", self.file("name\x1b[2J", b"x\n"))

    def test_unusable_groups(self):
        good = self.file("good", b"0: 1 2 3\n")
        self.assert_unusable("option '--groups' needs a value", good, "--groups")
        self.assert_unusable("--groups: missing: No such file or directory", "--groups", "missing", good)
        self.assert_unusable("--groups: '%s' is no pack: give the folder that `tureen pack` made"
                             % self.folder, "--groups", self.folder, good)
        self.assert_unusable("--groups: .*groups:2: sample 2 has no group", "--groups",
                             self.file("groups", b"1 a\n2\n"), good)

    def test_a_group_that_comes_late_is_named(self):
        random = harness.seeded(self.id())
        lines, ids = [], list(range(500))
        for epoch in range(20):
            random.shuffle(ids)
            #  Most of those of group 3 that come in the first half change places with others of the second.
            for place in range(250):
                if ids[place] % 20 == 3 and random.random() < 0.7:
                    other = random.randrange(250, 500)
                    ids[place], ids[other] = ids[other], ids[place]
            lines.append("%d: %s" % (epoch, " ".join(map(str, ids))))
        path = self.file("job", "\n".join(lines + [""]).encode())
        groups = self.file("groups", "".join("%d g%d\n" % (number, number % 20) for number in ids).encode())
        self.assertEqual(audit(path)[0], 0)
        status, result, errors = audit("--groups", groups, path)
        self.assertEqual((status, errors), (1, ""))
        self.assertEqual([(fault["kind"], fault["epoch"]) for fault in result["faults"]], [("group", None)])
        self.assertIn("the samples of group 'g3' come later than others, over 20 epochs together (mean place "
                      "in an epoch 0.6", result["faults"][0]["message"])

    def test_what_another_job_holds_that_comes_late(self):
        random = harness.seeded(self.id())
        data = [sorted(random.sample(range(500), 250)) for _ in range(3)]
        paths = []
        for number, ids in enumerate(data):
            lines = []
            for epoch in range(20):
                order = random.sample(ids, len(ids))
                #  The first job gets most of what the second one holds in the second half.
                for place in range(125):
                    if number == 0 and order[place] in data[1] and random.random() < 0.7:
                        other = random.randrange(125, 250)
                        order[place], order[other] = order[other], order[place]
                lines.append("%d: %s" % (epoch, " ".join(map(str, order))))
            paths.append(self.file("job%d" % number, "\n".join(lines + [""]).encode()))
        self.assertEqual(audit(*paths)[0], 0)
        status, result, errors = audit("--held", *paths)
        self.assertEqual((status, errors), (1, ""))
        self.assertEqual({(fault["kind"], fault["file"]) for fault in result["faults"]},
                         {("group", paths[0])})
        late = "the samples that %s holds too come later than others, over 20 epochs together" % paths[1]
        self.assertTrue(any(late in fault["message"] for fault in result["faults"]), result["faults"])
        #  With one file nothing is held by another, and that is said.
        status, result, errors = audit("--held", paths[1])
        self.assertEqual((status, errors), (0, ""))
        self.assertIn("where samples come that other jobs hold: that needs another file",
                      result["notes"][0]["message"])

    def test_what_is_no_file_is_told_by_every_command(self):
        """And at once: the fifo has no writer."""
        fifo = os.path.join(self.folder, "fifo")
        os.mkfifo(fifo)
        for path in (fifo, "/dev/null"):
            for command in (["audit"], ["prepare", "--out", self.folder], ["serve", "--config"],
                            ["read", "--dataset", "a", "--order", "list", "--list"],
                            ["read", "--dataset", "a", "--state"]):
                with self.subTest(path=path, command=command):
                    done = harness.run(*command, path)
                    self.assertIn(done.returncode, (1, 2))
                    self.assertIn("%s: is no regular file\n" % path, done.stderr)

    def test_a_long_path_is_told_whole(self):
        path = "/" + "not/there\x1b/" * 200
        status, _, errors = audit(path)
        self.assertEqual(status, 2)
        self.assertIn(path.replace("\x1b", "\\x1b"), errors)

    def test_a_line_of_many_megabytes(self):
        #  No line is too long: an epoch of a million samples is one.
        ids = list(range(1000000))
        path = self.file("long", b"0: " + b" ".join(b"%d" % number for number in ids) + b"\n")
        status, result, _ = audit("--samples", 1000000, path)
        self.assertEqual((status, [fault["kind"] for fault in result["faults"]]), (1, ["sorted"]))

    def test_what_cannot_be_written_is_no_answer(self):
        good = self.file("good", b"0: 1 2 3\n")
        with open("/dev/full", "w") as full:
            done = harness.subprocess.run([harness.TUREEN, "audit", good], stdout=full,
                                          stderr=harness.subprocess.PIPE, timeout=harness.PATIENCE)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"No space left", done.stderr)

    def test_names_that_are_no_utf8(self):
        path = os.fsencode(self.folder) + b"/\xff.ids"
        with open(path, "wb") as file:
            file.write(b"0: 1 2 3\n1: 3 1\n")
        status, result, _ = audit("--samples", "3", os.fsdecode(path))
        self.assertEqual((status, result["faults"][0]["file"][-5:]), (1, "\ufffd.ids"))


if __name__ == "__main__":
    unittest.main()

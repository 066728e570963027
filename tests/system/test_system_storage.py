"""Storage that fails under a real server: what passes costs no sample, what does not costs that sample and is
named, and nothing that happens to files that are served ends the server."""
import errno
import os
import shutil
import signal
import tempfile
import unittest

import harness
from harness import Server, SystemTest, run, wait_until

LIBRARY = os.path.join(os.path.dirname(harness.TUREEN), "faulty_disk.so")


class StorageTest(SystemTest):
    SAMPLES = 200

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tu-storage-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.copy = os.path.join(self.folder, "data")
        shutil.copytree(self.data, self.copy)
        self.rules = os.path.join(self.folder, "rules")

    def rule(self, *lines):
        """From now on; without any the disk is whole."""
        with open(self.rules + ".new", "w") as file:
            file.write("".join(line + "\n" for line in lines))
        os.rename(self.rules + ".new", self.rules)

    def path(self, number):
        return os.path.join(self.copy, "class_%d" % self.labels[number], "%05d.jpg" % number)

    def serve_faulty(self, folder=None, **options):
        self.rule()
        return Server({"train": folder or self.copy}, cache="4M",
                      environment={"LD_PRELOAD": LIBRARY, "TUREEN_DISK": self.rules},
                      **options)

    def bad(self, server):
        return {entry["id"]: entry["reason"] for entry in server.status()["datasets"][0]["bad"]}

    def pack(self):
        folder = os.path.join(self.folder, "pack")
        packed = run("pack", self.copy, folder)
        self.assertEqual(packed.returncode, 0, packed.stderr)
        return folder

    def read(self, server, *arguments, **options):
        """With random crops, which do not stay in the cache for the next one."""
        return server.read(*arguments, **dict({"batch": 16}, **options))


@unittest.skipUnless(os.path.exists(LIBRARY), "there is no faulty_disk.so in this build")
class Disk(StorageTest):
    def test_what_passes_costs_no_sample(self):
        """No descriptors, no memory: for longer than a job would wait for one sample."""
        for kind, number in (("open", errno.EMFILE), ("read", errno.ENOMEM)):
            with self.subTest(kind=kind, number=number), self.serve_faulty() as server:
                reader = self.read(server, epochs=2, rate=400)
                wait_until("batches", lambda: reader.delivered() > 0)
                self.rule("%s %d .jpg" % (kind, number))
                before = server.status().get("shortages", 0)
                wait_until("much was tried again", lambda: server.status()["shortages"] > before + 300)
                self.rule()
                self.assert_epochs(reader.finish(), 2)
                self.assertEqual(server.status()["bad_samples"], 0)

    def test_what_passes_costs_no_sample_of_a_pack(self):
        with self.serve_faulty(folder=self.pack(), arguments=["--raw", "8M"]) as server:
            self.rule("read %d volume-" % errno.ENOMEM)
            reader = self.read(server, epochs=2)
            wait_until("much was tried again", lambda: server.status()["shortages"] > 120)
            self.rule()
            self.assert_epochs(reader.finish(), 2)
            self.assertEqual(server.status()["bad_samples"], 0)

    def test_a_broken_sector_and_a_slow_disk(self):
        """One file cannot be read, a class of them only slowly; the server answers meanwhile, and each epoch
        is the rest."""
        with self.serve_faulty(arguments=["--patience", "2"]) as server:
            self.rule("read %d 00017.jpg" % errno.EIO, "slow 100 class_1/")
            readers = [self.read(server, epochs=2), self.read(server, "--inline", epochs=2, order="private")]
            wait_until("the server answers", lambda: len(server.status()["jobs"]) == 2)
            for reader in readers:
                self.assert_epochs(reader.finish(), 2, [number for number in range(self.SAMPLES)
                                                        if number != 17])
            self.assertEqual(list(self.bad(server)), [17])
            self.assertIn("Input/output error", self.bad(server)[17])


@unittest.skipUnless(os.path.exists(LIBRARY), "there is no faulty_disk.so in this build")
class Disks(StorageTest):
    """Two file systems, as the server is told; there is no io_uring."""

    def serve_two(self, slow, quick, *arguments, **options):
        self.on = ["device 1793 %s" % slow, "device 1794 %s" % quick]
        self.rule(*self.on)
        return Server({"slow": slow, "quick": quick}, cache="4M", arguments=list(arguments),
                      environment={"LD_PRELOAD": LIBRARY, "TUREEN_DISK": self.rules}, **options)

    def reading_threads(self, server):
        names = []
        for task in os.listdir("/proc/%d/task" % server.pid):
            with open("/proc/%d/task/%s/comm" % (server.pid, task)) as file:
                names.append(file.read().strip())
        return names.count("reading")

    def stand_still(self, server, slow, quick):
        """Nothing comes of one: jobs of the other have whole epochs, and its own go on when it comes."""
        self.rule(*self.on, "stall 1 %s" % slow)
        waiting = [server.read(dataset="slow", batch=16, epochs=1, order=order)
                   for order in ("shared", "private", "seeded")]
        wait_until("the slow one's jobs are there", lambda: len(server.status()["jobs"]) == 3)
        for order in ("shared", "private", "seeded"):
            self.assert_epochs(server.read(dataset="quick", batch=16, epochs=2, order=order).finish(), 2)
        self.assertEqual([job.delivered() for job in waiting], [0, 0, 0])
        status = server.status()
        self.assertEqual([(data["name"], data["devices"]) for data in status["datasets"]],
                         [("slow", ["7:1"]), ("quick", ["7:2"])])
        slow_one, quick_one = status["devices"]
        self.assertEqual((slow_one["device"], quick_one["device"]), ("7:1", "7:2"))
        self.assertTrue(quick_one["measured"])
        self.assertGreaterEqual(quick_one["observed_reads"], 2 * self.SAMPLES // 64)
        self.assertEqual(status["reads_max"], slow_one["reads_max"] + quick_one["reads_max"])
        self.assertRegex(server.status_text(), r"device 7:2 \(quick\) read by preadv .*, %d at once; "
                         r"measured: \d+ us, \d+ MB/s"
                         % quick_one["reads_max"])
        self.rule(*self.on)
        for job in waiting:
            self.assert_epochs(job.finish(), 1)
        self.assertTrue(server.status()["devices"][0]["measured"])

    def other(self):
        folder = os.path.join(self.folder, "other")
        shutil.copytree(self.copy, folder)
        return folder

    def test_a_folder_from_which_nothing_comes(self):
        slow, quick = self.copy, self.other()
        with self.serve_two(slow, quick) as server:
            self.assertEqual([device["measured"] for device in server.status()["devices"]], [False, False])
            self.stand_still(server, slow, quick)

    def test_a_pack_from_which_nothing_comes(self):
        slow, quick = self.pack(), os.path.join(self.folder, "quick")
        shutil.copytree(slow, quick)
        with self.serve_two(slow, quick, "--raw", "1M") as server:
            self.stand_still(server, slow, quick)

    def test_a_folder_that_is_far_away_is_read_deep(self):
        """60 ms a read: it is measured, and many are under way at once, more than keep two workers busy."""
        with self.serve_two(self.copy, self.other()) as server:
            self.rule(*self.on, "slow 60 %s" % self.copy)
            job = server.read(dataset="slow", batch=16, slots=16, epochs=0, order="private")
            far = lambda: server.status()["devices"][0]
            wait_until("it is read deep", lambda: far()["reads_max"] >= 40
                       and self.reading_threads(server) >= 40)
            self.assertGreater(far()["latency_microseconds"], 20000)
            job.signal(signal.SIGINT)
            job.wait()
            self.rule(*self.on)

    def test_no_more_reads_than_are_set(self):
        for reads in (1, 3):
            with self.subTest(reads=reads), self.serve_two(self.copy,
                                                           self.pack() if reads == 1 else self.other(),
                                                           "--reads", str(reads), "--raw", "8M") as server:
                for name in ("slow", "quick"):
                    self.assert_epochs(server.read(dataset=name, batch=16, epochs=1).finish(), 1)
                status = server.status()
                self.assertEqual([device["reads_max"] for device in status["devices"]], [reads, reads])
                self.assertEqual(status["reads_max"], 2 * reads)
                self.assertEqual(self.reading_threads(server), 2 * reads)


class Files(StorageTest):
    def test_whatever_takes_a_files_place(self):
        with Server({"train": self.copy}, cache="4M") as server:
            self.assert_epochs(self.read(server, epochs=1).finish(), 1)
            shapes = {3: "fifo", 40: "folder", 77: "loop", 78: "shorter", 120: "longer", 121: "nothing",
                      160: "socket", 199: "elsewhere"}
            for number, shape in shapes.items():
                path = self.path(number)
                with open(path, "rb") as file:
                    content = file.read()
                os.remove(path)
                if shape == "fifo":
                    os.mkfifo(path)
                elif shape == "folder":
                    os.mkdir(path)
                elif shape == "loop":
                    os.symlink(os.path.basename(path), path)
                elif shape in ("shorter", "longer"):
                    with open(path, "wb") as file:
                        file.write(content[:len(content) // 2] if shape == "shorter" else content + b"more")
                elif shape == "socket":
                    with harness.socket.socket(harness.socket.AF_UNIX) as made:
                        made.bind(path)
                elif shape == "elsewhere":
                    os.symlink("/dev/zero", path)
            self.assert_epochs(self.read(server, epochs=2).finish(), 2,
                               [number for number in range(self.SAMPLES) if number not in shapes])
            self.assertEqual(sorted(self.bad(server)), sorted(shapes))
            self.assertIn("changed since", self.bad(server)[120])
            for number in (3, 40, 160, 199):
                self.assertIn("is no regular file", self.bad(server)[number])

    def test_the_folder_goes_away(self):
        with Server({"train": self.copy}, cache="4M", arguments=["--patience", "2"]) as server:
            self.assert_epochs(self.read(server, epochs=1).finish(), 1)
            shutil.rmtree(self.copy)
            reader = self.read(server, "--rejoin", "0", epochs=1)
            self.assertEqual(reader.wait(), 1)
            for word in ("storage", "No such file or directory"):
                self.assertIn(word, reader.texts()[1])
            self.assertEqual(server.status()["bad_samples"], 0)

    def test_a_pack_is_cut_and_removed(self):
        """The index, whatever becomes of it, is the server's own; of volumes the rest is served, and a
        removed one whole."""
        pack = self.pack()
        index, volume = os.path.join(pack, "index.tureen"), os.path.join(pack, "volume-00000.tureen")
        with Server({"train": pack}, cache="4M", arguments=["--raw", "256K"]) as server:
            self.assert_epochs(self.read(server, epochs=1).finish(), 1)
            os.truncate(index, 100)
            self.assert_epochs(self.read(server, "--seed", "3", epochs=2).finish(), 2)
            with open(index, "r+b") as file:
                file.write(os.urandom(50000))
            os.remove(index)
            os.truncate(volume, os.path.getsize(volume) * 7 // 10)      # status names a hundred at most
            rest = self.read(server, epochs=2, order="private").finish()
            lost = set(self.bad(server))
            self.assertTrue(0 < len(lost) < self.SAMPLES)
            self.assertIn("shrank", self.bad(server)[min(lost)])
            self.assert_epochs(rest, 2, [number for number in range(self.SAMPLES) if number not in lost])
            os.remove(volume)
            self.assert_epochs(self.read(server, epochs=1).finish(), 1,
                               [number for number in range(self.SAMPLES) if number not in lost])


if __name__ == "__main__":
    unittest.main()

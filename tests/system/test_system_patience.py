"""Storage that fails and comes back under a real server: no sample is lost, jobs wait and are told why, other
data go on.  What lasts is given up after the patience that was set: one file costs that sample, a whole disk
ends its jobs and marks nothing."""
import errno
import os
import re
import shutil
import time
import unittest

from harness import Server, wait_until
from test_system_storage import LIBRARY, StorageTest


@unittest.skipUnless(os.path.exists(LIBRARY), "there is no faulty_disk.so in this build")
class Passing(StorageTest):
    """Of each fault the kind of call, the error, and the seconds that it lasts."""
    FAULTS = (("read", errno.EIO, .05), ("read", errno.EIO, 1), ("read", errno.ETIMEDOUT, 3),
              ("read", errno.ESTALE, .2),
              ("open", errno.ESTALE, 1), ("open", errno.EACCES, .5), ("open", errno.EIO, .05))

    def outlive(self, server, faults, text):
        for kind, number, seconds in faults:
            with self.subTest(kind=kind, error=errno.errorcode[number], seconds=seconds):
                reader = self.read(server, epochs=2, rate=800)
                wait_until("batches", lambda: reader.delivered() > 0)
                self.rule("%s %d %s" % (kind, number, text))
                time.sleep(seconds)
                self.rule()
                self.assert_epochs(reader.finish(), 2)
                status = server.status()
                self.assertEqual(status["bad_samples"], 0)
                trouble = status["datasets"][0]["trouble"]
                self.assertFalse(trouble and (trouble["still"] or trouble["failing"]), trouble)

    def test_a_folder(self):
        with self.serve_faulty() as server:
            self.outlive(server, self.FAULTS, ".jpg")

    def test_a_pack(self):
        """256 KB hold a seventh of it, so an epoch reads all the time; its volume is open already."""
        with self.serve_faulty(folder=self.pack(), arguments=["--raw", "256K"]) as server:
            self.outlive(server, [fault for fault in self.FAULTS if fault[0] == "read"], "volume-")

    def test_descriptors_that_went_stale(self):
        """What is open fails for good; opened anew by its path it is whole (a file system that was mounted
        again)."""
        for folder in (None, self.pack()):
            with self.subTest(folder=folder), self.serve_faulty(folder=folder,
                                                                arguments=["--raw", "256K"]) as server:
                reader = self.read(server, epochs=2, rate=800)
                wait_until("batches", lambda: reader.delivered() > 0)
                self.rule("stale 1 " + (folder or self.copy))
                self.assert_epochs(reader.finish(), 2)
                self.assertEqual(server.status()["bad_samples"], 0)


@unittest.skipUnless(os.path.exists(LIBRARY), "there is no faulty_disk.so in this build")
class Lasting(StorageTest):
    def test_others_go_on_while_a_disk_is_away(self):
        """The data set stands still, and says so to status, to the log and to its job; another one does not
        notice."""
        other = os.path.join(self.folder, "other")
        shutil.copytree(self.data, other)
        for packed in (False, True):
            folder = self.pack() if packed else self.copy
            self.rule()
            with self.subTest(packed=packed), Server(
                    {"train": folder, "other": other}, cache="4M", arguments=["--raw", "256K"],
                    environment={"LD_PRELOAD": LIBRARY, "TUREEN_DISK": self.rules}) as server:
                failing = time.monotonic()
                self.rule("read %d %s/" % (errno.EIO, folder))
                reader = self.read(server, epochs=1)
                trouble = wait_until("it stands still", lambda: server.status()["datasets"][0]["trouble"])
                self.assertIn("Input/output error", trouble["reason"])
                self.assert_epochs(self.read(server, epochs=2, dataset="other").finish(), 2)
                wait_until("its job is told", lambda: "stands still" in reader.texts()[1])
                loader = server.loader(dataset="train", batch_size=16, epochs=1)
                wait_until("a job that joins later is told", lambda: "stands still" in loader.texts()[1])
                status = server.status()
                self.assertTrue(status["datasets"][0]["trouble"]["still"])
                self.assertEqual([job["waiting_on"] for job in status["jobs"]], ["storage"] * 2)
                self.assertIn("stands still", server.status_text())
                #  The data set, and what its jobs were told
                self.assertEqual(server.log().count("stands still"), 3)
                self.assertRegex(server.log(), " warning storage dataset=train: data set 'train' stands "
                                 "still: .* Input/output error; tried again for 300 s \\(--patience\\)\n")
                self.rule()
                for job in (reader, loader):
                    self.assert_epochs(job.finish(), 1)
                self.assertEqual(server.status()["bad_samples"], 0)
                wait_until("the log has its end", lambda: "can be read again" in server.log())
                lasted = re.search(r"reads failed for (\d+\.\d) s", server.log())
                self.assertLess(float(lasted[1]), time.monotonic() - failing + .1)

    def test_a_broken_sector(self):
        """One file costs that sample, after the patience that was set, and no other job waits for it."""
        with self.serve_faulty(arguments=["--patience", "4"]) as server:
            self.rule("read %d 00017.jpg" % errno.EIO)
            began = time.monotonic()
            reader = self.read(server, epochs=2)
            wait_until("the file has failed", lambda: server.status()["read_failures"])
            others = [number for number in range(self.SAMPLES) if number != 17]
            self.assert_epochs(self.read(server, "--subset", "0:17,18:200", epochs=2).finish(), 2, others)
            self.assertEqual(server.status()["bad_samples"], 0)
            self.assert_epochs(reader.finish(), 2, others)
            self.assertGreater(time.monotonic() - began, 4)
            self.assertEqual(list(self.bad(server)), [17])
            self.assertIn("Input/output error", self.bad(server)[17])

    def test_patience_runs_out(self):
        """A whole disk that stays away ends its jobs, by a reason that names cause and remedy, and marks no
        sample."""
        for packed in (False, True):
            folder = self.pack() if packed else self.copy
            with self.subTest(packed=packed), self.serve_faulty(
                    folder=folder, arguments=["--raw", "256K", "--patience", "2"]) as server:
                self.rule("read %d %s/" % (errno.EIO, folder))
                reader = self.read(server, "--rejoin", "0", epochs=1)
                self.assertEqual(reader.wait(), 1)
                for word in ("storage", "Input/output error", "--patience"):
                    self.assertIn(word, reader.texts()[1])
                self.assertEqual(server.status()["bad_samples"], 0)
                self.rule()
                self.assert_epochs(self.read(server, epochs=1).finish(), 1)
                self.assertEqual(server.status()["bad_samples"], 0)


if __name__ == "__main__":
    unittest.main()

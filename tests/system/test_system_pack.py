"""`tureen pack`: killed and stopped at any moment it goes on to the same pack; memory; what it says."""
import contextlib
import fcntl
import json
import os
import pty
import re
import resource
import shutil
import signal
import struct
import subprocess
import tarfile
import tempfile
import termios
import time
import unittest

import harness
from harness import contents, wait_until

INDEX = "index.tureen"


def pack(*arguments, **options):
    return subprocess.run([harness.TUREEN, "pack", *map(str, arguments)], capture_output=True, text=True,
                          **options)


class Pack(unittest.TestCase):
    SAMPLES = 700

    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="tu-pack-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.data = os.path.join(cls.root, "data")
        random = harness.seeded("pack data")
        cls.bytes = 0
        for number in range(cls.SAMPLES):
            folder = os.path.join(cls.data, "c%d" % (number // 100))
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, "%05d.jpg" % number), "wb") as file:
                cls.bytes += file.write(random.randbytes(random.randrange(random.choice((10, 40000, 40000,
                    200000)))))

    def setUp(self):
        self.count = 0

    def target(self):
        self.count += 1
        target = os.path.join(self.root, "%s-%d" % (self.id().rsplit(".", 1)[1], self.count))
        self.addCleanup(shutil.rmtree, target, ignore_errors=True)
        return target

    def good(self, *arguments):
        done = pack("--json", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    #   ---- going on

    def interrupt(self, number, arguments, wait):
        """Runs it with a signal when `wait` has returned; its exit status."""
        process = subprocess.Popen([harness.TUREEN, "pack", *map(str, arguments)], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        wait(process)
        process.send_signal(number)
        _, said = process.communicate()
        if process.returncode in (130, 143):
            self.assertIn("--resume", said)
        elif process.returncode not in (0, -number):
            self.fail("exit status %d: %s" % (process.returncode, said))
        return process.returncode

    def goes_on(self, number, source):
        random = harness.seeded(self.id())
        whole = self.target()
        began = time.monotonic()
        self.good("--seed", 7, "--memory", "1M", source, whole)
        longest = 0.5 * (time.monotonic() - began)
        expected = contents(whole)
        broken = finished = 0
        while finished < 3 or not broken:
            target = self.target()
            for attempt in range(100):
                memory = random.choice(("1M", "2M", "64M") if attempt else ("1M",))
                arguments = ["--seed", 7, "--memory", memory, "--resume", source, target]
                if self.interrupt(number, arguments,
                                  lambda _: time.sleep(random.uniform(0, longest))) == 0:
                    longest = longest if broken else longest / 4    # it was slower when it was timed
                    break
                broken += 1
                if not os.path.exists(os.path.join(target, INDEX)):
                    if os.path.isdir(target) and os.listdir(target):
                        done = pack(source, target)     #  neither a pack nor taken for none
                        self.assertEqual(done.returncode, 1)
                        self.assertIn("is an unfinished pack: go on with --resume", done.stderr)
                    else:                               #  nothing was begun
                        shutil.rmtree(target, ignore_errors=True)
                if random.random() < 0.2:
                    break
            journal = os.path.join(target, "packing", "journal")        #  with one, it knows the seed
            seed = [] if os.path.exists(journal) else ["--seed", 7]
            self.good("--memory", "3M", "--resume", *seed, source, target)
            self.assertEqual(contents(target), expected)
            shutil.rmtree(target)
            finished += 1
        print("%d times broken off" % broken, flush=True)

    def test_killed_and_resumed(self):
        self.goes_on(signal.SIGKILL, self.data)

    def test_stopped_and_resumed(self):
        self.goes_on(signal.SIGTERM, self.data)

    def test_interrupt_has_its_exit_status(self):
        def wait(process, number):
            """It may end before, or before the signal comes: then it is tried again."""
            while process.poll() is None and not harness.catches(process.pid, number):
                time.sleep(0.0005)
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            wait_until("signal %d stops it" % number, lambda number=number, status=status: self.interrupt(
                number, ["--memory", "1M", self.data, self.target()],
                lambda process: wait(process, number)) == status)

    def test_tar_killed_and_resumed(self):
        shard = os.path.join(self.root, "shard.tar.gz")
        with tarfile.open(shard, "w:gz", compresslevel=1) as tar:
            tar.add(self.data, arcname=".")
        self.goes_on(signal.SIGKILL, shard)

    def test_full_disk_is_resumable(self):
        """A limit of file sizes stands for the disk: the first bucket or volume that passes it fails."""
        whole, target = self.target(), self.target()
        self.good("--seed", 7, self.data, whole)
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (self.bytes // 2, self.bytes // 2))
        done = pack("--seed", 7, self.data, target, preexec_fn=limit)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"cannot write '.*' \(File too large\): .* go on with --resume")
        self.assertFalse(os.path.exists(os.path.join(target, INDEX)))
        self.good("--resume", self.data, target)
        self.assertEqual(contents(target), contents(whole))

    #   ---- memory

    def peak_kib(self, *arguments):
        """Of the memory that is its own.  Looked at while it runs: what the system counts for it at its end
        has Python's own in it."""
        process = subprocess.Popen([harness.TUREEN, "pack", *map(str, arguments)], stdout=subprocess.DEVNULL)
        sanitized, peak = False, 0
        while process.poll() is None:
            try:
                sanitized = sanitized or harness.is_sanitized(process.pid)
                peak = max(peak, harness.process_number(process.pid, "RssAnon"))
            except (OSError, KeyError):
                pass                                    # it has just ended
            time.sleep(0.002)
        self.assertEqual(process.returncode, 0)
        if sanitized:
            self.skipTest("sanitizers have memory of their own")
        return peak

    def test_memory_is_kept_to(self):
        peaks = {}
        for memory in (1, 2, 4):
            self.assertGreater(self.bytes, 4 * memory << 20)
            peaks[memory] = self.peak_kib("--memory", "%dM" % memory, self.data, self.target()) / 1024
        print("MiB at their peak, by --memory: %s" % peaks, flush=True)
        #  The program takes 3 to 5 MiB beside the buffers.  Pages of its libraries are not counted: the
        #  kernel maps 13 to 17 MiB of them, more where they lie in its cache.
        for memory, peak in peaks.items():
            self.assertLess(peak, 7 + memory)
        #  Beside the buffers, the threads' allocators keep up to a MiB more or less.
        self.assertLess(peaks[4] - peaks[1], 3.5 + 2)

    #   ---- what it says

    def test_result_and_seed(self):
        first, second = self.target(), self.target()
        result = self.good(self.data, first)
        self.assertEqual((result["samples"], result["bytes"]), (self.SAMPLES, self.bytes))
        self.assertEqual((result["folder"], result["resumed"], result["was_finished"]), (first, False, False))
        self.assertEqual(result["chunks"], (self.SAMPLES + 63) // 64)
        again = self.good("--seed", result["seed"], "--memory", "4M", self.data, second)
        self.assertEqual(again["seed"], result["seed"])
        self.assertEqual(contents(first), contents(second))
        done = pack("--resume", self.data, first)
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, "was finished already: 700 samples")
        finished = self.good("--resume", self.data, first)
        self.assertTrue(finished["was_finished"])
        self.assertIn("with_rows", result)
        self.assertNotIn("with_rows", finished)         # it was not looked for
        done = pack("--chunk", 128, self.data, self.target())
        self.assertRegex(done.stdout, r"^700 samples, \d+\.\d MB, in 6 chunks and 1 volume, seed \d+; "
                                      r"\d+\.\d s, \d+ MB/s\n$")

    def test_a_folder_with_a_name_that_is_no_utf8(self):
        target = os.fsencode(self.target()) + b"\xff"
        self.addCleanup(shutil.rmtree, target, ignore_errors=True)
        for arguments in ([], ["--resume"]):
            done = subprocess.run([harness.TUREEN, "pack", "--json", *arguments, self.data, target],
                                  capture_output=True)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            self.assertTrue(json.loads(done.stdout)["folder"].endswith("\ufffd"))

    def frames_on_a_terminal(self):
        """What a terminal of 80 columns is shown of the two passes; nothing where the disk was faster than
        we."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        target = self.target()
        process = subprocess.Popen([harness.TUREEN, "pack", "--memory", "1M", self.data, target],
                                   stderr=theirs, stdout=subprocess.DEVNULL,
                                   env={**os.environ, "TERM": "xterm"})
        os.close(theirs)
        while not os.path.exists(os.path.join(target, "packing", "journal")) and process.poll() is None:
            time.sleep(0.001)
        for _ in range(5):          # slow enough for a bar, however fast the disk is
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.25)
            process.send_signal(signal.SIGCONT)
            time.sleep(0.005)
        self.assertEqual(process.wait(), 0)
        shown = b""
        with contextlib.suppress(OSError), open(ours, "rb", buffering=0) as terminal:
            while piece := terminal.read(65536):
                shown += piece
        return [frame.split(b"\x1b[K")[0].decode() for frame in shown.split(b"\r") if b"of 2" in frame]

    def test_a_terminal_of_80_columns_shows_rate_and_time_left(self):
        frames = []
        for _ in range(20):         # until bytes had come at one of them: only then is there a time left
            frames = frames or [frame for frame in self.frames_on_a_terminal()
                                if not re.search(r"% +0 B/s", frame)]
        self.assertTrue(frames)
        for frame in frames:
            self.assertLess(len(frame), 80)
            self.assertRegex(frame, r"^(reading|writing) \([12] of 2\) \[#*\.*\] +\d+ % "
                                    r"\d+:\d\d left, [\d.]+ [kMG]?B/s")

    def test_a_mistaken_option_leaves_nothing_in_the_way(self):
        shard, target = os.path.join(self.root, "text.tar"), self.target()
        with tarfile.open(shard, "w") as tar:
            tar.add(os.path.join(self.data, "c0", "00000.jpg"), arcname="1.bin")
        done = pack(shard, target)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--extensions", done.stderr)
        self.assertFalse(os.path.exists(target))
        self.assertEqual(self.good("--extensions", ".bin", shard, target)["samples"], 1)

    def test_a_second_process_is_refused(self):
        target = self.target()
        process = subprocess.Popen([harness.TUREEN, "pack", "--memory", "1M", self.data, target])
        while not os.path.exists(os.path.join(target, "packing", "journal")) and process.poll() is None:
            time.sleep(0.001)
        process.send_signal(signal.SIGSTOP)
        if process.poll() is None:
            done = pack("--resume", self.data, target)
            self.assertEqual(done.returncode, 1)
            self.assertIn("another process packs into", done.stderr)
        process.send_signal(signal.SIGCONT)
        self.assertEqual(process.wait(), 0)

    def test_unusable_arguments(self):
        for arguments, expected in (
                ([], "expected a source and a folder"), ([self.data], "expected a source and a folder"),
                (["--chunk", 100, self.data, "x"], "expected a multiple of 64, at most 4096"),
                (["--memory", "10k", self.data, "x"], "expected a size of at least 1M"),
                (["--seed", "-1", self.data, "x"], "expected a number from 0"),
                (["--field", "mask=/x", self.data, "x"], "expected NAME=mask:FOLDER"),
                (["--nonsense", self.data, "x"], "unknown option '--nonsense'"),
                (["--seed"], "needs a value")):
            done = pack(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertIn(expected, done.stderr)
        for arguments, expected in (
                ([self.root + "/none", self.target()], "check the path"),
                ([self.data, self.data + "/c0/pack"], "choose a folder outside"),
                ([self.data, self.data, self.target()], "give it alone")):
            done = pack(*arguments)
            self.assertEqual((done.returncode, done.stdout), (1, ""), arguments)
            self.assertIn(expected, done.stderr)
        self.assertIn("Exit status: 0 packed", pack("--help").stdout)


if __name__ == "__main__":
    unittest.main()

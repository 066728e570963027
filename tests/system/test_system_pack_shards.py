"""`tureen pack` of tar files in an object store and on a web server: the same pack as of the same files here,
whatever the network does, and what lasts is told in words."""
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
import unittest

import harness
from harness import contents, wait_until
from object_store import Fault, ObjectStore

KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
SHARDS = "s3://bucket/my shards/train-{00..03}.tar"
SETTINGS = ("--quiet", "--seed", "7", "--memory", "4M", "--volume", "8M")


class ShardTest(unittest.TestCase):
    """Four tar files of some 10 MB, more than two ranges each."""

    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="tu-shards-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        random, files = harness.seeded("shards"), os.path.join(cls.root, "files")
        cls.objects = os.path.join(cls.root, "objects")
        cls.place = os.path.join(cls.objects, "bucket", "my shards")
        os.makedirs(cls.place)
        os.makedirs(files)
        cls.shards = []
        for number in range(4):
            for sample in range(100):
                stem = os.path.join(files, "%d%03d" % (number, sample))
                with open(stem + ".jpg", "wb") as file:
                    file.write(random.randbytes(random.randrange(200000)))
                with open(stem + ".cls", "w") as file:
                    file.write(str(sample % 7))
            cls.shards.append(os.path.join(cls.place, "train-%02d.tar" % number))
            with tarfile.open(cls.shards[-1], "w") as tar:
                for name in sorted(os.listdir(files)):
                    tar.add(os.path.join(files, name), arcname=name)
            for name in os.listdir(files):
                os.unlink(os.path.join(files, name))
        cls.folder = os.path.join(cls.root, "folder")
        done = harness.run("pack", *SETTINGS, *cls.shards, cls.folder)
        assert done.returncode == 0, done.stderr
        cls.expected = contents(cls.folder)

    def setUp(self):
        self.store = ObjectStore(self.objects, keys={KEY: SECRET})
        self.store.__enter__()
        self.addCleanup(self.store.__exit__)
        self.scratch = tempfile.mkdtemp(prefix="tu-shard-pack-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.target = os.path.join(self.scratch, "pack")

    def pack(self, *arguments, sources=(SHARDS,), target=None, environment=None):
        done = harness.run("pack", *SETTINGS, *arguments, *sources, target or self.target,
                           environment=environment or self.store.environment(KEY))
        self.assertNotIn(SECRET, done.stdout + done.stderr)
        return done

    def start(self, *arguments, environment=None):
        process = subprocess.Popen([harness.TUREEN, "pack", *SETTINGS, *arguments, SHARDS, self.target],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, **(environment or self.store.environment(KEY))})
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def assert_packs(self, *arguments, **options):
        done = self.pack(*arguments, **options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(contents(self.target), self.expected)

    def assert_fails(self, *words, **options):
        done = self.pack(**options)
        self.assertEqual(done.returncode, 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)


class Packs(ShardTest):
    def test_the_same_pack_as_of_files(self):
        """Named one by one, counted, in parts of a list, and as a web server's."""
        names = ["s3://bucket/my shards/train-0%d.tar" % number for number in range(4)]
        for sources in ([SHARDS], names, ["s3://bucket/my shards/train-{00..02}.tar", names[3]],
                        ["s3://bucket/my shards/train-{0..0}{0..3}.tar"], names[:2] + self.shards[2:]):
            with self.subTest(sources=sources):
                self.assert_packs(sources=sources)
                shutil.rmtree(self.target)
        self.store.keys = None
        self.assert_packs(sources=[self.store.url + "/bucket/my%20shards/train-{00..03}.tar"],
                          environment={"AWS_EC2_METADATA_DISABLED": "true"})

    def test_every_byte_is_asked_for_once(self):
        self.assert_packs()
        read = sum(map(os.path.getsize, self.shards))
        self.assertLess(self.store.sent(".tar") - read, 4 * 1024)
        self.assertGreaterEqual(self.store.sent(".tar"), read)

    def test_from_a_store_into_a_store(self):
        work = os.path.join(self.scratch, "work")
        done = self.pack("--work", work, target="s3://bucket/packs/train")
        self.addCleanup(shutil.rmtree, os.path.join(self.objects, "bucket", "packs"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(contents(os.path.join(self.objects, "bucket", "packs", "train")), self.expected)
        self.assertFalse(os.path.exists(work))

    def test_compressed(self):
        packed = os.path.join(self.objects, "bucket", "x.tar.gz")
        subprocess.run("gzip -1 < '%s' > %s" % (self.shards[0], packed), shell=True, check=True)
        self.addCleanup(os.unlink, packed)
        folder = os.path.join(self.scratch, "folder")
        self.assertEqual(harness.run("pack", *SETTINGS, self.shards[0], folder).returncode, 0)
        done = self.pack(sources=["s3://bucket/x.tar.gz"])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(contents(self.target), contents(folder))


class Input(ShardTest):
    """The same tar files, joined, by a pipe."""

    def pipe(self, *arguments, end=None):
        """Exit status and words; `end`: so many bytes come, and then it is killed."""
        with subprocess.Popen([harness.TUREEN, "pack", *SETTINGS, *arguments, "-", self.target],
                              stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              bufsize=0) as process:
            left = end
            for path in self.shards:
                with open(path, "rb") as file:
                    content = file.read(left)
                view = memoryview(content)
                try:
                    while view:
                        view = view[process.stdin.write(view):]
                except BrokenPipeError:
                    break
                left = None if left is None else left - len(content)
                if left == 0:
                    process.kill()
                    break
            process.stdin.close()
            told = process.stderr.read().decode()
        return process.returncode, told

    def test_the_same_pack(self):
        self.assertEqual(self.pipe(), (0, ""))
        self.assertEqual(contents(self.target), self.expected)

    def test_a_killed_one_is_gone_on_with(self):
        for end in (5000000, 21000000, 33000000):
            self.assertEqual(self.pipe("--signature", "x", "--resume", end=end), (-signal.SIGKILL, ""))
        status, told = self.pipe("--signature", "y", "--resume")
        self.assertEqual(status, 1)
        self.assertIn("the source is not what", told)
        self.assertEqual(self.pipe("--signature", "x", "--resume"), (0, ""))
        self.assertEqual(contents(self.target), self.expected)

    def test_a_silent_writer(self):
        """SIGTERM ends it although nothing more comes, before the first byte and in the midst."""
        for sent in (0, 700, 3000000):
            with subprocess.Popen([harness.TUREEN, "pack", *SETTINGS, "-", self.target],
                                  stdin=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as process:
                with open(self.shards[0], "rb") as file:
                    view = memoryview(file.read(sent))
                while view:
                    view = view[process.stdin.write(view):]
                wait_until("it knows the signal", lambda: harness.catches(process.pid, signal.SIGTERM))
                time.sleep(.3)
                process.terminate()
                self.assertEqual(process.wait(harness.PATIENCE), 143)
                self.assertIn(b"stopped: go on with --resume", process.stderr.read())
            shutil.rmtree(self.target, ignore_errors=True)

    def test_what_is_refused(self):
        for words, why, status in (
                (("--resume", "-"), "give --signature TEXT", 2),
                (("--signature", "x", self.shards[0]), "--signature is for standard input", 2),
                (("-", self.shards[0]), "standard input ('-') is one tar file", 1),
                ((self.shards[0], "-"), "standard input ('-') is one tar file", 1),
                (("-",), "'standard input' is no tar file", 1)):
            done = subprocess.run([harness.TUREEN, "pack", *SETTINGS, *words, self.target],
                                  stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(why, done.stderr)
        done = subprocess.run("%s pack --quiet - %s <&-" % (harness.TUREEN, self.target), shell=True,
                              stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard input", done.stderr)
        self.assertFalse(os.path.exists(self.target))


class Passing(ShardTest):
    def assert_outlived(self, fault):
        self.store.faults[:] = [fault]
        self.assert_packs()
        self.assertGreater(fault.met, 0)
        shutil.rmtree(self.target)

    def test_answers_that_it_is_busy(self):
        self.assert_outlived(Fault("status", 503, "SlowDown", ".tar", 12))
        self.assert_outlived(Fault("status", 429, "TooManyRequests", "train-02", 6))

    def test_connections_that_break(self):
        for kind in ("reset", "short"):
            self.assert_outlived(Fault(kind, name=".tar", times=20, after=1000000))
            self.assert_outlived(Fault(kind, name="train-01", times=3, after=0))

    def test_bytes_that_hardly_come(self):
        self.assert_outlived(Fault("slow", name="train-01", times=2, after=100000))

    def test_killed_and_resumed(self):
        random, broken = harness.seeded(self.id()), 0
        self.store.latency = .005
        began = time.monotonic()
        self.assert_packs()
        longest = time.monotonic() - began
        rounds = 0
        while rounds < 4 or not broken:
            shutil.rmtree(self.target)
            killed = harness.kill_until_done(lambda: self.start("--resume"),
                                             lambda: random.uniform(0, .7 * longest), 30)
            self.assert_packs("--resume")
            #  It was slower when it was timed.
            longest = longest if killed else longest / 4
            broken, rounds = broken + killed, rounds + 1
        print("%d times broken off" % broken, flush=True)


class Lasting(ShardTest):
    def test_stopped_while_the_store_does_not_answer(self):
        self.store.latency, fault = .02, Fault("hang", name="train-03")
        process = self.start()
        wait_until("it has begun", lambda: self.store.sent("train-00") > 1)
        self.store.faults.append(fault)
        wait_until("it waits", lambda: fault.met)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(harness.PATIENCE), 143)
        self.assertIn("go on with --resume", process.stderr.read())
        self.store.faults.clear()
        self.assert_packs("--resume")

    def hold_the_look(self, *arguments):
        """A process that has not been told the size of one of them."""
        fault = Fault("status", 503, name="train-02")
        self.store.faults[:] = [fault]
        process = self.start(*arguments)
        wait_until("it asks", lambda: fault.met)
        return process

    def test_stopped_while_it_looks_at_the_shards(self):
        process = self.hold_the_look()
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=harness.PATIENCE)
        self.assertEqual(process.returncode, 143, said)
        self.assertIn("stopped: go on with --resume", said)

    def test_patience_while_it_looks_at_the_shards(self):
        process = self.hold_the_look("--patience", "2")
        _, said = process.communicate(timeout=harness.PATIENCE)
        self.assertEqual(process.returncode, 1, said)
        self.assertIn("train-02.tar' (503 SlowDown)", said)
        process = self.hold_the_look("--patience", "60")
        time.sleep(17)
        self.store.faults.clear()
        _, said = process.communicate()
        self.assertEqual((process.returncode, said), (0, ""))
        self.assertEqual(contents(self.target), self.expected)

    def break_in_the_middle(self, fault, *words, arguments=()):
        """The shards are looked at first, so the fault waits until bytes have come."""
        self.store.latency = .02
        process = self.start(*arguments)
        wait_until("it has begun", lambda: self.store.sent("train-00") > 1)
        if callable(fault):
            fault()
        else:
            self.store.faults[:] = [fault]
        _, said = process.communicate()
        self.assertEqual(process.returncode, 1, said)
        for word in words:
            self.assertIn(word, said)
        self.store.faults.clear()

    def test_an_outage_beyond_the_patience(self):
        self.break_in_the_middle(Fault("status", 503, name="train-03"), "train-03.tar' (503 SlowDown)",
                                 "then go on with --resume", arguments=["--patience", "2"])
        self.assert_packs("--resume")

    def test_an_outage_takes_one_pause_for_all_ranges(self):
        """Each time, and not one for each: what goes on is asked for soon, and a signal is heeded."""
        self.store.latency, fault = .02, Fault("status", 503, name="train-03")
        process = self.start()
        wait_until("it has begun", lambda: self.store.sent("train-00") > 1)
        self.store.faults[:] = [fault]
        wait_until("it asks", lambda: fault.met)
        began, before = time.monotonic(), fault.met
        rounds, ranges = 7, -(-os.path.getsize(self.shards[3]) // (4 << 20))
        wait_until("they were all asked for", lambda: fault.met >= before + rounds * ranges)
        self.assertLess(time.monotonic() - began, 12)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=harness.PATIENCE)
        self.assertEqual(process.returncode, 143, said)
        self.assertIn("stopped: go on with --resume", said)

    def test_keys_that_end_on_the_way(self):
        self.break_in_the_middle(Fault("status", 403, "ExpiredToken", "train-03"), "403 ExpiredToken",
                                 "renew the keys")
        self.assert_packs("--resume")

    def test_keys_that_end_on_the_way_and_are_renewed(self):
        """A profile's file has others when the store refuses the first ones: packing goes on with them."""
        path = os.path.join(self.scratch, "credentials")

        def give(key):
            with open(path + ".new", "w") as file:
                file.write("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n"
                           "aws_session_token = %s\n" % (key.name, key.secret, key.token))
            os.replace(path + ".new", path)
        first, others = self.store.issue(3600), self.store.issue(3600)
        environment = dict(self.store.environment(), AWS_SHARED_CREDENTIALS_FILE=path)
        del environment["AWS_NO_SIGN_REQUEST"]
        give(first)
        self.store.latency = .02
        process = self.start(environment=environment)
        wait_until("it has begun", lambda: self.store.sent("train-00") > 1)
        give(others)
        first.ends = 0
        _, said = process.communicate()
        self.assertEqual((process.returncode, said), (0, ""))
        self.assertEqual(contents(self.target), self.expected)
        self.assertEqual(self.store.used, {first.name, others.name})
        self.assertTrue([request for request in self.store.requests if request.status == 400])

    def test_a_shard_that_changes(self):
        before = os.stat(self.shards[3])
        self.addCleanup(os.utime, self.shards[3], ns=(before.st_atime_ns, before.st_mtime_ns))
        self.break_in_the_middle(lambda: os.utime(self.shards[3]), "train-03.tar' changed meanwhile")
        self.assert_fails("the source is not what", sources=["--resume", SHARDS])

    def test_a_shard_without_a_version(self):
        """Its size is what is left to be checked."""
        size = os.path.getsize(self.shards[3])
        with open(self.shards[3], "rb") as file:
            kept = file.read()

        def restore():
            with open(self.shards[3], "wb") as file:
                file.write(kept)
        self.addCleanup(restore)
        self.store.has_weak_versions = True
        for self.store.gives_versions in (False, True):
            for other in (size + 512, size - 5000000):
                with self.subTest(versions=self.store.gives_versions, other=other - size):
                    self.store.requests.clear()
                    self.break_in_the_middle(lambda other=other: os.truncate(self.shards[3], other),
                                             "train-03.tar' changed meanwhile")
                    shutil.rmtree(self.target)
                    restore()
            self.assert_packs()
            shutil.rmtree(self.target)

    def test_what_cannot_be_a_source(self):
        short, empty = (os.path.join(self.objects, "bucket", name) for name in ("short.tar", "empty.tar"))
        with open(self.shards[0], "rb") as file, open(short, "wb") as copy:
            copy.write(file.read(1000000))
        open(empty, "w").close()
        self.addCleanup(os.unlink, short)
        self.addCleanup(os.unlink, empty)
        for words, source in (
                (["train-04.tar' (404 NoSuchKey)", "count them by {000..099}"],
                 "s3://bucket/my shards/train-{00..05}.tar"),
                (["'{03..00}' counts down"], "s3://bucket/my shards/train-{03..00}.tar"),
                (["more than 1000000 tar files"], "s3://bucket/{0..999999999}.tar"),
                (["is empty, no tar file"], "s3://bucket/empty.tar"),
                (["damaged or cut short"], "s3://bucket/short.tar"),
                (["404"], "s3://no-bucket/x.tar"),
                (["write s3://BUCKET/PREFIX"], "s3://x/y.tar")):
            with self.subTest(source=source):
                self.assert_fails(*words, sources=[source])
                self.assertFalse(os.path.exists(os.path.join(self.target, "index.tureen")))
                shutil.rmtree(self.target, ignore_errors=True)
        self.assert_fails("give it alone", sources=[SHARDS, self.scratch])
        self.assert_fails("403 InvalidAccessKeyId", "s3:GetObject",
                          environment=dict(self.store.environment(KEY), AWS_ACCESS_KEY_ID="other"))
        self.assert_fails("fields are for folders", sources=["--field", "mask=mask:/tmp", SHARDS])


if __name__ == "__main__":
    unittest.main()

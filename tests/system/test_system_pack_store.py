"""`tureen pack` into an object store: the bucket holds the whole pack or none, whatever fails and whenever it
is killed; what the store has is not sent again; and what lasts is told in words."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import harness
from harness import Server, SystemTest, contents, wait_until
from object_store import Fault, ObjectStore
from test_system_packs import take

KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
PLACE = "my packs/train"
ADDRESS = "s3://bucket/" + PLACE
INDEX = "index.tureen"
SETTINGS = ("--seed", "7", "--volume", "1M", "--memory", "1M")


class PackStoreTest(SystemTest):
    SAMPLES = 1500

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = os.path.join(cls.root, "folder")
        packed = harness.run("pack", "--quiet", "--json", *SETTINGS, cls.data, cls.folder)
        assert packed.returncode == 0, packed.stderr
        result = json.loads(packed.stdout)
        cls.bytes, cls.volumes = result["bytes"], result["volumes"]
        assert cls.volumes >= 4, result
        cls.expected = contents(cls.folder)

    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="tu-pack-store-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.objects = os.path.join(self.scratch, "objects")
        self.bucket = os.path.join(self.objects, "bucket", PLACE)
        self.work = os.path.join(self.scratch, "work")
        os.makedirs(os.path.join(self.objects, "bucket"))
        self.store = ObjectStore(self.objects, keys={KEY: SECRET})
        self.store.__enter__()
        self.addCleanup(self.store.__exit__)

    #   ---- commands

    def command(self, *arguments, source=None, target=ADDRESS, work=None):
        return ["pack", "--quiet", *SETTINGS, "--work", work or self.work, *arguments, source or self.data,
                target]

    def pack(self, *arguments, environment=None, **options):
        done = harness.run(*self.command(*arguments, **options),
                           environment=environment or self.store.environment(KEY))
        self.assertNotIn(SECRET, done.stdout + done.stderr)
        return done

    def start(self, *arguments, **options):
        """A process of its own."""
        process = subprocess.Popen([harness.TUREEN, *self.command(*arguments, **options)],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, **self.store.environment(KEY)})
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def volume(self, number):
        return "volume-%05d.tureen" % number

    def is_here(self, name):
        return os.path.exists(os.path.join(self.work, name))

    def puts(self, name):
        """How often it was written."""
        return sum(written.endswith(name) for written in self.store.written())

    #   ---- what is asserted

    def assert_whole(self):
        """The bucket holds what a folder would, and here is nothing left."""
        self.assertEqual(contents(self.bucket), self.expected)
        self.assertFalse(os.path.exists(self.work))
        self.assertTrue(self.store.written()[-1].endswith(INDEX))

    def assert_packs(self, *arguments):
        done = self.pack(*arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assert_whole()

    def assert_fails(self, *words, arguments=(), status=1, **options):
        done = self.pack(*arguments, **options)
        self.assertEqual(done.returncode, status, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        return done.stderr

    def assert_no_pack(self):
        self.assertFalse(os.path.exists(os.path.join(self.bucket, INDEX)))
        done = harness.run("verify", ADDRESS, environment=self.store.environment(KEY))
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no pack at", done.stderr)


class Packs(PackStoreTest):
    def test_the_same_bytes_as_in_a_folder(self):
        done = self.pack("--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_whole()
        result = json.loads(done.stdout)
        self.assertEqual((result["folder"], result["samples"], result["volumes"]),
                         (ADDRESS, self.SAMPLES, self.volumes))
        #  The first volume was tried for, and then sent like the others.
        for number in range(self.volumes):
            self.assertEqual(self.puts(self.volume(number)), 1 + (number == 0))
        verified = harness.run("verify", ADDRESS, environment=self.store.environment(KEY))
        self.assertEqual(verified.returncode, 0, verified.stderr)

    def test_jobs_get_what_they_get_from_the_folder(self):
        self.assert_packs()
        job = dict(seed=5, epochs=1)
        with Server({"train": self.folder}, cache="4M", arguments=["--raw", "512K"]) as server:
            expected = take(server, "train", **job)
        with Server({"train": ADDRESS}, cache="4M", arguments=["--raw", "512K"],
                    environment=self.store.environment(KEY)) as server:
            self.assertEqual(take(server, "train", **job), expected)

    def test_temporary_keys_and_a_bucket_without_keys(self):
        self.store.token = "T" * 1500 + "+/="
        self.assert_packs()
        shutil.rmtree(self.bucket)
        self.store.keys = self.store.token = None
        done = self.pack(environment=self.store.environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_whole()

    def test_a_finished_pack_is_refused_or_told(self):
        self.assert_packs()
        written = self.store.written()
        self.assert_fails("is a pack already: choose another address")
        done = self.pack("--resume", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(json.loads(done.stdout)["was_finished"])
        self.assertEqual(self.store.written(), written)
        self.assertFalse(os.path.exists(self.work))

    def test_the_room_that_it_takes_here(self):
        """The data and one bucket at most, though the link is slower than the disk."""
        self.store.faults.append(Fault("hang", name=self.volume(self.volumes - 1), method="PUT"))
        process, most = self.start(), 0
        whole = sum(os.path.getsize(os.path.join(self.folder, name)) for name in os.listdir(self.folder))

        def is_written():
            nonlocal most
            used = 0
            for folder, _, names in os.walk(self.work):
                for name in names:
                    try:
                        used += os.path.getsize(os.path.join(folder, name))
                    except OSError:
                        pass
            most = max(most, used)
            return self.puts(self.volume(self.volumes - 2)) and not self.is_here(self.volume(0))
        wait_until("all but one are sent", is_written, step=.001)
        process.kill()
        print("%.2f of the pack's size at most" % (most / whole), flush=True)
        #  A bucket is about half of --memory, and the table has 32 bytes a sample.
        self.assertLess(most, whole + (1 << 20) + 64 * self.SAMPLES)
        self.assertGreater(most, whole // 2)


class Passing(PackStoreTest):
    """It costs nothing but time."""

    def assert_outlived(self, fault):
        self.store.faults[:] = [fault]
        shutil.rmtree(self.bucket, ignore_errors=True)
        self.assert_packs()
        self.assertGreater(fault.met, 0)

    def test_answers_that_it_is_busy(self):
        self.assert_outlived(Fault("status", 503, "SlowDown", "volume", 6, method="PUT"))
        self.assert_outlived(Fault("status", 429, "TooManyRequests", "volume", 3))
        self.assert_outlived(Fault("status", 500, "InternalError", INDEX, 2, method="PUT"))
        self.assert_outlived(Fault("status", 400, "RequestTimeout", "volume-00002", 2, method="PUT"))

    def test_connections_that_break(self):
        for kind in ("reset", "short"):
            for after in (0, 300000):
                self.assert_outlived(Fault(kind, name="volume", times=5, after=after, method="PUT"))
            self.assert_outlived(Fault(kind, name=INDEX, times=2, after=0, method="PUT"))

    def test_bytes_that_change_on_the_way(self):
        """The store works out the checksum."""
        self.assert_outlived(Fault("wrong", name="volume", times=3, method="PUT"))
        self.assert_outlived(Fault("wrong", name=INDEX, times=1, method="PUT"))

    def test_an_object_that_is_not_confirmed(self):
        began = time.monotonic()
        self.assert_outlived(Fault("slow", name="volume-00001", times=1, method="PUT"))
        self.assertGreater(time.monotonic() - began, 25)


class Resumed(PackStoreTest):
    def hang_at(self, name, *arguments):
        """A process that waits for the store to take this object, with all before it sent and gone here."""
        self.store.faults[:] = [Fault("hang", name=name, method="PUT")]
        process = self.start(*arguments)
        before = self.volumes if name == INDEX else int(name[7:12])

        def is_there():
            return self.store.faults[0].met and self.is_here("packing") and all(
                self.puts(self.volume(number)) > (number == 0) and not self.is_here(self.volume(number))
                for number in range(before))
        wait_until("it waits with %s" % name, is_there)
        return process

    def assert_goes_on(self, *sent):
        """And these are not sent again."""
        before = [self.puts(name) for name in sent]
        self.store.faults.clear()
        self.assert_fails("is an unfinished pack: go on with --resume")
        self.assert_packs("--resume")
        self.assertEqual([self.puts(name) for name in sent], before)

    def test_killed_with_a_volume_on_its_way(self):
        for number in (1, self.volumes - 1):
            with self.subTest(number=number):
                shutil.rmtree(self.bucket, ignore_errors=True)
                self.store.requests.clear()
                process = self.hang_at(self.volume(number))
                process.kill()
                process.wait()
                self.assert_no_pack()
                self.assert_goes_on(*map(self.volume, range(number)))

    def test_killed_with_the_index_on_its_way(self):
        process = self.hang_at(INDEX)
        process.kill()
        process.wait()
        self.assert_no_pack()
        self.assert_goes_on(*map(self.volume, range(self.volumes)))

    def test_killed_behind_the_index(self):
        """The folder is there as it was, and the store has everything."""
        process = self.hang_at(INDEX)
        process.kill()
        process.wait()
        self.store.faults.clear()
        shutil.copyfile(os.path.join(self.folder, INDEX), os.path.join(self.bucket, INDEX))
        written = self.store.written()
        done = self.pack("--resume")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.store.written(), written)
        self.assert_whole_again()

    def assert_whole_again(self):
        self.assertEqual(contents(self.bucket), self.expected)
        self.assertFalse(os.path.exists(self.work))

    def test_stopped_while_the_store_does_not_answer(self):
        for number, status in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
            with self.subTest(status=status):
                shutil.rmtree(self.bucket, ignore_errors=True)
                self.store.requests.clear()
                process = self.hang_at(self.volume(2))
                process.send_signal(number)
                self.assertEqual(process.wait(harness.PATIENCE), status)
                self.assertIn("go on with --resume", process.stderr.read())
                self.assert_no_pack()
                self.assert_goes_on(self.volume(0), self.volume(1))

    def assert_whole_if_any(self):
        if os.path.exists(os.path.join(self.bucket, INDEX)):
            self.assertEqual(contents(self.bucket), self.expected)

    def test_killed_at_any_moment(self):
        random = harness.seeded(self.id())
        self.store.latency = .01
        began = time.monotonic()
        self.assert_packs()
        longest, broken, rounds = time.monotonic() - began, 0, 0
        while rounds < 6 or not broken:
            shutil.rmtree(self.bucket)
            killed = harness.kill_until_done(lambda: self.start("--resume"),
                                             lambda: random.uniform(0, .8 * longest), 60,
                                             self.assert_whole_if_any)
            #  It was slower when it was timed.
            longest = longest if killed else longest / 4
            broken, rounds = broken + killed, rounds + 1
            done = self.pack("--resume")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assert_whole_again()
        print("%d times broken off" % broken, flush=True)

    def test_the_store_has_lost_a_volume(self):
        process = self.hang_at(self.volume(2))
        process.kill()
        process.wait()
        self.store.faults.clear()
        os.unlink(os.path.join(self.bucket, self.volume(0)))
        self.assert_fails("does not hold volume-00000.tureen as it was sent", "begin anew",
                          arguments=["--resume"])
        self.assert_no_pack()

    def test_the_store_has_another_object(self):
        """Of the same size, with the right begin."""
        process = self.hang_at(self.volume(2))
        process.kill()
        process.wait()
        self.store.faults.clear()
        with open(os.path.join(self.bucket, self.volume(1)), "r+b") as file:
            file.seek(100000)
            file.write(b"changed")
        self.assert_fails("does not hold volume-00001.tureen as it was sent", arguments=["--resume"])
        self.assert_no_pack()

    def test_a_volume_that_is_lost_but_still_here_is_sent_again(self):
        process = self.hang_at(self.volume(2))
        process.kill()
        process.wait()
        self.store.faults.clear()
        shutil.copyfile(os.path.join(self.folder, self.volume(0)), os.path.join(self.work, self.volume(0)))
        os.unlink(os.path.join(self.bucket, self.volume(0)))
        self.assert_packs("--resume")

    def test_another_target_than_it_was_begun_for(self):
        process = self.hang_at(self.volume(2))
        process.kill()
        process.wait()
        self.store.faults.clear()
        done = harness.run("pack", "--resume", self.data, self.work)
        self.assertEqual(done.returncode, 1)
        self.assertIn("was begun for an object store", done.stderr)
        self.assert_fails("was begun for '%s'" % ADDRESS, target="s3://bucket/other", arguments=["--resume"])
        self.assert_packs("--resume")


class Another(PackStoreTest):
    """Another pack comes into the place meanwhile: it stays whole, and the other one ends with an error."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.other = os.path.join(cls.root, "other")
        packed = harness.run("pack", "--quiet", "--seed", "8", cls.data, cls.other)
        assert packed.returncode == 0, packed.stderr

    def hold(self, name, method):
        """What asks for it goes on asking."""
        fault = Fault("status", 503, name=name, method=method)
        self.store.faults.append(fault)
        return fault

    def wait_for(self, fault):
        wait_until("it asks", lambda: fault.met)

    def comes(self):
        shutil.copytree(self.other, self.bucket, dirs_exist_ok=True)
        self.there = contents(self.bucket)

    def assert_ends(self, process, *words):
        self.store.faults.clear()
        _, said = process.communicate()
        self.assertEqual(process.returncode, 1, said)
        for word in words:
            self.assertIn(word, said)
        self.assertEqual(contents(self.bucket), self.there)

    def test_before_the_first_byte(self):
        """While the source is opened, which may take long."""
        os.makedirs(os.path.join(self.objects, "bucket", "tars"))
        subprocess.run(["tar", "cf", os.path.join(self.objects, "bucket", "tars", "x.tar"), "-C", self.data,
                        "."], check=True)
        fault = self.hold("x.tar", "GET")
        process = self.start(source="s3://bucket/tars/x.tar")
        self.wait_for(fault)
        process.send_signal(signal.SIGSTOP)
        self.comes()
        process.send_signal(signal.SIGCONT)
        self.assert_ends(process, "has become a pack meanwhile: choose another address")
        self.assertFalse(os.path.exists(self.work))

    def started_with_volumes(self):
        """A process that has written to the first volume, and now asks before it sends volumes."""
        trying = self.hold(self.volume(0), "PUT")
        process = self.start()
        self.wait_for(trying)
        asking = self.hold(INDEX, "GET")
        self.store.faults.remove(trying)
        self.wait_for(asking)
        return process

    def test_before_the_first_volume(self):
        process = self.started_with_volumes()
        self.comes()
        self.assert_ends(process, "has become another pack meanwhile", "--resume")
        shutil.rmtree(self.bucket)
        self.assert_packs("--resume")

    def test_before_the_index(self):
        last = self.hold(self.volume(self.volumes - 1), "PUT")
        process = self.start()
        self.wait_for(last)
        wait_until("the others are sent", lambda: all(
            self.puts(self.volume(number)) > (number == 0) for number in range(self.volumes - 1)))
        asking = self.hold(INDEX, "GET")
        self.store.faults.remove(last)
        self.wait_for(asking)
        shutil.copyfile(os.path.join(self.other, INDEX), os.path.join(self.bucket, INDEX))
        self.there = contents(self.bucket)
        self.assert_ends(process, "has become another pack meanwhile")

    def test_stopped_while_it_asks(self):
        process = self.started_with_volumes()
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate()
        self.assertEqual(process.returncode, 143, said)
        self.assertIn("stopped: go on with --resume", said)
        self.store.faults.clear()
        self.assert_packs("--resume")

    def test_the_same_pack_is_no_other(self):
        """Another packing of the same data and seed, of which nothing differs."""
        process = self.started_with_volumes()
        shutil.copyfile(os.path.join(self.folder, INDEX), os.path.join(self.bucket, INDEX))
        self.store.faults.clear()
        _, said = process.communicate()
        self.assertEqual((process.returncode, said), (0, ""))
        self.assert_whole()


class Refused(PackStoreTest):
    def assert_nothing_begun(self):
        self.assertFalse(os.path.exists(self.work))
        self.assert_no_pack()

    def test_before_the_source_is_read(self):
        """Keys, bucket and address are tried first, and leave nothing behind."""
        good = self.store.environment(KEY)
        without = {name: value for name, value in good.items() if "KEY" not in name}
        for words, options in (
                (["403 InvalidAccessKeyId", "s3:ListBucket"],
                 {"environment": dict(good, AWS_ACCESS_KEY_ID="other")}),
                (["AWS_ACCESS_KEY_ID"], {"environment": without}),
                (["404 NoSuchBucket", "make the bucket"], {"target": "s3://no-bucket/x"}),
                (["is a web server's", "s3://BUCKET/PREFIX"], {"target": self.store.url + "/bucket/x"}),
                (["cannot look at", "check the path"], {"source": self.root + "/none"})):
            with self.subTest(words=words):
                said = self.assert_fails(*words, **options)
                self.assertNotIn("--resume", said)
                self.assert_nothing_begun()
        self.store.faults.append(Fault("status", 403, "AccessDenied", method="PUT"))
        self.assert_fails("403 AccessDenied", "s3:PutObject")
        self.assert_nothing_begun()

    def test_an_address_in_the_source(self):
        """It would be a class the next time."""
        place = os.path.join(self.objects, "bucket", "train")
        shutil.copytree(self.data, place)
        shutil.copytree(self.data, os.path.join(self.objects, "bucket", "masks"))
        field = ("--field", "mask=image:s3://bucket/masks/")
        for target, source, arguments in (
                ("s3://bucket/train/pack", "s3://bucket/train", ()),
                ("s3://bucket/train", "s3://bucket/train/", ()),
                ("S3://bucket/train/cat", "s3://bucket", ()),
                ("s3://bucket/masks/pack", "s3://bucket/train", field),
                ("s3://bucket/masks", "s3://bucket/train", field)):
            with self.subTest(target=target, source=source):
                self.assert_fails("is in 's3://bucket", "which is to be packed: choose an address outside",
                                  target=target, source=source, arguments=arguments)
                self.assertFalse(os.path.exists(self.work))
        self.assertEqual(self.store.written(), [])
        done = self.pack(source="s3://bucket/train", target="s3://bucket/train-pack")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_an_index_that_is_no_packs(self):
        """The sentence has its address, with and without --resume."""
        os.makedirs(self.bucket)
        for size, arguments in ((100, ()), (100, ("--resume",)), (100000, ("--resume",))):
            with self.subTest(size=size, arguments=arguments):
                with open(os.path.join(self.bucket, INDEX), "wb") as file:
                    file.write(b"notes" * (size // 5))
                said = self.assert_fails("'%s/%s' is there and no pack's: choose another" % (ADDRESS, INDEX),
                                         arguments=arguments)
                self.assertNotIn(self.work, said)
                self.assertFalse(os.path.exists(self.work))
        self.assertEqual(self.store.written(), [])

    def test_arguments(self):
        done = harness.run("pack", self.data, ADDRESS, environment=self.store.environment(KEY))
        self.assertEqual(done.returncode, 2)
        self.assertIn("give --work FOLDER", done.stderr)
        done = harness.run("pack", "--work", self.work, self.data, self.scratch + "/x")
        self.assertEqual(done.returncode, 2)
        self.assertIn("leave it out", done.stderr)
        done = harness.run("pack", "--patience", "5", self.data, self.scratch + "/x")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--patience is for object stores and web servers", done.stderr)
        self.assertFalse(os.path.exists(self.scratch + "/x"))
        done = harness.run("pack", "--patience", "5", "--field", "mask=image:s3://no-bucket/x", self.data,
                           self.scratch + "/x", environment=self.store.environment(KEY))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("NoSuchBucket", done.stderr)
        self.assert_fails("is a pack already: choose another folder", work=self.folder,
                          arguments=["--resume"])
        self.assert_fails("holds something that is no pack", work=self.root)
        for size in ("100k", "5G"):
            done = harness.run("pack", "--volume", size, self.data, self.scratch + "/x")
            self.assertEqual(done.returncode, 2)
            self.assertIn("a size from 1M to 4G", done.stderr)
        self.assertIn("s3:PutObject", harness.run("pack", "--help").stdout)

    def test_keys_that_end_on_the_way(self):
        for code, word in (("AccessDenied", "s3:PutObject"), ("ExpiredToken", "renew the keys")):
            with self.subTest(code=code):
                shutil.rmtree(self.bucket, ignore_errors=True)
                self.store.requests.clear()
                self.store.faults[:] = [Fault("status", 403, code, self.volume(2), method="PUT")]
                self.assert_fails("403 " + code, word, "then go on with --resume")
                self.assert_no_pack()
                self.store.faults.clear()
                self.assert_packs("--resume")

    def test_an_outage_beyond_the_patience(self):
        self.store.faults[:] = [Fault("status", 503, name=self.volume(1), method="PUT")]
        self.assert_fails("503 SlowDown", "then go on with --resume", arguments=["--patience", "2"])
        self.assert_no_pack()
        self.store.faults.clear()
        self.assert_packs("--resume")

    def test_a_store_that_keeps_less_than_it_confirms(self):
        """It is seen before the index is sent."""
        self.store.faults[:] = [Fault("lossy", name=self.volume(1), method="PUT")]
        self.assert_fails("does not hold volume-00001.tureen as it was sent")
        self.assert_no_pack()

    def test_another_pack_comes_into_the_same_place(self):
        self.store.faults[:] = [Fault("status", 403, "AccessDenied", self.volume(2), method="PUT")]
        self.assert_fails("403 AccessDenied")
        self.store.faults.clear()
        other = os.path.join(self.scratch, "other")
        done = harness.run("pack", "--quiet", "--seed", "8", self.data, other)
        self.assertEqual(done.returncode, 0, done.stderr)
        shutil.copyfile(os.path.join(other, INDEX), os.path.join(self.bucket, INDEX))
        self.assert_fails("has become another pack meanwhile", arguments=["--resume"])
        os.unlink(os.path.join(self.bucket, INDEX))
        self.assert_packs("--resume")

    def test_other_settings_than_it_was_begun_with(self):
        self.store.faults[:] = [Fault("status", 403, "AccessDenied", self.volume(2), method="PUT")]
        self.assert_fails("403 AccessDenied")
        self.store.faults.clear()
        self.assert_fails("was begun with volumes of 1048576 bytes",
                          arguments=["--resume", "--volume", "2M"])
        self.assert_fails("was begun with seed 7", arguments=["--resume", "--seed", "8"])
        self.assert_packs("--resume")


if __name__ == "__main__":
    unittest.main()

"""Packs in an object store and on a web server, with every fault of a network: each epoch holds each sample
once, with the right pixels, what passes costs nothing but time, and what lasts is told in words."""
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from harness import Server, SystemTest, run, wait_until
from object_store import Fault, ObjectStore
from test_system_packs import take

KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
PLACE = "my packs/train"
ADDRESS = "s3://bucket/" + PLACE


class StoreTest(SystemTest):
    SAMPLES = 300

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.root = tempfile.mkdtemp(prefix="tu-stores-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.pack = os.path.join(cls.root, "bucket", PLACE)
        os.makedirs(os.path.dirname(cls.pack))
        packed = run("pack", "--quiet", "--json", cls.data, cls.pack)
        assert packed.returncode == 0, packed.stderr
        cls.bytes = json.loads(packed.stdout)["bytes"]

    def setUp(self):
        self.store = ObjectStore(self.root, keys={KEY: SECRET})
        self.store.__enter__()
        self.addCleanup(self.store.__exit__)

    def serve(self, datasets=None, arguments=(), raw="192K", environment=None, **options):
        """A fifth of the data fits in memory, so an epoch reads all the time."""
        return Server(datasets or {"train": ADDRESS}, cache="4M", arguments=["--raw", raw, *arguments],
                      environment=environment or self.store.environment(KEY), **options)

    def read(self, server, **options):
        return server.read(**dict({"batch": 16, "epochs": 2}, **options))

    def assert_outlived(self, fault, after=None):
        """The fault begins when batches come; `after` is called to end it."""
        with self.serve() as server:
            reader = self.read(server, epochs=3, rate=1500)
            wait_until("batches", lambda: reader.delivered() > 0)
            self.store.faults.append(fault)
            if after:
                after(server)
            self.assert_epochs(reader.finish(), 3)
            self.assertGreater(fault.met, 0)
            status = server.status()
            self.assertEqual(status["bad_samples"], 0, status["datasets"][0]["bad"])
            self.assertFalse(SECRET in server.log() or SECRET in json.dumps(status))
        self.store.faults.clear()
        return status


class Epochs(StoreTest):
    def test_the_same_samples_as_from_a_folder(self):
        """A seeded job gets the same ids and the same pixels, and everything is asked for once an epoch."""
        job = dict(seed=5, epochs=2)
        with self.serve({"train": self.pack}) as server:
            fields, expected = take(server, "train", **job)
        for name, environment in ((ADDRESS, self.store.environment(KEY)),
                                  (self.store.url + "/bucket/my%20packs/train/", None)):
            with self.subTest(name=name):
                if not environment:
                    self.store.keys = None
                    environment = {"AWS_EC2_METADATA_DISABLED": "true"}
                with self.serve({"train": name}, environment=environment) as server:
                    self.assertEqual(take(server, "train", **job), (fields, expected))
                    device = server.status()["devices"][0]
                    self.assertEqual(device["device"], "s3://bucket" if name == ADDRESS else self.store.url)
                    self.assertIn("libcurl/", device["reading"])

    def test_weak_versions(self):
        """Web servers give them; they are no condition that could be met."""
        self.store.has_weak_versions = True
        with self.serve() as server:
            self.assert_epochs(self.read(server).finish(), 2)
            self.assertEqual(server.status()["bad_samples"], 0)

    def test_each_epoch_reads_the_pack_once(self):
        with self.serve() as server:
            self.assert_epochs(self.read(server, epochs=1).finish(), 1)
            before = self.store.sent("volume")
            self.assert_epochs(self.read(server, epochs=10).finish(), 10)
            pack = server.status()["datasets"][0]["pack"]
        self.assertLess(abs(pack["read_amplification"] - 1), .1)
        self.assertLess((self.store.sent("volume") - before) / self.bytes, 11)

    def test_reads_begin_as_others_come(self):
        """Two reads are allowed.  Of each the last bytes are missing for long: two more begin."""
        def under_way():
            return [request for request in self.store.requests if request.began > began]
        with self.serve(arguments=["--reads", "2"], raw="2M") as server:
            fault = Fault("slow", name="volume", after=-8)
            self.store.faults.append(fault)
            began = time.monotonic()
            reader = self.read(server)
            wait_until("reads", under_way)
            wait_until("two more reads", lambda: len(under_way()) >= 4, 6)      #  before the first ends
            time.sleep(0.5)
            self.assertEqual(len(under_way()), 4)
            self.store.faults.clear()
            self.assert_epochs(reader.finish(), 2)

    def test_the_first_batch_takes_three_round_trips(self):
        """The index, the volumes' first blocks, then pieces at once."""
        with self.serve():
            pass
        names = [request.name.rpartition("/")[2] for request in self.store.requests]
        first_volume = names.index("volume-00000.tureen")
        self.assertEqual(set(names[:first_volume]), {"index.tureen"})
        self.assertEqual(first_volume, 1)


class Passing(StoreTest):
    def test_answers_that_it_is_busy(self):
        self.assert_outlived(Fault("status", 503, "SlowDown", "volume", 15))
        self.assert_outlived(Fault("status", 429, "TooManyRequests", "volume", 6))
        self.assert_outlived(Fault("status", 500, "InternalError", "volume", 6))

    def test_connections_that_break(self):
        self.assert_outlived(Fault("reset", name="volume", times=12, after=100))
        self.assert_outlived(Fault("short", name="volume", times=12, after=100))
        self.assert_outlived(Fault("reset", name="volume", times=12, after=0))

    def test_bytes_that_hardly_come(self):
        status = self.assert_outlived(Fault("slow", name="volume", times=2, after=100))
        pack = status["datasets"][0]["pack"]
        self.assertTrue(0 < pack["slow_gets"] < pack["gets"], pack)

    def test_answers_that_do_not_end(self):
        """What stands before a store may answer so: it is an error as others are."""
        self.assert_outlived(Fault("endless", 502, name="volume", times=2))

    def test_wrong_bytes_once(self):
        self.assert_outlived(Fault("wrong", name="volume", times=8))

    def test_keys_that_are_refused_for_a_while(self):
        self.assert_outlived(Fault("status", 403, "ExpiredToken", "volume", 8))
        self.assert_outlived(Fault("status", 403, "AccessDenied", "volume", 8))

    def test_away_for_seconds(self):
        """The data set stands still and says why; another one goes on."""
        fault = Fault("status", 503, "SlowDown", "volume")

        def end(server):
            trouble = wait_until("it stands still", lambda: server.status()["datasets"][0]["trouble"])
            self.assertIn("the store is busy", trouble["reason"])
            self.assert_epochs(self.read(server, dataset="other").finish(), 2)
            self.store.faults.clear()
        folder = os.path.join(self.root, "other")
        if not os.path.exists(folder):
            shutil.copytree(self.data, folder)
        with self.serve({"train": ADDRESS, "other": folder}) as server:
            reader = self.read(server, rate=1500)
            wait_until("batches", lambda: reader.delivered() > 0)
            self.store.faults.append(fault)
            end(server)
            self.assert_epochs(reader.finish(), 2)
            self.assertEqual(server.status()["bad_samples"], 0)


class Lasting(StoreTest):
    def assert_ends(self, server, reader, words):
        reader.wait()
        output, errors = reader.texts()
        self.assertIn("storage", errors + output)
        trouble = server.log()
        self.assertIn(words, trouble)
        status = server.status()
        self.assertEqual(status["bad_samples"], 0)

    def test_an_outage_beyond_the_patience(self):
        with self.serve(arguments=["--patience", "3"]) as server:
            reader = self.read(server, rate=1500)
            wait_until("batches", lambda: reader.delivered() > 0)
            self.store.faults.append(Fault("status", 503, name="volume"))
            self.assert_ends(server, reader, "the store is busy")
            self.store.faults.clear()
            self.assert_epochs(self.read(server).finish(), 2)

    def test_an_object_that_changes(self):
        """It has another version: nothing of it is used, even if its bytes are right."""
        volume = os.path.join(self.pack, "volume-00000.tureen")
        before = os.stat(volume)
        with self.serve(arguments=["--patience", "2"]) as server:
            reader = self.read(server, rate=1500)
            wait_until("batches", lambda: reader.delivered() > 0)
            os.utime(volume)
            self.assert_ends(server, reader, "the object is not the one that was there before")
        os.utime(volume, ns=(before.st_atime_ns, before.st_mtime_ns))

    def test_an_object_that_changes_in_a_store_that_heeds_no_version(self):
        """What does not know If-Match, or gives versions that are weak, tells it by its answers."""
        for heeds, weak in ((False, False), (True, True)):
            self.store.heeds_versions, self.store.has_weak_versions = heeds, weak
            with self.subTest(heeds=heeds, weak=weak):
                self.test_an_object_that_changes()

    def test_an_object_that_goes(self):
        volume = os.path.join(self.pack, "volume-00000.tureen")
        with self.serve(arguments=["--patience", "2"]) as server:
            reader = self.read(server, rate=1500)
            wait_until("batches", lambda: reader.delivered() > 0)
            os.rename(volume, volume + ".away")
            self.assert_ends(server, reader, "the object is not the one that was there before")
            os.rename(volume + ".away", volume)

    def test_wrong_bytes_always(self):
        """Damage is what it is on a disk: those samples are bad, and no others."""
        def broken(server):
            reader = self.read(server, epochs=1)
            result = reader.finish()
            return result, {entry["id"] for entry in server.status()["datasets"][0]["bad"]}
        volume = os.path.join(self.pack, "volume-00000.tureen")
        first_sample = 4096                     # behind the header; between chunks there is padding
        with open(volume, "r+b") as file:
            file.seek(first_sample)
            kept = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([kept[0] ^ 1]))
        try:
            with self.serve() as server:
                result, bad = broken(server)
                self.assertEqual(len(bad), 1)
                self.assert_epochs(result, 1, [id for id in range(self.SAMPLES) if id not in bad])
        finally:
            with open(volume, "r+b") as file:
                file.seek(first_sample)
                file.write(kept)

    def test_stopped_while_it_waits(self):
        """A store that hangs holds up neither the server's end nor its other work."""
        with self.serve() as server:
            reader = self.read(server, rate=1500)
            wait_until("batches", lambda: reader.delivered() > 0)
            self.store.faults.append(Fault("hang", name="volume"))
            time.sleep(.5)
            server.stop()
            reader.end()


class Refused(StoreTest):
    def assert_refused(self, address, environment, *words):
        done = run("serve", "--dataset", "train=" + address, "--listen",
                   "ipc://%s/socket" % tempfile.mkdtemp(dir=self.root),
                   environment=dict({"AWS_EC2_METADATA_DISABLED": "true"}, **environment))
        self.assertEqual(done.returncode, 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertNotIn(SECRET, done.stderr + done.stdout)

    def test_addresses_keys_and_what_is_there(self):
        good = self.store.environment(KEY)
        without = {name: value for name, value in good.items() if "KEY" not in name}
        self.assert_refused("s3://b/x", good, "a bucket's name has 3 to 63 characters")
        self.assert_refused("https://me:%s@host/x" % SECRET, good, "leave out user and password")
        self.assert_refused("http://host/x?token=" + SECRET, good, "leave out '?'")
        self.assert_refused(ADDRESS, without, "AWS_ACCESS_KEY_ID", "no-such-file", "AWS_NO_SIGN_REQUEST")
        self.assert_refused(ADDRESS, dict(good, AWS_ACCESS_KEY_ID="other"), "403 InvalidAccessKeyId",
                            "s3:GetObject")
        self.assert_refused(ADDRESS, dict(without, AWS_ACCESS_KEY_ID=KEY), "AWS_SECRET_ACCESS_KEY is not")
        self.assert_refused("s3://bucket/my packs/val", good,
                            "there is nothing at 's3://bucket/my packs/val'")
        self.assert_refused(ADDRESS, dict(good, AWS_ENDPOINT_URL_S3="ftp://x"), "https://HOST:PORT")
        self.assert_refused(ADDRESS + ",x", good, "there is nothing")

    def test_a_proxy_that_is_not_there(self):
        """Its variable is named, and not where no_proxy keeps the store out of it."""
        with socket.socket() as taken:          # no one listens
            taken.bind(("127.0.0.1", 0))
            proxy = "http://127.0.0.1:%d" % taken.getsockname()[1]
            good = dict(self.store.environment(KEY), no_proxy="", NO_PROXY="")
            cases = (("http_proxy", "http"), ("https_proxy", "https"), ("HTTPS_PROXY", "https"),
                     ("all_proxy", "http"), ("ALL_PROXY", "https"))
            with ThreadPoolExecutor(len(cases)) as pool:        # each tries again for a while
                refused = [pool.submit(self.assert_refused, ADDRESS, dict(
                    good, AWS_ENDPOINT_URL_S3=scheme + self.store.url[4:], **{name: proxy}),
                    "through the proxy in %s: " % name, "no_proxy", "AWS_ENDPOINT_URL_S3")
                    for name, scheme in cases]
            for (name, _), one in zip(cases, refused):
                with self.subTest(name=name):
                    one.result()
            with self.serve(environment=dict(good, http_proxy=proxy, no_proxy="127.0.0.1")) as server:
                self.assert_epochs(self.read(server, epochs=1).finish(), 1)

    def test_a_proxy_is_named(self):
        """At the start and by `status`, without the password that its variable has."""
        host = self.store.url.partition("://")[2]
        environment = dict(self.store.environment(KEY), no_proxy="", NO_PROXY="",
                           AWS_ENDPOINT_URL_S3="http://store.invalid",
                           http_proxy="http://user:pass%%40word@%s" % host)
        shown = "http://%s (http_proxy)" % host
        with self.serve(environment=environment) as server:
            self.assertIn("'s3://bucket' is read through the proxy %s\n" % shown, server.log())
            device, = server.status()["devices"]
            self.assertEqual(device["proxy"], shown)
            self.assertIn("; through the proxy %s\n" % shown, server.status_text())
            self.assertNotIn("word", server.log() + server.status_text())
        with self.serve() as server:
            self.assertNotIn("proxy", server.log() + server.status_text())
            self.assertIsNone(server.status()["devices"][0]["proxy"])

    def test_a_profile(self):
        """Keys, region and endpoint from the files that AWS's tools have."""
        folder = tempfile.mkdtemp(dir=self.root)
        credentials, config = os.path.join(folder, "credentials"), os.path.join(folder, "config")
        with open(credentials, "w") as file:
            file.write("[default]\naws_access_key_id = wrong\naws_secret_access_key = wrong\n\n[team]\n"
                       "aws_access_key_id=%s\naws_secret_access_key = %s\n" % (KEY, SECRET))
        with open(config, "w") as file:
            file.write("[profile team]\nregion = eu-central-1\nendpoint_url = %s/\n" % self.store.url)
        environment = {"AWS_PROFILE": "team", "AWS_SHARED_CREDENTIALS_FILE": credentials,
                       "AWS_CONFIG_FILE": config, "AWS_EC2_METADATA_DISABLED": "true"}
        with self.serve(environment=environment) as server:
            self.assert_epochs(self.read(server).finish(), 2)

    def test_temporary_keys(self):
        self.store.token = "T" * 1500 + "+/="
        with self.serve(environment=self.store.environment(KEY)) as server:
            self.assert_epochs(self.read(server).finish(), 2)
        self.assert_refused(ADDRESS, dict(self.store.environment(KEY), AWS_SESSION_TOKEN="x"),
                            "403 InvalidToken")


class Commands(StoreTest):
    def command(self, *arguments):
        return run(*arguments, environment=self.store.environment(KEY))

    def test_verify(self):
        self.assertEqual(self.command("verify", ADDRESS).returncode, 0)
        self.store.faults.append(Fault("wrong", name="volume", times=3))
        self.assertEqual(self.command("verify", ADDRESS).returncode, 0)
        self.store.faults[:] = [Fault("wrong", name="volume")]
        self.assertEqual(self.command("verify", ADDRESS).returncode, 1)
        self.store.faults[:] = [Fault("status", 403, "AccessDenied", "volume")]
        done = self.command("verify", ADDRESS)
        self.assertEqual(done.returncode, 2)
        self.assertIn("the store refuses the keys", done.stderr)

    def test_unpack(self):
        target = os.path.join(tempfile.mkdtemp(dir=self.root), "back")
        done = self.command("unpack", ADDRESS, target)
        self.assertEqual(done.returncode, 0, done.stderr)
        same = subprocess.run(["diff", "-r", target, self.data], stdout=subprocess.PIPE)
        self.assertEqual((same.returncode, same.stdout), (0, b""))


if __name__ == "__main__":
    unittest.main()

"""Packs in OpenStack Swift, an object store with S3's protocol that Debian has: others wrote it than the
server and the tests' own store.  Skipped where its packages are missing (scripts/install-packages.sh ci)."""
import datetime
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.parse
import urllib.request

import harness
from harness import Server, SystemTest, run, wait_until
from object_store import sign
from test_system_packs import take

KEY, SECRET, REGION = "test:tester", "testing", "us-east-1"
PLACE = "a pack+more/train"
PARTS = ("account", "container", "object")
COMMANDS = ["swift-ring-builder", "memcached", "swift-proxy-server"]
COMMANDS += ["swift-%s-server" % part for part in PARTS]
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"

STORAGE = """[DEFAULT]
bind_ip = 127.0.0.1
bind_port = %(port)d
user = %(user)s
swift_dir = %(folder)s
devices = %(folder)s/devices
mount_check = false
workers = 0
disable_fallocate = true
[pipeline:main]
pipeline = %(part)s-server
[app:%(part)s-server]
use = egg:swift#%(part)s
"""
PROXY = """[DEFAULT]
bind_ip = 127.0.0.1
bind_port = %(port)d
user = %(user)s
swift_dir = %(folder)s
workers = 0
[pipeline:main]
pipeline = catch_errors cache s3api tempauth proxy-server
[app:proxy-server]
use = egg:swift#proxy
allow_account_management = true
account_autocreate = true
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:%(memcached)d
[filter:s3api]
use = egg:swift#s3api
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
"""


class Swift:
    """Its four servers and memcached, in a folder, on ports of their own."""

    def __init__(self, folder):
        self.folder, self.processes, self.ports = folder, [], []
        self.environment = dict(os.environ, PATH=PATH)
        user = subprocess.run(["id", "-un"], stdout=subprocess.PIPE, check=True).stdout.decode().strip()
        self.options = {"folder": folder, "user": user, "memcached": harness.free_port()}
        os.makedirs(os.path.join(folder, "devices", "one"))
        self._start("memcached", "-u", user, "-l", "127.0.0.1", "-p", str(self.options["memcached"]))
        for part in PARTS:
            port = harness.free_port()
            builder = os.path.join(folder, part + ".builder")
            for arguments in (["create", "1", "1", "1"], ["add", "r1z1-127.0.0.1:%d/one" % port, "1"],
                              ["rebalance"]):
                subprocess.run(["swift-ring-builder", builder] + arguments, env=self.environment,
                               stdout=subprocess.DEVNULL)
            self._serve(part, STORAGE, port)
        self.port = harness.free_port()
        self._serve("proxy", PROXY, self.port)
        #  All of them: where one is missing, the proxy takes it for broken and says 503 for a while.
        wait_until("the store answers", lambda: all(map(self._answers, self.ports)))

    def _start(self, *command):
        log = open(os.path.join(self.folder, "log"), "ab")
        self.processes.append(subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL,
                                               stdout=log, stderr=log, start_new_session=True))
        log.close()

    def _serve(self, part, text, port):
        path = os.path.join(self.folder, part + ".conf")
        self.ports.append(port)
        with open(path, "w") as file:
            file.write(text % dict(self.options, port=port, part=part))
        self._start("swift-%s-server" % part, path)

    @staticmethod
    def _answers(port):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        except OSError:
            return False

    def stop(self):
        for process in self.processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def put(self, path, body=b""):
        """On a loaded machine it answers now and then that it is busy."""
        wait_until("an object is put", lambda: self._ask("PUT", path, body) is not None, step=.3)

    def get(self, path):
        return self._ask("GET", path)

    def _ask(self, method, path, body=None):
        target = urllib.parse.quote(path)
        moment = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        headers = {"Host": "127.0.0.1:%d" % self.port, "x-amz-date": moment,
                   "x-amz-content-sha256": "UNSIGNED-PAYLOAD"}
        signature = sign(method, target, headers, REGION, SECRET, headers["x-amz-content-sha256"], moment)
        headers["Authorization"] = (
            "AWS4-HMAC-SHA256 Credential=%s/%s/%s/s3/aws4_request, SignedHeaders=%s, Signature=%s"
            % (KEY, moment[:8], REGION, ";".join(sorted(map(str.lower, headers))), signature))
        url = "http://127.0.0.1:%d%s" % (self.port, target)
        request = urllib.request.Request(url, body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=harness.PATIENCE) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            assert error.code >= 500, error.read()
            return None

    def keys(self, secret=SECRET):
        return {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:%d" % self.port, "AWS_ACCESS_KEY_ID": KEY,
                "AWS_SECRET_ACCESS_KEY": secret, "AWS_REGION": REGION}


@unittest.skipUnless(all(shutil.which(command, path=PATH) for command in COMMANDS),
                     "OpenStack Swift or memcached is not installed")
class Packs(SystemTest):
    SAMPLES = 200

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.mkdtemp(prefix="tu-swift-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        cls.pack = os.path.join(folder, "pack")
        packed = run("pack", "--quiet", cls.data, cls.pack)
        assert packed.returncode == 0, packed.stderr
        cls.swift = Swift(folder)
        cls.addClassCleanup(cls.swift.stop)
        cls.swift.put("/bucket")
        for name in os.listdir(cls.pack):
            with open(os.path.join(cls.pack, name), "rb") as file:
                cls.swift.put("/bucket/%s/%s" % (PLACE, name), file.read())

    def test_a_seeded_job_gets_what_it_gets_from_the_folder(self):
        with Server({"train": self.pack}, cache="4M") as server:
            expected = take(server, "train", seed=3)
        with Server({"train": "s3://bucket/" + PLACE}, cache="4M", arguments=["--raw", "256K"],
                    environment=self.swift.keys()) as server:
            self.assertEqual(take(server, "train", seed=3), expected)
            self.assertEqual(server.status()["bad_samples"], 0)

    def test_a_bucket_with_an_object_for_each_sample(self):
        """Names that a list and a URL write in another way are among them."""
        folder = os.path.join(os.path.dirname(self.pack), "objects")
        shutil.copytree(self.data, folder)
        self.addCleanup(shutil.rmtree, folder)
        first = sorted(os.listdir(folder))[0]
        os.rename(os.path.join(folder, first), os.path.join(folder, "a+b c%20&<ä>"))
        for name in harness.files_below(folder):
            with open(os.path.join(folder, name), "rb") as file:
                self.swift.put("/bucket/my objects/" + name, file.read())
        with Server({"train": folder}, cache="4M") as server:
            expected = take(server, "train", seed=3)
        with Server({"train": "s3://bucket/my objects"}, cache="4M",
                    environment=self.swift.keys()) as server:
            self.assertEqual(take(server, "train", seed=3), expected)
            self.assertEqual(server.status()["bad_samples"], 0)

    def test_a_pack_that_is_made_there(self):
        """Sent volume by volume, with checksums that the store works out; the same bytes as in a folder."""
        address, work = "s3://bucket/a pack+more/made", os.path.join(self.root, "work")
        settings = ["--quiet", "--seed", "3", "--volume", "1M", "--work", work]
        refused = run("pack", *settings, self.data, "s3://no-bucket/x", environment=self.swift.keys())
        self.assertEqual(refused.returncode, 1)
        self.assertIn("404 NoSuchBucket", refused.stderr)
        wrong = run("pack", *settings, self.data, address, environment=self.swift.keys("wrong"))
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("403 SignatureDoesNotMatch", wrong.stderr)
        packed = run("pack", *settings, self.data, address, environment=self.swift.keys())
        self.assertEqual((packed.returncode, packed.stderr), (0, ""))
        verified = run("verify", address, environment=self.swift.keys())
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
        again = run("pack", *settings, self.data, address, environment=self.swift.keys())
        self.assertIn("is a pack already", again.stderr)
        folder = os.path.join(self.root, "folder")
        made = run("pack", "--quiet", "--seed", "3", "--volume", "1M", self.data, folder)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertGreater(len(os.listdir(folder)), 1)
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "rb") as file:
                self.assertEqual(self.swift.get("/bucket/a pack+more/made/" + name), file.read(), name)

    def test_verify_and_what_is_refused(self):
        address, right, wrong = "s3://bucket/" + PLACE, self.swift.keys(), self.swift.keys("wrong")
        for keys, place, status, words in ((right, address, 0, ""),
                                           (wrong, address, 2, "403 SignatureDoesNotMatch"),
                                           (right, address + "/no", 2, "there is no pack at"),
                                           (right, "s3://no-bucket/x", 2, "there is no pack at")):
            with self.subTest(place=place, status=status):
                done = run("verify", place, environment=keys)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(words, done.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())

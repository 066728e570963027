"""Temporary keys of every kind of role, beside services of the tests' own: a job's epochs stay exact while
its keys end and are renewed, what fails is told in words, and nothing secret is in a log, a `status`, an
address or the memory that a core dump would hold."""
import json
import os
import re
import shutil
import ssl
import subprocess
import tempfile
import threading
import time
import unittest
import unittest.mock

from harness import run, wait_until
from key_services import KeyServices, ROLE
from test_system_stores import ADDRESS, StoreTest

LIFE = 4                                # seconds that keys last


def dumped(pid):
    """The memory of a process that a core dump would hold: what can be read, and is not left out ("dd")."""
    found, bounds = [], None
    with open("/proc/%d/smaps" % pid) as maps, open("/proc/%d/mem" % pid, "rb") as memory:
        for line in maps:
            head = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) .*?(\S*)$", line)
            if head:
                bounds = (int(head[1], 16), int(head[2], 16)) if head[3].startswith("r") and \
                    head[4] not in ("[vvar]", "[vsyscall]", "[vvar_vclock]") else None
            elif line.startswith("VmFlags:") and bounds and "dd" not in line.split():
                try:
                    memory.seek(bounds[0])
                    found.append(memory.read(bounds[1] - bounds[0]))
                except (OSError, OverflowError, ValueError):
                    pass                # gone meanwhile, or a device's
    return found


class RolesTest(StoreTest):
    SAMPLES = 200

    def setUp(self):
        super().setUp()
        self.store.keys = {}
        self.services = KeyServices(self.store, LIFE)
        self.services.__enter__()
        self.addCleanup(self.services.__exit__)
        self.folder = tempfile.mkdtemp(dir=self.root)

    def keys(self, server):
        return server.status()["devices"][0]["keys"]

    def assert_no_secrets(self, server, *texts):
        texts = [server.log(), json.dumps(server.status()), *texts] + [request.name for request in
                                                                       self.store.requests]
        for secret in self.services.secrets():
            for text in texts:
                self.assertNotIn(secret, text)

    def assert_renewed(self, environment, source):
        """Epochs over three renewals at least, each with every sample once.  The store takes keys for longer
        than the server is told, so that it refuses none on a loaded machine: what is renewed is renewed
        because its end is near."""
        self.services.grace = 3600
        with self.serve(environment=environment) as server:
            reader = self.read(server, epochs=8, rate=150)
            self.assert_epochs(reader.finish(), 8)
            self.assertGreater(len(self.store.used), 3)
            status = server.status()
            self.assertEqual(status["bad_samples"], 0)
            keys = status["devices"][0]["keys"]
            self.assertEqual((keys["from"], keys["trouble"]), (source, None))
            self.assertGreaterEqual(keys["renewals"], 3)
            self.assertLessEqual(keys["seconds_left"], LIFE)
            self.assertEqual({request.status for request in self.store.requests}, {206})
            self.assertNotIn("has reads that fail", server.log())
            self.assert_no_secrets(server)


class Renewed(RolesTest):
    def test_a_web_identity(self):
        self.assert_renewed(self.services.web_identity(self.folder), "a web identity")
        self.assertEqual(set(self.services.asked), {"sts"})

    def test_a_container(self):
        self.assert_renewed(self.services.container(), "a container's role")

    def test_a_container_with_a_file(self):
        self.assert_renewed(self.services.container(self.folder), "a container's role")

    def test_an_instance(self):
        self.assert_renewed(self.services.instance(), "an instance's role")
        self.assertEqual(self.services.asked[:6], ["token", "role", "keys"] * 2)

    def test_a_profile_with_a_web_identity(self):
        environment = self.services.web_identity(self.folder)
        config = os.path.join(self.folder, "config")
        with open(config, "w") as file:
            file.write("[profile team]\nrole_arn = %s\nweb_identity_token_file = %s\nrole_session_name = %s\n"
                       % (environment.pop("AWS_ROLE_ARN"), environment.pop("AWS_WEB_IDENTITY_TOKEN_FILE"),
                          environment.pop("AWS_ROLE_SESSION_NAME")))
        environment.update(AWS_CONFIG_FILE=config, AWS_PROFILE="team")
        self.assert_renewed(environment, "a web identity")

    def test_a_profile_with_a_program(self):
        self.assert_renewed(self.services.program(self.folder), "a profile's program")
        self.assertEqual(set(self.services.asked), {"container"})

    def test_a_token_file_that_is_replaced(self):
        """Kubernetes writes the token anew; each renewal reads it."""
        environment = self.services.web_identity(self.folder)
        with self.serve(environment=environment) as server:
            reader = self.read(server, epochs=6, rate=150)
            wait_until("a renewal", lambda: len(self.services.given) > 1)
            self.services.identity = "another.identity"
            self.services.web_identity(self.folder)
            given = len(self.services.given)
            wait_until("another", lambda: len(self.services.given) > given)
            self.assert_epochs(reader.finish(), 6)


class Profiles(RolesTest):
    def write(self, key):
        path = os.path.join(self.folder, "credentials")
        with open(path + ".new", "w") as file:
            file.write("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n"
                       "aws_session_token = %s\n" % (key.name, key.secret, key.token))
        os.replace(path + ".new", path)
        return dict(self.services._base(), AWS_SHARED_CREDENTIALS_FILE=path)

    def test_a_file_that_is_written_again(self):
        """Its keys end, the jobs wait, and go on with the file's new keys: no restart."""
        first = self.store.issue(3600)
        with self.serve(environment=self.write(first)) as server:
            reader = self.read(server, epochs=6, rate=200)
            wait_until("batches", lambda: reader.delivered() > 0)
            first.ends = 0
            wait_until("the store refuses", lambda: server.status()["datasets"][0]["trouble"])
            second = self.store.issue(3600)
            self.write(second)
            self.assert_epochs(reader.finish(), 6)
            self.assertEqual(self.store.used, {first.name, second.name})
            status = server.status()
            self.assertEqual(status["bad_samples"], 0)
            self.assertEqual(status["devices"][0]["keys"]["from"], "a profile")
            for secret in (first.secret, second.secret, second.token):
                self.assertNotIn(secret, server.log() + json.dumps(status))

    def test_wrong_keys_are_told_at_once(self):
        """Of keys that were read just now, no others are waited for."""
        first = self.store.issue(600)
        environment = self.write(first)
        first.secret = "another"
        asked = len(self.store.requests)
        done = run("verify", ADDRESS, environment=environment)
        self.assertIn("SignatureDoesNotMatch", done.stdout + done.stderr)
        self.assertEqual(len(self.store.requests) - asked, 1)

    def test_verify_goes_on(self):
        """A command without a server waits for the file's new keys as well."""
        first = self.store.issue(1)
        environment = self.write(first)
        self.store.latency = .4

        def renew():
            time.sleep(1.5)
            self.write(self.store.issue(600))
        thread = threading.Thread(target=renew)
        thread.start()
        done = run("verify", ADDRESS, environment=environment)
        thread.join()
        self.assertEqual(done.returncode, 0, done.stderr)


class Failing(RolesTest):
    def test_renewal_that_fails_for_a_while(self):
        """The old keys serve as long as they are good; then jobs wait, with the reason, and go on."""
        with self.serve(environment=self.services.container()) as server:
            reader = self.read(server, epochs=6, rate=300)
            wait_until("batches", lambda: reader.delivered() > 0)
            self.services.answer = (503, b"busy")
            trouble = wait_until("trouble", lambda: self.keys(server)["trouble"])
            self.assertIn("AWS_CONTAINER_CREDENTIALS_FULL_URI", trouble)
            self.assertIn("503", trouble)
            trouble = wait_until("the store refuses", lambda: server.status()["datasets"][0]["trouble"])
            self.assertIn("keys have expired", trouble["reason"])
            self.services.answer = None
            self.assert_epochs(reader.finish(), 6)
            wait_until("it is over", lambda: self.keys(server)["trouble"] is None)
            self.assertEqual(server.status()["bad_samples"], 0)
            wait_until("the log says so", lambda: "are renewed again" in server.log())
            self.assertIn("the keys of 's3://bucket' are not renewed: the container's role has no keys",
                          server.log())
            self.assert_no_secrets(server)

    def test_the_service_is_not_asked_too_often(self):
        self.services.life = 2
        with self.serve(environment=self.services.container()):
            self.services.answer = (500, b"")
            time.sleep(1)
            asked = len(self.services.asked)
            time.sleep(8)
            self.assertLess(len(self.services.asked) - asked, 12)

    def test_a_token_file_that_goes(self):
        """Its name need be no text: `status` has all devices, and the reason."""
        folder = os.path.join(self.folder, "caf\udce9")
        os.mkdir(folder)
        environment = self.services.web_identity(folder)
        with self.serve(environment=environment) as server:
            os.unlink(environment["AWS_WEB_IDENTITY_TOKEN_FILE"])
            trouble = wait_until("trouble", lambda: self.keys(server)["trouble"])
            self.assertIn("caf\ufffd/identity': No such file or directory: check the path", trouble)

    def test_stopped_while_it_asks(self):
        with self.serve(environment=self.services.container()) as server:
            self.services.held = threading.Event()
            self.addCleanup(self.services.held.set)
            asked = len(self.services.asked)
            wait_until("a question", lambda: len(self.services.asked) > asked)
            server.stop()               # though no answer comes


class Refused(RolesTest):
    def assert_refused(self, environment, *words, address=ADDRESS, least=0, most=60):
        began = time.monotonic()
        done = run("serve", "--dataset", "train=" + address, "--listen", "ipc://%s/socket" % self.root,
                   environment=environment)
        took = time.monotonic() - began
        self.assertEqual(done.returncode, 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertTrue(least <= took <= most, took)
        for secret in self.services.secrets():
            self.assertNotIn(secret, done.stderr + done.stdout)
        return took

    def test_nowhere(self):
        """Every place is named, and an instance that is not there is not waited for long: a second at most.
        The bounds are beside a run that asks no instance: the program takes long on a loaded machine."""
        places = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "no-such-file", "profile 'default'",
                  "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_NO_SIGN_REQUEST")
        most = 8 + self.assert_refused(dict(self.services._base(), AWS_EC2_METADATA_DISABLED="true"), *places,
                                       "AWS_EC2_METADATA_DISABLED", most=30)
        self.assert_refused(self.services._base(), *places, "http://127.0.0.1:1", most=most)
        #  An address that no host has, and so does not answer.
        self.assert_refused(dict(self.services._base(), AWS_EC2_METADATA_SERVICE_ENDPOINT="http://192.0.2.1"),
                            *places, "http://192.0.2.1", most=most)

    def test_sts(self):
        good = self.services.web_identity(self.folder)
        self.services.identity = "other"
        self.assert_refused(good, "400 InvalidIdentityToken", ROLE, self.services.url, "the token file")
        os.unlink(good["AWS_WEB_IDENTITY_TOKEN_FILE"])
        self.assert_refused(good, good["AWS_WEB_IDENTITY_TOKEN_FILE"], "No such file")
        with open(good["AWS_WEB_IDENTITY_TOKEN_FILE"], "w"):
            pass
        self.assert_refused(good, "holds no token")
        good = self.services.web_identity(self.folder)
        self.services.answer = (200, b"<html>hello</html>")
        self.assert_refused(good, "no keys in the answer")
        self.services.answer = (302, b"")
        self.assert_refused(good, "302")
        asked = len(self.services.asked)
        self.services.answer = (503, b"")
        self.assert_refused(good, "503", least=.8)
        self.assertEqual(len(self.services.asked) - asked, 3)       # it was tried again
        self.assert_refused(dict(good, AWS_ENDPOINT_URL_STS="http://127.0.0.1:1"), "http://127.0.0.1:1",
                            "AWS_ENDPOINT_URL_STS")

    def test_containers(self):
        good = self.services.container()
        self.services.authorization = "other"
        self.assert_refused(good, "403", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "authorization token")
        self.services.answer = (200, b"{\"AccessKeyId\": \"x\"}")
        self.assert_refused(good, "no keys in the answer")
        self.assert_refused(dict(good, AWS_CONTAINER_CREDENTIALS_FULL_URI="http://keys.example/secret"),
                            "AWS_CONTAINER_CREDENTIALS_FULL_URI", "https://")

    def test_programs(self):
        for command, words in (("echo 'log in first' >&2; exit 255", ["status 255: log in first"]),
                               ("/nowhere/keys", ["status 127", "/nowhere/keys"]),
                               ("echo '{\"Version\": 1}'", ["no keys in what it printed"])):
            self.assert_refused(self.services.program(self.folder, command), "profile 'team'",
                                "credential_process", *words)

    def test_instances(self):
        self.services.answer = (200, b"{\"Code\": \"AssumeRoleUnauthorizedAccess\"}")
        self.assert_refused(self.services.instance(), "its token")
        self.services.answer = (404, b"")
        self.assert_refused(self.services.instance(), "its token (404)", "AWS_ACCESS_KEY_ID")

    def test_an_error_in_the_instances_keys(self):
        give = self.services.give
        self.services.give = lambda: setattr(self.services, "answer", None) or give()
        environment = self.services.instance()
        with unittest.mock.patch("key_services.moment", lambda seconds: "soon"):
            self.assert_refused(environment, "the keys of its role", "no keys in the answer")
        self.assertEqual(self.services.asked, ["token", "role", "keys"])

    def test_ways_that_are_not_gone(self):
        config = os.path.join(self.folder, "config")
        for setting, word in (("role_arn = a\nsource_profile = default", "source_profile"),
                              ("sso_session = team", "sso_session")):
            with open(config, "w") as file:
                file.write("[profile team]\n%s\n" % setting)
            self.assert_refused(dict(self.services._base(), AWS_CONFIG_FILE=config, AWS_PROFILE="team"), word,
                                "aws configure export-credentials --profile team")


class DumpTest(RolesTest):
    def wait_for_lasting(self, server):
        """Until it has keys that are not renewed meanwhile."""
        wait_until("it has the last ones", lambda: (self.keys(server)["seconds_left"] or 0) > LIFE)

    def assert_not_dumped(self, server, services):
        try:
            memory = dumped(server.pid)
        except PermissionError:
            self.skipTest("the kernel lets this process not read the server's memory")
        self.assertGreater(sum(map(len, memory)), 1 << 20)
        #  What is no secret is found there: the name of the keys of now.
        self.assertTrue(any(services.given[-1].name.encode() in part for part in memory))
        for secret in [key.secret for key in services.given] + [services.identity, services.authorization]:
            #  The memory itself is no part of the message.
            self.assertFalse(any(secret.encode() in part for part in memory), secret)


class Secret(DumpTest):
    def assert_kept(self, environment):
        with self.serve(environment=environment) as server:
            self.assert_epochs(self.read(server, epochs=2).finish(), 2)
            wait_until("renewals", lambda: len(self.services.given) > 2)
            self.services.life = 3600
            given = len(self.services.given)
            wait_until("the last one", lambda: len(self.services.given) > given)
            self.wait_for_lasting(server)
            self.assert_not_dumped(server, self.services)

    def test_not_in_a_core_dump(self):
        for environment in (self.services.web_identity(self.folder), self.services.container(),
                            self.services.instance(), self.services.program(self.folder)):
            self.services.life = LIFE
            self.services.given.clear()
            with self.subTest(environment=sorted(environment)):
                self.assert_kept(environment)


class Encrypted(DumpTest):
    def test_https(self):
        """STS over TLS with a certificate of one's own: it counts if AWS_CA_BUNDLE names it."""
        certificate, key = os.path.join(self.folder, "certificate"), os.path.join(self.folder, "key")
        if not shutil.which("openssl"):
            self.skipTest("no openssl")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                        "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out",
                        certificate], check=True, stderr=subprocess.DEVNULL)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        with KeyServices(self.store, LIFE) as services:
            server = services._server
            server.socket = context.wrap_socket(server.socket, server_side=True)
            services.url = "https://localhost:%d" % server.server_address[1]
            environment = services.web_identity(self.folder)
            done = run("verify", ADDRESS, environment=environment)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("certificate", done.stdout + done.stderr)
            self.assertEqual(services.asked, [])
            with self.serve(environment=dict(environment, AWS_CA_BUNDLE=certificate)) as server:
                wait_until("a renewal", lambda: len(services.given) > 1)
                services.life = 3600
                self.wait_for_lasting(server)
                self.assert_epochs(self.read(server, epochs=2).finish(), 2)
                self.assertEqual(set(services.asked), {"sts"})
                self.assert_not_dumped(server, services)


if __name__ == "__main__":
    unittest.main()

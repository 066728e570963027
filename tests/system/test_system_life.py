"""A server's life: how it starts or refuses to, which clients it tells when it ends, and that it leaves
nothing."""
import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import zmq

import harness
import plain_client
from harness import Server, SystemTest, wait_until
from plain_client import Ended, Job


class Ends(SystemTest):
    def test_progress_that_crosses_the_end(self):
        """A client that reports just when the server ends hears of the end, and of no error."""
        with self.serve() as server:
            job = Job(server.endpoint)
            self.addCleanup(job.close)
            job.join(dataset="train", batch_size=8)
            job.start()
            self.assertEqual(job.event().sequence, 0)
            ended = threading.Event()
            #  Questions that take longer to answer than to ask: there is always something that the server has
            #  not looked at yet.
            asking = plain_client.Connection(server.endpoint)
            self.addCleanup(asking.close)

            def report():
                while not ended.is_set():
                    if job.socket.poll(10, zmq.POLLOUT) and asking.socket.poll(10, zmq.POLLOUT):
                        job.progress(1, 1)
                        asking.send(plain_client.STATUS, 0, 0, b"{}")
            reporter = threading.Thread(target=report)
            reporter.start()
            time.sleep(0.1)
            server.stop()
            ended.set()
            reporter.join()
            while not isinstance(event := job.event(), Ended):
                self.assertIsNotNone(event)
            self.assertEqual(event.reason, "stopping")

    def test_the_time_in_which_the_server_stands_still_is_no_clients(self):
        """A client has ten seconds for its ring; a server that stood still for longer could not hear it."""
        with self.serve() as server:
            job = Job(server.endpoint)
            self.addCleanup(job.close)
            job.join(dataset="train", batch_size=64, epochs=1)
            os.kill(server.pid, signal.SIGSTOP)
            time.sleep(10.5)                    # its time is what is tested
            os.kill(server.pid, signal.SIGCONT)
            server.status()                     # it has looked at all deadlines
            job.start()
            job.run(self.labels)

    def run_until(self, number, tcp):
        with self.serve(tcp=tcp) as server:
            readers = [server.read(batch=64, epochs=50, rate=500, rejoin=0),
                       server.read("--inline", batch=64, epochs=50, rate=500, rejoin=0),
                       server.loader(dataset="train", batch_size=64, epochs=50, pause=0.05, rejoin=0),
                       server.loader(dataset="train", batch_size=64, epochs=50, pause=0.05,
                                     transport="inline", rejoin=0)]
            held, waiting, finished = (Job(server.endpoint) for _ in range(3))
            for job in (held, waiting, finished):
                self.addCleanup(job.close)
            held.join(dataset="train", batch_size=16, name="holds all its slots")
            held.start()
            batches = [held.event() for _ in range(3)]
            finished.join(dataset="train", batch_size=64, epochs=1)
            finished.start()
            finished.run(self.labels)
            wait_until("all run", lambda: readers[0].delivered() > 64 and readers[1].delivered() > 64 and len(
                [job for job in server.status()["jobs"] if job["consumed_samples"] > 0]) >= 5)
            pixels = bytes(batches[0].fields["image"])
            #  Last: the server gives it ten seconds, which a slow machine may need for the others.
            waiting.join(dataset="train", batch_size=16, name="never took its ring")
            begin = time.monotonic()
            server.stop(number)
            print("ended after %.2f s" % (time.monotonic() - begin), flush=True)
            for job in (held, waiting, finished):
                event = job.event(10)
                while event is not None and not isinstance(event, Ended):
                    event = job.event(10)
                self.assertIsNotNone(event, "no ENDED came")
                self.assertEqual(event.reason, "stopping")
            #  What was delivered stays readable, and the ring's socket says that the server is gone.
            self.assertEqual(bytes(batches[0].fields["image"]), pixels)
            self.assertTrue(any(pixels))
            held.ring_socket.settimeout(harness.PATIENCE)
            self.assertEqual(held.ring_socket.recv(1), b"")
            del batches
            for reader in readers:
                self.assertEqual(reader.wait(), 1)
                self.assertRegex(reader.texts()[1], "end(ed|ing)|stopp")
            for reader in readers[:2]:
                for ids in harness.parse_ids(reader.ids)[0].values():
                    self.assertEqual(sorted(ids), list(range(self.SAMPLES)))

    def test_sigterm_with_jobs_of_all_kinds(self):
        self.run_until(signal.SIGTERM, False)

    def test_sigint_with_jobs_of_all_kinds_over_tcp(self):
        self.run_until(signal.SIGINT, True)

    def test_ends_though_a_client_is_stopped(self):
        with self.serve() as server:
            jobs = [server.read(batch=64, epochs=9, rate=300, rejoin=0),
                    server.read("--inline", batch=64, epochs=9, rate=300, rejoin=0)]
            wait_until("they run", lambda: all(job.delivered() > 64 for job in jobs))
            for job in jobs:
                job.signal(signal.SIGSTOP)
            server.stop()
            for job in jobs:
                job.signal(signal.SIGCONT)
                self.assertEqual(job.wait(), 1)

    def test_ends_in_the_middle_of_a_flood(self):
        with self.serve() as server:
            jobs = [server.read(batch=1, epochs=1000, slots=64) for _ in range(4)]
            flood = subprocess.Popen(["/usr/bin/python3", "-B", "-c", FLOOD, harness.HERE, server.endpoint])
            try:
                wait_until("they run", lambda: all(job.delivered() > 64 for job in jobs))
                server.stop()
            finally:
                flood.kill()
                flood.wait()

    def test_a_log_that_is_not_read(self):
        #  Started with a pipe for its log that its parent forgets: clients are served all the same, and it
        #  ends.
        folder = tempfile.mkdtemp(prefix="tu-", dir="/tmp")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        endpoint = "ipc://%s/s.sock" % folder
        process = subprocess.Popen([harness.TUREEN, "serve", "--dataset", "train=" + self.data, "--listen",
                                    endpoint, "--cache", "8M", "--workers", "1"], stdout=subprocess.PIPE,
                                        pipesize=4096)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        job = Job(endpoint, timeout=harness.PATIENCE)
        self.addCleanup(job.close)
        try:
            for _ in range(200):
                job.join(dataset="train", batch_size=4, name="a name of some length, to fill the log")
                job.leave()
        except plain_client.NoAnswer:
            self.fail("the server stands still while its log is not read")
        process.terminate()
        self.assertEqual(process.wait(harness.PATIENCE), 0)

    def test_clients_see_that_a_server_was_killed(self):
        with self.serve(expect_clean=False) as server:
            jobs = [server.read(batch=64, epochs=9, rate=300, rejoin=0),
                    server.read("--inline", batch=64, epochs=9, rate=300, rejoin=0),
                    server.loader(dataset="train", batch_size=64, epochs=9, pause=0.05, rejoin=0)]
            wait_until("they run", lambda: all(job.delivered() > 64 for job in jobs[:2])
                       and len(server.status()["jobs"]) == 3)
            server.kill()
            for job in jobs:
                self.assertEqual(job.wait(), 1)
                self.assertTrue(job.texts()[1].strip())


FLOOD = """
import sys
sys.path.insert(0, sys.argv[1])
import plain_client
connection = plain_client.Connection(sys.argv[2])
while True:
    connection.send(plain_client.HEARTBEAT, 12345)
"""


class Starts(SystemTest):
    SAMPLES = 60

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tu-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.endpoint = "ipc://%s/s.sock" % self.folder

    def refused(self, *arguments, status=1, contains=()):
        """Runs `tureen serve ...`, which must refuse; returns what it said."""
        result = harness.run("serve", *arguments, environment=dict(os.environ, XDG_RUNTIME_DIR=self.folder))
        self.assertEqual(result.returncode, status, result)
        self.assertNotIn("listening", result.stdout)
        lines = result.stderr.splitlines()
        self.assertTrue(lines and lines[0].startswith("tureen serve: "), result)
        for word in contains:
            self.assertIn(word, result.stderr)
        self.assertEqual([name for name in os.listdir(self.folder) if "sock" in name or name == "tureen"], [])
        return result.stderr

    def serve_arguments(self, path, *more):
        return ["--dataset", "train=%s" % path, "--listen", self.endpoint, *more]

    def test_too_little_address_space_is_named(self):
        """Whatever is short of it first, threads or memory: the limit is the cause that is told, and nothing
        aborts."""
        def start(megabytes, workers):
            limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
            process = subprocess.Popen([harness.TUREEN, "serve",
                                        *self.serve_arguments(self.data, "--workers", str(workers))],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       preexec_fn=limit, env=dict(os.environ, XDG_RUNTIME_DIR=self.folder))
            wait_until("it serves or has ended", lambda: process.poll() is not None
                       or os.path.exists(self.endpoint[len("ipc://"):]))
            process.terminate()
            texts = process.communicate(timeout=harness.PATIENCE)
            if "Sanitizer" in texts[1]:
                self.skipTest("a sanitizer takes all addresses")
            return process.returncode, texts[1]

        refusals = 0
        for megabytes in range(100, 400, 6):
            status, text = start(megabytes, 2)
            if status == 0:
                break
            if status == 127:           # the loader's, for the libraries
                continue
            self.assertEqual(status, 1, text)
            self.assertIn("the limit of address space (ulimit -v), %d MiB, is too low: raise it" % megabytes,
                          text)
            self.assertNotIn("--workers", text)
            refusals += 1
        self.assertEqual(status, 0)
        self.assertGreater(refusals, 1)
        status, text = start(600, 200)
        self.assertEqual(status, 1)
        self.assertIn("cannot start the threads that read and prepare: the limit of address space (ulimit "
                      "-v), 600 MiB", text)

    def test_refuses_data_that_is_none(self):
        missing, empty, hollow = (os.path.join(self.folder, name) for name in ("missing", "empty", "hollow"))
        os.makedirs(empty)
        shutil.copytree(self.data, hollow)
        os.makedirs(os.path.join(hollow, "class_9"))
        self.refused(*self.serve_arguments(missing), contains=["'train'", "no folder", missing])
        self.refused(*self.serve_arguments(empty), contains=["'train'", "no class folders", empty])
        self.refused(*self.serve_arguments(hollow), contains=["'class_9'", "no image", "remove the folder"])
        self.refused(*self.serve_arguments(os.path.join(self.data, "class_0", "00000.jpg")),
                     contains=["'train'"])

    def test_refuses_a_cache_too_small_with_the_figure(self):
        least = 3 * harness.VERSION_BYTES
        self.refused(*self.serve_arguments(self.data, "--cache", least - 1, "--workers", 2),
                     contains=["--cache %d" % least])
        with self.serve(cache=least) as server:     # the figure that was named works
            self.assert_epochs(server.read(batch=16, epochs=2).finish(), 2)
            self.assertLessEqual(server.status()["cache_bytes"], least)

    def test_refuses_endpoints_that_cannot_be(self):
        data = ["--dataset", "train=%s" % self.data]
        for endpoint, words in (("ipc:///tmp/" + "x" * 110, ["bytes", "102", "shorter"]),
                                ("ipc://%s/none/s.sock" % self.folder, ["no folder"]),
                                ("ipc://s.sock", ["absolute"]),
                                ("udp://127.0.0.1:5", ["ipc://", "tcp://"]),
                                ("tcp://127.0.0.1", ["HOST:PORT"]),
                                ("tcp://127.0.0.1:0", ["port"]), ("tcp://127.0.0.1:70000", ["port"])):
            with self.subTest(endpoint):
                self.refused(*data, "--listen", endpoint, contains=words)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.refused(*data, "--listen", "tcp://127.0.0.1:%d" % taken.getsockname()[1], "--open",
                         contains=["cannot listen"])

    def test_refuses_to_listen_where_it_could_not_guard(self):
        data = ["--dataset", "train=%s" % self.data]
        keys = os.path.join(self.folder, "keys")
        for arguments, words in ((["--listen", "tcp://127.0.0.1:5555"], ["--keys", "--open"]),
                                 (["--listen", "tcp://0.0.0.0:5555"], ["--keys"]),
                                 (["--listen", "tcp://0.0.0.0:5555", "--open"], ["--keys", "127.0.0.1"]),
                                 (["--listen", self.endpoint, "--keys", keys], ["tcp", "--keys"]),
                                 (["--listen", self.endpoint, "--tenant", "a=65534"], ["--group"]),
                                 (["--listen", "tcp://127.0.0.1:5555", "--keys", keys, "--tenant", "a=65534"],
                                  ["the user of a client", "NAME=-"])):
            with self.subTest(arguments):
                self.refused(*data, *arguments, contains=words)
                self.assertFalse(os.path.exists(keys))

    def test_a_port_that_is_taken_is_told_before_data_are_opened(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            address = "tcp://127.0.0.1:%d" % other.getsockname()[1]
            none = "train=%s/none" % self.folder
            contains = ["cannot listen on %s: Address already in use; choose another --listen" % address]
            self.refused("--dataset", none, "--listen", address, "--open", contains=contains)
            self.refused("--dataset", none, "--listen", self.endpoint + "," + address, "--keys",
                         self.folder + "/keys", status=3, contains=contains)

    def test_too_few_descriptors(self):
        """However few: it serves, or says what it lacks; ZeroMQ, which would abort, is not asked."""
        outcomes = set()
        for most in range(8, 72, 4):
            server = Server({"train": self.data}, wrapper=["prlimit", "--nofile=%d:%d" % (most, most)],
                            expect_clean=False, folder=self.folder)
            with self.subTest(descriptors=most):
                try:
                    with server:
                        server.stop()
                    outcomes.add("serves")
                except AssertionError as failure:
                    self.assertEqual(server.process.returncode, 1, failure)
                    self.assertRegex(str(failure), "tureen serve: .*(Too many open files|LimitNOFILE)")
                    self.assertNotIn("src/", str(failure))
                    outcomes.add("says why")
                self.assertEqual(server.left_behind(), [])
        self.assertEqual(outcomes, {"serves", "says why"})

    def test_unknown_options_are_status_2(self):
        data = ["--dataset", "train=%s" % self.data]
        for arguments, words in ((["--cach", "3M"], ["--cach", "--cache"]),
                                 (["--colour"], ["--colour", "--help"]),
                                 (["extra"], ["extra"]), (["--workers", "0"], ["workers", "1 to 1024"]),
                                 (["--workers", "many"], ["workers"]), (["--cache", "lots"], ["cache"]),
                                 (["--policy", "best"], ["policy", "dsa"]),
                                 (["--dataset", "train"], ["NAME=PATH"]),
                                 (["--dataset", "train=%s" % self.data], ["train", "two"]),
                                 (["--config", self.folder + "/none"], ["none"])):
            with self.subTest(arguments):
                self.refused(*data, *arguments, status=2, contains=words)
        self.refused(status=2, contains=["no data set"])

    def test_second_server_is_refused_and_the_first_unharmed(self):
        for tcp in (False, True):
            with self.subTest(tcp=tcp), self.serve(tcp=tcp) as server:
                reader = server.read(batch=8, epochs=20, rate=300)
                wait_until("it reads", lambda: reader.delivered() > 0)
                result = harness.run("serve", "--dataset", "other=%s" % self.data, "--listen",
                                     server.endpoint,
                                     *["--open"] * tcp, environment=server.environment)
                self.assertEqual(result.returncode, 3)
                self.assertRegex(result.stderr, r"live server.*\b%d\b" % server.pid)
                self.assertEqual(server.status()["datasets"][0]["name"], "train")
                self.assert_epochs(reader.finish(), 20)
                self.assert_epochs(server.read(batch=8, epochs=1).finish(), 1)

    def test_stale_files_of_a_killed_server_are_taken_over(self):
        for tcp in (False, True):
            with self.subTest(tcp=tcp):
                endpoint = "tcp://127.0.0.1:%d" % harness.free_port() if tcp else None
                first = Server({"train": self.data}, folder=self.folder, listen=endpoint)
                first.start()
                first.kill()
                self.assertTrue(first.left_behind(), "a killed server leaves its socket")
                with Server({"train": self.data}, folder=self.folder, listen=first.endpoint) as second:
                    self.assert_epochs(second.read(batch=8, epochs=2).finish(), 2)
                #  Leaving it has asserted that nothing is left of either.

    def test_two_servers_share_the_runtime_folder(self):
        #  The server that ends last removes it, whichever made it.
        first, second = (Server({"train": self.data}, folder=self.folder, tcp=True) for _ in range(2))
        first.start()
        try:
            second.start()
            first.process.send_signal(signal.SIGTERM)
            self.assertEqual(first.process.wait(harness.PATIENCE), 0)
            second.stop()
        finally:
            for server in (first, second):
                if server.process and server.process.poll() is None:
                    server.kill()

    def test_what_is_no_socket_is_not_removed(self):
        for name in ("s.sock", "s.sock.ring"):
            path = os.path.join(self.folder, name)
            with open(path, "w") as file:
                file.write("mine")
            result = harness.run("serve", *self.serve_arguments(self.data))
            self.assertEqual(result.returncode, 1)
            self.assertIn(path, result.stderr)
            with open(path) as file:
                self.assertEqual(file.read(), "mine")
            self.assertEqual(os.listdir(self.folder), [name])
            os.remove(path)

    def test_config_file(self):
        path = os.path.join(self.folder, "server.zpl")
        with open(path, "w") as file:
            file.write("#   a comment\ncache = 3M\nworkers = 1\nlisten = %s\npolicy = dsa\ndataset\n    "
                       "train = %s\n    val = \"%s\"\n" % (self.endpoint, self.data, self.data))
        server = Server({}, listen="", cache=None, workers=None, arguments=["--config", path],
                        folder=self.folder)
        server.endpoint = ""
        with server:
            server.endpoint = self.endpoint
            status = server.status()
            self.assertEqual([dataset["name"] for dataset in status["datasets"]], ["train", "val"])
            self.assertEqual(status["cache_bytes_max"], 3 << 20)
            self.assert_epochs(server.read(batch=8, epochs=1, dataset="val").finish(), 1)
        with Server({}, listen="", cache="4M", workers=None, arguments=["--config", path],
                    folder=self.folder) as server:
            server.endpoint = self.endpoint
            self.assertEqual(server.status()["cache_bytes_max"], 4 << 20)      # the command line wins
        with open(path, "a") as file:
            file.write("colour = red\n")
        result = harness.run("serve", "--config", path)
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, r"server.zpl:9: .*colour")

    def test_default_endpoint_in_the_runtime_folder(self):
        with self.serve(listen="") as server:
            self.assertIn("listening on ipc://%s/tureen/server.sock" % server.runtime, server.log())
            for arguments in (["status", "--json"], ["read", "--dataset", "train", "--batch", "8"]):
                result = harness.run(*arguments, environment=server.environment)
                self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(os.stat(os.path.join(server.runtime, "tureen")).st_mode & 0o777, 0o700)

    def test_default_endpoint_without_a_runtime_folder(self):
        fallback = "/tmp/tureen-%d" % os.geteuid()
        try:
            os.rmdir(fallback)
        except FileNotFoundError:
            pass
        except OSError:
            self.skipTest("%s is in use" % fallback)
        with self.serve(listen="", environment={"XDG_RUNTIME_DIR": None}) as server:
            self.assertIn("listening on ipc://%s/server.sock" % fallback, server.log())
            self.assertEqual(os.stat(fallback).st_mode & 0o777, 0o700)
            result = harness.run("status", "--json", environment=server.environment)
            self.assertEqual(result.returncode, 0, result.stderr)
        os.rmdir(fallback)              # it stays for clients that wait, and is empty

    def test_sockets_are_the_users_alone(self):
        with self.serve() as server:
            for name in ("s.sock", "s.sock.ring", "s.sock.lock"):
                self.assertEqual(os.stat(os.path.join(server.folder, name)).st_mode & 0o077, 0, name)

    def test_says_what_it_found(self):
        with self.serve() as server:
            self.assertRegex(server.log(), r"data set 'train': 60 samples in 5 classes, [0-9.]+ KiB, in "
                             + self.data)
            status = server.status()
            self.assertEqual(status["datasets"][0]["samples"], 60)
            self.assertEqual(status["datasets"][0]["classes"], 5)
            self.assertEqual(status["datasets"][0]["path"], self.data)
            size = sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(self.data)
                       for name in names)
            self.assertEqual(status["datasets"][0]["bytes"], size)
            self.assertIn("data set train", server.status_text())

    def test_warns_of_settings_that_do_nothing_and_of_too_much_memory(self):
        with self.serve() as server:
            self.assertNotIn("warning", server.log())
        kept = tempfile.mkdtemp(dir=self.folder)
        with self.serve(cache="999T", arguments=[
                "--raw", "4M", "--jpeg-rows", "0", "--jpeg-rows-dir", kept, "--operation-memory", "1G",
                "--disk", kept + "=1G"]) as server:
            log = server.log()
            self.assertRegex(log, r"warning: the cache may take 999\.0 TiB, and this process may use \S+ "
                             r".iB of memory")
            self.assertIn("is not kept in " + kept, log)
            for name in ("raw", "operation-memory", "jpeg-rows-dir"):
                self.assertIn("warning: --%s does nothing" % name, log)

    def test_clients_without_a_server_say_so(self):
        for command in (["status", "--connect", self.endpoint],
                        ["read", "--connect", self.endpoint, "--dataset", "train", "--timeout", "2"]):
            result = harness.run(*command)
            self.assertEqual(result.returncode, 1)
            self.assertIn(self.endpoint, result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)

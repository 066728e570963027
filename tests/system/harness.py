"""What all system tests stand on: a folder of JPEGs, the real server, jobs in processes of their own.

A Server runs the executable in a private folder with a private endpoint.  Leaving it asserts that the server
ended with status 0, that no sanitizer complained, and that nothing is left: socket, lock,
folder, shared memory, process.  When a test fails, the server's log is printed.
"""
import atexit
import functools
import hashlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.environ.get("TUREEN_SOURCE") or os.path.dirname(os.path.dirname(HERE))
TUREEN = os.path.join(os.environ.get("TUREEN_BIN", os.path.join(SOURCE, "build", "release", "bin")), "tureen")
#  The same server, but for its cache's disk, which is never late (patient_disk.c).
PATIENT = os.path.join(os.path.dirname(TUREEN), "patient", "tureen")
SORT_PACK = os.path.join(os.path.dirname(TUREEN), "sort_pack")
SKIP = 77
VERSION_BYTES = 224 * 224 * 3           # a prepared sample of the standard recipes
#  With anything that must happen at all.  A loaded machine, or a build with sanitizers, may let a process
#  wait for a minute; nothing asserts speed tighter.
PATIENCE = float(os.environ.get("TUREEN_TEST_PATIENCE", "240"))
SEED = int(os.environ.get("TEST_SEED", "20240601"))

try:
    import numpy as np
    from PIL import Image
except ImportError as missing:
    print("=" * 78 + "\nSKIPPED, nothing was tested: %s (apt install python3-pil python3-numpy)\n" % missing
          + "=" * 78, flush=True)
    sys.exit(SKIP)


#   ---- data

def make_image(generator, width, height):
    """A few waves and some noise: compresses like a photograph, and no two are alike."""
    y, x = np.mgrid[0:height, 0:width]
    planes = []
    for _ in range(3):
        a, b, c = generator.uniform(0.02, 0.3, 3)
        planes.append(127 + 80 * np.sin(a * x + c * 20) * np.cos(b * y)
                      + generator.normal(0, 6, (height, width)))
    return Image.fromarray(np.clip(np.stack(planes, 2), 0, 255).astype(np.uint8), "RGB")


@functools.lru_cache(None)
def _folder_made(samples, classes, seed, sizes):
    """The folder that make_folder copies, and the label of each id."""
    parent = tempfile.mkdtemp(prefix="tu-made-", dir="/tmp")
    atexit.register(shutil.rmtree, parent, ignore_errors=True)
    root = os.path.join(parent, "made")
    os.mkdir(root)
    generator = np.random.default_rng(seed)
    labels = sorted(index % classes for index in range(samples))
    #  Every picture is one of a few dozen with another size: drawing them is what takes time.
    base = [make_image(generator, sizes[0][1], sizes[1][1]) for _ in range(min(samples, 40))]
    for index, label in enumerate(labels):
        folder = os.path.join(root, "class_%d" % label)
        os.makedirs(folder, exist_ok=True)
        width, height = int(generator.integers(*sizes[0])), int(generator.integers(*sizes[1]))
        base[index % len(base)].crop((0, 0, width, height)).save(
            os.path.join(folder, "%05d.jpg" % index), quality=int(generator.integers(70, 95)),
            subsampling=int(generator.integers(0, 3)))
    return root, labels


def make_folder(root, samples, classes=5, seed=7, sizes=((64, 120), (64, 90))):
    """An ImageFolder of small JPEGs; the same for the same arguments.  Returns the label of each id."""
    made, labels = _folder_made(samples, classes, seed, sizes)
    #  Compressing them takes most of a short test's time, copying them little.
    shutil.copytree(made, root, dirs_exist_ok=True, copy_function=shutil.copyfile)
    return list(labels)


#   ---- small things

_given_ports = set()


def free_port():
    """None twice, and none that the system gives by itself (/proc/sys/net/ipv4/ip_local_port_range): another
    test's connection could have it before anything listens there."""
    draw = random.SystemRandom()
    while True:
        port = draw.randrange(10000, 32768)
        if port in _given_ports:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:                     # in use
                continue
        _given_ports.add(port)
        return port


def wait_until(what, question, seconds=PATIENCE, step=0.02, seen=str):
    """Asks until the answer is true, and returns it; what, and what seen () gives: for the failure.  step:
    seconds until it asks again, a tenth more each time, up to five times as much: a question is often a
    process of its own."""
    deadline, longest = time.monotonic() + seconds, 5 * step
    while True:
        answer = question()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError("not within %.1f seconds: %s\n%s" % (seconds, what, seen()))
        time.sleep(step)
        step = min(1.1 * step, longest)


def parse_ids(path):
    """The file of `tureen read --ids`: finished epochs by number, and the unfinished one (or None)."""
    finished, open_ids = {}, None
    with open(path) as file:
        for line in file:
            number, colon, ids = line.partition(":")
            if not colon:           # looked at in the middle of a write
                continue
            words = ids.split()
            if words and words[-1] == "...":
                open_ids = [int(word) for word in words[:-1]]
            elif line.endswith("\n"):
                finished[int(number)] = [int(word) for word in words]
            else:
                open_ids = [int(word) for word in words]
    return finished, open_ids


def contents(folder):
    """Digest of each file of a folder: what a finished pack is made of."""
    result = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            result[name] = hashlib.sha256(file.read()).hexdigest()
    return result


def files_below(root):
    """Path below root: bytes."""
    found = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, root)] = file.read()
    return found


def shared_memory():
    """Names of shared memory that are Tureen's by their name. A folder there belongs to another program."""
    return {entry.name for entry in os.scandir("/dev/shm") if "tureen" in entry.name and not entry.is_dir()}


def memfd_bytes(pid):
    """Memory behind the memfds that a process has open, each counted once."""
    found = {}
    for entry in os.listdir("/proc/%d/fd" % pid):
        path = "/proc/%d/fd/%s" % (pid, entry)
        try:
            if os.readlink(path).startswith("/memfd:tureen"):
                status = os.stat(path)
                found[status.st_ino] = status.st_blocks * 512
        except FileNotFoundError:
            pass
    return sum(found.values())


def process_number(pid, key):
    """A number from /proc/PID/status, such as VmRSS (kB)."""
    with open("/proc/%d/status" % pid) as file:
        for line in file:
            if line.startswith(key + ":"):
                return int(line.split()[1])
    raise KeyError(key)


def is_sanitized(pid):
    """Built with a sanitizer: its shadow memory makes every figure of memory another one."""
    return process_number(pid, "VmSize") > 1 << 33


def catches(pid, number):
    """It has a handler for that signal: before, the signal ends it as if it did not know it."""
    with open("/proc/%d/status" % pid) as file:
        caught = next(line for line in file if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def is_alive(pid):
    """Neither gone nor a zombie."""
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def processor_seconds(pid):
    """Processor time of the process so far."""
    with open("/proc/%d/stat" % pid) as file:
        words = file.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def run(*arguments, timeout=PATIENCE, environment=None, wrapper=()):
    """Runs `tureen ...` to its end.  An environment is all that it has, beside the sanitizers' options.
    wrapper: a command that executes the one that it is given."""
    if environment is not None:
        options = {name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}
        environment = {**options, **environment}
    done = subprocess.run([*wrapper, TUREEN, *map(str, arguments)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True, timeout=timeout, env=environment)
    assert "Unknown error" not in done.stdout + done.stderr, done.stderr    # a number that is no errno
    return done


#   ---- the server

class Server:
    def __init__(self, datasets, cache="64M", workers=2, listen=None, arguments=(), tcp=False, folder=None,
                 environment=None, expect_clean=True, wrapper=()):
        """listen: an endpoint, None: one of our own, "": the server's default.  folder: shared with another
        Server. wrapper: a command that executes the one that it is given."""
        self.folder = folder or tempfile.mkdtemp(prefix="tu-", dir="/tmp")
        self.owns_folder = folder is None
        self.runtime = os.path.join(self.folder, "run")
        os.makedirs(self.runtime, mode=0o700, exist_ok=True)
        if listen is None:
            listen = "tcp://127.0.0.1:%d" % free_port() if tcp else "ipc://%s/s.sock" % self.folder
        self.endpoint = listen
        self.datasets, self.cache, self.workers, self.arguments = datasets, cache, workers, arguments
        self.environment = dict(os.environ, XDG_RUNTIME_DIR=self.runtime)
        for key, value in (environment or {}).items():
            self.environment.pop(key, None)
            if value is not None:
                self.environment[key] = value
        self.expect_clean, self.wrapper = expect_clean, wrapper
        self.shared_before = shared_memory()    # other programs' on this machine
        self.process = None
        self.jobs = []

    @property
    def pid(self):
        return self.process.pid

    @property
    def log_path(self):
        return os.path.join(self.folder, "log")

    def log(self):
        with open(self.log_path, errors="replace") as file:
            return file.read()

    def program(self):
        """A loaded machine's disk is late by chance, and then the cache keeps nothing for a while.  Tests
        that let the disk hang have the server that users have."""
        has_disk = {"--disk", "--block-cache"} & set(self.arguments)
        return PATIENT if has_disk and "TUREEN_DISK" not in self.environment else TUREEN

    def start(self):
        command = [*self.wrapper, self.program(), "serve"]
        for name, path in self.datasets.items():
            command += ["--dataset", "%s=%s" % (name, path)]
        if self.endpoint:
            command += ["--listen", self.endpoint]
        if self.endpoint.startswith("tcp://") and not {"--open", "--keys"} & set(self.arguments):
            command += ["--open"]
        if self.cache:
            command += ["--cache", str(self.cache)]
        if self.workers:
            command += ["--workers", str(self.workers)]
        with open(self.log_path, "w") as log:
            self.process = subprocess.Popen(command + list(self.arguments), stdout=log,
                                            stderr=subprocess.STDOUT, env=self.environment)
        wait_until("the server listens", lambda: "listening on" in self.log()
                   or self.process.poll() is not None)
        if self.process.poll() is not None:
            raise AssertionError("the server did not start (status %s):\n%s"
                                 % (self.process.poll(), self.log()))
        return self

    def stop(self, number=signal.SIGTERM, seconds=PATIENCE):
        """Ends it; asserts a clean end and that nothing is left."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("the server did not end within %d seconds of signal %d" % (seconds, number))
        log = self.log()
        assert status == 0, "the server ended with status %d" % status
        for word in ("Sanitizer", "runtime error:"):
            assert word not in log, "a sanitizer complained"
        assert "Unknown error" not in log, "a number that is no errno"
        left = self.left_behind()
        assert not left, "left behind: %s" % left

    def left_behind(self):
        left = [name for name in os.listdir(self.folder) if name.startswith("s.sock")]
        left += ["run/" + name for name in os.listdir(self.runtime)]
        left += ["/dev/shm/" + name for name in shared_memory() - self.shared_before]
        return left

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise

    def __exit__(self, kind, error, traceback):
        try:
            for job in self.jobs:
                job.end()
            if self.process and (self.process.poll() is None or kind is None) and self.expect_clean:
                self.stop()
        except AssertionError as found:
            kind = kind or AssertionError
            self.print_log()
            if error is None:
                raise
            print("and then: %s" % found, flush=True)
        else:
            if kind and not issubclass(kind, unittest.SkipTest):
                self.print_log()
        finally:
            if self.process and self.process.poll() is None:
                self.kill()
            if self.owns_folder:
                shutil.rmtree(self.folder, ignore_errors=True)

    def print_log(self):
        if os.path.exists(self.log_path):
            lines = self.log().splitlines()
            print("---- the server's log (%d lines)\n%s\n----" % (len(lines), "\n".join(lines[-60:])),
                  flush=True)

    #   ---- asking it

    def status(self):
        result = run("status", "--connect", self.endpoint, "--json", environment=self.environment)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    def status_text(self):
        result = run("status", "--connect", self.endpoint, environment=self.environment)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def job_status(self, name):
        """What status says of the job of that name; None: no such job."""
        for job in self.status()["jobs"]:
            if job["name"] == name:
                return job
        return None

    def job_names(self):
        return sorted(job["name"] for job in self.status()["jobs"])

    #   ---- jobs in processes of their own

    def read(self, *arguments, dataset="train", **options):
        return self._add(ReadJob(self, dataset, arguments, options))

    def loader(self, **request):
        return self._add(ScriptJob(self, "loader_job.py", request))

    def plain(self, **request):
        return self._add(ScriptJob(self, "plain_client.py", request))

    def _add(self, job):
        self.jobs.append(job)
        return job


#   ---- jobs

class Job:
    """A process that takes batches.  finish () gives what it had: {"epochs": {number: ids}, ...}."""

    def __init__(self, server, command):
        environment = dict(server.environment, PYTHONDONTWRITEBYTECODE="1", PYTHONUNBUFFERED="1",
                           PYTHONPATH=os.path.join(SOURCE, "clients", "python"))
        self.started = time.monotonic()
        self.output = tempfile.TemporaryFile("w+")
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdout=self.output, stderr=self.errors, env=environment)

    @property
    def pid(self):
        return self.process.pid

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, seconds=4 * PATIENCE):
        """Its exit status."""
        return self.process.wait(seconds)

    def texts(self):
        texts = []
        for file in (self.output, self.errors):
            file.seek(0)
            texts.append(file.read())
        return texts

    def finish(self, seconds=4 * PATIENCE):
        status = self.wait(seconds)
        self.seconds = time.monotonic() - self.started
        output, errors = self.texts()
        assert status == self.good_status(output), "a job ended with status %d: %s" % (status, errors)
        return self.result(output)

    def good_status(self, output):
        return 0

    def result(self, output):
        result = json.loads(output)
        result["epochs"] = {int(number): ids for number, ids in result["epochs"].items()}
        return result

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.output.close()
        self.errors.close()


class ReadJob(Job):
    """`tureen read`: options become --options."""

    def __init__(self, server, dataset, arguments, options):
        self.ids = os.path.join(server.folder, "ids-%d-%d" % (os.getpid(), len(server.jobs)))
        command = [TUREEN, "read", "--connect", server.endpoint, "--dataset", dataset, "--json", "--ids",
                   self.ids]
        for key, value in options.items():
            command += ["--" + key.replace("_", "-"), str(value)]
        super().__init__(server, command + list(arguments))

    def good_status(self, output):
        """3 where samples could not be read."""
        return 3 if output and json.loads(output)["unreadable"]["count"] else 0

    def delivered(self):
        """Ids in its file so far."""
        if not os.path.exists(self.ids):
            return 0
        finished, unfinished = parse_ids(self.ids)
        return sum(map(len, finished.values())) + len(unfinished or [])

    def result(self, output):
        result = json.loads(output)
        result["epochs"], result["unfinished"] = parse_ids(self.ids)
        return result


class ScriptJob(Job):
    """A Python client: the request goes as JSON, the result comes as JSON."""

    def __init__(self, server, script, request):
        request.setdefault("endpoint", server.endpoint)
        super().__init__(server, ["/usr/bin/python3", "-B", os.path.join(HERE, script), json.dumps(request)])


#   ---- what is asserted most

class SystemTest(unittest.TestCase):
    """One folder of samples for all tests of a class."""
    SAMPLES = 600

    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="tu-data-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.data = os.path.join(cls.root, "train")
        cls.labels = make_folder(cls.data, cls.SAMPLES, seed=SEED)

    @classmethod
    def copy_for_other_users(cls):
        """A folder with the server and the modules beside this one, where every user may read and run them: a
        tree in a home folder is closed to others."""
        os.chmod(cls.root, 0o755)
        folder = os.path.join(cls.root, "programs")
        os.mkdir(folder)
        os.chmod(folder, 0o755)
        os.chmod(shutil.copy(TUREEN, folder), 0o755)
        for name in os.listdir(HERE):
            if name.endswith(".py"):
                os.chmod(shutil.copy(os.path.join(HERE, name), folder), 0o644)
        #  A program reads the thread sanitizer's suppressions with the rights of the user that runs it.
        options = os.environ.get("TSAN_OPTIONS", "")
        found = re.search(r"suppressions=(\S+)", options)
        if found:
            copy = shutil.copy(found[1], folder)
            os.chmod(copy, 0o644)
            cls.enterClassContext(mock.patch.dict(os.environ, TSAN_OPTIONS=options.replace(found[1], copy)))
        return folder

    def serve(self, **options):
        return Server({"train": self.data}, **options)

    def assert_epochs(self, result, epochs, ids=None, size=None):
        """Each epoch has each of the ids once; size: that many of them, none twice."""
        ids = range(self.SAMPLES) if ids is None else ids
        self.assertEqual(sorted(result["epochs"]), list(range(epochs)))
        for number, got in result["epochs"].items():
            if size is None:
                self.assertEqual(sorted(got), sorted(ids), "epoch %d" % number)
            else:
                self.assertEqual((len(got), len(set(got))), (size, size), "epoch %d" % number)
                self.assertLessEqual(set(got), set(ids), "epoch %d" % number)


def sure_faults(audit):
    """Faults that an audit found, without those that chance gives more often than in one audit of a million.
    The audit itself leaves one in 10,000 to chance, which is too often for tests."""
    return [fault for fault in audit["faults"] if fault["p"] is None or fault["p"] * audit["tests"] < 1e-6]


def kill_until_done(start, pause, rounds, look=lambda: None):
    """Starts a command up to so many times and kills it after pause() seconds, with a look at what it left,
    until one has ended well before.  How many were killed."""
    killed = 0
    for _ in range(rounds):
        process = start()
        time.sleep(pause())
        process.kill()
        _, said = process.communicate()
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, said
        killed += 1
        look()
    return killed


def seeded(name):
    """A generator for one test, its seed printed."""
    seed = "%d-%s" % (SEED, name)
    print("seed of %s: TEST_SEED=%d" % (name, SEED), flush=True)
    return random.Random(seed)

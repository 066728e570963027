"""tureen.serve and what is said where no server is found, against the real server.

Run by ctest (python_serving), or by hand: TUREEN_BIN=build/release/bin python3
tests/clients/test_python_serving.py [-v] [NAME]
"""
from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import warnings
from pathlib import Path
from typing import Any, Callable, List
from unittest import mock

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
PACKAGE = str(SOURCE / "clients" / "python")
sys.path[:0] = [PACKAGE]
TUREEN = os.path.join(os.environ.get("TUREEN_BIN", str(SOURCE / "build" / "release" / "bin")), "tureen")
PATIENCE = float(os.environ.get("TUREEN_TEST_PATIENCE", "60"))
PROCESSES, SAMPLES = 8, 24

import tureen
from forked_processes import Forked, forked_after
from tureen import finding, serving, standby
from tureen.detached import Detached

if not os.path.exists(TUREEN):
    print(f"SKIPPED: {TUREEN} is not built", flush=True)
    sys.exit(77)


def until(what: str, condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not within {PATIENCE:g} s: {what}")
        time.sleep(0.02)


def alive(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def one_of_a_sweep(folder: str, data: str, number: int) -> None:
    """A process.  All of them ask for a server in the same moment, and keep their jobs until all have one."""
    def all_are(what: str) -> None:
        Path(folder, f"{what}-{number}").touch()
        until(f"all are {what}", lambda: sum(name.startswith(what + "-") for name in os.listdir(folder))
              == PROCESSES)
    all_are("ready")
    server = tureen.serve(train=data, endpoint=f"ipc://{folder}/s.sock", cache="16M", workers=1, idle=5)
    ids: List[int] = []
    for batch in tureen.Loader(server.endpoint, batch_size=8, epochs=1, name=f"job-{number}", timeout=60):
        ids += batch.ids.tolist()
        all_are("joined")
    print(json.dumps({"process": server.process, "log": server.log, "ids": sorted(ids)}))


def one_of_two_projects(folder: str, data: str) -> None:
    """A process.  Each project calls its data "train"."""
    warnings.simplefilter("ignore", RuntimeWarning)
    server = tureen.serve(train=data, endpoint=f"ipc://{folder}/s.sock", cache="16M", workers=1)
    with tureen.Loader(server.endpoint, batch_size=8, epochs=1, timeout=60) as loader:
        samples = sum(len(batch.ids) for batch in loader)
        print(json.dumps({"process": server.process, "served": server.names["train"], "samples": samples,
                          "state": loader.state_dict()["dataset"]}))


def setUpModule() -> None:
    global FORKED
    FORKED = forked_after("tureen")


class Case(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="tu-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.data = self.make_data("data")
        self.endpoint = f"ipc://{self.folder}/s.sock"
        environment = {"TUREEN_SERVER": TUREEN, "TMPDIR": self.folder, "XDG_RUNTIME_DIR": self.folder}
        patch = mock.patch.dict(os.environ, environment)
        patch.start()
        self.addCleanup(patch.stop)
        os.environ.pop("TUREEN_ENDPOINT", None)
        self.addCleanup(setattr, tempfile, "tempdir", tempfile.tempdir)
        tempfile.tempdir = None
        self.pids: List[int] = []
        self.addCleanup(self.no_server_is_left)

    def make_data(self, name: str, samples: int = SAMPLES) -> str:
        photo = SOURCE / "tests" / "decode" / "golden" / "colour_420.jpg"
        for index in range(samples):
            folder = Path(self.folder, name, f"class_{index % 2}")
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(photo, folder / f"{index:03}.jpg")
        return os.path.join(self.folder, name)

    def serve(self, **options: Any) -> tureen.Server:
        server = tureen.serve(**{"endpoint": self.endpoint, "train": self.data, "cache": "16M", "workers": 1,
                                 **options})
        if server.process:
            self.pids.append(server.process)
        return server

    @staticmethod
    def end(job: "subprocess.Popen[str]") -> None:
        if job.poll() is None:
            job.kill()
            job.communicate()

    def no_server_is_left(self) -> None:
        for process in self.pids:
            with contextlib.suppress(ProcessLookupError):       # it may have ended by itself
                os.kill(process, signal.SIGTERM)
            until("the server ends", lambda: not alive(process))

    def results_of(self, jobs: List[Forked]) -> List[Any]:
        """What each process wrote, when all have ended well."""
        for job in jobs:
            self.addCleanup(job.kill)
        results = []
        for job in jobs:
            status = job.wait(4 * PATIENCE)
            output, errors = job.output()
            self.assertEqual(status, 0, errors)
            results.append(json.loads(output))
        return results


class Sweep(Case):
    def test_processes_that_race_get_one_server_and_leave_none(self) -> None:
        jobs = [Forked(FORKED, dict(os.environ), one_of_a_sweep, self.folder, self.data, number)
                for number in range(PROCESSES)]
        results = self.results_of(jobs)
        starters = [result for result in results if result["process"]]
        self.pids += [result["process"] for result in starters]
        self.assertEqual(len(starters), 1, results)
        for result in results:
            self.assertEqual(result["ids"], list(range(SAMPLES)))
        until("the server ends after its last job", lambda: not alive(starters[0]["process"]))
        logs = [name for name in os.listdir(self.folder) if name.endswith(".log")]
        self.assertEqual([os.path.join(self.folder, name) for name in logs], [starters[0]["log"]],
                         "the losers' are gone")
        log = Path(starters[0]["log"]).read_text(encoding="utf-8")
        self.assertEqual(log.count(" joined: train"), PROCESSES, log)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("s.sock")], [])


class Projects(Case):
    def test_each_gets_its_own_data_at_one_server(self) -> None:
        """All of them ask in the same moment, and there is no server yet."""
        others = self.make_data("others", SAMPLES - 1)
        jobs = [Forked(FORKED, dict(os.environ), one_of_two_projects, self.folder, data)
                for data in (self.data, others) * 3]
        results = self.results_of(jobs)
        self.pids += [result["process"] for result in results if result["process"]]
        self.assertEqual(len(self.pids), 1)
        self.assertEqual([result["samples"] for result in results], [SAMPLES, SAMPLES - 1] * 3)
        self.assertEqual({result["state"] for result in results}, {"train"})
        served = [{result["served"] for result in results[first::2]} for first in (0, 1)]
        self.assertEqual([len(names) for names in served], [1, 1])
        self.assertEqual(len(served[0] & {"train"}) + len(served[1] & {"train"}), 1, served)


#  A process that goes on with a batch when it is told to: meanwhile its server is killed.
KILLED = """
import json, os, sys
import tureen
folder, data = sys.argv[1:]
server = tureen.serve(train=data, endpoint=f"ipc://{folder}/s.sock", cache="16M", workers=1, idle=1)
loader = tureen.Loader(server.endpoint, batch_size=2, epochs=2, slots=3)
ids = []
for batch in loader:
    ids += batch.ids.tolist()
    if len(ids) in (2, 12):                 # behind all that three slots hold
        print("took", flush=True)
        sys.stdin.readline()
print(json.dumps({"process": server.process, "log": server.log, "ids": ids,
                  "rejoined": loader.stats()["rejoined"]}), flush=True)
"""


class Death(Case):
    """Servers that die under their jobs."""

    def holder(self) -> Any:
        return finding.lock_holder(f"{self.folder}/s.sock")

    def start(self) -> "subprocess.Popen[str]":
        job = subprocess.Popen([sys.executable, "-c", KILLED, self.folder, self.data], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=dict(os.environ, PYTHONPATH=PACKAGE, PYTHONDONTWRITEBYTECODE="1"))
        self.addCleanup(self.end, job)
        return job

    def kill_server(self) -> int:
        killed = until("there is a server", self.holder)
        os.kill(killed, signal.SIGKILL)
        until("it is gone", lambda: not alive(killed))
        return int(killed)

    @staticmethod
    def step(jobs: "List[subprocess.Popen[str]]") -> None:
        for job in jobs:
            assert job.stdout is not None and job.stdout.readline() == "took\n", job.communicate()

    @staticmethod
    def go(jobs: "List[subprocess.Popen[str]]") -> None:
        for job in jobs:
            assert job.stdin is not None
            job.stdin.write("\n")
            job.stdin.flush()

    def test_processes_start_it_again_once(self) -> None:
        """Each sample comes once an epoch, in three processes, through two deaths of their server."""
        jobs = [self.start() for _ in range(3)]
        killed = set()
        for _ in range(2):
            self.step(jobs)
            killed.add(self.kill_server())
            self.go(jobs)
        results, said = [], ""
        for job in jobs:
            output, errors = job.communicate(timeout=4 * PATIENCE)
            self.assertEqual(job.returncode, 0, errors)
            results.append(json.loads(output))
            said += errors
        #  One process is enough to start it: the others may find it there.
        self.assertIn("is started again, as tureen.serve knows it", said)
        self.assertEqual(len(killed), 2)
        for result in results:
            self.assertEqual(sorted(result["ids"][:SAMPLES]), list(range(SAMPLES)))
            self.assertEqual(sorted(result["ids"][SAMPLES:]), list(range(SAMPLES)))
            self.assertEqual(result["rejoined"], 2)
        until("the last server ends when it is idle", lambda: self.holder() is None)

    def test_its_parent_is_init(self) -> None:
        """Programs that kill the children of a process that they end do not reach it."""
        children = Path(f"/proc/self/task/{os.getpid()}/children")
        before = children.read_text(encoding="utf-8")
        server = self.serve()
        with open(f"/proc/{server.process}/stat", encoding="utf-8") as file:
            self.assertNotEqual(int(file.read().rpartition(")")[2].split()[1]), os.getpid())
        self.assertEqual(children.read_text(encoding="utf-8"), before)
        server.stop()
        until("it ends", lambda: not alive(self.pids[0]))

    def test_what_orphans_come_to_leaves_no_zombie(self) -> None:
        """As the first process of a container, or one that has asked for orphans."""
        code = f"""
import ctypes, os, time, tureen
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0      # PR_SET_CHILD_SUBREAPER
server = tureen.serve(train={self.data!r}, endpoint={self.endpoint!r}, cache="16M", workers=1)
process = server.process
server.stop()
while os.path.exists(f"/proc/{{process}}"):
    time.sleep(.02)
"""
        subprocess.run([sys.executable, "-c", code], check=True, timeout=4 * PATIENCE,
                       env=dict(os.environ, PYTHONPATH=PACKAGE, PYTHONDONTWRITEBYTECODE="1"))

    def test_it_is_the_one_that_was_there(self) -> None:
        """With a data set that this process has not asked for."""
        self.serve(arguments=["--dataset", f"more={self.data}"])
        loader = tureen.Loader(self.endpoint, batch_size=8, epochs=1)
        self.serve()                            # found: the last that this process knows
        self.kill_server()
        self.assertEqual(sum(1 for _ in loader), SAMPLES // 8)
        loader.close()
        self.pids.append(self.holder())
        served = tureen.status(self.endpoint)["datasets"]
        self.assertEqual([entry["name"] for entry in served], ["train", "more"])

    def test_what_was_added_is_added_again(self) -> None:
        """Before the loader's first job, and under a job; what was removed is not."""
        server = self.serve(more=self.data)
        server.add(val=self.make_data("val", SAMPLES - 1), test=self.data)
        server.remove("test")
        server.remove("more")
        with tureen.Loader(self.endpoint, "val", batch_size=2, epochs=1, slots=3) as loader:
            self.kill_server()
            batches = iter(loader)
            ids = next(batches).ids.tolist()
            self.kill_server()
            for batch in batches:
                ids += batch.ids.tolist()
        self.assertEqual(sorted(ids), list(range(SAMPLES - 1)))
        self.pids.append(self.holder())
        self.assertEqual([entry["name"] for entry in server.status()["datasets"]], ["train", "val"])

    def test_the_server_object_is_the_new_servers(self) -> None:
        started, found = self.serve(), self.serve()
        killed = self.kill_server()
        with tureen.Loader(self.endpoint, batch_size=8, epochs=1) as loader:
            self.assertEqual(sum(1 for _ in loader), SAMPLES // 8)
        self.assertNotIn(started.process, (killed, None))
        self.assertEqual((found.process, found.log), (started.process, started.log))
        self.pids.append(started.process or 0)
        started.stop()
        until("it ends", lambda: self.holder() is None)

    def test_one_that_was_told_to_end_is_not_started(self) -> None:
        self.serve().stop()
        until("it ends", lambda: not alive(self.pids[0]))
        with self.assertRaisesRegex(tureen.NoServer, "there is no such socket"):
            tureen.Loader(self.endpoint, timeout=0.5).samples

    def test_stopped_while_it_is_started_again(self) -> None:
        """What was started ends too."""
        server, run = self.serve(), serving._Starting.run
        self.kill_server()

        def stopped_meanwhile(starting: Any) -> Any:
            found = run(starting)
            self.pids.append(found.process)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")             # it takes that one for a stranger's
                server.stop()
            return found
        with mock.patch.object(serving._Starting, "run", stopped_meanwhile):
            standby._known[self.endpoint].start(PATIENCE)
        until("it ends", lambda: not alive(self.pids[-1]))
        self.assertIsNone(server.process)

    def test_a_number_that_is_another_processs_by_now(self) -> None:
        server = tureen.Server(self.endpoint, os.getpid(), "the log")
        with mock.patch("os.kill") as kill:
            server.stop()
        kill.assert_not_called()

    def test_one_of_an_operator_is_not_started(self) -> None:
        """It does not end when it is idle: what has started it starts it again."""
        command = [TUREEN, "serve", "--dataset", f"train={self.data}", "--listen", self.endpoint]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        until("it listens", lambda: finding.listens(self.endpoint))
        self.serve()
        process.kill()
        process.wait()
        with self.assertRaisesRegex(tureen.NoServer, "its server has died"):
            tureen.Loader(self.endpoint, timeout=0.5).samples

    def test_why_it_cannot_be_started_again(self) -> None:
        self.serve()
        #  Within that time the server has to be started, and to fail, on a loaded machine too.
        loader = tureen.Loader(self.endpoint, batch_size=2, slots=3, rejoin=10)
        batches = iter(loader)
        next(batches)
        os.rename(self.data, self.data + "-gone")
        self.kill_server()
        with self.assertRaisesRegex(tureen.ServerGone, "(?s)nor could it be started again .*data set "
                                    "'train': there is no folder"):
            for _ in batches:
                pass


class Again(unittest.TestCase):
    def test_a_loss_does_not_go_on_with_the_pauses_of_the_last_one(self) -> None:
        """Nor with what was said of it."""
        endpoint = "ipc:///nowhere"
        pauses: List[float] = []

        class Watched(standby.Standby):
            def _is_gone(self) -> bool:
                return True

            def _wait(self, pause_s: float) -> None:
                pauses.append(pause_s)
                super()._wait(0.01)

        def start(left_s: float) -> None:
            raise OSError("no room")

        watched = Watched(endpoint, start)
        with mock.patch.dict(standby._known, {endpoint: watched}):
            watched.prepare()
            for _ in range(2):
                pauses.clear()
                with watched.kept_up(lambda: 60.0):
                    until("it was tried three times", lambda: len(pauses) >= 3)
                    self.assertEqual(pauses[:3], [1.0, 2.0, 4.0])
                    self.assertEqual(standby.trouble(endpoint), "no room")
                until("it is forgotten", lambda: not standby.trouble(endpoint))


class Between(unittest.TestCase):
    def test_the_status_is_that_of_the_process(self) -> None:
        """And not of the shell that is between the two: a signal's number is negative."""
        with tempfile.TemporaryDirectory(prefix="tu-serve-", dir="/tmp") as folder:
            for script, status in (("exit 3", 3), ("kill -KILL $$", -signal.SIGKILL)):
                process = Detached(["/bin/sh", "-c", script], os.path.join(folder, "log"), folder)
                until("it ends", lambda: process.poll() is not None)
                self.assertEqual(process.poll(), status)


class Serve(Case):
    def test_it_is_found_again_and_by_default(self) -> None:
        first = self.serve(endpoint=None)
        self.assertIsNotNone(first.process)
        second = self.serve(endpoint=None)
        self.assertEqual((second.process, second.log, second.endpoint), (None, None, first.endpoint))
        with tureen.Loader(batch_size=8, epochs=1) as loader:
            self.assertEqual(loader.samples, SAMPLES)
        self.assertEqual(second.status()["datasets"][0]["path"], self.data)
        self.assertNotEqual(os.getsid(first.process or 0), os.getsid(0), "Ctrl-C would end it")
        self.assertNotIn("TUREEN_ENDPOINT", os.environ)
        process = first.process
        second.stop()               # not its own
        self.assertTrue(alive(process or 0))
        first.stop()
        until("it ends when it is told to", lambda: not alive(process or 0))

    def test_with_ends_an_unused_server(self) -> None:
        with self.serve(idle=1) as server, tureen.Loader(server.endpoint, batch_size=8, epochs=1) as loader:
            self.assertEqual(sum(1 for _ in loader), SAMPLES // 8)
        until("it ends", lambda: not alive(self.pids[0]))
        with tureen.Loader(self.endpoint, batch_size=8, epochs=1) as loader:
            with self.serve() as server:
                self.assertEqual(loader.samples, SAMPLES)
            self.assertTrue(alive(self.pids[1]))
            self.assertEqual(sum(1 for _ in loader), SAMPLES // 8)

    def test_what_it_lacks_is_added(self) -> None:
        """While a job runs; under another name where there is other data of that name."""
        other, val = self.make_data("other", SAMPLES - 1), self.make_data("val", SAMPLES - 2)
        self.serve()
        with tureen.Loader(self.endpoint, batch_size=8) as running:
            batches = iter(running)
            next(batches)
            with self.assertWarnsRegex(RuntimeWarning, f"data as 'train': {other} is 'train-......' there"):
                server = self.serve(train=other, val=val)
            for name, samples in (("train", SAMPLES - 1), ("val", SAMPLES - 2)):
                with tureen.Loader(self.endpoint, name, batch_size=8, epochs=1) as loader:
                    self.assertEqual(sum(len(batch.ids) for batch in loader), samples)
            self.assertEqual([entry["name"] for entry in server.status()["datasets"]],
                             ["train", server.names["train"], "val"])
            self.assertEqual(len(next(batches).ids), 8)
        os.symlink(self.data, os.path.join(self.folder, "link"))
        again = self.serve(train=os.path.join(self.folder, "link"))
        self.assertEqual((again.process, again.names), (None, {"train": "train"}))
        with self.assertRaisesRegex(tureen.ServeFailed, "cannot add what it lacks: .*there is no folder"):
            server.add(test=os.path.join(self.folder, "nothing"))

    def test_what_is_removed(self) -> None:
        server = self.serve(val=self.make_data("val"))
        with tureen.Loader(self.endpoint, "val", batch_size=2, rejoin=1000) as loader:
            batches = iter(loader)
            next(batches)
            with self.assertRaisesRegex(tureen.RequestRefused, "in_use"):
                server.remove("val")
            self.assertEqual(server.remove("val", now=True), 1)
            with self.assertRaisesRegex(tureen.JobEnded, "removed"):
                for _ in batches:
                    pass
        self.assertEqual([entry["name"] for entry in server.status()["datasets"]], ["train"])
        server.add(val=self.make_data("other", 3))
        self.assertEqual(len(tureen.DataSet("val", self.endpoint)), 3)
        server.remove("val")
        server.remove("train")

    def test_other_fields_are_other_data(self) -> None:
        """Masks of another folder; both forms of the option."""
        masks, others = self.make_data("masks"), self.make_data("others")
        self.serve(arguments=["--field", f"train.mask=mask:{masks}"])
        self.assertIsNone(self.serve(arguments=[f"--field=train.mask=mask:{masks}/"]).process)
        with self.assertWarnsRegex(RuntimeWarning, "other data as 'train'"):
            server = self.serve(arguments=["--field", f"train.mask=mask:{others}"])
        self.assertEqual([entry["folders"][1] for entry in server.status()["datasets"]], [masks, others])
        with self.assertRaisesRegex(tureen.ServeFailed, "its 'train' has no field 'depth' .*its "
                                    "'train-......' has no field 'depth'.*tureen remove train-"):
            self.serve(arguments=["--field", f"train.depth=image:{masks}"])

    def test_classes_of_splits(self) -> None:
        """An empty class stays, or labels go by the other split's names; a server without that is told."""
        numbers = {f"class_{number}": number for number in range(3)}
        kept, less = self.make_data("kept"), self.make_data("less")
        for name in ("data", "less"):
            os.rename(Path(self.folder, name, "class_1"), Path(self.folder, name, "class_2"))
            shutil.copytree(Path(self.folder, name, "class_0"), Path(self.folder, name, "class_1"))
        shutil.rmtree(Path(less, "class_1"))
        os.rename(Path(kept, "class_1"), Path(kept, "class_2"))
        os.mkdir(Path(kept, "class_1"))
        without = self.serve(val=less)
        with self.assertRaisesRegex(tureen.ServeFailed, "does not number the classes of 'val' as those of"):
            self.serve(val=less, classes_from={"val": "train"})
        without.stop()
        until("the server ends", lambda: not alive(self.pids[0]))
        server = self.serve(val=less, kept=kept, classes_from={"val": "train"}, allow_empty=["kept"])
        for name in ("train", "val", "kept"):
            self.assertEqual(tureen.DataSet(name, endpoint=server.endpoint).class_to_idx, numbers)
        self.assertIsNone(self.serve(val=less, kept=kept, classes_from={"val": "train"}).process)
        with self.assertRaisesRegex(ValueError, "there is no data set 'test' here; there are: train, val"):
            self.serve(val=less, classes_from={"val": "test"})
        with self.assertRaisesRegex(TypeError, "a list of data sets' names"):
            self.serve(val=less, allow_empty="val")

    def test_folders_that_changed_since(self) -> None:
        self.serve()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.serve()
        later = time.time() + 60
        os.utime(os.path.join(self.data, "class_1"), (later, later))
        with self.assertWarnsRegex(RuntimeWarning, "class_1 or removed after .* had listed 'train': .*tureen "
                                   "stop"):
            server = self.serve()
        #  Since the server began, but before this one was listed.
        meanwhile = time.time() - 0.05
        os.utime(os.path.join(self.data, "class_1"), (meanwhile, meanwhile))
        server.add(val=self.data)
        server.remove("train")
        with mock.patch("tureen.serving._CLOCK_S", 0.0), warnings.catch_warnings():
            warnings.simplefilter("error")
            server.add(val=self.data)

    def test_a_server_of_another_process_is_not_stopped(self) -> None:
        first, second = self.serve(), self.serve()
        with self.assertWarnsRegex(RuntimeWarning, "another process has started the server"):
            second.stop()
        first.stop()
        first.stop()

    def test_loaders_that_still_have_a_job_are_told(self) -> None:
        server = self.serve()
        with tureen.Loader(self.endpoint, batch_size=8, epochs=1, rejoin=0) as loader:
            batches = iter(loader)
            next(batches)
            with self.assertWarnsRegex(RuntimeWarning, "still have 1 job at .* Close the loaders first"):
                server.stop()
        server = self.serve()
        with tureen.Loader(self.endpoint, batch_size=8, epochs=1) as loader, warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(sum(1 for _ in loader), SAMPLES // 8)
            server.stop()

    def test_a_path_alone(self) -> None:
        with self.assertRaisesRegex(ValueError, "a folder for each data set: write serve.train='.*/train', "
                                    "val='.*/val'.$"):
            for name in ("train", "val"):
                os.makedirs(os.path.join(self.folder, "splits", name))
            tureen.serve(os.path.join(self.folder, "splits"), endpoint=self.endpoint)
        server = tureen.serve(Path(self.data), endpoint=self.endpoint, cache="16M", workers=1, idle=60)
        self.addCleanup(server.stop)
        with tureen.Loader(self.endpoint, batch_size=8, epochs=1) as loader:
            self.assertEqual(loader.samples, SAMPLES)

    def test_memory_is_divided(self) -> None:
        server = self.serve(memory="96M", cache=None)
        memory = server.status()["memory"]
        self.assertEqual(memory["bytes"], 96 << 20)
        self.assertGreaterEqual(memory["pins_bytes"] + memory["pictures_bytes"], 48 << 20)
        with tureen.Loader(self.endpoint, batch_size=8, epochs=2) as loader:
            for _ in loader:
                pass
        self.assertEqual(server.status()["datasets"][0]["pins"]["part"], 1)
        with self.assertWarnsRegex(RuntimeWarning, r"its --memory is 96M \(67108864 was asked for\)"):
            self.serve(memory=64 << 20, cache=None)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.serve(memory=96 << 20, cache=None)
        with self.assertRaisesRegex(tureen.ServeFailed, "(?s)status 2: .*memory"):
            self.serve(memory="much", endpoint=self.endpoint + ".other")

    def test_a_folder_of_the_local_disk(self) -> None:
        folder = os.path.join(self.folder, "disk")
        server = self.serve(disk=f"{folder}=64M")
        cache = server.status()["block_cache"]
        self.assertEqual((cache["folder"], cache["bytes_max"]), (folder, 64 << 20))
        with self.assertWarnsRegex(RuntimeWarning, r"its --disk is \S+=64M \(\S+=65M was asked for\)"):
            self.serve(disk=f"{folder}=65M")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.serve(disk=f"{folder}=65536K")
            self.serve(arguments=["--block-cache", f"{folder}=64M"])        # the older name
        with self.assertRaisesRegex(tureen.ServeFailed, "(?s)status 2: .*disk: expected DIR=BYTES"):
            self.serve(disk=folder, endpoint=self.endpoint + ".other")

    def test_old_logs_go(self) -> None:
        old, young, other = (os.path.join(self.folder, name) for name in
                             ("tureen-serve-old.log", "tureen-serve-young.log", "other.log"))
        for path in (old, young, other):
            Path(path).touch()
        for path in (old, other):
            os.utime(path, (time.time() - 8 * 24 * 3600,) * 2)
        with self.assertRaises(tureen.ServeFailed):
            self.serve(train=os.path.join(self.folder, "nothing"))
        self.assertEqual([os.path.exists(path) for path in (old, young, other)], [False, True, True])

    def test_a_server_that_cannot_start_says_why(self) -> None:
        with self.assertRaises(tureen.ServeFailed) as caught:
            self.serve(train=os.path.join(self.folder, "nothing"))
        log = [name for name in os.listdir(self.folder) if name.endswith(".log")]
        for part in ("status 1", os.path.join(self.folder, log[0]), "tureen serve: data set 'train'"):
            self.assertIn(part, str(caught.exception))
        with self.assertRaisesRegex(tureen.ServeFailed, "(?s)status 2: .*expected follow or dsa, got 'best'"):
            self.serve(arguments=["--policy", "best"])

    def test_without_an_executable(self) -> None:
        with mock.patch.dict(os.environ, {"TUREEN_SERVER": "", "PATH": self.folder}):
            with self.assertRaisesRegex(tureen.ServeFailed, "PATH.*TUREEN_SERVER"):
                self.serve()
        with mock.patch.dict(os.environ, {"TUREEN_SERVER": self.folder + "/none"}):
            with self.assertRaisesRegex(tureen.ServeFailed, "none cannot be started"):
                self.serve()
        with self.assertRaisesRegex(ValueError, "no data set"):
            tureen.serve()
        with self.assertRaisesRegex(TypeError, "train must be a path, not list"):
            tureen.serve(train=["a"])       # type: ignore[arg-type]
        for address in ("hf://datasets/train", "gs://bucket/train"):
            with self.assertRaisesRegex(ValueError, f"train='{address}': of addresses only s3://, http:// "
                                        "and https:// are known"):
                tureen.serve(train=address)
        with self.assertRaisesRegex(ValueError, "idle"):
            self.serve(idle=0)

    def test_an_address_is_the_servers_to_open(self) -> None:
        none = self.folder + "/none"
        nowhere = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_NO_SIGN_REQUEST": "",
                   "AWS_SHARED_CREDENTIALS_FILE": none, "AWS_CONFIG_FILE": none}
        with mock.patch.dict(os.environ, nowhere):
            with self.assertRaisesRegex(tureen.ServeFailed, "no keys for the object store"):
                self.serve(train="s3://bucket/train/")
            self.serve()
            with self.assertRaisesRegex(tureen.ServeFailed, "cannot add .*no keys for the object store"):
                self.serve(train="s3://bucket/train/")

    def test_a_server_that_does_not_answer_is_waited_for_and_explained(self) -> None:
        first = self.serve()
        os.kill(first.process or 0, signal.SIGSTOP)
        try:
            with self.assertRaises(tureen.NoServer) as caught:
                self.serve(timeout=0.3)
        finally:
            os.kill(first.process or 0, signal.SIGCONT)
        self.assertIn("does not answer: it is stopped or very busy, or it does not serve user "
                      f"{os.geteuid()} (process {first.process} holds its lock)",
                      str(caught.exception))

    def test_two_data_sets_of_one_name(self) -> None:
        for datasets in ("/a", {"train": "/a"}):
            with self.assertRaisesRegex(ValueError, "^two data sets are called 'train', '/a' and '/b'; "):
                tureen.serve(datasets, endpoint=self.endpoint, train="/b")


class NoServer(Case):
    """What is said of an endpoint without a server."""

    def check(self, endpoint: str, *parts: str, waits: bool = False) -> None:
        """waits: there may be an answer yet.  Else the time is not waited out."""
        with self.assertRaises(tureen.NoServer) as caught:
            tureen.status(endpoint, timeout=0.05 if waits else 1e6)
        guard = " --keys DIR" if endpoint.startswith("tcp") else ""
        for part in (f"no server answers at {endpoint}", "waited 0.05 s" if waits else "waited ", *parts,
                     f"Start one with: tureen serve --dataset NAME=PATH --listen {endpoint}{guard}"):
            self.assertIn(part, str(caught.exception))

    def test_paths(self) -> None:
        self.check(f"ipc://{self.folder}/none/s.sock", f"there is no folder {self.folder}/none")
        self.check(self.endpoint, "there is no such socket")
        Path(self.folder, "file").write_text("")
        self.check(f"ipc://{self.folder}/file", "is no socket")
        path = f"{self.folder}/s.sock"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            self.check(self.endpoint, "a server listens there, but it does not answer", waits=True)
        self.check(self.endpoint, "nothing listens at it: its server has died")
        #  A lock without a socket: reading its data sets.
        os.unlink(path)
        with mock.patch("tureen.finding.lives", lambda process: process == 4711):
            Path(path + ".lock").write_text("4711\n")
            self.check(self.endpoint, "process 4711 has locked it and does not listen yet", waits=True)
        self.check(self.endpoint, "there is no such socket")

    def test_ports(self) -> None:
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            port = held.getsockname()[1]
            self.check(f"tcp://127.0.0.1:{port}", "refuses the connection")
            held.listen()
            self.check(f"tcp://127.0.0.1:{port}", "no Tureen server", waits=True)

    def test_a_join_says_what_it_waits_for(self) -> None:
        """After a second, once; it goes on looking."""
        with self.assertWarnsRegex(tureen.TureenWarning, f"no server answers at {self.endpoint} yet: there "
                                   "is no such socket.*; looking for it for 5 s"):
            with self.assertRaises(tureen.NoServer):
                tureen.Loader(self.endpoint, "train", timeout=5).samples

    def test_the_command_is_for_what_was_asked(self) -> None:
        with self.assertRaises(tureen.NoServer) as caught:
            tureen.Loader(self.endpoint, "my data", timeout=0.05).samples
        self.assertIn(f"tureen serve --dataset 'my data=PATH' --listen {self.endpoint}",
                      str(caught.exception))

    @unittest.skipIf(os.geteuid() != 0, "another user's folder: needs root")
    def test_another_users_folder(self) -> None:
        os.makedirs(f"{self.folder}/private", mode=0o700)
        os.chmod(self.folder, 0o755)
        #  The folder of this process may be closed to others too, so the child has the package loaded before
        #  it changes.
        child = os.fork()
        if child == 0:
            os.setuid(65534)
            text = finding.what_is_there(f"ipc://{self.folder}/private/s.sock")
            os._exit(0 if f"{self.folder}/private belongs to user 0" in text else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)


if __name__ == "__main__":
    unittest.main()

"""The pages' loops for Ray Tune (ASHA, population-based training) and Optuna, run by the real ones against
the real server.

Debian has neither.  `sh scripts/frameworks.sh FOLDER` makes an environment with both, and
TUREEN_FRAMEWORKS_PYTHON=FOLDER/bin/python names it; else they are looked for in this Python:
    TUREEN_BIN=build/release/bin python3 tests/clients/test_torch_tune.py [-v] [NAME]

Each run trains beside Ray's or Optuna's stops, pauses and forks, and a process that kills the server in
mid-epoch.  Every epoch that a trial finishes has every sample once, whichever trial and process began it.
"""
from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent.parent / "clients" / "python"
sys.path[:0] = [str(HERE), str(HERE.parent / "system"), str(PACKAGE)]
PYTHON = os.environ.get("TUREEN_FRAMEWORKS_PYTHON") or sys.executable
PATIENCE = float(os.environ.get("TUREEN_TEST_PATIENCE", "240"))

def find(*frameworks: str) -> List[bool]:
    """Which of them PYTHON has."""
    code = ("import importlib.util, sys; "
            "print(*[int(importlib.util.find_spec(name) is not None) for name in sys.argv[1:]])")
    found = subprocess.run([PYTHON, "-c", code, *frameworks], stdout=subprocess.PIPE, text=True, check=True)
    return [word == "1" for word in found.stdout.split()]


HAS_RAY, HAS_OPTUNA = find("ray", "optuna")


def missing(framework: str) -> str:
    return (f"NOT RUN: {framework} is not installed for {PYTHON}; sh scripts/frameworks.sh FOLDER installs "
            "it, and TUREEN_FRAMEWORKS_PYTHON=FOLDER/bin/python names it")


SKIP = 77
if not HAS_RAY and not HAS_OPTUNA:
    print(f"SKIPPED, nothing was tested. {missing('Ray Tune')}\n{missing('Optuna')}", flush=True)
    sys.exit(SKIP)                      # PyTorch's import takes two seconds

import torch_or_skip                    # noqa: F401  # ends this program where there is no PyTorch

import tureen
from exactly_once import assert_exactly_once
from tureen.finding import lock_holder
from tureen.torch import DataLoader

SAMPLES, EPOCHS = 50, 2                 # 7 steps of 8 samples: three reports in an epoch
#  What the page says, and what a run of seconds needs.
WORDS = (("256, shuffle", "8, shuffle"), ("% 100", "% 2"), ("range(10)", f"range({EPOCHS})"),
         ("range(loader.epoch, 10)", f"range(loader.epoch, {EPOCHS})"), ('{"gpu": 1}', '{"cpu": 1}'),
         ("num_samples=64", "num_samples=1"),
         ("max_t=1000, grace_period=10", "max_t=1000, grace_period=1, reduction_factor=2"),
         ("perturbation_interval=5", 'time_attr="training_iteration", perturbation_interval=3'),
         ("n_trials=64", "n_trials=8"))
LOSSES = {"asha": [0.8, 0.4, 0.2, 0.1], "pbt": [0.8, 0.4, 0.2]}     # by trial
FIRST = "00000"                         # the worst
BEST = {"asha": "00003", "pbt": "00002", "optuna": "trial-3"}       # it is never stopped


def code_of(framework: str, folder: str) -> str:
    """The page's blocks that are for it, about what is in the folder."""
    from page_blocks import SOURCE, blocks
    page = blocks(SOURCE / "docs" / "clients.md")
    code = "\n".join(block.code for block in page if block.what == framework)
    for word, meant in WORDS:
        code = code.replace(word, meant)
    return code.replace('"/data/', f'"{folder}/data/')


def wait_for(what: str, condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < end, f"not within {PATIENCE:g} s: {what}"
        time.sleep(0.02)


#  What each trial does

class Trial:
    """One process's, or thread's, part of a trial.  Trials tell each other by files of `folder` how far they
    are."""

    def __init__(self, folder: str, name: str) -> None:
        self.folder = folder
        self.name = name

    @staticmethod
    def of_ray(folder: str) -> Trial:
        import ray.tune
        return Trial(folder, ray.tune.get_context().get_trial_id().rpartition("_")[2])

    def note(self, **what: Any) -> None:
        with open(f"{self.folder}/{self.name}.noted", "a", encoding="ascii") as file:
            file.write(json.dumps({"trial": self.name, "server": self.server(), **what}) + "\n")

    def server(self) -> int:
        return lock_holder(f"{self.folder}/s.sock") or 0

    def kill_server_once(self) -> None:
        try:
            os.close(os.open(f"{self.folder}/killed", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        server = wait_for("there is a server", self.server)
        self.note(killed=server)
        os.kill(server, signal.SIGKILL)


class Recorded:
    """The page's DataLoader.  It notes what came, in its states too; the best trial's kills the server."""

    def __init__(self, trial: Trial, kills: bool, *arguments: Any, **named: Any) -> None:
        self._trial = trial
        self._kills = kills
        self._loader = DataLoader(*arguments, ids=True, **named)
        self._taken: List[int] = []

    @property
    def epoch(self) -> int:
        return self._loader.epoch

    def __iter__(self) -> Iterator[Tuple[Any, Any]]:
        epoch = self._loader.epoch
        for images, labels, ids in self._loader:
            self._taken += ids.tolist()
            if self._kills and epoch == 1 and len(self._taken) > 16:
                self._trial.kill_server_once()
            yield images, labels
        self._trial.note(epoch=epoch, ids=self._taken)
        self._taken = []

    def state_dict(self) -> Dict[str, Any]:
        return {"loader": self._loader.state_dict(), "taken": list(self._taken), "trial": self._trial.name}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self._loader.load_state_dict(state["loader"])
        self._taken = list(state["taken"])
        self._trial.note(begins_from=state["trial"])


class Model:
    """It has learned what it is told to have learned."""

    def __init__(self, loss: float, before_step: Callable[[int], None] = lambda step: None) -> None:
        self._loss = loss
        self._before_step = before_step
        self._steps = 0

    def step(self, images: Any, labels: Any) -> float:
        self._steps += 1
        self._before_step(self._steps)
        return self._loss

    def validate(self) -> float:
        return self._loss

    def state_dict(self) -> Dict[str, Any]:
        return {}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        pass


class Serving:
    """The page's `tureen` in a trial of Ray: the first trial starts the server."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def serve(self, **named: Any) -> tureen.Server:
        trial = Trial.of_ray(self.folder)
        if trial.name != FIRST:
            wait_for("the first trial has a server", Path(self.folder, "served").exists)
        named["cache"] = "16M"
        server = tureen.serve(endpoint=f"ipc://{self.folder}/s.sock", workers=1, **named)
        if trial.name == FIRST:
            Path(self.folder, "served").write_text(str(os.getpid()), encoding="ascii")
        return server


def before_step_of_asha(folder: str) -> Callable[[int], None]:
    """The first trial reports when the best one has done so, and is stopped.  The best one goes on when the
    first one's process is gone."""
    trial = Trial.of_ray(folder)

    def before_step(step: int) -> None:
        if trial.name == FIRST and step == 2:
            wait_for("the best trial has reported twice", Path(folder, "ahead").exists)
        if trial.name == BEST["asha"] and step == 5:
            Path(folder, "ahead").touch()
            first = Path(folder, "served").read_text(encoding="ascii")
            wait_for("Ray ends the first trial's process", lambda: not Path(f"/proc/{first}").exists())
            trial.note(survived=trial.server())
    return before_step


def with_ray(folder: str, how: str) -> None:
    import ray
    import ray.tune
    import ray.tune.schedulers
    import torch

    def recorded(*arguments: Any, **named: Any) -> Recorded:
        trial = Trial.of_ray(folder)
        return Recorded(trial, trial.name == BEST[how], *arguments, **named)

    rates = "ray.tune.loguniform(1e-4, 1e-1)}"
    code = code_of("Ray", folder).replace(rates, f"ray.tune.grid_search({LOSSES[how]})}}", 1)
    loops, scheduler = code.split("scheduler = ray.tune.schedulers.PopulationBasedTraining")
    if how == "pbt":
        begin = loops.index("scheduler = ")
        loops = (loops[:begin] + "scheduler = ray.tune.schedulers.PopulationBasedTraining" + scheduler
                 + loops[loops.index("results = ", begin):])
    #  With fewer processors than trials, trials are paused for others.
    ray.init(num_cpus={"asha": 4, "pbt": 2}[how], include_dashboard=False, log_to_driver=True,
             object_store_memory=100 << 20, _temp_dir=f"{folder}/ray")
    try:
        known = {
            "ray": ray, "torch": torch, "tempfile": tempfile, "tureen": Serving(folder),
            "DataLoader": recorded,
            "make_model": lambda loss: Model(loss, *[before_step_of_asha(folder)] * (how == "asha"))}
        exec(compile(loops, "docs/clients.md", "exec"), known)
        assert not known["results"].errors, known["results"].errors
    finally:
        ray.shutdown()


def with_optuna(folder: str) -> None:
    import optuna

    class Threads:
        """The page's `tureen`."""
        @staticmethod
        def serve(**named: Any) -> tureen.Server:
            return tureen.serve(endpoint=f"ipc://{folder}/s.sock", workers=1, **{**named, "cache": "16M"})

    def recorded(*arguments: Any, name: str, **named: Any) -> Recorded:
        return Recorded(Trial(folder, name), name == BEST["optuna"], *arguments, name=name, **named)
    exec(compile(code_of("Optuna", folder), "docs/clients.md", "exec"), {
        "optuna": optuna, "make_model": Model, "tureen": Threads,
        "DataLoader": recorded})


#  What starts them, and looks at what they noted

class Tuning(unittest.TestCase):
    def setUp(self) -> None:
        import harness
        self.folder = tempfile.mkdtemp(prefix="tu-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        harness.make_folder(f"{self.folder}/data/train", SAMPLES)
        os.symlink("train", f"{self.folder}/data/val")
        #  Where the page's reader has nothing to say: Ray's results go to the home folder.
        self.environment = {**os.environ, "HOME": self.folder, "TMPDIR": self.folder,
                            "PYTHONPATH": str(PACKAGE), "TUREEN_SERVER": os.path.abspath(harness.TUREEN),
                            "RAY_USAGE_STATS_ENABLED": "0", "PYTHONDONTWRITEBYTECODE": "1",
                            "OMP_NUM_THREADS": "1"}
        self.addCleanup(self.end_server)

    def end_server(self) -> None:
        path = f"{self.folder}/s.sock"
        process = lock_holder(path)
        if process:
            with contextlib.suppress(ProcessLookupError):       # it may have ended by itself
                os.kill(process, signal.SIGTERM)
            wait_for("the server ends", lambda: lock_holder(path) is None)

    def run_with(self, *how: str) -> List[Dict[str, Any]]:
        """What the trials noted.  The server was killed, and every epoch has every sample once."""
        process = subprocess.Popen([PYTHON, "-B", __file__, "run", self.folder, *how], env=self.environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   start_new_session=True)
        try:
            said, _ = process.communicate(timeout=4 * PATIENCE)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)          # also what Ray has started
            process.wait()
        self.assertEqual(process.returncode, 0, said)
        print(said, flush=True)
        noted = [json.loads(line) for path in sorted(Path(self.folder).glob("*.noted"))
                 for line in path.read_text(encoding="ascii").splitlines()]
        epochs = [note for note in noted if "epoch" in note]
        for note in epochs:
            assert_exactly_once(self, note["ids"], SAMPLES)
        [killed] = [note["killed"] for note in noted if "killed" in note]
        best = BEST[how[-1]]
        self.assertNotIn(killed, [note["server"] for note in epochs
                                  if (note["trial"], note["epoch"]) == (best, EPOCHS - 1)])
        self.assertIn(best, self.finished(noted))
        return noted

    def finished(self, noted: List[Dict[str, Any]]) -> List[str]:
        return sorted({note["trial"] for note in noted if note.get("epoch") == EPOCHS - 1})


@unittest.skipUnless(HAS_RAY, missing("Ray Tune"))
class RayTune(Tuning):
    def test_asha(self) -> None:
        """The server outlives the trial that has started it, which Ray ends."""
        noted = self.run_with("ray", "asha")
        [survived] = [note["survived"] for note in noted if "survived" in note]
        [killed] = [note["killed"] for note in noted if "killed" in note]
        self.assertEqual(survived, killed, "there was one server until it was killed")
        finished = self.finished(noted)
        self.assertIn(BEST["asha"], finished)
        self.assertNotIn(FIRST, finished)

    def test_population_based_training(self) -> None:
        noted = self.run_with("ray", "pbt")
        self.assertEqual(self.finished(noted), ["00000", "00001", "00002"])
        begins = [(note["begins_from"], note["trial"]) for note in noted if "begins_from" in note]
        self.assertTrue([trial for came_from, trial in begins if came_from == trial], "a trial was paused")
        self.assertTrue([trial for came_from, trial in begins if came_from != trial], "a trial was forked")


@unittest.skipUnless(HAS_OPTUNA, missing("Optuna"))
class Optuna(Tuning):
    def test_trials_in_threads(self) -> None:
        noted = self.run_with("optuna")
        self.assertGreaterEqual(len(self.finished(noted)), 5, "of eight: the first five are not pruned")


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        {"ray": with_ray, "optuna": with_optuna}[sys.argv[3]](sys.argv[2], *sys.argv[4:])
    else:
        unittest.main()

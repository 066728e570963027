"""The steps of tests/first_hour.sh, in the Python that is to have the packages: hour.py [--only STEP]...

A step is a test program, or a part of one.  What it prints of ids (exactly_once.py) is added up.
"""
from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, List, NamedTuple, Set

SOURCE = Path(__file__).resolve().parent.parent.parent
TUREEN = Path(os.environ.get("TUREEN_BIN", SOURCE / "build" / "release" / "bin"), "tureen").resolve()
STEP_SECONDS = 600                      # a step that has not ended then is ended


class Step(NamedTuple):
    packages: str                       # beside those of ALL
    program: str
    tests: str
    counts: bool = True                 # it prints ids


ALL = "numpy pillow pyzmq"
FRAMEWORKS, TUNE = "clients/test_torch_frameworks.py", "clients/test_torch_tune.py"
STEPS = {
    "tutorial": Step("torch", "clients/test_pages.py", "Pages.test_tutorial", counts=False),
    "lightning": Step("torch lightning", FRAMEWORKS,
                      "Frameworks.test_lightning Frameworks.test_lightning_resumed"),
    "accelerate": Step("torch accelerate", FRAMEWORKS, "Frameworks.test_accelerate"),
    "trainer": Step("torch transformers[torch]", FRAMEWORKS, "Frameworks.test_trainer"),
    "asha": Step("torch ray[tune]", TUNE, "RayTune.test_asha"),
    "pbt": Step("torch ray[tune]", TUNE, "RayTune.test_population_based_training"),
    "optuna": Step("torch optuna", TUNE, "Optuna"),
    "notebook": Step("torch nbclient ipykernel", "first_hour/test_notebook.py", ""),
    "keras": Step("keras jax", "clients/test_python_keras.py", "Passes.test_keras"),
    "jax": Step("jax", "first_hour/test_jax.py", ""),
}


class Result(NamedTuple):
    seconds: float
    seen: int
    expected: int
    faults: List[str]

    def row(self, name: str) -> str:
        ids = f"{self.seen:9} {self.expected:9}" if self.expected else f"{'-':>9} {'-':>9}"
        return f"{name:12} {self.seconds:7.1f} {ids}  {', '.join(self.faults) or 'pass'}"


def packages_of(names: List[str]) -> List[str]:
    return sorted({word for name in names for word in f"{ALL} {STEPS[name].packages}".split()})


def install(packages: List[str]) -> None:
    """What is missing of them."""
    print(f"packages: {' '.join(packages)}", flush=True)
    begin = time.monotonic()
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                    *packages], check=True)
    seconds = time.monotonic() - begin
    versions = [f"{name} {importlib.metadata.version(name)}"
                for name in (package.partition("[")[0] for package in packages)]
    print(f"{seconds:.0f} s to install: Python {sys.version.split()[0]}, {', '.join(versions)}", flush=True)


def servers() -> Set[int]:
    """Processes of this build's server."""
    found = set()
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and Path(os.readlink(f"/proc/{entry}/exe")) == TUREEN:
                found.add(int(entry))
        except OSError:
            pass
    return found


def run(step: Step) -> Result:
    there, begin = servers(), time.monotonic()
    environment = {**os.environ, "TUREEN_BIN": str(TUREEN.parent), "KERAS_BACKEND": "jax",
                   "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    program = str(SOURCE / "tests" / step.program)
    process = subprocess.Popen([sys.executable, "-u", "-W", "ignore", program, "-v", *step.tests.split()],
                               env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
    faults = []
    try:
        said = process.communicate(timeout=STEP_SECONDS)[0]
    except subprocess.TimeoutExpired:
        faults.append(f"not over after {STEP_SECONDS} s")
        os.killpg(process.pid, signal.SIGKILL)
        said = process.communicate()[0]
    seconds = time.monotonic() - begin
    pairs = [(int(seen), int(expected))
             for seen, expected in re.findall(r"\bids: (\d+) of (\d+)$", said, re.MULTILINE)]
    if process.returncode:
        faults.append(f"status {process.returncode}")
    if re.search(r"SKIPPED|skipped=", said):
        faults.append("skipped")
    if step.counts != bool(pairs) or any(seen != expected for seen, expected in pairs):
        faults.append("ids")
    left = servers() - there
    if left:
        faults.append(f"servers left: {len(left)}")
        for server in left:
            os.kill(server, signal.SIGTERM)
    if faults:
        print(said, flush=True)
    return Result(seconds, sum(seen for seen, _ in pairs), sum(expected for _, expected in pairs), faults)


def main() -> int:
    parser = argparse.ArgumentParser(prog="first_hour.sh", description="a stranger's first hour with Tureen")
    parser.add_argument("--only", action="append", choices=STEPS, metavar="STEP", help=" ".join(STEPS))
    names = parser.parse_args().only or list(STEPS)
    if not TUREEN.exists():
        print(f"first_hour.sh: there is no {TUREEN}: sh scripts/build.sh release", file=sys.stderr)
        return 2
    install(packages_of(names))
    results: Dict[str, Result] = {}
    for name in names:
        print(f"==== {name}", flush=True)
        results[name] = run(STEPS[name])
    print(f"\n{'step':12} {'seconds':>7} {'ids seen':>9} {'expected':>9}")
    for name, result in results.items():
        print(result.row(name))
    return int(any(result.faults for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())

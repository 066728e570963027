"""The server of a soak: started with its tenants, watched, and judged: does anything of it grow?"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from demo_processes import DATASET, START_TIMEOUT_S, STATUS_TIMEOUT_S, Child, DemoError, Settings, environment
from soak_clients import Tenant

CACHE_BYTES = 256 << 20
WARM_PART = 0.25            # of the time, before which nothing is judged
#  Means of so many stretches are what a line is drawn through: neighbours in time are alike
BLOCKS = 12
SURE = 3.0                  # standard errors
MEMORY_MAY = 4 << 20         # that may be gained from the end of warming up to the end
DESCRIPTORS_MAY = 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What runner.sh gives, and the seed."""
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--binary", required=True, type=Path)
    parser.add_argument("--directory", required=True, type=Path)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "little"))


def make_settings(options: argparse.Namespace, users: int) -> Settings:
    """Of a server that uses the whole machine, in the directory, which gets a runtime folder.  Several users
    run copies, since a tree in a home folder is closed to others."""
    (options.directory / "runtime").mkdir(mode=0o700)
    root, binary = Path(__file__).resolve().parents[2], options.binary.resolve()
    if users > 1:
        copies = options.directory / "programs"
        for part in ("bench/demo", "bench/soak", "clients/python"):
            shutil.copytree(root / part, copies / part, ignore=shutil.ignore_patterns("__pycache__"))
        root, binary = copies, Path(shutil.copy(binary, copies))
        subprocess.run(["chmod", "-R", "go=rX", str(copies)], check=True)
    return Settings(root, binary, options.data, options.directory, CACHE_BYTES, os.cpu_count() or 1)


@dataclass(frozen=True)
class Sample:
    at_s: float
    own_bytes: int          # its heap and stacks, less the cache: neither batches nor the program's files
    shared_bytes: int       # batches
    descriptors: int


@dataclass(frozen=True)
class Slope:
    """gained: over the time judged, with its standard error."""
    mean: float
    gained: float
    error: float
    hours: float

    def is_growing(self, may: float) -> bool:
        return self.gained - SURE * self.error > may

    def per_hour(self) -> Tuple[float, float]:
        return self.gained / self.hours, self.error / self.hours


def slope(times: Sequence[float], values: Sequence[float]) -> Slope:
    """The least squares line through the means of stretches."""
    size = len(values) / BLOCKS
    bounds = [round(size * block) for block in range(BLOCKS + 1)]
    x = [sum(times[low:high]) / (high - low) for low, high in zip(bounds, bounds[1:])]
    y = [sum(values[low:high]) / (high - low) for low, high in zip(bounds, bounds[1:])]
    middle_x, middle_y = sum(x) / BLOCKS, sum(y) / BLOCKS
    spread = sum((one - middle_x) ** 2 for one in x)
    rise = sum((one - middle_x) * (other - middle_y) for one, other in zip(x, y)) / spread
    left = sum((other - middle_y - rise * (one - middle_x)) ** 2 for one, other in zip(x, y))
    error = math.sqrt(left / (BLOCKS - 2) / spread)
    seconds = times[-1] - times[0]
    return Slope(middle_y, rise * seconds, error * seconds, seconds / 3600)


class SoakServer(Child):
    """`tureen serve` for the tenants; with is_supervised, the process that watches over it."""

    def __init__(self, settings: Settings, tenants: List[Tenant], is_supervised: bool) -> None:
        self.folder = settings.directory / "server"
        self.endpoint = f"ipc://{self.folder}/server.sock"
        self._settings = settings
        command = [str(settings.binary), "serve", "--dataset", f"{DATASET}={settings.data}", "--listen",
                   self.endpoint, "--cache", str(settings.cache_bytes), "--workers", str(settings.workers)]
        self.folder.mkdir(mode=0o700)
        if is_supervised:
            command.append("--supervise")
        self.is_supervised = is_supervised
        if tenants[0].uid is not None:
            command += self.tenant_options(tenants)
        super().__init__(settings, "server", command)

    def tenant_options(self, tenants: List[Tenant]) -> List[str]:
        """All users have one group, which may reach the socket."""
        group = tenants[0].uid
        os.chown(self.folder, 0, group)
        self.folder.chmod(0o750)
        os.chmod(self._settings.directory, 0o711)
        options = ["--group", str(group)]
        for tenant in tenants:
            options += ["--tenant", f"{tenant.name}={tenant.uid}", "--tenant-datasets",
                        f"{tenant.name}={DATASET}"]
        return options

    def serving_pid(self) -> Optional[int]:
        """Of the process that serves; None while there is none."""
        if not self.is_supervised:
            return None if self.poll() else self.pid
        try:
            children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text(encoding="ascii").split()
        except OSError:
            return None
        return int(children[0]) if children else None

    def status(self) -> Optional[Dict[str, Any]]:
        try:
            done = subprocess.run([str(self._settings.binary), "status", "--connect", self.endpoint,
                                   "--json"],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  timeout=STATUS_TIMEOUT_S, check=True, env=environment(self._settings))
            found = json.loads(done.stdout)
        except (subprocess.SubprocessError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def wait_ready(self) -> Dict[str, Any]:
        until = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < until:
            if self.poll():
                raise DemoError(f"the server ended with {self.returncode}:\n{self.last_words()}")
            status = self.status()
            if status is not None:
                return status
            time.sleep(0.05)
        raise DemoError(f"the server does not answer:\n{self.last_words()}")

    def sample(self, began: float) -> Optional[Sample]:
        pid, says = self.serving_pid(), self.status()
        if says is None:
            return None
        try:
            rollup = dict(line.split()[:2]
                          for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
            own = int(rollup["Anonymous:"]) * 1024 - sum(int(says[key])
                                                         for key in ("cache_bytes", "raw_bytes",
                                                             "outgoing_bytes"))
            status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
            shared = int(status["RssShmem"].split()[0]) * 1024
            descriptors = len(os.listdir(f"/proc/{pid}/fd"))
        except (OSError, KeyError, ValueError):
            return None
        return Sample(time.monotonic() - began, own, shared, descriptors)


def judged(samples: List[Sample]) -> List[Sample]:
    """Those after warming up."""
    end = samples[-1].at_s if samples else 0
    return [sample for sample in samples if sample.at_s >= end * WARM_PART]

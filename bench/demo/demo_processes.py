"""Servers and jobs as child processes of the demo: starting, asking, ending, and what they cost.

Every child has a session of its own, so that an interrupt from the terminal reaches the demo alone, which
then ends its children in order; should the demo be killed outright, the kernel kills them.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional

from demo_plan import JobPlan, Plan

PR_SET_PDEATHSIG = 1
STATUS_TIMEOUT_S = 5.0
START_TIMEOUT_S = 900.0     # a server first walks its folders; a large one on a cold disk takes minutes
END_TIMEOUT_S = 10.0
DATASET = "train"

_libc = ctypes.CDLL(None, use_errno=True)


class DemoError(Exception):
    """Something that the demo cannot go on after; its text says what."""


@dataclass(frozen=True)
class Settings:
    """Where things are, the same for every process."""

    root: Path              # of the repository
    binary: Path            # the tureen executable
    data: str               # a folder, or an address of a store
    directory: Path         # private and temporary: sockets, locks, ids, logs
    cache_bytes: int
    workers: int
    http: Optional[str] = None  # where servers of several jobs show what they do
    disk: Optional[Path] = None # a folder where these keep the data


@dataclass(frozen=True)
class Usage:
    cpu_s: float
    peak_bytes: int


def _in_child() -> None:
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def environment(settings: Settings) -> Dict[str, str]:
    """The children's: our Python client, and a runtime directory that goes away with the demo's own."""
    result = dict(os.environ)
    result["PYTHONPATH"] = str(settings.root / "clients" / "python")
    result["PYTHONDONTWRITEBYTECODE"] = "1"
    result["XDG_RUNTIME_DIR"] = str(settings.directory / "runtime")
    return result


class Child:
    """A process, its output in NAME.out and NAME.log, and its end."""

    def __init__(self, settings: Settings, name: str, command: List[str]) -> None:
        self.name = name
        self.out = settings.directory / f"{name}.out"
        self.log = settings.directory / f"{name}.log"
        self.returncode: Optional[int] = None
        self.usage = Usage(0.0, 0)
        self.ended_at = 0.0
        with open(self.out, "wb") as out, open(self.log, "wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=log, cwd=settings.directory,
                env=environment(settings), start_new_session=True, preexec_fn=_in_child)
        self.started_at = time.monotonic()

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> bool:
        """Whether it has ended; takes its exit status and its usage when it has."""
        if self.returncode is None:
            pid, status, used = os.wait4(self.pid, os.WNOHANG)
            if pid != 0:
                self.returncode = self._process.returncode = os.waitstatus_to_exitcode(status)
                self.usage = Usage(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)
                self.ended_at = time.monotonic()
        return self.returncode is not None

    def send(self, number: signal.Signals) -> None:
        if not self.poll():
            os.kill(self.pid, number)

    def wait(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while not self.poll():
            if time.monotonic() > until:
                return False
            time.sleep(0.01)
        return True

    def end(self) -> bool:
        """SIGTERM, and SIGKILL if that does not help.  False if it took the latter."""
        self.send(signal.SIGTERM)
        if self.wait(END_TIMEOUT_S):
            return True
        self.send(signal.SIGKILL)
        self.wait(END_TIMEOUT_S)
        return False

    def last_words(self) -> str:
        """The end of what it wrote to stderr."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return "\n".join("    " + line for line in lines[-8:]) or "    (it wrote nothing)"


class Server(Child):
    """A `tureen serve` on a socket in a folder of its own, so that what it leaves there is seen."""

    def __init__(self, settings: Settings, name: str, cache_bytes: int, serves_all: bool = False) -> None:
        self.folder = settings.directory / name
        self.folder.mkdir(mode=0o700)
        self.socket = self.folder / "server.sock"
        self.endpoint = f"ipc://{self.socket}"
        self._settings = settings
        more = ["--http", settings.http] if serves_all and settings.http else []
        if serves_all and settings.disk:
            more += ["--disk", f"{settings.disk}=1T", "--keep", f"{DATASET}=yes"]
        super().__init__(settings, name, [
            str(settings.binary), "serve", "--dataset", f"{DATASET}={settings.data}",
            "--listen", self.endpoint, "--cache", str(cache_bytes),
            "--workers", str(settings.workers), *more])

    def wait_ready(self) -> Dict[str, Any]:
        """Its status, once it answers."""
        until = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < until:
            if self.poll():
                raise DemoError(f"{self.name} ended with {self.returncode}:\n{self.last_words()}")
            if self.socket.exists():
                status = self.status()
                if status is not None:
                    return status
            time.sleep(0.02)
        raise DemoError(f"{self.name} does not answer after {START_TIMEOUT_S:.0f} s:\n{self.last_words()}")

    def status(self) -> Optional[Dict[str, Any]]:
        """What `tureen status --json` says, None if it says nothing."""
        try:
            done = subprocess.run(
                [str(self._settings.binary), "status", "--connect", self.endpoint, "--json"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                timeout=STATUS_TIMEOUT_S, check=True, env=environment(self._settings),
                start_new_session=True, preexec_fn=_in_child)
            found = json.loads(done.stdout)
        except (subprocess.SubprocessError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def left_files(self) -> List[str]:
        return sorted(str(path) for path in self.folder.rglob("*"))


class Job(Child):
    """One training job: `tureen read` or a Python loop over a tureen.Loader."""

    def __init__(self, settings: Settings, plan: Plan, job: JobPlan, server: Server, prefix: str) -> None:
        self.plan = job
        self.ids = settings.directory / f"{prefix}-{job.name}.ids"
        self.killed = False
        if job.python:
            command = [sys.executable, str(settings.root / "bench" / "demo" / "demo_python_job.py"), "--name",
                       job.name]
        else:
            command = [str(settings.binary), "read", "--json", "--on-bad", "drop", "--name", job.name]
        command += ["--connect", server.endpoint, "--dataset", DATASET, "--batch", str(plan.batch),
                    "--epochs", str(job.epochs), "--rate", f"{job.rate:.3f}", "--ids", str(self.ids)]
        if plan.used < plan.samples:
            command += ["--subset", f"0:{plan.used}"]
        super().__init__(settings, f"{prefix}-{job.name}", command)

    def kill(self) -> None:
        self.killed = True
        self.send(signal.SIGKILL)
        self.wait(END_TIMEOUT_S)

    def ids_in_open_epoch(self) -> int:
        """How many ids it has written on the line that it has not ended."""
        if not self.ids.exists():
            return 0
        line = self.ids.read_text(encoding="ascii").rpartition("\n")[2]
        return len(line.split()[1:])

    def result(self) -> Dict[str, Any]:
        """The JSON object that it printed last; empty where there is none."""
        for line in reversed(self.out.read_text(errors="replace").strip().splitlines() or [""]):
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict):
                return found
        try:
            found = json.loads(self.out.read_text(errors="replace"))
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


def number(record: Optional[Dict[str, Any]], key: str) -> float:
    """A number of the status or of a job's result: 64-bit ones may be text; what is absent counts as 0."""
    value = (record or {}).get(key)
    if isinstance(value, (list, dict)):
        return float(len(value))
    try:
        return float(value) if value is not None else 0.0
    except ValueError:
        return 0.0


def processes_naming(text: str) -> List[str]:
    """Live processes, except this one and its parent, that have the text in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in (os.getpid(), os.getppid()):
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in command:
            found.append(f"process {entry.name}: {command.strip()}")
    return found


def shared_memory() -> List[str]:
    """Names in /dev/shm that are Tureen's by their name. A folder there belongs to another program."""
    try:
        return sorted(entry.name for entry in os.scandir("/dev/shm")
                      if "tureen" in entry.name and not entry.is_dir())
    except OSError:
        return []

"""Runs a peer's processes: those that prepare and serve, and its jobs side by side, timed while all run.

A run's rate is taken from the time when every job has had its first epoch (caches, compiled pipelines and
worker processes are there) for a given number of seconds, in which all jobs go on.  Everything that a peer
leaves behind is ended or removed: its processes, which are a session each, what it made in /dev/shm, and what
it mounted in its folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Iterator, List

from peer import READY, Settings
from peer_mount import unmount_below
from peer_process import WARM

HERE = Path(__file__).resolve().parent
SHARED_MEMORY = Path("/dev/shm")
#  MosaicML's are numbered, torch's and Python's have these prefixes.
LEFTOVER = re.compile(r"^(\d{6}_|torch_|psm_|sem\.mp-)")
READY_S = 120.0
WARM_S = 240.0
END_S = 60.0


class PeerError(Exception):
    """Why a peer has no figure."""


class Process:
    """`program` runs in a session of its own; it gets `arguments` after the name, the role and settings."""

    def __init__(self, name: str, role: str, settings: Settings, log: Path, program: str = "peer_process.py",
                 *arguments: str) -> None:
        self._log = log
        self.role = role
        with open(log, "wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, HERE / program, name, role, json.dumps(settings._asdict()), *arguments],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True,
                env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1"))
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read_lines, daemon=True).start()

    def _read_lines(self) -> None:
        """The last one is empty."""
        assert self._process.stdout
        for line in self._process.stdout:
            self._lines.put(line.decode(errors="replace"))
        self._lines.put("")

    def await_line(self, wanted: str, within: float) -> str:
        """Up to the first line that begins so; others are the peer's own chatter."""
        limit = time.monotonic() + within
        with contextlib.suppress(queue.Empty):
            while True:
                line = self._lines.get(timeout=max(0.0, limit - time.monotonic()))
                if not line:
                    raise PeerError(f"{self._what()} ended: {self._last_words()}")
                if line.startswith(wanted):
                    return line
        raise PeerError(f"{self._what()} did not say '{wanted}' within {within:.0f} s: {self._last_words()}")

    def tell(self) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise PeerError(f"{self._what()} ended: {self._last_words()}")

    def await_end(self, within: float) -> None:
        try:
            self._process.wait(within)
        except subprocess.TimeoutExpired:
            raise PeerError(f"{self._what()} did not end within {within:.0f} s")
        if self._process.returncode:
            raise PeerError(f"{self._what()} failed: {self._last_words()}")

    def kill(self) -> None:
        #  Its children too, which may outlive it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdin:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()

    def _what(self) -> str:
        return f"job {self.role}" if self.role.isdigit() else self.role

    def _last_words(self) -> str:
        lines = [line.strip() for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1][:200] if lines else "it wrote no error"


def free_ports(count: int) -> int:
    """The first of so many neighbours; another program can still take them before the peer does."""
    for first in range(20000, 30000, count):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + count):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
    raise PeerError("no free ports")


@contextlib.contextmanager
def cleared(directory: str) -> Iterator[None]:
    before = set(os.listdir(SHARED_MEMORY))
    try:
        yield
    finally:
        unmount_below(directory)
        for name in set(os.listdir(SHARED_MEMORY)) - before:
            path = SHARED_MEMORY / name
            if LEFTOVER.match(name) and path.is_file():
                path.unlink(missing_ok=True)


def prepare(name: str, settings: Settings) -> None:
    shutil.rmtree(settings.directory, ignore_errors=True)
    os.makedirs(settings.directory)
    process = Process(name, "prepare", settings, Path(settings.directory) / "prepare.log")
    try:
        process.await_end(READY_S)
    finally:
        process.kill()


def rate(name: str, settings: Settings, has_server: bool, seconds: float) -> float:
    """Samples a second of all jobs together."""
    directory = Path(settings.directory)
    settings = settings._replace(port=free_ports(4))
    processes: List[Process] = []
    with cleared(settings.directory):
        try:
            if has_server:
                processes.append(Process(name, "serve", settings, directory / "serve.log"))
                processes[0].await_line(READY, READY_S)
            jobs = [Process(name, str(job), settings, directory / f"{job}.log")
                    for job in range(settings.jobs)]
            processes += jobs
            return _timed(jobs, seconds)
        finally:
            for process in processes:
                process.kill()


def _timed(jobs: List[Process], seconds: float) -> float:
    for job in jobs:
        job.await_line(READY, READY_S)
    for job in jobs:
        job.tell()
    for job in jobs:
        job.await_line(WARM, WARM_S)
    began = time.monotonic()
    time.sleep(seconds)
    ended = time.monotonic()
    for job in jobs:
        job.tell()
    samples = 0
    for job in jobs:
        found = json.loads(job.await_line("{", END_S))
        samples += sum(size for at, size in zip(found["times"], found["sizes"]) if began <= at < ended)
    return samples / (ended - began)

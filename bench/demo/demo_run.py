"""One run of the demo's jobs against their servers: starts them at their times, kills the one, shows
progress."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional

from demo_plan import JobPlan, Plan
from demo_processes import Child, DemoError, Job, Server, Settings, number

TICK_S = 0.02
SHOW_TERMINAL_S, SHOW_FILE_S = 0.5, 2.0
PATIENCE = 12.0             # a run may last so many times as long as planned, and a minute
GONE_TIMEOUT_S = 5.0
MIDDLE = (0.25, 0.75)       # where in its epoch the killed job is killed


@dataclass
class Run:
    """What happened, for the report."""

    jobs: List[Job]
    servers: List[Server]
    seconds: float = 0.0
    last_status: List[Dict[str, Any]] = field(default_factory=list)
    killed_s: Optional[float] = None    # after the run began
    gone_ms: Optional[float] = None     # from SIGKILL until the server no longer listed the job ...
    ring_freed: float = 0.0             # ... and the bytes of its ring that were free then


class Live:
    """Lines that replace the ones before on a terminal; elsewhere a line now and then."""

    def __init__(self) -> None:
        self.terminal = sys.stdout.isatty()
        self._shown = 0

    def show(self, lines: List[str], short: str) -> None:
        if not self.terminal:
            print(short, flush=True)
            return
        width = shutil.get_terminal_size().columns - 1
        up = f"\x1b[{self._shown}A" if self._shown else ""
        print(up + "\n".join("\x1b[2K" + line[:width] for line in lines), flush=True)
        self._shown = len(lines)

    def close(self) -> None:
        self._shown = 0


def start_servers(settings: Settings, family: List[Child], prefix: str, count: int) -> List[Server]:
    """Servers with the cache divided between them, all of them answering."""
    servers = []
    for index in range(count):
        name = prefix if count == 1 else f"{prefix}-{index + 1}"
        server = Server(settings, name, settings.cache_bytes // count, serves_all=count == 1)
        family.append(server)
        servers.append(server)
    for server in servers:
        server.wait_ready()
    return servers


def listed_job(status: Optional[Dict[str, Any]], name: str) -> Optional[Dict[str, Any]]:
    for entry in (status or {}).get("jobs") or []:
        if isinstance(entry, dict) and entry.get("name") == name:
            return entry
    return None


def consumed(entry: Optional[Dict[str, Any]]) -> float:
    """Samples that the job has taken; a server that does not tell says how many it has sent."""
    key = "consumed_samples" if "consumed_samples" in (entry or {}) else "delivered_samples"
    return number(entry, key)


def describe_state(job: JobPlan, started: Optional[Job], now: float) -> str:
    if started is None:
        return f"joins at {job.start_s:.0f} s, now {now:.0f} s"
    if started.killed:
        return "killed"
    if started.returncode is not None:
        return "done" if started.returncode == 0 else f"FAILED ({started.returncode})"
    return ""


def progress_line(plan: Plan, job: JobPlan, entry: Optional[Dict[str, Any]], state: str) -> str:
    if entry is None:
        return f"  {job.name:<11} {state}"
    delivered = consumed(entry)
    part = min(1.0, delivered / (job.epochs * plan.used))
    bar = "#" * int(24 * part)
    waiting = entry.get("waiting_on") or ""
    return (f"  {job.name:<11} [{bar:<24}] epoch {int(number(entry, 'epoch')) + 1}/{job.epochs}"
            f"  {int(delivered):>7} samples  {number(entry, 'rate'):6.0f}/s of {job.rate:.0f}  {waiting}")


class Runner:
    """Drives one run; `family` gets every process, so that the caller can end them.

    With a kill_s the job to be killed is killed at that time.  Without, it is killed after its planned time,
    as soon as it is in the middle of an epoch of its own (a job that had to wait is elsewhere at its time).
    """

    def __init__(self, settings: Settings, plan: Plan, servers: List[Server], prefix: str,
                 family: List[Child], kill_s: Optional[float] = None) -> None:
        self._kill_s = kill_s
        self._settings, self._plan, self._prefix, self._family = settings, plan, prefix, family
        self._servers = servers
        self._started: Dict[str, Job] = {}
        self._live = Live()
        self._next_show = 0.0
        self.run = Run([], servers)

    def _server_of(self, index: int) -> Server:
        return self._servers[index % len(self._servers)]

    def _start_due(self, now: float) -> None:
        for index, job in enumerate(self._plan.jobs):
            if job.name not in self._started and now >= job.start_s:
                child = Job(self._settings, self._plan, job, self._server_of(index), self._prefix)
                self._started[job.name] = child
                self._family.append(child)

    def _kill_due(self, now: float) -> None:
        for index, job in enumerate(self._plan.jobs):
            child = self._started.get(job.name)
            if job.kill_s is None or child is None or child.killed or now < (self._kill_s or job.kill_s):
                continue
            if child.poll():
                raise DemoError(f"{job.name} ended before it could be killed:\n{child.last_words()}")
            if self._kill_s is None and not self._in_middle(child):
                continue
            self.run.killed_s = now
            before = number(self._server_of(index).status(), "ring_bytes")
            child.kill()
            self._watch_gone(child, self._server_of(index), before)

    def _in_middle(self, child: Job) -> bool:
        done = child.ids_in_open_epoch() / self._plan.used
        return MIDDLE[0] <= done <= MIDDLE[1]

    def _watch_gone(self, child: Job, server: Server, ring_before: float) -> None:
        """How soon the server knows of the death, and gets the memory of the job's ring back."""
        while time.monotonic() - child.ended_at < GONE_TIMEOUT_S:
            status = server.status()
            if status is not None and listed_job(status, child.plan.name) is None:
                self.run.gone_ms = 1000 * (time.monotonic() - child.ended_at)
                self.run.ring_freed = ring_before - number(status, "ring_bytes")
                return

    def _show(self, now: float) -> None:
        period = SHOW_TERMINAL_S if self._live.terminal else SHOW_FILE_S
        if now < self._next_show:
            return
        self._next_show = now + period
        statuses = [server.status() for server in self._servers]
        lines, short = [], []
        for index, job in enumerate(self._plan.jobs):
            child = self._started.get(job.name)
            entry = listed_job(statuses[index % len(statuses)], job.name)
            state = describe_state(job, child, now)
            lines.append(progress_line(self._plan, job, None if state else entry, state))
            epoch = consumed(entry) / self._plan.used
            short.append(f"{job.name} {state.split(' at ')[0] if state else f'{epoch:.2f}'}")
        prepared = sum(number(status, "prepared") for status in statuses)
        delivered = sum(number(status, "delivered") for status in statuses)
        per = f"{prepared / delivered:.3f}" if delivered else "-"
        server = (f"{now:5.1f} s  prepared {prepared:.0f}, delivered {delivered:.0f}, "
                  f"prepared per delivered {per}")
        self._live.show([f"  {server}"] + lines, f"  {server}; epochs: {', '.join(short)}")

    def go(self) -> Run:
        began = time.monotonic()
        limit = PATIENCE * self._plan.seconds() + 60
        while True:
            now = time.monotonic() - began
            self._start_due(now)
            self._kill_due(now)
            done = [child.poll() for child in self._started.values()]
            if len(done) == len(self._plan.jobs) and all(done):
                break
            for server in self._servers:
                if server.poll():
                    raise DemoError(f"{server.name} ended with {server.returncode}:\n{server.last_words()}")
            if now > limit:
                raise DemoError(f"the jobs are not done after {limit:.0f} s; "
                                f"the servers say {[server.status() for server in self._servers]}")
            self._show(now)
            time.sleep(TICK_S)
        self._next_show = 0.0
        self._show(time.monotonic() - began)
        self._live.close()
        self.run.jobs = [self._started[job.name] for job in self._plan.jobs]
        self.run.seconds = max(child.ended_at for child in self.run.jobs) - began
        self.run.last_status = [server.status() or {} for server in self._servers]
        return self.run


def measure_capacity(settings: Settings, family: List[Child]) -> tuple[int, float]:
    """(samples of the data set, samples a second that all workers together prepare for one unhurried job)."""
    server = Server(settings, "calibration", settings.cache_bytes)
    family.append(server)
    first = server.wait_ready()
    samples = dataset_samples(first)
    job = Child(settings, "calibration-job", [
        str(settings.binary), "read", "--connect", server.endpoint, "--dataset", "train",
        "--batch", str(max(1, min(64, samples // 8))), "--epochs", "1000000"])
    family.append(job)
    time.sleep(1.0)
    before, began = server.status(), time.monotonic()
    time.sleep(3.0)
    after, seconds = server.status(), time.monotonic() - began
    if job.poll():
        raise DemoError(f"tureen read ended with {job.returncode}:\n{job.last_words()}")
    prepared = number(after, "prepared") - number(before, "prepared")
    job.end()
    server.end()
    if prepared <= 0:
        raise DemoError(f"the server prepared nothing in {seconds:.0f} s:\n{server.last_words()}")
    return samples, prepared / seconds


def dataset_samples(status: Dict[str, Any]) -> int:
    datasets = status.get("datasets")
    entries = datasets.values() if isinstance(datasets, dict) else datasets or []
    for entry in entries:
        count = int(number(entry, "samples")) if isinstance(entry, dict) else 0
        if count > 0:
            return count
    raise DemoError(f"the server's status names no samples: {datasets}")

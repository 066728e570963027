#!/usr/bin/env python3
"""Five training jobs on one server, then each of them on a server of its own; bench/demo.sh starts this.

A short calibration finds how many samples a second this machine can prepare; together the jobs then
want half as many again.  Every epoch of every job is checked from the ids that the client got.  Exit
status 0: all finished epochs were permutations, no job failed, and nothing was left behind.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import List, NoReturn, Optional, Set

from demo_plan import Plan, make_plan
from demo_processes import Child, DemoError, Server, Settings, processes_naming, shared_memory
from demo_report import RunReport, closing, compare, job_table, kept_line, report_run
from demo_run import Run, Runner, measure_capacity, start_servers

CACHE_BYTES = 64 << 20
VERSION_BYTES = 224 * 224 * 3
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def stop(number: int, _frame: object) -> NoReturn:
    """Once: what follows is the orderly end, which no further signal may disturb."""
    ignore_signals()
    raise SystemExit(128 + number)


def ignore_signals() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def describe(plan: Plan, settings: Settings) -> List[str]:
    part = "" if plan.used == plan.samples else f", of which the jobs use ids 0 to {plan.used - 1}"
    return [
        f"{settings.data}: {plan.samples} samples{part}",
        f"this machine prepares {plan.capacity:.0f} samples a second with {settings.workers} workers; the "
        f"five jobs together want {sum(job.rate for job in plan.jobs):.0f}",
    ] + [f"  {job.name:<11} {'Python' if job.python else 'C':<7} {job.rate:6.0f} samples/s"
         + f", {job.epochs} epoch{'s' if job.epochs > 1 else ''}"
         + (f", joins after {job.start_s:.1f} s" if job.start_s else "")
         + (f", SIGKILL in mid-epoch after {job.kill_s:.1f} s" if job.kill_s is not None else "")
         for job in plan.jobs]


def end_servers(servers: List[Server], troubles: List[str]) -> None:
    """Ends them and notes what they leave in their folders."""
    for server in servers:
        if not server.end():
            troubles.append(f"{server.name} did not end on SIGTERM")
        elif server.returncode != 0:
            troubles.append(f"{server.name} ended with {server.returncode}:\n{server.last_words()}")
        troubles.extend(server.left_files())


def run_once(settings: Settings, plan: Plan, prefix: str, servers: int, family: List[Child],
             troubles: List[str], kill_s: Optional[float] = None) -> tuple[Run, RunReport]:
    started = start_servers(settings, family, prefix, servers)
    run = Runner(settings, plan, started, prefix, family, kill_s).go()
    end_servers(started, troubles)
    return run, report_run(run, plan)


def print_lines(title: str, lines: List[str]) -> None:
    print(f"\n{title}")
    print("\n".join(lines), flush=True)


def demonstrate(settings: Settings, rate: Optional[float], family: List[Child], troubles: List[str]) -> None:
    print("\nmeasuring what this machine can prepare ...", flush=True)
    samples, capacity = measure_capacity(settings, family)
    if samples < 16:
        raise DemoError(f"{settings.data} has {samples} samples; the demo needs 16")
    plan = make_plan(samples, capacity, rate)
    print("\n".join(describe(plan, settings)), flush=True)

    print("\nall five on one server", flush=True)
    run, shared = run_once(settings, plan, "shared", 1, family, troubles)
    print("\neach on a server of its own, all at once", flush=True)
    _, apart = run_once(settings, plan, "own", len(plan.jobs), family, troubles, run.killed_s)
    later: Optional[RunReport] = None
    if settings.disk:
        print("\nall five on a second server, which has what the first one kept", flush=True)
        later_run, later = run_once(settings, plan, "later", 1, family, troubles, run.killed_s)

    print_lines("One server for all", job_table(shared))
    if run.gone_ms is None:
        troubles.append("the server still listed the killed job after seconds")
    else:
        print(f"  {run.gone_ms:.0f} ms after SIGKILL the server had dropped the killed job and "
              f"{run.ring_freed / 1e6:.0f} MB of rings")
    print_lines("A server for each", job_table(apart))
    print_lines("What sharing saves", compare(shared, apart, plan))
    if later:
        print_lines("What the local disk saves", [
            f"  the first server read  {kept_line(run.last_status[0])}",
            f"  the second server read {kept_line(later_run.last_status[0])}"])
        troubles.extend(f"(second server) {fault}" for fault in later.faults())
    if shared.bad_samples:
        print(f"  {shared.bad_samples} samples cannot be decoded: no job got them")
    print("\n" + closing(shared, apart), flush=True)
    troubles.extend(shared.faults() + [f"(own server) {fault}" for fault in apart.faults()])


def clean_up(settings: Settings, family: List[Child], shared_before: Set[str], troubles: List[str]) -> None:
    """Ends what still runs, jobs before servers, and looks for what is left."""
    ignore_signals()
    for child in sorted(family, key=lambda child: isinstance(child, Server)):
        child.end()
    left = processes_naming(str(settings.directory))
    left += [f"/dev/shm/{name}" for name in shared_memory() if name not in shared_before]
    runtime = settings.directory / "runtime"
    left += [str(path) for path in runtime.rglob("*") if not path.is_dir()]
    print("left behind: " + ("nothing" if not left else "\n  ".join([""] + left)), flush=True)
    troubles.extend(f"left behind: {entry}" for entry in left)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="an ImageFolder, or s3://BUCKET/PREFIX")
    parser.add_argument("--binary", type=Path, required=True, help="the tureen executable")
    parser.add_argument("--directory", type=Path, required=True, help="a private, empty folder for sockets "
                        "and logs")
    parser.add_argument("--rate", type=float, help="samples a second of a job at full speed, instead of "
                        "calibrating it")
    parser.add_argument("--http", metavar="[ADDRESS:]PORT", help="show there what the server does, while "
                        "it runs")
    parser.add_argument("--disk", action="store_true", help="the server keeps the data on the local disk, "
                        "and a second one runs the jobs once more from there")
    options = parser.parse_args()
    if options.http:
        host = "" if ":" in options.http else "127.0.0.1:"
        print(f"to look at while it runs: http://{host}{options.http}/", flush=True)

    workers = len(os.sched_getaffinity(0))
    cache_bytes = max(CACHE_BYTES, 10 * (workers + 1) * VERSION_BYTES)
    directory = options.directory.resolve()
    (directory / "runtime").mkdir(mode=0o700)
    settings = Settings(Path(__file__).resolve().parents[2], options.binary.resolve(), options.data,
                        directory, cache_bytes, workers, options.http,
                        directory / "disk" if options.disk else None)
    family: List[Child] = []
    troubles: List[str] = []
    shared_before = set(shared_memory())
    for number in SIGNALS:
        signal.signal(number, stop)
    try:
        demonstrate(settings, options.rate, family, troubles)
    except DemoError as error:
        troubles.append(str(error))
    finally:
        clean_up(settings, family, shared_before, troubles)
    for trouble in troubles:
        print(f"demo: {trouble}", file=sys.stderr)
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())

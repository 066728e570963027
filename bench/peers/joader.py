"""JOADER's evaluation (Xie et al., NeurIPS 2022, section 5) repeated: the time that a job takes, with loaders
of its own and on one server.

    build/peers/bin/python bench/peers/joader.py --data DIR [--rounds 3] [--epochs 8] [--json FILE]

(`sh bench/peers/run.sh` makes build/peers.)  DIR is an ImageFolder of JPEGs; it is copied to /dev/shm.  Four
ways take turns:

    PyTorch     each job has a DataLoader with worker processes of its own, as in the paper
    alone       each job has a Tureen server of its own: what sharing gives is one server's figure to this
    dsa         one Tureen server with the paper's dependent sampling
    follow      one Tureen server as it is by default

A job's time goes from its start to its last batch; a row's is the mean over its jobs.  Jobs that train at
another speed sleep after each batch.  The last column is the paper's factor against PyTorch's loaders, on its
own machine and data, where it gives one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, NamedTuple, Tuple

from peer import READY, Settings, photographs
from peer_run import PeerError, Process, cleared

ROOT = Path(__file__).resolve().parents[2]
JOB_S = 300.0
WAYS = ("PyTorch", "alone", "dsa", "follow")


class Job(NamedTuple):
    samples: Tuple[int, int]    # of the photographs
    epochs: int
    start_s: float = 0.0        # after the others may begin
    step_s: float = 0.0         # after each batch


class Scenario(NamedTuple):
    title: str
    jobs: List[Job]
    paper: str = ""


def scenarios(count: int, epochs: int) -> List[Scenario]:
    found = [Scenario(f"{jobs} equal job{'s' * (jobs > 1)}", [Job((0, count), epochs)] * jobs,
                      "1.8" if jobs == 6 else "") for jobs in (1, 2, 4, 6)]
    found.append(Scenario("4 jobs, steps of 0, 20, 40, 60 ms",
                          [Job((0, count), epochs, 0.0, step) for step in (0.0, .02, .04, .06)],
                          "up to 200 %"))
    found.append(Scenario("4 jobs, a second after each other",
                          [Job((0, count), epochs, start) for start in (0.0, 1.0, 2.0, 3.0)],
                          "1.21 (derived)"))            # 1/(1 - .171)
    half = count // 2
    for overlap in (0.0, 0.5, 1.0):
        first = round(half * (1 - overlap))
        found.append(Scenario(f"2 jobs on halves, overlap {overlap:g}",
                              [Job((0, half), epochs), Job((first, first + half), epochs)]))
    return found


def time_jobs(way: str, scenario: Scenario, settings: Settings) -> float:
    """Seconds, the mean over the jobs."""
    count = len(scenario.jobs)
    module = "pytorch" if way == "PyTorch" else "tureen"
    settings = settings._replace(jobs=count, workers=max(1, -(-settings.processors // count)),
                                 policy="dsa" if way == "dsa" else "follow")
    servers = 0 if way == "PyTorch" else count if way == "alone" else 1
    processes: List[Process] = []
    with cleared():
        try:
            places = [settings._replace(directory=f"{settings.directory}/{number}")
                      for number in range(count)]
            for place in places:
                shutil.rmtree(place.directory, ignore_errors=True)
                os.makedirs(place.directory)
            for place in places[:servers]:
                processes.append(Process(module, "serve", place, Path(place.directory) / "serve.log"))
                processes[-1].await_line(READY, JOB_S)
            jobs = []
            for number, job in enumerate(scenario.jobs):
                place = places[number if servers == count else 0]
                log = Path(settings.directory) / f"{number}.log"
                jobs.append(Process(module, str(number), place, log, "joader_job.py", json.dumps(job)))
            processes += jobs
            for process in jobs:
                process.await_line(READY, JOB_S)
            for process in jobs:
                process.tell()
            return statistics.mean(json.loads(process.await_line("{", JOB_S))["seconds"] for process in jobs)
        finally:
            for process in processes:
                process.kill()


def table(plan: List[Scenario], rounds: List[Dict[Tuple[str, str], float]]) -> List[str]:
    lines = ["| | PyTorch | alone | `dsa` | `follow` | `follow` to PyTorch | to alone | JOADER's |",
             "| --- |" + " --- |" * 7]
    for scenario in plan:
        times = {way: [found[way, scenario.title] for found in rounds] for way in WAYS}
        cells = [f"{statistics.median(times[way]):.2f} s" for way in WAYS]
        for under in ("PyTorch", "alone"):
            factor = statistics.median(a / b for a, b in zip(times[under], times["follow"]))
            cells.append(f"{factor:.1f}")
        lines.append(f"| {scenario.title} | " + " | ".join(cells) + f" | {scenario.paper} |")
    return lines


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--binary", type=Path, default=ROOT / "build/release/bin/tureen")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if not options.data.is_dir():
        parser.error(f"no folder '{options.data}'")
    if options.rounds < 1 or options.epochs < 1:
        parser.error("--rounds and --epochs are at least 1")
    return options


def main() -> int:
    options = parse()
    directory = Path(tempfile.mkdtemp(prefix="peers-", dir="/dev/shm"))
    try:
        shutil.copytree(options.data, directory / "photographs")
        settings = Settings(str(directory / "photographs"), str(directory / "work"), str(options.binary),
                            1, 1, len(os.sched_getaffinity(0)), 0)
        os.makedirs(settings.directory)
        plan = scenarios(len(photographs(settings)), options.epochs)
        rounds: List[Dict[Tuple[str, str], float]] = []
        for turn in range(options.rounds):
            rounds.append({})
            for scenario in plan:
                for way in WAYS:
                    seconds = time_jobs(way, scenario, settings)
                    rounds[-1][way, scenario.title] = seconds
                    print(f"round {turn + 1}, {scenario.title}, {way}: {seconds:.2f} s", file=sys.stderr,
                          flush=True)
    except PeerError as error:
        print(f"joader: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print("\n".join(table(plan, rounds)))
    if options.json:
        options.json.write_text(json.dumps([{f"{title}, {way}": seconds for (way, title), seconds in
                                             found.items()} for found in rounds], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

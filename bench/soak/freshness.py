#!/usr/bin/env python3
"""Whether jobs on live servers get fresh orders, mix by mix; freshness.sh says how, and what the exit status
means."""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "demo"))

from demo_processes import DATASET, Child, DemoError, Settings, environment, number  # noqa: E402

SIDE_LEAST = 16                 # of a prepared sample, in pixels; decisions do not look at its size
EPOCHS = 12
WORKERS = 2
CACHE_LEAST = (WORKERS + 1) * 224 * 224 * 3     # that a server starts with
CACHES = (0.005, 0.02, 0.1, 0.27, 1.0, 3.0)     # parts of all prepared samples
SUBSET_PASSES = 6               # jobs at least, of 12: six halves fit the strata, and turn to passes later
SUBSET_CACHES = (0.005, 0.1, 3.0)
LAGS = 6
DISK_BYTES = 1 << 30            # more than any of the folders
T5H5_LEAST, T5H5_MOST = 0.5, 2.0
BATCH = 64                      # of `tureen read`
#   Over all epochs, of a cache that holds less than a batch (docs/randomness.md says why): 1.07 simulated.
PAIRS_MOST_OF_TINY_CACHE = 1.2
HALF_STAY = 2.2                 # of jobs that leave, in epochs of all samples
SURE = 4.0                      # standard deviations that a figure may be off by chance
JOB_TIMEOUT_S = 300.0

STAGES = ("random", "deterministic")
SOURCES = ("folder", "pack", "kept")            # kept: a folder, which --disk makes the like of a pack


@dataclass(frozen=True)
class JobPlan:
    """speed: beside the fastest job's; start and stay: in epochs of that one; the data are from .. to of all
    samples, or the random half of this number."""
    speed: float = 1.0
    start: float = 0.0
    first: float = 0.0
    last: float = 1.0
    half: Optional[int] = None
    stay: float = math.inf          # it is ended then, wherever it is in its epoch

    def subset(self, samples: int) -> List[Tuple[int, int]]:
        """Ranges of ids."""
        if self.half is None:
            return [(round(self.first * samples), round(self.last * samples))]
        chosen = sorted(random.Random(self.half).sample(range(samples), samples // 2))
        ranges: List[Tuple[int, int]] = []
        for sample in chosen:
            if ranges and ranges[-1][1] == sample:
                ranges[-1] = (ranges[-1][0], sample + 1)
            else:
                ranges.append((sample, sample + 1))
        return ranges


def staggered(*starts: float) -> Tuple[JobPlan, ...]:
    return tuple(JobPlan(start=start) for start in starts)


def halves(count: int, speeds: Sequence[float] = (1.0,), changing: bool = False) -> Tuple[JobPlan, ...]:
    """Jobs on random halves, which join one after the other in the first epoch of a half.  changing: every
    third leaves in mid-epoch, and another joins then."""
    plans = []
    for index in range(count):
        plan = JobPlan(speed=speeds[index % len(speeds)], start=0.5 * index / count, half=index,
                       stay=HALF_STAY if changing and index % 3 == 1 else math.inf)
        plans.append(plan)
        if plan.stay < math.inf:
            plans.append(JobPlan(speed=plan.speed, start=plan.start + plan.stay, half=count + index))
    return tuple(plans)


COMPANIES: Dict[str, Tuple[JobPlan, ...]] = {
    "1 alone": (JobPlan(),),
    "2 together": (JobPlan(),) * 2,
    "4 together": (JobPlan(),) * 4,
    "8 together": (JobPlan(),) * 8,
    "2 staggered": staggered(0, 0.5),
    "3 staggered": staggered(0, 0.33, 0.7),
    "4 staggered": staggered(0, 0.25, 0.5, 0.77),
    "8 staggered": staggered(0, 0.13, 0.25, 0.38, 0.5, 0.61, 0.77, 0.9),
    "4 speeds": tuple(JobPlan(speed=speed) for speed in (1, 0.73, 0.41, 0.23)),
    "3 overlapping": (JobPlan(last=0.75), JobPlan(start=0.3, first=0.25), JobPlan(speed=0.6)),
}
#   More parts than follow_new's strata: these draw along common passes.
SUBSETS: Dict[str, Tuple[JobPlan, ...]] = {
    "12 halves": halves(12),
    "12 halves, 2 speeds": halves(12, (1, 0.6)),
    "12 halves, changing": halves(12, (1, 0.6), changing=True),
}


@dataclass(frozen=True)
class Mix:
    company: str
    stage: str
    source: str
    cache: float
    samples: int

    @property
    def name(self) -> str:
        return f"{self.company}, {self.stage}, {self.source}, cache {100 * self.cache:g} %, {self.samples}"

    @property
    def plans(self) -> Tuple[JobPlan, ...]:
        return COMPANIES.get(self.company) or SUBSETS[self.company]

    @property
    def has_subsets(self) -> bool:
        return self.company in SUBSETS

    @property
    def versions(self) -> int:
        """Prepared samples that the cache holds."""
        return max(WORKERS + 1, round(self.cache * self.samples))

    @property
    def side(self) -> int:
        """Of a prepared sample: the smallest with which so few fill a cache that a server starts with."""
        return max(SIDE_LEAST, math.ceil(math.sqrt(CACHE_LEAST / 3 / self.versions)))

    @property
    def pipeline(self) -> str:
        size = [self.side, self.side]
        shared: List[Dict[str, Any]] = [{"op": "random_resized_crop", "size": size}]
        if self.stage == "deterministic":
            shared = [{"op": "resize", "size": self.side}, {"op": "center_crop", "size": size}]
        return json.dumps([*shared, {"share": True}, {"op": "flip", "p": 0.5}])


def subset_mixes(sizes: Sequence[int], only: str) -> List[Mix]:
    """Jobs on random halves, with nothing cached, a part, and everything, over data of each size in turn."""
    kinds = itertools.product(SUBSETS, STAGES, ("folder",), SUBSET_CACHES)
    mixes = [Mix(*kind, sizes[(index % len(SUBSET_CACHES) + index // len(SUBSET_CACHES)) % len(sizes)])
             for index, kind in enumerate(kinds)]
    return [mix for mix in mixes if only in mix.name]


def choose(count: int, sizes: Sequence[int], seed: int, only: str) -> List[Mix]:
    """Mixes in a random order, in which each size of data set comes as often as any other."""
    generator = random.Random(seed)
    kinds = list(itertools.product(COMPANIES, STAGES, SOURCES, CACHES))
    generator.shuffle(kinds)
    mixes = [Mix(*kind, sizes[index % len(sizes)]) for index, kind in enumerate(kinds)]
    return [mix for mix in mixes if only in mix.name][:count]


#   ---- data

def make_folder(folder: Path, samples: int) -> None:
    """An ImageFolder of tiny JPEGs."""
    generator = np.random.default_rng(samples)
    pictures = [Image.fromarray(generator.integers(0, 256, (24, 32, 3), dtype=np.uint8)) for _ in range(16)]
    for index in range(samples):
        path = folder / f"class_{index * 4 // samples}" / f"{index:06}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        pictures[index % len(pictures)].save(path, quality=50)


def data_of(settings: Settings, mix: Mix) -> Path:
    """The mix's folder or pack, made when it is first asked for."""
    folder = settings.directory / f"folder-{mix.samples}"
    if not folder.exists():
        make_folder(folder, mix.samples)
    if mix.source != "pack":
        return folder
    pack = settings.directory / f"pack-{mix.samples}"
    if not pack.exists():
        subprocess.run([str(settings.binary), "pack", str(folder), str(pack)], check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment(settings))
    return pack


#   ---- one mix

class Server(Child):
    """A server of its own for each mix, so that no mix finds what another left in the cache."""

    def __init__(self, settings: Settings, mix: Mix, data: Path) -> None:
        self.folder = settings.directory / "server"
        self.folder.mkdir(mode=0o700)
        self.socket = self.folder / "server.sock"
        self._settings = settings
        kept = ["--disk", f"{self.folder / 'disk'}={DISK_BYTES}", "--keep", f"{DATASET}=yes"]
        super().__init__(settings, "server", [
            str(settings.binary), "serve", "--dataset", f"{DATASET}={data}", "--listen",
            f"ipc://{self.socket}", "--cache", str(mix.versions * mix.side ** 2 * 3), "--workers",
            str(WORKERS), *(kept if mix.source == "kept" else [])])

    def command(self, name: str, *options: str) -> List[str]:
        return [str(self._settings.binary), name, "--connect", f"ipc://{self.socket}", *options]

    def status(self) -> Dict[str, Any]:
        done = subprocess.run(self.command("status", "--json"), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, check=True, env=environment(self._settings))
        return dict(json.loads(done.stdout))

    def wait_ready(self) -> None:
        until = time.monotonic() + JOB_TIMEOUT_S
        while not self.socket.exists():
            if self.poll() or time.monotonic() > until:
                raise DemoError(f"the server does not answer:\n{self.last_words()}")
            time.sleep(0.01)
        self.status()


def job_command(server: Server, mix: Mix, plan: JobPlan, ids: Path, epoch_s: float) -> List[str]:
    rate = plan.speed * mix.samples / epoch_s
    subset = plan.subset(mix.samples)
    size = sum(last - first for first, last in subset)
    #  All stay for about as long; the slow ones see fewer epochs, but enough to compare.
    epochs = max(LAGS + 1, round(EPOCHS * plan.speed * mix.samples / size))
    command = ["--dataset", DATASET, "--pipeline", mix.pipeline, "--epochs", str(epochs),
               "--rate", f"{rate:.1f}", "--ids", str(ids)]
    if size < mix.samples:
        command += ["--subset", ",".join(f"{first}:{last}" for first, last in subset)]
    return server.command("read", *command)


def play(settings: Settings, server: Server, mix: Mix, epoch_s: float) -> Tuple[List[Path], int]:
    """Runs the mix's jobs; the files of ids that they wrote, and how many draw along common passes when all
    have joined."""
    began = time.monotonic()
    jobs: Dict[int, Child] = {}
    files = [settings.directory / f"job-{index}.ids" for index in range(len(mix.plans))]
    #  A job that joins where another one leaves comes after that.
    changes = sorted([(plan.start, True, index) for index, plan in enumerate(mix.plans)]
                     + [(plan.start + plan.stay, False, index) for index, plan in enumerate(mix.plans)
                        if plan.stay < math.inf])
    try:
        for at, joins, index in changes:
            time.sleep(max(0.0, began + at * epoch_s - time.monotonic()))
            if joins:
                jobs[index] = Child(settings, f"job-{index}",
                                    job_command(server, mix, mix.plans[index], files[index], epoch_s))
            else:
                jobs[index].send(signal.SIGTERM)
        time.sleep(epoch_s)
        passes = sum(bool(job["passes"]) for job in server.status()["jobs"])
        for index, job in jobs.items():
            expected = 0 if mix.plans[index].stay == math.inf else 128 + signal.SIGTERM
            if not job.wait(JOB_TIMEOUT_S) or job.returncode != expected:
                raise DemoError(f"{mix.name}: {job.name} ended with {job.returncode}:\n{job.last_words()}")
    finally:
        for job in jobs.values():
            job.end()
    return files, passes


@dataclass
class Verdict:
    mix: Mix
    preparations: float
    phi2: List[float]           # by lag, of the worst job; NaN: not measured
    t5h5: Tuple[float, float]
    pairs: float
    faults: List[str]
    tolerated: List[str]        # pair-repeat, where the cache holds less than a batch

    def line(self) -> str:
        lags = " ".join(f"{value:6.3f}" for value in self.phi2)
        verdict = "; ".join(self.faults) if self.faults else "fresh"
        if self.tolerated:
            verdict += f" (but for a cache of less than a batch: {'; '.join(self.tolerated)})"
        return (f"{self.mix.name:61} {self.preparations:6.3f}  {lags}  {self.t5h5[0]:.2f}-{self.t5h5[1]:.2f} "
                f" {self.pairs:.2f}  {verdict}")


def values(files: List[Dict[str, Any]], key: str) -> List[Dict[str, float]]:
    return [entry[key] for entry in files if entry.get(key)]


def judge(found: Dict[str, Any], mix: Mix, preparations: float) -> Verdict:
    """By the audit's own tests, and t5h5 from below, which those of chance do not ask for."""
    files: List[Dict[str, Any]] = found["files"]
    pairs = [entry["value"] for entry in values(files, "pair_repeat")]
    tolerates_pairs = mix.versions < BATCH and max(pairs, default=0.0) < PAIRS_MOST_OF_TINY_CACHE
    faults: List[str] = []
    tolerated: List[str] = []
    for fault in found["faults"]:
        kept = tolerated if tolerates_pairs and fault["kind"] == "pairs" else faults
        kept.append(f"{Path(fault['file']).stem}: {fault['message']}")
    heads = values(files, "t5h5")
    for entry in heads:
        if entry["value"] + SURE * entry["spread"] < T5H5_LEAST:
            faults.append(f"t5h5 {entry['value']:.2f}")
        if entry["value"] - SURE * entry["spread"] > T5H5_MOST:
            faults.append(f"t5h5 {entry['value']:.2f}")
    phi2 = [max((entry["value"] for entry in values(files, "phi2" if lag == 1 else f"phi2_lag{lag}")),
                default=float("nan"))
            for lag in range(1, LAGS + 1)]
    t5h5 = [entry["value"] for entry in heads] or [float("nan")]
    return Verdict(mix, preparations, phi2, (min(t5h5), max(t5h5)), max(pairs, default=float("nan")), faults,
                   tolerated)


def run_mix(settings: Settings, mix: Mix, epoch_s: float) -> Verdict:
    server: Optional[Server] = None
    try:
        server = Server(settings, mix, data_of(settings, mix))
        server.wait_ready()
        files, passes = play(settings, server, mix, epoch_s)
        status = server.status()
    finally:
        if server is not None:
            ended = server.end()
            shutil.rmtree(server.folder, ignore_errors=True)
    if not ended or server.returncode != 0:
        raise DemoError(f"{mix.name}: the server ended with {server.returncode}:\n{server.last_words()}")
    held = ["--held"] if mix.has_subsets else []
    done = subprocess.run([str(settings.binary), "audit", "--json", *held, *map(str, files)],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False,
                          env=environment(settings))
    if done.returncode not in (0, 1):
        raise DemoError(f"{mix.name}: the audit ended with {done.returncode}")
    delivered = number(status, "delivered")
    verdict = judge(json.loads(done.stdout), mix, number(status, "prepared") / delivered if delivered
                    else float("nan"))
    if mix.has_subsets and passes < SUBSET_PASSES:
        verdict.faults.append(f"only {passes} jobs draw along common passes")
    if mix.source == "kept" and not status["datasets"][0]["pieces"]:
        verdict.faults.append("the folder was not read in pieces")
    return verdict


#   ---- all of them

def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True, type=Path)
    parser.add_argument("--directory", required=True, type=Path)
    parser.add_argument("--mixes", type=int, default=100)
    parser.add_argument("--samples")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--subsets", action="store_true")
    parser.add_argument("--epoch", type=float, default=0.5)
    return parser.parse_args()


def main() -> int:
    options = parse()
    samples = options.samples or ("600,1000" if options.subsets else "600,1000,4000")
    sizes = [int(size) for size in samples.split(",") if size]
    mixes = subset_mixes(sizes, options.only) if options.subsets else choose(
        options.mixes, sizes, options.seed, options.only)
    if not mixes or min(sizes, default=0) < 1:
        print("freshness: no such mix, or no size", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    (options.directory / "runtime").mkdir(mode=0o700)
    settings = Settings(Path(__file__).resolve().parents[2], options.binary.resolve(), options.directory,
                        options.directory, 0, WORKERS)
    print(f"{'mix':61} {'prep.':>6}  {'phi2 by lag, of the worst job':41}  t5h5       pairs  verdict")
    verdicts = []
    for mix in mixes:
        verdicts.append(run_mix(settings, mix, options.epoch))
        print(verdicts[-1].line(), flush=True)
    stale = [verdict for verdict in verdicts if verdict.faults]
    print(f"\n{len(verdicts)} mixes, {len(verdicts) - len(stale)} fresh; "
          f"{sum(verdict.preparations for verdict in verdicts) / len(verdicts):.3f} "
          f"preparations a delivery on average\n{'stale' if stale else 'good'}")
    return 1 if stale else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DemoError as error:
        print(f"freshness: {error}", file=sys.stderr)
        sys.exit(1)

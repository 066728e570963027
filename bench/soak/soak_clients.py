"""The clients of a soak: what each of them is, what is done to it, and whether it got what it should.

A *life* is one process, or one for each rank.  A client that is killed begins anew, and its next life is
another job; one that is ended in order goes on with its state, and both lives together are one job.
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, Optional, Set, Tuple

from demo_processes import DATASET, Child, Settings

#   What is done to clients of a kind, and how its jobs are.
KINDS = ("steady", "killed", "stopped", "resumed", "seeded", "inline", "python", "short", "ranks", "private",
         "listed", "stopped")
QUIET = ("steady", "seeded", "inline", "python", "private", "listed")     # nothing is done to these
SLOWEST, FASTEST = 20.0, 300.0          # samples a second, drawn so that each octave is as likely
BATCHES = (1, 8, 16, 32, 64)
RANKS = 2
STOP_S = (0.2, 6.0)                     # how long a client is stopped
LIFE_S = (3.0, 40.0)                    # how long it lives before it is killed, or ended
FIRST_UID = 30001


@dataclass
class Tenant:
    """Clients of one user.  uid None: our own, and the server knows no tenants."""
    name: str
    folder: Path
    uid: Optional[int] = None

    def command(self, command: List[str]) -> List[str]:
        """The same, as this user."""
        if self.uid is None:
            return command
        uid = str(self.uid)
        return ["setpriv", "--reuid", uid, "--regid", str(FIRST_UID), "--clear-groups", "--pdeathsig", "KILL",
                "--", *command]


@dataclass
class Finding:
    client: str
    text: str


@dataclass
class Course:
    """The files of ids of one job, an entry for each rank; ids: what it should get each epoch."""
    files: List[Path]
    ids: Set[int]
    name: str
    is_survivor: bool                   # then nothing may be missing in a finished epoch, nor come twice


@dataclass
class Tally:
    lives: int = 0
    kills: int = 0
    stops: int = 0
    resumes: int = 0
    epochs: int = 0                     # finished, and checked
    samples: int = 0
    is_aborted: bool = False            # the server, now and then
    unanswered: int = 0                 # joins that it died over
    findings: List[Finding] = field(default_factory=list)


def read_ids(path: Path) -> Tuple[Dict[int, List[int]], Optional[Tuple[int, List[int]]]]:
    """Finished epochs, and the one that is not."""
    finished: Dict[int, List[int]] = {}
    opened: Optional[Tuple[int, List[int]]] = None
    text = path.read_text(encoding="ascii") if path.exists() else ""
    for line in text.splitlines(keepends=True):
        number, colon, rest = line.partition(":")
        if not colon:
            continue                    # a process was killed in the middle of writing it
        words = rest.split()
        is_open = not line.endswith("\n") or (bool(words) and words[-1] == "...")
        if is_open:
            #  The last number may be cut.
            opened = int(number), [int(word) for word in words[:-1] if word != "..."]
        else:
            finished[int(number)] = [int(word) for word in words]
    return finished, opened


def check(course: Course, tally: Tally) -> None:
    """Each finished epoch of a survivor: every id once; anything else: none twice, none that is not the
    job's."""
    parts = [read_ids(path) for path in course.files]
    numbers = set().union(*(set(finished) for finished, _ in parts))
    for number in sorted(numbers):
        whole = all(number in finished for finished, _ in parts)
        ids = [identity for finished, _ in parts for identity in finished.get(number, [])]
        judge(course, number, ids, whole and course.is_survivor, tally)
        tally.epochs += whole
        tally.samples += len(ids)
    if len(parts) == 1 and parts[0][1] and parts[0][1][0] not in numbers:
        judge(course, parts[0][1][0], parts[0][1][1], False, tally)
        tally.samples += len(parts[0][1][1])


def judge(course: Course, epoch: int, ids: List[int], is_whole: bool, tally: Tally) -> None:
    unique = set(ids)
    if len(unique) != len(ids):
        tally.findings.append(Finding(course.name, f"epoch {epoch}: {len(ids) - len(unique)} samples twice"))
    if unique - course.ids:
        tally.findings.append(Finding(course.name, f"epoch {epoch}: {len(unique - course.ids)} samples of "
                                      "others"))
    if is_whole and course.ids - unique:
        tally.findings.append(Finding(course.name, f"epoch {epoch}: {len(course.ids - unique)} samples "
                                      "missing"))


class Client:
    """One of the soak's clients, life after life."""

    def __init__(self, settings: Settings, endpoint: str, tenant: Tenant, number: int, samples: int,
                 seconds: float, seed: int, tally: Tally) -> None:
        self.settings, self.endpoint, self.tenant, self.samples, self.tally = (settings, endpoint, tenant,
            samples, tally)
        self.kind = KINDS[number % len(KINDS)]
        self.name = f"{self.kind}-{number}"
        self.random = random.Random(f"{seed}:{number}")
        self.children: List[Child] = []
        self.courses: List[Course] = []
        self.lives = 0
        self.longest = max(LIFE_S[0], min(LIFE_S[1], seconds / 4))
        self.continues_at: Optional[float] = None       # stopped until then
        self.due_at = math.inf                          # when something is done to it
        self.is_ending = False
        self.begin_course()

    #   ---- lives

    def begin_course(self) -> None:
        """A new job."""
        low, high = 0, self.samples
        if self.random.random() < 0.5 or self.kind == "short":
            size = self.random.randrange(self.samples // 20,
                                         self.samples // (8 if self.kind == "short" else 2))
            low = self.random.randrange(self.samples - size)
            high = low + size
        self.bounds = low, high
        self.rate = math.exp(self.random.uniform(math.log(SLOWEST), math.log(FASTEST)))
        self.batch = self.random.choice(BATCHES)
        self.job_seed = self.random.getrandbits(31)
        self.course_name = f"{self.name}-{len(self.courses)}"
        ranks = RANKS if self.kind == "ranks" else 1
        files = [self.tenant.folder / f"{self.course_name}-{rank}.ids" for rank in range(ranks)]
        self.courses.append(Course(files, set(range(low, high)), self.course_name,
                                   self.kind not in ("killed",)))
        self.begin_life()

    def begin_life(self) -> None:
        course = self.courses[-1]
        self.children = [Child(self.settings, f"{self.course_name}-{rank}-{self.lives}",
                               self.tenant.command(self.command(rank, path)))
                         for rank, path in enumerate(course.files)]
        self.lives += 1
        self.tally.lives += 1
        self.due_at = math.inf
        if self.kind not in QUIET and self.kind != "short":
            self.due_at = time.monotonic() + self.random.uniform(LIFE_S[0], self.longest)

    def command(self, rank: int, ids: Path) -> List[str]:
        low, high = self.bounds
        common = ["--connect", self.endpoint, "--dataset", DATASET, "--batch", str(self.batch), "--subset",
                  f"{low}:{high}", "--rate", f"{self.rate:.2f}", "--ids", str(ids), "--name", self.name,
                  "--epochs", "1" if self.kind == "short" else "1000000"]
        if self.kind == "python":
            return [sys.executable, str(self.settings.root / "bench" / "demo" / "demo_python_job.py"),
                    *common]
        more = {"seeded": ["--seed", str(self.job_seed)], "inline": ["--inline"],
                "private": ["--order", "private"], "listed": ["--order", "list", "--recipe",
                                                              "eval"]}.get(self.kind, [])
        if self.kind == "listed":
            common = [word for word in common if word not in ("--subset", f"{low}:{high}")]
            listed = ids.with_suffix(".list")
            if not listed.exists():
                order = list(range(low, high))
                self.random.shuffle(order)
                listed.write_text("\n".join(map(str, order)), encoding="ascii")
            more += ["--list", str(listed)]
        if self.kind in ("resumed", "ranks"):
            more += ["--state", str(ids.with_suffix(".state")), "--job", self.course_name]
        if self.kind == "ranks":
            more += ["--world-size", str(RANKS), "--rank", str(rank), "--rank-wait", "60"]
        return [str(self.settings.binary), "read", "--json", "--timeout", "60", *common, *more]

    #   ---- what is done to it

    def act(self) -> None:
        """Once a turn."""
        now = time.monotonic()
        if self.continues_at is not None and now >= self.continues_at:
            self.signal(signal.SIGCONT)
            self.continues_at = None
        ended = [child for child in self.children if child.poll()]
        if ended and not self.is_ending:
            self.tell_of_end(ended)
        if len(ended) == len(self.children):
            self.go_on()
        elif now >= self.due_at:
            self.due_at = math.inf
            self.disturb(now)

    def is_unanswered(self, child: Child) -> bool:
        """A client that meets an abort in its first join has no job to continue, and is told so."""
        return self.tally.is_aborted and child.last_words().strip() == (
            f"tureen read: the connection to the server broke (server at {self.endpoint})")

    def tell_of_end(self, ended: List[Child]) -> None:
        """A client that was not ended from outside should have come to its end."""
        for child in ended:
            if child.returncode != 0 and self.is_unanswered(child):
                self.tally.unanswered += 1
            elif child.returncode != 0:
                self.tally.findings.append(Finding(self.course_name,
                    f"ended by itself with {child.returncode}:\n{child.last_words()}"))
        if any(child.returncode != 0 for child in ended):
            self.signal(signal.SIGKILL)
            self.is_ending = True

    def go_on(self) -> None:
        kind, was_ended = self.kind, self.is_ending
        self.is_ending = False
        if kind in ("resumed", "ranks") and was_ended and self.random.random() < 0.8:
            self.tally.resumes += 1
            level_states(self.courses[-1].files)
            self.begin_life()
        else:
            self.begin_course()

    def disturb(self, now: float) -> None:
        if self.kind == "killed":
            self.tally.kills += 1
            self.is_ending = True
            self.signal(signal.SIGKILL)
        elif self.kind == "stopped":
            self.tally.stops += 1
            self.signal(signal.SIGSTOP)
            self.continues_at = now + self.random.uniform(*STOP_S)
            self.due_at = self.continues_at + self.random.uniform(LIFE_S[0], self.longest)
        else:
            self.is_ending = True
            self.signal(signal.SIGTERM)

    def signal(self, number: signal.Signals) -> None:
        for child in self.children:
            child.send(number)

    def end(self) -> None:
        """In order; its ids are complete then."""
        self.is_ending = True
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        for child in self.children:
            if not child.end():
                self.tally.findings.append(Finding(self.course_name, "did not end within seconds of SIGTERM"))

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        for child in self.children:
            child.wait(10)

    def judge(self) -> None:
        for course in self.courses:
            check(course, self.tally)


def level_states(files: List[Path]) -> None:
    """Ranks that ended a step apart all go on from the state of the one that stood first."""
    states = [path.with_suffix(".state") for path in files]
    if len(states) < 2 or not all(path.exists() for path in states):
        return
    texts = [path.read_text(encoding="ascii") for path in states]
    positions = [(int(state["epoch"]), int(state["batches"])) for state in map(json.loads, texts)]
    first = texts[positions.index(min(positions))]
    for path in states:
        path.write_text(first, encoding="ascii")


def make_tenants(directory: Path, count: int) -> List[Tenant]:
    """Users, each with a folder of its own for what its clients write."""
    tenants = []
    for number in range(count):
        uid = FIRST_UID + number if count > 1 else None
        folder = directory / f"tenant-{number}"
        folder.mkdir(mode=0o700)
        if uid is not None:
            os.chown(folder, uid, FIRST_UID)
        tenants.append(Tenant(f"tenant-{number}", folder, uid))
    return tenants

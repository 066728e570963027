#!/usr/bin/env python3
"""What a hostile tenant costs another one, attack by attack; hostile.sh says how, and what the exit status
means."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, Sequence, Tuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "demo"))

from demo_processes import DATASET, Child, DemoError, processes_naming, shared_memory  # noqa: E402
from hostile_attacks import ATTACKS  # noqa: E402
from soak_clients import Tenant, make_tenants  # noqa: E402
from soak_server import SoakServer, add_arguments, make_settings  # noqa: E402

SETTLE_S = 1.5              # of a phase, not counted: what was drawn before is delivered in it
FAIR = 0.5                  # of the machine: two tenants of equal weight
LEAST_OF_FAIR = 0.9
SLOWEST_P99 = 3.0
RESTARTS_A_MINUTE = 1.0
POLITE = "polite"           # no attack: an equal job of the other tenant


@dataclass
class Figures:
    """Of all phases of a kind together: in one of them the largest of some fifty waits would stand for the
    99th percentile."""
    samples: float = 0.0
    seconds: float = 0.0
    waits: List[float] = field(default_factory=list)        # for a batch, in seconds
    served: List[float] = field(default_factory=list)       # the same, less what the victim's own threads
                                                            # waited for a processor

    def rate(self) -> float:
        return self.samples / self.seconds

    def add(self, lines: List[Tuple[float, ...]], bounds: Tuple[float, float]) -> None:
        """One phase.  One in which nothing came had one wait, as long as itself."""
        began, ended = bounds
        inside = [line for line in lines if began <= line[0] <= ended]
        self.samples += sum(line[2] for line in inside)
        self.seconds += ended - began
        self.waits += [line[1] for line in inside] or [ended - began]
        self.served += [max(0.0, line[1] - line[3]) for line in inside] or [ended - began]


@dataclass
class Row:
    before: Figures = field(default_factory=Figures)
    during: Figures = field(default_factory=Figures)
    restarts: int = 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--attack", action="append", choices=sorted({*ATTACKS, POLITE} - {"spinning"}))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--one-user", action="store_true", help="both are one user, of a server without "
                        "tenants: for comparison")
    options = parser.parse_args()
    if os.geteuid() != 0 and not options.one_user:
        parser.error("only root can be two users")
    if options.seconds < 2 * SETTLE_S:
        parser.error(f"--seconds: at least {2 * SETTLE_S:g}")
    return options


def percentile(values: Sequence[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


class Hostile:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.settings = make_settings(options, 1 if options.one_user else 2)
        self.tenants = make_tenants(options.directory, 2)
        if options.one_user:
            self.tenants = [Tenant(tenant.name, tenant.folder) for tenant in self.tenants]
        self.server = SoakServer(self.settings, self.tenants, True)
        self.children: List[Child] = []
        self.started = 0

    def start(self, tenant: Tenant, name: str, command: List[str]) -> Child:
        self.started += 1
        child = Child(self.settings, f"{name}-{self.started}", tenant.command(command))
        self.children.append(child)
        return child

    def python(self, program: str, *arguments: str) -> List[str]:
        return [sys.executable, str(self.settings.root / "bench" / "soak" / program), "--connect",
                self.server.endpoint, *arguments]

    def attackers(self, attack: str, seed: int) -> List[Child]:
        hostile = self.tenants[1]
        if attack == POLITE:
            command = [str(self.settings.binary), "read", "--connect", self.server.endpoint, "--dataset",
                       DATASET, "--epochs", "0", "--seed", str(seed)]
            return [self.start(hostile, attack, command)]
        return [self.start(hostile, attack, self.python("hostile_attacks.py", attack, "--seed",
                                                        str(seed + number)))
                for number in range(self.options.processes)]

    def restarts(self) -> int:
        return int((self.server.wait_ready()).get("restarts") or 0)

    def phase(self, attack: str, seed: int) -> Tuple[float, float]:
        """From when until when it counts."""
        attackers = self.attackers(attack, seed)
        began = time.monotonic() + SETTLE_S
        time.sleep(self.options.seconds)
        ended = time.monotonic()
        for child in attackers:
            child.send(signal.SIGKILL)
            child.wait(10)
        return began, ended

    def run(self, out: Path) -> Dict[str, Row]:
        rows: Dict[str, Row] = {}
        phases: List[Tuple[str, bool, Tuple[float, float]]] = []
        attacks = self.options.attack or [POLITE] + sorted(set(ATTACKS) - {"spinning"})
        seed = self.options.seed
        for turn in range(self.options.rounds):
            for attack in attacks:
                row = rows.setdefault(attack, Row())
                phases.append((attack, False, self.phase("spinning", seed)))
                before = self.restarts()
                phases.append((attack, True, self.phase(attack, seed)))
                row.restarts += self.restarts() - before
                seed += self.options.processes
                print(f"round {turn + 1} of {self.options.rounds}: {attack}", flush=True)
        lines = [tuple(map(float, line.split())) for line
                 in out.read_text(encoding="ascii").splitlines(keepends=True)
                 if line.endswith("\n")]
        for attack, is_attack, bounds in phases:
            (rows[attack].during if is_attack else rows[attack].before).add(lines, bounds)
        return rows


def report(rows: Dict[str, Row], options: argparse.Namespace, faults: List[str]) -> bool:
    print(f"\nthe victim beside {options.processes} process(es) of the hostile tenant, {options.rounds} "
          f"phases of {options.seconds:g} s together, seed {options.seed}")
    print(f"{'attack':10} {'samples/s':>15} {'of fair share':>14} {'p50 ms':>13} {'p99 ms':>13} "
          f"{'served p99 ms':>13} {'ratio':>6} {'most ms':>8} {'waits':>6} {'restarts':>8}")
    for attack, row in rows.items():
        before, during = row.before, row.during
        share = during.rate() / before.rate() / FAIR if before.samples else 0.0
        p99 = percentile(during.served, 0.99) / percentile(before.served, 0.99)
        print(f"{attack:10} {before.rate():7.0f} {during.rate():7.0f} {share:14.2f}"
              f" {1e3 * percentile(before.waits, 0.5):6.1f} {1e3 * percentile(during.waits, 0.5):6.1f}"
              f" {1e3 * percentile(before.waits, 0.99):6.1f} {1e3 * percentile(during.waits, 0.99):6.1f}"
              f" {1e3 * percentile(before.served, 0.99):6.1f} {1e3 * percentile(during.served, 0.99):6.1f}"
              f" {p99:6.2f} {1e3 * max(during.waits):8.1f} {len(during.waits):6} {row.restarts:8}")
        minutes = options.rounds * options.seconds / 60
        if share < LEAST_OF_FAIR:
            faults.append(f"{attack}: {share:.2f} of the fair share, at least {LEAST_OF_FAIR} was promised")
        if p99 > SLOWEST_P99 and not row.restarts:
            faults.append(f"{attack}: a p99 {p99:.2f} times as long, at most {SLOWEST_P99} was promised")
        if row.restarts > max(1.0, RESTARTS_A_MINUTE * minutes):
            faults.append(f"{attack}: the server was aborted {row.restarts} times in {minutes:.1f} minutes")
    for fault in faults:
        print("FAULT:", fault)
    print("good" if not faults else f"{len(faults)} faults")
    return not faults


def main() -> int:
    options = parse()

    def stop(number: int, frame: object) -> None:
        raise DemoError("stopped")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    hostile = Hostile(options)
    faults: List[str] = []
    try:
        hostile.server.wait_ready()
        out = hostile.tenants[0].folder / "waits"
        victim = hostile.start(hostile.tenants[0], "victim",
                               hostile.python("hostile_victim.py", "--dataset", DATASET, "--out", str(out)))
        while not out.exists() or not out.read_text(encoding="ascii"):
            if victim.poll():
                raise DemoError(f"the victim ended with {victim.returncode}:\n{victim.last_words()}")
            time.sleep(0.1)
        rows = hostile.run(out)
        if victim.poll():
            faults.append(f"the victim ended with {victim.returncode}:\n{victim.last_words()}")
        for child in hostile.children:
            child.end()
        if not hostile.server.end():
            faults.append("the server did not end within seconds of SIGTERM")
        faults += [f"left behind: {what}" for what in processes_naming(str(options.directory))
                   + shared_memory()]
        return 0 if report(rows, options, faults) else 1
    except DemoError as error:
        print(f"hostile: {error}", file=sys.stderr)
        return 1
    finally:
        for child in hostile.children:
            child.send(signal.SIGKILL)
            child.wait(10)
        hostile.server.end()


if __name__ == "__main__":
    sys.exit(main())

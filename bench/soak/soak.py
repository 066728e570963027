#!/usr/bin/env python3
"""Many clients of every kind on one server, for a long time; soak.sh says what it takes and what the exit
status means."""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "demo"))

from demo_processes import DATASET, DemoError, processes_naming, shared_memory  # noqa: E402
from soak_clients import RANKS, Client, Finding, Tally, make_tenants  # noqa: E402
from soak_server import (BLOCKS, DESCRIPTORS_MAY, MEMORY_MAY, Sample, Slope, SoakServer, add_arguments,
                         judged, make_settings, slope)

TURN_S = 0.05
SAMPLE_S = 1.0
TELL_S = 60.0
JUDGED_MINUTES = 5.0        # slopes of shorter runs are told only
AFTER_S = 30.0              # in which the server must have let go of all clients


class Stopped(Exception):
    """A signal asks for the end."""


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--tenants", type=int, default=1)
    parser.add_argument("--aborts", type=float, default=0.0)
    options = parser.parse_args()
    if options.tenants > 1 and os.geteuid() != 0:
        parser.error("--tenants: only root can be several users")
    if options.minutes * 60 < 2 * BLOCKS * SAMPLE_S:
        parser.error(f"--minutes: at least {2 * BLOCKS * SAMPLE_S / 60:g}, or there is nothing to judge")
    return options


class Soak:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.settings = make_settings(options, options.tenants)
        self.tally = Tally(is_aborted=options.aborts > 0)
        self.clients: List[Client] = []
        self.samples: List[Sample] = []
        self.aborts = 0
        self.tenants = make_tenants(options.directory, options.tenants)
        self.server = SoakServer(self.settings, self.tenants, options.aborts > 0)

    def run(self) -> None:
        status = self.server.wait_ready()
        count = next(int(dataset["samples"]) for dataset in status["datasets"] if dataset["name"] == DATASET)
        #  Those with ranks are several processes.
        number = 0
        while sum(RANKS if client.kind == "ranks" else 1 for client in self.clients) < self.options.clients:
            self.clients.append(Client(self.settings, self.server.endpoint,
                                       self.tenants[number % len(self.tenants)], number, count,
                                       self.options.minutes * 60, self.options.seed, self.tally))
            number += 1
        began = time.monotonic()
        end, sample_at, tell_at = began + self.options.minutes * 60, began, began + TELL_S
        abort_at = began + self.options.aborts if self.options.aborts else end + 1
        chance = random.Random(f"{self.options.seed}:aborts")
        while time.monotonic() < end:
            for client in self.clients:
                client.act()
            now = time.monotonic()
            if now >= sample_at:
                self.take_sample(began)
                sample_at = now + SAMPLE_S
            if now >= abort_at:
                self.abort(chance)
                abort_at = now + self.options.aborts
            if now >= tell_at:
                self.tell(now - began)
                tell_at = now + TELL_S
            time.sleep(TURN_S)
        self.tell(time.monotonic() - began)

    def take_sample(self, began: float) -> None:
        sample = self.server.sample(began)
        if sample:
            self.samples.append(sample)
        elif not self.options.aborts:
            raise DemoError(f"the server is gone:\n{self.server.last_words()}")

    def abort(self, chance: random.Random) -> None:
        pid = self.server.serving_pid()
        if pid is not None:
            os.kill(pid, chance.choice((signal.SIGABRT, signal.SIGKILL, signal.SIGSEGV)))
            self.aborts += 1

    def tell(self, seconds: float) -> None:
        last = self.samples[-1]
        print(f"{seconds / 60:6.1f} min: {self.tally.lives} lives, {last.own_bytes / 2**20:.1f} MiB of its "
              f"own, {last.shared_bytes / 2**20:.0f} MiB of batches, {last.descriptors} descriptors",
              flush=True)

    def after(self, before: Sample) -> Optional[Sample]:
        """After all clients have left: what the server still holds, as soon as it is as before."""
        until = time.monotonic() + AFTER_S
        sample = None
        while time.monotonic() < until:
            sample = self.server.sample(until)
            if (sample and sample.descriptors <= before.descriptors
                    and sample.shared_bytes <= before.shared_bytes):
                break
            time.sleep(0.2)
        return sample


def line(what: str, value: str) -> None:
    print(f"  {what:34} {value}")


def grown(what: str, slope_: Slope, unit: float, name: str, may: float) -> bool:
    rate, error = slope_.per_hour()
    line(what, f"{slope_.mean / unit:.1f} {name}, slope {rate / unit:+.2f} +- {error / unit:.2f} an hour"
               f" ({slope_.gained / unit:+.2f} in all, {may / unit:.1f} allowed)")
    return slope_.is_growing(may)


def report(soak: Soak, before: Sample, after: Optional[Sample], status: Optional[Dict[str, Any]],
           left: List[str]) -> bool:
    tally, samples, faults = soak.tally, judged(soak.samples), []
    print("\nsoak")
    line("seed, clients, tenants", f"{soak.options.seed}, {soak.options.clients}, {soak.options.tenants}")
    line("lives, kills, stops, resumes", f"{tally.lives}, {tally.kills}, {tally.stops}, {tally.resumes}")
    line("aborts of the server, joins unanswered", f"{soak.aborts}, {soak.tally.unanswered}")
    line("finished epochs, samples", f"{tally.epochs}, {tally.samples}")
    if status:
        line("prepared for each delivered", f"{status['prepared']} / {status['delivered']}")
    if not soak.options.aborts:
        times = [sample.at_s for sample in samples]
        is_long = soak.options.minutes >= JUDGED_MINUTES
        if len(samples) < BLOCKS:               # a machine on which even a look takes seconds
            line("memory and descriptors", f"looked at {len(samples)} times: too few to judge")
            faults += ["memory and descriptors were not judged"] if is_long else []
        else:
            memory = slope(times, [sample.own_bytes for sample in samples])
            descriptors = slope(times, [sample.descriptors for sample in samples])
            if grown("memory of its own", memory, 2**20, "MiB", MEMORY_MAY) and is_long:
                faults.append("the server's memory grows")
            if grown("descriptors", descriptors, 1, "open", DESCRIPTORS_MAY) and is_long:
                faults.append("the server's descriptors grow")
        if after:
            line("descriptors before, and after all", f"{before.descriptors}, {after.descriptors}")
            line("batches' memory after all", f"{after.shared_bytes} bytes")
            if after.descriptors > before.descriptors:
                faults.append("descriptors of clients that are gone stay open")
            if after.shared_bytes > before.shared_bytes:
                faults.append("memory of clients that are gone stays")
    if not tally.epochs:
        faults.append("no epoch was finished: nothing was checked")
    faults += [f"{finding.client}: {finding.text}" for finding in tally.findings] + [f"left behind: {what}"
        for what in left]
    line("each sample once an epoch", "yes" if not tally.findings else "NO")
    for fault in faults[:40]:
        print("FAULT:", fault)
    print("good" if not faults else f"{len(faults)} faults")
    return not faults


def stop(number: int, frame: Any) -> None:
    raise Stopped


def main() -> int:
    options = parse()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    print(f"seed {options.seed}: {options.clients} clients for {options.minutes:g} minutes", flush=True)
    soak = Soak(options)
    try:
        soak.server.wait_ready()
        before = soak.server.sample(0.0)
        soak.run()
        for client in soak.clients:
            client.end()
        after = soak.after(before) if before else None
        status = soak.server.status()
        if not soak.server.end():
            soak.tally.findings.append(Finding("server", "the server did not end within seconds of SIGTERM"))
        elif soak.server.returncode != 0:
            soak.tally.findings.append(Finding("server", "the server ended with "
                                               f"{soak.server.returncode}:\n{soak.server.last_words()}"))
        for client in soak.clients:
            client.judge()
        left = processes_naming(str(options.directory)) + shared_memory()
        left += [str(path) for path in soak.server.folder.rglob("*")]
        return 0 if report(soak, before, after, status, left) else 1
    except (Stopped, DemoError) as end:
        print(f"soak: {end}" if isinstance(end, DemoError) else "soak: stopped", file=sys.stderr)
        return 1
    finally:
        for client in soak.clients:
            client.kill()
        soak.server.end()


if __name__ == "__main__":
    sys.exit(main())

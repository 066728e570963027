"""What the demo's jobs got, checked from the ids that they wrote, and the tables of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Optional, Set, Tuple

from demo_plan import JobPlan, Plan
from demo_processes import Job, number
from demo_run import Run


@dataclass
class JobReport:
    job: JobPlan
    samples: int = 0            # that the client got, by its ids
    finished: int = 0           # epochs
    permutations: int = 0       # of them
    partial: int = 0            # samples of the epoch that it did not finish
    seconds: float = 0.0
    wait_s: Optional[float] = None
    faults: List[str] = field(default_factory=list)


@dataclass
class RunReport:
    jobs: List[JobReport]
    seconds: float
    prepared: float
    delivered: float
    cache_hits: float
    bad_samples: int
    cpu_s: float
    peak_bytes: int             # of the servers together

    def faults(self) -> List[str]:
        return [f"{report.job.name}: {fault}" for report in self.jobs for fault in report.faults]

    def wait_s(self) -> float:
        return sum(report.wait_s or 0.0 for report in self.jobs)


@dataclass(frozen=True)
class Epoch:
    number: int
    ids: List[int]
    finished: bool


def read_epochs(path: Path) -> List[Epoch]:
    """A line an epoch: its number, a colon, the ids in the order of delivery; ` ...` ends one that was not
    finished.

    A process that was killed leaves a last line without its end; the last number on it may be cut and is left
    out.
    """
    epochs = []
    text = path.read_text(encoding="ascii") if path.exists() else ""
    for line in text.splitlines(keepends=True):
        head, _, rest = line.partition(":")
        words = rest.split()
        whole = line.endswith("\n")
        if words and words[-1] == "...":
            words.pop()
            finished = False
        elif whole:
            finished = True
        else:
            finished = False
            words = words[:-1]
        if head.strip().isdigit():
            epochs.append(Epoch(int(head), [int(word) for word in words if word.isdigit()], finished))
    return epochs


@dataclass(frozen=True)
class Unreadable:
    """Samples that a server could not decode: they are dropped from every job's data, and `status` names
    them."""

    count: int
    named: Set[int]             # all of them, or the first of very many

    def covers(self, missing: Set[int]) -> bool:
        return len(missing) <= self.count and (missing <= self.named or len(self.named) < self.count)


def find_unreadable(status: Dict[str, Any]) -> Unreadable:
    named = set()
    for dataset in status.get("datasets") or []:
        for entry in dataset.get("bad") or [] if isinstance(dataset, dict) else []:
            if isinstance(entry, dict) and "id" in entry:
                named.add(int(entry["id"]))
    return Unreadable(int(number(status, "bad_samples")), named)


def check_epoch(epoch: Epoch, used: int, bad: Unreadable) -> Optional[str]:
    """None for a permutation of 0 .. used-1, or of a part of one; otherwise what is wrong."""
    seen = set(epoch.ids)
    if len(seen) != len(epoch.ids):
        return f"epoch {epoch.number} has {len(epoch.ids) - len(seen)} ids twice"
    if seen and max(seen) >= used:
        return f"epoch {epoch.number} has ids that are not the job's"
    if epoch.finished and not bad.covers(set(range(used)) - seen):
        return f"epoch {epoch.number} lacks {used - len(seen)} of {used} ids"
    return None


def check_job(child: Job, plan: Plan, bad: Unreadable) -> JobReport:
    report = JobReport(child.plan)
    result = child.result()
    for epoch in read_epochs(child.ids):
        report.samples += len(epoch.ids)
        fault = check_epoch(epoch, plan.used, bad)
        if fault is not None:
            report.faults.append(fault)
        if epoch.finished:
            report.finished += 1
            report.permutations += fault is None
        else:
            report.partial += len(epoch.ids)
    report.seconds = number(result, "seconds") or child.ended_at - child.started_at
    if "wait_seconds" in result:
        report.wait_s = number(result, "wait_seconds")
    if child.killed:
        if report.samples == 0:
            report.faults.append("nothing is known of what it got")
        return report
    if child.returncode != 0:
        report.faults.append(f"ended with {child.returncode}:\n{child.last_words()}")
    elif report.finished != child.plan.epochs:
        report.faults.append(f"finished {report.finished} of {child.plan.epochs} epochs")
    elif int(number(result, "samples")) != report.samples:
        report.faults.append(f"says {int(number(result, 'samples'))} samples, its ids say {report.samples}")
    return report


def report_run(run: Run, plan: Plan) -> RunReport:
    """To be called when the servers have ended: their usage is whole then."""
    def total(key: str) -> float:
        return sum(number(status, key) for status in run.last_status)

    bad = [find_unreadable(status) for status in run.last_status]
    return RunReport(
        jobs=[check_job(child, plan, bad[index % len(bad)]) for index, child in enumerate(run.jobs)],
        seconds=run.seconds,
        prepared=total("prepared"), delivered=total("delivered"), cache_hits=total("cache_hits"),
        bad_samples=max(found.count for found in bad), cpu_s=sum(server.usage.cpu_s
            for server in run.servers),
        peak_bytes=sum(server.usage.peak_bytes for server in run.servers))


def job_table(report: RunReport) -> List[str]:
    lines = [f"  {'job':<11} {'client':<7} {'samples':>8} {'epochs':>7}  {'permutations':<22}"
             f" {'samples/s':>9} {'wanted':>7} {'waited':>8}"]
    for entry in report.jobs:
        proof = f"{entry.permutations} of {entry.finished}"
        if entry.partial:
            proof += f", then {entry.partial} once"
        epochs = f"{entry.finished}" + ("+" if entry.partial else "")
        waited = "-" if entry.wait_s is None else f"{entry.wait_s:.1f} s"
        lines.append(f"  {entry.job.name:<11} {'Python' if entry.job.python else 'C':<7} {entry.samples:>8}"
                     f" {epochs:>7}  {proof:<22} {entry.samples / max(entry.seconds, 1e-9):>9.0f}"
                     f" {entry.job.rate:>7.0f} {waited:>8}")
    return lines


def kept_line(status: Dict[str, Any]) -> str:
    """From where the server had the data."""
    dataset = status["datasets"][0]
    read, pieces = dataset.get("pack") or dataset["objects"], dataset.get("pieces")
    source, kept = number(read, "source_bytes"), number(read, "block_cache_bytes")
    return (f"{source / 1e6:,.1f} MB of the data set's {number(dataset, 'bytes') / 1e6:,.1f}, and "
            f"{kept / 1e6:,.1f} MB from the local disk"
            + (f", in pieces of {pieces['piece_samples']} samples" if pieces else ""))


def ratio(shared: float, apart: float) -> str:
    return f"{shared / apart:.2f}" if apart > 0 else "-"


def compare(shared: RunReport, apart: RunReport, plan: Plan) -> List[str]:
    """Both runs' servers, side by side."""
    def got(report: RunReport) -> int:
        return max(1, sum(entry.samples for entry in report.jobs))

    rows: List[Tuple[str, float, float, str]] = [
        ("samples prepared", shared.prepared, apart.prepared, ",.0f"),
        ("samples delivered", shared.delivered, apart.delivered, ",.0f"),
        ("prepared per delivered", shared.prepared / max(1.0, shared.delivered),
         apart.prepared / max(1.0, apart.delivered), ".3f"),
        ("cache hits", shared.cache_hits, apart.cache_hits, ",.0f"),
        ("CPU seconds of the servers", shared.cpu_s, apart.cpu_s, ".1f"),
        ("CPU ms a sample that a job got", 1000 * shared.cpu_s / got(shared),
         1000 * apart.cpu_s / got(apart), ".2f"),
        ("peak memory of the servers, MB", shared.peak_bytes / 1e6, apart.peak_bytes / 1e6, ",.0f"),
        ("jobs waited for data, s in all", shared.wait_s(), apart.wait_s(), ".1f"),
        (f"seconds until all were done ({plan.seconds():.0f} at best)", shared.seconds, apart.seconds, ".1f"),
    ]
    lines = [f"  {'':<44} {'one server':>12} {'five servers':>13} {'ratio':>7}"]
    for title, one, five, form in rows:
        lines.append(f"  {title:<44} {one:>12{form}} {five:>13{form}} {ratio(one, five):>7}")
    return lines


def closing(shared: RunReport, apart: RunReport) -> str:
    def per(report: RunReport, value: float) -> float:
        return value / max(1, sum(entry.samples for entry in report.jobs))

    prepared = (shared.prepared / max(1.0, shared.delivered),
                apart.prepared / max(1.0, apart.delivered))
    cpu = (1000 * per(shared, shared.cpu_s), 1000 * per(apart, apart.cpu_s))
    return (f"Measured: one server prepared {prepared[0]:.2f} samples for each one delivered, five servers "
            f"{prepared[1]:.2f} ({ratio(*prepared)} of it);\na sample cost {cpu[0]:.2f} instead of "
            f"{cpu[1]:.2f} ms of CPU ({ratio(*cpu)}), the jobs waited {shared.wait_s():.1f} instead of "
            f"{apart.wait_s():.1f} s,\nand all were done after {shared.seconds:.1f} instead of "
            f"{apart.seconds:.1f} s ({ratio(shared.seconds, apart.seconds)}).")

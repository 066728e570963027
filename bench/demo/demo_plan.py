"""The demo's five jobs, scaled to a data set and to what this machine can prepare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional

RUN_SECONDS = 24.0          # what a run of the jobs at their full rate should last, about
DEMAND = 1.5                # what all jobs together want, over what the machine can prepare
RATES_TOGETHER = 4.5        # four jobs at the rate and one at half of it
BATCH_MAX = 64


@dataclass(frozen=True)
class JobPlan:
    name: str
    python: bool            # a tureen.Loader; otherwise `tureen read`
    rate: float             # samples a second that the job would take
    epochs: int
    start_s: float          # after the run began
    kill_s: Optional[float]     # SIGKILL then, or as soon as it is in the middle of an epoch


@dataclass(frozen=True)
class Plan:
    samples: int            # of the data set
    used: int               # ids 0 to used-1 are the jobs' data
    batch: int
    rate: float             # of a job at full speed
    capacity: float         # samples a second that this machine can prepare
    jobs: List[JobPlan]

    def seconds(self) -> float:
        """How long the run lasts if no job ever waits."""
        return max(job.start_s + job.epochs * self.used / job.rate for job in self.jobs)


def make_plan(samples: int, capacity: float, rate: Optional[float]) -> Plan:
    """Five jobs that together want more than the machine can prepare for each of them alone."""
    full = rate if rate is not None else max(1.0, DEMAND * capacity / RATES_TOGETHER)
    #  If an epoch of the whole data set would take longer than the run should, a part of it.
    used = samples if samples <= full * RUN_SECONDS else int(full * RUN_SECONDS / 2)
    batch = max(1, min(BATCH_MAX, used // 8))
    #  Even, so that half as many epochs at half the speed last as long.
    half = max(1, round(RUN_SECONDS * full / used / 2))
    epoch_s = used / full
    joined_s, killed_s = (half - 0.5) * epoch_s, (half + 0.4) * epoch_s
    jobs = [
        JobPlan("equal-1", False, full, 2 * half, 0.0, None),
        JobPlan("equal-2", True, full, 2 * half, 0.0, None),
        JobPlan("half-speed", False, full / 2, half, 0.0, None),
        JobPlan("joins-late", False, full, half, joined_s, None),
        JobPlan("killed", False, full, 2 * half, 0.0, killed_s),
    ]
    return Plan(samples, used, batch, full, capacity, jobs)

"""What the loops have reported as trained, over the jobs that gave it: with a sampler each epoch is a job."""
from __future__ import annotations

import collections
import threading
from typing import Any, Callable, Deque, NamedTuple, Optional

from ..trained import NOTHING_WAITS, TrainedPosition
from .epochs import State


class _Begun(NamedTuple):
    """A job, and the loader's state in it."""
    position: TrainedPosition
    state: Callable[[], State]


class Reports:
    """The jobs of one loader.  Any thread."""

    def __init__(self) -> None:
        #  The oldest first.  All but the newest have unreported batches.
        self._jobs: Deque[_Begun] = collections.deque()
        self._lock = threading.RLock()          # see JobPosition

    def __reduce__(self) -> Any:
        return Reports, ()                      # a loader is copied before its first job

    def begin(self, position: TrainedPosition, state: Callable[[], State]) -> None:
        """The loader has begun a job."""
        with self._lock:
            self._jobs.append(_Begun(position, state))
            self._drop_done()

    def show(self, batch: Any) -> None:
        """The loop gets this object for the batch that the newest job gave last."""
        with self._lock:
            self._jobs[-1].position.show(batch)

    def report(self, batch: Any) -> None:
        with self._lock:
            if not self._jobs:
                raise RuntimeError(NOTHING_WAITS)
            self._jobs[0].position.report(batch)
            self._drop_done()

    def state(self) -> Optional[State]:
        """The state in the oldest job that has unreported batches.  None: every batch is reported."""
        with self._lock:
            return self._jobs[0].state() if self._jobs and self._jobs[0].position.waits else None

    def report_all(self) -> None:
        """The loops have abandoned all unreported batches."""
        with self._lock:
            for begun in self._jobs:
                begun.position.report_all()
            self._drop_done()

    def _drop_done(self) -> None:
        while len(self._jobs) > 1 and not self._jobs[0].position.waits:
            self._jobs.popleft()

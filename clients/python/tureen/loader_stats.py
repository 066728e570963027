"""What a loader's `stats` says: counted here, and told by the server."""
from __future__ import annotations

import copy
from typing import Any, Dict, Optional

from . import wire
from .connection import Connection

_WAITS = ("draw", "read", "memory", "decode", "copy", "client")


class LoaderStats:
    """Of one iteration; it outlives the iterator.  Any thread."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.waited_s = 0.0
        self.batches = 0
        self.samples = 0
        #  In one of the epochs to come, as told at the end of the last; None: none ended
        self.epoch_samples: Optional[int] = None
        self._waits: Dict[str, float] = dict.fromkeys(_WAITS, 0.0)
        self._sharing: Dict[str, Any] = {}

    def told(self, status: bytes) -> None:
        """What a STATUS_REPLY says of this job."""
        job = self.connection.job
        if not status:                          # none came
            return
        jobs = wire.parse_json(status, "STATUS_REPLY").get("jobs")
        for entry in jobs if isinstance(jobs, list) and job is not None else ():
            if isinstance(entry, dict) and job is not None and entry.get("job") == job.joined.job:
                waits, sharing = entry.get("waits"), entry.get("sharing")
                if isinstance(waits, dict):
                    told = ((kind, waits.get(kind)) for kind in _WAITS)
                    self._waits.update({kind: float(spent) for kind,
                                        spent in told if isinstance(spent, (int, float))})
                if isinstance(sharing, dict):
                    self._sharing = sharing
                if "unreadable" in entry:           # not of an older server
                    job.unreadable = wire.parse_unreadable(entry["unreadable"], "STATUS_REPLY")

    def as_dict(self) -> Dict[str, Any]:
        job = self.connection.job
        unreadable = wire.NOTHING_UNREADABLE if job is None else job.unreadable
        return {"waits": dict(self._waits), "waited_s": self.waited_s, "batches": self.batches,
                "samples": self.samples, "unreadable": copy.deepcopy(dict(unreadable)),
                "sharing": dict(self._sharing), "rejoined": self.connection.rejoined}

    @staticmethod
    def nothing() -> Dict[str, Any]:
        """Of a loader that has not been used."""
        return {"waits": dict.fromkeys(_WAITS, 0.0), "waited_s": 0.0, "batches": 0, "samples": 0,
                "unreadable": copy.deepcopy(dict(wire.NOTHING_UNREADABLE)), "sharing": {}, "rejoined": 0}

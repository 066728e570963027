"""Looking for a server that is gone: what is worth another try, how soon, and what is said when it was in
vain."""
from __future__ import annotations

import logging
import math
import time
from typing import Callable, Optional

from . import standby
from .errors import (JobEnded, KeyRefused, NoServer, NotLetIn, NotTrusted, RequestRefused, ServerGone,
                     ServerStopped, TureenError)
from .finding import is_vacant

log = logging.getLogger("tureen")

#  Refusals that pass: the old server is still ending, or the new one still opens the data set; those that
#  ended with the old one are not all back, or not yet gone.  Of a job that has never run some would not:
#  there may never be the memory that it asks for.  What is left of a rank's job before goes.
_PASSING = ("stopping", "opening", "busy", "budget", "ranks_missing")
_PASSING_FIRST = ("stopping", "opening", "busy")
_PASSING_FIRST_RANK = ("stopping", "opening", "busy", "job_taken")
#  So the server says that files have changed, or what the job has of them
_OTHER = "the state is of other "
_PAUSE_MIN_S = 0.1
_PAUSE_MAX_S = 2.0
_TRY_MAX_S = 60.0


class Search:
    """Begins when the connection to the server broke.  The connection's thread."""

    def __init__(self, endpoint: str, loss: TureenError, seconds: float, *, first: bool = False,
                 ranks: bool = False, quiet: bool = False,
                 adds: Callable[[], bool] = lambda: False) -> None:
        """`loss`: what is raised where no server is looked for; `seconds`: how long, math.inf: until it is
        found.  `first`: the job has not been joined yet.  `quiet`: not for this job's own sake.  `adds`: a
        server that lacks the job's data set gets it from this process."""
        self._endpoint = endpoint
        self._loss = loss
        self._seconds = seconds
        self._first = first
        self._passing = _PASSING if not first else _PASSING_FIRST_RANK if ranks else _PASSING_FIRST
        self._adds = adds
        self._begin = time.monotonic()
        self._pause_s = _PAUSE_MIN_S
        self._refusal: Optional[TureenError] = None
        self._ranks = ""                # what the server that is there again says of other ranks
        self._warn, self._complain = (log.debug, log.debug) if quiet else (log.warning, log.error)
        self._warn("%s; it is looked for %s", _sentence(loss), _span(seconds))

    def patience_s(self, most_s: float) -> float:
        """For one try: a host that broke down looks like a server that is slow to answer."""
        return max(0.0, min(most_s, _TRY_MAX_S, self.left_s()))

    def left_s(self) -> float:
        return self._seconds - (time.monotonic() - self._begin)

    def failed(self, error: TureenError) -> float:
        """A try failed.  Gives the pause before the next one, in seconds; raises what no further try will
        mend, or that the time is over."""
        if self._may_pass(error):
            if _lacks_data(error):
                standby.complete(self._endpoint)
            if self._refusal is None or _kind(self._refusal) != _kind(error):
                self._warn("the server at %s does not take the job yet: %s", self._endpoint, error)
            self._refusal = error
        elif not isinstance(error, NoServer) or isinstance(error, (KeyRefused, NotTrusted)):
            if not self._first and isinstance(error, RequestRefused) and error.message.startswith(_OTHER):
                error = RequestRefused(error.code, f"the server that is back at {self._endpoint} serves "
                                       "other data, with which the job cannot go on: give the files back as "
                                       f"they were, or begin anew ({error.message})")
            self._complain("the job cannot be %s at %s: %s", "begun" if self._first else "gone on with",
                           self._endpoint, error)
            raise error
        else:
            #  What refused it is gone too: it is no longer why the job waits.
            self._refusal, self._pause_s = None, _PAUSE_MIN_S
        if self.left_s() <= 0:
            raise self._in_vain()
        if self._refusal is None:
            return _PAUSE_MIN_S         # ZeroMQ has been connecting all the time
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, _PAUSE_MAX_S)
        return min(pause_s, self.left_s())

    def wait_for_ranks(self, text: str) -> None:
        """A server is there, and waits for others.  It is said once."""
        if not self._ranks:
            self._warn("the server at %s is back, and waits for the other ranks: %s", self._endpoint, text)
        self._ranks = text

    def found(self) -> None:
        self._warn("the server at %s is back after %.1f s: the job %s", self._endpoint,
                   time.monotonic() - self._begin, "begins" if self._first else "goes on")

    def _may_pass(self, error: TureenError) -> bool:
        """A server that has other keys, or none, may be the wrong one, and ours be back in a while."""
        if isinstance(error, RequestRefused):
            return error.code in self._passing or self._adds() and _lacks_data(error)
        return isinstance(error, NotLetIn) and not isinstance(error, (KeyRefused, NotTrusted))

    def _in_vain(self) -> TureenError:
        why = "and it did not come back"
        if self._refusal is not None or self._ranks:
            why = f"and it takes no job: {self._refusal or self._ranks}"
        trouble = standby.trouble(self._endpoint)
        if trouble:
            what = "started again" if is_vacant(self._endpoint) else "given what it lacks"
            why += f", nor could it be {what} ({trouble})"
        remedy = "" if self._first else ", and go on from the loader's state_dict()"
        text = (f"{_sentence(self._loss)}; it was looked for {_span(self._seconds)} (rejoin), {why}. Start "
                f"it{remedy}, or give a larger rejoin (math.inf: until it is back)")
        self._complain("%s", text)
        if self._first:
            return NoServer(text)
        return ServerStopped("stopping", text) if isinstance(self._loss, ServerStopped) else ServerGone(text)


def _lacks_data(error: TureenError) -> bool:
    return isinstance(error, RequestRefused) and error.code == "unknown_dataset"


def _kind(error: TureenError) -> str:
    return error.code if isinstance(error, RequestRefused) else type(error).__name__


def _span(seconds: float) -> str:
    return "until it is back" if seconds == math.inf else f"during {seconds:g} s"


def _sentence(error: TureenError) -> str:
    return error.message if isinstance(error, JobEnded) else str(error)

"""A job at the server, or one job after another if servers come and go, and the background thread that
carries them.

    happy path:     the thread joins (session.py); batches go into `arrivals`, until the user is done.
    failure modes:  what ends the job is kept as the outcome and follows the delivered batches through
                    `arrivals`.  If a server is gone, the thread looks for it as long as the user wants
                    (rejoining.py), and joins again where the received batches end: to the user the next job's
                    batches are this job's.
    on close:       the thread leaves the job when the last view of its batches is gone, and waits with it.
                    At the interpreter's exit it does not wait.  While it looks for a server there is nothing
                    to leave.

Only the thread touches the sockets.  Other threads write plain attributes, append to deques and wake it
through a socket pair.  `leave` may run inside a garbage collection, so it takes no lock and waits for
nothing; `finish` waits for the thread.

Nothing that the connection holds leads back to it, so that reference counting alone frees it and the batches
that the user has not taken.
"""
from __future__ import annotations

import atexit
import collections
import math
import os
import queue
import signal
import threading
import time
from contextlib import nullcontext
from typing import Callable, Deque, Dict, Iterator, List, Optional

from . import adding, standby, wire
from .errors import (LoaderClosed, NoServer, NotLetIn, ProtocolError, RequestRefused, ServerStopped,
                     TureenError, bare)
from .finding import is_vacant, listens, starting, what_is_there
from .job import Item, Job
from .keys import Keys
from .mapping.mapper import Mapper
from .names import Name
from .position import JobPosition
from .question_queue import QuestionQueue
from .recent_steps import RecentSteps
from .rejoining import Search
from .request import Request
from .session import FAREWELL_S, LEAVE_PATIENCE_S, BrokenOff, Left, Session
from .state import State
from .waker import Waker

_AGAIN_S = 0.05             # a server that went away while it was asked
_REFUSED_AGAIN_S = 0.25     # one that has not buried yet what this rank, or the process before it, had there
_LOOK_S = 10.0              # of a look for a data set that has another name by now
_GHOST_S = 3.0              # which is found dead in less
#  Pauses, after which a server that had no room for another job is asked again
_BUSY_S = (0.25, 0.5, 1.0, 2.0)
_QUIET_S = 1.0              # of a join that gets no answer, before the user hears what it waits for
GATHERING_QUIET_S = 10.0    # that is waited for other ranks before the user hears of it
#  The user's thread waits for nothing that could take longer than the connection's own limits.
_JOIN_THREAD_S = LEAVE_PATIENCE_S + FAREWELL_S + 1.0


class Connection:
    def __init__(self, endpoint: str, request: Request, timeout: float, *, rejoin: float = 0.0,
                 instance: str = "", begin: Optional[State] = None, again: bool = False,
                 keys: Optional[Keys] = None, mapper: Optional[Mapper] = None) -> None:
        """`again`: this loader had a job of that name just before, which other ranks may not have left
        yet."""
        #  Set at birth
        self.endpoint = endpoint
        self.pid = os.getpid()
        self.request = request
        self.instance = instance
        self.keys = keys
        self.mapper = mapper            # batches are handed to it as they come
        self.waker = Waker()
        self._timeout = timeout
        self._rejoin = rejoin
        self._begin = begin
        self._again = again
        self._thread = threading.Thread(target=self._run, name="tureen", daemon=True)
        #  Set by the thread, the first time before `start` returns
        self.job: Optional[Job] = None
        #  From the user's threads to the connection's
        self.leaving = False
        self.abandoned = False
        self.questions = QuestionQueue()
        #  From the connection's thread to the user's.  None marks the end and stays in the queue.
        self.arrivals: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self.notices: Deque[wire.Notice] = collections.deque()
        self.rejoined = 0
        self.last_status = b""          # STATUS_REPLY, asked for while leaving
        self.concluded = False          # nothing more will be put into arrivals
        self._outcome: Optional[TureenError] = None
        self._waiting_for_ranks = ""    # what the server says of the others, while they are waited for
        self._settled = threading.Event()
        self._ended = False             # the thread has nothing to do any more
        #  The connection's thread only
        self.received: JobPosition
        self.recent: Optional[RecentSteps] = None   # with ranks only
        self._heard_at = -math.inf      # while it joins with others: the server lived
        self._search: Optional[Search] = None

    #  The user's side

    def start(self, tell: Callable[[str, str], None]) -> wire.Joined:
        """Joins; raises what the job was refused with.  Ctrl-C breaks it off.  Whatever it raises, the caller
        finishes.  `tell` is told what is waited for where that takes long, perhaps several times: `waiting`
        for a server, or `gathering` other ranks, and a sentence."""
        standby.prepare(self.endpoint)
        self._thread.start()
        if not self._settled.wait(_QUIET_S) and not listens(self.endpoint):
            tell("waiting", f"no server answers at {self.endpoint} yet: {what_is_there(self.endpoint)}; "
                            f"looking for it for {self._timeout:g} s")
        while not self._settled.wait(None if self.request.world_size == 1 else GATHERING_QUIET_S):
            if self._waiting_for_ranks:
                tell("gathering", self._waiting_for_ranks)
        if self.job is None:
            self.raise_outcome()
            raise LoaderClosed("the job was left before it had begun")
        return self.job.joined

    @property
    def usable(self) -> bool:
        return self._thread.is_alive() and not self.leaving and not self.concluded

    @property
    def lent(self) -> int:
        """Batches in the job's ring that the user can still see.  What earlier jobs lent concerns no server
        any more."""
        return self.job.slots.lent if self.job else 0

    def close_unused(self) -> None:
        """Instead of `start`: there is nothing to fetch."""
        self._close()
        self.conclude(None)

    def raise_outcome(self) -> None:
        """Raises what ended the job, if it did not end well.  A new exception each time: no old
        tracebacks."""
        if self._outcome is not None:
            raise bare(self._outcome)

    def take(self, into: Deque[Item]) -> None:
        """Adds what comes next, without waiting; queue.Empty where that is not known yet."""
        #  From the queue to there in one step of the interpreter: Ctrl-C comes before it or behind it.
        into.extend(map(self.arrivals.get, (False,)))

    def wait(self, into: Deque[Item]) -> None:
        """The same, waiting.  None at the end; the caller puts it back for other waiting threads."""
        #  The server may fill the last slot only once it knows what was consumed.  Consuming alone does not
        #  wake the connection's thread.
        job = self.job
        if job is not None and job.reported[0] != job.consumed:
            self.wake()
        into.extend(map(self.arrivals.get, (True,)))

    def leave(self) -> None:
        """The user is done; the thread does the rest, once the last view is gone.  Waits for nothing: a
        finalizer's."""
        if self.pid != os.getpid():
            return
        self.leaving = True
        self.arrivals.put(None)         # for a thread that waits for a batch
        self.wake()
        if self._ended:
            self._forget()

    def finish(self) -> None:
        """As leave, and waits for the thread's end, unless views are still held."""
        self.leave()
        if self.pid == os.getpid() and not self.lent:
            self.join_thread()

    def abandon(self) -> None:
        """As leave, whatever is held: the process ends."""
        self.abandoned = True
        self.leaving = True
        self.wake()

    def join_thread(self) -> None:
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(_JOIN_THREAD_S)
        if not self._thread.is_alive():
            self._forget()

    def wake(self) -> None:
        self.waker.wake()

    def _forget(self) -> None:
        """The user has left: no thread will ask for the batches that lie ready."""
        if self.job is not None:
            self.job.memory = self.job.shared = None
        while True:
            try:
                self.arrivals.get_nowait()
            except queue.Empty:
                break
        self.arrivals.put(None)

    #  The thread

    def wait_for_ranks(self, text: str) -> None:
        """The server lives, and other ranks are to come."""
        self._waiting_for_ranks, self._heard_at = text, time.monotonic()
        if self._search is not None:
            self._search.wait_for_ranks(text)

    def conclude(self, outcome: Optional[TureenError]) -> None:
        """Nothing more will be delivered.  The first outcome counts: a job that is complete stays so."""
        if not self.concluded:
            self.concluded = True
            self._outcome = None if outcome is None else bare(outcome)
            self.arrivals.put(None)

    def _run(self) -> None:
        _live[self] = None
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            self._carry()
        except Left:
            pass
        except TureenError as error:
            self.conclude(error)
        except Exception as error:
            self.conclude(ProtocolError(f"the client's own thread failed: {error!r}"))
        finally:
            self._close()

    def _carry(self) -> None:
        session = self._joined_first()
        self._settled.set()
        while True:
            try:
                loss = session.serve()
            finally:
                self._let_go(session)
            if loss is None or self.leaving or self.concluded and not self._others_may_lack_steps():
                return
            if not self._rejoin:
                raise loss
            session = self._found_again(loss)

    def _others_may_lack_steps(self) -> bool:
        """This rank has got everything, and others perhaps not: they can only go on with it."""
        return self.recent is not None and self._outcome is None

    def _joined_first(self) -> Session:
        #  A server that tureen.serve knows may have ended since, idle, or be dying: the system closes its
        #  socket before its process is gone.
        is_away = self._rejoin > 0 and not listens(self.endpoint)
        with standby.kept_up(self.endpoint, lambda: self._rejoin, True) if is_away else nullcontext():
            try:
                return self._joined_in_time()
            except (NoServer, RequestRefused) as error:
                loss = self._lost_first(error)
                if isinstance(error, RequestRefused) and error.code == "unknown_dataset" and self._adds and (
                        is_away or self._is_another):
                    loss = NoServer(error.message)
                if loss is None:
                    raise
            return self._found_again(loss)

    def _lost_first(self, error: TureenError) -> Optional[TureenError]:
        """What is to be said of a server that is looked for although no job has been joined there: it went
        away, is ending, is only starting, still opens the data set, or can be started again.  None: it is not
        looked for."""
        if not self._rejoin or isinstance(error, NotLetIn):
            return None
        if isinstance(error, RequestRefused):
            if error.code == "opening":
                return NoServer(error.message)      # it may be started again
            return error if error.code == "stopping" else None
        if isinstance(error, BrokenOff) or (standby.starts(self.endpoint) and is_vacant(self.endpoint)):
            return error
        return starting(self.endpoint)

    def _joined_in_time(self) -> Session:
        begin, left_s, busy = time.monotonic(), self._timeout, iter(_BUSY_S)
        while True:
            pause_s = _AGAIN_S
            try:
                return self._joined(self._begin, left_s)
            except (BrokenOff, RequestRefused) as error:
                if self._lost_first(error):
                    raise
                if isinstance(error, RequestRefused):
                    if self._passes(error, begin):
                        pause_s = _REFUSED_AGAIN_S
                    else:
                        pause_s = self._pause_if_busy(error, busy)
                    if pause_s == math.inf:
                        raise
                #  A rank that a server had waiting for others has as long again for the next one.
                left_s = round(max(begin, self._heard_at) + self._timeout - time.monotonic(), 2)
                if left_s <= pause_s:
                    raise
            self._pause(pause_s)

    def _pause_if_busy(self, refused: RequestRefused, pauses: Iterator[float]) -> float:
        """Before the same is asked again; math.inf: that is no use, or was done often enough."""
        return next(pauses, math.inf) if self.request.world_size == 1 and refused.code == "busy" else math.inf

    def _passes(self, refused: RequestRefused, begin: float) -> bool:
        """Another try may mend it: the server still opens the data set; or what a rank is refused for can be
        what is left of the job before, or a server that ends while it has this one waiting."""
        if refused.code == "opening":
            return True
        if self.request.world_size == 1 or refused.code not in ("busy", "job_taken", "stopping"):
            return False
        if refused.code == "stopping":
            return True
        self._heard_at = time.monotonic()
        return self._heard_at - begin < (self.request.gather_s if self._again and refused.code == "job_taken"
                                         else _GHOST_S)

    def _joined(self, state: Optional[State], patience_s: float, gather_s: Optional[float] = None) -> Session:
        if self._adds and self._is_another:
            raise RequestRefused("unknown_dataset", f"the server at {self.endpoint} is another one, which is "
                                 f"to get data set {self.request.dataset!r} first")
        try:
            return self._joined_by_name(state, patience_s, gather_s)
        except RequestRefused as refused:
            #  To another server the standby adds it, with a patience of its own.
            adds = not (self._adds and self._is_another)
            if refused.code != "unknown_dataset" or not adding.found_again(
                    self.endpoint, self.request.dataset, min(patience_s, _LOOK_S), adds):
                raise
        return self._joined_by_name(state, patience_s, gather_s)

    def _joined_by_name(self, state: Optional[State], patience_s: float,
                        gather_s: Optional[float]) -> Session:
        session = _live[self] = Session(self)
        try:
            job = session.join(state, patience_s, gather_s)
            if self.job is None:
                self.received = JobPosition.of_job(self.request, job.joined, state)
                self.recent = None if job.joined.world_size == 1 else RecentSteps(job.joined.slots)
            self.job = job
        except BaseException as error:
            #  A rank that leaves would end the job for the others; of one that was broken off the next
            #  connection comes back.
            if not isinstance(error, BrokenOff):
                session.renounce()
            self._let_go(session)
            raise
        return session

    def _let_go(self, session: Session) -> None:
        session.close()
        if self in _live:
            _live[self] = None

    def _found_again(self, loss: TureenError) -> Session:
        """The next job, or the first, on the server that is looked for."""
        first = self.job is None
        search = self._search = Search(self.endpoint, loss, self._rejoin, first=first,
                                       ranks=self.request.world_size > 1, quiet=self.concluded,
                                       adds=lambda: self._adds)
        self.questions.again()
        #  What was told to end is not started again: it refused the job, or has ended in good order.
        starts = not isinstance(loss, (ServerStopped, RequestRefused))
        with standby.kept_up(self.endpoint, search.left_s, starts):
            while True:
                try:
                    if self.job is None:
                        session = self._joined(self._begin, search.patience_s(self._timeout))
                    else:
                        session = self._joined(self.received.state_to_join(self.job.joined.run),
                                               search.patience_s(self._timeout), search.left_s())
                    search.found()
                    self.rejoined += not first
                    return session
                except TureenError as error:
                    pause_s = search.failed(self._explained(error))
                self._pause(pause_s)

    def _explained(self, error: TureenError) -> TureenError:
        """Why the server did not get the data set either."""
        name = self.request.dataset
        refusal = name.data.refusal if isinstance(name, Name) else ""
        if refusal and isinstance(error, RequestRefused) and error.code == "unknown_dataset":
            return RequestRefused(error.code, f"{error.message}; it could not be added ({refusal})")
        return error

    @property
    def _adds(self) -> bool:
        """A server that lacks the data set gets it from this process."""
        name = self.request.dataset
        return (self._rejoin > 0 and standby.knows(self.endpoint) and isinstance(name, Name)
                and not name.data.refusal and name.is_asked_for)

    @property
    def _is_another(self) -> bool:
        """The server is not the one that had the data set."""
        name = self.request.dataset
        return isinstance(name, Name) and standby.is_another(self.endpoint, name.data.process)

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self.leaving and time.monotonic() < until:
            self.waker.sleep(until - time.monotonic())
        if self.leaving:
            raise Left

    def _close(self) -> None:
        if not self._settled.is_set():
            self.job = None
        self.questions.close()
        self.waker.close()
        #  This is set before `leaving` is read; `leave` does the two in the other order
        self._ended = True
        if self.leaving:
            self._forget()
        _live.pop(self, None)
        self._settled.set()


#  Every connection with a running thread, and its sockets: the interpreter's exit and a fork find them here.
_live: Dict[Connection, Optional[Session]] = {}


def still_there(endpoint: str) -> List[Connection]:
    """This process's jobs at that server, once those that were left are over: a new one must not find their
    memory still taken.  Of jobs that were left, what remains is held by views of their batches."""
    there = []
    for connection in list(_live):
        if connection.endpoint == endpoint:
            if connection.leaving and not connection.lent:
                connection.join_thread()
            else:
                there.append(connection)
    return there


def _at_exit() -> None:
    connections = [connection for connection in list(_live) if connection.pid == os.getpid()]
    for connection in connections:
        connection.abandon()
    for connection in connections:
        connection.join_thread()


def _after_fork() -> None:
    for session in list(_live.values()):
        if session is not None:
            session.forked()
    _live.clear()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)

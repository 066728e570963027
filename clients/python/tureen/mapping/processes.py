"""One of the processes that run the functions, as the client sees it."""
from __future__ import annotations

import collections
import multiprocessing
import signal
import weakref
from multiprocessing import resource_tracker
from typing import Any, Deque, Dict, Optional, Tuple

from . import worker
from .channel import channel_and_end
from .memory import Shared
from .pytree import ArrayAdapter, Laid
from .results import Work

TASKS_MAX = 2                   # with each process: the next one is there when one is done
_END_S = 1.0
#  Of a function that no other process can have
REMEDIES = ("define the function at the top level of a module or script (not of a notebook), or give "
            "multiprocessing_context=\"fork\", or map_workers=0")


class Todo:
    """Samples of a batch that are, or will be, one task."""
    __slots__ = ("work", "first", "count", "deaths")

    def __init__(self, work: Work, first: int, count: int, deaths: int = 0) -> None:
        self.work, self.first, self.count = work, first, count
        self.deaths = deaths            # of processes, while they were busy with it


class Process:
    """Started at birth.  RuntimeError where no process can be.

    functions: pickled, or of a process that is forked as they are.  The pickled ones go through the pipe:
    multiprocessing waits until the new process has read what it is started with.  Where that is more than a
    pipe takes, and the process is killed before it has read it, multiprocessing waits forever.
    """

    def __init__(self, context: Any, functions: Any, life: Any) -> None:
        self.ready = False
        self.tasks: Deque[Todo] = collections.deque()       # the first is the one it works on
        self._known: Dict[int, Optional[weakref.ref[Shared]]] = {}
        self._told: Tuple[Optional[ArrayAdapter], Optional[Laid]] = (None, None)
        self.channel, theirs = channel_and_end()
        inherited = None if isinstance(functions, bytes) else functions
        #  The process has it blocked too, until it ignores it: a Ctrl-C is the client's from the start.
        if inherited is None:
            resource_tracker.ensure_running()       # its start would unblock the signal
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self._process = context.Process(target=worker.serve, args=(theirs, life, inherited), daemon=True,
                                            name="tureen-map")
            self._process.start()
            if inherited is None:
                self.channel.send((worker.FUNCTIONS, functions))
        except BaseException:
            self.channel.close()
            raise
        finally:
            theirs.close()
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    @property
    def pid(self) -> int:
        return int(self._process.pid)

    def alive(self) -> bool:
        return bool(self._process.is_alive())

    def tell(self, adapter: ArrayAdapter, laid: Optional[Laid]) -> None:
        """What it does not know yet of how the samples are made."""
        if self._told[0] is not adapter:
            self.channel.send((worker.ADAPTER, adapter))
            self._told = (adapter, None)
        if self._told[1] is not laid:
            self.channel.send((worker.LAYOUT, None) if laid is None
                              else (worker.LAYOUT, laid.layout, laid.rows))
            self._told = (adapter, laid)

    def share(self, memory: Shared, written: bool) -> None:
        """written: results go there; else samples are there, and nothing is written to it."""
        if memory.number not in self._known:
            self.channel.send((worker.MEMORY, memory.number, memory.size, written), memory)
            self._known[memory.number] = weakref.ref(memory)

    def forget(self) -> None:
        """Memory that is gone here is unmapped there."""
        for number, known in list(self._known.items()):
            if known is not None and known() is None:
                self.channel.send((worker.FORGET, number))
                del self._known[number]

    def end(self, kill: bool = False) -> int:
        """Waits for its end, and brings it about where it does not come.  Its exit status, as `ended` has
        it."""
        if not kill:
            self._process.join(_END_S)
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        self.channel.close()
        return int(self._process.exitcode or 0)


def ended(status: int) -> str:
    """For people."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def context_of(method: Any) -> Any:
    """A context of multiprocessing, of its name, or itself."""
    if method is None or isinstance(method, str):
        return multiprocessing.get_context(method or "spawn")
    return method

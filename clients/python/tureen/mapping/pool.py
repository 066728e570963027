"""The processes that run the functions, and the thread that hands them samples.

    happy path:     a batch comes (submit); as soon as a slot of the results' memory is free it is cut into
                    tasks, one for each process, or with a function of batches one; when the last one is done
                    the loop is told.  Batches may be done in any order: the loop waits for the one that it
                    gives next.
    failure modes:  a function that raises fails its batch when all of the batch's tasks are over, so that the
                    batch can be done again.  A process that dies is replaced, and its tasks are done again.
                    The task that it was busy with is done again sample by sample: so a sample that kills
                    processes is found, and fails the batch.  Processes that die before they are ready break
                    the pool, until the loop asks again.  No process is waited for in the midst of a message
                    (Channel).  What the client itself lacks (memory, descriptors) ends the pool, so that no
                    task is lost: the loop is told, and has another pool when it asks again.
    on close:       `life` is closed, at which the processes end, whatever they are doing.

Threads: all is the pool's thread's, but for `start`, `submit`, `again`, `close` and the attributes that they
write.
"""
from __future__ import annotations

import atexit
import collections
import os
import select
import signal
import threading
import weakref
from typing import Any, Deque, Dict, List, Optional, Set, Tuple

import numpy as np

from ..waker import Waker
from .memory import Memory, Shared
from .processes import REMEDIES, TASKS_MAX, Process, Todo, ended
from .pytree import ArrayAdapter
from .results import Results, Work
from .worker import APART, DONE, FAILED, READY, TASK, UNUSABLE, Failure, Task, received_apart

_DEATHS_MAX = 3                 # with one sample, or of processes that end before they are ready
_KILLS_MAX = 9                  # of processes that are killed before they are ready
_TASK_S = 0.004                 # what takes less is not divided: waking a process costs a part of that
_LOOK_S = 1.0                   # for a process that is dead although its pipe is still open somewhere


class Pool:
    def __init__(self, functions: Any, by_sample: bool, count: int, context: Any, slots: int) -> None:
        self.pid = os.getpid()
        #  Why no process runs; the loop takes it away.
        self.broken: Optional[str] = None
        self.adapter: Optional[ArrayAdapter] = None         # what the loop has told
        self._waker = Waker()
        self.results = Results(slots, by_sample, self._waker)
        self._functions, self._by_sample = functions, by_sample
        self._count, self._context, self._slots = count, context, slots
        self._closing = False
        self._again = False
        self._new: Deque[weakref.ref[Work]] = collections.deque()
        self._first: Deque[weakref.ref[Work]] = collections.deque()
        #  The thread's
        self._seen: Optional[ArrayAdapter] = None
        self._waiting: Deque[weakref.ref[Work]] = collections.deque()
        self._deciding = False                  # the first sample is being done, and all others wait for it
        self._todo: Deque[Todo] = collections.deque()
        self._inputs: Optional[Memory] = None
        self._held: Dict[Work, Any] = {}        # what came inline lies here while it is worked on
        self._sample_s = _TASK_S                # that one takes, about
        self._deaths = 0                        # of processes that were not ready
        self._processes: List[Process] = []
        self._poll = select.poll()
        self._poll.register(self._waker.fileno(), select.POLLIN)
        self._life, self._life_writer = context.Pipe(duplex=False)
        self._thread = threading.Thread(target=self._run, name="tureen-map", daemon=True)

    #  The loop's side

    def start(self) -> None:
        _live.add(self)
        try:
            self._start_processes()
            self._thread.start()
        except BaseException:
            self._end()
            raise

    def submit(self, work: Work) -> None:
        work.pool = self
        self._new.append(weakref.ref(work))
        self._wake()

    def again(self, work: Work) -> None:
        """It failed, or was never begun: it is the next one to be done."""
        work.pool = self
        work.begin_again()
        self._first.append(weakref.ref(work))
        self._wake()

    def tell(self, adapter: ArrayAdapter) -> None:
        """What comes from here on goes through this adapter."""
        self.adapter = adapter
        self._wake()

    def mend(self) -> None:
        """It was broken: processes are tried again."""
        self._again = True
        self._wake()

    def close(self, wait: bool = True) -> None:
        self._closing = True
        self._wake()
        if wait and self.pid == os.getpid() and threading.current_thread() is not self._thread:
            self._thread.join()

    def pids(self) -> List[int]:
        return [process.pid for process in list(self._processes)]

    def ready(self) -> bool:
        return len(self._processes) == self._count and all(process.ready for process in list(self._processes))

    @property
    def alive(self) -> bool:
        """It takes batches."""
        return not self._closing and self._thread.is_alive()

    def forked(self) -> None:
        """In a forked child: the processes must see their parent's end, although this child lives on."""
        self._life_writer.close()
        for process in self._processes:
            process.channel.close()

    def _wake(self) -> None:
        self._waker.wake()

    #  The thread

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            while not self._closing:
                ready = {descriptor for descriptor, _ in self._poll.poll(_LOOK_S * 1000)}
                self._waker.awake(self._waker.fileno() in ready)
                self._hear(ready)
                self._take_new()
                self._hand_out()
                self._flush()
        except OSError as error:
            self._fail(f"the client cannot hand batches to its processes ({error}): it may need more "
                       "memory, or a greater limit of open files (ulimit -n)")
        except Exception as error:
            self._fail(f"the client's own thread failed: {error!r}")
        finally:
            self._end()

    def _fail(self, why: str) -> None:
        self.broken = why
        self._closing = True

    def _end(self) -> None:
        _live.discard(self)
        self._closing = True
        self._life_writer.close()
        self._life.close()
        for process in self._processes:
            process.end()
        #  What is left of batches would hold the memory that holds it.
        self._processes = []
        self._todo.clear()
        self._held.clear()
        self._waker.close()

    def _start_processes(self) -> None:
        while len(self._processes) < self._count:
            process = Process(self._context, self._functions, self._life)
            self._processes.append(process)
            self._poll.register(process.channel.fileno(), select.POLLIN)

    def _take_new(self) -> None:
        """Batches that have come, behind those that are to be done again."""
        while self._new:
            self._waiting.append(self._new.popleft())
        while self._first:
            self._waiting.appendleft(self._first.popleft())
        if self._again:
            self._again = False
            self._deaths = 0
        if self.adapter is not self._seen:
            self._seen, self._deciding = self.adapter, False
            self.results.forget()
        if self.broken is None:
            self._start_again()

    def _start_again(self) -> None:
        try:
            self._start_processes()
        except (BrokenPipeError, ConnectionResetError, EOFError) as error:
            self._died_early(1, f"died while it was started: {error!r}")
        except Exception as error:
            self._break(f"no process can be started: {error}")

    def _break(self, why: str) -> None:
        """Until the loop asks again there are no processes; what they had waits."""
        for process in list(self._processes):
            self._remove(process, kill=True)
        self.broken = why

    def _remove(self, process: Process, kill: bool = False) -> int:
        self._poll.unregister(process.channel.fileno())
        self._processes.remove(process)
        status = process.end(kill)
        for todo in reversed(process.tasks):
            self._todo.appendleft(todo)
        process.tasks.clear()
        return status

    #  Answers

    def _hear(self, ready: Set[int]) -> None:
        for process in list(self._processes):
            if process in self._processes and (not ready or process.channel.fileno() in ready):
                for message, descriptor in process.channel.receive():
                    self._take(process, message, descriptor)
                if process in self._processes and (process.channel.ended
                                                   or not ready and not process.alive()):
                    self._lost(process)

    def _take(self, process: Process, message: Any, descriptor: int) -> None:
        word, *what = message
        if word == READY:
            process.ready, self._deaths = True, 0
            return
        if word == UNUSABLE:
            summary, _, trace = what[0].partition("\n")
            self._break(f"a process cannot load the function ({summary}): {REMEDIES}\n{trace}")
            return
        todo = process.tasks.popleft()           # they are answered in order
        work = todo.work
        if word == DONE:
            work.take_done(todo.first, todo.count, what[0], what[1], self._by_sample)
            self._sample_s = 0.9 * self._sample_s + 0.1 * what[2] / todo.count
        elif word == FAILED:
            failure: Failure = what[0]
            work.fail(todo.first + (failure.row or 0), failure)
        elif word == APART:
            values, _ = received_apart(what[0], what[2], what[3], descriptor)
            self._take_apart(work, what, values)
        self._settle(work)

    def _take_apart(self, work: Work, what: List[Any], values: List[Any]) -> None:
        self.results.take_apart(work, what[0], what[1], values)
        if self._by_sample and len(work.ids) > 1:
            self._cut(work, 1)

    def _settle(self, work: Work) -> None:
        """One of its tasks is over."""
        work.left -= 1
        if not work.left:
            self._deciding = False
            work.complete()
            self._held.pop(work, None)
            work.done.set()
        elif self.results.decided:
            self._deciding = False

    def _lost(self, process: Process) -> None:
        """It died: by its function, or it was killed."""
        ready, busy = process.ready, process.tasks[0] if process.tasks else None
        status = self._remove(process)
        how = ended(status)
        if not ready:
            #  One that was killed is not to blame as one that ends by itself.
            self._died_early(1 if status < 0 else _KILLS_MAX // _DEATHS_MAX, how)
        elif busy is not None:
            self._todo.popleft()
            self._suspect(busy, how)

    def _died_early(self, weight: int, how: str) -> None:
        """Before it was ready."""
        self._deaths += weight
        if self._deaths >= _KILLS_MAX:
            self._break(f"its processes end before they are ready (the last one {how}); standard error "
                        "may say why.  Each process imports the script that was started: what the script "
                        "does must stand behind \"if __name__ == '__main__':\"")

    def _suspect(self, todo: Todo, how: str) -> None:
        """A process died while it was busy with it: it is done again, in smaller parts."""
        work, deaths = todo.work, todo.deaths + 1
        if self._by_sample and todo.count > 1:
            parts = [Todo(work, first, 1, deaths) for first in range(todo.first, todo.first + todo.count)]
            work.left += len(parts) - 1
            self._todo.extendleft(reversed(parts))
        elif deaths < _DEATHS_MAX:
            self._todo.appendleft(Todo(work, todo.first, todo.count, deaths))
        else:
            died = f"{deaths} processes died while they worked on it (the last one {how})"
            work.fail(todo.first, Failure(0 if self._by_sample else None, died, "", None))
            self._settle(work)

    #  Tasks

    def _hand_out(self) -> None:
        if self._seen is None or self.broken is not None:
            return
        self._cut_waiting(self._seen)
        while self._todo:
            process = min((process for process in self._processes if process.ready),
                          key=lambda process: len(process.tasks), default=None)
            if process is None or len(process.tasks) >= TASKS_MAX:
                break
            self._hand(process, self._todo.popleft())

    def _flush(self) -> None:
        """What a full pipe did not take is sent when it takes more."""
        for process in self._processes:
            process.forget()
            process.channel.flush()
            self._poll.register(process.channel.fileno(),
                                select.POLLIN | (select.POLLOUT if process.channel.is_full else 0))

    def _cut_waiting(self, adapter: ArrayAdapter) -> None:
        """Tasks of all batches for which there is room, in their order.  Until the first sample has shown how
        batches are laid out it is the only one."""
        while self._waiting and not self._deciding:
            work = self._waiting[0]()
            if work is not None:
                if not (self.results.place(work) and self._has_source(work)):
                    return
                self._deciding = not self.results.decided
                if self._deciding and self._by_sample:
                    self._add(work, 0, 1)
                else:
                    self._cut(work, 0)
            self._waiting.popleft()

    def _cut(self, work: Work, first: int) -> None:
        count = len(work.ids)
        size = max(-(-(count - first) // self._count), int(_TASK_S / self._sample_s))
        size = min(size, count) if self._by_sample else count
        for begin in range(first, count, size):
            self._add(work, begin, min(size, count - begin))

    def _add(self, work: Work, first: int, count: int) -> None:
        work.left += 1
        self._todo.append(Todo(work, first, count))

    def _has_source(self, work: Work) -> bool:
        """What came inline is copied to where the processes see it; False where there is no room."""
        if work.frame is None or work in self._held:
            return True
        size = work.job.joined.slot_bytes
        if self._inputs is None or self._inputs.slot_bytes < size:
            self._inputs = Memory(self._slots + 1, size, self._waker)
        taken = self._inputs.take()
        if taken is None:
            return False
        taken[1][:size] = np.frombuffer(work.frame, np.uint8)
        self._held[work] = (self._inputs, *taken)
        return True

    def _hand(self, process: Process, todo: Todo) -> None:
        work = todo.work
        process.tasks.append(todo)
        shared, source = self._source(work)
        try:
            assert self._seen is not None
            if shared is None:                  # its job was left, and the ring with it
                raise ValueError
            process.tell(self._seen, work.laid)
            process.share(shared, written=False)
            target = None
            if work.memory is not None:
                process.share(work.memory.shared, written=True)
                target = (work.memory.shared.number, work.offset, work.memory.slot_bytes)
            ids = work.ids[todo.first:todo.first + todo.count]
            key = (work.key.seed, work.key.epoch)
            process.channel.send((TASK, *Task(source, len(work.ids), todo.first, ids, key, target)))
        except ValueError:
            process.tasks.pop()
            work.fail(0, Failure(None, "its job was left", "", None))
            self._settle(work)

    def _source(self, work: Work) -> Tuple[Optional[Shared], Tuple[int, int, int]]:
        size = work.job.joined.slot_bytes
        if work.frame is not None:
            memory, offset, _ = self._held[work]
            return memory.shared, (memory.shared.number, offset, size)
        shared = work.job.shared
        return shared, (0 if shared is None else shared.number, work.head.slot * size, size)


#  Every pool with processes: the interpreter's exit and a fork find them here.
_live: Set[Pool] = set()


def _at_exit() -> None:
    pools = [pool for pool in list(_live) if pool.pid == os.getpid()]
    for pool in pools:
        pool.close(wait=False)
    for pool in pools:
        pool.close()


def _after_fork() -> None:
    for pool in list(_live):
        pool.forked()
    _live.clear()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)

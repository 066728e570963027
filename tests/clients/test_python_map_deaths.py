"""map= of the Python client while its processes are killed at chosen points, and while the client lacks
memory or descriptors: no batch is lost, and no batch is waited for that cannot come.

Guards: a process that dies at any of its calls, before it has read what it is started with, or after a part
of an answer; a pipe that is full in both directions; tasks when the client runs out of descriptors.

Run by ctest (python_map_deaths), or by hand from anywhere: python3 tests/clients/test_python_map_deaths.py
[-v] [NAME]
"""
from __future__ import annotations

import errno
import itertools
import mmap
import multiprocessing
import os
import resource
import signal
import socket
import sys
import tempfile
import unittest
from multiprocessing import connection, resource_tracker
from typing import Any, Callable, Dict, Iterable, List, Tuple
from unittest import mock

from client_checks import Tidy, descriptors, until

import numpy as np

import tureen
from tureen.mapping import pool, results, worker
from tureen.mapping.channel import channel_and_end

Sample = Dict[str, Any]
_WATCHED = (worker.__file__, connection.__file__)


def written(sample: Sample) -> Sample:
    sample["image"] ^= 255
    return sample


def worded(sample: Sample) -> Sample:
    """With a text that fills a pipe twice, so that an answer goes in parts."""
    return {"text": "%09d" % int(sample["label"]) * 60000, "label": sample["label"]}


def worded_batch(batch: Sample) -> Sample:
    return {"text": ["%0100d" % label for label in batch["label"]], "label": batch["label"]}


class DiesOnce:
    """A function with which a process dies at samples 0 and 8, each once."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, sample: Sample) -> Sample:
        label = int(sample["label"])
        path = os.path.join(self.folder, str(label))
        if label in (0, 8) and not os.path.exists(path):
            os.close(os.open(path, os.O_CREAT))
            os.kill(os.getpid(), signal.SIGKILL)
        return {"label": sample["label"]}


class Large:
    """A function that takes many times what a pipe takes."""

    def __init__(self) -> None:
        self.table = np.arange(1 << 20)

    def __call__(self, sample: Sample) -> Sample:
        return {"label": self.table[sample["label"]]}


#   ---- how a process dies: each is called in the process, before its life begins

def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def at_call(course: Tuple[int, mmap.mmap]) -> None:
    """Before the call of that number, of Python's or of C's, in the process's own code.  What it has done by
    the end of a call it has done before the next one.  The answers that it sends are counted in memory that
    the test sees."""
    number, answers = course
    whole, left = connection.Connection.send, [number]

    def counted(self: Any, message: Any) -> None:
        whole(self, message)
        answers[0] += message[0] == worker.DONE

    def note(frame: Any, event: str, _what: Any) -> None:
        if event in ("call", "c_call") and frame.f_code.co_filename in _WATCHED:
            left[0] -= 1
            if not left[0]:
                die()
    answers[0] = 0
    connection.Connection.send = counted                # type: ignore[method-assign]
    sys.setprofile(note)


def after_a_part(course: Tuple[int, str]) -> None:
    """After so many bytes of its first long answer.  A process of its own lives on, with the pipe open; its
    number goes into a file."""
    count, path = course
    whole = connection.Connection._send                 # type: ignore[attr-defined]

    def part(self: Any, data: Any, write: Any = os.write) -> None:
        if len(data) < 1000:
            whole(self, data)
            return
        child = os.fork()
        if not child:
            os.closerange(0, 3)
            signal.pause()
        with open(path, "w", encoding="ascii") as file:
            file.write(str(child))
        whole(self, data[:count])
        die()
    connection.Connection._send = part                  # type: ignore[attr-defined]


def living(how: Callable[[Any], None], argument: Any, target: Callable[..., None], *arguments: Any) -> None:
    how(argument)
    target(*arguments)


class Deadly:
    """A context of multiprocessing in which processes die: `courses` has what each gets that is to.  Of all
    processes that there are at a time one lives."""

    def __init__(self, how: Callable[[Any], None], courses: Iterable[Any]) -> None:
        self._context: Any = multiprocessing.get_context("fork")
        self._how, self._courses = how, iter(courses)
        self.Pipe = self._context.Pipe
        self.get_start_method = self._context.get_start_method
        self.living: Any = None
        self.died: List[Any] = []

    def Process(self, target: Any, args: Any, **how: Any) -> Any:
        course = None
        if self.living is not None and self.living.exitcode is None:
            course = next(self._courses, None)
        if course is None:
            self.living = self._context.Process(target=target, args=args, **how)
            return self.living
        self.died.append(self._context.Process(target=living, args=(self._how, course, target, *args), **how))
        return self.died[-1]


class Deaths(Tidy):
    def setUp(self) -> None:
        resource_tracker.ensure_running()               # once started it stays, with a descriptor
        super().setUp()

    def labels(self, context: Any, **how: Any) -> List[int]:
        server = self.server(40)
        with tureen.Loader(server.endpoint, batch_size=8, epochs=1, map_workers=2,
                           multiprocessing_context=context, **how) as loader:
            return [label for batch in loader for label in batch["label"].tolist()]

    def test_killed_at_every_call(self) -> None:
        """Of two processes one lives.  The other is replaced again and again: each dies a call later (seven
        calls for map_batch, which does mostly the same), until one has answered two tasks.  The loop is
        told of several that die in a row, by right, and asks again."""
        for step, how in (1, {"map": written}), (7, {"map_batch": written}):
            with self.subTest(how), mmap.mmap(-1, mmap.PAGESIZE) as answers:
                context = Deadly(at_call, ((number, answers) for number in itertools.count(1, step)))
                wanted, most = itertools.cycle(range(40)), 0
                server = self.server(40)
                with tureen.Loader(server.endpoint, batch_size=8, map_workers=2,
                                   multiprocessing_context=context, **how) as loader:
                    iterator = iter(loader)
                    while most < 2:
                        try:
                            batch = next(iterator)
                        except tureen.MapFailed as failed:
                            self.assertRegex(str(failed), r"(before they are ready|\d processes died while "
                                             r"they worked on it) \(the last one was killed by SIGKILL\)")
                            continue
                        self.assertEqual(batch["label"].tolist(), list(itertools.islice(wanted, 8)))
                        most = max(most, answers[0])
                    del batch
                self.assertGreater(len(context.died), 50 / step)

    def test_killed_after_a_part_of_an_answer(self) -> None:
        """The pipe stays open, and what is missing of the answer never comes."""
        for count in (1, 4, 300000):
            with self.subTest(count=count), tempfile.NamedTemporaryFile("r", encoding="ascii") as file:
                context = Deadly(after_a_part, [(count, file.name)])
                try:
                    self.assertEqual(self.labels(context, map=worded), list(range(40)))
                finally:
                    os.kill(int(file.read()), signal.SIGKILL)
                self.assertEqual(context.died[0].exitcode, -signal.SIGKILL)

    def test_killed_before_it_has_read_what_it_is_started_with(self) -> None:
        """The function takes more than a pipe."""
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "python")
            with open(script, "w", encoding="ascii") as file:
                file.write("#!/bin/sh\nkill -KILL $$\n")
            os.chmod(script, 0o700)
            real = itertools.repeat(os.fsencode(sys.executable))
            with mock.patch("multiprocessing.spawn.get_executable",
                            side_effect=itertools.chain(2 * [os.fsencode(script)], real)):
                self.assertEqual(self.labels(multiprocessing.get_context("spawn"), map=Large()),
                                 list(range(40)))

    def test_deaths_before_and_after_one_that_was_ready(self) -> None:
        """Twelve processes are killed before they are ready, and never more than four in a row."""
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "python")
            with open(script, "w", encoding="ascii") as file:
                file.write("#!/bin/sh\nkill -KILL $$\n")
            os.chmod(script, 0o700)
            course = [*4 * [os.fsencode(script)], os.fsencode(sys.executable)]
            server = self.server(24)
            with mock.patch("multiprocessing.spawn.get_executable", side_effect=itertools.cycle(course)):
                with tureen.Loader(server.endpoint, batch_size=8, epochs=1, map=DiesOnce(folder),
                                   map_workers=1, multiprocessing_context="spawn") as loader:
                    self.assertEqual([label for batch in loader for label in batch["label"].tolist()],
                                     list(range(24)))

    def test_a_pipe_that_is_full_in_both_directions(self) -> None:
        """A task is longer than a pipe takes, and so is the answer to the one before."""
        samples = 90000
        server = self.server(samples)
        with tureen.Loader(server.endpoint, batch_size=samples // 3, epochs=1, map_batch=worded_batch,
                           map_workers=1, multiprocessing_context="fork") as loader:
            self.assertEqual([len(batch) for batch in loader], [samples // 3] * 3)

    def test_forked_while_a_thread_draws(self) -> None:
        """A process is replaced by a fork while another thread holds the lock of NumPy's random numbers."""
        server = self.server(40)
        lock = np.random.mtrand._rand._bit_generator.lock       # type: ignore[attr-defined]
        with tureen.Loader(server.endpoint, batch_size=8, epochs=1, map=written, map_workers=1,
                           multiprocessing_context="fork") as loader:
            iterator = iter(loader)
            until(loader._mapper.ready, "the process")
            killed = loader._mapper.pids()
            with lock:
                os.kill(killed[0], signal.SIGKILL)
                labels = [label for batch in iterator for label in batch["label"].tolist()]
            self.assertEqual(labels, list(range(40)))
            self.assertNotEqual(loader._mapper.pids(), killed)

    def test_no_descriptors_are_left(self) -> None:
        """The loop is told, and goes on when there are some again."""
        server = self.server(40)
        server.paused = True
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        with tureen.Loader(server.endpoint, batch_size=8, epochs=1, map=written, map_workers=2,
                           multiprocessing_context="fork") as loader:
            iterator = iter(loader)
            until(lambda: server.jobs and server.job().begun and loader._mapper.ready(), "the processes")
            used = max(int(name) for name in os.listdir("/proc/self/fd"))
            holes = [os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)]
            while holes[-1] < used:
                holes.append(os.dup(holes[-1]))
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (max(used, holes[-1]) + 1, limit[1]))
                server.paused = False
                with self.assertRaisesRegex(tureen.MapFailed, "Too many open files.*ulimit -n"):
                    next(iterator)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limit)
                for hole in holes:
                    os.close(hole)
            self.assertEqual([label for batch in iterator for label in batch["label"].tolist()],
                             list(range(40)))

    def test_no_memory_is_left(self) -> None:
        """Of a result that has come, and for a process."""
        server = self.server(400)
        short = OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        with tureen.Loader(server.endpoint, batch_size=8, epochs=1, map=written, map_workers=2,
                           multiprocessing_context="fork") as loader:
            iterator = iter(loader)
            labels: List[int] = []
            for error, message in (2 * [(short, "Cannot allocate memory.*more memory")]
                                   + [(KeyError(7), r"the client's own thread failed: KeyError\(7\)$")]):
                with mock.patch.object(results, "Memory", mock.Mock(side_effect=error)):
                    with self.assertRaisesRegex(tureen.MapFailed, message):
                        next(iterator)
            for error, message in ((EOFError(), r"one died while it was started: EOFError\(\)\); standard "),
                                   (short, "go on: no process can be started: .*allocate memory")):
                labels += next(iterator)["label"].tolist()
                until(loader._mapper.ready, "the processes")
                with mock.patch.object(pool, "Process", mock.Mock(side_effect=error)), \
                        mock.patch.object(pool, "_LOOK_S", 0.01):
                    for killed in loader._mapper.pids():
                        os.kill(killed, signal.SIGKILL)
                    with self.assertRaisesRegex(tureen.MapFailed, message):
                        while True:
                            labels += next(iterator)["label"].tolist()
            labels += [label for batch in iterator for label in batch["label"].tolist()]
            self.assertEqual(labels, list(range(400)))


class Channels(unittest.TestCase):
    def test_a_descriptor_without_a_message(self) -> None:
        """Of a process that is not what it was: it is closed with the channel."""
        before = descriptors()
        channel, end = channel_and_end()
        with end, socket.socket(fileno=os.dup(end.fileno())) as process, open(os.devnull) as file:
            socket.send_fds(process, [b"\0"], [file.fileno()])
        self.assertEqual(channel.receive(), [])
        self.assertTrue(channel.ended)
        channel.close()
        self.assertEqual(descriptors(), before)


if __name__ == "__main__":
    unittest.main()

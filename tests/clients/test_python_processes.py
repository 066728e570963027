"""The Python client and its process: forked, spawned, killed, interrupted, at the end of its interpreter.

Run by ctest (python_processes), or by hand from anywhere: python3 tests/clients/test_python_processes.py [-v]
[NAME]
"""
from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import unittest
from multiprocessing import resource_tracker
from typing import Any, List

from client_checks import PACKAGE, PATIENCE_S, Either, Tidy, descriptors, until

import tureen
from fake_server import LEAVE


def use_a_loader(loader: tureen.Loader, answer: Any) -> None:
    """What a spawned process runs."""
    answer.send([len(batch) for batch in loader])


class Processes(Either):
    def test_forked_child_is_refused(self: Any) -> None:
        server = self.fake()
        loader = tureen.Loader(server.endpoint, batch_size=8, epochs=1)
        iterator = iter(loader)
        next(iterator)
        child = os.fork()
        if child == 0:
            refused = 0
            for use in (lambda: next(iterator), lambda: iter(loader)):
                try:
                    use()
                except tureen.ForkedProcess:
                    refused += 1
            loader.close()
            del loader, iterator, use
            gc.collect()
            os._exit(10 + refused)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 12)
        self.assertEqual(sum(len(batch) for batch in iterator), 92)

    def test_forked_while_a_thread_waits(self: Any) -> None:
        """In `next`, of which the child has the lock as it was: the child is refused all the same."""
        server = self.fake()
        server.paused = True
        iterator = iter(tureen.Loader(server.endpoint, batch_size=8, epochs=1))
        given: List[int] = []
        thread = threading.Thread(target=lambda: given.extend(len(batch) for batch in iterator))
        thread.start()
        until(iterator._turn.locked, "the wait")
        child = os.fork()
        if child == 0:
            signal.alarm(int(PATIENCE_S))  # the end of a child that waits
            for use in (iterator.__next__, iterator.next_in_epoch):
                with contextlib.suppress(tureen.ForkedProcess):
                    use()
                    os._exit(1)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        server.paused = False
        thread.join()
        self.assertEqual((status, sum(given)), (0, 100))

    def test_unused_loader_in_another_process(self: Any) -> None:
        """Spawned or forked: what was not used yet is mere configuration."""
        resource_tracker.ensure_running()               # once started it stays, with a descriptor
        self.descriptors = descriptors()
        server = self.fake()
        loader = tureen.Loader(server.endpoint, batch_size=8, epochs=1)
        for method in ("spawn", "fork"):
            with self.subTest(method):
                context: Any = multiprocessing.get_context(method)
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=use_a_loader, args=(loader, theirs))
                process.start()
                theirs.close()
                self.assertTrue(ours.poll(PATIENCE_S))
                self.assertEqual(ours.recv(), [8] * 12 + [4])
                process.join()
                ours.close()
                self.assertEqual(process.exitcode, 0)
        self.assertEqual(loader.samples, 100)
        with self.assertRaisesRegex(TypeError, "make a Loader in the process that uses it"):
            pickle.dumps(loader)

    def test_forked_child_does_not_hide_a_death(self: Any) -> None:
        """A process is killed and its forked child lives on: the server notices at once."""
        server = self.fake(heartbeat_ms=100)
        process = self.script(f"iterator = iter(tureen.Loader({server.endpoint!r}, batch_size=8)); "
                              "next(iterator)\nchild = os.fork()\n"
                              "if child == 0: os.close(1); os.close(2); time.sleep(200); os._exit(0)\n"
                              "print(child, flush=True); time.sleep(200)")
        assert process.stdout is not None and process.stderr is not None
        child = int(process.stdout.readline())
        process.kill()
        process.wait()
        try:
            until(lambda: server.job().ended, "the notice of death")
        finally:
            os.kill(child, signal.SIGKILL)
        process.stdout.close()
        process.stderr.close()

    def test_job_survives_a_fork(self: Any) -> None:
        """What the child closes is its own."""
        server = self.fake()
        iterator = iter(tureen.Loader(server.endpoint, batch_size=8, epochs=1))
        batches = [len(next(iterator))]
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        self.assertEqual(sum(batches + [len(batch) for batch in iterator]), 100)

    def script(self: Any, text: str) -> subprocess.Popen[bytes]:
        start = f"import sys; sys.path.insert(0, {str(PACKAGE)!r}); import tureen, os, time, threading\n"
        return subprocess.Popen([sys.executable, "-c", start + text], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def test_interpreter_exit(self: Any) -> None:
        """With an iterator and a view held by a global: the process ends at once and without a word."""
        server = self.fake()
        process = self.script(f"loader = tureen.Loader({server.endpoint!r}, batch_size=8)\n"
                              "iterator = iter(loader); kept = next(iterator); gone = next(iterator); del "
                              "gone\nprint(len(kept))")
        out, err = process.communicate(timeout=PATIENCE_S)
        self.assertEqual((process.returncode, out, err), (0, b"8\n", b""))
        until(lambda: server.job().ended, "the job's end")
        self.assertIn(LEAVE, [frames[0][5] for frames in server.messages])

    def test_interrupt(self: Any) -> None:
        """Ctrl-C while next() waits."""
        server = self.fake()
        server.paused = True
        process = self.script(f"for batch in tureen.Loader({server.endpoint!r}, batch_size=8): pass")
        until(lambda: server.jobs and server.job().begun, "the join")
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, -signal.SIGINT, err)
        self.assertTrue(err.rstrip().endswith(b"KeyboardInterrupt"), err)
        until(lambda: server.job().ended, "the job's end")


class Ring(Processes, Tidy):
    ring = True


class Inline(Processes, Tidy):
    ring = False


if __name__ == "__main__":
    unittest.main()

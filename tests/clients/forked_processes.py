"""Processes that begin with their imports done.

A process that is spawned imports all that it needs: two seconds of PyTorch, half a second of the client.
These are forked from a process that has imported it: from the test itself, where it has no threads and no
job, or from multiprocessing's fork server, where they find what they run by its name, as spawned ones do.
"""
from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import tempfile
import threading
from multiprocessing import forkserver
from pathlib import Path
from typing import Any, Callable, Dict, Tuple
from unittest import mock


def forked_here() -> Any:
    """A context of multiprocessing.  Its processes are forked from this one."""
    assert threading.active_count() == 1, "a fork leaves the locks of other threads as they are"
    return multiprocessing.get_context("fork")


def forked_after(*modules: str) -> Any:
    """A context of multiprocessing.  Its processes have imported the modules, once for the whole program."""
    context: Any = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(modules))
    with mock.patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):     # it has no other path
        forkserver.ensure_running()
    return context


def _be(environment: Dict[str, str], output: str, errors: str, function: Callable[..., None],
        arguments: Tuple[Any, ...]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    for number, path in ((1, output), (2, errors)):
        with open(path, "wb") as file:
            os.dup2(file.fileno(), number)
    function(*arguments)


class Forked:
    """A function in such a process, with an environment and output of its own."""

    def __init__(self, context: Any, environment: Dict[str, str], function: Callable[..., None],
                 *arguments: Any) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tu-")
        self._paths = [os.path.join(self._folder.name, name) for name in ("output", "errors")]
        self._process = context.Process(target=_be, args=(environment, *self._paths, function, arguments))
        self._process.start()

    def wait(self, seconds: float) -> int:
        """Its status."""
        self._process.join(seconds)
        if self._process.exitcode is None:
            raise TimeoutError(f"not over after {seconds} s")
        return int(self._process.exitcode)

    def output(self) -> Tuple[str, str]:
        """What it has written: its output, and its errors."""
        texts = []
        for path in self._paths:
            with contextlib.suppress(FileNotFoundError):
                texts.append(Path(path).read_text(encoding="utf-8", errors="replace"))
        return (texts[0], texts[1]) if len(texts) == 2 else ("", "")

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self._folder.cleanup()

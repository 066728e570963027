"""What the tests of the Python client share: waiting, golden frames, requests, and servers that are left as
they were found.  Such a test imports it first: it says where tureen is.
"""
from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import sys
import threading
import time
import unittest
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List
from unittest import mock

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parent / "golden"
PACKAGE = HERE.parent.parent / "clients" / "python"
sys.path[:0] = [str(HERE), str(HERE.parent / "system"), str(PACKAGE)]

import numpy as np

import tureen
from fake_server import FakeServer, pattern
from tureen.request import Request

SEED = int(os.environ.get("TEST_SEED", "1"))
#  With anything that must happen at all: a loaded machine may let a process wait for a minute.
PATIENCE_S = float(os.environ.get("TUREEN_TEST_PATIENCE", "240"))


def until(condition: Callable[[], Any], what: str = "it", seconds: float = PATIENCE_S) -> None:
    """Waits for what another thread or process will bring about."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come about in {seconds} s")
        time.sleep(0.002)


def in_time(attempt: Callable[[float], Any]) -> Any:
    """Calls `attempt` with half a second, and with more while an assertion in it fails, as on a loaded
    machine."""
    for seconds in (0.5, 2, 8):
        with contextlib.suppress(AssertionError):
            return attempt(seconds)
    return attempt(32)


def descriptors() -> Dict[str, str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found[name] = os.readlink(f"/proc/self/fd/{name}")
    return found


def called(action: Callable[[], Any]) -> List[str]:
    """The Python functions that run in this thread while it does that."""
    names: List[str] = []

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            names.append(f"{frame.f_code.co_filename}:{frame.f_code.co_name}")
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return names


@contextlib.contextmanager
def nothing_ignored() -> Iterator[None]:
    """Fails for what Python would print as ignored, warnings of descriptors that are left open among it."""
    found: List[str] = []
    before, sys.unraisablehook = sys.unraisablehook, lambda ignored: found.append(str(ignored))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ResourceWarning)
            yield
            gc.collect()
    finally:
        sys.unraisablehook = before
    if found:
        raise AssertionError(f"Python ignored {found}")


def golden(name: str) -> List[bytes]:
    lines = (GOLDEN / f"{name}.hex").read_text(encoding="utf-8").splitlines()
    return [bytes.fromhex(line) for line in lines if not line.startswith("#")]


def request(**changed: Any) -> Request:
    arguments: Dict[str, Any] = dict(
        dataset="train", batch_size=64, epochs=2, drop_last=False, pipeline="train", order="shared", slots=4,
        transport="auto", seed=7, name="trial-3", ids=None, subset=None)
    arguments.update(changed)
    return Request(**arguments)


class Tidy(unittest.TestCase):
    """A test that leaves no thread, no descriptor, no fault at the server."""

    def setUp(self) -> None:
        #  A client that hangs is found where it hangs
        faulthandler.dump_traceback_later(2 * PATIENCE_S, exit=True)
        self.addCleanup(faulthandler.cancel_dump_traceback_later)
        #  What the server said last comes for sure, only not at once when the ring's socket is closed.
        farewell = mock.patch("tureen.session.FAREWELL_S", PATIENCE_S)
        farewell.start()
        self.addCleanup(farewell.stop)
        gc.collect()
        self.threads = threading.active_count()
        self.descriptors = descriptors()
        self.servers: List[FakeServer] = []

    def tearDown(self) -> None:
        gc.collect()
        faults = [fault for server in self.servers for fault in server.faults]
        for server in self.servers:
            until(lambda server=server: not server.alive() or server._stop, "every job's end")
            server.__exit__()
        self.assertEqual(faults, [])
        until(lambda: threading.active_count() <= self.threads, f"the end of {threading.enumerate()}")
        until(lambda: len(descriptors()) <= len(self.descriptors), "the descriptors' closing")

    def server(self, samples: int = 100, **how: Any) -> FakeServer:
        server = FakeServer(samples, **how)
        self.servers.append(server)
        self.addCleanup(server.__enter__().__exit__)    # tearDown ends it only if its jobs have ended
        return server

    def assert_intact(self, batch: tureen.Batch) -> None:
        self.assertEqual(batch["label"].tolist(), batch.ids.tolist())
        wanted = np.array([pattern(int(sample), batch.epoch) for sample in batch.ids], np.uint8)
        self.assertTrue((batch["image"] == wanted[:, None, None, None]).all(), batch)


class Either:
    """For the ring and inline alike."""
    ring = True

    def fake(self, samples: int = 100, **how: Any) -> FakeServer:
        return self.server(samples, offer_ring=self.ring, **how)  # type: ignore[attr-defined]

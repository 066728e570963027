"""The Python client and a server that is not there, refuses or makes no sense; and what a server is asked.

Run by ctest (python_meeting), or by hand from anywhere: python3 tests/clients/test_python_meeting.py [-v]
[NAME]
"""
from __future__ import annotations

import math
import os
import tempfile
import threading
import time
import unittest
from typing import Any, Dict, List
from unittest import mock

from client_checks import Tidy, until

import numpy as np

import tureen
from tureen.request import poll_ms


class Meeting(Tidy):
    """Finding and asking the server."""

    def test_no_client_there(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            endpoint = f"ipc://{directory}/none.sock"
            with self.assertRaisesRegex(tureen.NoServer, "tureen serve --dataset train=PATH"):
                iter(tureen.Loader(endpoint, timeout=0.2))
            with self.assertRaisesRegex(tureen.NoServer, "tureen serve"):
                tureen.status(endpoint, timeout=0.2)

    def test_no_endpoint(self) -> None:
        for endpoint in ("tureen://nonsense", "ipc://" + "x" * 200, "tcp://"):
            with self.assertRaises(tureen.NoServer):
                iter(tureen.Loader(endpoint, timeout=0.2))
            with self.assertRaises(tureen.NoServer):
                tureen.status(endpoint, timeout=0.2)

    def test_waiting_as_long_as_it_takes(self) -> None:
        """Longer than one poll can last."""
        server = self.server()
        for timeout in (math.inf, 1e300):
            blocker = threading.Thread(target=server.do, args=(lambda: time.sleep(0.2),))
            blocker.start()
            with mock.patch("tureen.session.poll_ms", lambda left_s: min(poll_ms(left_s), 20)):
                self.assertEqual(tureen.Loader(server.endpoint, batch_size=8, timeout=timeout).samples, 100)
            blocker.join()
        with self.assertRaises(tureen.NoServer):
            iter(tureen.Loader("ipc:///nonexistent/server.sock", timeout=0))

    def test_refused(self) -> None:
        server = self.server()
        server.refusal = ("unknown_dataset", "no data set 'trian'; this server has: train, val")
        with self.assertRaisesRegex(tureen.RequestRefused, "this server has: train, val") as caught:
            iter(tureen.Loader(server.endpoint, "trian"))
        self.assertEqual(caught.exception.code, "unknown_dataset")
        self.assertTrue(caught.exception.message.startswith("no data set"))

    def test_joined_that_makes_no_sense(self) -> None:
        changes: List[Dict[str, Any]] = [
            {"job": "x"}, {"slots": 65}, {"slot_bytes": "64"}, {"fields": []},
            {"fields": [{"name": "image"}]},
            {"fields": [{"name": "i", "dtype": "object", "shape": [], "offset": "0", "sample_bytes": "8"}]},
            {"fields": [{"name": "i", "dtype": ",int8", "shape": [], "offset": "0", "sample_bytes": "1"}]},
            {"fields": [{"name": "i", "dtype": "uint8", "shape": [2], "offset": "0", "sample_bytes": "3"}]},
            {"fields": [{"name": "i", "dtype": "uint8", "shape": [-1], "offset": "0", "sample_bytes": "1"}]},
            {"heartbeat_ms": 0}, {"ring": {"path": "/x", "token": "0" * 32, "bytes": "1"}}, {"ring": 5}]
        for change in changes:
            with self.subTest(change):
                server = self.server()
                server.joined_changes = change
                with self.assertRaises(tureen.ProtocolError):
                    iter(tureen.Loader(server.endpoint, batch_size=8))
                for job in server.alive():
                    server.do(lambda job=job: server.forget(job))

    def test_scattered_subset_goes_as_bits(self) -> None:
        """Too many ranges for a frame."""
        server = self.server(150000)
        loader = tureen.Loader(server.endpoint, batch_size=50000, epochs=1, subset=range(1, 150000, 2),
                               slots=3)
        self.assertEqual(loader.samples, 75000)
        ids = np.concatenate([batch.ids for batch in loader])
        self.assertTrue((ids == np.arange(1, 150000, 2)).all())
        with self.assertRaisesRegex(ValueError, "too scattered"):
            tureen.Loader(server.endpoint, batch_size=8, subset=range(1, 9_000_000, 2))

    def test_status(self) -> None:
        server = self.server()
        for timeout in (5.0, math.inf, 1e300):
            self.assertEqual(tureen.status(server.endpoint, timeout), {"jobs": []})

    def test_endpoint_from_the_environment(self) -> None:
        server = self.server()
        with mock.patch.dict(os.environ, {"TUREEN_ENDPOINT": server.endpoint}):
            loader = tureen.Loader(batch_size=8)
            self.assertEqual(loader.samples, 100)
            self.assertEqual(tureen.status(), {"jobs": [{"job": 5}]})

    def test_refused_while_interrupted(self) -> None:
        """A loader that waits for an answer leaves nothing when it is broken off."""
        server = self.server(silent=True)
        before = threading.active_count()
        with mock.patch("threading.Event.wait", side_effect=KeyboardInterrupt):
            with self.assertRaises(KeyboardInterrupt):
                iter(tureen.Loader(server.endpoint))
        until(lambda: threading.active_count() == before)

    def test_interrupted_around_the_join(self) -> None:
        """Before the thread begins nothing is left; once the job is joined it is left."""
        server = self.server()
        for place in ("tureen.standby.prepare", "tureen.loader.LoaderStats",
                      "tureen.mapping.mapper.Mapper.begin", "tureen.loader.BatchIterator"):
            with self.subTest(place), mock.patch(place, side_effect=KeyboardInterrupt):
                with self.assertRaises(KeyboardInterrupt):
                    iter(tureen.Loader(server.endpoint, batch_size=8, map=lambda sample: sample))
                until(lambda: not tureen.connection._live and not server.alive(), "the job's end")
        self.assertEqual([job.left for job in server.jobs.values()], [True] * 3)


if __name__ == "__main__":
    unittest.main()

"""How far work is that takes long: one line on a terminal, lines now and then elsewhere, and none where it is
quiet.  A store that answers late makes the work long."""
import json
import os
import re
import subprocess
import time
import unittest

import harness
from harness import TUREEN, wait_until
from test_system_store_objects import ADDRESS as OBJECTS, ObjectsTest
from test_system_stores import ADDRESS as PACK, KEY, StoreTest
from test_system_top import Terminal

PAUSE_S = 10                            # before the first line, and before each further one, at least
FIGURES = r" \[[#.]{20}\] +[0-9]+ % ([0-9:]+ left, )?[0-9.]+ [kM]?B/s, [0-9.]+ [kM]?B"


class ProgressTest(StoreTest):
    def environment(self):
        return {**os.environ, **self.store.environment(KEY)}

    def on_a_terminal(self, *command):
        """What it wrote to a terminal."""
        terminal = Terminal(TUREEN, *command, environment=self.environment())
        self.addCleanup(terminal.end)
        wait_until("it ends", lambda: terminal.raw() and terminal.process.poll() is not None)
        self.assertEqual(terminal.process.returncode, 0, terminal.raw())
        return terminal.raw().decode()


class Packs(ProgressTest):
    def test_a_line_on_a_terminal(self):
        self.store.latency = 1.2
        target = os.path.join(self.root, "unpacked")
        for command in (("verify", PACK), ("unpack", PACK, target)):
            with self.subTest(command[0]):
                written = self.on_a_terminal(*command)
                drawn = re.findall("\r([^\r\n]+)\x1b\\[K", written)
                self.assertTrue(drawn)
                for line in drawn:
                    self.assertRegex(line, r"^(reading the index|(verify|unpack)ing)" + FIGURES)
                #  The last one is taken away before the result is written.
                self.assertRegex(written, "\r\x1b\\[K[^\r]*(sample|order|good|[0-9]+ of)[^\r]*\r\n")
                self.assertNotIn("tureen " + command[0], written)

    def test_lines_without_a_terminal(self):
        self.store.latency = 5.5
        began = time.monotonic()
        begun = [subprocess.Popen([TUREEN, "verify", *quiet, PACK], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, env=self.environment(), universal_newlines=True)
                 for quiet in ((), ("--quiet",))]
        (said, told), (said_quietly, told_quietly) = (process.communicate(timeout=4 * harness.PATIENCE)
                                                      for process in begun)
        self.assertEqual([process.returncode for process in begun], [0, 0])
        self.assertRegex(told, "^(tureen verify: (reading the index|verifying)" + FIGURES + r".*\n)+$")
        self.assertLessEqual(told.count("\n"), 1 + (time.monotonic() - began) / PAUSE_S)
        self.assertEqual(told_quietly, "")
        self.assertEqual(re.sub("[0-9.]+ s.*", "", said), re.sub("[0-9.]+ s.*", "", said_quietly))

    def test_what_is_short_says_nothing(self):
        began = time.monotonic()
        done = harness.run("verify", self.pack)
        self.assertEqual(done.returncode, 0, done.stderr)
        #  On a loaded machine it may not be short.
        self.assertTrue(done.stderr == "" or time.monotonic() - began > PAUSE_S, done.stderr)


class Opening(ObjectsTest, ProgressTest):
    """A server that lists a store's objects, page after page."""

    def test_events_of_the_log(self):
        self.store.latency = 1.5
        with self.serve({"train": OBJECTS}, arguments=("--log-format", "json")) as server:
            events = [event for event in map(json.loads, server.log().splitlines())
                      if event["event"] == "progress"]
        self.assertTrue(events)
        for event in events:
            self.assertEqual((event["level"], event["dataset"], event["unit"]), ("info", "train", "objects"))
            self.assertGreater(event["done"], 0)
            self.assertIn("per_second", event)
            self.assertNotIn("total", event)
            self.assertRegex(event["message"],
                             "^data set 'train': listing objects: [0-9.]+ objects/s, [0-9]+ objects$")

    def test_a_line_on_a_terminal(self):
        self.store.latency = 0.4
        terminal = Terminal(TUREEN, "serve", "--dataset", "train=" + OBJECTS, "--listen",
                            "ipc://%s/terminal.sock" % self.root, "--cache", "64M", "--workers", "2",
                            environment=self.environment())
        self.addCleanup(terminal.end)
        wait_until("it listens", lambda: b"listening on" in terminal.raw(), 4 * harness.PATIENCE)
        terminal.process.terminate()
        self.assertEqual(terminal.process.wait(harness.PATIENCE), 0)
        written = terminal.raw().decode()
        self.assertRegex(written, "\rdata set 'train': listing objects: [0-9.]+ objects/s, [1-9][0-9]* "
                                  "objects\x1b\\[K")
        self.assertRegex(written, "\r\x1b\\[Kdata set 'train': [0-9]+ samples")
        self.assertNotIn("progress", written)


if __name__ == "__main__":
    unittest.main()

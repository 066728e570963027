"""`tureen top`: on a terminal, as a person uses it, and as plain lines."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import threading
import unittest

import harness
from harness import SystemTest, TUREEN, run, wait_until


class Terminal:
    """A command on a terminal of its own, and what it has written so far."""

    def __init__(self, *command, environment, rows=24, columns=100):
        self._pty, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, close_fds=True,
                                        start_new_session=True, env=dict(environment, TERM="xterm",
                                                                        LC_ALL="C.UTF-8"))
        os.close(its)
        self._written = b""

    def raw(self):
        """With what moves the cursor."""
        while select.select([self._pty], [], [], 0)[0]:
            try:
                self._written += os.read(self._pty, 65536)
            except OSError:                     # it has ended
                break
        return self._written

    def text(self):
        """Without what moves the cursor."""
        return re.sub(rb"\x1b(\[[0-9;?]*[a-zA-Z]|[()][A-Z0-9]|[=>])", b" ", self.raw()).decode(
            "utf-8", "replace")

    def press(self, keys):
        """What comes from now on is the text."""
        self.text()
        self._written = b""
        os.write(self._pty, keys)

    def wait_for(self, pattern):
        """On a screen that is drawn anew: else only what changes is written."""
        def is_there():
            self.press(b"\x0c")
            time.sleep(0.1)
            return re.search(pattern, self.text())
        wait_until("it shows " + pattern, is_there)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._pty)


class Top(SystemTest):
    SAMPLES = 200

    def top(self, server):
        terminal = Terminal(TUREEN, "top", "--connect", server.endpoint, "--seconds", "0.2",
                            environment=server.environment)
        self.addCleanup(terminal.end)
        return terminal

    def test_on_a_terminal(self):
        with self.serve() as server:
            for name in ("first", "second Ä"):
                server.read(batch=16, epochs=0, rate=100, name=name)
                wait_until("it is there", lambda: name in server.job_names())
            wait_until("they have drawn", lambda: all(
                job["sharing"]["alone"] + job["sharing"]["shared"] for job in server.status()["jobs"]))
            terminal = self.top(server)
            terminal.wait_for("2 jobs, delivered [0-9]+/s, prepared [0-9]+/s")
            terminal.wait_for(r"JOB +DATA +EPOCH")
            terminal.wait_for(r"second Ä +train")
            terminal.wait_for("first: [0-9]+ % of its samples served other jobs too, order shared")
            terminal.press(b"s")
            terminal.wait_for("name ")
            terminal.press(b"j")
            terminal.wait_for("second Ä: ")
            terminal.press(b"2")
            terminal.wait_for(r"DATA +SAMPLES +SIZE +KIND")
            terminal.wait_for(r"prepared [0-9.]+ [KM]?i?B of 64 MiB, compressed")
            terminal.wait_for(r"train +200 +[0-9.]+ KiB files")
            terminal.wait_for("sorted by DATA")
            terminal.press(b"s")
            terminal.wait_for("sorted by SAMPLES")
            terminal.press(b"\t")
            terminal.wait_for("0 machines lend 0 processors")
            terminal.wait_for("there are none")
            terminal.press(b"4")
            terminal.wait_for("this server has no tenants")
            terminal.press(b"\t")
            terminal.wait_for("this server keeps no blocks together with others")
            terminal.press(b"\t")
            terminal.wait_for("second Ä: ")            # the one that was picked
            server.kill()
            terminal.wait_for("its server has died|no server")      # and what it said last stays
            server.start()
            terminal.press(b"q")
            self.assertEqual(terminal.process.wait(harness.PATIENCE), 0)

    def test_a_small_terminal_and_a_signal(self):
        with self.serve() as server:
            server.read(batch=16, epochs=0, rate=100, name="first")
            wait_until("it is there", lambda: server.job_status("first"))
            terminal = Terminal(TUREEN, "top", "--connect", server.endpoint, environment=server.environment,
                                rows=3, columns=10)
            self.addCleanup(terminal.end)
            terminal.wait_for("first")
            terminal.process.send_signal(signal.SIGINT)
            self.assertNotIn(terminal.process.wait(harness.PATIENCE), (0, -signal.SIGSEGV, -signal.SIGABRT))

    def test_plain_lines(self):
        with self.serve() as server:
            server.read(batch=16, epochs=0, rate=100, name="first")
            wait_until("it is there", lambda: server.job_status("first"))
            with subprocess.Popen([TUREEN, "top", "--connect", server.endpoint, "--seconds", "0.2"],
                                  stdout=subprocess.PIPE, env=server.environment,
                                  universal_newlines=True) as process:
                timer = threading.Timer(harness.PATIENCE, process.kill)
                timer.start()
                lines = [process.stdout.readline().rstrip("\n") for _ in range(4)]
                timer.cancel()
                process.terminate()
            self.assertRegex(lines[0], r"^tureen [0-9][^ ,]*, up for [0-9]+ s, 1 job")
            self.assertRegex(lines[1], r"^  first on train: epoch [0-9]+, [0-9]+ %, [0-9]+/s, read ")
            self.assertRegex(lines[2], "^  data train: SAMPLES 200, SIZE [0-9.]+ KiB, KIND files, MEMORY -, "
                                       ".*, BAD 0$")
            self.assertRegex(lines[3], r", delivered [0-9]+/s, prepared [0-9]+/s")

    def test_without_a_server(self):
        done = run("top", "--connect", "ipc:///tmp/tureen-none/s", environment=dict(os.environ))
        self.assertEqual(done.returncode, 1)
        self.assertIn("tureen top: ", done.stderr)
        self.assertEqual(run("top", "--seconds", "0").returncode, 2)


if __name__ == "__main__":
    unittest.main()

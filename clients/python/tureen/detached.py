"""A process that outlives the one that starts it: its parent is init.

Ray kills the children of a worker that ends, whichever session they are in, and so do programs that end a
tree of processes.  A shell between the two is the child; when it is gone, the process belongs to init.

    happy path:     the shell starts the process, writes its id, and waits for it.  `let_go` ends the shell.
    failure modes:  the process ends before that: the shell passes its status on.
    on close:       where this process is what orphans come to (the first one of a container), a thread waits
                    for the process, so that no zombie is left.
"""
from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import threading
from typing import Optional, Sequence

#  The process writes to standard error, a log, only: the pipe is for its id.  As any process that a shell
#  starts in the background it ignores SIGINT.
_BETWEEN = '"$@" >&2 & echo $!; wait $!'
_BY_SIGNAL = 128                    # and the signal's number: what a shell says of a process that died of it


class Detached:
    """`process`: its id."""

    def __init__(self, command: Sequence[str], log: str, folder: str) -> None:
        """It runs in `folder`.  OSError where it cannot be started."""
        _find(command[0])
        with open(log, "wb") as file:
            #  A session of its own: the terminal's Ctrl-C is for the job.
            self._between = subprocess.Popen(["/bin/sh", "-c", _BETWEEN, "sh", *command], cwd=folder,
                                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=file,
                                             start_new_session=True)
        assert self._between.stdout is not None
        with self._between.stdout as answer:
            line = answer.readline()
        if not line:
            self._between.wait()
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        self.process = int(line)

    def poll(self) -> Optional[int]:
        """Its exit status, or the negative number of the signal that it died of; None while it runs."""
        status = self._between.poll()
        return status if status is None or status <= _BY_SIGNAL else _BY_SIGNAL - status

    def let_go(self) -> None:
        """Its parent is init from here on."""
        self._between.kill()
        self._between.wait()
        try:
            ended, _ = os.waitpid(self.process, os.WNOHANG)
        except ChildProcessError:
            return
        if not ended:
            threading.Thread(target=os.waitpid, args=(self.process, 0), name="tureen-serve",
                             daemon=True).start()

    def end(self) -> None:
        """Ends it if it still runs, and waits until it is gone."""
        if self._between.poll() is None:
            os.kill(self.process, signal.SIGTERM)
            self._between.wait()


def _find(program: str) -> None:
    """The shell would report a missing program by an exit status, as if the program had run."""
    if shutil.which(program) is None:
        number = errno.EACCES if os.path.exists(program) else errno.ENOENT
        raise OSError(number, os.strerror(number), program)

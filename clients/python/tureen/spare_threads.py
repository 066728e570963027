"""Whether more threads can be started.

ZeroMQ aborts the process where it can start none of its own: so that is tried first.
"""
from __future__ import annotations

import os
import threading
import time

from .errors import TureenError

_OF_ZEROMQ = 2                  # threads of a context, once it has a socket


def check_threads() -> None:
    """Starts as many threads as ZeroMQ will, at once, and ends them."""
    before = _count()
    over = threading.Event()
    threads = [threading.Thread(target=over.wait, name="tureen-spare", daemon=True)
               for _ in range(_OF_ZEROMQ)]
    try:
        for thread in threads:
            thread.start()
    except RuntimeError:
        raise TureenError("no thread can be started for a connection: raise the limit of processes and "
                          "threads (ulimit -u, TasksMax=), or end some") from None
    finally:
        over.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        #  One that is joined counts for a moment longer.
        until = time.monotonic() + 0.02
        while _count() > before and time.monotonic() < until:
            time.sleep(0.0005)


def _count() -> int:
    """Two more than the threads of this process."""
    try:
        return os.stat("/proc/self/task").st_nlink
    except OSError:
        return 0

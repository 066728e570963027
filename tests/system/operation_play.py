"""An operation for tests: `python3 operation_play.py KIND`, by the protocol of docs/operation.md.

A sample is known by its size: "at": [height, width] among the arguments names those with which it misbehaves;
without it all do.
"""
from __future__ import annotations

import ctypes
import fcntl
import importlib.util
import json
import mmap
import os
import platform
import signal
import socket
import struct
import sys
import termios
import threading
import time

import numpy as np

CLIENTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 2, "clients", "python")
if sys.argv[1:] == ["works"]:       # as users do
    sys.path.insert(0, CLIENTS)
    import tureen.operation as protocol
else:                               # without the rest of the package, which takes most of a process's start
    found = importlib.util.spec_from_file_location("operation",
                                                   os.path.join(CLIENTS, "tureen", "operation.py"))
    protocol = importlib.util.module_from_spec(found)
    found.loader.exec_module(protocol)


def transformed(image, height, width, seed, arguments):
    """The image's corner, inverted and repeated over the size asked for, plus what seed and arguments say."""
    add = int(arguments.get("add", 0)) + seed % 251
    rows, columns = np.arange(height) % image.shape[0], np.arange(width) % image.shape[1]
    return (255 - image[rows][:, columns] + np.uint8(add % 256)).astype(np.uint8)


def misbehaves(image, arguments):
    return list(image.shape[:2]) == arguments.get("at", list(image.shape[:2]))


def failing(how):
    def operation(image, height, width, seed, arguments):
        if misbehaves(image, arguments):
            try:
                return how(image, arguments) if how is killed else how(image)
            except LookupError:
                pass
        return transformed(image, height, width, seed, arguments)
    return operation


def crash(image):
    os.write(2, b"about to fall over\n")
    os.abort()


def hang(image):
    time.sleep(3600)


def wrong_shape(image):
    return image[:2, :2]


def raises(image):
    raise ValueError("no such\ncolour")


def fills_memory(image):
    return np.zeros(1 << 40, np.uint8)


def garbage(image):
    os.write(protocol.SOCKET, b"\x00\xff not what was asked for")
    time.sleep(3600)


def lies(image):
    """Says itself that all is well, with another size."""
    os.write(protocol.SOCKET, json.dumps({"call": 1, "height": 1, "width": 1}).encode())
    time.sleep(3600)


def floods(image):
    while True:
        os.write(1, b"x" * 65536 + b"\n")


def leaves(image):
    os._exit(7)


def closes(image):
    os.close(protocol.SOCKET)
    time.sleep(3600)


def finalises(image):
    """As Python does after an exception: what ends last is the process."""
    os.close(protocol.SOCKET)
    time.sleep(0.1)
    os._exit(3)


def empties(image):
    socket.socket(fileno=os.dup(protocol.SOCKET)).send(b"")
    time.sleep(3600)


def start_thread():
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()


def append(path):
    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, b"more")
    finally:
        os.close(file)


def tries(what):
    """Whether the sandbox lets it."""
    try:
        what()
        return "yes"
    except OSError:
        return "no"


def burns(image):
    """Takes processor time, then falls over."""
    while time.process_time() < begun + 0.3:
        pass
    crash(image)


def leaks(image):
    """After some samples there is no memory left in this process, whatever the sample."""
    global calls
    calls += 1
    if calls > 6:
        raise MemoryError
    raise LookupError


def killed(image, arguments):
    """As the kernel does it for want of memory, while there is the file `while`."""
    if os.path.exists(arguments["while"]):
        os.kill(os.getpid(), signal.SIGKILL)
    raise LookupError


def crowded(image):
    """Falls over if another process of this operation has a sample: together they would have too little."""
    global lock
    lock = os.open(__file__, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        crash(image)
    time.sleep(0.05)
    os.close(lock)
    raise LookupError


def lasts(image):
    """Falls over after some samples of each process, of two beside each other not after equally many."""
    global calls
    calls += 1
    if calls == 8 + os.getpid() % 4:
        crash(image)
    raise LookupError


def makes(libc, name, *arguments):
    """One of the calls below."""
    if libc.syscall(CALLS[name], *arguments) < 0:
        raise OSError(name)


def reads(path):
    with open(path, "rb") as file:
        file.read()


def signals():
    """What makes the kernel send any signal to any process, when there is something to read; and the like."""
    (end, other), server = socket.socketpair(), os.getppid()
    number = struct.pack("i", server)
    return {"waiting": tries(lambda: fcntl.ioctl(end, termios.FIONREAD, bytes(4))),
            "nonblock": tries(lambda: fcntl.fcntl(end, fcntl.F_SETFL, os.O_NONBLOCK)),
            "owner": tries(lambda: fcntl.fcntl(end, fcntl.F_SETOWN, server)),
            "owner-ex": tries(lambda: fcntl.fcntl(end, 15, struct.pack("ii", 1, server))),
            "owner-io": tries(lambda: fcntl.ioctl(end, 0x8901, number)),            # FIOSETOWN
            "group-io": tries(lambda: fcntl.ioctl(end, 0x8902, number)),            # SIOCSPGRP
            "signal": tries(lambda: fcntl.fcntl(end, fcntl.F_SETSIG, signal.SIGURG)),
            "async": tries(lambda: fcntl.fcntl(end, fcntl.F_SETFL, os.O_ASYNC))}


def sandbox(image):
    """What it may do, as an error that the test reads."""
    libc, home = ctypes.CDLL(None), os.environ["HOME"]
    keep, kept = (home + "/keep").encode(), os.open(home + "/keep", os.O_RDONLY)
    host, pixels = os.uname().nodename.encode(), mmap.mmap(protocol.MEMORY, 4096)
    space = ctypes.create_string_buffer(256)
    told = {"null": tries(lambda: open("/dev/null", "w")), "thread": tries(start_thread),
            "stream": tries(socket.socketpair), **signals(),
            "fork": tries(os.fork), "socket": tries(socket.socket),
            "kill": tries(lambda: os.kill(os.getppid(), 0)),
            "make": tries(lambda: open(home + "/made", "w")),
            "append": tries(lambda: append(home + "/keep")),
            "truncate": tries(lambda: os.truncate(home + "/keep", 0)),
            "empty": tries(lambda: os.close(os.open(home + "/keep", os.O_RDONLY | os.O_TRUNC))),
            "chmod": tries(lambda: os.chmod(home + "/keep", 0o666)),
            "chmod-2": tries(lambda: makes(libc, "fchmodat2", -100, keep, 0o666, 0)),
            "flags": tries(lambda: fcntl.ioctl(kept, 0x40086602, bytes(8))),        # FS_IOC_SETFLAGS
            "lease": tries(lambda: fcntl.fcntl(kept, fcntl.F_SETLEASE, fcntl.F_RDLCK)),
            "pair": tries(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)),
            "idle": tries(lambda: os.sched_setscheduler(os.getppid(), os.SCHED_IDLE, os.sched_param(0))),
            "queue": "no" if libc.msgget(0x7475, 0o1666) < 0 else "yes",
            "segments": "no" if libc.shmctl(0, 14, space) < 0 else "yes",           # SHM_INFO
            "keys": tries(lambda: makes(libc, "keyctl", 0, -2, 1)),     # of this process
            "faults": tries(lambda: makes(libc, "userfaultfd", 1)),
            "death": "no" if libc.prctl(1, 0, 0, 0, 0) else "yes",
            "remove": tries(lambda: os.unlink(home + "/other")),
            "trace": "no" if libc.ptrace(16, os.getppid(), 0, 0) else "yes",
            "look": tries(lambda: reads("/proc/%d/environ" % os.getppid())),
            "host": "no" if libc.sethostname(host, len(host)) else "yes",
            "shrink": tries(lambda: os.ftruncate(protocol.MEMORY, 0)),
            "holes": tries(lambda: pixels.madvise(9))}                  # MADV_REMOVE
    may = " ".join(key for key in told if told[key] == "yes")
    raise ValueError("%d open, secret: %s, may: %s" % (opened, "TUREEN_TEST_SECRET" in os.environ, may))


CALLS = {"fchmodat2": 452, "keyctl": {"x86_64": 250, "aarch64": 219}.get(platform.machine()),
         "userfaultfd": {"x86_64": 323, "aarch64": 282}.get(platform.machine())}
KINDS = {"crash": crash, "hang": hang, "wrong-shape": wrong_shape, "raises": raises, "memory": fills_memory,
         "garbage": garbage, "lies": lies, "floods": floods, "leaves": leaves, "sandbox": sandbox,
         "lasts": lasts, "burns": burns, "leaks": leaks, "killed": killed, "crowded": crowded,
         "closes": closes, "finalises": finalises, "empties": empties}
calls = 0
begun = time.process_time()
opened = len(os.listdir("/proc/self/fd"))       # the protocol's five, and this folder


def main():
    kind = sys.argv[1]
    if kind == "silent":
        time.sleep(3600)
    if kind == "slow":                  # to greet, until there is the file that is named behind it
        while not os.path.exists(sys.argv[2]):
            time.sleep(0.01)
    if kind == "greets-wrongly":
        os.write(protocol.SOCKET, b"hello")
        time.sleep(3600)
    if kind == "other-protocol":
        os.write(protocol.SOCKET, b'{"tureen_operation": 2}')
        time.sleep(3600)
    print("what a library prints at its start")
    operation = failing(KINDS[kind]) if kind in KINDS else transformed
    protocol.run(operation, random=kind == "random", version=kind)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A disk with a latency: an ext4 on a loop device, of which each read takes some milliseconds, and as many
are under way at once as are asked for.

    python3 bench/speed/late_disk.py --folder DIR --milliseconds 1 --size 8G      # until Ctrl-C

The disk's bytes are in memory (/dev/shm).  This process serves them as a file (FUSE, of which it speaks the
few messages that a loop device needs), and answers each read late.  Needs root.  The file system is mounted
at DIR.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import heapq
import mmap
import os
import select
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import List, Optional, Tuple, Type

ROOT, FILE = 1, 2                       # nodes
NAME = b"disk"
LOOKUP, FORGET, GETATTR, SETATTR, OPEN, READ, WRITE, STATFS, RELEASE, FSYNC, FLUSH, INIT = (
    1, 2, 3, 4, 14, 15, 16, 17, 18, 20, 25, 26)
OPENDIR, RELEASEDIR, ACCESS, INTERRUPT, DESTROY, BATCH_FORGET = 27, 29, 34, 36, 38, 42
ASYNC_READ, BIG_WRITES, ASYNC_DIO, MAX_PAGES = 1, 1 << 5, 1 << 15, 1 << 22
NO_ACCESS_TIMES = 1024                  # MS_NOATIME
MOST = 1 << 20                          # bytes of one message
IN = struct.Struct("=IIQQIIII")         # length, operation, unique, node, user, group, process, padding
OUT = struct.Struct("=Iiq")             # length, -errno, unique

libc = ctypes.CDLL(None, use_errno=True)


def system(rc: int, what: str) -> None:
    if rc != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


class File:
    """Answers the kernel until it is unmounted."""

    def __init__(self, folder: str, size: int, seconds: float) -> None:
        self.folder, self.size, self.seconds = folder, size, seconds
        descriptor, name = tempfile.mkstemp(prefix="tureen-late-", dir="/dev/shm")
        os.unlink(name)
        os.truncate(descriptor, size)
        self.bytes = descriptor
        self.device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        options = f"fd={self.device},rootmode=40000,user_id=0,group_id=0"
        system(libc.mount(b"late", folder.encode(), b"fuse", 0, options.encode()), "mount")
        self.late: List[Tuple[float, int, int, int]] = []       # when, unique, offset, bytes

    def answer(self, unique: int, *parts: bytes, error: int = 0) -> None:
        length = OUT.size + sum(len(part) for part in parts)
        try:
            os.writev(self.device, [OUT.pack(length, -error, unique), *parts])
        except FileNotFoundError:
            pass                        # it was interrupted

    def attributes(self, node: int) -> bytes:
        mode, size = (stat.S_IFDIR | 0o700, 0) if node == ROOT else (stat.S_IFREG | 0o600, self.size)
        return struct.pack("=QQQQQQIIIIIIIIII", node, size, (size + 511) // 512, 0, 0, 0, 0, 0, 0, mode, 1,
                           0, 0, 0, 4096, 0)

    def take(self, message: memoryview) -> None:
        _, operation, unique, node, *_ = IN.unpack_from(message)
        body = message[IN.size:]
        if operation == READ:
            _, offset, length = struct.unpack_from("=QQI", body)
            heapq.heappush(self.late, (time.monotonic() + self.seconds, unique, offset, length))
        elif operation == WRITE:
            _, offset, length = struct.unpack_from("=QQI", body)
            os.pwrite(self.bytes, body[40:40 + length], offset)
            self.answer(unique, struct.pack("=II", length, 0))
        elif operation == INIT:
            major, minor, ahead, flags = struct.unpack_from("=IIII", body)
            flags &= ASYNC_READ | BIG_WRITES | ASYNC_DIO | MAX_PAGES
            self.answer(unique, struct.pack("=IIIIHHIIHH32x", 7, min(minor, 31), ahead, flags, 256, 192, MOST,
                                            1, MOST // mmap.PAGESIZE, 0))
        elif operation == LOOKUP and bytes(body).rstrip(b"\0") == NAME:
            self.answer(unique, struct.pack("=QQQQII", FILE, 0, 3600, 3600, 0, 0), self.attributes(FILE))
        elif operation == GETATTR or operation == SETATTR:
            self.answer(unique, struct.pack("=QII", 3600, 0, 0), self.attributes(node))
        elif operation in (OPEN, OPENDIR):
            self.answer(unique, struct.pack("=QII", 0, 0, 0))
        elif operation == STATFS:
            self.answer(unique, struct.pack("=QQQQQIIII24x", 0, 0, 0, 0, 0, 4096, 255, 4096, 0))
        elif operation in (RELEASE, RELEASEDIR, FLUSH, FSYNC, ACCESS, DESTROY):
            self.answer(unique)
        elif operation not in (FORGET, BATCH_FORGET, INTERRUPT):
            self.answer(unique, error=errno.ENOENT if operation == LOOKUP else errno.ENOSYS)

    def run(self) -> None:
        memory = bytearray(MOST + mmap.PAGESIZE)
        view = memoryview(memory)
        while True:
            pause = max(0.0, self.late[0][0] - time.monotonic()) if self.late else None
            if select.select([self.device], [], [], pause)[0]:
                try:
                    self.take(view[:os.readv(self.device, [memory])])
                except OSError as error:
                    if error.errno == errno.ENODEV:
                        return          # unmounted
                    if error.errno not in (errno.EINTR, errno.EAGAIN, errno.ENOENT):
                        raise
            while self.late and self.late[0][0] <= time.monotonic():
                _, unique, offset, length = heapq.heappop(self.late)
                self.answer(unique, os.pread(self.bytes, length, offset))


class LateDisk:
    """An ext4 at `folder`, within `with`."""

    def __init__(self, folder: Path, size: int, seconds: float) -> None:
        self.folder, self.size, self.seconds = folder, size, seconds
        self._stack = ExitStack()

    def __enter__(self) -> "LateDisk":
        with ExitStack() as stack:
            place = stack.enter_context(tempfile.TemporaryDirectory(prefix="tureen-late-"))
            said, says = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    signal.signal(signal.SIGINT, signal.SIG_IGN)
                    file = File(place, self.size, self.seconds)
                    os.write(says, b"!")
                    os.close(says)
                    file.run()
                    os._exit(0)
                except BaseException as error:                          # noqa: B902
                    print(f"late_disk: {error}", file=sys.stderr)
                    os._exit(1)
            os.close(says)
            stack.callback(os.waitpid, child, 0)
            if os.read(said, 1) != b"!":
                raise SystemExit("late_disk: there is no FUSE here, or this is not root")
            os.close(said)
            stack.callback(libc.umount2, place.encode(), 0)
            attach = ["losetup", "--find", "--show", "--direct-io=on", f"{place}/{NAME.decode()}"]
            device = subprocess.run(attach, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
            stack.callback(subprocess.run, ["losetup", "--detach", device], check=True)
            subprocess.run(["mkfs.ext4", "-q", "-E", "nodiscard,lazy_itable_init=0", device], check=True)
            folder = str(self.folder).encode()
            system(libc.mount(device.encode(), folder, b"ext4", NO_ACCESS_TIMES, None), "mount")
            stack.callback(libc.umount2, folder, 0)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self._stack.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--folder", required=True)
    parser.add_argument("--milliseconds", type=float, default=1.0)
    parser.add_argument("--size", default="8G")
    options = parser.parse_args()
    size = int(options.size[:-1]) << {"M": 20, "G": 30}[options.size[-1]]
    with LateDisk(Path(options.folder), size, options.milliseconds / 1000):
        try:
            signal.pause()
        except KeyboardInterrupt:
            pass
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

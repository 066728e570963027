"""A bucket as a folder: starts the program that mounts it, and unmounts whatever is left below a folder.

The program runs under the `serve` process of its peer.  That process unmounts the bucket when its own
standard input ends, so no mount outlives a bench that is killed; peer_run.py unmounts what a killed `serve`
leaves.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, List, Optional

from peer import READY, Settings

FUSE = "/dev/fuse"
STARTS_S = 60.0


def mount_folder(settings: Settings) -> str:
    """Where a peer has the bucket; never inside of the bucket, which the store would list without an end."""
    return f"{settings.directory}/mounted"


def missing(program: str) -> Optional[str]:
    """Why the program cannot mount anything here; None: it can."""
    if shutil.which(program) is None:
        return f"there is no program {program} (Debian package {program})"
    if _unmounter() is None:
        return "there is no program fusermount (Debian package fuse)"
    try:
        os.close(os.open(FUSE, os.O_RDWR))
    except OSError as error:
        return f"{FUSE} cannot be opened: {error.strerror}"
    return None


def serve_mount(settings: Settings, command: List[str], environment: Dict[str, str]) -> None:
    """Runs the command, which stays in the foreground, and says READY when the bucket is mounted."""
    folder = mount_folder(settings)
    Path(folder).mkdir(exist_ok=True)
    program = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, env=environment)
    try:
        limit = time.monotonic() + STARTS_S
        while not os.path.ismount(folder):
            if program.poll() is not None or time.monotonic() > limit:
                sys.exit(f"{command[0]} did not mount the bucket")
            time.sleep(0.05)
        print(READY, flush=True)
        while not select.select([0], [], [], 0.5)[0]:
            if program.poll() is not None:
                sys.exit(f"{command[0]} ended with {program.returncode}")
    finally:
        unmount_below(settings.directory)
        program.kill()
        program.wait()


def unmount_below(directory: str) -> None:
    """Lazily: a program that was killed leaves a mount that answers nothing."""
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        #  Blanks and backslashes are octal there.
        folder = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), line.split()[1])
        if folder.startswith(directory + "/"):
            unmounter = _unmounter()
            assert unmounter, "mounted without it"
            subprocess.run([unmounter, "-u", "-z", folder], check=False)
            with contextlib.suppress(OSError):
                os.rmdir(folder)


def _unmounter() -> Optional[str]:
    return shutil.which("fusermount3") or shutil.which("fusermount")

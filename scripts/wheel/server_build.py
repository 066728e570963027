"""The server and libtureen, built for a wheel."""
from __future__ import annotations

import collections
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Deque, List

#  RPATH and not RUNPATH: it counts before LD_LIBRARY_PATH, with which environments such as conda's offer
#  other builds of the same libraries, and it counts for the libraries' own libraries too.
FOLDERS = "$ORIGIN/../lib;$ORIGIN"
STEP = re.compile(r"\[(\d+)/(\d+)\] ")         # ninja's
LINES_KEPT = 300
TOOLS = ("cmake", "ninja", "cc", "pkg-config", "strip")
LINK = "-Wl,--disable-new-dtags,--as-needed"


def build(root: Path, folder: Path, version: str, bundle: bool) -> Path:
    """The build's folder.  No path of this machine is in what it makes."""
    flags = f"-ffile-prefix-map={root}=. -ffile-prefix-map={folder}=build"
    settings = {"CMAKE_BUILD_TYPE": "Release", "BUILD_TESTING": "OFF", "TUREEN_VERSION_FIXED": version,
                "CMAKE_C_FLAGS": f"{os.environ.get('CFLAGS', '')} {flags}".strip(),
                "CMAKE_INSTALL_PREFIX": "/usr", "CMAKE_INSTALL_LIBDIR": "lib"}
    if bundle:
        settings.update(TUREEN_STATIC_LIBARCHIVE="ON", TUREEN_TIFF="OFF", CMAKE_BUILD_WITH_INSTALL_RPATH="ON",
                        CMAKE_INSTALL_RPATH=FOLDERS, CMAKE_EXE_LINKER_FLAGS=LINK,
                        CMAKE_SHARED_LINKER_FLAGS=LINK)
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        sys.exit(f"tureen: the server is built with {' and '.join(TOOLS)}, and there is no "
                 f"{' and no '.join(missing)} (on Debian: sh scripts/install-packages.sh build).  Without a "
                 "server: pip install --config-settings server=no")
    print("tureen: looking for the server's libraries", file=sys.stderr, flush=True)
    _run(["cmake", "-S", str(root), "-B", str(folder), "-G", "Ninja",
          *(f"-D{name}={value}" for name, value in settings.items())])
    _run(["cmake", "--build", str(folder), "--target", "tureen", "tureen_client"])
    return folder


def _run(command: List[str]) -> None:
    """Tells how far it is on standard error; what it said else comes only if it fails."""
    said: Deque[str] = collections.deque(maxlen=LINES_KEPT)
    tenths = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            step = STEP.match(line)
            if step and 10 * int(step[1]) // int(step[2]) > tenths:
                tenths = 10 * int(step[1]) // int(step[2])
                print(f"tureen: built {step[1]} of {step[2]}", file=sys.stderr, flush=True)
    if process.returncode:
        sys.stderr.writelines(said)
        sys.exit(f"tureen: {' '.join(command[:2])} failed; docs/dependencies.md names the packages that the "
                 "server is built with (on Debian: sh scripts/install-packages.sh build).  Without a server: "
                 "pip install --config-settings server=no")


def stripped(source: Path, target: Path) -> Path:
    shutil.copyfile(source, target)
    subprocess.run(["strip", "--strip-unneeded", str(target)], check=True)
    return target

"""The server and libtureen, built for a wheel."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import List

#  RPATH and not RUNPATH: it counts before LD_LIBRARY_PATH, with which environments such as conda's offer
#  other builds of the same libraries, and it counts for the libraries' own libraries too.
FOLDERS = "$ORIGIN/../lib;$ORIGIN"
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
    _run(["cmake", "-S", str(root), "-B", str(folder), "-G", "Ninja",
          *(f"-D{name}={value}" for name, value in settings.items())])
    _run(["cmake", "--build", str(folder), "--target", "tureen", "tureen_client"])
    return folder


def _run(command: List[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.stderr.write(done.stdout[-20000:])
        sys.exit(f"tureen: {' '.join(command[:2])} failed; docs/dependencies.md names the packages that the "
                 "server is built with (on Debian: sh scripts/install-packages.sh build).  Without a server: "
                 "pip install --config-settings server=no")


def stripped(source: Path, target: Path) -> Path:
    shutil.copyfile(source, target)
    subprocess.run(["strip", "--strip-unneeded", str(target)], check=True)
    return target

"""What this installation of the package brings along beside Python: the server, libtureen and its header.

A wheel has it for the platforms that Tureen is built for.  A source tree, and a wheel that was built without
the server, have none of it.
"""
from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Optional

_NATIVE = Path(__file__).resolve().parent / "native"


def server_path() -> Optional[str]:
    """The executable `tureen`; None: this installation has none."""
    path = _NATIVE / "bin" / "tureen"
    return str(path) if os.access(path, os.X_OK) else None


def executable() -> Optional[str]:
    """The `tureen` to start: $TUREEN_SERVER, else this installation's, else that on PATH; None: there is
    none."""
    return os.environ.get("TUREEN_SERVER") or server_path() or shutil.which("tureen")


def pkgconfig_folder() -> Optional[str]:
    """For PKG_CONFIG_PATH of programs in C that link libtureen; None: this installation has none."""
    folder = _NATIVE / "lib" / "pkgconfig"
    return str(folder) if folder.is_dir() else None

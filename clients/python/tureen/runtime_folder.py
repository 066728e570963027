"""The folder of a user's default endpoint: the server's rule too (clients/runtime_folder.h)."""
from __future__ import annotations

import os
import stat


def default_folder() -> str:
    """In the user's runtime directory, else in /tmp, where other users can make it first."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    return f"{runtime}/tureen" if runtime.startswith("/") and _usable(runtime) else in_tmp(os.geteuid())


def in_tmp(user: int) -> str:
    return f"/tmp/tureen-{user}"


def is_runtime_folder(path: str) -> bool:
    """Whether it is such a folder of this user, also where the user wrote the default endpoint out."""
    return path in (default_folder(), in_tmp(os.geteuid()))


def _usable(directory: str) -> bool:
    """A directory that belongs to the effective user and that this user may write to."""
    try:
        found = os.stat(directory)
    except (OSError, ValueError):
        return False
    return (stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
            and os.access(directory, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids))

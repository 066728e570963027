"""Whether this user may believe what listens at a path.

ZeroMQ connects to any socket with the right name.  In /tmp, and in every other folder where several users may
make files, another user can make that name first, and would then give us its own batches.  The rules are
those of the C client (clients/c/trust.h, which explains them):

    the path    in a folder where others may write, an entry counts only if it belongs to this user, to root
                or to the folder's owner; or if it is the default folder /tmp/tureen-UID of the user UID.
    the peer    the process that listens is this user's or root's, or belongs to the owner of the socket or of
                its folder.

A path of which a part does not exist (yet) is not refused: there is nothing to believe.  So the owner looks
before it connects and again at each connection.  The default folder /tmp/tureen-UID of this user is made
before it is looked at: another user would else make it while the client waits for its server, and hear what
it asks.
"""
from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
from typing import List, NamedTuple, Optional, TextIO, Tuple

from .errors import NotTrusted
from .runtime_folder import in_tmp, is_runtime_folder

_UCRED = struct.Struct("iII")
_LINKS_MAX = 40                     # as the kernel's
_NUMBERLESS = 65534                 # all users that have no number in our user namespace
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def is_ours(user: int) -> bool:
    """Whether it is this user or root."""
    return user in (os.geteuid(), 0)


def check_path(path: str) -> bool:
    """Looks at the path of a socket, before the first connection: whether from now on only trusted users can
    listen there.  NotTrusted names the place, its owner and the remedy."""
    held = in_tmp(os.geteuid())
    if path.startswith(f"{held}/"):
        with contextlib.suppress(OSError):      # what is there already is looked at
            os.mkdir(held, 0o700)
    return _look(path).is_closed


def check_listener(path: str, peer: int) -> None:
    """Looks at the path, and whether the user `peer` may listen there."""
    if not is_ours(peer) and peer not in _look(path).owners:
        raise NotTrusted(f"the server at {path} is not trusted: user {peer} runs it, and is neither user "
                         f"{os.geteuid()} nor root nor the owner of its folder: find that process, or use "
                         "another folder (--listen, TUREEN_ENDPOINT)")


def peer_of(descriptor: int) -> Optional[int]:
    """The user that listens at the other end of a Unix socket; None: unknown."""
    try:
        borrowed = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=descriptor)
    except OSError:
        return None
    try:
        _, user, _ = _UCRED.unpack(borrowed.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    except OSError:
        return None
    finally:
        borrowed.detach()               # the descriptor is another's
    return None if user == 2**32 - 1 else user


def open_beside(path: str) -> TextIO:
    """A small file beside the socket: a regular one, of this user, of root or of the owner of its folder.
    Never blocks.  OSError where it is not."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY)
    file = open(descriptor, encoding="ascii")
    found, folder = os.fstat(descriptor), os.stat(os.path.dirname(path) or ".")
    if stat.S_ISREG(found.st_mode) and (is_ours(found.st_uid) or found.st_uid == folder.st_uid):
        return file
    file.close()
    raise PermissionError(f"{path} is not a file of this user's")


class _Place(NamedTuple):
    """Where the socket is."""
    owners: Tuple[int, ...]         # of its folder, and its own if it is there
    is_closed: bool                 # to users that are not trusted


def _look(path: str) -> _Place:
    """Goes from the root to the socket."""
    if path.startswith("@"):
        return _Place((), False)    # a socket without a file, of any user
    here, folder, links, is_loose = "", os.stat("/"), 0, False
    rest = _names(path if path.startswith("/") else os.path.join(os.getcwd(), path))
    while rest:
        name = rest.pop()
        if name == "..":
            here = os.path.dirname(here)
            folder = os.stat(here or "/")
            continue
        entry = f"{here}/{name}"
        try:
            found = os.lstat(entry)
        except OSError:
            break
        is_owner = found.st_uid == folder.st_uid != _NUMBERLESS
        if folder.st_mode & _OTHERS and not is_ours(found.st_uid) and not is_owner \
                and entry != in_tmp(found.st_uid):
            raise NotTrusted(
                f"no server at {path} is trusted: '{entry}' belongs to user {found.st_uid}, and every user "
                f"that may write to '{here or '/'}' could have made it. Remove it (as root), or let server "
                f"and clients use a folder that only user {os.geteuid()} or root can make (--listen, "
                "TUREEN_ENDPOINT)")
        is_loose = is_loose or _lets_replace(folder)
        if stat.S_ISLNK(found.st_mode):
            links += 1
            if links > _LINKS_MAX:
                break
            target = os.readlink(entry)
            rest += _names(target)
            if target.startswith("/"):
                here, folder = "", os.stat("/")
        elif rest:
            here, folder = entry, found
        else:
            return _judged(path, here, folder, is_loose, found.st_uid)
    return _Place((folder.st_uid,), False) if rest else _judged(path, here, folder, is_loose)


def _lets_replace(folder: os.stat_result) -> bool:
    """Whether other users can exchange what the folder's owner has there."""
    return bool(folder.st_mode & _OTHERS and not folder.st_mode & stat.S_ISVTX)


def _judged(path: str, here: str, folder: os.stat_result, is_loose: bool, *owners: int) -> _Place:
    """NotTrusted where users other than the folder's owner may replace the socket: a server would not listen
    there either.  A runtime folder has no reason to be sticky.  `is_loose`: other users can exchange a folder
    on the way."""
    if _lets_replace(folder) or folder.st_mode & _OTHERS and is_runtime_folder(here):
        raise NotTrusted(
            f"no server at {path} is trusted: users other than its owner, user {folder.st_uid}, may write to "
            f"the folder '{here or '/'}' and replace the socket: chmod go-w it, or use another folder")
    return _Place((folder.st_uid, *owners), not is_loose and not folder.st_mode & _OTHERS)


def _names(path: str) -> List[str]:
    """The last one first."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]

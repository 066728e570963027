"""Why no server was found at an endpoint, and how to start one.

A server's files tell what became of it: the socket, and beside it the lock file with its process id.  They
are only looked at: taking the lock, even for a moment, would stand in the way of a server that starts.
"""
from __future__ import annotations

import os
import shlex
import socket
import stat
from typing import Mapping, Optional, Sequence, Tuple

from .errors import NoServer
from .trust import open_beside

_PROBE_S = 1.0


def no_server(endpoint: str, waited_s: float, dataset: str = "") -> NoServer:
    """The error for a client that got no answer: what is there, and the command that starts a server.  Takes
    a second at most."""
    guard = ["--keys", "DIR"] if endpoint.startswith("tcp://") else []     # a server refuses tcp without
    command = start_command(endpoint, {dataset or "NAME": "PATH"}, guard)
    return NoServer(f"no server answers at {endpoint} (waited {waited_s:g} s): {what_is_there(endpoint)}. "
                    f"Start one with: {command}")


def start_command(endpoint: str, datasets: Mapping[str, str], arguments: Sequence[str] = ()) -> str:
    """What a user would type."""
    words = ["tureen", "serve"]
    for name, path in datasets.items():
        words += ["--dataset", f"{name}={path}"]
    return shlex.join([*words, "--listen", endpoint, *arguments])


def what_is_there(endpoint: str) -> str:
    """Half a sentence."""
    if endpoint.startswith("ipc://"):
        return _at_path(endpoint[len("ipc://"):])
    if endpoint.startswith("tcp://"):
        return _at_port(endpoint[len("tcp://"):])
    return "it is neither ipc:///PATH nor tcp://HOST:PORT"


def listens(endpoint: str) -> bool:
    """Whether any program listens there, a Tureen server or not."""
    try:
        if endpoint.startswith("ipc://"):
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(_PROBE_S)
                probe.connect(endpoint[len("ipc://"):])
        else:
            host, _, port = endpoint[len("tcp://"):].rpartition(":")
            socket.create_connection((host.strip("[]"), int(port)), _PROBE_S).close()
    except (OSError, ValueError):
        return False
    return True


def is_vacant(endpoint: str) -> bool:
    """Whether no server listens, and none that would listen soon has locked the endpoint."""
    return server_process(endpoint) is None and not listens(endpoint)


#   ---- a port

def _at_port(address: str) -> str:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PROBE_S).close()
    except ValueError:
        return "it has no port: give tcp://HOST:PORT"
    except ConnectionRefusedError:
        return "that host refuses the connection, so nothing listens on the port"
    except OSError as error:
        return (f"that host cannot be reached ({error.strerror or error}): is the name right, does a "
                f"firewall stand between?")
    return "something listens there, but it is no Tureen server, or it is too busy to answer"


#   ---- a path

def _at_path(path: str) -> str:
    folder = os.path.dirname(path) or "/"
    try:
        found = os.stat(path)
    except PermissionError:
        return f"user {os.geteuid()} may not look into its folder: {_closed(folder)}"
    except (OSError, ValueError):
        return _without_socket(path, folder)
    if not stat.S_ISSOCK(found.st_mode):
        return f"{path} is there and is no socket"
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(_PROBE_S)
            probe.connect(path)
    except ConnectionRefusedError:
        return f"the socket is there, and nothing listens at it: its server has died{_holder(path)}"
    except PermissionError:
        return (f"the socket belongs to user {found.st_uid}, and user {os.geteuid()} may not use it: "
                "a server is its user's alone, or its group's where it has one")
    except OSError as error:
        return f"the socket is there, but cannot be used ({error.strerror or error})"
    return ("a server listens there, but it does not answer: it is stopped or very busy, or it does not "
            f"serve user {os.geteuid()}{_holder(path)}")


def _without_socket(path: str, folder: str) -> str:
    process = lock_holder(path)
    if process:
        return (f"process {process} has locked it and does not listen yet: it is reading its data sets; wait "
                "longer (timeout), or look at its log")
    if not os.path.isdir(folder):
        return (f"there is no folder {folder}: no server has been started there, or in a container it is not "
                f"mounted")
    return ("there is no such socket: no server is running, or it listens elsewhere (see its log, --listen, "
            "TUREEN_ENDPOINT)")


def _closed(folder: str) -> str:
    """Which folder on the way is another user's."""
    while True:
        try:
            return (f"{folder} belongs to user {os.stat(folder).st_uid}, and a server is its user's alone, "
                    f"or its group's")
        except OSError:
            folder = os.path.dirname(folder)


def _holder(path: str) -> str:
    process = lock_holder(path)
    return f" (process {process} holds its lock)" if process else ""


def starting(endpoint: str) -> Optional[NoServer]:
    """What there is to be said of a server that has claimed the endpoint and does not listen yet, or that
    died and is started again; None: there is none."""
    if not endpoint.startswith("ipc://") or listens(endpoint):
        return None
    process, parent = (number if lives(number) else None for number in _in_lock(endpoint[len("ipc://"):]))
    if process is not None:
        return NoServer(f"the server is starting: process {process} has locked {endpoint} and does not "
                        "listen yet")
    if parent is not None:
        return NoServer(f"the server at {endpoint} has died, and process {parent} starts it again")
    return None


def server_process(endpoint: str) -> Optional[int]:
    """Of the server at that endpoint, or that starts there; None: nothing tells."""
    return lock_holder(endpoint[len("ipc://"):]) if endpoint.startswith("ipc://") else None


def lock_holder(path: str) -> Optional[int]:
    """The process that the lock file of a socket names, if there is one and it lives."""
    process, _ = _in_lock(path)
    return process if lives(process) else None


def _in_lock(path: str) -> Tuple[int, int]:
    """The server's process and its parent, as its lock file says; 0: unknown."""
    try:
        with open_beside(path + ".lock") as file:
            process, parent = (*map(int, file.read(48).split()), 0, 0)[:2]
    except (OSError, ValueError):
        return 0, 0
    return process, parent


def lives(process: int) -> bool:
    """Whether it is a server: its number may be any process's by now, or in another container."""
    if process <= 0:
        return False
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return False
    return "(tureen" in text and text.rpartition(")")[2].split()[0] not in "ZX"

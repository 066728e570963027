"""A server for the jobs of this user, which the first of them starts and the others join.

    server = tureen.serve(train="/data/train", val="/data/val", cache="8G")
    for batch in tureen.Loader(server.endpoint, dataset="train"):
        ...

    happy path:     ask the endpoint; if no server answers, start `tureen serve`, and ask until it answers.
                    Several processes may do this at once: their servers elect one among them by the
                    endpoint's lock, and the others end with a status of their own.  Then ask the winner.
    failure modes:  the started server ends: its log says why.  The server that won fails while other
                    processes wait for it: they start theirs after all.  The server that answers serves other
                    data: an error names them.
    on close:       the server does not depend on this process: its parent is init (detached.py), and it ends
                    by itself when it has had no job for a while.  If it dies before, this process's loaders
                    start it again (standby.py).
"""
from __future__ import annotations

import itertools
import os
import re
import signal
import tempfile
import time
import warnings
import weakref
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import finding, installed, standby
from .detached import Detached
from .errors import NoServer, NotLetIn, TureenError
from .query import status
from .request import resolve_endpoint, seconds

Path = Union[str, "os.PathLike[str]"]

STATUS_LOCKED = 3               # `tureen serve`: another live server has the endpoint
_ASK_S = 1.0                    # for an answer, before looking again which server is there
_LOOK_S = 0.02
_LOG_LINES = 12
_ADDRESS = re.compile(r"[A-Za-z0-9+.-]+://")
_STORE = re.compile(r"(s3|https?)://", re.IGNORECASE)
_FIELD = re.compile(r"([^.=]+)\.([^=]+)=(?:image|mask|file):(.+)")
_LOOKED_AT = 4096               # entries of a folder, which may have millions
_CLOCK_S = 2.0                  # of a server that has just begun to list, and of file systems' clocks


class ServeFailed(TureenError):
    """No server could be started, or the one that is there serves other data."""


class Server:
    """A server that answered.

    endpoint    where it listens: for Loader (endpoint=...), also in other processes of this user
    process     its process id, if this process has started it; None: it was there
    log         the file that it writes its log to, if this process has started it

    It ends by itself when it has had no job for a while; after a `with` block at once, if no job uses it.  If
    it dies, the loaders of the processes that called `serve` start another one; where this process has done
    that, `process` and `log` are that one's.
    """

    def __init__(self, endpoint: str, process: Optional[int], log: Optional[str]) -> None:
        self.endpoint = endpoint
        self.process = process
        self.log = log

    def status(self, timeout: float = 5.0) -> Dict[str, Any]:
        """As tureen.status."""
        return status(self.endpoint, timeout)

    def stop(self) -> None:
        """Ends the server now, even if other jobs use it, if this process has started it; else it warns.
        Without `stop` the server ends by itself."""
        process, self.process = self.process, None
        if process is not None:
            standby.forget(self.endpoint)
            try:
                os.kill(process, signal.SIGTERM)
            except ProcessLookupError:
                if finding.listens(self.endpoint):
                    self.log = None         # it had died, and another process has started this one
        if self.log is None:
            warnings.warn(f"another process has started the server at {self.endpoint}, which goes on: it "
                          f"ends by itself when it is idle, or by `{_drain(self.endpoint)}`",
                          RuntimeWarning, 2)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: Any) -> None:
        """Ends the server now if this process has started it and no job is left: for a script that is alone.
        In a sweep leave the `with` out: another process may be about to join."""
        try:
            if self.process is not None and not self.status()["jobs"]:
                self.stop()
        except NoServer:
            pass

    def __repr__(self) -> str:
        return f"Server(endpoint={self.endpoint!r}, process={self.process}, log={self.log!r})"


def serve(datasets: Optional[Mapping[str, Path]] = None, *, endpoint: Optional[str] = None,
          cache: Union[None, int, str] = None, workers: Optional[int] = None, idle: int = 60,
          timeout: float = 60.0, allow_empty: Sequence[str] = (),
          classes_from: Optional[Mapping[str, str]] = None, arguments: Sequence[str] = (),
          **more: Path) -> Server:
    """A server with these data sets: the one that is there, or one that is started.

    datasets, more  paths by name: serve(train="/data/train"), or serve({"train": "/data/train"}) for any
                    name; or addresses of packs in object stores (docs/stores.md)
    endpoint        where it listens; None: $TUREEN_ENDPOINT or the default, where a Loader without an
                    endpoint looks too
    cache, workers  as of `tureen serve`
    idle            it ends when it has had no job for so many seconds (from its start: a minute at least):
                    longer than a process takes from here to its first batch
    timeout         seconds to wait until it answers; listing millions of files takes a while
    allow_empty     names of data sets in which a class folder without a sample is a class, as with
                    ImageFolder (allow_empty=True): so that labels are those of other splits
    classes_from    {"val": "train"}: labels of val are the numbers that train gives to classes of these names
    arguments       further ones of `tureen serve`, such as ["--policy", "dsa"]

    Any number of processes of one user may call this at once: one server is started, and all get it.  The
    process that starts it sets its cache, workers, idle and arguments.  The executable is $TUREEN_SERVER, or
    what was installed with this package, or else `tureen` on PATH.  The environment is not changed:
    processes that are to find a server at another endpoint than the default must be told.

    Raises ServeFailed if no server can be started (with the last lines of its log) or if the server that is
    there serves other data under one of the names, other files for a `--field` of arguments, or classes with
    other numbers than classes_from asks for; NoServer if
    it does not answer in time.  Warns if folders were changed since the server that is there listed them.
    """
    wanted = {name: _absolute(name, _path(name, path)) for name, path in {**(datasets or {}), **more}.items()}
    if not wanted:
        raise ValueError("no data set: say which, as in serve(train=\"/data/train\")")
    if isinstance(idle, bool) or not isinstance(idle, int) or idle < 1:
        raise ValueError(f"idle must be a whole number of seconds from 1, not {idle!r}")
    words = [*_class_settings(wanted, allow_empty, classes_from or {}), *(str(word) for word in arguments)]
    settings = [f"--until-idle={idle}"]
    settings += [] if cache is None else ["--cache", str(cache)]
    settings += [] if workers is None else ["--workers", str(workers)]
    listen = resolve_endpoint(endpoint)
    datasets_given = [word for name, path in wanted.items() for word in ("--dataset", f"{name}={path}")]
    command = _Command(["serve", *datasets_given, "--listen", listen, *settings, *words], os.getcwd())
    starting = _Starting(listen, wanted, _fields(words), command, seconds("timeout", timeout))
    server = starting.run()
    if server.process is None:
        _check_classes(server, classes_from or {})
    _stand_by(starting, server)
    return server


def _class_settings(wanted: Mapping[str, Any], allow_empty: Sequence[str],
                    classes_from: Mapping[str, str]) -> List[str]:
    if isinstance(allow_empty, (str, bool)):
        raise TypeError(f"allow_empty is a list of data sets' names, such as [\"val\"], not {allow_empty!r}")
    for name in (*allow_empty, *classes_from, *classes_from.values()):
        if name not in wanted:
            raise ValueError(f"there is no data set {name!r} here; there are: {', '.join(wanted)}")
    return [*(f"--allow-empty={name}=yes" for name in allow_empty),
            *(f"--classes-from={name}={other}" for name, other in classes_from.items())]


def _check_classes(server: Server, classes_from: Mapping[str, str]) -> None:
    """Of a server that was there."""
    from .dataset import DataSet
    for name, other in classes_from.items():
        if DataSet(name, endpoint=server.endpoint).class_to_idx \
                != DataSet(other, endpoint=server.endpoint).class_to_idx:
            raise ServeFailed(f"the server at {server.endpoint} does not number the classes of {name!r} as "
                              f"those of {other!r}: end it (`{_drain(server.endpoint)}`), or choose another "
                              "endpoint")


class _Command(NamedTuple):
    """How a server is started."""
    words: List[str]                    # behind the executable
    folder: str


def _stand_by(starting: _Starting, server: Server) -> None:
    """Has the server started again if it dies: as it was started, by whichever process."""
    #  A server that does not end when it is idle was started by other means, which start it again too.
    if not starting.ends_idle:
        return
    endpoint = server.endpoint
    command = starting.command if server.process else _running(endpoint) or starting.command
    _returned.setdefault(endpoint, weakref.WeakSet()).add(server)

    def start(timeout_s: float) -> None:
        found = _Starting(endpoint, starting.wanted, starting.fields, command, timeout_s).run()
        for known in _returned[endpoint]:
            known.process, known.log = found.process, found.log
    standby.remember(endpoint, start)


#  What serve has returned, by endpoint.
_returned: Dict[str, weakref.WeakSet[Server]] = {}


def _running(endpoint: str) -> Optional[_Command]:
    """How the server that holds the endpoint was started; None: that cannot be seen, or another user started
    it: a command of another user is not run as this one."""
    process = finding.lock_holder(endpoint[len("ipc://"):]) if endpoint.startswith("ipc://") else None
    try:
        if os.stat(f"/proc/{process}").st_uid != os.geteuid():
            return None
        with open(f"/proc/{process}/cmdline", "rb") as file:
            words = [os.fsdecode(word) for word in file.read().split(b"\0")[1:-1]]
        return _Command(words, os.readlink(f"/proc/{process}/cwd"))
    except OSError:
        return None


def _drain(endpoint: str) -> str:
    return f"tureen drain --connect {endpoint}"


def _fields(words: Sequence[str]) -> Dict[Tuple[str, str], str]:
    """What `--field NAME.FIELD=KIND:DIR` says, in one word or two: the folder by data set and field."""
    found = {}
    for word, after in zip(words, [*words[1:], ""]):
        option, is_one, value = word.partition("=")
        match = option == "--field" and _FIELD.match(value if is_one else after)
        if match:
            found[match[1], match[2]] = _absolute(match[2], match[3])
    return found


def _changed_since(path: str, moment: float) -> Optional[str]:
    """A folder of the data set in which names were added or removed since: the root, or one directly below
    it, as a class has."""
    try:
        with os.scandir(path) as entries:
            looked_at = itertools.islice(entries, _LOOKED_AT)
            folders = [path, *(entry.path for entry in looked_at if entry.is_dir())]
        return next((folder for folder in folders if os.stat(folder).st_mtime > moment), None)
    except OSError:
        return None


def _path(name: str, path: Any) -> str:
    try:
        return os.fspath(path)
    except TypeError:
        raise TypeError(f"{name} must be a path, not {type(path).__name__}: that of the folder or "
                        "pack") from None


def _absolute(name: str, path: str) -> str:
    if _STORE.match(path):
        return path.rstrip("/")
    #  An address taken as a relative path would lose a slash, and name a folder that the user did not mean.
    if _ADDRESS.match(path) and not os.path.exists(path):
        raise ValueError(f"{name}={path!r}: of addresses only s3://, http:// and https:// are known: copy "
                         "the data to a folder of this machine, or mount it, and give that folder's path")
    return os.path.abspath(path)


def _is_same(served: str, wanted: str) -> bool:
    if _STORE.match(wanted):
        return served.rstrip("/") == wanted
    return os.path.realpath(served) == os.path.realpath(wanted)


class _Starting:
    """One call of serve."""

    def __init__(self, endpoint: str, wanted: Mapping[str, str], fields: Mapping[Tuple[str, str], str],
                 command: _Command, timeout_s: float) -> None:
        self._endpoint = endpoint
        self.wanted = wanted
        self.fields = fields
        self.command = command
        self.ends_idle = False          # the server that answered
        self._timeout_s = timeout_s
        self._until = time.monotonic() + timeout_s
        self._log = ""
        self._listed = 0.0              # when the server that answered began, by time.time ()
        self._process: Optional[Detached] = None

    def run(self) -> Server:
        try:
            if finding.listens(self._endpoint) and self._answers():
                self._warn_of_changes()
                return Server(self._endpoint, None, None)
            while True:
                self._start()
                server = self._wait()
                if server is not None:
                    return server
        except BaseException:           # Ctrl-C too: a caller that gives up leaves no process behind
            if self._process is not None:
                self._process.end()
            raise

    def _start(self) -> None:
        executable = _executable()
        if not self._log:
            descriptor, self._log = tempfile.mkstemp(prefix="tureen-serve-", suffix=".log")
            os.close(descriptor)
        try:
            self._process = Detached([executable, *self.command.words], self._log, self.command.folder)
        except OSError as error:
            raise ServeFailed(f"{error.filename or executable} cannot be started ({error.strerror}): set "
                              "TUREEN_SERVER to the server's executable, or put it on PATH") from None

    def _wait(self) -> Optional[Server]:
        """Until a server answers.  None: another one had the lock, and is gone without having answered."""
        assert self._process is not None
        process = self._process
        while (ended := process.poll()) is None:
            if self._listens() and self._answers():
                process.let_go()
                return Server(self._endpoint, process.process, self._log)
            if self._left_s() <= 0:
                raise self._too_late()
            time.sleep(_LOOK_S)
        if ended != STATUS_LOCKED:
            how = f"ended with status {ended}" if ended >= 0 else f"died of {signal.Signals(-ended).name}"
            raise ServeFailed(f"the server {how}: {self._last_words()}")
        while not self._answers():
            if self._left_s() <= 0:
                raise self._too_late()
            if finding.is_vacant(self._endpoint):
                return None
        os.unlink(self._log)
        return Server(self._endpoint, None, None)

    def _listens(self) -> bool:
        """Ours says so; another one may answer while ours is still finding out that it is not the first."""
        with open(self._log, "rb") as file:
            return b"listening on " in file.read()

    def _left_s(self) -> float:
        return self._until - time.monotonic()

    def _too_late(self) -> NoServer:
        error = finding.no_server(self._endpoint, self._timeout_s, next(iter(self.wanted)))
        if self._process is None or self._process.poll() is not None:
            return error
        return NoServer(f"{error}\nThe server that was started for it has not got so far: "
                        f"{self._last_words()}")

    def _answers(self) -> bool:
        try:
            found = status(self._endpoint, max(0.05, min(_ASK_S, self._left_s())))
        except NotLetIn:
            raise
        except NoServer:
            return False
        self._check_data(found["datasets"])
        self._listed = time.time() - found["uptime_seconds"]
        self.ends_idle = found["until_idle"] is not None
        return True

    def _warn_of_changes(self) -> None:
        """Of the server that was there before this call."""
        for name, path in self.wanted.items():
            folder = None if _STORE.match(path) else _changed_since(path, self._listed + _CLOCK_S)
            if folder:
                warnings.warn(f"files were added to {folder} or removed after the server at {self._endpoint} "
                              f"had listed {name!r}: it serves what it found then. "
                              f"`{_drain(self._endpoint)}` ends it, and the next one lists anew",
                              RuntimeWarning, 4)

    def _check_data(self, served: Sequence[Mapping[str, Any]]) -> None:
        paths = {entry["name"]: entry["path"] for entry in served}
        wrong = []
        for name, path in self.wanted.items():
            if name not in paths:
                wrong.append(f"it has no data set {name!r} ({path} was asked for)")
            elif not _is_same(paths[name], path):
                wrong.append(f"its {name!r} is {paths[name]}, and {path} was asked for")
        folders = {(entry["name"], field): folder for entry in served
                   for field, folder in zip(entry["fields"], entry.get("folders", []))}
        for (name, field), path in self.fields.items():
            folder = folders.get((name, field))
            if folder is None:
                wrong.append(f"its {name!r} has no field {field!r} ({path} was asked for)")
            elif not _is_same(folder, path):
                wrong.append(f"the field {field!r} of its {name!r} is {folder}, and {path} was asked for")
        if wrong:
            raise ServeFailed(f"a server is running at {self._endpoint}, with other data: "
                              f"{'; '.join(wrong)}. Ask for what it has, stop it "
                              f"(`{_drain(self._endpoint)}`), or give another endpoint")

    def _last_words(self) -> str:
        with open(self._log, "rb") as file:
            lines = file.read().decode("utf-8", "replace").splitlines()[-_LOG_LINES:]
        if not lines:
            return f"its log {self._log} is empty"
        return "its log %s ends with:\n%s" % (self._log, "\n".join("  " + line for line in lines))


def _executable() -> str:
    found = installed.executable()
    if found is None:
        raise ServeFailed("there is no `tureen` to start a server with, neither in this installation of the "
                          "Python package nor on PATH: install a wheel that has it (docs/deployment.md), put "
                          "its folder on PATH, or set TUREEN_SERVER to the executable")
    return os.path.abspath(found) if os.path.dirname(found) else found

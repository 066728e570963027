"""A server for the jobs of this user, which the first of them starts and the others join.

    server = tureen.serve(train="/data/train", val="/data/val", memory="64G")
    for batch in tureen.Loader(server.endpoint, dataset="train"):
        ...

    happy path:     ask the endpoint; if no server answers, start `tureen serve`, and ask until it answers.
                    Several processes may do this at once: their servers elect one among them by the
                    endpoint's lock, and the others end with a status of their own.  Then ask the winner.
    failure modes:  the started server ends: its log says why.  The server that won fails while other
                    processes wait for it: they start theirs after all.  The server that answers lacks data:
                    they are added to it (adding.py), where it is this user's.
    on close:       the server does not depend on this process: its parent is init (detached.py), and it ends
                    by itself when it has had no job for a while.  If it dies before, this process's loaders
                    start it again (standby.py).
"""
from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import tempfile
import time
import warnings
import weakref
from typing import Any, Collection, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import adding, finding, installed, names, options, standby
from .adding import how_to_stop
from .connection import still_there
from .control import status
from .detached import Detached
from .errors import NoServer, NotLetIn, RequestRefused, ServeFailed, TureenError
from .names import STORE, Data
from .request import resolve_endpoint, seconds

Path = Union[str, "os.PathLike[str]"]
Datasets = Union[None, Path, Mapping[str, Path]]

STATUS_LOCKED = 3               # `tureen serve`: another live server has the endpoint
_ASK_S = 1.0                    # for an answer, before looking again which server is there
_LOOK_S = 0.02
_LOG_LINES = 12
_LOG_PREFIX, _LOG_SUFFIX = "tureen-serve-", ".log"
_LOG_KEPT_S = 7 * 24 * 3600.0
_ADDRESS = re.compile(r"[A-Za-z0-9+.-]+://")
_LOOKED_AT = 4096               # entries of a folder, which may have millions
_CLOCK_S = 2.0                  # of a server that has just begun to list, and of file systems' clocks


class Server:
    """A server that answered.

    endpoint    where it listens: for Loader (endpoint=...), also in other processes of this user
    process     its process id, if this process has started it; None: it was there
    log         the file that it writes its log to, if this process has started it
    names       what it calls the data sets that were asked for, by the names that they were asked for by:
                {"train": "train"}, or where it has other data as "train" {"train": "train-1f2e3d"}.  Loaders
                of this process take either; other processes need the server's

    It ends by itself when it has had no job for a while; after a `with` block at once, if no job uses it.  If
    it dies, the loaders of the processes that called `serve` start another one; where this process has done
    that, `process` and `log` are that one's.
    """

    def __init__(self, endpoint: str, process: Optional[int], log: Optional[str]) -> None:
        self.endpoint = endpoint
        self.process = process
        self.log = log
        self._data: List[Data] = []

    @property
    def names(self) -> Dict[str, str]:
        return {data.name: data.served for data in self._data}

    def status(self, timeout: float = 5.0) -> Dict[str, Any]:
        """As tureen.status."""
        return status(self.endpoint, timeout)

    def add(self, datasets: Datasets = None, *, timeout: float = 60.0, allow_empty: Sequence[str] = (),
            classes_from: Optional[Mapping[str, str]] = None, arguments: Sequence[str] = (),
            **more: Path) -> None:
        """The server has these data sets too, from now on: server.add(test="/data/test").  Its jobs go on
        meanwhile.  What it has already stays as it is, and a name that is taken gets another one (`names`).

        All arguments are as of tureen.serve; `arguments` may be of data sets only, such as ["--field",
        "test.mask=mask:/masks"], and `classes_from` may name what was asked for before.  Raises and warns as
        tureen.serve does.
        """
        given = _Given.of(datasets, more, allow_empty, classes_from or {}, arguments, self._data)
        others = [f"--{option}" for option, _ in given.parsed.others]
        if others:
            raise ValueError(f"{', '.join(others)}: of a running server only the settings of data sets that "
                             "are added can be given")
        wanted = names.known(self.endpoint, given.data)
        #  What was asked for before too, where it is another server by now.
        before = [data for data in _lost(self.endpoint) if data.process is not None and data not in wanted]
        starting = _Starting(self.endpoint, before + wanted, _restart(self.endpoint),
                             seconds("timeout", timeout), must=wanted)
        found = starting.run()
        if found.process is not None:
            self.process, self.log = found.process, found.log
        standby.settled(self.endpoint, starting.process)
        _settle(self, wanted, starting, classes_from or {})

    def remove(self, name: str, now: bool = False, timeout: float = 10.0) -> int:
        """Takes a data set, by this process's name for it or the server's, from the server: its name is free
        at once.  While jobs use it RequestRefused, `in_use`, which counts them; with `now` they are ended
        (JobEnded, `removed`).  Gives how many were.
        """
        if not isinstance(name, str):
            raise TypeError(f"name must be that of a data set, not {name!r}")
        data = next((data for data in self._data if data.name == name), names.find(self.endpoint, name))
        served = name if data is None else data.served
        timeout = seconds("timeout", timeout)
        try:
            if data is not None and adding.has_other(self.endpoint, data, timeout):
                jobs = 0                    # another process has removed it, and its name is another one's
            else:
                jobs = adding.remove(self.endpoint, served, now, timeout)
        except RequestRefused as refused:
            if data is None or refused.code != "unknown_dataset":
                raise
            jobs = 0
        self._data = [other for other in self._data if other.served != served]
        for other in names.asked(self.endpoint):
            if other.served == served:
                names.forget(self.endpoint, other)
        process = finding.server_process(self.endpoint)
        before = _removed.get(self.endpoint)
        _removed[self.endpoint] = (process, [*(before[1] if before and before[0] == process else ()), served])
        command = _commands.get(self.endpoint)
        if command is not None:
            _commands[self.endpoint] = command._replace(words=options.without(command.words, served))
        return jobs

    def stop(self) -> None:
        """Ends the server now, even if other jobs use it, if this process has started it; else it warns.
        Without `stop` the server ends by itself.  Loaders of this process that still have a job there wait
        for the next server, of which it warns too."""
        process, self.process = self.process, None
        if process is not None:
            jobs = sum(not connection.leaving for connection in still_there(self.endpoint))
            if jobs:
                warnings.warn(f"loaders of this process still have {jobs} job{'s' if jobs > 1 else ''} at "
                              f"the server at {self.endpoint}, which ends now: their loops wait for another "
                              "one there, for the loaders' rejoin= seconds. Close the loaders first "
                              "(close())",
                              RuntimeWarning, 2)
            standby.forget(self.endpoint)
            names.forget(self.endpoint)
            if not _end(process) and finding.listens(self.endpoint):
                self.log = None             # it had died, and another process has started this one
        if self.log is None:
            warnings.warn(f"another process has started the server at {self.endpoint}, which goes on: it "
                          f"ends by itself when it is idle, or by `{how_to_stop(self.endpoint)}`",
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


def serve(datasets: Datasets = None, *, endpoint: Optional[str] = None,
          memory: Union[None, int, str] = None, disk: Optional[str] = None,
          cache: Union[None, int, str] = None, workers: Optional[int] = None, idle: Optional[int] = None,
          timeout: float = 60.0, allow_empty: Sequence[str] = (),
          classes_from: Optional[Mapping[str, str]] = None, arguments: Sequence[str] = (),
          **more: Path) -> Server:
    """A server with these data sets: the one that is there, or one that is started.

    datasets, more  paths by name: serve(train="/data/train"), or serve({"train": "/data/train"}) for any
                    name; or addresses of packs in object stores (docs/stores.md).  A path alone is "train",
                    which a Loader takes by itself
    endpoint        where it listens; None: $TUREEN_ENDPOINT or the default, where a Loader without an
                    endpoint looks too
    memory          bytes, as a number or as "64G", that the server divides: mixing and prepared samples get
                    what they need, and the rest keeps the data's bytes, so that an epoch reads only what does
                    not fit (`Server.status ()["memory"]`).  None: it keeps none
    disk            "DIR=BYTES", such as "/var/cache/tureen=200G": a folder of the local disk that keeps what
                    is read of object stores and network file systems, and never takes more than BYTES.  None:
                    nothing is kept
    cache, workers  as of `tureen serve`
    idle            it ends when it has had no job for so many seconds (from its start: a minute at least):
                    longer than a process takes from here to its first batch.  None: 60
    timeout         seconds to wait until it answers and has the data; listing millions of files takes a while
    allow_empty     names of data sets in which a class folder without a sample is a class, as with
                    ImageFolder (allow_empty=True): so that labels are those of other splits
    classes_from    {"val": "train"}: labels of val are the numbers that train gives to classes of these names
    arguments       further ones of `tureen serve`, such as ["--policy", "dsa"]

    Any number of processes of one user may call this at once: one server is started, and all get it.  The
    process that starts it sets its memory, disk, cache, workers, idle and arguments.  The executable is
    $TUREEN_SERVER, or what was installed with this package, or else `tureen` on PATH.  The environment is not
    changed, but for TUREEN_NAMES, where a name is taken: processes that are to find a server at another
    endpoint than the default must be told.

    A server that is there gets what it lacks of the data sets, while its jobs go on.  Where it has other data
    under one of the names, that data set gets another name there, such as "train-1f2e3d", which a warning
    tells and `Server.names` has.  Loaders of this process that ask for "train" get it; states, errors and
    `loader.dataset.name` keep "train".

    Raises ServeFailed if no server can be started (with the last lines of its log), or if the server that is
    there does not take what it lacks: it is another user's or too old, the data cannot be opened, or classes
    have other numbers there than classes_from asks for.  NoServer if it does not answer, or has not opened
    the data, in time.  Warns if folders were changed since the server that is there listed them, and if it
    was started with other settings.
    """
    given = _Given.of(datasets, more, allow_empty, classes_from or {}, arguments, ())
    if idle is not None and (isinstance(idle, bool) or not isinstance(idle, int) or idle < 1):
        raise ValueError(f"idle must be a whole number of seconds from 1, not {idle!r}")
    said = (("memory", memory), ("disk", disk), ("cache", cache), ("workers", workers), ("until-idle", idle))
    asked = [(option, str(value)) for option, value in said if value is not None]
    settings = [f"--until-idle={60 if idle is None else idle}"]
    settings += [f"--{option}={value}" for option, value in asked if option != "until-idle"]
    listen = resolve_endpoint(endpoint)
    command = _Command(["serve", *given.datasets, "--listen", listen, *settings, *given.words], os.getcwd())
    starting = _Starting(listen, names.known(listen, given.data), command, seconds("timeout", timeout))
    server = starting.run()
    if server.process is None:
        _warn_of_settings(listen, asked + given.parsed.others)
    _settle(server, starting.wanted, starting, classes_from or {})
    _stand_by(starting, server)
    return server


class _Given(NamedTuple):
    """What a call says of data sets.  `datasets` and `words` are for a command line."""
    data: List[Data]
    datasets: List[str]
    words: List[str]
    parsed: options.Words

    @staticmethod
    def of(datasets: Datasets, more: Mapping[str, Path], allow_empty: Sequence[str],
           classes_from: Mapping[str, str], arguments: Sequence[str], there: Sequence[Data]) -> _Given:
        """`there`: what classes may be from, beside these."""
        paths = _paths(datasets, more)
        known = [*paths, *(data.name for data in there)]
        words = [*_class_settings(paths, known, allow_empty, classes_from),
                 *(str(word) for word in arguments)]
        parsed = options.parse(words)
        all_paths = {**{name: _absolute(name, path) for name, path in parsed.datasets.items()}, **paths}
        data = [Data(name, path, [_with_folder(setting) for setting in parsed.settings.get(name, ())])
                for name, path in all_paths.items()]
        datasets_given = [word for name, path in paths.items() for word in ("--dataset", f"{name}={path}")]
        return _Given(data, datasets_given, words, parsed)


def _with_folder(setting: options.Setting) -> options.Setting:
    return setting._replace(folder=_absolute(setting.field, setting.folder)) if setting.folder else setting


def _paths(datasets: Datasets, more: Mapping[str, Path]) -> Dict[str, str]:
    if datasets is not None and not isinstance(datasets, Mapping):
        datasets = {"train": _alone(_path("datasets", datasets))}
    for name in datasets or {}:
        if name in more:
            raise ValueError(f"two data sets are called {name!r}, {os.fspath((datasets or {})[name])!r} and "
                             f"{os.fspath(more[name])!r}; a path alone is \"train\": give each a name of its "
                             "own")
    wanted = {name: _absolute(name, _path(name, path)) for name, path in {**(datasets or {}), **more}.items()}
    if not wanted:
        raise ValueError("no data set: say which, as in serve(train=\"/data/train\")")
    return wanted


def _settle(server: Server, wanted: List[Data], starting: _Starting, classes_from: Mapping[str, str]) -> None:
    """The server has the data: its object, and this process's loaders, know under which names."""
    names.note(server.endpoint, wanted)
    server._data = [data for data in server._data if data.name not in {one.name for one in wanted}] + wanted
    _check_classes(server, wanted, wanted if server.process else starting.added, classes_from)
    for text in starting.otherwise:
        warnings.warn(f"the server at {server.endpoint} has a data set with other settings, and keeps them: "
                      f"{text}", RuntimeWarning, 3)
    for data in wanted:
        if data.served != data.name:
            warnings.warn(f"the server at {server.endpoint} has other data as {data.name!r}: {data.path} is "
                          f"{data.served!r} there, which loaders of this process, and of those "
                          f"that it starts from now on, get as {data.name!r}; any other process writes "
                          f"{data.served!r}, or calls tureen.serve too", RuntimeWarning, 3)


def _class_settings(wanted: Collection[str], known: Sequence[str], allow_empty: Sequence[str],
                    classes_from: Mapping[str, str]) -> List[str]:
    """`known`: what classes may be from."""
    if isinstance(allow_empty, (str, bool)):
        raise TypeError(f"allow_empty is a list of data sets' names, such as [\"val\"], not {allow_empty!r}")
    for given, there in (((*allow_empty, *classes_from), wanted), (classes_from.values(), known)):
        for name in given:
            if name not in there:
                raise ValueError(f"there is no data set {name!r} here; there are: {', '.join(there)}")
    return [*(f"--allow-empty={name}=yes" for name in allow_empty),
            *(f"--classes-from={name}={other}" for name, other in classes_from.items())]


def _check_classes(server: Server, wanted: Sequence[Data], new: Sequence[Data],
                   classes_from: Mapping[str, str]) -> None:
    """Of data sets that were there."""
    from .dataset import DataSet
    known = {data.name: DataSet(names.Name(data.name, server.endpoint, data), endpoint=server.endpoint)
             for data in [*server._data, *wanted]}
    for data in wanted:
        other = None if data in new else classes_from.get(data.name)
        if other is not None and known[data.name].class_to_idx != known[other].class_to_idx:
            raise ServeFailed(f"the server at {server.endpoint} does not number the classes of {data.name!r} "
                              f"as those of {other!r}: take it away (`server.remove ({data.name!r})`, or "
                              f"`tureen remove {data.served} --connect {server.endpoint}`) and ask again, "
                              f"end it (`{how_to_stop(server.endpoint)}`), or choose another endpoint")


def _warn_of_settings(endpoint: str, asked: Sequence[Tuple[str, str]]) -> None:
    running = _running(endpoint)
    different = [] if running is None else options.differences(asked, running.words)
    if different:
        warnings.warn(f"the server at {endpoint} was started with other settings, and keeps them: "
                      f"{'; '.join(different)}. `{how_to_stop(endpoint)}` ends it, and the next call starts "
                      "another", RuntimeWarning, 3)


def _end(process: int) -> bool:
    """Tells a server to end.  False: it is gone."""
    with contextlib.suppress(ProcessLookupError):
        if finding.lives(process):
            os.kill(process, signal.SIGTERM)
            return True
    return False


class _Command(NamedTuple):
    """How a server is started."""
    words: List[str]                    # behind the executable
    folder: str


def _stand_by(starting: _Starting, server: Server) -> None:
    """Has the server started again if it dies: as it was started, by whichever process."""
    endpoint = server.endpoint
    #  A server that does not end when it is idle was started by other means, which start it again too.
    if starting.ends_idle:
        command = starting.command if server.process else _running(endpoint) or starting.command
        assert command is not None
        process, removed = _removed.get(endpoint, (None, []))
        for name in removed if process == starting.process else ():
            command = command._replace(words=options.without(command.words, name))
        _commands[endpoint] = command
    else:
        _commands.pop(endpoint, None)
    _returned.setdefault(endpoint, weakref.WeakSet()).add(server)

    def start(timeout_s: float) -> Optional[int]:
        again = _Starting(endpoint, _lost(endpoint), _restart(endpoint), timeout_s, must=())
        found = again.run()
        if found.process is not None and not standby.knows(endpoint):
            _end(found.process)             # Server.stop came meanwhile
        elif found.process is not None or again.process != standby.process(endpoint):
            for known in _returned[endpoint]:
                known.process, known.log = found.process, found.log
        standby.settled(endpoint, again.process)
        for error in again.failed.values():
            raise error
        return again.process
    standby.remember(endpoint, start, starting.ends_idle)
    standby.settled(endpoint, starting.process)


def _lost(endpoint: str) -> List[Data]:
    """What this process asked another server for than the one that is there."""
    process = finding.server_process(endpoint)
    return [data for data in names.asked(endpoint) if data.process is None or data.process != process]


def _restart(endpoint: str) -> Optional[_Command]:
    """How its server is started again.  None: by other means."""
    if not standby.knows(endpoint) or endpoint not in _commands:
        return None
    command, asked = _commands[endpoint], names.asked(endpoint)
    if options.parse(command.words).datasets:
        return command
    #  All that it was started with is removed, and it cannot start without any.
    by_name = {data.name: data.served for data in asked}
    words = [word for data in asked for word in data.words(data.served, by_name)]
    return command._replace(words=[*command.words, *words])


#  How the servers that are started again were started, by endpoint, without what was removed.
_commands: Dict[str, _Command] = {}
#  By endpoint: a server's process, and what this process has removed from it.
_removed: Dict[str, Tuple[Optional[int], List[str]]] = {}
#  What serve has returned, by endpoint.
_returned: Dict[str, weakref.WeakSet[Server]] = {}


def _running(endpoint: str) -> Optional[_Command]:
    """How the server that holds the endpoint was started; None: that cannot be seen, or another user started
    it: a command of another user is not run as this one."""
    process = finding.server_process(endpoint)
    try:
        if os.stat(f"/proc/{process}").st_uid != os.geteuid():
            return None
        with open(f"/proc/{process}/cmdline", "rb") as file:
            words = [os.fsdecode(word) for word in file.read().split(b"\0")[1:-1]]
        return _Command(words, os.readlink(f"/proc/{process}/cwd"))
    except OSError:
        return None


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
        return os.fsdecode(path)
    except TypeError:
        raise TypeError(f"{name} must be a path, not {type(path).__name__}: that of the folder or "
                        "pack") from None


def _alone(path: str) -> str:
    """The path of a data set without a name.  ValueError for a folder of data sets: theirs would be the names
    of its classes."""
    splits = [name for name in ("train", "val", "valid", "validation", "test")
              if os.path.isdir(os.path.join(path, name))]
    if "train" in splits:
        each = ", ".join(f"{name}={os.path.join(path, name)!r}" for name in splits)
        raise ValueError(f"{path!r} has a folder for each data set: write serve({each})")
    return path


def _absolute(name: str, path: str) -> str:
    if STORE.match(path):
        return path.rstrip("/")
    #  An address taken as a relative path would lose a slash, and name a folder that the user did not mean.
    if _ADDRESS.match(path) and not os.path.exists(path):
        raise ValueError(f"{name}={path!r}: of addresses only s3://, http:// and https:// are known: copy "
                         "the data to a folder of this machine, or mount it, and give that folder's path")
    return os.path.abspath(path)


class _Starting:
    """One call of serve."""

    def __init__(self, endpoint: str, wanted: List[Data], command: Optional[_Command],
                 timeout_s: float, must: Optional[Sequence[Data]] = None) -> None:
        """`command`: None where no server is to be started.  `must`: what has to be there in the end; None:
        all that is wanted.  The rest was at a server before."""
        self._endpoint = endpoint
        self.wanted = wanted
        self.command = command
        #  Of the server that answered
        self.added: List[Data] = []     # what it lacked of the wanted
        self.failed: Dict[Data, TureenError] = {}       # why it still lacks it
        self.otherwise: List[str] = []  # settings of data sets
        self.process: Optional[int] = None
        self.ends_idle = False
        self._must = wanted if must is None else must
        self._has_answered = False
        self._timeout_s = timeout_s
        self._until = time.monotonic() + timeout_s
        self._log = ""
        self._listed: Dict[str, float] = {}     # when each data set that was there was, by time.time ()
        self._process: Optional[Detached] = None

    def run(self) -> Server:
        try:
            if finding.listens(self._endpoint) and self._answers():
                self._warn_of_changes()
                return Server(self._endpoint, None, None)
            while self.command is None:
                if self._answers():
                    return Server(self._endpoint, None, None)
                if self._left_s() <= 0 or finding.is_vacant(self._endpoint):
                    raise finding.no_server(self._endpoint, self._timeout_s, _first(self.wanted))
                time.sleep(_LOOK_S)
            while True:
                self._start()
                server = self._wait()
                if server is not None:
                    return server
        except BaseException:           # Ctrl-C too: a caller that gives up leaves no process behind
            if self._process is not None and self._has_answered:
                self._process.let_go()          # others may use it, whatever it cannot add
            elif self._process is not None:
                self._process.end()
            raise

    def _start(self) -> None:
        assert self.command is not None
        executable = _executable()
        self._has_answered = False
        if not self._log:
            _remove_old_logs()
            descriptor, self._log = tempfile.mkstemp(prefix=_LOG_PREFIX, suffix=_LOG_SUFFIX)
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
        error = finding.no_server(self._endpoint, self._timeout_s, _first(self.wanted))
        if self._process is None or self._process.poll() is not None:
            return error
        return NoServer(f"{error}\nThe server that was started for it has not got so far: "
                        f"{self._last_words()}")

    def _answers(self) -> bool:
        """With all that is wanted."""
        process = finding.server_process(self._endpoint)
        try:
            found = status(self._endpoint, max(0.05, min(_ASK_S, self._left_s())))
            self._has_answered = True
            self.process = process
            now = time.time()
            self._listed = {entry["name"]: now - entry.get("listed_seconds", found["uptime_seconds"])
                            for entry in found["datasets"]}
            before = [data for data in self.wanted if data not in self._must]
            restored = adding.restore(self._endpoint, before, found["datasets"], self._left_s, process)
            done = adding.complete(self._endpoint, self._must, found["datasets"], self._left_s, process,
                                   before)
        except (NotLetIn, adding.StillOpening):
            raise
        except NoServer:
            return False
        self.added, self.otherwise = restored.added + done.added, done.otherwise
        self.failed = {**restored.failed, **done.failed}
        for data, error in self.failed.items():
            if data in self._must:
                raise error
        self.ends_idle = found.get("until_idle") is not None
        return True

    def _warn_of_changes(self) -> None:
        """Of the server that was there before this call."""
        for data in self.wanted:
            if STORE.match(data.path) or data.served not in self._listed:
                continue
            folder = _changed_since(data.path, self._listed[data.served] + _CLOCK_S)
            if folder:
                warnings.warn(f"files were added to {folder} or removed after the server at {self._endpoint} "
                              f"had listed {data.name!r}: it serves what it found then. `server.remove "
                              f"({data.name!r})` and tureen.serve list it anew, or "
                              f"`{how_to_stop(self._endpoint)}` ends the server, and the next one does",
                              RuntimeWarning, 4)

    def _last_words(self) -> str:
        with open(self._log, "rb") as file:
            lines = file.read().decode("utf-8", "replace").splitlines()[-_LOG_LINES:]
        if not lines:
            return f"its log {self._log} is empty"
        return "its log %s ends with:\n%s" % (self._log, "\n".join("  " + line for line in lines))


def _first(wanted: Sequence[Data]) -> str:
    return wanted[0].name if wanted else ""


def _remove_old_logs() -> None:
    """Of this user's servers that wrote nothing for a week."""
    with os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if not entry.name.startswith(_LOG_PREFIX) or not entry.name.endswith(_LOG_SUFFIX):
                continue
            try:
                found = entry.stat(follow_symlinks=False)
                if found.st_uid == os.geteuid() and time.time() - found.st_mtime > _LOG_KEPT_S:
                    os.unlink(entry.path)
            except OSError:
                pass                    # another process removes it too


def _executable() -> str:
    found = installed.executable()
    if found is None:
        raise ServeFailed("there is no `tureen` to start a server with, neither in this installation of the "
                          "Python package nor on PATH: install a wheel that has it (docs/deployment.md), put "
                          "its folder on PATH, or set TUREEN_SERVER to the executable")
    return os.path.abspath(found) if os.path.dirname(found) else found

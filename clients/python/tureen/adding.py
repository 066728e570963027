"""Data sets that are added to a running server, and taken from it.

    happy path:     STATUS tells what the server lacks of what is wanted.  ADD asks for that, again and again
                    until it is ready: the same message from any number of processes adds it once.
    failure modes:  a name is taken by other data: the wanted ones get another name (names.py).  Another
                    process takes the name in between: the server says so, and we look again.  The server is
                    too old, another user's, or cannot open the data: ServeFailed.
    on close:       a caller that gives up leaves the server opening what it was asked for.
"""
from __future__ import annotations

import logging
import re
import time
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Set

from . import names, wire
from .control import ControlConnection, status
from .errors import NoServer, NotLetIn, RequestRefused, ServeFailed, TureenError
from .finding import is_vacant, server_process
from .keys import KeyPaths
from .names import Data, Name

log = logging.getLogger("tureen")

_PAUSE_MIN_S = 0.1
_PAUSE_MAX_S = 0.5
_ANSWER_MIN_S = 0.05
_ANSWER_MAX_S = 5.0         # which comes at once, or was lost
_RESTORE_S = 10.0           # for one data set, before the next one
#  Of servers that take no data sets while they run
_TOO_OLD = ("unknown_kind", "unsupported")
_STOPPING = "stopping"
#  Refusals that are the same for each data set
_FINAL = (*_TOO_OLD, "forbidden")
_OF_THE_SERVER = (*_FINAL, _STOPPING)
#  So the server says which setting of a data set it has otherwise; these decide what its samples and labels
#  are.
_SETTING = re.compile("with another setting of ([a-z-]+)")
_OF_SAMPLES = ("extensions", "allow-empty", "classes-from")

Left = Callable[[], float]          # seconds that the caller still waits
Entry = Mapping[str, Any]           # of STATUS, a data set


class StillOpening(NoServer):
    """The server had not opened everything when the caller's time was over."""


class Completed(NamedTuple):
    added: List[Data]                       # what the server lacked
    failed: Dict[Data, TureenError]         # why it could not be added
    otherwise: List[str]                    # settings that it has otherwise, in the server's words


def complete(endpoint: str, wanted: Sequence[Data], datasets: Iterable[Entry], left_s: Left,
             process: Optional[int] = None, among: Sequence[Data] = (),
             others: Iterable[str] = ()) -> Completed:
    """The server that answers, with these data sets, gets what it lacks: all at once or, where that fails,
    each by itself.  What it has then knows what it is called there.  `among`: what classes may be from,
    beside these; `others`: names that are of other data."""
    done, asked = Completed([], {}, []), names.asked(endpoint)
    taken: Set[str] = set(others)
    while True:
        there = {entry["name"]: entry for entry in datasets}
        chosen = _choose(endpoint, wanted, there, taken, done.failed)
        lacking = [data for data in chosen if chosen[data] not in there]
        by_name = {data.name: data.served for data in [*asked, *among]}
        by_name.update((data.name, name) for data, name in chosen.items())
        try:
            if lacking:
                _add(endpoint, [word for data in lacking for word in data.words(chosen[data], by_name)],
                     left_s)
            done.added.extend(lacking)
            break
        except ServeFailed as error:
            refused: TureenError = error
        except RequestRefused as error:
            refused = error
            if error.code == "taken" and left_s() > 0:
                taken.update(name for name in chosen.values() if name not in there
                             and f"'{name}'" in error.message)
                time.sleep(_PAUSE_MIN_S)
                datasets = status(endpoint, max(_ANSWER_MIN_S, left_s()))["datasets"]
                continue
        #  The others are there, or are tried one after the other.
        chosen = {data: name for data, name in chosen.items() if data not in lacking}
        if len(lacking) == 1 or isinstance(refused, RequestRefused) and refused.code in _OF_THE_SERVER:
            for data in lacking:
                failure = done.failed[data] = _failure(endpoint, refused, different(wanted, there))
                if isinstance(refused, RequestRefused) and refused.code in _FINAL:
                    data.refusal = str(failure)
        else:
            for data in sorted(lacking, key=_refers):
                one = complete(endpoint, [data], datasets, left_s, process, [*among, *wanted])
                done.added.extend(one.added)
                done.failed.update(one.failed)
        break
    #  Of a server that had no data set nothing tells but that it took one.
    knows_path = bool(done.added) or any("listed_seconds" in entry for entry in there.values())
    for data, name in sorted(chosen.items(), key=lambda item: _refers(item[0])):
        if name in there and knows_path and data.has_settings:
            text = _otherwise(endpoint, data.words(name, by_name), left_s)
            found = _SETTING.search(text)
            setting = found[1] if found else ""
            if data.told and setting not in ("", data.otherwise) and _may_have_others(data, setting):
                #  This process had it as it was asked for: it is not to change silently.
                one = complete(endpoint, [data], datasets, left_s, process, [*among, *wanted], [*taken, name])
                done.added.extend(one.added)
                done.failed.update(one.failed)
                by_name[data.name] = data.served
                continue
            if not data.told:
                data.otherwise = setting
                #  What classes are numbered by is looked at by itself, in the numbers.
                done.otherwise.extend([text] if text and setting != "classes-from" else ())
        data.served, data.process, data.refusal = name, process, ""
        path = there[name]["path"] if name in there else data.path
        data.told = path if knows_path and _is_utf_8(path) else ""
    names.tell_children()
    return done


def restore(endpoint: str, wanted: Sequence[Data], datasets: Iterable[Entry], left_s: Left,
            process: Optional[int] = None) -> Completed:
    """As `complete`, of what this process had before: each by itself, behind what it refers to.  One that
    hangs is in the way of its own loaders only; the server goes on opening it, and is asked again later."""
    done = Completed([], {}, [])
    for data in sorted(wanted, key=_refers):
        until = time.monotonic() + _RESTORE_S
        try:
            one = complete(endpoint, [data], datasets, lambda: min(left_s(), until - time.monotonic()),
                           process, wanted)
        except NoServer as error:
            if isinstance(error, NotLetIn) or is_vacant(endpoint):
                raise
            one = Completed([], {data: error}, [])
        done.added.extend(one.added)
        done.failed.update(one.failed)
    return done


def found_again(endpoint: str, name: Any, timeout: float, adds: bool) -> bool:
    """The server refused the data set of this name, or has other data of it: it may have the same under
    another name, or in other words.  `adds`: it gets the data where this process has asked for them, unless
    they were only taken away from it."""
    if not isinstance(name, Name) or not name.data.told:
        return False
    data, until = name.data, time.monotonic() + timeout
    process = server_process(endpoint)
    try:
        datasets = status(endpoint, timeout)["datasets"]
        there = {entry["name"]: entry for entry in datasets}
        if not any(other in there and not _different(data, other, there[other])
                   for other in (data.served, data.name, data.other_name)):
            is_removed = data.served not in there and process in (None, data.process)
            if not adds or is_removed or not name.is_asked_for:
                return False
        failed = complete(endpoint, [data], datasets, lambda: until - time.monotonic(), process).failed
        for error in failed.values():
            raise error
        return True
    except TureenError as error:
        log.warning("%s", error)
        return False


def has_other(endpoint: str, data: Data, timeout: float) -> bool:
    """Other data under its name.  What the server still opens it does not list."""
    there = {entry["name"]: entry for entry in status(endpoint, timeout)["datasets"]}
    return bool(data.path) and data.served in there and not is_same(there[data.served]["path"], data.path)


def remove(endpoint: str, name: str, now: bool, timeout: float) -> int:
    """Gives how many jobs were ended with it."""
    with _control(endpoint, timeout) as control:
        try:
            frames = control.ask(lambda tag: wire.remove(name, now, tag), wire.REMOVED)
        except RequestRefused as refused:
            if refused.code not in _TOO_OLD:
                raise
            raise RequestRefused(refused.code, f"the server at {endpoint} keeps the data sets that it was "
                                 f"started with ({refused.message})") from None
    return wire.integer(wire.parse_json(frames[0], "REMOVED"), "jobs", 0, "REMOVED")


def different(wanted: Sequence[Data], there: Mapping[str, Entry]) -> List[str]:
    """What the server has otherwise, or not at all, under the names that were asked for."""
    return [wrong for data in wanted for wrong in _different(data, data.name, there.get(data.name))]


def other_data(endpoint: str, wrong: Sequence[str]) -> ServeFailed:
    return ServeFailed(f"a server is running at {endpoint}, with other data: {'; '.join(wrong)}. Ask for "
                       "what it has, stop it (`server.stop ()` where it was started, or "
                       f"`{how_to_stop(endpoint)}`), or give another endpoint")


def how_to_stop(endpoint: str) -> str:
    """`tureen drain` would wait for the epochs of its jobs, which may be that of the notebook that asks."""
    return f"tureen stop --connect {endpoint}"


#   ---- names

def _choose(endpoint: str, wanted: Sequence[Data], there: Mapping[str, Entry], taken: Set[str],
            failed: Dict[Data, TureenError]) -> Dict[Data, str]:
    """What each is called at the server, or will be: its own name or, where that is another one's, the other
    name that every process gives it.  Where that is taken too it is in `failed`."""
    chosen: Dict[Data, str] = {}
    for data in wanted:
        fit = [name for name in (data.served, data.name, data.other_name) if name not in taken]
        has = [name for name in fit if name in there and not _different(data, name, there[name])]
        free = [name for name in fit if name not in there and name not in chosen.values()]
        if has or free:
            chosen[data] = (has or free)[0]
        else:
            failed[data] = _both_taken(endpoint, data, there)
    return chosen


def _both_taken(endpoint: str, data: Data, there: Mapping[str, Entry]) -> ServeFailed:
    wrong = [text for name in (data.name, data.other_name)
             for text in _different(data, name, there.get(name)) if name in there]
    return ServeFailed(f"the server at {endpoint} has other data, or other settings, as {data.name!r} and as "
                       f"{data.other_name!r}: {'; '.join(wrong) or 'with other settings'}. Give {data.path} "
                       f"another name, take one of these away (`tureen remove {data.other_name} --connect "
                       f"{endpoint}`), or give another endpoint")


def _different(data: Data, name: str, entry: Optional[Entry]) -> List[str]:
    """What of the server's data set of that name is not as in `data`; None: it has none."""
    if entry is None:
        return [f"it has no data set {name!r} ({data.path} was asked for)"]
    if not is_same(entry["path"], data.path):
        return [f"its {name!r} is {entry['path']}, and {data.path} was asked for"]
    folders = dict(zip(entry.get("fields", []), entry.get("folders", [])))
    wrong = []
    for field, path in data.fields.items():
        folder = folders.get(field)
        if folder is None:
            wrong.append(f"its {name!r} has no field {field!r} ({path} was asked for)")
        elif not is_same(folder, path):
            wrong.append(f"the field {field!r} of its {name!r} is {folder}, and {path} was asked for")
    return wrong


def _refers(data: Data) -> bool:
    """To another one's classes."""
    return any(setting.refers for setting in data.settings)


def is_same(served: str, wanted: str) -> bool:
    return names.real(served) == names.real(wanted)


#   ---- what is said to the server

def _add(endpoint: str, words: List[str], left_s: Left) -> None:
    """Returns when all of them are there.  RequestRefused, StillOpening; NoServer if the server goes."""
    if not all(map(_is_utf_8, words)):
        raise ServeFailed(f"the server at {endpoint} can only be asked for paths that are UTF-8, which one "
                          f"of {words} is not: end the server, or give the data another path")
    pause_s = _PAUSE_MIN_S
    with _control(endpoint, left_s()) as control:
        while True:
            try:
                frames = control.ask(lambda tag: wire.add(words, tag), wire.ADDING,
                                   max(_ANSWER_MIN_S, min(_ANSWER_MAX_S, left_s())))
            except NoServer as error:
                if isinstance(error, NotLetIn) or left_s() <= 0 or is_vacant(endpoint):
                    raise
                continue
            answer = wire.parse_json(frames[0], "ADDING")
            if answer.get("state") == "ready":
                _log(answer.get("lines"))
                return
            if left_s() <= pause_s:
                raise StillOpening(f"the server at {endpoint} has not opened everything in time: "
                                   f"{answer.get('progress', 'it does not say how far it is')}. It goes on "
                                   "opening: ask again, or give a longer timeout")
            time.sleep(pause_s)
            pause_s = min(1.2 * pause_s, _PAUSE_MAX_S)


def _is_utf_8(text: str) -> bool:
    return text.encode("utf-8", "replace").decode() == text


def _otherwise(endpoint: str, words: List[str], left_s: Left) -> str:
    """Of a data set that is there: what it is refused with; empty: it is as these words say, or nothing
    tells."""
    try:
        _add(endpoint, words, left_s)
    except RequestRefused as refused:
        return "" if refused.code in _OF_THE_SERVER else refused.message
    return ""


def _may_have_others(data: Data, setting: str) -> bool:
    """Samples or labels: the server names one setting that differs, and there may be more."""
    return setting in _OF_SAMPLES or any(one.option in _OF_SAMPLES for one in data.settings)


def _log(lines: Any) -> None:
    for line in lines if isinstance(lines, list) else []:
        (log.warning if str(line).startswith("warning: ") else log.info)("%s", line)


def _control(endpoint: str, timeout: float) -> ControlConnection:
    return ControlConnection(endpoint, KeyPaths(None, None).read(endpoint), max(_ANSWER_MIN_S, timeout))


def _failure(endpoint: str, refused: TureenError, wrong: List[str]) -> TureenError:
    if not isinstance(refused, RequestRefused):
        return refused
    if refused.code in _TOO_OLD:
        return other_data(endpoint, wrong)
    if refused.code == _STOPPING:
        return NoServer(f"the server at {endpoint} ends: {refused.message}")
    if refused.code == "forbidden":
        return ServeFailed(f"the server at {endpoint} takes no data sets from this user ({refused.message}), "
                           f"and {'; '.join(wrong)}. Ask its operator to add them (`tureen add "
                           f"NAME=PATH --connect {endpoint}`), or give another endpoint")
    return ServeFailed(f"the server at {endpoint} cannot add what it lacks: {refused.message}")

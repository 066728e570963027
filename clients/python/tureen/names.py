"""The names of data sets: as the user of this process says them, and as a server has them.

Two projects may both call their data "train".  At a server that they share one of the two gets another name,
such as "train-1f2e3d" (adding.py).  Here is noted what this process asked for, by endpoint; each place that
names a data set to a server asks here, and what the user sees keeps the user's name.
"""
from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import weakref
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from .options import Setting

NAME_MAX = 64
_DIGITS = 6
_VARIABLE = "TUREEN_NAMES"      # of the environment: {endpoint: {name: [what the server calls it, its path]}}
STORE = re.compile(r"(s3|https?)://", re.IGNORECASE)


def real(path: str) -> str:
    """What is the same for two ways to say it."""
    return path.rstrip("/") if not path or STORE.match(path) else os.path.realpath(path)


class Data:
    """A data set that this process asked a server for.

    served      what the server calls it
    told        at which path, in the server's words; empty: the server is too old to be asked for it
    process     of the server that has it; None: not known
    refusal     why the server takes no data sets from this process; empty: it may
    otherwise   the setting that the server had otherwise when this process asked first, and was content
    """

    def __init__(self, name: str, path: str = "", settings: Sequence[Setting] = ()) -> None:
        self.name = name
        self.path = path
        self.settings = tuple(settings)
        self.served = name
        self.told = ""
        self.process: Optional[int] = None
        self.refusal = ""
        self.otherwise = ""

    @property
    def other_name(self) -> str:
        """The same in every process that asks for these files by this name."""
        digits = hashlib.sha256(os.fsencode(real(self.path))).hexdigest()[:_DIGITS]
        return f"{self.name[:NAME_MAX - 1 - _DIGITS]}-{digits}"

    @property
    def fields(self) -> Dict[str, str]:
        """The folder of each."""
        return {setting.field: setting.folder for setting in self.settings if setting.field}

    @property
    def has_settings(self) -> bool:
        """Beside fields and tenants, which are looked at by themselves."""
        return any(setting.option not in ("field", "tenant-datasets") for setting in self.settings)

    def words(self, name: str, others: Mapping[str, str]) -> List[str]:
        """As `tureen serve` takes them, by that name.  `others`: what the server calls other data sets."""
        words = ["--dataset", f"{name}={self.path}"]
        for setting in self.settings:
            refers = others.get(setting.refers, setting.refers)
            words += [f"--{setting.option}", setting.before + name + setting.behind + refers + setting.folder]
        return words

    def is_same(self, other: Data) -> bool:
        return (self.name, real(self.path), self.settings) == (other.name, real(other.path), other.settings)


#  What this process asked for, by endpoint: the last of each name; and those before, as long as a loader or a
#  Server has them.
_last: Dict[str, Dict[str, Data]] = {}
_all: Dict[str, List[weakref.ref[Data]]] = {}
#  What was removed, and had another name there: the own name stays its, and is not the other one's data.
_removed: Dict[str, Dict[str, Data]] = {}
_lock = threading.RLock()


def asked(endpoint: str) -> List[Data]:
    """Of one name the last one comes last."""
    with _lock:
        last = list(_last.get(endpoint, {}).values())
        return [data for data in _alive(endpoint) if data not in last] + last


def known(endpoint: str, wanted: Sequence[Data]) -> List[Data]:
    """These, or where the same was asked for before what was noted then: loaders have that."""
    before = asked(endpoint)
    return [one if one in before else next((data for data in before if data.is_same(one)), one)
            for one in wanted]


def note(endpoint: str, wanted: Sequence[Data]) -> None:
    with _lock:
        alive = [data for data in _alive(endpoint) if data not in wanted]
        _all[endpoint] = [weakref.ref(data) for data in [*alive, *wanted]]
        for data in wanted:
            _last.setdefault(endpoint, {})[data.name] = data
            _removed.get(endpoint, {}).pop(data.name, None)
    tell_children()


def forget(endpoint: str, data: Optional[Data] = None) -> None:
    """None: all.  What was called so before is called so again."""
    with _lock:
        for gone in _alive(endpoint) if data is None else [data]:
            gone.process = None
        if data is None:
            for noted in (_last, _all, _removed):
                noted.pop(endpoint, None)       # type: ignore[attr-defined]
        else:
            alive = [other for other in _alive(endpoint) if other is not data]
            _all[endpoint] = [weakref.ref(other) for other in alive]
            last = _last.get(endpoint, {})
            if last.get(data.name) is data:
                del last[data.name]
                before = [other for other in alive if other.name == data.name]
                if before:
                    last[data.name] = before[-1]
                elif data.served != data.name:
                    _removed.setdefault(endpoint, {})[data.name] = data
    tell_children()


def find(endpoint: str, name: str) -> Optional[Data]:
    with _lock:
        own = _last.get(endpoint, {}).get(name) or _removed.get(endpoint, {}).get(name)
    return own or _of_parent.get(endpoint, {}).get(name)


def _alive(endpoint: str) -> List[Data]:
    return [data for reference in _all.get(endpoint, ()) if (data := reference()) is not None]


#   ---- processes that this one starts

def tell_children() -> None:
    """Under which other names they find the data."""
    with _lock:
        told: Dict[str, Dict[str, List[str]]] = {}
        for noted in (_of_parent, _removed, _last):
            for endpoint, by_name in noted.items():
                for name, data in by_name.items():
                    told.setdefault(endpoint, {})[name] = [data.served, data.told]
        told = {endpoint: {name: data for name, data in by_name.items() if data[0] != name}
                for endpoint, by_name in told.items()}
        told = {endpoint: by_name for endpoint, by_name in told.items() if by_name}
        text = json.dumps(told) if told else None
        #  Another thread may be reading the environment in C: it is not written in vain.
        if text is None:
            os.environ.pop(_VARIABLE, None)
        elif os.environ.get(_VARIABLE) != text:
            os.environ[_VARIABLE] = text


def _told_by_parent() -> Dict[str, Dict[str, Data]]:
    found: Dict[str, Dict[str, Data]] = {}
    try:
        for endpoint, by_name in json.loads(os.environ.get(_VARIABLE) or "{}").items():
            for name, (served, told) in by_name.items():
                data = found.setdefault(endpoint, {})[name] = Data(name, told)
                data.served, data.told = served, told
    except (ValueError, TypeError, AttributeError):
        return {}                       # it was set by hand
    return found


_of_parent = _told_by_parent()


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


class Name(str):
    """The user's name of a data set at an endpoint.  From its first use on it stands for the same data, also
    in a process that it was handed to, and whatever the server calls them."""
    endpoint: str
    _data: Optional[Data]

    def __new__(cls, name: str, endpoint: str, data: Optional[Data] = None) -> Name:
        self = super().__new__(cls, name)
        self.endpoint, self._data = endpoint, data
        return self

    @staticmethod
    def of(name: Any, endpoint: str) -> Any:
        """What is no string is refused by others."""
        if not isinstance(name, str) or isinstance(name, Name) and name.endpoint == endpoint:
            return name
        return Name(name, endpoint)

    @property
    def data(self) -> Data:
        if self._data is None:
            self._data = find(self.endpoint, self) or Data(str(self))
        #  Once this process has asked for the same, only what is noted is kept up to date.
        self._data = known(self.endpoint, [self._data])[0]
        return self._data

    @property
    def is_asked_for(self) -> bool:
        """This process asked its server for the data."""
        return self.data in asked(self.endpoint)

    def __reduce__(self) -> Tuple[Any, ...]:
        return Name, (str(self), self.endpoint, self._data or find(self.endpoint, self))


def said(name: str) -> Dict[str, str]:
    """What JOIN and DATASET say of it: the path too, so that they get no other data that are called so by
    now."""
    data = name.data if isinstance(name, Name) else Data(name)
    return {"dataset": data.served, **({"path": data.told} if data.told else {})}


def told(name: str, code: str, text: str) -> str:
    """The server's words about it, with the user's name; but where they list what there is."""
    data = name.data if isinstance(name, Name) else Data(name)
    if code == "unknown_dataset" and data.told:
        return (f"{text}. In this process {str(name)!r} is {data.path}, which that server had as "
                f"{data.served!r}: tureen.serve adds it again")
    if code in ("unknown_dataset", "ranks_differ"):
        return text
    return text.replace(data.served, name)

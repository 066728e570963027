"""What belongs to the process that used it first: a loader, and what is built on one."""
from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Dict, Optional, Type, TypeVar

from .errors import ForkedProcess, LoaderClosed

_Self = TypeVar("_Self", bound="Owned")


class Owned:
    """Configuration until it is used, which may be pickled, forked and spawned.  From its first use (`_own`)
    it belongs to that process until `close`.

    A class built on it calls `_check` wherever it is used, `_own` where a job begins, and has `_leave`.
    """

    def __init__(self) -> None:
        self._pid: Optional[int] = None         # of the process that uses it
        self._closed = False

    def close(self) -> None:
        """Leaves the job; it cannot be used again.  Batches that are held stay readable.  In a forked child
        nothing is left but the child's own right to use it."""
        self._closed = True
        if self._pid == os.getpid():
            self._leave()

    def _leave(self) -> None:
        """Ends what runs, if anything does.  Called in the process that used it, any number of times."""
        raise NotImplementedError

    def _own(self) -> None:
        """From here on it belongs to this process."""
        self._pid = os.getpid()

    def _check(self) -> None:
        """Raises ForkedProcess or LoaderClosed where it cannot be used."""
        self._check_process()
        if self._closed:
            raise LoaderClosed(f"this {type(self).__name__} was closed: make another one")

    def _check_process(self) -> None:
        """As _check, but what is closed may still tell what it knows."""
        if self._pid not in (None, os.getpid()):
            raise ForkedProcess(forked(type(self).__name__))

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        self.close()

    def __getstate__(self) -> Dict[str, Any]:
        if self._pid is not None:
            name = type(self).__name__
            raise TypeError(f"a {name} that has been used cannot be pickled or copied, for its job belongs "
                            f"to one process: make a {name} in the process that uses it, or hand it over "
                            "before its first use")
        return dict(self.__dict__)


def forked(name: str) -> str:
    """The sentence of ForkedProcess."""
    return (f"this process was forked from the one that used the {name}: make a {name} in the process that "
            f"uses it")

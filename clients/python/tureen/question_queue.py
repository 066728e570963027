"""Questions that a user's thread asks over the connection of a running job, and waits to have answered.

Threads: any thread asks; the connection's thread takes, sends and answers.  What was sent and not answered
when the connection broke is asked again over the next one.  """
from __future__ import annotations

import collections
import threading
from typing import Callable, Deque, Dict, List, Optional

from .errors import LoaderClosed, TureenError, bare

NOTHING_TO_ASK = "no job is running that could be asked: ask while iterating"
_WAIT_MAX_S = 3600.0 * 24           # what a lock can wait, and longer than any user will


class Question:
    def __init__(self, message: Callable[[int, int], List[bytes]], kind: int) -> None:
        """`message` (job, tag) gives the frames; `kind` is the answer's."""
        self.message = message
        self.kind = kind
        self._done = threading.Event()
        self._body = b""
        self._error: Optional[TureenError] = None

    def answer(self, body: bytes) -> None:
        self._body = body
        self._done.set()

    def fail(self, error: TureenError) -> None:
        self._error = error
        self._done.set()

    def wait(self, seconds: float) -> Optional[bytes]:
        """The answer's body; None if there is none in time.  Raises what it was refused with."""
        if not self._done.wait(min(seconds, _WAIT_MAX_S)):
            return None
        if self._error is not None:
            raise bare(self._error)
        return self._body


class QuestionQueue:
    def __init__(self) -> None:
        self._new: Deque[Question] = collections.deque()
        self._asked: Dict[int, Question] = {}               # the connection's thread only
        self._closed = False

    def ask(self, question: Question) -> None:
        """The caller wakes the connection, and waits for the question."""
        self._new.append(question)
        if self._closed:
            self._drop()

    #  The connection's thread

    def take(self) -> Optional[Question]:
        return self._new.popleft() if self._new else None

    def sent(self, tag: int, question: Question) -> None:
        self._asked[tag] = question

    def unsent(self, question: Question) -> None:
        self._new.appendleft(question)

    def answered(self, tag: int) -> Optional[Question]:
        """The question that was asked with that tag."""
        return self._asked.pop(tag, None)

    def again(self) -> None:
        """The connection broke."""
        self._new.extend(self._asked.values())
        self._asked.clear()

    def close(self) -> None:
        """There will be no answers any more."""
        self._closed = True
        self.again()
        self._drop()

    def _drop(self) -> None:
        while True:
            try:
                question = self._new.popleft()
            except IndexError:
                return
            question.fail(LoaderClosed(NOTHING_TO_ASK))

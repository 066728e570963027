"""What a function raised in another process, brought here: the exception itself where it can be pickled; else
one of its class, made without its __init__; else a stand-in of its name.  None of them has a traceback: the
worker sends that as text.
"""
from __future__ import annotations

import pickle
from typing import Any, List, Optional, Tuple


class Cause:
    """Made where the function raised, and pickled; `raised` makes the exception again.  Of plain texts and of
    what was tried, so that it arrives in any case."""

    def __init__(self, error: BaseException) -> None:
        kind = type(error)
        self._name, self._module, self._text = kind.__qualname__, kind.__module__, text_of(error)
        self._bases = [base.__name__ for base in kind.__mro__ if base.__module__ == "builtins"]
        self._ways: List[bytes] = [packed for packed in (_packed(error), _packed(
            (kind, error.args, dict(vars(error)))), _packed((kind, error.args, {}))) if packed is not None]

    def raised(self) -> BaseException:
        for packed in self._ways:
            try:
                made = pickle.loads(packed)
                if isinstance(made, BaseException):
                    return made
                return _without_init(*made)
            except Exception:               # a class that is not here, or an __init__ of other arguments
                continue
        return self._stand_in()

    def _stand_in(self) -> BaseException:
        """Of the nearest class that Python has itself, so that `except ValueError` finds it."""
        import builtins
        text = self._text
        named = {"__module__": self._module, "__qualname__": self._name, "__str__": lambda self: text,
                 "__doc__": "Stands in for an exception that could not be brought out of its process."}
        for base in map(builtins.__dict__.get, self._bases):
            try:
                return _without_init(type(self._name.rpartition(".")[2], (base,), named), (text,), {})
            except Exception:               # ExceptionGroup wants its parts
                continue
        return Exception(text)


def _without_init(kind: Any, arguments: Tuple[Any, ...], state: Any) -> BaseException:
    made: BaseException = kind.__new__(kind, *arguments)
    made.args = arguments
    vars(made).update(state)
    return made


def _packed(value: Any) -> Optional[bytes]:
    """None where it cannot be made again here."""
    try:
        packed = pickle.dumps(value)
        made = pickle.loads(packed)
        if isinstance(made, tuple):
            _without_init(*made)
        elif type(made) is not type(value):
            return None
        return packed
    except Exception:
        return None


def text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as failed:             # its own __str__
        return f"(its __str__ raises {type(failed).__name__})"

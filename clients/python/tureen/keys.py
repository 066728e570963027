"""A client's CURVE keys, for a server on tcp:// that takes no others: its own pair, and the server's public
key.

A certificate is a file as `tureen key new`, czmq's zcert and pyzmq write it (ZPL); what is secret is in
PATH_secret beside it.  It is read strictly: what is unclear is refused, and no text that is given tells
anything of a file's content.
"""
from __future__ import annotations

import os
import re
import stat
from typing import Any, Dict, Optional

import zmq

from .errors import KeyUnusable

_FILE_BYTES_MAX = 4096
_SECRET_SUFFIX = "_secret"
_KEY = re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_SETTING = re.compile(r"""([^=]*?)\s*=\s*(["'])(.{40})\2""")


class Keys:
    """What a socket is given.  Nothing of it is ever shown, but the public key."""

    __slots__ = ("public", "_secret", "_server")

    def __init__(self, public: str, secret: str, server: str) -> None:
        self.public = public
        self._secret = secret
        self._server = server

    def give(self, socket: Any) -> None:
        """Before it is connected."""
        socket.curve_publickey = self.public.encode()
        socket.curve_secretkey = self._secret.encode()
        socket.curve_serverkey = self._server.encode()

    def __repr__(self) -> str:
        return f"Keys(public={self.public!r})"

    def __reduce__(self) -> Any:
        raise TypeError("keys are not pickled: hand over the path of the certificate")


class KeyPaths:
    """Where the keys of a loader are: configuration, without a secret in it."""

    def __init__(self, key: Optional[Any] = None, server_key: Optional[Any] = None) -> None:
        """None and "": $TUREEN_KEY and $TUREEN_SERVER_KEY, or none."""
        self._key = _given("key", key, "TUREEN_KEY")
        self._server_key = _given("server_key", server_key, "TUREEN_SERVER_KEY")

    def read(self, endpoint: str) -> Optional[Keys]:
        """The keys for a server there; None: its connection is open, as it always is at ipc://, where the
        user counts instead. KeyUnusable where they are no use."""
        if not (self._key or self._server_key) or endpoint.startswith("ipc://"):
            return None
        if not self._key:
            raise KeyUnusable("server_key is given without key: give the path of this client's certificate "
                              "too (key, or TUREEN_KEY); `tureen key new FILE` makes one")
        if not self._server_key:
            raise KeyUnusable("key is given without server_key: give the server's public key too, which its "
                              "log names (server_key, or TUREEN_SERVER_KEY)")
        if not zmq.has("curve"):
            raise KeyUnusable("this libzmq was built without CURVE, so keys cannot be used: take another "
                              "pyzmq")
        own = _own(self._key)
        return Keys(own["public-key"], own["secret-key"], _of_server(self._server_key))


def _given(name: str, value: Optional[Any], variable: str) -> str:
    text = os.fspath(value) if value is not None else ""
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a string or a path, not {value!r}")
    return text or os.environ.get(variable, "")


def _own(path: str) -> Dict[str, str]:
    if path.endswith(_SECRET_SUFFIX):
        raise KeyUnusable(f"key {path}: give the certificate's path without \"{_SECRET_SUFFIX}\", which is "
                          "added")
    path += _SECRET_SUFFIX
    keys = _read("key", path, secret=True)
    if "secret-key" not in keys:
        raise KeyUnusable(f"key {path}: it has no secret key")
    return keys


def _of_server(text: str) -> str:
    #  A key may look like a path: if there is such a file, it is one.
    if _is_key(text) and not os.path.exists(text):
        return text
    try:
        os.stat(text)
    except (OSError, ValueError) as error:
        raise KeyUnusable(f"server_key {text}: it is neither a public key (40 characters of Z85) nor a file: "
                          f"{getattr(error, 'strerror', None) or error}") from None
    return _read("server_key", text, secret=False)["public-key"]


def _read(name: str, path: str, secret: bool) -> Dict[str, str]:
    try:
        #  Not blocking: it may be a pipe without a writer.
        with open(path, "rb", opener=lambda name, flags: os.open(name,
                flags | os.O_NONBLOCK | os.O_NOCTTY)) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise KeyUnusable(f"{name} {path}: it is no file")
            if secret and found.st_mode & 0o077:
                raise KeyUnusable(f"{name} {path}: others may read or write this secret: chmod 600 it; if "
                                  "they could before, make a new one (tureen key new)")
            text = file.read(_FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        raise KeyUnusable(f"{name} {path}: {getattr(error, 'strerror', None) or error}") from None
    try:
        return parse(text)
    except ValueError as error:
        raise KeyUnusable(f"{name} {path}: {error}") from None


def parse(text: bytes) -> Dict[str, str]:
    """The keys of one certificate, by name: "public-key", and "secret-key" if there is one.  ValueError says
    what is wrong with it, and nothing of what is in it."""
    if len(text) > _FILE_BYTES_MAX:
        raise ValueError("it is too long")
    keys: Dict[str, str] = {}
    section = ""
    for line in text.decode("latin-1").split("\n"):
        if _CONTROL.search(line):
            raise ValueError("it is no text")
        words = line.strip(" \t\r")
        if not words or words.startswith("#"):
            continue
        if line[0] not in " \t\r":
            section = words
        elif section == "curve":
            _take(keys, words)
    if "public-key" not in keys:
        raise ValueError("it has no public key")
    if "secret-key" in keys and zmq.curve_public(keys["secret-key"].encode()) != keys["public-key"].encode():
        raise ValueError("its secret key is not that of its public key")
    return keys


def _take(keys: Dict[str, str], words: str) -> None:
    name = words.split("=", 1)[0].rstrip(" \t\r")
    if "=" not in words:
        raise ValueError("it has a line under curve that is not NAME = \"KEY\"")
    if name not in ("public-key", "secret-key"):
        raise ValueError("it has something else than keys under curve")
    if name in keys:
        raise ValueError("it has a key twice")
    found = _SETTING.fullmatch(words)
    if found is None:
        raise ValueError("it has a key that is not 40 characters in quotation marks")
    if not _is_key(found.group(3)):
        raise ValueError("it has a key that is none")
    keys[name] = found.group(3)


def _is_key(text: str) -> bool:
    """40 characters of Z85 that stand for 32 bytes: each five for a number below 2**32."""
    if _KEY.fullmatch(text) is None:
        return False
    order = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    digits = [order.index(letter) for letter in text]
    return all(sum(digit * 85 ** (4 - place) for place, digit in enumerate(digits[begin:begin + 5])) < 2**32
               for begin in range(0, 40, 5))

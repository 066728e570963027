"""The state of a job (docs/state.md): an object that JSON can hold, and back, with everything in it
checked."""
from __future__ import annotations

import base64
import binascii
import string
import zlib
from typing import Any, Dict, List, Mapping, NamedTuple, NoReturn, Optional

import numpy as np
import numpy.typing as npt

from . import wire
from .errors import StateError

VERSION = 1
_KEYS = ("tureen_state", "dataset", "fingerprint", "data", "samples", "order", "seed", "pool", "run", "epoch",
         "batches", "taken", "checksum")
_LOAD_ANOTHER = "it was cut off, damaged or changed by hand: load another one"
Mask = npt.NDArray[np.bool_]


class State(NamedTuple):
    """What a job needs to know to begin where another one stopped."""
    dataset: str
    fingerprint: str
    data: str
    samples: int                # of the data set
    order: str
    seed: int
    pool: int                   # 0: none
    run: str                    # "": none that it could go on with
    epoch: int                  # the first that is not behind
    batches: int                # of that epoch
    count: int                  # samples of it, or places
    #  Which samples: 64-bit words, little-endian, those at the end that are 0 left out
    words: bytes
    places: Optional[int]       # of a list instead, so many of its places; else None

    def mask(self) -> Mask:
        """The words, a boolean for each sample."""
        return unpack_words(self.words, self.samples)

    def at_epoch(self, epoch: int) -> State:
        """The same job where that epoch begins."""
        return self._replace(epoch=epoch, batches=0, count=0, words=b"",
                             places=None if self.places is None else 0)


def pack_words(mask: Mask) -> bytes:
    """A boolean for each sample as the words of a state."""
    words = np.packbits(mask, bitorder="little").tobytes().rstrip(b"\0")
    return words + bytes(-len(words) % 8)


def unpack_words(words: bytes, samples: int) -> Mask:
    mask = np.zeros(samples, np.bool_)
    bits = np.unpackbits(np.frombuffer(words, np.uint8), bitorder="little")[:samples]
    mask[:len(bits)] = bits
    return mask


def pack(state: State) -> Dict[str, Any]:
    """The object of docs/state.md."""
    taken = ({"count": str(state.count), "words": base64.b64encode(state.words).decode("ascii")}
             if state.places is None else {"places": str(state.places)})
    value: Dict[str, Any] = {
        "tureen_state": VERSION, "dataset": state.dataset, "fingerprint": state.fingerprint,
        "data": state.data, "samples": str(state.samples), "order": state.order, "seed": str(state.seed),
        "pool": state.pool, "run": state.run, "epoch": str(state.epoch), "batches": str(state.batches),
        "taken": taken}
    value["checksum"] = _checksum(value)
    return value


def parse(value: Any) -> State:
    """Raises StateError, which names what is wrong with it and what was expected."""
    if not isinstance(value, Mapping):
        raise StateError(f"a state is the dict that state_dict() gave, not {type(value).__name__}")
    if "tureen_state" not in value:
        raise StateError("this is no state of a loader: it has no tureen_state. Give what "
                         "Loader.state_dict() gave")
    version = value["tureen_state"]
    if type(version) is not int or version != VERSION:
        raise StateError(f"the state's tureen_state is {version!r}, and this client reads {VERSION}: it is "
                         "damaged, or of a newer client, which must load it then")
    for key in _KEYS:
        if key not in value:
            _wrong(f"it has no {key}")
    for key in value:
        if key not in _KEYS:
            _wrong(f"it has {key!r}, which no state has")
    taken = value["taken"]
    if not isinstance(taken, Mapping) or set(taken) not in ({"count", "words"}, {"places"}):
        _wrong("taken is neither count and words nor places")
    _check_checksum(value)
    return _parsed(value, taken)


def _parsed(value: Mapping[str, Any], taken: Mapping[str, Any]) -> State:
    samples, order = _number(value, "samples", 1), value["order"]
    if order not in wire.ORDERS:
        _wrong(f"order is {order!r}, none of {', '.join(wire.ORDERS)}")
    pool = value["pool"]
    if type(pool) is not int or not (pool == 0 or wire.POOL_MIN <= pool <= wire.POOL_MAX
                                     and order == "seeded"):
        _wrong(f"pool is {pool!r}, neither 0 nor the pool of an order \"seeded\"")
    places = _number(taken, "places") if "places" in taken else None
    if places is not None and order != "list":
        _wrong(f"places are of order \"list\", not of {order!r}")
    words = b"" if places is not None else _words(taken["words"], samples)
    count = places if places is not None else _number(taken, "count")
    if places is None and count != _ones(words):
        _wrong(f"taken says {count} samples, its words {_ones(words)}")
    return State(
        dataset=_text(value, "dataset"), fingerprint=_digits(value, "fingerprint"),
        data=_digits(value, "data", wire.DATA_BYTES), samples=samples, order=order,
        seed=_number(value, "seed"), pool=pool, run=_digits(value, "run", wire.RUN_BYTES),
        epoch=_number(value, "epoch"), batches=_number(value, "batches"), count=count, words=words,
        places=places)


def _checksum(value: Mapping[str, Any]) -> str:
    taken = value["taken"]
    of_taken = [taken["count"], taken["words"]] if "words" in taken else [taken["places"]]
    texts: List[Any] = [value[key] for key in _KEYS[:-2]] + of_taken
    return f"{zlib.crc32(''.join(f'{text}' + chr(10) for text in texts).encode('utf-8')):08x}"


def _check_checksum(value: Mapping[str, Any]) -> None:
    try:
        found = _checksum(value)
    except UnicodeEncodeError:
        _wrong("it holds a lone surrogate, which is no character")
    if value["checksum"] != found:
        _wrong(f"its checksum is {value['checksum']!r}, that of what it holds {found!r}")


def _wrong(how: str) -> NoReturn:
    raise StateError(f"the state cannot be used: {how}; {_LOAD_ANOTHER}")


def _text(value: Mapping[str, Any], key: str) -> str:
    item = value[key]
    if not isinstance(item, str):
        _wrong(f"{key} is {item!r}, no text")
    return item


def _digits(value: Mapping[str, Any], key: str, length: Optional[int] = None) -> str:
    item = _text(value, key)
    if (not item or length is not None and len(item) != length
            or not set(item) <= set(string.hexdigits.lower())):
        _wrong(f"{key} is {item!r}, not {'' if length is None else f'{length} '}lower-case hexadecimal "
               "digits")
    return item


def _number(value: Mapping[str, Any], key: str, least: int = 0) -> int:
    """A string of decimal digits, in the one form it has."""
    item = value[key]
    if not (isinstance(item, str) and item.isascii() and item.isdigit() and len(item) <= 20
            and str(int(item)) == item and least <= int(item) < 1 << 64):
        _wrong(f"{key} is {item!r}, no number from {least} in decimal digits")
    return int(item)


def _words(text: Any, samples: int) -> bytes:
    try:
        words = base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error):
        _wrong("the words of taken are no base64")
    if (len(words) % 8 or base64.b64encode(words).decode("ascii") != text or not words[-8:].strip(b"\0")
            and words):
        _wrong("the words of taken are not whole, or end with empty ones")
    if len(words) > (samples + 63) // 64 * 8 or _ones(words) != int(np.count_nonzero(unpack_words(words,
            samples))):
        _wrong(f"the words of taken have bits beyond its {samples} samples")
    return words


def _ones(words: bytes) -> int:
    return int(np.count_nonzero(np.unpackbits(np.frombuffer(words, np.uint8))))

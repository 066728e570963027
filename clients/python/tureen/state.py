"""The state of a job (docs/state.md): an object that JSON can hold, and back, with everything in it
checked."""
from __future__ import annotations

import base64
import binascii
import string
import zlib
from typing import Any, Dict, List, Mapping, NamedTuple, NoReturn, Optional, Tuple

import numpy as np
import numpy.typing as npt

from . import wire
from .errors import StateError

VERSION = 1
_KEYS = ("tureen_state", "dataset", "fingerprint", "data", "samples", "order", "seed", "pool", "run", "epoch",
         "batches", "taken", "checksum")
_OF_TAKEN = ({"count", "words"}, {"places"})
_PART_KEYS = ("nodes", "node", "parts", "batches", "cut")
_LOAD_ANOTHER = "it was cut off, damaged or changed by hand: load another one"
Mask = npt.NDArray[np.bool_]


class Part(NamedTuple):
    """Which part of an epoch a state is of, in a job over several nodes; and the cut at which the epoch's
    parts were made, `count`, `words` and `places` as those of a state."""
    nodes: int
    node: int
    parts: str
    batches: int
    count: int
    words: bytes
    places: Optional[int]


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
    #  Of a node that has begun an epoch; else it is the whole job's state
    part: Optional[Part] = None

    def mask(self) -> Mask:
        """The words, a boolean for each sample."""
        return unpack_words(self.words, self.samples)

    def at_epoch(self, epoch: int) -> State:
        """The same job where that epoch begins."""
        return self._replace(epoch=epoch, batches=0, count=0, words=b"",
                             places=None if self.places is None else 0, part=None)


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
    value: Dict[str, Any] = {
        "tureen_state": VERSION, "dataset": state.dataset, "fingerprint": state.fingerprint,
        "data": state.data, "samples": str(state.samples), "order": state.order, "seed": str(state.seed),
        "pool": state.pool, "run": state.run, "epoch": str(state.epoch), "batches": str(state.batches),
        "taken": _pack_taken(state.count, state.words, state.places)}
    if state.part is not None:
        part = state.part
        value["part"] = {"nodes": part.nodes, "node": part.node, "parts": part.parts,
                         "batches": str(part.batches),
                         "cut": _pack_taken(part.count, part.words, part.places)}
    value["checksum"] = _checksum(value)
    return value


def _pack_taken(count: int, words: bytes, places: Optional[int]) -> Dict[str, str]:
    if places is not None:
        return {"places": str(places)}
    return {"count": str(count), "words": base64.b64encode(words).decode("ascii")}


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
        if key not in _KEYS and key != "part":
            _wrong(f"it has {key!r}, which no state has")
    taken = value["taken"]
    if not isinstance(taken, Mapping) or set(taken) not in _OF_TAKEN:
        _wrong("taken is neither count and words nor places")
    part = value.get("part")
    if "part" in value and not (isinstance(part, Mapping) and set(part) == set(_PART_KEYS)
                                and isinstance(part["cut"], Mapping) and set(part["cut"]) == set(taken)):
        _wrong(f"part does not hold {', '.join(_PART_KEYS)}, with a cut of the form of taken")
    _check_checksum(value)
    state = _parsed(value, taken)
    return state if part is None else state._replace(part=_part(part, state))


def _parsed(value: Mapping[str, Any], taken: Mapping[str, Any]) -> State:
    samples, order = _number(value, "samples", 1), value["order"]
    if order not in wire.ORDERS:
        _wrong(f"order is {order!r}, none of {', '.join(wire.ORDERS)}")
    pool = value["pool"]
    if type(pool) is not int or not (pool == 0 or wire.POOL_MIN <= pool <= wire.POOL_MAX
                                     and order == "seeded"):
        _wrong(f"pool is {pool!r}, neither 0 nor the pool of an order \"seeded\"")
    count, words, places = _parsed_taken("taken", taken, samples)
    if places is not None and order != "list":
        _wrong(f"places are of order \"list\", not of {order!r}")
    return State(
        dataset=_text(value, "dataset"), fingerprint=_digits(value, "fingerprint"),
        data=_digits(value, "data", wire.DATA_BYTES), samples=samples, order=order,
        seed=_number(value, "seed"), pool=pool, run=_digits(value, "run", wire.RUN_BYTES),
        epoch=_number(value, "epoch"), batches=_number(value, "batches"), count=count, words=words,
        places=places)


def _parsed_taken(name: str, taken: Mapping[str, Any], samples: int) -> Tuple[int, bytes, Optional[int]]:
    """Its count, words and places."""
    if "places" in taken:
        places = _number(taken, "places")
        return places, b"", places
    words, count = _words(name, taken["words"], samples), _number(taken, "count")
    if count != _ones(words):
        _wrong(f"{name} says {count} samples, its words {_ones(words)}")
    return count, words, None


def _part(value: Mapping[str, Any], state: State) -> Part:
    nodes, node = value["nodes"], value["node"]
    if (type(nodes) is not int or not 2 <= nodes <= wire.NODES_MAX or type(node) is not int
            or not 0 <= node < nodes):
        _wrong(f"part is of node {node!r} of {nodes!r}: nodes are 2 to {wire.NODES_MAX}, and counted from 0")
    if value["parts"] not in wire.PARTS:
        _wrong(f"part's parts are {value['parts']!r}, none of {', '.join(wire.PARTS)}")
    batches, cut = _number(value, "batches"), _parsed_taken("part's cut", value["cut"], state.samples)
    whole = int.from_bytes(state.words, "little")
    if batches > state.batches or cut[0] > state.count or int.from_bytes(cut[1], "little") & ~whole:
        _wrong("part's cut is not in what was taken")
    return Part(nodes, node, value["parts"], batches, *cut)


def _checksum(value: Mapping[str, Any]) -> str:
    texts: List[Any] = [value[key] for key in _KEYS[:-2]] + _texts_of_taken(value["taken"])
    if "part" in value:
        part = value["part"]
        texts += [part[key] for key in _PART_KEYS[:-1]] + _texts_of_taken(part["cut"])
    return f"{zlib.crc32(''.join(f'{text}' + chr(10) for text in texts).encode('utf-8')):08x}"


def _texts_of_taken(taken: Mapping[str, Any]) -> List[Any]:
    return [taken["count"], taken["words"]] if "words" in taken else [taken["places"]]


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


def _words(name: str, text: Any, samples: int) -> bytes:
    try:
        words = base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error):
        _wrong(f"the words of {name} are no base64")
    if (len(words) % 8 or base64.b64encode(words).decode("ascii") != text or not words[-8:].strip(b"\0")
            and words):
        _wrong(f"the words of {name} are not whole, or end with empty ones")
    if len(words) > (samples + 63) // 64 * 8 or _ones(words) != int(np.count_nonzero(unpack_words(words,
            samples))):
        _wrong(f"the words of {name} have bits beyond its {samples} samples")
    return words


def _ones(words: bytes) -> int:
    return int(np.count_nonzero(np.unpackbits(np.frombuffer(words, np.uint8))))

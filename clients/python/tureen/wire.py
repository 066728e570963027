"""The frames of docs/protocol.md: fixed structures packed, foreign bytes checked and parsed.

Parsers raise ProtocolError, except `parse_head`, which gives None for what is not the protocol's at all.
"""
from __future__ import annotations

import json
import re
import struct
import sys
from typing import Any, Dict, List, Mapping, NamedTuple, NoReturn, Optional, Sequence, Tuple

import numpy as np

from .errors import ProtocolError

if sys.byteorder != "little":
    raise ImportError("tureen reads little-endian frames in place and needs a little-endian machine")

MAGIC = b"TURN"
VERSION = 1

JOIN, INLINE, PROGRESS, LEAVE, STATUS, HEARTBEAT, EXPLAIN, DATASET = 1, 2, 3, 4, 5, 6, 7, 9
ADD, REMOVE = 15, 16
JOINED, BATCH, EPOCH_END, ENDED, STATUS_REPLY, ERROR, NOTICE, EXPLAIN_REPLY = (129, 130, 131, 132, 133, 134,
    135, 136)
DATASET_REPLY, ADDING, REMOVED = 138, 144, 145

BATCH_INLINE, BATCH_PADDING = 1, 2      # BatchHead.flags
SLOT_NONE = 0xFFFFFFFF                  # BatchHead.slot of an inline batch that is in no slot
EPOCH_LAST = 1                          # EpochEnd.flags

SLOTS_MIN, SLOTS_MAX = 3, 64
FRAME_BYTES_MAX = 1 << 20
FRAMES_MAX = 130
TOKEN_BYTES = 32
RUN_BYTES = 32
DATA_BYTES = 16
BATCH_SIZE_MAX = 65536
POOL_MIN, POOL_MAX = 8, 2**24
EPOCHS_MAX = 1 << 53
RANKS_MAX = 64
RANK_SECONDS_MAX = 86400    # of gather and rank_wait
NODES_MAX = 1024
RECENT_RECORDS_MAX = 256
RECENT_IDS_MAX = 1 << 20

ORDERS = ("shared", "private", "list", "seeded")
ON_BAD = ("drop", "fail")
PARTS = ("fresh", "fixed")

IDS_RANGES, IDS_WORDS, IDS_LIST, IDS_RECENT = 1, 2, 3, 4
ID_FRAME_NUMBERS_MAX = (FRAME_BYTES_MAX - 8) // 8

#  What NumPy has no type for comes as one of its size, bit for bit.
_STAND_INS = {"bfloat16": "uint16"}

_HEXADECIMAL = re.compile("[0-9a-f]+")
_HEAD = struct.Struct("<4sBBHQQ")
_PROGRESS = struct.Struct("<QQQ")
_BATCH = struct.Struct("<QQQIIII")
_EPOCH_END = struct.Struct("<QQQII")
assert (_HEAD.size, _PROGRESS.size, _BATCH.size, _EPOCH_END.size) == (24, 24, 40, 32)


Unreadable = Dict[str, Any]
NOTHING_UNREADABLE: Mapping[str, Any] = {"count": 0, "samples": []}


class Head(NamedTuple):
    kind: int
    job: int
    tag: int
    version: int = VERSION


class BatchHead(NamedTuple):
    sequence: int
    epoch: int
    #  `index` of the protocol, `samples` its `count`: tuples have methods of those names
    place: int
    slot: int
    samples: int
    flags: int


class Step(NamedTuple):
    """What the ranks of a job get together: so many samples each, and their ids, uint64, rank by rank."""
    counts: Tuple[int, ...]
    ids: bytes


class EpochEnd(NamedTuple):
    epoch: int
    samples: int
    batches: int
    flags: int


class Field(NamedTuple):
    """One named array of a batch: `count` x `shape` of `dtype`, `offset` bytes into its slot.

    `told` is the dtype as the server names it.  It differs where NumPy has no such type: "bfloat16" comes as
    uint16.
    `lengths` is the field that says how many of `shape[0]` rows each sample has, of a ragged one; else "".
    """
    name: str
    dtype: np.dtype[Any]
    shape: Tuple[int, ...]
    offset: int
    sample_bytes: int
    told: str
    lengths: str = ""


class RingOffer(NamedTuple):
    path: str
    token: str
    bytes: int


class Notice(NamedTuple):
    """`samples` and `unreadable` of kind "unreadable": of one epoch of the job from now on; how many cannot
    be read, and the first of them."""
    kind: str
    text: str
    samples: int = 0
    unreadable: Optional[Unreadable] = None


class Joined(NamedTuple):
    job: int
    samples: int
    dataset_samples: int
    classes: Optional[Tuple[str, ...]]
    batch_size: int
    slots: int
    slot_bytes: int
    fields: Tuple[Field, ...]
    ring: Optional[RingOffer]
    seed: int
    fingerprint: str
    data: str               # stands for the job's own ids
    run: str
    forked: bool            # the run that was to be gone on with goes on elsewhere
    pipeline: List[Any]
    heartbeat_ms: int
    lease_ms: int
    rank: int = 0
    world_size: int = 1
    node: int = 0
    nodes: int = 1
    steps: Optional[int] = None     # with nodes: batches of the epoch in which the job begins
    partition: Optional[str] = None     # the same on all nodes, or their parts are not of one whole


#  Client to server

def pack_head(kind: int, job: int = 0, tag: int = 0) -> bytes:
    return _HEAD.pack(MAGIC, VERSION, kind, 0, job, tag)


def pack_progress(consumed: int, released: int, kept: int) -> bytes:
    return _PROGRESS.pack(consumed, released, kept)


def pack_json(value: Any) -> bytes:
    """Compact, keys as given.  NaN and what JSON cannot say raise ValueError, TypeError or RecursionError."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode("utf-8")


def pack_ids(form: int, numbers: Any) -> bytes:
    """An id frame: `numbers` (anything NumPy takes as uint64) behind its form."""
    return pack_id_bytes(form, np.ascontiguousarray(numbers, dtype="<u8").tobytes())


def pack_id_bytes(form: int, numbers: bytes) -> bytes:
    return struct.pack("<B7x", form) + numbers


def join(request: bytes, id_frames: Sequence[bytes], tag: int) -> List[bytes]:
    return [pack_head(JOIN, 0, tag), request, *id_frames]


def inline(job: int) -> List[bytes]:
    return [pack_head(INLINE, job)]


def progress(job: int, consumed: int, released: int, kept: int) -> List[bytes]:
    return [pack_head(PROGRESS, job), pack_progress(consumed, released, kept)]


def leave(job: int, tag: int) -> List[bytes]:
    return [pack_head(LEAVE, job, tag)]


def status(tag: int) -> List[bytes]:
    return [pack_head(STATUS, 0, tag), pack_json({})]


def explain(job: int, sample: int, epoch: Optional[int], tag: int) -> List[bytes]:
    asked = {"id": str(sample)} if epoch is None else {"id": str(sample), "epoch": str(epoch)}
    return [pack_head(EXPLAIN, job, tag), pack_json(asked)]


def dataset(asked: Mapping[str, str], tag: int) -> List[bytes]:
    return [pack_head(DATASET, 0, tag), pack_json(asked)]


def add(words: Sequence[str], tag: int) -> List[bytes]:
    return [pack_head(ADD, 0, tag), pack_json({"arguments": list(words)})]


def remove(name: str, now: bool, tag: int) -> List[bytes]:
    return [pack_head(REMOVE, 0, tag), pack_json({"dataset": name, "now": now})]


def heartbeat(job: int) -> List[bytes]:
    return [pack_head(HEARTBEAT, job)]


#  Server to client

def parse_head(frame: bytes) -> Optional[Head]:
    """None where frame 0 is not a head at all: such a message gets no attention."""
    if len(frame) != _HEAD.size or frame[:4] != MAGIC:
        return None
    _, version, kind, _, job, tag = _HEAD.unpack(frame)
    return Head(kind, job, tag, version)


def parse_batch_head(frame: bytes) -> BatchHead:
    if len(frame) != _BATCH.size:
        _wrong("BATCH", f"its structure has {len(frame)} bytes instead of {_BATCH.size}")
    return BatchHead(*_BATCH.unpack(frame)[:6])


def parse_step(frame: bytes, world_size: int, batch_size: int) -> Step:
    numbers, rest = divmod(len(frame), 8)
    if rest or numbers < world_size:
        _wrong("BATCH", f"the step of its {world_size} ranks has {len(frame)} bytes")
    counts = struct.unpack_from(f"<{world_size}Q", frame)
    if max(counts) > batch_size or sum(counts) != numbers - world_size:
        _wrong("BATCH", f"its step says {counts} samples of at most {batch_size} each, and names "
               f"{numbers - world_size}")
    return Step(counts, frame[8 * world_size:])


def parse_epoch_end(frame: bytes) -> EpochEnd:
    if len(frame) != _EPOCH_END.size:
        _wrong("EPOCH_END", f"its structure has {len(frame)} bytes instead of {_EPOCH_END.size}")
    return EpochEnd(*_EPOCH_END.unpack(frame)[:4])


def parse_json(frame: bytes, what: str = "a message") -> Dict[str, Any]:
    try:
        value = json.loads(frame.decode("utf-8"))
    except (ValueError, RecursionError):
        _wrong(what, "its JSON cannot be read")
    if not isinstance(value, dict):
        _wrong(what, "its JSON is not an object")
    return value


def parse_reason(frame: bytes, key: str, what: str) -> Tuple[str, str]:
    """The word and the sentence of ENDED (`key` reason), ERROR (`key` error) and NOTICE (`key` notice)."""
    value = parse_json(frame, what)
    return _string(value, key, what), _string(value, "message", what)


def parse_notice(frame: bytes) -> Notice:
    kind, text = parse_reason(frame, "notice", "NOTICE")
    value = parse_json(frame, "NOTICE")
    if kind != "unreadable" or "unreadable" not in value:
        return Notice(kind, text)
    return Notice(kind, text, integer(value, "samples", 0, "NOTICE"),
                  parse_unreadable(value["unreadable"], "NOTICE"))


def parse_unreadable(value: Any, what: str) -> Unreadable:
    """{"count": 2, "samples": [{"id": 17, "reason": "cat/17.jpg: ..."}, ...]}"""
    if not isinstance(value, dict) or not isinstance(value.get("samples"), list):
        _wrong(what, "it does not name the samples that cannot be read")
    return {"count": integer(value, "count", 0, what),
            "samples": [{"id": integer(sample, "id", 0, what), "reason": _string(sample, "reason", what)}
                        for sample in value["samples"] if isinstance(sample, dict)]}


def parse_joined(frame: bytes) -> Joined:
    value = parse_json(frame, "JOINED")
    batch_size = integer(value, "batch_size", 1)
    slots = integer(value, "slots", 1)
    slot_bytes = integer(value, "slot_bytes", 1)
    if slots > SLOTS_MAX:
        _wrong("JOINED", f"it has {slots} slots, more than {SLOTS_MAX}")
    return Joined(
        job=integer(value, "job", 0), samples=integer(value, "samples", 0),
        dataset_samples=integer(value, "dataset_samples", 0), classes=_classes(value.get("classes")),
        batch_size=batch_size, slots=slots, slot_bytes=slot_bytes,
        fields=_fields(value.get("fields"), batch_size, slot_bytes),
        ring=_ring(value.get("ring"), slots * slot_bytes),
        seed=integer(value, "seed", 0), fingerprint=_digits(value, "fingerprint"),
        data=_digits(value, "data", DATA_BYTES), run=_digits(value, "run", RUN_BYTES),
        forked=value.get("forked") is True, pipeline=list(value.get("pipeline") or []),
        heartbeat_ms=integer(value, "heartbeat_ms", 1), lease_ms=integer(value, "lease_ms", 1),
        rank=integer(value, "rank", 0) if "rank" in value else 0,
        world_size=integer(value, "world_size", 1) if "world_size" in value else 1,
        node=integer(value, "node", 0) if "node" in value else 0,
        nodes=integer(value, "nodes", 1) if "nodes" in value else 1,
        steps=integer(value, "steps", 0) if "steps" in value else None,
        partition=_digits(value, "partition") if "partition" in value else None)


def _wrong(what: str, how: str) -> NoReturn:
    raise ProtocolError(f"the server's {what} cannot be understood: {how}")


def _string(value: Mapping[str, Any], key: str, what: str) -> str:
    item = value.get(key)
    if not isinstance(item, str):
        _wrong(what, f"{key} is not a string")
    return item


def _digits(value: Mapping[str, Any], key: str, length: Optional[int] = None) -> str:
    item = _string(value, key, "JOINED")
    if not _HEXADECIMAL.fullmatch(item) or length is not None and len(item) != length:
        _wrong("JOINED", f"{key} is {item!r}, not {'' if length is None else f'{length} '}lower-case "
               "hexadecimal digits")
    return item


def integer(value: Mapping[str, Any], key: str, least: int, what: str = "JOINED") -> int:
    """A number, or the string of decimal digits that 64 bits need."""
    item = value.get(key)
    if isinstance(item, str) and item.isascii() and item.isdigit() and len(item) <= 20:
        item = int(item)
    if not isinstance(item, int) or isinstance(item, bool) or not least <= item < 1 << 64:
        _wrong(what, f"{key} is {item!r}, not a number from {least}")
    return item


def _classes(value: Any) -> Optional[Tuple[str, ...]]:
    return tuple(str(name) for name in value) if isinstance(value, list) else None


def _fields(value: Any, batch_size: int, slot_bytes: int) -> Tuple[Field, ...]:
    if not isinstance(value, list) or not value:
        _wrong("JOINED", "it names no fields")
    fields = tuple(_field(item) for item in value)
    if len({field.name for field in fields}) != len(fields):
        _wrong("JOINED", "two fields have one name")
    for field in fields:
        if field.offset + batch_size * field.sample_bytes > slot_bytes:
            _wrong("JOINED", f"field {field.name} does not fit in a slot")
        if field.lengths and (not field.shape or not any(
                other.name == field.lengths and other.told == "int64" and not other.shape
                for other in fields)):
            _wrong("JOINED", f"field {field.name} has no proper lengths")
    return fields


def _field(value: Any) -> Field:
    if not isinstance(value, dict):
        _wrong("JOINED", "a field is not an object")
    name, told = _string(value, "name", "JOINED"), _string(value, "dtype", "JOINED")
    try:
        dtype = np.dtype(_STAND_INS.get(told, told))
    except (TypeError, ValueError, SyntaxError):    # the last from NumPy, for ",int8"
        _wrong("JOINED", f"field {name} has dtype {told!r}, unknown to this NumPy")
    shape = value.get("shape")
    if not isinstance(shape, list) or not all(type(side) is int and side >= 0 for side in shape):
        _wrong("JOINED", f"field {name} has no proper shape")
    field = Field(name, dtype, tuple(shape), integer(value, "offset", 0), integer(value, "sample_bytes", 0),
                  told, _string(value, "lengths", "JOINED") if "lengths" in value else "")
    sample_bytes = dtype.itemsize
    for side in shape:
        sample_bytes *= side
    if field.sample_bytes != sample_bytes or dtype.hasobject or not dtype.itemsize:
        _wrong("JOINED", f"field {name} says {field.sample_bytes} bytes a sample, {sample_bytes} by dtype "
               "and shape")
    return field


def _ring(value: Any, total_bytes: int) -> Optional[RingOffer]:
    if value is None:
        return None
    if not isinstance(value, dict):
        _wrong("JOINED", "ring is not an object")
    offer = RingOffer(_string(value, "path", "JOINED"), _string(value, "token", "JOINED"),
                      integer(value, "bytes", 1))
    if offer.bytes != total_bytes:
        _wrong("JOINED", f"the ring has {offer.bytes} bytes, its slots {total_bytes}")
    return offer

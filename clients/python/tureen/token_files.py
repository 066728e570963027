"""Tokens as Megatron keeps them (PREFIX.bin, PREFIX.idx), window by window or document by document.

PREFIX.bin has the tokens of all documents, one after the other.  PREFIX.idx, little-endian:

    9 bytes             "MMIDIDX" and two zeros
    uint64              1, the version
    uint8               the tokens' type
    uint64, uint64      how many sequences; how many ends of documents, one more than there are documents
    int32 [sequences]   the tokens of each
    int64 [sequences]   where it begins in PREFIX.bin, in bytes
    int64 [ends]        the first sequence of each document; the last one is how many sequences there are

Both files are mapped, and of the index a block is in memory at once.  A file of tokens alone, as nanoGPT's
train.bin, is one document.
"""
from __future__ import annotations

import io
import os
import struct
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Optional, Tuple

import numpy as np

from .errors import SourceError
from .sources import Row, Source

_MAGIC = b"MMIDIDX\0\0"
_HEADER = struct.Struct("<9sQBQQ")
_TYPES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 8: "uint16"}
_BLOCK = 1 << 20                # entries that are looked at together

_Numbers = Any                  # an array; numpy's types differ between its versions


class _Index(NamedTuple):
    dtype: str
    tokens: int                 # of all sequences
    places: _Numbers            # of the sequences, in bytes
    documents: _Numbers         # their first sequences, and the end


def open_tokens(path: str, window: Optional[int] = None, stride: Optional[int] = None,
                dtype: Optional[str] = None) -> Optional[Source]:
    """path: PREFIX, or one of its files; with dtype, a file that has tokens of this type alone.  None: it is
    no such thing.

    window      tokens of a sample: the documents are one text, cut every `stride` tokens (as many as a window
                has).  None: a sample is a document.
    """
    prefix = path[:-4] if path.endswith((".bin", ".idx")) else path
    names = [prefix + ".idx", prefix + ".bin"]
    if dtype:
        index, names = _alone(path, dtype, window), [path, path]
    else:
        missing = [name for name in names if not os.path.isfile(name)]
        if missing == names[1:] and path == names[0]:
            raise SourceError(f"there is no {names[1]}, which has the tokens of {path}")
        if missing == names[:1] and path == names[1]:
            raise SourceError(f"there is no {names[0]}, which says where the documents of {path} begin; if "
                              f"the file has tokens alone, as nanoGPT's, give their type and a window: "
                              f"--tokens uint16 --window 1025 --stride 1024")
        if missing:
            return None
        index = _read(*names)

    def source(spans: Callable[[], Iterable[Tuple[int, int]]], how: str, count: int, note: str) -> Source:
        what = "tokens" if dtype else "Megatron's tokens"
        return Source(f"{what}, {index.dtype}, {how}", lambda: _rows(names[1], index, spans()), names,
                      count, note=note)

    if window is None:
        return source(lambda: _documents(index), "by document", len(index.documents) - 1, "")
    step = window if stride is None else stride
    count = (index.tokens - window) // step + 1
    if count < 1:
        raise SourceError(f"{prefix} has {index.tokens} tokens, which fill no window of {window}")
    return source(lambda: ((begin, begin + window) for begin in range(0, count * step, step)),
                  f"{window} every {step}", count, _left_out(
                      (count - 1) * max(0, step - window), index.tokens - window - (count - 1) * step))


def _left_out(between: int, rest: int) -> str:
    """What is in no window: tokens between them, and at the end."""
    parts = [f"{between} tokens lie between windows (the stride is longer)"] if between else []
    parts += [f"{rest} tokens at the end fill no window"] if rest else []
    return f"{', '.join(parts)}, and are left out" if parts else ""


def _documents(index: _Index) -> Iterator[Tuple[int, int]]:
    """The tokens of each, from and to."""
    width, begin = np.dtype(index.dtype).itemsize, 0
    for number in range(1, len(index.documents)):
        sequence = int(index.documents[number])
        end = index.tokens if sequence == len(index.places) else int(index.places[sequence]) // width
        yield begin, end
        begin = end


def _rows(path: str, index: _Index, spans: Iterable[Tuple[int, int]]) -> Iterator[Row]:
    dtype = np.dtype(index.dtype).newbyteorder("<")
    tokens = np.memmap(path, dtype, "r") if index.tokens else np.zeros(0, dtype)
    for begin, end in spans:
        file = io.BytesIO()
        np.save(file, tokens[begin:end])
        yield {"tokens": file.getvalue()}


def _alone(path: str, dtype: str, window: Optional[int]) -> _Index:
    if window is None:
        raise SourceError("--tokens is of a file without documents: say how many tokens a sample has, "
                          "--window")
    if not os.path.isfile(path):
        raise SourceError(f"there is no file {path}, which would have the tokens")
    size, width = os.path.getsize(path), np.dtype(dtype).itemsize
    if size % width:
        raise SourceError(f"{path} has {size} bytes, which are no whole number of tokens of {dtype}: is it "
                          f"whole, and are its tokens of this type?")
    return _Index(dtype, size // width, np.zeros(1, np.int64), np.array([0, 1], np.int64))


#   ---- the index

def _read(index_name: str, tokens_name: str) -> _Index:
    def damaged(why: str) -> SourceError:
        return SourceError(f"{index_name} {why}: is it whole, and does {tokens_name} belong to it?")

    size = os.path.getsize(index_name)
    with open(index_name, "rb") as file:
        header = file.read(_HEADER.size)
    if len(header) < _HEADER.size or not header.startswith(_MAGIC):
        raise SourceError(f"{index_name} does not begin as an index of Megatron's does")
    _, version, code, sequences, ends = _HEADER.unpack(header)
    if version != 1:
        raise SourceError(f"{index_name} is of version {version}; version 1 is read here")
    if code not in _TYPES:
        raise SourceError(f"{index_name} says that its tokens have the type {code}, which is no type of "
                          f"whole numbers")
    wanted = _HEADER.size + 12 * sequences + 8 * ends
    if size == wanted + sequences > wanted:
        raise SourceError(f"{index_name} has a mode for each sequence (images among tokens), which is not "
                          f"read here")
    if size != wanted:
        raise damaged(f"has {size} bytes instead of {wanted}")
    at = _HEADER.size
    parts = []
    for dtype, count in (("<i4", sequences), ("<i8", sequences), ("<i8", ends)):
        parts.append(np.memmap(index_name, dtype, "r", at, (count,)) if count else np.zeros(0, dtype))
        at += parts[-1].nbytes
    lengths, places, documents = parts
    width = np.dtype(_TYPES[code]).itemsize
    tokens = _count(lengths, places, width)
    if tokens is None:
        raise damaged("has sequences that do not lie one after the other")
    if not _are_documents(documents, sequences):
        raise damaged(f"has documents that do not divide its {sequences} sequences")
    found = os.path.getsize(tokens_name)
    if found != tokens * width:
        raise damaged(f"is of {tokens} tokens ({_TYPES[code]}), and {tokens_name} has {found} bytes")
    return _Index(_TYPES[code], tokens, places, documents)


def _count(lengths: _Numbers, places: _Numbers, width: int) -> Optional[int]:
    """The tokens of all sequences; None: they have gaps between them, or lengths that are none."""
    tokens = 0
    for begin in range(0, len(lengths), _BLOCK):
        some = np.asarray(lengths[begin:begin + _BLOCK], np.int64)
        ends = tokens + np.cumsum(some)
        if (some < 0).any() or not np.array_equal(places[begin:begin + _BLOCK], (ends - some) * width):
            return None
        tokens = int(ends[-1])
    return tokens


def _are_documents(documents: _Numbers, sequences: int) -> bool:
    """Whether each begins where the one before ends, or after it, from the first sequence to the last."""
    if not len(documents) or documents[0] != 0 or documents[-1] != sequences:
        return False
    #  Compared, not subtracted: the difference of hostile numbers may not fit into 64 bits.
    begins, ends = documents[:-1], documents[1:]
    return all((begins[at:at + _BLOCK] <= ends[at:at + _BLOCK]).all() for at in range(0, len(ends), _BLOCK))

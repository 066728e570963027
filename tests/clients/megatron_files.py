"""Tokens as Megatron keeps them (.bin, .idx), written as their format says."""
from __future__ import annotations

import struct
from typing import Sequence

import numpy as np

CODES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint16": 8}


def write_tokens(prefix: str, documents: Sequence[Sequence[Sequence[int]]], dtype: str = "int32") -> None:
    """documents: of sequences of tokens."""
    sequences = [np.asarray(sequence, "<" + np.dtype(dtype).str[1:]) for document in documents
                 for sequence in document]
    sizes = [sequence.nbytes for sequence in sequences]
    ends = np.cumsum([0, *(len(document) for document in documents)])
    with open(prefix + ".bin", "wb") as file:
        for sequence in sequences:
            file.write(sequence.tobytes())
    with open(prefix + ".idx", "wb") as file:
        file.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, CODES[dtype], len(sequences), len(ends)))
        file.write(np.asarray([len(sequence) for sequence in sequences], "<i4").tobytes())
        file.write((np.cumsum([0, *sizes])[:-1]).astype("<i8").tobytes() + ends.astype("<i8").tobytes())

"""MosaicML Streaming's shards (MDS), written as their format says."""
from __future__ import annotations

import bz2
import gzip
import json
import os
import struct
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Sequence


def write_mds(folder: str, rows: Sequence[Mapping[str, Any]], compression: Optional[str] = None,
              shard_rows: int = 30) -> None:
    """A label is a whole number, a float or a text, as the first row's."""
    label, size = {int: ("int", 8), float: ("float64", 8), str: ("str", None)}[type(rows[0]["label"])]
    names, encodings, sizes = ["caption", "image", "label"], ["str", "png", label], [None, None, size]
    os.makedirs(folder)
    shards = []
    for begin in range(0, len(rows), shard_rows):
        part, body, places = rows[begin:begin + shard_rows], b"", []
        about = json.dumps({"column_names": names}).encode()
        first = 4 + 4 * (len(part) + 1) + len(about)
        for row in part:
            places.append(first + len(body))
            own = row["label"].encode() if label == "str" else struct.pack(
                "<q" if label == "int" else "<d", row["label"])
            lengths = [len(row["caption"].encode()), len(row["image"]), *([len(own)] if size is None else [])]
            body += struct.pack(f"<{len(lengths)}I", *lengths) + row["caption"].encode() + row["image"] + own
        places.append(first + len(body))
        content = struct.pack(f"<I{len(places)}I", len(part), *places) + about + body
        raw = f"shard.{begin // shard_rows:05d}.mds"
        shard: Dict[str, Any] = {"format": "mds", "samples": len(part), "column_names": names, "version": 2,
                                 "column_encodings": encodings, "column_sizes": sizes,
                                 "compression": compression, "zip_data": None,
                                 "raw_data": {"basename": raw, "bytes": len(content), "hashes": {}}}
        if compression:
            how = compression.partition(":")[0]
            if how == "zstd":
                import zstandard
                content = zstandard.compress(content)
            else:
                content = {"gz": gzip.compress, "bz2": bz2.compress, "br": bytes}[how](content)
            shard["zip_data"] = {"basename": f"{raw}.{how}", "bytes": len(content), "hashes": {}}
        Path(folder, shard["zip_data"]["basename"] if compression else raw).write_bytes(content)
        shards.append(shard)
    Path(folder, "index.json").write_text(json.dumps({"shards": shards, "version": 2}))

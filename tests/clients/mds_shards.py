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
    names, encodings, sizes = ["caption", "image", "label"], ["str", "png", "int"], [None, None, 8]
    os.makedirs(folder)
    shards = []
    for begin in range(0, len(rows), shard_rows):
        part, body, places = rows[begin:begin + shard_rows], b"", []
        about = json.dumps({"column_names": names}).encode()
        first = 4 + 4 * (len(part) + 1) + len(about)
        for row in part:
            places.append(first + len(body))
            caption = row["caption"].encode()
            body += struct.pack("<II", len(caption), len(row["image"])) + caption + row["image"]
            body += struct.pack("<q", row["label"])
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

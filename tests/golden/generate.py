#!/usr/bin/env python3
"""Writes the golden frames: one example of every message of docs/protocol.md, in NAME.hex beside this file.

A file is one message: a line of hexadecimal a frame, in order; a line that begins with `#` is a comment.
The comment above a frame says its values.  Only struct and json are used here, nothing of any client, so that
the files are a second opinion on the layout.

    generate.py                 write the files
    generate.py --check         exit 1 and name what differs, if the files are not what would be written
    generate.py --keep VERSION  copy them, and the states, to VERSION/: what this release says.  Later servers
                                and clients understand it (tests/kept_messages.h), so the folder never changes
                                after the release: one that is there is refused.
"""
from __future__ import annotations

import json
import re
import shutil
import struct
import sys
from pathlib import Path
from typing import Any, List, Tuple

HERE = Path(__file__).resolve().parent

JOIN, INLINE, PROGRESS, LEAVE, STATUS, HEARTBEAT, EXPLAIN, DRAIN, DATASET = 1, 2, 3, 4, 5, 6, 7, 8, 9
JOINED, BATCH, EPOCH_END, ENDED, STATUS_REPLY, ERROR, NOTICE, EXPLAIN_REPLY, DRAINING = (129, 130, 131, 132,
    133, 134, 135, 136, 137)
DATASET_REPLY = 138
WORK_HELLO, WORK_ANSWER, WORK_RESULT, WORK_HEARTBEAT, WORK_GOODBYE = 10, 11, 12, 13, 14
ADD, REMOVE, ADDING, REMOVED = 15, 16, 144, 145
WORK_CHALLENGE, WORK_WELCOME, WORK_REFUSED, WORK_PIPELINE, WORK_TASK = 139, 140, 141, 142, 143

Frame = Tuple[List[str], bytes]     # comment lines, the frame's bytes
Message = List[Frame]


def head(kind: int, job: int = 0, tag: int = 0) -> Frame:
    return ([f"head: kind {kind}, job {job}, tag {tag}"],
            struct.pack("<4sBBHQQ", b"TURN", 1, kind, 0, job, tag))


def text(value: Any) -> Frame:
    """Compact JSON, keys in the order given."""
    string = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return ["JSON: " + string], string.encode()


def progress(consumed: int, released: int, kept: int) -> Frame:
    return ([f"consumed {consumed}, released {released}, kept {kept:#x}"],
            struct.pack("<QQQ", consumed, released, kept))


def batch(sequence: int, epoch: int, index: int, slot: int, count: int, flags: int) -> Frame:
    return ([f"sequence {sequence}, epoch {epoch}, index {index}, slot {slot}, count {count}, flags {flags}"],
            struct.pack("<QQQIIII", sequence, epoch, index, slot, count, flags, 0))


def epoch_end(epoch: int, samples: int, batches: int, flags: int) -> Frame:
    return ([f"epoch {epoch}, samples {samples}, batches {batches}, flags {flags}"],
            struct.pack("<QQQII", epoch, samples, batches, flags, 0))


def ids(*numbers: int) -> Frame:
    return ["ids: " + ", ".join(map(str, numbers))], struct.pack(f"<{len(numbers)}Q", *numbers)


def id_set(form: int, comment: str, *numbers: int) -> Frame:
    return ([f"id frame: form {form}, {comment}"],
            struct.pack(f"<B7x{len(numbers)}Q", form, *numbers))


def step(counts: List[int], *numbers: int) -> Frame:
    return ([f"step: samples of each rank: {', '.join(map(str, counts))}; "
             f"ids: {', '.join(map(str, numbers))}"],
            struct.pack(f"<{len(counts) + len(numbers)}Q", *counts, *numbers))


def join(**changed: Any) -> Frame:
    value = {"dataset": "train", "batch_size": 64, "epochs": 2, "drop_last": False, "pipeline": "train",
             "order": "shared", "slots": 4, "transport": "auto", "seed": "7", "name": "trial-3"}
    value.update(changed)
    # the order in which clients say them
    for key in ("name", "job", "instance", "run", "resume", "world_size", "rank", "gather", "rank_wait",
                "nodes", "node", "parts", "on_bad", "frames"):
        if key in value:
            value[key] = value.pop(key)
    return text(value)


FIELDS = [{"name": "image", "dtype": "uint8", "shape": [224, 224, 3], "offset": "0",
           "sample_bytes": "150528"},
          {"name": "label", "dtype": "int64", "shape": [], "offset": "9633792", "sample_bytes": "8"}]
TINY = [{"name": "image", "dtype": "uint8", "shape": [2, 2, 3], "offset": "0", "sample_bytes": "12"},
        {"name": "label", "dtype": "int64", "shape": [], "offset": "32", "sample_bytes": "8"}]
DTYPES = {"uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "uint32": 4, "int32": 4, "uint64": 8, "int64": 8,
          "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "bool": 1}
TOKEN = "0123456789abcdef0123456789abcdef"
RING = {"path": "/run/user/1000/tureen/server.sock.ring", "token": TOKEN, "bytes": "38551552"}
PRINT = "6d0c4f1e2a3b5c7d"
DATA = "9e1f0a2b3c4d5e6f"
RUN = "4b7c1d2e3f405162738495a6b7c8d9ea"
INSTANCE = "00112233445566778899aabbccddeeff"


def resume(epoch: int, batches: int, places: int) -> Any:
    return {"fingerprint": PRINT, "data": DATA, "epoch": str(epoch), "batches": str(batches),
            "places": str(places)}


def joined(**changed: Any) -> Frame:
    value = {"job": "5", "samples": "3000", "dataset_samples": "3000", "classes": ["cat", "dog"],
             "batch_size": 64, "slots": 4, "slot_bytes": "9637888", "fields": FIELDS, "ring": RING,
             "seed": "7", "fingerprint": PRINT, "data": DATA, "run": RUN, "forked": False, "rank": 0,
             "world_size": 1, "pipeline": [{"op": "decode"}, {"share": True}], "heartbeat_ms": 1000,
             "lease_ms": 90000}
    value.update(changed)
    return text(value)


def many_fields(count: int, batch_size: int) -> List[Any]:
    """Every dtype, and up to four sides."""
    fields, offset = [], 0
    for index in range(count):
        dtype, size = list(DTYPES.items())[index % len(DTYPES)]
        shape = [3, 2, 1, 4][:index % 5]
        for side in shape:
            size *= side
        fields.append({"name": f"field_{index}", "dtype": dtype, "shape": shape, "offset": str(offset),
                       "sample_bytes": str(size)})
        offset += -(-size * batch_size // 64) * 64
    return fields


def tiny_slot() -> Frame:
    """A slot of 64 bytes with two samples: images 0..11 and 12..23, labels 1 and -2."""
    comment = ("slot, 64 bytes: image 2 x [2,2,3] uint8 at 0 (0, 1, .. 23), 8 zeros, label 2 x int64 at 32 "
               "(1, -2), 16 zeros")
    return [comment], struct.pack("<24B8x2q16x", *range(24), 1, -2)


MESSAGES: List[Tuple[str, str, Message]] = [
    ("join", "client to server", [
        head(JOIN, tag=1), join(frames=["subset"]),
        id_set(1, "ranges: 0 to 9, 10 to 19, 1000 to 2999", 0, 10, 10, 20, 1000, 3000)]),
    ("join_path", "client to server", [head(JOIN, tag=17), join(path="/data/prüfung")]),
    ("join_words", "client to server", [
        head(JOIN, tag=2), join(seed="18446744073709551615", pipeline="eval", drop_last=True,
                                frames=["subset"]),
        id_set(2, "words, of 130 samples: ids 0, 63, 64, 127, 129",
               0x8000000000000001, 0x8000000000000001, 0x2)]),
    ("join_list", "client to server", [
        head(JOIN, tag=3),
        join(batch_size=2, epochs=None, order="list", transport="inline",
             pipeline=[{"op": "center_crop", "size": [224, 224]}], frames=["list", "list"]),
        id_set(3, "list, first part: 5, 3, 3, 2999", 5, 3, 3, 2999),
        id_set(3, "list, second part: 0, 5", 0, 5)]),
    ("join_seeded", "client to server", [head(JOIN, tag=7), join(order="seeded")]),
    ("join_pool", "client to server", [head(JOIN, tag=9), join(order="seeded", pool=4096)]),
    ("join_on_bad", "client to server", [head(JOIN, tag=15), join(on_bad="fail")]),
    ("join_resume", "client to server", [
        head(JOIN, tag=10),
        join(order="private", epochs=4, job="trial-3", instance=INSTANCE, run=RUN, resume=resume(3, 17, 0),
             frames=["subset", "taken", "taken"]),
        id_set(1, "ranges: 0 to 2999", 0, 3000),
        id_set(1, "taken, first part, ranges: 0 to 9, 20 to 29", 0, 10, 20, 30),
        id_set(1, "taken, second part, ranges: 1000 to 2067", 1000, 2068)]),
    ("join_resume_list", "client to server", [
        head(JOIN, tag=11),
        join(batch_size=2, epochs=None, order="list", instance=INSTANCE, run=RUN, resume=resume(1, 2, 4),
             frames=["list"]),
        id_set(3, "list: 5, 3, 3, 2999, 0, 5", 5, 3, 3, 2999, 0, 5)]),
    ("join_ranks", "client to server", [
        head(JOIN, tag=13),
        join(batch_size=2, epochs=4, job="trial-3", instance=INSTANCE, run=RUN, resume=resume(3, 1, 0),
             world_size=2, rank=1, gather=120, rank_wait=30, frames=["taken", "recent"]),
        id_set(1, "taken, ranges: 7 to 10", 7, 11),
        id_set(4, "recent: step of epoch 2, index 4, 3 ids, of the ranks 2 and 1: 2999, 0, 5; end of epoch "
               "2, 5 batches, 19 samples; step of epoch 3, index 0, 4 ids, of the ranks 2 and 2: 7, 8, 9, 10",
               0, 2, 4, 3, 2, 1, 2999, 0, 5, 1, 2, 5, 19, 0, 3, 0, 4, 2, 2, 7, 8, 9, 10)]),
    ("join_nodes", "client to server", [
        head(JOIN, tag=16),
        join(batch_size=2, epochs=4, job="trial-3", instance=INSTANCE, run=RUN,
             resume={**resume(3, 5, 0), "cut": {"batches": "4", "places": "0"}}, nodes=3, node=1,
             parts="fixed", frames=["taken", "cut"]),
        id_set(2, "taken, words: 7 to 10", 0x780),
        id_set(2, "cut, words: 7, 8", 0x180)]),
    ("inline", "client to server", [head(INLINE, job=5)]),
    ("progress", "client to server", [head(PROGRESS, job=5), progress(7, 6, 0x5)]),
    ("progress_large", "client to server", [
        head(PROGRESS, job=0x0102030405060708),
        progress(0x1112131415161718, 0x0807060504030201, 0x8000000000000001)]),
    ("leave", "client to server", [head(LEAVE, job=5, tag=4)]),
    ("status", "client to server", [head(STATUS, tag=6), text({})]),
    ("heartbeat", "both ways, inline jobs", [head(HEARTBEAT, job=5)]),
    ("joined", "server to client, the answer to join.hex",
     [head(JOINED, job=5, tag=1), joined(samples="2020")]),
    ("joined_inline", "server to client, the answer to join_list.hex", [
        head(JOINED, job=5, tag=3),
        joined(samples="6", batch_size=2, slot_bytes="64", fields=TINY, ring=None,
               pipeline=[{"op": "center_crop", "size": [224, 224]}])]),
    ("joined_ranks", "server to client, the answer to join_ranks.hex", [
        head(JOINED, job=5, tag=13),
        joined(batch_size=2, slot_bytes="64", fields=TINY, ring={**RING, "bytes": "256"}, rank=1,
               world_size=2)]),
    ("joined_fields", "server to client: as many fields as there may be, of every dtype", [
        head(JOINED, job=5, tag=8),
        joined(samples="6", batch_size=3, slot_bytes="4096", fields=many_fields(24, 3), ring=None)]),
    ("joined_ragged", "server to client: tokens, of each sample up to 5", [
        head(JOINED, job=5, tag=8),
        joined(samples="6", batch_size=2, slot_bytes="256", ring=None, fields=[
            {"name": "tokens", "dtype": "int16", "shape": [5], "offset": "0", "sample_bytes": "10",
             "lengths": "tokens_length"},
            {"name": "tokens_length", "dtype": "int64", "shape": [], "offset": "64", "sample_bytes": "8"},
            {"name": "label", "dtype": "int64", "shape": [], "offset": "128", "sample_bytes": "8"}])]),
    ("batch", "server to client", [
        head(BATCH, job=5), batch(41, 1, 9, 3, 3, 0), ids(2999, 0, 1234567890123)]),
    ("batch_inline", "server to client, a batch of joined_inline.hex", [
        head(BATCH, job=5), batch(1, 0, 1, 1, 2, 1), ids(3, 2999), tiny_slot()]),
    ("batch_ranks", "server to client: rank 0's of a step of two ranks", [
        head(BATCH, job=5), batch(41, 1, 9, 3, 3, 0), ids(2999, 0, 1234567890123),
        step([3, 2], 2999, 0, 1234567890123, 17, 4)]),
    ("batch_padding", "server to client: rank 1's of a step in which only rank 0 has samples", [
        head(BATCH, job=5), batch(42, 1, 10, 0, 1, 2), ids(2999), step([1, 0], 2999)]),
    ("batch_recalled", "server to client: what rank 1, which has a ring, lacked of a step before its coming",
     [
        head(BATCH, job=5), batch(0, 1, 1, 4294967295, 2, 1), ids(3, 2999), step([2, 2], 0, 1, 3, 2999),
        tiny_slot()]),
    ("epoch_end", "server to client", [head(EPOCH_END, job=5), epoch_end(1, 2019, 32, 1)]),
    ("ended", "server to client, the answer to leave.hex", [
        head(ENDED, job=5, tag=4), text({"reason": "left", "message": "the client left"})]),
    ("ended_stopping", "server to client", [
        head(ENDED, job=5), text({"reason": "stopping", "message": "the server ends"})]),
    ("status_reply", "server to client, the answer to status.hex", [
        head(STATUS_REPLY, tag=6), text({"version": "0.1.0", "datasets": [], "jobs": []})]),
    ("notice", "server to client", [
        head(NOTICE, job=5),
        text({"notice": "little_shared", "message": "only 5 % of this job's samples are in the data of other "
              "jobs"})]),
    ("notice_unreadable", "server to client", [
        head(NOTICE, job=5),
        text({"notice": "unreadable",
              "message": "2 samples of this job's data cannot be read, and are left out: cat/0017.jpg: "
              "empty; dog/0001.png: "
                         "ends before its image does",
              "samples": "2018",
              "unreadable": {"count": 2, "samples": [{"id": 17, "reason": "cat/0017.jpg: empty"},
                                                     {"id": 1500, "reason": "dog/0001.png: ends before its "
                                                      "image does"}]}})]),
    ("notice_gathering", "server to client, while the rank of join_ranks.hex waits", [
        head(NOTICE, tag=13),
        text({"notice": "gathering",
              "message": "1 of 2 ranks of job 'trial-3' are here; waiting for rank 0, for 118 more "
                         "seconds"})]),
    ("explain", "client to server", [head(EXPLAIN, job=5, tag=12), text({"id": "17", "epoch": "3"})]),
    ("explain_reply", "server to client, the answer to explain.hex", [
        head(EXPLAIN_REPLY, job=5, tag=12),
        text({"id": "17", "epoch": "3", "index": "4", "row": "9", "name": "cat/0017.jpg", "version": "2",
              "prepared_for": 3, "reused": True, "operations": [
                  {"op": "decode", "field": "image", "view": 0, "stage": "shared",
                   "parameters": {"height": 375, "width": 500}},
                  {"op": "random_resized_crop", "field": "image", "view": 0, "stage": "shared",
                   "parameters": {"top": 10, "left": 4, "height": 190, "width": 220}},
                  {"op": "flip", "field": "image", "view": 0, "stage": "private",
                   "parameters": {"flipped": True}}]})]),
    ("explain_reply_sharing", "server to client, of a seeded job's sample that is in no batch", [
        head(EXPLAIN_REPLY, job=6, tag=15),
        text({"id": "3", "epoch": "1", "index": None, "row": None, "name": "cat/0003.jpg", "version": "1",
              "prepared_for": None, "reused": None,
              "sharing": "the job draws by itself, in no tree: order seeded", "operations": []})]),
    ("dataset", "client to server", [
        head(DATASET, tag=16), text({"dataset": "train", "table": "names", "first": "2998"})]),
    ("dataset_reply", "server to client, the answer to dataset.hex", [
        head(DATASET_REPLY, tag=16),
        text({"dataset": "train", "fingerprint": PRINT, "samples": "3000", "classes": "2",
              "labels": [{"name": "label", "dtype": "int64", "shape": []},
                         {"name": "text", "dtype": "uint8", "shape": [12]}],
              "table": "names", "first": "2998", "count": "2"}),
        (["two texts of 5 bytes: s2998, s2999"], struct.pack("<2I", 5, 5) + b"s2998s2999")]),
    ("work_hello", "worker to server", [
        head(WORK_HELLO),
        text({"datasets": ["0123456789abcdef" * 2], "processors": 8, "name": "box", "libraries": "tureen 0.1.0"})]),
    ("work_challenge", "server to worker", [head(WORK_CHALLENGE), text({"nonce": "18446744073709551615"})]),
    ("work_answer", "worker to server, the answer to work_challenge.hex", [
        head(WORK_ANSWER), text({"digests": {"JPEG": "00000000000000ff", "PNG": "0123456789abcdef"}})]),
    ("work_welcome", "server to worker", [head(WORK_WELCOME)]),
    ("work_refused", "server to worker", [head(WORK_REFUSED), text({"reason": "its key was revoked"})]),
    ("work_pipeline", "server to worker", [
        head(WORK_PIPELINE),
        text({"number": 1, "version_bytes": "18",
              "pipeline": [{"op": "resize", "size": [2, 3]}, {"share": True}], "fields": [["image", False]]})]),
    ("work_task", "server to worker", [
        head(WORK_TASK, tag=7),
        (["seed 1, round 2, id 3, occurrence 0, pipeline 1, files 2, warnings 100, flags 1, dataset 0, "
          "checksum 0", "rows 2 bytes, files 3 and 4 bytes"],
         struct.pack("<QQQIIIIIIQQ8Q", 1, 2, 3, 0, 1, 2, 100, 1, 0, 0, 2, 3, 4, 0, 0, 0, 0, 0, 0)),
        (["the files, and the rows"], b"abcdefgrr")]),
    ("work_result", "worker to server, the answer to work_task.hex", [
        head(WORK_RESULT, tag=7),
        (["processor 1000 ns, held 2000 ns, outcome 0, file 0, rows 2 bytes"],
         struct.pack("<QQIIQ", 1000, 2000, 0, 0, 2)),
        (["the version"], b"v" * 18), (["the rows"], b"rr")]),
    ("work_heartbeat", "both ways", [head(WORK_HEARTBEAT)]),
    ("work_goodbye", "worker to server, and back", [head(WORK_GOODBYE)]),
    ("drain", "client to server, an operator's", [head(DRAIN, tag=14), text({})]),
    ("draining", "server to client, the answer to drain.hex", [
        head(DRAINING, tag=14), text({"draining": True, "jobs": 3})]),
    ("add", "client to server, an operator's", [
        head(ADD, tag=15), text({"arguments": ["--dataset", "val=/data/val", "--field", "val.mask=mask:/m",
                                               "--tenant-datasets", "vision=val"]})]),
    ("adding", "server to client, the first answer to add.hex", [
        head(ADDING, tag=15), text({"state": "opening", "progress": "data set 'val': 12,000 files"})]),
    ("adding_ready", "server to client, the last answer to add.hex", [
        head(ADDING, tag=15),
        text({"state": "ready", "lines": ["data set 'val': 12,000 samples", "warning: Größe"]})]),
    ("remove", "client to server, an operator's", [
        head(REMOVE, tag=16), text({"dataset": "val", "now": True})]),
    ("removed", "server to client, the answer to remove.hex", [head(REMOVED, tag=16), text({"jobs": 2})]),
    ("ended_removed", "server to client", [
        head(ENDED, job=5), text({"reason": "removed", "message": "data set 'val' was removed from the server"})]),
    ("error", "server to client, the answer to a JOIN with tag 1", [
        head(ERROR, tag=1),
        text({"error": "unknown_dataset", "message": "no data set 'trian'; this server has: train, val"})]),
]


def rendered(name: str, way: str, message: Message) -> str:
    lines = [f"# {name}: {way}"]
    for comments, data in message:
        lines += ["# " + comment for comment in comments]
        lines.append(data.hex())
    return "\n".join(lines) + "\n"


def keep(version: str) -> int:
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        print(f"--keep {version}: expected a version, as 1.2.0", file=sys.stderr)
        return 2
    kept = HERE / version
    if kept.exists():
        print(f"--keep {version}: {kept} is there, and what a release says never changes: for a release that "
              "is not out yet, remove the folder first", file=sys.stderr)
        return 2
    kept.mkdir()
    for path in [*HERE.glob("*.hex"), *HERE.glob("*.json")]:
        shutil.copy(path, kept)
    return 0


def main() -> int:
    if len(sys.argv) == 3 and sys.argv[1] == "--keep":
        return keep(sys.argv[2])
    wanted = {name + ".hex": rendered(name, way, message) for name, way, message in MESSAGES}
    if sys.argv[1:] != ["--check"]:
        for name, content in wanted.items():
            (HERE / name).write_text(content, encoding="utf-8")
        return 0
    present = {path.name: path.read_text(encoding="utf-8") for path in HERE.glob("*.hex")}
    differing = sorted(name for name in wanted.keys() | present.keys()
                       if wanted.get(name) != present.get(name))
    for name in differing:
        print(f"{name} is not what generate.py writes", file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())

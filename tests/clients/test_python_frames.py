"""What the Python client sends and reads, without a server: frames, the book of slots, arguments.

Run by ctest (python_frames), or by hand from anywhere: python3 tests/clients/test_python_frames.py [-v]
[NAME]
"""
from __future__ import annotations

import json
import os
import random
import re
import select
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, List
from unittest import mock

from client_checks import GOLDEN, SEED, called, descriptors, golden, nothing_ignored, request

import numpy as np

import tureen
from tureen import ring, state, wire
from tureen.dataset import _facts as facts
from tureen.request import default_endpoint
from tureen.slots import Slots, lent_max
from tureen.waker import Loan, Waker


class Golden(unittest.TestCase):
    """The checked-in frames: what the generator writes, what the client sends, what it reads."""

    def test_files_are_what_the_generator_writes(self) -> None:
        done = subprocess.run([sys.executable, str(GOLDEN / "generate.py"), "--check"],
                              stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 0, done.stderr.decode())

    def test_client_to_server_byte_for_byte(self) -> None:
        words = [0x8000000000000001, 0x8000000000000001, 0x2]
        ranges = wire.pack_ids(wire.IDS_RANGES, [[0, 10], [10, 20], [1000, 3000]])
        lists = [wire.pack_ids(wire.IDS_LIST, ids) for ids in ([5, 3, 3, 2999], [0, 5])]
        base = {"dataset": "train", "batch_size": 64, "epochs": 2, "drop_last": False, "pipeline": "train",
                "order": "shared", "slots": 4, "transport": "auto", "seed": "7", "name": "trial-3"}
        scattered = {**base, "seed": str(2**64 - 1), "pipeline": "eval", "drop_last": True,
                     "frames": ["subset"]}
        listed = {**base, "batch_size": 2, "epochs": None, "order": "list", "transport": "inline",
                  "pipeline": [{"op": "center_crop", "size": [224, 224]}], "frames": ["list", "list"]}
        pooled = {**base, "order": "seeded", "pool": 4096}
        pooled["name"] = pooled.pop("name")
        large = (0x0102030405060708, 0x1112131415161718, 0x0807060504030201, 0x8000000000000001)
        for name, built in {
                "join": wire.join(wire.pack_json({**base, "frames": ["subset"]}), [ranges], 1),
                "join_words": wire.join(wire.pack_json(scattered), [wire.pack_ids(wire.IDS_WORDS, words)], 2),
                "join_list": wire.join(wire.pack_json(listed), lists, 3),
                "join_seeded": wire.join(wire.pack_json({**base, "order": "seeded"}), [], 7),
                "join_pool": wire.join(wire.pack_json(pooled), [], 9),
                "inline": wire.inline(5),
                "progress": wire.progress(5, 7, 6, 0x5),
                "progress_large": wire.progress(*large),
                "leave": wire.leave(5, 4),
                "status": wire.status(6),
                "heartbeat": wire.heartbeat(5),
                "add": wire.add(["--dataset", "val=/data/val", "--field", "val.mask=mask:/m",
                                 "--tenant-datasets", "vision=val"], 15),
                "remove": wire.remove("val", True, 16)}.items():
            with self.subTest(name):
                self.assertEqual(built, golden(name))

    def test_join_from_arguments(self) -> None:
        """The same frames from what a user writes."""
        frames = request(subset=[*range(1000, 3000), *range(19, -1, -1)]).message(1)
        self.assertEqual(frames[:2], golden("join")[:2])
        self.assertEqual(frames[2], wire.pack_ids(wire.IDS_RANGES, [0, 20, 1000, 3000]))
        with mock.patch("tureen.request._RANGES_MAX", 1):
            scattered = request(subset=[0, 63, 64, 127, 129], seed=2**64 - 1, pipeline="eval", drop_last=True)
            self.assertEqual(scattered.message(2), golden("join_words"))
        with mock.patch("tureen.wire.ID_FRAME_NUMBERS_MAX", 4):
            listed = request(ids=[5, 3, 3, 2999, 0, 5], batch_size=2, epochs=None, order="list",
                             transport="inline", pipeline=[{"op": "center_crop", "size": [224, 224]}])
            self.assertEqual(listed.message(3), golden("join_list"))
        self.assertEqual(request(order="seeded").message(7), golden("join_seeded"))
        self.assertEqual(request(order="seeded", pool=4096).message(9), golden("join_pool"))
        self.assertEqual(json.loads(request(order=None, seed=7, pool=8).message(1)[1])["pool"], 8)

    def test_an_order_that_is_not_said_is_left_to_the_server(self) -> None:
        for seed, order in ((7, None), (None, None), (None, "seeded"), (7, "shared")):
            said = json.loads(request(seed=seed, order=order).message(1)[1])
            self.assertEqual((said.get("order"), said.get("seed")),
                             (order, None if seed is None else str(seed)))

    def test_server_to_client(self) -> None:
        self.assertEqual(wire.parse_head(golden("joined")[0]), (wire.JOINED, 5, 1, 1))
        joined = wire.parse_joined(golden("joined")[1])
        self.assertEqual((joined.job, joined.samples, joined.dataset_samples, joined.slots, joined.seed),
                         (5, 2020, 3000, 4, 7))
        self.assertEqual(joined.fields[0], ("image", np.dtype("uint8"), (224, 224, 3), 0, 150528, "uint8",
                                            ""))
        self.assertEqual(joined.ring and joined.ring.bytes, 38551552)
        tiny = wire.parse_joined(golden("joined_inline")[1])
        self.assertIsNone(tiny.ring)
        self.assertEqual(wire.parse_batch_head(golden("batch")[1]), (41, 1, 9, 3, 3, 0))
        self.assertEqual(np.frombuffer(golden("batch")[2], np.int64).tolist(), [2999, 0, 1234567890123])
        self.assertEqual(wire.parse_batch_head(golden("batch_inline")[1]), (1, 0, 1, 1, 2, 1))
        from tureen.batch import views
        arrays = views(tiny.fields, np.frombuffer(golden("batch_inline")[3], np.uint8), 2)
        self.assertEqual(arrays["image"].tolist(), np.arange(24).reshape(2, 2, 2, 3).tolist())
        self.assertEqual(arrays["label"].tolist(), [1, -2])
        self.assertEqual(wire.parse_epoch_end(golden("epoch_end")[1]), (1, 2019, 32, 1))
        self.assertEqual(wire.parse_reason(golden("ended")[1], "reason", "ENDED"),
                         ("left", "the client left"))
        self.assertEqual(wire.parse_reason(golden("ended_stopping")[1], "reason", "ENDED")[0], "stopping")
        self.assertEqual(wire.parse_json(golden("status_reply")[1])["version"], "0.1.0")
        self.assertEqual(wire.parse_reason(golden("error")[1], "error", "ERROR")[0], "unknown_dataset")
        for name, kind, tag in (("batch", 130, 0), ("batch_inline", 130, 0), ("epoch_end", 131, 0),
                                ("ended", 132, 4),
                                ("status_reply", 133, 6), ("error", 134, 1), ("heartbeat", 6, 0)):
            head = wire.parse_head(golden(name)[0])
            self.assertEqual(head and (head.kind, head.tag), (kind, tag), name)

    def test_fields_of_every_dtype(self) -> None:
        """As many fields as there may be; what NumPy has no type for comes bit for bit."""
        joined = wire.parse_joined(golden("joined_fields")[1])
        self.assertEqual(len(joined.fields), 24)
        for field in joined.fields:
            self.assertEqual(field.dtype, np.dtype({"bfloat16": "uint16"}.get(field.told, field.told)))
            self.assertEqual(field.sample_bytes, int(np.prod(field.shape)) * field.dtype.itemsize)
        self.assertEqual(sorted({field.told for field in joined.fields}),
                         ["bfloat16", "bool", "float16", "float32", "float64", "int16", "int32", "int64",
                          "int8", "uint16", "uint32", "uint64", "uint8"])
        from tureen.batch import views
        slot = np.arange(joined.slot_bytes, dtype=np.uint64).astype(np.uint8)
        arrays = views(joined.fields, slot, 2)
        for field in joined.fields:
            array = arrays[field.name]
            self.assertEqual((array.shape, array.dtype), ((2, *field.shape), field.dtype))
            begin = field.offset
            self.assertEqual(array.tobytes(), slot[begin:begin + 2 * field.sample_bytes].tobytes())

    def test_a_ragged_field_names_its_lengths(self) -> None:
        """And one that names what is none is refused."""
        whole = golden("joined_ragged")[1]
        fields = wire.parse_joined(whole).fields
        self.assertEqual([field.lengths for field in fields], ["tokens_length", "", ""])
        for other in (b'"tokens_lengths"', b'"tokens"', b'7'):
            with self.assertRaises(tureen.ProtocolError):
                wire.parse_joined(whole.replace(b'"lengths":"tokens_length"', b'"lengths":' + other))

    def test_damaged_frames_raise_protocol_error_only(self) -> None:
        """Every prefix, and a thousand damaged copies, of each foreign frame: read, refused, never another
        exception."""
        chance = random.Random(SEED)
        parsers: Dict[str, Callable[[bytes], Any]] = {
            "joined": wire.parse_joined, "joined_inline": wire.parse_joined,
            "joined_fields": wire.parse_joined, "joined_ragged": wire.parse_joined,
            "batch": wire.parse_batch_head,
            "epoch_end": wire.parse_epoch_end, "status_reply": wire.parse_json,
            "error": lambda frame: wire.parse_reason(frame, "error", "ERROR")}
        for name, parse in parsers.items():
            whole = golden(name)[1]
            damaged = [whole[:length] for length in range(len(whole))]
            for _ in range(1000):
                copy = bytearray(whole)
                for _ in range(chance.randint(1, 3)):
                    copy[chance.randrange(len(copy))] = chance.choice(b'0919"-[]{},:\xff\x00 entru.')
                damaged.append(bytes(copy))
            for frame in damaged:
                try:
                    parse(frame)
                except tureen.ProtocolError:
                    pass
                except Exception as error:
                    self.fail(f"{name}, seed {SEED}: {error!r} for {frame!r}")


class Kept(unittest.TestCase):
    """tests/golden/VERSION/: what servers of each release say, and the states that its clients wrote."""
    KEPT = sorted(GOLDEN.glob("[0-9]*/"))

    def understand(self, frames: List[bytes]) -> None:
        head = wire.parse_head(frames[0])
        assert head
        if head.kind == wire.JOINED:
            wire.parse_joined(frames[1])
        elif head.kind == wire.BATCH:
            batch = wire.parse_batch_head(frames[1])
            self.assertEqual(len(frames[2]), 8 * batch.samples)
            if len(frames) > 3 + (batch.flags & wire.BATCH_INLINE):
                wire.parse_step(frames[3], 2, 64)
        elif head.kind == wire.EPOCH_END:
            wire.parse_epoch_end(frames[1])
        elif head.kind == wire.NOTICE:
            wire.parse_notice(frames[1])
        elif head.kind in (wire.ENDED, wire.ERROR):
            what = {wire.ENDED: "reason", wire.ERROR: "error"}[head.kind]
            self.assertTrue(all(wire.parse_reason(frames[1], what, what)))
        elif head.kind == wire.DATASET_REPLY:
            self.assertGreater(facts(wire.parse_json(frames[1])).samples, 0)
        elif head.kind in (wire.STATUS_REPLY, wire.EXPLAIN_REPLY):
            wire.parse_json(frames[1])

    def test_what_servers_said_is_understood(self) -> None:
        self.assertTrue(self.KEPT)
        for path in (path for folder in self.KEPT for path in folder.glob("*.hex")):
            with self.subTest(path):
                self.understand(golden(f"{path.parent.name}/{path.stem}"))

    def test_jobs_of_kept_states_continue(self) -> None:
        for path in (path for folder in self.KEPT for path in folder.glob("*.json")):
            with self.subTest(path):
                self.assertGreater(state.parse(json.loads(path.read_text(encoding="utf-8"))).samples, 0)

    def test_every_kind_has_a_message(self) -> None:
        """Each that docs/protocol.md names: it, clients/wire.h and the golden messages agree."""
        source = GOLDEN.parent.parent
        page = (source / "docs" / "protocol.md").read_text(encoding="utf-8")
        rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", page, re.MULTILINE)
        named = {(name, int(kind)) for kind, name in rows}
        header = (source / "clients" / "wire.h").read_text(encoding="utf-8")
        kinds = header[header.index("WIRE_JOIN ="):header.index("} wire_kind_t;")]
        self.assertEqual(named, {(name, int(kind))
                                 for name, kind in re.findall(r"WIRE_(\w+) = (\d+)", kinds)})
        self.assertGreater(len(named), 25)
        said = {bytes.fromhex(next(line for line in path.read_text(encoding="utf-8").splitlines()
                                   if not line.startswith("#")))[5] for path in GOLDEN.glob("*.hex")}
        self.assertEqual({kind for _, kind in named}, said)


class Steps(unittest.TestCase):
    def test_counts(self) -> None:
        """Of two ranks with 3 samples each at most."""
        for counts, named, fits in (((3, 0), 3, True), ((3, 3), 6, True), ((4, 0), 4, False),
                                    ((0, 4), 4, False), ((2, 1), 2, False), ((2, 1), 4, False)):
            frame = struct.pack(f"<{2 + named}Q", *counts, *range(named))
            with self.subTest(counts=counts, named=named):
                if fits:
                    self.assertEqual(wire.parse_step(frame, 2, 3), wire.Step(counts, frame[16:]))
                else:
                    self.assertRaises(tureen.ProtocolError, wire.parse_step, frame, 2, 3)


class SlotBook(unittest.TestCase):
    def test_progress_frees_exactly_what_came_back(self) -> None:
        """Against a simple model: the protocol's reading of (released, kept) gives the slots that are really
        free."""
        waker = Waker()
        for seed in range(SEED, SEED + 200):
            waker.awake(True)
            chance = random.Random(seed)
            count = chance.randint(3, 6)
            book = Slots(count, waker)
            held: Dict[int, Any] = {}               # sequence -> array
            slot_of: Dict[int, int] = {}
            holds: Dict[int, int] = {}              # slot -> sequence, as the server has it
            released = kept = sent = handed = last = 0
            for _ in range(200):
                action = chance.randrange(4)
                free = [slot for slot in range(count) if slot not in holds
                        or holds[slot] < released and not kept >> slot & 1]
                if action == 0 and free:
                    slot = chance.choice(free)
                    book.arrived(sent, slot)
                    slot_of[sent], holds[slot] = slot, sent
                    sent += 1
                elif action == 1 and handed < sent:
                    if chance.randrange(4):
                        held[handed] = np.zeros(1, np.uint8)
                        book.lend(handed, held[handed])
                    else:
                        book.give_back(handed)
                    handed += 1
                elif action == 2 and held:
                    del held[chance.choice(list(held))]
                else:
                    released, kept = book.progress()
                    self.assertTrue(last <= released <= handed, f"seed {seed}")
                    last = released
                    for sequence, slot in slot_of.items():
                        if holds[slot] == sequence:
                            really = sequence < handed and sequence not in held
                            said = sequence < released and not kept >> slot & 1
                            self.assertEqual(said, really, f"seed {seed}: batch {sequence} in slot {slot}")
                self.assertEqual(book.lent, len(held), f"seed {seed}")

    def test_taken_slot_and_gap_in_sequence(self) -> None:
        book = Slots(4, Waker())
        book.arrived(0, 2)
        for sequence, slot in ((1, 2), (2, 0), (0, 1), (1, 4)):
            with self.assertRaises(tureen.ProtocolError):
                book.arrived(sequence, slot)


    def test_what_may_be_held(self) -> None:
        self.assertEqual([lent_max(slots) for slots in (2, 3, 4, 5, 8)], [2, 2, 2, 3, 6])


class RingServers(unittest.TestCase):
    """What a ring server may answer; nothing is left open, whatever it is."""

    def take(self, answer: bytes, memory: int, size: int = 4096, **how: Any) -> ring.Ring:
        with tempfile.TemporaryDirectory(prefix="tureen-ring-") as folder, \
                socket.socket(socket.AF_UNIX) as listening:
            listening.bind(f"{folder}/ring.sock")
            listening.listen()
            peers: List[socket.socket] = []

            def serve() -> None:
                peer, _ = listening.accept()
                peers.append(peer)
                if answer:
                    socket.send_fds(peer, [answer], [memory] if memory >= 0 else [])

            thread = threading.Thread(target=serve)
            thread.start()
            try:
                return ring.take(wire.RingOffer(f"{folder}/ring.sock", "k" * ring.TOKEN_BYTES, size), **how)
            finally:
                thread.join()
                self.told = peers[0].recv(64)
                peers[0].close()

    def test_answers(self) -> None:
        memory = os.memfd_create("ring")
        self.addCleanup(os.close, memory)
        os.truncate(memory, 4096)
        before = descriptors()
        for answer, given, size, error in (
                (b"X", -1, 4096, ring.RingUnavailable), (b"X", memory, 4096, ring.RingUnavailable),
                (b"R", -1, 4096, ring.RingUnavailable), (b"R", memory, 8192, tureen.ProtocolError)):
            with self.subTest(answer=answer, given=given), self.assertRaises(error):
                self.take(answer, given, size)
            self.assertEqual(descriptors(), before)
        with self.assertRaises(ring.RingLate):
            self.take(b"", -1, answer_s=0.01)
        self.assertEqual(descriptors(), before)
        for keep in (False, True):
            taken = self.take(b"R", memory, keep=keep)
            self.assertEqual((len(taken.memory), taken.descriptor >= 0), (4096, keep))
            taken.socket.close()
            if keep:
                os.close(taken.descriptor)

    def test_strangers(self) -> None:
        """Another user's ring is the server's where that user runs the server, and no ring otherwise."""
        memory = os.memfd_create("ring")
        self.addCleanup(os.close, memory)
        os.truncate(memory, 4096)
        stranger = os.geteuid() + 3007
        for peer, server in ((stranger, None), (stranger, stranger + 1), (None, None)):
            with mock.patch("tureen.ring.peer_of", lambda _: peer), self.assertRaises(ring.RingStrange):
                self.take(b"", -1, server=server)
            self.assertEqual(self.told, b"", "a stranger got the token")
        with mock.patch("tureen.ring.peer_of", lambda _: stranger):
            taken = self.take(b"R", memory, server=stranger)
        self.assertEqual(taken.descriptor, -1)
        taken.socket.close()


class Wakers(unittest.TestCase):
    def test_it_can_be_woken_again(self) -> None:
        waker, poll = Waker(), select.poll()
        poll.register(waker.fileno(), select.POLLIN)
        for _ in range(2):
            waker.wake()
            self.assertTrue(poll.poll(0))
            waker.awake(True)
            self.assertFalse(poll.poll(0))
        waker.wake()
        waker.sleep(0)
        self.assertFalse(poll.poll(0), "a pause does not see that it is woken")
        waker.close()

    def test_an_array_that_dies_while_the_waker_is_closed(self) -> None:
        """Wakes as long as it is open, then does nothing; in neither case does Python code run, nor where
        another thread that sends is the last to let go."""
        before = descriptors()
        with nothing_ignored():
            for _ in range(2):
                waker, held = Waker(), [np.zeros(1, np.uint8), np.zeros(1, np.uint8)]
                loans = [Loan(array, waker) for array in held]
                poll = select.poll()
                poll.register(waker.fileno(), select.POLLIN)
                self.assertEqual(called(held.pop), [])
                self.assertEqual([bool(loan.over) for loan in loans], [False, True])
                self.assertTrue(poll.poll(0))
                waker.awake(True)
                self.assertFalse(poll.poll(0))
                sending = [waker.send]
                waker.close()
                self.assertEqual(sending[0](b"w"), 1)
                self.assertEqual(called(held.pop), [])
                self.assertTrue(loans[0].over)
                waker.wake()
                self.assertEqual(called(sending.clear), [])
                self.assertEqual(descriptors(), before)


class Arguments(unittest.TestCase):
    def test_what_no_server_could_accept(self) -> None:
        cases: List[Dict[str, Any]] = [
            {"batch_size": 0}, {"batch_size": 65537}, {"batch_size": 1.5}, {"batch_size": True},
            {"epochs": 0},
            {"slots": 2}, {"slots": 65}, {"order": "sorted"}, {"transport": "ring"}, {"seed": -1},
            {"seed": 2**64},
            {"dataset": 7}, {"name": "x" * 65}, {"subset": (5, 5)}, {"subset": []}, {"subset": [-1, 2]},
            {"subset": [0.5]}, {"ids": [1]}, {"ids": [], "order": "list"}, {"ids": [-1], "order": "list"},
            {"ids": [[1], [2]], "order": "list"}, {"ids": [1], "order": "list", "subset": (0, 5)},
            {"pool": 64}, {"order": "seeded", "pool": 7}, {"order": "seeded", "pool": 2**24 + 1},
            {"order": "seeded", "pool": True}, {"order": None, "seed": None, "pool": 64},
            {"epochs": 2**53 + 1}, {"dataset": "\ud800"}, {"name": "\udc80"}, {"subset": [2**63]},
            {"subset": [False] * 9}, {"subset": np.ones((2, 2), bool)}, {"subset": (True, False)}]
        for case in cases:
            with self.subTest(case), self.assertRaises((ValueError, TypeError)):
                request(**case)

    def test_pipelines_that_are_none(self) -> None:
        deep: List[Any] = []
        for _ in range(100000):
            deep = [deep]
        for pipeline in (3, ["a"], {"op": "resize"}, b"train", [{"op": float("nan")}], [{"op": {1, 2}}],
                         [{"op": "\ud800"}], "\ud800", [{"op": deep}]):
            with self.assertRaisesRegex((ValueError, TypeError), "^pipeline "):
                request(pipeline=pipeline)

    def test_a_loader_that_names_no_pipeline(self) -> None:
        """Of order "list" it is "eval", also where the order is a state's; the first loader says so."""
        def recipe(**options: Any) -> Any:
            loader = tureen.Loader("ipc:///none", **options)
            made = json.loads(loader._request.message(0)[1])["pipeline"]
            self.assertEqual(loader.dataset._options["pipeline"], made)
            return made
        with mock.patch.object(tureen.loader, "_recipe_told", []), \
                warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for options in ({}, {"seed": 1}, {"order": "list", "pipeline": "train"}):
                self.assertEqual(recipe(**options), "train")
            self.assertEqual(recipe(pipeline=[], order="list"), [])
            self.assertEqual(told, [])
            self.assertEqual([recipe(order="list"), recipe(order="list", ids=[1])], ["eval"] * 2)
        self.assertEqual([(warning.category, warning.filename) for warning in told],
                         [(tureen.TureenWarning, __file__)])
        self.assertIn("without pipeline= gets the recipe 'eval'", str(told[0].message))
        plain = tureen.Loader("ipc:///none")._request
        listed = tureen.state.State("d", "0", "0", 9, "list", 0, 0, "", 0, 0, 0, b"", None)
        self.assertEqual(json.loads(plain.message(0, state=listed)[1])["pipeline"], "eval")

    def test_transforms_that_are_not_there(self) -> None:
        for name, reason in (("Lambda", ": Python code.* map="), ("ToPILImage", ": .* leave it out"),
                             ("Normalise", ": did you mean Normalize[?]"), ("ToImage", ": it is PILToTensor"),
                             ("Anything", "$")):
            with self.assertRaisesRegex(AttributeError, f"^tureen.transforms has no {name}{reason}"):
                getattr(tureen.transforms, name)
        self.assertFalse(hasattr(tureen.transforms, "__path__"))
        for value in ("0.5", b"1", None):
            with self.assertRaisesRegex(TypeError, "^p must be a number, not "):
                tureen.transforms.RandomHorizontalFlip(value)  # type: ignore[arg-type]
        for pipeline in (tureen.transforms.Resize, int):
            with self.assertRaisesRegex(TypeError, f"^pipeline is a class: write {pipeline.__name__}\\("):
                tureen.Loader("ipc:///none", pipeline=pipeline)  # type: ignore[arg-type]
        with self.assertRaisesRegex(ValueError, r"a class: write Resize\("):
            tureen.transforms.Compose([tureen.transforms.Resize])  # type: ignore[list-item]

    def test_timeouts_and_endpoints(self) -> None:
        for timeout in (-1, float("nan"), float("-inf"), "soon", "5", b"5", None):
            with self.subTest(timeout), self.assertRaisesRegex((ValueError, TypeError), "^timeout "):
                tureen.Loader("ipc:///none", timeout=timeout)  # type: ignore[arg-type]
            with self.subTest(timeout), self.assertRaisesRegex((ValueError, TypeError), "^timeout "):
                tureen.status("ipc:///none", timeout=timeout)  # type: ignore[arg-type]
        with self.assertRaisesRegex(ValueError, "^endpoint must be like .*, not 'val'; .* dataset='val'"):
            tureen.Loader("val", batch_size=32)
        for endpoint in (7, "ipc:///\ud800"):
            with self.assertRaisesRegex((ValueError, TypeError), "^endpoint "):
                tureen.Loader(endpoint)  # type: ignore[arg-type]
        self.assertEqual(tureen.Loader("").endpoint, default_endpoint())

    def test_subset_forms_agree(self) -> None:
        mask = np.zeros(40, bool)
        mask[10:20] = True
        wanted = wire.pack_ids(wire.IDS_RANGES, [10, 20])
        for subset in (range(10, 20), (10, 20), list(range(19, 9, -1)), np.arange(10, 20, dtype=np.int32),
                       mask, mask.tolist(), mask[:20], [False] * 10 + [True] * 10,
                       [np.uint64(sample) for sample in range(10, 20)]):
            self.assertEqual(request(subset=subset).message(1)[2], wanted, subset)
        self.assertEqual(request(subset=range(0, 6, 2)).message(1)[2],
                         wire.pack_ids(wire.IDS_RANGES, [0, 1, 2, 3, 4, 5]))

    def test_words_are_the_chosen_bits(self) -> None:
        chance = random.Random(SEED)
        for samples in (1, 63, 64, 65, 1000):
            subset = sorted(chance.sample(range(samples), chance.randint(1, samples)))
            with mock.patch("tureen.request._RANGES_MAX", 0):
                frame = request(subset=subset).message(1)[2]
            words = struct.unpack(f"<{subset[-1] // 64 + 1}Q", frame[8:])
            chosen = [sample for sample in range(64 * len(words)) if words[sample // 64] >> sample % 64 & 1]
            self.assertEqual(chosen, subset)

    def test_default_endpoint(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / "file").touch()
            for environment, wanted in (
                    ({"TUREEN_ENDPOINT": "tcp://h:1", "XDG_RUNTIME_DIR": directory}, "tcp://h:1"),
                    ({"XDG_RUNTIME_DIR": directory}, f"ipc://{directory}/tureen/server.sock"),
                    ({"XDG_RUNTIME_DIR": directory + "/none"},
                     f"ipc:///tmp/tureen-{os.getuid()}/server.sock"),
                    ({"XDG_RUNTIME_DIR": directory + "/file"},
                     f"ipc:///tmp/tureen-{os.getuid()}/server.sock"),
                    ({"XDG_RUNTIME_DIR": "relative"}, f"ipc:///tmp/tureen-{os.getuid()}/server.sock"),
                    ({}, f"ipc:///tmp/tureen-{os.getuid()}/server.sock")):
                with mock.patch.dict(os.environ, environment, clear=True):
                    self.assertEqual(default_endpoint(), wanted)
            other = os.geteuid() + 1
            with mock.patch.dict(os.environ, {"XDG_RUNTIME_DIR": directory}, clear=True), \
                    mock.patch("os.geteuid", lambda: other):
                self.assertEqual(default_endpoint(), f"ipc:///tmp/tureen-{other}/server.sock")

    @unittest.skipIf(os.geteuid(), "needs a root that becomes another user")
    def test_default_endpoint_of_the_effective_user(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            os.chmod(directory, 0o755)
            for mode in (0o700, 0o500):
                runtime = f"{directory}/{mode:o}"
                os.mkdir(runtime)
                os.chown(runtime, 65534, 65534)
                os.chmod(runtime, mode)
                with mock.patch.dict(os.environ, {"XDG_RUNTIME_DIR": runtime}, clear=True):
                    os.seteuid(65534)
                    try:
                        found = default_endpoint()
                    finally:
                        os.seteuid(0)
                self.assertEqual(found, f"ipc://{runtime if mode == 0o700 else '/tmp'}/tureen"
                                 f"{'' if mode == 0o700 else '-65534'}/server.sock")


if __name__ == "__main__":
    unittest.main()

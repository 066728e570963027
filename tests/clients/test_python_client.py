"""The Python client against a fake server: what it delivers, what it gives back, what it leaves behind.

Run by ctest (python_client), or by hand from anywhere: python3 tests/clients/test_python_client.py [-v]
[NAME]
"""
from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import math
import multiprocessing
import os
import pickle
import random
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
import weakref
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, Callable, Dict, List
from unittest import mock

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parent / "golden"
PACKAGE = HERE.parent.parent / "clients" / "python"
sys.path[:0] = [str(HERE), str(PACKAGE)]

import numpy as np

import tureen
from fake_server import BATCH, EPOCH_END, HEARTBEAT, JOIN, LEAVE, FakeServer, Job, dump, pack_head, pattern
from tureen import ring, wire
from tureen.request import Request, default_endpoint, poll_ms
from tureen.slots import Slots

SEED = int(os.environ.get("TEST_SEED", "1"))


def until(condition: Callable[[], Any], what: str = "it", seconds: float = 50.0) -> None:
    """Waits for what another thread or process will bring about."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come about in {seconds} s")
        time.sleep(0.002)


def descriptors() -> Dict[str, str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found[name] = os.readlink(f"/proc/self/fd/{name}")
    return found


def golden(name: str) -> List[bytes]:
    lines = (GOLDEN / f"{name}.hex").read_text(encoding="utf-8").splitlines()
    return [bytes.fromhex(line) for line in lines if not line.startswith("#")]


def request(**changed: Any) -> Request:
    arguments: Dict[str, Any] = dict(
        dataset="train", batch_size=64, epochs=2, drop_last=False, pipeline="train", order="shared", slots=4,
        transport="auto", seed=7, name="trial-3", ids=None, subset=None)
    arguments.update(changed)
    return Request(**arguments)


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
                "heartbeat": wire.heartbeat(5)}.items():
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
        self.assertEqual(joined.fields[0], ("image", np.dtype("uint8"), (224, 224, 3), 0, 150528, "uint8"))
        self.assertEqual(joined.ring and joined.ring.bytes, 38551552)
        tiny = wire.parse_joined(golden("joined_inline")[1])
        self.assertIsNone(tiny.ring)
        self.assertEqual(wire.parse_batch_head(golden("batch")[1]), (41, 1, 9, 3, 3, 0))
        self.assertEqual(np.frombuffer(golden("batch")[2], np.int64).tolist(), [2999, 0, 1234567890123])
        self.assertEqual(wire.parse_batch_head(golden("batch_inline")[1]), (1, 0, 1, 1, 2, 1))
        from tureen.batch import views
        arrays = views(tiny, np.frombuffer(golden("batch_inline")[3], np.uint8), 2)
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
        arrays = views(joined, slot, 2)
        for field in joined.fields:
            array = arrays[field.name]
            self.assertEqual((array.shape, array.dtype), ((2, *field.shape), field.dtype))
            begin = field.offset
            self.assertEqual(array.tobytes(), slot[begin:begin + 2 * field.sample_bytes].tobytes())

    def test_damaged_frames_raise_protocol_error_only(self) -> None:
        """Every prefix, and a thousand damaged copies, of each foreign frame: read, refused, never another
        exception."""
        chance = random.Random(SEED)
        parsers: Dict[str, Callable[[bytes], Any]] = {
            "joined": wire.parse_joined, "joined_inline": wire.parse_joined,
            "joined_fields": wire.parse_joined, "batch": wire.parse_batch_head,
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


class SlotBook(unittest.TestCase):
    def test_progress_frees_exactly_what_came_back(self) -> None:
        """Against a dumb model: the protocol's reading of (released, kept) gives the slots that are really
        free."""
        for seed in range(SEED, SEED + 200):
            chance = random.Random(seed)
            count = chance.randint(3, 6)
            book = Slots(count, lambda: None)
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
        book = Slots(4, lambda: None)
        book.arrived(0, 2)
        for sequence, slot in ((1, 2), (2, 0), (0, 1), (1, 4)):
            with self.assertRaises(tureen.ProtocolError):
                book.arrived(sequence, slot)


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
        for pipeline in (3, None, ["a"], {"op": "resize"}, b"train", [{"op": float("nan")}], [{"op": {1, 2}}],
                         [{"op": "\ud800"}], "\ud800", [{"op": deep}]):
            with self.assertRaisesRegex((ValueError, TypeError), "^pipeline "):
                request(pipeline=pipeline)

    def test_timeouts_and_endpoints(self) -> None:
        for timeout in (-1, float("nan"), float("-inf"), "soon", None):
            with self.subTest(timeout), self.assertRaisesRegex((ValueError, TypeError), "^timeout "):
                tureen.Loader("ipc:///none", timeout=timeout)  # type: ignore[arg-type]
            with self.subTest(timeout), self.assertRaisesRegex((ValueError, TypeError), "^timeout "):
                tureen.status("ipc:///none", timeout=timeout)  # type: ignore[arg-type]
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
            somebody = os.geteuid() + 1
            with mock.patch.dict(os.environ, {"XDG_RUNTIME_DIR": directory}, clear=True), \
                    mock.patch("os.geteuid", lambda: somebody):
                self.assertEqual(default_endpoint(), f"ipc:///tmp/tureen-{somebody}/server.sock")

    @unittest.skipIf(os.geteuid(), "needs a root that becomes somebody else")
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


def use_a_loader(loader: tureen.Loader, answer: Any) -> None:
    """What a spawned process runs."""
    answer.send([len(batch) for batch in loader])


class Tidy(unittest.TestCase):
    """A test that leaves no thread, no descriptor, no fault at the server."""

    def setUp(self) -> None:
        faulthandler.dump_traceback_later(60, exit=True)        # a client that hangs is found where it hangs
        self.addCleanup(faulthandler.cancel_dump_traceback_later)
        gc.collect()
        self.threads = threading.active_count()
        self.descriptors = descriptors()
        self.servers: List[FakeServer] = []

    def tearDown(self) -> None:
        gc.collect()
        faults = [fault for server in self.servers for fault in server.faults]
        for server in self.servers:
            until(lambda server=server: not server.alive() or server._stop, "every job's end")
            server.__exit__()
        self.assertEqual(faults, [])
        until(lambda: threading.active_count() <= self.threads, f"the end of {threading.enumerate()}")
        until(lambda: len(descriptors()) <= len(self.descriptors), "the descriptors' closing")

    def server(self, samples: int = 100, **how: Any) -> FakeServer:
        server = FakeServer(samples, **how)
        self.servers.append(server)
        return server.__enter__()

    def assert_intact(self, batch: tureen.Batch) -> None:
        self.assertEqual(batch["label"].tolist(), batch.ids.tolist())
        wanted = np.array([pattern(int(sample), batch.epoch) for sample in batch.ids], np.uint8)
        self.assertTrue((batch["image"] == wanted[:, None, None, None]).all(), batch)


class Delivery:
    """What holds for the ring and inline alike."""
    ring = True

    def fake(self, samples: int = 100, **how: Any) -> FakeServer:
        return self.server(samples, offer_ring=self.ring, **how)  # type: ignore[attr-defined]

    def test_all_epochs_in_order(self: Any) -> None:
        server = self.fake()
        with tureen.Loader(server.endpoint, batch_size=8, epochs=3) as loader:
            seen = []
            for batch in loader:
                self.assert_intact(batch)
                self.assertEqual(len(batch), 4 if batch.index == 12 else 8)
                seen.append((batch.epoch, batch.index))
            del batch
            self.assertEqual(seen, [(epoch, index) for epoch in range(3) for index in range(13)])
            self.assertEqual(len(loader), 39)
            self.assertEqual(loader.samples, 100)
            self.assertEqual(loader.fields["image"].shape, (4, 5, 3))
            self.assertEqual(loader.fields["label"].dtype, np.int64)
            self.assertEqual(loader.classes, ("cat", "dog"))
        until(lambda: server.job().ended)
        self.assertEqual(server.job().consumed, 39)
        self.assertEqual(server.job().inline, not self.ring)
        self.assertEqual(len(server.jobs), 1)

    def test_a_batch_is_a_mapping_of_writable_arrays(self: Any) -> None:
        server = self.fake()
        batch = next(iter(tureen.Loader(server.endpoint, batch_size=8)))
        self.assertEqual(list(batch.keys()), ["image", "label"])
        self.assertIn("image", batch)
        self.assertNotIn("mask", batch)
        self.assertEqual(set(dict(batch)), {"image", "label"})
        self.assertIs(batch["image"], batch["image"])
        batch["image"][0] += 1
        before = batch["label"]
        batch["label"] *= 2
        self.assertIs(batch["label"], before)
        self.assertEqual(before.tolist(), (2 * batch.ids).tolist())
        self.assertTrue(batch["image"].flags.aligned and batch["image"].flags.c_contiguous)
        self.assertIn("8 samples", repr(batch))
        with self.assertRaises(KeyError):
            batch["mask"]

    def test_subset_list_and_drop_last(self: Any) -> None:
        server = self.fake()
        loader = tureen.Loader(server.endpoint, batch_size=8, epochs=1, subset=[*range(30, 40), 5],
                               drop_last=True)
        self.assertEqual((loader.samples, len(loader)), (11, 1))
        self.assertEqual([batch.ids.tolist() for batch in loader], [[5, *range(30, 37)]])
        listed = tureen.Loader(server.endpoint, batch_size=2, epochs=1, order="list", ids=[7, 7, 3])
        self.assertEqual([batch.ids.tolist() for batch in listed], [[7, 7], [3]])

    def test_list_of_all_batches(self: Any) -> None:
        """More batches than slots, all kept: each stays as it was, and one warning says that they are
        copied."""
        server = self.fake()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            batches = list(tureen.Loader(server.endpoint, batch_size=8, epochs=2))
        self.assertEqual(len(batches), 26)
        for batch in batches:
            self.assert_intact(batch)
        self.assertEqual([warning.category for warning in caught], [RuntimeWarning] if self.ring else [])
        for warning in caught:
            self.assertEqual(warning.filename, __file__)

    def test_break_leaves(self: Any) -> None:
        server = self.fake()
        for batch in tureen.Loader(server.endpoint, batch_size=8):
            break
        self.assert_intact(batch)
        del batch
        until(lambda: server.job().ended, "the job's end")

    def test_reference_counting_frees_everything(self: Any) -> None:
        """No cycle: the connection, with the batches that nobody took, goes without a garbage collection."""
        gc.disable()
        self.addCleanup(gc.enable)
        server = self.fake()

        def broken_off() -> Any:
            iterator = iter(tureen.Loader(server.endpoint, batch_size=8, slots=8))
            next(iterator)
            until(lambda: iterator._connection.arrivals.qsize() >= 6)
            return weakref.ref(iterator._connection)

        def ended_by_the_server() -> Any:
            iterator = iter(tureen.Loader(server.endpoint, batch_size=8))
            server.do(lambda: server.send(server.job(), [pack_head(BATCH, server.job().number)]))
            with self.assertRaises(tureen.ProtocolError):
                for _ in iterator:
                    pass
            return weakref.ref(iterator._connection)
        for use in (broken_off, ended_by_the_server):
            connection = use()
            until(lambda: connection() is None, f"the end of what was {use.__name__}")
            until(lambda: server.job().ended, "the job's end")

    def test_closing_lets_go_of_what_was_not_taken(self: Any) -> None:
        server = self.fake()
        loader = tureen.Loader(server.endpoint, batch_size=8, slots=8)
        iterator = iter(loader)
        next(iterator)
        until(lambda: iterator._connection.arrivals.qsize() >= 6)
        loader.close()
        until(lambda: iterator._connection.arrivals.qsize() <= 2)
        for _ in range(3):
            with self.assertRaises(tureen.LoaderClosed):
                next(iterator)

    def test_dropping_waits_for_nothing(self: Any) -> None:
        """Not even for a server that hangs."""
        server = self.fake()
        iterator = iter(tureen.Loader(server.endpoint, batch_size=8))
        next(iterator)
        server.do(lambda: setattr(server, "silent", True))
        with mock.patch.object(tureen.connection.Connection, "join_thread") as waits:
            del iterator
        waits.assert_not_called()
        server.die()

    def test_a_new_job_finds_the_old_one_gone(self: Any) -> None:
        """Its memory may be what the server has left for the new one."""
        server = self.fake()
        for _ in range(20):
            iterator = iter(tureen.Loader(server.endpoint, batch_size=8))
            self.assertEqual(len(server.alive()), 1)
            next(iterator)
            del iterator

    def test_last_slot_is_filled_at_once(self: Any) -> None:
        """All batches but the last slot's are held: that slot's comes as soon as it is asked for."""
        server = self.fake()
        with mock.patch("tureen.courier.CONSUMED_PATIENCE_MS", 100_000), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            iterator = iter(tureen.Loader(server.endpoint, batch_size=8, slots=3))
            begin = time.monotonic()
            for _ in range(3):
                held = [next(iterator) for _ in range(3)]
                del held
            self.assertLess(time.monotonic() - begin, 90)
            del iterator

    def test_exception_leaves(self: Any) -> None:
        server = self.fake()
        with self.assertRaises(ZeroDivisionError):
            for _ in tureen.Loader(server.endpoint, batch_size=8):
                1 // 0
        del _
        until(lambda: server.job().ended, "the job's end")

    def test_iter_again_leaves_the_first_job(self: Any) -> None:
        server = self.fake()
        loader = tureen.Loader(server.endpoint, batch_size=8, epochs=1)
        first = iter(loader)
        next(first)
        second = iter(loader)
        self.assertTrue(server.jobs[5].ended)
        with self.assertRaises(tureen.LoaderClosed):
            next(first)
        self.assertEqual(len(list(zip(range(100), (len(batch) for batch in second)))), 13)
        self.assertEqual(list(second), [])

    def test_length_joins_once(self: Any) -> None:
        server = self.fake()
        loader = tureen.Loader(server.endpoint, batch_size=8, epochs=2)
        self.assertEqual(server.jobs, {})
        self.assertEqual(len(loader), 26)
        self.assertEqual(sum(1 for _ in loader), 26)
        self.assertEqual(len(server.jobs), 1)
        endless = tureen.Loader(server.endpoint, batch_size=8)
        with self.assertRaises(TypeError):
            len(endless)
        self.assertTrue(endless)
        self.assertEqual(len(server.jobs), 1)

    def test_joined_and_dropped_without_iterating(self: Any) -> None:
        server = self.fake()
        loader = tureen.Loader(server.endpoint, batch_size=8)
        self.assertEqual(loader.samples, 100)
        del loader
        until(lambda: server.job().ended, "the job's end")

    def test_dropped_in_a_cycle(self: Any) -> None:
        server = self.fake()
        cycle: List[Any] = [iter(tureen.Loader(server.endpoint, batch_size=8))]
        cycle += [cycle, next(cycle[0])]
        del cycle
        gc.collect()
        until(lambda: server.job().ended, "the job's end")

    def test_close_ends_a_wait_in_another_thread(self: Any) -> None:
        server = self.fake()
        server.paused = True
        loader = tureen.Loader(server.endpoint, batch_size=8)
        iterator = iter(loader)
        errors: List[BaseException] = []

        def wait() -> None:
            try:
                next(iterator)
            except tureen.LoaderClosed as error:
                errors.append(error)
        waiter = threading.Thread(target=wait)
        waiter.start()
        time.sleep(0.05)
        loader.close()
        waiter.join(50)
        self.assertEqual(len(errors), 1)
        with self.assertRaises(tureen.LoaderClosed):
            iter(loader)

    def test_server_stops(self: Any) -> None:
        """What was delivered is handed out and stays readable; then it is said that the server stopped, each
        time."""
        server = self.fake()
        iterator = iter(tureen.Loader(server.endpoint, batch_size=8, rejoin=0))
        held = next(iterator)
        until(lambda: server.job().sent >= 3)
        delivered = iterator._connection.job.slots._arrived
        server.stop()
        got = 1
        #  In good order the reason comes for sure, only not at once.
        farewell = mock.patch("tureen.courier.FAREWELL_S", 30.0)
        with farewell, self.assertRaisesRegex(tureen.ServerStopped, "stopped"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for batch in iterator:
                self.assert_intact(batch)
                got += 1
        self.assertGreaterEqual(got, delivered)
        with self.assertRaises(tureen.ServerStopped):
            next(iterator)
        self.assert_intact(held)

    def test_server_dies(self: Any) -> None:
        server = self.fake(heartbeat_ms=50)
        iterator = iter(tureen.Loader(server.endpoint, batch_size=8, rejoin=0))
        held = next(iterator)
        server.die()
        with self.assertRaisesRegex(tureen.ServerGone, "gone"):
            for _ in iterator:
                pass
        self.assert_intact(held)

    def test_server_dies_when_all_was_delivered(self: Any) -> None:
        server = self.fake(16, heartbeat_ms=50)
        iterator = iter(tureen.Loader(server.endpoint, batch_size=8, epochs=1))
        until(lambda: iterator._connection.concluded, "the last epoch's end")
        server.die()
        until(lambda: not iterator._connection._thread.is_alive(), "the client notices")
        self.assertEqual([len(batch) for batch in iterator], [8, 8])

    def test_strange_messages_are_ignored(self: Any) -> None:
        server = self.fake()
        server.paused = True
        iterator = iter(tureen.Loader(server.endpoint, batch_size=8, epochs=1))
        job = server.job()

        def order() -> None:
            for frames in ([b""], [b"garbage"], [b"TURN"], [b"\xff" * 24],
                           [pack_head(200, job.number), b"new"],
                           [pack_head(BATCH, job.number + 1)], [pack_head(EPOCH_END, 0), b"x"],
                           [pack_head(BATCH, 2**64 - 1), b"", b""], [pack_head(HEARTBEAT, job.number)],
                           [pack_head(129, job.number), b"not even JSON"]):
                server.send(job, frames)
            server.paused = False
        server.do(order)
        self.assertEqual(sum(len(batch) for batch in iterator), 100)

    def test_wrong_batches_are_refused(self: Any) -> None:
        def structure(sequence: int, slot: int, count: int, flags: int, frames: int = 0) -> bytes:
            return struct.pack("<QQQIIII", sequence, 0, 0, slot, count, flags, 0)
        flags = 0 if self.ring else 1
        bodies: List[Callable[[Job], List[bytes]]] = [
            lambda job: [],
            lambda job: [b"short", b"\0" * 64],
            lambda job: [structure(0, 0, 8, flags), b"\0" * 63] + [b"\0" * job.slot_bytes] * flags,
            lambda job: [structure(1, 0, 8, flags), b"\0" * 64] + [b"\0" * job.slot_bytes] * flags,
            lambda job: [structure(0, 4, 8, flags), b"\0" * 64] + [b"\0" * job.slot_bytes] * flags,
            lambda job: [structure(0, 0, 9, flags), b"\0" * 72] + [b"\0" * job.slot_bytes] * flags,
            lambda job: [structure(0, 0, 0, flags), b""] + [b"\0" * job.slot_bytes] * flags,
            lambda job: [structure(0, 0, 8, 1 - flags), b"\0" * 64] + [b"\0" * job.slot_bytes] * flags,
            lambda job: [structure(0, 0, 8, 1), b"\0" * 64, b"\0" * (job.slot_bytes - 1)]]
        for number, body in enumerate(bodies):
            with self.subTest(number):
                server = self.fake()
                server.paused = True
                iterator = iter(tureen.Loader(server.endpoint, batch_size=8))
                job = server.job()
                server.do(lambda: server.send(job, [pack_head(BATCH, job.number), *body(job)]))
                with self.assertRaises(tureen.ProtocolError):
                    next(iterator)
                with self.assertRaises(tureen.ProtocolError):
                    next(iterator)
                del iterator
                until(lambda: job.ended, "the job's end")

    def test_job_ended_by_the_server(self: Any) -> None:
        server = self.fake()
        server.paused = True
        iterator = iter(tureen.Loader(server.endpoint, batch_size=8))
        server.do(lambda: server.end(server.job(), "unreadable", "no sample can be read"))
        with self.assertRaisesRegex(tureen.JobEnded, "no sample can be read") as caught:
            next(iterator)
        self.assertEqual(caught.exception.reason, "unreadable")

    def test_error_in_the_middle(self: Any) -> None:
        server = self.fake()
        server.paused = True
        iterator = iter(tureen.Loader(server.endpoint, batch_size=8))
        job = server.job()
        server.do(lambda: server.send(job, [pack_head(134, 0, 0),
                                            dump({"error": "bad_request", "message": "no"})]))
        with self.assertRaises(tureen.RequestRefused):
            next(iterator)

    def test_forked_child_is_refused(self: Any) -> None:
        server = self.fake()
        loader = tureen.Loader(server.endpoint, batch_size=8, epochs=1)
        iterator = iter(loader)
        next(iterator)
        child = os.fork()
        if child == 0:
            refused = 0
            for use in (lambda: next(iterator), lambda: iter(loader)):
                try:
                    use()
                except tureen.ForkedProcess:
                    refused += 1
            loader.close()
            del loader, iterator, use
            gc.collect()
            os._exit(10 + refused)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 12)
        self.assertEqual(sum(len(batch) for batch in iterator), 92)

    def test_unused_loader_in_another_process(self: Any) -> None:
        """Spawned or forked: what was not used yet is mere configuration."""
        resource_tracker.ensure_running()               # once started it stays, with a descriptor
        self.descriptors = descriptors()
        server = self.fake()
        loader = tureen.Loader(server.endpoint, batch_size=8, epochs=1)
        for method in ("spawn", "fork"):
            with self.subTest(method):
                context: Any = multiprocessing.get_context(method)
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=use_a_loader, args=(loader, theirs))
                process.start()
                theirs.close()
                self.assertTrue(ours.poll(20))
                self.assertEqual(ours.recv(), [8] * 12 + [4])
                process.join()
                ours.close()
                self.assertEqual(process.exitcode, 0)
        self.assertEqual(loader.samples, 100)
        with self.assertRaisesRegex(TypeError, "make a Loader in the process that uses it"):
            pickle.dumps(loader)

    def test_forked_child_does_not_hide_a_death(self: Any) -> None:
        """A process is killed whose forked child lives on: the server notices at once."""
        server = self.fake(heartbeat_ms=100)
        process = self.script(f"iterator = iter(tureen.Loader({server.endpoint!r}, batch_size=8)); "
                              "next(iterator)\nchild = os.fork()\n"
                              "if child == 0: os.close(1); os.close(2); time.sleep(200); os._exit(0)\n"
                              "print(child, flush=True); time.sleep(200)")
        assert process.stdout is not None and process.stderr is not None
        child = int(process.stdout.readline())
        process.kill()
        process.wait()
        try:
            until(lambda: server.job().ended, "the notice of death")
        finally:
            os.kill(child, signal.SIGKILL)
        process.stdout.close()
        process.stderr.close()

    def test_job_survives_a_fork(self: Any) -> None:
        """What the child closes is its own."""
        server = self.fake()
        iterator = iter(tureen.Loader(server.endpoint, batch_size=8, epochs=1))
        batches = [len(next(iterator))]
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        self.assertEqual(sum(batches + [len(batch) for batch in iterator]), 100)

    def script(self: Any, text: str) -> subprocess.Popen[bytes]:
        start = f"import sys; sys.path.insert(0, {str(PACKAGE)!r}); import tureen, os, time, threading\n"
        return subprocess.Popen([sys.executable, "-c", start + text], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def test_interpreter_exit(self: Any) -> None:
        """With an iterator and a view held by a global: the process ends at once and without a word."""
        server = self.fake()
        process = self.script(f"loader = tureen.Loader({server.endpoint!r}, batch_size=8)\n"
                              "iterator = iter(loader); kept = next(iterator); gone = next(iterator); del "
                              "gone\nprint(len(kept))")
        out, err = process.communicate(timeout=50)
        self.assertEqual((process.returncode, out, err), (0, b"8\n", b""))
        until(lambda: server.job().ended, "the job's end")
        self.assertIn(LEAVE, [frames[0][5] for frames in server.messages])

    def test_interrupt(self: Any) -> None:
        """Ctrl-C while next() waits."""
        server = self.fake()
        server.paused = True
        process = self.script(f"for batch in tureen.Loader({server.endpoint!r}, batch_size=8): pass")
        until(lambda: server.jobs and server.job().begun, "the join")
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=50)
        self.assertEqual(process.returncode, -signal.SIGINT, err)
        self.assertTrue(err.rstrip().endswith(b"KeyboardInterrupt"), err)
        until(lambda: server.job().ended, "the job's end")


class Ring(Delivery, Tidy):
    ring = True

    def test_views_live_while_any_is_held(self) -> None:
        """A slice, a reshape, a memoryview, a frombuffer of a batch that is gone itself: each keeps its
        slot."""
        server = self.server()
        derivations: List[Callable[[tureen.Batch], Any]] = [
            lambda batch: batch["image"][2:5, 1:],
            lambda batch: batch["image"].reshape(-1)[::7],
            lambda batch: batch["image"][3].transpose(2, 0, 1)[1],
            lambda batch: memoryview(batch["image"]),
            lambda batch: np.frombuffer(memoryview(batch["image"]), np.uint8)[5:],
            lambda batch: np.asarray(batch["image"][:, 0].view(np.recarray)),
            lambda batch: batch["label"].view(np.uint8),
            lambda batch: batch["label"][:1],
            lambda batch: iter(batch["image"]),
            lambda batch: batch]
        for number, derive in enumerate(derivations):
            with self.subTest(number):
                iterator = iter(tureen.Loader(server.endpoint, batch_size=8, slots=3))
                batch = next(iterator)
                derived = derive(batch)
                before = None if number >= 8 else np.array(derived)
                del batch
                for _ in range(30):
                    next(iterator)
                until(lambda: server.job().consumed == 31 and server.job().released == 31)
                self.assertEqual(bin(server.job().kept).count("1"), 1)
                if before is not None:
                    self.assertTrue((np.array(derived) == before).all())
                del derived
                next(iterator)
                until(lambda: server.job().kept == 0, "the slot's return")

    def test_batches_are_views_of_the_ring(self) -> None:
        """What is written into a batch is seen in the server's mapping: nothing was copied."""
        server = self.server()
        batch = next(iter(tureen.Loader(server.endpoint, batch_size=8)))
        batch["image"][:] = 253
        memory = server.job().memory
        assert memory is not None
        self.assertEqual(bytes(memory[:480]), b"\xfd" * 480)

    def test_kept_out_of_order(self) -> None:
        server = self.server()
        iterator = iter(tureen.Loader(server.endpoint, batch_size=8, slots=6))
        batches = [next(iterator) for _ in range(4)]
        slots = {sequence: slot for slot, sequence in server.job().holds.items()}
        del batches[2]
        until(lambda: server.job().released == 3)
        self.assertEqual(server.job().kept, 1 << slots[0] | 1 << slots[1])
        del batches[0]
        until(lambda: server.job().kept == 1 << slots[1])
        for _ in range(30):
            self.assert_intact(next(iterator))
        for batch in batches:
            self.assert_intact(batch)
        del batches, batch
        until(lambda: server.job().kept == 0)

    def test_random_keeping(self) -> None:
        """Batches kept and dropped in any order, slots of any number: whatever is held is what was
        delivered."""
        server = self.server(1000)
        for seed in range(SEED, SEED + 6):
            chance = random.Random(seed)
            held: List[tureen.Batch] = []
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                loader = tureen.Loader(server.endpoint, batch_size=5, epochs=1, slots=chance.randint(3, 8))
                for batch in loader:
                    self.assert_intact(batch)
                    if chance.randrange(3) == 0:
                        held.append(batch)
                    while held and chance.randrange(3) == 0:
                        self.assert_intact(held.pop(chance.randrange(len(held))))
                    if batch.index % 50 == 0:
                        for kept in held:
                            self.assert_intact(kept)
            for kept in held:
                self.assert_intact(kept)
            del batch, kept, held

    def test_no_warning_in_a_plain_loop(self) -> None:
        server = self.server()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for slots in (3, 4, 5):
                for batch in tureen.Loader(server.endpoint, batch_size=8, epochs=1, slots=slots):
                    self.assertIsNotNone(batch["image"].base)

    def test_leave_waits_for_the_last_view(self) -> None:
        server = self.server()
        for close in (False, True):
            loader = tureen.Loader(server.endpoint, batch_size=8)
            for batch in loader:
                break
            image = batch["image"][1:]
            wanted = image.copy()
            del batch
            if close:
                loader.close()
            else:
                del loader
            time.sleep(0.1)
            self.assertFalse(server.job().ended)
            self.assertTrue((image == wanted).all())
            del image
            until(lambda: server.job().ended, "the job's end")

    def test_server_stops_while_views_outlive_the_loader(self) -> None:
        server = self.server()
        for batch in tureen.Loader(server.endpoint, batch_size=8):
            break
        server.stop()
        until(lambda: threading.active_count() <= self.threads)
        self.assert_intact(batch)

    def test_ring_closes_before_the_reason_comes(self) -> None:
        """The ring's socket and the message take different ways: what is said a moment later still counts."""
        server = self.server()
        server.paused = True
        iterator = iter(tureen.Loader(server.endpoint, batch_size=8, rejoin=0))
        job = server.job()

        def order() -> None:
            assert job.attached is not None
            job.attached.close()
            job.attached = None
            time.sleep(0.1)
            server.end(job, "stopping", "the server ends")
        until(lambda: job.attached)
        server.do(order)
        with mock.patch("tureen.courier.FAREWELL_S", 30.0), self.assertRaises(tureen.ServerStopped):
            next(iterator)

    def test_interrupted_batch_comes_again(self) -> None:
        """Ctrl-C within next(): nothing is lost, and no slot."""
        server = self.server()
        iterator = iter(tureen.Loader(server.endpoint, batch_size=8))

        def interrupt(*_: Any) -> None:
            raise KeyboardInterrupt
        places = ["tureen.iterator.Batch", "tureen.slots.Slots.lend", "tureen.course.Ledger.note",
                  "tureen.slots.Slots.is_lent"]
        for sequence in range(30):
            for place in places:
                with mock.patch(place, interrupt), self.assertRaises(KeyboardInterrupt):
                    next(iterator)
            batch = next(iterator)
            self.assertEqual((batch.epoch, batch.index), divmod(sequence, 13))
            self.assert_intact(batch)
            del batch
        until(lambda: server.job().released == 30 and server.job().kept == 0)

    def test_interrupts_while_it_waits(self) -> None:
        """Signals that raise, many of them, around the moment at which a batch comes."""
        class Interrupt(Exception):
            pass

        def interrupt(number: int, frame: Any) -> None:
            #  Where next() waits: further on an interrupt may take with it what is just being returned.
            if frame.f_code.co_name in ("take", "wait", "_take") and "tureen" in frame.f_code.co_filename:
                raise Interrupt
        server = self.server()
        iterator = iter(tureen.Loader(server.endpoint, batch_size=2, epochs=6))
        before = signal.signal(signal.SIGALRM, interrupt)
        end, seen, interrupts = time.monotonic() + 50, [], 0
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0005)
            while time.monotonic() < end:
                if interrupts > 2000:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                try:
                    batch = next(iterator)
                    seen.append((batch.epoch, batch.index))
                    del batch
                except Interrupt:
                    interrupts += 1
                except StopIteration:
                    break
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        self.assertEqual(seen, [divmod(place, 50) for place in range(300)], f"{interrupts} interrupts")

    def test_left_while_a_batch_is_made(self) -> None:
        """By another thread, right before the batch is there for it to forget, or right behind: the loop is
        told, and nothing of the batch is held."""
        for before in (True, False):
            server = self.server()
            loader = tureen.Loader(server.endpoint, batch_size=8)
            iterator = iter(loader)
            next(iterator)

            def close() -> None:
                other = threading.Thread(target=loader.close)
                other.start()
                other.join(50)

            class Left(tureen.iterator.BatchIterator):
                @property  # type: ignore[override]
                def _made(self) -> Any:
                    return self.__dict__.get("made")

                @_made.setter
                def _made(self, made: Any) -> None:
                    if made is not None and before:
                        close()
                    self.__dict__["made"] = made
                    if made is not None and not before:
                        close()
            iterator.__class__ = Left
            with self.assertRaises(tureen.LoaderClosed):
                next(iterator)
            self.assertIsNone(iterator._made)
            until(lambda: server.job().left, "LEAVE")

    def test_server_dies_while_views_outlive_the_loader(self) -> None:
        server = self.server()
        for batch in tureen.Loader(server.endpoint, batch_size=8):
            break
        server.die()
        until(lambda: threading.active_count() <= self.threads)
        self.assertEqual(len(batch), 8)

    def test_ring_that_cannot_be_had(self) -> None:
        """No door, a door that sends everyone away, a token of the wrong length: batches come inline."""
        def run(server: FakeServer) -> None:
            self.assertEqual(len(list(tureen.Loader(server.endpoint, batch_size=50, epochs=1))), 2)
            self.assertTrue(server.job().inline)
        for path in ("/nonexistent/door", "/" + "x" * 200, ""):
            server = self.server()
            server.told_ring_path = path
            run(server)
        server = self.server()
        server.door_shut = True
        run(server)
        take = ring.take
        with mock.patch("tureen.ring.take", lambda offer, **how: take(offer._replace(token="short"), **how)):
            run(self.server())

    def test_ring_smaller_than_said(self) -> None:
        """A descriptor without the promised bytes would be SIGBUS one day."""
        server = self.server()
        take = ring.take
        with mock.patch("tureen.ring.take", lambda offer,
                        **how: take(offer._replace(bytes=offer.bytes * 2), **how)):
            with self.assertRaisesRegex(tureen.ProtocolError, "bytes instead of"):
                iter(tureen.Loader(server.endpoint, batch_size=50, epochs=1))


class Inline(Delivery, Tidy):
    ring = False

    def test_hung_server(self) -> None:
        server = self.server(offer_ring=False, heartbeat_ms=40)
        server.paused = True
        iterator = iter(tureen.Loader(server.endpoint, batch_size=8, rejoin=0))
        until(lambda: server.job().begun)
        server.silent = True
        with self.assertRaisesRegex(tureen.ServerGone, "not been heard"):
            next(iterator)
        server.die()

    def test_heartbeats_while_the_loop_pauses(self) -> None:
        server = self.server(offer_ring=False, heartbeat_ms=40)
        iterator = iter(tureen.Loader(server.endpoint, batch_size=8))
        next(iterator)
        until(lambda: server.job().heartbeats >= 20, "twenty heartbeats")
        self.assert_intact(next(iterator))

    def test_inline_on_request(self) -> None:
        server = self.server()
        self.assertEqual(len(list(tureen.Loader(server.endpoint, batch_size=50, epochs=1,
                                                transport="inline"))), 2)
        self.assertTrue(server.job().inline)


class Meeting(Tidy):
    """Finding and asking the server."""

    def test_nobody_there(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            endpoint = f"ipc://{directory}/none.sock"
            with self.assertRaisesRegex(tureen.NoServer, "tureen serve --dataset train=PATH"):
                iter(tureen.Loader(endpoint, timeout=0.2))
            with self.assertRaisesRegex(tureen.NoServer, "tureen serve"):
                tureen.status(endpoint, timeout=0.2)

    def test_no_endpoint(self) -> None:
        for endpoint in ("nonsense", "ipc://" + "x" * 200, "tcp://"):
            with self.assertRaises(tureen.NoServer):
                iter(tureen.Loader(endpoint, timeout=0.2))
            with self.assertRaises(tureen.NoServer):
                tureen.status(endpoint, timeout=0.2)

    def test_waiting_as_long_as_it_takes(self) -> None:
        """Longer than one poll can last."""
        server = self.server()
        for timeout in (math.inf, 1e300):
            blocker = threading.Thread(target=server.do, args=(lambda: time.sleep(0.2),))
            blocker.start()
            with mock.patch("tureen.courier.poll_ms", lambda left_s: min(poll_ms(left_s), 20)):
                self.assertEqual(tureen.Loader(server.endpoint, batch_size=8, timeout=timeout).samples, 100)
            blocker.join()
        with self.assertRaises(tureen.NoServer):
            iter(tureen.Loader("ipc:///nonexistent/server.sock", timeout=0))

    def test_refused(self) -> None:
        server = self.server()
        server.refusal = ("unknown_dataset", "no data set 'trian'; this server has: train, val")
        with self.assertRaisesRegex(tureen.RequestRefused, "this server has: train, val") as caught:
            iter(tureen.Loader(server.endpoint, "trian"))
        self.assertEqual(caught.exception.code, "unknown_dataset")
        self.assertTrue(caught.exception.message.startswith("no data set"))

    def test_joined_that_makes_no_sense(self) -> None:
        changes: List[Dict[str, Any]] = [
            {"job": "x"}, {"slots": 65}, {"slot_bytes": "64"}, {"fields": []},
            {"fields": [{"name": "image"}]},
            {"fields": [{"name": "i", "dtype": "object", "shape": [], "offset": "0", "sample_bytes": "8"}]},
            {"fields": [{"name": "i", "dtype": ",int8", "shape": [], "offset": "0", "sample_bytes": "1"}]},
            {"fields": [{"name": "i", "dtype": "uint8", "shape": [2], "offset": "0", "sample_bytes": "3"}]},
            {"fields": [{"name": "i", "dtype": "uint8", "shape": [-1], "offset": "0", "sample_bytes": "1"}]},
            {"heartbeat_ms": 0}, {"ring": {"path": "/x", "token": "0" * 32, "bytes": "1"}}, {"ring": 5}]
        for change in changes:
            with self.subTest(change):
                server = self.server()
                server.joined_changes = change
                with self.assertRaises(tureen.ProtocolError):
                    iter(tureen.Loader(server.endpoint, batch_size=8))
                for job in server.alive():
                    server.do(lambda job=job: server.forget(job))

    def test_scattered_subset_goes_as_bits(self) -> None:
        """Too many ranges for a frame."""
        server = self.server(150000)
        loader = tureen.Loader(server.endpoint, batch_size=50000, epochs=1, subset=range(1, 150000, 2),
                               slots=3)
        self.assertEqual(loader.samples, 75000)
        ids = np.concatenate([batch.ids for batch in loader])
        self.assertTrue((ids == np.arange(1, 150000, 2)).all())
        with self.assertRaisesRegex(ValueError, "too scattered"):
            tureen.Loader(server.endpoint, batch_size=8, subset=range(1, 9_000_000, 2))

    def test_status(self) -> None:
        server = self.server()
        for timeout in (5.0, math.inf, 1e300):
            self.assertEqual(tureen.status(server.endpoint, timeout), {"jobs": []})

    def test_endpoint_from_the_environment(self) -> None:
        server = self.server()
        with mock.patch.dict(os.environ, {"TUREEN_ENDPOINT": server.endpoint}):
            loader = tureen.Loader(batch_size=8)
            self.assertEqual(loader.samples, 100)
            self.assertEqual(tureen.status(), {"jobs": [{"job": 5}]})

    def test_refused_while_interrupted(self) -> None:
        """A loader that waits for an answer leaves nothing when it is broken off."""
        server = self.server(silent=True)
        before = threading.active_count()
        with mock.patch("threading.Event.wait", side_effect=KeyboardInterrupt):
            with self.assertRaises(KeyboardInterrupt):
                iter(tureen.Loader(server.endpoint))
        until(lambda: threading.active_count() == before)


if __name__ == "__main__":
    unittest.main()

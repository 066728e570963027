"""The Python client against a fake server: what it delivers, what it gives back, what it leaves behind.

Run by ctest (python_client), or by hand from anywhere: python3 tests/clients/test_python_client.py [-v]
[NAME]
"""
from __future__ import annotations

import gc
import random
import signal
import struct
import threading
import time
import unittest
import warnings
import weakref
from typing import Any, Callable, List
from unittest import mock

from client_checks import SEED, Either, Tidy, called, descriptors, nothing_ignored, until

import numpy as np

import tureen
from fake_server import BATCH, EPOCH_END, HEARTBEAT, FakeServer, Job, dump, pack_head
from tureen import ring


class Delivery(Either):
    """What holds for the ring and inline alike."""

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

    def test_going_through_all_epochs_again(self: Any) -> None:
        """As in a loop over epochs, which makes three times three of them: said once."""
        server = self.fake()
        for options, told in (({"epochs": 3}, 1), ({"epochs": 1}, 0)):
            with self.subTest(options), tureen.Loader(server.endpoint, batch_size=8, **options) as loader, \
                    warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                for _ in range(3):
                    self.assertEqual(sum(1 for _ in loader), 13 * options["epochs"])
                self.assertEqual([warning.filename for warning in caught], [__file__] * told)
                for warning in caught:
                    self.assertRegex(str(warning.message), "through its epochs=3 already.*with epochs=1")
        with tureen.Loader(server.endpoint, batch_size=8, epochs=3) as loader, \
                warnings.catch_warnings():
            warnings.simplefilter("error")
            next(iter(loader))
            state = loader.state_dict()
            self.assertEqual(sum(1 for _ in loader), 39)
            loader.load_state_dict(state)
            self.assertEqual(sum(1 for _ in loader), 38)
            loader.set_epoch(2)
            self.assertEqual(sum(1 for _ in loader), 13)

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
        with self.assertRaisesRegex(KeyError, "'mask': the batch's fields are 'image', 'label'"):
            batch["mask"]

    def test_subset_list_and_drop_last(self: Any) -> None:
        server = self.fake()
        loader = tureen.Loader(server.endpoint, batch_size=8, epochs=1, subset=[*range(30, 40), 5],
                               drop_last=True)
        self.assertEqual((loader.samples, len(loader)), (11, 1))
        self.assertEqual([batch.ids.tolist() for batch in loader], [[5, *range(30, 37)]])
        listed = tureen.Loader(server.endpoint, batch_size=2, epochs=1, order="list", ids=[7, 7, 3])
        self.assertEqual([batch.ids.tolist() for batch in listed], [[7, 7], [3]])

    def test_a_mask_of_another_data_set(self: Any) -> None:
        """Its length says how many samples it was made for, also where the ids that it chooses would do."""
        server = self.fake(80)
        for length in (40, 79, 81, 120):
            loader = tureen.Loader(server.endpoint, subset=np.arange(length) < 9)
            with self.assertRaisesRegex(tureen.RequestRefused, f"is of {length} samples, .*'train' has 80"):
                iter(loader)
        with tureen.Loader(server.endpoint, batch_size=9, subset=np.arange(80) < 9) as loader:
            self.assertEqual(next(iter(loader)).ids.tolist(), list(range(9)))

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
        """No cycle: the connection, with the batches not taken, goes without a garbage collection."""
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
        with mock.patch("tureen.session.CONSUMED_PATIENCE_MS", 100_000), warnings.catch_warnings():
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
        with self.assertRaisesRegex(tureen.ServerStopped, "stopped"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for batch in iterator:
                self.assert_intact(batch)
                got += 1
        self.assertGreaterEqual(got, delivered)
        with self.assertRaises(tureen.ServerStopped):
            next(iterator)
        self.assert_intact(held)

    def test_server_dies(self: Any) -> None:
        server = self.fake()
        iterator = iter(tureen.Loader(server.endpoint, batch_size=8, rejoin=0))
        held = next(iterator)
        server.die()
        with self.assertRaisesRegex(tureen.ServerGone, "gone"):
            for _ in iterator:
                pass
        self.assert_intact(held)

    def test_server_dies_when_all_was_delivered(self: Any) -> None:
        server = self.fake(16)
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
        slots = {sequence: slot for slot, sequence in server.job().holds.copy().items()}
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

    def test_the_last_view_dies_without_python_code(self) -> None:
        """Python prints an exception of a weak reference's callback and goes on: a Ctrl-C that came there
        would be lost.  Also when a garbage collection finds the view."""
        server = self.server()
        loader = tureen.Loader(server.endpoint, batch_size=8)
        iterator = iter(loader)
        for number in range(6):
            held: List[Any] = [next(iterator)["image"][1:]]
            if number % 2:
                gc.collect()
                held.append(held)
                held = []
                self.assertEqual(called(gc.collect), [])
            else:
                self.assertEqual(called(held.clear), [])
            until(lambda number=number: server.job().released > number, "the slot's return")
        loader.close()

    def test_views_die_when_no_thread_can_be_woken(self) -> None:
        """The connection is over before them: nothing is printed, nothing left open."""
        for close in (False, True):
            server = self.server()
            before = descriptors()
            with nothing_ignored():
                loader = tureen.Loader(server.endpoint, batch_size=8)
                held = [batch["image"][1:] for _, batch in zip(range(2), loader)]
                server.die()
                until(lambda: threading.active_count() <= self.threads)
                if close:
                    loader.close()
                else:
                    del loader
                self.assertEqual(called(held.pop), [])
                held.clear()
            loader = None
            until(lambda before=before: len(descriptors()) <= len(before), "the descriptors' closing")

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
        with self.assertRaises(tureen.ServerStopped):
            next(iterator)

    def test_interrupted_batch_comes_again(self) -> None:
        """Ctrl-C within next(): nothing is lost, and no slot."""
        server = self.server()
        loader = tureen.Loader(server.endpoint, batch_size=8)
        iterator = iter(loader)

        def interrupt(*_: Any) -> None:
            raise KeyboardInterrupt
        places = ["tureen.iterator.Batch", "tureen.slots.Slots.lend", "tureen.position.JobPosition.note",
                  "tureen.slots.Slots.is_lent", "tureen.iterator.Batch.__len__"]
        for sequence in range(30):
            for place in places:
                with mock.patch(place, interrupt), self.assertRaises(KeyboardInterrupt):
                    next(iterator)
            batch = next(iterator)
            self.assertEqual((batch.epoch, batch.index), divmod(sequence, 13))
            self.assert_intact(batch)
            del batch
        until(lambda: server.job().released == 30 and server.job().kept == 0)
        stats = loader.stats()
        self.assertEqual((stats["batches"], stats["samples"]), (30, 30 * 8 - 2 * 4))

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
        """No ring server, one that refuses every client, a token of the wrong length: batches come inline."""
        def run(server: FakeServer) -> None:
            self.assertEqual(len(list(tureen.Loader(server.endpoint, batch_size=50, epochs=1))), 2)
            self.assertTrue(server.job().inline)
        for path in ("/nonexistent/socket", "/" + "x" * 200, ""):
            server = self.server()
            server.told_ring_path = path
            run(server)
        server = self.server()
        server.refuses_rings = True
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


if __name__ == "__main__":
    unittest.main()

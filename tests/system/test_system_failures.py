"""Clients that crash, hang, hold on, or do not keep to the order of things: other clients do not notice."""
import signal
import socket
import time
import unittest

import harness
import plain_client
from harness import SystemTest, wait_until
from plain_client import Batch, Ended, EpochEnd, Job, Refused

INSTANCE = "00112233445566778899aabbccddeeff"
LINGERING_MAX = 64
LEASE_S = 90


class Crashes(SystemTest):
    def wait_gone(self, server, name):
        """Until status does not know the job: long before any lease ends.  How soon: bench/demo.sh says."""
        killed_at = time.monotonic()
        wait_until("job '%s' is gone" % name, lambda: server.job_status(name) is None, LEASE_S - 10)
        print("gone after %.3f s" % (time.monotonic() - killed_at), flush=True)

    def test_killed_reader_is_gone_with_its_memory(self):
        with self.serve(cache="8M") as server:
            other = server.read(batch=64, epochs=3, rate=900, name="other")
            victim = server.read("--order", "private", batch=64, epochs=9, rate=60, slots=8, name="victim")
            wait_until("its window is full", lambda: victim.delivered() >= 128
                       and server.job_status("victim")["window"]["filled_samples"] >= 448)
            ring = server.job_status("victim")["ring_bytes"]
            memory = harness.memfd_bytes(server.pid)
            self.assertGreater(ring, 8 * 64 * harness.VERSION_BYTES)
            self.assertGreater(memory, ring * 9 // 10)
            victim.signal(signal.SIGKILL)
            self.wait_gone(server, "victim")
            status = server.status()        # the other may have come to its end by now
            self.assertEqual(status["ring_bytes"], sum(job["ring_bytes"] for job in status["jobs"]))
            #  A worker may be in the middle of a row; then it is a moment later.
            wait_until("its memory is free",
                       lambda: harness.memfd_bytes(server.pid) < memory - ring * 8 // 10)
            victim.wait()
            finished, unfinished = harness.parse_ids(victim.ids)
            for ids in finished.values():
                self.assertEqual(sorted(ids), list(range(self.SAMPLES)))
            self.assertEqual(len(set(unfinished or [])), len(unfinished or []))
            self.assert_epochs(other.finish(), 3)
            wait_until("all memory is free", lambda: harness.memfd_bytes(server.pid) == 0)
            self.assertEqual(server.status()["ring_bytes"], 0)

    def test_memory_goes_though_someone_still_maps_it(self):
        #  The ring's socket closes, but a mapping lives on (a forked child): the ring is punched empty.
        with self.serve() as server:
            job = Job(server.endpoint)
            job.join(dataset="train", batch_size=64, slots=4, name="mapped")
            job.take_ring()
            first = job.event()
            self.assertIsInstance(first, Batch)
            wait_until("the ring is full", lambda: harness.memfd_bytes(server.pid) > 3 * 64
                       * harness.VERSION_BYTES)
            self.assertTrue(any(first.fields["image"][:harness.VERSION_BYTES]))
            memory = job.memory
            job.ring_socket.close()
            self.wait_gone(server, "mapped")
            wait_until("the ring is empty", lambda: not any(memory[:4096]) and not any(memory[-4096:]))
            #  The look above has brought two empty pages back, until the server has closed it.
            wait_until("the ring is closed", lambda: harness.memfd_bytes(server.pid) == 0)
            job.close()

    def fence(self, server, job, **keys):
        """Another client that goes on with the job's run, which therefore ends."""
        successor = Job(server.endpoint)
        self.addCleanup(successor.close)
        successor.join(dataset="train", run=job.joined["run"], instance=INSTANCE, **keys)
        successor.take_ring()
        while not isinstance(event := job.event(), Ended):
            self.assertIsNotNone(event)
        self.assertEqual(event.reason, "fenced")
        return successor

    def test_memory_of_a_job_that_the_server_ended(self):
        """What is in the ring stays, and is counted, until the client closes the socket, or too many have
        such rings."""
        keys = {"batch_size": 1, "slots": 3, "order": "private"}
        with self.serve() as server:
            first = Job(server.endpoint)
            self.addCleanup(first.close)
            first.join(dataset="train", instance=INSTANCE, **keys)
            first.take_ring()
            batch = first.event()
            image = bytes(batch.fields["image"])
            self.assertTrue(any(image))
            second = self.fence(server, first, **keys)
            self.assertEqual(first.ring_socket.recv(1), b"")        # the server has closed its side
            size = int(first.joined["ring"]["bytes"])
            wait_until("its memory is counted", lambda: server.status()["outgoing_bytes"] == size)
            self.assertEqual(bytes(batch.fields["image"]), image)
            memory = first.memory
            first.drop_ring()
            wait_until("the ring is empty", lambda: not any(memory[:size]))
            wait_until("it is counted no more", lambda: server.status()["outgoing_bytes"] == 0)
            #  Jobs with clients that keep everything.
            jobs = [second]
            jobs[0].event()
            for _ in range(LINGERING_MAX + 1):
                jobs.append(self.fence(server, jobs[-1], **keys))
                jobs[-1].event()
            wait_until("the oldest ring is empty", lambda: not any(jobs[0].memory[:size]))
            self.assertTrue(any(jobs[1].memory[:size]))
            wait_until("the others are counted", lambda: server.status()["outgoing_bytes"] == LINGERING_MAX
                       * size)
            for job in jobs:
                job.close()
            wait_until("no memory is left", lambda: harness.memfd_bytes(server.pid) == 0)
            self.assertEqual(server.status()["outgoing_bytes"], 0)

    def test_killed_inline_clients_are_gone(self):
        for tcp in (False, True):
            with self.subTest(tcp=tcp), self.serve(cache="8M", tcp=tcp) as server:
                other = server.read(batch=64, epochs=2, name="other")
                victims = [server.read("--inline", batch=64, epochs=9, rate=300, name="victim"),
                           server.loader(dataset="train", batch_size=64, epochs=9, transport="inline",
                                         pause=0.2, name="victim 2")]
                wait_until("they run", lambda: all((server.job_status(name) or {"delivered_samples": 0})
                                                   ["delivered_samples"] > 64
                                                   for name in ("victim", "victim 2")))
                for victim, name in zip(victims, ("victim", "victim 2")):
                    victim.signal(signal.SIGKILL)
                    self.wait_gone(server, name)
                self.assert_epochs(other.finish(), 2)
                self.assertEqual(server.status()["ring_bytes"], 0)

    def test_killed_loader_is_gone(self):
        with self.serve() as server:
            victim = server.loader(dataset="train", batch_size=64, epochs=9, pause=0.2, name="victim")
            wait_until("it runs", lambda: (server.job_status("victim") or {"delivered_samples": 0})
                       ["delivered_samples"] > 64)
            victim.signal(signal.SIGKILL)
            self.wait_gone(server, "victim")

    def test_many_killed_in_mid_epoch(self):
        #  Joins and deaths at any moment, while two others share their draws.
        generator = harness.seeded("killed")
        with self.serve(cache="4M") as server:
            others = [server.read(batch=64, epochs=6, rate=700),
                      server.loader(dataset="train", batch_size=32, epochs=4,
                                                                             labels=self.labels)]
            for _ in range(12):
                victim = server.read(*(["--inline"] if generator.random() < 0.4 else []),
                                     batch=generator.choice([1, 16, 64]), epochs=9, rate=500)
                time.sleep(generator.uniform(0.01, 0.5))
                victim.signal(signal.SIGKILL)
            self.assert_epochs(others[0].finish(), 6)
            self.assert_epochs(others[1].finish(), 4)
            wait_until("no job is left", lambda: not server.status()["jobs"])
            self.assertEqual(server.status()["ring_bytes"], 0)
            wait_until("no memory is left", lambda: harness.memfd_bytes(server.pid) == 0)


class Stops(SystemTest):
    def is_full(self, window):
        return window["filled_samples"] == window["drawn_samples"]

    def test_stopped_reader_slows_no_other(self):
        for arguments in ([], ["--inline"]):
            with self.subTest(arguments), self.serve(cache="8M") as server:
                alone = server.read(batch=64, epochs=4)
                self.assert_epochs(alone.finish(), 4)
                #  Far more than it can have before the signal reaches it on a slow machine.
                stopped = server.read(*arguments, batch=64, epochs=4, rate=800, name="stopped")
                wait_until("it runs", lambda: stopped.delivered() > 100)
                stopped.signal(signal.SIGSTOP)
                beside = server.read(batch=64, epochs=4)
                self.assert_epochs(beside.finish(), 4)
                print("alone %.2f s, beside a stopped one %.2f s" % (alone.seconds, beside.seconds),
                      flush=True)
                wait_until("its window is full", lambda: self.is_full(server.job_status("stopped")["window"]))
                job = server.job_status("stopped")
                self.assertEqual(job["waiting_on"], "client")
                self.assertLess(job["delivered_samples"], 4 * self.SAMPLES)
                #  Inline: longer than ten heartbeats; when it goes on, it must not take its own pause for the
                #  server's death.
                time.sleep(11 if arguments else 1)
                self.assertEqual(server.job_status("stopped")["delivered_samples"], job["delivered_samples"])
                stopped.signal(signal.SIGCONT)
                self.assert_epochs(stopped.finish(), 4)

    def test_stopped_in_the_same_group(self):
        #  Two equal jobs share draws; one stops in mid-epoch, the other goes on alone, far beyond both
        #  windows.
        with self.serve(cache="8M") as server:
            jobs = [server.read(batch=64, epochs=6, rate=600, name=name) for name in ("stopped", "other")]
            wait_until("both run", lambda: all(job.delivered() > 100 for job in jobs))
            jobs[0].signal(signal.SIGSTOP)
            had = jobs[1].delivered()
            wait_until("the other goes on", lambda: jobs[1].delivered() > had + 2 * self.SAMPLES)
            job = server.job_status("stopped")
            self.assertLessEqual(job["delivered_samples"] - job["consumed_samples"],
                                 job["window"]["slots"] * job["window"]["batch_size"])
            self.assertLess(job["delivered_samples"], 6 * self.SAMPLES)
            jobs[0].signal(signal.SIGCONT)
            for job in jobs:
                self.assert_epochs(job.finish(), 6)

    def test_holding_all_slots_stops_only_itself(self):
        with self.serve(cache="8M") as server:
            holder = Job(server.endpoint)
            holder.join(dataset="train", batch_size=16, epochs=1, slots=4, name="holder")
            holder.start()
            #  All slots but one come by themselves, the last when the loop was given the others.
            batches = [holder.event() for _ in range(3)]
            self.assertIsNone(holder.event(0.3))
            holder.progress(3, 0)
            batches.append(holder.event())
            self.assertEqual({batch.slot for batch in batches}, {0, 1, 2, 3})
            self.assert_epochs(server.read(batch=64, epochs=2).finish(), 2)
            self.assertIsNone(holder.event(0.5))
            #  Released but kept: nothing comes; a pair of slots given back: just these two are used.
            holder.progress(4, 4, kept=0b1111)
            self.assertIsNone(holder.event(0.5))
            pixels = bytes(batches[1].fields["image"][:1000])
            keep = 1 << batches[1].slot | 1 << batches[2].slot
            got = [number for batch in batches for number in batch.ids]
            holder.progress(4, 4, kept=keep)
            for _ in range(20):
                batch = holder.event()
                self.assertNotIn(batch.slot, (batches[1].slot, batches[2].slot))
                got += batch.ids
                holder.progress(holder.sent, holder.sent, keep)
            self.assertEqual(bytes(batches[1].fields["image"][:1000]), pixels)
            holder.progress(holder.sent, holder.sent, 0)
            while isinstance(event := holder.event(), Batch):
                got += event.ids
                holder.done_with(event)
            self.assertEqual(event, EpochEnd(0, self.SAMPLES, holder.sent, True))
            self.assertEqual(sorted(got), list(range(self.SAMPLES)))
            del batch, batches
            self.assertEqual(holder.leave().reason, "left")
            holder.close()


    def test_keeping_more_than_a_window_begins_with(self):
        #  A window begins with four slots and grows as batches are released; a client that keeps all it gets
        #  is given the others.
        for order in ("shared", "private"):
            with self.subTest(order), self.serve(cache="8M") as server:
                holder = Job(server.endpoint)
                holder.join(dataset="train", batch_size=16, epochs=1, slots=9, order=order)
                holder.start()
                batches = []
                for consumed in range(1, 10):
                    batches.append(holder.event())
                    self.assertIsInstance(batches[-1], Batch)
                    holder.progress(consumed, 0)
                self.assertEqual({batch.slot for batch in batches}, set(range(9)))
                self.assertIsNone(holder.event(0.3))
                got = [number for batch in batches for number in batch.ids]
                del batches
                holder.progress(9, 9)
                while isinstance(event := holder.event(), Batch):
                    got += event.ids
                    holder.done_with(event)
                self.assertEqual(sorted(got), list(range(self.SAMPLES)))
                holder.leave()
                holder.close()


class Manners(SystemTest):
    """The order of things, as docs/protocol.md has it."""
    SAMPLES = 200

    def assert_refused(self, code, call, *arguments, contains="", **keys):
        with self.assertRaises(Refused) as caught:
            call(*arguments, **keys)
        self.assertEqual(caught.exception.code, code, caught.exception)
        self.assertIn(contains, caught.exception.message)

    def job(self, server, **keys):
        job = Job(server.endpoint)
        self.addCleanup(job.close)
        job.join(**dict({"dataset": "train", "batch_size": 32}, **keys))
        return job

    def test_never_attached(self):
        with self.serve() as server:
            begin = time.monotonic()            # before the server's ten seconds do
            job = self.job(server, name="absent")
            self.assertEqual(server.job_status("absent")["waiting_on"], "ring")
            self.assertIsNone(job.event(max(0, begin + 8 - time.monotonic())))
            ended = job.event(20)
            took = time.monotonic() - begin
            self.assertIsInstance(ended, Ended)
            self.assertEqual(ended.reason, "transport")
            self.assertGreater(took, 9)
            self.assertEqual(server.status()["jobs"], [])
            self.assertEqual(server.status()["ring_bytes"], 0)
            #  The token is void, the job unknown, and the connection may join again.
            ring_socket, descriptor = job.open_ring()
            self.assertIsNone(descriptor)
            ring_socket.close()
            self.assert_refused("unknown_job", job.ask, plain_client.LEAVE, job.number)
            job.join(dataset="train", batch_size=32, epochs=1)
            job.start()
            self.assert_epochs({"epochs": job.run(self.labels)}, 1)
            job.leave()

    def test_tokens(self):
        with self.serve() as server:
            job = self.job(server, epochs=1)
            for wrong in ("0" * 32, job.joined["ring"]["token"][::-1], "x" * 32, "short"):
                ring_socket, descriptor = None, None
                if wrong == "short":            # said in part, then no more: closed in time
                    ring_socket = socket.socket(socket.AF_UNIX)
                    ring_socket.connect(job.joined["ring"]["path"])
                    ring_socket.sendall(wrong.encode())
                    ring_socket.shutdown(socket.SHUT_WR)
                    ring_socket.settimeout(30)
                    self.assertEqual(ring_socket.recv(1), b"")
                else:
                    ring_socket, descriptor = job.open_ring(wrong)
                self.assertIsNone(descriptor, wrong)
                ring_socket.close()
            #  Wrong tries do not spend the right token; it works once.
            job.take_ring()
            ring_socket, descriptor = job.open_ring()
            self.assertIsNone(descriptor)
            ring_socket.close()
            self.assert_refused("bad_request", self.inline, job)
            self.assert_epochs({"epochs": job.run(self.labels)}, 1)
            job.leave()

    def inline(self, job):
        job.send(plain_client.INLINE, job.number, 77)
        for _ in range(50):
            message = job.receive(10)
            if message.kind == plain_client.ERROR:
                self.assertEqual(message.tag, 77)
                raise plain_client.refusal(message)
            job.waiting_later = getattr(job, "waiting_later", []) + [message]
            if len(job.waiting_later) > 20:
                break

    def test_one_job_a_connection(self):
        with self.serve() as server:
            job = self.job(server)
            self.assert_refused("already_joined", job.ask, plain_client.JOIN, 0,
                                b'{"dataset": "train", "batch_size": 8}', contains=str(job.number))
            other = self.job(server, epochs=1)
            for kind in (plain_client.LEAVE, plain_client.INLINE, plain_client.HEARTBEAT):
                self.assert_refused("unknown_job", job.ask, kind, other.number)
            self.assert_refused("unknown_job", job.ask, plain_client.PROGRESS_KIND, other.number, bytes(24))
            self.assert_refused("unknown_job", job.ask, plain_client.LEAVE, 2 ** 64 - 1)
            other.start()
            self.assert_epochs({"epochs": other.run(self.labels)}, 1)
            self.assertEqual(len(server.status()["jobs"]), 2)       # a finished job stays until it leaves
            other.leave()
            job.leave()
            self.assertEqual(server.status()["jobs"], [])

    def test_leave_and_join_again_and_again(self):
        with self.serve() as server:
            job = Job(server.endpoint)
            numbers = set()
            for turn in range(6):
                job.join(dataset="train", batch_size=32, epochs=2, transport="inline" if turn % 2 else "auto")
                numbers.add(job.number)
                job.start()
                if turn < 3:
                    for _ in range(turn):
                        job.event()
                else:
                    self.assert_epochs({"epochs": job.run(self.labels)}, 2)
                self.assertEqual(job.leave(), Ended("left", "the job has left"))
                job.is_inline = False
            self.assertEqual(len(numbers), 6)
            self.assertEqual(server.status()["ring_bytes"], 0)
            wait_until("memory is free", lambda: harness.memfd_bytes(server.pid) == 0)
            job.close()

    def test_progress_that_cannot_be(self):
        with self.serve() as server:
            job = self.job(server, epochs=1)
            job.start()
            batch = job.event()
            job.done_with(batch)
            huge = 2 ** 64 - 1
            for numbers in ((huge, 0, 0), (1, huge, 0), (1, 1000, 0), (0, 1, 0), (1, 0, huge)):
                job.send(plain_client.PROGRESS_KIND, job.number, 9, plain_client.PROGRESS.pack(*numbers))
            errors, rest = 0, []
            while errors < 5:
                message = job._receive(10)
                self.assertIsNotNone(message)
                if message.kind == plain_client.ERROR:
                    self.assertEqual((message.tag, plain_client.refusal(message).code), (9, "bad_request"))
                    errors += 1
                else:
                    rest.append(message)
            job.waiting.extend(rest)
            ids = list(batch.ids)
            while isinstance(event := job.event(), Batch):
                ids += event.ids
                job.done_with(event)
            self.assertEqual(sorted(ids), list(range(self.SAMPLES)))
            job.leave()

    def test_refusals_name_the_remedy(self):
        with self.serve() as server:
            job = Job(server.endpoint)
            self.addCleanup(job.close)
            good = {"dataset": "train", "batch_size": 8}
            for code, contains, keys in (
                    ("unknown_dataset", "train", {"dataset": "trian"}),
                    ("bad_request", "batch_size", {"batch_size": 0}),
                    ("bad_request", "batch_size", {"batch_size": 65537}),
                    ("bad_request", "batch_size", {"batch_size": "8"}),
                    ("bad_request", "epochs", {"epochs": 0}), ("bad_request", "epochs", {"epochs": -1}),
                    ("bad_request", "slots", {"slots": 2}), ("bad_request", "slots", {"slots": 65}),
                    ("bad_request", "order", {"order": "sorted"}),
                    ("bad_request", "transport", {"transport": "ring"}),
                    ("bad_request", "pipeline", {"pipeline": "trane"}),
                    ("bad_request", "seed", {"seed": "-1"}),
                    ("bad_request", "name", {"name": "x" * 65}), ("bad_request", "name", {"name": "a\nb"}),
                    ("bad_request", "colour", {"colour": 1}), ("malformed", "", {"frames": ["subset"]}),
                    ("bad_request", "drop_last", {"batch_size": 201, "drop_last": True}),
                    ("budget", "", {"batch_size": 16384, "slots": 64})):
                with self.subTest(keys):
                    self.assert_refused(code, job.join, contains=contains, **dict(good, **keys))
            for code, contains, frame in (
                    ("bad_request", "", plain_client.ids_ranges((0, 201))),
                    ("bad_request", "", plain_client.ids_ranges((5, 5))),
                    ("bad_request", "", plain_client.ids_ranges((5, 9), (8, 12))),
                    ("bad_request", "", plain_client.ids_ranges()),
                    ("bad_request", "", plain_client.ids_words([200], 256)),
                    ("bad_request", "", plain_client.ids_list([1, 2])),
                    ("malformed", "", b""), ("malformed", "", b"\x01")):
                with self.subTest(frame):
                    with self.assertRaises(Refused) as caught:
                        job.join([frame], frames=["subset"], **good)
                    self.assertIn(caught.exception.code, ("bad_request", "malformed"))
            self.assertEqual((server.status()["jobs"], server.status()["ring_bytes"]), ([], 0))

    def test_no_heartbeat_is_needed_with_a_ring(self):
        #  And a client that neither reads nor beats for a while keeps its job.
        with self.serve() as server:
            job = self.job(server, epochs=1, name="quiet")
            job.start()
            time.sleep(3)
            self.assertIsNotNone(server.job_status("quiet"))
            self.assert_epochs({"epochs": job.run(self.labels)}, 1)
            job.leave()

    def test_heartbeats_come(self):
        with self.serve() as server:
            job = self.job(server, transport="inline", slots=3, epochs=1)
            beats, deadline = 0, time.monotonic() + 4
            while time.monotonic() < deadline:
                job.beat()
                message = job._receive(0.2)
                beats += message is not None and message.kind == plain_client.HEARTBEAT
            self.assertGreaterEqual(beats, 3)
            job.leave()


if __name__ == "__main__":
    unittest.main(verbosity=2)

"""All ranks of a job in one process.  Which rank comes when, and which is ahead of which, is chance; each
step checks that what they get fits together.  And what the tests of ranks stand on."""
import os
import shutil
import tempfile
import unittest
import zlib

import harness
from harness import wait_until
from plain_client import Batch, Course, Ended, EpochEnd, Notice, Refused

ONE, OTHER = "00112233445566778899aabbccddeeff", "ffeeddccbbaa99887766554433221100"
LIST = [(number * 7) % 31 for number in range(100)]
SMALL = [{"op": "resize", "size": [12, 12]}]
CROP = [{"op": "random_resized_crop", "size": [12, 12]}, {"share": True}, {"op": "flip"}]
#   What a job may ask for; of the last four the order is known.
KINDS = {"shared": {"order": "shared"}, "private": {"order": "private"}, "ascending": {"order": "list"},
         "list": {"order": "list", "ids": LIST}, "seeded": {"seed": "7", "pipeline": CROP},
         "pool": {"seed": "7", "pool": 16, "pipeline": CROP, "dataset": "pack"}}
ORDERED = ("ascending", "list", "seeded", "pool")


def spread(samples, world_size):
    return [samples // world_size + (rank < samples % world_size) for rank in range(world_size)]


class Courses:
    """begin () and walk () are those of a Course, for all of them.  steps: {(epoch, index): the ids of each
    rank}."""

    def __init__(self, endpoint, world_size, generator, timeout):
        self.ranks = [Course(endpoint, timeout) for _ in range(world_size)]
        self.world_size, self.generator = world_size, generator
        self.steps, self.ends, self.padded = {}, {}, 0
        self.taken = [0] * world_size           # steps, by each
        self.is_ragged = False                  # samples are unreadable: the steps are not spread evenly

    def ask(self, states=None, recents=None, each=(), **keys):
        """In any order.  states, recents: of each, or one for all; each: keys of each, else their transport
        is chance."""
        self.keys = keys
        for rank in self.generator.sample(range(self.world_size), self.world_size):
            state = states[rank] if isinstance(states, list) else states
            own = {"rank": rank, "world_size": self.world_size,
                   "transport": self.generator.choice(["auto", "inline"])}
            own.update(each[rank] if each else {})
            self.ranks[rank].set_out(dict(state or {}), recent=recents[rank] if recents else None,
                                     **dict(keys, **own))
        return self

    def arrive(self):
        for course in self.ranks:
            course.arrive()
        for key in ("job", "run", "seed", "fingerprint", "data", "samples", "fields", "slot_bytes"):
            assert len({str(course.joined[key]) for course in self.ranks}) == 1, key
        return self

    def begin(self, *arguments, **keys):
        return self.ask(*arguments, **keys).arrive()

    def refusals(self):
        """What each rank is refused with: code, message."""
        found = []
        for course in self.ranks:
            try:
                course.arrive()
            except Refused as refused:
                found.append((refused.code, refused.message))
            else:
                found.append(("joined", ""))
        return found

    def walk(self, steps=None, lag=2, seen=None):
        """Each rank takes so many steps, counted from where the furthest is, or what comes to the job's end;
        none gets further ahead of another than lag."""
        target = None if steps is None else max(self.taken) + steps
        while True:
            going = [rank for rank, course in enumerate(self.ranks)
                     if self.taken[rank] != target and course.state["epoch"] != self.keys["epochs"]]
            if not going:
                return self
            slowest = min(self.taken[rank] for rank in going)
            self.take(self.generator.choice([rank for rank in going if self.taken[rank] - slowest < lag]),
                      seen)

    def take(self, rank, seen=None, with_notices=False, seconds=None):
        """One event of one rank."""
        event = self.ranks[rank].take(seen, None, with_notices, seconds)
        if event is None or isinstance(event, Notice):
            return event
        if isinstance(event, EpochEnd):
            known = self.ends.setdefault(event.epoch, event)
            assert known == event, (known, event)
            return event
        self.taken[rank] += 1
        step = event.step or (event.ids,)
        known = self.steps.setdefault((event.epoch, event.index), step)
        assert known == step, "rank %d: step %d of epoch %d is %s, others had %s" % (
            rank, event.index, event.epoch, step, known)
        self.padded += event.is_padding
        if not self.is_ragged:
            dealt = spread(sum(map(len, step)), self.world_size)
            assert [len(part) for part in step] == dealt, (event, dealt)
        return event

    def order(self, epoch):
        """The epoch's ids as they were drawn."""
        return [number for key in sorted(self.steps) if key[0] == epoch for part in self.steps[key]
                for number in part]

    def position(self, rank):
        state = self.ranks[rank].state
        return state["epoch"], state["batches"]

    def leave(self):
        for course in self.ranks:
            course.leave()

    def stop(self):
        """In the midst of the job: with one of them it is over for all."""
        self.ranks[0].leave()
        self.close()

    def close(self):
        for course in self.ranks:
            if not course.socket.closed:
                course.close()

    def lose(self, rank):
        """Its client is gone; where it stood is known."""
        self.ranks[rank].close()

    def ask_again(self, rank, state=None, **keys):
        """A client for a rank that was lost, from where that one stood; it has asked, and not been
        answered."""
        lost = self.ranks[rank]
        if not lost.socket.closed:
            lost.close()
        course = self.ranks[rank] = Course(lost.endpoint, lost.timeout)
        own = {"rank": rank, "world_size": self.world_size,
               "transport": self.generator.choice(["auto", "inline"])}
        course.set_out(dict(lost.state if state is None else state),
                       recent=lost.recent if state is None else None,
                       **dict(self.keys, **dict(own, **keys)))
        return course


    def come_again(self, rank, *arguments, **keys):
        """The same, and it is there again.  A worker may still be busy for the client that was lost."""
        def comes():
            try:
                return self.ask_again(rank, *arguments, **keys).arrive()
            except Refused as refused:
                if refused.code != "busy":
                    raise
        return wait_until("rank %d is there again" % rank, comes)


class RankTest(unittest.TestCase):
    """One folder of samples, and a pack of them, for all tests of a class."""
    SAMPLES = 61                                # a few more than whole steps of most sizes

    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="tu-ranks-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.files, cls.packed = (os.path.join(cls.root, name) for name in ("files", "pack"))
        harness.make_folder(cls.files, cls.SAMPLES, seed=harness.SEED)
        done = harness.run("pack", "--quiet", cls.files, cls.packed)
        assert done.returncode == 0, done.stderr

    def serve(self, **options):
        return harness.Server({"files": self.files, "pack": self.packed}, cache="4M",
                              arguments=("--raw", "32M"), **options)

    def request(self, kind="shared", **keys):
        return dict({"dataset": "files", "batch_size": 4, "epochs": 2, "pipeline": SMALL, "job": "trial"},
                    **dict(KINDS[kind], **keys))

    def course(self, server):
        course = Course(server.endpoint, harness.PATIENCE)
        self.addCleanup(lambda: course.socket.closed or course.close())
        return course

    def courses(self, server, world_size, generator):
        courses = Courses(server.endpoint, world_size, generator, harness.PATIENCE)
        self.addCleanup(courses.close)
        return courses

    def known(self, server, kind, **keys):
        """How a plain job gets it: {epoch: ids}, as far as that is known beforehand, and {(epoch, id): its
        pixels}."""
        course, pixels = self.course(server), {}
        request = self.request(kind, **keys)
        del request["job"]
        epochs = course.begin({}, **request).walk(
            seen=lambda epoch, number, image: pixels.__setitem__((epoch, number), zlib.crc32(image)))
        course.leave()
        return epochs if kind in ORDERED else None, pixels

    def look(self, pixels):
        """Asserts that each image is that sample's."""
        return lambda epoch, number, image: self.assertEqual(zlib.crc32(image), pixels[epoch, number],
                                                             (epoch, number))

    def assert_rest(self, courses, known, state=None, epochs=2):
        """What came is what was left of each epoch, once; in the order in which it would have come, where
        that is known."""
        state = state or {"epoch": 0, "taken": []}
        for epoch in range(state["epoch"], epochs):
            before = state["taken"] if epoch == state["epoch"] else []
            if known:
                self.assertEqual(courses.order(epoch), known[epoch][len(before):], "epoch %d" % epoch)
            else:
                self.assertEqual(sorted(before + courses.order(epoch)), list(range(self.SAMPLES)),
                                 "epoch %d" % epoch)
            samples = len(before) + len(courses.order(epoch))
            self.assertEqual(courses.ends[epoch].samples, samples)


class LossTest(RankTest):
    def told(self, courses, rank):
        """What the rank still gets, to the notice of a loss."""
        while True:
            event = courses.take(rank, with_notices=True)
            if isinstance(event, Notice):
                self.assertEqual(event.kind, "rank_lost")
                return event.message

    def ended(self, course, reason):
        """What the rank still gets, to the job's end: its message."""
        while True:
            event = course.event()
            self.assertIsNotNone(event, "no end came")
            if isinstance(event, Ended):
                self.assertEqual(event.reason, reason, event.message)
                return event.message
            if isinstance(event, Batch):
                event.fields.clear()
                course.done_with(event)

    def assert_nothing_left(self, server):
        wait_until("no job is left", lambda: not server.status()["jobs"])
        found = []

        def memory():
            status = server.status()
            found[:] = [status[key] for key in ("jobs_bytes", "outgoing_bytes", "ring_bytes")]
            return found == [0, 0, 0]
        try:
            wait_until("its memory is the server's again", memory)
        except AssertionError as late:
            raise AssertionError("%s: jobs_bytes, outgoing_bytes, ring_bytes are %s"
                                 % (late, found)) from late
        wait_until("no ring is left", lambda: harness.memfd_bytes(server.pid) == 0)

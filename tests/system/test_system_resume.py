"""Jobs that continue where others stopped, in the real server: after a client's death or the server's, in
other batches, over files and a pack; and which job takes another's place.  The client is plain_client.py, so
that the protocol's document is what is tested."""
import json
import os
import shutil
import signal
import tempfile
import time
import unittest
import zlib

import harness
from harness import Server, wait_until
from plain_client import Course, Ended, JOIN, PROGRESS, PROGRESS_KIND, Refused, ids_ranges, ids_words

SAMPLES, BATCH, EPOCHS = 120, 8, 2
CROP = [{"op": "random_resized_crop", "size": [12, 12]}, {"share": True}, {"op": "flip"}]
LIST = [(number * 7) % 31 for number in range(100)]
ONE, OTHER = "00112233445566778899aabbccddeeff", "ffeeddccbbaa99887766554433221100"
#   What a job may ask for; of the last four the order is known.
KINDS = {"shared": {"order": "shared"}, "private": {"order": "private"}, "ascending": {"order": "list"},
         "list": {"order": "list", "ids": LIST}, "seeded": {"seed": "7"}, "pool": {"seed": "7", "pool": 16}}
ORDERED = ("ascending", "list", "seeded", "pool")
#   The same pixels too: none of them is random in what is shared with others.
REPEATED = ("seeded", "pool")


def taken_as_ranges(ids, samples):
    return ids_ranges(*((number, number + 1) for number in sorted(ids)))


class Resume(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="tu-resume-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.files, cls.packed, cls.others = (os.path.join(cls.root, name)
                                             for name in ("files", "pack", "others"))
        harness.make_folder(cls.files, SAMPLES, seed=harness.SEED)
        harness.make_folder(cls.others, SAMPLES, seed=harness.SEED + 1)
        done = harness.run("pack", "--quiet", cls.files, cls.packed)
        assert done.returncode == 0, done.stderr

    def serve(self, *arguments):
        return Server({"files": self.files, "pack": self.packed, "others": self.others}, cache="4M",
                      arguments=("--raw", "32M", *arguments))

    def course(self, server, state, **keys):
        request = dict({"dataset": "files", "batch_size": BATCH, "epochs": EPOCHS, "pipeline": CROP}, **keys)
        course = Course(server.endpoint, harness.PATIENCE)
        self.addCleanup(course.close)
        return course.begin(state, **request)

    def assert_rest(self, state, rest, whole=range(SAMPLES), epochs=EPOCHS):
        """What came together with what was taken before it is each epoch's samples, once."""
        for epoch in range(state["epoch"], epochs):
            before = state["taken"] if epoch == state["epoch"] else []
            self.assertEqual(sorted(before + rest.get(epoch, [])), sorted(whole), "epoch %d" % epoch)

    def test_after_the_servers_death(self):
        generator = harness.seeded("the server's death")
        with self.serve() as server:
            known, pixels, states = {}, {}, {}
            jobs = [(dataset, kind) for dataset in ("files", "pack") for kind in KINDS
                    if (dataset, kind) != ("files", "pool")]
            for dataset, kind in jobs:
                if kind in ORDERED:             # as it is when no process dies
                    whole = self.course(server, {}, dataset=dataset, **KINDS[kind])
                    known[dataset, kind] = whole.walk(
                        seen=lambda epoch, number, image, key=(dataset, kind): pixels.__setitem__(
                            key + (epoch, number), zlib.crc32(image)))
                    whole.leave()
            running = {job: self.course(server, {}, dataset=job[0], **KINDS[job[1]]) for job in jobs}
            for (dataset, kind), course in running.items():
                #  The end of an epoch, where all is taken and its end was not looked at, too.
                course.walk(15 if kind == "private" and dataset == "files" else generator.randrange(1, 25))
                states[dataset, kind] = json.loads(json.dumps(course.state))
            server.kill()
            for course in running.values():
                course.close()
            server.start()
            for number, (dataset, kind) in enumerate(jobs):
                state = states[dataset, kind]
                before = list(state["taken"])
                course = self.course(server, state, dataset=dataset,
                                     batch_size=generator.choice([3, 5, 8, 13]),
                                     taken_as=(ids_words, taken_as_ranges)[number % 2], **KINDS[kind])
                self.assertEqual((course.joined["run"], course.joined["forked"]), (state["run"], False))
                images = {}
                rest = course.walk(seen=lambda epoch, number,
                                   image: images.setdefault((epoch, number), zlib.crc32(image)))
                course.leave()
                with self.subTest(dataset=dataset, kind=kind,
                                  stopped=(states[dataset, kind]["epoch"], len(before))):
                    self.assert_rest(state, rest, LIST if kind == "list" else range(SAMPLES))
                    for epoch, ids in rest.items() if kind in ORDERED else ():
                        skipped = len(before) if epoch == state["epoch"] else 0
                        self.assertEqual(ids, known[dataset, kind][epoch][skipped:])
                    for (epoch, sample), image in images.items() if kind in REPEATED else ():
                        self.assertEqual(image, pixels[dataset, kind, epoch, sample], (epoch, sample))

    def test_after_the_clients_death(self):
        with self.serve() as server:
            for dataset, kind in (("files", "seeded"), ("pack", "shared")):
                path = os.path.join(server.folder, "state-" + kind)
                keys = dict({"dataset": dataset, "batch_size": BATCH, "pipeline": CROP, "job": "trial-1",
                             "instance": ONE},
                            **KINDS[kind])
                victim = server.plain(course=keys, state=path, pause=0.01)

                def stood():
                    self.assertIsNone(victim.process.poll(), victim.texts())
                    if not os.path.exists(path):
                        return None
                    with open(path) as file:
                        state = json.load(file)
                    return state if 0 < len(state["taken"]) < SAMPLES else None
                wait_until("it is within an epoch", stood)
                victim.signal(signal.SIGKILL)
                victim.wait()
                with open(path) as file:
                    state = json.load(file)
                epochs = state["epoch"] + 2
                started = dict(keys, instance=OTHER, batch_size=11, epochs=epochs)
                course = self.course(server, json.loads(json.dumps(state)), **started)
                self.assertEqual((course.joined["run"], course.joined["forked"]), (state["run"], False))
                job, = [job for job in server.status()["jobs"] if job["job"] == course.number]
                self.assertEqual((job["job_name"], job["resumed"]), ("trial-1", True))
                #  A client that knows the run may end the job
                self.assertNotIn(state["run"], json.dumps(server.status()))
                self.assert_rest(state, course.walk(), epochs=epochs)
                course.leave()
            wait_until("no job is left", lambda: not server.status()["jobs"])
            self.assertEqual(server.status()["jobs_bytes"], 0)

    def test_identities(self):
        with self.serve() as server:
            first = self.course(server, {}, instance=ONE)
            got = first.walk(5)
            self.assertEqual(first.joined["forked"], False)
            second = self.course(server, dict(first.state), instance=ONE, batch_size=20)
            self.assertEqual((second.joined["run"], second.joined["forked"]), (first.joined["run"], False))
            self.assert_fenced(first, second)
            fork = self.course(server, dict(first.state), instance=OTHER)
            self.assertTrue(fork.joined["forked"])
            self.assertNotEqual(fork.joined["run"], first.joined["run"])
            state = {"epoch": 0, "taken": got[0]}
            self.assert_rest(state, fork.walk())
            self.assert_rest(state, second.walk())      # has noticed nothing
            named = self.course(server, {}, job="trial-2", instance=ONE)
            with self.assertRaisesRegex(Refused, "job_taken: the job name 'trial-2' is that of job %d on "
                                        "data set 'files', which joined [0-9]+ seconds ago" % named.number):
                self.course(server, {}, job="trial-2", instance=OTHER)
            named.walk(3)
            self.assert_refused(server, named, instance=OTHER, job="trial-2")
            restarted = self.course(server, dict(named.state), instance=OTHER, job="trial-2")
            self.assert_fenced(named, restarted)
            restarted.walk(3)

    def test_what_crosses_the_end_is_answered_after_it(self):
        """In one turn of the server: the join that fences a job, and then what that job still sends.  A
        client that is told unknown_job and no ENDED takes the server for another one and joins anew, which
        would fence the fencer."""
        with self.serve() as server:
            ghost = self.course(server, {}, instance=ONE)
            ghost.walk(1)
            again = Course(server.endpoint, harness.PATIENCE)
            self.addCleanup(again.close)
            again.status()                          # it is connected
            os.kill(server.process.pid, signal.SIGSTOP)
            try:
                again.send(JOIN, 0, 1, json.dumps({"dataset": "files", "batch_size": BATCH,
                                                   "run": ghost.state["run"], "instance": ONE}).encode())
                for _ in range(8):
                    ghost.progress()
                time.sleep(0.3)
            finally:
                os.kill(server.process.pid, signal.SIGCONT)
            event = ghost.event()
            while event is not None and not isinstance(event, Ended):
                event = ghost.event()
            self.assertEqual(event.reason, "fenced")
            ghost.progress()                        # those before may have come before the join was served
            with self.assertRaisesRegex(Refused, "unknown_job"):
                ghost.event()

    def assert_fenced(self, ghost, course):
        """It is told so, and what it still sends is of no job."""
        while True:
            event = ghost.event()
            self.assertIsNotNone(event)
            if isinstance(event, Ended):
                break
        self.assertEqual(event.reason, "fenced")
        self.assertIn("as job %d" % course.number, event.message)
        ghost.send(PROGRESS_KIND, ghost.number, 0, PROGRESS.pack(ghost.consumed, ghost.released, 0))
        with self.assertRaisesRegex(Refused, "unknown_job"):
            ghost.event()

    def assert_refused(self, server, running, **keys_of_all):
        """States that do not fit; the job of their run goes on."""
        state, other = running.state, self.course(server, {}, dataset="others")
        prints = (other.joined["fingerprint"], running.joined["fingerprint"])
        for message, changed, keys in (
                ("the state is of other data: its fingerprint is %s, data set 'files' has %s: the files have "
                 "changed, or it is another data set" % prints, {"fingerprint": prints[0]}, {}),
                ("the state is of other samples of data set 'files': it says %s, this job's samples are "
                 "[0-9a-f]{16}; join with the same subset" % ("0" * 16), {"data": "0" * 16}, {}),
                ("the state is at epoch 2 .* asks for 2 epochs", {"epoch": 2}, {}),
                ("taken: bit 57 of word 1 is sample 121, the data set has 120 samples",
                 {"taken": [121], "samples": 122}, {})):
            with self.assertRaisesRegex(Refused, "bad_state: .*" + message):
                self.course(server, dict(state, **changed), **dict(keys_of_all, **keys))
        other.leave()
        running.walk(1)


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""What a server tells of what it does: EXPLAIN against the pixels that came, notices, waits and sharing in
status; and that it ends by itself where it was told to (--until-idle)."""
import json
import os
import time
import unittest

import harness
import plain_client
from harness import Server, SystemTest, wait_until
from plain_client import Refused

import numpy as np
from PIL import Image

#  A pixel's red is STEP times its row, its green STEP times its column
STEP = 2
CROP = {"op": "random_crop", "size": [16, 20], "share": True}


def make_positions(root, samples, heights=(60, 110), widths=(60, 120)):
    """JPEGs in which each pixel says where it is."""
    generator = np.random.default_rng(5)
    os.makedirs(os.path.join(root, "only"))
    for index in range(samples):
        height, width = int(generator.integers(*heights)), int(generator.integers(*widths))
        y, x = np.mgrid[0:height, 0:width]
        pixels = np.stack([STEP * y, STEP * x, np.full_like(x, 128)], 2).astype(np.uint8)
        Image.fromarray(pixels, "RGB").save(os.path.join(root, "only", "%05d.jpg" % index), quality=98,
                                            subsampling=0)


def parameters(explanation, op):
    return [entry["parameters"] for entry in explanation["operations"] if entry["op"] == op]


class Explanations(SystemTest):
    SAMPLES = 300

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.positions = os.path.join(cls.root, "positions")
        make_positions(cls.positions, 48)

    def server(self, *arguments):
        return Server({"positions": self.positions, "train": self.data}, arguments=arguments)

    def job(self, server, **join):
        job = plain_client.Job(server.endpoint, harness.PATIENCE)
        self.addCleanup(job.close)
        job.join(**join)
        job.start()
        return job

    def assert_pixels(self, explanation, image):
        """The image, [rows, columns, 3], shows the window that is told, mirrored if that is told."""
        (window,), (flip,) = parameters(explanation, "random_crop"), parameters(explanation, "flip")
        if flip["flipped"]:
            image = image[:, ::-1]
        rows, columns = np.mgrid[0:window["height"], 0:window["width"]]
        self.assertEqual(image.shape[:2], (window["height"], window["width"]))
        self.assertLess(abs(image[:, :, 0] - STEP * (rows + window["top"])).max(), 8)
        self.assertLess(abs(image[:, :, 1] - STEP * (columns + window["left"])).max(), 8)

    def assert_batch(self, job, event):
        images = np.array(event.fields["image"], dtype=int).reshape(event.count, 16, 20, 3)
        windows, flips = set(), set()
        for row, number in enumerate(event.ids):
            told = job.explain(number, epoch=str(event.epoch))
            self.assertEqual((told["id"], told["epoch"], told["index"], told["row"]),
                             (str(number), str(event.epoch), str(event.index), str(row)))
            self.assertEqual(told["name"], "only/%05d.jpg" % number)
            self.assertGreaterEqual(told["prepared_for"], 1)
            self.assertEqual([entry["stage"] for entry in told["operations"]],
                             ["shared", "shared", "private"])
            self.assert_pixels(told, images[row])
            windows.add(json.dumps(parameters(told, "random_crop")))
            flips.add(parameters(told, "flip")[0]["flipped"])
        self.assertGreater(len(windows), 1)
        self.assertEqual(flips, {False, True})

    def test_it_is_what_the_pixels_show(self):
        pipeline = [CROP, {"share": True}, {"op": "flip"}]
        with self.server() as server:
            jobs = [self.job(server, dataset="positions", batch_size=24, epochs=5, pipeline=pipeline,
                             order=order, transport=transport)
                    for order, transport in (("shared", "auto"), ("shared", "inline"), ("seeded", "auto"))]
            for job in jobs:
                event = job.event()
                self.assert_batch(job, event)
                job.done_with(event._replace(fields=None))
                event.fields.clear()
                with self.assertRaises(Refused) as refused:
                    job.explain(4711)
                self.assertEqual(refused.exception.code, "unknown_sample")
            #  A seeded job is told what it will get, in any epoch; the others only what they have.
            seeded, shared = jobs[2], jobs[0]
            before = {number: seeded.explain(number, epoch="4") for number in range(48)}
            self.assertEqual({told["row"] for told in before.values()}, {None})
            with self.assertRaises(Refused) as refused:
                shared.explain(3, epoch="9")
            self.assertEqual(refused.exception.code, "unknown_sample")
            event = seeded.event()
            while event.epoch < 4:
                if isinstance(event, plain_client.Batch):
                    seeded.done_with(event)
                event = seeded.event()
            for number in event.ids:
                self.assertEqual(seeded.explain(number, epoch="4")["operations"],
                                 before[number]["operations"])
            #  No client is told of another's job.
            with self.assertRaises(Refused) as refused:
                seeded.ask(plain_client.EXPLAIN, shared.number, b'{"id":"1"}')
            self.assertEqual(refused.exception.code, "unknown_job")
            #  However many ask at once, each gets an answer or is told to wait.
            for tag in range(100, 150):
                seeded.send(plain_client.EXPLAIN, seeded.number, tag, b'{"id":"1","epoch":"7"}')
            answers = {}
            while len(answers) < 50:
                message = seeded._receive(harness.PATIENCE)
                if message.tag >= 100:
                    answers[message.tag] = message
            for message in answers.values():
                body = json.loads(message.frames[0].decode())
                self.assertTrue(message.kind == plain_client.EXPLAIN_REPLY or body["error"] == "busy", body)
            self.assertIn(plain_client.EXPLAIN_REPLY, {message.kind for message in answers.values()})
            #  What has gone from the disk is told so.
            os.rename(os.path.join(self.positions, "only", "00007.jpg"), os.path.join(self.root, "away"))
            try:
                with self.assertRaises(Refused) as refused:
                    seeded.explain(7, epoch="20")
            finally:
                os.rename(os.path.join(self.root, "away"), os.path.join(self.positions, "only", "00007.jpg"))
            self.assertEqual(refused.exception.code, "bad_sample")
            self.assertIn("only/00007.jpg", refused.exception.message)
            for job in jobs:
                job.leave()

    def test_jobs_that_share_nothing_are_told_why(self):
        with self.server() as server:
            crops = [{"op": "random_resized_crop", "size": 8, "scale": [scale, 1]} for scale in (0.3, 0.6)]
            jobs = [self.job(server, dataset="train", batch_size=16, pipeline=[crop, {"share": True}])
                    for crop in crops]
            deadline = time.monotonic() + 2 * harness.PATIENCE
            while not all(job.notices for job in jobs):
                self.assertLess(time.monotonic(), deadline)
                for job in jobs:
                    event = job.event(0.05)
                    if isinstance(event, plain_client.Batch):
                        job.done_with(event._replace(fields=None))
            for job, mine, other in ((jobs[0], "0.3", "0.6"), (jobs[1], "0.6", "0.3")):
                self.assertEqual(list(job.notices), ["little_shared"])
                text = job.notices["little_shared"]
                self.assertIn("random_resized_crop", text)
                self.assertLess(text.index('"scale":[%s' % mine), text.index('"scale":[%s' % other))
            self.assertIn("little_shared", server.log())
            #  The figures behind it; asked by a job, the answer is the job's.
            answer = jobs[0].ask(plain_client.STATUS, jobs[0].number, b"{}")
            self.assertEqual(answer.job, jobs[0].number)
            for told in json.loads(answer.frames[0].decode())["jobs"]:
                self.assertEqual(told["sharing"]["shared"], 0)
                self.assertEqual(told["sharing"]["alone"], told["sharing"]["places"])
                self.assertEqual(sorted(told["waits"]),
                                 ["client", "copy", "decode", "draw", "memory", "read"])
                self.assertGreater(sum(told["waits"].values()), 0)
            text = server.status_text()
            for word in ("waited for", "shared", "client"):
                self.assertIn(word, text)

    def test_it_ends_when_no_job_needs_it(self):
        with self.server("--until-idle", "1") as server:
            taken = harness.run("serve", "--dataset", "train=%s" % self.data, "--listen", server.endpoint,
                                "--cache", "64M")
            self.assertEqual(taken.returncode, 3, taken)
            self.assertIn("a live server", taken.stderr)
            idle = server.status()["until_idle"]
            self.assertEqual(idle["seconds"], 1)
            self.assertGreater(idle["left"], 1)             # until the first job has come it is patient
            first = self.job(server, dataset="train", batch_size=8, epochs=1, pipeline="eval")
            self.assertIsNone(server.status()["until_idle"]["left"])
            self.assertIn("ends 1 s after its last job", server.status_text())
            second = self.job(server, dataset="train", batch_size=8, epochs=1, pipeline="eval")
            first.leave()
            second.run()
            second.leave()
            wait_until("the server ends", lambda: server.process.poll() is not None)
            self.assertEqual(server.process.returncode, 0)
            self.assertIn("no job is left", server.log())
            self.assertEqual(server.left_behind(), [])


if __name__ == "__main__":
    unittest.main()

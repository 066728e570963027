"""`tureen prepare`: what it writes is what a job gets, and what it says of unusable arguments and files."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

import numpy as np
from PIL import Image

import harness
import plain_client
from harness import SystemTest
from test_system_pipelines import take_together

CROP = {"op": "random_resized_crop", "size": 40}
SHARE = {"share": True}


def prepare(*arguments):
    return subprocess.run([harness.TUREEN, "prepare", *map(str, arguments)], capture_output=True, text=True)


class Prepare(SystemTest):
    SAMPLES = 12

    def setUp(self):
        self.out = tempfile.mkdtemp(prefix="tu-out-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.out, ignore_errors=True)
        self.files = [os.path.join(folder, name) for folder, _,
                      names in sorted(os.walk(self.data)) for name in sorted(names)]

    def written(self):
        return sorted(os.path.relpath(os.path.join(folder, name), self.out)
                      for folder, _, names in os.walk(self.out) for name in names)

    def good(self, *arguments):
        done = prepare(*arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_a_mask_that_is_a_fifo(self):
        masks = os.path.join(self.out, "masks")
        os.makedirs(masks)
        os.mkfifo(os.path.join(masks, os.path.splitext(os.path.basename(self.files[0]))[0] + ".png"))
        done = prepare("--pipeline",
                       '[{"op":"decode","fields":["image","mask"]},{"op":"resize","size":[8,8]}]', "--field",
                       "mask=mask:" + masks, "--out", os.path.join(self.out, "made"), self.files[0])
        self.assertEqual(done.returncode, 1)
        self.assertIn(".png: is no regular file", done.stderr)

    def test_writes_what_a_seeded_job_gets(self):
        #  The files are in the order of the catalogue, so their ids are those of the data set.
        pipeline = [CROP, SHARE, {"op": "flip"}, {"op": "color_jitter", "brightness": 0.5, "hue": 0.2},
                    {"op": "normalize", "mean": [0.5, 0.4, 0.3]}, {"op": "cast", "dtype": "float16"},
                    {"op": "layout", "layout": "NCHW"}]
        with self.serve() as server:
            job = plain_client.Job(server.endpoint)
            job.join(dataset="train", batch_size=5, epochs=2, pipeline=pipeline, seed="77")
            job.start()
            got = take_together([job])[0]
            job.leave()
            job.close()
        text = json.dumps(pipeline)
        for epoch in range(2):
            self.good("--pipeline", text, "--seed", 77, "--epoch", epoch, "--out", self.out, *self.files)
            for number, file in enumerate(self.files):
                array = np.load(os.path.join(self.out, os.path.relpath(file, self.data) + ".npy"))
                self.assertEqual((array.dtype, array.shape), (np.float16, (3, 40, 40)))
                self.assertTrue(np.array_equal(array, got[epoch, number]["image"]), (epoch, file))
            #  Given alone, a file is below no common folder but its own; its id is told.
            self.good("--pipeline", text, "--seed", 77, "--epoch", epoch, "--id", 7, "--out", self.out,
                      self.files[7])
            array = np.load(os.path.join(self.out, os.path.basename(self.files[7]) + ".npy"))
            self.assertTrue(np.array_equal(array, got[epoch, 7]["image"]))

    def test_draw_is_of_the_shared_stage_alone(self):
        text = json.dumps([CROP, SHARE])
        arrays = []
        for draw, epoch in ((0, 0), (0, 9), (9, 0)):
            self.good("--pipeline", text, "--draw", draw, "--epoch", epoch, "--out", self.out, self.files[0])
            arrays.append(np.load(os.path.join(self.out, os.path.basename(self.files[0]) + ".npy")))
        self.assertTrue(np.array_equal(arrays[0], arrays[1]))
        self.assertFalse(np.array_equal(arrays[0], arrays[2]))

    def test_masks_and_views_are_files_of_their_own(self):
        masks = os.path.join(self.out, "masks")
        for file in self.files:
            name = os.path.splitext(os.path.relpath(file, self.data))[0] + ".png"
            os.makedirs(os.path.dirname(os.path.join(masks, name)), exist_ok=True)
            with Image.open(file) as image:
                image.convert("L").save(os.path.join(masks, name))
        pipeline = [{"op": "decode", "fields": ["image", "mask"]}, {"op": "resize", "size": [30, 20]}, SHARE,
                    {"op": "views", "count": 2}, {"op": "random_crop", "size": 16}]
        out = os.path.join(self.out, "prepared")
        self.good("--pipeline", json.dumps(pipeline), "--field", "mask=mask:" + masks, "--out", out,
                  *self.files)
        first = os.path.relpath(self.files[0], self.data)
        shapes = {name: np.load(os.path.join(out, first + name + ".npy")).shape
                  for name in ("", ".mask", ".image_2", ".mask_2")}
        self.assertEqual(shapes, {"": (16, 16, 3), ".mask": (16, 16), ".image_2": (16, 16, 3),
                                  ".mask_2": (16, 16)})
        os.unlink(os.path.join(masks, os.path.splitext(first)[0] + ".png"))
        done = prepare("--pipeline", json.dumps(pipeline), "--field", "mask=mask:" + masks, "--out", out,
                       *self.files)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no such file; expected one for " + self.files[0], done.stderr)
        self.assertIn("1 of 12 files were not prepared", done.stderr)

    def test_pictures_are_the_arrays(self):
        for pipeline, extension in (([CROP, SHARE], ".ppm"),
                                    ([CROP, SHARE, {"op": "layout", "layout": "NCHW"}], ".ppm"),
                                    ([CROP, SHARE, {"op": "grayscale"}], ".pgm")):
            text = json.dumps(pipeline)
            self.good("--pipeline", text, "--out", self.out, self.files[3])
            self.good("--pipeline", text, "--format", "ppm", "--out", self.out, self.files[3])
            name = os.path.join(self.out, os.path.basename(self.files[3]))
            array = np.load(name + ".npy")
            if array.shape[0] == 3:
                array = array.transpose(1, 2, 0)
            with Image.open(name + extension) as image:
                self.assertTrue(np.array_equal(np.asarray(image).reshape(array.shape), array))

    def test_bfloat16_is_written_as_its_bits(self):
        self.good("--pipeline", json.dumps([CROP, SHARE, {"op": "cast", "dtype": "bfloat16"}]), "--out",
                  self.out, self.files[0])
        bits = np.load(os.path.join(self.out, os.path.basename(self.files[0]) + ".npy"))
        self.assertEqual(bits.dtype, np.uint16)
        values = (bits.astype(np.uint32) << 16).view(np.float32)
        self.assertTrue(((0 <= values) & (values <= 255) & (values == values.round())).all())

    def test_bad_files_are_named_and_the_others_prepared(self):
        bad = os.path.join(self.out, "bad.jpg")
        with open(self.files[0], "rb") as whole, open(bad, "wb") as cut:
            cut.write(whole.read()[:-100])
        out = os.path.join(self.out, "prepared")
        done = prepare("--out", out, self.files[1], bad, self.files[2])
        self.assertEqual(done.returncode, 1)
        self.assertIn(bad + ": ", done.stderr)
        self.assertIn("truncated", done.stderr)
        self.assertIn("1 of 3 files were not prepared", done.stderr)
        self.assertEqual(len([name for name in self.written() if name.endswith(".npy")]), 2)

    def test_files_are_tried_without_a_folder(self):
        bad = os.path.join(self.out, "bad.jpg")
        with open(self.files[0], "rb") as whole, open(bad, "wb") as cut:
            cut.write(whole.read()[:-100])
        done = prepare(*self.files[:2])
        self.assertEqual((done.returncode, done.stdout), (0, "2 files can be prepared\n"))
        done = prepare(self.files[0], bad)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("1 of 2 files were not prepared", done.stderr)
        self.assertEqual(self.written(), ["bad.jpg"])

    def test_unusable_arguments_say_what_was_expected(self):
        file = self.files[0]
        for arguments, expected in (
                (["--out", self.out], "no file"),
                (["--out", self.out, "--recipe", "nonsense", file], 'unknown recipe "nonsense"'),
                (["--out", self.out, "--pipeline", "[{]", file], "not JSON"),
                (["--out", self.out, "--pipeline", '[{"op":"crop"}]', file], 'unknown operation "crop"'),
                (["--out", self.out, "--recipe", "train", "--recipe", "eval", file],
                 "expected one of them, once"),
                (["--out", self.out, "--seed", "-1", file], "--seed '-1': expected a number from 0"),
                (["--out", self.out, "--seed", "0x10", file], "--seed '0x10': expected a number from 0"),
                (["--out", self.out, "--field", "mask=" + self.data, file], "expected NAME=mask:FOLDER"),
                (["--out", self.out, "--field", "image=mask:/tmp", file],
                 "there is a field of this name already"),
                (["--out", self.out, "--format", "gif", file], "expected npy or ppm"),
                (["--out", self.out, "--format", "ppm", "--pipeline",
                  '[{"op":"center_crop","size":8},{"op":"cast","dtype":"float32"}]', file],
                      "no picture of 8 bits"),
                (["--out", self.out, file, file], "given twice"),
                (["--out", self.out, file + ".not"], "there is no file"),
                (["--out", self.out, self.data], "Is a directory"),
                (["--out", self.out, "--nonsense", file], "unknown option '--nonsense'")):
            done = prepare(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn("tureen prepare: ", done.stderr)
            self.assertIn(expected, done.stderr)
        self.assertEqual(self.written(), [])

    def test_what_cannot_be_written_is_said(self):
        done = prepare("--out", "/proc/nowhere", self.files[0])
        self.assertEqual(done.returncode, 1)
        self.assertIn("/proc/nowhere", done.stderr)
        with open("/dev/full", "w") as full:
            done = subprocess.run([harness.TUREEN, "prepare", "--help"], stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    unittest.main()

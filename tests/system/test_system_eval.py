"""Pictures end to end: what the Loader hands out against what Pillow makes of the same files."""
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np
from PIL import Image

import harness
from harness import Server, SystemTest

MOST, MEAN = 2, 0.5


def torchvision_eval(path):
    """Resize (256, bilinear) and CenterCrop (224) as torchvision does on a Pillow image."""
    with Image.open(path) as image:
        image = image.convert("RGB")
    width, height = image.size
    if width <= height:
        size = (256, int(256 * height / width))
    else:
        size = (int(256 * width / height), 256)
    image = image.resize(size, Image.BILINEAR)
    left, top = int(round((size[0] - 224) / 2.0)), int(round((size[1] - 224) / 2.0))
    return np.asarray(image.crop((left, top, left + 224, top + 224)), np.int16)


def listed(root):
    """Paths and labels by id, as torchvision's ImageFolder has them."""
    samples = []
    for label, folder in enumerate(sorted(os.listdir(root))):
        path = os.path.join(root, folder)
        samples += [(os.path.join(path, name), label) for name in sorted(os.listdir(path))]
    return samples


#   Runs in a process of its own, as a training job would: {epoch: (ids, images, labels)} into an .npz file.
JOB = """
import sys, json
import numpy as np
import tureen
request = json.loads(sys.argv[1])
parts = {}
for batch in tureen.Loader(**request):
    for key, array in (("ids", batch.ids), ("image", batch["image"]), ("label", batch["label"])):
        parts.setdefault("%s_%d" % (key, batch.epoch), []).append(np.array(array))
np.savez(sys.argv[2], **{key: np.concatenate(arrays) for key, arrays in parts.items()})
"""


class Pictures(SystemTest):
    SAMPLES = 10

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tu-eval-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def take(self, server, **request):
        import json
        path = os.path.join(self.folder, "taken.npz")
        request.setdefault("endpoint", server.endpoint)
        environment = dict(server.environment, PYTHONPATH=os.path.join(harness.SOURCE, "clients", "python"))
        subprocess.run(["/usr/bin/python3", "-B", "-c", JOB, json.dumps(request), path], env=environment,
                       check=True, timeout=4 * harness.PATIENCE)
        return dict(np.load(path))

    def compare(self, root):
        samples = listed(root)
        with Server({"train": root}) as server:
            for transport in ("auto", "inline"):
                got = self.take(server, dataset="train", batch_size=8, epochs=1, pipeline="eval",
                                transport=transport)
                self.assertEqual(sorted(got["ids_0"]), list(range(len(samples))))
                self.assertEqual(got["image_0"].shape[1:], (224, 224, 3))
                self.assertEqual((got["image_0"].dtype, got["label_0"].dtype), (np.uint8, np.int64))
                most = mean = 0.0
                for number, image, label in zip(got["ids_0"], got["image_0"], got["label_0"]):
                    path, expected = samples[number]
                    self.assertEqual(label, expected, path)
                    difference = np.abs(torchvision_eval(path) - image.astype(np.int16))
                    self.assertLessEqual(difference.max(), MOST, path)
                    self.assertLessEqual(difference.mean(), MEAN, path)
                    most, mean = max(most, difference.max()), max(mean, difference.mean())
                print("%s, %d pictures: at most %d of 255, at most %.3f on average in one"
                      % (transport, len(samples), most, mean), flush=True)

    def test_generated_pictures_of_all_shapes(self):
        generator = np.random.default_rng(harness.SEED)
        print("TEST_SEED=%d" % harness.SEED)
        sizes = [(500, 375), (375, 500), (256, 256), (257, 255), (224, 224), (64, 300), (300, 64), (120, 90),
                 (1000, 300), (333, 1000), (9, 11), (31, 400), (1601, 1203), (260, 640), (640, 258)]
        sizes += [tuple(generator.integers(40, 700, 2)) for _ in range(15)]
        for index, (width, height) in enumerate(sizes):
            folder = os.path.join(self.folder, "data", "kind %d" % (index % 3))
            os.makedirs(folder, exist_ok=True)
            image = harness.make_image(generator, int(width), int(height))
            if index % 7 == 3:
                image = image.convert("L")
            image.save(os.path.join(folder, "%02d.%s" % (index, ("jpg", "jpeg", "JPG")[index % 3])),
                       quality=int(generator.integers(60, 96)), subsampling=index % 3,
                       progressive=index % 4 == 1, optimize=index % 5 == 0)
        self.compare(os.path.join(self.folder, "data"))

    def test_photographs(self):
        found = sorted(glob.glob(os.path.join(harness.SOURCE, "..", "shared", "data", "photos", "*",
                                              "*.[Jj]*")))
        if not found:
            print("=" * 78 + "\nSKIPPED: there are no photographs beside the repository\n" + "=" * 78,
                  flush=True)
            self.skipTest("no photographs here")
        for index, path in enumerate(found[::max(1, len(found) // 24)][:24]):
            folder = os.path.join(self.folder, "photos", "part_%d" % (index % 2))
            os.makedirs(folder, exist_ok=True)
            shutil.copy(path, os.path.join(folder, "%03d.jpg" % index))
        self.compare(os.path.join(self.folder, "photos"))

    def test_train_pictures_are_new_each_time(self):
        #  To one job, that is: a later one may be given what an earlier one has seen.
        with self.serve() as server:
            for order in ("shared", "private"):
                got = self.take(server, dataset="train", batch_size=4, epochs=4, order=order)
                pictures = {}
                for epoch in range(4):
                    arrays = [got["%s_%d" % (key, epoch)] for key in ("ids", "image", "label")]
                    for number, image, label in zip(*arrays):
                        self.assertEqual(label, self.labels[number])
                        pictures.setdefault(int(number), []).append(image)
                self.assertEqual(len(pictures), self.SAMPLES)
                for number, images in pictures.items():
                    self.assertEqual(len(images), 4)
                    for index, image in enumerate(images):
                        self.assertGreater(image.std(), 1)
                        for other in images[:index]:
                            same = np.array_equal(image, other) or np.array_equal(image[:, ::-1], other)
                            self.assertFalse(same, "sample %d came twice with the same crop" % number)

    def test_jobs_share_the_crop_and_flip_by_themselves(self):
        #  Two equal jobs get the same version of a sample, or its mirror image, but not always the same of
        #  the two.
        import plain_client
        with self.serve(cache="8M") as server:
            jobs = [plain_client.Job(server.endpoint) for _ in range(2)]
            pictures = [{}, {}]
            for job in jobs:
                job.join(dataset="train", batch_size=10, epochs=4)
            for job in jobs:
                job.start()
            for job, seen in zip(jobs, pictures):
                while not isinstance(event := job.event(), plain_client.EpochEnd) or not event.last:
                    if isinstance(event, plain_client.Batch):
                        images = np.array(event.fields["image"]).reshape(event.count, 224, 224, 3)
                        seen.update({(event.epoch, number): image for number,
                                     image in zip(event.ids, images)})
                        job.progress(event.sequence + 1, event.sequence + 1)
            same = sum(np.array_equal(image, pictures[1][key]) for key, image in pictures[0].items())
            mirrored = sum(np.array_equal(image[:, ::-1], pictures[1][key]) for key,
                           image in pictures[0].items())
            print("of %d shared: %d the same, %d mirrored" % (len(pictures[0]), same, mirrored), flush=True)
            del event
            for job in jobs:
                job.leave()
                job.close()
            self.assertEqual(same + mirrored, 40)
            self.assertTrue(5 <= same <= 35)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))

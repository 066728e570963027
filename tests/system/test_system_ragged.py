"""Ragged files beside images, and alone, in the real server: each sample's rows are those of its files,
whichever way they come, and each comes once an epoch, whatever dies."""
import json
import os
import shutil
import signal
import sys
import tarfile
import unittest

import numpy as np

import harness
from harness import SystemTest, seeded, wait_until

sys.path.insert(0, os.path.join(harness.SOURCE, "clients", "python"))
import tureen  # noqa: E402
import ragged_job  # noqa: E402
from ragged_job import PIPELINE, TEXT_MAX, TOKENS_MAX, tokens, wrong  # noqa: E402

BATCH, EPOCHS = 8, 2
ALONE = [{"op": "decode", "as": "array", "dtype": "int32", "shape": [TOKENS_MAX], "ragged": True}]


class Ragged(SystemTest):
    SAMPLES = 160

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, extension, write in (
                ("tokens", ".npy", lambda file, number: np.save(file, tokens(number))),
                ("text", ".txt", lambda file, number: file.write(ragged_job.text(number).encode())),
                ("boxes", ".npy", lambda file, number: np.save(file, ragged_job.boxes(number)))):
            for number, label in enumerate(cls.labels):
                folder = os.path.join(cls.root, name, "class_%d" % label)
                os.makedirs(folder, exist_ok=True)
                with open(os.path.join(folder, "%05d%s" % (number, extension)), "wb") as file:
                    write(file, number)

    def field(self, name):
        return "%s=file:%s" % (name, os.path.join(self.root, name))

    def serve(self, **options):
        fields = ("tokens", "text", "boxes")
        return harness.Server(
            {"train": self.data, "alone": os.path.join(self.root, "tokens"), **options.pop("datasets", {})},
            cache="4M", arguments=("--extensions", "alone=.npy", *(
                word for name in fields for word in ("--field", "train." + self.field(name)))), **options)

    def loader(self, server, **request):
        return tureen.Loader(server.endpoint, **dict(
            {"dataset": "train", "batch_size": BATCH, "epochs": EPOCHS, "pipeline": PIPELINE,
             "timeout": harness.PATIENCE}, **request))

    def assert_all(self, batches, epochs=EPOCHS):
        had = {}
        for batch in batches:
            self.assertEqual(wrong(batch), 0)
            had.setdefault(batch.epoch, []).extend(batch.ids.tolist())
        self.assert_epochs({"epochs": had}, epochs)

    def test_rows_are_those_of_the_files(self):
        with self.serve() as server:
            for order in ("shared", "private", "seeded", "list"):
                for transport in ("auto", "inline"):
                    with self.subTest(order, transport=transport):
                        self.assert_all(self.loader(server, order=order, transport=transport,
                                                    seed=7 if order == "seeded" else None))

    def test_values_offsets_and_padding(self):
        with self.serve() as server:
            for batch in self.loader(server, order="list", epochs=1):
                rows = [tokens(number) for number in batch.ids.tolist()]
                found = batch["tokens"]
                self.assertEqual(found.values.tolist(), np.concatenate(rows).tolist())
                self.assertEqual(found.offsets.tolist(), [0, *np.cumsum([len(row) for row in rows])])
                padded = found.padded(-1)
                self.assertEqual(padded.shape, (len(rows), max(map(len, rows))))
                for got, row in zip(padded, rows):
                    self.assertEqual(got.tolist(), [*row, *[-1] * (len(got) - len(row))])
                self.assertEqual(batch["text"].texts(),
                                 [ragged_job.text(number)[:TEXT_MAX] for number in batch.ids.tolist()])
                self.assertEqual(list(batch), ["image", "tokens", "text", "boxes", "label"])

    def test_tokens_alone(self):
        """A data set without images; a client of the wire's fields gets the rows with zeros behind them."""
        with self.serve() as server:
            had = []
            for batch in self.loader(server, dataset="alone", pipeline=ALONE, epochs=1):
                for number, row in zip(batch.ids.tolist(), batch["array"]):
                    self.assertEqual(row.tolist(), tokens(number).tolist())
                    had.append(number)
            self.assertEqual(sorted(had), list(range(self.SAMPLES)))
            fields = self.loader(server, dataset="alone", pipeline=ALONE).fields.values()
            self.assertEqual([(field.name, field.told, field.shape, field.lengths) for field in fields],
                             [("array", "int32", (TOKENS_MAX,), "array_length"),
                              ("array_length", "int64", (), ""), ("label", "int64", (), "")])

    def test_packed(self):
        """By `tureen pack` from folders, and as members of a tar file."""
        packs = {name: os.path.join(self.root, name) for name in ("pack", "shard")}
        shard = os.path.join(self.root, "shard.tar")
        with tarfile.open(shard, "w") as tar:
            for number, label in enumerate(self.labels):
                for folder, extension, key in (
                        ("train", ".jpg", "jpg"), ("tokens", ".npy", "tokens.npy"),
                        ("text", ".txt", "caption.txt"), ("boxes", ".npy", "boxes.npy")):
                    tar.add(os.path.join(self.root, folder, "class_%d" % label, "%05d" % number + extension),
                            "%05d.%s" % (number, key))
        fields = [word for name in ("tokens", "text", "boxes") for word in ("--field", self.field(name))]
        for arguments in (["--quiet", *fields, self.data, packs["pack"]], ["--quiet", shard, packs["shard"]]):
            done = harness.run("pack", *arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
        with self.serve(datasets=packs) as server:
            self.assert_all(self.loader(server, dataset="pack"))
            named = [dict(step) for step in PIPELINE]
            named[0]["fields"] = ["image", *[{**field, "field": {"text": "caption_txt"}.get(
                field["field"], field["field"] + "_npy")} for field in PIPELINE[0]["fields"][1:]]]
            had = 0
            for batch in self.loader(server, dataset="shard", pipeline=named, epochs=1):
                for number, row in zip(batch.ids.tolist(), batch["tokens_npy"]):
                    self.assertEqual(row.tolist(), tokens(number).tolist())
                self.assertEqual(batch["caption_txt"].texts(),
                                 [ragged_job.text(number)[:TEXT_MAX] for number in batch.ids.tolist()])
                had += len(batch)
            self.assertEqual(had, self.SAMPLES)

    def test_more_rows_than_declared(self):
        short = [{**ALONE[0], "shape": [TOKENS_MAX - 1]}]
        with self.serve() as server:
            with self.assertRaises(tureen.JobEnded) as ended:
                for _ in self.loader(server, dataset="alone", pipeline=short):
                    pass
            self.assertEqual(ended.exception.reason, "unsuitable")
            self.assertIn('40 rows, more than the 39 that "shape" allows', str(ended.exception))
            for batch in self.loader(server, dataset="alone", pipeline=[{**short[0], "truncate": True}]):
                for number, row in zip(batch.ids.tolist(), batch["array"]):
                    self.assertEqual(row.tolist(), tokens(number)[:TOKENS_MAX - 1].tolist())

    def test_a_damaged_file(self):
        """It is bad, with its name, for the jobs that read it, and left out."""
        path = os.path.join(self.root, "tokens", "class_0", "00003.npy")
        kept = path + ".kept"
        os.rename(path, kept)
        self.addCleanup(os.rename, kept, path)
        shutil.copy(kept, path)
        with open(path, "r+b") as file:
            file.truncate(os.path.getsize(path) - 1)
        with self.serve() as server, self.assertWarnsRegex(tureen.UnreadableWarning, "00003.npy"):
            had = [number for batch in self.loader(server, epochs=1) for number in batch.ids.tolist()]
            self.assertEqual(sorted(had), [number for number in range(self.SAMPLES) if number != 3])

    def test_functions_get_arrays_and_lengths(self):
        with self.serve() as server:
            for batch in self.loader(server, epochs=1, map_batch=padded_batch):
                for number, row in zip(batch.ids.tolist(), batch["tokens"]):
                    row = row[row != -1]
                    self.assertEqual(row.tolist(), tokens(number).tolist())

    #   ---- what dies

    def had(self, path):
        if not os.path.exists(path):
            return {"epochs": {}, "wrong": 0}
        with open(path, encoding="ascii") as file:
            return json.load(file)

    def delivered(self, path):
        return sum(map(len, self.had(path)["epochs"].values()))

    def job(self, server, path, **request):
        return server._add(harness.ScriptJob(server, "ragged_job.py", {
            "dataset": "train", "batch_size": BATCH, "epochs": EPOCHS, "timeout": harness.PATIENCE,
            "rejoin": 4 * harness.PATIENCE, "file": path, "pause": 0.01, **request}))

    def test_the_client_and_the_server_are_killed(self):
        for order in ("shared", "seeded"):
            chance = seeded(order)
            with self.subTest(order), self.serve() as server:
                path, killed = os.path.join(server.folder, "state"), 0
                job = self.job(server, path, order=order, **({"seed": 7} if order == "seeded" else {}))
                while killed < 4:
                    most = self.delivered(path) + chance.randrange(1, 8) * BATCH
                    wait_until("it has had some more",
                               lambda: self.delivered(path) >= most or job.process.poll() is not None)
                    if job.process.poll() is not None:
                        break
                    killed += 1
                    if killed % 2:
                        job.signal(signal.SIGKILL)
                        job.wait()
                        job = self.job(server, path, order=order,
                                       **({"seed": 7} if order == "seeded" else {}))
                    else:
                        server.kill()
                        server.start()
                self.assertEqual(job.wait(), 0, job.texts()[1])
                self.assertGreater(killed, 2)
                had = self.had(path)
                self.assertEqual(had["wrong"], 0)
                self.assert_epochs({"epochs": {int(epoch): ids for epoch, ids in had["epochs"].items()}},
                                   EPOCHS)


def padded_batch(batch):
    """Functions get the fields as they are on the wire."""
    rows = tureen.Ragged(batch["tokens"], batch["tokens_length"])
    return {"tokens": rows.padded(-1, 40).copy()}


if __name__ == "__main__":
    unittest.main()

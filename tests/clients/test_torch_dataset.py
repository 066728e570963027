"""What a loader knows of its data, against the real server: classes, targets, names, single samples, subsets
by class; and what it says of samples that cannot be read.

Run by ctest (torch_dataset), or by hand: TUREEN_BIN=build/release/bin python3
tests/clients/test_torch_dataset.py [-v] [NAME]
"""
from __future__ import annotations

import gc
import os
import pickle
import shutil
import sys
import tempfile
import unittest
import warnings
from pathlib import Path
from typing import Any, List
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "system"), str(HERE.parent.parent / "clients" / "python")]

import torch_or_skip                    # noqa: F401  # ends this program where there is no PyTorch
import harness
import numpy as np
import torch

import tureen
from tureen import names
from tureen.torch import DataLoader

SAMPLES = 22
CROP = [{"op": "resize", "size": [16, 16]}]
BAD = (3, 9, 20)
DEPTHS = np.array([[65535, 0, 256], [32768, 32767, 1]], np.uint16)


def setUpModule() -> None:
    global DATA, LABELS, SERVER
    folder = tempfile.mkdtemp(prefix="tu-torch-", dir="/tmp")
    unittest.addModuleCleanup(shutil.rmtree, folder, ignore_errors=True)
    DATA = os.path.join(folder, "train")
    LABELS = harness.make_folder(DATA, SAMPLES, classes=3, seed=harness.SEED, sizes=((20, 30), (20, 30)))
    listed = {"captioned": lambda index: f"\t{index}\t{index}.5,2\tno {index} ü", "bare": lambda index: "",
              "single": lambda index: f"\t{index}.25"}
    columns = {"captioned": "\tnumber\tpair\tcaption", "bare": "", "single": "\tscore"}
    for name, row in listed.items():
        shutil.copytree(DATA, os.path.join(folder, name))
        paths = sorted(path.relative_to(DATA) for path in Path(DATA).glob("*/*.jpg"))
        Path(folder, name, "labels.tsv").write_text("\n".join(
            ["path" + columns[name], *(f"{path}{row(index)}" for index, path in enumerate(paths))]) + "\n",
                encoding="utf-8")
    spoilt = shutil.copytree(DATA, os.path.join(folder, "spoilt"))
    for number in BAD:
        Path(spoilt, f"class_{LABELS[number]}", f"{number:05}.jpg").write_bytes(b"")
    #  Class names that together are more than JOINED tells, and that are in several parts.
    for number in range(1500):
        name = f"{number:04}" + "n" * 196
        os.makedirs(os.path.join(folder, "many", name))
        os.symlink(os.path.join(DATA, "class_0", "00000.jpg"), os.path.join(folder, "many", name, "x.jpg"))
    for part, values in (("deep", np.zeros((*DEPTHS.shape, 3), np.uint8)), ("depth", DEPTHS)):
        os.makedirs(os.path.join(folder, part, "a"))
        harness.Image.fromarray(values).save(os.path.join(folder, part, "a", "0.png"))
    SERVER = harness.Server({"train": DATA, **{name: os.path.join(folder, name)
                                               for name in (*listed, "spoilt", "many", "deep")}},
                            arguments=["--field", "deep.depth=mask:" + os.path.join(folder, "depth")])
    SERVER.__enter__()
    unittest.addModuleCleanup(SERVER.__exit__, None, None, None)


def loader(dataset: str = "train", **options: Any) -> DataLoader:
    return DataLoader(dataset, **{"batch_size": 5, "endpoint": SERVER.endpoint, "transform": CROP,
                                  "timeout": harness.PATIENCE,
                                  **options})


def name_of(number: int) -> str:
    return f"class_{LABELS[number]}/{number:05}.jpg"


class Tables(unittest.TestCase):
    def jobs(self) -> int:
        return int(SERVER.status()["jobs_total"])

    def test_an_image_folder(self) -> None:
        before = self.jobs()
        data = loader().dataset
        self.assertEqual((len(data), data.classes), (SAMPLES, ("class_0", "class_1", "class_2")))
        self.assertEqual(data.class_to_idx, {"class_0": 0, "class_1": 1, "class_2": 2})
        self.assertEqual((data.targets.dtype, data.targets.tolist()), (np.int64, LABELS))
        self.assertEqual(list(data.names), [name_of(number) for number in range(SAMPLES)])
        self.assertEqual(list(data.samples), [(name_of(number), LABELS[number]) for number in range(SAMPLES)])
        self.assertEqual((data.samples[-1], data.names[2:4]),
                         ((name_of(21), LABELS[21]), [name_of(2), name_of(3)]))
        self.assertEqual(data.ids.tolist(), list(range(SAMPLES)))
        self.assertEqual(torch.bincount(torch.as_tensor(data.targets)).tolist(), np.bincount(LABELS).tolist())
        with self.assertRaises(IndexError):
            data.names[SAMPLES]
        self.assertEqual(self.jobs(), before, "a job was joined")

    def test_questions_leave_no_connection_open(self) -> None:
        """Nor does Python's collector find one to close."""
        gc.collect()                            # what other tests have left
        with warnings.catch_warnings():
            warnings.simplefilter("error", ResourceWarning)
            with mock.patch.object(sys, "unraisablehook") as found:
                data = loader().dataset
                self.assertEqual((len(data.targets), len(list(data.names))), (SAMPLES, SAMPLES))
                del data
                gc.collect()
            self.assertEqual(found.call_args_list, [])

    def test_a_subset_counts_its_own_places(self) -> None:
        for subset in (range(5, 12), [20, 3, 9], (0, 4), np.arange(SAMPLES) % 3 == 1):
            data = loader(subset=subset).dataset
            ids = sorted(subset) if isinstance(subset, (list, range)) else (
                list(range(*subset)) if isinstance(subset, tuple) else np.flatnonzero(subset).tolist())
            self.assertEqual((len(data), data.ids.tolist()), (len(ids), ids))
            self.assertEqual(data.targets.tolist(), [LABELS[number] for number in ids])
            self.assertEqual(list(data.samples), [(name_of(number), LABELS[number]) for number in ids])

    def test_a_subset_of_torchs(self) -> None:
        """As random_split makes them, also of each other; no sample of the old data set is read."""
        class Old(torch.utils.data.Dataset):  # type: ignore[type-arg]
            def __len__(self) -> int:
                return SAMPLES

            def __getitem__(self, index: int) -> Any:
                raise AssertionError(f"sample {index} was read")
        whole, rest = torch.utils.data.random_split(Old(), [15, SAMPLES - 15])
        part = torch.utils.data.Subset(whole, torch.tensor([3, 1, 4, 14]))
        for subset, ids in ((whole, whole.indices), (rest, rest.indices),
                            (part, [whole.indices[place] for place in (3, 1, 4, 14)])):
            with loader(subset=subset, shuffle=True, ids=True) as train:
                self.assertEqual(train.dataset.ids.tolist(), sorted(ids))
                self.assertEqual(sorted(number for batch in train for number in batch[-1].tolist()),
                                 sorted(ids))
        with self.assertRaisesRegex(ValueError, "at least one"):
            loader(subset=torch.utils.data.Subset(whole, []))
        with self.assertRaisesRegex(ValueError, "at least one"):
            loader(subset=torch.utils.data.Subset(part, []))
        other = loader(subset=torch.utils.data.Subset(range(50), [1, 2]))
        with self.assertRaisesRegex(tureen.RequestRefused, f"of 50 samples, .*'train' has {SAMPLES}"):
            other.dataset.ids
        with self.assertRaisesRegex(tureen.RequestRefused, f"of 50 samples, .*'train' has {SAMPLES}"):
            next(iter(other))

    def test_labels_files(self) -> None:
        data = loader("captioned").dataset
        self.assertIsNone(data.classes)
        self.assertIsNone(data.class_to_idx)
        self.assertEqual(data.targets["number"].tolist(), list(range(SAMPLES)))
        self.assertEqual(data.targets["pair"].tolist(), [[number + .5, 2.0] for number in range(SAMPLES)])
        self.assertEqual(data.targets["caption"], [f"no {number} ü" for number in range(SAMPLES)])
        name, target = data.samples[4]
        self.assertEqual((name, target["number"], target["pair"].tolist(), target["caption"]),
                         (name_of(4), 4, [4.5, 2.0], "no 4 ü"))
        self.assertIsNone(loader("bare").dataset.targets)
        self.assertEqual(loader("bare").dataset.samples[4], (name_of(4), None))
        self.assertEqual(loader("single").dataset.targets.tolist(),
                         [number + .25 for number in range(SAMPLES)])

    def test_tables_in_parts(self) -> None:
        data = loader("many").dataset
        names = [f"{number:04}" + "n" * 196 for number in range(1500)]
        self.assertEqual(data.classes, tuple(names))
        self.assertIsNone(loader("many")._question().classes)
        self.assertEqual(list(data.names), [name + "/x.jpg" for name in names])
        self.assertEqual(data.targets.tolist(), list(range(1500)))
        with mock.patch.object(tureen.dataset.DataSet, "_ask", side_effect=AssertionError("asked again")):
            self.assertEqual((len(data.classes), len(data.names), len(data.targets)), (1500, 1500, 1500))
        for table, count, content, message in (
                ("names", 3, b"1234567", "3 texts have 7 bytes"),
                ("names", 2, b"\3\0\0\0\4\0\0\0" + b"12345", "texts of 7 bytes have 5"),
                ("classes", 1501, 1501 * bytes(4), "table 'classes' has 1501 rows instead of 1500"),
                ("targets", 1500, b"123", "label 'label' has 3 bytes")):
            wrong, part = loader("many").dataset, {"count": count, "fingerprint": data._told.fingerprint}
            wrong._facts = data._told
            with self.subTest(message), mock.patch.object(tureen.dataset.DataSet, "_ask",
                                                          return_value=(part, content)):
                with self.assertRaisesRegex(tureen.ProtocolError, f"DATASET_REPLY cannot .*: {message}$"):
                    getattr(wrong, table)
        for frames, message in (([b"{}", b""], "it has 3 frames"),
                                ([b'{"labels":[{}]}'], "it does not describe its labels")):
            with mock.patch.object(tureen.dataset.ControlConnection, "ask", return_value=frames):
                with self.assertRaisesRegex(tureen.ProtocolError, f"DATASET_REPLY cannot .*: {message}$"):
                    len(loader("many").dataset)

    def test_other_data_by_now(self) -> None:
        data = loader().dataset
        self.assertEqual(len(data), SAMPLES)
        data._facts = data._facts._replace(fingerprint="0" * 32)
        with self.assertRaisesRegex(tureen.RequestRefused, "has other data by now"):
            data.targets

    def test_a_server_that_has_no_tables(self) -> None:
        """An older one: what it told before it tells still."""
        refused = tureen.RequestRefused("unknown_kind", "no message to the server has kind 9")
        data = loader().dataset
        with mock.patch.object(tureen.dataset.DataSet, "_ask", side_effect=refused):
            self.assertEqual((len(data), data.classes), (SAMPLES, ("class_0", "class_1", "class_2")))
            with self.assertRaisesRegex(tureen.RequestRefused, "too old to tell"):
                data.targets

    def test_unknown_data(self) -> None:
        with self.assertRaises(tureen.RequestRefused) as caught:
            len(loader("nothing").dataset)
        self.assertEqual(caught.exception.code, "unknown_dataset")
        with self.assertRaises(tureen.NoServer):
            len(loader(endpoint="ipc:///tmp/no-such-folder/s.sock", timeout=0.2).dataset)


class Singles(unittest.TestCase):
    def test_a_sample_is_as_in_a_batch(self) -> None:
        train = loader(ids=True, slots=8)
        batches = list(train)
        for place in (0, 7, -1):
            image, label, number = train.dataset[place]
            place %= SAMPLES
            of_batch = batches[place // 5]
            self.assertTrue(torch.equal(image, of_batch[0][place % 5]))
            self.assertEqual((image.shape, label, number), ((3, 16, 16), LABELS[place], place))
            self.assertIsInstance(label, int)
        with self.assertRaises(IndexError):
            train.dataset[SAMPLES]
        data = loader("captioned", subset=[2, 5], fields=True).dataset
        self.assertEqual({key: value for key, value in data[1].items() if key not in ("image", "pair")},
                         {"number": 5, "caption": "no 5 ü"})
        self.assertEqual([sample["number"] for sample in data], [2, 5])

    def test_it_is_a_dataset_for_pytorch(self) -> None:
        data = loader().dataset
        halves = torch.utils.data.random_split(data, [11, 11], generator=torch.Generator().manual_seed(3))
        found: List[int] = []
        for half in halves:
            for images, labels in torch.utils.data.DataLoader(half, batch_size=4):
                self.assertEqual(images.shape[1:], (3, 16, 16))
                found += labels.tolist()
        self.assertEqual(sorted(found), LABELS)

    def test_a_mask_of_16_bits(self) -> None:
        """PyTorch computes with no uint16: the numbers come in the next wider type, of a batch and alone."""
        depth = {"field": "depth", "as": "mask", "dtype": "uint16"}
        transform = [{"op": "decode", "fields": ["image", depth]}, {"op": "center_crop", "size": [2, 3]}]
        with loader("deep", transform=transform, fields=True) as train:
            for found in (next(iter(train))["depth"].squeeze(), train.dataset[0]["depth"].squeeze()):
                self.assertEqual((found.dtype, found.tolist()), (torch.int32, DEPTHS.tolist()))

    def test_numpy(self) -> None:
        data = tureen.DataSet("train", SERVER.endpoint, pipeline=CROP, subset=["class_2"])
        self.assertEqual((len(data), data[0]["image"].shape, int(data[0]["label"])),
                         (LABELS.count(2), (16, 16, 3), 2))
        core = tureen.Loader(SERVER.endpoint, "train", 5, pipeline=CROP, subset=[4, 6])
        self.assertEqual((core.dataset.ids.tolist(), int(core.dataset[1]["label"])), ([4, 6], LABELS[6]))

    def test_one_that_cannot_be_read(self) -> None:
        data = loader("spoilt").dataset
        for _ in range(2):              # found, and known
            with self.assertRaises((tureen.JobEnded, tureen.RequestRefused)) as caught:
                data[9]
            self.assertIn("00009.jpg: ", str(caught.exception))
            self.assertIn("bad_sample", str(caught.exception))
        self.assertEqual(data[8][1], LABELS[8])


class OtherNames(unittest.TestCase):
    def test_all_epochs_are_of_the_data_that_were_meant(self) -> None:
        """The server calls them "train"; of another name of the server's only the user's is seen."""
        def call(served: str) -> None:
            data = names.Data("mine", served)
            data.served = served
            names.note(SERVER.endpoint, [data])
        self.addCleanup(names.forget, SERVER.endpoint)
        for options in ({"sampler": range(12)}, {"shuffle": True}):
            call("train")
            with loader("mine", **options) as mine:
                for _ in range(2):
                    for _ in mine:
                        self.assertEqual([job["dataset"] for job in SERVER.status()["jobs"]], ["train"])
                    call("spoilt")
                self.assertEqual((mine.dataset.name, mine.dataset.classes, mine.dataset[5][1]),
                                 ("mine", ("class_0", "class_1", "class_2"), LABELS[5]))
                with tempfile.TemporaryFile() as file:
                    torch.save(mine.state_dict(), file)     # plain
                    file.seek(0)
                    self.assertEqual(torch.load(file, weights_only=True), mine.state_dict())


class Subsets(unittest.TestCase):
    def test_by_names_of_classes(self) -> None:
        wanted = [number for number in range(SAMPLES) if LABELS[number] in (0, 2)]
        for names in (["class_2", "class_0"], ("class_0", "class_2"), {"class_0", "class_2"},
                      np.array(["class_0", "class_2"])):
            some = loader(subset=names, ids=True, shuffle=True)
            self.assertEqual((len(some), len(some.dataset)), (-(-len(wanted) // 5), len(wanted)))
            for _ in range(2):
                self.assertEqual(sorted(number for batch in some for number in batch[-1].tolist()), wanted)
            some.close()
        core = tureen.Loader(SERVER.endpoint, "train", 5, epochs=1, pipeline=CROP, subset=["class_1"])
        self.assertEqual(sorted(number for batch in core for number in batch.ids.tolist()),
                         [number for number in range(SAMPLES) if LABELS[number] == 1])
        core.close()
        again = pickle.loads(pickle.dumps(loader(subset=["class_1"])))
        self.assertEqual(len(again.dataset), LABELS.count(1))

    def test_a_state_of_classes(self) -> None:
        some = loader(subset=["class_1", "class_2"], ids=True, shuffle=True)
        first = next(iter(some))[-1].tolist()
        state = some.state_dict()
        some.close()
        some = loader(subset=["class_2", "class_1"], ids=True, shuffle=True)
        some.load_state_dict(state)
        rest = [number for batch in some for number in batch[-1].tolist()]
        self.assertEqual(sorted(first + rest), [number for number in range(SAMPLES) if LABELS[number]])
        some.close()

    def test_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "has no class 'class_9'.*'class_0'"):
            next(iter(loader(subset=["class_9"])))
        with self.assertRaisesRegex(ValueError, "'captioned' has no classes"):
            next(iter(loader("captioned", subset=["class_0"])))
        with self.assertRaisesRegex(TypeError, "give a list"):
            loader(subset="class_0")
        with self.assertRaisesRegex(TypeError, "must be a string"):
            loader(subset=["class_0", 3])


class Unreadable(unittest.TestCase):

    def test_len_is_what_comes(self) -> None:
        for options in ({"shuffle": True}, {}, {"seed": 7}, {"shuffle": True, "drop_last": True},
                        {"sampler": list(range(SAMPLES))[::-1]}):
            with self.subTest(**options), loader("spoilt", batch_size=1, **options) as train, \
                    warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                counts = []
                for _ in range(3):
                    counts.append((sum(1 for _ in train), len(train)))
                self.assertEqual(counts[1:], [(SAMPLES - 3, SAMPLES - 3)] * 2)
                self.assertEqual(counts[0], (SAMPLES - 3, SAMPLES - 3))
                self.assertEqual([warning.category for warning in told], [tureen.UnreadableWarning],
                                 list(map(str, told)))
                self.assertRegex(str(told[0].message), "^3 samples of this job's data cannot be read, and "
                                 "are left out: ")
                self.assertEqual(told[0].filename, __file__)
                stats = train.stats()["unreadable"]
                self.assertEqual((stats["count"], sorted(sample["id"] for sample in stats["samples"])),
                                 (3, list(BAD)))

    def test_a_job_that_fails(self) -> None:
        with loader("spoilt", on_bad="fail") as train:
            with self.assertRaises((tureen.JobEnded, tureen.RequestRefused)) as caught:
                list(train)
            self.assertIn("bad_sample", str(caught.exception))
        with loader("spoilt", on_bad="fail", subset=range(10, 20)) as train:
            self.assertEqual(len(list(train)), 2)
        with self.assertRaisesRegex(ValueError, "on_bad must be one of drop, fail"):
            loader(on_bad="skip")


if __name__ == "__main__":
    unittest.main(verbosity=2)

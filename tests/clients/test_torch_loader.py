"""tureen.torch against the real server: one epoch a loop, every order, states at every step, batches that are
kept.

Run by ctest (torch_loader), or by hand: TUREEN_BIN=build/release/bin python3
tests/clients/test_torch_loader.py [-v] [NAME]
"""
from __future__ import annotations

import gc
import io
import itertools
import json
import multiprocessing
import os
import pickle
import shutil
import signal
import sys
import tempfile
import threading
import unittest
import warnings
from pathlib import Path
from typing import Any, Dict, Iterator, List
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "system"), str(HERE.parent.parent / "clients" / "python")]

import torch_or_skip                    # noqa: F401  # ends this program where there is no PyTorch
import harness
import numpy as np
import torch
from client_checks import called

import tureen
from late_device import LateDevice
from tureen.mixing import Mixer, split
from tureen.torch import DataLoader, normalize

SAMPLES = 22
THREADS = (2, 4, 8)
CROP = [{"op": "resize", "size": [16, 16]}]
SAMPLER_IDS = [3, 21, 3, 0, 7, 8, 9, 12, 11, 20]


def setUpModule() -> None:
    """One server and one small folder for all tests but those that kill theirs."""
    global DATA, LABELS, SERVER
    folder = tempfile.mkdtemp(prefix="tu-torch-", dir="/tmp")
    unittest.addModuleCleanup(shutil.rmtree, folder, ignore_errors=True)
    DATA = os.path.join(folder, "train")
    LABELS = harness.make_folder(DATA, SAMPLES, classes=3, seed=harness.SEED, sizes=((20, 30), (20, 30)))
    listed = {"captioned": lambda index: f"\t{index}\t{index}.5,2\tno {index} ü", "bare": lambda index: ""}
    for name, columns in listed.items():
        shutil.copytree(DATA, os.path.join(folder, name))
        paths = sorted(path.relative_to(DATA) for path in Path(DATA).glob("*/*.jpg"))
        lines = ["path" + ("\tnumber\tpair\tcaption" if columns(0) else "")]
        lines += [f"{path}{columns(index)}" for index, path in enumerate(paths)]
        Path(folder, name, "labels.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    SERVER = harness.Server({"train": DATA, **{name: os.path.join(folder, name) for name in listed}})
    SERVER.__enter__()
    unittest.addModuleCleanup(SERVER.__exit__, None, None, None)


def loader(**options: Any) -> DataLoader:
    options.setdefault("endpoint", SERVER.endpoint)
    options.setdefault("transform", CROP)
    return DataLoader(options.pop("dataset", "train"), **{"batch_size": 5, "ids": True,
                                                          "timeout": harness.PATIENCE, **options})


def ids_of(batches: Any) -> List[List[int]]:
    """Of each batch."""
    return [batch[-1].tolist() for batch in batches]


def flat(lists: List[List[int]]) -> List[int]:
    return list(itertools.chain.from_iterable(lists))


def taken_by_threads(number: int, batches: Any) -> List[int]:
    """The ids that so many of them get of one iterator; they change places as often as they can."""
    taken: List[List[int]] = [[] for _ in range(number)]
    failed: List[BaseException] = []
    together = threading.Barrier(len(taken))

    def take(own: List[int]) -> None:
        together.wait()
        try:
            for batch in batches:
                own += batch.ids.tolist() if isinstance(batch, tureen.Batch) else batch[-1].tolist()
        except BaseException as error:
            failed.append(error)
    threads = [threading.Thread(target=take, args=(own,)) for own in taken]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    if failed:
        raise failed[0]
    return flat(taken)


class Rest:
    """Accelerate's SkipBatchSampler."""

    def __init__(self, batch_sampler: Any, count: int) -> None:
        self.batch_sampler, self._count = batch_sampler, count

    def __len__(self) -> int:
        return len(self.batch_sampler) - self._count

    def __iter__(self) -> Iterator[Any]:
        return (step for index, step in enumerate(self.batch_sampler) if index >= self._count)


def without_first(train: DataLoader, count: int) -> Any:
    """As its skip_first_batches."""
    return torch.utils.data.DataLoader(train.dataset, collate_fn=train.collate_fn,
                                       batch_sampler=Rest(train.batch_sampler, count))


ORDERS: Dict[str, Dict[str, Any]] = {
    "in order": {}, "shared": {"shuffle": True}, "private": {"order": "private"}, "seeded": {"seed": 7},
    "dropped": {"shuffle": True, "drop_last": True}, "sampler": {"sampler": SAMPLER_IDS}}


MIXES = [{"op": "mix_up", "alpha": 1.0, "num_classes": 3}, {"op": "cut_mix", "alpha": 0.5, "num_classes": 3}]


def by_torchvision(images: torch.Tensor, lam: float, box: Any) -> torch.Tensor:
    """MixUp and CutMix of its v2; of uint8 rounded, which it does not take."""
    if box is None:
        values = images.float() if images.dtype == torch.uint8 else images
        mixed = values.roll(1, 0).mul_(1.0 - lam).add_(values.mul(lam))
        return mixed.round().to(torch.uint8) if images.dtype == torch.uint8 else mixed
    y1, x1, y2, x2 = box
    output = images.clone()
    output[..., y1:y2, x1:x2] = images.roll(1, 0)[..., y1:y2, x1:x2]
    return output


class Loops(unittest.TestCase):
    def tearDown(self) -> None:
        """What a test has left must not be what the next one finds."""
        gc.collect()
        harness.wait_until("no job is left", lambda: not SERVER.status()["jobs"])

    def test_a_batch_dies_without_python_code(self) -> None:
        """An exception would be lost there: a Ctrl-C, say."""
        with loader() as train:
            batches = iter(train)
            for _ in range(4):
                held = [next(batches)]
                self.assertEqual(called(held.clear), [])
            del batches

    def test_a_loop_is_an_epoch_and_the_job_stays(self) -> None:
        with loader(shuffle=True, name="stays") as train:
            self.assertEqual((len(train), len(train.dataset), train.dataset.classes),
                             (5, SAMPLES, ("class_0", "class_1", "class_2")))
            jobs, epochs = set(), []
            for epoch in range(3):
                self.assertEqual(train.epoch, epoch)
                train.set_epoch(epoch)                  # as scripts do: it is the next one anyway
                ids = []
                for images, labels, batch_ids in train:
                    self.assertEqual(train.epoch, epoch)
                    self.assertEqual((images.dtype, images.shape[1:]), (torch.uint8, (3, 16, 16)))
                    self.assertTrue(images.is_contiguous(memory_format=torch.channels_last))
                    self.assertEqual(labels.tolist(), [LABELS[id] for id in batch_ids])
                    ids += batch_ids.tolist()
                self.assertEqual(sorted(ids), list(range(SAMPLES)))
                epochs.append(ids)
                jobs.add(SERVER.job_status("stays")["job"])
            self.assertEqual(len(jobs), 1, "no epoch joins anew")
            self.assertEqual(len({tuple(ids) for ids in epochs}), 3, "each epoch has an order of its own")
            self.assertEqual(train.stats()["batches"], 15)
            told = []
            for _, _, batch_ids in itertools.islice(train, 1):
                told = [train.explain(int(id)) for id in batch_ids]
            self.assertEqual([int(each["id"]) for each in told], batch_ids.tolist())

    def test_orders(self) -> None:
        """In order, with a short last batch; seeded, the same again; a sampler's, each time as it says."""
        in_order = [list(range(begin, min(begin + 5, SAMPLES))) for begin in range(0, SAMPLES, 5)]
        with loader() as val:
            self.assertEqual([ids_of(val), ids_of(val)], [in_order, in_order])
        with loader(seed=11) as first, loader(seed=11, shuffle=True) as second:
            orders = [ids_of(first), ids_of(first)]
            self.assertEqual([ids_of(second), ids_of(second)], orders)
            self.assertNotEqual(orders[0], orders[1])
        with loader(shuffle=True, drop_last=True, subset=(3, 17)) as some:
            self.assertEqual((len(some), len(some.dataset)), (2, 14))
            ids = flat(ids_of(some))
            self.assertEqual((len(ids), len(set(ids))), (10, 10))
            self.assertLessEqual(set(ids), set(range(3, 17)))

    def test_torch_samplers(self) -> None:
        """Asked once for each loop, by nothing else; told of an epoch by set_epoch."""
        asked = []

        class Sampler(torch.utils.data.Sampler):
            def __init__(self) -> None:
                self.epoch = 0

            def set_epoch(self, epoch: int) -> None:
                self.epoch = epoch

            def __iter__(self) -> Iterator[int]:
                asked.append(self.epoch)
                return iter(np.random.default_rng([5, self.epoch]).permutation(SAMPLES)[:12].tolist())

            def __len__(self) -> int:
                return 12

        expected = [np.random.default_rng([5, epoch]).permutation(SAMPLES)[:12].tolist()
                    for epoch in range(3)]
        with loader(sampler=Sampler(), seed=3, name="sampled") as train:
            self.assertEqual((len(train), len(train.dataset), train.fields["image"].shape),
                             (3, SAMPLES, (16, 16, 3)))
            train.state_dict()
            self.assertEqual(asked, [], "questions cost the sampler nothing")
            for epoch in (0, 2):
                train.set_epoch(epoch)
                batches = iter(train)
                self.assertEqual(SERVER.job_names(), ["sampled"], "neither the questions' job nor the last "
                                 "epoch's is left")
                self.assertEqual(flat(ids_of(batches)), expected[epoch])
            self.assertEqual((asked, train.epoch), ([0, 2], 3))
        flipped = [{"op": "resize", "size": [16, 16]}, {"share": True}, {"op": "flip"}]
        with loader(sampler=[4] * 40, seed=3, transform=flipped, batch_size=40, ids=False) as train, \
                loader(sampler=[4] * 40, seed=3, transform=flipped, batch_size=40, ids=False) as twin:
            pixels = [next(iter(each))[0].clone() for each in (train, train, twin, twin)]
            self.assertTrue(torch.equal(pixels[0], pixels[2]) and torch.equal(pixels[1], pixels[3]),
                            "the seed's own flips")
            self.assertFalse(torch.equal(pixels[0], pixels[1]), "others in each epoch")
        weighted = torch.utils.data.WeightedRandomSampler([1.0] * SAMPLES, 30, replacement=True)
        with loader(sampler=weighted) as train:
            for epoch in range(2):
                count = 0
                for _, labels, ids in train:
                    self.assertEqual(labels.tolist(), [LABELS[id] for id in ids])
                    count += len(ids)
                    told = train.explain(int(ids[0]), epoch)
                    self.assertEqual((told["id"], told["epoch"]), (str(int(ids[0])), str(epoch)))
                self.assertEqual(count, 30)
            with self.assertRaisesRegex(tureen.RequestRefused, "only the present epoch, 1, can"):
                train.explain(0, 0)

        class Broken:
            """Its join is refused; asked again, it would give other ids."""
            def __iter__(self) -> Iterator[int]:
                asked.append(-1)
                return iter([SAMPLES])

        del asked[:]
        with loader(sampler=Broken()) as train:
            for _ in range(2):
                with self.assertRaises(tureen.RequestRefused):
                    iter(train)
            self.assertEqual(asked, [-1], "the list is kept until a job has begun with it")

    def test_breaking_off_begins_the_next_epoch(self) -> None:
        for name, order in ORDERS.items():
            job = {} if name == "sampler" else {"job": "run of " + name}
            with self.subTest(name), loader(name="broken", **job, **order) as train:
                for batch in train:
                    break
                state = train.state_dict()
                self.assertEqual((train.epoch, int(state["epoch"])), (1, 0),
                                 "where it stopped, until the next")
                #  The run's name is free once no batch refers to the old job's memory
                del batch
                ids = flat(ids_of(train))
                if name == "sampler":
                    self.assertEqual(ids, SAMPLER_IDS)
                else:
                    self.assertEqual((len(ids), len(set(ids))), (20 if name == "dropped" else SAMPLES,) * 2)
                self.assertEqual(train.epoch, 2)
                #  All of an epoch was given, and its end was not waited for: there is nothing to abandon.
                for _, batch in zip(range(len(train)), train):
                    number = SERVER.job_status("broken")["job"]
                del batch
                self.assertEqual((train.epoch, len(ids_of(train)), train.epoch), (3, len(train), 4))
                if name != "sampler":
                    self.assertEqual(SERVER.job_status("broken")["job"], number)

    def test_a_name_is_kept_though_batches_are(self) -> None:
        """A job that was broken off stays while its last batch is looked at, as in every script; so it must
        go on itself."""
        with loader(shuffle=True, job="kept", name="kept") as train, \
                loader(shuffle=True, job="copied", device=LateDevice()) as late:
            for images, _, _ in train:
                number, before = SERVER.job_status("kept")["job"], images.clone()
                break
            self.assertEqual((int(train.state_dict()["epoch"]), train.epoch), (0, 1))
            self.assertEqual(sorted(flat(ids_of(train))), list(range(SAMPLES)))
            self.assertEqual((SERVER.job_status("kept")["job"], train.epoch), (number, 2))
            self.assertTrue(torch.equal(images, before))
            del images
            for _ in range(2):
                next(iter(late))
            self.assertEqual(late.epoch, 2)

    def test_one_loop_at_a_time(self) -> None:
        with loader(shuffle=True) as train:
            first = iter(train)
            second = iter(train)                        # nothing was given: the same epoch, the same job
            with self.assertRaisesRegex(tureen.LoaderClosed, "another one was begun"):
                next(first)
            del first
            self.assertEqual(sorted(flat(ids_of(second))), list(range(SAMPLES)))
            self.assertEqual(list(second), [], "it stays exhausted")
            self.assertEqual(train.epoch, 1)
            third = iter(train)
            next(third)
            fourth = iter(train)
            with self.assertRaises(tureen.LoaderClosed):
                next(third)
            self.assertEqual((train.epoch, len(ids_of(fourth))), (2, 5))
        with self.assertRaises(tureen.LoaderClosed):
            iter(train)

    def test_threads_that_share_a_loop(self) -> None:
        """Each of its samples once, to whichever of them; the next loop is whole."""
        for options in ({}, {"shuffle": True}, {"sampler": list(range(SAMPLES))}, {"map": tuple},
                        {"map_batch": tuple},
                        {"map": tuple, "map_workers": 1, "multiprocessing_context": "fork"}):
            with self.subTest(options), loader(batch_size=1, **options) as train:
                for threads in THREADS:
                    self.assertEqual(sorted(taken_by_threads(threads, iter(train))), list(range(SAMPLES)))
                    self.assertEqual(sorted(flat(ids_of(train))), list(range(SAMPLES)))

    def test_threads_that_share_an_iterator(self) -> None:
        """An iterator of tureen.Loader goes through all epochs."""
        for threads in (*THREADS, *THREADS[1:]):
            with tureen.Loader(SERVER.endpoint, batch_size=1, epochs=2, pipeline=CROP) as train:
                for _ in range(2):
                    self.assertEqual(sorted(taken_by_threads(threads, iter(train))),
                                     sorted(2 * list(range(SAMPLES))))

    def test_a_thread_that_comes_late(self) -> None:
        """It waits for the batch while another one gets the end, and the next loop has begun before it goes
        on."""
        with loader(batch_size=SAMPLES) as train:
            batches = iter(train)
            next(batches)
            entered, late = threading.Event(), []
            with train._turn:                       # the other thread is in `next`
                thread = threading.Thread(target=lambda: (entered.set(), late.extend(batches)))
                thread.start()
                entered.wait()
                with self.assertRaises(StopIteration):
                    next(batches)
                after = iter(train)
            thread.join()
            self.assertEqual(late, [])
            self.assertEqual(len(ids_of(after)), 1)

    def test_infinite_and_epochs(self) -> None:
        with loader(shuffle=True) as train:
            ids = flat(ids_of(batch for batch, _ in zip(train.infinite(), range(12))))
            self.assertEqual([sorted(ids[:SAMPLES]), sorted(ids[SAMPLES:2 * SAMPLES])],
                             [list(range(SAMPLES))] * 2)
        for order in ({}, {"sampler": SAMPLER_IDS}):
            with loader(epochs=2, **order) as train:
                self.assertEqual(len(ids_of(train.infinite())), 2 * len(train))
                with self.assertRaisesRegex(RuntimeError, "all 2 epochs of this loader are over"):
                    iter(train)
                self.assertEqual(ids_of(train.infinite()), [])
                with self.assertRaisesRegex(ValueError, "from 0 to 2, for the loader was made with epochs=2; "
                                            "it is 3"):
                    train.set_epoch(3)
            self.assertEqual(int(train.state_dict()["epoch"]), 2, "closed, it still tells")

    def test_dicts_dtypes_and_normalizing(self) -> None:
        """What the server normalises has the bits of what `normalize` makes, and recipes that are written out
        are its own."""
        mean, std = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)
        with loader(fields=True) as plain, loader(fields=True, dtype=torch.bfloat16) as halves, \
                loader(normalize=(mean, std)) as normalized:
            for raw, half, (floats, _, ids) in zip(plain, halves, normalized):
                self.assertEqual(list(raw), ["image", "label", "ids"])
                self.assertTrue(torch.equal(half["image"], raw["image"].to(torch.bfloat16)))
                self.assertEqual(half["image"].dtype, torch.bfloat16)
                self.assertTrue(torch.equal(floats, normalize(raw["image"], mean, std)))
                self.assertEqual(raw["ids"].tolist(), ids.tolist())
        with loader(dataset="captioned") as captioned, \
                loader(dataset="bare", transform=CROP + [{"op": "views", "count": 2}]) as bare:
            for inputs, labels, ids in captioned:
                self.assertEqual([labels["number"].tolist(), labels["pair"].tolist(), labels["caption"]],
                                 [ids.tolist(), [[id + 0.5, 2] for id in ids], [f"no {id} ü" for id in ids]])
            views, ids = next(iter(bare))
            self.assertEqual({name: tuple(view.shape) for name, view in views.items()},
                             {"image": (5, 3, 16, 16), "image_2": (5, 3, 16, 16)})
        for recipe in ("train", "eval"):
            with loader(transform=recipe) as named, loader(transform=recipe, dtype=torch.float16) as written:
                theirs = [loader._question().pipeline for loader in (named, written)]
                self.assertEqual([step for step in theirs[1] if step.get("op") != "cast"], theirs[0])

    def test_mixed_batches(self) -> None:
        """torchvision's arithmetic, given what was drawn; the same from both loaders, and where a loader goes
        on in the middle of an epoch, whatever the layout."""
        kinds = set()
        for end in ([], [{"op": "normalize"}], [{"op": "layout", "layout": "NCHW"}],
                    [{"op": "normalize"}, {"op": "cast", "dtype": "float16"}]):
            crop = [*CROP, *end]
            mixed = [*crop, {"op": "random_choice", "counts": [1, 1]}, *MIXES]
            numpy = list(tureen.Loader(SERVER.endpoint, "train", 5, 2, pipeline=mixed, seed=7, order="seeded",
                                       slots=16, timeout=harness.PATIENCE))
            with loader(seed=7, transform=crop, slots=16) as plain, loader(seed=7, transform=mixed,
                                                                                   slots=16) as ours:
                expected = [*plain, *plain]
                given = [*ours, *ours]
                self.assertEqual([len(labels) for _, labels, _ in given], [5, 5, 5, 5, 2] * 2)
                mixer = Mixer(split(mixed)[1], plain._question())
            for place, ((images, labels, ids), (inputs, targets, _)) in enumerate(zip(given, expected)):
                drawn = mixer.draw(ids.numpy(), place // 5, place % 5)
                kinds.add(drawn.box is None)
                lam = drawn.share
                self.assertTrue(images.equal(by_torchvision(inputs, lam, drawn.box)))
                hot = torch.nn.functional.one_hot(targets, 3).float()
                self.assertTrue(labels.equal(hot.roll(1, 0).mul_(1.0 - lam).add_(hot.mul(lam))))
                batch = numpy[place]
                array = torch.from_numpy(batch["image"])
                array = array if "NCHW" in str(end) else array.permute(0, 3, 1, 2)
                #  Older torch rounds the weights to float16 before it multiplies.
                self.assertTrue(images.equal(array) or images.dtype == torch.float16
                                and images.allclose(array, 1e-2, 1e-2))
                self.assertTrue(np.array_equal(batch["label"], labels.numpy()))
            with loader(seed=7, transform=mixed) as first, loader(seed=7, transform=mixed) as second:
                loop = iter(first)
                next(loop), next(loop)
                second.load_state_dict(first.state_dict())
                for (images, labels, _), (again, targets, _) in zip(given[2:5], second):
                    self.assertTrue(images.equal(again) and labels.equal(targets))
        self.assertEqual(kinds, {True, False})

    def test_stacked_crops(self) -> None:
        """One array of all crops, whatever the layout; each is as torchvision's."""
        crops = [{"op": "views", "count": 10, "stack": True}, {"op": "corner_crop", "size": [8, 6]}]
        with loader(transform=CROP) as plain, loader(transform=[*CROP, *crops]) as ours, loader(
                transform=[*CROP, *crops, {"op": "layout", "layout": "NCHW"}]) as planar:
            for (whole, _, _), (images, _, _), (others, _, _) in zip(plain, ours, planar):
                self.assertEqual(images.shape, (len(whole), 10, 3, 8, 6))
                self.assertTrue(images.equal(others))
                for start, image in ((0, whole), (5, whole.flip(-1))):
                    for place, (top, left) in enumerate(((0, 0), (0, 10), (8, 0), (8, 10), (4, 5))):
                        crop = image[..., top:top + 8, left:left + 6]
                        self.assertTrue(images[:, start + place].equal(crop))
        with loader(transform=[*CROP, *crops, MIXES[0]]) as mixed:
            with self.assertRaisesRegex(TypeError, "have image"):
                list(mixed)

    def test_what_cannot_be_mixed(self) -> None:
        few, mixes = {"op": "mix_up", "alpha": 1.0, "num_classes": 2}, [*CROP, MIXES[0]]
        for error, reason, options in (
                (ValueError, "has label 2, and num_classes=2", {"transform": [*CROP, few]}),
                (TypeError, "this data set's labels none are: mix", {"transform": mixes, "dataset": "bare"})):
            with loader(**options) as train, self.assertRaisesRegex(error, reason):
                list(train)
        with self.assertRaisesRegex(ValueError, "mix in map_batch"):
            loader(transform=mixes, map=len)
        with self.assertRaisesRegex(ValueError, "comes last"):
            loader(transform=[MIXES[0], *CROP])
        alone, mixed = (tureen.DataSet("train", SERVER.endpoint, pipeline=pipeline)[3]
                        for pipeline in (CROP, mixes))
        self.assertTrue(np.array_equal(alone["image"], mixed["image"]) and alone["label"] == mixed["label"])

    def test_it_belongs_to_the_process_that_used_it(self) -> None:
        train = pickle.loads(pickle.dumps(loader(shuffle=True)))
        batches = iter(train)
        next(batches)
        with self.assertRaisesRegex(TypeError, "cannot be pickled"):
            pickle.dumps(train)
        reader, writer = multiprocessing.Pipe(False)
        child = os.fork()
        if child == 0:
            errors = []
            for use in (lambda: iter(train), lambda: next(batches), train.state_dict, lambda: len(train)):
                try:
                    use()
                except tureen.ForkedProcess:
                    errors.append("forked")
            writer.send(errors)
            os._exit(0)
        answered = reader.poll(harness.PATIENCE)
        if not answered:
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        self.assertEqual(answered and reader.recv(), ["forked"] * 4)
        self.assertEqual(sum(1 for _ in batches), 4, "the parent noticed nothing")
        train.close()


class States(unittest.TestCase):
    tearDown = Loops.tearDown

    def rest(self, state: Any, order: Dict[str, Any], **changed: Any) -> List[int]:
        """What a new loader's first loop gives from there, in a state that went through JSON and
        torch.save."""
        buffer = io.BytesIO()
        torch.save(json.loads(json.dumps(state)), buffer)
        buffer.seek(0)
        loaded = torch.load(buffer)
        #  A sampler that is asked now would say something else.
        if "sampler" in order:
            order = {"sampler": [1, 2]}
        with loader(**{**order, **changed}) as train:
            for _ in range(2):
                train.load_state_dict(loaded)
            self.assertEqual(train.state_dict(), loaded, "what was loaded is what is told, with no job yet")
            epoch = int(loaded["epoch"])
            train.set_epoch(epoch)
            ids = flat(ids_of(train))
            self.assertEqual(train.epoch, epoch + 1, "the rest counts as that epoch's loop")
            return ids

    def test_every_step_of_an_epoch_in_every_order(self) -> None:
        """Exactly once over both loaders together; where the order is known, in it, also in batches of
        another size."""
        for name, order in ORDERS.items():
            with loader(**order) as train:
                in_first = flat(ids_of(train))
                given: List[int] = []
                states = []
                for batch in train:
                    given += batch[-1].tolist()
                    states.append((train.state_dict(), list(given)))
            step = 1 if name in ("shared", "sampler") else 2
            for index, (state, before) in list(enumerate(states))[::step]:
                size = 5 if index % 2 else 3
                with self.subTest(name, step=index, size=size):
                    self.assertEqual(int(state["epoch"]), 1)
                    rest = self.rest(state, order, batch_size=size)
                    whole = before + rest
                    if name == "sampler":
                        self.assertEqual(whole, SAMPLER_IDS)
                    elif name in ("seeded", "in order"):
                        self.assertEqual(whole, given)
                    elif name == "dropped":
                        expected = len(before) + (SAMPLES - len(before)) // size * size
                        self.assertEqual((len(whole), len(set(whole))), (expected, expected))
                    else:
                        self.assertEqual(sorted(whole), sorted(in_first))

    def test_steps_that_are_left_out(self) -> None:
        """What Accelerate's skip_first_batches makes of a loader has the rest of the epoch: behind a state in
        every order, and without one where the order comes again.  The next loop is the next epoch."""
        for name, order in ORDERS.items():
            for state_of in ("given", "trained"):
                given: List[int] = []
                with loader(**order) as train:
                    batches = iter(train)
                    first, state = flat(ids_of(itertools.islice(batches, 1))), train.state_dict()
                    whole = first + flat(ids_of(batches))
                for loaded in (True, False):
                    if not loaded and name not in ("in order", "seeded"):
                        continue
                    with self.subTest(name, loaded=loaded, of=state_of), \
                            loader(**order, state_of=state_of) as train:
                        if loaded:
                            train.load_state_dict(state)
                        rest = without_first(train, 1)
                        self.assertEqual(len(rest), len(train) - 1)
                        given = first[:]
                        for batch in rest:
                            given += batch[-1].tolist()
                            if state_of == "trained":
                                train.trained(batch)
                        if name in ("shared", "private", "dropped"):
                            self.assertEqual((len(given), len(set(given))), (len(whole), len(whole)))
                        else:
                            self.assertEqual(given, whole)
                        self.assertEqual((train.epoch, int(train.state_dict()["epoch"])), (1, 1))
                        self.assertEqual(len(ids_of(without_first(train, 0))), len(train))

    def test_all_steps_are_left_out(self) -> None:
        """Then their epoch is behind, without one of its batches.  Behind its last one a state of
        state_of="trained", and one that is taken between loops, have it behind already."""
        for name, order in ORDERS.items():
            with loader(**order) as train:
                first = ids_of(train)
                between = train.state_dict()
                second = ids_of(train)
            for of, loaded in (("given", None), ("trained", None), ("given", between),
                               ("given", self.behind_the_last(order, "given")),
                               ("trained", self.behind_the_last(order, "trained"))):
                with self.subTest(name, of=of, loaded=loaded), loader(**order, state_of=of) as train:
                    if loaded is not None:
                        train.load_state_dict(loaded)
                    self.assertEqual(ids_of(without_first(train, len(train))), [])
                    self.assertEqual((train.epoch, int(train.state_dict()["epoch"])), (1, 1))
                    ids = ids_of(train)
                    self.assertEqual(len(ids), len(first))
                    if name in ("in order", "seeded"):
                        self.assertEqual(ids, second)
                    self.assertEqual(train.epoch, 2)

    def behind_the_last(self, order: Dict[str, Any], state_of: str) -> Any:
        """The state in the loop's last step."""
        with loader(**order, state_of=state_of) as train:
            for batch in train:
                if state_of == "trained":
                    train.trained(batch)
                state = train.state_dict()
        return state

    def test_the_epoch_of_steps_that_are_left_out(self) -> None:
        """Trainer tells it to the batch sampler, if at all."""
        with loader(seed=7) as train:
            train.set_epoch(2)
            wanted = ids_of(train)
        with loader(seed=7) as train:
            rest = without_first(train, 2)
            rest.batch_sampler.batch_sampler.set_epoch(2)
            self.assertEqual(ids_of(rest), wanted[2:])

    def test_steps_of_which_nothing_is_known_are_not_left_out(self) -> None:
        """The loader is as it was then."""
        with loader(shuffle=True) as train:
            next(iter(train))
            state = train.state_dict()
        for order, loaded, count in (("shared", None, 1), ("private", None, 2), ("sampler", None, 1),
                                     ("shared", state, 2)):
            with self.subTest(order, count=count), loader(**ORDERS[order]) as train:
                if loaded is not None:
                    train.load_state_dict(loaded)
                with self.assertRaisesRegex(tureen.StateError, f"^{count} batches of epoch 0 are to be left "
                                            f"out(.|\n)* behind {int(loaded is not None)}: "):
                    next(iter(without_first(train, count)))
                self.assertEqual((train.epoch, len(ids_of(train))), (0, len(train) - (loaded is not None)))

    def test_between_loops_and_before_the_first(self) -> None:
        for name, order in ORDERS.items():
            with self.subTest(name), loader(**order) as train:
                fresh = train.state_dict()
                self.assertEqual(int(fresh["epoch"]), 0)
                ids_of(train)
                between = train.state_dict()
                self.assertEqual((int(between["epoch"]), train.epoch), (1, 1))
                train.set_epoch(5)
                self.assertEqual((int(train.state_dict()["epoch"]), train.epoch), (5, 5))
                ids_of(train)
                self.assertEqual(int(train.state_dict()["epoch"]), 6)
            for state, epoch in ((fresh, 0), (between, 1)):
                with loader(**order) as train:
                    train.load_state_dict(state)
                    self.assertEqual((train.epoch, len(ids_of(train)), train.epoch),
                                     (epoch, len(train), epoch + 1))

    def test_rewinding_and_going_on_in_the_same_loader(self) -> None:
        """Loaded in the middle of a loop, which is over then; infinite goes on with the rest and does not
        begin again."""
        for name in ("seeded", "sampler"):
            with self.subTest(name), loader(**ORDERS[name]) as train:
                batches = iter(train)
                first, state = next(batches)[-1].tolist(), train.state_dict()
                next(batches)
                train.load_state_dict(state)
                with self.assertRaises(tureen.LoaderClosed):
                    next(batches)
                del batches
                self.assertEqual(train.state_dict(), state)
                rest = ids_of(train)
                train.load_state_dict(state)
                again = [batch[-1].tolist() for batch, _ in zip(train.infinite(),
                                                                range(len(rest) + len(train)))]
                self.assertEqual(again[:len(rest)], rest)
                self.assertEqual(sorted(first + flat(rest)), sorted(flat(again[len(rest):])),
                                 "then a whole epoch")

    def test_the_last_batch_of_an_epoch_leaves_an_empty_rest(self) -> None:
        """So a script that counts its loops runs as many; `infinite` goes straight on."""
        for name in ("shared", "sampler", "dropped"):
            with self.subTest(name), loader(**ORDERS[name]) as train:
                for _ in train:
                    state = train.state_dict()
                self.assertEqual(int(state["epoch"]), 0)
                train.load_state_dict(state)
                self.assertEqual((ids_of(train), train.epoch), ([], 1))
                self.assertEqual(len(ids_of(train)), len(train))
                train.load_state_dict(state)
                self.assertTrue(len(next(train.infinite())[-1]))
                self.assertEqual(train.epoch, 2)

    def test_a_state_outlives_a_join_that_fails(self) -> None:
        for name in ("shared", "sampler"):
            with self.subTest(name):
                with loader(**ORDERS[name]) as train:
                    batches = iter(train)
                    given = flat(ids_of(itertools.islice(batches, 1)))
                    state = train.state_dict()
                train = loader(**ORDERS[name], endpoint="ipc:///tmp/tu-none-%d" % os.getpid(), timeout=0.01)
                train.load_state_dict(state)
                for _ in range(2):
                    with self.assertRaises(tureen.NoServer):
                        iter(train)
                    self.assertEqual((train.state_dict(), train.epoch), (state, 0))
                self.assertEqual(len(given + self.rest(state, ORDERS[name])),
                                 10 if name == "sampler" else SAMPLES)

    def test_what_does_not_fit_is_said(self) -> None:
        with loader(shuffle=True) as train, loader(sampler=SAMPLER_IDS) as sampled:
            next(iter(train)), next(iter(sampled))
            plain, listed = train.state_dict(), sampled.state_dict()
            for target, state, why in (
                    (train, listed, "of a loader with a sampler"),
                    (sampled, plain, "of a loader without a sampler"),
                    (sampled, {**listed, "epoch": "-1"}, "epoch is '-1'"),
                    (sampled, {**listed, "list": None}, "one of list and"),
                    (sampled, {}, "no state of a loader with a sampler"), (train, {}, "no state of a loader"),
                    (sampled, {**listed, "epoch": "9" * 5000}, "epoch is"),
                    (sampled, {**listed, "list": {**listed["list"], "ids": "?"}},
                     "list of ids cannot be read"),
                    (sampled, {**listed, "loader": {**listed["loader"], "batches": "3"}}, "checksum"),
                    (train, {**plain, "batches": "3"}, "checksum")):
                with self.assertRaisesRegex(tureen.StateError, why):
                    target.load_state_dict(state)
            self.assertEqual((train.state_dict(), sampled.state_dict()), (plain, listed))
        #  And what was loaded before stays.
        for state, damaged in ((listed, {**listed, "list": {**listed["list"], "ids": "?"}}),
                               (plain, {**plain, "batches": "3"})):
            with loader(**(ORDERS["sampler"] if state is listed else ORDERS["shared"])) as train:
                train.load_state_dict(state)
                with self.assertRaises(tureen.StateError):
                    train.load_state_dict(damaged)
                self.assertEqual(train.state_dict(), state)
        with loader(shuffle=True, subset=(0, 9)) as train:
            train.load_state_dict(plain)
            with self.assertRaises(tureen.RequestRefused) as caught:
                iter(train)
            self.assertEqual((caught.exception.code, train.state_dict()), ("bad_state", plain))


class Memory(unittest.TestCase):
    tearDown = Loops.tearDown

    def test_what_is_kept_stays_as_it_is(self) -> None:
        """A whole epoch in a list, and one as views, NumPy arrays and through DLPack, while the loop goes on,
        when the loader is closed, and when the server is gone."""
        server = harness.Server({"train": DATA})
        with server:
            train = loader(endpoint=server.endpoint, rejoin=0)
            with self.assertWarnsRegex(RuntimeWarning, "batches are being kept") as caught:
                kept = list(train)
            self.assertEqual(len(kept), 5)
            self.assertEqual(caught.filename, __file__, "the line that kept them")
            expected = [images.clone() for images, _, _ in kept]
            with warnings.catch_warnings():
                warnings.simplefilter("error")          # it was said once
                others = list(train)
            images = kept[0][0]
            views = [images[2:4], images.numpy()[2:4], torch.from_dlpack(images)[2:4]]
            #  The first two lie in the ring, and of one only views are left
            del others, images, kept[0]
            for _ in range(2):
                for _ in train:
                    pass
            train.close()
        del train
        gc.collect()
        for (images, labels, ids), before in zip(kept, expected[1:]):
            self.assertTrue(torch.equal(images, before))
            self.assertEqual(labels.tolist(), [LABELS[id] for id in ids])
        for view in views:
            self.assertTrue(np.array_equal(np.asarray(view), expected[0][2:4].numpy()))

    def test_a_loop_ends_in_a_garbage_collection(self) -> None:
        """It does so anywhere: also while the loader's own state is being read."""
        train = loader(shuffle=True)

        def broken_off() -> None:
            iterator = iter(train)
            next(iterator)
            cycle: List[Any] = [iterator]
            cycle.append(cycle)
        taken, told = tureen.position.Position.taken, []

        def collecting(position: tureen.position.Position) -> Any:
            gc.collect()
            return taken(position)
        gc.disable()
        self.addCleanup(gc.enable)
        broken_off()
        with mock.patch.object(tureen.position.Position, "taken", collecting):
            thread = threading.Thread(target=lambda: told.append(train.state_dict()), daemon=True)
            thread.start()
            thread.join(harness.PATIENCE)
        self.assertFalse(thread.is_alive(), "it waits for itself")
        self.assertEqual((told[0]["epoch"], told[0]["batches"], train.epoch), ("0", "1", 1))
        self.assertEqual(len(list(train)), 5)

    def test_inline(self) -> None:
        """Over the socket: the same batches, in memory of their own, which is never pinned."""
        device = LateDevice()
        with loader(seed=3) as ring, loader(seed=3, transport="inline") as inline, \
                loader(seed=3, transport="inline", device=device) as late:
            expected = [(images.clone(), ids) for images, _, ids in ring]
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                got = [list(inline), list(late)]
            self.assertEqual(device.pinned, {})
        for batches in got:
            for (images, _, ids), (pixels, numbers) in zip(batches, expected):
                self.assertTrue(torch.equal(images, pixels) and torch.equal(ids, numbers))

    def test_no_copy_is_made_and_memory_is_used_again(self) -> None:
        """The tensors lie in the ring, in as many places as it has slots."""
        with loader(slots=3) as train:
            places = set()
            for images, _, _ in itertools.islice(train.infinite(), 20):
                places.add(images.data_ptr())
            self.assertLessEqual(len(places), 3)
            mapped = [line for line in Path("/proc/self/maps").read_text().splitlines()
                      if "memfd:tureen" in line]
            spans = [tuple(int(number, 16) for number in line.split()[0].split("-")) for line in mapped]
            for place in places:
                self.assertTrue(any(begin <= place < end for begin, end in spans))
            del images

    def test_a_job_that_is_dropped_waits_for_its_copies(self) -> None:
        """They are made from its ring.  The ring's memory is not pinned any more then."""
        device = LateDevice()
        with loader(device=device, slots=4) as train:
            state = train.state_dict()
            batches = iter(train)
            next(batches)
            self.assertGreater(device.left, 0)
            train.load_state_dict(state)
            self.assertEqual((device.left, device.pinned, device.unpinned_early), (0, {}, 0))

    def test_late_copies_to_a_device(self) -> None:
        """Were a slot given back before its copies are done, the server's next batch would be what is
        copied."""
        with loader() as plain:
            expected = [(images.clone(), labels.clone()) for images, labels, _ in plain]
        for order in ({}, {"sampler": list(range(SAMPLES))}):
            device = LateDevice()
            train = loader(device=device, slots=4, **order)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                copies = [batch for _ in range(3) for batch in train]
            self.assertLess(device.done, device.begun, "some are still to come")
            self.assertIn(len(device.pinned), range(1, 5))
            train.close()
            self.assertEqual((device.left, device.pinned, device.unpinned_early), (0, {}, 0))
            for (images, labels, ids), (pixels, numbers) in zip(copies, expected * 3):
                self.assertEqual(labels.tolist(), numbers.tolist())
                self.assertTrue(torch.equal(images, pixels))
                self.assertTrue(images.is_contiguous(memory_format=torch.channels_last))


    def test_a_copy_that_fails_costs_no_batch(self) -> None:
        """Nor does a warning that is an error: the batch is not behind, and comes again."""
        for order in ({}, {"sampler": list(range(SAMPLES))}):
            device = LateDevice()
            device.pins = False
            with self.subTest(str(order)), loader(device=device, **order) as train:
                batches, got = iter(train), []
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    with self.assertRaisesRegex(RuntimeWarning, "cannot be pinned"):
                        next(batches)
                for _ in range(2):
                    got.append(next(batches)[2])
                    device.fail_at = device.begun + 2
                    with self.assertRaisesRegex(RuntimeError, "out of memory"):
                        next(batches)
                    device.fail_at = None
                state = train.state_dict()
                self.assertEqual((state.get("loader") or state)["batches"], "2")
                got += [ids for _, _, ids in batches]
                train.close()
                self.assertEqual(torch.cat(got).tolist(), list(range(SAMPLES)))
                self.assertEqual(device.left, 0)


class Failures(unittest.TestCase):
    def test_a_killed_server_is_gone_on_with(self) -> None:
        """The loop notices nothing, nor does the state; with a sampler too."""
        folder = tempfile.mkdtemp(prefix="tu-torch-", dir="/tmp")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        for order in ({"shuffle": True}, {"sampler": 6 * SAMPLER_IDS}):     # more than the ring holds
            with self.subTest(str(order)):
                server = harness.Server({"train": DATA}, folder=folder, expect_clean=False).start()
                successor = harness.Server({"train": DATA}, folder=folder, listen=server.endpoint)
                try:
                    with loader(endpoint=server.endpoint, rejoin=4 * harness.PATIENCE, slots=8,
                                **order) as train:
                        before = [flat(ids_of(train))]
                        ids, kept = [], []
                        for step, (images, labels, batch_ids) in enumerate(train):
                            ids += batch_ids.tolist()
                            self.assertEqual(labels.tolist(), [LABELS[id] for id in batch_ids])
                            if step == 0:
                                kept = [images, images.clone()]
                                server.kill()
                                successor.start()
                        before.append(ids)
                        before.append(flat(ids_of(train)))
                        for epoch in before:
                            self.assertEqual(sorted(epoch), sorted(order.get("sampler", range(SAMPLES))))
                        self.assertEqual(train.epoch, 3)
                        self.assertTrue(torch.equal(*kept))
                        if "sampler" not in order:
                            self.assertEqual(train.stats()["rejoined"], 1)
                        del images, kept
                    successor.stop()
                finally:
                    server.__exit__(None, None, None)
                    successor.__exit__(None, None, None)

    def test_an_error_leaves_the_state(self) -> None:
        """With rejoin=0 the loop ends by an error; the rest can be gone on with."""
        server = harness.Server({"train": DATA}, expect_clean=False)
        with server:
            with loader(endpoint=server.endpoint, rejoin=0, shuffle=True, slots=3) as train:
                batches = iter(train)
                given = next(batches)[-1].tolist()
                server.kill()
                with self.assertRaises(tureen.ServerGone):
                    for batch in batches:
                        given += batch[-1].tolist()
                state = train.state_dict()
        with loader(shuffle=True) as train:
            train.load_state_dict(state)
            self.assertEqual(sorted(given + flat(ids_of(train))), list(range(SAMPLES)))


if __name__ == "__main__":
    unittest.main()

"""map= and map_batch= of the Python client: what the functions make against a model, which applies them to
what a plain loader gives; errors, processes that die, and nothing that is left.

Run by ctest (python_map), or by hand from anywhere: python3 tests/clients/test_python_map.py [-v] [NAME]
"""
from __future__ import annotations

import errno
import gc
import itertools
import os
import random
import signal
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
from multiprocessing import resource_tracker
from typing import Any, Callable, Dict, List, Optional
from unittest import mock

from client_checks import (PACKAGE, PATIENCE_S, SEED, Either, Tidy, called, descriptors, nothing_ignored,
                           until)

import numpy as np

import tureen
from fake_server import pattern
from forked_processes import forked_after
from tureen.mapping.causes import text_of
from tureen.mapping.mapper import Mapper
from tureen.mapping.memory import new_shared
from tureen.mapping.pool import Pool

Sample = Dict[str, Any]


def setUpModule() -> None:
    global FORKED
    os.environ["BEGUN"] = tempfile.mkdtemp(prefix="tu-begun-")      # known to all that begin from now on
    unittest.addModuleCleanup(shutil.rmtree, os.environ["BEGUN"], ignore_errors=True)
    FORKED = forked_after("client_checks")


def loading(server: Any, **options: Any) -> tureen.Loader:
    """Its processes are forked.  New ones import the client, for half a second each; those of FORKED get
    their functions as new ones do, by name."""
    if options.get("map_workers"):
        options.setdefault("multiprocessing_context", "fork")
    return tureen.Loader(server.endpoint, **options)


#   ---- functions, at the top level so that a process can import them

def identity(sample: Sample) -> Sample:
    return sample


def written(sample: Sample) -> Sample:
    sample["image"] ^= 255
    return sample


def half_written(sample: Sample) -> Sample:
    """Of every third sample, so that of a batch some are as they were given."""
    if int(sample["label"].flat[0]) % 3 == 0:
        sample["image"][..., 1] += 7
    return sample


def written_and_dropped(sample: Sample) -> Sample:
    """What was given is written to, and something else returned."""
    kept = sample["image"].copy()
    sample["image"][...] = 9
    sample["label"] += 1000
    return {"image": kept, "label": sample["label"] * 2}


def sometimes(sample: Sample) -> Sample:
    if int(sample["label"].flat[0]) % 2:
        return sample
    return {"image": 255 - sample["image"], "label": sample["label"].copy()}


def other(sample: Sample) -> Sample:
    image = sample["image"].astype(np.float32).swapaxes(-1, -3)
    return {"pixels": image * 2, "label": sample["label"], "brightest": sample["image"].max()}


def twice(sample: Sample) -> Sample:
    """One field as two, the second of which is a view of it."""
    return {"image": sample["image"], "mirrored": sample["image"][..., ::-1, :], "label": sample["label"]}


def crossed(sample: Sample) -> Sample:
    """Two fields of one shape that change their places, of some samples."""
    left, right = sample["image"], sample["image"] + 1
    if int(sample["label"].flat[0]) % 5 == 0:
        left, right = right, left
    return {"left": left, "right": right, "label": sample["label"]}


def worded(sample: Sample) -> Sample:
    return {"text": f"sample {int(sample['label'])}", **sample}


def ragged(batch: Sample) -> Sample:
    """Another shape in each batch, and a number that is no sample's."""
    wide = 1 + int(batch["label"][0]) % 4
    mean = float(batch["label"].mean())
    return {"image": batch["image"][:, :, :wide], "label": batch["label"], "mean": mean}


def mixed(batch: Sample) -> Sample:
    batch["image"][...] = (batch["image"] // 2) + batch["image"][::-1] // 2
    return batch


def refuses_37(sample: Sample) -> Sample:
    if sample["label"] == 37:
        raise KeyError("thirty-seven")
    return sample


def refuses_5(sample: Sample) -> Sample:
    if sample["label"] == 5:
        raise KeyError("five")
    return sample


def grows_at_37(sample: Sample) -> Sample:
    return {**sample, "image": sample["image"][:2]} if sample["label"] == 37 else sample


def refuses_batch_of_37(batch: Sample) -> Sample:
    if 37 in batch["label"]:
        raise KeyError("thirty-seven")
    return batch


class OfTwo(ValueError):
    """It is not made again of its .args; those are one text."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")
        self.second = second


class Locked(KeyError):
    """With what no process can send."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


class Mute(OSError):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Unmade(ArithmeticError):
    def __new__(cls, *arguments: Any) -> Any:
        if len(arguments) != 2:                 # as its .args are not
            raise TypeError("not so")
        return super().__new__(cls, *arguments)

    def __init__(self, first: Any, second: Any) -> None:
        super().__init__("made of two")


def raises(sample: Sample) -> Sample:
    """Another exception for each sample."""
    class Local(UnicodeError):
        pass
    number = int(sample["label"]) % len(RAISED)
    LAST[:] = [(OfTwo("a", "b"), Locked("kept"), Local("of a function"), Mute(3, "x"), Unmade(1, 2))[number]]
    raise LAST[0]


LAST: List[Exception] = []                      # what was raised here
#  By the sample's number: the name, a class that Python has, the text, .args, and whether it comes out of a
#  process as one of its own class
RAISED = (("OfTwo", ValueError, "a b", ("a b",), True), ("Locked", KeyError, "'kept'", ("kept",), True),
          ("Local", UnicodeError, "of a function", ("of a function",), False),
          ("Mute", OSError, "(its __str__ raises RuntimeError)", (3, "x"), True),
          ("Unmade", ArithmeticError, "made of two", ("made of two",), False))


def dies_at_37(sample: Sample) -> Sample:
    if sample["label"] == 37:
        os.kill(os.getpid(), signal.SIGKILL)
    return sample


def slow(sample: Sample) -> Sample:
    time.sleep(0.002)
    sample["image"] ^= 255
    time.sleep(0.002)
    return sample


def hangs(sample: Sample) -> Sample:
    with open(os.path.join(os.environ["BEGUN"], str(os.getpid())), "w", encoding="ascii"):
        time.sleep(1000)
    return sample


def until_one_hangs(pids: List[int]) -> None:
    """It is in the midst of the function."""
    paths = [os.path.join(os.environ["BEGUN"], str(pid)) for pid in pids]
    until(lambda: any(map(os.path.exists, paths)), "the function")
    for path in filter(os.path.exists, paths):
        os.unlink(path)


def seeded(sample: Sample) -> Sample:
    return {"seed": np.uint64(tureen.sample_seed()), "label": sample["label"]}


class Unloadable:
    """Can be pickled, and not be made again."""
    def __call__(self, sample: Sample) -> Sample:
        return sample

    def __reduce__(self) -> Any:
        return (missing_there, ())


def missing_there() -> Any:
    if __name__ != "__main__":
        raise ImportError("no such codec there")
    return identity


#   ---- the model

def stacked(samples: List[Sample]) -> Sample:
    return {name: [sample[name] for sample in samples] if isinstance(samples[0][name], str)
            else np.stack([np.asarray(sample[name]) for sample in samples]) for name in samples[0]}


def modelled(batch: tureen.Batch, sample: Optional[Callable[..., Any]],
             whole: Optional[Callable[..., Any]]) -> Sample:
    made: Sample = {name: array.copy() for name, array in batch.items()}
    if sample is not None:
        made = stacked([sample({name: array[row, ...].copy() for name, array in made.items()})
                        for row in range(len(batch))])
    return made if whole is None else whole(made)


BY_SAMPLE = [identity, written, half_written, written_and_dropped, sometimes, other, twice, crossed, worded]
BY_BATCH = [identity, written, written_and_dropped, other, twice, ragged, mixed]


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Maps(Either):
    def setUp(self: Any) -> None:
        resource_tracker.ensure_running()               # once started it stays, with a descriptor
        super().setUp()                                 # type: ignore[misc]

    def assert_same(self: Any, got: tureen.Batch, wanted: Sample) -> None:
        self.assertEqual(list(got), list(wanted))
        for name, value in wanted.items():
            if isinstance(value, list):
                self.assertEqual(got[name], value)
            else:
                wanted_type = (np.asarray(value).dtype, np.shape(value))
                self.assertEqual((got[name].dtype, got[name].shape), wanted_type, name)
                self.assertTrue(np.array_equal(got[name], value), name)

    def assert_negative(self: Any, batch: tureen.Batch) -> None:
        wanted = np.array([255 ^ pattern(int(sample), batch.epoch) for sample in batch.ids], np.uint8)
        self.assertTrue((batch["image"] == wanted[:, None, None, None]).all(), batch)

    def test_as_the_model(self: Any) -> None:
        chance = random.Random(SEED)
        for turn in range(10):
            sample, whole = chance.choice([*BY_SAMPLE, None]), chance.choice([*BY_BATCH, None, None])
            if sample in (crossed, worded, other) or sample is whole is None:
                whole = None                    # it would not find its fields
            if sample is whole is None:
                sample = written
            workers = chance.choice([0, 1, 3]) if turn else 1
            begun = {"multiprocessing_context": FORKED if turn else "spawn"}
            size, samples = chance.randrange(1, 12), chance.randrange(1, 60)
            with self.subTest(f"TEST_SEED={SEED}", turn=turn, map=sample, map_batch=whole, workers=workers,
                              size=size):
                server = self.fake(samples)
                plain = tureen.Loader(server.endpoint, batch_size=size, epochs=2)
                with loading(server, batch_size=size, epochs=2, map=sample, map_batch=whole,
                             map_workers=workers, **begun) as loader:
                    pairs = 0
                    for before, got in zip(plain, loader):
                        self.assertEqual((got.ids.tolist(), got.epoch, got.index),
                                         (before.ids.tolist(), before.epoch, before.index))
                        self.assert_same(got, modelled(before, sample, whole))
                        pairs += 1
                        del before, got
                    self.assertEqual(pairs, len(plain))
                plain.close()

    def test_batches_that_are_kept(self: Any) -> None:
        for function in (identity, written, other):
            with self.subTest(function):
                server = self.fake()
                plain = [modelled(batch, function, None) for batch in tureen.Loader(
                    server.endpoint, batch_size=8, epochs=2, transport="inline")]
                with loading(server, batch_size=8, epochs=2, map=function,
                             map_workers=2) as loader, warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    kept = list(loader)
                    self.assertEqual([warning for warning in caught if "are being kept" not in str(
                        warning.message)], [])
                    for got, wanted in zip(kept, plain):
                        self.assert_same(got, wanted)
                del kept, got

    def test_broken_off_once_it_is_made(self: Any) -> None:
        """By the warning that batches are being kept, where it is an error: the batch comes again, copied."""
        for workers in (0, 2):
            server = self.fake()
            with loading(server, batch_size=8, map=written, map_workers=workers) as loader:
                iterator, kept = iter(loader), []
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    with self.assertRaisesRegex(RuntimeWarning, "are being kept"):
                        while True:
                            kept.append(next(iterator))
                    kept += [next(iterator) for _ in range(3)]
                self.assertEqual([batch.index for batch in kept], list(range(len(kept))))
                for batch in kept:
                    self.assert_negative(batch)
                del batch, kept

    def test_the_last_view_dies_without_python_code(self: Any) -> None:
        """As without a map, wherever the batch lies: of `written` in memory of its own, of `identity` in the
        server's."""
        for function in (written, identity):
            for workers in (0, 2):
                with self.subTest(function, workers=workers), nothing_ignored():
                    server = self.fake()
                    loader = loading(server, batch_size=8, map=function, map_workers=workers)
                    iterator = iter(loader)
                    for _ in range(12):                 # more than there are slots
                        held = [next(iterator)["image"][1:]]
                        self.assertEqual(called(held.clear), [])
                    held = [next(iterator)["image"][1:]]
                    loader.close()
                    self.assertEqual(called(held.clear) if function is written else [], [])

    def test_an_error_names_the_sample_and_the_batch_comes_again(self: Any) -> None:
        for workers in (0, 2):
            for how, message in (
                    ({"map": refuses_37}, "^map failed with sample 37: KeyError: 'thirty-seven'"),
                    ({"map": grows_at_37}, r"sample 37: .*returned .*\[2, 5, 3\].* first sample"),
                    ({"map": refuses_37, "map_batch": mixed}, "^map failed with sample 37: KeyError"),
                    ({"map_batch": refuses_batch_of_37}, "batch of 8 samples, the first sample 32")):
                with self.subTest(message, workers=workers):
                    server = self.fake()
                    loader = loading(server, batch_size=8, epochs=1, map_workers=workers, **how)
                    given = []
                    iterator = iter(loader)
                    for _ in range(2):
                        with self.assertRaisesRegex(tureen.MapFailed, message) as failed:
                            for batch in iterator:
                                given.append(batch.ids.tolist())
                        self.assertEqual(failed.exception.id, 37 if "map" in how else 32)
                        self.assertIsInstance(failed.exception.__cause__, (KeyError, TypeError))
                    self.assertEqual(sum(given, []), list(range(32)))
                    del failed, batch
                    state = loader.state_dict()
                    loader.close()
                    rest = tureen.Loader(server.endpoint, batch_size=8, epochs=1)
                    rest.load_state_dict(state)
                    self.assertEqual([number for batch in rest for number in batch.ids.tolist()],
                                     list(range(32, 100)))

    def test_an_error_in_the_first_batch_of_which_the_server_says_nothing(self: Any) -> None:
        """The first sample is run alone; a server that does not tell the sample's name hides no error."""
        for workers in (0, 2):
            server = self.fake()
            server._take_explain = lambda job, tag, asked: server._refuse(job.peer, tag, "busy", "ask later")
            with loading(server, batch_size=8, epochs=1, map=refuses_5, map_workers=workers) as loader:
                with self.assertRaisesRegex(tureen.MapFailed,
                                            "^map failed with sample 5: KeyError: 'five'") as failed:
                    next(iter(loader))
                self.assertEqual(failed.exception.id, 5)

    def test_processes_are_killed(self: Any) -> None:
        """Again and again, at random moments: each sample once, and never half of it done.  At every third
        batch, so that no batch is met three times, which would be said to kill processes."""
        chance = random.Random(SEED)
        for how in ({"map": slow}, {"map_batch": slow}):
            with self.subTest(how):
                server = self.fake(200)
                loader = loading(server, batch_size=16, epochs=2, map_workers=2, **how)
                seen: List[int] = []
                killed: List[int] = []

                def begun(loader: Any = loader, killed: List[int] = killed) -> List[int]:
                    """Those that die again and again before they have begun end the job, by right."""
                    return [process.pid for process in list(loader._mapper._pool._processes)
                            if process.ready and process.pid not in killed]
                for number, batch in enumerate(loader):
                    self.assert_negative(batch)
                    seen += batch.ids.tolist()
                    if number % 3 == 0:
                        until(begun, "a process that has begun")
                        time.sleep(chance.uniform(0, 0.05))
                        killed.append(chance.choice(begun()))
                        os.kill(killed[-1], signal.SIGKILL)
                self.assertEqual(seen, 2 * list(range(200)))
                del batch
                loader.close()

    def test_a_client_that_cannot_go_on_with_half_a_batch(self: Any) -> None:
        """Its processes end, with the first sample done, while `next` waits (before that, new ones are
        started without a word); asked again, new ones do all of the batch."""
        server, hand, calls = self.fake(), Pool._hand, itertools.count()
        ready, waits = Mapper._ready_pool, threading.Event()

        def asked(mapper: Mapper) -> Pool:
            pool = ready(mapper)
            waits.set()
            return pool

        def fails_once(*how: Any) -> None:
            if next(calls) == 1:
                self.assertTrue(waits.wait(PATIENCE_S))
                raise OSError(errno.ENOMEM, "no memory")
            hand(*how)
        with mock.patch.object(Mapper, "_ready_pool", asked), \
                loading(server, batch_size=8, epochs=1, map=written, map_workers=1) as loader:
            seen: List[int] = []
            with mock.patch.object(Pool, "_hand", fails_once):
                iterator = iter(loader)
                with self.assertRaisesRegex(tureen.MapFailed, "cannot hand batches.*no memory"):
                    next(iterator)
            for batch in iterator:
                self.assert_negative(batch)
                seen += batch.ids.tolist()
            self.assertEqual(seen, list(range(100)))
            del batch

    def test_a_sample_that_kills_is_named(self: Any) -> None:
        server = self.fake()
        loader = loading(server, batch_size=8, epochs=1, map=dies_at_37, map_workers=2)
        given: List[int] = []
        with self.assertRaisesRegex(tureen.MapFailed, "sample 37.*3 processes died.*SIGKILL") as failed:
            for batch in loader:
                given += batch.ids.tolist()
        self.assertEqual((given, failed.exception.id), (list(range(32)), 37))
        del batch, failed
        loader.close()

    def test_a_server_that_crashes(self: Any) -> None:
        server = self.fake(200)
        with loading(server, batch_size=8, epochs=2, map=slow, map_workers=2) as loader:
            seen: List[int] = []
            for number, batch in enumerate(loader):
                self.assert_negative(batch)
                seen += batch.ids.tolist()
                if number in (3, 4, 17):
                    server.do_crash()
            self.assertEqual(seen, 2 * list(range(200)))
            #  The second crash may come before the client is back from the first.
            self.assertIn(loader.stats()["rejoined"], (2, 3))
            del batch


class OfProcesses(Maps):
    """What is the same however batches come."""

    def test_whatever_was_raised_is_the_cause(self: Any) -> None:
        """Itself in the loop; of a process one of its class or of its name, and the traceback as text."""
        server = self.fake()
        for number, (name, base, text, arguments, is_of_class) in enumerate(RAISED):
            summaries = set()
            for workers in (0, 1):
                with self.subTest(name, workers=workers), \
                        loading(server, batch_size=1, epochs=1, order="list", ids=[number], pipeline="eval",
                                map=raises, map_workers=workers, multiprocessing_context=FORKED) as loader:
                    with self.assertRaises(tureen.MapFailed) as failed:
                        next(iter(loader))
                    cause, message = failed.exception.__cause__, failed.exception.message
                    assert cause is not None
                    summaries.add(message.partition("\n")[0])
                    self.assertEqual((type(cause).__name__, cause.args), (name, arguments))
                    self.assertIsInstance(cause, base)
                    self.assertEqual(text_of(cause), text)
                    self.assertEqual(type(cause) is globals().get(name), is_of_class or (
                        workers == 0 and name == "Unmade"))
                    self.assertEqual(getattr(cause, "second", None), "b" if name == "OfTwo" else None)
                    if workers == 0:
                        self.assertIs(cause, LAST.pop())
                        self.assertNotIn("Traceback", message)
                    else:
                        self.assertRegex(message, r"(?s)\n\nTraceback .*, in raises\n.*" + name)
            self.assertEqual(summaries, {f"map failed with sample {number}: {name}: {text}"})

    def test_seeds_follow_from_the_sample(self: Any) -> None:
        found = []
        for workers in (0, 1, 3):
            server = self.fake(50)
            with loading(server, batch_size=7, epochs=2, map=seeded, map_workers=workers,
                         multiprocessing_context=FORKED) as loader:
                found.append([seed for batch in loader for seed in batch["seed"].tolist()])
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0], found[2])
        self.assertEqual(len(set(found[0])), 100)
        with self.assertRaisesRegex(RuntimeError, "while they run"):
            tureen.sample_seed()

    def test_what_cannot_be_handed_over(self: Any) -> None:
        server = self.fake()
        with self.assertRaisesRegex(TypeError, "multiprocessing_context=\"fork\""):
            iter(tureen.Loader(server.endpoint, map=lambda sample: sample, map_workers=1))
        with tureen.Loader(server.endpoint, batch_size=8, epochs=1, map_workers=2,
                           multiprocessing_context="fork",
                           map=lambda sample: {"label": sample["label"] + 1}) as loader:
            self.assertEqual(sum((batch["label"].tolist() for batch in loader), []), list(range(1, 101)))
        with loading(server, batch_size=8, map=Unloadable(), map_workers=1,
                     multiprocessing_context=FORKED) as loader:
            iterator = iter(loader)
            for _ in range(2):
                with self.assertRaisesRegex(tureen.MapFailed, "no such codec there.*: define the function "
                                            ".*, or give multiprocessing_context=\"fork\", or map_workers=0"):
                    next(iterator)
        for wrong in ({"map": 3}, {"map_workers": 2}, {"map": identity, "map_workers": -1}):
            with self.assertRaises((TypeError, ValueError)):
                tureen.Loader(server.endpoint, **wrong)

    def test_processes_end_with_their_loader(self: Any) -> None:
        server = self.fake()
        for how in ("closed", "dropped", "broken off", "hung"):
            with self.subTest(how):
                loader = loading(server, batch_size=8, map_workers=2, map=hangs if how == "hung" else written,
                                 multiprocessing_context=FORKED)
                iterator = iter(loader)
                pids = loader._mapper.pids()
                if how == "hung":
                    until_one_hangs(pids)
                else:
                    next(iterator)
                self.assertEqual([alive(pid) for pid in pids], [True, True])
                if how in ("closed", "hung"):
                    loader.close()
                del loader, iterator
                gc.collect()
                until(lambda pids=pids: not any(map(alive, pids)), "the processes' end")

    def test_one_set_of_processes_for_all_iterations(self: Any) -> None:
        server = self.fake(30)
        with loading(server, batch_size=8, epochs=1, map=written, map_workers=2) as loader:
            self.assertEqual(len(loader), 4)                # joins, before anything is iterated
            pids = []
            for _ in range(3):
                self.assertEqual(sum((batch.ids.tolist() for batch in loader), []), list(range(30)))
                pids.append(loader._mapper.pids())
                for batch in loader:                        # and one that is broken off
                    break
                del batch
            self.assertEqual(pids[1:], pids[:1] * 2)


class Ring(OfProcesses, Tidy):
    ring = True


class Inline(Maps, Tidy):
    ring = False


SCRIPT = """
import os, signal, sys, time
sys.path[:0] = [{package!r}, {here!r}]
import test_python_map as functions, tureen

def main():
    loader = tureen.Loader({endpoint!r}, batch_size=8, map=functions.{function}, map_workers={workers},
                           multiprocessing_context={context!r})
    iterator = iter(loader)
    if {take}: kept = next(iterator)
    child = os.fork() if {fork} else 0
    if {fork} and not child:
        time.sleep(1000)
    print(child, *loader._mapper.pids(), flush=True)
    {then}

{guard}main()
"""

OF_ITS_OWN = """
import sys
sys.path.insert(0, {package!r})
import tureen

class Own(Exception):
    class Inner(KeyError):
        pass

    def __init__(self, first, second):
        super().__init__(first + second)
        self.second = second

errors = iter([Own("a", "b"), Own.Inner("c")])

def fails(sample):
    raise next(errors)

if __name__ == "__main__":
    with tureen.Loader({endpoint!r}, batch_size=1, epochs=1, order="list", ids=[0], pipeline="eval",
                       map=fails, map_workers=1) as loader:
        batches = iter(loader)
        for kind in (Own, Own.Inner):
            try:
                next(batches)
            except tureen.MapFailed as failed:
                print(type(failed.__cause__) is kind, failed.__cause__.args, vars(failed.__cause__))
"""


class NoMemory(unittest.TestCase):
    def test_memory_that_is_not_to_be_had_leaves_no_descriptor(self) -> None:
        before = descriptors()
        with mock.patch("os.ftruncate", side_effect=OSError(errno.EFBIG, "too large")):
            with self.assertRaises(OSError):
                new_shared(4096)
        self.assertEqual(descriptors(), before)


class Ends(Tidy):
    """The client is a process of its own, and ends in every way."""

    def setUp(self) -> None:
        super().setUp()
        self.processes: List[subprocess.Popen[str]] = []

    def tearDown(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
            for file in (process.stdout, process.stderr):
                if file is not None:
                    file.close()
        super().tearDown()

    def script(self, server: Any, function: str = "written", take: bool = True, fork: bool = False,
               then: str = "time.sleep(1000)", guard: str = "if __name__ == '__main__': ",
               context: str = "spawn", workers: int = 2) -> subprocess.Popen[str]:
        return self.run_script(server, SCRIPT.format(
            package=str(PACKAGE), here=os.path.dirname(os.path.abspath(__file__)), endpoint=server.endpoint,
            function=function, take=take, fork=fork, then=then, guard=guard, context=context,
            workers=workers))

    def run_script(self, server: Any, text: str) -> subprocess.Popen[str]:
        path = os.path.join(server.directory, "script.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        #  A client that is killed leaves what multiprocessing has made there.
        process = subprocess.Popen([sys.executable, "-B", path], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, start_new_session=True,
                                   env={**os.environ, "TMPDIR": server.directory})
        self.processes.append(process)
        return process

    def pids(self, process: subprocess.Popen[str]) -> List[int]:
        assert process.stdout is not None
        return [int(word) for word in process.stdout.readline().split()]

    def test_the_client_is_killed(self) -> None:
        for function, context in (("written", "spawn"), ("hangs", "fork"), ("hangs", "forkserver")):
            with self.subTest(function, context=context):
                process = self.script(self.server(), function, function == "written", context=context)
                _, *pids = self.pids(process)
                if function == "hangs":
                    until_one_hangs(pids)
                process.kill()
                until(lambda pids=pids: not any(map(alive, pids)), "the processes' end")

    def test_the_client_is_killed_and_a_forked_child_lives(self) -> None:
        process = self.script(self.server(), fork=True)
        child, *pids = self.pids(process)
        process.kill()
        try:
            until(lambda: not any(map(alive, pids)), "the processes' end")
            self.assertTrue(alive(child))
        finally:
            os.kill(child, signal.SIGKILL)

    def test_the_interpreter_ends(self) -> None:
        for function, context in (("written", "spawn"), ("hangs", "fork")):
            with self.subTest(function):
                process = self.script(self.server(), function, function == "written", then="pass",
                                      context=context)
                _, *pids = self.pids(process)
                out, errors = process.communicate(timeout=PATIENCE_S)
                self.assertEqual((process.returncode, out, errors), (0, "", ""))
                until(lambda pids=pids: not any(map(alive, pids)), "the processes' end")

    def test_interrupt(self) -> None:
        """Ctrl-C goes to all processes of the terminal: to those that have just been started, and later."""
        for later, context in ((False, "spawn"), (True, "fork")):
            with self.subTest(later=later):
                process = self.script(self.server(), "hangs", False, then="next(iterator)", context=context)
                _, *pids = self.pids(process)
                if later:
                    until_one_hangs(pids)
                os.killpg(process.pid, signal.SIGINT)
                _, errors = process.communicate(timeout=PATIENCE_S)
                self.assertEqual(process.returncode, -signal.SIGINT, errors)
                self.assertEqual(errors.count("\nKeyboardInterrupt"), 1, errors)
                until(lambda pids=pids: not any(map(alive, pids)), "the processes' end")

    def test_an_exception_of_the_scripts_own(self) -> None:
        """Its class is one of the script, which has another name in a process."""
        server = self.server()
        process = self.run_script(server, OF_ITS_OWN.format(package=str(PACKAGE), endpoint=server.endpoint))
        out, errors = process.communicate(timeout=PATIENCE_S)
        self.assertEqual((out, errors), ("True ('ab',) {'second': 'b'}\nTrue ('c',) {}\n", ""))

    def test_a_script_without_a_guard(self) -> None:
        process = self.script(self.server(), guard="", workers=1)
        process.wait(PATIENCE_S)
        assert process.stderr is not None
        self.assertRegex(process.stderr.read(), r"MapFailed: map cannot go on: its processes end .*"
                         r"one ended with status 1\).*__main__")


if __name__ == "__main__":
    unittest.main()

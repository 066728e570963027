"""Data sets that are added to a running server: what tureen.serve asks of it, which names its loaders say
then, and what is added again to a server that was started anew.

Run by ctest (python_adding), or by hand: python3 tests/clients/test_python_adding.py [-v] [NAME].
"""
from __future__ import annotations

import json
import math
import os
import pickle
import tempfile
import threading
import unittest
import warnings
from typing import Any, Dict, List, Tuple
from unittest import mock

from client_checks import Tidy, in_time, until
from fake_server import HEAD, FakeServer, dump, pack_head

import tureen
from tureen import adding, connection, control, names, options, serving, standby, wire

Refusal = Tuple[str, str]


class Adder(FakeServer):
    """A server that takes data sets."""

    def __init__(self, samples: int = 20, ends_idle: bool = False, **served: str) -> None:
        super().__init__(samples)
        self.ends_idle = ends_idle
        self.served = {name: self.entry(name, path) for name, path in served.items()}
        self.polls = 1                              # answers "opening" so often
        self.asked: List[List[str]] = []            # the words of each ADD
        self.joined: List[Dict[str, Any]] = []
        self.is_old = False
        self.refusals: List[Refusal] = []           # of the next ADDs
        self.missing: List[str] = []                # paths that cannot be opened
        self.otherwise: Dict[str, str] = {}         # the setting that it has otherwise, by name
        self.removed: List[str] = []                # the names in REMOVE
        self.reopening: List[str] = []              # what it opens again, and STATUS does not have
        self.lost = 0                               # answers to ADD that do not arrive
        self.hanging: List[str] = []                # paths that are being opened for ever
        self.opens_again = 0                        # JOINs and DATASETs that are refused with `opening`
        self._opening: Dict[str, int] = {}
        self.tell()

    @staticmethod
    def entry(name: str, path: str, **fields: str) -> Dict[str, Any]:
        return {"name": name, "path": path, "fields": ["image", *fields], "folders": [path, *fields.values()],
                "listed_seconds": 1.0}

    def tell(self) -> None:
        self.told_status = {"datasets": list(self.served.values()), "uptime_seconds": 1.0,
                            "until_idle": 60 if self.ends_idle else None}

    def _take(self, peer: bytes, frames: List[bytes]) -> None:
        kind, tag = HEAD.unpack(frames[0])[2], HEAD.unpack(frames[0])[5]
        if kind in (wire.ADD, wire.REMOVE, wire.DATASET):
            body = json.loads(frames[1])
            if self.is_old:
                self._refuse(peer, tag, "unknown_kind", f"no message to the server has kind {kind}")
            elif kind == wire.ADD:
                self._take_add(peer, tag, body["arguments"])
            elif kind == wire.REMOVE:
                self._take_remove(peer, tag, body)
            elif self._has(peer, tag, body):
                self._refuse(peer, tag, "busy_elsewhere", f"reads of data set '{body['dataset']}' are paused")
            return
        super()._take(peer, frames)

    def _take_add(self, peer: bytes, tag: int, words: List[str]) -> None:
        self.asked.append(words)
        if self.lost:
            self.lost -= 1
            return
        if self.refusals:
            self._refuse(peer, tag, *self.refusals.pop(0))
            return
        parsed = options.parse(words)
        for name, path in parsed.datasets.items():
            if path in self.missing:
                self._refuse(peer, tag, "cannot_open", f"data set '{name}': there is no folder '{path}'")
                return
            if name in self.served and name in self.otherwise:
                self._refuse(peer, tag, "taken", f"data set '{name}' is there already, with another setting "
                             f"of {self.otherwise[name]}: take another name")
                return
            if name in self.served and self.served[name]["path"] != path:
                self._refuse(peer, tag, "taken", f"data set '{name}' is {self.served[name]['path']}")
                return
        left = self._opening.setdefault(" ".join(words), self.polls)
        if left or any(path in self.hanging for path in parsed.datasets.values()):
            self._opening[" ".join(words)] = max(0, left - 1)
            answer: Dict[str, Any] = {"state": "opening", "progress": "data set 'val': 12,000 files"}
        else:
            for name, path in parsed.datasets.items():
                fields = {setting.field: setting.folder for setting in parsed.settings.get(name, [])
                          if setting.field}
                self.served[name] = self.entry(name, path, **fields)
            self.tell()
            answer = {"state": "ready", "lines": ["data set 'val': 20 samples", "warning: it is small"]}
        self._sent(peer, [pack_head(wire.ADDING, 0, tag), dump(answer)])

    def _take_remove(self, peer: bytes, tag: int, body: Dict[str, Any]) -> None:
        self.removed.append(body["dataset"])
        if body["dataset"] in self.reopening:
            self.reopening.remove(body["dataset"])
        elif body["dataset"] not in self.served:
            self._refuse(peer, tag, "unknown_dataset", f"no data set '{body['dataset']}'")
            return
        jobs = [job for job in self.alive() if job.request["dataset"] == body["dataset"]]
        if jobs and not body["now"]:
            self._refuse(peer, tag, "in_use", f"{len(jobs)} jobs use data set '{body['dataset']}'")
            return
        for job in jobs:
            self.end(job, "removed", f"data set '{body['dataset']}' was removed")
        self.served.pop(body["dataset"], None)
        self.tell()
        self._sent(peer, [pack_head(wire.REMOVED, 0, tag), dump({"jobs": len(jobs)})])

    def _take_join(self, peer: bytes, tag: int, request: Dict[str, Any], id_frames: List[bytes]) -> None:
        self.joined.append(request)
        if self._has(peer, tag, request):
            super()._take_join(peer, tag, request, id_frames)

    def _has(self, peer: bytes, tag: int, request: Dict[str, Any]) -> bool:
        served = self.served.get(request["dataset"])
        if self.opens_again:
            self.opens_again -= 1
            self._refuse(peer, tag, "opening", f"data set '{request['dataset']}' is being opened again")
        elif served is None:
            self._refuse(peer, tag, "unknown_dataset", f"no data set '{request['dataset']}'; this server "
                         f"has: {', '.join(self.served)}")
        elif request.get("path", served["path"]) != served["path"]:
            self._refuse(peer, tag, "unknown_dataset", f"data set '{request['dataset']}' of this server is "
                         f"{served['path']} by now, and this client means {request['path']}")
        else:
            return True
        return False


def other_name(name: str, path: str) -> str:
    return names.Data(name, path).other_name


def standbys() -> int:
    return sum(thread.name == "tureen-standby" for thread in threading.enumerate())


class Case(Tidy):
    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="tu-")          # of the logs
        self.addCleanup(folder.cleanup)
        patch = mock.patch.object(tempfile, "tempdir", folder.name)
        patch.start()
        self.addCleanup(patch.stop)
        self.standbys = standbys()

    def tearDown(self) -> None:
        self.threads += standbys() - self.standbys      # which stay
        super().tearDown()

    def adder(self, **how: Any) -> Adder:
        server = Adder(**how)
        self.servers.append(server)
        self.addCleanup(server.__enter__().__exit__)
        self.addCleanup(names.forget, server.endpoint)
        self.addCleanup(standby.forget, server.endpoint)
        return server

    def serve(self, server: Adder, *given: Any, **options: Any) -> tureen.Server:
        with mock.patch.object(serving, "_running", lambda endpoint: None):
            return tureen.serve(*given, endpoint=server.endpoint, **options)

    def taken(self, server: Adder, path: str = "/mine") -> tureen.Server:
        """Its `train` is another one's."""
        with self.assertWarnsRegex(RuntimeWarning, f"has other data as 'train': {path} is '"
                                   f"{other_name('train', path)}' there, .* writes 'train-"):
            return self.serve(server, train=path)


class Adding(Case):
    def test_what_it_lacks_is_added(self) -> None:
        """In one message, which is repeated until it is ready; its words are those of `tureen serve`."""
        server = self.adder(train="/a")
        server.polls = 3
        folder = os.getcwd()
        found = self.serve(server, train="/a", val="/v", test="t", classes_from={"val": "train"},
                           allow_empty=["test"],
                           arguments=["--field", "val.mask=mask:m", "--on-bad=val=fail", "--policy", "dsa",
                                      "--tenant-datasets", "vision=train,val"])
        words = ["--dataset", "val=/v", "--classes-from", "val=train", "--field", f"val.mask=mask:{folder}/m",
                 "--on-bad", "val=fail", "--tenant-datasets", "vision=val", "--dataset", f"test={folder}/t",
                 "--allow-empty", "test=yes"]
        self.assertEqual(server.asked, [words] * 4)
        self.assertEqual(found.names, {"train": "train", "val": "val", "test": "test"})
        self.assertEqual((found.process, found.log), (None, None))
        found.add(more="/more")
        self.assertEqual(server.asked[4:], [["--dataset", "more=/more"]] * 4)
        self.assertEqual(found.names["more"], "more")
        self.serve(server, train="/a/", more="/more")
        self.assertEqual(len(server.asked), 8, "what is there is not asked for")
        with self.assertRaisesRegex(ValueError, "--policy: of a running server only"):
            found.add(more="/more", arguments=["--policy", "dsa"])
        with self.assertRaisesRegex(tureen.NoServer, "no server answers"):
            tureen.Server("ipc:///nowhere/s.sock", None, None).add(more="/more", timeout=5)

    def test_classes_of_a_data_set_with_another_name(self) -> None:
        server = self.adder(train="/a")
        with self.assertWarns(RuntimeWarning):
            found = self.serve(server, train="/b", val="/v", classes_from={"val": "train"})
        renamed = other_name("train", "/b")
        self.assertEqual(server.asked[-1], ["--dataset", f"{renamed}=/b", "--dataset", "val=/v",
                                            "--classes-from", f"val={renamed}"])
        found.add(test="/t", classes_from={"test": "train"})
        self.assertEqual(server.asked[-1], ["--dataset", "test=/t", "--classes-from", f"test={renamed}"])
        with self.assertRaisesRegex(ValueError, "no data set 'val' here; there are: more"):
            found.add(more="/m", allow_empty=["val"])

    def test_one_that_opens_for_long(self) -> None:
        server = self.adder(train="/a")
        server.polls = 10000
        for timeout in (0.5, 2, 8, 32):         # a loaded machine asks once in half a second
            server.asked.clear()
            with self.assertRaisesRegex(tureen.NoServer, "data set 'val': 12,000 files. It goes on opening"):
                self.serve(server, val="/v", timeout=timeout)
            self.assertIsNone(names.find(server.endpoint, "val"))
            if len(server.asked) > 1:
                break
        self.assertGreater(len(server.asked), 1)

    def test_an_answer_that_is_lost(self) -> None:
        server = self.adder(train="/a")
        server.lost, server.polls = 1, 0
        with mock.patch.object(adding, "_ANSWER_MAX_S", 0.5):
            found = self.serve(server, val="/v", timeout=1000)
        self.assertGreater(len(server.asked), 1)
        server.lost = 10000
        with self.assertRaisesRegex(tureen.NoServer, "no server answers"):
            found.add(test="/t", timeout=0.5)

    def test_refusals(self) -> None:
        server = self.adder(train="/a")
        for refusal, told in (
                (("forbidden", "only an operator may add"), "takes no data sets from this user .only an "
                 "operator may add., and it has no data set 'val' ./v was asked for.. Ask its operator "
                 ".*tureen add"),
                (("bad_data", "data set 'val': there is no folder"), "cannot add what it lacks: data set "
                 "'val': there is no folder"),
                (("unsupported", "a simulation"), "with other data: it has no data set 'val' .*server.stop")):
            server.refusals = [refusal]
            with self.assertRaisesRegex(tureen.ServeFailed, told):
                self.serve(server, val="/v")
        server.refusals = [("forbidden", "only an operator may add")]
        self.assertEqual(self.serve(server, train="/a").names, {"train": "train"})

    def test_a_path_that_is_not_utf_8(self) -> None:
        server = self.adder(train="/a")
        with self.assertRaisesRegex(tureen.ServeFailed, "only be asked for paths that are UTF-8"):
            self.serve(server, val=os.fsdecode(b"/v\xff"))
        self.assertEqual(server.asked, [])

    def test_an_old_server(self) -> None:
        """Says what it has otherwise, as before."""
        server = self.adder(train="/a")
        server.is_old = True
        with self.assertRaisesRegex(tureen.ServeFailed, "with other data: its 'train' is /a, and /b was "
                                    "asked for; it has no data set 'val' ./v was asked for.. Ask for what it "
                                    "has, stop it .`server.stop ..` where it was started, or `tureen stop "):
            self.serve(server, train="/b", val="/v")
        found = self.serve(server, train="/a")
        with self.assertRaisesRegex(tureen.RequestRefused, "keeps the data sets that it was started with"):
            found.remove("train")

    def test_settings_that_it_has_otherwise(self) -> None:
        server = self.adder(train="/a")
        running = serving._Command(["serve", "--dataset", "train=/a", "--cache", "64M", "--workers=2",
                                    "--until-idle=60", "--policy", "dsa", "--supervise"], "/")
        with mock.patch.object(serving, "_running", lambda endpoint: running):
            with self.assertWarnsRegex(RuntimeWarning, "its --cache is 64M .8G was asked for.; its "
                                       "--until-idle is 60 .5 was asked for.; it has no --http .9000 was "
                                       "asked for.. `tureen stop"):
                tureen.serve(train="/a", endpoint=server.endpoint, cache="8G", workers=2, idle=5,
                             arguments=["--http", "9000", "--supervise", "--policy=dsa"])
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                tureen.serve(train="/a", endpoint=server.endpoint, cache="65536K", workers=2)


class Taken(Case):
    def test_the_other_name_is_said_to_the_server_only(self) -> None:
        server = self.adder(train="/theirs")
        found = self.taken(server)
        renamed = other_name("train", "/mine")
        self.assertRegex(renamed, "^train-[0-9a-f]{6}$")
        self.assertEqual(found.names, {"train": renamed})
        with tureen.Loader(server.endpoint, batch_size=8) as loader:
            batches = iter(loader)
            next(batches)
            self.assertEqual(server.joined[-1]["dataset"], renamed)
            state = loader.state_dict()
            self.assertEqual((state["dataset"], type(state["dataset"])), ("train", str))
            self.assertIn("'train'", repr(loader))
            self.assertEqual(loader.dataset.name, "train")
            self.assertEqual(repr(loader.dataset), "<tureen.DataSet 'train'>")
            with self.assertRaisesRegex(tureen.RequestRefused, "reads of data set 'train' are paused"):
                loader.dataset.classes
            job = server.job()
            server.do(lambda: server.notice(job, "slow", f"data set '{renamed}' is slow"))
            server.do(lambda: server.end(job, "bad_sample", f"data set '{renamed}': it is bad"))
            with self.assertWarnsRegex(tureen.TureenWarning, "^data set 'train' is slow$"):
                with self.assertRaisesRegex(tureen.JobEnded, "data set 'train': it is bad"):
                    for _ in batches:
                        pass
        #  The state goes on where the data are "train", and the other way round.
        plain = self.adder(train="/mine")
        for endpoint, name in ((plain.endpoint, "train"), (server.endpoint, renamed)):
            with tureen.Loader(endpoint, batch_size=8, epochs=1) as loader:
                loader.load_state_dict(state)
                self.assertEqual([id for batch in loader for id in batch.ids.tolist()], [*range(8, 20)])
        self.assertEqual((plain.joined[-1]["dataset"], server.joined[-1]["dataset"]), ("train", renamed))

    def test_words_about_several_ranks_stay(self) -> None:
        data = names.Data("train", "/a")
        data.served = "train-123456"
        name = names.Name("train", "ipc:///none", data)
        self.assertEqual(names.told(name, "ranks_differ", "train-123456, train"), "train-123456, train")
        self.assertEqual(names.told(name, "bad", "of train-123456"), "of train")

    def test_files_that_are_others_are_refused(self) -> None:
        server = self.adder(train="/theirs")
        with tureen.Loader(server.endpoint, batch_size=8, epochs=1) as loader:
            next(iter(loader))
            state = loader.state_dict()
        self.taken(server)
        loaded = tureen.state.parse(state)._replace(fingerprint="abcd")
        with tureen.Loader(server.endpoint, batch_size=8, epochs=1) as loader:
            loader.load_state_dict(tureen.state.pack(loaded))
            with self.assertRaisesRegex(tureen.RequestRefused, "bad_state"):
                iter(loader)

    def test_a_loader_keeps_the_data_that_it_has(self) -> None:
        """Whatever is called so later; also in a process that gets it pickled."""
        server = self.adder(train="/theirs")
        self.taken(server)
        first = tureen.Loader(server.endpoint, batch_size=8, epochs=1)
        handed = pickle.dumps(first)
        self.assertEqual(sum(1 for _ in first), 3)
        self.taken(server, "/second")
        renamed = {path: other_name("train", path) for path in ("/mine", "/second")}
        for loader, path in ((first, "/mine"), (pickle.loads(handed), "/mine"),
                             (tureen.Loader(server.endpoint, batch_size=8, epochs=1), "/second")):
            self.assertEqual(sum(1 for _ in loader), 3)
            self.assertEqual(server.joined[-1]["dataset"], renamed[path])
            loader.close()
        names.forget(server.endpoint)
        with pickle.loads(handed) as loader:
            self.assertEqual(sum(1 for _ in loader), 3)
            self.assertEqual(server.joined[-1]["dataset"], renamed["/mine"])

    def test_it_is_found_by_its_other_name(self) -> None:
        """By a process that asks for the same files, although "train" became free meanwhile."""
        server = self.adder(train="/theirs")
        self.taken(server)
        names.forget(server.endpoint)
        del server.served["train"]
        server.tell()
        self.taken(server)
        self.assertEqual(len(server.asked), 2)
        with self.assertRaisesRegex(tureen.ServeFailed, "as 'train' and as 'train-......': its 'train' is "
                                    "/theirs.*no field 'mask'.*tureen remove train-......"):
            server.served["train"] = server.entry("train", "/theirs")
            server.tell()
            self.serve(server, train="/mine", arguments=["--field", "train.mask=mask:/m"])

    def test_a_name_that_is_taken_in_between(self) -> None:
        """Also while the other one's data set is still opening, and STATUS has none of that name."""
        server = self.adder(train="/a")
        server.refusals = [("taken", "data set 'val' is being opened, of /theirs")]
        with self.assertWarnsRegex(RuntimeWarning, "other data as 'val'"):
            found = self.serve(server, val="/v", test="/t")
        self.assertEqual(found.names, {"val": other_name("val", "/v"), "test": "test"})
        #  By the time that it looks again the other one's is there.
        server.refusals = [("taken", "it was just added")]
        server.served["more"] = server.entry("more", "/theirs")
        with self.assertWarnsRegex(RuntimeWarning, "other data as 'more'"):
            found.add(more="/m")
        self.assertEqual(found.names["more"], other_name("more", "/m"))

    def test_many_at_once(self) -> None:
        """Each gets its own data; what several ask for is there once."""
        server = self.adder(train="/a")
        found: Dict[int, tureen.Server] = {}

        def ask(number: int) -> None:
            found[number] = tureen.serve({f"data{number // 2}": f"/d{number // 2}"}, endpoint=server.endpoint)
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
        with mock.patch.object(serving, "_running", lambda endpoint: None):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual([found[number].names for number in range(6)],
                         [{f"data{number // 2}": f"data{number // 2}"} for number in range(6)])
        self.assertEqual(sorted(server.served), ["data0", "data1", "data2", "train"])


class ChangingHands(Case):
    """The name is of other data by now."""

    def refused(self, server: Adder) -> Any:
        return self.assertRaisesRegex(tureen.RequestRefused, "'train' of this server is /theirs by now, and "
                                      "this client means /mine. In this process 'train' is /mine")

    def test_no_other_data_are_had(self) -> None:
        server = self.adder(train="/mine")
        self.serve(server, train="/mine")
        used, unused = (tureen.Loader(server.endpoint, batch_size=8, epochs=1) for _ in range(2))
        self.assertEqual(sum(1 for _ in used), 3)
        self.assertEqual(server.joined[-1]["path"], "/mine")
        used.dataset._name.data
        handed = pickle.dumps(unused)
        server.served["train"] = server.entry("train", "/theirs")
        server.missing = ["/mine"]
        server.tell()
        for loader in (used, unused, pickle.loads(handed), tureen.Loader(server.endpoint, batch_size=8)):
            with loader, self.refused(server):
                iter(loader)
        with self.refused(server):
            tureen.DataSet("train", server.endpoint).classes
        joins = len(server.joined)
        #  It is added under its other name, once.
        server.missing = []
        server.asked.clear()
        for again in (tureen.Loader(server.endpoint, batch_size=8, epochs=1), pickle.loads(handed)):
            with again as loader:
                self.assertEqual(sum(1 for _ in loader), 3)
        other = other_name("train", "/mine")
        self.assertEqual([(join["dataset"], join["path"]) for join in server.joined[joins:]],
                         [("train", "/mine"), (other, "/mine"), (other, "/mine")])
        self.assertEqual(server.asked, [["--dataset", f"{other}=/mine"]] * 2)
        #  What was only taken away is not added again.
        del server.served[other]
        server.tell()
        with tureen.Loader(server.endpoint, batch_size=8) as loader:
            with self.assertRaisesRegex(tureen.RequestRefused, f"no data set '{other}'.*'train' is /mine"):
                iter(loader)
        self.assertEqual(len(server.asked), 2)

    def test_a_server_that_had_none_is_told_the_path(self) -> None:
        server = self.adder()
        self.serve(server, train="/mine")
        with tureen.Loader(server.endpoint, batch_size=8, epochs=1) as loader:
            self.assertEqual(sum(1 for _ in loader), 3)
        self.assertEqual(server.joined[-1]["path"], "/mine")

    def test_an_older_server_is_not_told_the_path(self) -> None:
        server = self.adder(train="/mine")
        del server.served["train"]["listed_seconds"]
        self.serve(server, train="/mine")
        with tureen.Loader(server.endpoint, batch_size=8, epochs=1) as loader:
            self.assertEqual(sum(1 for _ in loader), 3)
        self.assertNotIn("path", server.joined[-1])

    def test_what_was_before_is_called_so_again(self) -> None:
        server = self.adder(train="/theirs")
        first = self.taken(server)
        second = self.taken(server, "/second")
        second.remove("train")
        with tureen.Loader(server.endpoint, batch_size=8, epochs=1) as loader:
            self.assertEqual(sum(1 for _ in loader), 3)
            self.assertEqual(server.joined[-1]["path"], "/mine")
        self.assertEqual(first.names, {"train": other_name("train", "/mine")})

    def test_what_another_process_removed(self) -> None:
        """It does not come back, and can be removed here too."""
        server = self.adder(train="/a")
        found = self.serve(server, val="/v", test="/t")
        server.served["val"] = server.entry("val", "/theirs")
        del server.served["test"]
        server.tell()
        server.asked.clear()
        found.add(more="/m")
        self.assertEqual(server.asked[-1], ["--dataset", "more=/m"])
        self.assertEqual((found.remove("val"), found.remove("test"), server.removed), (0, 0, ["test"]))
        self.assertEqual((found.names, server.served["val"]["path"]), ({"more": "more"}, "/theirs"))
        with self.assertRaisesRegex(TypeError, "name must be"):
            found.remove(None)      # type: ignore[arg-type]

    def test_processes_that_are_started(self) -> None:
        server = self.adder(train="/theirs")
        found = self.taken(server)
        there = names._told_by_parent()[server.endpoint]
        self.assertEqual({name: (data.served, data.told) for name, data in there.items()},
                         {"train": (found.names["train"], "/mine")})
        found.remove("train")
        self.assertEqual(names._told_by_parent()[server.endpoint]["train"].told, "/mine")
        names.forget(server.endpoint)
        self.assertNotIn("TUREEN_NAMES", os.environ)
        with mock.patch.dict(os.environ, {"TUREEN_NAMES": "[1]"}):
            self.assertEqual(names._told_by_parent(), {})

    def test_the_environment_is_not_written_in_vain(self) -> None:
        server = self.adder(train="/theirs")
        self.taken(server)
        with mock.patch.object(type(os.environ), "__setitem__") as written:
            names.tell_children()
        written.assert_not_called()

    def test_threads(self) -> None:
        stop, kept = threading.Event(), []

        def read() -> None:
            while not stop.is_set():
                names.asked("ipc:///none")
        thread = threading.Thread(target=read)
        thread.start()
        self.addCleanup(names.forget, "ipc:///none")
        try:
            for number in range(500):
                kept = [*kept[-50:], names.Data(f"d{number % 50}", f"/{number}")]
                names.note("ipc:///none", kept[-1:])
                self.assertTrue(thread.is_alive())
        finally:
            stop.set()
            thread.join()

    def test_one_endpoint_in_two_ways(self) -> None:
        self.assertEqual(tureen.Loader("ipc:////tmp//a/../s.sock").endpoint, "ipc:///tmp/s.sock")


class EachByItself(Case):
    def test_what_can_be_added_is(self) -> None:
        server = self.adder(train="/a")
        server.missing = ["/v"]
        with self.assertRaisesRegex(tureen.ServeFailed, "'val': there is no folder '/v'"):
            self.serve(server, val="/v", test="/t")
        self.assertEqual(sorted(server.served), ["test", "train"])

    def test_what_was_added_before_is_not_in_the_way(self) -> None:
        server = self.adder(train="/a")
        processes = [1]
        with mock.patch("tureen.finding.server_process", lambda endpoint: processes[0]):
            found = self.serve(server, val="/v")
            processes[0], server.missing = 2, ["/v"]
            del server.served["val"]
            server.tell()
            found.add(more="/m")
            self.assertEqual(sorted(server.served), ["more", "train"])

    def test_a_server_that_has_answered_is_not_ended(self) -> None:
        server = self.adder(train="/a")
        server.missing = ["/v"]
        with mock.patch.object(serving, "Detached") as started, \
                mock.patch.object(serving, "_executable", lambda: "tureen"), \
                mock.patch("tureen.finding.listens", lambda endpoint: False), \
                mock.patch.object(serving._Starting, "_listens", lambda self: True):
            started.return_value.poll.return_value = None
            with self.assertRaisesRegex(tureen.ServeFailed, "there is no folder '/v'"):
                tureen.serve(val="/v", endpoint=server.endpoint)
            started.return_value.let_go.assert_called_once_with()
            started.return_value.end.assert_not_called()

    def test_other_settings_are_warned_of(self) -> None:
        server = self.adder(train="/a")
        del server.told_status["until_idle"]
        server.otherwise = {"train": "on-bad"}
        with self.assertWarnsRegex(RuntimeWarning, "other settings, and keeps them: data set 'train' is "
                                   "there already, with another setting of on-bad"):
            self.serve(server, train="/a", arguments=["--on-bad", "train=fail"])

    def test_what_was_removed_stays_away(self) -> None:
        """Also from the command that starts the server again."""
        server = self.adder(train="/a", ends_idle=True)
        running = serving._Command(["serve", "--dataset", "train=/a", "--cache", "64M"], "/")
        with mock.patch.object(serving, "_running", lambda endpoint: running):
            tureen.serve(train="/a", endpoint=server.endpoint).remove("train")
            tureen.serve(train="/b", endpoint=server.endpoint)
        command = serving._restart(server.endpoint)
        assert command is not None
        self.assertEqual(command.words, ["serve", "--cache=64M", "--dataset", "train=/b"])


class Removing(Case):
    def test_removing(self) -> None:
        server = self.adder(train="/theirs")
        found = self.taken(server)
        renamed = found.names["train"]
        with tureen.Loader(server.endpoint, batch_size=8, rejoin=1000) as loader:
            batches = iter(loader)
            next(batches)
            with self.assertRaisesRegex(tureen.RequestRefused, f"1 jobs use data set '{renamed}' .in_use"):
                found.remove("train")
            self.assertEqual(found.remove("train", now=True), 1)
            with self.assertRaises(tureen.JobEnded) as caught:
                for _ in batches:
                    pass
            self.assertEqual(caught.exception.reason, "removed")
            self.assertEqual(len(server.joined), 1, "it does not join again")
        self.assertEqual(found.names, {})
        self.assertEqual(names.asked(server.endpoint), [])
        with tureen.Loader(server.endpoint, batch_size=8, epochs=1) as loader:
            with self.assertRaisesRegex(tureen.RequestRefused, f"no data set '{renamed}'; this server has: "
                                        "train. In this process 'train' is /mine, which that server had as "):
                iter(loader)

    def test_one_that_is_being_opened_again(self) -> None:
        """By a server that was started again: it is given up."""
        server = self.adder(train="/a")
        found = self.serve(server, val="/v")
        del server.served["val"]
        server.tell()
        server.reopening = ["val"]
        self.assertEqual((found.remove("val"), server.removed, server.reopening), (0, ["val"], []))

    def test_it_is_not_started_with_that_again(self) -> None:
        words = ["serve", "--dataset", "train=/a", "--dataset=val=/v", "--field", "val.mask=mask:/m",
                 "--cache", "8G", "--supervise", "--on-bad", "val=fail"]
        self.assertEqual(options.without(words, "val"),
                         ["serve", "--dataset=train=/a", "--cache=8G", "--supervise"])
        needed = [*words, "--classes-from", "train=val"]
        self.assertEqual(options.without(needed, "val"), needed)


class Again(Case):
    """A server that was started anew."""

    def begin(self, ends_idle: bool = True) -> Adder:
        server = self.adder(samples=100, ends_idle=ends_idle, train="/a")
        self.serve(server, train="/a", val="/v", test="/t").remove("test")
        patch = mock.patch.object(standby.Standby, "_is_gone", lambda self: False)     # another one starts it
        patch.start()
        self.addCleanup(patch.stop)
        return server

    @staticmethod
    def come_back(server: Adder) -> None:
        """It knows nothing of what was added."""
        def forget() -> None:
            del server.served["val"]
            server.tell()
            server.asked.clear()
            server._opening.clear()
            server._crash_wanted = True
        server.do(forget)

    def test_it_gets_what_was_added(self) -> None:
        server = self.begin()
        with tureen.Loader(server.endpoint, "val", batch_size=8, epochs=1) as loader:
            batches = iter(loader)
            ids = next(batches).ids.tolist()
            self.come_back(server)
            for batch in batches:
                ids += batch.ids.tolist()
            self.assertEqual(sorted(ids), list(range(100)))
            self.assertEqual(loader.stats()["rejoined"], 1)
        self.assertEqual(server.asked, [["--dataset", "val=/v"]] * 2)

    def test_other_data_of_that_name(self) -> None:
        """Another process has started it between this one's `serve` and its loader."""
        self.check_other_data(ends_idle=True)

    def test_other_data_at_an_operators_server(self) -> None:
        """No thread of this process waits to start it."""
        self.check_other_data(ends_idle=False)
        until(lambda: standbys() == self.standbys, "the end of its thread")

    def check_other_data(self, ends_idle: bool) -> None:
        processes = [1]
        with mock.patch.object(standby, "server_process", lambda endpoint: processes[0]), \
                mock.patch("tureen.finding.server_process", lambda endpoint: processes[0]):
            server = self.begin(ends_idle)
            server.served = {"train": server.entry("train", "/theirs")}
            server.tell()
            server.asked.clear()
            processes[0] = 2
            for _ in range(2):
                with tureen.Loader(server.endpoint, batch_size=8, epochs=1) as loader:
                    next(iter(loader))
                    self.assertEqual(loader.state_dict()["dataset"], "train")
        renamed = other_name("train", "/a")
        self.assertEqual({request["dataset"] for request in server.joined}, {renamed})
        self.assertIn(["--dataset", f"{renamed}=/a"], server.asked)
        until(lambda: server.asked[-1] == ["--dataset", "val=/v"], "what its thread adds behind that")

    def test_what_cannot_be_added_is_in_the_way_of_its_own_loaders_only(self) -> None:
        processes = [1]
        with mock.patch.object(standby, "server_process", lambda endpoint: processes[0]), \
                mock.patch("tureen.finding.server_process", lambda endpoint: processes[0]):
            server = self.begin()
            del server.served["val"]
            server.tell()
            server.missing = ["/v"]
            processes[0] = 2
            with tureen.Loader(server.endpoint, batch_size=8, epochs=1) as loader:
                next(iter(loader))

            def in_vain(rejoin: float) -> None:
                with tureen.Loader(server.endpoint, "val", batch_size=8, rejoin=rejoin) as loader:
                    with self.assertRaisesRegex(tureen.NoServer, "nor could it be given what it lacks .*"
                                                "there is no folder '/v'"):
                        iter(loader)
            in_time(in_vain)
            #  The server takes none: that does not pass.
            server.missing, server.refusals = [], [("forbidden", "only an operator may add")] * 10
            with tureen.Loader(server.endpoint, "val", batch_size=8, rejoin=1000) as loader:
                with self.assertRaisesRegex(tureen.RequestRefused, "takes no data sets from this user"):
                    iter(loader)

    def test_its_thread(self) -> None:
        """Goes on after any failure."""
        failures, tries = [ValueError("strange")], []

        def start(left_s: float) -> None:
            tries.append(left_s)
            if failures:
                raise failures.pop()
        kept = standby.Standby("ipc:///none", start)
        with mock.patch.dict(standby._known, {"ipc:///none": kept}), \
                mock.patch.object(kept, "_is_gone", lambda: True), kept.kept_up(lambda: 1000.0):
            until(lambda: len(tries) > 1, "another try")

    def test_what_hangs_is_in_the_way_of_its_own_loaders_only(self) -> None:
        processes = [1]
        with mock.patch.object(standby, "server_process", lambda endpoint: processes[0]), \
                mock.patch("tureen.finding.server_process", lambda endpoint: processes[0]), \
                mock.patch.object(adding, "_RESTORE_S", 1.0):
            server = self.adder(ends_idle=True, other="/o")
            found = self.serve(server, train="/a", val="/v", test="/t", classes_from={"test": "val"})
            server.served = {"other": server.entry("other", "/o")}
            server._opening.clear()
            server.tell()
            server.hanging = ["/a"]
            processes[0] = 2
            for name in ("test", "val"):
                with tureen.Loader(server.endpoint, name, batch_size=8, epochs=1, rejoin=math.inf) as loader:
                    self.assertEqual(sum(1 for _ in loader), 3)
            found.add(more="/m")
            self.assertEqual(found.names["more"], "more")

            def in_vain(rejoin: float) -> None:
                with tureen.Loader(server.endpoint, batch_size=8, rejoin=rejoin) as loader:
                    with self.assertRaisesRegex(tureen.NoServer, "'train' first; it was looked for during "
                                                f"{rejoin:g} s"):
                        iter(loader)
            in_time(in_vain)
            server.hanging = []
            with tureen.Loader(server.endpoint, batch_size=8, epochs=1) as loader:
                self.assertEqual(sum(1 for _ in loader), 3)

    def test_other_settings_of_that_name(self) -> None:
        """Another process has started it, with other labels or samples of the same files."""
        processes = [1]
        with mock.patch.object(standby, "server_process", lambda endpoint: processes[0]), \
                mock.patch("tureen.finding.server_process", lambda endpoint: processes[0]):
            server = self.adder(ends_idle=True, train="/a")
            self.serve(server, train="/a", val="/v", test="/t", more="/m",
                       classes_from={"val": "train", "test": "val"}, allow_empty=["more"])
            server.otherwise = {"val": "classes-from", "more": "allow-empty", "test": "tier"}
            processes[0] = 2
            joined = {}
            for name in ("train", "val", "test", "more"):
                with tureen.Loader(server.endpoint, name, batch_size=8, epochs=1) as loader:
                    self.assertEqual(sum(1 for _ in loader), 3)
                joined[name] = server.joined[-1]["dataset"]
            other = {name: other_name(name, f"/{name[0]}") for name in ("val", "test", "more")}
            self.assertEqual(joined, {"train": "train", **other})
            self.assertIn(["--dataset", f"{other['val']}=/v", "--classes-from", f"{other['val']}=train"],
                          server.asked)
            self.assertIn(["--dataset", f"{other['test']}=/t", "--classes-from",
                           f"{other['test']}={other['val']}"], server.asked)

    def test_settings_that_were_other_ones_at_first(self) -> None:
        """The user has been told, and goes on with that."""
        processes = [1]
        with mock.patch.object(standby, "server_process", lambda endpoint: processes[0]), \
                mock.patch("tureen.finding.server_process", lambda endpoint: processes[0]):
            server = self.adder(ends_idle=True, train="/a")
            server.otherwise = {"train": "extensions"}
            with self.assertWarnsRegex(RuntimeWarning, "another setting of extensions"):
                self.serve(server, train="/a", arguments=["--extensions", "train=jpg"])
            processes[0] = 2
            with tureen.Loader(server.endpoint, batch_size=8, epochs=1) as loader:
                self.assertEqual(sum(1 for _ in loader), 3)
            self.assertEqual(list(server.served), ["train"])

    def test_one_that_is_being_opened_again(self) -> None:
        """By a server that was started again: its jobs wait, and its questions."""
        server = self.adder(samples=100, train="/a")
        with mock.patch.object(connection, "_REFUSED_AGAIN_S", 0.01), \
                mock.patch.object(control, "_BUSY_AGAIN_S", 0.01):
            for rejoin in (0.0, 300.0):
                server.opens_again = 6
                with tureen.Loader(server.endpoint, batch_size=8, epochs=1, rejoin=rejoin) as loader:
                    batches = iter(loader)
                    next(batches)
                    if rejoin:
                        server.opens_again = 2
                        server.do(lambda: setattr(server, "_crash_wanted", True))
                    self.assertEqual(1 + sum(1 for _ in batches), 13)
                    self.assertEqual((server.opens_again, loader.stats()["rejoined"]), (0, int(rejoin > 0)))
            server.opens_again = 2
            with self.assertRaisesRegex(tureen.RequestRefused, "busy_elsewhere"):
                tureen.DataSet("train", server.endpoint).classes
            server.opens_again = 10000
            for patience in ({"rejoin": 0.0, "timeout": 0.5}, {"rejoin": 0.5}):
                with tureen.Loader(server.endpoint, batch_size=8, **patience) as loader:
                    with self.assertRaises((tureen.RequestRefused, tureen.NoServer)):
                        iter(loader)

    def test_what_is_asked_for_anew(self) -> None:
        """After `stop` and `remove` the loaders of before get it, and those that were handed to a process
        that asks for it by itself."""
        processes = [1]
        with mock.patch.object(standby, "server_process", lambda endpoint: processes[0]), \
                mock.patch("tureen.finding.server_process", lambda endpoint: processes[0]):
            server = self.adder(train="/a")
            found = self.serve(server, train="/a", val="/v")
            loader = tureen.Loader(server.endpoint, "val", batch_size=8, epochs=1, rejoin=0.5)
            loader.dataset._name.data
            handed = pickle.dumps(loader)
            with loader:
                self.assertEqual(sum(1 for _ in loader), 3)
                found.remove("val")
                self.serve(server, val="/v")
                self.assertEqual(sum(1 for _ in loader), 3)
                found.process, processes[0] = 1, 2
                with mock.patch("os.kill"):
                    found.stop()
                self.serve(server, train="/a", val="/v")
                self.assertEqual(sum(1 for _ in loader), 3)
            with pickle.loads(handed) as loader:
                self.assertEqual(sum(1 for _ in loader), 3)

    def test_what_it_was_not_asked_for_is_not_waited_for(self) -> None:
        server = self.begin()
        with tureen.Loader(server.endpoint, "val", batch_size=8, epochs=1) as loader:
            batches = iter(loader)
            next(batches)
            names.forget(server.endpoint)
            self.come_back(server)
            with self.assertRaisesRegex(tureen.RequestRefused, "no data set 'val'; this server has: train"):
                for _ in batches:
                    pass
        self.assertEqual(server.asked, [])


if __name__ == "__main__":
    unittest.main()

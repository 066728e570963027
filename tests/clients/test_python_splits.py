"""tureen.pack: no two splits or configurations become one, unless that is asked for.

Run by ctest (python_splits), or by hand: TUREEN_BIN=build/release/bin python3
tests/clients/test_python_splits.py [-v] [NAME].  Parquet and Arrow are tested where pyarrow is installed, or
by TUREEN_FRAMEWORKS_PYTHON, as in test_python_pack.py.
"""
from __future__ import annotations

import contextlib
import importlib.util
import io
import itertools
import json
import os
import re
import shutil
import sys
import tempfile
import unittest
from pathlib import Path
from typing import List, Optional, Sequence
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

from mds_shards import write_mds
from test_python_pack import HAS_ARROW, ROWS, SEED, Packs, SourceError, serving, sources
import tureen
from tureen import pack as packing
from tureen import splits

HAS_DATASETS = importlib.util.find_spec("datasets") is not None
HAS_YAML = importlib.util.find_spec("yaml") is not None


class Names(Packs):
    """By those of files and folders."""

    #  Files, and the parts that they are, by folder.  As the library datasets 5.2 has them, or finer.
    LAYOUTS = (
        ("data/train-00000-of-00002 data/train-00001-of-00002 data/test-00000-of-00001", "train train test"),
        ("train-00000-of-00002 train-00001-of-00002 test-00000-of-00001", "train train test"),
        ("data/train_sft-00000-of-00001 data/test_sft-00000-of-00001 data/train_gen-00000-of-00001",
         "train_sft test_sft train_gen"),
        ("data/train-00000-of-00001-a09b74b3ef9c3b56 data/validation-00000-of-00001-a19b74b3ef9c3b56",
         "train validation"),
        ("train/0000 train/0001 validation/0000", "train train validation"),
        ("train/a dev/a val/a", "train dev val"),
        ("en/train/0000 de/train/0000 en/test/0000", "en/train de/train en/test"),
        ("default/partial-train/0000 default/test/0000", "partial-train test"),
        ("a b", "- -"),
        ("train unsupervised", "train unsupervised"),
        ("train part-0 part-1", "train part part"),
        ("my-train-file my-eval-file", "train eval"),
        ("train_1 train_2 test.v2", "train train test"),
        ("part-00000-abc part-00001-abc", "- -"),
        ("train0 valid0", "train valid"),
        ("training/x evaluation/x testing/x", "training evaluation testing"),
        ("constrain latest developer", "- - -"),
        ("mnist-train mnist-test", "train test"),
        ("imdb-train-00000-of-00001 imdb-unsupervised-00000-of-00001", "train unsupervised"),
        ("imdb/plain_text/0.0.0/abc/imdb-train imdb/plain_text/0.0.0/abc/imdb-unsupervised",
         "train imdb-unsupervised"),
        ("datasets--o--n/snapshots/abc/data/train-00000-of-00001 "
         "datasets--o--n/snapshots/abc/data/test-00000-of-00001",
         "train test"),
        ("train/data-00000-of-00001 test/data-00000-of-00001", "train test"),
        ("a-train-00000-of-00001 b-train-00000-of-00001", "a b"),
        ("2023/part-0 2024/part-0", "2023 2024"),
        ("split=train/p split=test/p", "split=train split=test"),
        ("Train Test", "train test"),
        ("train_test_0 train_0", "train-test train"))

    def lay(self, names: str) -> str:
        folder = tempfile.mkdtemp(dir=self.root)
        for name in names.split():
            path = Path(folder, name + ".parquet")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x")
        return folder

    def test_layouts(self) -> None:
        for names, expected in self.LAYOUTS:
            with self.subTest(names):
                folder = self.lay(names)
                parts = splits.parts_of_folder(folder)
                found = {os.path.relpath(path, folder)[:-8]: part.name or "-" for part in parts
                         for path in part.paths}
                self.assertEqual([found[name] for name in names.split()], expected.split())
                #  Given one by one: the folders that are no splits' are asked for, the splits are not.
                parts = splits.parts_of_files([os.path.join(folder, name) for name in names.split()])
                words = {name.rpartition("/")[2].replace("partial-", "") for name in expected.split()}
                self.assertEqual(len(parts) > 1, len(words & {
                    "train", "test", "val", "validation", "train_sft", "eval", "valid", "training",
                    "split=train", "a"
                }) > 0, parts)

    @unittest.skipUnless(HAS_DATASETS, "no datasets here (pip install datasets)")
    def test_no_coarser_than_the_library_datasets(self) -> None:
        from datasets.data_files import DataFilesDict, get_data_patterns
        for names, _ in self.LAYOUTS:
            folder = self.lay(names)
            ours = [set(part.paths) for part in splits.parts_of_folder(folder)]
            for split, patterns in get_data_patterns(folder).items():
                theirs = set(DataFilesDict.from_patterns({split: patterns}, base_path=folder)[split])
                for part in ours:
                    self.assertIn(part & theirs, (set(), part), (names, split))

    def test_the_servers_words(self) -> None:
        """Those of `tureen pack` and `tureen serve`, which look at folders and at labels files, are these."""
        source = Path(HERE, "../../source/catalogue/splits.c").read_text(encoding="utf-8")
        self.assertEqual({word: kind.lower() for word, kind in
                          re.findall(r'{ "(\w+)", SPLIT_(\w+) }', source)}, splits._CANONICAL)
        found, = re.findall(r"s_columns \[\] = {(.*?)};", source, re.DOTALL)
        self.assertEqual(tuple(re.findall(r'"(\w+)"', found)), splits.COLUMNS)
        self.assertIn(f"enum {{ VALUES_MAX = {splits.VALUES_MAX} }};", source)

    def test_what_is_said_and_chosen(self) -> None:
        parts = splits.parts_of_folder(self.lay("test-00000-of-00001 train-00000-of-00002 "
                                                "train-00001-of-00002"))
        with self.assertRaisesRegex(SourceError, r"^SET has several splits or configurations: train \(2 "
                                    r"files\), test \(test-00000-of-00001.parquet\): say which with --split, "
                                    r"as in --split train \(train\+test packs the two as one\)$"):
            splits.chosen("SET", parts, None)
        self.assertEqual(len(splits.chosen("SET", parts, "train").paths), 2)
        both = splits.chosen("SET", parts, "test+train").paths
        self.assertEqual([os.path.basename(path)[:5] for path in both], ["test-", "train", "train"])
        with self.assertRaisesRegex(SourceError, "SET has no split 'val': there is train .*, test"):
            splits.chosen("SET", parts, "val")
        languages = splits.parts_of_folder(self.lay("en/train/0 de/train/0 de/dev/0"))
        with self.assertRaisesRegex(SourceError, "several splits 'train': there is de/train .*, en/train"):
            splits.chosen("SET", languages, "train")
        self.assertEqual(splits.chosen("SET", languages, "validation").name, "validation")
        self.assertIn("de/dev", splits.chosen("SET", languages, "validation").paths[0])
        with self.assertRaisesRegex(SourceError, "tells of a split 'train': leave --split out"):
            splits.chosen("SET", splits.parts_of_folder(self.lay("a b")), "train")
        many = splits.parts_of_folder(self.lay(" ".join(f"c{number}/train" for number in range(20))))
        with self.assertRaisesRegex(SourceError, "and 12 more"):
            splits.chosen("SET", many, None)

    def test_shards_as_the_hub_has_them(self) -> None:
        """Said also where no file can be read, so without pyarrow too; nothing is packed."""
        folder = self.lay("data/train-00000-of-00002 data/train-00001-of-00002 data/test-00000-of-00001")
        data = os.path.join(folder, "data")
        files = [os.path.join(data, name) for name in sorted(os.listdir(data))]
        for paths, what in (([folder], folder), ([data], data), (files, f"what was given ({files[0]}, ...)")):
            said = self.run_pack(*paths, self.path("p"), status=1)
            self.assertEqual(said, f"tureen.pack: {what} has several splits or configurations: train (2 "
                             "files), test (test-00000-of-00001.parquet): say which with --split, as in "
                             "--split train (train+test packs the two as one)\n")
            self.assertFalse(os.path.exists(self.path("p")))

    @unittest.skipUnless(HAS_ARROW, "no pyarrow here")
    def test_shards_as_the_hub_has_them_are_served(self) -> None:
        """The labels of one split only, in the order of its files and of their rows."""
        import pyarrow.parquet
        folder = self.lay("data/train-00000-of-00002 data/train-00001-of-00002 data/test-00000-of-00001")
        for name, rows, label in (("train-00000-of-00002", 3, 0), ("train-00001-of-00002", 3, 1),
                                  ("test-00000-of-00001", 2, 99)):
            table = pyarrow.Table.from_pylist([{"image": {"bytes": row["image"], "path": None},
                                                "label": label} for row in self.rows[:rows]])
            pyarrow.parquet.write_table(table, os.path.join(folder, "data", name + ".parquet"))
        self.assertIn("say which with --split", self.run_pack(folder, self.path("p"), status=1))
        self.assertFalse(os.path.exists(self.path("p")))
        for split in ("train", "test"):
            self.run_pack("--split", split, folder, self.path(split))
        with serving({"train": self.path("train"), "test": self.path("test")}) as server:
            found = {name: tureen.DataSet(name, endpoint=server.endpoint).targets.tolist()
                     for name in ("train", "test")}
        self.assertEqual(found, {"train": [0, 0, 0, 1, 1, 1], "test": [99, 99]})

    def test_what_map_has_left(self) -> None:
        folder = self.lay("a cache-12 cache-34_00000_of_00002 .cache/x b/cache-5")
        with self.assertRaisesRegex(SourceError, "b has only cache-5.parquet .* which map .. has left"):
            splits.parts_of_folder(folder)
        shutil.rmtree(os.path.join(folder, "b"))
        part, = splits.parts_of_folder(folder)
        self.assertEqual([os.path.basename(path) for path in part.paths], ["a.parquet"])
        self.assertRegex(part.note, f"^of {folder} cache-12.parquet and the like, which map .. has left, is "
                                    "not packed$")

    @unittest.skipUnless(HAS_YAML, "no yaml here (apt install python3-yaml)")
    def test_what_readme_says(self) -> None:
        folder = self.lay("x/one x/two y/one z/a/train z/test w")
        for head, expected in (
                ("configs:\n- config_name: default\n  data_files:\n  - split: train\n    path: x/*\n"
                 "  - split: test\n    path: ['y/*', w.parquet]\n", {"train": 2, "test": 2}),
                ("configs:\n- config_name: b\n  data_files: x/one.parquet\n- config_name: c\n"
                 "  data_files: {train: 'x/*', val: 'y/**'}\n", {"b/train": 1, "c/train": 2, "c/val": 1}),
                ("configs:\n- config_name: all\n  data_dir: z\n", {"train": 1, "test": 1}),
                ("configs:\n- data_files: '**'\n", {"train": 6}),
                ("configs:\n- data_files: x/[ot]*.parquet\n", {"train": 2}),
                ("tags: [configs]\n", {"x": 2, "y": 1, "z/a/train": 1, "z/test": 1, "w": 1})):
            Path(folder, "README.md").write_text(f"---\nlicense: mit\n{head}---\n# Text\n---\n")
            with self.subTest(head):
                found = {part.name.rpartition("a/")[2] if "data_dir" in head else part.name: len(part.paths)
                         for part in splits.parts_of_folder(folder)}
                if "tags" in head:                              # w is beside the folders
                    found["w"] = found.pop(".", 0)
                self.assertEqual(found, expected)
        for broken in ("configs: [\n", "configs: 3\n", "configs:\n- data_files: [{path: x}]\n"):
            Path(folder, "README.md").write_text(f"---\n{broken}---\n")
            with self.assertRaisesRegex(SourceError, rf"^{folder}: .* README.md cannot be read \(\w+\("):
                splits.parts_of_folder(folder)
        Path(folder, "README.md").write_text("---\nconfigs: []\n---\n")
        with mock.patch.dict(sys.modules, yaml=None), self.assertRaisesRegex(SourceError, "pip install "
                                                                                          "pyyaml"):
            splits.parts_of_folder(folder)

    def test_of_mds(self) -> None:
        for name, rows in (("train", self.rows), ("val", self.rows[:5])):
            write_mds(self.path("set", name), rows)
        said = self.run_pack(self.path("set"), self.path("p"), status=1)
        self.assertIn("several splits or configurations: train (train), val (val): say which with "
                      "--split", said)
        self.run_pack("--split", "validation", self.path("set"), self.path("p"))
        self.assert_holds(self.path("p"), self.rows[:5])
        self.assertIn("/set has train, val, which are not of one format whose files can be joined",
                      self.run_pack("--split", "train+val", self.path("set"), self.path("q"), status=1))
        #  An index over both, as merge_index makes it
        shards = []
        for name in ("train", "val"):
            for shard in json.loads(Path(self.path("set", name, "index.json")).read_text())["shards"]:
                shard["raw_data"]["basename"] = f"{name}/{shard['raw_data']['basename']}"
                shards.append(shard)
        Path(self.path("set", "index.json")).write_text(json.dumps({"version": 2, "shards": shards}))
        said = self.run_pack(self.path("set"), self.path("q"), status=1)
        self.assertIn("its index.json lists the shards of several splits (train, val): give the folder of "
                      "one", said)


class Rows(Packs):
    """By a column that says of which split a row is."""

    def test_of_two_that_are_one(self) -> None:
        parts = splits.by_rows(splits.Part("", ["file"]), "split",
                               {"file": {"test": (4, 0), "train": (3, 4), "val": (2, 7)}}, True)
        joined = splits.chosen("file", parts, "train+val").rows["file"]
        self.assertEqual(joined, splits.Rows("split", frozenset({"train", "val"}), 5, 4))

    def test_of_mds(self) -> None:
        for row, value in zip(self.rows, ["train", "val"] * (ROWS // 2)):
            row["caption"] = value
        write_mds(self.path("mds"), self.rows)
        index = Path(self.path("mds", "index.json"))
        index.write_text(index.read_text().replace('"caption"', '"split"'))
        said = self.run_pack(self.path("mds"), self.path("p"), status=1)
        self.assertIn("mds has several splits or configurations: train (35 rows by the column 'split'), val "
                      "(35 rows by the column 'split'): say which with --split, as in --split train", said)
        #  All shards are read for it: that is not silent.
        told = io.StringIO()
        with mock.patch("tureen.pack.time.monotonic", side_effect=itertools.count(0, 3)), \
                contextlib.redirect_stderr(told):
            self.assertEqual(packing.main([self.path("mds"), self.path("p")]), 1)
        lines = told.getvalue().splitlines()
        self.assertEqual(lines[:2], [f"the column 'split' may tell splits: {rows} of 70 rows are read; "
                                     f"--without split leaves it out" for rows in (3, 7)])
        self.assertEqual(lines[-1:], said.splitlines())
        kept = list(sources.open_source([self.path("mds")], "val").rows())
        self.assertEqual([row["image"] for row in kept], [row["image"] for row in self.rows[1::2]])

    def test_of_mds_in_order(self) -> None:
        """Once it is known where a split begins, the shards in front are not read again."""
        for number, row in enumerate(self.rows):
            row["caption"] = ("train", "val", "test")[number // 25]
        write_mds(self.path("mds"), self.rows, shard_rows=10)
        index = Path(self.path("mds", "index.json"))
        index.write_text(index.read_text().replace('"caption"', '"split"'))
        opened = {split: sources.open_source([self.path("mds")], split)
                  for split in ("train", "val", "test", "test+val")}
        for shard in range(2):
            os.unlink(self.path("mds", f"shard.{shard:05d}.mds"))
        for split, rows in (("val", self.rows[25:50]), ("test", self.rows[50:]),
                            ("test+val", self.rows[25:])):
            self.assertEqual([row["image"] for row in opened[split].rows()], [row["image"] for row in rows])
        with self.assertRaisesRegex(SourceError, "shard.00000.mds cannot be read"):
            list(opened["train"].rows())
        os.unlink(self.path("mds", "shard.00004.mds"))
        self.assertEqual(len(list(opened["test"].rows())), 20)

    @unittest.skipUnless(HAS_ARROW, "no pyarrow here")
    def test_of_parquet(self) -> None:
        """A column says of which split each row is: test rows are packed when they are asked for only."""
        import pyarrow.parquet

        def write(name: str, values: Sequence[Optional[str]], column: str = "split") -> None:
            rows = [{**row, column: value} for row, value in zip(self.rows, values)]
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), self.path(name))

        def packed(name: str) -> List[bytes]:
            files = self.unpacked(self.path(name))
            return [files[path] for path in sorted(files) if path.endswith(".png")]

        mixed = [("train", "test", "restval")[number % 3] for number in range(ROWS)]
        write("train.parquet", mixed)
        said = self.run_pack(self.path("train.parquet"), self.path("p"), status=1)
        self.assertIn("train.parquet has several splits or configurations: train (24 rows by the column "
                      "'split'), test (23 rows by the column 'split'), restval (23 rows by the column "
                      "'split'): say which with --split, as in --split train (train+test packs the two as "
                      "one)", said)
        for split, words in (("train", {"train"}), ("testing", {"test"}),
                             ("restval+train", {"train", "restval"})):
            self.run_pack("--split", split, self.path("train.parquet"), self.path(split))
            self.assertEqual(packed(split), [row["image"] for row, value in zip(self.rows, mixed)
                                             if value in words])
        self.assertIn("no split 'val': there is train", self.run_pack(
            "--split", "val", self.path("train.parquet"), self.path("q"), status=1))
        self.run_pack("--without", "split", self.path("train.parquet"), self.path("all"))
        self.assertEqual(len(packed("all")), ROWS)
        #  What a stopped pack goes on with is another one for other rows.
        one, other = (sources.open_source([self.path("train.parquet")], split) for split in ("train", "test"))
        self.assertNotEqual(sources.signature(one), sources.signature(other))
        self.assertEqual((one.count, one.what), (24, "Parquet, split train"))
        #  No splits: one value, one kind, numbers, hundreds of texts, words of something else.
        for values, column in ((["train"] * ROWS, "split"),
                               (["train-clean-100", "train-clean-360"] * (ROWS // 2), "subset"),
                               ([str(number) for number in range(ROWS)], "split"),
                               (["train", "test"] + [f"text {number}" for number in range(ROWS - 2)],
                                "split"),
                               (["ripe", "rotten"] * (ROWS // 2), "split"),
                               (["train", "test"] * (ROWS // 2), "caption")):
            write("same.parquet", values, column)
            self.assertEqual(sources.open_source([self.path("same.parquet")]).count, ROWS, values)
        write("same.parquet", [1, 2] * (ROWS // 2))
        self.assertEqual(len(list(sources.open_source([self.path("same.parquet")]).rows())), ROWS)

    @unittest.skipUnless(HAS_ARROW, "no pyarrow here")
    def test_beside_files(self) -> None:
        """By their files' names, and within one of them by rows."""
        import pyarrow
        values = {"train": ["train", "val"] * (ROWS // 2), "test": ["test"] * ROWS}
        for name in ("train", "test"):
            os.makedirs(self.path("set", name))
            table = pyarrow.Table.from_pylist([{**row, "Split": value} for row, value in
                                               zip(self.rows, values[name])])
            with pyarrow.OSFile(self.path("set", name, "data.arrow"), "wb") as file, \
                    pyarrow.ipc.new_stream(file, table.schema) as writer:
                writer.write_table(table)
            Path(self.path("set", name, "state.json")).write_text(json.dumps(
                {"_data_files": [{"filename": "data.arrow"}]}))
        said = self.run_pack(self.path("set"), self.path("p"), status=1)
        self.assertIn("train/train (35 rows by the column 'Split'), train/val (35 rows by the column "
                      "'Split'), test (test): say which with --split, as in --split train/train", said)
        counts = {split: len(list(sources.open_source([self.path("set")], split).rows()))
                  for split in ("train/val", "train/train+test", "test", "val")}
        self.assertEqual(counts, {"train/val": 35, "train/train+test": 105, "test": 70, "val": 35})


if __name__ == "__main__":
    print(f"TEST_SEED={SEED}", flush=True)
    unittest.main()

"""tureen.pack: data sets of other libraries become packs, against the real `tureen pack`.

Run by ctest (python_pack), or by hand: TUREEN_BIN=build/release/bin python3 tests/clients/test_python_pack.py
[-v] [NAME].  Arrow, Parquet and LMDB are tested where pyarrow and lmdb are installed.  Debian has no pyarrow:
`sh scripts/frameworks.sh FOLDER` installs it, and with TUREEN_FRAMEWORKS_PYTHON=FOLDER/bin/python this
program runs by that Python.
"""
from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Union

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
sys.path[:0] = [str(HERE), str(SOURCE / "clients" / "python")]
TUREEN = os.path.join(os.environ.get("TUREEN_BIN", str(SOURCE / "build" / "release" / "bin")), "tureen")
SEED = int(os.environ.get("TEST_SEED", "20261126"))
os.environ["TUREEN_SERVER"] = TUREEN

import numpy as np

import tureen
from mds_shards import write_mds
from megatron_files import CODES, write_tokens
from tureen import pack as packing
from tureen import sources, token_files
from tureen.pack import PackFailed, Sample, SourceError, pack
from tureen.token_files import open_tokens

if not os.path.exists(TUREEN):
    print(f"SKIPPED: {TUREEN} is not built", flush=True)
    sys.exit(77)



def has_arrow() -> bool:
    """Another Python takes this program's place where TUREEN_FRAMEWORKS_PYTHON names one: nothing is skipped
    there for want of pyarrow."""
    if importlib.util.find_spec("pyarrow") is not None:
        return True
    python = os.environ.get("TUREEN_FRAMEWORKS_PYTHON")
    if python:
        if subprocess.run([python, "-c", "import pyarrow"]).returncode:
            sys.exit(f"FAILED: {python} has no pyarrow; sh scripts/frameworks.sh FOLDER installs it")
        os.execv(python, [python, "-u", *sys.argv])
    return False


HAS_ARROW = has_arrow()
HAS_LMDB = importlib.util.find_spec("lmdb") is not None
HAS_ZSTD = importlib.util.find_spec("zstandard") is not None
ROWS = 70


def png(dice: random.Random) -> bytes:
    """A picture by its format alone: a pack holds bytes, and none of these is decoded."""
    return b"\x89PNG\r\n\x1a\n" + dice.randbytes(dice.randrange(2000))


class Packs(unittest.TestCase):
    def setUp(self) -> None:
        self.root = tempfile.mkdtemp(prefix="tu-pack-")
        self.addCleanup(shutil.rmtree, self.root)
        self.dice = random.Random(SEED)
        self.rows: List[Dict[str, Any]] = [
            {"image": png(self.dice), "label": self.dice.randrange(10), "caption": f"picture {number} \u00e4"}
            for number in range(ROWS)]

    def path(self, *names: str) -> str:
        return os.path.join(self.root, *names)

    def run_pack(self, *words: str, status: int = 0) -> str:
        """What it writes on standard error."""
        told = io.StringIO()
        with contextlib.redirect_stderr(told):
            self.assertEqual(packing.main(["--quiet", "--seed", "5", *words]), status, told.getvalue())
        return told.getvalue()

    def unpacked(self, target: str) -> Dict[str, bytes]:
        folder = tempfile.mkdtemp(dir=self.root)
        done = subprocess.run([TUREEN, "unpack", "--quiet", target, os.path.join(folder, "all")],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return {str(path.relative_to(Path(folder) / "all")): path.read_bytes()
                for path in (Path(folder) / "all").rglob("*") if path.is_file()}

    def assert_holds(self, target: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Image, label and the rest of each row, byte for byte."""
        expected = {}
        for number, row in enumerate(rows):
            expected[f"{number:09d}.png"] = row["image"]
            expected[f"{number:09d}.cls"] = b"%d" % row["label"]
            expected[f"{number:09d}.json"] = json.dumps({"caption": row["caption"]},
                                                        ensure_ascii=False).encode()
        self.assertEqual(self.unpacked(target), expected)


class Empty(Packs):
    """Status 1 and a sentence."""

    def assert_empty(self, *words: str) -> None:
        said = self.run_pack(*words, self.path("p"), status=1)
        self.assertRegex(said, "^tureen.pack: .*(it has no row|has no documents|fill no window)")
        self.assertEqual(said.count("\n"), 1, said)

    def test_a_saved_set(self) -> None:
        os.mkdir(self.path("set"))
        for state in ('{"_data_files": []}', '{"_data_files": null}', "{}"):
            Path(self.path("set", "state.json")).write_text(state)
            self.assert_empty(self.path("set"))
        for state, why in (("", "cannot be read"), ("[]", "is no JSON object"),
                           ('{"_indices_data_files": [1]}', "is a selection of rows")):
            Path(self.path("set", "state.json")).write_text(state)
            self.assertIn(why, self.run_pack(self.path("set"), self.path("p"), status=1))

    def test_a_split_of_a_saved_dict(self) -> None:
        """It is a split beside the others; what is said of it names it."""
        for split, state in (("train", '{"_data_files": [{"filename": "data.arrow"}]}'),
                             ("test", '{"_data_files": []}')):
            os.makedirs(self.path("set", split))
            Path(self.path("set", split, "state.json")).write_text(state)
        Path(self.path("set", "dataset_dict.json")).write_text('{"splits": ["train", "test"]}')
        self.assertIn("train (train), test (test): say which with --split",
                      self.run_pack(self.path("set"), self.path("p"), status=1))
        self.assert_empty("--split", "test", self.path("set"))
        self.assert_empty(self.path("set", "test"))

    def test_mds(self) -> None:
        write_mds(self.path("set"), self.rows)
        index = json.loads(Path(self.path("set", "index.json")).read_text())
        Path(self.path("set", "index.json")).write_text(json.dumps({**index, "shards": []}))
        self.assert_empty(self.path("set"))

    @unittest.skipUnless(HAS_LMDB, "no lmdb here (apt install python3-lmdb)")
    def test_lmdb(self) -> None:
        import lmdb
        for name, pairs in (("none", {}), ("numbered", {b"num-samples": b"0"})):
            with lmdb.open(self.path(name), map_size=1 << 20) as base, base.begin(write=True) as change:
                for key, value in pairs.items():
                    change.put(key, value)
            self.assert_empty(self.path(name))

    @unittest.skipUnless(HAS_ARROW, "no pyarrow here")
    def test_tables(self) -> None:
        import pyarrow.parquet
        table = pyarrow.table({"image": pyarrow.array([], pyarrow.binary())})
        pyarrow.parquet.write_table(table, self.path("a.parquet"))
        self.assert_empty(self.path("a.parquet"))
        for name, make in (("s.arrow", pyarrow.ipc.new_stream), ("f.arrow", pyarrow.ipc.new_file)):
            with pyarrow.OSFile(self.path(name), "wb") as file, make(file, table.schema) as writer:
                writer.write_table(table)
            self.assert_empty(self.path(name))
        Path(self.path("z.arrow")).write_bytes(b"")
        self.assertIn("is it whole?", self.run_pack(self.path("z.arrow"), self.path("p"), status=1))

    def test_tokens(self) -> None:
        write_tokens(self.path("text"), [], "int32")
        self.assert_empty(self.path("text"))
        self.assert_empty("--window", "4", self.path("text"))

    def test_samples_of_python(self) -> None:
        """What is said is said by `tureen pack`."""
        with self.assertRaisesRegex(PackFailed, "status 1"):
            pack([], self.path("p"), ["--quiet"])


#   ---- MDS

class Mds(Packs):
    def test_plain_and_packed(self) -> None:
        made = []
        for compression in (None, "gz", "bz2:9", *(["zstd:3"] if HAS_ZSTD else [])):
            with self.subTest(compression):
                name = str(compression).partition(":")[0]
                write_mds(self.path("mds-" + name), self.rows, compression)
                self.run_pack(self.path("mds-" + name), self.path("pack-" + name))
                self.assert_holds(self.path("pack-" + name), self.rows)
                made.append(Path(self.path("pack-" + name, "index.tureen")).read_bytes())
        self.assertEqual(len(set(made)), 1)

    def test_a_server_serves_it(self) -> None:
        write_mds(self.path("mds"), self.rows)
        self.run_pack(self.path("mds"), self.path("pack"))
        with serving(self.path("pack")) as server:
            data = tureen.DataSet("train", endpoint=server.endpoint)
            self.assertEqual(len(data), ROWS)
            self.assertEqual(data.targets["label"].tolist(), [row["label"] for row in self.rows])

    def test_what_is_no_mds(self) -> None:
        folder = self.path("mds")
        write_mds(folder, self.rows, "br")
        said = self.run_pack(folder, self.path("p"), status=1)
        self.assertIn("is packed by br, which is not read here", said)
        shutil.rmtree(folder)
        write_mds(folder, self.rows)
        whole = Path(folder, "shard.00001.mds").read_bytes()
        for cut in (0, 3, 50, len(whole) - 1):
            Path(folder, "shard.00001.mds").write_bytes(whole[:cut])
            said = self.run_pack(folder, self.path(f"p{cut}"), status=1)
            self.assertRegex(said, r"shard\.00001\.mds (cannot be read|is not what index\.json says)")
        index = json.loads(Path(folder, "index.json").read_text())
        index["shards"][0]["column_encodings"][0] = "pkl"
        Path(folder, "index.json").write_text(json.dumps(index))
        self.assertIn("the column 'caption' is kept as pkl", self.run_pack(folder, self.path("q"), status=1))


@contextlib.contextmanager
def serving(datasets: Union[str, Mapping[str, str]]) -> Iterator[tureen.Server]:
    """A server with its socket and its log in a folder of this test's own."""
    with tempfile.TemporaryDirectory(prefix="tu-run-") as folder, \
            mock.patch.dict(os.environ, XDG_RUNTIME_DIR=folder), \
            mock.patch.object(tempfile, "tempdir", folder):
        server = tureen.serve(datasets)
        try:
            yield server
        finally:
            server.stop()


#   ---- columns

class OneFileEach(Packs):
    def test_columns_that_would_be_one_file(self) -> None:
        """What comes of a column stands in a file of its own, or the row is refused: none is lost."""
        image, number = self.rows[0]["image"], [1, 2]
        array = sources.ArrayOf("JSON", "int32")
        for columns, row, lost, key in (
                (sources.Columns(image="image"), {"image": image, "Mask": image, "mask": image}, "mask",
                 "mask"),
                (sources.Columns(image="image"), {"image": image, "png": image}, "png", "png"),
                (sources.Columns(arrays=[array]), {"image": image, "JSON": number, "note": "x"}, "note",
                 "json"),
                (sources.Columns(image="image", label="y"), {"image": image, "y": 3, "CLS": image}, "CLS",
                 "cls")):
            with self.subTest(row=sorted(row)), self.assertRaisesRegex(
                    SourceError, f"row 0: the column '{lost}' would be the sample's file .{key}, which "
                                 f"another column is: leave one of them out with --without"):
                list(sources.samples(sources.Source("rows", lambda row=row: iter([row]), []), columns))


#   ---- Arrow and Parquet, as the library datasets writes them

@unittest.skipUnless(HAS_ARROW, "no pyarrow here")
class Tables(Packs):
    NAMES = [f"kind {number}, of 10" for number in range(10)]

    def test_names_of_classes(self) -> None:
        import pyarrow.parquet
        pyarrow.parquet.write_table(self.table(), self.path("a.parquet"))
        self.run_pack(self.path("a.parquet"), self.path("pack"))
        with serving(self.path("pack")) as server:
            self.assertEqual(tureen.DataSet("train", endpoint=server.endpoint).classes, tuple(self.NAMES))

    def table(self) -> Any:
        import pyarrow
        about = {"info": {"features": {"image": {"_type": "Image"},
                                       "label": {"_type": "ClassLabel", "names": self.NAMES},
                                       "caption": {"_type": "Value", "dtype": "string"}}}}
        return pyarrow.Table.from_pylist(
            [{**row, "image": {"bytes": row["image"], "path": None}} for row in self.rows]
        ).replace_schema_metadata({b"huggingface": json.dumps(about).encode()})

    def test_parquet(self) -> None:
        import pyarrow.parquet
        os.mkdir(self.path("set"))
        table = self.table()
        pyarrow.parquet.write_table(table.slice(0, 40), self.path("set", "a.parquet"), row_group_size=7)
        pyarrow.parquet.write_table(table.slice(40), self.path("set", "b.parquet"))
        self.run_pack(self.path("set"), self.path("pack"))
        self.assert_holds(self.path("pack"), self.rows)
        self.run_pack(self.path("set", "a.parquet"), self.path("set", "b.parquet"), self.path("again"))
        self.assert_holds(self.path("again"), self.rows)
        cut = Path(self.path("set", "b.parquet")).read_bytes()[:-9]
        Path(self.path("set", "b.parquet")).write_bytes(cut)
        self.assertIn("is it whole?", self.run_pack(self.path("set"), self.path("cut"), status=1))

    def test_a_saved_data_set(self) -> None:
        import pyarrow
        os.mkdir(self.path("set"))
        table = self.table()
        for name, part in (("data-0.arrow", table.slice(0, 33)), ("data-1.arrow", table.slice(33))):
            with pyarrow.OSFile(self.path("set", name), "wb") as file, \
                    pyarrow.ipc.new_stream(file, part.schema) as writer:
                writer.write_table(part)
        Path(self.path("set", "state.json")).write_text(json.dumps(
            {"_data_files": [{"filename": "data-0.arrow"}, {"filename": "data-1.arrow"}]}))
        self.run_pack(self.path("set"), self.path("pack"))
        self.assert_holds(self.path("pack"), self.rows)
        with pyarrow.OSFile(self.path("whole.arrow"), "wb") as file, \
                pyarrow.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        self.run_pack(self.path("whole.arrow"), self.path("again"))
        self.assert_holds(self.path("again"), self.rows)


@unittest.skipUnless(HAS_LMDB, "no lmdb here (apt install python3-lmdb)")
class Lmdb(Packs):
    def write(self, pairs: Mapping[bytes, bytes]) -> str:
        import lmdb
        folder = tempfile.mkdtemp(dir=self.root)
        with lmdb.open(folder, map_size=1 << 26) as base, base.begin(write=True) as change:
            for key, value in pairs.items():
                change.put(key, value)
        return folder

    def test_images_under_keys(self) -> None:
        keys = [b"%08x" % (number * 7919) for number in range(ROWS)]
        keys[3] = b"\xff/odd"
        folder = self.write({key: row["image"] for key, row in zip(keys, self.rows)})
        self.run_pack(folder, self.path("pack"))
        held = self.unpacked(self.path("pack"))
        del held["labels.tsv"]                      # of no label: the samples' order
        self.assertEqual(held, {
            (key.hex() if key == keys[3] else key.decode()) + ".png": row["image"]
            for key, row in zip(keys, self.rows)})

    def test_images_and_texts(self) -> None:
        pairs = {b"num-samples": b"%d" % ROWS}
        for number, row in enumerate(self.rows, 1):
            pairs[b"image-%09d" % number] = row["image"]
            pairs[b"label-%09d" % number] = row["caption"].encode()
        self.run_pack("--text", "text", self.write(pairs), self.path("pack"))
        held = self.unpacked(self.path("pack"))
        self.assertEqual(len(held), 2 * ROWS)
        for number, row in enumerate(self.rows, 1):
            self.assertEqual(held[f"{number:09d}.png"], row["image"])
            self.assertEqual(held[f"{number:09d}.txt"], row["caption"].encode())
        del pairs[b"image-%09d" % 5]
        said = self.run_pack(self.write(pairs), self.path("p"), status=1)
        self.assertIn("there is no image-000000005", said)

    def test_other_values(self) -> None:
        said = self.run_pack(self.write({b"a": b"\x80\x04pickled"}), self.path("p"), status=1)
        self.assertIn("no file of a known format", said)


#   ---- tokens, as Megatron writes them

class Tokens(Packs):
    def write(self, dtype: str = "int32", count: int = ROWS) -> List[List[List[int]]]:
        """Documents of some sequences, some of them empty."""
        top = min(int(np.iinfo(dtype).max), 50000)
        documents = [[[self.dice.randrange(top) for _ in range(self.dice.randrange(40))]
                      for _ in range(self.dice.randrange(1, 4))] for _ in range(count)]
        documents[5], documents[9] = [], [[]]
        write_tokens(self.path("text"), documents, dtype)
        return documents

    def cut(self, *words: Any) -> List[List[int]]:
        source = open_tokens(self.path("text"), *words)
        assert source is not None
        rows = [np.load(io.BytesIO(row["tokens"])).tolist() for row in source.rows()]
        self.assertEqual(source.count, len(rows))
        return rows

    def served(self, **pipeline: Any) -> List[List[int]]:
        with serving(self.path("pack")) as server:
            had = {}
            for batch in tureen.Loader(server.endpoint, batch_size=8, epochs=1, pipeline=[
                    {"op": "decode", "as": "array", "dtype": "uint16", **pipeline}]):
                self.assertEqual(batch["array"][0].dtype, np.uint16)
                had.update(zip(batch.ids.tolist(), (row.tolist() for row in batch["array"])))
        return [had[number] for number in range(len(had))]

    def test_windows_and_documents_are_served(self) -> None:
        documents = [sum(document, []) for document in self.write("uint16")]
        text = sum(documents, [])
        told = io.StringIO()
        with contextlib.redirect_stderr(told):
            self.assertEqual(packing.main(["--seed", "5", "--window", "33", "--stride", "32",
                                           self.path("text"), self.path("pack")]), 0)
        left = (len(text) - 33) % 32
        self.assertEqual("tokens at the end" in told.getvalue(), left > 0)
        self.assertIn(f"{left} tokens at the end fill no window, and are left out" if left else "",
                      told.getvalue())
        self.assertEqual(self.served(shape=[33]), [text[at:at + 33] for at in range(0, len(text) - 32, 32)])
        shutil.rmtree(self.path("pack"))
        self.run_pack(self.path("text.idx"), self.path("pack"))
        self.assertEqual(self.served(shape=[160], ragged=True), documents)

    def assert_counted(self, window: int, stride: int, tokens: int) -> None:
        """What is said to be left out is what is in no window."""
        source = open_tokens(self.path("text"), window, stride)
        taken = {at + place for at in range(0, tokens - window + 1, stride) for place in range(window)}
        between, rest = max(taken) + 1 - len(taken), tokens - max(taken) - 1
        self.assertEqual([int(number) for number in re.findall(r"\d+", source.note)],
                         [number for number in (between, rest) if number])
        self.assertEqual("between windows" in source.note, between > 0)

    def test_every_type_and_cut(self) -> None:
        for dtype in CODES:
            documents = [sum(document, []) for document in self.write(dtype, 12)]
            text = sum(documents, [])
            with mock.patch.object(token_files, "_BLOCK", self.dice.choice([1, 7, 1 << 20])):
                self.assertEqual(self.cut(), documents, dtype)
                for window, stride in ((1, 1), (7, 7), (7, 3), (7, 20), (len(text), 5)):
                    self.assertEqual(self.cut(window, stride), [
                        text[at:at + window] for at in range(0, len(text) - window + 1, stride)])
                    self.assert_counted(window, stride, len(text))
            with self.assertRaisesRegex(SourceError, f"has {len(text)} tokens, which fill no window"):
                self.cut(len(text) + 1)

    def test_a_file_of_tokens_alone(self) -> None:
        """As nanoGPT's train.bin."""
        text = [self.dice.randrange(1 << 16) for _ in range(1000)]
        Path(self.path("train.bin")).write_bytes(np.array(text, "<u2").tobytes())
        kind, cut = ["--tokens", "uint16"], ["--window", "65", "--stride", "64"]
        source, target = self.path("train.bin"), self.path("pack")
        self.run_pack(*kind, *cut, source, target)
        self.assertEqual(self.served(shape=[65]), [text[at:at + 65] for at in range(0, 1000 - 64, 64)])
        for words, why in (([*cut, source], "no .*train.idx.*--tokens uint16 --window"),
                           ([*kind, source], "--window"),
                           ([*kind, *cut, self.path("other.bin")], "no file .*other.bin"),
                           ([*kind, *cut, source, source], "one file"),
                           ([*kind, *cut, "--split", "train", source], "--split")):
            self.assertRegex(self.run_pack(*words, self.path("none"), status=1), why)
        Path(source).write_bytes(bytes(1001))
        self.assertRegex(self.run_pack(*kind, *cut, source, self.path("none"), status=1), "1001 bytes")

    def test_it_goes_on_with_the_same_windows_only(self) -> None:
        self.write()
        words = ["--resume", self.path("text.bin"), self.path("pack")]
        all_rows = token_files._rows

        def rows(*arguments: Any) -> Iterator[Any]:
            for number, row in enumerate(all_rows(*arguments)):
                if number == 100:
                    raise RuntimeError("the source has failed")
                yield row
        with mock.patch.object(token_files, "_rows", rows), mock.patch.object(packing, "_SENT_BYTES", 1):
            with self.assertRaisesRegex(RuntimeError, "the source has failed"):
                self.run_pack("--window", "9", *words)
        self.assertFalse(os.path.exists(self.path("pack", "index.tureen")))
        self.run_pack("--window", "10", *words, status=1)
        self.run_pack("--window", "9", "--stride", "8", *words, status=1)
        self.run_pack("--window", "9", *words)
        self.run_pack("--window", "9", self.path("text"), self.path("whole"))
        for name in os.listdir(self.path("whole")):
            self.assertEqual(Path(self.path("pack", name)).read_bytes(),
                             Path(self.path("whole", name)).read_bytes(), name)

    def test_damage(self) -> None:
        self.write()
        index, tokens = Path(self.path("text.idx")), Path(self.path("text.bin"))
        whole, content = index.read_bytes(), tokens.read_bytes()
        count = int.from_bytes(whole[18:26], "little")
        for cut in (*range(0, 35), 40, len(whole) // 2, len(whole) - 1):
            index.write_bytes(whole[:cut])
            with self.assertRaisesRegex(SourceError, "does not begin as|is it whole" if cut >= 34
                                        else "does not begin as an index of Megatron's does"):
                self.cut()

        def changed(at: int, *values: int) -> bytes:
            return whole[:at] + bytes(values) + whole[at + len(values):]
        for bad, why in ((changed(0, 77, 88), "does not begin as"), (changed(9, 2), "is of version 2"),
                         (changed(17, 6), "have the type 6, which is no type of whole numbers"),
                         (changed(25, 255), "bytes instead of"), (changed(33, 128), "bytes instead of"),
                         (changed(34 + 3, 255), "do not lie one after the other"),
                         (changed(34 + 4 * count + 8 * (count - 1), 1), "do not lie one after the other"),
                         (changed(34 + 12 * count, 1), "do not divide its"),
                         #  From the largest number to the smallest: the difference does not fit, and is 1.
                         (changed(34 + 12 * count + 8, *[255] * 7, 127, *[0] * 7, 128), "do not divide its"),
                         (changed(len(whole) - 8, 0), "do not divide its"),
                         (changed(len(whole) - 16, 255, 255), "do not divide its"),
                         (whole + b"\0", f"idx has {len(whole) + 1} bytes instead of {len(whole)}:"),
                         (whole + bytes(count), "has a mode for each sequence")):
            index.write_bytes(bad)
            with self.assertRaisesRegex(SourceError, why):
                self.cut()
        index.write_bytes(whole)
        for bad in (content[:-4], content + b"\0"):
            tokens.write_bytes(bad)
            self.assertRegex(self.run_pack(self.path("text"), self.path("p"), status=1),
                             rf"text\.idx is of \d+ tokens \(int32\), and .*text\.bin has {len(bad)} bytes")
        tokens.unlink()
        for words, why in ((["--window", "3", self.path("text")], "there is no .*text.idx with a .bin"),
                           ([self.path("text.idx")], "there is no .*text.bin, which has the tokens of"),
                           ([self.path("text")], "there is no .*text: check the path")):
            self.assertRegex(self.run_pack(*words, self.path("p"), status=1), why)
        self.assertIn("give --window", self.run_pack("--stride", "3", self.path("text"), self.path("p"),
                                                     status=1))


#   ---- samples that Python makes

class Made(Packs):
    def samples(self, end: Optional[int] = None) -> Iterator[Sample]:
        for number, row in enumerate(self.rows):
            if number == end:
                raise RuntimeError("the source has failed")
            yield Sample(f"s{number:03d}", {"png": row["image"], "cls": b"%d" % row["label"]})

    def test_a_pack_of_them(self) -> None:
        pack(self.samples(), self.path("pack"), ["--quiet", "--seed", "5"])
        self.assertEqual(self.unpacked(self.path("pack")), {
            f"s{number:03d}.{key}": content for number, row in enumerate(self.rows)
            for key, content in (("png", row["image"]), ("cls", b"%d" % row["label"]))})

    def test_a_source_that_fails_is_gone_on_with(self) -> None:
        words = ["--quiet", "--seed", "5", "--signature", "mine", "--resume"]
        patch = mock.patch.object(packing, "_SENT_BYTES", 1)
        patch.start()
        self.addCleanup(patch.stop)
        for end in (0, 1, 40, 69):
            with self.assertRaisesRegex(RuntimeError, "the source has failed"):
                pack(self.samples(end), self.path("pack"), words)
            self.assertFalse(os.path.exists(self.path("pack", "index.tureen")))
        with self.assertRaises(PackFailed):
            pack(self.samples(), self.path("pack"), [*words[:-2], "other", "--resume"])
        pack(self.samples(), self.path("pack"), words)
        pack(self.samples(), self.path("whole"), ["--quiet", "--seed", "5"])
        for name in os.listdir(self.path("whole")):
            self.assertEqual(Path(self.path("pack", name)).read_bytes(),
                             Path(self.path("whole", name)).read_bytes(), name)
        pack(self.samples(), self.path("pack"), words)          # it is finished

    def test_what_is_refused(self) -> None:
        for name in ("", "a.b"):
            with self.assertRaisesRegex(SourceError, "is empty or has a dot"):
                pack([Sample(name, {"png": b"x"})], self.path("p" + name), ["--quiet"])


class Columns(Packs):
    """Which column is what, without a file of any format."""

    def source(self, rows: Sequence[Mapping[str, Any]], **options: Any) -> sources.Source:
        return sources.Source("rows", lambda: iter([dict(row) for row in rows]), [], **options)

    def sample(self, row: Mapping[str, Any], **columns: Any) -> Sample:
        return next(sources.samples(self.source([row]), sources.Columns(**columns)))

    def test_found_out(self) -> None:
        row = {"a": png(self.dice), "y": 3, "z": 1.5, "when": None}     # no names of labels but y
        self.assertEqual(self.sample(row).files, {
            "png": row["a"], "cls": b"3", "json": b'{"z": 1.5, "when": null}'})
        self.assertEqual(set(self.sample(row, without=["z", "when", "y"]).files), {"png"})
        self.assertEqual(self.sample({"a": b"\xff\xd8\xff.", "t": "x"}, text="t").files,
                         {"jpg": b"\xff\xd8\xff.", "txt": b"x"})

    def test_labels_that_are_not_whole(self) -> None:
        """Numbers and booleans are what a loss takes; what is neither is never found as JSON in silence."""
        own = png(self.dice)
        for value, cls in ((True, b"1"), (False, b"0"), (0.1, b"0.1"), (2.0, b"2.0"), (float("nan"), b"nan")):
            self.assertEqual(self.sample({"a": own, "label": value}).files, {"png": own, "cls": cls})
        whole = self.sample({"a": own, "label": "cat", "score": 1.5, "y": 3}).files
        self.assertEqual((whole["cls"], json.loads(whole["json"])), (b"3", {"label": "cat", "score": 1.5}))
        boxes = {"target": {"boxes": []}}
        self.assertEqual(json.loads(self.sample({"a": own, **boxes}).files["json"]), boxes)
        for value, why in (("cat", "str 'cat', and a label is a number: give the names of the classes, one a "
                                   "line"),
                           ([0, 1.5], r"list \[0, 1.5\], .* --array label:float32"),
                           ([], "list .*--array label:float32"),
                           (None, "NoneType None, .* leave it out with --without label")):
            row = {"a": own, "label": value}
            with self.subTest(value), self.assertRaisesRegex(SourceError, f"the column 'label' holds {why}"):
                self.sample(row)
            self.assertEqual(set(self.sample(row, without=["label"]).files), {"png"})
        with self.assertRaisesRegex(SourceError, "the column 'z' holds dict .* name another column"):
            self.sample({"a": own, "z": {}}, label="z")
        self.assertEqual(self.sample({"a": own, "label": "cat"}, text="label").files["txt"], b"cat")
        classes = ("dog", "cat")
        rows = [{"a": own, "label": name} for name in ("cat", "dog", "cow")]
        given = sources.samples(self.source(rows), sources.Columns(classes=classes))
        self.assertEqual([next(given).files["cls"] for _ in classes], [b"1", b"0"])
        with self.assertRaisesRegex(SourceError, "row 2: 'label' is 'cow', none of the 2 classes: add it"):
            next(given)

    def test_names_of_classes_are_served(self) -> None:
        """By a file, also of texts; numbers that are not whole as float64."""
        names = ["dog", "cat, tabby", "ape"]
        Path(self.path("names")).write_text("\ufeff" + "\r\n".join(names) + "\n")
        for number, row in enumerate(self.rows):
            row["label"] = number % 3 - (number == 5)               # -1 is no class, 2 is there
        self.rows[5]["label"] = -1
        write_mds(self.path("numbers"), self.rows)
        write_mds(self.path("texts"), [{**row, "label": names[row["label"] % 3]} for row in self.rows])
        said = self.run_pack(self.path("texts"), self.path("p"), status=1)
        self.assertRegex(said, "the column 'label' holds str '.*--classes FILE .* --text label, .* --without "
                               "label")
        for kind in ("numbers", "texts"):
            self.run_pack("--classes", self.path("names"), self.path(kind), self.path("p-" + kind))
            with serving(self.path("p-" + kind)) as server:
                data = tureen.DataSet("train", endpoint=server.endpoint)
                self.assertEqual(data.classes, tuple(names))
                self.assertEqual(data.class_to_idx["cat, tabby"], 1)
                labels = [row["label"] if kind == "numbers" else row["label"] % 3 for row in self.rows]
                self.assertEqual(data.targets["label"].tolist(), labels)
                self.assertEqual(data.ids_of_classes(["ape"]).tolist(),
                                 [number for number, label in enumerate(labels) if label == 2])
                loader = tureen.Loader(server.endpoint, dataset="train", batch_size=1)
                self.assertEqual(loader.classes, tuple(names))
                loader.close()
        Path(self.path("names")).write_text("dog\ncat\n")
        said = self.run_pack("--classes", self.path("names"), self.path("texts"), self.path("q"), status=1)
        self.assertIn("none of the 2 classes", said)
        said = self.run_pack("--classes", self.path("no"), self.path("texts"), self.path("q"), status=1)
        self.assertIn("No such file", said)
        write_mds(self.path("real"), [{**row, "label": row["label"] / 4} for row in self.rows])
        self.run_pack(self.path("real"), self.path("p-real"))
        with serving(self.path("p-real")) as server:
            data = tureen.DataSet("train", endpoint=server.endpoint)
            self.assertEqual(data.targets["label"].tolist(), [row["label"] / 4 for row in self.rows])
            self.assertIsNone(data.classes)

    def test_several_files(self) -> None:
        row = {"a": png(self.dice), "Depth": png(self.dice)}
        with self.assertRaisesRegex(SourceError, "the columns a, Depth all have files"):
            self.sample(row)
        self.assertEqual(self.sample(row, image="a").files, {"png": row["a"], "depth": row["Depth"]})
        self.assertEqual(self.sample(row, masks=["Depth"]).files, {"png": row["a"], "depth": row["Depth"]})

    def test_lists_of_numbers(self) -> None:
        """Beside an image, and alone: then the first is the sample's own file."""
        row = {"a": png(self.dice), "Tokens": [3, 1, 2], "boxes": [[1, 2.5, 3, 4]], "none": []}
        arrays = [sources.ArrayOf("Tokens", "uint16"), sources.ArrayOf("boxes", "float32", (4,)),
                  sources.ArrayOf("none", "int8", (2,))]
        for given in (row, {name: row[name] for name in ("Tokens", "boxes", "none")}):
            files = dict(self.sample(given, arrays=arrays).files)
            self.assertEqual(files.pop("png", b"npy") == b"npy", "a" not in given)
            found = {name: np.load(io.BytesIO(content)) for name, content in files.items()}
            tokens = found.pop("tokens" if "a" in given else "npy")
            self.assertEqual((tokens.dtype, tokens.tolist()), (np.uint16, [3, 1, 2]))
            self.assertEqual((found["boxes"].dtype, found["boxes"].tolist()), (np.float32, [[1, 2.5, 3, 4]]))
            self.assertEqual((found["none"].dtype, found["none"].shape), (np.int8, (0, 2)))
        for column, array in (("Tokens", sources.ArrayOf("Tokens", "int32", (3,))),
                              ("boxes", sources.ArrayOf("boxes", "float32")),
                              ("boxes", sources.ArrayOf("boxes", "int32", (4,))),
                              ("Tokens", sources.ArrayOf("Tokens", "bool"))):
            with self.assertRaisesRegex(SourceError, f"row 0: {column!r} is list .*, no {array.dtype} "):
                self.sample(row, arrays=[array])
        for value in ([1, -1], [1.5], [70000], ["a"], [[1], [2, 3]], "abc", 7):
            with self.assertRaisesRegex(SourceError, "row 0: 'Tokens' is .*, no uint16"):
                self.sample({**row, "Tokens": value}, arrays=arrays[:1])

    def test_a_set_of_tokens_is_served(self) -> None:
        documents = [[number * 10 + at for at in range(number % 6)] for number in range(ROWS)]
        write_mds(self.path("mds"), self.rows)
        index = json.loads(Path(self.path("mds", "index.json")).read_text())
        with mock.patch.object(sources, "_mds_rows", lambda name, content, shard: (
                {"tokens": documents[number], "part": 1} for number in range(
                    30 * int(name[-9:-4]), 30 * int(name[-9:-4]) + shard["samples"]))):
            self.run_pack("--array", "tokens:int32", self.path("mds"), self.path("pack"))
        self.assertEqual(len(index["shards"]), 3)
        with serving(self.path("pack")) as server:
            had = {}
            for batch in tureen.Loader(server.endpoint, batch_size=8, epochs=1, pipeline=[
                    {"op": "decode", "as": "array", "dtype": "int32", "shape": [5], "ragged": True}]):
                had.update(zip(batch.ids.tolist(), (row.tolist() for row in batch["array"])))
            self.assertEqual([had[number] for number in range(ROWS)], documents)
        for wrong in ("tokens", "tokens:int", "tokens:int32:x", ":int32", "tokens:int32:0"):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                packing.main(["--array", wrong, self.path("mds"), self.path("pack")])

    def test_errors_name_the_row(self) -> None:
        first = {"a": png(self.dice), "label": 1}
        for second, why in (({"a": None, "label": 1}, "row 1: 'a' is NoneType None, no file"),
                            ({"a": first["a"], "label": "x"}, "row 1: 'label' is str 'x', no whole number"),
                            ({"a": first["a"], "label": None}, "row 1: 'label' is NoneType None"),
                            ({"a": first["a"], "label": True}, "row 1: 'label' is bool True, no whole "
                                                               "number"),
                            ({"a": first["a"], "label": 1.5}, "row 1: 'label' is float 1.5, no whole "
                                                              "number")):
            with self.assertRaisesRegex(SourceError, why):
                list(sources.samples(self.source([first, second])))
        with self.assertRaisesRegex(SourceError, "there is no column 'b': it has a, label"):
            self.sample(first, image="b")
        with self.assertRaisesRegex(SourceError, "no column has files of .* of label, name one"):
            self.sample({"label": 1})
        with self.assertRaisesRegex(SourceError, "it has no row"):
            list(sources.samples(self.source([])))
        with self.assertRaisesRegex(SourceError, "'x' holds object .* leave it out with --without x"):
            self.sample({**first, "x": object()})
        with self.assertRaisesRegex(SourceError, "^the column 'a-b' would be a field of that name"):
            self.sample({"image": png(self.dice), "a-b": png(self.dice)}, image="image")

    def test_paths_that_are_nothing(self) -> None:
        os.mkdir(self.path("shards"))
        for name in ("00000.tar", "00000.parquet", "00000_stats.json"):
            Path(self.path("shards", name)).write_bytes(b"x")
        os.mkdir(self.path("beside"))                   # a table of images beside a tar of something else
        for name in ("images.tar", "train.parquet"):
            Path(self.path("beside", name)).write_bytes(b"x")
        os.mkdir(self.path("tars"))
        Path(self.path("tars", "00000.tar")).write_bytes(b"x")
        os.mkdir(self.path("empty"))
        os.mkdir(self.path("splits"))
        Path(self.path("splits", "dataset_dict.json")).write_text('{"splits": ["train", "test"]}')
        for name in ("x.bin", "x.dat"):
            Path(self.path(name)).write_bytes(b"x")
        for words, why in (([self.path("no")], "there is no .*no: check the path"),
                           ([self.path("empty")], "in it or below: is it a data set"),
                           ([self.path("shards")], "the tar files, `tureen pack .*/shards/\\*.tar PACK`; if "
                            "the tables have .*, `python3 -m tureen.pack .*/shards/\\*.parquet PACK`"),
                           ([self.path("tars")], "tables beside them, .*/tars/\\*.tar PACK`$"),
                           ([self.path("beside")], "train.parquet cannot be read|pip install pyarrow"),
                           ([self.path("splits")], "in it or below: is it a data set"),
                           ([self.path("x.bin")], "no .*x.idx.*--tokens"),
                           ([self.path("x.dat")], "packed by `tureen pack` itself"),
                           ([self.path("x.dat"), self.path("empty")], "several paths are Parquet files")):
            with self.subTest(words):
                self.assertRegex(self.run_pack(*words, self.path("p"), status=1), why)


if __name__ == "__main__":
    print(f"TEST_SEED={SEED}", flush=True)
    unittest.main()

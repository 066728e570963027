"""tureen.labels: tables that people have become labels files, which the real `tureen pack` reads.

Run by ctest (python_labels), or by hand: TUREEN_BIN=build/release/bin python3
tests/clients/test_python_labels.py [-v] [NAME].
"""
from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, Dict, List, Sequence
from unittest import mock

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
sys.path[:0] = [str(HERE), str(SOURCE / "clients" / "python")]
TUREEN = os.path.join(os.environ.get("TUREEN_BIN", str(SOURCE / "build" / "release" / "bin")), "tureen")

import numpy as np
from PIL import Image

from tureen import labels

if not os.path.exists(TUREEN):
    print(f"SKIPPED: {TUREEN} is not built", flush=True)
    sys.exit(77)


class Tables(unittest.TestCase):
    def setUp(self) -> None:
        self.root = tempfile.mkdtemp(prefix="tu-labels-")
        self.addCleanup(shutil.rmtree, self.root)
        self.packed = tempfile.mkdtemp(prefix="tu-labels-")
        self.addCleanup(shutil.rmtree, self.packed)

    def put(self, name: str, content: bytes = b"\x89PNG\r\n\x1a\n") -> str:
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
        return path

    def images(self, *names: str) -> None:
        for name in names:
            self.put(name)

    def table(self, text: str, name: str = "train.csv", encoding: str = "utf-8") -> str:
        return self.put(name, text.encode(encoding))

    def run_command(self, *words: str) -> "tuple[int, str, str]":
        out, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            status = labels.main(list(words))
        return status, out.getvalue(), errors.getvalue()

    def made(self, *words: str) -> List[Dict[str, Any]]:
        """The lines of labels.jsonl, which the command makes."""
        status, out, errors = self.run_command(*words)
        self.assertEqual(status, 0, errors)
        path = out.partition(":")[0]
        with open(path, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        os.unlink(path)
        return lines

    def assert_refused(self, words: Sequence[str], *told: str) -> None:
        before = sorted(os.listdir(self.root))
        status, out, errors = self.run_command(*words)
        self.assertEqual((status, out), (1, ""), errors)
        for word in told:
            self.assertIn(word, errors)
        self.assertEqual(sorted(os.listdir(self.root)), before)         # nothing is left of it

    def assert_packed(self, folder: str, samples: int, *words: str) -> None:
        done = subprocess.run([TUREEN, "pack", "--quiet", "--json", *words, folder, self.packed],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["samples"], samples)


class Csv(Tables):
    def test_what_spreadsheets_write(self) -> None:
        """A byte order mark, quotes with commas, quotes and line ends in them, CR LF, semicolons, tabs."""
        self.images("images/1.png", "images/2.png")
        rows = [["file", "label", "score", "seen", "note"], ["1.png", "3", "0.5", "True", 'a "cat", asleep'],
                ["2.png", "-1", "2", "false", "two\r\nlines"]]
        for delimiter in ",;\t|":
            for encoding in ("utf-8", "utf-8-sig"):
                with self.subTest(delimiter=delimiter, encoding=encoding):
                    text = "".join(delimiter.join('"%s"' % cell.replace('"', '""') if len(cell) > 5 else cell
                                                  for cell in row) + "\r\n" for row in rows)
                    self.assertEqual(self.made(self.table(text, encoding=encoding)), [
                        dict(path="images/1.png", label=3, score=.5, seen=1, note='a "cat", asleep'),
                        dict(path="images/2.png", label=-1, score=2., seen=0, note="two\r\nlines")])

    def test_how_images_are_told(self) -> None:
        """By a name with or without extension, a path from the root, or one from anywhere above it."""
        self.images("part_1/a.b.jpg", "part_2/c.JPEG", "d.png")
        for told in (("a.b.jpg", "c.JPEG", "d.png"), ("a.b", "c", "d"), ("part_1/a.b.jpg", "./part_2/c", "d"),
                     ("../input/x/part_1/a.b.jpg", "C:\\data\\part_2\\c.JPEG", "d.png")):
            with self.subTest(told=told):
                made = self.made(self.table("n,id\n" + "".join(f"{place},{name}\n" for place, name in
                                                              enumerate(told))))
                self.assertEqual([line["path"] for line in made],
                                 ["part_1/a.b.jpg", "part_2/c.JPEG", "d.png"])

    def test_another_folders_file_is_not_taken(self) -> None:
        """A test image's row never gets the training image of that name."""
        self.images("train/1.jpg", "val/2.jpg")
        table = self.table("path\ntrain/1.jpg\ntest/2.jpg\n")
        self.assert_refused([table], "1 of 2 rows have no file", "'test/2.jpg'", "--skip-missing")
        self.assertEqual(self.made("--skip-missing", table), [{"path": "train/1.jpg"}])

    def test_the_folder_that_is_given(self) -> None:
        self.images("train/1.jpg", "val/1.jpg")
        table = self.table("image,y\n1.jpg,7\n")
        self.assert_refused([table], "'train/1.jpg' or 'val/1.jpg'", "--images FOLDER")
        self.assertEqual(self.made("--images", self.root + "/val", table), [{"path": "1.jpg", "label": 7}])

    def test_classes_that_are_names(self) -> None:
        self.images("1.jpg", "2.jpg", "3.jpg")
        table = self.table("id,label\n1,dog\n2,cat\n3,dog\n")
        status, _, errors = self.run_command(table)
        self.assertEqual(status, 0, errors)
        self.assertIn("0 'cat', 1 'dog'", errors)
        os.unlink(os.path.join(self.root, "labels.jsonl"))
        self.assertEqual(self.made(table), [
            {"path": "1.jpg", "label": 1, "label_name": "dog"},
            {"path": "2.jpg", "label": 0, "label_name": "cat"},
            {"path": "3.jpg", "label": 1, "label_name": "dog"}])
        table = self.table("id,breed,label\n1,pug,0\n2,tabby,1\n3,lab,0\n")
        self.assertEqual([(line["label"], line["breed"]) for line in
                          self.made("--label", "breed", "--without", "label", table)],
                         [(1, "pug"), (2, "tabby"), (0, "lab")])

    def test_other_splits_have_the_same_numbers(self) -> None:
        self.images("1.jpg", "2.jpg")
        classes = self.put("classes.txt", b"pug\ncat\ndog\n")         # the file's order, not the alphabet's
        table = self.table("id,label\n1,pug\n2, cat\n")
        self.assertEqual([line["label"] for line in self.made("--classes", classes, table)], [0, 1])
        self.assert_refused(["--classes", classes, self.table("id,label\n1,lab\n2,cat\n")], "'lab'")
        for odd in ("", "7"):
            self.assert_refused([self.table(f"id,label\n1,{odd}\n2,cat\n")], f"{odd!r}", "--label")
        self.assert_refused([self.table("id,label\n1,10\n2,NA\n")], "'10'", "--label")

    def test_numbers_are_kept_or_refused(self) -> None:
        self.images("1.jpg", "2.jpg")
        for cells, kept in ((("10_3", "1"), ["10_3", "1"]), (("\u0661", "1"), ["\u0661", "1"]),
                            ((str(2 ** 63 - 1), "1"), [2 ** 63 - 1, 1]), (("1e3", "+.5"), [1000., .5])):
            with self.subTest(cells=cells):
                table = self.table("id,x\n1.jpg,{}\n2.jpg,{}\n".format(*cells))
                self.assertEqual([line["x"] for line in self.made("--path", "id", table)], kept)
        for cells in ((str(2 ** 63), "1"), ("9007199254740993", ".5"), ("9007199254740993", ""),
                      ("1" * 5000, "1")):
            with self.subTest(cells=cells):
                self.assert_refused([self.table("id,x\n1.jpg,{}\n2.jpg,{}\n".format(*cells))], "too large",
                                    "--without")
        status, _, errors = self.run_command(self.table("id,x\n1.jpg,inf\n2.jpg,-1\n"))
        self.assertEqual(status, 0, errors)
        self.assertIn("1.jpg\tinf\n2.jpg\t-1.0", Path(self.root, "labels.tsv").read_text())

    def test_what_programs_put_around_it(self) -> None:
        """A line of Excel's, a column of pandas', spaces behind commas, UTF-16, a blank line."""
        self.images("1.JPG", "2.jpg")
        wanted = [{"path": "1.JPG", "note": "a"}, {"path": "2.jpg", "note": "b"}]
        for text, encoding in (("sep=;\r\nid;note\r\n1.jpg;a\r\n2.jpg;b\r\n", "utf-8"),
                               (",id,note\n0,1.jpg,a\n1,2.jpg,b\n", "utf-8"),
                               ('id, note\n1.jpg, "a"\n2.jpg, "b"\n', "utf-8"),
                               ("id,note\n1.jpg,a\n   \n2.jpg,b\n", "utf-16"),
                               ("id,note,empty\n1.jpg,a,\n2.jpg,b,\n", "utf-8")):
            with self.subTest(text=text):
                self.assertEqual(self.made(self.table(text, encoding=encoding)), wanted)
        self.assert_refused([self.table("1.jpg,a\n2.jpg,b\n")], "'1.jpg', which is a file")

    def test_labels_that_are_names_of_files(self) -> None:
        """The other columns are looked at, and do not stand in the way."""
        self.images("train/0.jpg", "train/1.jpg", "test/1.jpg", "bak/train/1.jpg")
        self.assertEqual(self.made(self.table("path,label\ntrain/0.jpg,1\ntrain/1.jpg,0\n")),
                         [{"path": "train/0.jpg", "label": 1}, {"path": "train/1.jpg", "label": 0}])

    def test_numbers_that_are_missing(self) -> None:
        """They are NaN, which JSON lines cannot say."""
        self.images("1.jpg", "2.jpg")
        status, out, errors = self.run_command(self.table("id,age,note\n1,,x\n2,41,\n"))
        self.assertEqual(status, 0, errors)
        with open(os.path.join(self.root, "labels.tsv"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "path\tage\tnote\n1.jpg\tnan\tx\n2.jpg\t41.0\t\n")
        os.unlink(os.path.join(self.root, "labels.tsv"))
        self.assert_refused([self.table('id,age,note\n1,,"x\ty"\n2,41,\n')], "'note'", "'age'", "--without")
        self.assert_refused([self.table('id,age,note\n1,,"1,2"\n2,41,"3,4"\n')], "'note'", "'age'",
                            "--without")

    def test_what_is_refused(self) -> None:
        self.images("1.jpg", "2.jpg", "masks/m1.png", "masks/m2.png")
        for text, words, told in (
                ("id,x\n1,8\n1,9\n", (), ("'1.jpg' is told twice, by rows 1 and 2",)),
                ("id,x\n7,5\n8,6\n", (), ("no column names files", "id, x", "'7', '5'")),
                ("id,mask\n1,m1\n2,m2\n", (), ("id and mask", "--path COLUMN")),
                ("id,x\n1,1\n1,2\n", (), ("id and x", "--path COLUMN")),
                ("id,x\n1,1\n2\n", (), ("train.csv:3: 1 cells",)),
                ('id,x\n1,"1\n2,2\n', (), ("train.csv:3", "quotes")),
                ("id,x\n", (), ("no rows",)),
                ("id,x,x\n1,1,1\n", (), ("two columns", "'x'")),
                ("id,image\n1,5\n", (), ("'image'", "--without")),
                ("id,x y,x-y\n1,5,5\n", (), ("'x-y'", "--without")),
                ("id," + ",".join(f"c{place}" for place in range(9)) + "\n1" + ",0" * 9 + "\n", (),
                 ("9 columns",)),
                ("id,x\n1,9\n", ("--label", "z"), ("--label z", "id, x")),
                ("id,x\n1,9\n", ("--path", "z"), ("--path z", "id, x")),
                ("id,x\n1,9\n", ("--without", "z"), ("--without z", "id, x")),
                ("id,x\n1,9\n", ("--boxes", "boxes"), ("--boxes",)),
                ("id,x\n1," + "y" * 65537 + "\n", (), ("65537 bytes", "--without")),
                ("id,x\n1,9\n", ("--images", self.root + "/nowhere"), ("nowhere", "--images"))):
            with self.subTest(text=text[:40], words=words):
                self.assert_refused([*words, self.table(text)], *told)
        self.assert_refused([self.table("id,x\n1,ä\n", encoding="latin1")], "no UTF-8", "iconv")
        self.table("", "labels.tsv")
        self.assert_refused([self.table("id,x\n1,9\n")], "is there already")

    def test_a_disk_that_is_full(self) -> None:
        self.images("1.jpg")
        table = self.table("id,x\n1,9\n")
        full = OSError(28, "No space left on device", "labels.jsonl")
        with mock.patch.object(os, "rename", side_effect=full):
            self.assert_refused([table], "No space left on device")

    def test_the_pack(self) -> None:
        self.images("images/1.png", "images/2.png")
        status, _, errors = self.run_command(self.table('id,label,note\n1,cat,"a, ""b"""\n2,dog,\n'))
        self.assertEqual(status, 0, errors)
        self.assert_packed(self.root, 2)


class Coco(Tables):
    def coco(self, **changes: Any) -> str:
        told = {"images": [{"id": 9, "file_name": "b.jpg"}, {"id": 4, "file_name": "a.jpg"}],
                "annotations": [
                    {"id": 1, "image_id": 4, "category_id": 18, "bbox": [1, 2, 3, 4]},
                    {"id": 2, "image_id": 4, "category_id": 1, "bbox": [0, 0, 5.5, 6]},
                    {"id": 3, "image_id": 4, "category_id": 1, "bbox": [0, 0, 9, 9], "iscrowd": 1}],
                "categories": [{"id": 18, "name": "dog"}, {"id": 1, "name": "person"}]}
        return self.table(json.dumps({**told, **changes}), "annotations/instances.json")

    def test_boxes(self) -> None:
        self.images("train/a.jpg", "train/b.jpg")
        boxes = os.path.join(self.root, "boxes")
        status, out, errors = self.run_command("--images", self.root + "/train", "--boxes", boxes,
                                               self.coco())
        self.assertEqual(status, 0, errors)
        self.assertIn(f"--field train.boxes=file:{boxes}", out)
        self.assertIn("1 annotations of crowds", errors)
        self.assertIn("0 'person', 1 'dog'", errors)
        with open(os.path.join(self.root, "train", "labels.jsonl")) as file:
            self.assertEqual([json.loads(line) for line in file], [
                {"path": "b.jpg", "image_id": 9, "objects": 0},
                {"path": "a.jpg", "image_id": 4, "objects": 2}])
        self.assertEqual(np.load(boxes + "/a.npy").tolist(), [[1, 2, 4, 6, 1], [0, 0, 5.5, 6, 0]])
        none = np.load(boxes + "/b.npy")
        self.assertEqual((none.shape, none.dtype), ((0, 5), np.float32))
        self.assert_packed(self.root + "/train", 2, "--field", f"boxes=file:{boxes}")

    def test_masks(self) -> None:
        """Polygons, run lengths as numbers and as COCO's text, two objects on one pixel, a crowd."""
        self.images("train/a.jpg", "train/b.jpg")
        masks = os.path.join(self.root, "masks")
        square = {"category_id": 18, "bbox": [0, 0, 1, 1], "image_id": 4}
        sides = {"width": 5, "height": 4}
        told = self.coco(
            images=[{"id": 9, "file_name": "b.jpg", **sides}, {"id": 4, "file_name": "a.jpg", **sides}],
            annotations=[
                {"id": 1, **square, "segmentation": [[0, 0, 2, 0, 2, 2, 0, 2], [4, 3, 5, 3, 5, 4, 4, 4]]},
                {"id": 2, **square, "category_id": 1, "segmentation": {"counts": [5, 2, 13], "size": [4, 5]}},
                #  "82:" are 8, 2 and 10 pixels.
                {"id": 3, **square, "category_id": 1, "iscrowd": 1,
                 "segmentation": {"counts": "82:", "size": [4, 5]}}])
        status, out, errors = self.run_command("--images", self.root + "/train", "--masks", masks, told)
        self.assertEqual(status, 0, errors)
        self.assertIn(f"--field train.mask=mask:{masks}", out)
        with Image.open(masks + "/a.png") as mask:
            self.assertEqual(np.asarray(mask).tolist(), [[2, 2, 255, 0, 0], [2, 255, 255, 0, 0],
                                                         [0, 1, 0, 0, 0], [0, 0, 0, 0, 2]])
        with Image.open(masks + "/b.png") as mask:
            self.assertEqual((mask.size, mask.getextrema()), ((5, 4), (0, 0)))

    def test_wrong_masks(self) -> None:
        self.images("train/a.jpg")
        words = ["--images", self.root + "/train", "--masks", self.root + "/masks"]
        for sides, segmentation, said in (
                ({}, [], "no `width`"), ({"width": 5, "height": 4}, "x", "neither"),
                ({"width": 5, "height": 4}, [[0, 0, 1, 1]], "neither"),
                ({"width": 5, "height": 4}, {"counts": [20], "size": [5, 4]},
                 "the annotation 7: its run lengths are of a picture of [5, 4], and the image is [4, 5]: "
                 "correct `size`"),
                ({"width": 5, "height": 4}, {"counts": [19], "size": [4, 5]},
                 "the annotation 7: its run lengths do not make up the picture: correct `counts`"),
                ({"width": 5, "height": 4}, {"counts": "8~", "size": [4, 5]}, "counts")):
            self.assert_refused([*words, self.coco(
                images=[{"id": 4, "file_name": "a.jpg", **sides}],
                annotations=[{"id": 7, "image_id": 4, "category_id": 1, "bbox": [0, 0, 1, 1],
                              "segmentation": segmentation}])], said)
            self.assertFalse(os.path.exists(self.root + "/masks"))

    def test_what_is_refused(self) -> None:
        self.images("train/a.jpg", "train/b.jpg", "boxes/old.jpg")
        words = ["--images", self.root + "/train"]
        self.assert_refused([*words, self.coco(categories=[])], "annotation 1", "category_id")
        self.assert_refused([*words, self.coco(images=[{"id": 9, "file_name": "b.jpg"}])], "annotation 1",
                            "no image")
        self.assert_refused([*words, self.coco(annotations=None)], "annotations")
        self.assert_refused([*words, self.coco(images=["a.jpg"])], "`images`", "file_name")
        self.assert_refused([*words, self.coco(images=[{"id": 4, "file_name": "a.jpg"},
                                                       {"id": 4, "file_name": "b.jpg"}])], "the id 4")
        for box in ("1234", [1, 2, 3], [1, 2, 3, float("nan")], None):
            self.assert_refused([*words, self.coco(annotations=[
                {"id": 1, "image_id": 4, "category_id": 1, "bbox": box}])], "annotation 1", "bbox")
        self.assert_refused([*words, self.table("[", "x.json")], "no JSON")
        self.assert_refused([*words, "--label", "x", self.coco()], "--label")
        self.assert_refused([*words, "--boxes", self.root + "/boxes", self.coco()], "boxes is there already")
        self.images("train/a.png")
        self.assert_refused([*words, "--boxes", self.root + "/new/", self.coco(images=[
            {"id": 4, "file_name": "a.jpg"}, {"id": 9, "file_name": "a.png"}])], "extensions alone")
        os.unlink(os.path.join(self.root, "train", "a.png"))
        os.unlink(os.path.join(self.root, "train", "a.jpg"))
        self.assert_refused([*words, self.coco()], "1 of 2 images", "'a.jpg'", "--skip-missing")
        self.assertEqual(self.made("--skip-missing", *words, self.coco()),
                         [{"path": "b.jpg", "image_id": 9, "objects": 0}])


if __name__ == "__main__":
    unittest.main()

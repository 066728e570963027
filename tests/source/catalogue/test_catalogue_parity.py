"""The catalogue lists exactly what torchvision's ImageFolder lists, in its order, with its labels.

The reference is torchvision's find_classes and make_dataset, written out again with os.scandir and os.walk;
where torchvision itself is installed it is asked as well. Trees are random, of names that collide:
TEST_SEED replays one.
"""
import os
import random
import shutil
import subprocess
import tempfile
import unicodedata
import unittest

try:
    from torchvision.datasets.folder import IMG_EXTENSIONS, find_classes, make_dataset
except ImportError:
    make_dataset = None

DUMP = os.path.join(os.environ["TUREEN_BIN"], "catalogue_dump")
SEED = int(os.environ.get("TEST_SEED", "20261120"), 0)
TREES = 60
EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")

# Stems chosen to meet each other: '-' and '.' sort before '/', upper before lower case; bytes that are not
# UTF-8 sort as Python's lone surrogates, above most of UTF-8 (0xa9 above 'é') and below U+FF21 and emoji.
STEMS = [b"a", b"a-b", b"a b", b"a.b", b"A", b"b", b"", b".hidden", b"\xe9", b"\xa9", b"\xff\xfe", b"\xc3",
         b"\xe2\x82", "é".encode(), "ｱＡ".encode(), "\U0001f600".encode(), "\ue000".encode(), b"new\nline",
         b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"a\xc3", b"a\xc3\xa9", b"long" * 30]
ENDINGS = [b".jpg", b".JPG", b".JpEg", b".jpeg", b".png", b".PPM", b".bmp", b".pgm", b".tif", b".TIFF",
           b".webp", b".txt", b"", b".jpg.txt", b".jpg~", b".gif", b".jp\xc4\xb1g", b".t\xc4\xb0f", b"jpg",
           b".jpg.png"]


def reference(folder):
    """torchvision's rules: [(label, path)] with relative paths as bytes; FileNotFoundError as there."""
    classes = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    if not classes:
        raise FileNotFoundError("no class")
    samples, seen = [], set()
    for label, name in enumerate(classes):
        for root, _, names in sorted(os.walk(os.path.join(folder, name), followlinks=True)):
            for file_name in sorted(names):
                if file_name.lower().endswith(EXTENSIONS):
                    samples.append((label, os.fsencode(os.path.join(root, file_name)[len(folder) + 1:])))
                    seen.add(name)
    if seen != set(classes):
        raise FileNotFoundError(sorted(set(classes) - seen))
    return samples


def torchvisions(folder):
    classes, labels = find_classes(folder)
    return [(label, os.fsencode(path[len(folder) + 1:]))
            for path, label in make_dataset(folder, labels, extensions=IMG_EXTENSIONS)]


def dump(folder):
    """(samples, sizes, summary) or the error as text."""
    run = subprocess.run([DUMP, folder], capture_output=True, timeout=60)
    if run.returncode == 1:
        return run.stderr.decode(errors="surrogateescape")
    assert run.returncode == 0, run
    lines = run.stdout.split(b"\0")[:-1]
    fields = [line.split(b" ", 2) for line in lines[:-1]]
    return ([(int(label), path) for label, _, path in fields], [int(size) for _, size, _ in fields],
            lines[-1].decode().split())


def touch(path, size=0):
    with open(path, "wb") as file:
        file.write(b"x" * size)


def fill(folder, rng, depth):
    """Random files, links and directories below folder (bytes)."""
    for _ in range(rng.randrange(6)):
        path = os.path.join(folder, rng.choice(STEMS) + rng.choice(ENDINGS))
        if os.path.basename(path) in (b"", b".", b"..") or os.path.lexists(path):
            continue
        kind = rng.randrange(10)
        if kind == 0:
            os.symlink(rng.choice([b"nowhere", b"/dev/null", os.path.basename(path)]), path)
        elif kind == 1:
            os.mkfifo(path)
        elif kind <= 4 and depth < 4:
            os.mkdir(path)
            fill(path, rng, depth + 1)
        else:
            touch(path, rng.randrange(5))


class Forms(unittest.TestCase):
    """Names in a labels file in another Unicode form than on the disk: said, whatever the letters are."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tureen-test-")
        self.addCleanup(shutil.rmtree, self.folder)

    def said(self, named, there):
        """What the catalogue says of a labels file that names one path, where the other one is."""
        path = os.path.join(self.folder, there)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        touch(path)
        with open(os.path.join(self.folder, "labels.tsv"), "w", encoding="utf-8") as file:
            file.write("path\tx\n%s\t1\n" % named)
        return dump(self.folder)

    def test_every_letter(self):
        composed = [chr(code) for code in range(0x80, 0x10000)
                    if len(unicodedata.decomposition(chr(code)).split()) == 2
                    and not unicodedata.decomposition(chr(code)).startswith("<")]
        self.assertGreater(len(composed), 900)
        letters = [*composed, *map(chr, range(0xac00, 0xd7a4, 17))]
        for first in range(0, len(letters), 100):
            part = letters[first:first + 100]
            whole = "/".join("x".join(part[at:at + 20]) for at in range(0, len(part), 20)) + ".jpg"
            split = unicodedata.normalize("NFD", whole)
            with self.subTest(first="%04x" % ord(part[0])):
                self.assertIn("there a letter and its accent are two characters (NFD), here one (NFC)",
                              self.said(whole, split))
                shutil.rmtree(os.path.join(self.folder, split.partition("/")[0]))
                self.assertIn("there a letter and its accent are one character (NFC), here two (NFD)",
                              self.said(split, whole))
                shutil.rmtree(os.path.join(self.folder, whole.partition("/")[0]))

    def test_other_names(self):
        for named, there in (("a/caf\u00e9.jpg", "a/cafe\u0300.jpg"), ("a/caf\u00e9.jpg", "a/cafe.jpg"),
                             ("e\u0301/1.jpg", "\u00e9/2.jpg")):
            with self.subTest(named=named):
                self.assertIn("correct the path or remove the line", self.said(named, there))


class Parity(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tureen-test-")
        self.addCleanup(shutil.rmtree, self.folder)

    def check(self, folder=None, note=""):
        folder = folder or self.folder
        samples, sizes, summary = dump(folder)
        expected = reference(folder)
        self.assertEqual(expected, samples, note)
        if make_dataset:
            self.assertEqual(torchvisions(folder), samples, note)
        real = [os.stat(os.path.join(os.fsencode(folder), path)).st_size
                if os.path.isfile(os.path.join(os.fsencode(folder), path)) else 0 for _, path in samples]
        self.assertEqual(real, sizes, note)
        classes = len({label for label, _ in samples})
        self.assertEqual([str(classes), str(sum(sizes))], summary[1:3])
        return samples

    def test_random_trees(self):
        """Any tree: same files, same order, same labels, or both refuse."""
        refused = listed = 0
        for number in range(TREES):
            rng = random.Random(SEED + number)
            root = os.path.join(os.fsencode(self.folder), b"tree%d" % number)
            os.mkdir(root)
            names = rng.sample(STEMS, rng.randrange(1, 8))
            for name in filter(None, names):
                os.mkdir(os.path.join(root, name))
                fill(os.path.join(root, name), rng, 0)
                if rng.randrange(8):
                    touch(os.path.join(root, name, b"z.jpg"))
            classes = sorted(filter(None, names))
            if len(classes) > 1:        # a link to another class's folder, and one into it
                os.symlink(classes[0], os.path.join(root, b"link"))
                os.symlink(os.path.join(root, classes[0]), os.path.join(root, classes[1], b"m-link"))
            touch(os.path.join(root, b"stray.jpg"))
            folder = os.fsdecode(root)
            note = f"TEST_SEED={SEED + number}"
            try:
                reference(folder)
            except FileNotFoundError:
                self.assertIsInstance(dump(folder), str, note)
                refused += 1
            else:
                listed += len(self.check(folder, note))
        self.assertGreater(refused, 0)
        self.assertGreater(listed, 10 * TREES)

    def test_directories_sort_by_whole_path(self):
        """'a-b' comes before 'a/b' though 'a' comes before 'a-b'."""
        for name in ("c/a/b", "c/a-b", "c/a.b", "c/a0", "c/A"):
            os.makedirs(os.path.join(self.folder, name))
            touch(os.path.join(self.folder, name, "x.jpg"))
        touch(os.path.join(self.folder, "c/a/x.jpg"))
        touch(os.path.join(self.folder, "c/x.jpg"))
        expected = ["c", "c/A", "c/a", "c/a-b", "c/a.b", "c/a/b", "c/a0"]
        self.assertEqual([f"{name}/x.jpg".encode() for name in expected], [path for _, path in self.check()])

    def test_root_with_a_slash_at_its_end(self):
        os.mkdir(os.path.join(self.folder, "c"))
        touch(os.path.join(self.folder, "c/x.jpg"))
        self.assertEqual([(0, b"c/x.jpg")], dump(self.folder + "/")[0])

    def test_classes_without_images_are_named(self):
        """torchvision names the same ones."""
        for name in ("cat", "dog", "empty", "text"):
            os.mkdir(os.path.join(self.folder, name))
        touch(os.path.join(self.folder, "cat/x.jpg"))
        touch(os.path.join(self.folder, "dog/x.jpg"))
        touch(os.path.join(self.folder, "text/x.txt"))
        with self.assertRaises(FileNotFoundError) as caught:
            reference(self.folder)
        error = dump(self.folder)
        self.assertEqual((["empty", "text"],), caught.exception.args)
        self.assertIn("'empty', 'text'", error)
        self.assertNotIn("cat", error)

    def test_fingerprint_follows_names_and_sizes(self):
        for name in ("a", "b"):
            os.makedirs(os.path.join(self.folder, name, "c"))
            touch(os.path.join(self.folder, name, "c/x.jpg"), 3)
        one, two = (dump(os.path.join(self.folder, name))[2][3] for name in ("a", "b"))
        self.assertEqual(one, two)
        touch(os.path.join(self.folder, "b/c/x.jpg"), 4)
        self.assertNotEqual(one, dump(os.path.join(self.folder, "b"))[2][3])


if __name__ == "__main__":
    unittest.main()

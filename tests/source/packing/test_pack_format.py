"""A pack's bytes are what docs/format.md says: a reader written from that text alone finds the originals.

No checksum is computed here; those are test_pack_damage.c's.
"""
import os
import random
import struct
import subprocess
import tempfile
import unittest

MAKE = os.path.join(os.environ["TUREEN_BIN"], "pack_make")
SEED = int(os.environ.get("TEST_SEED", "20261120"), 0)
BLOCK = 4096


class Pack:
    """The reader: no checks but those that it needs to read on."""

    def __init__(self, folder):
        self.folder = folder
        self.index = self.file("index.tureen")
        (magic, version, self.chunk_samples, self.pack, self.samples, self.bytes, self.seed,
         self.fingerprint) = struct.unpack_from("<8sII16sQQQ40s", self.index)
        assert (magic, version) == (b"TUREENI1", 1)
        self.extents = [struct.unpack_from("<QQQ", self.index, 96 + 24 * section) for section in range(12)]
        self.names = self.section(0)
        self.classes = [self.text(at) for at, in self.records(1, "<Q")]
        self.directories = self.records(2, "<QII")
        self.sample = self.records(3, "<QQII")
        self.fields = [(name.rstrip(b"\0"), mask, beside) for name, mask, beside in self.records(4, "<64sII")]
        self.companions = self.records(5, "<QQ")
        self.labels = [(name.rstrip(b"\0"), *rest) for name, *rest in self.records(6, "<64sIIQQ")]
        self.places = self.records(8, "<QII")
        self.checksums = self.records(9, "<Q")
        self.order = [id for id, in self.records(10, "<I")]
        self.volumes = self.records(11, "<QII")

    def file(self, name):
        with open(os.path.join(self.folder, name), "rb") as file:
            return file.read()

    def section(self, number):
        offset, size, _ = self.extents[number]
        return self.index[offset:offset + size]

    def records(self, section, layout):
        return list(struct.iter_unpack(layout, self.section(section)))

    def text(self, offset):
        return self.names[offset:self.names.index(b"\0", offset)]

    def path(self, id, field):
        name, _, directory, _ = self.sample[id]
        name = self.text(name)
        if field:
            separated = name.split(b".", 1) if self.fields[field][2] else name.rsplit(b".", 1)
            name = separated[0] + self.text(self.companions[(field - 1) * self.samples + id][1])
        folder = self.text(self.directories[directory][0])
        return folder + b"/" + name if folder else name

    def length(self, id, field):
        return self.companions[(field - 1) * self.samples + id][0] if field else self.sample[id][1]

    def read(self, id, field):
        offset, volume, _ = self.places[id]
        offset += sum(self.length(id, before) for before in range(field))
        with open(os.path.join(self.folder, f"volume-{volume:05}.tureen"), "rb") as file:
            file.seek(offset)
            return file.read(self.length(id, field))

    def label_values(self):
        """{name: values by id}"""
        values, found = self.section(7), {}
        for name, kind, _, length, _ in self.labels:
            if kind == 0:
                found[name] = [self.directories[directory][1] for _, _, directory, _ in self.sample]
                continue
            size = 8 * self.samples * length
            rows = list(struct.iter_unpack("<%d%s" % (length, "..qdQ"[kind]), values[:size]))
            values = values[size:]
            found[name] = [self.text(row[0]) if kind == 4 else row for row in rows]
        assert not values
        return found


def put(path, content):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)


class Format(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="tureen-test-")
        self.addCleanup(self.scratch.cleanup)
        self.random = random.Random(SEED)
        self.source = os.path.join(self.scratch.name, "source")

    def pack(self, *fields):
        target = os.path.join(self.scratch.name, "target")
        subprocess.run([MAKE, self.source, target, "30000", str(SEED), *fields], check=True, timeout=60)
        return Pack(target)

    def check_bytes(self, pack, files):
        """files: for each field {path: bytes}; all of them are there, and nothing else."""
        self.assertEqual(len(pack.fields), len(files))
        for field, originals in enumerate(files):
            found = {pack.path(id, field): pack.read(id, field) for id in range(pack.samples)}
            self.assertEqual(found, originals, f"TEST_SEED={SEED}")
        self.assertEqual(pack.bytes, sum(len(content) for originals in files
                                         for content in originals.values()))
        self.assertEqual(len(pack.checksums), pack.samples * len(files))

    def check_layout(self, pack):
        """Each volume, rebuilt in the order of positions, is the file."""
        self.assertEqual(sorted(pack.order), list(range(pack.samples)))
        self.assertNotEqual(pack.order, sorted(pack.order))
        for number, (size, first, _) in enumerate(pack.volumes):
            following = pack.volumes[number + 1][1] if number + 1 < len(pack.volumes) else pack.samples
            header = struct.pack("<8sII16s", b"TUREENV1", 1, number, pack.pack)
            content = pack.file(f"volume-{number:05}.tureen")
            self.assertEqual(content[:32], header)
            self.assertEqual(content[40:BLOCK], bytes(BLOCK - 40))
            rebuilt = bytearray(content[:BLOCK])
            for position in range(first, following):
                id = pack.order[position]
                if position % pack.chunk_samples == 0:
                    rebuilt += bytes(-len(rebuilt) % BLOCK)
                self.assertEqual(pack.places[id], (len(rebuilt), number, position))
                for field in range(len(pack.fields)):
                    rebuilt += pack.read(id, field)
            rebuilt += bytes(-len(rebuilt) % BLOCK)
            self.assertEqual(bytes(rebuilt), content)
            self.assertEqual(len(content), size)
        end = BLOCK
        for offset, size, _ in pack.extents:
            self.assertEqual(offset, end + -end % 64)
            self.assertEqual(pack.index[end:offset], bytes(offset - end))
            end = offset + size
        self.assertEqual(len(pack.index), end)

    def test_classes_and_fields(self):
        images, masks = {}, {}
        for number in range(200):
            stem = self.random.choice(["a/x.", "a/", "b/deep/er/", "\u00e9/"]) + str(number)
            images[(stem + ".jpg").encode()] = self.random.randbytes(self.random.randrange(900))
            extensions = [".png", ".tif"] if "." in stem else [".png", ""]
            name = (stem + self.random.choice(extensions)).encode()
            masks[name] = self.random.randbytes(self.random.randrange(90))
        for name, content in images.items():
            put(os.path.join(os.fsencode(self.source), name), content)
        folder = os.path.join(self.scratch.name, "masks")
        for name, content in masks.items():
            put(os.path.join(os.fsencode(folder), name), content)
        pack = self.pack("mask=mask:" + folder)
        self.assertEqual(pack.fields, [(b"image", 0, 0), (b"mask", 1, 0)])
        self.check_bytes(pack, [images, masks])
        self.check_layout(pack)
        self.assertEqual(pack.classes, sorted({name.split(b"/")[0] for name in images}))
        labels = pack.label_values()
        self.assertEqual([pack.classes[label] for label in labels[b"label"]],
                         [pack.path(id, 0).split(b"/")[0] for id in range(pack.samples)])

    def test_labels(self):
        rows, images = [], {}
        for number in range(150):
            path = self.random.choice(["", "a/", "b/c/"]) + f"{number}.jpg"
            images[path.encode()] = self.random.randbytes(self.random.randrange(700))
            rows.append((path, self.random.randrange(-2 ** 63, 2 ** 63), self.random.random(),
                         (self.random.randrange(9), self.random.randrange(9)),
                         "cat " * self.random.randrange(1, 4)))
        for name, content in images.items():
            put(os.path.join(os.fsencode(self.source), name), content)
        lines = ["path\twhole\treal\tpoint\ttext"]
        lines += [f"{path}\t{whole}\t{real!r}\t{point[0]},{point[1]}\t{text}"
                  for path, whole, real, point, text in rows]
        put(os.path.join(self.source, "labels.tsv"), "\n".join(lines).encode())
        pack = self.pack()
        self.check_bytes(pack, [images])
        self.check_layout(pack)
        self.assertEqual([pack.path(id, 0).decode() for id in range(pack.samples)], [row[0] for row in rows])
        labels = pack.label_values()
        self.assertEqual(labels[b"whole"], [(row[1],) for row in rows])
        self.assertEqual(labels[b"real"], [(row[2],) for row in rows])
        self.assertEqual(labels[b"point"], [row[3] for row in rows])
        self.assertEqual(labels[b"text"], [row[4].encode() for row in rows])
        self.assertEqual([label[4] for label in pack.labels], [0, 0, 0, max(len(row[4]) for row in rows)])


if __name__ == "__main__":
    unittest.main()

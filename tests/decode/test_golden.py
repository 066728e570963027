"""`tureen prepare` against checksums of what Pillow made of the same small images: test_golden.py
PATH-OF-tureen

Needs neither Pillow nor NumPy.  golden/prepared.json was written by make_golden.py, with the libjpeg-turbo of
Debian 12.
"""
import glob
import json
import os
import sys
import tempfile
import zlib

import parity_cases

HERE = os.path.dirname(os.path.abspath(__file__))
KEY = (1, 2, 3)


def pixels(path):
    """What stands behind the header of a .npy."""
    with open(path, "rb") as file:
        data = file.read()
    return data[10 + int.from_bytes(data[8:10], "little"):]


def main():
    files = sorted(glob.glob(HERE + "/golden/*.jpg") + glob.glob(HERE + "/golden/*.png"))
    with open(HERE + "/golden/prepared.json") as file:
        golden = json.load(file)
    assert len(golden) == len(parity_cases.PIPELINES), \
        "make_golden.py has not been run since parity_cases.py changed"
    failures = compared = 0
    for (pipeline, _), expected in zip(parity_cases.PIPELINES, golden):
        assert sorted(expected) == [os.path.basename(file) for file in files]
        with tempfile.TemporaryDirectory() as out:
            errors = parity_cases.prepare(sys.argv[1], pipeline, files, out, KEY)
            if errors:
                failures += 1
                print(f"FAIL: {json.dumps(pipeline)}: {errors}")
                continue
            for file in files:
                ours = [zlib.crc32(pixels(path)) for path in parity_cases.outputs(out, HERE + "/golden", file,
                    pipeline)]
                compared += len(ours)
                if ours != expected[os.path.basename(file)]:
                    failures += 1
                    print(f"FAIL: {os.path.basename(file)} {json.dumps(pipeline)}")
    print(f"{compared} compared, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

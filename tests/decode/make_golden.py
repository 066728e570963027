"""Makes golden files of tests/decode/golden with Pillow: make_golden.py (run in this folder)

  NAME.jpg, NAME.png   tiny images of every kind
  NAME.rgb             what each of PIPELINES makes of a JPEG at the share point and at its end, for
  test_decoder.c prepared.json        CRC-32 of what the pipelines of parity_cases.py make of all images, for
  test_golden.py
"""
import glob
import json
import os
import zlib

import numpy

import parity_cases
import reference
from test_parity import PNGS, patched_ycck, picture, save_png

KEY = (1, 2, 3)
PIPELINES = [
    [{"op": "resize", "size": 18}, {"op": "center_crop", "size": [16, 17]}, {"share": True}],
    [{"op": "resize", "size": [23, 29]}, {"op": "flip", "p": 1}, {"op": "resize", "size": [15, 21]},
     {"op": "center_crop", "size": [19, 24]}, {"op": "flip", "p": 1}, {"op": "resize", "size": 17},
     {"op": "center_crop", "size": [22, 16]}, {"share": True}, {"op": "flip", "p": 0.75}],
    [{"op": "center_crop", "size": [52, 27]}, {"op": "random_resized_crop", "size": [13, 14]},
     {"share": True},
     {"op": "flip"}, {"op": "flip", "p": 0.25}],
]


def make_jpegs():
    kinds = {
        "colour_444": ("RGB", dict(quality=90, subsampling=0)),
        "colour_420": ("RGB", dict(quality=80, subsampling=2)),
        "colour_422_progressive": ("RGB", dict(quality=70, subsampling=1, progressive=True)),
        "grey": ("L", dict(quality=80)), "cmyk": ("CMYK", dict(quality=80)),
        "ycck": ("CMYK", dict(quality=80)),
    }
    for number, (name, (mode, options)) in enumerate(kinds.items()):
        path = f"golden/{name}.jpg"
        picture(41 + number, 30 - number, number).convert(mode).save(path, "JPEG", **options)
        if name == "ycck":
            patched_ycck(path)
        with open(f"golden/{name}.rgb", "wb") as file:
            for pipeline in PIPELINES:
                planes, outputs = reference.run(path, pipeline, KEY)
                for image in planes + outputs:
                    file.write(image.tobytes())


def make_pngs():
    for number, (name, options) in enumerate(PNGS.items()):
        save_png(picture(33 - number, 22 + number, number), f"golden/{name}.png", options)


def make_prepared():
    """[for each pipeline: {file: [checksum of each output]}], in the order in which test_golden.py gives the
    files."""
    files = sorted(glob.glob("golden/*.jpg") + glob.glob("golden/*.png"))
    made = []
    for pipeline, _ in parity_cases.PIPELINES:
        made.append({})
        for number, file in enumerate(files):
            outputs = reference.run(file, pipeline, (KEY[0], KEY[1], KEY[2] + number))[1]
            made[-1][os.path.basename(file)] = [zlib.crc32(numpy.ascontiguousarray(array).tobytes())
                                                for array in outputs]
    with open("golden/prepared.json", "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(entry) for entry in made) + "\n]\n")


if __name__ == "__main__":
    make_jpegs()
    make_pngs()
    make_prepared()

"""Importing this makes Pillow 13 resize as Pillow before it, and as the server: horizontally first.

Pillow 13 resizes vertically first where an image loses more than twice as many rows as columns.  What is
rounded between the two passes differs then, so values do, by 1 and sometimes more (docs/pipeline.md says how
often).
"""
from PIL import Image

_resize = Image.Image.resize


def _horizontally_first(self, size, resample=None, box=None, reducing_gap=None):
    left, top, right, bottom = box or (0, 0, *self.size)
    rows = _resize(self, (size[0], self.height), resample, (left, 0, right, self.height), reducing_gap)
    return _resize(rows, size, resample, (0, top, size[0], bottom), reducing_gap)


if int(Image.__version__.split(".")[0]) >= 13:
    Image.Image.resize = _horizontally_first

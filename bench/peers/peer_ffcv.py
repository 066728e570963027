"""FFCV: one file with the photographs' own JPEG bytes, each job with compiled pipelines in threads.

FFCV's writer compresses pictures anew.  Here its function for that hands out the bytes of the file instead,
so that all peers decode the same bytes.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, Tuple

import ffcv.fields.rgb_image
import numpy as np
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.decoders import IntDecoder, RandomResizedCropRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import RandomHorizontalFlip, Squeeze, ToTensor
from ffcv.writer import DatasetWriter
from PIL import Image

from peer import AREA, BATCH, RATIO, SIDE, Settings, endless, photographs


class Files:
    """Decoded for the writer, which takes height and width from it."""

    current: Dict[str, np.ndarray] = {}         # the sample that the writer is at

    def __init__(self, settings: Settings) -> None:
        self._files = photographs(settings)

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> Tuple[np.ndarray, int]:
        path, label = self._files[index]
        self.current["bytes"] = np.frombuffer(path.read_bytes(), np.uint8)
        with Image.open(path) as image:
            return np.array(image.convert("RGB")), label


def own_bytes(image: Any, quality: int) -> np.ndarray:
    return Files.current["bytes"]


def prepare(settings: Settings) -> None:
    ffcv.fields.rgb_image.encode_jpeg = own_bytes
    writer = DatasetWriter(f"{settings.directory}/photographs.beton",
                           {"image": RGBImageField(write_mode="jpg"), "label": IntField()}, num_workers=1)
    writer.from_indexed_dataset(Files(settings))


def batches(settings: Settings, job: int) -> Iterator[int]:
    image = [RandomResizedCropRGBImageDecoder((SIDE, SIDE), AREA, RATIO), RandomHorizontalFlip(), ToTensor()]
    loader = Loader(f"{settings.directory}/photographs.beton", batch_size=BATCH, num_workers=settings.workers,
                    order=OrderOption.RANDOM, os_cache=True, drop_last=False,
                    pipelines={"image": image, "label": [IntDecoder(), ToTensor(), Squeeze()]})
    return endless(loader)

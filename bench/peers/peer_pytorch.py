"""PyTorch's DataLoader: each job opens, decodes and augments with Pillow in worker processes of its own.

The transforms are torchvision's, which call Pillow, and the pixels go to a uint8 tensor.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, Optional, Tuple

import numpy as np
import torch
from PIL import Image

from peer import BATCH, Settings, endless, photographs
from peer_recipes import transforms


def make_transform(settings: Settings) -> Callable[[Any], torch.Tensor]:
    picture = transforms(settings)

    def transform(file: Any) -> torch.Tensor:
        with Image.open(file) as image:
            return torch.from_numpy(np.array(picture(image.convert("RGB"))).transpose(2, 0, 1))
    return transform


class Photographs(torch.utils.data.Dataset):
    def __init__(self, settings: Settings) -> None:
        self._files = photographs(settings)
        self._transform = make_transform(settings)

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> Tuple[torch.Tensor, int]:
        path, label = self._files[index]
        return self._transform(path), label


def make_loader(settings: Settings, workers: int, samples: Optional[range] = None,
                **options: Any) -> torch.utils.data.DataLoader:
    torch.set_num_threads(1)
    data: Any = Photographs(settings)
    if samples is not None:
        data = torch.utils.data.Subset(data, samples)
    return torch.utils.data.DataLoader(data, batch_size=BATCH, shuffle=True, num_workers=workers,
                                       persistent_workers=True, **options)


def prepare(settings: Settings) -> None:
    """Files are read as they are."""


def batches(settings: Settings, job: int, samples: Optional[range] = None) -> Iterator[int]:
    loader = make_loader(settings, settings.workers, samples)
    return endless(loader)

"""What each peer of the comparison is to the rest: three functions on one set of settings.

A module `peer_NAME` has

    prepare(settings)           writes the photographs in the peer's own format; called once
    serve(settings)             optional: the process that the jobs share; prints READY once they may begin
    batches(settings, job)      the training job: an endless iterator over the batches of its epochs, each as
                                the number of its samples; `job` counts from 0

and is run by peer_process.py in a process of its own.  All peers prepare the same thing: a random crop of a
photograph (8 to 100 % of its area, 3:4 to 4:3), resized to 224 x 224 and mirrored every second time, in
batches of 32 in random order, as uint8.  The recipe "randaugment" has torchvision's RandAugment behind that,
for the peers that have it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Iterable, Iterator, List, NamedTuple, Sized, Tuple, Union

BATCH = 32
SIDE = 224
AREA = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)
READY = "ready"


class Settings(NamedTuple):
    photographs: str            # the ImageFolder, in shared memory
    directory: str              # of this peer, for prepare and serve; in shared memory
    binary: str                 # the tureen executable
    jobs: int
    workers: int                # processes or threads for each job
    processors: int
    port: int                   # of four free ones
    policy: str = "follow"      # of a Tureen server
    recipe: str = "crop"        # or "randaugment": torchvision's RandAugment behind crop and flip


def endless(loader: Iterable[Tuple[Sized, Any]]) -> Iterator[int]:
    """Epoch after epoch of a loader: the number of each batch's samples."""
    while True:
        for images, _ in loader:
            yield len(images)


def key_of(settings: Settings, path: Union[str, Path]) -> str:
    """The name of a file's object, where the folder that has the photographs' folder in it is a bucket."""
    return os.path.relpath(path, os.path.dirname(settings.photographs))


def photographs(settings: Settings) -> List[Tuple[Path, int]]:
    """The files and their classes, as torchvision's ImageFolder lists them."""
    folder = Path(settings.photographs)
    classes = sorted(path.name for path in folder.iterdir() if path.is_dir())
    return [(path, label) for label, name in enumerate(classes) for path in sorted((folder / name).iterdir())]

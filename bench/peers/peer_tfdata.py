"""tf.data service: one dispatcher and worker prepares, jobs share its stream through the cross-trainer cache.

A job that falls behind the cache's window misses elements; no job has an epoch of its own.
"""

from __future__ import annotations

import os
import time
from typing import Any, Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow                                                       # noqa: E402

from peer import AREA, BATCH, RATIO, READY, SIDE, Settings, photographs     # noqa: E402

service = tensorflow.data.experimental.service


def prepare(settings: Settings) -> None:
    """Files are read as they are."""


def serve(settings: Settings) -> None:
    dispatcher = service.DispatchServer(service.DispatcherConfig(port=settings.port))
    worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=dispatcher.target.split("://")[1]))
    print(READY, flush=True)
    while worker:
        time.sleep(3600)


def crop(path: Any, label: Any) -> Any:
    data = tensorflow.io.read_file(path)
    shape = tensorflow.image.extract_jpeg_shape(data)
    start, size, _ = tensorflow.image.sample_distorted_bounding_box(
        tensorflow.concat([shape[:2], [3]], 0), bounding_boxes=tensorflow.zeros([1, 0, 4]), area_range=AREA,
        aspect_ratio_range=RATIO, use_image_if_no_bounding_boxes=True)
    window = tensorflow.concat([start[:2], size[:2]], 0)
    image = tensorflow.io.decode_and_crop_jpeg(data, window, channels=3)
    image = tensorflow.image.resize(image, [SIDE, SIDE])
    return tensorflow.cast(tensorflow.image.random_flip_left_right(image), tensorflow.uint8), label


def batches(settings: Settings, job: int) -> Iterator[int]:
    files = photographs(settings)
    names, labels = [str(path) for path, _ in files], [label for _, label in files]
    #  The cross-trainer cache takes endless data only.
    data = tensorflow.data.Dataset.from_tensor_slices((names, labels)).shuffle(len(files)).repeat()
    data = data.map(crop, num_parallel_calls=tensorflow.data.AUTOTUNE).batch(BATCH)
    data = data.apply(service.distribute(
        processing_mode=service.ShardingPolicy.OFF, service=f"grpc://localhost:{settings.port}",
        job_name="shared", compression=None, cross_trainer_cache=service.CrossTrainerCache(f"job {job}")))
    return (len(labels) for _, labels in data.prefetch(2).as_numpy_iterator())

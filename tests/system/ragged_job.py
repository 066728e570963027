"""A training job on the ragged data of test_system_ragged.py: arguments as JSON.  Goes on from the state in
its file.  After each batch it replaces the file by one with all ids that it has had and the new state, so it
can be killed at any moment.

"file": the state's; "pause": seconds in the loop after each batch; the rest are the Loader's own."""
import json
import os
import sys
import time

import numpy as np

import tureen

TOKENS_MAX, TEXT_MAX, BOXES_MAX = 40, 24, 3
FIELDS = ["image",
          {"field": "tokens", "as": "array", "dtype": "int32", "shape": [TOKENS_MAX], "ragged": True},
          {"field": "text", "as": "bytes", "length": TEXT_MAX, "ragged": True, "truncate": True},
          {"field": "boxes", "as": "array", "dtype": "float32", "shape": [BOXES_MAX, 4], "ragged": True}]
PIPELINE = [{"op": "decode", "fields": FIELDS}, {"op": "random_resized_crop", "size": 16}, {"share": True},
            {"op": "flip"}]


def tokens(number):
    """Of the sample with this id: some have none, some as many as there may be."""
    return (np.arange(number * 7 % (TOKENS_MAX + 1)) + 1000 * number).astype(np.int32)


def text(number):
    """Some are empty, some longer than the pipeline takes."""
    return "sample %d, " % number * (number % 4)


def boxes(number):
    return (np.arange(4 * (number % (BOXES_MAX + 1))) / 8 + number).reshape(-1, 4).astype(np.float32)


def wrong(batch):
    """How many of the batch's samples are not what their ids say."""
    found = 0
    for row, number in enumerate(batch.ids.tolist()):
        found += not (np.array_equal(batch["tokens"][row], tokens(number))
                      and batch["text"][row].tobytes() == text(number).encode()[:TEXT_MAX]
                      and np.array_equal(batch["boxes"][row], boxes(number)))
    return found


def main():
    request = json.loads(sys.argv[1])
    path, pause = request.pop("file"), request.pop("pause", 0)
    had = {"epochs": {}, "state": None, "wrong": 0}
    if os.path.exists(path):
        with open(path, encoding="ascii") as file:
            had = json.load(file)
    with tureen.Loader(pipeline=PIPELINE, **request) as loader:
        if had["state"] is not None:
            loader.load_state_dict(had["state"])
        for batch in loader:
            had["epochs"].setdefault(str(batch.epoch), []).extend(batch.ids.tolist())
            had["wrong"] += wrong(batch)
            had["state"] = loader.state_dict()
            with open(path + ".new", "w", encoding="ascii") as file:
                json.dump(had, file)
            os.replace(path + ".new", path)
            time.sleep(pause)


if __name__ == "__main__":
    main()

"""A training job with functions of its own (map=): arguments as JSON.  Goes on from the state in its file.
After each batch it replaces the file by one with all ids that it has had and the new state, so it can be
killed at any moment.  Says on standard output which processes it has, each time these are others.

"file": the state's; "by": "sample" or "batch"; "pause": seconds in the loop after each batch; "sums": of the
pixels of each id as the server makes them; the rest are the Loader's own."""
import json
import os
import sys
import time

import numpy as np

import tureen


def negative(sample):
    """Half in its place and half in new arrays, with a moment between: long enough to be killed in."""
    image = sample["image"]
    image[:8] = 255 - image[:8]
    time.sleep(0.001)
    if int(sample["label"]) % 2:
        image[8:] = 255 - image[8:]
        return {"image": image, "label": sample["label"], "sum": image.sum(dtype=np.int64)}
    image = np.concatenate([image[:8], 255 - image[8:]])
    return {"image": image, "label": sample["label"], "sum": image.sum(dtype=np.int64)}


def negatives(batch):
    made = [negative({name: array[row, ...] for name, array in batch.items()})
            for row in range(len(batch["label"]))]
    return {name: np.stack([sample[name] for sample in made]) for name in made[0]}


def main():
    request = json.loads(sys.argv[1])
    path, pause, sums = request.pop("file"), request.pop("pause", 0), request.pop("sums")
    function = {"map": negative} if request.pop("by", "sample") == "sample" else {"map_batch": negatives}
    had = {"epochs": {}, "state": None, "wrong": 0}
    if os.path.exists(path):
        with open(path, encoding="ascii") as file:
            had = json.load(file)
    told = []
    with tureen.Loader(**function, **request) as loader:
        if had["state"] is not None:
            loader.load_state_dict(had["state"])
        for batch in loader:
            ids = batch.ids.tolist()
            had["epochs"].setdefault(str(batch.epoch), []).extend(ids)
            pixels = batch["image"][0].size
            wanted = [255 * pixels - sums[number] for number in ids]
            had["wrong"] += batch["image"].reshape(len(ids), -1).sum(1, dtype=np.int64).tolist() != wanted
            had["wrong"] += batch["sum"].tolist() != wanted
            had["state"] = loader.state_dict()
            with open(path + ".new", "w", encoding="ascii") as file:
                json.dump(had, file)
            os.replace(path + ".new", path)
            if loader._mapper.pids() != told:
                told = loader._mapper.pids()
                print(json.dumps(told), flush=True)
            time.sleep(pause)


if __name__ == "__main__":
    main()

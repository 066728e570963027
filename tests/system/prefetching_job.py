"""A training job that takes batches ahead of its step: arguments as JSON.  Its checkpoint file has the ids
that it has trained, which stand for a model, and the loader's state; it goes on from there.

"file": the checkpoint's; "ahead": so many batches; "halt": behind so many steps it writes the checkpoint, and
waits to be killed; the rest are the Loader's own, of which "state_of" decides whether it reports."""
import collections
import json
import os
import sys
import time

import tureen


def ahead(batches, count):
    """Yields the batches as a prefetcher does: it has taken `count` further batches before it yields one."""
    taken = collections.deque()
    for batch in batches:
        taken.append(batch)
        if len(taken) > count:
            yield taken.popleft()
    yield from taken


def main():
    request = json.loads(sys.argv[1])
    path, count, halt = request.pop("file"), request.pop("ahead"), request.pop("halt")
    with tureen.Loader(**request) as loader:
        epochs = {}
        if os.path.exists(path):
            with open(path) as file:
                checkpoint = json.load(file)
            epochs = checkpoint["epochs"]
            loader.load_state_dict(checkpoint["state"])
        for step, batch in enumerate(ahead(loader, count), 1):
            epochs.setdefault(str(batch.epoch), []).extend(batch.ids.tolist())
            if request["state_of"] == "trained":
                loader.trained(batch)
            if step == halt:
                with open(path + ".new", "w") as file:
                    json.dump({"epochs": epochs, "state": loader.state_dict()}, file)
                os.replace(path + ".new", path)
                while True:
                    time.sleep(60)
    print(json.dumps({"epochs": epochs}))


if __name__ == "__main__":
    main()

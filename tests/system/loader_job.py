"""A training job with the Python package's Loader: arguments as JSON, what it got as JSON.

"pause": seconds in the loop after each batch; "labels": of all ids, compared; the rest are the Loader's
own."""
import json
import sys
import time

import tureen


def main():
    request = json.loads(sys.argv[1])
    pause, labels = request.pop("pause", 0), request.pop("labels", None)
    if isinstance(request.get("subset"), list):
        request["subset"] = tuple(request["subset"])
    epochs, wrong = {}, 0
    with tureen.Loader(**request) as loader:
        for batch in loader:
            ids = [int(number) for number in batch.ids]
            epochs.setdefault(batch.epoch, []).extend([] if batch.padding else ids)
            if labels is not None:
                wrong += sum(int(label) != labels[number] for label, number in zip(batch["label"], ids))
            assert batch["image"].shape == (len(ids), 224, 224, 3)
            if pause:
                time.sleep(pause)
    print(json.dumps({"epochs": epochs, "wrong_labels": wrong}))


if __name__ == "__main__":
    main()

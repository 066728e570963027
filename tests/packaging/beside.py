"""Tureen in one process with PyTorch, Pillow and pyzmq, which have a libjpeg, a libzmq, an OpenMP of their
own: imported before tureen and after it.  tests/packaging/wheel.sh runs this.

Each order is tried in a process of its own: Pillow decodes an image, pyzmq sends a message, PyTorch makes a
product, and batches come from the server that tureen brings along.  No library of that server may be loaded.
"""
from __future__ import annotations

import importlib
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
from typing import List

OTHERS = [name for name in ("zmq", "PIL.Image", "torch", "torchvision")
          if importlib.util.find_spec(name.split(".")[0])]


def use_others() -> None:
    if "PIL.Image" in OTHERS:
        from PIL import Image
        packed = io.BytesIO()
        Image.new("RGB", (64, 64), (200, 100, 50)).save(packed, "JPEG")
        red, green, blue = Image.open(packed).getpixel((32, 32))
        assert abs(red - 200) < 4 and abs(green - 100) < 4 and abs(blue - 50) < 4, (red, green, blue)
    import zmq
    context = zmq.Context()
    one, other = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
    one.bind("inproc://beside")
    other.connect("inproc://beside")
    one.send(b"a message")
    assert other.recv() == b"a message"
    context.destroy(linger=0)
    if "torch" in OTHERS:
        import torch
        assert torch.ones(300, 300).mm(torch.ones(300, 300)).sum().item() == 300 ** 3


def use_tureen(folder: str) -> None:
    import tureen
    from tureen.demo import PIPELINE, make_pictures
    make_pictures(f"{folder}/data", 64)
    with tureen.serve(train=f"{folder}/data", endpoint=f"ipc://{folder}/s.sock") as server:
        loader = tureen.Loader(server.endpoint, "train", 16, 2, pipeline=PIPELINE)
        assert sum(len(batch) for batch in loader) == 128
        if "torch" in OTHERS:
            from tureen.torch import DataLoader
            images = sum(len(images) for images, labels in
                         DataLoader("train", batch_size=16, endpoint=server.endpoint))
            assert images == 64, images


def loaded_of_ours() -> List[str]:
    with open("/proc/self/maps", encoding="utf-8") as file:
        return sorted({line.split()[-1] for line in file if "/tureen/native/" in line})


def one_order(first: str) -> None:
    with tempfile.TemporaryDirectory(prefix="tu-beside-") as folder:
        if first == "tureen":
            use_tureen(folder)
        for name in OTHERS:
            importlib.import_module(name)
        use_others()
        if first == "others":
            use_tureen(folder)
            use_others()
    assert not loaded_of_ours(), loaded_of_ours()


def main() -> None:
    if len(sys.argv) > 1:
        one_order(sys.argv[1])
        return
    for first in "tureen", "others":
        subprocess.run([sys.executable, "-B", os.path.abspath(__file__), first], check=True)
    versions = []
    for name in OTHERS:
        module = importlib.import_module(name.split(".")[0])
        versions.append(f"{module.__name__} {module.__version__}")
    print(f"both orders with {', '.join(versions)}")


if __name__ == "__main__":
    main()

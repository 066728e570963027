#!/usr/bin/env python3
"""Whether training learns as much: one small network, trained on the CPU with PyTorch's own loader and with
Tureen.

    python3 bench/peers/train_parity.py [--bin build/release/bin] [--seeds 20] [--json FILE]
    python3 bench/peers/train_parity.py --data DIR            # DIR/train and DIR/test, class folders of
    images python3 bench/peers/train_parity.py --control duplicates  # beside the others: this must be seen

Model, optimiser, number of batches, files and transforms (one torchvision Compose, which Tureen translates)
are the same. `native` is torch.utils.data.DataLoader over torchvision's ImageFolder.  Tureen runs under `dsa`
and `follow`, and with order `private`, from the folder and from a pack of it, each seed on a server of its
own; and, apart, eight seeds at a time as eight jobs that share one server.  Accuracy is on held-out images,
read the same way for all.

For each: mean and standard deviation over the seeds, the difference to native with Welch's test, and the
smallest true difference that these runs would have seen (two-sided, 5 %, with the power that --power says).
The control trains on what a faulty loader would give: a third of the samples never come, others come twice
instead.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "clients" / "python"))

import numpy as np                      # noqa: E402

CLASSES, TRAIN, TEST, SIDE = 6, 144, 900, 32
NOISE = 40.0                            # so that the network is right four times out of five
CROP, BATCH, EPOCHS, RATE = 24, 16, 40, 0.02
MEAN, STD = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)
SHARING = 8                             # jobs on the one server
CONTROLS = ("duplicates",)
SERVER_S = 60.0
ALPHA = 0.05


class Condition(NamedTuple):
    name: str
    policy: str = ""                    # of the server; "": no server
    order: str = ""
    packed: bool = False
    shared: bool = False                # eight jobs on one server
    control: str = ""


def conditions(controls: List[str]) -> List[Condition]:
    found = [Condition("native")]
    found += [Condition(f"native, {control}", control=control) for control in controls]
    for packed in (False, True):
        suffix = ", packed" if packed else ""
        found += [Condition("dsa" + suffix, "dsa", "shared", packed),
                  Condition("follow" + suffix, "follow", "shared", packed),
                  Condition("private" + suffix, "follow", "private", packed)]
    return found + [Condition(f"follow, {SHARING} share", "follow", "shared", shared=True)]


#   ---- data

def make_images(folder: Path, count: int, seed: int) -> None:
    """Gratings: a class is a wave length and a direction (of two that flips and crops keep apart), under
    noise and a shade of any colour."""
    from PIL import Image
    generator = np.random.default_rng(seed)
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    for number in range(count):
        label = number % CLASSES
        length = (3.0, 6.0, 12.0)[label // 2] * generator.uniform(0.85, 1.15)
        tilt = generator.normal(0, 0.15)
        along = (x if label % 2 else y) + tilt * (y if label % 2 else x)
        wave = np.sin(2 * np.pi * along / length + generator.uniform(0, 2 * np.pi))
        shade = generator.uniform(60, 195, 3) + 30 * generator.normal(size=3) * ((x + y)[:, :,
            None] / SIDE - 1)
        image = shade + 26 * wave[:, :, None] * generator.uniform(0.5, 1.5, 3) + generator.normal(0, NOISE,
            (SIDE, SIDE, 1))
        path = folder / f"class_{label}" / f"{number:05d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.clip(image, 0, 255).astype(np.uint8)).save(path, quality=92)


def prepare_data(work: Path, data: Optional[Path], program: Path) -> Path:
    """A folder with train, test and train.pack."""
    if data is None:
        make_images(work / "train", TRAIN, 1)
        make_images(work / "test", TEST, 2)
    else:
        for name in ("train", "test"):
            (work / name).symlink_to((data / name).resolve())
    subprocess.run([program, "pack", work / "train", work / "train.pack"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return work


#   ---- one run, in a process of its own

class Order:
    """The native loader's sampler: a shuffle an epoch, as a faulty loader would have it for the control
    `duplicates`."""

    def __init__(self, count: int, seed: int, control: str) -> None:
        self._generator = np.random.default_rng(seed)
        ids = np.arange(count)
        if control == "duplicates":
            lost = self._generator.permutation(count)[:count // 3]
            ids[lost] = self._generator.choice(np.setdiff1d(ids, lost), len(lost), replace=False)
        self._ids = ids

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self._generator.permutation(self._ids).tolist())


def train_transform() -> Any:
    from torchvision import transforms
    return transforms.Compose([
        transforms.RandomResizedCrop(CROP, scale=(0.4, 1.0)), transforms.RandomHorizontalFlip(),
        transforms.ToTensor(), transforms.Normalize(MEAN, STD)])


def native_loader(request: Dict[str, Any]) -> Any:
    import torch
    from torchvision import datasets
    data = datasets.ImageFolder(os.path.join(request["data"], "train"), train_transform())
    order = Order(len(data), request["seed"], request["control"])
    return torch.utils.data.DataLoader(data, BATCH, sampler=order, drop_last=True)


def tureen_loader(request: Dict[str, Any]) -> Any:
    import tureen.torch
    return tureen.torch.DataLoader("train", BATCH, endpoint=request["endpoint"], transform=train_transform(),
                                   order=request["order"], epochs=EPOCHS, drop_last=True, timeout=SERVER_S)


def make_model(classes: int) -> Any:
    from torch import nn

    def block(inputs: int, outputs: int) -> List[nn.Module]:
        return [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*block(3, 16), nn.MaxPool2d(2), *block(16, 32), nn.MaxPool2d(2), *block(32, 64),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))


def accuracy(model: Any, folder: str) -> float:
    import torch
    from torchvision import datasets, transforms
    data = datasets.ImageFolder(folder, transforms.Compose([
        transforms.Resize(CROP), transforms.CenterCrop(CROP), transforms.ToTensor(),
        transforms.Normalize(MEAN, STD)]))
    model.eval()
    right = 0
    with torch.no_grad():
        for images, labels in torch.utils.data.DataLoader(data, 200):
            right += int((model(images).argmax(1) == labels).sum())
    return right / len(data)


def train(request: Dict[str, Any]) -> Dict[str, Any]:
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(request["seed"])
    classes = sum(entry.is_dir() for entry in os.scandir(os.path.join(request["data"], "train")))
    model = make_model(classes)
    optimiser = torch.optim.SGD(model.parameters(), RATE, momentum=0.9, weight_decay=5e-4, nesterov=True)
    loader = tureen_loader(request) if request["endpoint"] else native_loader(request)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, EPOCHS * len(loader))
    batches = 0
    for _ in range(EPOCHS):
        for images, labels in loader:
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(model(images.contiguous()), labels).backward()
            optimiser.step()
            schedule.step()
            batches += 1
    return {"accuracy": accuracy(model, os.path.join(request["data"], "test")), "batches": batches}


#   ---- servers and processes

class Served:
    """`tureen serve`, in a folder of its own."""

    def __init__(self, program: Path, condition: Condition, data: Path) -> None:
        self._folder = tempfile.mkdtemp(prefix="tureen-parity-", dir="/tmp")
        self.endpoint = f"ipc://{self._folder}/s.sock"
        source = data / ("train.pack" if condition.packed else "train")
        with open(os.path.join(self._folder, "log"), "w") as log:
            self._process = subprocess.Popen(
                [program, "serve", "--dataset", f"train={source}", "--listen", self.endpoint, "--policy",
                 condition.policy, "--cache", "1M", "--raw", "4M", "--workers", "1", "--until-idle"],
                     stdout=log, stderr=subprocess.STDOUT)

    def __enter__(self) -> Served:
        deadline = time.monotonic() + SERVER_S
        while "listening on" not in self._log():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                raise RuntimeError(f"tureen serve does not listen:\n{self._log()}")
            time.sleep(0.02)
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.terminate()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _log(self) -> str:
        return Path(self._folder, "log").read_text(errors="replace")


def run_process(request: Dict[str, Any]) -> Dict[str, Any]:
    """In a process of its own: one thread of PyTorch's, and a fresh generator."""
    done = subprocess.run([sys.executable, "-B", __file__, "--run", json.dumps(request)],
                          stdout=subprocess.PIPE, env=dict(os.environ, OMP_NUM_THREADS="1"), text=True)
    if done.returncode:
        raise RuntimeError(f"a run failed: {request}")
    return dict(json.loads(done.stdout))


class Bench:
    def __init__(self, options: argparse.Namespace, data: Path) -> None:
        self._program = options.bin / "tureen"
        self._data = data
        self._lock = threading.Lock()
        self.results: Dict[str, Dict[int, float]] = {}
        self.batches: Dict[str, int] = {}

    def request(self, condition: Condition, seed: int, endpoint: str) -> Dict[str, Any]:
        return {"data": str(self._data), "seed": seed, "endpoint": endpoint, "order": condition.order,
                "control": condition.control}

    def run(self, condition: Condition, seeds: List[int]) -> None:
        """One seed; or several, on one server at the same time."""
        began = time.monotonic()
        if not condition.policy:
            found = [run_process(self.request(condition, seed, "")) for seed in seeds]
        else:
            with Served(self._program, condition, self._data) as served, \
                 concurrent.futures.ThreadPoolExecutor(len(seeds)) as together:
                found = list(together.map(lambda seed: run_process(self.request(condition, seed,
                    served.endpoint)), seeds))
        with self._lock:
            for seed, each in zip(seeds, found):
                self.results.setdefault(condition.name, {})[seed] = each["accuracy"]
                self.batches[condition.name] = each["batches"]
            shown = " ".join(f"{100 * each['accuracy']:.2f}" for each in found)
            print(f"{condition.name}: seed {seeds[0]}: {shown} %, {time.monotonic() - began:.0f} s",
                  file=sys.stderr, flush=True)


def run_all(bench: Bench, wanted: List[Condition], seeds: int, parallel: int) -> None:
    """Seed by seed, so that whatever changes on the machine changes for all; the eight at the end, by
    themselves."""
    with concurrent.futures.ThreadPoolExecutor(parallel) as pool:
        for future in [pool.submit(bench.run, condition, [seed])
                       for seed in range(seeds) for condition in wanted if not condition.shared]:
            future.result()
    for condition in wanted:
        for first in range(0, seeds if condition.shared else 0, SHARING):
            #  More seeds than asked for, never fewer jobs
            bench.run(condition, list(range(first, first + SHARING)))


#   ---- what was found

def student_tail(t: float, degrees: float) -> float:
    """P (T > t), t >= 0."""
    angles = np.linspace(math.atan(t / math.sqrt(degrees)), math.pi / 2, 20001)
    density = np.cos(angles) ** (degrees - 1)
    scale = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(math.pi)
    return float(scale * np.trapz(density, angles))


def student_quantile(tail: float, degrees: float) -> float:
    low, high = 0.0, 1000.0
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if student_tail(middle, degrees) > tail else (low, middle)
    return low


class Comparison(NamedTuple):
    difference: float
    p: float
    seen: float                         # the smallest difference that would have been seen


def compare(ours: List[float], native: List[float], power: float) -> Optional[Comparison]:
    """None: too few runs."""
    if min(len(ours), len(native)) < 2:
        return None
    parts = [statistics.variance(each) / len(each) for each in (ours, native)]
    error = math.sqrt(sum(parts))
    if error == 0:
        return None
    degrees = sum(parts) ** 2 / sum(part ** 2 / (len(each) - 1) for part, each in zip(parts, (ours, native)))
    difference = statistics.mean(ours) - statistics.mean(native)
    seen = error * (student_quantile(ALPHA / 2, degrees) + student_quantile(1 - power, degrees))
    return Comparison(difference, 2 * student_tail(abs(difference) / error, degrees), seen)


def report(bench: Bench, wanted: List[Condition], power: float) -> List[str]:
    """Lines of the table."""
    lines = [f"{'':<20}{'seeds':>6}{'batches':>9}{'mean':>9}{'sd':>7}"
             f"{'to native':>11}{'p':>8}{'could see':>11}"]
    native = list(bench.results["native"].values())
    for condition in wanted:
        ours = list(bench.results[condition.name].values())
        spread = 100 * statistics.stdev(ours) if len(ours) > 1 else math.nan
        line = (f"{condition.name:<20}{len(ours):>6}{bench.batches[condition.name]:>9}"
                f"{100 * statistics.mean(ours):>8.2f}%{spread:>7.2f}")
        found = compare(ours, native, power) if condition.name != "native" else None
        if found:
            line += f"{100 * found.difference:>+11.2f}{found.p:>8.3f}{100 * found.seen:>11.2f}"
            if condition.control:
                line += "   seen" if found.p < ALPHA else "   NOT SEEN: more seeds"
        lines.append(line)
    lines.append(f"accuracy and differences in percentage points; could see: with power {power:g}, "
                 f"two-sided, {ALPHA:g}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description="accuracy of training with PyTorch's loader and with Tureen")
    parser.add_argument("--bin", type=Path, default=ROOT / "build" / "release" / "bin",
                        help="where `tureen` is")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--data", type=Path, help="a folder with train and test; without it one is made")
    parser.add_argument("--control", choices=CONTROLS, action="append", default=[])
    parser.add_argument("--only", action="append", metavar="NAME", help="these conditions, and native")
    parser.add_argument("--power", type=float, default=0.9)
    parser.add_argument("--parallel", type=int, default=os.cpu_count() or 1,
                        help="runs at a time, one thread each")
    parser.add_argument("--json", type=Path, metavar="FILE", help="writes the accuracy of every seed there")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(train(json.loads(options.run))))
        return 0
    if shutil.which("tureen", path=str(options.bin)) is None:
        parser.error(f"no executable 'tureen' in {options.bin}: build it (sh scripts/build.sh release) or "
                     "say --bin")
    wanted = conditions(options.control)
    for name in options.only or []:
        if name not in [condition.name for condition in wanted]:
            parser.error(f"no condition '{name}': there are "
                         f"{', '.join(condition.name for condition in wanted)}")
    wanted = [condition for condition in wanted if not options.only or condition.control
              or condition.name in ["native", *options.only]]
    began = time.monotonic()
    work = Path(tempfile.mkdtemp(prefix="tureen-parity-", dir="/tmp"))
    try:
        bench = Bench(options, prepare_data(work, options.data, options.bin / "tureen"))
        run_all(bench, wanted, options.seeds, options.parallel)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print("\n".join(report(bench, wanted, options.power)))
    print(f"{time.monotonic() - began:.0f} s")
    if options.json:
        options.json.write_text(json.dumps(bench.results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What an epoch reads with --memory for a part of the data: live servers, one job and four in step; and what
a preparation costs beside pins.

    python3 bench/speed/memory_bench.py [--binary build/release/bin/tureen] [--samples 9000] [--bytes 110000]
                                        [--parts .25,.5,.75,.9] [--epochs 3] [--folder DIR]
                                        [--data pack,folder,bucket-pack,bucket] [--jobs 1,4]
    python3 bench/speed/memory_bench.py --preparing [--rounds 20] [--samples 2000]
    python3 bench/speed/memory_bench.py --decoding [--rounds 5] [--samples 2000] [--photographs DIR]

The benchmark makes its data: small pictures, which cost little to decode, with bytes behind them that make
each file as large as a photograph.  DIR has them, and should lie on a disk, not in memory.  `bucket` are the
same files as objects of a store on this machine (tests/system/object_store.py).  For each part c a server has
--memory of c times the data.  The first epoch fills; of the others there is

    p       what `status` says is pinned, of the data S
    read    bytes an epoch, of S: of a pack from the disk, as the server counts them; of a folder those of
            files that were read; of a bucket what the store sent
    io      bytes that the kernel read from the disk for the server (/proc/PID/io), of S; of a bucket none.
            Pages of a folder's files are dropped from the page cache before each epoch
    ideal   1 - p
    hit     bytes from pins an epoch, of S
    cpu     the server's processor time for a sample, of that of a server without --memory (c = 0) with the
            same mixing pool
    speed   the same of samples a second

c = 0 is that server; what it reads beyond S are blocks at the ends of pieces, and single reads.

--preparing: photographs of 480 x 360 in a pack, two servers at the same time with the same pool and the same
cache, of which one has half of the pack pinned.  They take turns, an epoch each, in random order, and of each
round there are the ratios of

    worker  the workers' processor time for a prepared sample
    cpu     the whole server's
    speed   samples a second

with pins to without.

--decoding: photographs, those of DIR or made ones, in a folder in memory (/dev/shm), and two servers, of
which one has memory for all of them decoded.  When that is filled, jobs on either take turns, eight epochs
each:

    one         a job alone
    private     four jobs of order private, each with its own crops
    shared      four jobs in step

Of each there are the speed and the server's processor time for a delivered sample, decoded to not, and of the
server with decoded pictures the speed of four private jobs to that of four shared ones.

The median over all rounds is given with its standard error, 1.2533 times the median
absolute deviation times 1.4826 over the root of the rounds.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "system"))

from object_store import ObjectStore                                    # noqa: E402

DATA = ("pack", "folder", "bucket-pack", "bucket")
CLASSES, BATCH, PICTURE = 10, 64, (96, 96)
PHOTOGRAPH, PREPARING_RAW, PREPARING_CACHE = (480, 360), 16 << 20, 32 << 20
EPOCHS = 8                              # of a measured job with --decoding
SECONDS = 60.0                          # until a server listens


class Round(NamedTuple):
    pinned: float
    read: float
    io: float
    hit: float
    cpu: float
    rate: float


class Server:
    """A server of one data set, until the end of `with`."""

    def __init__(self, options: argparse.Namespace, data: str, arguments: List[str],
                 store: Optional[ObjectStore] = None):
        self.options, self.store = options, store
        self._stack = ExitStack()
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="tureen-memory-"))
        self.endpoint, log = f"ipc://{folder}/s.sock", Path(folder) / "log"
        environment = dict(os.environ, XDG_RUNTIME_DIR=folder, **(store.environment() if store else {}))
        with log.open("w") as stream:
            self.process = subprocess.Popen([options.binary, "serve", "--dataset", f"train={data}",
                                             "--listen", self.endpoint, *arguments], stdout=stream,
                                            stderr=subprocess.STDOUT, env=environment)
        self._stack.callback(self.process.wait)
        self._stack.callback(self.process.terminate)
        end = time.monotonic() + SECONDS
        while "listening on" not in log.read_text():
            if self.process.poll() is not None or time.monotonic() > end:
                said = log.read_text()
                self._stack.close()
                raise SystemExit(f"memory_bench: the server does not start:\n{said}")
            time.sleep(0.05)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def status(self) -> Dict[str, Any]:
        said = subprocess.run([self.options.binary, "status", "--json", "--connect", self.endpoint],
                              check=True, stdout=subprocess.PIPE).stdout
        return json.loads(said)

    def dataset(self) -> Dict[str, Any]:
        return self.status()["datasets"][0]

    def run_jobs(self, jobs: int, epochs: int, *arguments: str) -> float:
        """Their seconds."""
        began = time.monotonic()
        command = [self.options.binary, "read", "--connect", self.endpoint, "--dataset", "train", "--batch",
                   str(BATCH), "--epochs", str(epochs), *arguments]
        running = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(jobs)]
        failed = [job.wait() for job in running]
        if any(failed):
            raise SystemExit("memory_bench: a job failed")
        return time.monotonic() - began

    def counts(self) -> Tuple[int, int, int]:
        """Bytes read, those that the kernel read from the disk, and those from pins so far."""
        dataset = self.dataset()
        pins = dataset["pins"] or {"hit_bytes": 0, "miss_bytes": 0}
        lines = dict(line.split(": ") for line in
                     Path(f"/proc/{self.process.pid}/io").read_text().splitlines())
        read = (self.store.sent() if self.store else dataset["pack"]["source_bytes"] if dataset["pack"]
                else pins["miss_bytes"])
        return read, int(lines["read_bytes"]), pins["hit_bytes"]

    def processor_seconds(self, name: str = "") -> float:
        """Of all its threads that live, or of those with this name."""
        nanoseconds = 0
        for thread in Path(f"/proc/{self.process.pid}/task").iterdir():
            if not name or (thread / "comm").read_text().strip() == name:
                nanoseconds += int((thread / "schedstat").read_text().split()[0])
        return nanoseconds / 1e9


def make_folder(folder: Path, samples: int, size: int) -> None:
    """Makes files of pictures, each of about this number of bytes, the same in each run."""
    chance, pictures = random.Random(7), []
    for _ in range(16):
        memory = io.BytesIO()
        Image.frombytes("RGB", PICTURE, chance.randbytes(PICTURE[0] * PICTURE[1] * 3)).save(memory, "JPEG")
        pictures.append(memory.getvalue())
    for number in range(samples):
        path = folder / f"class-{number % CLASSES}" / f"{number:07}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        bytes_of = pictures[number % len(pictures)]
        wanted = int(size * chance.uniform(0.6, 1.4)) - len(bytes_of)
        path.write_bytes(bytes_of + chance.randbytes(max(wanted, 0)))


def drop_pages(folder: Path) -> None:
    """The page cache forgets the files."""
    for path in folder.rglob("*.jpg"):
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def measure(options: argparse.Namespace, data: str, size: int, arguments: List[str], jobs: int,
            store: Optional[ObjectStore]) -> Round:
    is_folder = not store and not (Path(data) / "index.tureen").exists()
    with Server(options, data, arguments, store) as server:
        if is_folder:
            os.sync()                   # pages that are not on the disk yet cannot be dropped
        server.run_jobs(jobs, 1)
        before, used, seconds = server.counts(), server.processor_seconds(), 0.0
        for epochs in [1] * options.epochs if is_folder else [options.epochs]:
            if is_folder:
                drop_pages(Path(data))
            seconds += server.run_jobs(jobs, epochs)
        used = server.processor_seconds() - used
        after, pins = server.counts(), server.dataset()["pins"]
    read, kernel, hit = ((end - begin) / options.epochs / size for begin, end in zip(before, after))
    samples = jobs * options.epochs * options.samples
    return Round(pins["bytes"] / size if pins else 0.0, read, kernel, hit, used / samples, samples / seconds)


def measure_all(options: argparse.Namespace, name: str, data: str, size: int,
                store: Optional[ObjectStore]) -> None:
    print(f"{name} of {size / 1e6:.0f} MB, {options.samples} samples")
    print("jobs     c      p   read     io  ideal    hit    cpu  speed")
    for jobs in map(int, options.jobs.split(",")):
        raw, cache = max(size // 50, 16 << 20), max(size // 40, 16 << 20)
        without = measure(options, data, size, ["--raw", str(raw), "--cache", str(cache)], jobs, store)
        read = "    -" if without.read == 0 else f"{without.read:5.3f}"
        print(f"{jobs:4}  0.00      -  {read}  {without.io:5.3f}      -      -  1.000  1.000", flush=True)
        for part in map(float, options.parts.split(",")):
            now = measure(options, data, size, ["--memory", str(int(part * size))], jobs, store)
            figures = (now.pinned, now.read, now.io, 1 - now.pinned, now.hit, now.cpu / without.cpu,
                       now.rate / without.rate)
            print(f"{jobs:4} {part:5.2f}" + "".join(f"  {figure:5.3f}" for figure in figures), flush=True)


def make_photographs(folder: Path, samples: int) -> None:
    """Files of smooth noise, the same in each run: they take as long to decode as photographs."""
    chance = random.Random(7)
    for number in range(samples):
        path = folder / f"class-{number % CLASSES}" / f"{number:07}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        small = Image.frombytes("RGB", (120, 90), chance.randbytes(120 * 90 * 3))
        small.resize(PHOTOGRAPH, Image.BICUBIC).save(path, "JPEG")


def prepare_epoch(server: Server, samples: int) -> Tuple[float, float, float]:
    """Processor seconds of workers and of all for a prepared sample, and samples a second, in one epoch."""
    def figures() -> Tuple[int, float, float]:
        workers = server.processor_seconds("tureen-worker")
        return server.status()["prepared"], workers, server.processor_seconds()

    before = figures()
    seconds = server.run_jobs(1, 1)
    prepared, worker, processor = (end - begin for begin, end in zip(before, figures()))
    return worker / prepared, processor / prepared, samples / seconds


def measure_preparing(options: argparse.Namespace, root: Path) -> None:
    folder, pack, chance = root / "photographs", root / "photographs-pack", random.Random(7)
    if not pack.exists():
        make_photographs(folder, options.samples)
        subprocess.run([options.binary, "pack", "--quiet", str(folder), str(pack)], check=True)
    size = sum(path.stat().st_size for path in pack.iterdir() if path.name != "index.tureen")
    parts = ["--raw", str(PREPARING_RAW), "--cache", str(PREPARING_CACHE)]
    memory = PREPARING_RAW + PREPARING_CACHE + size // 2 + (4 << 20)
    rounds: List[Tuple[float, ...]] = []
    with Server(options, str(pack), parts) as without, \
            Server(options, str(pack), [*parts, "--memory", str(memory)]) as with_pins:
        for server in (without, with_pins):
            server.run_jobs(1, 2)
        for _ in range(options.rounds):
            order, found = [without, with_pins], {}
            chance.shuffle(order)
            for server in order:
                found[server] = prepare_epoch(server, options.samples)
            rounds.append(tuple(now / before for now, before in zip(found[with_pins], found[without])))
        pinned = with_pins.dataset()["pins"]["part"]
    print(f"{options.samples} photographs, {size / 1e6:.0f} MB, {pinned:.3f} of it pinned, "
          f"{options.rounds} rounds: with pins to without")
    for name, ratios in zip(("worker", "cpu", "speed"), zip(*rounds)):
        show(name, ratios)


def show(name: str, ratios: Sequence[float]) -> None:
    median = statistics.median(ratios)
    spread = 1.4826 * statistics.median(abs(ratio - median) for ratio in ratios)
    print(f"{name:20} {median:.4f} +- {1.2533 * spread / len(ratios) ** 0.5:.4f}")


def copy_photographs(options: argparse.Namespace, folder: Path) -> Tuple[int, int, int]:
    """Their number, bytes and pixels' bytes."""
    if options.photographs:
        shutil.copytree(options.photographs, folder)
    else:
        make_photographs(folder, options.samples)
    files = [path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg")]
    pixels = 0
    for path in files:
        with Image.open(path) as image:
            pixels += 3 * image.width * image.height
    return len(files), sum(path.stat().st_size for path in files), pixels


def measure_decoding(options: argparse.Namespace) -> None:
    kinds: Dict[str, Tuple[int, List[str]]] = {"one": (1, []), "private": (4, ["--order", "private"]),
                                               "shared": (4, [])}
    chance = random.Random(7)
    with tempfile.TemporaryDirectory(prefix="tureen-memory-", dir="/dev/shm") as made:
        folder = Path(made) / "photographs"
        samples, size, pixels = copy_photographs(options, folder)
        parts = ["--raw", str(PREPARING_RAW), "--cache", str(PREPARING_CACHE)]
        memory = PREPARING_RAW + PREPARING_CACHE + size * 21 // 20 + pixels * 11 // 10 + (64 << 20)
        ratios: Dict[str, List[float]] = {}
        with Server(options, str(folder), parts) as without, \
                Server(options, str(folder), [*parts, "--memory", str(memory)]) as decoded:
            for server in (without, decoded):
                server.run_jobs(1, 2)
            for _ in range(options.rounds):
                speeds = {}
                for name, (jobs, arguments) in kinds.items():
                    order, found = [without, decoded], {}
                    chance.shuffle(order)
                    for server in order:
                        used = server.processor_seconds()
                        rate = jobs * samples * EPOCHS / server.run_jobs(jobs, EPOCHS, *arguments)
                        found[server] = (rate, server.processor_seconds() - used)
                    speeds[name] = found[decoded][0]
                    ratios.setdefault(f"{name}, speed", []).append(found[decoded][0] / found[without][0])
                    ratios.setdefault(f"{name}, cpu", []).append(found[decoded][1] / found[without][1])
                ratios.setdefault("private to shared", []).append(speeds["private"] / speeds["shared"])
            pictures = decoded.dataset()["pictures"]
    print(f"{samples} photographs, {size / 1e6:.0f} MB, {pictures['count']} of them decoded in "
          f"{pictures['bytes'] / 1e6:.0f} MB, {options.rounds} rounds: decoded to not")
    for name, values in ratios.items():
        show(name, values)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--binary", default=str(ROOT / "build" / "release" / "bin" / "tureen"))
    parser.add_argument("--samples", type=int, help="9000, or 2000 with --preparing or --decoding")
    parser.add_argument("--bytes", type=int, default=110000)
    parser.add_argument("--parts", default=".25,.5,.75,.9")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--jobs", default="1,4")
    parser.add_argument("--data", default=",".join(DATA))
    parser.add_argument("--folder", help="where the data are made, and stay")
    parser.add_argument("--preparing", action="store_true")
    parser.add_argument("--decoding", action="store_true")
    parser.add_argument("--photographs", help="with --decoding, a folder of JPEGs in class folders")
    parser.add_argument("--rounds", type=int, help="20, or 5 with --decoding")
    options = parser.parse_args()
    for name in options.data.split(","):
        if name not in DATA:
            parser.error(f"--data {name}: give some of {', '.join(DATA)}, with commas between")
    options.binary = os.path.abspath(options.binary)
    options.samples = options.samples or (2000 if options.preparing or options.decoding else 9000)
    options.rounds = options.rounds or (5 if options.decoding else 20)
    if options.decoding:
        measure_decoding(options)
        return 0
    with tempfile.TemporaryDirectory(prefix="tureen-memory-", dir=options.folder and "/tmp") as made:
        root = Path(options.folder or made).resolve()
        if options.preparing:
            measure_preparing(options, root)
            return 0
        folder, pack = root / "folder", root / "pack"
        if not folder.exists():
            make_folder(folder, options.samples, options.bytes)
        if not pack.exists():
            subprocess.run([options.binary, "pack", "--quiet", str(folder), str(pack)], check=True)
        for name in options.data.split(","):
            data = pack if "pack" in name else folder
            size = sum(path.stat().st_size for path in data.rglob("*") if path.name != "index.tureen"
                       and path.is_file())
            if not name.startswith("bucket"):
                measure_all(options, name, str(data), size, None)
                continue
            #  A bucket is a folder in that of the store.
            with ObjectStore(str(root.parent)) as store:
                measure_all(options, name, f"s3://{root.name}/{data.name}", size, store)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

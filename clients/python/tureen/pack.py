"""Packs data sets that other libraries wrote, and samples that Python makes.

    python3 -m tureen.pack hf/train packs/train             # Arrow, Parquet, MDS, LMDB: tureen/sources.py
    python3 -m tureen.pack --window 2049 text packs/text    # text.bin and text.idx: tureen/token_files.py
    python3 -m tureen.pack --tokens uint16 --window 1025 train.bin packs/train          # nanoGPT's
    tureen serve --dataset train=packs/train

    from tureen.pack import Sample, pack
    pack((Sample(name, {"jpg": jpeg, "cls": b"3"}) for name, jpeg in ...), "packs/train")

    happy path:     the samples go to `tureen pack` by a pipe, as a tar file: nothing of them stays here.
    failure modes:  the source fails: `tureen pack` is ended, and leaves what --resume goes on with.  `tureen
                    pack` fails: its own message says why, and its exit status is this program's.
"""
from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tarfile
import tempfile
import time
from typing import IO, Iterable, Iterator, List, Optional, Sequence

from . import installed
from .errors import SourceError
from .sources import (ArrayOf, Columns, Looked, Sample, Source, class_names, open_source, own_extension,
                      read_classes, samples, signature)
from .token_files import open_tokens

__all__ = ["PackFailed", "Sample", "SourceError", "pack"]

_SENT_BYTES = 1 << 20           # at once, at least
_LOOKED_S = 10                  # between two lines about a look for splits
_PASSED_ON = ("chunk", "seed", "volume", "memory", "work", "patience", "extensions")


class PackFailed(SourceError):
    """`tureen pack` ended with `status`, and said on standard error why."""

    def __init__(self, status: int) -> None:
        super().__init__(f"tureen pack ended with status {status}")
        self.status = status


def pack(source: Iterable[Sample], target: str, arguments: Sequence[str] = ()) -> None:
    """Packs the samples, in this order, into the folder or object store `target`.

    arguments   options of `tureen pack`.  With "--signature", TEXT and "--resume" it goes on with what was
                stopped; `source` then gives all samples again, the same ones.

    PackFailed, SourceError; and what `source` raises.
    """
    program = installed.executable()
    if program is None:
        raise SourceError("there is no `tureen` to pack with: install a wheel that has it "
                          "(docs/deployment.md), put its folder on PATH, or set TUREEN_SERVER to the "
                          "executable")
    #  Without a buffer of its own, so that nothing is left to be written when the pipe is closed.
    with subprocess.Popen([program, "pack", *arguments, "-", target], stdin=subprocess.PIPE,
                          bufsize=0) as process:
        assert process.stdin is not None
        try:
            _write(source, process.stdin)
        except BrokenPipeError:
            pass                        # it has ended, and says why, or the pack is finished already
        except BaseException:
            process.terminate()         # before its input ends, which it would take for a tar cut short
            process.wait()
            raise
    if process.returncode:
        raise PackFailed(process.returncode)


def _write(source: Iterable[Sample], pipe: IO[bytes]) -> None:
    waiting = bytearray()
    for name, files in source:
        if not name or "." in name:
            raise SourceError(f"the sample's name {name!r} is empty or has a dot in it")
        for key, content in files.items():
            about = tarfile.TarInfo(f"{name}.{key}")
            about.size = len(content)
            waiting += about.tobuf(tarfile.GNU_FORMAT) + content
            waiting += bytes(-len(waiting) % tarfile.BLOCKSIZE)
        if len(waiting) >= _SENT_BYTES:
            _send(waiting, pipe)
            waiting.clear()
    _send(waiting + bytes(2 * tarfile.BLOCKSIZE), pipe)         # a tar's end


def _send(content: bytearray, pipe: IO[bytes]) -> None:
    sent = 0
    with memoryview(content) as view:
        while sent < len(view):
            sent += pipe.write(view[sent:])


#   ---- the command

def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m tureen.pack", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Packs a Hugging Face data set (Arrow, Parquet), MDS shards, an LMDB, or tokens in "
                    "Megatron's .bin and .idx or in a file of their own, to be served by `tureen serve`.",
        epilog="Options of `tureen pack` are passed on to it: --" + ", --".join(_PASSED_ON) + ",\n"
               "--no-jpeg-rows, --quiet, --json. With --resume the source is read again from its begin.")
    parser.add_argument("source", nargs="+", help="a folder; or files, of Parquet or Arrow several; or "
                                                   "PREFIX of PREFIX.bin and PREFIX.idx, or with "
                                                   "--tokens a file")
    parser.add_argument("target", help="a folder, or s3://BUCKET/PREFIX with --work")
    parser.add_argument("--split", metavar="NAME",
                        help="which split, where names of files or folders, or a column `split`, tell "
                             "several; NAME+NAME packs two as one")
    parser.add_argument("--image", metavar="COLUMN", help="the column with the samples' own files")
    parser.add_argument("--label", metavar="COLUMN", help="numbers, or texts with --classes, which become "
                                                       "the label `label`")
    parser.add_argument("--classes", metavar="FILE",
                        help="the names of the classes, one a line in the order of their numbers, from 0")
    parser.add_argument("--text", metavar="COLUMN", help="texts, which become the label `txt`")
    parser.add_argument("--mask", metavar="COLUMN", action="append", default=[],
                        help="a column with masks, which become a field of its name; repeatable")
    parser.add_argument("--array", metavar="COLUMN:TYPE[:SIDE]", action="append", default=[], type=_array,
                        help="a column with lists of numbers (of lists of SIDE numbers), which become .npy "
                             "files of TYPE, such as int32: a field of its name; repeatable")
    parser.add_argument("--without", metavar="COLUMN", action="append", default=[],
                        help="a column that is left out; repeatable")
    parser.add_argument("--window", metavar="TOKENS", type=_positive,
                        help="of tokens: a sample is so many, whatever document they are of, instead of a "
                             "document")
    parser.add_argument("--tokens", metavar="TYPE", choices=_TOKEN_TYPES,
                        help="the source is a file of tokens of this type and of nothing else, as nanoGPT's "
                             "train.bin (uint16); with --window")
    parser.add_argument("--stride", metavar="TOKENS", type=_positive,
                        help="from one window's begin to the next one's (default: the window)")
    for name in _PASSED_ON:
        parser.add_argument("--" + name, metavar="VALUE", help=argparse.SUPPRESS)
    for name in ("no-jpeg-rows", "resume", "quiet", "json"):
        parser.add_argument("--" + name, action="store_true", help=argparse.SUPPRESS)
    return parser


_TYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
          "float32", "float64")
_TOKEN_TYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "int64")
_PACKED_ANYWAY = ("jpg", "png", "bmp", "tif", "pgm", "ppm", "webp")     # without --extensions


def _array(text: str) -> ArrayOf:
    column, _, told = text.partition(":")
    dtype, *inner = told.split(":")
    if not column or dtype not in _TYPES or not all(side.isdigit() and int(side) for side in inner):
        raise argparse.ArgumentTypeError(f"{text!r} is no COLUMN:TYPE or COLUMN:TYPE:SIDE with a TYPE of "
                                         f"{', '.join(_TYPES)}")
    return ArrayOf(column, dtype, tuple(map(int, inner)))


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def _telling_looks() -> Looked:
    """Says now and then how far the look for splits has come: of MDS it reads all shards."""
    last_s = time.monotonic()

    def looked(column: str, rows: int, count: Optional[int]) -> None:
        nonlocal last_s
        now_s = time.monotonic()
        if now_s - last_s >= _LOOKED_S:
            last_s = now_s
            of_all = "" if count is None else f" of {count}"
            print(f"the column {column!r} may tell splits: {rows}{of_all} rows are read; --without {column} "
                  f"leaves it out", file=sys.stderr)
    return looked


def _open(options: argparse.Namespace) -> Source:
    if options.stride and not options.window:
        raise SourceError("--stride is of windows: give --window")
    if options.tokens and len(options.source) > 1:
        raise SourceError("--tokens is of one file: join them (cat), or pack each for itself")
    tokens = open_tokens(options.source[0], options.window, options.stride, options.tokens) \
        if len(options.source) == 1 else None
    if options.window and tokens is None:
        raise SourceError(f"--window is of tokens: there is no {options.source[0]}.idx with a .bin beside "
                          f"it; of a file of tokens alone, give their type with --tokens")
    if tokens and options.split:
        raise SourceError("--split is of data sets with several splits, and tokens have none: leave it out")
    if tokens:
        return tokens
    return open_source(options.source, options.split, options.without,
                       None if options.quiet else _telling_looks())


@contextlib.contextmanager
def _named_classes(names: Optional[Sequence[str]]) -> Iterator[List[str]]:
    """The option of `tureen pack` that gives it the classes' names."""
    if not names:
        yield []
        return
    for name in names:
        if not name or "\n" in name or "\0" in name:
            raise SourceError(f"the class {name!r} has no name of one line: give the names with --classes")
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="tureen-classes-", suffix=".txt") as file:
        file.write("".join(f"{name}\n" for name in names))
        file.flush()
        yield ["--classes", file.name]


def _passed_on(options: argparse.Namespace) -> List[str]:
    words: List[str] = []
    for name in _PASSED_ON:
        value = getattr(options, name)
        words += ["--" + name, value] if value is not None else []
    for name in ("no-jpeg-rows", "resume", "quiet", "json"):
        words += ["--" + name] if getattr(options, name.replace("-", "_")) else []
    if options.mask:
        words += ["--mask", ",".join(name.lower() for name in options.mask)]
    return words


def main(words: Optional[Sequence[str]] = None) -> int:
    options = _parser().parse_args(words)
    try:
        columns = Columns(options.image, options.label, options.text, tuple(options.mask),
                          tuple(options.without), tuple(options.array), read_classes(options.classes))
        source = _open(options)
        kind = own_extension(source, columns)
        if options.extensions is None and kind and kind not in _PACKED_ANYWAY:
            options.extensions = "." + kind
        if not options.quiet and sys.stderr.isatty():
            count = "" if source.count is None else f", {source.count} rows"
            print(f"{source.what}{count}", file=sys.stderr)
        if not options.quiet and source.note:
            print(source.note, file=sys.stderr)
        with _named_classes(class_names(source, columns)) as named:
            pack(samples(source, columns), options.target,
                 [*_passed_on(options), *named, "--signature", signature(source, columns)])
    except PackFailed as failed:
        return failed.status if failed.status > 0 else 128 - failed.status
    except SourceError as error:
        print(f"tureen.pack: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

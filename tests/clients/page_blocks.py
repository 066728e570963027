"""The code of a page: its blocks are found, and those of the shell are run, in a folder that has all that the
pages name.

A page says /data/train, s3://bucket/train, 16G, port 9464; what runs says the same below a folder of the
test's, 64M, and a port that is free (`World.place`).
"""
from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple

from harness import free_port

SOURCE = Path(__file__).resolve().parent.parent.parent
BIN = os.environ.get("TUREEN_BIN", str(SOURCE / "build" / "release" / "bin"))
TUREEN = os.path.join(BIN, "tureen")

LANGUAGES = ("python", "sh", "c")
PIPELINE = '[{"op"'                     # JSON that can be run
BLOCK = re.compile(r"(?:<!-- (not run: |run by |run as |saved as )([^>]*) -->\n)?^```(\w*)\n(.*?)^```$",
                   re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"(?:tureen|python3?|sh|pip|ninja|curl|torchrun) ")

FOLDER = re.compile(r"(?<![\w.$~])/(?:data|packs|scratch|shared|etc|var|run|home|tmp)(?=[/\s\"',:=]|$)",
                    re.MULTILINE)
SIZE = re.compile(r"\b\d+G\b")
PORT = re.compile(r"\b(?:5555|7600|7601|7602|9464|29500)\b")

#  `tureen` as a page calls it.  A server or a worker in the foreground would be looked at and ended by
#  Ctrl-C: it is ended when it works.  One in the background lives until its block ends.  Each must end with
#  status 0, and so must what a block waits for.
PRELUDE = r"""
set -euo pipefail
tureen () {
    if [ "$BASHPID" != $$ ]; then exec tureen "$@"; fi
    case $1 in serve|work) look_at "$@" ;; *) command tureen "$@" ;; esac
}
wait () {
    if [ $# -gt 0 ]; then builtin wait "$@"; return; fi
    local job
    for job in $(jobs -p); do builtin wait "$job"; done
}
look_at () {
    rm -f "$TMPDIR/said"
    command tureen "$@" >"$TMPDIR/said" 2>&1 &
    until grep -sqE '^listening on |: lends ' "$TMPDIR/said" || ! kill -0 $! 2>/dev/null; do
        sleep .02
    done
    kill -TERM $! 2>/dev/null || true
    wait $! || { cat "$TMPDIR/said"; return 1; }
}
"""
EPILOGUE = r"""
for server in $(jobs -p); do kill -TERM "$server" 2>/dev/null || true; wait "$server"; done
"""


class Block(NamedTuple):
    line: int                           # of the page
    language: str
    how: str                            # "not run: ", "run by ", "run as ", "saved as ", or nothing
    what: str                           # why not, how many ranks, the file, ...
    code: str


def blocks(path: Path) -> Iterator[Block]:
    text = path.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        how, what, language, code = found.groups()
        line = text.count("\n", 0, found.start(4)) + 1
        assert language or not COMMAND.match(code), f"{path}, line {line}: commands are marked by ```sh"
        if language in LANGUAGES or code.startswith(PIPELINE):
            yield Block(line, language, how or "", what or "", code)


class World:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.words: Dict[str, str] = {}                     # what else a page says, and what is meant
        self.ports: Dict[str, str] = {}
        self.buckets = os.path.join(folder, "buckets")
        for name in ("data", "packs", "scratch", "shared", "etc/tureen", "var/cache", "var/lib/tureen",
                     "run/tureen", "tmp", "home/me/.config/tureen", "bin", "buckets/bucket",
                     "work/build/release"):
            os.makedirs(os.path.join(folder, name), mode=0o700)
        self.work = Path(folder, "work")
        for name in ("examples", "share", "clients"):
            (self.work / name).symlink_to(SOURCE / name)
        (self.work / "build/release/bin").symlink_to(BIN)
        self.environment = {
            **os.environ, "PATH": f"{folder}/bin:{BIN}:/usr/bin:/bin:/usr/sbin", "HOME": f"{folder}/home/me",
            "XDG_RUNTIME_DIR": f"{folder}/run", "TMPDIR": f"{folder}/tmp", "TUREEN_SERVER": TUREEN,
            "PYTHONPATH": str(SOURCE / "clients" / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
        self.environment.pop("TUREEN_ENDPOINT", None)
        python3 = Path(folder, "bin", "python3")
        python3.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', encoding="utf-8")
        python3.chmod(0o700)

    def path(self, *names: str) -> str:
        return os.path.join(self.folder, *names)

    def place(self, code: str) -> str:
        """The same code about what is here."""
        for word, meant in self.words.items():
            code = code.replace(word, meant)
        code = re.sub(r"\bserver(?=:\d)", "127.0.0.1", re.sub(r"\bnode(\d)(?=:\d)", r"127.0.0.1\1", code))
        code = PORT.sub(self._port, SIZE.sub("64M", code))
        return FOLDER.sub(lambda found: self.folder + found.group(), code)

    def _port(self, found: "re.Match[str]") -> str:
        if found.group() not in self.ports:
            self.ports[found.group()] = str(free_port())
        return self.ports[found.group()]

    def run(self, command: List[str], where: str, seconds: int = 240) -> str:
        """What it wrote; its failure is the page's."""
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, universal_newlines=True, start_new_session=True,
                              env=self.environment, cwd=self.work) as process:
            try:
                output, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)          # also what it has started
                said = process.communicate()[0]
                raise AssertionError(f"{where}: not over after {seconds} s: {said}") from None
        assert process.returncode == 0, f"{where}: status {process.returncode}: {output}"
        return output

    def shell(self, code: str, where: str) -> str:
        code = self.place(code)
        said = re.findall(r"^(?:[A-Z_]+=\S+ )*tureen ([a-z]+)", code, re.MULTILINE)
        if said[:1] and said[0] in ("add", "read", "status", "drain"):         # a server runs already
            code = ("tureen status >/dev/null 2>&1 || {\n"
                    f"tureen serve --dataset train={self.path('data/train')} --cache 64M --workers 2 "
                    f"--until-idle >/dev/null &\ntureen status --wait >/dev/null\n}}\n{code}")
        #  What a block makes, one before it may have made.
        for target in re.findall(r"^(?:python3 -m )?tureen.pack .* (\S+)$", re.sub(r"\s+#.*", "", code),
                                 re.MULTILINE):
            shutil.rmtree(target.replace("s3:/", self.buckets), ignore_errors=True)
        return self.run(["bash", "-c", PRELUDE + code + EPILOGUE], where)

    def prepare(self, pipeline: str, where: str) -> str:
        """A pipeline, on an image with its mask, tokens and caption, or on the tokens alone."""
        command = [TUREEN, "prepare", "--pipeline", pipeline, "--out", self.path("tmp", "prepared")]
        if pipeline.startswith('[{"op": "decode", "as": "array"'):
            return self.run([*command, self.path("data", "tokens", "000.npy")], where)
        for field in ("mask=mask:masks", "tokens=file:tokens", "caption=file:captions"):
            command += ["--field", field.replace(":", ":" + self.path("data", ""))]
        return self.run([*command, self.path("data", "train", "class_0", "000.jpg")], where)

    def compile_and_run(self, code: str, where: str) -> str:
        """C, against the header and the library as they were built."""
        source, program = self.path("tmp", "page.c"), self.path("tmp", "page")
        Path(source).write_text(code, encoding="utf-8")
        library = str(Path(BIN).parent / "lib")
        self.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", program, source,
                  f"-I{SOURCE / 'clients' / 'c'}", f"-L{library}", f"-Wl,-rpath,{library}",
                  "-ltureen"], where)
        return self.run([program], where)

    def parse(self, block: Block, where: str) -> None:
        """Of a block that cannot run here, that it is code."""
        if block.language == "sh":
            self.run(["bash", "-n", "-c", block.code], where)
        else:
            compile(block.code, where, "exec")

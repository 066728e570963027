"""`cmake --install` into folders that the build was not configured for: units, pkg-config, man pages and
completion are right there.  And what the completions of bash and zsh offer is what the program takes.

Run by ctest (packaging_install), which sets TUREEN_BUILD and TUREEN_BIN; or by hand:
    TUREEN_BUILD=build/release TUREEN_BIN=build/release/bin python3 tests/packaging/test_install.py [-v]
"""
from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path
from typing import Dict, List, Optional

SOURCE = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("TUREEN_BUILD", SOURCE / "build" / "release")).resolve()
BIN = Path(os.environ.get("TUREEN_BIN", BUILD / "bin")).resolve()
TUREEN = str(BIN / "tureen")
CMAKE = shutil.which("cmake", path="/usr/bin:" + os.environ.get("PATH", ""))
PATIENCE_S = 60
COMMANDS = ("serve", "read", "status", "top", "add", "remove", "drain", "stop", "work", "key", "pack",
            "verify", "unpack", "cache", "prepare", "audit")


def run(*command: str, environment: Optional[Dict[str, str]] = None, status: int = 0) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=environment, stdin=subprocess.DEVNULL)
    if done.returncode != status:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}: {done.stdout}")
    return done.stdout


class Prefix(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tu-install-", dir="/tmp")).resolve()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def install(self, prefix: Path, destdir: Optional[Path] = None) -> Path:
        """Returns where the prefix's files lie."""
        environment = {key: value for key, value in os.environ.items() if key != "DESTDIR"}
        if destdir:
            environment["DESTDIR"] = str(destdir)
        assert CMAKE, "cmake has built this"
        run(CMAKE, "--install", str(BUILD), "--prefix", str(prefix), environment=environment)
        return Path(f"{destdir}{prefix}") if destdir else prefix

    def exec_start(self, unit: Path) -> str:
        [line] = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
        return str(line)

    def test_units_name_the_installed_program(self) -> None:
        there = self.install(self.folder / "here")
        for which, config in (("system", "/etc/tureen/server.zpl"), ("user", "%E/tureen/server.zpl")):
            unit = there / "lib" / "systemd" / which / "tureen.service"
            self.assertEqual(self.exec_start(unit), f"{there}/bin/tureen serve --config {config}")
            self.assertNotIn("@", re.sub(r"(?m)^#.*|@(aio|system-service)", "", unit.read_text()))
        program = self.exec_start(there / "lib/systemd/system/tureen.service").split()[0]
        self.assertRegex(run(program, "--version"), r"^tureen \d")

    def test_a_second_prefix_leaves_the_first_as_it_is(self) -> None:
        first, second = self.install(self.folder / "first"), self.install(self.folder / "second")
        for there in (first, second):
            self.assertIn(f"{there}/bin/tureen", self.exec_start(there / "lib/systemd/system/tureen.service"))

    def test_destdir_is_named_nowhere(self) -> None:
        """As packages are built: the files lie below DESTDIR, and are for the prefix."""
        there = self.install(Path("/opt/tureen"), self.folder / "stage")
        self.assertTrue(str(there).startswith(str(self.folder)))
        self.assertEqual(self.exec_start(there / "lib/systemd/system/tureen.service"),
                         "/opt/tureen/bin/tureen serve --config /etc/tureen/server.zpl")
        for path in there.rglob("*"):
            if path.is_file():
                self.assertNotIn(str(self.folder).encode(), path.read_bytes(), path)
        manifest = (BUILD / "install_manifest.txt").read_text().split("\n")
        self.assertTrue(any(line.endswith("lib/systemd/system/tureen.service") for line in manifest))

    def test_a_prefix_with_a_space_and_a_percent_sign(self) -> None:
        """systemd reads both in its own way."""
        there = self.install(self.folder / "50% of it")
        unit = there / "lib" / "systemd" / "system" / "tureen.service"
        written = self.exec_start(unit)
        self.assertEqual(written, f'"{str(there).replace("%", "%%")}/bin/tureen" serve '
                                  "--config /etc/tureen/server.zpl")

    @unittest.skipIf(shutil.which("systemd-analyze") is None, "no systemd-analyze (apt install systemd)")
    def test_systemd_has_no_objection(self) -> None:
        there = self.install(self.folder / "here")
        environment = dict(os.environ, XDG_RUNTIME_DIR=str(self.folder))
        for which in ("system", "user"):
            said = run("systemd-analyze", "verify", "--man=no", f"--{which}",
                       str(there / "lib" / "systemd" / which / "tureen.service"), environment=environment)
            self.assertNotIn("tureen", said)

    def test_pkg_config_finds_the_library_there(self) -> None:
        if shutil.which("pkg-config") is None:
            self.skipTest("no pkg-config (apt install pkg-config)")
        there = self.install(self.folder / "here")
        [file] = there.rglob("tureen.pc")
        environment = dict(os.environ, PKG_CONFIG_PATH=str(file.parent))
        library = run("pkg-config", "--variable=libdir", "tureen", environment=environment).strip()
        self.assertEqual(Path(library).resolve(), file.parent.parent)
        self.assertTrue((Path(library) / "libtureen.so").exists())
        headers = run("pkg-config", "--variable=includedir", "tureen", environment=environment).strip()
        self.assertTrue((Path(headers) / "tureen.h").exists())
        self.assertEqual(run("pkg-config", "--modversion", "tureen", environment=environment),
                         run(TUREEN, "--version").split()[1] + "\n")

    def test_the_rest_is_there(self) -> None:
        there = self.install(self.folder / "here")
        for name in ("share/man/man1/tureen.1", "share/man/man3/libtureen.3", "share/tureen/server.zpl",
                     "share/bash-completion/completions/tureen", "share/zsh/site-functions/_tureen",
                     "lib/sysusers.d/tureen.conf"):
            self.assertTrue((there / name).is_file(), name)

    def test_the_settings_to_begin_with(self) -> None:
        """They lack a data set, and nothing else; without their comment signs they are complete."""
        there = self.install(self.folder / "here") / "share" / "tureen" / "server.zpl"
        text = there.read_text().replace("group = tureen", f"group = {os.getgid()}")
        said = self.serve(text)
        self.assertIn("--dataset", said)
        text = re.sub(r"(?m)^#(?=\w| {4})", "", text).replace("= anna", f"= {os.getuid()}")
        self.assertRegex(self.serve(text), r"there is no folder '/data/imagenet/(train|val)'")

    def serve(self, settings: str) -> str:
        """What a server says that cannot start with these settings."""
        file = self.folder / "server.zpl"
        self.folder.chmod(0o750)
        file.write_text(settings.replace("/run/tureen", str(self.folder))
                        .replace("/var/cache/tureen=200G", f"{self.folder}/cache=200M"))
        done = subprocess.run([TUREEN, "serve", "--config", str(file)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S)
        self.assertIn(done.returncode, (1, 2), done.stdout)
        return done.stdout


def options_of(command: str) -> List[str]:
    """The options that the command's --help has a row for."""
    heads = re.findall(r"^  (?:-h, )?(--\S.*?)(?:  .*)?$", run(TUREEN, command, "--help"), re.MULTILINE)
    return [name for head in heads for name in re.findall(r"(?:^|, )(--[a-z-]+)", head)]


class Bash(unittest.TestCase):
    """The function that bash calls, called as bash calls it."""

    def complete(self, line: str) -> List[str]:
        words = " ".join(f"'{word}'" for word in line.split(" "))
        script = (f"source '{SOURCE}/share/completion/tureen.bash'; "
                  f"COMP_LINE='{line}' COMP_POINT={len(line)} COMP_WORDS=({words}); "
                  "_tureen tureen; printf '%s\\n' \"${COMPREPLY[@]}\"")
        environment = dict(os.environ, PATH=f"{BIN}:{os.environ['PATH']}")
        return run("bash", "-c", script, environment=environment).split()

    def test_every_command(self) -> None:
        self.assertEqual(sorted(self.complete("tureen ")), sorted([*COMMANDS, "--help", "--version"]))
        self.assertEqual(self.complete("tureen ver"), ["verify"])

    def test_every_option(self) -> None:
        for command in COMMANDS:
            offered = self.complete(f"tureen {command} --")
            self.assertEqual(sorted(offered), sorted(options_of(command)), command)
            self.assertIn("--help", offered)

    def test_the_program_knows_each(self) -> None:
        """By its own reading of arguments, not by what it says of them."""
        for command in COMMANDS:
            for option in [*self.complete(f"tureen {command} --"), "--no-such-option"]:
                said = subprocess.run([TUREEN, command, option, "--help"], text=True,
                                      stdin=subprocess.DEVNULL, timeout=PATIENCE_S,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                self.assertEqual("unknown option" in said.stdout, option == "--no-such-option",
                                 (command, option))

    def test_values(self) -> None:
        for line, expected in (("tureen read --on-bad ", ["drop", "fail"]),
                               ("tureen read --on-bad=f", ["fail"]),
                               ("tureen serve --tier train=re", ["redox"]),
                               ("tureen serve --log-format ", ["text", "json"]),
                               ("tureen serve --keys /et", ["/etc"]),
                               ("tureen serve --dataset train=/et", ["/etc"]),
                               ("tureen pack --field mask=ma", ["mask:"]),
                               ("tureen key ", ["allow", "list", "new", "revoke"]),
                               ("tureen cache ", ["drop", "list", "verify"]),
                               ("tureen verify /et", ["/etc"]),
                               ("tureen read --batch ", [])):
            self.assertEqual(self.complete(line), expected, line)


@unittest.skipIf(shutil.which("zsh") is None, "no zsh (apt install zsh)")
class Zsh(unittest.TestCase):
    """An interactive zsh at a terminal: what it lists when Tab is pressed."""

    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="tu-zsh-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        shutil.copy(SOURCE / "share" / "completion" / "tureen.zsh", os.path.join(self.folder, "_tureen"))
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            environment = dict(os.environ, PATH=f"{BIN}:{os.environ['PATH']}", TERM="dumb", HOME=self.folder,
                               ZDOTDIR=self.folder, COLUMNS="200", LINES="200")
            os.execvpe("zsh", ["zsh", "-f", "-i"], environment)
        self.addCleanup(self.end)
        self.type(f"unsetopt zle_bracketed_paste; stty cols 200 rows 200; PS1='%%%% ' LISTMAX=9999; "
                  f"fpath=('{self.folder}' $fpath); autoload -Uz compinit; "
                  f"compinit -D -u -d '{self.folder}/dump'; zstyle ':completion:*' list-prompt ''; "
                  "setopt auto_list no_auto_menu no_list_ambiguous; cd /; print rea''dy\n", "ready\r")

    def end(self) -> None:
        os.kill(self.process, signal.SIGKILL)
        os.close(self.terminal)
        os.waitpid(self.process, 0)

    def type(self, text: str, until: str) -> str:
        """What the terminal shows after the text was typed, up to `until` and the prompt behind it: before
        that zsh does not read keys, and a Tab is a Tab."""
        os.write(self.terminal, text.encode())
        shown, end = "", time.monotonic() + PATIENCE_S
        while "%% " not in shown.partition(until)[2]:
            if not select.select([self.terminal], [], [], max(0.0, end - time.monotonic()))[0]:
                raise AssertionError(f"zsh did not show {until!r}: {shown!r}")
            shown += os.read(self.terminal, 65536).decode(errors="replace")
        return shown

    def complete(self, line: str) -> str:
        """What a Tab behind the line shows; then the line is given up by Ctrl-U, and `print` ends it."""
        return self.type(f"{line}\t\x15print do''ne\n", "done\r")

    def test_commands_options_and_values(self) -> None:
        shown = self.complete("tureen ")
        for command in COMMANDS:
            self.assertRegex(shown, rf"\b{command} +-- ")
        for command in COMMANDS:
            shown = self.complete(f"tureen {command} --")
            for option in options_of(command):
                self.assertRegex(shown, rf"{option}\b", command)
        for line, expected in (("tureen read --on-bad ", ("drop", "fail")),
                               ("tureen key ", ("allow", "list", "new", "revoke")),
                               ("tureen cache ", ("drop", "list", "verify")),
                               ("tureen serve --tier train=re", ("redox",)),
                               ("tureen serve --keys /et", ("/etc/",))):
            shown = self.complete(line)
            for word in expected:
                self.assertIn(word, shown, line)


if __name__ == "__main__":
    unittest.main()

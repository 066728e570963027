"""One version: scripts/version.sh in checkouts and exports, and the parts of a build that say it.

Run by ctest (packaging_version), which sets TUREEN_BUILD and TUREEN_BIN; or by hand:
    TUREEN_BUILD=build/release TUREEN_BIN=build/release/bin python3 tests/packaging/test_version.py [-v]
"""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("TUREEN_BUILD", SOURCE / "build" / "release"))
BIN = Path(os.environ.get("TUREEN_BIN", BUILD / "bin"))
WHEN = "2026-11-26T12:00:00+0000"
WHEN_S = "1795694400"

missing = [name for name in ("git",) if shutil.which(name) is None]
if missing:
    print(f"SKIPPED, nothing was tested: no {', '.join(missing)} (apt install {' '.join(missing)})",
          flush=True)
    sys.exit(77)


def run(*command: str, folder: "str | Path" = SOURCE) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environment.update(GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null",
                       GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a@example.org", GIT_AUTHOR_DATE=WHEN,
                       GIT_COMMITTER_NAME="a", GIT_COMMITTER_EMAIL="a@example.org", GIT_COMMITTER_DATE=WHEN)
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}: {done.stdout}")
    return done.stdout.strip()


class Script(unittest.TestCase):
    """A small repository with the script in it, and what is exported of it."""

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tu-version-", dir="/tmp")).resolve()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.tree = self.folder / "tree"
        (self.tree / "scripts").mkdir(parents=True)
        for name in ("scripts/version.sh", "scripts/exported_version", ".gitattributes"):
            shutil.copy(SOURCE / name, self.tree / name)
        (self.tree / "file").write_text("as committed\n")
        self.git("init", "-q")
        self.git("add", "-A")
        self.commit()

    def git(self, *arguments: str) -> str:
        return run("git", *arguments, folder=self.tree)

    def commit(self) -> str:
        """The short name of a new commit."""
        self.git("commit", "-q", "--allow-empty", "-m", "a step")
        return "g" + self.git("rev-parse", "HEAD")[:8]

    def say(self, *arguments: str, tree: "Path | None" = None) -> str:
        return run("sh", str((tree or self.tree) / "scripts" / "version.sh"), *arguments)

    def exported(self) -> Path:
        target = self.folder / "exported"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        self.git("archive", "--output", str(self.folder / "a.tar"), "HEAD")
        run("tar", "-xf", str(self.folder / "a.tar"), folder=target)
        return target

    def expect(self, python: str, debian: str, number: str) -> None:
        self.assertEqual([self.say(), self.say("debian"), self.say("number")], [python, debian, number])

    def test_before_the_first_tag(self) -> None:
        commit = self.commit()
        self.expect(f"0.1.0.dev2+{commit}", f"0.1.0~dev2+{commit}", "0.1.0")
        self.assertEqual(self.say(tree=self.exported()), f"0.1.0.dev0+{commit}")
        self.assertEqual(self.say("time"), WHEN_S)

    def test_tags(self) -> None:
        self.git("tag", "v0.2.0rc1")
        self.expect("0.2.0rc1", "0.2.0~rc1", "0.2.0")
        commit = self.commit()
        self.expect(f"0.2.0rc2.dev1+{commit}", f"0.2.0~rc2.dev1+{commit}", "0.2.0")
        self.git("tag", "v0.2.0")
        self.git("tag", "other")
        self.expect("0.2.0", "0.2.0", "0.2.0")
        exported = self.exported()
        for what, told in ((), "0.2.0"), (("time",), WHEN_S), (("commit",), self.git("rev-parse", "HEAD")):
            self.assertEqual(self.say(*what, tree=exported), told)
        commit = self.commit()
        self.expect(f"0.2.1.dev1+{commit}", f"0.2.1~dev1+{commit}", "0.2.1")
        self.assertEqual(self.say(tree=self.exported()), f"0.2.1.dev1+{commit}")

    def test_the_order_of_versions(self) -> None:
        """As dpkg compares them: each one above those before it."""
        if shutil.which("dpkg") is None:
            self.skipTest("no dpkg: this is no Debian")
        told = [self.say("debian")]
        for tag in "v0.1.0rc1", "", "v0.1.0", "", "v0.1.1", "v0.10.0":
            self.commit()
            if tag:
                self.git("tag", tag)
            told.append(self.say("debian"))
        for older, newer in zip(told, told[1:]):
            run("dpkg", "--compare-versions", older, "lt", newer)

    def test_changes_are_told_if_asked_for(self) -> None:
        self.git("tag", "v0.2.0")
        self.assertEqual(self.say("--exact"), "0.2.0")
        (self.tree / "file").write_text("changed\n")
        commit = "g" + self.git("rev-parse", "HEAD")[:8]
        self.assertEqual(self.say(), "0.2.0")
        self.assertEqual(self.say("--exact"), f"0.2.1.dev0+{commit}.dirty")

    def test_a_tag_that_is_no_version(self) -> None:
        self.git("tag", "v3")
        with self.assertRaisesRegex(AssertionError, "the tag v3 is no version: tag releases vX.Y.Z"):
            self.say()

    def test_neither_checkout_nor_export(self) -> None:
        """Also inside of a repository of another project."""
        inner = self.tree / "third_party"
        shutil.copytree(self.tree, inner, ignore=shutil.ignore_patterns(".git"))
        self.git("tag", "v9.0.0")
        self.assertEqual(self.say(tree=inner), "0.1.0.dev0+unknown")
        self.assertEqual(self.say("time", tree=inner), "0")


class Build(unittest.TestCase):
    def test_all_say_the_same(self) -> None:
        """A commit since the build changes what the tree says, not what was built."""
        told = run(str(BIN / "tureen"), "--version")
        self.assertRegex(told, r"^tureen \d+\.\d+\.\d+")
        version = told.split()[1]
        number = re.match(r"\d+\.\d+\.\d+", version)
        assert number
        self.assertTrue((BUILD / "lib" / f"libtureen.so.{number.group()}").exists())

    def test_the_python_package_says_what_its_tree_says(self) -> None:
        if subprocess.run([sys.executable, "-c", "import zmq, numpy"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no pyzmq or NumPy (apt install python3-zmq python3-numpy)")
        code = (f"import sys; sys.path.insert(0, {str(SOURCE / 'clients' / 'python')!r}); import tureen; "
                "print(tureen.__version__, hasattr(tureen, 'no_such_name'))")
        self.assertEqual(run(sys.executable, "-B", "-c", code),
                         run("sh", "scripts/version.sh") + " False")

    def test_a_package_in_the_tree_of_another_project(self) -> None:
        """Which has a script of that name: it is not run."""
        with tempfile.TemporaryDirectory() as folder:
            package, script = Path(folder) / "vendor" / "tureen", Path(folder) / "scripts" / "version.sh"
            package.mkdir(parents=True)
            script.parent.mkdir()
            script.write_text("echo 7.7.7\n", encoding="ascii")
            shutil.copy(SOURCE / "clients" / "python" / "tureen" / "version.py", package)
            code = f"import sys; sys.path.insert(0, {str(package)!r}); import version; " \
                "print(version.find_version())"
            self.assertEqual(run(sys.executable, "-B", "-c", code), "0+unknown")


if __name__ == "__main__":
    unittest.main()

"""The Python package as it is installed: wheels and the sdist are built from the tree, offline, and used from
where pip puts them.  The server in them is the one that this build has made.

Run by ctest (packaging_wheel), which sets TUREEN_BUILD; or by hand:
    TUREEN_BUILD=build/release python3 tests/packaging/test_wheel.py [-v]
Ends with 77 (a skip) where pip is missing.  tests/packaging/wheel.sh has the long form, with a network.
"""
from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path
from typing import Dict, List

SOURCE = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("TUREEN_BUILD", SOURCE / "build" / "release")).resolve()
PACKAGE = SOURCE / "clients" / "python"
BACKEND = SOURCE / "scripts" / "wheel"
OLDEST = (3, 9)                     # requires-python

if importlib.util.find_spec("pip") is None:
    print("SKIPPED, nothing was tested: no pip (apt install python3-pip)", flush=True)
    sys.exit(77)

ENVIRONMENT = {key: value for key, value in os.environ.items()
               if not key.startswith(("PYTHON", "PIP_", "TUREEN_", "SOURCE_DATE_EPOCH"))}
ENVIRONMENT.update(PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_CACHE_DIR="1", PIP_ROOT_USER_ACTION="ignore",
                   PIP_BREAK_SYSTEM_PACKAGES="1", PYTHONDONTWRITEBYTECODE="1")
OFFLINE = ["--no-index", "--no-deps", "--quiet"]


def run(folder: "str | Path", *command: str, environment: "Dict[str, str] | None" = None) -> str:
    done = subprocess.run(command, cwd=folder, env={**ENVIRONMENT, **(environment or {})},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)[:200]} ended with "
                             f"{done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


class Scratch(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tu-wheel-", dir="/tmp"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def backend(self, tree: Path, call: str) -> Path:
        """The file that a function of the build's makes; each time in a folder of its own."""
        folder = tempfile.mkdtemp(dir=self.folder)
        code = f"import tureen_backend; print(tureen_backend.{call.replace('FOLDER', repr(folder))})"
        name = run(self.folder, sys.executable, "-c", code,
                   environment={"PYTHONPATH": str(tree / "scripts" / "wheel")})
        return Path(folder, name.strip())

    def pip_wheel(self, source: "str | Path", *settings: str) -> Path:
        folder = tempfile.mkdtemp(dir=self.folder)
        words = [word for setting in settings for word in ("--config-settings", setting)]
        run(self.folder, sys.executable, "-m", "pip", "wheel", str(source), "--no-build-isolation",
            "--wheel-dir", folder, *words, *OFFLINE)
        [wheel] = Path(folder).glob("tureen-*.whl")
        return wheel

    def install(self, wheel: Path) -> str:
        target = tempfile.mkdtemp(dir=self.folder)
        run(self.folder, sys.executable, "-m", "pip", "install", str(wheel), "--target", target, *OFFLINE)
        return target


class WithServer(Scratch):
    def test_serves_from_where_it_is_installed(self) -> None:
        wheel = self.pip_wheel(SOURCE, f"build={BUILD}")
        self.assertRegex(wheel.name, r"-py3-none-linux_\w+\.whl$")
        target = self.install(wheel)
        environment = {"PYTHONPATH": target}
        told = run(self.folder, sys.executable, "-c", "import tureen; print(tureen.__version__)",
                   environment=environment).strip()
        self.assertEqual(told, run(SOURCE, "sh", "scripts/version.sh", "--exact").strip())
        command = os.path.join(target, "bin", "tureen")
        self.assertEqual(run(self.folder, command, "--version", environment=environment),
                         run(self.folder, str(BUILD / "bin" / "tureen"), "--version"))
        #  No `tureen` on PATH: it has to find its own.
        said = run(self.folder, sys.executable, "-m", "tureen.demo", "--numpy", "--samples=96", "--epochs=2",
                   environment={**environment, "PATH": "/usr/sbin:/sbin"})
        self.assertIn("The server delivered 576 samples and prepared ", said)

    def test_a_program_in_c_links_its_library(self) -> None:
        if shutil.which("cc") is None or shutil.which("pkg-config") is None:
            self.skipTest("no cc or pkg-config")
        target = self.install(self.pip_wheel(SOURCE, f"build={BUILD}"))
        code = "from tureen import installed; print(installed.pkgconfig_folder())"
        folder = run(self.folder, sys.executable, "-c", code, environment={"PYTHONPATH": target}).strip()
        flags = run(self.folder, "pkg-config", "--cflags", "--libs", "tureen",
                    environment={"PKG_CONFIG_PATH": folder}).split()
        run(self.folder, "cc", str(SOURCE / "examples" / "c_resume.c"), "-o", "job", *flags)
        library = os.path.join(target, "tureen", "native", "lib")
        found = run(self.folder, "ldd", "job", environment={"LD_LIBRARY_PATH": library})
        self.assertIn(f"{library}/libtureen.so.0", found)

    def test_the_same_bytes_twice(self) -> None:
        call = f"build_wheel(FOLDER, {{'build': {str(BUILD)!r}}})"
        first, again = self.backend(SOURCE, call), self.backend(SOURCE, call)
        self.assertEqual(first.name, again.name)
        self.assertTrue(first.read_bytes() == again.read_bytes())
        with zipfile.ZipFile(first) as archive:
            self.assertIsNone(archive.testzip())
            names = archive.namelist()
            [record] = [name for name in names if name.endswith("/RECORD")]
            listed = [line.split(",")[0] for line in archive.read(record).decode().splitlines()]
            self.assertEqual(sorted(listed), sorted(names))
            self.assertEqual(len({entry.date_time for entry in archive.infolist()}), 1)


class Bundled(Scratch):
    """What a wheel for other machines has beyond this: without writing one, which takes long."""

    def ask(self, code: str) -> str:
        programs = [str(BUILD / "bin" / "tureen"), str(BUILD / "lib" / "libtureen.so.0")]
        return run(self.folder, sys.executable, "-c",
                   "import bundled_libraries as b; from pathlib import Path; "
                   f"programs = [Path(path) for path in {programs}]; found = b.find(programs); {code}",
                   environment={"PYTHONPATH": str(BACKEND)})

    def setUp(self) -> None:
        super().setUp()
        if shutil.which("dpkg-query") is None:
            self.skipTest("no dpkg: libraries and licences are taken from Debian's packages")

    def test_brings_what_no_linux_is_sure_to_have(self) -> None:
        names = self.ask("print(*[path.name for path in found])").split()
        self.assertLessEqual({"libzmq.so.5", "libjpeg.so.62", "libcurl.so.4", "libsodium.so.23"}, set(names))
        self.assertFalse({"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1"} & set(names))
        self.assertRegex(self.ask("print(b.platform_tag([*programs, *found]))"), r"^manylinux_2_\d\d_\w+$")

    def test_lists_each_library_with_its_licence(self) -> None:
        told = json.loads(self.ask("import sys; packages = b.find_packages(found); "
                                   "assert all(package.copyright for package in packages); "
                                   "assert {'GPL-3', 'LGPL-2.1'} <= set(b.common_texts(packages)); "
                                   "sys.stdout.write(b.sbom('1.0', packages, programs).decode())"))
        self.assertEqual((told["bomFormat"], told["specVersion"]), ("CycloneDX", "1.5"))
        parts = {part["name"]: part for part in told["components"]}
        self.assertIn("libjs-dygraphs", parts)
        self.assertTrue(all(part["licenses"] and part["version"] for part in parts.values()))
        [file] = parts["libzmq5"]["components"]
        path = self.ask("print([path for path in found if path.name == 'libzmq.so.5'][0])").strip()
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        self.assertEqual(file, {"type": "file", "name": "libzmq.so.5",
                                "hashes": [{"alg": "SHA-256", "content": digest}]})
        self.assertTrue(parts["libzmq5"]["purl"].startswith("pkg:deb/debian/libzmq5@"))


class Client(Scratch):
    def test_builds_and_works_without_a_server(self) -> None:
        wheel = self.pip_wheel(SOURCE, "server=no")
        self.assertTrue(wheel.name.endswith("-py3-none-any.whl"), wheel.name)
        with zipfile.ZipFile(wheel) as archive:
            inside = {name for name in archive.namelist() if not name.split("/")[0].endswith(".dist-info")}
        sources = {str(path.relative_to(PACKAGE)) for path in (PACKAGE / "tureen").rglob("*")
                   if path.suffix == ".py" or path.name == "py.typed"}
        self.assertEqual(inside, sources | {"tureen/version.txt"}, "in the wheel, and in the tree")
        self.assertIn("tureen/py.typed", inside)
        target = self.install(wheel)
        said = run(self.folder, sys.executable, "-c", (
            "import sys, tureen\n"
            "assert tureen.__file__.startswith(sys.argv[1]), tureen.__file__\n"
            "assert not {'torch', 'torchvision', 'PIL'} & set(sys.modules)\n"
            "missing = [name for name in tureen.__all__ if not hasattr(tureen, name)]\n"
            "assert not missing, missing\n"
            "print(tureen.recipes.imagenet_train().to_json()[0]['op'])\n"
            "from importlib.metadata import version\n"
            "assert version('tureen') == tureen.__version__\n"
            "try:\n"
            "    tureen.serve(train='/nowhere')\n"
            "except tureen.ServeFailed as error:\n"
            "    print(error)\n"), target, environment={
                "PYTHONPATH": target, "PATH": "/nowhere", "TUREEN_ENDPOINT": f"ipc://{self.folder}/s"})
        self.assertIn("random_resized_crop\nthere is no `tureen` to start a server with", said)

    def test_settings_that_mean_nothing(self) -> None:
        for settings, why in (
                ({"servers": "no"}, "there is no setting 'servers'; there are libraries, server"),
                ({"libraries": "all"}, "libraries=all: it is system or bundled"),
                ({"build": "/nowhere"}, "there is no bin/tureen in it")):
            with self.subTest(settings), self.assertRaisesRegex(AssertionError, why):
                self.backend(SOURCE, f"build_wheel(FOLDER, {settings})")

    def test_editable_is_the_tree(self) -> None:
        with zipfile.ZipFile(self.backend(SOURCE, "build_editable(FOLDER)")) as archive:
            self.assertEqual(archive.read("tureen.pth").decode(), f"{PACKAGE}\n")


class Sdist(Scratch):
    def test_has_the_tree_and_makes_itself(self) -> None:
        first = self.backend(SOURCE, "build_sdist(FOLDER)")
        with tarfile.open(first) as archive:
            archive.extractall(self.folder)
        root = self.folder / first.name[:-len(".tar.gz")]
        tracked: List[str] = run(SOURCE, "git", "ls-files", "-z").split("\0")[:-1] \
            if (SOURCE / ".git").exists() else []
        for name in tracked:
            if (SOURCE / name).exists() and name not in ("scripts/exported_version", "PKG-INFO"):
                self.assertEqual((root / name).read_bytes(), (SOURCE / name).read_bytes(), name)
        self.assertEqual(run(root, "sh", "scripts/version.sh"),
                         run(SOURCE, "sh", "scripts/version.sh", "--exact"))
        again = self.backend(root, "build_sdist(FOLDER)")   # without git
        self.assertTrue(again.read_bytes() == first.read_bytes())
        self.assertEqual(self.pip_wheel(first, f"build={BUILD}").name.split("-")[:2], root.name.split("-"))


class Sources(unittest.TestCase):
    def test_the_oldest_python_can_read_it(self) -> None:
        """Its grammar, and annotations that are not looked at before 3.10 would have them."""
        for path in sorted([*(PACKAGE / "tureen").rglob("*.py"), *BACKEND.glob("*.py")]):
            with self.subTest(path.name):
                text = path.read_text(encoding="utf-8")
                tree = ast.parse(text, str(path), feature_version=OLDEST)
                futures = [name.name for node in tree.body if isinstance(node, ast.ImportFrom)
                           and node.module == "__future__"
                           for name in node.names]
                self.assertIn("annotations", futures)
                for node in ast.walk(tree):
                    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "dataclass":
                        self.assertFalse({"slots", "kw_only"} & {keyword.arg for keyword in node.keywords},
                                         "since 3.10")


if __name__ == "__main__":
    unittest.main()

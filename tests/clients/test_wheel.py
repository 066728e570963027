"""The Python package as it is installed: a wheel is built from the tree, offline, put somewhere else, and
used from there.

Run by ctest (wheel), or by hand: python3 tests/clients/test_wheel.py [-v].  Ends with 77 (a skip) where pip,
setuptools or wheel is missing.
"""
from __future__ import annotations

import ast
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent.parent
PACKAGE = SOURCE / "clients" / "python"
OLDEST = (3, 9)                     # requires-python

missing = [name for name in ("pip", "setuptools", "wheel") if importlib.util.find_spec(name) is None]
if missing:
    print(f"SKIPPED, nothing was tested: no {', '.join(missing)} (apt install python3-pip python3-setuptools "
          "python3-wheel)", flush=True)
    sys.exit(77)


class Wheel(unittest.TestCase):
    def test_builds_and_works_outside_of_the_tree(self) -> None:
        folder = tempfile.mkdtemp(prefix="tu-wheel-", dir="/tmp")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        #  setuptools writes beside the sources, and the tree is not for that.
        copy = os.path.join(folder, "source")
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
        environment = {key: value for key, value in os.environ.items()
                       if not key.startswith(("PYTHON", "PIP_"))}
        environment.update(PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_CACHE_DIR="1",
                           PIP_ROOT_USER_ACTION="ignore", PIP_BREAK_SYSTEM_PACKAGES="1")
        offline = ["--no-index", "--no-deps", "--quiet"]
        self.run_in(folder, environment, "-m", "pip", "wheel", copy, "--no-build-isolation", "--wheel-dir",
                    folder, *offline)
        wheels = list(Path(folder).glob("tureen-*.whl"))
        self.assertEqual(len(wheels), 1)
        self.assertTrue(wheels[0].name.endswith("-py3-none-any.whl"), wheels[0].name)
        with zipfile.ZipFile(wheels[0]) as archive:
            inside = {name for name in archive.namelist() if not name.split("/")[0].endswith(".dist-info")}
        sources = {str(path.relative_to(PACKAGE)) for path in (PACKAGE / "tureen").rglob("*")
                   if path.suffix == ".py" or path.name == "py.typed"}
        self.assertEqual(inside, sources, "what the wheel has, and what the tree has")
        self.assertIn("tureen/py.typed", inside)
        target = os.path.join(folder, "target")
        self.run_in(folder, environment, "-m", "pip", "install", str(wheels[0]), "--target", target, *offline)
        said = self.run_in(folder, dict(environment, PYTHONPATH=target, PYTHONDONTWRITEBYTECODE="1"), "-c", (
            "import sys, tureen\n"
            "assert tureen.__file__.startswith(sys.argv[1]), tureen.__file__\n"
            "assert not {'torch', 'torchvision', 'PIL'} & set(sys.modules)\n"
            "missing = [name for name in tureen.__all__ if not hasattr(tureen, name)]\n"
            "assert not missing, missing\n"
            "print(tureen.recipes.imagenet_train().to_json()[0]['op'])\n"
            ), target)
        self.assertEqual(said, "random_resized_crop\n")

    @staticmethod
    def run_in(folder: str, environment: "dict[str, str]", *arguments: str) -> str:
        done = subprocess.run([sys.executable, *arguments], cwd=folder, env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise AssertionError(f"{' '.join(arguments)[:200]} ended with "
                                 f"{done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def test_the_oldest_python_can_read_it(self) -> None:
        """Its grammar, and annotations that are not looked at before 3.10 would have them."""
        for path in sorted((PACKAGE / "tureen").rglob("*.py")):
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

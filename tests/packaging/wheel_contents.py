"""What a wheel with bundled libraries must have: wheel_contents.py WHEEL DIST.  tests/packaging/wheel.sh runs
this.

It unpacks the wheel and checks that the programs find each library in it, whatever LD_LIBRARY_PATH says; that
the SBOM names each library with the hash that it has; and that the licence of each is there.
"""
from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

OF_THE_SYSTEM = re.compile(r"lib(c|m|resolv|gcc_s|stdc\+\+|pthread|dl|rt)\.so\.\d+")


def unpack(wheel: str, folder: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            path = archive.extract(entry, folder)
            os.chmod(path, stat.S_IMODE(entry.external_attr >> 16))


def check_libraries(native: Path) -> int:
    """How many libraries the programs load from beside them."""
    found = set()
    for program in native / "bin" / "tureen", native / "lib" / "libtureen.so.0":
        environment = {**os.environ, "LD_LIBRARY_PATH": "/usr/lib/x86_64-linux-gnu:/lib/x86_64-linux-gnu"}
        told = subprocess.run(["ldd", str(program)], env=environment, stdout=subprocess.PIPE, check=True,
                              text=True).stdout
        for name, path in re.findall(r"^\s+(\S+) => (\S+)", told, re.MULTILINE):
            if OF_THE_SYSTEM.fullmatch(name):
                continue
            assert os.path.realpath(path) == str(native / "lib" / name), f"{program.name}: {name} is {path}"
            found.add(name)
    there = {path.name for path in (native / "lib").glob("*.so.*")} - {"libtureen.so.0"}
    assert found == there, f"not needed: {there - found}, not there: {found - there}"
    return len(found)


def check_sbom(info: Path, native: Path, beside: bytes) -> int:
    """How many packages it names."""
    text = (info / "sboms" / "tureen.cdx.json").read_bytes()
    assert text == beside, "the SBOM beside the wheel is not the one in it"
    told = json.loads(text)
    packages = told["components"]
    files = [file for package in [*packages, told["metadata"]["component"]] for file in package["components"]]
    hashes = {file["name"]: file["hashes"][0]["content"] for file in files}
    for path in [native / "bin" / "tureen", *(native / "lib").glob("*.so.*")]:
        assert hashes[path.name] == hashlib.sha256(path.read_bytes()).hexdigest(), path.name
    for package in packages:
        licence = info / "licenses" / package["name"] / "copyright"
        for name in re.findall(r"/common-licenses/([A-Za-z0-9.-]*[A-Za-z0-9])", licence.read_text("utf-8")):
            assert (info / "licenses" / "common-licenses" / name).stat().st_size > 1000, name
    return len(packages)


def main() -> None:
    wheel, dist = sys.argv[1], Path(sys.argv[2])
    assert re.search(r"-py3-none-manylinux_2_\d+_x86_64\.whl$", wheel), wheel
    [beside] = dist.glob("*.cdx.json")
    with tempfile.TemporaryDirectory(prefix="tu-contents-") as folder:
        unpack(wheel, folder)
        native = Path(folder).resolve() / "tureen" / "native"
        [info] = Path(folder).glob("*.dist-info")
        assert (info / "licenses" / "LICENSE").exists()
        libraries = check_libraries(native)
        packages = check_sbom(info, native, beside.read_bytes())
        assert dist.parent.name.encode() not in (native / "bin" / "tureen").read_bytes(), \
            "a path of the build is in the server"
    print(f"{libraries} libraries of {packages} Debian packages, each with its licence and its hash")


if __name__ == "__main__":
    main()

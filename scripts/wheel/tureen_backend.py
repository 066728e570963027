"""Builds the wheel and the sdist: what pip calls (PEP 517), of this tree alone.

Settings (pip's --config-settings NAME=VALUE):

    libraries=system    the server uses the libraries of this system (default): for this machine
    libraries=bundled   it brings them along, with their licences: for any Linux of the wheel's tag.  It takes
                        them from Debian's packages
    server=no           the Python client alone, for every platform
    build=DIR           takes the server from this CMake build instead of building it anew

The same commit gives the same bytes on the same system: times are the commit's, or SOURCE_DATE_EPOCH.
"""
from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Dict, List, Optional

import bundled_libraries
import package_metadata
import server_build
from package_archives import Wheel, write_sdist

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "clients" / "python" / "tureen"
NATIVE = "tureen/native"
SETTINGS = {"libraries": ("system", "bundled"), "server": ("yes", "no"), "build": ()}
Settings = Optional[Dict[str, str]]

#  Becomes the server's executable; Python's part takes some milliseconds, because it imports nothing of ours.
COMMAND = b'''#!python
"""The `tureen` that was installed with the Python package of that name."""
import os
import sys

for folder in sys.path:
    path = os.path.join(folder, "tureen", "native", "bin", "tureen")
    if os.path.isfile(path):
        os.execv(path, sys.argv)
sys.exit("tureen: the Python package of that name, which brings the server along, is not installed for "
         + sys.executable)
'''
#  Wheels have no links: what the linker reads instead of one.
LINKER_SCRIPT = b"INPUT ( libtureen.so.0 )\n"


def get_requires_for_build_wheel(settings: Settings = None) -> List[str]:
    """cmake and ninja of the registry, if the system has none."""
    if _read(settings)["server"] == "no":
        return []
    return [package for tool, package in (("cmake", "cmake>=3.22"), ("ninja", "ninja"))
            if shutil.which(tool) is None]


def get_requires_for_build_editable(settings: Settings = None) -> List[str]:
    return []


def build_wheel(folder: str, settings: Settings = None, metadata_folder: Optional[str] = None) -> str:
    chosen = _read(settings)
    version = package_metadata.find_version()
    if chosen["server"] == "no":
        wheel = Wheel(version, "py3-none-any", pure=True)
    else:
        with tempfile.TemporaryDirectory(prefix="tureen-wheel-") as scratch:
            wheel = _with_server(version, chosen, Path(scratch))
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix == ".py" or path.name == "py.typed":
            wheel.add(f"tureen/{path.relative_to(PACKAGE)}", path.read_bytes())
    wheel.add("tureen/version.txt", f"{version}\n".encode())
    _describe(wheel)
    return wheel.write(Path(folder))


def build_editable(folder: str, settings: Settings = None, metadata_folder: Optional[str] = None) -> str:
    """The Python client where it lies in the tree, without a server: that one is scripts/build.sh's."""
    wheel = Wheel(package_metadata.find_version(), "py3-none-any", pure=True)
    wheel.add("tureen.pth", f"{PACKAGE.parent}\n".encode())
    _describe(wheel)
    return wheel.write(Path(folder))


def build_sdist(folder: str, settings: Settings = None) -> str:
    return write_sdist(Path(folder), ROOT, package_metadata.find_version(), package_metadata.describe())


def _describe(wheel: Wheel) -> None:
    wheel.add_info("METADATA", package_metadata.describe().encode())
    wheel.add_info("licenses/LICENSE", (ROOT / "LICENSE").read_bytes())


def _pkgconfig(version: str) -> bytes:
    """As `cmake --install` fills it in, with paths from the file on, which goes where pip puts it."""
    text = (ROOT / "clients" / "c" / "tureen.pc.in").read_text()
    for name, value in (("INSTALLED_TO_PREFIX", "${pcfiledir}/../.."), ("INSTALLED_LIBDIR", "${prefix}/lib"),
                        ("INSTALLED_INCLUDEDIR", "${prefix}/include"), ("TUREEN_VERSION", version)):
        text = text.replace(f"@{name}@", value)
    return text.encode()


def _with_server(version: str, chosen: Dict[str, str], scratch: Path) -> Wheel:
    bundle = chosen["libraries"] == "bundled"
    build = Path(chosen["build"]) if chosen["build"] else \
        server_build.build(ROOT, scratch / "build", version, bundle)
    server = server_build.stripped(build / "bin" / "tureen", scratch / "tureen")
    library = server_build.stripped(build / "lib" / "libtureen.so.0", scratch / "libtureen.so.0")
    wheel = Wheel(version, f"py3-none-{sysconfig.get_platform().replace('-', '_')}", pure=False)
    if bundle:
        libraries = bundled_libraries.find([server, library])
        wheel.tag = f"py3-none-{bundled_libraries.platform_tag([server, library, *libraries])}"
        for path in libraries:
            wheel.add(f"{NATIVE}/lib/{path.name}", path.read_bytes())
        packages = bundled_libraries.find_packages(libraries)
        for package in packages:
            wheel.add_info(f"licenses/{package.name}/copyright", package.copyright)
        for name, text in bundled_libraries.common_texts(packages).items():
            wheel.add_info(f"licenses/common-licenses/{name}", text)
        wheel.add_info("sboms/tureen.cdx.json", bundled_libraries.sbom(version, packages, [server, library]))
    wheel.add(f"{NATIVE}/bin/tureen", server.read_bytes(), executable=True)
    wheel.add(f"{NATIVE}/lib/libtureen.so.0", library.read_bytes(), executable=True)
    wheel.add(f"{NATIVE}/lib/libtureen.so", LINKER_SCRIPT)
    wheel.add(f"{NATIVE}/lib/pkgconfig/tureen.pc", _pkgconfig(version))
    wheel.add(f"{NATIVE}/include/tureen.h", (ROOT / "clients" / "c" / "tureen.h").read_bytes())
    wheel.add_data("scripts/tureen", COMMAND, executable=True)
    for page in "tureen.1", "libtureen.3":
        section = page.rpartition(".")[2]
        wheel.add_data(f"data/share/man/man{section}/{page}", (ROOT / "docs" / "man" / page).read_bytes())
    return wheel


def _read(settings: Settings) -> Dict[str, str]:
    """With the defaults; a name or a value that has no meaning ends the build."""
    chosen = {"libraries": "system", "server": "yes", "build": ""}
    for name, value in (settings or {}).items():
        if name not in SETTINGS:
            sys.exit(f"tureen: there is no setting {name!r}; there are {', '.join(SETTINGS)}")
        if SETTINGS[name] and value not in SETTINGS[name]:
            sys.exit(f"tureen: {name}={value}: it is {' or '.join(SETTINGS[name])}")
        chosen[name] = value
    if chosen["build"] and not os.path.isfile(os.path.join(chosen["build"], "bin", "tureen")):
        sys.exit(f"tureen: build={chosen['build']}: there is no bin/tureen in it; build it first (cmake "
                 "--build)")
    return chosen

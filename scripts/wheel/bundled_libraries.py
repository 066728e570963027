"""The libraries that a wheel brings along: which, of which Debian packages, under which licences.

They are Debian's files, unchanged.  Python loads none of them: they are the server's, which is a process of
its own, and libtureen's in programs in C.
"""
from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Dict, List, Sequence, Set, Tuple

import package_metadata

#  What every Linux with this C library has: the policy of PEP 600, as far as it is needed here.
OF_EVERY_LINUX = re.compile(r"(ld-linux-x86-64|lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc\+\+))\.so\.\d+")
#  In the server's executable itself.
LINKED_IN = ("libarchive-dev", "libjs-dygraphs")
LDD_LINE = re.compile(r"^\s+(\S+) => (.+?)(?: \(0x[0-9a-f]+\))?$", re.MULTILINE)
#  Where copyright files refer to for the text of the GPL, the LGPL and others.
COMMON_TEXT = re.compile(rb"/usr/share/common-licenses/([A-Za-z0-9.-]*[A-Za-z0-9])")
SPDX_FIELD = re.compile(r"^License:[ \t]*(\S.*)$", re.MULTILINE)


@dataclass
class Package:
    """A package of Debian's, and the files of it that are in the wheel."""

    name: str
    version: str
    source: str
    source_version: str
    copyright: bytes
    files: List[Path] = field(default_factory=list)

    def licences(self) -> List[str]:
        """As its copyright file names them, if it is written for machines."""
        text = self.copyright.decode("utf-8", "replace")
        if not text.startswith("Format:"):
            return []
        return sorted({match.strip() for match in SPDX_FIELD.findall(text)})


def find(programs: Sequence[Path]) -> List[Path]:
    """All libraries that the programs need, by the names that they are looked for with."""
    found: Dict[str, Path] = {}
    environment = {key: value for key, value in os.environ.items() if not key.startswith("LD_")}
    for program in programs:
        done = subprocess.run(["ldd", str(program)], env=environment, stdout=subprocess.PIPE, check=True,
                              text=True)
        for name, path in LDD_LINE.findall(done.stdout):
            if OF_EVERY_LINUX.fullmatch(name):
                continue
            if not path.startswith("/"):
                sys.exit(f"tureen: {name}, which {program.name} needs, is not installed")
            found[name] = Path(path)
    return [found[name] for name in sorted(found)]


def platform_tag(files: Sequence[Path]) -> str:
    """"manylinux_2_36_x86_64": the oldest C library with all symbols that the files need."""
    needed: Set[Tuple[int, int]] = set()
    for path in files:
        done = subprocess.run(["objdump", "-T", str(path)], stdout=subprocess.PIPE, check=True, text=True)
        needed |= {(int(major), int(minor))
                   for major, minor in re.findall(r"\bGLIBC_(\d+)\.(\d+)", done.stdout)}
    major, minor = max(needed)
    return f"manylinux_{major}_{minor}_{os.uname().machine}"


def find_packages(libraries: Sequence[Path]) -> List[Package]:
    """Sorted by name; also those that are linked into the server."""
    owners = _owners(libraries)
    packages = _packages({*owners.values(), *LINKED_IN})
    for path in libraries:
        packages[owners[path]].files.append(path)
    return [packages[name] for name in sorted(packages)]


def _dpkg(*arguments: str) -> List[str]:
    """The lines that it prints: it answers what it knows, and fails if that is not all."""
    try:
        done = subprocess.run(["dpkg-query", *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True)
    except FileNotFoundError:
        sys.exit("tureen: libraries=bundled takes libraries and their licences from Debian's packages, and "
                 "there is no dpkg here: build on Debian, or with libraries=system")
    return done.stdout.splitlines()


def _owners(libraries: Sequence[Path]) -> Dict[Path, str]:
    """The package of each."""
    real = {path: os.path.realpath(path) for path in libraries}
    #  A package may name a file of /usr/lib as one of /lib, which is a link to it.
    short = {path: name[len("/usr"):] for path, name in real.items() if name.startswith("/usr/")}
    told: Dict[str, str] = {}
    for line in _dpkg("--search", *real.values(), *short.values()):
        package, _, name = line.partition(": ")
        if not package.startswith("diversion "):
            told[name] = package
    owners: Dict[Path, str] = {}
    for path in libraries:
        found = told.get(real[path]) or told.get(short.get(path, ""))
        if not found:
            sys.exit(f"tureen: {path} is of no Debian package, so its licence is not known")
        owners[path] = found.split(":")[0]
    return owners


def _packages(names: Set[str]) -> Dict[str, Package]:
    wanted = "${Package} ${Version} ${source:Package} ${source:Version} ${db:Status-Status}\\n"
    packages = {}
    for line in _dpkg("--show", "--showformat", wanted, *sorted(names)):
        name, version, source, source_version, status = line.split()
        file = Path("/usr/share/doc") / name / "copyright"
        if status == "installed" and file.exists():
            packages[name] = Package(name, version, source, source_version, file.read_bytes())
    missing = sorted(names - set(packages))
    if missing:
        sys.exit(f"tureen: not installed, or without a copyright file: {', '.join(missing)}")
    return packages


def common_texts(packages: Sequence[Package]) -> Dict[str, bytes]:
    """The licences that the packages' copyright files refer to, by name."""
    names = {name.decode() for package in packages for name in COMMON_TEXT.findall(package.copyright)}
    return {name: Path("/usr/share/common-licenses", name).read_bytes() for name in sorted(names)}


def sbom(version: str, packages: Sequence[Package], ours: Sequence[Path]) -> bytes:
    """What is in the wheel, as CycloneDX has it (1.5)."""
    when = datetime.fromtimestamp(package_metadata.find_time(), timezone.utc)
    commit = package_metadata.tell("commit")
    subject = {
        "type": "application", "name": "tureen", "version": version, "bom-ref": "tureen",
        "purl": f"pkg:pypi/tureen@{version}", "licenses": [{"license": {"id": "Apache-2.0"}}],
        "properties": [{"name": "git:commit", "value": commit}], "components": [_file(path) for path in ours]}
    document: Dict[str, Any] = {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, f"tureen/{version}/{commit}").urn,
        "metadata": {"timestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"), "component": subject},
        "components": [_component(package) for package in packages],
        "dependencies": [{"ref": "tureen", "dependsOn": [_purl(package) for package in packages]}]}
    return (json.dumps(document, indent=1) + "\n").encode()


def _purl(package: Package) -> str:
    return f"pkg:deb/debian/{package.name}@{package.version.replace('+', '%2B')}?arch=amd64"


def _component(package: Package) -> Dict[str, Any]:
    licences = package.licences() or [f"licenses/{package.name}/copyright"]
    return {"type": "library", "name": package.name, "version": package.version, "purl": _purl(package),
            "bom-ref": _purl(package), "licenses": [{"license": {"name": name}} for name in licences],
            "properties": [{"name": "debian:source", "value": f"{package.source} {package.source_version}"}],
            "components": [_file(path) for path in package.files]}


def _file(path: Path) -> Dict[str, Any]:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"type": "file", "name": path.name, "hashes": [{"alg": "SHA-256", "content": digest}]}

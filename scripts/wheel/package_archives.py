"""The two files that pip installs from, written so that the same content gives the same bytes."""
from __future__ import annotations

import base64
import gzip
import hashlib
import io
import os
import subprocess
import tarfile
import time
import zipfile
from pathlib import Path
from typing import Dict, List, Tuple

import package_metadata

ZIP_BEGIN_S = 315532800             # 1980: a zip knows no earlier time
LEFT_OUT = {"build", "dist", "__pycache__", ".git"}


class Wheel:
    """The files of a wheel, by their names in it."""

    def __init__(self, version: str, tag: str, pure: bool) -> None:
        self.version = version
        self.tag = tag
        self._pure = pure
        self._files: Dict[str, Tuple[bytes, bool]] = {}

    def add(self, name: str, content: bytes, executable: bool = False) -> None:
        assert name not in self._files, name
        self._files[name] = (content, executable)

    def add_info(self, name: str, content: bytes) -> None:
        """Beside the metadata."""
        self.add(f"tureen-{self.version}.dist-info/{name}", content)

    def add_data(self, name: str, content: bytes, executable: bool = False) -> None:
        """Outside of the packages' folder, as "scripts/NAME" or "data/PATH"."""
        self.add(f"tureen-{self.version}.data/{name}", content, executable)

    def write(self, folder: Path) -> str:
        """The name of the file."""
        self.add_info("WHEEL", (f"Wheel-Version: 1.0\nGenerator: tureen_backend ({self.version})\n"
                                f"Root-Is-Purelib: {str(self._pure).lower()}\nTag: {self.tag}\n").encode())
        record = f"tureen-{self.version}.dist-info/RECORD"
        lines = [f"{name},{_digest(content)},{len(content)}"
                 for name, (content, _) in sorted(self._files.items())]
        self.add(record, "\n".join([*lines, f"{record},,", ""]).encode())
        path = folder / f"tureen-{self.version}-{self.tag}.whl"
        when = time.gmtime(max(ZIP_BEGIN_S, package_metadata.find_time()))[:6]
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            #  As the standard wants it, the metadata last.
            for name in sorted(self._files, key=lambda name: (".dist-info/" in name, name)):
                content, executable = self._files[name]
                entry = zipfile.ZipInfo(name, when)
                entry.create_system = 3                     # Unix, which has modes
                entry.external_attr = (0o100755 if executable else 0o100644) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, content, compresslevel=9)
        return path.name


def _digest(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def write_sdist(folder: Path, root: Path, version: str, metadata: str) -> str:
    """The name of the file: all files under version control as they are now, and what git knows of them."""
    when = package_metadata.find_time()
    commit, committed = package_metadata.tell("commit"), package_metadata.tell("time")
    known = f"commit {commit}\ntime {committed}\nversion {version}\n"
    contents = {name: (root / name).read_bytes() for name in _source_files(root)}
    contents["PKG-INFO"] = metadata.encode()
    contents["scripts/exported_version"] = known.encode()
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(contents):
            entry = tarfile.TarInfo(f"tureen-{version}/{name}")
            entry.size, entry.mtime = len(contents[name]), when
            executable = (root / name).exists() and os.access(root / name, os.X_OK)
            entry.mode = 0o755 if executable else 0o644
            archive.addfile(entry, io.BytesIO(contents[name]))
    path = folder / f"tureen-{version}.tar.gz"
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=when) as packed:
        packed.write(target.getvalue())
    return path.name


def _source_files(root: Path) -> List[str]:
    if (root / ".git").exists():
        listed = subprocess.run(["git", "-c", f"safe.directory={root}", "-C", str(root), "ls-files", "-z"],
                                stdout=subprocess.PIPE, check=True).stdout.decode().split("\0")
        return [name for name in listed if name and (root / name).is_file()]
    return [str(path.relative_to(root)) for path in root.rglob("*")
            if path.is_file() and not LEFT_OUT & set(path.relative_to(root).parts)]

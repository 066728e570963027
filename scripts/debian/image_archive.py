"""Makes an image of a root file system and a Containerfile, without a builder and without a registry.

    python3 scripts/debian/image_archive.py CONTAINERFILE ROOTFS_TAR VERSION IMAGE_TAR

The archive is one of `docker save`: `podman load`, `docker load` and `skopeo copy docker-archive:` take it.
It is not an OCI layout, because that has no health check.  The same input gives the same bytes.
"""
from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Dict, List, Tuple

NANOSECONDS = {"s": 10 ** 9, "m": 60 * 10 ** 9, "h": 3600 * 10 ** 9}


def fail(text: str) -> None:
    sys.exit(f"image_archive.py: {text}")


def instructions(path: Path) -> List[Tuple[str, str]]:
    text = re.sub(r"(?m)^\s*#.*\n", "", path.read_text(encoding="utf-8")).replace("\\\n", " ")
    return [(line.split(None, 1)[0].upper(), line.split(None, 1)[1].strip())
            for line in text.splitlines() if line.strip()]


def health(text: str) -> Dict[str, Any]:
    options, _, command = text.partition("CMD ")
    told: Dict[str, Any] = {"Test": ["CMD", *json.loads(command)]}
    for name, number, unit in re.findall(r"--([a-z-]+)=(\d+)([smh])", options):
        key = "".join(word.capitalize() for word in name.split("-"))
        told[key] = int(number) * NANOSECONDS[unit]
    return told


def settings(path: Path) -> Dict[str, Any]:
    """The image's configuration that a Containerfile describes: that of one layer upon nothing."""
    told: Dict[str, Any] = {"Labels": {}}
    for word, rest in instructions(path):
        if (word, rest) in (("FROM", "scratch"), ("ADD", "rootfs.tar /")):
            continue
        if word == "ENV":
            told["Env"] = shlex.split(rest)
        elif word in ("CMD", "ENTRYPOINT"):
            told[word.capitalize()] = json.loads(rest)
        elif word == "HEALTHCHECK":
            told["Healthcheck"] = health(rest)
        elif word in ("USER", "WORKDIR", "STOPSIGNAL"):
            told[{"USER": "User", "WORKDIR": "WorkingDir", "STOPSIGNAL": "StopSignal"}[word]] = rest
        else:
            fail(f"{path}: '{word} {rest}' is not understood here: this makes one layer of rootfs.tar")
    return told


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def compress(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, compresslevel=6, mtime=0) as file:
        file.write(data)
    return buffer.getvalue()


def encoded(told: Dict[str, Any]) -> bytes:
    return json.dumps(told, sort_keys=True, separators=(",", ":")).encode()


def files(containerfile: Path, rootfs: bytes, version: str) -> Dict[str, bytes]:
    """The files of the archive by their paths."""
    when = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), timezone.utc)
    config = settings(containerfile)
    config["Labels"].update({"org.opencontainers.image.title": "tureen",
                             "org.opencontainers.image.version": version,
                             "org.opencontainers.image.licenses": "Apache-2.0"})
    machine = subprocess.run(["dpkg-architecture", "-qDEB_HOST_ARCH"], stdout=subprocess.PIPE, text=True,
                             check=True).stdout.strip()
    created = when.strftime("%Y-%m-%dT%H:%M:%SZ")
    layer = compress(rootfs)
    image = encoded({"architecture": machine, "os": "linux", "created": created, "config": config,
                     "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest(rootfs)}"]},
                     "history": [{"created": created, "created_by": "scripts/image.sh"}]})
    #  Tags have no '+' and no '~'.
    tag = re.sub(r"[^\w.-]", "-", version)
    names = [f"{digest(image)}.json", f"{digest(layer)}.tar.gz"]
    manifest = [{"Config": names[0], "RepoTags": ["tureen:latest", f"tureen:{tag}"], "Layers": names[1:]}]
    return {names[0]: image, names[1]: layer, "manifest.json": json.dumps(manifest).encode()}


def main() -> int:
    if len(sys.argv) != 5:
        print((__doc__ or "").strip(), file=sys.stderr)
        return 2
    containerfile, rootfs, version, out = sys.argv[1:]
    content = files(Path(containerfile), Path(rootfs).read_bytes(), version)
    with tarfile.open(out, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in content.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o644
            archive.addfile(member, io.BytesIO(data))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Lists what is in packages, or in the root file system of an image, as dpkg has it (SBOM, CycloneDX 1.5).

    python3 scripts/debian/sbom.py packages VERSION DEB... >FILE      what dpkg here has of their dependencies
    python3 scripts/debian/sbom.py image VERSION ROOTFS_TAR >FILE     all packages that are installed in it
"""
from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import uuid
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Set

Fields = Dict[str, str]
#  The text of the copyright file of a package, if there is one.
Copyright = Callable[[str], str]
LICENCE = re.compile(r"^License:[ \t]*(\S.*)$", re.MULTILINE)
ROOT = Path(__file__).resolve().parent.parent.parent


def paragraphs(text: str) -> List[Fields]:
    """As in dpkg's status file; the lines of a longer value are joined."""
    found = []
    for block in re.split(r"\n\s*\n", text.strip()):
        fields = re.findall(r"^([\w-]+):[ \t]*((?:.*)(?:\n[ \t].*)*)", block, re.MULTILINE)
        found.append({name: value.strip() for name, value in fields})
    return found


def installed(status: str) -> Dict[str, Fields]:
    return {each["Package"]: each for each in paragraphs(status)
            if each.get("Status", "").endswith(" installed")}


def providers(packages: Dict[str, Fields]) -> Dict[str, str]:
    found = {}
    for name in sorted(packages):
        for provided in packages[name].get("Provides", "").split(","):
            found.setdefault(provided.split("(")[0].strip(), name)
    return found


def needed(fields: Fields, packages: Dict[str, Fields], provided: Dict[str, str]) -> List[str]:
    """The packages that it depends on, each by the alternative that is there, else by the first."""
    found = set()
    for wanted in ",".join(fields.get(key, "") for key in ("Pre-Depends", "Depends")).split(","):
        names = [re.split(r"[ (:]", each.strip())[0] for each in wanted.split("|")]
        names = [provided.get(name, name) if name not in packages else name for name in names]
        there = [name for name in names if name in packages] or names
        if there[0]:
            found.add(there[0])
    return sorted(found)


def purl(fields: Fields) -> str:
    version = fields.get("Version", "").replace("+", "%2B")
    origin = "tureen" if fields.get("Source", fields["Package"]) == "tureen" else "debian"
    return "pkg:deb/{}/{}{}?arch={}".format(origin, fields["Package"], "@" + version if version else "",
                                          fields.get("Architecture", "any"))


def component(fields: Fields, licences: Sequence[str]) -> Dict[str, Any]:
    told: Dict[str, Any] = {"type": "library", "name": fields["Package"], "purl": purl(fields),
                            "bom-ref": purl(fields)}
    if fields.get("Version"):
        told["version"] = fields["Version"]
    if fields.get("Source"):
        told["properties"] = [{"name": "debian:source", "value": fields["Source"]}]
    if licences:
        told["licenses"] = [{"license": {"name": name}} for name in licences]
    if fields.get("SHA256"):
        told["hashes"] = [{"alg": "SHA-256", "content": fields["SHA256"]}]
    return told


def licences_of(text: str) -> List[str]:
    """As the copyright file names them, if it is written for machines."""
    return sorted({match.strip() for match in LICENCE.findall(text)}) if text.startswith("Format:") else []


def document(subject: Fields, packages: Dict[str, Fields], roots: Sequence[str], text_of: Copyright) -> str:
    """roots: the packages that the subject consists of; packages: these, and all that they need."""
    provided = providers(packages)
    commit = tell("commit")
    about = {"type": subject["type"], "name": "tureen", "version": subject["version"], "bom-ref": "tureen",
             "licenses": [{"license": {"id": "Apache-2.0"}}],
             "properties": [{"name": "git:commit", "value": commit}]}
    order = sorted(packages)
    when = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH") or tell("time")), timezone.utc)
    told = {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL,
                                   f"tureen/{subject['type']}/{subject['version']}/{commit}").urn,
        "metadata": {"timestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"), "component": about},
        "components": [component(packages[name], licences_of(text_of(name))) for name in order],
        "dependencies": [
            {"ref": "tureen", "dependsOn": [purl(packages[name]) for name in roots]},
            *({"ref": purl(packages[name]),
               "dependsOn": [purl(packages[each]) for each in needed(packages[name], packages, provided)
                             if each in packages]} for name in order)]}
    return json.dumps(told, indent=1) + "\n"


def tell(what: str) -> str:
    done = subprocess.run(["sh", str(ROOT / "scripts" / "version.sh"), what], stdout=subprocess.PIPE,
                          check=True, text=True)
    return done.stdout.strip()


def of_packages(version: str, debs: Sequence[str]) -> str:
    there = installed(Path("/var/lib/dpkg/status").read_text(encoding="utf-8"))
    packages: Dict[str, Fields] = {}
    for deb in debs:
        said = subprocess.run(["dpkg-deb", "--field", deb], stdout=subprocess.PIPE, check=True, text=True)
        [fields] = paragraphs(said.stdout)
        fields["SHA256"] = hashlib.sha256(Path(deb).read_bytes()).hexdigest()
        packages[fields["Package"]] = fields
    roots = sorted(packages)
    provided = providers({**there, **packages})
    waiting: Set[str] = set(roots)
    while waiting:
        fields = packages[waiting.pop()]
        #  What is in the package itself without being a package there.
        built_in = re.sub(r"\(=.*?\)", "", fields.get("Static-Built-Using", ""))
        names = needed(fields, {**there, **packages}, provided) + built_in.replace(",", " ").split()
        for name in names:
            if name not in packages:
                packages[name] = there.get(name, {"Package": name})
                waiting.add(name)

    def text_of(name: str) -> str:
        path = Path("/usr/share/doc") / name / "copyright"
        if name in roots:
            path = ROOT / "debian" / "copyright"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    return document({"type": "application", "version": version}, packages, roots, text_of)


def of_image(version: str, rootfs: str) -> str:
    texts: Dict[str, str] = {}
    status: Optional[str] = None
    with tarfile.open(rootfs) as archive:
        for member in archive:
            name = "/" + member.name.lstrip("./")
            match = re.fullmatch(r"/usr/share/doc/([^/]+)/copyright", name)
            if member.isfile() and (match or name == "/var/lib/dpkg/status"):
                file = archive.extractfile(member)
                assert file
                text = file.read().decode("utf-8", "replace")
                if match:
                    texts[match.group(1)] = text
                else:
                    status = text
    if status is None:
        sys.exit(f"sbom.py: {rootfs} has no /var/lib/dpkg/status: it is no root file system of Debian")
    packages = installed(status)
    return document({"type": "container", "version": version}, packages, sorted(packages),
                    lambda name: texts.get(name, ""))


def main() -> int:
    if len(sys.argv) < 4 or sys.argv[1] not in ("packages", "image"):
        print((__doc__ or "").strip(), file=sys.stderr)
        return 2
    if sys.argv[1] == "packages":
        sys.stdout.write(of_packages(sys.argv[2], sys.argv[3:]))
    else:
        sys.stdout.write(of_image(sys.argv[2], sys.argv[3]))
    return 0


if __name__ == "__main__":
    sys.exit(main())

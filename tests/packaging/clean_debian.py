"""A clean Debian of the smallest kind, made by debootstrap, with processes, mounts and network of its own.

It needs root.  Everything that runs in it ends with `close`, and nothing of it stays mounted.
"""
from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import IO, Dict, List, Sequence, Union

SOURCE = Path(__file__).resolve().parent.parent.parent
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
               "DEBIAN_FRONTEND": "noninteractive", "HOME": "/root"}
#  Files that differ after anything was installed and removed, whatever it was: apt's and dpkg's own.
BOOKKEEPING = ("/var/log/", "/var/cache/", "/var/lib/dpkg/", "/var/lib/apt/", "/etc/passwd-", "/etc/group-",
               "/etc/shadow-", "/etc/gshadow-", "/etc/ld.so.cache", "/etc/.pwd.lock", "/run/adduser", "/tmp",
               "/root")
MOUNTS = """
set -e
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount -t tmpfs -o mode=755 dev "$1/dev"
for name in null zero full random urandom tty; do
    touch "$1/dev/$name"
    mount --bind "/dev/$name" "$1/dev/$name"
done
mkdir "$1/dev/shm"
ln -s /proc/self/fd "$1/dev/fd"
echo ready
exec sleep infinity
"""


class Failed(AssertionError):
    """A command in it ended otherwise than it should."""


class CleanDebian:
    def __init__(self, sources: str) -> None:
        """sources: lines of a sources.list; the first names the archive."""
        self.folder = Path(tempfile.mkdtemp(prefix="tu-debian-", dir=os.environ.get("TMPDIR", "/tmp")))
        self.folder.chmod(0o755)
        self.root = self.folder / "root"
        self.started: List["subprocess.Popen[str]"] = []
        found = [line.split()[1:3] for line in sources.splitlines()]
        [mirror, suite] = [each for each in found if "-" not in each[1]][0]
        self._run(["debootstrap", "--variant=minbase", suite, str(self.root), mirror])
        (self.root / "etc" / "apt" / "sources.list").write_text(sources)
        #  It does not outlive the test: nothing has to reach the disk.
        (self.root / "etc" / "dpkg" / "dpkg.cfg.d" / "unsafe-io").write_text("force-unsafe-io\n")
        for name in ("resolv.conf", "hosts"):
            shutil.copy(f"/etc/{name}", self.root / "etc" / name)
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child", "sh", "-c",
             MOUNTS, "sh", str(self.root)], stdout=subprocess.PIPE, text=True)
        assert self.holder.stdout
        if self.holder.stdout.readline() != "ready\n":
            raise Failed("the namespaces of the clean Debian could not be made")
        children = Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children").read_text().split()
        self.first = children[0]

    def close(self) -> None:
        self.holder.kill()
        self.holder.wait()
        for process in self.started:
            process.wait()
        shutil.rmtree(self.folder)

    def command(self, words: Sequence[str], user: str = "", net: bool = False) -> List[str]:
        """The command here that runs the words there; with `net` it has this machine's network."""
        enter = ["nsenter", "--target", self.first, "--mount", "--pid", "--ipc", "--uts"]
        enter += [] if net else ["--net"]
        drop = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--no-new-privs",
                "--inh-caps=-all", "--bounding-set=-all"] if user else []
        return [*enter, "chroot", str(self.root), *drop, *words]

    def run(self, *words: str, user: str = "", net: bool = False, status: int = 0) -> str:
        return self._run(self.command(words, user, net), status)

    def start(self, *words: str, user: str, log: "IO[str]", environment: "Dict[str, str]"
              ) -> "subprocess.Popen[str]":
        process = subprocess.Popen(self.command(words, user), stdout=log, stderr=subprocess.STDOUT, text=True,
                                   stdin=subprocess.DEVNULL, env=dict(ENVIRONMENT, **environment))
        self.started.append(process)
        return process

    def apt(self, *words: str, net: bool = True) -> str:
        return self.run("apt-get", "-q", "-y", "--no-install-recommends", *words, net=net)

    def path(self, inside: Union[str, Path]) -> Path:
        return Path(f"{self.root}{inside}")

    def files(self) -> Dict[str, str]:
        """What is there: type, mode and owner of each path, the size of files, and the content of those of
        /etc."""
        found = {}
        for folder, folders, names in os.walk(self.root):
            for name in [*folders, *names]:
                path = Path(folder) / name
                inside = str(path)[len(str(self.root)):]
                if inside.startswith(("/proc", "/dev", "/sys")):
                    continue
                status = path.lstat()
                told = f"{status.st_mode:o} {status.st_uid}:{status.st_gid}"
                if path.is_symlink():
                    told += f" -> {os.readlink(path)}"
                elif path.is_file():
                    told += f" {status.st_size}"
                    if inside.startswith("/etc/"):
                        told += " " + hashlib.sha256(path.read_bytes()).hexdigest()
                found[inside] = told
        return found

    @staticmethod
    def _run(words: Sequence[str], status: int = 0) -> str:
        environment = {key: value for key, value in os.environ.items() if key.lower().endswith("_proxy")}
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              stdin=subprocess.DEVNULL, env=dict(environment, **ENVIRONMENT))
        if done.returncode != status:
            raise Failed(f"{' '.join(words[-8:])} ended with {done.returncode}:\n{done.stdout[-4000:]}")
        return done.stdout


def differences(before: Dict[str, str], after: Dict[str, str]) -> List[str]:
    """What another tree of files has, lacks, or has otherwise; apt's and dpkg's own files aside."""
    found = []
    for path in sorted(set(before) | set(after)):
        if before.get(path) != after.get(path) and not path.startswith(BOOKKEEPING):
            found.append(f"{path}: {before.get(path, 'was not there')}; now {after.get(path, 'gone')}")
    return found

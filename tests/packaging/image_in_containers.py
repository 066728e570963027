"""The container image: a server and two clients in three containers that have nothing in common but a folder.

Run by tests/packaging/image.sh:
    python3 tests/packaging/image_in_containers.py FOLDER      which scripts/image.sh has built into

The runner is podman if it can run the image here, else bubblewrap, without any rights of root; RUNNER=podman
or RUNNER=bubblewrap in the environment chooses.  Ends with 77 (a skip) where neither can.
"""
from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

SOURCE = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(SOURCE / "tests" / "system"))
USER, SAMPLES, EPOCHS = 1000, 301, 2
PATIENCE_S = 120


class Failed(AssertionError):
    """A command ended otherwise than it should, or a runner cannot run here."""


def call(words: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=PATIENCE_S)


def called(words: Sequence[str]) -> str:
    done = call(words)
    if done.returncode:
        raise Failed(f"{' '.join(words[-6:])} ended with {done.returncode}: "
                     f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


class Podman:
    """Containers of podman; its images and all else that it keeps lie in a folder of the test."""

    def __init__(self, image: Path, folder: Path) -> None:
        self.base = ["podman", f"--root={folder}/images", f"--runroot={folder}/podman",
                     "--storage-driver=vfs", "--cgroup-manager=cgroupfs", "--events-backend=none",
                     "--log-level=fatal"]
        #  By default podman raises these, which not every root may; its own number of processes it lowers.
        processes = int(Path("/proc/sys/kernel/pid_max").read_text())
        limits = [f"--ulimit={name}={most}:{most}" for name, most in (
            ("nofile", resource.getrlimit(resource.RLIMIT_NOFILE)[1]),
            ("nproc", min(processes, resource.getrlimit(resource.RLIMIT_NPROC)[1] % (1 << 62))))]
        self.options = ["--network=none", "--read-only", "--read-only-tmpfs=false",
                        "--cap-drop=all", "--security-opt=no-new-privileges", "--health-interval=disable",
                        *limits]
        called([*self.base, "load", "--quiet", "--input", str(image)])
        #  Whether a runtime takes this machine's cgroups shows when it runs.
        plain = (self.base, self.options)
        for runtime, more in (([], ["--cgroups=disabled"]), ([], []), (["--runtime=runc"], [])):
            self.base, self.options = [*plain[0], *runtime], [*plain[1], *more]
            if call(self.run_words({}, ["true"])).returncode == 0:
                break

    def run_words(self, mounts: Dict[str, str], words: Sequence[str], name: str = "") -> List[str]:
        volumes = []
        for inside, outside in mounts.items():
            path, _, how = outside.partition(":")
            volumes.append(f"--volume={path}:{inside}:{how or 'rw'}")
        return [*self.base, "run", *([f"--name={name}"] if name else []), "--rm", *self.options, *volumes,
                "localhost/tureen", *words]

    def health(self, mounts: Dict[str, str]) -> int:
        return call([*self.base, "healthcheck", "run", "server"]).returncode

    def stop(self, server: "subprocess.Popen[str]") -> int:
        called([*self.base, "stop", "--time=30", "server"])
        return server.wait(PATIENCE_S)

    def close(self) -> None:
        call([*self.base, "rm", "--all", "--force"])


class Bubblewrap:
    """Containers of bubblewrap, by a user without rights; what the image says of itself is read here."""

    def __init__(self, image: Path, folder: Path) -> None:
        self.root = folder / "root"
        self.root.mkdir()
        with tarfile.open(image) as archive:
            manifest = json.load(self.file(archive, "manifest.json"))[0]
            self.config: Dict[str, Any] = json.load(self.file(archive, manifest["Config"]))["config"]
            for layer in manifest["Layers"]:
                unpack = subprocess.Popen(["tar", "-xz", "--no-same-owner", "-C", str(self.root)],
                                          stdin=subprocess.PIPE)
                assert unpack.stdin
                shutil.copyfileobj(self.file(archive, layer), unpack.stdin)
                unpack.stdin.close()
                if unpack.wait():
                    raise Failed("the layer of the image could not be unpacked")
        user, group = self.config["User"].split(":")
        drop = ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups"]
        drop = drop if os.getuid() == 0 else []
        environment = [word for each in self.config["Env"]
                       for word in ("--setenv", *each.split("=", 1))]
        self.base = [*drop, "bwrap", "--unshare-user", "--uid", user, "--gid", group, "--unshare-pid",
                     "--unshare-ipc", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try",
                     "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv", *environment,
                     "--ro-bind", str(self.root), "/", "--proc", "/proc", "--dev", "/dev"]

    @staticmethod
    def file(archive: tarfile.TarFile, name: str) -> Any:
        return archive.extractfile(name)

    def run_words(self, mounts: Dict[str, str], words: Sequence[str], name: str = "") -> List[str]:
        binds: List[str] = []
        for inside, outside in mounts.items():
            binds += ["--ro-bind" if outside.endswith(":ro") else "--bind", outside.split(":")[0], inside]
        return [*self.base, *binds, "--chdir", self.config["WorkingDir"], *(words or self.config["Cmd"])]

    def health(self, mounts: Dict[str, str]) -> int:
        """In a container of its own: bubblewrap enters none that runs."""
        assert self.config["Healthcheck"]["Test"][0] == "CMD"
        return call(self.run_words(mounts, self.config["Healthcheck"]["Test"][1:])).returncode

    def stop(self, server: "subprocess.Popen[str]") -> int:
        """As a runner does it: a signal to the container's program, which is what bubblewrap has started."""
        number = server.pid
        while Path(f"/proc/{number}/comm").read_text() != "tureen\n":
            number = int(Path(f"/proc/{number}/task/{number}/children").read_text().split()[0])
        os.kill(number, getattr(signal, self.config["StopSignal"]))
        return server.wait(PATIENCE_S)

    def close(self) -> None:
        pass


def find_runner(image: Path, folder: Path) -> "Podman | Bubblewrap":
    """Ends the program where no runner can run the image."""
    refusals = []
    for name, tool, kind in (("podman", "podman", Podman), ("bubblewrap", "bwrap", Bubblewrap)):
        if os.environ.get("RUNNER", name) != name:
            continue
        if shutil.which(tool) is None:
            refusals.append(f"{name}: not installed")
            continue
        into = folder / name
        into.mkdir(mode=0o755)
        try:
            found = kind(image, into)
            called(found.run_words({}, ["tureen", "--version"]))
            return found
        except (Failed, subprocess.TimeoutExpired) as error:
            refusals.append(f"{name}: {str(error).strip().splitlines()[-1]}")
    print("SKIPPED, nothing was tested: no runner of containers works here:\n  " + "\n  ".join(refusals),
          flush=True)
    sys.exit(77)


class Containers(unittest.TestCase):
    built: Path
    runner: "Podman | Bubblewrap"
    took_s: Dict[str, float]

    def setUp(self) -> None:
        import harness
        self.folder = Path(tempfile.mkdtemp(prefix="tu-image-", dir=os.environ.get("TMPDIR", "/tmp")))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.folder.chmod(0o755)
        harness.make_folder(str(self.folder / "data" / "train"), SAMPLES, classes=3)
        (self.folder / "run").mkdir(mode=0o700)
        if os.getuid() == 0:
            os.chown(self.folder / "run", USER, USER)
        self.mounts = {"/run/tureen": str(self.folder / "run")}

    def start(self, name: str, mounts: Dict[str, str], *words: str) -> "subprocess.Popen[str]":
        with (self.folder / f"{name}.log").open("w") as log:
            process = subprocess.Popen(self.runner.run_words(mounts, words, name), stdin=subprocess.DEVNULL,
                                       stdout=log, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def inside(self, *words: str, mounts: Optional[Dict[str, str]] = None) -> str:
        return called(self.runner.run_words(self.mounts if mounts is None else mounts, words))

    def test_a_server_and_two_clients(self) -> None:
        began = time.monotonic()
        server = self.start("server", {**self.mounts, "/data": f"{self.folder / 'data'}:ro"})
        while "listening on" not in self.said("server"):
            self.assertIsNone(server.poll(), self.said("server"))
            self.assertLess(time.monotonic() - began, PATIENCE_S, self.said("server"))
            time.sleep(0.05)
        self.took_s["a server"] = time.monotonic() - began
        self.assertEqual(self.runner.health(self.mounts), 0)
        began = time.monotonic()
        told = json.loads(self.inside("tureen", "read", "--dataset", "train", "--json"))
        self.assertEqual(told["samples"], SAMPLES)
        self.took_s["a client, an epoch"] = time.monotonic() - began
        for step, seconds in self.took_s.items():
            print(f"{seconds:6.1f} s  {step}", flush=True)

        clients = {name: self.start(name, self.mounts, "tureen", "read", "--dataset", "train",
                                    "--batch", "16", "--epochs", str(EPOCHS), "--rate", "60", "--name", name,
                                    "--ids", f"/run/tureen/{name}.ids") for name in ("first", "second")}
        transports: Dict[str, str] = {}
        began = time.monotonic()
        while len(transports) < 2:
            told = json.loads(self.inside("tureen", "status", "--json"))
            transports.update({job["name"]: job["transport"] for job in told["jobs"] if job.get("transport")})
            for name, process in clients.items():
                self.assertIsNone(process.poll(), self.said(name))
            self.assertLess(time.monotonic() - began, PATIENCE_S, told)
        self.assertEqual(transports, {"first": "ring", "second": "ring"}, "shared memory crosses")
        for name, process in clients.items():
            self.assertEqual(process.wait(PATIENCE_S), 0, self.said(name))
            for line in (self.folder / "run" / f"{name}.ids").read_text().splitlines():
                ids = sorted(int(each) for each in line.split(":")[1].split())
                self.assertEqual(ids, list(range(SAMPLES)))
        self.assertEqual(self.runner.stop(server), 0, self.said("server"))
        self.assertNotEqual(self.runner.health(self.mounts), 0, "no server, no health")

    def test_what_runs_in_it_has_no_rights(self) -> None:
        self.assertEqual(self.inside("id", "-u").strip(), str(USER))
        for path in ("/x", "/usr/bin/x", "/etc/x", "/var/x"):
            done = call(self.runner.run_words(self.mounts, ["touch", path]))
            self.assertIn("Read-only file system", done.stderr)
        self.inside("touch", "/run/tureen/x")
        with tarfile.open(self.built / "rootfs.tar") as archive:
            found = [each.name for each in archive if each.isfile() and each.mode & 0o6000]
        self.assertEqual(found, [], "nothing gives its caller another user's rights")
        self.assertRegex(self.inside("grep", "CapBnd", "/proc/self/status"), "0000000000000000")

    def test_what_the_manifests_need(self) -> None:
        """The scripts of share/kubernetes; and that nothing tells of the machine that has built it."""
        for tool in ("sh", "getent", "awk", "sort", "cmp", "stat", "chown"):
            self.inside("sh", "-c", f"command -v {tool}")
        self.assertEqual(self.inside("cat", "/usr/share/doc/tureen/copyright").splitlines()[1],
                         "Upstream-Name: Tureen")
        [sbom] = self.built.glob("tureen-image_*.cdx.json")
        listed = {each["name"]: each for each in json.loads(sbom.read_text())["components"]}
        installed = self.inside("dpkg-query", "--show", "--showformat=${Package}=${Version}\n").split()
        self.assertEqual(sorted(f"{name}={each['version']}" for name, each in listed.items()),
                         sorted(installed))


def main() -> int:
    if len(sys.argv) < 2:
        print((__doc__ or "").strip(), file=sys.stderr)
        return 2
    Containers.built = Path(sys.argv[1])
    [image] = Containers.built.glob("tureen-image_*.tar")
    folder = Path(tempfile.mkdtemp(prefix="tu-image-", dir=os.environ.get("TMPDIR", "/tmp")))
    folder.chmod(0o755)
    runner = None
    try:
        began = time.monotonic()
        Containers.runner = runner = find_runner(image, folder)
        Containers.took_s = {f"the image loaded ({type(runner).__name__.lower()})": time.monotonic() - began}
        return not unittest.main(argv=sys.argv[:1] + sys.argv[2:], exit=False).result.wasSuccessful()
    finally:
        if runner:
            runner.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())

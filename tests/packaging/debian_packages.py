"""The Debian packages in a clean Debian: installed, served from, upgraded under running jobs, purged.

Run by tests/packaging/deb.sh as root:
    python3 tests/packaging/debian_packages.py FOLDER NEWER      folders that scripts/deb.sh has built into
"""
from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path
from typing import IO, Dict, List, Optional

from clean_debian import SOURCE, CleanDebian, Failed, differences

sys.path.insert(0, str(SOURCE / "tests" / "system"))
SAMPLES, EPOCHS, RATE = 600, 5, 120
PATIENCE_S = 120
ENDPOINT = "ipc:///run/tureen/server.sock"
CLIENT = {"TUREEN_ENDPOINT": ENDPOINT, "HOME": "/home/anna"}
PACKAGES = ("tureen", "libtureen0", "libtureen-dev", "python3-tureen")
SETTINGS = """
dataset
    train = /data/train
tenant
    vision = anna
tenant-datasets
    vision = *
"""
#  A training loop: the ids that it was given, a line an epoch, as `tureen read --ids` writes them.
JOB = """
import sys, time, tureen
loader = tureen.Loader(dataset="train", batch_size=20, epochs=int(sys.argv[1]))
epochs = {}
for batch in loader:
    epochs.setdefault(batch.epoch, []).extend(int(each) for each in batch.ids)
    time.sleep(20 / float(sys.argv[2]))
with open(sys.argv[3], "w") as file:
    for epoch in sorted(epochs):
        print("%d: %s" % (epoch, " ".join(map(str, epochs[epoch]))), file=file)
"""


def wait_until(what: str, question: "object", seconds: float = PATIENCE_S) -> None:
    end = time.monotonic() + seconds
    while not question():               # type: ignore[operator]
        if time.monotonic() > end:
            raise Failed(f"not within {seconds} s: {what}")
        time.sleep(0.05)


class Unit:
    """What systemd would do with the installed unit, as far as a server sees it."""

    def __init__(self, debian: CleanDebian) -> None:
        self.debian = debian
        self.process: "Optional[subprocess.Popen[str]]" = None
        text = debian.path("/lib/systemd/system/tureen.service").read_text()
        self.settings: Dict[str, str] = dict(re.findall(r"(?m)^(\w+)=(.*)$", text))
        self.log = debian.folder / "server.log"

    def start(self) -> None:
        user, group = self.settings["User"], self.settings["Group"]
        for kind, parent in (("Runtime", "/run"), ("State", "/var/lib")):
            name, mode = self.settings[f"{kind}Directory"], self.settings[f"{kind}DirectoryMode"]
            self.debian.run("install", "-d", "-o", user, "-g", group, "-m", mode, f"{parent}/{name}")
        before = len(self.log.read_text()) if self.log.exists() else 0
        with self.log.open("a") as log:
            self.process = self.debian.start(
                "sh", "-c", f"umask {self.settings['UMask']}; exec {self.settings['ExecStart']}", user=user,
                log=log, environment={})
        process = self.process
        wait_until("the server listens", lambda: "listening on" in self.log.read_text()[before:]
                   or process.poll() is not None)
        if process.poll() is not None:
            raise Failed(f"the server did not start:\n{self.log.read_text()[before:]}")

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Its exit status."""
        assert self.process
        self.debian.run("pkill", "-x", f"-{number}", "tureen", "-u", self.settings["User"])
        return self.process.wait(PATIENCE_S)


class Packages(unittest.TestCase):
    folders: List[Path]

    @classmethod
    def setUpClass(cls) -> None:
        import harness
        began = time.monotonic()
        sources = subprocess.run(["sh", str(SOURCE / "scripts" / "debian" / "sources.sh")],
                                 stdout=subprocess.PIPE, text=True, check=True).stdout
        cls.debian = CleanDebian(sources)
        cls.addClassCleanup(cls.debian.close)
        cls.debian.apt("update")
        #  pkill, with which the test plays systemd.
        cls.debian.apt("install", "procps")
        cls.debian.run("useradd", "--create-home", "anna")
        for index, folder in enumerate(cls.folders):
            into = cls.debian.path(f"/packages{index}")
            into.mkdir()
            for deb in folder.glob("*.deb"):
                if "-dbgsym_" not in deb.name:
                    shutil.copy(deb, into)
        harness.make_folder(str(cls.debian.path("/data/train")), SAMPLES, classes=4)
        print(f"a clean Debian: {time.monotonic() - began:.1f} s", flush=True)

    def debs(self, index: int) -> List[str]:
        return sorted(f"/packages{index}/{deb.name}"
                      for deb in self.debian.path(f"/packages{index}").glob("*.deb"))

    def test_from_nothing_to_nothing(self) -> None:
        """One test, because each step stands on the one before."""
        before = self.debian.files()
        self.install()
        self.first_batch()
        self.check_unit_and_files()
        self.check_library()
        self.upgrade_under_jobs()
        self.remove_and_purge(before)

    def install(self) -> None:
        self.debian.apt("install", "--download-only", *self.debs(0))
        began = time.monotonic()
        self.debian.apt("install", *self.debs(0))
        self.took_s = {"apt install ./*.deb (after the download)": time.monotonic() - began}
        told = self.debian.run("tureen", "--version").split()[1]
        self.assertEqual(self.debian.run("python3", "-c", "import tureen; print(tureen.__version__)").strip(),
                         told)
        self.assertEqual(self.debian.run(
            "python3", "-c", "import importlib.metadata as m; print(m.version('tureen'))").strip(), told)

    def first_batch(self) -> None:
        """Three commands: install; serve; read.  As a user of her own, without any settings."""
        environment = {"HOME": "/home/anna"}
        began = time.monotonic()
        log = self.debian.folder / "anna.log"
        with log.open("w") as file:
            server = self.debian.start("tureen", "serve", "--dataset", "train=/data/train", user="anna",
                                       log=file, environment=environment)
        wait_until("her server listens", lambda: "listening on" in log.read_text()
                   or server.poll() is not None)
        self.took_s["tureen serve --dataset train=FOLDER"] = time.monotonic() - began
        began = time.monotonic()
        told = json.loads(self.debian.run("tureen", "read", "--dataset", "train", "--json", user="anna"))
        self.took_s["tureen read --dataset train (an epoch)"] = time.monotonic() - began
        self.assertEqual(told["samples"], SAMPLES)
        self.debian.run("tureen", "drain", "--wait", user="anna")
        self.assertEqual(server.wait(PATIENCE_S), 0)
        for step, seconds in self.took_s.items():
            print(f"{seconds:6.1f} s  {step}", flush=True)

    def check_unit_and_files(self) -> None:
        for unit in ("lib/systemd/system", "usr/lib/systemd/user"):
            path = self.debian.path(f"/{unit}/tureen.service")
            self.assertIn("ExecStart=/usr/bin/tureen serve --config ", path.read_text())
        for path in ("/usr/share/bash-completion/completions/tureen", "/usr/share/man/man1/tureen.1.gz",
                     "/usr/share/zsh/vendor-completions/_tureen", "/etc/tureen/server.zpl"):
            self.assertTrue(self.debian.path(path).is_file(), path)
        self.assertIn("/etc/tureen/server.zpl",
                      self.debian.run("dpkg-query", "--show", "--showformat=${Conffiles}", "tureen"))
        self.assertRegex(self.debian.run("getent", "passwd", "tureen"), "/var/lib/tureen:/usr/sbin/nologin$")
        #  Without systemd here these lines do not run; that they are there keeps a server from running on
        #  unseen after a removal, and an old one after an upgrade.
        for script, action in (("postinst", "try-restart"), ("prerm", "stop")):
            text = self.debian.path(f"/var/lib/dpkg/info/tureen.{script}").read_text()
            self.assertRegex(text, rf"deb-systemd-invoke {action} '?tureen.service")
        if shutil.which("systemd-analyze"):
            #  Of this machine, so the program's path is the one that the file has here.
            text = self.debian.path("/lib/systemd/system/tureen.service").read_text()
            unit = self.debian.folder / "tureen.service"
            unit.write_text(text.replace("/usr/bin/tureen", f"{self.debian.root}/usr/bin/tureen"))
            said = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual((said.returncode, "tureen" in said.stdout), (0, False), said.stdout)

    def check_library(self) -> None:
        """The example of the README's kind, compiled here against what is installed there."""
        root, example = str(self.debian.root), str(self.debian.path("/home/anna/example"))
        [library] = self.debian.path("/usr/lib").glob("*/libtureen.so")
        subprocess.run(["cc", str(SOURCE / "examples" / "c_resume.c"), "-o", example,
                        f"-I{root}/usr/include", f"-L{library.parent}",
                        f"-Wl,-rpath-link,{library.parent}", "-ltureen",
                        "-Wl,--allow-shlib-undefined"], check=True)
        self.assertIn("libtureen.so.0", subprocess.run(["objdump", "-p", example], stdout=subprocess.PIPE,
                                                       text=True, check=True).stdout)

    def upgrade_under_jobs(self) -> None:
        self.debian.run("usermod", "-a", "-G", "tureen", "anna")
        settings = self.debian.path("/etc/tureen/server.zpl")
        settings.write_text(settings.read_text() + SETTINGS)
        unit = Unit(self.debian)
        unit.start()
        version = self.server_version()
        job = self.debian.path("/home/anna/job.py")
        job.write_text(JOB)
        jobs = {name: self.client(name, *words) for name, words in {
            "read1": ("tureen", "read", "--dataset", "train", "--batch", "20", "--epochs", str(EPOCHS),
                      "--rate", str(RATE), "--ids", "/home/anna/read1.ids"),
            "read2": ("tureen", "read", "--dataset", "train", "--batch", "16", "--epochs", str(EPOCHS),
                      "--rate", str(RATE * 2 // 3), "--ids", "/home/anna/read2.ids"),
            "python": ("python3", "-B", "/home/anna/job.py", str(EPOCHS), str(RATE),
                       "/home/anna/python.ids")}.items()}
        wait_until("all jobs are there", lambda: len(self.status()["jobs"]) == len(jobs))
        wait_until("all are under way", self.all_under_way)
        #  An upgrade as docs/deployment.md has it: drain, install, start.
        self.debian.run("tureen", "drain", "--wait", "--connect", ENDPOINT)
        assert unit.process
        self.assertEqual(unit.process.wait(PATIENCE_S), 0)
        self.debian.apt("install", *self.debs(1))
        self.assertTrue(settings.read_text().endswith(SETTINGS), "settings were kept")
        unit = Unit(self.debian)
        unit.start()
        newer = self.server_version()
        self.assertNotEqual(newer, version)
        self.assertEqual(newer, self.debian.run("tureen", "--version").split()[1])
        wait_until("all jobs have come back", lambda: len(self.status()["jobs"]) == len(jobs))
        wait_until("all are under way again", self.all_under_way)
        #  And as the package's script does it to a server that runs: a restart, in the middle of epochs.
        self.debian.apt("install", "--reinstall", *self.debs(1), net=False)
        self.assertEqual(unit.stop(), 0)
        unit.start()
        for name, process in jobs.items():
            self.assertEqual(process.wait(PATIENCE_S), 0, self.said(name))
            self.assert_each_sample_once(name)
        self.debian.run("tureen", "audit", "--samples", str(SAMPLES),
                        *(f"/home/anna/{name}.ids" for name in jobs))
        #  And what is in C.
        example = self.client("example", "/home/anna/example", "train", "/home/anna/example.state")
        self.assertEqual(example.wait(PATIENCE_S), 0, self.said("example"))
        images = sum(int(line.split()[0]) for line in self.said("example").splitlines())
        self.assertEqual(images, 2 * SAMPLES)
        self.assertEqual(unit.stop(), 0)
        print(f"{len(jobs)} jobs of {EPOCHS} epochs of {SAMPLES} samples over a drain, an upgrade from "
              f"{version} to {newer}, and a restart: each sample once an epoch", flush=True)

    def client(self, name: str, *words: str) -> "subprocess.Popen[str]":
        with (self.debian.folder / f"{name}.log").open("w") as log:
            return self.debian.start(*words, user="anna", log=log, environment=CLIENT)

    def said(self, name: str) -> str:
        return (self.debian.folder / f"{name}.log").read_text()

    def status(self) -> "Dict[str, List[Dict[str, int]]]":
        told: "Dict[str, List[Dict[str, int]]]" = json.loads(
            self.debian.run("tureen", "status", "--json", "--connect", ENDPOINT))
        return told

    def all_under_way(self) -> bool:
        return all(each["consumed_samples"] for each in self.status()["jobs"])

    def server_version(self) -> str:
        return str(self.status()["version"])

    def assert_each_sample_once(self, name: str) -> None:
        lines = self.debian.path(f"/home/anna/{name}.ids").read_text().splitlines()
        self.assertEqual([line.split(":")[0] for line in lines], [str(epoch) for epoch in range(EPOCHS)])
        for line in lines:
            self.assertEqual(sorted(int(each) for each in line.split(":")[1].split()), list(range(SAMPLES)),
                             f"{name}, epoch {line.split(':')[0]}")

    def remove_and_purge(self, before: Dict[str, str]) -> None:
        owned = {line for package in PACKAGES for line in self.debian.run("dpkg", "-L", package).splitlines()}
        self.debian.path("/var/lib/tureen/keys").mkdir()
        self.debian.apt("remove", *PACKAGES, net=False)
        self.assertFalse(self.debian.path("/usr/bin/tureen").exists())
        self.assertTrue(self.debian.path("/etc/tureen/server.zpl").exists(), "settings stay until the purge")
        self.assertTrue(self.debian.path("/var/lib/tureen/keys").exists(), "keys stay until the purge")
        #  Of the others nothing is left that apt could purge.
        self.debian.apt("purge", "tureen", net=False)
        self.debian.apt("autoremove", "--purge", net=False)
        for path in self.debian.path("/home/anna").iterdir():
            if not path.name.startswith("."):
                path.unlink()
        after = self.debian.files()
        left = sorted(path for path in owned & set(after) if path not in before and path != "/.")
        self.assertEqual(left, [])
        self.assertEqual(differences(before, after), [])
        self.assertEqual([path for path in after if "tureen" in path and not path.startswith("/packages")],
                         [])


def main() -> int:
    if len(sys.argv) < 3:
        print((__doc__ or "").strip(), file=sys.stderr)
        return 2
    Packages.folders = [Path(each) for each in sys.argv[1:3]]
    return not unittest.main(argv=sys.argv[:1] + sys.argv[3:], exit=False).result.wasSuccessful()


if __name__ == "__main__":
    sys.exit(main())

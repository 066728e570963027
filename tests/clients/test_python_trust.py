"""What the Python client believes at a path: the cases of test_trust.c.  Other users' files take root.

Run by ctest (python_trust), or by hand: python3 tests/clients/test_python_trust.py
"""
from __future__ import annotations

import os
import shutil
import socket
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import client_checks  # noqa: F401  finds the client
from tureen import trust
from tureen.errors import NotTrusted

STRANGER, OWNER = 3007, 3008
NEEDS_ROOT = unittest.skipIf(os.geteuid(), "SKIPPED: other users' files need root")


class Trust(unittest.TestCase):
    def setUp(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="tureen-trust-", dir="/tmp"))
        self.addCleanup(shutil.rmtree, self.place)
        self.place.chmod(0o1777)
        clean = mock.patch.dict(os.environ)
        clean.start()
        self.addCleanup(clean.stop)
        os.environ.pop("XDG_RUNTIME_DIR", None)

    def folder(self, name: str, mode: int = 0o755, owner: int = -1) -> None:
        (self.place / name).mkdir()
        (self.place / name).chmod(mode)
        os.chown(self.place / name, owner, -1)

    def file(self, name: str, owner: int = -1) -> str:
        (self.place / name).touch()
        os.chown(self.place / name, owner, -1)
        return str(self.place / name)

    def link(self, name: str, target: str, owner: int = -1) -> None:
        os.symlink(target, self.place / name)
        os.lchown(self.place / name, owner, -1)

    def trusted(self, name: str, closed: bool) -> None:
        self.assertEqual(trust.check_path(str(self.place / name)), closed, name)

    def refused(self, name: str, words: str) -> None:
        with self.assertRaises(NotTrusted) as caught:
            trust.check_path(f"{self.place}/{name}")
        self.assertIn(words, str(caught.exception))
        self.assertIn(f"{self.place}/{name}", str(caught.exception))

    def listener(self, path: str, peer: int, trusted: bool) -> None:
        if trusted:
            trust.check_listener(path, peer)
        else:
            self.assertRaisesRegex(NotTrusted, "runs it, and is neither", trust.check_listener, path, peer)

    def test_own_places(self) -> None:
        self.trusted("s.sock", False)
        self.trusted("none/at/all/s.sock", False)
        self.folder("own")
        for name in ("own/s.sock", "own/../own/./s.sock", "own//s.sock"):
            self.assertTrue(trust.check_path(f"{self.place}/{name}"))
        self.file("own/s.sock")
        self.trusted("own/s.sock", True)
        self.link("link", "own")
        self.trusted("link/s.sock", True)
        self.link("loop", "loop")
        self.trusted("loop/s.sock", False)
        self.assertFalse(trust.check_path("@abstract"))
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.place)
        self.assertTrue(trust.check_path("own/s.sock"))

    def test_a_folder_that_others_may_write(self) -> None:
        self.folder("open", 0o777)
        self.refused("open/s.sock", "may write to the folder '")
        (self.place / "open").chmod(0o775)
        self.refused("open/s.sock", "chmod go-w it")
        self.file("open/s.sock")            # also where a server, or someone else, has made the socket
        self.refused("open/s.sock", f"the folder '{self.place}/open' and replace")
        (self.place / "open/s.sock").unlink()
        (self.place / "open").chmod(0o1777)
        self.trusted("open/s.sock", False)
        (self.place / "open").chmod(0o777)
        self.folder("open/own")
        self.trusted("open/own/s.sock", False)
        self.folder("login", 0o700)
        os.environ["XDG_RUNTIME_DIR"] = str(self.place / "login")
        self.folder("login/tureen", 0o1777)
        self.refused("login/tureen/server.sock", "may write to the folder '")
        self.file("login/tureen/server.sock")
        self.refused("login/tureen/server.sock", f"the folder '{self.place}/login/tureen' and replace")

    @NEEDS_ROOT
    def test_what_a_stranger_made(self) -> None:
        self.folder("folder", owner=STRANGER)
        self.file("folder/s.sock", STRANGER)
        self.refused("folder/s.sock", "folder' belongs to user 3007, and every user that may write to '")
        self.file("s.sock", STRANGER)
        self.refused("s.sock", "s.sock' belongs to user 3007")
        self.folder("own")
        self.link("link", "own", STRANGER)
        self.refused("link/s.sock", "link' belongs to user 3007")
        self.link("own/way", "../folder/none")
        self.refused("own/way/s.sock", "folder' belongs to user 3007")
        self.place.chmod(0o755)
        self.trusted("folder/s.sock", True)
        self.folder("named", 0o1777, OWNER)
        self.file("named/s.sock", OWNER)
        self.trusted("named/s.sock", False)
        for name in ("named/s.sock", "named"):
            os.chown(self.place / name, 65534, -1)
        self.refused("named/s.sock", "s.sock' belongs to user 65534")
        os.chown(self.place, STRANGER, -1)
        self.refused("folder/s.sock", "tureen-trust")

    def test_the_default_folder_is_held(self) -> None:
        """A client that waits for its server makes it, and no other; what is there is looked at."""
        held = self.place / "tureen-here"
        with mock.patch.object(trust, "in_tmp", lambda user: str(held) * (user == os.geteuid())):
            self.trusted("tureen-here2/server.sock", False)
            self.trusted("tureen-here", False)
            self.assertFalse(held.exists())
            with mock.patch.object(os, "mkdir", side_effect=OSError(30, "Read-only file system")):
                self.trusted("tureen-here/server.sock", False)
            self.trusted("tureen-here/server.sock", True)
            self.assertEqual(held.stat().st_mode & 0o7777, 0o700)
            held.chmod(0o755)
            self.trusted("tureen-here/server.sock", True)
            self.assertEqual(held.stat().st_mode & 0o7777, 0o755)
            if not os.geteuid():
                os.chown(held, STRANGER, -1)
                self.refused("tureen-here/server.sock", "belongs to user 3007")

    def test_who_listens(self) -> None:
        self.folder("own")
        own = str(self.place / "own/s.sock")
        for path, peer, trusted in ((own, os.geteuid(), True), (own, 0, True), (own, STRANGER, False),
                                    (str(self.place / "s.sock"), STRANGER, False),
                                    ("@abstract", STRANGER, False), ("@abstract", 0, True)):
            self.listener(path, peer, trusted)

    @NEEDS_ROOT
    def test_who_listens_for_several_users(self) -> None:
        self.folder("own")
        self.folder("own/named", owner=OWNER)
        named, given = str(self.place / "own/named/s.sock"), self.file("own/s.sock", OWNER)
        for path in (named, given):
            self.listener(path, OWNER, True)
            self.listener(path, STRANGER, False)

    def test_the_peer_of_a_connection(self) -> None:
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
            server.bind(str(self.place / "s.sock"))
            server.listen()
            client.connect(str(self.place / "s.sock"))
            self.assertEqual(trust.peer_of(client.fileno()), os.geteuid())
            self.assertNotEqual(client.fileno(), -1)
        with tempfile.TemporaryFile() as file:
            self.assertIsNone(trust.peer_of(file.fileno()))
            os.fstat(file.fileno())             # it is still open
        self.assertIsNone(trust.peer_of(1 << 20))

    def test_files_beside_the_socket(self) -> None:
        with trust.open_beside(self.file("own")) as file:
            self.assertEqual(file.read(), "")
        os.mkfifo(self.place / "fifo")
        self.link("link", "/etc/passwd")
        for name in ("fifo", "link", "none"):
            self.assertRaises(OSError, trust.open_beside, str(self.place / name))

    @NEEDS_ROOT
    def test_a_strangers_file_beside_the_socket(self) -> None:
        self.assertRaises(PermissionError, trust.open_beside, self.file("strange", STRANGER))


if __name__ == "__main__":
    unittest.main()

"""What `cmake --install` puts into a folder is enough: the example is built against it alone, and runs.

The folder of the build is TUREEN_BUILD, or the one that TUREEN_BIN is in."""
import glob
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import harness
from harness import SystemTest, wait_until

BUILD = os.environ.get("TUREEN_BUILD") or os.path.dirname(os.path.dirname(harness.TUREEN))
CMAKE = shutil.which("cmake", path="/usr/bin:" + os.environ.get("PATH", ""))


class Install(SystemTest):
    SAMPLES = 300

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.prefix = tempfile.mkdtemp(prefix="tu-prefix-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.prefix, ignore_errors=True)
        #   What was built for the tests is there; only what is installed matters, wherever it was to go.
        done = subprocess.run([CMAKE, "--install", BUILD, "--prefix", cls.prefix], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, universal_newlines=True)
        assert done.returncode == 0, done.stdout

    def find(self, name):
        found = [os.path.join(folder, name) for folder, _, files in os.walk(self.prefix) if name in files]
        self.assertEqual(len(found), 1, name)
        return found[0]

    def test_the_manual_names_what_there_is(self):
        """Every function of the header, and every command."""
        with open(self.find("libtureen.3")) as file:
            page = file.read()
        with open(self.find("tureen.h")) as file:
            functions = set(re.findall(r"\b(tureen_[a-z_]+) \(", file.read()))
        self.assertGreater(len(functions), 15)
        for name in functions:
            self.assertIn(name, page)
        with open(self.find("tureen.1")) as file:
            page = file.read()
        said = harness.run("--help").stdout
        for name in re.findall(r"^  ([a-z]+)  ", said, re.MULTILINE):
            self.assertIn(".B %s " % name, page)

    def test_the_example_is_built_and_goes_on(self):
        """Against the installed header and library; stopped, and started again with its state."""
        environment = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(self.find("tureen.pc")))
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "tureen"], env=environment,
                               stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout.split()
        library = next(flag[2:] for flag in flags if flag.startswith("-L"))
        self.assertTrue(os.path.realpath(library).startswith(os.path.realpath(self.prefix)), library)
        self.assertTrue(glob.glob(os.path.join(library, "libtureen.so.*")))
        program = os.path.join(self.prefix, "example")
        sanitize = ["-fsanitize="
                    + os.environ["TUREEN_SANITIZE"]] if os.environ.get("TUREEN_SANITIZE") else []
        subprocess.run(["cc", "-Wall", "-Wextra", "-Werror",
                        os.path.join(harness.SOURCE, "examples", "c_resume.c"), "-o", program, *sanitize,
                        *flags], check=True)
        with self.serve() as server:
            environment = dict(server.environment, TUREEN_ENDPOINT=server.endpoint, LD_LIBRARY_PATH=library)
            state = os.path.join(server.folder, "state")
            images = []
            for stop in (True, False):
                job = subprocess.Popen([program, "train", state], env=environment, stdout=subprocess.PIPE,
                                       bufsize=0)
                try:
                    output = job.stdout.read(64)
                    if stop:
                        job.send_signal(signal.SIGINT)
                    output += job.communicate(timeout=harness.PATIENCE)[0]
                finally:
                    job.kill()
                    job.wait()
                self.assertEqual(job.returncode, 0)
                images += [int(line.split()[0]) for line in output.splitlines()]
            self.assertEqual(sum(images), 2 * self.SAMPLES)
            wait_until("it has left", lambda: not server.job_names())


if __name__ == "__main__":
    unittest.main()

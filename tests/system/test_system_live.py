"""`tureen add` and `tureen remove` on a real server that is supervised, killed, and asked by a tenant too,
while eight jobs take their epochs of another data set and notice nothing."""
import os
import signal
import unittest

import harness
from harness import SystemTest, run, wait_until

EPOCHS, FIRST, SECOND = 2, 60, 40
PIPELINE = '[{"op": "decode"}, {"op": "resize", "size": [16, 16]}]'


class Live(SystemTest):
    SAMPLES = 240

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.first, cls.second = os.path.join(cls.root, "first"), os.path.join(cls.root, "second")
        harness.make_folder(cls.first, FIRST, seed=3)
        harness.make_folder(cls.second, SECOND, seed=4)

    def command(self, *arguments, status=0):
        """What `tureen` prints; if it should fail, on standard error."""
        done = run(*arguments, environment=self.server.environment, timeout=4 * harness.PATIENCE)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        return done.stderr if status else done.stdout

    def change(self, *arguments, status=0):
        return self.command(*arguments, "--connect", self.server.endpoint, status=status)

    def serve_with_keys(self):
        """A supervised server that users of this machine reach without a key, and a tenant with one."""
        keys, key = os.path.join(self.root, "keys"), os.path.join(self.root, "vision")
        os.mkdir(keys, 0o700)
        for arguments in (("new", key), ("allow", keys, key, "--tenant", "vision")):
            self.assertEqual(run("key", *arguments).returncode, 0)
        tcp = "tcp://127.0.0.1:%d" % harness.free_port()
        self.tenant = ("--connect", tcp, "--key", key, "--server-key", os.path.join(keys, "server"))
        server = self.serve(arguments=["--supervise", "--keys", keys, "--tenant", "vision=-",
                                       "--tenant-datasets", "vision=train"])
        server.endpoint += "," + tcp
        return server

    def read(self, **options):
        return self.server.read(**dict({"batch": 8, "epochs": EPOCHS, "pipeline": PIPELINE, "rejoin": 240,
                                        "timeout": 240}, **options))

    def assert_val(self, samples):
        self.assert_epochs(self.read(dataset="val", epochs=1).finish(), 1, ids=range(samples))

    def refuse_the_tenant(self):
        """It does not see the data set, in the words of one that is not there, and changes nothing."""
        said = [self.command("read", "--dataset", name, *self.tenant, status=1) for name in ("val", "zzz")]
        self.assertEqual(said[0], said[1].replace("zzz", "val"))
        self.assertNotIn('"val"', self.command("status", "--json", *self.tenant))
        self.assertIn("only an operator", self.command("add", "more=" + self.second, *self.tenant, status=1))
        self.assertIn("only an operator", self.command("remove", "train", "--now", *self.tenant, status=1))

    def remove_under_a_job(self):
        job = self.read(dataset="val", epochs=1000, rate=100)
        wait_until("it has samples", lambda: job.delivered() > 0)
        self.assertIn("(in_use)", self.change("remove", "val", status=1))
        self.assertIn("removed, and 1 job ends with it", self.change("remove", "val", "--now"))
        self.assertEqual(job.wait(), 1)
        self.assertIn("'val' was removed from the server (removed)", job.texts()[1])

    def kill_the_server(self):
        def child():
            with open("/proc/%d/task/%d/children" % (self.server.pid, self.server.pid)) as file:
                return file.read().split()
        before = child()
        os.kill(int(before[0]), signal.SIGKILL)
        wait_until("another one is there", lambda: child() not in ([], before))

    def test_added_used_removed_and_added_again(self):
        with self.serve_with_keys() as self.server:
            self.server.endpoint = self.server.endpoint.partition(",")[0]       # where the jobs look for it
            jobs = [self.read(rate=160, name="job %d" % number, seed=number) if number % 4 == 3
                    else self.read(rate=160, name="job %d" % number) for number in range(8)]
            wait_until("all are in their epochs", lambda: all(job.delivered() > 0 for job in jobs))
            self.assertIn("'val'", self.change("add", "val=" + self.first))
            self.assert_val(FIRST)
            self.refuse_the_tenant()
            self.assertIn("(taken)", self.change("add", "val=" + self.second, status=1))
            self.remove_under_a_job()
            self.change("add", "val=" + self.second)
            self.change("add", "val=" + self.second)
            self.assert_val(SECOND)
            self.kill_the_server()
            self.assert_val(SECOND)
            for job in jobs:
                self.assert_epochs(job.finish(), EPOCHS)


if __name__ == "__main__":
    unittest.main()

"""`tureen serve --supervise`: whatever kills the server, it is back, and its jobs go on; what ends by itself
stays ended; no process is left over."""
import contextlib
import json
import os
import signal
import subprocess
import sys
import unittest

import harness
from harness import SystemTest, is_alive, run, seeded, wait_until

PIPELINE = json.dumps([{"op": "decode"}, {"op": "resize", "size": [16, 16]}])
EPOCHS, KILLS = 3, 5
LOADER = ("import sys, json; sys.path.insert(0, sys.argv[1]); import tureen, time\n"
          "loader = tureen.Loader(sys.argv[2], batch_size=8, epochs=3, pipeline=json.loads(sys.argv[3]), "
          "timeout=240, rejoin=240,\n    **json.loads(sys.argv[4]))\n"
          "for batch in loader:\n"
          "    if not batch.padding: print(batch.epoch, *batch.ids.tolist(), flush=True)\n"
          "    time.sleep(float(sys.argv[5]))\n"
          "loader.close()\n")


class Supervised(SystemTest):
    SAMPLES = 320

    def supervised(self, **options):
        return self.serve(arguments=["--supervise"], **options)

    def child(self, server):
        """The process that serves; None: at present there is none."""
        path = "/proc/%d/task/%d/children" % (server.pid, server.pid)
        with open(path) as file:
            children = file.read().split()
        return int(children[0]) if children else None

    def python(self, server, pause, **how):
        job = subprocess.Popen([sys.executable, "-B", "-c", LOADER,
                                os.path.join(harness.SOURCE, "clients", "python"), server.endpoint, PIPELINE,
                                json.dumps(how), str(pause)], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, universal_newlines=True)
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        return job

    def assert_whole(self, *outputs):
        """What processes printed that took one job together."""
        epochs = {}
        for line in "".join(outputs).splitlines():
            epoch, *ids = map(int, line.split())
            epochs.setdefault(epoch, []).extend(ids)
        self.assert_epochs({"epochs": epochs}, EPOCHS)

    def test_killed_again_and_again(self):
        chance = seeded("supervise")
        with self.supervised() as server:
            #  A sanitizer makes an ordinary end with a report of a segmentation fault.
            ways = [signal.SIGABRT, signal.SIGKILL] if harness.is_sanitized(server.pid) else [
                signal.SIGABRT, signal.SIGKILL, signal.SIGSEGV]
            kills = ways + [chance.choice(ways) for _ in range(KILLS - len(ways))]
            chance.shuffle(kills)
            reads = [server.read(*arguments, batch=8, epochs=EPOCHS, pipeline=PIPELINE, rate=150, rejoin=240,
                                 timeout=240)
                     for arguments in ([], ["--inline"], ["--order", "private"], ["--seed", "3"])]
            ranks = [server.read("--world-size", "2", "--rank", str(rank), "--job", "pair", "--rank-wait",
                                 "60", batch=8, epochs=EPOCHS, pipeline=PIPELINE, rate=75, rejoin=240,
                                 timeout=240) for rank in range(2)]
            plain = self.python(server, 0.05)
            pair = [self.python(server, 0.1, job="python pair", world_size=2, rank=rank, rank_wait=60)
                    for rank in range(2)]
            for number in kills:
                progress = [read.delivered() for read in reads]
                wait_until("a job gets on", lambda: any(read.delivered() > before for read,
                                                        before in zip(reads, progress)))
                before = wait_until("a server is there", lambda: self.child(server))
                harness.time.sleep(chance.random() / 2)
                os.kill(before, number)
                wait_until("another one is there", lambda: self.child(server) not in (None, before))
            for read in reads:
                self.assert_epochs(read.finish(), EPOCHS)
            self.assert_whole(plain.communicate(timeout=4 * harness.PATIENCE)[0])
            self.assert_whole(*[rank.communicate(timeout=4 * harness.PATIENCE)[0] for rank in pair])
            results = [rank.finish() for rank in ranks]
            both = {number: results[0]["epochs"].get(number, []) + results[1]["epochs"].get(number, [])
                    for number in range(EPOCHS)}
            self.assert_epochs({"epochs": both}, EPOCHS)
            status = wait_until("a server answers", server.status)
            self.assertEqual(status["restarts"], KILLS)
            self.assertEqual(server.log().count("the server died of signal"), KILLS)

    def test_what_ends_by_itself_stays_ended(self):
        with self.supervised() as server:
            first = self.child(server)
            taken = run("serve", "--supervise", "--dataset", "train=" + self.data, "--listen",
                        server.endpoint)
            self.assertEqual(taken.returncode, 3, taken.stderr)
            self.assertIn("process %d" % first, taken.stderr)
            self.assertEqual(self.child(server), first)
            self.assertEqual(server.status()["restarts"], 0)
        missing = run("serve", "--supervise", "--dataset", "train=/nowhere", "--listen",
                      "ipc://%s/none.sock" % self.root)
        self.assertEqual(missing.returncode, 1, missing.stderr)
        self.assertEqual(run("serve", "--supervise", "--dataset", "nonsense").returncode, 2)
        for log in (taken, missing):
            self.assertNotIn("started again", log.stdout + log.stderr)

    def test_the_supervisor_is_killed(self):
        """The child dies with it, so that the endpoint is free at once; what it left is taken over."""
        with self.supervised(expect_clean=False) as server:
            read = server.read(batch=8, epochs=EPOCHS, pipeline=PIPELINE, rate=300, rejoin=240)
            wait_until("batches", lambda: read.delivered() > 0)
            child = self.child(server)
            server.kill()
            wait_until("the child is gone", lambda: not is_alive(child))
            self.assertTrue(os.path.exists(server.endpoint[len("ipc://"):]))
            server.start()
            self.assert_epochs(read.finish(), EPOCHS)
            server.stop()

    def test_nohup(self):
        """A hangup ends neither the server nor its supervisor."""
        for arguments in ([], ["--supervise"]):
            with self.serve(arguments=arguments, wrapper=("nohup",)) as server:
                child = self.child(server) or server.pid
                for process in {server.pid, child}:
                    os.kill(process, signal.SIGHUP)
                self.assertIn("jobs", server.status())
                self.assertEqual(self.child(server) or server.pid, child)
                self.assertNotIn("ending", server.log())

    def test_draining_ends_both(self):
        with self.supervised(expect_clean=False) as server:
            child = self.child(server)
            drained = run("drain", "--connect", server.endpoint, "--wait", timeout=4 * harness.PATIENCE,
                          environment=server.environment)
            self.assertEqual(drained.returncode, 0, drained.stderr)
            self.assertEqual(server.process.wait(harness.PATIENCE), 0)
            self.assertFalse(is_alive(child))
            self.assertEqual(server.left_behind(), [])

    def test_killed_on_its_way_to_the_end(self):
        """It stays ended: no other server is wanted by an operator that stops one."""
        with self.supervised(expect_clean=False) as server:
            #  Of what is on its way to a client that has stopped, the server waits for seconds.
            read = server.read("--inline", "--slots", "64", batch=160, epochs=0, pipeline=json.dumps(
                [{"op": "decode"}, {"op": "resize", "size": [128, 128]}]))
            wait_until("batches", lambda: read.delivered() > 0)
            read.process.send_signal(signal.SIGSTOP)
            child = self.child(server)
            stop = subprocess.Popen([harness.TUREEN, "stop", "--connect", server.endpoint],
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                    env=server.environment)     # its answer may die with the server
            with stop:
                wait_until("it is ending", lambda: " ending: ending" in server.log())
                with contextlib.suppress(ProcessLookupError):       # it has not waited
                    os.kill(child, signal.SIGKILL)
                read.process.kill()
                stop.stdout.read()
            server.process.wait(harness.PATIENCE)
            self.assertNotIn("started again", server.log())


if __name__ == "__main__":
    unittest.main()

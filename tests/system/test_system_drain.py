"""`tureen drain` on real servers: whole epochs, then the end; another server goes on, and over both lives
nothing comes twice."""
import json
import os
import signal
import subprocess
import sys
import unittest

import harness
from harness import SystemTest, run, seeded, wait_until

sys.path.insert(0, os.path.join(harness.SOURCE, "clients", "python"))
import tureen  # noqa: E402

PIPELINE = json.dumps([{"op": "decode"}, {"op": "resize", "size": [16, 16]}])
EPOCHS = 4


class Drain(SystemTest):
    SAMPLES = 240

    def drain(self, server, *arguments):
        return run("drain", "--connect", server.endpoint, *arguments, timeout=4 * harness.PATIENCE,
                   environment=server.environment)

    def reader(self, server, name, *arguments, **options):
        options = dict({"batch": 8, "epochs": EPOCHS, "pipeline": PIPELINE, "name": name, "rate": 400},
                       **options)
        return server.read(*arguments, **options)

    def assert_ended(self, server):
        """By itself, with status 0, and nothing is left."""
        self.assertEqual(server.process.wait(4 * harness.PATIENCE), 0)
        self.assertEqual(server.left_behind(), [])

    def test_no_client_there(self):
        with self.serve(expect_clean=False) as server:
            drained = self.drain(server, "--wait")
            self.assertEqual(drained.returncode, 0, drained.stderr)
            self.assertIn("it has no jobs, and ends", drained.stdout)
            self.assertIn("the server has ended", drained.stdout)
            self.assert_ended(server)
            self.assertIn("drained: no job is left", server.log())
        without = self.drain(server)
        self.assertEqual(without.returncode, 1)
        #  To start a server so that it can be drained would be no help.
        self.assertEqual(without.stderr, "tureen drain: no server answers at %s, so there is none to drain: "
                         "there is no folder %s: no server has been started there, or in a container it is "
                         "not mounted\n" % (server.endpoint, server.folder))
        self.assertEqual(run("drain", "nonsense").returncode, 2)

    def test_stop(self):
        """The end now, in mid-epoch: the reader goes on at the next server, with the rest of its epoch."""
        def stop():
            return run("stop", "--connect", server.endpoint, timeout=4 * harness.PATIENCE,
                       environment=server.environment)
        with self.serve(expect_clean=False) as server:
            loader = iter(tureen.Loader(server.endpoint, batch_size=8, epochs=1,
                                        pipeline=json.loads(PIPELINE)))
            ids = list(next(loader).ids)
            stopped = stop()
            self.assertEqual((stopped.returncode, stopped.stderr), (0, ""))
            self.assertEqual(stopped.stdout, "the server ends, and 1 job with it\nthe server has ended\n")
            self.assert_ended(server)
            self.assertIn("an operator ends the server (tureen stop)", server.log())
            server.start()
            for batch in loader:
                ids += list(batch.ids)
            self.assertEqual(sorted(ids), list(range(self.SAMPLES)))
            self.assertEqual(stop().returncode, 0)
        without = stop()
        self.assertEqual(without.returncode, 1)
        self.assertIn("so there is none to stop", without.stderr)

    def test_a_server_that_stands_still_has_not_ended(self):
        """A caller that waits for the server's end starts the next one then."""
        with self.serve(expect_clean=False) as server:
            reader = self.reader(server, "slow", rate=60, epochs=2)
            wait_until("batches", lambda: reader.delivered() > 0)
            reader.signal(signal.SIGSTOP)       # its epoch lasts until all is looked at
            waiting = subprocess.Popen([harness.TUREEN, "drain", "--wait", "--connect", server.endpoint],
                                       env=server.environment, stdout=subprocess.PIPE,
                                       universal_newlines=True)
            try:
                self.assertIn("1 job is left", waiting.stdout.readline())
                os.kill(server.pid, signal.SIGSTOP)
                #  It looks after five seconds, and waits five for an answer.
                with self.assertRaises(subprocess.TimeoutExpired):
                    waiting.wait(13)
            finally:
                os.kill(server.pid, signal.SIGCONT)
                reader.signal(signal.SIGCONT)
                said, _ = waiting.communicate(timeout=4 * harness.PATIENCE)
            self.assertEqual(waiting.returncode, 0)
            self.assertEqual(said, "the server has ended\n")
            self.assert_ended(server)
            server.start()
            self.assert_epochs(reader.finish(), 2)
            server.stop()

    def test_jobs_end_with_their_epoch_and_go_on_elsewhere(self):
        """Readers at several speeds, with and without an end to come, one inline; a second drain; a joiner is
        refused."""
        chance = seeded("drain")
        with self.serve() as server:
            readers = [self.reader(server, "r%d" % number, *(["--inline"] if number == 2 else []),
                                   rate=chance.choice((200, 300, 400))) for number in range(4)]
            readers.append(self.reader(server, "seeded", seed=5))
            #  The others may have ended before all that is asked of the server here is answered: this one's
            #  epoch lasts as long.
            slow = self.reader(server, "slow", rate=40, epochs=2)
            wait_until("it is in the middle", lambda: slow.delivered() > 0)
            slow.signal(signal.SIGSTOP)
            goal = chance.randrange(20, 300)
            wait_until("some are in the middle", lambda: all(
                reader.delivered() >= goal for reader in readers))
            waiting = self.drain(server)
            self.assertEqual(waiting.returncode, 0, waiting.stderr)
            self.assertRegex(waiting.stdout, "[2-6] jobs are left|1 job is left")
            status = server.status()
            self.assertIs(status["draining"], True)
            refused = run("read", "--connect", server.endpoint, "--dataset", "train", "--epochs", 1,
                          "--rejoin", 0, environment=server.environment)
            self.assertEqual(refused.returncode, 1)
            self.assertIn("stopping", refused.stderr)
            slow.signal(signal.SIGCONT)
            again = self.drain(server, "--wait")
            self.assertEqual(again.returncode, 0, again.stderr)
            self.assert_ended(server)
            log = server.log()
            self.assertEqual(log.count("draining: no new jobs"), 1)
            #  Nothing is lost by it.
            self.assertIn("notice ended", log)
            self.assertNotIn(" warning ", log)
            server.start()
            for reader in readers:
                self.assert_epochs(reader.finish(), EPOCHS)
            self.assert_epochs(slow.finish(), 2)
            self.assertEqual(server.status()["draining"], False)

    def test_a_loader_that_is_in_no_hurry(self):
        """Its epoch was sent whole; what it has not taken yet it takes after the server's end, and then the
        next epochs."""
        with self.serve(expect_clean=False) as server:
            loader = tureen.Loader(server.endpoint, batch_size=40, epochs=2, pipeline=json.loads(PIPELINE),
                                   slots=7, order="private", timeout=harness.PATIENCE,
                                   rejoin=4 * harness.PATIENCE)
            batches = iter(loader)
            wait_until("the whole epoch was sent", lambda: server.status()["jobs"][0]["epoch"] == 1)
            self.assertEqual(self.drain(server, "--wait").returncode, 0)
            self.assert_ended(server)
            server.start()
            ids = [batch.ids.tolist() for batch in batches]
            for epoch in range(2):
                self.assertEqual(sorted(sum(ids[6 * epoch:6 * epoch + 6], [])), list(range(self.SAMPLES)))
            loader.close()
            server.stop()

    def test_ranks(self):
        """Two processes that take one job: both end with the same epoch, and gather at the next server."""
        program = ("import sys, json; sys.path.insert(0, sys.argv[1]); import tureen\n"
                   "loader = tureen.Loader(sys.argv[2], batch_size=8, epochs=4, "
                   "pipeline=json.loads(sys.argv[3]), job='ddp',\n    world_size=2, rank=int(sys.argv[4]), "
                   "timeout=240, rejoin=240)\nfor batch in loader:\n"
                   "    if not batch.padding: print(batch.epoch, *batch.ids.tolist(), flush=True)\n"
                   "loader.close()\n")
        with self.serve() as server:
            paths = [os.path.join(server.folder, "rank%d" % rank) for rank in range(2)]
            files = [open(path, "w") for path in paths]
            ranks = [subprocess.Popen([sys.executable, "-B", "-c", program,
                                       os.path.join(harness.SOURCE, "clients", "python"), server.endpoint,
                                       PIPELINE, str(rank)], stdout=files[rank]) for rank in range(2)]
            try:
                wait_until("batches", lambda: all(os.path.getsize(path) > 50 for path in paths))
                drained = self.drain(server, "--wait")
                self.assertEqual(drained.returncode, 0, drained.stderr)
                self.assert_ended(server)
                server.start()
                for rank in ranks:
                    self.assertEqual(rank.wait(4 * harness.PATIENCE), 0)
            finally:
                for rank, file in zip(ranks, files):
                    rank.kill()
                    rank.wait()
                    file.close()
            epochs = {}
            for path in paths:
                with open(path) as file:
                    for line in file:
                        epoch, *ids = map(int, line.split())
                        epochs.setdefault(epoch, []).extend(ids)
            self.assertEqual(sorted(epochs), list(range(EPOCHS)))
            for ids in epochs.values():
                self.assertEqual(sorted(ids), list(range(self.SAMPLES)))


if __name__ == "__main__":
    unittest.main()

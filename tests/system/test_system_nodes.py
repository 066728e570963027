"""One job over three machines with two ranks each, and a fourth that lends processors: whatever dies, stops
or is cut off, each sample comes once an epoch, all ranks make the same steps, and a seeded job's pixels
stay."""
import json
import os
import signal
import subprocess
import sys
import time
import unittest

import harness
from harness import PATIENCE, TUREEN, parse_ids, wait_until
from network import Network
from test_system_keys import KeyTest
from test_system_workers import Worker

NODES, RANKS, EPOCHS, BATCH, PORT = 3, 2, 3, 4, 5555
#  A rank of node 1 is on a machine of its own, and one of node 2 is far away: it goes through a proxy.
AWAY, LENT, SERVERS = "away", "lent", ["node%d" % node for node in range(NODES)]
FAR, FAR_PORT, FAR_MS = (2, 1), 5556, 25
CUT_S, STOPPED_S = 30, 20
REFUSAL = Network.refusal()


class Rank:
    """`tureen read`, which can be killed and goes on from its state."""

    def __init__(self, job, node, rank, machine, endpoint):
        self.node, self.rank = node, rank
        self.ids = job.path("%d-%d.ids" % (node, rank))
        self._state = job.path("%d-%d.state" % (node, rank))
        self._command = [
            *job.network.on(machine), TUREEN, "read", "--connect", endpoint, "--dataset", "train", "--json",
            "--batch", str(BATCH), "--epochs", str(EPOCHS), "--seed", "5", "--nodes", str(NODES), "--node",
            str(node), "--world-size", str(RANKS), "--rank", str(rank), "--job", "one", "--ids", self.ids,
            "--state", self._state, "--state-every", "1", "--rank-wait", str(int(4 * PATIENCE)), *job.pace]
        self._environment = job.environment
        self.start()

    def start(self):
        self._output = self.ids + ".out"
        with open(self._output, "w") as output:
            self.process = subprocess.Popen(self._command, stdout=output, stderr=subprocess.STDOUT,
                                            env=self._environment)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def count(self):
        """Samples that came so far."""
        if not os.path.exists(self.ids):
            return 0
        finished, unfinished = parse_ids(self.ids)
        return sum(map(len, finished.values())) + len(unfinished or [])

    def finish(self):
        status = self.process.wait(4 * PATIENCE)
        with open(self._output) as file:
            said = file.read()
        assert status == 0, "rank %d of node %d: status %d: %s" % (self.rank, self.node, status, said)
        self.result = json.loads(said.splitlines()[-1])


class Job:
    """All ranks of all nodes."""

    def __init__(self, test, name, pace=()):
        os.makedirs(test.path(name))
        self.path = lambda kind: os.path.join(test.path(name), kind)
        self.network, self.environment, self.pace = test.network, test.environment, pace
        self.ranks = []
        test.addCleanup(self.end)
        for node in range(NODES):
            for rank in range(RANKS):
                machine = AWAY if (node, rank) in ((1, 1), FAR) else SERVERS[node]
                endpoint = test.endpoint(node)
                if (node, rank) == FAR:
                    endpoint = "tcp://%s:%d" % (test.network.address(AWAY), FAR_PORT)
                self.ranks.append(Rank(self, node, rank, machine, endpoint))

    def rank(self, node, rank):
        return self.ranks[node * RANKS + rank]

    def wait_for(self, count):
        """Until each rank has had so many samples."""
        wait_until("each rank has had %d samples" % count,
                   lambda: min(rank.count() for rank in self.ranks) >= count)

    def finish(self):
        for rank in self.ranks:
            rank.finish()
        return self

    def end(self):
        for rank in self.ranks:
            if rank.process.poll() is None:
                rank.kill()


@unittest.skipIf(REFUSAL, "no network of machines here: %s" % REFUSAL)
class Nodes(KeyTest):
    SAMPLES = 403

    def setUp(self):
        super().setUp()
        self.network = Network([*SERVERS, AWAY, LENT])
        self.network.__enter__()
        self.addCleanup(self.network.__exit__)
        self.allow("alice", "operator", "--operator")
        self.make("lender")
        self.key("allow", self.keys, self.path("lender"), "--worker", "--name", "lender")
        self.certificate = os.path.join(self.keys, "server")
        keys = {"TUREEN_KEY": self.path("alice"), "TUREEN_SERVER_KEY": self.certificate}
        self.environment = dict(os.environ, **keys)
        self.servers = []
        for node, machine in enumerate(SERVERS):
            server = self.server(listen=self.endpoint(node), workers=1, wrapper=self.network.on(machine),
                                 environment=keys)
            server.__enter__()
            self.addCleanup(server.__exit__, None, None, None)
            self.servers.append(server)

    def endpoint(self, node):
        return "tcp://%s:%d" % (self.network.address(SERVERS[node]), PORT)

    def lend(self):
        connections = []
        for node in range(NODES):
            connections += ["--connect", self.endpoint(node), "--server-key", self.certificate]
        return Worker(*connections, "--key", self.path("lender"), wrapper=self.network.on(LENT))

    def keep_far(self):
        """The long way to node 2."""
        proxy = subprocess.Popen(
            [*self.network.on(AWAY), sys.executable, "-B", os.path.join(harness.HERE, "delay_proxy.py"),
             str(FAR_PORT), self.network.address(SERVERS[2]), str(PORT), str(FAR_MS)], stdout=subprocess.PIPE)
        self.addCleanup(proxy.wait)
        self.addCleanup(proxy.kill)
        self.addCleanup(proxy.stdout.close)
        self.assertEqual(proxy.stdout.readline(), b"listening\n")

    def lent(self, node):
        """What a server says of the machine that lends; None: it is not there."""
        done = subprocess.run([*self.network.on(SERVERS[node]), TUREEN, "status", "--connect",
                               self.endpoint(node), "--json"], stdout=subprocess.PIPE, env=self.environment,
                              timeout=PATIENCE, check=True)
        workers = [worker for worker in json.loads(done.stdout)["remote_workers"]
                   if worker["state"] == "working"]
        return workers[0] if workers else None

    def wait_for_worker(self):
        wait_until("it lends to all", lambda: all(self.lent(node) for node in range(NODES)))

    def test_faults(self):
        """The same job without a fault says what must come."""
        self.keep_far()
        calm = Job(self, "calm").finish()
        self.assert_once(calm)
        job = Job(self, "faults", ("--rate", "5"))
        with self.lend() as worker:
            self.wait_for_worker()
            job.wait_for(8)
            self.network.cut(AWAY)
            cut = time.monotonic()
            job.rank(0, 1).kill()
            job.rank(0, 1).start()
            worker.process.send_signal(signal.SIGSTOP)
            self.servers[2].kill()
            self.servers[2].start()
            time.sleep(STOPPED_S)
            stood = job.rank(1, 1).count()
            worker.process.send_signal(signal.SIGCONT)
            self.wait_for_worker()
            time.sleep(max(0, cut + CUT_S - time.monotonic()))
            self.assertEqual(job.rank(1, 1).count(), stood, "its link is not cut")
            self.network.mend(AWAY)
            self.network.limit(LENT, megabytes=0.5)
            self.servers[1].kill()
            self.servers[1].start()
            #  The job waits until it has seen all faults, however long that takes.
            self.network.cut(AWAY)
            self.wait_for_worker()
            worker.kill()
        with self.lend():
            self.wait_for_worker()
            self.network.mend(AWAY)
            self.assertTrue(any(rank.process.poll() is None for rank in job.ranks),
                            "the job ended before its faults")
            job.finish()
            done = [(self.lent(node) or {"done": 0})["done"] for node in range(NODES)]
        print("the worker's last: %s samples" % done, flush=True)
        self.assert_once(job)
        self.assertEqual(self.pixels(job), self.pixels(calm))

    def assert_once(self, job):
        for epoch in range(EPOCHS):
            ids = [number for rank in job.ranks for number in parse_ids(rank.ids)[0][epoch]]
            self.assertEqual(sorted(ids), list(range(self.SAMPLES)), "epoch %d" % epoch)
        expected = EPOCHS * -(-(-(-self.SAMPLES // NODES)) // (RANKS * BATCH))
        self.assertEqual({rank.result["batches"] for rank in job.ranks if rank is not job.rank(0, 1)},
                         {expected})

    def pixels(self, job):
        """Of all ranks but the one that is killed: what a process had before is not in its checksum."""
        return [rank.result["checksum"] for rank in job.ranks if rank is not job.rank(0, 1)]


if __name__ == "__main__":
    unittest.main()

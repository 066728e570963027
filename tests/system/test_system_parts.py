"""One job over several nodes, each with a real server of its own: every sample once over all nodes, equally
many steps on each, states of the nodes and of the job, a server that is killed."""
import hashlib
import json
import os
import random
import shutil
import sys
import tempfile
import threading
import unittest
import warnings

import harness
from rank_courses import LIST, SMALL

sys.path.insert(0, os.path.join(harness.SOURCE, "clients", "python"))
import tureen

EPOCHS = 3


class Process(threading.Thread):
    """One rank of one node: its loader's whole loop, or as many steps of it as it is told."""

    def __init__(self, endpoint, state, most, gate, **options):
        super().__init__(daemon=True)
        self.loader = tureen.Loader(endpoint, pipeline=SMALL, timeout=harness.PATIENCE, **options)
        self.batches, self.state, self.error = [], None, None
        self._begin, self._most, self._gate = state, most, gate
        self.start()

    def run(self):
        try:
            with self.loader, warnings.catch_warnings():
                warnings.simplefilter("ignore", tureen.TureenWarning)
                if self._begin is not None:
                    self.loader.load_state_dict(self._begin)
                for batch in self.loader:
                    ids = [] if batch.padding else batch.ids.tolist()
                    self.batches.append((batch.epoch, batch.index, ids))
                    if self._gate is not None:
                        self._gate(len(self.batches))
                    if len(self.batches) == self._most:
                        break
                self.state = json.loads(json.dumps(self.loader.state_dict()))
        except Exception as error:
            self.error = error


class Run:
    """All ranks of all nodes, until each has come to its end."""

    def __init__(self, servers, ranks, state=None, most=None, gate=None, **options):
        """state: of all, or a list of each node's; gate: called by each process behind each batch, with how
        many there were."""
        nodes = len(servers)
        keys = dict({"dataset": "files", "batch_size": 4, "epochs": EPOCHS}, **options)
        states = state if isinstance(state, list) else [state] * nodes
        self.nodes = [[Process(server.endpoint, states[node], most, gate, nodes=nodes, node=node,
                               **self._ranks(rank, ranks, node), **keys) for rank in range(ranks)]
                      for node, server in enumerate(servers)]
        for process in self.all():
            process.join(harness.PATIENCE)
            assert not process.is_alive(), "a rank does not come to its end"
            if process.error is not None:
                raise process.error

    @staticmethod
    def _ranks(rank, ranks, node):
        return {} if ranks == 1 else {"rank": rank, "world_size": ranks, "job": "parts node %d" % node}

    def all(self):
        return [process for node in self.nodes for process in node]

    def states(self):
        """One of each node."""
        for node in self.nodes:
            for process in node:
                assert process.state == node[0].state, "the ranks of a node have different states"
        return [node[0].state for node in self.nodes]

    def ids(self, epoch, node=None):
        """Of all nodes, or one: as its steps have them."""
        nodes = self.nodes if node is None else [self.nodes[node]]
        steps = {}
        for processes in nodes:
            for process in processes:
                for batch_epoch, index, ids in process.batches:
                    if batch_epoch == epoch:
                        steps.setdefault(index, []).extend(ids)
        return [sample for index in sorted(steps) for sample in steps[index]]

    def indices(self, epoch):
        """The numbers of its steps, the same in all processes."""
        found = {tuple(index for batch_epoch, index, _ in process.batches if batch_epoch == epoch)
                 for process in self.all()}
        assert len(found) == 1, "the processes made different steps: %s" % found
        return list(found.pop())


class PartsTest(unittest.TestCase):
    SAMPLES = 403

    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="tu-parts-", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.files, cls.packed = (os.path.join(cls.root, name) for name in ("files", "pack"))
        harness.make_folder(cls.files, cls.SAMPLES, seed=harness.SEED)
        done = harness.run("pack", "--quiet", cls.files, cls.packed)
        assert done.returncode == 0, done.stderr

    def serve(self, nodes, **options):
        """So many servers of the same data, which know nothing of each other."""
        servers = []
        for _ in range(nodes):
            server = harness.Server({"files": self.files, "pack": self.packed}, cache="8M", workers=1,
                                    arguments=("--raw", "16M"), **options)
            server.__enter__()
            self.addCleanup(server.__exit__, None, None, None)
            servers.append(server)
        return servers

    def steps(self, samples, nodes, size, drop_last=False):
        if drop_last:
            return samples // nodes // size
        return -(-(-(-samples // nodes)) // size)

    def assert_epoch(self, run, epoch, expected, steps, first=0):
        """What came is just that, each once, in so many steps on all."""
        self.assertEqual(sorted(run.ids(epoch)), sorted(expected))
        self.assertEqual(run.indices(epoch), list(range(first, first + steps)))


class Epochs(PartsTest):
    def test_every_order_over_three_nodes_with_two_ranks(self):
        """Each sample once an epoch over all of them, equally many steps, and other parts in each epoch."""
        servers = self.serve(3)
        for options in ({"order": "shared"}, {"order": "private"}, {"order": "list"}, {"seed": 7},
                        {"seed": 7, "pool": 64, "dataset": "pack"}, {"dataset": "pack"}):
            with self.subTest(options):
                run, whole = Run(servers, 2, **options), list(range(self.SAMPLES))
                for epoch in range(EPOCHS):
                    self.assert_epoch(run, epoch, whole, self.steps(self.SAMPLES, 3, 8))
                    sizes = sorted(len(run.ids(epoch, node)) for node in range(3))
                    self.assertEqual(sizes, [134, 134, 135])
                parts = {tuple(tuple(sorted(run.ids(epoch, node))) for node in range(3))
                         for epoch in range(EPOCHS)}
                self.assertGreater(len(parts), 1)

    def test_a_list_with_repeats(self):
        """Each node has every third place, in the list's order."""
        servers, listed = self.serve(3), [number % self.SAMPLES for number in LIST]
        for ranks, size in ((2, 4), (1, 3)):            # the latter with padding on two nodes
            run = Run(servers, ranks, order="list", ids=listed, batch_size=size)
            for epoch in range(EPOCHS):
                self.assert_epoch(run, epoch, listed, self.steps(len(listed), 3, ranks * size))
                for node in range(3):
                    self.assertEqual(run.ids(epoch, node), listed[node::3])

    def test_a_seed_gives_the_order_of_one_node(self):
        """A node's part comes in the order in which one node alone would get it."""
        servers = self.serve(3)
        alone = Run(servers[:1], 1, seed=11)
        run = Run(servers, 1, seed=11)
        for epoch in range(EPOCHS):
            for node in range(3):
                part = run.ids(epoch, node)
                self.assertEqual(part, [sample for sample in alone.ids(epoch) if sample in set(part)])

    def test_drop_last_and_fixed_parts(self):
        servers = self.serve(3)
        run = Run(servers, 2, parts="fixed")
        for node in range(3):
            parts = {tuple(sorted(run.ids(epoch, node))) for epoch in range(EPOCHS)}
            self.assertEqual(len(parts), 1)
        run = Run(servers, 2, drop_last=True)
        for epoch in range(EPOCHS):
            steps = self.steps(self.SAMPLES, 3, 8, drop_last=True)
            self.assertEqual((len(run.ids(epoch)), run.indices(epoch)), (steps * 24, list(range(steps))))
            self.assertEqual(len(set(run.ids(epoch))), steps * 24)

    def test_more_nodes_than_samples(self):
        """Parts may be empty: their nodes make the same steps, of padding."""
        servers = self.serve(3)
        for ranks in (1, 2):
            run = Run(servers, ranks, subset=[5, 17])
            for epoch in range(EPOCHS):
                self.assert_epoch(run, epoch, [5, 17], 1)
        #  And several nodes at one server
        run = Run([servers[node % 3] for node in range(7)], 1, subset=range(20, 25), batch_size=1)
        for epoch in range(EPOCHS):
            self.assert_epoch(run, epoch, range(20, 25), 1)

    def test_len(self):
        servers = self.serve(1)
        for options, steps in (({}, self.steps(self.SAMPLES, 3, 4)),
                               ({"drop_last": True}, self.steps(self.SAMPLES, 3, 4, True)),
                               ({"subset": range(100)}, self.steps(100, 3, 4)),
                               ({"order": "list", "ids": LIST}, self.steps(len(LIST), 3, 4))):
            with tureen.Loader(servers[0].endpoint, "files", 4, EPOCHS, nodes=3, node=1, **options) as loader:
                self.assertEqual(len(loader), EPOCHS * steps)
                self.assertEqual(sum(1 for _ in loader), EPOCHS * steps)


class States(PartsTest):
    def test_the_job_goes_on_with_other_nodes_and_ranks(self):
        """Stopped at some step, merged, gone on with by others, stopped again: each sample once an epoch."""
        generator = harness.seeded("parts")
        servers = self.serve(4)
        for options in ({"order": "shared"}, {"seed": 3}, {"order": "list", "ids": LIST},
                        {"seed": 5, "pool": 64, "dataset": "pack"}, {"order": "list"}):
            with self.subTest(options):
                had, state = {}, None
                for _ in range(4):
                    nodes, ranks = generator.randint(1, 4), generator.randint(1, 2)
                    run = Run(servers[:nodes], ranks, state, most=generator.randint(1, 30), **options)
                    for epoch in range(EPOCHS):
                        had.setdefault(epoch, []).extend(run.ids(epoch))
                    state = tureen.merge_states(run.states())
                    self.assertNotIn("part", state)
                    epoch, whole = int(state["epoch"]), LIST if "ids" in options else range(self.SAMPLES)
                    given = int(state["taken"].get("count") or state["taken"].get("places") or 0)
                    if epoch < EPOCHS:
                        self.assertEqual(given, len(had[epoch]))
                run = Run(servers[:3], 2, state, **options)
                for epoch in range(EPOCHS):
                    self.assertEqual(sorted(had.get(epoch, []) + run.ids(epoch)), sorted(whole), epoch)

    def test_repeats_in_a_list_get_the_pixels_of_one_node(self):
        """Each time that an id comes it is cropped in another way, on however many nodes, and behind a state
        of other nodes too."""
        servers, listed = self.serve(3), [5, 5, 9, 5, 9, 5] * 8
        whole = self.crops(servers, listed, 1)[0]
        self.assertEqual(len(set(whole)), len(listed))
        first = self.crops(servers, listed, 2, most=3)
        self.assertEqual(first[:2], [whole[0:12:2], whole[1:12:2]])
        second = self.crops(servers, listed, 3, tureen.merge_states(first[2]))
        self.assertEqual(second[:3], [whole[12 + node::3] for node in range(3)])

    @staticmethod
    def crops(servers, listed, nodes, state=None, most=None):
        """Digests of the pixels that each node gets, row by row, and a list of their states."""
        pixels, states = [], []
        pipeline = [{"op": "resize", "size": [32, 32]}, {"share": True},
                    {"op": "random_resized_crop", "size": [12, 12]}]
        for node in range(nodes):
            with tureen.Loader(servers[node].endpoint, "files", 2, 1, pipeline=pipeline, seed=7, order="list",
                               ids=listed, nodes=nodes, node=node, timeout=harness.PATIENCE) as loader:
                if state is not None:
                    loader.load_state_dict(state)
                rows = []
                for batch in loader:
                    if not batch.padding:
                        rows.extend(hashlib.sha256(row.tobytes()).hexdigest() for row in batch["image"])
                    if most is not None and batch.index + 1 == most:
                        break
                pixels.append(rows)
                states.append(json.loads(json.dumps(loader.state_dict())))
        return pixels + [states]

    def test_a_node_goes_on_by_itself_and_in_no_other_place(self):
        servers = self.serve(3)
        first = Run(servers, 2, most=3, order="shared")
        states = first.states()
        second = Run(servers, 1, states, batch_size=8, order="shared")
        for epoch in range(EPOCHS):
            self.assertEqual(sorted(first.ids(epoch) + second.ids(epoch)), list(range(self.SAMPLES)))
        for nodes, node in ((1, 0), (3, 1), (2, 0)):
            loader = tureen.Loader(servers[0].endpoint, "files", 4, EPOCHS, nodes=nodes, node=node)
            with self.assertRaisesRegex(tureen.StateError, "about 48 samples that the other nodes were given "
                                                           "would come twice.*merge_states"):
                loader.load_state_dict(states[0])
        #  A client that does not look at the node is refused by the server.
        parsed = tureen.state.parse(states[2])
        forged = tureen.state.pack(parsed._replace(part=parsed.part._replace(node=1)))
        with tureen.Loader(servers[1].endpoint, "files", 4, EPOCHS, nodes=3, node=1) as loader:
            loader.load_state_dict(forged)
            with self.assertRaisesRegex(tureen.RequestRefused, "not in the part of node 1 of 3.*bad_state"):
                iter(loader)

    def test_status_tells_the_node(self):
        servers = self.serve(1)
        with tureen.Loader(servers[0].endpoint, "files", 4, EPOCHS, nodes=3, node=2, parts="fixed") as loader:
            batches = iter(loader)
            next(batches)
            job = servers[0].status()["jobs"][0]
            self.assertEqual([job[key] for key in ("nodes", "node", "parts")], [3, 2, "fixed"])

    def test_the_c_client_goes_on_with_them(self):
        """tureen read, from Python's state of each node; and with other nodes from the merged one."""
        servers = self.serve(2)
        for nodes in (2, 3):
            with self.subTest(nodes=nodes):
                first = Run(servers, 1, most=5, order="shared", epochs=1)
                states = first.states()
                if nodes == 3:
                    states = [tureen.merge_states(states)] * nodes
                had, steps = first.ids(0), set()
                for node, state in enumerate(states):
                    ids, batches = self.read(servers[node % 2], nodes, node, state)
                    had += ids
                    steps.add(batches)
                self.assertEqual(sorted(had), list(range(self.SAMPLES)))
                self.assertEqual(len(steps), 1)

    def read(self, server, nodes, node, state):
        """The ids that came, and the number of batches."""
        folder = tempfile.mkdtemp(dir=self.root)
        path, ids = (os.path.join(folder, name) for name in ("state", "ids"))
        with open(path, "w") as file:
            json.dump(state, file)
        done = harness.run("read", "--connect", server.endpoint, "--dataset", "files", "--batch", "4",
                           "--nodes", str(nodes), "--node", str(node), "--pipeline", json.dumps(SMALL),
                           "--state", path, "--ids", ids, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        told = json.loads(done.stdout)
        self.assertEqual((told["nodes"], told["node"]), (nodes, node))
        with open(ids) as file:
            return [int(word) for word in file.read().split(":")[1].split()], told["batches"]


class Failures(PartsTest):
    def test_a_server_is_killed_and_comes_back(self):
        """Its ranks go on in their part; the other nodes notice nothing."""
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                servers = self.serve(3)
                killed = threading.Lock()

                def gate(count):
                    if count == 12 and killed.acquire(blocking=False):
                        servers[1].kill()
                        servers[1].start()

                #  From the middle of an epoch, so that the clients tell the new server of its cut
                first = Run(servers[:2], ranks, most=5)
                had = first.ids(0)
                run = Run(servers, ranks, tureen.merge_states(first.states()), gate=gate, batch_size=3)
                rest = self.steps(self.SAMPLES - len(had), 3, 3 * ranks)
                self.assert_epoch(run, 0, sorted(set(range(self.SAMPLES)) - set(had)), rest, first=5)
                for epoch in range(1, EPOCHS):
                    steps = self.steps(self.SAMPLES, 3, 3 * ranks)
                    self.assert_epoch(run, epoch, range(self.SAMPLES), steps)

    def test_a_server_is_killed_under_c_clients(self):
        """tureen read, as two ranks on each of two nodes: in order of a list, so that places are told too."""
        listed = os.path.join(self.root, "listed")
        with open(listed, "w") as file:
            file.writelines("%d\n" % number for number in LIST)
        for arguments, whole in ((("--order", "shared"), range(self.SAMPLES)), (("--list", listed), LIST)):
            with self.subTest(arguments):
                servers = self.serve(2)
                reads = [server.read(*arguments, dataset="files", batch=3, epochs=EPOCHS, nodes=2, node=node,
                                     world_size=2, rank=rank, job="c", rate=120, pipeline=json.dumps(SMALL))
                         for node, server in enumerate(servers) for rank in range(2)]
                harness.wait_until("some came", lambda: reads[2].delivered() > 12)
                servers[1].kill()
                servers[1].start()
                results = [read.finish() for read in reads]
                for epoch in range(EPOCHS):
                    self.assertEqual(sorted(sum((result["epochs"][epoch] for result in results), [])),
                                     sorted(whole))
                steps = EPOCHS * self.steps(len(whole), 2, 6)
                self.assertEqual({result["batches"] for result in results}, {steps})

    def test_samples_that_cannot_be_read(self):
        """Each node leaves out its own, and all make the same steps."""
        copy = tempfile.mkdtemp(dir=self.root)
        spoilt = os.path.join(copy, "files")
        shutil.copytree(self.files, spoilt)
        generator, bad = harness.seeded("bad parts"), []
        paths = sorted(os.path.join(folder, name) for folder, _, names in os.walk(spoilt) for name in names)
        numbers = generator.sample(range(len(paths)), 40)
        for number in numbers:
            with open(paths[number], "r+b") as file:
                file.truncate(os.path.getsize(paths[number]) // 3)
        servers = []
        for _ in range(3):
            server = harness.Server({"files": spoilt}, cache="8M", workers=1)
            server.__enter__()
            self.addCleanup(server.__exit__, None, None, None)
            servers.append(server)
        for options in ({"order": "shared"}, {"seed": 9}, {"order": "list", "ids": list(range(self.SAMPLES))},
                        {"drop_last": True}):
            with self.subTest(options):
                run = Run(servers, 2, **options)
                steps = self.steps(self.SAMPLES, 3, 8, "drop_last" in options)
                good = sorted(run.ids(0))
                self.assertEqual(len(set(good)), len(good))
                for epoch in range(EPOCHS):
                    self.assertEqual(run.indices(epoch), list(range(steps)))
                    if "drop_last" not in options:
                        self.assertEqual(sorted(run.ids(epoch)), good)
                        self.assertEqual(len(good), self.SAMPLES - 40)


if __name__ == "__main__":
    unittest.main(verbosity=2)

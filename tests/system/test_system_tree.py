#!/usr/bin/env python3
"""The sampling tree, as a server tells it to `tureen status`, to `tureen top` and to a job that asks, against
the samples that the jobs have got and still hold."""
import subprocess
import unittest

import harness
import plain_client
from harness import SystemTest, TUREEN, wait_until


BATCH = 16


class Holder:
    """A job that takes all that it gets, and gives nothing back: so all that was drawn for it is known here,
    as far as only whole batches were."""

    def __init__(self, server, name, data, **join):
        self.job = plain_client.Job(server.endpoint, harness.PATIENCE)
        self.name, self.data = name, set(data)
        self.job.join([plain_client.ids_ranges((min(data), max(data) + 1))], dataset="train",
                      batch_size=BATCH, name=name, frames=["subset"], **join)
        self.job.start()
        self.had = set()

    def take(self, batches):
        while len(self.had) < batches * BATCH:
            self.last = self.job.event()
            self.had.update(self.last.ids)

    @property
    def left(self):
        return self.data - self.had


class Trees(SystemTest):
    SAMPLES = 600

    def holders(self, server):
        """Each begins when the one before has all but one batch of its memory; rounds that it needs fill that
        one."""
        made = []
        for name, data, join in (("alpha", range(300), {}), ("beta", range(100, 500), {}),
                                 ("gamma", range(600), {}),
                                 ("apart", range(600), {"order": "seeded", "seed": 4})):
            made.append(Holder(server, name, data, **join))
            self.addCleanup(made[-1].job.close)
            made[-1].take(made[-1].job.joined["slots"] - 1)
        for holder in made:
            window = wait_until("only whole batches are drawn",
                                lambda: self.whole(server.job_status(holder.name)))
            holder.take(window["sent_batches"])
        return made

    def whole(self, job):
        window = job["window"]
        return window if window["drawn_samples"] == BATCH * window["sent_batches"] else None

    def tree(self, server):
        (dataset,) = server.status()["datasets"]
        (tree,) = dataset["sharing_trees"]
        return dataset, tree

    def assert_tree(self, tree, holders):
        """All of it follows from what the holders have left and from the order of the jobs."""
        left = {holder.job.number: holder.left for holder in holders}
        self.assertEqual((tree["ids"], tree["looked_at"]), (self.SAMPLES, self.SAMPLES))
        path = [vertex["leaf"]["job"] for vertex in tree["vertices"]]
        beside = [one["job"] for one in tree["off_path"]]
        self.assertEqual(sorted(path + beside), sorted(left))
        above = set()
        for place, vertex in enumerate(tree["vertices"]):
            common = set.intersection(*(left[job] for job in path[place:]))
            own = left[path[place]]
            self.assertEqual(vertex, {
                "size": len(common - above), "parent": place - 1 if place else None,
                "jobs": len(path) - place,
                "leaf": {"job": path[place], "size": len(own - common), "remaining": len(own)}})
            above = common
        for one in tree["off_path"]:
            self.assertEqual(one["remaining"], len(left[one["job"]]))
        pairs = tree["pairs"]
        self.assertEqual((pairs["jobs"], pairs["left_out"]), (path + beside, 0))
        self.assertEqual(pairs["common"], [[len(left[job] & left[other]) for other in pairs["jobs"][:place]]
                                           for place, job in enumerate(pairs["jobs"])])

    def check(self, policy):
        with self.serve(arguments=("--policy", policy)) as server:
            holders = self.holders(server)
            shared = holders[:3]

            def is_settled():
                tree = self.tree(server)[1]
                told = [vertex["leaf"] for vertex in tree["vertices"]] + tree["off_path"]
                return sorted((one["job"], one["remaining"]) for one in told) \
                    == sorted((holder.job.number, len(holder.left)) for holder in shared)
            wait_until("what is told is of now", is_settled)
            dataset, tree = self.tree(server)
            self.assertEqual(dataset["drawing_alone"], [holders[3].job.number])
            self.assertEqual(tree["kept"], policy == "dsa")
            self.assert_tree(tree, shared)
            #  In text.
            text = server.status_text()
            self.assertRegex(text, "\n  who shares what: samples that 3 jobs still have to draw ")
            on_path = len(tree["vertices"])
            if on_path > 1:
                self.assertRegex(text, r"\n +%d by %s jobs\n" % (
                    tree["vertices"][0]["size"], "both" if on_path == 2 else "all %d" % on_path))
            for vertex in tree["vertices"]:
                leaf = vertex["leaf"]
                holder = holders[leaf["job"] - 1]
                own = leaf["size"] + (vertex["size"] if vertex["jobs"] == 1 else 0)
                self.assertRegex(text, r"\n +- job %d \(%s\): %d to draw, %d in its leaf; most with job \d+: "
                                       r"%d\n" % (leaf["job"], holder.name, leaf["remaining"], own,
                                                  max(len(holder.left & other.left) for other in shared
                                                      if other is not holder)))
            #  The terminal's lines.
            with subprocess.Popen([TUREEN, "top", "--connect", server.endpoint, "--seconds", "60"],
                                  stdout=subprocess.PIPE, env=server.environment,
                                  universal_newlines=True) as process:
                told = next((line for line in process.stdout if line.startswith("  shared ")), "")
                process.terminate()
            self.assertEqual(told, "  shared train: 3 jobs%s; %s and %s share most: %d\n"
                             % self.summary(tree, shared))
            #  A job that asks of a sample that it has.
            alpha, others = shared[0], shared[1:]
            told = alpha.job.explain(alpha.last.ids[0])["sharing"]
            self.assertIn("of the %d samples that it has to draw in this epoch it shares " % len(alpha.left),
                          told)
            for other in others:
                self.assertIn("%d with job %d ('%s')" % (len(alpha.left & other.left), other.job.number,
                                                         other.name), told)
            self.assertEqual(holders[3].job.explain(holders[3].last.ids[0])["sharing"],
                             "the job draws by itself, in no tree: order seeded")
            #  One goes: the others' tree is another one.
            shared[2].job.leave()
            wait_until("it has gone", lambda: "gamma" not in server.job_names())
            wait_until("they are a tree", lambda: len(self.tree(server)[1]["pairs"]["jobs"]) == 2)
            self.assert_tree(self.tree(server)[1], shared[:2])

    def summary(self, tree, holders):
        names = {holder.job.number: holder.name for holder in holders}
        pairs = [(size, tree["pairs"]["jobs"][place], tree["pairs"]["jobs"][other])
                 for place, row in enumerate(tree["pairs"]["common"]) for other, size in enumerate(row)]
        size = max(pairs)[0]
        #  The first job on the path that is in such a pair, and of its pairs the other with the least number.
        first = next(job for job in tree["pairs"]["jobs"]
                     if any(job in pair[1:] for pair in pairs if pair[0] == size))
        other = min(pair[1] if pair[2] == first else pair[2]
                    for pair in pairs if pair[0] == size and first in pair[1:])
        on_path = len(tree["vertices"])
        by_all = "; %d samples are still needed by %s" % (
            tree["vertices"][0]["size"], "all" if on_path == 3 else "%d of them" % on_path)
        return by_all if on_path > 1 else "", names[first], names[other], size

    def test_dsa(self):
        self.check("dsa")

    def test_follow(self):
        self.check("follow")


if __name__ == "__main__":
    unittest.main()

"""tureen.torch over several nodes: how a process learns its node, and, against real servers, processes of two
"nodes" with a server each, which talk over gloo.

Run by ctest (torch_nodes), or by hand: TUREEN_BIN=build/release/bin python3 tests/clients/test_torch_nodes.py
[-v] [NAME]
"""
from __future__ import annotations

import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "system"), str(HERE.parent.parent / "clients" / "python")]

import torch_or_skip                    # noqa: F401  # ends this program where there is no PyTorch
import harness
import torch

import tureen
from forked_processes import Forked, forked_here
from tureen.torch import DataLoader
from tureen.torch import agreement, ranks as torch_ranks

SAMPLES, EPOCHS, STOP = 75, 2, 4
SMALL = [{"op": "resize", "size": [12, 12]}]
#  Process 5 of 8, on node 1 of 2, as torchrun, and as srun has it.
TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "GROUP_RANK": "1", "GROUP_WORLD_SIZE": "2", "LOCAL_RANK": "1",
            "LOCAL_WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "run-7"}
SLURM = {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0", "SLURM_PROCID": "5", "SLURM_NTASKS": "8",
         "SLURM_NNODES": "2", "SLURM_NODEID": "1", "SLURM_LOCALID": "1", "SLURM_TASKS_PER_NODE": "4(x2)"}
OWN, ONE_FOR_ALL = "ipc:///nowhere", "tcp://127.0.0.1:9"


def place(environment: Dict[str, str], group: Optional[Tuple[int, int]] = None, **options: Any) -> Any:
    with mock.patch.dict(os.environ, environment, clear=True), \
            mock.patch.object(torch_ranks, "_process_group", lambda: group):
        return tuple(DataLoader("train", 8, **{"endpoint": OWN, **options})._membership.place)


class WhichNode(unittest.TestCase):
    """Without a server."""

    def test_where_nodes_come_from(self) -> None:
        """Arguments before the environment; a server on another machine is one for all."""
        per_node = {**{key: SLURM[key] for key in SLURM if key != "SLURM_TASKS_PER_NODE"},
                    "SLURM_NTASKS_PER_NODE": "4"}
        for environment, group, options, expected in (
                (TORCHRUN, None, {}, (1, 4, "run-7/train node 1", 1, 2)),
                (TORCHRUN, (5, 8), {}, (1, 4, "run-7/train node 1", 1, 2)),
                (TORCHRUN, (5, 8), {"job": "mine"}, (1, 4, "mine node 1", 1, 2)),
                (TORCHRUN, (5, 8), {"endpoint": ONE_FOR_ALL}, (5, 8, "run-7/train", 0, 1)),
                (TORCHRUN, (5, 8), {"nodes": 1}, (5, 8, "run-7/train", 0, 1)),
                (TORCHRUN, None, {"endpoint": ONE_FOR_ALL, "nodes": 2, "node": 1},
                 (1, 4, "run-7/train node 1", 1, 2)),
                (TORCHRUN, None, {"rank": 0, "world_size": 2, "nodes": 3, "node": 2},
                 (0, 2, "run-7/train node 2", 2, 3)),
                (TORCHRUN, None, {"rank": 0, "world_size": 2}, (0, 2, "run-7/train", 0, 1)),
                (TORCHRUN, None, {"sampler": [1, 2]}, (0, 1, None, 0, 1)),
                #  A group of other processes than those that torchrun has started
                (TORCHRUN, (0, 2), {}, (0, 2, "run-7/train", 0, 1)),
                ({**TORCHRUN, "GROUP_WORLD_SIZE": "1", "GROUP_RANK": "0", "LOCAL_RANK": "5",
                  "LOCAL_WORLD_SIZE": "8"}, None, {}, (5, 8, "run-7/train", 0, 1)),
                ({**TORCHRUN, "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"},
                 None, {}, (0, 1, None, 1, 2)),
                (SLURM, (5, 8), {}, (1, 4, "slurm-77.0/train node 1", 1, 2)),
                (per_node, (5, 8), {}, (1, 4, "slurm-77.0/train node 1", 1, 2)),
                ({**SLURM, "SLURM_NNODES": "1"}, (5, 8), {}, (5, 8, "slurm-77.0/train", 0, 1)),
                #  Tasks that do not train together: a sweep
                (SLURM, None, {}, (0, 1, None, 0, 1)),
                ({}, None, {"nodes": 3, "node": 2}, (0, 1, None, 2, 3)),
                ({}, (2, 3), {"nodes": 3, "node": 2}, (0, 1, None, 2, 3))):
            with self.subTest(environment=environment, group=group, options=options):
                self.assertEqual(place(environment, group, **options), expected)

    def test_what_makes_no_sense_is_refused_with_a_remedy(self) -> None:
        for environment, group, options, why in (
                ({}, None, {"nodes": 2}, "nodes and node go together"),
                ({}, None, {"node": 1}, "nodes and node go together"),
                ({}, None, {"nodes": 2, "node": 2}, "node must be from 0 to 1"),
                ({}, None, {"nodes": 2, "node": 0, "sampler": [1]}, "needs rank= and world_size="),
                ({"TORCHELASTIC_RUN_ID": "run"}, (1, 4), {"nodes": 2, "node": 0},
                 "nothing says which of the 4 processes are on this node: give rank="),
                ({**TORCHRUN, "LOCAL_WORLD_SIZE": "3"}, None, {},
                 "8 processes on 2 nodes.*and 3 on this one.*equally many on each.*TUREEN_ENDPOINT=tcp"),
                ({**TORCHRUN, "GROUP_RANK": "2"}, None, {}, "GROUP_RANK is '2'"),
                ({**SLURM, "SLURM_TASKS_PER_NODE": "5,3"}, (5, 8), {},
                 "SLURM_TASKS_PER_NODE is '5,3': the nodes have different numbers.*equally many on each")):
            with self.subTest(options=options, environment=environment), \
                    self.assertRaisesRegex(ValueError, why):
                place(environment, group, **options)

    def test_core(self) -> None:
        """What tureen.ranks says without PyTorch."""
        self.assertEqual(tureen.ranks.by_node(5, 8, TORCHRUN), (2, 1, 1, 4))
        self.assertEqual(tureen.ranks.by_node(5, 8, SLURM), (2, 1, 1, 4))
        self.assertIsNone(tureen.ranks.by_node(4, 8, TORCHRUN))
        self.assertIsNone(tureen.ranks.by_node(5, 8, {}))

    def test_a_state_waits_for_the_process_group(self) -> None:
        """A node's state may be loaded before it is known which node this is, and is checked at the first
        loop."""
        loader = DataLoader("train", 8, endpoint=OWN, shuffle=True)
        path = HERE.parent / "golden" / "state_part.json"
        state = json.loads(path.read_text(encoding="utf-8"))
        with mock.patch.object(torch_ranks, "_process_group", lambda: None):
            loader.load_state_dict(state)
            with self.assertRaisesRegex(tureen.StateError, "node 1 of 4.*would come twice"):
                iter(loader)

    def test_a_state_that_comes_when_the_node_is_known(self) -> None:
        """Since a question was asked: it is checked at once, as a state of this node."""
        path = HERE.parent / "golden" / "state_part.json"
        state = json.loads(path.read_text(encoding="utf-8"))
        for node in (1, 2):
            there = {"RANK": str(node), "WORLD_SIZE": "4", "GROUP_RANK": str(node), "GROUP_WORLD_SIZE": "4",
                     "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "run-7"}
            with mock.patch.dict(os.environ, there, clear=True), \
                    mock.patch.object(torch_ranks, "_process_group", lambda node=node: (node, 4)):
                loader = DataLoader("train", 8, endpoint=OWN, shuffle=True, parts="fixed")
                self.assertFalse(loader._membership.settled)
                loader._membership.settle()
                if node == 1:
                    loader.load_state_dict(state)
                    self.assertEqual(loader.epoch, 3)
                else:
                    with self.assertRaisesRegex(tureen.StateError, "node 1 of 4.*node 2 of 4"):
                        loader.load_state_dict(state)

    def test_states_are_gathered_by_the_process_group(self) -> None:
        """Without one, an error with the remedy; of a process alone it is the state."""
        with mock.patch.object(torch_ranks, "_process_group", lambda: None):
            loader = DataLoader("train", 8, endpoint=OWN, nodes=2, node=1)
            with self.assertRaisesRegex(RuntimeError, "init_process_group.*tureen.merge_states"):
                loader.state_dict(gather=True)
            alone = DataLoader("train", 8, endpoint=OWN, shuffle=True)
            state = tureen.merge_states([json.loads((HERE.parent / "golden" / "state_shared.json").read_text(
                encoding="utf-8"))])
            alone.load_state_dict(state)
            self.assertEqual(alone.state_dict(gather=True), state)


def worker() -> None:
    """One process: a loop with a state in the middle of it, then the rest of all epochs from the state that
    is given."""
    torch.distributed.init_process_group("gloo")
    given = json.loads(os.environ["GIVEN"])
    if given["options"].pop("wrong_sampler", False) and os.environ["GROUP_RANK"] == "1":
        given["options"]["sampler"].reverse()
    if "sampler" in given["options"]:           # which splits by itself, where it is not said otherwise
        given["options"].update(
            {key: int(os.environ[name]) for key, name in (("rank", "LOCAL_RANK"), ("node", "GROUP_RANK"),
             ("world_size", "LOCAL_WORLD_SIZE"), ("nodes", "GROUP_WORLD_SIZE"))})
    loader = DataLoader("train", 2, ids=True, transform=SMALL, timeout=harness.PATIENCE, **given["options"])
    if given["state"] is not None:
        loader.load_state_dict(given["state"])
    told: Dict[str, Any] = {"rank": loader.rank, "world_size": loader.world_size, "node": loader.node,
                            "nodes": loader.nodes, "len": len(loader), "batches": []}
    for epoch in range(loader.epoch, EPOCHS):
        for count, (_, _, ids) in enumerate(loader, 1):
            told["batches"].append((epoch, [] if loader.padding else ids.tolist()))
            if count == given["stop"]:
                told["state"] = loader.state_dict(gather=True)
                break
        if given["stop"]:
            break
        told["state"] = loader.state_dict(gather=True)
    loader.close()
    torch.distributed.barrier()
    print(json.dumps(told))


class OverGloo(unittest.TestCase):
    def start(self, endpoints: List[str], each: int, states: Any = None, stop: int = 0, **options: Any) -> \
            List[Forked]:
        """`each` processes on each node; endpoints: of the nodes' servers; states: one for all, or a list of
        each node's."""
        port, nodes = str(harness.free_port()), len(endpoints)
        each_state = states if isinstance(states, list) else [states] * nodes
        given = [json.dumps({"state": state, "stop": stop, "options": options}) for state in each_state]
        processes = [Forked(forked_here(), {
            **os.environ, "GIVEN": given[node], "TUREEN_ENDPOINT": endpoints[node],
            "RANK": str(node * each + rank), "WORLD_SIZE": str(nodes * each), "GROUP_RANK": str(node),
            "GROUP_WORLD_SIZE": str(nodes), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(each),
            "TORCHELASTIC_RUN_ID": "run-" + port,
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}, worker)
            for node in range(nodes) for rank in range(each)]
        for process in processes:
            self.addCleanup(process.kill)
        return processes

    def run_all(self, *arguments: Any, **options: Any) -> List[Dict[str, Any]]:
        found = []
        for process in self.start(*arguments, **options):
            status = process.wait(2 * harness.PATIENCE)
            text, errors = process.output()
            self.assertEqual(status, 0, errors)
            found.append(json.loads(text.splitlines()[-1]))
        return found

    def assert_refused(self, why: str, *arguments: Any, **options: Any) -> None:
        """The first process to begin says where, and all of the other node fail."""
        processes = self.start(*arguments, **options)
        each = len(processes) // 2
        failed, said = [process for process in processes if process.wait(2 * harness.PATIENCE)], ""
        for process in processes:
            said += process.output()[1]
        self.assertGreaterEqual(len(failed), each, said)
        self.assertRegex(said, why + r".* \(nodes_differ\)")

    def test_the_sentence_has_each_node_beside_what_it_has(self) -> None:
        mine = {"node": 1, "fingerprint": "f", "data": "d", "nodes": 2, "epoch": 3, "batches": 4, "steps": 5,
                "partition": "p"}
        first = {"node": 6, "fingerprint": "g", "data": "e", "nodes": 7, "epoch": 8, "batches": 9,
                 "steps": 10, "partition": "q"}
        begins = "node 1 begins at batch 4 of epoch 3, node 6 at batch 9 of epoch 8: "
        for key, said in (("fingerprint", "the servers of node 1 and node 6 have different files as data set "
                                          "'train' (f and g): "),
                          ("data", "node 1 and node 6 take different samples of 'train': "),
                          ("nodes", "node 1 is one of 2 nodes, node 6 one of 7: "),
                          ("epoch", begins), ("batches", begins),
                          ("steps", "an epoch has 5 batches on node 1, 10 on node 6: "),
                          ("partition", "the parts of node 1 and node 6 are not of one whole: ")):
            self.assertTrue(agreement._message("train", mine, first, key).startswith(said), key)

    def test_two_nodes_and_then_one(self) -> None:
        """All processes have the whole job's state; another number of nodes goes on from it."""
        with tempfile.TemporaryDirectory() as folder:
            harness.make_folder(folder, SAMPLES, seed=harness.SEED)
            with harness.Server({"train": folder}) as one, harness.Server({"train": folder}) as other:
                for options in ({"shuffle": True}, {"sampler": list(range(SAMPLES))}):
                    first = self.run_all([one.endpoint, other.endpoint], 2, stop=STOP, **options)
                    self.assertEqual([(told["node"], told["nodes"], told["rank"], told["world_size"])
                                      for told in first],
                                     [(0, 2, 0, 2), (0, 2, 1, 2), (1, 2, 0, 2), (1, 2, 1, 2)])
                    state = first[0]["state"]
                    for told in first:
                        self.assertEqual((told["state"], told["len"]), (state, 10))     # 38 on a node, by 4
                        self.assertEqual(len(told["batches"]), STOP)
                    inner = state.get("loader", state)
                    self.assertNotIn("part", inner)
                    self.assertEqual(int(inner["taken"].get("count") or inner["taken"]["places"]),
                                     2 * 2 * 2 * STOP)
                    rest = self.run_all([other.endpoint], 3, state, **options)
                    self.assertEqual({told["nodes"] for told in rest}, {1})
                    for epoch in range(EPOCHS):
                        ids = [sample for told in first + rest for number, batch in told["batches"]
                               if number == epoch for sample in batch]
                        self.assertEqual(sorted(ids), list(range(SAMPLES)))
                    self.assertEqual({json.dumps(told["state"]) for told in rest},
                                     {json.dumps(rest[0]["state"])})

    def test_nodes_that_do_not_fit_together(self) -> None:
        """Nothing is trained on twice: they fail at the first loop, with the remedy."""
        with tempfile.TemporaryDirectory() as folder:
            files = os.path.join(folder, "files")
            harness.make_folder(files, SAMPLES, seed=harness.SEED)
            forms = {"files": files}
            for seed in ("1", "2"):
                forms[seed] = os.path.join(folder, seed)
                done = harness.run("pack", "--quiet", "--seed", seed, files, forms[seed])
                self.assertEqual(done.returncode, 0, done.stderr)
            fewer = os.path.join(folder, "fewer")
            harness.make_folder(fewer, SAMPLES - 1, seed=harness.SEED)
            with harness.Server({"train": forms["1"]}) as one:
                for path, why in ((forms["2"], "in different orders.*serve the same pack on all nodes"),
                                  (files, "in different orders.*serve the same pack on all nodes"),
                                  (fewer, "different files as data set 'train'.*serve copies")):
                    with self.subTest(path), harness.Server({"train": path}) as other:
                        self.assert_refused(why, [one.endpoint, other.endpoint], 1, shuffle=True)
                with harness.Server({"train": forms["1"]}) as other:
                    both = [one.endpoint, other.endpoint]
                    states = [self.run_all(both, 1, stop=stop, shuffle=True)[0]["state"] for stop in (3, 4)]
                    self.assert_refused(r"begins at batch [34] of epoch 0, node . at batch [34] of epoch 0: "
                                        "load states of the same moment", both, 1, states, shuffle=True)
                    self.assert_refused("different samples of 'train'", both, 1,
                                        sampler=[sample for sample in range(SAMPLES)],
                                        wrong_sampler=True)


if __name__ == "__main__":
    unittest.main()

"""torchrun as the pages call it: its own parser reads the options, and the processes are forked, so that a
node imports PyTorch once.  torch_torchrun has the real one.

    forking_torchrun.py OPTIONS SCRIPT ARGUMENTS
"""
from __future__ import annotations

import os
import runpy
import sys
from typing import Any, Dict

import torch.distributed.run

from forked_processes import forked_here


def be(environment: Dict[str, str], script: str, *arguments: str) -> None:
    os.environ.update(environment)
    sys.argv = [script, *arguments]
    sys.path.insert(0, os.path.dirname(script))
    runpy.run_path(script, run_name="__main__")


def environment_of(options: Any, local_rank: int) -> Dict[str, str]:
    """What torchrun gives to each of its processes."""
    nodes, node, each = int(options.nnodes), options.node_rank, int(options.nproc_per_node)
    return {"RANK": str(node * each + local_rank), "WORLD_SIZE": str(nodes * each),
            "LOCAL_RANK": str(local_rank), "LOCAL_WORLD_SIZE": str(each),
            "GROUP_RANK": str(node), "GROUP_WORLD_SIZE": str(nodes), "TORCHELASTIC_RUN_ID": options.rdzv_id,
            "MASTER_ADDR": options.master_addr, "MASTER_PORT": str(options.master_port)}


def main() -> int:
    script = next(at for at, word in enumerate(sys.argv) if at and word.endswith(".py"))
    #  PyTorch 1.13 has underscores in the names of options.
    words = ["--" + word[2:].replace("-", "_") if word.startswith("--") else word
             for word in sys.argv[1:script]]
    options = torch.distributed.run.parse_args([*words, *sys.argv[script:]])
    command = options.training_script, *options.training_script_args
    processes = [forked_here().Process(target=be, args=(environment_of(options, rank), *command))
                 for rank in range(int(options.nproc_per_node))]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return int(any(process.exitcode for process in processes))


if __name__ == "__main__":
    sys.exit(main())

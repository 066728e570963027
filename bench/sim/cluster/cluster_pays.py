#!/usr/bin/env python3
"""When a cluster cache pays: an epoch with homes beside one in which every node caches for itself.

    python3 bench/sim/cluster/cluster_pays.py [--binary build/release/bin/cluster_sim] [--data 400G]
                                              [--nodes 32] [--preference 4] [--svg FILE]

Runs cluster_sim for links, stores and caches of several sizes, and prints a table in Markdown: what the third
epoch reads from the store, of the data, and how much longer it takes without peers.  --svg draws the seconds
of that epoch, of the caches that hold half of the data together, into FILE.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bench" / "speed"))

import bar_drawing                                                      # noqa: E402

UNITS = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
STORES = ("20G", "100G", "400G")        # bits a second, to all nodes together
LINKS = ("1G", "10G", "25G", "100G")
HELD = (0.25, 0.5, 1.1)                 # by all caches together, of the data
DRAWN = 0.5


class Epoch(NamedTuple):
    seconds: float
    share: float                # from the store, of the data


def amount(text: str) -> float:
    unit = UNITS.get(text[-1:])
    return float(text[:-1]) * unit if unit else float(text)


def third_epoch(options: argparse.Namespace, held: float, store: str, extra: List[str]) -> Epoch:
    cache = amount(options.data) * held / options.nodes
    command = [options.binary, "--data", options.data, "--nodes", str(options.nodes), "--epochs", "3",
               "--cache", f"{cache:.0f}", "--store", store, "--preference", str(options.preference),
               "--json"] + extra
    answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    last = answer["epochs"][-1]
    return Epoch(last["seconds"], last["store_bytes"] / last["read_bytes"])


def draw(drawn: Dict[str, List[bar_drawing.Bar]], options: argparse.Namespace) -> str:
    groups = [bar_drawing.Group(f"store {store}bit/s for all nodes", bars) for store, bars in drawn.items()]
    return bar_drawing.draw(groups, f"seconds of an epoch; {options.nodes} nodes, {options.data}B, caches of "
                            f"{DRAWN:g} of the data together (cluster_sim)")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--binary", default=str(ROOT / "build" / "release" / "bin" / "cluster_sim"))
    parser.add_argument("--data", default="400G", metavar="BYTES")
    parser.add_argument("--nodes", type=int, default=32, metavar="N")
    parser.add_argument("--preference", type=float, default=4, metavar="F")
    parser.add_argument("--svg", metavar="FILE")
    options = parser.parse_args()
    drawn: Dict[str, List[bar_drawing.Bar]] = {}
    print("| store, all nodes | caches together, of the data | without peers: seconds | "
          + " | ".join(f"link {link}" for link in LINKS) + " |\n" + "|" + " --- |" * (3 + len(LINKS)))
    for store in STORES:
        for held in HELD:
            alone = third_epoch(options, held, store, ["--peers", "none"])
            homes = {link: third_epoch(options, held, store, ["--link", link]) for link in LINKS}
            cells = [f"{alone.seconds / epoch.seconds:.2f} x, {epoch.share:.2f}" for epoch in homes.values()]
            print(f"| {store} | {held:g} | {alone.seconds:.1f} ({alone.share:.2f}) | " + " | ".join(cells)
                  + " |", flush=True)
            if held == DRAWN:
                bars = [bar_drawing.Bar("no peers", alone.seconds, f"{alone.seconds:.1f}", False)]
                bars += [bar_drawing.Bar(f"homes, links {link}", epoch.seconds, f"{epoch.seconds:.1f}", True)
                         for link, epoch in homes.items()]
                drawn[store] = bars
    if options.svg:
        Path(options.svg).write_text(draw(drawn, options), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

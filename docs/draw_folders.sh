#!/bin/sh
#  Draws docs/folders.svg: the product's folders, as CMake's targets, and which uses which.  Needs graphviz.
#
#      sh docs/draw_folders.sh
set -eu
root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd -P)
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export PATH
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cmake -S "$root" -B "$scratch/build" -DBUILD_TESTING=OFF --graphviz="$scratch/targets.dot" >/dev/null
/usr/bin/python3 - "$scratch/targets.dot" >"$scratch/folders.dot" <<'PYTHON'
import re
import sys

#  Folders that the product is made of; tests, benches and libraries from elsewhere are left out.
OTHER = re.compile(r"sim|bench|example|client|syscalls|interpose|cache$|^command$")
names, arrows = {}, set()
for line in open(sys.argv[1], encoding="utf-8"):
    node = re.match(r'\s*"(node\d+)" \[ label = "(?:tureen_)?(\w+)', line)
    if node and 'label = "tureen' in line and not OTHER.search(node.group(2)):
        names[node.group(1)] = node.group(2)
    arrow = re.match(r'\s*"(node\d+)" -> "(node\d+)"', line)
    if arrow:
        arrows.add(arrow.groups())
print('digraph { rankdir = LR; bgcolor = transparent; node [shape = box, style = "rounded,filled",'
      ' fillcolor = "#e8f0fa", color = "#3b6ea5", fontname = sans, fontsize = 11]; edge [color = "#3b6ea5"];')
for name in sorted(names.values()):
    print(f'"{name}"')
for start, end in sorted(arrows):
    if start in names and end in names:
        print(f'"{names[start]}" -> "{names[end]}"')
print("}")
PYTHON
tred "$scratch/folders.dot" | dot -Tsvg >"$root/docs/folders.svg"

"""Checks of the tree that need no build; tests/tidy starts this and says how.

Each check yields findings: (rule, place, text).  A finding is an exception if its "rule place" stands in
tests/tidy.known; an exception that no longer occurs is a finding itself, so the file can only get shorter.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Set, Tuple

COLUMNS_MAX = 110
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 1200
FOLDER_SOURCES_MAX = 25

PRODUCT = ("base", "sampler", "cache", "decode", "server", "tools", "clients/c")
#  Not ours to format: what is recorded, and what fuzzers found.
DATA = ("tests/fuzz/corpus/", "tests/golden/", "tests/decode/golden/")

#  States that one function moves: the members, and the file that may assign them.
MOVED_STATES = {r"\b(job|rank|batch|row|version)->state = ": "server/broker/model/states.c"}

#  Names that a newcomer could not guess, and the better ones.
OLD_NAMES = {
    "crowd": "connection_limit",
    "ledger": "receive_quota",
    "waiting_room": "request_queue",
    "rations": "error_rate_limit",
    "refusals_t": "rejection_log",
    "mail_t": "inbound_message",
    "door": "ring_server",
    "gathering_t": "rendezvous",
    "lingering": "closing_rings",
    "stock": "version_index",
    "claimant": "consumer",
    "claimants": "consumers",
    "shelf": "reusable_versions",
    "shelve": "reusable_add",
    "unshelve": "reusable_remove",
    "shelved": "reusable",
    "turns_t": "slow_job_quota",
    "sated": "throttled",
    "cloying": "evictable",
    "bury": "reclaim",
    "burial": "reclaim",
    "chore": "side_job",
    "chores": "side_jobs",
    "errand": "side_task",
    "errands": "side_tasks",
    "recall": "replay",
}
BANNED_CALLS = ("sprintf", "vsprintf", "gets", "strtok")
#  Words that leave the actor unnamed.  A comment names it: client, job, rank, user, tenant, peer, worker ...
UNNAMED = re.compile(r"\b(who|whom|whose|whoever|nobody|somebody|anybody|everybody)\b", re.I)
LATER = re.compile(r"\b(TODO|FIXME|XXX)\b")


class Finding(NamedTuple):
    rule: str
    place: str
    text: str


class Tree:
    """The files under version control, read once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        if (root / ".git").exists():
            listed = subprocess.run(
                ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                stdout=subprocess.PIPE,
                check=True,
            )
            names = listed.stdout.decode().split("\0")
        else:
            names = [str(path.relative_to(root)) for path in root.rglob("*")]
            names = [name for name in names if not name.startswith("build/") and "__pycache__" not in name]
        self.names = sorted(
            name for name in names if name and (root / name).is_file() and not name.startswith(DATA)
        )
        self.texts: Dict[str, str] = {}
        for name in self.names:
            try:
                self.texts[name] = (root / name).read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue

    def with_ending(self, *endings: str) -> Iterator[Tuple[str, str]]:
        for name, text in self.texts.items():
            if name.endswith(endings):
                yield name, text


def is_product(name: str) -> bool:
    return name.startswith(tuple(folder + "/" for folder in PRODUCT))


def without_comments(text: str) -> str:
    """C without comments and the insides of strings; lines stay where they are."""

    def blank(match: "re.Match[str]") -> str:
        found = match.group(0)
        if found.startswith(("/*", "//")):
            return "\n" * found.count("\n")
        return found[0] + found[-1]

    return re.sub(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", blank, text, flags=re.S)


def comments(name: str, text: str) -> str:
    """The comments of a source; of Python also all strings in three quotes.  Lines are not kept."""
    if name.endswith((".c", ".h")):
        found = re.finditer(r"(//[^\n]*|/\*.*?\*/)|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", text, re.S)
    elif name.endswith(".py"):
        found = re.finditer(
            r"(\"{3}.*?\"{3}|#[^\n]*)|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", text, re.S
        )
    else:
        found = re.finditer(r"^\s*(#[^\n]*)", text, re.M)
    return "\n".join(match.group(1) for match in found if match.group(1))


#  ---- includes


class Targets:
    """What each CMake target shows and uses, and which targets a folder makes: from the build's own files."""

    def __init__(self, tree: Tree) -> None:
        self.uses: Dict[str, Set[str]] = defaultdict(set)
        self.shows: Dict[str, Set[str]] = defaultdict(set)  # folders of headers
        self.made_in: Dict[str, Set[str]] = defaultdict(set)  # folder -> targets
        for name, text in tree.with_ending("CMakeLists.txt"):
            if is_product(name):
                self.read(os.path.dirname(name), re.sub(r"#[^\n]*", "", text))

    def read(self, here: str, text: str) -> None:
        for command, body in re.findall(r"(\w+) \(([^()]*)\)", text):
            words = body.split()
            if command == "tureen_folder":
                self.made_in[here].add(words[0])
                self.shows[words[0]].add(here)
                if "USES" in words:
                    self.uses[words[0]].update(
                        word for word in words[words.index("USES") + 1 :] if word.startswith("tureen_")
                    )
            elif command in ("add_library", "add_executable"):
                self.made_in[here].add(words[0])
                for source in words[1:]:
                    if "/" in source and source.endswith(".c"):
                        self.made_in[os.path.join(here, os.path.dirname(source))].add(words[0])
            elif command == "target_include_directories":
                for word in words[2:]:
                    word = word.replace("${CMAKE_CURRENT_SOURCE_DIR}", ".").replace(
                        "${PROJECT_SOURCE_DIR}", "/"
                    )
                    folder = (
                        word.lstrip("/")
                        if word.startswith("/")
                        else os.path.normpath(os.path.join(here, word))
                    )
                    self.shows[words[0]].add(folder)
            elif command == "target_link_libraries":
                self.uses[words[0]].update(word for word in words[1:] if word.startswith("tureen_"))

    def visible(self, folder: str) -> Set[str]:
        """The folders with headers that the targets made in this folder see."""
        seen: Set[str] = set()
        waiting = list(self.made_in.get(folder, ()))
        while waiting:
            one = waiting.pop()
            if one not in seen:
                seen.add(one)
                waiting.extend(self.uses.get(one, ()))
        return {folder}.union(*(self.shows.get(one, set()) for one in seen))


def circle(graph: Dict[str, Set[str]]) -> List[str]:
    """A circle of the graph, or nothing."""
    state: Dict[str, int] = {}
    path: List[str] = []

    def visit(node: str) -> List[str]:
        state[node] = 1
        path.append(node)
        for other in sorted(graph.get(node, ())):
            if state.get(other) == 1:
                return path[path.index(other) :] + [other]
            if other not in state:
                found = visit(other)
                if found:
                    return found
        path.pop()
        state[node] = 2
        return []

    for node in sorted(graph):
        if node not in state:
            found = visit(node)
            if found:
                return found
    return []


def check_includes(tree: Tree) -> Iterator[Finding]:
    targets = Targets(tree)
    headers: Dict[str, str] = {}
    for name, _ in tree.with_ending(".h"):
        if is_product(name) or name.startswith("clients/"):
            base = os.path.basename(name)
            if base in headers:
                yield Finding("header", name, f"another header of this name is {headers[base]}")
            headers[base] = name
    files: Dict[str, Set[str]] = defaultdict(set)
    for name, text in tree.with_ending(".c", ".h"):
        if not is_product(name):
            continue
        visible = targets.visible(os.path.dirname(name))
        for included in re.findall(r'^#include "([^"]+)"', text, re.M):
            header = headers.get(os.path.basename(included))
            if header is None:
                yield Finding("include", name, f"there is no header '{included}'")
                continue
            files[name].add(header)
            if os.path.dirname(header) not in visible:
                yield Finding(
                    "include", name, f"'{included}': this folder does not use {os.path.dirname(header)}"
                )
    found = circle(targets.uses)
    if found:
        yield Finding("circle", found[0], "targets use each other: " + " -> ".join(found))
    found = circle(files)
    if found:
        yield Finding("circle", found[0], "files include each other: " + " -> ".join(found))


def check_folders(tree: Tree) -> Iterator[Finding]:
    sources: Dict[str, int] = defaultdict(int)
    for name, _ in tree.with_ending(".c"):
        if is_product(name):
            sources[os.path.dirname(name)] += 1
    for folder, count in sources.items():
        if count > FOLDER_SOURCES_MAX:
            yield Finding("folder", folder, f"{count} sources; at most {FOLDER_SOURCES_MAX}")
    listed = "".join(text for _, text in tree.with_ending("CMakeLists.txt"))
    for name, _ in tree.with_ending(".c"):
        if not re.search(rf"\b{re.escape(os.path.basename(name)[:-2])}\b", listed):
            yield Finding("unbuilt", name, "no CMakeLists.txt names it")


#  ---- lengths


def check_columns(tree: Tree) -> Iterator[Finding]:
    """By folder: so many lines are too long."""
    counts: Dict[str, int] = defaultdict(int)
    for name, text in tree.with_ending(".c", ".h", ".py", ".sh", ".cmake", "CMakeLists.txt"):
        counts[os.path.dirname(name) or "."] += sum(len(line) > COLUMNS_MAX for line in text.split("\n"))
    for folder, count in counts.items():
        if count:
            yield Finding("columns", f"{folder} {count}", f"{count} lines over {COLUMNS_MAX} columns")


def functions(text: str) -> Iterator[Tuple[str, int, int]]:
    """(name, first line, lines) of each function definition of a C file in the house's form."""
    lines = text.split("\n")
    name, start = "", 0
    for number, line in enumerate(lines):
        match = re.match(r"([a-z_]\w*) \(", line)
        if match and not line.rstrip().endswith(";"):
            name, start = match.group(1), number
        elif line == "}" and name:
            yield name, start + 1, number - start + 1
            name = ""


def check_lengths(tree: Tree) -> Iterator[Finding]:
    for name, text in tree.with_ending(".c", ".h", ".py", ".sh"):
        count = text.count("\n")
        if count > FILE_LINES_MAX:
            yield Finding("file", name, f"{count} lines; at most {FILE_LINES_MAX}")
    for name, text in tree.with_ending(".c"):
        for function, line, count in functions(without_comments(text)):
            if count > FUNCTION_LINES_MAX:
                yield Finding(
                    "function",
                    f"{name} {function}",
                    f"{count} lines (from {line}); at most {FUNCTION_LINES_MAX}",
                )


#  ---- names


def check_names(tree: Tree) -> Iterator[Finding]:
    for name, text in tree.with_ending(".c", ".h"):
        code = without_comments(text)
        parts = set()
        for word in set(re.findall(r"[A-Za-z_]\w*", code)):
            pieces = word.lower().split("_")
            parts.update(
                "_".join(pieces[first:last])
                for first in range(len(pieces))
                for last in range(first + 1, min(first + 3, len(pieces) + 1))
            )
        parts.add(os.path.basename(name).rsplit(".", 1)[0])
        for old in sorted(parts & set(OLD_NAMES)):
            yield Finding("name", f"{name} {old}", f"'{old}': the name is {OLD_NAMES[old]}")
        for call in BANNED_CALLS:
            if is_product(name) and re.search(rf"\b{call} ?\(", code):
                yield Finding("banned", f"{name} {call}", f"{call} is not used here")
    for name, text in tree.with_ending(".c", ".h", ".py", ".sh", ".md"):
        if name != "tests/tidy.py" and LATER.search(text):
            yield Finding("later", name, "finish it, or make it an issue")


def check_comments(tree: Tree) -> Iterator[Finding]:
    for name, text in tree.with_ending(".c", ".h", ".py", ".sh", ".cmake", "CMakeLists.txt", "tests/tidy"):
        for word in sorted(set(found.lower() for found in UNNAMED.findall(comments(name, text)))):
            yield Finding("unnamed", f"{name} {word}", f"'{word}' in a comment: name the actor")


def check_states(tree: Tree) -> Iterator[Finding]:
    for pattern, mover in MOVED_STATES.items():
        for name, text in tree.with_ending(".c", ".h"):
            if name != mover and name.startswith("server/") and re.search(pattern, without_comments(text)):
                yield Finding("state", name, f"only {mover} assigns this state ({pattern.strip()})")


#  ---- documents


def check_documents(tree: Tree) -> Iterator[Finding]:
    known = set(tree.names)
    folders = {os.path.dirname(name) for name in tree.names}
    stems = {os.path.basename(name) for name in tree.names}
    for name, text in tree.with_ending(".md"):
        here = os.path.dirname(name)
        for link in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", text):
            if re.match(r"[a-z]+:", link):
                continue
            path = os.path.normpath(os.path.join(here, link))
            if path not in known and path not in folders:
                yield Finding("link", f"{name} {link}", "there is no such file")
        for path in sorted(set(re.findall(r"`((?:[a-z_]+/)*[a-z_0-9]+\.(?:c|h|py|sh))\b", text))):
            if "/" in path and path not in known and os.path.normpath(os.path.join(here, path)) not in known:
                if not any(one.endswith("/" + path) for one in known):
                    yield Finding("link", f"{name} {path}", "there is no such file")
            elif "/" not in path and path.endswith((".c", ".h")) and path not in stems:
                yield Finding("link", f"{name} {path}", "there is no such file")
        for script in sorted(set(re.findall(r"\bsh ((?:[a-z]+/)+[a-z._-]+)", text))):
            if script.rstrip(".") not in known:
                yield Finding("link", f"{name} {script}", "there is no such script")


CHECKS = (
    check_includes,
    check_folders,
    check_columns,
    check_lengths,
    check_names,
    check_comments,
    check_states,
    check_documents,
)


def main() -> int:
    root = Path(sys.argv[1]).resolve()
    tree = Tree(root)
    found = [finding for check in CHECKS for finding in check(tree)]
    listed = root / "tests" / "tidy.known"
    known = (
        set(
            line
            for line in listed.read_text(encoding="utf-8").split("\n")
            if line and not line.startswith("#")
        )
        if listed.exists()
        else set()
    )
    bad = 0
    for finding in found:
        key = f"{finding.rule} {finding.place}"
        if key in known:
            known.discard(key)
            continue
        bad += 1
        print(f"{finding.place}: {finding.text} [{finding.rule}]")
    for key in sorted(known):
        bad += 1
        print(f"tests/tidy.known: '{key}' does not occur any more: remove it, or write the smaller number")
    if bad:
        print(f"tidy: {bad} finding{'' if bad == 1 else 's'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

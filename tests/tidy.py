"""Checks of the tree that need no build; tests/tidy starts this and says how.

Each check yields findings: (rule, place, text).  A finding is an exception if its "rule place" stands in
tests/tidy.known; an exception that no longer occurs is a finding itself, so the file can only get shorter.
Some findings count what is to become less.  Their line in that file is "rule place N", where N is a ceiling:
a higher count is a finding, and so is a lower one until the line has it.
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
HEADER_FUNCTIONS_MAX = 35
STATE_HEADERS_MAX = 3
JOIN_STRUCTURES_MAX = 3
PAGE_LINES_MAX = 300
LONG_PAGES_MAX = 2
SHORT_LINES_MAX = 3

PRODUCT = ("base", "sampler", "source", "cache", "decode", "server", "tools", "clients/c")
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
    "lingering": "ring_closing",
    "stock": "version_index",
    "claimant": "consumer",
    "claimants": "consumers",
    "shelf": "reusable_set",
    "shelve": "reusable_add",
    "unshelve": "reusable_remove",
    "shelved": "reusable",
    "turns_t": "slow_job_quota",
    "sated": "throttled",
    "cloying": "evictable",
    "bury": "reclaim",
    "burial": "reclaim",
    "chore": "side_task",
    "chores": "side_tasks",
    "side_job": "side_task",
    "side_jobs": "side_tasks",
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
    count: int = 0  # of what is to become less


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
            yield Finding("columns", folder, f"lines over {COLUMNS_MAX} columns", count)


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


#  ---- modules

#  A function definition in the house's form: type, name, parameters, body.
DEFINITION = re.compile(r"^([A-Za-z_][^\n;{}#]*)\n([a-z_]\w*) \([^;{}]*\)\n\{\n(.*?)^\}", re.M | re.S)
#  A table or a constant that has a value, and that other sources may use.
TABLE = re.compile(r"^(?!static|typedef)[a-z_][\w ]*?[ *]([a-z_]\w*)(?: \[[^\n]*\])? =", re.M)
WORD = re.compile(r"(?<![\w.])(?<!->)[a-z_]\w*")  # no member of a structure


def is_static(kind: str) -> bool:
    return re.search(r"\bstatic\b", kind) is not None


def declared(header: str) -> List[str]:
    """The functions that a header, without its comments, declares and does not define."""
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", header, flags=re.M)
    count = 1
    while count:
        text, count = re.subn(r"\{[^{}]*\}", ";", text)
    found = []
    for statement in text.split(";"):
        statement = re.sub(r"__attribute__ \(\(.*\)\)", "", statement.strip(), flags=re.S)
        name = re.search(r"\b([a-z]\w*) \(", statement)
        if name and not re.search(r"\b(typedef|static|_Static_assert)\b", statement[: name.end()]):
            found.append(name.group(1))
    return found


def reached(graph: Dict[str, Set[str]], start: str) -> Set[str]:
    found: Set[str] = set()
    waiting = [start]
    while waiting:
        new = graph.get(waiting.pop(), set()) - found
        found |= new
        waiting.extend(new)
    return found


class Sources:
    """The product's C without comments, and which source uses what of which other."""

    def __init__(self, tree: Tree) -> None:
        self.code = {
            name: without_comments(text)
            for name, text in tree.with_ending(".c", ".h")
            if is_product(name)
        }
        headers = {os.path.basename(name): name for name in self.code if name.endswith(".h")}
        self.includes = {
            name: {
                headers[os.path.basename(included)]
                for included in re.findall(r'^#include "([^"]+)"', tree.texts[name], re.M)
                if os.path.basename(included) in headers
            }
            for name in self.code
        }

    def with_ending(self, ending: str) -> Iterator[Tuple[str, str]]:
        return ((name, text) for name, text in self.code.items() if name.endswith(ending))

    def uses(self) -> Dict[str, Set[str]]:
        """Each source, and the others that define what it names: what a linker finds, except in tables that
        macros make.  A word counts where a header that the source sees has it before `(`, `[` or `;`.
        """
        made_in: Dict[str, str] = {}
        for name, text in self.with_ending(".c"):
            for kind, function, _ in DEFINITION.findall(text):
                if not is_static(kind):
                    made_in[function] = name
            made_in.update((table, name) for table in TABLE.findall(text))
        shown = {
            name: set(re.findall(r"\b([a-z_]\w*)(?: \(| \[|;)", text))
            for name, text in self.with_ending(".h")
        }
        inlined = {
            function: set(WORD.findall(body))
            for _, text in self.with_ending(".h")
            for _, function, body in DEFINITION.findall(text)
        }
        graph = {}
        for name, text in self.with_ending(".c"):
            seen = set().union(*(shown[header] for header in reached(self.includes, name)))
            named = reached({**inlined, name: seen.intersection(WORD.findall(text))}, name)
            graph[name] = {made_in[word] for word in named if word in made_in} - {name}
        return graph


def check_circles(tree: Tree) -> Iterator[Finding]:
    """By folder: sources that use each other in a circle."""
    graph = Sources(tree).uses()
    after = {name: reached(graph, name) for name in graph}
    circles: Dict[str, List[str]] = defaultdict(list)
    for name in graph:
        if name in after[name]:
            first = min(other for other in after[name] if name in after[other])
            circles[first].append(os.path.basename(name)[:-2])
    folders: Dict[str, List[str]] = defaultdict(list)
    for first, names in circles.items():
        folders[os.path.dirname(first)].append("-".join(names))
    for folder, found in folders.items():
        text = f"sources use each other in a circle ({', '.join(found)})"
        yield Finding("circle", folder, text, sum(one.count("-") + 1 for one in found))


def check_headers(tree: Tree) -> Iterator[Finding]:
    """Functions of one header, and by folder those that are not named as their header is."""
    odd: Dict[str, List[str]] = defaultdict(list)
    states = []
    for name, text in Sources(tree).with_ending(".h"):
        offered = declared(text)
        if len(offered) > HEADER_FUNCTIONS_MAX:
            yield Finding("offers", name, f"functions; at most {HEADER_FUNCTIONS_MAX}", len(offered))
        stem = os.path.basename(name)[:-2]
        if stem.endswith("_state"):
            states.append(stem)
            stem = stem[: -len("_state")]
        odd[os.path.dirname(name)] += [one for one in offered if not f"{one}_".startswith(stem + "_")]
    for folder, functions in odd.items():
        if functions:
            text = f"functions do not begin with their header's name ({', '.join(functions)})"
            yield Finding("prefix", folder, text, len(functions))
    if len(states) > STATE_HEADERS_MAX:
        text = f"headers of one object's fragments ({', '.join(states)}); at most {STATE_HEADERS_MAX}"
        yield Finding("state_headers", "product", text, len(states))


def check_short(tree: Tree) -> Iterator[Finding]:
    """By folder: static functions of up to SHORT_LINES_MAX lines that one place calls."""
    folders: Dict[str, List[str]] = defaultdict(list)
    for name, text in Sources(tree).with_ending(".c"):
        for kind, function, body in DEFINITION.findall(text):
            if is_static(kind) and sum(bool(line.strip()) for line in body.split("\n")) <= SHORT_LINES_MAX:
                used = re.sub(rf"^(static\b.*)?\b{function} \(", "", text, flags=re.M)
                if re.findall(rf"\b{function}\b(?: \()?", used) == [f"{function} ("]:
                    folders[os.path.dirname(name)].append(function)
    for folder, functions in folders.items():
        text = f"short functions have one caller ({', '.join(functions)})"
        yield Finding("short", folder, text, len(functions))


def check_joins(tree: Tree) -> Iterator[Finding]:
    """What a JOIN says lies in few structures."""
    found = []
    for name, text in Sources(tree).code.items():
        names = re.findall(r"\bstruct (\w+)\s*\{|^\} (\w+)_t;", text, re.M)
        found += sorted({one or other for one, other in names if "join" in (one or other).split("_")})
    if len(found) > JOIN_STRUCTURES_MAX:
        text = f"structures of a JOIN ({', '.join(found)}); at most {JOIN_STRUCTURES_MAX}"
        yield Finding("joins", "product", text, len(found))


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


def check_pages(tree: Tree) -> Iterator[Finding]:
    pages = tree.with_ending(".md")
    long = [os.path.basename(name) for name, text in pages if text.count("\n") > PAGE_LINES_MAX]
    if len(long) > LONG_PAGES_MAX:
        text = f"pages over {PAGE_LINES_MAX} lines ({', '.join(long)}); at most {LONG_PAGES_MAX}"
        yield Finding("long_pages", "docs", text, len(long))


CHECKS = (
    check_includes,
    check_folders,
    check_columns,
    check_lengths,
    check_names,
    check_comments,
    check_states,
    check_circles,
    check_headers,
    check_short,
    check_joins,
    check_documents,
    check_pages,
)


def main() -> int:
    root = Path(sys.argv[1]).resolve()
    tree = Tree(root)
    found = [finding for check in CHECKS for finding in check(tree)]
    listed = root / "tests" / "tidy.known"
    lines = listed.read_text(encoding="utf-8").split("\n") if listed.exists() else []
    known: Dict[str, int] = {}
    for line in lines:
        if line and not line.startswith("#"):
            key, _, ceiling = line.rpartition(" ")
            known.update({key: int(ceiling)} if ceiling.isdigit() else {line: 0})
    bad = 0
    for finding in found:
        key = f"{finding.rule} {finding.place}"
        ceiling = known.pop(key, -1)
        if ceiling == finding.count:
            continue
        bad += 1
        count = f"{finding.count} " if finding.count else ""
        print(f"{finding.place}: {count}{finding.text} [{finding.rule}]")
        if ceiling > finding.count:
            print(f"tests/tidy.known: lower the ceiling of '{key}' from {ceiling} to {finding.count}")
        elif ceiling > 0:
            print(f"tests/tidy.known: the ceiling of '{key}' is {ceiling}")
    for key in sorted(known):
        bad += 1
        print(f"tests/tidy.known: '{key}' does not occur any more: remove it")
    if bad:
        print(f"tidy: {bad} finding{'' if bad == 1 else 's'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

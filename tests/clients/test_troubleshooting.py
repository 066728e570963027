"""docs/troubleshooting.md against the sources: each message that it quotes is one that is written somewhere,
and each word of the protocol's tables of ERROR and ENDED is there.

Run by ctest (troubleshooting), or by hand: python3 tests/clients/test_troubleshooting.py
"""
from __future__ import annotations

import ast
import re
import unittest
from pathlib import Path
from typing import Iterator, List, Tuple

SOURCE = Path(__file__).resolve().parent.parent.parent
PAGE = SOURCE / "docs" / "troubleshooting.md"
GAP = "\0"                          # what differs, in a message as the sources have it

#  C: literals one after the other are one text, also with a width from <inttypes.h> between them.
LITERALS = re.compile(r'"(?:[^"\\\n]|\\.)*"(?:(?:\s|PRI[a-zA-Z0-9]+)*"(?:[^"\\\n]|\\.)*")*')
CONVERSION = re.compile(r"%[-+ #0]*\d*(?:\.\d+|\.\*)?(?:hh|ll|[hlzjt])?[a-zA-Z]|%(?=$)")


def texts_of_c(text: str) -> Iterator[str]:
    for found in LITERALS.finditer(text):
        parts = re.findall(r'"((?:[^"\\\n]|\\.)*)"', found.group())
        joined = "".join(parts).replace('\\"', '"').replace("\\n", " ")
        yield CONVERSION.sub(GAP, re.sub(r"%(?= |$|')", GAP, joined) if "PRI" in found.group() else joined)


def texts_of_python(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else GAP for part in node.values)


def rows(text: str) -> Iterator[Tuple[List[str], str]]:
    """(words of the first column, the message) of each row of a table of three columns."""
    for line in text.splitlines():
        cells = [cell.strip()
                 for cell in line.strip().strip("|").split(" | ")] if line.startswith("| ") else []
        if len(cells) == 3 and cells[1].startswith("`"):
            yield re.findall(r"`([^`]+)`", cells[0]) or [cells[0]], cells[1].strip("`")


def codes_of_protocol() -> Tuple[List[str], List[str]]:
    text = (SOURCE / "docs" / "protocol.md").read_text(encoding="utf-8")
    errors = text[text.index("## ERROR\n"):text.index("## STATUS_REPLY")]
    ended = text[text.index("## ENDED\n"):text.index("## HEARTBEAT")]
    found = [code for line in errors.splitlines() if line.startswith("| `")
             for code in re.findall(r"`([a-z_]+)`", line.split("|")[1])]
    #  `left`: ... and, at the sentence's begin, the words that follow.
    return found, re.findall(r"(?:^|[.:)] |\n)`([a-z_]+)`: ", ended)


class Troubleshooting(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.page = PAGE.read_text(encoding="utf-8")
        cls.rows = list(rows(cls.page))
        cls.texts: List[str] = []
        for folder in ("base", "server", "tools", "source", "cache", "decode", "sampler", "clients/c"):
            for path in sorted((SOURCE / folder).rglob("*.[ch]")):
                cls.texts += texts_of_c(path.read_text(encoding="utf-8"))
        for path in sorted((SOURCE / "clients" / "python" / "tureen").rglob("*.py")):
            cls.texts += texts_of_python(path.read_text(encoding="utf-8"))

    def test_messages_are_written_somewhere(self) -> None:
        self.assertGreater(len(self.rows), 50)
        for _, message in self.rows:
            pattern = re.compile(".*".join(map(re.escape, message.split("..."))), re.DOTALL)
            with self.subTest(message):
                self.assertTrue(any(pattern.search(text) for text in self.texts),
                                "no message like this in the sources: the page, or the message, has changed")

    def test_every_code_is_there(self) -> None:
        errors, ended = codes_of_protocol()
        self.assertGreaterEqual(len(errors), 14)
        self.assertGreaterEqual(len(ended), 9)
        begin, end = self.page.index("## A job is refused"), self.page.index("## A job ends")
        told = [{word for words, _ in rows(part) for word in words}
                for part in (self.page[begin:end], self.page[end:self.page.index("## In Python")])]
        self.assertEqual(set(errors) - told[0], set(), "ERROR")
        self.assertEqual(set(ended) - told[1], set(), "ENDED")

    def test_codes_and_exceptions_exist(self) -> None:
        known = set(self.texts)
        python = "".join(path.read_text(encoding="utf-8")
                         for path in (SOURCE / "clients" / "python" / "tureen").rglob("*.py"))
        for words, _ in self.rows:
            for word in words:
                if not word.startswith("status "):
                    self.assertTrue(word in known or f"class {word}(" in python
                                    or word in ("ImportError", "RuntimeError", "RuntimeWarning", "TypeError",
                                                "ValueError"), word)

    def test_links_lead_somewhere(self) -> None:
        for name in ("troubleshooting.md", "clients.md", "deployment.md"):
            text = (SOURCE / "docs" / name).read_text(encoding="utf-8")
            for target in re.findall(r"\]\(([^)]+)\)", text):
                if target.startswith("http"):
                    continue
                path, _, anchor = target.partition("#")
                other = SOURCE / "docs" / (path or name)
                self.assertTrue(other.exists(), f"{name}: {target}")
                if anchor:
                    titles = re.findall(r"^#+ (.*)$", other.read_text(encoding="utf-8"), re.MULTILINE)
                    anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
                    self.assertIn(anchor, anchors, f"{name}: {target}")


if __name__ == "__main__":
    unittest.main()

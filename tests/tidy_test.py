"""tests/tidy finds what it says it finds: each kind of fault is planted in a small tree of its own."""

import os
import subprocess
import tempfile
import unittest

TIDY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tidy")

SOUND = {
    "base/CMakeLists.txt": "tureen_folder (tureen_base\n    SOURCES\n        clock.c)\n",
    "base/clock.c": '#include "clock.h"\n\nint\nclock_now (void)\n{\n    return 0;\n}\n',
    "base/clock.h": "int clock_now (void);\n",
    "server/CMakeLists.txt": "tureen_folder (tureen_server\n    SOURCES\n        loop.c\n"
    "    USES\n        tureen_base)\n",
    "server/loop.c": '#include "loop.h"\n#include "clock.h"\n\nint\nloop_run (void)\n'
    "{\n    return clock_now ();\n}\n",
    "server/loop.h": "int loop_run (void);\n",
    "README.md": "[the loop](server/loop.c), `base/clock.h`\n",
}


def replaced(name: str, old: str, new: str) -> dict:
    assert old in SOUND[name]
    return {name: SOUND[name].replace(old, new)}


class Tidy(unittest.TestCase):
    def run_on(self, files: dict) -> "tuple[int, str]":
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**SOUND, **files}.items():
                path = os.path.join(folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            done = subprocess.run(
                ["sh", TIDY, folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
            )
        return done.returncode, done.stdout.decode()

    def test_a_sound_tree(self) -> None:
        self.assertEqual(self.run_on({}), (0, ""))

    def test_each_fault_is_found(self) -> None:
        long_function = "\nint\nloop_long (void)\n{\n" + "    (void) 0;\n" * 70 + "}\n"
        called = "\nstatic int\ns_short (void)\n{\n    return 1;\n}\n\nint\nloop_on (void)\n{\n"
        called += "    return s_short ();\n}\n"
        faults = {
            "include": replaced("base/clock.c", "\n\nint", '\n#include "loop.h"\n\nint'),
            "circle": replaced("base/CMakeLists.txt", "clock.c", "clock.c\n    USES\n        tureen_server"),
            "columns": replaced("server/loop.c", "return", "/*" + "-" * 110 + "*/ return"),
            "function": {"server/loop.c": SOUND["server/loop.c"] + long_function},
            "file": {"server/loop.h": SOUND["server/loop.h"] + "\n" * 1200},
            "unbuilt": {"server/spare.c": "int spare;\n"},
            "name": replaced(
                "server/loop.c",
                "return clock_now ();",
                "int crowd_count = clock_now ();\n    return crowd_count;",
            ),
            "banned": replaced("server/loop.c", "return", "sprintf (0, 0);\n    return"),
            "later": replaced("server/loop.h", "int", "//  TO" + "DO\nint"),
            "state": replaced("server/loop.c", "return", "job->state = 1;\n    return"),
            "link": replaced("README.md", "server/loop.c", "server/lop.c"),
            "unnamed": replaced("server/loop.c", "return", "//  for who" + "ever calls\n    return"),
            "header": {"server/clock.h": "int clock_other (void);\n"},
            "offers": {"base/clock.h": "".join(f"int clock_{number} (void);\n" for number in range(36))},
            "prefix": replaced("base/clock.h", ";", ";\nint now (int of (void), char [static 2]);"),
            "short": {"server/loop.c": SOUND["server/loop.c"] + called},
            "state_headers": {f"base/{name}_state.h": "" for name in ("a", "b", "c", "d")},
            "joins": {"base/clock.h": "".join(f"struct join_{name} {{ int a; }};\n" for name in "abcd")},
            "long_pages": {f"docs/{name}.md": "\n" * 301 for name in "abc"},
        }
        for rule, files in faults.items():
            with self.subTest(rule):
                status, said = self.run_on(files)
                self.assertEqual(status, 1, said)
                self.assertIn(f"[{rule}]", said)

    def test_words_in_comments_and_strings_are_no_names(self) -> None:
        status, said = self.run_on(
            replaced("server/loop.c", "return", '//  a crowd\n    return "crowd" [0] +')
        )
        self.assertEqual((status, said), (0, ""))

    def test_unnamed_actors_are_found_in_comments_alone(self) -> None:
        comments = {
            "server/loop.c": '/*  Who' + 'se turn it is.\n */\nconst char loop [] = "a";\n',
            "server/loop.py": 'WORD = "a"       # for some' + 'body\n',
            "server/said.py": 'def said():\n    """No' + 'body calls this."""\n',
            "server/loop.sh": "#  who" + " runs this\n",
        }
        for name, text in comments.items():
            with self.subTest(name):
                status, said = self.run_on({name: text})
                self.assertEqual((status, said.count("[unnamed]")), (1, 1), said)
        for name, text in {
            "server/loop.c": 'const char *who = "nobody / # somebody";\n',
            "server/loop.py": "who = 'whose # whoever'\n",
            "server/loop.sh": "echo nobody\n",
        }.items():
            with self.subTest(name):
                self.assertEqual(self.run_on({name: text}), (0, ""))

    def test_sources_that_use_each_other(self) -> None:
        """By a call, by a table, by what a header computes; a word alone is no use."""
        late = SOUND["base/clock.c"].replace("clock_now", "late_now").replace("0", "clock_now ()")
        files = {
            **replaced("base/CMakeLists.txt", "clock.c", "clock.c late.c"),
            "base/late.c": '#include "late.h"\n' + late + "\nconst int late_table [] = { 1 };\n",
            "base/late.h": "int late_now (void);\nextern const int late_table [];\n",
        }
        self.assertEqual(self.run_on(files), (0, ""))
        clock = SOUND["base/clock.c"].replace("\n\nint", '\n#include "late.h"\n\nint')
        inline = "\nstatic inline int\nlate_soon (void)\n{\n    return late_now ();\n}\n"
        for use, said in {
            "late_now ()": "[circle]",
            "late_table [0]": "[circle]",
            "late_soon ()": "[circle]",
            "clock->late_now": "",
            "late_other": "",
        }.items():
            with self.subTest(use):
                files["base/late.h"] += inline if "soon" in use else ""
                found = self.run_on({**files, "base/clock.c": clock.replace("return 0", f"return {use}")})
                self.assertEqual(found[0], 1 if said else 0, found[1])
                self.assertIn(said, found[1])

    def test_ceilings_only_fall(self) -> None:
        fault = replaced("base/clock.h", ";", ";\nint now (void);\nint soon (void);")
        for ceiling, said in {1: "the ceiling of 'prefix base' is 1", 3: "'prefix base' from 3 to 2"}.items():
            known = {"tests/tidy.known": f"prefix base {ceiling}\n"}
            status, found = self.run_on({**fault, **known})
            self.assertEqual(status, 1)
            self.assertIn(said, found)
        self.assertEqual(self.run_on({**fault, "tests/tidy.known": "prefix base 2\n"}), (0, ""))

    def test_exceptions_may_only_go(self) -> None:
        fault = replaced("README.md", "server/loop.c", "server/lop.c")
        known = {"tests/tidy.known": "#  a remark\nlink README.md server/lop.c\n"}
        self.assertEqual(self.run_on({**fault, **known}), (0, ""))
        status, said = self.run_on(known)
        self.assertEqual(status, 1)
        self.assertIn("does not occur any more", said)


if __name__ == "__main__":
    unittest.main()

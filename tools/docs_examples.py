# SPDX-License-Identifier: MIT OR Apache-2.0
"""Run the commands of examples in documentation pages again, and write what they print now.

    tools/docs-examples docs/fake-target.md          print which examples would change
    tools/docs-examples --write docs/output.md       write them

An example is a ```console block whose first line is `$ swapstone compare`, `show`, `explain` or `doctor`, and whose output is whole: a
block with a line `...` is left alone. The commands of a page run in its order in a temporary folder, and measure: use a quiet machine.
A command that occurs again runs once, and then its record is shown; output wider than 80 columns gets 120. A ```toml block whose first
line is `# NAME.toml` is written to that file first. Blocks of ```sh run where SHELL_BLOCKS names the page.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
NARROW, WIDE = 80, 120
ROWS = 50
SUBCOMMANDS = ("compare", "show", "explain", "doctor")
SHELL_BLOCKS = ("docs/tutorial.md",)

PREPARED = {
    "docs/output.md": "seq 1 200000 | sort -R --random-source=/dev/zero > numbers.txt",
    "docs/own-program.md": "seq 1 200000 | sort -R --random-source=/dev/zero > numbers.txt",
    "docs/fit-memory.md": "printf '%s\\n' 'create table t(a integer primary key, b text, c real);' "
    "'with recursive n(i) as (select 1 union all select i+1 from n where i<200000)' "
    "\"insert into t select i, 'name '||(i*7919%200000), i*0.5 from n;\" "
    "'create index tb on t(b);' 'select count(*), sum(c), max(b) from t;' 'delete from t where a%3=0;' "
    "'select b, c from t order by c desc limit 3;' > q.sql",
}
"""Shell commands that make the files of a page's examples."""

_FILE = re.compile(r"# (?P<name>[a-z-]+\.toml)\n")
_BLOCK = re.compile(r"^```(?P<kind>console|sh|toml)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Example:
    """A block of a page.

    Attributes:
        kind: ``console``, ``sh`` or ``toml``.
        text: of the block, without the fences.
        start, end: of the text in the page.
    """

    kind: str
    text: str
    start: int
    end: int

    @property
    def command(self) -> str:
        """Return the command of a console block; empty if it is not run again."""
        first, _, output = self.text.partition("\n")
        words = first.split()
        if self.kind != "console" or len(words) < 3 or words[0] != "$":
            return ""
        whole = "..." not in output.splitlines()
        is_program = words[1].removeprefix("./") == "swapstone" and words[2] in SUBCOMMANDS
        return first.removeprefix("$ ") if whole and is_program else ""

    @property
    def columns(self) -> int:
        """Return the width of the terminal that the block shows."""
        output = self.text.splitlines()[1:]
        return WIDE if any(len(line) > NARROW for line in output) else NARROW


def examples(page: str) -> Iterator[Example]:
    """Yield the blocks of a page's text in their order."""
    for found in _BLOCK.finditer(page):
        yield Example(found["kind"], found["text"], found.start("text"), found.end("text"))


def record_of(command: str) -> str:
    """Return the folder that a command names with --out; else ``last``."""
    words = shlex.split(command)
    return words[words.index("--out") + 1] if "--out" in words else "last"


def printed(command: str, folder: Path, columns: int) -> str:
    """Run a command in a terminal of a width; return what it prints to standard output.

    Args:
        command: of the page.
        folder: where it runs; its path is replaced by ``/home/user``.
        columns: of the terminal.

    Raises:
        subprocess.CalledProcessError: `script` failed.
    """
    program, rest = command.split(maxsplit=1)
    shell = f"stty cols {columns} rows {ROWS}; exec {shlex.quote(sys.executable)} -P -m swapstone {rest} 2>errors"
    # The entry script would name itself in hints.
    names = {"PYTHONPATH": str(TOP / "src"), "SWAPSTONE_COMMAND": program}
    environment = os.environ | names | {"NO_COLOR": "1", "TERM": "xterm"}
    done = subprocess.run(
        ["script", "-qec", shell, "/dev/null"],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    text = done.stdout.decode().replace("\r", "").replace(str(folder), "/home/user")
    if not text.strip():
        raise RuntimeError(f"{command}: {(folder / 'errors').read_text()[-500:]}")
    return "".join(line.rstrip() + "\n" for line in text.strip("\n").split("\n"))


def remade(name: str, page: str, folder: Path) -> str:
    """Return a page with what its commands print now.

    Args:
        name: of the page, relative to the repository.
        page: its text.
        folder: an empty one, in which the commands run.
    """
    if name in PREPARED:
        subprocess.run(["sh", "-euc", PREPARED[name]], cwd=folder, check=True)
    for each in examples(page):
        if each.kind == "toml" and (file := _FILE.match(each.text)):
            (folder / file["name"]).write_text(each.text)
    parts, end = [], 0
    already: set[str] = set()
    for each in examples(page):
        if each.kind == "sh" and name in SHELL_BLOCKS:
            subprocess.run(["sh", "-euc", each.text], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        if not each.command:
            continue
        print(f"{name}: {each.command}", file=sys.stderr, flush=True)
        run = each.command
        if run in already:
            run = f"{run.split()[0]} show {record_of(run)}"
        already.add(run)
        parts += [page[end : each.start], f"$ {each.command}\n", printed(run, folder, each.columns)]
        end = each.end
    return "".join([*parts, page[end:]])


def main(arguments: Sequence[str]) -> int:
    """Remake the examples of the pages; return 1 if some would change and were not written."""
    parser = argparse.ArgumentParser(
        prog="tools/docs-examples", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pages", nargs="+", metavar="PAGE", help="of the documentation, e.g. docs/output.md")
    parser.add_argument("--write", action="store_true", help="write the pages instead of printing the changes")
    options = parser.parse_args(arguments)
    changed = False
    for name in options.pages:
        path = TOP / name
        old = path.read_text()
        with tempfile.TemporaryDirectory(prefix="swapstone-examples-") as folder:
            new = remade(name, old, Path(folder))
        changed |= new != old
        if options.write:
            path.write_text(new)
        else:
            sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), name, name))
    return int(changed and not options.write)

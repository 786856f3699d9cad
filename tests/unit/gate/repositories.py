# SPDX-License-Identifier: MIT OR Apache-2.0
"""A small repository of git with a program in C, for tests of the gate."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

FILES = {
    "main.c": """\
#include <stdio.h>
#include "work.h"
int main(int argc, char **argv) {
    FILE *file = argc > 1 ? fopen(argv[1], "r") : NULL;
    unsigned turns;
    if (!file || fscanf(file, "%u", &turns) != 1) return 1;
    printf("%u\\n", work(turns) != 0);
    return 0;
}
""",
    "work.c": """\
#include "work.h"
unsigned work(unsigned turns) {
    unsigned value = 1;
    for (unsigned i = 0; i < turns; i++) value = value * 1664525u + 1013904223u ^ i;
    return value;
}
""",
    "work.h": "unsigned work(unsigned turns);\n",
    "Makefile": "prog: main.c work.c work.h\n\tcc -O1 -g -o prog main.c work.c\n",
    "bench/small": "300000\n",
    "README": "a program\n",
    "swapstone.toml": """\
build = "make -s"
programs = ["prog"]
paths = ["*.c", "*.h", "Makefile"]
data = "bench"
fail = { instructions = "0.2%", own_code = "0.5%", syscalls = "0", size = "2KiB" }

[run.small]
command = "./prog {data}/small"
""",
}


class SmallRepository:
    """A repository with one commit on ``main``, and a branch ``topic`` that is checked out.

    Args:
        folder: a new one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "-q", "-b", "main")
        self.commit("first", **FILES)
        self.git("checkout", "-q", "-b", "topic")

    def git(self, *arguments: str) -> str:
        """Return what git prints."""
        fixed = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        environment = {**os.environ, **fixed, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
        command = ["git", "-C", str(self.folder), "-c", "protocol.file.allow=always", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.strip()

    def write(self, **files: str) -> None:
        """Write files."""
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)

    def commit(self, message: str = "a change", **files: str) -> str:
        """Write files, commit all, and return the commit."""
        self.write(**files)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def edit(self, name: str, old: str, new: str) -> str:
        """Replace a text of a file that has it, commit that, and return the commit."""
        text = (self.folder / name).read_text()
        assert old in text
        return self.commit(**{name: text.replace(old, new)})

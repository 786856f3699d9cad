"""Builds and runs workloads for tests."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from swapstone.build import BASE_RECIPE
from swapstone.model import Workload
from swapstone.model.share import share_dir
from swapstone.workloads.sources import COMPANION_FLAGS, HARNESS, companion_name

SOURCES = share_dir() / "native" / "workloads"
COMPILERS = ("cc", "musl-gcc")
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
REPORT = re.compile(
    r"swapstone-workload 1\n"
    r"name (?P<name>[!-~]+)\n"
    r"ops (?P<ops>[1-9]\d*)\n"
    r"passes (?P<passes>\d+)\n"
    r"(?P<lines>(?:pass [1-9]\d*(?: \d+){6}\n)+)"
    r"memory (?P<virt>\d+) (?P<res>\d+) (?P<dirty>\d+)\n"
    r"(?P<mapped>(?:mapped [!-~]+\n)+)"
    r"check (?P<check>[0-9a-f]{16})\n"
    r"end\n"
)


class Programs:
    """Programs built into one folder; each once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def compile(self, compiler: str, *arguments: str | Path) -> None:
        subprocess.run([compiler, *BASE_RECIPE.cflags, *map(str, arguments)], check=True, timeout=60)

    def harness(self, compiler: str) -> Path:
        target = self._folder / f"{compiler}-harness.o"
        if not target.exists():
            self.compile(compiler, "-c", SOURCES / HARNESS, "-o", target)
        return target

    def build(self, compiler: str, workload: Workload) -> Path:
        home = self._folder / f"{compiler}-{Path(workload.source).stem}"
        if not home.exists():
            home.mkdir()
            for companion in workload.companions:
                self.compile(compiler, *COMPANION_FLAGS, SOURCES / companion, "-o", home / companion_name(companion))
            self._link(compiler, SOURCES / workload.source, home / "prog", *workload.libraries)
        return home / "prog"

    def build_text(self, compiler: str, text: str) -> Path:
        """Build a workload whose source is given."""
        source = self._folder / "text.c"
        source.write_text('#include "harness.h"\n' + text)
        self._link(compiler, source, self._folder / "text", "-pthread")
        return self._folder / "text"

    def _link(self, compiler: str, source: Path, target: Path, *libraries: str) -> None:
        self.compile(compiler, "-I", SOURCES, source, self.harness(compiler), "-o", target, *libraries)


def run(program: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [str(program), *arguments]
    return subprocess.run(command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)

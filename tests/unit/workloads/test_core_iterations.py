# SPDX-License-Identifier: MIT OR Apache-2.0
"""How often the loops of the suite `core`, and those of bw_mem, run: counted by gcov, and equal to what docs/os-suite-work.md states."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
from pathlib import Path

import pytest

from swapstone.core.model.directories import share_dir
from tests.programs import needs
from tests.unit.workloads.programs import SOURCES

ITERATIONS = 200
# The workload's passes run in a process that ends with _exit(), which writes no counts by itself.
DUMP = """
void __gcov_dump(void);
_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);
_Noreturn void __wrap__exit(int status) { __gcov_dump(); __real__exit(status); }
"""
LINES = {
    "list": {
        "linked": "core->elements[i].payload = (uint16_t)i;",
        "reversed": "list->next = done;",
        "compared": "struct element **least = right->key < left->key ? &right : &left;",
    },
    "matrix": {"products": "sum += core->left[i][k] * core->right[k][j];"},
    "state": {"transitions": "visits[state]++;"},
    "crc": {"bytes": "crc = crc_byte(crc, (unsigned char)bytes[i]);", "bits": "crc = (uint16_t)((crc >> 1) ^"},
}
"""The line that is executed once for each, by part."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _built(tmp_path_factory.mktemp("gcov"), "core")


def _built(folder: Path, name: str) -> Path:
    """Build a workload whose executed lines are counted."""
    (folder / "dump.c").write_text(DUMP)
    for flags, source in (
        (("--coverage",), SOURCES / f"{name}.c"),
        ((), SOURCES / "harness.c"),
        ((), folder / "dump.c"),
    ):
        command = ["gcc", "-std=gnu11", "-O0", *flags, "-I", str(SOURCES), "-c", str(source)]
        subprocess.run(command, check=True, cwd=folder, timeout=60)
    objects = [f"{name}.o", "harness.o", "dump.o"]
    subprocess.run(
        ["gcc", "--coverage", *objects, "-Wl,--wrap=_exit", "-pthread", "-o", name],
        check=True,
        cwd=folder,
        timeout=60,
    )
    return folder / name


def _counts(program: Path, argument: str, passes: int) -> dict[int, int]:
    """Return how often each line was executed."""
    folder = program.parent
    for old in folder.glob("*.gcda"):
        old.unlink()
    subprocess.run([str(program), str(passes), argument], check=True, cwd=folder, capture_output=True, timeout=60)
    subprocess.run(
        ["gcov", "--json-format", f"{program.name}.gcda"], check=True, cwd=folder, capture_output=True, timeout=60
    )
    (found,) = folder.glob("*.gcov.json.gz")
    content = json.loads(gzip.decompress(found.read_bytes()))
    found.unlink()
    (file,) = (each for each in content["files"] if each["file"].endswith(f"{program.name}.c"))
    return {line["line_number"]: line["count"] for line in file["lines"]}


def _documented() -> dict[str, list[float]]:
    text = (share_dir() / "docs" / "os-suite-work.md").read_text()
    rows = re.findall(r"^\| `core_([a-z]+)` \| [^|]+ \| ([0-9.; ]+) \|$", text, re.MULTILINE)
    return {part: [float(number) for number in numbers.split(";")] for part, numbers in rows}


def test_every_part_is_documented() -> None:
    assert {part: len(numbers) for part, numbers in _documented().items()} == {
        part: len(lines) for part, lines in LINES.items()
    }


@needs("gcov")
@pytest.mark.parametrize("part", LINES)
def test_an_iteration_does_the_documented_work(part: str, program: Path) -> None:
    source = (SOURCES / "core.c").read_text().splitlines()
    one, two = (_counts(program, f"1:{part}", passes) for passes in (1, 2))
    for text, expected in zip(LINES[part].values(), _documented()[part], strict=True):
        (number,) = (place for place, line in enumerate(source, start=1) if line.strip().startswith(text))
        assert round((two[number] - one[number]) / ITERATIONS, 1) == expected, text


@pytest.mark.slow
@needs("gcov")
@pytest.mark.parametrize(("way", "text"), [("fwr", "SIXTEEN(SET)"), ("fcp", "SIXTEEN(COPY)")])
def test_bw_mem_stores_to_every_word(way: str, text: str, tmp_path: Path) -> None:
    """A line of 16 words of four bytes, twice 8 MiB in a pass."""
    program = _built(tmp_path, "bw_mem")
    source = (SOURCES / "bw_mem.c").read_text().splitlines()
    (number,) = (place for place, line in enumerate(source, start=1) if line.strip() == text)
    one, two = (_counts(program, f"8m:{way}", passes) for passes in (1, 2))
    assert (two[number] - one[number]) * 64 == 2 * (8 << 20)

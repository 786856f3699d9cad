# SPDX-License-Identifier: MIT OR Apache-2.0
"""Symbol tables: their order, and that reading many symbols takes memory and steps in proportion to their number."""

from __future__ import annotations

import lzma
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from swapstone.core.factors.elf_file import DamagedElfError, open_elf, read_facts, symbols_of
from swapstone.parts.explain.instruments.symbol_tables import Symbol, Table, table_of
from tests.large_elf import FIRST, SIZE, elf_with_functions, elf_with_names, name_of
from tests.programs import needs

MANY, MILLION = 300_000, 1_000_000

MOST_BYTES = 400
"""Of peak memory for each symbol: 24 in the file and 41 of its name, and some 280 of an object with its name and address."""

MOST_SECONDS = 120
"""Of processor time in each process below, which needs some seconds: a search through all symbols for each of them would take hours."""

READER = f"""
import resource, sys
from pathlib import Path
from swapstone.core.factors.elf_file import read_facts
from swapstone.parts.explain.instruments.symbol_tables import table_of
peaks = []
for name in sys.argv[1:]:
    table = table_of(Path(name))
    assert read_facts(Path(name)) is not None
    at = {FIRST} + {SIZE} * (len(table) // 2)
    assert [one.address for one in table if one.name == table.name_at(at + 5)] == [at]
    assert len({{one.address for one in table}}) == len(table)
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
print(len(table), *peaks)
"""


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))


@pytest.mark.slow
def test_many_symbols_take_memory_in_proportion(tmp_path: Path, exhaustive: bool) -> None:
    many = MILLION if exhaustive else MANY
    (tmp_path / "small").write_bytes(elf_with_functions(1000))
    (tmp_path / "large").write_bytes(elf_with_functions(many))
    done = subprocess.run(
        [sys.executable, "-c", READER, tmp_path / "small", tmp_path / "large"],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=_limit,
    )
    assert done.returncode == 0, done.stderr
    count, before, after = map(int, done.stdout.split())
    assert count == many
    assert after - before < MOST_BYTES * many


def test_symbols_that_share_one_long_name_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "file"
    long = b"\0" + b"a" * 60_000 + b"\0"
    path.write_bytes(elf_with_names(long, [1] * 2000, 2000))
    with pytest.raises(DamagedElfError, match="overlap"), open_elf(path) as elf:
        list(symbols_of(elf, elf.get_section_by_name(".symtab")))
    assert table_of(path) is None and read_facts(path) is None
    path.write_bytes(elf_with_names(long, range(1, 2001), 2000))  # each name is the end of the one before it
    with pytest.raises(DamagedElfError, match="overlap"), open_elf(path) as elf:
        list(symbols_of(elf, elf.get_section_by_name(".symtab")))


def test_names_that_a_linker_merges_are_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    names = b"\0__libc_malloc\0"
    path.write_bytes(elf_with_names(names, [1, 8, 8, 8, 1, 1, 8, 1], 8))
    table = table_of(path)
    assert table is not None
    assert sorted(one.name for one in table) == ["__libc_malloc"] * 4 + ["malloc"] * 4


def test_only_symbols_of_the_chosen_types_are_read() -> None:
    with open_elf(elf_with_functions(3)) as elf:
        section = elf.get_section_by_name(".symtab")
        assert [one.name for one in symbols_of(elf, section, (2,))] == [name_of(2), name_of(1), name_of(0)]
        assert list(symbols_of(elf, section, (1, 10))) == []


SYMBOLS = some.lists(
    some.builds(
        Symbol,
        address=some.integers(0, 60) | some.just(2**64 - 1),
        size=some.sampled_from([0, 1, 8, 40, 2**64 - 1]),
        name=some.sampled_from(["malloc", "_malloc", "free", "é", "a", "b"]),
    ),
    max_size=30,
)


@given(SYMBOLS, some.integers(0, 5000))
def test_a_table_finds_what_a_search_through_all_symbols_finds(symbols: list[Symbol], address: int) -> None:
    table = Table(symbols, ())
    ordered = sorted(symbols, key=lambda one: (one.address, -one.size, one.name.startswith("_"), one.name))
    assert list(table) == ordered
    assert len(table) == len(symbols)

    def first(at: int) -> str:
        return next(one.name for one in ordered if one.address == at)

    before = [one for one in ordered if one.address <= address][-8:]
    inside = [one for one in before if address < one.address + one.size]
    if inside:
        assert table.name_at(address) == first(inside[-1].address)
    elif before and before[-1].size == 0 and address - before[-1].address < 4096:
        assert table.name_at(address) == first(before[-1].address)
    else:
        assert table.name_at(address) == ""


@needs("cc")
def test_a_function_without_a_size_ends_with_its_section(tmp_path: Path) -> None:
    (tmp_path / "p.c").write_text("#include <stdio.h>\nint main(int n, char **v) { return puts(v[n - 1]); }\n")
    subprocess.run(["cc", "-o", "p", "p.c"], check=True, cwd=tmp_path)
    with open_elf(tmp_path / "p") as elf:
        begins = {each.name: int(each["sh_addr"]) for each in elf.iter_sections()}
    first, calls = begins[".init"], begins[".plt"]
    table = table_of(tmp_path / "p")
    assert table is not None and table.name_at(first) == "_init" and table.name_at(calls) == ""
    assert Table(table, ()).name_at(calls) == "_init", "without sections it goes on"


@needs("cc", "objcopy", "strip")
@pytest.mark.parametrize(
    ("packed", "name"), [(lzma.compress, "work"), (bytes, ""), (lambda whole: lzma.compress(whole)[:-40], "")]
)
def test_mini_debug_info_names_the_functions_of_a_stripped_file(
    tmp_path: Path, packed: Callable[[bytes], bytes], name: str
) -> None:
    source, whole, stripped = (tmp_path / each for each in ("a.c", "whole", "stripped"))
    source.write_text(
        "static __attribute__((noinline)) int work(int n) { return n * n; } int main(int n, char **a) { return a ? work(n) : 0; }\n"
    )
    subprocess.run(["cc", "-O1", "-o", whole, source], check=True)
    table = table_of(whole)
    address = next((one.address for one in table or () if one.name == "work"), None)
    assert address is not None
    (tmp_path / "data").write_bytes(packed(whole.read_bytes()))
    subprocess.run(["strip", "-o", stripped, whole], check=True)
    subprocess.run(["objcopy", f"--add-section=.gnu_debugdata={tmp_path / 'data'}", stripped], check=True)
    found = table_of(stripped)
    assert found is not None and found.name_at(address) == name


@needs("cc", "ar", "ld", "strip")
def test_an_archive_of_the_same_code_names_the_functions_of_a_stripped_library(tmp_path: Path) -> None:
    code = "static __attribute__((noinline)) int {0}_of(int n) {{ return n * {1} % 7; }} int {0}(int n) {{ return {0}_of(n) + {1}; }}\n"
    objects = []
    for number, name in ((31, "first"), (71, "second")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.c").write_text(code.format(name, number))
        objects.append(tmp_path / name / "a.o")  # two members of one name
        subprocess.run(
            ["cc", "-O1", "-fPIC", "-ffunction-sections", "-c", "-o", objects[-1], objects[-1].with_suffix(".c")],
            check=True,
        )
    library = tmp_path / "libc.so"
    subprocess.run(["ar", "qc", tmp_path / "libc.a", *objects], check=True)
    subprocess.run(["cc", "-shared", "-nostdlib", "-o", library, *objects], check=True)
    whole = table_of(library)
    assert whole is not None
    address = next(one.address for one in whole if one.name == "second_of")
    subprocess.run(["strip", library], check=True)
    for content in ((tmp_path / "libc.a").read_bytes(), b"!<arch>\ndamaged"):
        (tmp_path / "libc.a").write_bytes(content)
        library.touch()
        found = table_of(library)
        assert found is not None and found.name_at(address) == ("second_of" if len(content) > 100 else "")

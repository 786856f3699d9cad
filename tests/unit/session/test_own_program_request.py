# SPDX-License-Identifier: MIT OR Apache-2.0
"""Options of an own program: the program that the record stores, and the errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.core.model import Cpus, FactorLevels, OwnProgram, UserError
from swapstone.core.session.command_text import command_line
from swapstone.core.session.options import Program
from swapstone.core.session.own_program_request import (
    own_program,
    program_factor,
    report_notes,
)
from swapstone.core.session.report_context import describe_experiment
from tests.unit.builders import experiment


def test_nothing_typed_is_no_program() -> None:
    assert own_program(Program()) is None


def test_paths_are_absolute_and_the_rest_is_as_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_text("")
    typed = Program(
        command=("./a b/prog\n", "--", "-x", "\u00fc"),
        build="make",
        source="src/../src",
        input="in",
        output="null",
        env=("A=", "B=c=d"),
        timeout="90s",
        build_timeout="2m",
        pin=True,
        cpu_bound=True,
    )
    made = own_program(typed)
    assert made == OwnProgram(
        name="prog\n",
        arguments=("./a b/prog\n", "--", "-x", "\u00fc"),
        source=str(tmp_path / "src"),
        build="make",
        environment=(("A", ""), ("B", "c=d")),
        stdin=str(tmp_path / "in"),
        output="/dev/null",
        cpus=Cpus.ONE,
        waits=False,
        timeout_ms=90_000,
        build_timeout_ms=120_000,
    )


def test_a_program_without_a_slash_is_found_as_a_shell_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").write_text("#!/bin/sh\n")
    (tmp_path / "mine").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    made = own_program(Program(command=("mine", "x")))
    assert made is not None
    assert (made.arguments, made.directory, made.name) == ((str(tmp_path / "mine"), "x"), str(Path.cwd()), "mine")
    absent = own_program(Program(command=("absent",)))
    assert absent is not None and absent.arguments == (str(Path.cwd() / "absent"),)


def test_artifacts_are_as_typed() -> None:
    made = own_program(Program(command=("/a",), artifacts=("out-{n}", "/tmp/b"), output_may_differ=True))
    assert made is not None
    assert (made.artifacts, made.output_may_differ) == (("out-{n}", "/tmp/b"), True)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("",), "--artifact '' is no file"),
        (("out/",), "--artifact 'out/' is no file"),
        (("a\0b",), r"--artifact 'a\\x00b' is no file"),
        (("stdout",), "--artifact stdout is the name of an output"),
        (("shape:x",), "--artifact shape:x is the name of an output"),
        (("a", "b", "a"), "Two --artifact options name a"),
    ],
)
def test_artifacts_that_can_not_be(names: tuple[str, ...], text: str) -> None:
    with pytest.raises(UserError, match=text):
        own_program(Program(command=("/a",), artifacts=names))
    with pytest.raises(UserError, match="--artifact needs an own program"):
        own_program(Program(artifacts=names))


def test_files_and_memory_of_a_virtual_machine() -> None:
    made = own_program(Program(command=("/a",), files=("data", "/etc/x", "data"), memory="1G"))
    assert made is not None
    assert (made.files, made.memory_bytes) == (("data", "/etc/x"), 1 << 30)
    for memory in ("", "0M", "64M", "512", "512m", "1.5G", "65G", "999999999G"):
        with pytest.raises(UserError, match="is no size from 128M to 64G"):
            own_program(Program(command=("/a",), memory=memory))
    with pytest.raises(UserError, match="is no path"):
        own_program(Program(command=("/a",), files=("",)))


def test_named_programs_make_the_factor() -> None:
    made = own_program(Program(programs=("old=/bin/a", "new-2.0=/bin/b"), command=("1",)))
    assert made is not None
    assert program_factor(made) == (FactorLevels(factor="program", levels=("old", "new-2.0")),)
    assert made.command == ("/bin/a", "1")
    assert program_factor(OwnProgram(name="a", arguments=("/a",))) == ()


@pytest.mark.parametrize(
    ("files", "name"),
    [
        (("a/nginx", "b/nginx"), "nginx"),
        (("nginx-1.22", "nginx-1.24"), "nginx"),
        (("nginx-O2", "nginx-O0", "nginx"), "nginx"),
        (("count-old", "count-new"), "count"),
        (("count-old", "counter"), "program"),  # whole words alone
        (("old", "new"), "program"),
        (("-1", "-2"), "program"),
    ],
)
def test_a_workload_has_the_name_that_all_its_programs_have(files: tuple[str, ...], name: str, tmp_path: Path) -> None:
    paths = [tmp_path / file for file in files]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    named = own_program(Program(programs=tuple(f"v{n}={path}" for n, path in enumerate(paths))))
    assert named is not None and named.name == name
    lines = own_program(Program(commands=tuple(f"{path} x" for path in paths)))
    assert lines is not None and lines.name == ("command" if name == "program" else name)


@pytest.mark.parametrize(
    "typed",
    [
        Program(command=("\udcff",)),
        Program(command=("/a",), prepare="x\udcff"),
        Program(command=("/a",), env=("A=\udc80",)),
    ],
)
def test_what_is_no_text_can_not_be_kept(typed: Program) -> None:
    with pytest.raises(UserError, match="is not UTF-8") as caught:
        own_program(typed)
    caught.value.message.encode()


def test_a_record_says_what_was_measured() -> None:
    plain = OwnProgram(name="p", arguments=("./p", "a b"), build="make {cc}")
    subject = experiment(own=plain, null=True)
    assert command_line(subject) == "-- ./p 'a b'"
    assert describe_experiment(subject) == "libc=glibc,musl on host, -- ./p 'a b'"
    assert any("built by 'make {cc}'" in note for note in report_notes(subject))
    assert any("one copy" in note for note in report_notes(subject))
    named = OwnProgram(name="p", arguments=("x",), programs=(("a", "/p"), ("b", "/q r")))
    assert command_line(experiment(own=named)) == "--program a=/p --program 'b=/q r' -- x"
    assert command_line(experiment()) == "" and report_notes(experiment()) == ()


def test_libraries_are_for_a_program_that_is_built() -> None:
    made = own_program(Program(command=("./p",), build="make", source="s", libraries="zlib,openssl"))
    assert made is not None and made.libraries == ("zlib", "openssl")
    assert "with zlib, openssl built for each variant" in report_notes(experiment(own=made))[0]
    with pytest.raises(UserError, match="--with builds libraries for a program that --build builds") as caught:
        own_program(Program(command=("/bin/true",), libraries="zlib"))
    assert "--with zlib,openssl --build" in caught.value.hint
    with pytest.raises(UserError, match="--with needs an own program"):
        own_program(Program(libraries="zlib"))

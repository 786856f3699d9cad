# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the arguments and the environment of a process show about command lines and free factors."""

from __future__ import annotations

import pytest

from swapstone.core.factors import COMMAND_LINE, NOT_OBSERVED, Evidence, ProgramFacts
from swapstone.core.model import CommandLine, OwnProgram, Variant, environment_variable
from swapstone.core.run.evidence import wrong_level
from swapstone.core.run.own_program_levels import Expected, levels_seen, same_words

LINES = (CommandLine(name="a", words=("/x/p", "1", "")), CommandLine(name="b", words=("/x/p", "2")))
OWN = OwnProgram(name="p", arguments=(), commands=LINES)
VARIANT = Variant(levels=(("command", "a"),))
PROGRAM = ProgramFacts(path="/x/p")


def seen(
    text: str | None,
    *,
    arguments: tuple[str, ...] = ("/x/p", "1", ""),
    others: tuple[tuple[str, ...], ...] = (("/x/p", "2"),),
    own: OwnProgram = OWN,
    variant: Variant = VARIANT,
    environment: tuple[tuple[str, str], ...] = (),
    script: bool = False,
    objects: tuple[str, ...] = ("/x/p",),
    variables: dict[str, str] | None = None,
) -> dict[str, str]:
    observed = [(environment_variable(name), value) for name, value in (variables or {}).items()]
    evidence = Evidence(
        interp=None,
        objects=objects,
        program=PROGRAM,
        observed=(*observed, *(((COMMAND_LINE, text),) if text is not None else ())),
    )
    expected = Expected(own, variant, arguments, environment, others, script, "/x")
    return dict(levels_seen(expected, evidence))


def test_the_requested_arguments_are_the_level() -> None:
    assert seen("/x/p\x001\x00\x00") == {"command": "a"}


@pytest.mark.parametrize(
    "text", ["/x/p\x002\x00", "/x/p\x001\x00", "/x/p\x001\x00\x00\x00", "p\x001\x00\x00", "\0", "/x/p 1 \0", "1 2"]
)
def test_other_arguments_are_another_level(text: str) -> None:
    found = seen(text)["command"]
    assert found.startswith("the command line ")
    assert "command=a was requested, but the command line" in wrong_level((("command", found),), VARIANT)


@pytest.mark.parametrize(
    ("text", "others", "accepted"),
    [
        ("/x/p\0work\x004000\0", (("/x/p", "work:5000"), ("/x/p", "work:4000")), True),
        ("/x/p\0work:4000\0", (), True),
        ("/x/p\0work\x004000\0", (("/x/p", "work;4000"),), False),
        ("/x/p\0work\x004000\0", (("/x/p", "work", "4000"),), False),
        ("/x/p\0work\x005000\0", (), False),
        ("/x/p\0work\x0040000\0", (), False),
        ("/x/p\0" + 10 * "\0", (), False),
        ("/x/p\0wor\0:4000\0", (), False),
    ],
)
def test_a_program_may_divide_its_arguments_in_place(
    text: str, others: tuple[tuple[str, ...], ...], accepted: bool
) -> None:
    arguments = ("/x/p", "work:4000")
    assert (seen(text, arguments=arguments, others=others)["command"] == "a") is accepted


def test_another_executable_is_another_level() -> None:
    assert seen("/x/p\x001\x00\x00", objects=("/x/other",))["command"].startswith("the command line")


def test_arguments_that_could_not_be_read_are_no_level() -> None:
    assert seen(None) == {}
    assert "16 KiB" in wrong_level((("command", "unknown"),), VARIANT)


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("/bin/sh\0/x/p\x001\x00\x00", True),
        ("/opt/python\x001\x00\x00", True),  # the script of a version manager executed it
        ("/bin/sh\0/x/p\x002\x00", False),
    ],
)
def test_a_script_is_recognized_by_its_arguments(text: str, accepted: bool) -> None:
    assert (seen(text, script=True, objects=("/bin/sh",))["command"] == "a") is accepted


def test_a_program_that_executes_its_arguments_is_recognized_by_them() -> None:
    arguments, objects = ("/bin/env", "A=1", "/bin/true", "x"), ("/usr/bin/true", "/bin/true")
    rest = "/bin/true\0x\0"
    assert seen(rest, arguments=arguments, objects=objects)["command"] == "a"
    assert seen(rest, arguments=arguments, objects=("/x/p",))["command"] != "a"
    same = (("/bin/env", "A=2", "/bin/true", "x"),)
    assert seen(rest, arguments=arguments, objects=objects, others=same)["command"] != "a"


def test_a_free_factor_is_observed_in_arguments_or_variables() -> None:
    variant = Variant(levels=(("{n}", "1"),))
    own = OwnProgram(name="p", arguments=("/x/p", "{n}"))
    assert seen("/x/p\x001\x00", own=own, variant=variant, arguments=("/x/p", "1")) == {"{n}": "1"}
    assert seen("/x/p\x002\x00", own=own, variant=variant, arguments=("/x/p", "1"))["{n}"] != "1"
    own = OwnProgram(name="p", arguments=("/x/p",), environment=(("A", "{n}"),))
    for value, accepted in (("1", True), ("2", False)):
        found = seen(
            "/x/p\0",
            own=own,
            variant=variant,
            arguments=("/x/p",),
            environment=(("A", "1"),),
            variables={"A": value},
        )
        assert (found == {"{n}": "1"}) is accepted


def test_a_free_factor_of_the_build_alone_is_not_observed() -> None:
    variant = Variant(levels=(("{n}", "1"),))
    own = OwnProgram(name="p", arguments=("/x/p",), build="make N={n}")
    found = seen("/x/p\0", own=own, variant=variant, arguments=("/x/p",))
    assert found == {"{n}": NOT_OBSERVED}
    assert wrong_level(tuple(found.items()), variant) == ""


def test_a_value_that_looks_like_a_port_placeholder_matches_a_port() -> None:
    variant = Variant(levels=(("{n}", "1"),))
    own = OwnProgram(name="p", arguments=("/x/p", "{port}", "{n}"))
    arguments = ("/x/p", "{port}", "1")
    assert seen("/x/p\x0020123\x001\x00", own=own, variant=variant, arguments=arguments) == {"{n}": "1"}


@pytest.mark.parametrize(
    ("seen", "same"),
    [
        (("./s", "--listen=10.0.0.2:20000"), True),
        (("./s", "--listen=127.0.0.1:5"), True),
        (("./s", "--listen=board:20000"), False),
        (("./s", "--listen=10.0.0.2:port"), False),
    ],
)
def test_any_port_and_any_address_may_be_filled_in(seen: tuple[str, ...], same: bool) -> None:
    assert same_words(seen, ("./s", "--listen={address}:{port}")) == same

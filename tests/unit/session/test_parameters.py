# SPDX-License-Identifier: MIT OR Apache-2.0
"""``--parameter`` and ``--vary``: their forms, and where their placeholders may stand."""

from __future__ import annotations

import pytest

from swapstone.core.model import FactorLevels, LoadGenerator, OwnProgram, UserError
from swapstone.core.session.parameters import check_placeholders, parse_free_factors, parse_parameters


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["N=1,10,100"], ("1", "10", "100")),
        (["N=1..4"], ("1", "2", "3", "4")),
        (["N=1..100/33"], ("1", "34", "67", "100")),
        (["N=0.5..1.5/0.5"], ("0.5", "1.0", "1.5")),
        (["N=-1..1"], ("-1", "0", "1")),
        (["N=a..b"], ("a..b",)),
        (["N=-n,--x=1"], ("-n", "--x=1")),
        (["N=a,b", "N=c"], ("a,b", "c")),
        (["N=ü 'x', \""], ("ü 'x'", ' "')),
    ],
)
def test_values_of_a_parameter(texts: list[str], values: tuple[str, ...]) -> None:
    assert parse_parameters(texts) == (("N", values),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("N", "is not NAME=VALUE,VALUE"),
        ("1N=2", "is not NAME=VALUE,VALUE"),
        ("a-b=1", "is not NAME=VALUE,VALUE"),
        ("N=", "has an empty value"),
        ("N=1,,2", "has an empty value"),
        ("N=1,1", "has the value '1' twice"),
        ("N=a\nb", "is not printable"),
        ("N=a\0b", "is not printable"),
        ("N=\x1b[31m", "is not printable"),
        ("N=" + "x" * 201, "has more than 200 characters"),
        ("N=5..1", "is empty"),
        ("N=1..9/0", "is empty"),
        ("N=1..1e9", None),
        ("N=1..99999", "has 99999 values"),
        ("port=1", "stands for the port of a server"),
        ("cc=1", "stands for the C compiler's command"),
        ("libc=a", "libc is a factor of Swapstone"),
        ("command=a", "stands for a factor"),
    ],
)
def test_a_wrong_parameter_is_an_error(text: str, message: str | None) -> None:
    if message is None:
        assert parse_parameters([text]) == (("N", ("1..1e9",)),)
        return
    with pytest.raises(UserError) as error:
        parse_parameters([text])
    assert message in error.value.message
    assert error.value.hint


def test_too_many_combinations_are_an_error() -> None:
    with pytest.raises(UserError, match="have 10000 combinations"):
        parse_parameters(["A=1..100", "B=1..100"])


def test_free_factors_are_placeholders_or_variables() -> None:
    found = parse_free_factors(["n=1,2", "env:MALLOC_ARENA_MAX=8,1"])
    assert found == (
        FactorLevels(factor="{n}", levels=("1", "2")),
        FactorLevels(factor="env:MALLOC_ARENA_MAX", levels=("8", "1")),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n=1", "has only one value"),
        ("libc=glibc,musl", "libc is a factor of Swapstone"),
        ("env:1=a,b", "is not NAME=VALUE"),
        ("env:=a,b", "is not NAME=VALUE"),
    ],
)
def test_a_wrong_free_factor_is_an_error(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_free_factors([text])


def own(*arguments: str, **fields: object) -> OwnProgram:
    return OwnProgram(name="p", arguments=("/p", *arguments), **fields)  # type: ignore[arg-type] # fields of the struct


def check(program: OwnProgram | None, *free: str) -> None:
    check_placeholders(program, parse_free_factors(free))


PARAMETER = (("N", ("1", "2")),)


@pytest.mark.parametrize("field", ["setup", "prepare", "conclude", "stdin", "output"])
def test_a_placeholder_may_stand_in_every_text(field: str) -> None:
    check(own(parameters=PARAMETER, **{field: "x{N}"}))
    check(own(**{field: "x{n}"}), "n=1,2")


def test_a_placeholder_may_stand_in_environment_arguments_and_load_generator() -> None:
    check(own("{N}", parameters=PARAMETER))
    check(own(environment=(("A", "{N}"),), parameters=PARAMETER))
    generator = LoadGenerator(command=("wrk", "{port}", "{N}"), reader="wrk")
    check(own("{port}", load_generators=(generator,), parameters=PARAMETER))
    with pytest.raises(UserError, match="each variant would get another load"):
        check(own("{port}", "{n}", load_generators=(with_free_placeholder(generator),)), "n=1,2")


def with_free_placeholder(generator: LoadGenerator) -> LoadGenerator:
    return LoadGenerator(command=("wrk", "{port}", "{n}"), reader=generator.reader)


def test_an_unused_parameter_is_an_error() -> None:
    with pytest.raises(UserError, match=r"The parameter N is not used: nothing contains \{N\}"):
        check(own("N", parameters=PARAMETER))


def test_an_unused_free_factor_is_an_error_that_offers_the_variable() -> None:
    with pytest.raises(UserError) as error:
        check(own("x"), "THREADS=1,2")
    assert "nothing contains {THREADS}" in error.value.message
    assert "--vary env:THREADS=" in error.value.hint
    with pytest.raises(UserError, match="nothing contains"):
        check(None, "THREADS=1,2")


def test_an_unknown_placeholder_lists_the_known_ones_and_its_escape() -> None:
    with pytest.raises(UserError) as error:
        check(own("{N}", "{print}", parameters=PARAMETER))
    assert "The command line contains the unknown placeholder {print}" in error.value.message
    assert error.value.hint == "Known: {N}. Write {{print}} for a literal {print}."
    check(own("{N}", "{{print}}", parameters=PARAMETER))
    check(own("{print}"))  # nothing is replaced without a parameter


def test_a_name_has_one_meaning() -> None:
    with pytest.raises(UserError, match="N is a parameter and a factor"):
        check(own("{N}", parameters=PARAMETER), "N=1,2")
    with pytest.raises(UserError, match="The variable A is set and varied"):
        check(own(environment=(("A", "1"),)), "env:A=1,2")


def test_a_range_of_numbers_with_many_digits_is_a_text() -> None:
    text = f"1..{'9' * 100}"
    assert parse_parameters([f"N={text}"]) == (("N", (text,)),)
    with pytest.raises(UserError, match="more than 200 characters"):
        parse_parameters([f"N=1..{'9' * 5000}"])

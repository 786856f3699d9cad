# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table of options: each is declared once, and what is made from it agrees with it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import click
import pytest
from tools.generated import TOP
from tools.option_page import problems, schema

import swapstone
from swapstone.cli.compare import compare_command
from swapstone.core.model import UserError
from swapstone.core.session.option_table import Option, Piece, given_of, options_of
from swapstone.core.session.options import PIECES, Settings, settings_from
from swapstone.core.session.study_file import decode_study, study_names, study_path
from tests.json_schema import differences

DECLARED = [(kind, name, option) for kind in PIECES.values() for name, option in options_of(kind)]
STUDY = 'title = "t"\nquestion = "q?"\nfactor = [{ name = "libc", levels = ["glibc", "musl"] }]\n'


def test_the_page_and_the_schema_are_those_of_the_table(tmp_path: Path) -> None:
    assert list(problems(TOP)) == []
    (tmp_path / "docs").mkdir()
    assert len(list(problems(tmp_path))) == 2
    assert list(problems(tmp_path, write=True)) == [] == list(problems(tmp_path))


def test_a_name_and_a_flag_are_declared_once() -> None:
    names = [name for _, name, _ in DECLARED]
    flags = [flag for _, _, option in DECLARED for flag in option.flags]
    assert len(set(names)) == len(names) and len(set(flags)) == len(flags)


@pytest.mark.parametrize(("kind", "name", "declared"), [pytest.param(*each, id=each[1]) for each in DECLARED])
def test_each_form_of_an_option_gives_the_same_settings(kind: type, name: str, declared: Option) -> None:
    """The example of the study file is read, and the value that it gives is accepted by Python's settings."""
    parameters = {each.name: each for each in compare_command.params}
    if declared.flags:
        assert isinstance(parameters[name], click.Option) and declared.flags[-1] in parameters[name].opts
    if not declared.example:
        return
    program = kind is swapstone.Program
    text = f"{STUDY}[program]\n{declared.example}\n" if program else f"{declared.example}\n{STUDY}"
    study = decode_study(text.encode(), "mine.toml")
    given = study.own if program else study.given
    assert given is not None and list(given) == [name]
    made = next(each for each in _pieces(study.settings) if type(each) is kind)
    assert name in given_of(made), "the example is not the default"
    if name != "commands":  # by name in a study file, in their order in Python
        assert kind(**{name: given[name]}) == made
    assert _differences(text) == []


def _differences(text: str) -> list[str]:
    return list(differences(tomllib.loads(text), schema(), schema(), "$"))


def _pieces(settings: Settings) -> tuple[Piece, ...]:
    return settings.pieces()


def test_the_shipped_studies_fit_the_schema() -> None:
    for name in study_names():
        assert _differences(study_path(name).read_text()) == []
    assert _differences(f'bugdet = "1m"\n{STUDY}') == ["$.bugdet is unknown"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"blocks": 0}, "--blocks 0 is not between 1 and 10000"),
        ({"layouts": 1}, "--layouts 1 is not between 2 and 1000"),
        ({"prime": 17}, "--prime 17 is not between 0 and 16"),
        ({"budget": "soon"}, "'soon' is not a duration"),
        ({"margin": "200%"}, "'200%' is no value for --margin"),
        ({"confidence": "12"}, "'12%' is no value for --confidence"),
        ({"commands": "one text"}, "commands is one text"),
        ({"vary": {"N": [1]}}, None),
        ({"vary": {"N": ["a,b"]}}, "N has only one value"),
    ],
)
def test_a_value_is_checked_when_the_settings_are_made(given: dict[str, object], message: str | None) -> None:
    if message is None:
        assert settings_from(given)
        return
    with pytest.raises(UserError, match=message):
        settings_from(given)

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which of the user's locale, time zone and home folder a program gets, and what is said where it does not get them."""

from __future__ import annotations

import os
from typing import Any

import msgspec
import pytest

from swapstone.core.model import CommandLine, FactorLevels, OwnProgram, UserError
from swapstone.core.run.own_program import own_recipe
from swapstone.core.session.caller_environment import fixed_environment_note, inherited_environment
from tests.unit import builders

OWN = OwnProgram(name="p", arguments=("/p",))


@pytest.fixture(autouse=True)
def _shell(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in os.environ if each in {"HOME", "LANG", "TZ"} or each.startswith("LC_")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    "shell",
    [
        {},
        {"LC_ALL": "C.UTF-8"},
        {"LANG": "de_DE.UTF-8", "LC_NUMERIC": "C", "TZ": "Asia/Tokyo", "HOME": "/home/x"},
        {"TZ": "", "LANG": ""},
    ],
)
def test_an_own_program_on_this_machine_has_the_locale_of_the_shell(
    monkeypatch: pytest.MonkeyPatch, shell: dict[str, str]
) -> None:
    for name, value in shell.items():
        monkeypatch.setenv(name, value)
    own = msgspec.structs.replace(OWN, inherited=inherited_environment("host", "wall"))
    expected = {"PATH": "/usr/bin:/bin", "LC_ALL": "", "TMPDIR": "/tmp", **shell}
    assert dict(own_recipe(own).environment) == expected
    assert fixed_environment_note(builders.experiment(own=own)) == ""
    given = msgspec.structs.replace(own, environment=(("LC_ALL", "C"), ("HOME", "/x")))
    assert dict(own_recipe(given).environment) == {**expected, "LC_ALL": "C", "HOME": "/x"}


def test_an_older_record_has_the_fixed_environment() -> None:
    assert dict(own_recipe(OWN).environment) == {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TMPDIR": "/tmp"}


@pytest.mark.parametrize(
    ("target", "clock"), [("vm", "virtual"), ("vm", "wall"), ("ssh:x", "wall"), ("fake:x", "wall")]
)
def test_other_machines_and_the_virtual_clock_have_the_fixed_environment(target: str, clock: str) -> None:
    assert inherited_environment(target, clock) == ()


@pytest.mark.parametrize(
    ("shell", "gets"),
    [
        ({}, ""),
        ({"LANG": "C", "LC_CTYPE": "POSIX", "TZ": ""}, ""),
        ({"HOME": "/home/x"}, ""),
        ({"LANG": "de_DE.UTF-8"}, "LC_ALL=C, not LANG=de_DE.UTF-8"),
        ({"LC_ALL": "C.UTF-8", "LANG": "de_DE"}, "LC_ALL=C, not LC_ALL=C.UTF-8"),
        ({"LC_ALL": "C", "LANG": "de_DE", "LC_TIME": "de_DE"}, ""),
        ({"TZ": "Asia/Tokyo"}, "no TZ, not TZ=Asia/Tokyo"),
        (
            {"LC_ALL": "", "LC_NUMERIC": "de_DE", "TZ": "Asia/Tokyo"},
            "LC_ALL=C and no TZ, not LC_NUMERIC=de_DE, TZ=Asia/Tokyo",
        ),
    ],
)
def test_a_fixed_environment_is_stated_where_the_shell_has_another_one(
    monkeypatch: pytest.MonkeyPatch, shell: dict[str, str], gets: str
) -> None:
    for name, value in shell.items():
        monkeypatch.setenv(name, value)
    note = fixed_environment_note(builders.experiment(own=OWN))
    assert note == (f"Your program gets {gets} of this shell. --env NAME=VALUE sets one." if gets else "")
    assert fixed_environment_note(builders.experiment()) == (
        f"The suites' programs get {gets} of this shell." if gets else ""
    )
    assert fixed_environment_note(builders.experiment(own=OWN, target="fake:x")) == ""


@pytest.mark.parametrize(
    ("given", "gets"),
    [
        ({"environment": (("LC_ALL", "C.UTF-8"),)}, "no TZ, not TZ=Asia/Tokyo"),
        ({"environment": (("TZ", "UTC"),)}, "LC_ALL=C, not LANG=de_DE.UTF-8"),
        ({"commands": (CommandLine(name="a", words=("/p",), environment=(("TZ", "UTC"),)),)}, "LC_ALL=C, not LANG="),
        ({"environment": (("TZ", "UTC"), ("LC_ALL", "C"))}, ""),
    ],
)
def test_what_the_user_sets_is_not_called_fixed(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], gets: str
) -> None:
    for name, value in {"LANG": "de_DE.UTF-8", "TZ": "Asia/Tokyo"}.items():
        monkeypatch.setenv(name, value)
    own = msgspec.structs.replace(OWN, **given)
    note = fixed_environment_note(builders.experiment(own=own))
    assert note.startswith(f"Your program gets {gets}") if gets else not note
    varied = (
        FactorLevels(factor="env:LC_ALL", levels=("C", "C.UTF-8")),
        FactorLevels(factor="env:TZ", levels=("", "UTC")),
    )
    assert fixed_environment_note(builders.experiment(own=own, factors=varied)) == ""


def test_what_a_record_can_not_store_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "\udcff")
    with pytest.raises(UserError, match="LANG is not UTF-8"):
        inherited_environment("host", "wall")

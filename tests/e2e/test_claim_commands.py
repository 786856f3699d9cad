# SPDX-License-Identifier: MIT OR Apache-2.0
"""The commands that `published claims` prints can be given, and measure what their tests read; an untested claim has a reason."""

from __future__ import annotations

import contextlib
import shlex
from typing import Any

import click
import pytest

from swapstone.cli.main import cli
from swapstone.core.model import UserError
from swapstone.core.session.request import find_workloads
from swapstone.core.session.study_file import load_study
from swapstone.core.workloads import all_suites
from swapstone.parts.published.data import PageClaim, page_claims

CLAIMS = page_claims()


def _parsed(command: str) -> tuple[str, dict[str, Any]]:
    """Return the command's name and its parameters, as click reads them; nothing runs."""
    program, name, *words = shlex.split(command)
    assert program == "swapstone"
    found = cli.get_command(click.Context(cli), name)
    assert found is not None, f"there is no command {name}"
    return name, found.make_context(name, words).params


def _measured(command: str) -> set[str]:
    """Return the workloads that the experiments of a command have; those that the pattern of `explain` matches."""
    name, given = _parsed(command)
    if name == "explain":
        assert given["record"] == "RECORD"
        return {workload.name for _, workload in find_workloads(("server", "float"), (given["only"],))}
    only = tuple(given["only"])
    if name == "compare":
        return {workload.name for _, workload in find_workloads(given["suites"], only)}
    assert name == "study"
    study, parts = load_study(given["name"]), given["only_parts"]
    chosen = [part for part in study.part if not parts or part.name in parts]
    assert len(chosen) == (len(parts) or len(study.part)), f"{command}: a part is unknown"
    found = set()
    for part in chosen:
        wanted = part.settings.workloads
        suites = wanted.suites or tuple(suite.name for suite in all_suites())
        names = {each.name for _, each in find_workloads(suites, wanted.only)}
        with contextlib.suppress(UserError):  # a part may have none of the workloads that --only names
            found |= names & {each.name for _, each in find_workloads(suites, only)}
    return found


@pytest.mark.parametrize("claim", CLAIMS, ids=[claim.name for claim in CLAIMS])
def test_a_claims_command_is_valid_and_measures_what_is_tested(claim: PageClaim) -> None:
    assert bool(claim.command) != bool(claim.untested)
    if claim.untested:
        assert claim.untested.endswith(".") and len(claim.untested.split()) >= 8
        return
    commands = claim.command.split("; ")
    measured = {workload for command in commands for workload in _measured(command)}
    needed = {test.workload for test in claim.tests if test.workload}
    assert measured and needed <= measured


def test_the_claims_that_nothing_here_tests() -> None:
    assert {claim.name for claim in CLAIMS if claim.untested} == {
        "newer-processor",
        "lwip-sending-hotspot",
        "float-slower-on-board",
    }

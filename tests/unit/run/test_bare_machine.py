# SPDX-License-Identifier: MIT OR Apache-2.0
"""A target without an operating system: what it refuses and leaves out, each with its reason, and what it selects by default."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from swapstone.core.factors import parse_choice
from swapstone.core.model import Experiment, FactorLevels, UnavailableError, UserError, Workload
from swapstone.core.run.subject_kinds import subjects_of
from swapstone.core.session.request import default_suites, default_target_of
from swapstone.core.targets import Capabilities, find_target_kind, parse_target
from swapstone.core.workloads import find_suite, find_workload
from swapstone.parts.net.subjects.crate import CrateProgram
from swapstone.parts.net.targets.bare import BareSpec
from tests.unit import builders

NAME = "bare-riscv64"
BARE, HOST = find_target_kind(NAME).opens, find_target_kind("host").opens
SUITE = find_suite("netstack-bare")


def _experiment(*levels: str, factor: str = "netstack", loads: tuple[str, ...] = ("idle",)) -> Experiment:
    return builders.experiment(factors=(FactorLevels(factor=factor, levels=levels),), loads=loads, target=NAME)


def _check(experiment: Experiment, works: Iterable[Workload], target: Capabilities = BARE) -> None:
    subjects = subjects_of({("suite", work.name): work for work in works}).values()
    target.check_experiment(experiment, [each.workload.name for each in subjects if not each.workload.bare])


def _refusal(experiment: Experiment, *works: Workload) -> UserError:
    with pytest.raises(UnavailableError) as caught:
        _check(experiment, works or SUITE.workloads)
    assert caught.value.hint
    return caught.value


def test_the_target_has_no_parameters_and_its_own_capabilities() -> None:
    assert parse_target(NAME) == BareSpec()
    with pytest.raises(UserError, match="takes nothing after its name"):
        parse_target(f"{NAME}:x")
    assert BARE.offers & {"bare", "boots", "runs_instruments", "limits_memory"} == {"bare"}
    assert "bare" not in HOST.offers


def test_stacks_are_accepted_and_other_targets_accept_everything() -> None:
    _check(_experiment("lwip", "smoltcp:shipped"), SUITE.workloads)
    _check(_experiment("glibc", "musl", factor="libc"), [find_workload("libc", "b_malloc_tiny1")], HOST)


@pytest.mark.parametrize("levels", [("kernel", "lwip"), ("lwip", "kernel"), ("lwip", "kernel", "kernel:bbr")])
def test_without_two_stacks_there_is_nothing_to_compare(levels: tuple[str, ...]) -> None:
    refusal = _refusal(_experiment(*levels))
    assert refusal.message.startswith("netstack=kernel is unavailable: there is no operating system on that machine")
    assert "netstack=lwip,smoltcp" in refusal.hint


def test_a_kernel_beside_two_stacks_is_left_out_with_a_note() -> None:
    experiment = _experiment("lwip", "smoltcp", "kernel")
    _check(experiment, SUITE.workloads)
    (note,) = BARE.left_out_levels(experiment)
    assert note.startswith("Note: netstack=kernel is unavailable: there is no operating system on that machine")
    assert list(HOST.left_out_levels(experiment)) == []


@pytest.mark.parametrize(
    ("suite", "work"), [("netstack", "http-churn"), ("netstack", "bulk-in"), ("libc", "b_malloc_tiny1")]
)
def test_another_workload_is_refused_with_the_suite_that_runs(suite: str, work: str) -> None:
    refusal = _refusal(_experiment("lwip", "smoltcp"), find_workload(suite, work))
    assert refusal.message == f"The target {NAME} has no operating system, which {work} needs."
    assert refusal.hint == "Select the workloads that it runs: --suite netstack-bare. Or measure on --target host."


def test_other_factors_and_loads_are_refused() -> None:
    assert _refusal(_experiment("glibc", "musl", factor="libc")).message.startswith(
        f"The target {NAME} has no factor libc"
    )
    refusal = _refusal(_experiment("lwip", "smoltcp", loads=("idle", "cpu")))
    assert refusal.message == f"The target {NAME} runs no load cpu beside a trial."


def test_its_suite_and_target_select_each_other() -> None:
    choice = parse_choice("netstack=lwip,smoltcp")
    assert default_suites((choice,), (), of_target=BARE.suites) == (SUITE.name,)
    assert default_suites((choice,), ()) == ("netstack",)
    assert default_target_of((choice,), ("idle",), SUITE.workloads) == NAME
    assert default_target_of((choice,), ("idle",), find_suite("netstack").workloads) == "host"


def test_every_workload_leads_with_instructions_and_has_no_processor_time() -> None:
    for work in SUITE.workloads:
        assert work.bare
        assert [metric.name for metric in work.metrics if metric.leads] == ["instructions"]
        assert not {"cpu", "user_cpu", "system_cpu"} & {metric.name for metric in work.metrics}


def test_its_workloads_are_refused_on_other_targets() -> None:
    work = SUITE.workloads[0]
    for target in ("host", "vm", "ssh:board"):
        with pytest.raises(UnavailableError) as caught:
            CrateProgram(work).check(_experiment("lwip", "smoltcp"), find_target_kind(target).opens)
        assert caught.value.hint == f"Measure on --target {NAME}."


STUDY = b"""
title = "Stacks"
question = "Which of them runs without an operating system?"
blocks = 1
[[factor]]
name = "netstack"
levels = ["lwip", "smoltcp", "kernel"]
[[part]]
name = "speed"
title = "Processes"
suites = ["netstack"]
[[part]]
name = "bare"
title = "Without an operating system"
"""

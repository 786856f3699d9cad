# SPDX-License-Identifier: MIT OR Apache-2.0
"""Workloads without the harness: their requests, and what their answers amount to."""

import msgspec
import pytest

from swapstone.core.model import Sample, Status, Variant
from swapstone.core.run.subject_kinds import subject_of
from swapstone.core.run.variant_program import Program
from swapstone.core.wire import AgentAnswer, ProcessOutcome
from swapstone.core.workloads import find_workload
from swapstone.core.workloads.named_figures import NamedFigures
from swapstone.parts.build.artifacts.workload_build import BASE_RECIPE
from tests.named_figures import encode_named_figures
from tests.unit.builders import trial_spec

WORK = find_workload("swap", "fill (50 % random)")
FIGURES = tuple((metric.name, float(number)) for number, metric in enumerate(WORK.metrics))
OUTPUT = encode_named_figures(NamedFigures(name="fill", figures=FIGURES, series=(("so", (0.0, 8.0)),)))
MACHINE = (
    ("after /proc/swaps", "Filename Type Size Used Priority\n/dev/zram0 partition 262140 0 -2\n"),
    ("after /sys/block/zram0/comp_algorithm", "lzo [lz4] zstd\n"),
    *((f"{when} /proc/stat", "cpu  10 0 102 397 0 0 1 0 0 0\n") for when in ("before", "after")),
    ("before /proc/uptime", "1.00 0.50\n"),
    ("after /proc/uptime", "2.00 1.50\n"),
)
ANSWER = AgentAnswer(id="t", stdout=OUTPUT, outcome=ProcessOutcome.EXITED, code=0, machine=MACHINE)
PROGRAM = Program("/p/prog", BASE_RECIPE, None, None)
SUBJECT = subject_of(WORK)
SPEC = trial_spec(Variant(levels=(("swap", "zram:lz4"),)), PROGRAM)


def test_no_number_of_passes_is_told_to_it() -> None:
    assert SUBJECT.request(SPEC).arguments == ("/p/prog", "50")
    counted = subject_of(find_workload("libc", "b_regex_search#2"))
    request = counted.request(trial_spec(SPEC.variant, PROGRAM, passes=7))
    assert request.arguments == ("/p/prog", "7", "2")


def test_figures_are_samples_and_series_of_the_run() -> None:
    found = SUBJECT.judge(SPEC, ANSWER, lambda _: None)
    assert (found.status, found.observed) == (Status.OK, (("swap", "zram:lz4"),))
    assert [(sample.metric, sample.values[0]) for sample in found.measured.samples] == list(FIGURES)
    assert found.measured.series == (Sample(metric="so", values=(0.0, 8.0)),)


@pytest.mark.parametrize("size", [0, 1, len(OUTPUT) // 2, len(OUTPUT) - 1])
def test_figures_that_are_not_whole_are_a_failed_run(size: int) -> None:
    found = SUBJECT.judge(SPEC, msgspec.structs.replace(ANSWER, stdout=OUTPUT[:size]), lambda _: None)
    assert found.status is Status.FAILED
    assert found.reason.startswith("its output is unreadable: ")
    assert found.measured.samples == ()


def test_another_algorithm_than_was_asked_for_is_refused() -> None:
    machine = (MACHINE[0], (MACHINE[1][0], "[lzo-rle] lz4 zstd\n"))
    found = SUBJECT.judge(SPEC, msgspec.structs.replace(ANSWER, machine=machine), lambda _: None)
    assert found.status is Status.REFUSED
    assert "swap=zram:lz4 was requested, but zram:lzo-rle was in force" in found.reason


def test_what_the_program_saw_of_the_server_decides_its_stack() -> None:
    work = find_workload("netstack", "udp-in")
    figures = tuple((metric.name, float(number)) for number, metric in enumerate(work.metrics))
    for tap, sockets, status in (("tap0", "none", Status.OK), ("none", "udp:80", Status.REFUSED)):
        seen = (("tap", tap), ("kernel_sockets", sockets), ("stack", "lwip 2.2.1"))
        output = encode_named_figures(NamedFigures(name="udp_in", figures=figures, series=(), seen=seen))
        answer = AgentAnswer(id="t", stdout=output, outcome=ProcessOutcome.EXITED, code=0)
        found = subject_of(work).judge(
            trial_spec(Variant(levels=(("netstack", "lwip"),)), PROGRAM), answer, lambda _: None
        )
        assert found.status is status, found.reason
        assert found.measured.seen == (seen if status is Status.OK else ())
    assert "netstack=lwip was requested, but lwip on the kernel's sockets was in force" in found.reason

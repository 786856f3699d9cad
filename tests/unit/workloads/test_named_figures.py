# SPDX-License-Identifier: MIT OR Apache-2.0
"""Named figures and series: encoding, decoding, and errors of invalid input."""

import re
import subprocess
import zlib
from pathlib import Path

import msgspec
import pytest

from swapstone.core.model import Sample, WireError, Workload
from swapstone.core.wire import AgentAnswer, ProcessOutcome
from swapstone.core.wire.output_reading import Measured, reader_of
from swapstone.core.workloads import find_suite, find_workload
from swapstone.core.workloads.named_figures import NamedFigures, decode_named_figures
from swapstone.parts.build.artifacts.recipe_resolution import resolve_recipe
from swapstone.parts.build.artifacts.workload_build import BASE_RECIPE, build_workload
from tests.named_figures import encode_named_figures
from tests.unit.builders import source_of

WORK = find_workload("swap", "touch (random, 1.5)")
FIGURES = NamedFigures(
    name="touch",
    figures=(("touch_time", 37.543), ("swap_ins", 5.0), ("majflt", 0.0), ("in_rate", None), ("working_set", 8388608.0)),
    series=(("so", (0.0, 1024.0)), ("at_ns", (1000000001.0, 2000000000.0))),
)
LINES = """swapstone-figures 1
name touch
figure touch_time 37.543
figure swap_ins 5
figure majflt 0
figure in_rate -
figure working_set 8388608
series so 2 0 1024
series at_ns 2 1000000001 2000000000
"""


def with_checksum(lines: str, count: int | None = None) -> bytes:
    text = f"{lines}end {lines.count(chr(10)) if count is None else count}"
    return f"{text} {zlib.crc32(text.encode()):08x}\n".encode()


WHOLE = with_checksum(LINES)


def measured(output: bytes) -> Measured:
    return reader_of(WORK).read(AgentAnswer(id="t", stdout=output, outcome=ProcessOutcome.EXITED, code=0))


def test_figures_round_trip() -> None:
    assert decode_named_figures(WHOLE) == FIGURES
    assert encode_named_figures(FIGURES) == WHOLE


def test_observations_precede_the_figures_and_are_returned() -> None:
    lines = LINES.replace("figure touch_time", "seen tap tap0\nseen stack lwip 2.2.1\nfigure touch_time", 1)
    decoded = msgspec.structs.replace(FIGURES, seen=(("tap", "tap0"), ("stack", "lwip 2.2.1")))
    assert decode_named_figures(with_checksum(lines)) == decoded
    assert encode_named_figures(decoded) == with_checksum(lines)
    assert measured(with_checksum(lines)).seen == decoded.seen
    assert measured(WHOLE).seen == ()
    longest = f"{'x' * 512} {'y' * 64} 3 4 5 6 7 8"
    lines = LINES.replace("figure touch_time", f"seen fixes {longest}\nfigure touch_time", 1)
    assert measured(with_checksum(lines)).seen == (("fixes", longest),)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("seen tap", "is not an observation"),
        ("seen Tap tap0", "is not an observation"),
        ("seen tap  tap0", "is not an observation"),
        ("seen tap tap0 ", "is not an observation"),
        ("seen tap ta\tp0", "is not an observation"),
        ("seen stack 1 2 3 4 5 6 7 8 9", "is not an observation"),
        (f"seen fixes {'x' * 513}", "is not an observation"),
        (f"seen fixes one {'x' * 65}", "is not an observation"),
        ("seen stack lwip", "stack comes a second time"),
        ("figure more 1\nseen tap tap0", "neither a figure nor a series"),
    ],
)
def test_an_invalid_observation_is_an_error(line: str, words: str) -> None:
    lines = LINES.replace("figure touch_time", f"seen stack lwip\n{line}\nfigure touch_time", 1)
    with pytest.raises(WireError, match=re.escape(words)):
        decode_named_figures(with_checksum(lines))


def test_every_truncation_is_an_error() -> None:
    for size in range(len(WHOLE)):
        with pytest.raises(WireError):
            decode_named_figures(WHOLE[:size])


def test_a_missing_or_repeated_line_is_an_error() -> None:
    lines = WHOLE.splitlines(keepends=True)
    for at in range(len(lines)):
        for changed in ([*lines[:at], *lines[at + 1 :]], [*lines[: at + 1], *lines[at:]]):
            with pytest.raises(WireError):
                decode_named_figures(b"".join(changed))


def test_any_changed_byte_is_an_error() -> None:
    for at in range(len(WHOLE)):
        changed = bytearray(WHOLE)
        changed[at] ^= 1
        with pytest.raises(WireError):
            decode_named_figures(bytes(changed))


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("figures 1", "figures 2", "Line 1 "),
        ("name touch", "name Touch", "is not the name of the program"),
        ("37.543", "37,543", "not a number"),
        ("37.543", "-37.543", "not a number"),
        ("37.543", "037", "not a number"),
        ("37.543", "nan", "not a number"),
        ("37.543", "1e9", "not a number"),
        ("figure swap_ins 5", "figure swap_ins 5 6", "is no figure"),
        ("figure swap_ins 5", "figure swap_ins", "neither a figure nor a series"),
        ("figure swap_ins 5", "figure  swap_ins 5", "neither a figure nor a series"),
        ("figure swap_ins 5", "fact swap_ins 5", "neither a figure nor a series"),
        ("figure swap_ins 5", "figure touch_time 5", "a second time"),
        ("so 2 0 1024", "so 3 0 1024", "should have 3 values, and has 2"),
        ("so 2 0 1024", "so 1 1024", "not equally long"),
        ("2000000000\n", "2000000000\nfigure more 1\n", "comes after a series"),
    ],
)
def test_an_invalid_line_with_a_valid_checksum_is_an_error(before: str, after: str, words: str) -> None:
    with pytest.raises(WireError, match=re.escape(words)):
        decode_named_figures(with_checksum(LINES.replace(before, after, 1)))


def test_a_wrong_line_count_with_a_valid_checksum_is_an_error() -> None:
    with pytest.raises(WireError, match="counts 8 lines, and there were 9"):
        decode_named_figures(with_checksum(LINES, 8))


def test_output_after_the_end_is_an_error() -> None:
    for more in (b"x", b"\n", WHOLE):
        with pytest.raises(WireError):
            decode_named_figures(WHOLE + more)


def test_figures_become_samples_and_unmeasured_ones_are_omitted() -> None:
    found = measured(WHOLE)
    assert found.samples == (
        Sample(metric="touch_time", values=(37.543,)),
        Sample(metric="swap_ins", values=(5.0,)),
        Sample(metric="majflt", values=(0.0,)),
        Sample(metric="working_set", values=(8388608.0,)),
    )
    assert found.series == (
        Sample(metric="so", values=(0.0, 1024.0)),
        Sample(metric="at_ns", values=(1000000001.0, 2000000000.0)),
    )


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("name touch", "name fill", "the program 'fill', not of 'touch'"),
        ("figure majflt 0\n", "", "majflt"),
        ("figure majflt 0\n", "figure majflt 0\nfigure other 1\n", "other"),
    ],
)
def test_figures_of_another_program_are_refused(before: str, after: str, words: str) -> None:
    with pytest.raises(WireError, match=words):
        measured(with_checksum(LINES.replace(before, after, 1)))


def test_touch_prints_readable_figures_without_swap() -> None:
    built = build_workload(WORK, resolve_recipe(BASE_RECIPE))
    made = subprocess.run([built.path, "random", "1", "1000"], capture_output=True, check=True)
    figures = {sample.metric: sample.values[0] for sample in measured(made.stdout).samples}
    assert figures["working_set"] % 4096 == 0
    assert figures["working_set"] > 0
    assert figures["touch_time"] > 0


@pytest.mark.parametrize("workload", find_suite("swap").workloads, ids=lambda workload: workload.name)
def test_the_programs_print_their_usage_without_arguments(workload: Workload, tmp_path: Path) -> None:
    built = build_workload(workload, resolve_recipe(BASE_RECIPE))
    made = subprocess.run([built.path], capture_output=True, check=False, cwd=tmp_path)
    assert (made.returncode, made.stdout) == (1, b"")
    assert made.stderr.decode().startswith(f"usage: {source_of(workload).file.removesuffix('.c')} ")

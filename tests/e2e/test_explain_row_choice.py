# SPDX-License-Identifier: MIT OR Apache-2.0
"""Choice of the row to explain, and rows that can't be explained; no instrument runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import pytest

from swapstone.core.model import Comparison, UnavailableError, UserError, Verdict
from swapstone.core.wire import TrialRequest
from swapstone.parts.explain.instruments import requirements
from swapstone.parts.explain.instruments.acquisition import INSTRUMENTS, ReferenceRun, RowVariant, run_instruments
from swapstone.parts.explain.instruments.traced_run import Region, Tracee
from swapstone.parts.explain.model.explanation import InstrumentResult, RowKey
from swapstone.parts.explain.session.explain import ExplainOptions, choose_row
from tests.e2e.cli import fake, swapstone
from tests.golden import synthetic


def rows(*changes: dict[str, object]) -> object:
    analysis = synthetic.analysis()
    base = next(row for row in analysis.comparisons if row.preferred)
    made = tuple(msgspec.structs.replace(base, **change) for change in changes)
    return msgspec.structs.replace(analysis, comparisons=made)


def _pick(*changes: dict[str, object], metric: str | None = None, only: str | None = None) -> Comparison:
    return choose_row(rows(*changes), ExplainOptions(metric=metric, workload=only))  # type: ignore[arg-type]


WORSE = {"workload": "a", "effect": 1.5, "verdict": Verdict.WORSE}
BETTER = {"workload": "b", "effect": 0.5, "verdict": Verdict.BETTER}
UNDECIDED = {"workload": "c", "effect": 9.0, "verdict": Verdict.INCONCLUSIVE}


def test_the_largest_decided_difference_is_chosen() -> None:
    assert _pick(WORSE, BETTER, UNDECIDED).workload == "b"
    assert _pick(WORSE, BETTER, UNDECIDED, only="a").workload == "a"
    assert _pick(WORSE, BETTER, UNDECIDED, only="c").workload == "c"  # an exact name selects an undecided row


def test_a_choice_without_a_matching_row_is_an_error() -> None:
    with pytest.raises(UserError) as caught:
        _pick(WORSE, only="z")
    assert caught.value.hint == "Known: a."
    with pytest.raises(
        UserError, match="There is nothing to explain: none of the 1 rows that match has a different median"
    ):
        _pick({**UNDECIDED, "verdict": Verdict.EQUIVALENT})


def test_rows_that_too_few_pairs_leave_undecided_name_the_next_step() -> None:
    with pytest.raises(UserError, match="Too few pairs: 1 of the 1 rows that match decide no difference") as caught:
        _pick(UNDECIDED)
    assert "swapstone compare --resume RECORD" in caught.value.hint


def test_a_record_without_a_result_is_no_unknown_name() -> None:
    """Each of its runs may have failed, or have been edited."""
    with pytest.raises(UserError, match="No row of this record has a result to explain") as caught:
        choose_row(rows({"effect": None}), ExplainOptions(metric="max"))  # type: ignore[arg-type]
    assert "swapstone verify RECORD" in caught.value.hint


def test_a_row_without_a_result_is_named_with_the_records_reason() -> None:
    name = next(row for row in synthetic.analysis().comparisons if row.preferred).metric.name
    lost = {"effect": None, "verdict": Verdict.INVALID, "reason": "another level \x1b[31m"}
    with pytest.raises(UserError, match=f"a, {name}, has no result to explain: invalid") as caught:
        _pick({**WORSE, **lost}, BETTER, metric=name, only="a")
    assert caught.value.hint.startswith("another level ") and "\x1b" not in caught.value.hint
    assert _pick({**WORSE, **lost}, BETTER, metric=name).workload == "b"
    with pytest.raises(UserError, match="no metric of this record named 'nonsense'") as caught:
        _pick({**WORSE, **lost}, BETTER, metric="nonsense")
    assert name in caught.value.hint


def test_a_disturbed_row_is_explained_if_it_is_named() -> None:
    name = next(row for row in synthetic.analysis().comparisons if row.preferred).metric.name
    lost = {**WORSE, "effect": None, "verdict": Verdict.DISTURBED, "reason": "others ran"}
    assert _pick(lost, BETTER, metric=name, only="a").verdict is Verdict.DISTURBED
    assert _pick(lost, BETTER, metric=name, only="*").workload == "b"
    with pytest.raises(UserError, match="has no result to explain: disturbed"):
        _pick(lost, metric=name)


def test_explain_refuses_a_record_of_the_fake_target(tmp_path: Path) -> None:
    swapstone(
        tmp_path,
        "compare",
        "libc=glibc,musl",
        "--only",
        "b_malloc_big1",
        "--target",
        fake(tmp_path),
        "--out",
        str(tmp_path / "r"),
    )
    result = swapstone(tmp_path, "explain", str(tmp_path / "r"), "--only", "*", expect=2)
    assert "this row was measured with the target fake:" in result.stderr
    assert "Measure it on --target host" in result.stderr


def _variant(variant: str, wall: float) -> RowVariant:
    request = TrialRequest(id="x", arguments=("/bin/true",), cwd="/", timeout_ms=1)
    return RowVariant(
        Tracee(variant, request, Region.PROGRAM),
        lambda *_: ReferenceRun({"wall": wall, "minflt": 3.0}, ()),
        lambda *_: "",
        wall,
        wall,
        "",
    )


def test_an_unavailable_instrument_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def refused(*_: object) -> InstrumentResult:
        raise UnavailableError("perf is not there", "install it")

    def broken(*_: object) -> InstrumentResult:
        tried.append(1)
        raise UserError("it broke")

    monkeypatch.setitem(INSTRUMENTS, "on-cpu", refused)
    monkeypatch.setitem(INSTRUMENTS, "off-cpu", broken)
    place = RowKey(suite="", workload="w", load="idle", metric="wall", baseline="a", candidate="b")
    seen = run_instruments(
        place, "ns", "wall", (_variant("a", 1.0), _variant("b", 2.0)), lambda _: None, only=("on-cpu", "off-cpu")
    )
    assert [(one.instrument, one.reason, one.remedy) for one in seen.missing] == [
        ("on-cpu", "perf is not there", "install it"),
        ("off-cpu", "it failed: it broke", ""),
    ]
    assert len(tried) == 2  # an instrument that fails is tried again, once
    assert [run.instrument for run in seen.runs] == ["reference", "reference"]
    assert seen.runs[0].amounts[0].name == "minor faults"


def test_a_refused_perf_event_names_the_sysctl_that_allows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "missing_tool", lambda *_: None)
    monkeypatch.setattr(requirements, "_run", lambda _: None)
    found = requirements.missing_perf.__wrapped__()
    assert found is not None
    assert "the kernel refuses perf events (kernel.perf_event_paranoid=" in found.reason
    assert "sudo sysctl kernel.perf_event_paranoid=1" in found.remedy


@pytest.mark.parametrize(
    ("status", "errors", "works"), [(0, "", True), (0, "<not supported> cpu-clock:k", False), (255, "", False)]
)
def test_perf_that_samples_the_users_code_alone_is_not_enough(
    monkeypatch: pytest.MonkeyPatch, status: int, errors: str, *, works: bool
) -> None:
    def answer(command: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        kernel = command[command.index("-e") + 1].endswith(":k")
        return subprocess.CompletedProcess(command, status if kernel else 0, "", errors if kernel else "")

    monkeypatch.setattr(requirements, "missing_tool", lambda *_: None)
    monkeypatch.setattr(requirements, "_run", answer)
    found = requirements.missing_perf.__wrapped__()
    assert (found is None) == works
    if found is not None:
        assert "the kernel refuses samples of the kernel (kernel.perf_event_paranoid=" in found.reason


def test_tracepoints_need_root_first(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = requirements.MissingRequirement("the kernel refuses samples", "sudo sysctl kernel.perf_event_paranoid=1")
    monkeypatch.setattr(requirements, "missing_tool", lambda *_: None)
    monkeypatch.setattr(requirements, "missing_perf", lambda: setting)
    root = requirements.MissingRequirement("tracepoints need root", "start swapstone as root")
    for wrapper, expected in ((((), root), root), (((), None), setting)):
        monkeypatch.setattr(requirements, "tracing_wrapper", lambda found=wrapper: found)
        assert requirements.missing_tracepoints() == expected


def test_a_missing_tool_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "install_command", lambda package: f"sudo apt-get install {package}")
    found = requirements.missing_tool("no-such-tool", "its-package")
    assert found is not None
    assert found == requirements.MissingRequirement(
        "the command 'no-such-tool' is not installed", "sudo apt-get install its-package"
    )

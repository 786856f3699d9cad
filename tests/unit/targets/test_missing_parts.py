# SPDX-License-Identifier: MIT OR Apache-2.0
"""Without any part there are still this machine and the fake target, and what needs a part is refused with a reason."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from swapstone.core.model import UnavailableError, UserError, parts
from swapstone.core.model.run_sharing import RunSharing
from swapstone.core.session.machines import check_sharing, run_sharer
from swapstone.core.targets import TargetOptions, clock_of, default_target, parse_target, target_kinds
from swapstone.core.targets.hints import target_hint
from tests.unit import builders


@pytest.fixture(autouse=True)
def _no_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(parts, "shipped_parts", lambda: ())
    target_kinds.cache_clear()
    yield
    target_kinds.cache_clear()


def test_targets_of_parts_are_absent() -> None:
    assert [kind.name for kind in target_kinds()] == ["host", "fake"]
    assert default_target(boots=False) == "host"
    with pytest.raises(UnavailableError, match="No part that is installed has a target that boots a machine"):
        default_target(boots=True)
    with parse_target("host").open(None, print) as target:
        assert target.describe().cpus


@pytest.mark.parametrize(
    "options",
    [TargetOptions(architecture="arm64"), TargetOptions(cpu_model="max"), TargetOptions(processors=2)],
)
def test_no_hint_names_a_target_that_is_absent(options: TargetOptions) -> None:
    with pytest.raises(UserError) as caught:
        parse_target("host", options)
    assert caught.value.hint == ""
    with pytest.raises(UserError) as caught:
        clock_of("host", "virtual")
    assert caught.value.hint == ""
    assert target_hint("boots", "Measure on {}.") == ""


def test_no_other_machine_makes_runs() -> None:
    sharing = RunSharing(store="/store", recheck=0.1)
    with pytest.raises(UserError, match=r"No part that is installed has --store or --recheck\."):
        run_sharer(sharing)
    with pytest.raises(UserError, match="--store is of the virtual clock") as caught:
        check_sharing(builders.experiment(target="host"), sharing)
    assert caught.value.hint == "Leave --store out."

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Plans in a store, which anybody may have written: what is not a plan, or has values out of bounds, is refused by its name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from swapstone.core.session.progress import NO_PROGRESS
from swapstone.parts.cluster.content_store import PLANS, ContentStore, DamagedEntryError
from swapstone.parts.cluster.many_machines import TrialPlan, collect_runs, make_runs, read_plan
from tests.unit import builders

RUN = "b" * 64


def plan(**changes: object) -> dict[str, Any]:
    made = TrialPlan(
        swapstone="1", experiment=builders.experiment(), passes=(("libc", "b_malloc_tiny1", 4),), runs=(RUN,), made=()
    )
    return {**json.loads(made.encoded()), **changes}


def stored(store: ContentStore, data: bytes) -> str:
    name = hashlib.sha256(data).hexdigest()
    store.put(PLANS, name, data)
    return name


def of_experiment(**changes: object) -> Callable[[], bytes]:
    return lambda: json.dumps(plan(experiment={**plan()["experiment"], **changes})).encode()


def of_passes(number: int) -> Callable[[], bytes]:
    return lambda: json.dumps(plan(passes=[["libc", "b_malloc_tiny1", number]])).encode()


FORGED: dict[str, tuple[Callable[[], bytes], str]] = {
    "10^8 variants": (
        of_experiment(factors=[{"factor": name, "levels": [str(n) for n in range(100)]} for name in "abcd"]),
        "100000000 variants, more than",
    ),
    "a confidence of 1": (of_experiment(confidence=1.0), "its confidence is 1"),
    "no workload": (of_experiment(workloads=[]), "no workload"),
    "no passes": (of_passes(0), "a number of passes is not between 1 and"),
    "10^9 passes": (of_passes(10**9), "a number of passes is not between 1 and"),
    "a million levels of JSON": (lambda: b'{"runs":' + b"[" * 10**6 + b"]" * 10**6 + b"}", "no plan of this version"),
    "6 million values": (lambda: b'{"runs":[""' + b',""' * 6_000_000 + b"]}", "values, more than the"),
    "an unknown field": (lambda: json.dumps(plan(future=1)).encode(), "no plan of this version"),
    "no UTF-8": (lambda: b'{"swapstone":"\xff"}', "no plan of this version"),
}


def test_a_whole_plan_is_read(tmp_path: Path) -> None:
    store = ContentStore(str(tmp_path))
    assert read_plan(store, stored(store, json.dumps(plan()).encode())).runs == (RUN,)


@pytest.mark.parametrize("kind", FORGED)
def test_a_forged_plan_is_refused_by_its_name(tmp_path: Path, kind: str) -> None:
    make, named = FORGED[kind]
    store = ContentStore(str(tmp_path))
    name = stored(store, make())
    entry = f"The store's entry plans/{name[:2]}/{name} is refused: .*{named}"
    with pytest.raises(DamagedEntryError, match=entry):
        collect_runs(name, store.url, tmp_path / "record", NO_PROGRESS)
    with pytest.raises(DamagedEntryError, match=entry):
        list(make_runs((), store.url, plan=name))
    assert not (tmp_path / "record").exists()

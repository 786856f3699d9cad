# SPDX-License-Identifier: MIT OR Apache-2.0
"""The answer of ``compare --fit-memory``."""

from __future__ import annotations

import pytest

from swapstone.core.model.number_text import size_text
from swapstone.parts.vm.model.memory_fit import MemoryFit, TriedMemory, VariantMemory
from swapstone.parts.vm.report.memory_fit_text import HEAD, answer, notes, rows

MIB = 1 << 20


def variant(name: str, smallest: int, failed: int, **changes: object) -> VariantMemory:
    """Return a variant's result, in MiB."""
    fields = {"workload": "prog", "variant": f"libc={name}", "name": name, "complete": True, **changes}
    return VariantMemory(smallest_bytes=smallest * MIB, failed_bytes=failed * MIB, **fields)  # type: ignore[arg-type]


def fit(*variants: VariantMemory) -> MemoryFit:
    """Return a result."""
    return MemoryFit(
        program="-- ./prog",
        target="host",
        clock="wall",
        limited="memory cgroup",
        rule="A rule.",
        resolution="1 MiB",
        most_bytes=1 << 30,
        variants=variants,
    )


def test_the_smallest_comes_first() -> None:
    found = fit(variant("glibc", 132, 130), variant("musl", 96, 95))
    assert answer(found) == "musl survives in 96 MiB, glibc needs 132 MiB."
    assert [row[:3] for row in rows(found)] == [("glibc", "132 MiB", "130 MiB"), ("musl", "96 MiB", "95 MiB")]
    assert all(len(row) == len(HEAD) for row in rows(found))


def test_names_with_a_comma_stay_apart() -> None:
    found = fit(variant("glibc, default", 132, 130), variant("musl, default", 96, 95))
    assert answer(found) == "musl, default survives in 96 MiB; glibc, default needs 132 MiB."


def test_a_difference_within_the_resolution_is_called_so() -> None:
    assert answer(fit(variant("glibc", 97, 95), variant("musl", 96, 94))) == (
        "musl survives in 96 MiB, glibc needs 97 MiB (a difference within the resolution)."
    )
    assert answer(fit(variant("a", 96, 95), variant("b", 95, 94))) == "b survives in 95 MiB, a needs 96 MiB."
    assert answer(fit(variant("a", 9, 8), variant("b", 9, 8))) == "a survives in 9 MiB, b survives in 9 MiB."


def test_a_difference_within_what_varies_from_run_to_run_is_called_so() -> None:
    text = "b survives in 92 MiB, a needs 97 MiB"
    doubt = f"{text} (a difference that may be one from run to run)."
    assert answer(fit(variant("a", 97, 96, varies_from_bytes=92 * MIB), variant("b", 92, 91))) == doubt
    assert answer(fit(variant("a", 97, 96, varies_from_bytes=93 * MIB), variant("b", 92, 91))) == f"{text}."
    peaks = {"peak_rss_bytes": 90 * MIB, "least_rss_bytes": 85 * MIB}
    assert answer(fit(variant("a", 97, 96), variant("b", 92, 91, **peaks))) == doubt
    assert answer(fit(variant("a", 97, 96), variant("b", 92, 91, peak_rss_bytes=90 * MIB))) == f"{text}."


def test_a_program_that_survives_everything_is_not_said_to_need_the_smallest_size() -> None:
    assert answer(fit(variant("a", 1, 0))) == "a survives in 1 MiB (the smallest size that was tried)."
    assert answer(fit(variant("a", 8, 0, complete=False))) == "a survives in at most 8 MiB."


def test_what_varies_from_run_to_run_is_named() -> None:
    text = " ".join(notes(fit(variant("a", 42, 41, varies_from_bytes=40 * MIB))))
    assert "Varies from run to run: from 40 MiB, some runs of a survived and others failed." in text
    assert "Varies" not in " ".join(notes(fit(variant("a", 42, 41))))
    not_monotonic = variant("a", 42, 41, varies_from_bytes=39 * MIB, survived_below=(39 * MIB,))
    assert "Varies" not in " ".join(notes(fit(not_monotonic)))


def test_what_has_no_size_is_stated() -> None:
    found = fit(
        variant("a", 9, 8, complete=False),
        variant("b", 0, 64),
        variant("c", 0, 0, unavailable="it ended with status 1"),
        variant("d", 0, 0, complete=False),
    )
    assert answer(found) == (
        "a survives in at most 9 MiB, b does not survive in 64 MiB, the largest size that was tried, "
        "c can't run even without a limit, d has no result yet."
    )
    assert rows(found)[2][-1] == "unavailable: it ended with status 1"


def test_several_workloads_have_a_sentence_each() -> None:
    found = fit(variant("a", 9, 8, workload="p(N=1)"), variant("a", 19, 18, workload="p(N=2)"))
    assert answer(found).splitlines() == ["p(N=1): a survives in 9 MiB.", "p(N=2): a survives in 19 MiB."]
    assert rows(found)[1][0] == "p(N=2) a"


def test_what_is_not_monotonic_is_named() -> None:
    text = " ".join(notes(fit(variant("a", 42, 41, survived_below=(39 * MIB, 40 * MIB)))))
    assert "Not monotonic: a failed in 41 MiB, and survived in less: 39 MiB, 40 MiB." in text
    assert "Not monotonic" not in " ".join(notes(fit(variant("a", 42, 41))))


def test_a_limit_of_the_machine_is_no_limit_of_the_program() -> None:
    failed = TriedMemory(memory_bytes=41 * MIB, survived=False, runs=1, how="its kernel panicked", by_machine=True)
    assert "what starts the program ran out of memory for a" in " ".join(
        notes(fit(variant("a", 42, 41, sizes=(failed,))))
    )


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (96 * MIB, "96 MiB"),
        (768 << 10, "768 KiB"),
        (5 * MIB + (256 << 10), "5.25 MiB"),
        (1 << 30, "1 GiB"),
        (1500 * MIB, "1500 MiB"),
        (1234567, "1.18 MiB"),
        (12, "12 B"),
    ],
)
def test_sizes_are_readable(size: int, text: str) -> None:
    assert size_text(size) == text

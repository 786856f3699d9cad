# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kinds of hostile records of the study float-abi, whose table divides the values of ABIs by each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.hostile.forgery import LINES, Json, Kind, edited, factor, runs_changed

_EXACT, _INEXACT = "float_calls(exact)", "float_calls(inexact)"
_WORKLOADS = {"b_malloc_tiny1": _EXACT, "b_malloc_tiny2": _INEXACT}


def _of_float(
    hard: float = 2e6, soft: float = 3e6, levels: tuple[str, str] = ("soft", "hard"), **changes: Any
) -> Callable[[Path], None]:
    """Return a forgery of a record of that suite, with one value for all runs of each ABI."""
    labels = {"libc=glibc": f"float={levels[0]}", "libc=musl": f"float={levels[1]}"}

    def of_abi(run: Json) -> Json:
        trial = run["trial"]
        value = soft if trial["variant"] == "libc=glibc" else hard
        changed = {"suite": "float", "workload": _WORKLOADS[trial["workload"]], "variant": labels[trial["variant"]]}
        samples = [{"metric": name, "values": [value]} for name in ("wall", "cpu")]
        observed = [list(labels[trial["variant"]].split("=", 1))]
        return {**run, "trial": {**trial, **changed}, "samples": samples, "observed": observed}

    def harm(path: Path) -> None:
        workloads = [["float", name] for name in _WORKLOADS.values()]
        fields = {"workloads": workloads, "factors": factor(*levels, name="float"), "published": "float-abi", **changes}
        edited("experiment", **fields)(path)
        runs_changed(lambda runs: [of_abi(run) for run in runs])(path)

    return harm


def _without(variants: Iterable[str]) -> Callable[[Path], None]:
    def harm(path: Path) -> None:
        _of_float()(path)
        left = {f"float={variant}" for variant in variants}
        runs_changed(lambda runs: [run for run in runs if run["trial"]["variant"] not in left])(path)

    return harm


_AS_PAGE: dict[str, Any] = {"held": [["optimization", "O0"]]}

_FLOATS = [
    Kind("a table of float ABIs", _of_float(), ""),
    Kind("a table of float ABIs with the page's number", _of_float(**_AS_PAGE), ""),
    Kind("a table of float ABIs whose levels forge lines", _of_float(levels=(LINES, f"y{LINES}")), ""),
    Kind("float ABIs of 0 ns", _of_float(hard=0.0, soft=0.0, **_AS_PAGE), ""),
    Kind("an ABI of 0 ns", _of_float(hard=0.0, **_AS_PAGE), ""),
    Kind("an ABI of -5 ns", _of_float(hard=-5.0, **_AS_PAGE), ""),
    Kind("ABIs of 1e-290 and 1e290 ns", _of_float(hard=1e-290, soft=1e290, **_AS_PAGE), ""),
    Kind("ABIs of 1e290 and 1e-290 ns", _of_float(hard=1e290, soft=1e-290), ""),
    Kind("an ABI without runs", _without(["hard"]), ""),
    Kind("no runs of ABIs", _without(["soft", "hard"]), ""),
    Kind(
        "instructions of ABIs at 16 ns each",
        _of_float(target="vm", clock="virtual", architecture="armhf", ns_per_instruction=16, **_AS_PAGE),
        "",
    ),
    Kind("a page that forges lines", _of_float(published=LINES, **_AS_PAGE), ""),
]

GROUPS: dict[str, list[Kind]] = {"float ABIs": _FLOATS}
"""Kinds of hostile records of that study."""

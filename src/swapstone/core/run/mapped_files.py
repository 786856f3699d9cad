# SPDX-License-Identifier: MIT OR Apache-2.0
"""The files in which the variants of a workload differ, brought into one state of the page cache before they are measured."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterable
from pathlib import Path

from swapstone.core.model import Trial, process_file
from swapstone.core.record import Manifest, MappedFile, ResidentMemory
from swapstone.core.targets import Target

RESIDENT = process_file("smaps_rollup")
"""What a warm-up run is observed for: the kernel walks all pages of the process, which a measured run does not wait for."""

_LINE = re.compile(r"^(Rss|Anonymous): +([0-9]{1,15}) kB$", re.MULTILINE)


class MappedFiles:
    """The programs of each variant, and what their runs mapped executable, as the agent reports at their end.

    Files that all variants of a workload map are the same for all, and are not touched.

    Args:
        target: where the runs are.
        earlier: the record's manifest, if it has one already.
    """

    def __init__(self, target: Target, earlier: Manifest | None = None) -> None:
        known = earlier.mapped if earlier else ()
        self._found = {(each.suite, each.workload, each.variant, each.path): each for each in known}
        self._resident = {
            (each.suite, each.workload, each.variant): each for each in (earlier.resident if earlier else ())
        }
        self._known = len(self._found) + len(self._resident)
        self._mapped: dict[tuple[str, str], dict[str, set[str]]] = {}
        self._settled_file = functools.cache(target.settle)
        self._is_here = "shares_files" in target.offers
        self._real_path = functools.cache(target.real_path)

    def add(self, key: tuple[str, str, str], paths: Iterable[str]) -> None:
        """Add files that a variant, (suite, workload, label), starts or maps, by their paths on the target."""
        suite, workload, variant = key
        found = self._mapped.setdefault((suite, workload), {}).setdefault(variant, set())
        found.update(map(self._real_path, paths))

    def add_resident(self, trial: Trial, text: str) -> None:
        """Add the memory at the end of a run, as `RESIDENT` has it."""
        found = {name: int(number) << 10 for name, number in _LINE.findall(text)}
        if found.keys() == {"Rss", "Anonymous"} and found["Rss"] >= found["Anonymous"]:
            place = trial.suite, trial.workload, trial.variant
            self._resident[place] = ResidentMemory(
                suite=trial.suite,
                workload=trial.workload,
                variant=trial.variant,
                anonymous=found["Anonymous"],
                files=found["Rss"] - found["Anonymous"],
            )

    def settle(self) -> bool:
        """Settle the files that are new since the last call; return whether there are any, or memory of another variant."""
        for (suite, workload), by_variant in self._mapped.items():
            common = set.intersection(*by_variant.values())
            for variant, paths in by_variant.items():
                for path in sorted(paths - common):
                    found = self._settled_file(path)
                    if found is None or not found.sha256:
                        continue
                    self._found[suite, workload, variant, path] = MappedFile(
                        suite=suite,
                        workload=workload,
                        variant=variant,
                        path=path,
                        sha256=found.sha256,
                        bytes=found.size,
                        kept=found.kept,
                        alone=self._is_here and _is_alone(Path(path)),
                    )
        known, self._known = self._known, len(self._found) + len(self._resident)
        return self._known != known

    @property
    def files(self) -> tuple[MappedFile, ...]:
        """The files that were settled, in the order of their first runs."""
        return tuple(self._found.values())

    @property
    def resident(self) -> tuple[ResidentMemory, ...]:
        """The memory of each variant, in the order of their first runs."""
        return tuple(self._resident.values())


def _is_alone(path: Path) -> bool:
    """Return whether a file is the only one of its folder; False if that can't be read."""
    with contextlib.suppress(OSError):
        return list(path.parent.iterdir()) == [path]
    return False

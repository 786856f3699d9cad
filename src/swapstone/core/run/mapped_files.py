# SPDX-License-Identifier: MIT OR Apache-2.0
"""The files in which the variants of a workload differ, brought into one state of the page cache before they are measured."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from swapstone.core.model import Trial
from swapstone.core.record import MappedFile
from swapstone.core.targets import SettledFile, Target


class MappedFiles:
    """What the runs of each variant mapped executable, as their agent reports at their end.

    Files that all variants of a workload map are the same for all, and are not touched.

    Args:
        target: where the runs are.
        earlier: what the record holds already.
    """

    def __init__(self, target: Target, earlier: Iterable[MappedFile] = ()) -> None:
        self._target = target
        self._found = {(each.suite, each.workload, each.variant, each.path): each for each in earlier}
        self._mapped: dict[tuple[str, str], dict[str, set[str]]] = {}
        self._settled: dict[str, SettledFile | None] = {}

    def add(self, trial: Trial, paths: Iterable[str]) -> None:
        """Add the files of a run, by their paths on the target."""
        of_workload = self._mapped.setdefault((trial.suite, trial.workload), {})
        of_workload.setdefault(trial.variant, set()).update(paths)

    def settle(self) -> bool:
        """Settle the files that are new in the runs since the last call; return whether `files` changed."""
        before = len(self._found)
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
                        alone=_is_alone(Path(path)),
                    )
        return len(self._found) != before

    def _settled_file(self, path: str) -> SettledFile | None:
        if path not in self._settled:
            self._settled[path] = self._target.settle(path)
        return self._settled[path]

    @property
    def files(self) -> tuple[MappedFile, ...]:
        """The files that were settled, in the order of their first runs."""
        return tuple(self._found.values())


def _is_alone(path: Path) -> bool:
    """Return whether a file is the only one of its folder; False if that can't be read."""
    with contextlib.suppress(OSError):
        return list(path.parent.iterdir()) == [path]
    return False

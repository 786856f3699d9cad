# SPDX-License-Identifier: MIT OR Apache-2.0
"""The loads of an experiment on its target: their programs are carried to a machine that Swapstone does not boot."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from swapstone.core.model import IDLE, Experiment, Load
from swapstone.core.run.machine_config import probe_request, require_real_time
from swapstone.core.targets import Target
from swapstone.core.workloads import filled_load, find_load, programs_of, shared_machine_load
from swapstone.parts.vm.artifacts.image_assembly import carried_programs

_CYCLICTEST = "cyclictest"


def placed_loads(experiment: Experiment, target: Target, notify: Callable[[str], None]) -> Mapping[str, Load]:
    """Return the loads of an experiment by name, ready to run on its target.

    Args:
        experiment: its loads.
        target: where they run.
        notify: called with a line before downloads.

    Raises:
        UnavailableError: a load needs a machine of its own, there are no packages for the target, or it does not permit real-time
            priorities.
        UserError: the packages can't be fetched or copied.
    """
    if "boots" in target.offers or "runs_loads" not in target.offers:
        return {name: find_load(name) for name in experiment.loads}
    loads = {name: found for name in experiment.loads if (found := shared_machine_load(name)) is not None}
    programs = sorted({program for load in loads.values() for program in programs_of(load)})
    if not programs:
        return loads
    commands, packages = carried_programs(programs, target, notify)
    notify(f"{', '.join(f'{name} {version}' for name, version in packages)}: programs of Debian for loads")
    if _CYCLICTEST in commands:
        words = f"{commands[_CYCLICTEST]} --quiet --mlockall --priority=99 --threads=1 --interval=100 --loops=1"
        require_real_time(f"The load {_CYCLICTEST}", target, probe_request(("/bin/sh", "-c", words), target.scratch()))
    processors = len(target.describe().cpus)
    filled = {
        name: filled_load(load, commands, target.load_folder(), processors) if load.beside else load
        for name, load in loads.items()
    }
    return {IDLE.name: IDLE, **filled}

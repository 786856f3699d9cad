"""The machine of a trial, and trials side by side."""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from swapstone.factors import Recipe, swap_commands, swap_memory_bytes
from swapstone.model import USUAL_MEMORY_BYTES, Load, MachineNeeds, Workload
from swapstone.targets import MachineConfig, Target

Result = TypeVar("Result")
Asked = TypeVar("Asked")


def setting_for(workload: Workload, recipe: Recipe, load: Load) -> MachineConfig:
    """Return what machine a trial runs in: what the workload needs, what the variant's factors say, and the load.

    Args:
        workload: its needs come first.
        recipe: names kernel and swap.
        load: what else the machine does; it is prepared last.
    """
    needs = workload.machine or MachineNeeds()
    beside = swap_memory_bytes(recipe.swap)
    memory_bytes = (needs.memory_bytes or USUAL_MEMORY_BYTES) + beside if beside else needs.memory_bytes
    return MachineConfig(
        kernel=recipe.kernel,
        memory_bytes=memory_bytes,
        prepare=(*needs.prepare, *swap_commands(recipe.swap), *load.machine.prepare),
        beside=load.beside,
        settle_ms=load.settle_ms,
    )


@contextlib.contextmanager
def side_by_side(
    make: Callable[[Asked], Result], trials: Iterable[Asked], target: Target
) -> Iterator[Iterator[Result]]:
    """Make trials, as many at once as their target can, and give the results in the order of the trials.

    Args:
        make: makes one; called by several threads where the target runs several at once.
        trials: which.
        target: where; told to stop when the caller goes before the last result.

    Yields:
        The results. With a target that runs one at a time, each is made when it is asked for.
    """
    if target.at_once == 1:
        yield map(make, trials)
        return
    pool = concurrent.futures.ThreadPoolExecutor(target.at_once, thread_name_prefix="trial")
    try:
        yield pool.map(make, trials)
    except BaseException:
        target.stop()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)

# SPDX-License-Identifier: MIT OR Apache-2.0
"""The machine of a trial: what its workload, its variant and its load need together."""

from __future__ import annotations

import msgspec

from swapstone.core.factors import PRIORITY_VARIABLE, Recipe
from swapstone.core.model import USUAL_MEMORY_BYTES, Load, MachineNeeds, UnavailableError, Workload
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.core.targets import MachineConfig, Target
from swapstone.core.wire import TrialRequest
from swapstone.core.wire.output_reading import MOST_TOOL_BYTES, trouble_of

_FIFO = "fifo:"
"""The beginning of `PRIORITY_VARIABLE` for SCHED_FIFO."""


def machine_config_for(workload: Workload, recipe: Recipe, load: Load, memory_bytes: int = 0) -> MachineConfig:
    """Return the machine that a trial runs in.

    Args:
        workload: its needs come first.
        recipe: names kernel and swap.
        load: prepared last.
        memory_bytes: instead of what the workload needs; 0 for that. The content of a swap device comes on top.
    """
    needs = workload.machine or MachineNeeds()
    memory_bytes = memory_bytes or needs.memory_bytes
    memory_bytes = (
        (memory_bytes or USUAL_MEMORY_BYTES) + recipe.more_memory_bytes if recipe.more_memory_bytes else memory_bytes
    )
    return MachineConfig(
        kernel=recipe.kernel,
        memory_bytes=memory_bytes,
        own_modules=(*needs.own_modules, *load.machine.own_modules),
        prepare=(*needs.prepare, *recipe.prepare, *load.machine.prepare),
        beside=load.beside,
        settle_ms=load.settle_ms,
        # Threads of such a workload have a real-time priority, unless the level of the factor is another one.
        real_time=load.real_time
        or (workload.real_time and dict(recipe.environment).get(PRIORITY_VARIABLE, _FIFO).startswith(_FIFO)),
    )


def on_board(config: MachineConfig, recipe: Recipe) -> MachineConfig:
    """Return the machine of a trial on a target that sets swap devices: it sets the device and the limit of the memory itself.

    Args:
        config: as for a virtual machine.
        recipe: names the device.
    """
    if not recipe.swap:
        return config
    prepare = tuple(command for command in config.prepare if command not in recipe.prepare)
    return msgspec.structs.replace(config, swap=recipe.swap, memory_bytes=0, prepare=prepare)


_PROBE_MS = 20_000
_LATENCY_FILE = "/dev/cpu_dma_latency"


def probe_request(
    arguments: tuple[str, ...], folder: str, environment: tuple[tuple[str, str], ...] = ()
) -> TrialRequest:
    """Return the request for a very short measurement.

    Args:
        arguments: the program, by its absolute path on the target, and its arguments.
        folder: working directory there.
        environment: pairs (name, value).
    """
    return TrialRequest(
        id="probe",
        arguments=arguments,
        environment=environment,
        cwd=folder,
        timeout_ms=_PROBE_MS,
        output_bytes=MOST_TOOL_BYTES,
    )


def require_real_time(name: str, target: Target, request: TrialRequest) -> None:
    """Run a very short measurement, which shows whether the target permits real-time priorities and forbids deep sleep states.

    Args:
        name: of the workload or load, for the message.
        target: where it runs.
        request: of `probe_request`.

    Raises:
        UnavailableError: it does not; the message has the reason that the program printed.
        TargetError: the target failed.
    """
    answer = target.run(request)
    trouble = trouble_of(answer, MOST_TOOL_BYTES)
    if not trouble:
        lines = (answer.stderr + b"\n" + answer.stdout).decode(errors="replace").splitlines()
        about = [line for line in lines if _LATENCY_FILE in line]
        refused = [line for line in about if "set to 0us" not in line and "No such file" not in line]
        trouble = f"it printed {safe_excerpt(refused[0])!r}" if refused else ""
    if trouble:
        raise UnavailableError(
            f"{name} is unavailable on {target.name}: it needs a real-time priority, locked memory and {_LATENCY_FILE}, and {trouble}.",
            "Run as root, on a board as --target ssh:root@BOARD.",
        )

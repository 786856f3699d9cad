# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a board can do, what makes its timings noisy, and the removal of what was copied there."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from swapstone.core.artifacts.distribution_packages import require_command
from swapstone.core.artifacts.tool_versions import compiler_version
from swapstone.core.factors import find_factor, find_level
from swapstone.core.model import refuse
from swapstone.core.model.architectures import ARCHITECTURES
from swapstone.core.model.safe_text import safe
from swapstone.core.model.temporary_folder import TemporaryFolder
from swapstone.core.session.capabilities import agent_findings
from swapstone.core.targets import TargetOptions, find_target_kind
from swapstone.core.targets.health import Finding, HostFiles, State, ability, examine, trouble_of
from swapstone.parts.boards.session.virtual_board_kind import VIRTUAL_BOARD, VirtualBoardSpec
from swapstone.parts.boards.targets.board import BoardAnswer, clean_board, mirror, sensor_facts
from swapstone.parts.boards.targets.board_swap import PROBE_STEP, missing_for_swap
from swapstone.parts.boards.targets.labgrid_target import LABGRID, LabgridTarget, parse_lab, with_environment
from swapstone.parts.boards.targets.ssh_target import SSH, SshTarget, parse_board
from swapstone.parts.build.artifacts.builder import base_recipe
from swapstone.parts.build.artifacts.toolchain import check_compiler, cross_prefix

_DISK, _ENOUGH_KIB = "free disk", 32 << 10
_VIRTUAL = "virtual machine"
_EMULATED = Finding(
    name=_VIRTUAL,
    state=State.NOISY,
    found="emulated by QEMU",
    meaning="every duration is the emulator's, and no estimate for a real board",
)
_LEVELS = (("libc", "glibc"), ("libc", "musl"), ("compiler", "clang"))
_SENSORS = {
    "temperature": "whether a board is hot",
    "frequency": "whether the clock rate changed",
    "throttled": "whether the board was throttled",
}


def examine_board(
    text: str, notify: Callable[[str], None], environment: str | None = None
) -> tuple[list[Finding], list[Finding]]:
    """Connect to a board and check it.

    Args:
        text: the target, as ``ssh:pi@board``.
        notify: called with a line before each long step.
        environment: of a labgrid lab, a path; None for that of the target, or of LG_ENV.

    Returns:
        What it can do, and what makes its timings noisy.

    Raises:
        UserError: it is no board, can't be reached, or can't run trials.
    """
    with _open(with_environment(text, environment or ""), notify) as target:
        answer = target.board.ask("sample")
        described = target.describe()
        is_root = target.board.answer.text("user") == "0"
        user = "root" if is_root else "not root: the suite latency, the load cyclictest and the factor swap need it"
        can = [
            *(_lab(target) if isinstance(target, LabgridTarget) else ()),
            Finding(name="connection", state=State.GOOD, found=f"{described.system or 'reached'}, {described.kernel}"),
            Finding(name="user", state=State.GOOD, found=user),
            Finding(name="folder", state=State.GOOD, found=f"{target.board.folder}: programs can be written and run"),
            *(_level(target.architecture, factor, level) for factor, level in _LEVELS),
            swap_finding(target.board.ask(PROBE_STEP), is_root=is_root),
            *agent_findings(target, ("/bin/sh", "-c", ":")),
            *(_sensor(name, sensor_facts(answer.files, "before")) for name in _SENSORS),
        ]
        disk = target.board.answer.text("disk").split()
        with TemporaryFolder("facts") as folder:
            mirror(target.board.answer.files, folder)
            noise = examine(_BoardFiles(folder, len(described.cpus)))
        replaced = {_DISK: _room(disk)}
        if target.emulated:
            replaced[_VIRTUAL] = _EMULATED
        return can, [replaced.get(each.name, each) for each in noise]


def _open(text: str, notify: Callable[[str], None]) -> SshTarget:
    if find_target_kind(text) is LABGRID:
        spec = parse_lab(text.partition(":")[2], TargetOptions())
        notify(f"labgrid acquires {spec.lab.place}, and boots its board")
        return spec.open(None, notify)
    if find_target_kind(text) is not VIRTUAL_BOARD:
        return SshTarget(parse_board(_detail(text)))
    virtual = VIRTUAL_BOARD.parse(text.partition(":")[2], TargetOptions())
    assert isinstance(virtual, VirtualBoardSpec)
    return virtual.open(None, notify)


def _lab(target: LabgridTarget) -> Iterator[Finding]:
    """Yield what labgrid reported of a board."""
    lab = target.lab
    held = f"acquired from {lab.coordinator}" if lab.acquired else f"was acquired already by {lab.owner}, and stays so"
    place = held if lab.coordinator else "needs no coordinator"
    yield _found("place", f"{lab.place}: {place}")
    yield _found("environment", f"{target.environment}, target {lab.role}: {', '.join((*lab.drivers, *lab.resources))}")
    without = ("the board must run already, and the factors kernel and rootfs are unavailable", "")
    strategy = functools.partial(_shown, f"{lab.strategy}, state {lab.state}")
    yield ability("strategy", None if lab.strategy else without, strategy, absent="none")
    yield _found("address", f"{target.board.place.address}, from {lab.source}")
    for factor, does, image in (("kernel", "boots", lab.image), ("rootfs", "deploys", lab.root_image)):
        yield ability(
            f"{factor}=FILE",
            None if image else (f"the factor {factor} is unavailable", ""),
            functools.partial(_shown, f"the strategy {does} each file in place of {image}"),
            absent="the environment names no image",
        )


def swap_finding(answer: BoardAnswer, *, is_root: bool) -> Finding:
    """Return whether swap devices can be compared."""
    trouble = missing_for_swap(answer, is_root=is_root)
    zram = "zram is there" if "probe-zram" in answer.parts else "modprobe zram is tried when a level is set"
    found = f"none, zram:ALGORITHM ({zram}), and file if the folder's file system takes swap files"
    return ability("swap=LEVEL", trouble if any(trouble) else None, lambda: found)


def _found(name: str, text: str) -> Finding:
    return Finding(name=name, state=State.GOOD, found=_shown(text))


def _shown(text: str) -> str:
    return safe(text)[:1000]


class _BoardFiles(HostFiles):
    """The files of a board that the checks read, and what this machine's functions would return of it."""

    def __init__(self, root: Path, processors: int) -> None:
        super().__init__(root)
        self._processors = processors

    def processors(self) -> int:
        """Return how many processors trials may use there."""
        return self._processors

    def free_bytes(self) -> None:
        """Return None: records are on this machine."""


def _room(disk: list[str]) -> Finding:
    """Return whether there is room for programs, from the words of `df -P`, which end with: available, capacity, mounted on."""
    kib = disk[-3] if len(disk) >= 6 else ""
    if not kib.isdecimal() or len(kib) > 15:
        return Finding(name=_DISK, state=State.UNKNOWN, found="not reported")
    found = f"{int(kib) // 1024} MiB"
    if int(kib) >= _ENOUGH_KIB:
        return Finding(name=_DISK, state=State.GOOD, found=found)
    meaning = "the programs of a suite take some MiB, and a trial may write files"
    return Finding(
        name=_DISK, state=State.MISSING, found=found, meaning=meaning, remedy="name another folder: ,folder=/path"
    )


def clean_target(text: str) -> str:
    """Remove what was copied to a board, and return a sentence about it.

    Raises:
        UserError: it is no board, can't be reached, or is in use.
    """
    place = parse_board(_detail(text))
    folder, kib = clean_board(place)
    if kib is None:
        return f"There is nothing to remove on {place.name}: {folder} does not exist."
    return f"Removed {kib} KiB of {place.name}: the programs and C libraries in {folder}."


def _detail(text: str) -> str:
    """Return what follows the name of a target that is a board."""
    kind = find_target_kind(text)
    refuse(
        (kind is VIRTUAL_BOARD, "A virtual board ends with its session, and keeps nothing that could be removed.", ""),
        (
            kind is LABGRID,
            "A board of a lab is cleaned by ssh, once labgrid has booted it.",
            "Name its address, as `swapstone doctor --target labgrid:PLACE` prints it: swapstone target clean ssh:[USER@]HOST",
        ),
        (
            kind is not SSH,
            f"The target {text.partition(':')[0]} is no board.",
            "Name one: ssh:[USER@]HOST, labgrid:PLACE, or virtual-board",
        ),
    )
    return text.partition(":")[2]


def _level(machine: str, factor: str, level: str) -> Finding:
    architecture = next((each.name for each in ARCHITECTURES if each.machine == machine), "")
    recipe = base_recipe(architecture)
    changed = find_factor(factor).apply(level, recipe)

    def check() -> None:
        if machine == os.uname().machine:
            for command in find_level(find_factor(factor), level).needs:
                require_command(command, f"{factor}={level}")
        check_compiler(changed)

    compiler = "clang" if level == "clang" else f"{cross_prefix(recipe.architecture)}gcc"
    return ability(
        f"{factor}={level}",
        trouble_of(check),
        lambda: f"programs for {architecture or machine} by {compiler_version((compiler,))}",
        absent="missing",
    )


def _sensor(name: str, facts: dict[str, int]) -> Finding:
    value = facts.get(f"board_{name}_before", facts.get("board_throttle_bits_before") if name == "throttled" else None)
    if value is None:
        meaning = f"a report can't show {_SENSORS[name]}"
        return Finding(name=name, state=State.UNKNOWN, found="no such file in /sys", meaning=meaning)
    found = {"temperature": f"{value / 1000:.1f} degrees Celsius", "frequency": f"{value / 1000:.0f} MHz"}
    return Finding(name=name, state=State.GOOD, found=found.get(name, f"{value} so far"))

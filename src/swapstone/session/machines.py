"""From what a user names as target to one that is open, the virtual machines among them: their images are built first."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from swapstone.artifacts.image_assembly import KERNEL_PART
from swapstone.artifacts.image_catalog import ARCHITECTURES, Architecture, architecture_of
from swapstone.artifacts.image_comparison import certify
from swapstone.artifacts.images import BuiltImage, ImageRequest, build_image
from swapstone.artifacts.toolchain import compiler_command
from swapstone.factors import SWAP, Stage, find_factor
from swapstone.model import IDLE, Experiment, FactorLevels, MachineNeeds, UnavailableError, UserError, Workload
from swapstone.run.prepare import base_recipe
from swapstone.targets import Target, open_target
from swapstone.targets.vm.kvm import by_kvm, kvm_device_trouble, kvm_trouble
from swapstone.targets.vm.machine_models import MACHINE_MODELS, EmulatedMachine
from swapstone.targets.vm.target import VmImage, VmOptions, VmTarget
from swapstone.workloads import find_load, workloads_of

VM = "vm"
KERNEL = "kernel"
VIRTUAL, WALL = "virtual", "wall"

LIBRARIES = ("glibc", "libgcc", "musl")
"""The parts of an image that programs of our suites need."""

CLOCK_NOTE = (
    "The clock is virtual: each instruction takes one nanosecond of the guest's time, on one processor. So a run is exact and repeatable "
    "to the byte, and knows nothing of caches, buses, memory or branch prediction: it counts the work, and not what a processor makes "
    "of it."
)


def clock_of(target: str, asked: str | None) -> str:
    """Return the clock of a target, ``wall`` or ``virtual``.

    Args:
        target: as the user names it.
        asked: the clock that the user asks for, or None for the target's own.

    Raises:
        UserError: the target can't have that one.
    """
    if target.partition(":")[0] == VM:  # both; whether KVM works is seen when the machines are made
        return asked or VIRTUAL
    if asked in {None, WALL}:
        return WALL
    raise UserError(f"The target {target} has a wall clock.", "The virtual clock is that of --target vm.")


def default_target(
    experiment_levels: Sequence[FactorLevels], loads: Sequence[str], workloads: Iterable[Workload]
) -> str:
    """Return where an experiment runs unless the user says: ``vm`` where only a machine of its own can do it, else ``host``.

    Args:
        experiment_levels: its factors.
        loads: names of its loads.
        workloads: what it runs.
    """
    boots = any(find_factor(choice.factor).stage is Stage.BOOT for choice in experiment_levels)
    loaded = any(load != IDLE.name for load in loads)
    return VM if boots or loaded or any(work.machine for work in workloads) else "host"


def open_machine(experiment: Experiment, tell: Callable[[str], None], *, no_cache: bool = False) -> Target:
    """Open the target of an experiment.

    Args:
        experiment: names it: ``vm`` or ``vm:KERNEL`` for a virtual machine, else as `open_target` reads it.
        tell: called with a line for the user while an image is fetched and built.
        no_cache: whether a virtual machine makes every run anew, though an equal one is known.

    Raises:
        UserError: there is no such target, or it can't be opened.
    """
    name, _, kernel = experiment.target.partition(":")
    if name != VM:
        return open_target(experiment.target)
    architecture = architecture_of(experiment.architecture or _here())
    if architecture.machine not in MACHINE_MODELS:
        raise UnavailableError(
            f"Experiments run in virtual machines of {' and '.join(_run_experiments())}, and not of {architecture.name}.",
            f"Where the lock has packages for it, an image can be booted by hand: swapstone image boot --arch {architecture.name}",
        )
    if experiment.clock == WALL:
        _need_kvm(kvm_device_trouble(architecture.machine))
    _check_programs(experiment, architecture)
    levels = next((choice.levels for choice in experiment.factors if choice.factor == KERNEL), ())
    if kernel and levels:
        raise UserError("The kernel is what is compared: the target can't name one too.", "Write: --target vm")
    needs = _needs(experiment)
    folders = dict(experiment.modules)
    images = {
        level: build_image(
            ImageRequest(
                architecture=architecture.name,
                kernel=level,
                modules_folder=folders.get(_whole_path(level), ""),
                modules=needs.modules,
                own_modules=needs.own_modules,
                parts=needs.parts,
            ),
            progress=tell,
        )
        for level in levels or (kernel or "generic",)
    }
    _tell_of_namesakes(images, tell)
    (own, first), *others = images.items()
    certificates = tuple(
        certify(first.image.files, other.image.files, (KERNEL_PART,), (own, level)) for level, other in others
    )
    parts = {level: vm_image_of(image, architecture) for level, image in images.items()}
    if experiment.clock == WALL:
        for each in parts.values():
            _need_kvm(kvm_trouble(each))
        parts = {level: by_kvm(each) for level, each in parts.items()}
    return VmTarget(parts, VmOptions(no_cache=no_cache), certificates)


def parse_modules(
    texts: Iterable[str], levels: Sequence[FactorLevels], target: str | None
) -> tuple[tuple[str, str], ...]:
    """Read the KERNEL=FOLDER of a command line.

    Args:
        texts: as typed.
        levels: the experiment's factors.
        target: as typed; it may name a kernel.

    Returns:
        Pairs (path of a kernel, folder of its modules), both absolute.

    Raises:
        UserError: one has another form, its kernel is not compared, or there is no such folder.
    """
    kernels = {level for choice in levels if choice.factor == KERNEL for level in choice.levels if "/" in level}
    kernels |= {_whole_path(name) for name in [(target or "").partition(":")[2]] if "/" in name}
    found = {}
    for text in texts:
        kernel, equals, folder = text.partition("=")
        if not equals or not kernel or not folder:
            raise UserError(f"{text!r} is not KERNEL=FOLDER.", "For example: --modules ./bzImage-a=./modules-a")
        kernel = _whole_path(kernel)
        if kernel not in kernels:
            raise UserError(
                f"--modules names the kernel {kernel}, which is none of yours that run here.",
                f"Name one of: {', '.join(sorted(kernels))}" if kernels else "A packaged kernel brings its modules.",
            )
        if not Path(folder).expanduser().is_dir():
            raise UserError(f"There is no folder of modules {folder}.", "It is what `make modules_install` writes.")
        found[kernel] = _whole_path(folder)
    return tuple(found.items())


def _whole_path(name: str) -> str:
    return str(Path(name).expanduser().resolve()) if "/" in name else name


def _tell_of_namesakes(images: Mapping[str, BuiltImage], tell: Callable[[str], None]) -> None:
    """Say which kernels of the user's own call themselves alike: a guest can't tell which of them runs in it."""
    seen: dict[str, str] = {}
    for level, built in images.items():
        other = seen.setdefault(built.image.banner, level)
        if "/" in level and other != level and built.image.banner:
            tell(
                f"note: {other} and {level} call themselves the same ({built.image.banner[:80]}): the guest can't say which it is,"
                " only the digests in the record's manifest do"
            )


def _need_kvm(trouble: str) -> None:
    """Refuse a wall clock that would time the emulator."""
    if trouble:
        raise UnavailableError(
            f"A virtual machine on the wall clock needs KVM, which is unavailable: {trouble}.",
            "Leave --clock out: the virtual clock needs none. Or measure on --target host.",
        )


def _run_experiments() -> list[str]:
    return [known.name for known in ARCHITECTURES if known.machine in MACHINE_MODELS]


def _here() -> str:
    """Return the architecture of this machine, by Swapstone's name for it if it has one."""
    machine = os.uname().machine
    return next((known.name for known in ARCHITECTURES if known.machine == machine), machine)


def _check_programs(experiment: Experiment, architecture: Architecture) -> None:
    """Refuse early what can't be built for a machine of another architecture: no compiler, or no C library for it."""
    built = [name for (_, name), work in workloads_of(experiment).items() if not work.tool]
    if not built or architecture.machine == os.uname().machine:
        return
    try:
        compiler_command(base_recipe(experiment.architecture))
    except UnavailableError as error:
        other = "Leave --arch out, or choose workloads that an image brings: --suite latency."
        raise UnavailableError(
            f"{built[0]} can't be built for {architecture.name}: {error.message}",
            f"{error.hint}. {other}" if error.hint else other,
        ) from error


def _needs(experiment: Experiment) -> MachineNeeds:
    """Return what the machines of an experiment must have: the same for all its variants, so that nothing but the factor differs."""
    works = workloads_of(experiment).values()
    found = [work.machine for work in works if work.machine]
    found += [MachineNeeds(parts=work.parts) for work in works if work.parts]
    found += [find_load(name).machine for name in experiment.loads]
    found += [SWAP.machine for choice in experiment.factors if choice.factor == SWAP.name]
    shell = ("busybox",) if found else ()
    return MachineNeeds(
        parts=tuple(dict.fromkeys((*LIBRARIES, *shell, *(part for needs in found for part in needs.parts)))),
        modules=tuple(dict.fromkeys(module for needs in found for module in needs.modules)),
        own_modules=tuple(dict.fromkeys(module for needs in found for module in needs.own_modules)),
    )


def vm_image_of(built: BuiltImage, architecture: Architecture) -> VmImage:
    """Return what a virtual machine is made of whose image was built."""
    options = tuple(built.options.split())
    machine = EmulatedMachine(architecture=architecture.machine, options=options)
    return VmImage(built.kernel, built.initrd, machine, banner=built.image.banner)

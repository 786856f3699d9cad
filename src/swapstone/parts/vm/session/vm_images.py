# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds the images that the virtual machines of an experiment boot."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from swapstone.core.factors import find_factor
from swapstone.core.model import (
    IDLE,
    WALL_CLOCK,
    Experiment,
    FactorLevels,
    ImageDifference,
    MachineNeeds,
    UnavailableError,
    UserError,
    refuse,
)
from swapstone.core.run.builder import builder
from swapstone.core.targets import TargetOptions, find_target_kind
from swapstone.core.targets.agent_build import agent_programs
from swapstone.core.workloads import find_load, workloads_of
from swapstone.core.workloads.loads import LOADS
from swapstone.parts.build.artifacts.builder import base_recipe
from swapstone.parts.build.artifacts.packages import read_lock
from swapstone.parts.build.artifacts.toolchain import cross_prefix
from swapstone.parts.vm.artifacts.image_assembly import KERNEL_PART, compare_images
from swapstone.parts.vm.artifacts.image_catalog import (
    KERNELS,
    MACHINE_ARCHITECTURES,
    PARTS,
    MachineArchitecture,
    find_machine_architecture,
)
from swapstone.parts.vm.artifacts.images import MODULE_SOURCE, BuiltImage, ImageRequest, build_image, check_kernel_file
from swapstone.parts.vm.artifacts.kernel_modules import (
    KERNEL_COMPILER,
    build_module,
    module_source_name,
    read_module_file,
)
from swapstone.parts.vm.factors.kernel import KernelLevel, key_of, parse_kernel_level, split_kernel
from swapstone.parts.vm.machine.emulator import (
    EMULATORS_VARIABLE,
    MACHINE_MODELS,
    EmulatedMachine,
    check_awake,
    check_cpu,
    find_emulator,
)
from swapstone.parts.vm.machine.kvm import kvm_device_trouble, require_kvm
from swapstone.parts.vm.machine.qemu import VmImage, base_options

LIBRARIES = ("glibc", "libgcc", "musl")
"""The parts of an image that programs of our suites need."""

SHELL = "busybox"
"""The part that executes the commands of a machine's order."""

_SMALL = frozenset((*LIBRARIES, SHELL))


def image_contents(experiment: Experiment, kernels: Sequence[str]) -> MachineNeeds:
    """Return the parts and modules of an experiment's images. All variants have the same, so that only the factor differs.

    An image with tools has every part of the catalog, and loads the modules of every load: which loads and suites of tools an experiment
    has does not decide what its machines are. A kernel of the user may lack modules, so with one of those only the needed ones are
    loaded. Experiments without loads and tools have a small image: C libraries, and a shell if commands run.

    Args:
        experiment: names workloads, loads and factors.
        kernels: names of packaged kernels, or paths of kernels.
    """
    found = list(_needs(experiment))
    parts = {part for needs in found for part in needs.parts}
    modules = [module for needs in found for module in needs.modules]
    tools = not parts <= _SMALL or any(name != IDLE.name for name in experiment.loads)
    if tools and all(kernel in KERNELS for kernel in kernels):
        modules = [*(module for load in LOADS for module in load.machine.modules), *modules]
    return MachineNeeds(
        parts=tuple(part.name for part in PARTS) if tools else (*LIBRARIES, *((SHELL,) if found else ())),
        modules=tuple(dict.fromkeys(modules)),
        own_modules=tuple(dict.fromkeys(module for needs in found for module in needs.own_modules)),
    )


def _needs(experiment: Experiment) -> Iterable[MachineNeeds]:
    for work in workloads_of(experiment).values():
        if work.machine:
            yield work.machine
        if work.parts:
            yield MachineNeeds(parts=work.parts)
    for name in experiment.loads:
        yield find_load(name).machine
    for choice in experiment.applied_factors:
        if (needs := getattr(find_factor(choice.factor), "machine", None)) is not None:
            yield needs


KERNEL = "kernel"


def build_vm_images(
    experiment: Experiment, named: str, spec: TargetOptions, notify: Callable[[str], None]
) -> tuple[dict[str, VmImage], tuple[ImageDifference, ...]]:
    """Build an image for each kernel of an experiment, and compare the images.

    Args:
        experiment: whose levels of the factor ``kernel`` are built.
        named: the kernel that the target names; empty for the default one.
        spec: what the user added to the target's name.
        notify: called with a line before each long step.

    Returns:
        The images by level of the factor ``kernel``, the baseline first; and what differs between the first one and each of the others.

    Raises:
        UserError: one can't be built, or they differ in more than the kernel.
    """
    architecture = find_machine_architecture(spec.architecture or _here())
    names = [known.name for known in MACHINE_ARCHITECTURES if known.machine in MACHINE_MODELS]
    if architecture.name not in names:
        raise UnavailableError(
            f"Experiments run in virtual machines of {', '.join(names)}, and not of {architecture.name}.",
            f"Where the lock has packages for it, an image can be booted by hand: swapstone image boot --arch {architecture.name}",
        )
    if spec.clock == WALL_CLOCK:
        require_kvm(kvm_device_trouble(architecture.machine))
    cpu = _processor(architecture, spec)
    levels = experiment.levels_of(KERNEL)
    if named and levels:
        raise UserError("The kernel is what is compared: the target can't name one too.", "Write: --target vm")
    parsed = {level: _kernel_level(level, architecture, spec) for level in levels or (named or "generic",)}
    needs = image_contents(experiment, [kernel.kernel for kernel in parsed.values()])
    folders = dict(experiment.modules)
    requests = {
        level: ImageRequest(
            architecture=architecture.name,
            kernel=kernel.kernel,
            modules_folder=folders.get(_whole_path(kernel.kernel), ""),
            modules=needs.modules,
            module_files=experiment.module_files,
            parts=needs.parts,
        )
        for level, kernel in parsed.items()
    }
    for request in requests.values():
        check_kernel_file(request)  # all of them, before the first image is built
    own_modules = {
        level: {
            name: build_module(name, architecture, kernel.kernel, read_lock(), notify).content
            for name in needs.own_modules
        }
        for level, kernel in parsed.items()
    }
    images = {level: build_image(request, progress=notify) for level, request in requests.items()}
    _notify_of_equal_banners(images, parsed, notify)
    (own, first), *others = images.items()
    differences = tuple(
        compare_images(first.image.files, other.image.files, (KERNEL_PART,), (own, level)) for level, other in others
    )
    made = {
        level: dataclasses.replace(
            vm_image_of(image, architecture, parsed[level], cpu, spec.ns_per_instruction, processors=spec.processors),
            own_modules=own_modules[level],
        )
        for level, image in images.items()
    }
    return made, differences


def _processor(architecture: MachineArchitecture, spec: TargetOptions) -> str:
    """Return the processor that the user chose, once the emulator is known to have it; empty for the model's, and under KVM.

    Raises:
        UserError: the emulator has no such processor.
        UnavailableError: there is no usable emulator.
    """
    machine = EmulatedMachine(architecture=architecture.machine, cpu=spec.cpu_model, processors=spec.processors)
    emulator = find_emulator(machine)
    if spec.clock == WALL_CLOCK:
        return ""
    if spec.cpu_model:
        check_cpu(emulator, machine)
    return spec.cpu_model


def _kernel_level(text: str, architecture: MachineArchitecture, spec: TargetOptions) -> KernelLevel:
    """Parse the level of a kernel, and check which base options it leaves out.

    Raises:
        UserError: a parameter is invalid, or the machine has no such base option.
    """
    level = parse_kernel_level(text)
    machine = EmulatedMachine(
        architecture=architecture.machine, processors=spec.processors, wall=spec.clock == WALL_CLOCK
    )
    if spec.processors > 1:
        check_awake(machine, text, (*map(key_of, level.added), *level.dropped))
    base = base_options(machine)
    keys = list(map(key_of, base))
    if missing := next((key for key in level.dropped if key not in keys), ""):
        raise UserError(
            f"{text[:80]} leaves out the boot option {missing}, which the machine does not have.",
            f"Its base options are: {' '.join(base)}",
        )
    return level


def parse_modules(
    texts: Iterable[str], levels: Sequence[FactorLevels], target: str | None
) -> tuple[tuple[str, str], ...]:
    """Parse texts ``KERNEL=FOLDER``.

    Args:
        texts: to parse.
        levels: the experiment's factors.
        target: the target's text, which may name a kernel; None for the default.

    Returns:
        Pairs (path of a kernel, folder of its modules), both absolute.

    Raises:
        UserError: one has another form, its kernel is not compared, or there is no such folder.
    """
    named = [level for choice in levels if choice.factor == KERNEL for level in choice.levels]
    named.append((target or "").partition(":")[2])
    kernels = {_whole_path(kernel) for kernel, _ in map(split_kernel, named) if "/" in kernel}
    found = {}
    for text in texts:
        kernel, equals, folder = text.partition("=")
        whole = bool(equals and kernel and folder)
        kernel = _whole_path(kernel)
        refuse(
            (not whole, f"{text!r} is not KERNEL=FOLDER.", "For example: --modules ./bzImage-a=./modules-a"),
            (
                kernel not in kernels,
                f"--modules names the kernel {kernel}, which this experiment does not run.",
                f"Name one of: {', '.join(sorted(kernels))}" if kernels else "A packaged kernel brings its modules.",
            ),
            (
                not Path(folder).expanduser().is_dir(),
                f"There is no folder of modules {folder}.",
                "It is what `make modules_install` writes.",
            ),
        )
        found[kernel] = _whole_path(folder)
    return tuple(found.items())


def parse_module_files(texts: Iterable[str], target: str) -> tuple[str, ...]:
    """Return the absolute paths of kernel modules to load.

    Raises:
        UserError: one is no module, or the target boots no machine.
    """
    if not (paths := [Path(text).expanduser() for text in texts]):
        return ()
    if "boots" not in find_target_kind(target).opens.offers:
        raise UserError("--module loads a kernel module into a virtual machine.", "Add: --target vm")
    resolved = [path.resolve() for path in paths]
    for path in resolved:
        if path.suffix == MODULE_SOURCE:
            module_source_name(path)
        else:
            read_module_file(path)
    return tuple(map(str, resolved))


def _whole_path(name: str) -> str:
    return str(Path(name).expanduser().resolve()) if "/" in name else name


def _notify_of_equal_banners(
    images: Mapping[str, BuiltImage], parsed: Mapping[str, KernelLevel], notify: Callable[[str], None]
) -> None:
    """Report the user's kernels that have the same banner: a guest can't observe which of them runs."""
    seen: dict[str, str] = {}
    for level, built in images.items():
        other = seen.setdefault(built.image.banner, level)
        if "/" in level and parsed[other].kernel != parsed[level].kernel and built.image.banner:
            notify(
                f"note: {other} and {level} have the same banner ({built.image.banner[:80]}): the guest can't observe which one runs;"
                " the digests in the record's manifest differ"
            )


def _here() -> str:
    """Return the name of this machine's architecture: of the catalog if it is there, else of the kernel."""
    machine = os.uname().machine
    return next((known.name for known in MACHINE_ARCHITECTURES if known.machine == machine), machine)


def machine_programs(experiment: Experiment | None) -> tuple[str, ...]:
    """Return the programs of this machine that boot the machines of an experiment, and build what these run beside its workloads.

    Args:
        experiment: None for any of this machine's architecture.
    """
    architecture = find_machine_architecture((experiment and experiment.architecture) or _here())
    recipe = base_recipe(architecture.name)
    modules = experiment is not None and any(needs.own_modules for needs in _needs(experiment))
    return (
        *(() if os.environ.get(EMULATORS_VARIABLE) else (architecture.emulator,)),
        *("setpriv", *agent_programs(), *builder().programs(recipe)),
        *((f"{cross_prefix(recipe.architecture)}{KERNEL_COMPILER}", "make") if modules else ()),
    )


def vm_image_of(
    built: BuiltImage,
    architecture: MachineArchitecture,
    level: KernelLevel | None = None,
    cpu: str = "",
    ns_per_instruction: int = 1,
    *,
    processors: int = 1,
) -> VmImage:
    """Return the image of a virtual machine, from a built image.

    Args:
        built: the image.
        architecture: of the machine.
        level: of the factor ``kernel``, whose boot parameters the machine has; None for none.
        cpu: the emulated processor; empty for the model's.
        ns_per_instruction: as of `EmulatedMachine`.
        processors: as of `EmulatedMachine`.
    """
    machine = EmulatedMachine(
        architecture=architecture.machine,
        cpu=cpu,
        ns_per_instruction=ns_per_instruction,
        processors=processors,
        options=tuple(built.options.split()),
        parameters=level.added if level else (),
        dropped=level.dropped if level else (),
    )
    return VmImage(built.kernel, built.initrd, machine, banner=built.image.banner)

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Opens the target of an experiment: builds the images that its virtual machines boot."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from swapstone.artifacts.bundled_modules import build_module, module_source_name
from swapstone.artifacts.image_assembly import KERNEL_PART
from swapstone.artifacts.image_catalog import ARCHITECTURES, Architecture, find_architecture
from swapstone.artifacts.image_comparison import compare_images
from swapstone.artifacts.images import MODULE_SOURCE, BuiltImage, ImageRequest, build_image, check_kernel_file
from swapstone.artifacts.kernel_modules import read_module_file
from swapstone.artifacts.packages import read_lock
from swapstone.artifacts.toolchain import check_compiler
from swapstone.factors.kernel_parameters import KernelLevel, key_of, parse_kernel_level, split_kernel
from swapstone.model import (
    WALL_CLOCK,
    Experiment,
    FactorLevels,
    ImageTool,
    UnavailableError,
    UserError,
)
from swapstone.run.recipes import base_recipe
from swapstone.session.board_images import board_image
from swapstone.session.image_contents import image_contents
from swapstone.subjects.image_root import root_levels, root_of
from swapstone.subjects.own_program_root import machine_of
from swapstone.targets import Target, find_target_kind, spec_of
from swapstone.targets.emulated_board import BoardImageRequest
from swapstone.targets.vm.boot_image import VmImage
from swapstone.targets.vm.emulator import check_cpu, find_emulator
from swapstone.targets.vm.kvm import kvm_device_trouble
from swapstone.targets.vm.machine_models import MACHINE_MODELS, EmulatedMachine, check_awake
from swapstone.targets.vm.qemu import base_options
from swapstone.targets.vm.shared_runs import RunSharing
from swapstone.targets.vm.spec import VmImages, VmSpec, require_kvm
from swapstone.targets.vm.vm_target import VmTarget
from swapstone.workloads import workloads_of

KERNEL = "kernel"
NO_SHARING = RunSharing()


def open_experiment_target(
    experiment: Experiment,
    notify: Callable[[str], None],
    *,
    no_cache: bool = False,
    guest_timeout_s: float = 0.0,
    snapshots: bool = True,
    sharing: RunSharing = NO_SHARING,
) -> Target:
    """Open the target of an experiment. Images are built first: those that machines boot, and those in which an own program runs.

    Args:
        experiment: its field `target` names it.
        notify: called with a line for the user while an image is fetched and built.
        no_cache: whether a virtual machine repeats runs that are in the cache.
        guest_timeout_s: limit of a virtual machine's run, in seconds of this machine's time; 0 for the default.
        snapshots: whether machines are restored from a snapshot.
        sharing: the store and the workers of the runs.

    Raises:
        UserError: there is no such target, or it can't be opened.
    """
    check_sharing(experiment, sharing)
    for level in root_levels(experiment):
        if level.is_image:
            root_of(level, machine_of(experiment), notify)
    spec = spec_of(experiment, no_cache=no_cache, guest_timeout_s=guest_timeout_s, snapshots=snapshots)
    target = spec.open(lambda machine: build_images(experiment, machine, notify))
    if sharing:
        assert isinstance(target, VmTarget)
        try:
            target.share_runs(sharing, notify)
        except BaseException:
            target.close()
            raise
    return target


def check_sharing(experiment: Experiment, sharing: RunSharing) -> None:
    """Check before anything is built that the runs of an experiment are functions of their inputs, if other machines make them.

    Raises:
        UserError: they are not.
    """
    if not sharing or has_exact_runs(experiment):
        return
    raise UserError(
        f"{names_of_sharing(sharing)[0]} is of the virtual clock, on which a run is the same on every machine; a measured time is not.",
        "Add: --target vm",
    )


def has_exact_runs(experiment: Experiment) -> bool:
    """Return whether the runs of an experiment are functions of their inputs, so that any machine can make them."""
    return experiment.virtual and find_target_kind(experiment.target).opens is VmTarget


def names_of_sharing(sharing: RunSharing) -> tuple[str, ...]:
    """Return the options that were given, as the command line writes them."""
    given = {"--store": sharing.store, "--executor": sharing.executor, "--recheck": sharing.recheck}
    return tuple(name for name, value in given.items() if value)


def build_images(experiment: Experiment, spec: VmSpec | BoardImageRequest, notify: Callable[[str], None]) -> VmImages:
    """Build what the machines of an experiment boot."""
    if isinstance(spec, BoardImageRequest):
        return board_image(spec, notify)
    return build_vm_images(experiment, spec, notify)


def build_vm_images(experiment: Experiment, spec: VmSpec, notify: Callable[[str], None]) -> VmImages:
    """Build an image for each kernel of an experiment, and compare the images."""
    architecture = find_architecture(spec.architecture or _here())
    names = [known.name for known in ARCHITECTURES if known.machine in MACHINE_MODELS]
    if architecture.name not in names:
        raise UnavailableError(
            f"Experiments run in virtual machines of {', '.join(names)}, and not of {architecture.name}.",
            f"Where the lock has packages for it, an image can be booted by hand: swapstone image boot --arch {architecture.name}",
        )
    if spec.clock == WALL_CLOCK:
        require_kvm(kvm_device_trouble(architecture.machine))
    cpu = _processor(architecture, spec)
    _check_programs(experiment, architecture)
    levels = experiment.levels_of(KERNEL)
    if spec.kernel and levels:
        raise UserError("The kernel is what is compared: the target can't name one too.", "Write: --target vm")
    parsed = {level: _kernel_level(level, architecture, spec) for level in levels or (spec.kernel or "generic",)}
    needs = image_contents(experiment, [kernel.kernel for kernel in parsed.values()])
    folders = dict(spec.modules)
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
    return VmImages(made, differences)


def _processor(architecture: Architecture, spec: VmSpec) -> str:
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


def _kernel_level(text: str, architecture: Architecture, spec: VmSpec) -> KernelLevel:
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
        if not equals or not kernel or not folder:
            raise UserError(f"{text!r} is not KERNEL=FOLDER.", "For example: --modules ./bzImage-a=./modules-a")
        kernel = _whole_path(kernel)
        if kernel not in kernels:
            raise UserError(
                f"--modules names the kernel {kernel}, which this experiment does not run.",
                f"Name one of: {', '.join(sorted(kernels))}" if kernels else "A packaged kernel brings its modules.",
            )
        if not Path(folder).expanduser().is_dir():
            raise UserError(f"There is no folder of modules {folder}.", "It is what `make modules_install` writes.")
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
    return tuple(str(_checked_module(path.resolve())) for path in paths)


def _checked_module(path: Path) -> Path:
    """Check that a file is a module or can be the source of one, and return it."""
    if path.suffix == MODULE_SOURCE:
        module_source_name(path)
    else:
        read_module_file(path)
    return path


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
    return next((known.name for known in ARCHITECTURES if known.machine == machine), machine)


def _check_programs(experiment: Experiment, architecture: Architecture) -> None:
    """Check before images are built that programs for the architecture can be built: compiler and C library.

    Raises:
        UnavailableError: they can't; the message gives the reason.
    """
    built = [name for (_, name), work in workloads_of(experiment).items() if not isinstance(work.origin, ImageTool)]
    if experiment.own is not None and not experiment.own.build:
        built = []  # it is there already
    if not built or architecture.machine == os.uname().machine:
        return
    try:
        check_compiler(base_recipe(experiment.architecture))
    except UnavailableError as error:
        other = "Leave --arch out, or choose workloads that an image brings: --suite latency."
        raise UnavailableError(
            f"{built[0]} can't be built for {architecture.name}: {error.message}",
            f"{error.hint}. {other}" if error.hint else other,
        ) from error


def vm_image_of(
    built: BuiltImage,
    architecture: Architecture,
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

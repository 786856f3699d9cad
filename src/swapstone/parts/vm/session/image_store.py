# SPDX-License-Identifier: MIT OR Apache-2.0
"""Images of virtual machines: built with a console, booted, listed, collected, and their lock file updated."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from swapstone.core.artifacts.distribution_packages import require_command
from swapstone.core.model import UserError, cpio, refuse
from swapstone.core.model.directories import share_dir
from swapstone.core.model.safe_text import safe, utf8_path
from swapstone.core.report.printed_json import printed_json
from swapstone.core.session.output_file import check_output_folder
from swapstone.parts.build.artifacts.apt import Apt
from swapstone.parts.build.artifacts.packages import Lock, lock_path, read_lock, write_lock
from swapstone.parts.build.artifacts.sdk import LIBCS, SDK_COMPILERS, build_sdk, check_sdk, check_sdk_folder, copy_sdk
from swapstone.parts.build.artifacts.snapshot import pin_snapshot
from swapstone.parts.vm.artifacts.image_assembly import Overlay
from swapstone.parts.vm.artifacts.image_cache import CacheEntry, cached_images, collect_garbage
from swapstone.parts.vm.artifacts.image_catalog import (
    KERNELS,
    MACHINE_ARCHITECTURES,
    MODULES,
    MachineArchitecture,
    find_machine_architecture,
)
from swapstone.parts.vm.artifacts.images import BuiltImage, ImageRequest, build_image
from swapstone.parts.vm.artifacts.libc_files import (
    IMAGE_FILE,
    INITRD_FILE,
    KERNEL_FILE,
    ROOT_FILE,
    BuiltLibcImage,
    LibcImage,
    LibcImageRequest,
    build_libc_image,
    write_libc_image,
)
from swapstone.parts.vm.artifacts.lock_update import locked_sources, update_lock, vendor

__all__ = [
    "KERNELS",
    "LIBCS",
    "MODULES",
    "SDK_COMPILERS",
    "BuiltImage",
    "CacheEntry",
    "boot_arguments",
    "build_console_image",
    "build_libc_image",
    "cached_images",
    "collect_garbage",
    "garbage_lines",
    "image_output",
    "image_rows",
    "libc_request",
    "lock_path",
    "make_sdk",
    "module_names",
    "require_emulator",
    "update_image_lock",
    "vendor_files",
    "write_image",
]


_SHOWN_DIGITS = 12
_COUNTED = ("run", "agent", "module")  # there may be thousands of these, all small


def update_image_lock(architectures: Sequence[str], notify: Callable[[str], None]) -> Lock:
    """Write the lock file with the versions and digests of packages that the archive has now.

    Args:
        architectures: names of the image catalog; none for all.
        notify: receives a line of text while lists of packages are fetched.

    Returns:
        The lock. Architectures that are not named keep their packages.
    """
    chosen = [find_machine_architecture(name) for name in architectures] or list(MACHINE_ARCHITECTURES)
    old = read_lock() if lock_path().is_file() and architectures else None
    lock = update_lock(chosen, old, notify)
    write_lock(lock)
    pin_snapshot({archive for each in chosen for archive in Apt(each.debian).snapshot_archives()})
    return lock


def vendor_files(folder: str, architectures: Sequence[str], notify: Callable[[str], None]) -> tuple[list[str], bool]:
    """Copy the pinned files of images and sources into a folder, from which ``SWAPSTONE_MIRROR`` serves them.

    Args:
        folder: created if it does not exist.
        architectures: names of the image catalog; none for all of the lock.
        notify: receives a line of text before each download.

    Returns:
        What was copied and what could not be fetched, as lines of text; and whether the folder has every file.

    Raises:
        UserError: an architecture is unknown, or the folder can't be written.
    """
    lock, sources = read_lock(), locked_sources()
    chosen = {find_machine_architecture(name).debian for name in architectures}
    if chosen:
        packages = tuple(package for name in sorted(chosen) for package in lock.of(name))
        lock = msgspec.structs.replace(lock, packages=packages)
    done = vendor(Path(folder), lock, sources, notify)
    lines = [f"{folder} has {done.files} files, {done.size_bytes / 1e6:.0f} MB."]
    lines += [f"can't be fetched: {name}: {why}" for name, why in sorted(done.lacking.items())]
    lines += [f"Set SWAPSTONE_MIRROR={shlex.quote(str(Path(folder).resolve()))} to fetch from it first."]
    return lines, not done.lacking


def require_emulator(name: str) -> MachineArchitecture:
    """Return an architecture whose images can be booted here.

    Raises:
        UserError: there is no such architecture, or the lock file has no packages for it.
        UnavailableError: its emulator is not installed.
    """
    architecture = find_machine_architecture(name)
    read_lock().of(architecture.debian)  # raises an error if this architecture has no images
    require_command(architecture.emulator, f"Booting an image for {name}")
    return architecture


def build_console_image(
    architecture: str,
    kernel: str,
    modules_folder: str,
    modules: tuple[str, ...] | None,
    notify: Callable[[str], None],
) -> BuiltImage:
    """Build an image with a shell on its console, or take it from the cache.

    Args:
        architecture: a name of the image catalog.
        kernel: a name of the image catalog, or the path of a kernel.
        modules_folder: of a kernel of the user; may be empty.
        modules: names of the modules to load; None for the default ones.
        notify: receives a line of text while packages are fetched and the image is built.

    Raises:
        UserError: a name is unknown, or a package or file is not available.
    """
    init = cpio.file((share_dir() / "native" / "images" / "console-init").read_bytes(), executable=True)
    request = ImageRequest(
        architecture=architecture,
        kernel=kernel,
        modules_folder=modules_folder,
        modules=modules,
        overlays=(Overlay(part="console", entries={"init": init}),),
    )
    return build_image(request, progress=notify)


def module_names(text: str) -> tuple[str, ...] | None:
    """Return the modules that a user names, separated by commas: None without names, none of them for ``none``."""
    return None if not text else () if text == "none" else tuple(name for name in text.split(",") if name)


def image_output(built: BuiltImage, kernel: str, *, as_json: bool) -> str:
    """Return the description of an image with a console, as text or as JSON.

    Args:
        built: the image.
        kernel: as the user named it.
        as_json: return an object with the digest, the folder and the manifest.
    """
    image = built.image
    if as_json:
        return printed_json("image", digest=image.digest(), folder=utf8_path(built.folder), image=image)
    size = sum(path.stat().st_size for path in (built.kernel, built.initrd)) / 1e6
    what = safe(image.banner or image.release)
    return (
        f"{image.digest()}  {image.architecture} {kernel}, {size:.1f} MB: {what}\n"
        f"  kernel {built.kernel}\n  initrd {built.initrd}"
    )


def image_rows() -> tuple[list[str], list[list[object]]]:
    """Return the head and the rows of the list of images in the cache, the one used last first."""
    rows: list[list[object]] = []
    for kept in cached_images():
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(kept.used_unix_s))
        image = kept.image
        cells = (image.architecture, image.kernel, image.release, image.digest()) if image else ("", "damaged", "", "")
        rows.append([kept.path.name[:_SHOWN_DIGITS], *cells, round(kept.size_bytes / 1e6, 1), when])
    return ["image", "architecture", "kernel", "release", "digest", "MB", "last used"], rows


def garbage_lines(gone: Sequence[CacheEntry], older_than: str, *, dry_run: bool) -> list[str]:
    """Return what was removed from the cache as lines of text.

    Args:
        gone: the entries.
        older_than: as the user typed it.
        dry_run: nothing was removed.
    """
    if not gone:
        return [f"Nothing has been unused for {older_than}."]
    shown = [kept for kept in gone if kept.kind not in _COUNTED]
    lines = [f"{kept.size_bytes / 1e6:8.1f} MB  {kept.kind}  {_entry_name(kept)}" for kept in shown]
    for kind in _COUNTED:
        sizes = [kept.size_bytes for kept in gone if kept.kind == kind]
        if sizes:
            lines.append(f"{sum(sizes) / 1e6:8.1f} MB  {len(sizes)} {kind}{'s' if len(sizes) > 1 else ''}")
    total = sum(kept.size_bytes for kept in gone) / 1e6
    return [*lines, f"{total:8.1f} MB {'would be removed' if dry_run else 'removed'}."]


def _entry_name(kept: CacheEntry) -> str:
    if kept.image is not None:
        return f"{kept.image.architecture} {kept.image.kernel} {kept.image.digest()}"
    return kept.path.name[:_SHOWN_DIGITS]


def boot_arguments(architecture: MachineArchitecture, built: BuiltImage, memory_mb: int) -> list[str]:
    """Return the emulator's command line for a console on standard input and output."""
    # On a busy machine the emulator's timer is late: a kernel of x86_64 that tests it within some milliseconds panics.
    timer = "no_timer_check " if architecture.name == "x86_64" else ""
    append = f"console={architecture.console} {timer}rdinit=/init quiet panic=-1 {built.options}".strip()
    return [
        *(architecture.emulator, *architecture.options, "-accel", "tcg", "-m", str(memory_mb)),
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "mon:stdio"),
        *("-kernel", str(built.kernel), "-initrd", str(built.initrd), "-append", append),
    ]


def libc_request(
    *, arch: str, kernel: str, modules_folder: str, modules: str, libc: str, compiler: str, out: str | None = None
) -> LibcImageRequest | None:
    """Return the requested image of one C library, if it can be built here; None if no C library was named.

    Args:
        arch: a name of the image catalog.
        kernel: a name of the image catalog, or the path of a kernel.
        modules_folder: of a kernel of the user; may be empty.
        modules: names, separated by commas; empty for none.
        libc: ``glibc``, ``musl``, or empty.
        compiler: ``gcc``, ``clang``, or empty for the default.
        out: the folder to write to; None for none.

    Raises:
        UserError: an option needs a C library, and none was named; a name is unknown; or the folder can't be written.
        UnavailableError: a tool is missing; the hint names its package.
    """
    if not libc:
        given = [option for option, value in (("--compiler", compiler or None), ("--out", out)) if value is not None]
        if given:
            raise UserError(f"{given[0]} is for images of one C library.", "Name it: --libc musl")
        return None
    check_sdk(arch, libc, compiler or SDK_COMPILERS[0])
    if out == "":
        raise UserError("The path of the folder for the image is empty.", "Name it: --out DIR")
    if out is not None:
        check_output_folder(Path(out))
    return LibcImageRequest(
        architecture=arch,
        libc=libc,
        compiler=compiler or SDK_COMPILERS[0],
        kernel=kernel,
        modules_folder=modules_folder,
        modules=module_names(modules) or (),
    )


def write_image(image: BuiltLibcImage, request: LibcImageRequest, out: str) -> list[str]:
    """Write an image into a folder, and return what was built as lines of text.

    Args:
        image: from `build_libc_image`.
        request: of that image.
        out: the folder; empty to leave the image in the cache alone.

    Raises:
        UserError: the folder can't be written.
    """
    if out:
        write_libc_image(image, Path(out))
    described = image.description
    answer = (
        f"Every binary of this image for {described.architecture} is of {described.libc} {described.libc_version}: the root has"
        f" {described.root_bytes / 1e6:.2f} MB in {len(described.files)} binaries, digest {described.image}."
    )
    return [answer, *_binaries(described), *_files(image.built, out), *_next(described, request, out)]


def make_sdk(architecture: str, libc: str, out: str, notify: Callable[[str], None]) -> list[str]:
    """Make an SDK and copy it to a folder; return what was made as lines of text.

    Args:
        architecture: a name of the image catalog.
        libc: ``glibc`` or ``musl``.
        out: the folder; it must not exist, or be empty.
        notify: called with a line before each long step.

    Raises:
        UserError: a name is unknown, or the folder can't be written.
        UnavailableError: a package of the distribution is missing.
    """
    refuse(
        (not out, "The SDK needs a folder.", "Name it: --out DIR"),
        # No shell, CMake or Meson could be given its files.
        (not out.isprintable(), f"The path {safe(out)} has a control character.", "Name another folder: --out DIR"),
    )
    check_sdk(architecture, libc)
    check_sdk_folder(Path(out))
    check_output_folder(Path(out))
    built = build_sdk(architecture, libc, notify)
    copy_sdk(built, Path(out))
    files = [path for path in Path(out).rglob("*") if path.is_file() and not path.is_symlink()]
    size = sum(path.stat().st_size for path in files) / 1e6
    folder, triple = shlex.quote(str(Path(out).absolute())), built.sdk.triple
    return [
        f"{out} is an SDK for C with {libc} on {architecture}: {len(files)} files, {size:.1f} MB, digest {built.sdk.content[:16]}.",
        f"  compile     {folder}/bin/{triple}-gcc, or {triple}-clang",
        f"  run         {folder}/bin/{triple}-run ./program",
        f"  shell       . {folder}/environment-setup-{triple}",
        f"  CMake       cmake -DCMAKE_TOOLCHAIN_FILE={folder}/toolchain.cmake",
        f"  Meson       meson setup --cross-file {folder}/cross.meson OUT   # with {folder}/bin on PATH",
        f"The folder can be moved. It starts this machine's {built.sdk.needs[0]}: {built.sdk.compiler}",
    ]


def _binaries(image: LibcImage) -> list[str]:
    sources = ", ".join(f"{program.name} {program.version}" for program in image.programs)
    patched = Counter(program.name for program in image.programs for _ in program.patches)
    patches = ", ".join(f"{count} of {name}" for name, count in sorted(patched.items()))
    lines = [f"  sources  {sources}; built with {image.compiler}"]
    lines += [f"  patches  {patches}, for {image.libc}: their reasons are in {IMAGE_FILE}"] if patched else []
    for path, file in sorted(image.files.items()):
        loaded = ", ".join((*((file.loader,) if file.loader else ()), *file.needed)) or "nothing"
        lines.append(f"  {file.size_bytes / 1e3:8.1f} kB  {path}, which loads {loaded}")
    return lines


def _files(built: BuiltImage, out: str) -> list[str]:
    sizes = f"{built.kernel.stat().st_size / 1e6:.1f} MB", f"{built.initrd.stat().st_size / 1e6:.2f} MB"
    if not out:
        return [f"  kernel   {built.kernel}, {sizes[0]}", f"  initrd   {built.initrd}, {sizes[1]}"]
    written = ((KERNEL_FILE, f", {sizes[0]}"), (INITRD_FILE, f", {sizes[1]}"), (ROOT_FILE, ""), (IMAGE_FILE, ""))
    return [f"  written  {Path(out) / name}{size}" for name, size in written]


def _next(described: LibcImage, request: LibcImageRequest, out: str) -> list[str]:
    lines = [f"Boot it: {boot_command(request)}"]
    if out:
        other = next(libc for libc in LIBCS if libc != described.libc)
        root = shlex.quote(str(Path(out) / ROOT_FILE))
        lines.append(
            f"Compare it with one of {other}: swapstone compare rootfs={root},OTHER/{ROOT_FILE} --target vm -- COMMAND"
        )
    return lines


def boot_command(request: LibcImageRequest) -> str:
    """Return the command that boots the image of a request, and no other one."""
    usual = LibcImageRequest(architecture=request.architecture, libc=request.libc)
    chosen = (
        ("--compiler", request.compiler, usual.compiler),
        ("--kernel", request.kernel, usual.kernel),
        ("--modules-folder", request.modules_folder, ""),
        ("--modules", ",".join(request.modules), ""),
    )
    options = "".join(f" {option} {shlex.quote(value)}" for option, value, default in chosen if value != default)
    return f"swapstone image boot --libc {request.libc} --arch {request.architecture}{options}"

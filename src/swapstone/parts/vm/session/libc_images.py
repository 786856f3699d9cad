# SPDX-License-Identifier: MIT OR Apache-2.0
"""Images of one C library and the SDKs that build them, with what they print."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from swapstone.core.model import UserError, refuse
from swapstone.core.model.safe_text import safe
from swapstone.core.session.output_file import check_output_folder
from swapstone.parts.build.artifacts.sdk import LIBCS, SDK_COMPILERS, build_sdk, check_sdk, check_sdk_folder, copy_sdk
from swapstone.parts.vm.artifacts.images import BuiltImage
from swapstone.parts.vm.artifacts.libc_image import (
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
from swapstone.parts.vm.session.image_store import module_names

__all__ = ["LIBCS", "SDK_COMPILERS", "libc_image", "libc_request", "make_sdk", "write_image"]


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


def libc_image(request: LibcImageRequest, kernel: str, notify: Callable[[str], None]) -> BuiltLibcImage:
    """Build an image of one C library; see `swapstone.parts.vm.artifacts.libc_image.build_libc_image`.

    Args:
        request: from `libc_request`.
        kernel: a name of the image catalog, or the path of a kernel.
        notify: called with a line before each long step.
    """
    return build_libc_image(msgspec.structs.replace(request, kernel=kernel), notify)


def write_image(image: BuiltLibcImage, request: LibcImageRequest, out: str) -> list[str]:
    """Write an image into a folder, and return what was built as lines of text.

    Args:
        image: from `libc_image`.
        request: of that image.
        out: the folder; empty to leave the image in the cache alone.

    Raises:
        UserError: the folder can't be written.
    """
    if out:
        write_libc_image(image, Path(out))
    described = image.description
    return [_answer(described), *_binaries(described), *_files(image.built, out), *_next(described, request, out)]


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


def _answer(image: LibcImage) -> str:
    return (
        f"Every binary of this image for {image.architecture} is of {image.libc} {image.libc_version}: the root has"
        f" {image.root_bytes / 1e6:.2f} MB in {len(image.files)} binaries, digest {image.image}."
    )


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

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Images whose every program is of one C library: built from source with an SDK, and checked by what the files show.

The image is one of `swapstone.parts.vm.artifacts.images`, with its kernel and its place in the cache; this module makes its files.
"""

from __future__ import annotations

import dataclasses
import hashlib
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec

from swapstone.core.artifacts.tool_versions import compiler_version
from swapstone.core.model import FrozenStruct, UserError
from swapstone.core.record.replace_file import replace_file
from swapstone.parts.vm.artifacts.image_programs import PROGRAMS, BuiltProgram
from swapstone.parts.vm.artifacts.images import BuiltImage, ImageRequest, build_image, plan_image
from swapstone.parts.vm.artifacts.libc_check import ObservedFile
from swapstone.parts.vm.artifacts.libc_files import make_libc_files, root_archive

KERNEL_FILE, INITRD_FILE, ROOT_FILE, IMAGE_FILE = "kernel", "initrd", "root.tar", "image.json"


class LibcImageRequest(ImageRequest, frozen=True, kw_only=True):
    """The requested image. Its parts are none, and its modules none by default.

    Attributes:
        libc: ``glibc`` or ``musl``.
        compiler: ``gcc`` or ``clang``.
        programs: names of `PROGRAMS`.
    """

    libc: str
    compiler: str = "gcc"
    programs: tuple[str, ...] = tuple(PROGRAMS)
    modules: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()


class LibcImage(FrozenStruct, frozen=True, kw_only=True):
    """The description of an image of one C library, as `IMAGE_FILE` beside it.

    Attributes:
        format: version of this description.
        image: digest of the image, as ``swapstone image list`` prints it.
        architecture: a name of the image catalog.
        libc: ``glibc`` or ``musl``.
        libc_version: of the package of the lock that the image contains.
        compiler: version line.
        kernel: ``generic``, ``rt``, or a file's name; `kernel_release` is the output of ``uname -r``.
        kernel_release: see `kernel`.
        sdk: digest of the content of the SDK that built it.
        sdk_packages: of the distribution and the lock, whose files the SDK has.
        programs: built from source.
        files: the programs and shared objects, as observed.
        links: number of links to them, such as busybox's.
        root_bytes: total size of the root's files, without kernel modules.
        initrd_bytes: size of the archive that the kernel unpacks.
        kernel_bytes: size of the kernel.
        sha256: of the files that are written, by name.
    """

    format: int
    image: str
    architecture: str
    libc: str
    libc_version: str
    compiler: str
    kernel: str
    kernel_release: str
    sdk: str
    sdk_packages: tuple[str, ...]
    programs: tuple[BuiltProgram, ...]
    files: dict[str, ObservedFile]
    links: int
    root_bytes: int
    initrd_bytes: int
    kernel_bytes: int
    sha256: dict[str, str]


@dataclasses.dataclass(frozen=True)
class BuiltLibcImage:
    """An image in the cache, its description, and the archive of its root for `swapstone.parts.vm.factors.rootfs`."""

    built: BuiltImage
    description: LibcImage
    root: bytes


def build_libc_image(request: LibcImageRequest, notify: Callable[[str], None]) -> BuiltLibcImage:
    """Build an image of one C library, or take it and its programs from the cache.

    Args:
        request: its contents.
        notify: called with a line before each download and build.

    Raises:
        UserError: a name is unknown, a download or a build fails, or a binary is of another C library.
        UnavailableError: a tool is missing; the hint names its package.
    """
    plan_image(request, None)  # checks the kernel and the packages before the other files are made; nothing is fetched
    files = make_libc_files(request.architecture, request.libc, request.compiler, request.programs, notify)
    sdk, every = files.sdk.sdk, [entry for overlay in files.overlays for entry in overlay.entries.values()]
    built = build_image(msgspec.structs.replace(request, overlays=files.overlays), progress=notify)
    root = root_archive(files.overlays)
    description = LibcImage(
        format=1,
        image=built.image.digest(),
        architecture=request.architecture,
        libc=request.libc,
        libc_version=files.library.version,
        compiler=sdk.compiler if request.compiler == "gcc" else compiler_version((request.compiler,)),
        kernel=built.image.kernel,
        kernel_release=built.image.release,
        sdk=sdk.content,
        sdk_packages=sdk.packages,
        programs=files.programs,
        files=files.observed,
        links=sum(stat.S_ISLNK(entry.mode) for entry in every),
        root_bytes=sum(len(entry.content) for entry in every if stat.S_ISREG(entry.mode)),
        initrd_bytes=built.initrd.stat().st_size,
        kernel_bytes=built.kernel.stat().st_size,
        sha256={
            KERNEL_FILE: built.image.kernel_sha256,
            INITRD_FILE: built.image.initrd_sha256,
            ROOT_FILE: hashlib.sha256(root).hexdigest(),
        },
    )
    return BuiltLibcImage(built, description, root)


def write_libc_image(image: BuiltLibcImage, folder: Path) -> None:
    """Write kernel, initrd, root and description into a folder. The description is written last, so a folder with it is complete.

    Raises:
        UserError: the folder can't be written.
    """
    contents = (
        (KERNEL_FILE, image.built.kernel.read_bytes()),
        (INITRD_FILE, image.built.initrd.read_bytes()),
        (ROOT_FILE, image.root),
        (IMAGE_FILE, msgspec.json.format(image.description.encoded(), indent=1) + b"\n"),
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / IMAGE_FILE).unlink(missing_ok=True)
        for name, content in contents:
            replace_file(folder / name, content)
    except OSError as error:
        raise UserError(
            f"{folder} can't be written: {error.strerror or error}.", "Name another folder: --out DIR"
        ) from error

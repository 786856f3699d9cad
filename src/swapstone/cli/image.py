# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone image`: builds, lists and boots images of virtual machines. `swapstone sdk`: what builds those of one C library."""

from __future__ import annotations

import shlex
import subprocess

import click

from swapstone.cli.command_name import as_typed
from swapstone.cli.display import print_note
from swapstone.cli.listing import print_rows
from swapstone.cli.output import echo, plain
from swapstone.cli.shell_completion import COMPLETIONS
from swapstone.core.report.printed_json import printed_json
from swapstone.core.session.option_values import parse_age_s
from swapstone.parts.vm.session.image_store import (
    KERNELS,
    MODULES,
    BuiltImage,
    boot_arguments,
    build_console_image,
    build_libc_image,
    collect_garbage,
    garbage_lines,
    image_output,
    image_rows,
    libc_request,
    lock_path,
    make_sdk,
    module_names,
    require_emulator,
    update_image_lock,
    vendor_files,
    write_image,
)

CONSOLE_MEMORY_MB = 512

architecture_option = click.option(
    "--arch",
    default="x86_64",
    show_default=True,
    help="x86_64, arm64, armhf or riscv64.",
    metavar="NAME",
    shell_complete=COMPLETIONS["architectures"],
)
kernel_option = click.option(
    "--kernel",
    default="generic",
    show_default=True,
    help=f"{', '.join(KERNELS)}, or a kernel's file.",
    metavar="NAME|PATH",
)
modules_folder_option = click.option(
    "--modules-folder", default="", help="The modules of your own kernel.", metavar="FOLDER"
)
modules_option = click.option(
    "--modules",
    default="",
    help=f"Modules to load, separated by commas; 'none' for none.  [default: {','.join(MODULES)}]",
    metavar="NAMES",
)

libc_option = click.option("--libc", default="", help="glibc or musl: build every program with it.", metavar="NAME")
compiler_option = click.option(
    "--compiler", default="", help="With --libc: gcc or clang.  [default: gcc]", metavar="NAME"
)


@click.group()
def image_command() -> None:
    r"""Build, list and boot images of virtual machines: a kernel, its modules, and programs from packages.

    \b
    Examples:
      swapstone image build --arch arm64 --kernel rt
      swapstone image list
      swapstone image boot
    """


@image_command.command("build")
@architecture_option
@kernel_option
@modules_folder_option
@modules_option
@libc_option
@compiler_option
@click.option("--out", help="With --libc: write kernel, initrd, root.tar and image.json here.", metavar="DIR")
@click.option("--json", "as_json", is_flag=True, help="Print the image's manifest as JSON.")
def build_command(out: str | None, as_json: bool, **wanted: str) -> None:
    r"""Build an image with a console, or take it from the cache.

    The packages are those of the lock file that Swapstone ships. apt-get fetches them without root. Equal input gives equal bytes.

    With --libc, every program is built from source with that C library, and checked: a minute for each program, once.

    \b
    Examples:
      swapstone image build --kernel rt
      swapstone image build --kernel ./arch/x86/boot/bzImage --modules-folder ./lib/modules/6.1.0
      swapstone image build --libc musl --arch arm64 --out ./musl
    """
    request = libc_request(**wanted, out=out)
    if request:
        image = build_libc_image(request, print_note)
        lines = write_image(image, request, out or "")
        if as_json:
            echo(printed_json("libc-image", image=image.description), nl=False)
        else:
            echo(as_typed("\n".join(map(plain, lines))))
        return
    echo(image_output(_console_image(**wanted), wanted["kernel"], as_json=as_json), nl=not as_json)


@image_command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_images(as_json: bool) -> None:
    r"""List the images in the cache, the one used last first.

    \b
    Example:
      swapstone image list
    """
    head, rows = image_rows()
    empty = as_typed("There are no images. Build one: swapstone image build")
    print_rows(("images", {}), head, rows, empty, as_json=as_json)


@image_command.command("gc")
@click.option(
    "--older-than", default="30d", show_default=True, help="Not used for this long, e.g. 12h.", metavar="TIME"
)
@click.option("--dry-run", is_flag=True, help="Print what would be removed, and remove nothing.")
def gc_command(older_than: str, dry_run: bool) -> None:
    r"""Remove unused files from the cache: images, packages and their lists, snapshots, runs, and programs built for machines.

    Removed files are fetched, built or run again when they are needed. A repeated run gives the same bytes.

    \b
    Examples:
      swapstone image gc --dry-run
      swapstone image gc --older-than 0d
    """
    gone = collect_garbage(parse_age_s(older_than), dry_run=dry_run)
    echo("\n".join(map(plain, garbage_lines(gone, older_than, dry_run=dry_run))))


@image_command.command("lock")
@click.option("--arch", multiple=True, help="Only this architecture; repeatable.", metavar="NAME")
def lock_command(arch: tuple[str, ...]) -> None:
    r"""Update the lock file to the versions and digests of packages that the archive has now.

    Images that are built afterwards have other digests. Their figures are not comparable with older ones.

    \b
    Example:
      swapstone image lock --arch x86_64
    """
    lock = update_image_lock(arch, print_note)
    for name, why in sorted(lock.unavailable.items()):
        echo(f"unavailable: {name}: {why}")
    echo(f"{lock_path()} has {len(lock.packages)} packages.")


@image_command.command("vendor")
@click.argument("folder", metavar="FOLDER")
@click.option("--arch", multiple=True, help="Only this architecture; repeatable.", metavar="NAME")
def vendor_command(folder: str, arch: tuple[str, ...]) -> int:
    r"""Copy every pinned package and source into FOLDER, with SHA256SUMS. SWAPSTONE_MIRROR=FOLDER fetches from there first.

    \b
    Example:
      swapstone image vendor ./mirror --arch x86_64
    """
    lines, whole = vendor_files(folder, arch, print_note)
    echo("\n".join(map(plain, lines)))
    return 0 if whole else 2


@image_command.command("boot")
@architecture_option
@kernel_option
@modules_folder_option
@modules_option
@libc_option
@compiler_option
@click.option("--memory", default=CONSOLE_MEMORY_MB, show_default=True, help="In MiB.", type=click.IntRange(min=64))
@click.option("--print-command", is_flag=True, help="Print the emulator's command line instead of running it.")
def boot_command(memory: int, print_command: bool, **wanted: str) -> int | None:
    r"""Boot an image in an emulator, with a shell on this terminal. Leave with `exit`, or Ctrl-A X.

    \b
    Examples:
      swapstone image boot --kernel rt
      swapstone image boot --arch arm64
    """
    architecture = require_emulator(wanted["arch"])
    request = libc_request(**wanted)
    built = build_libc_image(request, print_note).built if request else _console_image(**wanted)
    command = boot_arguments(architecture, built, memory)
    if print_command:
        echo(shlex.join(command))
        return None
    return subprocess.run(command, check=False).returncode


@click.command()
@click.option("--libc", default="musl", show_default=True, help="glibc or musl.", metavar="NAME")
@architecture_option
@click.option("--out", required=True, help="The folder to write; new or empty.", metavar="DIR")
def sdk_command(libc: str, arch: str, out: str) -> None:
    r"""Make an SDK for C: a C library's headers and objects, and commands that compile for it with this distribution's compilers.

    Images of a C library (swapstone image build --libc) are built with the same SDK. The folder can be moved, and has files for CMake,
    Meson and the shell. It does not contain gcc or clang.

    \b
    Examples:
      swapstone sdk --libc musl --arch arm64 --out ./sdk
      ./sdk/bin/aarch64-linux-musl-gcc -o hello hello.c && ./sdk/bin/aarch64-linux-musl-run ./hello
      cmake -DCMAKE_TOOLCHAIN_FILE=$PWD/sdk/toolchain.cmake -B out
    """
    echo(as_typed("\n".join(map(plain, make_sdk(arch, libc, out, print_note)))))


def _console_image(arch: str, kernel: str, modules_folder: str, modules: str, **_: str) -> BuiltImage:
    return build_console_image(arch, kernel, modules_folder, module_names(modules), print_note)

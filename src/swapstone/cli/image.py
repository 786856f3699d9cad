# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone image`: builds, lists and boots images of virtual machines."""

from __future__ import annotations

import json
import shlex
import subprocess
import time

import click

from swapstone.cli.command_name import as_typed
from swapstone.cli.display import print_note
from swapstone.cli.output import echo, plain
from swapstone.cli.shell_completion import complete_architectures
from swapstone.cli.tables import table, terminal_columns
from swapstone.session.image_store import (
    KERNELS,
    MODULES,
    BuiltImage,
    CacheEntry,
    boot_arguments,
    build_console_image,
    cached_images,
    collect_garbage,
    configurations,
    kernel_from_source,
    lock_path,
    require_emulator,
    update_image_lock,
    vendor_files,
)
from swapstone.session.values import parse_age_s

CONSOLE_MEMORY_MB = 512
_SHOWN_DIGITS = 12
_COUNTED = ("run", "agent", "module")  # there may be thousands of these, all small

architecture_option = click.option(
    "--arch",
    default="x86_64",
    show_default=True,
    help="x86_64, arm64, armhf or riscv64.",
    metavar="NAME",
    shell_complete=complete_architectures,
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
@click.option(
    "--config",
    default="",
    help=f"With --kernel source: {', '.join(configurations())}, or a file with lines such as CONFIG_HZ_1000=y.",
    metavar="NAME|PATH",
)
@click.option("--json", "as_json", is_flag=True, help="Print the image's manifest as JSON.")
def build_command(arch: str, kernel: str, modules_folder: str, modules: str, config: str, as_json: bool) -> None:
    r"""Build an image with a console, or take it from the cache.

    The packages are those of the lock file that Swapstone ships. apt-get fetches them without root. Equal input gives equal bytes.

    \b
    Examples:
      swapstone image build --kernel rt
      swapstone image build --kernel ./arch/x86/boot/bzImage --modules-folder ./lib/modules/6.1.0
      swapstone image build --kernel source --config preempt_rt   # compiles a kernel: a long time, and 3 GB
    """
    kernel = kernel_from_source(arch, kernel, config, print_note)
    built = _console_image(arch, kernel, modules_folder, modules)
    if as_json:
        made = json.loads(built.image.encoded())
        echo(json.dumps({"digest": built.image.digest(), "folder": str(built.folder), "image": made}, indent=1))
        return
    size = sum(path.stat().st_size for path in (built.kernel, built.initrd)) / 1e6
    echo(f"{built.image.digest()}  {arch} {kernel}, {size:.1f} MB: {plain(built.image.banner or built.image.release)}")
    echo(f"  kernel {built.kernel}")
    echo(f"  initrd {built.initrd}")


@image_command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of objects.")
def list_images(as_json: bool) -> None:
    r"""List the images in the cache, the one used last first.

    \b
    Example:
      swapstone image list
    """
    head = ["image", "architecture", "kernel", "release", "digest", "MB", "last used"]
    rows: list[list[object]] = []
    for kept in cached_images():
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(kept.used_unix_s))
        size = round(kept.size_bytes / 1e6, 1)
        image = kept.image
        cells = (image.architecture, image.kernel, image.release, image.digest()) if image else ("", "damaged", "", "")
        rows.append([kept.path.name[:_SHOWN_DIGITS], *cells, size, when])
    if as_json:
        echo(json.dumps([dict(zip(head, row, strict=True)) for row in rows], indent=1))
    elif rows:
        echo(table(head, rows, terminal_columns()), nl=False)
    else:
        echo(as_typed("There are no images. Build one: swapstone image build"))


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
    for kept in gone:
        if kept.kind not in _COUNTED:
            echo(f"{kept.size_bytes / 1e6:8.1f} MB  {kept.kind}  {_name(kept)}")
    for kind in _COUNTED:
        sizes = [kept.size_bytes for kept in gone if kept.kind == kind]
        if sizes:
            echo(f"{sum(sizes) / 1e6:8.1f} MB  {len(sizes)} {kind}{'s' if len(sizes) > 1 else ''}")
    total = sum(kept.size_bytes for kept in gone) / 1e6
    did = "would be removed" if dry_run else "removed"
    echo(f"{total:8.1f} MB {did}." if gone else f"Nothing has been unused for {older_than}.")


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
@click.option("--memory", default=CONSOLE_MEMORY_MB, show_default=True, help="In MiB.", type=click.IntRange(min=64))
@click.option("--print-command", is_flag=True, help="Print the emulator's command line instead of running it.")
def boot_command(
    arch: str, kernel: str, modules_folder: str, modules: str, memory: int, print_command: bool
) -> int | None:
    r"""Boot an image in an emulator, with a shell on this terminal. Leave with `exit`, or Ctrl-A X.

    \b
    Examples:
      swapstone image boot --kernel rt
      swapstone image boot --arch arm64
    """
    architecture = require_emulator(arch)
    command = boot_arguments(architecture, _console_image(arch, kernel, modules_folder, modules), memory)
    if print_command:
        echo(shlex.join(command))
        return None
    return subprocess.run(command, check=False).returncode


def _console_image(arch: str, kernel: str, modules_folder: str, modules: str) -> BuiltImage:
    wanted = None if not modules else () if modules == "none" else tuple(name for name in modules.split(",") if name)
    return build_console_image(arch, kernel, modules_folder, wanted, print_note)


def _name(kept: CacheEntry) -> str:
    if kept.image is not None:
        return f"{kept.image.architecture} {kept.image.kernel} {kept.image.digest()}"
    return plain(kept.path.name[:_SHOWN_DIGITS])

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Make images of a root with the tools of each file system.

Equal trees and tools give equal bytes: no image has times, owners or UUIDs that differ.
"""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from swapstone.core.artifacts.cache_folder import locked, new_folder, sha256_of, writable_folder
from swapstone.core.artifacts.distribution_packages import require_command
from swapstone.core.artifacts.tool_versions import first_line
from swapstone.core.factors import Level
from swapstone.core.model import UnavailableError, UserError
from swapstone.core.model.cpio import Entry, archive, with_parents
from swapstone.core.model.directories import cache_dir
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.core.model.temporary_folder import TemporaryFolder
from swapstone.core.targets.health import MachineFindings
from swapstone.parts.build.artifacts.packages import Progress, fetch, read_lock
from swapstone.parts.fs.fs_factor import FS, IMAGE_TOOLS, UUIDS
from swapstone.parts.vm.artifacts.image_assembly import Tree, add_base, add_parts, needed_packages
from swapstone.parts.vm.artifacts.image_catalog import MACHINE_ARCHITECTURES, find_part

IMAGE = "root.img"
BLOCK_BYTES = 4096

_MAKING = "Making the image of the root"
_PARTS = ("busybox", "glibc", "libgcc", "musl", "memtester", "mke2fs")
"""Parts of images of virtual machines that the root consists of: 7 MB."""
_VERSION = "1"
"""Changes with what is made of the same tree."""
_UUID = "5a4f0000-7377-4170-a573-746f6e650003"
_EXT4_INODES = 12
"""Inodes that ext4 has before those of the tree: the last one is lost+found."""
_STEP = 16
"""Blocks by which the size of an image of ext4 changes."""
_MAKE_S = 900
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
    "LC_ALL": "C",
    "E2FSPROGS_FAKE_TIME": "1",
    "MKE2FS_CONFIG": os.devnull,  # the features below, not the distribution's
}
_FEATURES = "none,extent,filetype,dir_index,sparse_super,large_file,huge_file,flex_bg,dir_nlink,extra_isize"


class RootTree(NamedTuple):
    """The files of a root, by path relative to it, with their parents. Files, folders and links only."""

    entries: Mapping[str, Entry]

    @property
    def content(self) -> tuple[str, str, str]:
        """The number of files, their bytes, and the Adler-32 (RFC 1950) of their contents in the order of their paths."""
        paths = sorted(self.entries, key=lambda path: [name.encode() for name in path.split("/")])
        files = [self.entries[path].content for path in paths if stat.S_ISREG(self.entries[path].mode)]
        checksum = 1
        for content in files:
            checksum = zlib.adler32(content, checksum)
        return str(len(files)), str(sum(map(len, files))), str(checksum)


class RootImageFile(NamedTuple):
    """An image in the cache: its path, SHA-256, and the command that made it, without folders, with the tool's version."""

    path: Path
    sha256: str
    command: str


def probe_tree() -> RootTree:
    """Return a root of one file, to find out whether a kernel can mount an image."""
    return RootTree({"file": Entry(mode=stat.S_IFREG | 0o644, content=bytes(3 * BLOCK_BYTES))})


def program_tree(machine: str, progress: Progress) -> RootTree:
    """Return a small root from packages of the lock: a shell, two C libraries, and programs with their libraries.

    Args:
        machine: architecture, as ``uname -m`` prints it.
        progress: called before downloads.

    Raises:
        UserError: a package can't be fetched, is damaged, or differs from the lock.
    """
    debian = next(each.debian for each in MACHINE_ARCHITECTURES if each.machine == machine)
    parts = [find_part(name) for name in _PARTS]
    packages = needed_packages(parts, [each for each in read_lock().of(debian) if each.in_images])
    fetch(packages, progress)
    tree = Tree()
    add_base(tree, shell=True)  # noqa: S604 - a shell in the root
    with TemporaryFolder("root") as folder:
        add_parts(tree, parts, packages, Path(folder))
    return RootTree({path: entry for path, entry in with_parents(tree.entries).items() if not stat.S_ISCHR(entry.mode)})


def make_image(level: str, tree: RootTree) -> RootImageFile:
    """Make an image, or return it from the cache.

    Args:
        level: of the factor `fs`.
        tree: what it holds.

    Raises:
        UnavailableError: the tool is not installed, or can't make it.
        UserError: the cache can't be written.
    """
    command = _command(level, len(tree.entries))
    tool, version = Path(require_command(command[0], _MAKING)), tool_version(level)
    status = tool.stat()
    inputs = (_VERSION, level, *command, version, f"{tool}:{status.st_size}:{status.st_mtime_ns}")
    digest = hashlib.sha256("\0".join(inputs).encode() + archive(tree.entries)).hexdigest()[:32]
    home = cache_dir() / "root-images" / digest
    with writable_folder(home.parent), locked(home.parent / ".lock"):
        if not (home / IMAGE).is_file():
            with new_folder(home) as done:
                work = done.parent
                _write(work / "tree", tree.entries)
                _make(level, [str(tool), *command[1:]], work, tree)
                (work / IMAGE).rename(done / IMAGE)
    return RootImageFile(home / IMAGE, sha256_of(home / IMAGE), f"{' '.join(command)} ({version})")


def tool_version(level: str) -> str:
    """Return the version line of a level's tool.

    Raises:
        UnavailableError: it is not installed.
    """
    name = IMAGE_TOOLS[level.partition(":")[0]]
    return first_line(
        [require_command(name, _MAKING), {"mksquashfs": "-version", "mke2fs": "-V"}.get(name, "--version")]
    )


def _command(level: str, entries: int) -> tuple[str, ...]:
    """Return the command that makes the image `IMAGE` of the folder ``tree``."""
    kind, _, compression = level.partition(":")
    if kind == "squashfs":
        same = ("-all-root", "-all-time", "0", "-mkfs-time", "0", "-no-xattrs", "-noappend", "-quiet", "-no-progress")
        return ("mksquashfs", "tree", IMAGE, "-comp", compression, "-b", "131072", *same)
    if kind == "erofs":
        how = (f"-z{compression}",) if compression else ()
        return ("mkfs.erofs", *how, "-x-1", "-T0", "--all-root", "-U", UUIDS[level], IMAGE, "tree")
    fixed = f"root_owner=0:0,hash_seed={_UUID},nodiscard,lazy_itable_init=0"
    inodes = str(-(-(entries + _EXT4_INODES) // 16) * 16)
    options = ("-b", str(BLOCK_BYTES), "-I", "256", "-N", inodes, "-O", _FEATURES, "-m", "0", "-U", _UUID)
    return ("mke2fs", "-q", "-F", "-t", "ext4", *options, "-E", fixed, "-d", "tree", IMAGE)


def _write(folder: Path, entries: Mapping[str, Entry]) -> None:
    """Write a tree; the permissions do not depend on the umask."""
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    for name in sorted(entries):
        entry, path = entries[name], folder / name
        if stat.S_ISLNK(entry.mode):
            path.symlink_to(os.fsdecode(entry.content))
            continue
        if stat.S_ISDIR(entry.mode):
            path.mkdir()
        else:
            path.write_bytes(entry.content)
        path.chmod(stat.S_IMODE(entry.mode))


def _make(level: str, command: list[str], work: Path, tree: RootTree) -> None:
    if level != "ext4":
        _run(level, command, work)
        return
    _make_ext4(level, command, work, tree)
    # mke2fs takes the owner and the times from the folder; there is no option for that.
    fields = (("uid", "0"), ("gid", "0"), *((name, "@1") for name in ("atime", "ctime", "mtime", "crtime")))
    inodes = (2, *range(_EXT4_INODES - 1, _EXT4_INODES + len(tree.entries)))
    script = "".join(f"set_inode_field <{inode}> {name} {value}\n" for inode in inodes for name, value in fields)
    (work / "script").write_text(script)
    _run(level, [require_command("debugfs", _MAKING), "-w", "-f", "script", IMAGE], work)


def _make_ext4(level: str, command: list[str], work: Path, tree: RootTree) -> None:
    """Make the image of ext4 in as few steps of 64 KiB as it fits into: mke2fs has no option for that.

    Raises:
        UnavailableError: it can't be made where there is plenty of room.
    """
    contents = sum(-(-len(entry.content) // BLOCK_BYTES) for entry in tree.entries.values())
    too_few, enough = contents // _STEP, 2 * contents // _STEP + 16

    def make(steps: int) -> None:
        (work / IMAGE).unlink(missing_ok=True)
        _run(level, [*command, str(steps * _STEP)], work)

    make(enough)
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        try:
            make(middle)
            enough = middle
        except UnavailableError:
            too_few = middle
    make(enough)


def _run(level: str, command: list[str], work: Path) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=work,
            env=_ENVIRONMENT,
            capture_output=True,
            timeout=_MAKE_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"{Path(command[0]).name} can't be run: {error}.") from error
    if done.returncode:
        lines = [
            line for line in (done.stdout + b"\n" + done.stderr).decode(errors="replace").splitlines() if line.strip()
        ]
        raise UnavailableError(
            f"{Path(command[0]).name} can't make an image of {level}: {safe_excerpt(lines[-1]) if lines else done.returncode}",
            "A newer version of it may have this compression.",
        )


def _described(level: Level) -> str:
    try:
        return tool_version(level.name)
    except UnavailableError as error:  # of ext4: mke2fs is in a folder that PATH need not have
        return error.message


FINDINGS = MachineFindings(35, of_levels={FS.name: _described})

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Build kernels from the distribution's source package, with or without PREEMPT_RT patches, from a small configuration.

A build takes long and needs about 3 GB of temporary space. An interrupted build is continued. The result is stored in the cache under
the digest of the source, the patches, the configuration and the compiler.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from swapstone.core.artifacts.cache_folder import locked, sha256_of, writable_folder
from swapstone.core.artifacts.distribution_packages import install_command
from swapstone.core.artifacts.tool_versions import compiler_version
from swapstone.core.model import UnavailableError, UserError
from swapstone.core.model.directories import cache_dir, share_dir
from swapstone.core.model.regular_file import read_regular_file
from swapstone.core.model.safe_text import safe
from swapstone.parts.build.artifacts.build_command import run_tool
from swapstone.parts.build.artifacts.mirror import from_mirror
from swapstone.parts.build.artifacts.packages import Lock, Package, Progress, fetch, from_archives, package_file

SOURCE = "source"
TREE, PATCHES, TOOL = "tree", "patches", "tool"
"""Uses of a package: the kernel's source, its PREEMPT_RT patches, or a program for the build."""

_ARCHITECTURE = "amd64"
_NEEDED = ("gcc", "make", "bc", "perl", "xz", "tar", "patch")
_RT = re.compile(r"^CONFIG_PREEMPT_RT=y$", re.MULTILINE)
_OBJECT = re.compile(r"\s+(?:CC|AS|LD|AR|VDSO|HOSTCC)\s")
_USUAL_OBJECTS = 1500
"""Approximate number of build steps of our configurations, for the estimate of the remaining time."""

_REPORT_S = 10.0
_LAST_LINES = 12
_KEY_DIGITS = 32
_TIMEOUT_S = 3600

_MOST_CONFIG_BYTES = 4 << 20
"""The configuration of a distribution's kernel has 0.3 MB."""


def configurations() -> tuple[str, ...]:
    """Return the names of the shipped configurations, without the common one."""
    return tuple(sorted(path.stem for path in _folder().glob("*.config") if path.stem != "base"))


def build_source_kernel(config: str, lock: Lock, progress: Progress) -> Path:
    """Build a kernel for x86_64, or return it from the cache.

    Args:
        config: one of `configurations`, or the path of a configuration fragment, which is added to the common configuration. With
            ``CONFIG_PREEMPT_RT=y`` in it the PREEMPT_RT patches are applied.
        lock: pins the packages.
        progress: called before each step, and with the progress of the build.

    Returns:
        The kernel file. The list of its built-in modules is beside it, where an image expects a kernel's modules.

    Raises:
        UnavailableError: the lock has no source, or a program is missing.
        UserError: the configuration is unreadable or can't be satisfied, a package is gone, or the build failed.
    """
    if os.uname().machine != "x86_64":
        raise UnavailableError("Kernels can be built from source for x86_64, on x86_64 only.")
    missing = [name for name in _NEEDED if shutil.which(name) is None]
    if missing:
        raise UnavailableError(
            f"A kernel can't be built: {', '.join(missing)} not installed.",
            f"Install what is missing: {install_command('gcc make bc perl xz-utils patch')}",
        )
    wanted = (_folder() / "base.config").read_text() + _fragment(config)
    packages = [package for package in lock.packages if package.architecture == _ARCHITECTURE and package.source]
    if not any(package.source == TREE for package in packages):
        raise UnavailableError("The lock has no source of a kernel.", "Update the lock: swapstone image lock")
    if not _RT.search(wanted):
        packages = [package for package in packages if package.source != PATCHES]
    elif not any(package.source == PATCHES for package in packages):
        raise UnavailableError("The lock has no PREEMPT_RT patches.", "Update the lock: swapstone image lock")
    given = (wanted, compiler_version(("gcc",)), *(f"{package.source} {package.sha256}" for package in packages))
    key = hashlib.sha256("\0".join(given).encode()).hexdigest()[:_KEY_DIGITS]
    home = cache_dir() / "kernels" / key
    with writable_folder(home.parent), locked(home.parent / "lock"):
        if not home.is_dir():
            _fetch(packages, progress)
            work = home.parent / f".building-{key}"
            work.mkdir(exist_ok=True)
            _Build(work, packages, progress).run(wanted)
            (work / "done").rename(home)
            shutil.rmtree(work)
    os.utime(home)  # `swapstone image gc` uses the time of the last use
    return home / "vmlinux"


def _folder() -> Path:
    return share_dir() / "native" / "kernels"


def _fragment(config: str) -> str:
    if config in configurations():
        return (_folder() / f"{config}.config").read_text()
    try:
        return read_regular_file(Path(config), _MOST_CONFIG_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise UserError(
            f"The configuration {safe(config)} can't be read: {why}.",
            f"Name one of {', '.join(configurations())}, or a file with lines such as CONFIG_HZ_1000=y.",
        ) from error


def _fetch(packages: Sequence[Package], progress: Progress) -> None:
    fetch([package for package in packages if package.source != PATCHES], progress)
    for package in packages:
        if package.source == PATCHES:
            fetch_patches(package, progress)


def fetch_patches(package: Package, progress: Progress) -> None:
    """Put the archive with the PREEMPT_RT patches into the cache: from the mirror, the system's archives or the snapshot service.

    Args:
        package: of the lock, with this use.
        progress: called before the download.

    Raises:
        UserError: it can't be fetched, differs from the lock, or the cache can't be written.
    """
    kept = package_file(package.sha256)
    if (kept.is_file() and sha256_of(kept) == package.sha256) or from_mirror(package.sha256, kept):
        return
    progress(f"downloading the PREEMPT_RT patches of {package.name} {package.version}")
    with writable_folder(kept.parent):
        found = from_archives(
            package.architecture, lambda apt: apt.source_changes(package.name, package.version), progress
        )
        if sha256_of(found) != package.sha256:
            raise UserError(
                f"The changes to {package.name} {package.version} have SHA-256 {sha256_of(found)}; the lock has {package.sha256}.",
                "The archive replaced the file, or the lock is wrong. Update the lock: swapstone image lock",
            )
        shutil.move(found, kept)


class _Build:
    """A build, in a folder that persists until it is finished."""

    def __init__(self, work: Path, packages: Sequence[Package], progress: Progress) -> None:
        self._work, self._packages, self._progress = work, packages, progress
        self._tree, self._out, self._tools = work / "tree", work / "out", work / "tools"

    def run(self, wanted: str) -> None:
        if not (self._work / "unpacked").is_file():
            self._unpack()
            (self._work / "unpacked").touch()
        self._out.mkdir(exist_ok=True)
        asked = self._work / "all.config"
        asked.write_text(wanted)
        if not (self._out / ".config").is_file():
            self._run(["make", *self._where(), f"KCONFIG_ALLCONFIG={asked}", "allnoconfig"], "configuring the kernel")
        self._check(wanted)
        self._make()
        done = self._work / "done"
        built_in = done / "vmlinux.modules" / "modules.builtin"
        built_in.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self._out / "modules.builtin", built_in)
        shutil.copy(self._out / ".config", done / "config")
        shutil.copy(self._out / "vmlinux", done / "vmlinux")

    def _unpack(self) -> None:
        for name in (self._tree, self._tools):
            shutil.rmtree(name, ignore_errors=True)
            name.mkdir()
        self._progress("unpacking the kernel's source")
        for package in self._packages:
            if package.source != PATCHES:
                self._run(["dpkg-deb", "-x", str(package_file(package.sha256)), str(self._tools)], "unpacking")
        archive = next(iter(sorted(self._tools.glob("usr/src/linux-source-*.tar.xz"))), None)
        if archive is None:
            raise UserError("The package of the kernel's source has no linux-source-*.tar.xz.")
        self._run(["tar", "-xJf", str(archive), "-C", str(self._tree), "--strip-components=1"], "unpacking")
        archive.unlink()
        for package in self._packages:
            if package.source == PATCHES:
                self._patch(package_file(package.sha256))

    def _patch(self, archive: Path) -> None:
        self._run(["tar", "-xJf", str(archive), "-C", str(self._tools), "debian/patches-rt"], "unpacking the patches")
        folder = self._tools / "debian" / "patches-rt"
        names = [
            line.split()[0] for line in (folder / "series").read_text().splitlines() if line.strip() and line[0] != "#"
        ]
        self._progress(f"applying {len(names)} patches for PREEMPT_RT")
        for name in names:
            self._run(["patch", "-d", str(self._tree), "-s", "-f", "-p1", "-i", str(folder / name)], f"applying {name}")

    def _where(self) -> tuple[str, ...]:
        return ("-C", str(self._tree), f"O={self._out}", "ARCH=x86_64")

    def _environment(self) -> dict[str, str]:
        tools = self._tools / "usr"
        libraries = str(tools / "lib" / "x86_64-linux-gnu")
        return {
            "PATH": f"{tools / 'bin'}:{os.environ.get('PATH', os.defpath)}",
            "LD_LIBRARY_PATH": libraries,
            "LIBRARY_PATH": libraries,
            "C_INCLUDE_PATH": str(tools / "include"),
            "BISON_PKGDATADIR": str(tools / "share" / "bison"),
            "M4": str(tools / "bin" / "m4"),
            "LC_ALL": "C",
            # The kernel's build information must not depend on user, host and time.
            "KBUILD_BUILD_TIMESTAMP": "1980-01-01",
            "KBUILD_BUILD_USER": "swapstone",
            "KBUILD_BUILD_HOST": "swapstone",
        }

    def _check(self, wanted: str) -> None:
        """Check that the configuration has all requested options: make drops options with unmet dependencies silently."""
        got = set((self._out / ".config").read_text().splitlines())
        last = dict(line.split("=", 1) for line in wanted.splitlines() if line.startswith("CONFIG_") and "=" in line)
        lost = [f"{name}={value}" for name, value in last.items() if value != "n" and f"{name}={value}" not in got]
        lost += [f"{name}=n" for name, value in last.items() if value == "n" and {f"{name}=y", f"{name}=m"} & got]
        if lost:
            (self._out / ".config").unlink()
            raise UserError(
                f"The kernel's configuration can't have {', '.join(lost)}.",
                "An option that it depends on is missing, or another option forces its value.",
            )

    def _make(self) -> None:
        """Run the build, and report its progress every few seconds."""
        jobs = len(os.sched_getaffinity(0))
        command = ["make", *self._where(), f"-j{jobs}", "vmlinux"]
        log, done, start, reported = self._work / "log", 0, time.monotonic(), 0.0
        last: deque[str] = deque(maxlen=_LAST_LINES)
        with (
            log.open("a") as kept,
            subprocess.Popen(
                command,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            ) as process,
        ):
            assert process.stdout is not None
            for line in process.stdout:
                kept.write(line)
                last.append(line.rstrip())
                done += bool(_OBJECT.match(line))
                now = time.monotonic()
                if now - reported > _REPORT_S:
                    reported = now
                    os.utime(self._work)  # keeps `swapstone image gc` from removing it
                    self._progress(_how_far(done, now - start))
        if process.returncode != 0:
            raise UserError(f"Building the kernel failed; the log is {log}:\n" + "\n".join(last))

    def _run(self, command: list[str], what: str) -> None:
        run_tool(command, f"{what[0].upper()}{what[1:]}", environment=self._environment(), timeout_s=_TIMEOUT_S)


def _how_far(done: int, elapsed_s: float) -> str:
    text = f"building the kernel: {done} of about {_USUAL_OBJECTS} steps, {elapsed_s / 60:.0f} min"
    if 50 <= done < _USUAL_OBJECTS:
        text += f", about {elapsed_s * (_USUAL_OBJECTS - done) / done / 60:.0f} min left"
    return text

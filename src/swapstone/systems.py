# SPDX-License-Identifier: MIT OR Apache-2.0
"""What works on systems other than Debian, and what is missing there, in one line. Imports only what every start needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

READING = ("show", "report", "export", "verify", "agree", "query", "list", "published", "docs", "completion")
"""Commands that run no trial."""

_INSTALL: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "fedora": ("sudo dnf install", {"libc6-dev": "glibc-devel", "musl-tools": "musl-gcc", "g++": "gcc-c++"}),
    "alpine": ("sudo apk add", {"libc6-dev": "musl-dev", "musl-tools": ""}),
    "debian": ("sudo apt-get install", {}),
}
"""By the ID of a family of distributions: how packages are installed, and the names that are not Debian's; empty if there is no package."""


def system_line(system: str, release: Mapping[str, str], missing: Sequence[str]) -> str:
    """Return what works on this system and what is missing; empty for Debian, and for another Linux where nothing is to be installed.

    Args:
        system: `sys.platform`.
        release: the fields of os-release(5).
        missing: of Debian's packages with which programs are built, those that are not installed.
    """
    if system != "linux":
        works = f"{', '.join(READING)} work; trials need" if system == "darwin" else "no command works; Swapstone needs"
        name = {"darwin": "macOS", "win32": "Windows"}.get(system, system)
        return f"{name}: {works} Linux, for example in a virtual machine{' or WSL 2' if system == 'win32' else ''}."
    kinds = (release.get("ID", ""), *release.get("ID_LIKE", "").split())
    command, names = next((_INSTALL[kind] for kind in kinds if kind in _INSTALL), ("install what Debian names", {}))
    packages = " ".join(filter(None, (names.get(each, each) for each in missing)))
    if kinds[0] == "debian" or not packages:
        return ""
    apt = "; what comes as Debian's packages (allocators, servers, kernels, images) needs apt-get"
    name = "".join(filter(str.isprintable, release.get("PRETTY_NAME", "This Linux")))[:60]
    return f"{name}: programs that exist are compared; to build programs: {command} {packages}{'' if 'debian' in kinds else apt}."


def os_release() -> Mapping[str, str]:
    """Return the fields of os-release(5); none where there is no such file."""
    import platform  # noqa: PLC0415 - not for every start

    try:
        return platform.freedesktop_os_release()
    except OSError:
        return {}


def missing_packages() -> list[str]:
    """Return Debian's names of the packages with which programs are built and whose probes fail; see the file `packages`."""
    import shutil  # noqa: PLC0415 - not for every start

    package = Path(__file__).resolve().parent
    lists = (path for path in (package / "share/packages", package.parents[1] / "packages") if path.exists())
    rows = (line.split() for path in lists for line in path.read_text().splitlines() if line.startswith("run "))
    return [name for _, name, probe, *_ in rows if not (Path(probe).exists() if "/" in probe else shutil.which(probe))]

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Build the files of a release from the current commit, check them, and name what is missing to publish them.

First it prints one list of what is missing: a clean tree, a dated entry of the changelog, a signed tag, the project's URLs, a
maintainer's address. With such a list it builds nothing, and its exit status is 2; with --trial it builds nevertheless.

The sdist is the commit's tree. The wheels are built from the sdist: one for each processor of `MACHINES`, with its agent. All times in them
are that of the commit, so the same commit and compilers give the same bytes. Nothing is uploaded.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from elftools.elf.elffile import ELFFile
from packaging.utils import parse_wheel_filename

from swapstone.core.model.regular_file import decode_toml
from swapstone.core.targets.agent_build import AGENT, FREESTANDING, agent_sources, build_native, reference_sources
from swapstone.core.workloads.own_workload import FILE as REFERENCE_FILE
from swapstone.parts.build.artifacts.toolchain import native_compiler
from swapstone.version import __version__

TOP = Path(__file__).resolve().parents[1]
MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}
"""Processors as ``uname -m`` prints them, and as ELF files name them."""

_WORK = "swapstone-release-"


def _git(top: Path, *words: str) -> str:
    """Return what git prints; empty if it fails."""
    return subprocess.run(["git", "-C", str(top), *words], capture_output=True, text=True, check=False).stdout.strip()


def missing(top: Path, version: str) -> list[str]:
    """Return what is missing to publish a commit.

    Args:
        top: a checkout.
        version: of the release.
    """
    project = decode_toml((top / "pyproject.toml").read_bytes())["project"]
    entry = re.search(r"^## .*$", (top / "CHANGELOG.md").read_text(), re.MULTILINE)
    tag = f"refs/tags/v{version}"
    signed = _git(top, "for-each-ref", tag, "--format=%(contents:signature)")
    there = {
        "a clean tree: commit what `git status` lists, or remove it": not _git(top, "status", "--porcelain"),
        f"the date of the changelog's first entry: ## [{version}] - YYYY-MM-DD": entry
        and re.fullmatch(rf"## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d", entry[0]),
        f"a signed tag of this commit: git config user.signingkey KEY && git tag -s v{version}": signed
        and _git(top, "rev-parse", f"{tag}^{{commit}}") == _git(top, "rev-parse", "HEAD"),
        "the project's URLs: Repository and Issues in [project.urls] of pyproject.toml": {"Repository", "Issues"}
        <= set(project.get("urls", {})),
        'a maintainer\'s address: maintainers = [{ name = "...", email = "..." }] in pyproject.toml': any(
            "email" in each for each in project.get("maintainers", [])
        ),
    }
    return [what for what, found in there.items() if not found]


def build(top: Path, out: Path) -> tuple[Path, ...]:
    """Build the sdist and the wheels of a checkout's commit.

    Args:
        top: the checkout.
        out: the folder of the files, which is made.

    Returns:
        The files.

    Raises:
        UserError: a compiler is missing.
        subprocess.CalledProcessError: hatchling or git failed.
    """
    environment = {**os.environ, "SOURCE_DATE_EPOCH": _git(top, "log", "-1", "--format=%ct")}
    with tempfile.TemporaryDirectory(prefix=_WORK) as work:
        made = Path(work) / "made"

        def hatchling(kind: str, tree: Path) -> None:
            command = [sys.executable, "-P", "-m", "hatchling", "build", "-t", kind, "-d", str(made)]
            subprocess.run(command, cwd=tree, env=environment, check=True)

        subprocess.run(["git", "clone", "-q", str(top), f"{work}/commit"], check=True)
        hatchling("sdist", Path(work) / "commit")
        (sdist,) = made.iterdir()
        subprocess.run(["tar", "-xf", str(sdist), "-C", work], check=True)
        tree = Path(work) / sdist.name.removesuffix(".tar.gz")
        for machine in MACHINES:
            agent = build_native(AGENT, agent_sources(tree), Path(work), (native_compiler(machine), *FREESTANDING))
            shutil.copytree(agent.parent, tree / "agents" / machine)
            command = (native_compiler(machine), *FREESTANDING)
            reference = build_native(REFERENCE_FILE, reference_sources(tree), Path(work), command)
            shutil.copytree(reference.parent, tree / "agents" / machine, dirs_exist_ok=True)
            hatchling("wheel", tree)
            shutil.rmtree(tree / "agents")
        out.mkdir(parents=True, exist_ok=True)
        return tuple(Path(shutil.copy(file, out)) for file in sorted(made.iterdir()))


def faults(wheel: Path, top: Path) -> list[str]:
    """Return what is wrong with a wheel.

    Args:
        wheel: the file.
        top: the checkout that it was built from, whose path must not be in it.
    """
    _, version, _, tags = parse_wheel_filename(wheel.name)
    with zipfile.ZipFile(wheel) as opened:
        contents = {name: opened.read(name) for name in opened.namelist()}
    patterns = decode_toml((top / "pyproject.toml").read_bytes())["project"]["license-files"]
    licences = [str(path.relative_to(top)) for pattern in patterns for path in top.glob(pattern)]
    (machine,) = {machine for machine in MACHINES for tag in tags if tag.platform.endswith(machine)}
    name = f"swapstone/share/agents/{machine}/{AGENT}"
    elf = ELFFile(io.BytesIO(contents[name]))
    places = (str(top).encode(), str(Path(tempfile.gettempdir(), _WORK)).encode())
    right = {
        f"the version is {__version__}": str(version) == __version__,
        "the licence files are in it": all(
            contents.get(f"swapstone-{version}.dist-info/licenses/{each}") == (top / each).read_bytes()
            for each in licences
        ),
        "the agent has its digest": hashlib.sha256(contents[name]).hexdigest().encode() == contents[f"{name}.sha256"],
        f"the agent is a static program of {machine}": elf["e_machine"] == MACHINES[machine]
        and not any(each["p_type"] == "PT_INTERP" for each in elf.iter_segments()),
        "no path of this machine is in it": not any(place in each for place in places for each in contents.values()),
    }
    return [what for what, holds in right.items() if not holds]


def main(words: list[str]) -> int:
    """Run the tool."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trial", action="store_true", help="build even if something is missing")
    parser.add_argument("folder", nargs="?", type=Path, default="dist", help="where the files are written [dist]")
    arguments = parser.parse_args(words)
    lacking = missing(TOP, __version__)
    print("".join(f"missing: {each}\n" for each in lacking), end="", file=sys.stderr)
    if lacking and not arguments.trial:
        return 2
    files = build(TOP, arguments.folder)
    wrong = [f"{file.name}: not so: {each}\n" for file in files if file.suffix == ".whl" for each in faults(file, TOP)]
    print("".join(wrong), end="", file=sys.stderr)
    print("".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file}\n" for file in files), end="")
    return 2 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kernels and images for virtual machines in tests: a packaged kernel, and images that are as small as possible."""

from __future__ import annotations

import dataclasses
import functools
import re
import subprocess
import tempfile
from pathlib import Path

import pytest

from swapstone.core.factors import read_facts
from swapstone.core.model import UnavailableError, UserError
from swapstone.core.model.cpio import archive, file
from swapstone.core.model.directories import cache_dir
from swapstone.parts.vm.artifacts.image_catalog import find_machine_architecture
from swapstone.parts.vm.artifacts.images import ImageRequest, build_image
from swapstone.parts.vm.artifacts.kernels import read_kernel
from swapstone.parts.vm.machine.emulator import EmulatedMachine, find_emulator
from swapstone.parts.vm.machine.qemu import VmImage

_DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
_KERNELS = {"x86_64": "linux-image-amd64", "aarch64": "linux-image-arm64"}


def need_emulator(architecture: str = "x86_64") -> None:
    """Skip a test where machines can't be emulated."""
    try:
        find_emulator(EmulatedMachine(architecture=architecture))
    except UnavailableError as error:
        pytest.skip(error.message)


@functools.cache
def kernel(architecture: str = "x86_64") -> Path:
    """Return a distribution's kernel, fetched with apt-get once and kept; skip the test where that can't be done."""
    meta = _KERNELS[architecture]
    depends = _output("apt-cache", "depends", "--important", f"{meta}:{_DEBIAN[architecture]}")
    found = re.search(r"Depends: <?(linux-image-[\w.+-]+)", depends)
    package = f"{found[1]}:{_DEBIAN[architecture]}" if found else ""
    shown = _output("apt-cache", "show", "--no-all-versions", package) if found else ""
    version = re.search(r"^Version: (\S+)$", shown, re.MULTILINE)
    if not found or not version:
        pytest.skip(f"apt has no package {meta}:{_DEBIAN[architecture]}")
    kept = cache_dir() / "test-kernels" / f"{found[1]}_{version[1]}"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as work:
            _output("apt-get", "download", f"{package}={version[1]}", cwd=work)
            (archive_file,) = Path(work).glob("*.deb")
            _output("dpkg-deb", "-x", str(archive_file), f"{work}/tree")
            (packed,) = Path(work, "tree", "boot").glob("vmlinuz-*")
            Path(work, "kernel").write_bytes(read_kernel(packed).image)
            Path(work, "kernel").replace(kept)
    return kept


def _output(*command: str, cwd: str | None = None) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=cwd).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no kernel can be fetched: {' '.join(command)}: {error}")


def image_parts(architecture: str, kernel: str = "generic") -> VmImage:
    """Return a machine whose only program is busybox. Skip the test without an emulator, or if a package can't be fetched."""
    known = find_machine_architecture(architecture)
    need_emulator(known.machine)
    try:
        built = build_image(ImageRequest(architecture=architecture, kernel=kernel, modules=(), parts=("busybox",)))
    except UserError as error:
        pytest.skip(f"no image: {error.message}")
    return VmImage(built.kernel, built.initrd, EmulatedMachine(architecture=known.machine), banner=built.image.banner)


def with_modules(parts: VmImage, text: bytes, initrd: Path) -> VmImage:
    """Return a machine whose image lists other modules to load; `initrd` is where it is written."""
    initrd.write_bytes(parts.initrd.read_bytes() + archive({"modules": file(text)}))
    return dataclasses.replace(parts, initrd=initrd)


def initrd_for(program: Path, path: Path) -> Path:
    """Write an image with the loader and the objects that a dynamic program of this machine needs."""
    facts = read_facts(program)
    assert facts is not None
    assert facts.interp is not None
    entries = {facts.interp.lstrip("/"): file(Path(facts.interp).read_bytes(), executable=True)}
    for name in facts.needed:
        place = _output("cc", f"-print-file-name={name}").strip()
        entries[f"lib/{name}"] = file(Path(place).read_bytes(), executable=True)
    path.write_bytes(archive(entries))
    return path

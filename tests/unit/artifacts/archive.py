# SPDX-License-Identifier: MIT OR Apache-2.0
"""A small package archive of the test's own, asked by the real apt-get: no network, no root, nothing of the system but its programs."""

from __future__ import annotations

import hashlib
import lzma
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from swapstone.parts.build.artifacts.packages import Lock, Package
from tests.unit.artifacts.test_kernels import bzimage, elf

RELEASE = "6.1.0-test"
APT_CONF = 'Dir::Etc::sourcelist "{0}/list";\nDir::Etc::sourceparts "{0}/none";\nAcquire::Retries::Delay "false";\n'


class Archive:
    """An archive in a folder, one architecture, as `deb [trusted=yes] copy:FOLDER ./` reads it."""

    def __init__(self, folder: Path, architecture: str = "amd64") -> None:
        self.folder, self.architecture = folder, architecture
        self._stanzas: list[str] = []
        self.packages: dict[tuple[str, str], Package] = {}
        (folder / "none").mkdir(parents=True)
        (folder / "list").write_text(f"deb [trusted=yes] copy:{folder} ./\n")
        (folder / "apt.conf").write_text(APT_CONF.format(folder))
        self.publish()

    def add(
        self,
        name: str,
        files: Mapping[str, bytes],
        version: str = "1.0-1",
        depends: Sequence[str] = (),
        links: Mapping[str, str] | None = None,
    ) -> Package:
        """Build a package and put it into the archive."""
        top = self.folder / f"tree-{name}-{version}"
        for path, content in {**files, "usr/share/doc/x": version.encode()}.items():
            (top / path).parent.mkdir(parents=True, exist_ok=True)
            (top / path).write_bytes(content)
            (top / path).chmod(0o755 if "bin/" in path else 0o644)
        for path, target in (links or {}).items():
            (top / path).parent.mkdir(parents=True, exist_ok=True)
            (top / path).symlink_to(target)
        control = {"Package": name, "Version": version, "Architecture": self.architecture, "Maintainer": "T <t@t.test>"}
        control |= {"Depends": ", ".join(depends)} if depends else {}
        control["Description"] = "a package of a test"
        stanza = "".join(f"{field}: {value}\n" for field, value in control.items())
        (top / "DEBIAN").mkdir()
        (top / "DEBIAN" / "control").write_text(stanza)
        file = self.folder / f"{name}_{version}.deb"
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Znone", "--build", str(top), str(file)],
            check=True,
            capture_output=True,
        )
        shutil.rmtree(top)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        size = file.stat().st_size
        self._stanzas.append(f"{stanza}Filename: ./{file.name}\nSize: {size}\nSHA256: {digest}\n")
        found = Package(architecture=self.architecture, name=name, version=version, sha256=digest, size_bytes=size)
        self.packages[name, version] = found
        self.publish()
        return found

    def remove(self, name: str, version: str) -> None:
        """Take a package out of the archive, as archives do when a newer one comes."""
        self._stanzas = [text for text in self._stanzas if f"Package: {name}\nVersion: {version}\n" not in text]
        self.publish()

    def publish(self) -> None:
        """Write the list of packages."""
        (self.folder / "Packages").write_text("\n".join(self._stanzas))


def module(folder: Path, name: str, depends: str = "", softdep: str = "", release: str = RELEASE) -> bytes:
    """Compile what has a kernel module's description of itself."""
    entries = [f"name={name}", f"depends={depends}", f"vermagic={release} SMP mod_unload"]
    entries += [f"softdep={softdep}"] if softdep else []
    text = "".join(
        f'__attribute__((section(".modinfo"), used)) static const char said_{number}[] = "{pair}";\n'
        for number, pair in enumerate(entries)
    )
    source, target = folder / f"{name}.c", folder / f"{name}.o"
    source.write_text(text)
    subprocess.run(["cc", "-c", str(source), "-o", str(target)], check=True)
    return target.read_bytes()


def kernel_files(folder: Path, release: str = RELEASE) -> dict[str, bytes]:
    """Return what a kernel's package holds: a kernel that is nothing but its headers, and two modules."""
    assert len(release) == len(RELEASE), "else what lies behind it moves"
    top, plain = f"lib/modules/{release}", elf(62) + release.encode()
    return {
        f"boot/vmlinuz-{release}": bzimage(lzma.compress(plain)).replace(b"6.1.0-test", release.encode()),
        f"{top}/kernel/lib/base.ko": module(folder, "base", release=release),
        f"{top}/kernel/drivers/top-one.ko": module(folder, "top_one", depends="base", release=release),
        f"{top}/modules.builtin": b"kernel/fs/inside.ko\n",
    }


def lock_of(*packages: Package, **unavailable: str) -> Lock:
    """Return a lock of some packages."""
    return Lock(version=1, packages=packages, unavailable=unavailable)


def named(package: Package, kernel: str) -> Package:
    """Return a package as the lock names it that holds a kernel."""
    return msgspec.structs.replace(package, kernel=kernel)

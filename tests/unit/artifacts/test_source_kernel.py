# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kernels from source: here the source is a toy that is configured and built by the same commands as the real one."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from swapstone.core.model import UnavailableError, UserError
from swapstone.parts.build.artifacts.packages import Lock, Package, package_file
from swapstone.parts.vm.artifacts import source_kernel
from swapstone.parts.vm.artifacts.source_kernel import build_source_kernel, configurations
from tests.unit.artifacts.archive import Archive, lock_of

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="kernels are built from source on x86_64 only")

# Like kconfig, it drops unknown options silently, here CONFIG_ABSENT.
MAKEFILE = """
allnoconfig:
\tgrep -v '=n$$\\|CONFIG_ABSENT' $(KCONFIG_ALLCONFIG) > $(O)/.config
vmlinux:
\t@echo '  CC      init/main.o'
\t@echo tried >> $(O)/tries
\t@test ! -e $(CURDIR)/broken || { echo 'init/main.c: error: no such thing'; exit 1; }
\t@cat $(CURDIR)/model > $(O)/vmlinux
\t@echo kernel/fs/inside.ko > $(O)/modules.builtin
"""
PATCH = b"--- a/model\n+++ b/model\n@@ -1 +1 @@\n-stock\n+patched\n"


def tar_xz(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def source(archive: Archive, **more: bytes) -> Package:
    top = "linux-source-6.1"
    files = {f"{top}/Makefile": MAKEFILE.encode(), f"{top}/model": b"stock\n"}
    files |= {f"{top}/{name}": content for name, content in more.items()}
    package = archive.add(top, {f"usr/src/{top}.tar.xz": tar_xz(files)})
    return msgspec.structs.replace(package, source="tree")


@pytest.fixture
def lock(archive: Archive, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Lock:
    """A lock of a toy source with one patch for PREEMPT_RT; every line of a build is reported."""
    monkeypatch.setattr(source_kernel, "_REPORT_S", -1.0)
    patches = tar_xz({"debian/patches-rt/series": b"# one\nrt.patch\n", "debian/patches-rt/rt.patch": PATCH})
    digest = hashlib.sha256(patches).hexdigest()
    package_file(digest).parent.mkdir(parents=True)
    package_file(digest).write_bytes(patches)
    found = Package(
        architecture="amd64", name="linux", version="1", sha256=digest, size_bytes=len(patches), source="patches"
    )
    return lock_of(source(archive), found)


def test_a_kernel_is_built_once_for_each_configuration(lock: Lock, cache: Path) -> None:
    messages: list[str] = []
    generic = build_source_kernel("generic", lock, messages.append)
    assert generic.read_text() == "stock\n"
    assert (generic.parent / "vmlinux.modules" / "modules.builtin").read_text() == "kernel/fs/inside.ko\n"
    assert "CONFIG_PREEMPT_DYNAMIC=y" in (generic.parent / "config").read_text()
    assert messages[-1] == "building the kernel: 1 of about 1500 steps, 0 min"
    messages.clear()
    assert build_source_kernel("generic", lock, messages.append) == generic and messages == []
    rt = build_source_kernel("preempt_rt", lock, messages.append)
    assert rt != generic and rt.read_text() == "patched\n"
    assert "applying 1 patches for PREEMPT_RT" in messages
    assert sorted(path.name for path in (cache / "kernels").iterdir()) == sorted(
        [rt.parent.name, generic.parent.name, "lock"]
    ), "what it was built in is gone"


def test_an_interrupted_build_is_continued(archive: Archive, cache: Path) -> None:
    lock = lock_of(source(archive, broken=b""))
    with pytest.raises(UserError, match=r"the log is .*\n(.*\n)*init/main.c: error: no such thing"):
        build_source_kernel("generic", lock, lambda _: None)
    (work,) = (cache / "kernels").glob(".building-*")
    (work / "tree" / "broken").unlink()
    messages: list[str] = []
    assert build_source_kernel("generic", lock, messages.append).is_file()
    assert "unpacking the kernel's source" not in messages


def test_unsatisfiable_options_are_reported_before_the_build(lock: Lock, cache: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.config"
    own.write_text("# mine\nCONFIG_HZ_1000=y\nCONFIG_ABSENT=y\n")
    with pytest.raises(UserError, match="configuration can't have CONFIG_ABSENT=y"):
        build_source_kernel(str(own), lock, lambda _: None)
    assert not list((cache / "kernels").glob(".building-*/out/tries"))
    own.write_text("CONFIG_HZ_1000=y\n")
    assert "CONFIG_HZ_1000=y" in (build_source_kernel(str(own), lock, lambda _: None).parent / "config").read_text()


def test_what_is_missing_is_named(lock: Lock, monkeypatch: pytest.MonkeyPatch) -> None:
    assert configurations() == ("generic", "preempt_rt")
    with pytest.raises(UserError, match="configuration absent can't be read: No such file") as caught:
        build_source_kernel("absent", lock, lambda _: None)
    assert caught.value.hint.startswith("Name one of generic, preempt_rt, or a file")
    with pytest.raises(UnavailableError, match="The lock has no source of a kernel"):
        build_source_kernel("generic", lock_of(), lambda _: None)
    with pytest.raises(UnavailableError, match="The lock has no PREEMPT_RT patches"):
        build_source_kernel("preempt_rt", lock_of(lock.packages[0]), lambda _: None)
    monkeypatch.setattr("shutil.which", lambda name: None if name == "bc" else f"/bin/{name}")
    with pytest.raises(UnavailableError, match="can't be built: bc not installed"):
        build_source_kernel("generic", lock, lambda _: None)

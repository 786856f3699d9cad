# SPDX-License-Identifier: MIT OR Apache-2.0
"""The lock is renewed from what the archive has: what programs really need, and no more."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import pytest

from swapstone.core.model import UserError
from swapstone.parts.vm.artifacts import lock_update
from swapstone.parts.vm.artifacts.image_catalog import ImagePart, find_machine_architecture
from swapstone.parts.vm.artifacts.images import ImageRequest, build_image
from swapstone.parts.vm.artifacts.lock_update import update_lock
from tests.unit.artifacts.archive import RELEASE, Archive, kernel_files, lock_of
from tests.unit.artifacts.test_cpio import read

pytestmark = pytest.mark.slow  # each test compiles objects and makes packages of them

PARTS = (
    ImagePart(name="busybox", package="busybox-static", files=("bin/busybox",)),
    ImagePart(name="cyclictest", package="rt-tests", files=("bin/cyclictest",), objects=("libodd.so.1",)),
)
LOADER = "/lib64/ld-toy.so.2"


def linked(folder: Path, name: str, *options: str) -> bytes:
    """Link a program or shared object that has no C library in it."""
    (folder / "x.c").write_text(f"int {name}(void); int {name}(void) {{ return 0; }}\n")
    target = folder / name
    command = [
        "cc",
        "-nostdlib",
        "-Wl,--no-as-needed,--allow-shlib-undefined",
        "-o",
        str(target),
        str(folder / "x.c"),
        *options,
    ]
    subprocess.run(command, check=True, capture_output=True)
    return target.read_bytes()


def shared(folder: Path, soname: str, *needs: Path) -> Path:
    path = folder / soname
    path.write_bytes(
        linked(folder, soname.partition(".")[0].replace("-", "_"), "-shared", f"-Wl,-soname,{soname}", *map(str, needs))
    )
    return path


@pytest.fixture
def full(archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """An archive with a kernel, a program, and a chain of shared objects of which one is not needed."""
    monkeypatch.setattr(lock_update, "PARTS", PARTS)
    monkeypatch.setattr(
        "swapstone.parts.vm.artifacts.images.find_part", lambda name: next(part for part in PARTS if part.name == name)
    )
    archive.add(f"linux-image-{RELEASE}", kernel_files(tmp_path))
    archive.add("linux-image-amd64", {}, depends=[f"linux-image-{RELEASE} (= 1.0-1)"])
    archive.add("busybox-static", {"bin/busybox": b"#!"})
    low = shared(tmp_path, "liblow.so.1")
    numa = shared(tmp_path, "libnuma.so.1", low)
    idle, odd = shared(tmp_path, "libidle.so.1"), shared(tmp_path, "libodd.so.1")
    loader = shared(tmp_path, "ld-toy.so.2")
    place = "usr/lib/x86_64-linux-gnu"
    archive.add(
        "liblow1", {f"{place}/liblow.so.1.0": low.read_bytes()}, links={f"{place}/liblow.so.1": "liblow.so.1.0"}
    )
    archive.add("libnuma1", {f"{place}/libnuma.so.1": numa.read_bytes()}, depends=["liblow1 (>= 1)", "libidle1"])
    archive.add("libidle1", {f"{place}/libidle.so.1": idle.read_bytes()})
    archive.add("libodd1", {f"{place}/libodd.so.1": odd.read_bytes()})
    archive.add("libc6", {f"{place}/ld-toy.so.2": loader.read_bytes()}, links={LOADER[1:]: f"/{place}/ld-toy.so.2"})
    program = linked(tmp_path, "main", "-e", "main", "-pie", f"-Wl,--dynamic-linker={LOADER}", str(numa))
    depends = ["libc6", "virtual | other", "libnuma1", "libidle1", "libodd1"]
    archive.add("rt-tests", {"usr/bin/cyclictest": program}, version="2.0", depends=depends)
    archive.add("rt-tests", {"usr/bin/cyclictest": b"newer"}, version="2.1", depends=depends)
    return archive


def test_the_lock_names_what_programs_need_and_no_more(full: Archive) -> None:
    lock = update_lock([find_machine_architecture("x86_64")], None, lambda _: None)
    found = {package.name: package for package in lock.packages}
    assert sorted(found) == [
        *("busybox-static", "libc6", "liblow1", "libnuma1", "libodd1", f"linux-image-{RELEASE}", "rt-tests"),
    ]
    assert found["rt-tests"].version == "2.0", "the oldest that the archive has"
    assert found["rt-tests"].needs == ("ld-toy.so.2", "libnuma.so.1", "libodd.so.1")
    assert found["libnuma1"].objects == {"libnuma.so.1": "lib/x86_64-linux-gnu/libnuma.so.1"}
    assert found["libc6"].objects == {"ld-toy.so.2": "lib64/ld-toy.so.2"}
    assert found[f"linux-image-{RELEASE}"].kernel == "generic"
    assert found[f"linux-image-{RELEASE}"].sha256 == full.packages[f"linux-image-{RELEASE}", "1.0-1"].sha256
    assert lock.unavailable == {"amd64/rt": "this machine's archive has no linux-image-rt-amd64"}
    assert update_lock([find_machine_architecture("x86_64")], lock, lambda _: None) == lock


def test_headers_are_locked_whole_or_not_at_all(full: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the kernel's own version, though the archive has newer ones."""
    own, common = f"linux-headers-{RELEASE}", f"linux-headers-{RELEASE}-common"
    full.add(own, {}, depends=[common, "linux-kbuild-6.1 (>= 1)", "a-compiler"])
    full.add("linux-kbuild-6.1", {}, version="2.0-1")
    messages: list[str] = []
    lock = update_lock([find_machine_architecture("x86_64")], None, messages.append)
    assert not any(package.headers for package in lock.packages)
    assert f"the archive lacks some headers of linux-image-{RELEASE} 1.0-1" in messages
    full.add(common, {})
    full.add("linux-kbuild-6.1", {}, version="1.0-1")
    lock = update_lock([find_machine_architecture("x86_64")], None, lambda _: None)
    found = {package.name: (package.version, package.headers) for package in lock.packages if package.headers}
    assert found == dict.fromkeys((own, common, "linux-kbuild-6.1"), ("1.0-1", ("generic",)))


def test_headers_of_musl_are_locked_in_the_version_of_images(full: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    musl = ImagePart(name="musl", package="musl", files=("lib/ld-musl-x86_64.so.1",))
    monkeypatch.setattr(lock_update, "PARTS", (*PARTS, musl))
    full.add("musl", {"lib/ld-musl-x86_64.so.1": b"#!"})
    full.add("musl-dev", {}, version="2.0-1")
    messages: list[str] = []
    lock = update_lock([find_machine_architecture("x86_64")], None, messages.append)
    assert not any(package.builds for package in lock.packages)
    assert "the archive lacks musl-dev for amd64" in messages
    full.add("musl-dev", {}, version="1.0-1")
    lock = update_lock([find_machine_architecture("x86_64")], None, lambda _: None)
    found = [(package.name, package.version, package.in_images) for package in lock.packages if package.builds]
    assert found == [("musl-dev", "1.0-1", False)]


def test_symbols_of_glibc_are_locked_in_the_version_of_images(full: Archive) -> None:
    full.add("libc6-dbg", {}, version="2.0-1")
    messages: list[str] = []
    assert not any(
        one.debug for one in update_lock([find_machine_architecture("x86_64")], None, messages.append).packages
    )
    assert "the archive lacks libc6-dbg for amd64" in messages
    full.add("libc6-dbg", {}, version="1.0-1")
    lock = update_lock([find_machine_architecture("x86_64")], None, lambda _: None)
    found = [(package.name, package.version, package.in_images) for package in lock.packages if package.debug]
    assert found == [("libc6-dbg", "1.0-1", False)]


def test_an_image_takes_the_objects_that_its_programs_name(full: Archive) -> None:
    lock = update_lock([find_machine_architecture("x86_64")], None, lambda _: None)
    request = ImageRequest(architecture="x86_64", modules=(), parts=("cyclictest",))
    built = build_image(request, lock=lock)
    found = {path for path, entry in read(built.initrd.read_bytes()).items() if entry[0] & 0o170000 == 0o100000}
    place = "lib/x86_64-linux-gnu"
    assert {path for path in found if path.startswith(("bin", "lib")) and "modules" not in path} == {
        *("bin/cyclictest", "lib64/ld-toy.so.2"),
        *(f"{place}/{name}" for name in ("libnuma.so.1", "liblow.so.1", "libodd.so.1")),
    }
    assert [name for name, _, _ in built.image.packages] == [
        *("libc6", "liblow1", "libnuma1", "libodd1", "rt-tests", f"linux-image-{RELEASE}"),
    ]
    less = msgspec.structs.replace(lock, packages=tuple(one for one in lock.packages if one.name != "liblow1"))
    with pytest.raises(
        UserError, match=r"libnuma1 needs liblow\.so\.1, which no package of the lock contains"
    ) as caught:
        build_image(request, lock=less)
    assert "swapstone image lock" in caught.value.hint


def test_an_object_that_no_package_brings(full: Archive) -> None:
    full.remove("liblow1", "1.0-1")
    with pytest.raises(UserError, match=r"No dependency of libnuma1 contains liblow\.so\.1, for amd64"):
        update_lock([find_machine_architecture("x86_64")], None, lambda _: None)


def test_a_program_that_the_archive_hasnt(full: Archive) -> None:
    for version in ("2.0", "2.1"):
        full.remove("rt-tests", version)
    with pytest.raises(UserError, match="This machine's archive has no rt-tests for amd64"):
        update_lock([find_machine_architecture("x86_64")], None, lambda _: None)


def test_other_architectures_are_kept_and_absent_ones_have_a_reason(archive: Archive) -> None:
    archive.add("other", {})
    kept = msgspec.structs.replace(archive.packages["other", "1.0-1"], architecture="arm64")
    old = lock_of(kept, archive.packages["other", "1.0-1"], armhf="why")
    lock = update_lock([find_machine_architecture("x86_64")], old, lambda _: None)
    assert lock.packages == (kept,)
    assert lock.unavailable == {"armhf": "why", "amd64": "this machine's archive has no packages for amd64"}

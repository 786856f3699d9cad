# SPDX-License-Identifier: MIT OR Apache-2.0
"""Images: the same bytes for the same input, nothing half-built, and nothing that doesn't belong together."""

from __future__ import annotations

import errno
import lzma
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from swapstone import version
from swapstone.core.model import UnavailableError, UserError, cpio
from swapstone.core.record.replace_file import replace_file
from swapstone.parts.build.artifacts.packages import Lock
from swapstone.parts.vm.artifacts import images
from swapstone.parts.vm.artifacts.image_assembly import Overlay, compare_images
from swapstone.parts.vm.artifacts.image_catalog import MachineArchitecture, find_machine_architecture
from swapstone.parts.vm.artifacts.images import BuiltImage, ImageRequest, build_image, images_dir
from swapstone.parts.vm.artifacts.kernel_modules import Module, build_module, read_module_file
from tests.unit.artifacts.archive import RELEASE, Archive, kernel_files, lock_of, module, named
from tests.unit.artifacts.test_cpio import read
from tests.unit.artifacts.test_kernels import bzimage, elf

REQUEST = ImageRequest(architecture="x86_64", modules=("top_one", "inside"), parts=("busybox",))


@pytest.fixture
def lock(archive: Archive, tmp_path: Path) -> Lock:
    """A lock of an archive with two kernels and a shell."""
    generic = archive.add(f"linux-image-{RELEASE}", kernel_files(tmp_path))
    rt = archive.add(f"linux-image-{RELEASE}-rt", kernel_files(tmp_path, "6.1.0-rt-x"))
    shell = archive.add("busybox-static", {"bin/busybox": b"#! a shell"})
    return lock_of(named(generic, "generic"), named(rt, "rt"), shell, armhf="it is not there")


def with_file(content: bytes, path: str = "init") -> ImageRequest:
    overlay = Overlay(part="agent", entries={path: cpio.file(content, executable=True)})
    return msgspec.structs.replace(REQUEST, overlays=(overlay,))


def own(path: Path, **changes: object) -> ImageRequest:
    return msgspec.structs.replace(REQUEST, **{"kernel": str(path), "modules": None, **changes})


def bytes_of(built: BuiltImage) -> tuple[bytes, bytes]:
    return built.kernel.read_bytes(), built.initrd.read_bytes()


def test_an_image_contains_the_requested_files(lock: Lock) -> None:
    built = build_image(with_file(b"agent"), lock=lock)
    found = read(built.initrd.read_bytes())
    assert found["bin/busybox"] == (0o100755, 0, 0, b"#! a shell")
    assert found["init"] == (0o100755, 0, 0, b"agent")
    assert found["bin/sh"][3] == b"busybox" and found["usr"][3] == b"."
    assert found["dev/console"][:3] == (0o020600, 5, 1)
    assert found["modules"][3] == b"/lib/modules/base.ko\n/lib/modules/top_one.ko\n"
    assert built.image.modules == ("/lib/modules/base.ko", "/lib/modules/top_one.ko")
    assert built.kernel.read_bytes() == elf(62) + RELEASE.encode(), "the plain kernel, not the compressed one"
    assert built.image.release == RELEASE
    files = built.image.files
    assert set(files) == {"kernel", *(path for path in found if path not in {"bin", "etc", "lib", "lib/modules"})}
    assert {files[path].part for path in ("kernel", "lib/modules/base.ko", "modules")} == {"kernel"}
    assert (files["bin/busybox"].part, files["init"].part, files["usr"].part) == ("busybox-static", "agent", "base")


@pytest.mark.slow
def test_a_module_of_the_user_is_loaded_after_what_it_needs(lock: Lock, tmp_path: Path) -> None:
    file = tmp_path / "mine.ko"
    file.write_bytes(module(tmp_path, "mine", depends="top-one"))
    request = msgspec.structs.replace(REQUEST, modules=(), module_files=(str(file),))
    built = build_image(request, lock=lock)
    assert built.image.modules == tuple(f"/lib/modules/{name}.ko" for name in ("base", "top_one", "mine"))
    assert built.image.files["lib/modules/mine.ko"].part == "kernel"
    assert built.folder != build_image(msgspec.structs.replace(REQUEST, modules=()), lock=lock).folder
    messages: list[str] = []
    with pytest.raises(UserError, match="mine does not belong to the kernel rt"):
        build_image(msgspec.structs.replace(request, kernel="rt"), lock=lock, progress=messages.append)
    assert not messages, "it is refused before anything is fetched"


@pytest.mark.slow
def test_an_image_is_built_once(lock: Lock) -> None:
    messages: list[str] = []
    first = build_image(REQUEST, lock=lock, progress=messages.append)
    assert messages[0].startswith("downloading 2 packages")
    assert messages[-2:] == [f"unpacking linux-image-{RELEASE}", "assembling 1 packages"]
    messages.clear()
    assert build_image(REQUEST, lock=lock, progress=messages.append) == first
    assert messages == []


@pytest.mark.slow
def test_another_folder_and_another_time_give_the_same_bytes(
    lock: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build_image(REQUEST, lock=lock)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.setattr(time, "time", lambda: 1e9)
    os.umask(os.umask(0o077))
    second = build_image(REQUEST, lock=lock)
    assert first.folder.parent != second.folder.parent
    assert bytes_of(first) == bytes_of(second)
    assert (first.image, first.folder.name) == (second.image, second.folder.name)


def test_every_input_moves_the_address(lock: Lock, monkeypatch: pytest.MonkeyPatch) -> None:
    base = with_file(b"agent")
    other_shell = tuple(
        msgspec.structs.replace(package, sha256="1" * 64) if package.name == "busybox-static" else package
        for package in lock.packages
    )
    plans = [
        images.plan_image(base, lock),
        images.plan_image(with_file(b"agenT"), lock),
        images.plan_image(with_file(b"agent", "sbin/init"), lock),
        images.plan_image(msgspec.structs.replace(base, kernel="rt"), lock),
        images.plan_image(msgspec.structs.replace(base, modules=("base",)), lock),
        images.plan_image(msgspec.structs.replace(base, parts=()), lock),
        images.plan_image(base, lock_of(*other_shell)),
    ]
    keys = [plan.key() for plan in plans]
    monkeypatch.setattr(images, "code_version", lambda: "another version")
    keys.append(plans[0].key())
    assert len(set(keys)) == len(keys)


@pytest.mark.slow
def test_modes_of_preemption_are_the_generic_kernel_with_an_option(lock: Lock) -> None:
    generic = build_image(REQUEST, lock=lock)
    for mode in ("none", "voluntary", "full"):
        built = build_image(msgspec.structs.replace(REQUEST, kernel=mode), lock=lock)
        assert (built.folder, built.options) == (generic.folder, f"preempt={mode}")
    assert generic.image.preempt_dynamic is None
    rt = build_image(msgspec.structs.replace(REQUEST, kernel="rt"), lock=lock)
    assert (rt.options, rt.image.release) == ("", "6.1.0-rt-x")
    certificate = compare_images(generic.image.files, rt.image.files, ["kernel"])
    assert {path for path, _ in certificate.differing} == {"kernel", "lib/modules/base.ko", "lib/modules/top_one.ko"}
    with pytest.raises(UserError, match="differ in more than agent"):
        compare_images(generic.image.files, rt.image.files, ["agent"])


@pytest.mark.parametrize(("value", "dynamic"), [("=y", True), (" is not set", False)])
def test_a_kernel_that_cant_change_its_preemption_is_unavailable(archive: Archive, value: str, dynamic: bool) -> None:
    files = {"boot/vmlinuz-6": bzimage(b""), "boot/config-6": f"#\nCONFIG_PREEMPT_DYNAMIC{value}\n".encode()}
    kernel = named(archive.add("linux-image-6", files), "generic")
    lock = lock_of(kernel, archive.add("busybox-static", {"bin/busybox": b"#! a shell"}))
    request = msgspec.structs.replace(REQUEST, modules=())
    assert build_image(request, lock=lock).image.preempt_dynamic is dynamic
    full = msgspec.structs.replace(request, kernel="full")
    if dynamic:
        assert build_image(full, lock=lock).options == "preempt=full"
    else:
        with pytest.raises(
            UnavailableError, match="built without PREEMPT_DYNAMIC, so preempt=full would have no effect"
        ):
            build_image(full, lock=lock)


@pytest.mark.slow
@pytest.mark.parametrize("damaged", ["kernel", "initrd", "image.json", "seal"])
@pytest.mark.parametrize("how", ["altered", "absent"])
def test_a_damaged_image_is_built_again(lock: Lock, damaged: str, how: str) -> None:
    built = build_image(REQUEST, lock=lock)
    whole = bytes_of(built)
    file = built.folder / damaged
    if how == "absent":
        file.unlink()
    else:
        data = file.read_bytes()
        file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    messages: list[str] = []
    again = build_image(REQUEST, lock=lock, progress=messages.append)
    name = "image.json" if damaged == "seal" else damaged
    assert messages[0] == f"the image {built.folder.name[:12]} in the cache is damaged ({name}) and is built again"
    assert again == built and bytes_of(again) == whole
    assert sorted(path.name for path in images_dir().iterdir()) == sorted([built.folder.name, "lock"])


@pytest.mark.slow
def test_a_full_disk_leaves_no_partial_image(lock: Lock, monkeypatch: pytest.MonkeyPatch) -> None:
    real = replace_file

    def full(path: Path, content: bytes) -> None:
        real(path, content)
        if path.name == "initrd":
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(images, "replace_file", full)
    with pytest.raises(UserError, match="can't be written: No space left on device") as caught:
        build_image(REQUEST, lock=lock)
    assert "swapstone image gc" in caught.value.hint
    assert [path.name for path in images_dir().iterdir()] == ["lock"]


@pytest.mark.slow
def test_two_programs_build_one_image_once(lock: Lock, tmp_path: Path) -> None:
    (tmp_path / "lock.json").write_bytes(lock.encoded())
    code = (
        "import sys, msgspec\n"
        "from swapstone.parts.vm.artifacts.images import ImageRequest, build_image\n"
        "from swapstone.parts.build.artifacts.packages import Lock\n"
        f"lock = msgspec.json.decode(open({str(tmp_path / 'lock.json')!r}).read(), type=Lock)\n"
        "request = ImageRequest(architecture='x86_64', modules=('top_one',), parts=('busybox',))\n"
        "print(build_image(request, lock=lock, progress=lambda line: print(line)).image.digest())\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(version.__file__).parents[1])}
    running = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    messages = [process.communicate(timeout=60)[0].splitlines() for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len({lines[-1] for lines in messages}) == 1
    assert sum("assembling 1 packages" in lines for lines in messages) == 1


@pytest.mark.slow
def test_a_kernel_file_with_its_modules(lock: Lock, tmp_path: Path) -> None:
    path = tmp_path / "bzImage"
    path.write_bytes(bzimage(lzma.compress(elf(62))))
    built = build_image(own(path), lock=lock)
    assert (built.image.kernel, built.image.modules, built.options) == ("bzImage", (), "")
    folder = tmp_path / "modules"
    for name, content in kernel_files(tmp_path).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    modular = build_image(own(path, modules_folder=str(folder), modules=("top_one",)), lock=lock)
    assert modular.image.modules == ("/lib/modules/base.ko", "/lib/modules/top_one.ko")
    assert modular.folder != built.folder
    with pytest.raises(UserError, match="The kernel has no module qemu_fw_cfg"):
        build_image(own(path, modules_folder=str(folder), modules=("qemu_fw_cfg",)), lock=lock)
    with pytest.raises(
        UserError, match=r"needs the module top_one, and the folder .*bzImage\.modules does not exist"
    ) as caught:
        build_image(own(path, modules=("top_one",)), lock=lock)
    assert f"INSTALL_MOD_PATH={path}.modules" in caught.value.hint
    with pytest.raises(UserError, match=r"folder of modules .*absent does not exist"):
        build_image(own(path, modules_folder=str(tmp_path / "absent")), lock=lock)
    (folder / "strange.ko").write_bytes(module(tmp_path, "strange", release="5.4"))
    with pytest.raises(UserError, match=r"The modules are for the kernel 5\.4, but the kernel is 6\.1\.0-test"):
        build_image(own(path, modules_folder=str(folder), modules=("strange",)), lock=lock)


@pytest.mark.slow
def test_modules_beside_a_kernel_of_the_users_own_are_found(lock: Lock, tmp_path: Path) -> None:
    """As `make modules_install INSTALL_MOD_PATH=bzImage.modules` leaves them, those of another kernel beside them."""
    path, folder = tmp_path / "bzImage", tmp_path / "bzImage.modules"
    path.write_bytes(bzimage(lzma.compress(elf(62))))
    for release in (RELEASE, "6.1.0-rt-x"):
        for name, content in kernel_files(tmp_path, release).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
    assert build_image(own(path, modules=("top_one", "inside")), lock=lock).image.modules == (
        "/lib/modules/base.ko",
        "/lib/modules/top_one.ko",
    )
    with pytest.raises(UserError, match="The kernel has no module absent and does not list it as built in"):
        build_image(own(path, modules=("absent",)), lock=lock)
    built_in = tmp_path / "other.modules" / "modules.builtin"
    built_in.parent.mkdir()
    built_in.write_text("kernel/a/inside.ko\n")
    other = tmp_path / "other"
    other.write_bytes(path.read_bytes())
    assert build_image(own(other, modules=("inside",)), lock=lock).image.modules == ()


def test_a_bundled_module_needs_a_packaged_kernel_with_headers(lock: Lock) -> None:
    machine = find_machine_architecture("x86_64")
    with pytest.raises(
        UnavailableError, match=r"planted is unavailable for the kernel ./bzImage: it is built with the"
    ):
        build_module("planted", machine, "./bzImage", lock, print)
    with pytest.raises(
        UnavailableError, match="for the kernel generic for x86_64: the lock has no package of its headers"
    ) as got:
        build_module("planted", machine, "none", lock, print)
    assert "swapstone image lock" in got.value.hint


@pytest.mark.slow
def test_the_user_s_c_file_is_built_for_each_packaged_kernel(
    lock: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "mine.c"
    source.write_text("int x;\n")
    built: list[tuple[Path, str, str]] = []

    def build(path: Path, architecture: MachineArchitecture, kernel: str, *_: object) -> Module:
        built.append((path, architecture.name, kernel))
        made = tmp_path / "mine.ko"
        made.write_bytes(module(tmp_path, "mine", depends="base", release=RELEASE))
        return read_module_file(made)

    monkeypatch.setattr(images, "build_module_source", build)
    asked = msgspec.structs.replace(REQUEST, modules=(), module_files=(str(source),))
    image = build_image(asked, lock=lock).image
    assert built == [(source, "x86_64", "generic")]
    assert image.modules == ("/lib/modules/base.ko", "/lib/modules/mine.ko"), "after what it depends on"
    kernel = tmp_path / "bzImage"
    kernel.write_bytes(bzimage(lzma.compress(elf(62))))
    with pytest.raises(
        UnavailableError, match=r"mine\.c can't be built for the kernel .*bzImage: only the packaged"
    ) as got:
        build_image(own(kernel, module_files=(str(source),)), lock=lock)
    assert "--module mine.ko" in got.value.hint and len(built) == 1


@pytest.mark.slow
def test_another_content_of_the_user_s_module_is_another_image(lock: Lock, tmp_path: Path) -> None:
    """Modules that need each other are not searched in the kernel's package."""
    first, second = tmp_path / "first.ko", tmp_path / "second.ko"
    first.write_bytes(module(tmp_path, "first", release=RELEASE))
    second.write_bytes(module(tmp_path, "second", depends="first", release=RELEASE))
    asked = msgspec.structs.replace(REQUEST, modules=(), module_files=(str(first), str(second)))
    built = build_image(asked, lock=lock)
    assert built.image.modules == ("/lib/modules/first.ko", "/lib/modules/second.ko")
    first.write_bytes(first.read_bytes() + b"\0")  # its name and what it needs are the same
    assert build_image(asked, lock=lock).folder != built.folder


@pytest.mark.slow
def test_unusable_inputs_are_named(lock: Lock, tmp_path: Path) -> None:
    foreign = tmp_path / "Image"
    foreign.write_bytes(bytes(0x38) + b"ARM\x64" + bytes(64))
    with pytest.raises(UserError, match=r"The kernel .*Image is for aarch64, not for x86_64") as caught:
        build_image(own(foreign), lock=lock)
    assert "--arch" in caught.value.hint
    with pytest.raises(UserError, match=r"no kernel 'genric': it is neither a file nor one of generic, rt, none"):
        build_image(msgspec.structs.replace(REQUEST, kernel="genric"), lock=lock)
    with pytest.raises(UserError, match=r"kernel rt brings its own modules"):
        build_image(msgspec.structs.replace(REQUEST, kernel="rt", modules_folder="/"), lock=lock)
    with pytest.raises(UserError, match="no architecture named 'x86'"):
        build_image(msgspec.structs.replace(REQUEST, architecture="x86"), lock=lock)
    with pytest.raises(UserError, match="no part of an image named 'busybx'"):
        build_image(msgspec.structs.replace(REQUEST, parts=("busybx",)), lock=lock)
    with pytest.raises(UserError, match="no module absent and does not list"):
        build_image(msgspec.structs.replace(REQUEST, modules=("absent",)), lock=lock)
    with pytest.raises(UnavailableError, match="no images for armhf: it is not there"):
        build_image(msgspec.structs.replace(REQUEST, architecture="armhf"), lock=lock)
    with pytest.raises(UserError, match="The lock has no package musl"):
        build_image(msgspec.structs.replace(REQUEST, parts=("musl",)), lock=lock)
    with pytest.raises(UserError, match="busybox-static and agent have different files at bin/busybox"):
        build_image(with_file(b"other", "bin/busybox"), lock=lock)
    without = Lock(version=1, packages=lock.packages[:1], unavailable={"amd64/rt": "the archive has none"})
    with pytest.raises(UnavailableError, match="no kernel rt for x86_64: the archive has none"):
        build_image(msgspec.structs.replace(REQUEST, kernel="rt"), lock=without)


def test_a_packaged_kernel_of_another_architecture(archive: Archive) -> None:
    files = {"boot/vmlinuz-6": bytes(0x38) + b"ARM\x64" + bytes(64)}
    strange = named(archive.add("linux-image-6", files), "generic")
    shell = archive.add("busybox-static", {"bin/busybox": b"#! a shell"})
    with pytest.raises(UserError, match="The kernel linux-image-6 is for aarch64, not for x86_64"):
        build_image(msgspec.structs.replace(REQUEST, modules=()), lock=lock_of(strange, shell))

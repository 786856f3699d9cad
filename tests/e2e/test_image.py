# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone image`: messages and exit status; slow tests build and boot images."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import msgspec
import pytest

from swapstone.core.model import UnavailableError, UserError, cpio
from swapstone.parts.build.artifacts.packages import package_file, read_lock
from swapstone.parts.vm.artifacts.image_assembly import Overlay, compare_images
from swapstone.parts.vm.artifacts.image_catalog import find_machine_architecture
from swapstone.parts.vm.artifacts.images import BuiltImage, ImageRequest, build_image
from swapstone.parts.vm.session.image_store import boot_arguments
from tests.e2e.cli import command, environment, swapstone
from tests.programs import require

BOOT_TIMEOUT_S = 900
"""A busy machine needs minutes to emulate another architecture."""
DONE = "the test is over"
INIT = f"""#!/bin/busybox sh
/bin/busybox mount -t proc none /proc
/bin/busybox mount -t sysfs none /sys
/bin/busybox mount -t devtmpfs none /dev
while read -r module; do /bin/busybox insmod "$module" || echo "result failed: $module"; done </modules
echo "result uname: $(/bin/busybox uname -rm)"
echo "result zram: $(/bin/busybox cat /sys/block/zram0/comp_algorithm)"
echo 64M >/sys/block/zram0/disksize
/sbin/mke2fs -q -t ext4 /dev/zram0 && /bin/busybox mount -t ext4 /dev/zram0 /mnt && echo "result ext4: mounted"
echo "result cyclictest: $(/usr/bin/cyclictest --help | /bin/busybox head -1)"
echo "result stress-ng: $(/usr/bin/stress-ng --version)"
echo "result iperf3: $(/usr/bin/iperf3 --version | /bin/busybox head -1)"
echo "result memtester: $(/usr/sbin/memtester 1 1 2>/dev/null | /bin/busybox head -1)"
echo "result musl: $(/lib/ld-musl-*.so.1 2>&1 | /bin/busybox head -1)"
echo "result preempt: $(/bin/busybox cat /proc/cmdline)"
echo "{DONE}"
/bin/busybox poweroff -f
"""


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["build", "--arch", "mips"], "no architecture named 'mips'", "arm64"),
        (["build", "--kernel", "./absent"], "no kernel './absent'", "by its path"),
        (["build", "--kernel", "rt", "--modules-folder", "/tmp"], "brings its own modules", "with a kernel file"),
        (["gc", "--older-than", "soon"], "'soon' is not a length of time", "--older-than 30d"),
        (["lock", "--arch", "mips"], "no architecture named 'mips'", "arm64"),
        (["vendor", "m", "--arch", "mips"], "no architecture named 'mips'", "arm64"),
        (["boot", "--arch", "mips"], "no architecture named 'mips'", "arm64"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_input_error_prints_a_message_and_a_hint(
    tmp_path: Path, arguments: list[str], message: str, hint: str
) -> None:
    result = swapstone(tmp_path, "image", *arguments, expect=2, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert message in result.stderr and hint in result.stderr
    assert result.stdout == "" and list(tmp_path.iterdir()) == []


def test_a_kernel_that_the_lock_lacks_is_unavailable_with_a_reason(tmp_path: Path) -> None:
    reason = read_lock().unavailable["riscv64/rt"]
    asked = ("image", "build", "--arch", "riscv64", "--kernel", "rt")
    result = swapstone(tmp_path, *asked, expect=2, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert reason in result.stderr
    assert not list(tmp_path.rglob("*.deb"))


def test_a_missing_emulator_names_the_package(tmp_path: Path) -> None:
    result = swapstone(tmp_path, "image", "boot", "--arch", "arm64", expect=2, PATH="/nonexistent")
    assert "needs the command 'qemu-system-aarch64', which is not installed" in result.stderr
    assert "sudo apt-get install qemu-system-arm" in result.stderr
    text = swapstone(tmp_path, "doctor", PATH="/nonexistent").stdout
    assert "virtual machines of arm64 are unavailable" in text and "sudo apt-get install qemu-system-arm" in text


def test_list_and_gc_accept_an_empty_cache(tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    assert "swapstone image build" in swapstone(tmp_path, "image", "list", XDG_CACHE_HOME=cache).stdout
    assert json.loads(swapstone(tmp_path, "image", "list", "--json", XDG_CACHE_HOME=cache).stdout)["rows"] == []
    assert swapstone(tmp_path, "image", "gc", XDG_CACHE_HOME=cache).stdout == "Nothing has been unused for 30d.\n"
    assert list(tmp_path.iterdir()) == []


def _request(architecture: str, kernel: str = "generic") -> ImageRequest:
    overlay = Overlay(part="test", entries={"init": cpio.file(INIT.encode(), executable=True)})
    return ImageRequest(architecture=architecture, kernel=kernel, overlays=(overlay,))


def _boot(architecture: str, built: BuiltImage) -> dict[str, str]:
    """Boot an image to its end and return the values that its init printed, by name."""
    machine = find_machine_architecture(architecture)
    require(machine.emulator)
    result = subprocess.run(
        boot_arguments(machine, built, 512),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=BOOT_TIMEOUT_S,
        check=False,
    )
    assert DONE in result.stdout, result.stdout[-3000:] + result.stderr
    # The kernel may put a message of its own in front of a line.
    return dict(re.findall(r"result (\S+): (.*?)\r?\n", result.stdout))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("architecture", "kernel", "machine"),
    [
        pytest.param("x86_64", "rt", "x86_64", marks=pytest.mark.exhaustive),  # tests of latencies boot it
        pytest.param("x86_64", "none", "x86_64", marks=pytest.mark.exhaustive),
        pytest.param("arm64", "generic", "aarch64", marks=pytest.mark.exhaustive),  # tests/contract boots it
        pytest.param("armhf", "generic", "armv7l", marks=pytest.mark.exhaustive),  # test_float_factor.py boots it
        ("riscv64", "generic", "riscv64"),
    ],
)
def test_an_image_boots_and_its_programs_run(architecture: str, kernel: str, machine: str) -> None:
    try:
        built = build_image(_request(architecture, kernel))
    except UnavailableError as error:
        pytest.skip(error.message)
    result = _boot(architecture, built)
    assert result["uname"] == f"{built.image.release} {machine}"
    assert ("-rt-" in result["uname"]) == (kernel == "rt")
    lzo = {"lzo-rle"} if architecture != "riscv64" else set()  # Debian builds zram of Linux 6.12 without it
    assert {*lzo, "lz4", "zstd"} <= set(result["zram"].replace("[", "").replace("]", "").split())
    assert result["ext4"] == "mounted"
    assert result["cyclictest"].startswith("cyclictest V") and result["stress-ng"].startswith("stress-ng, version")
    assert result["iperf3"].startswith("iperf 3") and result["memtester"].startswith("memtester version")
    assert result["musl"].startswith("musl libc")
    assert "failed" not in result
    assert ("preempt=none" in result["preempt"]) == (kernel == "none")


@pytest.mark.slow
@pytest.mark.exhaustive  # tests/contract/test_vm_host.py builds two parts twice, under other circumstances
def test_building_twice_gives_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = package_file("").parent
    first = build_image(_request("x86_64"))
    (tmp_path / "swapstone").mkdir()
    (tmp_path / "swapstone" / "packages").symlink_to(packages)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    result: list[str] = []
    second = build_image(_request("x86_64"), progress=result.append)
    assert any(line.startswith("unpacking") for line in result), "the image was not built again"
    assert first.folder.parent != second.folder.parent
    assert first.kernel.read_bytes() == second.kernel.read_bytes()
    assert first.initrd.read_bytes() == second.initrd.read_bytes()
    assert first.image.digest() == second.image.digest()


@pytest.mark.slow
def test_images_of_two_kernels_differ_only_in_kernel_and_modules() -> None:
    generic, rt = build_image(_request("x86_64")), build_image(_request("x86_64", "rt"))
    certificate = compare_images(generic.image.files, rt.image.files, ["kernel"])
    assert certificate.same > 40
    assert {path for path, _ in certificate.differing} == {
        "kernel",
        *(path[1:] for path in (*generic.image.modules, *rt.image.modules)),
        *(["modules"] if generic.image.modules != rt.image.modules else []),
    }
    altered = msgspec.structs.replace(_request("x86_64", "rt"), parts=("busybox",))
    with pytest.raises(UserError, match="differ in more than kernel: bin/cyclictest"):
        compare_images(generic.image.files, build_image(altered).image.files, ["kernel"])


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["x86_64", pytest.param("armhf", marks=pytest.mark.exhaustive)])
def test_the_console_runs_commands_and_exits(tmp_path: Path, architecture: str) -> None:
    process = subprocess.Popen(
        command("image", "boot", "--arch", architecture),
        env=environment(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        errors="replace",
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        for line in process.stdout:
            if "Leave with exit" in line:
                break
        process.stdin.write("echo $((6 * 7)) from the console\nexit\n")
        process.stdin.flush()
        rest, _ = process.communicate(timeout=BOOT_TIMEOUT_S)
    finally:
        process.kill()
    assert "42 from the console" in rest
    assert process.returncode == 0

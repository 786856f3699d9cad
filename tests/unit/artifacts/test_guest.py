# SPDX-License-Identifier: MIT OR Apache-2.0
"""The guest of crates/swapstone-net-guest: what its build and its boot need is named with the next step."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from swapstone.core.artifacts.built import Built
from swapstone.core.model import UnavailableError
from swapstone.parts.build.artifacts.workload_build import PROGRAM
from swapstone.parts.net.artifacts import crates
from swapstone.parts.net.artifacts.crates import missing_guest_requirement, require_crate
from swapstone.parts.net.model.crate import Crate
from swapstone.parts.net.session import network_findings


@pytest.fixture
def have(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that simulates a machine without some programs. `library` is the source of core and alloc."""

    def arrange(*missing: str, library: str | None = "installed") -> None:
        monkeypatch.setattr(crates, "missing_crate_requirement", lambda: None)
        monkeypatch.setattr(crates, "guest_library", lambda: library)
        monkeypatch.setattr(crates, "install_command", lambda package: f"apt-get install {package}")
        monkeypatch.setattr(shutil, "which", lambda program, **_: None if program in missing else f"/usr/bin/{program}")

    return arrange


def test_the_package_lists_are_read_only_if_something_is_missing(
    have: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    have()
    asked: list[str] = []
    monkeypatch.setattr(crates, "install_command", asked.append)
    assert missing_guest_requirement() is None and not asked


def test_each_thing_that_is_missing_is_named_with_its_command(have: Callable[..., None]) -> None:
    have()
    assert missing_guest_requirement() is None
    require_crate(("lwip",))
    have("qemu-system-riscv64")
    assert missing_guest_requirement() == (
        "The command qemu-system-riscv64, which emulates the machine, is not installed.",
        "Install it: apt-get install qemu-system-misc",
    )
    have(library=None)
    message = "There is no Rust library for riscv64gc-unknown-none-elf."
    assert missing_guest_requirement() == (message, "Install it: rustup target add riscv64gc-unknown-none-elf")
    have("rustup", library=None)
    assert missing_guest_requirement() == (
        message,
        "Install it: apt-get install rust-web-src (beside rustc-web; rust-src beside rustc)",
    )
    with pytest.raises(UnavailableError, match="There is no Rust library"):
        require_crate(("smoltcp",))


def test_debian_s_rust_has_no_linker_of_its_own(
    have: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(crates, "rust_library", lambda: tmp_path)
    have("rust-lld")
    linker = {"CARGO_TARGET_RISCV64GC_UNKNOWN_NONE_ELF_LINKER": "riscv64-linux-gnu-ld"}
    assert crates.guest_linker() == linker and missing_guest_requirement() is None
    have("rust-lld", "riscv64-linux-gnu-ld")
    assert missing_guest_requirement() == (
        "There is no linker for riscv64: this Rust has no rust-lld.",
        "Install one: apt-get install binutils-riscv64-linux-gnu",
    )
    (tmp_path / "host" / "bin").mkdir(parents=True)
    (tmp_path / "host" / "bin" / "rust-lld").touch()
    assert crates.guest_linker() == {} and missing_guest_requirement() is None


def test_only_lwip_needs_a_c_compiler(have: Callable[..., None]) -> None:
    have("riscv64-linux-gnu-gcc", "clang")
    assert missing_guest_requirement(("smoltcp",)) is None
    assert missing_guest_requirement(("lwip", "smoltcp")) == (
        "There is no C compiler for riscv64, which lwIP needs.",
        "Install one: apt-get install gcc-riscv64-linux-gnu",
    )
    have("riscv64-linux-gnu-ar")
    assert missing_guest_requirement() is None
    assert crates.guest_compiler() == {}  # clang
    have()
    assert crates.guest_compiler() == {
        "CC_riscv64gc_unknown_none_elf": "riscv64-linux-gnu-gcc",
        "AR_riscv64gc_unknown_none_elf": "riscv64-linux-gnu-ar",
    }


def test_what_trials_of_crates_need_is_needed_too(have: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    have()
    monkeypatch.setattr(crates, "missing_crate_requirement", lambda: ("it needs root", "Start it as root."))
    assert missing_guest_requirement() == ("it needs root", "Start it as root.")


def test_the_doctor_reports_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        network_findings, "missing_guest_requirement", lambda: ("There is no C compiler.", "Install one.")
    )
    found = network_findings.network_findings()[1]
    assert (found.name, found.state.value) == ("target bare-riscv64", "missing")
    assert found.meaning == "There is no C compiler: no network stack without an operating system"
    assert found.remedy == "Install one."
    monkeypatch.setattr(network_findings, "missing_guest_requirement", lambda: None)
    assert network_findings.network_findings()[1].state.value == "good"


def test_program_and_guest_are_in_one_folder_and_both_digests_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = {name: tmp_path / name for name in ("bench", "lwip", "smoltcp")}
    for name, path in made.items():
        path.write_text(name)
    (tmp_path / "swapstone" / "crates").mkdir(parents=True)
    program = Built(made["bench"], "0" * 64, "cargo build", (("crates", "1"),), ())
    monkeypatch.setattr(crates, "build_crate", lambda *_: program)
    monkeypatch.setattr(crates, "build_guest", lambda stack, *_: made[stack])
    built = {stack: crates.build_bare(Crate(package="p"), stack) for stack in ("lwip", "smoltcp")}
    for stack, each in built.items():
        assert (each.path.name, each.path.read_text()) == (PROGRAM, "bench")
        assert [beside.read_text() for beside in each.beside] == [stack]
        assert [name for name, _ in each.sources] == ["crates", f"guest-{stack}"]
    assert len(str(built["lwip"].path)) == len(str(built["smoltcp"].path))
    assert built["lwip"].path != built["smoltcp"].path
    assert crates.build_bare(Crate(package="p"), "lwip") == built["lwip"]

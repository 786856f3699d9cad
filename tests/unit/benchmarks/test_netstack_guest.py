# SPDX-License-Identifier: MIT OR Apache-2.0
"""Errors of benchmarks/netstack-guest for missing requirements."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from benchmarks import netstack_guest

from swapstone.artifacts import guest


@pytest.fixture
def have(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that simulates a machine without some programs. `library` is the source of core and alloc."""

    def arrange(*missing: str, library: str | None = "installed") -> None:
        monkeypatch.setattr(netstack_guest, "why_not", lambda _: None)
        monkeypatch.setattr(netstack_guest, "no_rust", lambda: None)
        monkeypatch.setattr(netstack_guest, "guest_library", lambda *, build_std: library)
        monkeypatch.setattr(shutil, "which", lambda program: None if program in missing else f"/usr/bin/{program}")

    return arrange


def test_a_complete_machine_has_no_reason(have: Callable[..., None]) -> None:
    have()
    assert netstack_guest.why_no_guest(["lwip", "smoltcp"]) is None


@pytest.mark.parametrize(
    ("missing", "package"),
    [("qemu-system-riscv64", "qemu-system-misc"), ("ab", "apache2-utils"), ("setpriv", "util-linux")],
)
def test_a_missing_program_is_named_with_its_package(have: Callable[..., None], missing: str, package: str) -> None:
    have(missing)
    assert netstack_guest.why_no_guest(["smoltcp"]) == f"there is no {missing}; Debian's {package} has it"


def test_a_missing_rust_library_is_named(have: Callable[..., None]) -> None:
    have(library=None)
    assert netstack_guest.why_no_guest(["smoltcp"]) == (
        "there is no Rust library for riscv64gc-unknown-none-elf: rustup target add riscv64gc-unknown-none-elf, "
        "or rustup component add rust-src"
    )


def test_only_lwip_needs_a_c_compiler(have: Callable[..., None]) -> None:
    have("riscv64-linux-gnu-gcc", "clang")
    assert netstack_guest.why_no_guest(["smoltcp"]) is None
    assert netstack_guest.why_no_guest(["lwip", "smoltcp"]) == (
        "there is no C compiler for riscv64; Debian's gcc-riscv64-linux-gnu has one, and clang is one"
    )
    have("riscv64-linux-gnu-gcc")  # clang is there
    assert netstack_guest.why_no_guest(["lwip"]) is None


def test_the_reason_of_the_lab_is_returned(have: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    have()
    monkeypatch.setattr(netstack_guest, "why_not", lambda _: "network namespaces need root")
    assert netstack_guest.why_no_guest(["smoltcp"]) == "network namespaces need root"
    monkeypatch.setattr(netstack_guest, "why_not", lambda _: "no TAP; --stacks kernel needs none")
    assert netstack_guest.why_no_guest(["smoltcp"]) == "no TAP"


def test_only_a_profile_needs_the_programs_that_name_functions(have: Callable[..., None]) -> None:
    have("addr2line", "c++filt")
    assert netstack_guest.why_no_guest(["smoltcp"]) is None
    assert netstack_guest.why_no_guest(["smoltcp"], profile=True) == "there is no addr2line; Debian's binutils has it"


def test_a_profile_is_built_with_frame_pointers_in_a_folder_of_its_own(
    have: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    have()
    builds: list[tuple[dict[str, str], Path]] = []

    def build(*arguments: object, target: Path, **_: object) -> None:
        environment = cast(dict[str, str], arguments[3])
        builds.append((environment, target))

    monkeypatch.setattr(guest, "build_with_cargo", build)
    monkeypatch.setattr(guest, "guest_library", lambda *, build_std: "installed")
    monkeypatch.setattr(guest, "first_line", lambda _: "a compiler")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("RUSTFLAGS", "-Cdebuginfo=2")
    monkeypatch.delenv("CFLAGS_riscv64gc_unknown_none_elf", raising=False)
    guest.build_guest.cache_clear()
    plain, profiled = netstack_guest.build("lwip"), netstack_guest.build("lwip", frame_pointers=True)
    assert plain != profiled
    (without, shared), (environment, folder) = builds
    assert shared != folder
    assert "RUSTFLAGS" not in without  # that of the user remains
    assert "CFLAGS_riscv64gc_unknown_none_elf" not in without
    assert environment["RUSTFLAGS"] == "-Cdebuginfo=2 -Cforce-frame-pointers=yes"
    assert environment["CFLAGS_riscv64gc_unknown_none_elf"] == "-fno-omit-frame-pointer"
    guest.build_guest.cache_clear()

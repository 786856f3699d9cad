# SPDX-License-Identifier: MIT OR Apache-2.0
"""The guest of crates/swapstone-net-guest: what its build and its boot need is named with the next step."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from swapstone.core.artifacts.built import Built
from swapstone.parts.build.artifacts.workload_build import PROGRAM
from swapstone.parts.net.artifacts import crates
from swapstone.parts.net.artifacts.crates import crate_programs
from swapstone.parts.net.model.crate import Crate
from swapstone.parts.net.session import network_findings


@pytest.fixture
def have(monkeypatch: pytest.MonkeyPatch) -> Callable[..., set[str]]:
    """Return a function that simulates a machine without some programs, and returns what the guest needs. `library` is that of Rust."""

    def arrange(*missing: str, library: str | None = "installed", rust: str = "/usr/lib/rustlib") -> set[str]:
        monkeypatch.setattr(crates, "guest_library", lambda: library)
        monkeypatch.setattr(crates, "rust_library", lambda: Path(rust))
        monkeypatch.setattr(shutil, "which", lambda program, **_: None if program in missing else f"/usr/bin/{program}")
        return set(crate_programs(bare=True)) - {"ip", "cargo", "rustc", "qemu-system-riscv64"}

    return arrange


def test_each_thing_that_the_guest_lacks_is_named(have: Callable[..., set[str]]) -> None:
    assert set(crate_programs(("ab",), bare=True)) >= {"ip", "cargo", "rustc", "ab", "qemu-system-riscv64"}
    assert have() == set()
    assert have(library=None) == {"rust-source"}
    assert have(library=None, rust="/home/u/rustlib") == {"rustup target add riscv64gc-unknown-none-elf"}
    assert have("riscv64-linux-gnu-gcc", "clang") == {"riscv64-linux-gnu-gcc"}
    assert have("rustc") == {"rust-source", "riscv64-linux-gnu-gcc"}, "a packaged Rust has no linker of its own"


def test_debian_s_rust_has_no_linker_of_its_own(have: Callable[..., set[str]], tmp_path: Path) -> None:
    linker = {"CARGO_TARGET_RISCV64GC_UNKNOWN_NONE_ELF_LINKER": "riscv64-linux-gnu-ld"}
    assert have("rust-lld", rust=str(tmp_path)) == set() and crates.guest_linker() == linker
    assert have("rust-lld", "riscv64-linux-gnu-ld", rust=str(tmp_path)) == {"riscv64-linux-gnu-gcc"}
    (tmp_path / "host" / "bin").mkdir(parents=True)
    (tmp_path / "host" / "bin" / "rust-lld").touch()
    assert crates.guest_linker() == {}


def test_clang_compiles_lwip_too(have: Callable[..., set[str]]) -> None:
    assert have("riscv64-linux-gnu-ar") == set() and crates.guest_compiler() == {}
    have()
    assert crates.guest_compiler() == {
        "CC_riscv64gc_unknown_none_elf": "riscv64-linux-gnu-gcc",
        "AR_riscv64gc_unknown_none_elf": "riscv64-linux-gnu-ar",
    }


def test_the_doctor_reports_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        network_findings, "missing_crate_requirement", lambda **_: ("There is no C compiler.", "Install one.")
    )
    found = network_findings.network_findings()[1]
    assert (found.name, found.state.value) == ("target bare-riscv64", "missing")
    assert found.meaning == "There is no C compiler: no network stack without an operating system"
    assert found.remedy == "Install one."
    monkeypatch.setattr(network_findings, "missing_crate_requirement", lambda **_: None)
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

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Crates: what is missing is named, and every source decides the program."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from swapstone.core.artifacts import distribution_packages
from swapstone.core.model import UnavailableError, UserError
from swapstone.core.workloads import find_workload
from swapstone.parts.net.artifacts import crates
from swapstone.parts.net.artifacts.crates import crate_programs, require_crate
from tests.unit.crate_origin import crate_of


@pytest.fixture
def able(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine that has everything but apt-cache."""
    (tmp_path / "dev" / "net").mkdir(parents=True)
    (tmp_path / "dev" / "net" / "tun").touch()
    for name, version in (("cargo", "cargo 1.91.0 (abc)"), ("rustc", "rustc 1.92.0"), ("ip", "")):
        _install(tmp_path, name, version)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(distribution_packages, "ADMINISTRATORS", "")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path


def _install(folder: Path, name: str, printed: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\necho '{printed}'\n")
    (folder / name).chmod(0o755)


def message(root: Path, *more: str) -> str:
    require_crate.cache_clear()
    with pytest.raises(UnavailableError) as caught:
        require_crate((*crate_programs(), *more), root)
    assert caught.value.hint
    return caught.value.message


def test_each_thing_that_is_missing_is_named(able: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_crate(crate_programs(), able)
    assert message(able / "dev") == "/dev/net/tun does not exist, so no TAP device can be created."
    for old in ("rustc 1.90.1 (x)", "rustc 0.99.0", "unknown", ""):
        _install(able, "rustc", old)
        assert message(able).startswith("Packages are missing:\n    rustc-web: ")
    _install(able, "rustc", "rustc 2.0.0")
    require_crate.cache_clear()
    require_crate(crate_programs(), able)
    for absent, package in (("cargo", "cargo-web"), ("rustc", "rustc-web"), ("ip", "iproute2")):
        (able / absent).unlink()
        assert f"\n    {package}: " in message(able)
    assert "\n    apache2-utils: " in message(able, *crate_of(find_workload("netstack", "ab")).commands)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert message(able) == "The trial creates network namespaces, which needs root."


def test_what_no_package_brings_is_named_by_what_to_type(able: Path) -> None:
    assert "rustup target add riscv64" in message(able, "rustup target add riscv64")


def test_every_source_and_its_place_decide_and_what_cargo_made_does_not(tmp_path: Path) -> None:
    (tmp_path / "one" / "src").mkdir(parents=True)
    (tmp_path / "Cargo.toml").write_text("a")
    (tmp_path / "one" / "src" / "lib.rs").write_text("b")
    first = crates.tree_digest(tmp_path)
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "made").write_text("c")
    (tmp_path / "one" / "target").mkdir()  # of a crate that is built by itself
    (tmp_path / "one" / "target" / "made").write_text("c")
    assert crates.tree_digest(tmp_path) == first
    (tmp_path / "one" / "src" / "lib.rs").write_text("B")
    second = crates.tree_digest(tmp_path)
    (tmp_path / "one" / "src" / "lib.rs").rename(tmp_path / "one" / "src" / "bib.rs")
    third = crates.tree_digest(tmp_path)
    (tmp_path / "Cargo.toml").write_text("A")
    assert len({first, second, third, crates.tree_digest(tmp_path)}) == 4


def test_every_crate_of_the_workspace_travels_with_an_installed_package() -> None:
    top = Path(__file__).parents[3]
    text = (top / "pyproject.toml").read_text()
    for folder in (top / "crates").glob("*/Cargo.toml"):
        assert f'"crates/{folder.parent.name}" = "swapstone/share/crates/{folder.parent.name}"' in text


def test_crates_that_can_not_be_fetched_are_not_a_failed_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cargo").write_text(
        "#!/bin/sh\nprintf 'error: failed to get `x`\\n\\nCaused by:\\n  [6] Could not resolve host: index\\n' >&2\nexit 101\n"
    )
    (tmp_path / "cargo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(crates, "lwip_source", lambda: tmp_path)
    with pytest.raises(
        UnavailableError, match=r"that pack needs can't be fetched: no network: \[6\] Could not resolve"
    ):
        crates.build_with_cargo(
            tmp_path / "home", ("cargo", "build"), "pack", {}, target=tmp_path / "target", sources="0"
        )


def test_what_does_not_build_is_not_built_again_for_each_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cargo").write_text(
        f"#!/bin/sh\necho started >>{tmp_path}/starts\necho 'error: no such function' >&2\nexit 101\n"
    )
    (tmp_path / "cargo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(crates, "lwip_source", lambda: tmp_path)
    for home, starts in (("one", 1), ("one", 1), ("another", 2)):
        with pytest.raises(UserError, match="pack does not build:\nerror: no such function"):
            crates.build_with_cargo(
                tmp_path / home, ("cargo", "build"), "pack", {}, target=tmp_path / "target", sources="0"
            )
        assert (tmp_path / "starts").read_text() == "started\n" * starts


def test_options_of_a_stack_are_variables_of_a_build_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cargo").write_text(
        '#!/bin/sh\nmkdir -p $CARGO_TARGET_DIR/release\necho "ooseq=$LWIP_OOSEQ pools=$LWIP_POOLS" >$CARGO_TARGET_DIR/release/pack\n'
    )
    (tmp_path / "rustc").write_text("#!/bin/sh\necho rustc 2.0.0\n")
    for name in ("cargo", "rustc"):
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("LWIP_POOLS", "99")  # of the user's shell: without effect
    monkeypatch.setattr(crates, "lwip_source", lambda: tmp_path)
    monkeypatch.setattr(crates, "cache_dir", lambda: tmp_path / "cache")
    monkeypatch.setattr(crates, "read_facts", lambda path: None)
    lines: list[str] = []
    plain = crates.build_package.__wrapped__("pack", "", lines.append)
    tuned = crates.build_package.__wrapped__("pack", "", lines.append, (("LWIP_OOSEQ", "0"), ("LWIP_POOLS", "64")))
    assert (plain.path.read_text(), tuned.path.read_text()) == ("ooseq= pools=\n", "ooseq=0 pools=64\n")
    assert "LWIP_OOSEQ=0 LWIP_POOLS=64 cargo build" in tuned.command
    assert ["LWIP_OOSEQ=0 LWIP_POOLS=64" in line for line in lines] == [False, True]
    again = crates.build_package.__wrapped__("pack", "", lines.append, (("LWIP_OOSEQ", "0"), ("LWIP_POOLS", "64")))
    assert again.path == tuned.path and len(lines) == 2


def test_crates_of_other_sources_are_compiled_again(tmp_path: Path) -> None:
    """Cargo would take them for those of this checkout: it compares times of files and paths below the workspace."""
    own, other = (tmp_path / "release/.fingerprint" / name for name in ("swapstone-net-0123", "serde-0123"))
    for folder in (own, other):
        folder.mkdir(parents=True)
    crates.forget_other_sources(tmp_path, "a1")
    assert not own.exists() and other.exists(), "of which sources it was built is unknown"
    own.mkdir()
    crates.forget_other_sources(tmp_path, "a1")
    assert own.exists()
    crates.forget_other_sources(tmp_path, "b2")
    assert not own.exists() and other.exists()

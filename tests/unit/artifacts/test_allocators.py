# SPDX-License-Identifier: MIT OR Apache-2.0
"""Allocators without a network: the lock, what is fetched and how it fails, what fits together."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import tarfile
from pathlib import Path

import msgspec
import pytest

from swapstone.core.factors import Recipe, find_factor, read_facts
from swapstone.core.model import UnavailableError, UserError
from swapstone.core.model.directories import share_dir
from swapstone.parts.build.artifacts import allocators, upstream_sources
from swapstone.parts.build.artifacts.allocators import EXCLUDED, Plan, allocator_tools
from swapstone.parts.build.artifacts.recipe_resolution import resolve_recipe
from swapstone.parts.build.artifacts.upstream_sources import (
    Source,
    deb822_as_sources,
    fetch,
    lines_as_sources,
    read_lock,
    unpack,
)
from swapstone.parts.build.artifacts.workload_build import BASE_RECIPE
from swapstone.parts.build.build import Build
from swapstone.parts.build.factors.build_facts import BuildFacts
from tests.unit.factors.test_allocator import MALLOC, compiled


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def archive(tmp_path: Path) -> tuple[Path, Source]:
    """An archive of one folder, and its entry in a lock."""
    (tmp_path / "pack-1.0").mkdir()
    (tmp_path / "pack-1.0" / "x.c").write_text("void *malloc(unsigned long n) { return 0; }\n")
    path = tmp_path / "pack_1.0.orig.tar.gz"
    with tarfile.open(path, "w:gz") as opened:
        opened.add(tmp_path / "pack-1.0", "pack-1.0")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return path, Source(version="1.0", kind="debian", package="pack", file=path.name, sha256=digest)


def stand_in(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a script in the place of a command."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def recipe(**changes: object) -> Recipe:
    return BASE_RECIPE.changed(Build, **changes)


def test_every_level_that_is_built_has_a_locked_archive() -> None:
    lock = read_lock()
    names = {level.name for level in find_factor("allocator").levels} - {"default"}
    assert set(lock) == names == set(allocators.PLANS)
    for source in lock.values():
        assert source.kind in {"debian", "crate"}
        assert len(source.sha256) == 64 and set(source.sha256) <= set("0123456789abcdef")
        assert source.version and source.package and source.version in source.file


def test_an_invalid_lock_is_a_user_error(tmp_path: Path) -> None:
    for name in ("allocators", "servers", "libraries"):
        (tmp_path / f"{name}.toml").write_text('[mimalloc]\nversion = "1"\n')
        with pytest.raises(UserError, match="can't be read") as caught:
            read_lock(tmp_path / f"{name}.toml")
        assert caught.value.hint == f"Write it again: tools/lock-{name}"
        assert os.access(share_dir() / "tools" / f"lock-{name}", os.X_OK), "the hint names a command that is there"


def test_the_default_changes_nothing() -> None:
    base = resolve_recipe(recipe())
    assert (base.preload, base.of(Build).ldflags, base.environment) == (
        (),
        BASE_RECIPE.of(Build).ldflags,
        BASE_RECIPE.environment,
    )


@pytest.mark.parametrize(("name", "libc"), EXCLUDED)
@pytest.mark.parametrize("linking", ["dynamic", "static"])
def test_what_can_not_be_is_unavailable_before_anything_is_fetched(
    name: str, libc: str, linking: str, tmp_path: Path
) -> None:
    with pytest.raises(UnavailableError, match=f"{name} can't be built for {libc}: "):
        resolve_recipe(recipe(allocator=name, libc=libc, linking=linking))
    assert not (tmp_path / "cache").exists()


def test_an_archive_with_another_digest_is_refused(
    archive: tuple[Path, Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, source = archive
    monkeypatch.setattr(upstream_sources, "_from_archive", lambda *_: path)
    with pytest.raises(UserError, match="its SHA-256 is") as caught:
        fetch(msgspec.structs.replace(source, sha256="0" * 64))
    assert "Remove the file and try again" in caught.value.hint
    assert not list((tmp_path / "cache" / "swapstone" / "sources").glob("*orig*"))
    kept = fetch(source)
    assert (unpack(kept, tmp_path / "out") / "x.c").is_file()
    kept.write_bytes(b"altered")
    with pytest.raises(UserError, match="its SHA-256 is"):
        fetch(source)


SHOWSRC = (
    "Package: pack\nVersion: {}\nChecksums-Sha256:\n {} 12 pack_1.0.orig.tar.gz\n {} 12 pack.dsc\nDirectory: pool\n"
)


def test_any_version_of_the_package_with_the_same_archive_will_do(
    archive: tuple[Path, Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, source = archive
    output = SHOWSRC.format("0.9-1", "0" * 64, "1" * 64) + "\n" + SHOWSRC.format("1.0-7", source.sha256, "2" * 64)
    (tmp_path / "output").write_text(output)
    stand_in(tmp_path / "bin", "apt-cache", f"cat {tmp_path}/output", monkeypatch)
    script = f'echo "$@" >>{tmp_path}/log; case "$*" in *pack=1.0-7) cp {path} .;; esac'
    stand_in(tmp_path / "bin", "apt-get", script, monkeypatch)
    assert fetch(source).read_bytes() == path.read_bytes()
    assert "source --download-only --tar-only --only-source pack=1.0-7" in (tmp_path / "log").read_text()


def test_the_error_for_a_missing_archive_lists_other_versions(
    archive: tuple[Path, Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "output").write_text(SHOWSRC.format("2.0-1", "0" * 64, "1" * 64))
    stand_in(tmp_path / "bin", "apt-cache", f"cat {tmp_path}/output", monkeypatch)
    stand_in(tmp_path / "bin", "apt-get", "exit 0", monkeypatch)
    with pytest.raises(
        UnavailableError, match=r"lacks the sources pack_1\.0\.orig\.tar\.gz; it has pack 2\.0-1"
    ) as caught:
        fetch(archive[1])
    assert "`tools/lock-allocators` writes the archive's versions to native/allocators.toml" in caught.value.hint
    with pytest.raises(UnavailableError) as caught:
        fetch(archive[1], "native/servers.toml")
    assert "`tools/lock-servers` writes the archive's versions to native/servers.toml" in caught.value.hint


def test_a_lock_is_written_anew_with_what_the_archive_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "native").mkdir()
    lock = tmp_path / "native" / "servers.toml"
    lock.write_text(
        "# why\n\n"
        + "".join(
            f'[{name}]\nversion = "1.0"\nkind = "debian"\npackage = "{name}"\nfile = "x"\nsha256 = "y"\n\n'
            for name in ("pack", "other")
        )
    )
    (tmp_path / "output").write_text(SHOWSRC.format("2.0-1", "a" * 64, "b" * 64))
    stand_in(tmp_path / "bin", "apt-cache", f"cat {tmp_path}/output", monkeypatch)
    stand_in(tmp_path / "bin", "apt-get", "exit 0", monkeypatch)
    spec = importlib.util.spec_from_file_location("lock_allocators", share_dir() / "tools" / "lock_allocators.py")
    assert spec is not None and spec.loader is not None
    lock_allocators = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lock_allocators)
    monkeypatch.setattr(lock_allocators, "share_dir", lambda: tmp_path)
    assert lock_allocators.main(["--lock", "native/servers.toml", "pack"]) == 0
    assert "pack: 1.0 -> 2.0" in capsys.readouterr().err
    assert lock.read_text().startswith("# why\n")
    found = read_lock(lock)
    assert (found["pack"].version, found["pack"].file, found["pack"].sha256) == (
        "2.0",
        "pack_1.0.orig.tar.gz",
        "a" * 64,
    )
    assert found["other"].version == "1.0"
    with pytest.raises(SystemExit):
        lock_allocators.main(["--lock", "native/servers.toml", "nothing"])
    assert "native/servers.toml has no nothing; it has pack, other" in capsys.readouterr().err


def test_without_a_network_the_reason_is_the_package_managers(
    archive: tuple[Path, Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path / "bin", "apt-cache", "exit 100", monkeypatch)
    stand_in(tmp_path / "bin", "apt-get", "echo 'E: Failed to fetch lists' >&2; exit 100", monkeypatch)
    with pytest.raises(UnavailableError, match=r"can't fetch the sources .*: Failed to fetch lists") as caught:
        fetch(archive[1])
    assert "network" in caught.value.hint
    stand_in(tmp_path / "bin", "cargo", "echo 'error: no such host' >&2; exit 101", monkeypatch)
    crate = msgspec.structs.replace(archive[1], kind="crate", file="pack-1.0.crate")
    with pytest.raises(UnavailableError, match=r"cargo can't fetch the crate pack 1\.0: error: no such host"):
        fetch(crate)


@pytest.mark.parametrize(("kind", "command"), [("debian", "apt-cache"), ("crate", "cargo")])
def test_a_package_manager_that_is_missing_is_named(
    kind: str, command: str, archive: tuple[Path, Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(UnavailableError, match=f"needs the command '{command}', which is not installed") as caught:
        fetch(msgspec.structs.replace(archive[1], kind=kind))
    assert ("sudo apt-get install cargo" in caught.value.hint) == (command == "cargo")


def test_lists_of_packages_become_lists_of_sources() -> None:
    text = "# deb http://commented x y\ndeb [signed-by=/k.gpg] http://a suite main contrib # why\n deb-src http://a suite main\nother\n"
    assert (
        lines_as_sources(text)
        == "deb-src [signed-by=/k.gpg] http://a suite main contrib\ndeb-src http://a suite main\n"
    )
    text = "Types: deb deb-src\nURIs: http://a\nSigned-By: /k.gpg\n\ntypes: deb\nURIs: http://b\n"
    assert deb822_as_sources(text) == text.replace("Types: deb deb-src", "Types: deb-src").replace(
        "types: deb\n", "Types: deb-src\n"
    )


def small(monkeypatch: pytest.MonkeyPatch, archive: tuple[Path, Source], *steps: tuple[str, ...]) -> None:
    """Put an allocator of the test's own in the place of mimalloc."""
    monkeypatch.setattr(allocators, "fetch", lambda *_, **__: archive[0])
    monkeypatch.setitem(allocators.PLANS, "mimalloc", Plan(steps=tuple((step,) for step in steps), objects=("x.o",)))


def test_an_allocator_is_built_once_and_linked_or_preloaded(
    archive: tuple[Path, Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch, archive, ("cc", "-fPIC", "-w", "-c", "{source}/x.c", "-o", "x.o"))
    messages: list[str] = []
    dynamic = resolve_recipe(recipe(allocator="mimalloc"), messages.append)
    static = resolve_recipe(recipe(allocator="mimalloc", linking="static"), messages.append)
    assert messages == ["building mimalloc 2.0.9 for glibc (only once)"]
    (shared,) = dynamic.preload
    assert dynamic.of(Build).ldflags == BASE_RECIPE.of(Build).ldflags and static.preload == ()
    assert static.of(Build).ldflags == (*BASE_RECIPE.of(Build).ldflags, "-static", shared.removesuffix(".so") + ".o")
    found = read_facts(Path(shared))
    assert found is not None and found.of(BuildFacts).exports == ("malloc",)
    assert "x.c" in (Path(shared).parent / "build.log").read_text()
    (one,) = allocator_tools([dynamic, dynamic, recipe()])
    assert one[0] == "allocator mimalloc (glibc, dynamic)"
    assert hashlib.sha256(Path(shared).read_bytes()).hexdigest() in one[1]


def test_a_failed_build_keeps_its_log_and_reports_the_error(
    archive: tuple[Path, Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch, archive, ("cc", "-c", "{source}/y.c", "-o", "x.o"))
    with pytest.raises(
        UnavailableError, match=r"mimalloc 2.0.9 for glibc can't be built: cc: cc1: fatal error: y\.c: No such"
    ) as caught:
        resolve_recipe(recipe(allocator="mimalloc"))
    log = Path(caught.value.hint.removeprefix("The log: "))
    assert "y.c" in log.read_text()
    small(monkeypatch, archive, ("no-such-compiler",))
    with pytest.raises(UnavailableError, match="no-such-compiler: not found"):
        resolve_recipe(recipe(allocator="mimalloc"))


def test_an_object_of_another_library_processor_or_way_of_linking_is_refused(tmp_path: Path) -> None:
    text = MALLOC + "#include <stdio.h>\nvoid f(void) { puts(0); }\n"
    made = {
        libc: str(compiled(tmp_path, f"{libc}.so", text, "-shared", "-fPIC", compiler=compiler))
        for libc, compiler in (("glibc", "cc"), ("musl", "musl-gcc"))
    }
    for libc, other in (("glibc", "musl"), ("musl", "glibc")):
        assert resolve_recipe(recipe(allocator=made[libc], libc=libc)).preload == (made[libc],)
        with pytest.raises(
            UnavailableError, match=f"was built for {libc}, so a program on {other} can't load it"
        ) as caught:
            resolve_recipe(recipe(allocator=made[libc], libc=other))
        assert f"libc={libc}" in caught.value.hint
    with pytest.raises(UnavailableError, match="can't be preloaded into a static program"):
        resolve_recipe(recipe(allocator=made["glibc"], linking="static"))
    foreign = tmp_path / "foreign.so"
    data = bytearray(Path(made["glibc"]).read_bytes())
    data[18] = 8  # e_machine: MIPS
    foreign.write_bytes(data)
    with pytest.raises(UnavailableError, match="EM_MIPS"):
        resolve_recipe(recipe(allocator=str(foreign)))
    foreign.unlink()
    with pytest.raises(UserError, match="does not exist any more"):
        resolve_recipe(recipe(allocator=str(foreign)))


def test_sources_name_no_archive_address() -> None:
    """Sources come through the machine's own package managers, whatever those are set up to ask."""
    for path in (share_dir() / upstream_sources.LOCK, Path(upstream_sources.__file__), Path(allocators.__file__)):
        assert "://" not in path.read_text()


CARGO_OFFLINE = """    Updating crates.io index
warning: spurious network error (1 try remaining): [6] Could not resolve hostname
error: failed to get `pack` as a dependency of package `sources v0.0.0`

Caused by:
  failed to download from `https://index.crates.io/config.json`

Caused by:
  [6] Could not resolve hostname (Could not resolve host: index.crates.io)
"""
APT_OFFLINE = """W: Failed to fetch http://deb/InRelease  Temporary failure resolving 'deb'
W: Some index files failed to download. They have been ignored, or old ones used instead.
"""


@pytest.mark.parametrize(
    ("output", "cause"),
    [
        (CARGO_OFFLINE, "no network: [6] Could not resolve hostname (Could not resolve host: index.crates.io)"),
        (APT_OFFLINE, "no network: Failed to fetch http://deb/InRelease  Temporary failure resolving 'deb'"),
        (
            "E: Failed to fetch http://deb/x  404  Not Found [IP: 1]\nE: Unable to fetch",
            "Failed to fetch http://deb/x  404  Not Found [IP: 1]",
        ),
        ("error: no matching package named `pack` found", "error: no matching package named `pack` found"),
        ("", "it printed nothing"),
    ],
)
def test_the_cause_of_a_failed_download_is_named(output: str, cause: str) -> None:
    assert upstream_sources.failure_cause(output) == cause


def test_without_a_network_the_error_names_that(
    archive: tuple[Path, Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path / "bin", "apt-cache", "exit 0", monkeypatch)
    stand_in(tmp_path / "bin", "apt-get", f"cat >&2 <<'E'\n{APT_OFFLINE}E", monkeypatch)
    with pytest.raises(UnavailableError) as caught:
        fetch(archive[1])
    assert caught.value.message == (
        "apt-get can't fetch the sources pack_1.0.orig.tar.gz: no network: Failed to fetch http://deb/InRelease  "
        "Temporary failure resolving 'deb'."
    )
    assert caught.value.hint == "A network is needed once; downloads are cached."
    stand_in(tmp_path / "bin", "cargo", f"cat >&2 <<'E'\n{CARGO_OFFLINE}E\nexit 101", monkeypatch)
    with pytest.raises(UnavailableError, match=r"cargo can't fetch the crate pack 1\.0: no network: \[6\] Could not"):
        fetch(msgspec.structs.replace(archive[1], kind="crate"))

# SPDX-License-Identifier: MIT OR Apache-2.0
"""The source of lwIP: LWIP_DIR, or the locked archive unpacked once in the cache."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from swapstone.core.model.directories import share_dir
from swapstone.parts.build.artifacts import lwip_source, upstream_sources
from swapstone.parts.build.artifacts.upstream_sources import Source, read_lock


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("LWIP_DIR", raising=False)


def archive(folder: Path) -> tuple[Path, Source]:
    path = folder / "lwip.tar.xz"
    with tarfile.open(path, "w:xz") as opened:
        entry = tarfile.TarInfo("lwip-2.2.1/src/core/tcp.c")
        opened.addfile(entry, io.BytesIO())
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return path, Source(version="2.2.1", kind="debian", package="lwip", file=path.name, sha256=digest)


def test_a_given_folder_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LWIP_DIR", "/opt/lwip")
    assert lwip_source.lwip_source() == Path("/opt/lwip")


def test_the_archive_is_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, source = archive(tmp_path)
    fetched = []

    def fake_fetch(wanted: Source, lock: str, *_: object) -> Path:
        fetched.append((wanted.file, lock))
        return path

    monkeypatch.setattr(upstream_sources, "fetch", fake_fetch)
    folder = upstream_sources.unpacked(source, lwip_source.LWIP_LOCK, "lwip")
    assert folder == tmp_path / "cache" / "swapstone" / "sources" / f"lwip-{source.sha256[:16]}"
    assert (folder / "src" / "core" / "tcp.c").is_file()
    assert upstream_sources.unpacked(source, lwip_source.LWIP_LOCK, "lwip") == folder
    assert fetched == [("lwip.tar.xz", "crates/swapstone-net-lwip-sys/source.toml")]
    assert [child.name for child in folder.parent.iterdir() if child.is_dir()] == [folder.name]


def test_the_locked_source_names_its_digest() -> None:
    source = read_lock(share_dir() / lwip_source.LWIP_LOCK)["lwip"]
    assert source.kind == "debian"
    assert len(source.sha256) == 64

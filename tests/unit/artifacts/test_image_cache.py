# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is kept is listed with its size, and what has not been used for long goes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from swapstone.core.model import UserError
from swapstone.parts.build.artifacts.packages import Lock
from swapstone.parts.vm.artifacts.image_cache import CacheEntry, cached_images, collect_garbage, other_entries
from swapstone.parts.vm.artifacts.images import ImageRequest, build_image
from tests.unit.artifacts.archive import Archive, kernel_files, lock_of, named

DAY_S = 86400.0


@pytest.fixture
def lock(archive: Archive, tmp_path: Path) -> Lock:
    kernel = archive.add("linux-image", kernel_files(tmp_path))
    return lock_of(named(kernel, "generic"), archive.add("busybox-static", {"bin/busybox": b"#!"}))


def build(lock: Lock, *modules: str) -> Path:
    return build_image(ImageRequest(architecture="x86_64", modules=modules, parts=("busybox",)), lock=lock).folder


def age(path: Path, days: float) -> None:
    moment = time.time() - days * DAY_S
    os.utime(path, (moment, moment))


def kinds(kept: tuple[CacheEntry, ...]) -> list[str]:
    return sorted(one.kind for one in kept)


def test_an_empty_cache(cache: Path) -> None:
    assert (cached_images(), other_entries(), collect_garbage(0, dry_run=False)) == ((), (), ())
    assert not cache.exists()


def test_images_are_listed_with_size_and_last_use(lock: Lock) -> None:
    first, second = build(lock), build(lock, "base")
    age(first / "seal", 3)
    newest, oldest = cached_images()
    assert (newest.path, oldest.path) == (second, first)
    assert newest.size_bytes > 4096 and newest.image is not None and newest.image.kernel == "generic"
    assert time.time() - oldest.used_unix_s == pytest.approx(3 * DAY_S, abs=60)
    build(lock)
    assert cached_images()[0].path == first, "using it counts"
    (first / "image.json").write_text("odd")
    assert cached_images()[0].image is None


@pytest.mark.slow
def test_old_entries_are_removed_and_a_dry_run_removes_none(lock: Lock) -> None:
    first, second = build(lock), build(lock, "base")
    age(first / "seal", 31)
    assert [kept.path for kept in collect_garbage(30 * DAY_S, dry_run=True)] == [first]
    assert first.is_dir()
    assert [kept.path for kept in collect_garbage(30 * DAY_S, dry_run=False)] == [first]
    assert not first.exists() and second.is_dir()
    assert build(lock) == first, "it can be built again"
    assert kinds(collect_garbage(0, dry_run=False)) == ["image", "image", "package", "package", "package lists"]
    assert (cached_images(), other_entries()) == ((), ())
    assert build(lock) == first


def test_leftovers_of_killed_programs_go_but_not_those_at_work(lock: Lock, cache: Path) -> None:
    build(lock)
    old, young = cache / "images" / ".building-x", cache / "packages" / ".fetching-y"
    for path in (old, young):
        path.mkdir()
    age(old, 1)
    assert [kept.path.name for kept in cached_images()] == [build(lock).name], "nothing half-built is listed"
    gone = collect_garbage(0, dry_run=False)
    assert old in {kept.path for kept in gone} and young not in {kept.path for kept in gone}


def test_builds_for_machines_are_removed_too(cache: Path) -> None:
    """Without any image: a saved machine goes with its digest, and what is at work stays."""
    made = {"snapshots/s": "state", "snapshots/s.sha256": "d", "runs/r1": "a", "runs/r2": "b", "agents/x/agent": "p"}
    made |= {"modules/m/planted.ko": "m", "runs/.part-1": "half"}
    for name, content in made.items():
        (cache / name).parent.mkdir(parents=True, exist_ok=True)
        (cache / name).write_text(content)
    for name in ("snapshots/s", "runs/r1", "agents/x", "runs/.part-1"):
        age(cache / name, 31)
    kept = other_entries()
    assert kinds(kept) == ["agent", "leftover", "module", "run", "run", "saved machine"]
    saved = next(one for one in kept if one.kind == "saved machine")
    assert saved.size_bytes == sum(
        (cache / name).stat().st_blocks * 512 for name in ("snapshots/s", "snapshots/s.sha256")
    )
    assert kinds(collect_garbage(30 * DAY_S, dry_run=True)) == ["agent", "leftover", "run", "saved machine"]
    assert all((cache / name).exists() for name in made), "a dry run removes nothing"
    collect_garbage(30 * DAY_S, dry_run=False)
    assert {name for name in made if (cache / name).exists()} == {"runs/r2", "modules/m/planted.ko"}


def test_an_unwritable_cache_is_a_user_error(lock: Lock, monkeypatch: pytest.MonkeyPatch) -> None:
    build(lock)

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("shutil.rmtree", refuse)
    with pytest.raises(UserError, match="can't be written: Permission denied"):
        collect_garbage(0, dry_run=False)

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Pinned files that an archive no longer has: from a mirror, from a snapshot, or an error that names what can still be made."""

from __future__ import annotations

import functools
import hashlib
import http.server
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from swapstone.core.artifacts import cache_folder
from swapstone.core.model import UserError
from swapstone.core.model.directories import share_dir
from swapstone.parts.build.artifacts import packages, snapshot, upstream_sources
from swapstone.parts.build.artifacts.apt import PackageGoneError
from swapstone.parts.build.artifacts.mirror import from_mirror
from swapstone.parts.build.artifacts.packages import Package, fetch, images_of, package_file, read_lock
from swapstone.parts.build.artifacts.snapshot import (
    archives_of,
    from_other_archives,
    other_archives,
    pin_snapshot,
    read_snapshots,
)
from swapstone.parts.build.artifacts.upstream_sources import Source, cache_path
from swapstone.parts.vm.artifacts.lock_update import PinnedSource, locked_sources, vendor
from swapstone.parts.vm.session import image_store
from tests.unit.artifacts.archive import Archive, lock_of, named

TIME = "20250101T000000Z"


def quiet(_: str) -> None:
    """Take a line of progress."""


@pytest.fixture
def mirror(archive: Archive, tmp_path: Path, cache: Path) -> tuple[Path, Package]:
    """A folder that `vendor` filled with one package, and the package; the cache is empty and the archive lacks it."""
    package = archive.add("tool", {"usr/bin/tool": b"#!"}, version="1:2.0+b1")
    done = vendor(tmp_path / "mirror", lock_of(package), (), quiet)
    assert (done.files, done.size_bytes, done.lacking) == (1, package.size_bytes, {})
    shutil.rmtree(cache)
    archive.remove("tool", "1:2.0+b1")
    return tmp_path / "mirror", package


def test_the_folder_is_what_sha256sum_reads(mirror: tuple[Path, Package]) -> None:
    folder, package = mirror
    assert {path.name for path in folder.iterdir()} == {"SHA256SUMS", "tool_1%3a2.0+b1_amd64.deb"}
    assert (folder / "SHA256SUMS").read_text() == f"{package.sha256}  tool_1%3a2.0+b1_amd64.deb\n"
    checked = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=folder, capture_output=True, check=False)
    assert checked.returncode == 0, checked


def test_a_mirrors_folder_is_read_first(mirror: tuple[Path, Package], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, package = mirror
    monkeypatch.setenv("SWAPSTONE_MIRROR", str(folder))
    monkeypatch.setattr(packages, "Apt", lambda *_: pytest.fail("the archive is used"))
    fetch([package], quiet)
    assert cache_folder.sha256_of(package_file(package.sha256)) == package.sha256


@pytest.fixture
def address(mirror: tuple[Path, Package]) -> Iterator[str]:
    """An HTTP server for the mirror's folder."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    serve = functools.partial(Handler, directory=str(mirror[0]))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_a_mirror_may_be_an_address(
    mirror: tuple[Path, Package], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    package = mirror[1]
    monkeypatch.setenv("SWAPSTONE_MIRROR", address)
    monkeypatch.setattr(packages, "Apt", lambda *_: pytest.fail("the archive is used"))
    fetch([package], quiet)
    assert cache_folder.sha256_of(package_file(package.sha256)) == package.sha256
    package_file(package.sha256).unlink()
    next(mirror[0].glob("*.deb")).unlink()
    with pytest.raises(UserError, match=r"tool_1%3a2\.0\+b1_amd64\.deb of the mirror http://.* can't be read: .*404"):
        fetch([package], quiet)


@pytest.mark.slow
def test_what_a_mirror_lacks_comes_from_the_archive(
    archive: Archive, mirror: tuple[Path, Package], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = archive.add("other", {})
    monkeypatch.setenv("SWAPSTONE_MIRROR", str(mirror[0]))
    messages: list[str] = []
    fetch([other, mirror[1]], messages.append)
    assert messages[0] == "downloading 1 packages for amd64, 0 MB"
    assert package_file(other.sha256).is_file() and package_file(mirror[1].sha256).is_file()


def test_an_altered_file_of_a_mirror_is_refused(
    mirror: tuple[Path, Package], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, package = mirror
    file = next(folder.glob("*.deb"))
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    monkeypatch.setenv("SWAPSTONE_MIRROR", str(folder))
    with pytest.raises(UserError, match=f"has SHA-256 .*; its SHA256SUMS has {package.sha256}") as caught:
        fetch([package], quiet)
    assert "swapstone image vendor" in caught.value.hint
    assert not list((cache / "packages").iterdir()), "neither the file nor a temporary one"
    assert vendor(folder, lock_of(package), (), quiet).lacking, "nothing is left to write it from"


def test_a_mirror_that_is_none_is_an_error_with_the_next_step(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = archive.add("tool", {})
    monkeypatch.setenv("SWAPSTONE_MIRROR", str(tmp_path / "absent"))
    with pytest.raises(UserError, match=r"SHA256SUMS of the mirror .*absent can't be read: No such file") as caught:
        fetch([package], quiet)
    assert "unset it" in caught.value.hint


def test_sums_with_a_path_name_no_file(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list from elsewhere can't make a fetch read a file outside the folder."""
    (tmp_path / "secret").write_text("x")
    digest = hashlib.sha256(b"x").hexdigest()
    (tmp_path / "m").mkdir()
    for name in ("../secret", f"{tmp_path}/secret", "./secret", ".hidden", "a b"):
        (tmp_path / "m" / "SHA256SUMS").write_text(f"{digest}  {name}\n")
        monkeypatch.setenv("SWAPSTONE_MIRROR", str(tmp_path / "m"))
        assert not from_mirror(digest, cache / "kept")


def test_a_source_comes_from_the_mirror(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"an archive"
    source = Source(
        version="1", kind="debian", package="pack", file="pack_1.orig.tar.gz", sha256=hashlib.sha256(data).hexdigest()
    )
    cache_path(source).parent.mkdir(parents=True)
    cache_path(source).write_bytes(data)
    done = vendor(tmp_path / "m", lock_of(), [PinnedSource("the library pack", "native/x.toml", source)], quiet)
    assert done.files == 1
    shutil.rmtree(cache)
    monkeypatch.setenv("SWAPSTONE_MIRROR", str(tmp_path / "m"))
    monkeypatch.setattr(upstream_sources, "_run", lambda *_, **__: pytest.fail("a package manager is used"))
    assert upstream_sources.fetch(source).read_bytes() == data


@pytest.mark.slow
def test_what_is_gone_is_listed(archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, old = named(archive.add("linux-image-a", {}), "generic"), archive.add("linux-image-b", {})
    lock = lock_of(kernel, named(old, "rt"), archive.add("busybox", {}))
    archive.remove("linux-image-b", "1.0-1")
    done = vendor(tmp_path / "m", lock, (), quiet)
    assert done.lacking == {"linux-image-b_1.0-1_amd64.deb": "no archive has this version any more"}
    assert done.files == 2
    monkeypatch.setattr(image_store, "read_lock", lambda: lock)
    monkeypatch.setattr(image_store, "locked_sources", lambda: ())
    lines, whole = image_store.vendor_files(str(tmp_path / "m"), ("x86_64",), quiet)
    assert not whole and lines[1:-1] == [
        "can't be fetched: linux-image-b_1.0-1_amd64.deb: no archive has this version any more",
    ]
    monkeypatch.setattr(packages, "read_lock", lambda: lock)
    with pytest.raises(PackageGoneError, match=r"linux-image-b 1\.0-1\. Not affected: amd64 generic\.") as caught:
        fetch([kernel, old], quiet)
    assert "swapstone image vendor FOLDER" in caught.value.hint and "swapstone image lock" in caught.value.hint


@pytest.mark.slow
def test_a_second_call_keeps_the_files_of_an_earlier_lock(archive: Archive, tmp_path: Path) -> None:
    first = archive.add("tool", {"a": b"1"})
    vendor(tmp_path / "m", lock_of(first), (), quiet)
    archive.remove("tool", "1.0-1")
    second = archive.add("tool", {"a": b"2"})
    messages: list[str] = []
    assert vendor(tmp_path / "m", lock_of(second), (), messages.append).files == 1
    assert len(list((tmp_path / "m").glob("*tool_1.0-1_amd64.deb"))) == 2, "one has the digest before its name"
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "m").glob("*.deb")}
    assert vendor(tmp_path / "m", lock_of(first, second), (), quiet).files == 2
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "m").glob("*.deb")} == before, (
        "nothing is copied twice"
    )


def test_an_unwritable_folder_is_a_user_error(archive: Archive) -> None:
    with pytest.raises(UserError, match="/proc/nowhere can't be written"):
        vendor(Path("/proc/nowhere"), lock_of(archive.add("tool", {})), (), quiet)


def test_every_lock_is_mirrored_under_names_of_its_own() -> None:
    lock, sources = read_lock(), locked_sources()
    assert {one.lock for one in sources} == {
        str(path.relative_to(share_dir()))
        for path in (
            *(share_dir() / "native").glob("*.toml"),
            share_dir() / "crates/swapstone-net-lwip-sys/source.toml",
        )
        if "sha256" in path.read_text()
    }
    names = [package.file_name for package in lock.packages] + [one.source.file for one in sources]
    assert len(names) == len(set(names))
    assert {"amd64 generic", "amd64 rt", "arm64 generic"} <= set(images_of(lock))


@pytest.fixture
def service(archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A snapshot service with the state of the archive at the pinned time; `keep` writes the present state."""
    pinned = tmp_path / "snapshots.toml"
    pinned.write_text(f'[[snapshot]]\ntime = "{TIME}"\narchives = ["debian bookworm main"]\n')
    monkeypatch.setattr(snapshot, "snapshots_path", lambda: pinned)
    monkeypatch.setenv("SWAPSTONE_SNAPSHOT", f"copy:{tmp_path}/service")
    return tmp_path / "service" / "debian" / TIME


def keep(archive: Archive, service: Path) -> None:
    index = service / "dists" / "bookworm" / "main" / f"binary-{archive.architecture}"
    index.mkdir(parents=True)
    shutil.copy(archive.folder / "Packages", index / "Packages")
    for file in archive.folder.glob("*.deb"):
        shutil.copy(file, service / file.name)


@pytest.mark.slow
def test_a_package_that_is_gone_comes_from_the_pinned_snapshot(archive: Archive, service: Path, cache: Path) -> None:
    old = archive.add("tool", {"usr/bin/tool": b"#!"})
    keep(archive, service)
    archive.remove("tool", "1.0-1")
    new = archive.add("other", {})
    messages: list[str] = []
    fetch([old, new], messages.append)
    assert package_file(old.sha256).is_file() and package_file(new.sha256).is_file()
    assert f"the archive does not have them; fetching from the snapshot of {TIME}" in messages
    assert (cache / "apt" / f"amd64-{TIME}" / "state" / "lists").is_dir(), "its lists are separate"
    wrong = msgspec.structs.replace(old, sha256="0" * 64)
    with pytest.raises(UserError, match=r"tool 1\.0-1 for amd64 has SHA-256"):
        fetch([wrong], quiet)


@pytest.mark.slow
def test_another_build_of_the_same_version_is_not_used(archive: Archive, service: Path) -> None:
    """Ubuntu has the versions of some of Debian's packages, in builds of its own."""
    pinned = archive.add("tool", {"usr/bin/tool": b"#!"})
    keep(archive, service)
    archive.remove("tool", "1.0-1")
    other = archive.add("tool", {"usr/bin/tool": b"another"})
    assert (other.version, other.sha256 != pinned.sha256) == (pinned.version, True)
    fetch([pinned], quiet)
    assert package_file(pinned.sha256).is_file()


@pytest.mark.slow
def test_a_snapshot_that_lacks_a_package_too_is_named_in_the_error(archive: Archive, service: Path) -> None:
    old = archive.add("tool", {})
    archive.remove("tool", "1.0-1")
    archive.add("other", {})
    with pytest.raises(
        PackageGoneError, match=rf"no longer has, for amd64: tool 1\.0-1\. The snapshot of {TIME} failed: "
    ):
        fetch([old], quiet)
    keep(archive, service)
    with pytest.raises(PackageGoneError, match=r"failed: The archive no longer has, for amd64: tool 1\.0-1\."):
        fetch([old], quiet)


def test_a_source_that_is_gone_comes_from_the_pinned_snapshot(
    tmp_path: Path, service: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "pack_1.0.orig.tar.gz"
    data.write_bytes(b"an archive")
    digest = hashlib.sha256(b"an archive").hexdigest()
    listed = f"Package: pack\nVersion: 1.0-7\nChecksums-Sha256:\n {digest} 12 pack_1.0.orig.tar.gz\n"
    (tmp_path / "listed").write_text(listed)
    for name, script in {
        "apt-cache": f'case "$2" in */apt-{TIME}/*) [ -e "${{2%apt.conf}}sources/other.list" ] && cat {tmp_path}/listed;; esac',
        "apt-get": f'case "$*" in *pack=1.0-7) cp {data} .;; esac',
    }.items():
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    source = Source(version="1.0", kind="debian", package="pack", file=data.name, sha256=digest)
    assert upstream_sources.fetch(source).read_bytes() == b"an archive"
    (lines,) = (cache / "sources" / f"apt-{TIME}" / "sources").iterdir()
    assert lines.read_text() == (
        f"deb-src [trusted=yes check-valid-until=no] copy:{tmp_path}/service/debian/{TIME}/ bookworm main\n"
    )


def test_a_lock_that_is_written_pins_the_time_and_keeps_earlier_ones(tmp_path: Path) -> None:
    path = tmp_path / "snapshots.toml"
    path.write_text('# why\n\n[[snapshot]]\ntime = "20240101T000000Z"\narchives = ["debian trixie main"]\n')
    pin_snapshot((), path=path)
    assert "2024" in path.read_text().splitlines()[3], "no archive, no change"
    pin_snapshot(["debian bookworm main"], now_unix_s=1735689600, path=path)
    assert path.read_text().startswith("# why\n\n[[snapshot]]\n")
    first, second = pinned(path)
    assert (first.time, first.archives) == (TIME, ("debian bookworm main", "debian trixie main"))
    assert (second.time, second.archives) == ("20240101T000000Z", ("debian trixie main",))
    for number in range(6):
        pin_snapshot(["debian bookworm main"], now_unix_s=1735689600 + number, path=path)
    assert len(pinned(path)) == 4


def pinned(path: Path) -> tuple[snapshot.Snapshot, ...]:
    return read_snapshots(path)


def test_the_systems_archives_are_those_of_the_service() -> None:
    lines = [
        "http://deb.debian.org/debian bookworm main",
        "http://deb.debian.org/debian/ bookworm-updates main",
        "https://mirror.example/pub/debian-security bookworm-security main",
        "copy:/x/archive ./ ",
        "http://archive.ubuntu.com/ubuntu jammy main",
    ]
    assert archives_of(lines) == (
        "debian bookworm main",
        "debian bookworm-updates main",
        "debian-security bookworm-security main",
    )


def test_the_releases_of_the_locks_are_searched_at_mirrors_before_the_service(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SWAPSTONE_SNAPSHOT", "none")
    mirrors = ["http://m.example/debian/ trixie main", "http://m.example/debian-security/ trixie-security main"]
    (there,) = other_archives(mirrors)
    assert there.sources("deb", "bookworm") == (
        "deb [trusted=yes check-valid-until=no] http://m.example/debian/ bookworm main\n"
    )
    assert "http://m.example/debian-security/ bookworm-security main" in there.lines
    assert not set(mirrors) & set(there.lines), "the system's own archives were searched before"
    ubuntu = ["http://archive.ubuntu.com/ubuntu noble main"]
    assert other_archives(ubuntu) == ()
    monkeypatch.delenv("SWAPSTONE_SNAPSHOT")
    assert "http://deb.debian.org/debian/ bookworm main" in other_archives(ubuntu)[0].lines
    first, *services = other_archives(mirrors)
    assert first == there
    assert [each.title for each in services] == [f"the snapshot of {each.time}" for each in read_snapshots()]
    assert (
        services[0]
        .sources("deb")
        .startswith("deb [trusted=yes check-valid-until=no] http://snapshot.debian.org/archive/")
    )


def test_a_service_without_an_address_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SWAPSTONE_SNAPSHOT")
    mirrors = ("http://m.example/debian/ trixie main",)
    monkeypatch.setattr(snapshot, "system_archives", lambda: mirrors)
    asked: list[str] = []

    def act(archives: snapshot.Archives) -> None:
        asked.append(archives.name)
        raise UserError("Could not resolve 'a.example'")

    with pytest.raises(
        UserError, match=r"gone\. The releases of the locks at Debian's mirrors failed: Could .* The snap"
    ):
        from_other_archives(UserError("gone."), act)
    assert asked == ["releases", read_snapshots()[0].time]


def test_the_shipped_snapshots_name_the_releases_of_the_locks() -> None:
    """bookworm's packages; trixie's for riscv64, and for the sources of lwIP."""
    assert {"bookworm", "bookworm-security", "trixie"} <= {line.split()[1] for line in read_snapshots()[0].archives}

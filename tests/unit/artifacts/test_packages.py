# SPDX-License-Identifier: MIT OR Apache-2.0
"""Packages come from the archive by name, version and digest, or not at all."""

from __future__ import annotations

import errno
import hashlib
import subprocess
from pathlib import Path

import msgspec
import pytest

from swapstone.core.model import UnavailableError, UserError
from swapstone.parts.build.artifacts import packages
from swapstone.parts.build.artifacts.apt import Apt, PackageGoneError, oldest
from swapstone.parts.build.artifacts.packages import Contents, Lock, fetch, package_file, read_lock, write_lock
from swapstone.parts.build.artifacts.snapshot import Archives
from tests.unit.artifacts.archive import APT_CONF, Archive, lock_of


def test_a_package_is_fetched_once_and_checked(archive: Archive, tmp_path: Path) -> None:
    package = archive.add("tool", {"usr/bin/tool": b"#!"}, version="1:2.0+b1")
    messages: list[str] = []
    fetch([package], messages.append)
    assert messages == [
        "downloading 1 packages for amd64, 0 MB",
        "fetching the lists of packages for amd64",
    ]
    with Contents(package_file(package.sha256), tmp_path) as contents:
        assert contents.read("bin/tool") == (b"#!", True)
    fetch([package], messages.append)
    assert len(messages) == 2, "the second time it is in the cache"


def test_the_system_is_left_alone(archive: Archive, cache: Path, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in Path("/var/lib/apt/lists").glob("*")}
    fetch([archive.add("tool", {"usr/bin/tool": b"#!"})], lambda _: None)
    assert {path: path.stat().st_mtime_ns for path in Path("/var/lib/apt/lists").glob("*")} == before
    assert (cache / "apt" / "amd64" / "state" / "lists").is_dir()


def test_the_error_for_a_missing_version_names_it_with_a_hint(archive: Archive, cache: Path) -> None:
    old, other = archive.add("tool", {}, version="1.0"), archive.add("other", {})
    archive.remove("tool", "1.0")
    archive.add("tool", {}, version="1.1")
    with pytest.raises(PackageGoneError, match=r"The archive no longer has, for amd64: tool 1\.0\.") as caught:
        fetch([other, old], lambda _: None)
    assert "swapstone image lock" in caught.value.hint
    assert not list((cache / "packages").glob("*.deb")), "nothing of a set that isn't whole"


@pytest.mark.slow
def test_lists_that_are_older_than_the_archive_are_fetched_again(archive: Archive) -> None:
    old = archive.add("tool", {}, version="1.0")
    Apt("amd64").update()
    archive.remove("tool", "1.0")
    (archive.folder / "tool_1.0.deb").unlink()
    new = archive.add("tool", {}, version="1.1")
    with pytest.raises(PackageGoneError, match=r"no longer has, for amd64: tool 1\.0\."):
        fetch([old], lambda _: None)
    fetch([new], lambda _: None)
    assert package_file(new.sha256).is_file()


def test_a_file_that_the_archive_lists_but_hasnt(archive: Archive) -> None:
    package = archive.add("tool", {})
    (archive.folder / "tool_1.0-1.deb").unlink()
    with pytest.raises(UserError, match=r"Packages for amd64 can't be downloaded: Failed to fetch .*tool_1\.0-1\.deb"):
        fetch([package], lambda _: None)


def test_another_file_of_the_same_version_is_refused(archive: Archive, cache: Path) -> None:
    package = archive.add("tool", {"usr/bin/tool": b"changed"})
    wrong = msgspec.structs.replace(package, sha256="0" * 64)
    with pytest.raises(UserError, match=rf"tool 1\.0-1 for amd64 has SHA-256 {package.sha256}; the lock has 000"):
        fetch([wrong], lambda _: None)
    assert not list((cache / "packages").iterdir())


def test_a_damaged_file_in_the_cache_is_fetched_again(archive: Archive) -> None:
    package = archive.add("tool", {"usr/bin/tool": b"#!"})
    fetch([package], lambda _: None)
    whole = package_file(package.sha256).read_bytes()
    package_file(package.sha256).write_bytes(whole[:-1] + b"x")
    messages: list[str] = []
    fetch([package], messages.append)
    assert messages[0] == "tool in the cache is damaged and is fetched again"
    assert package_file(package.sha256).read_bytes() == whole


def test_no_network(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "list").write_text("deb [trusted=yes] http://127.0.0.1:9/x ./\n")
    (tmp_path / "apt.conf").write_text(APT_CONF.format(tmp_path))
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    package = packages.Package(architecture="amd64", name="tool", version="1", sha256="0" * 64, size_bytes=1)
    with pytest.raises(UserError, match=r"The lists of packages for amd64 can't be fetched: .*127") as caught:
        fetch([package], lambda _: None)
    assert "Check the network" in caught.value.hint


def test_the_error_for_a_missing_version_names_failed_lists(archive: Archive) -> None:
    archive.add("other", {})
    Apt("amd64").update()
    listed = (archive.folder / "list").read_text()
    (archive.folder / "list").write_text(f"{listed}deb [trusted=yes] copy:{archive.folder}/absent ./\n")
    package = packages.Package(architecture="amd64", name="tool", version="1", sha256="0" * 64, size_bytes=1)
    with pytest.raises(PackageGoneError, match=r"tool 1\. Some of its lists could not be fetched: .*absent"):
        fetch([package], lambda _: None)


def test_an_architecture_of_another_release_is_fetched_from_the_system_s_mirrors_of_debian(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's own lines may be trusted without a key; those of the other release are not."""
    mirror = tmp_path / "mirror" / "debian"
    lists = mirror / "dists" / "trixie" / "main" / "binary-riscv64"
    lists.mkdir(parents=True)
    (lists / "Packages").write_text("")
    digest = hashlib.sha256(b"").hexdigest()
    (mirror / "dists" / "trixie" / "Release").write_text(
        f"Codename: trixie\nArchitectures: riscv64\nComponents: main\nSHA256:\n {digest} 0 main/binary-riscv64/Packages\n"
    )
    (tmp_path / "list").write_text(
        f"deb [trusted=yes] copy:{mirror} bookworm main\ndeb [trusted=yes] copy:{tmp_path}/other bookworm main\n"
    )
    (tmp_path / "apt.conf").write_text(APT_CONF.format(tmp_path))
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    apt = Apt("riscv64")
    (line,) = (apt.home / "sources.list").read_text().splitlines()
    assert line.startswith("deb ") and line.endswith(f"copy:{mirror}/ trixie main") and "trusted" not in line
    with pytest.raises(UserError, match=r"The lists of packages for riscv64 can't be fetched: .*not signed") as caught:
        apt.update()
    assert "debian-archive-keyring" in caught.value.hint
    assert not (Apt("amd64").home / "sources.list").exists()


@pytest.mark.parametrize("codename", ["trixie", "forky"])
def test_lists_that_a_mirror_lacks_under_the_codename_are_fetched_under_the_name_stable(
    codename: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only while stable is that release."""
    apt = Apt("riscv64")
    lists, sources = apt.home / "state" / "lists", apt.home / "sources.list"
    sources.write_text("deb [signed-by=/k] http://mirror/debian/ trixie main\n")
    used = []

    def run(program: str, *arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        used.append(sources.read_text().split()[3])
        if used[-1] == "trixie":
            return subprocess.CompletedProcess([program], 100, "", "E: File has unexpected size")
        (lists / "mirror_debian_dists_stable_InRelease").write_text(f"Suite: stable\nCodename: {codename}\n")
        (lists / "mirror_debian_dists_stable_main_binary-riscv64_Packages").touch()
        return subprocess.CompletedProcess([program], 0, "", "")

    monkeypatch.setattr(apt, "_run", run)
    if codename == "trixie":
        assert apt.update() == apt.update() == ""
        assert used[:2] == ["trixie", "stable"]
        return
    with pytest.raises(UserError, match="File has unexpected size"):
        apt.update()
    assert used == ["trixie", "stable"]
    assert not any(lists.glob("*stable*")) and " trixie main" in sources.read_text()


def test_a_snapshot_of_an_architecture_of_another_release_has_that_release_only(cache: Path) -> None:
    lines = ("http://a/debian bookworm main", "http://a/debian trixie main", "http://a/security bookworm-security main")
    archives = Archives(name="releases", title="others", lines=lines)
    listed = {name: (Apt(name, archives).home / "sources.list").read_text() for name in ("amd64", "riscv64")}
    assert listed["amd64"].count("deb ") == 3
    assert listed["riscv64"].count("deb ") == 1 and " trixie main" in listed["riscv64"]


@pytest.mark.parametrize("missing", ["apt-get", "apt-cache", "dpkg-deb"])
def test_no_package_manager(missing: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in {"apt-get", "apt-cache", "dpkg-deb"} - {missing}:
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match=f"{missing} is not installed on this machine"):
        Apt("amd64")


def test_no_dpkg_to_unpack_with(archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = archive.add("tool", {})
    fetch([package], lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with (
        pytest.raises(UnavailableError, match="dpkg-deb is not installed"),
        Contents(package_file(package.sha256), tmp_path),
    ):
        pass


def test_an_unwritable_cache_is_a_user_error(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    package = archive.add("tool", {})
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    with pytest.raises(UserError, match=r"The cache folder /proc/nowhere.* can't be written") as caught:
        fetch([package], lambda _: None)
    assert "swapstone image gc" in caught.value.hint


def test_a_full_cache(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    package = archive.add("tool", {})

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(packages, "_downloaded", full)
    with pytest.raises(UserError, match="can't be written: No space left on device"):
        fetch([package], lambda _: None)


def test_no_package_file(tmp_path: Path) -> None:
    (tmp_path / "x.deb").write_bytes(b"nothing")
    with pytest.raises(UserError, match=r"x\.deb can't be unpacked"), Contents(tmp_path / "x.deb", tmp_path):
        pass


def test_contents_follow_links_inside_the_package(archive: Archive, tmp_path: Path) -> None:
    links = {
        "lib64/ld.so": "/usr/lib/x/ld.so",
        "usr/lib/x/one.so.1": "one.so.1.2",
        "usr/lib/out": "../../../etc/passwd",
    }
    package = archive.add(
        "tool", {"usr/lib/x/ld.so": b"loader", "usr/lib/x/one.so.1.2": b"one"}, links={**links, "a": "b", "b": "a"}
    )
    fetch([package], lambda _: None)
    with Contents(package_file(package.sha256), tmp_path) as contents:
        assert contents.read("lib64/ld.so")[0] == b"loader"
        assert contents.read("lib/x/one.so.1")[0] == b"one"
        for name in ("lib/out", "a", "absent", "lib"):
            with pytest.raises(UserError, match=f"has no file {name}"):
                contents.read(name)
        with pytest.raises(UserError, match="has 2 files that match lib/x/"):
            contents.find("lib/x/one*")


def test_the_oldest_version_is_chosen(archive: Archive) -> None:
    for version in ("1.10", "1.9", "1:0.1"):
        archive.add("tool", {}, version=version, depends=["a (>= 1) | b", "c:any", "d"])
    apt = Apt("amd64")
    assert apt.update() == ""
    offers = apt.offers("tool")
    assert {offer.version for offer in offers} == {"1.10", "1.9", "1:0.1"}
    assert oldest(offers).version == "1.9"
    assert offers[0].depends == ("a", "c", "d")
    assert apt.offers("absent") == ()


def test_a_lock_is_read_as_it_was_written(tmp_path: Path) -> None:
    package = packages.Package(
        architecture="amd64",
        name="libx",
        version='1:2~"3"',
        sha256="a" * 64,
        size_bytes=3,
        needs=("libc.so.6",),
        objects={"libx.so.1": "lib/libx.so.1"},
    )
    lock = lock_of(
        package, msgspec.structs.replace(package, name="linux", kernel="rt", needs=(), objects={}), riscv64="no"
    )
    write_lock(lock, tmp_path / "deep" / "lock.toml")
    assert read_lock(tmp_path / "deep" / "lock.toml") == lock
    with pytest.raises(UserError, match="can't be written"):
        write_lock(lock, Path("/proc/lock.toml"))


def test_a_lock_that_was_read_before_is_read_as_it_is_now(tmp_path: Path) -> None:
    path = tmp_path / "lock.toml"
    for _ in range(2):
        path.write_text('version = 1\npackages = []\nunavailable = {riscv64 = "no"}')
        found = read_lock(path)
        assert found.unavailable == {"riscv64": "no"}
        found.unavailable.clear()
        path.write_text("version = 1\npackages = []")
        assert read_lock(path).unavailable == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version = ", "can't be read: "),
        ("version = 1\npackages = 3", "can't be read: "),
        ("version = 2\npackages = []", "has version 2; this program reads 1"),
        (None, "can't be read: No such file"),
    ],
)
def test_an_invalid_lock_is_a_user_error(text: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "lock.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=message) as caught:
        read_lock(path)
    assert "swapstone image lock" in caught.value.hint


def test_an_architecture_that_the_lock_hasnt_is_unavailable_with_its_reason() -> None:
    lock = Lock(version=1, packages=(), unavailable={"riscv64": "the archive has no packages for riscv64"})
    with pytest.raises(UnavailableError, match="no images for riscv64: the archive has no packages for riscv64"):
        lock.of("riscv64")


def test_the_lock_that_is_shipped_is_complete() -> None:
    lock = read_lock()
    assert {package.kernel for package in lock.of("amd64")} == {"", "generic", "rt"}
    assert {package.kernel for package in lock.of("arm64")} == {"", "generic", "rt"}
    for architecture in {package.architecture for package in lock.packages}:
        found = lock.of(architecture)
        objects = {soname for package in found for soname in package.objects}
        assert {soname for package in found for soname in package.needs} == objects
        assert {"busybox-static", "rt-tests", "stress-ng", "iperf3", "memtester", "musl", "libc6", "libnuma1"} <= {
            package.name for package in found
        }

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fetch the pinned sources of third-party programs with the system's package managers, and verify their digests.

They come from the mirror, else from the archives, else from those of `other_archives`. apt-get and cargo use folders in the cache, need no
root, and don't change the system.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
import shlex
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from swapstone.core.artifacts.cache_folder import locked, sha256_of
from swapstone.core.model import FrozenStruct, UnavailableError, UserError
from swapstone.core.model.directories import cache_dir, share_dir
from swapstone.core.model.regular_file import read_toml
from swapstone.parts.build.artifacts.apt import paragraphs, run_package_manager
from swapstone.parts.build.artifacts.mirror import from_mirror
from swapstone.parts.build.artifacts.snapshot import NO_NETWORK, Archives, from_other_archives

LOCK = "native/allocators.toml"
_FETCH_TIMEOUT_S = 600
_ONCE = "A network is needed once; downloads are cached."


class Source(FrozenStruct, frozen=True, kw_only=True):
    """A source archive.

    Attributes:
        version: of the program.
        kind: ``debian`` for the upstream archive of a source package, ``crate`` for a crate.
        package: name of the package or crate.
        file: name of the archive.
        sha256: digest of the archive.
    """

    version: str
    kind: str
    package: str
    file: str
    sha256: str


def read_lock(path: Path | None = None) -> dict[str, Source]:
    """Read a lock of sources.

    Args:
        path: of the file; by default the one that Swapstone ships.

    Raises:
        UserError: it can't be read as a lock.
    """
    path = path or share_dir() / LOCK
    return read_toml(path, dict[str, Source], f"Write it again: {tool_for(path)}")


def tool_for(lock: str | Path) -> str:
    """Return the command that writes a lock again, for use in a checkout."""
    return f"tools/lock-{Path(lock).stem}"


def cache_path(source: Source) -> Path:
    """Return the path of an archive in the cache."""
    return cache_dir() / "sources" / f"{source.sha256[:16]}-{source.file}"


def fetch(source: Source, lock: str = LOCK, notify: Callable[[str], None] = lambda _: None, what: str = "") -> Path:
    """Return an archive with the digest of the lock, from the cache or fetched.

    Args:
        source: to fetch.
        lock: path of the lock, for error messages.
        notify: called with a line for the user before a download.
        what: whose sources they are, for that line.

    Raises:
        UnavailableError: it can't be fetched; gives the reason.
        UserError: the fetched file has another digest.
    """
    kept = cache_path(source)
    home = kept.parent
    if not kept.is_file():
        notify(f"fetching the sources of {what}")
    with locked(home / "lock"), tempfile.TemporaryDirectory(dir=home, prefix=".fetching-") as work:
        if not kept.is_file() and not from_mirror(source.sha256, kept):
            fetched = (
                _from_crates(source, home, Path(work))
                if source.kind == "crate"
                else _from_archive(source, home, Path(work), lock)
            )
            _check_digest(fetched, source, lock)
            fetched.replace(kept)
    _check_digest(kept, source, lock)
    return kept


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack a source archive.

    Returns:
        The single folder in it.
    """
    with tarfile.open(archive) as opened:
        # Early releases of Python 3.11 have no filter; the digest of the archive is verified.
        opened.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        opened.extractall(folder)  # noqa: S202 - filtered, see above
    tops = [path for path in folder.iterdir() if path.is_dir()]
    assert len(tops) == 1, tops
    return tops[0]


def unpacked(source: Source, lock: str, name: str = "unpacked") -> Path:
    """Return the folder of sources in the cache, which are fetched and unpacked once.

    Args:
        source: pins them.
        lock: path of the lock.
        name: how the folder's name begins.

    Raises:
        UnavailableError: they can't be fetched.
    """
    home = cache_dir() / "sources" / f"{name}-{source.sha256[:16]}"
    if home.is_dir():
        return home
    archive = fetch(source, lock)
    with locked(home.parent / "lock"), tempfile.TemporaryDirectory(dir=home.parent, prefix=".unpacking-") as work:
        if not home.is_dir():
            unpack(archive, Path(work)).rename(home)
    return home


def _check_digest(path: Path, source: Source, lock: str) -> None:
    found = sha256_of(path)
    if found != source.sha256:
        raise UserError(
            f"{path} is not the {source.file} of {lock}: its SHA-256 is {found}, expected {source.sha256}.",
            "Remove the file and try again.",
        )


_run = functools.partial(run_package_manager, timeout_s=_FETCH_TIMEOUT_S)


def failure_cause(output: str) -> str:
    """Return the cause that apt-get or cargo names in its output: the first download that failed, cargo's innermost cause, or an error.

    Args:
        output: standard error, then standard output.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    failed = [line[3:] for line in lines if line.startswith(("E: Failed to fetch", "W: Failed to fetch"))]
    causes = [after for line, after in itertools.pairwise(lines) if line == "Caused by:"]
    errors = [line for line in lines if line.startswith(("E:", "error:"))]
    cause = (failed[:1] or causes[-1:] or errors[-1:] or lines[-1:] or ["it printed nothing"])[0]
    return f"no network: {cause}" if NO_NETWORK.search(cause) else cause


def _from_crates(source: Source, home: Path, work: Path) -> Path:
    """Fetch a crate with cargo into a separate home, and return its archive. Nothing of it is built or run."""
    (work / "src").mkdir()
    (work / "src" / "lib.rs").touch()
    (work / "Cargo.toml").write_text(
        '[package]\nname = "sources"\nversion = "0.0.0"\nedition = "2021"\n'
        f'[dependencies]\n{source.package} = "={source.version}"\n'
    )
    result = _run(["cargo", "fetch"], work, CARGO_HOME=str(home / "cargo"))
    found = next((home / "cargo" / "registry" / "cache").glob(f"*/{source.file}"), None)
    if found is None:
        raise UnavailableError(
            f"cargo can't fetch the crate {source.package} {source.version}: "
            f"{failure_cause(result.stderr + result.stdout)}.",
            _ONCE,
        )
    return found


def _from_archive(source: Source, home: Path, work: Path, lock: str) -> Path:
    """Fetch the upstream archive of a source package with apt-get: from the system's archives, else from other ones."""
    try:
        return _from_apt(SourceApt(home / "apt"), source, work, lock)
    except UnavailableError as gone:
        if NO_NETWORK.search(gone.message):
            raise
        return from_other_archives(
            gone, lambda other: _from_apt(SourceApt(home / f"apt-{other.name}", other), source, work, lock)
        )


def _from_apt(apt: SourceApt, source: Source, work: Path, lock: str) -> Path:
    """Fetch the upstream archive from the package version that has the locked archive; the lists may be outdated or missing."""
    error = ""
    for updated in (False, True):
        error = (updated and apt.update()) or error
        version = apt.version_with(source)
        if version is not None:
            result = apt.get(
                ["source", "--download-only", "--tar-only", "--only-source", f"{source.package}={version}"], work
            )
            if (work / source.file).is_file():
                return work / source.file
            error = failure_cause(result.stderr + result.stdout)
    if version is None and (others := apt.versions(source.package)):
        raise UnavailableError(
            f"This machine's package archive lacks the sources {source.file}; it has {source.package} {', '.join(others)}.",
            f"In a checkout, `{tool_for(lock)}` writes the archive's versions to {lock}; results are then of another version.",
        )
    raise UnavailableError(f"apt-get can't fetch the sources {source.file}: {error or 'no archive lists them'}.", _ONCE)


class SourceApt:
    """apt-get for source packages, with the system's sources, settings and keys, but separate lists and cache.

    Args:
        home: folder for its files.
        archives: to fetch from, instead of those of the system's sources lists.
    """

    def __init__(self, home: Path, archives: Archives | None = None) -> None:
        self._home = home
        self._archives = archives
        self._conf = home / "apt.conf"
        for name in ("state/lists/partial", "cache/archives/partial", "sources"):
            (home / name).mkdir(parents=True, exist_ok=True)
        self._conf.write_text(
            f'Dir::State "{home}/state";\nDir::State::status "/var/lib/dpkg/status";\nDir::Cache "{home}/cache";\n'
            f'Dir::Etc::sourcelist "{home}/none";\nDir::Etc::sourceparts "{home}/sources";\n'
            'Acquire::Languages "none";\nAPT::Sandbox::User "";\n'
            # Hooks of the system's updates, such as removing downloads, are disabled.
            "#clear APT::Update::Pre-Invoke;\n#clear APT::Update::Post-Invoke;\n#clear APT::Update::Post-Invoke-Success;\n"
        )

    def get(self, arguments: Sequence[str], cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run apt-get."""
        return _run(["apt-get", "-qq", "-c", str(self._conf), *arguments], cwd)

    def update(self) -> str:
        """Update the lists of source packages.

        Returns:
            The error messages of apt-get; empty if there are none.
        """
        self._write_sources()
        result = self.get(["update"], self._home)
        return (
            failure_cause(result.stderr + result.stdout)
            if result.returncode or re.search(r"^[EW]: ", result.stderr, re.MULTILINE)
            else ""
        )

    def stanzas(self, package: str) -> list[dict[str, str]]:
        """Return the fields of each version of a source package in the lists."""
        result = _run(["apt-cache", "-c", str(self._conf), "showsrc", "--only-source", package], self._home)
        return [stanza for stanza in paragraphs(result.stdout) if stanza.get("Package") == package]

    def versions(self, package: str) -> tuple[str, ...]:
        """Return the versions of a source package in the archive."""
        return tuple(sorted({stanza["Version"] for stanza in self.stanzas(package)}))

    def version_with(self, source: Source) -> str | None:
        """Return the version of the source package that contains the locked archive."""
        found = (s for s in self.stanzas(source.package) if source.sha256 in s.get("Checksums-Sha256", "").split())
        return next((stanza["Version"] for stanza in found), None)

    def _write_sources(self) -> None:
        """Write source lists from the system's lists of binary packages, or of other archives."""
        if self._archives:
            (self._home / "sources" / "other.list").write_text(self._archives.sources("deb-src"))
            return
        asked = ["apt-config", "shell", "LIST", "Dir::Etc::sourcelist/f", "PARTS", "Dir::Etc::sourceparts/d"]
        places = dict(word.partition("=")[::2] for word in shlex.split(_run(asked, self._home).stdout))
        parts = (
            sorted(Path(places.get("PARTS", "")).iterdir())
            if places.get("PARTS") and Path(places["PARTS"]).is_dir()
            else []
        )
        for old in (self._home / "sources").iterdir():
            old.unlink()
        for number, path in enumerate([Path(places.get("LIST", "")), *parts]):
            with contextlib.suppress(OSError):
                if convert := _AS_SOURCES.get(path.suffix):
                    text = convert(path.read_text("utf-8"))
                    (self._home / "sources" / f"{number}{path.suffix}").write_text(text)


def lines_as_sources(text: str) -> str:
    """Convert the lines of a ``.list`` file, ``deb [OPTIONS] URI SUITE COMPONENT...``, to lines of source packages, without comments."""
    found = (re.match(r"\s*deb(?:-src)?\s+(.+)", line) for line in text.splitlines())
    unique = dict.fromkeys(match[1].partition("#")[0].strip() for match in found if match)
    return "".join(f"deb-src {line}\n" for line in unique)


def deb822_as_sources(text: str) -> str:
    """Convert the stanzas of a ``.sources`` file to source packages; only the types change."""
    return re.sub(r"(?im)^Types:.*$", "Types: deb-src", text)


_AS_SOURCES = {".sources": deb822_as_sources, ".list": lines_as_sources}
"""How a file of sources is converted, by the ending of its name."""

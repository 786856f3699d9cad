# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fetch packages of any architecture with the system's apt-get, without root and without changing the system.

apt-get uses the system's sources, keys, proxies and preferences, but separate lists, cache and status for each architecture.
Packages are downloaded, not installed. Packages of an architecture that another release of Debian has come from the same mirrors and
are authenticated by the same keys.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from swapstone.core.artifacts.cache_folder import locked, writable_folder
from swapstone.core.artifacts.distribution_packages import require_command
from swapstone.core.model import FrozenStruct, UnavailableError, UserError
from swapstone.core.model.architectures import suite_of
from swapstone.core.model.directories import cache_dir
from swapstone.parts.build.artifacts.snapshot import Archives, archives_of, system_archives


def paragraphs(text: str) -> list[dict[str, str]]:
    """Return the fields of each paragraph. A value keeps its lines, without the space that marks a continuation.

    Args:
        text: paragraphs separated by empty lines. Lines without a colon are ignored.
    """
    return [
        {name: "\n".join(map(str.strip, value.split("\n"))) for name, value in _FIELD.findall(paragraph)}
        for paragraph in text.split("\n\n")
        if paragraph.strip()
    ]


_FIELD = re.compile(r"^([^\s:][^:\n]*):(.*(?:\n[ \t].*)*)", re.MULTILINE)
"""Name, and the value with its lines that begin with space: deb-control(5)."""


APT_TIMEOUT_S = 1800
_CLASSIC = {"LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
_KEYRINGS = ("/usr/share/keyrings/debian-archive-keyring.gpg", "/usr/share/keyrings/debian-archive-keyring.pgp")
"""Debian's keys, from the package debian-archive-keyring; without these files, apt-get uses those in /etc/apt/trusted.gpg.d."""

_UNKNOWN = re.compile(
    r"^E: (?:Version '[^']*' for '(?P<versioned>[^']+)' was not found|Unable to locate package (?P<name>\S+))"
)


class PackageVersion(FrozenStruct, frozen=True, kw_only=True):
    """A version of a package in an archive.

    Attributes:
        name: of the package.
        version: exact.
        sha256: digest of the file.
        size_bytes: size of the file.
        depends: names in Depends and Pre-Depends, the first of each list of alternatives.
    """

    name: str
    version: str
    sha256: str
    size_bytes: int
    depends: tuple[str, ...]


class PackageGoneError(UserError):
    """The archive does not have the requested version of a package.

    Attributes:
        names: of the packages that it does not have.
    """

    names: tuple[str, ...] = ()


_ALIAS = "stable"
"""Another name of the newest release of Debian."""


class Apt:
    """apt-get for one architecture.

    Args:
        architecture: its Debian name, such as ``arm64``.
        archives: to fetch from, instead of the system's sources.

    Raises:
        UnavailableError: apt-get is not installed.
        UserError: the cache can't be written.
    """

    def __init__(self, architecture: str, archives: Archives | None = None) -> None:
        for program in ("apt-get", "apt-cache", "dpkg-deb"):
            if shutil.which(program) is None:
                raise UnavailableError(
                    f"{program} is not installed on this machine, so the packages of an image can't be fetched.",
                    "Build the image on a Debian or Ubuntu machine, or copy the cache folder from one."
                    " `swapstone image vendor FOLDER` collects what images need, and SWAPSTONE_MIRROR=FOLDER uses it.",
                )
        self.architecture = architecture
        self.archives = archives
        self._suite = suite_of(architecture)
        self.home = cache_dir() / "apt" / (f"{architecture}-{archives.name}" if archives else architecture)
        with writable_folder(self.home):
            for name in ("state/lists/partial", "cache/archives/partial"):
                (self.home / name).mkdir(parents=True, exist_ok=True)
            (self.home / "status").touch()
            if archives:
                (self.home / "sources.list").write_text(archives.sources("deb", self._suite))
            elif self._suite:
                (self.home / "sources.list").write_text(self._suite_lines())
            (self.home / "apt.conf").write_text(self._configuration())

    def _configuration(self) -> str:
        settings = {
            "Dir::State": str(self.home / "state"),
            "Dir::State::status": str(self.home / "status"),
            "Dir::Cache": str(self.home / "cache"),
            "Dir::Cache::pkgcache": "pkgcache.bin",
            "Dir::Cache::srcpkgcache": "srcpkgcache.bin",
            "APT::Architecture": self.architecture,
            "APT::Sandbox::User": "root",  # the user _apt can't read a home folder; signatures and digests are still checked
            "Acquire::Languages": "none",
            "Acquire::Retries": "2",
            "Acquire::http::Timeout": "60",
            "Acquire::https::Timeout": "60",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
        }
        if self.archives or self._suite:
            settings |= {"Dir::Etc::sourcelist": str(self.home / "sources.list"), "Dir::Etc::sourceparts": "-"}
        cleared = (
            "APT::Architectures",
            "APT::Update::Pre-Invoke",
            "APT::Update::Post-Invoke",
            "APT::Update::Post-Invoke-Success",
        )
        lines = [f"#clear {name};" for name in cleared]
        lines += [f'{name} "{value}";' for name, value in settings.items()]
        return "\n".join([*lines, f'APT::Architectures {{ "{self.architecture}"; }};', ""])

    def alone(self) -> contextlib.AbstractContextManager[None]:
        """Hold the lock of this architecture's lists and cache."""
        return locked(self.home / "lock")

    def update(self) -> str:
        """Fetch the package lists.

        Returns:
            A line about archives that failed; empty if none did.

        Raises:
            UserError: no list could be fetched.
        """
        result = self._run("apt-get", "update", "--quiet", "--error-on=any")
        if result.returncode and self._suite and not self.archives and not self._has_lists(f"_dists_{self._suite}"):
            result = self._updated_by_alias() or result
        self.offers.cache_clear()
        if result.returncode == 0:
            return ""
        output = _first_complaint(result.stderr)
        if not self._has_lists():
            # apt-get refuses lists without keys.
            keys = f" The keys of {self._suite} are in the newest debian-archive-keyring." if self._suite else ""
            raise UserError(
                f"The lists of packages for {self.architecture} can't be fetched: {output}",
                f"Check the network: `apt-get update` must succeed on this machine.{keys}",
            )
        return output

    def _has_lists(self, part: str = "") -> bool:
        return any(part in path.name for path in (self.home / "state" / "lists").glob("*_Packages*"))

    def _updated_by_alias(self) -> subprocess.CompletedProcess[str] | None:
        """Fetch the lists of the release under its name `_ALIAS`, whose files a mirror may have where it lacks those of the codename.

        Returns:
            The end of apt-get; None if `_ALIAS` is another release.
        """
        sources = self.home / "sources.list"
        before = sources.read_text()
        sources.write_text(before.replace(f" {self._suite} ", f" {_ALIAS} "))
        result = self._run("apt-get", "update", "--quiet", "--error-on=any")
        lists = self.home / "state" / "lists"
        releases = [path.read_text(errors="replace") for path in lists.glob(f"*_dists_{_ALIAS}_*Release")]
        if releases and all(re.search(rf"^Codename: {self._suite}$", text, re.MULTILINE) for text in releases):
            return result
        for path in lists.glob(f"*_dists_{_ALIAS}_*"):
            path.unlink(missing_ok=True)
        sources.write_text(before)
        return None

    @functools.cache  # noqa: B019 - an Apt lives as long as one command
    def offers(self, name: str) -> tuple[PackageVersion, ...]:
        """Return every version of a package in the lists."""
        result = self._run("apt-cache", "show", "--all-versions", "--", name)
        return offers_in(result.stdout, name)

    def download(self, wanted: Iterable[tuple[str, str]], folder: Path) -> None:
        """Download packages into a folder.

        Args:
            wanted: pairs (name, version).
            folder: an existing folder.

        Raises:
            GoneError: the archive lacks some of them; the message names these.
            UserError: the download failed.
        """
        pairs = tuple(wanted)
        if not pairs:
            return
        names = [f"{name}={version}" for name, version in pairs]
        result = self._run("apt-get", "download", "--quiet", "--", *names, folder=folder)
        if result.returncode == 0:
            return
        matches = (_UNKNOWN.match(line) for line in result.stderr.splitlines())
        unknown = {match["versioned"] or match["name"] for match in matches if match}
        gone = [f"{name} {version}" for name, version in pairs if name in unknown]
        if gone:
            lost = PackageGoneError(f"The archive no longer has, for {self.architecture}: {', '.join(gone)}.")
            lost.names = tuple(name for name, _ in pairs if name in unknown)
            raise lost
        raise UserError(
            f"Packages for {self.architecture} can't be downloaded: {_first_complaint(result.stderr)}",
            "Check the network: `apt-get update` must succeed on this machine.",
        )

    def snapshot_archives(self) -> tuple[str, ...]:
        """Return those of the system's archives that the snapshot service has."""
        output = self._run("apt-get", "indextargets", "--format", "$(CREATED_BY) $(REPO_URI) $(CODENAME) $(COMPONENT)")
        lines = {line.removeprefix("Packages ") for line in output.stdout.splitlines() if line.startswith("Packages ")}
        return archives_of(lines)

    def _suite_lines(self) -> str:
        """Return lines for the architecture's release at each mirror of Debian that the system fetches packages from."""
        mirrors = sorted({line.split(" ")[0] for line in system_archives() if "/debian/ " in line})
        keys = next((f"[signed-by={keyring}] " for keyring in _KEYRINGS if Path(keyring).is_file()), "")
        return "".join(f"deb {keys}{mirror} {self._suite} main\n" for mirror in mirrors)

    def _run(self, program: str, *arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        return run_package_manager([program, "-c", str(self.home / "apt.conf"), *arguments], folder or self.home)


def run_package_manager(
    command: Sequence[str], folder: Path, timeout_s: float = APT_TIMEOUT_S, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program of apt, or cargo, with English output.

    Args:
        command: the program and its arguments.
        folder: working directory.
        timeout_s: time limit in seconds.
        environment: further variables.

    Raises:
        UnavailableError: it is not installed, or does not end in time.
    """
    require_command(command[0], "Fetching packages")
    try:
        return subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **_CLASSIC, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"{command[0]} did not finish within {timeout_s} s.") from error


def oldest(offers: Iterable[PackageVersion]) -> PackageVersion:
    """Return the lowest version.

    It is usually the version of the release, which stays in the archive. Versions of the security archive are replaced every few
    weeks, so a lock with them becomes outdated sooner.
    """
    return functools.reduce(lambda one, other: other if _lower(other.version, one.version) else one, offers)


def _lower(version: str, than: str) -> bool:
    return subprocess.run(["dpkg", "--compare-versions", version, "lt", than], check=False).returncode == 0


def offers_in(listed: str, name: str) -> tuple[PackageVersion, ...]:
    """Return the versions of a package that a text of ``apt-cache show`` lists; those without a digest, version or size are left out."""
    whole = (fields for fields in paragraphs(listed) if fields.get("Package") == name)
    return tuple(
        _offer(fields)
        for fields in whole
        if {"SHA256", "Version"} <= fields.keys() and re.fullmatch("[0-9]{1,15}", fields.get("Size", ""))
    )


def _offer(fields: dict[str, str]) -> PackageVersion:
    both = ",".join(fields.get(name, "") for name in ("Pre-Depends", "Depends"))
    names = (re.split(r"[\s(|:]", one.strip(), maxsplit=1)[0] for one in both.split(","))
    return PackageVersion(
        name=fields["Package"],
        version=fields["Version"],
        sha256=fields["SHA256"],
        size_bytes=int(fields["Size"]),
        depends=tuple(dict.fromkeys(name for name in names if name)),
    )


def _first_complaint(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return next((line[3:] for line in lines if line.startswith("E: ")), lines[-1] if lines else "no reason given")

"""Asking the machine's own package manager for packages of any architecture, without touching the system and without root.

apt-get runs with the system's sources, keys, proxies and preferences, but with lists, cache and status of our own, one set for
each architecture. Nothing is installed: packages are only downloaded.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from swapstone.model import FrozenStruct, UnavailableError, UserError
from swapstone.model.directories import cache_dir

APT_TIMEOUT_S = 1800
_CLASSIC = {"LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
_UNKNOWN = re.compile(
    r"^E: (?:Version '[^']*' for '(?P<versioned>[^']+)' was not found|Unable to locate package (?P<name>\S+))"
)


class Offer(FrozenStruct, frozen=True, kw_only=True):
    """A version of a package that an archive has.

    Attributes:
        name: the package's.
        version: exact.
        sha256: of its file.
        size_bytes: of its file.
        depends: what it names in Depends and Pre-Depends, the first of each list of alternatives.
    """

    name: str
    version: str
    sha256: str
    size_bytes: int
    depends: tuple[str, ...]


class GoneError(UserError):
    """The archive doesn't have a package in the version that was asked for."""


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[Path]:
    """Make a folder of the cache, and turn a full or unwritable one into an error that says so.

    Args:
        folder: made with its parents.

    Raises:
        UserError: it can't be made, or something can't be written while the context lasts.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
    except OSError as error:
        raise UserError(
            f"The cache folder {folder} can't be written: {error.strerror or error}.",
            "`swapstone image gc` makes room; XDG_CACHE_HOME names another place for the cache.",
        ) from error


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file, so that two programs don't make one thing at once; waits for it."""
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


class Apt:
    """apt-get for one architecture.

    Args:
        architecture: Debian's name of it, such as ``arm64``.

    Raises:
        UnavailableError: there is no apt-get here.
        UserError: the cache can't be written.
    """

    def __init__(self, architecture: str) -> None:
        for program in ("apt-get", "apt-cache", "dpkg-deb"):
            if shutil.which(program) is None:
                raise UnavailableError(
                    f"There is no {program} on this machine: an image's packages can't be fetched.",
                    "Build the image on a Debian or Ubuntu machine, or copy its cache folder from one.",
                )
        self.architecture = architecture
        self.home = cache_dir() / "apt" / architecture
        with writing(self.home):
            for name in ("state/lists/partial", "cache/archives/partial"):
                (self.home / name).mkdir(parents=True, exist_ok=True)
            (self.home / "status").touch()
            (self.home / "apt.conf").write_text(self._configuration())

    def _configuration(self) -> str:
        settings = {
            "Dir::State": str(self.home / "state"),
            "Dir::State::status": str(self.home / "status"),
            "Dir::Cache": str(self.home / "cache"),
            "Dir::Cache::pkgcache": "pkgcache.bin",
            "Dir::Cache::srcpkgcache": "srcpkgcache.bin",
            "APT::Architecture": self.architecture,
            "APT::Sandbox::User": "root",  # the user _apt may not enter a home folder; signatures and digests are checked
            "Acquire::Languages": "none",
            "Acquire::Retries": "2",
            "Acquire::http::Timeout": "60",
            "Acquire::https::Timeout": "60",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
        }
        cleared = (
            "APT::Architectures",
            "APT::Update::Pre-Invoke",
            "APT::Update::Post-Invoke",
            "APT::Update::Post-Invoke-Success",
        )
        lines = [f"#clear {name};" for name in cleared]
        lines += [f'{name} "{value}";' for name, value in settings.items()]
        return "\n".join([*lines, f'APT::Architectures {{ "{self.architecture}"; }};', ""])

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock on this architecture's lists and cache."""
        with locked(self.home / "lock"):
            yield

    def update(self) -> str:
        """Fetch the lists of what the archives have.

        Returns:
            What went wrong with some of the archives, in a line; empty if nothing did.

        Raises:
            UserError: no list at all could be fetched.
        """
        result = self._run("apt-get", "update", "--quiet", "--error-on=any")
        self.offers.cache_clear()
        if result.returncode == 0:
            return ""
        said = _first_complaint(result.stderr)
        if not any((self.home / "state" / "lists").glob("*_Packages*")):
            raise UserError(
                f"The lists of packages for {self.architecture} can't be fetched: {said}",
                "Is there a network? `apt-get update` must work on this machine.",
            )
        return said

    @functools.cache  # noqa: B019 - an Apt lives as long as one command
    def offers(self, name: str) -> tuple[Offer, ...]:
        """Return every version of a package that the lists name; none where they don't know it."""
        result = self._run("apt-cache", "show", "--all-versions", "--", name)
        stanzas = (_fields(stanza) for stanza in result.stdout.split("\n\n") if stanza.strip())
        return tuple(_offer(fields) for fields in stanzas if fields.get("Package") == name and "SHA256" in fields)

    def download(self, wanted: Iterable[tuple[str, str]], folder: Path) -> None:
        """Download packages into a folder.

        Args:
            wanted: pairs (name, version).
            folder: must exist.

        Raises:
            GoneError: the archive doesn't have one of them; the message names those.
            UserError: the download failed.
        """
        pairs = tuple(wanted)
        if not pairs:
            return
        names = [f"{name}={version}" for name, version in pairs]
        result = self._run("apt-get", "download", "--quiet", "--", *names, folder=folder)
        if result.returncode == 0:
            return
        unknown = _unknown(result.stderr)
        gone = [f"{name} {version}" for name, version in pairs if name in unknown]
        if gone:
            raise GoneError(f"The archive no longer has, for {self.architecture}: {', '.join(gone)}.")
        raise UserError(
            f"Packages for {self.architecture} can't be downloaded: {_first_complaint(result.stderr)}",
            "Is there a network? `apt-get update` must work on this machine.",
        )

    def source_changes(self, name: str, version: str) -> Path:
        """Download what a distribution changed in a program's source: ``NAME_VERSION.debian.tar.xz``. The caller holds the lock.

        The system's sources needn't name source packages; they are asked for where its packages come from.

        Returns:
            The file, in a folder of ours.

        Raises:
            GoneError: the archive doesn't have this version.
            UserError: the lists or the file can't be fetched.
        """
        home = self.home / "source"
        (home / "lists" / "partial").mkdir(parents=True, exist_ok=True)
        said = self._run(
            "apt-get", "indextargets", "--format", "$(CREATED_BY) deb-src $(REPO_URI) $(CODENAME) $(COMPONENT)"
        )
        lines = {line.removeprefix("Packages ") for line in said.stdout.splitlines() if line.startswith("Packages ")}
        (home / "sources.list").write_text("".join(f"{line}\n" for line in sorted(lines)))
        places = {
            "Dir::State::lists": home / "lists",
            "Dir::Etc::sourcelist": home / "sources.list",
            "Dir::Etc::sourceparts": "-",
        }
        options = [word for place, path in places.items() for word in ("-o", f"{place}={path}")]
        found = home / f"{name}_{version.partition(':')[2] or version}.debian.tar.xz"
        fetched = self._run("apt-get", *options, "update", "--quiet", "--error-on=any")
        result = self._run(
            "apt-get", *options, "source", "--download-only", "--diff-only", "--quiet", f"{name}={version}", folder=home
        )
        if not found.is_file():
            trouble = _first_complaint(result.stderr or fetched.stderr)
            raise GoneError(
                f"The archive no longer has the source of {name} {version}, or it can't be fetched: {trouble}"
            )
        return found

    def _run(self, program: str, *arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        command = [program, "-c", str(self.home / "apt.conf"), *arguments]
        environment = {**os.environ, **_CLASSIC}
        try:
            return subprocess.run(
                command,
                cwd=folder or self.home,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=APT_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise UserError(f"{program} {arguments[0]} did not finish within {APT_TIMEOUT_S} s.") from error
        except OSError as error:
            raise UnavailableError(f"{program} can't be run: {error.strerror}.") from error


def oldest(offers: Iterable[Offer]) -> Offer:
    """Return the offer with the lowest version.

    That is usually the release's own, which stays in the archive; the newest come from its security suite, where they are replaced
    every few weeks, and a lock that names one ages as fast.
    """
    return functools.reduce(lambda one, other: other if _lower(other.version, one.version) else one, offers)


def _lower(version: str, than: str) -> bool:
    return subprocess.run(["dpkg", "--compare-versions", version, "lt", than], check=False).returncode == 0


def _fields(stanza: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in stanza.splitlines():
        name, colon, value = line.partition(":")
        if colon and not line.startswith((" ", "\t")):
            fields[name] = value.strip()
    return fields


def _offer(fields: dict[str, str]) -> Offer:
    both = ",".join(fields.get(name, "") for name in ("Pre-Depends", "Depends"))
    names = (re.split(r"[\s(|:]", one.strip(), maxsplit=1)[0] for one in both.split(","))
    return Offer(
        name=fields["Package"],
        version=fields["Version"],
        sha256=fields["SHA256"],
        size_bytes=int(fields["Size"]),
        depends=tuple(dict.fromkeys(name for name in names if name)),
    )


def _unknown(stderr: str) -> set[str]:
    found = (_UNKNOWN.match(line) for line in stderr.splitlines())
    return {match["versioned"] or match["name"] for match in found if match}


def _first_complaint(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return next((line[3:] for line in lines if line.startswith("E: ")), lines[-1] if lines else "no reason given")

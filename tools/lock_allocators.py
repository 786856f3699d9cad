# SPDX-License-Identifier: MIT OR Apache-2.0
"""Update a lock of sources to the versions of this machine's package archives: allocators, or with --lock servers.

Results from before and after are of different versions. Build and run all of them once before you commit the new lock:
``./test --slow -k allocator``, or ``./test --slow -k servers``.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from swapstone.core.model.directories import cache_dir, share_dir
from swapstone.parts.build.artifacts.apt import Apt
from swapstone.parts.build.artifacts.snapshot import pin_snapshot
from swapstone.parts.build.artifacts.upstream_sources import LOCK, Source, SourceApt, read_lock


def main(arguments: list[str]) -> int:
    """Update the named sources."""
    parser = argparse.ArgumentParser(prog="tools/lock-allocators", description=__doc__)
    parser.add_argument("names", nargs="*", help="sources to update; by default all of the lock")
    parser.add_argument("--lock", default=LOCK, help="path of the lock in the checkout (default: %(default)s)")
    asked = parser.parse_args(arguments)
    names, path = asked.names, share_dir() / asked.lock
    lock = read_lock(path)
    if unknown := [name for name in names if name not in lock]:
        parser.error(f"{asked.lock} has no {unknown[0]}; it has {', '.join(lock)}")
    for name in names or (name for name in lock if ":" not in name):
        source = lock[name]
        lock[name] = (_newest_crate if source.kind == "crate" else _newest_archive)(source)
        print(f"{name}: {source.version} -> {lock[name].version}", file=sys.stderr)
    head = path.read_text("utf-8").partition("\n[")[0]  # the comment that explains it
    path.write_text("\n".join([head, *(_stanza(name, source) for name, source in lock.items())]))
    binaries = Apt("amd64")
    binaries.update()  # names the releases of the archives
    pin_snapshot(binaries.snapshot_archives())
    return 0


def _newest_archive(source: Source) -> Source:
    """Return the version of the source package that the archive lists first."""
    apt = SourceApt(cache_dir() / "sources" / "apt")
    apt.update()
    stanza = apt.stanzas(source.package)[0]
    files = (line.split() for line in stanza["Checksums-Sha256"].splitlines())
    sha256, _, file = next(
        fields for fields in files if fields and ".orig.tar" in fields[2] and not fields[2].endswith(".asc")
    )
    version = stanza["Version"].rpartition("-")[0].partition("+")[0]
    return msgspec.structs.replace(source, version=version, file=file, sha256=sha256)


def _newest_crate(source: Source) -> Source:
    """Return the newest version of the crate, with the digest of the archive that cargo fetches."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "src").mkdir()
        (work / "src" / "lib.rs").touch()
        manifest = '[package]\nname = "sources"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n'
        (work / "Cargo.toml").write_text(f'{manifest}{source.package} = "*"\n')
        subprocess.run(["cargo", "fetch", "--quiet"], cwd=work, check=True)
        listed = subprocess.run(
            ["cargo", "metadata", "--format-version", "1"], cwd=work, check=True, capture_output=True
        ).stdout
        packages = msgspec.json.decode(listed)["packages"]
        found = next(package for package in packages if package["name"] == source.package)
        file = f"{source.package}-{found['version']}.crate"
        registry = Path(found["manifest_path"]).parents[3]
        archive = next((registry / "cache").glob(f"*/{file}"))
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    return msgspec.structs.replace(source, version=found["version"], file=file, sha256=digest)


def _stanza(name: str, source: Source) -> str:
    fields = msgspec.structs.asdict(source)
    key = f'"{name}"' if ":" in name else name
    return f"[{key}]\n" + "".join(f'{key} = "{value}"\n' for key, value in fields.items())

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Names of glibc's internal functions: the image's glibc is stripped, and its symbols are in another package of the same version.

The package is fetched only if code of a stripped glibc was executed that no debug file of this machine names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from swapstone.core.model import UserError
from swapstone.parts.explain.instruments.code_files import CodeFile
from swapstone.parts.explain.instruments.symbol_tables import Table, companion_of, debug_name, missing_symbols, table_of

_GLIBC = ("ld-linux", "libc.so.6", "libm.so.6", "libpthread.so.0", "librt.so.1")
"""How names of glibc's files in an image begin (parts/vm/artifacts/image_catalog.py)."""

FindDebugFile = Callable[[str, Path, Callable[[str], None]], tuple[str, bytes | None]]


class DebugFiles:
    """The functions of files, with the debug files of glibc's package.

    Args:
        find: returns a debug file: `swapstone.core.targets.observed_target.ObservedTarget.debug_file`.
        folder: for temporary files.
        notify: called before a download.
    """

    def __init__(self, find: FindDebugFile, folder: Path, notify: Callable[[str], None]) -> None:
        self._find, self._folder, self._notify = find, folder, notify
        self._table = functools.cache(self._read)
        self._files: dict[str, bytes | None] = {}
        self._source = ""
        self._unnamed: dict[str, None] = {}
        self._failure = ""

    def table(self, file: CodeFile) -> Table | None:
        """Return the functions of a file; None if it can't be read."""
        return self._table(file.symbols, file.name)

    def _read(self, path: Path, name: str) -> Table | None:
        build = missing_symbols(path) if name.startswith(_GLIBC) else ""
        if build and (content := self._content(name, build)) is not None:
            companion_of(path).write_bytes(content)
        return table_of(path)

    def notes(self) -> tuple[str, ...]:
        """Return where the names of glibc's functions come from, and why functions have none, as sentences."""
        named = f"Names of glibc's internal functions are from {self._source}." if any(self._files.values()) else ""
        return tuple(filter(None, (named, *self._unnamed)))

    def _content(self, name: str, build: str) -> bytes | None:
        """Return the debug file of a build ID; None if the package does not have it, or if it can't be fetched."""
        if build not in self._files and not self._failure:  # a download that failed is not repeated for each file
            try:
                self._source, self._files[build] = self._find(debug_name(build), self._folder, self._notify)
            except UserError as error:
                self._failure = error.message.removesuffix(".")
        content = self._files.get(build)
        if content is None:
            why = self._failure or f"{self._source} has no symbols of build ID {build}"
            self._unnamed[f"Internal functions of {name} have no names: {why}."] = None
        return content

# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the scripts on the machine of the load generators print, decoded strictly: that machine may be hostile."""

from __future__ import annotations

import re

from swapstone.model import WireError
from swapstone.model.safe_text import safe_excerpt
from swapstone.targets.driver_scripts import END, HEADER, NEEDED

MOST_BYTES = 16_384
"""Of one answer."""

_MOST_LINES = 64
_LINE = re.compile(r"(?P<key>[a-z0-9]{1,16}) (?P<hex>(?:[0-9a-f]{2}){0,400})", re.ASCII)
SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)

FACTS = ("kernel", "architecture", "system", "cpu", "cpus", "memory")
"""Facts of the machine that a record keeps, in the order in which reports print them."""

_KEYS = frozenset({*FACTS, "boot", "client", "missing", "path", "sha256"})


def decode_driver_answer(data: bytes) -> dict[str, str]:
    """Decode an answer.

    Args:
        data: the whole output of a script.

    Returns:
        Texts by key; ``missing`` has the programs that are missing, separated by blanks. Each is one line that steers no terminal.

    Raises:
        WireError: it is longer than `MOST_BYTES`, cut off, or has another form.
    """
    if len(data) > MOST_BYTES:
        raise WireError(f"The answer of the load generators' machine is longer than {MOST_BYTES} bytes.")
    lines = data.decode("ascii", errors="replace").split("\n")
    if lines[0] != HEADER or lines[-2:] != [END, ""] or len(lines) > _MOST_LINES:
        shown = safe_excerpt(lines[0], 80)
        raise WireError(
            f"The answer of the load generators' machine is cut off or not Swapstone's; it begins with {shown!r}.",
            "A login shell that prints something, such as a greeting in ~/.bashrc, is one cause.",
        )
    found: dict[str, str] = {}
    for line in lines[1:-2]:
        match = _LINE.fullmatch(line)
        if match is None or match["key"] not in _KEYS or (match["key"] in found and match["key"] != "missing"):
            raise WireError(
                f"The load generators' machine answered a line that is not valid: {safe_excerpt(line, 80)!r}."
            )
        value = safe_excerpt(bytes.fromhex(match["hex"]).decode(errors="replace").strip(), 400)
        if match["key"] == "missing":
            if value not in NEEDED:
                raise WireError("The load generators' machine lacks a program that was not looked for.")
            value = f"{found.get('missing', '')} {value}".strip()
        found[match["key"]] = value
    return found


def decode_program(data: bytes) -> tuple[str, str] | None:
    """Decode the answer to a search for a program.

    Returns:
        Its absolute path and the SHA-256 of its file; None if there is none.

    Raises:
        WireError: the answer has another form.
    """
    found = decode_driver_answer(data)
    if not found:
        return None
    path, digest = found.get("path", ""), found.get("sha256", "")
    if not path.startswith("/") or set(found) != {"path", "sha256"} or not SHA256.fullmatch(digest):
        raise WireError("The load generators' machine answered no path and digest of a program.")
    return path, digest

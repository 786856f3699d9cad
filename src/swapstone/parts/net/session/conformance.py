# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs packetdrill scripts on network stacks: `swapstone conform`. docs/netstack-conform.md describes it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from swapstone.core.model import UnavailableError, UserError, refuse
from swapstone.core.model.directories import share_dir
from swapstone.core.model.toml_file import TomlError, decode_toml
from swapstone.core.report.printed_json import printed_json
from swapstone.parts.net.artifacts.crates import build_package, missing_crate_requirement
from swapstone.parts.net.factors.netstack import NETSTACK
from swapstone.parts.net.model.conformance import (
    PASSED,
    REFUSED,
    STACKS,
    Conformance,
    ScriptOutcome,
    decode_script_outcome,
    in_order,
)
from swapstone.parts.net.report.conformance_table import rfc_table, text_of

PACKAGE = "swapstone-net-packetdrill"
KNOWN_FILE = "known-failures.toml"
_KERNEL = "kernel"
_JOBS = 8  # scripts over the kernel wait for most of their time
_FORMATS = ("text", "json", "markdown")


def scripts_folder() -> Path:
    """Return the folder of the scripts that Swapstone ships."""
    return share_dir() / "crates" / PACKAGE / "scripts"


def shipped_scripts() -> dict[str, str]:
    """Return the names of the shipped scripts, such as ``rfc9293/listen-syn``, by their paths."""
    top = scripts_folder()
    return {str(path): path.relative_to(top).with_suffix("").as_posix() for path in sorted(top.rglob("*.pkt"))}


def decode_known(content: bytes, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Decode the list of known failures.

    Args:
        content: TOML: a table for each stack, of reasons by the name of a script.
        names: of all scripts.

    Returns:
        Reasons by stack and name.

    Raises:
        UserError: it is no such list, or names a script that does not exist.
    """
    try:
        known = msgspec.convert(decode_toml(content), dict[str, dict[str, str]])
    except (TomlError, msgspec.ValidationError) as error:
        raise UserError(f"{KNOWN_FILE} can't be read: {error}.") from error
    for stack, reasons in known.items():
        missing = next(iter(sorted(set(reasons) - set(names))), "")
        empty = next((name for name, reason in reasons.items() if not reason.strip()), "")
        refuse(
            (stack not in STACKS, f"{KNOWN_FILE} names no stack: {stack!r}.", ""),
            (missing, f"{KNOWN_FILE} names a script that does not exist: {missing}.", ""),
            (empty, f"{KNOWN_FILE} gives no reason for {empty}.", ""),
        )
    return known


def known_failures() -> dict[str, dict[str, str]]:
    """Return the known failures of the shipped scripts, by stack and name.

    Raises:
        UserError: the list is invalid.
    """
    return decode_known((scripts_folder() / KNOWN_FILE).read_bytes(), list(shipped_scripts().values()))


def documented_table() -> str:
    """Return the table of RFCs by stack, as Markdown."""
    return rfc_table(shipped_scripts().values(), known_failures())


def conform(
    scripts: Sequence[str],
    stacks: str,
    kind: str,
    notify: Callable[[str], None] = lambda _: None,
    *,
    skip_code: bool = False,
) -> tuple[str, int]:
    """Run scripts, by default all that Swapstone ships.

    Args:
        scripts: files, or folders with files ``*.pkt``.
        stacks: names, separated by commas.
        kind: ``text``, ``json`` or ``markdown``.
        notify: called with lines for the user.
        skip_code: leave out shell commands and Python code of scripts, which are refused otherwise; they are never executed.

    Returns:
        What to print, and the exit status: 0 if every script passed, or failed as it is known to; else 2, also if one of several scripts
        is refused. Known failures are those of stacks with all their fixes.

    Raises:
        UserError: a name is wrong, or the only script is refused.
        UnavailableError: a stack can't run here.
    """
    assert kind in _FORMATS, kind
    chosen = _stacks(stacks)
    names = _named(scripts) if scripts else shipped_scripts()
    known = known_failures() if not scripts or set(names) <= set(shipped_scripts()) else {}
    if _KERNEL in chosen and (missing := missing_crate_requirement()) is not None:
        raise UnavailableError(missing[0], f"{missing[1]} Or leave the kernel out: --stack lwip,smoltcp")
    if kind == "markdown" and not scripts:
        return documented_table(), 0
    found = Conformance(outcomes=_run(list(names), chosen, notify, skip_code=skip_code), known=known, names=names)
    one = found.outcomes[0]
    if len(names) == 1 and one.outcome == REFUSED:
        raise UserError(
            f"{found.name(one)}{one.place}: {one.reason}.", "`swapstone docs netstack-conform` lists the language."
        )
    status = 2 if found.unexpected or found.outdated else 0
    return (to_json(found) if kind == "json" else text_of(found)), status


def to_json(found: Conformance) -> str:
    """Return the outcomes as JSON, each with the reason if its failure is known."""
    rows = [
        {**msgspec.to_builtins(one), "script": found.name(one), "known": found.reason(one)} for one in found.outcomes
    ]
    stacks = in_order((*STACKS, *(one.stack for one in found.outcomes)))
    passed = {stack: sum(one.stack == stack and one.outcome == PASSED for one in found.outcomes) for stack in stacks}
    return printed_json("conformance", passed=passed, outcomes=rows)


def _stacks(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        stack, colon, _ = name.partition(":")
        # A level of the factor, but none of the kernel's congestion controls: scripts run with cubic.
        # Nor options that tune a stack: the scripts have those of the conformance suite.
        if stack not in STACKS or "=" in name or (colon and (stack == _KERNEL or NETSTACK.level_of_text(name) is None)):
            raise UserError(
                f"There is no stack {name!r}.",
                f"There are {', '.join(STACKS)}; smoltcp:shipped and smoltcp:without-FIX, and the same of lwip.",
            )
    return in_order(names)


def _named(scripts: Sequence[str]) -> dict[str, str]:
    """Return the names of the scripts in files and folders, by their paths."""
    shipped = shipped_scripts()
    by_name = {name: path for path, name in shipped.items()}
    found: dict[str, str] = {}
    for text in scripts:
        path = Path(by_name.get(text, text))
        if not path.exists():
            raise UserError(
                f"There is no script {text!r}.",
                "Name a file, a folder, or a shipped script such as rfc9293/listen-syn.",
            )
        files = sorted(path.rglob("*.pkt")) if path.is_dir() else [path]
        if not files:
            raise UserError(f"The folder {text} has no files *.pkt.")
        for each in files:
            whole = str(each.resolve())
            found[whole] = shipped.get(whole, str(each))
    return found


def _run(
    paths: Sequence[str], stacks: Sequence[str], notify: Callable[[str], None], *, skip_code: bool
) -> tuple[ScriptOutcome, ...]:
    program = build_package(PACKAGE, notify=notify).path
    jobs = _JOBS if _KERNEL in stacks else 2
    command = (str(program), "--stack", ",".join(stacks), "--jobs", str(jobs), *(["--skip-code"] * skip_code), *paths)
    found: list[ScriptOutcome] = []
    total = len(paths) * len(stacks)
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            try:
                found.append(decode_script_outcome(line))
            except ValueError as error:
                running.kill()
                raise UserError(f"{PACKAGE} printed a line that is no outcome: {error}.") from error
            if len(found) % 100 == 0:
                notify(f"{len(found)} of {total} runs of scripts are done")
    if len(found) != total:
        raise UserError(f"{PACKAGE} ended with status {running.returncode} after {len(found)} of {total} runs.")
    place = {path: index for index, path in enumerate(paths)}
    order = {stack: index for index, stack in enumerate(stacks)}
    return tuple(sorted(found, key=lambda one: (place.get(one.script, len(place)), order.get(one.stack, len(order)))))

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs packetdrill scripts on network stacks: `swapstone conform`. docs/netstack-conform.md describes it."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from swapstone.core.model import UnavailableError, UserError, refuse
from swapstone.core.model.directories import share_dir
from swapstone.core.model.frozen_struct import FrozenStruct
from swapstone.core.model.safe_text import safe
from swapstone.core.report.printed_json import printed_json
from swapstone.parts.net.artifacts.crates import build_package, missing_crate_requirement
from swapstone.parts.net.factors.netstack import KERNEL, NETSTACK

STACK_TITLES = {"lwip": "lwIP", "smoltcp": "smoltcp", KERNEL: "the kernel"}
STACKS = tuple(STACK_TITLES)

PASSED, FAILED, REFUSED = "passed", "failed", "bad-script"


def stack_title(stack: str) -> str:
    """Return how sentences name a stack, such as ``smoltcp without its fixes``.

    Args:
        stack: one of `STACKS`, perhaps with ``:shipped`` or ``:without-FIX``.
    """
    name, colon, fixes = stack.partition(":")
    without = "its fixes" if fixes == "shipped" else fixes.removeprefix("without-")
    return f"{STACK_TITLES[name]} without {without}" if colon else STACK_TITLES[name]


def in_order(stacks: Iterable[str]) -> list[str]:
    """Return each of some stacks once, in the order of `STACKS`, and else as they came."""
    return sorted(dict.fromkeys(stacks), key=lambda stack: STACKS.index(stack.partition(":")[0]))


class ScriptOutcome(FrozenStruct, frozen=True, kw_only=True):
    """What a script found about a stack.

    Attributes:
        script: the path of the script.
        stack: one of `STACKS`, or one of them as ``smoltcp:shipped`` or ``smoltcp:without-FIX``.
        outcome: ``unsupported`` if the runner lacks a part of the language, ``unavailable`` if the stack can't run here.
        line: of the script, from 1; 0 for none.
        column: the character of that line, from 1, if the script or a part of it is refused; else 0.
        reason: what went wrong.
        expected: the packet or call of the script, in its notation; empty for none.
        seen: what was seen instead.
        skipped: how many shell commands and pieces of Python code of the script were left out. Over the kernel, harmless sysctls that a
            command sets in the network namespace of the script are not left out.
        unevaluated: how many of these are Python code. Assertions about ``tcp_info`` are evaluated over the kernel.
    """

    script: str
    stack: str
    outcome: Literal["passed", "failed", "unsupported", "unavailable", "bad-script"]
    line: int = 0
    column: int = 0
    reason: str = ""
    expected: str = ""
    seen: str = ""
    skipped: Annotated[int, msgspec.Meta(ge=0)] = 0
    unevaluated: Annotated[int, msgspec.Meta(ge=0)] = 0

    def __post_init__(self) -> None:
        if self.stack.partition(":")[0] not in STACKS:
            raise ValueError("it names no stack")

    @property
    def place(self) -> str:
        """Return line and column as messages print them behind the name of the script, such as ``:3:12``."""
        return "".join(f":{number}" for number in (self.line, self.column) if number)


class Conformance(FrozenStruct, frozen=True, kw_only=True):
    """The outcomes of scripts on stacks.

    Attributes:
        outcomes: in the order of scripts and stacks.
        known: reasons of known failures, by stack and script name; empty for a user's own scripts.
        names: the name of each script, by its path.
    """

    outcomes: tuple[ScriptOutcome, ...]
    known: Mapping[str, Mapping[str, str]]
    names: Mapping[str, str]

    def name(self, outcome: ScriptOutcome) -> str:
        """Return the name of a script: folder and file, as ``rfc9293/listen-syn``."""
        return self.names.get(outcome.script, outcome.script)

    def reason(self, outcome: ScriptOutcome) -> str | None:
        """Return why a failure is known; None if it is not."""
        return self.known.get(outcome.stack, {}).get(self.name(outcome))

    @property
    def unexpected(self) -> tuple[ScriptOutcome, ...]:
        """Return what did not pass and is not known."""
        return tuple(one for one in self.outcomes if one.outcome != PASSED and self.reason(one) is None)

    @property
    def outdated(self) -> tuple[ScriptOutcome, ...]:
        """Return what is known to fail and passed."""
        return tuple(one for one in self.outcomes if one.outcome == PASSED and self.reason(one) is not None)


_LONGEST_LINE = 1 << 16


def decode_script_outcome(line: bytes) -> ScriptOutcome:
    """Decode a line of swapstone-net-packetdrill.

    Args:
        line: JSON.

    Raises:
        ValueError: it is no outcome.
    """
    if len(line) > _LONGEST_LINE:
        raise ValueError(f"the line has more than {_LONGEST_LINE} bytes")
    try:
        return msgspec.json.decode(line, type=ScriptOutcome)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error


def answer(found: Conformance) -> str:
    """Return how many scripts each stack passes, how many of these without their assertions, and the commonest reasons of the others."""
    parts = []
    for stack in in_order(one.stack for one in found.outcomes):
        outcomes = Counter[str](one.outcome for one in found.outcomes if one.stack == stack)
        run = outcomes[PASSED] + outcomes[FAILED]
        others = sum(outcomes.values()) - run
        title = stack_title(stack)
        if not run:
            parts.append(f"{title} ran none")
            continue
        scripts = f" script{'s' * (run != 1)}" if not parts else ""
        lacking = sum(one.stack == stack and one.outcome == PASSED and one.unevaluated > 0 for one in found.outcomes)
        rest = "; ".join(
            (
                *[f"{lacking} without the assertions of their code"] * (lacking > 0),
                *[f"{others} could not run"] * (others > 0),
            )
        )
        rest = f" ({rest})" if rest else ""
        parts.append(f"{title} passes {outcomes[PASSED]} of {run}{scripts}{rest}")
    text = ", ".join(parts) + "."
    settings = {one.script for one in found.outcomes if one.skipped > one.unevaluated}
    if settings:
        text += f" Shell commands of {len(settings)} {'scripts' if len(settings) > 1 else 'script'} were left out."
    text += _reasons("Could not run", (one for one in found.unexpected if one.outcome != FAILED))
    text += _reasons("Failed", (one for one in found.unexpected if one.outcome == FAILED))
    return text[0].upper() + text[1:] if text.startswith("the ") else text


def _reasons(what: str, outcomes: Iterable[ScriptOutcome]) -> str:
    """Return the two commonest reasons of scripts; empty for fewer than three scripts, which are listed below."""
    reasons = Counter(
        reason for _, reason in {(one.script, re.sub(r"\d+(\.\d+)?", "N", one.reason)) for one in outcomes}
    )
    if reasons.total() < 3:
        return ""
    parts = [f"{count} because {reason}" for reason, count in reasons.most_common(2)]
    others = reasons.total() - sum(count for _, count in reasons.most_common(2))
    return f" {what}: {'; '.join((*parts, *[f'{others} for other reasons'] * (others > 0)))}."


def text_of(found: Conformance) -> str:
    """Return the answer and every script that did not pass, with the expected and the seen packet."""
    lacking = {one.script: one for one in found.outcomes if one.skipped}
    refused = {one.script: one for one in found.outcomes if one.outcome == REFUSED}
    unexpected = [one for one in found.unexpected if one.outcome != REFUSED]
    known = [one for one in found.outcomes if one.outcome != PASSED and found.reason(one) is not None]
    outdated = (
        f"{found.name(one)} passes on {one.stack}, but its failure is known: remove it from the list."
        for one in found.outdated
    )
    sections = (
        (
            "Shell commands and pieces of Python code that were left out:",
            [f"  {found.name(one)}: {one.skipped}" for one in lacking.values()],
        ),
        (
            "Refused scripts, which no stack ran:",
            [f"  {found.name(one)}{one.place}: {one.reason}" for one in refused.values()],
        ),
        ("Failures that are not known:", [line for one in unexpected for line in _failure(found, one)]),
        *((text, [""]) for text in outdated),
        ("Known failures, each with its reason:", [line for one in known for line in _failure(found, one)]),
    )
    lines = [answer(found), *(line for title, below in sections if below for line in ("", title, *filter(None, below)))]
    return "\n".join(map(safe, lines)) + "\n"


def _failure(found: Conformance, one: ScriptOutcome) -> Iterator[str]:
    yield f"  {found.name(one)}{one.place} on {one.stack}: {one.outcome}: {one.reason}"
    if one.expected:
        yield f"    expected  {one.expected}"
        yield f"    seen      {one.seen or '-'}"
    if (reason := found.reason(one)) is not None:
        yield f"    known     {reason}"


def rfc_table(scripts: Iterable[str], known: Mapping[str, Mapping[str, str]]) -> str:
    """Return the table of RFCs by stack and the reasons of the failures, as Markdown.

    Args:
        scripts: names such as ``rfc9293/listen-syn``; the folder is the RFC.
        known: reasons of known failures, by stack and name.
    """
    by_rfc: dict[str, list[str]] = {}
    for name in sorted(scripts):
        by_rfc.setdefault(name.partition("/")[0], []).append(name)
    titles = [STACK_TITLES[stack].removeprefix("the ") for stack in STACKS]
    lines = [f"| RFC | scripts | {' | '.join(titles)} |", f"|---|--:|{'--:|' * len(STACKS)}"]
    total = [0] * (len(STACKS) + 1)
    for folder, names in sorted(by_rfc.items(), key=lambda pair: int(pair[0].removeprefix("rfc"))):
        passed = [sum(name not in known.get(stack, {}) for name in names) for stack in STACKS]
        total = [before + more for before, more in zip(total, [len(names), *passed], strict=True)]
        lines.append(f"| {folder.removeprefix('rfc')} | {len(names)} | {' | '.join(map(str, passed))} |")
    lines += [f"| all | {' | '.join(map(str, total))} |", ""]
    lines += ["| script | stack | why it fails |", "|---|---|---|"]
    failed = sorted((name, stack) for stack in STACKS for name in known.get(stack, {}))
    lines += [f"| `{name}` | {stack} | {known[stack][name]} |" for name, stack in failed]
    return "\n".join(lines) + "\n"


PACKAGE = "swapstone-net-packetdrill"
KNOWN_FILE = "known-failures.toml"
_JOBS = 8  # scripts over the kernel wait for most of their time


def scripts_folder() -> Path:
    """Return the folder of the scripts that Swapstone ships."""
    return share_dir() / "crates" / PACKAGE / "scripts"


def shipped_scripts() -> dict[str, str]:
    """Return the names of the shipped scripts, such as ``rfc9293/listen-syn``, by their paths."""
    top = scripts_folder()
    return {str(path): path.relative_to(top).with_suffix("").as_posix() for path in sorted(top.rglob("*.pkt"))}


def known_failures() -> dict[str, dict[str, str]]:
    """Return why shipped scripts are known to fail, by stack and name."""
    return msgspec.toml.decode((scripts_folder() / KNOWN_FILE).read_bytes(), type=dict[str, dict[str, str]])


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
    chosen = _stacks(stacks)
    names = _named(scripts) if scripts else shipped_scripts()
    known = known_failures() if not scripts or set(names) <= set(shipped_scripts()) else {}
    if KERNEL in chosen and (missing := missing_crate_requirement()) is not None:
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
        if stack not in STACKS or "=" in name or (colon and (stack == KERNEL or NETSTACK.level_of_text(name) is None)):
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
        files = sorted(path.rglob("*.pkt")) if path.is_dir() else [path]
        refuse(
            (
                not path.exists(),
                f"There is no script {text!r}.",
                "Name a file, a folder, or a shipped script such as rfc9293/listen-syn.",
            ),
            (not files, f"The folder {text} has no files *.pkt.", ""),
        )
        for each in files:
            whole = str(each.resolve())
            found[whole] = shipped.get(whole, str(each))
    return found


def _run(
    paths: Sequence[str], stacks: Sequence[str], notify: Callable[[str], None], *, skip_code: bool
) -> tuple[ScriptOutcome, ...]:
    program = build_package(PACKAGE, notify=notify).path
    jobs = _JOBS if KERNEL in stacks else 2
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

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Outcomes of packetdrill scripts: the answer, the scripts that failed, and the table of RFCs by stack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from swapstone.core.model.safe_text import safe
from swapstone.parts.net.model.conformance import (
    FAILED,
    PASSED,
    REFUSED,
    STACK_TITLES,
    STACKS,
    Conformance,
    ScriptOutcome,
    in_order,
    stack_title,
)


def answer(found: Conformance) -> str:
    """Return how many scripts each stack passes, in one sentence."""
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
        rest = f" ({others} could not run)" if others else ""
        parts.append(f"{title} passes {outcomes[PASSED]} of {run}{scripts}{rest}")
    text = ", ".join(parts) + "."
    lacking = {one.script for one in found.outcomes if one.skipped}
    if lacking:
        text += (
            f" Code of {len(lacking)} {'scripts' if len(lacking) > 1 else 'script'} was left out, such as assertions."
        )
    return text[0].upper() + text[1:] if text.startswith("the ") else text


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

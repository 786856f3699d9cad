# SPDX-License-Identifier: MIT OR Apache-2.0
"""Parameters and free factors: the options ``--parameter`` and ``--vary``, and where their placeholders may stand."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from swapstone.core.artifacts.placeholders import KNOWN as KNOWN_PLACEHOLDERS
from swapstone.core.factors import all_factors, check_values, free_levels
from swapstone.core.model import FactorLevels, OwnProgram, UserError, check_distinct, placeholders_in, refuse
from swapstone.core.model.substitution import NAME
from swapstone.core.session.option_values import pairs_of

MOST_WORKLOADS = 1000
"""Number of combinations of the parameters' values."""

_NUMBER = r"-?\d{1,18}(?:\.\d{1,9})?"  # a longer text is a value, not a number of a range
_RANGE = re.compile(rf"(?P<first>{_NUMBER})\.\.(?P<last>{_NUMBER})(?:/(?P<step>{_NUMBER}))?", re.ASCII)
_OF_SERVERS = {
    "port": "the port of a server",
    "address": "the address on which it listens",
    "connections": "the option --connections",
}
_EXAMPLES = {
    "--parameter": "--parameter N=1,10,100 or N=1..10",
    "--vary": "--vary threads=1,8 or env:MALLOC_ARENA_MAX=1,8",
}


def parse_parameters(texts: Iterable[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Parse the options ``--parameter``.

    Args:
        texts: ``NAME=V1,V2``, ``NAME=1..10`` or ``NAME=1..100/10`` (with a step). A name that is repeated has one value in each text, which
            may contain commas.

    Returns:
        Pairs (name, values).

    Raises:
        UserError: a text has another form, a value is twice or not printable, or there are too many combinations.
    """
    found = {name: _range(name, values) for name, values in _grouped("--parameter", texts).items()}
    for name, values in found.items():
        check_values(name, values)
    count = math.prod(map(len, found.values()))
    if count > MOST_WORKLOADS:
        raise UserError(
            f"The parameters have {count} combinations of values; {MOST_WORKLOADS} are possible.",
            "Give fewer values, or a larger step: N=1..1000/100",
        )
    return tuple(found.items())


def parse_free_factors(texts: Iterable[str]) -> tuple[FactorLevels, ...]:
    """Parse the options ``--vary``.

    Args:
        texts: ``NAME=A,B`` or ``env:NAME=A,B``, with the baseline first. A name that is repeated has one value in each text, which may
            contain commas.

    Raises:
        UserError: a text has another form, or a name is a factor or a placeholder of Swapstone.
    """
    grouped = _grouped("--vary", texts, prefix=True)
    return tuple(
        free_levels(name if name.startswith("env:") else f"{{{name}}}", values) for name, values in grouped.items()
    )


def _grouped(option: str, texts: Iterable[str], *, prefix: bool = False) -> dict[str, list[str]]:
    """Return values by name: those of a text, separated by commas, or one of each text if the name is repeated."""
    pairs = pairs_of(
        texts,
        rf"((?:env:)?{NAME})=(.*)" if prefix else rf"({NAME})=(.*)",
        lambda text: UserError(f"{option} {text[:80]!a} is not NAME=VALUE,VALUE.", f"For example: {_EXAMPLES[option]}"),
    )
    for name, rest in pairs:
        _require_free_name(option, name, rest)
    names = [name for name, _ in pairs]
    found: dict[str, list[str]] = {}
    for name, rest in pairs:
        found.setdefault(name, []).extend([rest] if names.count(name) > 1 else rest.split(","))
    return found


def _require_free_name(option: str, name: str, values: str) -> None:
    if name in {factor.name for factor in all_factors()}:
        raise UserError(
            f"{option} {name}: {name} is a factor of Swapstone.",
            f"Leave {option} out: swapstone compare {name}={values}",
        )
    meaning = {**KNOWN_PLACEHOLDERS, **_OF_SERVERS}.get(name) or {"program": "a factor", "command": "a factor"}.get(
        name
    )
    if meaning:
        raise UserError(f"{option} can't be named {name}: {{{name}}} stands for {meaning}.", "Give it another name.")


def _range(name: str, values: Sequence[str]) -> tuple[str, ...]:
    """Return the numbers of a range such as ``1..100/10``; other values unchanged."""
    match = _RANGE.fullmatch(values[0].strip()) if len(values) == 1 else None
    if match is None:
        return tuple(values)
    first, last, step = Decimal(match["first"]), Decimal(match["last"]), Decimal(match["step"] or 1)
    count = int((last - first) / step) + 1 if step > 0 else 0
    refuse(
        (
            count < 1 or last < first,
            f"The range {name}={values[0]} is empty.",
            "Write FIRST..LAST/STEP, for example: N=1..100/10",
        ),
        (
            count > MOST_WORKLOADS,
            f"The range {name}={values[0]} has {count} values; {MOST_WORKLOADS} are possible.",
            f"Give a larger step: {name}={match['first']}..{match['last']}/{(last - first) // 10 + 1}",
        ),
    )
    return tuple(str(first + number * step) for number in range(count))


def check_placeholders(own: OwnProgram | None, factors: Iterable[FactorLevels]) -> None:
    """Check that every parameter and free factor is used, and every placeholder is known.

    Args:
        own: the program; None for the bundled workloads.
        factors: all of the experiment.

    Raises:
        UserError: a name is not used, is used where it has no effect, stands for two things, or is unknown.
    """
    free = [choice.factor[1:-1] for choice in factors if choice.factor.startswith("{")]
    parameters = [name for name, _ in own.parameters] if own else []
    _check_names(own, free, parameters, factors)
    if not free and not parameters:
        return
    texts = texts_of(own) if own else {}
    for where, text in texts.items():
        _check_known(where, text, [*parameters, *free], server=bool(own and own.load_generators))
    used = {name for text in texts.values() for name in placeholders_in(text)}
    built = placeholders_in(own.build) if own else set()
    generator = [word for each in own.load_generators for word in each.command] if own else []
    refuse(
        *(
            (
                name not in used,
                f"The parameter {name} is not used: nothing contains {{{name}}}.",
                f"Write {{{name}}} where the value belongs, for example: './prog --size {{{name}}}'",
            )
            for name in parameters
        ),
        *(
            (
                name not in used | built,
                f"--vary {name}: nothing contains {{{name}}}.",
                f"Write {{{name}}} in the command line, in --build, in --env or in --server. "
                f"If it is an environment variable: --vary env:{name}=...",
            )
            for name in free
        ),
        *(
            (
                name in free,
                f"--load-generator contains {{{name}}}, which --vary varies: each variant would get another load.",
                f"Make it a parameter: --parameter {name}=...",
            )
            for word in generator
            for name in placeholders_in(word)
        ),
    )


def _check_names(
    own: OwnProgram | None, free: Sequence[str], parameters: Sequence[str], factors: Iterable[FactorLevels]
) -> None:
    names = [choice.factor for choice in factors]
    refuse(
        *(
            (name in parameters, f"{name} is a parameter and a factor.", "Give one of them another name.")
            for name in free
        )
    )
    check_distinct(names, "The factor {} is named twice.", "List all its levels in one.")
    fixed = {name for name, _ in own.environment} if own else set()
    fixed |= {name for line in own.commands for name, _ in line.environment} if own else set()
    varied = [name.removeprefix("env:") for name in names if name.startswith("env:")]
    refuse(
        *(
            (name in fixed, f"The variable {name} is set and varied.", f"Leave out --env {name}, or --vary env:{name}.")
            for name in varied
        )
    )


def _check_known(where: str, text: str, known: Sequence[str], *, server: bool) -> None:
    others = [*known, *(_OF_SERVERS if server else ())]
    wrong = sorted(placeholders_in(text) - frozenset(others))
    if wrong:
        raise UserError(
            f"{where[0].upper()}{where[1:]} contains the unknown placeholder {{{wrong[0]}}}.",
            f"Known: {', '.join(f'{{{name}}}' for name in others)}. Write {{{{{wrong[0]}}}}} for a literal {{{wrong[0]}}}.",
        )


def texts_of(own: OwnProgram) -> Mapping[str, str]:
    """Return the texts in which a placeholder may stand, besides the build command, by what they are called on the command line."""
    lines = own.commands or ()
    words = [*own.arguments, *(path for _, path in own.programs)]
    words += [word for line in lines for word in (*line.words, *(value for _, value in line.environment))]
    found = {
        "the command line": "\n".join(words),
        "--env": "\n".join(value for _, value in own.environment),
        "--setup": own.setup,
        "--prepare": own.prepare,
        "--conclude": own.conclude,
        "--input": own.stdin,
        "--output": own.output,
        "--artifact": "\n".join(own.artifacts),
        "--load-generator": "\n".join(word for each in own.load_generators for word in each.command),
    }
    return {name: text for name, text in found.items() if text}

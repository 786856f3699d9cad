# SPDX-License-Identifier: MIT OR Apache-2.0
"""What an experiment with an own program varies: its command lines, free factors, and the factors of Swapstone."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import msgspec

from swapstone.core.factors import free_levels, is_root_factor
from swapstone.core.model import FactorLevels, OwnProgram, UserError
from swapstone.core.session.own_program_request import own_program, program_factor
from swapstone.core.session.parameters import check_placeholders, parse_free_factors
from swapstone.core.session.settings import Program


def varied_program(
    request: Program, factors: Sequence[FactorLevels], held: Sequence[str] = (), directory: str = ""
) -> tuple[OwnProgram | None, tuple[FactorLevels, ...]]:
    """Resolve the options of an own program, and add the factors that they define.

    Args:
        request: the options.
        factors: those that Swapstone has.
        held: texts ``FACTOR=LEVEL`` of those whose level all variants share.
        directory: where relative paths start; empty for the current folder.

    Returns:
        The program, or None; and all factors: the command lines or programs first, then the free ones, then `factors`.

    Raises:
        UserError: as `own_program`; or there is nothing to compare.
    """
    free = parse_free_factors(request.vary)
    single = request.commands if len(request.commands) == 1 else ()
    names = {*(choice.factor for choice in factors), *(text.partition("=")[0].strip() for text in held)}
    own = own_program(request, directory, rooted=any(map(is_root_factor, names)))
    named = program_factor(own) if own else ()
    every = (*named, *free, *factors)
    if own is not None and not every and own.parameters:
        (name, values), *rest = own.parameters
        own = msgspec.structs.replace(own, parameters=tuple(rest))
        every = (free_levels(f"{{{name}}}", values),)
    if single and not every:
        text = single[0]
        raise UserError(
            f"There is only one command, {text!r}, and nothing varies: there is nothing to compare.",
            f"Add the other command: swapstone compare {shlex.quote(text)} './other'\n"
            f"or a factor: swapstone compare allocator=default,mimalloc {shlex.quote(text)}\n"
            f"or values of an argument: swapstone compare {shlex.quote(f'{text} {{N}}')} --parameter N=1,10,100",
        )
    check_placeholders(own, every)
    return own, every

# SPDX-License-Identifier: MIT OR Apache-2.0
"""A row's difference by function: which functions lead, with their callers, the sentence that names them, and amounts as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from swapstone.core.comparison.profile_difference import (
    BELOW,
    MOST_LEADING,
    NO_STACK,
    SMALLEST_SHARE,
    FrameDifference,
    ProfileDifference,
)
from swapstone.core.model.number_text import fixed, quantity
from swapstone.core.model.profile import KERNEL, NAMELESS, OWN_OBJECT, Frame
from swapstone.parts.explain.explanation.profile_formats import FAULTING, SYSTEM_CALL
from swapstone.parts.explain.model.explanation import CallerTime, FunctionTime, TimeByFunction

MOST_FUNCTIONS, MOST_CALLERS = 40, 3
"""Of an explanation."""
_HALF = 0.5
_LONG = 60
_CUT = "\0"
_ARGUMENTS = re.compile(r"(?<=[\w\0])<[^<>]*>")


def by_function(
    found: ProfileDifference,
    waits: Mapping[Frame, float] | None = None,
    lines: Mapping[Frame, str] | None = None,
    *,
    named: bool = True,
    **facts: object,
) -> TimeByFunction:
    """Return a difference of two profiles by function.

    Args:
        found: the difference.
        waits: the waiting part of functions' inclusive differences.
        lines: source lines of functions.
        named: whether functions may lead.
        facts: further fields of the result. Without them it is of instructions.
    """
    leading = found.leading() if named else ()
    least = SMALLEST_SHARE * abs(found.total.difference)
    others = [
        one
        for one in found.frames
        if one not in leading and (_size(one) >= least or (found.is_relevant(one) and not found.is_everywhere(one)))
    ]
    known = {one.frame: one for one in found.frames}
    share = found.share_interval
    shares = [share([one.frame for one in some]) for some in (*((one,) for one in leading), leading)] if share else []
    others.sort(key=lambda one: (not (one.interval and one.is_shown), -_size(one)))
    measured = (found.total.baseline, found.total.candidate)
    of_instructions = {
        **{"metric": "instructions", "unit": "1", "recorded": measured, "ready": (0.0, 0.0)},
        **{"interval": None, "samples": (0, 0)},
    }
    return TimeByFunction(
        **{**of_instructions, **facts},  # type: ignore[arg-type]
        measured=measured,
        leading=len(leading),
        spread=found.spread(),
        shares=tuple(shares) if leading else (),
        functions=tuple(
            _function(
                one, (waits or {}).get(one.frame, 0.0), (lines or {}).get(one.frame, ""), known, leads=one in leading
            )
            for one in (*leading, *others)[:MOST_FUNCTIONS]
        ),
    )


def _size(one: FrameDifference) -> float:
    """Return the own difference; of a system call or a fault, which are one with what the kernel does for them, the inclusive one."""
    return abs((one.inclusive if is_entry(one.frame) else one.own).difference)


def _function(
    one: FrameDifference, waiting: float, line: str, known: Mapping[Frame, FrameDifference], *, leads: bool
) -> FunctionTime:
    callers = [(frame, each.difference) for frame, each in one.callers.items() if each.difference]
    return FunctionTime(
        symbol=one.frame.symbol,
        object=one.frame.object,
        baseline=one.inclusive.baseline,
        candidate=one.inclusive.candidate,
        own=one.own.difference,
        waiting=waiting,
        interval=one.interval,
        callers=tuple(
            CallerTime(symbol=frame.symbol, object=frame.object, difference=more)
            for frame, more in callers[:MOST_CALLERS]
        ),
        program=_above(
            one, known, lambda frame: frame.object == OWN_OBJECT and not frame.symbol.startswith((BELOW, NAMELESS))
        ),
        entry=_above(one, known, is_entry) if one.frame.object == KERNEL else "",
        mostly=_mostly(one, known) if leads else None,
        line=line,
    )


def _mostly(one: FrameDifference, known: Mapping[Frame, FrameDifference]) -> CallerTime | None:
    """Return the innermost function below another one that has at least half of its difference; None if it has that itself, or none has.

    Below a function that is not the kernel's, it is none inside the kernel, but the system call or the page fault.
    """
    whole = one.inclusive.difference
    if one.own.difference / whole >= _HALF:
        return None
    for each in sorted(known.values(), key=lambda each: each.weight):
        more = each.inclusive.difference
        seen = each.is_shown and (each.frame.object != KERNEL or is_entry(each.frame) or one.frame.object == KERNEL)
        if more / whole >= _HALF and seen and _above(each, known, lambda frame: frame == one.frame):
            return CallerTime(symbol=each.frame.symbol, object=each.frame.object, difference=more)
    return None


def is_entry(frame: Frame) -> bool:
    """Return whether a frame stands for a system call or a page fault, with the entry into the kernel."""
    return frame == FAULTING or (frame.object == KERNEL and frame.symbol.startswith(SYSTEM_CALL))


def _above(one: FrameDifference, known: Mapping[Frame, FrameDifference], wanted: Callable[[Frame], bool]) -> str:
    """Return the wanted function nearest to a function by the callers with the largest differences; empty if it is one, or none is."""
    above: list[Frame] = []
    frame = one.frame
    while not wanted(frame):
        above.append(frame)
        frame = next((each for each in known[frame].callers if each not in above), NO_STACK)
        if frame == NO_STACK:
            return ""
    return frame.symbol if above else ""


def function_text(symbol: str, where: str) -> str:
    """Return a function with its file, as a sentence has it: ``read (system call)``, ``libz.so.1, below compress2``."""
    frame = Frame(symbol=symbol, object=where)
    if frame == FAULTING:
        return "page faults (kernel)"
    if frame == NO_STACK:
        return "code without a stack"
    if where == KERNEL and symbol.startswith(SYSTEM_CALL):
        return f"{symbol.removeprefix(SYSTEM_CALL)} (system call)"
    file = {KERNEL: "kernel", OWN_OBJECT: "program"}.get(where, where)
    if symbol == NAMELESS:
        return f"{file}, code without a name"
    short = without_template_arguments(symbol)
    if symbol.startswith(BELOW):
        return f"{file}, {short}"
    return short if where == OWN_OBJECT else f"{short} ({file})"


def placed_text(one: FunctionTime) -> str:
    """Return a function with its file, and the line of its source if that is known: ``scan at scan.c:14``."""
    return function_text(one.symbol, one.object) + (f" at {one.line}" if one.line else "")


def without_template_arguments(symbol: str) -> str:
    """Return a C++ name with ``<...>`` in place of template arguments, unless it is short."""
    while len(symbol) > _LONG and (shorter := _ARGUMENTS.sub(_CUT, symbol)) != symbol:
        symbol = shorter
    return symbol.replace(_CUT, "<...>")


def answer(start: str, time: TimeByFunction) -> str:
    """Return which functions account for a row's difference, as the end of a sentence.

    For example: free (C library), called by pass, takes 7.90 ms more, 98 % of the difference (90 to 106 %).

    Args:
        start: the sentence so far.
        time: the difference by function.
    """
    whole = time.measured[1] - time.measured[0]
    if not whole:
        return f"{start}: {f'the differences of {time.spread} functions cancel out' if time.spread else 'no function accounts for it'}."
    if not time.leading:
        if time.spread <= MOST_LEADING:
            return f"{start}: no functions are shown to have 80 % of the difference."
        return f"{start}: the difference is spread over {time.spread} functions, and no three of them are shown to have 80 % of it."
    leading = time.functions[: time.leading]
    together = sum(one.candidate - one.baseline for one in leading) / whole
    between = [f" ({span(each)})" for each in time.shares] or [""] * (len(leading) + 1)
    texts = [_leading(one, whole, time.unit, each) for one, each in zip(leading, between, strict=False)]
    return f"{start}: {'; '.join(texts)}{f'; together {percent(together)}{between[-1]}' if len(texts) > 1 else ''}."


def _leading(one: FunctionTime, whole: float, unit: str, between: str) -> str:
    more = one.candidate - one.baseline
    share = f"{percent(more / whole)} of the difference{between}"
    first = one.callers[0] if one.callers and not one.symbol.startswith(BELOW) else None
    caller = f", called by {function_text(first.symbol, first.object)}," if first else ""
    if one.entry and (first is None or first.symbol != one.entry):
        caller = f"{caller or ','} in {function_text(one.entry, KERNEL)},"
    if one.program and not {one.symbol, first.symbol if first else ""} & {one.program, f"{BELOW}{one.program}"}:
        caller = f"{caller or ','} below {one.program},"
    mostly = f", mostly {function_text(one.mostly.symbol, one.mostly.object)}," if one.mostly else ""
    own = not mostly and (one.object == KERNEL or abs(one.own) >= abs(more) / 2)
    verb = "executes" if unit == "1" else "waits" if abs(one.waiting) >= abs(more) / 2 else "takes"
    return (
        f"{placed_text(one)}{caller} {'' if own else f'with what it calls{mostly} '}{verb} {in_unit(abs(more), unit)} "
        f"{'more' if more > 0 else 'fewer' if unit == '1' else 'less'}, {share}"
    )


def in_unit(value: float, unit: str) -> str:
    """Return a time, or a number of instructions where the unit is ``1``."""
    return amount(value) if unit == "1" else duration(value)


def amount(value: float) -> str:
    """Format a count: three significant digits, with the suffix k, M or G from 10000 on."""
    return quantity(value, "1") if abs(value) < 1000 or abs(value) >= 1e4 else fixed(value, 0)


def duration(value_ns: float) -> str:
    """Format a time with three significant digits; 0 below a picosecond, the rounding error of a difference of doubles."""
    return quantity(value_ns, "ns")


def signed(value_ns: float) -> str:
    """Format a difference of times with its sign."""
    text = duration(value_ns)
    return text if text.startswith(("-", "0 ")) else f"+{text}"


def percent(share: float) -> str:
    """Format a share in per cent, without decimals and without a minus sign before 0."""
    return f"{fixed(100 * share, 0)} %"


def span(interval: tuple[float, float]) -> str:
    """Format an interval of a share, in per cent without decimals."""
    low, high = (fixed(100 * each, 0) for each in interval)
    return f"{low} to {high} %"


def short_label(label: str) -> str:
    """Return a label of one factor without the factor's name: ``musl`` for ``libc=musl``. Other labels are unchanged."""
    return label.split("=", 1)[1] if label.count("=") == 1 and "," not in label else label

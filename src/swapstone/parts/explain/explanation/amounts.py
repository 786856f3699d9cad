# SPDX-License-Identifier: MIT OR Apache-2.0
"""Counts, times, shares and variants as explanations print them."""

from __future__ import annotations

from swapstone.core.model.number_text import fixed, quantity


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

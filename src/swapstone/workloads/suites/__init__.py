# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every suite, one file each: declarations of workloads, without code that measures."""

from __future__ import annotations

from swapstone.model import Suite
from swapstone.workloads.suites import float_arithmetic, latency, libc, libc_extra, netstack, server, swap, throughput

SUITES: tuple[Suite, ...] = (
    libc.SUITE,
    libc_extra.SUITE,
    latency.SUITE,
    throughput.SUITE,
    swap.SUITE,
    server.SUITE,
    *netstack.SUITES,
    float_arithmetic.SUITE,
)
"""In the order of ``swapstone list workloads``. A new suite is a file here and a name in this tuple."""

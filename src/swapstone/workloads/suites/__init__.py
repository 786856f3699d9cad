# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every suite, one file each: declarations of workloads, without code that measures."""

from __future__ import annotations

from swapstone.model import Suite
from swapstone.model.parts import provided
from swapstone.workloads.suites import (
    core,
    float_arithmetic,
    latency,
    libc,
    libc_extra,
    netstack,
    operating_system,
    server,
    swap,
    throughput,
    unix,
)

SUITES: tuple[Suite, ...] = (
    libc.SUITE,
    libc_extra.SUITE,
    latency.SUITE,
    throughput.SUITE,
    operating_system.SUITE,
    unix.SUITE,
    core.SUITE,
    swap.SUITE,
    server.SUITE,
    *netstack.SUITES,
    float_arithmetic.SUITE,
)
SUITES += provided("suite", Suite)
"""In the order of ``swapstone list workloads``, those of installed parts last. A new suite is a file here and a name in this tuple."""

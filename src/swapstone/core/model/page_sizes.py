# SPDX-License-Identifier: MIT OR Apache-2.0
"""Names of the amounts of memory that `explain` reads while a program runs. They are of the program, not per operation."""

from __future__ import annotations

MEMORY = "memory"
"""Their group."""

RESIDENT, HUGE = "resident bytes", "bytes in huge pages"

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compute comparisons from runs. docs/statistics.md gives the methods and the reasons for choosing them."""

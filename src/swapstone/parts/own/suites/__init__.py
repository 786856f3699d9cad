# SPDX-License-Identifier: MIT OR Apache-2.0
"""Suites of the part own."""

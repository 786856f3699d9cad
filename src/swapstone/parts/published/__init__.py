# SPDX-License-Identifier: MIT OR Apache-2.0
"""Figures of public pages, and where this program has the same numbers."""

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks of the part boards."""

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Targets of the part boards."""

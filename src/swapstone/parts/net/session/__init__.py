# SPDX-License-Identifier: MIT OR Apache-2.0
"""Flows of the part net."""

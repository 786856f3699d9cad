# SPDX-License-Identifier: MIT OR Apache-2.0
"""Factors of the part build."""

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Explain the difference of two variants by their profiles and counts. Runs nothing."""

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Explain the difference of two variants by their counts and profiles: a ledger of costs, and findings. Runs nothing."""

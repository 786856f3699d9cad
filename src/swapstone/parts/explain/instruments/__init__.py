# SPDX-License-Identifier: MIT OR Apache-2.0
"""Run both variants of a row under instruments, apart from the measured trials."""

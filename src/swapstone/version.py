# SPDX-License-Identifier: MIT OR Apache-2.0
"""The version of Swapstone."""

__version__ = "0.2.0"

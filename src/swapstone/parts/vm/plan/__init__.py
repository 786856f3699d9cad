# SPDX-License-Identifier: MIT OR Apache-2.0
"""Searches of the part vm."""

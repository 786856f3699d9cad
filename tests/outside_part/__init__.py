# SPDX-License-Identifier: MIT OR Apache-2.0
"""A part from elsewhere, as its authors would write it: a factor, a suite with works of a new kind, and a target (docs/extending.md)."""

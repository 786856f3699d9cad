# SPDX-License-Identifier: MIT OR Apache-2.0
"""Types of the part explain."""

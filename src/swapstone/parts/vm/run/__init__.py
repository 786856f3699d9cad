# SPDX-License-Identifier: MIT OR Apache-2.0
"""What prepares trials of the part vm."""

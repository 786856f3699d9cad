# SPDX-License-Identifier: MIT OR Apache-2.0
"""The command line: parses, prints, exits. Nothing imports it."""

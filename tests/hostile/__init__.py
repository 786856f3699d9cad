# SPDX-License-Identifier: MIT OR Apache-2.0
"""Records made to do harm: each kind of damage against each command that reads a record. docs/testing.md has the table."""

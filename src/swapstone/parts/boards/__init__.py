# SPDX-License-Identifier: MIT OR Apache-2.0
"""The part boards; `part.toml` says what it provides."""

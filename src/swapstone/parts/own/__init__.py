# SPDX-License-Identifier: MIT OR Apache-2.0
"""The part own; `part.toml` says what it provides."""

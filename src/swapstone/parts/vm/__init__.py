# SPDX-License-Identifier: MIT OR Apache-2.0
"""The part vm; `part.toml` says what it provides."""

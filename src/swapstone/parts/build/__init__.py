# SPDX-License-Identifier: MIT OR Apache-2.0
"""The part build; `part.toml` says what it provides."""

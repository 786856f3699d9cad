# SPDX-License-Identifier: MIT OR Apache-2.0
"""The part explain; `part.toml` says what it provides."""

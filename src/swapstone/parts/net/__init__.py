# SPDX-License-Identifier: MIT OR Apache-2.0
"""The part net; `part.toml` says what it provides."""

# SPDX-License-Identifier: MIT OR Apache-2.0
"""The part cluster; `part.toml` says what it provides."""

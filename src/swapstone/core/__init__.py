# SPDX-License-Identifier: MIT OR Apache-2.0
"""The core: it knows no part. ARCHITECTURE.md has the order of its packages."""

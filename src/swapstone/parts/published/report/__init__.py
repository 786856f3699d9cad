# SPDX-License-Identifier: MIT OR Apache-2.0
"""Topics of reports of the part published."""

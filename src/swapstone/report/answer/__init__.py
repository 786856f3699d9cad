# SPDX-License-Identifier: MIT OR Apache-2.0
"""The answer of a report: one sentence that a person would say, and the overview below it. One file for each kind of result."""

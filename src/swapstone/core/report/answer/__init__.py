# SPDX-License-Identifier: MIT OR Apache-2.0
"""The answer of a report: the result in one sentence, and the overview below it. One file for each kind of result."""

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sessions: starting and resuming experiments and studies, and analysing their records. Nothing here prints or exits."""

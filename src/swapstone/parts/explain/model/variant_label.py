# SPDX-License-Identifier: MIT OR Apache-2.0
"""Labels of variants as files hold them. Other code has `swapstone.core.model.Variant` instead of a label."""

from __future__ import annotations


def short_label(label: str) -> str:
    """Return a label of one factor without the factor's name: ``musl`` for ``libc=musl``. Other labels are unchanged."""
    return label.split("=", 1)[1] if label.count("=") == 1 and "," not in label else label

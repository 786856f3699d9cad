# SPDX-License-Identifier: MIT OR Apache-2.0
"""JSON values of a result in which each variant is its label."""

from __future__ import annotations

import enum

import msgspec

from swapstone.core.model import Variant


def labelled(value: object) -> object:
    """Return a value as JSON types: a variant as its label, every other struct as a dictionary of its fields.

    Args:
        value: a struct, or a tuple, list, dictionary, enumeration member or plain value.

    Returns:
        Dictionaries, lists and plain values. Fields keep their order and the names that msgspec encodes.
    """
    if isinstance(value, Variant):
        return value.label
    if isinstance(value, msgspec.Struct):
        return {field.encode_name: labelled(getattr(value, field.name)) for field in msgspec.structs.fields(value)}
    if isinstance(value, (tuple, list)):
        return [labelled(each) for each in value]
    if isinstance(value, dict):
        return {key: labelled(each) for key, each in value.items()}
    return value.value if isinstance(value, enum.Enum) else value

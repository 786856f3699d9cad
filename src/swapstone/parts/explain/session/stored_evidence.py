# SPDX-License-Identifier: MIT OR Apache-2.0
"""Stored evidence of an explained row: its manifest, and the bounds within which it is computed with."""

from __future__ import annotations

import datetime
import hashlib

import msgspec

from swapstone.core.record import RecordView
from swapstone.parts.explain.model.explanation import InstrumentResult, Profile, RowKey, RowMeasurements
from swapstone.version import __version__

MOST_RUNS = 1000
"""Evidence with more runs of a profile is not read."""
MOST_FRAMES, MOST_STACKS, MOST_DEPTH = 100_000, 200_000, 300
"""Nor evidence with more functions or stacks, or with deeper ones, of which graphs would be drawn and classes found for very long."""


class EvidenceManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The runs that explain a row. None of them is a trial of the record.

    Attributes:
        record: its identity.
        chain: of the record's last run. If the record was resumed since, the evidence is out of date.
        swapstone, created: the version that wrote it, and the time.
        place: the row.
        seen: SHA-256 of the file with the evidence.
    """

    record: str
    chain: str
    swapstone: str
    created: str
    place: RowKey
    seen: str


def manifest_of(view: RecordView, seen: RowMeasurements, data: bytes) -> EvidenceManifest:
    """Return the manifest of evidence.

    Args:
        view: the record.
        seen: the evidence.
        data: its encoded form, as it is stored.
    """
    return EvidenceManifest(
        record=view.meta.id,
        chain=view.last_chain,
        swapstone=__version__,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        place=seen.place,
        seen=hashlib.sha256(data).hexdigest(),
    )


def is_usable(seen: RowMeasurements) -> bool:
    """Return whether stored measurements can be computed with: they are consistent, and of no more runs than any version makes."""
    bounded = all(len(values) <= MOST_RUNS for reference in seen.references for _, values in reference.values)
    return bounded and all(map(_usable, seen.runs))


def _usable(run: InstrumentResult) -> bool:
    """Return whether an instrument's result can be computed with: it has operations, and its stacks are of its frames."""
    profiles = [profile for profile in (run.profile, run.elapsed.waits if run.elapsed else None) if profile is not None]
    parts = run.elapsed is None or len(run.elapsed.runs) == len(run.elapsed.waits.runs)
    return run.operations > 0 and parts and all(map(_is_consistent, profiles))


def _is_consistent(profile: Profile) -> bool:
    """Return whether a profile has operations, and its stacks and runs are of its frames and stacks."""
    return (
        profile.operations > 0
        and len(profile.runs) <= MOST_RUNS
        and len(profile.frames) <= MOST_FRAMES
        and len(profile.stacks) <= MOST_STACKS
        and all(len(stack.frames) <= MOST_DEPTH for stack in profile.stacks)
        and all(0 <= frame < len(profile.frames) for stack in profile.stacks for frame in stack.frames)
        and all(
            0 <= stack < len(profile.stacks) and weight >= 0 for run in profile.runs for stack, weight in run.weights
        )
    )

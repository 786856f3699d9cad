# SPDX-License-Identifier: MIT OR Apache-2.0
"""Profiles in the formats of other tools (folded stacks, speedscope), and the difference of two profiles."""

from __future__ import annotations

import json

from swapstone.parts.explain.model.explanation import KERNEL, OWN_OBJECT, Frame, Profile

Weights = dict[tuple[str, ...], float]
"""Weight per operation by stack, the outermost frame first."""

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_UNITS = {"ns": "nanoseconds", "B": "bytes", "1": "none"}


def label(frame: Frame) -> str:
    """Return a frame as folded stacks write it: ``_[k]`` after a kernel function, the object in place of an unknown name."""
    if frame.object == KERNEL:
        return f"{frame.symbol}_[k]"
    known = frame.symbol != "[unknown]"
    return (frame.symbol if known else f"[{frame.object}]" if frame.object != OWN_OBJECT else "[program]").replace(
        ";", ":"
    )


def weights(profile: Profile) -> Weights:
    """Return the weights of a profile per operation, by stack."""
    labels = [label(frame) for frame in profile.frames]
    found: Weights = {}
    for stack in profile.stacks:
        names = tuple(labels[number] for number in stack.frames) or ("[no stack]",)
        found[names] = found.get(names, 0.0) + stack.weight / profile.operations
    return found


def folded(profile: Profile) -> str:
    """Return folded stacks: one per line, frames joined by semicolons, then the weight over the whole run as an integer."""
    whole = {stack: round(weight * profile.operations) for stack, weight in weights(profile).items()}
    return "".join(f"{';'.join(stack)} {weight}\n" for stack, weight in sorted(whole.items()))


def difference(baseline: Profile, candidate: Profile) -> dict[tuple[str, ...], tuple[float, float]]:
    """Return both weights per operation of every stack that either profile has; 0 where a profile lacks it."""
    before, after = weights(baseline), weights(candidate)
    return {stack: (before.get(stack, 0.0), after.get(stack, 0.0)) for stack in sorted({*before, *after})}


def folded_difference(baseline: Profile, candidate: Profile) -> str:
    """Return the difference in the format of ``difffolded.pl``: a stack, its weight for the baseline, for the candidate.

    Both weights are scaled to the smaller number of operations of the two profiles.
    """
    operations = max(1.0, min(baseline.operations, candidate.operations))
    rows = difference(baseline, candidate).items()
    return "".join(
        f"{';'.join(stack)} {round(before * operations)} {round(after * operations)}\n"
        for stack, (before, after) in rows
    )


def speedscope(profile: Profile, name: str) -> str:
    """Return a profile as speedscope JSON: one sampled profile, with a stack and its weight for each sample.

    Args:
        profile: the stacks and weights.
        name: title of the profile.
    """
    labels = [label(frame) for frame in profile.frames]
    kept = [stack for stack in profile.stacks if stack.frames]
    samples, values = [list(stack.frames) for stack in kept], [round(stack.weight) for stack in kept]
    return json.dumps(
        {
            "$schema": SCHEMA,
            "name": name,
            "exporter": "swapstone",
            "activeProfileIndex": 0,
            "shared": {
                "frames": [
                    {"name": text, "file": frame.object} for text, frame in zip(labels, profile.frames, strict=True)
                ]
            },
            "profiles": [
                {
                    "type": "sampled",
                    "name": name,
                    "unit": _UNITS[profile.unit],
                    "startValue": 0,
                    "endValue": sum(values),
                    "samples": samples,
                    "weights": values,
                }
            ],
        }
    )

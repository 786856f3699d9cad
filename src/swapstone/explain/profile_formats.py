"""Profiles in other tools' formats, and the difference of two."""

from __future__ import annotations

import json

from swapstone.model import KERNEL, OWN_OBJECT, Frame, Profile

Weights = dict[tuple[str, ...], float]
"""Weight in one operation by stack, the outermost frame first."""

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_UNITS = {"ns": "nanoseconds", "B": "bytes", "1": "none"}


def label(frame: Frame) -> str:
    """Return a frame as folded stacks have it: ``_[k]`` after a function of the kernel, the object after what has no name."""
    if frame.object == KERNEL:
        return f"{frame.symbol}_[k]"
    known = frame.symbol != "[unknown]"
    return (frame.symbol if known else f"[{frame.object}]" if frame.object != OWN_OBJECT else "[program]").replace(
        ";", ":"
    )


def weights(profile: Profile) -> Weights:
    """Return a profile's weights in one operation by stack."""
    labels = [label(frame) for frame in profile.frames]
    found: Weights = {}
    for stack in profile.stacks:
        names = tuple(labels[number] for number in stack.frames) or ("[no stack]",)
        found[names] = found.get(names, 0.0) + stack.weight / profile.operations
    return found


def folded(profile: Profile) -> str:
    """Return folded stacks: one a line, frames joined by semicolons, then the whole run's weight as a whole number."""
    whole = {stack: round(weight * profile.operations) for stack, weight in weights(profile).items()}
    return "".join(f"{';'.join(stack)} {weight}\n" for stack, weight in sorted(whole.items()))


def difference(baseline: Profile, candidate: Profile) -> dict[tuple[str, ...], tuple[float, float]]:
    """Return both weights in one operation of every stack that either has; 0 where one has it not."""
    before, after = weights(baseline), weights(candidate)
    return {stack: (before.get(stack, 0.0), after.get(stack, 0.0)) for stack in sorted({*before, *after})}


def folded_difference(baseline: Profile, candidate: Profile) -> str:
    """Return the difference as ``difffolded.pl`` writes it: a stack, its weight on the baseline, on the candidate.

    Weights are of as many operations as make the smaller side's profile, so that both are of the same work.
    """
    operations = max(1.0, min(baseline.operations, candidate.operations))
    rows = difference(baseline, candidate).items()
    return "".join(
        f"{';'.join(stack)} {round(before * operations)} {round(after * operations)}\n"
        for stack, (before, after) in rows
    )


def speedscope(profile: Profile, name: str) -> str:
    """Return a profile as speedscope's JSON: one sampled profile, a stack and its weight for each sample.

    Args:
        profile: which.
        name: for its title.
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

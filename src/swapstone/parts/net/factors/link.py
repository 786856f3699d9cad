# SPDX-License-Identifier: MIT OR Apache-2.0
"""The emulated link between a server and its client: loss, reordering, duplication, corruption, delay. docs/netstack-goodput.md."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import msgspec

from swapstone.core.factors.factor import Evidence, Level, Recipe, Stage
from swapstone.core.model import UserError, refuse
from swapstone.parts.net.factors.netstack import stack_level
from swapstone.parts.net.model.link_counters import counters

VARIABLE = "LINK"
"""The environment variable with the level. All values have the same length, so the environment has the same size."""

CLEAN = "clean"
_SHARES = {"loss": "lost", "reorder": "reordered", "duplicate": "duplicated", "corrupt": "corrupted"}
"""Parts of a level that are a share of all frames, in canonical order, with the emulator's counter."""
_DELAY = "delay"
_MOST_PERCENT = 50.0
_MOST_MS = 1000.0
_PERCENT = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,4})?)%")
_MS = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,3})?)ms")
_LONGEST = len("loss:12.3456%+reorder:12.3456%+duplicate:12.3456%+corrupt:12.3456%+delay:1000.123ms")

_SIGMA = 6.0
"""How far a count may be from its expectation, in standard deviations of the binomial distribution."""
_SLACK_OF_FEW = 4.0
"""Added to that: a few frames are not normally distributed."""
_SLACK = 16
"""Frames that may pass between two readings of counters at the start or the end."""


class Link:
    """The emulated link between a server and its client."""

    name = "link"
    stage = Stage.LAUNCH
    description = "impairments of an emulated link between a server and its client"
    unseen = "Only workloads of servers on a network stack have a link: add `--suite netstack-link`."
    levels: tuple[Level, ...] = (
        stack_level(CLEAN, "the emulated link without impairments"),
        stack_level("loss:1%", "1 % of all frames are lost, in both directions; any share up to 50 %"),
        stack_level("reorder:1%", "1 % of all frames are held by 1 ms, so that later ones overtake them"),
        stack_level("delay:10ms", "each frame arrives 10 ms later: 20 ms more of round trip; up to 1000 ms"),
    )
    forms: tuple[Level, ...] = (
        stack_level("duplicate:1%", "1 % of all frames arrive twice"),
        stack_level("corrupt:1%", "one bit of 1 % of all IP packets is flipped"),
        stack_level("loss:1%+delay:10ms", "several parts, joined by +"),
    )

    def level_of_text(self, text: str) -> Level | None:
        """Return the level of any parts, in canonical order.

        Raises:
            UserError: the text is no such level.
        """
        parts = _parts(text)
        if parts is None:
            return None
        return stack_level(canonical(parts), "defined by its parts")

    def apply(self, level: str, recipe: Recipe) -> Recipe:
        """Set the variable to the level, padded with spaces to the longest."""
        return msgspec.structs.replace(recipe, environment=(*recipe.environment, (VARIABLE, level.ljust(_LONGEST))))

    def observe(self, evidence: Evidence) -> str | None:
        """Read the level from the emulator's counters, which must fit its setting and the counters of the client's device.

        Returns:
            The setting, if each share of frames in both directions is what chance makes of it, the shortest delay is not shorter, and
            nothing else happened to a frame; the setting with the first count that does not fit; None if something was not observed.
        """
        seen = dict(evidence.seen)
        names = ("link_setting", "link_in", "link_out", "link_device")
        if not all(name in seen for name in names):
            return None
        counts = {name: counters(seen[name]) for name in names[1:]}
        try:
            parts = _parts(seen["link_setting"])
        except UserError:
            parts = None
        if parts is None or not all(counts.values()):
            return None
        level = canonical(parts)
        wrong = _misfit(parts, counts["link_in"], counts["link_out"], counts["link_device"])
        return f"{level} with {wrong}" if wrong else level


def canonical(parts: Mapping[str, float]) -> str:
    """Return the canonical text of parts: shares in percent and a delay in ms."""
    shares = [f"{name}:{_number(parts[name])}%" for name in _SHARES if name in parts]
    delay = [f"{_DELAY}:{_number(parts[_DELAY])}ms"] if _DELAY in parts else []
    return "+".join((*shares, *delay)) or CLEAN


def _number(value: float) -> str:
    text = f"{value:.4f}"
    return text.rstrip("0").rstrip(".")


def _parts(text: str) -> dict[str, float] | None:
    """Return the parts of a level; None if the text has another form.

    Raises:
        UserError: a part is unknown or twice, or its number is not possible.
    """
    if text == CLEAN:
        return {}
    found: dict[str, float] = {}
    for part in text.split("+"):
        name, colon, value = part.partition(":")
        if not colon:
            return None
        refuse(
            (name in found, f"The link {text!r} has {name} twice.", "For example: link=clean,loss:1%+delay:10ms"),
            (
                name not in (*_SHARES, _DELAY),
                f"A link has no {name!r}.",
                f"It has {', '.join(_SHARES)} and {_DELAY}: `swapstone list levels`.",
            ),
        )
        pattern, most, unit, example = (
            (_MS, _MOST_MS, "ms", "delay:10ms") if name == _DELAY else (_PERCENT, _MOST_PERCENT, "%", f"{name}:0.1%")
        )
        match = pattern.fullmatch(value)
        number = float(match[1]) if match else 0.0
        if not 0 < number <= most:
            raise UserError(
                f"The {name} of a link is a number of {unit} above 0 and at most {most:g}, and {value!r} is none.",
                f"For example: link=clean,{example}" if number or not match else f"A link without {name} is `{CLEAN}`.",
            )
        found[name] = number
    return found


def _misfit(
    parts: Mapping[str, float], into: Mapping[str, int], out: Mapping[str, int], device: Mapping[str, int]
) -> str:
    """Return the first count that does not fit the parts; empty if all do."""
    for way, each in (("to", into), ("from", out)):
        frames = each.get("frames", 0)
        if not frames:
            return f"no frame {way} the server"
        for name, counter in _SHARES.items():
            share = parts.get(name, 0.0) / 100
            expected = frames * share
            most = _SIGMA * math.sqrt(expected * (1 - share)) + (_SLACK_OF_FEW if share else 0.0)
            count = each.get(counter, -1)
            # Only IP packets are corrupted, so that fewer may be.
            low = 0.0 if name == "corrupt" and share else expected - most
            if not low <= count <= expected + most:
                return f"{count} of {frames} frames {way} the server {counter}"
        if each.get("dropped", -1):
            return f"{each.get('dropped', 'an unknown number')} of {frames} frames {way} the server dropped by a queue"
        if each.get("delivered", 0) and each.get("shortest_us", -1) < parts.get(_DELAY, 0.0) * 1e3:
            return f"a delay of {each.get('shortest_us', 0)} us {way} the server"
    for name, count in (("sent", into.get("frames", 0)), ("received", out.get("delivered", 0))):
        if abs(device.get(name, -_SLACK - 1) - count) > _SLACK:
            return f"{device.get(name, 'an unknown number of')} frames {name} by the client's device instead of {count}"
    return ""


LINK = Link()

# SPDX-License-Identifier: MIT OR Apache-2.0
"""The factor link: strict levels, read from the emulator's counters."""

from __future__ import annotations

import pytest

from swapstone.core.factors import Evidence, find_factor, find_level, parse_choice
from swapstone.core.model import UserError
from swapstone.parts.build.artifacts.workload_build import BASE_RECIPE
from swapstone.parts.net.factors.link import LINK, VARIABLE

QUIET = "lost:0,reordered:0,duplicated:0,corrupted:0"
REST = "overtaken:0,shortest_us:0,mean_us:3,longest_us:90,dropped:0"
CLEAN = {
    "link_setting": "clean",
    "link_in": f"frames:1000,{QUIET},delivered:1000,{REST}",
    "link_out": f"frames:90000,{QUIET},delivered:90000,{REST}",
    "link_device": "sent:1000,received:90000",
}


def observed(seen: dict[str, str]) -> str | None:
    return LINK.observe(Evidence(interp=None, objects=(), seen=tuple(seen.items())))


def test_levels_have_a_canonical_text() -> None:
    choice = parse_choice("link=clean,loss:1.0%,delay:10ms+loss:0.10%,corrupt:1%+reorder:2%+duplicate:3%")
    assert choice.levels == (
        "clean",
        "loss:1%",
        "loss:0.1%+delay:10ms",
        "reorder:2%+duplicate:3%+corrupt:1%",
    )
    assert [find_level(find_factor("link"), level.name).name for level in (*LINK.levels, *LINK.forms)] == [
        level.name for level in (*LINK.levels, *LINK.forms)
    ]


@pytest.mark.parametrize(
    ("level", "message"),
    [
        ("lose:1%", r"A link has no 'lose'\."),
        ("loss:1", r"The loss of a link is a number of % above 0 and at most 50, and '1' is none\."),
        ("loss:0%", "A link without loss is `clean`"),
        ("delay:0.000ms", "A link without delay is `clean`"),
        ("delay:0", "For example: link=clean,delay:10ms"),
        ("loss:100%", "at most 50, and '100%' is none"),
        ("reorder:1%:1ms", "The reorder of a link is a number of % above 0 and at most 50, and '1%:1ms' is none"),
        ("delay:1e9ms", "at most 1000, and '1e9ms' is none"),
        ("loss:99999999999999999999%", "at most 50"),
        ("delay:0.01s", "a number of ms"),
        ("delay:10 ms", "a number of ms"),
        ("rate:10mbit", "It has loss, reorder, duplicate, corrupt and delay: `swapstone list levels`"),
        ("LOSS:1%", "A link has no 'LOSS'"),
        ("loss:1%delay:10ms", "'1%delay:10ms' is none"),
        ("loss:1%+delay:1ms+loss:1%", "has loss twice"),
        ("+loss:1%", "There is no level"),
        ("", "There is no level"),
        ("loss:51%", "above 0 and at most 50"),
        ("loss:-1%", "above 0"),
        ("loss:1e1%", "above 0"),
        ("loss:nan%", "above 0"),
        ("loss:0.00001%", "above 0"),
        ("delay:10", "a number of ms above 0 and at most 1000"),
        ("delay:1001ms", "at most 1000"),
        ("loss:1%+loss:2%", "has loss twice"),
        ("loss:1%+", "There is no level"),
        ("dirty", "There is no level"),
        ("clean+loss:1%", "There is no level"),
        ("loss:1%+\u0661:1%", "A link has no"),
        ("loss:\u0661%", "above 0"),
    ],
)
def test_other_texts_are_refused(level: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_choice(f"link=clean,{level}")


def test_two_texts_of_one_level_are_refused() -> None:
    with pytest.raises(UserError, match="twice"):
        parse_choice("link=loss:1%,loss:1.0%")


def test_the_environment_is_equally_large_at_every_level() -> None:
    levels = [
        *(level.name for level in (*LINK.levels, *LINK.forms)),
        "loss:12.3456%+reorder:12.3456%+duplicate:12.3456%",
    ]
    texts = [dict(LINK.apply(level, BASE_RECIPE).environment)[VARIABLE] for level in levels]
    assert [text.strip() for text in texts] == levels
    assert len({len(text) for text in texts}) == 1


def test_the_level_is_read_from_the_counters() -> None:
    assert observed(CLEAN) == "clean"
    lossy = {
        "link_setting": "loss:1%+delay:10ms",
        "link_in": "frames:1000,lost:14,reordered:0,duplicated:0,corrupted:0,delivered:986,overtaken:0,"
        "shortest_us:10000,mean_us:10120,longest_us:12000,dropped:0",
        "link_out": "frames:9000,lost:77,reordered:0,duplicated:0,corrupted:0,delivered:8923,overtaken:0,"
        "shortest_us:10000,mean_us:10120,longest_us:12000,dropped:0",
        "link_device": "sent:1001,received:8923",
    }
    assert observed(lossy) == "loss:1%+delay:10ms"
    late = {**lossy, "link_in": lossy["link_in"].replace("shortest_us:10000", "shortest_us:9000")}
    assert observed(late) == "loss:1%+delay:10ms with a delay of 9000 us to the server"
    spared = {**lossy, "link_out": lossy["link_out"].replace("lost:77", "lost:7")}
    assert observed(spared) == "loss:1%+delay:10ms with 7 of 9000 frames from the server lost"


@pytest.mark.parametrize(
    ("name", "old", "new", "level"),
    [
        ("link_in", "lost:0", "lost:1", "clean with 1 of 1000 frames to the server lost"),
        ("link_out", "reordered:0", "reordered:2", "clean with 2 of 90000 frames from the server reordered"),
        ("link_out", "dropped:0", "dropped:5", "clean with 5 of 90000 frames from the server dropped by a queue"),
        ("link_in", "frames:1000", "frames:0", "clean with no frame to the server"),
        ("link_device", "sent:1000", "sent:2000", "clean with 2000 frames sent by the client's device instead of 1000"),
        ("link_device", "received:90000", "other:1", "clean with an unknown number of frames received"),
    ],
)
def test_a_count_that_does_not_fit_is_named(name: str, old: str, new: str, level: str) -> None:
    found = observed({**CLEAN, name: CLEAN[name].replace(old, new)})
    assert found is not None
    assert found.startswith(level)


@pytest.mark.parametrize("name", CLEAN)
@pytest.mark.parametrize("text", [None, "", "lost", "frames:1 lost:-1", "frames:\u0661"])
def test_a_missing_or_damaged_observation_leaves_the_level_unknown(name: str, text: str | None) -> None:
    rest = {each: found for each, found in CLEAN.items() if each != name}
    assert observed(rest if text is None else {**rest, name: text}) is None

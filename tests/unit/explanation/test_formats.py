# SPDX-License-Identifier: MIT OR Apache-2.0
"""Profiles as folded stacks, pprof and pages."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from swapstone.core.model.profile import KERNEL, OWN_OBJECT, Frame, Profile, Stack
from swapstone.parts.explain.explanation.profile_formats import folded, folded_difference, pprof
from swapstone.parts.explain.report import flame_graph
from tests.pprof import decoded
from tests.programs import needs

MAIN = Frame(symbol="main", object=OWN_OBJECT)
FREE = Frame(symbol="free</script><b>", object="libc.so")
UNMAP = Frame(symbol="__x64_sys_munmap", object=KERNEL)
NAMELESS = Frame(symbol="[unknown]", object="libc.so")


def profile(weights: dict[tuple[Frame, ...], float], operations: float = 1.0) -> Profile:
    frames = list(dict.fromkeys(frame for stack in weights for frame in stack))
    stacks = tuple(Stack(frames=tuple(map(frames.index, stack)), weight=weight) for stack, weight in weights.items())
    return Profile(kind="on-cpu", unit="ns", operations=operations, frames=tuple(frames), stacks=stacks)


BEFORE = profile({(MAIN,): 100.0, (MAIN, NAMELESS): 20.0}, 2.0)
AFTER = profile({(MAIN,): 70.0, (MAIN, FREE, UNMAP): 300.0})


def test_folded_stacks() -> None:
    assert folded(AFTER) == "main 70\nmain;free</script><b>;__x64_sys_munmap_[k] 300\n"
    assert folded(BEFORE) == "main 100\nmain;[libc.so] 20\n"


def test_a_stack_that_only_one_side_has_is_in_the_difference() -> None:
    assert folded_difference(BEFORE, AFTER).splitlines() == [
        "main 50 70",
        "main;[libc.so] 10 0",
        "main;free</script><b>;__x64_sys_munmap_[k] 0 300",
    ]


def test_pprof_has_each_stack_with_its_weight() -> None:
    kinds, stacks = decoded(pprof(AFTER))
    assert kinds == [("on-cpu", "nanoseconds")]
    assert stacks == {"main": (70,), "main;free</script><b>;__x64_sys_munmap_[k]": (300,)}
    large = profile({(MAIN,): 1e15, (): 128.0})
    assert decoded(pprof(large))[1] == {"main": (10**15,), "[no stack]": (128,)}
    assert pprof(AFTER) == pprof(AFTER), "equal profiles give equal bytes"


def test_pprof_of_a_difference_has_both_sides_and_less_below_0() -> None:
    kinds, stacks = decoded(pprof(BEFORE, AFTER))
    assert [kind for kind, _ in kinds] == ["difference", "baseline", "candidate"]
    assert stacks == {
        "main": (20, 50, 70),
        "main;[libc.so]": (-10, 10, 0),
        "main;free</script><b>;__x64_sys_munmap_[k]": (300, 0, 300),
    }


def test_the_page_holds_both_sides_and_lets_no_name_out_of_its_data() -> None:
    page = flame_graph.page("t <b>", BEFORE, AFTER)
    assert "t &lt;b&gt;" in page and "<b>" not in page
    assert page.count("</script>") == 2
    text = re.search(r'id="data">(.*?)</script>', page)
    assert text is not None
    data = json.loads(text[1])
    name, _, before, after, widest, under = data["tree"]
    assert (name, before, after, widest) == ("all", 60.0, 370.0, 380.0)
    (main,) = under
    assert {child[0]: child[2:5] for child in main[5]} == {
        "[C library]": [10.0, 0.0, 10.0],
        "free</script><b>": [0.0, 300.0, 300.0],
    }
    assert data["kinds"] == ["", "program", "C library", "kernel"]
    assert not re.search(r"https?://", page)


@pytest.mark.slow
@needs("chromium")
def test_a_browser_draws_both_sides(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(flame_graph.page("t", BEFORE, AFTER))
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--dump-dom")
    drawn = subprocess.run(
        ["chromium", *flags, file.as_uri()], capture_output=True, text=True, check=True, timeout=120
    ).stdout
    labels = re.findall(r'aria-label="([^"]*)"', drawn)
    assert sum("on the candidate only" in label for label in labels) == 2
    assert sum("on the baseline only" in label for label in labels) == 1
    assert any(
        label.startswith("main; baseline 60.0 ns, candidate 370 ns, +310 ns in one operation") for label in labels
    )

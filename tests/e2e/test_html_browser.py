# SPDX-License-Identifier: MIT OR Apache-2.0
"""The HTML report in a real browser: text, width, sorting and filtering, drawings, colours, and no network access.

Two browsers measure every kind of report, one in the light colour scheme and one in the dark (`html_probe.js`). The tests read what they
measured.
"""

from __future__ import annotations

import html as escape
import http.server
import json
import re
import struct
import subprocess
import threading
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from swapstone.core.report.render import html
from swapstone.core.report.study_index import PartOfStudy, StudyIndex, document_of
from swapstone.parts.explain.report import flame_graph
from swapstone.parts.published.report.page_tables import sections
from tests.golden import crossed, latency, noisy, reports, servers, synthetic, verdicts
from tests.programs import require
from tests.shared import Shared
from tests.unit.explanation.test_formats import AFTER, BEFORE

pytestmark = pytest.mark.slow

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
DARK, LIGHT = "--blink-settings=preferredColorScheme=0", "--blink-settings=preferredColorScheme=1"
REPORTS = {"plain": synthetic, "crossed": crossed, "latency": latency, "servers": servers, "verdicts": verdicts}
PROBE = Path(__file__).with_name("html_probe.js")
WIDTHS = (390, 1280, 1440)
SMALLEST_LETTER = 9.5  # pixels: what a drawing of 12 points may shrink to


def _run(tmp_path: Path, document: str, *flags: str) -> str:
    require("chromium")
    source = tmp_path / "page.html"
    source.write_text(document, encoding="utf-8")
    profile = tmp_path / "profile"
    command = ["chromium", *FLAGS, f"--user-data-dir={profile}", *flags, source.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    made = {name: reports.as_html(case.context(), case.analysis()) for name, case in REPORTS.items()}
    parts = [
        PartOfStudy("latency", latency.context(), latency.analysis()),
        PartOfStudy("throughput", *noisy.record("kernel", "throughput")),
    ]
    index = StudyIndex(name="s", title="t", question="q", folder="f", parts=(), opening=sections("preempt-rt", parts))
    made["study"] = html.render(document_of(index, page=True))
    made["flame"] = flame_graph.page("t", BEFORE, AFTER)
    made["wide"] = "<!doctype html><body><section><div style='width:2000px'>too wide</div></section>"
    made["faint"] = "<!doctype html><body style='background:#fff'><p style='color:#999'>too faint</p>"
    return made


def _case(page: str, width: int, *, scripts: bool = True, use: bool = False) -> dict[str, Any]:
    key = f"{page} {width}" + ("" if scripts else " without scripts") + (" used" if use else "")
    return {"key": key, "page": page, "width": width, "scripts": scripts, "use": use}


def _measure(folder: Path, pages: dict[str, str], cases: list[dict[str, Any]], flag: str) -> dict[str, Any]:
    text = json.dumps(pages).replace("<", "\\u003c")
    probe = PROBE.read_text(encoding="utf-8")
    document = (
        f'<!doctype html><meta charset="utf-8"><body style="margin:0"><script>const PAGES = {text};\n{probe}\n'
        f"run({json.dumps(cases)});</script>"
    )
    out = _run(folder, document, "--dump-dom", "--window-size=1500,1000", "--virtual-time-budget=20000", flag)
    found = re.search(r"<pre id=\"seen\">(.*?)</pre>", out, re.DOTALL)
    assert found, "the probe did not finish"
    seen: dict[str, Any] = json.loads(escape.unescape(found[1]))
    assert not [each["error"] for each in seen.values() if "error" in each]
    return seen


def _measured(shared: Shared, pages: dict[str, str], cases: list[dict[str, Any]], flag: str) -> dict[str, Any]:
    """Return what one browser measured, for all workers."""

    def fill(folder: Path) -> None:
        (folder / "seen.json").write_text(json.dumps(_measure(folder, pages, cases, flag)))

    seen: dict[str, Any] = json.loads((shared.folder(f"browser{flag[-1]}", fill) / "seen.json").read_text())
    return seen


@pytest.fixture(scope="module")
def light(shared: Shared, pages: dict[str, str]) -> dict[str, Any]:
    cases = [_case(page, width) for page in REPORTS for width in WIDTHS]
    cases += [_case("study", 1280), _case("study", 390), _case("flame", 1280), _case("wide", 390), _case("faint", 390)]
    cases += [_case("plain", 1280, scripts=False), _case("plain", 1280, use=True)]
    return _measured(shared, pages, cases, LIGHT)


@pytest.fixture(scope="module")
def dark(shared: Shared, pages: dict[str, str]) -> dict[str, Any]:
    cases = [_case(page, 1280) for page in (*REPORTS, "flame")]
    return _measured(shared, pages, cases, DARK)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("page", REPORTS)
def test_nothing_reaches_beyond_the_page_or_its_section(light: dict[str, Any], page: str, width: int) -> None:
    seen = light[f"{page} {width}"]
    assert (seen["client"], seen["scroll"]) == (width, width)
    assert seen["outside"] == []
    assert all(each["stays"] and each["within"] for each in seen["scrolled"])
    assert seen["dots"] > 0
    assert seen["loaded"] == 0


def test_no_column_of_a_published_page_is_cut(light: dict[str, Any]) -> None:
    for width in (390, 1280):
        seen = light[f"study {width}"]
        assert (seen["scroll"], seen["outside"], seen["scrolled"], seen["loaded"]) == (width, [], [], 0)
        assert (seen["cells"] > 50, seen["misplaced"]) == (
            width == 390,
            [],
        )  # our figures are not below the columns' names


def test_the_probe_detects_what_it_measures(light: dict[str, Any]) -> None:
    assert light["wide 390"]["scroll"] > 390
    assert light["wide 390"]["outside"] == ["div. too wide"]
    assert light["faint 390"]["faintest"]["ratio"] < 3


def test_no_table_of_a_plain_comparison_scrolls_on_a_wide_page(light: dict[str, Any]) -> None:
    for width in (1280, 1440):
        assert light[f"plain {width}"]["scrolled"] == []
        assert light[f"plain {width}"]["side"] == "sticky"


def test_every_row_is_visible_without_scripts_and_nothing_that_needs_one(light: dict[str, Any]) -> None:
    bare, whole = light["plain 1280 without scripts"], light["plain 1280"]
    assert bare["rows"] == whole["rows"] > 100
    assert (bare["controls"], whole["controls"]) == (0, 1)
    assert bare["outside"] == []


def test_the_table_sorts_and_filters(light: dict[str, Any]) -> None:
    used = light["plain 1280 used"]["used"]
    assert used["groups"] == used["groupsAgain"] == 12
    assert used["focused"]
    assert (used["up"], used["down"], used["none"]) == ("ascending", "descending", "none")
    assert used["ascending"] == sorted(used["ascending"])
    assert used["descending"] == sorted(used["descending"], reverse=True)
    assert len(set(used["ascending"])) > 20
    assert used["sortedGroups"] == 0
    assert used["metrics"] == used["all"]
    assert used["filtered"] == ["b_string_strstr(abcd) res", "b_string_memset res", "b_string_strlen res"]
    assert used["status"] == f"3 of {used['all']} rows"
    assert used["verdicts"] == ["better"]
    assert used["reset"] == used["all"]


def test_runs_are_shown_when_their_row_is_opened(light: dict[str, Any]) -> None:
    assert light["plain 1280 used"]["used"]["hidden"] == 0
    assert light["plain 1280"]["runs"] == 24


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("page", REPORTS)
def test_drawings_are_inside_legible_and_described(light: dict[str, Any], page: str, width: int) -> None:
    drawings = light[f"{page} {width}"]["drawings"]
    expected = {
        "plain": {"trade-off"},
        "crossed": {"trade-off", "interaction"},
        "latency": {"latency"},
        "servers": {"trade-off", "interaction", "load-latency"},
        "verdicts": set(),
    }
    assert {each["name"] for each in drawings} == expected[page]
    for drawing in drawings:
        assert drawing["title"]
        assert drawing["described"]
        assert drawing["scale"] * 12 >= SMALLEST_LETTER
        frame = drawing["box"]
        assert 0 <= frame["left"] < frame["right"] <= width
        for text in drawing["texts"]:
            assert frame["left"] - 1 <= text["left"] < text["right"] <= frame["right"] + 1, text
            assert frame["top"] - 1 <= text["top"] < text["bottom"] <= frame["bottom"] + 1, text
        for one, other in combinations(drawing["texts"], 2):
            # Boxes of text are higher than their letters: lines that follow each other may touch by some points.
            apart = one["right"] <= other["left"] + 1 or other["right"] <= one["left"] + 1
            assert apart or one["bottom"] - 4 <= other["top"] or other["bottom"] - 4 <= one["top"], (one, other)


def test_the_worst_latency_is_in_view_on_a_phone(light: dict[str, Any]) -> None:
    (drawing,) = light["latency 390"]["drawings"]
    worst = [text for text in drawing["texts"] if text["text"].startswith("worst ")]
    assert {"worst 70 us", "worst 3738 us", "worst 2077 us"} <= {text["text"] for text in worst}
    assert all(0 <= text["left"] < text["right"] <= 390 for text in worst)


@pytest.mark.parametrize("page", [*REPORTS, "flame"])
def test_colours_follow_the_scheme_and_have_contrast(light: dict[str, Any], dark: dict[str, Any], page: str) -> None:
    def lightness(colour: str) -> float:
        return sum(map(int, re.findall(r"\d+", colour)[:3])) / 765

    day, night = light[f"{page} 1280"], dark[f"{page} 1280"]
    assert lightness(day["paper"]) > 0.9
    assert lightness(day["ink"]) < 0.3
    assert lightness(night["paper"]) < 0.2
    assert lightness(night["ink"]) > 0.7
    for seen in (day, night):
        assert seen["faintest"]["ratio"] >= 4.5, seen["faintest"]  # WCAG 2.2, 1.4.3


class _Counter(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[http.server.HTTPServer]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Counter) as running:
        running.asked = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_the_content_security_policy_blocks_injected_requests(
    tmp_path: Path, pages: dict[str, str], server: http.server.HTTPServer
) -> None:
    asked: list[str] = server.asked  # type: ignore[attr-defined]
    root = f"http://127.0.0.1:{server.server_address[1]}"
    slipped = (
        f"<img src='{root}/image'><link rel=stylesheet href='{root}/style'><iframe src='{root}/frame'></iframe>"
        f"<script>fetch('{root}/fetch')</script><style>body{{background:url({root}/background)}}</style><video src='{root}/video'></video>"
        f"<b onclick=\"fetch('{root}/handler')\" id=slipped></b>"
    )
    _run(tmp_path, f"<!doctype html><body>{slipped}", "--dump-dom", "--virtual-time-budget=3000")
    assert "/fetch" in asked, "without the page's policy the same markup sends requests"
    asked.clear()
    page = pages["plain"].replace("</main>", f"{slipped}</main>")
    out = _run(tmp_path, page, "--dump-dom", "--virtual-time-budget=3000")
    assert asked == []
    text = re.sub(r"\s+", " ", escape.unescape(re.sub(r"<[^>]+>", " ", re.sub(r"(?s)<style>.*?</style>", "", out))))
    for words in (
        *(row[0] for row in synthetic.WORKLOADS),
        "libc: musl against glibc",
        "asked for musl, but glibc was in force",
    ):
        assert words in text
    assert re.search(r"\d+ of \d+ rows", text), "the page's own script runs"


def test_a_screenshot_is_not_blank(tmp_path: Path, pages: dict[str, str]) -> None:
    shot = tmp_path / "page.png"
    _run(tmp_path, pages["plain"], f"--screenshot={shot}", "--window-size=1280,2000", DARK)
    data = shot.read_bytes()
    assert struct.unpack(">II", data[16:24]) == (1280, 2000)
    assert len(data) > 50_000  # a blank page of that size compresses to a tenth of it

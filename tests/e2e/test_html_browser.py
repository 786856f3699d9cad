# SPDX-License-Identifier: MIT OR Apache-2.0
"""The HTML report in a real browser: text, width, colours, and no network access."""

from __future__ import annotations

import html as escape
import http.server
import json
import re
import shutil
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.golden import crossed, latency, reports, synthetic

pytestmark = pytest.mark.slow

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
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

# Holds the page in a frame of a phone's width and writes down what the browser made of it. The page itself runs no script.
PROBE = """<!doctype html><meta charset="utf-8"><body style="margin:0">
<iframe id="page" style="width:WIDTHpx;height:800px;border:0" srcdoc="PAGE"></iframe><script>
document.getElementById("page").onload = (event) => {
  const page = event.target.contentDocument, root = page.documentElement, style = page.defaultView.getComputedStyle(page.body);
  const hidden = [...page.querySelectorAll(".runs")].map((row) => page.defaultView.getComputedStyle(row).display);
  page.querySelectorAll(".forest-table details").forEach((each) => { each.open = true; });
  const shown = [...page.querySelectorAll(".runs")].map((row) => page.defaultView.getComputedStyle(row).display);
  page.querySelectorAll("details").forEach((each) => { each.open = true; });
  const seen = { client: root.clientWidth, scroll: root.scrollWidth, paper: style.backgroundColor, ink: style.color,
    loaded: page.defaultView.performance.getEntriesByType("resource").length, hidden, shown,
    dots: page.querySelectorAll("circle.effect").length };
  const drawing = page.querySelector("svg.latency");
  if (drawing) {
    const box = (each) => { const r = each.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
    const scroll = drawing.closest(".scroll");
    seen.drawing = { box: box(drawing), height: drawing.clientHeight, client: scroll.clientWidth, scroll: scroll.scrollWidth };
    seen.labels = [...drawing.querySelectorAll("text")].map((each) => [each.textContent, ...box(each)]);
    seen.series = [...drawing.querySelectorAll("path[fill-opacity]")].map((each) => page.defaultView.getComputedStyle(each).stroke);
  }
  document.body.insertAdjacentHTML("beforeend", "<pre id=seen>" + JSON.stringify(seen) + "</pre>");
};
</script>"""


@pytest.fixture(scope="module")
def page() -> str:
    return reports.as_html(synthetic.context(), synthetic.analysis())


def _run(tmp_path: Path, document: str, *flags: str) -> str:
    if CHROMIUM is None:
        pytest.skip("unavailable: Chromium is not installed (apt-get install chromium)")
    source = tmp_path / "page.html"
    source.write_text(document, encoding="utf-8")
    profile = tmp_path / "profile"
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", *flags, source.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def _probe(tmp_path: Path, document: str, width: int, *flags: str) -> dict[str, Any]:
    probe = PROBE.replace("WIDTH", str(width)).replace("PAGE", escape.escape(document))
    out = _run(
        tmp_path, probe, "--dump-dom", f"--window-size={max(width, 500)},900", "--virtual-time-budget=3000", *flags
    )
    found = re.search(r"<pre id=\"seen\">(.*?)</pre>", out)
    assert found, out[-2000:]
    seen: dict[str, Any] = json.loads(escape.unescape(found[1]))
    return seen


def test_the_page_shows_all_text(tmp_path: Path, page: str) -> None:
    out = _run(tmp_path, page, "--dump-dom")
    text = escape.unescape(re.sub(r"<[^>]+>", " ", re.sub(r"(?s)<style>.*?</style>", "", out)))
    text = re.sub(r"\s+", " ", text)
    for row in synthetic.WORKLOADS:
        assert row[0] in text
    for words in (
        "libc: musl against glibc",
        "1.344",
        "Busy machine",
        "another level was in force",
        "1 of 54 differ",
        "signs agree".lower(),
        "swapstone rerun records/",
        "Example CPU",
        "asked for musl, but glibc was in force",
    ):
        assert words in text


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_a_page_of_crossed_factors_fits_the_width(tmp_path: Path, width: int) -> None:
    seen = _probe(tmp_path, reports.as_html(crossed.context(), crossed.analysis()), width)
    assert (seen["client"], seen["scroll"]) == (width, width)
    assert seen["loaded"] == 0


@pytest.fixture(scope="module")
def latency_page() -> str:
    return reports.as_html(latency.context(), latency.analysis())


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_a_page_of_latencies_scrolls_only_inside_its_drawings(tmp_path: Path, latency_page: str, width: int) -> None:
    seen = _probe(tmp_path, latency_page, width)
    assert (seen["client"], seen["scroll"]) == (width, width)
    assert seen["loaded"] == 0
    assert (seen["drawing"]["scroll"] > seen["drawing"]["client"]) == (width < 700)
    assert seen["drawing"]["height"] > 500


def test_drawing_labels_stay_inside_and_do_not_overlap(tmp_path: Path, latency_page: str) -> None:
    seen = _probe(tmp_path, latency_page, 1280)
    assert len(seen["labels"]) > 50
    left, top, right, bottom = seen["drawing"]["box"]
    for name, x1, y1, x2, y2 in seen["labels"]:
        assert left <= x1 < x2 <= right, name
        assert top <= y1 < y2 <= bottom, name
    boxes = seen["labels"]
    for place, (name, x1, y1, x2, y2) in enumerate(boxes):
        for other, a1, b1, a2, b2 in boxes[place + 1 :]:
            # Boxes of text are higher than their letters: lines that follow each other may touch by some points.
            assert x2 <= a1 or a2 <= x1 or y2 - 4 <= b1 or b2 - 4 <= y1, f"{name} lies on {other}"


def test_series_colours_differ_and_contrast_with_the_background(tmp_path: Path, latency_page: str) -> None:
    for flag in (LIGHT, DARK):
        seen = _probe(tmp_path, latency_page, 1280, flag)
        paper = _luminance(seen["paper"])
        assert len(set(seen["series"])) == 2
        for colour in seen["series"]:
            light, dark = max(paper, _luminance(colour)), min(paper, _luminance(colour))
            assert (light + 0.05) / (dark + 0.05) >= 4.5  # WCAG 2.2, 1.4.3: text of this size; marks need 3


def _luminance(colour: str) -> float:
    """Return the relative luminance of ``rgb(r, g, b)``, as WCAG 2.2 defines it."""
    shares = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_the_page_fits_the_width(tmp_path: Path, page: str, width: int) -> None:
    seen = _probe(tmp_path, page, width)
    assert seen["client"] == width
    assert seen["scroll"] == width
    assert seen["dots"] >= 12


def test_the_probe_detects_a_page_that_is_too_wide(tmp_path: Path) -> None:
    seen = _probe(tmp_path, "<!doctype html><body><div style='width:900px'>x</div>", 360)
    assert seen["scroll"] > 360


def test_runs_are_shown_when_their_row_is_opened(tmp_path: Path, page: str) -> None:
    seen = _probe(tmp_path, page, 1280)
    assert len(seen["hidden"]) == 24
    assert set(seen["hidden"]) == {"none"}
    assert "none" not in seen["shown"]


def test_colours_follow_the_preferred_colour_scheme(tmp_path: Path, page: str) -> None:
    def lightness(colour: str) -> float:
        return sum(map(int, re.findall(r"\d+", colour)[:3])) / 765

    light, dark = _probe(tmp_path, page, 1280, LIGHT), _probe(tmp_path, page, 1280, DARK)
    assert lightness(light["paper"]) > 0.9
    assert lightness(light["ink"]) < 0.3
    assert lightness(dark["paper"]) < 0.2
    assert lightness(dark["ink"]) > 0.7


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
    tmp_path: Path, page: str, server: http.server.HTTPServer
) -> None:
    asked: list[str] = server.asked  # type: ignore[attr-defined]
    root = f"http://127.0.0.1:{server.server_address[1]}"
    slipped = (
        f"<img src='{root}/image'><link rel=stylesheet href='{root}/style'><iframe src='{root}/frame'></iframe>"
        f"<script>fetch('{root}/fetch')</script><style>body{{background:url({root}/background)}}</style><video src='{root}/video'></video>"
    )
    _run(tmp_path, f"<!doctype html><body>{slipped}", "--dump-dom", "--virtual-time-budget=3000")
    assert asked, "without the page's policy the same markup sends requests"
    asked.clear()
    _run(tmp_path, page.replace("</main>", f"{slipped}</main>"), "--dump-dom", "--virtual-time-budget=3000")
    assert asked == []


@pytest.mark.parametrize(
    ("name", "width", "flag"), [("desk", 1280, LIGHT), ("desk-dark", 1280, DARK), ("small", 500, LIGHT)]
)
def test_a_screenshot_is_not_blank(tmp_path: Path, page: str, name: str, width: int, flag: str) -> None:
    shot = tmp_path / f"{name}.png"
    _run(tmp_path, page, f"--screenshot={shot}", f"--window-size={width},2000", flag)
    data = shot.read_bytes()
    assert struct.unpack(">II", data[16:24]) == (width, 2000)
    assert len(data) > 50_000  # a blank page of that size compresses to a tenth of it

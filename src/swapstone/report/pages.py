"""What checking the published pages found, for a terminal or a pipe."""

from __future__ import annotations

from collections import Counter

from swapstone import published
from swapstone.published import CheckReport
from swapstone.published.derived_figures import LATENCY_TABLES, UNIXBENCH_INDEX
from swapstone.report import columns, words
from swapstone.report.columns import Cell, Paint


def _recomputed(report: CheckReport, width: int, paint: Paint) -> list[str]:
    places = Counter((row.source, row.place) for row in report.recomputed)
    same = Counter((row.source, row.place) for row in report.recomputed if row.agrees)
    body = [[Cell(text, "dim") for text in ("derived by the page", "numbers", "reproduced")]]
    for (source, place), number in places.items():
        reproduced = same[source, place]
        style = "good" if reproduced == number else "bad"
        body.append([Cell(f"{source}, {place}"), Cell(str(number)), Cell(str(reproduced), style)])
    lines = columns.table(body, [False, True, True], [max(20, width - 20), 0, 0], paint)
    lines += ["", *_indices(report, paint)]
    off = [row for row in report.recomputed if not row.agrees]
    if off:
        lines += ["", paint("Not reproduced:", "bold")]
        for row in off:
            text = f"- {row.place}, {row.row}: printed {row.printed}, recomputed {row.computed} ({row.formula})"
            if row.place == LATENCY_TABLES:
                text = f"- {row.place}, {row.row}: {row.formula}, but that is {row.computed} = {row.printed}"
            lines += columns.wrap(text, width, "  ")
    return lines


def _indices(report: CheckReport, paint: Paint) -> list[str]:
    """Return the UnixBench indices, each as the page prints it and as its own figures give it."""
    body = [[Cell(text, "dim") for text in ("UnixBench index", "printed", "recomputed")]]
    for row in report.recomputed:
        if row.formula == UNIXBENCH_INDEX:
            place = f"{row.source}, {row.place.removeprefix('UnixBench, ')}, {row.row}"
            body.append([Cell(place), Cell(row.printed), Cell(row.computed, "good" if row.agrees else "bad")])
    return columns.table(body, [False, True, True], [60, 0, 0], paint)


def render(report: CheckReport, *, width: int = 80, colour: bool = False, ascii_only: bool = False) -> str:
    """Render the check of the published pages.

    Args:
        report: what `swapstone.published.check` returned.
        width: columns of the terminal, at least 60.
        colour: whether to use terminal codes.
        ascii_only: whether to keep to ASCII.

    Returns:
        The text, ending in a newline.
    """
    width = max(60, width)
    paint = Paint(colour=colour, ascii_only=ascii_only)
    good = sum(row.agrees for row in report.recomputed)
    derived = len(report.recomputed)
    silent = sum(each.unsupported for each in report.disagreements)
    against = sum(not each.unsupported for each in report.disagreements)
    lines = columns.wrap(
        f"{report.figures} published figures. {good} of {derived} numbers that the pages derived from theirs are reproduced to the printed "
        f"digit. Words and numbers disagree in {words.count(against, 'place')}; {words.count(silent, 'more claim')} without numbers.",
        width,
    )
    lines += ["", *_recomputed(report, width, paint)]
    for source in published.sources():
        found = [each for each in report.disagreements if each.source == source.name]
        held = [each for each in report.borne_out if each[0] == source.name]
        lines += [
            "",
            *(paint(line, "bold") for line in columns.wrap(f"{source.name}: {words.safe(source.title)}", width, "  ")),
        ]
        for each in found:
            lines += ["", *columns.wrap(f"- {each.place}, words: {each.words}.", width, "  ")]
            label = "no numbers" if each.unsupported else "numbers"
            lines += columns.wrap(f"  {label}: {each.numbers}", width, "    ")
        if held:
            lines += [
                "",
                *columns.wrap(
                    "Borne out: " + "; ".join(f"{text} ({numbers.rstrip('.')})" for _, text, numbers in held) + ".",
                    width,
                    "  ",
                ),
            ]
    return "\n".join(map(paint.final, lines)) + "\n"

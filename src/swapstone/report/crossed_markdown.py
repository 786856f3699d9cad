"""Crossed factors as Markdown."""

from __future__ import annotations

from swapstone.model import Comparison, FactorEffect, Interaction, Presence, Verdict
from swapstone.report import crossed, sentences, view, words
from swapstone.report.crossed import CrossedSection, Matrix
from swapstone.report.markdown_parts import code, plain, table

_STRONG = (Verdict.BETTER, Verdict.WORSE)


def lines(section: CrossedSection) -> list[str]:
    """Return all about one metric: the matrix, the effects, the interactions, every sentence."""
    heading = f"{section.title}: {sentences.metric_name(section.metric.name)}"
    found = ["", f"## {plain(heading)}, each variant against the first", *_matrix(section.matrix)]
    found += [f"{plain(text)}\n" for text in section.rejected]
    effects, interactions = section.main, section.interactions
    if effects.lines:
        found += ["", "### Main effects: the mean over the other factors' levels"]
        head = ["workload", *(plain(change.label) for change in effects.columns)]
        body = [[code(name), *map(_effect, cells)] for name, cells in effects.lines]
        found += table(head, [False] * len(head), body)
        notes = (crossed.dependences(effects), crossed.left_out(effects))
        found += [f"{plain(text)}\n" for text in notes if text]
    if interactions.lines:
        found += ["", "### Interactions: the first's ratio with the second, over its ratio without"]
        head = ["workload", *(plain(crossed.pair(*pair)) for pair in interactions.columns)]
        body = [[code(name), *map(_interaction, cells)] for name, cells in interactions.lines]
        found += table(head, [False] * len(head), body)
        for each in crossed.told(interactions):
            found.append(f"- {plain(each.workload or crossed.INDEX)}: {plain(crossed.sentence(each))}.")
        texts = (crossed.counted(interactions), crossed.undecided(interactions.cells))
        found += ["", *(f"{plain(text)}\n" for text in texts if text)]
    return found


def _matrix(matrix: Matrix) -> list[str]:
    head = ["workload", *(plain(", ".join(levels)) for levels in (matrix.baseline, *matrix.variants))]
    body = [[code(name), plain(crossed.baseline_text(line)), *map(_cell, line)] for name, line in matrix.lines]
    if matrix.indices:
        ratios = ["" if each is None else words.ratio(each.effect) for each in matrix.indices]
        body.append([code(crossed.INDEX), "", *ratios])
    return table(head, [False] + [True] * (len(head) - 1), body)


def _cell(c: Comparison | None) -> str:
    if c is None:
        return ""
    effect = view.shown(c)
    verdict = f"**{c.verdict.value}**" if c.verdict in _STRONG else c.verdict.value
    return verdict if effect is None else f"{plain(words.effect(effect, c))} {verdict}"


def _effect(cell: FactorEffect | None) -> str:
    if cell is None:
        return ""
    star = f" (depends on {plain(', '.join(cell.depends_on))})" if cell.depends_on else ""
    return f"{_number(cell)} {cell.verdict.value}{star}".strip()


def _interaction(cell: Interaction | None) -> str:
    if cell is None:
        return ""
    said = f"**{cell.presence.value}**" if cell.presence is Presence.PRESENT else cell.presence.value
    return f"{_number(cell)} {said}".strip()


def _number(cell: FactorEffect | Interaction) -> str:
    if cell.effect is None:
        return ""
    between = words.interval(cell)
    return plain(words.effect(cell.effect, cell) + (f" ({between})" if between else ""))

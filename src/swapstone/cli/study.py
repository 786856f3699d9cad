"""`swapstone study`: the experiments that we ship."""

from __future__ import annotations

from pathlib import Path

import click

from swapstone.cli import parts
from swapstone.cli.flow import Session, Wish, go_on, parse_factors, resolve, start
from swapstone.cli.options import NO_CACHE
from swapstone.model import UserError
from swapstone.record import default_root, find_record, new_record_path
from swapstone.session.study_file import Study, load_study


@click.command()
@click.argument("name", metavar="NAME", required=False)
@click.option("--only", multiple=True, metavar="PATTERN", help="Only workloads whose name matches; may be repeated.")
@click.option("--only-part", "only_parts", multiple=True, metavar="NAME", help="Only this part; may be repeated.")
@click.option("--budget", metavar="TIME", help="Another budget than the study's; its parts share it.")
@click.option("--seed", type=int, metavar="N", help="Of every random order.  [drawn, and kept in the record]")
@click.option(
    "--blocks",
    type=click.IntRange(1, 10_000),
    metavar="N",
    help="Exactly so many blocks, whatever precision and budget say.",
)
@click.option("--target", metavar="TARGET", help="host, vm, or fake:SPEC.toml  [as the study needs]")
@NO_CACHE
@click.option("--out", metavar="DIR", help="Folder of the new record, or of the parts' records.  [records/TIME-NAME]")
@click.option("--resume", "resumed", metavar="FOLDER", help="Go on with an interrupted study; takes --budget.")
def study_command(
    name: str | None,
    only: tuple[str, ...],
    only_parts: tuple[str, ...],
    budget: str | None,
    seed: int | None,
    blocks: int | None,
    target: str | None,
    no_cache: bool,
    out: str | None,
    resumed: str | None,
) -> int:
    r"""Run one of the experiments that Swapstone ships, with the published figures beside its own.

    NAME is one of `swapstone list studies`, or the path of a TOML file of your own (docs/studies.md). A study may consist of parts: each
    is a record of its own in records/TIME-NAME/PART, and index.html there sums them up.

    \b
    Examples:
      swapstone study musl-vs-glibc
      swapstone study musl-vs-glibc --only 'b_string*' --budget 1m
      swapstone study preempt-rt --only-part latency-x86_64
      swapstone study --resume records/20261121-180000-preempt-rt
    """
    if resumed:
        if name or only or only_parts or seed is not None or blocks or target or out:
            raise UserError(
                "--resume goes on with a study as it was begun.", "Leave out all but --budget and --no-cache."
            )
        return _resume(resumed, budget, no_cache=no_cache)
    if not name:
        raise UserError("Say which study.", "`swapstone list studies` shows them all.")
    study = load_study(name)
    if not study.part:
        if only_parts:
            raise UserError(f"The study {name} has no parts.", "Leave --only-part out.")
        wish = _wish(name, study, only=only, budget=budget, seed=seed, blocks=blocks, target=target)
        return start(resolve(wish), out, session=Session(no_cache=no_cache))
    run = parts.asked(
        Path(name).stem,
        study,
        only_parts=only_parts,
        only=only,
        budget=budget,
        seed=seed,
        blocks=blocks,
        target=target,
    )
    return parts.begin(run, Path(out) if out else new_record_path(run.name), no_cache=no_cache)


def _resume(text: str, budget: str | None, *, no_cache: bool) -> int:
    """Go on with a study's folder, or with the record of a study of one experiment."""
    for folder in (Path(text), default_root() / text):
        if (folder / parts.STUDY).is_file():
            return parts.resume(folder, budget, no_cache=no_cache)
    return go_on(find_record(text), budget, Session(no_cache=no_cache))


def _wish(
    name: str,
    study: Study,
    *,
    only: tuple[str, ...],
    budget: str | None,
    seed: int | None,
    blocks: int | None,
    target: str | None,
) -> Wish:
    """Return the wish of a study of one experiment."""
    return Wish(
        name=Path(name).stem,
        factors=parse_factors([f"{factor.name}={','.join(factor.levels)}" for factor in study.factor]),
        suites=study.suites,
        only=only,
        budget=budget or study.budget,
        margin=study.margin,
        seed=seed,
        blocks=blocks,
        null=study.null,
        target=target,
        published=study.published,
    )

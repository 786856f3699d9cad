"""`swapstone study`: the experiments that we ship."""

from __future__ import annotations

from pathlib import Path

import click

from swapstone.cli.flow import Wish, parse_factors, resolve, start
from swapstone.cli.studies import load_study


@click.command()
@click.argument("name", metavar="NAME")
@click.option("--only", multiple=True, metavar="PATTERN", help="Only workloads whose name matches; may be repeated.")
@click.option("--budget", metavar="TIME", help="Another budget than the study's.")
@click.option("--seed", type=int, metavar="N", help="Of every random order.  [drawn, and kept in the record]")
@click.option(
    "--blocks",
    type=click.IntRange(1, 10_000),
    metavar="N",
    help="Exactly so many blocks, whatever precision and budget say.",
)
@click.option("--target", metavar="TARGET", help="host, vm, or fake:SPEC.toml  [as the study needs]")
@click.option("--out", metavar="DIR", help="Folder of the new record.  [records/TIME-NAME]")
def study_command(
    name: str,
    only: tuple[str, ...],
    budget: str | None,
    seed: int | None,
    blocks: int | None,
    target: str | None,
    out: str | None,
) -> int:
    r"""Run one of the experiments that Swapstone ships, with the published figures beside its own.

    NAME is one of `swapstone list studies`, or the path of a TOML file of your own.

    \b
    Examples:
      swapstone study musl-vs-glibc
      swapstone study musl-vs-glibc --only 'b_string*' --budget 1m
    """
    study = load_study(name)
    factors = parse_factors([f"{factor.name}={','.join(factor.levels)}" for factor in study.factor])
    wish = Wish(
        name=Path(name).stem,
        factors=factors,
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
    return start(resolve(wish), out)

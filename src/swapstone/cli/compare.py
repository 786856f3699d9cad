"""`swapstone compare` and the resuming of a record."""

from __future__ import annotations

import click

from swapstone.cli.flow import Wish, go_on, parse_factors, resolve, start
from swapstone.cli.options import measuring
from swapstone.model import UserError
from swapstone.record import find_record


@click.command()
@click.argument("factors", nargs=-1, metavar="FACTOR=BASELINE,CANDIDATE[,...]")
@click.option("--suite", "suites", multiple=True, metavar="NAME", help="A suite of workloads; may be repeated.  [libc]")
@measuring
@click.option(
    "--resume", metavar="RECORD", help="Go on with an interrupted record; takes no other option but --budget."
)
def compare_command(
    factors: tuple[str, ...],
    suites: tuple[str, ...],
    only: tuple[str, ...],
    budget: str | None,
    margin: str,
    confidence: str,
    seed: int | None,
    blocks: int | None,
    null: bool,
    target: str,
    out: str | None,
    resume: str | None,
) -> int:
    r"""Compare levels of a factor and say what may be believed.

    The first level is the baseline. Each workload is built for every level; trials run in random order inside blocks that hold each
    level once. It stops when every interval is narrower than the margin, or when the budget for measuring is spent. Ctrl-C prints the
    verdicts so far; --resume goes on.

    \b
    Examples:
      swapstone compare libc=glibc,musl
      swapstone compare libc=glibc,musl --only 'b_malloc*' --budget 1m --null
      swapstone compare --resume last
    """
    if resume:
        if factors or suites or only or null or out or seed is not None or blocks:
            raise UserError("--resume goes on with an experiment as it is: it takes no other option but --budget.")
        return go_on(find_record(resume), budget)
    wish = Wish(
        name="compare",
        factors=parse_factors(factors),
        suites=suites or ("libc",),
        only=only,
        budget=budget,
        margin=margin,
        confidence=confidence,
        seed=seed,
        blocks=blocks,
        null=null,
        target=target,
    )
    return start(resolve(wish), out)

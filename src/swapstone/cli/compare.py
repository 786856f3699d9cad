"""`swapstone compare` and the resuming of a record."""

from __future__ import annotations

import click
from click.core import ParameterSource

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
    layouts: int | None,
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
        _refuse_other_options()
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
        layouts=layouts or 0,
        target=target,
    )
    return start(resolve(wish), out)


def _refuse_other_options() -> None:
    """Raise a `UserError` for anything beside --resume and --budget on the command line: it would be ignored."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        if (
            name not in {"resume", "budget", "help"}
            and context.get_parameter_source(name) is not ParameterSource.DEFAULT
        ):
            what = parameter.opts[0] if parameter.opts[0].startswith("-") else "FACTOR=LEVELS"
            raise UserError(
                f"--resume goes on with an experiment as it is: it takes no {what}.",
                "Only --budget may be given beside it.",
            )

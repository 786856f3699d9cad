"""`swapstone compare` and the resuming of a record."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

import click
import msgspec
from click.core import ParameterSource

from swapstone.cli.flow import Session, Wish, go_on, parse_factors, parse_loads, resolve, start
from swapstone.cli.options import measuring
from swapstone.cli.own import (
    Typed,
    building_options,
    own_program,
    program_factor,
    running_options,
    tell_of_huge_sources,
)
from swapstone.cli.program_command import ProgramCommand, program_of
from swapstone.cli.serving import serving_options
from swapstone.model import FactorLevels, UserError
from swapstone.record import find_record
from swapstone.workloads import SUITES

_USUAL_SUITE = "libc"
_SUITES_OF_FACTORS = {"kernel": "latency", "swap": "swap", "netstack": "netstack"}
"""What is measured unless the user says, where one of these factors is compared."""

_GROUPS = {
    "Workloads": ("suites", "only"),
    "A program of your own": ("build", "source", "build_timeout", "rebuild", "programs"),
    "A server of your own": ("server", "drive", "connections", "reader", "warm_up", "ready_timeout"),
    "How it runs and what it gives": (
        "stdin",
        "output",
        "variables",
        "setup",
        "prepare",
        "conclude",
        "timeout",
        "pin",
        "ignore_failure",
        "metrics",
        "cpu_bound",
    ),
    "Measuring": ("budget", "blocks", "margin", "confidence", "seed", "null", "layouts", "target", "clock"),
    "The machine": ("loads", "architecture", "modules", "no_cache"),
    "Record": ("out", "resume"),
}


class _CompareCommand(ProgramCommand):
    groups = _GROUPS


@click.command(cls=_CompareCommand)
@click.argument("factors", nargs=-1, metavar="[FACTOR=BASELINE,CANDIDATE[,...]]...")
@click.option(
    "--suite",
    "suites",
    multiple=True,
    metavar="NAME",
    help="A suite of workloads; may be repeated.  [as the factor needs, or libc]",
)
@building_options
@serving_options
@running_options
@measuring
@click.option(
    "--modules",
    multiple=True,
    metavar="KERNEL=DIR",
    help="Where the modules of a kernel of your own are; may be repeated.  [KERNEL.modules, beside it]",
)
@click.option(
    "--resume", metavar="RECORD", help="Go on with an interrupted record; takes no other option but --budget."
)
@click.pass_context
def compare_command(
    context: click.Context,
    /,
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
    target: str | None,
    clock: str | None,
    loads: str,
    architecture: str | None,
    modules: tuple[str, ...],
    no_cache: bool,
    out: str | None,
    resume: str | None,
    rebuild: bool,
    **about_program: object,
) -> int:
    r"""Compare levels of a factor and say what may be believed.

    The first level is the baseline. Each workload is built for every level; trials run in random order inside blocks that hold each
    level once. It stops when every interval is narrower than the margin, or when the budget for measuring is spent. Ctrl-C prints the
    verdicts so far; --resume goes on. What follows -- is a program of your own, measured instead of Swapstone's workloads.

    \b
    Examples:
      swapstone compare libc=glibc,musl
      swapstone compare libc=glibc,musl --only 'b_malloc*' --budget 1m --null
      swapstone compare libc=glibc,musl allocator=default,mimalloc --only 'b_malloc*'   # every combination
      swapstone compare libc=glibc,musl --target vm --only 'b_string*'                  # on a clock without noise
      swapstone compare kernel=generic,rt --suite latency --load idle,cpu,memory,io,network
      swapstone compare kernel=./bzImage-a,./bzImage-b --modules ./bzImage-a=./modules-a
      swapstone compare --resume last

    \b
    A program of your own (docs/own-program.md):
      swapstone compare libc=glibc,musl --source src \
          --build 'make CC={cc} CFLAGS={cflags} LDFLAGS={ldflags}' -- ./prog ARG
      swapstone compare --program baseline=./old --program candidate=./new -- ARG
      swapstone compare allocator=default,mimalloc \
          --metric 'req/s[1/s,higher]=regex:Requests/sec: +([0-9.]+)' -- ./bench

    \b
    A server of your own (docs/servers.md): started, awaited, driven, stopped, and measured apart from its driver.
      swapstone compare allocator=default,mimalloc libc=glibc,musl --source src \
          --build 'make CC={cc} CFLAGS={cflags} LDFLAGS={ldflags}' --server './my-server --port {port}' \
          --drive 'wrk -c {connections} -t 1 -d 3s --latency http://127.0.0.1:{port}/' --connections 1,10,100
      swapstone compare allocator=default,mimalloc --server './my-server {port}' \
          --drive 'swapstone-pace --port {port} --rate 2000 --seconds 3 --connections 32'
      swapstone compare allocator=default,mimalloc --server './my-server {port}' --drive './my-driver {port}' \
          --read 'regex:(?P<requests>\d+) requests in (?P<seconds>[0-9.]+) s'
    """
    if resume:
        _refuse_other_options(context)
        return go_on(find_record(resume), budget)
    own = own_program(msgspec.convert({**about_program, "rebuild": rebuild, "command": program_of(context)}, Typed))
    if own is not None:
        _refuse_workloads(suites, only)
        tell_of_huge_sources(own)
    named = program_factor(own) if own else ()
    chosen = (*named, *(parse_factors(factors) if factors or not named else ()))
    wish = Wish(
        name="compare",
        factors=chosen,
        suites=suites or _usual_suites(chosen, only),
        only=only,
        budget=budget,
        margin=margin,
        confidence=confidence,
        seed=seed,
        blocks=blocks,
        null=null,
        layouts=layouts or 0,
        target=target,
        clock=clock,
        loads=parse_loads(loads),
        architecture=architecture or "",
        modules=modules,
        own=own,
    )
    return start(resolve(wish), out, session=Session(rebuild=rebuild, no_cache=no_cache))


def _usual_suites(factors: Iterable[FactorLevels], only: tuple[str, ...]) -> tuple[str, ...]:
    """Return the suites of an experiment that names none: those that show what its factors change, else ``libc``.

    Patterns of ``--only`` that all match in ``libc`` are still about ``libc``, as they are without such a factor.
    """
    known = {suite.name: suite for suite in SUITES}
    found = tuple(
        dict.fromkeys(suite for choice in factors if (suite := _SUITES_OF_FACTORS.get(choice.factor, "")) in known)
    )
    libc = [workload.name for workload in known[_USUAL_SUITE].workloads]
    about_libc = only and all(any(fnmatchcase(name, pattern) for name in libc) for pattern in only)
    return (_USUAL_SUITE,) if about_libc or not found else found


def _refuse_workloads(suites: tuple[str, ...], only: tuple[str, ...]) -> None:
    for given, option in ((suites, "--suite"), (only, "--only")):
        if given:
            raise UserError(
                f"{option} chooses among Swapstone's workloads; a program of your own is measured instead of them.",
                f"Leave {option} out, or what follows --.",
            )


def _refuse_other_options(context: click.Context) -> None:
    """Raise a `UserError` for anything beside --resume and --budget on the command line: it would be ignored."""
    given = [
        parameter
        for parameter in context.command.params
        if parameter.name not in {"resume", "budget", "help"}
        and context.get_parameter_source(parameter.name or "") is not ParameterSource.DEFAULT
    ]
    what = next((p.opts[0] if p.opts[0].startswith("-") else "FACTOR=LEVELS" for p in given), "")
    if not what and program_of(context) is not None:
        what = "program"
    if what:
        raise UserError(
            f"--resume goes on with an experiment as it is: it takes no {what}.",
            "Only --budget may be given beside it.",
        )

# SPDX-License-Identifier: MIT OR Apache-2.0
"""`swapstone compare`, and resuming a record."""

from __future__ import annotations

from typing import Any

import click

from swapstone.cli.display import display
from swapstone.cli.documents import print_document
from swapstone.cli.memory_fit import check_no_fit_options, fit_memory_options, run_fit
from swapstone.cli.options import FAIL_IF, GROUPS, OUT, declared
from swapstone.cli.output import echo
from swapstone.cli.printing import interruptible, print_outcomes, print_table
from swapstone.cli.program_command import CompareCommand, program_of, typed_option
from swapstone.cli.record_options import ALL, TRUST
from swapstone.cli.shell_completion import COMPLETIONS
from swapstone.core.model import UserError
from swapstone.core.report.context import Selection
from swapstone.core.session.agreement_output import agreement_of
from swapstone.core.session.compare_options import ComparisonRun, resume_named, run_options
from swapstone.core.session.record_handle import Record
from swapstone.core.session.run_options import WITH_RESUME


@click.command(cls=CompareCommand)
@click.argument(
    "factors", nargs=-1, metavar="[FACTOR=BASELINE,CANDIDATE[,...] | COMMAND]...", shell_complete=COMPLETIONS["factors"]
)
@declared()
@fit_memory_options
@OUT
@click.option(
    "--resume",
    metavar="RECORD",
    help=f"Resume an interrupted record; accepts only {WITH_RESUME} beside it, and --all.",
    shell_complete=COMPLETIONS["records"],
)
@TRUST
@ALL
@FAIL_IF
@click.pass_context
@interruptible
def compare_command(
    context: click.Context,
    /,
    resume: str | None,
    trust: bool,
    budget: str | None,
    guest_timeout: str | None,
    every: bool,
    fail_if: tuple[str, ...],
    **options: Any,  # noqa: ANN401 - as click passes them
) -> int:
    r"""Compare levels of a factor, or command lines: ratios with confidence intervals, and a verdict for each.

    The first level is the baseline. Each workload is built for every level. Trials run in random order, in blocks that hold each
    level once. Measuring stops when every interval is narrower than the margin, or when the budget is spent. Ctrl-C prints the
    verdicts so far, and --resume continues. What follows -- is your own program, measured instead of the bundled workloads.

    \b
    Examples:
      swapstone compare libc=glibc,musl
      swapstone compare libc=glibc,musl --only 'b_malloc*' --budget 1m --null
      swapstone compare libc=glibc,musl allocator=default,mimalloc --only 'b_malloc*'   # every combination
      swapstone compare libc=glibc,musl --target vm --only 'b_string*'                  # on a clock without noise
      swapstone compare libc=glibc,musl --target ssh:pi1,ssh:pi2,ssh:pi3                 # does it hold on each board?
      swapstone compare kernel=./Image-a,./Image-b --target labgrid:rpi4 --lg-env lab.yaml
      swapstone compare libc=glibc,musl --arch arm64,armhf,riscv64,x86_64               # a record for each architecture
      swapstone compare swap=flash,zram:lz4 --ns-per-instruction 1,2,4                  # which results depend on the clock?
      swapstone compare kernel=generic,rt --suite latency --load idle,cpu,memory,io,network
      swapstone compare kernel=./bzImage-a,./bzImage-b --modules ./bzImage-a=./modules-a
      swapstone compare --resume last

    \b
    Your own commands (swapstone docs own-program); the first is the baseline:
      swapstone compare './old --fast' './new --fast'
      swapstone compare 'python3 a.py' 'python3 b.py' -n before -n after
      swapstone compare 'sort -n {file}' 'sort -g {file}' --parameter file=small.txt,large.txt
      swapstone compare './prog --threads {N}' --parameter N=1,2,4
      swapstone compare --vary env:MALLOC_ARENA_MAX=8,1 -- ./prog ARG
      swapstone compare allocator=default,mimalloc './prog a' './prog b'                # every combination

    \b
    Your own program, built for each level:
      swapstone compare libc=glibc,musl --source src \
          --build 'make CC={cc} CFLAGS={cflags} LDFLAGS={ldflags}' -- ./prog ARG
      swapstone compare --program baseline=./old --program candidate=./new -- ARG
      swapstone compare allocator=default,mimalloc \
          --metric 'req/s[1/s,higher]=regex:Requests/sec: +([0-9.]+)' -- ./bench
      swapstone compare allocator=default,mimalloc --fit-memory -- ./prog ARG           # the smallest memory that suffices

    \b
    Your own server (swapstone docs servers), measured apart from its load generator:
      swapstone compare allocator=default,mimalloc libc=glibc,musl --source src \
          --build 'make CC={cc} CFLAGS={cflags} LDFLAGS={ldflags}' --server './my-server --port {port}' \
          --load-generator 'wrk -c {connections} -t 1 -d 3s --latency http://127.0.0.1:{port}/' --connections 1,10,100
      swapstone compare allocator=default,mimalloc --server './my-server {port}' \
          --load-generator 'swapstone-pace --port {port} --rate 2000 --seconds 3 --connections 32'
      swapstone compare allocator=default,mimalloc --server './my-server {port}' --load-generator './my-client {port}' \
          --read 'regex:(?P<requests>\d+) requests in (?P<seconds>[0-9.]+) s'
    """
    given = {**options, "budget": budget, "guest_timeout": guest_timeout, "fail_if": fail_if}
    if options["fit_memory"]:
        return run_fit(context, given)
    check_no_fit_options(context)
    records: list[Record] = []
    if resume:
        _check_no_other_options(context)
        runs = iter((ComparisonRun(resume_named(resume, given, trust=trust, progress=display())),))
    elif trust:
        raise UserError("Only a record that is resumed can be untrusted.", "Leave --trust out, or add --resume RECORD.")
    else:
        runs = run_options(given, program_of(context), display())
    for run in runs:
        records += run.records
        if run.architecture:
            separator = "\n" if len(records) > 1 else ""
            echo(f"{separator}Architecture {run.architecture}\n")
        if len(run.records) > 1:
            print_document(agreement_of(run.records).document, every=every)
        else:
            print_table(run.records[0], Selection(every=True) if every else None)
    return print_outcomes(records, fail_if)


_WITH_RESUME = {
    *("resume", "budget", "no_cache", "guest_timeout", "every", "fail_if", "trust", "help"),
    *GROUPS["Many machines"],
}


def _check_no_other_options(context: click.Context) -> None:
    """Raise a `UserError` for anything on the command line that a resumed record would ignore."""
    what = typed_option(context, lambda name: name not in _WITH_RESUME)
    what = what if what is None or what.startswith("-") else "FACTOR=LEVELS"
    if not what and program_of(context) is not None:
        what = "program"
    if what:
        raise UserError(
            f"--resume continues an experiment with its own options: it takes no {what}.",
            f"Only {WITH_RESUME} may be given beside it, and --all.",
        )

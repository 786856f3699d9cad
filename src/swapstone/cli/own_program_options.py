# SPDX-License-Identifier: MIT OR Apache-2.0
"""Options of `swapstone compare` for own programs and own servers."""

from __future__ import annotations

import click

from swapstone.cli.options import DRIVER_TARGET, SERVER_ADDRESS, AliasedOption, Chain
from swapstone.cli.shell_completion import complete_libraries


def _as_parameter(ctx: click.Context, param: click.Parameter, given: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    del ctx, param
    return tuple(f"{name}={'..'.join(values)}" for name, *values in given)


command_options = Chain(
    click.option(
        "-n", "--name", "names", multiple=True, metavar="NAME", help="Name of a COMMAND, in their order; repeatable."
    ),
    click.option(
        "--parameter",
        "parameters",
        multiple=True,
        metavar="NAME=VALUES",
        help="A row for each value of {NAME}: N=1,10,100, N=1..10 or N=1..100/10; repeatable.",
    ),
    click.option(
        "-L",
        "--parameter-list",
        type=(str, str),
        multiple=True,
        metavar="NAME VALUES",
        callback=_as_parameter,
        help="As --parameter NAME=VALUES.",
    ),
    click.option(
        "-P",
        "--parameter-scan",
        type=(str, str, str),
        multiple=True,
        metavar="NAME FIRST LAST",
        callback=_as_parameter,
        help="As --parameter NAME=FIRST..LAST.",
    ),
    click.option(
        "--vary",
        multiple=True,
        metavar="NAME=VALUES",
        help="A free factor: values of {NAME}, or of a variable with env:NAME; the first is the baseline; repeatable.",
    ),
    click.option("--shell", is_flag=True, help="Run each COMMAND by /bin/sh -c; the shell is measured too."),
)

building_options = Chain(
    click.option(
        "--build",
        metavar="COMMAND",
        help="Shell command that builds it in a copy of the sources. It finds CC, CXX, CFLAGS, LDFLAGS and others in the environment, "
        "and as {cc}, {cxx}, {cflags}, {ldflags}, {cmake_toolchain}, {meson_cross} (swapstone docs toolchains).",
    ),
    click.option("--source", metavar="DIR", help="Folder that is copied for each variant and built there."),
    click.option("--build-timeout", metavar="TIME", help="Stop a build after this long.  [1h]"),
    click.option(
        "--with",
        "libraries",
        metavar="LIBRARY[,...]",
        shell_complete=complete_libraries,
        help="Libraries to build for each variant, which its build then finds, e.g. zlib,openssl.",
    ),
    click.option("--rebuild", is_flag=True, help="Build again although an equal build is in the cache."),
    click.option(
        "--program",
        "programs",
        multiple=True,
        metavar="NAME=PATH",
        help="A program that is built already, the baseline first; repeatable. The ARGs after -- are for all.",
    ),
)

running_options = Chain(
    click.option("--input", "stdin", metavar="FILE", help="Its standard input.  [/dev/null]"),
    click.option(
        "--output", metavar="FILE", help="Write its standard output to a file, or to null; no metric is read from it."
    ),
    click.option(
        "--artifact",
        "artifacts",
        multiple=True,
        metavar="FILE",
        help="A file that each run writes; like the output, it must be the same for all variants; repeatable.",
    ),
    click.option(
        "--output-may-differ", is_flag=True, help="Don't compare what the variants print, nor their exit statuses."
    ),
    click.option(
        "--files", multiple=True, metavar="PATH", help="Put what it reads into the virtual machine; repeatable."
    ),
    click.option("--memory", metavar="SIZE", help="Memory of the virtual machine, e.g. 512M.  [256M]"),
    click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="Add to its environment; repeatable."),
    click.option("--setup", metavar="COMMAND", help="Run once for each variant before its first trial."),
    click.option("--prepare", metavar="COMMAND", help="Run before each trial; not measured."),
    click.option("--conclude", metavar="COMMAND", help="Run after each trial; not measured."),
    click.option("--timeout", metavar="TIME", help="Stop a trial after this long.  [10m]"),
    click.option("--pin", is_flag=True, help="Pin it to one processor.  [all processors]"),
    click.option("--ignore-failure", is_flag=True, help="Count runs with another exit status than 0."),
    click.option(
        "--metric",
        "metrics",
        multiple=True,
        metavar="NAME[UNIT,DIRECTION]=regex:PATTERN",
        help="A number that it prints; repeatable. DIRECTION is higher, lower or neither.",
    ),
    click.option("--cpu-bound", is_flag=True, help="CPU time decides, not elapsed time."),
)

server_options = Chain(
    click.option(
        "--server", metavar="COMMAND", help="A server instead of a program after --; {port} is replaced by a free port."
    ),
    click.option(
        "--load-generator",
        cls=AliasedOption,
        aliases=["--drive"],
        metavar="COMMAND",
        help="What sends its requests: wrk, ab, redis-benchmark, swapstone-pace or your own; with {port}, {connections}.",
    ),
    click.option(
        "--connections", metavar="N[,N...]", help="How many connections; each number is a workload of its own."
    ),
    click.option(
        "--read",
        "reader",
        metavar="NAME|regex:PATTERN",
        help="How to read its output: as that of a known load generator, or by named groups.  [by --load-generator]",
    ),
    click.option(
        "--warm-up", metavar="TIME", help="Send requests for this long before measuring; 0 for none.  [300ms]"
    ),
    click.option("--ready-timeout", metavar="TIME", help="The server must accept connections within this.  [10s]"),
    click.option("--template", metavar="FILE", help="Its configuration file with {port}, for {template} in --server."),
    DRIVER_TARGET,
    SERVER_ADDRESS,
)

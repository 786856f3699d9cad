# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every option of a comparison, declared once, by its owner.

A user writes `Measuring(budget="1m", blocks=3)` in Python, `--budget 1m --blocks 3` on the command line, and `budget = "1m"` in a study
file. A field holds the value in the form that the program reads; its converter takes what users write.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, TypeVar

import attrs

from swapstone.core.model import FAMILY_CORRECTION, IDLE, RANDOM_ORDER, REPORT_CORRECTION, refuse
from swapstone.core.model.parts import provided
from swapstone.core.model.run_sharing import EXECUTORS
from swapstone.core.session.option_table import Piece, between, declared, given_of, options_of
from swapstone.core.session.option_values import (
    command_list,
    command_text,
    command_words,
    confidence_of,
    duration_of,
    duration_text,
    margin_of,
    name_list,
    named_texts,
    number_list,
    share_text,
    text_list,
    value_texts,
)
from swapstone.core.targets import target_kinds

_WORKLOADS, _COMMANDS, _PROGRAM = "Workloads", "Your own commands", "Your own program"
_SERVER = "Your own server"
_RUNS, _MEASURING, _MACHINE, _CLUSTER = ("How it runs and what it prints", "Measuring", "The machine", "Many machines")
MARGIN = 0.02
"""Ratio of no interest."""

EXACT_MARGIN = 0.001
"""The same where values are exact: above three floors of guest time, and of instructions in user mode from 3 million on."""

CONFIDENCES = {REPORT_CORRECTION: 0.99, FAMILY_CORRECTION: 0.95}
"""Before correction, by what it holds for: a whole report, or each of its families."""

MOST_DISCARDED = 16
"""The largest number of discarded runs before each measured one."""

_TEXTS, _NAMED = tuple[str, ...], dict[str, str]
_VALUES = dict[str, str | tuple[str | int | float, ...]]


@attrs.frozen(kw_only=True)
class Workloads(Piece):
    """Which of Swapstone's workloads run, with what levels held, beside which published figures."""

    suites: tuple[str, ...] = attrs.field(
        default=(),
        converter=name_list,
        metadata=declared(
            "--suite NAME",
            _WORKLOADS,
            "A suite of workloads; repeatable.  [the one that suits the factor, or libc]",
            'suites = ["libc"]',
            _TEXTS,
            repeats=True,
            complete="suites",
        ),
    )
    only: tuple[str, ...] = attrs.field(
        default=(),
        converter=text_list,
        metadata=declared(
            "--only PATTERN",
            _WORKLOADS,
            "Only workloads whose name matches; repeatable.",
            'only = ["b_malloc*"]',
            _TEXTS,
            repeats=True,
            complete="workloads",
        ),
    )
    hold: tuple[str, ...] = attrs.field(
        default=(),
        converter=named_texts,
        metadata=declared(
            "--hold FACTOR=LEVEL",
            _WORKLOADS,
            "A level that all variants share, of a factor that is not compared, e.g. optimization=Os; repeatable.",
            'hold = { optimization = "Os" }',
            _NAMED,
            repeats=True,
            complete="factors",
        ),
    )
    published: str = attrs.field(
        default="",
        metadata=declared(
            "", "", "A published study whose figures stand beside the results.", 'published = "musl-vs-glibc"'
        ),
    )


@attrs.frozen(kw_only=True)
class Program(Piece):
    """An own program, own command lines, or an own server, instead of Swapstone's workloads.

    Relative paths start from the current folder, or from that of a study file.
    """

    command: tuple[str, ...] | None = attrs.field(
        default=None,
        converter=command_words,
        metadata=declared(
            "",
            "",
            "The program and its arguments; with `programs` the arguments alone.",
            'command = "./prog ARG"',
            str | tuple[str, ...],
        ),
    )
    commands: tuple[str, ...] = attrs.field(
        default=(),
        converter=command_list,
        metadata=declared(
            "",
            "",
            "Command lines that are compared, the baseline first.",
            'commands = { old = "./a --fast", new = "./b --fast" }',
            _NAMED,
        ),
    )
    names: tuple[str, ...] = attrs.field(
        default=(),
        converter=text_list,
        metadata=declared("-n --name NAME", _COMMANDS, "Name of a COMMAND, in their order; repeatable.", repeats=True),
    )
    parameters: tuple[str, ...] = attrs.field(
        default=(),
        converter=value_texts,
        metadata=declared(
            "--parameter NAME=VALUES",
            _COMMANDS,
            "A row for each value of {NAME}: N=1,10,100, N=1..10 or N=1..100/10; repeatable.",
            "parameters = { N = [1, 10, 100] }",
            _VALUES,
            repeats=True,
        ),
    )
    vary: tuple[str, ...] = attrs.field(
        default=(),
        converter=value_texts,
        metadata=declared(
            "--vary NAME=VALUES",
            _COMMANDS,
            "A free factor: values of {NAME}, or of a variable with env:NAME; the first is the baseline; repeatable.",
            repeats=True,
        ),
    )
    shell: bool = attrs.field(
        default=False,
        metadata=declared(
            "--shell", _COMMANDS, "Run each COMMAND by /bin/sh -c; the shell is measured too.", "shell = true", bool
        ),
    )
    build: str | None = attrs.field(
        default=None,
        metadata=declared(
            "--build COMMAND",
            _PROGRAM,
            "Shell command that builds it in a copy of the sources. It finds CC, CXX, CFLAGS, LDFLAGS and others in the environment, "
            "and as {cc}, {cxx}, {cflags}, {ldflags}, {cmake_toolchain}, {meson_cross} (swapstone docs toolchains).",
            'build = "make CC={cc} CFLAGS={cflags} LDFLAGS={ldflags}"',
        ),
    )
    source: str | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(str),
        metadata=declared(
            "--source DIR", _PROGRAM, "Folder that is copied for each variant and built there.", 'source = "src"'
        ),
    )
    build_timeout: str | None = attrs.field(
        default=None,
        converter=duration_text,
        metadata=declared(
            "--build-timeout TIME", _PROGRAM, "Stop a build after this long.  [1h]", 'build_timeout = "2h"'
        ),
    )
    libraries: tuple[str, ...] = attrs.field(
        default=(),
        converter=name_list,
        metadata=declared(
            "--with LIBRARY[,...]",
            _PROGRAM,
            "Libraries to build for each variant, which its build then finds, e.g. zlib,openssl.",
            'libraries = ["zlib", "openssl"]',
            _TEXTS,
            complete="libraries",
        ),
    )
    rebuild: bool = attrs.field(
        default=False,
        metadata=declared("--rebuild", _PROGRAM, "Build again although an equal build is in the cache."),
    )
    programs: tuple[str, ...] = attrs.field(
        default=(),
        converter=named_texts,
        metadata=declared(
            "--program NAME=PATH",
            _PROGRAM,
            "A program that is built already, the baseline first; repeatable. The ARGs after -- are for all.",
            'programs = { old = "./a", new = "./b" }',
            _NAMED,
            repeats=True,
        ),
    )
    server: str | None = attrs.field(
        default=None,
        converter=command_text,
        metadata=declared(
            "--server COMMAND",
            _SERVER,
            "A server instead of a program after --; {port} is replaced by a free port.",
            'server = "./my-server --port {port}"',
        ),
    )
    load_generator: str | None = attrs.field(
        default=None,
        converter=command_text,
        metadata=declared(
            "--load-generator COMMAND",
            _SERVER,
            "What sends its requests: wrk, ab, redis-benchmark, swapstone-pace or your own; with {port}, {connections}.",
            'load_generator = "wrk -d 3s --latency http://127.0.0.1:{port}/"',
        ),
    )
    connections: str | None = attrs.field(
        default=None,
        converter=number_list,
        metadata=declared(
            "--connections N[,N...]",
            _SERVER,
            "How many connections; each number is a workload of its own.",
            "connections = [1, 10, 100]",
            tuple[int, ...],
        ),
    )
    read: str | None = attrs.field(
        default=None,
        metadata=declared(
            "--read NAME|regex:PATTERN",
            _SERVER,
            "How to read its output: as that of a known load generator, or by named groups.  [by --load-generator]",
            'read = "wrk"',
        ),
    )
    warm_up: str | None = attrs.field(
        default=None,
        converter=duration_text,
        metadata=declared(
            "--warm-up TIME",
            _SERVER,
            "Send requests for this long before measuring; 0 for none.  [300ms]",
            'warm_up = "1s"',
        ),
    )
    ready_timeout: str | None = attrs.field(
        default=None,
        converter=duration_text,
        metadata=declared(
            "--ready-timeout TIME",
            _SERVER,
            "The server must accept connections within this.  [10s]",
            'ready_timeout = "30s"',
        ),
    )
    template: str | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(str),
        metadata=declared(
            "--template FILE",
            _SERVER,
            "Its configuration file with {port}, for {template} in --server.",
            'template = "server.conf"',
        ),
    )
    input: str | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(str),
        metadata=declared("--input FILE", _RUNS, "Its standard input.  [/dev/null]", 'input = "data.txt"'),
    )
    output: str | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(str),
        metadata=declared(
            "--output FILE",
            _RUNS,
            "Write its standard output to a file, or to null; no metric is read from it.",
            'output = "null"',
        ),
    )
    artifacts: tuple[str, ...] = attrs.field(
        default=(),
        converter=text_list,
        metadata=declared(
            "--artifact FILE",
            _RUNS,
            "A file that each run writes; like the output, it must be the same for all variants; repeatable.",
            'artifacts = ["out.txt"]',
            _TEXTS,
            repeats=True,
        ),
    )
    output_may_differ: bool = attrs.field(
        default=False,
        metadata=declared(
            "--output-may-differ",
            _RUNS,
            "Don't compare what the variants print, nor their exit statuses.",
            "output_may_differ = true",
            bool,
        ),
    )
    files: tuple[str, ...] = attrs.field(
        default=(),
        converter=text_list,
        metadata=declared(
            "--files PATH",
            _RUNS,
            "Put what it reads into the virtual machine; repeatable.",
            'files = ["data"]',
            _TEXTS,
            repeats=True,
        ),
    )
    memory: str | None = attrs.field(
        default=None,
        metadata=declared(
            "--memory SIZE", _RUNS, "Memory of the virtual machine, e.g. 512M.  [256M]", 'memory = "512M"'
        ),
    )
    env: tuple[str, ...] = attrs.field(
        default=(),
        converter=named_texts,
        metadata=declared(
            "--env NAME=VALUE",
            _RUNS,
            "Add to its environment; repeatable.",
            'env = { PORT = "{port}" }',
            _NAMED,
            repeats=True,
        ),
    )
    setup: str | None = attrs.field(
        default=None,
        metadata=declared(
            "--setup COMMAND", _RUNS, "Run once for each variant before its first trial.", 'setup = "./make-data"'
        ),
    )
    prepare: str | None = attrs.field(
        default=None,
        metadata=declared(
            "--prepare COMMAND", _RUNS, "Run before each trial; not measured.", 'prepare = "rm -f out.db"'
        ),
    )
    conclude: str | None = attrs.field(
        default=None,
        metadata=declared(
            "--conclude COMMAND", _RUNS, "Run after each trial; not measured.", 'conclude = "rm -f out.db"'
        ),
    )
    timeout: str | None = attrs.field(
        default=None,
        converter=duration_text,
        metadata=declared("--timeout TIME", _RUNS, "Stop a trial after this long.  [10m]", 'timeout = "1m"'),
    )
    pin: bool = attrs.field(
        default=False,
        metadata=declared("--pin", _RUNS, "Pin it to one processor.  [all processors]", "pin = true", bool),
    )
    ignore_failure: bool = attrs.field(
        default=False,
        metadata=declared(
            "--ignore-failure", _RUNS, "Count runs with another exit status than 0.", "ignore_failure = true", bool
        ),
    )
    metrics: tuple[str, ...] = attrs.field(
        default=(),
        converter=text_list,
        metadata=declared(
            "--metric NAME[UNIT,DIRECTION]=regex:PATTERN",
            _RUNS,
            "A number that it prints; repeatable. DIRECTION is higher, lower or neither.",
            'metrics = ["rate[1/s,higher]=regex:([0-9.]+) per second"]',
            _TEXTS,
            repeats=True,
        ),
    )
    cpu_bound: bool = attrs.field(
        default=False,
        metadata=declared("--cpu-bound", _RUNS, "CPU time decides, not elapsed time.", "cpu_bound = true", bool),
    )
    against: str = attrs.field(
        default="",
        metadata=declared(
            "--against RECORD",
            _COMMANDS,
            "Compare one program with an earlier record of it: as many blocks, on the same machine.",
            complete="records",
        ),
    )


@attrs.frozen(kw_only=True)
class Measuring(Piece):
    """How long and in what order is measured, and what a difference must be to be stated."""

    budget: datetime.timedelta | None = attrs.field(
        default=None,
        converter=duration_of,
        metadata=declared(
            "--budget TIME",
            _MEASURING,
            "Stop measuring after this long, e.g. 90s or 2m.  [1m per variant; none beside --blocks]",
            'budget = "14m"',
        ),
    )
    blocks: int | None = attrs.field(
        default=None,
        validator=between(1, 10_000),
        metadata=declared(
            "--blocks N",
            _MEASURING,
            "Run N blocks that count, at most 2 N in all, instead of stopping on precision; a --budget beside it ends them.",
            "blocks = 20",
            int,
        ),
    )
    margin: float | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(margin_of),
        metadata=declared(
            "--margin SHARE",
            _MEASURING,
            "Differences below this are of no interest.  [2%; 0.1% on the virtual clock]",
            'margin = "5%"',
        ),
    )
    confidence: float | None = attrs.field(
        default=None,
        converter=confidence_of,
        metadata=declared(
            "--confidence PERCENT",
            _MEASURING,
            "Of the intervals, before correction.  [99; 95 with --correction family]",
            'confidence = "95"',
        ),
    )
    correction: str = attrs.field(
        default=REPORT_CORRECTION,
        metadata=declared(
            "--correction",
            _MEASURING,
            "What the confidence holds for. With 99, 1 of 100 reports in which nothing differs states any difference; "
            "family: the rows of one suite, load and quantity, of which a report has several.  [report]",
            'correction = "family"',
            choices=tuple(CONFIDENCES),
        ),
    )
    seed: int | None = attrs.field(
        default=None,
        metadata=declared(
            "--seed N", _MEASURING, "Of every random order.  [random, stored in the record]", "seed = 7", int
        ),
    )
    null: bool = attrs.field(
        default=False,
        metadata=declared(
            "--null",
            _MEASURING,
            "Add the baseline a second time, and relinked: how often do they differ?",
            "null = true",
            bool,
        ),
    )
    layouts: int | None = attrs.field(
        default=None,
        validator=between(2, 1000),
        metadata=declared(
            "--layouts N",
            _MEASURING,
            "Link each variant N times, with functions and data shuffled.  Needs about 10 or more.",
            "layouts = 20",
            int,
        ),
    )
    prime: int | None = attrs.field(
        default=None,
        validator=between(0, MOST_DISCARDED),
        metadata=declared(
            "--prime N",
            _MEASURING,
            "Fewest discarded runs before each measured one.  [1 for own programs]",
            "prime = 2",
            int,
        ),
    )
    order: str = attrs.field(
        default=RANDOM_ORDER,
        metadata=declared(
            "--order TEXT",
            _MEASURING,
            "Or balanced: each variant follows each other one equally often.",
            'order = "balanced"',
        ),
    )
    duration: datetime.timedelta | None = attrs.field(
        default=None,
        converter=duration_of,
        metadata=declared(
            "--duration TIME",
            _MEASURING,
            "How long each trial of the suite latency measures, up to 1000s.  [1s]",
            'duration = "10s"',
        ),
    )


@attrs.frozen(kw_only=True)
class Place(Piece):
    """Where it runs, on which clock, and what else runs there."""

    target: str | None = attrs.field(
        default=None,
        metadata=declared(
            "--target TARGET",
            _MEASURING,
            f"{'; '.join(kind.usage for kind in target_kinds())}.  [host; vm where only a virtual machine will do]",
            'target = "vm"',
            complete="targets",
        ),
    )
    clock: str | None = attrs.field(
        default=None,
        metadata=declared(
            "--clock",
            _MEASURING,
            "virtual: count instructions.  [the target's own]",
            'clock = "virtual"',
            choices=("wall", "virtual"),
        ),
    )
    loads: tuple[str, ...] = attrs.field(
        default=(IDLE.name,),
        converter=name_list,
        metadata=declared(
            "--load NAMES",
            _MACHINE,
            "What else the machine runs, e.g. idle,cpu,memory; `swapstone list loads` names them.  [idle]",
            'loads = ["idle", "cpu"]',
            _TEXTS,
            complete="loads",
        ),
    )


@attrs.frozen(kw_only=True)
class VirtualMachine(Piece):
    """The virtual machine of a target `vm`, and its clock."""

    architecture: str = attrs.field(
        default="",
        metadata=declared(
            "--arch NAMES",
            _MACHINE,
            "Of the virtual machine: x86_64, arm64, armhf or riscv64; several separated by commas.  [this machine's]",
            'architecture = "arm64"',
            complete="architectures",
        ),
    )
    cpu_model: str = attrs.field(
        default="",
        metadata=declared(
            "--cpu-model NAME",
            _MACHINE,
            "Of the virtual machine, as QEMU names it, e.g. Nehalem.  [qemu64, or cortex-a72]",
            'cpu_model = "Nehalem"',
        ),
    )
    ns_per_instruction: int = attrs.field(
        default=1,
        converter=int,
        metadata=declared(
            "--ns-per-instruction NUMBERS",
            _MACHINE,
            "Guest time of an instruction on the virtual clock: 1, 2, 4 ... 1024; several separated by commas.  [1]",
            "ns_per_instruction = 4",
            int,
        ),
    )
    processors: int = attrs.field(
        default=1,
        metadata=declared("--smp N", _MACHINE, "Processors, which take turns.  [1]", "processors = 2", int),
    )
    modules: tuple[str, ...] = attrs.field(
        default=(),
        converter=named_texts,
        metadata=declared(
            "--modules KERNEL=DIR",
            _MACHINE,
            "The modules of your own kernel; repeatable.  [KERNEL.modules, beside it]",
            'modules = { "./bzImage-a" = "./modules-a" }',
            _NAMED,
            repeats=True,
        ),
    )
    module_files: tuple[str, ...] = attrs.field(
        default=(),
        converter=text_list,
        metadata=declared(
            "--module FILE.ko|FILE.c",
            _MACHINE,
            "A kernel module that the virtual machine loads before the work: a file for each kernel, or a C file, built for each; "
            "repeatable.",
            'module_files = ["./mine.ko"]',
            _TEXTS,
            repeats=True,
        ),
    )
    no_cache: bool = attrs.field(
        default=False,
        metadata=declared(
            "--no-cache", _MACHINE, "Repeat runs of virtual machines although equal runs are in the cache."
        ),
    )
    guest_timeout: datetime.timedelta | None = attrs.field(
        default=None,
        converter=duration_of,
        metadata=declared(
            "--guest-timeout TIME", _MACHINE, "End a virtual machine that runs longer than this, in real time.  [10m]"
        ),
    )


@attrs.frozen(kw_only=True)
class Sharing(Piece):
    """Which other machines make an experiment's runs (docs/many-machines.md)."""

    store: str | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(str),
        metadata=declared(
            "--store URL", _CLUSTER, "Inputs and finished runs are kept in this folder, or s3://, sftp:// ..."
        ),
    )
    executor: str | None = attrs.field(
        default=None,
        metadata=declared("--executor WORKERS", _CLUSTER, f"Who makes the runs of virtual machines: {EXECUTORS}."),
    )
    recheck: str | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(share_text),
        metadata=declared("--recheck SHARE", _CLUSTER, "Make this share of the runs twice, by two workers, e.g. 2%."),
    )


Kind = TypeVar("Kind", bound=Piece)


@attrs.frozen(kw_only=True)
class Settings:
    """All settings of an experiment.

    Attributes:
        of_parts: those that parts declare, at most one of each class; the others have their defaults.
    """

    workloads: Workloads = Workloads()
    program: Program = Program()
    measuring: Measuring = Measuring()
    place: Place = Place()
    machine: VirtualMachine = VirtualMachine()
    sharing: Sharing = Sharing()
    of_parts: tuple[Piece, ...] = ()

    def of(self, kind: type[Kind]) -> Kind:
        """Return the settings of a class that a part declares."""
        return next((each for each in self.of_parts if isinstance(each, kind)), kind())

    def pieces(self) -> tuple[Piece, ...]:
        """Return the settings of each owner, in the order of `PIECES`."""
        return tuple(getattr(self, name) if name in _FIELDS else self.of(kind) for name, kind in PIECES.items())


_FIELDS: Mapping[str, type[Piece]] = {
    field.name: type(field.default) for field in attrs.fields(Settings) if field.name != "of_parts" and field.default
}
PIECES: Mapping[str, type[Piece]] = {**_FIELDS, **{kind.__name__: kind for kind in provided("settings", type)}}
"""The class of each owner's settings by the name of its field, or by its own for those that parts declare."""


def settings_of(*pieces: Piece) -> Settings:
    """Return settings with these pieces.

    Raises:
        UserError: one is no piece, or two are of the same kind.
    """
    names = {kind: name for name, kind in PIECES.items()}
    kinds = [type(piece) for piece in pieces]
    hint = f"Pass one of each: {', '.join(sorted(kind.__name__ for kind in names))}."
    for piece, kind in zip(pieces, kinds, strict=True):
        refuse(
            (kind not in names, f"{str(piece)[:40]!a} is no settings.", hint),
            (kinds.count(kind) > 1, f"{kind.__name__} is given twice.", hint),
        )
    return _made({names[kind]: piece for piece, kind in zip(pieces, kinds, strict=True)})


def _made(pieces: Mapping[str, Any]) -> Settings:
    """Return the settings with these pieces by their names in `PIECES`."""
    own = {name: piece for name, piece in pieces.items() if name in _FIELDS}
    return Settings(
        **own, of_parts=tuple(piece for name, piece in pieces.items() if name not in _FIELDS and given_of(piece))
    )


def settings_from(given: Mapping[str, object]) -> Settings:
    """Return settings with values by the names of their options; the others have their defaults.

    Args:
        given: of any pieces; names of no option are ignored.

    Raises:
        UserError: a value has the wrong form.
    """
    made: dict[str, Any] = {}
    for name, kind in PIECES.items():
        values: dict[str, Any] = {each: given[each] for each, _ in options_of(kind) if each in given}
        made[name] = kind(**values)
    return _made(made)


def typed(options: Mapping[str, object]) -> dict[str, object]:
    """Return the options that were typed, from the values of all options of a command."""
    return {name: value for name, value in options.items() if value is not None and value is not False and value != ()}


def given_settings(settings: Settings) -> dict[str, object]:
    """Return all options whose value is not the default, by their names."""
    return {name: value for piece in settings.pieces() for name, value in given_of(piece).items()}

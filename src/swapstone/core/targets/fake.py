# SPDX-License-Identifier: MIT OR Apache-2.0
"""A target that simulates answers from the description in a file: ``--target fake:SPEC.toml``.

It shows Swapstone's results for given effects, noise and faults, within seconds and on any machine. It writes the bytes that an agent
writes, with a workload's report inside, and they pass through the same decoders as the answers of every target. docs/fake-target.md
describes the file; `fake_spec` reads it.

All random numbers depend only on the file's seed and on the request: equal requests get equal answers, in any order and in any
process. The block of a trial is read from its identifier, ``BLOCK-POSITION``; drift and wander depend on it.
"""

from __future__ import annotations

import fnmatch
import hashlib
import itertools
import math
import random
import re
import urllib.parse
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import msgspec
from msgspec.structs import replace

from swapstone.core.factors import ProgramFacts, facts_of_parts
from swapstone.core.model import Experiment, FrozenStruct, ObservationKind, UserError, WireError
from swapstone.core.targets.fake_spec import Spec, load_spec
from swapstone.core.targets.target import (
    DEFAULT_MACHINE,
    MachineConfig,
    Target,
    TargetDescription,
    TargetError,
    require_default_machine,
)
from swapstone.core.targets.target_kind import Notify, TargetKind, TargetOptions
from swapstone.core.wire import (
    AgentAnswer,
    AnswerReader,
    Memory,
    Pass,
    ProcessOutcome,
    TrialRequest,
    WorkloadReport,
    encode_answer,
    encode_answer_header,
    encode_request,
    encode_workload_report,
)
from swapstone.core.wire.protocol_words import WORKLOAD_HEADER

_WINDOW_NS = 1_000_000_000
_SHARES = (("50%", 1.0), ("75%", 1.25), ("90%", 1.5), ("99%", 3.0))
"""A percentile as wrk names it, and its ratio to the median."""

_MOST_SHARE = 4.0


def server_answer(answer: AgentAnswer, request: TrialRequest, behaviour: SimpleNamespace, wall_ns: int) -> AgentAnswer:
    """Turn the answer of a program into the answer of a server under one second of load from wrk.

    Args:
        answer: has loader, objects and the facts of the machine.
        request: its load generator must be wrk.
        behaviour: faults, switches and memory of a request.
        wall_ns: time of one request.

    Raises:
        UserError: the load generator is not wrk.
    """
    assert request.load_generator is not None
    words = request.load_generator.arguments
    if words[0].rsplit("/", 1)[-1] != "wrk":
        raise UserError(
            f"The fake target can't simulate the load generator {words[0].rsplit('/', 1)[-1]}.",
            "It simulates wrk: --only 'http(c=*'",
        )
    connections = next((int(after) for word, after in itertools.pairwise(words) if word == "-c"), 1)
    requests = max(1, _WINDOW_NS // wall_ns)
    cpu_ns = round(requests * wall_ns * min(1.0, behaviour.cpu_share))
    facts = {
        "ready_ns": behaviour.start_ns,
        "driven_ns": _WINDOW_NS,
        "server_cpu_ns": cpu_ns,
        "server_user_us": cpu_ns // 2000,
        "server_system_us": cpu_ns // 2000,
        "server_minflt": requests * behaviour.minflt,
        "server_majflt": 0,
        "server_nvcsw": requests * behaviour.nvcsw,
        "server_nivcsw": 0,
        "server_unseen_switches": 2,
        "server_rss_bytes": behaviour.res_bytes,
        "server_peak_bytes": behaviour.maxrss_bytes,
        "server_processes": 1,
        "server_threads": 1,
        "driver_user_us": requests,
        "driver_system_us": requests,
    }
    return msgspec.structs.replace(
        answer,
        outcome=ProcessOutcome.DRIVEN,
        stdout=b"",
        facts=(*answer.facts, *facts.items()),
        driver_stdout=_wrk_output(requests, connections, connections * wall_ns).encode(),
    )


def _wrk_output(requests: int, connections: int, median_ns: int) -> str:
    """Return the output of wrk."""
    shares = "".join(f"{name:>7} {_time(median_ns * share):>8}\n" for name, share in _SHARES)
    return (
        "Running 1s test @ http://127.0.0.1/\n"
        f"  1 threads and {connections} connections\n"
        "  Thread Stats   Avg      Stdev     Max   +/- Stdev\n"
        f"    Latency {_time(median_ns)} {_time(median_ns / 2)} {_time(median_ns * _MOST_SHARE)}   90.00%\n"
        f"    Req/Sec {requests:.2f} 1.00 {requests:.2f}   90.00%\n"
        f"  Latency Distribution\n{shares}"
        f"  {requests} requests in 1.00s, 1.00MB read\n"
        f"Requests/sec: {requests:>10.2f}\nTransfer/sec:      1.00MB\n"
    )


def _time(nanoseconds: float) -> str:
    for unit, size in (("us", 1e3), ("ms", 1e6)):
        if nanoseconds < 1000 * size:
            return f"{nanoseconds / size:.2f}{unit}"
    return f"{nanoseconds / 1e9:.2f}s"


_LIBC_FILES = {
    "glibc": ("/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"),
    "musl": ("/usr/lib/x86_64-linux-musl/libc.so",),
}
_SYMBOLS = {
    "mimalloc": "mi_malloc",
    "jemalloc": "mallctlbymib",
    "tcmalloc": "tc_malloc",
    "snmalloc": "__malloc_end_pointer",
}

# Loader and mapped objects of each level on Debian, by factor. A factor that only the program's file reveals has neither. Without a
# level of libc, the C library is glibc.
LEVELS: dict[str, dict[str, tuple[str | None, tuple[str, ...]]]] = {
    "libc": {
        "glibc": ("/lib64/ld-linux-x86-64.so.2", _LIBC_FILES["glibc"]),
        "musl": ("/lib/ld-musl-x86_64.so.1", _LIBC_FILES["musl"]),
    },
    "linking": {"dynamic": (None, ()), "static": (None, ())},
    "compiler": {"gcc": (None, ()), "clang": (None, ())},
    "optimization": dict.fromkeys(("O0", "O1", "O2", "O3", "Os", "Og"), (None, ())),
    "float": dict.fromkeys(("soft", "softfp", "hard"), (None, ())),
    "allocator": {"default": (None, ()), **{name: (None, (f"/fake/preload/{name}.so",)) for name in _SYMBOLS}},
}

# Symbols that the files of those objects define.
_OFFERS = {
    **{f"/fake/preload/{name}.so": ("malloc", sign) for name, sign in _SYMBOLS.items()},
    **{files[0]: ("__libc_start_main", "malloc") for files in _LIBC_FILES.values()},
    _LIBC_FILES["glibc"][1]: ("_rtld_global",),
}
_MAPPED_FACTORS = frozenset({"libc", "linking", "allocator"})
"""The factors whose level the mapped objects of a process reveal."""

_TAIL = 1e-9  # older disturbances with a smaller weight are ignored


class FakeTarget(Target):
    """Simulates answers without running anything.

    Args:
        path: the TOML file.
    """

    name = "fake"
    offers = Target.offers - {"runs_programs"}

    def __init__(self, path: Path) -> None:
        self.name = f"fake:{path}"
        self._spec = load_spec(path)

    def describe(self) -> TargetDescription:
        """Return the machine that the file describes."""
        return self._spec.machine

    def tools(self) -> tuple[tuple[str, str], ...]:
        """Return the digest of the file's content, which replaces the digests of programs."""
        return (("fake target", self._spec.digest()),)

    def put(self, path: Path, beside: Sequence[Path] = ()) -> str:  # noqa: ARG002 - nothing is copied
        """Return the path. Nothing is copied, and the file need not exist."""
        return str(path)

    def path_of(self, variant: str, workload: str) -> str:
        """Return the name of the simulated program of a workload and a variant."""
        return f"/fake/{urllib.parse.quote(variant, safe='')}/{urllib.parse.quote(workload, safe='')}"

    def inspect(self, path: str) -> ProgramFacts | None:
        """Return what the file of a simulated program or of a level's object would contain; None for any other path."""
        offered, parts = _OFFERS.get(path, ()), path.split("/")
        if not offered and (len(parts) != 4 or parts[:2] != ["", "fake"]):
            return None
        levels = {} if offered else _levels_of(urllib.parse.unquote(parts[2]))
        return ProgramFacts(path=path, pieces=tuple(kind.pretended(levels, offered) for kind in facts_of_parts()))

    def scratch(self) -> str:
        """Return the name of a folder. Nothing is written."""
        return "/fake/scratch"

    def run(self, request: TrialRequest, config: MachineConfig = DEFAULT_MACHINE) -> AgentAnswer:
        """Simulate an answer; see `Target.run`. It returns at once, whatever times the answer has."""
        require_default_machine(replace(config, real_time=False), self.name)
        encode_request(request)  # raises what an agent would refuse
        reader = AnswerReader()
        try:
            answers = reader.feed(encode_answer_header() + _answer_bytes(self._spec, request))
            reader.finish()
        except WireError as error:
            raise TargetError(f"The agent's answer is invalid: {error.message}", error.hint) from error
        return answers[0]

    def close(self) -> None:
        """Do nothing: there are no processes."""


class _Trial:
    """One request, with the values derived from it."""

    def __init__(self, spec: Spec, request: TrialRequest) -> None:
        self.request = request
        self.seed = spec.seed
        self.variant, self.workload, self.passes = _parse_request(request)
        self.behaviour = spec.resolve(self.variant, self.workload)
        numbers = re.match(r"(\d+)-", request.id)
        self.block = int(numbers[1]) if numbers else 0

    def random_source(self, purpose: str) -> random.Random:
        """Return a source of random numbers for one purpose of this trial."""
        return _source(self.seed, purpose, self.request.id, self.request.arguments[0])


def _source(*names: object) -> random.Random:
    digest = hashlib.sha256("\0".join(map(str, names)).encode()).digest()
    return random.Random(digest)  # noqa: S311 # a simulation, not a secret


def _parse_request(request: TrialRequest) -> tuple[str, str, int]:
    """Read variant, workload and number of passes from a request.

    Raises:
        UserError: `FakeTarget.path_of` does not return such a program.
    """
    parts = request.arguments[0].split("/")
    passes = request.arguments[1] if len(request.arguments) > 1 and not request.load_generator else "1"
    if len(parts) != 4 or parts[:2] != ["", "fake"] or not passes.isdecimal() or int(passes) < 1:
        raise UserError(
            f"The fake target can't run {request.arguments[0]}.",
            "It runs /fake/VARIANT/WORKLOAD PASSES only.",
        )
    return urllib.parse.unquote(parts[2]), urllib.parse.unquote(parts[3]), int(passes)


def _wander(seed: int, block: int, correlation: float) -> float:
    """Return a stationary first-order autoregression of variance 1 at a block: the weighted sum of its past innovations."""
    total, weight, age = 0.0, math.sqrt(1 - correlation**2), 0
    while abs(weight) > _TAIL:
        total += weight * _source(seed, "wander", block - age).gauss(0, 1)
        weight *= correlation
        age += 1
    return total


def _level_of(trial: _Trial) -> float:
    """Return the factor of a run's times: noise, drift and wander together."""
    behaviour = trial.behaviour
    logarithm = behaviour.noise * trial.random_source("noise").gauss(0, 1)
    logarithm += trial.block * math.log1p(behaviour.drift)
    if behaviour.wander:
        logarithm += behaviour.wander * _wander(trial.seed, trial.block, behaviour.autocorrelation)
    return math.exp(logarithm)


def _passes(trial: _Trial) -> tuple[Pass, ...]:
    behaviour, source = trial.behaviour, trial.random_source("passes")
    level = _level_of(trial)
    logarithms = (behaviour.pass_noise * source.gauss(0, 1) for _ in range(trial.passes))
    times = (max(1, round(behaviour.wall_ns * level * math.exp(logarithm))) for logarithm in logarithms)
    return tuple(
        Pass(
            wall_ns=wall_ns,
            cpu_ns=round(wall_ns * behaviour.cpu_share),
            run_delay_ns=0,
            minflt=behaviour.minflt,
            majflt=0,
            nvcsw=behaviour.nvcsw,
            nivcsw=0,
        )
        for wall_ns in times
    )


def _levels_of(variant: str) -> dict[str, str]:
    """Return a variant's levels by factor.

    Raises:
        UserError: the fake target can't simulate a level.
    """
    levels = {}
    for text in variant.split(" (", maxsplit=1)[0].split(","):
        factor, _, level = text.partition("=")
        if level not in LEVELS.get(factor, {}):
            known = ", ".join(f"{one}={each}" for one, named in LEVELS.items() for each in named)
            raise UserError(f"The fake target can't simulate {text}.", f"It simulates: {known}.")
        levels[factor] = level
    return levels


def _next_levels(levels: Mapping[str, str]) -> dict[str, str]:
    """Return another level of each factor: the next one.

    Raises:
        UserError: the process would not reveal them.
    """
    if not _MAPPED_FACTORS.intersection(levels):
        raise UserError(
            f"The fake target can't simulate a wrong level of {', '.join(levels)}: only the program's file reveals it.",
            f"The fault wrong-level needs one of these factors: {', '.join(sorted(_MAPPED_FACTORS))}.",
        )
    known = {factor: list(LEVELS[factor]) for factor in levels}
    return {
        factor: known[factor][(known[factor].index(level) + 1) % len(known[factor])] for factor, level in levels.items()
    }


def _mapping(levels: Mapping[str, str], program: str) -> tuple[str | None, tuple[str, ...]]:
    """Return loader and objects of a process of given levels, in the loader's search order: program, preloaded objects, C library."""
    if levels.get("linking") == "static":
        return None, (program,)
    interp, library = LEVELS["libc"][levels.get("libc", "glibc")]
    others = (LEVELS[factor][level] for factor, level in levels.items() if factor != "libc")
    return interp, (program, *(path for _, objects in others for path in objects), *library)


_TICK_NS = 10_000_000  # of /proc/stat


def _faultless(trial: _Trial, *, wrong_level: bool) -> tuple[AgentAnswer, WorkloadReport]:
    """Return the answer to a trial without a fault, except for its level."""
    behaviour, request = trial.behaviour, trial.request
    passes = _passes(trial)
    levels = _levels_of(trial.variant)
    interp, objects = _mapping(_next_levels(levels) if wrong_level else levels, request.arguments[0])
    report = WorkloadReport(
        name=trial.workload,
        ops=behaviour.ops,
        passes=passes,
        memory=Memory(
            virt_bytes=behaviour.virt_bytes, res_bytes=behaviour.res_bytes, dirty_bytes=behaviour.dirty_bytes
        ),
        malloc=next((path for path in objects if "malloc" in _OFFERS.get(path, ())), objects[0]),
        mapped=objects,
        check=f"{zlib.crc32(trial.workload.encode()):08x}",
    )
    wall_ns = behaviour.start_ns + sum(one.wall_ns for one in passes)
    own_ns = sum(one.cpu_ns for one in passes) + behaviour.start_ns
    # A machine's counters grow at moments that don't depend on the trial, so the mean of the truncated numbers is right.
    phase = trial.random_source("ticks").random()
    idle_ns = max(0.0, (2 - behaviour.others) * wall_ns - own_ns)
    facts = {
        "wall_ns": wall_ns,
        "launch_ns": 200_000,
        "user_us": sum(one.cpu_ns for one in passes) // 1000,
        "system_us": behaviour.start_ns // 1000,
        "maxrss_bytes": behaviour.maxrss_bytes,
        "minflt": sum(one.minflt for one in passes),
        "majflt": 0,
        "nvcsw": sum(one.nvcsw for one in passes),
        "nivcsw": 0,
        "read_bytes": 0,
        "write_bytes": 0,
        "trial_cpu_us": own_ns // 1000,
        "run_delay_ns": 0,
        "main_cpu_ns": own_ns,
        "nice": request.nice or 0,
        "cpus_allowed": len(request.cpus) or 2,
        "psi_cpu_us": round(behaviour.pressure * wall_ns / 1000),
        "psi_memory_us": 0,
        "psi_io_us": 0,
        "steal_ticks": 0,
        "idle_ticks": int(idle_ns / _TICK_NS + phase),
        "cpu_ticks": int(2 * wall_ns / _TICK_NS + phase),
        "ticks_ns": wall_ns,
        "load1_milli": round(behaviour.pressure * 4000),
        "created_tasks": 0,
        "pid": 1000,
    }
    # Only the environment is simulated; other observations could not be read.
    asked = [what for what in request.observe if what.kind is ObservationKind.ENV]
    variables = dict(request.environment)
    answer = AgentAnswer(
        id=request.id,
        facts=tuple(facts.items()),
        interp=interp,
        objects=objects,
        observed=tuple((what, variables[what.name]) for what in asked if what.name in variables),
        absent=tuple(what for what in asked if what.name not in variables),
        outcome=ProcessOutcome.EXITED,
        code=0,
    )
    return answer, report


def _fault(trial: _Trial) -> str:
    """Return the kind of fault of a trial; empty if there is none."""
    for number, fault in enumerate(trial.behaviour.faults):
        named = any(fnmatch.fnmatchcase(trial.request.id, pattern) for pattern in fault.trials)
        if named or trial.random_source(f"fault {number}").random() < fault.probability:
            return str(fault.kind)
    return ""


def _ended(outcome: ProcessOutcome, code: int = 0, **changed: object) -> Callable[[AgentAnswer], AgentAnswer]:
    """Return a change of how a process ended, without the output of its end."""
    return lambda answer: replace(
        answer, **{"outcome": outcome, "code": code, "stdout": WORKLOAD_HEADER + b"\n", **changed}
    )


def _with_first_time(answer: AgentAnswer, time: bytes) -> AgentAnswer:
    return replace(answer, stdout=re.sub(rb"\npass \d+", b"\npass " + time, answer.stdout, count=1))


# The change of each fault to a faultless answer. `wrong-level` is applied before, and `broken` after encoding.
_FAULT_CHANGES: dict[str, Callable[[AgentAnswer], AgentAnswer]] = {
    "": lambda answer: answer,
    "wrong-level": lambda answer: answer,
    "broken": lambda answer: answer,
    "truncate": lambda answer: replace(answer, stdout=answer.stdout[: len(answer.stdout) // 2]),
    "garbage": lambda answer: replace(answer, stdout=b"\x00\xff Segmentation fault, or so.\n"),
    "silent": lambda answer: replace(answer, stdout=b""),
    "negative": lambda answer: _with_first_time(answer, b"-1"),
    "nan": lambda answer: _with_first_time(answer, b"nan"),
    "other-work": lambda answer: replace(answer, stdout=re.sub(rb"\ncheck .*", b"\ncheck other", answer.stdout)),
    "error": _ended(ProcessOutcome.EXITED, 1, stdout=WORKLOAD_HEADER + b"\nerror no%20memory\nend\n"),
    "crash": _ended(ProcessOutcome.SIGNALED, 11),
    "timeout": _ended(ProcessOutcome.TIMEOUT),
    "overflow": _ended(ProcessOutcome.OVERFLOW, stdout=b"y\n" * 200),
    "disk": _ended(ProcessOutcome.DISK),
    "orphans": lambda answer: replace(
        answer, outcome=ProcessOutcome.ORPHANS, code=2, notes=("left 2 processes running",)
    ),
    "unstarted": _ended(ProcessOutcome.UNSTARTED, 2, stdout=b"", facts=(), interp=None, objects=()),
}


def _answer_bytes(spec: Spec, request: TrialRequest) -> bytes:
    """Return the bytes of the agent's answer to a trial."""
    trial = _Trial(spec, request)
    fault = _fault(trial)
    answer, report = _faultless(trial, wrong_level=fault == "wrong-level")
    if request.load_generator is not None:
        answer = server_answer(answer, request, trial.behaviour, report.passes[0].wall_ns)
        # A fault is applied to the output of the load generator, as to the report of other workloads.
        answer = _FAULT_CHANGES[fault](replace(answer, stdout=answer.driver_stdout))
        answer = replace(answer, stdout=b"", driver_stdout=answer.stdout)
    else:
        answer = _FAULT_CHANGES[fault](replace(answer, stdout=encode_workload_report(report)))
    encoded = encode_answer(answer)
    return encoded[: len(encoded) // 2] if fault == "broken" else encoded


class FakeTargetSpec(FrozenStruct, frozen=True, kw_only=True):
    """A fake target.

    Attributes:
        path: of the TOML file.
    """

    path: str

    def open(self, experiment: Experiment | None, notify: Notify) -> Target:  # noqa: ARG002 - see `TargetSpec`
        """Open the target.

        Raises:
            UserError: the file is missing or not valid.
        """
        return FakeTarget(Path(self.path))


def _parse(detail: str, options: TargetOptions) -> FakeTargetSpec:  # noqa: ARG001 - see `TargetKind`
    if not detail:
        raise UserError(
            "The target fake needs the file that describes its answers.",
            "Write: --target fake:SPEC.toml (see `swapstone docs fake-target`)",
        )
    return FakeTargetSpec(path=detail)


FAKE = TargetKind(
    name="fake",
    description="simulated answers, described by a file: for trying a study without measuring",
    opens=FakeTarget,
    parse=_parse,
    usage="fake:SPEC.toml",
    names_file=lambda _: True,
    file_pattern="*.toml",
    does=lambda detail: f"read the simulation {detail}: no program of a trial runs",
)

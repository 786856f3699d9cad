"""A target that makes its answers up, as a file says: ``--target fake:SPEC.toml``.

It shows what Swapstone would say of such-and-such effects, noise and faults, in seconds and on any machine. Nothing of it is
short-cut: it speaks as an agent does, byte for byte, with a workload's report inside, and what it said goes through the decoders
that every target's answers go through. Its file is described in docs/fake-target.md; `fake_spec` reads it.

All that is random hangs on the file's seed and on the request alone: equal requests get equal answers, in any order, in any
process. A trial's place in time is read from its identifier, ``BLOCK-POSITION``: drift and wander count blocks.
"""

from __future__ import annotations

import fnmatch
import hashlib
import math
import random
import re
import urllib.parse
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from swapstone.factors import ProgramFacts
from swapstone.model import FrozenStruct, ObservationKind, UserError, WireError
from swapstone.targets.base import (
    DEFAULT_MACHINE,
    MachineConfig,
    Target,
    TargetDescription,
    TargetError,
    require_default_machine,
)
from swapstone.targets.fake_server import driven
from swapstone.targets.fake_spec import Manner, Spec, load_spec
from swapstone.targets.kind import ImageBuilder, TargetKind, TargetOptions
from swapstone.wire import (
    AgentAnswer,
    AnswerReader,
    Ended,
    Memory,
    Pass,
    TrialRequest,
    WorkloadReport,
    encode_answer,
    encode_answer_header,
    encode_request,
    encode_workload_report,
)

_LIBC_FILES = {
    "glibc": ("/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"),
    "musl": ("/usr/lib/x86_64-linux-musl/libc.so",),
}
_SIGNS = {
    "mimalloc": "mi_malloc",
    "jemalloc": "mallctlbymib",
    "tcmalloc": "tc_malloc",
    "snmalloc": "__malloc_end_pointer",
}

# What a process of a level shows on Debian, by factor: its loader, and the objects of the level. Where a factor shows in the program's
# file alone, a level has neither. Where no level brings a C library, it is glibc.
LEVELS: dict[str, dict[str, tuple[str | None, tuple[str, ...]]]] = {
    "libc": {
        "glibc": ("/lib64/ld-linux-x86-64.so.2", _LIBC_FILES["glibc"]),
        "musl": ("/lib/ld-musl-x86_64.so.1", _LIBC_FILES["musl"]),
    },
    "linking": {"dynamic": (None, ()), "static": (None, ())},
    "compiler": {"gcc": (None, ()), "clang": (None, ())},
    "optimization": dict.fromkeys(("O0", "O1", "O2", "O3", "Os", "Og"), (None, ())),
    "allocator": {"default": (None, ()), **{name: (None, (f"/fake/preload/{name}.so",)) for name in _SIGNS}},
}

# What the files of those objects say of themselves.
_OFFERS = {
    **{f"/fake/preload/{name}.so": ("malloc", sign) for name, sign in _SIGNS.items()},
    **{files[0]: ("__libc_start_main", "malloc") for files in _LIBC_FILES.values()},
    _LIBC_FILES["glibc"][1]: ("_rtld_global",),
}
_SEEN_IN_PROCESS = frozenset({"libc", "linking", "allocator"})
"""The factors whose level shows in what a process has mapped."""

_TAIL = 1e-9  # weight below which an older disturbance no longer counts


class FakeTarget(Target):
    """Answers as its file says, without running anything.

    Args:
        path: the TOML file.
    """

    needs_build = False

    def __init__(self, path: Path) -> None:
        self.name = f"fake:{path}"
        self._spec = load_spec(path)

    def describe(self) -> TargetDescription:
        """Return what the file says of the machine."""
        return self._spec.machine

    def tools(self) -> tuple[tuple[str, str], ...]:
        """Return the digest of what the file says: it stands for everything that was built elsewhere."""
        return (("fake target", self._spec.digest()),)

    def put(self, path: Path) -> str:
        """Return the path: nothing is copied, and nothing needs to be there."""
        return str(path)

    def path_of(self, variant: str, workload: str) -> str:
        """Name the program that stands for a workload of a variant."""
        return f"/fake/{urllib.parse.quote(variant, safe='')}/{urllib.parse.quote(workload, safe='')}"

    def inspect(self, path: str) -> ProgramFacts | None:
        """Return what the file of a program that `path_of` names, or of a level's object, would say; nothing of any other."""
        offered = _OFFERS.get(path)
        if offered:
            return ProgramFacts(path=path, symbols=offered, exports=offered)
        parts = path.split("/")
        if len(parts) != 4 or parts[:2] != ["", "fake"]:
            return None
        return _facts(path, _levels_of(urllib.parse.unquote(parts[2])))

    def scratch(self) -> str:
        """Return a folder's name; nothing is written."""
        return "/fake/scratch"

    def run(self, request: TrialRequest, setting: MachineConfig = DEFAULT_MACHINE) -> AgentAnswer:
        """Make an answer up; see `Target.run`. It takes no time, whatever it says it took."""
        require_default_machine(setting, self.name)
        encode_request(request)  # what an agent would refuse is refused here too
        reader = AnswerReader()
        try:
            answers = reader.feed(encode_answer_header() + _speak(self._spec, request))
            reader.finish()
        except WireError as error:
            raise TargetError(f"The agent can't be understood: {error.message}", error.hint) from error
        return answers[0]

    def close(self) -> None:
        """Do nothing: there is nothing to end."""


class _Trial:
    """One request, with what follows from it."""

    def __init__(self, spec: Spec, request: TrialRequest) -> None:
        self.request = request
        self.seed = spec.seed
        self.variant, self.workload, self.passes = _asked(request)
        self.manner = spec.manner(self.variant, self.workload)
        numbers = re.match(r"(\d+)-", request.id)
        self.block = int(numbers[1]) if numbers else 0

    def draw(self, purpose: str) -> random.Random:
        """Return a source of random numbers for one purpose of this trial."""
        return _source(self.seed, purpose, self.request.id, self.request.arguments[0])


def _source(*names: object) -> random.Random:
    digest = hashlib.sha256("\0".join(map(str, names)).encode()).digest()
    return random.Random(digest)  # noqa: S311 # a simulation, not a secret


def _asked(request: TrialRequest) -> tuple[str, str, int]:
    """Read variant, workload and number of passes from a request.

    Raises:
        UserError: its program is none that `FakeTarget.path_of` names.
    """
    parts = request.arguments[0].split("/")
    passes = request.arguments[1] if len(request.arguments) > 1 and not request.load_generator else "1"
    if len(parts) != 4 or parts[:2] != ["", "fake"] or not passes.isdecimal() or int(passes) < 1:
        raise UserError(
            f"The fake target can't run {request.arguments[0]}.",
            "It only knows /fake/VARIANT/WORKLOAD, and a number of passes after it.",
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


def _level_of(manner: Manner, trial: _Trial) -> float:
    """Return by what a run's times are multiplied: noise, drift and wander together."""
    logarithm = manner.noise * trial.draw("noise").gauss(0, 1)
    logarithm += trial.block * math.log1p(manner.drift)
    if manner.wander:
        logarithm += manner.wander * _wander(trial.seed, trial.block, manner.autocorrelation)
    return math.exp(logarithm)


def _passes(trial: _Trial) -> tuple[Pass, ...]:
    manner, source = trial.manner, trial.draw("passes")
    level = _level_of(manner, trial)
    made = []
    for _ in range(trial.passes):
        wall_ns = max(1, round(manner.wall_ns * level * math.exp(manner.pass_noise * source.gauss(0, 1))))
        made.append(
            Pass(
                wall_ns=wall_ns,
                cpu_ns=round(wall_ns * manner.cpu_share),
                run_delay_ns=0,
                minflt=manner.minflt,
                majflt=0,
                nvcsw=manner.nvcsw,
                nivcsw=0,
            )
        )
    return tuple(made)


def _levels_of(variant: str) -> dict[str, str]:
    """Return a variant's levels by factor.

    The objects come in the loader's search order: the program, what is preloaded, the C library.

    Raises:
        UserError: a level is none that the fake target can pretend.
    """
    levels = {}
    for text in variant.split(" (", maxsplit=1)[0].split(","):
        factor, _, level = text.partition("=")
        if level not in LEVELS.get(factor, {}):
            raise UserError(f"The fake target can't pretend {text}.", f"It knows: {', '.join(_known_levels())}.")
        levels[factor] = level
    return levels


def _next_levels(levels: Mapping[str, str]) -> dict[str, str]:
    """Return other levels than those that were asked for: of each factor the next one.

    Raises:
        UserError: they would not show in a process.
    """
    if not _SEEN_IN_PROCESS.intersection(levels):
        raise UserError(
            f"The fake target can't pretend a wrong level of {', '.join(levels)}: it shows in the program's file alone.",
            f"The fault wrong-level needs one of these factors: {', '.join(sorted(_SEEN_IN_PROCESS))}.",
        )
    known = {factor: list(LEVELS[factor]) for factor in levels}
    return {
        factor: known[factor][(known[factor].index(level) + 1) % len(known[factor])] for factor, level in levels.items()
    }


def _mapping(levels: Mapping[str, str], program: str) -> tuple[str | None, tuple[str, ...]]:
    """Return loader and objects of a process, as its levels would show: in the loader's search order, what is preloaded first."""
    if levels.get("linking") == "static":
        return None, (program,)
    interp, library = LEVELS["libc"][levels.get("libc", "glibc")]
    others = (LEVELS[factor][level] for factor, level in levels.items() if factor != "libc")
    return interp, (program, *(path for _, objects in others for path in objects), *library)


def _facts(path: str, levels: Mapping[str, str]) -> ProgramFacts:
    """Return what the file of a program says of its levels."""
    libc, compiler = levels.get("libc", "glibc"), levels.get("compiler", "gcc")
    switch = f" -{levels['optimization']} prog.c" if "optimization" in levels else " prog.c"
    linked = {"glibc": ("__libc_setup_tls", "__libc_start_main"), "musl": ("__init_libc", "__libc_start_main")}
    own = {"glibc": ("_int_malloc", "malloc"), "musl": ("default_malloc", "malloc")}
    allocator = levels.get("allocator", "default")
    served = own[libc] if allocator == "default" else ("malloc", _SIGNS[allocator])
    comments = {"gcc": "GCC: (fake) 12", "clang": "fake clang version 14"}
    begins = {"gcc": "GNU C17 12", "clang": "/usr/bin/clang"}
    return ProgramFacts(
        path=path,
        comments=(comments["gcc"], comments["clang"]) if compiler == "clang" else (comments["gcc"],),
        switches=(begins[compiler] + switch,),
        symbols=(*linked[libc], *served) if levels.get("linking") == "static" else (),
    )


def _known_levels() -> list[str]:
    return [f"{factor}={level}" for factor, levels in LEVELS.items() for level in levels]


def _honest(trial: _Trial, *, wrong_level: bool) -> tuple[AgentAnswer, WorkloadReport]:
    """Return what an agent would say of a trial in which nothing goes wrong, but perhaps for its level."""
    manner, request = trial.manner, trial.request
    passes = _passes(trial)
    levels = _levels_of(trial.variant)
    interp, objects = _mapping(_next_levels(levels) if wrong_level else levels, request.arguments[0])
    report = WorkloadReport(
        name=trial.workload,
        ops=manner.ops,
        passes=passes,
        memory=Memory(virt_bytes=manner.virt_bytes, res_bytes=manner.res_bytes, dirty_bytes=manner.dirty_bytes),
        malloc=next((path for path in objects if "malloc" in _OFFERS.get(path, ())), objects[0]),
        mapped=objects,
        check=f"{zlib.crc32(trial.workload.encode()):08x}",
    )
    wall_ns = manner.start_ns + sum(one.wall_ns for one in passes)
    facts = {
        "wall_ns": wall_ns,
        "launch_ns": 200_000,
        "user_us": sum(one.cpu_ns for one in passes) // 1000,
        "system_us": manner.start_ns // 1000,
        "maxrss_bytes": manner.maxrss_bytes,
        "minflt": sum(one.minflt for one in passes),
        "majflt": 0,
        "nvcsw": sum(one.nvcsw for one in passes),
        "nivcsw": 0,
        "run_delay_ns": 0,
        "nice": request.nice or 0,
        "cpus_allowed": len(request.cpus) or 2,
        "psi_cpu_us": round(manner.pressure * wall_ns / 1000),
        "psi_memory_us": 0,
        "psi_io_us": 0,
        "steal_ticks": 0,
        "cpu_ticks": wall_ns // 5_000_000,
        "load1_milli": round(manner.pressure * 4000),
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
        how=Ended.EXITED,
        code=0,
    )
    return answer, report


def _fault(trial: _Trial) -> str:
    """Return what goes wrong in a trial; empty if nothing does."""
    for number, fault in enumerate(trial.manner.faults):
        named = any(fnmatch.fnmatchcase(trial.request.id, pattern) for pattern in fault.trials)
        if named or trial.draw(f"fault {number}").random() < fault.probability:
            return fault.kind
    return ""


def _spoil(answer: AgentAnswer, **changed: object) -> AgentAnswer:
    return msgspec.structs.replace(answer, **changed)


def _ended(how: Ended, code: int = 0, **changed: object) -> Callable[[AgentAnswer], AgentAnswer]:
    """Return a change of how a process ended; nothing that it said at its end is left."""
    return lambda answer: _spoil(answer, **{"how": how, "code": code, "stdout": b"swapstone-workload 2\n", **changed})


def _with_first_time(answer: AgentAnswer, time: bytes) -> AgentAnswer:
    return _spoil(answer, stdout=re.sub(rb"\npass \d+", b"\npass " + time, answer.stdout, count=1))


# What each fault makes of an honest answer. `wrong-level` and `broken` lie outside: one is in it already, one is not in it at all.
_SPOILERS: dict[str, Callable[[AgentAnswer], AgentAnswer]] = {
    "": lambda answer: answer,
    "wrong-level": lambda answer: answer,
    "broken": lambda answer: answer,
    "truncate": lambda answer: _spoil(answer, stdout=answer.stdout[: len(answer.stdout) // 2]),
    "garbage": lambda answer: _spoil(answer, stdout=b"\x00\xff Segmentation fault, or so.\n"),
    "silent": lambda answer: _spoil(answer, stdout=b""),
    "negative": lambda answer: _with_first_time(answer, b"-1"),
    "nan": lambda answer: _with_first_time(answer, b"nan"),
    "other-work": lambda answer: _spoil(answer, stdout=re.sub(rb"\ncheck .*", b"\ncheck other", answer.stdout)),
    "error": _ended(Ended.EXITED, 1, stdout=b"swapstone-workload 2\nerror no%20memory\nend\n"),
    "crash": _ended(Ended.SIGNALED, 11),
    "timeout": _ended(Ended.TIMEOUT),
    "overflow": _ended(Ended.OVERFLOW, stdout=b"y\n" * 200),
    "disk": _ended(Ended.DISK),
    "orphans": lambda answer: _spoil(answer, how=Ended.ORPHANS, code=2, notes=("left 2 processes running",)),
    "unstarted": _ended(Ended.UNSTARTED, 2, stdout=b"", facts=(), interp=None, objects=()),
}


def _spoil_server(answer: AgentAnswer, spoiler: Callable[[AgentAnswer], AgentAnswer]) -> AgentAnswer:
    """Let a fault happen to what the driver prints, which stands for a server as the report does for other work."""
    spoilt = spoiler(_spoil(answer, stdout=answer.driver_stdout))
    return _spoil(spoilt, stdout=b"", driver_stdout=spoilt.stdout)


def _speak(spec: Spec, request: TrialRequest) -> bytes:
    """Return what an agent would say of a trial."""
    trial = _Trial(spec, request)
    fault = _fault(trial)
    answer, report = _honest(trial, wrong_level=fault == "wrong-level")
    if request.load_generator is not None:
        answer = driven(answer, request, trial.manner, report.passes[0].wall_ns)
        answer = _spoil_server(answer, _SPOILERS[fault])
        said = encode_answer(answer)
        return said[: len(said) // 2] if fault == "broken" else said
    answer = _spoil(answer, stdout=encode_workload_report(report))
    said = encode_answer(_SPOILERS[fault](answer))
    return said[: len(said) // 2] if fault == "broken" else said


class FakeTargetSpec(FrozenStruct, frozen=True, kw_only=True):
    """A fake target.

    Attributes:
        path: of the TOML file.
    """

    path: str

    def open(self, build_images: ImageBuilder | None) -> Target:  # noqa: ARG002 - see `TargetSpec`
        """Open the target.

        Raises:
            UserError: the file is missing or not valid.
        """
        return FakeTarget(Path(self.path))


def _parse(detail: str, options: TargetOptions) -> FakeTargetSpec:  # noqa: ARG001 - see `TargetKind`
    if not detail:
        raise UserError("The target fake needs a file.", "Write: --target fake:SPEC.toml (see docs/fake-target.md)")
    return FakeTargetSpec(path=detail)


FAKE = TargetKind(
    name="fake",
    description="simulated answers, described by a file",
    opens=FakeTarget,
    parse=_parse,
    usage="fake:SPEC.toml",
)

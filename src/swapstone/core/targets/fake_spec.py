# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads the TOML file of a fake target, strictly. docs/fake-target.md describes it."""

from __future__ import annotations

import fnmatch
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated

import msgspec
from msgspec import Meta

from swapstone.core.model import FrozenStruct, UserError, unknown
from swapstone.core.model.regular_file import TomlError, decode_toml, readable
from swapstone.core.targets.target import TargetDescription

FAULTS: dict[str, str] = {
    "truncate": "its report is truncated in the middle",
    "garbage": "it prints something that is no report",
    "silent": "it prints nothing",
    "negative": "a pass took a negative time",
    "nan": "a pass took 'nan'",
    "error": "it reports an error and exits with status 1",
    "other-work": "its checksum is wrong",
    "wrong-level": "it runs with another level than the requested one",
    "crash": "it is killed by SIGSEGV",
    "timeout": "it hangs until its time-out",
    "overflow": "it prints more than its limit",
    "disk": "it fills the disk",
    "orphans": "it leaves two processes",
    "unstarted": "it does not exist",
    "broken": "the agent's answer is truncated: the target itself fails",
}

_HINT = "`swapstone docs fake-target` describes the file."

_Count = Annotated[int, Meta(ge=0, le=2**53)]
_Positive = Annotated[int, Meta(ge=1, le=2**53)]
_Ratio = Annotated[float, Meta(ge=0.0, le=100.0)]


class Fault(FrozenStruct, frozen=True, kw_only=True):
    """Something that goes wrong.

    Attributes:
        kind: one of `FAULTS`.
        probability: of each trial.
        trials: shell patterns of the identifiers of trials for which it happens for sure, e.g. ``3-*`` for all of block 3.
    """

    kind: str
    probability: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.0
    trials: tuple[str, ...] = ()


class Behaviour(FrozenStruct, frozen=True, kw_only=True):
    """How programs behave whose workload and variant match.

    A None is taken from an earlier behaviour that matches, or else from `_DEFAULTS`. `wall_ns` has no default.

    Attributes:
        workload: shell pattern of workload names.
        variant: shell pattern of variant labels, such as ``libc=musl*``.
        wall_ns: median time of a pass.
        cpu_share: processor time as a share of wall time.
        start_ns: time outside the passes.
        noise: standard deviation of the logarithm of a run's time: lognormal, independent from run to run.
        pass_noise: the same from pass to pass in a run.
        drift: relative growth from one block to the next, compounded.
        wander: standard deviation of a disturbance of the logarithm that all trials of a block share.
        autocorrelation: of that disturbance from one block to the next (first-order autoregression).
        ops: operations in a pass.
        virt_bytes: anonymous memory at the end: its size.
        res_bytes: what of it is resident.
        dirty_bytes: what of it is dirty.
        maxrss_bytes: peak resident size.
        minflt: minor page faults in a pass.
        nvcsw: voluntary context switches in a pass.
        pressure: share of the time in which some task waited for a processor.
        others: how many of the two processors other processes use, on average.
        faults: what fails; the first fault that occurs counts.
    """

    workload: str = "*"
    variant: str = "*"
    wall_ns: _Positive | None = None
    cpu_share: _Ratio | None = None
    start_ns: _Count | None = None
    noise: _Ratio | None = None
    pass_noise: _Ratio | None = None
    drift: Annotated[float, Meta(gt=-1.0, le=10.0)] | None = None
    wander: _Ratio | None = None
    autocorrelation: Annotated[float, Meta(gt=-1.0, lt=1.0)] | None = None
    ops: _Positive | None = None
    virt_bytes: _Count | None = None
    res_bytes: _Count | None = None
    dirty_bytes: _Count | None = None
    maxrss_bytes: _Count | None = None
    minflt: _Count | None = None
    nvcsw: _Count | None = None
    pressure: Annotated[float, Meta(ge=0.0, le=1.0)] | None = None
    others: Annotated[float, Meta(ge=0.0, le=2.0)] | None = None
    faults: tuple[Fault, ...] | None = None


_DEFAULTS = Behaviour(
    cpu_share=1.0,
    start_ns=500_000,
    noise=0.0,
    pass_noise=0.0,
    drift=0.0,
    wander=0.0,
    autocorrelation=0.0,
    ops=1,
    virt_bytes=1 << 20,
    res_bytes=1 << 19,
    dirty_bytes=1 << 19,
    maxrss_bytes=1 << 21,
    minflt=0,
    nvcsw=0,
    pressure=0.0,
    others=0.0,
    faults=(),
)
"""Of programs on an idle machine."""


_MACHINE = TargetDescription(kernel="fake", architecture="fake", cpu="fake", cpus=(0, 1), system="a fake target")


class Spec(FrozenStruct, frozen=True, kw_only=True):
    """A fake target's whole file.

    Attributes:
        seed: of all that is random.
        machine: the target's description.
        behaviour: a later entry overrides an earlier one, attribute by attribute.
    """

    seed: int = 0
    machine: TargetDescription = _MACHINE
    behaviour: tuple[Behaviour, ...]

    def resolve(self, variant: str, workload: str) -> SimpleNamespace:
        """Return how a program behaves: the attributes of `Behaviour`, none of them None.

        Raises:
            UserError: no behaviour sets ``wall_ns``.
        """
        found: dict[str, object] = {}
        for one in (_DEFAULTS, *self.behaviour):
            if fnmatch.fnmatchcase(workload, one.workload) and fnmatch.fnmatchcase(variant, one.variant):
                found |= {name: value for name, value in msgspec.structs.asdict(one).items() if value is not None}
        if "wall_ns" not in found:
            raise UserError(
                f"The fake target's file gives no wall_ns for {workload} of {variant}.",
                "Add a [[behaviour]] that matches it, or one without patterns first.",
            )
        return SimpleNamespace(**found)


def load_spec(path: Path) -> Spec:
    """Read a fake target's file.

    Args:
        path: a TOML file.

    Returns:
        Its content.

    Raises:
        UserError: the file does not exist, is not TOML, or does not follow docs/fake-target.md.
    """
    with readable(f"The fake target's file {path}", _HINT):
        return decode_spec(path.read_bytes(), str(path))


def decode_spec(content: bytes, name: str) -> Spec:
    """Decode a fake target's file.

    Args:
        content: the whole file.
        name: of the file, for the error.

    Raises:
        UserError: it is not TOML, or does not follow docs/fake-target.md.
    """
    try:
        spec = msgspec.convert(decode_toml(content), Spec)
    except TomlError as error:
        raise UserError(f"{name} is not TOML: {error}.", _HINT) from error
    except msgspec.ValidationError as error:
        raise UserError(f"{name} is no fake target's file: {error}.", _HINT) from error
    for behaviour in spec.behaviour:
        for fault in behaviour.faults or ():
            if fault.kind not in FAULTS:
                raise unknown("fault", fault.kind, FAULTS)
    return spec

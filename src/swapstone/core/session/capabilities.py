# SPDX-License-Identifier: MIT OR Apache-2.0
"""What this machine can do: factor levels, the agent, network stacks, virtual machines, load generators and instruments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from swapstone.core.artifacts.distribution_packages import install_command, is_installed, packages_of
from swapstone.core.artifacts.tool_versions import compiler_version
from swapstone.core.factors import Factor, Level, Stage, all_factors
from swapstone.core.model import UserError
from swapstone.core.model.parts import provided
from swapstone.core.session.experiment import check_programs
from swapstone.core.session.request import resolve
from swapstone.core.session.study import plan_parts, plan_study
from swapstone.core.session.study_file import load_study, study_names
from swapstone.core.targets import Target, default_target, find_target_kind, open_target
from swapstone.core.targets.health import Finding, MachineFindings, State, ability, examine, trouble_of
from swapstone.core.targets.memory_cgroup import CGROUP_HINT, tree_places
from swapstone.core.wire import ProcessOutcome, TrialRequest

__all__ = [
    "Finding",
    "State",
    "agent_findings",
    "capabilities",
    "exact_summary",
    "examine",
    "examine_exact_clock",
    "examine_target",
    "summary",
]


def capabilities() -> list[Finding]:
    """Return what this machine can and can't do, each with the command that would enable it."""
    parts: list[MachineFindings] = sorted(provided("findings", MachineFindings), key=lambda part: part.order)
    described = {factor: describe for part in parts for factor, describe in part.of_levels.items()}
    return [
        *(*_levels(described), *_studies(), *_agent()),
        *(finding for part in parts for finding in part.find()),
    ]


def examine_target(
    text: str, notify: Callable[[str], None], environment: str | None
) -> tuple[list[Finding], list[Finding]]:
    """Return what another machine can and can't do, and what makes its timings noisy.

    Args:
        text: the target.
        notify: called with a line before each long step.
        environment: the value of ``--lg-env``; None without it.

    Raises:
        UserError: no part examines such a target, or it can't be reached.
    """
    for examine_there in provided("examination", Callable):
        found: tuple[list[Finding], list[Finding]] = examine_there(text, notify, environment)
        return found
    raise UserError("No installed part examines other machines.", "Leave --target out.")


def examine_exact_clock(notify: Callable[[str], None]) -> list[Finding]:
    """Make short runs on the exact clock, and return for each whether its output is the one that this version was released with.

    Args:
        notify: called with a line before each long step.

    Raises:
        UserError: no part has an exact clock.
    """
    for part in provided("findings", MachineFindings):
        if part.exact:
            return list(part.exact(notify))
    raise UserError("No installed part has an exact clock.", "Leave --exact out.")


def exact_summary(found: list[Finding]) -> str:
    """Return the sentence that the user of ``doctor --exact`` came for."""
    names = {state: [finding.name for finding in found if finding.state is state] for state in State}
    told = [
        f"{words}: {', '.join(names[state])}"
        for state, words in ((State.MISSING, "another output, or none"), (State.UNKNOWN, "not comparable"))
        if names[state]
    ]
    first = f"{len(names[State.GOOD])} of {len(found)} runs on the exact clock gave the certified output"
    return f"{'; '.join((first, *told))}."


def _studies() -> list[Finding]:
    """Return for each shipped study whether all its parts can run here."""
    return [
        ability(
            f"study {name}",
            trouble_of(functools.partial(_check_study, name)),
            lambda: "ready",
        )
        for name in study_names()
    ]


def _check_study(name: str) -> None:
    """Check that a study can run here.

    Raises:
        UserError: it can't; names what is missing.
    """
    study = load_study(name)
    if study.part:
        plan_parts(plan_study(name, study), every=True)
    else:
        check_programs((resolve(study.request(name)),), every=True)


def _levels(described: Mapping[str, Callable[[Level], str]]) -> list[Finding]:
    return [
        _level(factor, level, described.get(factor.name, _installed))
        for factor in all_factors()
        for level in factor.levels
    ]


def _level(factor: Factor, level: Level, describe: Callable[[Level], str]) -> Finding:
    name = f"{factor.name}={level.name}"
    boots = find_target_kind(default_target(boots=True)).programs(None) if factor.stage is Stage.BOOT else ()
    absent = [program for program in (*level.needs, *boots) if not is_installed(program)]
    trouble = (
        (f"{name} is unavailable: {absent[0]} is not installed", install_command(packages_of(absent)))
        if absent
        else None
    )
    return ability(name, trouble, lambda: describe(level), absent="missing")


def _installed(level: Level) -> str:
    """Describe a level whose tools are all installed."""
    return compiler_version((level.needs[0],)) if level.needs else "ready"


def _agent() -> list[Finding]:
    try:
        with open_target("host") as target:
            found = agent_findings(target, ("/bin/true",))
    except UserError as error:
        return _no_agent(error)
    reason = tree_places()[1]
    return [*found, ability(_COUNTING, (reason, CGROUP_HINT) if reason else None, lambda: "by cgroups of their own")]


def _no_agent(error: UserError) -> list[Finding]:
    return [ability(_OBSERVING, (error.message, error.hint), str, absent="the agent does not run")]


_OBSERVING, _COUNTING = "observing a trial", "counting all processes of a run"
_RECORDED = {
    "run_delay_ns": "run-queue delay",
    "psi_cpu_us": "pressure around a trial",
    "steal_ticks": "steal",
}
"""Facts of an answer that not every kernel reports."""


def agent_findings(target: Target, arguments: tuple[str, ...]) -> list[Finding]:
    """Start a program through the agent, as a trial does, and return what the agent can observe of it.

    Args:
        target: where.
        arguments: of the program there, with its path first; it has no effect.
    """
    request = TrialRequest(
        id="doctor",
        arguments=arguments,
        environment=(),
        cwd=target.scratch(),
        cpus=(),
        nice=None,
        timeout_ms=10_000,
        output_bytes=4096,
        disk_bytes=1 << 20,
    )
    try:
        answer = target.run(request)
    except UserError as error:
        return _no_agent(error)
    observed = answer.outcome is ProcessOutcome.EXITED and answer.objects
    notes = "; ".join(answer.notes) or "the agent could not read what a program has mapped: no level can be confirmed"
    trouble = (notes, "sudo sysctl kernel.yama.ptrace_scope=1; in a container: --cap-add SYS_PTRACE")
    mapped = f"the agent read {len(answer.objects)} mapped objects"
    facts, unknown = dict(answer.facts), (State.UNKNOWN, "this kernel does not report it")
    recorded = [(what, (State.GOOD, "recorded") if fact in facts else unknown) for fact, what in _RECORDED.items()]
    return [
        ability(_OBSERVING, None if observed else trouble, lambda: mapped, absent="nothing observed"),
        *(Finding(name=what, state=state, found=found) for what, (state, found) in recorded),
    ]


def summary(found: list[Finding], noise: list[Finding]) -> str:
    """Return the sentences that the user of the doctor came for."""
    missing = [finding.name for finding in found if finding.state is State.MISSING]
    noisy = [finding.name for finding in noise if finding.state in {State.NOISY, State.MISSING}]
    can = f"{len(found) - len(missing)} of {len(found)} features are available"
    can += f"; unavailable: {', '.join(missing)}." if missing else "."
    disturbed = (
        f"{len(noisy)} of {len(noise)} checks found noise: {', '.join(noisy)}." if noisy else "No check found noise."
    )
    return f"{can}\n{disturbed}"

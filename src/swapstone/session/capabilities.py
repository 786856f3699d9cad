# SPDX-License-Identifier: MIT OR Apache-2.0
"""What this machine can do: factor levels, the agent, network stacks, virtual machines, load generators and instruments."""

from __future__ import annotations

import shutil

from swapstone.artifacts import (
    cached_libcs,
    compiler_version,
    install_command,
    missing_crate_requirement,
    missing_guest_requirement,
)
from swapstone.factors import FACTORS, Level
from swapstone.model import UserError
from swapstone.session.emulator_findings import emulator_findings, kvm_finding
from swapstone.session.tool_findings import instrument_findings, load_generator_findings
from swapstone.targets import Target, open_target
from swapstone.targets.bare import BARE, emulator_version
from swapstone.targets.health import Finding, State, examine
from swapstone.targets.kernel_noise import TOOLS, unavailable
from swapstone.wire import ProcessOutcome, TrialRequest

__all__ = ["Finding", "State", "agent_findings", "capabilities", "examine", "noise_findings", "plain", "summary"]


def capabilities() -> list[Finding]:
    """Return what this machine can and can't do, each with the command that would enable it."""
    return [
        *(*_levels(), *_agent(), *emulator_findings(), kvm_finding(), _network(), bare_finding()),
        *(*load_generator_findings(), *instrument_findings()),
    ]


def _levels() -> list[Finding]:
    findings = []
    for factor in FACTORS:
        for level in factor.levels:
            absent = [command for command in level.needs if shutil.which(command) is None]
            name = f"{factor.name}={level.name}"
            if absent:
                meaning = f"{name} is unavailable: the command {absent[0]!r} is not installed"
                remedy = install_command(level.package)
                findings.append(
                    Finding(name=name, state=State.MISSING, found="missing", meaning=meaning, remedy=remedy)
                )
            else:
                found = _found(factor.name, level)
                findings.append(Finding(name=name, state=State.GOOD, found=found))
    return findings


def _network() -> Finding:
    """Return whether trials of network stacks can run; `_levels` checks the commands that they need."""
    name, trouble = "network stacks", missing_crate_requirement()
    if trouble is None:
        return Finding(name=name, state=State.GOOD, found=f"{compiler_version(('rustc',))}, root, a TAP")
    message, remedy = trouble
    return Finding(
        name=name,
        state=State.MISSING,
        found="unavailable",
        meaning=f"{message.rstrip('.')}: no netstack=",
        remedy=remedy,
    )


def bare_finding() -> Finding:
    """Return whether the target without an operating system can be built and booted."""
    name, trouble = f"target {BARE.name}", missing_guest_requirement()
    if trouble is None:
        return Finding(name=name, state=State.GOOD, found=emulator_version())
    message, remedy = trouble
    return Finding(
        name=name,
        state=State.MISSING,
        found="unavailable",
        meaning=f"{message.rstrip('.')}: no network stack without an operating system",
        remedy=remedy,
    )


def _found(factor: str, level: Level) -> str:
    """Describe a level whose tools are all installed."""
    if factor == "allocator" and level.needs:
        built = " and ".join(cached_libcs(level.name))
        return f"built for {built}" if built else "not built yet; the first comparison that needs it builds it"
    return compiler_version((level.needs[0],)) if level.needs else "ready"


def _agent() -> list[Finding]:
    try:
        with open_target("host") as target:
            return [*agent_findings(target, ("/bin/true",)), *noise_findings(target)]
    except UserError as error:
        return _no_agent(error)


_OBSERVING = "observing a trial"


def _no_agent(error: UserError) -> list[Finding]:
    found = "the agent does not run"
    return [
        Finding(name=_OBSERVING, state=State.MISSING, found=found, meaning=error.message, remedy=error.hint),
    ]


def agent_findings(target: Target, arguments: tuple[str, ...]) -> list[Finding]:
    """Start a program through the agent, as a trial does, and return what the agent can observe of it.

    Args:
        target: where.
        arguments: of the program there, with its path first; it has no effect.
    """
    name = _OBSERVING
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
    facts = dict(answer.facts)
    findings = []
    if answer.outcome is ProcessOutcome.EXITED and answer.objects:
        findings.append(
            Finding(name=name, state=State.GOOD, found=f"the agent read {len(answer.objects)} mapped objects")
        )
    else:
        meaning = (
            "; ".join(answer.notes) or "the agent could not read what a program has mapped: no level can be confirmed"
        )
        remedy = "sudo sysctl kernel.yama.ptrace_scope=1; in a container: --cap-add SYS_PTRACE"
        findings.append(
            Finding(name=name, state=State.MISSING, found="nothing observed", meaning=meaning, remedy=remedy)
        )
    for fact, what in (
        ("run_delay_ns", "run-queue delay"),
        ("psi_cpu_us", "pressure around a trial"),
        ("steal_ticks", "steal"),
    ):
        state, found = (State.GOOD, "recorded") if fact in facts else (State.UNKNOWN, "this kernel does not report it")
        findings.append(Finding(name=what, state=state, found=found))
    return findings


def noise_findings(target: Target) -> list[Finding]:
    """Return whether rtla can measure the noise of kernel and hardware on a target, as the suite latency does."""
    findings = []
    for name, reason in unavailable(target).items():
        if reason:
            meaning = f"{TOOLS[name]} measures nothing before the suite latency"
            found = Finding(name=name, state=State.MISSING, found=f"unavailable: {reason}", meaning=meaning)
        else:
            found = Finding(name=name, state=State.GOOD, found=f"{TOOLS[name]}, before the suite latency")
        findings.append(found)
    return findings


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


def plain(findings: list[Finding]) -> list[dict[str, str]]:
    """Return findings as JSON has them."""
    return [
        {"name": f.name, "state": f.state.value, "found": f.found, "meaning": f.meaning, "remedy": f.remedy}
        for f in findings
    ]

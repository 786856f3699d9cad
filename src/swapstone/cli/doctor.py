"""`swapstone doctor`: what this machine can do, and what makes its timings noisy."""

from __future__ import annotations

import json
import shutil

import click

from swapstone.artifacts import built_for, compiler_version, crate_trouble
from swapstone.factors import FACTORS, Level
from swapstone.model import UserError
from swapstone.session.emulator_findings import emulator_findings, kvm_finding
from swapstone.session.tool_findings import driver_findings, instrument_findings
from swapstone.targets import open_target
from swapstone.targets.health import Finding, State, examine
from swapstone.wire import Ended, TrialRequest

_COLOURS = {State.GOOD: "green", State.NOISY: "yellow", State.MISSING: "red", State.UNKNOWN: None}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def doctor_command(as_json: bool) -> None:
    r"""Say what this machine can and can't do, and what makes its timings noisy.

    Each finding that something can be done about comes with the command that would mend it. The doctor itself changes nothing.

    \b
    Example:
      swapstone doctor
    """
    able = [
        *(*_levels(), *_agent(), *emulator_findings(), kvm_finding(), _network()),
        *(*driver_findings(), *instrument_findings()),
    ]
    noise = list(examine())
    if as_json:
        click.echo(json.dumps({"can": _plain(able), "noise": _plain(noise)}, indent=1))
        return
    click.echo("What this machine can do")
    _print(able)
    click.echo("\nWhat makes timings noisy")
    _print(noise)
    worse = sum(finding.state in {State.NOISY, State.MISSING} for finding in (*able, *noise))
    click.echo(
        f"\n{worse} of {len(able) + len(noise)} findings ask for attention."
        if worse
        else "\nNothing asks for attention."
    )


def _levels() -> list[Finding]:
    findings = []
    for factor in FACTORS:
        for level in factor.levels:
            absent = [command for command in level.needs if shutil.which(command) is None]
            name = f"{factor.name}={level.name}"
            if absent:
                meaning = f"{name} is unavailable: the command {absent[0]!r} is not installed"
                mend = f"sudo apt-get install {level.package}"
                findings.append(Finding(name=name, state=State.MISSING, found="missing", meaning=meaning, mend=mend))
            else:
                found = _found(factor.name, level)
                findings.append(Finding(name=name, state=State.GOOD, found=found))
    return findings


def _network() -> Finding:
    """Say whether trials of network stacks can be made, beside the commands that `_levels` looks for."""
    name, trouble = "network stacks", crate_trouble()
    if trouble is None:
        return Finding(name=name, state=State.GOOD, found=f"{compiler_version(('rustc',))}, root, a TAP")
    message, mend = trouble
    return Finding(
        name=name, state=State.MISSING, found="unavailable", meaning=f"{message.rstrip('.')}: no netstack=", mend=mend
    )


def _found(factor: str, level: Level) -> str:
    """Say what a level is here whose tools are all there."""
    if factor == "allocator" and level.needs:
        built = " and ".join(built_for(level.name))
        return f"built for {built}" if built else "not built yet; it will be when it is first asked for"
    return compiler_version((level.needs[0],)) if level.needs else "ready"


def _agent() -> list[Finding]:
    """Start a program through the agent, as a trial would be, and see what the agent can observe of it."""
    name = "observing a trial"
    try:
        with open_target("host") as target:
            answer = target.run(
                TrialRequest(
                    id="doctor",
                    arguments=("/bin/true",),
                    environment=(),
                    cwd=target.scratch(),
                    cpus=(),
                    nice=None,
                    timeout_ms=10_000,
                    output_bytes=4096,
                    disk_bytes=1 << 20,
                )
            )
    except UserError as error:
        return [
            Finding(
                name=name, state=State.MISSING, found="the agent does not run", meaning=error.message, mend=error.hint
            )
        ]
    facts = dict(answer.facts)
    findings = []
    if answer.how is Ended.EXITED and answer.objects:
        findings.append(
            Finding(name=name, state=State.GOOD, found=f"the agent saw {len(answer.objects)} objects mapped")
        )
    else:
        meaning = (
            "; ".join(answer.notes) or "the agent could not read what a program has mapped: no level can be confirmed"
        )
        mend = "sudo sysctl kernel.yama.ptrace_scope=1; in a container: --cap-add SYS_PTRACE"
        findings.append(Finding(name=name, state=State.MISSING, found="nothing observed", meaning=meaning, mend=mend))
    for fact, what in (
        ("run_delay_ns", "run-queue delay"),
        ("psi_cpu_us", "pressure around a trial"),
        ("steal_ticks", "steal"),
    ):
        state, found = (State.GOOD, "recorded") if fact in facts else (State.UNKNOWN, "this kernel doesn't say")
        findings.append(Finding(name=what, state=state, found=found))
    return findings


def _plain(findings: list[Finding]) -> list[dict[str, str]]:
    return [
        {"name": f.name, "state": f.state.value, "found": f.found, "meaning": f.meaning, "mend": f.mend}
        for f in findings
    ]


def _print(findings: list[Finding]) -> None:
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        state = click.style(f"{finding.state.value:8}", fg=_COLOURS[finding.state])
        click.echo(f"  {state} {finding.name:{width}}  {finding.found}")
        if finding.meaning:
            click.echo(f"  {'':8} {'':{width}}  {finding.meaning}")
        if finding.mend:
            click.echo(f"  {'':8} {'':{width}}  mend: {finding.mend}")

# SPDX-License-Identifier: MIT OR Apache-2.0
"""`--against RECORD`: the runs of an earlier session are the baseline, and this session makes those of the candidate.

The new record has both, so that it is analysed, reported and verified as any other. Its plan is that of the earlier record: the same seed,
and as many blocks. Nothing of the earlier record is run.
"""

from __future__ import annotations

import itertools
import os
import shlex

import msgspec

from swapstone.core import plan
from swapstone.core.artifacts.source_tree import sha256_of
from swapstone.core.model import (
    BEFORE,
    NOW,
    SESSION,
    Experiment,
    FactorLevels,
    OwnProgram,
    Run,
    Status,
    UserError,
    refuse,
)
from swapstone.core.model.safe_text import safe, safe_excerpt
from swapstone.core.record import (
    KeptOutputs,
    Manifest,
    RecordView,
    RecordWriter,
)
from swapstone.core.session.command_text import command_line
from swapstone.core.workloads import REFERENCE, reference_program

_PLACE = (
    "target",
    "clock",
    "architecture",
    "cpu_model",
    "ns_per_instruction",
    "processors",
    "loads",
    "held",
    "workloads",
)
"""Fields of an experiment that both sessions must have."""

_MACHINE = {
    "cpu": "processor",
    "cpus": "processors",
    "architecture": "architecture",
    "memory_bytes": "memory",
    "virtualization": "virtualization",
    "governor": "governor",
}
"""What must be the same in both sessions, by its name in a manifest."""

_MEMORY_SHARE = 0.02
"""Memory of the same size, of which another kernel reserves another part, differs by less."""

_LONGEST = 200


def with_earlier(view: RecordView, experiment: Experiment) -> Experiment:
    """Return an experiment with an earlier session as its baseline: that session's plan, and the program as it is now.

    Args:
        view: the record of the earlier session.
        experiment: what is measured now.

    Raises:
        UserError: the record is damaged, is not of this program alone, or has no complete block.
    """
    path, old = shlex.quote(str(view.path)), view.experiment
    command, then = safe(command_line(experiment)), safe_excerpt(command_line(old), _LONGEST)
    measure = f"Measure it alone, then again: swapstone compare {command}"
    damage = safe_excerpt(str(next(iter(view.damages), "")), _LONGEST)
    refuse(
        (
            not experiment.alone,
            "--against compares one program with an earlier session of it, and here something else varies.",
            "Leave the factors and the other programs out: swapstone compare --against RECORD ./prog",
        ),
        (
            not experiment.virtual and REFERENCE not in experiment.workloads,
            f"--against is unavailable on the target {experiment.target}: no reference program is measured there.",
            "Compare both programs in one session: swapstone compare './old' './new'",
        ),
        (
            damage,
            f"{path} has been altered, so nothing is compared with it: {damage}.",
            f"All damage: swapstone verify {path}",
        ),
        (not old.alone, f"{path} compares variants; --against takes the record of one program.", measure),
        (view.manifest is None, f"{path} ended before anything was built.", measure),
        (
            _program(old) != _program(experiment),
            f"{path} is of another program, or of other options of it: {then} then, {command} now.",
            measure,
        ),
        *(
            (
                getattr(old, name) != getattr(experiment, name),
                f"{path} has another {name}: {safe_excerpt(str(getattr(old, name)), _LONGEST)} then, {getattr(experiment, name)} now.",
                measure,
            )
            for name in _PLACE
        ),
    )
    made = {(run.trial.block, run.trial.group) for run in view.runs if not run.trial.prime}
    every = plan.groups(old)
    blocks = next(block for block in itertools.count() if any((block + 1, group) not in made for group in every))
    refuse((not blocks, f"{path} has no complete block: there is nothing to compare with.", measure))
    levels = FactorLevels(factor=SESSION, levels=(BEFORE, NOW))
    exactly = {"blocks": blocks, "budget_extends": True, "prime_more": False}
    return msgspec.structs.replace(old, factors=(levels,), own=experiment.own, **exactly)


def _program(experiment: Experiment) -> OwnProgram | None:
    """Return an own program without the folders in which its files lie and what its session's shell had."""
    own = experiment.own
    if own is None:
        return None
    return msgspec.structs.replace(
        own,
        arguments=_named(own.arguments),
        commands=tuple(msgspec.structs.replace(line, words=_named(line.words)) for line in own.commands),
        source=os.path.basename(own.source),  # noqa: PTH119 - a text of a record
        directory="",
        inherited=(),
    )


def _named(words: tuple[str, ...]) -> tuple[str, ...]:
    return (os.path.basename(words[0]), *words[1:]) if words else ()  # noqa: PTH119 - as above


def require_same_machine(view: RecordView, machine: tuple[tuple[str, str], ...]) -> None:
    """Raise a `UserError` with all that differs of the machine that must not; on the virtual clock, on which nothing depends, never.

    Args:
        view: the record of the earlier session.
        machine: pairs (name, value) of this session's, as of `Manifest.machine`.
    """
    then, now = dict(view.manifest.machine) if view.manifest else {}, dict(machine)
    differing = [
        f"{what}: {safe_excerpt(then.get(name, 'unknown'), _LONGEST)} then, {safe_excerpt(now.get(name, 'unknown'), _LONGEST)} now"
        for name, what in _MACHINE.items()
        if then.get(name) != now.get(name)
        and not (name == "memory_bytes" and _same_size(then.get(name), now.get(name)))
    ]
    if differing and not view.experiment.virtual:
        raise UserError(
            f"{shlex.quote(str(view.path))} was measured on another machine, or in another state of it: {'; '.join(differing)}.",
            "Restore that state, or measure a new baseline here: run the command without --against.",
        )


def require_same_reference(view: RecordView) -> None:
    """Raise a `UserError` if an earlier session measured another reference program; where it measured none, there is none here.

    Args:
        view: the record of that session.
    """
    every = view.manifest.artifacts if view.manifest else ()
    then = next((each.sha256 for each in every if (each.suite, each.workload) == REFERENCE), "")
    if then and then != sha256_of(reference_program()):
        raise UserError(
            f"{shlex.quote(str(view.path))} was measured with another build of the reference program, which this machine does not have.",
            "Measure a new baseline: run the command without --against.",
        )


def _same_size(then: str | None, now: str | None) -> bool:
    sizes = [int(text) for text in (then, now) if text and text.isdecimal() and len(text) < 20]
    return len(sizes) == 2 and abs(sizes[0] - sizes[1]) <= _MEMORY_SHARE * max(sizes)


def carry_over(view: RecordView, experiment: Experiment, writer: RecordWriter) -> tuple[Manifest, tuple[Run, ...]]:
    """Write the runs of an earlier session, with their outputs, as those of the baseline.

    Args:
        view: the record of that session.
        experiment: of `with_earlier`: gives the blocks.
        writer: of the new record.

    Returns:
        The manifest of that session, its programs those of the baseline; and these runs.
    """
    assert view.manifest is not None, "checked by `with_earlier`"
    programs = tuple(msgspec.structs.replace(each, variant=experiment.earlier) for each in view.manifest.artifacts)
    carried = []
    with KeptOutputs(view.path) as kept:
        for run in view.runs:
            if run.trial.block > experiment.blocks or run.status is Status.UNAVAILABLE:
                continue
            output, answer = (
                writer.keep_raw(kept.read(each) or b"") if each else "" for each in (run.output, run.answer)
            )
            carried.append(
                msgspec.structs.replace(
                    run,
                    trial=msgspec.structs.replace(run.trial, variant=experiment.earlier),
                    observed=tuple((name, BEFORE if name == SESSION else level) for name, level in run.observed),
                    output=output,
                    answer=answer,
                )
            )
            writer.append(carried[-1])
    return msgspec.structs.replace(view.manifest, artifacts=programs), tuple(carried)

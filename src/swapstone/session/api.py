# SPDX-License-Identifier: MIT OR Apache-2.0
"""The functions of the Python API: `compare`, `study`, `load`, `explain` and `query`. `import swapstone` exports them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from swapstone.factors import FACTORS
from swapstone.model import IDLE, RANDOM_ORDER, REPORT_CORRECTION, UserError, unknown
from swapstone.record import default_root, find_record, new_record_path
from swapstone.report.study_index import StudyIndex
from swapstone.session import experiment as experiments
from swapstone.session import study as studies
from swapstone.session.api_values import (
    Command,
    Levels,
    Values,
    command_list,
    command_text,
    command_words,
    duration_text,
    name_list,
    path_text,
    pattern_list,
    share_text,
    value_texts,
)
from swapstone.session.defaults import MARGIN
from swapstone.session.experiment import resolve
from swapstone.session.outcome import parse_fail_if
from swapstone.session.own_program_request import OwnProgramRequest
from swapstone.session.progress import Progress, ProgressLike, as_progress
from swapstone.session.query import Relation, query_records
from swapstone.session.record_handle import Record, open_record
from swapstone.session.request import ExperimentRequest
from swapstone.session.requested_run import run_request
from swapstone.session.run_options import RunOptions
from swapstone.session.sharing import parse_sharing
from swapstone.session.study import PartState
from swapstone.session.study_file import load_study, study_path
from swapstone.session.study_run import STUDY
from swapstone.session.values import Duration, duration_ns, duration_seconds, parse_confidence, parse_ratio

if TYPE_CHECKING:
    from swapstone.session.explain_machine import InstructionsByFunction
    from swapstone.session.explain_row import RowExplanation
    from swapstone.session.explain_wakeup import WorstWakeups


@dataclasses.dataclass(frozen=True)
class StudyResult:
    """A study that ran to its end.

    Attributes:
        path: the study's folder; for a study without parts its record's.
        records: the records by name of the part; for a study without parts by the study's name.
        states: the state of each part, with the reason; for a study without parts empty.
        index: what each part came to; None for a study without parts.
    """

    path: Path
    records: Mapping[str, Record]
    states: Mapping[str, PartState]
    index: StudyIndex | None

    @property
    def ok(self) -> bool:
        """Return whether at least one part is complete and none failed."""
        found = {part.state for part in self.states.values()}
        return self.index is None or (studies.FAILED not in found and studies.COMPLETE in found)


def compare(
    factors: Mapping[str, Levels] | None = None,
    *,
    suites: Levels = (),
    only: Levels = (),
    budget: Duration = None,
    margin: str | float = MARGIN,
    confidence: str | float | None = None,
    correction: str = REPORT_CORRECTION,
    seed: int | None = None,
    blocks: int = 0,
    null: bool = False,
    layouts: int = 0,
    prime: int | None = None,
    order: str = RANDOM_ORDER,
    duration: Duration = None,
    target: str | None = None,
    loads: Levels = (IDLE.name,),
    architecture: str = "",
    cpu_model: str = "",
    ns_per_instruction: int = 1,
    processors: int = 1,
    modules: Mapping[str, str] | None = None,
    module: Levels = (),
    hold: Mapping[str, str] | None = None,
    clock: str | None = None,
    published: str = "",
    command: Command | None = None,
    commands: Mapping[str, Command] | Sequence[Command] = (),
    shell: bool = False,
    parameters: Mapping[str, Values] | None = None,
    vary: Mapping[str, Values] | None = None,
    programs: Mapping[str, str] | None = None,
    source: str | Path | None = None,
    build: str | None = None,
    build_timeout: Duration = None,
    libraries: Levels = (),
    rebuild: bool = False,
    input: str | Path | None = None,
    output: str | Path | None = None,
    artifacts: Sequence[str | Path] = (),
    output_may_differ: bool = False,
    files: Sequence[str | Path] = (),
    memory: str | None = None,
    env: Mapping[str, str] | None = None,
    setup: str | None = None,
    prepare: str | None = None,
    conclude: str | None = None,
    timeout: Duration = None,
    pin: bool = False,
    ignore_failure: bool = False,
    metrics: Levels = (),
    cpu_bound: bool = False,
    server: Command | None = None,
    load_generator: Command | None = None,
    connections: int | Sequence[int] = (),
    read: str | None = None,
    warm_up: Duration = None,
    ready_timeout: Duration = None,
    template: str | Path | None = None,
    no_cache: bool = False,
    guest_timeout: Duration = None,
    store: str | None = None,
    executor: str | None = None,
    recheck: float | str | None = None,
    out: str | Path | None = None,
    progress: ProgressLike = None,
    **levels: Levels,
) -> Record:
    """Compare levels of one or several factors, and return the record.

    Factors are keyword arguments, or the mapping `factors`: ``compare(libc=["glibc", "musl"])``. The other arguments are the options of
    `swapstone compare`; `command` is the program after ``--``.

    Args:
        factors: levels by name of the factor, the baseline first.
        suites: names of suites; empty for those that suit the factors.
        only: patterns of workloads.
        budget: time for measuring; one minute a variant if None.
        margin: differences below this are of no interest: a ratio, or a text such as ``2%``.
        confidence: of the intervals, before correction: a ratio, or a text such as ``95%``; if None that of the correction.
        correction: ``report`` or ``family``: what the confidence holds for: one report, or each of its families.
        seed: of every random order; random if None.
        blocks: an exact number of blocks; 0 to stop on precision or budget.
        null: whether the baseline takes part again, and relinked.
        layouts: how many links of each variant take turns; 0 for one.
        prime: discarded runs directly before each measured run, 0 to 16; if None, as many as runs depend on what ran before them.
        order: of a block's variants: ``random``, or ``balanced`` in cycles in which each follows each other one equally often.
        duration: how long each trial of the suite latency measures; a second if None.
        target: as ``--target``, e.g. ``host``, ``vm:KERNEL`` or ``ssh:BOARD``; None for the one that the experiment needs.
        loads: names of loads.
        architecture: of the virtual machine; this machine's if empty.
        cpu_model: of the virtual machine, as QEMU names it; the default if empty.
        ns_per_instruction: guest time of an instruction on the virtual clock: 1, 2, 4 ... 1024.
        processors: of the virtual machine, 1 to 8.
        modules: path of a kernel to the folder of its modules.
        module: paths of kernel modules that the virtual machine loads before the work.
        hold: levels by name of the factor that all variants share, of factors that are not compared: ``{"optimization": "Os"}``.
        clock: ``wall`` or ``virtual``; the target's if None.
        published: name of a published study, to print its figures beside the results.
        command: an own program and its arguments; with `programs` the arguments alone.
        commands: command lines to compare, the baseline first; a mapping gives them names.
        shell: run the commands by ``/bin/sh -c``.
        parameters: values by name: a workload for each. ``{name}`` stands for the value. A text may be a range such as ``1..100/10``.
        vary: levels of free factors by name: of a placeholder ``{name}``, or of an environment variable ``env:NAME``.
        programs: name to path of several programs, the baseline first.
        source: folder that is copied for each variant and built there.
        build: shell command that builds it, with placeholders such as ``{cc}``.
        build_timeout: a build is stopped after this long.
        libraries: names of libraries to build for each variant (``--with``).
        rebuild: build again although an equal build is in the cache.
        input: file that is the program's standard input.
        output: file that receives the program's standard output.
        artifacts: files that each run writes; their contents must be the same for all variants, like the output's.
        output_may_differ: don't compare what the variants print, nor their exit statuses.
        files: files and folders that the program reads, to be put into the virtual machine.
        memory: of the virtual machine, e.g. ``512M``.
        env: variables of its environment.
        setup: command that runs once for each variant before its first trial.
        prepare: command that runs before each trial.
        conclude: command that runs after each trial.
        timeout: a trial is stopped after this long.
        pin: pin the program to one processor.
        ignore_failure: count runs with another exit status than 0.
        metrics: numbers that the program prints, ``NAME[UNIT,DIRECTION]=regex:PATTERN``.
        cpu_bound: CPU time decides, not elapsed time.
        server: command of an own server, with ``{port}``.
        load_generator: command that sends its requests.
        connections: numbers of connections; each is a workload.
        read: how the load generator's output is read.
        warm_up: the load generator runs this long before the measurement.
        ready_timeout: the server must accept connections within this.
        template: its configuration file, with ``{port}``.
        no_cache: repeat runs of virtual machines that are in the cache.
        guest_timeout: limit of a virtual machine's run, in this machine's time; 10 minutes if None.
        store: folder or URL of fsspec with finished runs of virtual machines.
        executor: workers that make such runs, as ``--executor``.
        recheck: share of the runs that two workers make.
        out: the record's folder; a new one under the root of records if None.
        progress: a `Progress`, or a function that receives lines of text.
        **levels: levels by name of the factor.

    Returns:
        The record, sealed as complete.

    Raises:
        UserError: an argument is wrong, or the experiment can't run here.
        Interrupted: a signal ended it (a `KeyboardInterrupt`); the record is sealed, and its path is in the exception.
    """
    own = OwnProgramRequest(
        command=command_words(command),
        commands=tuple(command_text(each) or "" for each in command_list(commands)),
        names=tuple(commands) if isinstance(commands, Mapping) else (),
        shell=shell,
        parameters=value_texts(parameters),
        vary=value_texts(vary),
        programs=tuple(f"{name}={path}" for name, path in (programs or {}).items()),
        source=path_text(source),
        build=build,
        build_timeout=duration_text(build_timeout),
        libraries=",".join(name_list(libraries)) or None,
        rebuild=rebuild,
        stdin=path_text(input),
        output=path_text(output),
        artifacts=tuple(map(str, artifacts)),
        output_may_differ=output_may_differ,
        files=tuple(map(str, files)),
        memory=memory,
        variables=tuple(f"{name}={value}" for name, value in (env or {}).items()),
        setup=setup,
        prepare=prepare,
        conclude=conclude,
        timeout=duration_text(timeout),
        pin=pin,
        ignore_failure=ignore_failure,
        metrics=pattern_list(metrics),
        cpu_bound=cpu_bound,
        server=command_text(server),
        load_generator=command_text(load_generator),
        connections=",".join(map(str, [connections] if isinstance(connections, int) else connections)) or None,
        reader=read,
        warm_up=duration_text(warm_up),
        ready_timeout=duration_text(ready_timeout),
        template=None if template is None else str(template),
    )
    request = ExperimentRequest(
        name="compare",
        factors=(),
        suites=name_list(suites),
        only=pattern_list(only),
        budget_ns=duration_ns(budget),
        margin=parse_ratio(share_text(margin), "margin", 0.0, 1.0),
        confidence=None if confidence is None else parse_confidence(share_text(confidence), "confidence"),
        correction=correction,
        seed=seed,
        blocks=blocks,
        null=null,
        layouts=layouts,
        prime=prime,
        order=order,
        duration_ns=duration_ns(duration),
        target=target,
        loads=name_list(loads),
        architecture=architecture,
        cpu_model=cpu_model,
        ns_per_instruction=ns_per_instruction,
        processors=processors,
        module_files=name_list(module),
        modules=tuple(f"{kernel}={folder}" for kernel, folder in (modules or {}).items()),
        clock=clock,
        published=published,
        hold=tuple(f"{name}={level}" for name, level in (hold or {}).items()),
    )
    texts = [f"{name}={','.join(name_list(each))}" for name, each in _factors(factors, levels).items()]
    sharing = parse_sharing(store, executor, None if recheck is None else share_text(recheck))
    how = RunOptions(
        rebuild=rebuild, no_cache=no_cache, guest_timeout_s=duration_seconds(guest_timeout), sharing=sharing
    )
    return run_request(request, texts, own, out=Path(out) if out else None, options=how, progress=as_progress(progress))


def study(
    name: str | Path | None = None,
    *,
    only_parts: Levels = (),
    only: Levels = (),
    budget: Duration = None,
    seed: int | None = None,
    blocks: int = 0,
    target: str | None = None,
    no_cache: bool = False,
    guest_timeout: Duration = None,
    store: str | None = None,
    executor: str | None = None,
    recheck: float | str | None = None,
    fail_if: Levels = (),
    out: str | Path | None = None,
    resume: str | Path | None = None,
    trust: bool = False,
    progress: ProgressLike = None,
) -> StudyResult:
    """Run or resume a study.

    Args:
        name: of a shipped study, or the path of a TOML file.
        only_parts: names of the parts to run; empty for all.
        only: patterns of workloads.
        budget: of all parts together; the study's if None.
        seed: of every random order.
        blocks: an exact number of blocks; 0 for the study's.
        target: for every part; the study's if None.
        no_cache: repeat runs of virtual machines that are in the cache.
        guest_timeout: limit of a virtual machine's run, in this machine's time; 10 minutes if None.
        store: as of `compare`, for the parts on the virtual clock; at least one part must be on it.
        executor: the same.
        recheck: the same.
        fail_if: texts of ``--fail-if``, whose form is checked before anything is measured.
        out: the folder of the records; a new one under the root of records if None.
        resume: the folder of an interrupted study, instead of a name. Only `budget`, `no_cache`, `store`, `executor`, `recheck`, `trust`
            and `progress` may be given with it.
        trust: whether the commands of the study that is resumed may run though another user or machine started it, or it was edited.
        progress: a `Progress`, or a function that receives lines of text.

    Raises:
        UserError: there is no such study, or an argument is wrong.
        Interrupted: a signal ended it; the records are sealed.
    """
    receiver = as_progress(progress)
    conditions = parse_fail_if(name_list(fail_if))
    options = RunOptions(
        no_cache=no_cache,
        guest_timeout_s=duration_seconds(guest_timeout),
        trust=trust,
        sharing=parse_sharing(store, executor, None if recheck is None else share_text(recheck)),
    )
    if resume is None and trust:
        raise UserError("Only a study that is resumed can be untrusted.", "Leave --trust out.")
    if resume is not None:
        if name or only or only_parts or seed is not None or blocks or target or out:
            raise UserError(
                "A study resumes with its own options.",
                "Leave out all but --budget, --no-cache, --store, --executor and --recheck.",
            )
        return _resume_study(str(resume), duration_ns(budget), options, receiver)
    if not name:
        raise UserError("The name of the study is missing.", "`swapstone list studies` shows them all.")
    found = load_study(str(name))
    file = study_path(str(name))
    directory = str(file.absolute().parent) if str(name).endswith(".toml") else ""
    if not found.part:
        if only_parts:
            raise UserError(f"The study {name} has no parts.", "Leave --only-part out.")
        request = found.request(file.stem, directory)
        request = dataclasses.replace(
            request,
            only=pattern_list(only) or request.only,
            budget_ns=duration_ns(budget) or request.budget_ns,
            budget_extends=budget is None,
            seed=seed if seed is not None else request.seed,
            blocks=blocks or request.blocks,
            target=target or request.target,
        )
        options = dataclasses.replace(options, fail_if=conditions)
        path = experiments.start(resolve(request), Path(out) if out else None, options=options, progress=receiver)
        return StudyResult(path, {file.stem: Record(path)}, {}, None)
    run = studies.plan_study(
        file.stem,
        found,
        only_parts=name_list(only_parts),
        only=pattern_list(only),
        budget_ns=duration_ns(budget),
        seed=seed,
        blocks=blocks,
        target=target,
        directory=directory,
    )
    folder = Path(out) if out else new_record_path(run.name)
    return _study_result(studies.start_study(run, folder, options=options, progress=receiver))


def _resume_study(name: str, budget_ns: int | None, options: RunOptions, progress: Progress) -> StudyResult:
    """Resume a study's folder, or the record of a study without parts."""
    for folder in (Path(name), default_root() / name):
        if (folder / STUDY).is_file():
            return _study_result(studies.resume_study(folder, budget_ns, options=options, progress=progress))
    path = experiments.resume(find_record(name), budget_ns, options=options, progress=progress)
    return StudyResult(path, {Record(path).experiment.name: Record(path)}, {}, None)


def _study_result(outcome: studies.StudyOutcome) -> StudyResult:
    records = {
        name: Record(outcome.folder / name)
        for name, part in outcome.parts.items()
        if (outcome.folder / name / "record.json").is_file() and part.state != studies.FAILED
    }
    return StudyResult(outcome.folder, records, outcome.parts, outcome.index)


def load(name: str | Path) -> Record:
    """Open a record.

    Args:
        name: its folder, its name under the root of records, or ``last``.

    Raises:
        RecordError: there is no such record; names the nearest ones.
    """
    record = open_record(str(name))
    _ = record.view
    return record


def explain(
    record: Record | str | Path,
    workload: str | None = None,
    *,
    metric: str | None = None,
    candidate: str | None = None,
    load: str | None = None,
    classes: str | Path | None = None,
    again: bool = False,
    without: Sequence[str] = (),
    trust: bool = False,
    modelled_cycles: bool = False,
    confirm: bool = False,
    progress: ProgressLike = None,
) -> RowExplanation | InstructionsByFunction | WorstWakeups:
    """Explain a row of a record: see `Record.explain`.

    Raises:
        UserError: there is no such record, no row matches, or the row can't be run under instruments.
    """
    opened = record if isinstance(record, Record) else open_record(str(record))
    return opened.explain(
        workload,
        metric=metric,
        candidate=candidate,
        load=load,
        classes=classes,
        again=again,
        without=tuple(without),
        trust=trust,
        modelled_cycles=modelled_cycles,
        confirm=confirm,
        progress=progress,
    )


def query(sql: str, *, allow_files: bool = False) -> Relation | None:
    """Run an SQL query over all records.

    Args:
        sql: in DuckDB's dialect, on the tables that `swapstone query --help` lists.
        allow_files: whether it may do more than read these tables: read and write other files, use networks, load extensions.

    Returns:
        The result; None for a statement that has none.

    Raises:
        UserError: there are no records, or DuckDB rejects the query.
    """
    return query_records(sql, allow_files=allow_files)


def _factors(factors: Mapping[str, Levels] | None, levels: Mapping[str, Levels]) -> dict[str, Levels]:
    """Join the mapping and the keyword arguments.

    Raises:
        UserError: a name is no factor, or stands in both.
    """
    known = [factor.name for factor in FACTORS]
    for name in levels:
        if name not in known:
            options = [each for each in compare.__kwdefaults__ or {} if each not in known]
            raise unknown("factor or argument", name, [*known, *options])
        if name in (factors or {}):
            raise UserError(f"The factor {name} is given twice.", "Give it as keyword or in the mapping.")
    return {**(factors or {}), **levels}

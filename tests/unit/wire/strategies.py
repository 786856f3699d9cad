# SPDX-License-Identifier: MIT OR Apache-2.0
"""Hypothesis strategies for valid answers, reports and requests."""

from __future__ import annotations

import re
import string

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from swapstone.core.model import Observation, ObservationKind
from swapstone.core.wire import (
    FACTS,
    AgentAnswer,
    LoadGeneratorRequest,
    Memory,
    Pass,
    ProcessOutcome,
    TrialRequest,
    WorkloadReport,
)

# Slow generation on a busy machine is not an error of the tested code.
light = settings(suppress_health_check=[HealthCheck.too_slow])

counts = st.integers(0, 2**63 - 1)
texts = st.text(st.characters(codec="utf-8"), max_size=12)
words = texts.filter(lambda text: "\0" not in text)
ids = st.text(string.ascii_letters + string.digits + "._-", min_size=1, max_size=64)
_CODES = {
    ProcessOutcome.EXITED: st.integers(0, 255),
    ProcessOutcome.SIGNALED: st.integers(1, 64),
    ProcessOutcome.ORPHANS: st.integers(1, 1000),
    ProcessOutcome.UNSTARTED: st.integers(1, 133),
    ProcessOutcome.UNDRIVEN: st.integers(0, 133),
}


names = {
    ObservationKind.ENV: words.filter(lambda text: text and "=" not in text),
    ObservationKind.FILE: words.map(lambda text: f"/{text}"),
}
observations = st.sampled_from(ObservationKind).flatmap(
    lambda kind: st.builds(Observation, kind=st.just(kind), name=names.get(kind, st.just("limits")))
)


@st.composite
def answers(draw: st.DrawFn) -> AgentAnswer:
    how = draw(st.sampled_from(ProcessOutcome))
    names = draw(st.lists(st.sampled_from(sorted(FACTS)), unique=True))
    facts = tuple((n, draw(st.integers(FACTS[n], 19 if n in ("nice", "agent_nice") else 2**63 - 1))) for n in names)
    read = draw(st.lists(observations, unique=True, max_size=4))
    found = draw(st.integers(0, len(read)))
    return AgentAnswer(
        id=draw(ids),
        facts=facts,
        interp=draw(st.none() | texts),
        objects=tuple(draw(st.lists(texts, max_size=4))),
        observed=tuple((what, draw(texts)) for what in read[:found]),
        absent=tuple(read[found:]),
        stdout=draw(st.binary(max_size=600)),
        stderr=draw(st.binary(max_size=40)),
        driver_stdout=draw(st.binary(max_size=600)),
        driver_stderr=draw(st.binary(max_size=40)),
        notes=tuple(draw(st.lists(texts, max_size=3))),
        outcome=how,
        code=draw(_CODES.get(how, st.just(0))),
    )


passes = st.builds(
    Pass,
    wall_ns=st.integers(1, 2**63 - 1),
    cpu_ns=counts,
    run_delay_ns=st.none() | counts,
    minflt=counts,
    majflt=counts,
    nvcsw=counts,
    nivcsw=counts,
)
done_reports = st.builds(
    WorkloadReport,
    name=texts.filter(bool),
    ops=st.integers(1, 2**63 - 1),
    passes=st.lists(passes, min_size=1, max_size=5).map(tuple),
    memory=st.builds(Memory, virt_bytes=counts, res_bytes=counts, dirty_bytes=counts),
    malloc=texts,
    mapped=st.lists(texts, max_size=4).map(tuple),
    check=texts,
)
failed_reports = st.builds(WorkloadReport, name=texts, error=texts.filter(bool))

drives = st.builds(
    LoadGeneratorRequest,
    port=st.integers(1, 65535),
    arguments=st.tuples(words.map("/{}".format), words),
    environment=st.lists(st.tuples(words.map(lambda n: "N" + n.replace("=", "")), words), max_size=2).map(tuple),
    cpus=st.lists(st.integers(0, 4095), max_size=4).map(tuple),
    ready_ms=st.integers(1, 3_600_000),
    warm_ms=st.integers(0, 3_600_000),
    drain_ms=st.integers(0, 3_600_000),
    stop_ms=st.integers(1, 3_600_000),
)
_option_paths = words.map(lambda name: "/" + re.sub(r"[,:\\]", "", name))
requests = st.builds(
    TrialRequest,
    id=ids,
    arguments=st.tuples(words.map("/{}".format), words, words),
    environment=st.lists(st.tuples(words.map(lambda n: "N" + n.replace("=", "")), words), max_size=4).map(tuple),
    cwd=words.map("/{}".format),
    cpus=st.lists(st.integers(0, 4095), max_size=4).map(tuple),
    stdin=st.just("") | words.map("/{}".format),
    stdout=st.just("") | words.map("/{}".format),
    nice=st.none() | st.integers(-20, 19),
    timeout_ms=st.integers(1, 10**9),
    output_bytes=st.integers(1, 1 << 24),
    disk_bytes=st.integers(1, 2**63 - 1),
    observe=st.lists(observations, unique=True, max_size=4).map(tuple),
    load_generator=st.none() | drives,
) | st.builds(
    TrialRequest,
    id=ids,
    arguments=st.tuples(words.map("/{}".format), words),
    cwd=words.map("/{}".format),
    root=_option_paths,
    root_layer=st.just("") | _option_paths,
    root_files=st.just("") | words.map("/{}".format),
    timeout_ms=st.integers(1, 10**9),
)

# SPDX-License-Identifier: MIT OR Apache-2.0
"""What `swapstone compare --why-max` checks before the comparison, and prints after it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from swapstone.core.model import UserError
from swapstone.core.model.safe_text import safe
from swapstone.core.report.document import Commands, Document, Section
from swapstone.core.session.compare_options import parse_architectures, parse_scales, typed_comparison
from swapstone.core.session.progress import Progress
from swapstone.core.session.record_handle import Record
from swapstone.parts.explain.model.wakeup_paths import EXPLAINED_LATENCY
from swapstone.parts.explain.session.worst_wakeups import require_wakeups


def worst_wakeup_documents(records: Iterable[Record], progress: Progress) -> Iterator[Document]:
    """Yield the explanation of each record's row of worst wake-ups with the largest difference, or why it is unavailable.

    Args:
        records: with or without runs.
        progress: receives events.
    """
    for record in records:
        if not record.view.runs:
            continue
        try:
            document = record.explain(metric=EXPLAINED_LATENCY, progress=progress).document()
        except UserError as error:
            reason = " ".join(map(safe, str(error).splitlines()[:2]))
            yield Document(answer=f"The path of the worst wake-up is unavailable: {reason}", title="")
            continue
        others = f"swapstone explain {shlex.quote(str(record.path))} {EXPLAINED_LATENCY} --load LOAD"
        more = Section(title="What to do next", blocks=(Commands(commands=(("another load", others),)),))
        several = len(record.experiment.loads) > 1
        yield msgspec.structs.replace(document, sections=(*document.sections, more)) if several else document


def check_why_max(options: Mapping[str, object], program: tuple[str, ...] | None) -> None:
    """Check before anything runs that the comparisons of a command line have worst wake-ups whose path can be derived.

    Args:
        options: as of `run_options`.
        program: as of `run_options`.

    Raises:
        UserError: they have none, or an option is wrong.
    """
    architectures = parse_architectures(str(options.get("architecture") or ""))
    scales = parse_scales(options.get("ns_per_instruction"))
    first = {
        "architecture": next(iter(architectures), ""),
        "ns_per_instruction": next(iter(scales), None),
    }
    require_wakeups(typed_comparison({**options, **first}, program).experiment)

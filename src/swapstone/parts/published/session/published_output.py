# SPDX-License-Identifier: MIT OR Apache-2.0
"""What `swapstone published differences` and `claims` print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from swapstone.core.record import find_records
from swapstone.core.report.document import Document
from swapstone.core.report.tables import stored_evidence
from swapstone.core.session.record_handle import Record, open_record
from swapstone.parts.published.data import page_claims, shipped
from swapstone.parts.published.report import claim_verdicts, published_differences
from swapstone.parts.published.report.claim_verdicts import judge
from swapstone.parts.published.report.measured import Analysed, damaged, like_the_pages
from swapstone.parts.published.report.published_differences import differences, shipped_reasons

Output = tuple[Document, str]
"""A document, and the same as JSON."""


def check_output() -> Document:
    """Return which of the numbers and statements of the published pages follow from their figures, as a report.

    tools/published-check has computed it.

    Raises:
        UserError: the stored report is damaged.
    """
    with shipped("check.json") as text:
        return msgspec.json.decode(text, type=Document)


def differences_output(records: Sequence[str]) -> Output:
    """Return how the ratios of records differ from the published ones.

    Args:
        records: names of records and studies.

    Raises:
        UserError: a record can't be read.
    """
    found = differences(analysed(records), shipped_reasons())
    return published_differences.document_of(found), published_differences.to_json(found)


def analysed(names: Sequence[str]) -> tuple[Analysed, ...]:
    """Return records with their analyses, each once, also where several names lead to it.

    Records of one name in different folders are named by their paths.

    Args:
        names: of records, and of studies, whose records are meant.

    Raises:
        UserError: a record can't be read.
    """
    paths: dict[Path, Path] = {}
    for name in names:
        for path in find_records(name):
            paths.setdefault(path.resolve(), path)
    records = [open_record(str(path)) for path in paths.values()]
    counts = Counter(record.name for record in records)
    return tuple(_analysed(record, str(record.path) if counts[record.name] > 1 else record.name) for record in records)


def _analysed(record: Record, name: str) -> Analysed:
    manifest = record.view.manifest
    machine = dict(manifest.machine).get("architecture", "") if manifest else ""
    return Analysed(
        name=f"{name} (simulated)" if record.experiment.simulated else name,
        experiment=record.experiment,
        analysis=record.analysis(),
        stored=stored_evidence(record.view),
        architecture=record.experiment.architecture or machine,
    )


def claims_output(records: Sequence[str]) -> Output:
    """Return the claims of the pages, with verdicts if there are records.

    Raises:
        UserError: a record can't be read.
    """
    known, left_out = like_the_pages(analysed(records))
    about = (tuple(each.name for each in known), left_out, damaged(known))
    found = judge(page_claims(), known)
    return claim_verdicts.document_of(found, *about), claim_verdicts.to_json(found, *about)

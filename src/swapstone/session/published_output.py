# SPDX-License-Identifier: MIT OR Apache-2.0
"""What `swapstone published coverage` and `claims` print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from swapstone.model import FrozenStruct, UserError
from swapstone.model.system_errors import as_user_error
from swapstone.model.toml_file import MOST_BYTES
from swapstone.published.claims import page_claims
from swapstone.record import find_records
from swapstone.report import published_claims, published_coverage
from swapstone.report.claim_verdicts import judge
from swapstone.report.document import Document
from swapstone.report.measured import Analysed, damaged, like_the_pages
from swapstone.report.published_differences import Reason, decode_reasons, differences
from swapstone.session.explanation_files import explained_rows
from swapstone.session.published_catalog import catalog
from swapstone.session.published_catalog import published_coverage as coverage_of_pages
from swapstone.session.record_handle import Record, open_record

EXIT_MISSING = 4
"""The exit status where a figure has no row."""


class PublishedOutput(FrozenStruct, frozen=True, kw_only=True):
    """A document, the same as JSON, and the number of figures without a row."""

    document: Document
    json: str
    missing: int


def coverage_output(records: Sequence[str], reasons: str | None = None) -> PublishedOutput:
    """Return which published figures have a row, and how records differ from the pages.

    Args:
        records: names of records and studies.
        reasons: path of a file of reasons why ratios differ; None for those of this program alone.

    Raises:
        UserError: a record or the file of reasons can't be read.
    """
    own = _reasons(reasons) if reasons else ()
    known = (
        *own,
        *decode_reasons(resources.files("swapstone.published").joinpath("reasons.toml").read_bytes(), "reasons.toml"),
    )
    compared = differences(analysed(records), known) if records else None
    found = coverage_of_pages()
    return PublishedOutput(
        document=published_coverage.document_of(found, compared),
        json=published_coverage.to_json(found, compared),
        missing=len(found.missing),
    )


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
    profiled, counted = explained_rows(record.view)
    manifest = record.view.manifest
    machine = dict(manifest.machine).get("architecture", "") if manifest else ""
    return Analysed(
        name=f"{name} (simulated)" if record.experiment.simulated else name,
        experiment=record.experiment,
        analysis=record.analysis(),
        profiled=profiled,
        counted=counted,
        architecture=record.experiment.architecture or machine,
    )


def _reasons(path: str) -> tuple[Reason, ...]:
    try:
        with Path(path).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        known = as_user_error(error, f"read {path}")
        raise known or UserError(f"{path} can't be read: {error.strerror}.", "Give the path of a TOML file.") from error
    return decode_reasons(content, path)


def claims_output(records: Sequence[str]) -> PublishedOutput:
    """Return the claims of the pages, with verdicts if there are records.

    Raises:
        UserError: a record can't be read.
    """
    known, left_out = like_the_pages(analysed(records))
    names = tuple(each.name for each in known)
    found = judge(page_claims(), known, catalog())
    return PublishedOutput(
        document=published_claims.document_of(found, names, left_out, damaged(known)),
        json=published_claims.to_json(found, names, left_out, damaged(known)),
        missing=0,
    )

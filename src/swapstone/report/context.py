"""What a report needs beside the analysis: who measured what, where, when, and how to do it again."""

from __future__ import annotations

from swapstone.model import Experiment, Noun


class ReportContext(Noun, frozen=True, kw_only=True):
    """Everything that a report prints and that no comparison holds.

    Attributes:
        experiment: as resolved.
        record_id: identity of the record.
        record_path: where it lies; printed as given.
        started_unix_ns, finished_unix_ns: first and last trial's time; 0 where unknown.
        facts: pairs (label, value) about machine, tools and programs, in the order in which they are printed.
        rerun: the command that repeats the experiment.
        published: name of the published study to print beside the results, or empty.
        notes: sentences for the reader, printed with the caveats.
        version: of swapstone.
    """

    experiment: Experiment
    record_id: str
    record_path: str
    started_unix_ns: int = 0
    finished_unix_ns: int = 0
    facts: tuple[tuple[str, str], ...] = ()
    rerun: str = ""
    published: str = ""
    notes: tuple[str, ...] = ()
    version: str = ""

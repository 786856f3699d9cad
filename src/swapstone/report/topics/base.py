"""What a topic of a report is."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from swapstone.model import Analysis
from swapstone.report.context import ReportContext
from swapstone.report.document import Section


class Topic(NamedTuple):
    """What a report says of one aspect of an experiment.

    Attributes:
        name: in letters, digits and hyphens.
        sections: returns the sections of an analysis; none where the topic has nothing to say of it.
        selective: whether its sections keep to the metrics of the context's selection. The sections of other topics are left out where
            a user selects metrics.
    """

    name: str
    sections: Callable[[ReportContext, Analysis], tuple[Section, ...]]
    selective: bool = False

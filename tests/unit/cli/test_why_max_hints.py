# SPDX-License-Identifier: MIT OR Apache-2.0
"""What `compare --why-max` prints names the command as the user has to type it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from swapstone.cli.command_name import NAME, set_command_name
from swapstone.cli.main import COMMANDS
from swapstone.cli.printing import print_document
from swapstone.core.model import UnavailableError
from swapstone.core.session.progress import NO_PROGRESS
from swapstone.core.session.record_handle import Record
from swapstone.parts.explain.session.why_max import worst_wakeup_documents
from tests.unit.session.test_why_max import FakeRecord


@pytest.fixture
def _started_in_a_checkout() -> Iterator[None]:
    set_command_name(COMMANDS, "./swapstone")
    yield
    set_command_name(COMMANDS, NAME)


@pytest.mark.usefixtures("_started_in_a_checkout")
@pytest.mark.parametrize(
    ("record", "hint"),
    [
        (FakeRecord(("memory", "io")), "./swapstone explain 'rec a' max --load LOAD"),
        (
            FakeRecord(("memory",), UnavailableError("No timer.", "Print it: swapstone explain last")),
            "unavailable: No timer. Print it: ./swapstone explain last",
        ),
    ],
)
def test_hints_have_the_name_of_the_command(record: FakeRecord, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    for document in worst_wakeup_documents([cast("Record", record)], NO_PROGRESS):
        print_document(document)
    printed = " ".join(capsys.readouterr().out.split())
    assert hint in printed and " swapstone explain" not in printed

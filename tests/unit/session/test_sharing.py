# SPDX-License-Identifier: MIT OR Apache-2.0
"""The share of runs that two workers make, as options give it."""

from __future__ import annotations

import pytest

from swapstone.core.model import UserError
from swapstone.core.session.options import settings_from
from swapstone.core.session.run_options import run_options_of


@pytest.mark.parametrize(
    ("text", "share"), [(None, 0.0), ("2%", 0.02), ("0.25", 0.25), ("100%", 1.0), (" 1 ", 1.0), ("1.000000000", 1.0)]
)
def test_a_share_is_read(text: str | None, share: float) -> None:
    assert run_options_of(settings_from({"recheck": text})).sharing.recheck == pytest.approx(share)


@pytest.mark.parametrize("text", ["", "101%", "-1%", "1.5", "nan", "many", "²"])
def test_a_share_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(UserError):
        run_options_of(settings_from({"recheck": text}))

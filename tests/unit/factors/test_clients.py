# SPDX-License-Identifier: MIT OR Apache-2.0
"""The factor clients: strict numbers, read from what the client had open."""

from __future__ import annotations

import pytest

from swapstone.core.factors import Evidence, find_factor, find_level, parse_choice
from swapstone.core.model import UserError
from swapstone.core.session.request import default_suites
from swapstone.parts.build.artifacts.workload_build import BASE_RECIPE
from swapstone.parts.net.factors.clients import CLIENTS, VARIABLE


def test_levels_are_numbers() -> None:
    assert parse_choice("clients=1,10,100,1000,37").levels == ("1", "10", "100", "1000", "37")
    for level in (*CLIENTS.levels, *CLIENTS.forms):
        assert find_level(find_factor("clients"), level.name) == level


@pytest.mark.parametrize("text", ["0", "1001", "01", "ten", "1e2", "-1", "9999999", "\u0661"])
def test_another_text_is_refused_with_the_next_step(text: str) -> None:
    with pytest.raises(UserError, match="The number of clients is 1 to 1000, and not") as caught:
        parse_choice(f"clients=1,{text}")
    assert caught.value.hint == "For example: swapstone compare clients=1,10,100"


def test_the_level_is_what_the_client_reports() -> None:
    def observed(*seen: tuple[str, str]) -> str | None:
        return CLIENTS.observe(Evidence(interp=None, objects=(), seen=seen))

    assert observed(("clients", "10")) == "10"
    assert observed(("stack", "lwip 2.2.1")) is None


def test_the_environment_is_equally_large_at_every_level() -> None:
    found = [dict(CLIENTS.apply(level, BASE_RECIPE).environment)[VARIABLE] for level in ("1", "10", "1000")]
    assert [text.strip() for text in found] == ["1", "10", "1000"]
    assert len({len(text) for text in found}) == 1


def test_the_suite_is_the_one_whose_workloads_have_clients() -> None:
    clients, netstack, link = map(parse_choice, ("clients=1,10", "netstack=kernel,lwip", "link=clean,loss:1%"))
    assert default_suites((clients,), ()) == ("netstack-clients",)
    assert default_suites((netstack, clients), ()) == ("netstack-clients",)
    assert default_suites((netstack, link, clients), ()) == ("netstack-clients",)

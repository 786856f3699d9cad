# SPDX-License-Identifier: MIT OR Apache-2.0
"""The options of a load generator on another machine: the target that they make, what reports state, and where instruments attach."""

from __future__ import annotations

import msgspec
import pytest

from swapstone.core.model import UnavailableError, UserError
from swapstone.core.session.options import settings_of
from swapstone.core.session.server_program import server_notes
from swapstone.core.session.trust import planned_commands
from swapstone.core.targets import driver_of, parse_target
from swapstone.parts.boards.options import Boards
from swapstone.parts.boards.session.board_options import complete_target
from swapstone.parts.explain.instruments.acquisition import require_host_record
from tests.unit.builders import experiment

APART = "host:driver=ssh:me@board:2222,address=10.0.0.2"


def test_the_options_make_a_target() -> None:
    assert (
        complete_target("", settings_of(Boards(driver_target="ssh:me@board:2222", server_address="10.0.0.2"))) == APART
    )
    assert complete_target("host", settings_of(Boards(driver_target="ssh:board"))) == "host:driver=ssh:board"
    assert complete_target("vm", settings_of(Boards())) == "vm"
    assert not complete_target("", settings_of(Boards()))
    parse_target(APART)
    assert driver_of(APART) == "me@board:2222"
    assert driver_of("host") == driver_of("vm:rt") == ""


@pytest.mark.parametrize(
    ("target", "driver", "address", "message"),
    [
        ("vm", "ssh:board", None, "for servers of this machine"),
        ("", None, "10.0.0.2", "--server-address is of servers"),
        ("", "board", None, "names no machine"),
        ("", "ssh:board", "::1", "no IPv4 address"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    target: str, driver: str | None, address: str | None, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        complete_target(target, settings_of(Boards(driver_target=driver, server_address=address)))


def test_a_report_states_where_the_load_generator_ran() -> None:
    made = experiment(workloads=(("server", "http(paced)"),), target=APART)
    assert any("another machine (me@board:2222)" in note for note in server_notes(made))
    for other in ("host", "host:driver=nonsense", "docker:x"):
        assert not any("another machine" in note for note in server_notes(msgspec.structs.replace(made, target=other)))


def test_an_untrusted_record_names_the_machine_that_it_would_connect_to() -> None:
    lines = planned_commands(experiment(target=APART))
    assert any("connect by ssh" in line and "ssh:me@board:2222" in line for line in lines)
    assert not any("ssh" in line for line in planned_commands(experiment(target="host")))


def test_instruments_are_unavailable_with_another_machine() -> None:
    with pytest.raises(UnavailableError, match="another machine"):
        require_host_record(experiment(target=APART), "idle")
    require_host_record(experiment(target="host"), "idle")


def test_instruments_are_unavailable_on_a_machine_without_an_operating_system() -> None:
    with pytest.raises(UnavailableError, match="without an operating system") as caught:
        require_host_record(experiment(target="bare-riscv64"), "idle")
    assert "docs netstack" in caught.value.hint

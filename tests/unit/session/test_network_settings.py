# SPDX-License-Identifier: MIT OR Apache-2.0
"""The network's settings of each level: different ones are all listed, and runs without figures have none."""

from __future__ import annotations

from typing import cast

import msgspec

from swapstone.core.model import FactorLevels, Status, Trial
from swapstone.core.record import RecordView
from swapstone.parts.net.session.network_settings import network_facts, network_notes, settings_of
from tests.unit.builders import experiment, run

SEEN = (
    ("tap", "tap0"),
    ("stack", "lwip 2.2.1"),
    ("server_control", "newreno"),
    ("client_control", "cubic"),
    ("bytes_per_frame", "in:10000 out:66"),
)


def _trial(work: str, variant: str = "netstack=lwip", block: int = 1) -> Trial:
    return Trial(suite="netstack", workload=work, load="none", variant=variant, block=block, position=0)


class _View(msgspec.Struct):
    experiment: object
    runs: object


def _view(*levels: str) -> RecordView:
    choice = FactorLevels(factor="netstack" if levels else "libc", levels=levels or ("glibc", "musl"))
    runs = (
        run(_trial("bulk-in"), seen=SEEN),
        run(_trial("ab", block=2), seen=(*SEEN[:3], ("client_control", "bbr"))),
        run(_trial("ab", "netstack=kernel"), seen=(("server_control", "cubic"), ("client_control", "cubic"))),
        run(_trial("ab", "netstack=smoltcp"), seen=SEEN, status=Status.FAILED),
    )
    return cast(RecordView, _View(experiment=msgspec.structs.replace(experiment(), factors=(choice,)), runs=runs))


def test_settings_are_listed_once_and_frames_for_each_workload() -> None:
    found = settings_of(_view("kernel", "lwip").runs)
    assert found == {
        "netstack=lwip": {
            "server_control": ["newreno"],
            "client_control": ["cubic", "bbr"],
            "bytes_per_frame of bulk-in": ["in:10000 out:66"],
        },
        "netstack=kernel": {"server_control": ["cubic"], "client_control": ["cubic"]},
    }


def test_the_report_names_the_congestion_control_of_both_sides() -> None:
    view = _view("kernel", "lwip")
    assert network_notes(view, bare=False) == (
        "Congestion control in force, as observed. netstack=lwip: server newreno, client cubic or bbr; "
        "netstack=kernel: server cubic, client cubic.",
    )
    assert [label for label, _ in network_facts(view)] == ["network of netstack=lwip", "network of netstack=kernel"]


def test_a_client_on_the_stack_has_settings_of_its_own() -> None:
    client = (("server_control", "cubic"), ("client_control", "newreno"), ("client_options", "pools=0"))
    whole = _view("lwip", "smoltcp")
    runs = (next(iter(whole.runs)), run(_trial("counts-client-plain", block=4), seen=client))
    view = cast(RecordView, _View(experiment=whole.experiment, runs=runs))
    assert settings_of(view.runs)["netstack=lwip"] == {
        "server_control": ["newreno"],
        "client_control": ["cubic"],
        "bytes_per_frame of bulk-in": ["in:10000 out:66"],
        "server_control (client on the stack)": ["cubic"],
        "client_control (client on the stack)": ["newreno"],
        "client_options (client on the stack)": ["pools=0"],
    }
    assert network_notes(view, bare=False) == (
        "Congestion control in force, as observed. netstack=lwip: server newreno, client cubic, "
        "server (client on the stack) cubic, client (client on the stack) newreno.",
    )


def test_the_report_states_that_the_server_was_emulated() -> None:
    view = _view("lwip", "smoltcp")
    bare = msgspec.structs.replace(view.experiment, target="bare-riscv64")
    emulated, control = network_notes(cast(RecordView, _View(experiment=bare, runs=view.runs)), bare=True)
    assert emulated.startswith("The server ran on an emulated machine without an operating system.")
    assert "rates and latencies are those of the emulator" in emulated
    assert (control,) == network_notes(view, bare=False)


def test_other_experiments_have_no_network() -> None:
    assert network_notes(_view(), bare=False) == ()
    assert network_facts(_view()) == ()


def test_the_counters_of_an_emulated_link_are_summed() -> None:
    seen = (
        ("server_control", "cubic"),
        ("link_setting", "loss:1%"),
        ("link_seed", "5"),
        ("link_in", "frames:100,lost:1,reordered:0,shortest_us:900,longest_us:2000,dropped:0"),
        ("link_out", "frames:1000,lost:12,reordered:3,shortest_us:1000,longest_us:3000,dropped:0"),
        ("link_device", "sent:100,received:988"),
    )
    variant = "link=loss:1%"
    choice = FactorLevels(factor="link", levels=("clean", "loss:1%"))
    runs = (
        run(_trial("link-out", variant), seen=seen),
        run(_trial("link-out", variant, block=2), seen=(*seen[:4], ("link_out", "frames:1000,lost:8,shortest_us:950"))),
        run(_trial("link-out", variant, block=3), seen=seen, status=Status.FAILED),
        run(_trial("link-out", variant, block=4), seen=(("link_out", "damaged"),)),
    )
    view = cast(RecordView, _View(experiment=msgspec.structs.replace(experiment(), factors=(choice,)), runs=runs))
    assert network_facts(view) == (
        ("network of link=loss:1%", "server_control cubic"),
        (
            "link of link=loss:1%",
            "to the server 200 frames, lost 2 (1 %), delay 0.90 to 2.00 ms; "
            "from it 2000 frames, lost 20 (1 %), reordered 3 (0.15 %), delay 0.95 to 3.00 ms",
        ),
    )

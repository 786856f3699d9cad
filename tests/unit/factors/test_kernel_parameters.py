# SPDX-License-Identifier: MIT OR Apache-2.0
"""Boot parameters as levels of the factor kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from swapstone.core.factors import Evidence, find_factor, find_level, parse_choice
from swapstone.core.model import UserError
from swapstone.parts.vm.factors.kernel import (
    ARGUMENTS,
    DROPPED_OPTIONS,
    ENVIRONMENT,
    KEPT_OPTIONS,
    PARAMETERS,
    files_that_show,
    kept_options,
    parse_kernel_level,
    why_ignored,
)

KERNEL = find_factor("kernel")
BASE = ("quiet", "nokaslr", "mitigations=off", "rcupdate.rcu_expedited=1")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("generic+threadirqs+mitigations=off", "generic+threadirqs+mitigations=off"),
        ("rt+nohz_full=1", "rt+nohz_full=1"),
        # What is left out comes first, sorted, and with underscores: two texts of one level have one name.
        (
            "generic+quiet_x+drop:rcupdate.rcu-expedited+drop:nokaslr",
            "generic+drop:nokaslr+drop:rcupdate.rcu_expedited+quiet_x",
        ),
    ],
)
def test_a_packaged_kernel_takes_parameters(text: str, name: str) -> None:
    assert find_level(KERNEL, text).name == name


def test_the_kernel_s_file_may_have_a_plus_in_its_name(tmp_path: Path) -> None:
    for name in ("vmlinuz-6.1+", "bzImage"):
        (tmp_path / name).write_bytes(b"")
    assert find_level(KERNEL, f"{tmp_path}/vmlinuz-6.1+").name == f"{tmp_path}/vmlinuz-6.1+"
    assert parse_kernel_level(f"{tmp_path}/vmlinuz-6.1++threadirqs").added == ("threadirqs",)
    found = parse_choice(f"kernel={tmp_path}/bzImage,{tmp_path}/bzImage+threadirqs").levels
    assert found == (f"{tmp_path}/bzImage", f"{tmp_path}/bzImage+threadirqs")
    for text in ("./none+threadirqs", "./none", f"./{'n' * 9000}"):
        with pytest.raises(UserError, match=r"There is no kernel \./nn?o?n?"):
            find_level(KERNEL, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("generic+console=ttyS1", "boot parameter console can't be a level: the console is where"),
        ("generic+drop:panic", "boot parameter panic can't be a level"),
        ("generic+preempt=none", "the levels none, voluntary and full set it"),
        ("generic+rdinit=x", "boots from an initrd"),
        ("generic+root=/dev/sda", r"'root=/dev/sda' is no boot parameter"),
        ("generic+a b", "'a b' is no boot parameter"),
        ("generic+a\x1b[2J", r"'a\\x1b\[2J' is no boot parameter"),
        ('generic+a="b"', "is no boot parameter"),
        ("generic+a=\u00e9", r"'a=\\xe9' is no boot parameter"),
        ("generic+--", "is no boot parameter"),
        ("generic+", "'' is no boot parameter"),
        ("generic+drop:", "is no boot parameter"),
        ("generic+quiet-x=1+quiet_x=2", "has the boot parameter quiet_x twice"),
        ("generic+drop:nokaslr+nokaslr", "has the boot parameter nokaslr twice"),
        ("generic+a=" + "1" * 600, "more than 512 characters"),
        ("geneirc+threadirqs", "no kernel named 'geneirc'"),
    ],
)
def test_what_is_no_parameter_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        find_level(KERNEL, text)


def test_a_parameter_replaces_the_base_option_of_its_key() -> None:
    assert kept_options(BASE, ("mitigations=auto", "threadirqs"), ("nokaslr",)) == ("quiet", "rcupdate.rcu_expedited=1")
    assert kept_options(BASE, ("rcupdate.rcu-expedited=0",), ()) == BASE[:3]


def _seen(cmdline: str, *, kept: str = "quiet nokaslr", dropped: str = "", **machine: str) -> str | None:
    pairs = {
        "version": "#1 SMP PREEMPT_DYNAMIC Debian",
        "/proc/cmdline": cmdline,
        KEPT_OPTIONS: kept,
        DROPPED_OPTIONS: dropped,
        **machine,
    }
    return KERNEL.observe(Evidence(interp=None, objects=(), machine=tuple(pairs.items())))


@pytest.mark.parametrize(
    ("cmdline", "machine", "level"),
    [
        ("quiet nokaslr\n", {}, "generic"),
        ("quiet nokaslr threadirqs mitigations=off\n", {}, "generic+threadirqs+mitigations=off"),
        ("quiet nokaslr threadirqs", {"version": "#1 SMP PREEMPT_RT"}, "rt+threadirqs"),
        ("quiet", {"kept": "quiet", "dropped": "nokaslr"}, "generic+drop:nokaslr"),
        # The guest still has the option that was to be left out.
        ("quiet nokaslr", {"kept": "quiet", "dropped": "nokaslr"}, "generic+nokaslr"),
        # An option of the machine is missing in the guest.
        ("quiet threadirqs", {}, "generic+threadirqs without nokaslr"),
        (
            "quiet nokaslr threadirqs built-in",
            {"booted": "/k/bzImage", PARAMETERS: "threadirqs"},
            "/k/bzImage+threadirqs",
        ),
        ("quiet nokaslr built-in", {"booted": "/k/bzImage", PARAMETERS: "threadirqs"}, "/k/bzImage"),
        ("quiet nokaslr", {"booted": "/k/bzImage+console=x\0" + "y" * 9000}, "/k/bzImage+console=x\0" + "y" * 9000),
    ],
)
def test_the_level_is_read_back_from_the_guest(cmdline: str, machine: dict[str, str], level: str) -> None:
    assert _seen(cmdline, **machine) == level


@pytest.mark.parametrize(
    ("word", "files", "reason"),
    [
        ("threadirqs", {ARGUMENTS: "/init\0"}, ""),
        ("nonsense", {ARGUMENTS: "/init\0nonsense\0"}, "ignored the boot parameter nonsense"),
        (
            "nohz_full=1",
            {ENVIRONMENT: "HOME=/\0nohz_full=1\0"},
            "or not this value; one processor must remain for the kernel's own work",
        ),
        ("nohz_full=0", {"/sys/devices/system/cpu/nohz_full": "(null)\n"}, "nohz_full lists no processor"),
        ("nohz_full=1", {"/sys/devices/system/cpu/nohz_full": "1\n"}, ""),
        ("irqaffinity=0", {"/proc/irq/default_smp_affinity": "1\n"}, ""),
        ("irqaffinity=1-2", {"/proc/irq/default_smp_affinity": "6\n"}, ""),
        ("irqaffinity=0", {"/proc/irq/default_smp_affinity": "3\n"}, "default_smp_affinity has 3"),
        ("irqaffinity=0", {}, "default_smp_affinity has no mask"),
        ("zram.num-devices=2", {}, "no file /sys/module/zram/parameters/num_devices"),
        ("zram.num_devices=2", {"/sys/module/zram/parameters/num_devices": "1\n"}, "the value in force is 1"),
        ("rcupdate.rcu_expedited=0x1", {"/sys/module/rcupdate/parameters/rcu_expedited": "1\n"}, ""),
        ("printk.time=n", {"/sys/module/printk/parameters/time": "N\n"}, ""),
        ("printk.time", {"/sys/module/printk/parameters/time": "Y\n"}, ""),
        ("printk.time=0", {"/sys/module/printk/parameters/time": "Y\n"}, "the value in force is Y"),
    ],
)
def test_a_parameter_that_the_kernel_ignored_is_named(word: str, files: dict[str, str], reason: str) -> None:
    found = why_ignored((word,), files)
    assert (reason in found) if reason else not found
    assert {path for path in files if path.startswith("/sys/")} <= set(files_that_show((word,)))


def test_a_level_without_parameters_reads_no_more_files() -> None:
    assert files_that_show(()) == () and why_ignored((), {ARGUMENTS: "/init\0x\0"}) == ""

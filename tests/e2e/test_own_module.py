# SPDX-License-Identifier: MIT OR Apache-2.0
"""A kernel module of the user in a virtual machine: built from its C file, loaded, or refused with the kernel's messages.

Its faults fail the trials that cause them.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from swapstone.core.targets import TargetError
from swapstone.core.wire import ProcessOutcome, TrialRequest
from swapstone.parts.vm.artifacts.images import ImageRequest, build_image
from swapstone.parts.vm.machine.emulator import EmulatedMachine
from swapstone.parts.vm.machine.qemu import VmImage
from swapstone.parts.vm.machine.vm_target import VmTarget
from tests.uncompared_snapshots import leave_out_cold_starts

SOURCE = """
#include <linux/module.h>
static int __init mine_init(void) { pr_info("mine: level 13 is REMARK\\n"); return RESULT; }
static void __exit mine_exit(void) {}
static int fail(const char *how, const struct kernel_param *unused) {
    WARN_ON(how[0] == 'w');
    if (how[0] == 'o')
        *(volatile int *)NULL = 1;
    return 0;
}
module_param_call(fails, fail, NULL, NULL, 0200);
module_init(mine_init);
module_exit(mine_exit);
MODULE_LICENSE("GPL");
"""
FAULT = "echo %s >/sys/module/mine/parameters/fails"
LIST = TrialRequest(
    id="1-0",
    arguments=("/bin/busybox", "cat", "/proc/modules"),
    environment=(("PATH", "/bin"),),
    cwd="/scratch",
    timeout_ms=60_000,
)


def _target(kernel: str, source: Path) -> VmTarget:
    built = build_image(
        ImageRequest(
            architecture="x86_64", kernel=kernel, modules=(), module_files=(str(source),), parts=("busybox", "glibc")
        )
    )
    machine = EmulatedMachine(architecture="x86_64")
    return VmTarget({kernel: VmImage(built.kernel, built.initrd, machine, banner=built.image.banner)})


@pytest.mark.slow
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the headers' programs are for x86_64")
def test_a_module_of_a_c_file_is_loaded_and_the_kernel_s_messages_on_it_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_out_cold_starts(monkeypatch.setattr)
    accepted, refused = tmp_path / "mine.c", tmp_path / "refused.c"
    accepted.write_text(SOURCE.replace("REMARK", "fine").replace("RESULT", "0"))
    refused.write_text(SOURCE.replace("REMARK", "not supported").replace("RESULT", "-22"))
    with _target("rt", accepted) as target:
        assert "mine " in target.run(LIST).stdout.decode()
        for how, message in (("warn", "WARNING: CPU: 0 "), ("oops", "BUG: kernel NULL pointer dereference")):
            request = msgspec.structs.replace(LIST, arguments=("/bin/busybox", "sh", "-c", FAULT % how))
            with pytest.raises(TargetError, match=f"its kernel reports: {message}.*; the trial tainted it ") as caught:
                target.run(request)
            assert "mine" in caught.value.console
        quiet = msgspec.structs.replace(LIST, arguments=("/bin/busybox", "sh", "-c", FAULT % "nothing"))
        assert target.run(quiet).outcome is ProcessOutcome.EXITED
    with (
        _target("generic", refused) as target,
        pytest.raises(
            TargetError, match=r"can't load the module /lib/modules/refused\.ko: error 22 .Invalid arg"
        ) as got,
    ):
        target.run(LIST)
    assert "mine: level 13 is not supported" in f"{got.value.message} {got.value.hint}"

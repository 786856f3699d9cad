# SPDX-License-Identifier: MIT OR Apache-2.0
"""Virtual machines as a target, with a script in place of QEMU."""

from __future__ import annotations

import dataclasses
import errno
import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import msgspec
import pytest

from swapstone.core.factors import read_facts
from swapstone.core.model import Trial, UserError, WireError
from swapstone.core.model.cpio import archive, folder
from swapstone.core.run.trials_ahead import TrialsAhead
from swapstone.core.targets import MachineConfig, MachineConfigError, TargetError
from swapstone.core.wire import AgentAnswer, ProcessOutcome, TrialRequest, encode_text
from swapstone.parts.vm.machine import snapshot
from swapstone.parts.vm.machine.emulator import EmulatedMachine
from swapstone.parts.vm.machine.qemu import GuestEnd, GuestRun, Limits, Setup, VmImage
from swapstone.parts.vm.machine.vm_target import VmOptions, VmTarget
from tests.processes import is_running
from tests.unit.targets.fake_emulator import AFTER, END, GREETING, UNPREPARED, WHOLE, emulator, runs

pytestmark = pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="the first process is built by this machine's compiler"
)


class Bench:
    """The inputs of a target, each of which a test can change."""

    def __init__(self, room: Path) -> None:
        self.room = room
        self.parts = VmImage(room / "kernel", room / "initrd", agent=room / "agent", init=room / "init")
        for name in ("kernel", "agent", "init"):
            (room / name).write_bytes(name.encode() * 10)
        (room / "initrd").write_bytes(archive({"etc": folder()}))
        program = room / "programs" / "p"
        program.parent.mkdir()
        program.write_bytes(b"#!/bin/sh\n")
        program.chmod(0o755)
        self.program = program
        self.acts = ""

    def target(self, **options: object) -> VmTarget:
        name = emulator(self.room / "q", self.acts)
        made = VmOptions(cache=self.room / "cache", emulator=name, snapshots=False)
        return VmTarget(self.parts, dataclasses.replace(made, **options))  # type: ignore[arg-type] # one of its fields

    def ask(self, target: VmTarget, trial: str = "3-1", timeout_ms: int = 1000) -> TrialRequest:
        return TrialRequest(
            id=trial, arguments=(target.put(self.program),), cwd=target.scratch(), timeout_ms=timeout_ms
        )

    def run(self, trial: str = "3-1", **options: object) -> AgentAnswer:
        with self.target(**options) as target:
            return target.run(self.ask(target, trial))

    def name(self, trial: str = "3-1", **options: object) -> str:
        with self.target(**options) as target:
            return target.named_run(self.ask(target, trial)).name

    @property
    def runs(self) -> int:
        return runs(self.room / "q")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_the_answer_has_the_identifier_of_its_trial(bench: Bench) -> None:
    answer = bench.run("3-1")
    assert (answer.id, answer.outcome, dict(answer.facts)) == ("3-1", ProcessOutcome.EXITED, {"wall_ns": 12345})


def test_an_equal_run_is_emulated_once(bench: Bench) -> None:
    bench.run("3-1")
    bench.run("3-0")  # the same block: the same replicate
    assert bench.runs == 1
    bench.run("4-0")
    assert bench.runs == 2
    bench.run("4-0", replicate=3)
    assert bench.runs == 2
    bench.run("3-1", no_cache=True)
    assert bench.runs == 3


def test_a_damaged_cached_run_is_repeated(bench: Bench) -> None:
    bench.run()
    (kept,) = (bench.room / "cache" / "runs").iterdir()
    data = kept.read_bytes()
    kept.write_bytes(data[:-5] + b"?" + data[-4:])
    bench.run()
    assert bench.runs == 2
    assert kept.read_bytes() == data


def test_every_input_changes_the_run_name(bench: Bench) -> None:
    names = [bench.name()]
    assert bench.name("3-0") == names[0]
    for part in ("kernel", "agent", "init"):
        path = bench.room / part
        path.write_bytes(path.read_bytes()[:-1] + b"?")
        names.append(bench.name())
    bench.program.write_bytes(b"#!/bin/sh\n\n")
    names.append(bench.name())
    bench.parts.initrd.write_bytes(archive({"other": folder()}))
    names.append(bench.name())
    for machine in (
        EmulatedMachine(options=("x",)),
        EmulatedMachine(options=("y",)),
        EmulatedMachine(memory_bytes=512 << 20),
    ):
        bench.parts = dataclasses.replace(bench.parts, machine=machine)
        names.append(bench.name())
    bench.acts = 'echo another build; cat /dev/null >"$channel"; exit 65'
    names.append(bench.name())
    names += [bench.name("4-1"), bench.name(replicate=9)]
    assert len(set(names)) == len(names)
    assert bench.name(limits=Limits(host_s=1), no_cache=True) == bench.name()
    assert bench.runs == 0


def test_the_host_path_of_a_program_does_not_change_the_run_name(bench: Bench, tmp_path: Path) -> None:
    first = bench.name()
    moved = tmp_path / "elsewhere" / "further"
    moved.parent.mkdir()
    bench.program.parent.rename(moved)
    bench.program = moved / "p"
    assert bench.name() == first


def test_the_description_comes_from_the_guest(bench: Bench) -> None:
    with bench.target() as target:
        description = target.describe()
        assert description.kernel == "Linux 6.1.0 #1 SMP"
        assert (description.architecture, description.cpu) == ("x86_64", "QEMU Virtual CPU")
        assert (description.cpus, description.memory_bytes) == ((0,), 1024 * 1024)
        assert "one instruction a nanosecond" in description.virtualization
        tools = dict(target.tools())
    assert "7.2.22 (simulated), SHA-256 " in tools["qemu"]
    assert tools.keys() == {
        "qemu",
        "agent",
        "guest init",
        "kernel",
        "initrd",
        "emulated processor",
        "base boot options",
        "counts",
    }
    assert tools["counts"] == "unavailable: this QEMU loads no plugins"


@pytest.mark.parametrize(
    ("acts", "text", "console"),
    [
        ('echo "Kernel panic - not syncing: oops" >"$console"', "its kernel panicked: oops", "not syncing: oops"),
        ('echo "swapstone-init: no" >"$console"; exit 67', "its first process reports: no", "swapstone-init: no"),
        ("echo bad kernel >&2; exit 1", "QEMU could not run it: bad kernel", "bad kernel"),
        ("exit 0", "it ended without a reason", "Its console is empty."),
        ('echo nonsense >"$channel"; exit 65', "invalid: The guest did not describe itself", ""),
        (": >$channel; exit 65", "did not describe itself", ""),
    ],
)
def test_a_machine_that_fails_is_an_error_of_its_trial(bench: Bench, acts: str, text: str, console: str) -> None:
    bench.acts = acts
    for _ in range(2):  # a failed run is not cached
        with pytest.raises(TargetError, match=text) as caught:
            bench.run()
        assert console in caught.value.hint
        lines = "(empty)" if console == "Its console is empty." else console
        assert lines in caught.value.console
    bench.acts = ""
    assert bench.run().outcome is ProcessOutcome.EXITED


def test_a_missing_answer_is_an_error(bench: Bench) -> None:
    bench.acts = f'cat {bench.room}/few >"$channel"; exit 65'
    (bench.room / "few").write_bytes(GREETING + AFTER + END)
    with pytest.raises(TargetError, match="wrote 0 answers"):
        bench.run()


LOGGED = (
    ("4,512,9000000,-;WARNING: CPU: 0 PID: 81 at kernel/x.c:7 odd+0x1/0x2", True),
    ("1,512,9,-;BUG: kernel NULL pointer dereference, address: 0000000000000000\n SUBSYSTEM=x", True),
    ("0,512,9,-;watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [p:81]", True),
    ("3,512,9,-;rcu: INFO: rcu_sched self-detected stall on CPU", True),
    ("2,512,9,-;kernel BUG at lib/list_debug.c:26!", True),
    ("0,512,9,-;Internal error: Oops: 96000004 [#1] SMP", True),
    ("1,512,9,-;Unable to handle kernel paging request at virtual address 1", True),
    ("3,512,9,-;INFO: task p:81 blocked for more than 120 seconds.", True),
    ("4,512,9,-;planted: loading out-of-tree module taints kernel.", False),
    ("4,512,9,-;p invoked oom-killer: gfp_mask=0x0\n NOTE=WARNING: of a property", False),
    ("4,512,9,-;random: WARNING: of no fault", False),
    ("4,512,9,-;BUGS are looked for", False),
)


@pytest.mark.parametrize(("log", "is_fault"), LOGGED)
def test_a_kernel_that_failed_in_the_trial_fails_the_run(bench: Bench, log: str, is_fault: bool) -> None:
    message = log.partition(";")[2].partition("\n")[0]
    output = bench.room / "logged"
    output.write_bytes(
        WHOLE.replace(
            END, b"after /dev/kmsg " + encode_text(f"4,511,8,-;before\n{log}\n4,513,9,-;then\n") + b"\n" + END
        )
    )
    bench.acts = f'cat {output} >"$channel"; exit 65'
    if not is_fault:
        assert bench.run().outcome is ProcessOutcome.EXITED
        return
    with pytest.raises(TargetError) as caught:
        bench.run()
    assert caught.value.message == f"The virtual machine failed: its kernel reports: {message}."
    assert caught.value.console.splitlines() == [message, "then"]


@pytest.mark.parametrize(
    ("before", "after", "flags"),
    [("0", "0", ""), ("4096", "4096", ""), ("512", "0", ""), ("4096", "4736", "DW"), ("0", "1", "P"), ("x", "1", "")],
)
def test_a_trial_that_taints_the_kernel_fails(bench: Bench, before: str, after: str, flags: str) -> None:
    name = b"/proc/sys/kernel/tainted "
    lines = b"before " + name + before.encode() + b"%0A\n", b"after " + name + after.encode() + b"%0A\n"
    output = bench.room / "tainted"
    whole = WHOLE.replace(b"before /proc/uptime", lines[0] + b"before /proc/uptime").replace(END, lines[1] + END)
    output.write_bytes(whole)
    bench.acts = f'cat {output} >"$channel"; exit 65'
    if flags:
        with pytest.raises(
            TargetError, match=rf"its kernel reports: the trial tainted it \({flags}, tainted-kernels.rst\)\.$"
        ):
            bench.run()
    else:
        assert bench.run().outcome is ProcessOutcome.EXITED


def test_a_failed_preparation_is_not_an_error_of_the_target(bench: Bench) -> None:
    output = bench.room / "unprepared"
    output.write_bytes(UNPREPARED)
    bench.acts = f'cat {output} >"$channel"; exit 65'
    setting = MachineConfig(prepare=("true", "mkswap /dev/zram0"))
    with bench.target() as target, pytest.raises(MachineConfigError) as caught:
        target.run(bench.ask(target), setting)
    assert caught.value.message == (
        "The machine can't be prepared: 'mkswap /dev/zram0' was killed by signal 0; its last output: 'two'."
    )
    assert not isinstance(caught.value, TargetError)


def test_a_boot_parameter_that_the_guest_s_kernel_ignored_fails_the_run(bench: Bench) -> None:
    machine = EmulatedMachine(parameters=("threadirqs", "nohz_full=1"), dropped=("nokaslr",))
    bench.parts = dataclasses.replace(bench.parts, machine=machine)
    output = bench.room / "ignoring"
    for passed_on, message in (
        (b"HOME=/%00", ""),
        (b"HOME=/%00nohz_full=1%00", "ignored the boot parameter nohz_full=1"),
    ):
        output.write_bytes(WHOLE.replace(b"file /sys", b"file /proc/self/environ " + passed_on + b"\nfile /sys"))
        bench.acts = f'cat {output} >"$channel"; exit 65'
        if message:
            with pytest.raises(MachineConfigError, match=message):
                bench.run(no_cache=True)
        else:
            answer = bench.run(no_cache=True)
            assert dict(answer.machine)["dropped options"] == "nokaslr"
            assert "nokaslr" not in dict(answer.machine)["kept options"].split()


def test_a_load_that_ends_early_fails_the_run(bench: Bench) -> None:
    output = bench.room / "early"
    output.write_bytes(WHOLE.replace(AFTER, AFTER + b"beside 1 127\nwords /tmp/x not%20found\n"))
    bench.acts = f'cat {output} >"$channel"; exit 65'
    with (
        bench.target() as target,
        pytest.raises(MachineConfigError, match=r"The load ended too early: 'b' ended with 127; .*not found"),
    ):
        target.run(bench.ask(target), MachineConfig(beside=("a", "b")))


def test_a_machine_boots_the_kernel_of_its_configuration(bench: Bench) -> None:
    other = bench.room / "other"
    other.write_bytes(b"another kernel")
    first = dataclasses.replace(bench.parts, banner="Linux version 6.1.0 (built by us) #1 SMP")
    kinds = {
        "generic": first,
        "rt": dataclasses.replace(first, kernel=other, banner="Linux version 6.1.0-rt (us) #1 SMP"),
    }
    made = VmOptions(cache=bench.room / "cache", emulator=emulator(bench.room / "q"), snapshots=False)
    with VmTarget(kinds, made) as target:
        asked = bench.ask(target)
        names = [target.named_run(asked, MachineConfig(kernel=kernel)).name for kernel in ("", "generic", "rt")]
        assert names[0] == names[1] != names[2]
        assert dict(target.run(asked, MachineConfig(kernel="generic")).machine)["booted"] == "generic"
        assert "booted" not in dict(
            target.run(asked, MachineConfig(kernel="rt")).machine
        )  # it outputs that it is another
        assert dict(target.run(asked).machine)["after /proc/uptime"] == "2.75"
        with pytest.raises(UserError, match="no kernel none"):
            target.run(asked, MachineConfig(kernel="none"))
        assert {"kernel of generic", "initrd of rt"} < dict(target.tools()).keys()


def test_a_machine_configuration_changes_the_run_name(bench: Bench) -> None:
    with bench.target() as target:
        asked = bench.ask(target)
        settings = [
            MachineConfig(),
            MachineConfig(memory_bytes=512 << 20),
            MachineConfig(prepare=("a",)),
            MachineConfig(beside=("a",)),
            MachineConfig(settle_ms=1),
        ]
        assert len({target.named_run(asked, setting).name for setting in settings}) == len(settings)


class Saving:
    """Replaces saving and restoring: the outputs of the restored machines in turn; the last one is repeated."""

    def __init__(self, *outputs: bytes) -> None:
        self.outputs = list(outputs)
        self.saved = 0

    def save(self, _setup: Setup, _limits: Limits, state: Path) -> None:
        self.saved += 1
        state.write_bytes(self.outputs.pop(0) if len(self.outputs) > 1 else self.outputs[0])

    def restore(self, _setup: Setup, _limits: Limits, state: Path) -> GuestRun:
        return GuestRun(end=GuestEnd.FINISHED, output=state.read_bytes())


LATE = WHOLE.replace(b"clock 698765432", b"clock 698765433")


@pytest.mark.parametrize(
    ("outputs", "saves", "emulated"),
    [
        ((WHOLE,), 1, 1),
        ((LATE, WHOLE), 2, 2),
        ((LATE, LATE, WHOLE), 3, 3),
        ((LATE,), 3, 5),  # both trials boot
    ],
)
def test_a_snapshot_is_used_only_if_it_reproduces_a_run_from_boot(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, outputs: tuple[bytes, ...], saves: int, emulated: int
) -> None:
    """A difference of one nanosecond rejects the snapshot."""
    saving = Saving(*outputs)
    monkeypatch.setattr(snapshot, "save", saving.save)
    monkeypatch.setattr(snapshot, "restore", saving.restore)
    with bench.target(snapshots=True) as target:
        answers = [target.run(bench.ask(target, trial)) for trial in ("1-0", "2-0")]
    assert (saving.saved, bench.runs) == (saves, emulated)
    assert {dict(answer.machine)["clock"] for answer in answers} == {"698765432"}
    kept = [path for path in (bench.room / "cache" / "snapshots").iterdir() if not path.suffix]
    assert [path.read_bytes() for path in kept] == ([] if saves == emulated - 2 else [WHOLE])


def test_a_snapshot_that_cannot_be_compared_fails_the_run_and_is_removed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    saving = Saving(WHOLE)
    monkeypatch.setattr(snapshot, "save", saving.save)
    monkeypatch.setattr(snapshot, "restore", saving.restore)
    bench.acts = 'echo "Kernel panic - not syncing: oops" >"$console"'
    with bench.target(snapshots=True) as target, pytest.raises(TargetError, match="its kernel panicked: oops"):
        target.run(bench.ask(target))
    assert not list((bench.room / "cache" / "snapshots").iterdir())


def test_a_stopped_target_ends_its_machines(bench: Bench) -> None:
    bench.acts = "exec sleep 60"
    with bench.target() as target:
        timer = threading.Timer(0.2, target.stop)
        timer.start()
        with pytest.raises(TargetError, match="it was stopped"):
            target.run(bench.ask(target))
        timer.join()


def test_a_dynamic_program_needs_its_loader_in_the_image_or_on_this_machine(bench: Bench) -> None:
    with (
        bench.target() as target,
        pytest.raises(UserError, match=r"needs /lib.*, libc.* and the machine's image does not contain it") as caught,
    ):
        shell = bench.room / "shell" / "sh"
        shell.parent.mkdir()
        loader = read_facts(Path("/bin/sh")).interp.encode()  # type: ignore[union-attr] # it is dynamic
        shell.write_bytes(Path("/bin/sh").read_bytes().replace(loader, loader[:-1] + b"~"))
        shell.chmod(0o755)
        target.put(shell)
    assert "statically" in caught.value.hint


def library(folder: Path, *needed: str) -> Path:
    """Compile a shared object that needs objects of these names."""
    folder.mkdir()
    others: list[Path] = []
    for name in needed:
        subprocess.run(
            ["cc", "-shared", "-nostdlib", f"-Wl,-soname,{name}", "-o", folder / name, "-xc", "/dev/null"], check=True
        )
        others.append(folder / name)
    made = folder / "mine.so"
    link = ["-Wl,--no-as-needed", *map(str, others)]
    subprocess.run(["cc", "-shared", "-nostdlib", "-o", made, "-xc", "/dev/null", "-xnone", *link], check=True)
    return made


def test_a_preloaded_object_has_a_place_that_does_not_depend_on_the_host(bench: Bench, tmp_path: Path) -> None:
    first, second = library(tmp_path / "first"), library(tmp_path / "second folder")
    assert first.read_bytes() == second.read_bytes()
    names, places = [], []
    for path in (first, second):
        with bench.target() as target:
            before = target.named_run(bench.ask(target)).name
            places.append(target.put_library(path, keep_path=False))
            preloaded = msgspec.structs.replace(bench.ask(target), environment=(("LD_PRELOAD", places[-1]),))
            names.append(target.named_run(preloaded).name)
            facts = target.inspect(places[-1])
            assert facts is not None and facts.path == places[-1]
            assert target.named_run(bench.ask(target)).name == before != names[-1]
    assert len(set(places)) == len(set(names)) == 1


def test_an_object_that_is_a_level_keeps_its_path(bench: Bench, tmp_path: Path) -> None:
    made = library(Path(tempfile.mkdtemp(dir=tmp_path)) / "level")
    with bench.target() as target:
        assert target.put_library(made, keep_path=True) == str(made)
        facts = target.inspect(str(made))
        assert facts is not None and facts.path == str(made)


@pytest.mark.parametrize("keep_path", [False, True])
def test_a_preloaded_object_needs_its_libraries_in_the_image(bench: Bench, tmp_path: Path, keep_path: bool) -> None:
    made = library(tmp_path / "l", "libother.so.3")
    with (
        bench.target() as target,
        pytest.raises(UserError, match=r"mine\.so needs libother\.so\.3, and the machine's image"),
    ):
        target.put_library(made, keep_path=keep_path)


def test_a_file_that_is_not_a_program_is_refused(bench: Bench) -> None:
    (bench.room / "text").write_text("")
    with bench.target() as target:
        for name in ("text", "none"):
            with pytest.raises(UserError, match="not an executable file"):
                target.put(bench.room / name)


def test_programs_are_inspected_on_the_host(bench: Bench) -> None:
    shell = bench.room / "shell"
    shell.mkdir()
    (shell / "sh").write_bytes(Path("/bin/sh").read_bytes())
    (shell / "sh").chmod(0o755)
    bench.parts.initrd.write_bytes(b"\x28\xb5\x2f\xfd" + b"zstd: compressed, can't be read")
    with bench.target() as target:
        path = target.put(shell / "sh")
        facts = target.inspect(path)
        assert facts is not None
        assert facts.path == path
        assert facts.interp
        assert target.inspect("/lib/none") is None


def test_an_unreadable_initrd_or_kernel_is_an_error(bench: Bench) -> None:
    for part, content, text in (
        ("initrd", b"garbage", "The initrd can't be read: it has data that is neither"),
        ("initrd", archive({"f": folder()})[:60], "truncated"),
        ("initrd", None, "initrd can't be read"),
        ("kernel", None, "kernel can't be read"),
    ):
        path = bench.room / part
        kept = path.read_bytes()
        path.unlink() if content is None else path.write_bytes(content)
        with pytest.raises(UserError, match=text):
            bench.target()
        path.write_bytes(kept)


def test_a_closed_target_leaves_no_temporary_files(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = bench.room / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    target = bench.target()
    target.run(bench.ask(target))
    target.close()
    target.close()
    assert not list(temporary.iterdir())


def test_the_running_kernel_is_identified_by_the_banner_of_its_file(bench: Bench) -> None:
    booted = {}
    for banner in ("Linux version 6.1.0 (builder) #1 SMP", "6.1.0 (builder) #1 SMP", "6.1.0-rc1 (builder) #1 SMP", ""):
        bench.parts = dataclasses.replace(bench.parts, banner=banner)
        with bench.target() as target:
            booted[banner] = dict(target.run(bench.ask(target)).machine).get("booted")
    assert [value is not None for value in booted.values()] == [True, True, False, False]


@pytest.mark.parametrize("snapshots", [False, True])
def test_stopping_ends_all_concurrent_machines(bench: Bench, snapshots: bool) -> None:
    """As with Ctrl-C: the caller stops waiting, and no process is left."""
    bench.acts = f"echo $$ >>{bench.room}/pids; exec sleep 3600"
    failures: list[str] = []

    def make(trial: Trial) -> None:
        with pytest.raises(TargetError) as caught:
            target.run(bench.ask(target, f"{trial.block}-0"))
        failures.append(caught.value.message)

    trials = [Trial(suite="s", workload="w", load="idle", variant="v", block=block, position=0) for block in range(4)]
    with bench.target(at_once=2, snapshots=snapshots) as target:
        until = time.monotonic() + 300
        with pytest.raises(KeyboardInterrupt), TrialsAhead(make, target) as ahead:
            ahead.results(trials)
            while len(pids(bench)) < (1 if snapshots else 2):
                assert time.monotonic() < until
                time.sleep(0.01)
            raise KeyboardInterrupt
    assert set(failures) == {"The virtual machine failed: it was stopped."}
    assert not [pid for pid in pids(bench) if is_running(pid)]


def pids(bench: Bench) -> list[int]:
    path = bench.room / "pids"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def test_new_and_cached_answers_have_the_run_name(bench: Bench) -> None:
    made, known = bench.run(), bench.run()
    assert bench.runs == 1
    assert made.name == known.name == bench.name() and len(made.name) == 64
    options = bench.parts.machine.options
    bench.parts = dataclasses.replace(bench.parts, machine=EmulatedMachine(options=(*options, "a")))
    first = bench.run().name
    bench.parts = dataclasses.replace(bench.parts, machine=EmulatedMachine(options=(*options, "b")))
    assert len({made.name, first, bench.run().name}) == 3, "one byte of the kernel's command line is another run"


def test_a_plan_that_is_too_large_starts_no_machine(bench: Bench) -> None:
    with bench.target() as target:
        asked = bench.ask(target)
        large = TrialRequest(
            id="1-1",
            arguments=(*asked.arguments, *("x" * 60_000 for _ in range(40))),
            cwd=asked.cwd,
            timeout_ms=1000,
        )
        with pytest.raises(WireError, match="longer than 1 MiB together"):
            target.run(large)
        with pytest.raises(WireError, match="more than a virtual machine accepts"):
            target.run(asked, MachineConfig(prepare=("x" * (2 << 20),)))
        assert bench.runs == 0
        assert target.run(asked).outcome is ProcessOutcome.EXITED, "the target is usable afterwards"


def test_a_full_disk_is_an_error_and_leaves_no_file(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched, bench.target() as target:
        asked = bench.ask(target)
        target.named_run(asked)  # writes the machine's image to another folder first
        patched.setattr(os, "fsync", full)
        with pytest.raises(UserError, match="No space left on device") as caught:
            target.run(asked)
        assert "Free some space" in caught.value.hint
    assert not [path for path in (bench.room / "cache").rglob("*") if path.is_file()]
    assert bench.run().outcome is ProcessOutcome.EXITED

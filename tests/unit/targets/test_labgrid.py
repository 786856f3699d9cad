# SPDX-License-Identifier: MIT OR Apache-2.0
"""Boards of a lab: labgrid runs, its strategy writes what it does to a file, and a program in ssh's place runs the trials here."""

from __future__ import annotations

import gzip
import importlib.util
import lzma
import os
import signal
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from swapstone.core.factors import Evidence
from swapstone.core.model import UnavailableError, UserError
from swapstone.core.model.image_difference import identity_of_file, identity_of_running
from swapstone.core.model.observation import EMULATED
from swapstone.core.targets import MachineConfig, TargetError, parse_target
from swapstone.core.wire import AgentAnswer, TrialRequest
from swapstone.parts.boards.targets import labgrid_target
from swapstone.parts.boards.targets.board_swap import BoardSwap
from swapstone.parts.boards.targets.labgrid_session import LabPlace, LabSession, decode_answer
from swapstone.parts.boards.targets.labgrid_target import (
    ROOT_STEP,
    LabgridSpec,
    LabgridTarget,
    root_identity_of,
    with_environment,
)
from swapstone.parts.vm.factors.kernel import KERNEL
from swapstone.parts.vm.factors.rootfs import ROOTFS
from tests.fake_ssh import FakeSsh
from tests.processes import is_running

pytestmark = pytest.mark.slow  # each test starts a process that imports labgrid

STRATEGY = """
import enum
import attr
from labgrid import target_factory
from labgrid.strategy import Strategy

class Status(enum.Enum):
    unknown = 0
    off = 1
    shell = 2

@target_factory.reg_driver
@attr.s(eq=False)
class LoggedStrategy(Strategy):
    status = attr.ib(default=Status.unknown)

    def transition(self, status):
        config = self.target.env.config
        with open(config.resolve_path("log"), "a") as log:
            log.write(f"{status} {config.get_image_path('kernel').rpartition('/')[2]}\\n")
        if status == "shell" and (root := config.data["images"].get("rootfs")):
            with open(config.get_image_path("rootfs")) as image, open(config.resolve_path("deployed"), "w") as board:
                board.write(image.read())
        if "bad" in config.get_image_path("kernel") and status == "shell":
            raise RuntimeError("no prompt\\x1b[31m on the console")
        self.status = Status[status]
"""
LAB = """
imports: [strategy.py]
targets:
  bench:
    resources:
    - NetworkService: {address: board, username: me, port: 2222}
    drivers:
    - LoggedStrategy: {}
images: {kernel: ./first}
"""
ID = struct.pack("<III", 4, 20, 3) + b"GNU\0"
VERSION = Path("/proc/version").read_bytes().strip()


def kernel(path: Path, banner: bytes, build_id: bytes = b"") -> str:
    path.write_bytes(b"\0" * 64 + banner + b"\n\0" + (ID + build_id if build_id else b""))
    return str(path)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", FakeSsh(tmp_path / "board").path)
    folder = tmp_path / "lab"
    folder.mkdir()
    (folder / "strategy.py").write_text(STRATEGY)
    (folder / "lab.yaml").write_text(LAB)
    return folder


def place(folder: Path, name: str = "bench", state: str = "shell") -> LabPlace:
    return LabPlace(place=name, environment=str(folder / "lab.yaml"), state=state)


def run(target: LabgridTarget, path: str, trial: str) -> AgentAnswer:
    request = TrialRequest(id=trial, arguments=("/bin/true",), cwd=target.scratch(), timeout_ms=20_000)
    return target.run(request, MachineConfig(kernel=path))


def observed(answer: AgentAnswer) -> str | None:
    return KERNEL.observe(Evidence(interp=None, objects=(), machine=answer.machine))


def log(folder: Path) -> list[str]:
    return (folder / "log").read_text().splitlines()


def test_each_start_boots_the_kernel_and_the_running_one_is_observed(lab: Path) -> None:
    """This machine is the board: one file has its banner, and the other has not, so it is never taken for the running kernel."""
    right, wrong = kernel(lab / "right", VERSION), kernel(lab / "wrong", b"Linux version 9.9.9 (a@b) #1 SMP")
    with LabgridTarget(place(lab), kernels=(right, wrong)) as target:
        assert log(lab) == ["shell first"]
        assert dict(target.tools())["labgrid"] == "place bench, strategy LoggedStrategy, state shell"
        target.begin("1 right")
        assert [observed(run(target, right, f"1-{number}")) for number in (0, 1)] == [right, right]
        assert log(lab)[1:] == ["off right", "shell right"]
        target.begin("1 wrong")
        assert observed(run(target, wrong, "1-2")) not in (right, wrong)
        target.begin("2 wrong")
        answer = run(target, wrong, "2-0")
        assert dict(answer.machine)["version"] in VERSION.decode() and dict(answer.machine)["booted"] == "another"
        assert log(lab)[3:] == 2 * ["off wrong", "shell wrong"]
        assert "board_boots" not in dict(answer.facts), "a boot that was asked for is no reboot"


def test_images_of_the_environment_are_kernels_by_name(lab: Path) -> None:
    """`kernel=generic,rt` boots two images of it; a running kernel of neither file is never called so, though its banner fits."""
    generic, rt = (
        kernel(lab / "mine", VERSION),
        kernel(lab / "other", b"Linux version 9.9.9-rt (a@b) #1 SMP PREEMPT_RT"),
    )
    images = "images: {kernel: ./first, generic: ./mine, rt: ./other}"
    (lab / "lab.yaml").write_text(LAB.replace("images: {kernel: ./first}", images))
    with LabgridTarget(place(lab), kernels=("generic", "rt")) as target:
        shown = dict(target.tools())
        assert shown["kernel generic"].endswith(f", {generic}") and shown["kernel rt"].endswith(f", {rt}")
        target.begin("1 generic")
        assert observed(run(target, "generic", "1-0")) == ("rt" if b"PREEMPT_RT" in VERSION else "generic")
        target.begin("1 rt")
        assert observed(run(target, "rt", "1-1")) not in ("generic", "rt")
        assert log(lab)[1:] == ["off mine", "shell mine", "off other", "shell other"]
    (lab / "lab.yaml").write_text(
        LAB.replace("images: {kernel: ./first}", "images: {kernel: ./a, generic: ./mine, rt: ./mine}")
    )
    with pytest.raises(UserError, match=r"The kernels /.*/mine and /.*/mine have the same banner"):
        LabgridTarget(place(lab), kernels=("generic", "rt"))


@pytest.mark.parametrize("images", ["images: {kernel: ./first}", "images: []", ""])
def test_a_kernel_that_the_environment_does_not_name_is_refused_before_the_board_boots(lab: Path, images: str) -> None:
    (lab / "lab.yaml").write_text(LAB.replace("images: {kernel: ./first}", images))
    with pytest.raises(
        UserError, match=r"lab\.yaml names no image rt, which would be the kernel rt of bench"
    ) as caught:
        LabgridTarget(place(lab), kernels=("rt",))
    assert caught.value.hint.startswith("Add `rt: ./Image-rt` to its `images:`, or name files: kernel=./Image-a")
    assert not (lab / "log").exists()


ROOTS = "images: {kernel: ./first, rootfs: ./a, musl: ./a, glibc: ./b, same: ./c, none: ./d}"


def root(digit: str, *, more: str = "") -> str:
    """Return the image of a root whose C library has a digest of one digit."""
    return f"{digit * 64} /lib/libc.so.6\n{more}"


@pytest.fixture
def rooted(lab: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a lab with images of roots; the board shows the one that its strategy has deployed."""
    (lab / "lab.yaml").write_text(LAB.replace("images: {kernel: ./first}", ROOTS))
    for name, content in {"a": root("a"), "b": root("b"), "c": root("a", more="unread"), "d": "nothing"}.items():
        (lab / name).write_text(content)
    monkeypatch.setattr(labgrid_target, "ROOT_STEP", f"part root-files; cat {lab}/deployed")
    return lab


def run_in(target: LabgridTarget, level: str, trial: str) -> AgentAnswer:
    request = TrialRequest(id=trial, arguments=("/bin/true",), cwd=target.scratch(), timeout_ms=20_000)
    return target.run(request, MachineConfig(root=level))


def root_of(answer: AgentAnswer) -> str | None:
    return ROOTFS.observe(Evidence(interp=None, objects=(), machine=answer.machine))


def test_each_start_deploys_the_root_and_the_running_one_is_observed(rooted: Path) -> None:
    file = str(rooted / "b")
    with LabgridTarget(place(rooted), roots=("musl", file)) as target:
        shown = dict(target.tools())
        assert shown["rootfs musl"].startswith("SHA-256 ") and shown["rootfs musl"].endswith(f", {rooted}/a")
        assert shown[f"rootfs {file}"].endswith(f", {file}")
        target.begin("1 musl")
        assert [root_of(run_in(target, "musl", f"1-{number}")) for number in (0, 1)] == ["musl", "musl"]
        assert log(rooted)[1:] == ["off first", "shell first"], "one boot for both trials"
        target.begin("1 glibc")
        assert root_of(run_in(target, file, "1-2")) == file
        target.begin("2 musl")
        answer = run_in(target, "musl", "2-0")
        assert root_of(answer) == "musl" and "board_boots" not in dict(answer.facts)
        assert log(rooted)[3:] == 2 * ["off first", "shell first"]

        (rooted / "deployed").write_text(root("b"))
        assert root_of(run_in(target, "musl", "2-1")) == file
        (rooted / "deployed").write_text(root("e"))
        assert root_of(run_in(target, "musl", "2-2")) == (
            "another root: no /etc/os-release, /lib/libc.so.6 eeeeeeeeeeee, an unknown mount"
        )


def test_roots_that_the_board_does_not_tell_apart_end_the_session(rooted: Path) -> None:
    with LabgridTarget(place(rooted), roots=("musl", "same", "none")) as target:
        run_in(target, "musl", "1-0")
        target.begin("1 same")
        with pytest.raises(
            UserError, match="shows the same root file system with musl and with same: no /etc"
        ) as caught:
            run_in(target, "same", "1-1")
        assert not isinstance(caught.value, TargetError) and "BUILD_ID=" in caught.value.hint
        with pytest.raises(UserError, match="none shows neither /etc/os-release nor a C library"):
            run_in(target, "none", "1-2")


def test_a_board_boots_a_kernel_and_a_root_together(rooted: Path) -> None:
    right = kernel(rooted / "right", VERSION)
    with LabgridTarget(place(rooted), kernels=(right,), roots=("musl", "glibc")) as target:
        request = TrialRequest(id="1-0", arguments=("/bin/true",), cwd=target.scratch(), timeout_ms=20_000)
        for level in ("musl", "glibc"):
            answer = target.run(request, MachineConfig(kernel=right, root=level))
            assert (observed(answer), root_of(answer)) == (right, level)
        assert log(rooted)[1:] == 2 * ["off right", "shell right"]


def test_a_board_sets_a_swap_device_on_the_kernel_that_it_boots(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    levels = []

    def run_with(
        _: BoardSwap,
        level: str,
        request: TrialRequest,
        run: Callable[[TrialRequest], AgentAnswer],
        stop: Callable[[], None],
    ) -> AgentAnswer:
        levels.append(level)
        stop()
        return run(request)

    monkeypatch.setattr(BoardSwap, "run", run_with)
    right = kernel(lab / "right", VERSION)
    with LabgridTarget(place(lab), kernels=(right,)) as target:
        request = TrialRequest(id="1-0", arguments=("/bin/true",), cwd=target.scratch(), timeout_ms=20_000)
        for config in (MachineConfig(kernel=right, swap="file"), MachineConfig(swap="none")):
            assert (observed(target.run(request, config)) == right) == bool(config.kernel)
    assert levels == ["file", "none"]


def test_what_a_board_runs_on_is_read_with_its_programs(lab: Path) -> None:
    """This machine is the board."""
    with LabgridTarget(place(lab)) as target:
        found = [root_identity_of(target.board.ask(ROOT_STEP)) for _ in range(2)]
    assert found[0] == found[1] and found[0].sha256
    assert "libc.so" in found[0].shown and " from " in found[0].shown


@pytest.mark.parametrize(
    ("roots", "images", "message"),
    [
        (("a", "deb"), ROOTS, "names no image a, which would be the root file system a of bench"),
        (("{lab}/a", "{lab}/copy"), ROOTS, "/a and .*/copy have the same content"),
        (("musl", "first"), ROOTS.replace("none", "first"), None),
        (("musl", "glibc"), ROOTS.replace("./b", "./a"), "musl and glibc have the same content"),
        (("{lab}", "{lab}/a"), ROOTS, "is no regular file of at most 64 GiB"),
        (("{lab}/a", "{lab}/missing"), ROOTS, "missing is no regular file"),
    ],
)
def test_roots_are_checked_before_anything_is_booted_for_them(
    rooted: Path, roots: tuple[str, ...], images: str, message: str | None
) -> None:
    (rooted / "copy").write_text(root("a"))
    (rooted / "lab.yaml").write_text(LAB.replace("images: {kernel: ./first}", images))
    levels = tuple(level.format(lab=rooted) for level in roots)
    if message is None:
        LabgridTarget(place(rooted), roots=levels).close()
        return
    with pytest.raises(UserError, match=message):
        LabgridTarget(place(rooted), roots=levels)


def test_an_environment_without_an_image_rootfs_fails_the_trial(lab: Path) -> None:
    (lab / "b").write_text(root("b"))
    with LabgridTarget(place(lab), roots=(str(lab / "b"),)) as target:
        assert target.lab.root_image == ""
        with pytest.raises(TargetError, match="names no image rootfs, which would be replaced by") as caught:
            run_in(target, str(lab / "b"), "1-0")
        assert "swapstone_root_image" in caught.value.hint


def emulated_lab(folder: Path, extra: str) -> None:
    """Add a driver that emulates the board to the lab; it is not activated."""
    keys = f"qemu_bin: qemu, machine: virt, cpu: max, memory: 512M, kernel: kernel, extra_args: '{extra}'"
    driver = f"    - QEMUDriver: {{{keys}}}\n"
    (folder / "lab.yaml").write_text(LAB.replace("    - LoggedStrategy: {}\n", f"    - LoggedStrategy: {{}}\n{driver}"))


@pytest.mark.parametrize(("extra", "emulated"), [("", True), ("-nographic", True), ("-accel kvm", False)])
def test_a_board_that_labgrid_emulates_is_known_to_be(lab: Path, extra: str, emulated: bool) -> None:
    emulated_lab(lab, extra)
    with LabgridTarget(place(lab)) as target:
        assert target.emulated is emulated
        assert (target.describe().virtualization == EMULATED) is emulated
        answer = target.run(TrialRequest(id="1-0", arguments=("/bin/true",), cwd=target.scratch(), timeout_ms=20_000))
        assert dict(answer.facts).get("board_emulated", 0) == emulated


def test_other_boards_are_not_called_emulated(lab: Path) -> None:
    with LabgridTarget(place(lab)) as target:
        answer = target.run(TrialRequest(id="1-0", arguments=("/bin/true",), cwd=target.scratch(), timeout_ms=20_000))
        assert not target.emulated and "board_emulated" not in dict(answer.facts)


def test_a_kernel_that_does_not_boot_fails_its_trial_only(lab: Path) -> None:
    right, bad = kernel(lab / "right", VERSION), kernel(lab / "bad", b"Linux version 8 (a@b) #1")
    with LabgridTarget(place(lab), kernels=(right, bad)) as target:
        with pytest.raises(
            TargetError, match=r"labgrid:bench does not run .*bad: bench did not reach the state shell"
        ) as caught:
            run(target, bad, "1-0")
        assert "\x1b" not in str(caught.value) and "no prompt" in caught.value.message
        assert observed(run(target, right, "1-1")) == right


@pytest.mark.parametrize(
    ("change", "named", "message"),
    [
        ({"lab.yaml": None}, ("bench", "shell"), "lab.yaml can't be used: .*could not be found"),
        ({"lab.yaml": "targets: [\n"}, ("bench", "shell"), "lab.yaml can't be used: Error in configuration file"),
        ({"lab.yaml": "targets: [a]\n"}, ("bench", "shell"), "has no valid section targets"),
        ({"strategy.py": "raise RuntimeError('of mine')"}, ("bench", "shell"), "lab.yaml can't be used: of mine"),
        ({"strategy.py": "import os; os._exit(3)"}, ("bench", "shell"), "labgrid ended: no message"),
        ({}, ("bunch", "shell"), "neither a RemotePlace nor a target bunch"),
        ({}, ("bench", "linux"), "LoggedStrategy has no state linux"),
        ({"lab.yaml": LAB.replace("NetworkService: {", "NetworkSerialPort: {host: h, ")}, ("bench", "shell"), "address is unknown"),
        ({"lab.yaml": LAB.replace("bench:", "b: {resources: [RemotePlace: {name: bench}]}\n  c:")}, *(("bench", "shell"), "coordinator")),
    ],
)  # fmt: skip
def test_what_the_user_can_change_is_an_error_with_the_next_step(
    lab: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, str | None], named: tuple[str, str], message: str
) -> None:
    monkeypatch.setenv("LG_COORDINATOR", "127.0.0.1:1")
    for file, text in change.items():
        (lab / file).unlink() if text is None else (lab / file).write_text(text)
    with pytest.raises(UserError, match=message) as caught:
        LabSession(place(lab, *named))
    assert caught.value.hint


def test_a_second_session_of_a_user_is_refused(lab: Path) -> None:
    with LabgridTarget(place(lab)), pytest.raises(UserError, match="place bench is used by another session of yours"):
        LabSession(place(lab))
    LabSession(place(lab)).close()


def test_an_interrupted_boot_ends_at_once(lab: Path) -> None:
    boot = f"        import os, signal, time; os.kill({os.getpid()}, signal.SIGALRM); time.sleep(3600)\n"
    (lab / "strategy.py").write_text(STRATEGY.replace("        self.status =", f"{boot}        self.status ="))
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):
        LabSession(place(lab))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    own = [pid for task in Path("/proc/self/task").glob("*/children") for pid in task.read_text().split()]
    assert not [
        pid for pid in own if is_running(pid) and b"labgrid_worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def test_without_labgrid_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UnavailableError, match="needs the Python package labgrid") as caught:
        parse_target("labgrid:rpi4,env=/lab.yaml")
    assert "-m pip install 'labgrid>=26,<27'" in caught.value.hint


def test_targets_name_their_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LG_ENV", raising=False)
    whole = f"labgrid:rpi4,env={tmp_path}/lab.yaml"
    assert with_environment("labgrid:rpi4", "lab.yaml") == whole
    assert parse_target(f"{whole},state=linux,folder=/data") == LabgridSpec(
        lab=LabPlace(place="rpi4", environment=f"{tmp_path}/lab.yaml", state="linux"), folder="/data"
    )
    with pytest.raises(UserError, match="needs labgrid's environment"):
        parse_target("labgrid:rpi4")
    with pytest.raises(UserError, match="the target is none of a labgrid lab"):
        with_environment("host", "lab.yaml")
    with pytest.raises(UserError, match="names its environment already"):
        with_environment(whole, "lab.yaml")
    for text in ("", "a b", "x,state=a b", "x,unknown=1", "x,state=a,state=b", "x,env="):
        with pytest.raises(UserError, match="names no place of a lab"):
            parse_target(f"labgrid:{text}")
    monkeypatch.setenv("LG_ENV", "lab.yaml")
    assert with_environment("labgrid:rpi4") == whole and with_environment("host") == "host"


def test_kernels_that_can_not_be_told_apart_are_refused_before_the_place_is_acquired(tmp_path: Path) -> None:
    lab = place(tmp_path)
    one, two = kernel(tmp_path / "1", VERSION), kernel(tmp_path / "2", VERSION, b"\1" * 20)
    with pytest.raises(UserError, match="have the same banner, and no build IDs that differ"):
        LabgridTarget(lab, kernels=(one, two))
    (tmp_path / "3").write_bytes(b"nothing")
    with pytest.raises(UserError, match=r"neither a banner .* nor a build ID"):
        LabgridTarget(lab, kernels=(str(tmp_path / "3"),))
    with pytest.raises(UserError, match="no regular file"):
        LabgridTarget(lab, kernels=(str(tmp_path),))


def test_a_build_id_decides_where_both_have_one() -> None:
    text = b"Linux version 6.1 (a@b) #1 SMP"
    mine, other = ID + b"\1" * 20, ID + b"\2" * 20
    running = identity_of_running(text + b"\n", mine)
    assert running.versions == ("6.1 (a@b) #1 SMP",) and running.build_ids == ("01" * 20,)
    assert identity_of_file(text + b"\n\0" + other + mine).runs(running)
    assert not identity_of_file(text + b"\n\0" + other).runs(running)
    assert identity_of_file(text + b"\n").runs(running)
    assert not identity_of_file(b"Linux version 6.1 (a@b) #2 SMP\n").runs(running)
    assert not identity_of_file(b"").runs(identity_of_running(b"", b""))
    plain = text + b"\n\0" + mine
    for packed in (gzip.compress(plain), lzma.compress(plain), lzma.compress(plain, lzma.FORMAT_ALONE)):
        assert identity_of_file(b"code" + packed + b"more") == identity_of_file(plain)
    header = bytearray(0x600)
    header[0x202:0x206], header[0x20E:0x210] = b"HdrS", (0x100).to_bytes(2, "little")
    header[0x300:0x310] = b"6.1 (a@b) #1 SMP"
    assert identity_of_file(bytes(header)).runs(running)


def test_an_answer_that_is_nested_without_end_is_an_error() -> None:
    with pytest.raises(UserError, match="labgrid's answer is invalid"):
        decode_answer(b'{"resources":' + b"[" * 100_000)

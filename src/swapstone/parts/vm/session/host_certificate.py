# SPDX-License-Identifier: MIT OR Apache-2.0
"""Whether runs on the exact clock give on this host what they gave where this version was released: ``swapstone doctor --exact``.

``host-certificate.json`` has for each of three short runs the digests of its inputs and of its output.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from swapstone.core.artifacts.tool_versions import compiler_version
from swapstone.core.model import FrozenStruct, UserError
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.core.targets.health import Finding, State
from swapstone.core.wire import TrialRequest
from swapstone.parts.build.artifacts.toolchain import native_compiler
from swapstone.parts.vm.artifacts.image_catalog import find_machine_architecture
from swapstone.parts.vm.artifacts.images import ImageRequest, build_image
from swapstone.parts.vm.machine.run_output import decode_run
from swapstone.parts.vm.machine.vm_target import VmOptions, VmTarget
from swapstone.parts.vm.session.vm_images import SHELL, vm_image_of

CERTIFICATE = Path(__file__).with_name("host-certificate.json")

MACHINES = (("x86_64", "generic"), ("x86_64", "rt"), ("arm64", "generic"))
"""Architecture and kernel of each run."""
_BUSYBOX = "/bin/busybox"
_WORK = """
b=/bin/busybox
$b awk 'BEGIN { x = 0.1; for (i = 1; i < 20000; i++) { x = 3.9 * x * (1 - x); s += x / i - i / 7.3 }; printf "%.17g\\n", s }'
$b dd if=/dev/urandom bs=64k count=4 2>/dev/null | $b sha256sum
for i in 1 2 3 4 5; do $b usleep 3000; $b cat /proc/uptime; done
"""
"""Floating point, random numbers of the kernel, a pipe, new processes, and an idle processor between timers."""

_LINES = 7  # of its output
_TIMEOUT_MS = 10_000

_WORDS = {
    "emulator": "QEMU with its firmware",
    "kernel": "kernel",
    "initrd": "image, with the agent that was compiled here",
    "arguments": "command line of QEMU",
    "order": "order of the run",
    "received": "files of the program",
    "counts": "what is counted",
}


class CertifiedRun(FrozenStruct, frozen=True, kw_only=True):
    """A run as the certificate has it.

    Attributes:
        tools: the emulator's version, and that of the compiler of the agent.
        inputs: SHA-256 of each input of the run, by the names of `swapstone.parts.vm.machine.run_cache.run_inputs`.
        output: SHA-256 of the whole output.
    """

    tools: tuple[str, str]
    inputs: dict[str, str]
    output: str


def certified(path: Path = CERTIFICATE) -> dict[str, CertifiedRun]:
    """Return the runs of a certificate by their names."""
    return msgspec.json.decode(path.read_bytes(), type=dict[str, CertifiedRun])


def runs_here(
    options: VmOptions, notify: Callable[[str], None], machines: Sequence[tuple[str, str]] = MACHINES
) -> Iterator[tuple[str, CertifiedRun | UserError]]:
    """Make the runs on this host, and yield each one's name with the run, or why there is none.

    Args:
        options: of the machines.
        notify: called with a line before each long step.
        machines: of `MACHINES`.
    """
    for number, (name, kernel) in enumerate(machines, 1):
        named = f"{name} {kernel}"
        notify(f"Run {number} of {len(machines)} on the exact clock: {named}; some seconds of processor time")
        try:
            yield named, _run(name, kernel, options, notify)
        except UserError as error:
            yield named, error


def _run(name: str, kernel: str, options: VmOptions, notify: Callable[[str], None]) -> CertifiedRun:
    architecture = find_machine_architecture(name)
    request = ImageRequest(architecture=architecture.name, kernel=kernel, modules=(), parts=(SHELL,))
    built = build_image(request, progress=notify)
    with VmTarget(vm_image_of(built, architecture), options) as target:
        trial = TrialRequest(
            id="1-0",
            arguments=(_BUSYBOX, "sh", "-c", _WORK),
            environment=(),
            cwd=target.scratch(),
            timeout_ms=_TIMEOUT_MS,
        )
        made = target.named_run(trial)
        run = target.make(made)
    (answer,) = decode_run(run)[1]
    if answer.code != 0 or answer.stderr or len(answer.stdout.splitlines()) != _LINES:
        raise UserError(
            f"The program failed in the machine: {safe_excerpt(answer.stderr.decode('utf-8', 'replace'), 200)}."
        )
    digests = {each: hashlib.sha256(value).hexdigest() for each, value in sorted(made.inputs.items())}
    tools = (made.setup.emulator.version, compiler_version((native_compiler(architecture.machine),)))
    return CertifiedRun(tools=tools, inputs=digests, output=hashlib.sha256(run.output).hexdigest())


def findings(notify: Callable[[str], None]) -> list[Finding]:
    """Make the runs on this host, each anew and by a boot, and compare them with the certificate."""
    return compared(certified(), runs_here(VmOptions(no_cache=True, snapshots=False), notify))


def compared(known: Mapping[str, CertifiedRun], made: Iterable[tuple[str, CertifiedRun | UserError]]) -> list[Finding]:
    """Return for each run whether its output is the certified one, or why that can't be compared."""
    return [_finding(f"exact clock, {name}", known[name], run) for name, run in made]


def _finding(name: str, known: CertifiedRun, run: CertifiedRun | UserError) -> Finding:
    if isinstance(run, UserError):
        return Finding(name=name, state=State.MISSING, found="no run", meaning=run.message, remedy=run.hint)
    if others := [_WORDS.get(each, each) for each in known.inputs if known.inputs[each] != run.inputs.get(each)]:
        tools = "; ".join(f"{had}, here {has}" for had, has in zip(known.tools, run.tools, strict=True) if had != has)
        meaning = f"{', '.join(others)} {'differs' if len(others) == 1 else 'differ'} from the certified one"
        found = "not comparable"
        return Finding(
            name=name, state=State.UNKNOWN, found=found, meaning=f"{meaning} ({tools})" if tools else meaning
        )
    if run.output != known.output:
        meaning = "equal inputs gave another output: results of this host's exact clock can't be compared with those of others"
        return Finding(
            name=name, state=State.MISSING, found=f"output {run.output}, certified {known.output}", meaning=meaning
        )
    return Finding(name=name, state=State.GOOD, found=f"output as certified, SHA-256 {run.output}")

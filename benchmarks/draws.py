# SPDX-License-Identifier: MIT OR Apache-2.0
"""What replicates of cyclictest show, and whether a file that is never used decides it. `benchmarks/draws`.

Each replicate runs in the image of a comparison, and in the same image with files of random content appended, which shift what a machine
has in memory. The maxima of both are compared by a permutation test of their means, which assumes nothing about their distribution. With
--earlier, replicates differ by a delay below 100 ms only, as they did before orders had a seed of the memory layout.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import dataclasses
import random
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from swapstone.model import Experiment, cpio
from swapstone.run.prepare import prepare
from swapstone.session.experiment import resolve
from swapstone.session.machines import build_images
from swapstone.session.request import ExperimentRequest, parse_factors
from swapstone.session.settings import Measuring, Place, Settings, VirtualMachine, Workloads
from swapstone.subjects import TrialSpec
from swapstone.targets import Target, spec_of
from swapstone.targets.emulated_board import BoardImageRequest
from swapstone.targets.vm import guest, replicates
from swapstone.targets.vm.replicates import Perturbation
from swapstone.targets.vm.spec import VmImages, VmSpec
from swapstone.workloads import find_load, workloads_of
from swapstone.workloads.cyclictest import decode_cyclictest

_UNUSED = "unused/file"
_PERMUTATIONS = 20_000


@dataclasses.dataclass(frozen=True)
class Draw:
    """What one replicate showed, in microseconds."""

    maximum: float
    average: float


def permutation_p(one: Sequence[float], other: Sequence[float], seed: int = 1) -> float:
    """Return the p value of a permutation test: how often random groups of these sizes have means that differ at least as much.

    Args:
        one: a sample.
        other: another one.
        seed: of the permutations; the samples themselves count as one of them, so the value is never 0.
    """
    pool, size = [*one, *other], len(one)
    total, shuffled = sum(pool), random.Random(seed)  # noqa: S311 - no secret

    def difference(chosen: Sequence[float]) -> float:
        first = sum(chosen)
        return abs(first / size - (total - first) / (len(pool) - size))

    observed = difference(one)
    extreme = sum(
        difference(shuffled.sample(pool, size)) >= observed * (1 - 1e-9) - 1e-12 for _ in range(_PERMUTATIONS)
    )
    return (extreme + 1) / (_PERMUTATIONS + 1)


def with_file(images: VmImages, size: int, folder: Path) -> VmImages:
    """Return images with a file of random content appended, written below a folder; 0 bytes for the same images."""
    if not size:
        return images
    added = cpio.archive({_UNUSED: cpio.file(random.Random(size).randbytes(size))})  # noqa: S311 - no secret
    changed = {}
    for number, (level, image) in enumerate(images.images.items()):
        data = image.initrd.read_bytes()
        path = folder / f"{number}-{size}.cpio"
        path.write_bytes(data + bytes(-len(data) % 4) + added)
        changed[level] = dataclasses.replace(image, initrd=path)
    return VmImages(changed, images.differences)


def measure(experiment: Experiment, size: int, folder: Path) -> dict[str, list[Draw]]:
    """Run all replicates of all variants in images with an unused file of a size; return what each showed by variant."""

    def build(vm: VmSpec | BoardImageRequest) -> VmImages:
        return with_file(build_images(experiment, vm, lambda line: print(line, file=sys.stderr)), size, folder)

    spec = spec_of(experiment, no_cache=False, guest_timeout_s=0.0, snapshots=True)
    with spec.open(build) as target:
        return _run(experiment, target, f"{size} bytes")


def _run(experiment: Experiment, target: Target, name: str) -> dict[str, list[Draw]]:
    prepared = prepare(experiment, target, lambda *_: None)
    (key,) = workloads_of(experiment)
    places = [(label, number) for number in range(1, experiment.blocks + 1) for label in prepared.variants]

    def draw(place: tuple[str, int]) -> Draw:
        label, number = place
        spec = TrialSpec(
            identity=f"{number}-0",
            variant=prepared.variants[label],
            program=prepared.programs[*key, label],
            scratch=target.scratch(),
            cpus=target.describe().cpus,
            load=find_load(experiment.loads[0]),
        )
        subject = prepared.subjects[key]
        answer = target.run(subject.request(spec), subject.machine_config(spec))
        values = dict(decode_cyclictest(answer.stdout).values)
        return Draw(values["max"], values["avg"])

    found = collections.defaultdict[str, list[Draw]](list)
    with concurrent.futures.ThreadPoolExecutor(target.at_once) as pool:
        for done, (place, result) in enumerate(zip(places, pool.map(draw, places), strict=True), 1):
            found[place[0]].append(result)
            print(f"  {name}: {done} of {len(places)}", file=sys.stderr, flush=True)
    return found


def describe(name: str, draws: Sequence[Draw], base: Sequence[Draw]) -> str:
    """Return a line: how often each maximum was found, the mean, and the comparison with the unchanged image."""
    counts = collections.Counter(round(draw.maximum) for draw in draws)
    maxima = " ".join(f"{value}:{count}" for value, count in sorted(counts.items()))
    averages = [draw.average for draw in draws]
    line = (
        f"{name:<16} mean {statistics.mean(draw.maximum for draw in draws):8.2f}  largest {max(counts):5}"
        f"  average {min(averages):.3f} to {max(averages):.3f}"
    )
    if draws is not base:
        p = permutation_p([draw.maximum for draw in draws], [draw.maximum for draw in base])
        equal = sum(one == other for one, other in zip(draws, base, strict=True))
        line += f"  p {p:.3f}, {equal} replicates equal"
    return f"{line}\n{'':16} maxima {maxima}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what the replicates of each image showed."""
    parser = argparse.ArgumentParser(
        prog="benchmarks/draws", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--factor", default="kernel=generic,rt", help="factor and levels (default kernel=generic,rt)")
    parser.add_argument("--load", default="idle", help="a load (default idle)")
    parser.add_argument("--arch", default="", help="x86_64, arm64, armhf or riscv64")
    parser.add_argument("--replicates", type=int, default=20, metavar="N", help="of each variant (default 20)")
    parser.add_argument(
        "--unused",
        type=int,
        nargs="*",
        default=[100_000, 3_000_000],
        metavar="BYTES",
        help="sizes of the unused file (default 100000 3000000)",
    )
    parser.add_argument("--earlier", action="store_true", help="replicates differ by a short delay only")
    given = parser.parse_args(arguments)
    request = ExperimentRequest(
        name="draws",
        factors=parse_factors([given.factor]),
        settings=Settings(
            workloads=Workloads(suites="latency"),
            measuring=Measuring(blocks=given.replicates),
            place=Place(loads=given.load),
            machine=VirtualMachine(architecture=given.arch),
        ),
    )
    experiment = resolve(request)
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(guest, "perturbation", _perturbation(given.earlier)),
    ):
        found = {size: measure(experiment, size, Path(folder)) for size in (0, *given.unused)}
    how = "a delay only" if given.earlier else "layout, idle time and delay"
    print(f"cyclictest under {given.load}, {given.replicates} replicates that differ by {how}; microseconds")
    for label in found[0]:
        print(label)
        for size, draws in found.items():
            name = f"{size / 1e6:g} MB unused" if size else "unchanged"
            print(f"  {describe(name, draws[label], found[0][label])}")
    return 0


def _perturbation(earlier: bool) -> object:
    """Return the function that makes replicates differ: that of the product, or only the delay."""

    def only_delay(replicate: int) -> Perturbation:
        return Perturbation(delay_ns=replicates.perturbation(replicate).delay_ns)

    return only_delay if earlier else replicates.perturbation


if __name__ == "__main__":
    raise SystemExit(main())

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds and runs the program that mounts and reads a root: for each level an image, which the machine of a trial gets beside it."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import msgspec

from swapstone.core.artifacts.built import Built
from swapstone.core.factors import Recipe
from swapstone.core.model import Source, UnavailableError, Variant, Workload
from swapstone.core.model.safe_text import safe_excerpt
from swapstone.core.run.machine_config import probe_request
from swapstone.core.run.subject import BuildContext, BuiltProgram, TrialSpec
from swapstone.core.run.variant_program import Program
from swapstone.core.targets import MachineConfig, Target
from swapstone.core.wire import TrialRequest
from swapstone.parts.build.artifacts.workload_build import build_workload
from swapstone.parts.fs.fs_factor import RootImage
from swapstone.parts.fs.fs_images import IMAGE, RootTree, make_image, probe_tree, program_tree

_HERE = Path(__file__).parent
_LOADER = _HERE / "load.sh"


class RootReader(BuiltProgram):
    """The program `root.c`, with an image of a root."""

    output_is_evidence = True

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._tree: RootTree | None = None

    def build(self, variant: Variant, recipe: Recipe, context: BuildContext) -> Program:
        """Build the program and an image of the root, once a machine has shown that its kernel can mount such an image.

        Raises:
            UnavailableError: the kernel can't, or the image's tool is not installed or can't make it.
        """
        if "runs_programs" in context.target.offers:
            _require_mount(recipe, context.target)
            self._tree = self._tree or program_tree(context.target.architecture, context.notify)
            recipe = recipe.changed(RootImage, content=self._tree.content)
        return super().build(variant, recipe, context)

    def compile(self, variant: Variant, recipe: Recipe, context: BuildContext) -> Built:
        """Compile the program and make the image."""
        del variant, context
        assert self._tree is not None
        image = make_image(recipe.of(RootImage).level, self._tree)
        source = Source(file=str(_HERE / "root.c"), harness=False)
        built = build_workload(msgspec.structs.replace(self.workload, origin=source), recipe)
        return msgspec.structs.replace(
            built,
            command=f"{built.command}; {image.command}",
            sources=(*built.sources, (IMAGE, image.sha256)),
            beside=(_LOADER, image.path),
        )

    def request(self, trial: TrialSpec) -> TrialRequest:
        """Return the request: the work, the file system's type, the image, and what it holds."""
        request, root = super().request(trial), trial.program.recipe.of(RootImage)
        work, kind = self.workload.name.replace("-", "_"), root.level.partition(":")[0]
        image = str(_beside(trial.program, IMAGE))
        return msgspec.structs.replace(request, arguments=(*request.arguments[:1], work, kind, image, *root.content))

    def machine_config(self, trial: TrialSpec) -> MachineConfig:
        """Return the machine that a trial runs in, which has the image on its device."""
        config = super().machine_config(trial)
        load = f"{_beside(trial.program, _LOADER.name)} {_beside(trial.program, IMAGE)}"
        return msgspec.structs.replace(config, prepare=(*config.prepare, load))


def _beside(program: Program, name: str) -> PurePosixPath:
    return PurePosixPath(program.path).with_name(name)


def _require_mount(recipe: Recipe, target: Target) -> None:
    """Mount a small image in a machine with the recipe's kernel.

    Raises:
        UnavailableError: it can't be mounted; the message has the kernel's reason.
    """
    level = recipe.of(RootImage).level
    loader = target.put(_LOADER, (make_image(level, probe_tree()).path,))
    kind = level.partition(":")[0]
    words = (loader, str(PurePosixPath(loader).with_name(IMAGE)), kind)
    answer = target.run(probe_request(words, target.scratch()), MachineConfig(kernel=recipe.kernel))
    if answer.code != 0:
        lines = answer.stderr.decode(errors="replace").splitlines()
        reason = safe_excerpt(lines[-1].removeprefix("load.sh: ")) if lines else "it printed no reason"
        raise UnavailableError(
            f"The machine's kernel can't mount {level}: {reason}", "Compare other levels: swapstone list levels"
        )

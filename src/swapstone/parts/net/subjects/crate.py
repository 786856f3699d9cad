# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs of this project's Rust crates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from swapstone.core.artifacts.built import Built
from swapstone.core.factors import Recipe
from swapstone.core.model import Copy, Experiment, UnavailableError, Variant, refuse
from swapstone.core.run.subject import BuildContext, BuiltProgram
from swapstone.core.targets import Capabilities
from swapstone.parts.net.artifacts.crates import (
    build_bare,
    build_crate,
    crate_programs,
    require_crate,
)
from swapstone.parts.net.factors.netstack import NETSTACK, build_variables, missing_control, needs_system
from swapstone.parts.net.model.crate import Crate


class CrateProgram(BuiltProgram):
    """A program of a crate. It prints named figures, under the workload's name with ``_`` for ``-``."""

    needs_compiler = False
    output_is_evidence: ClassVar[bool] = True

    def check(self, experiment: Experiment, target: Capabilities) -> None:
        """Raise unless this machine is the target and can run the crate's trials, and no other link is requested."""
        name = self.workload.name
        refuse(
            (
                self.workload.bare and "bare" not in target.offers,
                f"{name} has a server without an operating system, which the target {target.name} does not have.",
                "Measure on --target bare-riscv64.",
            ),
            (
                not {"runs_programs", "shares_files"} <= target.offers,
                f"{name} is built by cargo for this machine, and not for the target {target.name}.",
                "Measure on --target host.",
            ),
            (experiment.layouts, f"{name} is built by cargo, which makes one link only.", "Leave --layouts out."),
            kind=UnavailableError,
        )
        require_crate(self.programs(experiment, ()))

    def programs(self, experiment: Experiment, recipes: Iterable[Recipe]) -> tuple[str, ...]:  # noqa: ARG002 - as `Subject.programs`
        """Return those by which the crate is built and its trials run."""
        assert isinstance(self.workload.origin, Crate)
        return crate_programs(self.workload.origin.commands, bare=self.workload.bare)

    def compile(self, variant: Variant, _recipe: Recipe, context: BuildContext) -> Built:
        """Build with cargo. The recipe has no influence; a level of ``netstack`` may set options that are compiled in."""
        level = dict(variant.applied).get(NETSTACK.name, "")
        reason = (needs_system(level) if self.workload.bare else "") or missing_control(level) or ""
        refuse(
            (variant.copy is Copy.RELINKED, "It is built by cargo and can't be relinked.", ""),
            (reason, reason, ""),
            kind=UnavailableError,
        )
        crate = self.workload.origin
        assert isinstance(crate, Crate)
        if self.workload.bare:
            return build_bare(crate, level.partition(":")[0], context.notify, build_variables(level))
        return build_crate(crate, context.notify, build_variables(level))

# SPDX-License-Identifier: MIT OR Apache-2.0
"""Servers that others wrote, built from their pinned sources, such as redis."""

from __future__ import annotations

import msgspec

from swapstone.core.artifacts.built import Built
from swapstone.core.factors import Recipe
from swapstone.core.factors.factor import SOURCE_RECIPE
from swapstone.core.model import UserError, Variant
from swapstone.core.run.subject import BuildContext, BuiltProgram
from swapstone.core.run.variant_program import Program
from swapstone.parts.build.artifacts.servers import build_packaged
from swapstone.parts.own.suites.server import Package


class Packaged(BuiltProgram):
    """A server from pinned sources, built by its own build system for each variant."""

    empty_programs = True

    def base_recipe(self, _variant: Variant, default: Recipe) -> Recipe:
        """Return the recipe for programs with a build system of their own."""
        return msgspec.structs.replace(SOURCE_RECIPE, architecture=default.architecture)

    def build(self, variant: Variant, recipe: Recipe, context: BuildContext) -> Program:
        """Build the program; refuse layouts."""
        if context.layout_seeds and "runs_programs" in context.target.offers:
            raise UserError(
                "--layouts links the programs of this project anew, and this one is built by its own build system."
            )
        return super().build(variant, recipe, context)

    def compile(self, _variant: Variant, recipe: Recipe, _context: BuildContext) -> Built:
        """Build with the package's own build system."""
        assert isinstance(self.workload.origin, Package)
        return build_packaged(self.workload.origin.name, recipe)

# SPDX-License-Identifier: MIT OR Apache-2.0
"""The contract of what builds programs for variants."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from swapstone.core.factors import Recipe
from swapstone.core.factors.factor import SOURCE_RECIPE
from swapstone.core.model import Metric, UserError, Variant, Workload
from swapstone.core.model.parts import provided
from swapstone.core.record import Artifact
from swapstone.core.run.variant_program import Program
from swapstone.core.targets import Target


class Builder:
    """How programs of variants are built. This one builds none: a program that is there is run unchanged.

    Attributes:
        sizes: the metrics of the sizes in a manifest.
        empty: pairs (suite, workload) of the programs that are built for their size alone.
    """

    sizes: tuple[Metric, ...] = ()
    empty: tuple[tuple[str, Workload], ...] = ()

    def base_recipe(self, architecture: str) -> Recipe:
        """Return the recipe from which factors start.

        Args:
            architecture: of the machines of an experiment, as the experiment has it.
        """
        del architecture
        return SOURCE_RECIPE

    def parse_libraries(self, text: str) -> tuple[str, ...]:
        """Return the names in a list of libraries such as ``zlib,openssl``, without duplicates.

        Raises:
            UserError: one is unknown.
        """
        raise UserError(f"No installed part builds libraries: {text[:80]!r}.", "Leave --with out.")

    def check_recipe(self, recipe: Recipe, *, preloads: bool) -> None:
        """Check, before anything is made, that a recipe is possible.

        Args:
            recipe: with all levels applied.
            preloads: whether objects can be preloaded there.

        Raises:
            UnavailableError: it is not.
        """

    def check_compiler(self, recipe: Recipe) -> None:
        """Check that the compiler of a recipe is there.

        Raises:
            UnavailableError: it is not.
        """

    def programs(self, recipe: Recipe) -> tuple[str, ...]:  # noqa: ARG002 - a part's needs it
        """Return the programs of this machine that build for a recipe, by their names in `packages`; others are left out there.

        Args:
            recipe: with all levels applied.
        """
        return ()

    def resolve(self, recipe: Recipe, notify: Callable[[str], None]) -> Recipe:
        """Return a recipe whose names are found, fetched or built.

        Args:
            recipe: with all levels applied.
            notify: called with one line for each step that takes long.

        Raises:
            UserError: something is missing.
        """
        del notify
        return recipe

    def with_carried_loader(self, recipe: Recipe, target: Target, notify: Callable[[str], None]) -> Recipe:
        """Return a recipe whose programs start by a loader that was put on the target, if they need one.

        Args:
            recipe: resolved.
            target: that takes loaders.
            notify: as of `resolve`.

        Raises:
            UserError: the files are missing.
        """
        del target, notify
        return recipe

    def empty_programs(self, variants: Iterable[Variant], recipes: Mapping[str, Recipe]) -> Iterator[Artifact]:
        """Build the empty programs of each variant; one that can't be linked, e.g. without a static library, is left out.

        Args:
            variants: of the experiment.
            recipes: by the variant's label; those that are impossible are missing.
        """
        del variants, recipes
        return iter(())

    def tools(self, _programs: Sequence[Program]) -> list[tuple[str, str]]:
        """Return pairs (tool, version) of what built the programs, and of their loaders, allocators and load generators."""
        return []


@functools.cache
def builder() -> Builder:
    """Return the builder of a part; without one `Builder` itself."""
    return next(iter(provided("builder", Builder)), Builder())

# SPDX-License-Identifier: MIT OR Apache-2.0
"""The recipes of an experiment's variants: every level applied, every name resolved to what this machine has."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from swapstone.core.factors import Recipe, recipe_of
from swapstone.core.model import Copy, UserError, Variant
from swapstone.core.run.builder import builder
from swapstone.core.run.subject import Subject
from swapstone.core.targets import Target

Key = TypeVar("Key")


class VariantRecipes:
    """The variants' recipes, resolved once for each base recipe: kinds of subjects start from different ones.

    Args:
        base: of the C programs of this project.
        variants: all of the experiment.
        target: where the programs run.
        resolve: finds, fetches and builds what a recipe names.
        notify: called with one line for each variant that is left out.
        has_files: whether the target has this machine's files that the programs need. If not, it gets the objects to preload.
    """

    def __init__(
        self,
        base: Recipe,
        variants: Iterable[Variant],
        target: Target,
        resolve: Callable[[Recipe], Recipe],
        notify: Callable[[str], None],
        *,
        has_files: bool,
    ) -> None:
        self._has_files = has_files
        self._base = base
        self._variants = tuple(variants)
        self._target = target
        self._resolve = resolve
        self._notify = notify
        self._resolved: dict[tuple[Recipe, str], Recipe] = {}
        self._impossible: dict[tuple[Recipe, str], str] = {}

    def resolve(self, subjects: Iterable[Subject], *, with_default: bool) -> None:
        """Resolve the recipes of all variants for these subjects, and make their lists of preloaded objects equally large.

        Args:
            subjects: which.
            with_default: whether `default` will be called.
        """
        wanted = [
            (subject.base_recipe(variant, self._base), variant) for subject in subjects for variant in self._variants
        ]
        wanted += [(self._base, variant) for variant in self._variants] if with_default else []
        for base, variant in wanted:
            if (base, variant.label) not in self._resolved and (base, variant.label) not in self._impossible:
                self._resolve_one(base, variant)
        self._resolved = equally_large(self._resolved)

    def _resolve_one(self, base: Recipe, variant: Variant) -> None:
        key = (base, variant.label)
        try:
            recipe = self._resolve(recipe_of(variant, base))
            if recipe.preload and not self._has_files:
                put = functools.partial(self._target.put_library, keep_path=recipe.preload_keeps_path)
                recipe = msgspec.structs.replace(recipe, preload=tuple(put(Path(each)) for each in recipe.preload))
            if "takes_loaders" in self._target.offers:
                recipe = builder().with_carried_loader(recipe, self._target, self._notify)
        except UserError as error:
            known = {label for _, label in self._impossible}
            self._impossible[key] = " ".join(filter(None, (error.message, error.hint)))
            if variant.copy is Copy.FIRST and variant.label not in known:
                self._notify(f"left out: {variant.label}: {self._impossible[key]}")
        else:
            self._resolved[key] = recipe

    def default(self) -> dict[str, Recipe]:
        """Return the recipes of the C programs of this project, by label; variants that are impossible here are missing."""
        return {label: recipe for (base, label), recipe in self._resolved.items() if base == self._base}

    def by_label(self, subject: Subject) -> dict[str, Recipe]:
        """Return a subject's recipes by label; variants that are impossible here are missing."""
        keys = {variant.label: (subject.base_recipe(variant, self._base), variant.label) for variant in self._variants}
        return {label: self._resolved[key] for label, key in keys.items() if key in self._resolved}

    def impossible(self, subject: Subject, variant: Variant) -> str:
        """Return why a variant is impossible here."""
        return self._impossible[subject.base_recipe(variant, self._base), variant.label]


def equally_large(recipes: Mapping[Key, Recipe]) -> dict[Key, Recipe]:
    """Give every recipe as much room for the list of preloaded objects as the longest takes: the stack begins where it ends."""
    room = max((len(":".join(recipe.preload)) for recipe in recipes.values()), default=0)
    return {key: msgspec.structs.replace(recipe, preload_bytes=room) for key, recipe in recipes.items()}

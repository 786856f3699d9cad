# SPDX-License-Identifier: MIT OR Apache-2.0
"""Classes of cost: which class a stack belongs to, and how a finding of a class is worded. The table is classes.toml."""

from __future__ import annotations

import collections
import fnmatch
import functools
import re
import string
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from swapstone.core.model import UserError
from swapstone.core.model.profile import KERNEL, OWN_OBJECT, Frame, Profile
from swapstone.core.model.regular_file import TomlError, decode_toml
from swapstone.parts.explain.explanation.call_names import common_call
from swapstone.parts.explain.model.explanation import KERNEL_LOCKS, Count, RowMeasurements

OWN, OTHER, UNNAMED, KERNEL_OTHER = "own code", "C library, other", "unnamed", "kernel, other"
WAITING, READY = "waiting", "no processor"
LOCKS, SYSTEM_CALLS, FAULTS, SIGNALS, ALLOCATOR, COPIES = (
    "locks",
    "system calls",
    "page faults",
    "signals",
    "allocator",
    "copies and strings",
)
UNKNOWN = "[unknown]"
ENTRY = "entry and exit"
_CLONES = frozenset({"constprop", "isra", "part", "cold", "lto_priv", "llvm"})
"""The suffixes that compilers append, with a number or without, to the name of a cloned or split function."""

LIBRARY = "C library"
"""Place of a rule for functions whose names programs have, too, such as `parse_expression` or `start`."""

_C_LIBRARY = re.compile(r"libc\.so\.6|libc-[\d.]+\.so|ld-musl-\w+\.so\.1|libc\.musl-\w+\.so\.1|libc\.so")
_C_LIBRARIES = re.compile(r"(?:lib(?:c|m|mvec|pthread|rt|dl|anl|resolv|crypt)|ld-(?:linux|musl))[-.]\S*")
"""The C library and those that belong to it."""
_HINT = 'A rule is: [[rule]] class = "allocator" where = "user" pattern = "my_alloc.*"'
_DETAILS = "{details}"
_PLACEHOLDERS = {"variant", "details", "functions", "name"}


class CostClass(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a finding of one class is worded: a ``[[class]]`` of the table.

    Attributes:
        name: of the class.
        sentence: of a finding, with the placeholders ``{variant}``, ``{details}``, ``{functions}`` and ``{name}``.
        counts: which counts are evidence, each ``GROUP`` or ``GROUP:PATTERN``.
        functions: whether functions are evidence.
    """

    name: str
    sentence: str = "{variant} spends more time in {name} ({functions})"
    counts: tuple[str, ...] = ()
    functions: bool = True

    def __post_init__(self) -> None:
        """Check the sentence."""
        for _, name, form, conversion in string.Formatter().parse(self.sentence):
            if form or conversion:
                raise ValueError("its sentence has a placeholder with a format")
            if name is not None and name not in _PLACEHOLDERS:
                raise ValueError(f"its sentence has the unknown placeholder {{{name}}}")

    def worded(self, variant: str, details: str, functions: str) -> str:
        """Return the sentence of a finding.

        Args:
            variant: the slower variant.
            details: what the ledger's second column names; stands for the functions where none has a name.
            functions: those that take the most time; may be empty.
        """
        return self.sentence.format(variant=variant, details=details, functions=functions or details, name=self.name)

    def has_count(self, count: Count, details: Collection[str]) -> bool:
        """Return whether a count is evidence for this class.

        Args:
            count: of any group.
            details: names from the ledger's second column: system calls, or `FAULTS`.
        """
        selectors = (selector.partition(":") for selector in self.counts)
        return any(
            group == count.group and _selects(pattern.strip(), count, details) for group, _, pattern in selectors
        )


def _selects(pattern: str, count: Count, details: Collection[str]) -> bool:
    if pattern != _DETAILS:
        return not pattern or fnmatch.fnmatchcase(count.name, pattern)
    if count.group == "faults":
        return count.name == "minor faults" and FAULTS in details
    return common_call(count.name) in details  # a detail is the name of all calls that do the same work


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"name": "class"}):
    """Which stacks belong to a class: a ``[[rule]]`` of the table.

    Attributes:
        name: of the class; ``class`` in the table.
        where: ``user``, ``kernel``, `LIBRARY`, or a regular expression for the object of a function.
        pattern: a regular expression for the name of a function.
        detail: in the ledger's second column; may have groups of the pattern.
    """

    name: str
    where: str
    pattern: str
    detail: str = ""

    def __post_init__(self) -> None:
        """Check the regular expressions."""
        try:
            pattern = re.compile(self.pattern)
            re.compile(self.where)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"its regular expression is invalid: {error}") from error
        try:
            pattern.sub(self.detail, "")  # decodes the detail, though nothing is replaced
        except (re.error, IndexError) as error:
            raise ValueError("its detail names a group that its pattern doesn't have") from error

    def match(self, frame: Frame, *, shared: bool = False) -> str | None:
        """Return the detail if the frame belongs to this rule's class, else None.

        Args:
            frame: of a stack.
            shared: whether the program has a shared C library, so that no function elsewhere is one of the C library.
        """
        kernel = frame.object == KERNEL
        if (self.where == "kernel") != kernel:
            return None
        if self.where == LIBRARY and shared and not _C_LIBRARIES.fullmatch(frame.object):
            return None
        if self.where not in {"user", "kernel", LIBRARY} and not re.fullmatch(self.where, frame.object):
            return None
        found = re.fullmatch(self.pattern, without_clone_suffixes(frame.symbol))
        return None if found is None else found.expand(self.detail)


def without_clone_suffixes(symbol: str) -> str:
    """Return a function's name without the suffixes of clones, such as ``.constprop.0.cold``."""
    parts = symbol.split(".")
    end = len(parts)
    while end > 1:
        numbered = end > 2 and parts[end - 1].isdecimal()
        if parts[end - 1 - numbered] not in _CLONES:
            break
        end -= 1 + numbered
    return ".".join(parts[:end])


class ClassTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"rules": "rule", "classes": "class"}):
    """A file with rules, in the order in which they are tried, and classes; of two classes with one name the first is used."""

    rules: tuple[Rule, ...] = ()
    classes: tuple[CostClass, ...] = ()


class CostClasses:
    """A table of classes.

    Args:
        table: its rules and classes.
        shared: whether the programs have a shared C library.
    """

    def __init__(self, table: ClassTable, *, shared: bool = False) -> None:
        self._table, self._shared = table, shared
        self._classes = {each.name: each for each in reversed(table.classes)}
        self._of_frame = functools.lru_cache(maxsize=1 << 16)(self._class_of)  # each is on many stacks

    def for_row(self, seen: RowMeasurements) -> CostClasses:
        """Return the table for a row: it depends on whether both programs have a shared C library, by the files of their frames."""
        profiles = ((run.variant, run.profile.frames if run.profile else ()) for run in seen.runs)
        with_library = {name for name, frames in profiles if any(_C_LIBRARY.fullmatch(each.object) for each in frames)}
        shared = all(reference.variant in with_library for reference in seen.references)
        return self if shared == self._shared else CostClasses(self._table, shared=shared)

    def named(self, name: str) -> CostClass:
        """Return how findings of a class are worded; a class without an entry has the default wording."""
        return self._classes.get(name) or CostClass(name)

    def of(self, stack: Sequence[Frame]) -> tuple[str, str]:
        """Return the class of a stack, and its detail.

        Args:
            stack: the outermost frame first.
        """
        name, detail = self._of(stack)
        return name, common_call(detail) if name == SYSTEM_CALLS else detail

    def of_stacks(self, profile: Profile) -> list[tuple[str, str]]:
        """Return the class of each stack of a profile, and its detail.

        Samples at the entry into the kernel do not show which system call it is, unless a function of the C library that makes this
        call alone is on the stack. They belong to the call that the same callers make most, by the samples of the profile. Otherwise one
        C library has more time under `ENTRY` than another: musl makes most calls inline.
        """
        stacks = [frames for frames, _ in profile.weighted()]
        found = [self.of(frames) for frames in stacks]
        known: dict[tuple[Frame, ...], collections.Counter[tuple[str, str]]] = {}
        callers = [self._callers(frames) for frames in stacks]
        for key, frames, whose, stack in zip(found, stacks, callers, profile.stacks, strict=True):
            if (
                key[1] != ENTRY
                and key[0] in {SYSTEM_CALLS, LOCKS, SIGNALS}
                and any(each.object == KERNEL for each in frames)
            ):
                for part in (whose, whose[-1:]):
                    known.setdefault(part, collections.Counter())[key] += stack.weight  # type: ignore[assignment]
        for number, whose in enumerate(callers):
            if found[number] == (SYSTEM_CALLS, ENTRY) and (most := known.get(whose) or known.get(whose[-1:])):
                found[number] = most.most_common(1)[0][0]
        return found

    def _callers(self, stack: Sequence[Frame]) -> tuple[Frame, ...]:
        """Return the frames outside the kernel, without those by which a C library makes any system call."""
        user = [frame for frame in stack if frame.object != KERNEL]
        while user and self._of_frame(user[-1]) == (SYSTEM_CALLS, ENTRY):
            user.pop()
        return tuple(user)

    def _of(self, stack: Sequence[Frame]) -> tuple[str, str]:
        kernel = [frame for frame in stack if frame.object == KERNEL]
        found = self._of_kernel(kernel)
        if any(name == SIGNALS for name, _ in found):  # whatever entered the kernel before
            return SIGNALS, ""
        if found and found[0][0] == SYSTEM_CALLS and any(name == FAULTS for name, _ in found):
            # The fault is on a page of the caller, which the system call is merely the first to access.
            return FAULTS, f"in {found[0][1]}"
        if found:
            return self._named(found[0], stack)
        if kernel:
            return KERNEL_OTHER, ""
        for frame in reversed(stack):
            user = self._of_frame(frame)
            if user is not None:
                return self._named(user, stack)
            if frame.object == OWN_OBJECT:  # frames outside the program's own, such as its start-up code, don't decide
                break
        return self._rest(stack)

    def _named(self, found: tuple[str, str], stack: Sequence[Frame]) -> tuple[str, str]:
        """Attribute the entry to and exit from the kernel to the system call whose wrapper is on the stack, if there is one."""
        if found != (SYSTEM_CALLS, ENTRY):
            return found
        callers = self._callers(stack)
        by_user = self._of_frame(callers[-1]) if callers else None
        return by_user if by_user and by_user[0] in {SYSTEM_CALLS, SIGNALS} else found

    def _of_kernel(self, kernel: Sequence[Frame]) -> list[tuple[str, str]]:
        """Return the classes of kernel frames, the outermost first; the common entry of system calls comes after the call's name."""
        found = [hit for frame in kernel if (hit := self._of_frame(frame)) is not None]
        return sorted(found, key=lambda one: one[1] == ENTRY)

    def _class_of(self, frame: Frame) -> tuple[str, str] | None:
        matches = ((rule.name, rule.match(frame, shared=self._shared)) for rule in self._table.rules)
        return next(((name, detail) for name, detail in matches if detail is not None), None)

    def _rest(self, stack: Sequence[Frame]) -> tuple[str, str]:
        """Return the class of a stack without a matching rule, by the object of its innermost frame."""
        if not stack or stack[-1].object == "":
            return UNNAMED, ""
        last = stack[-1]
        if last.object == OWN_OBJECT:
            # The functions of a stripped program have no names, but belong to it.
            return OWN, ""
        return (UNNAMED, last.object) if last.symbol == UNKNOWN else (OTHER, last.object)


def load_classes(extra: Path | None = None) -> CostClasses:
    """Read the table.

    Args:
        extra: a TOML file of the same form, whose rules are tried first and whose classes replace ours; or None.

    Raises:
        UserError: the file can't be read, or an entry is invalid; names the entry and the reason.
    """
    try:
        mine = decode_classes(extra.read_bytes(), str(extra)) if extra else ClassTable()
    except OSError as error:
        raise UserError(f"{extra} can't be read as a table of classes: {error}", _HINT) from error
    path = Path(__file__).with_name("classes.toml")
    ours = decode_classes(path.read_bytes(), str(path))
    return CostClasses(ClassTable((*mine.rules, *ours.rules), (*mine.classes, *ours.classes)))


def decode_classes(content: bytes, name: str) -> ClassTable:
    """Decode a table of classes.

    Args:
        content: the whole file.
        name: of the file, for the error.

    Raises:
        UserError: it is no table, or an entry is invalid; names the entry and the reason.
    """
    try:
        return msgspec.convert(decode_toml(content), ClassTable)
    except (TomlError, msgspec.ValidationError) as error:
        raise UserError(f"{name} can't be read as a table of classes: {error}", _HINT) from error


_MMAP_LOCK_USERS = (
    *(
        "lock_mm_and_find_vma",
        "__vm_munmap",
        "vm_mmap_pgoff",
        "do_madvise",
        "madvise",
        "do_mprotect",
        "__do_sys_mremap",
    ),
    *(
        "__do_sys_brk",
        "__x64_sys_brk",
        "__arm64_sys_brk",
        "__riscv_sys_brk",
        "do_page_fault",
        "do_user_addr_fault",
        "exc_page_fault",
        "exit_mmap",
    ),
)
"""Prefixes of kernel functions that take the lock of an address space (mmap_lock) or of its areas (VMA locks)."""


def wait_class(frames: Sequence[Frame], classes: CostClasses) -> tuple[str, str]:
    """Return the class of a wait, by the stack with which the thread was switched out."""
    name, detail = classes.of(frames)
    if name == LOCKS:
        return LOCKS, detail
    kernel = [frame.symbol for frame in frames if frame.object == KERNEL]
    if any(symbol.startswith(KERNEL_LOCKS) for symbol in kernel):
        lock = "address space" if any(symbol.startswith(_MMAP_LOCK_USERS) for symbol in kernel) else "kernel"
        return LOCKS, f"of the {lock}, in {detail or name}"
    if not frames:
        return UNNAMED, "waiting"
    return WAITING, f"in {detail or name}"

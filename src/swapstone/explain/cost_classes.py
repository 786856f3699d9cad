"""Which class of cost a stack belongs to, by a table of patterns that users can extend."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

from swapstone.model import KERNEL, OWN_OBJECT, Frame, UserError

OWN, OTHER, UNNAMED, KERNEL_OTHER = "own code", "C library, other", "unnamed", "kernel, other"
WAITING, READY = "waiting", "no processor"
LOCKS, SYSTEM_CALLS, FAULTS, ALLOCATOR, COPIES = (
    "locks",
    "system calls",
    "page faults",
    "allocator",
    "copies and strings",
)
UNKNOWN = "[unknown]"
ENTRY = "entry and exit"
_CLONE = re.compile(r"(?:\.(?:constprop|isra|part|cold|lto_priv|llvm)(?:\.\d+)?)+$")
"""What compilers append to the name of a function that they made of another."""

_KEYS = {"class", "where", "pattern", "detail"}


class _Rule:
    """One line of the table."""

    def __init__(self, entry: dict[str, str]) -> None:
        self.name = entry["class"]
        self.where = entry["where"]
        self.detail = entry.get("detail", "")
        self.pattern = re.compile(entry["pattern"])
        self.object = None if self.where in {"user", "kernel"} else re.compile(self.where)

    def match(self, frame: Frame) -> str | None:
        """Return the detail if the frame is of this class, else None."""
        kernel = frame.object == KERNEL
        if (self.where == "kernel") != kernel:
            return None
        if self.object is not None and not self.object.fullmatch(frame.object):
            return None
        found = self.pattern.fullmatch(_CLONE.sub("", frame.symbol))
        return None if found is None else found.expand(self.detail)


class Classes:
    """A table of classes.

    Args:
        rules: in the order in which they are tried.
    """

    def __init__(self, rules: Sequence[dict[str, str]]) -> None:
        found = [_Rule(rule) for rule in rules]
        self._kernel = [rule for rule in found if rule.where == "kernel"]
        self._user = [rule for rule in found if rule.where != "kernel"]
        self._of_user = functools.lru_cache(maxsize=1 << 16)(self._user_class)

    def of(self, stack: Sequence[Frame]) -> tuple[str, str]:
        """Return the class of a stack, and its detail.

        Args:
            stack: the outermost frame first.
        """
        kernel = [frame for frame in stack if frame.object == KERNEL]
        found = self._of_kernel(kernel)
        if found and found[0][0] == SYSTEM_CALLS and any(name == FAULTS for name, _ in found):
            # The kernel touches a caller's page that is not there: the call only happens to be the first to touch it.
            return FAULTS, f"in {found[0][1]}"
        if found:
            return self._named(found[0], stack)
        if kernel:
            return KERNEL_OTHER, ""
        for frame in reversed(stack):
            user = self._of_user(frame)
            if user is not None:
                return user
            if frame.object == OWN_OBJECT:  # what the program calls is the program's affair, whoever called the program
                break
        return self._rest(stack)

    def _named(self, found: tuple[str, str], stack: Sequence[Frame]) -> tuple[str, str]:
        """Give the way into the kernel and back the name of the system call whose wrapper made it, where that is known."""
        if found != (SYSTEM_CALLS, ENTRY):
            return found
        user = next((frame for frame in reversed(stack) if frame.object != KERNEL), None)
        by_user = self._of_user(user) if user else None
        return by_user if by_user and by_user[0] == SYSTEM_CALLS else found

    def _of_kernel(self, kernel: Sequence[Frame]) -> list[tuple[str, str]]:
        """Return the classes of kernel frames, the outermost first; the entry to all system calls comes after the call's own name."""
        found = []
        for frame in kernel:
            hit = next(
                ((rule.name, detail) for rule in self._kernel if (detail := rule.match(frame)) is not None), None
            )
            if hit is not None:
                found.append(hit)
        return sorted(found, key=lambda one: one[1] == ENTRY)

    def _user_class(self, frame: Frame) -> tuple[str, str] | None:
        for rule in self._user:
            detail = rule.match(frame)
            if detail is not None:
                return rule.name, detail
        return None

    def _rest(self, stack: Sequence[Frame]) -> tuple[str, str]:
        """Return the class of a stack that no rule names, by where its innermost frame lies."""
        if not stack or stack[-1].object == "":
            return UNNAMED, ""
        last = stack[-1]
        if last.object == OWN_OBJECT:
            # A stripped program's functions have no names, but they are the program's.
            return OWN, ""
        return (UNNAMED, last.object) if last.symbol == UNKNOWN else (OTHER, last.object)


def load_classes(extra: Path | None = None) -> Classes:
    """Read the table, with a user's rules before it.

    Args:
        extra: a TOML file of the same form, or None.

    Raises:
        UserError: it can't be read, or a rule in it is wrong; says which and why.
    """
    own = _read(Path(__file__).with_name("classes.toml"))
    return Classes([*(_read(extra) if extra else []), *own])


def _read(path: Path) -> list[dict[str, str]]:
    hint = 'A rule is: [[rule]] class = "allocator" where = "user" pattern = "my_alloc.*"'
    try:
        data = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} can't be read as a table of classes: {error}", hint) from error
    rules = data.pop("rule", [])
    if data or not isinstance(rules, list):
        raise UserError(f"{path} holds something else than rules: {', '.join(data) or 'rule'}.", hint)
    for number, rule in enumerate(rules, start=1):
        problem = _problem(rule)
        if problem:
            raise UserError(f"Rule {number} of {path}: {problem}.", hint)
    return rules


def _problem(rule: object) -> str:
    if not isinstance(rule, dict) or not {"class", "where", "pattern"} <= rule.keys():
        return "it needs class, where and pattern"
    if unknown := rule.keys() - _KEYS:
        return f"it has the unknown key {sorted(unknown)[0]!r}"
    if not all(isinstance(value, str) for value in rule.values()):
        return "its values must be texts"
    try:
        pattern = re.compile(rule["pattern"])
        re.compile(rule["where"])
    except re.error as error:
        return f"it holds no regular expression: {error}"
    if re.search(r"\\[1-9]", rule.get("detail", "")) and pattern.groups < 1:
        return "its detail names a group that its pattern doesn't have"
    return ""

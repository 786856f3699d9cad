# SPDX-License-Identifier: MIT OR Apache-2.0
"""Mutants of Python and C source: each is the text with one small change.

Of Python a node of the syntax tree is replaced; strings that a person reads, annotations and decorators are left alone. C is changed by
patterns, which expect the repository's format: a binary operator has a space on each side. `docs/testing.md` lists the changes.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

Change = tuple[str, int, int, bytes]
"""Kind, start, end, new text."""


class Mutant(NamedTuple):
    """One change of a file.

    Attributes:
        file: path below the top folder.
        line: number of the first changed line, from 1.
        kind: name of the operator.
        start, end: replaced bytes of the file.
        new: what replaces them.
        before, after: the changed lines, without indentation.
    """

    file: str
    line: int
    kind: str
    start: int
    end: int
    new: bytes
    before: str
    after: str

    def applied(self, data: bytes) -> bytes:
        """Return the file's content with the change."""
        return data[: self.start] + self.new + data[self.end :]


def mutants(file: str, data: bytes) -> list[Mutant]:
    """Return every mutant of a file, in the order of the text.

    Args:
        file: its path; ``.py`` and ``.c`` are supported.
        data: its content, UTF-8.
    """
    changes = _python(data) if file.endswith(".py") else _c(data)
    unique = {change[1:]: change for change in changes}
    return [_mutant(file, data, unique[key]) for key in sorted(unique)]


def substitution(file: str, data: bytes, old: str, new: str) -> Mutant:
    """Return the mutant that replaces a text.

    Args:
        file: path of the file.
        data: its content.
        old: occurs exactly once.
        new: what replaces it.

    Raises:
        ValueError: `old` does not occur exactly once.
    """
    if (count := data.count(old.encode())) != 1:
        raise ValueError(f"{file} contains this text {count} times, not once: {old}")
    start = data.index(old.encode())
    return _mutant(file, data, ("by hand", start, start + len(old.encode()), new.encode()))


def _mutant(file: str, data: bytes, change: Change) -> Mutant:
    kind, start, end, new = change
    left, right = data.rfind(b"\n", 0, start) + 1, data.find(b"\n", end) % (len(data) + 1)
    shown = [" ".join(part.decode().split()) for part in (data[left:right], data[left:start] + new + data[end:right])]
    return Mutant(file, data.count(b"\n", 0, start) + 1, kind, start, end, new, *shown)


# Python

_SWAPPED: dict[type[ast.AST], tuple[Any, ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,),
    ast.Mod: (ast.Mult,),
    ast.Pow: (ast.Mult,),
    ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.BitXor: (ast.BitAnd,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
}
_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "ceil": "floor", "floor": "ceil"}
_LEFT_OUT = {"annotation", "returns", "decorator_list", "bases", "keywords of ClassDef"}
"""Fields of nodes whose content is not changed."""
_ENCODINGS = ("ascii", "utf-8", "latin-1")
"""Names that Python looks up without their punctuation, so that a changed one names the same encoding."""


def _python(data: bytes) -> Iterator[Change]:
    starts = [0, *itertools.accumulate(map(len, data.splitlines(keepends=True)))]
    for node in _visited(ast.parse(data)):
        for kind, old, new in _replaced(node):
            text = ast.unparse(new)
            if isinstance(old, ast.expr) and not isinstance(new, ast.Constant | ast.Name | ast.Attribute):
                text = f"({text})"
            end = starts[(old.end_lineno or 0) - 1] + (old.end_col_offset or 0)
            yield kind, starts[old.lineno - 1] + old.col_offset, end, text.encode()


def _visited(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and those below it that may be changed; `strict` of `zip` is an assertion on the lengths."""
    match node:
        case (
            ast.Import()
            | ast.ImportFrom()
            | ast.Assert()
            | ast.JoinedStr()
            | ast.Expr(value=ast.Constant())
            | ast.keyword(arg="strict")
            | ast.Assign(targets=[ast.Name(id="__all__")])
            | ast.Call(func=ast.Name(id="TypeVar" | "NewType" | "cast"))
        ):
            return
    yield node
    for name, value in ast.iter_fields(node):
        if not {name, f"{name} of {type(node).__name__}"} & _LEFT_OUT:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _visited(child)


def _replaced(node: ast.AST) -> Iterator[tuple[str, ast.stmt | ast.expr, ast.AST]]:  # noqa: PLR0912 # one case for each kind of node
    """Yield the changes of one node without its children: kind, the node that is replaced, and what replaces it."""
    match node:
        case ast.Compare(left, ops, comparators):
            for at, operator in enumerate(ops):
                for new in _SWAPPED[type(operator)]:
                    yield "comparison", node, ast.Compare(left, [*ops[:at], new(), *ops[at + 1 :]], comparators)
        case ast.BoolOp(operator, values):
            yield "logic", node, ast.BoolOp(_SWAPPED[type(operator)][0](), values)
            for at in range(len(values)):
                yield "removed operand", node, _joined(operator, values[:at] + values[at + 1 :])
        case ast.BinOp(left, operator, right) if type(operator) in _SWAPPED and not (_is_text(left) or _is_text(right)):
            yield "arithmetic", node, ast.BinOp(left, _SWAPPED[type(operator)][0](), right)
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield "removed sign", node, operand
        case ast.IfExp(test) | ast.If(test) | ast.While(test):
            yield from _negated(test)
        case ast.comprehension(ifs=tests):
            for test in tests:
                yield from _negated(test)
        case ast.Constant(value):
            for other in _constants(value):
                yield "constant", node, ast.Constant(other)
        case ast.Call(ast.Name("abs"), [argument]):
            yield "other function", node, argument
        case ast.Call(ast.Name("sorted" | "reversed") as name, [_], []):
            yield "other function", name, ast.Name("list")
        case ast.Call(ast.Name(name) as function) if name in _CALLS:
            yield "other function", function, ast.Name(_CALLS[name])
        case ast.Call(ast.Attribute(value, name) as function) if name in _CALLS:
            yield "other function", function, ast.Attribute(value, _CALLS[name])
        case ast.Return(ast.Tuple([first, second, *rest])):
            yield "swapped return", node, ast.Return(ast.Tuple([second, first, *rest]))
        case ast.Return(value) if value and not isinstance(value, ast.Constant):
            yield "swapped return", node, ast.Return(ast.Constant(None))
        case ast.Break():
            yield "removed statement", node, ast.Continue()
        case ast.AugAssign(target, operator, value):
            yield "removed statement", node, ast.Pass()
            if type(operator) in _SWAPPED and not _is_text(value):
                yield "arithmetic", node, ast.AugAssign(target, _SWAPPED[type(operator)][0](), value)
        case ast.Expr(ast.Call()) | ast.Raise() | ast.Continue() | ast.Assign([ast.Attribute() | ast.Subscript()]):
            yield "removed statement", node, ast.Pass()


def _joined(operator: ast.boolop, values: list[ast.expr]) -> ast.expr:
    return ast.BoolOp(operator, values) if values[1:] else values[0]


def _negated(test: ast.expr) -> Iterator[tuple[str, ast.expr, ast.AST]]:
    """Negate a condition, but none that the changes of comparisons and signs negate."""
    match test:
        case ast.Compare(ops=[_]) | ast.UnaryOp(ast.Not()):
            return
    yield "negated condition", test, ast.UnaryOp(ast.Not(), test)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _constants(value: object) -> Sequence[int | float | str | bytes]:
    """Return the changed values of a constant. Text of several words is for a person and is not changed."""
    match value:
        case bool():
            return [not value]
        case int() | float() if not value:
            return [value + 1]
        case int():
            return [value + 1, value - 1]
        case float():
            return [value * 2, value / 2]
        case str() if value.split() == [value] and value not in _ENCODINGS:
            return [value + "?"]
        case bytes() if value.split() == [value]:
            return [value + b"?"]
    return []


# C

_IGNORED = re.compile(
    rb"//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n\\]|\\.)*|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)+'", re.DOTALL | re.MULTILINE
)
"""Comments, directives and text."""

_C_OPERATORS: dict[bytes, tuple[bytes, ...]] = {
    b"<": (b"<=", b">="),
    b"<=": (b"<", b">"),
    b">": (b">=", b"<="),
    b">=": (b">", b"<"),
    b"==": (b"!=",),
    b"!=": (b"==",),
    b"&&": (b"||",),
    b"||": (b"&&",),
    b"+": (b"-",),
    b"-": (b"+",),
    b"*": (b"/",),
    b"/": (b"*",),
    b"%": (b"*",),
    b"&": (b"|",),
    b"|": (b"&",),
    b"<<": (b">>",),
    b">>": (b"<<",),
    b"+=": (b"-=", b"="),
    b"-=": (b"+=", b"="),
    b"&=": (b"|=", b"="),
    b"|=": (b"&=", b"="),
}


def _neighbours(text: bytes) -> list[bytes]:
    """Return the numbers beside one, with its suffix, such as ``UL``."""
    digits = text.rstrip(b"uUlL")
    value = int(digits, 0)
    return [b"%d%s" % (other, text[len(digits) :]) for other in (value + 1, value - 1) if other >= 0]


_C_CHANGES: tuple[tuple[str, bytes, Callable[[bytes], Sequence[bytes]]], ...] = (
    ("operator", rb"(?<=[ \n])[-+*/%&|<>=!]{1,2}(?=[ \n])", lambda text: _C_OPERATORS.get(text, ())),
    ("removed sign", rb"!(?=[\w(])", lambda _: (b"",)),
    ("constant", rb"\btrue\b", lambda _: (b"false",)),
    ("constant", rb"\bfalse\b", lambda _: (b"true",)),
    ("constant", rb"(?<![\w.])(?:0[xX][0-9a-fA-F]+|[1-9][0-9]*|0)[uUlL]*(?![\w.])", _neighbours),
    ("negated condition", rb"(?<=\bif \()[^!\n].*(?=\)(?: \{)?$)", lambda text: (b"!(" + text + b")",)),
    ("negated condition", rb"(?<=\bwhile \()[^!\n].*(?=\)(?: \{)?$)", lambda text: (b"!(" + text + b")",)),
    ("removed statement", rb"^[ \t]+(?:break|continue|[\w.>-]+(?:\+\+|--));$", lambda _: (b";",)),
    ("removed statement", rb"^[ \t]+[\w.>\[\]-]+ [-+|&]?= [^;{}\n]*;$", lambda _: (b";",)),
    ("removed statement", rb"^[ \t]+(?!return|goto|else|case)[\w.>-]+\([^;{}\n]*\);$", lambda _: (b";",)),
)
"""Kind, pattern, and what replaces a match."""


def _c(data: bytes) -> Iterator[Change]:
    code = _IGNORED.sub(lambda found: re.sub(rb"[^\n]", b"\0", found[0]), data)
    for kind, pattern, replaced in _C_CHANGES:
        for found in re.finditer(pattern, code, re.MULTILINE):
            yield from ((kind, *found.span(), new) for new in replaced(data[slice(*found.span())]))

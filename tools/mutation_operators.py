# SPDX-License-Identifier: MIT OR Apache-2.0
"""Mutants of Python and C source: each is the text with one small change.

Python is parsed, and text is replaced where a node stands; strings that a person reads, annotations and decorators are left alone. C is
read as tokens, and expects the repository's format: a binary operator has a space on each side. `docs/testing.md` lists the changes.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator

MODULE = ""
"""`Mutant.function` outside functions."""

_ENCODINGS = frozenset({"ascii", "utf-8", "latin-1"})
"""Names that Python looks up without their punctuation, so that a changed one names the same encoding."""


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One change of a file.

    Attributes:
        file: path below the top folder.
        line: number of the first changed line, from 1.
        function: qualified name of the outermost function or method around it; `MODULE` outside functions.
        kind: name of the operator.
        start, end: replaced bytes of the file.
        new: what replaces them.
        before, after: the changed lines, without indentation.
    """

    file: str
    line: int
    function: str
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
    """Return every mutant of a file, in the order of the text. `is_valid` excludes a few of them.

    Args:
        file: its path; ``.py`` and ``.c`` are supported.
        data: its content, UTF-8.
    """
    found = _python(file, data) if file.endswith(".py") else _c(file, data)
    unique = {(each.start, each.end, each.new): each for each in found}
    return sorted(unique.values(), key=lambda each: (each.start, each.end, each.new))


def is_valid(mutant: Mutant, data: bytes) -> bool:
    """Return whether a mutant of a Python file is a program, and another one than the file. Of C the compiler decides."""
    if not mutant.file.endswith(".py"):
        return True
    try:
        changed = ast.parse(mutant.applied(data))
    except SyntaxError:
        return False
    return ast.dump(changed) != ast.dump(ast.parse(data))


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
    function = function_at(file, data, start)
    return _mutant(file, data, function, ("by hand", start, start + len(old.encode()), new.encode()))


def function_at(file: str, data: bytes, offset: int) -> str:
    """Return the qualified name of the outermost function or method around an offset; `MODULE` if there is none."""
    if not file.endswith(".py"):
        return MODULE
    source = _Source(data)
    for name, node in _functions(ast.parse(data), ""):
        start, end = source.span(node)
        if start <= offset < end:
            return name
    return MODULE


def _functions(parent: ast.AST, prefix: str) -> Iterator[tuple[str, ast.stmt]]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, node
        elif isinstance(node, ast.If | ast.Try | ast.With):
            yield from _functions(node, prefix)


def _mutant(file: str, data: bytes, function: str, change: tuple[str, int, int, bytes]) -> Mutant:
    kind, start, end, new = change
    left = data.rfind(b"\n", 0, start) + 1
    right = data.find(b"\n", end)
    right = len(data) if right < 0 else right
    before, after = data[left:right], data[left:start] + new + data[end:right]
    line = data.count(b"\n", 0, start) + 1
    return Mutant(file, line, function, kind, start, end, new, _shown(before), _shown(after))


def _shown(lines: bytes) -> str:
    return " ".join(lines.decode(errors="replace").split())


# Python

_COMPARISONS: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: (r"is\s+not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: (r"not\s+in", ("in",)),
}
_ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: (r"\*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.Pow: (r"\*\*", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: (r"\|", "&"),
    ast.BitXor: (r"\^", "&"),
}
_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "ceil": "floor", "floor": "ceil"}
_UNWRAPPED = {"abs": "", "sorted": "list", "reversed": "list"}
_SKIPPED_CALLS = {"TypeVar", "NewType", "cast"}


Change = tuple[str, int, int, str]
"""Kind, start, end, new text."""


def _python(file: str, data: bytes) -> Iterator[Mutant]:
    source = _Source(data)
    for function, node in _visited(ast.parse(data), MODULE, ""):
        for kind, start, end, new in source.changes(node):
            yield _mutant(file, data, function, (kind, start, end, new.encode()))


def _visited(parent: ast.AST, function: str, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield the nodes that may be changed, each with the outermost function around it."""
    for node in _children(parent):
        inside, path = function, prefix
        if isinstance(node, ast.ClassDef) and function == MODULE:
            path = f"{prefix}{node.name}."
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and function == MODULE:
            inside = prefix + node.name
        yield inside, node
        yield from _visited(node, inside, path)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield child nodes without annotations, decorators, arguments of class statements, docstrings and parts of f-strings."""
    if isinstance(node, ast.JoinedStr):
        return
    left_out = {"annotation", "returns", "decorator_list", "bases"}
    if isinstance(node, ast.keyword) and node.arg == "strict":  # of zip: an assertion on the lengths
        return
    if isinstance(node, ast.ClassDef):
        left_out.add("keywords")
    for name, value in ast.iter_fields(node):
        if name in left_out:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _left_alone(child):
                yield child


def _left_alone(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr):  # a docstring, or the body of an abstract function
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in _SKIPPED_CALLS
    return isinstance(node, ast.Import | ast.ImportFrom | ast.Assert)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


class _Source:
    """The text of a Python file, and the changes of its nodes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._starts = [0]
        for line in data.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        """Return the byte offsets of a node."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return (
            self._starts[node.lineno - 1] + node.col_offset,
            self._starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def text(self, node: ast.expr) -> str:
        """Return a node's text without parentheses around it."""
        start, end = self.span(node)
        return self._data[start:end].decode()

    def changes(self, node: ast.AST) -> Iterator[Change]:
        """Return the changes of one node, without its children."""
        if isinstance(node, ast.stmt):
            yield from self._of_statement(node)
        match node:
            case ast.Compare():
                operands = [node.left, *node.comparators]
                for number, operator in enumerate(node.ops):
                    old, new = _COMPARISONS[type(operator)]
                    yield from self._between("comparison", (operands[number], operands[number + 1]), old, new)
            case ast.BinOp() if type(node.op) in _ARITHMETIC and not _is_text(node.left) and not _is_text(node.right):
                old, other = _ARITHMETIC[type(node.op)]
                yield from self._between("arithmetic", (node.left, node.right), old, (other,))
            case ast.BoolOp():
                yield from self._of_logic(node)
            case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
                yield "removed sign", *self.span(node), f"({self.text(operand)})"
            case ast.IfExp(test=test):
                yield from self._negated(test)
            case ast.comprehension(ifs=tests):
                for test in tests:
                    yield from self._negated(test)
            case ast.Constant():
                yield from self._of_constant(node)
            case ast.Call(func=ast.Name() | ast.Attribute()):
                yield from self._of_call(node)

    def _between(
        self, kind: str, operands: tuple[ast.expr, ast.expr], old: str, new: Iterable[str]
    ) -> Iterator[Change]:
        """Replace an operator in the text between its operands."""
        start, end = self.span(operands[0])[1], self.span(operands[1])[0]
        if found := re.search(rf"(?<![\w*/<>]){old}(?![\w*/<>=])".encode(), self._data[start:end]):
            for each in new:
                yield kind, start + found.start(), start + found.end(), each

    def _of_logic(self, node: ast.BoolOp) -> Iterator[Change]:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            yield from self._between("logic", (left, right), old, (new,))
        for left_out in node.values:
            kept = [f"({self.text(value)})" for value in node.values if value is not left_out]
            yield "removed operand", *self.span(node), f"({f' {old} '.join(kept)})"

    def _negated(self, test: ast.expr) -> Iterator[Change]:
        simple = isinstance(test, ast.Compare) and len(test.ops) == 1  # the comparisons include its negation
        if not simple and not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
            yield "negated condition", *self.span(test), f"(not ({self.text(test)}))"

    def _of_constant(self, node: ast.Constant) -> Iterator[Change]:
        new: list[str] = []
        match node.value:
            case bool():
                new = [str(not node.value)]
            case int():
                new = [str(node.value + 1), *([str(node.value - 1)] if node.value > 0 else [])]
            case float():
                new = [repr(node.value * 2), repr(node.value / 2)] if node.value else ["1.0"]
            case str() if node.value in _ENCODINGS:
                pass
            case str() if node.value.split() == [node.value]:  # text of several words is for a person
                new = [repr(node.value + "?")]
            case bytes() if node.value.split() == [node.value]:
                new = [repr(node.value + b"?")]
        for each in new:
            yield "constant", *self.span(node), each

    def _of_call(self, node: ast.Call) -> Iterator[Change]:
        plain = isinstance(node.func, ast.Name)
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        end = self.span(node.func)[1]
        start = end - len(name.encode())
        if name in _CALLS:
            yield "other function", start, end, _CALLS[name]
        if plain and name in _UNWRAPPED and len(node.args) == 1 and not node.keywords:
            yield "other function", start, end, _UNWRAPPED[name]

    def _of_statement(self, node: ast.stmt) -> Iterator[Change]:
        start, end = self.span(node)
        match node:
            case ast.If(test=test) | ast.While(test=test):
                yield from self._negated(test)
            case ast.AugAssign():
                yield "removed statement", start, end, "pass"
                if type(node.op) in _ARITHMETIC and not _is_text(node.value):
                    old, other = _ARITHMETIC[type(node.op)]
                    yield from self._between("arithmetic", (node.target, node.value), f"{old}=", (f"{other}=",))
            case ast.Return(value=ast.Tuple(elts=[first, second, *rest])):
                texts = [f"({self.text(each)})" for each in (second, first, *rest)]
                yield "swapped return", start, end, f"return ({', '.join(texts)})"
            case ast.Return(value=ast.Constant() | None):
                return
            case ast.Return():
                yield "swapped return", start, end, "return None"
            case ast.Expr(value=ast.Call()) | ast.Raise() | ast.Continue():
                yield "removed statement", start, end, "pass"
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                yield "removed statement", start, end, "pass"
            case ast.Break():
                yield "removed statement", start, end, "continue"


# C

_TOKEN = re.compile(
    rb"""(?P<skipped>//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:[^\n\\]|\\.)*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+')
    |(?P<number>\b(?:0[xX][0-9a-fA-F]+|[0-9]+)(?P<suffix>[uUlL]*)\b)
    |(?P<word>\b[A-Za-z_]\w*\b)
    |(?P<operator><<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^!<>=?:;,.()\[\]{}~])""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
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
_C_STATEMENT = re.compile(
    rb"^(?P<indent>[ \t]+)(?P<text>(?:[\w.>\[\]-]+ [-+|&]?= [^;{}\n]*|[\w.>-]+\([^;{}\n]*\)|break|continue|[\w.>-]+(?:\+\+|--));)$",
    re.M,
)
_C_WORDS = {b"true": b"false", b"false": b"true"}


def _c(file: str, data: bytes) -> Iterator[Mutant]:
    code = _without_comments(data)

    def made(kind: str, start: int, end: int, new: bytes) -> Mutant:
        return _mutant(file, data, MODULE, (kind, start, end, new))

    for token in _TOKEN.finditer(data):
        start, end = token.span()
        if token["operator"]:
            yield from _c_operator(token, data, made)
        elif token["number"]:
            value = int(token["number"].rstrip(b"uUlL"), 0) if not re.match(rb"0[0-7]", token["number"]) else -1
            if value >= 0:
                yield made("constant", start, end, b"%d%s" % (value + 1, token["suffix"]))
                if value > 0:
                    yield made("constant", start, end, b"%d%s" % (value - 1, token["suffix"]))
        elif token["word"] in _C_WORDS:
            yield made("constant", start, end, _C_WORDS[token["word"]])
        elif token["word"] in {b"if", b"while"} and (condition := _parenthesised(code, end)):
            inner = data[condition[0] + 1 : condition[1] - 1]
            if not inner.startswith(b"!"):  # the sign is removed
                yield made("negated condition", condition[0] + 1, condition[1] - 1, b"!(" + inner + b")")
    for found in _C_STATEMENT.finditer(code):
        if not re.match(rb"(?:return|goto|else|case)\b", found["text"]):
            yield made("removed statement", *found.span("text"), b";")


def _c_operator(
    token: re.Match[bytes], data: bytes, made: Callable[[str, int, int, bytes], Mutant]
) -> Iterator[Mutant]:
    start, end = token.span()
    operator = token["operator"]
    if operator == b"!":
        yield made("removed sign", start, end, b"")
    # Without spaces it is unary, or a part of a pointer's type.
    spaced = data[start - 1 : start] in {b" ", b"\n"} and data[end : end + 1] in {b" ", b"\n"}
    for new in _C_OPERATORS.get(operator, ()) if spaced else ():
        kind = "comparison" if operator in {b"<", b"<=", b">", b">=", b"==", b"!="} else "arithmetic"
        yield made("logic" if operator in {b"&&", b"||"} else kind, start, end, new)


def _without_comments(data: bytes) -> bytes:
    """Return the text with comments, strings and directives replaced by blanks of the same length."""

    def blank(found: re.Match[bytes]) -> bytes:
        return re.sub(rb"[^\n]", b" ", found[0]) if found["skipped"] and found[0][:1] not in b"\"'" else found[0]

    return _TOKEN.sub(blank, data)


def _parenthesised(code: bytes, at: int) -> tuple[int, int] | None:
    """Return the span of the parentheses that follow, those included; None if none follow, or a string is inside."""
    start = at + (code[at : at + 1] == b" ")
    depth = 0
    for position in range(start, len(code)):
        byte = code[position : position + 1]
        if byte in b"\"'":
            return None
        depth += (byte == b"(") - (byte == b")")
        if depth == 0:
            return (start, position + 1) if position > start else None
    return None

# SPDX-License-Identifier: MIT OR Apache-2.0
"""The mutants of tools/mutate: each is a program, and another one."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest
from tools.mutation_operators import mutants, substitution

TOP = Path(__file__).parents[3]


def plain(text: str) -> str:
    """Return a line without blanks and parentheses, of which a change adds some."""
    return re.sub(r"[\s()]", "", text)


def each_plain(changes: set[tuple[str, str]]) -> set[tuple[str, str]]:
    return {(kind, plain(line)) for kind, line in changes}


def changes(text: str, file: str = "x.py") -> set[tuple[str, str]]:
    """Return kind and new line of each mutant."""
    return each_plain({(each.kind, each.after) for each in mutants(file, text.encode())})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = a < b", {("comparison", "x = a <= b"), ("comparison", "x = a >= b")}),
        ("x = a == b", {("comparison", "x = a != b")}),
        ("x = a is not b", {("comparison", "x = a is b")}),
        ("x = a not in b", {("comparison", "x = a in b")}),
        (
            "x = a <= b < c",
            {
                ("comparison", "x = a < b < c"),
                ("comparison", "x = a > b < c"),
                ("comparison", "x = a <= b <= c"),
                ("comparison", "x = a <= b >= c"),
            },
        ),
        ("x = (a + b) * c", {("arithmetic", "x = (a - b) * c"), ("arithmetic", "x = (a + b) / c")}),
        ("x = a**b", {("arithmetic", "x = a*b")}),
        ("x = a // b", {("arithmetic", "x = a * b")}),
        ("x = 'a ' + b", set()),
        (
            "x = a and (b or c)",
            {
                ("logic", "x = a or (b or c)"),
                ("logic", "x = a and (b and c)"),
                ("removed operand", "x = ((a))"),
                ("removed operand", "x = ((b or c))"),
                ("removed operand", "x = a and (((b)))"),
                ("removed operand", "x = a and (((c)))"),
            },
        ),
        ("x = not a", {("removed sign", "x = (a)")}),
        ("x = -a", {("removed sign", "x = (a)")}),
        ("x = a if b else c", {("negated condition", "x = a if (not (b)) else c")}),
        ("x = 5", {("constant", "x = 6"), ("constant", "x = 4")}),
        ("x = 0", {("constant", "x = 1")}),
        ("x = 0.5", {("constant", "x = 1.0"), ("constant", "x = 0.25")}),
        ("x = True", {("constant", "x = False")}),
        ("x = 'word'", {("constant", "x = 'word?'")}),
        ("x = b'word'", {("constant", "x = b'word?'")}),
        ("x = 'text for a person'", set()),
        ("x = a.encode('ascii')", set()),
        ("x = f'{a < 5} b'", set()),
        ("x = min(a, b)", {("other function", "x = max(a, b)")}),
        ("x = math.ceil(a)", {("other function", "x = math.floor(a)")}),
        ("x = abs(a)", {("other function", "x = (a)")}),
        ("f(a)", {("removed statement", "pass")}),
        ("a.b = c", {("removed statement", "pass")}),
        ("a = c", set()),
        ("a += c", {("removed statement", "pass"), ("arithmetic", "a -= c")}),
        ("'''A docstring.'''", set()),
        ("__all__ = ['a', 'b']", set()),
        ("T = TypeVar('T', bound='a')", set()),
        ("x: Literal[5] = y", set()),
        ("assert a < b", set()),
        ("import a", set()),
        ("zip(a, b, strict=True)", {("removed statement", "pass")}),
    ],
)
def test_each_operator_of_python(text: str, expected: set[tuple[str, str]]) -> None:
    assert changes(text) == each_plain(expected)


def test_statements_of_functions() -> None:
    text = (
        "@decorated(1)\n"
        "def f(a: int = 3) -> Annotated[int, 4]:\n"
        "    while a:\n"
        "        if b:\n"
        "            continue\n"
        "        break\n"
        "    if a < b:\n"
        "        raise E('no such thing')\n"
        "    return a, b\n"
    )
    assert changes(text) == each_plain(
        {
            ("constant", "def f(a: int = 4) -> Annotated[int, 4]:"),
            ("constant", "def f(a: int = 2) -> Annotated[int, 4]:"),
            ("negated condition", "while (not (a)):"),
            ("negated condition", "if (not (b)):"),
            ("removed statement", "pass"),
            ("removed statement", "continue"),
            ("comparison", "if a <= b:"),
            ("comparison", "if a >= b:"),
            ("swapped return", "return ((b), (a))"),
        }
    )
    assert changes("def f():\n    return g(a)\n") == each_plain({("swapped return", "return None")})
    assert changes("def f():\n    return\ndef g():\n    return None\n") == set()


def test_the_change_is_where_it_is_stated() -> None:
    text = '"""é"""\nx = "é" if a < b else c\n'.encode()
    (mutant,) = [each for each in mutants("x.py", text) if "<=" in each.after]
    assert (mutant.line, mutant.before) == (2, 'x = "é" if a < b else c')
    assert mutant.applied(text).decode() == '"""é"""\nx = "é" if (a <= b) else c\n'


@pytest.mark.slow
@pytest.mark.parametrize("file", ["core/plan/stopping.py", "core/stats/summary.py", "core/wire/protocol_text.py"])
def test_nearly_every_mutant_of_a_module_is_another_program(file: str) -> None:
    data = (TOP / "src/swapstone" / file).read_bytes()
    found = mutants(file, data)
    assert len(found) > 40
    assert len({each.applied(data) for each in found}) == len(found)
    sampled = found[:: max(1, len(found) // 60)]
    original = ast.dump(ast.parse(data))
    assert all(ast.dump(ast.parse(each.applied(data))) != original for each in sampled)


def test_text_that_is_replaced_by_hand_occurs_once() -> None:
    with pytest.raises(ValueError, match="contains this text 2 times, not once: a"):
        substitution("x.py", b"a = a\n", "a", "b")


C = b"""\
#define LIMIT 5 /* not 6 */
enum { SIZE = 8 };
static int f(char *text, int count) {
    const char *end = "a < b + 3"; // x < y
    for (int i = 0; i < count; i++) {
        if (text[i] == 'x' && !done)
            break;
        total += i - 1;
        g(text, *end);
    }
    trial.killed++;
    return -count;
}
"""


def test_each_operator_of_c() -> None:
    assert changes(C.decode(), "x.c") == each_plain(
        {
            ("constant", "enum { SIZE = 9 };"),
            ("constant", "enum { SIZE = 7 };"),
            ("constant", "for (int i = 1; i < count; i++) {"),
            ("operator", "for (int i = 0; i <= count; i++) {"),
            ("operator", "for (int i = 0; i >= count; i++) {"),
            ("operator", "if (text[i] != 'x' && !done)"),
            ("operator", "if (text[i] == 'x' || !done)"),
            ("removed sign", "if (text[i] == 'x' && done)"),
            ("removed statement", ";"),
            ("operator", "total -= i - 1;"),
            ("operator", "total = i - 1;"),
            ("operator", "total += i + 1;"),
            ("constant", "total += i - 2;"),
            ("constant", "total += i - 0;"),
            ("negated condition", "if (!(text[i] == 'x' && !done))"),
        }
    )
    removed = [each.before for each in mutants("x.c", C) if each.kind == "removed statement"]
    assert removed == ["break;", "total += i - 1;", "g(text, *end);", "trial.killed++;"]
    assert ("negated condition", "if!a<b") in changes("void f(void) {\n    if (a < b)\n        g();\n}\n", "x.c")


def test_mutants_of_the_agent_compile(tmp_path: Path) -> None:
    data = (TOP / "native/agent/text.c").read_bytes()
    found = mutants("native/agent/text.c", data)
    assert len(found) > 80
    folder = tmp_path / "agent"
    folder.mkdir()
    (tmp_path / "port").symlink_to(TOP / "native/port")
    (folder / "text.h").write_bytes((TOP / "native/agent/text.h").read_bytes())
    compiled = 0
    sampled = found[:: len(found) // 15]
    for each in sampled:
        (folder / "text.c").write_bytes(each.applied(data))
        command = ["cc", "-std=gnu11", "-w", "-ffreestanding", "-fsyntax-only", str(folder / "text.c")]
        compiled += subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert compiled >= 0.9 * len(sampled)

# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a script needs beside its interpreter: commands, libraries and modules.

Texts and folders are searched for it, and nothing is executed.
"""

from __future__ import annotations

import bisect
import itertools
import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

_MOST_BYTES = 1 << 20
"""Of a script that is searched."""

_SHELLS = re.compile(r"(?:ba|da|a|k|mk|z)?sh")
_COMMAND = re.compile(
    r"(?:^|[|;&(`{!]|\b(?:then|do|else|elif|if|while|until|exec|xargs|env|time|nice|command)[ \t]|\w=[^\s`$(]*[ \t])[ \t]*"
    r"(?=([\w.+/-]+))",
    re.MULTILINE,
)
"""Also words that only seem to be commands, such as in here-documents: they matter where a program has their name."""

_COMMENT = re.compile(r"^[ \t]*#.*", re.MULTILINE)


class _Interpreter(msgspec.Struct, frozen=True):
    """Where an interpreter finds what a script imports.

    Attributes:
        name: of its file, as a pattern; its first group is the version.
        libraries: globs from the folder above its ``bin``, taken whole.
        packages: globs of folders, of which a script gets what it imports.
        imports: pattern of an import, whose group has the modules' names.
        names: pattern of a name in that group.
        endings: pattern of what follows a module's name in those of its files and folders.
    """

    name: re.Pattern[str]
    libraries: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    imports: re.Pattern[str] = re.compile(r"(?!)")
    names: re.Pattern[str] = re.compile(r".+")
    endings: re.Pattern[str] = re.compile("")


_INTERPRETERS = (
    _Interpreter(
        re.compile(r"python(3\.\d+)"),
        ("lib/python{}",),
        ("lib/python{}/site-packages", "lib/python3/dist-packages", "local/lib/python{}/dist-packages"),
        re.compile(
            r"(?:^|;)[ \t]*(?:import|from)[ \t]+([\w.]+(?:[ \t]+as[ \t]+\w+)?(?:[ \t]*,[\w., \t]+)?)", re.MULTILINE
        ),
        re.compile(r"(?<![\w.])\w+"),
        re.compile(r"(?:\.py|\.libs|\..*\.so|-.*\.dist-info)?"),
    ),
    _Interpreter(
        re.compile(r"perl([\d.]*)"),
        ("lib/*/perl-base", "lib/*/perl/5.*/auto"),
        ("lib/*/perl/5.*", "share/perl/5.*", "share/perl5", "lib/*/perl5/5.*", "lib/perl5/5.*"),
        re.compile(r"(?:^|;)[ \t]*(?:use|require)[ \t]+([A-Za-z]\w*(?:::\w+)*)", re.MULTILINE),
        endings=re.compile(r"\.pm"),
    ),
    _Interpreter(
        re.compile(r"node(js)?"),
        imports=re.compile(r"(?:require\(|import\(|from|import)[ \t]*['\"](@?[\w.-]+(?:/[\w.-]+)*)['\"]"),
        endings=re.compile(r"(?:\.[mc]?js|\.json)?"),
    ),
    _Interpreter(re.compile(r"ruby([\d.]*)"), ("lib/ruby",)),
    _Interpreter(re.compile(r"tclsh([\d.]*)"), ("share/tcltk/tcl{}", "lib/tcl{}")),
)
_UNUSED = re.compile(
    r"tests?|idlelib|distutils|msilib|wsgiref|site-packages|dist-packages|ensurepip|lib2to3|pydoc_data|tkinter|turtledemo|config-.*|_tkinter.*\.so"
    r"|.*\.opt-[12]\.pyc|.*\.(?:a|o|h|pod|pxd|pyi|pyx)"
)
"""What programs on a machine without a display do not import, or of which they get what they import."""

_TOOLS = re.compile(r"(?:^|/)(?:conftest\.py|_?testing|f2py|_?distutils|setup\.py|mypy_plugin)")
"""Modules that a package has for its tests and for builds: what they import is not followed."""

_MODULES = frozenset({".py", ".pm", ".js", ".mjs", ".cjs"})


def commands_of(shell: str, texts: Sequence[str]) -> tuple[str, ...]:
    """Return the words of shell scripts that are in the place of a command; none if the interpreter is no shell."""
    if not is_shell(shell):
        return ()
    found = (match[1] for text in texts for match in _COMMAND.finditer(_COMMENT.sub("", text)))
    return tuple(dict.fromkeys(found))


def is_shell(path: str) -> bool:
    """Whether a program is a shell, by the name of its file."""
    return _SHELLS.fullmatch(Path(path).resolve().name) is not None


def text_of(path: str | Path) -> str:
    """Return the text of a script; empty if the file is large or no text."""
    file = Path(path)
    try:
        return file.read_text(errors="replace") if is_plain(path) and file.stat().st_size <= _MOST_BYTES else ""
    except OSError:
        return ""


def is_plain(path: str | Path) -> bool:
    """Whether a path leads to a regular file that may be read, and that does not start as another user."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - a word may be any text
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(mode) and not mode & (stat.S_ISUID | stat.S_ISGID) and os.access(path, os.R_OK)


def library_files(program: str, texts: Sequence[tuple[str, str]]) -> Iterator[Path]:
    """Yield the files of an interpreter's libraries, and of the modules that a script imports, also through others.

    Args:
        program: path of the interpreter, or of a link to it, as in a virtual environment of Python.
        texts: of scripts, each with the folder of its own modules.
    """
    real = Path(program).resolve()
    found = ((each, match[1] or "") for each in _INTERPRETERS if (match := each.name.fullmatch(real.name)))
    for interpreter, version in found:
        tops = tuple(dict.fromkeys((Path(program).parent.parent, real.parent.parent)))
        yield from filter(is_plain, (top / "pyvenv.cfg" for top in tops))
        for library in _folders(interpreter.libraries, tops, version):
            yield from _tree(library)
        packages = _folders(interpreter.packages, tops, version)
        for folder, text in texts:
            yield from _imported(interpreter, Path(folder), text, packages)


def _folders(globs: Sequence[str], tops: Sequence[Path], version: str) -> list[Path]:
    return [path for top in tops for glob in globs for path in sorted(top.glob(glob.format(version)))]


def _tree(top: Path) -> Iterator[Path]:
    """Yield the files of a folder that programs may read, in a fixed order; of a file, itself."""
    for path in sorted(top.rglob("*")) if os.path.isdir(top) else (top,):  # noqa: PTH112 - no error for another user
        if is_plain(path) and not any(map(_UNUSED.fullmatch, path.relative_to(top).parts)):
            yield path


def _imported(interpreter: _Interpreter, folder: Path, text: str, packages: Sequence[Path]) -> Iterator[Path]:
    tried: set[str] = set()
    listings: dict[str, list[str]] = {}
    wanted = [(folder, text)]
    while wanted:
        here, text = wanted.pop()
        own = here.is_relative_to(folder) and "node_modules" not in here.parts
        own = own and not any(map(here.is_relative_to, packages))
        near = [*([here] if own else []), *packages]
        near += [above / "node_modules" for above in (here, *here.parents)]
        # What a package imports in a function or tries to import, it can do without.
        found = (match for match in interpreter.imports.finditer(text) if own or not _is_indented(text, match.start(1)))
        statements = (match[1] for match in found)
        names = dict.fromkeys(name[0] for each in statements for name in interpreter.names.finditer(each))
        paths = {os.path.normpath(place / name.replace("::", "/")) for place in near for name in names}
        for path in sorted(paths - tried):
            for module in _named(path, interpreter.endings, listings):
                files = list(_tree(module)) if not here.is_relative_to(module) else []
                yield from files
                followed = [
                    each
                    for each in files
                    if each.suffix in _MODULES and not _TOOLS.search(str(each.relative_to(module.parent)))
                ]
                wanted += [(each.parent, text_of(each)) for each in followed]
        tried |= paths


def _is_indented(text: str, at: int) -> bool:
    return text[text.rfind("\n", 0, at) + 1 : at][:1].isspace()


def _named(path: str, endings: re.Pattern[str], listings: dict[str, list[str]]) -> Iterator[Path]:
    """Yield the files and folders whose paths are a module's, with an ending of a module."""
    folder, _, name = path.rpartition("/")
    if folder not in listings:
        try:
            listings[folder] = sorted(each.name for each in Path(folder).iterdir())
        except OSError:  # absent, no folder, or not for this user
            listings[folder] = []
    names = listings[folder]
    for each in itertools.takewhile(lambda one: one.startswith(name), names[bisect.bisect_left(names, name) :]):
        if endings.fullmatch(each[len(name) :]):
            yield Path(folder, each)

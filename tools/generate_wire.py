# SPDX-License-Identifier: MIT OR Apache-2.0
"""Generates the words of the protocols for C, Python and docs/wire.md from native/wire/words.toml.

Usage: tools/generate-wire [--write]

Without --write, the files are compared with the table.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from pathlib import Path
from typing import Any

TABLE = "native/wire/words.toml"
NOTICE = f"Generated from {TABLE} by tools/generate-wire: do not edit."
SPDX = "SPDX-License-Identifier: MIT OR Apache-2.0"

Table = dict[str, Any]

LISTS = {"agent": ("observation", "outcome", "fact"), "plan": ("observation",)}
"""Lists of names that belong to a protocol, besides its words."""


def read_table(top: Path) -> Table:
    """Return the table of words."""
    return tomllib.loads((top / TABLE).read_text())


def words_of(table: Table, protocol: Table) -> list[str]:
    """Return all words of a protocol: those of its lines, and the names that belong to it."""
    lists = LISTS.get(protocol["name"], ())
    return [*protocol["words"], *(f"{name} {entry['name']}" for name in lists for entry in table[name])]


def digest_of(table: Table, protocol: Table) -> str:
    """Return the digest of a protocol's words: 16 hexadecimal digits of SHA-256. Their order counts, because answers are ordered."""
    text = "\n".join([protocol["header"], *words_of(table, protocol)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def version_problems(table: Table) -> list[str]:
    """Return one line for each protocol whose words differ from the words of its version."""
    found = []
    for protocol in table["protocol"]:
        name, version, digest = protocol["name"], protocol["version"], digest_of(table, protocol)
        known = {int(number): kept for number, kept in protocol["versions"].items()}
        if version not in known:
            found.append(f'{name}: version {version} is new; add `{version} = "{digest}"` to its versions')
        elif known[version] != digest:
            found.append(f"{name}: its words are not those of version {version}: raise `version` to {max(known) + 1}")
        if version != max([version, *known]):
            found.append(f"{name}: version {version} is older than {max(known)}")
    return found


def undocumented(top: Path, table: Table) -> list[str]:
    """Return one line for each word of a protocol that has no line in the protocol's document.

    A word has a line if an indented line of the part that begins with the protocol's header starts with it.
    """
    found = []
    for protocol in table["protocol"]:
        text = (top / protocol["document"]).read_text()
        part = _part(text, protocol["header"])
        if not re.search(rf"(?m)^ +{protocol['header']} {protocol['version']}(?: |$)", part):
            found.append(
                f"{protocol['name']}: {protocol['document']} has no line `{protocol['header']} {protocol['version']}`"
            )
        missing = [word for word in protocol["words"] if not re.search(rf"(?m)^ +{word}(?: |$)", part)]
        found += [f"{protocol['name']}: {protocol['document']} has no line for the word `{word}`" for word in missing]
    return found


def _part(text: str, header: str) -> str:
    """Return the section of a document in which a protocol's header line is."""
    sections = re.split(r"(?m)^(?=## )", text)[1:]
    return next((section for section in sections if re.search(rf"(?m)^ +{header} \d", section)), "")


def constant(word: str) -> str:
    """Return a word as part of a C or Python constant."""
    return word.upper().replace("-", "_")


def header_text(table: Table) -> str:
    """Return native/wire/words.h."""
    words = sorted({word for protocol in table["protocol"] for word in protocol["words"]})
    lines = [
        f"// {SPDX}",
        f"/* The words of the protocols. {NOTICE} */",
        "#ifndef WIRE_WORDS_H",
        "#define WIRE_WORDS_H",
        "",
    ]
    lines += [
        f'#define {constant(protocol["name"])}_HEADER "{protocol["header"]} {protocol["version"]}"'
        for protocol in table["protocol"]
    ]
    lines += ["", *(f'#define WORD_{constant(word)} "{word}"' for word in words), ""]
    for name, prefix in (("fact", "FACT"), ("outcome", "OUTCOME"), ("observation", "OBSERVE")):
        lines += [
            f"enum {name}_kind {{" if name == "observation" else f"enum {name} {{",
            *(f"    {prefix}_{constant(entry['name'])}," for entry in table[name]),
            f"    {prefix}_COUNT,",
            "};",
            f"extern const char *const {name}_names[{prefix}_COUNT];",
            "",
        ]
    return "\n".join([*lines, "#endif", ""])


def source_text(table: Table) -> str:
    """Return native/wire/words.c."""
    lines = [f"// {SPDX}", f"/* {NOTICE} */", "// clang-format off", '#include "words.h"']
    for name, prefix in (("fact", "FACT"), ("outcome", "OUTCOME"), ("observation", "OBSERVE")):
        lines += [
            "",
            f"const char *const {name}_names[{prefix}_COUNT] = {{",
            *(f'    "{entry["name"]}",' for entry in table[name]),
            "};",
        ]
    return "\n".join([*lines, ""])


def python_text(table: Table) -> str:
    """Return src/swapstone/core/wire/protocol_words.py."""
    lines = [
        f"# {SPDX}",
        f'"""The words of the protocols. {NOTICE}"""',
        "",
        "from __future__ import annotations",
        "",
    ]
    for protocol in table["protocol"]:
        name = constant(protocol["name"])
        lines.append(f'{name}_HEADER = b"{protocol["header"]} {protocol["version"]}"')
    for protocol in table["protocol"]:
        lines += [
            "",
            f"{constant(protocol['name'])}_WORDS: tuple[str, ...] = (",
            *(f'    "{word}",' for word in protocol["words"]),
            ")",
        ]
    lines += [
        "",
        "OBSERVATIONS: tuple[str, ...] = (",
        *(f'    "{entry["name"]}",' for entry in table["observation"]),
        ")",
    ]
    lines += ['"""What a plan can ask an agent to read."""', "", "OUTCOMES: dict[str, tuple[int, int]] = {"]
    lines += [f'    "{entry["name"]}": ({entry["codes"][0]}, {entry["codes"][1]}),' for entry in table["outcome"]]
    lines += [
        "}",
        '"""How a process ended, with the lowest and highest code of each."""',
        "",
        "FACTS: dict[str, int] = {",
    ]
    lines += [f'    "{entry["name"]}": {entry["lowest"]},' for entry in table["fact"]]
    return "\n".join([*lines, "}", '"""Whole numbers that an agent may state, with the lowest value of each."""', ""])


TABLES = {
    "versions": ("protocol", "| protocol | version | described in |", "| {name} | `{header} {version}` | {document} |"),
    "observations": ("observation", "| KIND | what is read |", "| `{name}` | {meaning} |"),
    "outcomes": ("outcome", "| HOW | meaning | CODE |", "| `{name}` | {meaning} | {code} |"),
    "facts": ("fact", "| fact | meaning |", "| `{name}` | {meaning} |"),
}
"""The generated tables of docs/wire.md: list of entries, head and row of each."""


def markdown(table: Table, name: str) -> str:
    """Return a generated table of docs/wire.md."""
    entries, head, row = TABLES[name]
    rule = "|---" * (head.count("|") - 1) + "|"
    return "\n".join([head, rule, *(row.format_map(entry) for entry in table[entries])])


def document_text(text: str, table: Table) -> str:
    """Return docs/wire.md with its generated tables.

    Raises:
        ValueError: it has no place for one of them.
    """
    for name in TABLES:
        before, mark, rest = text.partition(f"<!-- words: {name} -->\n")
        _, end, after = rest.partition("<!-- end -->\n")
        if not mark or not end:
            raise ValueError(f"docs/wire.md has no place for the table {name}")
        text = f"{before}{mark}{markdown(table, name)}\n{end}{after}"
    return text


def generated(top: Path) -> dict[str, str]:
    """Return every generated file's text by its path below `top`."""
    table = read_table(top)
    return {
        "native/wire/words.h": header_text(table),
        "native/wire/words.c": source_text(table),
        "src/swapstone/core/wire/protocol_words.py": python_text(table),
        "docs/wire.md": document_text((top / "docs/wire.md").read_text(), table),
    }


def problems(top: Path, *, write: bool = False) -> list[str]:
    """Return what is wrong with the table and with the files generated from it, one line each; with `write`, write these first."""
    table = read_table(top)
    texts = generated(top)
    for name, text in texts.items() if write else ():
        (top / name).write_text(text)
    stale = [name for name, text in texts.items() if not (top / name).exists() or (top / name).read_text() != text]
    return [
        *version_problems(table),
        *undocumented(top, table),
        *(f"{name} is out of date: run tools/generate-wire --write" for name in stale),
    ]

# SPDX-License-Identifier: MIT OR Apache-2.0
"""`./swapstone`, `python -m swapstone`, and the installed command: signals are handled before anything large is imported.

`./swapstone` starts this file by its path with ``python -I``, which adds no folder to the module search path: neither the current folder,
whose ``click.py`` would replace the installed module, nor those of ``PYTHONPATH``.
"""

import sys

if not __package__:
    sys.path.insert(0, __file__.rpartition("/swapstone/")[0])

import gc
import os
import re
import sys
from collections.abc import Sequence

from swapstone.cli.interrupts import end_at_once
from swapstone.standard_streams import Outputs, current_folder_exists
from swapstone.systems import READING, missing_packages, os_release, system_line

_COLLECTED_AFTER = 1_000_000
"""Objects that are made before garbage is looked for. Python's 700 take a tenth of a short command, whose modules and runs stay."""
_FOLDER = re.compile(r"HOME|TMPDIR|XDG_[A-Z]{1,20}_(HOME|DIR)")
_WITHOUT_FOLDER = {"-h", "--help", "--version"}


def main() -> None:
    """Run the command line; see `swapstone.cli.main`."""
    gc.set_threshold(_COLLECTED_AFTER)
    # A second thread waits busily for work: a third of the processor time of a short command.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    outputs = Outputs()
    if sys.platform != "win32":
        end_at_once()
    if line := _system_line(sys.argv[1:]):
        sys.stderr.write(f"{line}\n")
        if sys.platform != "linux":
            sys.exit(outputs.status(2))
    if os.name == "posix":
        os.environ["PATH"] = absolute_entries(os.environ.get("PATH", os.defpath))
    if (problem := _folder_problem()) and _WITHOUT_FOLDER.isdisjoint(sys.argv):
        sys.stderr.write(f"error: {problem}\n")
        sys.exit(outputs.status(2))
    from swapstone.cli.main import main as run  # noqa: PLC0415 - the handlers come first

    try:
        run()
    except SystemExit as end:
        if "duckdb" not in sys.modules:  # its binding would print what is left
            gc.freeze()  # what is left ends with the process: no search for garbage
        sys.exit(outputs.status(end.code if isinstance(end.code, int) else 0))


def absolute_entries(path: str) -> str:
    """Return the value of PATH without the entries that mean the current folder: a program there would run in place of an installed one."""
    return ":".join(entry for entry in path.split(":") if entry.startswith("/"))


def _folder_problem() -> str:
    """Return which folder no command can use, and the next step; empty if there is none."""
    if not current_folder_exists():
        return "The current folder was removed.\nChange to another one: cd"
    relative = sorted(
        name for name, value in os.environ.items() if _FOLDER.fullmatch(name) and value[:1] not in {"", "/"}
    )
    if os.name == "posix" and relative:
        return f"{relative[0]} is a relative path, which means another folder after each cd.\nSet an absolute one, or: unset {relative[0]}"
    return ""


def _system_line(words: Sequence[str]) -> str:
    """Return the line about this system for a command that runs trials, on Windows for each; empty if there is nothing to print."""
    reads = not words or words[0].startswith("-") or words[0] in READING or not _WITHOUT_FOLDER.isdisjoint(words)
    if reads and sys.platform != "win32":
        return ""
    return system_line(sys.platform, os_release(), missing_packages())


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT OR Apache-2.0
"""A part of the emulator's plugin with a driver: a program that reads events, one a line, and prints what the part makes of them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

NATIVE = Path(__file__).parents[3] / "native" / "plugin"

Feed = Callable[..., list[str]]
"""Takes events, and returns the printed lines. Raises `subprocess.CalledProcessError` if a sanitizer finds an error."""


def compile_program(folder: Path, driver: str, *parts: str, define: str = "") -> Path:
    """Compile a driver beside this file with parts of the plugin, under sanitizers of addresses and undefined behaviour."""
    program = folder / "driver"
    sources = [Path(__file__).with_name(f"{driver}.c"), *(NATIVE / f"{part}.c" for part in parts)]
    sanitized = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    flags = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", *([f"-D{define}"] if define else []))
    subprocess.run(["cc", *flags, *sanitized, f"-I{NATIVE}", *sources, "-o", program], check=True)
    return program


def compile_driver(folder: Path, driver: str, *parts: str) -> Feed:
    """Compile a driver with parts of the plugin, and return what feeds it."""
    program = compile_program(folder, driver, *parts)

    def feed(*events: str) -> list[str]:
        result = subprocess.run(
            [program],
            input="\n".join(events) + "\n",
            capture_output=True,
            text=True,
            check=True,
            env={"ASAN_OPTIONS": "detect_leaks=0"},  # the tables live until the program ends
        )
        return result.stdout.splitlines()

    return feed

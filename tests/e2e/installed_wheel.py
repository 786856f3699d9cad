# SPDX-License-Identifier: MIT OR Apache-2.0
"""A wheel in a virtual environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path


def installed(wheel: Path, home: Path) -> tuple[Path, str, dict[str, str]]:
    """Install a wheel, without network; return the environment's folder, its folder of packages, and variables without this checkout's."""
    venv.create(home)
    python = home / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    install = [*pip, "install", "--quiet", "--no-compile", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    # The dependencies of this environment; Swapstone itself is not in it.
    asked = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    (Path(packages) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SWAPSTONE_"))}
    return home, packages, clean

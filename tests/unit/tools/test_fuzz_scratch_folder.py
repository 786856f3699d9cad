# SPDX-License-Identifier: MIT OR Apache-2.0
"""The folder of decoders that read files: a forked process that ends, as one that found a defect does, leaves it to the others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).parents[3]

CODE = """
import os, sys
from tools.fuzz_decoder import in_file, scratch_folder
made = scratch_folder()
child = os.fork()
if child == 0:
    sys.exit(1)
os.waitpid(child, 0)
assert in_file(b"x") == made / "file"
print(made)
"""


def test_a_fork_that_ends_leaves_the_folder_and_the_process_that_made_it_removes_it() -> None:
    environment = {"PYTHONPATH": f"{TOP / 'src'}:{TOP}", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", CODE], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not Path(done.stdout.strip()).exists()

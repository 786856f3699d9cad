# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the benchmark that the first argument names, with the further arguments: python -m benchmarks NAME [ARGUMENT...]."""

from __future__ import annotations

import importlib
import sys

name, *arguments = sys.argv[1:]
sys.exit(importlib.import_module(f"benchmarks.{name.replace('-', '_')}").main(arguments))

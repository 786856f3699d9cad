# SPDX-License-Identifier: MIT OR Apache-2.0
"""Suite `float`: floating-point arithmetic with exact and inexact operands. docs/workloads.md describes each, docs/float-abi.md its use."""

from __future__ import annotations

from swapstone.core.model import Source, Suite, Workload
from swapstone.core.workloads.metrics import COMPUTING

_OPERANDS = ("exact", "inexact")


def _work(name: str, description: str) -> tuple[Workload, ...]:
    return tuple(
        Workload(
            name=f"{name}({operands})",
            origin=Source(file=f"{name}.c"),
            arguments=(operands,),
            parameters=(("operands", operands),),
            description=f"{description}; {operands} operands",
            metrics=COMPUTING,
        )
        for operands in _OPERANDS
    )


def _loops(loops: int) -> Workload:
    return Workload(
        name=f"float_loops({loops})",
        origin=Source(file="float_loops.c"),
        arguments=(str(loops),),
        parameters=(("loops", str(loops)),),
        description=f"the work of float_calls(exact) in {loops} loops of 1000 rounds",
        metrics=COMPUTING,
    )


SUITE = Suite(
    name="float",
    description="floating-point arithmetic, with operands that need no rounding and with operands that do",
    factors=("float",),
    workloads=(
        *_work("float_calls", "call functions that add, subtract, multiply and divide floats, 100000 times each"),
        *_work("float_dot", "dot product of 500 floats, 200 times"),
        *_work("float_matrix", "product of two matrices of 24 x 24 doubles, ten times"),
        *_work("float_fft", "Fourier transform of 256 complex doubles, 25 times"),
        *_work("float_mandelbrot", "200 steps of the Mandelbrot set with floats for each of 100 points"),
        *_work("float_printf", "print 200 doubles in three formats"),
        *map(_loops, (100, 200, 400, 800)),
    ),
)

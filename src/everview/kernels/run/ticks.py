"""The processor's time counter: what operators are timed with.

The counter is read by one instruction, without a call. It runs at a constant rate that is not known in advance; see
`everview.dataflow.timing` for how ticks become nanoseconds. On processors without a counter that programs may read, it
is always 0.
"""

from __future__ import annotations

import platform
from typing import Any

from llvmlite import ir

from everview.kernels.build.native import WORD, entry, external, primitive

MACHINE = platform.machine().lower()


@primitive("int64()")
def ticks(builder: Any) -> Any:
    """The counter now."""
    if MACHINE in ("x86_64", "amd64"):
        return builder.call(external(builder, "llvm.readcyclecounter", WORD), [])
    if MACHINE in ("aarch64", "arm64"):
        return builder.asm(ir.FunctionType(WORD, []), "mrs $0, cntvct_el0", "=r", [], side_effect=True)
    return ir.Constant(WORD, 0)


@entry(brief=True, allocates=False)
def read_ticks():
    """The same for Python."""
    return ticks()
